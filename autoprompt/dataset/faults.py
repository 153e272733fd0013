"""What is wrong with a file, gathered so that one message names it all."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NoReturn

from autoprompt.errors import DatasetError
from autoprompt.types import Example

MAX_SHOWN = 10


class Faults:
    """The faults of one file. The first ten are kept, the rest only counted: a broken file may have millions.

    unit: what the numbers count, "line" for text, "row" where there are no lines (Parquet).
    row: number of the row that is being read, where lines do not tell rows apart (a JSON list); 0 elsewhere.
    """

    def __init__(self, path: Path, unit: str = "line") -> None:
        self.path = path
        self.unit = unit
        self.row = 0
        self.count = 0
        self._shown: list[str] = []

    def add(self, line: int, what: str) -> None:
        self._add(f"{self.unit} {line}{f' (row {self.row})' if self.row else ''}", what)

    def add_row(self, example: Example, what: str) -> None:
        """Of a row that has been read."""
        self._add(example.at, what)

    def fail(self, line: int, what: str) -> NoReturn:
        """For a fault after which the rest of the file cannot be read."""
        self.add(line, what)
        self.raise_if_any()
        raise AssertionError("unreachable: a fault was just added")

    def _add(self, at: str, what: str) -> None:
        self.count += 1
        if len(self._shown) < MAX_SHOWN:
            self._shown.append(f"{self.path} {at}: {what}")

    def raise_if_any(self) -> None:
        """Raises DatasetError with all faults; its first line carries the file and the line."""
        if not self.count:
            return
        rest = self.count - len(self._shown)
        more = [f"... and {rest} more of {self.count} faults in this file"] if rest else []
        raise DatasetError("\n".join(self._shown + more))


def named(names: list[str], limit: int = 12) -> str:
    """'a', 'b', 'c' and 4 more: names as messages list them."""
    return listed([repr(name) for name in names], limit)


def listed(parts: list[str], limit: int = 12) -> str:
    """a, b, c and 4 more."""
    return ", ".join(parts[:limit]) + (f" and {len(parts) - limit} more" if len(parts) > limit else "")


def require_fields(
    names: Iterable[str], line: int, flags: Mapping[str, str], faults: Faults, also: str = ""
) -> None:
    """Fails where a field that is needed is not among the names; no row of the file could be read.

    flags: the flag that maps a field -> the field's name as it is set now. also: what else would do.
    """
    there = [str(name) for name in names]
    missing = {flag: name for flag, name in flags.items() if name not in there}
    if missing:
        lacks = "no field " + " and no field ".join(repr(name) for name in missing.values())
        has = f"the fields are {named(there)}" if there else "there are none"
        faults.fail(line, f"{lacks}; {has}. Map another field with {' and '.join(missing)}.{also}")
