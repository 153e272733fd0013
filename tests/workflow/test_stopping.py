"""What ends a run stops its nodes at work: a closed stream, a failed branch, an interrupted evaluation."""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from flow_runs import flow

from autoprompt.errors import EndpointError, Interrupted
from autoprompt.llm import ScriptedClient
from autoprompt.measure.rows import in_threads
from autoprompt.records import Candidate, Example
from autoprompt.workflow import NodeError, RunSettings, StartNode, Workflow, tool
from autoprompt.workflow.engine import tools
from autoprompt.workflow.engine.context import Stop
from autoprompt.workflow.engine.errors import outage
from autoprompt.workflow.engine.events import IterationNext
from autoprompt.workflow.file.records import StartVariable
from autoprompt.workflow.program import StepRecorder, WorkflowProgram

ITEMS = 300
START = """
    nodes:
      - {id: start, type: start, data: {variables: [{variable: items, type: array}]}}
"""
EACH = """
      - id: each
        type: iteration
        data:
          iterator_selector: [start, items]
          output_selector: [work, text]
          nodes:
            - {id: work, type: tool, data: {tool_name: work}}
"""
TWO_BRANCHES = """
      - {id: fails, type: llm, data: {model: m, prompt_template: hi}}
    edges: [[start, each], [start, fails]]
"""
CONTAINER = """
      - id: outer
        type: iteration
        data:
          iterator_selector: [start, items]
          output_selector: [each, output]
          error_handle_mode: continue-on-error
          nodes:
            - id: each
              type: iteration
              data:
                iterator_selector: [start, items]
                output_selector: [work, text]
                nodes: [{id: work, type: tool, data: {tool_name: work}}]
            - {id: fails, type: llm, data: {model: m, prompt_template: hi}}
          edges: []
"""
INPUTS = {"items": list(range(ITEMS))}


class Work:
    """A tool that takes a moment, and counts."""

    def __init__(self) -> None:
        self.done, self.begun = 0, threading.Event()

    def __call__(self) -> str:
        self.begun.set()
        time.sleep(0.005)
        self.done += 1
        return "done"


@pytest.fixture
def work() -> Iterator[Work]:
    counted = Work()

    @tool
    def work() -> str:
        return counted()

    yield counted
    tools._registered.pop("work", None)


def failing(work: Work, error: Exception) -> RunSettings:
    """A model that fails when the other branch is at work."""

    def reply(messages: list[Any]) -> str:
        assert work.begun.wait(60)
        raise error

    return RunSettings(client=ScriptedClient(reply))


def test_a_stream_that_is_closed_begins_nothing_more(work: Work) -> None:
    with closing(Workflow.load(flow(START + EACH)).stream(INPUTS)) as events:  # type: ignore[type-var]
        next(event for event in events if isinstance(event, IterationNext))
    assert work.done < ITEMS / 2


def test_a_closed_run_that_is_kept_goes_on(work: Work, tmp_path: Path) -> None:
    workflow = Workflow.load(flow(START + EACH))
    with closing(workflow.stream(INPUTS, run_id="r", runs_dir=tmp_path)) as events:  # type: ignore[type-var]
        next(event for event in events if isinstance(event, IterationNext) and event.pass_index == 3)
    assert len(workflow.resume("r", runs_dir=tmp_path)["output"]) == ITEMS
    assert work.done <= ITEMS + 1


def test_a_branch_that_fails_ends_the_others(work: Work) -> None:
    workflow = Workflow.load(flow(START + EACH + TWO_BRANCHES))
    with pytest.raises(NodeError, match=r"node 'fails': .*away") as caught:
        workflow.run(INPUTS, settings=failing(work, EndpointError("away")))
    assert outage(caught.value) == "failed"
    assert work.done < ITEMS / 2


def test_a_branch_that_fails_in_a_pass_ends_that_pass_alone(work: Work) -> None:
    workflow = Workflow.load(flow(START + CONTAINER))
    result = workflow.run(INPUTS | {"items": [1, 2]}, settings=failing(work, EndpointError("away")))
    assert result == {"output": [None, None]}


def test_a_failure_while_a_run_is_stopped_is_no_answer(work: Work, tmp_path: Path) -> None:
    # As by Ctrl-C: what is on the wire is hung up on, and no run is to go on with that error.
    content = flow(START)
    data = {"model": "m", "prompt_template": "hi", "error_strategy": "default-value"}
    content["nodes"].append({"id": "ask", "type": "llm", "data": data})
    end = {"outputs": {"said": ["ask", "text"]}}
    content["nodes"].append({"id": "end", "type": "end", "data": end})
    stopping = threading.Event()

    def reply(messages: list[Any]) -> str:
        if not stopping.is_set():
            stopping.set()
            raise EndpointError("hung up")
        return "hello"

    client = ScriptedClient(reply)
    workflow = Workflow.load(content)
    settings = RunSettings(client=client, stopping=stopping)
    with pytest.raises(Interrupted):
        workflow.run({"items": []}, run_id="r", runs_dir=tmp_path, settings=settings)
    assert workflow.resume("r", runs_dir=tmp_path, settings=RunSettings(client=client)) == {"said": "hello"}


def test_rows_of_an_evaluation_that_ends_are_stopped(work: Work) -> None:
    program = WorkflowProgram(
        Workflow.load(flow(START + EACH)),
        ScriptedClient([]),
        "output",
        one_input=StartVariable(variable="items"),
    )
    text = str(INPUTS["items"])
    rows = [Example(id=str(n), input=text, target="x", fields={"input": text}) for n in range(3)]

    def ask(row: Example) -> None:
        if row.id != "0":
            program.run(row, Candidate({}))
        assert work.begun.wait(60)

    with closing(in_threads(rows, ask, 3)) as answers:
        next(answers)
    assert work.done < ITEMS / 2


def test_a_stopped_branch_is_no_failed_step(work: Work) -> None:
    seen = StepRecorder((), {})
    workflow = Workflow.load(flow(START + EACH + TWO_BRANCHES))
    with pytest.raises(NodeError):
        workflow.run(INPUTS, settings=failing(work, EndpointError("away")), on_event=seen)
    assert [step.node for step in seen.steps if step.error is not None] == ["fails"]


FAILING_ITEMS = """
      - id: each
        type: iteration
        data:
          iterator_selector: [start, items]
          output_selector: [work, text]
          is_parallel: true
          parallel_nums: 4
          nodes:
            - {id: ask, type: llm, data: {model: m, prompt_template: "{{#each.index#}}"}}
            - {id: work, type: tool, data: {tool_name: work}}
"""


@pytest.fixture
def has_failed(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """Set once those beside a node know that it has failed."""
    known, tell = threading.Event(), Stop.set

    def told(stop: Stop, cause: BaseException | None = None) -> None:
        tell(stop, cause)
        if stop.has_failed:
            known.set()

    monkeypatch.setattr(Stop, "set", told)
    return known


def test_an_item_that_ends_the_iteration_ends_those_beside_it(
    work: Work, has_failed: threading.Event
) -> None:
    def reply(messages: list[Any]) -> str:
        if messages[-1].content == "0":
            raise EndpointError("away")
        assert has_failed.wait(60)
        return "hello"

    workflow = Workflow.load(flow(START + FAILING_ITEMS))
    with pytest.raises(NodeError, match=r"item 1 of 4 .*away"):
        workflow.run({"items": [1, 2, 3, 4]}, settings=RunSettings(client=ScriptedClient(reply)))
    assert work.done == 0


def test_of_two_branches_that_fail_both_are_kept(tmp_path: Path, has_failed: threading.Event) -> None:
    """The second is asked anew by a resumed run too, though the first had ended the run already."""

    has_begun = threading.Event()

    def reply(messages: list[Any]) -> str:
        if messages[-1].content == "a":
            assert has_begun.wait(60)
            raise EndpointError("away")
        has_begun.set()
        assert has_failed.wait(60)
        raise EndpointError("away, too")

    content = flow(START)
    for name in ("a", "b"):
        content["nodes"].append({"id": name, "type": "llm", "data": {"model": "m", "prompt_template": name}})
    content["edges"] = [["start", "a"], ["start", "b"]]
    settings = RunSettings(client=ScriptedClient(reply))
    with pytest.raises(NodeError, match="node 'a'"):
        Workflow.load(content).run({"items": []}, run_id="r", runs_dir=tmp_path, settings=settings)
    with closing(sqlite3.connect(tmp_path / "r" / "checkpoints.sqlite")) as kept:
        rows = kept.execute("SELECT node_id, status, error FROM workflow_node_executions").fetchall()
    failed = {name: said for name, status, said in rows if status == "failed"}
    assert failed.keys() == {"a", "b"}
    assert "away, too" in failed["b"]


def test_a_stopped_run_of_python_says_how_to_resume_it(tmp_path: Path) -> None:
    stopping = threading.Event()
    stopping.set()
    workflow = Workflow([StartNode("start", "Start")])
    with pytest.raises(Interrupted) as error:
        workflow.run({}, run_id="r1", runs_dir=tmp_path, settings=RunSettings(stopping=stopping))
    again = f"resume('r1', runs_dir={str(tmp_path)!r})"
    assert str(error.value) == f"interrupted; the state is saved. Resume it with the workflow's {again}"
    assert workflow.resume("r1", runs_dir=tmp_path) == {}
