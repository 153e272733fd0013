"""One estimate of tokens for all who need one."""

from __future__ import annotations

from autoprompt.llm.client import Options
from autoprompt.llm.scripted import ScriptedClient
from autoprompt.llm.transport.wire import read_answer
from autoprompt.records import Message
from autoprompt.text.tokens import estimate_tokens

ASK = [Message("system", "标题党?"), Message("user", "abcd")]


def test_four_letters_or_one_sign_are_a_token() -> None:
    assert estimate_tokens("") == 0
    assert estimate_tokens("abcde") == 2
    assert estimate_tokens("标题党, ok") == 3 + 1
    assert estimate_tokens([Message("user", "abcd"), Message("user", "")]) == 9


def test_who_has_no_count_estimates_alike() -> None:
    data = {"choices": [{"message": {"content": "标题党"}}]}
    uncounted = read_answer(data, ASK, Options(), 0.0).usage
    scripted = ScriptedClient(["标题党"]).complete(ASK).usage
    assert uncounted == scripted
    assert (uncounted.prompt_tokens, uncounted.completion_tokens) == (estimate_tokens(ASK), 3)
