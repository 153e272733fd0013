"""What a run reads outside of its folder, known again by its sha256: the code of its metric."""

from __future__ import annotations

from autoprompt.errors import StoreError
from autoprompt.metrics.python_metric import code_digests
from autoprompt.run.preparation import Preparation
from autoprompt.store import RunFolder
from autoprompt.store.files import read_json, write_json

_INPUTS = "inputs.json"


def keep_inputs(folder: RunFolder, preparation: Preparation) -> None:
    """Note what the run begins with, where that is not noted: a new run, or one of an earlier version."""
    path = folder.path / _INPUTS
    if not path.exists():
        write_json(path, {"metric": code_digests(preparation.config.metric)})


def check_metric_unchanged(folder: RunFolder, preparation: Preparation) -> None:
    """A resumed run would score old answers anew beside the scores that it has: one test out of both.

    Raises StoreError where the metric's code is not that which the run began with.
    """
    path = folder.path / _INPUTS
    if not path.exists():
        return
    config = preparation.config
    known, found = read_json(path)["metric"], code_digests(config.metric)
    # By content alone: a module may lie in another folder by now. Of what was typed in, nothing is known.
    if not known or sorted(known.values()) == sorted(found.values()):
        return
    changed = [name for name, sha256 in found.items() if sha256 not in known.values()]
    cached = "" if config.no_cache else " (answers that are in the cache cost nothing)"
    raise StoreError(
        f"run {folder.run_id} cannot go on: its metric {config.metric} has changed since it began, in "
        f"{', '.join(changed or known)} (sha256 was {', '.join(known.values())}, is "
        f"{', '.join(found.values()) or 'not known'}). Put the old code back, or start a new run{cached}."
    )
