"""Numbers as people read them."""

from __future__ import annotations

import pytest

from autoprompt.report import numbers


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (0.0, "p < 0.00001"),
        (1.2e-10, "p < 0.00001"),
        (0.00004, "p = 0.00004"),
        (0.0033, "p = 0.0033"),
        (0.021, "p = 0.021"),
        (0.5, "p = 0.50"),
        (1.0, "p = 1.00"),
        (None, "–"),
    ],
)
def test_p_values_have_no_powers_of_ten(value: float | None, expected: str) -> None:
    assert numbers.p_value(value) == expected


def test_signs_and_intervals() -> None:
    assert numbers.signed(0.3) == "+0.300"
    assert numbers.signed(-0.02, 2) == "−0.02"
    assert numbers.signed(-0.0001) == "0.000"
    assert numbers.interval((-0.1, 0.25)) == "−0.100 to 0.250"
    assert numbers.interval(None) == "–"


def test_amounts() -> None:
    assert numbers.count(158895) == "158,895"
    assert numbers.money(None) == "unknown"
    assert numbers.money(0.0042) == "$0.0042"
    assert numbers.money(1234.5) == "$1,234.50"
    assert numbers.duration(3723) == "1:02:03"
    assert numbers.times(2.14) == "2.1×"
    assert numbers.ratio(2.0, 0.0) is None
