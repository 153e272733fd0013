"""Models of one's own, and scripted ones."""

from __future__ import annotations

import asyncio
import json
import math
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from typing import Any

import numpy as np
import pytest

from autoprompt.errors import EndpointError, InputError
from autoprompt.llm.adapter import Models, OwnClient, ScriptedClient
from autoprompt.llm.client import Completion, Options
from autoprompt.llm.kept.cache import to_record
from autoprompt.llm.limits.budget import BudgetMeter
from autoprompt.llm.models import RoleModels
from autoprompt.llm.transport.failures import OwnClientError
from autoprompt.measure.program import PromptProgram
from autoprompt.measure.rows import evaluate
from autoprompt.metrics.texts import ExactMatch
from autoprompt.records import Candidate, Example, Message, Usage
from autoprompt.settings.records import ModelSettings
from autoprompt.text.scripts import estimate_tokens


class Saying:
    """A client that gives this completion."""

    name = "mine"

    def __init__(self, completion: Completion) -> None:
        self._completion = completion

    def complete(self, messages: Sequence[Message], options: Options = Options()) -> Completion:
        return self._completion

    def close(self) -> None:
        """Nothing is held."""


def asked(**parts: Any) -> Completion:
    return OwnClient(Saying(Completion("1", **parts))).complete([Message("user", "?")])


def test_all_that_a_client_says_of_its_tokens_counts() -> None:
    usage = Usage(100, 10, 0.5, 80, 5, 3, 0.25, 1.5, 2.5)
    assert asked(usage=usage).usage == usage


@pytest.mark.parametrize(
    "parts",
    [
        {"usage": Usage(np.int64(3), np.int64(4), Decimal("0.5"))},  # type: ignore[arg-type]
        {"usage": Usage(3, 4, np.float64(0.5)), "label_probs": {"1": np.float32(1.0)}},
        {"usage": Usage(3, 4, 0.5), "finish_reason": None, "model": None, "latency_s": None},
    ],
)
def test_numbers_and_gaps_of_other_packages_are_plain(parts: dict[str, Any]) -> None:
    completion = asked(**parts)
    assert completion.usage == Usage(3, 4, 0.5)
    assert json.loads(json.dumps(to_record(completion), allow_nan=False))["cost_usd"] == 0.5


@pytest.mark.parametrize(
    "parts",
    [
        {"usage": Usage(None, None)},  # type: ignore[arg-type]
        {"usage": Usage(1, 2, math.nan)},
        {"label_probs": [0.5, 0.5]},
        {"label_probs": {"1": None}},
    ],
)
def test_what_is_no_number_is_said(parts: dict[str, Any]) -> None:
    with pytest.raises(OwnClientError, match=r"client mine returned .* expected numbers, and a cost of None"):
        asked(**parts)


ASK = [Message("system", "Say the label."), Message("user", "a headline")]


def test_a_list_is_answered_in_order_and_then_says_what_was_asked() -> None:
    client = ScriptedClient(["1", "0"])
    assert [client.complete(ASK).text, client.complete(ASK).text] == ["1", "0"]
    with pytest.raises(InputError, match=r"2 answers.*'a headline'"):
        client.complete(ASK)
    assert client.calls == [ASK, ASK, ASK]


def test_a_dict_answers_by_the_last_message() -> None:
    client = ScriptedClient({"a headline": "1"})
    assert client.complete(ASK).text == "1"
    with pytest.raises(InputError, match="no answer to 'other'"):
        client.complete([Message("user", "other")])


def test_a_function_may_take_messages_alone_or_options_too() -> None:
    assert ScriptedClient(lambda messages: messages[-1].content).complete(ASK).text == "a headline"
    told = ScriptedClient(lambda messages, options: str(options.sample))
    assert told.complete(ASK, Options(sample=3)).text == "3"


def test_listed_exceptions_are_raised_and_completions_pass_through() -> None:
    whole = Completion("x", attempts=7)
    client = ScriptedClient([EndpointError("down", status=503), whole])
    with pytest.raises(EndpointError, match="down"):
        client.complete(ASK)
    assert client.complete(ASK) is whole


def test_usage_depends_on_the_texts_alone() -> None:
    first, second = (ScriptedClient(["12345678"]).complete(ASK).usage for _ in range(2))
    assert first == second
    assert (first.prompt_tokens, first.completion_tokens) == (estimate_tokens(ASK), 2)


def test_a_new_sequence_replaces_the_script() -> None:
    client = ScriptedClient(lambda messages, options: "old")
    client.set_response_sequence(["new"])
    assert client.complete(ASK).text == "new"


def test_threads_get_each_answer_once() -> None:
    client = ScriptedClient([str(i) for i in range(200)])
    with ThreadPoolExecutor(8) as pool:
        texts = list(pool.map(lambda _: client.complete(ASK).text, range(200)))
    assert sorted(texts, key=int) == [str(i) for i in range(200)]


def test_a_client_may_answer_without_a_thread_for_each_request() -> None:
    class Waiting:
        """Answers nobody before three have asked."""

        name = "mine"

        def __init__(self) -> None:
            self.asked, self.loops = 0, set[int]()
            self._all_there: asyncio.Event | None = None

        async def acomplete(self, messages: Sequence[Message], options: Options) -> Completion:
            self._all_there = self._all_there or asyncio.Event()
            self.asked += 1
            self.loops.add(threading.get_ident())
            if self.asked == 3:
                self._all_there.set()
            await asyncio.wait_for(self._all_there.wait(), 10)
            return Completion("1")

    inner = Waiting()
    models = Models(inner)  # type: ignore[arg-type]
    with RoleModels(ModelSettings(), models, budget=BudgetMeter()) as opened:
        program = PromptProgram(opened.client("task"), "P", labels=("0", "1"))
        rows = [Example(f"r{n}", f"{n}", "1", {"input": f"{n}"}) for n in range(4)]
        # The first request of a role goes alone.
        inner.asked = 2
        result = evaluate(program, Candidate({"prompt": "P"}), rows[:1], ExactMatch(), concurrency=3)
        inner.asked, inner._all_there = 0, None
        result = evaluate(program, Candidate({"prompt": "P"}), rows[1:], ExactMatch(), concurrency=3)
    assert [row.prediction for row in result.rows] == ["1"] * 3
    assert len(inner.loops) == 1
    assert threading.get_ident() not in inner.loops


def test_a_client_that_cancels_itself_has_failed_that_request() -> None:
    class Cancelling:
        name = "mine"

        async def acomplete(self, messages: Sequence[Message], options: Options) -> Completion:
            raise asyncio.CancelledError("its timeout")

    with pytest.raises(OwnClientError, match="client mine raised CancelledError: its timeout"):
        OwnClient(Cancelling()).complete(ASK)  # type: ignore[arg-type]
