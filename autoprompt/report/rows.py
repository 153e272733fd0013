"""The rows that both prompts answered, side by side, and what was taken for what."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

from autoprompt.records import REFUSED, WITHHELD, Message
from autoprompt.report.records import Answer, ComparedRow, Confusion
from autoprompt.runs import RunFolder
from autoprompt.runs.folder import SEALED

# More labels make a table that nobody reads.
MOST_LABELS = 24

Record = Mapping[str, Any]


def read_rows(folder: RunFolder) -> tuple[tuple[ComparedRow, ...], str]:
    """The rows of the sealed test under both prompts, and what they are called in words.

    Where the test has not been opened: the rows of train that the best prompt was last run on. A run whose
    best is its original has run it once, and both sides are the same.
    """
    best = _read(folder, f"{SEALED}best")
    if best:
        return _joined(_read(folder, f"{SEALED}original") or best, best), "the sealed test"
    for path in sorted(folder.predictions_dir.glob("*-train.jsonl"), reverse=True):
        rows = _read(folder, path.stem)
        if rows:
            number = path.stem.partition("-")[0].lstrip("0")
            return tuple(_row(row, None, row) for row in rows), f"train, round {number}"
    return (), ""


def _read(folder: RunFolder, name: str) -> list[Record]:
    try:
        return list(folder.read_predictions(name))
    except FileNotFoundError:  # replaced between the look and the opening
        return []


def _joined(original: Sequence[Record], best: Sequence[Record]) -> tuple[ComparedRow, ...]:
    before = {row["example_id"]: row for row in original}
    return tuple(_row(row, before.get(row["example_id"]), row) for row in best)


def _row(row: Record, original: Record | None, best: Record) -> ComparedRow:
    return ComparedRow(
        example_id=str(row["example_id"]),
        input=str(row["input"]),
        expected=str(row["ground_truth"]),
        original=None if original is None else _answer(original),
        best=_answer(best),
        group=row.get("group"),
        turns=tuple(map(Message.from_dict, row.get("turns", ()))),
    )


def _answer(row: Record) -> Answer:
    error = row.get("error")
    return Answer(
        text=str(row.get("prediction") or ""),
        score=float(row["score"]),
        is_correct=bool(row["is_correct"]),
        is_unparsed=bool(row.get("is_unparsed")),
        is_lost=error is not None and not str(error).startswith((REFUSED, WITHHELD)),
        error=None if error is None else str(error),
        reason=str(row.get("reason") or ""),
    )


def confusion(rows: Sequence[ComparedRow], labels: Sequence[str]) -> tuple[Confusion, ...]:
    """What was taken for what, under the original and under the best prompt; () where answers are no labels.

    labels: those of the task; without them the expected answers, if they are few and come again and again.
    Rows that the endpoint lost on either side are left out, as in the verdict.
    """
    known = tuple(labels) or _found_labels(rows)
    kept = [row for row in rows if row.state != "lost"]
    if not 2 <= len(known) <= MOST_LABELS or any(row.expected not in known for row in kept):
        return ()
    sides: tuple[Literal["original", "best"], ...] = ("original", "best")
    found = []
    for name in sides:
        pairs = [(row.expected, side) for row in kept if (side := getattr(row, name)) is not None]
        if pairs:
            found.append(Confusion(name, known, _counts(pairs, known)))
    return tuple(found)


def _found_labels(rows: Sequence[ComparedRow]) -> tuple[str, ...]:
    expected = sorted({row.expected for row in rows})
    return tuple(expected) if len(expected) * 4 <= len(rows) else ()


def _counts(pairs: Iterable[tuple[str, Answer]], labels: tuple[str, ...]) -> tuple[tuple[int, ...], ...]:
    place = {label: number for number, label in enumerate(labels)}
    table = [[0] * (len(labels) + 1) for _ in labels]
    for expected, answer in pairs:
        is_read = not answer.is_unparsed and answer.error is None
        column = place.get(answer.text, len(labels)) if is_read else len(labels)
        table[place[expected]][column] += 1
    return tuple(map(tuple, table))
