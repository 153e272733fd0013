"""Numbers in words, in the languages of `number_words`, as numbers and as labels."""

from __future__ import annotations

import pytest

from autoprompt.text.answers.labels import read_label
from autoprompt.text.answers.number_words import with_digits
from autoprompt.text.answers.numbers import read_number

STARS = ("1", "2", "3", "4", "5")


@pytest.mark.parametrize(
    ("text", "value"),
    [
        *(("forty-two", 42), ("Forty two", 42), ("The answer is forty-two.", 42), ("a hundred", 100)),
        *(("one hundred and five", 105), ("two hundred and fifty thousand", 250_000), ("a dozen", 12)),
        *(("minus five", -5), ("three point five", 3.5), ("two and a half", 2.5), ("two thirds", 2 / 3)),
        *(("three million", 3e6), ("One.", 1), ("**seven**", 7), ("Zero apples remain", 0)),
        *(("She buys three and has four, so she has seven.", 7), ("Answer: forty-two (in 3 steps)", 42)),
        *(("zweiundvierzig", 42), ("dreihundertfünfundsechzig", 365), ("eintausendzweihundert", 1200)),
        *(("Die Antwort ist zwei Komma fünf", 2.5), ("quatre-vingt-dix-sept", 97), ("soixante et onze", 71)),
        *(("mille neuf cents", 1900), ("La réponse est deux cents.", 200), ("cuarenta y dos", 42)),
        *(("mil novecientos noventa y nueve", 1999), ("veintidós", 22), ("quarenta e dois", 42)),
        *(
            ("quarantadue", 42),
            ("duemila", 2000),
            ("四十二", 42),
            ("答案是一百零五。", 105),
            ("两千三百", 2300),
        ),
        *(
            ("三万五千", 35_000),
            ("二〇二四", 2024),
            ("答えは四十二です", 42),
            ("三点一四", 3.14),
            ("百五十", 150),
        ),
    ],
)
def test_a_number_in_words_is_read(text: str, value: float) -> None:
    number = read_number(text)
    assert number is not None
    assert number.value == pytest.approx(value)


@pytest.mark.parametrize(
    "text",
    [
        *("This one cannot be solved.", "No one knows.", "I have two questions.", "One of the worst films."),
        *(
            "There are two possible readings, so I cannot say.",
            "null",
            "once",
            "一定是错的",
            "十分抱歉",
            "万一",
            "统一",
        ),
    ],
)
def test_a_word_that_only_looks_like_a_number_is_none(text: str) -> None:
    assert read_number(text) is None
    assert read_label(text, STARS) is None


@pytest.mark.parametrize(
    ("text", "label"),
    [
        *(
            ("Three out of five", "3"),
            ("I would give it four stars.", "4"),
            ("Rating: four", "4"),
            ("one", "1"),
        ),
        *(
            ("Vier von fünf", "4"),
            ("quatre sur cinq", "4"),
            ("tres estrellas", "3"),
            ("四星", "4"),
            ("三つ星", "3"),
        ),
        *(("五分之四", "4"), ("★★★★☆", "4"), ("⭐⭐⭐", "3"), ("4,0", "4"), ("Five stars? No: 4.", "4")),
        *(
            ("two thumbs up", None),
            ("It has two parts, both dull.", None),
            ("二星半", None),
            ("twenty", None),
        ),
        *(("☆☆☆☆☆", None), ("★★★★★★", None), ("4,000", None), ("One or two stars", None)),
    ],
)
def test_a_grade_in_words_or_stars_is_a_label(text: str, label: str | None) -> None:
    assert read_label(text, STARS) == label


def test_words_beside_digits_stay() -> None:
    assert with_digits("In two steps: 7") == "In two steps: 7"
    assert with_digits("Answer: two (7 - 5)") == "Answer: 2 (7 - 5)"


@pytest.mark.parametrize(
    ("text", "value"),
    [
        *(("3★", 3), ("4 ⭐", 4), ("The answer is 42 ⭐", 42), ("4/5 ⭐", 0.8)),  # a unit, or decoration
        *(("★★★★☆", 4), ("Rating: ★★★☆☆", 3), ("I'd rate this ★★★☆☆", 3), ("⭐⭐⭐⭐ (4/5)", 4)),
        *(("The answer is a third", 1 / 3), ("The answer is a third party.", None)),
    ],
)
def test_stars_and_fractions_count_where_they_are_the_answer(text: str, value: float | None) -> None:
    number = read_number(text)
    assert (number and number.value) == (value and pytest.approx(value))
