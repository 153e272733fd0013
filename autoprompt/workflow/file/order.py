"""The shape of a graph: what can run, what has run before a node for sure or perhaps, cycles."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from graphlib import TopologicalSorter
from operator import and_

from autoprompt.workflow.engine.definition import FAIL_BRANCH as _FAIL
from autoprompt.workflow.engine.definition import SOURCE as _ONE_WAY
from autoprompt.workflow.engine.definition import SUCCESS_BRANCH
from autoprompt.workflow.file.reading import FileEdge, FileGraph

_SUCCEEDED = "\0succeeded"  # NUL is in no id


@dataclass(frozen=True)
class Order:
    """before: node -> all nodes that a path leads from to it. reached: nodes that can run at all.

    surely: of nodes that can run -> what has run whenever they run, whichever branches were taken, as bits;
    none with cycles. bits: node, or `succeeded(node)` -> its bit. One number a node: of 2,000, sets would
    take 500 MB.
    """

    before: Mapping[str, frozenset[str]]
    reached: frozenset[str]
    cycles: tuple[tuple[str, ...], ...]
    surely: Mapping[str, int]
    bits: Mapping[str, int]

    def is_sure(self, source: str, reader: str) -> bool:
        """Return whether `source`, a node or `succeeded(node)`, has run whenever `reader` runs.

        True for a reader that cannot run, and with cycles: nothing is known then.
        """
        if reader not in self.surely:
            return True
        return bool(self.surely[reader] & self.bits.get(source, 0))


def chained(graph: FileGraph, handles: Mapping[str, Sequence[str]]) -> tuple[FileEdge, ...]:
    """Return the edges of a graph; if the file has none, those from each node to the next in the list.

    Args:
        handles: Node -> its ways out. In a list, each of them leads to the next node.
    """
    if graph.edges is not None:
        return graph.edges
    pairs = zip(graph.nodes, graph.nodes[1:], strict=False)
    return tuple(
        FileEdge(one.id, other.id, handle, other.where)
        for one, other in pairs
        for handle in handles.get(one.id) or ("source",)
    )


def succeeded(node_id: str) -> str:
    """Return the name in `Order.bits` for a node that has run without a failure."""
    return f"{node_id}{_SUCCEEDED}"


def order(graph: FileGraph, edges: Sequence[FileEdge], handles: Mapping[str, Sequence[str]]) -> Order:
    """Return the shape of a graph.

    Args:
        handles: Node -> its ways out, of which it takes one; none for a node with one way.
    """
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
    cycles = tuple(_cycles(ids, after))
    sound = [edge for edge in edges if edge.source in reached and edge.target in reached]
    bits = {name: 1 << n for n, name in enumerate((*ids, *map(succeeded, ids)))}
    surely = {} if cycles else _surely([name for name in ids if name in reached], sound, handles, bits)
    return Order(before, frozenset(reached), cycles, surely, bits)


def _surely(
    ids: Sequence[str],
    edges: Sequence[FileEdge],
    handles: Mapping[str, Sequence[str]],
    bits: Mapping[str, int],
) -> dict[str, int]:
    """Node -> the bits of what has run whenever it runs: what its ways in have in common, and what follows.

    A node runs if one edge that leads to it is taken, after all nodes before it. So it has in common with
    each of its edges what ran before the edge's source, and what runs besides on the same way out.
    """
    written: dict[str, list[str]] = {name: [] for name in ids}
    for edge in edges:
        written[edge.source].append(edge.handle)
    ways: dict[str, dict[str, set[str]]] = {
        name: {_way(handle): set() for handle in handles.get(name) or written[name] or (_ONE_WAY,)}
        for name in ids
    }
    into: dict[str, set[tuple[str, str]]] = {name: set() for name in ids}
    for edge in edges:
        way = _way(edge.handle)
        if way in ways[edge.source]:  # others are never taken
            ways[edge.source][way].add(edge.target)
            into[edge.target].add((edge.source, way))
    before = {name: {source for source, _ in into[name]} for name in ids}
    in_order = list(TopologicalSorter(before).static_order())

    follows: dict[str, int] = {}  # node -> what runs whenever it runs, itself included

    def behind(name: str, way: str) -> int:
        has_failed = _FAIL in ways[name] and way == _FAIL
        found = 0 if has_failed else bits[succeeded(name)]
        for target in ways[name][way]:
            found |= follows[target]
        return found

    for name in reversed(in_order):
        each = [behind(name, way) for way in ways[name]]
        follows[name] = bits[name] | reduce(and_, each)
    found: dict[str, int] = {}
    for name in in_order:
        each = [found[source] | behind(source, way) for source, way in into[name]]
        found[name] = follows[name] | (reduce(and_, each) if each else 0)
    return found


def _way(handle: str) -> str:
    """Return an edge's way; that of success has two names in files."""
    return _ONE_WAY if handle == SUCCESS_BRANCH else handle


def first_nodes(graph: FileGraph, above: Mapping[str, Sequence[str]]) -> list[str]:
    """Return where a run begins: as the file says, at the start nodes, or wherever nothing leads to."""
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
