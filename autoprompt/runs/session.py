"""A run at work: its folder is held, its models and journal are open, its events are logged.

One life cycle for all kinds of runs. A run is made or resumed; it ends with a result, or with Ctrl-C or an
error that says how to resume it; and a run that no model has answered leaves no folder. LangGraph keeps its
state in SQLite: one file, which does not grow with the iterations.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from autoprompt.errors import (
    EmptyAnswersError,
    InputError,
    JudgeError,
    ModelError,
    Place,
    Problem,
    StoreError,
    UsageError,
)
from autoprompt.llm.adapter import Models
from autoprompt.llm.client import CallRole, WeightsProgress
from autoprompt.llm.kept.journal import Journal
from autoprompt.llm.limits.budget import BudgetMeter
from autoprompt.llm.models import RoleModels, open_models
from autoprompt.records import Event, OnEvent, warning_event
from autoprompt.runs.events import LimitsChanged, ProgressFile, RowsEvaluated
from autoprompt.runs.folder import RunFolder
from autoprompt.runs.listing import RunStore
from autoprompt.runs.resuming import interrupted, note_resume, resume_command
from autoprompt.runs.spending import note_spending
from autoprompt.settings.records import CallSettings
from autoprompt.text.files import check_file
from autoprompt.text.machine import explained
from autoprompt.text.names import counted

if TYPE_CHECKING:
    from langgraph.checkpoint.sqlite import SqliteSaver

_MODELS = "models"  # what a warning is about: those with an "about" are in the result too


class Session:
    """A run at work. Made by `begin`, `resume` or `at_work`, which hold its folder until their block ends.

    Attributes:
        folder: The run's folder.
        is_resumed: Whether the run goes on from what an earlier process left.
        budget, journal, models: Open inside `asking`.
    """

    budget: BudgetMeter
    journal: Journal
    models: RoleModels

    def __init__(
        self, folder: RunFolder, models: Models | None, on_event: OnEvent | None, *, is_resumed: bool
    ) -> None:
        self.folder, self.is_resumed = folder, is_resumed
        self._own_models, self._on_event = models, on_event
        self._progress = ProgressFile(folder.progress_path)
        self._is_asking = False
        self._known_warnings: set[str] = set()

    @classmethod
    @contextmanager
    def begin(
        cls,
        settings: Mapping[str, Any],
        models: Models | None,
        on_event: OnEvent | None,
        *,
        kind: str,
        name: str,
        runs_dir: Path,
    ) -> Iterator[Session]:
        """Make a run and hold it. If it fails before the first answer, its folder is removed.

        Args:
            settings: For the run's `config.yaml`.
            models: Models of the program, instead of those that the settings name.
            on_event: Called with each event.
            kind: As `run.json` has it.
            name: A word for the run's id.
            runs_dir: The folder that runs are kept in.
        """
        store = RunStore(runs_dir)
        folder = store.create(settings, kind=kind, name=name)
        try:
            with cls.at_work(folder, models, on_event, is_resumed=False) as session:
                session._warn_of_twin(store)
                yield session
        except (ModelError, InputError, UsageError) as error:
            # Without a folder, somebody has moved it away.
            if folder.info_path.exists() and not _is_worth_resuming(folder, error, is_resumed=False):
                store.remove(folder.run_id)
                if on_event is not None:
                    on_event(warning_event(f"Run {folder.run_id} removed: it has no answers to resume from."))
            raise

    @classmethod
    @contextmanager
    def resume(cls, folder: RunFolder, models: Models | None, on_event: OnEvent | None) -> Iterator[Session]:
        """Hold a run that was interrupted, and warn of settings that were edited since.

        Raises:
            StoreError: Another process holds it, somebody else may have made it, settings were edited that
                may not change, or it began with other models.
        """
        with cls.at_work(folder, models, on_event, is_resumed=True) as session:
            folder.check_is_own()
            given: dict[str, Any] = {}  # by `resume` itself
            for event in folder.read_events():
                given |= event["limits"] if event.get("event") == LimitsChanged.kind else {}
            edited = folder.settings_changed().items()
            if changed := {name: pair for name, pair in edited if pair[1] != given.get(name, pair[0])}:
                said = ", ".join(f"{name} was {old}, now {new}" for name, (old, new) in changed.items())
                session.emit(warning_event(f"config.yaml was edited: {said}", changed=changed))
            yield session

    @classmethod
    @contextmanager
    def at_work(
        cls, folder: RunFolder, models: Models | None, on_event: OnEvent | None, *, is_resumed: bool
    ) -> Iterator[Session]:
        """Hold a folder that is there already, such as that of a trial.

        Raises:
            StoreError: Another process holds it, or it began with other models.
            Interrupted: On Ctrl-C, with the command to resume.
        """
        with folder.work():
            session = cls(folder, models, on_event, is_resumed=is_resumed)
            try:
                yield session
            except KeyboardInterrupt:
                raise interrupted(folder) from None
            except ModelError as error:
                if _is_worth_resuming(folder, error, is_resumed=is_resumed):
                    said = f"stopped; the answers so far are saved. Resume with: {resume_command(folder)}"
                    session.emit(warning_event(said))
                raise
            except Exception as error:
                with suppress(StoreError):  # the machine may refuse the journal, too
                    if _is_worth_resuming(folder, error, is_resumed=is_resumed):
                        note_resume(error, folder)
                raise

    @contextmanager
    def asking(
        self, config: CallSettings, budget: BudgetMeter, *, roles: Sequence[CallRole] = ("task", "judge")
    ) -> Iterator[None]:
        """Open journal and models inside the block.

        Args:
            config: Settings of the models.
            budget: Counts what they use.
            roles: Roles that are asked.
        """
        folder = self.folder
        folder.note_models(are_own=self._own_models is not None)
        with (
            Journal(folder.journal_path) as journal,
            open_models(
                config, self._own_models, budget, journal, self.emit, folder.traits_path, roles=roles
            ) as models,
        ):
            self.budget, self.journal, self.models = budget, journal, models
            self._known_warnings = set(map(str, self.late_warnings()))
            self._is_asking = True
            try:
                yield
            except (JudgeError, EmptyAnswersError) as error:
                journal.ask_anew("judge" if isinstance(error, JudgeError) else "task")
                raise
            finally:
                self._is_asking = False

    def emit(self, event: Event) -> None:
        """Log an event and pass it on, after any new warnings about the models."""
        if self._is_asking:
            for warning in self.models.warnings(is_end=False):
                if str(warning) not in self._known_warnings:
                    self._known_warnings.add(str(warning))
                    self._pass_on(warning_event(warning, about=_MODELS))
        self._pass_on(event)

    def _pass_on(self, event: Event) -> None:
        if event["event"] == RowsEvaluated.kind:  # for live views, as the next, and not for the log
            self._progress.note(event)
        elif event["event"] != WeightsProgress.kind:
            self.folder.append_event(event)
        if self._on_event is not None:
            self._on_event(event)

    def late_warnings(self) -> list[Problem]:
        """Return what all processes of this run have found out about models, memory and files."""
        found = (Problem.from_dict(event) for event in self.folder.read_events() if "about" in event)
        return list(dict.fromkeys(found))

    def synced_position(self) -> int:
        """Return the journal's position when it is on the disk: a checkpoint may name it then."""
        position = self.journal.position
        self.journal.checkpoint()
        note_spending(self.folder.journal_path)
        return position

    def check_files(self) -> None:
        """See `RunFolder.check_files`; its warnings are events of the run."""
        self.folder.check_files(self.emit)

    def _warn_of_twin(self, store: RunStore) -> None:
        """Say which run with the same settings was cut off, if one was."""
        twin = store.interrupted_twin(self.folder)
        if twin is None:
            return
        again = RunFolder(twin.path).reference
        said = (
            f"run {twin.run_id}, with the same settings, was interrupted after "
            f"{counted(twin.calls or 0, 'call')}. To resume it instead, if its data has not changed: "
            f"autoprompt resume {again}"
        )
        self.emit(warning_event(said))


def _is_worth_resuming(folder: RunFolder, error: BaseException, *, is_resumed: bool) -> bool:
    """Return whether a run has something to resume from: answers that are not empty, or an earlier stop."""
    if not folder.info_path.exists():  # somebody has moved it away
        return False
    if is_resumed or isinstance(error, EmptyAnswersError):
        return is_resumed
    if not folder.journal_path.exists():  # taken away: a new one would hide that
        return False
    with Journal(folder.journal_path) as journal:
        return journal.has_answers


# --- checkpoints ---

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


def run_graph(graph: Any, saved: Any, start: Any, settings: Any, context: Any) -> Any:
    """Run a graph to its end, and return its last state.

    saved: its last checkpoint, of which it goes on; None for a new run. start: the state that it begins with,
    if there is no checkpoint.
    """
    # Not `next`: that is empty, too, where a node has ended and the checkpoint after it was not written.
    if saved is not None and saved.values and not saved.tasks:
        return saved.values
    return graph.invoke(start, settings, context=context, durability="sync")


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
