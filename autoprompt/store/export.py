"""A found prompt in the forms that other programs read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, cast, get_args

import yaml

from autoprompt.errors import InputError
from autoprompt.store.files import to_json
from autoprompt.store.folder import RunFolder
from autoprompt.store.listing import best_of
from autoprompt.types import Candidate, Demo

ExportFormat = Literal["text", "yaml", "langchain", "openai"]
EXPORT_FORMATS: tuple[str, ...] = get_args(ExportFormat)

Turn = tuple[Literal["system", "user", "assistant"], str]


def export(
    candidate: Candidate,
    format: str,
    *,
    input_field: str = "input",
    labels: Sequence[str] | None = None,
    model: str | None = None,
) -> str:
    """The candidate as text that ends with a line end.

    text: the prompt alone, without demonstrations. yaml: components, demos, labels, model.
    langchain: what `langchain_core.load.load` reads as a ChatPromptTemplate with the variable `input_field`.
    openai: a JSON list of messages, demonstrations as turns, `{input_field}` in the last user message.
    Raises InputError for an unknown format, and for several components in a format that holds one prompt.
    """
    if format not in EXPORT_FORMATS:
        raise InputError(f"unknown format {format!r}; known: {', '.join(EXPORT_FORMATS)}")
    match cast(ExportFormat, format):
        case "text":
            return candidate.prompt.rstrip("\n") + "\n"
        case "yaml":
            return _yaml(candidate, input_field, labels, model)
        case "openai":
            turns = _turns(candidate, input_field, format)
            return to_json([{"role": role, "content": text} for role, text in turns], indent=2) + "\n"
        case "langchain":
            return _langchain(candidate, input_field)


def export_run(run: RunFolder, format: str) -> str:
    """The best candidate of a finished run. Raises StoreError if there is none yet."""
    best, config = best_of(run), run.read_config()
    candidate = Candidate(
        components=best["components"],
        demos=tuple(
            Demo(demo["input"], demo["output"], demo.get("example_id", "")) for demo in best.get("demos", ())
        ),
    )
    return export(
        candidate,
        format,
        input_field=config.get("input_field") or "input",
        labels=config.get("labels"),
        model=config.get("model"),
    )


def _turns(candidate: Candidate, input_field: str, format: str) -> list[Turn]:
    """Chat turns; in the last one `{input_field}` stands for the input, all other braces are text.

    A prompt that names the input itself is the user message, as it is when rows are run.
    """
    if len(candidate.components) != 1:
        raise InputError(
            f"the format {format!r} holds one prompt, this candidate has {len(candidate.components)} "
            f"({', '.join(candidate.components)}); use 'text' or 'yaml'"
        )
    prompt, slot = candidate.prompt, "{" + input_field + "}"
    has_slot = slot in prompt
    turns: list[Turn] = [] if has_slot else [("system", prompt)]
    for demo in candidate.demos:
        turns += [
            ("user", prompt.replace(slot, demo.input) if has_slot else demo.input),
            ("assistant", demo.output),
        ]
    return [*turns, ("user", prompt if has_slot else slot)]


def _langchain(candidate: Candidate, input_field: str) -> str:
    from langchain_core.load import dumpd
    from langchain_core.prompts import ChatPromptTemplate

    turns = _turns(candidate, input_field, "langchain")
    last = len(turns) - 1
    messages = [
        (role, _escaped(text, input_field) if index == last else _escaped(text))
        for index, (role, text) in enumerate(turns)
    ]
    return to_json(dumpd(ChatPromptTemplate.from_messages(messages)), indent=2) + "\n"


def _escaped(text: str, variable: str | None = None) -> str:
    """An f-string template that gives `text` back, with `{variable}` still open."""
    doubled = text.replace("{", "{{").replace("}", "}}")
    return doubled if variable is None else doubled.replace("{{" + variable + "}}", "{" + variable + "}")


class _Dumper(yaml.SafeDumper):
    """Writes texts of several lines as blocks, which is how a prompt is read."""


def _represent_text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    # YAML has no block form for text with trailing blanks; PyYAML then falls back to quotes by itself.
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


_Dumper.add_representer(str, _represent_text)


def _yaml(candidate: Candidate, input_field: str, labels: Sequence[str] | None, model: str | None) -> str:
    data: dict[str, Any] = {
        "components": dict(candidate.components),
        "demos": [{"input": demo.input, "output": demo.output} for demo in candidate.demos],
        "labels": list(labels) if labels else None,
        "model": model,
        "input_field": input_field,
    }
    text: str = yaml.dump(data, Dumper=_Dumper, allow_unicode=True, sort_keys=False, width=110)
    return text
