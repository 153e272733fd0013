"""`config`: what is set once holds for every run, below every other source."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from autoprompt.cli import app
from autoprompt.settings.resolve import CompleteConfig, resolve
from autoprompt.settings.trust import own_folder


def call(*arguments: str, code: int = 0) -> Any:
    found = CliRunner().invoke(app, list(arguments), env={"COLUMNS": "140"})
    assert found.exit_code == code, found.output
    return found


@pytest.fixture(autouse=True)
def dataset(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    rows = [{"input": f"item {n}", "target": "AB"[n % 2]} for n in range(60)]
    (tmp_path / "t.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")


def settings(**flags: Any) -> Any:
    return resolve(
        CompleteConfig, {"dataset": "t.jsonl", "prompt": "A or B?", **flags}, config_file=None, environ={}
    )


def test_prices_are_set_once() -> None:
    call("config", "set", "price_input", "0.15")
    call("config", "set", "price_output", "0.6")
    found = settings(model="m", base_url="http://localhost:1/v1")
    assert (found.price_input, found.price_output) == (0.15, 0.6)
    assert settings(model="m", price_input=1.0, price_output=2.0).price_output == 2.0
    assert call("config", "list").stdout == "price_input: 0.15\nprice_output: 0.6\n"
    listed = json.loads(call("config", "list", "--json").stdout)
    assert listed == {
        "file": str(own_folder() / "config.yaml"),  # type: ignore[operator]
        "settings": {"price_input": 0.15, "price_output": 0.6},
    }
    call("config", "unset", "price_input")
    assert call("config", "list").stdout == "price_output: 0.6\n"


def test_prices_of_a_named_model_are_not_those_of_another() -> None:
    for name, value in (("model", "mine"), ("price_input", "1"), ("price_output", "2")):
        call("config", "set", name, value)
    assert (settings().model, settings().price_input) == ("mine", 1.0)
    assert settings(model="other").price_input is None
    assert settings(model="local").base_url is None


def test_parts_of_a_setting_are_set_one_by_one() -> None:
    call("config", "set", "traits.is_slow", "true")
    call("config", "set", "traits.writes_well", "false")
    assert call("config", "list").stdout == "traits: {'is_slow': True, 'writes_well': False}\n"


def test_a_wrong_setting_is_refused_and_changes_nothing() -> None:
    call("config", "set", "max_calls", "500")
    assert "price_input" in call("config", "set", "price_inputs", "1", code=2).stderr
    assert "max_calls" in call("config", "set", "max_calls", "many", code=3).stderr
    assert "dataset" in call("config", "set", "dataset", "t.jsonl", code=2).stderr
    assert "'seed' is not set. The file sets: max_calls." in call("config", "unset", "seed", code=2).stderr
    assert call("config", "list").stdout == "max_calls: 500\n"
    assert settings().max_calls == 500


def test_a_broken_file_is_named_with_its_line() -> None:
    call("config", "set", "max_calls", "500")
    file = own_folder() / "config.yaml"  # type: ignore[operator]
    file.write_text("max_calls: 500\nmax_call: 3\n", encoding="utf-8")
    said = call("run", "--dataset", "t.jsonl", "--prompt", "A or B?", "--dry-run", code=3).stderr
    assert f"{file} line 2: " in said.replace("\n", " ")
