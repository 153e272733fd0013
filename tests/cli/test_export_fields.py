"""An export is scored on the file that its run was made from, without a sidecar or flags that name fields."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from called import call
from endpoint import KEY, Endpoint, write_messages

from autoprompt.errors import ConfigError
from autoprompt.evaluation.exported import Exported
from autoprompt.evaluation.scoring import evaluate
from autoprompt.records import Candidate, Origin
from autoprompt.settings.records import RunConfig


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, endpoint: Endpoint) -> Path:
    monkeypatch.chdir(tmp_path)
    write_messages(tmp_path, endpoint.base_url, range(60))
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    return tmp_path


def test_an_export_brings_the_fields_of_its_rows(endpoint: Endpoint) -> None:
    call("run", "--config", "c.yaml", "--set", "max_iterations=1")
    call("runs", "export", "last", "--to", "best.yaml")
    assert Exported.load("best.yaml").target_field == "priority"
    Path("t.task.yaml").unlink()
    model = ("--model", "m", "--base-url", endpoint.base_url, "--dataset", "t.jsonl")
    asked = ("--from", "best.yaml", *model)
    assert json.loads(call("eval", *asked, "--json").stdout)["score"] == 1.0
    against = json.loads(call("eval", *model, "--prompt", "x", "--against", "@best.yaml", "--json").stdout)
    assert against["against"]["score"] == 1.0
    call("check", *asked, "--baseline", "b.json", "--update-baseline")
    # A name of one's own goes first, by whatever way it comes.
    assert "no field 'queue'" in call("eval", *asked, "--target-field", "queue", code=3).stderr
    Path("t.task.yaml").write_text("target_field: customer\n", encoding="utf-8")
    assert "no field 'customer'" in call("eval", *asked, code=3).stderr


def test_two_exports_with_other_targets_are_compared_only_where_the_settings_name_one() -> None:
    one, other = (
        Candidate(
            {"prompt": "Sort."}, origin=Origin(f"{name}.yaml", input_field="message", target_field=name)
        )
        for name in ("priority", "queue")
    )
    rows = [{"message": f"m {n}", "priority": "a", "queue": "b"} for n in range(3)]
    with pytest.raises(
        ConfigError, match=r"the target field is 'priority' in priority\.yaml and 'queue' in .* target_field"
    ):
        evaluate(RunConfig(), rows=rows, candidate=one, against=other)
