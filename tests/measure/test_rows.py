"""Rows in, scored rows out: order, failures, stopping."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from queue import SimpleQueue
from typing import Any

import pytest

from autoprompt.errors import (
    AuthenticationError,
    BudgetExhausted,
    EmptyAnswersError,
    EndpointError,
    RequestRefusedError,
)
from autoprompt.llm.adapter import ScriptedClient
from autoprompt.llm.client import Completion, Options
from autoprompt.llm.limits.budget import BudgetMeter
from autoprompt.llm.transport.http import HttpTransport
from autoprompt.measure.problems import cut_warning, unread_warning
from autoprompt.measure.program import PromptProgram
from autoprompt.measure.rows import EmptyAnswers, RowTally, evaluate, evaluate_jobs
from autoprompt.metrics import get_metric
from autoprompt.records import Candidate, EvaluatedRow, Example, Message, Prediction, Score, Step, Usage
from tests.fake_endpoint import Reply, fake_endpoint
from tests.fake_endpoint import answer as says_label

CANDIDATE = Candidate({"prompt": "P"})
METRIC = get_metric("exact_match", labels=("0", "1"))


def rows(n: int, target: str = "1") -> list[Example]:
    return [Example(f"r{i}", f"text {i}", target, {"input": f"text {i}", "target": target}) for i in range(n)]


class FakeProgram:
    """Answers with a function of the row's number."""

    is_async = False

    def __init__(self, answer: Callable[[int], Prediction]) -> None:
        self.components = {"prompt": "P"}
        self.asked: list[int] = []
        self._answer = answer

    def run(self, example: Example, candidate: Candidate) -> Prediction:
        number = int(example.id[1:])
        self.asked.append(number)
        return self._answer(number)

    async def arun(self, example: Example, candidate: Candidate) -> Prediction:
        return await asyncio.to_thread(self.run, example, candidate)


@pytest.fixture(params=["threads", "tasks"], autouse=True)
def _rows_are(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows at once are threads, or tasks on the loop."""
    monkeypatch.setattr(FakeProgram, "is_async", request.param == "tasks")


def says(text: str) -> Prediction:
    return Prediction(text, text, Usage(10, 1), {"0": 0.25, "1": 0.75})


@pytest.mark.parametrize("concurrency", [1, 4])
def test_rows_are_scored_in_order(concurrency: int) -> None:
    program = FakeProgram(lambda i: says(str(i % 2)))
    seen: list[EvaluatedRow] = []
    result = evaluate(program, CANDIDATE, rows(30), METRIC, concurrency=concurrency, on_row=seen.append)
    assert [row.example_id for row in result.rows] == [f"r{i}" for i in range(30)]
    assert result.score == 0.5
    assert result.candidate_id == CANDIDATE.id
    assert sorted(row.example_id for row in seen) == sorted(row.example_id for row in result.rows)
    first = result.rows[0]
    assert first == EvaluatedRow(
        "r0", "text 0", "0", "1", False, 0.0, "answered '0', expected '1'", 0.75, False, None, Usage(10, 1)
    )


def test_answers_that_arrive_in_reverse_change_nothing() -> None:
    gates = [threading.Event() for _ in range(4)]

    def answer(i: int) -> Prediction:
        if i < 3:
            assert gates[i + 1].wait(5)
        gates[i].set()
        return says(str(i % 2))

    arrived: list[str] = []
    result = evaluate(
        FakeProgram(answer),
        CANDIDATE,
        rows(4),
        METRIC,
        concurrency=4,
        on_row=lambda r: arrived.append(r.example_id),
    )
    assert [row.prediction for row in result.rows] == ["0", "1", "0", "1"]
    assert len(arrived) == 4


def test_one_at_a_time_works_in_the_calling_thread() -> None:
    threads: list[int] = []

    def answer(i: int) -> Prediction:
        threads.append(threading.get_ident())
        return says("1")

    evaluate(FakeProgram(answer), CANDIDATE, rows(2), METRIC)
    assert set(threads) == {threading.get_ident()}


def test_jobs_are_sent_one_after_the_other() -> None:
    program = FakeProgram(lambda i: says("1"))
    other = Candidate({"prompt": "Q"})
    first, second, empty = evaluate_jobs(
        program, [(CANDIDATE, rows(3)), (other, rows(2)), (CANDIDATE, [])], METRIC
    )
    assert program.asked == [0, 1, 2, 0, 1]
    assert (first.candidate_id, len(first.rows)) == (CANDIDATE.id, 3)
    assert (second.candidate_id, len(second.rows)) == (other.id, 2)
    assert empty.rows == ()
    assert evaluate_jobs(program, [], METRIC) == []


def test_an_unparsed_answer_and_a_failed_call_are_rows() -> None:
    answers = [Prediction("hm", None), Prediction("", None, error="503"), says("1")]
    result = evaluate(FakeProgram(lambda i: answers[i]), CANDIDATE, rows(3), METRIC)
    unparsed, failed, right = result.rows
    assert (unparsed.is_unparsed, unparsed.error, unparsed.prediction) == (True, None, "hm")
    assert unparsed.reason == "unparsed: 'hm' names none of the labels 0, 1"
    assert (failed.is_unparsed, failed.error, failed.reason) == (False, "503", "failed: 503")
    assert (right.is_correct, right.reason) == (True, "")
    assert result.score == pytest.approx(1 / 3)


@pytest.mark.parametrize("target", ["", "  "])
@pytest.mark.parametrize("metric", ["exact_match", "contains", "regex"])
def test_an_empty_target_is_never_right(target: str, metric: str) -> None:
    program = FakeProgram(lambda i: Prediction("", target))
    result = evaluate(program, CANDIDATE, rows(1, target), get_metric(metric))
    assert (result.rows[0].is_correct, result.score) == (False, 0.0)


@pytest.mark.parametrize("concurrency", [1, 3])
def test_if_every_row_failed_the_endpoint_did(concurrency: int) -> None:
    program = FakeProgram(lambda i: Prediction("", None, error=f"no answer {i}"))
    with pytest.raises(EndpointError, match="all 5 rows failed; the first: no answer 0"):
        evaluate(program, CANDIDATE, rows(5), METRIC, concurrency=concurrency)
    refused = FakeProgram(lambda i: Prediction("", None, error="too long", failure="refused"))
    with pytest.raises(RequestRefusedError, match=r"the first: too long\. .*`autoprompt doctor`"):
        evaluate(refused, CANDIDATE, rows(2), METRIC, concurrency=concurrency)


def test_one_answered_job_is_enough() -> None:
    answers = iter([Prediction("", None, error="503"), says("1")])
    program = FakeProgram(lambda i: next(answers))
    failed, answered = evaluate_jobs(program, [(CANDIDATE, rows(1)), (CANDIDATE, rows(1))], METRIC)
    assert (failed.score, answered.score) == (0.0, 1.0)


@pytest.mark.parametrize("error", [BudgetExhausted("max_calls"), AuthenticationError("key")])
def test_a_stop_waits_for_the_rows_on_the_wire_and_sends_no_more(error: Exception) -> None:
    stopped = threading.Event()
    ended: list[int] = []

    def answer(i: int) -> Prediction:
        if i == 0:
            stopped.set()
            raise error
        assert stopped.wait(5)
        ended.append(i)
        return says("1")

    program = FakeProgram(answer)
    counted: list[EvaluatedRow] = []
    with pytest.raises(type(error)):
        evaluate(program, CANDIDATE, rows(50), METRIC, concurrency=3, on_row=counted.append)
    # Row 1 may end before the stop of row 0 is seen, and one more row is sent in its place.
    assert len(program.asked) < 10
    assert len(ended) == len(program.asked) - 1 == len(counted)


def test_of_several_errors_the_earliest_row_is_named() -> None:
    both = threading.Barrier(2)

    def answer(i: int) -> Prediction:
        both.wait(5)
        raise BudgetExhausted(f"cap {i}")

    with pytest.raises(BudgetExhausted, match="cap 0"):
        evaluate(FakeProgram(answer), CANDIDATE, rows(2), METRIC, concurrency=2)


@pytest.mark.parametrize("concurrency", [1, 4])
def test_what_was_answered_before_the_budget_ended_can_be_kept(concurrency: int) -> None:
    def answer(i: int) -> Prediction:
        if i >= 6:
            raise BudgetExhausted("max_calls", "the cap of 6 calls is reached.")
        return says("1")

    heard: list[BudgetExhausted] = []
    jobs = [(CANDIDATE, rows(9)), (CANDIDATE, rows(7))]
    first, second = evaluate_jobs(
        FakeProgram(answer), jobs, METRIC, concurrency=concurrency, on_exhausted=heard.append
    )
    assert [row.is_unasked for row in first.rows] == [False] * 6 + [True] * 3
    assert [row.is_lost for row in second.rows] == [False] * 6 + [True]
    assert first.rows[6].shown_error == "not asked: the cap of 6 calls is reached."
    assert [error.cap for error in heard] == ["max_calls"] * 4


def test_that_the_budget_had_nothing_for_any_row_is_no_fault_of_the_endpoint() -> None:
    def answer(i: int) -> Prediction:
        raise BudgetExhausted("max_calls")

    heard: list[BudgetExhausted] = []
    (found,) = evaluate_jobs(FakeProgram(answer), [(CANDIDATE, rows(3))], METRIC, on_exhausted=heard.append)
    assert all(row.is_unasked for row in found.rows)


def test_a_row_whose_judge_the_budget_cannot_pay_was_not_asked() -> None:
    class Judge:
        name, is_aggregate = "llm_judge", False

        def read(self, text: str) -> str:
            return text

        def score(self, prediction: Prediction, example: Example) -> Score:
            if example.id == "r1":
                raise BudgetExhausted("max_calls")
            return Score(1.0)

        def aggregate(self, predictions: Sequence[str], targets: Sequence[str]) -> float:
            raise TypeError

    heard: list[BudgetExhausted] = []
    program = FakeProgram(lambda i: says("1"))
    (found,) = evaluate_jobs(program, [(CANDIDATE, rows(3))], Judge(), on_exhausted=heard.append)
    assert [row.is_unasked for row in found.rows] == [False, True, False]
    assert [error.cap for error in heard] == ["max_calls"]


def interrupt(row: EvaluatedRow) -> None:
    raise KeyboardInterrupt


@pytest.mark.parametrize("concurrency", [1, 2])
def test_ctrl_c_stops_sending_and_does_not_wait_for_long(
    concurrency: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("autoprompt.measure.rows.GRACE_S", 0.05)
    release = threading.Event()

    def answer(i: int) -> Prediction:
        if i == 1 and concurrency > 1:
            release.wait(5)
        return says("1")

    program = FakeProgram(answer)
    with pytest.raises(KeyboardInterrupt):
        evaluate(program, CANDIDATE, rows(20), METRIC, concurrency=concurrency, on_row=interrupt)
    assert len(program.asked) <= (3 if FakeProgram.is_async else 1) * concurrency
    assert not release.is_set()
    release.set()


def test_ctrl_c_between_an_answer_and_its_being_counted_waits_for_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    interrupts = [KeyboardInterrupt]

    class Interrupted(SimpleQueue):  # type: ignore[type-arg]
        def get(self, block: bool = True, timeout: float | None = None) -> Any:
            item = super().get(block, timeout)
            if threading.current_thread() is threading.main_thread() and interrupts:
                raise interrupts.pop()
            return item

    monkeypatch.setattr("autoprompt.measure.rows.SimpleQueue", Interrupted)
    monkeypatch.setattr("autoprompt.measure.rows.GRACE_S", 30.0)
    begun = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        evaluate(FakeProgram(lambda i: says("1")), CANDIDATE, rows(2), METRIC, concurrency=2)
    assert time.monotonic() - begun < 20


def test_ctrl_c_waits_for_what_is_on_the_wire() -> None:
    """It is paid for: lost, it would be sent and paid again."""
    answered: list[int] = []
    is_sent = threading.Event()

    def answer(i: int) -> Prediction:
        if i == 0:
            is_sent.wait(5)
        else:
            is_sent.set()
            time.sleep(0.2)
        answered.append(i)
        return says("1")

    program = FakeProgram(answer)
    with pytest.raises(KeyboardInterrupt):
        evaluate(program, CANDIDATE, rows(20), METRIC, concurrency=2, on_row=interrupt)
    assert sorted(answered) == sorted(program.asked)
    assert len(answered) <= (6 if FakeProgram.is_async else 2)  # tasks may be as many ahead of who stops them


def test_a_judge_that_fails_on_a_row_fails_the_row() -> None:
    judge = ScriptedClient([EndpointError("judge down"), '{"score": 5, "reason": "good"}'])
    metric = get_metric("llm_judge", {"rubric": "Is it right?"}, judge=judge)
    result = evaluate(FakeProgram(lambda i: says("1")), CANDIDATE, rows(2), metric)
    assert [row.error for row in result.rows] == ["llm_judge: judge down", None]
    assert result.rows[1].is_correct


def test_a_judge_that_is_gone_ends_the_evaluation() -> None:
    judge = ScriptedClient([EndpointError("gone", is_fatal=True)])
    metric = get_metric("llm_judge", {"rubric": "Is it right?"}, judge=judge)
    with pytest.raises(EndpointError, match="gone"):
        evaluate(FakeProgram(lambda i: says("1")), CANDIDATE, rows(2), metric)


@pytest.mark.parametrize("concurrency", [1, 4])
def test_unreadable_answers_are_asked_again_row_by_row_for_all_jobs_or_none(concurrency: int) -> None:
    asked: list[tuple[str, str, bool]] = []

    def answer(messages: list[Message], options: Options) -> str:
        prompt, row = messages[0].content, messages[-1].content
        asked.append((prompt, row, options.is_retry))
        is_unread = row in ("text 0", "text 1", "text 3") and not (prompt == "P" and row == "text 1")
        return "hm" if is_unread and not options.is_retry else "1"

    wanted: list[int] = []

    @contextmanager
    def grant(calls: int) -> Iterator[int]:
        wanted.append(calls)
        yield 4

    jobs = [(CANDIDATE, rows(4)), (Candidate({"prompt": "Q"}), rows(4))]
    seen: list[EvaluatedRow] = []
    program = PromptProgram(ScriptedClient(answer), "P", labels=("0", "1"))
    both = evaluate_jobs(program, jobs, METRIC, concurrency=concurrency, on_row=seen.append, grant=grant)
    again = [(prompt, row) for prompt, row, is_retry in asked if is_retry]
    # Row 3 would need two more calls, and one is left: neither job has it.
    assert sorted(again) == [("P", "text 0"), ("Q", "text 0"), ("Q", "text 1")]
    assert not any(is_retry for *_, is_retry in asked[:8])
    assert [[row.is_unparsed for row in one.rows] for one in both] == [[False, False, False, True]] * 2
    assert (wanted, len(seen)) == ([5], 8)


def test_many_answers_that_broke_off_before_they_were_a_label_are_warned_of() -> None:
    def answer(messages: list[Message], options: Options) -> Completion:
        number = int(messages[-1].content.split()[1])
        if number < 3:
            return Completion("Let me see whether it is 1 or", finish_reason="length")
        return Completion("1", finish_reason="length")  # all that it takes: a label is not written out

    program = PromptProgram(ScriptedClient(answer), "P", labels=("0", "1"))
    assert "3 of 20 answers broke off" in str(
        cut_warning(evaluate(program, CANDIDATE, rows(20), METRIC).rows)
    )
    assert cut_warning(evaluate(program, CANDIDATE, rows(30), METRIC).rows) is None
    free = PromptProgram(ScriptedClient(answer), "P")
    assert cut_warning(evaluate(free, CANDIDATE, rows(5), METRIC).rows) is None


def test_an_answer_that_broke_off_before_it_could_be_read_is_one_whatever_was_asked_for() -> None:
    client = ScriptedClient(lambda messages: Completion("Let me see", finish_reason="length"))
    program = PromptProgram(client, "P", read=lambda text: None)
    warning = cut_warning(evaluate(program, CANDIDATE, rows(3), METRIC).rows)
    assert "3 of 3 answers broke off" in str(warning)


SORRY = "I'm sorry, but I can't help with that."


def unread(count: int, of: int, text: str = SORRY, **more: Any) -> list[EvaluatedRow]:
    program = FakeProgram(lambda i: Prediction(text, None, **more) if i < count else says("1"))
    return list(evaluate(program, CANDIDATE, rows(of), METRIC).rows)


@pytest.mark.parametrize(
    ("count", "of", "is_said"), [(8, 16, True), (7, 16, False), (2, 2, False), (3, 3, True)]
)
def test_most_answers_unread_are_said_with_the_first(count: int, of: int, is_said: bool) -> None:
    said = unread_warning(unread(count, of), ("0", "1"))
    begins = f"{count} of {of} answers could not be read, which counts as wrong; the first ({count} times): "
    assert str(said).startswith(begins + SORRY) is is_said
    assert (said is not None) is is_said


def test_what_may_help_where_answers_are_unread_is_said() -> None:
    held = {way: str(unread_warning(unread(4, 4), ("0", "1"), way)) for way in ("off", "grammar", None)}
    assert "or hold the model to them with constrain='json_schema'" in held["off"]
    assert (
        "Name the allowed answers in the prompt, as the endpoint ignores constrain='grammar'."
        in (held["grammar"])
    )
    assert held[None].endswith("Name the allowed answers in the prompt.")
    assert "constrain" not in str(unread_warning(unread(4, 4)))
    assert "max_output_tokens" not in str(unread_warning(unread(4, 4), ("0", "1")))
    assert "max_output_tokens=2048" in str(unread_warning(unread(4, 4, is_cut=True)))
    assert "they are empty" in str(unread_warning(unread(4, 6, "")))
    assert len(str(unread_warning(unread(4, 4, "word " * 1000)))) < 600
    assert "抱歉，不能. Say" in str(unread_warning(unread(4, 4, "抱歉，不能。")))


def test_rows_that_failed_are_no_unread_answers() -> None:
    failed = [replace(row, error="HTTP 500") for row in unread(8, 8)]
    assert str(unread_warning(failed + unread(4, 8))).startswith("4 of 8 answers")
    assert unread_warning(failed) is None
    assert unread_warning(unread(4, 4, "(no answer: node 'get')", failure="step failed")) is None
    assert unread_warning(unread(4, 4, "(no answer: I am a model)")) is not None  # these are its words


def test_a_prompt_program_from_end_to_end() -> None:
    client = ScriptedClient(lambda messages: "Answer: 1" if "text 1" in messages[-1].content else "0")
    program = PromptProgram(client, "P", labels=("0", "1"))
    result = evaluate(program, CANDIDATE, rows(3), METRIC, concurrency=2)
    assert [row.prediction for row in result.rows] == ["0", "1", "0"]
    assert result.correct == 1


@pytest.mark.parametrize(("output", "has_spoken"), [("positive", True), ("", False)])
def test_a_model_whose_words_lead_to_no_answer_has_spoken(output: str, has_spoken: bool) -> None:
    """As on a branch of a workflow that its answer does not read."""
    answers = EmptyAnswers()
    step = Step("llm", output=output, model_of="node")
    row = EvaluatedRow("1", "x", "", "A", is_correct=False, score=0.0, usage=Usage(0, 3), trace=(step,))
    refused = pytest.raises(EmptyAnswersError, match="the model has said nothing")
    with nullcontext() if has_spoken else refused:
        deque(map(answers.add, [row] * 30), maxlen=0)


@pytest.mark.parametrize(
    ("steps", "fix"),
    [
        ([Step("route", model_of="code")], "where the program's code asks the model"),
        (
            [Step("look", output="3 items"), Step("judge", model_of="node")],
            "max_tokens in the completion_params",
        ),
        ([Step("judge", error="the model answered ''", model_of="node")], "give the node room"),
    ],
)
def test_what_is_made_of_a_models_silence_is_no_word_of_it(steps: list[Step], fix: str) -> None:
    """A program may answer `unknown` then, and a node before the model says what it likes."""
    answers = EmptyAnswers()
    row = EvaluatedRow(
        "1", "x", "unknown", "A", is_correct=False, score=0.0, usage=Usage(5, 3), trace=tuple(steps)
    )
    with pytest.raises(EmptyAnswersError, match="the first 10 answers are all empty") as stopped:
        deque(map(answers.add, [row] * 30), maxlen=0)
    assert fix in str(stopped.value)


@pytest.mark.parametrize(
    "steps", [[Step("copy", output="x")], [Step("route", error="HTTP 500")]], ids=["no call", "failed calls"]
)
def test_rows_that_no_model_answered_tell_nothing_of_it(steps: list[Step]) -> None:
    row = EvaluatedRow("1", "x", "", "A", is_correct=False, score=0.0, trace=tuple(steps))
    silent = replace(row, trace=(Step("route", model_of="code"),))
    answers = EmptyAnswers()
    deque(map(answers.add, [row] * 30), maxlen=0)
    with pytest.raises(EmptyAnswersError):
        deque(map(answers.add, [silent] * 10), maxlen=0)


def test_rows_of_an_endpoint_wait_without_a_thread_each() -> None:
    """A thousand requests in flight were a thousand threads."""
    threads: list[int] = []
    all_there = threading.Event()

    def reply(body: dict[str, Any]) -> Reply:
        threads.append(sum(thread.name.startswith("row-") for thread in threading.enumerate()))
        if len(threads) == 40:
            all_there.set()
        return replace(says_label("1"), hangs_until=all_there)

    with fake_endpoint(reply) as endpoint:
        transport = HttpTransport(endpoint.base_url, "m")
        program = PromptProgram(transport, "P", labels=("0", "1"))
        result = evaluate(program, CANDIDATE, rows(40), METRIC, concurrency=40)
        transport.close()
    assert [row.score for row in result.rows] == [1.0] * 40
    assert set(threads) == {0}


def test_progress_is_told_four_times_a_second_and_at_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    monkeypatch.setattr("autoprompt.measure.rows.time.monotonic", lambda: now)
    events: list[dict[str, Any]] = []
    tally = RowTally(events.append, BudgetMeter(), "rows", 1001)
    row = EvaluatedRow(
        example_id="r", input="x", prediction="1", ground_truth="1", is_correct=True, score=1.0
    )
    for _ in range(1000):
        now += 0.001
        tally.add(row)
    assert [event["done"] for event in events] == [250, 500, 750, 1000]
    tally.add(replace(row, failure="not asked", error="the budget is used up"))
    assert [event["done"] for event in events] == [250, 500, 750, 1000, 1000]
