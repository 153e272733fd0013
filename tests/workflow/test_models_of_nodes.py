"""Models that nodes name: each has the address and key of its provider, and answers may name another one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from fake_endpoint import FakeEndpoint, Reply, answer, fake_endpoint

from autoprompt.llm import ScriptedClient
from autoprompt.llm.limits.budget import BudgetMeter
from autoprompt.llm.models import RoleModels
from autoprompt.records import Message
from autoprompt.runs import RunStore
from autoprompt.settings.records import ModelSettings
from autoprompt.workflow import RunSettings, Workflow
from autoprompt.workflow.engine.events import WorkflowWarning
from autoprompt.workflow.engine.models import ModelSpec, NamedModels


@pytest.mark.parametrize(
    ("keys", "sent"),
    [
        ({"ACME_API_KEY": "acme-key"}, "Bearer acme-key"),
        ({"OPENAI_API_KEY": "sk-openai", "ACME_API_KEY": "acme-key"}, "Bearer acme-key"),
    ],
)
def test_a_provider_gets_its_own_key(keys: dict[str, str], sent: str) -> None:
    assert asked(keys)["authorization"] == sent


def test_a_provider_without_a_key_does_not_get_that_of_openai() -> None:
    assert "sk-openai" not in str(asked({"OPENAI_API_KEY": "sk-openai"}))


@pytest.mark.parametrize("variable", ["OPENAI_BASE_URL", "OPENAI_API_BASE"])
def test_openai_is_where_its_variables_say(variable: str) -> None:
    assert asked({"OPENAI_API_KEY": "sk-openai"}, variable, "openai")["authorization"] == "Bearer sk-openai"


def asked(keys: dict[str, str], address: str = "ACME_BASE_URL", provider: str = "acme") -> dict[str, str]:
    """The headers with which a node's model at the provider is asked. address: the variable that holds it."""
    with closing(FakeEndpoint()) as endpoint:
        environment = {address: endpoint.base_url, **keys}
        models = NamedModels(ModelSettings(), budget=BudgetMeter(), environment=environment)
        try:
            client = models.client(ModelSpec(provider=provider, name="m"), "slot")
            client.complete([Message("user", "hello")])
        finally:
            models.close()
        return endpoint.headers[-1]


@pytest.mark.parametrize(
    ("spec", "given", "sent"),
    [
        (ModelSpec(provider="acme", name="m"), {}, 80),
        (ModelSpec(provider="acme", name="m"), {"concurrency": 3}, 3),
        (ModelSpec(provider="local", name="smollm2-135m"), {}, 1),
    ],
)
def test_a_model_is_sent_as_much_at_once_as_the_workflow_has_unless_it_takes_one_at_a_time(
    spec: ModelSpec, given: dict[str, int], sent: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []
    monkeypatch.setattr(RoleModels, "client", lambda self, role: asked.append(self.concurrency()))
    environment = {"ACME_BASE_URL": "http://127.0.0.1:9/v1"}
    models = NamedModels(
        ModelSettings.model_validate(given), budget=BudgetMeter(), environment=environment, at_once=80
    )
    models.client(spec, "slot")
    assert asked == [sent]


Named = Callable[[dict[str, Any]], str]


def node(name: str, model: str | dict[str, Any]) -> dict[str, Any]:
    data = {"model": model, "prompt_template": [{"role": "user", "text": "Say yes."}]}
    return {"id": name, "type": "llm", "data": data}


@pytest.fixture
def serve(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[Named], FakeEndpoint]]:
    opened = []

    def start(named: Named) -> FakeEndpoint:
        context = fake_endpoint(lambda body: Reply(body={**answer("yes").body, "model": named(body)}))
        opened.append(context)
        endpoint = context.__enter__()
        monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
        monkeypatch.setenv("OPENAI_BASE_URL", endpoint.base_url)
        return endpoint

    yield start
    for context in opened:
        context.__exit__(None, None, None)


def warnings(nodes: list[dict[str, Any]], settings: RunSettings | None = None, **more: Any) -> list[str]:
    events = Workflow.load({"nodes": nodes}).stream({}, settings=settings or RunSettings(), **more)
    return [event.message for event in events if isinstance(event, WorkflowWarning)]


def test_another_model_is_named_with_its_endpoint(serve: Callable[[Named], FakeEndpoint]) -> None:
    host = serve(lambda body: "m-mini").base_url.split("/")[2]
    said = f"'m' was asked for at {host}, but answers name 'm-mini'. Check what that endpoint serves."
    assert warnings([node("a", "m"), node("b", "m")]) == [said]


def test_each_node_s_model_is_compared_with_its_own_answers(serve: Callable[[Named], FakeEndpoint]) -> None:
    serve(lambda body: {"one": "one-2024-07-18", "two": "two-mini"}[body["model"]])
    (said,) = warnings([node("a", "one"), node("b", "two")])
    assert said.startswith("'two' was asked for")


def test_a_model_that_changes_is_named(serve: Callable[[Named], FakeEndpoint]) -> None:
    names = iter(["m-2024-01-01", "m-2024-06-01"])
    serve(lambda body: next(names))
    (said,) = warnings([node("a", "m"), node("b", {"name": "m", "completion_params": {"seed": 1}})])
    assert "changed during the run: answers name 'm-2024-01-01', later 'm-2024-06-01'" in said


def test_the_model_of_the_settings_is_the_one_that_was_asked_for(
    serve: Callable[[Named], FakeEndpoint],
) -> None:
    serve(lambda body: body["model"])
    settings = RunSettings(models=ModelSettings(model="other"))
    assert warnings([node("a", "m")], settings) == []


def test_an_endpoint_without_a_choice_of_model_may_name_any(serve: Callable[[Named], FakeEndpoint]) -> None:
    endpoint = serve(lambda body: "whatever")
    assert warnings([node("a", "m")], RunSettings(models=ModelSettings(base_url=endpoint.base_url))) == []


def test_it_is_kept_with_the_run(serve: Callable[[Named], FakeEndpoint], tmp_path: Path) -> None:
    serve(lambda body: "m-mini")
    said = warnings([node("a", "m")], runs_dir=tmp_path)
    (run,) = RunStore(tmp_path).runs_dir.iterdir()
    kept = [event for event in RunStore(tmp_path).open(run.name).read_events() if "message" in event]
    assert [event["message"] for event in kept] == said
    assert len(said) == 1


def test_a_client_of_one_s_own_is_not_compared() -> None:
    assert warnings([node("a", "m")], RunSettings(client=ScriptedClient(["yes"]))) == []
