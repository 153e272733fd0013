"""Of an agent's texts, only those change that make it fail: a tool's description, another's parameter."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest
from fake_endpoint import fake_endpoint
from shop_model import BAD_PARAMETER, GOOD, MISLEADING, SYSTEM, make_agent, reply_to, write_questions

import autoprompt
from autoprompt import RunConfig


def without_descriptions(tools: Any) -> str:
    """The tools of a request as bytes, their descriptions and those of their parameters left out."""
    bare = copy.deepcopy(tools)
    for tool in bare:
        del tool["function"]["description"]
        for parameter in tool["function"]["parameters"]["properties"].values():
            del parameter["description"]
    return json.dumps(bare)


@pytest.mark.parametrize("locked", [(), ("model.system",)], ids=["free", "system locked"])
def test_the_two_bad_descriptions_change_and_nothing_else(
    locked: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with fake_endpoint(reply_to) as endpoint:
        monkeypatch.setenv("SHOP_URL", endpoint.base_url)
        config = RunConfig(
            dataset=write_questions(tmp_path / "questions.jsonl"),
            input_field="text",
            target_field="reply",
            base_url=endpoint.base_url,
            optimizer_model="w",
            locked=locked,
            no_memory=True,
            no_cache=True,
            runs_dir=tmp_path / "runs",
        )
        result = autoprompt.optimize(config, program=make_agent())
    found = result.to_dict()
    assert found["verdict"] == "confirmed"
    assert found["p_value"] < 0.01
    before, after = result.original.components, result.best.components
    changed = {name: text for name, text in after.items() if text != before[name]}
    assert changed == {f"model.tool.{name}": text for name, text in GOOD.items()}
    assert before["model.tool.track_parcel"] == MISLEADING
    assert before["model.tool.find_invoice.number"] == BAD_PARAMETER
    asked = [body for body in endpoint.requests if body["model"] == "m"]
    assert len({without_descriptions(body["tools"]) for body in asked}) == 1
    if locked:
        assert {body["messages"][0]["content"] for body in asked} == {SYSTEM}
