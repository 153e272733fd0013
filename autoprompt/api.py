"""The library's front door: `optimize`, `resume`, `evaluate`, `check`, `estimate`. The CLI runs nothing else.

For example:

    from autoprompt import RunConfig, optimize

    prompt = "Is this clickbait? Answer 1 or 0."
    result = optimize(
        RunConfig(dataset="clickbait.jsonl", prompt=prompt, input_field="headline", target_field="label")
    )
    print(result.message)
    print(result.best_prompt)
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from autoprompt.clients import Clients, check_models, open_models, price_given
from autoprompt.config import CheckSettings, RunConfig, ScienceConfig
from autoprompt.errors import ConfigError, EmptyAnswersError, InputError, ModelError, StoreError, UsageError
from autoprompt.evaluation import EmptyAnswers, row_counter
from autoprompt.evaluation import evaluate as evaluate_rows
from autoprompt.forecast import Estimate, Prices, check_spending, estimate_run
from autoprompt.judge import Grades
from autoprompt.llm import Budget, CallRole, Models
from autoprompt.llm.endpoints import LOCAL, choose_model
from autoprompt.llm.prices import Price
from autoprompt.metrics import JUDGED, Metric
from autoprompt.past_run import has_answers, load_config, read_candidate, read_result
from autoprompt.preparation import calls_per_row, check_memory, check_rows, make_program, prepare
from autoprompt.session import OnEvent, run_in_folder
from autoprompt.settings import as_complete, complete, starting_prompt, with_known_labels
from autoprompt.stats import Interval, aggregate_interval, mean_interval
from autoprompt.store import RunFolder, RunStore
from autoprompt.store.given import keep_rows
from autoprompt.types import Candidate, Evaluation, Usage

if TYPE_CHECKING:
    from autoprompt.optimizer.ending.verdict import RunResult
    from autoprompt.regression import CheckReport
    from autoprompt.science import Investigation


Rows = Iterable[Mapping[str, Any]]


def optimize(
    config: RunConfig,
    *,
    rows: Rows | None = None,
    clients: Clients | None = None,
    on_event: OnEvent | None = None,
) -> RunResult:
    """Search for a better prompt and prove it: the whole of `autoprompt run`.

    What `config` does not say comes from the dataset's sidecar; its `prompt` may be `@FILE`.
    rows: the dataset itself, as dicts, where `config` names no file; they are kept beside the runs, so that
    `resume` has them.
    clients: one's own models instead of those that `config` names. on_event: called with each step as a plain
    dict with the key "event"; the same, but for the progress of single rows, is in `events.jsonl`.
    Writes `runs/<id>/`; a run that is killed goes on with `resume`. A cap that is reached ends the search,
    not the run; an error before the first answer leaves no folder. Raises DatasetError, ConfigError,
    PromptError, BudgetTooSmallError, and InputError for the experience file before anything is sent,
    ModelError when the endpoint fails, Interrupted on Ctrl-C.
    """
    config = _with_rows(config, rows)
    preparation = prepare(config)
    check_memory(preparation.config)
    if clients is None:
        check_models(preparation.config)
    check_spending(preparation, _prices(config) if clients is None else Prices())
    settings = preparation.config.model_dump(exclude_none=True) | dict(preparation.splits.paths)
    store = RunStore(config.runs_dir)
    folder = store.create(settings, kind="optimize", name=_store_name(config))
    try:
        with folder.lock():
            _name_twin(store, folder, on_event)
            return run_in_folder(folder, preparation, clients, on_event, resumed=False)
    except (ModelError, InputError, UsageError) as error:
        # Empty answers are this run's own: a resume would have the same again.
        if isinstance(error, EmptyAnswersError) or not has_answers(folder):
            store.remove(folder.run_id)
            if on_event is not None:
                said = f"no answer came, so run {folder.run_id} is not kept"
                on_event({"event": "warning", "message": said})
        raise


def _store_name(config: RunConfig) -> str:
    path: Path = config.dataset or config.train or Path("run")
    return path.stem


def _with_rows(config: RunConfig, rows: Rows | None) -> RunConfig:
    """The settings with the rows as their dataset."""
    if rows is None:
        return config
    if named := [name for name in ("dataset", "train", "val", "test") if getattr(config, name) is not None]:
        raise ConfigError(f"rows are given, and {named[0]} names a file: give one of them.")
    return config.model_copy(update={"dataset": keep_rows(rows, config.runs_dir)})


def _name_twin(store: RunStore, folder: RunFolder, on_event: OnEvent | None) -> None:
    """Says which run with the same settings was cut off, if one was."""
    twin = store.interrupted_twin(folder)
    if twin is None:
        return
    again = RunFolder(twin.path).reference
    said = (
        f"run {twin.run_id}, with the same settings, was interrupted after {twin.calls} calls. To go on with "
        f"it instead of this one, if its data has not changed: autoprompt resume {again}"
    )
    event = {"event": "warning", "message": said}
    folder.append_event(event)
    if on_event is not None:
        on_event(event)


def resume(
    run: str | Path,
    *,
    runs_dir: Path = Path("runs"),
    clients: Clients | None = None,
    on_event: OnEvent | None = None,
) -> RunResult:
    """Go on with an interrupted run; of a finished one, its result.

    Ends as the uninterrupted run would have, from the same cache and memory. No answered request is sent
    again. Raises StoreError for an unknown run, one that another process holds, and one whose dataset has
    changed.
    """
    folder = RunStore(runs_dir).open(run)
    if (kind := folder.read_info().get("kind")) != "optimize":
        raise StoreError(
            f"run {folder.run_id} is no optimization ({kind}): autoprompt resume {folder.reference}"
        )
    with folder.lock():
        finished = read_result(folder)
        if finished is not None:
            return finished
        preparation = prepare(as_complete(load_config(folder)))
        return run_in_folder(folder, preparation, clients, on_event, resumed=True)


def best_of(run: str | Path, *, runs_dir: Path = Path("runs")) -> Candidate:
    """The best prompt of a finished run, with its demonstrations. Raises StoreError for an unfinished one."""
    folder = RunStore(runs_dir).open(run)
    result = read_result(folder)
    if result is None:
        raise StoreError(
            f"run {folder.run_id} has no result yet. Go on with: autoprompt resume {folder.reference}"
        )
    return result.best


def candidate_of(run: str | Path, candidate_id: str, *, runs_dir: Path = Path("runs")) -> Candidate:
    """Any candidate of a run, finished or not, by its id or the beginning of it.

    Raises StoreError where none or several fit. What only the race has measured is no proof of a gain: see
    `evaluate` and `check` for that.
    """
    return read_candidate(RunStore(runs_dir).open(run).find_candidate(candidate_id))


def estimate(config: RunConfig, *, rows: Rows | None = None) -> Estimate:
    """What a run would use at most: `--dry-run`. Refuses what a run would before anything is sent."""
    preparation = prepare(_with_rows(config, rows))
    check_memory(preparation.config)
    warnings = check_models(preparation.config)
    prices = _prices(preparation.config)
    check_spending(preparation, prices)
    found = estimate_run(preparation, prices)
    return replace(found, warnings=(*found.warnings, *warnings))


def _prices(config: RunConfig) -> Prices:
    """Of the models that are named or priced; which one an endpoint has else, only it could say."""
    models = Models(config, budget=Budget())
    task = choose_model(config, "task")

    def price(role: CallRole) -> Price | None:
        choice = choose_model(config, role)
        if choice.model is None and not choice.is_local:
            return price_given(config) if choice == task else None
        return models.price(role)

    if config.metric != JUDGED:
        return Prices(price("task"), price("optimizer"))
    judge = choose_model(config, "judge")
    return Prices(price("task"), price("optimizer"), price("judge"), judge.model or judge.base_url or LOCAL)


@dataclass(frozen=True, slots=True)
class EvaluationReport:
    """A prompt's score on a whole dataset. score and interval (95%) in [0, 1].

    warnings: sentences about rows that were dropped and placeholders that are none,
    and about answers that a judge gave no grade.
    """

    evaluation: Evaluation
    score: float
    interval: Interval
    usage: Usage
    calls: int
    seconds: float
    metric: str
    model: str
    warnings: tuple[str, ...] = ()

    @property
    def n(self) -> int:
        return len(self.evaluation.rows)

    @property
    def unparsed(self) -> int:
        return sum(row.is_unparsed for row in self.evaluation.rows)

    @property
    def unscored(self) -> int:
        """Rows that a judge gave no grade; they score 0."""
        return sum(row.is_unscored for row in self.evaluation.rows)

    @property
    def failed(self) -> int:
        return sum(row.error is not None for row in self.evaluation.rows)

    @property
    def cost_usd(self) -> float | None:
        return self.usage.cost_usd

    def to_dict(self) -> dict[str, Any]:
        """The summary and all rows, plain data."""
        return {
            "metric": self.metric,
            "model": self.model,
            "score": self.score,
            "ci95": list(self.interval),
            "n": self.n,
            "unparsed": self.unparsed,
            "unscored": self.unscored,
            "failed": self.failed,
            "calls": self.calls,
            "prompt_tokens": self.usage.prompt_tokens,
            "completion_tokens": self.usage.completion_tokens,
            "cost_usd": self.cost_usd,
            "seconds": round(self.seconds, 3),
            "warnings": list(self.warnings),
            "rows": [asdict(row) for row in self.evaluation.rows],
        }


def evaluate(
    config: RunConfig,
    *,
    rows: Rows | None = None,
    candidate: Candidate | None = None,
    known_labels: tuple[str, ...] | None = None,
    labels_of: str = "",
    clients: Clients | None = None,
    on_event: OnEvent | None = None,
) -> EvaluationReport:
    """Score a prompt on every row of `config.dataset`: the whole of `autoprompt eval`. Nothing is optimized.

    rows: as in `optimize`.
    candidate: a prompt with demonstrations, e.g. `result.best`, instead of `config.prompt`.
    known_labels: those of the run that the candidate is of, for where the user names none; () for free
    answers. labels_of: the run, as errors name it.
    The rows are checked as for a run, and each input is scored once.
    Raises what `optimize` raises, and BudgetExhausted where a cap ends it before the last row.
    """
    config, labels_of = with_known_labels(complete(_with_rows(config, rows)), known_labels, labels_of)
    if config.dataset is None:
        raise ConfigError("eval needs a dataset: give --dataset FILE.")
    prompt = ""
    if config.workflow is None:
        prompt = candidate.prompt if candidate is not None else starting_prompt(config)
    checked = check_rows(config, config.dataset, prompt, labels_of=labels_of)
    examples, labels, warnings = checked.examples, checked.labels, checked.warnings
    budget = Budget(config.max_calls, config.max_tokens, config.max_cost, config.max_seconds)
    emit = on_event or (lambda _: None)
    for warning in warnings:
        emit({"event": "warning", "message": warning})
    started = time.monotonic()
    with open_models(config, clients, budget, None, emit) as models:
        metric = models.metric(config, labels)
        client = models.client("task")
        program = make_program(config, prompt, checked.workflow, labels, client, metric)
        the_candidate = candidate or Candidate(components=checked.components)
        concurrency = models.concurrency()
        grades = Grades.of(metric)
        answers = EmptyAnswers()
        on_row = answers.counting(grades.counting(row_counter(emit, budget, "rows", len(examples))))
        with budget.block(len(examples) * calls_per_row(config, checked.workflow)):
            evaluation = evaluate_rows(
                program, the_candidate, examples, metric, concurrency=concurrency, on_row=on_row
            )
    answers.check()
    grades.check()
    if grades.warning:
        warnings = (*warnings, grades.warning)
        emit({"event": "warning", "message": grades.warning})
    spent = budget.spent
    score, interval = _score(evaluation, metric)
    return EvaluationReport(
        evaluation=evaluation,
        score=score,
        interval=interval,
        usage=spent.usage,
        calls=spent.calls,
        seconds=time.monotonic() - started,
        metric=config.metric,
        model=client.name,
        warnings=warnings,
    )


def _score(evaluation: Evaluation, metric: Metric) -> tuple[float, Interval]:
    """The metric over all rows, with its 95% interval."""
    if not metric.is_aggregate:
        return evaluation.score, mean_interval([row.score for row in evaluation.rows])
    targets = [row.ground_truth for row in evaluation.rows]
    answers = ["" if row.is_unparsed else row.prediction for row in evaluation.rows]
    interval = aggregate_interval(answers, targets, metric.aggregate)
    return metric.aggregate(answers, targets), interval


def check(
    config: RunConfig,
    limits: CheckSettings,
    *,
    is_update: bool = False,
    clients: Clients | None = None,
    on_event: OnEvent | None = None,
) -> CheckReport:
    """Compare a prompt with its baseline: the whole of `autoprompt check`, but for what it shows and writes.

    limits: `baseline` at least. is_update: the report is for a new baseline; the old one may be missing,
    broken or of other repeats, and the caller writes `report.measurement.as_baseline()` with
    `autoprompt.regression.write_baseline`.
    Raises what `optimize` raises, ConfigError for a baseline or a recording that will not do, and
    EndpointError where too little was answered to decide.
    """
    from autoprompt.regression import run_check

    return run_check(config, limits, is_update=is_update, clients=clients, emit=on_event or (lambda _: None))


def investigate(
    config: ScienceConfig, *, clients: Clients | None = None, on_event: OnEvent | None = None
) -> Investigation:
    """Answer a question by experiments: the whole of `autoprompt science`.

    clients: one's own model as `Clients(model)` instead of the one that `config` names. on_event: called with
    each step as a plain dict with the key "event". Writes `runs/<id>/`, after each pass; a run that is killed
    goes on with `resume_investigation`. A cap that is reached ends the experiments, and the conclusion is
    asked for. Raises SandboxError, ConfigError and BudgetTooSmallError before anything is sent, ModelError
    when the endpoint fails, Interrupted on Ctrl-C.
    """
    from autoprompt.science.run import start

    return start(config, clients=clients, on_event=on_event)


def resume_investigation(
    run: str | Path,
    *,
    runs_dir: Path = Path("runs"),
    clients: Clients | None = None,
    on_event: OnEvent | None = None,
) -> Investigation:
    """Go on with an interrupted investigation; of a finished one, its result.

    No finished pass is paid or run again. Raises StoreError for an unknown run, one that another process
    holds, one of another kind, and one whose data has changed.
    """
    from autoprompt.science.run import resume as resume_science

    return resume_science(run, runs_dir=runs_dir, clients=clients, on_event=on_event)
