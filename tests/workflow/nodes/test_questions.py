"""Classifier and extractor: which class a reply names, in whatever words, and values of the wrong type."""

from __future__ import annotations

import pytest
from flow_runs import flow, outputs_of

from autoprompt.errors import AutopromptError
from autoprompt.llm import ScriptedClient
from autoprompt.workflow import RunSettings, Workflow

QUEUES = """
    nodes:
      - {id: start, type: start, data: {variables: [{variable: text, type: string}]}}
      - id: sort
        type: question-classifier
        data:
          query_variable_selector: [start, text]
          classes: [billing, tech, sales]
      - {id: end, type: end, data: {outputs: [{variable: queue, value_selector: [sort, class_name]}]}}
    edges:
      - {source: start, target: sort}
      - {source: sort, source_handle: billing, target: end}
      - {source: sort, source_handle: tech, target: end}
      - {source: sort, source_handle: sales, target: end}
"""


def sorted_as(reply: str) -> object:
    workflow = Workflow.load(flow(QUEUES))
    return workflow.run({"text": "It crashed."}, settings=RunSettings(client=ScriptedClient([reply] * 9)))[
        "queue"
    ]


@pytest.mark.parametrize(
    "reply",
    [
        "tech",
        "Classes (billing, tech, sales): tech",
        "1. billing\n2. tech\n3. sales\n\nIt is tech.",
        "billing: invoices\ntech: crashes\nsales: offers\n\nClass: tech",
        "tech (confidence: 0.9)",
    ],
)
def test_a_reply_that_repeats_the_classes_names_one(reply: str) -> None:
    assert sorted_as(reply) == "tech"


@pytest.mark.parametrize("reply", ["Classes: billing, tech, sales", "billing or tech", "billing/tech"])
def test_a_reply_that_names_several_names_none(reply: str) -> None:
    with pytest.raises(AutopromptError, match="none of the classes: billing, tech, sales"):
        sorted_as(reply)


FLOW = """
    nodes:
      - {id: start, type: start, data: {variables: [q]}}
      - id: x
        type: parameter-extractor
        data: {model: m, query: [start, q], parameters: [{name: fare, type: number}]}
"""


@pytest.mark.parametrize("said", ['"nan"', "NaN", "1e999", '"Infinity"'])
def test_what_is_not_a_number_is_none(said: str) -> None:
    found = outputs_of(FLOW, {"q": "?"}, answers=[f'{{"fare": {said}}}'])
    assert (found["fare"], found["__is_success"]) == (0, 0)
    assert "is not a number" in found["__reason"]
