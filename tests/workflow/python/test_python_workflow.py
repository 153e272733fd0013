"""The Python front door: order, jumps, edges, templates, the nodes that come with it."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable
from typing import Any

import pytest

from autoprompt.errors import AuthenticationError, EndpointError
from autoprompt.llm import ScriptedClient
from autoprompt.workflow import (
    BaseNode,
    CodeNode,
    EndNode,
    LLMInvocationError,
    LLMNode,
    NodeError,
    RetryConfig,
    RunSettings,
    StartNode,
    ToolNode,
    Workflow,
    WorkflowDefinitionError,
    tool,
)
from autoprompt.workflow.engine.events import (
    GraphRunFailed,
    GraphRunPartialSucceeded,
    GraphRunSucceeded,
    NodeRunRetry,
    NodeRunStarted,
    NodeRunStreamChunk,
    NodeRunSucceeded,
    WorkflowWarning,
)

Context = dict[str, Any]


class Do(BaseNode):
    """A function as a node."""

    def __init__(self, node_id: str, work: Callable[[Context], Any], next_node_id: str | None = None) -> None:
        super().__init__(node_id, node_id, next_node_id)
        self.work = work

    def execute(self, context: Context) -> Context:
        done: Context = self.work(context)
        return done


def marks(node_id: str, next_node_id: str | None = None) -> Do:
    """Adds its name to the variable `path`."""
    return Do(node_id, lambda c: {**c, "path": [*c.get("path", []), node_id]}, next_node_id)


def warnings_of(flow: Workflow, inputs: Context) -> list[str]:
    return [event.message for event in flow.stream(inputs) if isinstance(event, WorkflowWarning)]


# --- order ---


def test_nodes_run_in_list_order_without_edges() -> None:
    assert Workflow([marks("a"), marks("b"), marks("c")]).run() == {"path": ["a", "b", "c"]}


def test_next_node_id_of_a_node_overrides_the_order() -> None:
    assert Workflow([marks("a", "c"), marks("b"), marks("c")]).run() == {"path": ["a", "c"]}


def test_next_node_id_returned_in_the_context_overrides_and_is_taken_out() -> None:
    jump = Do("jump", lambda c: {**c, "next_node_id": "c"}, next_node_id="b")
    assert Workflow([jump, marks("b"), marks("c")]).run() == {"path": ["c"]}


def test_a_node_may_be_gone_back_to() -> None:
    again = Do("again", lambda c: {**c, "next_node_id": "a"} if len(c["path"]) < 3 else c)
    events = list(Workflow([marks("a"), again]).stream({}))
    assert events[-1] == GraphRunSucceeded(outputs={"path": ["a", "a", "a"]})
    assert [e.node_id for e in events if isinstance(e, NodeRunStarted)] == ["a", "again"] * 3


def test_a_circle_without_end_is_a_clear_error() -> None:
    flow = Workflow([marks("a"), marks("b", "a")])
    with pytest.raises(
        WorkflowDefinitionError, match=r"no end after 20 steps\. Check next_node_id for a loop"
    ):
        flow.run(settings=RunSettings(max_steps=20))


def test_an_unknown_node_to_go_on_with_is_an_error_that_lists_the_known() -> None:
    with pytest.raises(ValueError, match=r"next_node_id of 'a': no node 'z'. Known: a, b"):
        Workflow([marks("a", "z"), marks("b")])
    with pytest.raises(WorkflowDefinitionError, match=r"'a' jumps to 'bb', but.*Did you mean 'b'"):
        Workflow([Do("a", lambda c: {"next_node_id": "bb"}), marks("b")]).run()


def test_end_node_ends_wherever_it_stands() -> None:
    assert Workflow([marks("a"), EndNode("end", "End"), marks("b")]).run() == {"path": ["a"]}


def test_end_node_names_what_comes_out() -> None:
    flow = Workflow([marks("a"), EndNode("end", "End", ["path", "nothing"])])
    assert flow.run({"x": 1}) == {"path": ["a"], "nothing": None}
    assert warnings_of(flow, {}) == ["output 'nothing' has no value"]


# --- edges ---


def test_edges_join_branches_that_run_side_by_side() -> None:
    meeting = threading.Barrier(2, timeout=30)  # both are at work at the same time, or this fails

    def meets(name: str) -> Callable[[Context], Context]:
        return lambda c: {**c, name: meeting.wait() >= 0}

    nodes = [
        marks("a"),
        Do("b", meets("b")),
        Do("c", meets("c")),
        Do("d", lambda c: {**c, "both": c["b"] and c["c"]}),
    ]
    flow = Workflow(nodes, edges=[("a", "b"), ("a", "c"), ("b", "d"), ("c", "d")])
    events = list(flow.stream({}))
    assert events[-1] == GraphRunSucceeded(outputs={"path": ["a"], "b": True, "c": True, "both": True})
    assert [e.node_id for e in events if isinstance(e, NodeRunStarted)].count("d") == 1


def test_an_end_node_may_stand_among_edges() -> None:
    flow = Workflow([StartNode("s", "S", ["n"]), EndNode("e", "E")], edges=[("s", "e")])
    assert flow.run({"n": 1}) == {"n": 1}


def test_join_waits_for_the_longer_branch() -> None:
    nodes = [
        marks("a"),
        marks("long1", "long2"),
        marks("long2"),
        Do("join", lambda c: {**c, "joined": c["path"]}),
    ]
    flow = Workflow(nodes, edges=[("a", "long1"), ("long1", "long2"), ("a", "join"), ("long2", "join")])
    assert flow.run()["joined"] == ["a", "long1", "long2"]


def test_next_node_id_chooses_among_edges_and_the_join_waits_for_what_was_taken() -> None:
    choose = Do("choose", lambda c: {**c, "next_node_id": c["way"]})
    nodes = [choose, marks("left"), marks("right"), marks("far_right"), marks("join")]
    edges = [
        ("choose", "left"),
        ("choose", "right"),
        ("right", "far_right"),
        ("left", "join"),
        ("far_right", "join"),
    ]
    flow = Workflow(nodes, edges)
    assert flow.run({"way": "left"})["path"] == ["left", "join"]
    assert flow.run({"way": "right"})["path"] == ["right", "far_right", "join"]
    with pytest.raises(WorkflowDefinitionError, match=r"'choose' jumps to 'join', but.*Known: left, right"):
        flow.run({"way": "join"})


def test_edges_in_a_circle_or_to_nowhere_are_refused() -> None:
    with pytest.raises(ValueError, match="the edges go in a circle: a -> b -> a"):
        Workflow([marks("a"), marks("b")], edges=[("a", "b"), ("b", "a")])
    with pytest.raises(ValueError, match="edge a -> z: no node 'z'"):
        Workflow([marks("a")], edges=[("a", "z")])


# --- construction ---


def test_at_least_one_node() -> None:
    with pytest.raises(ValueError, match="at least one node"):
        Workflow([])


def test_ids_are_unique() -> None:
    with pytest.raises(ValueError, match="duplicate node ids: a"):
        Workflow([marks("a"), marks("a")])


def test_what_is_no_node_is_refused() -> None:
    with pytest.raises(WorkflowDefinitionError, match="is not a node"):
        Workflow([print])  # type: ignore[list-item]
    with pytest.raises(WorkflowDefinitionError, match="needs an id"):
        StartNode("", "Start")


@pytest.mark.parametrize("node_id", ["_pool", "a|b", "a:b", "节点", "pool", "__end", "%3A", "tool1.ext_1"])
def test_any_id_will_do(node_id: str) -> None:
    assert Workflow([marks(node_id), marks("b")]).run() == {"path": [node_id, "b"]}
    assert Workflow([marks(node_id), marks("b")], [(node_id, "b")]).run() == {"path": [node_id, "b"]}


# --- contexts ---


def test_a_context_is_the_nodes_own() -> None:
    def spoils(context: Context) -> Context:
        context["list"].append("spoiled")
        return {"kept": 1}

    inputs = {"list": ["whole"]}
    flow = Workflow([Do("a", spoils)])
    assert flow.run(inputs) == {"kept": 1}  # what is not returned is gone
    assert inputs == {"list": ["whole"]}


def test_changes_inside_values_are_seen() -> None:
    def grows(context: Context) -> Context:
        context["list"].append(2)
        return context

    events = list(Workflow([Do("a", grows), marks("b")]).stream({"list": [1]}))
    first = next(e for e in events if isinstance(e, NodeRunSucceeded))
    assert first.outputs == {"list": [1, 2]}
    assert events[-1].to_dict()["outputs"]["list"] == [1, 2]


def test_values_of_any_kind_pass_through() -> None:
    thing = object()
    assert Workflow([Do("a", lambda c: {**c, "same": c["thing"] is thing})]).run({"thing": thing})["same"]


def test_execute_that_returns_no_context_is_an_error() -> None:
    with pytest.raises(
        NodeError, match=r"node 'a': TypeError: execute has to return the context, a dict; .* NoneType"
    ):
        Workflow([Do("a", lambda c: None)]).run()


def test_missing_input_of_the_start_is_an_error() -> None:
    flow = Workflow([StartNode("start", "Start", ["text"])])
    with pytest.raises(NodeError, match=r"node 'start': no value for text. Did you mean 'txt'") as caught:
        flow.run({"txt": "x"})
    assert caught.value.exit_code == 3


# --- templates ---


def asked(template: str, variables: Context) -> str:
    client = ScriptedClient(["ok"])
    LLMNode("n", "N", template, "out", client).execute(variables)
    return client.calls[0][-1].content


def test_only_an_identifier_of_a_variable_is_a_placeholder() -> None:
    template = 'Rate {text}. Answer {"score": 0.5}, {0}, {a b}, {{text}}.'
    assert (
        asked(template, {"text": "{nothing}"})
        == 'Rate {nothing}. Answer {"score": 0.5}, {0}, {a b}, {{nothing}}.'
    )


def test_values_that_are_no_text_go_in_as_json() -> None:
    assert asked("{a} {b} {c} {文}", {"a": ["x"], "b": 2, "c": None, "文": "字"}) == '["x"] 2 null 字'


def test_unknown_identifier_stays_and_is_warned_of() -> None:
    client = ScriptedClient(["ok"])
    flow = Workflow([LLMNode("n", "N", "Say {nothing}.", "out", client)])
    assert warnings_of(flow, {}) == ["{nothing} in the prompt is not a variable and stays as it is"]
    assert client.calls[0][-1].content == "Say {nothing}."


# --- LLMNode ---


def test_answer_goes_under_its_name_and_is_told_as_a_chunk() -> None:
    flow = Workflow([LLMNode("n", "N", "Improve: {text}", "better", ScriptedClient({"Improve: x": "y"}))])
    events = list(flow.stream({"text": "x"}))
    (chunk,) = [e for e in events if isinstance(e, NodeRunStreamChunk)]
    assert (chunk.selector, chunk.chunk) == (["n", "better"], "y")
    assert events[-1].to_dict()["outputs"] == {"text": "x", "better": "y"}


def test_usage_of_a_request_is_in_the_event() -> None:
    events = list(Workflow([LLMNode("n", "N", "Hi", "out", ScriptedClient(["ok"]))]).stream({}))
    (done,) = [e for e in events if isinstance(e, NodeRunSucceeded)]
    assert done.metadata["total_tokens"] == done.process_data["usage"]["total_tokens"] > 0
    assert done.inputs["messages"] == [{"role": "user", "text": "Hi", "files": []}]


def test_system_and_user_templates_are_two_messages() -> None:
    client = ScriptedClient(["ok"])
    LLMNode("n", "N", "Be {tone}.", "out", client, user_prompt_template="{q}").execute(
        {"tone": "kind", "q": "Why?"}
    )
    assert [(m.role, m.content) for m in client.calls[0]] == [("system", "Be kind."), ("user", "Why?")]


@pytest.mark.parametrize(
    "text", ['{"a": 1}', '```json\n{"a": 1}\n```', 'Here:\n```\n{"a": 1}\n```\nDone.', 'So {"a": 1}.']
)
def test_json_answers_are_read_with_what_stands_around_them(text: str) -> None:
    node = LLMNode("n", "N", "x", "out", ScriptedClient([text]), output_format="json", output_keys=["a"])
    assert node.execute({}) == {"out": {"a": 1}, "a": 1}


def test_answer_without_json_or_key_fails_the_node() -> None:
    def run(text: str) -> None:
        node = LLMNode("n", "N", "x", "out", ScriptedClient([text]), output_format="json", output_keys=["a"])
        Workflow([node]).run()

    with pytest.raises(NodeError, match="node 'n': ValueError: the answer holds no JSON: 'no idea'"):
        run("no idea")
    with pytest.raises(NodeError, match="the answer has no a"):
        run('{"b": 1}')


@pytest.mark.parametrize(
    "wrong", [{"output_format": "xml"}, {"output_keys": ["a"]}, {"system_prompt_template": " "}]
)
def test_settings_of_an_llm_node_that_make_no_sense_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="LLMNode 'n'"):
        LLMNode("n", "N", **{"system_prompt_template": "x", **wrong})


def test_node_without_a_client_asks_the_runs() -> None:
    flow = Workflow([LLMNode("n", "N", "x", "out")])
    assert flow.run(settings=RunSettings(client=ScriptedClient(["y"]))) == {"out": "y"}
    with pytest.raises(NodeError, match="node 'n': no model"):
        flow.run()


def test_components_are_the_templates_by_node_and_role() -> None:
    client = ScriptedClient(["y"])
    flow = Workflow([LLMNode("n", "N", "system {x}", "out", client, user_prompt_template="user")])
    assert flow.components == {"n.system": "system {x}", "n.user": "user"}
    flow.run({"x": 1}, settings=RunSettings(components={"n.system": "better {x}"}))
    assert client.calls[0][0].content == "better 1"


# --- tools and code ---


def test_tool_node_calls_a_function_or_a_registered_name() -> None:
    @tool("shout")
    def shouts(text: str, mark: str = "!") -> str:
        return text.upper() + mark

    for named in (shouts, "shout"):
        node = ToolNode("t", "T", named, {"text": "word"}, "loud", constants={"mark": "?"})
        assert Workflow([node]).run({"word": "hi"})["loud"] == "HI?"
    with pytest.raises(WorkflowDefinitionError, match=r"no tool 'shuot' is registered. Did you mean 'shout'"):
        ToolNode("t", "T", "shuot").execute({})


def test_tool_node_whose_variable_is_missing_fails() -> None:
    with pytest.raises(NodeError, match=r"node 't': variable wrod has no value. Did you mean 'word'"):
        Workflow([ToolNode("t", "T", str, ["wrod"])]).run({"word": 1})


def test_code_node_runs_main_and_lifts_its_keys() -> None:
    code = "def main(a, b):\n    print('noise')\n    return {'sum': a + b, 'text': '和'}"
    node = CodeNode("c", "C", code, {"a": "x", "b": "y"}, ["sum", "text"])
    assert Workflow([node]).run({"x": 1, "y": 2}) == {"x": 1, "y": 2, "sum": 3, "text": "和"}


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("def main():\n    return 1 // 0", "ZeroDivisionError"),
        ("def main():\n    return 5", "main returned int, expected a dict"),
        ("x = 1", "the code defines no function main"),
        ("def main():\n    return {'b': 1}", "main returned b; expected a"),
    ],
)
def test_code_that_fails_fails_the_node(code: str, said: str) -> None:
    with pytest.raises(NodeError, match=f"(?s)node 'c': .*{said}"):
        Workflow([CodeNode("c", "C", code, outputs=["a"])]).run()


# --- failures, retries, strategies ---


def test_failure_names_the_node_and_is_the_last_event() -> None:
    flow = Workflow([marks("a"), Do("b", lambda c: c["nothing"]), marks("c")])
    events = list(flow.stream({}))
    assert isinstance(events[-1], GraphRunFailed)
    assert events[-1].to_dict() == {
        "event": "GraphRunFailed",
        "error": "node 'b': KeyError: 'nothing'",
        "error_type": "NodeError",
    }
    with pytest.raises(NodeError, match="node 'b'") as caught:
        flow.run()
    assert isinstance(caught.value.__cause__, KeyError)


def test_retry_config_tries_a_node_again() -> None:
    client = ScriptedClient([EndpointError("busy"), EndpointError("busy"), "y"])
    node = LLMNode("n", "N", "x", "out", client, retry_config=RetryConfig(max_retries=2, retry_interval=1))
    events = list(Workflow([node]).stream({}))
    assert [e.retry_index for e in events if isinstance(e, NodeRunRetry)] == [1, 2]
    assert len([e for e in events if isinstance(e, NodeRunStarted)]) == 1
    assert events[-1] == GraphRunSucceeded(outputs={"out": "y"})
    client.set_response_sequence([EndpointError("busy")] * 3)
    with pytest.raises(LLMInvocationError, match="node 'n': LLM invocation failed: busy") as caught:
        Workflow([node]).run()
    assert caught.value.exit_code == 4


def test_a_refused_key_is_not_tried_again() -> None:
    client = ScriptedClient([AuthenticationError("no key")])
    node = LLMNode("n", "N", "x", "out", client, retry_config=RetryConfig(max_retries=5))
    node.error_strategy = "default-value"
    with pytest.raises(AuthenticationError):
        Workflow([node]).run()
    assert len(client.calls) == 1


def test_default_values_of_a_node_stand_in_for_its_failure() -> None:
    node = LLMNode("n", "N", "x", "out", ScriptedClient([EndpointError("gone")]))
    node.error_strategy, node.default_values = "default-value", {"out": "nothing"}
    events = list(Workflow([node, marks("b")]).stream({}))
    assert isinstance(events[-1], GraphRunPartialSucceeded)
    assert (events[-1].exceptions_count, events[-1].outputs["out"]) == (1, "nothing")


def test_mocks_stand_in_for_nodes() -> None:
    flow = Workflow([LLMNode("n", "N", "x", "out"), marks("b")])
    assert flow.run(settings=RunSettings(mocks={"n": {"outputs": {"out": "m"}}})) == {
        "out": "m",
        "path": ["b"],
    }
    with pytest.raises(WorkflowDefinitionError, match="mocks: no node 'm'"):
        flow.run(settings=RunSettings(mocks={"m": {}}))
    with pytest.raises(WorkflowDefinitionError, match=r"mocks\.n\.output: unknown key"):
        flow.run(settings=RunSettings(mocks={"n": {"output": {}}}))


# --- import ---


def test_importing_the_package_imports_neither_pydantic_nor_langgraph() -> None:
    code = (
        "import sys, autoprompt.workflow as w; assert 'pydantic' not in sys.modules;"
        "w.Workflow([w.StartNode('s', 'S')]); assert 'langgraph' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
    import autoprompt.workflow as package

    assert all(getattr(package, name) for name in package.__all__)
