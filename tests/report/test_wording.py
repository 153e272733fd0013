"""Sentences that the panel, the report and the lines without a terminal share."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from autoprompt.llm.prices import Cost
from autoprompt.records import plain, validated
from autoprompt.report import wording
from autoprompt.runs.events import WinnerChosen, read_event
from autoprompt.runs.result import (
    Baseline,
    Choice,
    Confirmation,
    Ends,
    OtherEnd,
    Result,
    Returned,
    Side,
    TradeOff,
    Validation,
)

CHEAP = Cost(0.0001, "usd")


def read(found: dict[str, Any]) -> Confirmation:
    return validated(Confirmation, {"confirmed": False, **found})


@pytest.mark.parametrize(
    ("fresh", "basis", "tried", "said"),
    [
        (1, "both", 1, "1.000 against 0.500 on 1 fresh row; with the race p = 0.020, after 1 candidate"),
        (9, "both", 8, "1.000 against 0.500 on 9 fresh rows; with the race p = 0.020, after 8 candidates"),
        (0, "raced", 1, "0.700 against 0.500 on 16 rows that selected it; p = 0.020, after 1 candidate"),
    ],
)
def test_one_is_not_many(fresh: int, basis: str, tried: int, said: str) -> None:
    found: dict[str, Any] = {
        "fresh": {"rows": fresh, "score": 1.0, "other_score": 0.5, "groups": fresh},
        "raced": {"rows": 16, "score": 0.7, "other_score": 0.5, "groups": 16},
        "tried": tried,
        "basis": basis,
        "chances": 1.0,
        "p_value": 0.02,
    }
    assert wording.confirmation(read(found)) == said


LEFT_OUT = "left out when"


@pytest.mark.parametrize(
    ("shown", "said"),
    [
        (0, "(16 of validation, 22 of train)"),
        (1, f"(16 of validation, 22 of train, 1 of them its own demonstration, {LEFT_OUT} it was asked)"),
        (
            13,
            f"(16 of validation, 22 of train, 13 of them its own demonstrations, {LEFT_OUT} they were asked)",
        ),
    ],
)
def test_rows_that_the_winner_shows_are_named_confirmed_or_not(shown: int, said: str) -> None:
    fresh = {"rows": 38, "groups": 38, "score": 0.9, "other_score": 0.5}
    found = {"fresh": fresh, "raced": fresh, "tried": 9, "p_value": 0.001, "train_rows": 22}
    found |= {"basis": "both", "chances": 9.0, "held_out_rows": shown, "candidate": "abcdef012"}
    assert f"0.900 against 0.500 on 38 fresh rows {said};" in wording.confirmation(read(found))
    not_confirmed = wording.not_confirmed(read({**found, "p_value": 0.06}))
    assert (
        f"is ahead on fresh rows too, 0.900 against 0.500 on 38 rows {said}, but not beyond" in not_confirmed
    )


def test_groups_are_what_too_few_of_are_said_to_be() -> None:
    raced = {"rows": 25, "score": 0.8, "other_score": 0.6, "groups": 5}
    found = {
        "confirmed": False,
        "fresh": {"rows": 0, "groups": 0},
        "basis": "raced",
        "chances": 9.0,
        "raced": raced,
        "tried": 9,
        "p_value": 0.4,
        "candidate": "abcdef012",
    }
    said = wording.not_confirmed(read(found))
    assert "on the 25 rows that selected it (in 5 groups)" in said
    assert said.endswith("so few groups cannot confirm any gain")


def test_two_that_are_right_in_all_fresh_rows_are_level() -> None:
    fresh = {"rows": 2, "groups": 2, "score": 1.0, "other_score": 1.0}
    found = {
        "confirmed": False,
        "fresh": fresh,
        "raced": fresh,
        "basis": "both",
        "chances": 9.0,
        "tried": 9,
        "p_value": 0.4,
        "candidate": "abcdef012",
    }
    assert "is level on fresh rows, as both answer all correctly" in wording.not_confirmed(
        validated(Confirmation, found)
    )


@pytest.mark.parametrize(
    ("event", "said"),
    [
        (
            {"reason": "fresher", "fresh_rows": 22, "fresh_rows_of_best": 0},
            ": 22 fresh rows can speak for it, 0 for that one",
        ),
        (
            {"reason": "memory", "fresh_rows": 17, "fresh_rows_of_best": 16},
            ": earlier runs may know the raced rows, so they prove nothing of that one's text",
        ),
        ({"fresh_rows": 9, "fresh_rows_of_best": 9}, ": its gain has the better chance to be shown"),
    ],
)
def test_why_another_goes_to_the_confirmation_is_said(event: dict[str, Any], said: str) -> None:
    told = wording.sentence(WinnerChosen(id="abcdef012", instead_of="fedcba987", **event))
    assert told == f"abcdef goes to the confirmation instead of fedcba{said}"


@pytest.mark.parametrize(
    ("is_unchanged", "said"),
    [(False, "the cheapest first"), (True, "ahead of the original, not confirmed")],
)
def test_the_table_of_costs_says_what_stands_in_it(is_unchanged: bool, said: str) -> None:
    choices = [
        Choice(name, "demos", 2, 100, 0.5, is_best=name == "best", is_tested=False, cost=CHEAP)
        for name in ("short", "best")
    ]
    title = wording.trade_off(TradeOff(36, tuple(choices)), is_unchanged=is_unchanged)
    assert title == f"Score against cost, {said}; means of the 36 rows that raced, no proof"


def test_a_candidate_of_the_table_says_whether_it_was_tested() -> None:
    names = [
        Choice("ab" * 6, "demos", 2, 100, 0.5, *marks, CHEAP).name
        for marks in ((True, True), (False, True), (False, False))
    ]
    assert names == ["ababab (best)", "ababab (tested)", "ababab (raced only, not tested)"]


def test_the_pick_is_told_with_what_a_call_costs() -> None:
    event = {
        "event": "pick_chosen",
        "highest": "abcdef012",
        "cheapest": "",
        "returned": "abcdef012",
        "reason": "",
    }
    cost = {"unit": "usd", "amount": 0.0002, "cold": 0.0002, "warm": 0.00002}
    found = read_event({**event, "cost_of_highest": cost})
    assert found is not None
    assert (
        wording.sentence(found)
        == "the highest score is returned: abcdef ($0.20 cold, $0.02 warm for 1,000 calls)"
    )
    both = {
        **event,
        "cheapest": "123456789",
        "cost_of_highest": cost,
        "cost_of_cheapest": {**cost, "amount": 0.0001, "cold": 0.0001},
    }
    found = read_event(both)
    assert found is not None
    assert wording.sentence(found) == (
        "the cheapest that is about as good is returned: 123456 ($0.10 cold, $0.02 warm) instead of abcdef "
        "($0.20 cold, $0.02 warm for 1,000 calls)"
    )


def test_a_score_is_told_with_the_cost_of_a_call() -> None:
    event = {"event": "best_changed", "id": "abcdef012", "score": 0.9, "rows": 30, "original_score": 0.5}
    cost = {"amount": 0.0002, "unit": "usd"}
    best = read_event({**event, "cost": cost})
    settled = read_event({**event, "event": "candidate_settled", "accepted": True, "cost": cost})
    assert best is not None
    assert settled is not None
    assert wording.sentence(best) == (
        "best so far: abcdef, 0.900 on 30 validation rows (original 0.500), $0.20 for 1,000 calls"
    )
    assert wording.sentence(settled).endswith(" on 30 rows, $0.20 for 1,000 calls")


SCORED = "On 50 rows that it had never seen, it scored 0.84; your prompt scored 0.50."
UNTESTED = "Nobody has tested the new prompt on rows that it has not seen. Do not rely on its gain yet."


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"verdict": "confirmed"}, f"The new prompt is better. {SCORED}"),
        ({"verdict": "not_confirmed"}, f"The new prompt may be better, but this test cannot tell. {SCORED}"),
        ({"verdict": "untested", "best": Returned(id="b")}, UNTESTED),
        ({"best": Returned(0.5, n=50, id="a", is_original=True)}, "No better prompt was found. Keep yours."),
        ({"verdict": "nothing_to_improve"}, "Your prompt made no error, so there was nothing to improve."),
        ({"best": Returned(0.84, n=50)}, ""),
    ],
)
def test_the_first_sentence_needs_no_statistics(changes: dict[str, Any], said: str) -> None:
    sides = {"original": Side(0.5, n=50), "best": Returned(0.84, n=50, id="b")}
    assert wording.plain(Result(**{**sides, **changes})) == said


@pytest.mark.parametrize("verdict", ["confirmed", "untested"])
def test_a_baseline_as_good_is_said_first_and_the_mark_is_the_verdicts(verdict: str) -> None:
    baseline = plain(Baseline(None, 1.0, (0.9, 1.0), 0.5, is_beaten=False, is_uneven=False))
    data: dict[str, Any] = {
        "verdict": verdict,
        "metric": "exact_match",
        "original": {"score": 0.47, "n": 36},
        "best": {"score": 0.64, "n": 36, "id": "b", "is_original": False},
        "fixed": 6,
        "p_value": 0.03,
        "baselines": {"nearest": baseline},
    }
    level = (
        "Without a model, copying the answer of the most similar rows would score 1.00 on the same rows. "
        "The prompt scores 0.64, which is less than that."
    )
    data["message"] = f"{level} 0.47 -> 0.64 on 36 rows."
    found = Result.from_dict(data, Path("result.json"))
    assert wording.headline(found, "Mark").startswith(f"{level} Mark: 0.47 → 0.64 on ")
    data["baselines"] = {"nearest": {**baseline, "score": 0.6}}
    level = level.replace("1.00", "0.60").replace("less", "not clearly better")
    data["message"] = f"0.47 -> 0.64 on 36 rows. {level}"
    found = Result.from_dict(data, Path("result.json"))
    assert wording.headline(found, "Mark").startswith("Mark: 0.47 → 0.64 on ")
    assert wording.headline(found, "Mark").count("Without a model") == 1


@pytest.mark.parametrize(
    ("p", "said"),
    [
        (0.0024, "24 of 10,000"),
        (0.00004, "4 of 100,000"),
        (0.0312, "31 of 1,000"),
        (0.46, "46 of 100"),
        (1.0, "100 of 100"),
    ],
)
def test_a_p_value_in_words_is_the_figure_beside_it(p: float, said: str) -> None:
    best = Returned(0.5, n=9, id="abc", components={"prompt": "p"})
    found = Result(verdict="not_confirmed", p_value=p, best=best)
    assert f"in about {said} such tests" in wording.explanation(found)


def test_of_two_confirmations_the_candidate_is_named() -> None:
    """The log of a run has both, with another p-value each."""
    part = {"rows": 9, "score": 1.0, "other_score": 0.5, "groups": 9}
    found = {"fresh": part, "raced": part, "tried": 2, "basis": "both", "chances": 2.0, "p_value": 0.02}
    one = Validation(confirmation=read({**found, "candidate": "57c9b86f3b94"}))
    assert wording.whose(Result(validation=one)) == ""
    two = Result(validation=one, ends=Ends(other=OtherEnd(0.9, n=9)))
    assert wording.whose(two) == " (candidate 57c9b8)"


def test_a_gain_without_a_sealed_test_is_not_called_untried() -> None:
    part = {"rows": 38, "groups": 38, "score": 0.9, "other_score": 0.5}
    found = {"confirmed": True, "fresh": part, "raced": part, "tried": 9, "p_value": 0.001, "basis": "both"}
    best = Returned(id="abcdef012345", components={"prompt": "new"})
    validation = Validation(confirmation=read({**found, "chances": 9.0, "candidate": "abcdef012345"}))
    said = wording.plain(Result(best=best, validation=validation))
    assert said == "The new prompt is better on 38 fresh rows, but no sealed test has checked it."
    assert wording.plain(Result(best=best)).startswith("Nobody has tested the new prompt")
