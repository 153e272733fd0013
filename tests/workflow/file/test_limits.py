"""Files of workflows that are too large, too deep, or full of faults are told so in seconds."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from autoprompt.errors import ConfigError
from autoprompt.text.placeholders import misses
from autoprompt.workflow import Workflow, WorkflowDefinitionError
from autoprompt.workflow.engine.extraction import SHORTHAND
from autoprompt.workflow.engine.template import near_references, references
from autoprompt.workflow.file.validation import validate

START = {"id": "start", "type": "start", "data": {"variables": [{"variable": "q", "type": "paragraph"}]}}
SHORT = "  - {{id: n{n}, type: template-transform, data: {{template: hi, variables: []}}}}\n"
EXPORTED = """\
    - data: {{desc: '', selected: false, template: hi, title: T, type: template-transform, variables: []}}
      height: 98
      id: n{n}
      position: {{x: 1, y: 2}}
      positionAbsolute: {{x: 1, y: 2}}
      type: custom
"""


@pytest.fixture
def in_seconds() -> Any:
    begun = time.process_time()
    yield
    assert time.process_time() - begun < 30  # of a slow machine; 5 s on an idle one


LARGE: dict[str, Callable[[], str]] = {
    "short form": lambda: "nodes:\n" + "".join(SHORT.format(n=n) for n in range(8_000)),
    "export": lambda: (
        "kind: app\nworkflow:\n  graph:\n    edges: []\n    nodes:\n"
        + "".join(EXPORTED.format(n=n) for n in range(20_000))
    ),
    "virtual nodes": lambda: (
        "nodes:\n  - id: a\n    type: template-transform\n    data:\n      template: hi\n"
        "      virtual_nodes:\n" + "".join(f"      {SHORT.format(n=n)}" for n in range(8_000))
    ),
    "inside of a loop": lambda: (
        "nodes:\n  - id: a\n    type: loop\n    data:\n      loop_count: 2\n      nodes:\n"
        + "".join(f"      {SHORT.format(n=n)}" for n in range(8_000))
    ),
    "by parentId": lambda: (
        "nodes:\n  - {id: a, type: loop, data: {loop_count: 2}}\n"
        + "".join(f"  - {{id: n{n}, parentId: a, type: answer, data: {{answer: a}}}}\n" for n in range(8_000))
    ),
    "one node by aliases": lambda: (
        "x: &n {id: a, type: answer, data: {answer: a}}\nnodes:\n" + "  - *n\n" * 20_000
    ),
}


@pytest.mark.parametrize("form", LARGE)
@pytest.mark.usefixtures("in_seconds")
def test_a_workflow_of_too_many_nodes_is_rejected(form: str, tmp_path: Path) -> None:
    path = tmp_path / "flow.yaml"
    path.write_text(LARGE[form](), encoding="utf-8")
    said = r"(at least [\d,]+ nodes, expected at most 2,000|more than 250,000 values)"
    with pytest.raises(ConfigError, match=rf"flow\.yaml line \d+: {said}"):
        validate(path)


def test_a_workflow_of_2000_nodes_is_read() -> None:
    nodes = [{"id": f"n{n}", "type": "answer", "data": {"answer": "a"}} for n in range(1999)]
    assert validate({"nodes": [START, *nodes]}) == []
    with pytest.raises(WorkflowDefinitionError, match="at least 2,001 nodes, expected at most 2,000"):
        Workflow.load({"nodes": [START, *nodes, {**nodes[0], "id": "more"}]})


@pytest.mark.parametrize(
    "data",
    [
        {"answer": "".join(f"{{{{#q{n}.x#}}}}" for n in range(20_000))},
        {
            "answer": "",
            "inputs": [{"name": f"i{n}", "type": "variable", "value": ["no", "x"]} for n in range(20_000)],
        },
    ],
    ids=["references", "inputs"],
)
@pytest.mark.usefixtures("in_seconds")
def test_the_check_ends_after_many_faults(data: dict[str, Any]) -> None:
    nodes = [{"id": f"n{n}", "type": "answer", "data": {"answer": "a"}} for n in range(1000)]
    with pytest.raises(WorkflowDefinitionError, match="the check ended after 500 faults") as error:
        validate({"nodes": [START, *nodes, {"id": "bad", "type": "answer", "data": data}]})
    assert str(error.value).count("\n") <= 20


@pytest.mark.parametrize(
    "code",
    [
        "x = " + "-" * 100_000 + "1",
        "x = a" + ".b" * 100_000,
        "x = 1" + " + 1" * 90_000,
        "x = " + "lambda: " * 3000 + "1",
        "x = " + "(" * 1000 + "1" + ")" * 1000,
        "".join(" " * n + "if 1:\n" for n in range(150)) + " " * 150 + "pass",
        "x = 1\n" * 100_000,
    ],
    ids=["signs", "attributes", "sums", "lambdas", "brackets", "blocks", "length"],
)
@pytest.mark.usefixtures("in_seconds")
def test_code_that_python_cannot_parse_is_a_fault(code: str) -> None:
    data = {"code": code, "code_language": "python3"}
    (fault,) = validate({"nodes": [START, {"id": "c", "type": "code", "data": data}]})
    assert fault.node_id == "c"
    assert any(said in fault.message for said in ("nested too deeply", "is not Python", "expected at most"))


@pytest.mark.parametrize(
    "text",
    [
        "{{#start" + " " * 100_000,
        "{{#" + " " * 100_000 + "x",
        "{{" + " " * 100_000 + "x",
        "{{start" + " " * 100_000 + "x",
        "{{#start" + ".b" * 100_000 + "#}}",
        "{" * 100_000,
        "{{#a" + " a" * 50_000 + "}",
        "{{ a #" + " " * 100_000 + "x",
        "{{" * 50_000 + "#a.b#",
    ],
)
@pytest.mark.usefixtures("in_seconds")
def test_a_text_with_half_a_reference_is_looked_through_in_time(text: str) -> None:
    references(text)
    near_references(text)
    list(misses(text, ["start"]))
    SHORTHAND.fullmatch(f"@a.b | x{text} y")
    validate({"nodes": [START, {"id": "a", "type": "answer", "data": {"answer": text}}]})


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("{{#a.b#}}", [("a", "b")]),
        ("{{#  a.b \n #}}", [("a", "b")]),
        ("{{#a#}}{{#b.c.0#}}", [("a",), ("b", "c", "0")]),
        ("{{#a b.c d#}}", [("a b", "c d")]),
        ("{{##}}{{# #}}{{#.a#}}{{#a}}{{#a#}", []),
    ],
)
def test_references_are_found_as_before(text: str, found: list[tuple[str, ...]]) -> None:
    assert list(references(text)) == found


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("{{a.b}}", ["{{a.b}}"]),
        ("{{ #a.b }}", ["{{ #a.b }}"]),
        ("{{ a.b# }}", ["{{ a.b# }}"]),
        ("{{#a.b#}} {{ a b }} {{}}", []),
    ],
)
def test_near_references_are_found_as_before(text: str, found: list[str]) -> None:
    assert list(near_references(text)) == found


def test_an_extractions_short_form_is_read_as_before() -> None:
    match = SHORTHAND.fullmatch("  @a.b.c |  Take the \n keywords  \n")
    assert match is not None
    assert match.groups() == ("a.b", "c", "Take the \n keywords")
    assert SHORTHAND.fullmatch("@a.b | ") is None
