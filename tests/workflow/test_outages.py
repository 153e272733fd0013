"""A tool that was not there to be asked: its rows are lost, not wrong, and no score is made of them."""

from __future__ import annotations

import errno
import json
import urllib.error
from email.message import Message
from pathlib import Path

import httpx
import pytest

from autoprompt import CheckConfig, Models, RunConfig, check, evaluate
from autoprompt.cli.evaluate import _lines as eval_lines
from autoprompt.errors import EndpointError
from autoprompt.llm import ScriptedClient
from autoprompt.measure.compare import compare_rows
from autoprompt.metrics import get_metric
from autoprompt.optimizer.search.pool import Pool
from autoprompt.records import Candidate, EvaluatedRow, Example, Prediction
from autoprompt.workflow.engine.errors import causes
from autoprompt.workflow.engine.tools import FunctionTool, register_tool
from autoprompt.workflow.task import open_workflow
from tests.fake_endpoint import LOCAL, Reply, fake_endpoint

FLOW = """\
nodes:
  - {id: start, type: start, data: {variables: [item]}}
  - {id: get, type: tool, data: {tool_name: fetch}}
  - {id: look, type: llm, data: {prompt_template: [{role: user, text: "Sort {{#start.item#}}"}]}}
"""


def write_flow(folder: Path, url: str | None) -> Path:
    """A workflow that calls a tool before it asks: one over HTTP, or a registered function."""
    tools = f"tools: {{fetch: {{url: '{url}', method: post}}}}\n" if url else ""
    path = folder / "flow.yaml"
    path.write_text(tools + FLOW, encoding="utf-8")
    return path


def settings(folder: Path, flow: Path, rows: int) -> RunConfig:
    data = folder / "rows.jsonl"
    data.write_text(
        "".join(json.dumps({"item": f"item {n}", "kind": "A"}) + "\n" for n in range(rows)), encoding="utf-8"
    )
    return RunConfig(
        workflow=flow,
        dataset=data,
        input_field="item",
        target_field="kind",
        target_output="text",
        labels=("A", "B"),
        no_cache=True,
        allow_private_hosts=LOCAL,
    )


BODY = "{type: json, data: [{type: text, value: '{}'}]}"


def fetched(folder: Path, url: str | None = None, node: str = "") -> Prediction:
    row = Example("r1", "item 1", "A", {"item": "item 1", "kind": "A"}, line=2)
    path = write_flow(folder, url)
    if node:
        path.write_text(FLOW.replace("type: tool, data: {tool_name: fetch}", node), encoding="utf-8")
    config = RunConfig(
        target_output="text", input_field="item", target_field="kind", allow_private_hosts=LOCAL
    )
    task = open_workflow(config, path).fitted([row])
    program = task.program(
        ScriptedClient(lambda messages: "A"),
        get_metric("exact_match", labels=("A", "B")),
        labels=("A", "B"),
        rows=[row],
    )
    return program.run(row, Candidate(dict(program.components)))


@pytest.mark.parametrize("status", [401, 403, 429, 502, 503, 504])
def test_a_row_whose_tool_has_no_service_is_lost_and_not_wrong(tmp_path: Path, status: int) -> None:
    with fake_endpoint(lambda body: Reply(status, "down")) as endpoint:
        found = fetched(tmp_path, f"{endpoint.base_url}/x")
    assert found.error == f"node 'get': HttpError: tool fetch was answered {status}: down"


def test_a_row_whose_tool_does_not_answer_is_lost(tmp_path: Path) -> None:
    found = fetched(tmp_path, "http://127.0.0.1:9/x")
    assert found.failure == "not reached"
    assert str(found.error).startswith("node 'get': HttpError: tool fetch: POST http://127.0.0.1:9: ")


@pytest.mark.parametrize("status", [400, 404, 422, 500])
def test_what_a_service_makes_of_a_request_counts(tmp_path: Path, status: int) -> None:
    """The request may be the model's: left out, the row would speak for a prompt that asks for nonsense."""
    with fake_endpoint(lambda body: Reply(status, "no such city")) as endpoint:
        found = fetched(tmp_path, f"{endpoint.base_url}/x")
    assert (found.value, found.error) == (None, None)
    assert found.text == f"(no answer: node 'get': HttpError: tool fetch was answered {status}: no such city)"
    assert (found.error, found.failure) == (None, "step failed")


def answered(status: int) -> httpx.Response:
    return httpx.Response(status, request=httpx.Request("GET", "http://a"))


class OfRequests(OSError):
    """As `requests` has them, which need not be installed."""


OfRequests.__module__, OfRequests.__qualname__ = "requests.exceptions", "ConnectionError"


class Odd(RuntimeError):
    original_error = "a text"

    @property
    def response(self) -> None:
        raise RuntimeError("no response was set")


@pytest.mark.parametrize(
    ("error", "is_lost"),
    [
        (ConnectionRefusedError("refused"), True),
        (TimeoutError("slow"), True),
        (OSError(errno.ENETUNREACH, "no network"), True),
        (httpx.ConnectTimeout("slow"), True),
        (urllib.error.URLError(ConnectionRefusedError("refused")), True),
        (urllib.error.HTTPError("http://a", 503, "down", Message(), None), True),
        (httpx.HTTPStatusError("down", request=answered(429).request, response=answered(429)), True),
        (OfRequests("refused"), True),
        (urllib.error.HTTPError("http://a", 404, "none", Message(), None), False),
        (urllib.error.URLError("unknown url type: weather"), False),
        (httpx.HTTPStatusError("none", request=answered(404).request, response=answered(404)), False),
        (httpx.UnsupportedProtocol("no protocol"), False),
        (FileNotFoundError("no such file"), False),
        (OSError(errno.ENAMETOOLONG, "too long"), False),
        (ValueError("no such city"), False),
        (Odd("odd"), False),
    ],
)
def test_what_a_function_raises_is_an_outage_where_the_network_failed(
    tmp_path: Path, error: Exception, is_lost: bool
) -> None:
    def fetch() -> str:
        raise error

    register_tool(FunctionTool(fetch, "fetch"))
    found = fetched(tmp_path)
    assert (found.error is not None) is is_lost
    assert "node 'get'" in (found.error or found.text)


def test_errors_that_are_their_own_cause_have_an_end() -> None:
    first, second = ValueError("a"), KeyError("b")
    first.__cause__, second.__cause__ = second, first
    assert list(causes(first)) == [first, second]


def row(number: int, *, is_correct: bool, error: str | None = None) -> EvaluatedRow:
    return EvaluatedRow(
        f"r{number}",
        "x",
        "A",
        "A",
        is_correct,
        float(is_correct),
        "",
        error=error,
        failure="not reached" if error else None,
    )


def test_who_sends_rows_to_a_tool_that_is_not_there_gains_nothing() -> None:
    """24 of 40 right and 16 lost, beside 32 right: of the rows that both have all 24 beside 16."""
    gone = "node 'find': no tool 'find' is registered."
    old = [row(n, is_correct=n >= 8) for n in range(40)]
    new = [row(n, is_correct=n < 24, error=None if n < 24 else gone) for n in range(40)]
    compared = compare_rows(new, old, get_metric("exact_match"))
    assert compared is not None
    assert (compared.gain > 0, compared.p_value < 0.05, compared.left_out) == (True, True, 16)
    assert not compared.is_better
    pool = Pool()
    entry = pool.add(Candidate({"prompt": "x"}))
    pool.record(entry.candidate.id, new)
    assert entry.mean([r.example_id for r in new]) == 24 / 40
    assert not entry.refusals


@pytest.mark.parametrize(("more", "is_lost"), [("", False), (", retry_config: {max_retries: 1}", True)])
def test_a_request_that_handles_its_failure_by_itself_passes_any_status_on(
    tmp_path: Path, more: str, is_lost: bool
) -> None:
    """As Dify has it: what comes of a status is for the nodes behind it, unless the node is to try again."""
    with fake_endpoint(lambda body: Reply(503, "down")) as endpoint:
        node = f"type: http-request, data: {{method: post, url: '{endpoint.base_url}/x', body: {BODY}{more}}}"
        found = fetched(tmp_path, node=node)
    assert (found.error is not None) is is_lost
    assert found.value == (None if is_lost else "A")


def test_nothing_is_scored_where_the_tool_of_every_row_is_down(tmp_path: Path) -> None:
    config = settings(tmp_path, write_flow(tmp_path, "http://127.0.0.1:9/x"), 8)
    with pytest.raises(EndpointError, match=r"all 8 rows failed; the first: not reached: node 'get'"):
        evaluate(config, models=Models(ScriptedClient(lambda messages: "A")))


def test_why_a_node_gave_no_answer_is_told_beside_how_many(tmp_path: Path) -> None:
    def fetch() -> str:
        raise ValueError("no such city")

    register_tool(FunctionTool(fetch, "fetch"))
    config = settings(tmp_path, write_flow(tmp_path, None), 3)
    report = evaluate(config, models=Models(ScriptedClient(lambda messages: "A")))
    why = "the first (3 times): node 'get': ValueError: no such city"
    assert f"0 rows with an unreadable answer, 3 that failed ({why})" in eval_lines(report)
    assert (report.failed, report.unparsed) == (3, 0)
    assert f"3 of 3 rows failed, which counts as a wrong answer; {why}" in [
        warning.said for warning in report.warnings
    ]


def failing(folder: Path, error: Exception) -> Path:
    def fetch() -> str:
        raise error

    register_tool(FunctionTool(fetch, "fetch"))
    return write_flow(folder, None)


def test_a_check_says_that_a_node_failed_in_many_rows(tmp_path: Path) -> None:
    """A tool with a wrong address answers 404 to every row, and any prompt is as good as any other then."""
    config = settings(tmp_path, failing(tmp_path, ValueError("no such city")), 8)
    limits = CheckConfig(baseline=tmp_path / "b.json")
    report = check(config, limits, is_update=True, models=Models(ScriptedClient(lambda messages: "A")))
    why = "the first (8 times): node 'get': ValueError: no such city"
    assert f"8 of 8 rows failed, which counts as a wrong answer; {why}" in str(report.warnings[0])


def test_a_new_baseline_says_which_cases_it_lacks(tmp_path: Path) -> None:
    def fetch(item: str) -> str:
        if item == "item 3":
            raise ConnectionRefusedError("refused")
        return item

    register_tool(FunctionTool(fetch, "fetch"))
    flow = write_flow(tmp_path, None)
    given = "tool_name: fetch, tool_parameters: {item: {type: variable, value: [start, item]}}"
    flow.write_text(FLOW.replace("tool_name: fetch", given), encoding="utf-8")
    limits = CheckConfig(baseline=tmp_path / "b.json")
    models = Models(ScriptedClient(lambda messages: "A"))
    report = check(settings(tmp_path, flow, 20), limits, is_update=True, models=models)
    assert str(report.warnings[-1]).startswith(
        "1 of 20 cases got no answer and are not in the baseline: not reached"
    )
