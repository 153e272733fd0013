"""What `validate` takes is what runs: one reader of a node's fields; other faults have file and line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from autoprompt.workflow import RunSettings, Workflow, WorkflowDefinitionError, register_node_type
from autoprompt.workflow.engine.context import NodeContext
from autoprompt.workflow.engine.definition import NodeResult, NodeTypeBase
from autoprompt.workflow.file.validation import validate
from tests.fake_endpoint import LOCAL, Reply, fake_endpoint

SETTINGS = RunSettings(allow_private_hosts=LOCAL)
START = {"id": "start", "type": "start", "data": {"variables": [{"variable": "q", "type": "paragraph"}]}}


def loaded(*nodes: dict[str, Any], **more: Any) -> Workflow:
    """The workflow of these nodes, of which the check says nothing."""
    content = {"nodes": [START, *nodes], **more}
    assert validate(content) == []
    return Workflow.load(content)


def node(type_: str = "template-transform", **data: Any) -> dict[str, Any]:
    return {"id": "n", "type": type_, "data": {"template": "done", **data}}


def default_of(written: Any) -> Any:
    """What a failed node puts out as `x`."""
    failing = node(error_strategy="default-value", default_value=written)
    return loaded(failing, mocks={"n": {"errors": ["it fails"]}}).run({"q": ""})["x"]


@pytest.mark.parametrize(
    ("kind", "written", "read"),
    [
        ("number", "", 0),
        ("number", "1e3", 1000.0),
        ("number", "7", 7),
        ("boolean", "false", False),
        ("object", "", {}),
        ("array[string]", '["a"]', ["a"]),
        ("string", 5, "5"),
        ("", "false", "false"),
    ],
)
def test_a_default_is_of_its_type(kind: str, written: Any, read: Any) -> None:
    found = default_of([{"key": "x", "type": kind, "value": written}])
    assert (found, type(found)) == (read, type(read))


def test_defaults_may_be_a_mapping() -> None:
    assert default_of({"x": 3}) == 3


@pytest.mark.parametrize("type_", ["Template_Transform", " template-transform"])
def test_a_virtual_node_has_every_spelling_of_its_type(type_: str) -> None:
    virtual = {"id": "v", "type": type_, "data": {"template": "from v"}}
    reader = node(virtual_nodes=[virtual], inputs=[{"name": "got", "type": "variable", "value": "v.output"}])
    assert loaded(reader).definition.nodes[1].children[0].node.type == "template-transform"


@pytest.mark.parametrize(
    "given",
    [
        {"type": "variable", "value": "start.q"},
        {"type": "variable", "value": "{{#start.q#}}"},
        {"type": "variable", "value": ["start", "q"]},
        {"type": "constant", "value": "{{#start.q#}}"},
        {"value": "{{#start.q#}}"},
    ],
)
def test_an_input_has_every_spelling_of_a_variable(given: dict[str, Any]) -> None:
    with fake_endpoint(lambda body: Reply(body=body)) as endpoint:
        tools = {"echo": {"url": f"{endpoint.base_url}/x", "method": "post"}}
        flow = loaded(node("tool", tool_name="echo", inputs=[{"name": "text", **given}]), tools=tools)
        assert flow.run({"q": "hello"}, settings=SETTINGS)["text"] == "hello"


def test_a_virtual_node_calls_a_tool_of_the_file() -> None:
    with fake_endpoint(lambda body: Reply(body={"said": "yes"})) as endpoint:
        tools = {"look": {"url": f"{endpoint.base_url}/x", "method": "post"}}
        virtual = {"id": "v", "type": "tool", "data": {"tool_name": "look"}}
        variables = [{"variable": "said", "value_selector": ["v", "said"]}]
        flow = loaded(node(template="{{ said }}", variables=variables, virtual_nodes=[virtual]), tools=tools)
        assert flow.run({"q": ""}, settings=SETTINGS)["output"] == "yes"


class _Words(BaseModel):
    words: str


class _Says(NodeTypeBase):
    """Puts out what its data says; its record has none of the fields that every node may have."""

    data_model = _Words

    def execute(self, data: _Words, context: NodeContext) -> NodeResult:
        return NodeResult({"text": data.words, **context.inputs})


@pytest.mark.parametrize("type_", ["Test_Says", "test-says", "TEST-SAYS"])
def test_a_type_of_ones_own_has_every_spelling_too(type_: str) -> None:
    register_node_type("Test_Says", _Says())
    own = node(type_, words="hi", title="Greeter", inputs={"more": "{{#start.q#}}"}, locked=True)
    flow = loaded(own)
    greeter = flow.definition.nodes[1]
    assert (greeter.title, greeter.locked) == ("Greeter", True)
    assert flow.run({"q": "you"}) == {"text": "hi", "more": "you"}


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("mocks: {a: {output: {x: 1}}}", "output: unknown key"),
        ("mocks: {a: {outputs: 5}}", "outputs: expected keys with values below it"),
        ("environment_variables: [{name: x, value: abc, value_type: number}]", "variable 'x' is 'abc'"),
        ("conversation_variables: [{name: x, value: '[', value_type: object}]", "variable 'x' is '['"),
        (
            "nodes: [{id: a, type: answer, data: {virtual_nodes: [{id: v, type: loop-start}]}}]",
            "unknown type 'loop-start'",
        ),
    ],
)
def test_what_would_not_load_is_a_fault_with_file_and_line(tmp_path: Path, line: str, said: str) -> None:
    path = tmp_path / "flow.yaml"
    nodes = (
        ""
        if line.startswith("nodes")
        else "nodes: [{id: a, type: template-transform, data: {template: x}}, {id: b, type: answer, data: "
    )
    nodes += '{answer: "{{#a.output#}}"}}]' if nodes else ""
    path.write_text(f"# a comment\n\n{line}\n{nodes}\n", encoding="utf-8")
    (fault,) = validate(path)
    assert (fault.line, fault.severity) == (3, "error")
    assert said in fault.message
    with pytest.raises(WorkflowDefinitionError) as error:
        Workflow.load(path)
    assert str(error.value) == str(fault)
