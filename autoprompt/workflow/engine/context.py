"""What a node works with: the run around it, the values that it sees, and what it may tell."""

from __future__ import annotations

import logging
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import Context, ContextVar, copy_context
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from autoprompt.errors import Interrupted
from autoprompt.records import Usage
from autoprompt.workflow.engine.definition import (
    GivenInput,
    GraphNode,
    Mock,
    NodeResult,
    VirtualNode,
    component_name,
)
from autoprompt.workflow.engine.events import Event, NodeEvent, NodeRunStreamChunk, WorkflowWarning
from autoprompt.workflow.engine.executions import Executions
from autoprompt.workflow.engine.models import ModelSource, ModelSpec
from autoprompt.workflow.engine.template import render_in
from autoprompt.workflow.engine.variables import MAX_TOTAL, MISSING, Room, Values, VariablePool, check_size

if TYPE_CHECKING:
    from autoprompt.llm.client import Client
    from autoprompt.llm.kept.journal import Journal
    from autoprompt.sandbox import Limits

_log = logging.getLogger(__name__)

_LOOK_EVERY_S = 0.1  # while an attempt waits for its turn
Emit = Callable[[Event], None]
Turn = tuple[str, str]  # a demonstration: what a model is shown as the user's words, and as its own
ChildResult = tuple[Mapping[str, Any], int]  # of a virtual node: its outputs, and failures that were taken up
AnyNodeEvent = TypeVar("AnyNodeEvent", bound=NodeEvent)


@dataclass(slots=True)
class Attempt:
    """An execution at work: its number of failed attempts so far, and when it began."""

    id: str = field(default_factory=lambda: uuid.uuid4().hex)
    failures: int = 0
    earlier: int = 0  # failures of earlier processes, which a resumed run must not get from its journal again
    start_at: datetime = field(default_factory=lambda: datetime.now(UTC))


def graph_context() -> Context:
    """Return a copy of this context in which a graph is one of its own.

    As a part of the one around, it would write its steps into the checkpoints of that one.
    """
    from langchain_core.runnables.config import var_child_runnable_config

    own = copy_context()
    own.run(var_child_runnable_config.set, None)
    return own


class Warned:
    """The warnings that a run has given. Threads share it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._messages: set[str] = set()

    def is_new(self, message: str) -> bool:
        """Return whether the message comes for the first time."""
        with self._lock:
            is_new = message not in self._messages
            self._messages.add(message)
            return is_new


@dataclass(frozen=True, slots=True)
class Frame:
    """Where in a run a graph is: the run itself, or one pass of a container.

    path: of the container's pass, "" outside. index: pass or item numbers of the containers around, from 0.
    values: what the graphs around have put out. emit: where its events go; None: to LangGraph's stream.
    room: of all that its nodes put out.
    """

    path: str = ""
    index: tuple[int, ...] = ()
    in_node_id: str | None = None
    values: Values = field(default_factory=dict)
    emit: Emit | None = None
    room: Room = field(default_factory=lambda: Room(MAX_TOTAL))


class Stop:
    """Whether no further node of a graph is to begin: of this one, or of one around it. Threads share it.

    around: stops this one too; an Event of somebody else's, or the Stop of the graph around.
    cause: the failure that has ended the graph. Nodes beside the one that failed end in Interrupted.
    """

    def __init__(self, around: Stop | threading.Event | None = None) -> None:
        self._around, self._is_set = around, False
        self.cause: BaseException | None = None

    def set(self, cause: BaseException | None = None) -> None:
        """Set it. The first cause stays; that a node was stopped is no cause."""
        if self.cause is None and not isinstance(cause, Interrupted):
            self.cause = cause
        self._is_set = True

    def is_set(self) -> bool:
        return self._is_set or (self._around is not None and self._around.is_set())

    @property
    def has_failed(self) -> bool:
        """Whether it was set for a failure, here or around, and not by who waits no more."""
        return self.cause is not None or (isinstance(self._around, Stop) and self._around.has_failed)

    def check(self, error: Exception | None = None) -> None:
        """Let the caller continue unless the graph is being stopped.

        Args:
            error: What a node at work has failed with; it becomes the cause of the Interrupted.

        Raises:
            Interrupted: The graph is being stopped.
        """
        if self.is_set():
            raise Interrupted("the run is being stopped") from error

    def wait(self, seconds: float) -> None:
        """Wait for so many seconds, or until the graph is stopped."""
        until = time.monotonic() + seconds
        while not self.is_set() and (left := until - time.monotonic()) > 0:
            time.sleep(min(left, _LOOK_EVERY_S))

    @contextmanager
    def telling_cause(self) -> Iterator[None]:
        """Raise the failure that the graph was stopped for, in place of the Interrupted of a node."""
        try:
            yield
        except Interrupted:
            if self.cause is None:
                raise
            raise self.cause from self.cause.__cause__


@dataclass(frozen=True, slots=True)
class RunContext:
    """What all nodes of a run share: LangGraph's context, never part of a checkpoint.

    journal: of a run that is kept, for answers of models. nodes: every node by id, virtual and inner ones.
    components: texts that stand in for prompts, by name. demonstrations: by node, see `RunSettings`.
    sandbox, limits: how code is confined. allow_private_hosts: see `RunSettings`.
    max_concurrency: requests, calls of tools, pieces of code and items at once, None for no bound.
    turns: held by each of them but items, see `NodeContext.turn`.
    stopping: set once no further node of the graph at work is to begin.
    """

    models: ModelSource
    journal: Journal | None = None
    run_id: str | None = None
    nodes: Mapping[str, GraphNode] = field(default_factory=dict)
    mocks: Mapping[str, Mock] = field(default_factory=dict)
    components: Mapping[str, str] = field(default_factory=dict)
    demonstrations: Mapping[str, Sequence[Turn]] = field(default_factory=dict)
    sandbox: Literal["auto", "strict", "none"] = "auto"
    limits: Limits | None = None
    allow_private_hosts: Sequence[str] = ()
    max_concurrency: int | None = None
    turns: AbstractContextManager[Any] = field(default_factory=nullcontext)
    executions: Executions | None = None
    warned: Warned = field(default_factory=Warned)
    frame: Frame = field(default_factory=Frame)
    stopping: Stop = field(default_factory=Stop)


class NodeContext:
    """One node at work. Given to `NodeType.execute`.

    inputs: the node's `inputs` by name, resolved. pool: the values that it sees.
    path: its place in the run, unique: "iter1[3].llm1". parent, virtual: of a virtual node.
    predecessor_node_id: see `NodeRunStarted`.
    emit: tells an event and writes it down. stream: tells it only, for those who write down themselves.
    """

    def __init__(
        self,
        run: RunContext,
        node: GraphNode,
        pool: VariablePool,
        *,
        path: str,
        attempt: Attempt,
        emit: Emit,
        stream: Emit,
        parent: GraphNode | None = None,
        virtual: VirtualNode | None = None,
        inputs: Mapping[str, Any] | None = None,
        predecessor_node_id: str | None = None,
    ) -> None:
        self.run, self.node, self.pool, self.path = run, node, pool, path
        self.attempt, self.emit, self.stream = attempt, emit, stream
        self.parent, self.virtual = parent, virtual
        self.predecessor_node_id = predecessor_node_id
        self.inputs: dict[str, Any] = dict(inputs or {})
        self.usage: Usage | None = None  # of the requests of all attempts
        self.answered: Mapping[str, Any] = {}  # the last request and its answer, for a node that fails then
        self.noted = NodeResult()  # what a node of Python's tells of itself besides its variables
        self.taken_up: list[int] = []  # failures inside a container that error strategies have taken up

    def begin(self, pool: VariablePool) -> None:
        """Forget what an attempt before has left, and work with the values of `pool`."""
        self.pool, self.inputs, self.noted, self.taken_up = pool, {}, NodeResult(), []
        self.answered = {}

    def take(self, inputs: Mapping[str, Any]) -> None:
        """Make the values of the node's `inputs` known to it, each by its name alone."""
        check_size(inputs)
        self.inputs = dict(inputs)
        self.pool = self.pool.with_names(inputs)

    def value_of(self, given: GivenInput) -> Any:
        """Return an input's value: that of its variable, or its own with the references filled.

        Raises:
            VariableNotFoundError: A variable has no value.
        """
        if given.type == "variable":
            return self.pool.get(given.value or ())
        return render_in(given.value, self.pool)

    @property
    def node_id(self) -> str:
        return self.node.id

    @property
    def data(self) -> Any:
        return self.node.data

    @property
    def index(self) -> tuple[int, ...]:
        """Pass or item numbers of the containers around, the outermost first, from 0."""
        return self.run.frame.index

    @property
    def tries(self) -> int:
        """Attempts of this execution that have failed, those of an earlier process of the run included."""
        return self.attempt.failures + self.attempt.earlier

    @property
    def retries_itself(self) -> bool:
        """Whether the workflow says how often this node is tried, so that nobody below tries on its own."""
        return self.node.retry is not None or (self.parent is not None and self.parent.retry is not None)

    def event(self, kind: type[AnyNodeEvent], **more: Any) -> AnyNodeEvent:
        """Return an event of this node; not yet emitted."""
        index = self.run.frame.index
        return kind(
            id=self.attempt.id,
            node_id=self.node.id,
            node_type=self.node.type,
            node_title=self.node.title,
            is_virtual=self.parent is not None,
            parent_node_id=self.parent.id if self.parent is not None else None,
            in_node_id=self.run.frame.in_node_id,
            index=index[-1] if index else None,
            passes=index,
            **more,
        )

    def chunk(self, text: str, name: str = "text") -> None:
        """Tell a piece of an output while it comes."""
        if text:
            self.emit(self.event(NodeRunStreamChunk, selector=[self.node.id, name], chunk=text))

    def warn(self, message: str) -> None:
        """Tell of something odd, once in a run."""
        if self.run.warned.is_new(f"{self.node.id}: {message}"):
            self.emit(WorkflowWarning(message=message, node_id=self.node.id))

    def component(self, role: str, text: str) -> str:
        """Return the prompt text to use for `role`: the candidate's, else `text`, the workflow's own."""
        return self.run.components.get(component_name(self.node.id, role), text)

    @contextmanager
    def turn(self) -> Iterator[None]:
        """Wait until fewer than `max_concurrency` requests, tools and pieces of code are at work, and be one.

        Not around what runs other nodes: they wait for turns of their own. What a tool asks for in its turn
        is a part of that turn.

        Raises:
            Interrupted: The run was stopped during the wait.
        """
        held = _held.get()
        if any(turns is self.run.turns for turns in held):
            yield
            return
        with self.run.turns:
            self.run.stopping.check()
            token = _held.set((*held, self.run.turns))
            try:
                yield
            finally:
                _held.reset(token)

    def demonstrations(self) -> Sequence[Turn]:
        """Return what the node's model is shown before its own input: the run's, else those in the file."""
        if self.node.id in self.run.demonstrations:
            return self.run.demonstrations[self.node.id]
        return [(shown.user, shown.assistant) for shown in getattr(self.data, "shown", ())]

    def client(self, model: ModelSpec | None) -> Client:
        """Return the model that the node names.

        Raises:
            ConfigError: Neither the node nor the run names a model.
        """
        return self.run.models.client(model, self.path)

    def finished(self, key: str) -> Any:
        """Return what `finish` wrote for this part of the work, maybe in an earlier process; else MISSING."""
        if self.run.executions is None:
            return MISSING
        return self.run.executions.part(f"{self.path}/{key}")

    def finish(self, key: str, value: Any) -> Any:
        """Write down a part of the node's work, so that a run that is killed does not do it again.

        Nothing is kept in a run without a folder.

        Returns:
            The value as a resumed run will read it. Work with that one.

        Raises:
            InputError: The value is not plain data.
        """
        if self.run.executions is None:
            return value
        return self.run.executions.finish_part(f"{self.path}/{key}", value)


# The turns that the call at work is in: of its run, and of a run whose tool has begun that run.
_held: ContextVar[tuple[AbstractContextManager[Any], ...]] = ContextVar("autoprompt_turns", default=())
_current: ContextVar[NodeContext | None] = ContextVar("autoprompt_workflow_node", default=None)


def current_node() -> NodeContext | None:
    """Return the node of a Python class that is at work in this thread; None outside of a workflow."""
    return _current.get()


@contextmanager
def working(context: NodeContext) -> Iterator[None]:
    """Make `context` the current node of this thread inside the block."""
    token = _current.set(context)
    try:
        yield
    finally:
        _current.reset(token)


def log_event(event: Event) -> None:
    """Log a warning that nobody listens to; other events are dropped."""
    if isinstance(event, WorkflowWarning):
        _log.warning("%s", event.message if event.node_id is None else f"{event.node_id}: {event.message}")


def tell_all(sinks: Sequence[Emit]) -> Emit:
    def emit(event: Event) -> None:
        for sink in sinks:
            sink(event)

    return emit
