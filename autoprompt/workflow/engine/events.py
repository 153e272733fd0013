"""What a run tells while it works: typed records, in the order in which things happened.

Of a virtual node come Started, Chunk, Succeeded before its parent's Started, and each carries its parent.
A node that is tried again has one Started and one end; between them a NodeRunRetry for each new attempt.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from datetime import datetime
from functools import cache
from typing import Any

_HIDDEN = "hidden"  # metadata of fields that are no part of the record


@dataclass(frozen=True, kw_only=True)
class Event:
    """Base of all events."""

    def to_dict(self) -> dict[str, Any]:
        """Return `{"event": name, ...}`, plain data but for what the nodes put into it; times as ISO 8601."""
        record: dict[str, Any] = {"event": type(self).__name__}
        for name in _shown(type(self)):  # type: ignore[arg-type]  # mypy asks the class for the hash of its objects
            value = getattr(self, name)
            record[name] = value.isoformat() if isinstance(value, datetime) else value
        return record


@cache
def _shown(kind: type[Event]) -> tuple[str, ...]:
    return tuple(part.name for part in fields(kind) if not part.metadata.get(_HIDDEN))


@dataclass(frozen=True, kw_only=True)
class NodeEvent(Event):
    """id: of this execution, the same in all of its events. node_id: global id, `parent.local` if virtual.

    in_node_id, index: the container (iteration, loop) that the node works in, and which pass or item of it,
    from 0; None outside. passes: that of each container around, the outermost first: where an outer one has
    several passes at once, `index` alone does not say in which of them the node works.
    """

    id: str
    node_id: str
    node_type: str
    node_title: str
    is_virtual: bool = False
    parent_node_id: str | None = None
    in_node_id: str | None = None
    index: int | None = None
    passes: Sequence[int] = ()


@dataclass(frozen=True, kw_only=True)
class NodeRunStarted(NodeEvent):
    """extraction_source: "llm1.context" for a node that takes a value out of a conversation.

    predecessor_node_id: the node that led here: the first whose taken edge ends here, or the one that ran
    before in list order; None for a first node, a virtual one, and the first ones of a pass.
    """

    start_at: datetime
    predecessor_node_id: str | None = None
    extraction_source: str | None = None
    extraction_prompt: str | None = None


@dataclass(frozen=True, kw_only=True)
class NodeRunStreamChunk(NodeEvent):
    """selector: [node_id, name of the output]. chunk: a piece of it, to be put behind those before."""

    selector: Sequence[str]
    chunk: str


@dataclass(frozen=True, kw_only=True)
class NodeRunSucceeded(NodeEvent):
    """llm_usage: `{prompt_tokens, completion_tokens, total_tokens, total_price, currency}` of its requests.

    None if it sent none.
    """

    start_at: datetime
    finished_at: datetime
    inputs: Mapping[str, Any] = field(default_factory=dict)
    process_data: Mapping[str, Any] = field(default_factory=dict)
    outputs: Mapping[str, Any] = field(default_factory=dict)
    metadata: Mapping[str, Any] = field(default_factory=dict)
    llm_usage: Mapping[str, Any] | None = None
    predecessor_node_id: str | None = None


@dataclass(frozen=True, kw_only=True)
class NodeRunFailed(NodeEvent):
    """The node failed, and nothing in the workflow takes it up. llm_usage: of the requests it sent."""

    error: str
    error_type: str
    start_at: datetime
    finished_at: datetime
    inputs: Mapping[str, Any] = field(default_factory=dict)
    process_data: Mapping[str, Any] = field(default_factory=dict)
    llm_usage: Mapping[str, Any] | None = None
    predecessor_node_id: str | None = None


@dataclass(frozen=True, kw_only=True)
class NodeRunException(NodeRunFailed):
    """The node failed, and its error strategy continues with `outputs`."""

    error_strategy: str
    outputs: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class NodeRunRetry(NodeEvent):
    """An attempt failed and there will be another. retry_index: from 1."""

    retry_index: int
    error: str
    start_at: datetime


@dataclass(frozen=True, kw_only=True)
class IterationStarted(NodeEvent):
    start_at: datetime
    inputs: Mapping[str, Any] = field(default_factory=dict)
    metadata: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class IterationNext(NodeEvent):
    """A pass (or an item) begins. pass_index: from 0."""

    pass_index: int


@dataclass(frozen=True, kw_only=True)
class IterationSucceeded(NodeEvent):
    """steps: passes (or items) that were gone through."""

    steps: int
    outputs: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class IterationFailed(NodeEvent):
    steps: int
    error: str
    outputs: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class LoopStarted(IterationStarted):
    pass


@dataclass(frozen=True, kw_only=True)
class LoopNext(IterationNext):
    pass


@dataclass(frozen=True, kw_only=True)
class LoopSucceeded(IterationSucceeded):
    pass


@dataclass(frozen=True, kw_only=True)
class LoopFailed(IterationFailed):
    pass


@dataclass(frozen=True, kw_only=True)
class WorkflowWarning(Event):
    """Something is odd, and the run continues."""

    message: str
    node_id: str | None = None


@dataclass(frozen=True, kw_only=True)
class GraphRunStarted(Event):
    """run_id: None for a run that keeps nothing."""

    workflow: str
    run_id: str | None = None
    resumed: bool = False
    inputs: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class GraphRunSucceeded(Event):
    outputs: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class GraphRunPartialSucceeded(Event):
    """The run came to its end over failures that error strategies took up: `exceptions_count` of them."""

    exceptions_count: int
    outputs: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class GraphRunFailed(Event):
    """The last event of a run that failed. cause: the exception, for the caller in this process."""

    error: str
    error_type: str
    cause: BaseException | None = field(default=None, repr=False, compare=False, metadata={_HIDDEN: True})


def _kinds(base: type[Event]) -> Iterator[type[Event]]:
    yield base
    for kind in base.__subclasses__():
        yield from _kinds(kind)


_KINDS = {kind.__name__: kind for kind in _kinds(Event)}
_TIMES = ("start_at", "finished_at")


def read_event(record: Mapping[str, Any]) -> Event | None:
    """Return the event that `to_dict` wrote; None for a kind that is not known here.

    Raises:
        ValueError: The record lacks fields that an event of its kind needs.
    """
    kind = _KINDS.get(str(record.get("event")))
    if kind is None:
        return None
    values = {name: record[name] for name in _shown(kind) if name in record}  # type: ignore[arg-type]
    for name in _TIMES:
        if isinstance(values.get(name), str):
            values[name] = datetime.fromisoformat(values[name])
    try:
        return kind(**values)
    except TypeError as error:
        raise ValueError(f"an event {kind.__name__} that autoprompt did not write: {error}") from error
