"""The live view of a workflow: its nodes as a tree, with virtual nodes and passes below their node."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from rich.console import RenderableType
from rich.text import Text
from rich.tree import Tree

from autoprompt.cli.live import Line, LiveView
from autoprompt.cli.output import clean
from autoprompt.report.numbers import duration
from autoprompt.text.names import counted
from autoprompt.workflow.engine.events import (
    GraphRunStarted,
    NodeEvent,
    NodeRunException,
    NodeRunFailed,
    NodeRunRetry,
    NodeRunStarted,
    NodeRunSucceeded,
    WorkflowWarning,
    read_event,
)

_SIGNS = {"running": ("...", "cyan"), "succeeded": ("ok", "green"), "exception": ("handled", "yellow")}
_FAILED = ("failed", "bold red")
_MOST_SHOWN = 60  # nodes of a tree: of a long iteration the last ones
_FRAME_LINES = 6  # of the panel besides its tree


@dataclass
class Entry:
    """One execution of a node. inside: virtual nodes that ran for it, and what a container repeats."""

    first: NodeEvent
    ended: NodeRunSucceeded | NodeRunFailed | None = None
    retries: int = 0
    inside: list[Entry] = field(default_factory=list)

    @property
    def status(self) -> str:
        """The word for how it ended, as a run's records have it."""
        match self.ended:
            case None:
                return "running"
            case NodeRunException():
                return "exception"
            case NodeRunFailed():
                return "failed"
        return "succeeded"

    @property
    def error(self) -> str:
        return self.ended.error if isinstance(self.ended, NodeRunFailed) else ""


@dataclass
class FlowView(LiveView):
    """What is known of a workflow at work. entries: its nodes in the order in which they started."""

    title = "autoprompt flow"

    name: str = ""
    entries: list[Entry] = field(default_factory=list)
    by_id: dict[str, Entry] = field(default_factory=dict)
    waiting: list[Entry] = field(default_factory=list)  # virtual nodes whose parent has not started yet

    def tell(self, event: Mapping[str, Any]) -> Iterable[Line]:
        match read_event(event):
            case NodeRunStarted() as found:
                self._start(found)
            case NodeRunSucceeded() | NodeRunFailed() as found:
                entry = self._end(found)
                indent = "  " if found.is_virtual or found.in_node_id else ""
                yield Line(indent + _line(entry).plain, "lines")
            case NodeRunRetry() as found if found.id in self.by_id:
                self.by_id[found.id].retries = found.retry_index
            case GraphRunStarted() as found:
                self.name, self.run_id = found.workflow, found.run_id or ""
                yield Line(f"run {found.run_id}" if found.run_id else f"run of {self.name}", "lines")
            case WorkflowWarning() as found:
                node = f"{found.node_id}: " if found.node_id else ""
                yield Line(f"warning: {node}{found.message}", "always", "yellow")

    def parts(self, height: int) -> Iterator[RenderableType]:
        yield self.tree(max(1, height - _FRAME_LINES - len(self.lines)))

    def tree(self, most: int = _MOST_SHOWN) -> Tree:
        """Draw the nodes. most: of a level, the last ones."""
        made = Tree(Text(clean(self.name)))
        _grow(made, self.entries, most)
        for entry in self.waiting:
            made.add(_line(entry))
        return made

    def _start(self, event: NodeEvent) -> Entry:
        if event.id in self.by_id:  # begun by an earlier process of the run
            return self.by_id[event.id]
        entry = self.by_id[event.id] = Entry(event)
        if event.is_virtual:
            self.waiting.append(entry)
            return entry
        entry.inside += [child for child in self.waiting if _is_child(child.first, event)]
        self.waiting = [child for child in self.waiting if child not in entry.inside]
        container = self._container(event)
        (self.entries if container is None else container.inside).append(entry)
        return entry

    def _container(self, event: NodeEvent) -> Entry | None:
        """The running container that the node is in a pass of; None outside of one."""
        around = tuple(event.passes)[:-1]
        found = [e for e in self.by_id.values() if e.first.node_id == event.in_node_id and e.ended is None]
        return next((e for e in reversed(found) if tuple(e.first.passes) == around), None)

    def _end(self, event: NodeRunSucceeded | NodeRunFailed) -> Entry:
        entry = self._start(event)  # one may never have started: a node whose virtual nodes failed
        entry.ended = event
        return entry


def nested(entries: Iterable[Entry]) -> list[dict[str, Any]]:
    """Return the nodes as plain data, in the order in which they started; what ran inside of one is in it.

    Of how they did it only what failed in an iteration: the rest, such as prompts, is in the run's events.
    """
    found = []
    for entry in entries:
        ended = entry.ended
        record = {**entry.first.to_dict(), **({} if ended is None else ended.to_dict())}
        made = {name: value for name, value in record.items() if name not in ("event", "process_data")}
        made |= {"status": entry.status, "retries": entry.retries}
        if ended is not None and (failed := ended.process_data.get("failed_items")):
            made["process_data"] = {"failed_items": failed}
        if virtual := [child for child in entry.inside if child.first.is_virtual]:
            made["virtual_nodes"] = nested(virtual)
        if inner := [child for child in entry.inside if not child.first.is_virtual]:
            made["inner_nodes"] = nested(inner)
        found.append(made)
    return found


def _is_child(child: NodeEvent, parent: NodeEvent) -> bool:
    places = [(event.in_node_id, tuple(event.passes)) for event in (child, parent)]
    return child.parent_node_id == parent.node_id and places[0] == places[1]


def _grow(tree: Tree, entries: list[Entry], most: int) -> None:
    for entry in entries[-most:]:
        _grow(tree.add(_line(entry)), entry.inside, most)


def _line(entry: Entry) -> Text:
    first, ended = entry.first, entry.ended
    sign, style = _SIGNS.get(entry.status, _FAILED)
    place = "".join(f"[{number}]" for number in first.passes)
    named = f" ({first.node_title})" if first.node_title not in ("", first.node_id) else ""
    parts = []
    if ended is not None:
        parts.append(duration((ended.finished_at - ended.start_at).total_seconds()))
        tokens = ended.metadata.get("total_tokens") if isinstance(ended, NodeRunSucceeded) else None
        parts.append(counted(tokens, "token") if tokens else "")
    parts += [counted(entry.retries, "retry", "retries") if entry.retries else "", _error(entry)]
    rest = ", ".join(part for part in parts if part)
    text = f"{place} {first.node_id}{named}".lstrip() + (f": {rest}" if rest else "")
    return Text.assemble((f"{sign} ", style), clean(text))


def _error(entry: Entry) -> str:
    """What failed, without what the line of a node inside says already."""
    for inner in entry.inside[-_MOST_SHOWN:]:
        if inner.error and inner.error in entry.error:
            return entry.error.replace(inner.error, "…", 1)
    return entry.error
