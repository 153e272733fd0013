"""Programs as people have them are optimized without a changed line."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import ticket_desk
from desk_model import desk_config, desk_model, reply_to
from fake_endpoint import FakeEndpoint, fake_endpoint
from langgraph.graph import StateGraph
from openai import OpenAI

import autoprompt
from autoprompt import Run
from autoprompt.errors import ConfigError, StoreError
from autoprompt.programs import scope
from autoprompt.runs import RunFolder

SOURCE = Path(ticket_desk.__file__)


@pytest.fixture
def endpoint(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeEndpoint]:
    with desk_model(monkeypatch) as found:
        yield found


def asked_with(endpoint: FakeEndpoint, text: str) -> int:
    return sum(text in str(body["messages"][0]["content"]) for body in endpoint.requests)


FORMS: dict[str, Callable[[], Any]] = {
    "sync": lambda: ticket_desk.desk,
    "async": lambda: ticket_desk.async_desk,
    "graph": ticket_desk.make_graph,
}


@pytest.mark.parametrize("form", FORMS)
def test_texts_are_found_and_the_one_that_is_wrong_is_rewritten(
    form: str, tmp_path: Path, endpoint: FakeEndpoint
) -> None:
    before = hashlib.sha256(SOURCE.read_bytes()).hexdigest()
    result = autoprompt.optimize(desk_config(tmp_path), program=FORMS[form]())
    assert result.to_dict()["verdict"] == "confirmed"
    assert result.to_dict()["model"] == "fake-1"  # that of its calls
    changed = result.best.changed_since(result.original)
    assert [result.best.components[name] for name in changed] == [
        "Read closely, then route the ticket to billing, tech or sales."
    ]
    assert ticket_desk.SUMMARIZE in result.best.components.values()
    if form == "graph":
        names = {name.rpartition(".")[0] for name in result.original.components}
        assert names == {"summarize", "desk.route", "thank"}  # of the nodes
        assert result.original.components["desk.route.user"] == "About: {summarize.answer}\nTicket: {text}"
    assert asked_with(endpoint, "Read closely") > 60  # it arrived
    # A request whose connection breaks counts too, and the server has not seen it.
    assert 0 <= result.to_dict()["calls"] - len(endpoint.requests) <= 10
    assert hashlib.sha256(SOURCE.read_bytes()).hexdigest() == before


def test_rows_one_at_a_time_belong_to_their_own_function_wherever_optimize_is_called(
    tmp_path: Path, endpoint: FakeEndpoint
) -> None:
    """With one row at a time the program runs in the thread of our search, which is a LangGraph as well."""
    found: list[autoprompt.RunResult] = []

    def work(state: dict[str, Any]) -> dict[str, Any]:
        found.append(autoprompt.optimize(desk_config(tmp_path, concurrency=1), program=ticket_desk.desk))
        return state

    graph = StateGraph(dict)
    graph.add_node("work", work)
    graph.set_entry_point("work")
    graph.compile().invoke({})
    (result,) = found
    assert result.verdict == "confirmed"
    assert {name.partition(".")[0] for name in result.best.components} == {"ask"}
    assert asked_with(endpoint, "Read closely") > 60


class Killed(BaseException):
    """As if the process had been killed."""


@contextmanager
def killed(monkeypatch: pytest.MonkeyPatch, *, at: int) -> Iterator[None]:
    """Have the block end as if its process had been killed when its program sends this call."""
    asked, calls = scope.RowScope.ask, 0

    def ask(row: scope.RowScope, call: scope.Call) -> Any:
        nonlocal calls
        calls += 1
        if calls == at:
            raise Killed
        return asked(row, call)

    with monkeypatch.context() as dying:
        dying.setattr(scope.RowScope, "ask", ask)
        with pytest.raises(Killed):
            yield


def test_a_killed_run_of_a_graph_is_resumed_and_nothing_is_asked_twice(
    tmp_path: Path, endpoint: FakeEndpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "whole").mkdir()
    (tmp_path / "killed").mkdir()
    program = ticket_desk.make_graph()
    whole = autoprompt.optimize(desk_config(tmp_path / "whole", concurrency=1), program=program)
    sent = len(endpoint.requests)
    with killed(monkeypatch, at=200):
        autoprompt.optimize(desk_config(tmp_path / "killed", concurrency=1), program=program)
    (folder,) = (tmp_path / "killed" / "runs").glob("*/run.json")
    result = autoprompt.resume(folder.parent.name, runs_dir=folder.parent.parent, program=program)
    assert result.best == whole.best
    assert len(endpoint.requests) == 2 * sent


TODAY = {"day": "Monday"}


def test_a_program_that_asks_another_host_by_now_is_resumed_only_if_that_is_allowed(
    tmp_path: Path, endpoint: FakeEndpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    with killed(monkeypatch, at=200):
        autoprompt.optimize(desk_config(tmp_path, concurrency=1), program=ticket_desk.desk)
    (folder,) = (tmp_path / "runs").glob("*/run.json")
    run, runs = folder.parent.name, folder.parent.parent
    first = urlsplit(endpoint.base_url).netloc
    with fake_endpoint(reply_to) as other:
        second = urlsplit(other.base_url).netloc
        monkeypatch.setenv("DESK_URL", other.base_url)
        said = rf"ticket_desk.py line \d+: .* calls went to {first}, and now one goes to {second}\. Set"
        with pytest.raises(StoreError, match=said):
            autoprompt.resume(run, runs_dir=runs, program=ticket_desk.desk)
        assert other.requests == []
        result = autoprompt.resume(run, runs_dir=runs, program=ticket_desk.desk, program_changed_ok=True)
    assert result.to_dict()["models"]["task"]["endpoint"] == f"{first}, {second}"


def dated(text: str) -> str:
    """Its prompt holds the day on which its module was imported."""
    with OpenAI(base_url=os.environ["DESK_URL"], api_key="key") as client:
        system = f"Route the ticket to a queue. Today is {TODAY['day']}."
        user = f"Ticket: {text}"
        messages: Any = [{"role": "system", "content": system}, {"role": "user", "content": user}]
        return client.chat.completions.create(model="m", messages=messages).choices[0].message.content or ""


@pytest.mark.parametrize("killed_at", [25, 120])
def test_a_run_whose_program_sends_another_text_by_now_is_not_resumed(
    killed_at: int, tmp_path: Path, endpoint: FakeEndpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    with killed(monkeypatch, at=killed_at):
        autoprompt.optimize(desk_config(tmp_path, concurrency=1), program=dated)
    (folder,) = (tmp_path / "runs").glob("*/run.json")
    run, runs = folder.parent.name, folder.parent.parent
    kept = (folder.parent / "rows.jsonl").read_bytes() if killed_at == 120 else b""
    monkeypatch.setitem(TODAY, "day", "Tuesday")
    said = r"line \d+: the text of dated.system changed since the run began: '.*Monday.', then '.*Tuesday"
    with pytest.raises(ConfigError, match=said):
        autoprompt.resume(run, runs_dir=runs, program=dated)
    assert (folder.parent / "rows.jsonl").read_bytes().startswith(kept)
    assert b"Tuesday" not in (folder.parent / "rows.jsonl").read_bytes()
    monkeypatch.setitem(TODAY, "day", "Monday")
    assert autoprompt.resume(run, runs_dir=runs, program=dated).verdict == "confirmed"


def test_a_winner_is_at_work_on_another_day_than_that_of_its_run(
    tmp_path: Path, endpoint: FakeEndpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(TODAY, "day", datetime.now().strftime("%Y-%m-%d"))
    result = autoprompt.optimize(desk_config(tmp_path), program=dated)
    assert result.verdict == "confirmed"
    monkeypatch.setitem(TODAY, "day", "2031-05-06")
    with result.best.active():
        dated("more seats please")
    assert endpoint.requests[-1]["messages"][0]["content"] == (
        "Read closely, then route the ticket to a queue. Today is 2031-05-06."
    )


def test_a_program_that_was_edited_is_resumed_only_if_that_is_allowed(
    tmp_path: Path, endpoint: FakeEndpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "edited_desk.py").write_bytes(SOURCE.read_bytes())
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.chdir(tmp_path)
    config = desk_config(tmp_path, program="edited_desk:desk", concurrency=1)
    asked = scope.RowScope.ask
    calls = 0

    def ask(row: scope.RowScope, call: scope.Call) -> Any:
        nonlocal calls
        calls += 1
        if calls == 80:
            raise Killed
        return asked(row, call)

    with monkeypatch.context() as dying:
        dying.setattr(scope.RowScope, "ask", ask)
        with pytest.raises(Killed):
            autoprompt.optimize(config)
    (tmp_path / "edited_desk.py").write_text(f"{SOURCE.read_text()}\n# edited\n", encoding="utf-8")
    (folder,) = (tmp_path / "runs").glob("*/run.json")
    with pytest.raises(StoreError, match="the source of edited_desk:desk has changed"):
        autoprompt.resume(
            folder.parent.name, runs_dir=tmp_path / "runs", budget=autoprompt.Budget(max_calls=2000)
        )
    assert not RunFolder(folder.parent).settings_changed()  # what is refused changes nothing
    resumed = autoprompt.resume(folder.parent.name, runs_dir=tmp_path / "runs", program_changed_ok=True)
    assert resumed.to_dict()["status"] == "finished"


def test_a_cap_holds_at_the_endpoint_although_the_program_swallows_errors(
    tmp_path: Path, endpoint: FakeEndpoint
) -> None:
    def careless(text: str) -> str:
        try:
            return ticket_desk.desk(text)
        except Exception:  # noqa: BLE001 - as careless programs do
            return "tech"

    result = autoprompt.optimize(desk_config(tmp_path, max_calls=344), program=careless)
    assert len(endpoint.requests) <= 344
    rows = [
        row
        for path in Path(result.run_dir).glob("predictions/*.jsonl")
        for row in path.read_text().splitlines()
    ]
    assert rows


def test_it_is_scored_and_the_winner_of_a_run_too(tmp_path: Path, endpoint: FakeEndpoint) -> None:
    config, program = desk_config(tmp_path), ticket_desk.make_graph()
    result = autoprompt.optimize(config, program=program)
    before = autoprompt.evaluate(config, program=program)
    after = autoprompt.evaluate(config, program=program, candidate=Run.open(result.run_dir).best)
    assert before.score < 0.7
    assert after.score == 1.0
