"""Values that are no JSON, in rows of a program or of Parquet."""

from __future__ import annotations

import datetime
from decimal import Decimal
from typing import Any

import pytest

from autoprompt.dataset.python_rows import holds_bytes, to_plain_rows, without_bytes
from autoprompt.errors import DatasetError

PICTURE = b"\x89PNG\x00"


class Array:
    """As NumPy's values are: `tolist` gives Python's."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def tolist(self) -> Any:
        return self.value


@pytest.mark.parametrize(
    ("value", "plain"),
    [
        (Decimal("1.50"), "1.50"),
        (datetime.date(2024, 5, 1), "2024-05-01"),
        (float("nan"), None),
        (Array(True), True),
        (Array([1, 2]), [1, 2]),
        ({"a": (1, Decimal(2))}, {"a": [1, "2"]}),
    ],
)
def test_a_value_is_read_as_people_write_it(value: Any, plain: Any) -> None:
    assert list(to_plain_rows([{"input": "x", "more": value}], ("input",))) == [{"input": "x", "more": plain}]


@pytest.mark.parametrize(
    "value", [{1}, PICTURE, {"bytes": PICTURE, "path": None}, [PICTURE], object(), bytearray(PICTURE)]
)
def test_what_has_no_plain_form_is_left_out_unless_it_is_asked_for(value: Any) -> None:
    rows = [{"input": "x", "more": value}]
    assert list(to_plain_rows(rows, ("input",))) == [{"input": "x"}]
    with pytest.raises(DatasetError, match=r"rows\[0\]: field 'more' holds"):
        list(to_plain_rows(rows, ("input", "more")))


def test_pictures_of_a_parquet_file_are_left_out_with_what_they_lie_in() -> None:
    record = {"input": "x", "picture": {"bytes": PICTURE, "path": "a.png"}, "text": b"plain"}
    assert without_bytes(record, ("input",)) == {"input": "x", "text": "plain"}


def test_bytes_are_found_however_deeply_they_are_nested() -> None:
    value: Any = b"picture"
    for _ in range(960):
        value = {"a": [value]}
    assert holds_bytes(value)
    assert not holds_bytes({"a": [1, "text"]})
