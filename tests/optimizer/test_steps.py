"""Which component of a program is changed next, and what its demonstrations are drawn from."""

from __future__ import annotations

import random
from collections import Counter

import pytest
from fakes import add

from autoprompt.optimizer.propose.steps import (
    blame_of,
    credit,
    is_in,
    next_component,
    step_examples,
    suspect_steps,
)
from autoprompt.optimizer.search.pool import Pool
from autoprompt.records import Candidate, EvaluatedRow, Example, Step

NAMES = ["find.system", "judge.system"]
OPEN = ["find.system", "find.user", "judge.system"]
TRAIN = [Example(f"r{n}", f"item {n}", "A", {}) for n in range(6)]


def traced(find: str, judge: str, answer: str, truth: str, **judged: str) -> EvaluatedRow:
    steps = (
        Step("find", ("find.system",), "the row", find),
        Step("tool", (), find, "looked up"),
        Step("judge", ("judge.system",), find, judge, **judged),  # type: ignore[arg-type]
    )
    right = answer == truth
    return EvaluatedRow("r", "the row", answer, truth, right, float(right), trace=steps)


def nodes(row: EvaluatedRow) -> list[str]:
    return [step.node for step in suspect_steps(row)]


def test_the_first_step_that_failed_is_blamed() -> None:
    assert nodes(traced("", "", "", "A", error="no answer")) == ["judge"]


def test_the_step_whose_output_became_the_wrong_answer_is_blamed() -> None:
    assert nodes(traced("a mark", "B", "B", "A")) == ["judge"]


def test_of_an_answer_in_parts_the_step_of_the_wrong_part_is_blamed() -> None:
    assert nodes(traced("billing", "high", "billing / high", "billing / low")) == ["judge"]
    assert nodes(traced("billing", "high", "billing / high", "login / high")) == ["find"]


def test_a_step_that_gave_a_right_part_is_not_under_suspicion() -> None:
    assert nodes(traced("billing", "urgent", "Billing, prio 1", "Billing, prio 3")) == ["judge"]


def test_where_nothing_tells_every_step_with_a_prompt_is_under_suspicion() -> None:
    assert nodes(traced("x", "y", "z", "A")) == ["find", "judge"]


def test_blame_is_the_share_of_the_wrong_rows() -> None:
    rows = [traced("m", "B", "B", "A")] * 3 + [traced("x", "y", "z", "A")] + [traced("m", "A", "A", "A")] * 5
    assert blame_of(rows, NAMES) == {"judge.system": 3.5 / 4, "find.system": 0.5 / 4}
    assert blame_of(rows[4:], NAMES) == {}


def test_the_analysts_word_counts_half() -> None:
    rows = [traced("m", "B", "B", "A")]
    assert blame_of(rows, NAMES, {"find.system": 2}) == {"find.system": 0.5, "judge.system": 0.5}
    assert blame_of([], NAMES, {"find.system": 2, "other": 1}) == {"find.system": 1.0}


def test_a_locked_component_gets_no_blame() -> None:
    assert blame_of([traced("x", "y", "z", "A")], ["find.system"]) == {"find.system": 1.0}


@pytest.mark.parametrize(
    ("part", "text", "found"),
    [
        ("Billing", "billing/high", True),
        ("bill", "billing/high", False),
        ("two  words", "says two words here", True),
        ("", "anything", False),
        ("退款", "退款", True),
        ("c++", "c++ / low", True),
    ],
)
def test_parts_are_whole_words(part: str, text: str, found: bool) -> None:
    assert is_in(part, text) is found


def outcomes(find: tuple[int, int], judge: tuple[int, int]) -> Pool:
    """A pool in which edits of each component were (accepted, rejected) so often."""
    pool = Pool()
    original = pool.add(Candidate(dict.fromkeys(NAMES, "Do it.")))
    for name, (accepted, rejected) in zip(NAMES, (find, judge), strict=True):
        for number in range(accepted + rejected):
            texts = {**original.candidate.components, name: f"Do it {number}."}
            entry = pool.add(Candidate(texts, parents=(original.candidate.id,)))
            entry.status = "accepted" if number < accepted else "rejected"
    return pool


def drawn(pool: Pool, blame: dict[str, float], rounds: int = 200) -> Counter[str]:
    return Counter(next_component(pool, blame, NAMES, 0, random.Random(seed)) for seed in range(rounds))


def test_credit_counts_edits_of_one_component() -> None:
    pool = outcomes((2, 1), (0, 3))
    assert credit(pool) == {"find.system": (2, 1), "judge.system": (0, 3)}
    add(pool, "another program", [1.0])
    assert credit(pool) == {"find.system": (2, 1), "judge.system": (0, 3)}


def test_the_component_to_blame_is_tried_more() -> None:
    counts = drawn(outcomes((0, 0), (0, 0)), {"judge.system": 1.0})
    assert counts["judge.system"] > 4 * counts["find.system"] > 0


def test_a_component_whose_edits_helped_is_tried_more_where_nothing_tells() -> None:
    counts = drawn(outcomes((5, 1), (0, 6)), {})
    assert counts["find.system"] > 3 * counts["judge.system"]


def test_every_component_gets_its_turn_whatever_the_blame() -> None:
    assert drawn(outcomes((9, 0), (0, 0)), {"find.system": 1.0}) == {"judge.system": 200}
    places = [
        next_component(outcomes((0, 0), (0, 0)), {"find.system": 1.0}, NAMES, slot, random.Random(1))
        for slot in range(12)
    ]
    assert set(places) == set(NAMES)


def test_nothing_to_choose_among_is_an_error() -> None:
    with pytest.raises(ValueError, match="no component"):
        next_component(Pool(), {}, [], 0, random.Random(0))


def seen(number: int, find: str, judge: str, answer: str, truth: str = "A", **step: object) -> EvaluatedRow:
    trace = (
        Step("find", ("find.system", "find.user"), f"item {number}", find, can_demo=True),
        Step("judge", ("judge.system",), find, judge, can_demo=True, **step),  # type: ignore[arg-type]
    )
    right = answer == truth
    return EvaluatedRow(f"r{number}", f"item {number}", answer, truth, right, float(right), trace=trace)


def pairs(name: str, rows: list[EvaluatedRow]) -> list[tuple[str, str, str]]:
    return [(e.id, e.input, e.target) for e in step_examples(name, OPEN, rows, TRAIN)]


def test_of_a_row_that_ended_right_each_step_was_right() -> None:
    rows = [seen(1, "m1", "x", "A"), seen(0, "m0", "y", "B")]
    assert pairs("find.system", rows) == [("r1", "item 1", "m1")]
    assert pairs("judge.system", rows) == [("r1", "m1", "x")]


def test_a_step_whose_output_is_the_answer_learns_from_the_target() -> None:
    rows = [seen(1, "m1", "A", "A"), seen(0, "m0", "B", "B")]
    assert pairs("judge.system", rows) == [("r0", "m0", "A"), ("r1", "m1", "A")]


def test_a_right_part_of_a_wrong_answer_was_right() -> None:
    rows = [seen(0, "billing", "high", "billing/high", "billing/low")]
    assert pairs("find.system", rows) == [("r0", "item 0", "billing")]
    assert pairs("judge.system", rows) == []


def test_a_step_between_row_and_answer_has_every_row_of_train() -> None:
    lone = EvaluatedRow(
        "r0", "item 0", "B", "A", False, 0.0, trace=(Step("s", ("s",), "item 0", "B", can_demo=True),)
    )
    assert step_examples("s", ["s"], [lone], TRAIN) == TRAIN


def test_demonstrations_go_with_a_steps_first_open_component() -> None:
    rows = [seen(1, "m1", "x", "A")]
    assert pairs("find.user", rows) == []
    opened = step_examples("find.user", ["find.user", "judge.system"], rows, TRAIN)
    assert [e.id for e in opened] == ["r1"]


def test_steps_that_failed_or_cannot_be_shown_any_give_none() -> None:
    assert pairs("judge.system", [seen(1, "m1", "x", "A", error="gone")]) == []
    mute = EvaluatedRow("r0", "i", "A", "A", True, 1.0, trace=(Step("s", ("s",), "i", "A"),))
    assert step_examples("s", ["s"], [mute], TRAIN) == []


def test_only_rows_of_train_and_the_newest_run_of_each_count() -> None:
    rows = [seen(1, "old", "x", "A"), seen(9, "m9", "x", "A"), seen(1, "new", "x", "A")]
    assert pairs("find.system", rows) == [("r1", "item 1", "new")]
