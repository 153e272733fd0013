"""Candidates x rows -> scored rows, many at once.

A row is a task on the loop of `portal` if nothing of it blocks: a prompt, an endpoint, a metric that only
reads the answer. Rows of other programs, clients and metrics have a thread each, and these threads live here
and nowhere else.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine, Generator, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, closing, nullcontext, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from functools import partial
from queue import Empty, SimpleQueue
from threading import Event, Thread
from typing import Any, NoReturn, TypeVar

from autoprompt.errors import BudgetExhausted, EmptyAnswersError, EndpointError, Problem, RequestRefusedError
from autoprompt.llm import portal
from autoprompt.llm.limits.budget import BudgetMeter
from autoprompt.llm.transport.failures import is_overflow
from autoprompt.measure.problems import room_of, row_error
from autoprompt.measure.program import Program
from autoprompt.metrics import Metric
from autoprompt.metrics.json_match import JsonMatch
from autoprompt.metrics.judge import Grades
from autoprompt.metrics.texts import Contains, ExactMatch, LabelSet, Numeric
from autoprompt.records import (
    Candidate,
    EvaluatedRow,
    Evaluation,
    Example,
    OnEvent,
    Prediction,
    Score,
    record,
)
from autoprompt.runs.events import RowsEvaluated
from autoprompt.text.names import counted

_FEWEST_TOO_LONG = 3  # of a candidate's requests; where none was taken, the others are not sent
_FEWEST_EMPTY = 10  # answers; where half of all are empty, so many in a row are one chance in a thousand
GRACE_S = 5.0
# Requests that begin in one turn of the loop. A thousand of them took a turn of seconds on a busy machine, in
# which no connection was seen to come about: its 5 s were over.
_BEGIN_AT_ONCE = 16
_HANDED_OVER_EVERY_S = 0.05
_TOLD_EVERY_S = 0.25  # what is spent, and how many rows are done
_BEHIND_S = 0.01  # until the loop looks again whether the caller has taken what is there
# What scores an answer by reading it, within microseconds: the loop does that itself.
_READS_ONLY = (Contains, ExactMatch, Numeric, JsonMatch, LabelSet)

Job = tuple[Candidate, Sequence[Example]]
Row = tuple[int, int]  # place of the job, place of the row in it
OnRow = Callable[[EvaluatedRow], None]
Ask = Callable[[], Prediction]
Grant = Callable[[int], AbstractContextManager[int]]
"""Sets calls aside for so many questions that are to be asked again; says for how many there are some."""
OnExhausted = Callable[[BudgetExhausted], None]
OnTime = Callable[[Candidate, float], None]
Task = TypeVar("Task")
Outcome = TypeVar("Outcome")
_stopping: ContextVar[Event | None] = ContextVar("autoprompt_stopping_rows", default=None)


@dataclass
class EmptyAnswers:
    """In how many of the first rows the model has said nothing, so that no search or comparison can use them.

    Of a workflow or program it is the calls that count, not what is made of them. Failed rows are no answers,
    nor are rows without a call. As soon as one answer is not empty, however unreadable, all is well for good.

    model_of: what names the model, see `Step.model_of`; "" for the settings.
    """

    empty: int = 0
    has_text: bool = False
    has_tokens: bool = False
    model_of: str = ""

    def add(self, row: EvaluatedRow) -> None:
        """Count a row.

        Raises:
            EmptyAnswersError: After the first few, if they are all empty.
        """
        if self.has_text:
            return
        calls = [step for step in row.trace if step.model_of]
        said = [step.output for step in calls] if row.trace else [row.prediction, row.output]
        self.has_text = any(text.strip() for text in said)
        if row.error is None and said and not self.has_text:
            self.empty += 1
            self.model_of = calls[0].model_of if calls else ""
            self.has_tokens |= row.usage.completion_tokens > 0
            self.check(_FEWEST_EMPTY)

    def check(self, fewest: int = 1) -> None:
        """Raise EmptyAnswersError if all answers so far, and at least `fewest`, are empty."""
        if self.has_text or self.empty < fewest:
            return
        said = f"the model has said nothing: the first {counted(self.empty, 'answer')} are all empty"
        if self.empty == 1:
            said = "the model has said nothing: the only answer is empty"
        if self.has_tokens:
            said += ", although tokens were spent on them"
            room, settings = room_of(self.model_of)
            fix = f"A model that reasons first may have used them up: {room}."
            raise EmptyAnswersError(Problem("model.only-thoughts", said, fix=fix, settings=settings))
        fix = "Try it with another client: is it a chat model, and well loaded?"
        raise EmptyAnswersError(Problem("model.says-nothing", said, fix=fix))


class RowTally:
    """Counts rows as they are done, and ends an evaluation whose first answers are of no use.

    Args:
        emit: Gets a `rows_evaluated` event four times a second, and for the last row, with what `budget` has
            spent so far.
        budget: Of the evaluation.
        what: Which rows they are, as the event says it.
        total: How many of them there are.
        answers: Ends the evaluation if the first ones are all empty. None: empty ones do not end it.
        grades: Of a judge; ends the evaluation if none of the first has one. None: counted elsewhere.
    """

    def __init__(
        self,
        emit: OnEvent,
        budget: BudgetMeter,
        what: str,
        total: int,
        *,
        answers: EmptyAnswers | None = None,
        grades: Grades | None = None,
    ) -> None:
        self._emit, self._budget, self._what, self._total = emit, budget, what, total
        self._answers, self._grades = answers, grades
        self._seen = self._done = 0  # rows, and those that were asked
        self._tell_at = time.monotonic() + _TOLD_EVERY_S

    def add(self, row: EvaluatedRow) -> None:
        """Count a row.

        Raises:
            EmptyAnswersError, JudgeError: If all answers, or most grades, are missing.
        """
        if self._answers is not None:
            self._answers.add(row)
        if self._grades is not None:
            self._grades.add([row])
        self._seen += 1
        self._done += not row.is_unasked
        now = time.monotonic()
        if self._seen == self._total or now >= self._tell_at:
            self._tell_at = now + _TOLD_EVERY_S
            spent = self._budget.spent.to_dict()
            self._emit(RowsEvaluated(self._what, self._done, self._total, spent).to_dict())
        if self._grades is not None and self._grades.unscored == self._grades.asked:
            self._grades.check()


def evaluate(
    program: Program,
    candidate: Candidate,
    examples: Sequence[Example],
    metric: Metric,
    *,
    concurrency: int = 1,
    on_row: OnRow | None = None,
    grant: Grant = nullcontext,
) -> Evaluation:
    """Return the candidate's answers on the rows, scored, in the order of the rows. See `evaluate_jobs`."""
    jobs = [(candidate, examples)]
    return evaluate_jobs(program, jobs, metric, concurrency=concurrency, on_row=on_row, grant=grant)[0]


def evaluate_jobs(
    program: Program,
    jobs: Sequence[Job],
    metric: Metric,
    *,
    concurrency: int = 1,
    on_row: OnRow | None = None,
    fewest_to_fail: int | None = 1,
    grant: Grant = nullcontext,
    on_exhausted: OnExhausted | None = None,
    on_time: OnTime | None = None,
) -> list[Evaluation]:
    """Return one evaluation for each job; all rows of a job are sent before those of the next.

    Answers that cannot be read are asked for again when all the others are there, as far as `grant` allows:
    a row for every job that needs it, or for none, so that no job is read with more patience than another.
    If the first rows of a job are all longer than the model's window, its others are refused without a call.
    A failed row is a row with score 0 and its error.

    Args:
        concurrency: Rows at once; 1 works in the calling thread.
        on_row: Called in the calling thread with each row when its first answer is there, in order of
            arrival; nothing else depends on that order.
        fewest_to_fail: So many different rows, if all of them fail for every job, are an error. None: none
            are, however many.
        on_exhausted: Hears, in the row's thread or on the loop, of each row that the budget ended before;
            such rows are lost, and what was answered stays.
        on_time: Hears, in the same place, how many seconds a row has taken.

    Raises:
        EndpointError: If every row of every job failed.
        RequestRefusedError: If every one of them was refused.

    What no row can survive (budget without `on_exhausted`, key, runtime) stops the sending, waits for the
    rows on the wire and is raised. Ctrl-C stops the sending and waits for them GRACE_S seconds, a second one
    not at all.
    """
    is_async = getattr(program, "is_async", False)
    asking = _Asking(jobs, metric, concurrency, on_exhausted, on_time, is_async=is_async)
    unread = asking.ask(
        {
            (job, place): _FirstQuestion(program, example, candidate)
            for job, (candidate, examples) in enumerate(jobs)
            for place, example in enumerate(examples)
        },
        on_row,
    )
    while unread:
        with grant(len(unread)) as granted:
            unread = asking.ask(_whole_rows(unread, jobs, granted), None)
    evaluations = asking.evaluations()
    rows_asked = {example.id for _, examples in jobs for example in examples}
    if fewest_to_fail is not None and len(rows_asked) >= fewest_to_fail:
        found = [row for evaluation in evaluations for row in evaluation.rows]
        # That a new prompt is refused, or that a model declines to answer it, says something of that prompt
        # alone: the original was answered.
        is_new = all(candidate.operator != "original" for candidate, _ in jobs)
        if not (is_new and any(row.is_withheld or row.is_refused for row in found)):
            raise_if_all_failed(found, program)
    return evaluations


@record
class _FirstQuestion:
    program: Program
    example: Example
    candidate: Candidate

    def __call__(self) -> Prediction:
        return self.program.run(self.example, self.candidate)

    def asked(self) -> Coroutine[Any, Any, Prediction]:
        """Of a program that has no need of a thread."""
        return self.program.arun(self.example, self.candidate)  # type: ignore[attr-defined, no-any-return]


class _Asking:
    """Asks the rows of jobs, and keeps what came of them.

    A job whose first requests are all longer than the model's window is not sent any further: each would
    count as a call, and say the same.
    """

    def __init__(
        self,
        jobs: Sequence[Job],
        metric: Metric,
        concurrency: int,
        on_exhausted: OnExhausted | None,
        on_time: OnTime | None,
        *,
        is_async: bool,
    ) -> None:
        self._jobs, self._metric, self._concurrency = jobs, metric, concurrency
        self._can_be_tasks = is_async and isinstance(metric, _READS_ONLY)
        self._on_exhausted, self._on_time = on_exhausted, on_time
        self._rows: list[list[EvaluatedRow | None]] = [[None] * len(examples) for _, examples in jobs]
        self._too_long: list[list[str]] = [[] for _ in jobs]  # errors of the job's requests
        self._fits = [False] * len(jobs)

    def ask(self, questions: Mapping[Row, Ask], on_row: OnRow | None) -> dict[Row, Ask]:
        """Keep the rows of these questions. Return what asks again for answers that could not be read."""
        again: dict[Row, Ask] = {}
        tasks = list(questions.items())
        with self._asked(tasks) as done:
            for ((job, place), _), (row, ask) in done:
                self._rows[job][place] = row
                if ask is not None:
                    again[job, place] = ask
                if on_row is not None:
                    on_row(row)
        return again

    def _asked(
        self, tasks: Sequence[tuple[Row, Ask]]
    ) -> AbstractContextManager[Iterable[tuple[tuple[Row, Ask], tuple[EvaluatedRow, Ask | None]]]]:
        if self._concurrency == 1:
            return nullcontext(zip(tasks, map(self._answer, tasks), strict=True))
        if self._can_be_tasks:
            return closing(in_tasks(tasks, self._answer_on_loop, self._concurrency))
        return closing(in_threads(tasks, self._answer, self._concurrency))

    def evaluations(self) -> list[Evaluation]:
        return [
            Evaluation(candidate.id, tuple(row for row in rows if row is not None))
            for (candidate, _), rows in zip(self._jobs, self._rows, strict=True)
        ]

    def _answer(self, question: tuple[Row, Ask]) -> tuple[EvaluatedRow, Ask | None]:
        """Return the row, and what asks again for an answer that could not be read."""
        return self._refused(question) or self._scored(question, time.monotonic(), question[1])

    async def _answer_on_loop(self, question: tuple[Row, Ask]) -> tuple[EvaluatedRow, Ask | None]:
        """Return the same for a question that can be `asked` without a thread."""
        if (refused := self._refused(question)) is not None:
            return refused
        started = time.monotonic()
        try:
            prediction: Prediction = await question[1].asked()  # type: ignore[attr-defined]
        except Exception as error:  # noqa: BLE001 - raised again where the row is scored
            return self._scored(question, started, partial(_raise, error))
        return self._scored(question, started, lambda: prediction)

    def _refused(self, question: tuple[Row, Ask]) -> tuple[EvaluatedRow, Ask | None] | None:
        """Return the row of a job whose requests are all too long; None if it is to be asked."""
        job, place = question[0]
        too_long = self._too_long[job]
        if len(too_long) < _FEWEST_TOO_LONG or self._fits[job]:
            return None
        refused = Prediction("", None, error=too_long[-1], failure="refused")
        return scored(refused, self._jobs[job][1][place], self._metric), None

    def _scored(
        self, question: tuple[Row, Ask], started: float, answer: Ask
    ) -> tuple[EvaluatedRow, Ask | None]:
        job, place = question[0]
        candidate, examples = self._jobs[job]
        example, too_long = examples[place], self._too_long[job]
        try:
            prediction = answer()
            row = scored(prediction, example, self._metric)
        except BudgetExhausted as error:  # of the row's request or of its judge's
            if self._on_exhausted is None:
                raise
            self._on_exhausted(error)
            prediction = Prediction("", None, error=str(error), failure="not asked")
            row = scored(prediction, example, self._metric)
        if self._on_time is not None:
            self._on_time(candidate, time.monotonic() - started)
        if row.is_refused and row.error is not None and is_overflow(row.error):
            too_long.append(row.error)
        else:
            self._fits[job] = True
        return row, prediction.again


def _whole_rows(unread: Mapping[Row, Ask], jobs: Sequence[Job], granted: int) -> dict[Row, Ask]:
    """As many questions as are granted, in the order of the rows, each row for all jobs that need it."""
    by_row: dict[str, list[Row]] = {}
    for job, place in sorted(unread, key=lambda task: task[::-1]):
        by_row.setdefault(jobs[job][1][place].id, []).append((job, place))
    asked: dict[Row, Ask] = {}
    for tasks in by_row.values():
        if len(asked) + len(tasks) > granted:
            break
        asked |= {task: unread[task] for task in tasks}
    return asked


def in_threads(
    tasks: Sequence[Task], work: Callable[[Task], Outcome], concurrency: int
) -> Generator[tuple[Task, Outcome]]:
    """Tasks with what came of them, as they are done; the next ones begin meanwhile.

    Of several errors the earliest task's is raised, when all have ended.

    A task of several steps asks `stopping_rows` between them, and ends where nobody waits for it any more.

    The threads are daemons, and not an executor's: those are joined when the interpreter ends, so that Ctrl-C
    would wait for what is on the wire (40 s with a server that says nothing, and a timeout of 45 s).
    """
    handed: SimpleQueue[tuple[int, Task] | None] = SimpleQueue()
    ended: SimpleQueue[tuple[int, Task, Outcome | BaseException]] = SimpleQueue()
    stopping = Event()

    def serve() -> None:
        _stopping.set(stopping)
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
    workers: list[Thread] = []
    try:
        for number in range(threads):
            workers.append(Thread(target=serve, name=f"row-{number}", daemon=True))
            workers[-1].start()
        while True:
            # Handed over only when it can run: a stop leaves nothing in a queue, and memory stays flat.
            while not failures and running < threads and (item := next(waiting, None)) is not None:
                handed.put(item)
                running += 1
            if not running:
                break
            place, task, outcome = portal.next_item(ended)
            running -= 1
            if isinstance(outcome, BaseException):
                failures.append((place, outcome))
            else:
                yield task, outcome
    finally:
        stopping.set()
        for _ in range(threads):
            handed.put(None)
        _await_answers(workers)
    if failures:
        raise min(failures, key=lambda failure: failure[0])[1]


def in_tasks(
    tasks: Sequence[Task], work: Callable[[Task], Coroutine[Any, Any, Outcome]], concurrency: int
) -> Generator[tuple[Task, Outcome]]:
    """Tasks with what came of them, as `in_threads`, on the loop of `portal`.

    It is ahead of the caller by `concurrency` tasks at most: so many more may have been sent at a stop.
    """
    ended: SimpleQueue[list[tuple[Task, Outcome]] | None] = SimpleQueue()
    waiting = iter(enumerate(tasks))
    failures: list[tuple[int, BaseException]] = []
    stopping = Event()
    done: list[tuple[Task, Outcome]] = []
    finished = taken = 0  # tasks, here and by the caller

    async def serve() -> None:
        nonlocal finished
        while not failures and not stopping.is_set() and (item := next(waiting, None)) is not None:
            place, task = item
            try:
                outcome = await work(task)
                if not done:  # the caller is woken for many at once: each time, it takes the interpreter
                    asyncio.get_running_loop().call_later(_HANDED_OVER_EVERY_S, hand_over)
                done.append((task, outcome))
                finished += 1
            except BaseException as error:  # noqa: BLE001 - raised again, in the calling thread
                failures.append((place, error))
            while finished - taken > concurrency and not stopping.is_set():
                await asyncio.sleep(_BEHIND_S)

    def hand_over() -> None:
        nonlocal done
        if done:
            done, ready = [], done
            ended.put(ready)

    async def serve_all() -> None:
        servers = []
        for number in range(min(concurrency, len(tasks))):
            servers.append(asyncio.ensure_future(serve()))
            if number % _BEGIN_AT_ONCE == 0:
                await asyncio.sleep(0)
        await asyncio.gather(*servers)
        hand_over()
        ended.put(None)

    portal.later(serve_all)
    has_ended = False
    try:
        while True:
            if (ready := portal.next_item(ended)) is None:
                has_ended = True
                break
            for task, outcome in ready:
                taken += 1
                yield task, outcome
    finally:
        stopping.set()
        until = time.monotonic() + GRACE_S
        while not has_ended and (left := until - time.monotonic()) > 0:
            with suppress(Empty):
                has_ended = ended.get(timeout=left) is None
    if failures:
        raise min(failures, key=lambda failure: failure[0])[1]


def stopping_rows() -> Event | None:
    """Set once nobody waits any more for what this thread of `in_threads` does, as after Ctrl-C.

    None in other threads.
    """
    return _stopping.get()


def _await_answers(workers: Sequence[Thread]) -> None:
    """Wait for the threads to end, GRACE_S seconds at most: at once, unless the caller stopped early.

    After Ctrl-C what is on the wire is paid for, and its answers are journaled as they arrive. The threads
    say best when all is there: what the caller counts is off by one where the interrupt fell between an
    answer and its being counted.
    """
    until = time.monotonic() + GRACE_S
    for worker in workers:
        if worker.is_alive():  # one that was not begun cannot be waited for
            worker.join(max(0.0, until - time.monotonic()))


def scored(prediction: Prediction, example: Example, metric: Metric) -> EvaluatedRow:
    error, failure = prediction.error, prediction.failure
    score = Score(0.0, f"failed: {error}")
    if error is None:
        try:
            score = _score(metric, prediction, example)
        except (EndpointError, RequestRefusedError) as refused:  # a judge's call
            if isinstance(refused, EndpointError) and refused.is_fatal:
                raise
            error, failure = f"{metric.name}: {refused}", "failed"
            score = Score(0.0, f"failed: {error}")
    probs = prediction.label_probs
    answer = prediction.text if prediction.value is None else prediction.value
    return EvaluatedRow(
        example_id=example.id,
        input=example.input_text,
        prediction=answer,
        ground_truth=example.target_text,
        is_correct=score.is_correct,
        score=score.value,
        reason=score.reason,
        confidence=None if probs is None else probs.get(example.target_text),
        is_unparsed=error is None and prediction.value is None,
        error=error,
        usage=prediction.usage,
        trace=prediction.trace,
        output="" if answer == prediction.text.strip() else prediction.text,
        is_unscored=score.is_unscored,
        is_cut=prediction.is_cut,
        group=example.group,
        turns=example.turns,
        feedback=score.feedback,
        unread=score.unread,
        failure=failure or (None if error is None else "failed"),
    )


def _raise(error: Exception) -> NoReturn:
    raise error


def _score(metric: Metric, prediction: Prediction, example: Example) -> Score:
    if example.has_target and not example.target_text.strip():
        return Score(0.0, "the row has no expected answer")
    return metric.score(prediction, example)


def raise_if_all_failed(rows: Sequence[EvaluatedRow], program: Program) -> None:
    """Raise EndpointError if all rows of a program failed, or RequestRefusedError if each was refused."""
    errors = [row.error for row in rows if row.error is not None]
    if not rows or len(errors) < len(rows) or any(row.is_unasked for row in rows):
        return
    message = f"all {counted(len(rows), 'row')} failed; the first: {row_error(rows[0])}"
    names_model = getattr(program, "names_model", False)  # in its own code
    settings = {} if names_model else {"model": None, "base_url": None}
    if all(row.is_withheld for row in rows):
        fix = "Choose another {model} or {base_url}, which answers such rows."
        if names_model:
            fix = "Have the program ask another model, which answers such rows."
        raise RequestRefusedError(Problem("model.withholds-all", message, fix=fix, settings=settings))
    if all(row.is_refused for row in rows):
        fix = (
            "The endpoint takes no such request: check the model's name, its settings and the length of the "
            "rows."
        )
        if not names_model:
            fix += " `autoprompt doctor` with the same {model} and {base_url} asks it."
        raise RequestRefusedError(Problem("model.refuses-all", message, fix=fix, settings=settings))
    raise EndpointError(Problem("model.all-failed", message))
