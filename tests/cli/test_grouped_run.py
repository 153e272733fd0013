"""Runs, scores and checks of rows that belong together, as a user calls them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from called import call
from endpoint import KEY, Endpoint, write_messages

from autoprompt.stats import wilson_interval

RULE = "KNOWN RULE: look at what happens now."


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, endpoint: Endpoint) -> Path:
    """160 messages of 40 customers, four alike of each."""
    monkeypatch.chdir(tmp_path)
    write_messages(tmp_path, endpoint.base_url, range(160), alike=4)
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    return tmp_path


def data_of(*arguments: str, code: int = 0) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(call(*arguments, "--json", "--quiet", code=code).stdout)
    return found


def test_a_run_of_customers_proves_less_than_one_of_as_many_rows() -> None:
    alone = data_of("run", "--config", "c.yaml")
    together = data_of("run", "--config", "c.yaml", "--set", "group_field=customer")
    assert (alone["fixed"], together["fixed"]) == (24, 24)
    assert alone["p_value"] == pytest.approx(2 / 2**24)
    assert together["p_value"] == 2 / 2**6  # of 12 customers the half was answered wrongly
    assert (alone["splits"]["groups"], together["splits"]["groups"]) == (
        {},
        {"train": 16, "val": 12, "test": 12},
    )
    assert "on 48 unseen rows (in 12 groups), p = 0.03" in together["message"]
    for side in ("original", "best"):
        narrow, wide = alone[side]["ci95"], together[side]["ci95"]
        assert wide[1] - wide[0] > 1.5 * (narrow[1] - narrow[0])
    confirmation = together["validation"]["confirmation"]
    assert (confirmation["raced"]["rows"], confirmation["raced"]["groups"]) == (48, 12)
    shown = call("runs", "show", together["run_id"]).stdout
    assert "48 unseen rows (in 12 groups)" in shown


def test_few_customers_confirm_nothing_however_many_rows_they_have() -> None:
    rows = Path("t.jsonl").read_text(encoding="utf-8").splitlines(keepends=True)
    Path("t.jsonl").write_text("".join(rows[:64]), encoding="utf-8")
    assert data_of("run", "--config", "c.yaml")["verdict"] == "confirmed"
    together = data_of("run", "--config", "c.yaml", "--set", "group_field=customer")
    assert together["verdict"] != "confirmed"
    assert together["best"]["is_original"]
    said = " ".join(
        call("run", "--config", "c.yaml", "--set", "group_field=customer", "--dry-run").stdout.split()
    )
    assert "groups) cannot confirm a gain" in said
    assert "Add rows (30 groups can show" in said


def test_the_interval_of_a_score_counts_customers() -> None:
    flags = ("eval", "--config", "c.yaml")
    alone, together = data_of(*flags), data_of(*flags, "--set", "group_field=customer")
    assert (alone["score"], together["score"]) == (0.5, 0.5)
    assert (alone["groups"], together["groups"]) == (160, 40)
    # As 40 rows: the rows of a customer are all answered alike.
    assert together["ci95"] == pytest.approx(list(wilson_interval(20, 40)))
    assert alone["ci95"] == pytest.approx(list(wilson_interval(80, 160)))
    assert "on 160 rows (in 40 groups), " in call(*flags, "--set", "group_field=customer").stdout


def test_a_check_of_customers_needs_several_that_broke() -> None:
    rows = Path("t.jsonl").read_text(encoding="utf-8").splitlines(keepends=True)
    Path("t.jsonl").write_text("".join(rows[:24]), encoding="utf-8")  # six customers, three of them urgent
    flags = ("check", "--config", "c.yaml", "--baseline", "b.json")
    call(*flags, "--prompt", f"Sort. {RULE}", "--update-baseline")
    alone = data_of(*flags, "--prompt", "Sort.", code=1)
    assert alone["comparison"]["test"] == "exact McNemar"
    together = data_of(*flags, "--prompt", "Sort.", "--set", "group_field=customer")
    assert together["passed"]
    assert together["comparison"]["test"] == "permutation of groups"
    assert (together["comparison"]["common"], together["comparison"]["groups"]) == (24, 6)
    assert (alone["comparison"]["p_value"], together["comparison"]["p_value"]) == (1 / 2**12, 1 / 8)
    assert "on 24 cases (in 6 groups): 12 broke" in together["message"]
