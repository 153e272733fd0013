"""The runs that a request may name, which of them the list shows, and what was made of them."""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from urllib.parse import urlencode

from autoprompt.runs import RunFolder, RunLine
from autoprompt.runs.listing import Status, summarize

# A report of 5,000 rows is some megabytes.
_MOST = 8
# What the parts of a page are made from; `progress.json` changes all the time and is no part of them.
_REPORT_FILES = ("run.json", "config.yaml", "events.jsonl", "candidates.jsonl", "result.json", "predictions")

# Files whose change may change the line of a run; the folder itself for those that come and go.
_LINE_FILES = ("", "run.json", "config.yaml", "result.json", "predictions")
STATES = ("running", "interrupted", "finished", "broken")
# The order in which a first click sorts: what one looks for first.
_RISING = frozenset({"run", "dataset", "model", "state", "call", "cost"})


class PartCache:
    """The last few parts of pages by name, as HTML. For several threads: of those that ask for the same, one
    makes it.
    """

    def __init__(self, most: int = _MOST) -> None:
        self._most = most
        self._values: OrderedDict[str, tuple[Hashable, str]] = OrderedDict()
        self._making: dict[str, threading.Lock] = {}
        self._lock = threading.Lock()

    def get(self, name: str, mark: Hashable, make: Callable[[], str]) -> str:
        """Return the value of this name if it was made under this mark; else it is made."""
        with self._lock:
            making = self._making.setdefault(name, threading.Lock())
        with making:
            known = self._values.get(name)
            if known is not None and known[0] == mark:
                return known[1]
            value = make()
            with self._lock:
                self._values[name] = (mark, value)
                self._values.move_to_end(name)
                while len(self._values) > self._most:
                    self._making.pop(self._values.popitem(last=False)[0], None)
            return value


def mark_of(folder: Path, names: Sequence[str] = _REPORT_FILES) -> Hashable:
    """Return what changes when one of these files of a run does. Cheap: nothing is read."""
    found: list[object] = []
    for name in names:
        try:
            status = (folder / name).lstat()
        except OSError:
            found.append(None)
        else:
            found.append((status.st_mtime_ns, status.st_size, status.st_ino))
    return tuple(found)


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
        """Return the runs, newest first; the trials of a batch are not among them."""
        return [self._entry(path, path.name) for path in _folders(self.runs_dir)]

    def trials(self, batch: Entry) -> list[Entry]:
        """Return the runs in the folder of a batch, by name."""
        found = [path for path in _folders(batch.line.path) if (path / "run.json").is_file()]
        return [self._entry(path, f"{batch.key}/{path.name}", batch.key) for path in reversed(found)]

    def find(self, key: str) -> Entry | None:
        """Return the run of this key; None for any other text."""
        name, slash, trial = key.partition("/")
        entry = next((e for e in self.runs() if e.key == name), None)
        if entry is None or not slash:
            return entry
        return next((e for e in self.trials(entry) if e.key == f"{name}/{trial}"), None)

    def _entry(self, path: Path, key: str, parent: str = "") -> Entry:
        mark = mark_of(path, _LINE_FILES)
        with self._lock:
            known = self._known.get(key)
        if known is not None and known[0] == mark:
            return _as_it_is(known[1])
        entry = Entry(key, summarize(RunFolder(path)), parent)
        with self._lock:
            self._known[key] = (mark, entry)
        return entry


def _as_it_is(entry: Entry) -> Entry:
    """Return a run as it is: its process may have changed although its files have not."""
    if entry.line.status not in ("running", "interrupted"):
        return entry
    status: Status = "running" if entry.folder.is_locked() else "interrupted"
    return entry if status == entry.line.status else replace(entry, line=replace(entry.line, status=status))


def _folders(parent: Path) -> Iterator[Path]:
    """Return the folders in `parent`, the last name first. Links are left out: they could lead anywhere."""
    try:
        with os.scandir(parent) as found:
            names = [e.name for e in found if not e.name.startswith(".") and e.is_dir(follow_symlinks=False)]
    except OSError:  # not there yet, or just removed
        return
    for name in sorted(names, reverse=True):
        yield parent / name


PAGE = 100  # runs of a page of the list

_Key = Callable[[Entry], float | str | None]

SORTS: dict[str, _Key] = {
    "created": lambda e: e.line.created or e.line.run_id,
    "run": lambda e: e.line.run_id,
    "dataset": lambda e: e.line.dataset,
    "model": lambda e: e.line.model,
    "state": lambda e: STATES.index(e.line.status) if e.line.status in STATES else None,
    "original": lambda e: e.line.original,
    "best": lambda e: e.line.best,
    "gain": lambda e: gain(e),
    "call": lambda e: None if e.line.best_call is None else e.line.best_call.amount,
    "calls": lambda e: e.line.calls,
    "cost": lambda e: e.line.cost_usd,
}


def gain(entry: Entry) -> float | None:
    """Best minus original on the sealed test."""
    before, after = entry.line.original, entry.line.best
    return None if before is None or after is None else after - before


@dataclass(frozen=True, slots=True)
class ListQuery:
    """text: words that must all be found. kind, state, tag: "" for all. sort: of SORTS. page: from 1."""

    text: str = ""
    kind: str = ""
    state: str = ""
    tag: str = ""
    page: int = 1
    sort: str = "created"
    is_rising: bool = False

    @classmethod
    def read(cls, query: Mapping[str, str]) -> ListQuery:
        """From the address; what is no choice is as if it were not there."""
        sort, order = query.get("sort", ""), query.get("order", "")
        sort = sort if sort in SORTS else "created"
        page = query.get("page", "")
        return cls(
            tag=query.get("tag", ""),
            page=max(1, int(page[:9])) if page.isascii() and page.isdecimal() else 1,
            text=query.get("q", "").strip()[:200],
            kind=query.get("kind", ""),
            state=query.get("state", "") if query.get("state") in STATES else "",
            sort=sort,
            is_rising=order == "up" if order in ("up", "down") else sort in _RISING,
        )

    @property
    def is_narrowed(self) -> bool:
        return bool(self.text or self.kind or self.state or self.tag)

    def address(self, sort: str = "") -> str:
        """Return the query that sorts by `sort`: a second time, the other way round."""
        sort = sort or self.sort
        is_rising = (not self.is_rising) if sort == self.sort else sort in _RISING
        return self._query(sort, is_rising=is_rising)

    def page_address(self, page: int) -> str:
        """Return the query of another page."""
        return f"{self._query(self.sort, is_rising=self.is_rising)}&page={page}"

    def _query(self, sort: str, *, is_rising: bool) -> str:
        given = {"q": self.text, "kind": self.kind, "state": self.state, "tag": self.tag}
        order = {"sort": sort, "order": "up" if is_rising else "down"}
        return "?" + urlencode({**{k: v for k, v in given.items() if v}, **order})

    def apply(self, entries: Sequence[Entry]) -> list[Entry]:
        """Return what is chosen of `entries`, in order; runs without a value come last, either way."""
        chosen = [entry for entry in entries if self._takes(entry)]
        key = SORTS[self.sort]
        known = [entry for entry in chosen if key(entry) is not None]
        known.sort(key=lambda e: key(e), reverse=not self.is_rising)  # type: ignore[arg-type, return-value]
        return known + [entry for entry in chosen if key(entry) is None]

    def _takes(self, entry: Entry) -> bool:
        line = entry.line
        if self.tag and self.tag not in line.tags:
            return False
        if (self.kind and line.kind != self.kind) or (self.state and line.status != self.state):
            return False
        found = " ".join(
            filter(
                None,
                (
                    *(line.run_id, line.kind, line.status, line.dataset, line.model, line.verdict),
                    *(line.name, line.notes, *line.tags),
                ),
            )
        )
        return all(word in found.casefold() for word in self.text.casefold().split())
