"""Write other prompts into a workflow's file: only their texts change, comments and layout stay.

`WorkflowSource` finds where each prompt is in the file; `rewritten` replaces it there.
"""

from __future__ import annotations

import re
import textwrap
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import yaml

from autoprompt.errors import InputError
from autoprompt.settings.yaml_file import Composer, quoted, safe_load
from autoprompt.workflow.engine.extraction import PLACES, SHORTHAND, free_ids
from autoprompt.workflow.file import apps
from autoprompt.workflow.file.apps import from_references
from autoprompt.workflow.file.model_records import shown_turns

_Edit = tuple[int, int, str]  # from, to, and what comes there
_INSTRUCTIONS = ("instruction", "instructions")
_MERGE, _STR, _NULL = (f"tag:yaml.org,2002:{name}" for name in ("merge", "str", "null"))
_DASH = re.compile(r"^[ \t]*(-)(?=\s)", re.MULTILINE)  # of an entry in a block
DEMONSTRATIONS = "demonstrations"  # key in a node's data: chat turns shown before each of its inputs
_Pairs = dict[str, tuple[yaml.Node, yaml.Node]]


def rewritten(
    source: str,
    original: Mapping[str, str],
    texts: Mapping[str, str],
    demonstrations: Mapping[str, Sequence[tuple[str, str]]] | None = None,
) -> str:
    """Return `source` with the changed ones of `texts` (component -> text) in place of the original ones.

    Args:
        demonstrations: Node id -> (input, answer) of each. They replace those in the file: as messages if the
            node has a list of messages, else under a key of its data.

    A text that several nodes share by an alias is written out for each if one of them changes.

    Raises:
        InputError: A text or node that changes is not in `source`.
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
        raise InputError(f"{name}: its text is not in the workflow's file as it was read")
    place = found[alike.index(name)]
    return place.start, place.end, _written(place, text)


def _written(place: Text, text: str) -> str:
    """Return a text as YAML: several lines as a block where one can stand, else in quotes."""
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
        raise InputError(f"{node_id}: no node with this id is in the workflow's file")
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
    """Return an id such as Dify's editor gives a message; the same one each time."""
    return uuid.uuid5(uuid.NAMESPACE_OID, content.encode(errors="replace").decode())


@dataclass(frozen=True)
class Text:
    """A prompt in the file. column: where a block of it would be indented; None inside of {} and [].

    head: what stands before it in an extraction's short form, up to the bar.
    is_app: whether it is written as in an app without a graph, see `apps.from_references`.
    key: written before it if the file lacks the key; `column` is that of the key then.
    """

    text: str
    start: int
    end: int
    column: int | None
    head: str = ""
    is_app: bool = False
    key: str = ""


@dataclass(frozen=True)
class Room:
    """Where an entry can be put into a node's data. column: of its first key; None inside of {}."""

    start: int
    column: int | None


@dataclass(frozen=True)
class Turns:
    """Where demonstrations are in a list of messages: from `start` to `end`, which are equal without any.

    column: of the dashes of the list; None inside of []. text_key: `text` or `content`. has_ids: whether each
    message has an id. is_last: whether no message follows.
    """

    start: int
    end: int
    column: int | None
    text_key: str
    has_ids: bool
    is_last: bool


@dataclass(frozen=True)
class Place:
    """A node in the file. room: None for an extraction. demonstrations: from where to where they stand.

    turns: where they are if the node has a list of messages.
    """

    texts: tuple[Text, ...]
    room: Room | None = None
    demonstrations: tuple[int, int] | None = None
    turns: Turns | None = None


@dataclass(frozen=True)
class Alias:
    """`*name` in the file, and what it stands for."""

    start: int
    end: int
    node: yaml.Node

    def is_of(self, position: int) -> bool:
        """Return whether it stands for what is written there."""
        return bool(self.node.start_mark.index <= position < self.node.end_mark.index)

    @property
    def content(self) -> str:
        """What it stands for, in one line."""
        return _in_one_line(self.node)


class WorkflowSource:
    """The text of a workflow's file, looked through.

    places: nodes and extractions by global id.

    Raises:
        yaml.YAMLError: The text is not YAML.
    """

    def __init__(self, source: str) -> None:
        composer = _Composer(source)
        self._source = source
        self._root = composer.get_single_node()
        self._flows = composer.flows
        self.aliases: list[Alias] = composer.aliases

    @cached_property
    def places(self) -> dict[str, Place]:
        graph = _pairs(self._root)
        mode = _value(_pairs(_value(graph, "app")), "mode") or _value(graph, "mode")
        if apps.CONFIG in graph and mode is not None and mode.value in apps.MODES:
            return self._app_places(graph[apps.CONFIG][1], mode.value)
        for name in ("workflow", "graph"):  # of an export
            graph = _pairs(_value(graph, name)) or graph
        return dict(self._places(_value(graph, "nodes"), ""))

    def _places(self, nodes: yaml.Node | None, prefix: str) -> Iterator[tuple[str, Place]]:
        for node in nodes.value if isinstance(nodes, yaml.SequenceNode) else ():
            pairs = _pairs(node)
            written, data = _value(pairs, "id"), _value(pairs, "data")
            if isinstance(written, yaml.ScalarNode) and isinstance(data, yaml.MappingNode):
                yield from self._places_of(prefix + written.value, data)

    def _places_of(self, name: str, data: yaml.MappingNode) -> Iterator[tuple[str, Place]]:
        own = _pairs(data)
        shown = self._span(own[DEMONSTRATIONS][1]) if DEMONSTRATIONS in own else None
        yield name, Place(tuple(self._texts(own)), self._room(data), shown, self._turns(own))
        for local_id, text in zip(_free_ids(own), self._extractions(own), strict=False):
            yield f"{name}.{local_id}", Place((text,))
        yield from self._places(_value(own, "virtual_nodes"), f"{name}.")
        yield from self._places(_value(own, "nodes"), "")

    def _app_places(self, written: yaml.Node, mode: str) -> dict[str, Place]:
        settings = safe_load(self._source)[apps.CONFIG]
        app, config = apps.App(settings, mode), _pairs(written)
        prompts = [config[app.prompt_key]] if app.prompt_key in config else []
        if app.prompt_key != "pre_prompt":
            messages = _pairs(prompts[0][1])[apps.messages_key(settings[app.prompt_key])]
            prompts = list(_messages({"prompt_template": messages}))
        texts = []
        for place, node in prompts:
            if isinstance(node, yaml.ScalarNode):
                value = "" if node.tag == _NULL else node.value
                text = self._text(place, node, app.to_references(value))
                texts.append(replace(text, is_app=True))
        if not prompts and isinstance(written, yaml.MappingNode):
            room = self._room(written)
            texts = [Text("", room.start, room.start, room.column, is_app=True, key=app.prompt_key)]
        return {app.model_id: Place(tuple(texts))}

    def _turns(self, data: _Pairs) -> Turns | None:
        template = _value(data, "prompt_template")
        if not isinstance(template, yaml.SequenceNode) or not template.value:
            return None
        listed = template.value
        if not all(_is_inside(entry, template) for entry in listed):
            return None
        messages = [_pairs(entry) for entry in listed]
        said = [_role_and_text(message) for message in messages]
        has_memory = "memory" in data and data["memory"][1].tag != _NULL
        first, last = shown_turns(said, has_memory=has_memory)
        if first == last:  # before the first message that is none of the system's
            first = last = next((n for n, (role, _) in enumerate(said) if role != "system"), len(said))
        starts = [*self._entry_starts(template), self._span(template)[1] - bool(template.flow_style)]
        if len(starts) != len(listed) + 1:  # a list in the line of another one's dash
            return None
        line = self._source.rfind("\n", 0, starts[0]) + 1
        return Turns(
            starts[first],
            starts[last],
            None if template.flow_style else starts[0] - line,
            "content" if "content" in messages[0] else "text",
            all("id" in message for message in messages),
            last == len(listed),
        )

    def _entry_starts(self, template: yaml.SequenceNode) -> list[int]:
        """Return where the entries of a list begin: in a block at their dashes."""
        if template.flow_style:
            return [entry.start_mark.index for entry in template.value]
        found = []
        begin = self._source.rfind("\n", 0, template.start_mark.index) + 1
        for entry in template.value:
            end = entry.start_mark.index
            found += [match.start(1) for match in _DASH.finditer(self._source, begin, end)][-1:]
            begin = end
        return found

    def _texts(self, data: _Pairs) -> Iterator[Text]:
        """Yield the prompts of a node's own, in their order: of its messages, of its instruction."""
        parameters = _value(data, "agent_parameters")
        for key, value in (*_messages(data), *_instructions(data), *_instructions(_pairs(parameters))):
            if isinstance(value, yaml.ScalarNode):
                yield self._text(key, value, value.value)

    def _extractions(self, data: _Pairs) -> Iterator[Text]:
        """Yield the prompts of a node's extractions, in the order in which they are numbered (`desugar`)."""
        for name in data:
            for key, value in _values(data[name][1]) if name in PLACES else ():
                if not isinstance(value, yaml.ScalarNode):
                    pairs = _pairs(value)
                    prompt = _value(pairs, "extraction_prompt")
                    if isinstance(prompt, yaml.ScalarNode):
                        yield self._text(pairs["extraction_prompt"][0], prompt, prompt.value)
                elif match := SHORTHAND.fullmatch(value.value):
                    yield self._text(key, value, match[3], value.value.partition("|")[0])

    def _text(self, key: yaml.Node, node: yaml.ScalarNode, text: str, head: str = "") -> Text:
        start, end = self._span(node)
        column = self._column(key)
        return Text(text, start, end, None if column is None else column + 2, head)

    def _room(self, data: yaml.MappingNode) -> Room:
        if not data.value:
            return Room(data.end_mark.index - 1, None)
        key = data.value[0][0]
        return Room(key.start_mark.index, self._column(key))

    def _column(self, key: yaml.Node) -> int | None:
        start = key.start_mark
        return None if any(a <= start.index < b for a, b in self._flows) else start.column

    def _span(self, node: yaml.Node) -> tuple[int, int]:
        start, end = node.start_mark.index, node.end_mark.index
        # A block's end is where the next thing begins.
        return start, start + len(self._source[start:end].rstrip())


class _Composer(Composer):
    """Composes the file's tree and notes where aliases and what is in {} and [] stand."""

    def __init__(self, source: str) -> None:
        super().__init__(source)
        self.aliases: list[Alias] = []
        self.flows: list[tuple[int, int]] = []

    def compose_node(self, parent: yaml.Node | None, index: Any) -> Any:
        event: Any = self.peek_event()  # type: ignore[no-untyped-call]
        span = event.start_mark.index, event.end_mark.index
        node: Any = super().compose_node(parent, index)
        if node is not None and isinstance(event, yaml.AliasEvent):
            self.aliases.append(Alias(*span, node))
        elif getattr(node, "flow_style", False):
            self.flows.append((node.start_mark.index, node.end_mark.index))
        return node


def _pairs(node: yaml.Node | None) -> _Pairs:
    """Keys and values of a mapping by name, what it takes over by `<<` first; of anything else none."""
    pairs: _Pairs = {}
    own: _Pairs = {}
    for key, value in node.value if isinstance(node, yaml.MappingNode) else ():
        if key.tag == _MERGE:
            for part in reversed(value.value if isinstance(value, yaml.SequenceNode) else [value]):
                pairs |= _pairs(part)
        elif isinstance(key, yaml.ScalarNode):
            own[key.value] = key, value
    return pairs | own


def _value(pairs: _Pairs, name: str) -> yaml.Node | None:
    return pairs[name][1] if name in pairs else None


def _messages(data: _Pairs) -> Iterator[tuple[yaml.Node, yaml.Node]]:
    if "prompt_template" not in data:
        return
    key, template = data["prompt_template"]
    if isinstance(template, yaml.ScalarNode):
        yield key, template
    for message in template.value if isinstance(template, yaml.SequenceNode) else [template]:
        pairs = _pairs(message)
        edition = _value(pairs, "edition_type")
        names = ("jinja2_text",) if edition is not None and edition.value == "jinja2" else ("text", "content")
        yield from [pairs[name] for name in names if name in pairs][:1]


def _role_and_text(message: _Pairs) -> tuple[str, str]:
    """Role and text of a message; a template of Jinja has no text here."""
    role, edition = _value(message, "role"), _value(message, "edition_type")
    text = _value(message, "text") or _value(message, "content")
    is_template = edition is not None and edition.value == "jinja2"
    return "user" if role is None else str(role.value), "" if text is None or is_template else str(text.value)


def _is_inside(node: yaml.Node, around: yaml.Node) -> bool:
    """Return whether a node stands there itself, and not an alias of it."""
    return bool(around.start_mark.index <= node.start_mark.index < around.end_mark.index)


def _instructions(data: _Pairs) -> Iterator[tuple[yaml.Node, yaml.Node]]:
    for name in _INSTRUCTIONS:
        if name in data:
            yield data[name]
            yield from [pair for inner, pair in _pairs(data[name][1]).items() if inner == "value"]


def _values(holder: yaml.Node) -> Iterator[tuple[yaml.Node, yaml.Node]]:
    """Yield what may be an extraction: an entry, or the `value` of one."""
    entries = list(_pairs(holder).values())
    if isinstance(holder, yaml.SequenceNode):
        entries = [(part, part) for part in holder.value]
    for key, entry in entries:
        inner = _pairs(entry)
        if "value" in inner:
            yield inner["value"]
        elif isinstance(entry, yaml.ScalarNode):
            yield key, entry


def _free_ids(data: _Pairs) -> Iterator[str]:
    """Ids of extractions: those that no virtual node has taken."""
    children = _value(data, "virtual_nodes")
    listed = children.value if isinstance(children, yaml.SequenceNode) else []
    ids = [_value(_pairs(child), "id") for child in listed]
    return free_ids({node.value for node in ids if node is not None})


def _in_one_line(node: yaml.Node) -> str:
    if isinstance(node, yaml.MappingNode):
        return "{" + ", ".join(f"{_in_one_line(k)}: {_in_one_line(v)}" for k, v in node.value) + "}"
    if isinstance(node, yaml.SequenceNode):
        return "[" + ", ".join(map(_in_one_line, node.value)) + "]"
    text = str(node.value)
    return quoted(text) if node.tag == _STR else text or "null"
