"""What a kept run holds: values, inputs, finished passes, usage, failures that were taken up."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from flow_runs import flow
from hypothesis import given
from hypothesis import strategies as st

from autoprompt.errors import EndpointError, InputError
from autoprompt.llm import ScriptedClient
from autoprompt.llm.client import Completion
from autoprompt.records import Usage
from autoprompt.runs import RunStore
from autoprompt.workflow import (
    BaseNode,
    EndNode,
    IterationError,
    IterativeWorkflowNode,
    LLMNode,
    NodeError,
    StartNode,
    Workflow,
)
from autoprompt.workflow.engine.definition import RetryConfig
from autoprompt.workflow.engine.events import GraphRunPartialSucceeded, GraphRunStarted
from autoprompt.workflow.engine.executions import plain, read, written
from autoprompt.workflow.engine.runner import RunSettings

Context = dict[str, Any]
CONTAINERS = """
    nodes:
      - {id: start, type: start, data: {variables: [{variable: items, type: array}]}}
      - id: each
        type: TYPE
        data:
          iterator_selector: [start, items]
          loop_count: 3
          nodes:
            - id: lacks
              type: code
              data:
                code: "def main(): raise OSError('not there')"
                code_language: python3
                outputs: {found: {type: string}}
                error_strategy: default-value
                default_value: [{key: found, type: string, value: nothing}]
            - {id: ask, type: llm, data: {model: m, prompt_template: "ask {{#each.index#}}"}}
"""
KEYS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text() | st.just("\0pairs")
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(KEYS, inner),
)


class Counts(BaseNode):
    """Counts by number, and fails where `fails` says so."""

    fails = False

    def execute(self, context: Context) -> Context:
        number = context["_iteration_count"]
        if self.fails and number == 2:
            raise OSError("not yet")
        return {**context, "counts": {**context.get("counts", {}), number: 1}, "pair": (number, (1, 2))}


def test_a_resumed_run_works_with_the_values_that_the_run_had(tmp_path: Path) -> None:
    class Look(BaseNode):
        def execute(self, context: Context) -> Context:
            return {**context, "first": context["counts"][0], "of": type(context["pair"]).__name__}

    step = Counts("count", "Count")
    passes = IterativeWorkflowNode(
        "passes",
        "Passes",
        [step],
        lambda context: context["_iteration_count"] < 4,
        input_mapping={"pair": "pair"},
        iteration_mapping={"counts": "counts"},
        output_mapping={"counts": "counts", "pair": "pair"},
    )
    flow = Workflow([StartNode("start", "Start", ["pair"]), passes, Look("look", "Look")])
    whole = flow.run({"pair": (1, 2)}, run_id="whole", runs_dir=tmp_path)
    step.fails = True
    with pytest.raises(IterationError):
        flow.run({"pair": (1, 2)}, run_id="r1", runs_dir=tmp_path)
    step.fails = False
    assert flow.resume("r1", runs_dir=tmp_path) == whole
    assert whole["counts"] == {0: 1, 1: 1, 2: 1, 3: 1}
    assert (whole["first"], whole["pair"], whole["of"]) == (1, [3, [1, 2]], "list")


def test_a_run_that_was_stopped_before_its_first_checkpoint_has_its_inputs(tmp_path: Path) -> None:
    inputs = {"token": "abc", "msg": "key sk-abcdefghijklmnopqrstuvwxyz", "by": {1: "one"}}
    flow = Workflow([StartNode("start", "Start", ["token", "msg", "by"])])
    stream = flow.stream(inputs, run_id="r1", runs_dir=tmp_path)
    assert isinstance(next(stream), GraphRunStarted)
    stream.close()  # type: ignore[attr-defined]
    assert flow.resume("r1", runs_dir=tmp_path) == inputs
    assert "sk-" not in (tmp_path / "r1" / "config.yaml").read_text()


def test_keys_that_cannot_be_kept_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"inputs cannot be kept .a key of a dict is tuple"):
        Workflow([StartNode("start", "Start")]).run({"x": {(1, 2): 3}}, runs_dir=tmp_path)


def test_an_answer_that_a_resumed_run_was_given_again_is_counted_once(tmp_path: Path) -> None:
    step = Counts("count", "Count")

    def asking(client: ScriptedClient) -> Workflow:
        passes = IterativeWorkflowNode(
            "passes",
            "Passes",
            [LLMNode("ask", "Ask", "Ask {_iteration_count}.", "said", client), step],
            lambda context: context["_iteration_count"] < 3,
            output_mapping={"said": "said"},
        )
        return Workflow([passes])

    answers = [Completion(text, Usage(30, 1, 0.5)) for text in "abc"]
    step.fails = True
    with pytest.raises(IterationError):
        asking(ScriptedClient(answers)).run({}, run_id="r1", runs_dir=tmp_path)
    step.fails = False
    assert asking(ScriptedClient([])).resume("r1", runs_dir=tmp_path)["said"] == "c"
    result = RunStore(tmp_path).open("r1").read_result() or {}
    assert (result["tokens"], result["cost_usd"]) == (93, 1.5)


def test_answers_of_attempts_that_failed_are_counted(tmp_path: Path) -> None:
    answers = [Completion("a long answer, no JSON", Usage(30, 100)), Completion("{}", Usage(30, 8))]
    ask = LLMNode("ask", "Ask", "Ask.", "said", ScriptedClient(answers), output_format="json")
    ask.retry_config = RetryConfig(max_retries=1)
    Workflow([ask]).run({}, run_id="r1", runs_dir=tmp_path)
    assert (RunStore(tmp_path).open("r1").read_result() or {})["tokens"] == 168


class Lacks(BaseNode):
    """Fails, which its default value takes up."""

    error_strategy = "default-value"

    def execute(self, context: Context) -> Context:
        raise OSError("not there")


def test_failures_that_were_taken_up_in_finished_passes_are_told_by_a_resumed_run(tmp_path: Path) -> None:
    step = Counts("count", "Count")
    passes = IterativeWorkflowNode(
        "passes", "Passes", [Lacks("lacks", "Lacks"), step], lambda context: context["_iteration_count"] < 3
    )
    step.fails = True
    with pytest.raises(IterationError):
        Workflow([passes]).run({}, run_id="r1", runs_dir=tmp_path)
    step.fails = False
    last = list(Workflow([passes]).stream_resume("r1", runs_dir=tmp_path))[-1]
    assert isinstance(last, GraphRunPartialSucceeded)
    assert last.exceptions_count == 3


@pytest.mark.parametrize("kind", ["iteration", "loop"])
def test_failures_that_were_taken_up_in_finished_items_are_told(tmp_path: Path, kind: str) -> None:
    work = Workflow.load(flow(CONTAINERS.replace("TYPE", kind)))
    failing = RunSettings(client=ScriptedClient(["a", "b", EndpointError("gone")]))
    with pytest.raises(NodeError):
        work.run({"items": [1, 2, 3]}, run_id="r1", runs_dir=tmp_path, settings=failing)
    rest = RunSettings(client=ScriptedClient(["c"]))
    last = list(work.stream_resume("r1", runs_dir=tmp_path, settings=rest))[-1]
    assert isinstance(last, GraphRunPartialSucceeded)
    assert last.exceptions_count == 3


class Batch(BaseNode):
    """Takes the next rows, and fails at the row `fails_at`."""

    fails_at: int | None = None

    def execute(self, context: Context) -> Context:
        first = context["done"]
        if first == self.fails_at:
            raise OSError("not yet")
        return {
            **context,
            "texts": [row["text"] for row in context["rows"][first : first + 10]],
            "done": first + 10,
        }


def batches(step: Batch, rows: int) -> Workflow:
    node = IterativeWorkflowNode(
        "batches",
        "Batches",
        [step],
        lambda context: context["done"] < len(context["rows"]),
        max_iterations=rows,
        input_mapping={"rows": "rows", "done": "done"},
        iteration_mapping={"done": "done"},
        result_collection_mode="append",
        result_variable="texts",
    )
    return Workflow([StartNode("start", "Start", ["rows", "done"]), node, EndNode("end", "End", ["texts"])])


def kept_parts(runs_dir: Path) -> dict[str, str]:
    with closing(sqlite3.connect(runs_dir / "r1" / "checkpoints.sqlite")) as connection:
        return dict(connection.execute("SELECT path, value FROM workflow_finished_parts"))


def test_rows_in_batches_are_not_written_once_a_pass(tmp_path: Path) -> None:
    rows = [{"text": f"{n} " + "x" * 100} for n in range(400)]
    step = Batch("batch", "Batch")
    step.fails_at = 390
    with pytest.raises(IterationError):
        batches(step, 400).run({"rows": rows, "done": 0}, run_id="r1", runs_dir=tmp_path)
    assert sum(map(len, kept_parts(tmp_path).values())) < 2 * len(json.dumps(rows))
    step.fails_at = None
    texts = batches(step, 400).resume("r1", runs_dir=tmp_path)["texts"]
    assert [text for batch in texts for text in batch] == [row["text"] for row in rows]


@given(VALUES)
def test_plain_data_comes_back_as_it_was(value: Any) -> None:
    assert read(written(value, "it")) == value
    assert repr(plain(value, "it")) == repr(value)


def test_json_without_marks_is_read_as_it_is() -> None:
    assert read('{"0": [1, {"a": null}]}') == {"0": [1, {"a": None}]}


@pytest.mark.parametrize("value", [{1, 2}, {(1, 2): 3}, object(), [b"x"]])
def test_other_values_are_refused(value: Any) -> None:
    with pytest.raises(InputError, match="node 'a' cannot be kept"):
        plain(value, "node 'a'")
