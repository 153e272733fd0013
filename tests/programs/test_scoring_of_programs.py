"""A metric gets the object that a program returned, and how it came to it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import ticket_desk
from desk_model import desk_config, desk_model
from fake_endpoint import FakeEndpoint, fake_endpoint
from pydantic import BaseModel
from test_tool_texts import make_agent, reply_to

import autoprompt
from autoprompt.metrics.arguments import CalledTool, Trace
from autoprompt.records import Step

ROWS = [
    {"text": f"Ticket {n}: {ticket_desk_topic}, day {n}", "queue": queue}
    for n in range(4)
    for queue, ticket_desk_topic in (("billing", "the invoice is wrong"), ("tech", "the app crashes"))
]
seen: list[Any] = []


@pytest.fixture
def endpoint(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeEndpoint]:
    seen.clear()
    with desk_model(monkeypatch) as found:
        yield found


class Routed(BaseModel):
    queue: str
    minutes: int


def by_object(prediction: Any, example: Any, trace: Trace) -> float:
    seen.append((str(prediction), prediction.output, trace))
    return float(prediction.output["minutes"] == 3 and prediction == example.target)


def by_field(prediction: Any, example: Any) -> bool:
    del example
    return bool(prediction.output["minutes"] == 3)


def by_tools(prediction: str, example: Any, trace: Trace) -> tuple[float, str]:
    del prediction
    names = [call.name for call in trace.tool_calls]
    right = names == ["find_queue"] and trace.tool_calls[0].arguments == {"topic": example.input}
    return float(right), f"called {names}"


def score(tmp_path: Path, program: object, metric: Any, rows: Any = ROWS, **changes: Any) -> Any:
    config = desk_config(tmp_path, dataset=None, metric=metric, **changes)
    return autoprompt.evaluate(config, rows=rows, program=program)


def test_a_metric_gets_the_returned_object_and_the_steps(tmp_path: Path, endpoint: FakeEndpoint) -> None:
    def desk(text: str) -> Routed:
        return Routed(queue=ticket_desk.desk(text), minutes=3)

    report = score(tmp_path, desk, by_object)
    plain = score(tmp_path, ticket_desk.desk, "exact_match")
    assert report.score == plain.score > 0
    text, returned, trace = seen[0]
    assert returned == {"queue": text, "minutes": 3} == trace.output
    assert [step.node for step in trace.steps] == ["ask", "ask"]
    assert trace.tool_calls == ()
    assert score(tmp_path, desk, by_field).score == 1.0


def test_objects_are_compared_by_metrics_of_json(tmp_path: Path, endpoint: FakeEndpoint) -> None:
    rows = [{"text": row["text"], "answer": {"queue": row["queue"], "minutes": 3}} for row in ROWS]

    def desk(text: str) -> dict[str, Any]:
        return {"queue": ticket_desk.desk(text), "minutes": 3}

    report = score(tmp_path, desk, "json_match", rows, target_field="answer")
    wrong = [row for row in report.evaluation.rows if not row.is_correct]
    assert all(row.score == 0.5 for row in wrong)
    assert all(row.reason.startswith("queue is ") for row in wrong)
    assert report.score == pytest.approx(1 - len(wrong) / 2 / len(rows))


def test_an_agent_is_judged_by_its_tool_calls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with fake_endpoint(reply_to) as endpoint:
        monkeypatch.setenv("DESK_URL", endpoint.base_url)
        report = score(tmp_path, make_agent(), by_tools)
    # The model uses the tool on even days alone: its description is misleading.
    assert {row.score for row in report.evaluation.rows if "day 2" in row.input} == {1.0}
    assert {row.reason for row in report.evaluation.rows if "day 1" in row.input} == {"called []"}


def test_arguments_that_are_no_json_stay_a_text() -> None:
    from autoprompt.records import ToolCall

    steps = (Step("a", tool_calls=(ToolCall("1", "f", '{"n": 1}'), ToolCall("2", "g", "n=1"))),)
    assert Trace("x", steps).tool_calls == (CalledTool("f", {"n": 1}), CalledTool("g", "n=1"))
    assert Step.from_dict({"node": "a", "tool_calls": [{"id": "1", "name": "f", "arguments": "{}"}]}) == Step(
        "a", tool_calls=(ToolCall("1", "f", "{}"),)
    )
