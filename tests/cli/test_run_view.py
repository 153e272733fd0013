"""`runs show`: the plot of letters, the changed rows, and texts that would steer the terminal."""

from __future__ import annotations

import dataclasses
import io
import re
from pathlib import Path

import pytest
from rich.console import Console
from run_folders import hostile_run, real_run
from typer.testing import CliRunner

from autoprompt.cli import app
from autoprompt.cli.run_view import HEIGHT, candidate_table, changed_rows, search_plot
from autoprompt.report import RunSummary, read_summary


@pytest.fixture(scope="module")
def summary(tmp_path_factory: pytest.TempPathFactory) -> RunSummary:
    return read_summary(real_run(tmp_path_factory.mktemp("view")))


def drawn(run: RunSummary, columns: int = 100, **more: bool) -> list[str]:
    text = search_plot(run, columns, **more)
    assert text is not None
    return text.plain.splitlines()


@pytest.mark.parametrize("columns", [40, 80, 200])
def test_plot_has_a_sign_for_each_end_and_fits(summary: RunSummary, columns: int) -> None:
    lines = drawn(summary, columns)
    assert len(lines) == HEIGHT + 3
    body, legend = lines[1 : HEIGHT + 1], lines[-1]
    assert sum(line.count("◆") for line in body) == 1
    assert sum(line.count("■") for line in body) == 1
    assert "◆ best" in legend
    assert all(len(line) <= columns for line in body)


def test_higher_scores_stand_higher(summary: RunSummary) -> None:
    lines = drawn(summary)
    best = next(n for n, line in enumerate(lines) if "◆" in line)
    original = next(n for n, line in enumerate(lines) if "■" in line)
    assert best < original


def test_a_terminal_without_unicode_gets_ascii(summary: RunSummary) -> None:
    lines = drawn(summary, has_unicode=False)
    assert all(line.isascii() for line in lines)
    assert "@ best" in lines[-1]


def test_nothing_is_drawn_of_a_run_without_candidates(summary: RunSummary) -> None:
    assert search_plot(dataclasses.replace(summary, candidates=()), 80) is None


def show(run: RunSummary, columns: int = 120, **more: str) -> str:
    env = {"COLUMNS": str(columns), **more}
    result = CliRunner().invoke(app, ["runs", "show", str(run.path)], env=env)
    assert result.exit_code == 0, result.output
    return result.output


def test_show_has_plot_rows_and_changes(summary: RunSummary) -> None:
    text = show(summary)
    assert "score on validation" in text
    assert f"Fixed: {summary.result.fixed} row" in text
    fixed = next(row for row in summary.rows if row.state == "fixed")
    assert fixed.input in text
    assert "autoprompt report" in text


@pytest.mark.parametrize("columns", [40, 60, 80, 110, 200])
def test_candidates_fit_any_terminal_with_whole_words(summary: RunSummary, columns: int) -> None:
    lines = show(summary, columns).splitlines()
    start = next(n for n, line in enumerate(lines) if line.startswith("candidate"))
    table = lines[start : lines.index("", start)]
    assert all(len(line) <= columns for line in table)
    assert set(table[0].split()) >= {"candidate", "end", "mean"}
    assert ("change" in table[0]) == (columns >= 60)
    assert ("1,000 calls" in table[0]) == (columns >= 80)
    assert ("operator" in table[0]) == (columns >= 110)
    for candidate in summary.candidates:
        assert any(line.split()[:1] == [candidate.id[:6]] for line in table)
        assert any(str(candidate.score)[:4] in line for line in table)


def test_a_long_change_takes_few_lines_of_a_narrow_terminal(summary: RunSummary) -> None:
    first, *rest = summary.candidates
    long = dataclasses.replace(summary, candidates=(dataclasses.replace(first, change="word " * 99), *rest))
    console = Console(width=60, file=io.StringIO())
    console.print(candidate_table(dataclasses.replace(long, candidates=long.candidates[:1]), console))
    written = console.file.getvalue()  # type: ignore[attr-defined]  # a StringIO
    assert len(written.splitlines()) <= 2 + 5
    assert "…" in written


def test_long_answers_leave_a_narrow_terminal_its_words(summary: RunSummary) -> None:
    row = next(row for row in summary.rows if row.state == "fixed")
    assert row.best is not None
    best = dataclasses.replace(row.best, text="an answer of many words " * 9)
    long = dataclasses.replace(row, expected="expected " * 9, best=best, input="input " * 9)
    console = Console(width=60, file=io.StringIO())
    for part in changed_rows([long], width=60):
        console.print(part)
    written = console.file.getvalue()  # type: ignore[attr-defined]  # a StringIO
    assert re.search(r"^expected +original +best +input *$", written, re.MULTILINE)


def test_hostile_texts_do_not_steer_the_terminal(tmp_path: Path) -> None:
    run = read_summary(hostile_run(tmp_path / "runs", longest=100_000))
    text = show(run)
    assert not set(text) & set("\x1b\x07\x00\u202e\u2066")


def test_a_long_row_and_a_long_change_are_shortened(tmp_path: Path) -> None:
    run = read_summary(
        hostile_run(tmp_path / "runs", ["plain", "text", "here", "model", "other"], longest=50_000)
    )
    text = show(run)
    rows = text[text.index("Fixed:") : text.index("confirmed")]
    assert len(rows.splitlines()) < 30
    assert len(text[: text.index("Fixed:")].splitlines()) < 40
