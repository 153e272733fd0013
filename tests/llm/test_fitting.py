from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import pytest

from autoprompt.errors import RequestRefusedError
from autoprompt.llm.adapter import ScriptedClient
from autoprompt.llm.client import CallRole, Completion, Options
from autoprompt.llm.limits.admission import Gate
from autoprompt.llm.limits.budget import BudgetMeter
from autoprompt.llm.limits.fitting import FIRST_ROOM, LARGEST, LEAST_PLAIN, MORE
from autoprompt.llm.limits.retry import LimitedClient
from autoprompt.llm.traits import LearnedTraits, Traits
from autoprompt.llm.transport.wire import Parameters
from autoprompt.records import Message, Usage

LABEL = Options(max_output_tokens=32)


def ask(text: str = "x") -> list[Message]:
    return [Message("system", "s"), Message("user", text)]


class Thinker:
    """A model that thinks `thoughts` tokens and then answers; `shows` says how a client sees the thoughts."""

    def __init__(self, thoughts: int | Callable[[str], int], shows: str = "hidden") -> None:
        self._thoughts, self._shows = thoughts, shows
        self.limits: list[int] = []
        self.cut = 0
        self._lock = threading.Lock()

    def __call__(self, messages: list[Message], options: Options) -> Completion:
        limit = options.max_output_tokens
        assert limit is not None
        thoughts = self._thoughts if isinstance(self._thoughts, int) else self._thoughts(messages[-1].content)
        is_cut = thoughts and limit < thoughts + 8
        with self._lock:
            self.limits.append(limit)
            self.cut += bool(is_cut)
        written = limit if is_cut else thoughts + 2
        text, reason = ("", "length") if is_cut else ("billing", "stop")
        if self._shows == "tags":
            said = "hm " * (written // 2)
            text = f"<think>{said}" + ("" if is_cut else f"</think>{text}")
        if self._shows == "closing tag":
            text = "hm " * (written // 2) + ("" if is_cut else f"</think>{text}")
        if self._shows == "silent" and is_cut:
            reason = "stop"
        has_thoughts = self._shows == "field" and thoughts > 0
        return Completion(text, Usage(20, written), finish_reason=reason, has_thoughts=has_thoughts)


class World:
    def __init__(
        self,
        answer: Callable[[list[Message], Options], Any] | Sequence[Any],
        *,
        concurrency: int = 16,
        traits: Traits | None = None,
        **caps: int,
    ) -> None:
        self.budget = BudgetMeter(**caps)
        self.traits = LearnedTraits("m", lambda _: traits or Traits())
        self.client = LimitedClient(
            ScriptedClient(answer),
            budget=self.budget,
            gate=Gate(concurrency),
            parameters=Parameters("off"),
            traits=self.traits,
        )

    def ask(self, text: str = "x", options: Options = LABEL) -> Completion:
        return self.client.complete(ask(text), options)

    def ask_many(self, count: int) -> list[str]:
        with ThreadPoolExecutor(count) as threads:
            return list(threads.map(lambda n: self.ask(str(n)).text, range(count)))


@pytest.mark.parametrize("shows", ["hidden", "tags", "field", "silent"])
@pytest.mark.parametrize("role", ["task", "optimizer", "judge"])
def test_an_answer_that_its_thoughts_left_no_room_for_is_asked_with_more(role: CallRole, shows: str) -> None:
    model = Thinker(10_000, shows)
    world = World(model)
    options = replace(LABEL, role=role)
    answer = world.ask(options=options)
    first = 32 + FIRST_ROOM
    assert answer.text.endswith("billing")
    assert answer.attempts == 2
    assert answer.usage.completion_tokens == first + 10_002
    assert model.limits == [first, 32 + MORE * first]
    assert world.budget.spent.calls == 2
    world.ask("y", options)
    assert min(model.limits[2:]) > first  # never again with the same limit
    assert model.cut == 1


def test_thoughts_whose_tag_the_prompt_opened_are_known_by_its_end() -> None:
    model = Thinker(lambda text: 10_000 if text == "hard" else 100, "closing tag")
    world = World(model)
    assert world.ask("easy").text.endswith("</think>billing")
    assert world.traits.of("task").thinks_first is True
    assert world.ask("hard").text.endswith("</think>billing")


def test_of_many_requests_one_finds_out() -> None:
    model = Thinker(20_000)
    assert World(model).ask_many(16) == ["billing"] * 16
    assert model.cut == 1


def test_a_model_that_thinks_now_and_then_loses_no_answer() -> None:
    model = Thinker(lambda text: 3000 if int(text) % 20 == 19 else 0)
    world = World(model, concurrency=1)
    assert [world.ask(str(n)).text for n in range(60)] == ["billing"] * 60
    assert world.traits.of("task").thinks_first is True
    assert model.cut == 1


def test_a_model_that_does_not_think_is_cut_where_the_caller_wants_it() -> None:
    model = Thinker(0)
    world = World(model, concurrency=1)
    for n in range(20):
        world.ask(str(n))
    assert model.limits[0] == 32 + FIRST_ROOM
    assert model.limits[-1] == LEAST_PLAIN
    assert model.limits.count(LEAST_PLAIN) > 10
    world.ask("long", Options(max_output_tokens=1024))
    assert model.limits[-1] == 1024


def test_a_model_that_rambles_is_not_given_more() -> None:
    def loop(messages: list[Message], options: Options) -> Completion:
        limit = options.max_output_tokens or 0
        return Completion("1\n" * (limit // 2), Usage(20, limit), finish_reason="length")

    answer = World(loop).ask()
    assert answer.attempts == 1
    assert answer.is_cut


def test_a_talkative_model_keeps_its_room() -> None:
    def talk(messages: list[Message], options: Options) -> Completion:
        return Completion("I think it is billing. " * 40, Usage(20, 240), finish_reason="stop")

    world = World(talk, concurrency=1)
    for n in range(20):
        world.ask(str(n))
    assert world.traits.of("task").thinks_first is None


def test_a_limit_of_the_users_own_is_sent_as_it_is() -> None:
    model = Thinker(1000)
    answer = World(model).ask(options=Options(max_output_tokens=300, is_limit_given=True))
    assert (answer.text, answer.finish_reason, answer.attempts) == ("", "length", 1)
    assert model.limits == [300]


def test_a_model_that_is_known_not_to_think_is_asked_as_before() -> None:
    model = Thinker(0)
    World(model, traits=Traits(thinks_first=False)).ask()
    assert model.limits == [32]


def test_there_is_an_end_to_it() -> None:
    model = Thinker(10**7)
    answer = World(model).ask()
    assert (answer.text, answer.is_cut) == ("", True)
    assert model.limits == [32 + FIRST_ROOM, 32 + MORE * (32 + FIRST_ROOM), LARGEST]


def test_a_budget_that_has_no_call_left_keeps_what_there_is() -> None:
    answer = World(Thinker(10_000), max_calls=1).ask()
    assert (answer.text, answer.is_cut, answer.attempts) == ("", True, 1)


def refusing(most: int, model: Thinker, *, window: int | None = None) -> Callable[..., Any]:
    """The model behind an endpoint that takes limits up to `most`."""

    def answer(messages: list[Message], options: Options) -> Completion:
        limit = options.max_output_tokens or 0
        if limit > most:
            raise RequestRefusedError("too large", status=400, most_tokens=most, window_tokens=window)
        return model(messages, options)

    return answer


def test_the_largest_limit_that_an_endpoint_names_is_sent() -> None:
    model = Thinker(1000)
    world = World(refusing(2048, model))
    assert world.ask().text == "billing"
    world.ask("y")
    assert model.limits == [2048, 2048]
    world.ask("z", replace(LABEL, role="optimizer"))
    assert world.budget.spent.calls == 4  # of a role that asks later, nothing is refused


def test_a_limit_of_the_users_own_that_is_too_large_is_cut_to_it() -> None:
    model = Thinker(0)
    World(refusing(2048, model)).ask(options=Options(max_output_tokens=9999, is_limit_given=True))
    assert model.limits == [2048]


def test_a_limit_that_is_refused_without_a_word_is_taken_back() -> None:
    def answer(messages: list[Message], options: Options) -> Completion:
        if (options.max_output_tokens or 0) > 500:
            raise RequestRefusedError("Bad Request", status=400)
        return Completion("billing", Usage(20, 2), finish_reason="stop")

    world = World(answer)
    assert world.ask_many(16) == ["billing"] * 16
    assert world.budget.spent.calls == 17


@pytest.mark.parametrize(("takes", "thoughts"), [(600, 300), (1100, 900), (4096, 1000), (5000, 4000)])
@pytest.mark.parametrize("named", [False, True])
def test_of_a_limit_that_is_refused_in_words_half_is_tried_until_it_is_taken(
    takes: int, thoughts: int, named: bool
) -> None:
    """named: whether the refusal says that it means the limit, without saying how much is taken."""
    model = Thinker(thoughts)

    def answer(messages: list[Message], options: Options) -> Completion:
        limit = options.max_output_tokens or 0
        if limit > takes:
            most = limit // 2 if named else None
            raise RequestRefusedError("output budget exceeded", status=413, most_tokens=most)
        return model(messages, options)

    world = World(answer)
    assert world.ask_many(16) == ["billing"] * 16
    assert thoughts < (world.traits.of("task").largest_output or 0) <= takes
    assert model.cut <= 1  # the one with what was asked for: is it the limit?
    before = world.budget.spent.calls
    assert before <= 4 * 16  # at worst all are on their way together, and each meets all three refusals
    assert world.ask("one more").text == "billing"
    assert world.budget.spent.calls == before + 1  # what was learned is not learned again


def test_a_limit_that_is_not_to_blame_is_kept() -> None:
    """The endpoint takes no system message, and does not say so."""
    parameters = Parameters("off")
    limits: list[int | None] = []

    def answer(messages: list[Message], options: Options) -> Completion:
        limits.append(options.max_output_tokens)
        return plain_endpoint(None, parameters)(messages, options)

    world = World([])
    client = LimitedClient(
        ScriptedClient(answer), budget=world.budget, gate=Gate(1), parameters=parameters, traits=world.traits
    )
    client.complete(ask(), LABEL)
    assert limits == [32 + FIRST_ROOM, 32, 32 + FIRST_ROOM]
    assert world.traits.of("task").largest_output is None


def test_a_writer_keeps_its_room() -> None:
    """So that what a model writes does not depend on when its limit changed."""
    model = Thinker(lambda _: 4000)
    world = World(model, concurrency=1)
    for n in range(12):
        world.ask(str(n), Options(role="optimizer", max_output_tokens=300))
    assert set(model.limits) == {300 + FIRST_ROOM}


def test_room_that_is_nearly_used_up_grows() -> None:
    model = Thinker(5000)
    world = World(model, concurrency=1)
    for n in range(2):
        world.ask(str(n))
    first = 32 + FIRST_ROOM
    assert model.limits == [first, 32 + MORE * first]
    assert model.cut == 0


def test_a_window_leaves_what_the_prompt_does_not_take() -> None:
    model = Thinker(1000)
    world = World(refusing(3000, model, window=4096))
    assert world.ask().text == "billing"
    assert model.limits == [3000]


def test_a_request_that_is_too_long_in_any_case_stays_refused() -> None:
    def refuse(messages: list[Message], options: Options) -> Completion:
        raise RequestRefusedError("too long", status=400, window_tokens=10)

    world = World(refuse)
    with pytest.raises(RequestRefusedError):
        world.ask()
    assert world.budget.spent.calls <= 2


def plain_endpoint(parameter: str | None, parameters: Parameters) -> Callable[..., Any]:
    """An endpoint that takes no system message, and says so or not."""

    def answer(messages: list[Message], options: Options) -> Completion:
        if any(message.role == "system" for message in parameters.turns(messages)):
            raise RequestRefusedError("no", status=400, parameter=parameter)
        return Completion("a", Usage(2, 1))

    return answer


@pytest.mark.parametrize("parameter", ["system", None])
def test_a_model_without_a_system_role_is_found_out_once(parameter: str | None) -> None:
    world = World([])
    parameters = Parameters("off")
    script = ScriptedClient(plain_endpoint(parameter, parameters))
    client = LimitedClient(
        script, budget=world.budget, gate=Gate(16), parameters=parameters, traits=world.traits
    )
    with ThreadPoolExecutor(16) as threads:
        texts = list(threads.map(lambda n: client.complete(ask(str(n)), LABEL).text, range(16)))
    assert texts == ["a"] * 16
    found_out = 1 if parameter else 2  # a limit that nobody asked for is looked into first
    assert len(script.calls) == 16 + found_out
    assert client.complete(ask(), replace(LABEL, role="optimizer")).text == "a"
    assert len(script.calls) == 17 + found_out
    assert world.traits.of("judge").has_system_role is False
    # A run that goes on knows it from the start.
    again = Parameters("off")
    LimitedClient(script, budget=world.budget, gate=Gate(1), parameters=again, traits=world.traits)
    assert again.dropped == ("system",)


@pytest.mark.parametrize("parameter", ["system", None])
def test_where_the_system_message_is_not_to_blame_it_is_sent_again(parameter: str | None) -> None:
    parameters = Parameters("off")

    def answer(messages: list[Message], options: Options) -> Completion:
        if messages[-1].content == "bad":
            raise RequestRefusedError("roles?", status=400, parameter=parameter)
        return Completion("a", Usage(2, 1))

    script, world = ScriptedClient(answer), World([])
    client = LimitedClient(
        script, budget=world.budget, gate=Gate(1), parameters=parameters, traits=world.traits
    )
    for _ in range(2):
        with pytest.raises(RequestRefusedError):
            client.complete(ask("bad"), LABEL)
    assert parameters.dropped == ()
    assert len(script.calls) == (3 if parameter else 4)  # looked into once
    assert client.complete(ask(), LABEL).text == "a"
    assert world.traits.of("task").has_system_role is True


def test_more_room_that_is_refused_without_a_word_leaves_what_there_was() -> None:
    model = Thinker(20_000)

    def answer(messages: list[Message], options: Options) -> Completion:
        if (options.max_output_tokens or 0) > 16_000:
            raise RequestRefusedError("Bad Request", status=400)
        return model(messages, options)

    world = World(answer, concurrency=1)
    found = world.ask()
    assert (found.text, found.is_cut, found.attempts) == ("", True, 4)
    assert world.ask("y").attempts == 1
    assert model.limits == [32 + FIRST_ROOM] * 2
