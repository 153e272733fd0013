"""`autoprompt resume`: go on with a run that was interrupted, of whatever kind it is."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from autoprompt.cli import options
from autoprompt.cli.run import read_environment, watch
from autoprompt.errors import StoreError
from autoprompt.store import RunFolder, RunStore

app = typer.Typer(rich_markup_mode=None, add_completion=False)


def _resume_optimization(run: RunFolder, as_json: bool, quiet: bool) -> None:
    from autoprompt import api

    watch(lambda emit: api.resume(run.path, on_event=emit), as_json=as_json, quiet=quiet)


def _resume_batch(run: RunFolder, as_json: bool, quiet: bool) -> None:
    from autoprompt.batch import resume_batch
    from autoprompt.cli.batch import watch_batch

    watch_batch(lambda emit: resume_batch(run.path, on_event=emit), as_json=as_json, quiet=quiet)


def _resume_science(run: RunFolder, as_json: bool, quiet: bool) -> None:
    from autoprompt.cli.science import resume_run

    resume_run(str(run.path), run.path.parent, as_json=as_json, quiet=quiet)


def _resume_workflow(run: RunFolder, as_json: bool, quiet: bool) -> None:
    from autoprompt.cli.flow import show
    from autoprompt.workflow.flow_run import reopened

    flow = reopened(run)
    show(flow, flow.resume(run.run_id), False, as_json, quiet)


# Kind of a run, as in its run.json -> how it goes on.
_KINDS: dict[str, Callable[[RunFolder, bool, bool], None]] = {
    "optimize": _resume_optimization,
    "batch": _resume_batch,
    "science": _resume_science,
    "workflow": _resume_workflow,
}


@app.command()
def resume(
    run: Annotated[
        str, typer.Argument(metavar="RUN", help="Id, its beginning, folder of the run, or `last`.")
    ],
    *,
    runs_dir: options.RunsDir = Path("runs"),
    as_json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Go on with an interrupted run of any kind: no answer that is there already is asked for again.

    Of a finished run the result is shown.
    """
    read_environment()
    folder = RunStore(runs_dir).open(run)
    kind = str(folder.read_info().get("kind"))
    if kind not in _KINDS:
        raise StoreError(
            f"run {folder.run_id} is of the kind {kind!r}; what can go on here is {', '.join(_KINDS)}. "
            "Update autoprompt if a newer one wrote it."
        )
    _KINDS[kind](folder, as_json, quiet)
