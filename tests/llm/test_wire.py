from __future__ import annotations

import math
from typing import Any

import pytest

from autoprompt.llm.client import Options
from autoprompt.llm.prices import Price, find_price
from autoprompt.llm.transport.address import shown_url
from autoprompt.llm.transport.failures import redact
from autoprompt.llm.transport.labels import deciding_tokens, label_grammar
from autoprompt.llm.transport.wire import LABELS_BEFORE_CUT, Parameters, read_answer
from autoprompt.records import Message, Usage

ASK = [Message("user", "aa or ab?")]


def reply(text: str) -> dict[str, Any]:
    return {"choices": [{"message": {"content": text}, "finish_reason": "length"}]}


def test_labels_are_literals_in_the_grammar() -> None:
    assert label_grammar(("a b", 'say "x"', "back\\slash", "two\nlines", "是")) == (
        r'root ::= "a b" | "say \"x\"" | "back\\slash" | "two\nlines" | "是"'
    )


@pytest.mark.parametrize(
    ("labels", "tokens"),
    [
        (("ham", "spam"), 1),
        (("Entity", "Expression", "Human"), 2),
        (("spam", "spam_not"), 5),  # whether it ends there
        (("a", "a"), 1),
        (("only",), 1),
        (("是", "否"), 4),  # bytes of a character, if the model knows it by its bytes alone
    ],
)
def test_an_answer_is_decided_a_token_after_what_two_labels_share(
    labels: tuple[str, ...], tokens: int
) -> None:
    assert deciding_tokens(labels) == tokens


def sure() -> Parameters:
    """Parameters of an endpoint that has kept to its grammar often enough."""
    parameters, options = Parameters("grammar"), Options(labels=("aa", "ab"))
    for _ in range(LABELS_BEFORE_CUT):
        parameters.read(reply("aa"), ASK, options, 0.0, parameters.of(options))
    return parameters


def test_the_callers_limit_holds_and_without_a_grammar_there_is_no_other() -> None:
    parameters = sure()
    assert parameters.of(Options(labels=("aa", "ab"), max_output_tokens=1))["max_tokens"] == 1
    assert parameters.of(Options(labels=("aa", "ab")))["max_tokens"] == 2
    parameters.drop("grammar")
    assert parameters.of(Options(labels=("aa", "ab"), max_output_tokens=9)) == {
        "temperature": 0.0,
        "max_tokens": 9,
    }


@pytest.mark.parametrize(
    ("labels", "text", "read"),
    [
        (("ham", "spam"), "s", "spam"),
        (("ham", "spam"), " h", "ham"),
        (("spam", "spam", "ham"), "sp", "spam"),
        (("spam", "spam_not"), "spam", "spam"),  # it could have gone on, and did not
        (("spam", "spam_not"), "spam_", "spam_not"),
        (("spam", "spam_not"), "sp", "sp"),
        (("是的", "否"), "是\ufffd", "是的"),
        (("only",), "", ""),
    ],
)
def test_a_cut_label_is_whole_again(labels: tuple[str, ...], text: str, read: str) -> None:
    parameters = sure()
    options = Options(labels=labels)
    completion = parameters.read(reply(text), ASK, options, 0.0, parameters.of(options))
    assert completion.text == read


def test_the_callers_own_limit_leaves_an_answer_as_it_is() -> None:
    parameters, options = sure(), Options(labels=("spam", "spam_not"), max_output_tokens=1)
    completion = parameters.read(reply("s"), ASK, options, 0.0, parameters.of(options))
    assert (completion.text, completion.finish_reason) == ("s", "length")


@pytest.mark.parametrize(
    "told",
    [
        [],
        [{"logprobs": "none"}],
        {"content": ["a"]},
        {"content": [{"token": "a", "logprob": None, "top_logprobs": [{"token": "b", "logprob": None}]}]},
    ],
)
def test_an_answer_is_not_lost_with_its_log_probabilities(told: Any) -> None:
    options = Options(labels=("a", "b"), wants_label_probs=True)
    choice = {"message": {"content": "a"}, "logprobs": told}
    completion = read_answer({"choices": [choice]}, ASK, options, 0.0)
    assert (completion.text, completion.label_probs) == ("a", None)


@pytest.mark.parametrize("counted", [math.inf, math.nan, "many", [3]])
def test_tokens_that_are_no_number_are_estimated(counted: Any) -> None:
    data = {**reply("a"), "usage": {"prompt_tokens": counted, "completion_tokens": 3}}
    assert read_answer(data, ASK, Options(), 0.0).usage == read_answer(reply("a"), ASK, Options(), 0.0).usage


def test_parts_of_an_answer_may_be_plain_texts() -> None:
    data = {"choices": [{"message": {"content": ["a", {"type": "text", "text": "b"}]}}]}
    assert read_answer(data, ASK, Options(), 0.0).text == "ab"


def test_a_refusal_is_the_answer_and_is_called_so() -> None:
    choice = {"message": {"content": None, "refusal": "I cannot help with a."}, "finish_reason": "stop"}
    completion = read_answer({"choices": [choice]}, ASK, Options(labels=("a", "b")), 0.0)
    assert (completion.text, completion.is_refusal) == ("I cannot help with a.", True)
    choice["message"] = {"content": "a", "refusal": "no"}
    assert read_answer({"choices": [choice]}, ASK, Options(), 0.0).text == "a"
    assert not read_answer(reply("a"), ASK, Options(), 0.0).is_refusal


def test_brackets_without_an_end_are_a_text() -> None:
    """As a small model writes them that repeats itself."""
    text = '{"answer":' + "[" * 100_000
    assert read_answer(reply(text), ASK, Options(labels=("a", "b")), 0.0).text == text


def test_only_what_is_wanted_is_sent() -> None:
    assert Parameters("grammar").of(Options()) == {"temperature": 0.0}
    assert Parameters("off").of(Options(labels=("a",))) == {"temperature": 0.0}


def test_dropped_parameters_are_left_out() -> None:
    parameters = Parameters("grammar")
    options = Options(max_output_tokens=5, labels=("a", "b"), wants_label_probs=True, seed=1)
    for name in ("max_tokens", "top_logprobs", "grammar", "seed", "temperature"):
        parameters.drop(name)
    assert parameters.of(options) == {"max_completion_tokens": 5}
    parameters.drop("max_completion_tokens")
    assert parameters.of(options) == {}


def test_addresses_are_shown_without_what_may_be_secret() -> None:
    assert shown_url("https://user:secret@host:1/v1?key=secret#x") == "https://host:1/v1"


@pytest.mark.parametrize(("key", "shown"), [("sk-123456", "bad key ***"), ("", "bad key sk-123456")])
def test_keys_are_cut_out_of_messages(key: str, shown: str) -> None:
    assert redact("bad key sk-123456", "https://host/v1", key) == shown


def test_prices_by_table_and_by_hand() -> None:
    known = find_price("gpt-4o-mini", "https://api.openai.com/v1")
    assert known is not None
    assert 0 < known.input_usd < known.output_usd
    assert find_price("gpt-4o-mini", "http://127.0.0.1:1/v1") is None
    assert find_price("no-such-model", "https://api.openai.com/v1") is None
    assert find_price("x", "http://a", price_input=2, price_output=6) == Price(2, 6)
    assert Price(2, 6).cost(Usage(1_000_000, 500_000)) == 5.0
