"""Where LangGraph keeps the state of a run: SQLite, one file, which does not grow with the iterations."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from autoprompt.errors import Place, Problem, StoreError
from autoprompt.text.files import check_file
from autoprompt.text.machine import explained

if TYPE_CHECKING:
    from langgraph.checkpoint.sqlite import SqliteSaver

# The latest is what resume needs; the one before it is there for a `put` whose pending writes come in late.
KEEP = 2
_JOURNAL_BYTES = 1 << 20

_PRUNE_CHECKPOINTS = "DELETE FROM checkpoints WHERE thread_id = ? AND checkpoint_ns = ? AND checkpoint_id < ?"
_PRUNE_WRITES = "DELETE FROM writes WHERE thread_id = ? AND checkpoint_ns = ? AND checkpoint_id < ?"
_OLDEST_KEPT = (
    "SELECT checkpoint_id FROM checkpoints WHERE thread_id = ? AND checkpoint_ns = ? "
    "ORDER BY checkpoint_id DESC LIMIT 1 OFFSET ?"
)


@cache
def _saver_class() -> type[Any]:
    """Return the class, which is made here because its base takes a second to import."""
    from langgraph.checkpoint.sqlite import SqliteSaver

    class PruningSaver(SqliteSaver):
        """Keeps the last checkpoints of each thread and namespace.

        LangGraph never reads an older one unless asked to go back in time, and its saver never deletes one:
        each holds the whole state, so the file would grow with every step. Not for states with a
        `DeltaChannel`, whose value is spread over its ancestors.
        """

        check_files: Callable[[], None] | None = None

        def put_writes(self, config: Any, writes: Any, task_id: str, task_path: str = "") -> None:
            # Here too: a node whose writes are kept counts as done, and its other files would be missed.
            if self.check_files is not None:
                self.check_files()
            super().put_writes(config, writes, task_id, task_path)

        def put(self, config: Any, checkpoint: Any, metadata: Any, new_versions: Any) -> Any:
            if self.check_files is not None:
                self.check_files()
            saved = super().put(config, checkpoint, metadata, new_versions)
            thread = str(config["configurable"]["thread_id"])
            namespace = config["configurable"]["checkpoint_ns"]
            # A second transaction: a kill between the two leaves one checkpoint too many, never one too few.
            with self.cursor() as cursor:
                row = cursor.execute(_OLDEST_KEPT, (thread, namespace, KEEP - 1)).fetchone()
                if row is not None:
                    cursor.execute(_PRUNE_CHECKPOINTS, (thread, namespace, row[0]))
                    cursor.execute(_PRUNE_WRITES, (thread, namespace, row[0]))
            return saved

    return PruningSaver


@contextmanager
def open_checkpointer(path: Path, check_files: Callable[[], None] | None = None) -> Iterator[SqliteSaver]:
    """Yield the checkpointer of one run, to compile the graph with; close it at the end of the block.

    check_files: called before a checkpoint is written; what it raises ends the run there.

    One process at a time (hold `RunFolder.lock`). Only plain data comes back from it: an object of a class
    that is put into the state is handed back as its parts, so keep state to dicts, lists, strings, numbers.
    Write-ahead log with `synchronous = NORMAL`: `kill -9` loses nothing, a power cut at most the last steps.

    Raises:
        StoreError: If the file is no such database, or the machine refuses it.
    """
    from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

    path.parent.mkdir(parents=True, exist_ok=True)
    check_file(path)
    # LangGraph writes from its own threads, one at a time under the saver's lock.
    with closing(sqlite3.connect(path, check_same_thread=False, timeout=30.0)) as connection:
        # allowed_msgpack_modules=None: build no object but LangGraph's own list of harmless ones.
        saver = _saver_class()(connection, serde=JsonPlusSerializer(allowed_msgpack_modules=None))
        saver.check_files = check_files
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = NORMAL")
            connection.execute(f"PRAGMA journal_size_limit = {_JOURNAL_BYTES}")
            connection.execute("PRAGMA wal_autocheckpoint = 128")  # pages of 4 KiB
            saver.setup()
        except sqlite3.DatabaseError as error:
            if (refused := explained(error, path)) is not None:
                raise refused from error
            said, fix = f"not a checkpoint file ({error})", "Delete it to start over."
            raise StoreError(Problem("run.bad-checkpoints", said, Place(path), fix)) from error
        try:
            yield saver
        finally:
            # Closed while a thread is writing, it would crash the process; afterwards it is refused there.
            with saver.lock:
                connection.close()
