"""`autoprompt check`: the gate in CI. Measures, compares with the baseline, says so with its exit code."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console, RenderableType
from rich.text import Text

from autoprompt.cli import options, render
from autoprompt.cli.environment import read_environment
from autoprompt.cli.live import RunView, watching
from autoprompt.cli.output import clean, print_json, unknown_ending
from autoprompt.cli.run import check_metric
from autoprompt.errors import AutopromptError, Interrupted, Place, Problem, UsageError, Voice, command
from autoprompt.report.numbers import duration, money, tokens
from autoprompt.runs.resuming import interrupted_asking
from autoprompt.settings.kinds import Panel
from autoprompt.settings.records import CheckConfig
from autoprompt.settings.resolve import resolve_measured
from autoprompt.settings.sources import Placed, flag_places, plain
from autoprompt.text.files import check_writable, to_json, write_output
from autoprompt.text.names import counted

if TYPE_CHECKING:
    from autoprompt.gate import CheckReport
    from autoprompt.gate.report import CaseView

_MOST_ROWS = 20  # shown in the terminal; the files hold all
_LONGEST_CELL = 60
_REGRESSION = 1
app = typer.Typer(rich_markup_mode=None, add_completion=False)


@app.command(cls=options.Panelled)
@options.with_settings(options.CHECK_FLAGS, options.CHECK)
def check(
    *,
    flags: dict[str, Any],
    config: options.ConfigFile = None,
    update_baseline: Annotated[
        bool,
        typer.Option(
            "--update-baseline",
            help="Write the new scores to the baseline; exit 0.",
            rich_help_panel=Panel.GATE,
        ),
    ] = False,
    output: Annotated[
        Path | None,
        typer.Option(
            "-o",
            "--output",
            metavar="FILE",
            help="File for the report: .md or .json.",
            rich_help_panel=Panel.OUTPUT,
        ),
    ] = None,
    as_json: options.Json = False,
    quiet: options.Quiet = False,
    trust: options.Trust = False,
) -> None:
    """Fail if a prompt has become worse than its baseline: the gate in CI.

    Exit code 1 is a regression: a significant drop of more than --max-drop, a score under --min-score, or a
    wrong answer to a row of --must-pass.
    """
    writer = None if output is None else _writer(output)
    if "exported" in flags:
        place = flag_places(flags)["exported"]
        flags["exported"] = Placed(_exported(str(plain(flags)["exported"]), place), place)
    read_environment(is_trusted=trust)
    check_metric(flags)
    settings, limits = resolve_measured(CheckConfig, flags, config_file=config, environ=os.environ)
    for path, role in ((output, ""), (limits.junit, "junit")):
        if path is not None:
            check_writable(path, role=role)
    from autoprompt.optimizer import api

    with watching(render.console(stderr=True), RunView(), quiet=quiet) as (progress, emit):
        try:
            report = api.check(settings, limits, is_update=update_baseline, on_event=emit)
        except (KeyboardInterrupt, Interrupted) as error:  # of a workflow the engine has made it the second
            raise interrupted_asking(is_cached=not settings.no_cache) from error
        except AutopromptError as error:
            if limits.github:
                _annotate_error(error, as_json=as_json)
            raise
    _show(report, limits, render.console(stderr=as_json), is_update=update_baseline)
    _write_files(report, limits, output, writer)
    if update_baseline and limits.baseline is not None:
        _update(report, limits.baseline, render.console(stderr=as_json))
    if as_json:
        print_json({**report.to_dict(), "sent_to": progress.sent_to})
    if not (report.is_passed or update_baseline):
        if all(reason.kind == "drop" for reason in report.reasons):  # a baseline outdoes no other limit
            typer.echo("To accept the change, run with --update-baseline and commit the baseline.", err=True)
        raise typer.Exit(_REGRESSION)


def _exported(text: str, place: Place) -> Path:
    """Return the file of an export.

    Raises:
        UsageError: For a run: what is checked should be in git.
    """
    made = options.made(text, place)
    if isinstance(made, Path):
        return made
    if not options.names_made(text):
        said = f"no such file: {text}; expected an exported prompt (YAML)"
        raise UsageError(Problem("usage.not-in-git", said, place))
    said = f"{text} is a run, expected a file that is in git"
    fix = f"Export it first: {command('runs export', text, to='prompt.yaml')}."
    raise UsageError(Problem("usage.not-in-git", said, place, fix))


def _annotate_error(error: AutopromptError, *, as_json: bool) -> None:
    """Report a check that could not be made: it is no red row, and should not be missed in the log."""
    from autoprompt.gate import formats

    title = "Prompt check could not be made"
    typer.echo(formats.command("error", clean(error.message(Voice.CLI)), title=title), err=as_json)


def _show(report: CheckReport, limits: CheckConfig, console: Console, *, is_update: bool) -> None:
    from autoprompt.gate import formats

    stop, go = formats.silenced() if limits.github else ("", "")
    if stop:
        console.print(Text(stop))
    for part in _result(report, is_update=is_update):
        console.print(part)
    if stop:
        console.print(Text(go))
        for line in formats.annotate(report):
            console.out(line, highlight=False)


def _write_files(
    report: CheckReport,
    limits: CheckConfig,
    output: Path | None,
    writer: Callable[[CheckReport], str] | None,
) -> None:
    from autoprompt.gate import formats
    from autoprompt.gate.formats import to_junit

    if limits.junit is not None:
        write_output(limits.junit, to_junit(report), role="junit")
    if output is not None and writer is not None:
        write_output(output, writer(report))
    if not limits.github:
        return
    try:
        if not formats.write_summary(report):
            typer.echo("warning: no summary written: GITHUB_STEP_SUMMARY is not set", err=True)
    except OSError as error:  # the verdict stands without it
        path = os.environ["GITHUB_STEP_SUMMARY"]
        said = f"no summary written: cannot write GITHUB_STEP_SUMMARY={path} ({error.strerror})"
        typer.echo(f"warning: {clean(said)}", err=True)


def _writer(path: Path) -> Callable[[CheckReport], str]:
    from autoprompt.gate.formats import to_markdown

    if path.suffix == ".md":
        return to_markdown
    if path.suffix == ".json":
        return lambda report: to_json(report.to_dict(), indent=2) + "\n"
    raise unknown_ending(path, (".md", ".json"))


def _update(report: CheckReport, path: Path, console: Console) -> None:
    from autoprompt.gate import write_baseline

    baseline = report.measurement.as_baseline()
    if not write_baseline(path, baseline):
        console.print(Text(f"{clean(str(path))} is up to date: nothing written"))
        return
    console.print(
        Text(f"written: {clean(str(path))} ({counted(len(baseline.cases), 'case')}); keep it in git")
    )


def _result(report: CheckReport, *, is_update: bool) -> Iterator[RenderableType]:
    style = "bold green" if report.is_passed else "bold red"
    yield Text(_headline(report, is_update=is_update), "bold" if is_update else style)
    for note in report.notes:
        yield Text(f"note: {clean(note)}")
    changed = report.changed()
    if changed:
        yield Text()
        yield _table(changed[:_MOST_ROWS])
        if len(changed) > _MOST_ROWS:
            yield Text(f"... and {counted(len(changed) - _MOST_ROWS, 'more row')}", "dim")
        yield Text()
    measured = report.measurement
    yield Text(
        f"{counted(measured.calls, 'call')}, {tokens(measured.usage)}, "
        f"cost {money(measured.usage.cost_usd)}, {duration(measured.seconds)}; {measured.model}"
    )


def _headline(report: CheckReport, *, is_update: bool) -> str:
    if not is_update:
        return clean(report.message)
    found, measured = report.comparison, report.measurement
    name = measured.metric.name
    if found is None:
        said = f"New baseline: {name} {report.score:.3f} on {counted(len(measured.answered), 'case')}"
    else:
        said = (
            f"The baseline changes: {name} {found.score_before:.3f} -> {found.score_now:.3f} on "
            f"{counted(len(found.cases), 'common case')}; {found.changes}, {len(found.new)} are new, "
            f"{len(found.gone)} are gone"
        )
        if unanswered := len(measured.cases) - len(measured.answered):
            said += (
                f"; {unanswered} got no answer and {'is' if unanswered == 1 else 'are'} not in the new one"
            )
    if not report.is_passed:
        said += "\nAs a check this would have failed: " + "; ".join(r.message for r in report.reasons)
    return clean(said)


def _table(views: list[CaseView]) -> RenderableType:
    made = render.table("", "was", "is", "expected", "answer", "input", "row", right=("was", "is"))
    for view in views:
        example = view.case.example
        what = "must pass" if view.must_pass and view.is_failure else view.state
        scores = ("" if score is None else f"{score:.3g}" for score in (view.before, view.now))
        texts = (example.target_text, view.case.prediction, example.input_text)
        made.add_row(
            Text(what, "red" if view.is_failure else ""),
            *(Text(score) for score in scores),
            *(Text(render.shortened(text, _LONGEST_CELL)) for text in texts),
            Text(f"{clean(view.case.name)} line {example.line}"),
        )
    return made
