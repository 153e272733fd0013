"""Reading numbers: as languages and formulas write them, and which of several is meant."""

from __future__ import annotations

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from waiting import within

from autoprompt.text.answers.numbers import Number, holds_one_number, points_in_doubt, read_number


@given(st.text())
def test_any_text_is_read(text: str) -> None:
    read_number(text)
    holds_one_number(text)


def test_a_number_that_was_only_thought_is_none() -> None:
    assert read_number("5 or 6</think> 7 km") == Number(7, is_percent=False)
    assert read_number("5 or 6</think> none") is None


def test_long_answers_are_read_in_time() -> None:
    numbers = ("1,", "1 ", "1/", "1'", "1 / ", "1 1/2 ", ".1", ",111", " 111", "½", "- ", "１，", "²", " –")
    formulas = (
        "m2 ",
        "m^2 ",
        "x^",
        "10^",
        "1 x 10^",
        "1 x ",
        "10^1",
        "\\frac",
        "\\frac{1}{",
        "\\frac{1 ",
        "\\a",
    )
    marks = (
        "Answer: ",
        "the answer is ",
        "#### ",
        "boxed {",
        "Answer: 1 = 2 + ",
        "= ",
        "1 [1] ",
        "the final ",
        "\n ",
    )
    for number in (*numbers, *formulas, *marks):
        with within(4):
            read_number(number * 20_000)
            read_number(f"Answer: 3 = {number * 20_000}x 7")


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("She pays 1,234.50 in all.", 1234.5),
        ("$5", 5),
        ("-$5.20", -5.2),
        ("$1{,}200", 1200),
        ("#### 42", 42),
        ("7 + 3 = 10.", 10),
        ("10-5", 5),
        ("x = -3", -3),
        ("− 4", -4),
        ("１，２３４", 1234),
        ("总共３个", 3),
        ("1.5e3", 1500),
        (".5", 0.5),
        ("1, 2, 3", 3),
        ("none", None),
        ("9" * 400, None),
    ],
)
def test_the_last_number_counts(text: str, value: float | None) -> None:
    number = read_number(text)
    assert (number.value if number else None) == value


@pytest.mark.parametrize(
    "text",
    [
        "Answer: 14 (because of 2 steps)",
        "2 steps.\n**Final answer:** 14\n\nExplanation: 7 * 2.",
        "Answer:\n\n**14** apples in 2 bags",
        "Answer (in km): about 14, 2 a day",
        "Answer: 12? No, 2 more.\nAnswer: 14 (12 and 2)",
        "Answer: 14\nConfidence: 90%",
        "Answer: 14. The 2 steps were easy.",
        "Final Answer: The final answer is $14$. I hope it is correct in 100% of cases.",
        "Final result: 14 (of 20)",
        "#### 14 (7 times 2)",
        r"So \boxed{14} after 2 steps",
        r"$\boxed{\text{14 km}}$ in 2 h",
        "答案：14（共2步）",
        "最终答案：约14公里，用了2小时",
        "The answer is 14, not 15.",
        "So the answer is 14 because 7 is taken 2 times",
        "答案是14，不是15。",
        '{"answer": 14, "steps": 2}',
        # Of an equation its result.
        "Answer: 7 * 2 = 14",
        "Answer: 7 * 2 = 14 (in 2 steps)",
        "Answer: 2 * (3 + 4) = 14, in 2 steps",
        "Answer: 14 = 7 * 2",
        "Answer: 9 - 2 = 7 bags. They hold 7 * 2 = 14 apples, for 3 days.",
        r"\boxed{7 \cdot 2 = 14} in 2 steps",
        # What follows at once is no answer yet: the last number.
        "Answer: She has 5 apples and buys 9, so 14.",
        "Answer: 7 are left, so she sells 2 * 7, which is 14",
        "Answer:\n1. First take 7\n2. Then double it: 14",
        "#### 1. Take 7\n...\n#### 2. Double it\nThat makes 14",
        "The answer is the sum of 5 and 9, which is 14.",
        "Answer: 10-14",
        "Answer: 2024-05-14",
        "Answer: 7 times 14",
        "Result: 7\nDoubled, it is 14",
        "Answer: see below\n14",
    ],
)
def test_the_number_behind_a_mark_counts(text: str) -> None:
    number = read_number(text)
    assert number is not None
    assert number.value == 14


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("Answer: 1,234 km in 2 hours", 1234),
        ("Answer: 3 500 km in 2 hours", 3500),
        ("Answer: –5 (2 below)", -5),
        ("Answer: $3.50 for 2", 3.5),
        (r"Answer: $\frac{1}{2}$ of 3", 0.5),
        ("Answer: 5 × 10^3 (3 zeros)", 5000),
        ("Answer: 14 m² (2 m by 7 m)", 14),
    ],
)
def test_behind_a_mark_too_numbers_are_read_whole(text: str, value: float) -> None:
    number = read_number(text)
    assert number is not None
    assert number.value == value


@pytest.mark.parametrize(
    "text", ["7 [1]", "It is 7.[1][2]", "7% [1, 2].", "Answer: 7 [1]", "[7]", "x = 2 or [7]"]
)
def test_a_citation_at_the_end_is_no_number(text: str) -> None:
    number = read_number(text)
    assert number is not None
    assert number.value == 7


@given(st.floats(allow_nan=False, allow_infinity=False), st.booleans())
def test_a_number_as_written_is_that_number(value: float, is_percent: bool) -> None:
    number = Number(value, is_percent)
    assert read_number(number.written) == number


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("12,5", 12.5),
        ("Das sind 12,50 €.", 12.5),
        ("3,14159", 3.14159),
        ("0,125", 0.125),  # no group begins with 0
        ("1,234", 1234),
        ("1.234", 1.234),
        ("1.234,5", 1234.5),
        ("1.234.567", 1234567),
        ("1,234,567.8", 1234567.8),
        ("12,34,567", 1234567),
        ("1 234,56", 1234.56),
        ("1\u00a0234\u00a0567,5", 1234567.5),
        ("1\u202f234", 1234),
        ("1'234.50", 1234.5),
        ("1’234", 1234),
        ("٣٫١٤", 3.14),
        ("١٬٢٣٤", 1234),
        ("१२", 12),
        ("½", 0.5),
        ("1/2", 0.5),
        ("-3/4 of it", -0.75),
        ("2½", 2.5),
        ("4 ½ cups", 4.5),
        ("-100\u00a0¾", -100.75),
        ("2 1/2 cups", 2.5),
        ("2\u00a01/2 cups", 2.5),
        ("(3,4)", 3.4),
        ("He scored 15/20", 0.75),
        ("答案是1/2", 0.5),
    ],
)
def test_numbers_are_read_as_languages_write_them(text: str, value: float) -> None:
    number = read_number(text)
    assert number is not None
    assert number.value == value


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("3, 4", 4),
        ("1,2,3", 3),
        ("-1,2,3", 3),
        ("3，4", 4),
        ("1/2/2024", 2024),
        ("in A1/2", 2),
        ("Q1 1/2", 0.5),
        ("2\n½", 0.5),
        ("of 15 20/10", 2),
        ("see /x/1/2", 2),
        ("Q1 250", 250),
        ("Q1\u00a0250", 250),
        ("in 2024 12,5", 12.5),
        ("20 30", 30),
        ("1 234 5", 5),
        ("1/0", 0),
        ("1/2.5", 2.5),
    ],
)
def test_of_what_is_no_one_number_the_last_part_counts(text: str, value: float) -> None:
    number = read_number(text)
    assert number is not None
    assert number.value == value


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("I bought 3 500 ml bottles.", 500),
        ("Answer to question 2 150", 150),
        ("Answer to question 2 -150", -150),
        ("They are 3 500\nin all", 500),
        ("回答问题2 150", 150),
        ("3 500", 3500),
        ("-3 500 ml", -3500),
        ("#### 3 500", 3500),
        ("It costs $3 500.", 3500),
        ("Answer: **3 500** km", 3500),
        ("They are\n3 500", 3500),
        ("It is 12 000 km", 12000),  # 000 is no number of its own
        ("It is 1 234 567", 1234567),
        ("It is 3 500,5 or 3 500.5", 3500.5),
        ("It is 3\u00a0500 or 3\u202f500", 3500),
        ("La réponse est 3 500.", 3500),
        ("Итого 3 500 рублей", 3500),
    ],
)
def test_a_space_behind_an_english_word_may_part_two_numbers(text: str, value: float) -> None:
    number = read_number(text)
    assert number is not None
    assert number.value == value


@pytest.mark.parametrize(
    ("text", "value"),
    [
        *[
            ("12 m²", 12),
            ("12 m^2", 12),
            ("12 m2", 12),
            ("5 cm³.", 5),
            ("9.81 m/s^2", 9.81),
            ("5 kW h m-2", 5),
        ],
        *[("400 ppm CO2", 400), ("400 ppm CO₂", 400), (r"400 ppm \text{CO}_2", 400), ("18 g of H2O", 18)],
        *[(r"9.8\ \text{m/s}^{2}", 9.8), ("3 x^{10}", 3), ("12 м²", 12), ("m² 99", 99), ("12 m² 500", 500)],
        # What is no unit's or formula's counts as ever.
        *[
            ("CO2", 2),
            ("m²", 2),
            ("Q4", 4),
            ("2 are USD3 or Rs4", 4),
            ("3 cost Rp50.000", 50),
            ("12 of 7 _5_", 5),
        ],
        *[("5 and 2. Answer-3", 3), ("اشترى 5 ب2", 2), ("小红有5个，一共3", 3), ("in 2024 sold R2M", 2e6)],
        *[("2^10", 10), ("¹⁄₂", 0.5)],
    ],
)
def test_digits_of_a_unit_or_a_formula_are_passed_over(text: str, value: float) -> None:
    number = read_number(text)
    assert number is not None
    assert number.value == value


@pytest.mark.parametrize(
    ("text", "value"),
    [
        *[("10^6", 10**6), ("10⁶", 10**6), (r"$10^{6}$ cells", 10**6), ("1/10^3", 1e-3), ("-10^2 m", -100)],
        *[("5 × 10^3", 5000), ("3 x 10^3", 3000), (r"5 \times 10^{3}", 5000), (r"5\times10^{-3}", 5e-3)],
        *[("1.5·10⁻³ m²", 1.5e-3), ("5x10^3", 5000), ("6,02 × 10^23", 6.02e23), ("10^999", None)],
        *[(r"\frac{1}{2}", 0.5), (r"-\dfrac{3}{4}$", -0.75), (r"2\frac{1}{2}", 2.5), (r"2 \frac12", 2.5)],
        *[(r"\frac{-1}{4}", -0.25), (r"is \boxed{\frac{22}{7}}", 22 / 7), (r"\frac{3\pi}{4}", 4)],
        *[(r"22 / 7 \approx3.14", 3.14), (r"3\times5", 5), (r"3\cdot500", 500)],
    ],
)
def test_numbers_are_read_as_formulas_write_them(text: str, value: float | None) -> None:
    number = read_number(text)
    assert (number.value if number else None) == value


@pytest.mark.parametrize(
    ("text", "value"),
    [
        *[("–5", -5), ("It fell to –5.", -5), ("x=–.5", -0.5), ("**–5**", -5), ("(–$5)", -5), ("a\n–5", -5)],
        *[("3–5", 5), ("3 –5", 5), ("3 – 5", 5), ("10%–20%", 20), ("$10–20", 20), ("so – 5", 5)],
    ],
)
def test_an_en_dash_is_a_minus_where_it_parts_no_numbers(text: str, value: float) -> None:
    number = read_number(text)
    assert number is not None
    assert number.value == value


@pytest.mark.parametrize(
    ("text", "value"), [("It grew by 40 %.", 40), ("٥٠٪", 50), ("12,5%", 12.5), ("1/2 %", 0.5)]
)
def test_a_percent_sign_is_seen(text: str, value: float) -> None:
    assert read_number(text) == Number(value, is_percent=True)


@given(st.integers(-(10**12), 10**12))
def test_grouped_numbers_are_read(value: int) -> None:
    for mark in ",.' ":
        if mark == "." and abs(value) < 10**6:
            continue  # 1.234 is a decimal
        number = read_number(f"The total: {value:,}.".replace(",", mark))
        assert number is not None
        assert number.value == value


@pytest.mark.parametrize(
    "text",
    [
        *("42", "-3", "$1,234.50", "1.234,50 €", "USD 5", "12 %", "40 percent", "3 km", "3 500", "12 km/h"),
        *("1 1/2", "½", "2½ cups", "1/2", "1e-3", "5 m2", "9.81 m/s^2", "20 °C", "#### 42", "Answer: 42."),
        *("3个", "１２３４", "9 / 2", "12 square meters", "She has 3 + 4 = 7 apples.\n#### 7", "(12)", "~5"),
        *(
            "12 m²",
            "12 m^2",
            "5 cm³",
            "400 ppm CO2",
            "18 g of H2O",
            "1.5 x 10^3",
            "10^6",
            "共3个",
            "B12: 5 mg",
        ),
        *("7 [1]", "Answer: 12 (of 30)", r"Of 30 they are \boxed{12}, 2 in 5"),
        *("There are 12 apples.", "42 apples are in the box", "10,000 USD per year and person", "CO2: 5"),
    ],
)
def test_one_number_is_told_whatever_stands_beside_it(text: str) -> None:
    assert holds_one_number(text)
    assert read_number(text) is not None


@pytest.mark.parametrize(
    "text",
    [
        *(
            "2024-05-01",
            "1/2/2024",
            "10-20",
            "12 (of 30)",
            "1, 2, 3",
            "1,2,3",
            "12:30",
            "v1.2.3",
            "3 + 4 = 7",
        ),
        *("2^10", "CO2", "none", "#### 10-20", ""),
    ],
)
def test_what_holds_more_than_a_number_is_told(text: str) -> None:
    assert not holds_one_number(text)


@given(st.from_regex(r"[0-9a-zA-Z²^_ ,./–-]{1,12}", fullmatch=True))
def test_a_text_that_holds_one_number_is_read_as_that(text: str) -> None:
    assume(holds_one_number(text))
    number = read_number(text)
    assert number is None or read_number(f"{text} m²") == number


@pytest.mark.parametrize(
    ("column", "doubtful"),
    [
        (["1.500", "2.750", "1.234,50", "990"], ["1.500", "2.750"]),
        (["1.500 €", "12,5 €", "3.5 €"], ["1.500 €"]),
        (["1.500", "1.234.567"], ["1.500"]),
        (["1.500", "-2.750", "990"], ["1.500", "-2.750"]),
        # The point is a decimal's: 1.5 says so, and no number of thousands is written 0.125 or 1234.567.
        (["1.500", "2.5"], []),
        (["1.500", "0.125"], []),
        (["1.500", "1234.567"], []),
        (["1.500", "1,234.50"], []),
        (["1,500", "990", "1.234,50", "none"], []),
    ],
)
def test_a_point_that_may_part_thousands_is_told_by_its_column(
    column: list[str], doubtful: list[str]
) -> None:
    assert points_in_doubt(column) == doubtful
