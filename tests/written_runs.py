"""Runs written by hand, in no time: what stands in their folders is what a run writes there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from autoprompt.runs import RunFolder, RunStore


def begin(runs: RunStore, name: str = "rows", **settings: Any) -> RunFolder:
    """A run that has just started; `tell` goes on."""
    folder = runs.create(
        {"dataset": Path(f"{name}.jsonl"), "model": "m", "prompt": "Say 0 or 1.", **settings}
    )
    folder.append_event(
        {
            "event": "run_started",
            "run_id": folder.run_id,
            "resumed": False,
            "model": "m",
            "optimizer_model": "m",
            "sizes": {"train": 4, "val": 4, "test": 4},
            "max_iterations": 3,
            "budget": {"max_calls": 200},
            "warnings": [],
        }
    )
    tell(folder, "node_started", node="predict", iteration=1)
    return folder


def tell(folder: RunFolder, event: str, **more: Any) -> None:
    folder.append_event({"event": event, **more})


def propose(folder: RunFolder, candidate: str, change: str = "added: Mind the tone.") -> None:
    tell(
        folder,
        "candidate_proposed",
        id=candidate,
        operator="rewrite",
        parents=["0" * 12],
        change=change,
    )


def settle(folder: RunFolder, candidate: str, score: float, *, accepted: bool = True) -> None:
    tell(
        folder,
        "candidate_settled",
        id=candidate,
        accepted=accepted,
        score=score,
        rows=16,
        parent_score=0.5,
        p_value=0.01,
    )
