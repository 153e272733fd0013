"""How many requests, tools and pieces of code a run has at work at once, as its settings say."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from autoprompt.llm import ScriptedClient
from autoprompt.workflow import Workflow
from autoprompt.workflow.engine import graph
from autoprompt.workflow.engine.runner import RunSettings
from tests.flow_runs import echo, run_flow

# In a process of its own, so that a run that hangs ends the test and not the whole suite.
_COUNTING = """
import json, sys, threading
from autoprompt.llm import ScriptedClient
from autoprompt.workflow import CodeNode, LLMNode, RunSettings, StartNode, ToolNode, Workflow, tool
from tests.flow_runs import run_flow

class Counting:
    def __init__(self, bound):
        self.bound, self.out, self.most, self.calls = bound, 0, 0, 0
        self.changed = threading.Condition()
    def __call__(self, messages=()):
        with self.changed:
            self.out += 1
            self.calls += 1
            self.most = max(self.most, self.out)
            self.changed.notify_all()
            # Time for one more than may be there to come in.
            self.changed.wait_for(lambda: self.out > self.bound, timeout=0.1)
            self.out -= 1
        if messages and messages[0].role == "system" and "Result of count" not in messages[-1].content:
            return '{"tool": "count", "arguments": {}}'  # an agent's first request
        return "ok"

bound = int(sys.argv[1])
counting = Counting(bound)

@tool
def count() -> str:
    return counting()
"""
_MEASURE = (
    _COUNTING
    + """
content = json.loads(sys.argv[2])
done = run_flow(content, {"items": list("abcd")}, counting, max_concurrency=bound)
assert done.outputs is not None, done.error
print(json.dumps([counting.most, counting.calls]))
"""
)
_MEASURE_CLASSES = (
    _COUNTING
    + """
import autoprompt.workflow.python.steps as classes
classes.run_code = lambda code, inputs, context: {inputs["name"]: counting()}
asking = LLMNode("inner", "Inner", "hi", llm_client=ScriptedClient(lambda messages: "ok"))

def asks() -> str:  # a request in the turn of the tool
    counting()
    return asking.execute({})["llm_output"]

nodes = [
    StartNode("s", "S", ["name"]),
    ToolNode("a", "A", "count", output_variable_name="oa"),
    ToolNode("b", "B", asks, output_variable_name="ob"),
    CodeNode("c", "C", "code", ["name"]),
    ToolNode("d", "D", asks, output_variable_name="od"),
]
flow = Workflow(nodes, edges=[("s", name) for name in "abcd"])
flow.run({"name": "oc"}, settings=RunSettings(max_concurrency=bound))
print(json.dumps([counting.most, counting.calls]))
"""
)


def _ask(node_id: str) -> dict[str, Any]:
    return {"id": node_id, "type": "llm", "data": {"prompt_template": node_id}}


def _call(node_id: str) -> dict[str, Any]:
    return {"id": node_id, "type": "tool", "data": {"tool_name": "count"}}


def _agent(node_id: str) -> dict[str, Any]:
    data = {"model": "m", "instruction": "Call it.", "query": "How many?", "tools": ["count"]}
    return {"id": node_id, "type": "agent", "data": data}


_ITEMS_VARIABLE = {"variable": "items", "type": "array"}
_START: dict[str, Any] = {
    "id": "start",
    "type": "start",
    "data": {"variables": [_ITEMS_VARIABLE]},
}
_BRANCHES = {
    "nodes": [_START, *[_ask(name) for name in "abcd"]],
    "edges": [{"source": "start", "target": name} for name in "abcd"],
}
_TOOLS = {**_BRANCHES, "nodes": [_START, *[_call(name) for name in "abcd"]]}
_AGENTS = {**_BRANCHES, "nodes": [_START, *[_agent(name) for name in "abcd"]]}


def _each(node_id: str, **more: Any) -> dict[str, Any]:
    data = {"iterator_selector": ["start", "items"], "is_parallel": True, "parallel_nums": 4, **more}
    return {"id": node_id, "type": "iteration", "data": data}


_ITEMS = {
    "nodes": [
        _START,
        _each("one", nodes=[_ask("p"), _ask("q")], edges=[]),
        _each("two", nodes=[_ask("r")]),
    ],
    "edges": [{"source": "start", "target": "one"}, {"source": "start", "target": "two"}],
}


@pytest.mark.parametrize("bound", [1, 2])
@pytest.mark.parametrize(("content", "calls"), [(_BRANCHES, 4), (_ITEMS, 12), (_TOOLS, 4), (_AGENTS, 12)])
def test_as_many_requests_and_tools_are_at_work_as_the_settings_say(
    content: dict[str, Any], calls: int, bound: int
) -> None:
    assert _measured(_MEASURE, str(bound), json.dumps(content)) == [bound, calls]


@pytest.mark.parametrize("bound", [1, 2])
def test_tools_and_code_of_python_wait_for_their_turn_and_ask_within_it(bound: int) -> None:
    assert _measured(_MEASURE_CLASSES, str(bound)) == [bound, 4]


def _measured(script: str, *arguments: str) -> Any:
    """The most calls at once, and how many there were."""
    command = [sys.executable, "-c", script, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_a_bound_below_one_is_refused() -> None:
    assert run_flow(_BRANCHES, {"items": []}, max_concurrency=0).error == (
        "max_concurrency is 0, expected 1 or more, or None for no bound"
    )


def test_rows_at_once_share_one_graph(monkeypatch: pytest.MonkeyPatch) -> None:
    """And making it parses no Python: where threads do that at once, CPython 3.11 fails at times."""

    def mismatched(*args: Any, **options: Any) -> Any:
        raise SystemError("AST constructor recursion depth mismatch (before=87, after=86)")

    made = []
    compile_graph = graph.compile_graph

    def counted(*args: Any, **options: Any) -> Any:
        made.append(args)
        return compile_graph(*args, **options)

    workflow = Workflow.load(_ITEMS)

    def answer(item: str, workflow: Workflow = workflow) -> Any:
        return workflow.run({"items": [item]}, settings=RunSettings(client=ScriptedClient(echo)))

    answer("0", Workflow.load(_ITEMS))  # imports what parses signatures when it is imported
    with monkeypatch.context() as patched:
        patched.setattr(graph, "compile_graph", counted)
        patched.setattr(ast, "parse", mismatched)
        first = answer("0")
        once = len(made)
        with ThreadPoolExecutor(4) as threads:
            others = list(threads.map(answer, "12345678"))
    assert first
    assert len(others) == 8
    assert len(made) == once
