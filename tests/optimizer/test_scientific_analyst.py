"""The scientific analyst: a planted cause is found, and no number passes that a recount does not confirm."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from autoprompt import Models, RunConfig, optimize
from autoprompt.errors import ConfigError, Problem
from autoprompt.llm import ScriptedClient
from autoprompt.llm.client import Completion, Options
from autoprompt.llm.limits.budget import BudgetMeter
from autoprompt.optimizer.agents.analyst import AnalysisAgent
from autoprompt.optimizer.agents.scientific import ScientificAnalyst, check_analyst, predictions_csv
from autoprompt.records import EvaluatedRow, Message
from autoprompt.sandbox import SandboxError, probe

pytest.importorskip("pandas")
PROMPT = "Is the parcel urgent or normal?"
LONGEST = 80  # rows with more characters are answered wrong

CODE = """import pandas as pd
df = pd.read_csv('predictions.csv')
held = df['length'] > 80
print('length > 80:', held.sum(), 'rows,', (held & (df['correct'] == 0)).sum(), 'wrong')
print('elsewhere wrong:', (~held & (df['correct'] == 0)).sum())
print('words > 5:', (df['words'] > 5).sum())"""


def text_of(number: int, *, is_long: bool) -> str:
    text = f"parcel {number:03} for the depot by the river"
    return (text + ", to be handed to the caretaker and to nobody else at all, please")[
        : 99 if is_long else 40
    ]


def rows(count: int = 24, every: int = 3) -> list[EvaluatedRow]:
    made = []
    for number in range(count):
        text = text_of(number, is_long=number % every == 0)
        truth = ("urgent", "normal")[number % 2]
        is_correct = len(text) <= LONGEST
        answer = truth if is_correct else ("normal", "urgent")[number % 2]
        made.append(EvaluatedRow(f"r{number}", text, answer, truth, is_correct, float(is_correct)))
    return made


def analyst(
    client: ScriptedClient, folder: Path, events: list[dict[str, Any]] | None = None
) -> ScientificAnalyst:
    if not probe().confines:
        pytest.skip("nothing on this machine confines code")
    return ScientificAnalyst(
        client=client,
        plain=AnalysisAgent(client),
        folder=folder,
        level=probe(),
        budget=BudgetMeter(),
        emit=(events if events is not None else []).append,
        context_tokens=8192,
    )


def passes(conclusion: str, code: str = CODE) -> list[str]:
    experiment = f"<Hypothesis>\nlong rows\n</Hypothesis>\n<Experiment>\n{code}\n</Experiment>"
    return [experiment, f"<Inference>\nclear\n</Inference>\n<Conclusion>\n{conclusion}\n</Conclusion>"]


def test_the_planted_cause_is_named_with_its_true_counts(tmp_path: Path) -> None:
    client = ScriptedClient(passes("`length > 80`: 8 of 8 wrong\nSay what long parcels mean."))
    found = analyst(client, tmp_path).analyze(PROMPT, rows())
    assert found["findings"][0] == {
        "condition": "length > 80",
        "wrong": 8,
        "total": 8,
        "wrong_elsewhere": 0,
        "total_elsewhere": 16,
        "p_value": pytest.approx(1 / 735471, abs=1e-6),
    }
    assert "rows with `length > 80`: 8 of 8 wrong; others: 0 of 16 wrong" in found["suggestions"]
    # What is left of the conclusion is a claim, and is told as one.
    said = found["suggestions"].partition("\nConcluded from it, with only the numbers confirmed:\n")[2]
    assert said == "`length > 80`: 8 of 8 wrong\nSay what long parcels mean."
    assert (found["has_errors"], found["error_count"], found["total_count"]) == (True, 8, 24)
    assert found["error_cases"]


def test_a_number_that_is_not_so_does_not_reach_the_writer(tmp_path: Path) -> None:
    conclusion = "`length > 80`: 19 of 20 wrong\nLong rows are wrong in 19 of 20 cases.\nMind long rows."
    found = analyst(ScriptedClient(passes(conclusion)), tmp_path).analyze(PROMPT, rows())
    assert "8 of 8 wrong" in found["suggestions"]
    assert "Mind long rows." in found["suggestions"]
    assert "19" not in found["suggestions"]


def test_a_hypothesis_tested_in_code_counts_where_the_conclusion_is_vague(tmp_path: Path) -> None:
    found = analyst(ScriptedClient(passes("Long rows are the cause.")), tmp_path).analyze(PROMPT, rows())
    assert [f["condition"] for f in found["findings"]] == ["length > 80"]
    assert found["suggestions"].endswith(
        "\nConcluded from it, with only the numbers confirmed:\nLong rows are the cause."
    )


def test_a_conclusion_of_which_nothing_is_left_adds_nothing(tmp_path: Path) -> None:
    found = analyst(ScriptedClient(passes("`length > 80`: 9 of 9 wrong")), tmp_path).analyze(PROMPT, rows())
    assert found["suggestions"].endswith("others: 0 of 16 wrong")


def test_its_warnings_say_that_they_are_the_analysts(tmp_path: Path) -> None:
    first, *others = passes("`length > 80`: 8 of 8 wrong")
    events: list[dict[str, Any]] = []
    cut = ScriptedClient([Completion(first, finish_reason="length"), *others])
    analyst(cut, tmp_path, events).analyze(PROMPT, rows())
    (said,) = [Problem.from_dict(event).said for event in events if event["event"] == "warning"]
    assert said.startswith("scientific analyst: the answer of pass 1 was cut")


def test_where_nothing_holds_the_plain_analyst_is_asked(tmp_path: Path) -> None:
    answers = [*passes("`words > 900`: 8 of 8 wrong", "print(1)"), "State the rule for long parcels."]
    events: list[dict[str, Any]] = []
    scattered = [replace(row, is_correct=n % 4 > 0, score=float(n % 4 > 0)) for n, row in enumerate(rows())]
    found = analyst(ScriptedClient(answers), tmp_path, events).analyze(PROMPT, scattered)
    assert found["suggestions"] == "State the rule for long parcels."
    assert any("confirmed no hypothesis" in event.get("message", "") for event in events)


def test_a_cause_that_the_model_overlooks_is_found_by_measuring(tmp_path: Path) -> None:
    client = ScriptedClient(passes("`ground_truth != prediction`: 8 of 8 wrong", "print(1)"))
    (finding,) = analyst(client, tmp_path).analyze(PROMPT, rows())["findings"]
    assert finding["condition"].startswith("length > ")
    assert (finding["wrong"], finding["total"], finding["wrong_elsewhere"]) == (8, 8, 0)


def test_code_that_writes_to_the_table_changes_no_count(tmp_path: Path) -> None:
    code = "import os\nos.remove('predictions.csv')\nopen('predictions.csv', 'w').write('x')\nprint(1)"
    client = ScriptedClient(passes("`length > 80`: 1 of 1 wrong", code))
    found = analyst(client, tmp_path).analyze(PROMPT, rows())
    assert found["findings"][0]["wrong"] == 8


def test_an_analysis_that_is_done_again_runs_nothing_again(tmp_path: Path) -> None:
    events: list[dict[str, Any]] = []
    code = "import time\nprint(time.time_ns())"
    for _ in range(2):
        client = ScriptedClient(passes("`length > 80`: 8 of 8 wrong", code))
        analyst(client, tmp_path, events).analyze(PROMPT, rows())
    seen = [event["observation"] for event in events if event["event"] == "experiment"]
    assert len(seen) == 2
    assert len(set(seen)) == 1


def test_without_errors_nothing_is_asked(tmp_path: Path) -> None:
    client = ScriptedClient([])
    right = [row for row in rows() if row.is_correct]
    assert not analyst(client, tmp_path).analyze(PROMPT, right)["has_errors"]
    assert not client.calls


def test_the_table_holds_a_line_for_each_row() -> None:
    text = predictions_csv(rows(3))
    assert text.splitlines()[0].startswith("input,prediction,ground_truth,correct,length,words")
    assert len(text.splitlines()) == 4


def test_pandas_and_a_sandbox_are_asked_for_before_anything_is_paid(monkeypatch: pytest.MonkeyPatch) -> None:
    config = RunConfig(prompt=PROMPT, analyst="scientific")
    monkeypatch.setattr("autoprompt.optimizer.agents.scientific.util.find_spec", lambda name: None)
    if probe().confines:
        with pytest.raises(ConfigError, match=r"needs pandas: .*install 'pandas>="):
            check_analyst(config)
    check_analyst(RunConfig(prompt=PROMPT))


def write_rows(path: Path, count: int = 90) -> None:
    lines = []
    for number in range(count):
        text = text_of(number, is_long=number % 3 == 0)
        lines.append(json.dumps({"input": text, "target": ("urgent", "normal")[number % 2]}))
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def test_a_run_with_the_scientific_analyst(tmp_path: Path) -> None:
    """The cause reaches the writer with its counts; the analyst's calls are the optimizer's."""
    if not probe().confines:
        pytest.skip("nothing on this machine confines code")
    write_rows(tmp_path / "parcels.jsonl")
    asked: list[tuple[str, str]] = []

    def answer(messages: list[Message], options: Options) -> str:
        last = messages[-1].content
        asked.append((options.role, last))
        if options.role == "task":
            truth = ("urgent", "normal")[int(last.split()[1]) % 2]
            return truth if len(last) <= LONGEST else "normal" if truth == "urgent" else "urgent"
        if "predictions.csv" in messages[0].content:
            return passes("`length > 80`: 5 of 6 wrong\nSay what long parcels are.")[len(messages) > 1]
        return "```\nIs the parcel urgent or normal? Long ones are read to their end.\n```"

    config = RunConfig(
        dataset=tmp_path / "parcels.jsonl",
        prompt=PROMPT,
        labels=("urgent", "normal"),
        analyst="scientific",
        max_iterations=1,
        max_demos=0,
        no_memory=True,
        no_cache=True,
        runs_dir=tmp_path / "runs",
    )
    result = optimize(config, models=Models(ScriptedClient(answer)))
    assert result.to_dict()["status"] == "finished"
    writers = [text for role, text in asked if role == "optimizer" and "<current>" in text]
    assert writers
    assert all("rows with `length > 80`" in text and "5 of 6" not in text for text in writers)
    analysts = [role for role, text in asked if "predictions.csv" in text or "<Observation>" in text]
    assert analysts
    assert set(analysts) == {"optimizer"}
    (folder,) = (tmp_path / "runs").glob("*/analysis/*")
    assert {path.name for path in folder.iterdir()} >= {"predictions.csv", "transcript.md", "findings.json"}
    (finding,) = json.loads((folder / "findings.json").read_text(encoding="utf-8"))
    assert finding["condition"] == "length > 80"
    assert finding["wrong"] == finding["total"]
    assert finding["wrong_elsewhere"] == 0


def test_strict_refuses_a_run_before_its_first_call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_rows(tmp_path / "parcels.jsonl")
    from autoprompt.sandbox import Level, choose

    weaker = Level(landlock=4, seccomp=True)
    monkeypatch.setattr(
        "autoprompt.optimizer.agents.scientific.choose", lambda level: choose(level, lambda: weaker)
    )
    client = ScriptedClient([])
    config = RunConfig(
        dataset=tmp_path / "parcels.jsonl",
        prompt=PROMPT,
        analyst="scientific",
        sandbox="strict",
        runs_dir=tmp_path / "runs",
    )
    with pytest.raises(SandboxError, match="strict needs"):
        optimize(config, models=Models(client))
    assert not client.calls
