from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

import pytest

from autoprompt.errors import (
    AuthenticationError,
    BudgetExhausted,
    EndpointError,
    Interrupted,
    ModelError,
    RequestRefusedError,
)
from autoprompt.llm.adapter import Answer, ScriptedClient
from autoprompt.llm.client import Completion, Options
from autoprompt.llm.limits import demand
from autoprompt.llm.limits.admission import PROBE, Gate
from autoprompt.llm.limits.budget import BudgetMeter
from autoprompt.llm.limits.retry import LimitedClient
from autoprompt.llm.prices import Price
from autoprompt.llm.traits import LearnedTraits, Traits
from autoprompt.llm.transport.failures import BrokenAnswerError, QuotaError, TimedOutError, UnreachableError
from autoprompt.llm.transport.wire import Parameters
from autoprompt.records import Message, Usage

ASK = [Message("user", "x")]
POISON = [Message("user", "y")]
BUSY = EndpointError("busy", status=429, retry_after_s=7)
DOWN = EndpointError("HTTP 500", status=500)
NOT_READY = EndpointError("HTTP 503: loading the model", status=503)
DROPPED = EndpointError("the connection broke off")
BROKEN = BrokenAnswerError("not JSON")
SLOW = TimedOutError("no answer in time")
AWAY = UnreachableError("refused")
EMPTY = Completion("", Usage(2, 0))
GOOD = Completion("1", Usage(2, 1))


class World:
    """A client with a script, a budget, and a clock that only waiting moves."""

    def __init__(
        self,
        answers: Sequence[Answer] | Callable[[Sequence[Message]], Answer],
        *,
        concurrency: int = 4,
        **caps: int,
    ) -> None:
        self.now = 0.0
        self.waits: list[float] = []
        self.budget = BudgetMeter(**caps, clock=lambda: self.now)
        self.script = ScriptedClient(answers)
        self.parameters = Parameters("grammar")
        left = self.budget.seconds_left
        self.gate = Gate(concurrency, clock=lambda: self.now, wait=self.wait, seconds_left=left)
        self.client = LimitedClient(
            self.script,
            budget=self.budget,
            gate=self.gate,
            parameters=self.parameters,
            price=Price(1e6, 1e6),
            clock=lambda: self.now,
        )

    async def wait(self, seconds: float) -> bool:
        until = self.now + seconds
        if seconds:
            self.waits.append(seconds)
        await asyncio.sleep(0.001)  # others begin to wait meanwhile: their times overlap
        self.now = max(self.now, until)
        return False

    def ask(self, messages: Sequence[Message] = ASK) -> Completion:
        return self.client.complete(messages)

    def tries(self) -> Completion | ModelError:
        try:
            return self.ask()
        except ModelError as error:
            return error

    def fails_at_last(self, messages: Sequence[Message]) -> Exception:
        with pytest.raises((ModelError, BudgetExhausted)) as caught:
            self.ask(messages)
        return caught.value

    def fails(self, kind: type[ModelError] = EndpointError, messages: Sequence[Message] = ASK) -> ModelError:
        with pytest.raises(kind) as caught:
            self.ask(messages)
        return caught.value


def test_what_may_pass_is_tried_again_and_every_attempt_counts() -> None:
    world = World([BUSY, DOWN, DROPPED, SLOW, BROKEN, GOOD])
    completion = world.ask()
    assert (completion.text, completion.attempts) == ("1", 6)
    assert world.budget.spent.calls == 6
    assert len(world.waits) == 5


def test_retry_after_is_kept_and_other_waits_grow() -> None:
    world = World([BUSY, DOWN, DOWN, DOWN, GOOD])
    world.ask()
    assert 7 <= world.waits[0] <= 7.2
    assert [
        0.5 * longest <= wait <= longest for wait, longest in zip(world.waits[1:], (1, 2, 4), strict=True)
    ]


def test_a_long_wait_for_a_turn_is_told_once(caplog: pytest.LogCaptureFixture) -> None:
    slow = EndpointError("HTTP 429: slow down", status=429, retry_after_s=60)
    world = World([BUSY, GOOD, slow, slow, GOOD, slow, GOOD])
    world.ask()
    assert not caplog.records  # a wait of seconds
    world.ask()
    world.ask()
    said = [record.getMessage() for record in caplog.records]
    assert said == ["HTTP 429: slow down. Too many requests: it is asked again after 60 s."]


@pytest.mark.parametrize("answers", [[], [GOOD]])
def test_a_wait_of_hours_ends_the_run_at_once(answers: list[Answer]) -> None:
    world = World([*answers, EndpointError("HTTP 429: quota", status=429, retry_after_s=7200), GOOD])
    for _ in answers:
        world.ask()
    failure = world.fails()
    assert isinstance(failure, EndpointError)
    assert failure.is_fatal
    assert failure.attempts == 1
    assert "it asks to wait 7200 s" in str(failure)
    assert "Resume after that time" in str(failure)
    assert world.waits == []


@pytest.mark.parametrize(("error", "attempts"), [(DOWN, 8), (BUSY, 8), (DROPPED, 8), (SLOW, 3)])
def test_a_request_that_nobody_can_answer_is_given_up_at_last(error: EndpointError, attempts: int) -> None:
    world = World(lambda messages: error if messages == POISON else GOOD)
    world.ask()
    failure = world.fails(messages=POISON)
    assert isinstance(failure, EndpointError)
    assert not failure.is_fatal
    # One more if the endpoint seemed to be out at the last attempt.
    assert attempts <= world.script.calls.count(POISON) <= attempts + 1
    assert world.script.calls.count(list(PROBE)) <= 2  # asks whether the endpoint lives
    assert world.budget.spent.calls == len(world.script.calls) == failure.attempts + 1
    assert world.ask().text == "1"


def test_many_requests_that_nobody_can_answer_are_no_outage() -> None:
    world = World(lambda messages: DOWN if messages == POISON else GOOD, concurrency=8)
    world.ask()
    with ThreadPoolExecutor(8) as threads:
        failures = list(threads.map(lambda _: world.fails(messages=POISON), range(24)))
    assert not any(isinstance(failure, EndpointError) and failure.is_fatal for failure in failures)


@pytest.mark.parametrize("concurrency", [1, 2, 4, 16])
@pytest.mark.parametrize("fault", [DOWN, BROKEN], ids=["error", "page"])
def test_an_outage_fails_no_row_and_costs_few_calls(fault: EndpointError, concurrency: int) -> None:
    world = World(
        lambda messages: GOOD if world.now < 10 or world.now > 40 else fault, concurrency=concurrency
    )
    world.ask()
    world.now = 11
    with ThreadPoolExecutor(concurrency) as threads:
        answers = list(threads.map(lambda _: world.ask(), range(4 * concurrency)))
    assert {answer.text for answer in answers} == {"1"}
    assert world.budget.spent.calls <= 1 + 4 * concurrency + 2 * concurrency + 12


def test_a_row_that_only_gets_nonsense_is_unparsed_after_one_look_at_the_endpoint() -> None:
    world = World(lambda messages: BROKEN if messages == POISON else GOOD, concurrency=1)
    world.ask()
    assert (world.ask(POISON).text, world.budget.spent.calls) == ("", 6)


def test_an_outage_is_probed_with_a_question_of_ours_for_one_token() -> None:
    world = World(lambda messages: GOOD if world.now < 10 or world.now > 40 else DOWN, concurrency=1)
    asked: list[Options] = []
    complete = world.script.complete
    world.script.complete = lambda messages, options=Options(): (  # type: ignore[method-assign]
        asked.append(options) or complete(messages, options)
    )
    world.ask()
    world.now = 11
    world.ask(POISON)
    probes = [options for options, call in zip(asked, world.script.calls, strict=True) if call == [*PROBE]]
    assert len(probes) >= 2
    assert {options.max_output_tokens for options in probes} == {1}
    # The row itself is sent until the outage is known, and once when it is over.
    assert world.script.calls.count(POISON) == 4
    assert world.script.calls[-2:] == [[*PROBE], POISON]
    assert world.script.calls.count(ASK) == 1


def test_the_length_of_a_request_is_estimated_once_for_all_attempts(monkeypatch: pytest.MonkeyPatch) -> None:
    estimated: list[object] = []
    monkeypatch.setattr(demand, "estimate_tokens", lambda text: estimated.append(text) or 7)
    World([BUSY, DOWN, DROPPED, GOOD]).ask()
    assert estimated == [ASK]


@pytest.mark.parametrize("concurrency", [1, 4, 16])
def test_of_an_endpoint_that_is_gone_all_hear_at_once(concurrency: int) -> None:
    world = World(lambda messages: GOOD if world.now < 10 else DOWN, concurrency=concurrency)
    world.ask()
    world.now = 11
    with ThreadPoolExecutor(concurrency) as threads:
        failures = list(threads.map(lambda _: world.fails(), range(concurrency)))
    assert all(isinstance(failure, EndpointError) and failure.is_fatal for failure in failures)
    assert world.budget.spent.calls <= 1 + 2 * concurrency + 20


def test_an_endpoint_that_is_not_ready_yet_is_waited_for() -> None:
    """llama.cpp and vLLM answer 503 while they load the model."""
    world = World(lambda messages: GOOD if world.now > 40 else NOT_READY, concurrency=16)
    with ThreadPoolExecutor(16) as threads:
        answers = list(threads.map(lambda _: world.ask(), range(16)))
    assert {answer.text for answer in answers} == {"1"}
    assert world.budget.spent.calls <= 50


def test_where_no_call_is_left_to_ask_with_a_row_that_is_paid_for_asks() -> None:
    world = World(
        lambda messages: GOOD if world.now < 1 or world.now > 3 else DOWN, concurrency=4, max_calls=41
    )
    world.ask()
    world.now = 1
    with world.budget.block(40), ThreadPoolExecutor(4) as threads:
        done = list(threads.map(lambda _: world.tries(), range(40)))
    failures = [found for found in done if isinstance(found, EndpointError)]
    assert not any(failure.is_fatal for failure in failures)
    assert len(failures) <= 8
    assert world.budget.spent.calls <= 41


def test_a_cap_that_is_reached_while_an_endpoint_is_out_is_the_caps_end() -> None:
    world = World([GOOD] + [DOWN] * 30, concurrency=1, max_calls=4)
    world.ask()
    assert not world.fails().is_fatal  # type: ignore[attr-defined]
    with pytest.raises(BudgetExhausted):
        world.ask()
    assert world.budget.spent.calls == 4


def test_an_endpoint_is_given_the_time_that_it_asks_for_once() -> None:
    busy = EndpointError("HTTP 503", status=503, retry_after_s=90)
    world = World(lambda messages: GOOD if world.now < 10 or world.now > 100 else busy, concurrency=1)
    world.ask()
    world.now = 10
    assert world.ask().text == "1"
    assert world.now <= 200
    assert world.budget.spent.calls <= 8


def test_one_that_always_asks_for_more_time_is_gone() -> None:
    busy = EndpointError("HTTP 503", status=503, retry_after_s=90)
    world = World(lambda messages: GOOD if world.now < 10 else busy, concurrency=1)
    world.ask()
    world.now = 10
    assert world.fails().is_fatal  # type: ignore[attr-defined]
    assert world.now <= 400


def test_a_first_request_that_nobody_can_answer_is_one_row() -> None:
    world = World(lambda messages: GOOD if messages == ASK else DOWN, concurrency=1)
    assert not world.fails(messages=POISON).is_fatal  # type: ignore[attr-defined]
    assert world.ask().text == "1"


def test_an_endpoint_that_was_gone_is_asked_again_by_whom_comes_later() -> None:
    world = World(lambda messages: GOOD if world.now < 10 or world.now > 500 else DOWN, concurrency=1)
    world.ask()
    world.now = 10
    assert world.fails().is_fatal  # type: ignore[attr-defined]
    world.now = 501
    assert world.ask().text == "1"


def test_one_that_asks_for_fewer_requests_is_no_outage() -> None:
    world = World([GOOD, DOWN, DOWN, DOWN, BUSY, GOOD], concurrency=1)
    world.ask()
    assert world.ask().text == "1"


def test_empty_answers_are_retried_twice_and_paid() -> None:
    world = World([EMPTY] * 5)
    completion = world.ask()
    assert (completion.text, completion.attempts) == ("", 3)
    assert completion.usage == Usage(6, 0, 6.0)
    assert world.budget.spent.usage == Usage(6, 0, 6.0)


@pytest.mark.parametrize("why", ["content_filter", "refusal"])
def test_what_a_filter_or_a_model_refused_is_not_asked_again(why: str) -> None:
    world = World([Completion("", Usage(2, 0), finish_reason=why), GOOD])
    completion = world.ask()
    assert (completion.text, completion.attempts) == ("", 1)


def test_broken_answers_are_retried_twice_and_then_unparsed() -> None:
    world = World([GOOD, BROKEN, EMPTY, BROKEN, GOOD])
    world.ask()
    completion = world.ask()
    assert (completion.text, completion.attempts) == ("", 3)


def test_a_page_before_other_failures_makes_no_answer_of_a_lost_row() -> None:
    """Scored as a wrong answer it would stay one: the journal keeps answers, and asks lost rows anew."""
    poison = iter([BROKEN] + [DOWN] * 20)
    world = World(lambda messages: GOOD if messages == ASK else next(poison))
    world.ask()
    assert "HTTP 500" in str(world.fails(messages=POISON))


def test_a_page_without_budget_for_a_retry_fails_the_row() -> None:
    assert "max_calls" in str(World([BROKEN, GOOD], max_calls=1).fails())


def test_a_model_that_said_nothing_before_other_failures_has_answered() -> None:
    poison = iter([BROKEN, EMPTY, SLOW, SLOW, SLOW])
    world = World(lambda messages: GOOD if messages == ASK else next(poison))
    world.ask()
    assert world.ask(POISON).text == ""


def test_an_endpoint_that_only_ever_answers_nonsense_is_not_one() -> None:
    failure = World([BROKEN] * 5).fails()
    assert isinstance(failure, EndpointError)
    assert failure.is_fatal
    assert "base URL" in str(failure)


@pytest.mark.parametrize(
    "error",
    [
        AuthenticationError("key"),
        RequestRefusedError("too long", status=400),
        QuotaError("empty", status=429, is_fatal=True),
    ],
)
def test_what_will_not_pass_is_not_tried_again(error: ModelError) -> None:
    world = World([error, GOOD])
    assert world.fails(type(error)).attempts == 1
    assert world.waits == []


def test_a_refused_parameter_is_sent_no_more() -> None:
    world = World([RequestRefusedError("no seed", status=400, parameter="seed"), GOOD])
    assert world.ask().attempts == 2
    assert world.client.dropped_parameters == ("seed",)
    assert "seed" not in world.parameters.of(Options(seed=1))


def test_a_parameter_that_was_never_sent_was_not_refused() -> None:
    parameters = Parameters("grammar")
    client = LimitedClient(
        ScriptedClient([GOOD]),
        budget=BudgetMeter(),
        gate=Gate(1),
        parameters=parameters,
        traits=LearnedTraits(said=lambda _: Traits(refused=("seed",))),
    )
    assert parameters.dropped == ("seed",)
    assert client.dropped_parameters == ()


def test_nobody_there_is_fatal_within_seconds_and_costs_no_call() -> None:
    world = World([AWAY] * 20)
    failure = world.fails()
    assert isinstance(failure, EndpointError)
    assert failure.is_fatal
    assert "model='local'" in str(failure)
    assert world.now <= 8
    assert world.budget.spent.calls == 0


def test_a_model_that_is_not_there_is_fatal_until_one_answer_came() -> None:
    missing = RequestRefusedError("no such model", status=404)
    failure = World([missing]).fails()
    assert isinstance(failure, EndpointError)
    assert failure.is_fatal
    world = World([GOOD, missing])
    world.ask()
    world.fails(RequestRefusedError)


@pytest.mark.parametrize("error", [AWAY, DROPPED, DOWN])
def test_an_endpoint_that_dies_ends_the_run_after_a_minute(error: EndpointError) -> None:
    world = World([GOOD] + [error] * 100)
    world.ask()
    failures = []
    while world.now < 300 and not any(failure.is_fatal for failure in failures):
        failure = world.fails()
        assert isinstance(failure, EndpointError)
        failures.append(failure)
    assert failures[-1].is_fatal
    assert 60 <= world.now <= 120


def test_a_retry_without_budget_fails_the_row_not_the_run() -> None:
    world = World([DOWN, GOOD], max_calls=1)
    failure = world.fails(EndpointError)
    assert "max_calls" in str(failure)
    assert "HTTP 500" in str(failure)
    with pytest.raises(BudgetExhausted):
        world.ask()
    assert world.budget.spent.calls == len(world.script.calls) == 1


def test_an_empty_answer_without_budget_for_a_retry_is_unparsed() -> None:
    assert World([EMPTY], max_calls=1).ask().text == ""


def test_too_many_requests_halve_what_is_sent_at_once() -> None:
    world = World([BUSY, BUSY, GOOD], concurrency=16)
    world.ask()
    assert world.gate.limit == 4


def test_close_ends_every_wait() -> None:
    gate = Gate(1)
    script = ScriptedClient(lambda messages: close_and_fail())
    client = LimitedClient(script, budget=BudgetMeter(), gate=gate)

    def close_and_fail() -> Answer:
        client.close()
        return EndpointError("busy", status=429, retry_after_s=100)

    with pytest.raises(Interrupted):
        client.complete(ASK)
    with pytest.raises(Interrupted):
        client.complete(ASK)


def test_a_storm_of_429_ends_with_the_time_of_the_run() -> None:
    """Each of them asked to wait for a minute, and the run went on for minutes beyond its limit."""
    busy = EndpointError("busy", status=429, retry_after_s=60)
    world = World(lambda messages: busy, concurrency=4, max_seconds=90)
    with ThreadPoolExecutor(4) as threads:
        failures = list(threads.map(lambda n: world.fails_at_last([Message("user", str(n))]), range(8)))
    assert {type(failure) for failure in failures} <= {EndpointError, BudgetExhausted}
    assert any("max_seconds" in str(failure) for failure in failures)
    assert world.now <= 91
