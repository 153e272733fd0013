"""A label that is rare: what is optimized is the metric that was named, not the share of right rows."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from autoprompt import Models, RunConfig, RunResult, optimize
from autoprompt.llm import ScriptedClient
from autoprompt.llm.client import Completion, Options
from autoprompt.records import Message, Usage
from autoprompt.report import read_summary
from autoprompt.runs import RunFolder

GIVES_UP, MINDS = "Nearly all are ham, so say ham or spam", "Mind the prizes: ham or spam?"


def student(messages: list[Message], options: Options) -> Completion:
    """Finds the spam, and takes a third of the ham for it, unless it is told what to do."""
    del options
    prompt, text = messages[0].content, messages[-1].content
    is_fooled = int(hashlib.md5(text.encode()).hexdigest(), 16) % 100 < 35
    if GIVES_UP in prompt:
        answer = "ham"
    elif MINDS in prompt:
        answer = "spam" if "prize" in text else "ham"
    else:
        answer = "spam" if "prize" in text or is_fooled else "ham"
    return Completion(answer, Usage(5, 1))


def optimized(folder: Path, metric: str, proposal: str) -> RunResult:
    names = [hashlib.md5(str(i).encode()).hexdigest() for i in range(320)]
    rows = [
        {"input": f"{name} {'prize' if i % 8 == 0 else 'news'}", "target": "ham" if i % 8 else "spam"}
        for i, name in enumerate(names)
    ]
    config = RunConfig(
        prompt="ham or spam?",
        metric=metric,
        max_calls=500,
        max_demos=0,
        no_reasoning=True,
        no_memory=True,
        runs_dir=folder,
    )
    models = Models(ScriptedClient(student), ScriptedClient(lambda _: f"```\n{proposal}\n```"))
    return optimize(config, rows=rows, models=models)


def test_a_prompt_that_gives_a_rare_label_up_is_no_gain_of_macro_f1(tmp_path: Path) -> None:
    result = optimized(tmp_path, "macro_f1", GIVES_UP)
    assert result.best == result.original
    # By the share of right rows it is one, and is returned as such.
    assert GIVES_UP in optimized(tmp_path, "exact_match", GIVES_UP).best.prompt


def test_a_prompt_that_sees_it_better_is_found_and_what_was_compared_is_said(tmp_path: Path) -> None:
    result = optimized(tmp_path, "macro_f1", MINDS)
    assert MINDS in result.best.prompt
    assert result.record.validation.measure == "mean recall of the labels"
    assert (result.gain or 0.0) > 0.2

    # The report draws all candidates by the one measure.
    summary = read_summary(RunFolder(result.run_dir))
    original = next(c for c in summary.candidates if c.is_original)
    child = next(c for c in summary.candidates if c.status == "accepted" and not c.is_original)
    assert original.score == pytest.approx(child.parent_score)
    assert original.score != pytest.approx(0.65, abs=0.1)  # the share of right rows
