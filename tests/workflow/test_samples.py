"""With a temperature, equal questions at several places of a run are several draws."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from fake_endpoint import FakeEndpoint, Reply, answer, error, fake_endpoint

from autoprompt.errors import AuthenticationError
from autoprompt.llm import ScriptedClient
from autoprompt.llm.client import Options
from autoprompt.records import Candidate, Example, Message
from autoprompt.settings.records import ModelSettings
from autoprompt.workflow import BaseNode, IterativeWorkflowNode, LLMNode, RunSettings, StartNode, Workflow
from autoprompt.workflow.program import WorkflowProgram

Context = dict[str, Any]


@pytest.fixture
def drawing() -> Iterator[FakeEndpoint]:
    """Each answer is another one, but for `check`, which is refused the first time."""
    numbers, refusals = count(1), [error(401, "no such key")]

    def reply(body: dict[str, Any]) -> Reply:
        if "check" in str(body["messages"][-1]["content"]) and refusals:
            return refusals.pop()
        return answer(f"draw {next(numbers)}")

    with fake_endpoint(reply) as endpoint:
        yield endpoint


def voting(temperature: float = 0.9) -> Workflow:
    model = {"name": "m", "completion_params": {"temperature": temperature}}
    ask = {"model": model, "prompt_template": "Which one?"}
    votes = [{"id": name, "type": "llm", "data": ask} for name in "abc"]
    check = {"id": "check", "type": "llm", "data": {"model": model, "prompt_template": "check"}}
    outputs = {name: [name, "text"] for name in "abc"}
    end = {"id": "end", "type": "end", "data": {"outputs": outputs}}
    start = {"id": "start", "type": "start", "data": {"variables": []}}
    return Workflow.load({"nodes": [start, *votes, check, end]})


def test_votes_of_a_kept_run_are_several_and_a_resumed_run_keeps_them(
    drawing: FakeEndpoint, tmp_path: Path
) -> None:
    settings = RunSettings(models=ModelSettings(model="m", base_url=drawing.base_url))
    with pytest.raises(AuthenticationError):
        voting().run({}, run_id="r", runs_dir=tmp_path, settings=settings)
    assert len(drawing.requests) == 4
    result = voting().resume("r", runs_dir=tmp_path, settings=settings)
    assert result == {"a": "draw 1", "b": "draw 2", "c": "draw 3"}
    assert len(drawing.requests) == 5


def test_without_a_temperature_equal_questions_are_one(drawing: FakeEndpoint, tmp_path: Path) -> None:
    settings = RunSettings(models=ModelSettings(model="m", base_url=drawing.base_url))
    with pytest.raises(AuthenticationError):
        voting(0.0).run({}, run_id="r", runs_dir=tmp_path, settings=settings)
    assert len(drawing.requests) == 2


@pytest.mark.parametrize("shape", ["circle", "passes"])
def test_a_circle_and_a_pass_draw_anew(shape: str, drawing: FakeEndpoint, tmp_path: Path) -> None:
    class Again(BaseNode):
        def execute(self, context: Context) -> Context:
            drawn = [*context.get("drawn", []), context["draw"]]
            return {**context, "drawn": drawn, **({"next_node_id": "ask"} if len(drawn) < 3 else {})}

    ask = LLMNode("ask", "Ask", "Which one?", "draw", temperature=0.9)
    passes = IterativeWorkflowNode(
        "passes",
        "Passes",
        [ask],
        lambda context: context["_iteration_count"] < 3,
        result_collection_mode="append",
        result_variable="draw",
    )
    steps: list[BaseNode] = [ask, Again("again", "Again")] if shape == "circle" else [passes]
    flow = Workflow([StartNode("start", "Start"), *steps])
    settings = RunSettings(models=ModelSettings(model="m", base_url=drawing.base_url))
    result = flow.run({}, runs_dir=tmp_path, settings=settings)
    assert result["drawn" if shape == "circle" else "draw"] == ["draw 1", "draw 2", "draw 3"]


def test_a_row_of_an_optimization_draws_with_a_seed_for_each_place() -> None:
    asked: list[Options] = []

    def reply(messages: list[Message], options: Options) -> str:
        asked.append(options)
        return "x"

    program = WorkflowProgram(voting(), ScriptedClient(reply), "a")
    for _ in range(2):
        program.run(Example(id="1", input="hi", target="x", fields={}), Candidate({}))
    first, second = asked[:4], asked[4:]
    assert [(o.sample, o.seed) for o in first] == [(o.sample, o.seed) for o in second]
    assert len({o.sample for o in first}) == len({o.seed for o in first}) == 4
    assert all(o.seed is not None and 0 <= o.seed < 2**31 for o in first)
