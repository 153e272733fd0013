from __future__ import annotations

import math
from dataclasses import astuple
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autoprompt.llm.adapter import ScriptedClient
from autoprompt.llm.client import Completion
from autoprompt.llm.limits.admission import Gate
from autoprompt.llm.limits.budget import BudgetMeter
from autoprompt.llm.limits.retry import LimitedClient
from autoprompt.llm.prices import Price
from autoprompt.llm.transport.usage import Exchange, UsageReader
from autoprompt.llm.transport.wire import Parameters
from autoprompt.records import Message, Usage

ASK = Exchange([Message("user", "x" * 8000)], "an answer")  # 2,004 tokens by their length, and 3


def read(counted: object, exchange: Exchange = ASK) -> tuple[Usage, list[str]]:
    reader = UsageReader("http://somewhere (m)")
    return reader.read({"usage": counted}, exchange), list(map(str, reader.warnings))


OPENAI = {
    "prompt_tokens": 2006,
    "completion_tokens": 300,
    "total_tokens": 2306,
    "prompt_tokens_details": {"cached_tokens": 1920, "audio_tokens": 0},
    "completion_tokens_details": {"reasoning_tokens": 256, "rejected_prediction_tokens": 0},
}


@pytest.mark.parametrize(
    ("counted", "usage"),
    [
        pytest.param(
            {"prompt_tokens": 86, "completion_tokens": 3, "total_tokens": 89}, Usage(86, 3), id="plain"
        ),
        pytest.param(OPENAI, Usage(2006, 300, 0.0, 1920, 0, 256), id="OpenAI chat"),
        pytest.param(
            {**OPENAI, "prompt_tokens_details": {"cached_tokens": 1024, "cache_write_tokens": 512}},
            Usage(2006, 300, 0.0, 1024, 512, 256),
            id="OpenAI chat, cache writes",
        ),
        pytest.param(
            {"prompt_tokens": 86, "completion_tokens": 3, "prompt_tokens_details": None},
            Usage(86, 3),
            id="null",
        ),
        pytest.param(
            {
                "input_tokens": 2006,
                "input_tokens_details": {"cached_tokens": 1920, "cache_write_tokens": 0},
                "output_tokens": 300,
                "output_tokens_details": {"reasoning_tokens": 256},
                "total_tokens": 2306,
            },
            Usage(2006, 300, 0.0, 1920, 0, 256),
            id="OpenAI Responses",
        ),
        pytest.param(
            {
                "input_tokens": 86,
                "cache_read_input_tokens": 1920,
                "cache_creation_input_tokens": 512,
                "cache_creation": {"ephemeral_5m_input_tokens": 512, "ephemeral_1h_input_tokens": 0},
                "output_tokens": 300,
                "output_tokens_details": {"thinking_tokens": 200},
            },
            Usage(2518, 300, 0.0, 1920, 512, 200),
            id="Anthropic: beside the input",
        ),
        pytest.param(
            {
                "input_tokens": 3000,
                "cache_read_input_tokens": 1920,
                "cache_creation_input_tokens": 0,
                "output_tokens": 300,
            },
            Usage(4920, 300, 0.0, 1920),
            id="Anthropic: less cached than not",
        ),
        pytest.param(
            {"input_tokens": 86, "cache_read_input_tokens": None, "output_tokens": 3},
            Usage(86, 3),
            id="no cache",
        ),
        pytest.param(
            {
                "prompt_tokens": 2518,
                "completion_tokens": 300,
                "total_tokens": 2818,
                "cache_read_input_tokens": 1920,
                "cache_creation_input_tokens": 512,
                "prompt_tokens_details": {"cached_tokens": 1920, "cache_creation_tokens": 512},
            },
            Usage(2518, 300, 0.0, 1920, 512),
            id="LiteLLM: Anthropic's names, as parts of the prompt",
        ),
        pytest.param(
            {
                "prompt_tokens": 86,
                "completion_tokens": 300,
                "total_tokens": 2818,
                "cache_read_input_tokens": 1920,
                "cache_creation_input_tokens": 512,
            },
            Usage(2518, 300, 0.0, 1920, 512),
            id="a gateway: Anthropic's names, beside the prompt",
        ),
        pytest.param(
            {
                "prompt_tokens": 2000,
                "completion_tokens": 300,
                "total_tokens": 2812,
                "cache_read_input_tokens": 512,
            },
            Usage(2512, 300, 0.0, 512),
            id="a gateway: less beside the prompt than in it",
        ),
        pytest.param(
            {
                "prompt_tokens": 2006,
                "completion_tokens": 44,
                "total_tokens": 2306,
                "prompt_tokens_details": {"cached_tokens": 256},
                "completion_tokens_details": {"reasoning_tokens": 256},
            },
            Usage(2006, 300, 0.0, 256, 0, 256),
            id="as many thoughts in the total alone as cached tokens",
        ),
        pytest.param(
            {
                "prompt_tokens": 2006,
                "prompt_cache_hit_tokens": 1920,
                "prompt_cache_miss_tokens": 86,
                "completion_tokens": 300,
                "total_tokens": 2306,
                "completion_tokens_details": {"reasoning_tokens": 256},
            },
            Usage(2006, 300, 0.0, 1920, 0, 256),
            id="DeepSeek",
        ),
        pytest.param(
            {"prompt_cache_hit_tokens": 1920, "prompt_cache_miss_tokens": 86, "completion_tokens": 300},
            Usage(2006, 300, 0.0, 1920),
            id="DeepSeek without a sum",
        ),
        pytest.param(
            {
                "promptTokenCount": 2006,
                "cachedContentTokenCount": 1920,
                "candidatesTokenCount": 44,
                "thoughtsTokenCount": 256,
                "toolUsePromptTokenCount": 10,
                "totalTokenCount": 2316,
            },
            Usage(2016, 300, 0.0, 1920, 0, 256),
            id="Gemini",
        ),
        pytest.param(
            {"promptTokenCount": 2006, "thoughtsTokenCount": 256, "totalTokenCount": 2262},
            Usage(2006, 256, 0.0, 0, 0, 256),
            id="Gemini, cut while it thought",
        ),
        pytest.param(
            {
                "prompt_token_count": 2006,
                "cached_content_token_count": None,
                "candidates_token_count": 44,
                "thoughts_token_count": 256,
                "total_token_count": 2306,
            },
            Usage(2006, 300, 0.0, 0, 0, 256),
            id="Gemini in Python's names",
        ),
        pytest.param(
            {"prompt_tokens": 758, "completion_tokens": 102, "total_tokens": 1725},
            Usage(758, 967, 0.0, 0, 0, 865),
            id="thoughts in the total alone",
        ),
        pytest.param(
            {
                "prompt_tokens": 100,
                "completion_tokens": 20,
                "total_tokens": 420,
                "completion_tokens_details": {"reasoning_tokens": 300},
            },
            Usage(100, 320, 0.0, 0, 0, 300),
            id="xAI: thoughts beside the answer",
        ),
        pytest.param(
            {
                "prompt_tokens": 100,
                "completion_tokens": 20,
                "completion_tokens_details": {"reasoning_tokens": 300},
            },
            Usage(100, 320, 0.0, 0, 0, 300),
            id="thoughts beside the answer, no total",
        ),
        pytest.param(
            {**OPENAI, "cost": 0.0021, "is_byok": False, "cost_details": {"upstream_inference_cost": None}},
            Usage(2006, 300, 0.0, 1920, 0, 256, 0.0021),
            id="OpenRouter",
        ),
        pytest.param(
            {**OPENAI, "cost": 0.0021, "cost_details": {"upstream_inference_cost": 0.0021}, "is_byok": False},
            Usage(2006, 300, 0.0, 1920, 0, 256, 0.0021),
            id="OpenRouter names the provider's part",
        ),
        pytest.param(
            {**OPENAI, "cost": 0.001, "is_byok": True, "cost_details": {"upstream_inference_cost": 0.02}},
            Usage(2006, 300, 0.0, 1920, 0, 256, 0.021),
            id="OpenRouter with one's own key: its fee and the provider's bill",
        ),
        pytest.param(
            {**OPENAI, "cost": 0.001, "cost_details": {"upstream_inference_cost": 0.02}},
            Usage(2006, 300, 0.0, 1920, 0, 256, 0.021),
            id="one's own key, not named",
        ),
        pytest.param(
            {**OPENAI, "cost": 0, "is_byok": True},
            Usage(2006, 300, 0.0, 1920, 0, 256),
            id="the provider's bill is not known",
        ),
        pytest.param(
            {**OPENAI, "cost": 0.0021, "cache_discount": -0.0004},
            Usage(2006, 300, 0.0, 1920, 0, 256, 0.0021),
            id="OpenRouter: the discount is in the cost",
        ),
        pytest.param(
            {
                "prompt_tokens": 86,
                "completion_tokens": 3,
                "cost": {"total_cost": 0.006, "request_cost": 0.005},
            },
            Usage(86, 3, billed_usd=0.006),
            id="Perplexity",
        ),
        pytest.param(
            {"prompt_tokens": 86, "completion_tokens": 3, "cost_in_usd_ticks": 37_756_000},
            Usage(86, 3, billed_usd=0.0037756),
            id="xAI's bill",
        ),
        pytest.param({"prompt_tokens": "86", "completion_tokens": 3.0}, Usage(86, 3), id="digits, and 3.0"),
        pytest.param({"total_tokens": 2306}, Usage(2004, 302), id="a total alone"),
        pytest.param({"prompt_tokens": 2006, "total_tokens": 2306}, Usage(2006, 300), id="prompt and total"),
        pytest.param(
            {"completion_tokens": 300, "total_tokens": 2306}, Usage(2006, 300), id="output and total"
        ),
    ],
)
def test_every_format_says_the_same(counted: Any, usage: Usage) -> None:
    found, warnings = read(counted)
    assert (found, warnings) == (usage, [])


@pytest.mark.parametrize(
    ("counted", "usage"),
    [
        pytest.param(None, Usage(2004, 3), id="nothing counted"),
        pytest.param("lots", Usage(2004, 3), id="no record"),
        pytest.param({"cost": 0.01}, Usage(2004, 3, billed_usd=0.01), id="a cost alone"),
        pytest.param({"prompt_tokens": 2006}, Usage(2006, 3), id="a prompt alone"),
        pytest.param({"completion_tokens": 300}, Usage(2004, 300), id="an answer alone"),
    ],
)
def test_tokens_that_the_endpoint_does_not_count_are_estimated_with_a_warning(
    counted: Any, usage: Usage
) -> None:
    found, (warning,) = read(counted)
    assert found == usage
    said = "http://somewhere (m) reports no token counts: autoprompt estimates tokens, and cost from them."
    assert warning == said


def test_an_answer_without_a_text_and_a_count_is_no_reason_for_a_warning() -> None:
    nothing = Exchange(ASK.messages, "")
    for counted in (None, {"prompt_tokens": 2006}):
        assert read(counted, nothing)[1] == []


def test_geminis_record_has_a_name_of_its_own() -> None:
    told = {"usageMetadata": {"promptTokenCount": 9, "candidatesTokenCount": 2, "totalTokenCount": 11}}
    assert UsageReader().read(told, ASK) == Usage(9, 2)


def test_an_answer_of_nothing_but_a_call_of_a_tool_has_no_text_and_tokens_all_the_same() -> None:
    silent = Exchange(ASK.messages, "")
    counted = {"prompt_tokens": 9, "completion_tokens": 0, "total_tokens": 9}
    assert read(counted, silent) == (Usage(9, 0), [])


@pytest.mark.parametrize(
    ("wrong", "usage", "named"),
    [
        ({"prompt_tokens": -5}, Usage(2006, 300), "prompt_tokens = -5"),
        ({"prompt_tokens": 12.5}, Usage(2006, 300), "prompt_tokens = 12.5"),
        ({"prompt_tokens": math.nan}, Usage(2006, 300), "prompt_tokens = nan"),
        ({"prompt_tokens": True}, Usage(2006, 300), "prompt_tokens = True"),
        ({"prompt_tokens": "many"}, Usage(2006, 300), "prompt_tokens = 'many'"),
        ({"prompt_tokens": 10**12}, Usage(2006, 300), "prompt_tokens = 1000000000000"),
        ({"prompt_tokens": 10**400}, Usage(2006, 300), "prompt_tokens = 1000"),
        ({"prompt_tokens": 0, "total_tokens": 300}, Usage(2004, 300), "prompt_tokens = 0"),
        ({"prompt_tokens": [2006]}, Usage(2006, 300), "prompt_tokens = [2006]"),
        ({"completion_tokens": -300}, Usage(2006, 300), "completion_tokens = -300"),
        ({"completion_tokens": math.inf}, Usage(2006, 300), "completion_tokens = inf"),
        ({"completion_tokens": 0, "total_tokens": 2006}, Usage(2006, 3), "completion_tokens = 0"),
        (
            {"completion_tokens": 10**9, "total_tokens": None},
            Usage(2006, 3),
            "completion_tokens = 1000000000",
        ),
        ({"total_tokens": 10**12}, Usage(2006, 300), "total_tokens = 1000000000000"),
        ({"total_tokens": -1}, Usage(2006, 300), "total_tokens = -1"),
        (
            {"prompt_tokens_details": {"cached_tokens": 5000}},
            Usage(2006, 300),
            "prompt_tokens_details.cached_tokens = 5000",
        ),
        (
            {"prompt_tokens_details": {"cached_tokens": -1}},
            Usage(2006, 300),
            "prompt_tokens_details.cached_tokens = -1",
        ),
        (
            {"completion_tokens_details": {"reasoning_tokens": 900}},
            Usage(2006, 300, reasoning_tokens=300),
            "completion_tokens_details.reasoning_tokens = 900",
        ),
        ({"cost": -0.1}, Usage(2006, 300), "cost = -0.1"),
        ({"cost": math.nan}, Usage(2006, 300), "cost = nan"),
        ({"cost": 10**12}, Usage(2006, 300), "cost = 1000000000000"),
        ({"cost": "free"}, Usage(2006, 300), "cost = 'free'"),
        ({"cost": True}, Usage(2006, 300), "cost = True"),
    ],
)
def test_a_figure_that_cannot_be_right_is_named_and_estimated(
    wrong: dict[str, Any], usage: Usage, named: str
) -> None:
    plain = {"prompt_tokens": 2006, "completion_tokens": 300, "total_tokens": 2306}
    found, warnings = read({**plain, **wrong})
    assert found == usage
    assert len(warnings) == 1
    assert warnings[0].startswith(f"http://somewhere (m) reports usage.{named}")


def test_a_field_is_named_once_with_its_first_value() -> None:
    reader = UsageReader("e")
    for value in (-1, -2, 5, -3):
        reader.read({"usage": {"prompt_tokens": value, "completion_tokens": 1}}, ASK)
    (warning,) = map(str, reader.warnings)
    assert "prompt_tokens = -1" in warning


FIGURES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(10**15), 10**15),
    st.integers(0, 5000),
    st.floats(allow_nan=True, allow_infinity=True),
    st.text(max_size=4),
    st.lists(st.integers(), max_size=2),
)
FIELDS = st.sampled_from(
    [
        *("prompt_tokens", "completion_tokens", "total_tokens", "input_tokens", "output_tokens", "cost"),
        *("cache_read_input_tokens", "cache_creation_input_tokens", "prompt_cache_hit_tokens"),
        *("prompt_cache_miss_tokens", "promptTokenCount", "thoughtsTokenCount", "totalTokenCount"),
        *("candidatesTokenCount", "cachedContentTokenCount", "toolUsePromptTokenCount", "is_byok"),
        *("cost_in_usd_ticks", "reasoning_tokens"),
    ]
)
DETAILS = st.dictionaries(
    st.sampled_from(["cached_tokens", "cache_write_tokens", "reasoning_tokens", "upstream_inference_cost"]),
    FIGURES,
)
RECORDS = st.tuples(
    st.dictionaries(FIELDS, FIGURES),
    st.dictionaries(
        st.sampled_from(["prompt_tokens_details", "completion_tokens_details", "cost_details", "cost"]),
        st.one_of(DETAILS, FIGURES),
    ),
)


@given(RECORDS)
def test_whatever_is_reported_the_record_adds_up(parts: tuple[dict[str, Any], dict[str, Any]]) -> None:
    usage, _ = read({**parts[0], **parts[1]})
    for tokens in (usage.prompt_tokens, usage.completion_tokens, usage.cached_tokens, usage.uncached_tokens):
        assert isinstance(tokens, int)
        assert 0 <= tokens <= 2_100_000
    assert usage.cache_write_tokens >= 0
    assert 0 <= usage.reasoning_tokens <= usage.completion_tokens
    assert usage.billed_usd is None or 0 <= usage.billed_usd <= 5000


@pytest.mark.parametrize(
    ("counted", "usage"),
    [
        ({"inputTokens": 2000, "outputTokens": 5, "totalTokens": 2005}, (2000, 5, 0, 0)),  # Bedrock
        (
            {
                "inputTokens": 80,
                "outputTokens": 5,
                "totalTokens": 2005,
                "cacheReadInputTokens": 1900,
                "cacheWriteInputTokens": 20,
            },
            (2000, 5, 1900, 20),
        ),
        ({"promptTokens": 2000, "completionTokens": 5}, (2000, 5, 0, 0)),
        ({"total_tokens": 2005}, (2002, 3, 0, 0)),  # the total is kept
        ({"total_tokens": 2500}, (2004, 496, 0, 0)),  # thoughts that are not shown
        ({"totalTokens": 1000}, (997, 3, 0, 0)),
    ],
)
def test_counts_in_other_words_are_read(counted: dict[str, int], usage: tuple[int, ...]) -> None:
    found, warnings = read(counted)
    shown = (found.prompt_tokens, found.completion_tokens, found.cached_tokens, found.cache_write_tokens)
    assert (shown, warnings) == (usage, [])


def test_a_field_that_was_not_sent_is_not_blamed() -> None:
    found, (warning,) = read({"total_tokens": 2})
    assert (found.prompt_tokens, found.completion_tokens) == (2004, 2)
    assert "usage.total_tokens = 2," in warning


@pytest.mark.parametrize(
    "cost",
    [
        {"cost": {"total": 0.01, "input": 0.004}},
        {"total_cost": 0.01},
        {"cost_usd": "0.01"},
        {"total_cost_usd": 0.01},
    ],
)
def test_a_cost_in_other_words_is_read(cost: dict[str, object]) -> None:
    found, warnings = read({"prompt_tokens": 2000, "completion_tokens": 5, **cost})
    assert (found.billed_usd, warnings) == (0.01, [])


def test_a_cost_in_unknown_parts_is_named() -> None:
    found, (warning,) = read({"prompt_tokens": 2000, "completion_tokens": 5, "cost": {"in": 0.1, "out": 0.2}})
    assert found.billed_usd is None
    assert "usage.cost = {'in': 0.1, 'out': 0.2}" in warning


@pytest.mark.parametrize(
    ("billed", "cost"),
    [(9.9, 63e-6), (0.51, 63e-6), (0.03, 0.03), (0.0, 0.0)],  # the third: a fee for a search
)
def test_a_bill_far_above_the_price_is_not_believed(billed: float, cost: float) -> None:
    world = BudgetMeter(max_cost=1.0)
    answer = Completion("a", Usage(30, 3, billed_usd=billed))
    client = LimitedClient(
        ScriptedClient([answer]),
        budget=world,
        gate=Gate(1),
        price=Price(1.0, 11.0),
        parameters=Parameters("off"),
    )
    client.complete([Message("user", "x")])
    assert world.spent.cost_usd == pytest.approx(cost)
    assert len(client.usage_warnings) == (billed != cost)
    assert all(f"${billed:.4g} for one answer" in str(warning) for warning in client.usage_warnings)


def test_llama_cpp_says_what_it_had_kept_and_how_long_it_took() -> None:
    """As an embedded model answers: `usage` counts all of the request."""
    answer = {
        "usage": {"prompt_tokens": 520, "completion_tokens": 3},
        "timings": {
            "cache_n": 500,
            "prompt_n": 20,
            "prompt_ms": 180.0,
            "predicted_n": 3,
            "predicted_ms": 90.5,
        },
    }
    found = UsageReader().read(answer, Exchange([Message("user", "word " * 500)], "A"))
    assert found == Usage(520, 3, cached_tokens=500, read_s=0.18, write_s=0.0905)
    broken = {**answer, "timings": {**answer["timings"], "prompt_ms": "fast"}}
    assert UsageReader().read(broken, Exchange([Message("user", "word " * 500)], "A")) == Usage(520, 3)


PARTS = [
    Usage(),
    Usage(5, 2),
    Usage(5, 2, None),
    Usage(5, 2, 0.1, 3, 1, 1, 0.2, 0.5, 0.25),
    Usage(5, 0, 0.1, billed_usd=0.0),
    Usage(cost_usd=None),
    Usage(billed_usd=0.3),
    Usage(read_s=0.5),
]


@pytest.mark.parametrize("one", PARTS)
@pytest.mark.parametrize("other", PARTS)
def test_a_sum_has_all_parts_of_both_and_a_cost_only_if_both_are_known(one: Usage, other: Usage) -> None:
    before = astuple(one), astuple(other)
    found = one + other
    assert (astuple(one), astuple(other)) == before  # nothing but type checkers hinders a change
    for name in (
        "prompt_tokens",
        "completion_tokens",
        "cached_tokens",
        "cache_write_tokens",
        "reasoning_tokens",
    ):
        assert getattr(found, name) == getattr(one, name) + getattr(other, name)
    assert (found.read_s, found.write_s) == (one.read_s + other.read_s, one.write_s + other.write_s)
    assert (found.cost_usd is None) == (one.cost_usd is None or other.cost_usd is None)
    if one.cost_usd is not None and other.cost_usd is not None:
        assert found.cost_usd == pytest.approx(one.cost_usd + other.cost_usd)
    # What used no tokens and names no bill says nothing of the bill.
    bills = [part.billed_usd for part in (one, other) if part.total_tokens or part.billed_usd is not None]
    is_known = bool(bills) and None not in bills
    assert found.billed_usd == (pytest.approx(sum(filter(None, bills))) if is_known else None)
