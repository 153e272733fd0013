"""Which rows nobody who made a winner has seen."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from fakes import Bench, bench, scored

from autoprompt.optimizer.ending.fresh_rows import ancestors, fresh_of_train
from autoprompt.optimizer.state import first_state
from autoprompt.records import Candidate, Demo, Example


def family(made: Bench, **last: Any) -> Candidate:
    """original -> patch (round 1) -> demos (round 2) -> the last."""
    first_state(made.context, {})
    original = made.context.pool.original.candidate
    patch = Candidate({"prompt": "patched"}, parents=(original.id,), operator="patch", iteration=1)
    demos = Candidate(
        patch.components, (Demo("item 5", "A", "r5"),), parents=(patch.id,), operator="demos", iteration=2
    )
    winner = Candidate(**{"components": {"prompt": "won"}, "parents": (demos.id,), "iteration": 3, **last})
    for candidate in (patch, demos, winner):
        made.context.add(candidate)
    return winner


def history(made: Bench) -> list[dict[str, Any]]:
    """Round n looked at rows 10 n and 10 n + 1 of train."""
    entries = []
    for n in (1, 2, 3):
        rows = [
            scored(e, True) for e in made.context.splits.train if e.id in (f"r{10 * n}", f"r{10 * n + 1}")
        ]
        path = made.files.write_predictions(f"{n:02d}-train", rows)
        entries.append({"iteration": n, "results": {"path": path.name}})
    return entries


def hidden(made: Bench, winner: Candidate, *, holds_out: bool = False) -> set[str]:
    found = fresh_of_train(made.context, made.context.pool[winner.id], history(made), False)
    rows = [*found.unseen, *(found.shown if holds_out else ())]
    assert {r.id for r in rows} <= {r.id for r in made.context.splits.train}
    assert len({r.id for r in rows}) == len(rows)
    return {r.id for r in made.context.splits.train} - {r.id for r in rows}


def test_ancestors_are_found_once_each() -> None:
    made = bench()
    winner = family(made)
    assert {c.operator for c in ancestors(made.context, winner)} == {"original", "patch", "demos"}
    assert len(ancestors(made.context, winner)) == 4
    orphan = Candidate({"prompt": "o"}, parents=("unknown",))
    assert ancestors(made.context, orphan) == [orphan]


def test_demonstrations_of_all_ancestors_and_rows_told_to_their_authors_are_seen() -> None:
    made = bench()
    # The last author was the writer of round 1; later looks taught this family nothing.
    assert hidden(made, family(made, operator="combine")) == {"r5", "r10", "r11"}


def test_a_later_author_saw_the_later_rows_too() -> None:
    made = bench()
    winner = family(made, operator="rewrite")
    assert hidden(made, winner) == {"r5", "r10", "r11", "r20", "r21", "r30", "r31"}


def test_a_choice_by_errors_is_informed_and_a_plain_draw_is_not() -> None:
    made = bench()
    demos = (Demo("item 7", "A", "r7"),)
    assert hidden(made, family(made, operator="demos_errors", demos=demos)) >= {"r7", "r30", "r31"}
    made = bench()
    assert hidden(made, family(made, operator="demos_varied", demos=demos)) == {"r5", "r7", "r10", "r11"}


def test_asked_without_themselves_demonstrations_and_what_chose_them_are_unseen() -> None:
    made = bench()
    demos = (Demo("item 7", "A", "r7"),)
    winner = family(made, operator="demos_errors", demos=demos, told=("r8",))
    assert hidden(made, winner, holds_out=True) == {"r10", "r11"}  # told to the writer of round 1
    made = bench()
    steps = (replace(demos[0], component="prompt"),)
    assert hidden(made, family(made, operator="demos", demos=steps), holds_out=True) == {"r10", "r11"}
    made = bench()
    winner = family(made, operator="describe", demos=demos, told=("r8",))
    assert hidden(made, winner, holds_out=True) == {"r8", "r10", "r11"}
    made = bench()
    winner = family(made, operator="rewrite", demos=demos)
    assert hidden(made, winner, holds_out=True) == {"r10", "r11", "r20", "r21", "r30", "r31"}


def test_rows_that_belong_to_one_seen_or_to_validation_are_no_fresh_ones() -> None:
    """A twin of a demonstration is answered by it, and one of a raced row says again what that one said."""
    made = bench()
    splits = made.context.splits
    groups = {"r5": "demo's", "r6": "demo's", "r20": "told", "r21": "told", "r12": "val's", "r13": "train's"}
    groups |= {splits.val[0].id: "val's"}

    def with_groups(rows: tuple[Example, ...]) -> tuple[Example, ...]:
        return tuple(replace(row, group=groups.get(row.id)) for row in rows)

    made.context.splits = replace(splits, train=with_groups(splits.train), val=with_groups(splits.val))
    winner = family(made, operator="combine", told=("r20",))
    assert hidden(made, winner) == {"r5", "r6", "r10", "r11", "r12", "r20", "r21"}
