"""Workflow commands and the step's summary, by GitHub's documentation; Markdown."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
from measured import case, measurement, numbered, report

from autoprompt.gate import github
from autoprompt.gate.markdown import to_markdown
from autoprompt.gate.report import CheckReport

# The runner's own grammar: `::name key=value,key=value::data`.
COMMAND = re.compile(r"^::(?P<name>\w+) (?P<properties>[^:]*)::(?P<data>.*)$")


def failing(count: int = 6, text: str = "") -> CheckReport:
    before = measurement([case(f"r{n}", (1,), text=text) for n in range(count)])
    return report(measurement([case(f"r{n}", (0,), text=text) for n in range(count)]), before)


def decoded(text: str) -> str:
    for code, character in (("%0D", "\r"), ("%0A", "\n"), ("%3A", ":"), ("%2C", ","), ("%25", "%")):
        text = text.replace(code, character)
    return text


def test_a_command_is_escaped_as_documented() -> None:
    line = github.command("error", "100% of a: b, c\r\nnext", file="a,b:c%.txt", line=3)
    assert line == "::error file=a%2Cb%3Ac%25.txt,line=3::100%25 of a: b, c%0D%0Anext"
    assert github.command("notice", "x") == "::notice::x"


def test_a_failed_check_is_one_error_and_one_for_each_row_up_to_ten(tmp_path: Path) -> None:
    lines = list(github.annotate(failing(30), {"GITHUB_WORKSPACE": str(Path.cwd())}))
    assert len(lines) == github.MOST_ANNOTATIONS
    found = [COMMAND.match(line) for line in lines]
    assert all(found)
    assert {match["name"] for match in found if match} == {"error"}
    assert lines[0].startswith("::error title=Prompt check::Failed: exact_match fell from 1.000 to 0.000")
    assert lines[1] == (
        "::error file=datasets/rows.jsonl,line=1,title=Prompt check%3A row r0 broke"
        "::expected 1, got 0 (was 1, is 0): input of r0"
    )


def test_a_passed_check_is_a_notice() -> None:
    found = measurement(numbered(1, 1))
    (line,) = github.annotate(report(found, found), {})
    assert line.startswith("::notice title=Prompt check::Passed: ")


def test_a_row_cannot_smuggle_in_a_command() -> None:
    text = "x\n::add-mask::secret\r\n::error file=a::b % %0A"
    lines = list(github.annotate(failing(text=text), {}))
    assert all("\n" not in line and "\r" not in line for line in lines)
    match = COMMAND.match(lines[1])
    assert match is not None
    assert decoded(match["data"]).endswith("x ::add-mask::secret ::error file=a::b % %0A")
    stop, go = github.silenced()
    assert re.fullmatch(r"::stop-commands::[0-9a-f]{32}", stop)
    assert go == f"::{stop.rpartition(':')[2]}::"
    assert github.silenced() != (stop, go)


def test_a_file_beside_the_checkout_keeps_its_path(tmp_path: Path) -> None:
    lines = list(github.annotate(failing(), {"GITHUB_WORKSPACE": str(tmp_path)}))
    assert ",line=1," in lines[1]
    assert "file=datasets/rows.jsonl" in lines[1]


@pytest.mark.parametrize(
    ("marker", "has_workspace", "shown"),
    [(None, False, "rows.jsonl"), (".git", False, "sub/rows.jsonl"), (None, True, "sub/rows.jsonl")],
)
def test_a_file_is_named_from_the_root_of_the_repository(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, marker: str | None, has_workspace: bool, shown: str
) -> None:
    folder = tmp_path / "sub"
    folder.mkdir()
    if marker is not None:
        (tmp_path / marker).mkdir()
    monkeypatch.chdir(folder)
    found = replace(failing(), dataset_path="ci/../rows.jsonl")
    environ = {"GITHUB_WORKSPACE": f"{tmp_path}/"} if has_workspace else {}
    lines = list(github.annotate(found, environ))
    assert f"::error file={shown},line=1," in lines[1]


def test_a_file_outside_of_the_repository_keeps_its_path_without_detours(tmp_path: Path) -> None:
    found = replace(failing(), dataset_path="/data/ci/../rows.jsonl")
    lines = list(github.annotate(found, {"GITHUB_WORKSPACE": str(tmp_path)}))
    assert "file=/data/rows.jsonl,line=1," in lines[1]


def test_the_summary_is_added_to_the_steps_file(tmp_path: Path) -> None:
    path = tmp_path / "summary.md"
    path.write_text("before\n", encoding="utf-8")
    assert github.write_summary(failing(), {"GITHUB_STEP_SUMMARY": str(path)})
    text = path.read_text(encoding="utf-8")
    assert text.startswith("before\n### ❌ Prompt check: rows.jsonl\n")
    assert not github.write_summary(failing(), {})


@pytest.mark.parametrize("filled", [0, 900_000, 995_000])
def test_the_summary_stays_under_githubs_limit(tmp_path: Path, filled: int) -> None:
    path = tmp_path / "summary.md"
    path.write_text("x" * filled, encoding="utf-8")
    github.write_summary(failing(500, "标题党" * 2000), {"GITHUB_STEP_SUMMARY": str(path)})
    assert filled < path.stat().st_size < 1_000_000


def test_markdown_holds_the_verdict_the_sides_and_the_rows() -> None:
    before = measurement(numbered(*[1] * 9, 0), model="old")
    now = measurement(numbered(*[0] * 8, 1, 1))
    lines = to_markdown(report(now, before)).splitlines()
    assert lines[0] == "### ❌ Prompt check: rows.jsonl"
    assert "| baseline | 0.900 | 10 | 1 | old |" in lines
    assert "| now | 0.200 | 10 | 1 | m |" in lines
    assert "- the baseline was measured with old, this with m" in lines
    assert "| ❌ broke | 1 | 0 | 1 | 0 | input of r0 | `r0` line 1 |" in lines
    assert "| fixed | 0 | 1 | 1 | 1 | input of r9 | `r9` line 10 |" in lines


def test_markdown_of_rows_is_text_and_one_line() -> None:
    text = "a | b\n<script>alert(1)</script> [x](http://y) `code` *bold* \x1b[0m 标题"
    (line,) = {row for row in to_markdown(failing(text=text)).splitlines() if "`r0`" in row}
    assert r"a \| b \<script\>alert(1)\</script\> \[x\](http://y) \`code\` \*bold\* \\x1b\[0m 标题" in line
    assert len(re.findall(r"(?<!\\)\|", line)) == 8


def test_a_long_table_is_cut_and_says_so() -> None:
    text = to_markdown(failing(500))
    assert text.count("❌ broke") == 200
    assert "... and 300 more." in text
