"""One investigation at work: its folder, model, budget and graph, put together and taken down."""

from __future__ import annotations

import sys
import time
from pathlib import Path

from autoprompt import sandbox
from autoprompt.errors import (
    BudgetExhausted,
    BudgetTooSmallError,
    ConfigError,
    Place,
    Problem,
    StoreError,
)
from autoprompt.llm.adapter import Models, check_own_models
from autoprompt.llm.limits.budget import BudgetMeter
from autoprompt.llm.models import check_models
from autoprompt.records import OnEvent, warning_event
from autoprompt.runs import RunFolder
from autoprompt.runs.events import InvestigationFinished, InvestigationStarted
from autoprompt.runs.resuming import resume_command
from autoprompt.runs.session import Session, open_checkpointer, run_graph
from autoprompt.sandbox import Level, Limits, choose
from autoprompt.sandbox.folders import absolute
from autoprompt.science.records import (
    Bench,
    Investigation,
    PassLog,
    ScienceContext,
    ScienceState,
    markdown,
    messages,
)
from autoprompt.settings.arguments import check_kind, listener
from autoprompt.settings.places import naming_places
from autoprompt.settings.records import ScienceConfig
from autoprompt.text.files import file_sha256, read_json, to_json
from autoprompt.text.names import counted

KIND = "science"
MAX_OUTPUT_TOKENS = 1024  # of one turn; code for one experiment is shorter
_PASSES = "passes"
_TASK = "task.json"


def start(
    config: ScienceConfig, *, models: Models | None = None, on_event: OnEvent | None = None
) -> Investigation:
    """Investigate in a new run folder. An error before the first answer leaves none."""
    check_kind(config, ScienceConfig)
    check_own_models(models)
    on_event = listener(on_event)
    config = config.model_copy()  # its number of passes may be assigned, also while the run is at work
    settings = config.model_dump(exclude_none=True, exclude={"max_iterations"})  # it is in `agent`
    name, runs_dir = config.data[0].stem if config.data else KIND, config.runs_dir
    with naming_places(config):
        level, python = _checked_bench(config)
        if models is None:
            check_models(config)
        with Session.begin(settings, models, on_event, kind=KIND, name=name, runs_dir=runs_dir) as session:
            _write_task(session.folder, config)
            return _investigate(session, config, level, python)


def resume(
    folder: RunFolder, *, models: Models | None = None, on_event: OnEvent | None = None
) -> Investigation:
    """Resume an investigation; see `autoprompt.resume`. No finished pass is paid or run again."""
    if (kind := folder.read_info().get("kind")) != KIND:
        said, fix = f"run {folder.run_id} is a {kind} run", f"Resume it with `{resume_command(folder)}`."
        raise StoreError(Problem("run.other-kind", said, fix=fix))
    finished = folder.read_result()  # before the lock, which cannot be had on a disk that is read-only
    if finished is not None:
        return Investigation.from_dict(finished)
    with Session.resume(folder, models, on_event) as session:
        config = _load_config(folder)
        _check_unchanged(folder)
        level, python = _checked_bench(config)
        return _investigate(session, config, level, python)


def _checked_bench(config: ScienceConfig) -> tuple[Level, str]:
    """Return the level and the interpreter of the experiments.

    Raises:
        SandboxError: If this machine lacks them, or a data file is missing.
    """
    if not config.task.strip():
        raise ConfigError(Problem("settings.no-task", "no task", fix="Write the question in words."))
    for path in config.data:
        if path.is_dir():
            said, fix = "this is a folder, expected a data file", "Name each file as {data}."
            raise sandbox.SandboxError(Problem("science.folder", said, Place(path), fix, {"data": "<FILE>"}))
        if not path.is_file():
            said = "there is no such data file"
            raise sandbox.SandboxError(Problem("science.no-data", said, Place(path), "Check the path."))
    if config.workdir is not None and config.runs_dir.resolve().is_relative_to(config.workdir.resolve()):
        said = f"the folder contains {config.runs_dir}, so the code could change the run's own files"
        fix = "Choose a folder of its own, or another {runs_dir}."
        place = Place(config.workdir, setting="workdir")
        raise sandbox.SandboxError(Problem("science.workdir", said, place, fix, {"runs_dir": None}))
    return choose(config.sandbox), absolute(str(config.python or sys.executable))


def _investigate(session: Session, config: ScienceConfig, level: Level, python: str) -> Investigation:
    budget = BudgetMeter(config.max_calls, config.max_tokens, config.max_cost, config.max_seconds)
    started = time.monotonic()
    with session.asking(config, budget):
        bench = Bench(
            workdir=_workdir(session.folder, config),
            data=tuple(path.absolute() for path in config.data),
            level=level,
            python=python,
            limits=Limits(wall_s=config.experiment_seconds, cpu_s=int(2 * config.experiment_seconds) + 1),
        )
        context = _context(session, config, bench)
        state = _run_graph(session, config, context)
        return _finish(session, config, context, state, time.monotonic() - started)


def _workdir(folder: RunFolder, config: ScienceConfig) -> Path:
    if config.workdir is not None:
        return config.workdir.resolve()
    return folder.path.resolve() / "work"


def _context(session: Session, config: ScienceConfig, bench: Bench) -> ScienceContext:
    folder, models = session.folder, session.models
    log = PassLog(folder.path / _PASSES)
    context = ScienceContext(
        client=models.client("task"),
        task=config.task,
        io=config.io,
        bench=bench,
        log=log,
        budget=session.budget,
        max_iterations=config.agent.search.max_iterations,
        context_tokens=config.context_tokens or models.traits("task").window_tokens,
        max_output_tokens=config.max_output_tokens or MAX_OUTPUT_TOKENS,
        emit=session.emit,
        temperature=config.temperature,
        seed=config.seed,
        more_room="max_output_tokens",
        saved=lambda: _save_transcript(folder, config, log, level=str(bench.level)),
        journal_position=session.synced_position,
    )
    if context.room_tokens < 1000:
        said = (
            f"a window of {counted(context.context_tokens, 'token')} has no room for requests beside answers "
            f"of {counted(context.max_output_tokens, 'token')}; expected at least 1000 tokens more"
        )
        fix, settings = (
            "Raise {context_tokens}, or lower {max_output_tokens}.",
            dict.fromkeys(("context_tokens", "max_output_tokens")),
        )
        given = next((name for name in settings if getattr(config, name) is not None), None)
        raise ConfigError(Problem("science.no-room", said, Place(setting=given), fix, settings))
    return context


def _save_transcript(folder: RunFolder, config: ScienceConfig, log: PassLog, *, level: str) -> None:
    count = 0
    while log.read(count + 1) is not None:
        count += 1
    passes = log.first(count)
    said = messages(config.task, config.io, passes)
    folder.write_text("transcript.json", to_json(said, indent=2) + "\n")
    facts = {"run": folder.run_id, "sandbox": level, "data": ", ".join(path.name for path in config.data)}
    folder.write_text("transcript.md", markdown(config.task, config.io, passes, facts))


def _run_graph(session: Session, config: ScienceConfig, context: ScienceContext) -> ScienceState:
    folder = session.folder
    # LangGraph takes a second to import: not before everything that can be refused has been.
    from langchain_core.runnables import RunnableConfig

    from autoprompt.science.graph import build_graph, recursion_limit

    settings = RunnableConfig(
        configurable={"thread_id": folder.run_id},
        recursion_limit=recursion_limit(config.agent.search.max_iterations),
    )
    with open_checkpointer(folder.checkpoints_path, session.check_files) as checkpointer:
        graph = build_graph(checkpointer)
        saved = graph.get_state(settings) if session.is_resumed else None
        begun = saved is not None and bool(saved.values)
        if saved is not None and begun:
            if saved.values.get("spent"):
                context.budget.restore(saved.values["spent"])
            session.journal.mark_counted(saved.values.get("journal_position", 0))
        _hold_conclusion(context)
        context.emit(_started(folder, config, context, resumed=session.is_resumed).to_dict())
        final: ScienceState = run_graph(graph, saved, None if begun else {"number": 0}, settings, context)
    return final


def _hold_conclusion(context: ScienceContext) -> None:
    """Keep the call for the conclusion back.

    Raises:
        BudgetTooSmallError: If there is none beside it.
    """
    cap = context.budget.max_calls
    if cap is not None and cap < 2:
        said = f"{cap} is too small: one experiment and the conclusion are 2 calls"
        place, settings = Place(setting="max_calls"), {"max_calls": 2}
        raise BudgetTooSmallError(
            Problem("budget.too-few-calls", said, place, "Give {max_calls} or more.", settings)
        )
    try:
        context.budget.hold(1)
    except BudgetExhausted:  # a resumed run that has used all of it: the conclusion itself will tell
        return


def _started(
    folder: RunFolder, config: ScienceConfig, context: ScienceContext, *, resumed: bool
) -> InvestigationStarted:
    caps = ("max_calls", "max_tokens", "max_cost", "max_seconds")
    return InvestigationStarted(
        run_id=folder.run_id,
        run_dir=str(folder.path),
        resumed=resumed,
        model=context.client.name,
        task=config.task,
        sandbox=str(context.bench.level),
        workdir=str(context.bench.workdir),
        max_iterations=config.agent.search.max_iterations,
        budget={name: getattr(config, name) for name in caps},
    )


def _finish(
    session: Session, config: ScienceConfig, context: ScienceContext, state: ScienceState, seconds: float
) -> Investigation:
    folder = session.folder
    passes = tuple(context.log.first(state["number"]))
    spent = context.budget.spent
    conclusion = state.get("conclusion", "")
    warnings = list(map(Problem.from_dict, state.get("warnings", ())))
    if all(record.observation is None for record in passes):
        rests = ", so nothing supports the conclusion" if conclusion else ""
        warnings.append(Problem("science.no-experiment", f"no experiment was run{rests}"))
        context.emit(warning_event(warnings[-1]))
    found = Investigation(
        task=config.task,
        io=config.io,
        messages=tuple(messages(config.task, config.io, passes)),
        passes=passes,
        conclusion=conclusion,
        stopped_early=state.get("stopped_early", False),
        stop_reason=state.get("stop_reason", ""),
        usage=spent.usage,
        model=context.client.name,
        sandbox=str(context.bench.level),
        workdir=str(context.bench.workdir),
        run_id=folder.run_id,
        run_dir=str(folder.path),
        calls=spent.calls,
        seconds=round(seconds, 3),
        warnings=(*warnings, *session.models.warnings(), *context.budget.exceeded()),
    )
    context.saved()
    folder.write_result(found.to_dict())
    context.emit(InvestigationFinished(found.conclusion, spent.to_dict()).to_dict())
    return found


def _load_config(folder: RunFolder) -> ScienceConfig:
    """Return the settings that the run was started with."""
    config = folder.read_settings(ScienceConfig)
    path = folder.path / _TASK
    if not path.exists():  # killed between the two files
        return config
    said = read_json(path)
    return config.model_copy(update={"task": said["task"], "io": said["io"]})


def _write_task(folder: RunFolder, config: ScienceConfig) -> None:
    """Write the words as they were, and what the data was.

    What looks like a key is blacked out in config.yaml.
    """
    sums = {str(path.absolute()): file_sha256(path) for path in config.data}
    kept = {"task": config.task, "io": config.io, "sha256": sums}
    folder.write_text(_TASK, to_json(kept, indent=2) + "\n")


def _check_unchanged(folder: RunFolder) -> None:
    path = folder.path / _TASK
    known = read_json(path)["sha256"] if path.exists() else {}
    for name, sha256 in known.items():
        if not Path(name).is_file() or file_sha256(Path(name)) != sha256:
            said = f"run {folder.run_id} cannot be resumed: this file has changed since the run started"
            fix = "Restore the old file, or start a new run."
            raise StoreError(Problem("science.data-changed", said, Place(Path(name)), fix))
