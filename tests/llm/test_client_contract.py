"""What every transport does alike: scripted, plain HTTP, langchain."""

from __future__ import annotations

import base64
import math
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from fake_endpoint import DROP, GARBAGE, FakeEndpoint, Reply, answer, error, fake_endpoint

from autoprompt.errors import (
    AuthenticationError,
    ContextOverflowError,
    EndpointError,
    RequestRefusedError,
    WithheldError,
)
from autoprompt.llm import local
from autoprompt.llm.adapter import ScriptedClient
from autoprompt.llm.client import Client, Options
from autoprompt.llm.limits.budget import BudgetMeter
from autoprompt.llm.models import RoleModels
from autoprompt.llm.transport.failures import BrokenAnswerError, QuotaError, TimedOutError, UnreachableError
from autoprompt.llm.transport.http import HttpTransport
from autoprompt.llm.transport.langchain import LangChainTransport
from autoprompt.llm.transport.wire import LABELS_BEFORE_CUT
from autoprompt.records import Message
from autoprompt.settings.records import ModelSettings

ASK = [Message("system", "Say the label."), Message("user", "标题党?")]
KEY = "sk-very-secret-key"
Transport = HttpTransport | LangChainTransport
Make = Callable[..., Transport]


@pytest.fixture
def endpoint() -> Iterator[FakeEndpoint]:
    with fake_endpoint(lambda body: answer(f"you said {body['messages'][-1]['content']}")) as endpoint:
        yield endpoint


@pytest.fixture(params=["http", "langchain"])
def make(request: pytest.FixtureRequest, endpoint: FakeEndpoint) -> Iterator[Make]:
    made: list[Transport] = []

    def make_one(**settings: Any) -> Transport:
        kind = HttpTransport if request.param == "http" else LangChainTransport
        made.append(kind(settings.pop("base_url", endpoint.base_url), "m", KEY, **settings))
        return made[-1]

    yield make_one
    for transport in made:
        transport.close()
        transport.close()


@pytest.fixture(params=["scripted", "http", "langchain"])
def client(request: pytest.FixtureRequest, endpoint: FakeEndpoint) -> Iterator[Client]:
    client: Client
    if request.param == "scripted":
        client = ScriptedClient(lambda messages: f"you said {messages[-1].content}", name="m")
    else:
        kind = HttpTransport if request.param == "http" else LangChainTransport
        client = kind(endpoint.base_url, "m", KEY)
    yield client
    client.close()
    client.close()


def test_an_answer_has_text_usage_and_one_attempt(client: Client) -> None:
    completion = client.complete(ASK, Options(max_output_tokens=9, seed=3))
    assert completion.text == "you said 标题党?"
    assert completion.usage.prompt_tokens > 0
    assert completion.usage.completion_tokens > 0
    assert (completion.finish_reason, completion.attempts, completion.source) == ("stop", 1, "endpoint")
    assert client.name == "m"


def test_threads_get_their_own_answers(client: Client) -> None:
    with ThreadPoolExecutor(8) as pool:
        texts = pool.map(lambda i: client.complete([Message("user", str(i))]).text, range(40))
    assert list(texts) == [f"you said {i}" for i in range(40)]


def test_what_goes_over_the_wire(make: Make, endpoint: FakeEndpoint) -> None:
    options = Options(temperature=0.5, max_output_tokens=9, seed=3, stop=("\n",), labels=("a", 'b"'))
    make(constrain="grammar").complete(ASK, options)
    (body,) = endpoint.requests
    body.pop("stream", None)
    assert body == {
        "model": "m",
        "messages": [{"role": "system", "content": "Say the label."}, {"role": "user", "content": "标题党?"}],
        "temperature": 0.5,
        "max_tokens": 9,
        "seed": 3,
        "stop": ["\n"],
        "grammar": r'root ::= "a" | "b\""',
    }
    assert endpoint.headers[0]["authorization"] == f"Bearer {KEY}"


def test_usage_and_model_are_the_endpoints(make: Make) -> None:
    completion = make().complete(ASK)
    assert (completion.usage.prompt_tokens, completion.usage.completion_tokens) == (11, 3)
    assert completion.model == "fake-1"


def test_tokens_that_are_not_counted_are_estimated(make: Make, endpoint: FakeEndpoint) -> None:
    endpoint.replies.append(answer("12345678", usage=None))
    assert make().complete(ASK).usage.completion_tokens == 2


def test_no_text_is_an_empty_text(make: Make, endpoint: FakeEndpoint) -> None:
    endpoint.replies.append(answer(None))
    assert make().complete(ASK).text == ""


def test_a_refusal_is_told_in_its_words(make: Make, endpoint: FakeEndpoint) -> None:
    """As an empty answer, it was taken for one that a larger --max-output-tokens helps."""
    endpoint.replies.append(answer(None, refusal="I can't help with a."))
    completion = make(constrain="json_schema").complete(ASK, Options(labels=("a", "b")))
    assert completion.text == "I can't help with a."
    assert completion.withheld == "the model declined to answer: I can't help with a."


def test_a_schema_answer_is_unwrapped(make: Make, endpoint: FakeEndpoint) -> None:
    endpoint.replies.extend([answer('{"answer": "a"}'), answer("a, or so")])
    transport = make(constrain="json_schema")
    texts = [transport.complete(ASK, Options(labels=("a", "b"))).text for _ in range(2)]
    assert texts == ["a", "a, or so"]
    schema = endpoint.requests[0]["response_format"]["json_schema"]
    assert schema["strict"] is True
    assert schema["schema"]["properties"]["answer"]["enum"] == ["a", "b"]


def test_label_probabilities_come_with_the_answer(make: Make, endpoint: FakeEndpoint) -> None:
    top = [
        {"token": t, "bytes": list(t.encode()), "logprob": math.log(p)} for t, p in (("a", 0.6), ("b", 0.2))
    ]
    endpoint.replies.append(
        answer("a", logprobs={"content": [{**top[0], "top_logprobs": top}], "refusal": None})
    )
    completion = make(constrain="grammar").complete(ASK, Options(labels=("a", "b"), wants_label_probs=True))
    assert completion.label_probs == pytest.approx({"a": 0.75, "b": 0.25})
    assert (endpoint.requests[0]["logprobs"], endpoint.requests[0]["top_logprobs"]) == (True, 20)


LABELS = Options(labels=("clickbait", "non_clickbait"), max_output_tokens=9)


def sure_of_its_grammar(make: Make, endpoint: FakeEndpoint) -> Client:
    endpoint.replies.extend([answer("clickbait")] * LABELS_BEFORE_CUT)
    transport = make(constrain="grammar")
    for _ in range(LABELS_BEFORE_CUT):
        transport.complete(ASK, LABELS)
    assert all(body["max_tokens"] == 9 for body in endpoint.requests)
    return transport


@pytest.mark.parametrize("finish_reason", ["length", "stop"])
def test_a_label_that_the_grammar_has_decided_is_not_written_out(
    make: Make, endpoint: FakeEndpoint, finish_reason: str
) -> None:
    transport = sure_of_its_grammar(make, endpoint)
    endpoint.replies.append(answer("non_", finish_reason=finish_reason))
    completion = transport.complete(ASK, LABELS)
    assert endpoint.requests[-1]["max_tokens"] == 1
    assert (completion.text, completion.finish_reason) == ("non_clickbait", "stop")


@pytest.mark.parametrize("text", ["The", "", "maybe"])
def test_an_endpoint_that_does_not_keep_to_the_grammar_is_not_cut(
    make: Make, endpoint: FakeEndpoint, text: str
) -> None:
    transport = sure_of_its_grammar(make, endpoint)
    endpoint.replies.extend([answer(text, finish_reason="length"), answer("The answer is: clickbait")])
    texts = [transport.complete(ASK, LABELS).text for _ in range(2)]
    assert texts == [text, "The answer is: clickbait"]
    assert endpoint.requests[-1]["max_tokens"] == 9


def test_without_a_grammar_a_cut_answer_is_what_it_is(make: Make, endpoint: FakeEndpoint) -> None:
    endpoint.replies.append(answer("non_", finish_reason="length"))
    completion = make().complete(ASK, replace(LABELS, max_output_tokens=1))
    assert (completion.text, completion.finish_reason) == ("non_", "length")


@pytest.mark.parametrize(
    ("reply", "expected", "status"),
    [
        (error(500), EndpointError, 500),
        (error(503), EndpointError, 503),
        (error(429), EndpointError, 429),
        (
            error(429, "Request too large, tokens per minute (TPM): Limit 60, Requested 9000"),
            ContextOverflowError,
            429,
        ),
        (error(429, "tokens per minute (TPM): Limit 6000, Used 5000, Requested 2000"), EndpointError, 429),
        (error(429, code="insufficient_quota"), QuotaError, 429),
        (error(402, "Insufficient credits"), QuotaError, 402),
        (error(400, "Your credit balance is too low to access the API."), QuotaError, 400),
        (error(400, "Access denied", code="Arrearage"), QuotaError, 400),
        (error(403, "Sorry, your account balance is insufficient"), QuotaError, 403),
        (error(429, "您的账户已欠费，请充值后重试。", code="1113"), QuotaError, 429),
        (error(429, "Your account is suspended", type="exceeded_current_quota_error"), QuotaError, 429),
        (error(429, "You exceeded your current quota, please check your plan"), EndpointError, 429),
        (error(401, f"Incorrect API key provided: {KEY}"), AuthenticationError, None),
        (error(403), AuthenticationError, None),
        (
            error(403, "Your chosen model requires moderation, and your input was flagged"),
            WithheldError,
            403,
        ),
        (error(400, "The response was filtered", code="content_filter"), WithheldError, 400),
        (
            error(400, "no", code="", innererror={"code": "ResponsibleAIPolicyViolation"}),
            WithheldError,
            400,
        ),
        (error(400, "Content Exists Risk"), WithheldError, 400),
        (error(400, "no", code="data_inspection_failed"), WithheldError, 400),
        (error(404, "no such model"), RequestRefusedError, 404),
        (error(422), RequestRefusedError, 422),
        (Reply(502, "<html>"), EndpointError, 502),
        (Reply(400, []), RequestRefusedError, 400),
        (GARBAGE, BrokenAnswerError, None),
        (Reply(body={"choices": []}), BrokenAnswerError, None),
        (Reply(body=[1]), BrokenAnswerError, None),
        (DROP, EndpointError, None),
    ],
)
def test_failures_are_ours_and_never_hold_the_key(
    make: Make, endpoint: FakeEndpoint, reply: Reply, expected: type[Exception], status: int | None
) -> None:
    endpoint.replies.append(reply)
    with pytest.raises(expected) as caught:
        make().complete(ASK)
    assert type(caught.value) is expected
    assert getattr(caught.value, "status", None) == status
    assert KEY not in str(caught.value)


@pytest.mark.parametrize(
    ("told", "expected", "status"),
    [
        ({"code": 429, "message": f"slow down, {KEY}"}, EndpointError, 429),
        ({"code": "502", "message": "the provider is down"}, EndpointError, 502),
        ({"type": "rate_limit_error", "message": "slow down"}, EndpointError, 429),
        ({"code": "insufficient_quota", "message": "empty"}, QuotaError, 402),
        ({"code": 401, "message": f"no such key: {KEY}"}, AuthenticationError, None),
        ({"code": 403, "message": "Your input was flagged"}, WithheldError, 403),
        ({"message": f"something went wrong with {KEY}"}, BrokenAnswerError, None),
        (f"Unexpected endpoint, {KEY}", BrokenAnswerError, None),
    ],
)
def test_an_error_with_http_200_is_of_the_status_that_it_names(
    make: Make, endpoint: FakeEndpoint, told: Any, expected: type[Exception], status: int | None
) -> None:
    """Gateways such as OpenRouter give it so. As a broken answer, a rate limit was a wrong answer."""
    endpoint.replies.append(Reply(body={"error": told}))
    with pytest.raises(expected) as caught:
        make().complete(ASK)
    assert type(caught.value) is expected
    assert getattr(caught.value, "status", None) == status
    assert KEY not in str(caught.value)


def test_a_refused_password_is_what_is_to_be_checked_and_is_not_repeated(
    make: Make, endpoint: FakeEndpoint
) -> None:
    """Some proxies repeat the header that they refuse."""
    header = base64.b64encode(b"me:pass word").decode()
    endpoint.replies.append(error(401, f"not let in: Basic {header}, pass word"))
    address = endpoint.base_url.replace("://", "://me:pass%20word@")
    with pytest.raises(AuthenticationError) as caught:
        make(base_url=address).complete(ASK)
    assert endpoint.headers[-1]["authorization"] == f"Basic {header}"
    said = str(caught.value)
    assert said.endswith(
        "not let in: Basic ***, ***. Check user and password in the base URL and what may be used with it."
    )


@pytest.mark.parametrize(
    ("login", "reply"),
    [
        ("me:hunter2hunter2", Reply(401, "x" * 292 + "hunter2hunter2")),
        ("me:p%C3%A4ssword1", Reply(401, {"detail": "bad login me:pässword1"})),
        ("me:p%C3%A4%22ssword1", Reply(401, {"detail": ["bad login", 'pä"ssword1']})),
        ("me:p%C3%A4%22ssword1", Reply(401, {"reason": 'bad login pä"ssword1'})),
        ("tok-0123456789", error(401, "unknown token tok-0123456789")),
    ],
)
def test_what_is_secret_in_an_address_is_not_repeated_cut_or_quoted(
    make: Make, endpoint: FakeEndpoint, login: str, reply: Reply
) -> None:
    endpoint.replies.append(reply)
    with pytest.raises(AuthenticationError) as caught:
        make(base_url=endpoint.base_url.replace("://", f"://{login}@")).complete(ASK)
    said = str(caught.value)
    assert "Check user and password" in said
    assert not any(part in said for part in ("hunter", "ssword1", "0123"))


def test_an_address_with_an_empty_login_is_asked_with_the_key(make: Make, endpoint: FakeEndpoint) -> None:
    endpoint.replies.append(error(401))
    with pytest.raises(AuthenticationError, match="Check the key"):
        make(base_url=endpoint.base_url.replace("://", "://@")).complete(ASK)


def test_what_is_to_be_done_stands_behind_one_full_stop(make: Make, endpoint: FakeEndpoint) -> None:
    endpoint.replies.append(error(402, "Insufficient credits.\n"))
    with pytest.raises(QuotaError, match=r"HTTP 402: Insufficient credits\. The account has no quota left"):
        make().complete(ASK)


def test_an_answer_may_be_created(make: Make, endpoint: FakeEndpoint) -> None:
    """HTTP 201 is what some web frameworks say to a POST."""
    endpoint.replies.append(replace(answer("1"), status=201))
    assert make().complete(ASK).text == "1"


def test_an_error_in_place_of_the_message_is_one(endpoint: FakeEndpoint) -> None:
    choice = {"message": {"content": ""}, "finish_reason": "error", "error": {"code": 502, "message": "down"}}
    endpoint.replies.append(Reply(body={"choices": [choice]}))
    transport = HttpTransport(endpoint.base_url, "m", KEY)
    with pytest.raises(EndpointError, match="HTTP 502: down"):
        transport.complete(ASK)
    transport.close()


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"Retry-After": "3"}, 3.0),
        ({"retry-after-ms": "250"}, 0.25),
        ({"Retry-After": "soon"}, None),
        ({"Retry-After": ""}, None),
        ({"Retry-After": "Wed, 21 Oct 2015 07:28:00 GMT"}, 0.0),
        ({"Retry-After": "Wed, 99 Oct 2026 07:28:00 GMT"}, None),
        ({}, None),
    ],
)
def test_retry_after_is_read(
    make: Make, endpoint: FakeEndpoint, headers: dict[str, str], seconds: float | None
) -> None:
    endpoint.replies.append(error(429, headers=headers))
    with pytest.raises(EndpointError) as caught:
        make().complete(ASK)
    assert caught.value.retry_after_s == seconds


@pytest.mark.parametrize(
    ("reply", "parameter"),
    [
        (
            error(400, "Unsupported parameter: 'max_tokens' is not supported.", param="max_tokens"),
            "max_tokens",
        ),
        (error(400, "Unrecognized request argument supplied: seed"), "seed"),
        (
            Reply(422, {"detail": [{"loc": ["body", "seed"], "msg": "Extra inputs are not permitted"}]}),
            "seed",
        ),
        (error(400, "max_tokens is too large: 9", param="max_tokens"), None),
        (error(400, "This model's maximum context length is 9 tokens", param="messages"), None),
        (error(400, "Unknown parameter: 'top_k'", param="top_k"), None),
    ],
)
def test_a_refused_parameter_is_named_if_it_was_sent(
    make: Make, endpoint: FakeEndpoint, reply: Reply, parameter: str | None
) -> None:
    endpoint.replies.append(reply)
    with pytest.raises(RequestRefusedError) as caught:
        make().complete(ASK, Options(max_output_tokens=9, seed=1))
    assert caught.value.parameter == parameter


@pytest.mark.parametrize(
    "body",
    [
        [{"error": {"code": 400, "message": "Logprobs is not enabled for models/x", "status": "INVALID"}}],
        {"message": "Requested sample logprobs of 20, which is greater than max allowed: 5", "code": 400},
        {"error": {"message": "top_logprobs: Input should be less than or equal to 5", "param": None}},
        {"detail": [{"loc": ["body", "logprobs"], "msg": "Input should be a valid integer"}]},
    ],
)
def test_log_probabilities_are_a_wish_whatever_is_wrong_with_them(
    make: Make, endpoint: FakeEndpoint, body: Any
) -> None:
    """Each row was refused, so no run with labels was possible there."""
    endpoint.replies.append(Reply(400, body))
    options = Options(labels=("a", "b"), wants_label_probs=True)
    with pytest.raises(RequestRefusedError) as caught:
        make().complete(ASK, options)
    assert caught.value.parameter == "logprobs"
    endpoint.replies.append(Reply(400, body))
    with pytest.raises(RequestRefusedError) as caught:
        make().complete(ASK, Options())
    assert caught.value.parameter is None  # it was not sent


def test_no_answer_in_time(make: Make, endpoint: FakeEndpoint) -> None:
    over = threading.Event()
    endpoint.replies.append(Reply(hangs_until=over))
    with pytest.raises(TimedOutError):
        make(timeout_s=0.05).complete(ASK)
    over.set()


def test_nobody_there(make: Make) -> None:
    with pytest.raises(UnreachableError, match=r"127\.0\.0\.1:9"):
        make(base_url="http://127.0.0.1:9/v1").complete(ASK)


def test_repr_does_not_show_the_key(make: Make) -> None:
    transport = make()
    assert KEY not in repr(transport) + repr(vars(transport)).replace(f"'_api_key': '{KEY}'", "")


@pytest.mark.parametrize("transport", ["http", "langchain"])
def test_no_proxy_stands_before_the_embedded_model(
    transport: str, endpoint: FakeEndpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = local.LocalServer(endpoint.base_url, KEY, "sha", "m", _key=(Path("m"), 1, 1))
    monkeypatch.setattr(local, "start", lambda *_, **__: server)
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy", "OPENAI_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    settings = ModelSettings.model_validate({"transport": transport})
    with RoleModels(settings, budget=BudgetMeter(max_calls=1)) as models:
        assert models.client("task").complete(ASK).text == "you said 标题党?"
    if transport == "http":
        with pytest.raises(UnreachableError):
            HttpTransport(endpoint.base_url, "m", KEY).complete(ASK)
