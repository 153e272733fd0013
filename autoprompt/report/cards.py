"""Results as cards in a notebook: one piece of HTML that needs no style, script or network of its own.

Colours are the notebook's, light or dark, but for the mark's. Jinja2 escapes every value.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, Literal

from autoprompt.errors import Problem, StoreError, Voice, command, flag_name, tell
from autoprompt.evaluation.estimate import EvaluationEstimate
from autoprompt.evaluation.scoring import EvaluationReport
from autoprompt.gate.report import CheckReport
from autoprompt.optimizer.forecast import Estimate
from autoprompt.optimizer.result import RunResult
from autoprompt.report import numbers, wording
from autoprompt.report.html import environment
from autoprompt.report.reading import joined, read_rows
from autoprompt.report.records import Answer, ComparedRow
from autoprompt.runs.folder import RunFolder
from autoprompt.text.names import counted

if TYPE_CHECKING:
    from jinja2 import Template

Tone = Literal["good", "bad", "open"]
_TONES: Mapping[str, Tone] = {"confirmed": "good", "nothing_to_improve": "good"}
MOST_ROWS = 10  # of each table; the report has all


@dataclass(frozen=True, slots=True)
class Table:
    """A table under a heading. columns that are `right` hold numbers. is_open: shown without a click."""

    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    title: str = ""
    right: Sequence[str] = ()
    is_open: bool = True


@dataclass(frozen=True, slots=True)
class Card:
    """What a card shows: a mark, sentences, tables, prompts by name, warnings, commands."""

    mark: str
    tone: Tone
    sentences: Sequence[str]
    tables: Sequence[Table] = ()
    prompts: Sequence[tuple[str, str]] = ()
    warnings: Sequence[Problem] = ()
    commands: Sequence[str] = ()


def card(record: object) -> str:
    """Return the HTML of a result's card.

    Raises:
        TypeError: The record has none.
    """
    for kind, make in _CARDS.items():
        if isinstance(record, kind):
            made = make(record)
            warnings = [tell(warning, Voice.PYTHON) for warning in made.warnings]
            return _template().render(card=made, warnings=warnings)
    raise TypeError(f"{type(record).__name__} has no card")


@cache
def _template() -> Template:
    return environment().get_template("card.html.j2")


def _run_card(run: RunResult) -> Card:
    found = run.record
    is_unchanged = found.best.is_original
    scores = [
        (
            name,
            numbers.score(side.score),
            numbers.interval(side.ci95),
            numbers.count(side.tokens_per_call),
            side.cost.both if side.cost else numbers.NONE,
        )
        for name, side in wording.tested_sides(found)
    ]
    named = f"{found.metric} on {counted(found.best.n, 'sealed row')}"
    columns = ("score", "95% interval", "tokens/call", "cost of 1,000 calls")
    tested = [Table((named, *columns), scores, right=columns)]
    cost = _cost(run.calls, run.cost_usd, found.seconds)
    name = RunFolder(run.run_dir).reference
    return Card(
        mark=wording.mark(found.verdict, is_unchanged=is_unchanged, is_running=False),
        tone=_TONES.get(found.verdict, "open"),
        sentences=[wording.plain(found), wording.headline(found), wording.explanation(found), cost],
        tables=[
            *(tested if found.best.n else []),
            *_changed(_rows_of(run), ("original's answer", "best's answer")),
        ],
        prompts=[*found.best.components.items()],
        warnings=found.warnings,
        commands=[
            f"{command('report', name)} {flag_name('open')}",
            command("runs export", name, to="prompt.yaml"),
        ],
    )


def _rows_of(run: RunResult) -> Sequence[ComparedRow]:
    """Return the rows of the test; none if the run's folder is gone."""
    try:
        return read_rows(RunFolder(run.run_dir))[0]
    except (OSError, StoreError):
        return ()


def _changed(rows: Iterable[ComparedRow], sides: tuple[str, str]) -> list[Table]:
    found: dict[str, list[Sequence[str]]] = {"fixed": [], "broken": []}
    for row in rows:
        if row.state in found:
            found[row.state].append((row.input, row.expected, _text(row.original), _text(row.best)))
    columns = ("input", "expected", *sides)
    return [_cut(state.capitalize(), columns, of_state) for state, of_state in found.items() if of_state]


def _text(answer: Answer | None) -> str:
    return "" if answer is None else answer.error or answer.text


def _cut(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> Table:
    first = f", the first {MOST_ROWS}" if len(rows) > MOST_ROWS else ""
    return Table(columns, rows[:MOST_ROWS], f"{title}: {counted(len(rows), 'row')}{first}", is_open=False)


def _evaluation_card(report: EvaluationReport) -> Card:
    found = report.compared
    sides = [("prompt", report.score, report.interval)]
    said = f"{report.metric} {numbers.score(report.score)} on {counted(report.n, 'row')}."
    if found is not None:
        sides.append(("against", found.old.score, found.old.interval))
        said = (
            f"{numbers.signed(found.gain)} (95% interval {numbers.interval(found.gain_interval)}), "
            f"{numbers.p_value(found.p_value)}: {found.fixed} fixed, {found.broken} broken."
        )
    rows = [(name, numbers.score(score), numbers.interval(bounds)) for name, score, bounds in sides]
    columns = (f"{report.metric} on {counted(report.n, 'row')}", "score", "95% interval")
    cost = _cost(report.calls, report.cost_usd, report.seconds, report.model)
    tone: Tone = "open"
    if found is not None and (found.is_better or found.is_worse):
        tone = "good" if found.is_better else "bad"
    changed = _wrong(report)
    if report.against is not None:
        rows_of = ([row.to_dict() for row in one.rows] for one in (report.against, report.evaluation))
        changed = _changed(joined(*rows_of), ("the other's answer", "answer"))
    mark = (
        "Score"
        if found is None
        else "Better"
        if found.is_better
        else "Worse"
        if found.is_worse
        else "No clear difference"
    )
    return Card(
        mark, tone, [said, cost], [Table(columns, rows, right=columns[1:]), *changed], (), report.warnings
    )


def _wrong(report: EvaluationReport) -> list[Table]:
    columns = ("input", "expected", "answer", "reason")
    wrong = [
        (row.input, row.ground_truth, row.shown_error or row.prediction, row.reason)
        for row in report.evaluation.rows
        if not row.is_correct
    ]
    return [_cut("Wrong", columns, wrong)] if wrong else []


def _check_card(report: CheckReport) -> Card:
    measured, found = report.measurement, report.comparison
    columns = (measured.metric.name, "score", "rows")
    rows = [("now", numbers.score(report.score), str(len(measured.cases)))]
    if found is not None:
        rows = [
            ("baseline", numbers.score(found.score_before), str(len(found.cases))),
            ("now", numbers.score(found.score_now), str(len(found.cases))),
        ]
    cells = [
        (view.state, view.case.example.input_text, view.case.example.target_text, view.case.prediction)
        for view in report.changed()
    ]
    changed = [_cut("Changed or failed", ("", "input", "expected", "answer"), cells)] if cells else []
    cost = _cost(measured.calls, measured.usage.cost_usd, measured.seconds, measured.model)
    return Card(
        mark="Passed" if report.is_passed else "Failed",
        tone="good" if report.is_passed else "bad",
        sentences=[report.message, *report.notes, cost],
        tables=[Table(columns, rows, right=columns[1:]), *changed],
        warnings=report.warnings,
    )


def _estimate_card(found: Estimate) -> Card:
    sizes = ", ".join(f"{part} {size}" for part, size in found.sizes.items())
    can = f"A gain of {numbers.signed(found.smallest_gain)} or more can be confirmed."
    if found.smallest_gain is None:
        can = "With so few validation rows, no gain can be confirmed."
    return Card(
        mark="Estimate",
        tone="open",
        sentences=[_at_most(found), f"Rows: {sizes}. {can}"],
        warnings=found.warnings,
    )


def _evaluation_estimate_card(found: EvaluationEstimate) -> Card:
    asked = f"{counted(found.prompts, 'prompt')} on {counted(found.rows, 'row')}."
    return Card("Estimate", "open", [_at_most(found), asked], warnings=found.warnings)


def _cost(calls: int, cost_usd: float | None, seconds: float | None, model: str = "") -> str:
    whose = f"{model}: " if model else ""
    return f"{whose}{counted(calls, 'call')}, cost {numbers.money(cost_usd)}, {numbers.duration(seconds)}."


def _at_most(found: Estimate | EvaluationEstimate) -> str:
    cost = f"cost {numbers.money(found.cost_usd)}"
    if found.cost_usd is None:
        cost = "cost unknown: give price_input and price_output in the settings"
        if found.unpriced and "task" not in found.unpriced:  # only the task model's price can be given
            whose = " and the ".join("writer" if role == "optimizer" else role for role in found.unpriced)
            cost = f"cost unknown, as the price of the {whose} is not known"
    return f"At most {counted(found.calls, 'call')}, about {counted(found.tokens, 'token')}, {cost}."


_CARDS: Mapping[type, Callable[[Any], Card]] = {
    RunResult: _run_card,
    EvaluationReport: _evaluation_card,
    CheckReport: _check_card,
    Estimate: _estimate_card,
    EvaluationEstimate: _evaluation_estimate_card,
}
