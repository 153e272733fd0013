"""Values that are no JSON, in rows of a program or of Parquet: text where they can be."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping
from datetime import date, time, timedelta
from decimal import Decimal
from numbers import Integral, Real
from typing import Any
from uuid import UUID

from autoprompt.errors import DatasetError, Place, Problem

_WRITTEN = (date, time, timedelta, Decimal, UUID)  # what `str` writes as people do


def plain_rows(rows: Iterable[Any], wanted: Collection[str | None]) -> Iterator[Any]:
    """Rows of a program with plain values: a column that no prompt asks for must not block the others.

    wanted: fields that every row is read for; see `without_bytes`. What is no row is given on as it is.
    Others that have no plain form (a set, a picture) are left out. Raises DatasetError with place and field
    of a wanted one.
    """
    for number, row in enumerate(rows):
        if not isinstance(row, Mapping):
            yield row
            continue
        plain = {}
        for name, value in without_bytes(row, wanted).items():
            try:
                plain[name] = _plain(value)
            except TypeError as error:
                if name not in wanted:
                    continue
                said, fix = f"field {name!r} holds {error}", "Give plain values: texts, numbers, lists."
                raise DatasetError(Problem("dataset.not-plain", said, Place(row=number), fix)) from None
        yield plain


def without_bytes(record: Mapping[str, Any], wanted: Collection[str | None]) -> Mapping[str, Any]:
    """The record without fields that hold bytes, such as pictures, be it within an object or a list.

    A field of bytes that are UTF-8 text is that text. A prompt that asks for one that is left out is told
    that there is none. wanted: those stay, to be refused.
    """
    if not any(map(holds_bytes, record.values())):
        return record
    read = {name: _text(value) for name, value in record.items()}
    return {name: value for name, value in read.items() if name in wanted or not holds_bytes(value)}


def json_value(value: Any) -> Any:
    """A value of Parquet as JSON has it: dates, decimals and the like as text, NaN as null.

    Bytes stay, to be left out or refused.
    """
    if isinstance(value, Mapping):
        return {str(name): json_value(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [json_value(part) for part in value]
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return None
    return value if isinstance(value, str | bool | int | float | bytes) else str(value)


def holds_bytes(value: Any) -> bool:
    if isinstance(value, Mapping):
        return any(map(holds_bytes, value.values()))
    return isinstance(value, bytes | bytearray) or (isinstance(value, list) and any(map(holds_bytes, value)))


def _text(value: Any) -> Any:
    if not isinstance(value, bytes) or b"\0" in value:
        return value
    try:
        return value.decode()
    except UnicodeDecodeError:
        return value


def _plain(value: Any) -> Any:
    """Raises TypeError with the name of a type that has no plain form."""
    if value is None or isinstance(value, str | int):
        return value
    if isinstance(value, Integral):  # NumPy's
        return int(value)
    if isinstance(value, Real):
        number = float(value)
        return number if math.isfinite(number) else None if math.isnan(number) else str(number)
    if isinstance(value, _WRITTEN):
        return str(value)
    if isinstance(value, Mapping):
        return {name: _plain(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(part) for part in value]
    if hasattr(value, "model_dump"):  # pydantic's records, such as messages of LangChain and OpenAI
        return _plain(value.model_dump())
    if hasattr(value, "tolist"):  # NumPy's arrays, truth values and dates
        return _plain(value.tolist())
    raise TypeError(type(value).__name__)
