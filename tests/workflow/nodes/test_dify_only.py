"""Nodes that run in Dify alone: mocked, given with the row, or answered by a Python function."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from flow_runs import FlowRun, flow, run_flow

from autoprompt.workflow import Workflow, WorkflowDefinitionError, tool
from autoprompt.workflow.engine import tools
from autoprompt.workflow.engine.definition import node_type
from autoprompt.workflow.engine.errors import NodeError, ToolOutputError, outage
from autoprompt.workflow.file.validation import validate

DIFY = Path(__file__).parents[1] / "dify"
SEARCH, CLAUSES, CONTRACT, APPROVE, COUNT = (
    "1748055500002",
    "1755500000003",
    "1755500000002",
    "1770000000003",
    "1730000000002",
)
# Every type of Dify's editor, up to version 1.12.
TYPES = [
    "start",
    "end",
    "answer",
    "llm",
    "knowledge-retrieval",
    "question-classifier",
    "if-else",
    "code",
    "template-transform",
    "http-request",
    "variable-assigner",
    "variable-aggregator",
    "tool",
    "parameter-extractor",
    "iteration",
    "document-extractor",
    "list-operator",
    "assigner",
    "agent",
    "loop",
    "loop-end",
    "human-input",
    "datasource",
    "datasource-empty",
    "knowledge-index",
    "trigger-schedule",
    "trigger-webhook",
    "trigger-plugin",
]


@pytest.fixture(autouse=True)
def _registered() -> Iterator[None]:
    before = dict(tools._registered)
    yield
    tools._registered.clear()
    tools._registered.update(before)


def handbook(**settings: Any) -> FlowRun:
    inputs = {"query": "May I park?", **settings.pop("inputs", {})}
    return run_flow(DIFY / "handbook.yml", inputs, **settings)


def asked(done: FlowRun) -> str:
    return done.client.calls[-1][0].content.removeprefix("Answer from the passages.\n\n")


@pytest.mark.parametrize("kind", TYPES)
def test_every_type_of_dify_is_known_by_name(kind: str) -> None:
    assert node_type(kind).mocked is not None


@pytest.mark.parametrize(
    "result",
    [
        [{"content": "Yes.", "metadata": {}}, {"content": "Page 3."}],
        ["Yes.", "Page 3."],
        '[{"content": "Yes."}, {"content": "Page 3."}]',
        "Yes.\nPage 3.",
    ],
)
def test_passages_from_a_mock_and_from_an_input(result: Any) -> None:
    mocked = handbook(mocks={SEARCH: {"outputs": {"result": result}}})
    given = handbook(inputs={f"{SEARCH}.result": result})
    assert asked(mocked) == asked(given) == "Yes.\nPage 3."


def test_a_text_with_brackets_is_a_passage() -> None:
    text = "[1] Yes.\n[Page 3]"
    assert asked(handbook(inputs={f"{SEARCH}.result": text})) == text


@pytest.mark.parametrize("result", [[{"text": "Yes."}], 5, {"title": "Yes."}, [None]])
def test_passages_that_are_none_are_refused(result: Any) -> None:
    done = handbook(mocks={SEARCH: {"outputs": {"result": result}}})
    assert "expected a text, or an object with `content`" in str(done.error)


def test_a_function_that_finds_no_passages_is_to_blame_and_not_the_model() -> None:
    @tool
    def knowledge_retrieval(query: str) -> list[dict[str, str]]:
        return [{"text": "Yes."}]

    assert "the function 'knowledge_retrieval': a passage is {'text': 'Yes.'}" in str(handbook().error)
    error = NodeError("it failed")
    error.__cause__ = ToolOutputError("a passage is 5")
    assert outage(error) == "failed"


def test_an_input_goes_over_a_mock_whose_errors_stay() -> None:
    mock = {SEARCH: {"outputs": {"result": "mock"}, "errors": ["down"]}}
    done = handbook(mocks=mock, inputs={f"{SEARCH}.result": "row"})
    assert "down" in str(done.error)
    assert asked(
        handbook(mocks={SEARCH: {"outputs": {"result": "mock"}}}, inputs={f"{SEARCH}.result": "row"})
    ) == ("row")


def test_a_function_finds_the_passages() -> None:
    got: list[Any] = []

    @tool
    def knowledge_retrieval(query: str, top_k: int) -> list[str]:
        got.append((query, top_k))
        return ["Yes."]

    assert asked(handbook()) == "Yes."
    assert got == [("May I park?", 4)]

    @tool(SEARCH)  # by the node's id, which goes before the type's name
    def find(question: str) -> str:
        return f"found for {question}"

    assert asked(handbook()) == "found for May I park?"
    assert validate(DIFY / "handbook.yml") == []


def test_documents_are_read_by_a_function_one_at_a_time() -> None:
    @tool
    def document_extractor(file: Any) -> str:
        return f"text of {file['filename']}"

    file = {"type": "document", "transfer_method": "remote_url", "filename": "a.pdf"}
    inputs = {"question": "Who signs?", "contract": file, f"{CLAUSES}.result": ["First.", "Second."]}
    done = run_flow(DIFY / "contracts.yml", inputs, lambda messages: "yes")
    assert done.outputs == {"verdict": "yes"}
    assert done.client.calls[-1][1].content == (
        "Contract: text of a.pdf\nClauses: [1] First.\n[2] Second.\n\nQuestion: Who signs?"
    )
    many = flow("""
        nodes:
          - {id: start, type: start, data: {variables: [{variable: files, type: file-list}]}}
          - {id: read, type: document-extractor, data: {variable_selector: [start, files]}}
    """)
    assert run_flow(many, {"files": [file, file]}).outputs == {"text": ["text of a.pdf"] * 2}


@pytest.mark.parametrize(
    ("given", "outputs"),
    [
        ({"__action_id": "approve", "note": "fine"}, {"reply": "<Hi>", "note": "fine"}),
        ({"action": "reject", "note": "no"}, {"note": "no", "action": "reject"}),
        ({"action": "reject"}, {"note": "", "action": "reject"}),
        ({"note": "fine"}, {"reply": "<Hi>", "note": "fine"}),  # the first button
    ],
)
def test_a_person_answers_from_the_row(given: dict[str, str], outputs: dict[str, str]) -> None:
    inputs = {"message": "Hi", **{f"{APPROVE}.{name}": value for name, value in given.items()}}
    assert run_flow(DIFY / "approval.yml", inputs).outputs == outputs
    mocks = {APPROVE: {"outputs": given}}
    assert run_flow(DIFY / "approval.yml", {"message": "Hi"}, mocks=mocks).outputs == outputs


def test_a_button_that_there_is_not() -> None:
    done = run_flow(DIFY / "approval.yml", {"message": "Hi", f"{APPROVE}.action": "aprove"})
    assert "the action is 'aprove', expected one of approve, reject" in str(done.error)


def test_code_in_javascript_is_given_as_its_outputs_are_declared() -> None:
    given = run_flow(DIFY / "javascript.yml", {"text": "a b", f"{COUNT}.words": "2"})
    assert given.outputs == {"words": 2}


def test_outputs_of_nodes_that_ask_a_model_are_not_given_by_inputs() -> None:
    done = handbook(inputs={f"{SEARCH}.result": "x", "1748055500003.text": "not this"})
    assert done.outputs == {"answer": "<May I park?>"}


@pytest.mark.parametrize(
    ("file", "said"),
    [
        (
            "handbook.yml",
            f"Dify's knowledge-retrieval does not run here; mock it. Write into the mocks file: "
            f'`{SEARCH}: {{outputs: {{result: [{{content: "..."}}]}}}}`. Or give it with each row, '
            f"or as an input: {SEARCH}.result. Or write the function `@tool def knowledge_retrieval(query)` "
            "into the tools file.",
        ),
        (
            "approval.yml",
            f"Dify's human-input does not run here; mock it. Write into the mocks file: "
            f'`{APPROVE}: {{outputs: {{__action_id: approve, note: "..."}}}}`.',
        ),
        (
            "javascript.yml",
            f"Dify's code in javascript does not run here; mock it. Write into the mocks file: "
            f"`{COUNT}: {{outputs: {{words: 0}}}}`.",
        ),
    ],
)
def test_without_a_stand_in_the_line_to_write_is_shown(file: str, said: str) -> None:
    (fault,) = validate(DIFY / file)
    assert fault.severity == "warning"
    assert said in fault.message
    assert said in str(run_flow(DIFY / file, {"query": "?", "text": "?", "message": "?"}).error)


@pytest.mark.parametrize("node_id", [SEARCH, int(SEARCH)])  # as YAML reads an id without quotes
def test_a_mock_silences_the_warning_of_validate(node_id: Any) -> None:
    assert validate(DIFY / "handbook.yml", mocks={node_id: {"outputs": {"result": "x"}}}) == []
    assert asked(handbook(mocks={node_id: {"outputs": {"result": "x"}}})) == "x"


EXPORT = """
    kind: app
    app: {mode: workflow, name: newer}
    workflow:
      graph:
        nodes:
          - {id: s, data: {type: start, variables: []}}
          - {id: n, data: {type: time-travel, title: Back, inputs: [{odd: 1}]}}
          - {id: e, data: {type: end, outputs: [{variable: o, value_selector: [n, when]}]}}
        edges: [{source: s, target: n}, {source: n, target: e}]
"""


def test_a_newer_type_of_an_export_can_be_mocked() -> None:
    assert run_flow(EXPORT, mocks={"n": {"outputs": {"when": 1815}}}).outputs == {"o": 1815}
    (fault,) = validate(flow(EXPORT))
    assert "Dify's time-travel does not run here; mock it" in fault.message


def test_a_type_of_a_file_of_ours_is_misspelt_rather_than_newer() -> None:
    with pytest.raises(WorkflowDefinitionError, match=r"unknown type 'lml'\. Did you mean 'llm'\?"):
        Workflow.load({"nodes": [{"id": "n", "type": "lml", "data": {}}]})
