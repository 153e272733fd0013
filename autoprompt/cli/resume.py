"""`autoprompt resume`: resume an interrupted run, of whatever kind it is."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from autoprompt.cli import options
from autoprompt.cli.environment import read_environment
from autoprompt.cli.run import watch
from autoprompt.errors import Problem, StoreError, UsageError, flag_name
from autoprompt.runs import RunFolder, RunStore
from autoprompt.settings.places import naming_places
from autoprompt.settings.records import Budget, ConfigFile
from autoprompt.settings.resolve import resolve
from autoprompt.settings.sources import flag_places, plain

app = typer.Typer(rich_markup_mode=None, add_completion=False)


@dataclass(frozen=True, slots=True)
class _Asked:
    """What `resume` was given beside the run."""

    flags: Mapping[str, Any]
    output: Path | None
    events: bool
    as_json: bool
    quiet: bool


def _resume_optimization(run: RunFolder, asked: _Asked) -> None:
    from autoprompt.optimizer import api

    limits = {name: asked.flags[name] for name in Budget.model_fields if name in asked.flags}
    budget = resolve(Budget, limits) if limits else None
    if asked.flags and budget is None and run.is_finished:
        said = f"run {run.run_id} is finished, so --set program_changed_ok has no effect"
        typer.echo(f"warning: {said}", err=True)
    is_ok = bool(plain(asked.flags).get("program_changed_ok"))
    watch(
        lambda emit: api.resume_optimization(run, None, emit, budget=budget, program_changed_ok=is_ok),
        as_json=asked.as_json,
        quiet=asked.quiet,
    )


def _resume_batch(run: RunFolder, asked: _Asked) -> None:
    from autoprompt.batch import resume_batch
    from autoprompt.cli.batch import watch_batch

    watch_batch(lambda emit: resume_batch(run.path, on_event=emit), as_json=asked.as_json, quiet=asked.quiet)


def _resume_science(run: RunFolder, asked: _Asked) -> None:
    from autoprompt.cli.science import resume_run

    resume_run(run, output=asked.output, as_json=asked.as_json, quiet=asked.quiet)


def _resume_workflow(run: RunFolder, asked: _Asked) -> None:
    from autoprompt.cli.flow import check_forms, show
    from autoprompt.settings.resolve import resolve_models
    from autoprompt.workflow.flow_run import read_mocks_file, reopened

    check_forms(events=asked.events, as_json=asked.as_json)
    # Neither a variable nor a file changes a run that has begun.
    settings = resolve_models(asked.flags, config_file=None, environ={})
    mocks = None if settings.mocks is None else read_mocks_file(settings.mocks)
    with naming_places(settings):
        flow = reopened(run, file=settings.workflow, settings=settings, mocks=mocks, tools=settings.tools)
        show(flow, flow.resume(run.run_id), asked.events, asked.as_json, asked.quiet)


_LIMITS = tuple(map(flag_name, Budget.model_fields))
# Kind of a run, as in its run.json -> how it is resumed, and what only this kind takes.
_KINDS: dict[str, tuple[Callable[[RunFolder, _Asked], None], Collection[str]]] = {
    "optimize": (_resume_optimization, ("--set program_changed_ok", *_LIMITS)),
    "batch": (_resume_batch, ()),
    "science": (_resume_science, ("--output",)),
    "workflow": (
        _resume_workflow,
        ("--events", *_LIMITS, *(f"--set {name}" for name in options.RESUME if name != "program_changed_ok")),
    ),
}


@app.command(cls=options.Panelled)
@options.with_settings(tuple(Budget.model_fields), options.RESUME, refuses=ConfigFile.model_fields)
def resume(
    run: Annotated[
        str | None, typer.Argument(metavar="RUN", help="Id of a run or its beginning, its folder, or `last`.")
    ] = None,
    *,
    flags: dict[str, Any],
    output: options.ResultsFolder = None,
    events: options.Events = False,
    runs_dir: options.RunsDir = Path("runs"),
    as_json: options.Json = False,
    quiet: options.Quiet = False,
    trust: options.Trust = False,
) -> None:
    """Resume an interrupted run of any kind. Answers that are there already are not asked for again.

    A finished run shows its result. With --max-calls or another limit, a finished optimization continues
    its search on the same rows, or tests the cheaper prompt that no budget was left for; its sealed test is
    then opened again, with a warning. The limit is for the whole run. A run keeps its other settings; --set
    changes those of a `flow run`, and `program_changed_ok`.
    """
    store = RunStore(runs_dir)
    if run is None:
        raise typer.BadParameter(_which(store), param_hint="RUN")
    read_environment(is_trusted=trust)
    folder = store.open(run)
    kind = str(folder.read_info().get("kind"))
    if kind not in _KINDS:
        said = f"run {folder.run_id} has the unknown kind {kind!r}; known: {', '.join(_KINDS)}"
        fix = "Update autoprompt if a newer version wrote it."
        raise StoreError(Problem("run.other-kind", said, fix=fix))
    start, takes = _KINDS[kind]
    others = {"output": output is not None, "events": events}
    for name, place in flag_places({**flags, **{name: name for name in others if others[name]}}).items():
        flag = flag_name(name) if name in (*Budget.model_fields, *others) else f"--set {name}"
        if flag not in takes:
            said, fix = f"a resumed `{kind}` run does not take this", "Remove it."
            if flag.startswith("--set"):
                fix = "Remove it: a run keeps its settings."
            elif kind == "batch" and flag in _LIMITS:
                fix = f"Give it to the batch's files: autoprompt batch FILES {flag} N."
            raise UsageError(Problem("usage.not-of-kind", said, place, fix))
    start(folder, _Asked(flags, output, events, as_json, quiet))


def _which(store: RunStore) -> str:
    """Return what to say if no run is named: the runs that can be resumed.

    One of them may have been cut off long ago.
    """
    found = [RunFolder(line.path) for line in store.list() if line.status == "interrupted"]
    if not found:
        return f"name a run. {store.runs_dir} has no interrupted run; `autoprompt runs list` shows all"
    newest = f"name a run. The newest interrupted one: autoprompt resume {found[0].reference}"
    return newest if len(found) == 1 else f"{newest} (of {len(found)}; `autoprompt runs list` shows all)"
