"""Which hosts a workflow's requests may reach: public ones, and those that the run names."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpcore
import pytest
from pytest_socket import socket_allow_hosts
from typer.testing import CliRunner

from autoprompt.cli import app
from autoprompt.errors import ConfigError
from autoprompt.workflow import NodeError, RunSettings, Workflow, WorkflowDefinitionError
from autoprompt.workflow.engine.errors import AddressRefusedError, HttpError
from autoprompt.workflow.engine.http_call import HttpRequest, send
from autoprompt.workflow.engine.http_network import Deadline, Network, is_public
from tests.fake_endpoint import LOCAL, Reply, fake_endpoint

PUBLIC = "93.184.215.14"


@pytest.fixture(autouse=True)
def _no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


@pytest.mark.parametrize(
    "host",
    [
        "localhost",
        "LOCALHOST",
        "127.0.0.1",
        "127.9.9.9",
        "127.1",
        "2130706433",
        "0x7f000001",
        "017700000001",
        "127。0。0。1",
        "0.0.0.0",
        "0",
        "10.0.0.1",
        "172.16.0.1",
        "192.168.1.1",
        "169.254.169.254",
        "100.64.0.1",
        "100.100.100.200",
        "192.0.0.192",
        "168.63.129.16",
        "198.18.0.1",
        "203.0.113.1",
        "192.88.99.1",
        "224.0.0.1",
        "240.0.0.1",
        "255.255.255.255",
        "[::]",
        "[::1]",
        "[::7f00:1]",
        "[::ffff:127.0.0.1]",
        "[::ffff:10.0.0.1]",
        "[::ffff:8.8.8.8]",
        "[::ffff:0:127.0.0.1]",
        "[64:ff9b::127.0.0.1]",
        "[64:ff9b::a9fe:a9fe]",
        "[64:ff9b:1::1]",
        "[2002:7f00:1::]",
        "[2001:0:1::1]",
        "[2001:db8::1]",
        "[3fff::1]",
        "[5f00::1]",
        "[fc00::1]",
        "[fd00:ec2::254]",
        "[fe80::1]",
        "[fec0::1]",
        "[ff02::1]",
    ],
)
def test_a_private_address_is_refused_however_it_is_written(host: str) -> None:
    with pytest.raises(AddressRefusedError, match="is a local or private address"):
        send(HttpRequest("GET", f"http://{host}:9/"))


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        ("8.8.8.8", True),
        ("2606:4700::1111", True),
        ("64:ff9b::808:808", True),
        ("64:ff9b::7f00:1", False),
        ("64:ff9b::a9fe:a9fe", False),
        ("::ffff:8.8.8.8", False),
        ("224.0.0.251", False),
        ("192.0.0.192", False),
        ("168.63.129.16", False),
    ],
)
def test_public_addresses(address: str, expected: bool) -> None:
    socket_allow_hosts([address, "8.8.8.8"])
    assert is_public(address) is expected


class Dialled(httpcore.NetworkBackend):
    """Notes the addresses that a connection was opened to, and opens none."""

    def __init__(self) -> None:
        self.addresses: list[str] = []

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.NetworkStream:
        self.addresses.append(host)
        raise httpcore.ConnectError("noted")


class Names:
    """A resolver that gives the next list of addresses at each question."""

    def __init__(self, *answers: list[str]) -> None:
        self.answers, self.asked = list(answers), 0

    def __call__(self, host: str, port: int) -> list[str]:
        self.asked += 1
        return self.answers[min(self.asked, len(self.answers)) - 1]


def dialled(names: Names, allowed: tuple[str, ...] = ()) -> list[str]:
    socket_allow_hosts([PUBLIC, "2606:4700::1111"])
    direct = Dialled()
    network = Network(Deadline(5), 1, allowed, names, direct)
    with pytest.raises(httpcore.ConnectError, match="noted"):
        network.connect_tcp("name.example", 80)
    return direct.addresses


def test_the_connection_goes_to_the_address_that_was_checked() -> None:
    """A name whose second answer is another one (DNS rebinding) is not asked a second time."""
    names = Names([PUBLIC], ["127.0.0.1"])
    assert (dialled(names), names.asked) == ([PUBLIC], 1)


def test_of_several_addresses_the_public_ones_are_tried() -> None:
    assert dialled(Names(["127.0.0.1", PUBLIC, "::1", "2606:4700::1111"])) == [PUBLIC, "2606:4700::1111"]


@pytest.mark.parametrize(
    "addresses", [["127.0.0.1"], ["10.0.0.1", "::1"], ["fe80::1%eth0"], ["::ffff:10.1.2.3"], ["0.0.0.0"]]
)
def test_a_name_with_private_addresses_alone_is_refused(addresses: list[str]) -> None:
    direct = Dialled()
    with pytest.raises(AddressRefusedError, match=r"name\.example is a local or private address \("):
        Network(Deadline(5), 1, (), Names(addresses), direct).connect_tcp("name.example", 80)
    assert direct.addresses == []


@pytest.mark.parametrize(
    "allowed",
    ["name.example", "NAME.example.", "name.example:80", "[::1],name.example", "other,name.example"],
)
def test_an_allowed_host_may_be_private(allowed: str) -> None:
    assert dialled(Names(["10.0.0.1"]), tuple(allowed.split(","))) == ["10.0.0.1"]


@pytest.mark.parametrize("allowed", ["name.example:81", "example", "10.0.0.1", "name", "sub.name.example"])
def test_another_host_or_port_is_not_allowed(allowed: str) -> None:
    with pytest.raises(AddressRefusedError):
        Network(Deadline(5), 1, (allowed,), Names(["10.0.0.1"])).connect_tcp("name.example", 80)


@pytest.mark.parametrize(
    ("allowed", "host", "port"),
    [("::1", "::1", 1), ("[::1]", "::1", 1), ("[::1]:7", "::1", 7), ("müller.test", "xn--mller-kva.test", 1)],
)
def test_how_an_allowed_host_is_written(allowed: str, host: str, port: int) -> None:
    assert Network(Deadline(5), 1, (allowed,)).allows(host, port)


@pytest.mark.parametrize("entry", ["http://localhost", "localhost/x", "me@localhost", "", "a b:c"])
def test_an_entry_that_is_no_host_is_named(entry: str) -> None:
    with pytest.raises(ConfigError, match=r"allow_private_hosts: .* found, expected HOST or HOST:PORT"):
        Network(Deadline(5), 1, (entry,))


def test_a_resolver_that_does_not_answer_ends_at_the_deadline() -> None:
    never = threading.Event()

    def resolve(host: str, port: int) -> list[str]:
        never.wait(5)
        return []

    with pytest.raises(httpcore.ConnectTimeout, match="was not resolved in time"):
        Network(Deadline(0.2), 1, (), resolve).connect_tcp("name.example", 80)
    never.set()


# --- through a proxy ---


@pytest.fixture
def proxied(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """What the proxy of the environment was asked for. It answers all by itself."""
    asked: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def do_CONNECT(self) -> None:
            asked.append(f"CONNECT {self.path}")
            self.send_error(403)

        def log_message(self, format: str, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    address = f"127.0.0.1:{server.server_address[1]}"
    monkeypatch.setenv("http_proxy", f"http://{address}")
    monkeypatch.setenv("https_proxy", address)
    yield asked
    server.shutdown()
    thread.join()
    server.server_close()


def test_a_host_that_is_named_goes_to_the_proxy(proxied: list[str]) -> None:
    assert send(HttpRequest("GET", "http://tools.invalid:8000/a"), ["tools.invalid"]).status == 200
    with pytest.raises(HttpError, match="403"):
        send(HttpRequest("GET", "https://tools.invalid/a"), ["tools.invalid"])
    assert proxied == ["http://tools.invalid:8000/a", "CONNECT tools.invalid:443"]


@pytest.mark.parametrize("host", ["10.0.0.1", "localhost", "[::1]", "169.254.169.254", "127.1"])
@pytest.mark.parametrize("scheme", ["http", "https"])
def test_a_proxy_gets_no_request_for_a_private_address(proxied: list[str], host: str, scheme: str) -> None:
    with pytest.raises(AddressRefusedError, match="is a local or private address"):
        send(HttpRequest("GET", f"{scheme}://{host}/"))
    assert proxied == []


def test_a_proxy_gets_no_request_for_a_name_that_cannot_be_checked(proxied: list[str]) -> None:
    with pytest.raises(AddressRefusedError, match=r"intranet\.invalid cannot be resolved here"):
        send(HttpRequest("GET", "http://intranet.invalid/"))
    assert proxied == []


def test_a_host_beside_the_proxy_is_asked_directly(
    proxied: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    with fake_endpoint() as endpoint:
        assert send(HttpRequest("GET", f"{endpoint.base_url}/models"), LOCAL).status == 200
    assert proxied == []


def test_a_broken_proxy_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "gopher://127.0.0.1:1")
    with pytest.raises(ConfigError, match="http_proxy: a proxy at gopher://"):
        send(HttpRequest("GET", "http://127.0.0.1/"), LOCAL)


# --- the setting, from every door ---

FLOW = """\
tools:
  look: {{url: "{url}/x", method: post}}
nodes:
  - {{id: start, type: start, data: {{variables: [url]}}}}
  - {{id: get, type: {kind}}}
"""
KINDS = {
    "tool": "tool, data: {tool_name: look}",
    "node": "http-request, data: {method: post, url: '{{#start.url#}}/x', body: {type: json, data: '{}'}}",
}


@pytest.mark.parametrize("kind", KINDS)
def test_a_run_names_the_hosts(kind: str, tmp_path: Path) -> None:
    with fake_endpoint(lambda body: Reply(body={"a": 1})) as endpoint:
        path = tmp_path / "flow.yaml"
        path.write_text(FLOW.format(url=endpoint.base_url, kind=KINDS[kind]), encoding="utf-8")
        workflow = Workflow.load(path)
        inputs = {"url": endpoint.base_url}
        with pytest.raises(NodeError, match=r"node 'get': .*set allow_private_hosts: \[127\.0\.0\.1\]"):
            workflow.run(inputs)
        assert endpoint.requests == []
        workflow.run(inputs, settings=RunSettings(allow_private_hosts=LOCAL))
        assert len(endpoint.requests) == 1


@pytest.mark.parametrize("place", ["workflow", "node", "tool", "virtual node"])
def test_a_file_cannot_name_the_hosts(place: str) -> None:
    """It may come from somebody else, or be written by a model."""
    hosts = {"allow_private_hosts": ["127.0.0.1"]}
    tool = {"url": "http://127.0.0.1:9", **(hosts if place == "tool" else {})}
    virtual = {"id": "v", "type": "http-request", "data": {"url": "http://127.0.0.1:9", **hosts}}
    data = {"tool_name": "look", "virtual_nodes": [virtual] if place == "virtual node" else []}
    node = {"id": "get", "type": "tool", "data": data | (hosts if place == "node" else {})}
    content = {"tools": {"look": tool}, "nodes": [node], **(hosts if place == "workflow" else {})}
    with pytest.raises(WorkflowDefinitionError, match="allow_private_hosts"):
        Workflow.load(content)


@pytest.mark.parametrize("door", ["flag", "variable", "file"])
def test_the_command_line_names_the_hosts(door: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with fake_endpoint(lambda body: Reply(body={"a": 1})) as endpoint:
        Path("flow.yaml").write_text(FLOW.format(url=endpoint.base_url, kind=KINDS["tool"]), encoding="utf-8")
        Path("conf.yaml").write_text("allow_private_hosts: [localhost, 127.0.0.1]\n", encoding="utf-8")
        command = ["flow", "run", "flow.yaml", "--input", f"url={endpoint.base_url}"]
        refused = CliRunner().invoke(app, command)
        assert refused.exit_code == 3
        again = r"autoprompt resume \S+ --set allow_private_hosts=127\.0\.0\.1"
        assert re.search(again, " ".join(refused.stderr.split()))
        if door == "variable":
            monkeypatch.setenv("AUTOPROMPT_ALLOW_PRIVATE_HOSTS", "localhost, 127.0.0.1")
        more = {
            "flag": ["--set", "allow_private_hosts=localhost,127.0.0.1"],
            "file": ["--config", "conf.yaml"],
        }
        done = CliRunner().invoke(app, [*command, *more.get(door, [])])
        assert done.exit_code == 0, done.output
        assert len(endpoint.requests) == 1
