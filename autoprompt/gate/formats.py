"""A check as other programs read it: Markdown, GitHub's annotations and summary, JUnit XML."""

from __future__ import annotations

import os
import re
import secrets
from collections.abc import Iterator, Mapping
from pathlib import Path
from xml.sax.saxutils import escape, quoteattr

from autoprompt.errors import Voice, tell
from autoprompt.gate.report import CaseView, CheckReport
from autoprompt.text.display import one_line, shown
from autoprompt.text.names import counted

MOST_ROWS = 200  # in the table; the JSON and JUnit files hold all
_LONGEST_CELL = 160
_WORDS = {"broke": "broke", "fixed": "fixed", "same": "must pass", "new": "must pass", "lost": "no answer"}
# What Markdown or HTML would read as more than text. A table's cell ends at a bar.
_SPECIAL = re.compile(r"([\\`*_{}\[\]<>#|~$@&])")
MOST_ANNOTATIONS = 10  # of each kind; GitHub shows no more of a step
_MOST_BYTES = 1_000_000
_LONGEST = 300
_LONGEST_NAME = 80


def to_markdown(report: CheckReport, *, most_rows: int = MOST_ROWS) -> str:
    return "\n".join(_markdown_lines(report, most_rows)) + "\n"


def _markdown_lines(report: CheckReport, most_rows: int) -> Iterator[str]:
    measured = report.measurement
    mark = "✅" if report.is_passed else "❌"
    yield f"### {mark} Prompt check: {_escaped(measured.dataset.name)}"
    yield ""
    yield f"{_escaped(report.message)}."
    yield ""
    yield from _summary(report)
    for note in (*report.notes, *(tell(warning, Voice.CLI) for warning in report.warnings)):
        yield f"- {_escaped(one_line(note))}"
    if report.notes or report.warnings:
        yield ""
    yield from _rows(report, most_rows)
    cost = measured.usage.cost_usd
    spent = "cost unknown" if cost is None else f"${cost:.4f}"
    yield f"{counted(measured.calls, 'call')}, {counted(measured.usage.total_tokens, 'token')}, {spent}"


def _summary(report: CheckReport) -> Iterator[str]:
    found, measured = report.comparison, report.measurement
    name = _escaped(measured.metric.name)
    yield f"| | {name} | cases | repeats | model |"
    yield "| --- | ---: | ---: | ---: | --- |"
    if found is not None:
        baseline = report.baseline
        model = "" if baseline is None else _escaped(baseline.model)
        yield f"| baseline | {found.score_before:.3f} | {len(found.cases)} | {measured.repeats} | {model} |"
        yield (
            f"| now | {found.score_now:.3f} | {len(found.cases)} | {measured.repeats} | "
            f"{_escaped(measured.model)} |"
        )
    yield (
        f"| all rows now | {report.score:.3f} | {len(measured.answered)} | {measured.repeats} | "
        f"{_escaped(measured.model)} |"
    )
    yield ""


def _rows(report: CheckReport, most_rows: int) -> Iterator[str]:
    changed = report.changed()
    if not changed:
        return
    yield "| | was | is | expected | answer | input | row |"
    yield "| --- | ---: | ---: | --- | --- | --- | --- |"
    for view in changed[:most_rows]:
        yield _row(view)
    if len(changed) > most_rows:
        yield ""
        yield f"... and {len(changed) - most_rows:,} more."
    yield ""


def _row(view: CaseView) -> str:
    example = view.case.example
    what = ("❌ " if view.is_failure else "") + _WORDS[view.state]
    scores = ("" if score is None else f"{score:.3g}" for score in (view.before, view.now))
    texts = (_cell(text) for text in (example.target_text, view.case.prediction, example.input_text))
    return f"| {what} | {' | '.join(scores)} | {' | '.join(texts)} | {_name(view)} line {example.line} |"


def _name(view: CaseView) -> str:
    case = view.case
    return f"`{case.id}`" if case.name == case.id else _escaped(case.name)


def _cell(text: str) -> str:
    return _escaped(one_line(text, _LONGEST_CELL))


def _escaped(text: str) -> str:
    return _SPECIAL.sub(r"\\\1", text)


def annotate(report: CheckReport, environ: Mapping[str, str] | None = None) -> Iterator[str]:
    """Yield one workflow command a line: the verdict first, then the rows that failed."""
    file = _file(report.dataset_path, os.environ if environ is None else environ)
    title = "Prompt check"
    if report.is_passed:
        yield command("notice", report.message, title=title)
        return
    yield command("error", report.message, title=title)
    failed = [view for view in report.changed() if view.is_failure]
    for view in failed[: MOST_ANNOTATIONS - 1]:
        example = view.case.example
        was = "" if view.before is None else f" (was {view.before:g}, is {view.now:g})"
        said = f"{_expected_and_got(view, _LONGEST)}{was}: {one_line(example.input_text, _LONGEST)}"
        what = "must pass" if view.must_pass else "broke"
        yield command(
            "error", said, file=file, line=example.line, title=f"{title}: row {view.case.name} {what}"
        )


def command(kind: str, message: str, **properties: object) -> str:
    """`::error file=a,line=1::message`, escaped as the documentation asks."""
    given = ",".join(f"{name}={_property(str(value))}" for name, value in properties.items())
    return f"::{kind} {given}::{_data(message)}" if given else f"::{kind}::{_data(message)}"


def silenced() -> tuple[str, str]:
    """Two lines between which the runner obeys nothing: a row may hold `::add-mask::` and the like."""
    token = secrets.token_hex(16)
    return f"::stop-commands::{token}", f"::{token}::"


def write_summary(report: CheckReport, environ: Mapping[str, str] | None = None) -> bool:
    """Add the Markdown to the step's summary; return False if there is none.

    Raises:
        OSError: If it cannot be written.
    """
    path = (os.environ if environ is None else environ).get("GITHUB_STEP_SUMMARY")
    if not path:
        return False
    file = Path(path)
    free = _MOST_BYTES - (file.stat().st_size if file.exists() else 0)
    text = _fitting(report, free)
    with file.open("a", encoding="utf-8", errors="replace") as stream:
        stream.write(text)
    return True


def _fitting(report: CheckReport, most_bytes: int) -> str:
    rows = 200
    while True:
        text = to_markdown(report, most_rows=rows) + "\n"
        if rows == 0 or len(text.encode(errors="replace")) <= most_bytes:
            return text
        rows //= 2


def _file(path: str, environ: Mapping[str, str]) -> str:
    """From the repository's root, as GitHub looks for it; a file outside of it keeps its path.

    Both by their names and not resolved: a dataset may be a link to what lies outside of the repository.
    """
    absolute = Path(os.path.abspath(path))  # noqa: PTH100 - takes `..` out, as Path.absolute does not
    given = environ.get("GITHUB_WORKSPACE")
    root = Path(os.path.abspath(given)) if given else _repository(Path.cwd())  # noqa: PTH100
    near = absolute.relative_to(root) if absolute.is_relative_to(root) else Path(os.path.normpath(path))
    return near.as_posix()


def _repository(folder: Path) -> Path:
    """Return the nearest folder around `folder` with a checkout of git; without one, `folder` itself."""
    return next((near for near in (folder, *folder.parents) if (near / ".git").exists()), folder)


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")


def to_junit(report: CheckReport) -> str:
    return "".join(f"{line}\n" for line in _junit_lines(report))


def _junit_lines(report: CheckReport) -> Iterator[str]:
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
        said = _expected_and_got(view, 200)
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


def _expected_and_got(view: CaseView, longest: int) -> str:
    example = view.case.example
    expected = f"expected {one_line(example.target_text, longest)}, " if example.has_target else ""
    return f"{expected}got {one_line(view.case.prediction, longest)}"


def _details(view: CaseView) -> str:
    example = view.case.example
    expected = f"expected: {example.target_text}\n" if example.has_target else ""
    return f"input: {example.full_text}\n{expected}answer: {view.case.prediction}\n{view.case.reason}"


def _properties(facts: Mapping[str, object], indent: str) -> Iterator[str]:
    yield f"{indent}<properties>"
    for name, value in facts.items():
        yield f"{indent}  <property{_attributes({'name': name, 'value': value})}></property>"
    yield f"{indent}</properties>"


def _attributes(values: Mapping[str, object]) -> str:
    return "".join(f" {name}={quoteattr(shown(str(value)))}" for name, value in values.items())


def _text(text: str) -> str:
    return escape(shown(text))
