"""How a run spends its calls: which validation rows race, which stay fresh, how many candidates a round."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from autoprompt.errors import BudgetTooSmallError, Place, Problem
from autoprompt.optimizer.search.operators import MOST
from autoprompt.records import Example, Part
from autoprompt.stats import count_groups
from autoprompt.text.names import counted


@dataclass(frozen=True, slots=True)
class Depth:
    """What a preset means.

    calls_per_row: default cap on calls, in multiples of the validation rows. candidates, writers: most
    candidates, and most writer's proposals among them, in a round. patience: rounds in a row without a gain
    that end the search.
    most_rows: cap on validation and on test rows; None leaves the settings' own.
    rewrites: whether the writer changes prompts as it thinks fit, besides saying what the answers mean.
    """

    max_iterations: int
    calls_per_row: int
    candidates: int
    writers: int
    patience: int
    most_rows: int | None = None
    rewrites: bool = True

    def describing(self, *, has_labels: bool) -> Depth:
        """Of a writer as small as the embedded model: asked for the rule of free answers, and no more.

        To write or change a prompt takes it 20 to 40 s, as to analyse errors, and to race with the prompt as
        long again. None of 22 winners was such a prompt, and where answers are labels it copies rows
        (benchmarks/docs/embedded_model.md); words that are typical of labels cost no call.
        """
        writers = 0 if has_labels else 1
        return replace(self, candidates=self.candidates * 3 // 4, writers=writers, rewrites=False)

    @property
    def writings(self) -> int:
        """Calls to the writer in a round, beside descriptions that are refused: each draft has a second try.

        A rule of free answers has none.
        """
        return 2 * self.writers if self.rewrites else self.writers

    @property
    def most_writings(self) -> int:
        """Calls to the writer in a round at most."""
        return self.writings + min(MOST["describe"], self.writers) if self.rewrites else self.writings

    @property
    def slow(self) -> Depth:
        """Of the embedded model once the best reasons before it answers, and the original does not.

        Two candidates of the six of `describing`, three of eight (+0.002 ± 0.012 beside each other).

        The large step is taken, and each row takes many times as long: 5-25 s, so that seven candidates over
        24 rows took half an hour. `patience` is then of rounds, with a gain or without: a child that is a row
        of 24 ahead bought another 13 minutes, and was worth less than its parent on rows of neither. A server
        answers many at once, and who caps its calls wants them used.
        """
        return replace(self, candidates=self.candidates * 3 // 8, patience=max(1, self.patience - 2))


# `quick` is one good race and one refinement; 15-30 calls a validation row are GEPA's and MIPROv2's budgets.
DEPTHS = {
    "quick": Depth(max_iterations=2, calls_per_row=4, candidates=8, writers=2, patience=2, most_rows=50),
    "standard": Depth(max_iterations=6, calls_per_row=15, candidates=8, writers=4, patience=3),
    "thorough": Depth(max_iterations=15, calls_per_row=30, candidates=12, writers=6, patience=5),
}

# Of a part that is cut shorter for a cap on calls. A final comparison on all rows of a large file would leave
# no calls to search with, and fewer rows than these could confirm next to nothing. Simulated with 150 rows
# and no test (`benchmarks/simulated.py --val`, four worlds, 30 seeds each): at 250 calls a mean gain of 0.117
# with 45 validation rows and 0.075 with all 75, at 200 calls 0.089 and 0.066, at 160 calls 0.068 with 28 rows
# and none with 75; at 320 and 400 calls no difference.
FEWEST_ROWS = 28
# Of a part where a row takes more calls than two, as of an agent: then 28 rows of each are a thousand calls,
# and a cap below that is no slip. Five rows can just confirm a gain (5-0 is one in 32).
SCARCE_ROWS = 5
_SCARCE_ENTRANTS = 3  # of a race over that few rows, unless that makes them fewer than eight
_FEW_CALLS = 2  # of a row: a prompt with a judge, or two steps
FEWEST_TOLD = 8  # rows of train; what fewer have in common is better shown than described
FIRST_BLOCK = 16  # rows of the first stage of a race: 5-0 and 7-1 already decide there
TRAIN_BATCH = 16  # rows of train that a round evaluates for its analyst
FEWEST_ENTRANTS = 6  # a short race finds little: few full rounds beat many thin ones where calls are scarce
FRESH_SHARE = 0.4  # of validation, kept for the confirmation of the winner
# Of the calls beyond the smallest cap. Simulated at 400 calls, 75 rows of validation: with a quarter the
# winners of `both`, `many` and `worthless` are those without simpler forms (20 seeds each), while with a half
# 6 more of 60 were not confirmed.
SIMPLIFYING_SHARE = 0.25
PICK_SHARE = 0.15  # of all calls, for the second of the two ends that are tested
FEWEST_FRESH = 12  # rows of validation; fewer confirm next to nothing, so all race


@dataclass(frozen=True, slots=True)
class Plan:
    """race: validation rows that candidates are compared on, in blocks; fresh: rows kept for the winner.

    calls_per_row: requests that one row takes, 2 where a judge scores it; of a program or a workflow whose
    rows differ about their mean, so some rows take calls from beyond their block. train_batch: rows of train
    that a round evaluates for its analyst. pick_calls: kept back for the cheaper of the two tested ends.
    """

    race: tuple[Example, ...]
    fresh: tuple[Example, ...]
    blocks: tuple[int, ...]
    calls_per_row: float = 1
    train_batch: int = TRAIN_BATCH
    pick_calls: int = 0

    def calls(self, rows: float) -> int:
        """Return the calls to plan for so many rows."""
        return _calls_of(rows, self.calls_per_row)

    @property
    def slow(self) -> Plan:
        """Of a race in which every answer takes many times as long: half a first block parts the field.

        Of three candidates over 24 rows that saves 16 answers of 64, and loses nothing (`simulated.py
        --ablations --embedded --part slow`).
        """
        half = self.blocks[0] // 2 if self.blocks else 0
        return replace(self, blocks=(half, *self.blocks)) if half else self

    @property
    def race_ids(self) -> list[str]:
        return [e.id for e in self.race]

    @property
    def fresh_ids(self) -> list[str]:
        return [e.id for e in self.fresh]

    @property
    def groups(self) -> tuple[int, int]:
        """How many there are of raced and of fresh rows, a row alone being one."""
        return count_groups([e.group for e in self.race]), count_groups([e.group for e in self.fresh])


def interleave(examples: Sequence[Example]) -> list[Example]:
    """Return the same rows so ordered that every beginning holds the targets in about their overall shares.

    Order within a target is kept. Free-text targets (all different) come back unchanged.
    """
    by_target: dict[str, list[Example]] = {}
    for example in examples:
        by_target.setdefault(example.target_text, []).append(example)
    placed = [
        ((rank + 0.5) / len(rows), number, row)
        for number, rows in enumerate(by_target.values())
        for rank, row in enumerate(rows)
    ]
    if len(by_target) > len(examples) / 2:
        return list(examples)
    return [row for _, _, row in sorted(placed, key=lambda p: (p[0], p[1]))]


def fresh_rows(val_rows: int) -> int:
    """Return how many of so many validation rows are kept fresh."""
    fresh = int(val_rows * FRESH_SHARE)
    return fresh if fresh >= FEWEST_FRESH else 0


def make_plan(val: Sequence[Example], calls_per_row: float = 1, train_batch: int = TRAIN_BATCH) -> Plan:
    """Split validation into the part that races and the part kept fresh, and the race into blocks.

    Rows of a group are all raced or all fresh: else the fresh ones would say again what the raced ones said.
    """
    race, fresh = _parted(interleave(val))
    return Plan(tuple(race), tuple(fresh), blocks_of(len(race)), calls_per_row, train_batch)


def blocks_of(rows: int) -> tuple[int, ...]:
    """Return where the stages of a race over so many rows end."""
    blocks: list[int] = []
    edge = min(FIRST_BLOCK, rows)
    while edge < rows:
        blocks.append(edge)
        edge *= 2
    blocks.append(rows)
    if len(blocks) > 1 and blocks[-1] - blocks[-2] < FIRST_BLOCK // 2:
        del blocks[-2]
    return tuple(blocks)


def _parted(ordered: Sequence[Example]) -> tuple[list[Example], list[Example]]:
    """Return the rows that race and those that stay fresh.

    Of single rows the last ones stay fresh, of groups about as many.
    """
    groups: dict[str, list[Example]] = {}
    for row in reversed(ordered):
        groups.setdefault(row.unit, []).append(row)
    room, kept, fresh = fresh_rows(len(ordered)), 0, set[str]()
    for rows in groups.values():
        if len(rows) < 2 * room:
            room -= len(rows)
            kept += 1
            fresh.update(row.id for row in rows)
    if kept < FEWEST_FRESH:
        return list(ordered), []
    return [row for row in ordered if row.id not in fresh], [row for row in ordered if row.id in fresh]


def race_rows(candidates: int, blocks: Sequence[int]) -> int:
    """Rows of a race of so many candidates when each stage keeps half, the incumbent's included."""
    cost, alive, before = 0, candidates, 0
    for edge in blocks:
        cost += (alive + 1) * (edge - before)
        alive, before = max(1, (alive + 1) // 2), edge
    return cost


def race_cost(candidates: int, plan: Plan) -> int:
    """Return the calls of a race of so many candidates."""
    return plan.calls(race_rows(candidates, plan.blocks))


def final_cost(plan: Plan, test_rows: int) -> int:
    """Return the calls of the end: winner and original on the fresh rows and on the sealed test."""
    return plan.calls(2 * (len(plan.fresh) + test_rows))


def simplifying_calls(plan: Plan, spare_calls: float = math.inf) -> int:
    """Return the calls of a race of simpler forms: three leave after a block, one races to the end.

    None where a cap has cut all parts far shorter (`SCARCE_ROWS`): the race needs them all.
    spare_calls: those beyond the smallest cap, of which this takes SIMPLIFYING_SHARE at most.
    """
    if plan.train_batch < TRAIN_BATCH:
        return 0
    wanted = plan.calls(len(plan.race) + 3 * sum(plan.blocks[:1]))
    return int(min(wanted, SIMPLIFYING_SHARE * max(0.0, spare_calls)))


def with_pick(plan: Plan, test_rows: int, max_calls: int, spare_calls: float = math.inf) -> Plan:
    """Return the plan with calls kept back for a cheaper end, on the fresh rows and on the sealed test.

    At most PICK_SHARE of all calls; beyond that the cheaper end gets what the search does not use.

    Args:
        spare_calls: Those that a round and the final step leave, of which this takes a quarter at most.
    """
    wanted = plan.calls(len(plan.fresh) + test_rows)
    room = min(PICK_SHARE * max_calls, spare_calls / 4)
    return replace(plan, pick_calls=max(0, int(min(wanted, room))))


def default_max_calls(depth: Depth, plan: Plan, test_rows: int) -> int:
    """With the plain analyst's rows; what another one takes comes on top."""
    search = max(
        plan.calls(depth.calls_per_row * (len(plan.race) + len(plan.fresh))),
        plan.calls(TRAIN_BATCH) + race_cost(depth.candidates, plan),
    )
    return final_cost(plan, test_rows) + search + simplifying_calls(plan)


@dataclass(frozen=True, slots=True)
class Overhead:
    """What calls go to beside candidates on rows.

    optimizer_calls: see `fewest_optimizer_calls`. calls_per_row, train_batch: as in `Plan`.
    """

    optimizer_calls: int
    calls_per_row: float = 1
    train_batch: int = TRAIN_BATCH


def fewest_optimizer_calls(depth: Depth, analyst_calls: int) -> int:
    """Those that the smallest cap has room for: of two analyses, one of a second look at train, and of one
    round's writers."""
    return 2 * analyst_calls + depth.writers


def fewest_calls(plan: Plan, test_rows: int, optimizer_calls: int) -> int:
    """Return the smallest cap with which a run means something: a round, two candidates, the final step.

    One candidate if the cap has cut all parts far shorter, see `SCARCE_ROWS`.

    optimizer_calls: see `fewest_optimizer_calls`.
    """
    overhead = Overhead(optimizer_calls, plan.calls_per_row, plan.train_batch)
    return _calls(_fewest_entrants(plan.train_batch), len(plan.fresh), plan.blocks, test_rows, overhead)


def first_round_calls(plan: Plan, test_rows: int, overhead: Overhead) -> int:
    """Return the calls of a first round that finds something, and of the final step."""
    return _calls(FEWEST_ENTRANTS, len(plan.fresh), plan.blocks, test_rows, overhead)


def calls_for(entrants: int, val_rows: int, test_rows: int, overhead: Overhead) -> int:
    """Return the calls of a round with so many candidates and of the final step, without groups of rows."""
    fresh = fresh_rows(val_rows)
    return _calls(entrants, fresh, blocks_of(val_rows - fresh), test_rows, overhead)


def _calls(entrants: int, fresh: int, blocks: Sequence[int], test_rows: int, overhead: Overhead) -> int:
    """With a second look at train after the race: a cap at its least has room for that, or for repeats.

    A batch that was cut shorter (see `SCARCE_ROWS`) is looked at once.
    """
    looks = 2 if overhead.train_batch >= TRAIN_BATCH else 1
    rows = looks * overhead.train_batch + 2 * (fresh + test_rows) + race_rows(entrants, blocks)
    return _calls_of(rows, overhead.calls_per_row) + overhead.optimizer_calls


def _fewest_entrants(train_batch: int) -> int:
    """Return how many candidates a round has at least: one where a cap on calls has cut its batch, too."""
    return 2 if train_batch >= TRAIN_BATCH else 1


def _calls_of(rows: float, calls_per_row: float) -> int:
    return math.ceil(round(rows * calls_per_row, 6))


def check_budget(
    max_calls: int | None, plan: Plan, test_rows: int, optimizer_calls: int, *, tried: int = 0
) -> None:
    """Refuse a cap too small for the final test: BudgetTooSmallError names the smallest that works.

    tried: calls of the cap that have tried a program.
    """
    needed = tried + fewest_calls(plan, test_rows, optimizer_calls)
    if max_calls is not None and max_calls < needed:
        said = (
            f"{counted(max_calls, 'call is', 'calls are')} too few: one round and the final comparison "
            f"(winner and original on {counted(len(plan.fresh), 'fresh validation row')} and "
            f"{counted(test_rows, 'test row')}) take {needed}"
        )
        raise BudgetTooSmallError(
            Problem(
                "budget.too-few-calls",
                said,
                Place(setting="max_calls"),
                "Give {max_calls} or more, or use fewer rows with {max_test} and {max_val}.",
                {"max_calls": needed, "max_test": None, "max_val": None},
            )
        )


def candidates_for(
    remaining_calls: float, rounds_left: int, most: int, plan: Plan, *, look: int, writers: int
) -> int:
    """How many candidates the coming round can race on its share of what is left; 0 where not even two fit.

    One will do if a cap has cut all parts far shorter.

    remaining_calls: what is not reserved for the end; infinite where no cap is set. look, writers: calls of a
    round beside its race, before its candidates are planned and after.
    """
    share = remaining_calls / max(1, rounds_left) - look - writers
    for number in range(most, _fewest_entrants(plan.train_batch) - 1, -1):
        is_within_share = race_cost(number, plan) <= max(share, race_cost(FEWEST_ENTRANTS, plan))
        if is_within_share and writers + race_cost(number, plan) <= remaining_calls:
            return number
    return 0


def rows_with_room(
    max_calls: int, val_rows: int, test_rows: int, overhead: Overhead, *, movable: Collection[Part]
) -> dict[Part, int]:
    """Rows of `val` and `test` that leave room for a first race of FEWEST_ENTRANTS candidates.

    movable: which of the two may be cut shorter; the longer one is first, and none below FEWEST_ROWS. Where
    that is not enough, the race has fewer candidates. Where not even two fit, a task whose rows take several
    calls makes do with fewer rows, down to SCARCE_ROWS, and as few of train; else an error names the price.
    """
    sizes: dict[Part, int] = {"val": val_rows, "test": test_rows}

    def cut_to(most: int) -> dict[Part, int]:
        return {part: min(rows, most) if part in movable else rows for part, rows in sizes.items()}

    for most in range(max((sizes[part] for part in movable), default=0), FEWEST_ROWS, -1):
        rows = cut_to(most)
        if calls_for(FEWEST_ENTRANTS, rows["val"], rows["test"], overhead) <= max_calls:
            return rows
    if overhead.calls_per_row <= _FEW_CALLS:
        return cut_to(FEWEST_ROWS)
    for entrants, least in ((_SCARCE_ENTRANTS, SCARCE_ROWS + _SCARCE_ENTRANTS), (1, SCARCE_ROWS)):
        for most in range(FEWEST_ROWS, least, -1):
            rows = cut_to(most)
            scarce = replace(overhead, train_batch=scarce_batch(overhead.train_batch, rows["val"]))
            if calls_for(entrants, rows["val"], rows["test"], scarce) <= max_calls:
                return rows
    return cut_to(SCARCE_ROWS)


def scarce_batch(train_batch: int, val_rows: int) -> int:
    """Return how many rows of train a round evaluates where a cap on calls has left so many of validation."""
    return train_batch if val_rows >= FEWEST_ROWS else min(train_batch, val_rows)
