"""`autoprompt run`: optimize a prompt, watch it, show what came out."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from rich.console import Console

from autoprompt.cli import estimates, options, render
from autoprompt.cli.environment import read_environment
from autoprompt.cli.live import watching
from autoprompt.cli.live_run import RunView
from autoprompt.cli.output import print_json
from autoprompt.errors import (
    ConfigError,
    Interrupted,
    Place,
    Problem,
    StoreError,
    UsageError,
    command,
)
from autoprompt.records import OnEvent, Origin
from autoprompt.runs import RunFolder
from autoprompt.runs.resuming import interrupted
from autoprompt.settings.records import STARTS, RunConfig
from autoprompt.settings.resolve import resolve_settings, with_known_fields, with_known_labels
from autoprompt.text.names import counted

if TYPE_CHECKING:
    from autoprompt.optimizer.result import RunResult
    from autoprompt.records import Candidate

app = typer.Typer(rich_markup_mode=None, add_completion=False)


@app.command(cls=options.Panelled)
@options.with_settings(options.RUN_FLAGS, options.RUN)
def run(
    *,
    flags: dict[str, Any],
    source: options.Source = None,
    config: options.ConfigFile = None,
    dry_run: options.DryRun = False,
    as_json: options.Json = False,
    quiet: options.Quiet = False,
    trust: options.Trust = False,
) -> None:
    """Optimize a prompt on a dataset.

    Every setting can also be in the --config file or in an AUTOPROMPT_... variable.
    """
    read_environment(is_trusted=trust)
    check_metric(flags)
    if source is not None:
        options.check_only_source(flags)
        # The text is put in below: here, one that begins with "@" would be read as a file.
        flags = {**flags, "prompt": "the prompt of --from"}
    settings = resolve_settings(flags, config_file=config, environ=os.environ)
    if source is not None:
        start = _start(source, settings.runs_dir, quiet=quiet)
        origin = start.origin or Origin("")
        settings = with_known_fields(settings, origin.input_field, origin.target_field)
        settings, _ = with_known_labels(settings, origin.labels, origin.name)
        settings = settings.model_copy(update={"prompt": start.prompt})
    if dry_run:
        show_estimate(settings, as_json=as_json)
        return
    from autoprompt.optimizer import api

    watch(lambda emit: api.optimize(settings, on_event=emit), as_json=as_json, quiet=quiet)


def _start(source: str, runs_dir: Path, *, quiet: bool) -> Candidate:
    """Return the prompt to start from, which is a run's or an export's. Its text alone is optimized.

    Raises:
        UsageError: `source` names neither a run nor an export.
        ConfigError: There is no such export, or it holds several prompts.
        StoreError: There is no such run, somebody else may have made it, or it optimized no single prompt.
    """
    from autoprompt.evaluation.exported import read_one_prompt
    from autoprompt.optimizer.result import Run

    made = options.made(source)
    if isinstance(made, Path):
        found = read_one_prompt(made).candidate
    else:
        name, candidate = made
        run = Run.open(options.own_run(name, runs_dir).path)
        if (start := run.folder.read_config()).get("prompt") is None:
            kind = next((one for one in STARTS if start.get(one) is not None), STARTS[0])
            said = f"run {run.folder.run_id} optimized a {kind}, not one prompt"
            fix = f"Write its prompts to a file: `{command('runs export', run.folder.reference, to='FILE')}`."
            raise StoreError(Problem("prompt.of-several", said, Place(setting="from", source="flag"), fix))
        found = run.candidate(candidate or "best")
    if found.demos and not quiet:
        left_out = counted(len(found.demos), "demonstration is", "demonstrations are") + " left out"
        typer.echo(f"note: the text is optimized; its {left_out}, and the search chooses new ones", err=True)
    return found


def check_metric(flags: Mapping[str, Any]) -> None:
    """Raises UsageError for a metric on the command line that is none."""
    if "metric" not in flags:
        return
    from autoprompt.metrics.registry import check_name

    try:
        check_name(flags["metric"])
    except ConfigError as error:
        raise UsageError(*error.problems) from error


def show_estimate(settings: RunConfig, *, as_json: bool) -> None:
    from autoprompt.optimizer import api

    estimate = api.estimate(settings)
    render.console(stderr=as_json).print(estimates.of_run(estimate, settings))
    if as_json:
        print_json(estimate.to_dict())


def watch(start: Callable[[OnEvent], RunResult], *, as_json: bool, quiet: bool) -> None:
    """Runs `start` under the panel and shows its result. Ctrl-C says how to go on."""
    # Progress goes to stderr, so that what is piped is the result alone.
    watcher = render.console(stderr=True)
    with watching(watcher, RunView(), quiet=quiet) as (progress, emit):
        try:
            result = start(emit)
        except KeyboardInterrupt as error:  # before or after the part of the run that saves by itself
            if not progress.run_id:
                raise Interrupted("interrupted before the first request") from error
            raise interrupted(RunFolder(Path(progress.run_dir))) from error
    console = render.console(stderr=as_json)
    show_result(result, console, progress.shown if _is_one_reader(watcher, console) else ())
    if as_json:
        print_json({**result.to_dict(), "sent_to": progress.sent_to})


def _is_one_reader(watcher: Console, console: Console) -> bool:
    """Whether both go to the same place; to a file of its own the result is written whole."""
    try:
        return os.path.sameopenfile(watcher.file.fileno(), console.file.fileno())
    except (OSError, ValueError):  # no files at all
        return watcher.file is console.file


def show_result(result: RunResult, console: Console, shown: Collection[str] = ()) -> None:
    """Print a result. shown: warnings that the same reader has seen already."""
    from autoprompt.report import read_summary

    for part in render.result(read_summary(RunFolder(result.run_dir), with_rows=False), shown=shown):
        console.print(part)
