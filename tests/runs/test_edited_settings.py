"""A `config.yaml` that was edited between start and resume."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from autoprompt.errors import StoreError
from autoprompt.runs import RunFolder, RunStore

SETTINGS: dict[str, Any] = {
    "dataset": Path("rows.jsonl"),
    "metric": "exact_match",
    "model": "m",
    "base_url": "http://127.0.0.1:9/v1",
    "temperature": 0.0,
    "seed": 1,
    "labels": ("a", "b"),
    "max_calls": 400,
}


def edited(folder: Path, **changes: Any) -> RunFolder:
    run = RunStore(folder).create(SETTINGS)
    settings = yaml.safe_load(run.config_path.read_text(encoding="utf-8")) | changes
    settings = {name: value for name, value in settings.items() if value is not None}
    run.config_path.write_text(yaml.safe_dump(settings), encoding="utf-8")
    return run


@pytest.mark.parametrize(
    "change",
    [
        {"metric": "contains"},
        {"model": "other"},
        {"base_url": "http://127.0.0.1:8/v1"},
        {"temperature": 0.7},
        {"seed": 2},
        {"labels": ["a", "c"]},
        {"seed": None},
        {"metric_options": {"tolerance": 0.1}},
    ],
)
def test_a_setting_that_was_edited_is_refused_with_both_values(
    change: dict[str, Any], tmp_path: Path
) -> None:
    with pytest.raises(StoreError, match=f"config.yaml: edited since the run began .*{next(iter(change))}: "):
        edited(tmp_path, **change).settings_changed()


def test_budgets_may_change_and_are_listed(tmp_path: Path) -> None:
    run = edited(tmp_path, max_calls=900, max_cost=2.5)
    assert run.settings_changed() == {"max_calls": [400, 900], "max_cost": [None, 2.5]}
    assert edited(tmp_path).settings_changed() == {}


def test_an_option_that_was_left_out_as_a_secret_may_be_written_in(tmp_path: Path) -> None:
    run = RunStore(tmp_path).create({**SETTINGS, "metric_options": {"key": "sk-abcdefghijklmnopqrstuvwx"}})
    text = run.config_path.read_text(encoding="utf-8")
    assert "***" in text
    run.config_path.write_text(text.replace("'***'", "sk-new"), encoding="utf-8")
    assert list(run.settings_changed()) == ["metric_options"]
