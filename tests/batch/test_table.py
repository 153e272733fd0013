"""Rows into groups, and into a file that a spreadsheet reads."""

from __future__ import annotations

import csv
import io
import statistics
from typing import Any

import pytest
from scipy import stats as scipy_stats

from autoprompt.batch.table import BatchResult, Row, columns_of, cost_cell, group_rows, scores_of
from autoprompt.runs.result import CallCost, Ends, OtherEnd, Result, Returned


def row(seed: int, best: float | None = None, **more: Any) -> Row:
    own = {"preset": "quick", "seed": seed, **more.pop("own", {})}
    if best is None:
        return Row(f"t{seed}", own, **more)
    facts = {"original": 0.5, "gain": best - 0.5, "gain_ci95": (best - 0.6, best - 0.4), "calls": 100,
             "tokens": 1000, "cost_usd": 0.25, "seconds": 2.0, "verdict": "confirmed"}  # fmt: skip
    return Row(f"t{seed}", own, "finished", best=best, **{**facts, **more})


def test_seeds_are_taken_together() -> None:
    scores = [0.8, 0.9, 0.7]
    rows = [*(row(n, score) for n, score in enumerate(scores)), row(9, own={"preset": "standard"})]
    quick, standard = group_rows(rows)
    assert (quick.own, quick.trials, quick.n, quick.confirmed) == ({"preset": "quick"}, 3, 3, 3)
    assert quick.best == pytest.approx(statistics.mean(scores))
    assert quick.best_sd == pytest.approx(statistics.stdev(scores))
    gains = [score - 0.5 for score in scores]
    wanted = scipy_stats.t.interval(0.95, 2, statistics.mean(gains), scipy_stats.sem(gains))
    assert quick.gain_ci95 == pytest.approx(wanted, abs=1e-3)
    assert (standard.n, standard.best, standard.gain_ci95, standard.calls) == (0, None, None, None)


def test_the_interval_over_seeds_is_possible_and_has_a_width() -> None:
    (apart,) = group_rows([row(0, 0.5), row(1, 0.68)])  # t of one degree of freedom: -1.05 to 1.23
    assert apart.gain_ci95 == (-1.0, 1.0)
    (equal,) = group_rows([row(0, 0.66), row(1, 0.66)])
    assert (equal.gain, equal.gain_ci95) == (pytest.approx(0.16), None)


def test_a_single_trial_keeps_its_own_interval() -> None:
    (group,) = group_rows([row(0, 0.8)])
    assert group.gain_ci95 == pytest.approx((0.2, 0.4))
    assert group.best_sd is None


def test_a_call_costs_the_mean_of_the_seeds_in_their_unit() -> None:
    rows = [row(n, 0.8, call_cost=cost, call_unit="usd") for n, cost in enumerate((0.0002, 0.0004))]
    (group,) = group_rows(rows)
    assert [cost_cell(one) for one in (*rows, group)] == ["$0.20", "$0.40", "$0.30"]
    (mixed,) = group_rows([*rows, row(2, 0.8, call_cost=41.0, call_unit="tokens")])
    assert (mixed.call_cost, cost_cell(mixed)) == (None, "")


def test_a_row_has_both_tested_ends() -> None:
    dear, cheap = (CallCost("usd", cost, cost, cost) for cost in (0.004, 0.001))
    other = OtherEnd(score=0.9, n=40, cost=dear)
    result = Result(best=Returned(score=0.88, cost=cheap), ends=Ends(returned="cheapest", other=other))
    found = Row("t", {}, **scores_of(result))
    assert (found.best, found.call_cost, found.call_unit) == (0.88, 0.001, "usd")
    assert (found.highest, found.highest_call_cost) == (0.9, 0.004)


def test_a_failed_trial_is_counted_and_averages_nothing() -> None:
    (group,) = group_rows([row(0, 0.8), row(1, status="failed", error="the endpoint\nis gone")])
    assert (group.trials, group.n, group.failed, group.best) == (2, 1, 1, 0.8)


def test_an_unknown_price_makes_the_mean_unknown() -> None:
    (group,) = group_rows([row(0, 0.8), row(1, 0.8, cost_usd=None)])
    assert group.cost_usd is None


def test_the_csv_has_a_line_for_each_trial_and_a_column_for_each_setting() -> None:
    rows = (row(0, 0.8), row(1, status="failed", error="line one\nline, two", own={"labels": ("A", "B")}))
    lines = list(csv.DictReader(io.StringIO(BatchResult("n", "runs/n", rows).to_csv())))
    assert [line["seed"] for line in lines] == ["0", "1"]
    assert lines[0]["gain_ci95"] == "0.2;0.4" or lines[0]["gain_ci95"].startswith("0.2")
    assert (lines[1]["status"], lines[1]["error"], lines[1]["labels"]) == (
        "failed",
        "line one line, two",
        "A;B",
    )


def test_a_setting_called_as_a_fact_has_its_own_column() -> None:
    rows = (row(0, 0.8, own={"model": "asked"}, model="answered"),)
    (line,) = csv.DictReader(io.StringIO(BatchResult("n", "runs/n", rows).to_csv()))
    assert (line["set_model"], line["model"]) == ("asked", "answered")


def test_the_table_comes_back_from_its_json() -> None:
    rows = (row(0, 0.8), row(1))
    found = BatchResult("n", "runs/n", rows, 5, 6, 0.7, 8.0, ("w",), tuple(group_rows(rows)))
    assert BatchResult.from_dict(found.to_dict()) == found


def test_columns_are_what_differs() -> None:
    assert columns_of([row(0), row(1)]) == ["seed"]
    assert columns_of([row(0)]) == ["preset", "seed"]


def test_a_price_that_is_not_known_is_empty_and_not_nought() -> None:
    found = BatchResult("n", "runs/n", (row(0, 0.8, cost_usd=None, sent=3, paid_usd=None),), paid_usd=None)
    (line,) = csv.DictReader(io.StringIO(found.to_csv()))
    assert (line["sent"], line["paid_usd"]) == ("3", "")
    assert found.to_dict()["paid_usd"] is None
    assert BatchResult.from_dict(found.to_dict()).paid_usd is None
