"""No test reaches the network or the user's files, unless it is marked `live`."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import hypothesis
import pytest
from pytest_socket import socket_allow_hosts

from autoprompt.settings import trust

LOOPBACK = ["127.0.0.1", "::1", "localhost"]
HOMES = {
    "HOME": "",
    "USERPROFILE": "",
    "XDG_CACHE_HOME": ".cache",
    "XDG_CONFIG_HOME": ".config",
    "XDG_DATA_HOME": ".local/share",
    "XDG_STATE_HOME": ".local/state",
}

# How long an example takes says more about the machine than about the code.
hypothesis.settings.register_profile("autoprompt", deadline=None)
hypothesis.settings.load_profile("autoprompt")


# A shell starts what it runs in the background with Ctrl-C ignored, and whoever is started by it inherits
# that; the tests of Ctrl-C must not depend on how they were called.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_runtest_setup(item: pytest.Item) -> None:
    if item.get_closest_marker("live") is None and item.get_closest_marker("ray") is None:
        socket_allow_hosts(LOOPBACK, allow_unix_socket=True)


@pytest.fixture(autouse=True)
def _own_home(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """An empty home, and none of the variables that would choose a model, a key or a folder."""
    if request.node.get_closest_marker("live") is not None:
        return
    home: Path = tmp_path_factory.mktemp("home")
    for name, below in HOMES.items():
        monkeypatch.setenv(name, str(home / below))
    for name in [name for name in os.environ if name.startswith(("AUTOPROMPT_", "OPENAI_", "HF_"))]:
        monkeypatch.delenv(name)


@pytest.fixture(autouse=True)
def _nothing_trusted(monkeypatch: pytest.MonkeyPatch) -> None:
    """What one test trusts in this process is not trusted by the next."""
    monkeypatch.setattr(trust, "_decided", trust._Decided())
