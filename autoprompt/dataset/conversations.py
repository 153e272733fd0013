"""Conversations in rows: lists of turns as OpenAI, ShareGPT and LangChain write them, read into messages."""

from __future__ import annotations

import ast
import json
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from typing import Any

from autoprompt.dataset.faults import Faults
from autoprompt.dataset.reading import read_records
from autoprompt.dataset.turns import NoConversationError, TurnReader, as_turn, form_of
from autoprompt.errors import DatasetError, Problem
from autoprompt.records import Example, Message, question
from autoprompt.settings.sidecar import find_dataset
from autoprompt.text.patterns import lazy

SYSTEM_FIELD = "system"  # the placeholder that a conversation's own system turn fills, unless a column has it
_MOST_DEPTH = 4  # to which an object is searched for a conversation in it
_LONGEST_TEXT = 2_000_000  # characters of a text that is read as turns, which takes a second
_TURNS_BEGIN = lazy(r"\s*\[\s*[{\[(]")
_NO_COMMA = lazy(r"\}\s*\n\s*\{")  # between two turns: a line break within a text is escaped


@dataclass(frozen=True, slots=True)
class Conversation:
    """A conversation as a row holds it.

    value: the turns as the file has them. all_turns: the same as messages. system: the text of the system
        turns at its start; None if there are none. turns: those that follow.
    """

    value: Sequence[Any]
    all_turns: tuple[Message, ...]

    @property
    def _opening(self) -> tuple[Message, ...]:
        return tuple(takewhile(lambda turn: turn.role == "system", self.all_turns))

    @property
    def system(self) -> str | None:
        return "\n\n".join(turn.content for turn in self._opening) if self._opening else None

    @property
    def turns(self) -> tuple[Message, ...]:
        return self.all_turns[len(self._opening) :]

    @property
    def content(self) -> str:
        """All of it as one text, the same for equal turns in any form."""
        return json.dumps([turn.to_dict() for turn in self.all_turns], ensure_ascii=False)

    def without_answer(self) -> Conversation:
        return Conversation(self.value[:-1], self.all_turns[:-1])


def read_conversation(value: object) -> Conversation:
    """Return the conversation that a value of a row is.

    Raises NoConversationError for any other value, with the turn that is at fault.
    """
    if isinstance(value, Mapping):
        path = next(_paths(value, ()), ())
        at = f" with a conversation at {'.'.join(path)}" if path else ""
        raise NoConversationError(f"an object{at}", path)
    if not isinstance(value, Sequence) or isinstance(value, str):
        raise NoConversationError("not a list of turns")
    if not value:
        raise NoConversationError("an empty list")
    reader = TurnReader()
    turns = tuple(reader.read(number, turn) for number, turn in enumerate(value, 1))
    _check(turns)
    return Conversation(value, turns)


def as_conversation(value: object) -> Conversation | None:
    """Return the conversation that a value is, None for a value that is none."""
    if not isinstance(value, list):
        return None
    try:
        return read_conversation(value)
    except NoConversationError:
        return None


def looks_like_turns(value: object) -> bool:
    """Whether a list was meant as a conversation, however broken it is."""
    return isinstance(value, list) and any(
        isinstance(turn, Mapping) and form_of(turn) for turn in map(as_turn, value)
    )


def no_conversation(row: Example, field: str) -> Problem | None:
    """Return why a row's input cannot be sent as a message; None if it can.

    field: Of the input.
    """
    if row.turns or not isinstance(row.input, list | dict):
        return None
    said, path = "", tuple[str, ...]()
    try:
        read_conversation(row.input)
    except NoConversationError as error:
        said, path = f"the input {field!r} is {error}", error.path
    if looks_like_turns(row.input):
        return broken_conversation(said)
    others = [name for name in conversation_fields(row.fields) if name != field]
    settings = {"input_field": others[0] if others else "<FIELD>"}
    fix = "Name a field that holds a text or a conversation as {input_field}."
    if path:
        fix = f"Make {'.'.join((field, *path))} a field of its own, and name it as {{input_field}}."
    return Problem("dataset.not-a-conversation", said, fix=fix, settings=settings)


def broken_conversation(said: str) -> Problem:
    """Return the problem of turns that cannot be sent. said: which, and why."""
    return Problem("dataset.broken-conversation", said, fix="Correct the row, or leave it out.")


def conversation_fields(record: Mapping[str, Any]) -> list[str]:
    """Names of the fields that hold a conversation."""
    return [str(name) for name, value in record.items() if as_conversation(value) is not None]


def turns_in_text(text: object) -> list[Any] | None:
    """Return the turns that a text is, as tables have them; None for any other text.

    Written as JSON, or as Python shows a list: pandas and the `csv` module write such columns so. NumPy
    leaves out the commas between the turns.
    """
    if not isinstance(text, str) or len(text) > _LONGEST_TEXT or not _TURNS_BEGIN.match(text):
        return None
    for read in (json.loads, ast.literal_eval, lambda shown: ast.literal_eval(_NO_COMMA.sub("}, {", shown))):
        try:
            with warnings.catch_warnings(action="ignore", category=SyntaxWarning):  # of escapes
                value = read(text.strip())
        except (ValueError, SyntaxError, RecursionError, MemoryError):
            continue
        return value if looks_like_turns(value) else None
    return None


def _check(turns: Sequence[Message]) -> None:
    """Raise NoConversationError for turns that nobody could answer."""
    for number, turn in enumerate(turns, 1):
        if "\0" in turn.shown:
            raise NoConversationError(f"broken: turn {number} holds a NUL character")
    if not any(turn.role == "user" for turn in turns):
        raise NoConversationError("a conversation without a turn of the user")
    if not question(turns).strip():
        raise NoConversationError("a conversation whose last turn of the user is empty")


def _paths(value: object, path: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    """The keys under which a value holds conversations."""
    if as_conversation(value) is not None:
        yield path
    elif isinstance(value, Mapping) and len(path) < _MOST_DEPTH:
        for name, part in value.items():
            yield from _paths(part, (*path, str(name)))


def shared_system(files: Iterable[Path], input_field: str) -> str | None:
    """Return the system turn that all conversations of these files begin with; None if there is none such.

    What is wrong with a file is told when its rows are read for good.
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


def opened(record: Mapping[str, Any], input_field: str, target_field: str) -> Opened:
    """Return the record as it is read, and the conversation that is its input, if it is one.

    Without a target, an assistant's turn at the end is the target. The system turn at the start is the field
    `system`, unless there is one.
    Raises NoConversationError for a record that has no target and whose input has no such turn.
    """
    value = record.get(input_field)
    if not isinstance(value, list | dict):
        return record, None
    changed = dict(record)
    if record.get(target_field) is not None:
        found = as_conversation(value)
    else:
        found = read_conversation(value)
        last = found.all_turns[-1]
        if last.role != "assistant" or last.tool_calls:
            ends = "a tool call" if last.tool_calls else f"a turn of the {last.role}"
            raise NoConversationError(f"a conversation that ends with {ends}")
        found = found.without_answer()
        changed[target_field] = last.content
    if found is not None:
        changed[input_field] = found.value
        if found.system is not None:
            changed.setdefault(SYSTEM_FIELD, found.system)
    return changed, found
