"""The usage record of an answer, read in the formats in which endpoints report it.

OpenAI (chat and Responses), Anthropic, DeepSeek, Gemini, OpenRouter and what gateways make of them. Figures
that cannot be right are left out, named once in a warning, and replaced by an estimate.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from autoprompt.errors import Problem
from autoprompt.llm.client import ToolSchema
from autoprompt.records import Message, Usage, record
from autoprompt.text.scripts import estimate_tokens

# Tokens that a provider may put in front of a request by itself: the longest published system prompts have
# about 25,000.
_HIDDEN_TOKENS = 32_768
# No model writes more in one answer; the largest published output limit is 384,000 tokens.
_MOST_OUTPUT = 1_000_000
_MOST_DIGITS = 15  # of a count that is written as text
# USD. The dearest published price is 600 per million tokens; an answer of a research service may cost a few
# dollars at once.
_MOST_USD, _MOST_USD_PER_TOKEN = 10.0, 0.001
_TICKS_PER_USD = 1e10  # xAI's unit


class _Fields:
    """Names of one figure, in the order in which they count; `outer.inner` is a field of an object."""

    def __init__(self, *names: str) -> None:
        self.names = names
        self._paths = [(name, *name.partition(".")[::2]) for name in names]
        self._outer = frozenset(outer for _, outer, _ in self._paths)

    def find(self, counted: Mapping[str, Any]) -> tuple[str, object]:
        """Return the first of these fields that has a value, and the value; "" if none has."""
        if self._outer.isdisjoint(counted):
            return "", None
        for name, outer, inner in self._paths:
            value: object = counted.get(outer)
            if inner:
                value = value.get(inner) if isinstance(value, Mapping) else None
            if value is not None and not isinstance(value, Mapping):
                return name, value
        return "", None


_PROMPT = _Fields(
    "prompt_tokens",
    "input_tokens",
    "promptTokenCount",
    "prompt_token_count",
    "inputTokens",  # Bedrock
    "promptTokens",
)
_OUTPUT = _Fields(
    "completion_tokens",
    "output_tokens",
    "candidatesTokenCount",
    "candidates_token_count",
    "outputTokens",
    "completionTokens",
)
_TOTAL = _Fields("total_tokens", "totalTokenCount", "total_token_count", "totalTokens")
_TOOL_PROMPT = _Fields(
    "toolUsePromptTokenCount", "tool_use_prompt_token_count"
)  # Gemini, beside the prompt's
_THOUGHTS = _Fields("thoughtsTokenCount", "thoughts_token_count")  # Gemini, beside the answer's
_REASONING = _Fields(
    "completion_tokens_details.reasoning_tokens",
    "output_tokens_details.reasoning_tokens",
    "output_tokens_details.thinking_tokens",  # Anthropic
    "output_token_details.reasoning",  # LangChain
    "reasoning_tokens",
)
_CACHED = _Fields(
    "prompt_tokens_details.cached_tokens",
    "input_tokens_details.cached_tokens",
    "input_token_details.cache_read",  # LangChain
    "prompt_cache_hit_tokens",  # DeepSeek
    "cachedContentTokenCount",
    "cached_content_token_count",
    "cached_tokens",
)
_MISSED = _Fields("prompt_cache_miss_tokens")
_WRITTEN = _Fields(
    "prompt_tokens_details.cache_write_tokens",
    "input_tokens_details.cache_write_tokens",
    "input_token_details.cache_creation",
    "prompt_tokens_details.cache_creation_tokens",  # LiteLLM
    "prompt_tokens_details.cache_creation_input_tokens",  # Alibaba
)
_ANTHROPIC_READ = _Fields(
    "cache_read_input_tokens", "cacheReadInputTokens"
)  # the second as Bedrock writes it
_ANTHROPIC_WRITTEN = _Fields("cache_creation_input_tokens", "cacheWriteInputTokens")
_BESIDE = ("input_tokens", "inputTokens")  # what these two are not in, at Anthropic
# OpenRouter, Perplexity, DeepInfra, and gateways.
_COST = _Fields(
    "cost",
    "cost.total_cost",
    "estimated_cost",
    "cost.total",
    "total_cost",
    "cost_usd",
    "total_cost_usd",
)
_COST_TICKS = _Fields("cost_in_usd_ticks")
_UPSTREAM = _Fields("cost_details.upstream_inference_cost")


@record
class Exchange:
    """A request and its answer, for what they may have taken. limit: most tokens that were asked for."""

    messages: Sequence[Message]
    text: str
    limit: int | None = None
    tools: Sequence[ToolSchema] = ()

    @property
    def prompt(self) -> int:
        """About how many tokens were sent."""
        return estimate_tokens(self.messages)

    @property
    def output(self) -> int:
        """About how many tokens the text has."""
        return estimate_tokens(self.text)

    @property
    def most_prompt(self) -> int:
        """A token has at least one byte, and a character at most four."""
        texts = [part for tool in self.tools for part in (tool.name, tool.description, tool.parameters)]
        for message in self.messages:
            texts += [message.content, *(call.arguments for call in message.tool_calls)]
        return sum(len(text) if text.isascii() else 4 * len(text) for text in texts) + _HIDDEN_TOKENS

    @property
    def most_output(self) -> int:
        return max(_MOST_OUTPUT, self.limit or 0)


class UsageReader:
    """Reads the usage records of one endpoint. Thread-safe. endpoint: its name in warnings."""

    def __init__(self, endpoint: str = "the endpoint") -> None:
        self._endpoint = endpoint
        self._lock = threading.Lock()
        self._rejected: dict[str, object] = {}  # field -> the first value that cannot be right
        self._has_uncounted = False  # an answer came without a count of its tokens

    @property
    def warnings(self) -> list[Problem]:
        """One for each field that had a figure which cannot be right, and one for counts that are missing."""
        with self._lock:
            rejected, has_uncounted = dict(self._rejected), self._has_uncounted
        found = [self._problem(field, value) for field, value in rejected.items()]
        if has_uncounted:
            said = "reports no token counts: autoprompt estimates tokens, and cost from them"
            found.append(Problem("model.no-usage", f"{self._endpoint} {said}"))
        return found

    def _problem(self, field: str, value: object) -> Problem:
        instead = "computes such a cost from the price of the tokens" if "cost" in field else "estimates it"
        said = f"{self._endpoint} reports usage.{field} = {value!r:.40}, which cannot be right: autoprompt"
        return Problem("model.wrong-usage", f"{said} {instead}")

    def read(self, answer: Mapping[str, Any], exchange: Exchange) -> Usage:
        """Return what an answer took, with `billed_usd` if the endpoint says what it charges.

        Estimated from the texts if the endpoint counts no tokens, so that a cap on tokens holds there too.
        """
        counted = answer.get("usage") or answer.get("usageMetadata") or answer.get("usage_metadata")
        if not isinstance(counted, Mapping):
            with self._lock:
                self._has_uncounted |= bool(exchange.text)
            return Usage(exchange.prompt, exchange.output)
        if (plain := _plain_usage(counted)) is not None:
            return _timed(plain, answer.get("timings"))
        figures = _Figures(counted, exchange)
        usage = _timed(figures.usage(), answer.get("timings"))
        if figures.rejected or figures.is_uncounted:
            with self._lock:
                self._has_uncounted |= figures.is_uncounted
                for field, value in figures.rejected.items():
                    self._rejected.setdefault(field, value)
        return usage


def _plain_usage(counted: Mapping[str, Any]) -> Usage | None:
    """Return what a record of OpenAI's form says that needs no second look, as nearly all do; None else.

    Its two counts are small and make the total, and nothing was cached or thought.
    """
    prompt, output = counted.get("prompt_tokens"), counted.get("completion_tokens")
    if type(prompt) is not int or type(output) is not int or counted.get("total_tokens") != prompt + output:
        return None
    if not (0 < prompt <= _HIDDEN_TOKENS and 0 < output <= _MOST_OUTPUT):
        return None
    for name, value in counted.items():
        if name in _PLAIN or (name in _DETAILS and (not value or not any(value.values()))):
            continue
        return None
    return Usage(prompt, output)


_PLAIN = ("prompt_tokens", "completion_tokens", "total_tokens")
_DETAILS = ("prompt_tokens_details", "completion_tokens_details")


def _timed(usage: Usage, timings: object) -> Usage:
    """Return the usage with the seconds that llama.cpp names, and what it had kept of the request.

    timings: `prompt_n` tokens were read in `prompt_ms`, `cache_n` were kept, and writing took `predicted_ms`.
    """
    names = ("prompt_n", "prompt_ms", "predicted_ms")
    if not isinstance(timings, Mapping) or not all(_is_amount(timings.get(name)) for name in names):
        return usage
    kept = usage.prompt_tokens - min(usage.prompt_tokens, int(timings["prompt_n"]))
    read_s, write_s = timings["prompt_ms"] / 1000, timings["predicted_ms"] / 1000
    return replace(usage, cached_tokens=kept, read_s=round(read_s, 4), write_s=round(write_s, 4))


def _is_amount(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < math.inf


class _Figures:
    """The figures of one usage record."""

    def __init__(self, counted: Mapping[str, Any], exchange: Exchange) -> None:
        self._counted, self._exchange = counted, exchange
        self.rejected: dict[str, object] = {}
        self.is_uncounted = False  # a part of it is not in the record, nor the total

    def usage(self) -> Usage:
        total = self._tokens(_TOTAL, self._exchange.most_prompt + self._exchange.most_output)
        prompt, cached, written = self._input(total)
        output, reasoning = self._output(prompt, total)
        has_none = output is None and bool(self._exchange.text)
        self.is_uncounted = not total and not self.rejected and (prompt is None or has_none)
        if prompt is None:
            prompt = self._prompt_beside(output, total)
        if output is None:
            output = max(0, total - prompt) if total else self._exchange.output + reasoning
            reasoning = min(reasoning, output)
        if not prompt and self._exchange.prompt:
            self._reject_zero(_PROMPT)
            prompt, cached, written = self._exchange.prompt, 0, 0
        if not output and self._exchange.output:
            self._reject_zero(_OUTPUT)
            output, reasoning = self._exchange.output, 0
        return Usage(
            prompt,
            output,
            cached_tokens=cached,
            cache_write_tokens=written,
            reasoning_tokens=reasoning,
            billed_usd=self._billed(prompt + output),
        )

    def _prompt_beside(self, output: int | None, total: int | None) -> int:
        """Tokens of a request that the endpoint does not count by themselves."""
        if not total:
            return self._exchange.prompt
        if output is None:
            return min(self._exchange.prompt, max(0, total - self._exchange.output))
        return max(0, total - output)

    def _reject_zero(self, fields: _Fields) -> None:
        """Name the field that left nothing for a text that is there: its own, or the total."""
        field, value = fields.find(self._counted)
        if not field:
            field, value = _TOTAL.find(self._counted)
        self.rejected.setdefault(field or fields.names[0], value if field else 0)

    def _input(self, total: int | None) -> tuple[int | None, int, int]:
        """Tokens of the whole request, read from the provider's cache, and written to it."""
        most = self._exchange.most_prompt
        field, _ = _PROMPT.find(self._counted)
        prompt = self._tokens(_PROMPT, most)
        read, wrote = self._tokens(_ANTHROPIC_READ, most), self._tokens(_ANTHROPIC_WRITTEN, most)
        cached, written = self._tokens(_CACHED, most), self._tokens(_WRITTEN, most)
        if prompt is None:
            missed = self._tokens(_MISSED, most)
            prompt = None if missed is None else missed + (cached or 0)
        named_beside = field in _BESIDE and cached is None and (read is not None or wrote is not None)
        cached = (cached if cached is not None else read) or 0
        written = (written if written is not None else wrote) or 0
        if prompt is None:
            return None, 0, 0
        prompt += self._tokens(_TOOL_PROMPT, most) or 0
        parts, most_output = cached + written, self._exchange.most_output
        if not parts:
            return prompt, 0, 0
        counted = prompt + (self._tokens(_OUTPUT, most_output) or 0)
        is_beside = named_beside or (parts > prompt and (read or wrote) is not None)
        if total == counted:
            is_beside = False
        elif total == counted + parts:  # unless so many thoughts are in the total alone
            is_beside = is_beside or self._tokens(_REASONING, most_output) != parts
        elif total is not None and total > counted + parts:
            is_beside = is_beside or parts > prompt
        if is_beside:
            prompt += parts
        if parts > prompt:
            name = (_CACHED if cached > prompt else _WRITTEN).find(self._counted)[0]
            self.rejected[name or "cached_tokens"] = cached if cached > prompt else written
            return prompt, 0, 0
        return prompt, cached, written

    def _output(self, prompt: int | None, total: int | None) -> tuple[int | None, int]:
        """Tokens of the answer, thoughts included, and those of the thoughts."""
        most = self._exchange.most_output
        output = self._tokens(_OUTPUT, most)
        thoughts = self._tokens(_THOUGHTS, most)
        if thoughts is not None:  # beside the answer, which is left out if there is none
            return (output or 0) + thoughts, thoughts
        reasoning = self._tokens(_REASONING, most)
        if output is None:
            return None, reasoning or 0
        beside = max(0, total - prompt - output) if total and prompt is not None else 0
        if beside:  # thoughts that are in the total alone
            return output + beside, reasoning or beside
        if reasoning is not None and reasoning > output:
            if not total:
                return output + reasoning, reasoning
            self.rejected[_REASONING.find(self._counted)[0]] = reasoning
            return output, output
        return output, reasoning or 0

    def _billed(self, tokens: int) -> float | None:
        """USD that the endpoint itself asks for; None if it does not say, or leaves out a part."""
        most = _MOST_USD + tokens * _MOST_USD_PER_TOKEN
        ticks = self._usd(_COST_TICKS, most * _TICKS_PER_USD)
        cost = self._usd(_COST, most) if ticks is None else ticks / _TICKS_PER_USD
        upstream = self._usd(_UPSTREAM, most)
        has_own_key = self._counted.get("is_byok")
        if cost is None:
            parts = self._counted.get("cost")
            if isinstance(parts, Mapping) and parts and not _COST.find(self._counted)[0]:
                self.rejected.setdefault("cost", dict(parts))
            return None
        if has_own_key is True:  # `cost` is the gateway's fee alone; the provider bills the rest
            return None if upstream is None else cost + upstream
        if has_own_key is None and upstream is not None and upstream > cost:
            return cost + upstream
        return cost

    def _tokens(self, fields: _Fields, most: int) -> int | None:
        field, value = fields.find(self._counted)
        if not field:
            return None
        if isinstance(value, str) and value.strip().isdecimal() and len(value) <= _MOST_DIGITS:
            value = int(value)
        is_whole = isinstance(value, int) and not isinstance(value, bool)
        if isinstance(value, float) and value.is_integer():
            is_whole = True
        if not is_whole or not 0 <= value <= most:  # type: ignore[operator]
            self.rejected.setdefault(field, value)
            return None
        return int(value)  # type: ignore[call-overload, no-any-return]

    def _usd(self, fields: _Fields, most: float) -> float | None:
        field, value = fields.find(self._counted)
        if not field:
            return None
        try:
            cost = math.nan if isinstance(value, bool) else float(value)  # type: ignore[arg-type]
        except (TypeError, ValueError, OverflowError):
            cost = math.nan
        if not 0 <= cost <= most:  # not true of NaN
            self.rejected.setdefault(field, value)
            return None
        return cost
