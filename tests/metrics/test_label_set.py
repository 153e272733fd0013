"""Several labels at once: sets compared by F1 or as a whole."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from autoprompt.dataset.checks import load_rows
from autoprompt.errors import ConfigError, DatasetError
from autoprompt.llm.adapter import ScriptedClient
from autoprompt.metrics import Metric, check_targets, get_metric, run_metric
from autoprompt.records import Example, Prediction, Score
from autoprompt.settings.records import RunConfig

LABELS = ("drama", "comedy", "horror")


def row(target: str) -> Example:
    return Example("r1", "text", target, {"input": "text", "target": target}, line=7)


def score(metric: Metric, answer: str, target: str) -> Score:
    return metric.score(Prediction(answer, metric.read(answer)), row(target))


@pytest.mark.parametrize(
    ("answer", "target", "f1", "reason"),
    [
        ("drama, comedy", '["comedy","drama"]', 1.0, ""),
        ("drama", "drama, comedy", 2 / 3, "missing: comedy"),
        ("drama, comedy, horror", "drama; comedy", 0.8, "extra: horror"),
        ("drama, horror", "drama\ncomedy", 0.5, "missing: comedy; extra: horror"),
        ("drama, western", "drama", 2 / 3, "extra: western (not one of the labels)"),
        ("horror", "drama", 0.0, "missing: drama; extra: horror"),
        ("none", "[]", 1.0, ""),
        ("drama", "[]", 0.0, "extra: drama"),
        ("none", "drama", 0.0, "missing: drama"),
    ],
)
def test_a_row_scores_the_f1_of_the_sets(answer: str, target: str, f1: float, reason: str) -> None:
    found = score(get_metric("label_set", labels=LABELS), answer, target)
    assert found == Score(pytest.approx(f1), reason, feedback=reason)
    exact = score(get_metric("label_set", {"match": "exact"}, labels=LABELS), answer, target)
    assert exact == Score(float(f1 == 1), reason, feedback=reason)


def test_an_answer_without_any_of_the_labels_is_unreadable() -> None:
    metric = get_metric("label_set", labels=LABELS)
    assert metric.read("western") is None
    assert score(metric, "western", "drama").reason == (
        "unparsed: 'western' names none of the labels drama, comedy, horror"
    )
    assert get_metric("label_set").read("western") == '["western"]'
    assert score(metric, " ", "drama").reason == "unparsed: the answer is empty"


def test_labels_are_known_from_all_targets() -> None:
    config = RunConfig(metric="label_set", dataset=Path("x.jsonl"))
    rows = [row('["Rock and Roll"]'), row('["Jazz","R&B"]')]
    metric = run_metric(config, (), lambda _: ScriptedClient([]), rows)
    assert score(metric, "rock and roll, jazz", '["Rock and Roll","Jazz"]').is_correct
    assert score(metric, "This is jazz, with some r&b.", '["Jazz","R&B"]').is_correct
    given = config.model_copy(update={"labels": ("Jazz", "R&B", "Rock and Roll", "Folk")})
    metric = run_metric(given, (), lambda _: ScriptedClient([]), rows)
    assert score(metric, "folk", '["Jazz"]').reason == "missing: Jazz; extra: Folk"


def test_targets_are_checked_with_file_and_line(tmp_path: Path) -> None:
    path = tmp_path / "d.jsonl"
    targets = [["drama"], "drama, comedy", [], "western", {"a": 1}]
    path.write_text(
        "\n".join(json.dumps({"input": f"film {n}", "target": t}) for n, t in enumerate(targets)), "utf-8"
    )
    rows = {path: load_rows(path, takes_json=True)}
    with pytest.raises(DatasetError, match=r"line 5: the target '{\"a\":1}' is no list of labels"):
        check_targets(get_metric("label_set"), rows)
    with pytest.raises(DatasetError, match=r"line 4: the target names 'western', not among the labels drama"):
        check_targets(get_metric("label_set", labels=LABELS), rows)
    with pytest.raises(DatasetError, match="or the metric label_set for several labels"):
        load_rows(path)


def test_a_wrong_way_to_match_is_refused() -> None:
    with pytest.raises(ConfigError, match="expected f1 or exact, found 'jaccard'"):
        get_metric("label_set", {"match": "jaccard"})


def test_lists_of_labels_in_another_order_are_noticed() -> None:
    metric = get_metric("exact_match")
    wrong = [("a, b", "b, a"), ("c; d", "d; c"), ("x", "y")]
    assert metric.suspicion(wrong, 6).code == "metric.labels-in-other-order"  # type: ignore[attr-defined]
    assert metric.suspicion(wrong[2:], 2) is None  # type: ignore[attr-defined]


def films(path: Path, rows: int = 40) -> Path:
    names = [["drama"], ["drama", "comedy"], ["horror"], []]
    path.write_text(
        "\n".join(json.dumps({"input": f"film {n}", "target": names[n % 4]}) for n in range(rows)), "utf-8"
    )
    return path


def test_a_run_is_scored_by_sets(tmp_path: Path) -> None:
    from autoprompt import Models, evaluate

    config = RunConfig(dataset=films(tmp_path / "films.jsonl"), prompt="Genres?", metric="label_set")
    client = ScriptedClient(lambda _: "comedy and drama")
    report = evaluate(config, models=Models(task=client, optimizer=client))
    assert report.score == pytest.approx((2 / 3 + 1 + 0 + 0) / 4)
    assert report.evaluation.rows[0].reason == "extra: comedy"
