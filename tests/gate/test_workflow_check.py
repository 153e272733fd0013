"""`autoprompt.check` of a workflow instead of one prompt."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from autoprompt import CheckConfig, CheckReport, Models, RunConfig, check
from autoprompt.errors import BudgetTooSmallError, ConfigError
from autoprompt.gate import write_baseline
from autoprompt.llm import ScriptedClient
from autoprompt.llm.client import Options
from autoprompt.records import Message

FLOW = """\
name: sorter
nodes:
  - {id: start, type: start, data: {variables: [item]}}
  - id: look
    type: llm
    data:
      prompt_template:
        - {role: system, text: Say which shape the item has.}
        - {role: user, text: "{{#start.item#}}"}
  - id: end
    type: end
    data:
      outputs: [{variable: kind, value_selector: [look, text]}]
"""


def answer(messages: list[Message], options: Options) -> str:
    """Knows each item's kind, unless it is told to be quick."""
    number = int(messages[-1].content.split()[-1])
    return "A" if number % 2 or "quick" in messages[0].content else "B"


@pytest.fixture
def config(tmp_path: Path) -> RunConfig:
    rows = [{"item": f"item {n}", "kind": "A" if n % 2 else "B"} for n in range(20)]
    (tmp_path / "items.jsonl").write_text("".join(json.dumps(r) + "\n" for r in rows), encoding="utf-8")
    (tmp_path / "flow.yaml").write_text(FLOW, encoding="utf-8")
    return RunConfig(
        dataset=tmp_path / "items.jsonl",
        workflow=tmp_path / "flow.yaml",
        input_field="item",
        target_field="kind",
        no_cache=True,
        concurrency=1,
    )


def run(config: RunConfig, folder: Path, *, is_update: bool = False) -> tuple[CheckReport, set[int]]:
    samples = set()

    def noting(messages: list[Message], options: Options) -> str:
        samples.add(options.sample)
        return answer(messages, options)

    report = check(
        config,
        CheckConfig(baseline=folder / "b.json", repeat=2),
        is_update=is_update,
        models=Models(ScriptedClient(noting)),
    )
    return report, samples


def test_a_workflow_that_became_worse_fails(config: RunConfig, tmp_path: Path) -> None:
    first, samples = run(config, tmp_path, is_update=True)
    assert (first.score, samples) == (1.0, {0, 1})
    write_baseline(tmp_path / "b.json", first.measurement.as_baseline())
    same, _ = run(config, tmp_path)
    assert (same.is_passed, same.notes) == (True, ())
    (tmp_path / "flow.yaml").write_text(FLOW.replace("Say which", "Be quick, say which"), encoding="utf-8")
    worse, _ = run(config, tmp_path)
    assert worse.message.startswith("Failed: exact_match fell from 1.000 to 0.500 on 20 cases: 10 broke")
    assert "the prompt has changed" in worse.notes[0]


def test_a_check_does_not_begin_where_the_cap_is_too_small_for_every_node(
    config: RunConfig, tmp_path: Path
) -> None:
    look = FLOW[FLOW.index("  - id: look") : FLOW.index("  - id: end")]
    flow = FLOW.replace(look, look + look.replace("id: look", "id: again"))
    (tmp_path / "flow.yaml").write_text(flow, encoding="utf-8")
    client = ScriptedClient(answer)
    with pytest.raises(BudgetTooSmallError, match="20 rows, 2 each, calls a time: 2"):
        check(
            config.model_copy(update={"max_calls": 79}),
            CheckConfig(baseline=tmp_path / "b.json", repeat=2),
            is_update=True,
            models=Models(client),
        )
    assert client.calls == []


def test_a_workflow_and_an_exported_prompt_exclude_each_other(config: RunConfig, tmp_path: Path) -> None:
    exported = tmp_path / "e.yaml"
    exported.write_text("components: {prompt: Name it.}\n", encoding="utf-8")
    with pytest.raises(ConfigError, match=r"cannot be combined with a single prompt, found "):
        check(config, CheckConfig(baseline=tmp_path / "b.json", exported=exported), is_update=True)
