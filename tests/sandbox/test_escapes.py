"""Every way out is tried at every level that confines; without confinement the same ways lead out."""

from __future__ import annotations

import json
import os
import socket
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from autoprompt.sandbox import Level, run

ATTEMPTS = (Path(__file__).parent / "attempts.py").read_text(encoding="utf-8")
SECRET = "sk-planted-5f1c"
ONLY_BY_FILTER = {
    "trace_me", "new_namespace", "clone_namespace", "new_clone", "keys", "ring", "uncounted_memory",
    "uncounted_shared_memory",
}  # fmt: skip
# Ways that work without confinement and do no harm there: they show that the attempts are real ones.
CONTROL = {
    "read_passwd", "read_home", "list_home", "read_through_link", "read_above", "hard_link", "write_outside",
    "append_outside", "make_outside", "change_mode_outside", "tcp", "tcp_listen", "udp", "local_socket",
    "abstract_socket", "trace_me", "new_namespace", "uncounted_memory",
    "uncounted_shared_memory",
}  # fmt: skip
CLOSED_ANYWAY = {"own_environment", "inherited_descriptors"}


class Outside:
    """A home, a file and listening sockets that the code must not reach."""

    def __init__(self, root: Path) -> None:
        self.home = root / "home"
        self.home.mkdir()
        (self.home / "key").write_text(SECRET, encoding="utf-8")
        self.file = root / "outside" / "file"
        self.file.parent.mkdir()
        self.file.write_text(SECRET, encoding="utf-8")
        self.sockets = [
            self._bound(socket.AF_INET, socket.SOCK_STREAM, ("127.0.0.1", 0)),
            self._bound(socket.AF_INET, socket.SOCK_DGRAM, ("127.0.0.1", 0)),
            self._bound(socket.AF_UNIX, socket.SOCK_STREAM, str(root / "local")),
            self._bound(socket.AF_UNIX, socket.SOCK_STREAM, f"\0autoprompt-{os.getpid()}"),
        ]

    def _bound(self, family: int, kind: int, address: object) -> socket.socket:
        server = socket.socket(family, kind)
        server.bind(address)
        server.setblocking(False)
        if kind == socket.SOCK_STREAM:
            server.listen()
        return server

    def reached(self) -> bool:
        for server in self.sockets:
            try:
                server.recv(10) if server.type == socket.SOCK_DGRAM else server.accept()[0].close()
            except BlockingIOError:
                continue
            return True
        return False

    def close(self) -> None:
        for server in self.sockets:
            server.close()

    def described(self, only: set[str] | None) -> str:
        tcp, udp, local, abstract = (server.getsockname() for server in self.sockets)
        facts = {
            "secret": SECRET, "home": str(self.home), "outside": str(self.file), "parent": os.getpid(),
            "tcp": tcp[1], "udp": udp[1], "local": local, "abstract": abstract.decode(),
            "only": only and sorted(only), "network": str(Path("/proc/self/ns/net").readlink()),
        }  # fmt: skip
        return json.dumps(facts)


@pytest.fixture
def outside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Outside]:
    monkeypatch.setenv("OPENAI_API_KEY", SECRET)
    place = Outside(tmp_path)
    yield place
    place.close()


def ways_out(level: Level, outside: Outside, work: Path, only: set[str] | None = None) -> set[str]:
    work.mkdir()
    (work / "attempts.py").write_text(ATTEMPTS, encoding="utf-8")
    result = run([sys.executable, "attempts.py", outside.described(only)], workdir=work, level=level)
    assert result.exit_code == 0, result.stderr
    return {name for name, worked in json.loads(result.stdout).items() if worked}


@pytest.mark.usefixtures("_leaves_nothing")
def test_no_way_leads_out(level: Level, outside: Outside, tmp_path: Path) -> None:
    expected = set() if level.seccomp else ONLY_BY_FILTER
    assert ways_out(level, outside, tmp_path / "work") - expected == set()
    assert outside.file.read_text(encoding="utf-8") == SECRET
    assert [path.name for path in outside.file.parent.iterdir()] == ["file"]
    assert not outside.reached()


def test_the_ways_are_real_ones(outside: Outside, tmp_path: Path) -> None:
    """The control: unconfined, they work, so that the test above can fail."""
    assert ways_out(Level(), outside, tmp_path / "work", CONTROL | CLOSED_ANYWAY) == CONTROL
    assert outside.reached()
