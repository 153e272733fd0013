"""What a task scores without a model."""

from __future__ import annotations

import hashlib
import time
from pathlib import Path

import pytest

from autoprompt.measure import baselines
from autoprompt.measure.baselines import (
    NO_BASELINES,
    baselines_sentence,
    find_baselines,
    unbalanced_warnings,
    with_baselines,
)
from autoprompt.measure.rows import scored
from autoprompt.metrics import Metric, get_metric
from autoprompt.records import EvaluatedRow, Example, Prediction
from autoprompt.runs.result import Baseline

LABELS = ("No", "Yes")
METRIC = get_metric("exact_match", labels=LABELS)


def row(number: int, text: str, target: str) -> Example:
    return Example(f"r{number}", text, target, {"input": text, "target": target})


TRAIN = [row(n, f"the red ball {n}", "No") for n in range(8)] + [row(8, "a blue cube", "Yes")]
ASKED = [row(20 + n, f"another red ball {n}", "No") for n in range(21)] + [
    row(60 + n, f"some blue cube {n}", "Yes") for n in range(4)
]


def answered(*answers: str) -> list[EvaluatedRow]:
    return [
        scored(Prediction(text, text), example, METRIC) for example, text in zip(ASKED, answers, strict=True)
    ]


def scored_ones(
    known: list[Example], asked: list[Example], rows: list[EvaluatedRow], metric: Metric = METRIC
) -> dict[str, Baseline]:
    found = find_baselines(known, asked, rows, metric)
    return {name: one for name, one in found.items() if one is not None}


def most_frequent(
    known: list[Example], asked: list[Example], rows: list[EvaluatedRow]
) -> dict[str, Baseline]:
    return {"most_frequent": scored_ones(known, asked, rows)["most_frequent"]}


def test_the_most_frequent_label_of_train_and_the_nearest_rows_are_scored_on_the_same_rows() -> None:
    found = scored_ones(TRAIN, ASKED, answered(*["No"] * 25))
    assert found["most_frequent"].answer == "No"
    assert found["most_frequent"].score == pytest.approx(0.84)
    assert found["nearest"].score == 1.0
    assert found["nearest"].answer is None


def test_a_prompt_that_answers_as_the_most_frequent_label_does_is_told_so() -> None:
    found = most_frequent(TRAIN, ASKED, answered(*["No"] * 25))
    said = baselines_sentence(found, 0.84)
    assert said.startswith("Without a model, always answering 'No' would score 0.84")
    assert "macro_f1" in said


@pytest.mark.parametrize(("most", "rarest", "is_advised"), [(30, 20, True), (29, 20, False), (20, 20, False)])
def test_balanced_labels_need_no_weights(most: int, rarest: int, is_advised: bool) -> None:
    labels = ["Yes"] * most + ["No"] * rarest
    known = [row(n, f"thing {n}", label) for n, label in enumerate(labels)]
    given = [scored(Prediction("Yes", "Yes"), e, METRIC) for e in known]
    said = baselines_sentence(most_frequent(known, known, given), 0.5)
    assert said.startswith("Without a model, always answering 'Yes'")
    assert ("macro_f1" in said) is is_advised


def test_a_prompt_that_beats_both_is_not_warned_of() -> None:
    known = [row(n, f"thing {n}", "No" if n % 2 else "Yes") for n in range(40)]
    asked = [row(100 + n, f"object {n + 900}", "No" if n % 2 else "Yes") for n in range(40)]
    rows = [scored(Prediction(e.target_text, e.target_text), e, METRIC) for e in asked]
    found = scored_ones(known, asked, rows)
    assert found["most_frequent"].score == 0.5
    assert found["most_frequent"].is_beaten
    assert baselines_sentence(found, 1.0) == ""


def test_a_row_does_not_vote_for_itself() -> None:
    rows = [row(n, f"unique{n}", "Yes" if n == 3 else "No") for n in range(10)]
    given = [scored(Prediction("No", "No"), e, METRIC) for e in rows]
    assert scored_ones(rows, rows, given)["nearest"].score == pytest.approx(0.9)


def test_no_judge_is_paid_for_a_baseline() -> None:
    from autoprompt.llm import ScriptedClient

    judge = ScriptedClient([])
    metric = get_metric("llm_judge", {"rubric": "kind"}, judge=judge)
    assert find_baselines(TRAIN, ASKED, answered(*["No"] * 25), metric) == NO_BASELINES
    assert judge.calls == []


def test_a_set_is_one_answer_in_any_order() -> None:
    labels = ("drama", "comedy", "horror")
    metric = get_metric("label_set", labels=labels)
    targets = ["drama, comedy", "comedy, drama", '["drama", "comedy"]', "horror", "horror"]
    known = [row(n, f"film {n}", target) for n, target in enumerate(targets)]
    asked = [row(10 + n, f"other {n}", "comedy, drama") for n in range(4)]
    rows = [scored(Prediction("horror", metric.read("horror")), example, metric) for example in asked]
    found = scored_ones(known, asked, rows, metric)
    assert found["most_frequent"].answer == "drama, comedy"
    assert found["most_frequent"].score == 1.0
    said = baselines_sentence(found, 0.0, "label_set")
    assert "always answering 'drama, comedy'" in said
    assert "macro_f1" not in said


@pytest.mark.parametrize(
    ("share", "metric", "is_told"),
    [(0.84, "exact_match", True), (0.6, "exact_match", False), (0.84, "macro_f1", False)]
    + [(0.84, metric, False) for metric in ("label_set", "json_match", "numeric", "llm_judge")],
)
def test_unbalanced_labels_are_told_with_the_metric_that_counts_them_alike(
    share: float, metric: str, is_told: bool
) -> None:
    rows = [row(n, f"t{n}", "No" if n < share * 100 else "Yes") for n in range(100)]
    found = unbalanced_warnings(rows, LABELS, metric)
    assert [problem.code for problem in found] == (["dataset.unbalanced"] if is_told else [])


@pytest.mark.parametrize(
    "body", ["raise RuntimeError('no such answer')", "time.sleep(1); return 0.5", "return 'much'"]
)
def test_a_metric_of_ones_own_that_fails_or_takes_long_loses_no_result(
    body: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has scored the prompt's answers; that it cannot score a baseline's costs the baseline alone."""
    module = f"own_baseline_{abs(hash(body))}"
    source = f"import time\ndef score(answer, target):\n    {body}\n"
    (tmp_path / f"{module}.py").write_text(source, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(baselines, "_MOST_METRIC_S", 0.5)
    metric = get_metric(f"python:{module}:score")
    assert find_baselines(TRAIN, ASKED, answered(*["No"] * 25), metric) == NO_BASELINES


def test_words_that_most_rows_have_take_no_time() -> None:
    words = " ".join(f"word{n}" for n in range(60))
    rows = [row(n, f"{words} own{n // 2}", str(n // 2)) for n in range(1500)]
    begun = time.process_time()
    assert baselines._nearest(rows, rows, "?") == [str(n // 2) for n in range(1500)]
    assert time.process_time() - begun < 20  # 135 million votes would take minutes


def test_of_many_rows_a_thousand_are_looked_up_and_the_most_frequent_answer_has_all(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ids = [hashlib.sha256(str(n).encode()).hexdigest() for n in range(2500)]
    rows = [
        Example(name, f"{'warm' if n % 2 else 'cold'} day {n}", "Yes" if n % 2 else "No", {})
        for n, name in enumerate(ids)
    ]
    asked: list[int] = []
    look_up = baselines._nearest

    def counted(known: list[Example], some: list[Example], usual: str) -> list[str]:
        asked.append(len(some))
        return look_up(known, some, usual)

    monkeypatch.setattr(baselines, "_nearest", counted)
    wrong = [scored(Prediction("?", "?"), e, METRIC) for e in rows]
    found = scored_ones(rows, rows, wrong)
    assert asked == [1000]
    assert (found["nearest"].score, found["most_frequent"].score) == (1.0, 0.5)


@pytest.mark.parametrize(("score", "is_first"), [(0.9, False), (0.84, True), (0.5, True)])
def test_a_baseline_that_is_as_good_is_said_before_the_verdict(score: float, is_first: bool) -> None:
    found = most_frequent(TRAIN, ASKED, answered(*["No"] * 25))
    level = baselines_sentence(found, score)
    said = with_baselines("Confirmed: 0.1 -> 0.9.", found, score)
    assert said == (f"{level} Confirmed: 0.1 -> 0.9." if is_first else f"Confirmed: 0.1 -> 0.9. {level}")
