"""What is wrong with a file of rows, gathered so that one error names it all."""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NoReturn

from autoprompt.dataset.python_rows import given_name, is_given
from autoprompt.errors import DatasetError, Place, Problem
from autoprompt.records import Example
from autoprompt.text.names import named

MAX_SHOWN = 10
_MAX_PLACES = 12
_TARGETS = ("answer", "category", "class", "expected", "label", "output", "target")


def file_place(path: Path) -> Place:
    """Return the place of a file of rows. Rows that a program gave have none, though a file keeps them.

    A part of them has its name.
    """
    return Place(file=given_name(path.stem) if is_given(path) else path)


@dataclass
class _Found:
    """A problem: as it is found at its first places, and how many it has."""

    first: list[Problem] = field(default_factory=list)
    count: int = 0


def _order(problem: Problem) -> tuple[int, int]:
    """Return the line and row of a problem, to sort by."""
    return problem.place.line or 0, problem.place.row or 0


class Faults:
    """The problems of one file. Rows with the same problem share an entry, so that it hides no other.

    The first ten are kept, the rest only counted: a broken file may have millions.

    Args:
        path: The file.
        unit: What numbers count: "line" in text, "row" if there are no lines (Parquet).

    `row` is the 1-based number of the row that is being read, if lines do not tell rows apart (a JSON list).
    """

    def __init__(self, path: Path, unit: str = "line") -> None:
        self.path = path
        self.unit = unit
        self.row = 0
        self.count = 0
        self._found: dict[tuple[str, str], _Found] = {}

    def place(self, line: int) -> Place:
        """Return the place of the row that is being read. line: 1-based number of the line or the row."""
        if is_given(self.path):
            return Place(given_name(self.path.stem), row=line - 1)
        if self.unit == "row":
            return Place(self.path, row=line - 1)
        return Place(self.path, line, self.row - 1 if self.row else None)

    def add(self, line: int, problem: Problem, kind: str = "") -> None:
        """Add a problem of the row that is being read.

        kind: Rows with this kind of problem share an entry, though the words differ; by default those with
            the same words do.
        """
        self._add(problem.at(self.place(line)), kind)

    def add_row(self, example: Example, problem: Problem, kind: str = "") -> None:
        """Add a problem of a row that has been read. kind: as of `add`."""
        self._add(problem.at(example.place), kind)

    def fail(self, line: int, problem: Problem) -> NoReturn:
        """Raise DatasetError with a problem after which the rest of the file cannot be read."""
        self.add(line, problem)
        raise DatasetError(*self.problems)

    def _add(self, problem: Problem, kind: str) -> None:
        self.count += 1
        key = (problem.code, kind or problem.said)
        found = self._found.get(key)
        if found is None:
            if len(self._found) == MAX_SHOWN:
                return
            found = self._found[key] = _Found()
        found.count += 1
        # Rows come in the order of the file, or shuffled, when they have been split.
        insort(found.first, problem, key=_order)
        del found.first[1 + _MAX_PLACES :]

    @property
    def problems(self) -> tuple[Problem, ...]:
        """Return an entry for each of the first ten problems, and one that counts the others."""
        found = sorted(self._found.values(), key=lambda one: _order(one.first[0]))
        problems = [
            replace(
                one.first[0],
                also=tuple(other.place for other in one.first[1:]),
                more=one.count - len(one.first),
            )
            for one in found
        ]
        rest = self.count - sum(one.count for one in found)
        if rest:
            said = f"{rest} of {self.count} problems are not listed"
            problems.append(Problem("dataset.more-problems", said, file_place(self.path)))
        return tuple(problems)

    def raise_if_any(self) -> None:
        """Raise DatasetError with all problems, in the order of the file."""
        if self.count:
            raise DatasetError(*self.problems)


NeedsTarget = Callable[[], bool]


def always() -> bool:
    """Say that each row needs a target."""
    return True


def require_fields(
    names: Iterable[str],
    line: int,
    fields: Mapping[str, str],
    faults: Faults,
    *,
    used: Sequence[str] = (),
    also: str = "",
) -> None:
    """Fail if a needed field is not among the names, since no row of the file can be read then.

    Args:
        names: The fields of a row.
        line: Its line.
        fields: Setting that maps a field, such as `input_field` -> the name of the field as it is set now.
        faults: Of the file.
        used: Names that are already used for something else.
        also: Another way to fix it, as a sentence.
    """
    there = [str(name) for name in names]
    missing = {setting: name for setting, name in fields.items() if name not in there}
    if not missing:
        return
    lacks = " and ".join(f"no field {name!r}" for name in missing.values())
    has = f"the fields are {named(there)}" if there else "there are none"
    unused = [name for name in there if name not in (*fields.values(), *used, "id", "")]
    meant = _likely_fields(unused, [*missing])
    fix = f"Name the right field with {' and '.join(f'{{{setting}}}' for setting in missing)}.{also}"
    settings = {setting: meant.get(setting, "<FIELD>") for setting in missing}
    faults.fail(line, Problem("dataset.missing-field", f"{lacks}; {has}", fix=fix, settings=settings))


def _likely_fields(unused: Sequence[str], missing: Sequence[str]) -> dict[str, str]:
    """Return setting that misses its field -> the field that it is for; {} if names do not tell.

    unused: The fields of the file that serve for nothing yet.
    """
    targets = [name for name in unused if name.lower() in _TARGETS] if "target_field" in missing else []
    rest = [name for name in unused if name not in targets]
    found = dict.fromkeys(missing, "")
    if len(targets) == 1:
        found["target_field"] = targets[0]
    if len(rest) == 1 == list(found.values()).count(""):
        found = {setting: name or rest[0] for setting, name in found.items()}
    is_known = all(name.isprintable() for name in found.values())
    return found if is_known and all(found.values()) else {}
