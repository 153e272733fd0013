"""What is asked about each row, as the settings say."""

from __future__ import annotations

from typing import Any

import pytest

from autoprompt.evaluation.task import PromptTask, input_of
from autoprompt.llm import Options, ScriptedClient
from autoprompt.metrics import get_metric
from autoprompt.records import Candidate, Example, Message
from autoprompt.settings.records import RunConfig
from autoprompt.text.answers.reasoning import request

PROMPT = "Name the city."
ROWS = [Example("r1", "Eiffel tower", "Paris", {"input": "Eiffel tower", "target": "Paris"}, line=1)]


def asked(prompt: str = PROMPT, labels: tuple[str, ...] = (), **settings: Any) -> Options:
    """The options that a row's question has."""
    seen: list[Options] = []

    def answer(messages: list[Message], options: Options) -> str:
        seen.append(options)
        return "Paris"

    config = RunConfig(prompt=PROMPT, **settings)
    metric = get_metric(config.metric, labels=labels)
    program = PromptTask(config, PROMPT).program(ScriptedClient(answer), metric, labels=labels, rows=ROWS)
    program.run(ROWS[0], Candidate({"prompt": prompt}))
    return seen[0]


@pytest.mark.parametrize(
    ("settings", "caps"),
    [
        ({}, (1024, 64)),
        ({"metric": "contains"}, (1024, None)),
        ({"max_output_tokens": 300}, (300, None)),  # who says it means it
        ({"labels": ("Paris", "Rome")}, (32, None)),
    ],
)
def test_a_free_answer_is_of_use_while_it_can_be_right(
    settings: dict[str, Any], caps: tuple[int, int | None]
) -> None:
    options = asked(**settings)
    assert (options.max_output_tokens, options.useful_tokens) == caps


def test_what_is_worked_out_first_has_room() -> None:
    options = asked(f"{PROMPT}\n{request(PROMPT, ())}")
    assert (options.max_output_tokens, options.useful_tokens) == (1024, 512)


@pytest.mark.parametrize(
    ("prompt", "settings", "fields"),
    [
        ("{premise} {hypothesis}: {premise}", {}, ("premise", "hypothesis")),
        ("{premise}, {hypothesis}, {input}", {}, ("premise", "hypothesis", "input")),
        ("{premise} alone, and {target}, which is never sent", {}, ()),
        ("{premise} {hypothesis}", {"input_field": "premise"}, ()),
        ("Name it.", {}, ()),
    ],
)
def test_several_fields_that_a_prompt_asks_for_are_the_input(
    prompt: str, settings: dict[str, str], fields: tuple[str, ...]
) -> None:
    config = RunConfig(prompt=prompt, **settings)
    assert input_of(config, PromptTask(config, prompt)) == fields
