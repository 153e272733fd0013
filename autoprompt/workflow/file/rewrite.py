"""A workflow's file with other prompts in it: only their texts change, comments and layout stay."""

from __future__ import annotations

import textwrap
import uuid
from collections.abc import Iterable, Mapping, Sequence

from autoprompt.errors import InputError
from autoprompt.workflow.file.apps import from_references
from autoprompt.workflow.file.prompt_places import (
    DEMONSTRATIONS,
    Place,
    Text,
    Turns,
    WorkflowSource,
    quoted,
)

_Edit = tuple[int, int, str]  # from, to, and what comes there


def rewritten(
    source: str,
    original: Mapping[str, str],
    texts: Mapping[str, str],
    demonstrations: Mapping[str, Sequence[tuple[str, str]]] | None = None,
) -> str:
    """`source` with the changed ones of `texts` (component -> text) in the place of those in `original`.

    demonstrations: node id -> (input, answer) of each, in the place of those in the file: messages of a node
        that has a list of them, else a key of its data.
    What several nodes share by an alias, and one of them changes, is written out for the others.
    Raises InputError for a text that is not found in the file as it stands.
    """
    changed = [(name, text) for name, text in texts.items() if text != original.get(name)]
    while True:
        read = WorkflowSource(source)
        edits = [_text_edit(read.places, original, name, text) for name, text in changed]
        edits += [
            _turns_edit(read.places, node_id, turns) for node_id, turns in (demonstrations or {}).items()
        ]
        shared = [alias for alias in read.aliases if any(alias.is_of(start) for start, _, _ in edits)]
        if not shared:
            return _edited(source, edits)
        source = _edited(source, [(alias.start, alias.end, alias.content) for alias in shared])


def _edited(source: str, edits: Iterable[_Edit]) -> str:
    newline = "\r\n" if "\r\n" in source else "\n"
    for start, end, text in sorted(edits, reverse=True):
        source = source[:start] + text.replace("\n", newline) + source[end:]
    return source


def _text_edit(places: Mapping[str, Place], original: Mapping[str, str], name: str, text: str) -> _Edit:
    node_id = name.rpartition(".")[0]
    before = original.get(name, "")
    alike = [n for n in original if n.rpartition(".")[0] == node_id and original[n] == before]
    found = [t for t in places[node_id].texts if t.text == before] if node_id in places else []
    if name not in alike or len(found) <= alike.index(name):
        raise InputError(f"{name}: its text does not stand in the workflow's file as it was read")
    place = found[alike.index(name)]
    return place.start, place.end, _written(place, text)


def _written(place: Text, text: str) -> str:
    """A text as YAML: several lines as a block where one can stand, else in quotes."""
    if place.is_app:
        text = from_references(text)
        if place.key:
            end = ", " if place.column is None else "\n" + " " * place.column
            return f"{place.key}: {quoted(text)}{end}"
        if place.start == place.end:  # nothing stands behind the key
            return f" {quoted(text)}"
    if place.head:  # "@llm1.context | prompt"
        return quoted(f"{place.head}| {text}")
    plain = "\n" in text and text == text.strip() and all(c.isprintable() or c == "\n" for c in text)
    if place.column is None or not plain:
        return quoted(text)
    return "|-\n" + textwrap.indent(text, " " * place.column, lambda line: line != "\n")


def _turns_edit(places: Mapping[str, Place], node_id: str, turns: Sequence[tuple[str, str]]) -> _Edit:
    place = places.get(node_id)
    if place is None or place.room is None:
        raise InputError(f"{node_id}: no node of this id stands in the workflow's file")
    if place.turns is not None and place.demonstrations is None:
        return _messages_edit(place.turns, node_id, turns)
    shown = [f"{{user: {quoted(user)}, assistant: {quoted(answer)}}}" for user, answer in turns]
    listed, room = ", ".join(shown), place.room
    if place.demonstrations is not None:
        return *place.demonstrations, f"[{listed}]"
    if room.column is None:
        return room.start, room.start, f"{DEMONSTRATIONS}: [{listed}], "
    indent = " " * room.column
    lines = [f"{DEMONSTRATIONS}:", *(f"{indent}  - {turn}" for turn in shown)]
    return room.start, room.start, "\n".join(lines) + f"\n{indent}"


def _messages_edit(place: Turns, node_id: str, turns: Sequence[tuple[str, str]]) -> _Edit:
    said = [pair for user, answer in turns for pair in (("user", user), ("assistant", answer))]
    if place.column is None:
        entries = [f"{{role: {role}, {place.text_key}: {quoted(text)}}}" for role, text in said]
        listed = ", ".join(entries)
        if not place.is_last:
            return place.start, place.end, f"{listed}, "
        return place.start, place.end, f", {listed}" if place.start == place.end else listed
    indent = "\n" + " " * place.column
    entries = []
    for number, (role, text) in enumerate(said):
        keys = [f"role: {role}", f"{place.text_key}: {quoted(text)}"]
        if place.has_ids:
            keys.insert(0, f"id: {_id(f'{node_id} {number} {role} {text}')}")
        entries.append("- " + f"{indent}  ".join(keys))
    listed = indent.join(entries)
    if not place.is_last:
        return place.start, place.end, listed + indent
    return place.start, place.end, indent + listed if place.start == place.end else listed


def _id(content: str) -> uuid.UUID:
    """An id such as Dify's editor gives a message; the same one each time."""
    return uuid.uuid5(uuid.NAMESPACE_OID, content.encode(errors="replace").decode())
