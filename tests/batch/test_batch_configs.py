"""Every batch file in configs/ runs, its first seed to the end, with a scripted model."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from autoprompt import Models
from autoprompt.batch import load_batch, run_batch
from autoprompt.batch.spec import is_batch
from autoprompt.llm import ScriptedClient
from autoprompt.records import Message

ROOT = Path(__file__).parents[2] / "configs"
BATCHES = [path for path in sorted(ROOT.glob("*.yaml")) if is_batch(path)]


def _reader(messages: list[Message]) -> str:
    last = messages[-1].content
    if "<current>" in last or "<prompt>" in last:
        return "```\nSay 1 if the headline hides what happened, else 0.\n```"
    return "1" if any(word in last.lower() for word in ("you", "this", "why", "!", "？", "！")) else "0"


@pytest.mark.parametrize("path", BATCHES, ids=lambda p: p.stem)
def test_every_batch_config_runs(path: Path, tmp_path: Path) -> None:
    batch = load_batch([path], environ={})
    quick = {
        "max_iterations": 1,
        "max_val": 12,
        "max_test": 6,
        "cache_dir": tmp_path,
        "memory_file": tmp_path / "m",
    }
    trials = [replace(t, config=t.config.model_copy(update=quick)) for t in batch.trials]
    result = run_batch(
        replace(batch, trials=tuple(trials)),
        runs_dir=tmp_path / "runs",
        only=["seed=0"],
        models=Models(ScriptedClient(_reader, identity="reader")),
    )
    assert not result.failed
    done = [row for row in result.rows if row.status == "finished"]
    assert len(done) == sum(trial.config.seed == 0 for trial in trials) > 0
