"""What a run is said to take, and which caps are refused for it."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from fakes import PROMPT, run_config

from autoprompt.errors import BudgetTooSmallError
from autoprompt.llm.prices import Price, Prices
from autoprompt.optimizer.forecast import WRITER_REPLY, Estimate, check_spending, estimate_run
from autoprompt.optimizer.prepare import Preparation, prepare
from autoprompt.text.scripts import estimate_tokens

CHEAP = Price(1.0, 1.0)
ALL_CHEAP = Prices(CHEAP, CHEAP, CHEAP)
JUDGED: dict[str, Any] = {"metric": "llm_judge", "metric_options": {"rubric": "Is it kind?"}}


def prepared(folder: Path, **changes: Any) -> Preparation:
    return prepare(run_config(folder, **changes), has_own_models=True)  # whose writer writes


def cost(folder: Path, prices: Prices, **changes: Any) -> float:
    found = estimate_run(prepared(folder, **changes), prices).cost_usd
    assert found is not None
    return found


def test_an_estimate_is_an_upper_bound_with_a_price_where_one_is_known(tmp_path: Path) -> None:
    found = prepared(tmp_path)
    estimate = estimate_run(found, ALL_CHEAP)
    assert estimate.task_calls + estimate.optimizer_calls == found.max_calls
    assert estimate.cost_usd == pytest.approx(estimate.tokens * 1e-6)
    assert estimate_run(found, Prices()).cost_usd is None
    assert estimate_run(found, Prices(task=CHEAP)).cost_usd is None  # what the writer costs nobody knows
    data = estimate.to_dict()
    assert json.loads(json.dumps(data)) == data
    assert data["calls"] == estimate.calls
    bigger = prepared(tmp_path, prompt=PROMPT + " Think well." * 50)
    assert estimate_run(bigger, Prices()).tokens > estimate.tokens


def test_an_estimate_says_what_so_many_calls_take_with_prompts_as_short_as_the_original(
    tmp_path: Path,
) -> None:
    found = estimate_run(prepared(tmp_path), ALL_CHEAP)
    assert 0 < found.short_tokens < found.tokens
    assert found.short_cost_usd == pytest.approx(found.short_tokens * 1e-6)
    nothing_longer = estimate_run(prepared(tmp_path, max_demos=0, no_reasoning=True), ALL_CHEAP)
    assert nothing_longer.short_tokens == nothing_longer.tokens == found.short_tokens
    capped = estimate_run(prepared(tmp_path, max_tokens=12_000), ALL_CHEAP)
    assert capped.short_tokens == 12_000
    assert estimate_run(prepared(tmp_path), Prices()).short_cost_usd is None


def test_what_is_written_costs_what_writing_costs(tmp_path: Path) -> None:
    free = Price(0.0, 0.0)
    only_written = Price(0.0, 1000.0)
    found = prepared(tmp_path)
    calls = found.max_calls - found.max_iterations * (found.analyst_calls + found.depth.writers)
    # Answers that reason are tried; labels alone are a few tokens each.
    assert cost(tmp_path, Prices(only_written, free)) == pytest.approx(calls * 200 * 1e-3)
    labels = cost(tmp_path, Prices(only_written, free), no_reasoning=True)
    assert calls * 1e-3 < labels < calls * 5e-3
    texts = cost(tmp_path, Prices(only_written, free), metric="contains", max_output_tokens=50)
    assert texts == pytest.approx(calls * 50 * 1e-3)


def test_an_estimate_has_room_for_a_second_try_of_each_draft(tmp_path: Path) -> None:
    found = prepared(tmp_path)
    # And for the descriptions of a round, two at most, which are refused for a text in their place.
    calls = found.max_iterations * (found.analyst_calls + 2 * found.depth.writers + 2)
    estimate = estimate_run(found, Prices())
    assert (estimate.optimizer_calls, estimate.calls) == (calls, found.max_calls)
    free, dear = Price(0.0, 0.0), Price(0.0, 1000.0)
    per_call = cost(tmp_path, Prices(free, dear)) / calls
    assert 1000 * per_call == pytest.approx(WRITER_REPLY + estimate_tokens(found.text))


def test_the_writer_and_the_judge_have_prices_of_their_own(tmp_path: Path) -> None:
    dear = Price(10.0, 10.0)
    plain = cost(tmp_path, ALL_CHEAP)
    assert cost(tmp_path, Prices(CHEAP, dear)) > plain * 1.05
    judged = cost(tmp_path, ALL_CHEAP, **JUDGED)
    assert cost(tmp_path, Prices(CHEAP, CHEAP, dear, "grader"), **JUDGED) > 2 * judged
    found = estimate_run(prepared(tmp_path, **JUDGED), Prices(CHEAP, CHEAP, dear, "grader"))
    assert found.judge_model == "grader"
    # A rubric, a row, an answer and instructions: about 160 tokens.
    assert found.judge_cost_usd == pytest.approx(found.judge_calls * 160e-5, rel=0.1)


def test_a_cap_bounds_what_is_foreseen_and_it_is_said_what_it_cuts(tmp_path: Path) -> None:
    def foreseen(**caps: Any) -> Estimate:
        return estimate_run(prepared(tmp_path, **caps), ALL_CHEAP)

    free = foreseen()
    assert free.cost_usd is not None
    tokens = foreseen(max_tokens=20_000)
    assert tokens.tokens == 20_000
    (warning,) = [w for w in tokens.warnings if w.code == "budget.may-end-early"]
    assert warning.place.setting == "max_tokens"
    assert f"all rounds can take up to about {free.tokens:,}" in warning.said
    money = foreseen(max_cost=0.02)
    assert money.cost_usd == pytest.approx(0.02)
    assert any(str(w).startswith("max_cost: $0.02 may end the search") for w in money.warnings)
    assert foreseen(max_tokens=free.tokens, max_cost=free.cost_usd).warnings == free.warnings


@pytest.mark.parametrize(("name", "small"), [("max_tokens", 50), ("max_cost", 0.0001)])
def test_a_cap_on_spending_too_small_names_the_smallest_that_passes(
    tmp_path: Path, name: str, small: float
) -> None:
    with pytest.raises(BudgetTooSmallError, match=f"{name}: {small:g} is too small") as refused:
        check_spending(prepared(tmp_path, **{name: small}), ALL_CHEAP)
    (least,) = re.findall(rf"Give {name}=(\S+) or more", str(refused.value))
    check_spending(prepared(tmp_path, **{name: float(least)}), ALL_CHEAP)
    one_less = float(least) - (1 if name == "max_tokens" else 1e-6)
    with pytest.raises(BudgetTooSmallError, match=rf"Give {name}={least} or more"):
        check_spending(prepared(tmp_path, **{name: one_less}), ALL_CHEAP)


def test_a_judge_takes_its_own_price_of_a_cap_on_cost(tmp_path: Path) -> None:
    judged = prepared(tmp_path, max_cost=1e-4, **JUDGED)

    def least(judge_usd: float) -> float:
        with pytest.raises(BudgetTooSmallError) as refused:
            check_spending(judged, Prices(CHEAP, CHEAP, Price(judge_usd, judge_usd)))
        (needed,) = re.findall(r"Give max_cost=(\S+) or more", str(refused.value))
        return float(needed)

    # A judge takes some 160 tokens for each row of about 10.
    assert least(10) > 5 * least(1)
    check_spending(judged, Prices(CHEAP, CHEAP))  # what the judge costs nobody knows


def test_a_cap_on_cost_is_not_checked_without_a_price(tmp_path: Path) -> None:
    check_spending(prepared(tmp_path, max_cost=0.0001), Prices())


def test_the_smallest_gain_is_smaller_where_rows_of_train_can_stay_unseen(tmp_path: Path) -> None:
    estimate = estimate_run(prepared(tmp_path, rows=300), ALL_CHEAP)
    assert estimate.smallest_gain is not None
    assert estimate.smallest_gain_at_best is not None
    assert 0 < estimate.smallest_gain_at_best < estimate.smallest_gain
