"""`run`, `resume`, `eval`, `init`, `doctor` as a user calls them, against a server on the loopback."""

from __future__ import annotations

import csv
import json
import re
import shlex
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from endpoint import KEY, Endpoint, write_messages
from rich.console import Console
from typer.testing import CliRunner, Result

from autoprompt.cli import app
from autoprompt.cli.run import _is_one_reader
from autoprompt.errors import Interrupted
from autoprompt.evaluation.exported import export
from autoprompt.llm.limits.fitting import FIRST_ROOM
from autoprompt.records import Candidate, Demo
from autoprompt.runs import RunStore

FLOW = """\
nodes:
  - {id: start, type: start, data: {variables: [message]}}
  - id: sort
    type: llm
    data:
      model: {name: gpt-of-the-file}
      prompt_template:
        - {role: system, text: Sort support messages.}
        - {role: user, text: "{{#start.message#}}"}
  - {id: end, type: end, data: {outputs: [{variable: priority, value_selector: [sort, text]}]}}
"""


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, endpoint: Endpoint) -> Path:
    monkeypatch.chdir(tmp_path)
    write_messages(tmp_path, endpoint.base_url, range(60))
    (tmp_path / ".env").write_text(f"OPENAI_API_KEY={KEY}\n", encoding="utf-8")
    # Set and taken away again by monkeypatch: what .env puts into the environment ends with the test.
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    return tmp_path


def call(*arguments: str, code: int = 0) -> Result:
    result = CliRunner().invoke(app, list(arguments))
    assert result.exit_code == code, result.output
    return result


def test_a_run_from_start_to_export(endpoint: Endpoint) -> None:
    result = call("run", "--config", "c.yaml")
    level = "Without a model, copying the answer of the most similar rows would score 1.00 on the"
    assert result.stdout.startswith(level)  # these rows are that easy
    assert "Confirmed: 0.50 -> 1.00 on 18 unseen rows" in result.stdout
    assert "{+ KNOWN RULE: look at what happens now.+}" in result.stdout
    assert "round 1: measuring candidates" in result.stderr
    (folder,) = (path for path in Path("runs").iterdir() if path.is_dir())
    assert f"autoprompt runs export {folder.name}" in result.stdout
    assert call("runs", "export", folder.name).stdout.endswith("KNOWN RULE: look at what happens now.\n")
    assert not [path for path in folder.iterdir() if path.is_file() and KEY.encode() in path.read_bytes()]
    sent = len(endpoint.requests)
    again = call("resume", folder.name)
    assert again.stdout == result.stdout
    assert len(endpoint.requests) == sent


def test_a_warning_is_said_once_where_one_reader_has_all_of_it(tmp_path: Path) -> None:
    said = "warning: 22 validation rows can only confirm a gain of +0.36"
    with_json = call("run", "--config", "c.yaml", "--json")
    assert with_json.stderr.count(said) == 1
    assert said in with_json.stderr.splitlines()[2]  # behind what is sent where, and the start
    apart = call("run", "--config", "c.yaml", "--seed", "2")  # stdout may go to a file of its own
    assert (apart.stderr.count(said), apart.stdout.count(said)) == (1, 1)
    with (
        (tmp_path / "a").open("w") as one,
        (tmp_path / "a").open("a") as same,
        (tmp_path / "b").open("w") as other,
    ):
        assert _is_one_reader(Console(file=one), Console(file=same))
        assert not _is_one_reader(Console(file=one), Console(file=other))


def test_json_is_the_only_thing_on_stdout() -> None:
    result = call("run", "--config", "c.yaml", "--json", "--quiet")
    data = json.loads(result.stdout)
    (sent,) = data.pop("sent_to")  # of this command, not of the run
    assert (sent["key"], sent["models"]) == ("OPENAI_API_KEY", ["m"])
    stored = json.loads((Path(data["run_dir"]) / "result.json").read_text(encoding="utf-8"))
    assert {**data, "warnings": None} == {**stored, "warnings": None}
    assert [warning["code"] for warning in data["warnings"]] == [w["code"] for w in stored["warnings"]]
    assert data["verdict"] == "confirmed"
    # Also of a quiet run: somebody may act on it before anything is spent.
    assert result.stderr.index("warning: ") < result.stderr.index("Confirmed: ")
    assert result.stderr.count("warning: 22 validation rows can only confirm a gain of +0.36") == 1
    assert json.loads(call("resume", data["run_id"], "--json").stdout) == {**data, "sent_to": []}


def test_a_quiet_run_says_at_its_start_that_the_file_names_another_model(endpoint: Endpoint) -> None:
    Path("flow.yaml").write_text(FLOW, encoding="utf-8")
    said = "warning: flow.yaml: the file names gpt-of-the-file, but every node asks m here."
    endpoint.status = 401  # nothing is answered, so there is no end that could say it
    stopped = call("run", "--config", "c.yaml", "--workflow", "flow.yaml", "-q", code=4).stderr
    assert stopped.count(said) == 1


def test_an_error_is_json_too() -> None:
    result = call("run", "--dataset", "absent.jsonl", "--json", code=3)
    error = json.loads(result.stdout)["error"]
    assert "absent.jsonl: no such file" in error["message"]
    assert "absent.jsonl: no such file" in result.stderr
    place = {"file": "absent.jsonl", "line": None, "row": None, "setting": None}
    assert {name: error[name] for name in place} == place
    assert (error["code"], error["exit_code"]) == ("dataset.not-found", 3)
    assert [problem["code"] for problem in error["problems"]] == ["dataset.not-found"]
    error = json.loads(call("run", "--no-such-flag", "--json", code=2).stdout)["error"]
    assert (error["exit_code"], error["code"], "--no-such-flag" in error["message"]) == (2, None, True)


def test_errors_of_a_row_a_setting_and_a_file_are_data(endpoint: Endpoint) -> None:
    Path("bad.csv").write_text("input,target\na,x\nb,\nc,\n", encoding="utf-8")
    of_row = json.loads(call("run", "--dataset", "bad.csv", "--prompt", "p", "--json", code=3).stdout)[
        "error"
    ]
    (problem,) = of_row["problems"]
    assert (of_row["code"], of_row["file"], of_row["line"]) == ("dataset.empty-target", "bad.csv", 3)
    assert [place["line"] for place in problem["also"]] == [4]
    of_flag = json.loads(call("run", "--dataset", "bad.csv", "--set", "max_val=0", "--json", code=2).stdout)[
        "error"
    ]
    assert (of_flag["code"], of_flag["setting"]) == ("settings.bad-value", "max_val")
    assert of_flag["message"] == "--set max_val: expected a number above 0, found 0."
    Path("run.yaml").write_text("dataset: bad.csv\nsede: 1\n", encoding="utf-8")
    of_file = json.loads(call("run", "--config", "run.yaml", "--json", code=3).stdout)["error"]
    assert (of_file["code"], of_file["file"], of_file["line"]) == ("settings.unknown", "run.yaml", 2)
    assert of_file["message"] == "run.yaml line 2: sede: unknown key. Did you mean 'seed'?"
    assert call("run", "--dataset", "absent.jsonl", code=3).stdout == ""


def test_a_dry_run_sends_nothing(endpoint: Endpoint) -> None:
    said = call("run", "--config", "c.yaml", "--dry-run").stdout
    assert "nothing was sent" in said
    assert "\nanswers: normal, urgent\n" in said
    rows = (json.dumps({"message": f"message {n}", "priority": f"id {n}"}) for n in range(60))
    Path("w.jsonl").write_text("\n".join(rows), encoding="utf-8")
    fields = ("--input-field", "message", "--target-field", "priority", "--prompt", "Sort.")
    wrong = call("run", "--config", "c.yaml", "--dataset", "w.jsonl", *fields, "--dry-run")
    assert "answers: free text, 60 different in 60 rows" in wrong.stdout
    assert json.loads(call("run", "--config", "c.yaml", "--dry-run", "--json").stdout)["sizes"]["test"] == 18
    assert endpoint.requests == []
    assert not Path("runs").exists()


def test_a_dry_evaluation_sends_nothing(endpoint: Endpoint) -> None:
    flags = ("eval", "--config", "c.yaml", "--dry-run")
    said = call(*flags, "--set", "price_input=1", "--set", "price_output=2").stdout
    assert "\nanswers: normal, urgent\nat most 60 calls (" in said
    assert said.endswith("nothing was sent\n")
    found = json.loads(call(*flags, "--against", "Which?", "--max-calls", "100", "--json").stdout)
    assert (found["rows"], found["prompts"], found["calls"], found["cost_usd"]) == (60, 2, 120, None)
    said = "--max-calls: 100 is too small: the evaluation needs 120"
    assert found["warnings"][-1]["message"].startswith(said)
    assert (found["warnings"][-1]["code"], found["warnings"][-1]["setting"]) == (
        "budget.too-few-calls",
        "max_calls",
    )
    assert endpoint.requests == []


def test_labels_that_read_the_same_are_said_wherever_they_are_enforced() -> None:
    rows = Path("t.jsonl").read_text(encoding="utf-8").splitlines()
    rows[1] = rows[1].replace('"urgent"', '"URGENT"')
    Path("t.jsonl").write_text("\n".join(rows) + "\n", encoding="utf-8")
    said = "labels that differ only in case or marks: 'URGENT', 'urgent'. Merge them if they are one label."
    asked = ("--config", "c.yaml")
    made = ("--baseline", "b.json", "--update-baseline")
    for command in (("run", "--dry-run"), ("eval", "--dry-run"), ("eval",), ("check", *made)):
        shown = call(*command, *asked)
        assert said in " ".join((shown.stdout + shown.stderr).split()), command
    assert json.loads(call("eval", *asked, "--json").stdout)["warnings"][0]["message"] == said


def test_next_steps_work_as_they_are_printed_wherever_the_run_lies() -> None:
    shown = call("run", "--config", "c.yaml", "--runs-dir", "my runs").stdout
    steps = [line.strip() for line in shown.partition("\nNext:\n")[2].splitlines()]
    assert len(steps) == 4
    for step in steps:
        call(*(word for word in shlex.split(step.replace("OTHER_ROWS", "t.jsonl"))[1:] if word != "--open"))
    (folder,) = (path for path in Path("my runs").iterdir() if path.is_dir())
    assert f"autoprompt runs export '{folder}' --to" in call("runs", "show", str(folder)).stdout
    call("report", str(folder), "-o", "r.md")
    (again,) = (line for line in Path("r.md").read_text("utf-8").splitlines() if line.startswith("Again: "))
    assert "--runs-dir" in again


def test_a_misspelt_variable_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AUTOPROMPT_MAX_CALS", "5")
    said = call("run", "--config", "c.yaml", "--dry-run").stderr
    assert (
        "warning: AUTOPROMPT_MAX_CALS: no such setting, so it is ignored. Did you mean AUTOPROMPT_MAX_CALLS?"
        in said
    )


def test_a_refused_key_ends_with_4(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-wrong-0123456789")
    result = call("run", "--config", "c.yaml", code=4)
    assert result.stderr.splitlines()[-1].startswith("error: ")
    assert "sk-wrong" not in result.output
    assert "autoprompt resume" not in result.output
    assert re.search(r"warning: Run \S+ removed: it has no answers to resume from\.\n", result.stderr)
    assert list(Path("runs").iterdir()) == []


def test_a_judge_that_gives_no_grade_ends_with_4() -> None:
    judged = ("--metric", "llm_judge", "--metric-option", "rubric=Is it right?")
    for command in ("eval", "run"):
        stderr = call(command, "--config", "c.yaml", *judged, code=4).stderr
        assert re.search(r"error: judge m: (\d+) of \1 answers have no grade; the judge replied '", stderr)
        assert ("Resume with: autoprompt resume " in stderr) is (command == "run")


def test_a_cap_that_is_too_small_is_said_before_anything_is_sent(endpoint: Endpoint) -> None:
    assert "--max-calls" in call("run", "--config", "c.yaml", "--max-calls", "5", code=3).stderr
    assert "max_calls" in call("eval", "--config", "c.yaml", "--max-calls", "5", code=3).stderr
    assert endpoint.requests == []


def test_an_evaluation_in_every_form() -> None:
    result = call("eval", "--config", "c.yaml", "-o", "r.json")
    assert result.stdout.startswith("exact_match 0.500 (95% interval 0.377 to 0.623) on 60 rows, m\n")
    assert len(json.loads(Path("r.json").read_text(encoding="utf-8"))["rows"]) == 60
    for name in ("r.jsonl", "r.csv", "r.md", "r.junit.xml"):
        call("eval", "--config", "c.yaml", "-o", name)
    assert len(Path("r.jsonl").read_text(encoding="utf-8").splitlines()) == 60
    with Path("r.csv").open(encoding="utf-8", newline="") as file:
        assert sum(row["is_correct"] == "True" for row in csv.DictReader(file)) == 30
    assert Path("r.md").read_text(encoding="utf-8").count("\n| ") == 62
    suite = ElementTree.parse("r.junit.xml").getroot()
    assert (suite.get("tests"), suite.get("failures"), suite.get("errors")) == ("60", "30", "0")
    assert json.loads(call("eval", "--config", "c.yaml", "--json").stdout)["score"] == 0.5


def test_a_file_that_cannot_be_written_is_said_before_anything_is_sent(endpoint: Endpoint) -> None:
    for name in ("typo/r.json", "c.yaml/r.json"):
        result = call("eval", "--config", "c.yaml", "-o", name, code=3)
        assert result.stderr.startswith(f"error: {name}: ")
    assert (endpoint.requests, Path("typo").exists()) == ([], False)


@pytest.mark.parametrize("command", ["eval", "run", "check"])
def test_what_a_metric_of_ones_own_prints_does_not_mix_with_json(
    command: str, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = "def f(answer, row):\n    print('looking at', row.target)\n    return answer == row.target\n"
    (here / "loud_metric.py").write_text(code, encoding="utf-8")
    monkeypatch.syspath_prepend(str(here))
    given = (command, "--config", "c.yaml", "--metric", "python:loud_metric:f", "--json")
    found = call(*given, *(["--baseline", "b.json", "--update-baseline"] if command == "check" else []))
    assert isinstance(json.loads(found.stdout), dict)
    assert "looking at urgent" in found.stderr


def test_the_best_prompt_of_a_run_is_scored_as_it_is(endpoint: Endpoint) -> None:
    told = "@home: sort support messages. KNOWN RULE: look at what happens now."
    config = Path("c.yaml").read_text(encoding="utf-8")
    Path("prompt.txt").write_text(told, encoding="utf-8")
    call("run", "--config", "c.yaml", "--prompt", "@prompt.txt", "--set", "max_iterations=1")
    (run,) = (path.name for path in Path("runs").iterdir() if path.is_dir())
    assert json.loads((Path("runs") / run / "result.json").read_text(encoding="utf-8"))["best"]["is_original"]
    Path("c.yaml").write_text(f"{config}locked: ['@home: sort']\n", encoding="utf-8")
    assert "exact_match 1.000" in call("eval", "--config", "c.yaml", "--from", run).stdout
    sent = len(endpoint.requests)
    refused = call("eval", "--config", "c.yaml", "--from", run, "--prompt", "Another.", code=2)
    assert "--from: cannot be combined with --prompt" in refused.stderr
    lines = [line for line in config.splitlines() if not line.startswith("prompt")]
    Path("d.yaml").write_text("\n".join([*lines, "program: desk:answer"]), encoding="utf-8")
    refused = call("eval", "--config", "d.yaml", "--from", run, code=2)
    place = f"d.yaml line {len(lines) + 1}: program"
    assert refused.stderr == f"error: {place}: cannot be combined with --from. Give one of them.\n"
    assert len(endpoint.requests) == sent


def original_of(run: str) -> str:
    result = json.loads((Path("runs") / run / "result.json").read_text(encoding="utf-8"))
    return str(result["original"]["components"]["prompt"])


def test_a_run_starts_from_a_prompt_that_autoprompt_made(endpoint: Endpoint) -> None:
    told = "@home: sort support messages. KNOWN RULE: look at what happens now."
    Path("prompt.txt").write_text(told, encoding="utf-8")
    call("run", "--config", "c.yaml", "--prompt", "@prompt.txt", "--set", "max_iterations=1")
    demo = Demo("A lamp is out.", "normal")
    candidate = Candidate({"prompt": "Sort into urgent and normal."}, demos=(demo,))
    labels = ("normal", "spam", "urgent")  # one more than the rows have
    Path("best.yaml").write_text(export(candidate, "yaml", labels=labels), encoding="utf-8")
    from_run = call(
        "run", "--config", "c.yaml", "--from", "last:original", "--set", "max_iterations=1", "--json"
    )
    assert original_of(json.loads(from_run.stdout)["run_id"]) == told
    assert "note: " not in from_run.stderr
    from_file = call(
        "run", "--config", "c.yaml", "--from", "best.yaml", "--set", "max_iterations=1", "--json"
    )
    started = json.loads(from_file.stdout)["run_id"]
    assert original_of(started) == "Sort into urgent and normal."
    assert RunStore(Path("runs")).open(started).read_labels() == labels
    assert "its 1 demonstration is left out" in from_file.stderr
    sent = len(endpoint.requests)
    refused = call("run", "--config", "c.yaml", "--from", "last", "--prompt", "Another.", code=2)
    assert "--from: cannot be combined with --prompt" in refused.stderr
    assert "no run 'gone'" in call("run", "--config", "c.yaml", "--from", "gone", code=3).stderr
    assert len(endpoint.requests) == sent


def test_the_run_of_a_workflow_is_no_prompt_to_start_from(endpoint: Endpoint) -> None:
    folder = RunStore(Path("runs")).create({"workflow": Path("flow.yaml")})
    refused = call("run", "--config", "c.yaml", "--from", f"{folder.run_id}:original", code=3)
    assert f"run {folder.run_id} optimized a workflow, not one prompt" in refused.stderr
    assert not endpoint.requests


def test_an_exported_prompt_is_scored_as_its_run_s_is(endpoint: Endpoint) -> None:
    call("run", "--config", "c.yaml", "--set", "max_iterations=1")
    call("runs", "export", "last", "--to", "best.yaml")
    of_run = json.loads(call("eval", "--config", "c.yaml", "--from", "last", "--json").stdout)
    assert of_run["score"] == 1.0
    sent = len(endpoint.requests)
    found = json.loads(call("eval", "--config", "c.yaml", "--from", "best.yaml", "--json").stdout)
    assert [row["score"] for row in found["rows"]] == [row["score"] for row in of_run["rows"]]
    assert len(endpoint.requests) == sent  # out of the cache: the same requests

    config = Path("c.yaml").read_text(encoding="utf-8")
    Path("d.yaml").write_text(f"{config}exported: best.yaml\n", encoding="utf-8")
    assert "exact_match 1.000" in call("eval", "--config", "d.yaml").stdout
    assert "exact_match 0.500" in call("eval", "--config", "d.yaml", "--prompt", "Sort messages.").stdout
    assert "exact_match 1.000" in call("eval", "--config", "d.yaml", "--from", "last").stdout
    call("run", "--config", "d.yaml", code=3)


def test_an_export_names_the_field_of_the_input_where_nothing_else_does(endpoint: Endpoint) -> None:
    best = export(Candidate({"prompt": "Sort."}), "yaml", input_field="body", labels=["urgent", "normal"])
    Path("best.yaml").write_text(best, encoding="utf-8")
    rows = [{"body": f"message {n}", "other": f"another {n}", "target": "urgent"} for n in range(4)]
    Path("new.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    model = ("--model", "m", "--base-url", endpoint.base_url, "--dataset", "new.jsonl")
    asked = ("eval", "--from", "best.yaml", *model, "--json")

    def inputs(*flags: str) -> list[str]:
        return [row["input"] for row in json.loads(call(*asked, *flags).stdout)["rows"]]

    assert inputs() == [row["body"] for row in rows]
    assert inputs("--input-field", "other") == [row["other"] for row in rows]
    Path("new.task.yaml").write_text("input_field: other\n", encoding="utf-8")
    assert inputs() == [row["other"] for row in rows]


def test_an_export_that_was_found_for_another_model_is_warned_of(endpoint: Endpoint) -> None:
    for model, is_other in (("m", False), ("other", True)):
        best = export(Candidate({"prompt": "Sort."}), "yaml", model=model)
        Path("best.yaml").write_text(best, encoding="utf-8")
        said = call("eval", "--config", "c.yaml", "--from", "best.yaml", "--dry-run").stderr
        assert ("best.yaml was optimized for other, but the model is m" in said) is is_other
    assert endpoint.requests == []


@pytest.mark.parametrize("error", [KeyboardInterrupt(), Interrupted("interrupted")])
def test_an_interrupted_evaluation_says_what_is_kept(
    error: BaseException, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A plain prompt and a workflow end otherwise: the engine makes the second of the first."""

    def stopped(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr("autoprompt.evaluation.scoring.evaluate", stopped)
    said = call("eval", "--config", "c.yaml", code=130).stderr
    assert "interrupted; the answers so far are cached, so the same command does not request" in said
    said = call("eval", "--config", "c.yaml", "--no-cache", code=130).stderr
    assert "interrupted; without the cache, the same command starts from the beginning" in said


def test_a_candidates_name_is_no_prompt_to_compare_with() -> None:
    for name in ("best", "b50670"):
        refused = call("eval", "--config", "c.yaml", "--prompt", "Sort.", "--against", name, code=2)
        assert f"--against: {name} names a candidate of a run. Add the run: --from RUN" in refused.stderr
    call("run", "--config", "c.yaml", "--set", "max_iterations=1")
    asked = ("eval", "--config", "c.yaml", "--from", "last", "--against")
    assert "has no candidate 'b50670'" in call(*asked, "b50670", code=3).stderr
    for name in ("bets", "prompts/new.txt"):
        assert f"--against: {name} is neither a candidate" in call(*asked, name, code=2).stderr
    asked = ("eval", "--config", "c.yaml", "--prompt", "Sort.", "--json", "--against")
    call("runs", "export", "last:original", "--to", "old.yaml")
    run = RunStore(Path("runs")).open("last")
    text = run.find_candidate("original")["components"]["prompt"]
    expected, other = (
        json.loads(call(*asked, what).stdout)["against"]
        for what in (text, "Sort support messages. KNOWN RULE: look at what happens now.")
    )
    assert expected["rows"] != other["rows"]
    for name in ("last:original", f"{run.run_id}:original", f"{run.path}:original", "old.yaml", "@old.yaml"):
        found = json.loads(call(*asked, name).stdout)["against"]
        assert found["rows"] == expected["rows"], name
    assert "has no candidate 'zzz'" in call(*asked, "last:zzz", code=3).stderr
    assert "against" in call(*asked, "Sort ").stdout


def test_an_evaluation_says_whose_price_is_missing(
    endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(endpoint, "answer", lambda body: "Grade: 5")
    prices = ("--set", "price_input=1", "--set", "price_output=4")
    judged = ("--metric", "llm_judge", "--set", "judge_model=j", "--set", "metric_options={rubric: Right?}")
    told = call("eval", "--config", "c.yaml", *prices, *judged).stdout
    assert "The price of the judge is not known, so neither is the cost." in told
    assert "price_input" not in told
    assert "The price of" not in call("eval", "--config", "c.yaml", *prices).stdout


def test_two_prompts_are_compared_row_by_row(endpoint: Endpoint) -> None:
    """Their scores, the gain with its interval and the paired test, in every form."""
    knows = "Sort support messages. KNOWN RULE: look at what happens now."
    against = ("eval", "--config", "c.yaml", "--prompt", knows, "--against")
    told = call(*against, "Sort messages.").stdout
    assert told.startswith("exact_match 1.000 (95% interval 0.940 to 1.000) on 60 rows, m\n")
    assert re.search(r"\nFixed: 30 rows, the first 8\nexpected +against +prompt +input *\n", told)
    assert re.search(r"\nurgent +normal +urgent +It burns now \(\d+\)", told)
    assert "The price of m is not known. Set it once" in told
    assert "against: exact_match 0.500 (95% interval 0.377 to 0.623)" in told
    assert "gain +0.500 (95% interval" in told
    assert "30 rows better and 0 worse, p < 0.00001 (paired, two-sided): better than the other" in told
    assert len(endpoint.requests) == 120

    Path("old.txt").write_text("Sort messages.\n", encoding="utf-8")
    found = json.loads(call(*against, "@old.txt", "--json").stdout)["against"]
    assert (found["score"], found["gain"]["value"], found["fixed"], found["broken"]) == (0.5, 0.5, 30, 0)
    assert [row["score"] for row in found["rows"]].count(0.0) == 30
    call(*against, "@old.txt", "-o", "r.csv")
    with Path("r.csv").open(encoding="utf-8", newline="") as file:
        assert sum(row["against_score"] == "0.0" for row in csv.DictReader(file)) == 30
    call(*against, "@old.txt", "-o", "r.md")
    assert "gain +0.500" in Path("r.md").read_text(encoding="utf-8")

    best = export(Candidate({"prompt": knows}), "yaml", labels=["normal", "urgent"])
    Path("best.yaml").write_text(best, encoding="utf-8")
    same = call(*against, "@best.yaml").stdout
    assert "gain +0.000" in same
    assert "no difference beyond chance" in same
    assert len(endpoint.requests) == 120  # all the rest out of the cache
    refused = call(*against, "@none.txt", code=3).stderr
    assert "--against: none.txt cannot be read" in refused
    ended = json.loads(call(*against, "Sort them.", "--max-calls", "100", "--json", code=3).stdout)["error"]
    assert (ended["code"], ended["setting"]) == ("budget.too-small-for-rows", "max_calls")
    assert ended["message"].startswith("--max-calls: too small to score every row (max_calls=100 reached")
    assert len(endpoint.requests) == 120


def test_a_runs_best_is_compared_with_its_own_candidates(endpoint: Endpoint) -> None:
    call("run", "--config", "c.yaml", "--set", "max_iterations=1")
    (run,) = RunStore(Path("runs")).list()
    original = next(iter(RunStore(Path("runs")).open(run.run_id).read_candidates().values()))
    against = ("eval", "--config", "c.yaml", "--from", "last", "--json", "--against")
    text = original["components"]["prompt"]
    expected, other = (json.loads(call(*against, what).stdout)["against"] for what in (text, "or nothing"))
    for name in ("original", original["id"]):
        assert json.loads(call(*against, name).stdout)["against"]["rows"] == expected["rows"]
    assert json.loads(call(*against, "best").stdout)["against"]["gain"]["value"] == 0
    sent = [request for request in endpoint.requests if "original" in str(request)]
    assert (sent, len(other["rows"])) == ([], 60)


def test_a_prompt_of_several_fields_is_shown_demonstrations_with_them(
    endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    def answer(body: dict[str, Any]) -> str:
        messages = body["messages"]
        if not messages[-1]["content"].startswith("Ask: "):
            return "The two differ."
        said = re.fullmatch(r"Ask: \w+ (\d+)\nSay: \w+ (\d+)", messages[-1]["content"])
        assert said is not None
        is_shown = any(message["role"] == "assistant" for message in messages)
        return "yes" if said[1] == said[2] and is_shown else "no"

    monkeypatch.setattr(endpoint, "answer", answer)
    rows = [(f"asked {n}", f"said {n if n % 2 else n + 1}", "yes" if n % 2 else "no") for n in range(60)]
    with Path("pairs.csv").open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([("question", "reply", "target"), *rows])
    prompt = "Do they agree?\nAsk: {question}\nSay: {reply}"
    run = ("run", "--config", "c.yaml", "--dataset", "pairs.csv", "--prompt", prompt, "--max-demos", "8")
    result = json.loads(call(*run, "--json").stdout)
    demos = result["best"]["demos"]
    assert (result["verdict"], 0 < len(demos) <= 8) == ("confirmed", True)
    first = demos[0]
    assert first["input"] == f"question: {first['fields']['question']}\nreply: {first['fields']['reply']}"
    turns = json.loads(call("runs", "export", "last", "--format", "openai").stdout)
    assert turns[1]["content"] == f"Ask: {first['fields']['question']}\nSay: {first['fields']['reply']}"
    assert turns[-1] == {"role": "user", "content": "Ask: {question}\nSay: {reply}"}
    call("runs", "export", "last", "--to", "best.yaml")
    scored = ("eval", "--config", "c.yaml", "--dataset", "pairs.csv", "--json")
    for how in (("--from", "last"), ("--from", "best.yaml")):
        assert json.loads(call(*scored, *how).stdout)["score"] == 1


def test_an_exported_prompt_is_the_only_prompt(endpoint: Endpoint) -> None:
    best = export(Candidate({"prompt": "Sort."}, (Demo("a", "urgent"),)), "yaml", labels=["normal", "later"])
    Path("best.yaml").write_text(best, encoding="utf-8")
    exported = ("eval", "--config", "c.yaml", "--from", "best.yaml")
    Path("w.yaml").write_text("nodes: []\n", encoding="utf-8")
    assert ": cannot be combined with --" in call(*exported, "--prompt", "x", code=2).stderr
    assert (
        "cannot be combined with a single prompt, found w.yaml"
        in call(*exported, "--workflow", "w.yaml", code=3).stderr
    )
    said = call(*exported, code=3).stderr
    assert "'urgent' is none of the labels of best.yaml: 'normal', 'later'" in said
    Path("best.yaml").write_text(export(Candidate({"a": "x", "b": "y"}), "yaml"), encoding="utf-8")
    said = call(*exported, code=3).stderr
    assert "best.yaml: expected one prompt, found the prompts of a workflow (a, b)" in said
    assert "give it as --workflow flow.yaml" in said
    Path("d.yaml").write_text("prompt: x\nexported: best.yaml\ndataset: t.jsonl\n", encoding="utf-8")
    assert "cannot be combined with" in call("eval", "--config", "d.yaml", code=3).stderr
    assert endpoint.requests == []


def test_a_run_s_prices_are_those_of_its_model() -> None:
    prices = ("--set", "price_input=1", "--set", "price_output=2")
    call("run", "--config", "c.yaml", "--set", "max_iterations=1", "--no-cache", *prices)
    evaluation = ("eval", "--config", "c.yaml", "--from", "last", "--no-cache", "--json")
    found = json.loads(call(*evaluation).stdout)
    paid = (found["prompt_tokens"] + 2 * found["completion_tokens"]) / 1e6
    assert found["cost_usd"] == pytest.approx(paid)
    assert json.loads(call(*evaluation, "--model", "m").stdout)["cost_usd"] is None


def test_a_run_is_scored_by_its_own_judge_and_with_its_own_options(
    endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    def answer(body: dict[str, Any]) -> str:
        return (
            '{"score": 4, "reason": "so so"}'
            if body["model"] == "grader"
            else Endpoint.answer(endpoint, body)
        )

    monkeypatch.setattr(endpoint, "answer", answer)
    judged = ("--metric", "llm_judge", "--metric-option", "rubric=Is it kind?", "--set", "judge_model=grader")
    options = ("--set", "temperature=0.25", "--max-output-tokens", "77")
    call("run", "--config", "c.yaml", "--set", "max_iterations=1", *judged, *options)

    def scored(*flags: str) -> list[tuple[str, float, int]]:
        sent = len(endpoint.requests)
        call("eval", "--config", "c.yaml", "--from", "last", "--no-cache", "--concurrency", "1", *flags)
        asked = endpoint.requests[sent:]
        limits = {
            body["model"]: body["max_tokens"] for body in asked
        }  # the grader's first have room to think
        return sorted({(body["model"], body["temperature"], limits[body["model"]]) for body in asked})

    assert scored() == [("grader", 0.0, 300), ("m", 0.25, 77)]
    assert scored("--model", "other") == [("grader", 0.0, 300), ("other", 0.25, 77)]
    # By a flag, another is asked, which does not grade here.
    assert (
        "judge m: 10 of 10"
        in call("eval", "--from", "last", "--config", "c.yaml", "--judge-model", "m", code=4).stderr
    )


def test_the_embedded_model_has_no_endpoint(endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AUTOPROMPT_MODEL", "local")
    config = Path("c.yaml").read_text(encoding="utf-8")
    Path("d.yaml").write_text(config.replace("model: m\n", ""), encoding="utf-8")
    for command in (("run",), ("run", "--dry-run"), ("eval",)):
        said = call(*command, "--config", "d.yaml", code=2).stderr
        assert f"'local' is a local model, but {endpoint.base_url} is an endpoint" in said
    assert (endpoint.requests, Path("runs").exists()) == ([], False)


def test_a_run_at_an_endpoint_is_scored_with_the_embedded_model() -> None:
    call("run", "--config", "c.yaml", "--set", "max_iterations=1")
    found = CliRunner().invoke(
        app, ["eval", "--from", "last", "--dataset", "t.jsonl", "--model", "local:none"]
    )
    # There is no such model, or no runtime for one; the run's own address is not held against it.
    assert "'none'" in found.stderr or "embedded runtime is not installed" in found.stderr


def test_any_candidate_of_a_run_is_scored_and_rows_of_the_search_are_no_proof() -> None:
    call("run", "--config", "c.yaml", "--set", "max_iterations=1")
    shown = json.loads(call("runs", "show", "last", "--json").stdout)
    other = next(c for c in shown["candidates"] if c["id"] != shown["result"]["best"]["id"])
    scored = call("eval", "--config", "c.yaml", "--from", f"last:{other['id'][:8]}", "--json")
    (warning, *_) = json.loads(scored.stdout)["warnings"]
    # 60 rows: the 18 sealed ones have not been looked at.
    known = re.fullmatch(r"run .* has already seen (\d+) of the 60 rows, .*", warning["message"])
    assert known is not None
    assert int(known[1]) <= 42
    assert f"warning: {warning['message']}" in " ".join(scored.stderr.split())
    asked = ("eval", "--config", "c.yaml", "--from", f"last:{other['id']}")
    assert json.loads(call(*asked, "--dry-run", "--json").stdout)["warnings"] == [warning]
    best = call("eval", "--config", "c.yaml", "--from", "last:best", "--json")
    original = call("eval", "--config", "c.yaml", "--from", "last:original", "--json")
    assert json.loads(best.stdout)["score"] > json.loads(original.stdout)["score"]


def test_an_unknown_ending_is_said_before_anything_is_sent(endpoint: Endpoint) -> None:
    assert "junit.xml" in call("eval", "--config", "c.yaml", "-o", "r.xlsx", code=2).stderr
    assert endpoint.requests == []


def test_the_starter_folder_runs_as_it_is_and_is_never_overwritten(endpoint: Endpoint) -> None:
    call("init", "start")
    config = Path("start/autoprompt.yaml")
    config.write_text("mine: 1\n", encoding="utf-8")
    assert "kept     start/autoprompt.yaml" in call("init", "start").stdout
    assert config.read_text(encoding="utf-8") == "mine: 1\n"
    config.unlink()
    call("init", "start")
    assert "10 train, 7 val, 7 test" in call("run", "--config", str(config), "--dry-run").stdout


def test_doctor_without_an_endpoint_never_shows_a_key(
    monkeypatch: pytest.MonkeyPatch, endpoint: Endpoint
) -> None:
    result = call("doctor", "--model", "m", "--base-url", endpoint.base_url)
    assert f"{endpoint.base_url}: HTTP 200" in result.stdout
    assert "OPENAI_API_KEY is set" in result.stdout
    assert KEY not in result.output
    monkeypatch.setenv("OPENAI_API_KEY", "sk-wrong-0123456789")
    refused = call("doctor", "--model", "m", "--base-url", endpoint.base_url, code=4)
    assert "Missing or refused: check OPENAI_API_KEY" in refused.stdout


def test_doctor_says_that_nothing_listens() -> None:
    checks = json.loads(call("doctor", "--base-url", "http://127.0.0.1:9/v1", "--json", code=4).stdout)
    (failed,) = (check for check in checks["checks"] if check["is_needed"] and not check["is_ok"])
    assert failed["name"] == "endpoint"
    assert not checks["works"]


def test_a_run_takes_its_labels_to_other_rows(endpoint: Endpoint) -> None:
    call("run", "--config", "c.yaml", "--set", "max_iterations=1")
    urgent = [row for row in Path("t.jsonl").read_text(encoding="utf-8").splitlines() if "urgent" in row]
    Path("urgent.jsonl").write_text("\n".join(urgent), encoding="utf-8")
    evaluation = ("eval", "--config", "c.yaml", "--from", "last", "--dataset", "urgent.jsonl")
    fields = ("--input-field", "message", "--target-field", "priority")
    assert "on 30 rows" in call(*evaluation, *fields).stdout
    refused = call(*evaluation, *fields, "--labels", "normal,later", code=3)
    assert "target 'urgent' is none of the labels: 'normal', 'later'. Correct" in refused.stderr
    Path("other.jsonl").write_text('{"message": "Hm", "priority": "later"}', encoding="utf-8")
    refused = call(*evaluation[:-1], "other.jsonl", *fields, code=3)
    assert re.search(
        r"'later' is none of the labels of run \d{8}\S+: 'normal', 'urgent'\. Correct", refused.stderr
    )
    Path("other.task.yaml").write_text("labels: [normal, urgent, later]", encoding="utf-8")
    assert "on 1 row," in call(*evaluation[:-1], "other.jsonl", *fields).stdout  # the user's own go first


def test_a_run_with_free_answers_leaves_other_rows_free(endpoint: Endpoint) -> None:
    free = [{"message": f"m{n}", "priority": f"p{n}"} for n in range(60)]
    Path("free.jsonl").write_text("\n".join(map(json.dumps, free)), encoding="utf-8")
    fields = ("--input-field", "message", "--target-field", "priority", "--prompt", "Sort.")
    call("run", "--config", "c.yaml", "--dataset", "free.jsonl", *fields, "--set", "max_iterations=1")
    few = [{"message": f"n{n}", "priority": "ab"[n % 2]} for n in range(8)]
    Path("few.jsonl").write_text("\n".join(map(json.dumps, few)), encoding="utf-8")
    sent = len(endpoint.requests)
    call("eval", "--config", "c.yaml", "--from", "last", "--dataset", "few.jsonl", *fields[:4])
    assert {request["max_tokens"] for request in endpoint.requests[sent:]} == {1024 + FIRST_ROOM}
