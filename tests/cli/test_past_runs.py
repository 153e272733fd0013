"""`runs`, `memory`, `cache`, `models`: what they say of real files."""

from __future__ import annotations

import io
import json
import os
import re
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml
from run_folders import real_run, row
from typer.testing import CliRunner, Result

from autoprompt.cli import app, options
from autoprompt.errors import StoreError
from autoprompt.llm.client import Completion
from autoprompt.llm.kept.cache import ResponseCache
from autoprompt.llm.prices import Cost
from autoprompt.memory import Experience, ExperienceFile
from autoprompt.memory.text import HEADER
from autoprompt.records import Candidate, Change
from autoprompt.runs import RunFolder, RunStore


def call(*arguments: str, code: int = 0, columns: int = 140, **more: Any) -> Result:
    result = CliRunner().invoke(app, list(arguments), env={"COLUMNS": str(columns)}, **more)
    assert result.exit_code == code, result.output
    return result


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def finished(prompt: str, demos: int = 0) -> RunFolder:
    folder = RunStore(Path("runs")).create(
        {"dataset": Path("heads.jsonl"), "model": "local", "prompt": "Say 1 or 0."}
    )
    original = {
        "id": "aaaaaaaaaaaa",
        "operator": "original",
        "iteration": 0,
        "components": {"prompt": "Say 1 or 0."},
    }
    side = {"score": 0.5, "ci95": [0.4, 0.6], "n": 10, "tokens_per_call": 20.0}
    shown = [{"input": f"in {n}", "output": "1"} for n in range(demos)]
    best = {"id": "bbbbbbbbbbbb", "components": {"prompt": prompt}, "demos": shown}
    folder.append_candidates(
        [
            {**original, "scores": {"r1": 1.0, "r2": 0.0}},
            {**best, "operator": "rewrite", "iteration": 1, "status": "accepted"},
        ]
    )
    folder.write_result(
        {
            "status": "finished",
            "stop_reason": "max_iterations",
            "verdict": "confirmed",
            "message": "Confirmed.",
            "metric": "exact_match",
            "original": {**side, "components": original["components"]},
            "best": {**side, "score": 0.9, **best},
            "p_value": 0.01,
            "fixed": 4,
            "broken": 0,
            "validation": {"original": 0.5, "best": 0.9},
            "calls": 40,
            "tokens": {"task": 100, "optimizer": 10},
            "cost_usd": None,
            "seconds": 3.0,
            "candidates": {"tried": 2, "accepted": 1},
            "model": "local",
            "optimizer_model": "local",
        }
    )
    return folder


def test_no_runs_yet() -> None:
    assert "No runs in runs yet" in call("runs", "list").stdout
    assert json.loads(call("runs", "list", "--json").stdout) == {"runs": []}
    said = call("runs", "list", "--runs-dir", "typo", code=3).stderr
    assert "error: typo: no such folder. Give the folder of your runs with --runs-dir." in said
    Path("rows.csv").write_text("a\n", encoding="utf-8")
    said = call("runs", "list", "--runs-dir", "rows.csv", code=3).stderr
    assert "error: rows.csv: this is a file, not a folder." in said
    Path("made").mkdir()
    assert "No runs in made yet" in call("runs", "list", "--runs-dir", "made").stdout


def test_runs_are_listed() -> None:
    done = finished("Say 1 or 0 only.")
    begun = RunStore(Path("runs")).create({"dataset": Path("x.jsonl")})
    text = call("runs", "list").stdout
    assert done.run_id in text
    assert "0.500" in text
    assert "0.900" in text
    assert "interrupted" in text
    listed = json.loads(call("runs", "list", "--json").stdout)["runs"]
    assert {run["run_id"] for run in listed} == {done.run_id, begun.run_id}


def test_both_ends_are_listed_with_the_cost_of_their_calls() -> None:
    done, other = finished("Say 1 or 0 only."), finished("Say 1 or 0 only.")
    result = other.read_result() or {}
    result["original"]["cost"] = {"unit": "usd", "amount": 0.0001, "cold": 0.0001, "warm": 0.0001}
    result["best"]["cost"] = {"unit": "usd", "amount": 0.00031, "cold": 0.00031, "warm": 0.00031}
    highest = {"score": 0.95, "cost": {"unit": "usd", "amount": 0.0011, "cold": 0.0011, "warm": 0.0011}}
    other.write_result({**result, "ends": {"returned": "cheapest", "other": highest}})
    text = call("runs", "list", columns=160).stdout
    (plain,) = (line for line in text.splitlines() if done.run_id in line)
    (line,) = (line for line in text.splitlines() if other.run_id in line)
    assert "$0.31" in line
    assert "0.950 ($1.10)" in line
    assert "$" not in plain
    listed = {run["run_id"]: run for run in json.loads(call("runs", "list", "--json").stdout)["runs"]}
    of_other = listed[other.run_id]
    assert (of_other["highest"], of_other["highest_call"]["amount"]) == (0.95, 0.0011)
    assert (of_other["original_call"]["amount"], of_other["best_call"]["amount"]) == (0.0001, 0.00031)
    assert listed[done.run_id]["best_call"] is None
    other.write_result({**result, "best": {**result["best"], "cost": {"amount": "much"}}, "ends": 5})
    assert other.run_id in call("runs", "list").stdout  # an edited file spoils no list


def test_a_program_is_listed_by_its_address() -> None:
    RunStore(Path("runs")).create({"dataset": Path("x.jsonl"), "program": "shop.graph:app"})
    (listed,) = json.loads(call("runs", "list", "--json").stdout)["runs"]
    assert listed["model"] == "shop.graph:app"


@pytest.mark.parametrize("columns", [30, 60, 80, 100, 140])
def test_an_id_in_the_list_is_never_broken(columns: int) -> None:
    done = finished("Say 1 or 0 only.")
    broken = RunStore(Path("runs")).create({"dataset": Path("x.jsonl"), "model": "m" * 40})
    broken.info_path.write_text("{}", encoding="utf-8")
    lines = call("runs", "list", columns=columns).stdout.splitlines()
    (line,) = (line for line in lines if done.run_id in line)
    assert len(line) <= max(columns, len(done.run_id))
    if columns >= 80:
        assert "0.900" in line
        assert "confirmed" in line
    assert f"{broken.run_id}: " in " ".join(lines)


def test_a_resumed_optimization_keeps_its_settings() -> None:
    RunStore(Path("runs")).create({"dataset": Path("x.jsonl"), "model": "local", "prompt": "p"})
    for name, value in (("workflow", "w.yaml"), ("price_input", "5"), ("traffic", "warm"), ("seed", "3")):
        said = call("resume", "last", "--set", f"{name}={value}", code=2).stderr
        refused = "a resumed `optimize` run does not take this. Remove it: a run keeps its settings."
        assert f"--set {name}: {refused}" in said
    assert "x.jsonl" in call("resume", "last", "--max-calls", "9000", code=3).stderr
    assert "x.jsonl" in call("resume", "last", "--set", "program_changed_ok=true", code=3).stderr


def test_an_export_replaces_an_export_and_no_other_file() -> None:
    finished("Say 1 or 0 only.")
    for path in (Path("run.yaml"), Path("rows.json")):
        path.write_text("[]" if path.suffix == ".json" else "dataset: rows.jsonl\n", encoding="utf-8")
        before = path.read_text(encoding="utf-8")
        assert "is not an export" in call("runs", "export", "last", "--to", str(path), code=2).stderr
        assert path.read_text(encoding="utf-8") == before
    for _ in range(2):
        call("runs", "export", "last", "--to", "prompt.yaml")
    Path("prompt.txt").write_text("Say 1 or 0.", encoding="utf-8")
    call("runs", "export", "last", "--to", "prompt.txt")  # the original prompt's
    assert Path("prompt.txt").read_text(encoding="utf-8") == "Say 1 or 0 only.\n"


def test_a_hint_of_resume_is_not_refused_in_turn() -> None:
    said = call("resume", "last", "--no-cache", code=2).stderr
    assert "Only a run of `flow run` takes it, as --set no_cache=true; others keep their settings." in said
    assert (
        "Use --set program_changed_ok=true." in call("resume", "last", "--program-changed-ok", code=2).stderr
    )


def test_a_setting_for_a_finished_run_has_no_effect_and_the_run_says_so(tmp_path: Path) -> None:
    run = real_run(tmp_path)
    said = call("resume", "last", "--set", "program_changed_ok=true").stderr
    assert said == f"warning: run {run.run_id} is finished, so --set program_changed_ok has no effect\n"


def test_the_newest_run_is_called_last() -> None:
    assert "There are none yet" in call("runs", "show", "last", code=3).stderr
    folder = finished("Say 1 or 0 only.")
    assert folder.run_id in call("runs", "show", "last").stdout
    assert call("runs", "export", "last").stdout == "Say 1 or 0 only.\n"
    assert "the id of the run to remove" in call("runs", "rm", "last", "--yes", code=3).stderr
    assert folder.path.exists()
    assert call("runs", "export", f"{folder.run_id}/").stdout == "Say 1 or 0 only.\n"


def test_a_shown_run_tells_its_settings_and_does_not_name_itself_as_next() -> None:
    settings = {"dataset": Path("d.jsonl"), "prompt": "Say\n1 or 0. " + "x" * 200, "model": "m", "seed": 7}
    RunStore(Path("runs")).create({**settings, "base_url": "http://h/v1", "max_calls": 500, "metric": "f1"})
    text = call("runs", "show", "last").stdout
    for name, value in (("seed", "7"), ("base_url", "http://h/v1"), ("max_calls", "500"), ("metric", "f1")):
        assert f"  {name:12}{value}\n" in text
    assert "  prompt      Say 1 or 0. xxx" in text
    assert "x" * 100 not in text
    finished("p")
    text = call("runs", "show", finished("p").run_id).stdout
    assert "runs export" in text
    assert "runs show" not in text


def test_a_run_is_shown() -> None:
    folder = finished("Say 1 or 0 only.")
    text = call("runs", "show", folder.run_id).stdout
    assert "Confirmed." in text
    assert "Say 1 or 0{+ only+}." in text
    assert "aaaaaa" in text
    data = json.loads(call("runs", "show", folder.run_id, "--json").stdout)
    assert data["result"]["best"]["score"] == 0.9
    assert data["candidates"][0]["operator"] == "original"


def test_an_unfinished_run_says_how_to_go_on() -> None:
    folder = RunStore(Path("runs")).create({"dataset": Path("x.jsonl")})
    assert f"autoprompt resume {folder.run_id}" in call("runs", "show", folder.run_id).stdout


def test_an_unknown_run_is_bad_input() -> None:
    assert "no run 'nope'" in call("runs", "show", "nope", code=3).stderr


def test_two_runs_side_by_side() -> None:
    a, b = finished("Say 1 or 0."), finished("Say 1 or 0 only.", demos=2)
    text = call("runs", "diff", a.run_id, b.run_id).stdout
    assert "Say 1 or 0{+ only+}." in text
    assert a.run_id in text
    data = json.loads(call("runs", "diff", a.run_id, b.run_id, "--json").stdout)
    assert (data["demos_a"], data["demos_b"]) == (0, 2)
    assert (data["cost_a"], data["cost_b"]) == (None, None)
    assert (data["a"]["run_id"], data["b"]["best"]) == (a.run_id, 0.9)
    (component,) = data["components"]
    assert component["lines"][:2] == [f"--- {a.run_id}", f"+++ {b.run_id}"]
    assert component["lines"][-2:] == ["-Say 1 or 0.", "+Say 1 or 0 only."]
    assert data["compared"]["gain"] == {"value": None, "ci95": None}
    assert "The scores cannot be compared. Their sealed tests share no row" in text


def test_an_unfinished_run_is_not_compared() -> None:
    begun = RunStore(Path("runs")).create({"dataset": Path("x.jsonl")})
    said = call("runs", "diff", begun.run_id, finished("p").run_id, code=3).stderr
    assert f"Finish it with `autoprompt resume {begun.run_id}`" in said


def test_two_runs_are_compared_on_the_test_rows_that_both_have() -> None:
    a, b = finished("Say 1 or 0."), finished("Say 1 or 0 only.")
    for folder, right in ((a, 6), (b, 12)):
        answered = [row(n, f"input {n}", "1", "1" if n < right else "0") for n in range(12)]
        for name in ("test-best", "test-original"):
            folder.write_predictions(name, answered)
    text = call("runs", "diff", a.run_id, b.run_id).stdout
    said = "A 0.50, B 1.00 on 12 shared rows, p = 0.031 (paired, two-sided). B has the better prompt"
    assert said in " ".join(text.split())
    compared = json.loads(call("runs", "diff", a.run_id, b.run_id, "--json").stdout)["compared"]
    assert (compared["rows"], compared["gain"]["value"], compared["better"]) == (12, 0.5, {"a": 0, "b": 6})


def test_what_a_call_costs_is_beside_each_score(tmp_path: Path) -> None:
    run = real_run(tmp_path)
    costs = {record["id"]: Cost(**record["cost"]) for record in run.read_candidates().values()}
    original = run.find_candidate("original")["id"]
    best = run.find_candidate("best")["id"]
    text = call("runs", "diff", f"{run.path}:original", str(run.path)).stdout
    head, _, *sides = text.splitlines()
    assert "1,000 calls" in head
    for line, name in zip(sides, (original, best), strict=False):
        assert costs[name].shown(1000) in line
    told = json.loads(call("runs", "diff", f"{run.path}:original", str(run.path), "--json").stdout)
    assert (told["cost_a"], told["cost_b"]) == (costs[original].to_dict(), costs[best].to_dict())
    listed = call("runs", "show", str(run.path)).stdout.splitlines()
    for name in costs:
        (line,) = (line for line in listed if re.match(rf"{name[:6]} +\d", line))
        assert costs[name].shown(1000) in line


def test_a_run_without_a_sealed_test_is_listed_with_its_score_on_validation() -> None:
    folder = finished("Say 1 or 0.")
    untested = {"original": {"score": None}, "best": {**(folder.read_result() or {})["best"], "score": None}}
    validation = {"original": 0.5, "best": 0.75, "rows": 24}
    folder.write_result({**(folder.read_result() or {}), **untested, "validation": validation})
    shown = " ".join(call("runs", "list").stdout.split())
    assert "0.500 (validation)" in shown
    assert "0.750 (validation)" in shown
    (line,) = json.loads(call("runs", "list", "--json").stdout)["runs"]
    assert (line["best"], line["validation_original"], line["validation_best"]) == (None, 0.5, 0.75)


def test_candidates_are_compared_as_far_as_the_sealed_test_was_asked() -> None:
    a, b = finished("Say 1 or 0."), finished("Say 1 or 0 only.")
    dropped = {"operator": "demos", "components": {"prompt": "Hm."}, "scores": {}, "status": "rejected"}
    a.append_candidates([{**dropped, "id": "cd" * 6}])
    other = Candidate({"prompt": "Longer."})
    a.append_candidates([{**other.to_dict(), "operator": "demos", "status": "accepted"}])
    end = {"id": other.id, "components": {"prompt": "Longer."}, "score": 0.75, "n": 12}
    a.write_result({**(a.read_result() or {}), "ends": {"returned": "cheapest", "other": end}})
    right = {"test-best": 6, "test-original": 1, "test-other": 9}
    for name, many in right.items():
        a.write_predictions(name, [row(n, f"input {n}", "1", "1" if n < many else "0") for n in range(12)])
    b.write_predictions("test-best", [row(n, f"input {n}", "1", "1") for n in range(12)])
    for candidate, many in ((other.id[:6], 9), ("original", 1), ("best", 6)):
        told = json.loads(call("runs", "diff", f"{a.run_id}:{candidate}", b.run_id, "--json").stdout)
        assert told["compared"]["better"] == {"a": 0, "b": 12 - many}
    shown = " ".join(call("runs", "diff", b.run_id, f"{a.run_id}:cdcd").stdout.split())
    assert f"The scores cannot be compared. {a.run_id}:cdcdcd did not answer the sealed test." in shown
    command = f"autoprompt eval --from {a.run_id}:cdcdcd --against {b.run_id} --dataset FILE"
    assert f"Compare both on the same rows: {command}" in shown
    a.append_candidates([{**dropped, "components": {"route.system": "Hm."}, "id": "ab" * 6}])
    assert "Compare both" not in call("runs", "diff", b.run_id, f"{a.run_id}:abab").stdout
    assert "Say 1 or 0 only." in shown
    assert "Hm." in shown
    begun = RunStore(Path("runs")).create({"dataset": Path("x.jsonl")})
    begun.append_candidates([{**dropped, "operator": "original", "id": "ef" * 6}])
    text = call("runs", "diff", f"{begun.run_id}:original", b.run_id).stdout
    assert f"{begun.run_id}: not finished, so the sealed test is closed" in " ".join(text.split())


def test_a_prompt_is_exported() -> None:
    folder = finished("Say 1 or 0 only.")
    assert call("runs", "export", folder.run_id).stdout == "Say 1 or 0 only.\n"
    call("runs", "export", folder.run_id, "--to", "naive.txt")
    assert Path("naive.txt").read_text() == "Say 1 or 0 only.\n"


def test_an_export_makes_no_folder() -> None:
    folder = finished("Say 1 or 0 only.")
    said = "error: typo/a.txt: there is no folder typo. Make it, or give another path."
    assert said in call("runs", "export", folder.run_id, "--to", "typo/a.txt", code=3).stderr
    assert said.replace("a.txt", "a.md") in call("memory", "export", "--to", "typo/a.md", code=3).stderr
    assert not Path("typo").exists()


def test_the_ending_chooses_the_form_and_lost_demonstrations_are_said() -> None:
    folder = finished("p", demos=2)
    assert "2 demonstrations" in call("runs", "export", folder.run_id).stderr
    result = call("runs", "export", folder.run_id, "--to", "p.json")
    assert "demonstrations" not in result.stderr
    assert len(json.loads(Path("p.json").read_text())) == 6
    call("runs", "export", folder.run_id, "--to", "p.yaml")
    assert len(yaml.safe_load(Path("p.yaml").read_text())["demos"]) == 2
    assert "langchain" in call("runs", "export", folder.run_id, "--format", "xml", code=2).stderr


def test_an_ending_that_names_no_form_is_refused_without_format() -> None:
    folder = finished("p")
    refused = call("runs", "export", folder.run_id, "--to", "p.pdf", code=2)
    assert "p.pdf: --to: unknown file type. Use one of .txt, .md, .yaml, .yml, .json," in refused.stderr
    assert not Path("p.pdf").exists()
    for arguments in (
        ["--to", "p.j2", "--format", "text"],
        ["--to", "p.TXT"],
        ["--to", "p.md"],
        ["--to", "p"],
    ):
        call("runs", "export", folder.run_id, *arguments)
        assert Path(arguments[1]).read_text() == "p\n"


def test_another_candidate_is_exported() -> None:
    folder = finished("Best.")
    shown = [{"input": "in", "output": "1"}]
    other = {"operator": "demos", "iteration": 1, "components": {"prompt": "Short."}, "scores": {}}
    folder.append_candidates([{**other, "id": "ab" * 6, "demos": shown}, {**other, "id": "ac" * 6}])
    result = call("runs", "export", "last:ab")
    assert (result.stdout, "includes 1 demonstration" in result.stderr) == ("Short.\n", True)
    call("runs", "export", "last:ab", "--to", "short.json")
    assert len(json.loads(Path("short.json").read_text())) == 4
    unclear = call("runs", "export", "last:a", code=3).stderr
    assert "'a' matches 3 candidates: aaaaaaaaaaaa, abababababab, acacacacacac" in unclear
    assert call("runs", "export", "last:original").stdout == "Say 1 or 0.\n"
    missing = call("runs", "export", "last:f", code=3).stderr
    assert (
        "has no candidate 'f'. It has original, best, aaaaaaaaaaaa, bbbbbbbbbbbb, abababababab, "
        f"acacacacacac. List all 4 with `autoprompt runs show {folder.run_id}`." in missing
    )
    assert "has no candidate 'zzz'. It has original" in call("runs", "export", "last:zzz", code=3).stderr


def test_another_candidate_of_an_unfinished_workflow_is_exported_as_its_file() -> None:
    flow = Path("flow.yaml")
    node = "{id: a, type: llm, data: {prompt_template: 'Say {{#sys.query#}}'}}"
    flow.write_text(f"nodes:\n- {node}\n", encoding="utf-8")
    folder = RunStore(Path("runs")).create({"dataset": Path("d.jsonl"), "workflow": flow})
    folder.write_text("original_workflow.yaml", flow.read_text(encoding="utf-8"))
    common = {"iteration": 1, "scores": {}, "status": "accepted"}
    texts = ("Say {{#sys.query#}}", "Tell {{#sys.query#}}")
    folder.append_candidates(
        [{**common, "id": f"{n}" * 12, "components": {"a.user": text}} for n, text in enumerate(texts)]
    )
    assert "new.yaml: written (workflow)" in call("runs", "export", "last:1", "--to", "new.yaml").stderr
    assert "flow.yaml: replaced (workflow)" in call("runs", "export", "last:1", "--to", "flow.yaml").stderr
    assert 'data: {prompt_template: "Tell {{#sys.query#}}"}' in flow.read_text(encoding="utf-8")
    assert "has no best prompt yet" in call("runs", "export", "last", code=3).stderr


def workflow_run(file: str, components: dict[str, str], *, demos: int = 0) -> RunFolder:
    """A finished run of a workflow, whose best candidate is the original."""
    folder = RunStore(Path("runs")).create({"dataset": Path("d.jsonl"), "workflow": Path("flow.yaml")})
    folder.write_text("original_workflow.yaml", file)
    shown = [{"input": "x", "output": "y", "component": next(iter(components))}] * demos
    best = {"id": "b" * 12, "components": components, "demos": shown}
    folder.append_candidates([{**best, "iteration": 1, "scores": {}, "status": "accepted"}])
    folder.write_result({"best": best})
    return folder


ONE_NODE = "nodes:\n- {id: a, type: llm, data: {prompt_template: 'Say {{#sys.query#}}'}}\n"


def test_a_workflow_is_exported_as_its_file_or_as_its_texts() -> None:
    workflow_run(ONE_NODE, {"a.user": "Say {{#sys.query#}}"}, demos=1)
    assert 'demonstrations: [{user: "x", assistant: "y"}]' in call("runs", "export", "last").stdout
    text = call("runs", "export", "last", "--to", "texts.txt")
    assert "1 demonstration that text lacks. Use another --format: workflow" in text.stderr
    assert Path("texts.txt").read_text(encoding="utf-8") == "Say {{#sys.query#}}\n"
    for arguments in (
        ["--format", "openai"],
        ["--format", "langchain"],
        ["--format", "yaml"],
        ["--to", "p.json"],
    ):
        said = call("runs", "export", "last", *arguments, code=2).stderr
        assert "because it optimized a workflow; known formats: text, workflow" in said


def test_demonstrations_of_a_file_that_cannot_be_read_here_are_not_put_where_dify_ignores_them() -> None:
    file = ONE_NODE + "- {id: b, type: of_my_own, data: {}}\n"
    workflow_run(file, {"a.user": "Say {{#sys.query#}}"}, demos=1)
    said = call("runs", "export", "last", code=3).stderr
    assert "original_workflow.yaml: cannot write the demonstrations" in said
    assert "unknown type 'of_my_own'" in said
    assert "best_workflow.yaml" in said
    workflow_run(file, {"a.user": "Say {{#sys.query#}}"})
    assert call("runs", "export", "last").stdout == file


def test_two_files_of_workflows_are_not_compared() -> None:
    Path("flow.yaml").write_text(ONE_NODE, encoding="utf-8")
    Path("d.jsonl").write_text('{"input": "a", "target": "b"}\n' * 2, encoding="utf-8")
    said = call("eval", "--workflow", "flow.yaml", "--dataset", "d.jsonl", "--against", "@flow.yaml", code=3)
    assert "flow.yaml is a workflow, and two workflow files cannot be compared" in said.stderr
    assert "candidates of one run with --from RUN and --against original" in said.stderr


def test_a_batch_has_no_candidates_of_its_own() -> None:
    batch = RunStore(Path("runs")).create({"name": "many"}, kind="batch", run_id="many")
    said = call("runs", "export", "many:a", code=3).stderr
    assert "many is a batch and has no prompt. None of its trials has begun. Start them: autoprompt" in said
    trials = [real_run(batch.path, seed=seed, max_iterations=1).path for seed in range(4)]
    for number, path in enumerate(trials):
        path.rename(batch.path / f"seed-{number}")
    named = "Name one of its trials: runs/many/seed-0, runs/many/seed-1, runs/many/seed-2, or 1 more."
    for command in (("runs", "export", "many"), ("runs", "diff", "many", "many"), ("eval", "--from", "many")):
        assert named in call(*command, code=3).stderr
    assert call("runs", "export", "runs/many/seed-0").stdout


def test_a_limit_of_a_batch_belongs_to_its_files() -> None:
    RunStore(Path("runs")).create({"name": "many"}, kind="batch", run_id="many")
    said = call("resume", "many", "--max-calls", "10", code=2).stderr
    assert "Give it to the batch's files: autoprompt batch FILES --max-calls N." in said


def test_the_choices_beside_the_best_are_shown() -> None:
    folder = finished("Best.")
    choice = {"operator": "demos", "demos": 2, "tokens": 1240, "score": 0.75, "is_best": False}
    choice |= {"is_tested": False, "cost": {"amount": 0.0002, "unit": "usd"}}
    best = {**choice, "id": "bb" * 6, "score": 0.9, "is_best": True}
    trade_off = {"rows": 30, "candidates": [{**choice, "id": "ab" * 6}, best]}
    folder.write_result({**(folder.read_result() or {}), "trade_off": trade_off})
    shown = call("runs", "show", "last").stdout
    assert "the cheapest first; means of the 30 rows that raced, no proof" in shown
    assert re.search(r"\nababab \(raced only, not tested\) +0.750 +\$0.20 +1,240 +2\n", shown)
    assert re.search(r"\nbbbbbb \(best\) +0.900 +\$0.20 +1,240 +2\n", shown)


def test_another_tested_end_is_exported_without_a_new_run() -> None:
    folder = finished("Best.")
    result = folder.read_result() or {}
    why = {
        "setting": "was to return the highest score",
        "no_budget": "had no budget left to test its cheaper",
    }
    for reason in ("none", "not_level", "not_confirmed", *why):
        folder.write_result({**result, "ends": {"returned": "highest", "reason": reason, "other": None}})
        assert call("runs", "export", "last", "--pick", "highest").stdout == "Best.\n"
        found = call("runs", "export", "last", "--pick", "cheapest", code=3 if reason in why else 0)
        if reason in why:
            assert f"run {folder.run_id} {why[reason]}" in found.stderr
            assert "Or take the prompt with the highest score: --pick highest" in found.stderr
        else:  # nothing cheaper is about as good
            assert found.stdout == "Best.\n"
    other = Candidate({"prompt": "Longer."})
    folder.append_candidates([{**other.to_dict(), "status": "accepted"}])
    ends = {"returned": "cheapest", "other": {"id": other.id}}
    folder.write_result({**result, "ends": ends})
    assert call("runs", "export", "last", "--pick", "highest").stdout == "Longer.\n"
    assert call("runs", "export", "last", "--pick", "cheapest").stdout == "Best.\n"
    assert call("runs", "export", "last").stdout == "Best.\n"
    said = call("runs", "export", f"last:{other.id}", "--pick", "highest", code=2).stderr
    assert "--pick: cannot be combined with the candidate of last:" in said


@pytest.mark.parametrize("pick", [(), ("--pick", "highest"), ("--pick", "cheapest")])
def test_an_export_of_your_own_prompt_says_so(pick: tuple[str, ...]) -> None:
    folder = finished("Say 1 or 0.")
    result = folder.read_result() or {}
    folder.write_result({**result, "best": {**result["best"], "id": "aaaaaaaaaaaa", "is_original": True}})
    exported = call("runs", "export", "last", *pick)
    assert exported.stdout == "Say 1 or 0.\n"
    assert "note: This run returned your own prompt. To export another candidate: " in exported.stderr
    assert f"autoprompt runs export {folder.reference}:ID; " in exported.stderr
    assert call("runs", "export", "last:original").stderr == ""


def test_a_run_is_deleted_with_yes_where_nobody_can_be_asked() -> None:
    folder = finished("p")
    assert "add --yes to confirm" in call("runs", "rm", folder.run_id, input="y\n", code=2).stderr
    assert folder.path.exists()
    call("runs", "rm", folder.run_id, "--yes")
    assert not folder.path.exists()


@pytest.fixture
def memory(here: Path) -> Path:
    path = here / "memory" / "memory_experiences.txt"
    entries = [
        Experience(
            "tell clickbait",
            Change(note="said [bold]numbers[/bold] are news"),
            "better",
            before=0.5,
            after=0.7,
            rows=30,
        ),
        Experience("sort tickets", Change(note="longer rules"), "worse", before=0.8, after=0.6, rows=20),
    ]
    ExperienceFile(path).record(entries, run_id="r1", iteration=1)
    return path


def test_memory_is_shown_and_searched(memory: Path) -> None:
    text = call("memory", "show").stdout
    assert "said [bold]numbers[/bold] are news" in text
    assert "better +0.20" in text
    found = json.loads(call("memory", "search", "tickets", "--json").stdout)["experiences"]
    assert [entry["change"] for entry in found] == ["longer rules"]
    assert "nothing about zebra" in call("memory", "search", "zebra").stdout


def test_of_a_long_memory_the_first_are_shown_and_the_others_counted(memory: Path) -> None:
    assert "shown; all of them" not in call("memory", "show").stderr
    text = memory.read_text(encoding="utf-8")
    memory.write_text(text + text.removeprefix(HEADER) * 125, encoding="utf-8")
    told = call("memory", "show")
    assert "200 of 252 shown; all of them: --json, or autoprompt memory export" in told.stderr
    assert len(re.findall(r"longer rules|are news", told.stdout)) == 200
    assert len(json.loads(call("memory", "show", "--json").stdout)["experiences"]) == 252


def test_memory_is_forgotten(memory: Path) -> None:
    doomed = ExperienceFile(memory).load()[0].id
    call("memory", "forget", code=2)
    call("memory", "forget", "zzzz", code=3)
    assert "1 forgotten, 1 left" in call("memory", "forget", doomed, "--yes").stderr
    assert "1 forgotten, 0 left" in call("memory", "forget", "--all", "--yes").stderr


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_what_is_lost_for_good_is_asked_before(memory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    refused = call("memory", "forget", "--all", code=2).stderr
    assert "Forget all 2 experiences" in refused
    assert "--yes" in refused
    one = ExperienceFile(memory).load()[0]
    refused = call("memory", "forget", one.id[:6], code=2).stderr
    assert f"Forget {one.id} {one.text} in " in refused
    assert "--yes" in refused
    assert len(ExperienceFile(memory).load()) == 2
    assert "--yes" in call("cache", "clear", "--cache-dir", "c", code=2).stderr
    monkeypatch.setattr("sys.stdin", Terminal("n\ny\n"))
    with pytest.raises(typer.Abort):
        options.confirm("Sure?", yes=False)
    options.confirm("Sure?", yes=False)


def test_memory_is_exported(memory: Path) -> None:
    assert len(json.loads(call("memory", "export").stdout)) == 2
    call("memory", "export", "--format", "md", "--to", "m.md")
    assert Path("m.md").read_text().startswith("| id |")
    call("memory", "export", "--format", "xml", code=2)
    for name, begins in (("n.md", "| id |"), ("n.csv", "id,"), ("n.JSON", "[\n"), ("n", "[\n")):
        call("memory", "export", "--to", name)
        assert Path(name).read_text().startswith(begins)
    call("memory", "export", "--format", "csv", "--to", "n.xyz")
    refused = call("memory", "export", "--to", "m.xyz", code=2).stderr
    assert "m.xyz: --to: unknown file type. Use one of .json, .csv, .md," in refused


def test_memory_file_of_a_variable(here: Path) -> None:
    result = CliRunner().invoke(app, ["memory", "show"], env={"AUTOPROMPT_MEMORY_FILE": "other.txt"})
    assert "other.txt: no experiences yet" in result.stdout


def test_the_cache_is_shown_and_cleared(here: Path) -> None:
    cache = ResponseCache(here / "c")
    cache.put("k", Completion("text"))
    cache.close()
    assert json.loads(call("cache", "show", "--cache-dir", "c", "--json").stdout)["answers"] == 1
    assert "1 answer forgotten" in call("cache", "clear", "--cache-dir", "c", "-y").stderr
    assert ": 0 answers" in call("cache", "show", "--cache-dir", "c").stdout


def test_models_are_listed() -> None:
    assert "local:qwen2.5-coder-1.5b" in call("models", "list").stdout
    models = json.loads(call("models", "list", "--json").stdout)["models"]
    assert all(len(model["sha256"]) == 64 for model in models)


def test_an_unknown_model_is_not_pulled() -> None:
    assert "Choose qwen2.5" in call("models", "pull", "gpt-4", code=3).stderr


def test_resume_without_a_run_names_the_newest_that_was_interrupted() -> None:
    assert "runs has no interrupted run" in " ".join(call("resume", code=2).output.split()).lower()
    finished("Say 1.")
    cut = [RunStore(Path("runs")).create({"dataset": Path("heads.jsonl")}) for _ in range(2)]
    said = " ".join(call("resume", code=2).output.split())
    assert "no interrupted run" not in said.lower()
    assert "(of 2;" in said
    assert any(f"autoprompt resume {folder.run_id}" in said for folder in cut)
    elsewhere = RunStore(Path("elsewhere")).create({"dataset": Path("heads.jsonl")})
    said = " ".join(call("resume", "--runs-dir", "elsewhere", code=2).output.split())
    assert f"autoprompt resume {elsewhere.reference}" in said


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("calls", "many", "calls: Input should be a valid integer"),
        ("best", {"score": [0.5]}, "best.score: Input should be a valid number"),
        ("spending", {"task": 3}, "spending: autoprompt did not write this record"),
        (
            "validation",
            {"confirmation": {"confirmed": True}},
            "confirmation.p_value: Field required",
        ),
    ],
)
def test_a_result_with_a_value_of_another_type_names_the_value(
    tmp_path: Path, name: str, value: object, said: str
) -> None:
    """It was an internal error, with exit code 70."""
    folder = real_run(tmp_path)
    folder.write_result({**(folder.read_result() or {}), name: value})
    for command in ("runs show", "report"):
        found = CliRunner().invoke(app, [*command.split(), str(folder.path)])
        assert found.exit_code == StoreError.exit_code, found.output
        assert "result.json: " in found.stderr
        assert said in found.stderr
        assert "resume the run" in found.stderr


def test_a_name_is_shown_in_the_list_and_by_show(tmp_path: Path) -> None:
    store = RunStore(tmp_path / "runs")
    settings = {"name": "support, second try", "tags": ["desk"], "notes": "Short."}
    folder = store.create({"dataset": "t.jsonl", **settings})
    assert store.list()[0].name == "support, second try"
    assert store.list()[0].tags == ("desk",)
    listed = call("runs", "list").stdout
    assert "support, second try" in listed
    shown = call("runs", "show", folder.run_id).stdout
    assert re.search(r"name +support, second try\n +tags +\['desk'\]\n +notes +Short\.", shown)


def aged(days: int) -> RunFolder:
    folder = RunStore(Path("runs")).create({"dataset": "t.jsonl"}, run_id=f"run-{days}")
    info = json.loads(folder.info_path.read_text(encoding="utf-8"))
    created = (datetime.now(UTC) - timedelta(days=days)).isoformat(timespec="seconds")
    folder.info_path.write_text(json.dumps({**info, "created": created}), encoding="utf-8")
    os.utime(folder.info_path, ns=(time.time_ns() - days * 10**9,) * 2)  # what the list is sorted by
    return folder


@pytest.mark.parametrize(
    ("flags", "kept"),
    [
        (["--older-than", "30d"], ["run-1", "run-20"]),
        (["--older-than", "12h"], []),
        (["--keep", "3"], ["run-1", "run-20", "run-40"]),
        (["--keep", "1", "--older-than", "4w"], ["run-1", "run-20"]),
    ],
)
def test_old_runs_are_shown_and_deleted(flags: list[str], kept: list[str]) -> None:
    every = [aged(days) for days in (60, 40, 20, 1)]
    said = call("runs", "rm", *flags, code=2)  # nobody can answer here
    assert [run.run_id for run in every if run.run_id in said.stderr] == [
        run.run_id for run in every if run.run_id not in kept
    ]
    assert len(RunStore(Path("runs")).list()) == 4
    call("runs", "rm", *flags, "--yes")
    assert sorted(run.run_id for run in RunStore(Path("runs")).list()) == kept


def test_a_run_at_work_is_not_old() -> None:
    finished, begun = aged(60), aged(50)
    finished.write_result({})  # and resumed
    with finished.work(), begun.work():
        assert "No run is that old." in call("runs", "rm", "--older-than", "30d", "--yes").stderr


def test_a_run_that_says_no_time_is_not_old() -> None:
    folder = aged(60)
    info = json.loads(folder.info_path.read_text(encoding="utf-8"))
    folder.info_path.write_text(json.dumps({**info, "created": "long ago"}), encoding="utf-8")
    assert "No run is that old." in call("runs", "rm", "--keep", "0", "--yes").stderr


def test_rm_names_runs_or_an_age() -> None:
    aged(60)
    assert "name runs, or say which old ones" in call("runs", "rm", code=2).stderr
    assert "name runs, or say which old ones" in call("runs", "rm", "run-60", "--keep", "1", code=2).stderr
    for age in ("30", "-3d", "999999d"):
        assert "such as 12h, 30d or 8w" in call("runs", "rm", "--older-than", age, code=2).stderr
    assert "No run is that old." in call("runs", "rm", "--older-than", "99999w").stderr
