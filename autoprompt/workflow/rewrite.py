"""A workflow's file with other prompts in it: only their texts change, comments and layout stay."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import yaml

from autoprompt.errors import InputError

_LISTS = ("nodes", "virtual_nodes")  # keys under which nodes stand
DEMONSTRATIONS = "demonstrations"  # key in a node's data: chat turns shown before each of its inputs


@dataclass(frozen=True)
class _Text:
    """A text of the file. column: where a block of it would be indented; None inside of {} and []."""

    node: yaml.ScalarNode
    column: int | None


@dataclass
class _Place:
    """A node of the workflow in the file. data: its mapping; is_flow: whether that is written in {}."""

    data: yaml.MappingNode
    is_flow: bool
    texts: list[_Text] = field(default_factory=list)


@dataclass(frozen=True)
class _Edit:
    start: int
    end: int
    text: str


def rewritten(
    source: str,
    original: Mapping[str, str],
    texts: Mapping[str, str],
    demonstrations: Mapping[str, Sequence[tuple[str, str]]] | None = None,
) -> str:
    """`source` with the changed ones of `texts` (component -> text) in the place of those in `original`.

    demonstrations: node id -> (input, answer) of each, written into the node's data.
    Raises InputError for a text that is not found in the file as it stands.
    """
    root = yaml.compose(source, Loader=yaml.SafeLoader)
    places = {} if root is None else dict(_places(root, ""))
    edits = [_text_edit(source, places, original, name, text) for name, text in _changed(original, texts)]
    for node_id, turns in (demonstrations or {}).items():
        edits += _turn_edits(source, places, node_id, turns)
    newline = "\r\n" if "\r\n" in source else "\n"
    for edit in sorted(edits, key=lambda e: e.start, reverse=True):
        source = source[: edit.start] + edit.text.replace("\n", newline) + source[edit.end :]
    return source


def _changed(original: Mapping[str, str], texts: Mapping[str, str]) -> list[tuple[str, str]]:
    return [(name, text) for name, text in texts.items() if text != original.get(name)]


def _places(node: yaml.Node, prefix: str) -> Iterator[tuple[str, _Place]]:
    """The workflow's nodes by global id, wherever they stand in the file."""
    if isinstance(node, yaml.SequenceNode):
        for part in node.value:
            yield from _places(part, prefix)
    if not isinstance(node, yaml.MappingNode):
        return
    for key, value in node.value:
        if key.value in _LISTS and isinstance(value, yaml.SequenceNode):
            inside = prefix if key.value == "virtual_nodes" else ""
            for part in value.value:
                if isinstance(part, yaml.MappingNode):
                    yield from _node_places(part, inside)
        else:
            yield from _places(value, prefix)


def _node_places(node: yaml.MappingNode, prefix: str) -> Iterator[tuple[str, _Place]]:
    values = {key.value: value for key, value in node.value}
    if not isinstance(values.get("id"), yaml.ScalarNode):
        return
    name = prefix + values["id"].value
    data = values.get("data")
    data = data if isinstance(data, yaml.MappingNode) else node
    place = _Place(data, bool(node.flow_style or data.flow_style))
    place.texts += _texts(data, place.is_flow)
    yield name, place
    yield from _places(node, f"{name}.")


def _texts(node: yaml.Node, is_flow: bool) -> Iterator[_Text]:
    """The texts of a node's data in their order, those of nodes inside left out."""
    is_flow = is_flow or bool(getattr(node, "flow_style", False))
    parts: list[yaml.Node] = []
    if isinstance(node, yaml.MappingNode):
        parts = [value for key, value in node.value if key.value not in _LISTS]
    elif isinstance(node, yaml.SequenceNode):
        parts = list(node.value)
    column = None if is_flow else node.start_mark.column + 2
    for part in parts:
        if isinstance(part, yaml.ScalarNode):
            yield _Text(part, column)
        else:
            yield from _texts(part, is_flow)


def _text_edit(
    source: str, places: Mapping[str, _Place], original: Mapping[str, str], name: str, text: str
) -> _Edit:
    node_id = name.rpartition(".")[0]
    place = places.get(node_id) or places.get(
        node_id.rpartition(".")[0]
    )  # an extraction stands in its parent
    before = original.get(name, "")
    if place is not None:
        alike = [n for n in original if n.rpartition(".")[0] == node_id and original[n] == before]
        found = [t for t in place.texts if t.node.value == before]
        if len(found) > alike.index(name):
            return _replaced(source, found[alike.index(name)], text)
        for short in place.texts:  # "@llm1.context | prompt"
            head, bar, prompt = short.node.value.partition("|")
            if head.startswith("@") and bar and prompt.strip() == before.strip():
                return _replaced(source, short, f"{head}| {text}")
    raise InputError(f"{name}: its text does not stand in the workflow's file as it was read")


def _replaced(source: str, found: _Text, text: str) -> _Edit:
    start, end = found.node.start_mark.index, found.node.end_mark.index
    end = start + len(source[start:end].rstrip())  # a block's end is where the next thing begins
    return _Edit(start, end, _written(text, found.column))


def _written(text: str, column: int | None) -> str:
    """A text as YAML: several lines as a block where one can stand, else in quotes."""
    plain = "\n" in text and text == text.strip() and all(c.isprintable() or c == "\n" for c in text)
    if column is None or not plain:
        return json.dumps(text, ensure_ascii=False)
    return "|-\n" + textwrap.indent(text, " " * column)


def _turn_edits(
    source: str, places: Mapping[str, _Place], node_id: str, turns: Sequence[tuple[str, str]]
) -> list[_Edit]:
    place = places.get(node_id)
    if place is None:
        raise InputError(f"{node_id}: no node of this id stands in the workflow's file")
    shown = [f"{{user: {_quoted(user)}, assistant: {_quoted(answer)}}}" for user, answer in turns]
    column = place.data.start_mark.column
    for key, value in place.data.value:
        if key.value == DEMONSTRATIONS:
            start, end = value.start_mark.index, value.end_mark.index
            end = start + len(source[start:end].rstrip())
            return [_Edit(start, end, f"[{', '.join(shown)}]")]
    start = place.data.start_mark.index
    if place.is_flow:
        return [_Edit(start + 1, start + 1, f"{DEMONSTRATIONS}: [{', '.join(shown)}], ")]
    indent = " " * column
    lines = [f"{DEMONSTRATIONS}:", *(f"{indent}  - {turn}" for turn in shown)]
    return [_Edit(start, start, "\n".join(lines) + f"\n{indent}")]


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)
