"""The experience file: one text file that several runs and a person may write at once."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from autoprompt.errors import InputError, Place, Problem
from autoprompt.memory.experience import Experience, merge
from autoprompt.memory.selection import (
    SAME_KIND,
    Lesson,
    helpful_additions,
    is_same_lesson,
    ranked,
    select,
    task_similarity,
)
from autoprompt.memory.text import HEADER, BadLine, Block, parse, render
from autoprompt.text.files import read_plain, to_json, write_text

EXPORT_FORMATS = ("json", "csv", "md")
MAX_ENTRIES = 200

# How much of its priority an entry keeps when another one comes in: half after 34 others; a warning after 69,
# because doing harm twice costs more than missing a gain twice.
_KEEP = 0.98
_KEEP_WARNING = 0.99
_PATIENCE_S = 30.0


@dataclass(frozen=True, slots=True)
class Recorded:
    """What `ExperienceFile.record` did: lessons new to the file, and those it had no room for.

    dropped_to: the file that holds the dropped ones; None if there are none.
    """

    new: int = 0
    dropped: int = 0
    dropped_to: Path | None = None


class ExperienceFile:
    """Lessons of past runs in a text file. A missing file is an empty one.

    Safe for several processes and threads at once: each write reads, changes and replaces the file under a
    lock (PATH.lock). Every method raises InputError if the file cannot be read or written.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def load(self) -> list[Experience]:
        """All entries that can be read, in the file's order. `problems` tells of the others."""
        return [block.entry for block in self._read()[0] if block.entry]

    def problems(self) -> list[BadLine]:
        """Return the entries that cannot be read, with their line. They stay until fixed by hand."""
        return self._read()[1]

    def select(self, task: str, *, max_tokens: int = 1500, without_run: str = "") -> list[Lesson]:
        """Return what the writer of a prompt for `task` should know.

        without_run: the run that asks; it learned nothing from its own lessons when it began. See
        `autoprompt.memory.selection.select`.
        """
        return select(self._others(without_run), task, max_tokens)

    def helpful_additions(self, task: str, *, max_tokens: int = 1500, without_run: str = "") -> list[str]:
        """Sentences to add to a prompt for `task`, the best first.

        See `autoprompt.memory.selection.helpful_additions`.
        """
        return helpful_additions(self._others(without_run), task, max_tokens)

    def _others(self, run_id: str) -> list[Experience]:
        return [entry for entry in self.load() if not run_id or entry.run_id != run_id]

    def run_ids(self, task: str) -> set[str]:
        """Return the runs that last measured what `select` and `helpful_additions` choose from for `task`."""
        return {entry.run_id for entry in ranked(self.load(), task) if entry.run_id}

    def search(self, text: str) -> list[Experience]:
        """Entries that have every word of `text` in them, then those of like tasks, the best first."""
        words = text.casefold().split()
        found: list[tuple[bool, float, Experience]] = []
        for entry in self.load():
            body = f"{entry.text}\n{entry.task}\n{entry.operator}\n{entry.run_id}\n{entry.id}".casefold()
            has_words = all(word in body for word in words)
            likeness = max(task_similarity(entry.task, text), task_similarity(entry.text, text))
            if has_words or likeness >= SAME_KIND:
                found.append((has_words, likeness, entry))
        found.sort(key=lambda item: (not item[0], -item[1], -item[2].priority, item[2].text))
        return [entry for _, _, entry in found]

    def record(self, entries: Iterable[Experience], *, run_id: str, iteration: int) -> Recorded:
        """Add what one iteration of a run has measured.

        A measurement that is there (`Experience.sources`; of an entry that names none, the same change of the
        same run and iteration) is not counted again. A lesson like one that is there (same kind of task, the
        same words) is merged into it. All others lose a little priority, and beyond 200 entries those with
        the least move to a dated file beside this one.

        Raises:
            ValueError: For an entry without task or change, and for a run id of several words.
        """
        fresh = [self._stamped(entry, run_id, iteration) for entry in entries]
        if not fresh:
            return Recorded()
        with self._changing() as blocks:
            known = {name for block in blocks if block.entry for name in block.entry.sources}
            fresh = [entry for entry in fresh if entry.sources[0] not in known]
            touched: set[int] = set()
            for entry in fresh:
                touched.add(id(_add(blocks, entry)))
            _decay((block for block in blocks if id(block) not in touched), len(fresh))
            gone = _take_least(blocks)
            # Before they leave the file: a kill in between leaves them in both.
            kept_apart = self._keep_apart(gone) if gone else None
        return Recorded(len(fresh), len(gone), kept_apart)

    def _keep_apart(self, gone: Sequence[Block]) -> Path:
        """Add lessons that the file has no room for to today's copy, and return its path."""
        name = f"{self.path.stem}.dropped-{datetime.now(UTC):%Y-%m-%d}{self.path.suffix}"
        add_entries(self.path.with_name(name), render(gone))
        return self.path.with_name(name)

    @staticmethod
    def _stamped(entry: Experience, run_id: str, iteration: int) -> Experience:
        if not entry.task or not entry.text:
            raise ValueError("an experience needs a task and a change")
        if not run_id or run_id.split() != [run_id]:
            raise ValueError(f"{run_id!r} is not a run id: expected one word")
        return replace(
            entry,
            run_id=run_id,
            iteration=iteration,
            date=entry.date or f"{datetime.now(UTC):%Y-%m-%d}",
            sources=entry.sources or (f"{run_id}/{iteration}/{entry.id}",),
        )

    def find(self, ids: Collection[str]) -> list[Experience]:
        """Return the entries with these ids (their beginning will do), each once.

        Raises:
            InputError: For an id that no entry has or that several begin with.
        """
        entries = self.load()
        return list({entry.id: entry for entry in (_the_one(entries, i, self.path) for i in ids)}.values())

    def forget(
        self, ids: Collection[str] = (), *, where: Callable[[Experience], bool] | None = None
    ) -> list[Experience]:
        """Remove the entries with these ids (their beginning will do) or for which `where` is true.

        Returns what was removed.

        Raises:
            InputError: For an id that no entry has or that several begin with; then nothing is removed.
        """
        gone: list[Experience] = []
        with self._changing() as blocks:
            entries = [block.entry for block in blocks if block.entry]
            doomed = {_the_one(entries, wanted, self.path).id for wanted in ids}
            for block in list(blocks):
                entry = block.entry
                if entry and (entry.id in doomed or (where is not None and where(entry))):
                    gone.append(entry)
                    blocks.remove(block)
        return gone

    def export(self, format: str) -> str:
        """Return all entries as `json`, `csv` or `md` (a table).

        Raises:
            InputError: For another format.
        """
        if format not in EXPORT_FORMATS:
            said, fix = f"unknown format {format!r}", f"Known: {', '.join(EXPORT_FORMATS)}."
            raise InputError(Problem("memory.unknown-format", said, fix=fix))
        rows = [entry.to_dict() for entry in self.load()]
        if format == "json":
            return to_json(rows, indent=2) + "\n"
        return _csv(rows) if format == "csv" else _markdown(self.load())

    def _read(self) -> tuple[list[Block], list[BadLine]]:
        return parse(_text_of(self.path))

    @contextmanager
    def _changing(self) -> Iterator[list[Block]]:
        """Yield the blocks to change in place; write them back at the end if they differ."""
        # A link stays a link: what it points at is replaced.
        path = self.path.resolve()
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with FileLock(f"{path}.lock", timeout=_PATIENCE_S):
                blocks, _ = self._read()
                before = render(blocks)
                yield blocks
                after = render(blocks)
                if after != before:
                    write_text(path, after if path.exists() else f"{HEADER}\n{after}")
        except Timeout as error:
            said = f"another process has held {path}.lock for {_PATIENCE_S:.0f} s"
            raise InputError(
                Problem("memory.locked", said, Place(path), "Stop that process, or wait.")
            ) from error
        except OSError as error:
            said, fix = f"cannot be written ({error.strerror})", "Name another file as {memory_file}."
            problem = Problem("memory.not-writable", said, Place(self.path), fix, {"memory_file": "<FILE>"})
            raise InputError(problem) from error


def add_entries(path: Path, text: str) -> None:
    """Put entries behind those of a file, which is made if it is not there.

    text: a file of entries, with its header or without.

    Raises:
        InputError: For a file that cannot be read.
    """
    kept = _text_of(path).rstrip("\n") or HEADER.rstrip("\n")
    write_text(path, f"{kept}\n\n{text.removeprefix(HEADER).lstrip()}")


def _text_of(path: Path) -> str:
    """Return the content of a file, "" if it is not there.

    Raises:
        InputError: If it cannot be read.
    """
    try:
        return read_plain(path, encoding="utf-8")
    except FileNotFoundError:
        return ""
    except UnicodeDecodeError as error:
        said = f"not UTF-8 text ({error})"
        raise InputError(Problem("memory.not-utf8", said, Place(path), "Save it as UTF-8.")) from error
    except OSError as error:
        said, fix = f"cannot be read ({error.strerror})", "Check its permissions."
        raise InputError(Problem("memory.unreadable", said, Place(path), fix)) from error


def _add(blocks: list[Block], entry: Experience) -> Block:
    """Put the entry in, or merge it into the one that tells the same; returns the block that holds it."""
    for block in blocks:
        if block.entry and is_same_lesson(block.entry, entry):
            block.entry = merge(block.entry, entry)
            return block
    blocks.append(Block(entry=entry))
    return blocks[-1]


def _decay(blocks: Iterable[Block], times: int) -> None:
    for block in blocks:
        if block.entry:
            keep = _KEEP_WARNING if block.entry.verdict == "worse" else _KEEP
            block.entry = replace(block.entry, priority=block.entry.priority * keep**times)


def _take_least(blocks: list[Block]) -> list[Block]:
    """Cut `blocks` down to the limit and return what was taken out, in the file's order.

    Of equal priority, what stands first in the file, the older, goes first.
    """
    entries = [block for block in blocks if block.entry]
    entries.sort(key=lambda block: block.entry.priority if block.entry else 0.0)
    taken = {id(block) for block in entries[: max(0, len(entries) - MAX_ENTRIES)]}
    gone = [block for block in blocks if id(block) in taken]
    blocks[:] = [block for block in blocks if id(block) not in taken]
    return gone


def _the_one(entries: Sequence[Experience], wanted: str, path: Path) -> Experience:
    fitting = [entry for entry in entries if wanted and entry.id.startswith(wanted.lower())]
    if len(fitting) == 1:
        return fitting[0]
    if fitting:
        several = ", ".join(entry.id for entry in fitting)
        said, fix = f"{wanted!r} matches {several}", "Give more of the id."
        raise InputError(Problem("memory.several-entries", said, Place(path), fix))
    fix = "List them with `autoprompt memory show`."
    raise InputError(Problem("memory.no-entry", f"no entry {wanted!r}", Place(path), fix))


def _csv(rows: list[dict[str, Any]]) -> str:
    out = io.StringIO()
    names = ["id", "verdict", "before", "after", "rows", "task", "change", "operator", "run_id", "iteration"]
    writer = csv.DictWriter(out, [*names, "date", "priority", "language"], extrasaction="ignore")
    writer.writeheader()
    writer.writerows(rows)
    return out.getvalue()


def _markdown(entries: Sequence[Experience]) -> str:
    lines = ["| id | verdict | gain | rows | change | task |", "| --- | --- | --- | --- | --- | --- |"]
    for entry in entries:
        gain = "" if entry.gain is None else f"{entry.gain:+.2f}"
        cells = (entry.id, entry.verdict.replace("_", " "), gain, str(entry.rows), entry.text, entry.task)
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return "\n".join(lines) + "\n"
