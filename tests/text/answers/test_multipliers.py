"""Numbers with a multiplier: words and signs of many languages, and the units that are none."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autoprompt.metrics import get_metric
from autoprompt.records import Example, Prediction
from autoprompt.text.answers.numbers import holds_one_number, points_in_doubt, read_number


def value_of(text: str) -> float | None:
    number = read_number(text)
    return number.value if number else None


@pytest.mark.parametrize(
    ("text", "value"),
    [
        # English, with what may stand between the number and its word.
        *[("3 million", 3e6), ("$3 million", 3e6), ("3.5 million dollars", 3.5e6), ("3 MILLION", 3e6)],
        *[("3-million-dollar", 3e6), ("**3** million", 3e6), (r"$3 \text{ million}$", 3e6), ("3bn", 3e9)],
        *[(r"\boxed{3 \text{ million}}", 3e6), (r"\boxed{3} million", 3e6), ("3 trillion", 3e12)],
        *[("12 thousand", 12e3), ("3 hundred thousand", 3e5), ("3 thousand million", 3e9), ("5 mln", 5e6)],
        *[("1/2 million", 5e5), ("2½ million", 2.5e6), ("1,234 million", 1.234e9), ("1.500 million", 1.5e6)],
        # Signs.
        *[("5k", 5e3), ("5 k", 5e3), ("5K", 5e3), ("5M", 5e6), ("7B parameters", 7e9), ("5k/month", 5e3)],
        *[("$5 m", 5e6), ("€5M", 5e6), ("5 M€", 5e6), ("3 k€", 3e3), ("5 MUSD", 5e6), ("3m USD", 3e6)],
        *[
            ("US$3.4bn", 3.4e9),
            ("S$3m", 3e6),
            ("R$ 5 mi", 5e6),
            ("Rs 5 cr", 5e7),
            ("$5mn", 5e6),
            ("$5tn", 5e12),
        ],
        # Signs of numbers, ranges, equations.
        *[("-3 million", -3e6), ("−$3.2bn", -3.2e9), ("-₹5 crore", -5e7), ("$-3 million", -3e6)],
        *[("3-4 million", 4e6), ("3–5 Mio. €", 5e6), ("between 1 million and 2 million", 2e6)],
        *[("3 million (of 3 million)", 3e6), ("1.5 million + 1.5 million = 3 million", 3e6)],
        # Compounds.
        *[("1 million 200 thousand", 1.2e6), ("1 million, 200 thousand", 1.2e6), ("2 thousand 500", 2500)],
        *[("1 million and 200 thousand", 1.2e6), ("1 Mio. 200 Tsd.", 1.2e6), ("1 crore 25 lakh", 1.25e7)],
        *[
            ("-1 million 200 thousand", -1.2e6),
            ("1 млн 200 тыс. рублей", 1.2e6),
            ("5 thousand 3 hundred", 5300),
        ],
        # India, Europe: the comma is a decimal mark, and the point parts groups.
        *[
            ("₹2.5L", 2.5e5),
            ("15 к", 15e3),
            ("5 lakh", 5e5),
            ("2.5 lakh crore", 2.5e12),
            ("5 लाख", 5e5),
            ("5 करोड़", 5e7),
        ],
        *[("3,5 Mio. Euro", 3.5e6), ("1,2 Mrd. €", 1.2e9), ("5 Tsd.", 5e3), ("12 Tausend", 12e3)],
        *[("3 Billionen", 3e12), ("1.500 Mio.", 1.5e9), ("1,234 Mrd.", 1.234e9)],
        *[("3 mil millones", 3e9), ("1.500 millones de euros", 1.5e9), ("2 millones", 2e6)],
        *[("3 millions", 3e6), ("2 milliards d'euros", 2e9), ("12 mille", 12e3), ("1,5 milioni", 1.5e6)],
        *[("5 milhões", 5e6), ("3 miljoen", 3e6), ("5 тысяч", 5e3), ("3,5 миллиарда", 3.5e9), ("7 млн", 7e6)],
        *[("2 tys.", 2e3), ("4 mld zł", 4e9), ("3 milyon", 3e6), ("5 tỷ", 5e9), ("3 juta", 3e6)],
        # Scripts without spaces, with several units.
        *[("3万", 3e4), ("1.2亿", 1.2e8), ("1億2000万", 1.2e8), ("3万5千", 35e3), ("1万2000円", 12e3)],
        *[
            ("2千万", 2e7),
            ("3百万", 3e6),
            ("1.2万亿元", 1.2e12),
            ("1万5", 15e3),
            ("3 兆円", 3e12),
            ("３万人", 3e4),
        ],
        *[("3만 5000원", 35e3), ("1억 2000만 원", 1.2e8), ("3천만", 3e7), ("5만 명", 5e4), ("3조 원", 3e12)],
        *[("5 พันล้าน", 5e9), ("3 ล้านบาท", 3e6), ("5 مليون", 5e6), ("٥ ملايين", 5e6), ("5 מיליון", 5e6)],
    ],
)
def test_a_multiplier_is_part_of_the_number(text: str, value: float) -> None:
    assert value_of(text) == pytest.approx(value, rel=1e-12)
    assert value_of(f"The total is {text}.") == pytest.approx(value, rel=1e-12)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        *[("5 km", 5), ("5 kg", 5), ("5 mm", 5), ("5 ml", 5), ("5 min", 5), ("5 months", 5), ("5 MB", 5)],
        *[("5 m²", 5), ("5 m/s", 5), ("5 kW", 5), ("3 millionth", 3), ("3 T-shirts", 3), ("5 bits", 5)],
        *[("3千克", 3), ("3千米", 3), ("5千瓦", 5), ("100兆赫", 100), ("3百帕", 3), ("4月", 4)],
        *[("12 W/m2K", 12), ("18 g H2O", 18), ("40 %", 40), ("In 2024, 5 people", 5), ("190 / 37.5k", 37500)],
        *[("3 million and 5 apples", 5), ("2 million 3", 3), ("1 million people and 200 dogs", 200)],
        *[("3\nmillion", 3), ("In 2019, million", 2019)],
    ],
)
def test_a_unit_or_another_number_is_no_multiplier(text: str, value: float) -> None:
    assert value_of(text) == value


@pytest.mark.parametrize(
    ("answer", "target", "is_right"),
    [
        *[("$3 million", "3000000", True), ("3000000", "$3 million", True), ("3 Mio. €", "3,000,000", True)],
        *[
            ("3,000 thousand", "3 million", True),
            ("0.003 bn", "3 million", True),
            ("300万", "3 million", True),
        ],
        *[("3 billion", "3 million", False), ("3 million", "3 billion", False), ("3 million", "3", False)],
        *[
            ("3", "3 million", False),
            ("3 thousand", "3 million", False),
            ("3万", "3千", False),
            ("5k", "5", False),
        ],
        *[
            ("$5m", "$5", False),
            ("$5m", "$5b", False),
            ("5 lakh", "5 crore", False),
            ("-3 million", "3 million", False),
        ],
        # What may be a unit is compared both ways, and never as two different multipliers.
        *[
            ("5 m", "5", True),
            ("5 m", "5 metres", True),
            ("5 m", "5 million", True),
            ("5 m", "5000000", True),
        ],
        *[("300 K", "300", True), ("300 K", "300000", True), ("5 m", "5 b", False), ("5 m", "5000", False)],
        *[
            ("5 L", "5", True),
            ("5 (in millions)", "5", True),
            ("5 (in millions)", "5000000", True),
            ("5 t", "5 kg", True),
        ],
    ],
)
def test_numbers_are_equal_only_with_their_multipliers(answer: str, target: str, is_right: bool) -> None:
    metric = get_metric("numeric")
    assert metric.score(_prediction(answer), _row(target)).is_correct is is_right
    assert metric.score(_prediction(target), _row(answer)).is_correct is is_right


def test_the_number_behind_a_mark_has_its_multiplier() -> None:
    assert value_of("Answer: 3 million (of 5 million)") == 3e6
    assert value_of("Answer: 1.5 million + 1.5 million = 3 million, of 5 million") == 3e6


def test_a_target_with_a_multiplier_is_one_number() -> None:
    for text in ("3 million", "1 million 200 thousand", "1億2000万", "$5m", "3 Mio. €"):
        assert holds_one_number(text)
    assert points_in_doubt(["1.500 millones", "2.300 millones"]) == []


@given(st.integers(1, 999), st.sampled_from(["thousand", "Mio.", "crore", "万", "k"]))
def test_a_multiplied_number_is_that_many_times_the_number(count: int, word: str) -> None:
    one = value_of(f"1 {word}")
    assert one is not None
    assert value_of(f"{count} {word}") == pytest.approx(count * one)


def test_answers_that_are_a_multiple_of_the_target_are_noticed() -> None:
    metric = get_metric("numeric")
    wrong = [(f"${n} million", str(n)) for n in range(2, 8)]
    assert str(metric.suspicion(wrong, 12)) == (  # type: ignore[attr-defined]
        "6 of 12 answers are 1,000,000 times the target. Name the unit of the targets in the prompt, or "
        "write it behind them (3 million)."
    )
    assert metric.suspicion(wrong, 40) is None  # type: ignore[attr-defined]
    assert "1/1,000 of" in str(metric.suspicion([("2", "2000"), ("3", "3000")], 4))  # type: ignore[attr-defined]


def _row(target: str) -> Example:
    return Example("r", "q", target, {"input": "q", "target": target})


def _prediction(text: str) -> Prediction:
    return Prediction(text, text)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        *[("5 mil", 5e3), ("R$ 5 mil", 5e3), ("5 mil reais", 5e3), ("Custa 5 mil reais.", 5e3)],
        *[("El precio es 5 mil", 5e3), ("Son 5 mil euros", 5e3), ("cerca de 5 mil pessoas", 5e3)],
        *[("unas 5 mil personas", 5e3), ("Respuesta: 5 mil", 5e3), ("3 mil millones", 3e9)],
        *[("It costs 5 mil", 5e6), ("The budget was 5 mil.", 5e6), ("about 5 mil people", 5e6)],
        *[("They paid 5 mil for it", 5e6), ("5 mil dollars", 5e6), ("The answer is 5 mil", 5e6)],
        # Of a price without a word of any language neither is said.
        *[("$5 mil", 5), ("US$ 5 mil", 5)],
    ],
)
def test_mil_is_a_thousand_in_spanish_and_a_million_in_english(text: str, value: float) -> None:
    number = read_number(text)
    assert number is not None
    assert (number.value, number.factor) == (value, 1.0)


@pytest.mark.parametrize(
    "text",
    [
        *(
            "Room 5B",
            "Room: 5B",
            "Answer: Room 5B.",
            "The meeting is in room 5B.",
            "room number 5B",
            "room no. 5B",
        ),
        *("Building 5B", "gate 5B", "Flat 5B", "apartment 5K", "Apt. 5K", "seat 5K", "platform 5M", "Bus 5M"),
        *("Vitamin 5K", "Highway 5M", "section 5B", "question 5B", "class 5B", "Flight 5B", "Type 5B"),
        *("Zimmer 5B", "Sala 5B", "salle 5B", "комната 5B", "Aufgabe 5B", "the company 5M", "5M Company"),
        *("5K resolution", "a 5K TV", "5K video", "GPT-5K", "F-5B", "5B Baker Street", "lives at 5B Main St"),
    ],
)
def test_a_letter_that_is_part_of_a_name_multiplies_nothing(text: str) -> None:
    number = read_number(text)
    assert number is not None
    assert (number.value, number.factor) == (5, 1.0)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        *[("5B", 5e9), ("5M", 5e6), ("5K", 5e3), ("population 5B", 5e9), ("The answer is 5B", 5e9)],
        *[("Total: 5M", 5e6), ("Price of the flat: 5M", 5e6), ("The price of the flat is 5M", 5e6)],
        *[
            ("Revenue of the company: 5M", 5e6),
            ("The platform has 5M users", 5e6),
            ("room for 5K people", 5e3),
        ],
        *[("flat $5M", 5e6), ("The house sold for 5M", 5e6), ("flat 3.5M", 3.5e6), ("a 12K salary", 12e3)],
        *[("7B parameters", 7e9), ("401K", 401e3), ("5G", 5), ("401k plan", 401), ("B12", 12)],
    ],
)
def test_a_letter_behind_an_amount_multiplies_it(text: str, value: float) -> None:
    number = read_number(text)
    assert number is not None
    assert (number.value, number.factor) == (value, 1.0)


@pytest.mark.parametrize("text", ["a 5K run", "She ran 5K", "the 5k race", "a 5K marathon walk"])
def test_how_far_somebody_ran_is_in_kilometres_or_metres(text: str) -> None:
    number = read_number(text)
    assert number is not None
    assert (number.value, number.factor) == (5, 1000.0)
