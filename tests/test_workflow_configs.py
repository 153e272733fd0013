"""Every workflow in configs/ is checked, drawn and run with its mocks."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from autoprompt import Models, RunConfig, optimize
from autoprompt.llm import ScriptedClient
from autoprompt.llm.client import Completion, Options
from autoprompt.records import Message
from autoprompt.workflow.file.validation import validate
from autoprompt.workflow.flow_run import FlowRun, load_tools, read_inputs, read_mocks_file

ROOT = Path(__file__).parent.parent
FOLDER = ROOT / "configs" / "workflows"
TOOLS = FOLDER / "desk_tools.py"
INPUTS: dict[str, dict[str, Any]] = {
    "triage": {"message": "Order 58213 was promised for Monday."},
    "improve": {"text": "we was going to the shop becuase of milk"},
    "digest": read_inputs((), FOLDER / "digest.inputs.yaml"),
}
OUTPUTS: dict[str, dict[str, Any]] = {
    "triage": {"queue": "L2", "ticket": "L2 | order 58213 | lamp | Parcel is late", "help": None},
    "improve": {
        "text": "We went to the shop for milk.",
        "score": 9,
        "history": ["We went to the shop for milk."],
        "passes": 1,
    },
    "digest": {"digest": "- Call the plumber\n" * 3, "lines": ["Call the plumber"] * 3},
}


def workflows() -> list[Path]:
    return [p for p in sorted(FOLDER.glob("*.yaml")) if p.name.count(".") == 1]


def run(name: str, folder: Path, mocks: dict[str, Any], inputs: dict[str, Any]) -> dict[str, Any]:
    flow = FlowRun(FOLDER / f"{name}.yaml", RunConfig(no_cache=True), folder, mocks=mocks, tools=TOOLS)
    for _ in flow.stream(inputs):
        pass
    flow.check()
    return flow.outputs


def test_none_is_forgotten() -> None:
    assert {path.stem for path in workflows()} == set(INPUTS) == set(OUTPUTS)


@pytest.mark.parametrize("path", workflows(), ids=lambda p: p.stem)
def test_a_workflow_is_without_faults_and_runs_with_its_mocks(path: Path, tmp_path: Path) -> None:
    load_tools(TOOLS)
    assert validate(path) == []
    mocks = read_mocks_file(path.with_name(f"{path.stem}.mocks.yaml"))
    found = run(path.stem, tmp_path, mocks, INPUTS[path.stem])
    assert {n: v.strip() if isinstance(v, str) else v for n, v in found.items()} == {
        n: v.strip() if isinstance(v, str) else v for n, v in OUTPUTS[path.stem].items()
    }


def test_a_question_for_the_first_line_gets_no_ticket(tmp_path: Path) -> None:
    found = run(
        "triage", tmp_path, {"classify": {"outputs": {"class_name": "L1"}}}, {"message": "Open today?"}
    )
    assert found == {"queue": "L1", "ticket": None, "help": "See our help pages, or ask L1: Open today?"}


def test_a_text_is_improved_until_the_passes_are_over(tmp_path: Path) -> None:
    mocks = {"improve": {"outputs": {"text": "better"}}, "judge": {"outputs": {"score": 3}}}
    found = run("improve", tmp_path, mocks, {"text": "bad"})
    assert (found["passes"], found["history"]) == (3, ["better"] * 3)


def desk(messages: list[Message], options: Options) -> Completion:
    """Knows the lines where it is told of them or shown messages; writes prompts when asked to."""
    last = messages[-1].content
    if options.role == "optimizer":
        if "<current>" not in last:
            return Completion("[classify.instruction] Say who takes what.")
        current = last.split("<current>\n")[1].split("\n</current>")[0]
        return Completion(f"```\n{current} L1 explains.\n```")
    if not options.labels:
        return Completion('{"order": "", "item": ""}' if "JSON" in messages[0].content else "Help wanted")
    if len(messages) < 6:
        return Completion("L1")
    is_asking = last.endswith("?")
    return Completion("L1" if is_asking else "L2" if "order" in last.lower() else "L3")


def test_the_triage_is_optimized_on_its_dataset(tmp_path: Path) -> None:
    settings = RunConfig(
        dataset=ROOT / "datasets" / "triage.jsonl",
        workflow=FOLDER / "triage.yaml",
        tools=TOOLS,
        preset="quick",
        max_iterations=1,
        no_memory=True,
        no_cache=True,
        runs_dir=tmp_path,
        concurrency=1,
    )
    found = optimize(settings, models=Models(ScriptedClient(desk)))
    assert found.verdict == "confirmed"
    assert found.best.changed_since(found.original) == ("classify.instruction",)
    assert set(found.best.components) == {"classify.instruction", "extract.instruction", "ticket.ext_1.user"}
    rows = (
        (tmp_path / found.run_id / "predictions" / "test-best.jsonl").read_text(encoding="utf-8").splitlines()
    )
    traces = [[step["node"] for step in json.loads(row)["trace"]] for row in rows]
    assert ["classify", "help_page"] in traces
    assert ["classify", "extract", "ticket.ext_1", "ticket"] in traces
