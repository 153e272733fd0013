"""What `runs show` adds to the result: candidates, rows that were fixed or broke, and the plot."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from autoprompt.cli import render
from autoprompt.cli.output import clean
from autoprompt.report.numbers import NONE, score
from autoprompt.report.plot import Point, make_plot
from autoprompt.report.records import Answer, CandidateSummary, ComparedRow
from autoprompt.report.summary import RunSummary
from autoprompt.text.names import counted

_COST = "1,000 calls"
_COLUMNS = ("candidate", "round", "operator", "end", "rows", "mean", _COST, "change")
# In a narrow terminal, until the change has room; where it has none without them, it goes too.
_DROPPED_FIRST = ("rows", "round", "operator", _COST, "change")
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
    least = render.Fitting(_candidates(run, _COLUMNS, _LEAST_CHANGE), _DROPPED_FIRST, (_COST,))
    fitting = least.within(console.width, console)
    room = _LEAST_CHANGE + max(0, console.width - render.natural_width(fitting, console))
    columns = [str(column.header) for column in fitting.columns]
    return _candidates(run, columns, min(_LONGEST_CHANGE, _MOST_LINES * room))


def _candidates(run: RunSummary, columns: Sequence[str], longest_change: int) -> Table:
    made = render.table(*columns, right=("round", "rows", _COST))
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
        "mean": score(candidate.score),
        _COST: candidate.shown_cost or NONE,
        "change": render.shortened(candidate.change, longest_change),
    }


def changed_rows(
    compared: Sequence[ComparedRow], *, width: int, sides: tuple[str, str] = ("original", "best")
) -> Iterator[RenderableType]:
    """Yield fixed and broken rows, some of each. sides: names of the two prompts."""
    for state in ("broken", "fixed"):
        rows = [row for row in compared if row.state == state]
        if not rows:
            continue
        more = f", the first {_ROWS_SHOWN}" if len(rows) > _ROWS_SHOWN else ""
        yield Text(
            f"{state.capitalize()}: {counted(len(rows), 'row')}{more}",
            f"bold {_STYLES[state]}",
        )
        yield _table(rows[:_ROWS_SHOWN], width, sides)
        yield Text()


def _table(rows: Sequence[ComparedRow], width: int, sides: tuple[str, str]) -> Table:
    made = render.table("expected", *sides, "input")
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
        return Text(NONE)
    if answer.error is not None:
        return Text(f"no answer: {render.shortened(answer.error, longest)}", "red")
    text = render.shortened(clean(answer.text), longest) or "(empty)"
    if answer.is_unparsed:
        return Text(f"unparsed: {text}", "red")
    return Text(text, "" if answer.is_correct else "red")


HEIGHT = 12
_MOST_COLUMNS = 92  # wider, and the eye loses the axis
_AXIS = 6
_POINT_STYLES = {
    "best": "bold green",
    "accepted": "green",
    "rejected": "dim",
    "pending": "yellow",
    "original": "bold",
}
_SIGNS = {"best": "◆", "accepted": "●", "rejected": "○", "pending": "◌", "original": "■"}
_PLAIN_SIGNS = {"best": "@", "accepted": "*", "rejected": "o", "pending": "?", "original": "#"}


@dataclass(slots=True)
class _Cell:
    sign: str = " "
    style: str = ""


def search_plot(run: RunSummary, width: int, *, has_unicode: bool = True) -> Text | None:
    """Return the plot with its legend; None for a run of which nothing can be drawn yet.

    width: columns that there are. has_unicode: whether the terminal has more than ASCII.
    """
    columns = max(24, min(width, _MOST_COLUMNS) - _AXIS)
    plot = make_plot(run)
    if plot is None:
        return None
    signs = _SIGNS if has_unicode else _PLAIN_SIGNS
    cells = [[_Cell() for _ in range(columns)] for _ in range(HEIGHT)]

    def place(x: float, y: float) -> tuple[int, int]:
        column = (x - plot.left) / (plot.right + 8 - plot.left) * (columns - 1)
        line = (y - plot.top) / (plot.bottom - plot.top) * (HEIGHT - 1)
        return min(columns - 1, max(0, round(column))), min(HEIGHT - 1, max(0, round(line)))

    if plot.baseline is not None:
        for cell in cells[place(0, plot.baseline)[1]]:
            cell.sign, cell.style = ("┄" if has_unicode else "."), "dim"
    _draw_stairs(cells, [place(*_pair(corner)) for corner in plot.line.split()], has_unicode)
    for point in sorted(plot.points, key=lambda point: _importance(point)):
        _draw_point(cells, *place(point.x, point.y), signs[point.kind], _POINT_STYLES[point.kind])
    ticks = {place(0, tick.at)[1]: tick.text for tick in plot.ticks_y}
    text = Text("score on validation\n", "dim")
    for number, line in enumerate(cells):
        text.append(f"{ticks.get(number, ''):>{_AXIS - 2}}  ", "dim")
        for cell in line:
            text.append(cell.sign, cell.style)
        text.append("\n")
    text.append(_axis([(place(tick.at, 0)[0], tick.text) for tick in plot.ticks_x], columns), "dim")
    text.append("\n" + " " * _AXIS)
    shown = {point.kind for point in plot.points}
    for kind, sign in signs.items():
        if kind in shown:
            text.append(f"{sign} ", _POINT_STYLES[kind]).append(f"{kind}  ", "dim")
    return text


def _pair(corner: str) -> tuple[float, float]:
    x, y = corner.split(",")
    return float(x), float(y)


def _importance(point: Point) -> int:
    """Return how much a point matters: what matters more is drawn later, over the rest."""
    return ("rejected", "pending", "original", "accepted", "best").index(point.kind)


def _draw_stairs(cells: list[list[_Cell]], corners: Sequence[tuple[int, int]], has_unicode: bool) -> None:
    across, up = ("─", "│") if has_unicode else ("-", "|")
    for (x0, y0), (x1, y1) in pairwise(corners):
        for x in range(x0, x1 + 1):
            cells[y0][x] = _Cell(across, "green")
        for y in range(min(y0, y1) + 1, max(y0, y1)):
            cells[y][x1] = _Cell(up, "green")


def _draw_point(cells: list[list[_Cell]], x: int, y: int, sign: str, style: str) -> None:
    """At its place, or beside it where another point lies: equal scores are common."""
    taken = {*_SIGNS.values(), *_PLAIN_SIGNS.values()}
    for offset in (0, -1, 1, -2, 2, -3, 3):
        if 0 <= x + offset < len(cells[y]) and cells[y][x + offset].sign not in taken:
            cells[y][x + offset] = _Cell(sign, style)
            return
    cells[y][x] = _Cell(sign, style)


def _axis(ticks: Sequence[tuple[int, str]], columns: int) -> str:
    line = [" "] * (_AXIS + columns)
    for column, text in ticks:
        start = _AXIS + min(column, columns - len(text))
        if all(sign == " " for sign in line[max(0, start - 1) : start + len(text) + 1]):
            line[start : start + len(text)] = text
    return "".join(line).rstrip() + " calls"
