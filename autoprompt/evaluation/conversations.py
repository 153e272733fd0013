"""Rows that are conversations, or ought to be, checked against the prompt that is sent with them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from autoprompt.dataset.conversations import (
    SYSTEM_FIELD,
    as_conversation,
    conversation_fields,
    looks_like_turns,
    no_conversation,
    turns_in_text,
)
from autoprompt.dataset.faults import Faults
from autoprompt.errors import Problem
from autoprompt.measure.program import placeholders
from autoprompt.records import Example, Message
from autoprompt.settings.records import RunConfig
from autoprompt.text.placeholders import is_placeholder_name

_ONE_TURN = '[{"role": "user", "content": "..."}]'


def check_conversations(
    prompt: str, rows: Mapping[Path, Sequence[Example]], config: RunConfig
) -> list[Problem]:
    """Check that every input can be sent with the prompt, as a text or turn by turn.

    rows: those of each file.

    Returns:
        Warnings of system turns that the prompt replaces, and of conversations that are not sent as turns.

    Raises:
        DatasetError: With file and line of inputs that are no text and no conversation, and of conversations
            that no model could answer.
    """
    field = config.input_field
    is_filled_in = bool(placeholders(prompt, (field,)))
    every = [row for examples in rows.values() for row in examples]
    has_turns = any(row.turns for row in every)
    for path, examples in rows.items():
        faults = Faults(path)
        for row in examples:
            chat = as_conversation(turns_in_text(row.input))
            turns = row.turns or (() if chat is None else chat.turns)
            fault = _turns_fault(turns[-1], config) if turns and not is_filled_in else None
            if not row.turns and fault is None:
                fault = _input_fault(row, field, is_filled_in=is_filled_in, has_turns=has_turns)
            if fault:
                faults.add_row(row, fault)
        faults.raise_if_any()
    if has_turns:
        return _system_warnings(prompt, every)
    return _unsent_warnings(prompt, every, field)


def _turns_fault(last: Message, config: RunConfig) -> Problem | None:
    """Return why no model is to answer the conversation that ends with this turn; None if one is."""
    field = config.input_field
    if last.role != "assistant":
        return None
    if last.tool_calls:
        said = f"the conversation in {field!r} ends with a tool call"
        return Problem("dataset.ends-with-tool-call", said, fix="Add the tool's turn with its result.")
    said = (
        f"the conversation in {field!r} ends with an assistant turn, but there is also a target in "
        f"{config.target_field!r}"
    )
    fix = "Remove one of them."
    if is_placeholder_name(field):
        fix = f"Remove one of them, or add {{{field}}} to the prompt to ask about the whole conversation."
    return Problem("dataset.two-answers", said, fix=fix)


def _input_fault(row: Example, field: str, *, is_filled_in: bool, has_turns: bool) -> Problem | None:
    """Return why an input that is no conversation cannot be sent; None if it can."""
    value = row.input
    if not isinstance(value, list | dict):
        if has_turns:
            said = f"{field!r} is a text, but other rows have conversations"
            return Problem("dataset.mixed-inputs", said, fix=f"Write {_ONE_TURN}.")
        return None
    if is_filled_in and not looks_like_turns(value):
        return None  # as JSON, where the prompt says
    also = f"Or add {{{field}}} to the prompt to fill it in as JSON." if is_placeholder_name(field) else ""
    return no_conversation(row, field, also=also)


def _system_warnings(prompt: str, rows: Sequence[Example]) -> list[Problem]:
    """Return what becomes of the system turns that the conversations begin with."""
    if placeholders(prompt, (SYSTEM_FIELD,)):
        return []
    found = (as_conversation(row.input) for row in rows)
    systems = {chat.system for chat in found if chat is not None and chat.system is not None}
    if not systems or systems == {prompt.strip()}:
        return []
    if len(systems) == 1:
        said = "the conversations begin with a system turn, which the prompt replaces"
        return [Problem("dataset.system-turn", said)]
    said = f"the conversations begin with {len(systems)} different system turns, which the prompt replaces"
    fix = f"Add {{{SYSTEM_FIELD}}} to the prompt to send each row its own."
    return [Problem("dataset.system-turns", said, fix=fix)]


def _unsent_warnings(prompt: str, rows: Sequence[Example], field: str) -> list[Problem]:
    """Return warnings of conversations that are not sent turn by turn, by the first row."""
    if not rows:
        return []
    if turns_in_text(rows[0].input) is not None:
        said = f"{field!r} has conversations written as text, so each is sent as one message"
        fix = "Write the rows as JSONL, with lists, to send the turns."
        return [Problem("dataset.conversation-as-text", said, fix=fix)]
    others = [name for name in conversation_fields(rows[0].fields) if not placeholders(prompt, (name,))]
    if not others:
        return []
    said = f"the conversations in {others[0]!r} are not sent"
    fix, settings = "Give {input_field} to send them as turns.", {"input_field": others[0]}
    return [Problem("dataset.unsent-conversations", said, fix=fix, settings=settings)]
