"""One optimization at work: its models, budget and graph, put together."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from autoprompt.dataset.checks import input_id
from autoprompt.dataset.labels import LABEL_METRICS
from autoprompt.errors import (
    BudgetExhausted,
    BudgetTooSmallError,
    InputError,
    Place,
    Problem,
    StoreError,
    command,
)
from autoprompt.llm.client import ROLES
from autoprompt.llm.limits.amounts import Spent
from autoprompt.llm.limits.budget import BudgetMeter
from autoprompt.llm.limits.ledger import Account
from autoprompt.llm.models import RoleModels
from autoprompt.llm.prices import Traffic
from autoprompt.measure.task import answering_of, locked_of, model_of
from autoprompt.memory import ExperienceFile, Lesson, tell
from autoprompt.metrics import row_weights, run_metric
from autoprompt.optimizer.agents.scientific import make_analyst
from autoprompt.optimizer.forecast import judge_tokens
from autoprompt.optimizer.prepare import Preparation
from autoprompt.optimizer.result import with_origin
from autoprompt.optimizer.resume import (
    Reopened,
    check_metric_unchanged,
    dataset_facts,
    drop_candidates_after,
    keep_inputs,
    restore,
)
from autoprompt.optimizer.search.pool import Pool
from autoprompt.records import warning_event
from autoprompt.runs import RunFolder, RunStore
from autoprompt.runs.events import (
    LimitsChanged,
    RunContinued,
    RunFinished,
    RunStarted,
    TestOpened,
    read_event,
)
from autoprompt.runs.folder import ORIGINAL_PROMPT, batch_of
from autoprompt.runs.listing import record_opening
from autoprompt.runs.result import Splits as SplitFacts
from autoprompt.runs.session import Session, open_checkpointer, run_graph
from autoprompt.settings.records import JUDGED
from autoprompt.text.names import counted

if TYPE_CHECKING:
    from autoprompt.optimizer.context import AutoPromptState, SearchContext
    from autoprompt.optimizer.result import RunResult


def search(
    session: Session,
    preparation: Preparation,
    *,
    account: Account | None = None,
    limits: Mapping[str, Any] = MappingProxyType({}),
) -> RunResult:
    """Run the graph, from its last checkpoint if there is one, to a written result.

    Args:
        session: The run at work.
        preparation: What it searches with.
        account: Of a trial, whose calls count for its batch too.
        limits: New ones of a resumed run; they are written to its settings if nothing is refused.

    Raises:
        StoreError: A resumed run's workflow, metric or models are not those that it began with, or a finished
            run has no budget left.
    """
    _keep_original(session, preparation)
    config = preparation.config
    budget = BudgetMeter(
        preparation.max_calls,
        config.max_tokens,
        config.max_cost,
        config.max_seconds,
        caps_repeats=config.max_calls is not None,
        account=account,
    )
    with session.asking(config, budget, roles=ROLES):
        return _run_graph(session, preparation, limits)


def _keep_original(session: Session, preparation: Preparation) -> None:
    """Keep what the run begins with, to the letter, in files of its own."""
    folder = session.folder
    preparation.task.check_unchanged(folder)
    if not session.is_resumed:  # before anything is asked: what a program was tried for is not tried again
        preparation.task.write_original(folder, preparation.rows)
    if not (path := folder.path / ORIGINAL_PROMPT).exists():
        folder.write_text(path.name, preparation.text)
    check_metric_unchanged(folder, preparation)


def _run_graph(session: Session, preparation: Preparation, limits: Mapping[str, Any]) -> RunResult:
    # LangGraph takes a second to import: not before everything that can be refused has been.
    from langchain_core.runnables import RunnableConfig

    from autoprompt.optimizer.graph import build_graph, first_state, recursion_limit

    folder, resumed = session.folder, session.is_resumed
    settings = RunnableConfig(configurable={"thread_id": folder.run_id})
    with open_checkpointer(folder.checkpoints_path, session.check_files) as checkpointer:
        graph = build_graph(checkpointer)
        saved = graph.get_state(settings) if resumed else None
        known = saved.values if saved is not None else {}
        reopened: Reopened | None = None
        if resumed and folder.is_finished:
            reopened = Reopened.find(graph, settings, preparation.max_iterations)
            known = reopened.values
        if known:  # a run that was continued has more rounds
            preparation = replace(preparation, max_iterations=known["max_iterations"])
        settings["recursion_limit"] = recursion_limit(preparation.max_iterations)
        context = _make_context(session, preparation)
        start: AutoPromptState | None = None
        if known:
            is_finished = reopened is not None
            restore(folder, preparation, context, known, session.journal, is_finished=is_finished)
        else:
            drop_candidates_after(folder, 0)
            if resumed:
                session.budget.restore(Spent(seconds=session.journal.seconds))
            session.budget.charge_earlier(preparation.spent)
            start = first_state(context, dataset_facts(preparation))
            if start["has_memory"]:
                _warn_of_known_test(session, preparation, context)
            try:
                context.hold_final(context.pool.original.candidate)
            except BudgetExhausted as error:
                fix = "Raise the limit, or use fewer rows with {max_val} and {max_test}."
                named = {"max_val": None, "max_test": None}
                raise BudgetTooSmallError(
                    Problem("budget.too-small", str(error), Place(setting=error.cap), fix, named)
                ) from None
        if limits:
            folder.change_settings(limits)
            session.emit(LimitsChanged(dict(limits)).to_dict())
        if reopened is not None:
            saved = reopened.go_back(graph, settings, context)
            _note_continued(session)
        session.journal.charge_dropped(session.budget)
        # Not before a resumed run's data are known to be those that it began with.
        keep_inputs(folder, preparation)
        if preparation.config.metric in LABEL_METRICS:
            folder.write_labels(preparation.labels)
        preparation.task.write_original(folder, preparation.rows)
        session.emit(_started(session, preparation, start).to_dict())
        final: AutoPromptState = run_graph(graph, saved, start, settings, context)
    return _finish(session, preparation, context, final)


def _note_continued(session: Session) -> None:
    """Set the result of a finished run aside. What it said of the sealed test stays known: say so."""
    folder = session.folder
    opened = bool(_opening(folder))
    folder.set_result_aside()
    session.emit(RunContinued().to_dict())
    if opened:
        said = "this run has opened its sealed test before, so the new score may be too good"
        fix = f"Score the winner on new rows: `{command('eval', from_=folder.reference, dataset='FILE')}`."
        session.emit(warning_event(Problem("run.test-opened", said, fix=fix), about="test"))


def _warn_of_known_test(session: Session, preparation: Preparation, context: SearchContext) -> None:
    """Lessons may have been measured on what is now the sealed test: by a run without one, or other parts.

    As far as the folders of the runs that measured them are still there. One that cannot be read, or an
    experience file that broke just now, is no reason to lose this run.
    """
    test = {row.id for row in preparation.splits.test}
    used: set[str] = set()
    try:
        for run_id in context.experiences.run_ids(context.settings.task) if context.experiences else ():
            for runs_dir in _beside(session.folder):
                used |= test & RunFolder(runs_dir / run_id).rows_searched()
    except (InputError, StoreError, OSError):
        pass
    if used:
        said = (
            f"this run uses lessons from earlier runs that saw {len(used)} of the "
            f"{counted(len(test), 'test row')}, so the test score may be too high"
        )
        fix, settings = "Use {no_memory} to ignore those lessons.", {"no_memory": True}
        seen = Problem("memory.test-rows-seen", said, fix=fix, settings=settings)
        session.emit(warning_event(seen, about="memory"))


def _beside(folder: RunFolder) -> list[Path]:
    """Return where the runs lie that a run's lessons may be of: of a trial's, also beside its batch."""
    batch = batch_of(folder)
    return [folder.path.parent, *([batch.path.parent] if batch is not None else [])]


def _make_context(session: Session, preparation: Preparation) -> SearchContext:
    from autoprompt.optimizer.agents.describer import DescribingAgent
    from autoprompt.optimizer.agents.writer import RewriteAgent
    from autoprompt.optimizer.context import SearchContext, SearchSettings

    folder, models = session.folder, session.models
    config, labels, splits = preparation.config, preparation.labels, preparation.splits
    metric = run_metric(config, labels, models.client, preparation.rows)
    program, locked = preparation.program(models.client("task"), metric, folder), locked_of(preparation.task)
    writer = models.client("optimizer")
    return SearchContext(
        program=program,
        splits=splits,
        plan=preparation.plan,
        settings=SearchSettings(
            run_id=folder.run_id,
            task=config.task or preparation.text,
            max_iterations=preparation.max_iterations,
            depth=preparation.depth,
            seed=config.seed,
            max_prompt_tokens=config.max_prompt_tokens,
            max_demos=config.max_demos,
            pick=config.pick,
            locked=tuple(p for p in config.locked if p not in locked),
            locked_components=locked,
            answers_rows=answering_of(preparation.task) is not None,
            constrain=models.constrain("task"),
            components={component.name: component for component in preparation.task.components},
            labels=labels,
            can_reason=preparation.can_reason,
            input_field=config.input_field,
            target_field=config.target_field,
            judge_tokens=judge_tokens(preparation),
            traffic=Traffic.read(config.traffic),
            measured_by=_measured_by(preparation, models),
        ),
        pool=Pool(labels, splits.groups, row_weights(metric, splits.train, splits.val)),
        budget=session.budget,
        metric=metric,
        learned=models.client("task").traits,
        concurrency=models.concurrency(),
        price=models.price("task"),
        analysis=make_analyst(
            config,
            writer,
            folder=folder.path / "analysis",
            budget=session.budget,
            emit=session.emit,
            context_tokens=models.traits("optimizer").window_tokens,
            is_read=preparation.depth.rewrites,
        ),
        rewriting=RewriteAgent(writer, window_tokens=models.traits("optimizer").window_tokens),
        describing=DescribingAgent(writer),
        files=folder,
        emit=session.emit,
        experiences=None if config.no_memory else ExperienceFile(config.memory_file),
        journal_position=session.synced_position,
        open_test=lambda: _count_opening(session, preparation),
        check_writable=preparation.task.check_writable,
    )


def _measured_by(preparation: Preparation, models: RoleModels) -> str:
    """Another model, metric or validation set measures anew; another seed or cap does not."""
    config = preparation.config
    judge = models.client("judge").name if config.metric == JUDGED else None
    options = dict(sorted(config.metric_options.items()))
    return repr(
        (
            models.client("task").name,
            config.temperature,
            config.metric,
            options,
            judge,
            preparation.splits.sha256["val"],
        )
    )


def _count_opening(session: Session, preparation: Preparation) -> int:
    """Return how many runs have opened rows of this test, this one included. A resumed run notes it once.

    A run that continued after its end opens it again.
    """
    folder, splits = session.folder, preparation.splits
    if known := _opening(folder):
        return known.runs
    again = sum(event.get("event") == RunContinued.kind for event in folder.read_events())
    opening = record_opening(
        RunStore(folder.path.parent).openings_path,
        [input_id(row.content) for row in splits.test],
        run_id=f"{folder.run_id}{f' ({again + 1})' if again else ''}",
    )
    session.emit(TestOpened(opening.runs, opening.rows_before).to_dict())
    return opening.runs


def _opening(folder: RunFolder) -> TestOpened | None:
    """Return what was noted when the sealed test was opened; None if it was not since the run continued."""
    found = None
    for event in folder.read_events():
        if event.get("event") in (TestOpened.kind, RunContinued.kind):
            noted = read_event(event)
            found = noted if isinstance(noted, TestOpened) else None
    return found


def _started(session: Session, preparation: Preparation, start: AutoPromptState | None) -> RunStarted:
    folder, models, config = session.folder, session.models, preparation.config
    read = None
    if start is not None:
        text = tell([Lesson.from_dict(lesson) for lesson in start["memory_experiences"]])
        read = tuple(line for line in text.splitlines() if line.strip())
    return RunStarted(
        run_id=folder.run_id,
        run_dir=str(folder.path),
        resumed=session.is_resumed,
        model=model_of(preparation.task, models.client("task")),
        optimizer_model=models.client("optimizer").name,
        concurrency=models.concurrency(),
        sizes=preparation.splits.sizes,
        max_iterations=preparation.max_iterations,
        plan={
            "blocks": list(preparation.plan.blocks),
            "fresh": len(preparation.plan.fresh),
            "candidates": preparation.depth.candidates,
            "writers": preparation.depth.writers,
            "analyst_calls": preparation.analyst_calls,
            "patience": preparation.depth.patience,
            "train_batch": preparation.plan.train_batch,
            "calls_per_row": preparation.plan.calls_per_row,
        },
        budget={
            "max_calls": preparation.max_calls,
            "max_tokens": config.max_tokens,
            "max_cost": config.max_cost,
            "max_seconds": config.max_seconds,
        },
        warnings=tuple(warning.to_dict() for warning in preparation.splits.warnings),
        lessons_read=read,
    )


def _finish(
    session: Session, preparation: Preparation, context: SearchContext, final: AutoPromptState
) -> RunResult:
    from autoprompt.measure.program import component_diffs, render_candidate
    from autoprompt.optimizer.ending.verdict import RunFacts, make_result

    folder, models = session.folder, session.models
    splits, grades, opening = preparation.splits, context.grades, _opening(folder)
    warnings = [
        *splits.warnings,
        *session.late_warnings(),
        *models.warnings(),
        grades.warning,
        *session.budget.exceeded(),
    ]
    facts = RunFacts(
        run_id=folder.run_id,
        run_dir=str(folder.path),
        metric=preparation.config.metric,
        model=model_of(preparation.task, models.client("task")),
        optimizer_model=models.client("optimizer").name,
        splits=SplitFacts(
            sizes=splits.sizes,
            groups=splits.group_counts,
            split_seed=splits.split_seed,
            sha256=splits.sha256,
            test_opened=final.get("test", {}).get("opened", 0),
            test_rows_opened_before=None if opening is None else opening.rows_before,
        ),
        lost_answers=models.lost_answers(),
        models={answered.role: answered.to_dict() for answered in models.answered()},
        concurrency=models.settled_on(),
        warnings=list(dict.fromkeys(filter(None, warnings))),
    )
    result = make_result(final, context, facts, session.budget.spent)
    folder.write_text(folder.best_prompt_path.name, render_candidate(result.best) + "\n")
    if len(result.best.components) > 1:
        folder.write_text("best_prompt.diff", component_diffs(result.original, result.best) + "\n")
    preparation.task.write_best(folder, result.best)  # it can: `check_writable`
    folder.write_result(result.to_dict())
    session.emit(RunFinished(result.to_dict()).to_dict())
    return with_origin(result, folder)
