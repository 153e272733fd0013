from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest
from fake_endpoint import FakeEndpoint, Reply, answer, error, fake_endpoint

from autoprompt.errors import AuthenticationError, ConfigError, EndpointError, UsageError
from autoprompt.llm import Message, Options
from autoprompt.llm.client import CallRole
from autoprompt.llm.endpoints import OPENAI_URL, choose_model, open_endpoint
from autoprompt.llm.limits.budget import BudgetMeter
from autoprompt.llm.limits.fitting import FIRST_ROOM
from autoprompt.llm.models import RoleModels, connect
from autoprompt.settings.records import ModelSettings

KEYS = {"OPENAI_API_KEY": "sk-task-key", "AUTOPROMPT_OPTIMIZER_API_KEY": "sk-optimizer-key"}
ASK = [Message("user", "x")]


@pytest.fixture
def endpoint() -> Iterator[FakeEndpoint]:
    with fake_endpoint() as endpoint:
        yield endpoint


def listing(*names: str, **more: Any) -> Reply:
    return Reply(body={"object": "list", "data": [{"id": name, **more} for name in names]})


def settings(**values: Any) -> ModelSettings:
    return ModelSettings(**values)


def test_the_default_is_the_embedded_model_whatever_keys_there_are() -> None:
    environment = {**KEYS, "OPENAI_BASE_URL": "http://paid/v1"}
    for role in ("task", "optimizer", "judge"):
        choice = choose_model(settings(), role, environment)  # type: ignore[arg-type]
        assert choice.is_local
        assert choice.weights_name == "qwen2.5-coder-1.5b"
        assert choice.api_key == ""


@pytest.mark.parametrize(
    ("role", "values", "expected"),
    [
        ("task", {"model": "local:smol"}, ("local:smol", None, "")),
        ("task", {"model": "m"}, ("m", OPENAI_URL, "sk-task-key")),
        ("task", {"model": "m", "base_url": "http://a/v1"}, ("m", "http://a/v1", "sk-task-key")),
        ("task", {"base_url": "http://a/v1"}, (None, "http://a/v1", "sk-task-key")),
        ("optimizer", {"model": "m"}, ("m", OPENAI_URL, "sk-task-key")),
        ("optimizer", {"optimizer_model": "w"}, ("w", OPENAI_URL, "sk-optimizer-key")),
        (
            "optimizer",
            {"model": "m", "base_url": "http://a/v1", "optimizer_model": "w"},
            ("w", "http://a/v1", "sk-optimizer-key"),
        ),
        ("optimizer", {"optimizer_base_url": "http://b/v1"}, (None, "http://b/v1", "sk-optimizer-key")),
        ("optimizer", {"model": "m", "optimizer_model": "local"}, ("local", None, "")),
        ("judge", {"optimizer_model": "w"}, ("w", OPENAI_URL, "sk-optimizer-key")),
        (
            "judge",
            {"judge_model": "j", "optimizer_base_url": "http://b/v1"},
            ("j", "http://b/v1", "sk-optimizer-key"),
        ),
    ],
)
def test_who_answers_for_a_role(
    role: CallRole, values: dict[str, Any], expected: tuple[str | None, str | None, str]
) -> None:
    choice = choose_model(settings(**values), role, KEYS)
    assert (choice.model, choice.base_url, choice.api_key) == expected
    assert "sk-" not in repr(choice)


@pytest.mark.parametrize("prefix", ["", "optimizer_", "judge_"])
@pytest.mark.parametrize("model", ["local", "local:smol"])
def test_the_embedded_model_has_no_address(prefix: str, model: str) -> None:
    values = {f"{prefix}model": model, f"{prefix}base_url": "http://a/v1"}
    said = f"^{prefix}model: '{model}' is a local model, but http://a/v1 is an endpoint"
    with pytest.raises(UsageError, match=said):
        choose_model(settings(**values), "judge", KEYS)


@pytest.mark.parametrize("role", ["task", "optimizer", "judge"])
def test_white_space_around_a_key_is_no_part_of_it(role: CallRole) -> None:
    environment = {"OPENAI_API_KEY": " sk-key\r\n", "AUTOPROMPT_JUDGE_API_KEY": "\n"}
    assert choose_model(settings(model="m", judge_model="j"), role, environment).api_key == "sk-key"


@pytest.mark.parametrize(
    ("key", "said"),
    [
        ("“sk-key”", r"OPENAI_API_KEY: character 1 of the key is U\+201C \(left double quotation mark\)"),
        ("sk-këy", r"character 5 of the key is U\+00EB"),
        ("sk-\nkey", r"character 4 of the key is U\+000A \(a control character\)"),
        ("sk-key\udcff", r"character 7"),
    ],
)
def test_a_key_that_no_header_can_carry_is_refused_and_not_repeated(key: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said) as caught:
        choose_model(settings(model="m"), "task", {"OPENAI_API_KEY": key})
    assert key not in str(caught.value)
    assert "sk-" not in str(caught.value)
    assert choose_model(settings(), "task", {"OPENAI_API_KEY": key}).is_local  # which needs none


@pytest.mark.parametrize("variable", ["OPENAI_BASE_URL", "OPENAI_API_BASE"])
def test_an_address_of_the_environment_is_used_for_a_named_model(variable: str) -> None:
    choice = choose_model(settings(model="m"), "task", {variable: "http://proxy/v1"})
    assert choice.base_url == "http://proxy/v1"


def test_the_only_model_of_an_endpoint_needs_no_name(endpoint: FakeEndpoint) -> None:
    chosen = settings(base_url=endpoint.base_url + "/")
    opened = open_endpoint(choose_model(chosen, "task", KEYS), chosen)
    assert (opened.model, opened.identity, opened.constrain) == ("fake", endpoint.base_url, "off")
    assert "sk-" not in repr(opened)


@pytest.mark.parametrize(
    ("models", "found"),
    [
        (listing("b", "a"), "it lists 2: a, b"),
        (listing(), "none"),
        (error(404), "none"),
        (Reply(body="?"), "none"),
    ],
)
def test_a_model_must_be_named_where_there_are_several_or_none(
    endpoint: FakeEndpoint, models: Reply, found: str
) -> None:
    endpoint.models = models
    chosen = settings(base_url=endpoint.base_url)
    with pytest.raises(UsageError, match=found):
        open_endpoint(choose_model(chosen, "task", {}), chosen)


def test_llama_servers_take_grammars(endpoint: FakeEndpoint) -> None:
    endpoint.models = listing("qwen", owned_by="llamacpp")
    chosen = settings(model="qwen", base_url=endpoint.base_url)
    assert open_endpoint(choose_model(chosen, "task", {}), chosen).constrain == "grammar"
    chosen = settings(model="qwen", base_url=endpoint.base_url, constrain="off")
    assert open_endpoint(choose_model(chosen, "task", {}), chosen).constrain == "off"


def test_openai_takes_schemas_and_is_not_asked_for_it() -> None:
    chosen = settings(model="gpt-4o-mini")
    assert open_endpoint(choose_model(chosen, "task", KEYS), chosen).constrain == "json_schema"


def test_openai_without_a_key_is_told_beforehand() -> None:
    chosen = settings(model="gpt-4o-mini")
    with pytest.raises(AuthenticationError, match="OPENAI_API_KEY is not set"):
        open_endpoint(choose_model(chosen, "task", {}), chosen)


@pytest.mark.parametrize(
    "url",
    [
        "127.0.0.1:8000/v1",
        "ftp://a/v1",
        "http://",
        "http://a:x/v1",
        "http://a..b/v1",
        f"http://{'a' * 64}.com/v1",
        "http://a\0b/v1",
    ],
)
def test_what_is_not_an_address_is_refused(url: str) -> None:
    chosen = settings(model="m", base_url=url)
    with pytest.raises(UsageError, match=r"is not an http\(s\) address\. Use http://"):
        open_endpoint(choose_model(chosen, "task", {}), chosen)


@pytest.mark.parametrize("end", ["/chat/completions", "/chat/completions/", "/chat/completions?key=secret"])
def test_the_address_of_a_request_is_no_base_url(end: str) -> None:
    chosen = settings(model="m", base_url=f"http://a/v1{end}")
    with pytest.raises(
        UsageError, match=r"autoprompt adds /chat/completions itself\. Use http://a/v1$"
    ) as caught:
        open_endpoint(choose_model(chosen, "task", {}), chosen)
    assert "secret" not in str(caught.value)


def test_spaces_around_an_address_of_the_environment_are_no_part_of_it(endpoint: FakeEndpoint) -> None:
    chosen = settings(model="m")
    environment = {"OPENAI_BASE_URL": f" {endpoint.base_url}/\n"}
    assert open_endpoint(choose_model(chosen, "task", environment), chosen).base_url == endpoint.base_url


@pytest.mark.parametrize("transport", ["http", "langchain"])
def test_a_query_of_the_base_url_is_that_of_every_request(endpoint: FakeEndpoint, transport: str) -> None:
    url = f"{endpoint.base_url}/?api-version=1&x=a%20b"
    with RoleModels(
        settings(base_url=url, transport=transport), budget=BudgetMeter(), environment={}
    ) as models:
        assert models.client("task").complete(ASK).text == "1"
    assert [path.replace("+", "%20") for path in endpoint.paths] == [
        "/v1/models?api-version=1&x=a%20b",
        "/v1/chat/completions?api-version=1&x=a%20b",
    ]


def test_a_refused_key_is_said(endpoint: FakeEndpoint) -> None:
    endpoint.models = error(401)
    chosen = settings(base_url=endpoint.base_url)
    with pytest.raises(AuthenticationError, match="Check the key"):
        open_endpoint(choose_model(chosen, "task", {}), chosen)


@pytest.mark.parametrize("status", [401, 403])
def test_an_endpoint_that_refuses_to_list_its_models_answers_for_a_named_one(
    endpoint: FakeEndpoint, status: int
) -> None:
    endpoint.models = error(status, "listing models is not allowed for this key")
    client = connect(settings(model="m", base_url=endpoint.base_url))
    assert client.complete(ASK).text == "1"
    endpoint.replies.append(error(status, "wrong key"))
    with pytest.raises(AuthenticationError, match="Check the key"):
        client.complete([Message("user", "another")])
    client.close()


def test_a_list_of_models_that_never_comes_is_waited_for_once_where_one_is_named(
    endpoint: FakeEndpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("autoprompt.llm.transport.http._LIST_TIMEOUT_S", 0.1)
    monkeypatch.setattr("autoprompt.llm.transport.http._WAITS_S", (0.0,))
    ended = threading.Event()
    endpoint.models = Reply(hangs_until=ended)
    connect(settings(model="m", base_url=endpoint.base_url)).close()
    ended.set()
    assert endpoint.listed == 1


def test_roles_with_the_same_model_share_one_client(endpoint: FakeEndpoint) -> None:
    chosen = settings(model="m", base_url=endpoint.base_url)
    with RoleModels(chosen, budget=BudgetMeter(), environment={}) as models:
        assert models.client("task") is models.client("optimizer") is models.client("judge")
        models.client("judge").complete(ASK, Options(role="judge"))
    chosen = settings(model="m", base_url=endpoint.base_url, optimizer_model="w")
    budget = BudgetMeter()
    with RoleModels(chosen, budget=budget, environment=KEYS) as models:
        models.client("task").complete(ASK)
        models.client("optimizer").complete(ASK, Options(role="optimizer"))
    assert [body["model"] for body in endpoint.requests] == ["m", "m", "w"]
    assert endpoint.headers[-1]["authorization"] == "Bearer sk-optimizer-key"
    assert (budget.spent.task_calls, budget.spent.optimizer_calls) == (1, 1)


def test_prices_are_those_given_or_of_the_table_or_unknown(endpoint: FakeEndpoint) -> None:
    budget = BudgetMeter()
    chosen = settings(model="m", base_url=endpoint.base_url, price_input=1.0, price_output=2.0)
    with RoleModels(chosen, budget=budget, environment={}) as models:
        usage = models.client("task").complete(ASK).usage
        assert usage.cost_usd == pytest.approx(11e-6 + 6e-6)
        assert models.price("task") is not None
    with RoleModels(settings(model="m", base_url=endpoint.base_url), budget=budget, environment={}) as models:
        assert models.price("task") is None
        assert models.client("task").complete(ASK).usage.cost_usd is None
    assert budget.spent.cost_usd is None


def test_a_parameter_that_is_refused_is_left_out_and_recorded(endpoint: FakeEndpoint) -> None:
    def strict(body: dict[str, Any]) -> Reply:
        for name in ("seed", "max_tokens"):
            if name in body:
                return error(
                    400, f"Unsupported parameter: '{name}' is not supported with this model.", param=name
                )
        return answer("1")

    endpoint._otherwise = strict
    client = connect(settings(model="m", base_url=endpoint.base_url))
    for _ in range(2):
        assert client.complete(ASK, Options(seed=1, max_output_tokens=8)).text == "1"
    assert client.dropped_parameters == ("max_tokens", "seed")
    assert endpoint.requests[-1]["max_completion_tokens"] == 8 + FIRST_ROOM
    assert len(endpoint.requests) == 4
    client.close()


def test_an_endpoint_that_is_not_there_is_fatal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("autoprompt.llm.transport.http._WAITS_S", ())
    with pytest.raises(EndpointError, match="Is the server running") as caught:
        connect(settings(model="m", base_url="http://127.0.0.1:9/v1"))
    assert caught.value.is_fatal


def test_a_password_or_key_in_an_address_is_no_part_of_what_stands_for_it() -> None:
    def identity(base_url: str) -> str:
        choice = choose_model(settings(model="m", base_url=base_url), "task", {})
        return open_endpoint(choice, settings(constrain="off")).identity

    assert identity("https://team:p@ss@gw.example/v1") == "https://gw.example/v1"
    assert (
        identity("https://gw.example/v1?api-version=2024&api-key=x")
        == "https://gw.example/v1?api-version=2024"
    )
    for plain in (
        "https://gw.example/v1",
        "https://gw.example/v1?api-version=2024",
        "http://gw.example/a@b?",
    ):
        assert identity(plain) == plain


def test_an_address_that_lost_its_password_is_not_asked() -> None:
    given = settings(model="m", base_url="https://***@gw.example/v1")
    with pytest.raises(UsageError, match="Set AUTOPROMPT_BASE_URL to the whole address"):
        open_endpoint(choose_model(given, "task", {}), given)
    whole = {"AUTOPROMPT_BASE_URL": "https://team:secret@gw.example/v1"}
    assert choose_model(given, "optimizer", whole).base_url == whole["AUTOPROMPT_BASE_URL"]


def test_each_role_finds_its_own_password_again() -> None:
    hidden = "https://***@gw.example/v1"
    given = settings(model="m", base_url=hidden, judge_model="j", judge_base_url=hidden)
    whole = {
        "AUTOPROMPT_BASE_URL": "https://task:one@gw.example/v1",
        "AUTOPROMPT_JUDGE_BASE_URL": "https://judge:two@gw.example/v1",
    }
    assert choose_model(given, "task", whole).base_url == whole["AUTOPROMPT_BASE_URL"]
    assert choose_model(given, "judge", whole).base_url == whole["AUTOPROMPT_JUDGE_BASE_URL"]
