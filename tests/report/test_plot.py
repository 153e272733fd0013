"""Where the marks of the drawings lie."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
from run_folders import real_run

from autoprompt.errors import ConfigError, InputError
from autoprompt.llm.prices import Cost
from autoprompt.report import RunSummary, read_summary
from autoprompt.report.html import png, svg
from autoprompt.report.plot import Line, Plot, make_front, make_intervals, make_plot
from autoprompt.runs import RunFolder, RunStore
from autoprompt.runs.result import Choice, Side, TradeOff


@pytest.fixture
def plot(summary: RunSummary) -> Plot:
    made = make_plot(summary)
    assert made is not None
    return made


def test_every_candidate_is_a_point_and_told_in_words(summary: RunSummary, plot: Plot) -> None:
    assert [point.id for point in plot.points] == [c.id for c in summary.candidates]
    kinds = {point.kind for point in plot.points}
    assert kinds >= {"original", "rejected", "best"}
    for point, candidate in zip(plot.points, summary.candidates, strict=True):
        assert f"{candidate.score:.3f} on {candidate.rows} rows" in point.text


@pytest.mark.parametrize("width", [720.0, 350.0])
def test_marks_lie_inside_and_higher_scores_higher_up(summary: RunSummary, width: float) -> None:
    plot = make_plot(summary, width)
    assert plot is not None
    by_id = {point.id: point for point in plot.points}
    ranked = sorted(summary.candidates, key=lambda c: c.score or 0.0)
    heights = [by_id[c.id].y for c in ranked]
    assert heights == sorted(heights, reverse=True)
    assert all(0 < point.x < width and plot.top <= point.y <= plot.bottom for point in plot.points)


def test_points_do_not_hide_each_other(plot: Plot) -> None:
    places = {(point.x, point.y) for point in plot.points}
    assert len(places) == len(plot.points)


def test_a_point_of_the_front_lies_at_its_cost_and_the_command_takes_its_prompt(summary: RunSummary) -> None:
    first, last = summary.candidates[0], summary.candidates[-1]
    choices = (
        Choice(first.id, "original", 0, 9, 0.5, is_best=False, is_tested=False, cost=Cost(1e-5, "usd")),
        Choice(last.id, "rewrite", 0, 40, 0.9, is_best=True, is_tested=True, cost=Cost(2e-5, "usd")),
    )
    result = dataclasses.replace(summary.result, trade_off=TradeOff(30, choices))
    front = make_front(dataclasses.replace(summary, result=result))
    assert front is not None
    (cheap, dear), unit = front.points, front.unit
    zero = front.ticks_x[0]
    assert (zero.text, unit) == ("0", "USD for 1,000 calls")
    assert dear.x - zero.at == pytest.approx(2 * (cheap.x - zero.at), abs=0.2)
    assert cheap.y > dear.y
    assert (cheap.label, dear.label) == ("original", "best")
    folder, _, name = dear.command.removeprefix("autoprompt runs export ").rpartition(":")
    assert RunFolder(Path(folder)).find_candidate(name)["id"] == last.id
    assert (
        make_front(dataclasses.replace(summary, result=dataclasses.replace(result, trade_off=None))) is None
    )


@pytest.mark.parametrize("original", [0.49, 0.5, 0.51])
def test_labels_of_close_scores_are_a_line_apart(summary: RunSummary, original: float) -> None:
    scored = [
        dataclasses.replace(
            c, score=original if c.is_original else 0.5 if c.id == summary.best_id else c.score
        )
        for c in summary.candidates
    ]
    plot = make_plot(dataclasses.replace(summary, candidates=tuple(scored)))
    assert plot is not None
    assert plot.best is not None
    assert plot.original is not None
    assert abs(plot.best.at - plot.original.at) >= 14


def test_intervals_share_one_scale_and_leave_out_what_has_no_score() -> None:
    known = Side(score=0.5, ci95=(0.4, 0.6), n=10)
    made = make_intervals(
        [Line("a", "original", known), Line("b", "best", Side()), Line("c", "best", known, 0.3)]
    )
    assert made is not None
    assert [bar.name for bar in made.bars] == ["a", "c"]
    assert made.bars[0].low < made.bars[0].at < made.bars[0].high
    assert made.bars[0].at == made.bars[1].at
    assert made.bars[1].other is not None
    assert made.bars[1].other < made.bars[1].low
    assert make_intervals([Line("b", "best", Side())]) is None


def test_equal_scores_and_extreme_ones_have_room(summary: RunSummary) -> None:
    for score in (0.0, 0.5, 1.0):
        flat = [dataclasses.replace(c, score=score) for c in summary.candidates]
        made = make_plot(dataclasses.replace(summary, candidates=tuple(flat), steps=()))
        assert made is not None
        assert len(made.ticks_y) >= 2
        assert all(made.top <= point.y <= made.bottom for point in made.points)


def test_the_svg_file_says_itself_what_it_shows(summary: RunSummary) -> None:
    text = svg(summary)
    assert text.startswith("<?xml")
    assert "<desc>" in text
    assert "prefers-color-scheme: dark" in text
    assert "var(" not in text


def test_the_png_is_drawn(summary: RunSummary) -> None:
    pytest.importorskip("resvg_py")
    try:
        data = png(summary)
    except ConfigError as fault:
        if "no font" not in str(fault):
            raise
        pytest.skip(str(fault))
    assert data.startswith(b"\x89PNG")
    assert int.from_bytes(data[16:20]) == 1440


def test_a_run_without_candidates_has_no_plot(tmp_path: Path) -> None:
    folder = RunStore(tmp_path).create({"dataset": Path("x.jsonl")})
    with pytest.raises(InputError, match="no scored candidate to plot"):
        svg(read_summary(folder))


def test_an_old_log_without_calls_gives_no_plot(tmp_path: Path) -> None:
    summary = read_summary(real_run(tmp_path, max_iterations=1))
    old = [dataclasses.replace(c, calls=None) for c in summary.candidates]
    assert make_plot(dataclasses.replace(summary, candidates=tuple(old))) is None
