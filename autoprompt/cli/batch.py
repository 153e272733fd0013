"""`autoprompt batch`: many trials as one experiment, watched, into one table."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from autoprompt.cli import batch_table, options, render
from autoprompt.cli.live import watching
from autoprompt.cli.live_batch import BatchView
from autoprompt.cli.run import print_json, read_environment
from autoprompt.records import OnEvent
from autoprompt.settings.kinds import Panel
from autoprompt.settings.records import Budget
from autoprompt.settings.resolve import resolve_budget

if TYPE_CHECKING:
    from autoprompt.batch import BatchResult

app = typer.Typer(rich_markup_mode=None, add_completion=False)


@app.command(cls=options.Panelled)
@options.with_settings(tuple(Budget.model_fields), Budget.model_fields)
def batch(
    files: Annotated[
        list[Path],
        typer.Argument(metavar="FILE...", help="Batch file, or config files of several runs."),
    ],
    *,
    flags: dict[str, Any],
    dry_run: options.DryRun = False,
    only: Annotated[
        list[str] | None,
        typer.Option(
            "--only",
            metavar="PATTERN",
            help="Trials to run: `seed=0`, `model=gpt*` or the beginning of an id; repeatable.",
            rich_help_panel=Panel.START,
        ),
    ] = None,
    jobs: Annotated[
        int | None,
        typer.Option(
            "--jobs", metavar="N", min=1, help="Trials to run at once.", rich_help_panel=Panel.START
        ),
    ] = None,
    fail_fast: Annotated[
        bool,
        typer.Option("--fail-fast", help="Stop at the first trial that fails.", rich_help_panel=Panel.START),
    ] = False,
    name: Annotated[
        str | None,
        typer.Option(
            "--name",
            metavar="NAME",
            help="Name of the batch's folder. [default: names of the files]",
            rich_help_panel=Panel.OUTPUT,
        ),
    ] = None,
    runs_dir: options.RunsDir = Path("runs"),
    as_json: options.Json = False,
    quiet: options.Quiet = False,
    trust: options.Trust = False,
) -> None:
    """Run the trials of a batch file: a matrix of settings, side by side, on one budget, into one table.

    The limits hold for all trials together, beside those that each trial has. If you run a batch again, it
    skips finished trials and resumes the others. Exit code 1: a trial has no result.
    """
    read_environment(is_trusted=trust)
    budget = resolve_budget(flags)
    from autoprompt.batch import plan_batch, run_batch

    chosen: dict[str, Any] = {"name": name, "runs_dir": runs_dir, "only": only or (), "budget": budget}
    if dry_run:
        planned, trials = plan_batch(files, **chosen)
        if as_json:
            print_json(batch_table.plan_to_dict(planned, trials, runs_dir))
            return
        batch_table.show(batch_table.plan(planned, trials, runs_dir))
        return
    watch_batch(
        lambda emit: run_batch(files, jobs=jobs, fail_fast=fail_fast, on_event=emit, **chosen),
        as_json=as_json,
        quiet=quiet,
    )


def watch_batch(start: Callable[[OnEvent], BatchResult], *, as_json: bool, quiet: bool) -> None:
    """Runs `start` under the live view and shows its table. Exits with 1 if a trial has no result."""
    # Ray prints what it has lost on stdout, which is the result's.
    console = render.console(stderr=True)
    with watching(console, BatchView(), quiet=quiet) as (view, emit), redirect_stdout(sys.stderr):
        result = start(emit)
    batch_table.show(batch_table.result(result), stderr=as_json)
    if as_json:
        print_json({**result.to_dict(), "sent_to": view.sent_to})
    if result.failed or result.not_run:
        raise typer.Exit(1)
