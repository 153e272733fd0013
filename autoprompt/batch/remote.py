"""What a Ray worker does with a trial: settle in, run it, send home what it made."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from autoprompt.batch.hub import HubCache, HubLedger, Place
from autoprompt.batch.job import Job, run_job
from autoprompt.batch.parcel import pack, settle_in
from autoprompt.llm.limits.account import Account
from autoprompt.records import Event
from autoprompt.sandbox import untrusted


def work(
    order: Mapping[str, Any],
    variables: Mapping[str, str],
    files: Sequence[tuple[str, Any]],
    memory: str | None,
    place: Place,
    hub: Any,
) -> dict[str, Any]:
    """The task: `work_with` on a Ray worker. variables: keys, for this process alone; they are in no log."""
    import ray

    os.environ.update(variables)
    return work_with(order, files, memory, place, hub, ray.get)


def work_with(
    order: Mapping[str, Any],
    files: Sequence[tuple[str, Any]],
    memory: str | None,
    place: Place,
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
