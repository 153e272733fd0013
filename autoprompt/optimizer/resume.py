"""A run that goes on: its settings, the data that it read, and its last checkpoint."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from autoprompt.errors import BudgetExhausted, Place, Problem, StoreError
from autoprompt.llm.kept.journal import Journal
from autoprompt.llm.limits.amounts import Spent
from autoprompt.metrics import row_weights
from autoprompt.metrics.judge import Grades
from autoprompt.metrics.user_code import code_digests
from autoprompt.optimizer.prepare import Preparation
from autoprompt.optimizer.search.pool import Pool
from autoprompt.records import Candidate
from autoprompt.runs import RunFolder
from autoprompt.runs.find import places, seen_from
from autoprompt.runs.folder import ORIGINAL_PROMPT
from autoprompt.runs.interrupted import batch_of
from autoprompt.settings.records import RunConfig
from autoprompt.text.files import file_sha256, read_json, read_text, to_json
from autoprompt.text.redaction import HIDDEN

if TYPE_CHECKING:
    from autoprompt.optimizer.context import SearchContext


def dataset_facts(preparation: Preparation) -> dict[str, Any]:
    """The rows of a run, by which a resume knows them again."""
    splits = preparation.splits
    return {
        "path": ", ".join(str(path) for path in splits.paths.values()),
        "sha256": splits.dataset_sha256,
        "split_seed": splits.split_seed,
        "sizes": splits.sizes,
        "parts": dict(splits.sha256),
        "groups": splits.group_counts,
    }


def restore(
    folder: RunFolder,
    preparation: Preparation,
    context: SearchContext,
    state: Mapping[str, Any],
    journal: Journal,
) -> None:
    """Pool, budget and journal as they were at the checkpoint.

    Raises StoreError where the dataset has changed, or this version splits it otherwise.
    """
    known, found = state["dataset"]["sha256"], preparation.splits.dataset_sha256
    if known != found:
        raise StoreError(
            f"run {folder.run_id} cannot go on: {state['dataset']['path']} has changed since it began "
            f"(sha256 was {known}, is {found}). Put the old file back, or start a new run."
        )
    # A version of autoprompt that cuts them otherwise would let rows decide that the analyst has seen.
    began, now = state["dataset"], dataset_facts(preparation)
    if any(began[name] != now[name] for name in ("sizes", "parts", "groups")):
        raise StoreError(
            f"run {folder.run_id} cannot go on: this version of autoprompt splits {began['path']} otherwise "
            f"than the one that began it (rows were {began['sizes']}, are {now['sizes']}). Go on with that "
            "version, or start a new run."
        )
    drop_candidates_after(folder, state["pool_step"])
    records = list(folder.read_candidate_records())
    splits = preparation.splits
    weights = row_weights(context.metric, splits.train, splits.val)
    context.pool = Pool.from_records(records, context.settings.labels, splits.groups, weights)
    if state["original"] not in context.pool:
        original = context.add(Candidate(components=context.program.components))
        original.status = "accepted"
    if state["spent"]:
        spent = Spent.from_dict(state["spent"])
        context.budget.restore(replace(spent, seconds=max(spent.seconds, journal.seconds)))
    journal.mark_counted(state["journal_position"])
    if state.get("grades"):
        context.grades = Grades(**state["grades"])
    if state.get("held"):
        context.budget.restore_hold(state["held"])
        return
    with suppress(BudgetExhausted):  # as in `predict`, which then ended the search; or the end is behind us
        ids = [state["incumbent"], *state["pending"]]
        context.hold_final(*(context.pool[i].candidate for i in ids))


def drop_candidates_after(folder: RunFolder, step: int) -> None:
    """Take out what was written after the checkpoint: a later resume would load it with steps of its own."""
    records = list(folder.read_candidate_records())
    kept = [record for record in records if record["step"] <= step]
    if len(kept) < len(records):
        folder.rewrite_candidates(kept)


def load_config(folder: RunFolder) -> RunConfig:
    """The settings that a run was started with."""
    config = folder.read_settings(RunConfig)
    # Its own file holds the text to the letter.
    path = folder.path / ORIGINAL_PROMPT
    if config.prompt is None or not path.exists():  # killed between the two files
        return config
    return config.model_copy(update={"prompt": read_text(path)})


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
