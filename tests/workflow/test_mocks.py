"""Fields `NODE.OUTPUT` of rows: what is wrong with them is a fault of the data, told before any call."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import Any

import pytest
from flow_runs import flow as flow_of
from flow_runs import run_flow

from autoprompt import RunConfig
from autoprompt.errors import DatasetError
from autoprompt.records import Example
from autoprompt.workflow import Workflow, WorkflowDefinitionError
from autoprompt.workflow.engine.events import NodeRunFailed
from autoprompt.workflow.engine.mocks import stray_names
from autoprompt.workflow.file.validation import validate
from autoprompt.workflow.task import WorkflowTask, open_workflow

FLOW = """
    kind: app
    app: {mode: workflow, name: recorded}
    workflow:
      graph:
        nodes:
          - {id: s, data: {type: start, variables: [{variable: q, type: text-input, required: true}]}}
          - {id: find, data: {type: knowledge-retrieval, query_variable_selector: [s, q]}}
          - id: count
            data: {type: code, code_language: javascript, code: "", outputs: {n: {type: number}}}
          - id: sign
            data:
              type: human-input
              inputs: [{type: text, output_variable_name: note}]
              user_actions: [{id: yes_please}, {id: no_thanks}]
          - id: ask
            data:
              type: llm
              prompt_template:
                - {role: system, text: "Answer from {{#context#}} and {{#count.n#}}, {{#sign.note#}}."}
                - {role: user, text: "{{#s.q#}}"}
              context: {enabled: true, variable_selector: [find, result]}
          - {id: e, data: {type: end, outputs: [{variable: o, value_selector: [ask, text]}]}}
        edges:
          - {source: s, target: find}
          - {source: find, target: count}
          - {source: count, target: sign}
          - {source: sign, sourceHandle: yes_please, target: ask}
          - {source: ask, target: e}
"""
ROW = {"q": "?", "find.result": "Yes.", "count.n": "2", "sign.action": "yes_please", "target": "x"}


@pytest.fixture
def flow(tmp_path: Path) -> Path:
    path = tmp_path / "flow.yaml"
    path.write_text(textwrap.dedent(FLOW), encoding="utf-8")
    return path


def task(flow: Path, **settings: Any) -> WorkflowTask:
    return open_workflow(RunConfig(workflow=flow, input_field="q", **settings), flow)


def example(row: dict[str, Any], line: int) -> Example:
    return Example(f"r{line}", row["q"], row["target"], row, line=line, path=Path("t.jsonl"))


def told(flow: Path, *rows: dict[str, Any]) -> list[str]:
    """What is said of rows that are refused."""
    with pytest.raises(DatasetError) as error:
        task(flow).fitted([example(row, line) for line, row in enumerate(rows, 1)])
    return [str(problem) for problem in error.value.problems]


def renamed(old: str, new: str, value: Any = None) -> dict[str, Any]:
    value = ROW[old] if value is None else value
    return {**{name: given for name, given in ROW.items() if name != old}, new: value}


@pytest.mark.parametrize(
    ("node", "column", "said"),
    [
        ("find", "Help Center", "Did you mean 'find', the id of 'Help Center'? Known: s, find, count"),
        ("find", "help center", "Did you mean 'find', the id of 'Help Center'? Known: s, find, count"),
        (
            "1748055500009",
            "Help Center",
            "Did you mean '1748055500009', the id of 'Help Center'? Known: s, 1748055500009 (Help Center), ",
        ),
    ],
)
def test_a_column_named_by_the_title_of_a_node_is_told_its_id(
    tmp_path: Path, node: str, column: str, said: str
) -> None:
    text = (
        textwrap.dedent(FLOW)
        .replace("find", node)
        .replace("type: knowledge-retrieval", "type: knowledge-retrieval, title: Help Center")
    )
    (tmp_path / "flow.yaml").write_text(text, encoding="utf-8")
    row = renamed("find.result", f"{column}.result")
    assert said in told(tmp_path / "flow.yaml", row)[0]


def test_a_mock_named_by_the_title_of_a_node_is_told_its_id() -> None:
    titled = "type: knowledge-retrieval, title: Help Center"
    content = flow_of(FLOW.replace("type: knowledge-retrieval", titled))
    failed = run_flow(content, {"q": "?"}, mocks={"Help center": {"outputs": {"result": []}}})
    assert "no node 'Help center'. Did you mean 'find', the id of 'Help Center'?" in str(failed.error)
    (fault,) = [
        one
        for one in validate(content, needs_model=False, mocks={"Help center": {}})
        if one.code == "workflow.bad-mock"
    ]
    assert "Did you mean 'find', the id of 'Help Center'?" in fault.message


def test_rows_that_give_all_are_taken(flow: Path) -> None:
    assert task(flow).fitted([example(ROW, 1)]).warnings({Path("t.jsonl"): [example(ROW, 1)]}) == []
    assert run_flow(flow, {name: value for name, value in ROW.items() if name != "target"}).outputs == {
        "o": "<?>"
    }


@pytest.mark.parametrize(
    ("row", "said"),
    [
        (
            renamed("find.result", "find.results"),
            "the field find.results is unknown, so find.result has no value, which node 'ask' reads. "
            "Did you mean 'result'? Known: result.",
        ),
        (
            renamed("count.n", "count.m"),
            "the field count.m is unknown, so count.n has no value, which node 'ask' reads. Known: n.",
        ),
        (
            renamed("find.result", "fnd.result"),
            "the field fnd.result names the node 'fnd', which is not in the workflow. Did you mean 'find'? "
            "Known: s, find, count, sign, ask, e.",
        ),
        (
            renamed("find.result", "1748055500009.result"),
            "the field 1748055500009.result names the node '1748055500009', which is not in the workflow. ",
        ),
        (
            renamed("find.result", "find.result", [{"text": "x"}]),
            "the field find.result: a passage is {'text': 'x'}, expected a text, or an object with "
            "`content`.",
        ),
        (
            {**ROW, "find.result": None},
            "the field find.result is null, expected passages, or [] if there are none.",
        ),
        (
            renamed("find.result", "find.result", ' [ {"content": '),
            "the field find.result: a list in JSON that cannot be read: ' [ {\"content\": '.",
        ),
        (
            renamed("count.n", "count.n", "two"),
            "the field count.n is 'two', expected JSON of type number.",
        ),
        (renamed("count.n", "count.n", ["2"]), "the field count.n is ['2'] (list), expected type number."),
        (
            renamed("sign.action", "sign.action", "yes"),
            "the field sign.action: the action is 'yes', expected one of yes_please, no_thanks.",
        ),
    ],
)
def test_a_wrong_field_is_a_fault_of_the_row_with_its_line(
    flow: Path, row: dict[str, Any], said: str
) -> None:
    assert told(flow, ROW, row)[0].startswith(f"t.jsonl line 2: {said}")


def test_a_field_beside_a_mock_needs_no_more_than_the_mock_lacks(flow: Path, tmp_path: Path) -> None:
    mocks = tmp_path / "m.yaml"
    mocks.write_text("count: {outputs: {n: 3}}\n", encoding="utf-8")
    row = {name: value for name, value in ROW.items() if name != "count.n"}
    assert task(flow, mocks=mocks).fitted([example(row, 1)]).mocks["count"].outputs == {"n": 3}


@pytest.mark.parametrize(
    ("name", "said"),
    [
        (
            "ask.text",
            "is ignored: node 'ask' (llm) runs and makes its outputs itself. To give its outputs, mock it.",
        ),
        ("find.score", "is ignored: node 'find' has no such output. Known: result."),
        (
            "retrieval.result",
            "names the node 'retrieval', which is not in the workflow. Known: s, find, count,",
        ),
    ],
)
def test_a_field_that_stands_in_for_nothing_is_warned_of(flow: Path, name: str, said: str) -> None:
    row = example({**ROW, name: "x"}, 1)
    (warning,) = task(flow).fitted([row]).warnings({Path("t.jsonl"): [row]})
    assert str(warning).startswith(f"t.jsonl: the field {name} {said}")
    assert warning.code == "workflow.stray-field"


def test_all_nodes_without_outputs_are_shown_with_the_fields_that_may_be_meant(flow: Path) -> None:
    row = {"q": "?", "ask.result": "Yes.", "target": "x"}
    with pytest.raises(WorkflowDefinitionError) as error:
        task(flow).fitted([example(row, 1), example(row, 2)])
    assert [(one.code, one.said.partition(":")[0]) for one in error.value.problems] == [
        ("workflow.no-mock", "node 'find'"),
        ("workflow.no-mock", "node 'count'"),
        ("workflow.no-mock", "node 'sign'"),
        ("workflow.stray-field", "the field ask.result is ignored"),
    ]


def test_a_missing_mock_is_told_in_full_once() -> None:
    done = run_flow(flow_of(FLOW), {"q": "?"})
    (failed,) = done.of(NodeRunFailed)
    assert failed.error == "Dify's knowledge-retrieval does not run here; mock it"
    assert str(done.error).count("Write into the mocks file") == 1


def test_fields_with_dots_of_other_kinds_are_left_alone(flow: Path) -> None:
    names = [
        "meta.author",
        "sys.query",
        "env.KEY",
        "conversation.topic",
        "v1.2",
        "a.",
        ".b",
        "stat.code",
        "asks.rating",
    ]
    assert list(stray_names(Workflow.load(flow).definition, names)) == []


def test_a_mock_that_gives_no_value_of_its_node_is_refused_with_its_line(flow: Path, tmp_path: Path) -> None:
    mocks = tmp_path / "m.yaml"
    mocks.write_text(
        "count:\n  outputs: {n: many}\nsign: {outputs: {action: maybe}}\nask: {output: {}}\n",
        encoding="utf-8",
    )
    with pytest.raises(WorkflowDefinitionError) as error:
        task(flow, mocks=mocks)
    assert [(one.place.line, one.said) for one in error.value.problems] == [
        (2, "node 'count': the mock's output 'n' is 'many', expected JSON of type number"),
        (
            3,
            "node 'sign': the mock's output 'action': the action is 'maybe', "
            "expected one of yes_please, no_thanks",
        ),
        (4, "unknown key"),
    ]


DOCUMENT = """
    kind: app
    app: {mode: workflow, name: reader}
    workflow:
      graph:
        nodes:
          - id: s
            data:
              type: start
              variables:
                - {variable: paper, type: file, required: true}
                - {variable: q, type: text-input, required: true}
          - {id: read, data: {type: document-extractor, variable_selector: [s, paper]}}
          - {id: ask, data: {type: llm, prompt_template: [{role: user, text: "{{#read.text#}} {{#s.q#}}"}]}}
          - {id: e, data: {type: end, outputs: [{variable: o, value_selector: [ask, text]}]}}
        edges: [{source: s, target: read}, {source: read, target: ask}, {source: ask, target: e}]
"""


def test_a_document_whose_text_is_given_needs_no_file(tmp_path: Path) -> None:
    assert run_flow(DOCUMENT, {"q": "Who?", "read.text": "Ann."}).outputs == {"o": "<Ann. Who?>"}
    assert run_flow(DOCUMENT, {"q": "Who?"}, mocks={"read": {"outputs": {"text": "Ann."}}}).outputs == {
        "o": "<Ann. Who?>"
    }
    assert "no value for the input paper" in str(run_flow(DOCUMENT, {"q": "Who?"}).error)
    path = tmp_path / "flow.yaml"
    path.write_text(textwrap.dedent(DOCUMENT), encoding="utf-8")
    row = {"q": "Who?", "read.text": "Ann.", "target": "x"}
    assert task(path).fitted([example(row, 1)]).one_input is None
    del row["read.text"]
    with pytest.raises(WorkflowDefinitionError, match="mock it"):
        task(path).fitted([example(row, 1)])


NEWER = """
    kind: app
    app: {mode: workflow, name: newer}
    workflow:
      graph:
        nodes:
          - {id: s, data: {type: start, variables: []}}
          - {id: "%s", data: {type: time-travel, title: Back}}
          - id: e
            data:
              type: end
              outputs:
                - {variable: o, value_selector: ["%s", when]}
                - {variable: p, value_selector: ["%s", place]}
        edges: [{source: s, target: "%s"}, {source: "%s", target: e}]
"""


@pytest.mark.parametrize(
    ("node_id", "key"), [("n", "n"), ("1748055500002", "1748055500002"), ("0123", '"0123"'), ("a b", '"a b"')]
)
def test_the_line_to_write_names_what_other_nodes_read_and_can_be_read(
    node_id: str, key: str, tmp_path: Path
) -> None:
    said = str(run_flow(NEWER.replace("%s", node_id)).error)
    line = f'{key}: {{outputs: {{when: "...", place: "..."}}}}'
    assert f"`{line}`" in said
    path, mocks = tmp_path / "flow.yaml", tmp_path / "m.yaml"
    path.write_text(textwrap.dedent(NEWER.replace("%s", node_id)), encoding="utf-8")
    mocks.write_text(line + "\n", encoding="utf-8")
    from autoprompt.workflow.flow_run import read_mocks_file

    assert run_flow(path, mocks=read_mocks_file(mocks)).outputs == {"o": "...", "p": "..."}
