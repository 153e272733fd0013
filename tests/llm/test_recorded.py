from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from autoprompt.errors import BudgetExhausted, EndpointError, RequestRefusedError
from autoprompt.llm import Options, ScriptedClient
from autoprompt.llm.kept.cache import ResponseCache
from autoprompt.llm.kept.journal import Journal
from autoprompt.llm.kept.recorded import RecordedClient
from autoprompt.llm.limits.admission import Gate
from autoprompt.llm.limits.budget import BudgetMeter
from autoprompt.llm.limits.fitting import FIRST_ROOM
from autoprompt.llm.limits.retry import LimitedClient
from autoprompt.llm.models import Shared, wrap
from autoprompt.llm.prices import Price
from autoprompt.llm.traits import LearnedTraits, Traits
from autoprompt.records import Message


def ask(text: str) -> list[Message]:
    return [Message("user", text)]


def echo(messages: list[Message]) -> str:
    return f"re: {messages[-1].content}"


class Runs:
    """Runs over one folder: `start` opens its journal and the cache, as a process would."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self.folder, self.stack = folder, stack
        self.script = ScriptedClient(echo, identity="echo")
        self.budget = BudgetMeter()
        self.journal: Journal | None = None
        self.cache: ResponseCache | None = None

    def start(self, *, run: str = "a", has_cache: bool = True, **caps: Any) -> RecordedClient:
        self.journal = Journal(self.folder / run / "journal.jsonl")
        self.stack.callback(self.journal.close)
        if self.cache is not None:  # the run before has ended
            self.cache.close()
        self.cache = cache = ResponseCache(self.folder / "cache") if has_cache else None
        if cache is not None:
            self.stack.callback(cache.close)
        self.budget = BudgetMeter(**caps)
        return wrap(self.script, Shared(self.budget, self.journal, cache))


@pytest.fixture
def runs(tmp_path: Path) -> Iterator[Runs]:
    with ExitStack() as stack:
        yield Runs(tmp_path, stack)


def test_the_same_question_is_paid_once_in_a_run(runs: Runs) -> None:
    client = runs.start(has_cache=False)
    first, second = client.complete(ask("x")), client.complete(ask("x"))
    assert (first.source, first.attempts, second.source, second.attempts) == ("endpoint", 1, "journal", 0)
    assert (first.text, first.usage) == (second.text, second.usage)
    assert runs.budget.spent.calls == len(runs.script.calls) == 1


def test_another_run_is_served_by_the_cache_and_pays_nothing(runs: Runs) -> None:
    runs.start(run="a").complete(ask("x"))
    answer = runs.start(run="b").complete(ask("x"))
    assert (answer.source, answer.attempts, runs.budget.spent.calls) == ("cache", 0, 0)
    # Its journal has the answer too: a resume does not need the cache, and pays nothing either.
    answer = runs.start(run="b", has_cache=False).complete(ask("x"))
    assert (answer.source, runs.budget.spent.calls, runs.budget.spent.tokens) == ("journal", 0, 0)
    assert len(runs.script.calls) == 1


def test_an_answer_in_the_cache_was_journaled_before(runs: Runs, monkeypatch: pytest.MonkeyPatch) -> None:
    class Killed(BaseException):
        pass

    client = runs.start()

    def die(*args: object) -> None:
        raise Killed

    monkeypatch.setattr(ResponseCache, "put", die)
    with pytest.raises(Killed):
        client.complete(ask("x"))
    assert runs.journal is not None
    assert runs.journal.position == 1


def test_equal_questions_in_flight_are_sent_once(runs: Runs) -> None:
    all_asked = threading.Event()

    def slow(messages: list[Message]) -> str:
        all_asked.wait(5)
        return "1"

    runs.script = ScriptedClient(slow)
    client = runs.start()
    with ThreadPoolExecutor(6) as pool:
        asked = [pool.submit(client.complete, ask("x")) for _ in range(6)]
        all_asked.set()
    answers = [future.result() for future in asked]
    assert {answer.text for answer in answers} == {"1"}
    assert sum(answer.attempts for answer in answers) == len(runs.script.calls) == 1


def test_those_who_wait_for_a_request_are_told_that_it_failed(runs: Runs) -> None:
    all_asked = threading.Event()

    def slow(messages: list[Message]) -> str:
        all_asked.wait(5)
        raise EndpointError("gone", is_fatal=True)

    client = wrap(ScriptedClient(slow), Shared(BudgetMeter()))
    with ThreadPoolExecutor(6) as pool:
        asked = [pool.submit(client.complete, ask("x")) for _ in range(6)]
        all_asked.set()
    assert {str(future.exception()) for future in asked} == {"gone"}


def test_a_cached_answer_costs_what_it_would_cost_now(tmp_path: Path) -> None:
    def cost(price: Price | None) -> float | None:
        model = ScriptedClient(lambda _: "1", identity="m")
        client = wrap(model, Shared(BudgetMeter(), cache=ResponseCache(tmp_path)), price=price)
        return client.complete(ask("x")).usage.cost_usd

    assert cost(None) is None
    first = cost(Price(1.0, 1.0))
    assert first is not None
    assert first > 0
    assert cost(Price(1000.0, 1000.0)) == pytest.approx(1000 * first)


def test_an_empty_answer_stays_in_its_run(runs: Runs) -> None:
    runs.script = ScriptedClient([""] * 6)
    client = runs.start(run="a")
    assert client.complete(ask("x")).text == ""
    assert client.complete(ask("x")).source == "journal"
    runs.start(run="b").complete(ask("x"))
    assert len(runs.script.calls) == 6


def is_number(text: str) -> bool:
    return text.isdigit()


def test_an_answer_of_no_use_stays_in_its_run(runs: Runs) -> None:
    runs.script = ScriptedClient(["warming up", "5"], identity="echo")
    grade = Options(is_useful=is_number)
    client = runs.start(run="a")
    assert client.complete(ask("x"), grade).text == client.complete(ask("x"), grade).text == "warming up"
    assert runs.start(run="a").complete(ask("x"), grade).source == "journal"
    assert runs.start(run="b").complete(ask("x"), grade).text == "5"
    assert runs.start(run="c").complete(ask("x"), grade).source == "cache"


def test_an_answer_of_no_use_that_is_in_the_cache_gives_way(runs: Runs) -> None:
    """A run that took any text has kept it, and another one reads it for a number."""
    runs.script = ScriptedClient(["warming up", "5"], identity="echo")
    runs.start(run="a").complete(ask("x"))
    for run, source in (("b", "endpoint"), ("c", "cache")):
        answer = runs.start(run=run).complete(ask("x"), Options(is_useful=is_number))
        assert (answer.text, answer.source) == ("5", source)


def test_answers_of_no_use_that_ended_a_run_are_asked_anew_and_counted(runs: Runs) -> None:
    runs.script = ScriptedClient(["warming up", "5", "4"])
    grade = Options(role="judge", is_useful=is_number)
    client = runs.start(has_cache=False)
    client.complete(ask("x"), grade)
    client.complete(ask("y"), grade)
    assert runs.journal is not None
    runs.journal.ask_anew("judge")
    client = runs.start(has_cache=False)
    runs.journal.charge_dropped(runs.budget)
    assert client.complete(ask("x"), grade).text == "4"
    assert client.complete(ask("y"), grade).source == "journal"
    assert runs.budget.spent.judge_calls == len(runs.script.calls) == 3


def test_failed_requests_stay_counted_after_a_resume(runs: Runs) -> None:
    runs.script = ScriptedClient([RequestRefusedError("too long", status=400), "1"])
    client = runs.start()
    with pytest.raises(RequestRefusedError):
        client.complete(ask("x"))
    assert runs.start().complete(ask("x")).text == "1"
    assert runs.budget.spent.calls == len(runs.script.calls) == 2


def search(
    client: RecordedClient, budget: BudgetMeter, state: dict[str, Any], journal: Journal
) -> Iterator[None]:
    """Blocks of rows until the budget ends, with a checkpoint after each; `yield` is where a kill may come.

    Some rows need retries, some questions come back in later blocks, and the row count of a block depends on
    what is left, as in a real search.
    """
    while True:
        number = state["block"]
        rows: Sequence[str] = [f"row {i}" for i in range(number, number + 5)]
        try:
            with budget.block(len(rows)):
                for row in rows:
                    answer = client.complete(ask(row), Options(seed=0))
                    state["answers"] = [*state["answers"], (number, answer.text, budget.calls_left())]
                    yield
        except BudgetExhausted:
            return
        state["block"] = number + 2
        state["saved"] = {
            "block": state["block"],
            "answers": state["answers"],
            "spent": budget.spent.to_dict(),
            "position": journal.position,
        }
        yield


def flaky(seen: dict[str, int]) -> ScriptedClient:
    """Every third row answers empty on its first request."""

    def answer(messages: list[Message]) -> str:
        row = messages[-1].content
        seen[row] = seen.get(row, 0) + 1
        return "" if int(row.split()[1]) % 3 == 0 and seen[row] == 1 else f"re: {row}"

    return ScriptedClient(answer)


def fresh_state() -> dict[str, Any]:
    return {"block": 0, "answers": []}


def test_a_killed_and_resumed_run_decides_like_one_that_was_not(runs: Runs) -> None:
    runs.script = flaky({})
    client = runs.start(run="whole", has_cache=False, max_calls=40)
    whole = fresh_state()
    assert runs.journal is not None
    steps = sum(1 for _ in search(client, runs.budget, whole, runs.journal))
    sent, spent = len(runs.script.calls), runs.budget.spent
    assert spent.calls == sent <= 40
    assert steps > 40

    for kill_at in range(1, steps):
        runs.script = flaky({})
        client = runs.start(run=f"killed {kill_at}", has_cache=False, max_calls=40)
        state = fresh_state()
        going = search(client, runs.budget, state, runs.journal)
        for _ in range(kill_at):
            next(going)
        going.close()

        saved = state.get("saved", {"block": 0, "answers": [], "spent": None, "position": 0})
        client = runs.start(run=f"killed {kill_at}", has_cache=False, max_calls=40)
        if saved["spent"] is not None:
            runs.budget.restore(saved["spent"])
        runs.journal.mark_counted(saved["position"])
        resumed = {"block": saved["block"], "answers": saved["answers"]}
        for _ in search(client, runs.budget, resumed, runs.journal):
            pass
        assert resumed["answers"] == whole["answers"]
        assert runs.budget.spent.calls == spent.calls
        assert runs.budget.spent.usage == spent.usage
        assert len(runs.script.calls) == sent  # nothing that was answered was sent again


def test_the_answer_of_a_cache_has_its_usage_for_reports(runs: Runs) -> None:
    first = runs.start(run="a").complete(ask("x"))
    assert runs.start(run="b").complete(ask("x")).usage == first.usage


@pytest.mark.parametrize(
    ("thinks_first", "options", "cap"),
    [
        (False, Options(max_output_tokens=1024, useful_tokens=64), 64),
        (False, Options(max_output_tokens=32, useful_tokens=64), 32),
        (False, Options(useful_tokens=64), 64),
        (False, Options(max_output_tokens=1024), 1024),
        (False, Options(), None),
        (True, Options(max_output_tokens=1024, useful_tokens=64), 1024 + FIRST_ROOM),
    ],
)
def test_useless_text_is_cut_where_no_thoughts_come_first(
    thinks_first: bool, options: Options, cap: int | None
) -> None:
    asked: list[int | None] = []

    def answer(messages: list[Message], options: Options) -> str:
        asked.append(options.max_output_tokens)
        return "yes"

    budget = BudgetMeter()
    traits = LearnedTraits("x", lambda _: Traits(thinks_first=thinks_first))
    limited = LimitedClient(ScriptedClient(answer), budget=budget, gate=Gate(1), traits=traits)
    client = RecordedClient(limited, endpoint="x", constrain="off", budget=budget)
    client.complete(ask("x"), options)
    assert asked == [cap]
