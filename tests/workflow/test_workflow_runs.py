"""Runs that are kept: resumed after a failure, after `kill -9`, and refused where they cannot go on."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
import threading
from pathlib import Path
from typing import Any

import pytest
from fake_endpoint import Reply, answer, error, fake_endpoint
from waiting import wait_until

from autoprompt.errors import AuthenticationError, EndpointError, InputError, StoreError
from autoprompt.llm import ScriptedClient
from autoprompt.llm.limits.budget import BudgetMeter
from autoprompt.runs import RunStore
from autoprompt.settings.records import ModelSettings
from autoprompt.workflow import (
    BaseNode,
    EndNode,
    IterationError,
    IterativeWorkflowNode,
    LLMNode,
    StartNode,
    Workflow,
)
from autoprompt.workflow.engine.events import GraphRunStarted, IterationNext, NodeRunStarted
from autoprompt.workflow.engine.executions import open_executions
from autoprompt.workflow.engine.runner import RunSettings

Context = dict[str, Any]


def improving(client: ScriptedClient, passes: int = 10) -> Workflow:
    node = IterativeWorkflowNode(
        "improve",
        "Improve",
        [LLMNode("write", "Write", "Improve: {text}", "better", client)],
        lambda context: context["_iteration_count"] < passes,
        input_mapping={"text": "text"},
        iteration_mapping={"better": "text"},
        output_mapping={"better": "final"},
        result_collection_mode="append",
        result_variable="history",
    )
    return Workflow(
        [StartNode("start", "Start", ["text"]), node, EndNode("end", "End", ["final", "history"])]
    )


def test_resume_goes_on_at_the_failed_pass(tmp_path: Path) -> None:
    answers: list[Any] = [f"text {k}" for k in range(1, 7)]
    failing = ScriptedClient([*answers, EndpointError("the endpoint is gone")])
    with pytest.raises(IterationError, match="failed at iteration 7") as caught:
        improving(failing).run({"text": "text 0"}, run_id="r1", runs_dir=tmp_path)
    assert caught.value.results == answers
    rest = ScriptedClient([f"text {k}" for k in range(7, 11)])
    result = improving(rest).resume("r1", runs_dir=tmp_path)
    assert [call[-1].content for call in rest.calls] == [f"Improve: text {k}" for k in range(6, 10)]
    assert result == {"final": "text 10", "history": [f"text {k}" for k in range(1, 11)]}


def test_resume_asks_anew_what_a_failed_node_was_answered(tmp_path: Path) -> None:
    def flow(client: ScriptedClient) -> Workflow:
        return Workflow([LLMNode("rate", "Rate", "Rate.", "rating", client, output_format="json")])

    with pytest.raises(RuntimeError, match="holds no JSON"):
        flow(ScriptedClient(["no idea"])).run({}, run_id="r1", runs_dir=tmp_path)
    assert flow(ScriptedClient(['{"a": 1}'])).resume("r1", runs_dir=tmp_path) == {"rating": {"a": 1}}


def test_resume_of_a_finished_run_gives_its_result_and_asks_nothing(tmp_path: Path) -> None:
    client = ScriptedClient(["one", "two"])
    first = improving(client, 2).run({"text": "x"}, run_id="r1", runs_dir=tmp_path)
    assert improving(ScriptedClient([]), 2).resume("r1", runs_dir=tmp_path) == first


def test_resume_refuses_the_run_of_another_workflow(tmp_path: Path) -> None:
    improving(ScriptedClient(["one"]), 1).run({"text": "x"}, run_id="r1", runs_dir=tmp_path)
    other = Workflow([StartNode("start", "Start", ["text"])])
    with pytest.raises(StoreError, match="other nodes or edges"):
        other.resume("r1", runs_dir=tmp_path)
    RunStore(tmp_path).create({}, run_id="r2")
    with pytest.raises(StoreError, match="is a run of `optimize`, not of a workflow"):
        other.resume("r2", runs_dir=tmp_path)


def test_resume_in_one_process_counts_nothing_twice_in_its_budget(tmp_path: Path) -> None:
    with fake_endpoint() as endpoint:
        endpoint.replies.extend([answer("one"), error(401, "no such key")])
        models = ModelSettings(model="m", base_url=endpoint.base_url)
        settings = RunSettings(models=models, budget=BudgetMeter(max_calls=3))
        steps = [{"id": name, "type": "llm", "data": {"prompt_template": name}} for name in ("a", "b")]
        flow = Workflow.load({"nodes": [{"id": "start", "type": "start", "data": {}}, *steps]})
        with pytest.raises(AuthenticationError):
            flow.run({}, run_id="r1", runs_dir=tmp_path, settings=settings)
        flow.resume("r1", runs_dir=tmp_path, settings=settings)
        assert settings.budget is not None
        assert settings.budget.spent.calls == len(endpoint.requests) == 3


def test_run_id_that_is_there_already_is_refused(tmp_path: Path) -> None:
    flow = Workflow([StartNode("start", "Start")])
    flow.run({}, run_id="r1", runs_dir=tmp_path)
    with pytest.raises(StoreError, match="r1 already"):
        flow.run({}, run_id="r1", runs_dir=tmp_path)
    with pytest.raises(InputError, match="not an id of a run"):
        flow.run({}, run_id="../r1", runs_dir=tmp_path)


def test_run_without_an_id_gets_one(tmp_path: Path) -> None:
    events = list(Workflow([StartNode("start", "Start")], name="greet").stream({}, runs_dir=tmp_path))
    assert isinstance(events[0], GraphRunStarted)
    assert (tmp_path / str(events[0].run_id) / "result.json").exists()
    assert "greet" in str(events[0].run_id)


def test_values_that_are_no_plain_data_are_refused_in_a_kept_run(tmp_path: Path) -> None:
    class Locks(BaseNode):
        def execute(self, context: Context) -> Context:
            return {**context, "lock": threading.Lock()}

    flow = Workflow([Locks("locks", "Locks")])
    assert "lock" in flow.run({})
    with pytest.raises(InputError, match="node 'locks': its output 'lock' cannot be kept"):
        flow.run({}, runs_dir=tmp_path)
    with pytest.raises(InputError, match="inputs cannot be kept"):
        flow.run({"x": {1, 2}}, runs_dir=tmp_path)


def test_events_of_a_kept_run_are_in_its_log(tmp_path: Path) -> None:
    improving(ScriptedClient(["one"]), 1).run({"text": "x"}, run_id="r1", runs_dir=tmp_path)
    kinds = [event["event"] for event in RunStore(tmp_path).open("r1").read_events()]
    assert kinds[0] == "GraphRunStarted"
    assert kinds[-1] == "GraphRunSucceeded"


def test_result_of_a_kept_run_tells_tokens_and_cost(tmp_path: Path) -> None:
    improving(ScriptedClient(["one", "two"]), 2).run({"text": "x"}, run_id="r1", runs_dir=tmp_path)
    result = RunStore(tmp_path).open("r1").read_result() or {}
    assert result["tokens"] > 0
    assert result["cost_usd"] == 0.0
    (line,) = RunStore(tmp_path).list()
    assert (line.kind, line.status, line.cost_usd) == ("workflow", "finished", 0.0)


def test_resume_needs_no_inputs_that_look_like_secrets(tmp_path: Path) -> None:
    fails = [True]

    class Fails(BaseNode):
        def execute(self, context: Context) -> Context:
            if fails[0]:
                raise OSError("not yet")
            return context

    flow = Workflow([StartNode("start", "Start", ["token"]), Fails("fails", "Fails")])
    with pytest.raises(RuntimeError):
        flow.run({"token": "x"}, run_id="r1", runs_dir=tmp_path)
    fails.clear()
    fails.append(False)
    assert flow.resume("r1", runs_dir=tmp_path) == {"token": "x"}


def test_answers_at_two_places_are_two_questions(tmp_path: Path) -> None:
    client = ScriptedClient(["one", "two", "three"])
    nodes = [LLMNode(f"n{k}", "N", "The same question.", f"answer{k}", client) for k in range(3)]
    result = Workflow(nodes).run({}, runs_dir=tmp_path)
    assert result == {"answer0": "one", "answer1": "two", "answer2": "three"}


PROGRAM = """
    import sys
    from pathlib import Path
    from autoprompt.settings.records import ModelSettings
    from autoprompt.llm.models import connect
    from autoprompt.workflow import BaseNode, IterativeWorkflowNode, LLMNode, Workflow

    folder, url, is_resumed = Path(sys.argv[1]), sys.argv[2], sys.argv[3] == "resume"

    class Note(BaseNode):
        '''A step with an effect outside: one line a pass.'''
        def execute(self, context):
            with (folder / "notes.txt").open("a") as notes:
                notes.write(f"{context['_iteration_count']}\\n")
            return context

    client = connect(ModelSettings(model="fake", base_url=url))
    node = IterativeWorkflowNode(
        "improve", "Improve",
        [Note("note", "Note"), LLMNode("write", "Write", "Improve: {text}", "better", client)],
        lambda context: context["_iteration_count"] < 10,
        input_mapping={"text": "text"}, iteration_mapping={"better": "text"},
        output_mapping={"better": "final"}, result_collection_mode="append", result_variable="history",
    )
    flow = Workflow([LLMNode("draft", "Draft", "Draft.", "text", client), node])
    if is_resumed:
        print(flow.resume("r1", runs_dir=folder)["history"])
    else:
        flow.run({}, run_id="r1", runs_dir=folder)
"""


def test_killed_in_pass_7_of_10_and_resumed_calls_no_finished_pass_again(tmp_path: Path) -> None:
    script = tmp_path / "program.py"
    script.write_text(textwrap.dedent(PROGRAM))
    held, reached = threading.Event(), threading.Event()
    asked: list[str] = []

    def reply(body: dict[str, Any]) -> Reply:
        prompt = body["messages"][-1]["content"]
        asked.append(prompt)
        if prompt == "Draft.":
            return answer("v0")
        number = int(prompt.removeprefix("Improve: v")) + 1
        if number == 7 and not held.is_set():
            reached.set()
            held.wait(300)
        return answer(f"v{number}")

    with fake_endpoint(reply) as endpoint:
        command = [sys.executable, str(script), str(tmp_path), endpoint.base_url]
        process = subprocess.Popen([*command, "run"], env=dict(os.environ))
        while not reached.wait(0.1):
            assert process.poll() is None  # it ended before its seventh pass: see what it said
        wait_until(lambda: 6 in _passes_begun(tmp_path))  # the thread that reads the events writes it: soon
        process.send_signal(signal.SIGKILL)
        process.wait()
        held.set()
        before = len(asked)
        assert before == 1 + 7
        done = subprocess.run([*command, "resume"], capture_output=True, text=True, check=True, timeout=300)
    assert asked[before:] == [f"Improve: v{k}" for k in range(6, 10)]
    assert done.stdout.strip() == str([f"v{k}" for k in range(1, 11)])
    # The pass that was cut short is begun again; those before it are not.
    assert (tmp_path / "notes.txt").read_text().split() == [*map(str, range(7)), *map(str, range(6, 10))]
    run = RunStore(tmp_path).open("r1")
    assert run.read_result() == {**(run.read_result() or {}), "exceptions_count": 0}
    assert _passes_begun(tmp_path) == [*range(7), *range(6, 10)]
    assert _statuses(tmp_path / "r1" / "checkpoints.sqlite") == {"succeeded", "interrupted"}


def _passes_begun(runs_dir: Path) -> list[int]:
    events = RunStore(runs_dir).open("r1").read_events()
    return [event["pass_index"] for event in events if event["event"] == IterationNext.__name__]


def _statuses(path: Path) -> set[str]:
    with open_executions(path, "r1") as executions:
        return {row["status"] for row in executions.rows()}


def test_finished_nodes_are_not_begun_again_by_a_resume(tmp_path: Path) -> None:
    class Fails(BaseNode):
        def execute(self, context: Context) -> Context:
            if not (tmp_path / "mended").exists():
                raise OSError("no such disk")
            return {**context, "done": True}

    flow = Workflow([StartNode("start", "Start", ["a"]), Fails("fails", "Fails")])
    with pytest.raises(RuntimeError, match="node 'fails': OSError: no such disk"):
        flow.run({"a": 1}, run_id="r1", runs_dir=tmp_path)
    (tmp_path / "mended").touch()
    events = list(flow.stream_resume("r1", runs_dir=tmp_path))
    assert [e.node_id for e in events if isinstance(e, NodeRunStarted)] == ["fails"]
    assert json.loads((tmp_path / "r1" / "result.json").read_text())["outputs"] == {"a": 1, "done": True}
