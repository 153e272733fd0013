"""What a run says that it found."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from fakes import LABELS, Bench, bench, row, scored, splits_of

from autoprompt.errors import Problem
from autoprompt.llm.limits.amounts import Spent
from autoprompt.measure.compare import compare_rows
from autoprompt.metrics import get_metric
from autoprompt.optimizer.ending.verdict import RunFacts, make_result
from autoprompt.optimizer.graph import first_state
from autoprompt.optimizer.result import RunResult
from autoprompt.records import Candidate, Demo, EvaluatedRow, plain
from autoprompt.runs.result import Comparison, Confirmation, Splits

FACTS = RunFacts(
    "run",
    "runs/run",
    "exact_match",
    "m",
    "w",
    Splits({"train": 32}, {}, 0, {"test": "abc"}, 2, 30),
    {},
    {},
    None,
    (Problem.plain("careful"),),
)


def passed(rows: int = 24, score: float = 0.8, other_score: float = 0.5, **changes: Any) -> dict[str, Any]:
    """Return a confirmation as the state holds it, on so many fresh rows."""
    part = Comparison(rows, rows, score, other_score)
    made = Confirmation(True, 0.01, 7, 7.0, "both", raced=part, fresh=part, candidate="a prompt")
    return plain(replace(made, **changes))


def result(
    fixed: int,
    broken: int,
    same: int = 10,
    facts: RunFacts = FACTS,
    is_raced: bool = True,
    of_row: Callable[[EvaluatedRow], EvaluatedRow] = lambda row: row,
    **changes: Any,
) -> RunResult:
    """Best against original on a test of rows that differ so."""
    made = bench(splits=splits_of(32, 60, fixed + broken + same))
    state: dict[str, Any] = {**first_state(made.context, {}), "tried": 7, "iteration": 2}
    best = made.context.add(Candidate({"prompt": "Better."}, (Demo("item 1", "A", "r1"),)))
    best.status = "accepted"
    if is_raced:
        best.scores[made.context.plan.race_ids[0]] = 1.0
    state |= {"incumbent": best.candidate.id, "test": sealed(made, fixed, broken, same, of_row), **changes}
    return make_result(state, made.context, facts, Spent(task_calls=9, optimizer_calls=2))  # type: ignore[arg-type]


def sealed(
    made: Bench, fixed: int, broken: int, same: int, of_row: Callable[[EvaluatedRow], EvaluatedRow]
) -> dict[str, Any]:
    n = fixed + broken + same
    best = [scored(row(i), not fixed <= i < fixed + broken) for i in range(n)]
    original = [scored(row(i), i >= fixed) for i in range(n)]
    names = {"best": best, "original": original}
    for name, rows in names.items():
        made.files.write_predictions(f"test-{name}", map(of_row, rows))
    made.files.write_predictions("test-whole", best)
    return {name: {"path": f"test-{name}.jsonl"} for name in names}


@pytest.mark.parametrize(
    ("fixed", "broken", "verdict"),
    [
        (6, 0, "confirmed"),  # p = 2 / 64
        (5, 0, "not_confirmed"),  # p = 2 / 32
        (9, 1, "confirmed"),
        (8, 2, "not_confirmed"),
        (0, 9, "not_confirmed"),  # significant, and worse
        (0, 0, "not_confirmed"),
    ],
)
def test_the_verdict_is_the_two_sided_paired_test_on_sealed_rows(
    fixed: int, broken: int, verdict: str
) -> None:
    found = result(fixed, broken)
    assert found.verdict == verdict
    data = found.to_dict()
    assert (data["fixed"], data["broken"]) == (fixed, broken)
    n = fixed + broken + 10
    assert data["best"]["score"] == (n - broken) / n
    assert data["original"]["score"] == (n - fixed) / n
    assert data["gain"]["value"] == pytest.approx((fixed - broken) / n)
    low, high = data["gain"]["ci95"]
    assert low <= data["gain"]["value"] <= high
    for side in (data["best"], data["original"]):
        assert 0 <= side["ci95"][0] <= side["score"] <= side["ci95"][1] <= 1
        assert side["n"] == n
    assert (found.score, found.original_score) == (data["best"]["score"], data["original"]["score"])
    assert found.score_interval == tuple(data["best"]["ci95"])
    assert found.original_interval == tuple(data["original"]["ci95"])
    assert (found.gain, found.gain_interval) == (data["gain"]["value"], (low, high))
    assert (found.p_value, found.fixed, found.broken) == (data["p_value"], fixed, broken)
    assert (found.calls, found.cost_usd) == (11, 0.0)
    assert found.is_confirmed == (verdict == "confirmed")
    said = "Confirmed:" if verdict == "confirmed" else "Not confirmed by the sealed test:"
    assert found.message.startswith(said)
    assert f"{fixed} fixed, {broken} broken" in found.message
    keeps = {(5, 0): "validation rows had confirmed.", (0, 9): "Keep your original."}
    if (fixed, broken) in keeps:
        assert found.message.endswith(keeps[fixed, broken])


def test_a_cheaper_prompt_is_confirmed_only_if_the_best_beat_the_original_too() -> None:
    made = bench(splits=splits_of(32, 60, 16))
    first_state(made.context, {})
    ends = {
        "highest": made.context.pool.original.candidate.id,  # answers as the original, so it did not beat it
        "cheapest": "a prompt",
        "reason": "",
        "level": {
            "rows": 24,
            "score": 0.8,
            "highest_score": 0.8,
            "behind": 0.0,
            "standard_error": 0.1,
            "confirmation": passed(),
        },
    }
    names = {"best": "best", "original": "original", "other": "original"}
    test = {name: {"path": f"test-{file}.jsonl"} for name, file in names.items()}
    found = result(6, 0, ends=ends, test=test)
    assert (found.verdict, found.p_value) == ("not_confirmed", 2 / 64)
    assert (
        " The prompt with the highest score, which is tested first, did not beat the original there"
        in found.message
    )


def test_a_small_p_value_is_told_as_in_the_report() -> None:
    assert ", p = 0.00002;" in result(17, 0).message


def test_without_a_test_nothing_is_verified_and_it_is_said() -> None:
    raced = Comparison(24, 24, 1.0, 0.5)
    found = result(0, 0, test={}, confirmation=passed(raced=raced))
    data = found.to_dict()
    assert found.verdict == "untested"
    assert (data["p_value"], data["gain"], data["best"]["score"], data["best"]["n"]) == (None, None, None, 0)
    assert (found.score, found.original_score, found.gain, found.p_value) == (None, None, None, None)
    assert (found.score_interval, found.original_interval, found.gain_interval) == (None, None, None)
    assert not found.is_confirmed
    assert data["validation"]["best"] == 0.8  # the fresh rows: raced ones flatter
    assert data["validation"]["original"] == 0.5
    assert "0.50 -> 0.80 on 24 rows not used for writing or selecting it" in found.message
    found = result(0, 0, test={}, confirmation=passed(raced=raced, train_rows=14))
    assert "on 24 rows (10 of validation, 14 of train) not used for writing" in found.message
    found = result(0, 0, test={}, confirmation=passed(raced=raced, train_rows=14, held_out_rows=9))
    left_out = "14 of train, 9 of them its own demonstrations, left out when they were asked"
    assert f"on 24 rows (10 of validation, {left_out}) not used for selecting it." in found.message
    none = passed(fresh=Comparison(0, 0))
    assert "on 24 validation rows that also selected it" in result(0, 0, test={}, confirmation=none).message
    assert "There is no sealed test, so nothing else is verified." in found.message


def test_a_test_that_the_budget_did_not_reach_is_not_called_missing() -> None:
    facts = replace(FACTS, splits=Splits({"train": 32, "test": 20}))
    found = result(0, 0, facts=facts, test={}, confirmation=passed())
    assert found.verdict == "untested"
    assert "The budget ended before the sealed test" in found.message


def test_a_cap_that_has_calls_left_was_not_reached() -> None:
    made = bench(splits=splits_of(32, 60, 10))
    made.context.budget.max_calls = 302
    state: dict[str, Any] = {**first_state(made.context, {}), "stop_reason": "max_calls"}
    found = make_result(state, made.context, FACTS, Spent(task_calls=9))  # type: ignore[arg-type]
    assert "The run tried no other prompt (the remaining 302 calls are too few for a round)" in found.message


def test_the_original_is_returned_in_so_many_words() -> None:
    made = bench()
    original = first_state(made.context, {})["original"]
    found = result(0, 0, incumbent=original)
    assert found.best == found.original
    assert found.to_dict()["best"]["is_original"]
    assert found.message.startswith("None of 7 candidates was confirmed to be better than the original.")
    assert "returns the original prompt" in found.message


def test_candidates_that_nobody_measured_were_not_found_to_be_worse() -> None:
    original = first_state(bench().context, {})["original"]
    found = result(0, 0, is_raced=False, incumbent=original, stop_reason="max_calls")
    assert found.message.startswith("The run could not measure any of 7 candidates (max_calls)")
    assert found.to_dict()["candidates"]["measured"] == 0


def test_the_result_holds_candidates_facts_and_costs() -> None:
    found = result(6, 0)
    data = found.to_dict()
    assert data["best"]["components"] == {"prompt": "Better."}
    assert data["best"]["demos"] == [{"input": "item 1", "output": "A"}]
    assert data["candidates"]["tried"] == 7
    assert data["candidates"]["accepted"] == 1
    assert data["calls"] == 11
    assert data["splits"] == {
        "sizes": {"train": 32},
        "groups": {},
        "split_seed": 0,
        "sha256": {"test": "abc"},
        "test_opened": 2,
        "test_rows_opened_before": 30,
    }
    assert (data["model"], data["optimizer_model"], data["metric"]) == ("m", "w", "exact_match")
    assert found.best_prompt == "Better."
    assert found.run_id == "run"
    assert found.best.demos
    assert LABELS


@pytest.mark.parametrize(
    ("opened", "before", "moved", "some", "wanted"),
    [
        (1, None, (6, 2), None, 0),
        (3, 37, (6, 2), "", 143),  # McNemar: of 37 rows 8 moved, which gains 4
        (16, 36, (2, 2), " (36 of the 37 before this one)", 37),
        (16, None, (30, 0), "", 30),
    ],
)
def test_a_test_that_was_opened_before_comes_with_the_way_to_fresh_rows(
    opened: int, before: int | None, moved: tuple[int, int], some: str | None, wanted: int
) -> None:
    often = Problem("dataset.test-opened-often", "2 runs have already opened these test rows")
    known = (often, Problem.plain("careful"))
    facts = replace(
        FACTS,
        splits=Splits({"test": 37}, test_opened=opened, test_rows_opened_before=before),
        warnings=known,
    )
    found = result(*moved, same=37 - sum(moved), facts=facts).warnings
    if some is None:
        assert found == known
        return
    assert found[0] == known[1]  # the guess of the start is gone
    assert [str(one) for one in found[1:]] == [
        f"{opened} runs have opened these test rows so far{some}: each makes the score less reliable. Label "
        f"about {wanted} new rows and give them as test=… to the next run."
    ]


def example_row(number: int, *, right: bool, error: str | None = None) -> EvaluatedRow:
    score = float(right and error is None)
    return EvaluatedRow(
        f"r{number}", f"item {number}", "A" if right else "B", "A", score == 1.0, score, error=error
    )


def test_a_lost_row_is_no_wrong_answer() -> None:
    """Rows that the endpoint failed on either side are left out, else a bad hour would confirm a prompt."""
    best = [example_row(i, right=True) for i in range(30)]
    original = [example_row(i, right=True, error="timeout" if i < 10 else None) for i in range(30)]
    compared = compare_rows(best, original, get_metric("exact_match"))
    assert compared is not None
    assert (compared.left_out, compared.fixed, compared.p_value) == (10, 0, 1.0)


def test_a_refused_row_is_the_candidates_own_fault() -> None:
    best = [
        replace(example_row(i, right=True, error="too long"), failure="refused")
        if i < 10
        else example_row(i, right=True)
        for i in range(30)
    ]
    compared = compare_rows(best, [example_row(i, right=True) for i in range(30)], get_metric("exact_match"))
    assert compared is not None
    assert (compared.left_out, compared.broken) == (0, 10)


def test_of_an_aggregate_metric_the_aggregate_is_compared() -> None:
    targets = ["A"] * 36 + ["B"] * 4
    best = [replace(example_row(i, right=True), prediction=t, ground_truth=t) for i, t in enumerate(targets)]
    original = [
        replace(example_row(i, right=t == "A"), prediction="A", ground_truth=t) for i, t in enumerate(targets)
    ]
    compared = compare_rows(best, original, get_metric("macro_f1", labels=("A", "B")))
    assert compared is not None
    assert compared.new.score == 1.0
    assert compared.old.score == pytest.approx((72 / 76) / 2)
    assert compared.gain_interval.low < compared.gain < 1
    same = compare_rows(best, best, get_metric("macro_f1", labels=("A", "B")))
    assert same is not None
    assert same.new.interval.low < 0.9  # 4 rows of B, all right
    assert same.gain_interval.low < 0 < same.gain_interval.high


def test_rows_of_a_group_are_no_independent_evidence_on_the_sealed_test() -> None:
    """Ten rows put right confirm a prompt, five pairs do not; the intervals know it too."""
    best = [example_row(i, right=True) for i in range(20)]
    original = [example_row(i, right=i >= 10) for i in range(20)]
    pairs = [[replace(row, group=f"g{i // 2}") for i, row in enumerate(side)] for side in (best, original)]
    for metric in (get_metric("exact_match"), get_metric("macro_f1", labels=("A", "B"))):
        alone, together = compare_rows(best, original, metric), compare_rows(*pairs, metric)
        assert alone is not None
        assert together is not None
        assert alone.p_value < 0.05 < together.p_value
        assert together.p_value == 2 / 2**5
        assert (alone.gain, alone.fixed) == (together.gain, together.fixed)
        for now, before in (
            (together.gain_interval, alone.gain_interval),
            (together.old.interval, alone.old.interval),
        ):
            assert now.high - now.low > 1.1 * (before.high - before.low)


def test_the_message_says_in_how_many_groups_the_rows_are() -> None:
    facts = replace(FACTS, splits=replace(FACTS.splits, groups={"test": 9}))
    found = result(
        6, 0, facts=facts, of_row=lambda row: replace(row, group=f"g{int(row.example_id[1:]) % 9}")
    )
    assert "on 16 unseen rows (in 9 groups), p = " in found.message
    assert found.to_dict()["splits"]["groups"] == {"test": 9}
    assert "group" not in result(6, 0).message


@pytest.mark.parametrize(
    ("fresh", "said"),
    [
        (
            7,
            "0.57 -> 0.71 on 7 rows (0 of validation, 7 of train) not used for writing or selecting it, "
            "and 0.45 -> 0.70 on 20 that selected it.",
        ),
        (
            12,
            "0.57 -> 0.71 on 12 rows (0 of validation, 12 of train) not used for writing or selecting "
            "it. There is",
        ),
    ],
)
def test_where_few_rows_are_fresh_those_that_chose_it_are_told_beside_them(fresh: int, said: str) -> None:
    raced = Comparison(20, 20, 0.7, 0.45)
    confirmation = passed(fresh, 0.714, 0.571, raced=raced, train_rows=fresh)
    message = result(0, 0, 0, test={}, confirmation=confirmation).message
    assert message.startswith(said)


def test_rows_that_were_lost_are_not_among_those_that_the_message_counts() -> None:
    def lost(row: EvaluatedRow) -> EvaluatedRow:
        return replace(row, error="HTTP 500", group="g0") if row.example_id in ("r14", "r15") else row

    data = result(6, 0, of_row=lost).to_dict()
    assert "on 14 unseen rows, p = 0.031; 6 fixed, 0 broken" in data["message"]
    assert (data["best"]["n"], data["original"]["n"], data["left_out"]) == (14, 14, 2)
    assert (data["best"]["groups"], data["best"]["failed"]) == (14, 2)
    assert data["warnings"][-1]["message"].startswith("2 of 16 test rows failed")


def test_far_more_failures_on_one_side_are_told() -> None:
    def sealed_rows(name: str, failed: int) -> Any:
        rows = [scored(row(i), name == "best" or i >= 9) for i in range(24)]
        return [replace(r, error="timed out") if i >= 24 - failed else r for i, r in enumerate(rows)]

    made = bench(splits=splits_of(32, 60, 24))
    state: dict[str, Any] = {**first_state(made.context, {}), "tried": 7, "iteration": 2}
    best = made.context.add(Candidate({"prompt": "Better."}))
    best.scores[made.context.plan.race_ids[0]] = 1.0
    for name, failed in (("best", 12), ("original", 1)):
        made.files.write_predictions(f"test-{name}", sealed_rows(name, failed))
    test = {name: {"path": f"test-{name}.jsonl"} for name in ("best", "original")}
    state |= {"incumbent": best.candidate.id, "test": test}
    data = make_result(state, made.context, FACTS, Spent(task_calls=9)).to_dict()  # type: ignore[arg-type]
    assert (data["verdict"], data["is_lopsided"], data["broken"]) == ("not_confirmed", True, 0)
    assert (
        "more rows failed for one prompt (12 for the new one, 1 for the original), so the" in data["message"]
    )


def cut(row: EvaluatedRow) -> EvaluatedRow:
    errors = {"r14": "the cap of 9 s is reached.", "r15": "HTTP 500"}
    failure = "not asked" if row.example_id == "r14" else None
    return replace(row, error=errors.get(row.example_id), failure=failure)


def test_a_part_of_the_test_for_the_cheaper_prompt_alone_is_said_to_be_that() -> None:
    names = {"best": "best", "original": "best", "other": "whole"}
    test = {name: {"path": f"test-{file}.jsonl"} for name, file in names.items()}
    warnings = {warning.code: str(warning) for warning in result(6, 0, of_row=cut, test=test).warnings}
    assert warnings["budget.test-rows-not-asked"] == (
        "the budget had 15 of 16 test rows for this prompt beside the two others, so the rest is left out."
    )


def test_rows_that_the_budget_ended_before_are_told_apart_from_failed_ones() -> None:
    data = result(6, 0, of_row=cut).to_dict()
    assert data["best"]["failed"] == 1
    assert [warning["message"] for warning in data["warnings"][-2:]] == [
        "the budget ended after 15 of 16 test rows, so the scores leave out the rest.",
        "1 of 16 test rows failed, so the scores leave them out; the first: HTTP 500. Calls that are left "
        "cannot help: the sealed test asks each row once, with retries.",
    ]
