"""Workflows that make ever larger values end in an error of the node, not in a full memory."""

from __future__ import annotations

import resource
import sys
import time
from typing import Any

import pytest

from autoprompt.llm import ScriptedClient
from autoprompt.workflow import NodeError, RunSettings, Workflow
from autoprompt.workflow.engine.conditions import ExpressionError, parse_expression
from autoprompt.workflow.engine.variables import MAX_SIZE, TooLargeError, check_size, concatenated, product

ITSELF = {"input_type": "variable", "value": ["loop", "x"]}


def run(*nodes: dict[str, Any], q: Any = "a", kind: str = "paragraph") -> dict[str, Any]:
    start = {"id": "start", "type": "start", "data": {"variables": [{"variable": "q", "type": kind}]}}
    settings = RunSettings(client=ScriptedClient(["an answer"]))
    tools = {"look": {"url": "http://127.0.0.1:9", "method": "post"}}
    return Workflow.load({"tools": tools, "nodes": [start, *nodes]}).run({"q": q}, settings=settings)


def looped(operation: str, first: Any, given: dict[str, Any], passes: int = 300) -> dict[str, Any]:
    item = {"variable_selector": ["loop", "x"], "operation": operation, **given}
    assigner = {"id": "assign", "type": "assigner", "data": {"items": [item]}}
    kind = "string" if isinstance(first, str) else ""
    variables = [{"label": "x", "var_type": kind, "value": first}]
    data = {"loop_count": passes, "loop_variables": variables, "nodes": [assigner]}
    return {"id": "loop", "type": "loop", "data": data}


@pytest.mark.parametrize(
    ("operation", "first", "given", "said"),
    [
        ("*=", 9, ITSELF, "a product has more than 4,000 digits"),
        ("extend", ["a" * 9999], ITSELF, "a value has more than 50,000,000 characters"),
        ("append", ["a" * 9999], ITSELF, "a value has more than 50,000,000 characters"),
        ("over-write", "a" * 9999, {"value": "{{#loop.x#}}{{#loop.x#}}"}, "more than 50,000,000 characters"),
        ("set", "a" * 9999, {"value": "{{#loop.x#}}" * 99}, "more than 50,000,000 characters together"),
    ],
)
def test_a_variable_that_grows_in_a_loop_ends_it(
    operation: str, first: Any, given: dict[str, Any], said: str
) -> None:
    with pytest.raises(NodeError, match=rf"node 'loop': pass \d+ failed: node 'assign': .*{said}"):
        run(looped(operation, first, given))


def test_a_list_in_itself_is_only_so_deep() -> None:
    """Its size grows by one, but what reads it goes into it."""
    outer = {"variable_selector": ["loop", "y"], "operation": "append", **ITSELF}
    back = {"variable_selector": ["loop", "x"], "operation": "over-write", "input_type": "variable"}
    empty = {"variable_selector": ["loop", "y"], "operation": "clear"}
    items = [empty, outer, {**back, "value": ["loop", "y"]}]
    variables = [{"label": name, "var_type": "array", "value": []} for name in ("x", "y")]
    assigner = {"id": "assign", "type": "assigner", "data": {"items": items}}
    data = {"loop_count": 2000, "loop_variables": variables, "nodes": [assigner]}
    with pytest.raises(NodeError, match="a value is nested more than 500 levels deep"):
        run({"id": "loop", "type": "loop", "data": data})


def test_a_number_that_grows_slowly_may() -> None:
    assert len(str(run(looped("+=", 1, ITSELF))["x"])) == 91


def node(kind: str, number: int, before: str, name: str) -> dict[str, Any]:
    value = [before, name]
    twice = f"{{{{#{before}.{name}#}}}}" * 2
    data: dict[str, Any] = {
        "answer": {"answer": twice},
        "template-transform": {
            "template": "{{ a }}{{ a }}",
            "variables": [{"variable": "a", "value_selector": value}],
        },
        "llm": {"model": "m", "prompt_template": twice * 4000},
        "tool": {"tool_name": "look", "tool_parameters": {"q": twice * 4000}},
        "http-request": {
            "url": "http://127.0.0.1:9",
            "method": "post",
            "body": {"type": "raw-text", "data": twice * 4000},
        },
    }[kind]
    return {"id": f"n{number}", "type": kind, "data": data}


@pytest.mark.parametrize(("kind", "output"), [("answer", "answer"), ("template-transform", "output")])
def test_a_text_that_doubles_from_node_to_node_ends_the_run(kind: str, output: str) -> None:
    nodes = [node(kind, 0, "start", "q")]
    nodes += [node(kind, n, f"n{n - 1}", output) for n in range(1, 40)]
    with pytest.raises(NodeError, match=r"node 'n\d+': .*more than [\d,]+ characters"):
        run(*nodes, q="a" * 1000)


@pytest.mark.parametrize("kind", ["llm", "tool", "http-request"])
def test_a_request_that_names_a_large_value_many_times_is_not_made(kind: str) -> None:
    with pytest.raises(NodeError, match=r"node 'n0': .*more than 50,000,000 characters"):
        run(node(kind, 0, "start", "q"), q="a" * 100_000)


def test_an_iteration_that_multiplies_a_list_ends() -> None:
    inner = {"id": "v", "type": "variable-aggregator", "data": {"variables": [["start", "q"]]}}
    data = {"iterator_selector": ["start", "q"], "output_selector": ["v", "output"], "nodes": [inner]}
    with pytest.raises(NodeError, match=r"node 'each': .*more than 50,000,000 characters"):
        run({"id": "each", "type": "iteration", "data": data}, q=["a" * 20_000] * 100, kind="array[string]")


def test_all_nodes_together_have_a_limit() -> None:
    nodes = [{"id": f"n{n}", "type": "answer", "data": {"answer": "{{#start.q#}}" * 40}} for n in range(60)]
    with pytest.raises(NodeError, match="more than 200,000,000 characters together"):
        run(*nodes, q="a" * 1_000_000)


@pytest.mark.parametrize("kind", ["end", "code"])
def test_a_value_that_is_handed_on_a_thousand_times_counts_a_thousand_times(kind: str) -> None:
    variables = [{"variable": f"v{n}", "value_selector": ["start", "q"]} for n in range(1000)]
    data: dict[str, Any] = {"outputs": variables}
    if kind == "code":
        data = {"code": "def main(**k):\n    return {}", "code_language": "python3", "variables": variables}
    with pytest.raises(NodeError, match=r"node 'n': .*more than 50,000,000 characters"):
        run({"id": "n", "type": kind, "data": data}, q="a" * 100_000)


def test_large_values_that_fit_go_through() -> None:
    text = "a" * 5_000_000
    assert run({"id": "n", "type": "answer", "data": {"answer": "{{#start.q#}}"}}, q=text) == {"answer": text}


def test_sizes() -> None:
    assert check_size("abc") == 19
    assert check_size(["abc"] * 1000) == 16 + 19 * 1000
    assert check_size([["abc"], {"a": None}]) > check_size(["abc", "a", None])
    shared: Any = "a" * 100
    for _ in range(40):
        shared = [shared, shared]
    with pytest.raises(TooLargeError, match="a value has more than 50,000,000 characters"):
        check_size(shared)
    with pytest.raises(TooLargeError, match="more than 50,000,000"):
        check_size([1] * (MAX_SIZE // 16))
    circle: list[Any] = []
    circle.append(circle)
    with pytest.raises(TooLargeError, match="nested"):
        check_size(circle)


# --- conditions ---


def evaluated(condition: str, **values: Any) -> Any:
    return parse_expression(condition).evaluate(lambda selector: values[selector[-1]])


@pytest.mark.parametrize(
    "text",
    [
        "-" * 1990 + "1",
        "len(" + "+".join(["a.text"] * 250) + ") > 1",
        "len(" + "+".join(["a.list"] * 250) + ") > 1",
        "*".join(["a.number"] * 200) + " > 1",
        "round(a.number, -1000000000) > 1",
        "round(1.5, 1000000000) > 1",
        "int(a.text, 16) > 1",
        "len(sum(a.lists, a.list)) > 1",
        "str(a.deep) == ''",
        "2 ** 9 ** 9",
        "'a' * 10 * 1000000000",
        "'%1000000000d' % 1",
        "len(range(9999999999))",
        "[0] * 1000000000",
        "f'{1:>1000000000}'",
    ],
)
def test_a_condition_takes_little_time_and_memory(text: str) -> None:
    deep: list[Any] = []
    for _ in range(5000):
        deep = [deep]
    values = {
        "text": "f" * 5_000_000,
        "list": [1] * 500_000,
        "lists": [[1]] * 30_000,
        "number": 10**4000,
        "deep": deep,
    }
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    begun = time.monotonic()
    with pytest.raises(ExpressionError):
        evaluated(text, **values)
    assert time.monotonic() - begun < 5
    if sys.platform == "linux":
        assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 500_000


def test_conditions_reckon_as_before() -> None:
    assert evaluated("round(a.x, 1) == 1.3 and round(a.x) == 1", x=1.26)
    assert evaluated("sum(a.x) == 6 and int('7') * 2.5 > 17 and str(1) + 'b' == '1b'", x=[1, 2, 3])
    assert evaluated("len(a.x + [3]) == 3", x=[1, 2])
    assert (product(3, 4), product(2.5, 10**300), concatenated("a", "b")) == (12, 2.5 * 10**300, "ab")


def test_a_number_counts_the_same_alone_and_in_a_list_of_numbers() -> None:
    number = 10**300
    in_mixed = check_size([number, "a"]) - check_size(["a"])
    assert check_size([number, number]) - check_size([number]) == in_mixed
