"""The public functions that run something: `optimize`, `resume`, `estimate`, `check` and `investigate`.

`evaluate` is in `evaluation/scoring.py`. The command line calls the same functions.
"""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal, overload

from autoprompt.dataset.python_rows import Rows, with_rows
from autoprompt.errors import (
    ConfigError,
    Place,
    Problem,
    StoreError,
)
from autoprompt.evaluation.checks import check_memory, given_rows
from autoprompt.evaluation.task import given_program
from autoprompt.llm.adapter import Models, check_own_models
from autoprompt.llm.models import check_can_write, check_models, prices_of
from autoprompt.llm.prices import Prices
from autoprompt.optimizer.forecast import Estimate, check_spending, estimate_run
from autoprompt.optimizer.prepare import prepare
from autoprompt.optimizer.result import read_run_result
from autoprompt.optimizer.resume import (
    check_can_continue,
    find_data,
    has_limits,
    limits_of,
    load_config,
    with_same_splits,
)
from autoprompt.optimizer.session import search
from autoprompt.records import Candidate, OnEvent
from autoprompt.runs import RunFolder, RunStore
from autoprompt.runs.folder import batch_of
from autoprompt.runs.resuming import resume_command
from autoprompt.runs.session import Session
from autoprompt.settings.arguments import check_kind, folder_of, listener
from autoprompt.settings.places import all_placed, naming_places
from autoprompt.settings.records import Budget, CheckConfig, RunConfig, ScienceConfig
from autoprompt.settings.resolve import as_complete, completed

if TYPE_CHECKING:
    from autoprompt.evaluation.estimate import EvaluationEstimate
    from autoprompt.evaluation.exported import Exported
    from autoprompt.gate import CheckReport
    from autoprompt.optimizer.result import RunResult
    from autoprompt.science import Investigation


def optimize(
    config: RunConfig,
    *,
    rows: Rows | None = None,
    program: object | None = None,
    models: Models | None = None,
    on_event: OnEvent | None = None,
) -> RunResult:
    """Search for a better prompt and test it on sealed rows, as `autoprompt run` does.

    A limit that is reached ends the search, not the run. The run is kept in `runs/<id>/`; `resume` takes up
    one that was killed. An error before the first answer leaves no folder.

    Args:
        config: The settings. What they leave out comes from the dataset's sidecar.
        rows: The dataset, if `config` names no file: dicts, a DataFrame, a Hugging Face Dataset, or one of
            these for each part (`{"train": ..., "val": ..., "test": ...}`, a DatasetDict). They are kept
            beside the runs for `resume`. Errors and warnings name a row by its place: `rows[5]`.
        program: Your own program instead of a prompt: a function (sync or async), a LangChain Runnable, a
            compiled LangGraph graph, or its address `module:object`. Its prompts are found in the requests
            that it makes, and nothing in it has to change.
        models: Your own models, instead of those that `config` names.
        on_event: Called with each step as a plain dict with the key "event". All but the progress of single
            rows are in `events.jsonl` too.

    Returns:
        The best prompt, the original and the comparison of both. If no gain was confirmed, the best prompt is
        the original.

    Raises:
        InputError: Rows, settings, prompt, limits or the experience file are wrong. Nothing was sent.
        ModelError: The endpoint fails.
        Interrupted: On Ctrl-C.

    Examples:
        >>> from autoprompt import Models, RunConfig, optimize
        >>> from autoprompt.llm import ScriptedClient
        >>> rows = [{"input": f"item {n}", "target": "A" if n % 2 else "B"} for n in range(60)]
        >>> models = Models(ScriptedClient(lambda messages: "A"))
        >>> result = optimize(RunConfig(prompt="A or B?", max_calls=600), rows=rows, models=models)
        >>> result.verdict
        'not_confirmed'
    """
    check_own_models(models)  # before the run has a folder
    emit = listener(on_event)
    with ExitStack() as stack:
        config = stack.enter_context(given_program(config, program))
        with with_rows(config, given_rows(config, rows, is_split=True), is_kept=True) as config:
            config = stack.enter_context(completed(config))
            if models is None:  # before a program is tried, which sends its requests
                check_can_write(config)
            preparation = prepare(config, has_own_models=models is not None, emit=emit)
            check_memory(preparation.config)
            check_spending(preparation, prices_of(preparation.config, None) if models is None else Prices())
        settings = preparation.config.model_dump(exclude_none=True) | dict(preparation.splits.paths)
        name = config.name or (config.dataset or config.train or Path("run")).stem
        with Session.begin(
            settings, models, on_event, kind="optimize", name=name, runs_dir=config.runs_dir
        ) as session:
            return search(session, preparation)


def resume(
    run: str | Path,
    *,
    runs_dir: str | Path = Path("runs"),
    budget: Budget | None = None,
    program: object | None = None,
    program_changed_ok: bool = False,
    models: Models | None = None,
    on_event: OnEvent | None = None,
) -> RunResult | Investigation:
    """Resume an interrupted run, or return the result of a finished one.

    A resumed run ends as the uninterrupted one would have, with the same cache and memory. No answered
    request is sent again. With a `budget`, an optimization gets new limits, and a finished one continues its
    search where it ended, on the same rows. Its sealed test is then opened once more, with a warning: a
    second look makes the score less reliable.

    Args:
        run: Its id, the beginning of its id, its folder, or "last". A data file that has moved is looked for
            relative to the run's folder and next to the runs folder.
        runs_dir: The folder that ids are looked up in.
        budget: New limits, for the whole run: `Budget(max_calls=2000)`.
        program: The program of the run, if it was given as an object.
        program_changed_ok: Resume although the program's source or the host that it asks has changed.
        models: The models that the run began with, if they were given in Python.
        on_event: As in `optimize`.

    Returns:
        A `RunResult` for a run of `optimize`, an `Investigation` for one of `investigate`.

    Raises:
        StoreError: The run is unknown, held by another process, of another kind or a trial of a batch; or its
            data, workflow or metric have changed or are missing.

    Examples:
        >>> from autoprompt import resume
        >>> result = resume("last")
    """
    if budget is not None:
        check_kind(budget, Budget, "budget")
    check_own_models(models)
    on_event = listener(on_event)
    folder = RunStore(folder_of(runs_dir)).open(run)
    if folder.read_info().get("kind") == "optimize":
        return resume_optimization(
            folder, models, on_event, program, budget=budget, program_changed_ok=program_changed_ok
        )
    if budget is not None:
        said, fix = "an investigation keeps its limits", "Leave `budget` out."
        raise ConfigError(Problem("run.keeps-limits", said, Place(setting="budget"), fix))
    if program is not None:
        said, fix = "an investigation has no program", "Leave `program` out."
        raise ConfigError(Problem("program.none", said, Place(setting="program"), fix))
    from autoprompt.science.run import resume as resume_investigation

    return resume_investigation(folder, models=models, on_event=on_event)


def resume_optimization(
    folder: RunFolder,
    models: Models | None,
    on_event: OnEvent | None,
    program: object | None = None,
    *,
    budget: Budget | None = None,
    program_changed_ok: bool = False,
) -> RunResult:
    """Resume a run of `optimize`; see `resume`."""
    finished = read_run_result(folder)  # before the lock, which cannot be had on a disk that is read-only
    if folder.is_finished and budget is None and finished is not None:
        return finished
    if (batch := batch_of(folder)) is not None:
        # Alone it would spend beside the caps and the rate of its batch, and no table would know.
        said = f"run {folder.run_id} is a trial of the batch {batch.run_id}, and resumes with it"
        fix = f"Resume it with `{resume_command(folder)}`, or move its folder out of the batch folder first."
        raise StoreError(Problem("run.trial", said, fix=fix))
    limits = {} if budget is None else limits_of(budget)
    if folder.is_finished and finished is not None:
        if has_limits(folder, limits):  # the same command twice
            return finished
        check_can_continue(folder, finished)
    with naming_places(*filter(None, [budget])), Session.resume(folder, models, on_event) as session:
        config = with_same_splits(folder, load_config(folder), limits)
        config = as_complete(find_data(folder, config))
        if program_changed_ok:
            config = config.model_copy(update={"program_changed_ok": True})
        with given_program(config, program) as config:
            preparation = prepare(config, has_own_models=models is not None, folder=folder)
            return search(session, preparation, limits=limits)


@overload
def estimate(
    config: RunConfig,
    *,
    of: Literal["optimize"] = "optimize",
    rows: Rows | None = None,
    program: object | None = None,
    models: Models | None = None,
) -> Estimate: ...


@overload
def estimate(
    config: RunConfig,
    *,
    of: Literal["evaluate"],
    rows: Rows | None = None,
    candidate: Candidate | Exported | str | None = None,
    against: Candidate | Exported | str | None = None,
    program: object | None = None,
    models: Models | None = None,
) -> EvaluationEstimate: ...


def estimate(
    config: RunConfig,
    *,
    of: Literal["optimize", "evaluate"] = "optimize",
    rows: Rows | None = None,
    candidate: Candidate | Exported | str | None = None,
    against: Candidate | Exported | str | None = None,
    program: object | None = None,
    models: Models | None = None,
) -> Estimate | EvaluationEstimate:
    """Return what `optimize` or `evaluate` would use at most.

    Nothing is sent, except for the rows that a program is tried on.

    Args:
        config: As in `optimize` or `evaluate`.
        of: The function to estimate.
        rows: As in that function.
        candidate: As in `evaluate`.
        against: As in `evaluate`.
        program: As in `optimize`. A few rows are run, to see how many calls a row takes.
        models: As in `optimize`; none is asked. Their cost is known if the settings have prices.

    Raises:
        AutopromptError: What the function would raise before its first request. A limit that is too small
            for `evaluate` is a warning here.

    Examples:
        >>> from autoprompt import RunConfig, estimate
        >>> rows = [{"input": f"item {n}", "target": "A" if n % 2 else "B"} for n in range(60)]
        >>> estimate(RunConfig(prompt="A or B?", max_calls=600), rows=rows).calls
        600
    """
    if of == "evaluate":
        from autoprompt.evaluation.estimate import estimate_evaluation

        with given_program(config, program) as config:
            return estimate_evaluation(config, rows=rows, candidate=candidate, against=against, models=models)
    if of != "optimize":
        raise _no_estimate(f"{of!r} found, expected 'optimize' or 'evaluate'")
    if candidate is not None or against is not None:
        raise _no_estimate("candidate and against belong to of='evaluate'")
    check_own_models(models)
    with (
        given_program(config, program) as config,
        with_rows(config, given_rows(config, rows, is_split=True)) as config,
        completed(config) as config,
    ):
        preparation = prepare(config, has_own_models=models is not None)
        check_memory(preparation.config)
        warnings = check_models(preparation.config) if models is None else []
        prices = prices_of(preparation.config, models)
        check_spending(preparation, prices if models is None else Prices())
        found = estimate_run(preparation, prices)
    warnings += found.warnings  # what stops a run first
    return replace(found, warnings=all_placed(warnings, preparation.config))


def _no_estimate(said: str) -> ConfigError:
    return ConfigError(Problem("settings.unknown-estimate", said, Place(setting="of")))


def check(
    config: RunConfig,
    limits: CheckConfig,
    *,
    rows: Rows | None = None,
    is_update: bool = False,
    program: object | None = None,
    models: Models | None = None,
    on_event: OnEvent | None = None,
) -> CheckReport:
    """Compare a prompt with its baseline, as `autoprompt check` does. Nothing is written.

    Args:
        config: The prompt and the settings.
        limits: The baseline at least, and what counts as a regression.
        rows: As in `evaluate`.
        is_update: Whether the report is for a new baseline. The old one may then be missing, broken or of
            another number of repeats. Write `report.measurement.as_baseline()` with
            `autoprompt.gate.write_baseline`.
        program: As in `optimize`.
        models: As in `optimize`.
        on_event: As in `optimize`.

    Returns:
        Whether the check passed, why not, and the rows that changed.

    Raises:
        InputError: As in `optimize`, and for a baseline or a recording that cannot be used.
        ModelError: As in `optimize`, and if too few rows were answered to decide.

    Examples:
        >>> from autoprompt import CheckConfig, Models, RunConfig, check
        >>> from autoprompt.gate import write_baseline
        >>> from autoprompt.llm import ScriptedClient
        >>> models = Models(ScriptedClient(lambda messages: "A"))
        >>> config = RunConfig(prompt="A or B?", dataset="items.jsonl")
        >>> limits = CheckConfig(baseline="baseline.json")
        >>> first = check(config, limits, is_update=True, models=models)
        >>> _ = write_baseline(limits.baseline, first.measurement.as_baseline())
        >>> check(config, limits, models=models).is_passed
        True
    """
    from autoprompt.gate import run_check

    check_kind(limits, CheckConfig, "limits")
    check_own_models(models)
    emit = listener(on_event)
    with (
        given_program(config, program) as config,
        with_rows(config, given_rows(config, rows)) as config,
        completed(config) as config,
        naming_places(limits),
    ):
        return run_check(config, limits, is_update=is_update, models=models, emit=emit)


def investigate(
    config: ScienceConfig, *, models: Models | None = None, on_event: OnEvent | None = None
) -> Investigation:
    """Answer a question by experiments, as `autoprompt science` does.

    A limit that is reached ends the experiments, and the model is asked for its conclusion. The run is kept
    in `runs/<id>/`, pass by pass; `resume` takes up one that was killed.

    Args:
        config: The task and the settings.
        models: Your own model as `Models(model)`, instead of the one that `config` names.
        on_event: As in `optimize`.

    Returns:
        The conclusion, and every pass that led to it.

    Raises:
        SandboxError, ConfigError, BudgetTooSmallError: Before anything is sent.
        ModelError: The endpoint fails.
        Interrupted: On Ctrl-C.

    Examples:
        >>> from autoprompt import ScienceConfig, investigate
        >>> found = investigate(ScienceConfig(task="How many rows?", data=("tickets.csv",)))  # doctest: +SKIP
    """
    from autoprompt.science.run import start

    return start(config, models=models, on_event=on_event)
