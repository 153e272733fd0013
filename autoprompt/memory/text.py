"""The experience file as text: entries that a person can read and edit, and everything else as it stands."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from autoprompt.memory.experience import Experience, Verdict, read_change

HEADER = """\
# What was changed in prompts, and what it did, measured on the same rows before and after.
# Written by autoprompt, yours to edit. An entry needs its first line only: - [better] What was changed
# (or [worse], or [no difference]); one without "task:" is advice for every task. Lines with a # stay.
# To show, search, remove or export entries: autoprompt memory
"""

_HEAD = re.compile(
    r"[-*]\s*\[\s*(?P<verdict>better|worse|no[ _-]difference)"
    r"(?:\s+(?P<gain>[-+−]?\s*\d*\.?\d+))?(?:\s+on\s+(?P<rows>\d+)\s+rows?)?\s*\]\s*(?P<change>.*\S)\s*",
    re.IGNORECASE,
)
_LOOKS_LIKE_HEAD = re.compile(r"[-*]\s*\[")
_FIELD = re.compile(r"\s+(?P<name>[a-z]+)\s*[:：]\s*(?P<value>.*?)\s*")
_SCORE = re.compile(r"(?P<before>\d*\.?\d+)\s*(?:->|→)\s*(?P<after>\d*\.?\d+)")
_VERDICTS: dict[str, Verdict] = {"better": "better", "worse": "worse", "no_difference": "no_difference"}
_RUN = re.compile(r"(?P<run_id>\S+?),?\s+iteration\s+(?P<iteration>\d+)")

_Piece = list[tuple[int, str]]  # line number from 1, line


@dataclass
class Block:
    """A piece of the file: an entry, or lines that are none (comments, broken entries), kept as they are."""

    lines: list[str] = field(default_factory=list)
    entry: Experience | None = None


@dataclass(frozen=True)
class BadLine:
    """Something that could not be read. line: 1-based."""

    line: int
    text: str

    def __str__(self) -> str:
        return f"line {self.line}: {self.text}"


def parse(text: str) -> tuple[list[Block], list[BadLine]]:
    """Return the blocks of a file in their order, and what could not be read.

    Never fails, never drops a line.
    """
    blocks: list[Block] = []
    problems: list[BadLine] = []
    for piece in _pieces(text):
        block = Block([line for _, line in piece])
        blocks.append(block)
        if _LOOKS_LIKE_HEAD.match(block.lines[0]):
            try:
                block.entry = _read_entry(piece)
            except _Unreadable as error:
                problems.append(error.problem)
    return blocks, problems


def render(blocks: Iterable[Block]) -> str:
    """Return the file's text. Entries are written in one form, whatever their spacing was; the rest stays."""
    parts = ["\n".join(_entry_lines(block.entry) if block.entry else block.lines) for block in blocks]
    return "\n\n".join(part for part in parts if part.strip()) + "\n"


class _Unreadable(Exception):
    def __init__(self, line: int, text: str) -> None:
        self.problem = BadLine(line, text)


def _pieces(text: str) -> Iterator[_Piece]:
    """Each entry with the indented lines below it, and each stretch of other text.

    Empty lines end a stretch, not an entry: what is indented still belongs to the entry above.
    """
    piece: _Piece = []
    in_entry, gap = False, False
    for number, line in enumerate(text.removeprefix("\ufeff").splitlines(), start=1):
        if not line.strip():
            gap = True
            continue
        is_head = _LOOKS_LIKE_HEAD.match(line) is not None
        goes_on = in_entry if line[0].isspace() else not in_entry and not is_head and not gap
        if piece and not goes_on:
            yield piece
            piece = []
        if not piece:
            in_entry = is_head
        piece.append((number, line.rstrip()))
        gap = False
    if piece:
        yield piece


def _read_entry(piece: _Piece) -> Experience:
    number, first = piece[0]
    head = _HEAD.fullmatch(first)
    if head is None:
        raise _Unreadable(
            number,
            f"{first[:60]!r} is not an entry; expected '- [better +0.12 on 40 rows] what was changed', with "
            f"better, worse or no difference",
        )
    values: dict[str, Any] = {}
    change: list[str] = [head["change"]]
    notes: list[str] = []
    for number, line in piece[1:]:
        found = _FIELD.fullmatch(line)
        read = _FIELDS.get(found["name"]) if found else None
        if found and read:
            try:
                values |= read(found["value"])
            except ValueError as error:
                raise _Unreadable(number, f"{line.strip()!r}: {error}") from error
        elif found is None and not values and not notes:
            change.append(line.strip())  # a person wrapped the first line
        else:
            notes.append(line)
    return Experience(
        task=values.pop("task", ""),
        change=read_change(" ".join(change)),
        verdict=_VERDICTS[re.sub(r"[ -]", "_", head["verdict"].lower())],
        told_gain=float(head["gain"].replace("−", "-").replace(" ", "")) if head["gain"] else None,
        rows=int(head["rows"] or 0),
        notes=tuple(notes),
        **values,
    )


def _number(value: str, low: float, high: float) -> float:
    try:
        number = float(value)
    except ValueError:
        raise ValueError("expected a number") from None
    if not low <= number <= high:
        raise ValueError(f"expected a number from {low:g} to {high:g}")
    return number


def _read_score(value: str) -> dict[str, Any]:
    found = _SCORE.fullmatch(value)
    if found is None:
        raise ValueError("expected two scores, as in 0.60 -> 0.72")
    return {"before": _number(found["before"], 0, 1), "after": _number(found["after"], 0, 1)}


def _read_run(value: str) -> dict[str, Any]:
    found = _RUN.fullmatch(value)
    if found is None:
        raise ValueError("expected a run, as in ID, iteration 2")
    return {"run_id": found["run_id"], "iteration": int(found["iteration"])}


_FIELDS: dict[str, Callable[[str], dict[str, Any]]] = {
    "task": lambda value: {"task": value},
    "operator": lambda value: {"operator": value},
    "score": _read_score,
    "run": _read_run,
    "date": lambda value: {"date": value},
    "priority": lambda value: {"priority": _number(value, 0, 1000)},
    "language": lambda value: {"language": value or None},
    "counted": lambda value: {"sources": tuple(value.split())},
    "cut": lambda value: {"cut": value},
}


def _entry_lines(entry: Experience) -> list[str]:
    gain = "" if entry.gain is None else f" {entry.gain:+.2f}"
    rows = f" on {entry.rows} row{'s' * (entry.rows != 1)}" if entry.rows else ""
    lines = [f"- [{entry.verdict.replace('_', ' ')}{gain}{rows}] {entry.text}"]
    if entry.task:
        lines.append(f"  task: {entry.task}")
    if entry.operator:
        lines.append(f"  operator: {entry.operator}")
    if entry.before is not None and entry.after is not None:
        lines.append(f"  score: {entry.before:.4g} -> {entry.after:.4g}")
    if entry.run_id:
        lines.append(f"  run: {entry.run_id}, iteration {entry.iteration}")
    if entry.date:
        lines.append(f"  date: {entry.date}")
    lines.append(f"  priority: {entry.priority:.4g}")
    if entry.language:
        lines.append(f"  language: {entry.language}")
    if entry.sources:
        lines.append(f"  counted: {' '.join(entry.sources)}")
    if entry.cut:
        lines.append(f"  cut: {entry.cut}")
    return [*lines, *entry.notes]
