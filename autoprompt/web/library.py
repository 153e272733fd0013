"""The runs that a request may name. A name is looked up among what lies there, never made into a path."""

from __future__ import annotations

import os
import threading
from collections.abc import Hashable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from autoprompt.runs import RunFolder, RunLine
from autoprompt.runs.listing import Status, summarize
from autoprompt.web.kept import mark_of

# Files whose change may change the line of a run; the folder itself for those that come and go.
_FILES = ("", "run.json", "config.yaml", "result.json", "predictions")


@dataclass(frozen=True, slots=True)
class Entry:
    """One run, or one trial of a batch. key: `RUN` or `BATCH/TRIAL`, as in its address.

    line: its line in the list; `line.problem` says why it cannot be shown.
    """

    key: str
    line: RunLine
    parent: str = ""

    @property
    def folder(self) -> RunFolder:
        return RunFolder(self.line.path)


class RunLibrary:
    """All runs under a folder, read again when their files change. For several threads."""

    def __init__(self, runs_dir: Path) -> None:
        self.runs_dir = runs_dir
        self._known: dict[str, tuple[Hashable, Entry]] = {}
        self._lock = threading.Lock()

    def runs(self) -> list[Entry]:
        """Runs, newest first; the trials of a batch are not among them."""
        return [self._entry(path, path.name) for path in _folders(self.runs_dir)]

    def trials(self, batch: Entry) -> list[Entry]:
        """The runs that lie in the folder of a batch, in the order of their names."""
        found = [path for path in _folders(batch.line.path) if (path / "run.json").is_file()]
        return [self._entry(path, f"{batch.key}/{path.name}", batch.key) for path in reversed(found)]

    def find(self, key: str) -> Entry | None:
        """The run of this key; None for any other text."""
        name, slash, trial = key.partition("/")
        entry = next((e for e in self.runs() if e.key == name), None)
        if entry is None or not slash:
            return entry
        return next((e for e in self.trials(entry) if e.key == f"{name}/{trial}"), None)

    def _entry(self, path: Path, key: str, parent: str = "") -> Entry:
        mark = mark_of(path, _FILES)
        with self._lock:
            known = self._known.get(key)
        if known is not None and known[0] == mark:
            return _as_it_is(known[1])
        entry = Entry(key, summarize(RunFolder(path)), parent)
        with self._lock:
            self._known[key] = (mark, entry)
        return entry


def _as_it_is(entry: Entry) -> Entry:
    """A run whose files are as before may have lost the process that held it, or found one."""
    if entry.line.status not in ("running", "interrupted"):
        return entry
    status: Status = "running" if entry.folder.is_locked() else "interrupted"
    return entry if status == entry.line.status else replace(entry, line=replace(entry.line, status=status))


def _folders(parent: Path) -> Iterator[Path]:
    """Folders that really lie in `parent`, by name, the last first. A link could lead anywhere."""
    try:
        with os.scandir(parent) as found:
            names = [e.name for e in found if not e.name.startswith(".") and e.is_dir(follow_symlinks=False)]
    except OSError:  # not there yet, or just removed
        return
    for name in sorted(names, reverse=True):
        yield parent / name
