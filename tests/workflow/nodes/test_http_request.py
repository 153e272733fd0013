"""`http-request` and tools over HTTP: what is sent, and what is said of a request that cannot be."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from autoprompt.workflow import NodeError, RunSettings, Workflow
from autoprompt.workflow.file.validation import validate
from tests.fake_endpoint import LOCAL, FakeEndpoint, Reply, fake_endpoint

SETTINGS = RunSettings(allow_private_hosts=LOCAL)
START = {"id": "start", "type": "start", "data": {"variables": [{"variable": "q", "type": "paragraph"}]}}


@pytest.fixture
def endpoint() -> Iterator[FakeEndpoint]:
    with fake_endpoint(lambda body: Reply(body={"ok": True})) as found:
        yield found


def requested(q: str, **data: Any) -> dict[str, Any]:
    node = {"id": "h", "type": "http-request", "data": {"method": "post", **data}}
    return Workflow.load({"nodes": [START, node]}).run({"q": q}, settings=SETTINGS)


def test_a_parameter_of_several_lines_is_one_parameter(endpoint: FakeEndpoint) -> None:
    requested("one\nmode: delete", url=f"{endpoint.base_url}/x", params={"text": "{{#start.q#}}"}, body=JSON)
    assert endpoint.paths == ["/v1/x?text=one%0Amode%3A+delete"]


def test_a_line_that_is_a_reference_stands_for_lines(endpoint: FakeEndpoint) -> None:
    requested("a: 1\nb: 2", url=f"{endpoint.base_url}/x", params="{{#start.q#}}\nc: 3", body=JSON)
    assert endpoint.paths == ["/v1/x?a=1&b=2&c=3"]


@pytest.mark.parametrize("value", ["one\nX-Admin: yes", "naïve", "bell\a"])
def test_a_header_that_cannot_be_sent_is_named_without_its_value(endpoint: FakeEndpoint, value: str) -> None:
    with pytest.raises(NodeError, match=r"header 'X-Note' cannot be sent: expected one line of ASCII") as e:
        requested(value, url=f"{endpoint.base_url}/x", headers={"X-Note": "{{#start.q#}}"}, body=JSON)
    assert value[:5] not in str(e.value)
    assert endpoint.paths == []


def tool_called(url: str) -> dict[str, Any]:
    tools = {"look": {"url": url, "method": "post", "headers": {"Authorization": "Bearer ${LOOK_KEY}"}}}
    node = {"id": "h", "type": "tool", "data": {"tool_name": "look"}}
    return Workflow.load({"tools": tools, "nodes": [START, node]}).run({"q": ""}, settings=SETTINGS)


def test_a_key_with_a_line_break_behind_it_is_sent(
    endpoint: FakeEndpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LOOK_KEY", "k-123456\n")
    tool_called(f"{endpoint.base_url}/x")
    assert endpoint.headers[0]["authorization"] == "Bearer k-123456"


def test_a_key_that_cannot_be_sent_is_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOOK_KEY", "k-123\n456")
    with pytest.raises(NodeError, match="header 'Authorization' cannot be sent") as e:
        tool_called("http://127.0.0.1:9/x")
    assert "k-123" not in str(e.value)


def test_a_password_in_an_address_is_not_shown() -> None:
    with pytest.raises(NodeError, match=r"POST http://127\.0\.0\.1:9: ") as e:
        requested("", url="http://me:secret-word@127.0.0.1:9/x")
    assert "secret-word" not in str(e.value)


def test_validation_knows_methods_and_timeouts() -> None:
    data = {"method": "fetch", "url": "http://x", "timeout": {"read": -1}}
    tools = {"look": {"url": "http://x", "method": "fetch"}}
    node = {"id": "h", "type": "http-request", "data": data}
    said = [str(fault) for fault in validate({"tools": tools, "nodes": [START, node]})]
    known = "HTTP method 'fetch' is not known. Known: GET, POST, PUT, PATCH, DELETE, HEAD, OPTIONS."
    assert sum(known in fault or known.replace("fetch", "FETCH") in fault for fault in said) == 2
    assert any("timeout.read" in fault for fault in said)


JSON = {"type": "json", "data": "{}"}
