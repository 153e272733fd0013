"""What an evaluation will take, before anything is sent."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from fakes import JUDGED, PROMPT, grader, run_config

from autoprompt import Models, estimate, evaluate
from autoprompt.errors import ConfigError
from autoprompt.evaluation.estimate import estimate_evaluation
from autoprompt.llm import ScriptedClient
from autoprompt.records import Candidate, Demo
from autoprompt.text.answers.reasoning import USUAL_TOKENS, request

PRICED: dict[str, Any] = {"price_input": 1.0, "price_output": 4.0}


def test_calls_are_those_of_the_evaluation_and_nothing_is_asked(tmp_path: Path) -> None:
    config = run_config(tmp_path, **PRICED)
    client = ScriptedClient(lambda messages: "A", name="student")
    found = estimate_evaluation(config, against="Which one?", models=Models(client))
    assert client.calls == []
    report = evaluate(config, against="Which one?", models=Models(client))
    assert (found.calls, found.rows, found.prompts) == (report.calls, report.n, 2)
    assert found.cost_usd is not None
    assert 0 < found.cost_usd < 4e-6 * found.tokens


def test_demonstrations_and_reasoning_are_counted(tmp_path: Path) -> None:
    config, client = run_config(tmp_path), Models(ScriptedClient(lambda messages: "A"))
    plain = Candidate({"prompt": PROMPT})
    demos = tuple(Demo(f"item {n}, a long one of many words", "A", f"r{n}") for n in range(20))
    reasoned = Candidate({"prompt": f"{PROMPT}\n{request(PROMPT, ('A', 'B'))}"})
    tokens = [
        estimate_evaluation(config, candidate=one, models=client).tokens
        for one in (plain, replace(plain, demos=demos), reasoned)
    ]
    rows = estimate_evaluation(config, models=client).rows
    assert tokens[1] > tokens[0] + rows * 20 * 8
    assert tokens[2] > tokens[0] + rows * USUAL_TOKENS * 0.9


def test_nothing_is_said_of_a_model_that_only_a_search_asks(tmp_path: Path) -> None:
    endpoint = {"base_url": "http://127.0.0.1:9/v1", "model": "m", **PRICED, "max_cost": 1.0}
    config = run_config(tmp_path, **endpoint, optimizer_model="local")
    assert not [warning for warning in estimate_evaluation(config).warnings if "embedded" in str(warning)]
    assert [warning for warning in estimate(config).warnings if "embedded" in str(warning)]


def test_a_judge_is_asked_about_each_row(tmp_path: Path) -> None:
    config = run_config(tmp_path, **{**JUDGED, **PRICED})
    models = Models(ScriptedClient(lambda messages: "A"), judge=ScriptedClient(grader(lambda number: False)))
    found = estimate_evaluation(config, models=models)
    assert found.calls == 2 * found.rows == evaluate(config, models=models).calls
    assert found.judge_calls == found.rows
    assert found.cost_usd is None  # of the judge's tokens nobody knows the price


def test_what_an_evaluation_refuses_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="expected a prompt"):
        estimate_evaluation(run_config(tmp_path), candidate=3)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match=r"^no dataset"):
        estimate_evaluation(run_config(tmp_path).model_copy(update={"dataset": None}))


@pytest.mark.parametrize(
    ("cap", "said"),
    [
        ({"max_calls": 10}, "max_calls: 10 is too small"),
        ({"max_tokens": 50}, "max_tokens: 50 may end the evaluation early"),
        ({"max_cost": 1e-7}, "max_cost: $1e-07 may end the evaluation early"),
    ],
)
def test_a_cap_that_is_too_small_is_warned_of(tmp_path: Path, cap: dict[str, Any], said: str) -> None:
    models = Models(ScriptedClient(lambda messages: "A"))
    found = estimate_evaluation(run_config(tmp_path, **PRICED, **cap), models=models)
    assert str(found.warnings[-1]).startswith(said)


def test_answers_have_no_more_room_than_they_are_given(tmp_path: Path) -> None:
    models = Models(ScriptedClient(lambda messages: "A"))
    reasoned = Candidate({"prompt": f"{PROMPT}\n{request(PROMPT, ('A', 'B'))}"})
    long, short = (
        estimate_evaluation(run_config(tmp_path, max_output_tokens=room), candidate=reasoned, models=models)
        for room in (500, 20)
    )
    assert long.is_reasoned
    assert long.tokens - short.tokens == (USUAL_TOKENS - 20) * long.rows
