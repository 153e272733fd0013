"""What a run keeps in its SQLite file beside LangGraph's checkpoints: executions of nodes, finished parts.

A checkpoint holds a run between nodes. A node that works through many parts (passes, items) writes each one
down when it is done, so that a run that was killed inside the node does not do it again.

Values are kept as plain data: text, numbers, lists, dicts. The run uses what it reads back, so a resumed run
sees the same values. A tuple becomes a list, as in LangGraph's checkpoints. Numeric keys stay numbers.
"""

from __future__ import annotations

import json
import sqlite3
import threading
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from itertools import count
from pathlib import Path
from typing import Any

from autoprompt.errors import InputError, StoreError
from autoprompt.text.files import check_file
from autoprompt.text.machine import explained
from autoprompt.workflow.engine.events import (
    Event,
    NodeRunException,
    NodeRunFailed,
    NodeRunRetry,
    NodeRunStarted,
    NodeRunSucceeded,
)
from autoprompt.workflow.engine.variables import MISSING

TABLE = "workflow_node_executions"
_PARTS = "workflow_finished_parts"
_SCHEMA = f"""
CREATE TABLE IF NOT EXISTS {TABLE} (
    id TEXT PRIMARY KEY,
    number INTEGER NOT NULL,              -- order of the starts
    workflow_run_id TEXT NOT NULL,
    node_id TEXT NOT NULL,
    node_type TEXT NOT NULL,
    title TEXT NOT NULL,
    status TEXT NOT NULL,                 -- running succeeded failed exception interrupted
    is_virtual INTEGER NOT NULL,
    parent_node_id TEXT,
    predecessor_node_id TEXT,             -- the node that led to it
    in_node_id TEXT,                      -- the container it ran in
    retries INTEGER NOT NULL DEFAULT 0,
    inputs TEXT,                          -- this and the next three: JSON
    process_data TEXT,
    outputs TEXT,
    execution_metadata TEXT,
    llm_usage TEXT,                       -- JSON: tokens and price of the node's requests
    error TEXT,
    started_at TEXT NOT NULL,             -- ISO 8601, UTC
    finished_at TEXT,
    elapsed_s REAL,
    passes TEXT                           -- JSON: pass or item (from 0) of each container around it
);
CREATE INDEX IF NOT EXISTS {TABLE}_number ON {TABLE} (number);
CREATE TABLE IF NOT EXISTS {_PARTS} (path TEXT PRIMARY KEY, value TEXT NOT NULL);  -- value: see `plain`
"""
_PAIRS = "\0pairs"  # the one key of a dict that is written as its pairs, since its keys are not all text
_KEYS = (str, int, float, type(None))


class Executions:
    """The two tables of one run. Threads of one process may share it."""

    def __init__(self, connection: sqlite3.Connection, run_id: str) -> None:
        self._connection, self._run_id = connection, run_id
        self._lock = threading.Lock()
        (begun,) = connection.execute(f"SELECT COALESCE(MAX(number), 0) FROM {TABLE}").fetchone()
        self._numbers = count(begun + 1)
        # Most parts that are asked for are not there: a new run asks for each item once.
        self._finished = {path for (path,) in connection.execute(f"SELECT path FROM {_PARTS}")}

    def record(self, event: Event) -> None:
        """Write down what the event says of an execution; events that say nothing of one are passed over."""
        match event:
            case NodeRunStarted():
                self._start(event)
            case NodeRunRetry():
                self._write(
                    f"UPDATE {TABLE} SET retries = ?, error = ? WHERE id = ?",
                    (event.retry_index, event.error, event.id),
                )
            case NodeRunSucceeded():
                self._finish(event, "succeeded", event.outputs, event.metadata, None)
            case NodeRunException():
                self._finish(event, "exception", event.outputs, {}, event.error)
            case NodeRunFailed():
                self._finish(event, "failed", None, {}, event.error)

    def mark_interrupted(self) -> None:
        """Mark the executions that a killed process left behind."""
        self._write(f"UPDATE {TABLE} SET status = 'interrupted' WHERE status = 'running'", ())

    def rows(self) -> list[dict[str, Any]]:
        """Return all executions in the order in which they started, JSON columns read."""
        with self._lock:
            cursor = self._connection.execute(f"SELECT * FROM {TABLE} ORDER BY number")
            names = [column[0] for column in cursor.description]
            found = [dict(zip(names, row, strict=True)) for row in cursor]
        for row in found:
            for name in ("inputs", "process_data", "outputs", "execution_metadata", "llm_usage", "passes"):
                row[name] = json.loads(row[name]) if row[name] is not None else None
        return found

    def part(self, path: str) -> Any:
        """Return the value of a finished part, MISSING where it is not finished."""
        if path not in self._finished:
            return MISSING
        with self._lock:
            row = self._connection.execute(f"SELECT value FROM {_PARTS} WHERE path = ?", (path,)).fetchone()
        return read(row[0])

    def finish_part(self, path: str, value: Any) -> Any:
        """Write a part down and return it as it will be read.

        Raises:
            InputError: The value is not plain data.
        """
        text = written(value, path)
        self._write(f"INSERT OR REPLACE INTO {_PARTS} VALUES (?, ?)", (path, text))
        self._finished.add(path)
        return read(text)

    def forget_parts(self) -> None:
        """Drop all parts: the run is done."""
        self._write(f"DELETE FROM {_PARTS}", ())
        self._finished.clear()

    def _start(self, event: NodeRunStarted) -> None:
        self._write(
            f"INSERT OR REPLACE INTO {TABLE} "
            "(id, number, workflow_run_id, node_id, node_type, title, status, "
            "is_virtual, parent_node_id, predecessor_node_id, in_node_id, started_at, passes) VALUES "
            "(?, ?, ?, ?, ?, ?, 'running', ?, ?, ?, ?, ?, ?)",
            (
                event.id,
                next(self._numbers),
                self._run_id,
                event.node_id,
                event.node_type,
                event.node_title,
                int(event.is_virtual),
                event.parent_node_id,
                event.predecessor_node_id,
                event.in_node_id,
                event.start_at.isoformat(),
                json.dumps(event.passes),
            ),
        )

    def _finish(
        self,
        event: NodeRunSucceeded | NodeRunFailed,
        status: str,
        outputs: Mapping[str, Any] | None,
        metadata: Mapping[str, Any],
        error: str | None,
    ) -> None:
        elapsed_s = (event.finished_at - event.start_at).total_seconds()
        self._write(
            f"UPDATE {TABLE} SET status = ?, inputs = ?, process_data = ?, outputs = ?, "
            "execution_metadata = ?, llm_usage = ?, error = ?, finished_at = ?, elapsed_s = ? WHERE id = ?",
            (
                status,
                _json(event.inputs),
                _json(event.process_data),
                None if outputs is None else _json(outputs),
                _json(metadata),
                None if event.llm_usage is None else _json(event.llm_usage),
                error,
                event.finished_at.isoformat(),
                elapsed_s,
                event.id,
            ),
        )

    def _write(self, statement: str, values: tuple[Any, ...]) -> None:
        with self._lock:
            try:
                self._connection.execute(statement, values)
            except sqlite3.DatabaseError as error:
                raise StoreError(f"the run's SQLite file cannot be written: {error}") from error


def _json(value: Any) -> str:
    """For reading only, so what is no JSON is shown as text. ASCII: half a surrogate pair is no UTF-8."""
    return json.dumps(value, default=str, ensure_ascii=False).encode("utf-8", "replace").decode()


@contextmanager
def open_executions(path: Path, run_id: str) -> Iterator[Executions]:
    """Open the tables in the file `path`, which may hold others. Hold the run's lock."""
    check_file(path)
    with closing(
        # No isolation level: each statement is a transaction, without a BEGIN and a COMMIT around it.
        sqlite3.connect(path, check_same_thread=False, timeout=30.0, isolation_level=None)
    ) as connection:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = NORMAL")
            connection.executescript(_SCHEMA)
        except sqlite3.DatabaseError as error:
            if (refused := explained(error, path)) is not None:
                raise refused from error
            raise StoreError(f"{path}: not a SQLite file ({error}).") from error
        yield Executions(connection, run_id)


def plain(value: Any, what: str, *, allow_nan: bool = True) -> Any:
    """Return `value` as the run uses it.

    Raises:
        InputError: The value is not plain data.
    """
    return read(written(value, what, allow_nan=allow_nan))


def written(value: Any, what: str, *, allow_nan: bool = True) -> str:
    """Return a value as ASCII text that `read` reads.

    Args:
        value: Plain data: texts, numbers, lists, dicts.
        what: What the error calls the value.

    Raises:
        InputError: The value is not plain data.
    """
    try:
        return json.dumps(_tagged(value), allow_nan=allow_nan)
    except (TypeError, ValueError, RecursionError) as error:
        raise InputError(
            f"{what} cannot be kept ({error}). A run that can be resumed holds plain data only (text, "
            "numbers, lists, dicts): put out something else, or run without runs_dir and run_id."
        ) from error


def read(text: str) -> Any:
    """Return what was `written`; any other JSON as it is."""
    return json.loads(text, object_hook=_untagged)


def _tagged(value: Any) -> Any:
    if isinstance(value, dict):
        if all(isinstance(key, str) for key in value) and _PAIRS not in value:
            return {key: _tagged(part) for key, part in value.items()}
        for key in value:
            if not isinstance(key, _KEYS):
                raise TypeError(f"a key of a dict is {type(key).__name__}, no text and no number")
        return {_PAIRS: [[key, _tagged(part)] for key, part in value.items()]}
    if isinstance(value, list | tuple):
        return [_tagged(part) for part in value]
    return value


def _untagged(value: dict[str, Any]) -> dict[Any, Any]:
    return dict(value[_PAIRS]) if _PAIRS in value else value
