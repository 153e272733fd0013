"""How `flow run` ends where it does not come to its end, and with values that JSON does not have."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from called import call
from endpoint import KEY, Endpoint
from fake_endpoint import error, fake_endpoint
from waiting import wait_until

from autoprompt.runs import RunStore
from autoprompt.workflow.engine import tools

EACH = """\
name: many
nodes:
  - {id: start, type: start, data: {variables: [{variable: items, type: array}]}}
  - id: each
    type: iteration
    data:
      iterator_selector: [start, items]
      output_selector: [short, text]
      is_parallel: true
      parallel_nums: 4
      error_handle_mode: continue-on-error
      nodes:
        - {id: short, type: llm, data: {prompt_template: "Shorten {{#each.item#}}"}}
  - {id: end, type: end, data: {outputs: {o: [each, output]}}}
mocks:
  short: {outputs: {text: done}, delay_s: 0.2}
"""
NAN = """\
name: mean
nodes:
  - {id: start, type: start, data: {variables: [query]}}
  - id: mean
    type: code
    data:
      code: "def main():\\n    return {'x': float('nan')}"
      outputs: {x: {type: number}}
  - {id: end, type: end, data: {outputs: {x: [mean, x]}}}
"""
TWO = """\
name: two
nodes:
  - {id: start, type: start, data: {variables: [query]}}
  - {id: a, type: llm, data: {prompt_template: "First {{#start.query#}}"}}
  - {id: b, type: llm, data: {prompt_template: "Then {{#a.text#}}"}}
  - {id: end, type: end, data: {outputs: {o: [b, text]}}}
"""


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("AUTOPROMPT_CACHE_DIR", str(tmp_path / "cache"))
    for name, text in (("many", EACH), ("mean", NAN), ("two", TWO)):
        (tmp_path / f"{name}.yaml").write_text(text, encoding="utf-8")
    return tmp_path


def test_ctrl_c_begins_no_further_item_of_an_iteration(here: Path) -> None:
    (here / "items.json").write_text(json.dumps({"items": list(range(400))}), encoding="utf-8")
    command = [sys.executable, "-m", "autoprompt", "flow", "run", "many.yaml", "--inputs", "items.json", "-q"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=dict(os.environ)) as process:
        wait_until(lambda: _begun(here) >= 8)
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=30)
    assert process.returncode == 130
    assert 8 <= _begun(here) < 200  # of 400, which take 20 s
    (line,) = RunStore(here / "runs").list()
    assert f"Resume with: autoprompt resume {line.run_id}" in said


def _begun(here: Path) -> int:
    files = list(here.glob("runs/*/events.jsonl"))
    return files[0].read_text(encoding="utf-8").count('"IterationNext"') if files else 0


def test_a_value_that_is_no_json_is_kept_as_text() -> None:
    assert call("flow", "run", "mean.yaml", "--input", "query=x", "-q").stdout == "x: NaN\n"
    (line,) = RunStore(Path("runs")).list()
    assert line.status == "finished"
    result = RunStore(Path("runs")).open(line.run_id).read_result()
    assert result is not None
    assert result["outputs"] == {"x": "NaN"}


def test_a_cap_is_an_error_that_says_how_to_go_on(
    endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    model = ("--base-url", endpoint.base_url, "--model", "m")
    said = call("flow", "run", "two.yaml", "--input", "query=x", *model, "--max-calls", "1", "-q", code=3)
    (line,) = RunStore(Path("runs")).list()
    again = f"autoprompt resume {line.run_id} --set max_calls=N"
    assert again in " ".join(said.stderr.split())
    done = call("resume", line.run_id, "--set", "max_calls=2", "-q")
    assert done.stdout == "o: normal\n"


@pytest.mark.parametrize("caps", [("--max-calls", "1"), ("--max-cost", "0.00002")])
def test_a_resumed_run_keeps_its_cap_and_what_it_has_used(caps: tuple[str, str], here: Path) -> None:
    with fake_endpoint() as endpoint:
        prices = ("--set", "price_input=1", "--set", "price_output=1") if caps[0] == "--max-cost" else ()
        flags = ("--base-url", endpoint.base_url, "--model", "m", "--no-cache", *prices)
        call("flow", "run", "two.yaml", "--input", "query=x", *flags, *caps, code=3)
        for _ in range(2):
            again = call("resume", "last", code=3)
            assert f"{caps[0].removeprefix('--').replace('-', '_')}=" in again.stderr
        assert len(endpoint.requests) == 1
        call("resume", "last", "--set", f"{caps[0].removeprefix('--').replace('-', '_')}=2")
        assert len(endpoint.requests) == 2
    assert json.loads(call("runs", "list", "--json").stdout)["runs"][0]["calls"] == 2


def test_a_failed_node_says_how_the_run_goes_on(here: Path) -> None:
    with fake_endpoint(lambda _: error(401, "no such key")) as endpoint:
        flags = ("--base-url", endpoint.base_url, "--model", "m", "--quiet", "--json")
        failed = call("flow", "run", "two.yaml", "--input", "query=x", *flags, code=4)
    run = json.loads(call("runs", "list", "--json").stdout)["runs"][0]["run_id"]
    said = f"The results of finished nodes are kept. Fix the problem, then resume: autoprompt resume {run}"
    assert failed.stderr.endswith(f"{said}\n")
    assert json.loads(failed.stdout)["error"]["message"].endswith(said)


def test_a_node_that_fails_on_its_inputs_says_that_a_resumed_run_keeps_them(here: Path) -> None:
    each = (
        "iterator_selector: [start, items], nodes: [{id: t, type: template-transform, data: {template: x}}]"
    )
    (here / "each.yaml").write_text(
        "nodes:\n  - {id: start, type: start, data: {variables: [items, other]}}\n"
        f"  - {{id: each, type: iteration, data: {{{each}}}}}\n",
        encoding="utf-8",
    )
    failed = call("flow", "run", "each.yaml", "--input", "items=a", "--input", "other=b", "-q", code=3)
    said = "To change the input items, start a new run: a resumed run keeps its inputs."
    assert failed.stderr.splitlines()[-1] == said


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "mocks:\n  a: {outputs: {text: x}}\nb: {outputs: {text: y}}\n",
            "m.yaml line 3: 'b' is beside `mocks:`, so it is not read as a mock. Write each mock below "
            "`mocks:` as `NODE: {outputs: {...}}`.",
        ),
        ("mocks:\n", "m.yaml line 1: there are no mocks below `mocks:`. Write each mock below"),
    ],
)
def test_a_file_of_mocks_has_them_below_one_key_or_at_the_top(here: Path, text: str, said: str) -> None:
    (here / "m.yaml").write_text(text, encoding="utf-8")
    for command in ("run", "validate"):
        failed = call("flow", command, "two.yaml", "--mocks", "m.yaml", code=3)
        assert said in " ".join(failed.stderr.split())


CALLS = "{id: find, type: tool, data: {tool_name: look_up_late, tool_parameters: {}}}"
OF_EACH = "iterator_selector: [start, q], output_selector: [find, text]"


@pytest.mark.parametrize(
    ("node", "said"),
    [
        (CALLS, "text: found"),
        (f"{{id: each, type: iteration, data: {{{OF_EACH}, nodes: [{CALLS}]}}}}", 'output: ["found"]'),
    ],
)
def test_a_run_without_its_tool_goes_on_where_it_is_given(node: str, said: str, here: Path) -> None:
    """`resume` knows the flags that the run was started with, and takes no other tools."""
    start = "{id: start, type: start, data: {variables: [{variable: q, type: array}]}}"
    (here / "my asks.yaml").write_text(f"nodes:\n  - {start}\n  - {node}\n", encoding="utf-8")
    (here / "late.py").write_text(
        "from autoprompt.workflow import tool\n\n@tool\ndef look_up_late() -> str:\n    return 'found'\n",
        encoding="utf-8",
    )
    (here / "in.yaml").write_text("q: [a]\n", encoding="utf-8")
    tools._registered.pop("look_up_late", None)
    failed = call("flow", "run", "my asks.yaml", "--inputs", "in.yaml", "-q", code=3)
    (line,) = RunStore(Path("runs")).list()
    again = f"autoprompt resume {line.run_id} --set tools=FILE.py"
    assert f"resume: {again}" in " ".join(failed.stderr.split())
    done = call("resume", line.run_id, "--set", "tools=late.py", "-q")
    assert said in done.stdout


def test_a_question_that_is_read_and_not_given_is_said(here: Path) -> None:
    flow = TWO.replace("[query]", "[q]").replace("start.query", "sys.query")
    (here / "sys.yaml").write_text(
        f"{flow}mocks: {{a: {{outputs: {{text: x}}}}, b: {{outputs: {{text: y}}}}}}\n"
    )
    said = "the workflow reads sys.query, but you gave no query"
    assert said in call("flow", "run", "sys.yaml", "--input", "q=1").stderr
    assert said not in call("flow", "run", "sys.yaml", "--input", "q=1", "--input", "sys.query=2").stderr


def test_a_finished_workflow_has_no_verdict_to_report() -> None:
    call("flow", "run", "mean.yaml", "--input", "query=x", "-q")
    assert "is a workflow run, which has no report" in call("report", "last", code=3).stderr
