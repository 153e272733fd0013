"""JUnit XML as junitparser reads it."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st
from junitparser import Failure, Skipped
from junitparser.xunit2 import JUnitXml, TestCase, TestSuite
from measured import case, measurement, numbered, report

from autoprompt.gate.junit import to_junit
from autoprompt.gate.report import CheckReport
from autoprompt.gate.text import one_line, visible

BEFORE = measurement(numbered(*[1] * 20, 0, 0))


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
    assert "\\x00\\x1b[31mred\\x1b[0m \\ufffe\\uffff\\ud800 <a b='c'>&amp; ]]> \\u202egnirts 标题党" in text
    name = next(ElementTree.parse(path).iter("testcase")).get("name")
    assert name is not None
    assert name.startswith("r0 \\x00\\x1b[31mred")
    assert "\n" not in name


@given(st.text(alphabet=st.characters(exclude_categories=()), max_size=30))
def test_any_text_is_readable_xml(text: str) -> None:
    found = ElementTree.fromstring(f"<a b={_quoted(visible(text))}></a>".encode())
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
