"""Every YAML in configs/ is loaded and run to the end with a scripted model."""

from __future__ import annotations

from pathlib import Path

import pytest

from autoprompt import Models, optimize
from autoprompt.batch.spec import is_batch
from autoprompt.llm import ScriptedClient
from autoprompt.records import Message
from autoprompt.settings.resolve import CompleteConfig, resolve

CHECKED_ELSEWHERE = {"clickbait_ci"}  # of other commands: tests/test_ci_example.py
CONFIGS = [
    path
    for path in sorted((Path(__file__).parent.parent / "configs").glob("*.yaml"))
    if path.stem not in CHECKED_ELSEWHERE and not is_batch(path)  # those: tests/batch/test_batch_configs.py
]


def test_every_config_is_linked_from_the_docs() -> None:
    root = Path(__file__).parent.parent
    pages = "".join(
        page.read_text(encoding="utf-8") for page in [root / "README.md", *root.glob("docs/**/*.md")]
    )
    assert "clickbait_zh" in {path.stem for path in CONFIGS}
    assert [path.name for path in CONFIGS if f"configs/{path.name}" not in pages] == []


def _reader(messages: list[Message]) -> str:
    """Answers by the look of a headline, better where it is shown examples; writes prompts when asked to."""
    last = messages[-1].content
    if "<current>" in last or "<prompt>" in last:
        return "```\nSay 1 if the headline hides what happened, else 0.\n```"
    return "1" if len(messages) > 2 and any(w in last.lower() for w in ("you", "this", "why", "!")) else "0"


@pytest.mark.parametrize("path", CONFIGS, ids=lambda p: p.stem)
def test_every_config_runs(path: Path, tmp_path: Path) -> None:
    flags = {
        "runs_dir": tmp_path / "runs",
        "memory_file": tmp_path / "memory.txt",
        "cache_dir": tmp_path,
        "max_cost": None,
    }
    config = resolve(
        CompleteConfig, {k: v for k, v in flags.items() if v is not None}, config_file=path, environ={}
    )
    # A scripted model needs no wait: a limit of requests a minute takes a minute here.
    config = config.model_copy(update={"max_iterations": 1, "rpm": None, "tpm": None})
    result = optimize(config, models=Models(ScriptedClient(_reader)))
    data = result.to_dict()
    assert data["status"] == "finished"
    assert data["calls"] <= (config.max_calls or 10_000)
    assert (tmp_path / "runs" / result.run_id / "result.json").exists()
