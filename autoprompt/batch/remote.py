"""What runs on a Ray cluster: a trial, its run folder on its way back, and the hub that all trials share."""

from __future__ import annotations

import contextlib
import io
import json
import os
import shutil
import tarfile
import tempfile
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from autoprompt.batch.executor import Job, run_job
from autoprompt.batch.trials import INPUT_FILES, Trial
from autoprompt.errors import BudgetExhausted, Interrupted
from autoprompt.llm.client import Completion
from autoprompt.llm.kept.cache import ResponseCache, from_record, to_record
from autoprompt.llm.limits.amounts import Amount
from autoprompt.llm.limits.demand import Demand
from autoprompt.llm.limits.ledger import Account, Caps, FileLedger, Ticket
from autoprompt.memory.file import add_entries
from autoprompt.records import Event
from autoprompt.runs.marks import MARKED, mark
from autoprompt.sandbox import untrusted
from autoprompt.text.files import read_text, write_text

_MOST_EVENTS = 10_000  # of a driver that does not listen; older ones are for a view only


@dataclass(frozen=True, slots=True)
class SharedFolder:
    """Where the driver works. token: a file of the batch's folder, there exactly if the storage is shared."""

    token: Path
    cwd: Path

    def enter(self) -> bool:
        """Return whether this process sees the batch's folder.

        If so, it finds the trials' paths from here on.
        """
        if not self.token.exists():
            return False
        with suppress(OSError):
            os.chdir(self.cwd)
        return True


class Hub:
    """An actor. Errors come back as values: what is pickled of an exception is not what it was.

    ledger_path: the batch's, used where this machine sees it; else a file of its own, which
    begins with what was spent so far. spent: trial -> calls, tokens, USD.
    """

    def __init__(
        self,
        ledger_path: str,
        place: SharedFolder,
        caps: tuple[Any, ...],
        spent: Mapping[str, tuple[int, int, float]],
    ) -> None:
        self._sees_folder = place.enter()
        path = Path(ledger_path)
        self._own_folder = None if self._sees_folder else Path(tempfile.mkdtemp(prefix="autoprompt-hub-"))
        if self._own_folder is not None:
            path = self._own_folder / path.name
        self._ledger = FileLedger(path, Caps(*caps))
        if not self._sees_folder:
            self._ledger.write_spent({trial: Amount(*amounts) for trial, amounts in spent.items()})
        self._caches: dict[str | None, ResponseCache] = {}
        self._events: deque[tuple[str, dict[str, Any]]] = deque(maxlen=_MOST_EVENTS)

    def sees_folder(self) -> bool:
        return self._sees_folder

    def ask(self, method: str, arguments: tuple[Any, ...], named: Mapping[str, Any]) -> tuple[Any, ...]:
        """Call a method of the ledger.

        Returns:
            ("ok", value), ("exhausted", cap, message) or ("interrupted", message).
        """
        try:
            return "ok", getattr(self._ledger, method)(*arguments, **named)
        except BudgetExhausted as error:
            return "exhausted", error.cap, str(error)
        except Interrupted as error:
            return "interrupted", str(error)

    def spent(self) -> dict[str, tuple[int, int, float]]:
        return {trial: (a.calls, a.tokens, a.cost_usd) for trial, a in self._ledger.spent().items()}

    def close(self) -> None:
        """Take away the ledger of its own, if it has one: killing an actor runs no clean-up."""
        if self._own_folder is not None:
            self._ledger.close()
            shutil.rmtree(self._own_folder, ignore_errors=True)

    def get_answer(self, directory: str | None, key: str) -> str | None:
        found = self._cache(directory).get(key)
        return None if found is None else json.dumps(to_record(found))

    def put_answer(self, directory: str | None, key: str, record: str) -> None:
        self._cache(directory).put(key, from_record(json.loads(record)))

    def forget_answer(self, directory: str | None, key: str) -> None:
        self._cache(directory).forget(key)

    def add_event(self, trial: str, event: dict[str, Any]) -> None:
        self._events.append((trial, event))

    def take_events(self) -> list[tuple[str, dict[str, Any]]]:
        taken = list(self._events)
        self._events.clear()
        return taken

    def _cache(self, directory: str | None) -> ResponseCache:
        if directory not in self._caches:
            self._caches[directory] = ResponseCache(None if directory is None else Path(directory))
        return self._caches[directory]


class HubLedger:
    """The `Ledger` of the hub. get: waits for the answer of a call to the actor, `ray.get`."""

    def __init__(self, hub: Any, get: Callable[[Any], Any]) -> None:
        self._hub, self._get = hub, get

    def admit(self, trial: str, least: Amount = Amount()) -> Ticket | None:
        return self._ask("admit", trial, least)  # type: ignore[no-any-return]

    def release(self, trial: str) -> None:
        self._ask("release", trial)

    def begin(self, waiting: set[str]) -> None:
        self._ask("begin", waiting)

    def spent(self) -> dict[str, Amount]:
        return self._ask("spent")  # type: ignore[no-any-return]

    def set_aside(self, ticket: Ticket, held: Amount, blocks: Amount) -> None:
        self._ask("set_aside", ticket, held, blocks)

    def charge(self, ticket: Ticket, *, from_block: bool, demand: Demand) -> int | None:
        return self._ask("charge", ticket, from_block=from_block, demand=demand)  # type: ignore[no-any-return]

    def settle(
        self, ticket: Ticket, *, likely: Amount, most: Amount, used: Amount, sent: bool, from_block: bool
    ) -> None:
        named = {"likely": likely, "most": most, "used": used, "sent": sent, "from_block": from_block}
        self._ask("settle", ticket, **named)

    def calls_left(self, ticket: Ticket) -> int | None:
        return self._ask("calls_left", ticket)  # type: ignore[no-any-return]

    def claim(self, ticket: Ticket, key: str) -> bool:
        return self._ask("claim", ticket, key)  # type: ignore[no-any-return]

    def unclaim(self, ticket: Ticket, key: str) -> None:
        self._ask("unclaim", ticket, key)

    def enter(self, endpoint: str, tokens: int, rpm: int | None, tpm: int | None) -> tuple[float, int | None]:
        return self._ask("enter", endpoint, tokens, rpm, tpm)  # type: ignore[no-any-return]

    def answered(self, number: int, tokens: int) -> None:
        self._ask("answered", number, tokens)

    def _ask(self, method: str, *arguments: Any, **named: Any) -> Any:
        answer = self._get(self._hub.ask.remote(method, arguments, named))
        match answer:
            case ("ok", value):
                return value
            case ("exhausted", cap, message):
                raise BudgetExhausted(cap, message)
            case (_, message):
                raise Interrupted(message)


class HubCache:
    """The response cache behind the hub, for workers that have none in common. directory: the setting."""

    def __init__(self, hub: Any, get: Callable[[Any], Any], directory: str | None) -> None:
        self._hub, self._get, self._directory = hub, get, directory

    def get(self, key: str) -> Completion | None:
        record = self._get(self._hub.get_answer.remote(self._directory, key))
        if record is None:
            return None
        return replace(from_record(json.loads(record)), source="cache")

    def put(self, key: str, completion: Completion) -> None:
        """Wait: a claim on the question is given back only when the answer is there for others."""
        self._get(self._hub.put_answer.remote(self._directory, key, json.dumps(to_record(completion))))

    def flush(self) -> None:
        """Do nothing: every answer goes to the hub at once."""

    def forget(self, key: str) -> None:
        self._get(self._hub.forget_answer.remote(self._directory, key))

    def close(self) -> None:
        """Nothing is held."""


_PLACES = "places.json"  # in a parcel: what was called what over there
_MEMORY = "memory"  # the folder of the experience files, there and in a parcel


def input_files(trial: Trial) -> list[Path]:
    """Return the files that the trial reads, but for its memory."""
    return [path for name in INPUT_FILES if (path := getattr(trial.config, name)) is not None]


def settle_in(job: Job, root: Path, files: Mapping[str, bytes], memory: str | None) -> Job:
    """Return the job with its files under `root`, for a process that does not see the batch's folder."""
    config, changed = job.trial.config, {}
    for name in INPUT_FILES:
        path = getattr(config, name)
        if path is None:
            continue
        here = root / name / path.name
        here.parent.mkdir(parents=True, exist_ok=True)
        here.write_bytes(files[str(path)])
        changed[name] = here
    experiences = root / _MEMORY / config.memory_file.name
    if memory is not None:
        write_text(experiences, memory)
    changed["memory_file"] = experiences
    trial = replace(job.trial, config=config.model_copy(update=changed))
    return replace(job, trial=trial, batch_dir=root / "runs")


def pack(job: Job, original: Job) -> bytes:
    """Return the run folder and experience files of a trial that ran elsewhere, as a tar file."""
    memory = job.trial.config.memory_file
    places = {
        str(job.batch_dir / job.trial.id): str(original.batch_dir / job.trial.id),
        str(memory.parent): str(original.trial.config.memory_file.parent),
    }
    for name in INPUT_FILES:
        here, there = getattr(job.trial.config, name), getattr(original.trial.config, name)
        if here is not None and there is not None:
            places[str(here)] = str(there)
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w:gz") as archive:
        folder = job.batch_dir / job.trial.id
        if folder.is_dir():
            archive.add(folder, arcname="run", filter=_without_work)
        for path in memory.parent.glob(f"*{memory.suffix}"):  # beside it: lessons that it had no room for
            archive.add(path, arcname=f"{_MEMORY}/{path.name}")
        data = json.dumps(places).encode()
        info = tarfile.TarInfo(_PLACES)
        info.size = len(data)
        archive.addfile(info, io.BytesIO(data))
    return stream.getvalue()


def _without_work(member: tarfile.TarInfo) -> tarfile.TarInfo | None:
    """Leave out what experiments of an analysis made: anything can be there, and nothing needs it."""
    parts = Path(member.name).parts  # run/analysis/ID/work
    return None if parts[1:2] == ("analysis",) and parts[3:4] and parts[3].startswith("work") else member


def unpack(parcel: bytes, job: Job) -> None:
    """Lay the run folder where it belongs, with our names for its files in settings and result."""
    folder = job.batch_dir / job.trial.id
    # An earlier attempt may have worked here, and SQLite would take its logs for those of the new files.
    with contextlib.suppress(OSError):
        untrusted.remove_tree(folder)
    with tarfile.open(fileobj=io.BytesIO(parcel), mode="r:gz") as archive:
        places: dict[str, str] = json.loads(_read(archive, _PLACES))
        for member in archive.getmembers():
            below = Path(member.name)
            if not member.isfile() or below.parts[0] != "run" or ".." in below.parts:
                continue
            target = folder.joinpath(*below.parts[1:])
            target.parent.mkdir(parents=True, exist_ok=True)
            data = _read(archive, member.name)
            target.write_bytes(_renamed(data, places) if target.name in _WITH_PLACES else data)
        # Under our names for its files it is ours: the worker's secret was not made here.
        for name in MARKED:
            if (folder / name).is_file():
                mark(folder, name, read_text(folder / name))
        for name in archive.getnames():
            if name.startswith(f"{_MEMORY}/") and not job.trial.config.no_memory:
                _keep(job.trial.config.memory_file, Path(name).name, _read(archive, name).decode())


def _keep(memory: Path, name: str, text: str) -> None:
    """Put an experience file of the worker in its place. Lessons dropped by an earlier attempt stay."""
    if name == memory.name:
        write_text(memory, text)
    else:
        add_entries(memory.with_name(name), text)


_WITH_PLACES = ("run.json", "config.yaml", "result.json", "events.jsonl")


def _renamed(data: bytes, places: Mapping[str, str]) -> bytes:
    for there, here in places.items():
        data = data.replace(there.encode(), here.encode())
    return data


def _read(archive: tarfile.TarFile, name: str) -> bytes:
    stream: Any = archive.extractfile(name)
    data: bytes = stream.read()
    return data


def work(
    order: Mapping[str, Any],
    variables: Mapping[str, str],
    files: Sequence[tuple[str, Any]],
    memory: str | None,
    place: SharedFolder,
    hub: Any,
) -> dict[str, Any]:
    """Do `work_with` on a Ray worker. variables: keys, for this process alone; they are in no log."""
    import ray

    os.environ.update(variables)
    return work_with(order, files, memory, place, hub, ray.get)


def work_with(
    order: Mapping[str, Any],
    files: Sequence[tuple[str, Any]],
    memory: str | None,
    place: SharedFolder,
    hub: Any,
    get: Callable[[Any], Any],
) -> dict[str, Any]:
    """Run one trial: {"outcome": ..., "parcel": its folder as bytes, None where the storage is shared}.

    files: path, and a reference to its content that `get` fetches where the storage is not shared.
    """
    original = Job.from_dict(order)
    cache_dir = original.trial.config.cache_dir
    account = Account(
        HubLedger(hub, get),
        original.ticket,
        original.seconds_left,
        open_cache=lambda: HubCache(hub, get, None if cache_dir is None else str(cache_dir)),
    )

    def tell(event: Event) -> None:
        hub.add_event.remote(original.trial.id, event)

    if place.enter() and all(Path(path).exists() for path, _ in files):
        return {"outcome": run_job(original, account, on_event=tell).to_dict(), "parcel": None}
    root = Path(tempfile.mkdtemp(prefix="autoprompt-trial-"))
    try:
        content = {path: get(reference) for path, reference in files}
        job = settle_in(original, root, content, memory)
        outcome = replace(run_job(job, account, on_event=tell), is_shared=False)
        return {"outcome": outcome.to_dict(), "parcel": pack(job, original)}
    finally:
        with contextlib.suppress(OSError):
            untrusted.remove_tree(root)
