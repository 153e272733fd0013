"""Models that the nodes of a workflow name, each with the address and the key of its provider."""

from __future__ import annotations

from contextlib import closing

import pytest
from fake_endpoint import FakeEndpoint

from autoprompt.llm.limits.budget import BudgetMeter
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
