"""Which rows each draft is shown, and how it reads them."""

from __future__ import annotations

from autoprompt.optimizer.agents.rows import ShownRows, row_characters, rows_as_text
from autoprompt.optimizer.propose.drafts import deal
from autoprompt.records import EvaluatedRow, Step


def row(name: str, expected: str, answered: str, confidence: float | None = None) -> EvaluatedRow:
    is_right = expected == answered
    return EvaluatedRow(name, name, answered, expected, is_right, float(is_right), confidence=confidence)


LOOK = [
    *(row(f"ab{n}", "A", "B") for n in range(12)),
    *(row(f"bc{n}", "B", "C") for n in range(5)),
    *(row(f"ca{n}", "C", "A") for n in range(3)),
    row("right c", "C", "C", 0.9),
    row("right a", "A", "A", 0.9),
    row("right b", "B", "B", 0.9),
    row("hardly b", "B", "B", 0.4),
]


def names(number: int, drafts: int) -> list[str]:
    return [row.example_id for row in deal(LOOK, number, drafts).wrong]


def test_the_kinds_of_error_are_dealt_out_among_the_drafts() -> None:
    assert [names(n, 3)[:3] for n in range(3)] == [
        ["ab0", "ab1", "ab2"],
        ["bc0", "bc1", "bc2"],
        ["ca0", "ca1", "ca2"],
    ]
    assert all(len(names(n, 3)) == 8 for n in range(3))
    # With more drafts than kinds each has another part of its kind first.
    assert [names(n, 6)[0] for n in (0, 3)] == ["ab0", "ab1"]


def test_two_rows_stay_right_first_those_of_the_answers_that_were_given_wrongly() -> None:
    wrong = [r for r in LOOK if r.example_id.startswith("ab")]
    right = [r for r in LOOK if r.is_correct]
    assert [r.example_id for r in deal([*wrong, *right], 0, 1).right] == ["hardly b", "right b"]


def test_a_step_is_shown_the_rows_in_which_it_is_to_blame_first() -> None:
    def traced(name: str, failed: str) -> EvaluatedRow:
        steps = [Step(n, (n,), "in", "out", "broke" if n == failed else None) for n in ("find", "judge")]
        return EvaluatedRow(name, name, "A", "B", False, 0.0, trace=tuple(steps))

    rows = [traced("other", "judge"), traced("own", "find")]
    assert [r.example_id for r in deal(rows, 0, 1, "find").wrong] == ["own", "other"]
    said = rows_as_text(ShownRows(rows[1:], (), "find"), "en", 600)
    assert said.endswith("Right answer: B\nStep find: got in and gave failed: broke")


def test_of_a_long_row_the_middle_is_left_out_and_short_parts_stay_whole() -> None:
    long = EvaluatedRow("r", "begin " + "x" * 5000 + " end", "A", "B", False, 0.0, feedback="mind the rule")
    said = rows_as_text(ShownRows([long]), "en", 400)
    assert said.startswith("Rows that the prompt answers wrong:\n\nInput: begin xxx")
    assert said.endswith(" end\nIts answer: A\nRight answer: B\nRemark: mind the rule")
    assert " [... 4,6" in said
    assert len(said) < 520
    assert row_characters(8192) == 614
