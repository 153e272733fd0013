"""Broken files: every fault at once, each with file, line, node and what is known."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import Any

import pytest

from autoprompt.workflow import Workflow, WorkflowDefinitionError
from autoprompt.workflow.file.faults import Fault
from autoprompt.workflow.file.validation import validate

BROKEN = """\
nodes:
  - {id: start, type: start, data: {variables: [query]}}
  - id: llm1
    type: lmm
    data: {}
  - id: llm2
    type: llm
    data:
      prompt_template:
        - {role: user, text: "{{#start.qery#}} {{#later.output#}} {{#nobody.text#}}"}
  - id: later
    type: template-transform
    data: {template: x, variables: []}
  - id: later
    type: answer
    data: {answer: "{{#start.query#}}"}
  - id: a
    type: template-transform
    data: {template: x}
  - id: b
    type: template-transform
    data: {template: x}
  - id: tool1
    type: tool
    data:
      tool_name: search
      inputs:
        - name: query
          type: extraction
          value: {source_node_id: ghost, source_variable: context, extraction_prompt: get it}
edges:
  - {source: start, target: llm1}
  - {source: start, target: llm2}
  - {source: llm2, target: later}
  - {source: later, target: nowhere}
  - {source: start, target: a}
  - {source: a, target: b}
  - {source: b, target: a}
  - {source: start, target: tool1}
"""


def faults_of(text: str, tmp_path: Path, **more: Any) -> list[Fault]:
    path = tmp_path / "flow.yaml"
    path.write_text(textwrap.dedent(text), encoding="utf-8")
    return validate(path, **more)


def told(faults: list[Fault]) -> str:
    return "\n".join(map(str, faults))


def test_all_faults_at_once_with_line_and_node(tmp_path: Path) -> None:
    errors = [fault for fault in faults_of(BROKEN, tmp_path) if fault.severity == "error"]
    found = [(fault.line, fault.node_id) for fault in errors]
    assert found == [
        (4, "llm1"),  # unknown type
        (9, "llm2"),  # no model
        (10, "llm2"),  # unknown variable
        (10, "llm2"),  # later node
        (10, "llm2"),  # unknown node
        (14, "later"),  # the id twice
        (17, "a"),  # the cycle
        (28, "tool1.ext_1"),  # source of the extraction
        (35, "later"),  # dangling edge
    ]


@pytest.mark.parametrize(
    "words",
    [
        "flow.yaml line 4: node 'llm1': unknown type 'lmm'. Did you mean 'llm'? Known types: start, end, ",
        "flow.yaml line 9: node 'llm2': no model. Add `model: {provider: ..., name: ...}`",
        "line 10: node 'llm2': start.qery: 'start' has no variable 'qery'. Did you mean 'query'?",
        "line 10: node 'llm2': later.output: 'later' is a node that runs later. Before this node: start",
        "line 10: node 'llm2': nobody.text: no node 'nobody'. Known here: start",
        "line 14: node 'later': this id is used on line 11 already",
        "line 17: node 'a': a cycle: a -> b -> a (one of its edges is on line 37). Take an edge out, or "
        "repeat steps with a node of type loop or iteration.",
        "line 28: node 'tool1.ext_1': source node ghost is not in the workflow",
        "line 35: node 'later': edge 'later' -> 'nowhere': no node 'nowhere'. Known nodes: start, llm1",
    ],
)
def test_what_a_fault_says(words: str, tmp_path: Path) -> None:
    assert words in told(faults_of(BROKEN, tmp_path))


def test_loading_raises_all_of_them(tmp_path: Path) -> None:
    path = tmp_path / "flow.yaml"
    path.write_text(BROKEN, encoding="utf-8")
    with pytest.raises(WorkflowDefinitionError) as raised:
        Workflow.load(path)
    assert raised.value.exit_code == 3
    assert str(raised.value).count("\n") == 7  # all but the model, which a run may bring


def test_a_sound_file_has_no_faults(tmp_path: Path) -> None:
    text = """
        nodes:
          - {id: start, type: start, data: {variables: [query]}}
          - {id: llm1, type: llm, data: {model: m, prompt_template: "Say {{#start.query#}}"}}
    """
    assert faults_of(text, tmp_path) == []


def test_underscores_in_types(tmp_path: Path) -> None:
    text = """
        nodes:
          - {id: t, type: template_transform, data: {template: x}}
    """
    assert faults_of(text, tmp_path) == []


def test_a_model_for_all_nodes_makes_up_for_a_missing_one(tmp_path: Path) -> None:
    text = """
        nodes:
          - {id: llm1, type: llm, data: {prompt_template: "Hello"}}
    """
    assert "no model" in told(faults_of(text, tmp_path))
    assert faults_of(text, tmp_path, needs_model=False) == []


def test_a_mocked_node_needs_no_model_and_no_tool(tmp_path: Path) -> None:
    text = """
        mocks: {llm1: {outputs: {text: hi}}, t: {outputs: {text: found}}}
        nodes:
          - {id: llm1, type: llm, data: {prompt_template: "Hello"}}
          - {id: t, type: tool, data: {tool_name: nowhere_registered}}
    """
    assert faults_of(text, tmp_path) == []


def test_a_tool_that_is_not_registered_is_a_warning(tmp_path: Path) -> None:
    text = """
        nodes:
          - {id: t, type: tool, data: {tool_name: nowhere_registered}}
    """
    (fault,) = faults_of(text, tmp_path)
    assert fault.severity == "warning"
    assert "tool 'nowhere_registered' is not registered here" in fault.message


def test_a_key_that_a_tool_of_the_file_needs_and_that_is_not_set_is_a_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = """
        tools:
          weather: {url: "https://x.example/{city}?k=${WEATHER_KEY}", headers: {A: "${WEATHER_KEY}"}}
        nodes:
          - {id: t, type: tool, data: {tool_name: weather}}
    """
    monkeypatch.delenv("WEATHER_KEY", raising=False)
    (fault,) = faults_of(text, tmp_path)
    assert fault.severity == "warning"
    assert "tool 'weather' reads WEATHER_KEY from the environment, but it is not set" in fault.message
    monkeypatch.setenv("WEATHER_KEY", "k")
    assert faults_of(text, tmp_path) == []


def test_a_mock_of_no_node(tmp_path: Path) -> None:
    text = """
        mocks: {lm1: {outputs: {text: hi}}}
        nodes:
          - {id: llm1, type: llm, data: {model: m, prompt_template: "Hello"}}
    """
    assert "line 2: mocks: no node 'lm1'. Did you mean 'llm1'? Known: llm1." in told(
        faults_of(text, tmp_path)
    )


def test_a_node_on_another_branch(tmp_path: Path) -> None:
    text = """
        nodes:
          - {id: start, type: start, data: {variables: [q]}}
          - {id: left, type: template-transform, data: {template: l}}
          - {id: right, type: answer, data: {answer: "{{#left.output#}}"}}
        edges:
          - {source: start, target: left}
          - {source: start, target: right}
    """
    assert "'left' is a node that no path leads from to this one" in told(faults_of(text, tmp_path))


def test_a_node_inside_of_a_container_is_not_read_from_outside(tmp_path: Path) -> None:
    text = """
        nodes:
          - {id: start, type: start, data: {variables: [{variable: items, type: array}]}}
          - id: each
            type: iteration
            data:
              iterator_selector: [start, items]
              nodes:
                - {id: inner, type: template-transform, data: {template: x}}
          - {id: end, type: end, data: {outputs: {a: [inner, output], b: [each, output]}}}
    """
    (fault,) = faults_of(text, tmp_path)
    assert (fault.line, fault.node_id) == (10, "end")
    assert "a node inside of 'each'; from outside, read what 'each' puts out" in fault.message


def test_extraction_from_what_is_no_list_of_messages(tmp_path: Path) -> None:
    text = """
        nodes:
          - {id: start, type: start, data: {variables: [q]}}
          - {id: llm1, type: llm, data: {model: m, prompt_template: "Hello"}}
          - {id: t, type: tool, data: {tool_name: x, tool_parameters: {a: "@llm1.text | get it"}}}
    """
    assert "node 't.ext_1': variable llm1.text is not a list of messages" in told(faults_of(text, tmp_path))


def extracting(source: str) -> str:
    node, _, variable = source.partition(".")
    return EXTRACTING.replace("NODE", node).replace("VARIABLE", variable)


EXTRACTING = """
    nodes:
      - id: start
        type: start
        data:
          variables:
            - customer_text
            - {variable: age, type: number}
            - {variable: chat, type: json_object}
      - {id: note, type: template-transform, data: {template: "Hello"}}
      - {id: code, type: code, data: {code: "x", outputs: {n: {type: number}, talk: {type: "array[object]"}}}}
      - id: t
        type: llm
        data:
          model: m
          inputs:
            - name: keys
              type: extraction
              value:
                source_node_id: NODE
                source_variable: VARIABLE
                extraction_prompt: get it
                model: {name: m}
          prompt_template: "{{#keys#}}"
"""


@pytest.mark.parametrize(
    ("source", "kind"),
    [("start.customer_text", "str"), ("start.age", "float"), ("note.output", "str"), ("code.n", "float")],
)
def test_extraction_from_a_text_or_a_number(source: str, kind: str, tmp_path: Path) -> None:
    faults = told(faults_of(extracting(source), tmp_path))
    assert f"node 't.ext_1': variable {source} is not a list of messages, it is {kind}." in faults
    assert ("declare `type: json_object`" in faults) == source.startswith("start.")


@pytest.mark.parametrize("source", ["start.chat", "code.talk"])
def test_extraction_from_what_may_hold_messages(source: str, tmp_path: Path) -> None:
    assert faults_of(extracting(source), tmp_path) == []


def test_extraction_without_a_model(tmp_path: Path) -> None:
    text = """
        nodes:
          - {id: start, type: start, data: {variables: [q]}}
          - {id: code, type: code, data: {code: "x", outputs: {context: {type: "array[object]"}}}}
          - {id: t, type: tool, data: {tool_name: x, tool_parameters: {a: "@code.context | get it"}}}
    """
    assert "node 't.ext_1': no model for the extraction from code.context" in told(faults_of(text, tmp_path))


@pytest.mark.parametrize("own", [", model: gpt-y", ""])
def test_a_model_by_its_plain_name_will_do_for_an_extraction(own: str, tmp_path: Path) -> None:
    text = """
        nodes:
          - {id: llm1, type: llm, data: {model: gpt-x, prompt_template: "Hello"}}
          - id: t
            type: llm
            data:
              model: gpt-x
              inputs:
                - name: keys
                  type: extraction
                  value: {source_node_id: llm1, source_variable: context, extraction_prompt: get itOWN}
              prompt_template: "{{#keys#}}"
    """
    assert faults_of(text.replace("OWN", own), tmp_path) == []


def test_extraction_from_a_later_node(tmp_path: Path) -> None:
    text = """
        nodes:
          - {id: t, type: tool, data: {tool_name: x, tool_parameters: {a: "@llm1.context | get it"}}}
          - {id: llm1, type: llm, data: {model: m, prompt_template: "Hello"}}
    """
    assert "llm1.context: 'llm1' is a node that runs later" in told(faults_of(text, tmp_path))


def test_assigning_to_what_cannot_be_assigned_to(tmp_path: Path) -> None:
    text = """
        conversation_variables: {seen: []}
        nodes:
          - {id: start, type: start, data: {variables: [q]}}
          - id: set
            type: assigner
            data:
              items:
                - {variable_selector: [start, q], operation: over-write, value: x}
                - {variable_selector: [conversation, seen], operation: append, value: x}
    """
    (fault,) = faults_of(text, tmp_path)
    assert "start.q cannot be assigned to: only variables of the conversation (seen)" in fault.message


def test_a_comparison_operator_that_is_none(tmp_path: Path) -> None:
    text = """
        nodes:
          - {id: start, type: start, data: {variables: [q]}}
          - id: branch
            type: if-else
            data:
              cases:
                - case_id: "true"
                  conditions:
                    - {variable_selector: [start, q], comparison_operator: resembles, value: x}
    """
    (fault,) = faults_of(text, tmp_path)
    assert fault.line == 10
    assert "not a comparison operator. Known operators: contains" in fault.message


def test_an_expression_that_cannot_be_read(tmp_path: Path) -> None:
    text = """
        nodes:
          - {id: start, type: start, data: {variables: [q]}}
          - {id: branch, type: if-else, data: {cases: [{id: yes, if: "open('x')"}]}}
    """
    assert "no function 'open'. Known functions: len" in told(faults_of(text, tmp_path))


def test_a_variable_of_the_environment_that_there_is_not(tmp_path: Path) -> None:
    text = """
        environment_variables: [{name: api_key, value: x, value_type: secret}]
        nodes:
          - {id: a, type: answer, data: {answer: "{{#env.apikey#}} {{#sys.quary#}}"}}
    """
    found = told(faults_of(text, tmp_path))
    assert "env.apikey: 'env' has no variable 'apikey'. Did you mean 'api_key'?" in found
    assert "sys.quary: 'sys' has no variable 'quary'. Did you mean 'query'?" in found


def test_nodes_that_nothing_leads_to_do_not_keep_an_export_from_running(tmp_path: Path) -> None:
    text = """
        nodes:
          - {id: start, type: start, data: {variables: [q]}}
          - {id: answer, type: answer, data: {answer: hi}}
          - {id: left_over, type: answer, data: {answer: "{{#gone.text#}}"}}
        edges:
          - {source: start, target: answer}
    """
    (fault,) = faults_of(text, tmp_path)
    assert fault.severity == "warning"
    assert "nothing leads to this node, so it does not run" in fault.message


def test_a_container_without_nodes(tmp_path: Path) -> None:
    text = """
        nodes:
          - {id: l, type: loop, data: {loop_count: 3}}
    """
    assert "no nodes inside of this loop" in told(faults_of(text, tmp_path))


def test_an_app_of_an_unknown_mode(tmp_path: Path) -> None:
    text = """
        app: {mode: channel, name: x}
        kind: app
        model_config: {}
    """
    (fault,) = faults_of(text, tmp_path)
    assert (
        "line 2: an app of mode 'channel', expected one of workflow, advanced-chat, chat, completion, "
        "agent-chat." in str(fault)
    )


def test_a_broken_http_tool(tmp_path: Path) -> None:
    text = """
        tools:
          search: {adress: "http://x"}
        nodes:
          - {id: t, type: tool, data: {tool_name: search}}
    """
    found = told(faults_of(text, tmp_path))
    assert "line 3: adress: unknown key" in found
    assert "line 3: url: no value, expected one" in found


def test_code_that_is_not_run_here(tmp_path: Path) -> None:
    text = """
        nodes:
          - id: c
            type: code
            data:
              code: function main() {}
              code_language: javascript
    """
    (fault,) = faults_of(text, tmp_path)
    assert (fault.line, fault.node_id) == (6, "c")
    assert "Dify's code in javascript does not run here; mock it" in fault.message


def test_code_and_templates_that_cannot_be_read(tmp_path: Path) -> None:
    text = """
        nodes:
          - {id: start, type: start, data: {variables: [q]}}
          - id: c
            type: code
            data:
              code: |
                def main(x):
                    return {"x": x
          - id: t
            type: template-transform
            data: {template: "{% for x in %}"}
          - {id: e, type: end, data: {outputs: {x: [c, x]}}}
    """
    found = told(faults_of(text, tmp_path))
    assert "code line 2 is not Python" in found
    assert "line 1 of the template: Expected an expression" in found


NEAR = """
    nodes:
      - {id: start, type: start, data: {variables: [query]}}
      - id: llm1
        type: llm
        data:
          prompt_template:
            - {role: system, text: "MARK"}
            - {role: user, text: "{{#start.query#}}"}
    """


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("Do {{start.query}}", "start.query"),
        ("Do {{ start.query }}", "start.query"),
        ("Do {{#start.query}}", "start.query"),
        ("Do {{start.query#}}", "start.query"),
        ("Do {{query}}", "sys.query"),
        ("Do {{ #start.query# }}", "start.query"),
        ("Do {{#start.query# }}", "start.query"),
        ("问：{{sys.query}}", "sys.query"),
    ],
)
def test_what_looks_like_a_variable_and_is_none_is_a_warning(text: str, meant: str, tmp_path: Path) -> None:
    found = faults_of(NEAR.replace("MARK", text), tmp_path, needs_model=False)
    assert [(f.severity, f.line, f.node_id) for f in found] == [("warning", 8, "llm1")]
    assert found[0].message.endswith(f"is sent as it is. For the variable, write {{{{#{meant}#}}}}.")


@pytest.mark.parametrize(
    "text",
    [
        "{{ user.name }}",
        "${{ env.TOKEN }}",
        "{{start.nosuch}}",
        "{{llm1.text}}",
        "{{other}}",
        '{{"a": 1}}',
        "{start.query}",
        "{{start}}",
    ],
)
def test_braces_that_name_nothing_here_are_text(text: str, tmp_path: Path) -> None:
    quoted = text.replace('"', '\\"')
    assert faults_of(NEAR.replace("MARK", quoted), tmp_path, needs_model=False) == []


def test_a_jinja_prompt_may_use_double_braces(tmp_path: Path) -> None:
    template = """
    nodes:
      - {id: start, type: start, data: {variables: [query]}}
      - id: llm1
        type: llm
        data:
          prompt_template:
            - {role: user, edition_type: jinja2, jinja2_text: "{{ query }}", text: "{{ query }}"}
          prompt_config: {jinja2_variables: [{variable: query, value_selector: [start, query]}]}
    """
    assert faults_of(template, tmp_path, needs_model=False) == []


def test_a_cycle_of_a_workflow_in_no_file_names_no_line() -> None:
    node = {"id": "a", "type": "template-transform", "data": {"template": "x"}}
    (fault,) = validate({"nodes": [node], "edges": [["a", "a"]]})
    assert fault.message.startswith("a cycle: a -> a. Take an edge out, or repeat")


def nested(value: str, **more: Any) -> dict[str, Any]:
    """A tool whose virtual node `look` wants a value itself."""
    ask = {"id": "ask", "type": "llm", "data": {"model": "m", "prompt_template": "hi"}}
    kept = {"id": "kept", "type": "template-transform", "data": {"template": "x"}}
    look = {"id": "look", "type": "tool", "data": {"tool_name": "t", "tool_parameters": {"q": value}}}
    data = {"tool_name": "t", "virtual_nodes": [ask, kept, look]}
    end = {"id": "end", "type": "end", "data": {"outputs": {"found": ["tool1.look.ext_1", "text"]}}}
    tools = {"t": {"url": "http://x"}}
    return {"tools": tools, "nodes": [{"id": "tool1", "type": "tool", "data": data}, end], **more}


@pytest.mark.parametrize("source", ["ask", "tool1.ask"])
def test_a_virtual_node_may_want_a_value_itself(source: str) -> None:
    assert validate(nested(f"@{source}.context | Keywords")) == []
    mocks = {"tool1.look.ext_1": {"outputs": {"text": "k"}}, "tool1": {}, "tool1.look": {}, "tool1.ask": {}}
    content = nested(f"@{source}.context | Keywords", mocks=mocks)
    assert Workflow.load(content).run({}) == {"found": "k"}


@pytest.mark.parametrize(
    ("value", "told"),
    [
        ("@nobody.context | Keywords", "source node nobody is not in the workflow"),
        ("@kept.output | Keywords", "variable tool1.kept.output is not a list of messages"),
        ("@ask.context | Keywords of {{#nobody.text#}}", "nobody.text: no node 'nobody'"),
    ],
)
def test_what_a_virtual_node_wants_is_checked(value: str, told: str) -> None:
    (fault,) = validate(nested(value))
    assert fault.node_id == "tool1.look.ext_1"
    assert told in fault.message


def test_a_virtual_node_reads_its_own_inputs() -> None:
    given = {"inputs": [{"name": "tone", "type": "constant", "value": "dry"}]}
    data = {"model": "m", "prompt_template": "A {{#tone#}} joke", **given}
    node = {"virtual_nodes": [{"id": "ask", "type": "llm", "data": data}], "template": "x"}
    assert validate({"nodes": [{"id": "a", "type": "template-transform", "data": node}]}) == []
