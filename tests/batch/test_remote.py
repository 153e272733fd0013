"""What a worker on another machine does, with the hub in this process: the same code, no cluster."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from batches import FLOW, Home
from fake_endpoint import FakeEndpoint

from autoprompt.batch.executor import Job, Outcome
from autoprompt.batch.folder import BatchFolder
from autoprompt.batch.remote import Hub, HubCache, HubLedger, SharedFolder, input_files, unpack, work_with
from autoprompt.batch.trials import load_batch
from autoprompt.errors import BudgetExhausted, Interrupted
from autoprompt.llm.client import Completion
from autoprompt.llm.limits.amounts import Amount
from autoprompt.llm.limits.demand import NOTHING
from autoprompt.llm.limits.ledger import Caps, FileLedger
from autoprompt.memory import MAX_ENTRIES, ExperienceFile
from autoprompt.records import Usage


class Actor:
    """An actor of this process: `actor.method.remote(...)` gives the value itself."""

    def __init__(self, made: Any) -> None:
        self._made = made

    def __getattr__(self, name: str) -> Any:
        method: Callable[..., Any] = getattr(self._made, name)

        class Remote:
            remote = staticmethod(method)

        return Remote()


def get(value: Any) -> Any:
    return value


@pytest.fixture(autouse=True)
def _scratch(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a hub keeps until its cluster ends."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path_factory.mktemp("scratch")))


class Bench:
    def __init__(self, home: Home, **spec: Any) -> None:
        self.batch = load_batch([home.write_batch(**spec)], environ={})
        self.folder = BatchFolder.make(home.runs_dir, self.batch.name)
        self.trial = self.folder.adopt(self.batch.trials)[0]
        self.folder.keep_memory(self.trial, home.path / "memory.txt")
        self.token = self.folder.path / ".shared-1"
        self.token.touch()
        self.place = SharedFolder(self.token, Path.cwd())
        ledger = str(self.folder.ledger_path)
        caps = (self.batch.caps.max_calls, None, None)
        self.hub = Actor(Hub(ledger, self.place, caps, {}))
        self.ledger = HubLedger(self.hub, get)

    def work(self, *, hides_data: bool = False) -> tuple[Job, dict[str, Any]]:
        ticket = self.ledger.admit(self.trial.id)
        assert ticket is not None
        job = Job(self.trial, ticket, self.folder.path)
        files = [(str(path), path.read_bytes()) for path in input_files(self.trial)]
        for path in input_files(self.trial) if hides_data else ():
            path.unlink()
        memory = self.trial.config.memory_file.read_text(encoding="utf-8")
        return job, work_with(job.to_dict(), files, memory, self.place, self.hub, get)


def test_paths_are_from_the_drivers_directory_where_the_folder_is_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    driver, worker = tmp_path / "driver", tmp_path / "worker"
    for folder in (driver, worker):
        folder.mkdir()
    (driver / "token").touch()
    monkeypatch.chdir(worker)
    assert not SharedFolder(worker / "token", driver).enter()
    assert Path.cwd() == worker
    assert SharedFolder(driver / "token", driver).enter()
    assert Path.cwd() == driver


def test_a_worker_that_sees_the_folder_works_in_it(online: Home, endpoint: FakeEndpoint) -> None:
    bench = Bench(online)
    job, answer = bench.work()
    assert answer == {"outcome": Outcome("finished").to_dict(), "parcel": None}
    assert bench.folder.trial(job.trial.id).read_result() is not None
    assert bench.ledger.spent()[job.trial.id].calls == len(endpoint.requests)
    events = bench.hub.take_events.remote()
    assert {event["event"] for _, event in events} >= {"run_started", "rows_evaluated"}


def test_a_worker_elsewhere_sends_its_run_home(online: Home, endpoint: FakeEndpoint) -> None:
    (online.path / "memory.txt").write_text("# mine\n", encoding="utf-8")
    bench = Bench(online)
    bench.token.unlink()
    job, answer = bench.work()
    assert Outcome.from_dict(answer["outcome"]) == Outcome("finished", is_shared=False)
    run = bench.folder.trial(job.trial.id)
    assert not run.path.exists()
    unpack(answer["parcel"], job)
    result = run.read_result()
    assert result is not None
    assert Path(result["run_dir"]) == run.path
    assert run.read_config()["dataset"] == str(online.path / "rows.jsonl")
    assert len(run.journal_path.read_bytes().splitlines()) == len(endpoint.requests)
    assert job.trial.config.memory_file.read_text(encoding="utf-8").startswith("# mine")


def test_lessons_that_a_worker_elsewhere_has_no_room_for_come_home(online: Home, tmp_path: Path) -> None:
    """Beside the trial's experience file, and behind those of an earlier attempt; the warning says where."""
    lines = (f"- [better] Old lesson {n}\n  task: Another one {n}\n" for n in range(MAX_ENTRIES + 3))
    (online.path / "memory.txt").write_text("\n".join(lines), encoding="utf-8")
    bench = Bench(online)
    bench.token.unlink()
    job, answer = bench.work()
    memory = job.trial.config.memory_file
    unpack(answer["parcel"], job)
    (dropped,) = memory.parent.glob("*.dropped-*")
    first = ExperienceFile(dropped).load()
    kept = ExperienceFile(memory).load()
    assert len(kept) == MAX_ENTRIES
    assert {f"Old lesson {n}" for n in range(MAX_ENTRIES + 3)} <= {entry.text for entry in kept + first}
    warnings = (bench.folder.trial(job.trial.id).path / "result.json").read_text(encoding="utf-8")
    assert f"moved to {dropped}, since the file keeps {MAX_ENTRIES} of them." in warnings
    unpack(answer["parcel"], job)
    assert [entry.text for entry in ExperienceFile(dropped).load()] == [e.text for e in first * 2]
    assert ExperienceFile(dropped).problems() == []


def test_a_worker_that_sees_the_folder_and_not_the_data_is_sent_them(
    online: Home, endpoint: FakeEndpoint
) -> None:
    bench = Bench(online)
    left = bench.folder.trial(bench.trial.id).path / "checkpoints.sqlite-wal"
    left.parent.mkdir()
    left.write_bytes(b"of a worker that was killed")
    job, answer = bench.work(hides_data=True)
    assert Outcome.from_dict(answer["outcome"]) == Outcome("finished", is_shared=False)
    unpack(answer["parcel"], job)
    assert not left.exists()
    assert bench.folder.trial(job.trial.id).read_result() is not None


def test_a_worker_elsewhere_is_sent_the_workflow(online: Home) -> None:
    bench = Bench(online, defaults=online.write_workflow())
    job, answer = bench.work(hides_data=True)
    assert Outcome.from_dict(answer["outcome"]) == Outcome("finished", is_shared=False)
    unpack(answer["parcel"], job)
    run = bench.folder.trial(job.trial.id)
    assert run.read_result() is not None
    assert run.read_config()["workflow"] == str(online.path / "flow.yaml")
    assert (run.path / "original_workflow.yaml").read_text(encoding="utf-8") == FLOW
    assert run.read_config()["tools"] == str(online.path / "tools.py")


def test_it_starts_again_from_the_answers_that_all_share(online: Home, endpoint: FakeEndpoint) -> None:
    bench = Bench(online)
    bench.token.unlink()
    bench.work()
    asked = len(endpoint.requests)
    _, answer = bench.work()
    assert answer["outcome"]["how"] == "started"
    assert len(endpoint.requests) == asked


def test_the_budget_of_the_batch_comes_through_the_hub(online: Home, endpoint: FakeEndpoint) -> None:
    bench = Bench(online, max_calls=90)
    bench.work()
    assert 0 < len(endpoint.requests) <= 90
    ticket = bench.ledger.admit("other")
    assert ticket is not None
    with pytest.raises(BudgetExhausted, match="of the batch") as caught:
        bench.ledger.set_aside(ticket, held=Amount(100), blocks=Amount())
    assert caught.value.cap == "max_calls"
    with pytest.raises(Interrupted):
        bench.ledger.charge(replace(ticket, attempt=7), from_block=False, demand=NOTHING)


def test_a_hub_that_does_not_see_the_folder_begins_with_what_was_spent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(elsewhere))
    nowhere = SharedFolder(tmp_path / "no-token", tmp_path)
    hub = Hub(str(tmp_path / "none" / "ledger.sqlite"), nowhere, (10, None, None),
              {"t": (8, 100, 0.5)})  # fmt: skip
    assert not hub.sees_folder()
    assert hub.spent() == {"t": (8, 100, 0.5)}
    books = HubLedger(Actor(hub), get)
    assert books.admit("other", Amount(3)) is None
    assert books.admit("other", Amount(2)) is not None
    home = FileLedger(tmp_path / "ledger.sqlite", Caps(10))
    home.write_spent({trial: Amount(*amounts) for trial, amounts in hub.spent().items()})
    assert home.spent()["t"] == Amount(8, 100, 0.5)
    assert list(elsewhere.iterdir())
    hub.close()
    assert not list(elsewhere.iterdir())


def test_an_answer_comes_back_whole_from_the_shared_cache(tmp_path: Path) -> None:
    hub = Actor(
        Hub(
            str(tmp_path / "ledger.sqlite"),
            SharedFolder(tmp_path / "no-token", tmp_path),
            (None, None, None),
            {},
        )
    )
    cache = HubCache(hub, get, str(tmp_path / "cache"))
    key = "a" * 64
    assert cache.get(key) is None
    answer = Completion("是", Usage(3, 1, 0.5), {"是": 1.0}, "stop", "m", 0.25)
    cache.put(key, answer)
    assert cache.get(key) == replace(answer, attempts=0, source="cache")
    cache.forget(key)
    assert cache.get(key) is None
