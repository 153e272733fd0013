"""`kill -9` in the middle of a parallel iteration: resume finishes, finished items are not asked again."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import yaml
from fake_endpoint import Reply, answer, fake_endpoint
from flow_runs import over_items

from autoprompt.settings.records import ModelSettings
from autoprompt.workflow import RunSettings, Workflow
from autoprompt.workflow.engine.executions import open_executions

ITEMS = 50
STEPS = """
    - {id: draft, type: llm, data: {model: m, prompt_template: "draft {{#each.item#}}"}}
    - {id: polish, type: llm, data: {model: m, prompt_template: "polish {{#draft.text#}}"}}
"""
RUN = """
import sys
from autoprompt.settings.records import ModelSettings
from autoprompt.workflow import RunSettings, Workflow
flow, base_url, runs_dir, items = sys.argv[1:5]
settings = RunSettings(models=ModelSettings(model="m", base_url=base_url, constrain="off"))
inputs = {"items": [f"item {n}" for n in range(int(items))]}
Workflow.load(flow).run(inputs, run_id="killed", runs_dir=runs_dir, settings=settings)
"""


def test_resume_after_a_kill_in_item_30_asks_no_finished_item_again(tmp_path: Path) -> None:
    content = over_items(STEPS, "polish.text", is_parallel=True, parallel_nums=4)
    path = tmp_path / "flow.yaml"
    path.write_text(yaml.safe_dump(content), encoding="utf-8")
    reached, killed = threading.Event(), threading.Event()
    asked: list[str] = []

    def reply(body: dict[str, Any]) -> Reply:
        text = str(body["messages"][-1]["content"])
        asked.append(text)
        if not killed.is_set() and text == "polish <draft item 30>":
            reached.set()  # item 30 is half done; this answer never comes to the process that is killed
            return Reply(is_drop=True, hangs_until=killed)
        return answer(f"<{text}>")

    with fake_endpoint(reply) as endpoint:
        command = [
            sys.executable,
            "-c",
            RUN,
            str(path),
            endpoint.base_url,
            str(tmp_path / "runs"),
            str(ITEMS),
        ]
        process = subprocess.Popen(command)
        assert reached.wait(60)
        process.send_signal(signal.SIGKILL)
        assert process.wait() == -signal.SIGKILL
        with open_executions(tmp_path / "runs" / "killed" / "checkpoints.sqlite", "killed") as kept:
            done = {n for n in range(ITEMS) if is_kept(kept, n)}
        killed.set()
        before = list(asked)
        assert 20 < len(done) < ITEMS  # four at once: some behind item 30 may be done, it is not
        assert 30 not in done

        settings = RunSettings(models=ModelSettings(model="m", base_url=endpoint.base_url, constrain="off"))
        result = Workflow.load(path).resume("killed", runs_dir=tmp_path / "runs", settings=settings)

    assert result == {"out": [f"<polish <draft item {n}>>" for n in range(ITEMS)]}
    again = asked[len(before) :]
    for number in done:
        assert f"draft item {number}" not in again
        assert f"polish <draft item {number}>" not in again
    # Answers of unfinished items that had reached the journal are not asked for again either.
    assert "draft item 30" not in again
    twice = [text for text, count in Counter(asked).items() if count > 1]
    assert len(twice) <= 4, twice  # on the wire when the process died


def is_kept(executions: Any, number: int) -> bool:
    from autoprompt.workflow.engine.variables import MISSING

    return executions.part(f"each/item/{number}") is not MISSING


def test_a_failed_run_resumes_at_the_item_that_failed(tmp_path: Path) -> None:
    is_down = threading.Event()
    is_down.set()
    asked: list[str] = []

    def reply(body: dict[str, Any]) -> Reply:
        text = str(body["messages"][-1]["content"])
        asked.append(text)
        if is_down.is_set() and text == "draft item 3":
            return Reply(400, {"error": {"message": "no"}})
        return answer(f"<{text}>")

    with fake_endpoint(reply) as endpoint:
        settings = RunSettings(models=ModelSettings(model="m", base_url=endpoint.base_url, constrain="off"))
        workflow = Workflow.load(over_items(STEPS, "polish.text"))
        inputs = {"items": [f"item {n}" for n in range(6)]}
        with pytest.raises(RuntimeError, match=r"item 4 of 6 \(index 3\) failed"):
            workflow.run(inputs, run_id="r", runs_dir=tmp_path, settings=settings)
        is_down.clear()
        del asked[:]
        result = workflow.resume("r", runs_dir=tmp_path, settings=settings)
    assert result == {"out": [f"<polish <draft item {n}>>" for n in range(6)]}
    assert not any(f"item {n}" in text for n in range(3) for text in asked)
