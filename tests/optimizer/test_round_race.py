"""Settling a round: who is accepted, who is the best."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from fakes import LABELS, PROMPT, Bench, World, bench, number_of, splits_of, target_of, unit

from autoprompt.llm.client import Completion, Options
from autoprompt.optimizer.graph import first_state
from autoprompt.optimizer.round_race import race_round
from autoprompt.records import Candidate, Change, Demo, Message

WORLD = World(base=0.3, rule_gain=0.6)


def pending(made: Bench, *texts: str, operator: str = "rewrite") -> list[str]:
    first_state(made.context, {})
    original = made.context.pool.original.candidate.id
    entries = [
        made.context.add(
            Candidate({"prompt": text}, parents=(original,), operator=operator, change=Change(note=text))
        )
        for text in texts
    ]
    return [e.candidate.id for e in entries]


def settled(made: Bench, ids: list[str], **given: Any) -> Any:
    original = made.context.pool.original.candidate.id
    return race_round(made.context, original, ids, given.get("tally", {}))


def test_a_better_one_becomes_the_best_and_a_worse_one_does_not() -> None:
    made = bench(WORLD.student)
    good, bad = pending(made, f"{PROMPT} Mind the rule.", f"{PROMPT} Believe the myth.")
    result = settled(made, [bad, good])
    assert (result.incumbent, result.is_better, result.stop_reason) == (good, True, "")
    assert made.context.pool[good].status == "accepted"
    assert made.context.pool[bad].status == "rejected"
    assert result.tally == {"rewrite": [2, 1]}
    assert made.kinds("best_changed")[0]["id"] == good
    assert [e["accepted"] for e in made.kinds("candidate_settled")] == [False, True]


def test_each_rung_tells_who_leads() -> None:
    made = bench(WORLD.student)
    good, bad = pending(made, f"{PROMPT} Mind the rule.", f"{PROMPT} Believe the myth.")
    settled(made, [bad, good])
    rungs = made.kinds("rung_ended")
    assert [rung["rows"] for rung in rungs] == list(made.context.plan.blocks)
    assert (rungs[0]["ran"], rungs[-1]["leader"]) == (2, good)
    assert rungs[-1]["score"] > rungs[-1]["best_score"]
    assert [rung["calls"] for rung in rungs] == sorted(rung["calls"] for rung in rungs)


def test_where_none_is_ahead_the_best_so_far_leads() -> None:
    made = bench(WORLD.student)
    (bad,) = pending(made, f"{PROMPT} Believe the myth.")
    settled(made, [bad])
    assert {rung["leader"] for rung in made.kinds("rung_ended")} == {made.context.pool.original.candidate.id}


def test_one_that_beats_its_parent_but_not_the_best_is_accepted_only() -> None:
    def student(messages: list[Message], options: Options) -> Completion:
        text, number = messages[0].content, number_of(messages)
        chance = 0.9 if "rule" in text else 0.87 if "hint" in text else 0.3
        right = unit("row", number) < chance
        return Completion(target_of(number) if right else LABELS[1 - LABELS.index(target_of(number))])

    made = bench(student)
    best, second = pending(made, f"{PROMPT} Mind the rule.", f"{PROMPT} Take the hint.")
    first = settled(made, [best])
    assert first.incumbent == best
    again = race_round(made.context, best, [second], {})
    pool, race = made.context.pool, made.context.plan.race_ids
    assert pool.original.mean(race) < pool[second].mean(race) < pool[best].mean(race)
    assert pool[second].status == "accepted"
    assert (again.incumbent, again.is_better) == (best, False)
    assert [e["id"] for e in made.kinds("best_changed")] == [best]


def test_a_row_that_the_endpoint_lost_does_not_change_who_is_the_best(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made = bench(WORLD.student)
    (good,) = pending(made, f"{PROMPT} Mind the rule.")
    ids = made.context.plan.race_ids
    original, entry = made.context.pool.original, made.context.pool[good]
    # Two rows ahead: enough for a whole race, too little for one that a budget stopped.
    original.scores.update({name: float(n < 18) for n, name in enumerate(ids)})
    entry.scores.update({name: float(n < 20) for n, name in enumerate(ids[:-1])})
    monkeypatch.setattr("autoprompt.optimizer.round_race._evaluate", lambda *_: None)
    assert settled(made, [good]).incumbent == good


def test_an_equal_one_changes_nothing() -> None:
    made = bench(WORLD.student)
    (same,) = pending(made, f"{PROMPT} Take care.")
    result = settled(made, [same])
    assert not result.is_better
    assert result.incumbent == made.context.pool.original.candidate.id
    assert made.context.pool[same].status == "rejected"
    assert made.kinds("best_changed") == []


@pytest.mark.parametrize(
    ("demos", "wrong", "accepted", "becomes_best"),
    [(3, 0, True, True), (3, 1, True, False), (3, 3, False, False), (9, 1, False, False)],
)
def test_a_level_child_that_costs_a_fifth_less_is_accepted(
    demos: int, wrong: int, accepted: bool, becomes_best: bool
) -> None:
    """Level and cheaper it may be built on; the best is who has the higher score, of equals the cheaper."""
    made = bench(WORLD.student)
    first_state(made.context, {})
    context, ids = made.context, made.context.plan.race_ids
    shown = tuple(Demo(f"item {n}", LABELS[0]) for n in range(10))
    parent, child = (
        context.add(Candidate({"prompt": PROMPT}, demos=shown[:n], parents=(above,), operator="demos"))
        for n, above in ((10, context.pool.original.candidate.id), (demos, ""))
    )
    child.candidate = replace(child.candidate, parents=(parent.candidate.id,))
    context.pool.original.scores.update(dict.fromkeys(ids, 0.0))
    parent.scores.update({name: float(n < 20) for n, name in enumerate(ids)})
    child.scores.update({name: float(n < 20 - wrong) for n, name in enumerate(ids)})
    result = race_round(context, parent.candidate.id, [child.candidate.id], {})
    assert child.status == ("accepted" if accepted else "rejected")
    assert result.incumbent == (child if becomes_best else parent).candidate.id
    assert not result.is_better  # the same score for less is no gain that buys another round


def test_only_race_rows_are_asked_and_all_in_the_pool() -> None:
    made = bench(WORLD.student)
    (good,) = pending(made, f"{PROMPT} Mind the rule.")
    settled(made, [good])
    race = made.context.plan.race_ids
    assert list(made.context.pool[good].scores) == race
    assert list(made.context.pool.original.scores) == race
    assert len(made.task.calls) == 2 * len(race)
    assert made.context.changed == {good, made.context.pool.original.candidate.id}


def test_what_is_handed_over_stays_as_it_was() -> None:
    made = bench(WORLD.student)
    ids = pending(made, f"{PROMPT} Believe the myth.")
    tally = {"rewrite": [1, 0]}
    settled(made, ids, tally=tally)
    assert tally == {"rewrite": [1, 0]}


def test_a_budget_that_ends_judges_the_furthest_by_the_rows_they_have() -> None:
    # The first block of 16 rows for two, and not the second.
    made = bench(WORLD.student, splits=splits_of(32, 120, 0), max_calls=40)
    (good,) = pending(made, f"{PROMPT} Mind the rule.")
    result = settled(made, [good])
    assert result.stop_reason == "max_calls"
    assert len(made.task.calls) == 32
    assert made.kinds("candidate_settled")[0]["rows"] == 16
    assert made.context.pool[good].status == "accepted"
    assert result.incumbent == good


def test_a_budget_that_ends_halfway_makes_nobody_the_best_by_a_hair() -> None:
    made = bench(WORLD.student, splits=splits_of(32, 120, 0), max_calls=40)
    (hair,) = pending(made, f"{PROMPT} Take care.")
    block = [row.id for row in made.context.plan.race[:16]]
    scores = {row: float(n < 12) for n, row in enumerate(block)}
    made.context.pool.original.scores.update(scores)
    made.context.pool[hair].scores.update({**scores, block[12]: 1.0})
    result = settled(made, [hair])
    assert result.stop_reason == "max_calls"
    assert not result.is_better
    assert result.incumbent == made.context.pool.original.candidate.id


def test_a_budget_that_ends_before_the_first_block_accepts_nobody() -> None:
    made = bench(WORLD.student, max_calls=10)
    (good,) = pending(made, f"{PROMPT} Mind the rule.")
    result = settled(made, [good])
    assert made.task.calls == []
    assert made.context.pool[good].status == "rejected"
    assert (result.is_better, result.stop_reason) == (False, "max_calls")
