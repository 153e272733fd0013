"""Find the input files of a run after the files, the run's folder or both were moved."""

from __future__ import annotations

import os
from pathlib import Path

from autoprompt.runs.folder import RunFolder


def places(folder: RunFolder, path: Path, from_run: str | None) -> list[Path]:
    """Where a file of a run may lie by now: where it was, there as seen from the run, beside its runs folder.

    from_run: what `seen_from` said; None for a run that has not noted it.
    """
    here = folder.path.absolute()
    moved = [] if from_run is None else [Path(os.path.normpath(here / from_run))]
    return [path, *moved, here.parent.parent / path.name]


def seen_from(folder: RunFolder, path: Path) -> str:
    """So that runs that are moved with their data, rows that a program gave among them, find it again."""
    try:
        return os.path.relpath(path, folder.path)
    except ValueError:  # on another drive
        return str(path.absolute())
