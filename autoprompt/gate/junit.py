"""A check as JUnit XML: one testcase for each row, for whatever shows test results.

A row is a failure only if it broke against the baseline and the gate failed, or if it must pass. Rows that
are wrong on both sides pass, with their state as a property: a gate that is red for old faults is switched
off. Format: the `testsuites` of Jenkins, GitLab and GitHub's readers (https://github.com/testmoapp/junitxml).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from xml.sax.saxutils import escape, quoteattr

from autoprompt.gate.report import CaseView, CheckReport
from autoprompt.gate.text import one_line, visible

_LONGEST_NAME = 80


def to_junit(report: CheckReport) -> str:
    return "".join(f"{line}\n" for line in _lines(report))


def _lines(report: CheckReport) -> Iterator[str]:
    views = report.views()
    failures = sum(view.is_failure for view in views)
    # A score under the least may have no row to blame, and a reader of this file must not see green.
    has_gate = not report.is_passed and not failures
    counts = {
        "tests": len(views) + has_gate,
        "failures": failures + has_gate,
        "errors": 0,
        "skipped": sum(view.state == "lost" for view in views),
        "time": f"{report.measurement.seconds:.3f}",
    }
    yield '<?xml version="1.0" encoding="UTF-8"?>'
    yield f"<testsuites{_attributes({'name': 'autoprompt check', **counts})}>"
    yield f"  <testsuite{_attributes({'name': report.measurement.dataset.name, **counts})}>"
    yield from _properties(_facts(report), "    ")
    for view in views:
        yield from _testcase(view, report)
    if has_gate:
        yield f"    <testcase{_attributes({'classname': 'gate', 'name': report.reasons[0].kind})}>"
        yield f"      <failure{_attributes({'message': report.message})}></failure>"
        yield "    </testcase>"
    yield f"    <system-out>{_text(report.message)}</system-out>"
    yield "  </testsuite>"
    yield "</testsuites>"


def _testcase(view: CaseView, report: CheckReport) -> Iterator[str]:
    example = view.case.example
    name = f"{example.id} {one_line(example.input_text, _LONGEST_NAME)}"
    where = {"classname": report.measurement.metric.name, "name": name}
    yield f"    <testcase{_attributes({**where, 'file': report.dataset_path, 'line': example.line})}>"
    yield from _properties(_case_facts(view), "      ")
    if view.is_failure:
        said = f"expected {one_line(example.target_text, 200)}, got {one_line(view.case.prediction, 200)}"
        why = "must pass" if view.must_pass else f"was {view.before:g}, is {view.now:g}"
        attributes = _attributes({"message": f"{said} ({why})", "type": view.state})
        yield f"      <failure{attributes}>{_text(_details(view))}</failure>"
    elif view.state == "lost":
        yield f"      <skipped{_attributes({'message': f'no answer: {view.case.error}'})}></skipped>"
    yield "    </testcase>"


def _facts(report: CheckReport) -> dict[str, object]:
    facts: dict[str, object] = {
        "verdict": "passed" if report.is_passed else "failed",
        "model": report.measurement.model,
        "score": f"{report.score:.6g}",
        "repeats": report.measurement.repeats,
    }
    if report.comparison is not None:
        facts["baseline_score"] = f"{report.comparison.score_before:.6g}"
        facts["p_value"] = f"{report.comparison.p_value:.3g}"
    return facts | {f"note{number}": note for number, note in enumerate(report.notes, 1)}


def _case_facts(view: CaseView) -> dict[str, object]:
    facts: dict[str, object] = {"state": view.state}
    if own := view.case.example.own_id:
        facts["row_id"] = own
    if view.before is not None:
        facts["score_before"] = f"{view.before:g}"
    if view.now is not None:
        facts["score"] = f"{view.now:g}"
    if view.state == "same" and view.now is not None and view.now < 1:
        facts["known_failure"] = "wrong in the baseline too"
    return facts | ({"must_pass": "true"} if view.must_pass else {})


def _details(view: CaseView) -> str:
    example = view.case.example
    return (
        f"input: {example.full_text}\nexpected: {example.target_text}\nanswer: {view.case.prediction}\n"
        f"{view.case.reason}"
    )


def _properties(facts: Mapping[str, object], indent: str) -> Iterator[str]:
    yield f"{indent}<properties>"
    for name, value in facts.items():
        yield f"{indent}  <property{_attributes({'name': name, 'value': value})}></property>"
    yield f"{indent}</properties>"


def _attributes(values: Mapping[str, object]) -> str:
    return "".join(f" {name}={quoteattr(visible(str(value)))}" for name, value in values.items())


def _text(text: str) -> str:
    return escape(visible(text))
