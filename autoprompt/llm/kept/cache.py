"""Answers kept between runs: the key of a request, an answer as JSON, and the SQLite file that holds them.

Several processes may use the file at once. A cache that fails is a cache that misses: whatever is wrong with
the file, no run stops for it.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import sqlite3
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, astuple, dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar

from autoprompt.llm.client import Completion, Options, RawAnswer
from autoprompt.records import Message, ToolCall, Usage
from autoprompt.text.machine import machine_problem

_MOST_OF_LABELS = 64_000  # characters


def request_key(
    endpoint: str, model: str, constrain: str, messages: Sequence[Message], options: Options
) -> str:
    """Return 64 hex digits that two requests share exactly when one answer may serve both.

    endpoint: the base URL; for an embedded model the sha256 of its weights, as its port changes.
    constrain: how labels are enforced there ("grammar", "json_schema", "off").
    The role is left out: an equal question of judge and writer has one answer. So is the API key.
    """
    head: list[Any] = [
        endpoint,
        model,
        constrain,
        [(message.role, message.content) for message in messages],
        options.temperature,
        options.max_output_tokens,
        options.seed,
        options.sample,
        options.stop,
    ]
    tail: list[Any] = [options.wants_label_probs]
    # Only where there is something to say, so that keys of plain requests stay what they were.
    if options.reasoning_effort is not None:
        tail.append(options.reasoning_effort)
    if options.tools:
        tail.append([astuple(tool) for tool in options.tools])
    if options.forward is not None:
        tail.append(options.forward.digest)
    if any(message.tool_calls or message.tool_call_id for message in messages):
        tail.append([(m.tool_call_id, [astuple(call) for call in m.tool_calls]) for m in messages])
    text = f"[{_items(head)},{_labels_as_json(options.labels)},{_items(tail)}]"
    return hashlib.sha256(text.encode()).hexdigest()


# Made once: `json.dumps` with separators makes one for each request.
_to_ascii = json.JSONEncoder(ensure_ascii=True, separators=(",", ":")).encode


def _items(values: Sequence[Any]) -> str:
    return _to_ascii(values)[1:-1]


@lru_cache(maxsize=16)
def _labels_as_json(labels: tuple[str, ...]) -> str:
    """As JSON, written once for all requests of a task; of thousands of labels their hash."""
    text = f"[{_items(labels)}]"
    return text if len(text) <= _MOST_OF_LABELS else f'"{hashlib.sha256(text.encode()).hexdigest()}"'


def to_record(completion: Completion) -> dict[str, Any]:
    """Return an answer as JSON without what is empty or None, and without how it was asked for."""
    record: dict[str, Any] = {
        "text": completion.text,
        **completion.usage.to_record(),
        "finish_reason": completion.finish_reason,
        "model": completion.model,
        "latency_s": round(completion.latency_s, 4),
    }
    if completion.tool_calls:
        record["tool_calls"] = [asdict(call) for call in completion.tool_calls]
    if completion.raw is not None:
        record["raw"] = asdict(completion.raw)
    if completion.host:
        record["host"] = completion.host
    if completion.label_probs is not None:
        record["label_probs"] = dict(completion.label_probs)
    return record


def from_record(record: Mapping[str, Any]) -> Completion:
    """Return the answer that `to_record` wrote, with `attempts` 0: nothing was sent for it now.

    Raises:
        KeyError: If it is another record.
    """
    return Completion(
        text=record["text"],
        usage=Usage.from_record(record),
        label_probs=record.get("label_probs"),
        finish_reason=record["finish_reason"],
        model=record["model"],
        latency_s=record["latency_s"],
        attempts=0,
        tool_calls=tuple(ToolCall(**call) for call in record.get("tool_calls", ())),
        raw=RawAnswer(**record["raw"]) if record.get("raw") else None,
        host=record.get("host", ""),
    )


_log = logging.getLogger(__name__)

_BUSY_TIMEOUT_S = 10.0
_DAY_S = 86_400.0
_WRITTEN_EVERY_S, _MOST_WAITING = 0.5, 1_000  # a commit takes as long as hundreds of answers in it
_CORRUPT = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
_Result = TypeVar("_Result")


@dataclass(frozen=True, slots=True)
class CacheStats:
    """size_bytes: of the answers; the file is somewhat larger."""

    path: Path
    answers: int
    size_bytes: int
    max_bytes: int


def default_dir() -> Path:
    """Return where the cache is by default: the user's cache directory."""
    import platformdirs

    return Path(platformdirs.user_cache_dir("autoprompt"))


class ResponseCache:
    """Request key -> answer. Thread-safe, and safe for several processes.

    max_bytes: when the answers take more, those longest unused go, down to nine tenths of it.
    Answers go into the file many at once: half a second after the first one, and at `flush` and `close`;
    each at once where no loop runs. What a killed process has not written is in the journal of its run.
    A file that is not a database is set aside as `NAME.broken`, with a warning.
    """

    def __init__(self, directory: Path | None = None, *, max_bytes: int = 10**9) -> None:
        self._path = (directory or default_dir()) / "responses.sqlite"
        self._max_bytes = max_bytes
        self._lock = threading.Lock()
        self._database: sqlite3.Connection | None = None
        self._waiting: dict[str, str] = {}  # key -> record, not in the file yet
        self._size = 0
        self._is_off = False  # the machine refused it: to wait again for each answer would take for ever

    def get(self, key: str) -> Completion | None:
        def look_up(database: sqlite3.Connection) -> str | None:
            row = database.execute("SELECT record, used FROM answers WHERE key = ?", (key,)).fetchone()
            if row is None:
                return None
            # The day of the last use is enough to tell what is old, and reading stays free of writes.
            if time.time() - row[1] > _DAY_S:
                database.execute("UPDATE answers SET used = ? WHERE key = ?", (time.time(), key))
            return str(row[0])

        record = self._waiting.get(key) or self._use(look_up)
        if record is None:
            return None
        try:
            return replace(from_record(json.loads(record)), source="cache")
        except (ValueError, KeyError, TypeError):  # a hand wrote it
            self.forget(key)
            return None

    def put(self, key: str, completion: Completion) -> None:
        """Keep an answer; one that is there already stays."""
        with self._lock:
            is_first = not self._waiting
            self._waiting.setdefault(key, _to_ascii(to_record(completion)))
            is_due = len(self._waiting) >= _MOST_WAITING
        if is_due:
            self.flush()
        elif is_first:
            self._flush_soon()

    def _flush_soon(self) -> None:
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:  # nobody would come back to it
            self.flush()
        else:
            loop.call_later(_WRITTEN_EVERY_S, self.flush)

    def flush(self) -> None:
        """Write the answers that are not in the file yet."""
        with self._lock:
            waiting, self._waiting = self._waiting, {}
        if not waiting:
            return
        now = time.time()

        def insert(database: sqlite3.Connection) -> None:
            rows = [(key, record, len(record), now) for key, record in waiting.items()]
            database.execute("BEGIN IMMEDIATE")
            try:
                database.executemany("INSERT OR IGNORE INTO answers VALUES (?, ?, ?, ?)", rows)
            finally:
                database.execute("COMMIT")
            self._size += sum(map(len, waiting.values()))
            if self._size > self._max_bytes:
                self._evict(database)

        self._use(insert)

    def forget(self, key: str) -> None:
        """Make room for another answer to this request."""
        self._waiting.pop(key, None)
        self._use(lambda database: database.execute("DELETE FROM answers WHERE key = ?", (key,)))

    def stats(self) -> CacheStats:
        self.flush()

        def count(database: sqlite3.Connection) -> tuple[int, int]:
            answers, size = database.execute(
                "SELECT count(*), coalesce(sum(size), 0) FROM answers"
            ).fetchone()
            return int(answers), int(size)

        return CacheStats(self._path, *(self._use(count) or (0, 0)), self._max_bytes)

    def clear(self) -> None:
        """Forget everything and give the disk space back."""
        self._waiting.clear()

        def forget(database: sqlite3.Connection) -> None:
            database.execute("DELETE FROM answers")
            database.execute("VACUUM")
            self._size = 0

        self._use(forget)

    def close(self) -> None:
        """Safe to call twice; a later use opens it again."""
        self.flush()
        with self._lock:
            if self._database is not None:
                self._database.close()
                self._database = None

    def _use(self, action: Callable[[sqlite3.Connection], _Result]) -> _Result | None:
        """Run `action` on the database; None if that is not possible."""
        with self._lock:
            if self._is_off:
                return None
            try:
                return action(self._open())
            except sqlite3.DatabaseError as error:
                if getattr(error, "sqlite_errorcode", None) in _CORRUPT:
                    self._set_aside(error)
                else:
                    self._stop(error)
            except OSError as error:
                self._stop(error)
            return None

    def _open(self) -> sqlite3.Connection:
        if self._database is None:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            database = sqlite3.connect(
                self._path, timeout=_BUSY_TIMEOUT_S, isolation_level=None, check_same_thread=False
            )
            try:
                database.execute("PRAGMA journal_mode = WAL")
                # With WAL this may lose the last answers when the machine goes down, never the file.
                database.execute("PRAGMA synchronous = NORMAL")
                database.execute("PRAGMA journal_size_limit = 16000000")
                database.execute(
                    "CREATE TABLE IF NOT EXISTS answers (key TEXT PRIMARY KEY, record TEXT NOT NULL, "
                    "size INTEGER NOT NULL, used REAL NOT NULL) WITHOUT ROWID"
                )
                database.execute("CREATE INDEX IF NOT EXISTS by_use ON answers (used, size)")
                (self._size,) = database.execute("SELECT coalesce(sum(size), 0) FROM answers").fetchone()
            except sqlite3.Error:
                database.close()
                raise
            self._database = database
        return self._database

    def _evict(self, database: sqlite3.Connection) -> None:
        # Other processes add and evict too: count anew.
        (self._size,) = database.execute("SELECT coalesce(sum(size), 0) FROM answers").fetchone()
        too_much = self._size - 0.9 * self._max_bytes
        if self._size <= self._max_bytes:
            return
        oldest = database.execute(
            "SELECT key, size FROM (SELECT key, size, sum(size) OVER (ORDER BY used, key) - size AS before "
            "FROM answers) WHERE before < ?",
            (too_much,),
        ).fetchall()
        database.executemany("DELETE FROM answers WHERE key = ?", [(key,) for key, _ in oldest])
        self._size -= sum(size for _, size in oldest)

    def _set_aside(self, error: sqlite3.Error) -> None:
        if self._database is not None:
            self._database.close()
            self._database = None
        aside = self._path.with_name(self._path.name + ".broken")
        try:
            self._path.replace(aside)
            for ending in ("-wal", "-shm"):
                self._path.with_name(self._path.name + ending).unlink(missing_ok=True)
        except OSError as failure:
            self._stop(failure)
            return
        _log.warning("%s is broken (%s); it is set aside as %s", self._path, error, aside.name)

    def _stop(self, error: Exception) -> None:
        self._is_off = True
        problem = machine_problem(error, self._path)
        why = str(error) if problem is None else problem.said
        _log.warning("%s: the response cache is not used: %s", self._path, why)
