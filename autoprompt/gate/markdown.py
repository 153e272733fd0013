"""A check as Markdown: for a pull request, a step's summary, a file."""

from __future__ import annotations

import re
from collections.abc import Iterator

from autoprompt.errors import Voice, tell
from autoprompt.gate.report import CaseView, CheckReport
from autoprompt.gate.text import one_line
from autoprompt.text.names import counted

MOST_ROWS = 200  # in the table; the JSON and JUnit files hold all
_LONGEST_CELL = 160
_WORDS = {"broke": "broke", "fixed": "fixed", "same": "must pass", "new": "must pass", "lost": "no answer"}
# What Markdown or HTML would read as more than text. A table's cell ends at a bar.
_SPECIAL = re.compile(r"([\\`*_{}\[\]<>#|~$@&])")


def to_markdown(report: CheckReport, *, most_rows: int = MOST_ROWS) -> str:
    return "\n".join(_lines(report, most_rows)) + "\n"


def _lines(report: CheckReport, most_rows: int) -> Iterator[str]:
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
    if found is None:
        yield f"| | {name} | cases | repeats | model |"
        yield "| --- | ---: | ---: | ---: | --- |"
    else:
        yield f"| | {name} | cases | repeats | model |"
        yield "| --- | ---: | ---: | ---: | --- |"
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
