"""The door to batches: `run_batch`, `resume_batch`, `plan_batch`."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from autoprompt.batch.driver import Driver
from autoprompt.batch.events import BatchFinished, BatchStarted
from autoprompt.batch.executor import Executor, InlineExecutor, LocalExecutor, Report
from autoprompt.batch.folder import BatchFolder
from autoprompt.batch.spec import ExecutorSettings
from autoprompt.batch.table import BatchResult, trials_in_words
from autoprompt.batch.trials import Batch, Trial, load_batch, select
from autoprompt.errors import AutopromptError, ConfigError, Problem, Voice, flag_name, tell
from autoprompt.evaluation.checks import read_memory
from autoprompt.llm.adapter import Models, check_own_models
from autoprompt.llm.client import ROLES
from autoprompt.llm.endpoints import all_of, sends_to
from autoprompt.llm.limits.amounts import Amount
from autoprompt.llm.limits.ledger import Caps, FileLedger
from autoprompt.llm.models import unpriced
from autoprompt.llm.prices import Prices
from autoprompt.optimizer import api
from autoprompt.optimizer.forecast import Estimate, estimate_run
from autoprompt.optimizer.prepare import prepare
from autoprompt.records import Event
from autoprompt.runs import RunFolder, RunStore
from autoprompt.runs.resuming import note_resume
from autoprompt.settings.arguments import check_argument, check_kind, folder_of, listener
from autoprompt.settings.places import naming_places, note_places
from autoprompt.settings.records import Budget
from autoprompt.settings.resolve import CompleteConfig

_LOCAL_JOBS = 2
_MAX_FAULTS = 20

Files = Path | str | Sequence[Path | str]  # one file, or several


@dataclass(frozen=True, slots=True)
class Planned:
    """A trial and what it would use at most. is_done: it has its result already.

    has_room: whether the batch's budget has the least that it takes, besides what was spent so far. What the
        trials before it will have sent by then, the cache decides.
    """

    trial: Trial
    estimate: Estimate
    is_done: bool = False
    has_room: bool = True


def run_batch(
    files: Files | Batch,
    *,
    name: str | None = None,
    runs_dir: str | Path = Path("runs"),
    only: Sequence[str] = (),
    jobs: int | None = None,
    fail_fast: bool = False,
    budget: Budget | None = None,
    models: Models | None = None,
    on_event: Callable[[Event], None] | None = None,
    environ: Mapping[str, str] | None = None,
) -> BatchResult:
    """Run every trial of a batch that has no result yet, as `autoprompt batch` does.

    The batch is kept in `runs/NAME/`. A later call skips finished trials and resumes the others. A trial that
    fails is a row of the result.

    Args:
        files: A batch file, the settings files of several runs, or a `Batch`.
        name: Name of the batch; default: the file's.
        runs_dir: The folder that runs are kept in.
        only: Trials to run; see `trials.select`.
        jobs: Trials at once.
        fail_fast: Whether the first failure ends the batch.
        budget: Limits of all trials together, instead of those in the file. A limit holds for later calls
            and for `resume` too, until it is given again; a warning says so.
        models: Your own models. The trials then run one after the other in this process.
        on_event: Called with each step as a plain dict with the key "event".
        environ: Variables to read settings from; default: those of the process.

    Returns:
        The table of all trials, with those of earlier calls.

    Raises:
        ConfigError: Anything is wrong in any of the files or trials. Nothing was sent.
        StoreError: Another process holds the batch.
        Interrupted: On Ctrl-C.

    Examples:
        >>> from pathlib import Path
        >>> from autoprompt import Models, run_batch
        >>> from autoprompt.llm import ScriptedClient
        >>> text = "defaults: {dataset: items.jsonl, prompt: 'A or B?', max_calls: 600}"
        >>> _ = Path("seeds.yaml").write_text(text + "\\nmatrix: {seed: [0, 1]}")
        >>> result = run_batch("seeds.yaml", models=Models(ScriptedClient(lambda messages: "A")))
        >>> len(result.rows)
        2
    """
    check_own_models(models)
    emit, runs_dir = listener(on_event), folder_of(runs_dir)
    batch = _batch(files, environ, name, budget, runs_dir)
    if fail_fast:
        batch = replace(batch, fail_fast=True)
    if jobs is not None:
        batch = replace(batch, executor=ExecutorSettings(**{**dict(batch.executor), "jobs": jobs}))
    done = _finished_ids(batch, runs_dir)
    chosen = [trial for trial in select(batch.trials, only) if trial.id not in done]
    estimates = _estimates(chosen, models, batch.caps.max_cost)
    folder = BatchFolder.make(runs_dir, batch.name)
    with folder.run.work():
        folder.run.note_models(are_own=models is not None)
        try:
            return _drive(folder, batch, {t.id: _least(e) for t, e in estimates}, models, emit)
        except Exception as error:
            note_resume(error, folder.run)
            raise


def resume_batch(
    run: str | Path,
    *,
    runs_dir: str | Path = Path("runs"),
    on_event: Callable[[Event], None] | None = None,
    models: Models | None = None,
) -> BatchResult:
    """Resume a batch with the settings it began with, even if its files have changed.

    Of a finished batch on a disk that cannot be written it returns the result.

    Raises:
        StoreError: For an unknown run, and for one that is no batch.
        AutopromptError: As `run_batch`.
    """
    folder = BatchFolder.open_own(RunStore(folder_of(runs_dir)).open(run))
    batch = folder.read_batch()
    table = folder.read_table()
    is_finished = len(_finished_ids(batch, folder.path.parent)) == len(batch.trials)
    if table and is_finished and not os.access(folder.path, os.W_OK):
        return BatchResult.from_dict(table)
    return run_batch(batch, runs_dir=folder.path.parent, models=models, on_event=on_event)


def stand(folder: BatchFolder) -> BatchResult:
    """Return the state of a batch that no process is running, from its folders and ledger.

    The table that a killed driver left is of the moment before.
    """
    batch = folder.read_batch()
    ledger = FileLedger(folder.ledger_path, batch.caps)
    try:
        return Driver(folder, batch, ledger, {}, lambda _: None).result()
    finally:
        ledger.close()


def plan_batch(
    files: Files | Batch,
    *,
    name: str | None = None,
    runs_dir: str | Path = Path("runs"),
    only: Sequence[str] = (),
    budget: Budget | None = None,
    environ: Mapping[str, str] | None = None,
) -> tuple[Batch, list[Planned]]:
    """Return the trials and what they would use at most: `--dry-run`.

    Sends and writes nothing; raises the same.
    """
    runs_dir = folder_of(runs_dir)
    batch = _batch(files, environ, name, budget, runs_dir)
    done = _finished_ids(batch, runs_dir)
    estimates = _estimates(select(batch.trials, only), None, batch.caps.max_cost)
    spent = _spent(batch, runs_dir)

    def planned(trial: Trial, estimate: Estimate) -> Planned:
        if trial.id in done:
            return Planned(trial, estimate, is_done=True)
        begun = _at_least(spent.get(trial.id, Amount()), _least(estimate))
        has_room = _fits(batch.caps, (spent | {trial.id: begun}).values())
        return Planned(trial, estimate, has_room=has_room)

    return batch, [planned(trial, estimate) for trial, estimate in estimates]


def _spent(batch: Batch, runs_dir: Path) -> dict[str, Amount]:
    """Return what the batch's books say so far, by the trials' names as they are asked for now."""
    path = runs_dir / batch.name
    if not (path / "run.json").is_file():
        return {}
    folder = BatchFolder.open(RunFolder(path))
    if not folder.ledger_path.is_file():
        return {}
    ledger = FileLedger(folder.ledger_path, batch.caps)
    try:
        spent = ledger.spent()
    finally:
        ledger.close()
    names = {there.id: t.id for t, there in zip(batch.trials, folder.adopt(batch.trials), strict=True)}
    return {names.get(name, name): amount for name, amount in spent.items()}


def _at_least(used: Amount, least: Amount) -> Amount:
    return Amount(
        max(used.calls, least.calls), max(used.tokens, least.tokens), max(used.cost_usd, least.cost_usd)
    )


def _fits(caps: Caps, amounts: Iterable[Amount]) -> bool:
    calls, tokens, costs = zip(*((a.calls, a.tokens, a.cost_usd) for a in amounts), strict=True)
    taken = ((caps.max_calls, sum(calls)), (caps.max_tokens, sum(tokens)), (caps.max_cost, sum(costs)))
    return all(cap is None or used <= cap for cap, used in taken)


def _batch(
    files: Files | Batch,
    environ: Mapping[str, str] | None,
    name: str | None,
    budget: Budget | None,
    runs_dir: Path,
) -> Batch:
    """Return the batch with the given limits. Limits of the earlier call apply if not given again."""
    if budget is not None:
        check_kind(budget, Budget, "budget")
    if isinstance(files, Batch):
        return files if budget is None else files.within(budget)
    check_argument("files", files, (str, Path, Sequence), "a file, or a list of files")
    check_argument("name", name, (str, type(None)), "a text")
    paths = [files] if isinstance(files, str | Path) else files
    environ = os.environ if environ is None else environ
    batch = load_batch([Path(path) for path in paths], environ=environ, name=name)
    batch = batch if budget is None else batch.within(budget)
    path = runs_dir / batch.name
    if not (path / "run.json").is_file():
        return batch
    given = batch.budget.model_dump(exclude_none=True)
    kept = BatchFolder.open_own(RunFolder(path)).read_budget().model_dump(exclude_none=True)
    left = {cap: value for cap, value in kept.items() if cap not in given}
    if not left:
        return batch
    shown = ", ".join(f"{cap}={value:g}" for cap, value in left.items())
    said = (
        f"{shown} of the earlier call still applies. To change it, give {' or '.join(map(flag_name, left))}"
    )
    return replace(batch.within(Budget(**left, **given)), warnings=(*batch.warnings, said))


def _finished_ids(batch: Batch, runs_dir: Path) -> set[str]:
    """Ids of the trials that have a result, under whatever words their folder is called by."""
    path = runs_dir / batch.name
    if not (path / "run.json").is_file():
        return set()
    named = BatchFolder.open(RunFolder(path)).adopt(batch.trials)
    pairs = zip(batch.trials, named, strict=True)
    return {trial.id for trial, there in pairs if (path / there.id / "result.json").is_file()}


def _estimates(
    trials: Sequence[Trial], models: Models | None, max_cost: float | None
) -> list[tuple[Trial, Estimate]]:
    """Check every trial before anything is sent.

    max_cost: the batch's; what nobody knows the price of could not keep it.

    Raises:
        ConfigError: With the place of each trial that is wrong.
    """
    found: list[tuple[Trial, Estimate]] = []
    faults: list[str] = []
    for trial in trials:
        try:
            with naming_places(trial.config):
                estimate = _estimate(trial.config, models)
            if models is None and max_cost is not None and estimate.cost_usd is None:
                raise unpriced(trial.config.model or "a model without a name", " of the batch")
            found.append((trial, estimate))
        except AutopromptError as error:
            faults += (_fault(trial, problem) for problem in error.problems)
    if faults:
        rest = len(faults) - _MAX_FAULTS
        more = [f"... and {trials_in_words(rest)} more"] if rest > 0 else []
        raise ConfigError("\n".join(faults[:_MAX_FAULTS] + more))
    return found


def _estimate(config: CompleteConfig, models: Models | None) -> Estimate:
    """Return what a trial would use; raises what would stop it before anything is sent."""
    if not config.no_memory:  # read only: each trial writes to a copy in the batch's folder
        read_memory(config)
    if models is not None:
        return estimate_run(prepare(config, has_own_models=True), Prices())
    config = config.model_copy(update={"no_memory": True})
    note_places(config, {})  # a warning is of many trials
    return api.estimate(config)


def _fault(trial: Trial, problem: Problem) -> str:
    """Return the line of a trial that is wrong: its place, what distinguishes it, and the problem."""
    place, where = problem.place, trial.where
    if place.file is not None and where.startswith(f"{place.file} line "):
        where = where if place.line is None else f"{place.file} line {place.line}"
        problem = problem.at(replace(place, file=None, line=None))
    return f"{where}: {trial.label}: {tell(problem, Voice.YAML)}"


def _least(estimate: Estimate) -> Amount:
    return Amount(estimate.fewest_calls, estimate.fewest_tokens, estimate.fewest_cost_usd or 0.0)


def _drive(
    folder: BatchFolder,
    batch: Batch,
    least: Mapping[str, Amount],
    models: Models | None,
    emit: Callable[[Event], None],
) -> BatchResult:
    named = folder.adopt(batch.trials)
    least = {there.id: least[t.id] for t, there in zip(batch.trials, named, strict=True) if t.id in least}
    for trial, there in zip(batch.trials, named, strict=True):
        folder.keep_memory(there, trial.config.memory_file)
    strangers = folder.strangers(named)
    warnings = list(batch.warnings)
    if strangers:
        are, stay = ("is", "stays") if len(strangers) == 1 else ("are", "stay")
        warnings.append(
            f"{trials_in_words(len(strangers))} in {folder.path} {are} not in this batch and {stay} there: "
            f"{', '.join(strangers[:3])}{', ...' if len(strangers) > 3 else ''}"
        )
    batch = replace(batch, trials=tuple(named), warnings=tuple(warnings))
    folder.write_batch(batch)
    ledger = FileLedger(folder.ledger_path, batch.caps)
    try:
        driver = Driver(folder, batch, ledger, least, emit)
        ledger.begin(driver.waiting)
        if models is None and driver.has_work:
            to_run = (trial.config for trial in batch.trials if trial.id in least)
            if (event := all_of(sends_to(config, ROLES) for config in to_run)) is not None:
                emit(event.to_dict())
        emit(_started(folder, batch, driver, len(least)).to_dict())
        if not driver.has_work:
            driver.save()
            return driver.result()
        with _executor(batch, ledger, models, driver.take) as executor:
            result = driver.run(executor)
    finally:
        ledger.close()
    emit(BatchFinished(result.to_dict()).to_dict())
    return result


def _started(folder: BatchFolder, batch: Batch, driver: Driver, to_run: int) -> BatchStarted:
    rows = driver.result().rows
    return BatchStarted(
        name=batch.name,
        run_dir=str(folder.path),
        trials=len(rows),
        finished=sum(row.status == "finished" for row in rows),
        to_run=to_run,
        executor=batch.executor.kind,
        caps={
            "max_calls": batch.caps.max_calls,
            "max_tokens": batch.caps.max_tokens,
            "max_cost": batch.caps.max_cost,
            "max_seconds": batch.max_seconds,
        },
        warnings=batch.warnings,
    )


@contextmanager
def _executor(
    batch: Batch,
    ledger: FileLedger,
    models: Models | None,
    on_report: Callable[[Report], None],
) -> Iterator[Executor]:
    if models is not None:
        yield InlineExecutor(ledger, models=models, on_report=on_report)
        return
    settings = batch.executor
    if settings.kind == "local":
        yield LocalExecutor(settings.jobs or _LOCAL_JOBS, ledger)
        return
    from autoprompt.batch.cluster import RayExecutor

    executor = RayExecutor(settings, ledger.path.parent, ledger, os.environ)
    try:
        yield executor
    finally:
        executor.stop()
