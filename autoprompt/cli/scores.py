"""The rows of an evaluation as a file: JSON, JSON lines, CSV, Markdown or JUnit XML, by its ending."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING
from xml.etree import ElementTree

from autoprompt.cli.output import clean, unknown_ending
from autoprompt.measure.baselines import baselines_dict, baselines_sentence
from autoprompt.records import EvaluatedRow
from autoprompt.stats import in_groups, p_text
from autoprompt.text.names import counted

if TYPE_CHECKING:
    from autoprompt.evaluation.scoring import EvaluationReport

_FIELDS = ("example_id", "input", "ground_truth", "prediction", "score", "is_correct", "is_unparsed", "error")
_AGAINST = ("against_prediction", "against_score")
_MORE = ("reason", "output")  # in JSON lines only, as the tokens


def comparison(report: EvaluationReport) -> list[str]:
    """The other prompt's score, the gain and its test, a line each; none without another prompt."""
    if report.against is None:
        return []
    found = report.compared
    if found is None:
        return ["against: no row was answered for both prompts, so they do not compare"]
    (low, high), (least, most) = found.old.interval, found.gain_interval
    verdict = "no difference beyond chance"
    if found.is_better or found.is_worse:
        verdict = f"{'better' if found.is_better else 'worse'} than the other prompt"
    elif found.is_lopsided:
        verdict = "far more rows failed on one side, so the others show nothing"
    lost = f"; {counted(found.left_out, 'row')} that failed are left out" if found.left_out else ""
    where = f", {found.new.score:.3f} here, on the rows that both answered" if found.left_out else ""
    return [
        f"against: {report.metric} {found.old.score:.3f} (95% interval {low:.3f} to {high:.3f}){where}",
        f"gain {found.gain:+.3f} (95% interval {least:+.3f} to {most:+.3f}), {counted(found.fixed, 'row')} "
        "better and "
        f"{found.broken} worse, {p_text(found.p_value)} (paired, two-sided): {verdict}{lost}",
    ]


def check_ending(path: Path) -> None:
    """Raises UsageError for a file whose ending names no format."""
    _writer(path)


def written(report: EvaluationReport, path: Path) -> str:
    """The text for this file."""
    return _writer(path)(report)


def _writer(path: Path) -> Callable[[EvaluationReport], str]:
    for ending, writer in _WRITERS.items():
        if path.name.endswith(ending):
            return writer
    raise unknown_ending(path, _WRITERS)


def _rows(report: EvaluationReport) -> list[dict[str, object]]:
    rows = [
        {
            **{name: getattr(row, name) for name in (*_FIELDS, *_MORE)},
            "prompt_tokens": row.usage.prompt_tokens,
            "completion_tokens": row.usage.completion_tokens,
        }
        for row in report.evaluation.rows
    ]
    if report.against is not None:
        for row, other in zip(rows, report.against.rows, strict=True):
            row |= dict(zip(_AGAINST, (other.prediction, other.score), strict=True))
    return rows


def _json(report: EvaluationReport) -> str:
    return json.dumps(report.to_dict(), ensure_ascii=False, indent=2, default=str) + "\n"


def _jsonl(report: EvaluationReport) -> str:
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in _rows(report))


def _csv(report: EvaluationReport) -> str:
    out = io.StringIO()
    fields = (*_FIELDS, *(_AGAINST if report.against is not None else ()))
    writer = csv.DictWriter(out, fields, extrasaction="ignore", lineterminator="\n")
    writer.writeheader()
    writer.writerows(_rows(report))
    return out.getvalue()


def _markdown(report: EvaluationReport) -> str:
    low, high = report.interval
    lines = [
        f"**{report.metric} {report.score:.3f}** (95% interval {low:.3f} to {high:.3f}) on "
        f"{counted(report.n, 'row')}"
        f"{in_groups(report.groups, report.n)}, {report.model}",
        *(part for line in comparison(report) for part in ("", line)),
        "",
        "| score | expected | answer | input |",
        "| --- | --- | --- | --- |",
    ]
    for row in report.evaluation.rows:
        cells: Sequence[str] = (
            f"{row.score:g}",
            row.ground_truth,
            row.shown_error or row.prediction,
            row.input,
        )
        lines.append("| " + " | ".join(_cell(cell) for cell in cells) + " |")
    return "\n".join(lines) + "\n"


def _cell(text: str) -> str:
    return " ".join(clean(text).split()).replace("|", "\\|")


def _junit(report: EvaluationReport) -> str:
    """One testcase for each row. Wrong is a failure, a row without an answer an error."""
    rows = report.evaluation.rows
    errors = sum(row.error is not None for row in rows)
    suite = ElementTree.Element(
        "testsuite",
        name="autoprompt eval",
        tests=str(len(rows)),
        failures=str(sum(not row.is_correct for row in rows) - errors),
        errors=str(errors),
        time=f"{report.seconds:.3f}",
    )
    for row in rows:
        case = ElementTree.SubElement(suite, "testcase", classname=report.metric, name=_name(row))
        if row.error is not None:
            ElementTree.SubElement(case, "error", message=_printable(row.shown_error or ""))
        elif not row.is_correct:
            expected = f"expected {row.ground_truth!r}, " if row.ground_truth else ""
            said = f"{expected}got {row.prediction!r}"
            ElementTree.SubElement(case, "failure", message=_printable(said)).text = _printable(row.reason)
    return '<?xml version="1.0" encoding="utf-8"?>\n' + ElementTree.tostring(suite, encoding="unicode") + "\n"


def _name(row: EvaluatedRow) -> str:
    return f"{row.example_id} {' '.join(_printable(row.input).split())[:80]}"


def _printable(text: str) -> str:
    """XML has no form for control characters and lone surrogates."""
    return clean(text).encode(errors="replace").decode().replace("\ufffe", "?").replace("\uffff", "?")


_WRITERS: dict[str, Callable[[EvaluationReport], str]] = {
    ".jsonl": _jsonl,
    ".json": _json,
    ".csv": _csv,
    ".md": _markdown,
    "junit.xml": _junit,
}
ENDINGS = tuple(_WRITERS)


def baselines(report: EvaluationReport) -> list[str]:
    """What scores as much without a model, if anything does, and what both baselines score."""
    found = baselines_dict(report.baselines)
    said = ", ".join(f"{name.replace('_', ' ')} {one['score']:.3f}" for name, one in found.items() if one)
    level = clean(baselines_sentence(found, report.score, report.metric))
    return [*filter(None, [level, f"without a model: {said}" if said else ""])]
