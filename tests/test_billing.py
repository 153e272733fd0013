"""Costs and caps by the bill of an endpoint that counts in its own way."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from benchmark_scripts import script

from autoprompt import evaluate, optimize, resume
from autoprompt.errors import BudgetExhausted, arguments
from autoprompt.runs.spending import from_journal, total_cost
from autoprompt.settings.records import RunConfig

billing: Any = script("billing.py")
Habits, billing_endpoint = billing.Habits, billing.billing_endpoint
PRICED = {
    "price_input": billing.INPUT,
    "price_output": billing.OUTPUT,
    "price_cached_input": billing.CACHED,
}


def config(folder: Path, endpoint: Any, *, rows: int = 24, **changes: Any) -> RunConfig:
    billing.write_rows(folder / "rows.jsonl", rows)
    given: dict[str, Any] = {
        "dataset": folder / "rows.jsonl",
        "prompt": billing.PROMPT,
        "model": "billed",
        "base_url": endpoint.base_url,
        "runs_dir": folder / "runs",
        "memory_file": folder / "memory.txt",
        "no_cache": True,
        "preset": "quick",
        "max_output_tokens": 4096,
        **PRICED,
    }
    return RunConfig(**{**given, **changes})


@pytest.mark.parametrize("transport", ["http", "langchain"])
@pytest.mark.parametrize("name", billing.FORMATS)
def test_every_format_costs_what_it_is_billed_at(name: str, transport: str, tmp_path: Path) -> None:
    if (name, transport) == ("Gemini", "langchain"):
        pytest.skip("langchain-openai reads nothing but `usage`")
    with billing_endpoint(Habits(name, thoughts=(0, 400), hidden=300)) as endpoint:
        report = evaluate(config(tmp_path, endpoint, transport=transport))
        bill = endpoint.bill
    assert (report.calls, report.usage.total_tokens) == (bill.calls, bill.tokens)
    assert report.cost_usd == pytest.approx(bill.usd, rel=0.001)
    assert report.warnings == ()


def spent_into_a_cap(folder: Path, habits: Any, **settings: Any) -> tuple[Any, str]:
    """The bill, and what was said of the cap."""
    with billing_endpoint(habits) as endpoint:
        with pytest.raises(BudgetExhausted) as caught:
            evaluate(config(folder, endpoint, **settings))
        return endpoint.bill, str(caught.value)


@pytest.mark.parametrize("at_once", [16, 256])
@pytest.mark.parametrize("name", billing.STRESS)
def test_a_cap_holds_by_the_endpoints_own_count(name: str, at_once: int, tmp_path: Path) -> None:
    habits = billing.STRESS[name]
    settings = {"rows": 400, "concurrency": at_once}
    bill, said = spent_into_a_cap(tmp_path, habits, max_tokens=15_000, **settings)
    assert 13_000 < bill.tokens <= 15_000 * 1.01
    assert f"{bill.tokens:,} tokens used" in said
    bill, said = spent_into_a_cap(tmp_path, habits, max_cost=0.03, **settings)
    assert bill.usd <= 0.03 * 1.01
    assert f"${bill.usd:.4g} used" in said


def test_a_generous_limit_slows_no_run_down(tmp_path: Path) -> None:
    took = {}
    for limit in (32, 4096):
        with billing_endpoint(Habits(latency_s=0.02)) as endpoint:
            begun = time.monotonic()
            # Rates and caps with room for all rows, and not for as many answers of the longest kind.
            evaluate(
                config(tmp_path, endpoint, rows=200, max_output_tokens=limit, max_tokens=20_000, tpm=25_000)
            )
            took[limit] = time.monotonic() - begun
    assert took[4096] < took[32] + 5  # a minute, if the rate counted limits


def test_an_answer_that_a_lowered_limit_cut_is_asked_for_again(tmp_path: Path) -> None:
    """Answers of three tokens, and then one of a thousand, where the cap leaves no 4,096 for each."""
    habits = Habits(latency_s=0.01)
    with billing_endpoint(habits) as endpoint:
        take = endpoint._take

        def thinks_late(messages: Any, limit: int | None) -> Any:
            habits.thoughts = (1000, 1000) if 20 <= endpoint.bill.calls < 24 else (0, 0)
            return take(messages, limit)

        endpoint._take = thinks_late
        report = evaluate(config(tmp_path, endpoint, rows=48, max_tokens=14_000, concurrency=16))
        bill = endpoint.bill
    assert bill.cut > 0
    assert report.failed == report.unparsed == 0
    assert (report.calls, report.usage.total_tokens) == (bill.calls, bill.tokens)
    assert report.calls > 48


def test_a_few_rows_with_a_cap_on_tokens_work_with_a_model_that_nobody_knows(tmp_path: Path) -> None:
    with billing_endpoint(Habits()) as endpoint:
        result = optimize(config(tmp_path, endpoint, rows=48, max_tokens=50_000))
        bill = endpoint.bill
    data = result.to_dict()
    assert data["verdict"] in ("confirmed", "not_confirmed")
    assert (data["calls"], sum(data["tokens"].values())) == (bill.calls, bill.tokens)
    assert data["cost_usd"] == pytest.approx(bill.usd)
    assert bill.calls > 100


def test_a_run_whose_endpoint_bills_far_more_stops_and_says_by_how_much(tmp_path: Path) -> None:
    with billing_endpoint(Habits("OpenRouter")) as endpoint:

        def dearer(body: Any, answer: Any = endpoint.answer) -> dict[str, Any]:
            reply: dict[str, Any] = answer(body)
            if endpoint.bill.calls > 30:  # when all were alike so far
                endpoint.bill.usd += 0.25  # one is enough, however many are on the way
                reply["usage"]["cost"] += 0.25
            return reply

        endpoint.answer = dearer
        result = optimize(config(tmp_path, endpoint, rows=120, max_cost=0.2))
        bill = endpoint.bill
    data = result.to_dict()
    assert data["cost_usd"] == pytest.approx(bill.usd)
    assert bill.usd > 0.2
    over = bill.usd - 0.2
    (said,) = (warning["message"] for warning in data["warnings"] if warning["code"] == "budget.exceeded")
    assert said.startswith("max_cost: 0.2 was exceeded by $")
    assert f" ({over / 0.2:.1%}): $" in said
    assert bill.calls < 30 + 2 * 16  # what was on its way


def test_figures_that_cannot_be_right_are_named_and_no_cap_is_evaded(tmp_path: Path) -> None:
    with billing_endpoint(Habits("plain")) as endpoint:

        def negative(body: Any, answer: Any = endpoint.answer) -> dict[str, Any]:
            reply: dict[str, Any] = answer(body)
            reply["usage"] = {"prompt_tokens": -(10**6), "completion_tokens": 3, "cost": -5}
            return reply

        endpoint.answer = negative
        report = evaluate(config(tmp_path, endpoint, max_tokens=50_000))
    assert report.usage.prompt_tokens > 24 * 10
    assert report.cost_usd is not None
    assert report.cost_usd > 0
    assert [str(warning).partition(", which")[0] for warning in report.warnings] == [
        f"{endpoint.base_url} (billed) reports usage.prompt_tokens = -1000000",
        f"{endpoint.base_url} (billed) reports usage.cost = -5",
    ]


def test_killed_and_resumed_the_sums_are_those_of_the_bill(tmp_path: Path) -> None:
    habits = Habits("Anthropic", thoughts=(0, 100), latency_s=0.05)
    with billing_endpoint(habits) as endpoint:
        settings = config(tmp_path, endpoint, rows=120, max_tokens=200_000, concurrency=4)
        given = settings.model_dump(exclude_unset=True, exclude={"runs_dir", "memory_file"})
        words = [word for name, value in given.items() for word in arguments(name, value)]
        command = [sys.executable, "-m", "autoprompt", "run", *words, "--no-memory"]
        environment = {**os.environ, "OPENAI_API_KEY": "x"}
        process = subprocess.Popen(
            [*command, "--runs-dir", str(tmp_path / "runs")],
            env=environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        while endpoint.bill.calls < 60 and process.poll() is None:
            time.sleep(0.01)
        process.send_signal(signal.SIGKILL)
        process.wait(30)
        time.sleep(0.3)  # those on their way end at the endpoint
        (folder,) = (path for path in (tmp_path / "runs").iterdir() if path.is_dir())
        before = from_journal(folder / "journal.jsonl")
        known = sum(part.usage.total_tokens for part in before)
        lost_calls = endpoint.bill.calls - sum(part.calls for part in before)
        lost_tokens, lost_usd = endpoint.bill.tokens - known, endpoint.bill.usd - (total_cost(before) or 0.0)
        assert 0 <= lost_calls <= 4
        data = resume(folder.name, runs_dir=tmp_path / "runs").to_dict()
        bill = endpoint.bill
    assert data["calls"] == bill.calls - lost_calls
    assert sum(data["tokens"].values()) == bill.tokens - lost_tokens
    assert data["cost_usd"] == pytest.approx(bill.usd - lost_usd)
    (answer, *_) = (json.loads(line) for line in (folder / "journal.jsonl").read_text().splitlines())
    assert {"prompt_tokens", "completion_tokens", "cost_usd"} <= answer.keys()
    assert data["spending"]["task"]["cached_tokens"] > 0
    assert data["spending"]["task"]["cache_write_tokens"] > 0
