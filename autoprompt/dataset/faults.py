"""What is wrong with a file, gathered so that one message names it all."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NoReturn

from autoprompt.errors import DatasetError
from autoprompt.records import Example
from autoprompt.text.names import named

MAX_SHOWN = 10
_MAX_PLACES = 12
_TARGET_FLAG = "--target-field"
_TARGETS = ("answer", "category", "class", "expected", "label", "output", "target")
_NOT_QUOTED = frozenset('"\\$`!')  # means something between the double quotes of a shell


@dataclass
class _Told:
    """One fault, and where else the like was found: the first places, and how many there are."""

    text: str
    also_at: list[str] = field(default_factory=list)
    also: int = 0


class Faults:
    """The faults of one file. A fault that many rows have is told once, with its places, so that it hides no
    other. The first ten are kept, the rest only counted: a broken file may have millions.

    unit: what the numbers count, "line" for text, "row" where there are no lines (Parquet).
    row: number of the row that is being read, where lines do not tell rows apart (a JSON list); 0 elsewhere.
    """

    def __init__(self, path: Path, unit: str = "line") -> None:
        self.path = path
        self.unit = unit
        self.row = 0
        self.count = 0
        self._told: dict[str, _Told] = {}

    def add(self, line: int, what: str, kind: str = "") -> None:
        """kind: what is told once, where the words differ by the line; else the same words are."""
        self._add(f"{self.unit} {line}{f' (row {self.row})' if self.row else ''}", what, kind)

    def add_row(self, example: Example, what: str) -> None:
        """Of a row that has been read."""
        self._add(example.at, what)

    def fail(self, line: int, what: str) -> NoReturn:
        """For a fault after which the rest of the file cannot be read."""
        self.add(line, what)
        self.raise_if_any()
        raise AssertionError("unreachable: a fault was just added")

    def _add(self, at: str, what: str, kind: str = "") -> None:
        self.count += 1
        told = self._told.get(kind or what)
        if told is None:
            if len(self._told) < MAX_SHOWN:
                self._told[kind or what] = _Told(f"{self.path} {at}: {what}")
            return
        told.also += 1
        if len(told.also_at) < _MAX_PLACES:
            told.also_at.append(at)

    def raise_if_any(self) -> None:
        """Raises DatasetError with all faults; its first line carries the file and the line."""
        if not self.count:
            return
        lines = []
        for told in self._told.values():
            lines.append(told.text)
            if told.also:
                rest = told.also - len(told.also_at)
                lines.append("  likewise " + ", ".join(told.also_at) + (f" and {rest} more" if rest else ""))
        rest = self.count - sum(1 + told.also for told in self._told.values())
        if rest:
            lines.append(f"... and {rest} more of {self.count} faults in this file")
        raise DatasetError("\n".join(lines))


def require_fields(
    names: Iterable[str],
    line: int,
    flags: Mapping[str, str],
    faults: Faults,
    *,
    used: Sequence[str] = (),
    also: str = "",
) -> None:
    """Fails where a field that is needed is not among the names; no row of the file could be read.

    flags: the flag that maps a field -> the field's name as it is set now. used: names that are taken for
    something else already. also: what else would do.
    """
    there = [str(name) for name in names]
    missing = {flag: name for flag, name in flags.items() if name not in there}
    if missing:
        lacks = "no field " + " and no field ".join(repr(name) for name in missing.values())
        has = f"the fields are {named(there)}" if there else "there are none"
        mapped = " and ".join(missing)
        unused = [name for name in there if name not in (*flags.values(), *used, "id", "")]
        if found := _meant(unused, [*missing]):
            mapped += ", such as " + " and ".join(f'{flag} "{name}"' for flag, name in found.items())
        faults.fail(line, f"{lacks}; {has}. Map another field with {mapped}.{also}")


def _meant(unused: Sequence[str], missing: Sequence[str]) -> dict[str, str]:
    """Flag that misses its field -> the field that it is for; {} where names do not tell, or are no words.

    unused: the fields of the file that serve for nothing yet.
    """
    targets = [name for name in unused if name.lower() in _TARGETS] if _TARGET_FLAG in missing else []
    rest = [name for name in unused if name not in targets]
    found = dict.fromkeys(missing, "")
    if len(targets) == 1:
        found[_TARGET_FLAG] = targets[0]
    if len(rest) == 1 == list(found.values()).count(""):
        found = {flag: name or rest[0] for flag, name in found.items()}
    is_told = all(name.isprintable() and not set(name) & _NOT_QUOTED for name in found.values())
    return found if is_told and all(found.values()) else {}
