"""A trial on a machine of a Ray cluster: what it needs there, and its run folder back here."""

from __future__ import annotations

import contextlib
import io
import json
import os
import tarfile
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from autoprompt.batch.executor import Job, run_job
from autoprompt.batch.hub import HubCache, HubLedger, SharedFolder
from autoprompt.batch.trials import INPUT_FILES, Trial
from autoprompt.llm.limits.ledger import Account
from autoprompt.memory.file import add_entries
from autoprompt.records import Event
from autoprompt.runs.marks import MARKED, mark
from autoprompt.sandbox import untrusted
from autoprompt.text.files import read_text, write_text

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
