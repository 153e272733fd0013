"""What `doctor` concludes where the list of models is closed, and the models may not be."""

from __future__ import annotations

from pathlib import Path

import pytest
from fake_endpoint import error, fake_endpoint
from typer.testing import CliRunner

from autoprompt.cli import app


@pytest.mark.parametrize(
    ("status", "flags", "mark", "code"),
    [
        (403, ("--model", "fake"), "note", 0),
        (403, (), "no  ", 4),
        (401, ("--model", "fake"), "no  ", 4),  # the key itself is not known there
    ],
)
def test_a_forbidden_list_stops_no_run_of_a_named_model(
    status: int, flags: tuple[str, ...], mark: str, code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OPENAI_API_KEY", "of-the-tests")
    with fake_endpoint() as endpoint:
        endpoint.models = error(status)
        result = CliRunner().invoke(app, ["doctor", *flags, "--base-url", endpoint.base_url])
    assert f"{mark}  endpoint          {endpoint.base_url}: HTTP {status}" in result.stdout
    assert ("It does not list models for you; a run may still work" in result.stdout) == (code == 0)
    assert ("Ready: autoprompt run" in result.stdout) == (code == 0)
    assert result.exit_code == code
