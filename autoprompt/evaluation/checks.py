"""What can be refused before a call: rows of a program, placeholders, demonstrations, metric, memory."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path

from autoprompt.dataset import check_fields, first_fields
from autoprompt.dataset.checks import content_key
from autoprompt.dataset.plain import plain_rows
from autoprompt.dataset.python_rows import Rows
from autoprompt.dataset.shown import shown_in
from autoprompt.errors import DatasetError, PromptError, StoreError
from autoprompt.llm.scripted import ScriptedClient
from autoprompt.measure.program import placeholders, unknown_placeholders
from autoprompt.memory import ExperienceFile
from autoprompt.metrics import check_targets, get_metric
from autoprompt.records import Candidate, Example, text_of
from autoprompt.runs import RunFolder
from autoprompt.settings.records import RunConfig
from autoprompt.settings.resolve import check_kind
from autoprompt.settings.sources import DATA_FILES
from autoprompt.text.answers.labels import read_label
from autoprompt.text.braces import as_placeholder, field_named, is_placeholder_name, misses
from autoprompt.text.files import check_writable
from autoprompt.text.names import listed, named


def given_rows(config: RunConfig, rows: Rows | None) -> Rows | None:
    """Rows of a program with plain values, as they can be kept in a file; see `plain_rows`.

    Raises ConfigError for a `config` that is none, DatasetError for what are no rows, such as a file's name.
    """
    check_kind(config, RunConfig)
    if rows is None:
        return None
    if (instead := _instead_of(rows)) is not None:
        raise DatasetError(
            f"rows is {rows!r:.80}, expected dicts such as {{'input': ..., 'target': ...}}: {instead}."
        )
    return plain_rows(rows, (config.input_field, config.target_field, config.group_field))


def _instead_of(rows: object) -> str | None:
    """What to give in place of what are no rows; None where they may be."""
    if isinstance(rows, str | Path):
        return f"a file is given as RunConfig(dataset={str(rows)!r})"
    if isinstance(rows, Mapping):
        return "give a list of them"
    if type(rows).__name__ == "DataFrame":  # iterates over its columns
        return "give rows.to_dicts()" if hasattr(rows, "to_dicts") else "give rows.to_dict('records')"
    return None if isinstance(rows, Iterable) else "give a list of them"


def _shown_rows(candidate: Candidate, rows: Sequence[Example]) -> list[str]:
    """A warning where rows are demonstrations, or stand in the text: what is shown is no test."""
    demos = {content_key(demo.input) for demo in candidate.demos}
    shown = {row.id for row in shown_in([*candidate.components.values()], rows)}
    shown |= {row.id for row in rows if content_key(row.content) in demos}
    if not shown:
        return []
    are = "1 of the rows is" if len(shown) == 1 else f"{len(shown)} of the rows are"
    return [f"{are} among the prompt's demonstrations: they say nothing about it"]


def demo_warnings(
    candidate: Candidate, rows: Sequence[Example], labels: Sequence[str], config: RunConfig
) -> list[str]:
    """What has to be said of a candidate's demonstrations.

    Raises PromptError where one cannot be filled in.
    """
    _check_demos(candidate, rows, config)
    return [*_shown_rows(candidate, rows), *_strange_demos(candidate, labels)]


def searched_warnings(candidates: Iterable[Candidate], rows: Sequence[Example]) -> list[str]:
    """Warnings where the candidates' runs have looked at some of the rows, or nothing tells that."""
    origins = [one.origin for one in candidates if one.origin is not None]
    names = {origin.run_dir: origin.name for origin in origins if origin.run_dir is not None}
    said = (_searched_by(RunFolder(Path(run_dir)), name, rows) for run_dir, name in names.items())
    return [*filter(None, said)]


def _searched_by(run: RunFolder, name: str, rows: Sequence[Example]) -> str:
    try:
        searched = run.rows_searched() if run.path.exists() else None
    except StoreError:
        searched = None
    if searched is None:
        return f"{run.path} is gone or cannot be read: nothing tells which of the rows {name} has looked at"
    known = sum(row.id in searched for row in rows)
    said = f"{known} of the {len(rows)} rows took part in the search of {name}: on those a score is no proof"
    return said if known else ""


def _strange_demos(candidate: Candidate, labels: Sequence[str]) -> list[str]:
    """A warning where a single prompt's demonstrations show an answer that is none of the labels."""
    if not labels or len(candidate.components) > 1:
        return []
    strange = [demo.output for demo in candidate.demos if read_label(demo.output, labels) is None]
    if not strange:
        return []
    shown = listed([repr(text if len(text) <= 60 else text[:59] + "…") for text in dict.fromkeys(strange)], 5)
    show = "shows" if len(strange) == 1 else "show"
    return [
        f"{len(strange)} of the prompt's demonstrations {show} an answer that is none of the labels "
        f"({listed([*labels])}): {shown}. Correct it, or add it to the labels"
    ]


def _check_demos(candidate: Candidate, rows: Sequence[Example], config: RunConfig) -> None:
    """Raises PromptError where a demonstration of a single prompt lacks a field that it is filled in with."""
    if len(candidate.components) > 1:
        return
    fillable = {name for row in rows for name in row.fields} - {config.target_field}
    asked = placeholders(candidate.prompt, fillable)
    for number, demo in enumerate(candidate.demos, 1):
        held = demo.held(config.input_field)
        if lacking := [name for name in asked if name not in held]:
            raise PromptError(
                f"the prompt asks for {{{lacking[0]}}}, and its demonstration {number} does not hold it: add "
                'it under "fields" there, or take the demonstration out'
            )


def check_placeholders(prompt: str, rows: Mapping[Path, Sequence[Example]], config: RunConfig) -> list[str]:
    """Every row can fill in what the prompt asks for: whatever is in braces and a field of some row.

    rows: of each file. Returns warnings of the target in braces, of identifiers there that are no field, so
    perhaps misspelt, of a field there that is not filled in as it is written, and of an input that is never
    sent since the prompt asks for other fields alone.
    Raises DatasetError with file and line of the rows that cannot, and PromptError where the input field's
    name is in braces and can be no placeholder.
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
        + [
            f"{{{name}}} is the target, which is never filled in, and stays literal"
            for name in placeholders(prompt, sealed)
        ]
        + [
            f"{{{name}}} is no field of the rows ({', '.join(known)}) and stays literal"
            f"{_hint(name, fillable, None if field in asked else field)}"
            for name in unknown_placeholders(prompt, known)
        ]
        + _missed(prompt, known, field, sealed)
        + (_unsent(field, asked) if field in fillable else [])
    )


def _check_input_is_filled_in(prompt: str, field: str, asked: Sequence[str]) -> None:
    """Raises PromptError where the input field's name is in braces, and is not filled in."""
    literal = [f"{{{field}}}"] if f"{{{field}}}" in prompt and field not in asked else []
    if not is_placeholder_name(field):
        literal = [miss.text for miss in misses(prompt, [field]) if miss.inner == field] or literal
    if literal:
        raise PromptError(
            f"the prompt's {literal[0]} would be sent as it stands: placeholders are letters, digits and _. "
            "Rename the field, or take it out of the prompt: the input then follows as a message of its own."
        )


def _blank(asked: Sequence[str], rows: Mapping[Path, Sequence[Example]]) -> list[str]:
    """What is said of rows that leave empty what the prompt asks for; an empty input is an error before."""
    return [
        f"{path}: {len(found)} row{'s' if len(found) > 1 else ''} with an empty {{{name}}}, which the prompt "
        f"asks for, the first at {found[0].at}"
        for path, examples in rows.items()
        for name in asked
        if (found := [row for row in examples if not text_of(row.fields[name]).strip()])
    ]


def _unsent(field: str, asked: Sequence[str]) -> list[str]:
    """What is said of an input field that the prompt does not ask for, where it asks for others."""
    if not asked or field in asked:
        return []
    others = ", ".join(f"{{{name}}}" for name in asked)
    return [
        f"the input {{{field}}} is never sent: a prompt with placeholders sends those alone, {others}; add "
        f"{{{field}}}, or name another --input-field"
    ]


def _missed(prompt: str, known: Collection[str], field: str, sealed: Collection[str]) -> list[str]:
    """What is said of fields in braces that are not filled in as they are written.

    field: of the input, which `input` may mean in prompts. sealed: the target, where it is not the input.
    """
    alias = "input"
    is_alias = alias not in known and field in known
    said = []
    for miss in misses(prompt, [*known, *([alias] if is_alias else [])]):
        meant = field if is_alias and miss.field == alias else miss.field
        if meant in sealed:
            if not miss.is_doubled:  # else told of the pair within
                said.append(f"{miss.text} is the target, which is never filled in, and stays literal")
        elif miss.is_doubled:
            said.append(
                f"{miss.text} is sent with braces around what the field holds: {as_placeholder(meant)}"
            )
        else:
            said.append(f"{miss.text} is no placeholder and is sent as it stands: {as_placeholder(meant)}")
    return said


def _hint(name: str, fields: Collection[str], likely: str | None) -> str:
    """likely: the field that is meant where none is spelt alike."""
    close = get_close_matches(name, sorted(fields), n=1)
    meant = field_named(name, sorted(fields)) or next(iter(close), likely)
    if meant is None:
        return ""
    if is_placeholder_name(meant):
        return f"; did you mean {{{meant}}}?"
    return f"; if {meant!r} is meant, {as_placeholder(meant)}"


def check_metric(
    config: RunConfig, labels: tuple[str, ...], rows: Mapping[Path, Sequence[Example]]
) -> list[str]:
    """The metric is known, its options fit it, and it can compare with every target. rows: of each file.

    Returns warnings of targets that it compares in part. Raises ConfigError, and DatasetError with file and
    line.
    """
    unasked = ScriptedClient([])  # a judge's options are checked without its model
    metric = get_metric(config.metric, config.metric_options, judge=unasked, labels=labels)
    return check_targets(metric, rows)


def check_memory(config: RunConfig) -> None:
    """The experience file can be read and written. Raises InputError that says how it cannot."""
    if config.no_memory:
        return
    todo = "Give another file with --memory, or --no-memory."
    check_writable(config.memory, makes_folders=True, todo=todo)
    ExperienceFile(config.memory).load()


def starting_prompt(config: RunConfig) -> str:
    """The prompt that the settings name. Raises PromptError if there is none, with what to add."""
    if config.prompt is None:
        raise PromptError(_no_prompt(config))
    return config.prompt


def _no_prompt(config: RunConfig) -> str:
    data = next((path for name in DATA_FILES if (path := getattr(config, name)) is not None), None)
    if data is None:
        return "no prompt to start from. Add --prompt TEXT or --prompt @FILE."
    name = data.name.partition(".")[0] or data.stem
    there = first_fields(data)
    given = config.input_field, config.target_field
    is_sure = not there or all(field in there for field in given)
    fields = [_yaml_text(field) for field in given] if is_sure else ["FIELD", "FIELD"]
    listed = "" if is_sure else f"\nThe fields are {named(there)}."
    return (
        f"{data}: no prompt to start from. Add --prompt TEXT or --prompt @FILE, or write it beside the data, "
        f"into {data.with_name(f'{name}.task.yaml')}:\n"
        "  prompt: TEXT\n"
        f"  input_field: {fields[0]}    # the field of the rows that holds the input\n"
        f"  target_field: {fields[1]}    # ... and the one that holds the expected answer{listed}"
    )


def _yaml_text(name: str) -> str:
    """A name as it may stand in YAML."""
    is_plain = re.fullmatch(r"[^\W\d]\w*", name) and name.lower() not in ("true", "false", "null")
    return name if is_plain else json.dumps(name, ensure_ascii=False)
