"""What can be refused before a call: rows of a program, placeholders, demonstrations, metric, memory."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path

from autoprompt.dataset.checks import check_fields, content_key
from autoprompt.dataset.conversations import shared_system
from autoprompt.dataset.faults import file_place
from autoprompt.dataset.python_rows import Given, Rows, is_given, parts_of, rows_of, to_plain_rows
from autoprompt.dataset.reading import first_fields
from autoprompt.dataset.splits import find_shown
from autoprompt.errors import DatasetError, Place, Problem, PromptError
from autoprompt.evaluation.conversations import check_conversations
from autoprompt.llm.adapter import ScriptedClient
from autoprompt.measure.program import placeholders, sends_turns, unknown_placeholders
from autoprompt.measure.task import Task, answering_of
from autoprompt.memory import ExperienceFile
from autoprompt.metrics import check_targets, run_metric
from autoprompt.metrics.python_metric import try_metric
from autoprompt.records import Candidate, Example, Origin, text_of
from autoprompt.runs.provenance import seen_test
from autoprompt.settings.records import RunConfig
from autoprompt.settings.resolve import check_kind
from autoprompt.settings.sources import DATA_FILES
from autoprompt.settings.trust import check_default
from autoprompt.text.answers.labels import read_label
from autoprompt.text.files import check_writable
from autoprompt.text.names import counted, listed, named, quoted
from autoprompt.text.placeholders import as_placeholder, field_named, is_placeholder_name, misses


def given_rows(config: RunConfig, rows: Rows | None, *, is_split: bool = False) -> Given | None:
    """Return a program's rows with plain values, as they can be kept in files; see `to_plain_rows`.

    Args:
        config: The settings, with the fields that are read.
        rows: Dicts or a table; where they are split, also one for each part.
        is_split: Whether they may come in parts.

    Raises:
        ConfigError: `config` is no RunConfig.
        DatasetError: `rows` are no rows, such as a file's name, or parts where one table is expected.
    """
    check_kind(config, RunConfig)
    if rows is None:
        return None
    wanted = config.input_field, config.target_field, config.group_field
    if (parts := parts_of(rows)) is not None:
        if not is_split:
            said = f"rows has the parts {named([*parts])}, expected rows of one"
            raise DatasetError(
                Problem("dataset.one-part", said, fix="Give one of them, such as rows['test'].")
            )
        return {name: to_plain_rows(rows_of(part), wanted, name) for name, part in parts.items()}
    table = rows_of(rows)
    if (instead := _instead_of(table)) is not None:
        said = f"rows is {rows!r:.80}, expected dicts such as {{'input': ..., 'target': ...}}"
        raise DatasetError(Problem("dataset.not-rows", said, fix=instead))
    return {"dataset": to_plain_rows(table, wanted)}


def _instead_of(rows: object) -> str | None:
    """Return what to pass instead if `rows` is no list of rows; else None."""
    if isinstance(rows, str | Path):
        return f"Give a file as RunConfig(dataset={str(rows)!r})."
    if isinstance(rows, Mapping):
        return "Give a list of them."
    return None if isinstance(rows, Iterable) else "Give a list of them."


def _shown_rows(task: Task, candidate: Candidate, rows: Sequence[Example]) -> list[Problem]:
    """Return a warning if rows are demonstrations, or the text holds them: what is shown is no test."""
    demos = {demo.turns or content_key(demo.input) for demo in candidate.demos}
    demos |= {content_key(text) for text in task.shown}
    # A step of a workflow is shown the row within a message of its own.
    inputs = [*task.shown, *(demo.input for demo in candidate.demos)]
    shown = {row.id for row in find_shown([*candidate.components.values()], rows, inputs)}
    shown |= {row.id for row in rows if (row.turns or content_key(row.input_text)) in demos}
    if not shown:
        return []
    are = f"{len(shown):,} of the rows {'is' if len(shown) == 1 else 'are'}"
    said = f"{are} in the prompt, in its text or as demonstrations, so the score is too high"
    return [Problem("prompt.rows-shown", said, fix="Score the prompt on other rows.")]


def demo_warnings(
    task: Task, candidate: Candidate, rows: Sequence[Example], labels: Sequence[str], config: RunConfig
) -> list[Problem]:
    """Return warnings of a candidate's demonstrations.

    Raises:
        PromptError: If one cannot be filled in.
    """
    shown = _shown_rows(task, candidate, rows)
    if answering_of(task) is None:  # what is shown to a step is no row
        return shown
    _check_demos(candidate, rows, config)
    return [*shown, *_strange_demos(candidate, labels)]


def searched_warnings(candidates: Iterable[Candidate], rows: Sequence[Example]) -> list[Problem]:
    """Return warnings if the candidates' runs have looked at some of the rows, or if nothing tells that.

    An export that names no run gets none: it may have been written by hand.
    """
    origins = {one.origin.name: one.origin for one in candidates if one.origin is not None}
    known = [one for one in origins.values() if one.run_dir is not None or one.marks is not None]
    return [*filter(None, (_searched(origin, rows) for origin in known))]


def _searched(origin: Origin, rows: Sequence[Example]) -> Problem | None:
    is_seen = seen_test(origin)
    name = origin.name if origin.run_dir is not None else f"the run that made {origin.name}"
    if is_seen is None:
        said = f"cannot be read, so autoprompt cannot tell which of these rows {name} has already seen"
        return Problem("run.rows-unknown", said, Place(Path(str(origin.run_dir))))
    known = sum(is_seen(row.id) for row in rows)
    seen = f"{name} has already seen {known} of the {counted(len(rows), 'row')}"
    said = f"{seen}, so the score on them proves nothing"
    return Problem("run.rows-seen", said, fix="Score the prompt on other rows.") if known else None


def _strange_demos(candidate: Candidate, labels: Sequence[str]) -> list[Problem]:
    """Return a warning if a prompt's demonstrations show an answer that is none of the labels."""
    if not labels:
        return []
    strange = [demo.output for demo in candidate.demos if read_label(demo.output, labels) is None]
    if not strange:
        return []
    shown = listed([quoted(text) for text in dict.fromkeys(strange)], 5)
    show = "shows" if len(strange) == 1 else "show"
    said = (
        f"{len(strange)} of the prompt's demonstrations {show} an answer that is not a label "
        f"({listed([*labels])}): {shown}"
    )
    fix = "Correct it, or add it to {labels}."
    return [Problem("prompt.strange-demo", said, fix=fix, settings={"labels": None})]


def _check_demos(candidate: Candidate, rows: Sequence[Example], config: RunConfig) -> None:
    """Raise PromptError if a demonstration of a prompt lacks a field that the prompt is filled in with."""
    fillable = {name for row in rows for name in row.fields} - {config.target_field}
    asked = placeholders(candidate.prompt, fillable)
    for number, demo in enumerate(candidate.demos, 1):
        if sends_turns(candidate.prompt, demo.turns, config.input_field):
            continue
        held = demo.held(config.input_field)
        if lacking := [name for name in asked if name not in held]:
            said = f"the prompt asks for {{{lacking[0]}}}, but its demonstration {number} does not have it"
            fix = 'Add it under "fields" there, or remove the demonstration.'
            raise PromptError(Problem("prompt.demo-field", said, fix=fix))


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


def check_metric(
    config: RunConfig, labels: tuple[str, ...], rows: Mapping[Path, Sequence[Example]]
) -> list[Problem]:
    """Check that the metric is known, that its options fit it, and that it can compare with every target.

    rows: Of each file. A metric of the user is called with rows' own targets as answers, see `try_metric`.

    Returns:
        Warnings of targets that it compares in part, or that do not score 1 as answers.

    Raises:
        ConfigError: For the metric and its options. DatasetError: For a target, with file and line.
    """
    unasked = ScriptedClient([])  # a judge's options are checked without its model
    every = [row for examples in rows.values() for row in examples]
    metric = run_metric(config, labels, lambda _: unasked, every)
    # A metric that asks a model would ask none here, and no target is the object that a program returns.
    tried = [] if hasattr(metric, "client") or config.program is not None else every
    return [*check_targets(metric, rows), *try_metric(metric, tried)]


def check_memory(config: RunConfig) -> None:
    """Check that the experience file can be read and written. Raises InputError that says how it cannot.

    Raises ConfigError as `read_memory` does.
    """
    if config.no_memory:
        return
    fix, settings = (
        "Name another file as {memory_file}, or use {no_memory}.",
        {"memory_file": None, "no_memory": True},
    )
    check_writable(config.memory_file, role="memory_file", makes_folders=True, fix=fix, settings=settings)
    read_memory(config)


def read_memory(config: RunConfig) -> None:
    """Check that the experience file can be read.

    Raises:
        InputError: It cannot.
        ConfigError: Nobody has named it, and a link in the working folder leads out of that. The folder may
            have come with data, and its link to a file of the user, which would be sent and rewritten.
    """
    if "memory_file" not in config.model_fields_set:
        check_default(config.memory_file, "memory_file")
    ExperienceFile(config.memory_file).load()


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
