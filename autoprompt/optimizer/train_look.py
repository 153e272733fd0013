"""Where the best prompt errs on train: the rows that an analyst and the writers are shown."""

from __future__ import annotations

from autoprompt.measure.problems import cut_warning, metric_warning, step_warning, unread_warning
from autoprompt.measure.rows import EmptyAnswers, OnRow
from autoprompt.optimizer.agents.prediction import FEWEST_TO_FAIL
from autoprompt.optimizer.context import SearchContext
from autoprompt.optimizer.search.plan import interleave
from autoprompt.optimizer.search.pool import Entry
from autoprompt.records import Evaluation, Example, warning_event

MOST_BATCHES = 4  # of train that a round looks through for an error before it calls the prompt perfect


def look_for_errors(context: SearchContext, incumbent: Entry, iteration: int) -> Evaluation:
    """The best so far on a batch of train that the last rounds have not shown; more where none is wrong."""
    shown = {demo.example_id for demo in incumbent.candidate.demos}  # it would only repeat their answers
    train = interleave([row for row in context.splits.train if row.id not in shown])
    size = context.plan.train_batch
    rows: list[Example] = []
    evaluation = Evaluation(incumbent.candidate.id, ())
    for number in range(MOST_BATCHES):
        start = ((iteration - 1) + number * context.settings.max_iterations) * size
        batch = [train[(start + i) % len(train)] for i in range(min(size, len(train)))] if train else []
        batch = [row for row in batch if row not in rows] or [row for row in train if row not in rows][:size]
        if not batch:
            break
        rows += batch
        with context.budget.block(context.plan.calls_per_row * len(batch)):
            on_row = context.row_counter("train rows of the best", len(batch))
            if number == 0 and iteration == 1:
                found = _first_look(context, incumbent, batch, on_row)
            else:
                found = context.prediction.predict(incumbent.candidate, batch, on_row=on_row)
        evaluation = Evaluation(evaluation.candidate_id, evaluation.rows + found.rows)
        if _has_errors(evaluation):
            break
    if not _has_errors(evaluation):
        # Nothing wrong on train: whether it is perfect is for the rows that decide to say.
        context.evaluate([incumbent], context.plan.race, "race rows of the best")
    return evaluation


def _has_errors(evaluation: Evaluation) -> bool:
    return any(row.is_wrong for row in evaluation.rows)


def _first_look(context: SearchContext, original: Entry, batch: list[Example], on_row: OnRow) -> Evaluation:
    """The original's answers, the first of the run, and what to warn of in them.

    Raises EmptyAnswersError where they are all empty.
    """
    answers = EmptyAnswers()
    found = context.prediction.predict(original.candidate, batch, on_row=answers.counting(on_row))
    answers.check(FEWEST_TO_FAIL)
    settings = context.settings
    unread = unread_warning(found.rows, settings.labels if settings.answers_rows else ())
    failed = step_warning([row.prediction for row in found.rows])
    doubt = metric_warning(context.prediction.metric, found.rows)
    for warning in (unread or cut_warning(found.rows), failed, doubt):
        if warning:
            context.emit(warning_event(warning, about="answers"))
    return found
