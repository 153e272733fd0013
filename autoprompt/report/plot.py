"""The plots: validation score over calls, score over cost, and intervals. Where each mark lies.

Own SVG, as both are a few dozen marks: text of the page (fonts, colours of light and dark, a title for each
point for the reader of a screen), no library at view time, and the same file for the page, `plot.svg` and
`plot.png`. This module only computes; the templates `*.svg.j2` draw.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from autoprompt.errors import command
from autoprompt.report import numbers
from autoprompt.report.records import CandidateSummary
from autoprompt.report.summary import RunSummary
from autoprompt.runs.folder import RunFolder
from autoprompt.runs.result import Choice, Side
from autoprompt.text import display
from autoprompt.text.names import counted
from autoprompt.text.scripts import columns

_MARGIN_TOP, _MARGIN_BOTTOM, _MARGIN_LEFT = 18.0, 36.0, 40.0
_WIDE = 500.0  # from here on there is room for words beside the marks
_LEAST_RADIUS, _MOST_RADIUS = 2.4, 5.0
_LINE = 15.0  # from one line of text to the next
_ID = 6  # characters of a candidate's id that people see


@dataclass(frozen=True, slots=True)
class Tick:
    """A place on an axis, in the units of the drawing, and what is written there."""

    at: float
    text: str


@dataclass(frozen=True, slots=True)
class Point:
    """A candidate. kind: original, accepted, rejected, pending or best; text: all of it in words.

    command: exports it. label: what is written above it.
    """

    id: str
    x: float
    y: float
    radius: float
    kind: str
    text: str
    command: str
    label: str = ""


@dataclass(frozen=True, slots=True)
class Plot:
    """Scores of candidates over calls or cost, laid out in `width` x `height`.

    unit: of the axis below. line: corners of the best so far, or of the front, as SVG points. lineage: lines
    between parents and children up to the best, as an SVG path. baseline: height of the original's score;
    None where it has none.
    """

    width: float
    height: float
    left: float
    right: float
    top: float
    bottom: float
    ticks_x: tuple[Tick, ...]
    ticks_y: tuple[Tick, ...]
    points: tuple[Point, ...]
    line: str
    lineage: str
    baseline: float | None
    best: Tick | None
    original: Tick | None
    title: str
    description: str
    unit: str = "calls"


@dataclass(frozen=True, slots=True)
class _Scale:
    low: float
    high: float
    start: float
    end: float

    def __call__(self, value: float) -> float:
        share = (value - self.low) / (self.high - self.low) if self.high > self.low else 0.5
        return round(self.start + share * (self.end - self.start), 1)


def make_plot(run: RunSummary, width: float = 720.0, height: float = 330.0) -> Plot | None:
    """None for a run of which no candidate has been scored yet."""
    shown = [c for c in run.candidates if c.score is not None and (c.calls is not None or c.is_original)]
    if len(shown) < 2:
        return None
    is_wide = width > _WIDE
    left, right = _MARGIN_LEFT, width - (100.0 if is_wide else 44.0)
    top, bottom = _MARGIN_TOP, height - _MARGIN_BOTTOM
    most = max([c.calls or 0 for c in shown] + [run.calls if not run.is_finished else 0]) or 1
    scores = [c.score or 0.0 for c in shown]
    x = _Scale(0.0, most, left + 8, right)
    low, high, step = _bounds(min(scores), max(scores))
    y = _Scale(low, high, bottom, top)
    points = _points(run, shown, x, y)
    original, best = run.original_candidate, run.best_candidate
    baseline = None if original is None or original.score is None else y(original.score)
    labels = _labels(
        None if best is None else best.score,
        None if original is None or original is best else original.score,
        y,
        is_wide=is_wide,
    )
    return Plot(
        width,
        height,
        left,
        right,
        top,
        bottom,
        ticks_x=tuple(
            Tick(x(value), f"{value:,.0f}") for value in _round_values(max(most, 5), 5 if is_wide else 3)
        ),
        ticks_y=tuple(Tick(y(value), f"{value:.{_digits(step)}f}") for value in _steps(low, high, step)),
        points=points,
        line=_line(run, x, y),
        lineage=_lineage(run, points),
        baseline=baseline,
        best=labels[0],
        original=labels[1],
        title="Validation score over calls",
        description=_description(run, shown),
    )


def make_front(run: RunSummary, width: float = 720.0, height: float = 260.0) -> Plot | None:
    """Return score over the cost of 1,000 calls; None for a run without a choice between the two."""
    if run.result.trade_off is None or len(run.result.trade_off.candidates) < 2:
        return None
    choices = run.result.trade_off.candidates
    costs, unit = _costs(choices)
    is_wide = width > _WIDE
    left, right = _MARGIN_LEFT, width - 44.0
    top, bottom = _MARGIN_TOP, height - _MARGIN_BOTTOM
    low, high, step = _bounds(min(c.score for c in choices), max(c.score for c in choices))
    x, y = _Scale(0.0, max(costs) or 1.0, left + 8, right), _Scale(low, high, bottom, top)
    points = tuple(
        Point(choice.id, x(cost), y(choice.score), _MOST_RADIUS, *_told(run, choice))
        for choice, cost in zip(choices, costs, strict=True)
    )
    ticks = _round_values(max(costs) or 1.0, 5 if is_wide else 3)
    return Plot(
        width,
        height,
        left,
        right,
        top,
        bottom,
        ticks_x=tuple(Tick(x(value), f"{value:,.10g}") for value in ticks),
        ticks_y=tuple(Tick(y(value), f"{value:.{_digits(step)}f}") for value in _steps(low, high, step)),
        points=points,
        line=" ".join(f"{point.x},{point.y}" for point in points),
        lineage="",
        baseline=None,
        best=None,
        original=None,
        title="Score against cost",
        description=". ".join(point.text for point in points),
        unit=unit,
    )


def _costs(choices: Sequence[Choice]) -> tuple[list[float], str]:
    """Return what 1,000 calls cost with each, and the unit."""
    name = {"usd": "USD", "seconds": "seconds", "tokens": "tokens"}[choices[0].cost.unit]
    return [1000 * choice.cost.amount for choice in choices], f"{name} for 1,000 calls"


def _told(run: RunSummary, choice: Choice) -> tuple[str, str, str, str]:
    """Return kind, text, command and label of a candidate on the front."""
    kind = "best" if choice.is_best else "accepted" if choice.is_tested else "rejected"
    cost = f", {choice.shown_cost} for 1,000 calls"
    tokens = f", {counted(choice.tokens, 'token')} per call"
    text = f"{choice.name}: {numbers.score(choice.score)} in the race{cost}{tokens}"
    is_kept = choice.operator == "original" and not choice.is_best
    label = "original" if is_kept else "best" if choice.is_best else ""
    return label or kind, text, _export(run, choice.id), label


def _export(run: RunSummary, candidate_id: str) -> str:
    return command("runs export", f"{RunFolder(run.path).reference}:{candidate_id[:_ID]}")


def _labels(
    best: float | None, original: float | None, y: _Scale, *, is_wide: bool
) -> tuple[Tick | None, Tick | None]:
    """Return the labels of both scores at the right, one below the other where they would overlap."""
    names = ("best ", "original ") if is_wide else ("", "")
    made = [
        None if value is None else Tick(y(value), name + numbers.score(value, 2))
        for value, name in zip((best, original), names, strict=True)
    ]
    first, second = made
    if first and second and abs(first.at - second.at) < _LINE:
        low = first.at + (_LINE if second.at >= first.at else -_LINE)
        second = replace(second, at=low)
    return first, second


def _bounds(lowest: float, highest: float) -> tuple[float, float, float]:
    """Round bounds around the scores, and the step of the ticks."""
    span = max(highest - lowest, 0.1)
    step = next(step for step in (0.05, 0.1, 0.2, 0.25) if span / step <= 6)
    low = math.floor(round(lowest / step, 6)) * step
    high = math.ceil(round(highest / step, 6)) * step
    if high - low < step / 2:
        low, high = low - step, high + step
    return max(0.0, low), min(1.0, high), step


def _digits(step: float) -> int:
    return 1 if round(step * 10, 6) == round(step * 10) else 2


def _steps(low: float, high: float, step: float) -> Iterable[float]:
    return (low + n * step for n in range(round((high - low) / step) + 1))


def _round_values(most: float, number: int) -> list[float]:
    """Return about `number` round values from 0 to `most`."""
    raw = most / number
    size = 10.0 ** math.floor(math.log10(raw))
    step = next(size * n for n in (1, 2, 5, 10) if size * n >= raw)
    return [step * n for n in range(int(most / step + 1e-9) + 1)]


def _points(run: RunSummary, shown: Sequence[CandidateSummary], x: _Scale, y: _Scale) -> tuple[Point, ...]:
    most_rows = max(c.rows for c in shown) or 1
    placed: list[Point] = []
    for candidate in shown:
        share = candidate.rows / most_rows
        radius = round(_LEAST_RADIUS + (_MOST_RADIUS - _LEAST_RADIUS) * share, 1)
        is_best = candidate.id == run.best_id
        kind: str = "best" if is_best and not candidate.is_original else candidate.status
        if candidate.is_original:
            kind, radius = "original", _MOST_RADIUS
        at = x(candidate.calls or 0), y(candidate.score or 0.0)
        place = _free_place(at[0], at[1], radius, placed, x.end)
        told = (kind, describe(candidate), _export(run, candidate.id))
        placed.append(Point(candidate.id, place, at[1], radius, *told))
    return tuple(placed)


def _free_place(x: float, y: float, radius: float, placed: Sequence[Point], end: float) -> float:
    """Return `x`, or the nearest free place beside it, not beyond `end`: equal scores are common."""
    for number in range(48):
        offset = (number + 1) // 2 * 5.0 * (-1 if number % 2 == 0 else 1)
        place = round(x + offset, 1)
        if place <= end and all(
            (place - p.x) ** 2 + (y - p.y) ** 2 >= (0.9 * (radius + p.radius)) ** 2 for p in placed
        ):
            return place
    return x


def describe(candidate: CandidateSummary) -> str:
    """Return a candidate in one line, for a title and for the reader of a screen."""
    name = candidate.id[:6]
    scored = f"{numbers.score(candidate.score)} on {counted(candidate.rows, 'row')}"
    cost = f", {candidate.shown_cost} for 1,000 calls" if candidate.cost is not None else ""
    if candidate.is_original:
        return f"original: {scored}{cost}"
    against = (
        f" against {numbers.score(candidate.parent_score)}" if candidate.parent_score is not None else ""
    )
    p = f", {numbers.p_value(candidate.p_value)}" if candidate.p_value is not None else ""
    change = display.one_line(candidate.change, 90)
    end = f"{candidate.status}, round {candidate.iteration}, {candidate.operator}"
    return f"{name}, {end}: {scored}{against}{p}{cost}. {change}"


def _line(run: RunSummary, x: _Scale, y: _Scale) -> str:
    """Return the best so far as stairs, up to the end of the search."""
    corners: list[tuple[float, float]] = []
    for step in run.steps:
        if corners:
            corners.append((x(step.calls), corners[-1][1]))
        corners.append((x(step.calls), y(step.score)))
    if corners:
        corners.append((x.end, corners[-1][1]))
    return " ".join(f"{a},{b}" for a, b in corners)


def _lineage(run: RunSummary, points: Sequence[Point]) -> str:
    at = {point.id: point for point in points}
    family = set(run.lineage)
    parts = []
    for candidate_id in run.lineage:
        child, candidate = at.get(candidate_id), run.candidate(candidate_id)
        for parent_id in candidate.parents if candidate else ():
            parent = at.get(parent_id)
            if child and parent and parent_id in family:
                bend = round((parent.x + child.x) / 2, 1)
                parts.append(f"M{parent.x} {parent.y}C{bend} {parent.y} {bend} {child.y} {child.x} {child.y}")
    return "".join(parts)


def _description(run: RunSummary, shown: Sequence[CandidateSummary]) -> str:
    tried = [c for c in shown if not c.is_original]
    accepted = sum(c.status == "accepted" for c in tried)
    best = run.best_candidate
    end = (
        f" The best, {best.id[:6]}, has {numbers.score(best.score)}."
        if best and best.score is not None
        else ""
    )
    return (
        f"{counted(len(tried), 'candidate')} by the number of calls sent when each was settled: {accepted} "
        "accepted, "
        f"{sum(c.status == 'rejected' for c in tried)} rejected.{end} All of them are in the table below."
    )


# --- intervals ---


@dataclass(frozen=True, slots=True)
class Bar:
    """One score with its interval. kind: original or best. other: the score it is compared with."""

    name: str
    y: float
    low: float
    at: float
    high: float
    kind: str
    text: str
    other: float | None = None


@dataclass(frozen=True, slots=True)
class Intervals:
    """Scores with their intervals under each other, laid out in `width` x `height`."""

    width: float
    height: float
    left: float
    right: float
    bottom: float
    ticks: tuple[Tick, ...]
    bars: tuple[Bar, ...]
    title: str
    description: str


@dataclass(frozen=True, slots=True)
class Line:
    """What one line of intervals shows. kind: original or best; other: a score to compare with, or None."""

    name: str
    kind: str
    side: Side
    other: float | None = None


def make_intervals(
    lines: Sequence[Line], width: float = 720.0, *, title: str = "Scores with 95% intervals"
) -> Intervals | None:
    """Return the lines that have a score, under each other; None where none has."""
    known = [
        (line, line.side.score, line.side.ci95)
        for line in lines
        if line.side.score is not None and line.side.ci95 is not None
    ]
    if not known:
        return None
    longest = max(columns(display.one_line(line.name, 48)) for line, *_ in known)
    left = min(0.42 * width, 22.0 + 7.0 * longest)
    right, row, top = width - 20.0, 30.0, 8.0
    bottom = top + row * len(known)
    ends = [
        end
        for line, value, ci in known
        for end in (value, *ci, *(() if line.other is None else (line.other,)))
    ]
    low, high, step = _bounds(min(ends), max(ends))
    x = _Scale(low, high, left, right)
    bars = tuple(_bar(*item, top + row * (number + 0.5), x) for number, item in enumerate(known))
    ticks = tuple(Tick(x(value), f"{value:.{_digits(step)}f}") for value in _steps(low, high, step))
    description = ". ".join(bar.text for bar in bars)
    return Intervals(width, bottom + 26.0, left, right, bottom, ticks, bars, title, description)


def _bar(line: Line, value: float, ci: tuple[float, float], y: float, x: _Scale) -> Bar:
    name = display.one_line(line.name, 48)
    against = "" if line.other is None else f" against {numbers.score(line.other)}"
    return Bar(
        name=name,
        y=y,
        low=x(ci[0]),
        at=x(value),
        high=x(ci[1]),
        kind=line.kind,
        text=f"{name}: {numbers.score(value)}{against}, 95% interval {numbers.interval(ci)}",
        other=None if line.other is None else x(line.other),
    )
