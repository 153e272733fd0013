"""When a check fails, and what is said."""

from __future__ import annotations

from dataclasses import replace

import pytest
from measured import case, example, measurement, numbered, report

from autoprompt.errors import ConfigError, EndpointError
from autoprompt.gate.comparison import check_answered, decide, find_must_pass
from autoprompt.gate.formats import to_markdown
from autoprompt.gate.measurement import Measurement
from autoprompt.settings.records import CheckConfig

BEFORE = measurement(numbered(*[1] * 40, *[0] * 10))


def now(broken: int, fixed: int = 0) -> Measurement:
    return measurement(numbered(*[0] * broken, *[1] * (40 - broken), *[1] * fixed, *[0] * (10 - fixed)))


@pytest.mark.parametrize(
    ("broken", "fixed", "max_drop", "is_passed"),
    [
        (0, 0, 0.0, True),
        (4, 0, 0.0, True),  # p = .0625
        (5, 0, 0.0, False),  # p = .031
        (6, 1, 0.0, True),  # p = .0625
        (7, 1, 0.0, False),  # p = .035
        (5, 0, 0.1, True),  # the drop is max_drop, and no more
        (6, 0, 0.1, False),
        (0, 5, 0.0, True),
    ],
)
def test_a_regression_is_significant_and_more_than_max_drop(
    broken: int, fixed: int, max_drop: float, is_passed: bool
) -> None:
    found = report(now(broken, fixed), BEFORE, max_drop=max_drop)
    assert found.is_passed is is_passed
    assert [reason.kind for reason in found.reasons] == ([] if is_passed else ["drop"])


def test_what_is_said() -> None:
    assert report(now(8), BEFORE).message == (
        "Failed: exact_match fell from 0.800 to 0.640 on 50 cases: 8 broke, 0 were fixed, p = 0.0039 "
        "(exact McNemar, one-sided)"
    )
    assert report(now(1, 1), BEFORE).message == (
        "Passed: exact_match 0.800 against 0.800 in the baseline on 50 cases: 1 broke, 1 was fixed, p = 0.75 "
        "(exact McNemar, one-sided)"
    )
    assert report(now(2), BEFORE).message.endswith("; the drop may be chance")
    assert report(now(6), BEFORE, max_drop=0.2).message.endswith("; the drop is within max_drop=0.2")


def test_of_repeats_it_is_said_that_their_means_were_tested() -> None:
    before = measurement({f"r{n}": (1, 1, 1) for n in range(8)}, repeats=3)
    now = {f"r{n}": (1, 1, 0) for n in range(6)} | {"r6": (1, 1, 1), "r7": (0, 0, 1)}
    found = report(measurement(now, repeats=3), before)
    assert found.message == (
        "Failed: exact_match fell from 1.000 to 0.667 on 8 cases: 1 broke, 0 were fixed (by most of 3 "
        "answers each), 7 are right less often and 0 more often, p = 0.0078 (permutation, by all 3 "
        "answers each, one-sided)"
    )
    assert report(before, before).message == (
        "Passed: exact_match 1.000 against 1.000 in the baseline on 8 cases: 0 broke, 0 were fixed (by most "
        "of 3 answers each), 0 are right less often and 0 more often, p = 1.00 (permutation, by all 3 "
        "answers each, one-sided)"
    )
    compared = found.to_dict()["comparison"]
    assert (compared["broken"], compared["fixed"], compared["worse"], compared["better"]) == (1, 0, 7, 0)


def test_a_score_under_the_least_fails_whatever_the_baseline_was() -> None:
    low = measurement(numbered(1, 0, 0, 0))
    found = report(low, low, min_score=0.3)
    assert [reason.kind for reason in found.reasons] == ["min_score"]
    assert found.message == "Failed: exact_match is 0.250, below min_score=0.3"
    assert report(low, low, min_score=0.25).is_passed


def test_new_rows_count_for_the_least_score_and_not_for_the_drop() -> None:
    before = measurement(numbered(*[1] * 10))
    more = measurement(numbered(*[1] * 10, *[0] * 10))
    assert report(more, before).is_passed
    assert [r.kind for r in report(more, before, min_score=0.6).reasons] == ["min_score"]


def test_a_case_that_must_pass_may_not_fail_in_any_repeat() -> None:
    cases = measurement({"r0": (1, 1, 1), "r1": (1, 0, 1)}, repeats=3)
    assert report(cases, cases, must_pass=("r0",)).is_passed
    (reason,) = report(cases, cases, must_pass=("r0", "r1")).reasons
    assert (reason.kind, reason.cases) == ("must_pass", ("r1",))
    assert reason.message == "a case that must pass failed: r1"


def test_cases_are_named_by_id_or_input() -> None:
    rows = [example("r0", text="  Fire in the hall\n"), example("r1", text="Cafe\u0301")]
    assert find_must_pass(("Fire in the hall", "r1"), rows, "d") == {"r0", "r1"}
    assert find_must_pass(("Caf\u00e9",), rows, "d") == {"r1"}
    with pytest.raises(ConfigError, match=r"'Fire' is not the id or the input of any row in d"):
        find_must_pass(("Fire", "r1"), rows, "d")


def test_cases_are_named_by_the_id_of_their_file_where_it_is_the_only_one() -> None:
    rows = [example(f"r{n}", own=own) for n, own in enumerate(("T0046", "T0047", "T9", "T9", "r0"))]
    assert find_must_pass(("T0046", "r1"), rows, "d") == {"r0", "r1"}
    with pytest.raises(ConfigError, match=r"'T9' matches 2 rows in d: r2 \(line 3\), r3 \(line 4\). Give"):
        find_must_pass(("T9",), rows, "d")
    with pytest.raises(ConfigError, match="'r0' matches 2 rows"):
        find_must_pass(("r0",), rows, "d")
    with pytest.raises(ConfigError, match="'T1' is not the id"):
        find_must_pass(("T1",), rows, "d")
    with pytest.raises(ConfigError, match="' ' is not the id"):
        find_must_pass((" ",), rows[:1], "d")


def test_a_case_that_must_pass_is_told_by_the_id_of_its_file() -> None:
    found = measurement([replace(case("r0", (0,)), example=example("r0", own="T0046"))])
    failed = report(found, found, must_pass=("r0",))
    (reason,) = failed.reasons
    assert (reason.message, reason.cases) == ("a case that must pass failed: T0046", ("r0",))
    assert "| T0046 line 1 |" in to_markdown(failed)
    assert failed.to_dict()["cases"][0]["row_id"] == "T0046"


def test_too_few_answers_are_the_endpoints_fault_and_no_regression() -> None:
    def lost(count: int) -> Measurement:
        return measurement([case(f"r{n}", () if n < count else (1,)) for n in range(20)])

    check_answered(lost(2), ())
    with pytest.raises(EndpointError, match=r"3 of 20 cases got no answer; the first: 503 from the endpoint"):
        check_answered(lost(3), ())
    with pytest.raises(EndpointError, match="Case r0 must pass, but it has no answer"):
        check_answered(lost(1), ("r0",))
    assert decide(lost(19), None, CheckConfig(min_score=0.9), ("r0",)) == ()


def test_what_differs_between_the_sides_is_said() -> None:
    before = measurement(numbered(1, 1, 1), model="old", prompt_sha256="b" * 64)
    found = report(
        measurement([case("r1", (1,)), case("r2", ()), case("r5", (1,))], metric_options={"a": 1}), before
    )
    said = "\n".join(found.notes)
    assert "the prompt has changed since the baseline of 20" in said
    assert "the model is m, but the baseline was measured with old" in said
    assert "the options of exact_match have changed since the baseline" in said
    assert "the check compares 1 common case, 1 are new, 1 are gone" in said
    assert "1 case got no answer and is left out: 503 from the endpoint" in said
    assert "fewer than 5 cannot confirm a drop" in said
    assert report(BEFORE, BEFORE).notes == ()


def test_cases_that_were_taken_out_of_a_baseline_are_no_changed_dataset() -> None:
    """Who reviews a pull request must see why a row that broke is not among those compared."""
    whole = measurement(numbered(*[1] * 10))
    edited = replace(whole, cases=whole.cases[4:])
    said = "\n".join(report(whole, edited).notes)
    assert "the baseline has no score for 4 of its rows" in said
    assert "dataset has changed" not in said
