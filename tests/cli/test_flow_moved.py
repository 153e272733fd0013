"""`resume` of a workflow's run whose project was moved or renamed since it began."""

from __future__ import annotations

from pathlib import Path

import pytest
from called import call

from autoprompt.runs import RunStore

FLOW = """\
name: two
nodes:
  - {id: start, type: start, data: {variables: [query]}}
  - {id: a, type: llm, data: {prompt_template: "First {{#start.query#}}"}}
  - {id: b, type: tool, data: {tool_name: shout_where_moved, tool_parameters: {text: "{{#a.text#}}"}}}
  - {id: end, type: end, data: {outputs: {o: [b, text]}}}
mocks:
  a: {outputs: {text: one}}
"""
TOOLS = """\
from pathlib import Path

from autoprompt.workflow import tool


@tool
def shout_where_moved(text: str) -> str:
    if Path("closed").exists():
        raise RuntimeError("the desk is closed")
    return text.upper()
"""


def moved_run(home: Path, monkeypatch: pytest.MonkeyPatch, folder: str) -> str:
    """The id of a run that failed, in a project that lies elsewhere by now, and could go on."""
    old, new = home / "old", home / "new"
    (old / folder).mkdir(parents=True)
    monkeypatch.chdir(old)
    monkeypatch.setenv("AUTOPROMPT_CACHE_DIR", str(home / "cache"))
    (old / folder / "two.yaml").write_text(FLOW, encoding="utf-8")
    (old / folder / "tools.py").write_text(TOOLS, encoding="utf-8")
    (old / "closed").touch()
    flow = ("flow", "run", f"{folder}/two.yaml", "--tools", f"{folder}/tools.py", "--input", "query=x", "-q")
    assert "the desk is closed" in call(*flow, code=3).stderr
    (line,) = RunStore(Path("runs")).list()
    (old / "closed").unlink()
    old.rename(new)
    monkeypatch.chdir(new)
    return line.run_id


@pytest.mark.parametrize("folder", [".", "flows"])
def test_it_goes_on_with_the_files_where_they_lie_now(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, folder: str
) -> None:
    run_id = moved_run(tmp_path, monkeypatch, folder)
    assert "o: ONE\n" in call("resume", run_id).stdout


@pytest.mark.parametrize(
    ("name", "command"),
    [
        ("two.yaml", "`autoprompt resume {} --set workflow=FILE`."),
        ("tools.py", "`autoprompt resume {} --set tools=FILE`."),
    ],
)
def test_a_file_that_is_nowhere_is_named_with_the_command_that_takes_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, command: str
) -> None:
    run_id = moved_run(tmp_path, monkeypatch, ".")
    Path(name).unlink()
    said = " ".join(call("resume", run_id, code=3).stderr.split())
    assert f"{tmp_path / 'old' / name}, which is not there" in said
    assert command.format(run_id) in said
