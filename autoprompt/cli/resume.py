"""`autoprompt resume`: go on with a run that was interrupted, of whatever kind it is."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from autoprompt.cli import options
from autoprompt.cli.run import read_environment, watch
from autoprompt.errors import StoreError
from autoprompt.runs import RunFolder, RunStore

app = typer.Typer(rich_markup_mode=None, add_completion=False)


def _resume_optimization(run: RunFolder, as_json: bool, quiet: bool) -> None:
    from autoprompt.optimizer import api

    watch(lambda emit: api.resume_optimization(run, None, emit), as_json=as_json, quiet=quiet)


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
        str | None, typer.Argument(metavar="RUN", help="Id of a run or its beginning, its folder, or `last`.")
    ] = None,
    *,
    runs_dir: options.RunsDir = Path("runs"),
    as_json: options.Json = False,
    quiet: options.Quiet = False,
    trust: options.Trust = False,
) -> None:
    """Resume an interrupted run of any kind. Answers that are there already are not asked for again.

    A finished run shows its result.
    """
    store = RunStore(runs_dir)
    if run is None:
        raise typer.BadParameter(_which(store), param_hint="RUN")
    read_environment(is_trusted=trust)
    folder = store.open(run)
    kind = str(folder.read_info().get("kind"))
    if kind not in _KINDS:
        raise StoreError(
            f"run {folder.run_id} is of the kind {kind!r}; what can go on here is {', '.join(_KINDS)}. "
            "Update autoprompt if a newer one wrote it."
        )
    _KINDS[kind](folder, as_json, quiet)


def _which(store: RunStore) -> str:
    """What to say where no run is named: those that could go on, as one may have been cut off long ago."""
    found = [RunFolder(line.path) for line in store.list() if line.status == "interrupted"]
    if not found:
        return f"name a run. In {store.runs_dir} none is left to go on with; `autoprompt runs list` shows all"
    newest = f"name a run. The newest that was interrupted: autoprompt resume {found[0].reference}"
    return newest if len(found) == 1 else f"{newest} (of {len(found)}; `autoprompt runs list` shows all)"
