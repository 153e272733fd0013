"""Where the nodes of a workflow stand in a drawing: in layers, what is inside of a node in its box."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from autoprompt.web.executions import Edge, Node, WorkflowRun

_WIDTH, _HEAD, _ROW, _PAD = 236, 50, 26, 10
_GAP_X, _GAP_Y = 32, 46
_DEEPEST = 6


@dataclass(frozen=True, slots=True)
class Line:
    """A node inside of a box, `depth` levels down, at the height `y`."""

    node: Node
    depth: int
    y: int


@dataclass(frozen=True, slots=True)
class Box:
    """A node of the graph itself and what stands inside of it."""

    node: Node
    x: int
    y: int
    height: int
    lines: tuple[Line, ...]
    width: int = _WIDTH


@dataclass(frozen=True, slots=True)
class Arrow:
    """path: for the `d` of an SVG path. label: the branch, "" for the usual one, at (x, y)."""

    path: str
    label: str
    x: int
    y: int
    is_taken: bool


@dataclass(frozen=True, slots=True)
class Drawing:
    width: int
    height: int
    boxes: tuple[Box, ...]
    arrows: tuple[Arrow, ...]


def draw(run: WorkflowRun) -> Drawing | None:
    """The drawing of a run's workflow; None where nothing is known of it."""
    top = run.inside("")
    if not top:
        return None
    layers = _layers([node.id for node in top], run.edges)
    lines = {node.id: _lines(run, node.id) for node in top}
    nodes = {node.id: node for node in top}
    widest = max(len(layer) for layer in layers)
    width = widest * (_WIDTH + _GAP_X) + _GAP_X
    boxes: dict[str, Box] = {}
    y = _PAD
    for layer in layers:
        x = (width - len(layer) * (_WIDTH + _GAP_X) + _GAP_X) // 2
        heights = [_HEAD + _ROW * len(lines[name]) + (_PAD if lines[name] else 0) for name in layer]
        for name, height in zip(layer, heights, strict=True):
            placed = tuple(
                Line(node, depth, y + _HEAD + _ROW * number)
                for number, (node, depth) in enumerate(lines[name])
            )
            boxes[name] = Box(nodes[name], x, y, height, placed)
            x += _WIDTH + _GAP_X
        y += max(heights) + _GAP_Y
    return Drawing(width, y - _GAP_Y + _PAD, tuple(boxes.values()), _arrows(run.edges, boxes))


def _layers(ids: Sequence[str], edges: Sequence[Edge]) -> list[list[str]]:
    """Every node below all that lead to it; an edge that closes a circle is left out of that."""
    level = dict.fromkeys(ids, 0)
    for _ in ids:
        changed = False
        for edge in edges:
            if edge.source in level and edge.target in level and level[edge.target] <= level[edge.source]:
                if level[edge.source] + 1 >= len(ids):
                    continue
                level[edge.target] = level[edge.source] + 1
                changed = True
        if not changed:
            break
    found: dict[int, list[str]] = {}
    for name in ids:
        found.setdefault(level[name], []).append(name)
    return [found[number] for number in sorted(found)]


def _lines(run: WorkflowRun, home: str, depth: int = 0) -> list[tuple[Node, int]]:
    if depth > _DEEPEST:
        return []
    found = []
    for node in run.inside(home):
        found.append((node, depth))
        found += _lines(run, node.id, depth + 1)
    return found


def _arrows(edges: Sequence[Edge], boxes: Mapping[str, Box]) -> tuple[Arrow, ...]:
    found: dict[tuple[str, str], list[str]] = {}
    for edge in edges:
        if edge.source in boxes and edge.target in boxes:
            found.setdefault((edge.source, edge.target), []).append(edge.handle)
    return tuple(_arrow(boxes[a], boxes[b], handles) for (a, b), handles in found.items())


def _arrow(source: Box, target: Box, handles: Sequence[str]) -> Arrow:
    x1, y1 = source.x + source.width // 2, source.y + source.height
    x2, y2 = target.x + target.width // 2, target.y
    bend = max(18, abs(y2 - y1) // 2)
    path = f"M{x1} {y1}C{x1} {y1 + bend} {x2} {y2 - bend} {x2} {y2}"
    is_taken = "not run" not in (source.node.status, target.node.status)
    return Arrow(path, ", ".join(filter(None, handles)), (x1 + x2) // 2, (y1 + y2) // 2, is_taken)
