"""Candidates x rows -> scored rows. The worker threads of a plain optimization live here and nowhere else."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Any, TypeVar

from autoprompt.errors import EmptyAnswersError, EndpointError, RequestRefusedError
from autoprompt.llm.budget import Budget
from autoprompt.metrics import Metric
from autoprompt.program import Program
from autoprompt.types import REFUSED, Candidate, EvaluatedRow, Evaluation, Example, OnEvent, Prediction, Score

_FEWEST_EMPTY = 10  # answers; where half of all are empty, so many in a row are one chance in a thousand
MOST_LOST = 0.1  # of the answers: with more of them missing, a score says little
GRACE_S = 5.0

Job = tuple[Candidate, Sequence[Example]]
Row = tuple[int, int]  # place of the job, place of the row in it
Done = tuple[Row, EvaluatedRow]
OnRow = Callable[[EvaluatedRow], None]
Task = TypeVar("Task")
Outcome = TypeVar("Outcome")


def row_counter(emit: OnEvent, budget: Budget, what: str, total: int) -> OnRow:
    """Reports each row that is done, with what has been spent so far, as a `rows_evaluated` event."""
    done = 0

    def on_row(_: EvaluatedRow) -> None:
        nonlocal done
        done += 1
        event = {"event": "rows_evaluated", "what": what, "done": done, "total": total}
        emit({**event, "spent": budget.spent.to_dict()})

    return on_row


@dataclass
class EmptyAnswers:
    """Ends an evaluation whose first answers are all empty texts, which no search or comparison can use.

    Failed rows are no answers. As soon as one answer is not empty, however unreadable, all is well for good.
    """

    empty: int = 0
    has_text: bool = False
    has_tokens: bool = False

    def counting(self, on_row: OnRow) -> OnRow:
        """`on_row` that counts the row first. It raises EmptyAnswersError after the first few."""

        def count(row: EvaluatedRow) -> None:
            self.has_text |= bool(row.prediction.strip() or row.output.strip())
            if row.error is None and not self.has_text:
                self.empty += 1
                self.has_tokens |= row.completion_tokens > 0
                self.check(_FEWEST_EMPTY)
            on_row(row)

        return count

    def check(self, fewest: int = 1) -> None:
        """Raises EmptyAnswersError where all answers so far, and at least `fewest`, are empty."""
        if self.has_text or self.empty < fewest:
            return
        said = f"the model has said nothing: the first {self.empty} answers are all empty"
        if self.empty == 1:
            said = "the model has said nothing: the only answer is empty"
        if self.has_tokens:
            raise EmptyAnswersError(
                f"{said}, although tokens were spent on them. A model that reasons first may have used "
                "them up: try a larger --max-output-tokens."
            )
        raise EmptyAnswersError(f"{said}. Try it with another client: is it a chat model, and well loaded?")


def evaluate(
    program: Program,
    candidate: Candidate,
    examples: Sequence[Example],
    metric: Metric,
    *,
    concurrency: int = 1,
    on_row: OnRow | None = None,
) -> Evaluation:
    """The candidate's answers on the rows, scored, in the order of the rows. See `evaluate_jobs`."""
    return evaluate_jobs(program, [(candidate, examples)], metric, concurrency=concurrency, on_row=on_row)[0]


def evaluate_jobs(
    program: Program,
    jobs: Sequence[Job],
    metric: Metric,
    *,
    concurrency: int = 1,
    on_row: OnRow | None = None,
    fewest_to_fail: int = 1,
) -> list[Evaluation]:
    """One evaluation for each job; all rows of a job are sent before those of the next.

    concurrency: rows at once; 1 works in the calling thread. on_row: called in the calling thread with each
    row as it is done, in order of arrival; nothing else depends on that order.
    A failed row is a row with score 0 and its error. If every row of every job failed, and there are at least
    `fewest_to_fail`: EndpointError, or RequestRefusedError where each was refused. What no row can survive
    (budget, key, runtime) stops the sending, waits for the rows on the wire and is raised; Ctrl-C stops the
    sending and waits for them GRACE_S seconds, a second one not at all.
    """
    tasks = [(job, place) for job, (_, examples) in enumerate(jobs) for place in range(len(examples))]
    rows: list[list[EvaluatedRow | None]] = [[None] * len(examples) for _, examples in jobs]

    def work(task: Row) -> EvaluatedRow:
        candidate, examples = jobs[task[0]]
        return _evaluate_row(program, candidate, examples[task[1]], metric)

    done: Generator[Done] = (
        ((t, work(t)) for t in tasks) if concurrency <= 1 else in_threads(tasks, work, concurrency)
    )
    with closing(done):
        for (job, place), row in done:
            rows[job][place] = row
            if on_row is not None:
                on_row(row)
    evaluations = [
        Evaluation(candidate.id, tuple(row for row in done_rows if row is not None))
        for (candidate, _), done_rows in zip(jobs, rows, strict=True)
    ]
    if len(tasks) >= fewest_to_fail:
        _raise_if_all_failed([row for evaluation in evaluations for row in evaluation.rows])
    return evaluations


def in_threads(
    tasks: Sequence[Task], work: Callable[[Task], Outcome], concurrency: int
) -> Generator[tuple[Task, Outcome]]:
    """Tasks with what came of them, as they are done; the next ones begin meanwhile.

    Of several errors the earliest task's is raised, when all have ended.

    The threads are daemons, and not an executor's: those are joined when the interpreter ends, so that Ctrl-C
    would wait for what is on the wire (40 s with a server that says nothing, and a timeout of 45 s).
    """
    handed: SimpleQueue[tuple[int, Task] | None] = SimpleQueue()
    ended: SimpleQueue[tuple[int, Task, Outcome | BaseException]] = SimpleQueue()

    def serve() -> None:
        while (item := handed.get()) is not None:
            place, task = item
            try:
                ended.put((place, task, work(task)))
            except BaseException as error:  # noqa: BLE001 - raised again, in the calling thread
                ended.put((place, task, error))

    threads = min(concurrency, len(tasks))
    waiting = iter(enumerate(tasks))
    running = 0
    failures: list[tuple[int, BaseException]] = []
    try:
        for number in range(threads):
            Thread(target=serve, name=f"row-{number}", daemon=True).start()
        while True:
            # Handed over only when it can run: a stop leaves nothing in a queue, and memory stays flat.
            while not failures and running < threads and (item := next(waiting, None)) is not None:
                handed.put(item)
                running += 1
            if not running:
                break
            place, task, outcome = ended.get()
            running -= 1
            if isinstance(outcome, BaseException):
                failures.append((place, outcome))
            else:
                yield task, outcome
    finally:
        for _ in range(threads):
            handed.put(None)
        _await_answers(ended, running)
    if failures:
        raise min(failures, key=lambda failure: failure[0])[1]


def _await_answers(ended: SimpleQueue[Any], running: int) -> None:
    """After Ctrl-C: what is on the wire is paid for, and its answers are journaled as they arrive."""
    until = time.monotonic() + GRACE_S
    with suppress(Empty):
        for _ in range(running):
            ended.get(timeout=max(0.0, until - time.monotonic()))


def _evaluate_row(program: Program, candidate: Candidate, example: Example, metric: Metric) -> EvaluatedRow:
    prediction = program.run(example, candidate)
    error = prediction.error
    score = Score(0.0, f"failed: {error}")
    if error is None:
        try:
            score = _score(metric, prediction, example)
        except (EndpointError, RequestRefusedError) as failure:  # a judge's call
            if isinstance(failure, EndpointError) and failure.is_fatal:
                raise
            error = f"{metric.name}: {failure}"
            score = Score(0.0, f"failed: {error}")
    probs = prediction.label_probs
    answer = prediction.text if prediction.value is None else prediction.value
    return EvaluatedRow(
        example_id=example.id,
        input=example.input,
        prediction=answer,
        ground_truth=example.target,
        is_correct=score.is_correct,
        score=score.value,
        reason=score.reason,
        confidence=None if probs is None else probs.get(example.target),
        is_unparsed=error is None and prediction.value is None,
        error=error,
        prompt_tokens=prediction.usage.prompt_tokens,
        completion_tokens=prediction.usage.completion_tokens,
        trace=prediction.trace,
        output="" if answer == prediction.text.strip() else prediction.text,
        is_unscored=score.is_unscored,
        group=example.group,
    )


def _score(metric: Metric, prediction: Prediction, example: Example) -> Score:
    if not example.target.strip():
        return Score(0.0, "the row has no expected answer")
    return metric.score(prediction, example)


def _raise_if_all_failed(rows: Sequence[EvaluatedRow]) -> None:
    errors = [row.error for row in rows if row.error is not None]
    if not rows or len(errors) < len(rows):
        return
    message = f"all {len(rows)} calls failed; the first: {errors[0].removeprefix(REFUSED)}"
    if all(error.startswith(REFUSED) for error in errors):
        raise RequestRefusedError(
            f"{message}. The endpoint takes no such request: check the model's name, its settings and the "
            "length of the rows; `autoprompt doctor` with the same --model and --base-url asks it."
        )
    raise EndpointError(message)
