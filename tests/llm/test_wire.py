from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autoprompt.llm.client import Options
from autoprompt.llm.prices import Price, find_price, price_given
from autoprompt.llm.transport.address import shown_url
from autoprompt.llm.transport.failures import BrokenAnswerError, redact
from autoprompt.llm.transport.wire import (
    LABELS_BEFORE_CUT,
    MOST_WITH_PROBS,
    Parameters,
    deciding_tokens,
    label_grammar,
    read_answer,
)
from autoprompt.records import Message, Usage
from autoprompt.settings.records import ModelSettings

ASK = [Message("user", "aa or ab?")]


def reply(text: str) -> dict[str, Any]:
    return {"choices": [{"message": {"content": text}, "finish_reason": "length"}]}


def test_labels_are_literals_in_the_grammar() -> None:
    assert label_grammar(("a b", 'say "x"', "back\\slash", "two\nlines", "是")) == (
        r'root ::= "a b" | "back\\slash" | "say \"x\"" | "two\nlines" | "是"'
    )


def test_what_labels_share_at_the_beginning_is_written_once() -> None:
    assert label_grammar(("cat", "card", "card payment", "non", "nonsense", "x")) == (
        'root ::= "ca" ("rd" (" payment")? | "t") | "non" ("sense")? | "x"'
    )


@given(st.lists(st.text('abc("\\ |', min_size=1, max_size=6), min_size=1, max_size=12))
def test_a_grammar_takes_the_labels_and_nothing_else(labels: list[str]) -> None:
    assert sorted(sentences(label_grammar(tuple(labels)).removeprefix("root ::= "))) == sorted(set(labels))


def sentences(grammar: str) -> list[str]:
    """All texts that a grammar of literals, groups, `|` and `?` takes."""
    rest = grammar

    def alternatives() -> list[str]:
        nonlocal rest
        found = sequence()
        while rest.startswith(" | "):
            rest = rest[3:]
            found += sequence()
        return found

    def sequence() -> list[str]:
        nonlocal rest
        texts = [""]
        while rest and rest[0] in '"( ' and not rest.startswith(" | "):
            if rest[0] == " ":
                rest = rest[1:]
            elif rest[0] == '"':
                literal = re.match(r'"((?:[^"\\]|\\.)*)"', rest)
                assert literal
                rest = rest[literal.end() :]
                texts = [text + re.sub(r"\\(.)", r"\1", literal[1]) for text in texts]
            else:
                rest = rest[1:]
                inner = alternatives()
                rest = rest[1:]
                if rest.startswith("?"):
                    rest, inner = rest[1:], ["", *inner]
                texts = [text + end for text in texts for end in inner]
        return texts

    return alternatives()


def test_of_very_many_labels_no_probabilities_are_asked_for() -> None:
    few, many = (tuple(map(str, range(count))) for count in (MOST_WITH_PROBS, MOST_WITH_PROBS + 1))
    assert "logprobs" in Parameters("off").of(Options(labels=few, wants_label_probs=True))
    assert "logprobs" not in Parameters("off").of(Options(labels=many, wants_label_probs=True))


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


def test_what_is_no_answer_says_what_it_took() -> None:
    data = {"choices": [], "usage": {"prompt_tokens": 11, "completion_tokens": 3, "cost": 0.5}}
    with pytest.raises(BrokenAnswerError) as caught:
        read_answer(data, ASK, Options(), 0.0)
    assert caught.value.usage_of_answer == Usage(11, 3, billed_usd=0.5)


def test_parts_of_an_answer_may_be_plain_texts() -> None:
    data = {"choices": [{"message": {"content": ["a", {"type": "text", "text": "b"}]}}]}
    assert read_answer(data, ASK, Options(), 0.0).text == "ab"


def test_a_refusal_is_the_answer_and_is_called_so() -> None:
    choice = {"message": {"content": None, "refusal": "I cannot help with a."}, "finish_reason": "stop"}
    completion = read_answer({"choices": [choice]}, ASK, Options(labels=("a", "b")), 0.0)
    assert (completion.text, completion.finish_reason) == ("I cannot help with a.", "refusal")
    choice["message"] = {"content": "a", "refusal": "no"}
    assert read_answer({"choices": [choice]}, ASK, Options(), 0.0).text == "a"
    assert not read_answer(reply("a"), ASK, Options(), 0.0).withheld


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
    assert known.cached_usd is not None
    assert 0 < known.cached_usd < known.input_usd
    assert find_price("gpt-4o-mini", "http://127.0.0.1:1/v1") is None
    assert find_price("no-such-model", "https://api.openai.com/v1") is None
    assert price_given(ModelSettings()) is None
    assert price_given(ModelSettings(price_input=2, price_output=6)) == Price(2, 6)
    assert Price(2, 6).cost(Usage(1_000_000, 500_000)) == 5.0


def test_cached_input_has_its_own_price_and_without_one_that_of_other_input() -> None:
    usage = Usage(1_000_000, 0, cached_tokens=600_000, cache_write_tokens=200_000)
    assert Price(2, 6).cost(usage) == pytest.approx(0.4 + 1.2 + 0.5)
    assert Price(2, 6, 0.2).cost(usage) == pytest.approx(0.4 + 0.12 + 0.5)
    assert Price(2, 6, 0.2, 4).cost(usage) == pytest.approx(0.4 + 0.12 + 0.8)
    claude = find_price("claude-sonnet-4-5", "https://api.anthropic.com/v1")
    assert claude is not None
    assert claude.cost(Usage(0, 0, cached_tokens=0)) == 0
    assert (claude.cached_usd, claude.cache_write_usd) == pytest.approx((0.3, 3.75))
