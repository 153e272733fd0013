"""Conversations in rows: lists of turns as OpenAI, ShareGPT or LangChain write them, read into messages."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from typing import Any

from autoprompt.dataset.faults import Faults, NeedsTarget, always
from autoprompt.dataset.reading import read_records
from autoprompt.errors import DatasetError, Problem
from autoprompt.records import Example, Message, Role, ToolCall, question, text_of
from autoprompt.settings.sidecar import find_dataset
from autoprompt.text.files import json_value
from autoprompt.text.python_source import read_literal
from autoprompt.text.scripts import lazy

_ROLES: Mapping[str, Mapping[str, Role]] = {
    "OpenAI": {
        "system": "system", "developer": "system", "user": "user", "assistant": "assistant",
        "tool": "tool", "function": "tool", "human": "user", "ai": "assistant", "model": "assistant",
    },
    "ShareGPT": {
        "system": "system", "human": "user", "user": "user", "gpt": "assistant", "assistant": "assistant",
        "chatgpt": "assistant", "bing": "assistant", "bard": "assistant", "model": "assistant",
        "function_call": "assistant", "tool_call": "assistant",
        "tool": "tool", "function": "tool", "observation": "tool", "function_response": "tool",
    },
    "LangChain": {
        "system": "system", "human": "user", "ai": "assistant", "tool": "tool", "function": "tool",
        "SystemMessage": "system", "HumanMessage": "user", "AIMessage": "assistant", "ToolMessage": "tool",
        "FunctionMessage": "tool", "HumanMessageChunk": "user", "AIMessageChunk": "assistant",
        "SystemMessageChunk": "system", "ToolMessageChunk": "tool", "FunctionMessageChunk": "tool",
    },
}  # fmt: skip
_FOLDED = {form: {name.casefold(): role for name, role in roles.items()} for form, roles in _ROLES.items()}
_CALLS = ("function_call", "tool_call")  # ShareGPT's roles whose value is a call as JSON
_TEXT_PARTS = ("text", "input_text", "output_text")
_OWN_PARTS = ("tool_use", "tool_call", "thinking", "reasoning", "redacted_thinking")  # of LangChain's answers
_EXAMPLE = '[{"role": "user", "content": "..."}]'


class NoConversationError(ValueError):
    """A list or an object that is no conversation that can be sent.

    Args:
        said: Why, as a clause.
        path: The keys under which an object holds a conversation; () if it holds none.
    """

    def __init__(self, said: str, path: tuple[str, ...] = ()) -> None:
        super().__init__(said)
        self.path = path


class TurnReader:
    """Reads the turns of one conversation, which share a form and number their tool calls."""

    def __init__(self) -> None:
        self._form = ""
        self._calls: dict[str, bool] = {}  # id -> whether a tool has answered it
        self._place = ""

    def read(self, number: int, turn: object) -> Message:
        """Return the message of a turn. number: Of the turn, from 1.

        Raises:
            NoConversationError: With the turn that is at fault.
        """
        self._place = f"turn {number}"
        turn = as_turn(turn)
        if not isinstance(turn, Mapping):
            raise NoConversationError(f"element {number} is {_kind(turn)}, expected {_EXAMPLE}")
        form = form_of(turn)
        if not form:
            keys = ", ".join(map(repr, turn)) or "none"
            raise NoConversationError(f"element {number} has no role and content (its keys: {keys})")
        if self._form and form != self._form:
            raise NoConversationError(
                f"{self._place} is written as {form} does, but the turns before it as {self._form} does"
            )
        self._form = form
        # Parquet gives every turn the keys of all turns, null where a turn has none.
        given = {name: value for name, value in turn.items() if value is not None}
        return {"OpenAI": self._openai, "ShareGPT": self._sharegpt, "LangChain": self._langchain}[form](given)

    def _openai(self, turn: Mapping[str, Any]) -> Message:
        role = self._role(turn["role"])
        calls = self._new_calls(turn.get("tool_calls") or _alone(turn.get("function_call")))
        content = turn.get("content", turn.get("parts"))  # the second as Gemini has it
        return self._message(role, content, calls, turn.get("tool_call_id"))

    def _sharegpt(self, turn: Mapping[str, Any]) -> Message:
        role, value = self._role(turn["from"]), turn.get("value", turn.get("content"))
        if turn["from"] in _CALLS and isinstance(value, str):
            read = json_value(value)
            found = read if isinstance(read, list) else [read]
            if found and all(isinstance(call, Mapping) and "name" in call for call in found):
                return self._message(role, None, self._new_calls(found), None)
        return self._message(role, value, (), None)

    def _langchain(self, turn: Mapping[str, Any]) -> Message:
        named, data = turn.get("type"), turn
        if isinstance(turn.get("kwargs"), Mapping):  # as `dumpd` writes it
            data = turn["kwargs"]
            named = data.get("type") or turn["id"][-1]
        elif isinstance(turn.get("data"), Mapping):  # as `messages_to_dict` writes it
            data = turn["data"]
        role = self._role(data.get("role"), "OpenAI") if named == "chat" else self._role(named)
        more = data.get("additional_kwargs")
        more = more if isinstance(more, Mapping) else {}
        calls = data.get("tool_calls") or more.get("tool_calls") or _alone(more.get("function_call"))
        content = data.get("content")
        if isinstance(content, list) and role == "assistant":
            content = [p for p in content if not (isinstance(p, Mapping) and p.get("type") in _OWN_PARTS)]
        return self._message(role, content, self._new_calls(calls), data.get("tool_call_id"))

    def _role(self, name: object, form: str = "") -> Role:
        known = _FOLDED[form or self._form]
        if not isinstance(name, str) or name.casefold() not in known:
            names = ", ".join(name for name in _ROLES[form or self._form] if name.islower())
            raise NoConversationError(f"{self._place} has the unknown role {name!r} (known: {names})")
        return known[name.casefold()]

    def _message(self, role: Role, content: object, calls: Sequence[ToolCall], given_id: object) -> Message:
        call_id = "" if given_id is None else str(given_id)
        if calls and role != "assistant":
            raise NoConversationError(f"{self._place} calls a tool, but its role is {role}, not assistant")
        if content is None and not calls:
            raise NoConversationError(f"{self._place} has no content")
        if role != "tool":
            return Message(role, "" if content is None else self._text(content), tuple(calls))
        if call_id and call_id not in self._calls:
            raise NoConversationError(
                f"{self._place} answers the tool call {call_id!r}, but no turn before it makes that call"
            )
        # Without an id a tool answers the first call that is open; of calls in plain text none is known.
        answered = call_id or next((call for call, is_done in self._calls.items() if not is_done), "")
        if answered:
            self._calls[answered] = True
        return Message(role, self._text(content), tool_call_id=answered)

    def _new_calls(self, calls: Any) -> tuple[ToolCall, ...]:
        made = []
        for call in calls if isinstance(calls, list) else [calls]:
            function = call.get("function", call) if isinstance(call, Mapping) else {}
            if not isinstance(function, Mapping) or not isinstance(function.get("name"), str):
                raise NoConversationError(f"{self._place} calls a tool without a name")
            given = function.get("arguments", function.get("args"))
            arguments = given if isinstance(given, str) else text_of({} if given is None else given)
            call_id = str(call.get("id") or f"call_{len(self._calls) + 1}")
            self._calls[call_id] = False
            made.append(ToolCall(call_id, function["name"], arguments))
        return tuple(made)

    def _text(self, content: object) -> str:
        """Return the text of a turn; of several parts all, each in lines of its own."""
        if isinstance(content, str):
            return content
        if not isinstance(content, Sequence):
            raise NoConversationError(f"{self._place} has {_kind(content)} as content, expected a text")
        return "\n".join(map(self._part, content))

    def _part(self, part: object) -> str:
        if isinstance(part, str):
            return part
        if not isinstance(part, Mapping):
            raise NoConversationError(f"{self._place} has {_kind(part)} as a part, expected a text")
        kind = part.get("type")
        text = part.get("refusal") if kind == "refusal" else part.get("text")
        if kind not in (None, *_TEXT_PARTS, "refusal") or not isinstance(text, str):
            of = (
                f"of type {kind!r}" if kind is not None else f"with {', '.join(map(repr, part)) or 'nothing'}"
            )
            raise NoConversationError(f"{self._place} has a part {of}, but only text can be sent")
        return text


def _alone(call: object) -> list[object]:
    """Return the call of a turn that can have only one, as a list."""
    return [] if call is None else [call]


def as_turn(value: object) -> object:
    """Return a pair of role and text, as LangChain takes it, as a turn; any other value as it is."""
    if isinstance(value, list | tuple) and len(value) == 2 and all(isinstance(part, str) for part in value):
        role, content = value
        if role.casefold() in _FOLDED["OpenAI"]:
            return {"role": role, "content": content}
    return value


def form_of(turn: Mapping[str, Any]) -> str:
    """Return whose form a turn has: "OpenAI", "ShareGPT" or "LangChain"; "" if it is no turn."""
    named = turn.get("type")
    if named == "chat" or (turn.get("role") is None and named is not None and _is_langchain(turn)):
        return "LangChain"
    if turn.get("role") is not None:
        return "OpenAI"
    is_sharegpt = turn.get("from") is not None and ("value" in turn or "content" in turn)
    return "ShareGPT" if is_sharegpt else ""


def _is_langchain(turn: Mapping[str, Any]) -> bool:
    if isinstance(turn.get("kwargs"), Mapping):
        return isinstance(turn.get("id"), list) and bool(turn["id"]) and "content" in turn["kwargs"]
    return "content" in turn or isinstance(turn.get("data"), Mapping)


def _kind(value: object) -> str:
    kinds: dict[type, str] = {dict: "an object", list: "a list", str: "a text", bool: "true or false"}
    return "null" if value is None else kinds.get(type(value), "a number")


SYSTEM_FIELD = "system"  # the placeholder that a conversation's own system turn fills, unless a column has it
_MOST_DEPTH = 4  # to which an object is searched for a conversation in it
_LONGEST_TEXT = 2_000_000  # characters of a text that is read as turns, which takes a second
_TURNS_BEGIN = lazy(r"\s*\[\s*[{\[(]")
_NO_COMMA = lazy(r"\}\s*\n\s*\{")  # between two turns: a line break within a text is escaped


@dataclass(frozen=True, slots=True)
class Conversation:
    """A conversation as a row holds it.

    Args:
        value: The turns as the file has them.
        all_turns: The same as messages.
    """

    value: Sequence[Any]
    all_turns: tuple[Message, ...]

    @property
    def _opening(self) -> tuple[Message, ...]:
        return tuple(takewhile(lambda turn: turn.role == "system", self.all_turns))

    @property
    def system(self) -> str | None:
        """Return the text of the system turns at the start; None if there are none."""
        return "\n\n".join(turn.content for turn in self._opening) if self._opening else None

    @property
    def turns(self) -> tuple[Message, ...]:
        """Return the turns after the system's."""
        return self.all_turns[len(self._opening) :]

    @property
    def content(self) -> str:
        """Return all of it as one text, the same for equal turns in any form."""
        return json.dumps([turn.to_dict() for turn in self.all_turns], ensure_ascii=False)

    @property
    def has_answer(self) -> bool:
        """Whether it ends with an answer of the assistant."""
        last = self.all_turns[-1]
        return last.role == "assistant" and not last.tool_calls

    def without_answer(self) -> Conversation:
        """Return the conversation without its last turn."""
        return Conversation(self.value[:-1], self.all_turns[:-1])


def read_conversation(value: object) -> Conversation:
    """Return the conversation that a value of a row is.

    Raises:
        NoConversationError: For any other value, with the turn that is at fault.
    """
    if isinstance(value, Mapping):
        path = next(_paths(value, ()), ())
        at = f" with a conversation at {'.'.join(path)}" if path else ""
        raise NoConversationError(f"it is an object{at}", path)
    if not isinstance(value, Sequence) or isinstance(value, str):
        raise NoConversationError("it is not a list of turns")
    if not value:
        raise NoConversationError("the list is empty")
    reader = TurnReader()
    turns = tuple(reader.read(number, turn) for number, turn in enumerate(value, 1))
    _check(turns)
    return Conversation(value, turns)


def as_conversation(value: object) -> Conversation | None:
    """Return the conversation that a value is; None if it is none."""
    if not isinstance(value, list):
        return None
    try:
        return read_conversation(value)
    except NoConversationError:
        return None


def looks_like_turns(value: object) -> bool:
    """Return whether a list was meant as a conversation, however broken it is."""
    return isinstance(value, list) and any(
        isinstance(turn, Mapping) and form_of(turn) for turn in map(as_turn, value)
    )


def no_conversation(row: Example, field: str, *, also: str = "") -> Problem | None:
    """Return why a row's input cannot be sent as a message; None if it can.

    Args:
        row: A row.
        field: Of the input.
        also: Another way to fix an input that was not meant as a conversation, as a sentence.
    """
    if row.turns or not isinstance(row.input, list | dict):
        return None
    try:
        read_conversation(row.input)
        said, path = "", tuple[str, ...]()
    except NoConversationError as error:
        said, path = str(error), error.path
    if looks_like_turns(row.input):
        return broken_conversation(field, said)
    others = [name for name in conversation_fields(row.fields) if name != field]
    settings = {"input_field": others[0] if others else "<FIELD>"}
    fix = "Name a field that holds a text or a conversation as {input_field}."
    if path:
        fix = f"Make {'.'.join((field, *path))} a field of its own, and name it as {{input_field}}."
    said = f"the input {field!r} is not a conversation: {said}"
    fix = f"{fix} {also}".rstrip()
    return Problem("dataset.not-a-conversation", said, fix=fix, settings=settings)


def broken_conversation(field: str, fault: str) -> Problem:
    """Return the problem of turns that cannot be sent. field: Of the input. fault: Why, as a clause."""
    said = f"the conversation {field!r} cannot be sent: {fault}"
    return Problem("dataset.broken-conversation", said, fix="Correct the row, or leave it out.")


def conversation_fields(record: Mapping[str, Any]) -> list[str]:
    """Return the names of the fields that hold a conversation."""
    return [str(name) for name, value in record.items() if as_conversation(value) is not None]


def turns_in_text(text: object) -> list[Any] | None:
    """Return the turns that a text is, as tables have them; None for any other text.

    Written as JSON, or as Python shows a list: pandas and the `csv` module write such columns so. NumPy
    leaves out the commas between the turns.
    """
    if not isinstance(text, str) or len(text) > _LONGEST_TEXT or not _TURNS_BEGIN.match(text):
        return None
    for read in (json.loads, read_literal, lambda shown: read_literal(_NO_COMMA.sub("}, {", shown))):
        try:
            value = read(text.strip())
        except (ValueError, SyntaxError, RecursionError, MemoryError):
            continue
        return value if looks_like_turns(value) else None
    return None


def _check(turns: Sequence[Message]) -> None:
    """Raise NoConversationError for turns that nobody could answer."""
    for number, turn in enumerate(turns, 1):
        if "\0" in turn.shown:
            raise NoConversationError(f"turn {number} holds a NUL character")
    if not any(turn.role == "user" for turn in turns):
        raise NoConversationError("the user has no turn in it")
    if not question(turns).strip():
        raise NoConversationError("the last turn of the user is empty")


def _paths(value: object, path: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    """Yield the keys under which a value holds conversations."""
    if as_conversation(value) is not None:
        yield path
    elif isinstance(value, Mapping) and len(path) < _MOST_DEPTH:
        for name, part in value.items():
            yield from _paths(part, (*path, str(name)))


def shared_system(files: Iterable[Path], input_field: str) -> str | None:
    """Return the system turn that all conversations of these files begin with; None if they differ.

    Faults of a file are reported when its rows are loaded.
    """
    found: set[str | None] = set()
    try:
        for path in map(find_dataset, files):
            for _, record in read_records(path, Faults(path), {}):
                chat = as_conversation(record.get(input_field))
                found.add(None if chat is None else chat.system)
                if None in found or len(found) > 1:
                    return None
    except DatasetError:
        return None
    return next(iter(found), None)


Opened = tuple[Mapping[str, Any], Conversation | None]


def open_conversation(
    record: Mapping[str, Any], input_field: str, target_field: str, *, needs_target: NeedsTarget = always
) -> Opened:
    """Return the record as it is read, and the conversation that is its input, if it is one.

    If the record has no target, an assistant's turn at the end becomes the target. The system turn at the
    start becomes the field `system`, unless the record has one.

    Raises:
        NoConversationError: If the record has no target, needs one, and the input ends with no such turn.
    """
    value = record.get(input_field)
    if not isinstance(value, list | dict):
        return record, None
    changed = dict(record)
    if record.get(target_field) is not None:
        found = as_conversation(value)
    elif ((found := as_conversation(value)) is None or not found.has_answer) and not needs_target():
        pass
    else:
        found = read_conversation(value)
        last = found.all_turns[-1]
        if not found.has_answer:
            ends = "a tool call" if last.tool_calls else f"a turn of the {last.role}"
            raise NoConversationError(f"it ends with {ends}")
        found = found.without_answer()
        changed[target_field] = last.content
    if found is not None:
        changed[input_field] = found.value
        if found.system is not None:
            changed.setdefault(SYSTEM_FIELD, found.system)
    return changed, found
