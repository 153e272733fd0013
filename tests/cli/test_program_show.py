"""`autoprompt program show`: what a program sends, as a table and as JSON."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from endpoint import Endpoint
from typer.testing import CliRunner

from autoprompt.cli import app

PROGRAM = """
import os
from openai import OpenAI

def desk(text):
    client = OpenAI(base_url=os.environ["DESK_URL"], api_key="sk-of-the-tests-0123456789")
    turns = [{"role": "system", "content": "Is the message urgent?"}, {"role": "user", "content": text}]
    return client.chat.completions.create(model="m", messages=turns).choices[0].message.content
"""


def test_a_program_is_shown_with_its_prompts_and_what_a_row_takes(
    tmp_path: Path, endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("DESK_URL", endpoint.base_url)
    monkeypatch.delitem(sys.modules, "shown_desk", raising=False)
    Path("shown_desk.py").write_text(PROGRAM)
    rows = ({"input": f"message {n}", "target": "urgent" if n % 2 else "normal"} for n in range(20))
    Path("rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    command = ["program", "show", "shown_desk:desk", "--dataset", "rows.jsonl", "--no-cache"]
    shown = CliRunner().invoke(app, command)
    assert shown.exit_code == 0, shown.output
    assert "shown_desk:desk: calls per row: 1 on average, 1 at most (8 rows tried)" in shown.output
    assert "trial: 8 of 8 rows" in shown.stderr
    line = next(line for line in shown.output.splitlines() if line.startswith("desk.system"))
    assert line.split(maxsplit=3) == [
        "desk.system",
        "instruction",
        "shown_desk.py:8",
        "Is the message urgent?",
    ]
    assert "got message 0" in shown.output
    data = json.loads(CliRunner().invoke(app, [*command, "--json"]).stdout)
    assert [(c["name"], c["kind"]) for c in data["components"]] == [("desk.system", "instruction")]
    assert (data["mean_calls"], data["most_calls"], data["rows"]) == (1.0, 1, 8)
    assert not Path("runs").exists()


def test_a_program_that_is_not_named_is_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("AUTOPROMPT_PROGRAM", raising=False)
    Path("rows.jsonl").write_text('{"input": "a", "target": "b"}\n')
    found = CliRunner().invoke(app, ["program", "show", "--dataset", "rows.jsonl"])
    assert found.exit_code == 3
    assert "no program is given" in found.output
