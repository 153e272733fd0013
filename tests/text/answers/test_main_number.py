"""Which number of an answer counts, where others explain it; and digits and signs of other scripts."""

from __future__ import annotations

import pytest
from waiting import within

from autoprompt.text.answers.labels import read_label
from autoprompt.text.answers.numbers import read_number
from autoprompt.text.answers.texts import normalize


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("42\n\n(rounded to 2 decimal places)", 42),
        ("42 km (rounded to 2 decimals)", 42),
        ("**42** (= 6 × 7)", 42),
        ("42 (probability 0.9)", 42),
        ("It's 42 (6 × 7)", 42),
        ("42 ± 2", 42),
        ("The length is 42 +/- 0.5", 42),
        ("About 42, give or take 2", 42),
        ("It's 42, not 43.", 42),
        ("Es sind 42, nicht 43.", 42),
        ("It's not 43 but 42.", 42),
        ("42\nUncertainty: 0.1", 42),
        ("42 apples\n\nExplanation: 6 rows of 7.", 42),
        ("42. As of 2024, this is the figure.", 42),
        ("- 42 apples", 42),
        ("In the basket:\n- 42 apples", 42),
        # The last, where it is concluded.
        ("3 apples (so 5 in total)", 5),
        ("3 red ones, and 4 green ones: 7", 7),
        ("12\n15\n27", 27),
        ("She has 3. He gives her 4. So 7", 7),
        # Signs.
        ("- 42", -42),
        ("-42 apples", -42),
        ("minus 5", -5),
        ("The result is negative 5.", -5),
        ("moins 5", -5),
        ("Das Ergebnis ist minus 3,5", -3.5),
        ("минус 5", -5),
        ("10 minus 5", 5),
        # Multipliers.
        ("3 мільйони", 3e6),
        ("3 мільярди", 3e9),
        ("3 милиона", 3e6),
        ("3 milijuna", 3e6),
        ("3 milióny", 3e6),
        ("3 miliónov", 3e6),
        ("3 milijonai", 3e6),
        ("3 miljoni", 3e6),
        ("3 ہزار", 3e3),
        ("3 सौ", 300),
        ("3십만", 3e5),
        ("3 quadrillion", 3e15),
    ],
)
def test_the_number_that_others_explain_counts(text: str, value: float) -> None:
    number = read_number(text)
    assert number is not None
    assert number.value == value


@pytest.mark.parametrize(
    ("text", "label"), [("التقييم: ٤", "4"), ("रेटिंग: ४", "4"), ("۵", "5"), ("النتيجة ٤ من ٥", "4")]
)
def test_digits_of_other_scripts_are_labels(text: str, label: str) -> None:
    assert read_label(text, ("1", "2", "3", "4", "5")) == label


def test_labels_in_other_digits_are_read_as_they_are_written() -> None:
    assert [read_label(text, ("١", "٢")) for text in ("٢", "2", "الجواب: ١")] == ["٢", "٢", "١"]


def test_quotes_of_more_languages_are_no_part_of_a_text() -> None:
    assert {normalize(text) for text in ("„Paris“", "‚Paris‘", "‹Paris›", "»Paris«", "Paris")} == {"paris"}


def test_many_numbers_are_read_in_time() -> None:
    with within(4):
        read_number("42 ± 2, not 3 " * 4_000)
