"""`Program` says what no default fits: inputs, output, set-up, limits. What an object is, it is called as."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import ticket_desk
from desk_model import desk_config, desk_model, write_tickets
from fake_endpoint import FakeEndpoint
from pydantic import BaseModel

import autoprompt
from autoprompt import Program, RunConfig
from autoprompt.errors import ConfigError
from autoprompt.workflow import LLMNode, StartNode, Workflow


@pytest.fixture
def endpoint(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeEndpoint]:
    with desk_model(monkeypatch) as found:
        yield found


def evaluate(tmp_path: Path, program: object, **changes: Any) -> Any:
    """The desk on twelve rows."""
    dataset = write_tickets(tmp_path / "twelve.jsonl", 12)
    return autoprompt.evaluate(desk_config(tmp_path, dataset=dataset, **changes), program=program)


def test_inputs_and_output_are_made_as_the_program_wants_them(tmp_path: Path, endpoint: FakeEndpoint) -> None:
    seen: list[Any] = []

    def desk(ticket: dict[str, Any]) -> dict[str, Any]:
        seen.append(ticket)
        return {"where": {"queue": ticket_desk.desk(ticket["text"])}}

    program = Program(desk, inputs=lambda row: {"ticket": row}, output=lambda found: found["where"]["queue"])
    plain = evaluate(tmp_path, ticket_desk.desk)
    assert evaluate(tmp_path, program).score == plain.score > 0
    assert all(set(ticket) == {"text"} for ticket in seen)  # never the target
    keyed = Program(lambda text: {"where": ticket_desk.desk(text), "why": "so"}, output="where")
    assert evaluate(tmp_path, keyed).score == plain.score
    with pytest.raises(ConfigError, match=r"returned where, why, and its output is 'place'"):
        evaluate(tmp_path, Program(keyed.run, output="place"))


@pytest.mark.parametrize("start", [{"prompt": "Route."}, {"workflow": "flow.yaml"}, {"program": "shop:app"}])
@pytest.mark.parametrize("call", [autoprompt.evaluate, autoprompt.optimize, autoprompt.estimate])
def test_a_program_beside_another_start_is_refused(call: Callable[..., Any], start: dict[str, Any]) -> None:
    def desk(text: str) -> str:
        raise AssertionError(text)

    said = f"program: cannot be combined with the setting '{next(iter(start))}'. Give one of them."
    with pytest.raises(ConfigError, match=re.escape(said)):
        call(RunConfig(dataset=Path("tickets.jsonl"), **start), program=desk)


class Desk:
    """An object that is called."""

    async def __call__(self, text: str) -> str:
        return await ticket_desk.async_desk(text)


class Routed(BaseModel):
    queue: str


@dataclass
class Placed:
    queue: str


FORMS: dict[str, Callable[[], Any]] = {
    "an object with an async __call__": Desk,
    "a lambda that returns a coroutine": lambda: lambda text: ticket_desk.async_desk(text),
    "a pydantic model": lambda: lambda text: Routed(queue=ticket_desk.desk(text)),
    "a dataclass": lambda: lambda text: Placed(ticket_desk.desk(text)),
}


@pytest.mark.parametrize("form", FORMS)
def test_programs_of_every_form_give_the_same_answers(
    form: str, tmp_path: Path, endpoint: FakeEndpoint
) -> None:
    assert evaluate(tmp_path, FORMS[form]()).score == evaluate(tmp_path, ticket_desk.desk).score > 0


def test_a_workflow_in_python_is_a_program_whose_nodes_ask_the_models_of_the_run(
    tmp_path: Path, endpoint: FakeEndpoint
) -> None:
    workflow = Workflow(
        [
            StartNode("start", "Start", ["text"]),
            LLMNode("route", "Route", ticket_desk.ROUTE, "queue", user_prompt_template="Ticket: {text}"),
        ],
        name="desk",
    )
    result = autoprompt.optimize(desk_config(tmp_path, model="m"), program=workflow)
    assert result.verdict == "confirmed"
    assert result.original.components == {"route.system": ticket_desk.ROUTE}
    assert "Read closely" in result.best.components["route.system"]


def test_what_rows_share_is_set_up_once_and_shut_down_after_the_last(
    tmp_path: Path, endpoint: FakeEndpoint
) -> None:
    told: list[str] = []

    async def setup() -> None:
        told.append("setup")

    async def shutdown() -> None:
        told.append("shutdown")

    def desk(text: str) -> str:
        told.append("row")
        return ticket_desk.desk(text)

    autoprompt.optimize(desk_config(tmp_path), program=Program(desk, setup=setup, shutdown=shutdown))
    assert (told[0], told[-1]) == ("setup", "shutdown")
    assert set(told[1:-1]) == {"row"}
    assert len(told) > 100


def test_a_failed_setup_ends_the_run_and_a_failed_shutdown_is_a_warning(
    tmp_path: Path, endpoint: FakeEndpoint
) -> None:
    def fail() -> None:
        raise OSError("no such database")

    with pytest.raises(ConfigError, match="setting up desk failed: OSError: no such database") as refused:
        evaluate(tmp_path, Program(ticket_desk.desk, setup=fail))
    assert refused.value.problems[0].code == "program.setup"
    with pytest.warns(RuntimeWarning, match="shutting down desk failed: OSError: no such database"):
        report = evaluate(tmp_path, Program(ticket_desk.desk, shutdown=fail))
    assert report.score > 0


def test_a_row_that_takes_too_long_is_a_wrong_one(tmp_path: Path, endpoint: FakeEndpoint) -> None:
    free = threading.Event()

    def desk(text: str) -> str:
        if "day 11" in text:
            free.wait()
            return ""
        return ticket_desk.desk(text)

    try:
        report = evaluate(tmp_path, Program(desk, row_seconds=5), no_cache=True, concurrency=12)
    finally:
        free.set()
    (late,) = [row for row in report.evaluation.rows if "day 11" in row.input]
    assert "the row took more than 5 s" in late.prediction
    assert not late.is_correct
    assert late.error is None


def test_a_row_that_makes_too_many_calls_is_lost(tmp_path: Path, endpoint: FakeEndpoint) -> None:
    def desk(text: str) -> str:
        for _ in range(5 if "day 11" in text else 1):
            found = ticket_desk.desk(text)
        return found

    report = evaluate(tmp_path, Program(desk, max_calls_per_row=4))
    (row,) = [row for row in report.evaluation.rows if row.error is not None]
    assert "more than 4 calls" in str(row.error)
    with pytest.raises(ConfigError, match="max_calls_per_row: expected a number above 0, found 0"):
        Program(desk, max_calls_per_row=0)


def test_a_program_is_inspected_without_a_search(tmp_path: Path, endpoint: FakeEndpoint) -> None:
    config = RunConfig(
        dataset=write_tickets(tmp_path / "t.jsonl"), input_field="text", target_field="queue", no_cache=True
    )
    view = autoprompt.inspect_program(config, program=ticket_desk.make_graph())
    assert [(c.name, c.kind) for c in view.components][:2] == [
        ("summarize.system", "instruction"),
        ("desk.route.system", "instruction"),
    ]
    assert (view.rows, view.most_calls) == (8, 3)
    assert view.models == ("fake-1",)
    assert view.usage.prompt_tokens == 11 * round(8 * view.mean_calls)
    assert [step.node for step in view.trace][:2] == ["summarize", "desk.route"]
    file, _, line = view.place_of("desk.route.system").rpartition(":")
    assert "llm" in Path(file).read_text().splitlines()[int(line) - 1]
    assert json.dumps(view.to_dict())
    assert len(endpoint.requests) <= 3 * (8 + 2)
