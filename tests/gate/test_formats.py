"""A check as JUnit XML, and as annotations, summary and Markdown on GitHub."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st
from junitparser import Failure, Skipped
from junitparser.xunit2 import JUnitXml, TestCase, TestSuite
from measured import case, measurement, numbered, report

from autoprompt.gate import formats
from autoprompt.gate.formats import to_junit, to_markdown
from autoprompt.gate.report import CheckReport
from autoprompt.text.display import one_line, shown

BEFORE = measurement(numbered(*[1] * 20, 0, 0))
# The runner's own grammar: `::name key=value,key=value::data`.
COMMAND = re.compile(r"^::(?P<name>\w+) (?P<properties>[^:]*)::(?P<data>.*)$")


def read(report: CheckReport) -> tuple[JUnitXml, TestSuite, dict[str, TestCase]]:
    found = JUnitXml.fromstring(to_junit(report).encode())
    (suite,) = list(found)
    return found, suite, {str(c.name).split()[0]: c for c in suite}


def properties(testcase: Any) -> dict[str, str]:
    return {found.name: found.value for found in testcase.properties()}


def failed(cases: dict[str, TestCase]) -> list[str]:
    return [name for name, found in cases.items() if any(isinstance(r, Failure) for r in found.result)]


def test_rows_that_broke_are_failures_when_the_gate_failed() -> None:
    now = measurement(numbered(*[0] * 8, *[1] * 12, 1, 0))
    found, suite, cases = read(report(now, BEFORE, max_drop=0.1))
    assert (suite.tests, suite.failures, suite.errors, suite.skipped) == (22, 8, 0, 0)
    assert (found.tests, found.failures) == (22, 8)
    assert failed(cases) == [f"r{n}" for n in range(8)]
    (failure,) = cases["r0"].result
    assert failure.message == "expected 1, got 0 (was 1, is 0)"
    assert "input: input of r0" in failure.text
    assert properties(cases["r0"])["state"] == "broke"
    assert properties(cases["r20"])["state"] == "fixed"
    assert suite.name == "rows.jsonl"
    assert {p.name: p.value for p in suite.properties()}["verdict"] == "failed"


def test_rows_that_broke_pass_when_the_gate_passed() -> None:
    _, suite, cases = read(report(measurement(numbered(0, *[1] * 19, 0, 0)), BEFORE))
    assert (suite.tests, suite.failures) == (22, 0)
    assert properties(cases["r0"])["state"] == "broke"


def test_rows_wrong_on_both_sides_pass_with_a_property() -> None:
    _, _, cases = read(report(measurement(numbered(*[0] * 6, *[1] * 14, 0, 0)), BEFORE))
    assert cases["r20"].is_passed
    assert properties(cases["r20"])["known_failure"] == "wrong in the baseline too"
    assert "known_failure" not in properties(cases["r10"])


def test_a_row_that_must_pass_is_a_failure_by_itself() -> None:
    _, suite, cases = read(report(BEFORE, BEFORE, must_pass=("r21",)))
    assert failed(cases) == ["r21"]
    assert cases["r21"].result[0].message == "expected 1, got 0 (must pass)"
    assert suite.failures == 1


def test_lost_rows_are_skipped_and_new_ones_pass() -> None:
    now = measurement([*(case(f"r{n}", (1,)) for n in range(19)), case("r19", ()), case("r30", (0,))])
    _, suite, cases = read(report(now, BEFORE))
    assert isinstance(cases["r19"].result[0], Skipped)
    assert cases["r19"].result[0].message == "no answer: 503 from the endpoint"
    assert suite.skipped == 1
    assert properties(cases["r30"])["state"] == "new"
    assert failed(cases) == []


def test_a_failed_gate_without_a_row_to_blame_is_no_green_file() -> None:
    low = measurement(numbered(1, 0, 0))
    found, suite, cases = read(report(low, low, min_score=0.9))
    assert (suite.tests, found.failures) == (4, 1)
    assert failed(cases) == ["min_score"]


NASTY = "\x00\x1b[31mred\x1b[0m \ufffe\uffff\ud800 <a b='c'>&amp; ]]> \u202egnirts 标题党 \t\r\n🤖\x85\x0b"


def test_texts_that_xml_cannot_hold_are_shown_escaped(tmp_path: Path) -> None:
    before = measurement([case(f"r{n}", (1,), text=NASTY) for n in range(6)])
    now = measurement([case(f"r{n}", (0,), text=NASTY, target=NASTY) for n in range(6)])
    found = report(now, before)
    path = tmp_path / "junit.xml"
    path.write_text(to_junit(found), encoding="utf-8")
    assert JUnitXml.fromfile(str(path)).failures == 6
    text = next(ElementTree.parse(path).iter("failure")).text
    assert text is not None
    assert (
        "␀␛[31mred␛[0m [U+FFFE][U+FFFF]\N{REPLACEMENT CHARACTER} <a b='c'>&amp; ]]> [U+202E]gnirts 标题党"
        in text
    )
    name = next(ElementTree.parse(path).iter("testcase")).get("name")
    assert name is not None
    assert name.startswith("r0 ␀␛[31mred")
    assert "\n" not in name


@given(st.text(alphabet=st.characters(exclude_categories=()), max_size=30))
def test_any_text_is_readable_xml(text: str) -> None:
    found = ElementTree.fromstring(f"<a b={_quoted(shown(text))}></a>".encode())
    assert found.get("b") is not None
    assert "\n" not in one_line(text)


def _quoted(text: str) -> str:
    from xml.sax.saxutils import quoteattr

    return quoteattr(text)


@pytest.mark.parametrize("count", [20_000])
def test_many_rows_are_many_testcases(count: int) -> None:
    many = measurement(numbered(*(n % 2 for n in range(count))))
    found = ElementTree.fromstring(to_junit(report(many, many)).encode())
    assert len(list(found.iter("testcase"))) == count


def failing(count: int = 6, text: str = "") -> CheckReport:
    before = measurement([case(f"r{n}", (1,), text=text) for n in range(count)])
    return report(measurement([case(f"r{n}", (0,), text=text) for n in range(count)]), before)


def decoded(text: str) -> str:
    for code, character in (("%0D", "\r"), ("%0A", "\n"), ("%3A", ":"), ("%2C", ","), ("%25", "%")):
        text = text.replace(code, character)
    return text


def test_a_command_is_escaped_as_documented() -> None:
    line = formats.command("error", "100% of a: b, c\r\nnext", file="a,b:c%.txt", line=3)
    assert line == "::error file=a%2Cb%3Ac%25.txt,line=3::100%25 of a: b, c%0D%0Anext"
    assert formats.command("notice", "x") == "::notice::x"


def test_a_failed_check_is_one_error_and_one_for_each_row_up_to_ten(tmp_path: Path) -> None:
    lines = list(formats.annotate(failing(30), {"GITHUB_WORKSPACE": str(Path.cwd())}))
    assert len(lines) == formats.MOST_ANNOTATIONS
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
    (line,) = formats.annotate(report(found, found), {})
    assert line.startswith("::notice title=Prompt check::Passed: ")


def test_a_row_cannot_smuggle_in_a_command() -> None:
    text = "x\n::add-mask::secret\r\n::error file=a::b % %0A"
    lines = list(formats.annotate(failing(text=text), {}))
    assert all("\n" not in line and "\r" not in line for line in lines)
    match = COMMAND.match(lines[1])
    assert match is not None
    assert decoded(match["data"]).endswith("x ::add-mask::secret ::error file=a::b % %0A")
    stop, go = formats.silenced()
    assert re.fullmatch(r"::stop-commands::[0-9a-f]{32}", stop)
    assert go == f"::{stop.rpartition(':')[2]}::"
    assert formats.silenced() != (stop, go)


def test_a_file_beside_the_checkout_keeps_its_path(tmp_path: Path) -> None:
    lines = list(formats.annotate(failing(), {"GITHUB_WORKSPACE": str(tmp_path)}))
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
    lines = list(formats.annotate(found, environ))
    assert f"::error file={shown},line=1," in lines[1]


def test_a_file_outside_of_the_repository_keeps_its_path_without_detours(tmp_path: Path) -> None:
    found = replace(failing(), dataset_path="/data/ci/../rows.jsonl")
    lines = list(formats.annotate(found, {"GITHUB_WORKSPACE": str(tmp_path)}))
    assert "file=/data/rows.jsonl,line=1," in lines[1]


def test_the_summary_is_added_to_the_steps_file(tmp_path: Path) -> None:
    path = tmp_path / "summary.md"
    path.write_text("before\n", encoding="utf-8")
    assert formats.write_summary(failing(), {"GITHUB_STEP_SUMMARY": str(path)})
    text = path.read_text(encoding="utf-8")
    assert text.startswith("before\n### ❌ Prompt check: rows.jsonl\n")
    assert not formats.write_summary(failing(), {})


@pytest.mark.parametrize("filled", [0, 900_000, 995_000])
def test_the_summary_stays_under_githubs_limit(tmp_path: Path, filled: int) -> None:
    path = tmp_path / "summary.md"
    path.write_text("x" * filled, encoding="utf-8")
    formats.write_summary(failing(500, "标题党" * 2000), {"GITHUB_STEP_SUMMARY": str(path)})
    assert filled < path.stat().st_size < 1_000_000


def test_markdown_holds_the_verdict_the_sides_and_the_rows() -> None:
    before = measurement(numbered(*[1] * 9, 0), model="old")
    now = measurement(numbered(*[0] * 8, 1, 1))
    lines = to_markdown(report(now, before)).splitlines()
    assert lines[0] == "### ❌ Prompt check: rows.jsonl"
    assert "| baseline | 0.900 | 10 | 1 | old |" in lines
    assert "| now | 0.200 | 10 | 1 | m |" in lines
    assert "- the model is m, but the baseline was measured with old" in lines
    assert "| ❌ broke | 1 | 0 | 1 | 0 | input of r0 | `r0` line 1 |" in lines
    assert "| fixed | 0 | 1 | 1 | 1 | input of r9 | `r9` line 10 |" in lines


def test_markdown_of_rows_is_text_and_one_line() -> None:
    text = "a | b\n<script>alert(1)</script> [x](http://y) `code` *bold* \x1b[0m 标题"
    (line,) = {row for row in to_markdown(failing(text=text)).splitlines() if "`r0`" in row}
    assert r"a \| b \<script\>alert(1)\</script\> \[x\](http://y) \`code\` \*bold\* ␛\[0m 标题" in line
    assert len(re.findall(r"(?<!\\)\|", line)) == 8


def test_a_long_table_is_cut_and_says_so() -> None:
    text = to_markdown(failing(500))
    assert text.count("❌ broke") == 200
    assert "... and 300 more." in text
