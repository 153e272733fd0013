"""What `doctor` concludes, against a server on the loopback."""

from __future__ import annotations

from pathlib import Path

import pytest
from endpoint import KEY, serving
from typer.testing import CliRunner

from autoprompt.cli import app, doctor


def test_the_command_that_is_ready_carries_the_flags() -> None:
    assert doctor._ready(None, None) == "Ready: autoprompt run --dataset FILE"
    assert doctor._ready("a b", "http://me:secret@h/v1?key=secret") == (
        "Ready: autoprompt run --dataset FILE --model 'a b' --base-url http://h/v1"
    )


def test_a_missing_key_is_a_note(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with serving() as endpoint:
        result = CliRunner().invoke(app, ["doctor", "--model", "m", "--base-url", endpoint.base_url])
    lines = result.stdout.splitlines()
    assert "note  endpoint key      OPENAI_API_KEY is not set" in lines
    # This server wants one: that, and not the missing variable, is what stops a run.
    assert any(line.startswith("no    endpoint ") for line in lines)
    assert result.exit_code == 4


def test_the_line_end_behind_a_key_is_no_part_of_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OPENAI_API_KEY", f"{KEY}\n")
    with serving() as endpoint:
        result = CliRunner().invoke(app, ["doctor", "--model", "m", "--base-url", endpoint.base_url])
    assert "ok    endpoint key      OPENAI_API_KEY is set" in result.stdout.splitlines()
    assert result.exit_code == 0


def test_a_key_that_no_header_can_carry_is_said_and_not_repeated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OPENAI_API_KEY", f"“{KEY}”")
    result = CliRunner().invoke(app, ["doctor", "--model", "m", "--base-url", "http://127.0.0.1:9/v1"])
    assert "no    endpoint key      OPENAI_API_KEY: character 1 of the key is U+201C" in result.stdout
    assert KEY not in result.output
    assert result.exit_code == 4


@pytest.mark.parametrize(
    "command", [["doctor", "--model", "m", "--base-url", "http://127.0.0.1:9"], ["resume", "last"]]
)
def test_a_misspelt_variable_is_warned_of(
    command: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("AUTOPROMPT_MAX_CALL", "5")
    assert "did you mean AUTOPROMPT_MAX_CALLS?" in CliRunner().invoke(app, command).stderr
