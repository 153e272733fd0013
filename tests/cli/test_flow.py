"""`flow run`, `flow validate`, `flow graph` and `resume` of a workflow, as a user calls them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from called import call

FLOW = """\
name: helper
nodes:
  - {id: start, type: start, data: {variables: [query]}}
  - id: llm1
    type: llm
    data: {model: {provider: local, name: m}, prompt_template: [{role: user, text: "Do: {{#start.query#}}"}]}
  - id: tool1
    type: tool
    data:
      tool_name: shout
      tool_parameters: {text: "@llm1.context | Extract the keywords"}
  - {id: end, type: end, data: {outputs: [{variable: found, value_selector: [tool1, text]}]}}
mocks:
  llm1: {outputs: {text: a plan}}
  tool1.ext_1: {outputs: {text: keys}, errors: [first attempt fails]}
"""
TOOLS = """\
from pathlib import Path

from autoprompt.workflow import tool


@tool
def shout(text: str) -> str:
    if Path("closed").exists():
        raise RuntimeError("the desk is closed")
    return text.upper()
"""


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("AUTOPROMPT_CACHE_DIR", str(tmp_path / "cache"))
    retried = FLOW.replace("      tool_name", "      retry_config: {max_retries: 1}\n      tool_name")
    (tmp_path / "flow.yaml").write_text(retried, encoding="utf-8")
    (tmp_path / "once.yaml").write_text(FLOW, encoding="utf-8")
    (tmp_path / "tools.py").write_text(TOOLS, encoding="utf-8")
    return tmp_path


RUN = ("flow", "run", "flow.yaml", "--tools", "tools.py", "--input", "query=find it")


def test_outputs_come_on_stdout_and_the_nodes_on_stderr() -> None:
    result = call(*RUN)
    assert result.stdout == "found: KEYS\n"
    assert "ok llm1" in result.stderr
    assert "  ok tool1.ext_1 (Extraction: Extract the keywords): 0:00, 1 retry" in result.stderr


def test_quiet_says_nothing_but_the_outputs() -> None:
    assert call(*RUN, "--quiet").output == "found: KEYS\n"


def test_json_is_one_object_with_virtual_nodes_under_their_parent() -> None:
    data = json.loads(call(*RUN, "--json").stdout)
    assert data["found"] == "KEYS"
    assert [node["node_id"] for node in data["nodes"]] == ["start", "llm1", "tool1", "end"]
    (child,) = data["nodes"][2]["virtual_nodes"]
    assert (child["node_id"], child["parent_node_id"], child["retries"]) == ("tool1.ext_1", "tool1", 1)


def test_events_are_one_object_a_line_and_nothing_else() -> None:
    events = [json.loads(line) for line in call(*RUN, "--events").stdout.splitlines()]
    assert events[0]["event"] == "GraphRunStarted"
    assert events[-1] == {"event": "GraphRunSucceeded", "outputs": {"found": "KEYS"}}
    kinds = [(e["event"], e["node_id"]) for e in events if str(e.get("node_id")).startswith("tool1")]
    assert kinds == [
        ("NodeRunStarted", "tool1.ext_1"),
        ("NodeRunRetry", "tool1.ext_1"),
        ("NodeRunStreamChunk", "tool1.ext_1"),
        ("NodeRunSucceeded", "tool1.ext_1"),
        ("NodeRunStarted", "tool1"),
        ("NodeRunStreamChunk", "tool1"),
        ("NodeRunSucceeded", "tool1"),
    ]


@pytest.mark.parametrize("form", ["--json", "--events"])
def test_what_a_tool_prints_does_not_mix_with_results_for_programs(form: str, tmp_path: Path) -> None:
    loud = TOOLS.replace("    return text", "    print('asked for', text)\n    return text")
    (tmp_path / "tools.py").write_text(loud, encoding="utf-8")
    found = call(*RUN, form)
    assert "asked for keys" in found.stderr
    for text in [found.stdout] if form == "--json" else found.stdout.splitlines():
        assert isinstance(json.loads(text), dict)


@pytest.mark.parametrize("form", ["--json", "--events"])
def test_numbers_that_json_does_not_have_are_texts(form: str, tmp_path: Path) -> None:
    (tmp_path / "m.yaml").write_text("llm1: {outputs: {text: .nan}}\ntool1: {outputs: {text: .inf}}\n")
    found = call(*RUN, "--mocks", "m.yaml", form).stdout

    def refused(name: str) -> None:
        raise AssertionError(f"{name} is no JSON")

    for text in [found] if form == "--json" else found.splitlines():
        json.loads(text, parse_constant=refused)
    assert '"found": "Infinity"' in found


def test_inputs_and_mocks_may_stand_in_files(tmp_path: Path) -> None:
    (tmp_path / "in.yaml").write_text("query: from a file\n", encoding="utf-8")
    (tmp_path / "m.yaml").write_text("mocks: {tool1: {outputs: {text: mocked}}}\n", encoding="utf-8")
    result = call("flow", "run", "flow.yaml", "--inputs", "in.yaml", "--mocks", "m.yaml")
    assert result.stdout == "found: mocked\n"


def test_dates_and_words_such_as_no_are_texts_in_files_of_inputs_and_mocks(tmp_path: Path) -> None:
    (tmp_path / "m.yaml").write_text("tool1: {outputs: {text: 2024-05-06}}\n", encoding="utf-8")
    assert call(*RUN, "--mocks", "m.yaml").stdout == "found: 2024-05-06\n"
    (tmp_path / "in.yaml").write_text("query: no\nday: 2024-05-06\n", encoding="utf-8")
    more = ("--inputs", "in.yaml", "--mocks", "m.yaml", "--json")
    nodes = json.loads(call("flow", "run", "flow.yaml", *more).stdout)["nodes"]
    assert nodes[0]["outputs"]["query"] == "no"


def test_a_file_of_inputs_that_cannot_be_read_says_where(tmp_path: Path) -> None:
    (tmp_path / "in.yaml").write_text("query: a\nquery: b\n", encoding="utf-8")
    said = call("flow", "run", "flow.yaml", "--inputs", "in.yaml", code=3).stderr
    assert "in.yaml line 2: the key 'query' is given twice (line 1)" in said


def test_the_embedded_model_at_an_endpoint_is_refused_and_no_run_is_made(tmp_path: Path) -> None:
    model = ("--model", "local", "--base-url", "http://127.0.0.1:9/v1")
    assert "is an endpoint. Remove --base-url" in call("flow", "run", "flow.yaml", *model, code=2).stderr
    assert not (tmp_path / "runs").exists()


def test_a_missing_input_is_told_and_no_run_is_made(tmp_path: Path) -> None:
    result = call("flow", "run", "flow.yaml", "--tools", "tools.py", code=3)
    assert "--input query=..." in result.stderr
    assert not (tmp_path / "runs").exists()


def test_an_input_that_the_workflow_does_not_know_is_told() -> None:
    result = call(*RUN, "--input", "qurey=x")
    said = "warning: unknown input qurey. Did you mean query?"
    assert said in result.stderr
    assert result.stdout == "found: KEYS\n"
    assert said in call("runs", "show", "last").output


def test_a_pair_that_is_none_is_a_usage_error() -> None:
    assert "expected NAME=VALUE" in call("flow", "run", "flow.yaml", "--input", "query", code=2).stderr


def test_a_failed_run_has_an_exit_code_and_goes_on_with_resume(tmp_path: Path) -> None:
    closed = tmp_path / "closed"
    closed.touch()
    failed = call(*RUN, code=3)
    assert "failed tool1" in failed.stderr
    assert "node 'tool1': RuntimeError: the desk is closed" in failed.stderr
    closed.unlink()
    result = call("resume", "last")
    assert result.stdout == "found: KEYS\n"
    assert "llm1" not in result.stderr


NESTED = """\
name: nested
nodes:
  - {id: start, type: start, data: {variables: [{variable: items, type: json_object}]}}
  - id: each
    type: iteration
    data:
      iterator_selector: [start, items]
      output_selector: [inner, text]
      nodes:
        - {id: inner, type: tool, data: {tool_name: shout, tool_parameters: {text: "{{#each.item#}}"}}}
"""


def test_a_container_does_not_repeat_what_failed_inside_of_it(tmp_path: Path) -> None:
    (tmp_path / "nested.yaml").write_text(NESTED, encoding="utf-8")
    (tmp_path / "closed").touch()
    failed = call("flow", "run", "nested.yaml", "--tools", "tools.py", "--input", 'items=["a"]', code=3)
    shown = [line for line in failed.stderr.splitlines() if line.strip().startswith(("failed", "error"))]
    assert sum("the desk is closed" in line for line in shown) == 2  # of the node, and at the end
    assert "node 'inner': RuntimeError: …" in failed.stderr
    said = failed.stderr.partition("error: node 'each'")[2].splitlines()
    assert len(said) == 2  # without what LangGraph adds, the id of its task
    assert "resume: autoprompt resume" in said[1]


PASSES_AT_ONCE = """\
name: words
nodes:
  - {id: start, type: start, data: {variables: [{variable: items, type: array}]}}
  - id: outer
    type: iteration
    data:
      iterator_selector: [start, items]
      is_parallel: true
      parallel_nums: 2
      nodes:
        - id: inner
          type: iteration
          data:
            iterator_selector: [outer, item]
            nodes:
              - {id: say, type: tool, data: {tool_name: meet, tool_parameters: {text: "{{#inner.item#}}"}}}
"""
MEET = """\
import threading

from autoprompt.workflow import tool

both = threading.Barrier(2, timeout=30)


@tool
def meet(text: str) -> str:
    both.wait()
    return text
"""


def test_what_passes_at_once_have_done_is_shown_in_the_right_one(tmp_path: Path) -> None:
    (tmp_path / "words.yaml").write_text(PASSES_AT_ONCE, encoding="utf-8")
    (tmp_path / "meet.py").write_text(MEET, encoding="utf-8")
    items = '[["a", "b"], ["c", "d"]]'
    done = call("flow", "run", "words.yaml", "--tools", "meet.py", "--input", f"items={items}", "--json")
    outer = json.loads(done.stdout)["nodes"][1]
    found = {
        tuple(inner["passes"]): [(say["passes"], say["outputs"]["text"]) for say in inner["inner_nodes"]]
        for inner in outer["inner_nodes"]
    }
    assert found == {(0,): [([0, 0], "a"), ([0, 1], "b")], (1,): [([1, 0], "c"), ([1, 1], "d")]}
    assert "[1][0] say" in done.stderr
    shown = [
        line.lstrip("│├└─ ") for line in call("runs", "show", "last").stdout.splitlines() if "ok [" in line
    ]
    order = [line.split(":")[0] for line in shown]
    first, second = order.index("ok [0] inner"), order.index("ok [1] inner")
    assert order[first + 1 : first + 3] == ["ok [0][0] say", "ok [0][1] say"]
    assert order[second + 1 : second + 3] == ["ok [1][0] say", "ok [1][1] say"]


def test_a_model_that_fails_is_exit_code_4() -> None:
    failed = call("flow", "run", "once.yaml", "--tools", "tools.py", "--input", "query=x", code=4)
    assert "failed tool1.ext_1" in failed.stderr
    assert "first attempt fails" in failed.stderr


def test_failed_items_are_counted_and_named(tmp_path: Path) -> None:
    (tmp_path / "each.yaml").write_text(
        "nodes:\n"
        "  - {id: start, type: start, data: {variables: [{variable: items, type: array}]}}\n"
        "  - id: each\n    type: iteration\n    data:\n"
        "      iterator_selector: [start, items]\n      error_handle_mode: continue-on-error\n"
        "      nodes: [{id: t, type: template-transform, data: {template: '{{ 6 // n }}', "
        "variables: {n: each.item}}}]\n",
        encoding="utf-8",
    )
    done = call("flow", "run", "each.yaml", "--input", "items=[1, 0, 2, 0]", "--json")
    data = json.loads(done.stdout)
    assert data["output"] == ["6", None, "3", None]
    failed = data["nodes"][1]["process_data"]["failed_items"]
    assert [item["index"] for item in failed] == [1, 3]
    assert "warning: each: 2 of 4 items failed" in done.stderr


def test_a_kept_run_is_shown(tmp_path: Path) -> None:
    call(*RUN)
    shown = call("runs", "show", "last").stdout
    assert "helper" in shown
    assert "finished" in shown
    assert shown.index("ok tool1: ") < shown.index("ok tool1.ext_1") < shown.index("found: KEYS")
    assert json.loads(call("runs", "show", "last", "--json").stdout)["result"]["outputs"] == {"found": "KEYS"}
    (tmp_path / "closed").touch()
    call(*RUN, code=3)
    assert "Not finished. Resume with: autoprompt resume" in call("runs", "show", "last").stdout


@pytest.mark.parametrize(
    ("before", "after", "warned"), [("name: helper", "name: helper # hi", 0), ("Do: ", "Plan: ", 1)]
)
def test_nodes_edited_before_a_resume_are_warned_of(
    before: str, after: str, warned: int, tmp_path: Path
) -> None:
    (tmp_path / "closed").touch()
    assert "the desk is closed" in call(*RUN, code=3).stderr
    (tmp_path / "closed").unlink()
    file = tmp_path / "flow.yaml"
    file.write_text(file.read_text(encoding="utf-8").replace(before, after), encoding="utf-8")
    resumed = call("resume", "last")
    assert resumed.stdout == "found: KEYS\n"
    assert resumed.stderr.count("llm1: edited since this run began") == warned


def test_half_an_emoji_in_a_file_is_no_bug(tmp_path: Path) -> None:
    """As `json.dumps` writes it, and YAML reads it: two halves of a pair."""
    file = tmp_path / "flow.yaml"
    text = file.read_text(encoding="utf-8").replace('text: "Do: ', 'text: "\\ud83d\\ude00 Do: ')
    assert "ud83d" in text
    file.write_text(text, encoding="utf-8")
    assert call(*RUN).stdout == "found: KEYS\n"


def test_what_is_odd_in_the_file_is_said_when_it_runs(tmp_path: Path) -> None:
    file = tmp_path / "flow.yaml"
    file.write_text(
        file.read_text(encoding="utf-8").replace("{{#start.query#}}", "{{query}}"), encoding="utf-8"
    )
    assert "line 6: {{query}} is sent as it is" in call(*RUN).stderr


def test_resume_takes_what_a_workflow_may_be_given_anew() -> None:
    call(*RUN)
    said = call("resume", "last", "--set", "task=x", code=2).stderr
    assert (
        "--set task: a resumed `workflow` run does not take this. Remove it: a run keeps its settings."
        in said
    )
    assert (
        "--output: a resumed `workflow` run does not take this. Remove it."
        in call("resume", "last", "-o", "x", code=2).stderr
    )
    events = call("resume", "last", "--set", "max_calls=9", "--events").stdout.splitlines()
    assert json.loads(events[-1])["event"] == "GraphRunSucceeded"


def test_validate_finds_all_faults_of_all_files(tmp_path: Path) -> None:
    broken = FLOW.replace("type: tool", "type: tol").replace("#start.query#", "#start.qery#")
    (tmp_path / "broken.yaml").write_text(broken, encoding="utf-8")
    (tmp_path / "none.yaml").write_text("a: [", encoding="utf-8")
    result = call("flow", "validate", "broken.yaml", "flow.yaml", "none.yaml", "--json", code=3)
    faults = json.loads(result.stdout)["files"]
    assert {(f["line"], f["node_id"]) for f in faults["broken.yaml"] if f["severity"] == "error"} >= {
        (6, "llm1"),
        (8, "tool1"),
    }
    assert "broken.yaml line 8: node 'tool1':" in result.stderr
    assert "flow.yaml: nothing wrong" in result.stderr or "flow.yaml: 0 errors" in result.stderr
    assert faults["none.yaml"]


def test_validate_of_a_whole_file_exits_0() -> None:
    assert "flow.yaml: nothing wrong" in call("flow", "validate", "flow.yaml", "--tools", "tools.py").stderr


def test_the_graph_has_virtual_nodes_inside_of_their_parent() -> None:
    mermaid = call("flow", "graph", "flow.yaml").stdout
    parent = mermaid.index("subgraph")
    assert parent < mermaid.index("tool1.ext_1") < mermaid.index("end", parent)
    lines = call("flow", "graph", "flow.yaml", "--ascii").stdout.splitlines()
    at = next(n for n, line in enumerate(lines) if line.startswith("tool1"))
    assert lines[at + 1].startswith("    ")
    assert "tool1.ext_1" in lines[at + 1]


def test_a_tools_file_that_fails_is_told(tmp_path: Path) -> None:
    (tmp_path / "bad.py").write_text("import nothing_of_this_name\n", encoding="utf-8")
    result = call("flow", "run", "flow.yaml", "--tools", "bad.py", "--input", "query=x", code=3)
    assert "bad.py cannot be loaded: ModuleNotFoundError" in result.stderr
