"""`autoprompt check` as CI calls it, against a server on the loopback: exit codes and files."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from endpoint import KEY, Endpoint
from junitparser import JUnitXml
from pytest_socket import disable_socket, enable_socket
from typer.testing import CliRunner, Result

from autoprompt.cli import app

GOOD, BAD = "Sort. KNOWN RULE: look at what happens now.", "Sort."
BASELINE = Path("baselines/t.json")


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, endpoint: Endpoint) -> Path:
    monkeypatch.chdir(tmp_path)
    BASELINE.parent.mkdir()
    rows = [
        {
            "message": f"{'It burns now' if n % 2 else 'Some day, 标题'} ({n})",
            "priority": "urgent" if n % 2 else "normal",
        }
        for n in range(40)
    ]
    Path("t.jsonl").write_text(
        "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8"
    )
    Path("t.task.yaml").write_text("input_field: message\ntarget_field: priority\n", encoding="utf-8")
    Path("good.txt").write_text(GOOD, encoding="utf-8")
    Path("ci.yaml").write_text(
        f"dataset: t.jsonl\nprompt: '@good.txt'\nmodel: m\nbase_url: {endpoint.base_url}\n"
        "baseline: baselines/t.json\nmax_drop: 0.02\nno_cache: true\n",
        encoding="utf-8",
    )
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    for name in ("GITHUB_STEP_SUMMARY", "GITHUB_WORKSPACE"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


def check(*arguments: str, code: int = 0) -> Result:
    result = CliRunner().invoke(app, ["check", "--config", "ci.yaml", *arguments])
    assert result.exit_code == code, result.output
    return result


def test_from_the_first_baseline_to_a_regression(endpoint: Endpoint) -> None:
    first = check("--update-baseline")
    assert first.stdout.startswith("New baseline: exact_match 1.000 on 40 cases\n")
    assert "written: baselines/t.json (40 cases); keep it in git" in first.stdout
    same = check()
    assert same.stdout.startswith("Passed: exact_match 1.000 against 1.000 in the baseline on 40 cases")
    before = BASELINE.read_bytes()
    worse = check("--prompt", BAD, code=1)
    assert worse.stdout.startswith(
        "Failed: exact_match fell from 1.000 to 0.500 on 40 cases: 20 broke, 0 were"
    )
    assert "note: the prompt has changed since the baseline of" in worse.stdout
    assert "It burns now (1)" in worse.stdout
    assert worse.stderr.endswith("run with --update-baseline and commit the baseline.\n")
    assert BASELINE.read_bytes() == before
    assert KEY not in BASELINE.read_text(encoding="utf-8")


def test_an_update_shows_what_changes_and_ends_with_0() -> None:
    check("--update-baseline")
    result = check("--prompt", BAD, "--update-baseline")
    assert result.stdout.startswith(
        "The baseline changes: exact_match 1.000 -> 0.500 on 40 common cases; 20 broke, 0 were "
        "fixed, 0 are new"
    )
    assert "As a check this would have failed: exact_match fell" in result.stdout
    assert result.stdout.index("It burns now (1)") < result.stdout.index("written: baselines/t.json")
    assert json.loads(BASELINE.read_text(encoding="utf-8"))["score"] == 0.5
    check("--prompt", BAD)
    more = check("--prompt", BAD, "--update-baseline", "--repeat", "2")
    assert "note: the baseline has 1 answer for each case, this check 2; it compares as many" in more.stdout
    again = check("--prompt", BAD, "--update-baseline")
    assert "baselines/t.json is up to date: nothing written" in again.stdout


def test_an_update_says_what_the_new_baseline_lacks(endpoint: Endpoint) -> None:
    check("--update-baseline")
    endpoint.lost = "(39)"
    # Few calls are left to ask again with, so no test waits long for that; they are those of other rows.
    said = " ".join(check("--update-baseline", "--max-calls", "40").stdout.split())
    lacking = re.search(r"0 are gone; (\d) got no answer and (?:is|are) not in the new one", said)
    assert lacking is not None
    assert f"written: baselines/t.json ({40 - int(lacking[1])} cases)" in said


def test_usage_faults_end_with_2(endpoint: Endpoint) -> None:
    check("--update-baseline")
    sent = len(endpoint.requests)
    assert "--max-drop: expected 1.0 or less, found 2.0" in check("--max-drop", "2", code=2).stderr
    assert "Use one of .md, .json." in check("-o", "report.docx", code=2).stderr
    assert "No such option" in check("--max-dorp", "2", code=2).stderr
    Path("ci.yaml").write_text("dataset: t.jsonl\nprompt: p\n", encoding="utf-8")
    assert "no baseline file. Give --baseline FILE" in check(code=2).stderr
    assert len(endpoint.requests) == sent


def test_input_faults_end_with_3(endpoint: Endpoint) -> None:
    assert "no such baseline. Create it with --update-baseline" in check(code=3).stderr
    check("--update-baseline")
    sent = len(endpoint.requests)
    assert "--repeat: expected 1, as baselines/t.json has 1 answer" in check("--repeat", "3", code=3).stderr
    assert (
        "--must-pass: 'nothing' is not the id or the input" in check("--must-pass", "nothing", code=3).stderr
    )
    assert "cannot be written" in check("--junit", "t.jsonl/x.xml", code=3).stderr
    text = BASELINE.read_text(encoding="utf-8")
    BASELINE.write_text(text.replace('"schema_version": 1', '"schema_version": 7'), encoding="utf-8")
    assert "(format 7; this one reads 1). Use that version" in check(code=3).stderr
    BASELINE.write_text(f"<<<<<<< HEAD\n{text}=======\n{text}>>>>>>> x\n", encoding="utf-8")
    assert "baselines/t.json line 1: '<<<<<<<' is a conflict marker of git" in check(code=3).stderr
    BASELINE.write_text(text, encoding="utf-8")
    assert (
        "--prompt: cannot be combined with --from"
        in check("--prompt", "p", "--from", "e.yaml", code=2).stderr
    )
    said = check("--record", "a.jsonl", "--replay", "b.jsonl", code=2).stderr
    assert "--record: cannot be combined with --replay. Give one of them." in said
    assert "--metric: unknown metric 'exact'. Did you mean" in check("--metric", "exact", code=2).stderr
    Path("ci.yaml").write_text("baselin: b.json\n", encoding="utf-8")
    assert "ci.yaml line 1: baselin: unknown key. Did you mean 'baseline'?" in check(code=3).stderr
    assert len(endpoint.requests) == sent


def test_a_dead_endpoint_ends_with_4_and_writes_nothing(endpoint: Endpoint) -> None:
    check("--update-baseline")
    before = BASELINE.read_bytes()
    endpoint.status = 404
    result = check("--junit", "j.xml", code=4)
    assert result.stderr.splitlines()[-1].startswith("error: ")
    assert "Failed" not in result.output
    told = check("--github", code=4).stdout
    assert told.startswith("::error title=Prompt check could not be made::")
    check("--update-baseline", code=4)
    assert BASELINE.read_bytes() == before
    assert not Path("j.xml").exists()


def test_every_file_is_written_pass_or_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    check("--update-baseline")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", "summary.md")
    monkeypatch.setenv("GITHUB_WORKSPACE", str(Path.cwd()))
    Path("out").mkdir()
    files = ("--junit", "out/j.xml", "-o", "out/r.md", "--github")
    result = check("--prompt", BAD, *files, code=1)
    suite = JUnitXml.fromfile("out/j.xml")
    assert (suite.tests, suite.failures) == (40, 20)
    assert "标题" in Path("out/j.xml").read_text(encoding="utf-8")
    markdown = Path("out/r.md").read_text(encoding="utf-8")
    assert markdown.startswith("### ❌ Prompt check: t.jsonl\n")
    assert Path("summary.md").read_text(encoding="utf-8") == markdown + "\n"
    lines = result.stdout.splitlines()
    assert lines[0].startswith("::stop-commands::")
    end = lines.index(f"::{lines[0].rpartition(':')[2]}::")
    commands = lines[end + 1 :]
    assert len(commands) == 10
    assert commands[0].startswith("::error title=Prompt check::Failed: exact_match fell from 1.000 to 0.500")
    assert commands[1].startswith("::error file=t.jsonl,line=2,title=Prompt check%3A row ")
    assert "::expected urgent, got normal (was 1, is 0): It burns now (1)" in commands[1]
    passed = check(*files)
    assert "::notice title=Prompt check::Passed" in passed.stdout
    assert JUnitXml.fromfile("out/j.xml").failures == 0


def test_github_without_a_summary_says_that_none_is_written(monkeypatch: pytest.MonkeyPatch) -> None:
    check("--update-baseline")
    assert "GITHUB_STEP_SUMMARY is not set" in check("--github").stderr
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", "none/summary.md")
    said = "warning: no summary written: cannot write GITHUB_STEP_SUMMARY=none/summary.md (No such file"
    assert said in check("--github").stderr
    assert said in check("--github", "--prompt", BAD, code=1).stderr


def test_json_is_the_only_thing_on_stdout() -> None:
    check("--update-baseline")
    result = check("--prompt", BAD, "--json", "--quiet", "--github", "-o", "r.json", code=1)
    data = json.loads(result.stdout)
    assert (data["passed"], data["comparison"]["broken"], data["n"]) == (False, 20, 40)
    del data["sent_to"]  # of this call alone
    assert json.loads(Path("r.json").read_text(encoding="utf-8")) == data
    assert "Failed: " in result.stderr


def test_a_row_that_must_pass_is_named_by_its_input() -> None:
    check("--prompt", BAD, "--update-baseline")
    check("--prompt", BAD, "--must-pass", "Some day, 标题 (2)")
    result = check("--prompt", BAD, "--must-pass", "It burns now (3)", code=1)
    assert result.stdout.startswith("Failed: a case that must pass failed: ")
    assert "must pass" in result.stdout


def test_a_score_under_the_least_ends_with_1() -> None:
    check("--prompt", BAD, "--update-baseline")
    result = check("--prompt", BAD, "--min-score", "0.6", code=1)
    assert result.stdout.startswith("Failed: exact_match is 0.500, below min_score=0.6\n")


def test_a_replay_sends_nothing_whatever_the_config_names(endpoint: Endpoint) -> None:
    check("--update-baseline", "--record", "answers.jsonl")
    sent = len(endpoint.requests)
    with Path("ci.yaml").open("a", encoding="utf-8") as file:
        file.write("replay: answers.jsonl\n")
    disable_socket()
    try:
        result = check()
    finally:
        enable_socket()
    assert result.stdout.startswith("Passed: ")
    assert "0 calls, " in result.stdout
    assert "no answer was recorded for" in check("--prompt", BAD, code=3).stderr
    assert len(endpoint.requests) == sent
    check("--record", "answers.jsonl")  # the flag outdoes the file's replay
    assert len(endpoint.requests) == sent + 40


def test_settings_may_be_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    check("--update-baseline")
    monkeypatch.setenv("AUTOPROMPT_MIN_SCORE", "1")
    monkeypatch.setenv("AUTOPROMPT_MUST_PASS", "Some day, 标题 (0)\nSome day, 标题 (2)")
    data = json.loads(check("--json", "--quiet").stdout)
    assert (data["limits"]["min_score"], len(data["limits"]["must_pass"])) == (1.0, 2)
    monkeypatch.setenv("AUTOPROMPT_MIN_SCORE", "x")
    assert "AUTOPROMPT_MIN_SCORE: expected a number, found 'x'" in check(code=3).stderr
