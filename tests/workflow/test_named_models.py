"""Models that the nodes of a workflow name, each with the address and the key of its provider."""

from __future__ import annotations

from contextlib import closing

import pytest
from fake_endpoint import FakeEndpoint

from autoprompt.llm.limits.budget import BudgetMeter
from autoprompt.llm.models import RoleModels
from autoprompt.records import Message
from autoprompt.settings.records import ModelSettings
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
        (ModelSpec(provider="acme", name="m"), {}, 40),
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
        ModelSettings.model_validate(given), budget=BudgetMeter(), environment=environment, at_once=40
    )
    models.client(spec, "slot")
    assert asked == [sent]
