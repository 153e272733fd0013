"""Run folders for tests that look at runs: a real small one, and one as bad as it can be."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fakes import World, run_config, writer

from autoprompt import Models, optimize
from autoprompt.errors import Problem
from autoprompt.llm import ScriptedClient
from autoprompt.llm.prices import Cost
from autoprompt.records import EvaluatedRow, Message, ToolCall
from autoprompt.runs import RunFolder, RunStore
from autoprompt.runs.result import Round

# What a page, a terminal and a data block must bear. Each would do harm where it is not escaped.
HOSTILE = (
    "<script>window.hacked = 1</script>",
    "</script><script>window.hacked = 2</script>",
    "</style><style>body{display:none}</style>",
    '<img src=x onerror="window.hacked = 3">',
    '"><svg onload=window.hacked=4>',
    "<!--<script>",
    "]]><x/>&amp;&lt;{{ 7 * 7 }}{% raw %}",
    "javascript:window.hacked=5",
    "\x1b[31mred\x1b[2J\x1b]0;title\x07",
    "right\u202eleft\u2066mark\u200f",
    "\ud800 half a pair, \u2028 and \u2029 lines, \x00 nul",
    "标题党：你绝对想不到的结果",
)


def real_run(folder: Path, world: World | None = None, **settings: Any) -> RunFolder:
    """A run of the real optimizer on a scripted model, in `folder/runs`."""
    world = world or World(base=0.2, rule_gain=0.5, demo_gain=0.4)
    models = Models(ScriptedClient(world.student, name="student"), ScriptedClient(writer, name="writer"))
    config = run_config(folder, **{"max_calls": 900, "max_iterations": 4, **settings})
    return RunStore(folder / "runs").open(optimize(config, models=models).run_id)


def row(number: int, text: str, target: str, answer: str, **more: Any) -> EvaluatedRow:
    is_correct = answer == target
    return EvaluatedRow(f"row{number}", text, answer, target, is_correct, float(is_correct), **more)


def _turns(number: int, text: str) -> tuple[Message, ...]:
    """A conversation of nothing but this text, for every second row."""
    called = Message("assistant", text, (ToolCall("c", text, text),))
    return (Message("user", text), called, Message("tool", text), Message("user", text)) if number % 2 else ()


def _round(number: int, text: str, candidate: str) -> dict[str, Any]:
    case = {"input": text[:200], "prediction": text[:200], "ground_truth": text[:200]}
    scores = (0.5, 0.5, Cost(0.001, "usd"))
    one = Round(number, "train", candidate, text, 2, 1, 2, (case,), text, *scores, True, 9, "01-train.jsonl")
    return one.to_dict()


def hostile_run(runs: Path, texts: Sequence[str] = HOSTILE, *, longest: int = 100_000) -> RunFolder:
    """A finished run in which every text of model, dataset and user is one of `texts`, and one is long."""
    texts = [*texts, "long " * (longest // 5), "x" * longest]
    everything = "\n".join(texts)
    folder = RunStore(runs).create(
        {"dataset": Path(f"{texts[0].replace('/', '')}.jsonl"), "model": texts[3], "prompt": everything}
    )
    demos: list[dict[str, Any]] = [{"input": text, "output": text} for text in texts]
    demos += [{"messages": [turn.to_dict() for turn in _turns(1, text)], "output": text} for text in texts]
    ids = {"original": "a" * 12, "best": "b" * 12}
    common = {
        "parents": [],
        "change": {"note": everything},
        "scores": {"v1": 1.0, "v2": 0.0},
        "confidence": {},
    }
    folder.append_candidates(
        [
            _candidate(ids["original"], "original", 0, {"prompt": texts[0]}, [], common),
            _candidate(
                ids["best"],
                texts[1],
                1,
                {"prompt": everything},
                demos,
                {**common, "parents": [ids["original"]]},
            ),
        ]
    )
    folder.append_event(
        {
            "event": "run_started",
            "max_iterations": 2,
            "budget": {"max_calls": 50},
            "lessons_read": texts,
            "warnings": [Problem.plain(text).to_dict() for text in texts],
        }
    )
    folder.append_event(
        {
            "event": "candidate_settled",
            "id": ids["best"],
            "accepted": True,
            "score": 0.9,
            "rows": 2,
            "parent_score": 0.5,
            "p_value": 0.03,
            "calls": 12,
        }
    )
    folder.append_event({"event": "best_changed", "id": ids["best"], "score": 0.9, "rows": 2, "calls": 12})
    for text in texts:
        lesson = {"change": text, "verdict": "better", "gain": 0.4, "rows": 2}
        folder.append_event({"event": "lesson", "text": f"[better +0.40 on 2 rows] {text}", **lesson})
    rows = [
        row(n, text, target, answer, reason=text, error=text if n % 5 == 4 else None, turns=_turns(n, text))
        for n, text in enumerate(texts)
        for target, answer in [(texts[n % 3], texts[(n + 1) % 3])]
    ]
    folder.write_predictions("test-original", rows)
    folder.write_predictions(
        "test-best",
        [row(n, r.input, r.ground_truth, r.ground_truth, turns=r.turns) for n, r in enumerate(rows)],
    )
    side = {"score": 0.5, "ci95": [0.4, 0.6], "n": len(rows), "tokens_per_call": 20.0}
    folder.write_text("original_prompt.txt", texts[0])
    folder.write_result(
        {
            "status": "finished",
            "stop_reason": texts[1],
            "verdict": "confirmed",
            "message": texts[0],
            "metric": texts[2],
            "original": side,
            "best": {
                **side,
                "score": 0.9,
                "id": ids["best"],
                "components": {"prompt": everything},
                "demos": demos,
            },
            "gain": {"value": 0.4, "ci95": [0.1, 0.6]},
            "p_value": 0.01,
            "fixed": 4,
            "broken": 0,
            "left_out": 0,
            "validation": {"original": 0.5, "best": 0.9, "rows": 2, "chose_the_winner": True},
            "calls": 40,
            "tokens": {"task": 100, "optimizer": 10},
            "spending": {
                "task": {"calls": 40, "prompt_tokens": 90, "completion_tokens": 10, "cost_usd": None}
            },
            "cost_usd": None,
            "seconds": 3.0,
            "splits": {
                "sizes": {"train": 2, "val": 2, "test": 2},
                "sha256": {"test": texts[0]},
                "test_opened": 3,
            },
            "candidates": {"tried": 1, "accepted": 1},
            "history": [_round(number, text[:4000], ids["best"]) for number, text in enumerate(texts, 1)],
            "model": texts[3],
            "optimizer_model": texts[4],
            "warnings": [Problem.plain(text).to_dict() for text in texts],
        }
    )
    return folder


def _candidate(
    candidate_id: str,
    operator: str,
    iteration: int,
    components: dict[str, str],
    demos: list[dict[str, str]],
    more: dict[str, Any],
) -> dict[str, Any]:
    return {
        "id": candidate_id,
        "operator": operator,
        "iteration": iteration,
        "components": components,
        "demos": demos,
        "status": "accepted",
        "step": iteration,
        **more,
    }
