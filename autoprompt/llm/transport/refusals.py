"""What an endpoint means that refuses a request: too long an answer, a role it does not know, its filter.

Endpoints have no common codes for these, so their sentences are read.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from autoprompt.text.patterns import lazy

SYSTEM = "system"  # the system role as a part of the request that an endpoint may refuse
LIMITS = ("max_tokens", "max_completion_tokens")

_NUMBER = r"(?<![\w.\-])(?:\d{1,3}(?:,\d{3})+|\d+(?:\.\d+)? ?[kK]|\d+)(?![\w\-]|\.\d|,\d)"
# Groq and OpenAI, of tokens per minute, with 413 or 429: "Limit 6000, Requested 8264".
_OF_RATE = lazy(rf"\blimit\W{{1,3}}({_NUMBER})(?:.{{0,40}}?\brequested\W{{1,3}}({_NUMBER}))?", re.IGNORECASE)
_OF_TOKENS = lazy(r"\bTPM\b|tokens?[ -]per[ -](?:min|day)", re.IGNORECASE)
_OF_LENGTH = lazy(
    r"max[_ ]?(?:completion|output|new)?[_ ]?tokens|(?:output|completion) tokens|maximum tokens",
    re.IGNORECASE,
)
_OF_WINDOW = lazy(
    rf"(?:context[ _](?:length|window|size)|`inputs` tokens \+)\D{{0,60}}({_NUMBER})"
    rf"|({_NUMBER}) maximum context length",
    re.IGNORECASE,
)
_OF_PROMPT = lazy(
    rf"({_NUMBER}) (?:tokens )?(?:in|from|of|for) (?:the |your )?(?:messages|prompt|input)"
    rf"|({_NUMBER}) `?inputs?`? tokens|prompt (?:contains|has|is)\D{{0,20}}({_NUMBER})"
    rf"|messages resulted in ({_NUMBER})",
    re.IGNORECASE,
)
_TOO_LONG = lazy(r"too (?:large|high|big|long)|exceed|out of range|invalid|非法|超出", re.IGNORECASE)
# OpenAI, Anthropic, Google, Mistral, Cohere, vLLM, TGI, llama.cpp, SGLang, Ollama, DashScope, Zhipu.
_OVERFLOW = lazy(
    r"context_?length_?exceeded|context_?window_?exceeded|exceed_context_size|model_?max_?length"
    r"|(?:maximum|max|model'?s?|available|allowed) (?:context|prompt|input|sequence) ?(?:length|size|window)"
    r"|context (?:length|window|size|limit)s?\b.{0,80}\b(?:exceed|limit|too|is|of|only|overflow)"
    r"|exceed\w*\b.{0,60}\b(?:context|window|token limit|(?:maximum|max|input) (?:number of )?tokens)"
    r"|(?:prompt|input|request|message|conversation)s?\b.{0,40} too (?:long|large|many tokens)"
    r"|maximum model length|`inputs` must have less|range of input length"
    r"|too many (?:input |prompt )?tokens|request entity too large|payload too large"
    r"|(?:input|prompt) (?:token count|tokens?|length)\b.{0,80}\b(?:exceed|(?:more|greater|larger) than|must)"
    r"|reduce (?:the|your) (?:length|prompt|input|messages)|context is \d+ tokens"
    r"|(?:输入|上下文|提示词?|请求).{0,20}(?:过长|超长|超过|超出|太长)|(?:超过|超出).{0,20}(?:上下文|最大长度|长度限制)",
    re.IGNORECASE | re.DOTALL,
)
_LEAST = 16  # tokens; a smaller number in the sentence is no limit of an answer

# Gemma's "System role not supported", Google's "Developer instruction is not enabled for", OpenAI's
# "'messages[0].role' does not support 'system'", templates that want user and assistant to take turns.
_OF_ROLES = lazy(
    r"\b(?:system|developer)[ _'\"`-]*(?:role|message|prompt|instruction|turn)s?\b"
    r"|\broles?\b.{0,60}\b(?:system|developer)\b|\b(?:system|developer)\b.{0,60}\broles?\b"
    r"|roles? must alternate|alternate (?:between )?user"
    r"|(?:support|permit|allow|accept|take)\w*\b.{0,40}['\"`]?system\b(?!_)"
    r"|['\"`]?system['\"`]? (?:is |are )?(?:not |un)(?:support|allow|permit|accept)"
    r"|(?:only|should be|expected|one of|must be).{0,40}\buser\b.{0,20}\bassistant\b"
    r"|(?:unexpected|invalid|unknown|unsupported|unrecogni[sz]ed|incorrect) role|role not supported"
    r"|messages[\[.]\d+\]?\.role|jinja|chat[ _]template|template ?error|raise_exception"
    r"|(?:first|start|begin)\w*\b.{0,40}\buser\b|permitted: ['\"`]?user"
    r"|system.{0,20}(?:角色|不支持)|不支持.{0,20}system",
    re.IGNORECASE | re.DOTALL,
)
_FILTER_CODES = lazy(
    r"content_?filter|content_policy_violation|ResponsibleAIPolicy|data_?inspection_?failed|moderation"
    r"|prohibited_content|sensitive|contentFilter",
    re.IGNORECASE,
)
_FILTER_SAYS = lazy(
    r"moderation|was flagged|flagged (?:as|by|for)|content[ _-](?:policy|filter|management)|guardrail"
    r"|content exists risk|inappropriate content|unsafe content|(?:内容|信息).{0,20}(?:敏感|违规|不安全)",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class LengthBound:
    """How long an answer may be, as a refusal says. most_tokens: of the refused request; None: not known.

    window_tokens: of request and answer together, if that is what the request was too long for.
    """

    most_tokens: int | None
    window_tokens: int | None = None


def length_bound(said: str, sent: Mapping[str, Any]) -> LengthBound | None:
    """Return the bound that a refusal names, if the limit of the answer's length was too large.

    sent: the parameters of the request. None for a refusal of another kind, and if no answer fits at all.
    """
    limit = next((sent[name] for name in LIMITS if sent.get(name)), None)
    if limit is None:
        return None
    rate = _rate(said)
    if rate is not None:
        minute, asked = rate
        if asked is None:
            return LengthBound(None, minute) if minute < limit else None
        left = minute - (asked - limit if asked >= limit else asked)  # some count the prompt alone
        return LengthBound(left, minute) if _LEAST <= left < limit else None
    window = _first(_OF_WINDOW, said)
    if window is not None:
        prompt = _first(_OF_PROMPT, said)
        if prompt is None:
            return LengthBound(None, window)
        return LengthBound(window - prompt, window) if _LEAST <= window - prompt < limit else None
    if not _OF_LENGTH.search(said):
        return None
    named = [number for text in re.findall(_NUMBER, said) if _LEAST <= (number := _int(text)) < limit]
    if named:
        most = max(named)
        return LengthBound(most - 1 if _is_excluded(most, said) else most)
    # "max_tokens is too large", without a number.
    return LengthBound(limit // 2) if _TOO_LONG.search(said) and limit // 2 >= _LEAST else None


def exceeds_rate(said: str) -> bool:
    """Whether one request has more tokens than are allowed in a minute, so that waiting does not help."""
    rate = _rate(said)
    return rate is not None and rate[1] is not None and rate[1] > rate[0]


def _rate(said: str) -> tuple[int, int | None] | None:
    """Return the tokens of a minute, and those of the request if the sentence says them."""
    found = _OF_RATE.search(said) if _OF_TOKENS.search(said) else None
    return None if found is None else (_int(found[1]), None if found[2] is None else _int(found[2]))


def is_about_roles(said: str) -> bool:
    """Whether a refusal may mean the system message, or turns that do not alternate."""
    return _OF_ROLES.search(said) is not None


def is_overflow(said: str) -> bool:
    """Whether a refusal, by codes and sentence, means that the request is longer than the window."""
    return _OVERFLOW.search(said) is not None


def is_filtered(error: Mapping[str, Any], said: str) -> bool:
    """Whether a content filter refused what the request says."""
    inner = error.get("innererror")
    codes = [error.get("code"), error.get("type"), inner.get("code") if isinstance(inner, Mapping) else None]
    return any(_FILTER_CODES.search(str(code)) for code in codes) or _FILTER_SAYS.search(said) is not None


def _is_excluded(number: int, said: str) -> bool:
    """Whether the sentence says "less than" this number, and not "or equal"."""
    text = f"(?:{number}|{number:,})"
    below = rf"(?:less|lower|fewer|smaller) than\s+[`'\"]?{text}|<\s*{text}|{text}\s*\(exclusive\)"
    return re.search(below, said) is not None


def _first(pattern: re.Pattern[str], said: str) -> int | None:
    found = pattern.search(said)
    return None if found is None else _int(next(filter(None, found.groups())))


def _int(text: str) -> int:
    """The number, at least: of `4K`, which may be 4,096, 4,000."""
    if text[-1] in "kK":
        return int(float(text[:-1]) * 1000)
    return int(text.replace(",", ""))
