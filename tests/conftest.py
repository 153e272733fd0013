"""No test reaches the network or the user's files, unless it is marked `live`."""

from __future__ import annotations

import os
import signal
import tempfile
from collections import Counter
from pathlib import Path

import certifi
import hypothesis
import pytest
from pytest_socket import socket_allow_hosts

from autoprompt.settings import trust

SLOW_TESTS, QUICK_S = Path(__file__).with_name("slow_tests.txt"), 0.04
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


def pytest_addoption(parser: pytest.Parser) -> None:
    said = f"write tests/{SLOW_TESTS.name}: the tests that took {QUICK_S} s or more"
    parser.addoption("--record-slow", action="store_true", help=said)


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--record-slow") and not hasattr(config, "workerinput"):
        config.pluginmanager.register(_SlowTests())


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark as `quick` what is not in the list of slow tests. A new test is quick until it was measured."""
    slow = _slow_tests()
    for item in items:
        if _function_of(item.nodeid) not in slow:
            item.add_marker("quick")


def _function_of(test: str) -> str:
    """A test without its parameters: it is slow if it is with any of them."""
    return test.partition("[")[0]


def _slow_tests() -> set[str]:
    return set(SLOW_TESTS.read_text(encoding="utf-8").splitlines()) if SLOW_TESTS.exists() else set()


def _exists(test: str) -> bool:
    path, _, name = test.rpartition("::")
    file = SLOW_TESTS.parent.parent / path
    return file.exists() and f"def {name}(" in file.read_text(encoding="utf-8")


class _SlowTests:
    """Writes the list of slow tests at the end of a run. Tests that did not run in it keep their entries."""

    def __init__(self) -> None:
        self._seconds: Counter[str] = Counter()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._seconds[report.nodeid] += report.duration  # type: ignore[assignment]

    def pytest_sessionfinish(self) -> None:
        slow = {_function_of(test) for test, seconds in self._seconds.items() if seconds >= QUICK_S}
        measured = set(map(_function_of, self._seconds))
        slow |= {test for test in _slow_tests() - measured if _exists(test)}
        SLOW_TESTS.write_text("".join(f"{test}\n" for test in sorted(slow)), encoding="utf-8")


def pytest_runtest_setup(item: pytest.Item) -> None:
    if item.get_closest_marker("live") is None and item.get_closest_marker("ray") is None:
        socket_allow_hosts(LOOPBACK, allow_unix_socket=True)


@pytest.fixture(scope="session")
def one_authority(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One certificate for HTTP clients, which read those of the environment: all known ones take 30 ms."""
    path = tmp_path_factory.mktemp("authority") / "one.pem"
    first, end, _ = certifi.contents().partition("-----END CERTIFICATE-----\n")
    path.write_text(first + end, encoding="utf-8")
    return path


@pytest.fixture(scope="session")
def homes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the tests' homes: `tmp_path_factory.mktemp` lists its whole base folder on each call."""
    return tmp_path_factory.mktemp("homes")


@pytest.fixture(autouse=True)
def _own_home(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, homes: Path, one_authority: Path
) -> None:
    """An empty home, and none of the variables that would choose a model, a key or a folder."""
    if request.node.get_closest_marker("live") is not None:
        return
    home = Path(tempfile.mkdtemp(dir=homes))
    for name, below in HOMES.items():
        monkeypatch.setenv(name, str(home / below))
    monkeypatch.setenv("SSL_CERT_FILE", str(one_authority))
    for name in [name for name in os.environ if name.startswith(("AUTOPROMPT_", "OPENAI_", "HF_"))]:
        monkeypatch.delenv(name)


@pytest.fixture(autouse=True)
def _nothing_trusted(monkeypatch: pytest.MonkeyPatch) -> None:
    """What one test trusts in this process is not trusted by the next."""
    monkeypatch.setattr(trust, "_decided", trust._Decided())
