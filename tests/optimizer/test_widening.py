"""A winner gets the rows that chose it as demonstrations, if rows that chose nothing do not object."""

from __future__ import annotations

from fakes import Bench, World, bench, number_of, target_of, unit
from test_graph import run

from autoprompt.llm.client import Completion, Options
from autoprompt.search.pool import Entry
from autoprompt.types import Message

GAIN = World(base=0.2, rule_gain=0.5, demo_gain=0.4)


def wider_of(made: Bench) -> Entry:
    (found,) = (e for e in made.context.pool.entries if e.candidate.operator == "demos_widened")
    return found


def test_the_wider_set_is_measured_on_fresh_rows_and_returned() -> None:
    made = bench(GAIN.student)
    final = run(made)
    wider, plan = wider_of(made), made.context.plan
    (parent,) = wider.candidate.parents
    narrower = made.context.pool[parent].candidate
    fresh = set(plan.fresh_ids)
    assert len(wider.candidate.demos) > len(narrower.demos)
    assert set(narrower.demos) <= set(wider.candidate.demos)
    assert not {demo.example_id for demo in wider.candidate.demos} & fresh
    assert set(wider.scores) >= fresh
    found = final["confirmation"]["widened"]
    assert found["chosen"] is (found["score"] >= found["other_score"])
    assert final["confirmation"]["candidate"] == parent
    assert final["incumbent"] == (wider.candidate.id if found["chosen"] else parent)


def too_many_confuse(messages: list[Message], options: Options) -> Completion:
    """Some demonstrations help, and many hurt."""
    number, shown = number_of(messages), len(messages) // 2 - 1
    chance = 0.2 if not shown else 0.9 if shown <= 20 else 0.3
    right = unit("row", number) < chance
    return Completion(target_of(number) if right else "B" if target_of(number) == "A" else "A")


def test_a_wider_set_that_does_worse_is_left() -> None:
    made = bench(too_many_confuse)
    final = run(made)
    wider = wider_of(made)
    assert wider.status == "rejected"
    assert final["confirmation"]["widened"]["chosen"] is False
    assert final["incumbent"] == wider.candidate.parents[0]
    assert final["results"]["path"] == "test-best.jsonl"


def test_nothing_is_tried_where_no_calls_are_left_for_it() -> None:
    free = bench(GAIN.student)
    run(free)
    cap = free.context.budget.spent.calls - 1
    made = bench(GAIN.student, max_calls=cap)
    final = run(made)
    assert made.context.budget.spent.calls <= cap
    assert "best" in final["test"]
