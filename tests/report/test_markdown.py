"""Markdown for a pull request: what it says, and that texts stay texts."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from run_folders import hostile_run

from autoprompt.llm.prices import Cost
from autoprompt.report import RunSummary, read_summary
from autoprompt.report.html import page
from autoprompt.report.markdown import literal, markdown
from autoprompt.runs.result import Choice, Comparison, Confirmation, TradeOff, Validation


def test_verdict_first_then_scores_changes_and_rows(summary: RunSummary) -> None:
    lines = markdown(summary).splitlines()
    assert lines[0].startswith("### Confirmed: 0.")
    text = "\n".join(lines)
    assert f"| best | {summary.result.best.score:.3f} |" in text
    assert f"<details><summary>Fixed: {summary.result.fixed} rows" in text
    assert "**What changed in the prompt**\n\n> Decide whether the item is A or B.<ins>" in text
    assert re.search(r"\*\*\d+ demonstrations\*\* are shown before each row, e\.g\.\n\n- item \d", text)
    assert summary.command.split()[0] in lines[-1]


def of_result(summary: RunSummary, **changes: Any) -> RunSummary:
    return replace(summary, result=replace(summary.result, **changes))


def test_score_against_length_is_a_table(summary: RunSummary) -> None:
    choices = (
        Choice("ab" * 6, "demos", 2, 1240, 0.75, False, False, Cost(0.0002, "usd")),
        Choice("cd" * 6, "demos", 9, 2480, 0.9, True, True, Cost(0.0004, "usd")),
    )
    text = markdown(of_result(summary, trade_off=TradeOff(30, choices)))
    assert "Score against cost, the cheapest first; means of the 30 rows that raced, no proof:" in text
    assert "\n| ababab (raced only, not tested) | 0.750 | $0.20 | 1,240 | 2 |\n" in text
    assert "\n| cdcdcd (best) | 0.900 | $0.40 | 2,480 | 9 |\n" in text
    assert "no proof" not in markdown(of_result(summary, trade_off=None))


@pytest.mark.parametrize(
    ("is_confirmed", "said"),
    [
        (True, "Confirmed before the test: 0.900 against 0.500 on 38 fresh rows; p = 0.060"),
        (False, "Not confirmed before the test: candidate abcdef is ahead on fresh rows too, 0.900 against"),
    ],
)
def test_what_was_confirmed_or_not_before_the_test_is_said_everywhere(
    summary: RunSummary, is_confirmed: bool, said: str
) -> None:
    part = Comparison(38, 38, 0.9, 0.5)
    found = Confirmation(is_confirmed, 0.06, 1, 1.0, "fresh", part, part, "abcdef012")
    run = of_result(summary, validation=Validation(0.5, 0.9, 38, confirmation=found))
    assert f"\n{said}" in markdown(run)
    assert f"\n{said}" in re.sub("<[^>]+>", "", page(run))


def test_every_table_line_has_as_many_cells_as_its_head(tmp_path: Path, summary: RunSummary) -> None:
    for run in (summary, read_summary(hostile_run(tmp_path / "runs"))):
        width = 0
        for line in markdown(run).splitlines():
            cells = len(re.findall(r"(?<!\\)\|", line)) if line.startswith("|") else 0
            assert not (width and cells) or cells == width
            width = cells


def test_hostile_texts_are_no_markup(tmp_path: Path) -> None:
    text = markdown(read_summary(hostile_run(tmp_path / "runs", longest=500)))
    outside = re.sub(r"(?s)(`{3,})diff\n.*?\n\1\n", "", text)
    outside = re.sub(r"(?m)^Again: .*$", "", outside)
    tags = set(re.findall(r"<[^>]*>", outside))
    assert tags <= {
        "<details>",
        "</details>",
        "<summary>",
        "</summary>",
        "<del>",
        "</del>",
        "<ins>",
        "</ins>",
        "<br>",
        "<!---->",
    }
    assert not set(text) & set("\x1b\x07\x00\u202e\u2066\u200f")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a|b", "a&#124;b"),
        ("@team see #12", "&#64;team see &#35;12"),
        ("[x](javascript:y)", r"\[x\](javascript:y)"),
        ("https://evil.example", "https<!---->://evil.example"),
        ("`code` *bold* _it_", r"\`code\` \*bold\* \_it\_"),
        ("two\nlines", "two lines"),
        ("<b>&amp;", "&lt;b&gt;&amp;amp;"),
    ],
)
def test_signs_are_literal(text: str, expected: str) -> None:
    assert literal(text, 100) == expected
