"""What the driver relies on, whoever runs the trials. Ray's own is in test_ray.py."""

from __future__ import annotations

import itertools
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from batches import Home, reply
from fake_endpoint import FakeEndpoint, Reply, fake_endpoint
from waiting import wait_until

from autoprompt.batch.executor import Executor, InlineExecutor, Job, LocalExecutor, Outcome, Report
from autoprompt.batch.folder import BatchFolder
from autoprompt.batch.trials import load_batch
from autoprompt.llm.limits.ledger import Caps, FileLedger

KINDS = ("inline", "local")


class Bench:
    """An executor with the folder and the ledger of a batch around it, but no driver."""

    def __init__(self, home: Home, path: Path, kind: str) -> None:
        self.batch = load_batch([path], environ={})
        self.folder = BatchFolder.make(home.runs_dir, self.batch.name)
        self.trials = self.folder.adopt(self.batch.trials)
        self.ledger = FileLedger(self.folder.ledger_path, self.batch.caps)
        self.executor: Executor = (
            InlineExecutor(self.ledger) if kind == "inline" else LocalExecutor(2, self.ledger)
        )
        self.reports: list[Report] = []

    def start(self, number: int = 0) -> str:
        trial = self.trials[number]
        ticket = self.ledger.admit(trial.id)
        assert ticket is not None
        self.executor.start(Job(trial, ticket, self.folder.path))
        return trial.id

    def wait(self, until: Callable[[], bool], seconds: float = 120.0) -> None:
        end = time.monotonic() + seconds
        while not until():
            assert time.monotonic() < end, self.reports
            self.reports += self.executor.poll(0.05)

    def outcome(self, name: str) -> Outcome:
        def ended() -> list[Outcome]:
            return [r.outcome for r in self.reports if r.trial == name and r.outcome is not None]

        self.wait(lambda: bool(ended()))
        (outcome,) = ended()
        return outcome

    def sent(self) -> int:
        return sum(amount.calls for amount in self.ledger.spent().values())


@pytest.fixture(params=KINDS)
def bench(request: pytest.FixtureRequest, online: Home) -> Iterator[Bench]:
    path = online.write(defaults=online.defaults(), include=[{"seed": 0}, {"prompt": "refuse"}])
    made = Bench(online, path, request.param)
    yield made
    made.executor.stop()
    made.ledger.close()


def test_a_job_ends_finished_with_its_run_in_the_folder(bench: Bench, endpoint: FakeEndpoint) -> None:
    name = bench.start()
    assert bench.outcome(name) == Outcome("finished", "started")
    result = bench.folder.trial(name).read_result()
    assert result is not None
    assert result["calls"] == bench.sent() == len(endpoint.requests)


def test_a_job_that_was_begun_goes_on(bench: Bench, endpoint: FakeEndpoint) -> None:
    name = bench.start()
    bench.outcome(name)
    bench.reports.clear()
    (bench.folder.path / name / "result.json").unlink()
    before = len(endpoint.requests)
    bench.start()
    assert bench.outcome(name).how == "resumed"
    assert len(endpoint.requests) == before


def test_a_failure_is_an_outcome(bench: Bench) -> None:
    outcome = bench.outcome(bench.start(1))
    assert (outcome.status, outcome.exit_code) == ("failed", 4)
    assert "this is refused" in outcome.error


def test_nothing_is_started_twice_by_itself(bench: Bench) -> None:
    bench.outcome(bench.start())
    assert bench.executor.poll(0.0) == []


def test_stop_may_be_called_twice(bench: Bench) -> None:
    bench.executor.stop()
    bench.executor.stop()
    assert bench.executor.poll(0.0) == []


@pytest.fixture
def silent() -> Iterator[tuple[FakeEndpoint, threading.Event]]:
    """It answers one question, after which the others are sent side by side, and no more until the event."""
    may_answer = threading.Event()
    number = itertools.count()

    def hang(body: dict[str, object]) -> Reply:
        answered = reply(body)
        if next(number) == 0:
            return answered
        return Reply(answered.status, answered.body, hangs_until=may_answer)

    with fake_endpoint(hang) as endpoint:
        yield endpoint, may_answer
        may_answer.set()


def worker_pids(driver: int) -> list[int]:
    found = subprocess.run(["ps", "-ww", "-eo", "pid,ppid,args"], capture_output=True, text=True, check=True)
    rows = [line.split(None, 2) for line in found.stdout.splitlines()[1:]]
    return [int(pid) for pid, parent, args in rows if int(parent) == driver and "batch.executor" in args]


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    state = subprocess.run(["ps", "-o", "state=", "-p", str(pid)], capture_output=True, text=True).stdout
    return state.strip() not in ("", "Z")


def test_a_process_that_is_killed_is_lost_and_goes_on(
    home: Home, silent: tuple[FakeEndpoint, threading.Event]
) -> None:
    endpoint, may_answer = silent
    home.base_url = endpoint.base_url
    bench = Bench(home, home.write_batch(), "local")
    name = bench.start()
    bench.wait(lambda: len(endpoint.requests) >= 4)
    (pid,) = worker_pids(os.getpid())
    os.kill(pid, signal.SIGKILL)
    outcome = bench.outcome(name)
    assert (outcome.status, outcome.error) == ("lost", "its process was ended by SIGKILL")
    bench.reports.clear()
    may_answer.set()
    bench.start()
    assert bench.outcome(name) == Outcome("finished", "resumed")
    bench.executor.stop()


def test_stop_leaves_no_process(home: Home, silent: tuple[FakeEndpoint, threading.Event]) -> None:
    endpoint, _ = silent
    home.base_url = endpoint.base_url
    bench = Bench(home, home.write_batch(), "local")
    bench.start(0)
    bench.start(1)
    bench.wait(lambda: len(endpoint.requests) >= 4)
    pids = worker_pids(os.getpid())
    assert len(pids) == 2
    bench.executor.stop()
    assert not any(map(is_alive, pids))


@pytest.mark.skipif(os.name == "nt", reason="no SIGKILL")
def test_the_processes_of_a_killed_driver_end(
    home: Home, silent: tuple[FakeEndpoint, threading.Event]
) -> None:
    endpoint, _ = silent
    home.base_url = endpoint.base_url
    path = home.write_batch()
    program = "from autoprompt.cli import main; main()"
    driver = subprocess.Popen(
        [sys.executable, "-c", program, "batch", str(path), "--quiet"],
        cwd=home.path,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        wait_until(lambda: len(endpoint.requests) >= 4)
        pids = worker_pids(driver.pid)
        assert pids
    finally:
        driver.kill()
        driver.wait()
    wait_until(lambda: not any(map(is_alive, pids)))


def test_what_a_metric_prints_is_no_report(online: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    metric = (
        "def score(prediction, target, **_):\n"
        "    print('{\"event\": 1}')\n"
        "    return float(prediction == target)\n"
    )
    (online.path / "loud.py").write_text(metric, encoding="utf-8")
    path = online.write(defaults=online.defaults(metric="python:loud:score"), matrix={"seed": [0]})
    bench = Bench(online, path, "local")
    name = bench.start()
    assert bench.outcome(name).status == "finished"
    assert '{"event": 1}' in (bench.folder.path / "logs" / f"{name}.log").read_text(encoding="utf-8")
    assert all("event" in report.event for report in bench.reports if report.event is not None)
    bench.executor.stop()


def test_two_processes_share_one_budget(online: Home, endpoint: FakeEndpoint) -> None:
    bench = Bench(online, online.write_batch(max_calls=60), "local")
    names = [bench.start(0), bench.start(1)]
    for name in names:
        bench.outcome(name)
    assert bench.batch.caps == Caps(max_calls=60)
    assert len(endpoint.requests) == bench.sent() <= 60
    bench.executor.stop()
