"""The marks of a run that this user made: without them, its folder must be trusted before anything runs.

A mark is an HMAC-SHA256 with the user's secret over a file of the folder, together with its `run.json`. That
holds the settings which the run began with. Of those in `config.yaml` some may change (`MAY_CHANGE`), and the
mark stays valid. One that names a file may not, unless it is a data file whose content is known: an edited
folder would choose what of this machine is executed, read, sent or overwritten. A link among the files would
do the same, and no mark covers it; a run never makes one.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from autoprompt.errors import Place, Problem, StoreError
from autoprompt.settings.trust import is_trusted, make_secret, own_folder, path_settings, read_secret
from autoprompt.text.files import read_bytes, read_json, write_json

MARKS = "marks.json"
_INFO = "run.json"
_INPUTS = "inputs.json"  # knows data files by their content
# What a resumed run executes or sends by. They need not be there; those that are must carry a mark.
MARKED = (
    _INFO,
    "batch.json",
    "flow_settings.json",
    _INPUTS,
    "original_prompt.txt",
    "original_workflow.yaml",
    "task.json",
    "workflow_inputs.json",
)


def mark(folder: Path, name: str, text: str) -> None:
    """Mark what is to be written to a file of a run as this user's, if the run is.

    Call it before the file is written: a kill between the two then leaves the old file or none, and the mark
    before the last one is kept. Does nothing if there is no secret to mark it with.
    """
    if name not in MARKED:
        return
    data = text.encode(errors="replace")
    with suppress(OSError, StoreError):
        secret, known = make_secret(), {} if name == _INFO else _read(folder)
        if name == _INFO or _is_valid(folder, _INFO, known, secret):
            info = data if name == _INFO else read_bytes(folder / _INFO)
            marks = [*known.get(name, ()), _digest(info, name, data, secret)]
            write_json(folder / MARKS, {**known, name: marks[-2:]})


def check_is_own(folder: Path, changed: dict[str, list[Any]]) -> None:
    """Refuse to do anything on behalf of a run folder that somebody else may have written.

    Args:
        folder: Of the run. A trial of a batch has a mark of its own: whoever can write to the batch's folder
            can put another trial there.
        changed: What was edited in its `config.yaml` since the run began.

    Raises:
        StoreError: The folder has no valid mark, and is not trusted.
    """
    if is_trusted(folder):
        return
    fix = "If you trust the folder, {trust}."
    settings = {"trust": folder.absolute()}
    if said := _fault(folder):
        raise StoreError(Problem("trust.run", said, Place(folder), fix, settings))
    known = _known_data(folder)
    for name in (name for name in changed if name in path_settings() and name not in known):
        was, now = changed[name]
        said = f"{name} was {was} when the run began, and is now {now}"
        place = Place(folder / "config.yaml", setting=name, source="file")
        raise StoreError(Problem("trust.edited-path", said, place, fix, settings))


def _known_data(folder: Path) -> set[str]:
    """Return the settings whose file is only taken if it has the content that the run began with."""
    if not (folder / _INPUTS).exists():
        return set()
    noted = read_json(folder / _INPUTS).get("data")
    data = noted if isinstance(noted, dict) else {}
    return {name for name, facts in data.items() if isinstance(facts, dict) and facts.get("sha256")}


def _fault(folder: Path) -> str:
    """Return why a run is not known as this user's; "" if it is."""
    try:
        secret = read_secret()
        if secret is None:
            make_secret()
    except OSError as error:
        return (
            "autoprompt cannot tell whether you made this run, because it cannot use the secret in "
            f"{own_folder() or 'your settings'} ({error.strerror or error})"
        )
    known = _read(folder)
    if secret is None or not _is_valid(folder, _INFO, known, secret):
        return "you did not make this run on this machine, and its files decide what is executed and sent"
    wrong = [
        name for name in MARKED if (folder / name).exists() and not _is_valid(folder, name, known, secret)
    ]
    return f"{', '.join(wrong)} changed since you made this run" if wrong else ""


def _read(folder: Path) -> dict[str, list[str]]:
    """Return the marks of each file; none for what is no list of them."""
    try:
        found = read_json(folder / MARKS)
    except StoreError:
        return {}
    return {name: [str(one) for one in marks] for name, marks in found.items() if isinstance(marks, list)}


def _is_valid(folder: Path, name: str, known: dict[str, list[str]], secret: bytes) -> bool:
    try:
        found = _digest(read_bytes(folder / _INFO), name, read_bytes(folder / name), secret)
    except OSError:
        return False
    return any(
        hmac.compare_digest(one.encode(errors="replace"), found.encode()) for one in known.get(name, ())
    )


def _digest(info: bytes, name: str, data: bytes, secret: bytes) -> str:
    sums = [hashlib.sha256(part).hexdigest() for part in (info, data)]
    return hmac.new(secret, "\n".join([name, *sums]).encode(), hashlib.sha256).hexdigest()


# --- links ---

_FOLDERS = ("predictions", "passes", "logs", "memory")  # of runs and batches, filled by us alone
_SET_ASIDE = re.compile(r"\.(?:replaced|damaged)(?:-\d+)?$")  # by `FolderWatch.restore`; nothing opens them


def first_link(folder: Path) -> str | None:
    """Return the first link among a run's files, relative to its folder; None where there is none.

    A run never writes links. One may have been planted in a copied folder, to have a file of this machine
    shown, sent or overwritten. What code in a sandbox has made (`work...`) is not looked at: that is read by
    `sandbox.untrusted`, which follows no link.
    """
    for parent in (folder, *(folder / name for name in _FOLDERS), *_analyses(folder / "analysis")):
        try:
            with os.scandir(parent) as found:
                links = sorted(e.name for e in found if e.is_symlink() and not _SET_ASIDE.search(e.name))
        except OSError:  # not there, or another user's
            continue
        if links:
            return str((parent / links[0]).relative_to(folder))
    return None


def _analyses(folder: Path) -> Iterator[Path]:
    """Yield the folders of a run's analyses, but for what code has made in them. Follows no link."""
    for parent, names, _ in os.walk(folder) if not folder.is_symlink() else ():
        names[:] = [name for name in names if not name.startswith("work")]
        yield Path(parent)
