"""The library's front door: `optimize`, `resume`, `estimate`, `check`, `investigate`.

`evaluate` is in `scoring.py`. The command line runs nothing else. For example:

    from autoprompt import RunConfig, optimize

    prompt = "Is this clickbait? Answer 1 or 0."
    result = optimize(
        RunConfig(dataset="clickbait.jsonl", prompt=prompt, input_field="headline", target_field="label")
    )
    print(result.message)
    print(result.best_prompt)
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from autoprompt.dataset.python_rows import Rows, with_rows
from autoprompt.errors import EmptyAnswersError, InputError, ModelError, StoreError, UsageError
from autoprompt.evaluation.checks import check_memory, given_rows
from autoprompt.llm.adapter import Models, check_own_models
from autoprompt.llm.models import check_models, prices_of
from autoprompt.llm.prices import Prices
from autoprompt.optimizer.forecast import Estimate, check_spending, estimate_run
from autoprompt.optimizer.prepare import prepare
from autoprompt.optimizer.resume import (
    find_data,
    has_answers,
    load_config,
    origin_of,
    read_candidate,
    read_result,
)
from autoprompt.optimizer.session import run_in_folder
from autoprompt.records import Candidate, OnEvent, warning_event
from autoprompt.runs import RunFolder, RunStore
from autoprompt.runs.interrupted import batch_of, resume_command
from autoprompt.settings.records import CheckConfig, RunConfig, ScienceConfig
from autoprompt.settings.resolve import as_complete
from autoprompt.text.names import counted

if TYPE_CHECKING:
    from autoprompt.gate import CheckReport
    from autoprompt.optimizer.ending.result import RunResult
    from autoprompt.science import Investigation


def optimize(
    config: RunConfig,
    *,
    rows: Rows | None = None,
    models: Models | None = None,
    on_event: OnEvent | None = None,
) -> RunResult:
    """Search for a better prompt and prove it: the whole of `autoprompt run`.

    What `config` does not say comes from the dataset's sidecar; its `prompt` may be `@FILE`.
    rows: the dataset itself, as dicts, where `config` names no file; they are kept beside the runs, so that
    `resume` has them. Errors and warnings name one by its place, `rows[5]`.
    models: one's own models instead of those that `config` names. on_event: called with each step as a plain
    dict with the key "event"; the same, but for the progress of single rows, is in `events.jsonl`.
    Writes `runs/<id>/`; a run that is killed goes on with `resume`. A cap that is reached ends the search,
    not the run; an error before the first answer leaves no folder. Raises DatasetError, ConfigError,
    PromptError, BudgetTooSmallError, and InputError for the experience file before anything is sent,
    ModelError when the endpoint fails, Interrupted on Ctrl-C.
    """
    check_own_models(models)  # before the run has a folder
    with with_rows(config, given_rows(config, rows), is_kept=True) as config:
        preparation = prepare(config, has_own_models=models is not None)
        check_memory(preparation.config)
        if models is None:
            check_models(preparation.config)
        check_spending(preparation, prices_of(preparation.config, None) if models is None else Prices())
    settings = preparation.config.model_dump(exclude_none=True) | dict(preparation.splits.paths)
    store = RunStore(config.runs_dir)
    folder = store.create(settings, kind="optimize", name=_store_name(config))
    try:
        with folder.work():
            _name_twin(store, folder, on_event)
            return run_in_folder(folder, preparation, models, on_event, resumed=False)
    except (ModelError, InputError, UsageError) as error:
        if not folder.info_path.exists():  # somebody moved it away
            raise
        # With empty answers alone there is nothing to go on with.
        if isinstance(error, EmptyAnswersError) or not has_answers(folder):
            store.remove(folder.run_id)
            if on_event is not None:
                said = f"no answer came, so run {folder.run_id} is not kept"
                on_event(warning_event(said))
        raise


def _store_name(config: RunConfig) -> str:
    path: Path = config.dataset or config.train or Path("run")
    return path.stem


def _name_twin(store: RunStore, folder: RunFolder, on_event: OnEvent | None) -> None:
    """Says which run with the same settings was cut off, if one was."""
    twin = store.interrupted_twin(folder)
    if twin is None:
        return
    again = RunFolder(twin.path).reference
    said = (
        f"run {twin.run_id}, with the same settings, was interrupted after "
        f"{counted(twin.calls or 0, 'call')}. To go on with it instead of this one, if its data has not "
        f"changed: autoprompt resume {again}"
    )
    event = warning_event(said)
    folder.append_event(event)
    if on_event is not None:
        on_event(event)


def resume(
    run: str | Path,
    *,
    runs_dir: Path = Path("runs"),
    models: Models | None = None,
    on_event: OnEvent | None = None,
) -> RunResult:
    """Go on with an interrupted run; of a finished one, its result.

    Ends as the uninterrupted run would have, from the same cache and memory. No answered request is sent
    again. A data file that is not where it was is looked for where it lay as seen from the run, and beside
    the runs. Raises StoreError for an unknown run, one that another process holds, one whose dataset,
    workflow or metric has changed, or whose dataset is nowhere, and a trial, which goes on with its batch.
    """
    folder = RunStore(runs_dir).open(run)
    if (kind := folder.read_info().get("kind")) != "optimize":
        raise StoreError(
            f"run {folder.run_id} is no optimization ({kind}): autoprompt resume {folder.reference}"
        )
    finished = read_result(folder)  # before the lock, which cannot be had on a disk that is read-only
    if finished is not None:
        return finished
    with folder.work():
        _check_is_no_trial(folder)
        folder.check_is_own()
        _tell_changes(folder, on_event)
        config = as_complete(find_data(folder, load_config(folder)))
        preparation = prepare(config, has_own_models=models is not None)
        return run_in_folder(folder, preparation, models, on_event, resumed=True)


def _tell_changes(folder: RunFolder, on_event: OnEvent | None) -> None:
    """Record settings that were edited since the run began, and say which. Raises StoreError for others."""
    changed = folder.settings_changed()
    if not changed:
        return
    said = ", ".join(f"{name} was {old}, is {new}" for name, (old, new) in changed.items())
    event = warning_event(f"config.yaml was edited: {said}", changed=changed)
    folder.append_event(event)
    if on_event is not None:
        on_event(event)


def _check_is_no_trial(folder: RunFolder) -> None:
    """Alone it would spend beside the caps and the rate of its batch, and no table would know."""
    if (batch := batch_of(folder)) is not None:
        raise StoreError(
            f"run {folder.run_id} is a trial of the batch {batch.run_id}, and goes on with it: "
            f"{resume_command(folder)}. To go on with it alone, move its folder out of the batch's first."
        )


def best_of(run: str | Path, *, runs_dir: Path = Path("runs")) -> Candidate:
    """The best prompt of a finished run, with its demonstrations.

    Raises StoreError for an unfinished one, and for what is no optimization.
    """
    folder = RunStore(runs_dir).open(run)
    folder.check_has_prompts()
    result = read_result(folder)
    if result is None:
        raise StoreError(f"run {folder.run_id} has no result yet. Go on with: {resume_command(folder)}")
    return result.best


def candidate_of(run: str | Path, candidate_id: str, *, runs_dir: Path = Path("runs")) -> Candidate:
    """Any candidate of a run, finished or not, by its id or the beginning of it.

    Raises StoreError where none or several fit. What only the race has measured is no proof of a gain: see
    `evaluate` and `check` for that.
    """
    folder = RunStore(runs_dir).open(run)
    return replace(read_candidate(folder.find_candidate(candidate_id)), origin=origin_of(folder))


def estimate(config: RunConfig, *, rows: Rows | None = None, models: Models | None = None) -> Estimate:
    """Return what a run would use at most, and refuse what it would refuse before anything is sent.

    models: as in `optimize`; none is asked. Their cost is known where the settings have prices.
    """
    check_own_models(models)
    with with_rows(config, given_rows(config, rows)) as config:
        preparation = prepare(config, has_own_models=models is not None)
        check_memory(preparation.config)
        warnings = check_models(preparation.config) if models is None else []
        prices = prices_of(preparation.config, models)
        check_spending(preparation, prices if models is None else Prices())
        found = estimate_run(preparation, prices)
    return replace(found, warnings=(*found.warnings, *warnings))


def check(
    config: RunConfig,
    limits: CheckConfig,
    *,
    is_update: bool = False,
    models: Models | None = None,
    on_event: OnEvent | None = None,
) -> CheckReport:
    """Compare a prompt with its baseline: the whole of `autoprompt check`, but for what it shows and writes.

    limits: `baseline` at least. is_update: the report is for a new baseline; the old one may be missing,
    broken or of other repeats, and the caller writes `report.measurement.as_baseline()` with
    `autoprompt.gate.write_baseline`.
    Raises what `optimize` raises, ConfigError for a baseline or a recording that will not do, and
    EndpointError where too little was answered to decide.
    """
    from autoprompt.gate import run_check

    return run_check(config, limits, is_update=is_update, models=models, emit=on_event or (lambda _: None))


def investigate(
    config: ScienceConfig, *, models: Models | None = None, on_event: OnEvent | None = None
) -> Investigation:
    """Answer a question by experiments: the whole of `autoprompt science`.

    models: one's own model as `Models(model)` instead of the one that `config` names. on_event: called with
    each step as a plain dict with the key "event". Writes `runs/<id>/`, after each pass; a run that is killed
    goes on with `resume_investigation`. A cap that is reached ends the experiments, and the conclusion is
    asked for. Raises SandboxError, ConfigError and BudgetTooSmallError before anything is sent, ModelError
    when the endpoint fails, Interrupted on Ctrl-C.
    """
    from autoprompt.science.run import start

    return start(config, models=models, on_event=on_event)


def resume_investigation(
    run: str | Path,
    *,
    runs_dir: Path = Path("runs"),
    models: Models | None = None,
    on_event: OnEvent | None = None,
) -> Investigation:
    """Go on with an interrupted investigation; of a finished one, its result.

    No finished pass is paid or run again. Raises StoreError for an unknown run, one that another process
    holds, one of another kind, and one whose data has changed.
    """
    from autoprompt.science.run import resume as resume_science

    return resume_science(run, runs_dir=runs_dir, models=models, on_event=on_event)
