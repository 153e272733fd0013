"""Whose models a run asks, what their answers cost, and with whom they are shared."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest
from fake_endpoint import Reply, answer, error, fake_endpoint
from fakes import World, run_config, writer

from autoprompt import Models, estimate, evaluate, optimize
from autoprompt.errors import ConfigError, Interrupted, RuntimeMissingError
from autoprompt.llm import ScriptedClient
from autoprompt.llm.client import CallRole, Completion
from autoprompt.llm.kept.journal import Journal
from autoprompt.llm.limits.budget import BudgetMeter
from autoprompt.llm.models import RoleModels, check_can_write, open_models
from autoprompt.records import Message, Usage

ASK = [Message("user", "x")]


class Closable(ScriptedClient):
    """Notes whether it was closed."""

    is_closed = False

    def close(self) -> None:
        self.is_closed = True


def test_own_clients_of_one_name_do_not_mix_and_are_not_shared_with_other_runs(tmp_path: Path) -> None:
    def asked(task: str, writer: str) -> list[str]:
        models = Models(ScriptedClient(lambda _: task), ScriptedClient(lambda _: writer))
        journal = Journal(tmp_path / task / "journal.jsonl")
        with journal, open_models(run_config(tmp_path), models, BudgetMeter(), journal, print) as opened:
            return [opened.client(role).complete(ASK).text for role in ("task", "optimizer", "judge")]

    assert asked("one", "two") == ["one", "two", "two"]
    assert asked("three", "four") == ["three", "four", "four"]


def test_own_clients_that_name_their_identity_share_their_answers(tmp_path: Path) -> None:
    def asked(identity: str, text: str) -> str:
        models = Models(ScriptedClient(lambda _: text, identity=identity))
        with open_models(run_config(tmp_path), models, BudgetMeter(), None, print) as opened:
            return opened.client("task").complete(ASK).text

    assert [asked("m-7", "one"), asked("m-7", "two"), asked("m-8", "three")] == ["one", "one", "three"]


@pytest.mark.parametrize("first", ["task", "judge"])
def test_one_client_in_two_roles_is_one(first: CallRole, tmp_path: Path) -> None:
    client = ScriptedClient(lambda _: "1")
    with Journal(tmp_path / "j") as journal:
        models = RoleModels(
            run_config(tmp_path), Models(client), budget=BudgetMeter(), journal=journal, cache=None
        )
        for role in (first, "task", "optimizer"):
            models.client(role).complete(ASK)
    assert len(client.calls) == 1


def test_own_clients_stay_open(tmp_path: Path) -> None:
    world = World(base=0.2, rule_gain=0.5)
    student, author = Closable(world.student), Closable(writer)
    for seed in (0, 1):
        optimize(
            run_config(tmp_path, seed=seed, max_calls=400, max_iterations=1), models=Models(student, author)
        )
    assert not student.is_closed
    assert not author.is_closed


def test_own_clients_keep_the_rates_that_are_set(tmp_path: Path) -> None:
    client = ScriptedClient(lambda _: "1")
    config = run_config(tmp_path, concurrency="auto", rpm=2)
    models = RoleModels(config, Models(client), budget=BudgetMeter(), journal=None, cache=None)
    assert models.concurrency() == 16
    for text in "ab":
        models.client("task").complete([Message("user", text)])
    # The third waits for the next minute; the end of the run comes first.
    closing = threading.Timer(0.05, models.close)
    closing.start()
    with pytest.raises(Interrupted):
        models.client("task").complete([Message("user", "c")])
    closing.join()
    assert len(client.calls) == 2


@pytest.mark.parametrize("told", [0.25, None])
def test_what_an_own_client_says_of_its_cost_is_kept(told: float | None, tmp_path: Path) -> None:
    client = ScriptedClient(lambda _: Completion("A", Usage(10, 1, told)))
    report = evaluate(run_config(tmp_path, rows=4, no_cache=True), models=Models(client))
    assert report.cost_usd == (None if told is None else 4 * told)


def test_prices_that_are_given_are_those_of_the_own_task_client(tmp_path: Path) -> None:
    client = ScriptedClient(lambda _: Completion("A", Usage(1_000_000, 0, None)))
    config = run_config(tmp_path, rows=4, no_cache=True, price_input=2.0, price_output=1.0)
    assert evaluate(config, models=Models(client)).cost_usd == 8.0


@pytest.mark.parametrize("given", [{"price_input": 1.0}, {"price_output": 1.0}])
def test_one_price_without_the_other_is_refused(given: dict[str, Any], tmp_path: Path) -> None:
    config = run_config(tmp_path, **given)
    for call in (estimate, evaluate, optimize):
        with pytest.raises(ConfigError, match=r"price_(in|out)put: .* Give price_(in|out)put too, in USD"):
            call(config)


def test_the_judges_price_is_checked_where_a_judge_is_asked(tmp_path: Path) -> None:
    config = run_config(
        tmp_path,
        model="m",
        base_url="http://127.0.0.1:9/v1",
        price_input=1.0,
        price_output=1.0,
        judge_model="nobodys-model",
        max_cost=1.0,
    )
    with open_models(config, None, BudgetMeter(), None, print):
        pass
    judged = config.model_copy(update={"metric": "llm_judge"})
    with (
        pytest.raises(ConfigError, match="the price of nobodys-model is unknown"),
        open_models(judged, None, BudgetMeter(), None, print),
    ):
        pass


def test_a_program_is_not_tried_if_its_writer_has_no_price_or_no_runtime(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = run_config(
        tmp_path,
        program="app:answer",
        optimizer_model="w",
        optimizer_base_url="http://127.0.0.1:9/v1",
        price_input=1.0,
        price_output=1.0,
        max_cost=1.0,
    )
    said = r"the price of w is unknown\. Use max_calls or max_tokens: only the price of the task model"
    with pytest.raises(ConfigError, match=said):
        check_can_write(config)
    monkeypatch.setattr("autoprompt.llm.models.util.find_spec", lambda _: None)
    local = run_config(tmp_path, program="app:answer")
    with pytest.raises(RuntimeMissingError, match="or name the model that writes as optimizer_model"):
        check_can_write(local)


def test_a_refused_parameter_is_said_once_and_stands_in_the_result(tmp_path: Path) -> None:
    def reply(body: dict[str, Any]) -> Reply:
        if "seed" in body:
            return error(400, "Unsupported parameter: 'seed'", param="seed", code="unsupported_parameter")
        return answer("A")

    events: list[dict[str, Any]] = []
    with fake_endpoint(reply) as endpoint:
        config = run_config(tmp_path, model="m", base_url=endpoint.base_url, max_iterations=1)
        result = optimize(config, on_event=events.append)
    said = "m rejected the parameter seed: requests go without it."
    assert [event["message"] for event in events if event["event"] == "warning"].count(said) == 1
    assert said in [warning["message"] for warning in result.to_dict()["warnings"]]


def test_a_client_that_was_not_put_into_clients_is_told_where_it_goes(tmp_path: Path) -> None:
    client: Any = ScriptedClient(lambda _: "A")
    for call in (evaluate, optimize):
        with pytest.raises(
            ConfigError, match=r"^models is <.*ScriptedClient.* Give models=Models\(client\)\.$"
        ):
            call(run_config(tmp_path), models=client)
    assert not (tmp_path / "runs").exists()
    assert not client.calls


def test_a_class_is_no_client(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"^ScriptedClient is a class.* Give ScriptedClient\(\.\.\.\)\.$"):
        evaluate(run_config(tmp_path), models=Models(ScriptedClient))  # type: ignore[arg-type]
