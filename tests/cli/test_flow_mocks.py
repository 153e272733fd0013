"""Mocks of `flow run`: wrong ones are refused before a run is kept, and a resumed run takes new ones."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from called import call

from autoprompt.runs import RunStore
from autoprompt.workflow.flow_run import SETTINGS

FLOW = """\
name: two
nodes:
  - {id: start, type: start, data: {variables: [query]}}
  - {id: a, type: llm, data: {prompt_template: "First {{#start.query#}}"}}
  - {id: b, type: llm, data: {prompt_template: "Then {{#a.text#}}"}}
  - {id: end, type: end, data: {outputs: {o: [b, text]}}}
"""
GOOD = "a: {outputs: {text: one}}\nb: {outputs: {text: two}}\n"
FAILING = "a: {outputs: {text: one}}\nb: {errors: [it is down]}\n"
RUN = ("flow", "run", "two.yaml", "--input", "query=x", "--mocks", "m.yaml", "-q")


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("AUTOPROMPT_CACHE_DIR", str(tmp_path / "cache"))
    (tmp_path / "two.yaml").write_text(FLOW, encoding="utf-8")
    return tmp_path


def begun() -> str:
    """The id of a run that failed at its second node."""
    Path("m.yaml").write_text(FAILING, encoding="utf-8")
    call(*RUN, code=4)
    (line,) = RunStore(Path("runs")).list()
    return line.run_id


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ("a: {outputs: {text: one}}\nbb: {outputs: {text: two}}\n", "mocks: no node 'bb'"),
        (
            "a: {outputs: {text: one}}\nb: {output: {text: two}}\n",
            "m.yaml line 2: mocks.b.output: unknown key. Did you mean 'outputs'?",
        ),
    ],
)
def test_a_wrong_mock_makes_no_run(wrong: str, said: str) -> None:
    Path("m.yaml").write_text(wrong, encoding="utf-8")
    assert said in call(*RUN, code=3).stderr
    assert not Path("runs").exists()


def test_a_wrong_mock_does_not_get_into_a_run_that_is_resumed() -> None:
    run_id = begun()
    Path("m.yaml").write_text(GOOD.replace("b:", "bb:"), encoding="utf-8")
    resume = ("resume", run_id, "--set", "mocks=m.yaml", "-q")
    assert "mocks: no node 'bb'" in call(*resume, code=3).stderr
    Path("m.yaml").write_text(GOOD, encoding="utf-8")
    assert call(*resume).stdout == "o: two\n"


def test_mocks_of_a_resume_go_instead_of_those_that_are_kept() -> None:
    run_id = begun()
    path = Path("runs") / run_id / SETTINGS
    kept = json.loads(path.read_text(encoding="utf-8"))
    kept["mocks"]["bb"] = kept["mocks"]["b"]  # edited by hand
    path.write_text(json.dumps(kept), encoding="utf-8")
    assert "mocks: no node 'bb'" in call("resume", run_id, "--trust", code=3).stderr
    Path("m.yaml").write_text(GOOD, encoding="utf-8")
    again = call("resume", run_id, "--set", "mocks=m.yaml", "--trust", "-q")
    assert again.stdout == "o: two\n"


@pytest.mark.parametrize("around", ["", "mocks:\n"])
def test_what_is_wrong_with_a_mock_names_the_mocks_file_and_line(around: str) -> None:
    indent = "  " if around else ""
    odd = "".join(f"{indent}{line}\n" for line in GOOD.replace("{text: two}", "{txet: two}").splitlines())
    Path("m.yaml").write_text(around + odd, encoding="utf-8")
    line = 3 if around else 2
    said = "the mock's output 'txet' is unknown, so b.text has no value, which node 'end' reads."
    assert f"m.yaml line {line}: node 'b': {said}" in call(*RUN, code=3).stderr
    asked = ("flow", "validate", "two.yaml", "--mocks", "m.yaml", "--model", "m", "--json")
    (fault,) = json.loads(call(*asked, code=3).stdout)["files"]["two.yaml"]
    assert (fault["path"], fault["line"], fault["severity"]) == ("m.yaml", line, "error")
    assert fault["message"].startswith(said)
    Path("m.yaml").write_text(GOOD + "bb: {outputs: {text: two}}\n", encoding="utf-8")
    assert "m.yaml line 3: mocks: no node 'bb'. Did you mean" in call(*RUN, code=3).stderr


def test_all_that_is_wrong_with_mocks_is_shown_at_once() -> None:
    Path("m.yaml").write_text("a: {delay_s: -1}\nb: text\nbb: {}\n", encoding="utf-8")
    said = call(*RUN, code=3).stderr
    assert said.splitlines()[-3:] == [
        "error: m.yaml line 1: mocks.a.delay_s: expected 0.0 or more, found -1.",
        "m.yaml line 2: mocks.b: expected keys with values below it, found 'text'. Known keys: outputs, "
        "errors, delay_s.",
        "m.yaml line 3: mocks: no node 'bb'. Did you mean 'b'? Known: start, a, b, end.",
    ]
