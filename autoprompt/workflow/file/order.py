"""The shape of a graph: what can run, what has run before a node for sure or perhaps, cycles."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from autoprompt.workflow.file.reading import FileEdge, FileGraph


@dataclass(frozen=True)
class Order:
    """before: node -> all nodes that a path leads from to it. reached: nodes that can run at all."""

    before: Mapping[str, frozenset[str]]
    reached: frozenset[str]
    cycles: tuple[tuple[str, ...], ...]


def chained(graph: FileGraph, handles: Mapping[str, Sequence[str]]) -> tuple[FileEdge, ...]:
    """The edges of a graph; without any in the file, those of the order of the list.

    handles: the ways out of branches. In a list, whatever a branch decides, the next node comes next.
    """
    if graph.edges is not None:
        return graph.edges
    pairs = zip(graph.nodes, graph.nodes[1:], strict=False)
    return tuple(
        FileEdge(one.id, other.id, handle, other.where)
        for one, other in pairs
        for handle in handles.get(one.id) or ("source",)
    )


def order(graph: FileGraph, edges: Sequence[FileEdge]) -> Order:
    ids = [node.id for node in graph.nodes]
    known = set(ids)
    after: dict[str, list[str]] = {node_id: [] for node_id in ids}
    above: dict[str, list[str]] = {node_id: [] for node_id in ids}
    for edge in edges:
        if edge.source in known and edge.target in known:
            after[edge.source].append(edge.target)
            above[edge.target].append(edge.source)
    starts = first_nodes(graph, above)
    reached = _reach(starts, after)
    before = {node_id: frozenset(_reach(above[node_id], above)) for node_id in ids}
    return Order(before, frozenset(reached), tuple(_cycles(ids, after)))


def first_nodes(graph: FileGraph, above: Mapping[str, Sequence[str]]) -> list[str]:
    """Where a run begins: as the file says, at the start nodes, or wherever nothing leads to."""
    if graph.starts:
        return [node_id for node_id in graph.starts if node_id in above]
    marked = [node.id for node in graph.nodes if node.type == "start"]
    return marked or [node_id for node_id in above if not above[node_id]]


def _reach(starts: Iterable[str], after: Mapping[str, Sequence[str]]) -> set[str]:
    seen: set[str] = set()
    waiting = list(starts)
    while waiting:
        node_id = waiting.pop()
        if node_id not in seen:
            seen.add(node_id)
            waiting += after[node_id]
    return seen


def _cycles(ids: Sequence[str], after: Mapping[str, Sequence[str]]) -> Iterable[tuple[str, ...]]:
    """Each knot of nodes that lead to each other, in the order of the file."""
    reach = {node_id: _reach(after[node_id], after) for node_id in ids}
    told: set[str] = set()
    for node_id in ids:
        if node_id in reach[node_id] and node_id not in told:
            knot = tuple(other for other in ids if other in reach[node_id] and node_id in reach[other])
            told.update(knot)
            yield knot
