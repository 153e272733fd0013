"""What a run of a workflow has done, node by node, from its SQLite file; and the drawing of its nodes."""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any
from urllib.parse import quote

from autoprompt.errors import Place, Problem, StoreError
from autoprompt.runs import RunFolder

_COLUMNS = (
    "node_id, node_type, title, status, is_virtual, parent_node_id, in_node_id, passes, retries, "
    "inputs, process_data, outputs, error, elapsed_s"
)
_MOST_EXECUTIONS = 20_000
# Steps of SQLite between two questions whether it has worked too long: a file may have been made to hang us.
_STEPS, _MOST_ASKED = 100_000, 2_000
_EDGE = re.compile(r"(.+) -> (.+) \((.*)\)", re.DOTALL)
_NODE = re.compile(r"(.+) \((.*)\)", re.DOTALL)
_CONTAINERS = ("iteration", "loop")
# A node that ran several times has the status that matters most.
_RANKS = ("failed", "running", "interrupted", "exception", "succeeded", "not run")
_WIDTH, _HEAD, _ROW, _PAD = 236, 50, 26, 10
_GAP_X, _GAP_Y = 32, 46
_DEEPEST = 6


@dataclass(frozen=True, slots=True)
class Execution:
    """One execution of a node. passes: of each container around, the outermost first, from 0.

    prompts: role and text of the messages that were sent. inputs, outputs: JSON as text, "" for none.
    """

    status: str
    passes: tuple[int, ...]
    retries: int
    prompts: tuple[tuple[str, str], ...]
    inputs: str
    outputs: str
    error: str
    tokens: int | None
    elapsed_s: float | None


@dataclass(frozen=True, slots=True)
class Node:
    """One node with its executions. home: the node that it stands inside of, "" for one of the graph itself.

    is_virtual: it was made for its home, to take a value out of a conversation.
    """

    id: str
    type: str
    title: str
    home: str
    is_virtual: bool
    executions: tuple[Execution, ...]

    @property
    def status(self) -> str:
        found = {execution.status for execution in self.executions}
        return next((rank for rank in _RANKS if rank in found), "not run")

    @property
    def tokens(self) -> int | None:
        """Of all its calls; None where it made none."""
        known = [execution.tokens for execution in self.executions if execution.tokens is not None]
        return sum(known) if known else None

    @property
    def calls(self) -> int:
        return sum(execution.tokens is not None for execution in self.executions)

    @property
    def elapsed_s(self) -> float | None:
        known = [execution.elapsed_s for execution in self.executions if execution.elapsed_s is not None]
        return sum(known) if known else None


@dataclass(frozen=True, slots=True)
class Edge:
    """handle: the branch that it leaves by, "" for the usual one."""

    source: str
    target: str
    handle: str


@dataclass(frozen=True, slots=True)
class WorkflowRun:
    """nodes: in the order of the workflow, what stands inside of a node beside it. outputs: JSON as text."""

    name: str
    file: str
    inputs: str
    outputs: str
    nodes: tuple[Node, ...]
    edges: tuple[Edge, ...]

    def inside(self, home: str) -> tuple[Node, ...]:
        """Nodes that stand inside of this one; of "", those of the graph itself. Virtual ones come first."""
        found = [node for node in self.nodes if node.home == home]
        return tuple(sorted(found, key=lambda node: not node.is_virtual))

    def count(self, status: str) -> int:
        return sum(node.status == status for node in self.nodes)


def read_workflow(folder: RunFolder) -> WorkflowRun:
    """Return a run of a workflow as it stands.

    Raises:
        StoreError: For one that cannot be read.
    """
    config, result = folder.read_config(), folder.read_result() or {}
    lines = [str(line) for line in config.get("structure") or ()]
    edges = [Edge(m[1], m[2], _handle(m[3])) for line in lines if (m := _EDGE.fullmatch(line))]
    known = [(m[1], m[2]) for line in lines if not _EDGE.fullmatch(line) and (m := _NODE.fullmatch(line))]
    nodes = _nodes(known, edges, _rows(folder.checkpoints_path))
    return WorkflowRun(
        name=str(config.get("workflow") or folder.run_id),
        file=str(config.get("workflow_file") or ""),
        inputs=_shown(config.get("inputs")),
        outputs=_shown(result.get("outputs")),
        nodes=nodes,
        edges=tuple(edges) or _in_order(nodes),
    )


def _handle(name: str) -> str:
    return "" if name in ("source", "success-branch") else name


def _in_order(nodes: Sequence[Node]) -> tuple[Edge, ...]:
    """Return edges down the list of nodes, for a workflow that has none."""
    ids = [node.id for node in nodes if not node.home]
    return tuple(Edge(a, b, "") for a, b in pairwise(ids))


def _rows(path: Path) -> list[sqlite3.Row]:
    if not path.is_file():
        return []
    # A file that nobody writes has no log beside it: opened as it is, SQLite makes no file there either.
    is_at_rest = not path.with_name(f"{path.name}-wal").exists()
    address = f"file:{quote(str(path.absolute()))}?mode=ro{'&immutable=1' if is_at_rest else ''}"
    try:
        with closing(sqlite3.connect(address, uri=True, timeout=2.0)) as connection:
            asked = iter(range(_MOST_ASKED))
            connection.set_progress_handler(lambda: next(asked, None) is None, _STEPS)
            connection.execute("PRAGMA trusted_schema = OFF")
            connection.row_factory = sqlite3.Row
            query = f"SELECT {_COLUMNS} FROM workflow_node_executions ORDER BY number LIMIT ?"
            return connection.execute(query, (_MOST_EXECUTIONS,)).fetchall()
    except sqlite3.OperationalError as error:
        if "no such table" in str(error):  # nothing has begun yet
            return []
        raise _unreadable(path, error) from error
    except sqlite3.DatabaseError as error:
        raise _unreadable(path, error) from error


def _unreadable(path: Path, error: Exception) -> StoreError:
    return StoreError(Problem("web.bad-executions", f"cannot be read ({error})", Place(path)))


def _nodes(
    known: Sequence[tuple[str, str]], edges: Sequence[Edge], rows: Sequence[sqlite3.Row]
) -> tuple[Node, ...]:
    by_id: dict[str, list[sqlite3.Row]] = {}
    for row in rows:
        by_id.setdefault(str(row["node_id"]), []).append(row)
    types = {**dict(known), **{str(row["node_id"]): str(row["node_type"]) for row in rows}}
    homes = _homes(types, edges, by_id)
    return tuple(_node(name, kind, homes, by_id.get(name, [])) for name, kind in types.items())


def _homes(
    types: Mapping[str, str], edges: Sequence[Edge], rows: Mapping[str, Sequence[sqlite3.Row]]
) -> dict[str, str]:
    """Node -> the one that it stands inside of. What has not run is known by its name or by its place."""
    joined = {name for edge in edges for name in (edge.source, edge.target)}
    homes, container = {}, ""
    for name, kind in types.items():
        row = rows[name][0] if name in rows else None
        parent = name.rpartition(".")[0]
        if row is not None:
            homes[name] = str(row["parent_node_id"] or row["in_node_id"] or "")
        elif parent in types:
            homes[name] = parent
        else:
            homes[name] = container if edges and name not in joined else ""
        if kind in _CONTAINERS and not homes[name]:
            container = name
    return homes


def _node(name: str, kind: str, homes: Mapping[str, str], rows: Sequence[sqlite3.Row]) -> Node:
    home = homes[name] if homes[name] != name else ""
    is_virtual = bool(rows[0]["is_virtual"]) if rows else bool(home) and name.startswith(f"{home}.")
    title = str(rows[0]["title"] or "") if rows else ""
    return Node(name, kind, title, home, is_virtual, tuple(map(_execution, rows)))


def _execution(row: sqlite3.Row) -> Execution:
    done = _read(row["process_data"])
    data = done if isinstance(done, dict) else {}
    usage = data.get("usage")
    tokens = usage.get("total_tokens") if isinstance(usage, dict) else None
    return Execution(
        status=str(row["status"]),
        passes=_passes(row),
        retries=row["retries"] if isinstance(row["retries"], int) else 0,
        prompts=tuple(_prompts(data.get("prompts"))),
        inputs=_shown(_read(row["inputs"])),
        outputs=_shown(_read(row["outputs"])),
        error=str(row["error"] or ""),
        tokens=tokens if isinstance(tokens, int) else None,
        elapsed_s=row["elapsed_s"] if isinstance(row["elapsed_s"], float) else None,
    )


def _passes(row: sqlite3.Row) -> tuple[int, ...]:
    found = _read(row["passes"])
    return tuple(number for number in found if isinstance(number, int)) if isinstance(found, list) else ()


def _prompts(messages: Any) -> list[tuple[str, str]]:
    if not isinstance(messages, list):
        return []
    found = [m for m in messages if isinstance(m, dict)]
    return [(str(m.get("role") or ""), str(m.get("text") or m.get("content") or "")) for m in found]


def _read(text: Any) -> Any:
    try:
        return json.loads(text) if isinstance(text, str) else None
    except (ValueError, RecursionError):
        return str(text)


def _shown(value: Any) -> str:
    """Return a value as a person reads it; a conversation that a node hands on is in its prompts already."""
    if isinstance(value, dict):
        value = {name: part for name, part in value.items() if name not in ("context", "__is_success")}
    return json.dumps(value, ensure_ascii=False, indent=2) if value not in (None, {}, []) else ""


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
    """Return the drawing of a run's workflow; None where nothing is known of it."""
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
