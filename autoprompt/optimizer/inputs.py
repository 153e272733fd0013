"""What a run reads outside of its folder, known by its sha256: data files and the code of its metric."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from autoprompt.errors import Place, Problem, StoreError
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
    """Note what a run begins with, unless that is noted."""
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
    known = _noted(folder)
    if known is None:
        return config
    given = {name: path for name in _DATA if (path := getattr(config, name)) is not None}
    for name in given.keys() - known["data"].keys():
        place = Place(folder.config_path, setting=name, source="file")
        fix = "Take it out, or start a new run."
        raise StoreError(Problem("run.new-data", "the run began without this file", place, fix))
    found = {name: _find(folder, path, **known["data"][name]) for name, path in given.items()}
    return config.model_copy(update=found)


def _find(folder: RunFolder, path: Path, *, sha256: str, from_run: str) -> Path:
    *_, beside = near = places(folder, path, from_run)
    for place in near:
        if place.is_file() and file_sha256(place) == sha256:
            return place
    if path.is_file():
        raise StoreError(
            f"run {folder.run_id} cannot go on: {path} has changed since it began (sha256 was {sha256}, is "
            f"{file_sha256(path)}). Put the old file back, or start a new run."
        )
    elsewhere = f", or at {beside}" if beside != path.absolute() else ""
    raise StoreError(
        f"run {folder.run_id} was started on {path} (sha256 {sha256}), which is not there. Put it there "
        f"again{elsewhere}: its content must be the same."
    )


def check_metric_unchanged(folder: RunFolder, preparation: Preparation) -> None:
    """A resumed run would score old answers anew beside the scores that it has: one test out of both.

    Raises StoreError where the metric's code is not that which the run began with; of its options see
    `check_options_kept`. Code is known by its content alone: a module may lie in another folder by now. Of
    what was typed in, nothing is known.
    """
    config = preparation.config
    again = "run the batch's file again" if batch_of(folder) else f"write it into {folder.config_path}"
    check_options_kept(folder.run_id, config, again)
    known, found = (_noted(folder) or {}).get("metric"), code_digests(config.metric)
    if not known or sorted(known.values()) == sorted(found.values()):
        return
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


def _noted(folder: RunFolder) -> dict[str, Any] | None:
    """None for a run that has not begun."""
    path = folder.path / _INPUTS
    return read_json(path) if path.exists() else None
