"""Batches over a real Ray cluster of two nodes on this machine; workers are killed. For `make ray-test`."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from batches import Home
from fake_endpoint import FakeEndpoint

ray = pytest.importorskip("ray")

from autoprompt.batch import BatchResult, run_batch  # noqa: E402
from autoprompt.errors import ConfigError, Interrupted  # noqa: E402

pytestmark = [pytest.mark.ray, pytest.mark.filterwarnings("ignore")]

KEY = "sk-of-the-ray-tests-0123456789"
STARTS = 5  # Ray gives a node 30 s to come up, which a busy machine may need more than once


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    """Two nodes with a CPU each."""
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    # A node that is slow to answer is taken for dead, with the usual patience on a busy machine.
    os.environ |= {"RAY_health_check_timeout_ms": "60000", "RAY_health_check_failure_threshold": "20"}
    from ray.cluster_utils import Cluster

    def started(start: Callable[[], Any]) -> Any:
        for left in reversed(range(STARTS)):
            try:
                return start()
            except Exception as error:
                if not left or "timed out" not in str(error):
                    raise
        raise AssertionError

    made = started(lambda: Cluster(initialize_head=True, head_node_args={"num_cpus": 1}))
    started(lambda: made.add_node(num_cpus=1))
    yield made
    made.shutdown()


@pytest.fixture
def rayed(online: Home, cluster: Any, monkeypatch: pytest.MonkeyPatch) -> Home:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    return online


def write(home: Home, cluster: Any, *, seeds: int = 4, **more: Any) -> Path:
    settings = {"kind": "ray", "address": cluster.address, "jobs": 2, "num_cpus": 1}
    return home.write_batch(seeds=range(seeds), executor=settings, **more)


def run(home: Home, path: Path, on_event: Callable[[dict[str, Any]], None] = lambda _: None) -> BatchResult:
    def heard(event: dict[str, Any]) -> None:
        home.events.append(event)
        on_event(event)

    # As the command does, whose runs folder is `runs`: a worker has another working directory.
    return run_batch([path], runs_dir=home.runs_dir.relative_to(home.path), on_event=heard)


def kill_worker(home: Home, trial: str) -> bool:
    """`kill -9` of the process that works on a trial. False where it has ended already."""
    found = subprocess.run(
        ["ps", "-ww", "-eo", "pid,args"], capture_output=True, text=True, check=True
    ).stdout
    for line in found.splitlines():
        pid, _, title = line.strip().partition(" ")
        if title.startswith(f"ray::autoprompt {trial}"):
            os.kill(int(pid), signal.SIGKILL)
            return True
    return False


class KillOnce:
    """Kills the worker of the first trial that has measured some rows."""

    def __init__(self, home: Home, before: Callable[[], None] = lambda: None) -> None:
        self.home, self.before, self.victim = home, before, ""

    def __call__(self, event: dict[str, Any]) -> None:
        if event["event"] == "trial_started":
            self.before()
        is_rows = event["event"] == "trial_event" and event["what"]["event"] == "rows_evaluated"
        if is_rows and not self.victim and kill_worker(self.home, event["trial"]):
            self.victim = event["trial"]


def scores(result: BatchResult) -> list[tuple[Any, ...]]:
    return [(row.trial, row.status, row.original, row.best, row.calls) for row in result.rows]


def test_a_killed_worker_goes_on_from_its_folder(rayed: Home, cluster: Any, endpoint: FakeEndpoint) -> None:
    path = write(rayed, cluster)
    killer = KillOnce(rayed)
    result = run(rayed, path, killer)
    assert killer.victim
    assert result.is_complete, result.rows
    how = {row.trial: row.how for row in result.rows}
    assert how.pop(killer.victim) == "resumed after its worker was lost"
    assert set(how.values()) == {"started"}
    asked = Counter(repr(request) for request in endpoint.requests)
    again = sum(count - 1 for count in asked.values())
    assert again <= 4  # those of the killed worker that were on the wire
    # A request is entered before it is sent; those of the killed worker may not have left.
    assert 0 <= result.sent - len(endpoint.requests) <= 4
    assert all(headers["authorization"] == f"Bearer {KEY}" for headers in endpoint.headers)
    local = rayed.write_batch("local.yaml", seeds=range(4))
    assert scores(run(rayed, local)) == scores(result)


def test_no_key_is_in_the_logs_or_the_runs(rayed: Home, cluster: Any) -> None:
    run(rayed, write(rayed, cluster, seeds=1))
    logs = Path(cluster.head_node.get_session_dir_path())
    files = [path for folder in (logs, rayed.runs_dir) for path in folder.rglob("*") if path.is_file()]
    assert len(files) > 20
    assert not [path for path in files if KEY.encode() in path.read_bytes()]


def test_without_shared_storage_it_starts_again_and_the_results_come_home(
    rayed: Home, cluster: Any, endpoint: FakeEndpoint
) -> None:
    def hide() -> None:
        """Takes away what tells a worker that it sees the batch's folder."""
        for token in (rayed.runs_dir / "b").glob(".shared-*"):
            token.unlink()

    path = write(rayed, cluster, seeds=3)
    killer = KillOnce(rayed, hide)
    result = run(rayed, path, killer)
    assert result.is_complete, result.rows
    how = {row.trial: row.how for row in result.rows}
    assert how.pop(killer.victim) == "started again after its worker was lost, its storage is not shared"
    for row in result.rows:
        run_dir = rayed.runs_dir / "b" / row.trial
        assert (run_dir / "journal.jsonl").stat().st_size > 0
        assert str(rayed.path / "rows.jsonl") in (run_dir / "config.yaml").read_text(encoding="utf-8")
    asked = Counter(repr(request) for request in endpoint.requests)
    assert sum(count - 1 for count in asked.values()) <= 4  # the answers are in the cache that all share


def test_the_budget_holds_over_nodes(rayed: Home, cluster: Any, endpoint: FakeEndpoint) -> None:
    result = run(rayed, write(rayed, cluster, seeds=6, max_calls=200))
    assert len(endpoint.requests) == result.sent <= 200
    assert result.not_run


def test_ctrl_c_ends_the_tasks(rayed: Home, cluster: Any, endpoint: FakeEndpoint) -> None:
    def interrupt(event: dict[str, Any]) -> None:
        if event["event"] == "trial_event" and event["what"]["event"] == "rows_evaluated":
            raise KeyboardInterrupt

    path = write(rayed, cluster)
    with pytest.raises(Interrupted, match="resume b"):
        run(rayed, path, interrupt)
    asked = len(endpoint.requests)
    time.sleep(1.0)
    assert len(endpoint.requests) == asked
    assert run(rayed, path).is_complete


def test_more_than_the_cluster_has_is_refused(rayed: Home, cluster: Any) -> None:
    settings = {"kind": "ray", "address": cluster.address, "num_gpus": 4}
    with pytest.raises(ConfigError, match="asks for 4 GPU, the Ray cluster has 0"):
        run(rayed, rayed.write_batch(executor=settings))


def test_a_lost_node_is_a_lost_worker(rayed: Home, cluster: Any) -> None:
    """The last test of this file: the node stays away."""
    (node,) = cluster.worker_nodes
    lost: list[bool] = []

    def pull_the_plug(event: dict[str, Any]) -> None:
        is_rows = event["event"] == "trial_event" and event["what"]["event"] == "rows_evaluated"
        if is_rows and not lost:
            lost.append(True)
            cluster.remove_node(node, allow_graceful=False)

    result = run(rayed, write(rayed, cluster, seeds=3), pull_the_plug)
    assert result.is_complete, result.rows
    assert any(row.how == "resumed after its worker was lost" for row in result.rows)


def test_workers_take_no_library_from_the_working_folder(
    rayed: Home, cluster: Any, endpoint: FakeEndpoint
) -> None:
    for name in ("pydantic", "httpx", "yaml"):
        (rayed.path / f"{name}.py").write_text("open('imported', 'w')\nraise ImportError\n", encoding="utf-8")
    result = run(rayed, write(rayed, cluster, seeds=1))
    assert result.is_complete, result.rows
    assert not (rayed.path / "imported").exists()
