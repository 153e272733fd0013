"""How a step's demonstrations are shown: as turns of the chat, or written into its text.

As turns where the file they came from can hold turns: in the messages of an `llm` node, and of any node in
files of our own. Else the text holds them, in the run as in the file that is written: what is measured is
what Dify sends.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Literal

from autoprompt.records import Candidate, Demo
from autoprompt.text.templates import language_of
from autoprompt.workflow.engine.definition import Definition, GraphNode
from autoprompt.workflow.engine.template import REFERENCE, references
from autoprompt.workflow.file import apps
from autoprompt.workflow.file.model_records import LLMData, PromptMessage

Form = Literal["turns", "text", "app"]  # app: a text in which `{{name}}` is a variable

_TEXTS: tuple[Form, ...] = ("text", "app")
_TAG = re.compile(r"<(/?)([A-Za-z_][\w-]*)>")
_WORDS = {"en": ("Examples:", "Input: ", "Answer: "), "zh": ("示例：", "输入：", "回答：")}


def form_of(node: GraphNode) -> Form | None:
    """Return how demonstrations of this node are shown; None if they cannot be.

    As turns they need one user message behind system messages that are the same for every row.
    """
    data = node.data
    if getattr(data, "is_app", False):
        return "app"
    if not isinstance(data, LLMData):
        return "turns" if node.holds_turns else "text"
    if node.holds_turns and _takes_turns(data):
        return "turns"
    return None if any(_is_template(message) for message in data.messages) else "text"


def forms(definition: Definition) -> dict[str, Form]:
    """Return the forms of all nodes with prompts, by id."""
    known = {node.id: form_of(node) for node in definition.all_nodes()}
    return {node_id: form for node_id, form in known.items() if form is not None}


def only_text(definition: Definition) -> list[GraphNode]:
    """Return the nodes with prompts whose demonstrations are written into their texts."""
    known = forms(definition)
    return [
        node
        for node in definition.all_nodes()
        if known.get(node.id) in _TEXTS and node.executor.component_texts(node.data)
    ]


def with_texts(candidate: Candidate, known: Mapping[str, Form]) -> Candidate:
    """Return the candidate with the demonstrations that are shown as text in its texts.

    Args:
        candidate: As the search has it.
        known: Node id -> form, see `forms`. Nodes that it lacks show turns.
    """
    texts = dict(candidate.components)
    turns = []
    listed: dict[str, list[Demo]] = {}
    for demo in candidate.demos:
        if known.get(node_of(demo), "turns") == "turns":
            turns.append(demo)
        else:
            listed.setdefault(demo.component, []).append(demo)
    for name, demos in listed.items():
        texts[name] = with_examples(texts[name], [(demo.input, demo.output) for demo in demos])
    return replace(candidate, components=texts, demos=tuple(turns), id="") if listed else candidate


def turns_of(candidate: Candidate) -> dict[str, list[tuple[str, str]]]:
    """Return node id -> (input, answer) of each demonstration that is shown to it as turns."""
    shown: dict[str, list[tuple[str, str]]] = {}
    for demo in candidate.demos:
        shown.setdefault(node_of(demo), []).append((demo.input, demo.output))
    return shown


def node_of(demo: Demo) -> str:
    """Return the id of the node that a demonstration is shown to."""
    return demo.component.rpartition(".")[0]


def with_examples(text: str, examples: Sequence[tuple[str, str]]) -> str:
    """Return the text with the examples before the first line that names a variable, else at its end.

    If that line is inside a tag, such as `<context>`, they go before the tag, as they are no part of it.
    """
    head, asks, answers = _WORDS[language_of(text)]
    block = "\n\n".join([head, *(f"{asks}{given}\n{answers}{answer}" for given, answer in examples)])
    lines = text.split("\n")
    first = next((n for n, line in enumerate(lines) if references(line)), len(lines))
    first = min([first, *_open_tags(lines[:first])])
    parts = ["\n".join(lines[:first]).rstrip(), block, "\n".join(lines[first:])]
    return "\n\n".join(part for part in parts if part)


def _open_tags(lines: Sequence[str]) -> list[int]:
    """Return the numbers of the lines that open a tag which none of them closes."""
    opened: list[tuple[str, int]] = []
    for number, line in enumerate(lines):
        for end, name in _TAG.findall(line):
            if not end:
                opened.append((name, number))
            elif places := [place for place, tag in enumerate(opened) if tag[0] == name]:
                del opened[places[-1]]
    return [number for _, number in opened]


def is_literal(text: str, form: Form) -> bool:
    """Return whether a file that holds the text says just that: what looks like a variable would be one."""
    return apps.is_literal(text) if form == "app" else REFERENCE.search(text) is None


def _takes_turns(data: LLMData) -> bool:
    *system, last = data.messages or (PromptMessage(),)
    if data.memory is not None:  # the question follows
        system, last = [*system, last], PromptMessage(role="user")
    is_constant = all(
        message.role == "system" and not references(message.template) and not _is_template(message)
        for message in system
    )
    return is_constant and last.role == "user"


def _is_template(message: PromptMessage) -> bool:
    return message.is_jinja2 and any(mark in message.template for mark in ("{{", "{%", "{#"))
