"""Drawings of a workflow, as Mermaid and as plain text; virtual nodes stand inside their parent."""

from __future__ import annotations

from collections.abc import Iterator

from autoprompt.workflow.engine.definition import SOURCE, SUCCESS_BRANCH, Definition, GraphEdge, GraphNode


def edges_of(definition: Definition) -> list[GraphEdge]:
    """The edges, those of the list order where none are given; jumps that are known beforehand included."""
    if definition.edges is not None:
        return list(definition.edges)
    edges = []
    for node, following in zip(definition.nodes, (*definition.nodes[1:], None), strict=True):
        target = getattr(getattr(node.executor, "node", None), "next_node_id", None)
        if target is not None:
            edges.append(GraphEdge(node.id, target))
        elif following is not None and node.type != "end":
            edges.append(GraphEdge(node.id, following.id))
    return edges


def mermaid_graph(definition: Definition) -> str:
    """The workflow as a Mermaid flowchart, from top to bottom."""
    return "\n".join(["flowchart TD", *_mermaid(definition, "    ", "")]) + "\n"


def _mermaid(definition: Definition, indent: str, prefix: str) -> Iterator[str]:
    names = {node.id: f"{prefix}n{number}" for number, node in enumerate(definition.nodes)}
    for node in definition.nodes:
        yield from _mermaid_node(node, names[node.id], indent)
    for edge in edges_of(definition):
        label = "" if edge.handle in (SOURCE, SUCCESS_BRANCH) else f'|"{_quoted(edge.handle)}"|'
        yield f"{indent}{names[edge.source]} -->{label} {names[edge.target]}"


def _mermaid_node(node: GraphNode, name: str, indent: str) -> Iterator[str]:
    label = f'["{_quoted(_label(node))}"]'
    if not node.children and node.inner is None:
        yield f"{indent}{name}{label}"
        return
    yield f"{indent}subgraph {name}{label}"
    inside = indent + "    "
    previous = None
    for number, child in enumerate(node.children):
        child_name = f"{name}v{number}"
        yield from _mermaid_node(child.node, child_name, inside)
        if previous is not None:
            yield f"{inside}{previous} -.-> {child_name}"
        previous = child_name
    if node.inner is not None:
        yield from _mermaid(node.inner, inside, f"{name}i")
    yield f"{indent}end"


def _label(node: GraphNode) -> str:
    shown = node.id if node.title in ("", node.id) else f"{node.id}: {node.title}"
    return f"{shown} ({node.type})"


def _quoted(text: str) -> str:
    return text.replace('"', "#quot;").replace("\n", " ")


def ascii_graph(definition: Definition) -> str:
    """The workflow as lines of text: each node with what follows it, what is inside it indented below."""
    return "\n".join(_lines(definition, "")) + "\n"


def _lines(definition: Definition, indent: str) -> Iterator[str]:
    edges = edges_of(definition)
    for node in definition.nodes:
        following = [
            edge.target if edge.handle in (SOURCE, SUCCESS_BRANCH) else f"{edge.target} [{edge.handle}]"
            for edge in edges
            if edge.source == node.id
        ]
        arrow = f" -> {', '.join(following)}" if following else ""
        yield f"{indent}{_label(node)}{arrow}"
        yield from _inside(node, indent + "    ")


def _inside(node: GraphNode, indent: str) -> Iterator[str]:
    for child in node.children:
        yield f"{indent}* {_label(child.node)}"
        yield from _inside(child.node, indent + "    ")
    if node.inner is not None:
        yield from _lines(node.inner, indent)
