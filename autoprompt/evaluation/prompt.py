"""A prompt beside its rows: where it comes from, its placeholders, and conversations sent with it."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path

from autoprompt.dataset.checks import check_fields
from autoprompt.dataset.conversations import (
    SYSTEM_FIELD,
    as_conversation,
    conversation_fields,
    looks_like_turns,
    no_conversation,
    shared_system,
    turns_in_text,
)
from autoprompt.dataset.faults import Faults, file_place
from autoprompt.dataset.python_rows import is_given
from autoprompt.dataset.reading import first_fields
from autoprompt.errors import Place, Problem, PromptError
from autoprompt.measure.program import placeholders, unknown_placeholders
from autoprompt.records import Example, Message, text_of
from autoprompt.settings.records import RunConfig
from autoprompt.settings.sources import DATA_FILES
from autoprompt.text.names import counted, named
from autoprompt.text.placeholders import as_placeholder, field_named, is_placeholder_name, misses

_ONE_TURN = '[{"role": "user", "content": "..."}]'


def starting_prompt(config: RunConfig) -> str:
    """Return the prompt that the settings name, else the system turn that all conversations begin with.

    Raises:
        PromptError: If there is none, with what to add.
    """
    prompt = config.prompt
    if prompt is None:
        files = [path for name in DATA_FILES if (path := getattr(config, name)) is not None]
        prompt = shared_system(files, config.input_field)
    if prompt is None or not prompt.strip():
        raise PromptError(_no_prompt(config))
    return prompt


def _no_prompt(config: RunConfig) -> Problem:
    said, settings = "no prompt to start from", {"prompt": "<TEXT|@FILE>"}
    data = next((path for name in DATA_FILES if (path := getattr(config, name)) is not None), None)
    if data is None or is_given(data):
        return Problem("prompt.missing", said, fix="Give {prompt}.", settings=settings)
    name = data.name.partition(".")[0] or data.stem
    there = first_fields(data)
    given = config.input_field, config.target_field
    is_sure = not there or all(field in there for field in given)
    fields = [_yaml_text(field) for field in given] if is_sure else ["FIELD", "FIELD"]
    listed = "" if is_sure else f"\nThe fields are {named(there)}."
    fix = (
        f"Give {{prompt}}, or write it next to the data, to {data.with_name(f'{name}.task.yaml')}:\n"
        "  prompt: TEXT\n"
        f"  input_field: {fields[0]}    # the field of the rows that holds the input\n"
        f"  target_field: {fields[1]}    # ... and the one that holds the expected answer{listed}"
    )
    return Problem("prompt.missing", said, file_place(data), fix, settings)


def _yaml_text(name: str) -> str:
    """Return a name as YAML text."""
    is_plain = re.fullmatch(r"[^\W\d]\w*", name) and name.lower() not in ("true", "false", "null")
    return name if is_plain else json.dumps(name, ensure_ascii=False)


def check_placeholders(
    prompt: str, rows: Mapping[Path, Sequence[Example]], config: RunConfig
) -> list[Problem]:
    """Check that every row can fill in what the prompt asks for: a field of some row, in braces.

    rows: Of each file. Returns warnings of the target in braces, of identifiers there that are no field, so
    perhaps misspelt, of a field there that is not filled in as it is written, and of an input that is never
    sent because the prompt asks for other fields alone.
    Raises DatasetError for the rows that cannot fill it in, and PromptError if the input field's name is in
    braces and can be no placeholder.
    """
    every = (name for examples in rows.values() for example in examples for name in example.fields)
    known = dict.fromkeys(every)
    fillable = known.keys() - {config.target_field}
    asked = placeholders(prompt, fillable)
    field = config.input_field
    _check_input_is_filled_in(prompt, field, asked)
    for path, examples in rows.items():
        check_fields(examples, path, asked)
    # A field that is both is filled in: as the input.
    sealed = {config.target_field} - {field}
    return (
        _blank([name for name in asked if name != field], rows)
        + [_target_placeholder(f"{{{name}}}") for name in placeholders(prompt, sealed)]
        + [
            Problem(
                "prompt.unknown-placeholder",
                f"{{{name}}} is not a field of the rows ({', '.join(known)}), so it is sent unchanged",
                fix=_hint(name, fillable, None if field in asked else field),
            )
            for name in unknown_placeholders(prompt, known)
        ]
        + _missed(prompt, known, field, sealed)
        + (_unsent(field, asked) if field in fillable and not _has_turns(rows) else [])
        + check_conversations(prompt, rows, config)
    )


def _has_turns(rows: Mapping[Path, Sequence[Example]]) -> bool:
    return any(row.turns for examples in rows.values() for row in examples)


def _check_input_is_filled_in(prompt: str, field: str, asked: Sequence[str]) -> None:
    """Raise PromptError if the input field's name is in braces, and is not filled in."""
    literal = [f"{{{field}}}"] if f"{{{field}}}" in prompt and field not in asked else []
    if not is_placeholder_name(field):
        literal = [miss.text for miss in misses(prompt, [field]) if miss.inner == field] or literal
    if literal:
        said = f"{literal[0]} is not a placeholder: use only letters, digits and _"
        fix = "Rename the field, or remove it from the prompt to send the input as its own message."
        raise PromptError(Problem("prompt.input-placeholder", said, Place(setting="prompt"), fix))


def _target_placeholder(text: str) -> Problem:
    said = f"{text} is the target, which is never filled in, so it is sent unchanged"
    return Problem("prompt.target-placeholder", said, fix="Remove it from the prompt.")


def _blank(asked: Sequence[str], rows: Mapping[Path, Sequence[Example]]) -> list[Problem]:
    """Warnings of rows that leave empty what the prompt asks for; an empty input is an error before."""
    return [
        Problem(
            "prompt.empty-field",
            f"{counted(len(found), 'row has', 'rows have')} an empty {{{name}}}, which the prompt asks for",
            file_place(path),
            related=(found[0].place,),
        )
        for path, examples in rows.items()
        for name in asked
        if (found := [row for row in examples if not text_of(row.fields[name]).strip()])
    ]


def _unsent(field: str, asked: Sequence[str]) -> list[Problem]:
    """Return a warning of an input field that the prompt does not ask for, if it asks for others."""
    if not asked or field in asked:
        return []
    others = ", ".join(f"{{{name}}}" for name in asked)
    said = f"the input {{{field}}} is never sent, because the prompt asks only for {others}"
    fix = f"Add {{{field}}} to the prompt, or name another field as {{input_field}}."
    settings = {"input_field": "<FIELD>"} if field != "input_field" else {}
    return [Problem("prompt.input-not-sent", said, fix=fix, settings=settings)]


def _missed(prompt: str, known: Collection[str], field: str, sealed: Collection[str]) -> list[Problem]:
    """Warnings of fields in braces that are not filled in as they are written.

    field: Of the input, which `input` may mean in prompts. sealed: The target, if it is not the input.
    """
    alias = "input"
    is_alias = alias not in known and field in known
    found = []
    for miss in misses(prompt, [*known, *([alias] if is_alias else [])]):
        meant = field if is_alias and miss.field == alias else miss.field
        if meant in sealed:
            if not miss.is_doubled:  # else there is a warning of the pair within
                found.append(_target_placeholder(miss.text))
            continue
        said = f"{miss.text} is not a placeholder, so it is sent unchanged"
        if miss.is_doubled:
            said = f"{miss.text} is sent with braces around the value of the field"
        fix = as_placeholder(meant)
        found.append(Problem("prompt.braces", said, fix=f"{fix[:1].upper()}{fix[1:]}."))
    return found


def _hint(name: str, fields: Collection[str], likely: str | None) -> str:
    """Return which field may be meant, as a sentence. likely: The one to name if none has a similar name."""
    close = get_close_matches(name, sorted(fields), n=1)
    meant = field_named(name, sorted(fields)) or next(iter(close), likely)
    if meant is None:
        return ""
    if is_placeholder_name(meant):
        return f"Did you mean {{{meant}}}?"
    return f"If you mean {meant!r}, {as_placeholder(meant)}."


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
