"""`autoprompt eval`: score one prompt on all rows of a dataset."""

from __future__ import annotations

import csv
import io
import json
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any
from xml.etree import ElementTree

import typer
from rich.text import Text

from autoprompt.cli import options, render
from autoprompt.cli.environment import read_environment
from autoprompt.cli.live import RunView, watching
from autoprompt.cli.output import clean, print_json, unknown_ending
from autoprompt.cli.run import check_metric, evaluation_plan
from autoprompt.errors import BudgetExhausted, BudgetTooSmallError, Interrupted, Place, Problem, UsageError
from autoprompt.measure.baselines import baselines_sentence
from autoprompt.records import EvaluatedRow
from autoprompt.report.numbers import at_once, duration, money, tokens
from autoprompt.runs.resuming import interrupted_asking
from autoprompt.settings.kinds import Panel
from autoprompt.settings.places import place_of
from autoprompt.settings.records import ExportedSettings
from autoprompt.settings.resolve import resolve_measured
from autoprompt.settings.sources import Placed, plain
from autoprompt.stats import in_groups, p_text
from autoprompt.text.files import check_writable, to_json_lines, write_output
from autoprompt.text.names import counted

if TYPE_CHECKING:
    from autoprompt.evaluation.scoring import EvaluationReport
    from autoprompt.records import Candidate, OnEvent
    from autoprompt.runs import RunFolder
    from autoprompt.settings.records import RunConfig
    from autoprompt.settings.resolve import CompleteConfig


_ENDINGS = (".jsonl", ".json", ".csv", ".md", "junit.xml")
_AGAINST = Place(setting="against", source="flag")
# A word alone, or where a file lies: seldom a prompt, and beside a misspelt name any prompt gains.
_NAME = re.compile(r"[A-Za-z0-9_~./\\-]*[A-Za-z0-9_]")
# Of the run's model, and of no other.
_OF_MODEL = ("price_input", "price_output", "price_cached_input", "traits")
# What a run's best is scored with where no flag says otherwise: what the run itself used.
_FROM_RUN = (
    "program",
    "prompts_file",
    "allow_effects",
    "workflow",
    "target_output",
    "mocks",
    "tools",
    "allow_private_hosts",
    "input_field",
    "target_field",
    "metric",
    "metric_options",
    "model",
    "base_url",
    "temperature",
    "max_output_tokens",
    "reasoning_effort",
    "judge_max_output_tokens",
    "constrain",
    *_OF_MODEL,
)
app = typer.Typer(rich_markup_mode=None, add_completion=False)


@app.command(cls=options.Panelled)
@options.with_settings(options.EVALUATION_FLAGS, options.EVALUATION)
def evaluate(
    *,
    flags: dict[str, Any],
    config: options.ConfigFile = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "-o",
            "--output",
            metavar="FILE",
            help=f"File for the rows: {', '.join(_ENDINGS)}.",
            rich_help_panel=Panel.OUTPUT,
        ),
    ] = None,
    source: options.Source = None,
    against: Annotated[
        str | None,
        typer.Option(
            "--against",
            metavar="TEXT|@FILE|ID|RUN[:CANDIDATE]|FILE.yaml",
            help="Prompt, export or candidate to compare with on the same rows.",
            rich_help_panel=Panel.START,
        ),
    ] = None,
    dry_run: options.DryRun = False,
    runs_dir: options.RunsDir = Path("runs"),
    as_json: options.Json = False,
    quiet: options.Quiet = False,
    trust: options.Trust = False,
) -> None:
    """Score a prompt on a whole dataset, without optimization."""
    if output is not None:
        _writer(output)  # refuses another ending before anything is asked
    made = None if source is None else options.made(source)
    read_environment(is_trusted=trust)
    if isinstance(made, Path):
        flags["exported"] = made
    known = _of_run(*made, flags, runs_dir) if isinstance(made, tuple) else _Known()
    check_metric(flags)
    settings, chosen = resolve_measured(
        ExportedSettings, {**known.flags, **flags}, config_file=config, environ=os.environ
    )
    if known.run is None and chosen.exported is not None:
        known = _of_export(chosen.exported, settings)
    other = None if against is None else _prompt_to_compare(against, known, runs_dir)
    if output is not None:  # all inputs are known, and nothing is paid for yet
        check_writable(output)
    if dry_run:
        _show_estimate(settings, known, other, as_json=as_json)
        return
    with watching(render.console(stderr=True), RunView(), quiet=quiet) as (progress, emit):
        report = _ask(settings, known, other, emit)
    _show(report, output, as_json=as_json, sent_to=progress.sent_to)


def _ask(settings: RunConfig, known: _Known, other: Candidate | None, emit: OnEvent) -> EvaluationReport:
    from autoprompt.evaluation import scoring

    try:
        return scoring.evaluate(
            settings,
            candidate=known.candidate,
            against=other,
            on_event=emit,
        )
    except BudgetExhausted as error:
        when = "The limit must allow for every row, cached ones included."
        if error.calls:
            kept = "" if settings.no_cache else "; the cache keeps the answers"
            when = f"The run reached it after {counted(error.calls, 'request')}{kept}."
        said = f"too small to score every row ({error}). {when}"
        fix, place = "Raise it, or use fewer rows.", place_of(settings, error.cap)
        raise BudgetTooSmallError(Problem("budget.too-small-for-rows", said, place, fix)) from error
    except (KeyboardInterrupt, Interrupted) as error:  # of a workflow the engine has made it the second
        raise interrupted_asking(is_cached=not settings.no_cache) from error


def _show_estimate(
    settings: CompleteConfig, known: _Known, other: Candidate | None, *, as_json: bool
) -> None:
    from autoprompt.evaluation.estimate import estimate_evaluation

    found = estimate_evaluation(settings, candidate=known.candidate, against=other)
    render.console(stderr=as_json).print(evaluation_plan(found, settings))
    if as_json:
        print_json(found.to_dict())


def _show(report: EvaluationReport, output: Path | None, *, as_json: bool, sent_to: list[Any]) -> None:
    from autoprompt.cli.run_view import changed_rows  # here, since a dry run needs neither
    from autoprompt.report.reading import joined

    console = render.console(stderr=as_json)
    for line in _lines(report):
        console.print(Text(line))
    if report.cost_usd is None:
        answers = [row.usage for one in (report.evaluation, report.against) if one for row in one.rows]
        if any(usage.cost_usd is None for usage in answers):
            render.show(render.unknown_price(report.model), console)
        else:
            said = "The price of the judge is not known, so neither is the cost."
            console.print(Text(said, "yellow"))
    if report.against is not None:
        new, old = (report.evaluation.rows, report.against.rows)
        rows = joined(*([row.to_dict() for row in side] for side in (old, new)))
        for part in changed_rows(rows, width=console.width, sides=("against", "prompt")):
            console.print(part)
    if output is not None:
        write_output(output, _writer(output)(report))
        console.print(Text(f"rows: {output}"))
    if as_json:
        print_json({**report.to_dict(), "sent_to": sent_to}, lines="rows")


def _prompt_to_compare(against: str, known: _Known, runs_dir: Path) -> Candidate:
    """Return the prompt to compare with: a candidate of --from's run, what --from can name, or a text."""
    from autoprompt.evaluation import scoring
    from autoprompt.evaluation.exported import read_one_prompt
    from autoprompt.optimizer.result import Run

    if scoring.names_candidate(against):
        if known.run is None:
            said = f"{against} names a candidate of a run"
            raise UsageError(Problem("prompt.unknown-name", said, _AGAINST, "Add the run: --from RUN."))
        return Run.open(known.run.path).candidate(against)
    if options.names_made(against):
        found = options.made(against)
        if isinstance(found, Path):
            return read_one_prompt(found).candidate
        run, candidate = found
        return Run.open(options.own_run(run, runs_dir).path).candidate(candidate or "best")
    if _NAME.fullmatch(against):
        said = f"{against} is neither a candidate nor a run"
        fix = (
            "A candidate is best, original, or at least four characters of an id. Give a file as @FILE, "
            "and a prompt of one word with a space after it."
        )
        raise UsageError(Problem("prompt.unknown-name", said, _AGAINST, fix))
    return scoring.other_prompt(against, _AGAINST)


@dataclass(frozen=True, slots=True)
class _Known:
    """What a run or an export hands over. flags: its settings, as `--from` gives them."""

    run: RunFolder | None = None
    candidate: Candidate | None = None
    flags: Mapping[str, Any] = field(default_factory=dict)


def _of_export(path: Path, settings: CompleteConfig) -> _Known:
    """Return what an export hands over."""
    from autoprompt.evaluation.exported import read_export
    from autoprompt.llm.endpoints import shown_model

    found, asked = read_export(path, settings), shown_model(settings)
    if found.model is not None and found.model != asked:
        said = f"warning: {path} was optimized for {found.model}, but the model is {asked}"
        render.console(stderr=True).print(Text(said, "yellow"))
    return _Known(candidate=found.candidate)


def _of_run(run: str, candidate: str | None, flags: Mapping[str, Any], runs_dir: Path) -> _Known:
    """Return the candidate to score, the best or the one that is named, and what the run used for it.

    flags: those on the command line; what they replace or exclude is left out.
    """
    from autoprompt.llm.endpoints import choose_model
    from autoprompt.optimizer.result import Run
    from autoprompt.optimizer.resume import load_config
    from autoprompt.settings.records import JUDGED, without_excluded

    options.check_only_source(flags)
    folder = options.own_run(run, runs_dir)  # once: meanwhile another may become the `last`
    found = Run.open(folder.path)
    scored = found.best if candidate is None else found.candidate(candidate)
    config = load_config(folder)
    known = config.model_dump(include=set(_FROM_RUN))
    if flags.keys() & {"model", "base_url"}:
        known = {name: value for name, value in known.items() if name not in _OF_MODEL}
    known = without_excluded(known, plain(flags))
    if config.metric == JUDGED and not flags.keys() & {"judge_model", "judge_base_url"}:
        judge = choose_model(config, "judge")  # by name: its default would be the model that is scored
        known |= {"judge_model": judge.model, "judge_base_url": judge.base_url}
    if config.prompt is not None:
        # Scored is the candidate. Its text is checked with the settings; a line end before it keeps one that
        # begins with "@" from being read as a file.
        known["prompt"] = f"\n{scored.prompt}"
    taken = {name: Placed.taken_from(value) for name, value in known.items() if value is not None}
    return _Known(folder, scored, taken)


def _lines(report: EvaluationReport) -> list[str]:
    from autoprompt.measure.problems import first_error, first_unread

    low, high = report.interval
    lines = [
        f"{report.metric} {report.score:.3f} (95% interval {low:.3f} to {high:.3f}) on "
        f"{counted(report.n, 'row')}"
        f"{in_groups(report.groups, report.n)}, {report.model}"
    ]
    lines += comparison(report)
    lines += _baselines(report)
    if report.unparsed or report.failed or report.unscored:
        unread, why = first_unread(report.evaluation.rows), first_error(report.evaluation.rows)
        missing = f"{counted(report.unparsed, 'row')} with an unreadable answer" + (
            f" ({unread})" if unread else ""
        )
        missing += f", {report.failed} that failed" + (f" ({why})" if why else "")
        if report.unscored:
            missing += f", {report.unscored} that the judge gave no grade"
        lines.append(clean(missing))
    lines.append(
        f"{counted(report.calls, 'call')}, {tokens(report.usage)}, cost {money(report.cost_usd)}, "
        f"{duration(report.seconds)}{at_once(report.concurrency)}"
    )
    return lines


def comparison(report: EvaluationReport) -> list[str]:
    """Return the other prompt's score, the gain and its test, a line each; none without another prompt."""
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


def _baselines(report: EvaluationReport) -> list[str]:
    """Return what scores as much without a model, if anything does, and what both baselines score."""
    found = report.baselines
    said = ", ".join(f"{name.replace('_', ' ')} {one.score:.3f}" for name, one in found.items() if one)
    level = clean(baselines_sentence(found, report.score, report.metric))
    return [*filter(None, [level, f"without a model: {said}" if said else ""])]


# --- the rows as a file: JSON, JSON lines, CSV, Markdown or JUnit XML, by its ending ---

_FIELDS = ("example_id", "input", "ground_truth", "prediction", "score", "is_correct", "is_unparsed", "error")
_OTHER_COLUMNS = ("against_prediction", "against_score")
_MORE = ("reason", "output")  # in JSON lines only, as the tokens


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
            row |= dict(zip(_OTHER_COLUMNS, (other.prediction, other.score), strict=True))
    return rows


def _json(report: EvaluationReport) -> str:
    return to_json_lines(report.to_dict(), "rows", takes_all=True) + "\n"


def _jsonl(report: EvaluationReport) -> str:
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in _rows(report))


def _csv(report: EvaluationReport) -> str:
    out = io.StringIO()
    fields = (*_FIELDS, *(_OTHER_COLUMNS if report.against is not None else ()))
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
    """Return one testcase for each row. Wrong is a failure, a row without an answer an error."""
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


_WRITERS: dict[str, Callable[[EvaluationReport], str]] = dict(
    zip(_ENDINGS, (_jsonl, _json, _csv, _markdown, _junit), strict=True)
)
