from __future__ import annotations

import pytest

from autoprompt.llm.transport.failures import (
    LengthBound,
    exceeds_rate,
    from_status,
    is_about_roles,
    is_filtered,
    length_bound,
)

SENT = 32_800


@pytest.mark.parametrize(
    ("said", "most"),
    [
        (
            "max_tokens is too large: 32800. This model supports at most 16384 completion tokens, "
            "whereas you provided 32800.",
            16384,
        ),
        ("max_tokens: 32800 > 8192, which is the maximum for claude-3-5-sonnet-20241022", 8192),
        ("`max_tokens` must be less than or equal to `8192`, the maximum value", 8192),
        ("Invalid max_tokens value, the valid range of max_tokens is [1, 8192]", 8192),
        ("Range of max_tokens should be [1,2000]", 2000),
        ("maxOutputTokens value of 32800 but the range is from 1 (inclusive) to 8193 (exclusive).", 8192),
        ("max tokens must be less than or equal to 4096, the maximum output length for this model", 4096),
        ("The maximum tokens you requested exceeds 4096. Try a value that is lower than 4096.", 4095),
        ("needs fewer max_tokens. You requested up to 32800 tokens, but can only afford 4000.", 4000),
        ("Requests with max_tokens > 4096 must have stream=true", 4096),
        ("Invalid 'max_tokens': integer above maximum value. Expected a value <= 16384, got 32800.", 16384),
        ('[{"loc": ["body", "max_tokens"], "msg": "Input should be less than or equal to 8192"}]', 8192),
        ("max_tokens must be at most 16,384 tokens", 16384),
        ("The maximum output tokens of this plan is 4K", 4000),
        ("max_tokens is limited to 1.5 k for free accounts", 1500),
        ("输出过长: max_tokens 最大为 8k", 8000),
        ("max_tokens 参数非法。请检查文档。", SENT // 2),
        ("max_tokens is too large", SENT // 2),
    ],
)
def test_a_refusal_names_the_largest_limit(said: str, most: int) -> None:
    assert length_bound(said, {"max_tokens": SENT}) == LengthBound(most)
    assert length_bound(said, {"max_completion_tokens": SENT}) == LengthBound(most)


@pytest.mark.parametrize(
    ("said", "most", "window"),
    [
        (
            "This model's maximum context length is 8192 tokens. However, you requested 34000 tokens "
            "(1200 in the messages, 32800 in the completion).",
            6992,
            8192,
        ),
        (
            "'max_tokens' is too large: 32800. This model's maximum context length is 8192 tokens and your "
            "request has 404 input tokens (32800 > 8192 - 404).",
            7788,
            8192,
        ),
        ("Prompt contains 100 tokens and 32800, too large for 32768 maximum context length", 32668, 32768),
        (
            "`inputs` tokens + `max_new_tokens` must be <= 4096. Given: 1000 `inputs` tokens and 32800",
            3096,
            4096,
        ),
        ("request exceeds the available context size (8192 tokens), try increasing it", None, 8192),
        ("This model's maximum context length is 32K tokens, your prompt has 500 tokens", 31500, 32000),
        (
            "Request too large for model `x` in organization `o` on tokens per minute (TPM): Limit 6000, "
            "Requested 32860, please reduce your message size and try again.",
            5940,
            6000,
        ),
        ("Request too large on tokens per min (TPM): Limit: 30,000, Requested: 32,900.", 29900, 30000),
        ("Request too large on tokens per minute (TPM): Limit 8000", None, 8000),
    ],
)
def test_a_refusal_names_the_window(said: str, most: int | None, window: int) -> None:
    assert length_bound(said, {"max_tokens": SENT}) == LengthBound(most, window)


@pytest.mark.parametrize(
    "said",
    [
        "Unsupported parameter: 'max_tokens' is not supported. Use 'max_completion_tokens' instead.",
        "maximum context length is 8192 tokens. However, your messages resulted in 10000 tokens.",
        "logprobs of 20, which is greater than max allowed: 5",
        "model gpt-4-32k-0613 does not exist",
        "Request too large on tokens per minute (TPM): Limit 6000, Requested 41000, reduce your message",
        "Request too large on requests per minute (RPM): Limit 3, Requested 4",
    ],
)
def test_other_refusals_name_no_limit(said: str) -> None:
    assert length_bound(said, {"max_tokens": SENT}) is None


@pytest.mark.parametrize(
    ("said", "is_so"),
    [
        ("Request too large on tokens per minute (TPM): Limit 6000, Requested 8264", True),
        ("Rate limit reached on tokens per min (TPM): Limit 10000, Used 9500, Requested 2000", False),
        ("Rate limit reached on requests per min (RPM): Limit 3, Used 3, Requested 9", False),
        ("Rate limit reached on tokens per day (TPD): Limit 100000", False),
        ("slow down", False),
    ],
)
def test_a_request_that_no_minute_can_hold_is_told_from_a_busy_minute(said: str, is_so: bool) -> None:
    assert exceeds_rate(said) is is_so


def test_a_request_without_a_limit_is_not_too_long_for_one() -> None:
    assert length_bound("max_tokens is too large: at most 4096", {"seed": 1}) is None


@pytest.mark.parametrize(
    "said",
    [
        "System role not supported",
        "Developer instruction is not enabled for models/gemma-3-27b-it",
        "Conversation roles must alternate user/assistant/user/assistant/...",
        "After the optional system message, conversation roles must alternate user/assistant",
        "Only user and assistant roles are supported!",
        "Unsupported value: 'messages[0].role' does not support 'system' with this model.",
        'messages: Unexpected role "system". The API accepts a top-level `system` parameter',
        "messages.0.role: Input should be 'user' or 'assistant'",
        "value is not a valid enumeration member; permitted: 'user', 'assistant'",
        "jinja2.exceptions.TemplateError: Raised by the template",
        "Failed to apply chat template",
        "This model does not support system prompts",
        "'system' is not one of ['user', 'assistant'] - 'messages.0.role'",
        "The first message must have role user",
        "该模型不支持system角色",
    ],
)
def test_a_refusal_may_mean_the_system_message(said: str) -> None:
    assert is_about_roles(said)


@pytest.mark.parametrize(
    "said",
    ["model not found", "The system is overloaded", "maximum context length is 8192", "no such file system"],
)
def test_other_refusals_do_not(said: str) -> None:
    assert not is_about_roles(said)


def test_a_filter_is_told_by_its_code_or_its_words() -> None:
    assert is_filtered({"code": "content_filter"}, "no")
    assert is_filtered({"innererror": {"code": "ResponsibleAIPolicyViolation"}}, "no")
    assert is_filtered({}, "Your input was flagged by moderation")
    assert not is_filtered({"code": "invalid_value"}, "temperature must be at most 2")


@pytest.mark.parametrize(
    "body", ["404 page not found", "HTTP 404: page not found", "404: 404 page not found"]
)
def test_a_status_that_the_body_repeats_is_told_once(body: str) -> None:
    error = from_status(404, {}, body, url="http://h/v1", api_key="", sent={})
    assert str(error).count("404") == 1
    assert "HTTP 404: page not found" in str(error)
