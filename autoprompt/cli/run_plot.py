"""The search of a run as letters: validation score over calls, in any terminal and in a pipe."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from rich.text import Text

from autoprompt.report.plot import Point, make_plot
from autoprompt.report.summary import RunSummary

HEIGHT = 12
_MOST_COLUMNS = 92  # wider, and the eye loses the axis
_AXIS = 6
_STYLES = {
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
    """The plot with its legend; None for a run of which nothing can be drawn yet.

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
        _draw_point(cells, *place(point.x, point.y), signs[point.kind], _STYLES[point.kind])
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
            text.append(f"{sign} ", _STYLES[kind]).append(f"{kind}  ", "dim")
    return text


def _pair(corner: str) -> tuple[float, float]:
    x, y = corner.split(",")
    return float(x), float(y)


def _importance(point: Point) -> int:
    """What matters more is drawn later, over the rest."""
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
