"""How a request fails, in our words: one door for HTTP statuses, refusals and broken answers.

Endpoints have no common codes for what they refuse (too long an answer, a role they do not know, their
filter), so their sentences are read.
"""

from __future__ import annotations

import base64
import email.utils
import json
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote, urlsplit

from autoprompt.errors import (
    AuthenticationError,
    ContextOverflowError,
    EndpointError,
    ModelError,
    Problem,
    RequestRefusedError,
    WithheldError,
)
from autoprompt.llm.transport.address import base_of, shown_url
from autoprompt.records import Usage
from autoprompt.text.scripts import lazy

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
    """Return whether one request has more tokens than a minute allows, so that waiting does not help."""
    rate = _rate(said)
    return rate is not None and rate[1] is not None and rate[1] > rate[0]


def _rate(said: str) -> tuple[int, int | None] | None:
    """Return the tokens of a minute, and those of the request if the sentence says them."""
    found = _OF_RATE.search(said) if _OF_TOKENS.search(said) else None
    return None if found is None else (_int(found[1]), None if found[2] is None else _int(found[2]))


def is_about_roles(said: str) -> bool:
    """Return whether a refusal may mean the system message, or turns that do not alternate."""
    return _OF_ROLES.search(said) is not None


def is_overflow(said: str) -> bool:
    """Return whether a refusal, by codes and sentence, means that the request is longer than the window."""
    return _OVERFLOW.search(said) is not None


def is_filtered(error: Mapping[str, Any], said: str) -> bool:
    """Return whether a content filter refused what the request says."""
    inner = error.get("innererror")
    codes = [error.get("code"), error.get("type"), inner.get("code") if isinstance(inner, Mapping) else None]
    return any(_FILTER_CODES.search(str(code)) for code in codes) or _FILTER_SAYS.search(said) is not None


def _is_excluded(number: int, said: str) -> bool:
    """Return whether the sentence says "less than" this number, and not "or equal"."""
    text = f"(?:{number}|{number:,})"
    below = rf"(?:less|lower|fewer|smaller) than\s+[`'\"]?{text}|<\s*{text}|{text}\s*\(exclusive\)"
    return re.search(below, said) is not None


def _first(pattern: re.Pattern[str], said: str) -> int | None:
    found = pattern.search(said)
    return None if found is None else _int(next(filter(None, found.groups())))


def _int(text: str) -> int:
    """Return the number, at least: of `4K`, which may be 4,096, 4,000."""
    if text[-1] in "kK":
        return int(float(text[:-1]) * 1000)
    return int(text.replace(",", ""))


class UnreachableError(EndpointError):
    """No connection came about: refused, no such host, no route."""


class TimedOutError(EndpointError):
    """A connection, and no answer in time."""


class BrokenAnswerError(EndpointError):
    """An answer that is not a chat completion: not JSON, or without choices.

    usage_of_answer: what it took, if it says so.
    """

    usage_of_answer = Usage()


def used_by(error: EndpointError) -> Usage:
    """Return what an answer took that is of no use."""
    return error.usage_of_answer if isinstance(error, BrokenAnswerError) else Usage()


class QuotaError(EndpointError):
    """The account has nothing left: waiting does not help."""


class OwnClientError(EndpointError):
    """A client of one's own broke, or returned no completion. Whether to try again is its own business."""


# "Unsupported parameter", "Unrecognized request argument", "extra fields not permitted", ... but not
# "max_tokens is too large", which names a value.
_NOT_TAKEN = re.compile(
    r"unsupported|not support|n't support|unknown|unrecogni[sz]ed|unexpected|extra|not permitted|not allowed"
    r"|not available|unavailable|not enabled|invalid (parameter|field|argument)|deprecated"
    r"|failed to parse grammar",
    re.IGNORECASE,
)
_TOO_MUCH = re.compile(r"too (large|long|many|high)|context|exceed|at most|maximum", re.IGNORECASE)
# An account that is empty, which is 400 at Anthropic and Alibaba, 403 at SiliconFlow, 429 at Zhipu. Not
# "check your plan and billing details", which Google says of a rate of one minute, too.
_NO_QUOTA = re.compile(
    r"insufficient[ _](quota|balance|credits?)\b|balance is (too low|insufficient)|arrear|余额不足|欠费"
    r"|billing[ _](hard[ _]limit|not[ _]active)|exceeded_current_quota",
    re.IGNORECASE,
)
# What nginx and Go's servers answer to plain text where they expect TLS.
_TLS_ONLY = re.compile(
    r"HTTP request .{0,20}HTTPS (?:port|server)|requires? (?:https|ssl|tls)", re.IGNORECASE
)
_SHORTEST_SECRET = 6  # a key as short as that of a test server occurs in ordinary words
# What an error in an answer is called where it names no status.
_WORDS = {"rate_limit": 429, "insufficient_quota": 402, "overloaded": 503, "server_error": 500}


def never_reached(error: ModelError) -> EndpointError:
    """Return the fatal error of an endpoint that nobody has reached so far."""
    fix = (
        "Is the server running, and is the base URL right? Set {base_url}, or use the embedded model with "
        "{model}."
    )
    settings = {"base_url": None, "model": "local"}
    return EndpointError(
        Problem("endpoint.unreachable", str(error), fix=fix, settings=settings), is_fatal=True
    )


def found_elsewhere(said: str, address: str) -> Problem:
    """Return the problem of an endpoint that answers at another address than the one that was given."""
    fix = "An endpoint answers at another address: set {base_url}."
    return Problem("endpoint.other-address", said, fix=fix, settings={"base_url": address})


def from_status(
    status: int,
    headers: Mapping[str, str],
    body: str,
    *,
    url: str,
    api_key: str,
    sent: Mapping[str, Any],
    key_name: str = "the key (OPENAI_API_KEY)",
) -> ModelError:
    """Return the error that an HTTP status other than 200 stands for. It never holds the key.

    key_name: what to check if the key is not taken.
    sent: the optional parameters in the request, and `SYSTEM` if it has a system message; one that the
        endpoint will not take is named in `RequestRefusedError.parameter`.
    """
    error = _error_object(body)
    said = redact(str(error.get("message") or ""), url, api_key)
    said = said or redact(body.strip(), url, api_key)[:300] or "no reason given"
    # Without the status: the message begins with it.
    said = re.sub(rf"\A(?:\s*(?:HTTP\s*)?{status}\b[\s:,–-]*)+", "", said) or "no reason given"
    # Without its full stop: what is to be done comes behind it.
    text = f"{shown_url(url)}: HTTP {status}: {said.strip().removesuffix('.')}"
    named = f"{error.get('code')} {error.get('type')} {said}"
    is_over_rate = status == 429 and exceeds_rate(said)
    bound = length_bound(said, sent) if is_over_rate or status in (400, 402, 413, 422) else None
    if bound is not None:
        most, window = bound.most_tokens, bound.window_tokens
        kind = RequestRefusedError if window is None else ContextOverflowError
        return kind(text, status=status, most_tokens=most, window_tokens=window)
    if status == 402 or (status in (400, 403, 429) and _NO_QUOTA.search(named)):
        todo = "The account has no quota left: top it up, or name another endpoint."
        return QuotaError(f"{text}. {todo}", status=status, is_fatal=True)
    if status == 413 or is_over_rate or (status in (400, 422) and is_overflow(named)):
        return ContextOverflowError(text, status=status)
    parameter = _refused_parameter(error, said, sent) if status in (400, 422) else None
    if status in (400, 403, 422, 451) and parameter is None and is_filtered(error, said):
        return WithheldError(f"the endpoint's content filter refused it; {text}", status=status)
    if url.startswith("http:") and _TLS_ONLY.search(said):
        secure = base_of(shown_url(url)).replace("http:", "https:", 1)
        fix, settings = "The server speaks https: set {base_url}.", {"base_url": secure}
        problem = Problem("endpoint.speaks-https", text, fix=fix, settings=settings)
        return EndpointError(problem, status=status, is_fatal=True)
    if status in (401, 403):
        asked = "user and password in the base URL" if has_login(url) else key_name
        return AuthenticationError(f"{text}. Check {asked} and what may be used with it.")
    # llama.cpp answers 500 if the model's template raises.
    if parameter is None and status in (400, 422, 500) and SYSTEM in sent and is_about_roles(said):
        parameter = SYSTEM
    elif status in (408, 409, 425, 429) or status >= 500:
        return EndpointError(text, status=status, retry_after_s=_retry_after(headers))
    return RequestRefusedError(text, status=status, parameter=parameter)


def from_answer(
    data: object, headers: Mapping[str, str], *, url: str, api_key: str, sent: Mapping[str, Any]
) -> ModelError | None:
    """Return the error that a gateway puts into an answer of HTTP 200, as OpenRouter does; None without one.

    As of the status that it names, so that a rate limit is waited for and no wrong answer. One that names no
    status is a BrokenAnswerError.
    """
    error = _told(data)
    if error is None:
        return None
    status = _status(error)
    if status is None:
        said = redact(str(error.get("message") or error), url, api_key)[:300]
        if is_filtered(error, said):
            return WithheldError(f"the endpoint's content filter refused it; {shown_url(url)}: {said}")
        return BrokenAnswerError(f"{shown_url(url)}: the answer is an error: {said}")
    body = json.dumps({"error": dict(error)})
    return from_status(status, headers, body, url=url, api_key=api_key, sent=sent)


def _told(data: object) -> Mapping[str, Any] | None:
    """Return the error in place of the choices, or in the first of them."""
    if not isinstance(data, Mapping):
        return None
    choices = data.get("choices")
    first = choices[0] if isinstance(choices, list) and choices else None
    error = data.get("error") if not choices else first.get("error") if isinstance(first, Mapping) else None
    if isinstance(error, Mapping):
        return error or None
    return {"message": error} if error and isinstance(error, str) else None


def _status(error: Mapping[str, Any]) -> int | None:
    """Return the HTTP status that it speaks of, as a number or by its word."""
    for name in ("code", "status"):
        if re.fullmatch(r"[45]\d\d", str(error.get(name))):
            return int(error[name])
    words = f"{error.get('code')} {error.get('type')}"
    return next((status for word, status in _WORDS.items() if word in words), None)


def redact(text: str, url: str, api_key: str) -> str:
    """Return `text` without the key and the URL's password, which some endpoints repeat in their messages."""
    for secret in (*_login(url), api_key):
        if len(secret) >= _SHORTEST_SECRET:
            text = text.replace(secret, "***")
    return text


def has_login(url: str) -> bool:
    """Return whether the URL has user and password, which then go instead of a key."""
    return bool(_login(url))


def _login(url: str) -> tuple[str, ...]:
    """Return what is secret in a URL; () if nothing is.

    That is user and password as the header has them, and the password alone; or a user without a password,
    which is how tokens are given.
    """
    name, _, password = urlsplit(url).netloc.rpartition("@")[0].partition(":")
    if not (name or password):
        return ()
    header = base64.b64encode(f"{unquote(name)}:{unquote(password)}".encode()).decode()
    secret = password or name
    plain = unquote(secret)
    in_json = (json.dumps(plain, ensure_ascii=is_ascii)[1:-1] for is_ascii in (True, False))
    return header, secret, plain, *in_json


def _error_object(body: str) -> Mapping[str, Any]:
    """`{"error": {...}}` of OpenAI and llama.cpp, or `{"detail": ...}`, `{"message": ...}` of others."""
    try:
        data = json.loads(body)
    except (ValueError, RecursionError):
        return {}
    if isinstance(data, list) and data:  # Google's
        data = data[0]
    if not isinstance(data, dict):
        return {}
    error = data.get("error", data)
    if isinstance(error, dict):
        detail = error.get("detail")
        if detail is None:
            return error
        said = detail if isinstance(detail, str) else json.dumps(detail, ensure_ascii=False)
        return {"message": said, **error}
    return {"message": str(error)}


def _refused_parameter(error: Mapping[str, Any], message: str, sent: Mapping[str, Any]) -> str | None:
    names = [name for name in sent if name != SYSTEM]
    # A wish: whatever is wrong with it, it is left out. Google's "Logprobs is not enabled for", vLLM's
    # "logprobs of 20, which is greater than max allowed: 5", and others that want a number.
    if "logprobs" in names and re.search("logprob", message, re.IGNORECASE):
        return "logprobs"
    if not _NOT_TAKEN.search(message) or _TOO_MUCH.search(message):
        return None
    named = error.get("param")
    if named not in names:
        named = next((name for name in names if re.search(rf"\b{name}\b", message)), None)
    if named == "reasoning_effort" and re.search(r"\bvalues?\b", message):
        return None  # the user's word is not known there, and without it the model would think as it likes
    return named


def _retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds, from `Retry-After` as a number or a date, or OpenAI's `retry-after-ms`."""
    milliseconds, value = headers.get("retry-after-ms"), headers.get("retry-after")
    try:
        if milliseconds is not None:
            return max(0.0, float(milliseconds) / 1000)
        return None if value is None else max(0.0, float(value))
    except ValueError:
        return _seconds_until(value or "")


def _seconds_until(date: str) -> float | None:
    """None for what is no date; one that no calendar has (`Wed, 99 Oct`) is none."""
    try:
        return max(0.0, email.utils.parsedate_to_datetime(date).timestamp() - time.time())
    except (ValueError, OverflowError):
        return None
