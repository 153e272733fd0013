"""Warnings that name another reading or metric, where the rows are scored."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from autoprompt import CheckConfig, Models, check, evaluate, optimize
from autoprompt.llm.adapter import ScriptedClient
from autoprompt.metrics import get_metric
from autoprompt.records import Example, Prediction
from autoprompt.settings.records import RunConfig

ORDER = "differ from the target only in the order of a list. Use"


def json_score(answer: Any, target: Any, **options: Any) -> float:
    metric = get_metric("json_match", {"ignore_order": True, **options})
    text, expected = json.dumps(answer), json.dumps(target)
    return metric.score(Prediction(text, metric.read(text)), Example("r", "q", expected, {})).value


@pytest.mark.parametrize(
    ("answer", "target", "value"),
    [
        *[(["b", "a"], ["a", "b"], 1), (["a"], ["a", "b"], 0), (["a", "a", "b"], ["a", "b", "b"], 0)],
        *[
            (["b", "a", "a"], ["a", "b", "a"], 1),
            ([2, 1.0], [1, 2], 1),
            ([True, 1], [1, True], 1),
            ([], [], 1),
        ],
        *[({"x": ["b", "A."]}, {"x": ["a", "b"]}, 1), ({"x": [1, 2], "y": 1}, {"x": [2, 1], "y": 2}, 0.5)],
        *[([{"a": [1, 2]}, {"b": 1}], [{"b": 1}, {"a": [2, 1]}], 1), ([[1, 2], [3]], [[3], [2, 1]], 1)],
        *[([[1, 2], [3]], [[1, 3], [2]], 0), ({"a": 1, "b": 2}, {"b": 2, "a": 1}, 1), ("ab", "ba", 0)],
        *[(list(range(300)), list(range(300))[::-1], 1), (list(range(300)), [*range(299), 7], 0)],
    ],
)
def test_lists_are_compared_without_their_order(answer: Any, target: Any, value: float) -> None:
    assert json_score(answer, target) == value


def test_the_option_is_true_or_false() -> None:
    with pytest.raises(Exception, match="expected true or false, found 'yes'"):
        get_metric("json_match", {"ignore_order": "yes"})


def films(path: Path) -> Path:
    names = [["drama", "comedy"], ["comedy", "drama"], ["drama"]]
    lines = [json.dumps({"input": f"film {n}", "target": names[n % 3]}) for n in range(24)]
    path.write_text("\n".join(lines), encoding="utf-8")
    return path


def test_the_order_of_lists_is_named_in_every_command(tmp_path: Path) -> None:
    def client() -> ScriptedClient:
        return ScriptedClient(lambda _: '["comedy", "drama"]')

    models = Models(client(), client())
    config = RunConfig(
        dataset=films(tmp_path / "f.jsonl"),
        prompt="Genres",
        metric="json_match",
        runs_dir=tmp_path / "runs",
        preset="quick",
        no_memory=True,
    )
    assert any(f"8 of 24 answers {ORDER}" in str(said) for said in evaluate(config, models=models).warnings)
    limits = CheckConfig(baseline=tmp_path / "b.json")
    report = check(config, limits, is_update=True, models=models)
    assert any(ORDER in str(said) for said in report.warnings)
    events: list[dict[str, Any]] = []
    optimize(config, models=models, on_event=events.append)
    assert any(ORDER in event.get("message", "") for event in events)
    lenient = config.model_copy(update={"metric_options": {"ignore_order": True}})
    assert not any("order" in str(said) for said in evaluate(lenient, models=models).warnings)
