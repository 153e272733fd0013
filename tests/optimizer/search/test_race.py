"""The race: shared rows, halving, early stops, and no more calls than planned."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from fakes import add, rows, unit
from hypothesis import given, settings
from hypothesis import strategies as st

from autoprompt.errors import BudgetExhausted, EndpointError, RequestRefusedError
from autoprompt.optimizer.search.plan import make_plan, race_rows
from autoprompt.optimizer.search.pool import Entry, Pool
from autoprompt.optimizer.search.race import (
    PROBE_ROWS,
    PROBE_STEP,
    Rung,
    expected_best,
    is_behind,
    is_level,
    race,
    standing,
)
from autoprompt.records import Candidate, Example


class Track:
    """Candidates with a chance each; evaluation counts calls and fills in the pool."""

    def __init__(self, chances: Sequence[float], n: int = 48, most: int = 10**9) -> None:
        self.pool = Pool()
        self.chances = {}
        for number, chance in enumerate(chances):
            entry = self.pool.add(Candidate({"prompt": f"p{number}"}))
            self.chances[entry.candidate.id] = chance
        self.entries = list(self.pool.entries)
        self.rows = rows(0, n)
        self.calls, self.most = 0, most

    def evaluate(self, entries: Sequence[Entry], block: Sequence[Example]) -> None:
        missing = [(e, r) for e in entries for r in block if r.id not in e.scores]
        if self.calls + len(missing) > self.most:
            raise BudgetExhausted("max_calls")
        for entry, row in missing:
            chance = self.chances[entry.candidate.id]
            entry.scores[row.id] = float(unit(entry.candidate.id, row.id) < chance)
        self.calls += len(missing)

    def run(self, blocks: Sequence[int]) -> list[Rung]:
        return race(self.pool, self.entries[0], self.entries[1:], self.rows, blocks, self.evaluate)


def test_half_go_on_after_each_block_and_all_that_reach_the_end_are_kept_best_first() -> None:
    track = Track([0.5] + [0.5] * 6)
    for number, entry in enumerate(track.entries):  # equal scores: only the confidence tells them apart
        entry.confidence = {r.id: number / 10 for r in track.rows}
    track.chances = dict.fromkeys(track.chances, 1.0)
    rungs = track.run((16, 32, 48))
    assert [len(rung.ran) for rung in rungs] == [6, 3, 2]
    assert [rung.rows for rung in rungs] == [16, 32, 48]
    ids = [e.candidate.id for e in track.entries]
    assert rungs[-1].kept == (ids[6], ids[5])
    assert track.calls == race_rows(6, (16, 32, 48))


def test_a_slow_one_that_is_behind_on_a_few_rows_does_not_race() -> None:
    track = Track([1.0, 0.0, 1.0])
    original, slow, other = track.entries
    rungs = race(
        track.pool, original, [slow, other], track.rows, (16, 48), track.evaluate, is_slow=lambda e: e is slow
    )
    assert len(slow.scores) == PROBE_STEP  # no answer on the others would mend it
    assert [rung.ran for rung in rungs] == [(other.candidate.id,)] * 2
    assert track.calls == 2 * 48 + PROBE_STEP
    # One that holds races like the others, and is not asked twice.
    track = Track([0.0, 1.0])
    original, slow = track.entries
    race(track.pool, original, [slow], track.rows, (16, 48), track.evaluate, is_slow=lambda e: e is slow)
    assert len(slow.scores) == 48
    assert track.calls == 96


def test_a_slow_one_must_be_level_with_the_leader_of_the_first_rung() -> None:
    # As good as the original, which would do if nothing else were ahead.
    track = Track([0.0, 0.0, 1.0])
    original, slow, leader = track.entries
    rungs = race(
        track.pool,
        original,
        [slow, leader],
        track.rows,
        (16, 48),
        track.evaluate,
        is_slow=lambda e: e is slow,
    )
    assert len(slow.scores) == PROBE_STEP
    assert rungs[-1].kept == (leader.candidate.id,)
    # Level with it, it races, and its rung has all of the rows.
    track = Track([0.0, 1.0, 1.0, 0.5])
    original, slow, leader, other = track.entries
    rungs = race(
        track.pool,
        original,
        [slow, leader, other],
        track.rows,
        (16, 48),
        track.evaluate,
        is_slow=lambda e: e is slow,
    )
    assert set(rungs[0].ran) == {e.candidate.id for e in (slow, leader, other)}
    assert set(rungs[-1].kept) == {slow.candidate.id, leader.candidate.id}
    assert track.calls == 3 * 48 + 16


def test_a_slow_one_that_is_level_but_for_rounding_races() -> None:
    """A judge's 0.8 for every answer: six of them sum up to less than 6 times 0.8, sixteen to more."""
    track = Track([0.0, 0.0, 0.0])
    original, slow, other = track.entries

    def evaluate(entries: Sequence[Entry], block: Sequence[Example]) -> None:
        for entry in entries:
            entry.scores.update({row.id: 0.8 for row in block})

    rungs = race(
        track.pool, original, [slow, other], track.rows, (16, 48), evaluate, is_slow=lambda e: e is slow
    )
    assert set(rungs[0].ran) == {slow.candidate.id, other.candidate.id}


def test_a_slow_one_with_nothing_right_does_not_race_though_the_others_have_nothing_either() -> None:
    track = Track([0.0, 0.0, 0.0])
    original, slow, other = track.entries
    rungs = race(
        track.pool, original, [slow, other], track.rows, (16, 48), track.evaluate, is_slow=lambda e: e is slow
    )
    assert len(slow.scores) == PROBE_ROWS
    assert [rung.ran for rung in rungs] == [(other.candidate.id,)] * 2


@given(
    answers=st.lists(st.sampled_from([0.0, 0.5, 1.0]), min_size=6, max_size=6),
    others=st.lists(st.sampled_from([0.3, 0.6, 0.9]), min_size=1, max_size=4),
    weights=st.lists(st.sampled_from([0.5, 1.0, 3.0]), min_size=16, max_size=16),
)
@settings(max_examples=60, deadline=None)
def test_a_probe_that_ends_early_decides_as_the_whole_one_would(
    answers: list[float], others: list[float], weights: list[float]
) -> None:
    track = Track([0.5, 0.0, *others])
    original, slow, *fast = track.entries
    for entry in track.entries:
        entry.weights = {row.id: weight for row, weight in zip(track.rows, weights, strict=False)}

    given = {row.id: answer for row, answer in zip(track.rows, answers, strict=False)}

    def evaluate(entries: Sequence[Entry], block: Sequence[Example]) -> None:
        track.evaluate([e for e in entries if e is not slow], block)
        if slow in entries:
            slow.scores.update({row.id: given[row.id] for row in block if row.id in given})

    rungs = race(
        track.pool, original, [slow, *fast], track.rows[:16], (16,), evaluate, is_slow=lambda e: e is slow
    )
    probe = [row.id for row in track.rows[:PROBE_ROWS]]
    for row, answer in zip(probe, answers, strict=True):
        slow.scores[row] = answer
    ids = [row.id for row in track.rows[:16]]
    leading = expected_best([e.mean(ids) for e in (original, *fast)], 16)
    assert (slow.candidate.id in rungs[0].ran) == (slow.mean(probe) > max(0.0, leading - 1e-9))


def test_a_slow_one_whose_first_rows_are_lost_is_asked_no_more() -> None:
    track = Track([0.5, 0.0, 1.0])
    original, slow, other = track.entries
    asked: list[str] = []

    def evaluate(entries: Sequence[Entry], block: Sequence[Example]) -> None:
        track.evaluate([e for e in entries if e is not slow], block)
        asked.extend(row.id for row in block if slow in entries)  # and no answer comes

    rungs = race(
        track.pool, original, [slow, other], track.rows, (16, 48), evaluate, is_slow=lambda e: e is slow
    )
    assert asked == [row.id for row in track.rows[:PROBE_STEP]]
    assert rungs[0].ran == (other.candidate.id,)


def test_a_slow_one_need_not_match_the_luckiest_of_several_that_are_alike() -> None:
    rows = [Example(f"r{n}", f"{n}", "A", {}) for n in range(48)]
    rights = {"slow": 4 / 6, "lucky": 12 / 16}  # of each six, of the first 16; the others have a half
    pool = Pool(("A", "B"))
    names = ("original", "slow", "lucky", "b", "c", "d", "e")
    entries = {name: pool.add(Candidate({"prompt": name})) for name in names}

    def evaluate(asked: Sequence[Entry], block: Sequence[Example]) -> None:
        for entry in asked:
            share = rights.get(entry.candidate.prompt, 0.5)
            for row in block:
                n = int(row.id[1:])
                entry.scores[row.id] = float(int((n + 1) * share + 1e-9) > int(n * share + 1e-9))

    def is_slow(entry: Entry) -> bool:
        return entry is entries["slow"]

    original, *others = entries.values()
    race(pool, original, others, rows, (16, 48), evaluate, is_slow=is_slow)
    assert len(entries["slow"].scores) > PROBE_ROWS


def test_the_luckiest_of_several_that_are_alike_is_worth_their_mean() -> None:
    alike = [0.5, 0.5625, 0.4375, 0.625, 0.5, 0.4375]  # scatters less than coin flips of 16 rows
    assert expected_best(alike, 16) == pytest.approx(sum(alike) / len(alike))
    assert expected_best([0.7, 0.7], 16) == 0.7
    assert expected_best([0.4], 16) == 0.4


def test_a_lead_that_chance_does_not_explain_is_kept() -> None:
    assert expected_best([0.1, 0.9], 1000) == pytest.approx(0.9, abs=0.001)
    few, many = (expected_best([0.4, 0.5, 0.9], rows) for rows in (16, 64))
    assert 0.6 < few < many < 0.9


@given(st.lists(st.floats(0, 1), min_size=1, max_size=12), st.integers(1, 200))
def test_the_expected_best_lies_between_the_mean_and_the_best(shares: list[float], rows: int) -> None:
    assert sum(shares) / len(shares) - 1e-9 <= expected_best(shares, rows) <= max(shares) + 1e-9


@pytest.mark.parametrize(
    "error",
    [RequestRefusedError("max_tokens is too large"), EndpointError("cut"), BudgetExhausted("max_calls")],
)
def test_a_slow_one_that_cannot_be_asked_leaves_the_others_their_race(error: Exception) -> None:
    track = Track([0.0, 1.0, 1.0])
    original, slow, other = track.entries

    def evaluate(entries: Sequence[Entry], block: Sequence[Example]) -> None:
        if slow in entries:
            raise error
        track.evaluate(entries, block)

    def is_slow(entry: Entry) -> bool:
        return entry is slow

    rungs = race(track.pool, original, [slow, other], track.rows, (16, 48), evaluate, is_slow=is_slow)
    assert rungs[-1] == Rung(48, (other.candidate.id,), (other.candidate.id,))
    with pytest.raises(BudgetExhausted):  # with nobody else there is no race to save
        race(track.pool, original, [slow], track.rows, (16, 48), stopped, is_slow=is_slow)


def test_an_endpoint_that_is_gone_ends_the_race() -> None:
    track = Track([0.0, 1.0, 1.0])
    original, slow, other = track.entries

    def evaluate(entries: Sequence[Entry], block: Sequence[Example]) -> None:
        if slow in entries:
            raise EndpointError("gone", is_fatal=True)
        track.evaluate(entries, block)

    with pytest.raises(EndpointError, match="gone"):
        race(track.pool, original, [slow, other], track.rows, (16, 48), evaluate, is_slow=lambda e: e is slow)


def stopped(entries: Sequence[Entry], block: Sequence[Example]) -> None:
    raise BudgetExhausted("max_calls")


def test_all_of_a_rung_have_the_same_rows_and_the_incumbent_runs_along() -> None:
    track = Track([0.5, 0.9, 0.7, 0.6])
    rungs = track.run((16, 48))
    assert all(r.id in track.entries[0].scores for r in track.rows)
    for rung in rungs:
        for candidate_id in rung.ran:
            assert {r.id for r in track.rows[: rung.rows]} <= set(track.pool[candidate_id].scores)


def test_one_that_is_clearly_behind_stops_at_once_even_if_nobody_is_left() -> None:
    track = Track([1.0, 0.0, 0.0])
    rungs = track.run((16, 32, 48))
    assert rungs == [Rung(16, rungs[0].ran, ())]
    assert track.calls == 3 * 16


@pytest.mark.parametrize(
    ("worse", "better", "goes_on"), [(3, 0, False), (2, 0, True), (4, 1, False), (3, 1, True)]
)
def test_behind_by_3_to_0_or_4_to_1_is_dropped_by_less_is_not(worse: int, better: int, goes_on: bool) -> None:
    track = Track([0.0, 0.0], n=16)
    incumbent, entrant = track.entries
    for place, row in enumerate(track.rows):
        incumbent.scores[row.id] = float(place < worse)
        entrant.scores[row.id] = float(worse <= place < worse + better)
    rungs = track.run((16,))
    assert bool(rungs[-1].kept) is goes_on


def raced(costs: Sequence[float], right: Sequence[int], blocks: Sequence[int] = (16, 48)) -> list[Rung]:
    """The rungs of a race: what each costs, the incumbent first, and how many of the first rows it gets
    right."""
    track = Track([0.0] * len(costs))
    price = dict(zip((e.candidate.id for e in track.entries), costs, strict=True))
    for entry, many in zip(track.entries, right, strict=True):
        entry.scores.update({row.id: float(place < many) for place, row in enumerate(track.rows)})
    names = {e.candidate.id: f"c{number}" for number, e in enumerate(track.entries)}
    rungs = race(
        track.pool,
        track.entries[0],
        track.entries[1:],
        track.rows,
        blocks,
        track.evaluate,
        cost=lambda entry: price[entry.candidate.id],
    )
    return [Rung(r.rows, tuple(names[i] for i in r.ran), tuple(names[i] for i in r.kept)) for r in rungs]


def test_a_candidate_leaves_if_one_that_costs_no_more_is_clearly_ahead() -> None:
    # The incumbent is clearly ahead of both and costs more than one of them.
    assert raced([10, 5, 20], [12, 8, 8], blocks=(48,))[0].kept == ("c1",)
    assert raced([10, 10, 20], [12, 8, 8], blocks=(48,))[0].kept == ()
    # Among the entrants too: the first is ahead of the third and cheaper.
    assert raced([1, 5, 10, 20], [0, 12, 12, 8], blocks=(48,))[0].kept == ("c1", "c2")


def test_the_last_place_of_a_rung_goes_to_the_cheapest_that_is_level_with_the_leader() -> None:
    # One row of 16 behind is level, three rows are not.
    assert raced([1, 50, 40, 30, 9], [0, 14, 14, 13, 13])[0].kept == ("c2", "c4")
    assert raced([1, 50, 40, 30, 9], [0, 14, 14, 13, 11])[0].kept == ("c2", "c3")
    # With one place alone it is the leader's.
    assert raced([1, 50, 9], [0, 14, 13])[0].kept == ("c1",)


def test_of_equal_scores_the_cheaper_is_ahead_and_then_the_surer() -> None:
    pool = Pool()
    dear, cheap, sure = (pool[add(pool, name, [1.0, 0.0])] for name in ("dear", "cheap", "sure"))
    dear.confidence = {"r0": 1.0, "r1": 1.0}
    sure.confidence = {"r0": 0.9, "r1": 0.8}
    cheap.confidence = {"r0": 0.9, "r1": 0.7}
    costs = {dear.candidate.id: 3.0, cheap.candidate.id: 1.0, sure.candidate.id: 1.0}
    ranked = sorted(pool.entries, key=lambda e: standing(e, ["r0", "r1"], lambda e: costs[e.candidate.id]))
    assert [e.candidate.prompt for e in ranked] == ["sure", "cheap", "dear"]


@pytest.mark.parametrize(
    ("rows", "worse", "better", "level"),
    [
        (45, 0, 0, True),
        (45, 1, 0, True),
        (45, 2, 0, False),
        (45, 3, 1, True),
        (45, 4, 1, False),
        (200, 2, 0, True),
        (200, 3, 0, False),
        (45, 0, 5, True),
    ],
)
def test_level_is_a_point_or_one_standard_error_behind(
    rows: int, worse: int, better: int, level: bool
) -> None:
    pool = Pool()
    ours = [0.0] * worse + [1.0] * (rows - worse)
    theirs = [1.0] * (rows - better) + [0.0] * better
    a, b = add(pool, "a", ours), add(pool, "b", theirs)
    assert is_level(pool, pool[a], pool[b], [f"r{n}" for n in range(rows)]) is level


def test_a_single_row_behind_is_level_whatever_rows_belong_together() -> None:
    names = [f"r{n}" for n in range(40)]
    pool = Pool(groups={name: name[:2] for name in names})
    a, b = add(pool, "a", [0.0] + [1.0] * 39), add(pool, "b", [1.0] * 40)
    assert is_level(pool, pool[a], pool[b], names)


@settings(max_examples=60)
@given(
    st.lists(st.floats(0, 1), min_size=2, max_size=13),
    st.integers(1, 130),
    st.integers(0, 10**6),
)
def test_a_race_never_runs_more_than_race_rows(chances: list[float], n: int, salt: int) -> None:
    track = Track([(c + salt % 7 / 7) % 1 for c in chances], n)
    plan = make_plan(track.rows)
    track.rows = plan.race
    track.run(plan.blocks)
    assert track.calls <= race_rows(len(chances) - 1, plan.blocks)


@given(st.integers(1, 12), st.integers(1, 130))
def test_race_rows_is_what_a_race_without_early_stops_counts(entrants: int, n: int) -> None:
    track = Track([1.0] * (entrants + 1), n)
    plan = make_plan(track.rows)
    track.rows = plan.race
    track.run(plan.blocks)
    assert track.calls == race_rows(entrants, plan.blocks)


def test_a_budget_that_ends_passes_through_and_the_finished_blocks_stay() -> None:
    track = Track([0.5, 0.5, 0.5], most=3 * 16)
    with pytest.raises(BudgetExhausted):
        track.run((16, 48))
    assert [len(e.scores) for e in track.entries] == [16, 16, 16]


def test_three_rows_of_one_group_put_nobody_behind() -> None:
    ids = ["r0", "r1", "r2", "r3"]
    for groups, expected in ({}, True), (dict.fromkeys(ids, "g"), False):
        pool = Pool(groups=groups)
        a, b = add(pool, "ahead", [1.0] * 4), add(pool, "behind", [0.0] * 3 + [1.0])
        assert is_behind(pool, pool[a], pool[b], ids) is expected
