"""What `runs show` says beside the result: the rows that the best prompt fixed and broke."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from autoprompt.cli import clean, render
from autoprompt.report.records import Answer, ComparedRow
from autoprompt.report.summary import RunSummary

_ROWS_SHOWN = 8
_LONGEST_ANSWER = 24
_LONGEST_INPUT = 70
_STYLES = {"fixed": "green", "broken": "red"}


def changed_rows(run: RunSummary, *, width: int) -> Iterator[RenderableType]:
    """Fixed and broken rows of the sealed test, some of each; nothing where there are none."""
    for state in ("broken", "fixed"):
        rows = [row for row in run.rows if row.state == state]
        if not rows:
            continue
        more = f", the first {_ROWS_SHOWN}" if len(rows) > _ROWS_SHOWN else ""
        yield Text(
            f"{state.capitalize()}: {len(rows)} row{'s' if len(rows) > 1 else ''}{more}",
            f"bold {_STYLES[state]}",
        )
        yield _table(rows[:_ROWS_SHOWN], width)
        yield Text()


def _table(rows: list[ComparedRow], width: int) -> Table:
    made = render.table("expected", "original", "best", "input")
    longest = max(24, min(_LONGEST_INPUT, width - 50))
    for row in rows:
        made.add_row(
            Text(render.shortened(row.expected, _LONGEST_ANSWER)),
            _answer(row.original),
            _answer(row.best),
            Text(render.shortened(row.input, longest)),
        )
    return made


def _answer(answer: Answer | None) -> Text:
    if answer is None:
        return Text("-")
    if answer.error is not None:
        return Text(f"no answer: {render.shortened(answer.error, _LONGEST_ANSWER)}", "red")
    text = render.shortened(clean(answer.text), _LONGEST_ANSWER) or "(empty)"
    if answer.is_unparsed:
        return Text(f"unparsed: {text}", "red")
    return Text(text, "" if answer.is_correct else "red")
