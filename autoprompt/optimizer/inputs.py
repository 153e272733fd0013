"""What a run reads outside of its folder, known by its sha256: data files and the code of its metric."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from autoprompt.errors import StoreError
from autoprompt.metrics.user_code import code_digests
from autoprompt.optimizer.prepare import Preparation
from autoprompt.runs import RunFolder
from autoprompt.runs.find import places, seen_from
from autoprompt.runs.interrupted import batch_of
from autoprompt.settings.records import RunConfig
from autoprompt.text.files import file_sha256, read_json, to_json
from autoprompt.text.redaction import HIDDEN

_INPUTS = "inputs.json"
_DATA = ("dataset", "train", "val", "test")


def keep_inputs(folder: RunFolder, preparation: Preparation) -> None:
    """Note what the run begins with, where that is not noted: a new run, or one of an earlier version."""
    if _noted(folder):
        return
    data = {
        name: {"sha256": file_sha256(path), "from_run": seen_from(folder, path)}
        for name, path in preparation.splits.paths.items()
    }
    known = {"data": data, "metric": code_digests(preparation.config.metric)}
    folder.write_text(_INPUTS, to_json(known, indent=2) + "\n")


def find_data(folder: RunFolder, config: RunConfig) -> RunConfig:
    """The settings of a run with its data files where they lie by now.

    A file that is gone or has changed is looked for where it lay as seen from the run's folder, and beside
    the folder of the runs: nothing but the sha256 that the run began with makes it that file.
    Raises StoreError for one that is nowhere, and for one that has changed: its rows are not the run's.
    """
    known = _noted(folder).get("data", {})
    given = {name: path for name in _DATA if (path := getattr(config, name)) is not None}
    found = {name: _find(folder, path, known.get(name, {})) for name, path in given.items()}
    return config.model_copy(update=found)


def _find(folder: RunFolder, path: Path, known: dict[str, Any]) -> Path:
    sha256 = known.get("sha256")
    *_, beside = near = places(folder, path, known.get("from_run"))
    if sha256 is not None:
        for place in near:
            if place.is_file() and file_sha256(place) == sha256:
                return place
    if path.is_file() and sha256 is not None:
        raise StoreError(
            f"run {folder.run_id} cannot go on: {path} has changed since it began (sha256 was {sha256}, is "
            f"{file_sha256(path)}). Put the old file back, or start a new run."
        )
    if path.exists():  # of an earlier version: refused where it is compared with the checkpoint
        return path
    elsewhere = f", or at {beside}" if beside != path.absolute() else ""
    raise StoreError(
        f"run {folder.run_id} was started on {path}"
        + (f" (sha256 {sha256})" if sha256 else "")
        + ", which is not there. Put it there again"
        + (f"{elsewhere}: its content must be the same." if sha256 else ".")
    )


def has_metric_of(folder: RunFolder, metric: str) -> bool:
    """Whether the code of this metric is that which the run began with, as far as that is known.

    By content alone: a module may lie in another folder by now. Of what was typed in, nothing is known.
    """
    known = _noted(folder).get("metric", {})
    return not known or sorted(known.values()) == sorted(code_digests(metric).values())


def check_metric_unchanged(folder: RunFolder, preparation: Preparation) -> None:
    """A resumed run would score old answers anew beside the scores that it has: one test out of both.

    Raises StoreError where the metric's code is not that which the run began with; of its options see
    `check_options_kept`.
    """
    config = preparation.config
    again = "run the batch's file again" if batch_of(folder) else f"write it into {folder.config_path}"
    check_options_kept(folder.run_id, config, again)
    if has_metric_of(folder, config.metric):
        return
    known, found = _noted(folder)["metric"], code_digests(config.metric)
    changed = [name for name, sha256 in found.items() if sha256 not in known.values()]
    cached = "" if config.no_cache else " (answers that are in the cache cost nothing)"
    raise StoreError(
        f"run {folder.run_id} cannot go on: its metric {config.metric} has changed since it began, in "
        f"{', '.join(changed or known)} (sha256 was {', '.join(known.values())}, is "
        f"{', '.join(found.values()) or 'not known'}). Put the old code back, or start a new run{cached}."
    )


def check_options_kept(run_id: str, config: RunConfig, again: str) -> None:
    """Raises StoreError for settings out of a folder whose metric had an option that looked like a key.

    Such an option is not kept, and with *** in its place the metric would score otherwise. again: what to do.
    """
    if HIDDEN in json.dumps(config.metric_options, default=str):
        raise StoreError(
            f"run {run_id} cannot go on: one of its metric_options ({', '.join(config.metric_options)}) "
            f"looked like a key, and is not kept. To go on, {again}."
        )


def _noted(folder: RunFolder) -> dict[str, Any]:
    """Empty for a run that has noted nothing: a new one, or one of an earlier version."""
    path = folder.path / _INPUTS
    return read_json(path) if path.exists() else {}
