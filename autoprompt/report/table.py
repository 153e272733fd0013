"""The rows of a run for the table of the page: compact, and never more than a browser can hold."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from autoprompt.report.records import Answer, ComparedRow
from autoprompt.report.summary import RunSummary
from autoprompt.report.texts import language, shown

# Of a page of 8 MB. Longer texts are cut, and the page says so; the run's folder has them whole.
MOST_CHARACTERS = 4_000_000
LONGEST_TEXT = 4_000
SHORTEST_CUT = 120
# More rows than that are not read by anybody; those that say something come first.
MOST_ROWS = 20_000
_RANK = {"broken": 0, "fixed": 1, "lost": 2, "wrong": 3, "right": 4}
_LABELS_IN_FILTER = 100
_SHORT = 12  # characters of a label that fit a narrow column

# How an answer is marked: right, wrong, unread, lost.
RIGHT, WRONG, UNREAD, LOST = range(4)


def rows_data(run: RunSummary) -> dict[str, Any]:
    """What the script of the page makes its table of, as plain JSON.

    rows: [state, expected, answer before, its mark, answer after, its mark, input, reason, turns]; a mark is
        None where the row was not run under that prompt. turns: [role, text] of each turn of a conversation,
        whose last question the input is; missing for other inputs.
    """
    kept = _kept(run.rows)
    longest = _longest(kept)
    labels = Counter(row.expected for row in run.rows)
    return {
        # Of a label, the reason would only say expected and given again.
        "rows": [_cells(row, longest, has_reason=not run.confusion) for row in kept],
        "total": len(run.rows),
        "labels": [shown(label, 80) for label, _ in labels.most_common()] if _are_labels(labels, run) else [],
        "lang": language(" ".join(row.input[:200] for row in kept[:50])),
        "areShort": max(map(len, labels), default=99) <= _SHORT and bool(run.confusion),
        "hasBefore": any(row.original is not None for row in kept),
    }


def _are_labels(labels: Counter[str], run: RunSummary) -> bool:
    return len(labels) <= _LABELS_IN_FILTER and (bool(run.confusion) or 2 * len(labels) <= len(run.rows))


def _kept(rows: Sequence[ComparedRow]) -> list[ComparedRow]:
    if len(rows) <= MOST_ROWS:
        return list(rows)
    order = sorted(range(len(rows)), key=lambda number: _RANK[rows[number].state])[:MOST_ROWS]
    return [rows[number] for number in sorted(order)]


def _longest(rows: Sequence[ComparedRow]) -> int:
    """The cut at which all rows together are small enough."""
    longest = LONGEST_TEXT
    lengths = [len(text) for row in rows for text in _texts(row)]
    while longest > SHORTEST_CUT and sum(min(n, longest) for n in lengths) > MOST_CHARACTERS:
        longest //= 2
    return longest


def _texts(row: ComparedRow) -> list[str]:
    answers = [side for side in (row.original, row.best) if side is not None]
    turns = (turn.shown for turn in row.turns)
    return [row.input, *turns, row.expected, *(_answer_text(side) for side in answers)]


def _cells(row: ComparedRow, longest: int, *, has_reason: bool) -> list[Any]:
    before, after = row.original, row.best
    reason = after.reason if after is not None and has_reason else ""
    return [
        row.state,
        shown(row.expected, longest),
        *_answer_cells(before, longest),
        *_answer_cells(after, longest),
        shown(row.input, longest),
        shown(reason, 300),
        *([[[turn.role, shown(turn.shown, longest)] for turn in row.turns]] if row.turns else []),
    ]


def _answer_cells(answer: Answer | None, longest: int) -> tuple[str, int | None]:
    if answer is None:
        return "", None
    return shown(_answer_text(answer), longest), _mark(answer)


def _answer_text(answer: Answer) -> str:
    return answer.error if answer.error is not None else answer.text


def _mark(answer: Answer) -> int:
    if answer.error is not None:
        return LOST
    if answer.is_unparsed:
        return UNREAD
    return RIGHT if answer.is_correct else WRONG
