"""Demonstrations of a step in the middle: right outputs are known from rows that ended right, and targets."""

from __future__ import annotations

from autoprompt.optimizer.propose.steps import step_examples
from autoprompt.records import EvaluatedRow, Example, Step

NAMES = ["find.system", "find.user", "judge.system"]
TRAIN = [Example(f"r{n}", f"item {n}", "A", {}) for n in range(6)]


def seen(number: int, find: str, judge: str, answer: str, truth: str = "A", **step: object) -> EvaluatedRow:
    trace = (
        Step("find", ("find.system", "find.user"), f"item {number}", find, can_demo=True),
        Step("judge", ("judge.system",), find, judge, can_demo=True, **step),  # type: ignore[arg-type]
    )
    right = answer == truth
    return EvaluatedRow(f"r{number}", f"item {number}", answer, truth, right, float(right), trace=trace)


def pairs(name: str, rows: list[EvaluatedRow]) -> list[tuple[str, str, str]]:
    return [(e.id, e.input, e.target) for e in step_examples(name, NAMES, rows, TRAIN)]


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
