"""What `runs show` says beside the result: the candidates, and the rows that the best one fixed and broke."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from autoprompt.cli import clean, render
from autoprompt.report.records import Answer, CandidateSummary, ComparedRow
from autoprompt.report.summary import RunSummary
from autoprompt.text.names import counted

_COLUMNS = ("candidate", "round", "operator", "end", "rows", "mean", "change")
# In a narrow terminal, until the change has room; where it has none without them, it goes too.
_DROPPED_FIRST = ("rows", "round", "operator", "change")
_LONGEST_CHANGE = 200
_LEAST_CHANGE = 24  # columns: narrower, and it is a column of single words
_MOST_LINES = 4  # of one change
_ROWS_SHOWN = 8
_LONGEST_ANSWER = 24
_SHORTEST_ANSWER = 8
_LONGEST_INPUT = 70
_SHORTEST_INPUT = 24
_GAPS = 9  # columns between four cells
_STYLES = {"fixed": "green", "broken": "red"}


def candidate_table(run: RunSummary, console: Console) -> Table:
    """All candidates: their change, and of the rest the columns that leave it room."""
    columns = list(_COLUMNS)
    taken = 0
    for doomed in (None, *_DROPPED_FIRST):
        columns = [column for column in columns if column != doomed]
        taken = render.natural_width(_candidates(run, columns, _LEAST_CHANGE), console)
        if taken <= console.width:
            break
    room = _LEAST_CHANGE + max(0, console.width - taken)
    return _candidates(run, columns, min(_LONGEST_CHANGE, _MOST_LINES * room))


def _candidates(run: RunSummary, columns: list[str], longest_change: int) -> Table:
    made = render.table(*columns, right=("round", "rows"))
    for column in made.columns:
        column.no_wrap = column.header != "change"
    for candidate in run.candidates:
        cells = _cells(candidate, run.best_id, longest_change)
        made.add_row(*(Text(clean(cells[column])) for column in columns))
    return made


def _cells(candidate: CandidateSummary, best_id: str, longest_change: int) -> dict[str, str]:
    return {
        "candidate": candidate.id[:6],
        "round": str(candidate.iteration),
        "operator": candidate.operator,
        "end": "best" if candidate.id == best_id else candidate.status,
        "rows": str(candidate.rows),
        "mean": render.score(candidate.score),
        "change": render.shortened(candidate.change, longest_change),
    }


def changed_rows(run: RunSummary, *, width: int) -> Iterator[RenderableType]:
    """Fixed and broken rows of the sealed test, some of each; nothing where there are none."""
    for state in ("broken", "fixed"):
        rows = [row for row in run.rows if row.state == state]
        if not rows:
            continue
        more = f", the first {_ROWS_SHOWN}" if len(rows) > _ROWS_SHOWN else ""
        yield Text(
            f"{state.capitalize()}: {counted(len(rows), 'row')}{more}",
            f"bold {_STYLES[state]}",
        )
        yield _table(rows[:_ROWS_SHOWN], width)
        yield Text()


def _table(rows: list[ComparedRow], width: int) -> Table:
    made = render.table("expected", "original", "best", "input")
    longest = max(_SHORTEST_INPUT, min(_LONGEST_INPUT, width - 50))
    answer = max(_SHORTEST_ANSWER, min(_LONGEST_ANSWER, (width - _SHORTEST_INPUT - _GAPS) // 3))
    for row in rows:
        made.add_row(
            Text(render.shortened(row.expected, answer)),
            _answer(row.original, answer),
            _answer(row.best, answer),
            Text(render.shortened(row.input, longest)),
        )
    return made


def _answer(answer: Answer | None, longest: int) -> Text:
    if answer is None:
        return Text("-")
    if answer.error is not None:
        return Text(f"no answer: {render.shortened(answer.error, longest)}", "red")
    text = render.shortened(clean(answer.text), longest) or "(empty)"
    if answer.is_unparsed:
        return Text(f"unparsed: {text}", "red")
    return Text(text, "" if answer.is_correct else "red")
