"""One run at work: its folder, models, budget and graph, put together and taken down."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from autoprompt.config import ModelSettings, RunConfig
from autoprompt.errors import (
    BudgetExhausted,
    BudgetTooSmallError,
    ConfigError,
    Interrupted,
    ModelError,
    StoreError,
)
from autoprompt.llm import Budget, Journal, Models, ResponseCache, wrap
from autoprompt.llm.client import CallRole, Client
from autoprompt.memory import ExperienceFile
from autoprompt.metrics import Metric, get_metric
from autoprompt.preparation import Preparation
from autoprompt.program import PromptProgram
from autoprompt.search.pool import Pool
from autoprompt.store import RunFolder, RunStore
from autoprompt.types import Candidate

if TYPE_CHECKING:
    from autoprompt.optimizer.context import SearchContext
    from autoprompt.optimizer.state import AutoPromptState
    from autoprompt.optimizer.verdict import RunResult

Event = dict[str, Any]
OnEvent = Callable[[Event], None]

_log = logging.getLogger(__name__)

# Events that come with every row: for a live view, not for the log.
_FLEETING = ("rows_evaluated", "weights_progress")


@dataclass(frozen=True, slots=True)
class Clients:
    """One's own models instead of those that the settings name, e.g. scripted ones in tests.

    optimizer: analyst and writer; default: `task`. judge: default: `optimizer`.
    """

    task: Client
    optimizer: Client | None = None
    judge: Client | None = None

    def of(self, role: CallRole) -> Client:
        if role == "task":
            return self.task
        optimizer = self.optimizer or self.task
        return optimizer if role == "optimizer" else self.judge or optimizer


class RoleModels:
    """The clients of a run by role, made or given; with budget, journal and cache around them."""

    def __init__(
        self,
        settings: ModelSettings,
        clients: Clients | None,
        *,
        budget: Budget,
        journal: Journal | None,
        cache: ResponseCache | None,
        on_progress: Callable[[int, int, str], None] | None = None,
    ) -> None:
        self._clients = clients
        self._settings = settings
        self._models = Models(settings, budget=budget, journal=journal, cache=cache, on_progress=on_progress)
        self._wrapped: dict[int, Client] = {}
        self._budget, self._journal, self._cache = budget, journal, cache

    def client(self, role: CallRole) -> Client:
        if self._clients is None:
            return self._models.client(role)
        own = self._clients.of(role)
        if id(own) not in self._wrapped:
            concurrency = self.concurrency()
            self._wrapped[id(own)] = wrap(
                own, budget=self._budget, concurrency=concurrency, journal=self._journal, cache=self._cache
            )
        return self._wrapped[id(own)]

    def concurrency(self) -> int:
        return self._models.concurrency() if self._clients is None else self._settings.concurrency or 8

    def check_cost_cap(self, max_cost: float | None) -> None:
        """Refuse a cap on cost that could never fire because a price is unknown."""
        if max_cost is None or self._clients is not None:
            return
        for role in ("task", "optimizer"):
            if self._models.price(role) is None:
                writer = self._settings.optimizer_model if role == "optimizer" else None
                name = writer or self._settings.model or f"the {role} model"
                raise ConfigError(
                    f"max_cost is set, but the price of {name} is not known, so "
                    "the cap could not fire. Give --price-input and --price-output (USD per million tokens), "
                    "or cap calls or tokens with --max-calls or --max-tokens."
                )

    def metric(self, config: RunConfig, labels: tuple[str, ...]) -> Metric:
        judge = self.client("judge") if config.metric == "llm_judge" else None
        return get_metric(config.metric, config.metric_options, judge=judge, labels=labels)

    def close(self) -> None:
        self._models.close()
        for client in self._wrapped.values():
            client.close()


@contextmanager
def open_models(
    config: RunConfig, clients: Clients | None, budget: Budget, journal: Journal | None, emit: OnEvent
) -> Iterator[RoleModels]:
    """The models of a run; closed, with the cache, at the end of the block."""

    def on_progress(done: int, total: int, what: str) -> None:
        emit({"event": "weights_progress", "done_bytes": done, "total_bytes": total, "what": what})

    with ExitStack() as stack:
        cache = None
        if not config.no_cache:
            cache = ResponseCache(config.cache_dir)
            stack.callback(cache.close)
        models = RoleModels(
            config, clients, budget=budget, journal=journal, cache=cache, on_progress=on_progress
        )
        stack.callback(models.close)
        yield models


def run_in_folder(
    folder: RunFolder,
    preparation: Preparation,
    clients: Clients | None,
    on_event: OnEvent | None,
    *,
    resumed: bool,
) -> RunResult:
    """Run the graph in a locked folder, from its last checkpoint if there is one, to a written result."""

    def emit(event: Event) -> None:
        if event["event"] not in _FLEETING:
            folder.append_event(event)
        if on_event is not None:
            on_event(event)

    config = preparation.config
    budget = Budget(
        preparation.max_calls,
        config.max_tokens,
        config.max_cost,
        config.max_seconds,
        caps_repeats=config.max_calls is not None,
    )
    try:
        with (
            Journal(folder.journal_path) as journal,
            open_models(config, clients, budget, journal, emit) as models,
        ):
            models.check_cost_cap(config.max_cost)
            return _run_graph(folder, preparation, models, budget, journal, emit, resumed=resumed)
    except KeyboardInterrupt:
        raise Interrupted(
            f"interrupted; the state is saved. Go on with: autoprompt resume {folder.run_id}"
        ) from None
    except ModelError:
        message = f"stopped; what was answered is kept. Go on with: autoprompt resume {folder.run_id}"
        emit({"event": "warning", "message": message})
        raise


def _run_graph(
    folder: RunFolder,
    preparation: Preparation,
    models: RoleModels,
    budget: Budget,
    journal: Journal,
    emit: OnEvent,
    *,
    resumed: bool,
) -> RunResult:
    # LangGraph takes a second to import: not before everything that can be refused has been.
    from langchain_core.runnables import RunnableConfig

    from autoprompt.optimizer.graph import build_graph, recursion_limit
    from autoprompt.optimizer.nodes import first_state
    from autoprompt.store.checkpoints import open_checkpointer

    context = _make_context(folder, preparation, models, budget, journal, emit)
    settings = RunnableConfig(
        configurable={"thread_id": folder.run_id},
        recursion_limit=recursion_limit(preparation.max_iterations),
    )
    with open_checkpointer(folder.checkpoints_path) as checkpointer:
        graph = build_graph(checkpointer)
        saved = graph.get_state(settings) if resumed else None
        start: AutoPromptState | None = None
        if saved is not None and saved.values:
            _restore(folder, preparation, context, saved.values, budget, journal)
        else:
            start = first_state(context, _dataset(preparation))
            try:
                context.hold_final(context.pool.original.candidate)
            except BudgetExhausted as error:
                raise BudgetTooSmallError(
                    f"{error}. Give more, or fewer rows with --max-val and --max-test."
                ) from None
        emit(_started(folder, preparation, models, resumed=resumed))
        if saved is not None and saved.values and not saved.next:
            values: Any = saved.values
        else:
            values = graph.invoke(start, settings, context=context, durability="sync")
        final: AutoPromptState = values
    return _finish(folder, preparation, models, context, final, budget, emit)


def _make_context(
    folder: RunFolder,
    preparation: Preparation,
    models: RoleModels,
    budget: Budget,
    journal: Journal,
    emit: OnEvent,
) -> SearchContext:
    from autoprompt.optimizer.agents import AnalysisAgent, MemoryAgent, PredictionAgent, RewriteAgent
    from autoprompt.optimizer.context import SearchContext, SearchSettings

    config, labels = preparation.config, preparation.labels
    metric = models.metric(config, labels)
    program = PromptProgram(
        models.client("task"),
        preparation.prompt,
        labels=labels,
        options=preparation.task_options,
        read=metric.read,
        input_field=config.input_field,
        target_field=config.target_field,
    )
    writer = models.client("optimizer")
    return SearchContext(
        program=program,
        splits=preparation.splits,
        plan=preparation.plan,
        settings=SearchSettings(
            run_id=folder.run_id,
            task=config.task or preparation.prompt,
            max_iterations=preparation.max_iterations,
            depth=preparation.depth,
            seed=config.seed,
            max_prompt_tokens=config.max_prompt_tokens,
            max_demos=config.max_demos,
            locked=config.locked,
            labels=labels,
            can_demo=preparation.can_demo,
            input_field=config.input_field,
        ),
        pool=Pool(),
        budget=budget,
        prediction=PredictionAgent(program, metric, concurrency=models.concurrency()),
        analysis=AnalysisAgent(writer),
        rewriting=RewriteAgent(writer),
        memory=MemoryAgent(),
        files=folder,
        emit=emit,
        experiences=None if config.no_memory else ExperienceFile(config.memory),
        journal_position=lambda: journal.position,
        open_test=lambda: _count_opening(folder, preparation),
    )


def _dataset(preparation: Preparation) -> dict[str, Any]:
    splits = preparation.splits
    return {
        "path": ", ".join(str(path) for path in splits.paths.values()),
        "sha256": splits.dataset_sha256,
        "split_seed": splits.split_seed,
        "sizes": splits.sizes,
    }


def _restore(
    folder: RunFolder,
    preparation: Preparation,
    context: SearchContext,
    state: Mapping[str, Any],
    budget: Budget,
    journal: Journal,
) -> None:
    """Pool, budget and journal as they were at the checkpoint."""
    known, found = state["dataset"]["sha256"], preparation.splits.dataset_sha256
    if known != found:
        raise StoreError(
            f"run {folder.run_id} cannot go on: {state['dataset']['path']} has changed since it began "
            f"(sha256 was {known}, is {found}). Put the old file back, or start a new run."
        )
    records = [r for r in folder.read_candidate_records() if r["step"] <= state["pool_step"]]
    context.pool = Pool.from_records(records)
    if state["original"] not in context.pool:
        original = context.add(Candidate(components=context.program.components))
        original.status = "accepted"
    if state["spent"]:
        budget.restore(state["spent"])
    journal.mark_counted(state["journal_position"])
    with suppress(BudgetExhausted):  # as in `predict`, which then ended the search; or the end is behind us
        ids = [state["incumbent"], *state["pending"]]
        context.hold_final(*(context.pool[i].candidate for i in ids))


def _count_opening(folder: RunFolder, preparation: Preparation) -> int:
    return RunStore(folder.path.parent).record_opening(preparation.splits.sha256["test"], folder.run_id)


def _started(folder: RunFolder, preparation: Preparation, models: RoleModels, *, resumed: bool) -> Event:
    config = preparation.config
    return {
        "event": "run_started",
        "run_id": folder.run_id,
        "run_dir": str(folder.path),
        "resumed": resumed,
        "model": models.client("task").name,
        "optimizer_model": models.client("optimizer").name,
        "sizes": preparation.splits.sizes,
        "max_iterations": preparation.max_iterations,
        "budget": {
            "max_calls": preparation.max_calls,
            "max_tokens": config.max_tokens,
            "max_cost": config.max_cost,
            "max_seconds": config.max_seconds,
        },
        "warnings": list(preparation.splits.warnings),
    }


def _finish(
    folder: RunFolder,
    preparation: Preparation,
    models: RoleModels,
    context: SearchContext,
    final: AutoPromptState,
    budget: Budget,
    emit: OnEvent,
) -> RunResult:
    from autoprompt.optimizer.verdict import RunFacts, make_result
    from autoprompt.program import render_text

    splits = preparation.splits
    facts = RunFacts(
        run_id=folder.run_id,
        run_dir=str(folder.path),
        metric=preparation.config.metric,
        model=models.client("task").name,
        optimizer_model=models.client("optimizer").name,
        split_sizes=splits.sizes,
        split_seed=splits.split_seed,
        sha256=splits.sha256,
        test_opened=final.get("test", {}).get("opened", 0),
        warnings=splits.warnings,
    )
    result = make_result(final, context, facts, budget.spent)
    folder.write_text("best_prompt.txt", render_text(result.best.prompt, result.best.demos) + "\n")
    folder.write_result(result.to_dict())
    emit({"event": "run_finished", "result": result.to_dict()})
    return result


def read_result(folder: RunFolder) -> RunResult | None:
    """The result of a finished run, as it was written; None for an unfinished one."""
    from autoprompt.optimizer.verdict import RunResult

    data = folder.read_result()
    if data is None:
        return None
    candidates = folder.read_candidates()
    best, original = candidates[data["best"]["id"]], next(iter(candidates.values()))
    return RunResult(data, _candidate(best), _candidate(original))


def _candidate(record: Mapping[str, Any]) -> Candidate:
    return next(iter(Pool.from_records([record]).entries)).candidate


def load_config(folder: RunFolder) -> RunConfig:
    """The settings that a run was started with."""
    try:
        config = RunConfig.model_validate(folder.read_config())
    except ValidationError as error:
        fault = error.errors()[0]
        where = ".".join(map(str, fault["loc"]))
        raise StoreError(
            f"{folder.config_path}: {where}: {fault['msg']}. It was written by another version of autoprompt, "
            "or edited: mend it there, or start a new run."
        ) from error
    # The text as it was: in config.yaml, what looks like a key is blacked out.
    path = folder.path / "original_prompt.txt"
    if not path.exists():  # killed between the two files
        return config
    return config.model_copy(update={"prompt": path.read_text(encoding="utf-8")})


def store_name(config: RunConfig) -> str:
    path: Path = config.dataset or config.train or Path("run")
    return path.stem
