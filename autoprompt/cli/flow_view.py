"""A workflow at work, as a tree: virtual nodes under their parent, passes under their container."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from types import TracebackType
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.live import Live
from rich.text import Text
from rich.tree import Tree

from autoprompt.cli.output import clean
from autoprompt.report.numbers import duration
from autoprompt.text.names import counted

if TYPE_CHECKING:
    from autoprompt.workflow.engine.events import Event

_SIGNS = {"running": ("...", "cyan"), "succeeded": ("ok", "green"), "exception": ("handled", "yellow")}
_FAILED = ("failed", "bold red")
_MOST_SHOWN = 60  # nodes of a tree: of a long iteration the last ones


@dataclass
class Entry:
    """One execution of a node. inside: virtual nodes that ran for it, and what a container repeats."""

    id: str
    node_id: str
    record: dict[str, Any]
    status: str = "running"
    retries: int = 0
    inside: list[Entry] = field(default_factory=list)


class FlowView:
    """Shows the events of a run: a live tree in a terminal, lines elsewhere, failures alone when quiet."""

    def __init__(self, console: Console, *, quiet: bool = False) -> None:
        self._console, self._quiet = console, quiet
        self.entries: list[Entry] = []
        self._by_id: dict[str, Entry] = {}
        self._waiting: list[Entry] = []  # virtual nodes whose parent has not started yet
        self._live: Live | None = None
        self._name = ""

    def __enter__(self) -> FlowView:
        if not self._quiet and self._console.is_terminal and not self._console.is_dumb_terminal:
            self._live = Live(console=self._console, refresh_per_second=8, get_renderable=self.tree)
            self._live.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live is not None:
            self._live.__exit__(kind, error, trace)

    def add(self, event: Event) -> None:
        self.add_record(event.to_dict())

    def add_record(self, record: dict[str, Any]) -> None:
        """An event as plain data, as a run's `events.jsonl` keeps it."""
        kind = record["event"]
        if kind == "NodeRunStarted":
            self._start(record)
        elif kind in ("NodeRunSucceeded", "NodeRunFailed", "NodeRunException"):
            self._end(kind, record)
        elif kind == "NodeRunRetry" and record["id"] in self._by_id:
            self._by_id[record["id"]].retries = record["retry_index"]
        elif kind == "GraphRunStarted":
            self._name = str(record["workflow"])
            self._say(f"run {record['run_id']}" if record.get("run_id") else f"run of {self._name}")
        elif kind == "WorkflowWarning":
            node = f"{record['node_id']}: " if record.get("node_id") else ""
            self._console.print(Text(clean(f"warning: {node}{record['message']}"), "yellow"))

    def tree(self) -> Tree:
        made = Tree(Text(clean(self._name)))
        _grow(made, self.entries[-_MOST_SHOWN:])
        for entry in self._waiting:
            made.add(_line(entry))
        return made

    def _start(self, record: dict[str, Any]) -> None:
        if record["id"] in self._by_id:  # begun by an earlier process of the run
            return
        entry = Entry(record["id"], record["node_id"], record)
        self._by_id[entry.id] = entry
        if record["is_virtual"]:
            self._waiting.append(entry)
            return
        mine = [child for child in self._waiting if _is_child(child, record)]
        entry.inside += mine
        self._waiting = [child for child in self._waiting if child not in mine]
        container = self._container(record)
        (self.entries if container is None else container.inside).append(entry)

    def _container(self, record: Mapping[str, Any]) -> Entry | None:
        """The running container that the record is of a pass of; None outside of one."""
        node_id, around = record.get("in_node_id"), _passes(record)[:-1]
        found = [e for e in self._by_id.values() if e.node_id == node_id and e.status == "running"]
        return next((e for e in reversed(found) if _passes(e.record) == around), None)

    def _end(self, kind: str, record: dict[str, Any]) -> None:
        entry = self._by_id.get(record["id"])
        if entry is None:  # one that never started, such as a node whose virtual nodes failed
            self._start(record)
            entry = self._by_id[record["id"]]
        entry.status = kind.removeprefix("NodeRun").lower()
        entry.record = {**entry.record, **record}
        if self._live is None:
            indent = "  " if record["is_virtual"] or record.get("in_node_id") else ""
            self._say(indent + _line(entry).plain)

    def _say(self, line: str) -> None:
        if not self._quiet and self._live is None:
            self._console.print(Text(clean(line)))


def nested(entries: list[Entry]) -> list[dict[str, Any]]:
    """The nodes as plain data, in the order in which they started; what ran inside of one is in it.

    Of how they did it only what failed in an iteration: the rest, such as prompts, is in the run's events.
    """
    found = []
    for entry in entries:
        virtual = [child for child in entry.inside if child.record["is_virtual"]]
        inner = [child for child in entry.inside if not child.record["is_virtual"]]
        record = {
            name: value for name, value in entry.record.items() if name not in ("event", "process_data")
        }
        made: dict[str, Any] = {**record, "status": entry.status, "retries": entry.retries}
        if failed := (entry.record.get("process_data") or {}).get("failed_items"):
            made["process_data"] = {"failed_items": failed}
        if virtual:
            made["virtual_nodes"] = nested(virtual)
        if inner:
            made["inner_nodes"] = nested(inner)
        found.append(made)
    return found


def _is_child(child: Entry, parent: Mapping[str, Any]) -> bool:
    own = child.record
    places = [(record.get("in_node_id"), _passes(record)) for record in (own, parent)]
    return own["parent_node_id"] == parent["node_id"] and places[0] == places[1]


def _passes(record: Mapping[str, Any]) -> tuple[int, ...]:
    """Of each container around, the outermost first."""
    return tuple(record.get("passes") or ())


def _grow(tree: Tree, entries: list[Entry]) -> None:
    for entry in entries:
        _grow(tree.add(_line(entry)), entry.inside[-_MOST_SHOWN:])


def _line(entry: Entry) -> Text:
    record = entry.record
    sign, style = _SIGNS.get(entry.status, _FAILED)
    place = "".join(f"[{number}]" for number in _passes(record))
    title = record.get("node_title") or ""
    named = f" ({title})" if title and title != entry.node_id else ""
    parts = [_seconds(record), _tokens(record), _tried(entry.retries), _error(entry)]
    rest = ", ".join(part for part in parts if part)
    text = f"{place} {entry.node_id}{named}".lstrip() + (f": {rest}" if rest else "")
    return Text.assemble((f"{sign} ", style), clean(text))


def _error(entry: Entry) -> str:
    """What failed, without what the line of a node inside says already."""
    error = str(entry.record.get("error") or "")
    for inner in entry.inside[-_MOST_SHOWN:]:
        said = str(inner.record.get("error") or "")
        if said and said in error:
            return error.replace(said, "…", 1)
    return error


def _seconds(record: Mapping[str, Any]) -> str:
    start, end = record.get("start_at"), record.get("finished_at")
    if not isinstance(start, str) or not isinstance(end, str):
        return ""
    return duration((datetime.fromisoformat(end) - datetime.fromisoformat(start)).total_seconds())


def _tokens(record: Mapping[str, Any]) -> str:
    tokens = (record.get("metadata") or {}).get("total_tokens")
    return counted(tokens, "token") if tokens else ""


def _tried(retries: int) -> str:
    return counted(retries, "retry", "retries") if retries else ""
