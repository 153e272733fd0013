"""The command line, called in this process."""

from __future__ import annotations

from typer.testing import CliRunner, Result

from autoprompt.cli import app


def call(*arguments: str, code: int = 0) -> Result:
    result = CliRunner().invoke(app, ["--debug", *arguments], env={"COLUMNS": "140"})
    assert result.exit_code == code, result.output
    return result
