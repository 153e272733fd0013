"""Records the run that `autoprompt demo` plays: the embedded model on the headlines, 8 minutes on idle cores.

    python benchmarks/record_demo.py

A run that was interrupted is recorded by `resume`: its answers come from its journal.
"""

from __future__ import annotations

import json
import lzma
import sys
from typing import Any

from autoprompt.cli.demo import FLEETING, RECORDING, RUN_DIR, RUN_ID
from autoprompt.optimizer.api import optimize, resume
from autoprompt.runs import RunFolder
from autoprompt.settings.resolve import CompleteConfig, resolve

FILES = (
    "*_prompt.txt",
    "candidates.jsonl",
    "result.json",
    "labels.json",
    "fields.json",
    "predictions/*.jsonl",
)
SPENT = ("calls", "tokens", "cost_usd")
PLACES = ("memory_file", "runs_dir", "cache_dir")  # of the machine that recorded it


def main(run: str | None) -> None:
    events: list[dict[str, Any]] = []
    if run is None:
        given = {"dataset": "clickbait.jsonl", "model": "local", "preset": "quick", "no_memory": True}
        result: Any = optimize(
            resolve(CompleteConfig, given, config_file=None, environ={}), on_event=events.append
        )
    else:
        result = resume(run, on_event=events.append)
    RECORDING.write_bytes(packed(RunFolder(result.run_dir), events))
    print(f"{RECORDING}: {RECORDING.stat().st_size:,} bytes, {len(events)} events")


def packed(folder: RunFolder, events: list[dict[str, Any]]) -> bytes:
    """The recording, without what belongs to this machine."""
    paths = sorted(path for pattern in FILES for path in folder.path.glob(pattern))
    files = {str(path.relative_to(folder.path)): path.read_text(encoding="utf-8") for path in paths}
    settings = {name: value for name, value in folder.read_config().items() if name not in PLACES}
    recording = {
        "settings": {**settings, "dataset": "clickbait.jsonl"},
        "files": files,
        "events": [_told(event) for event in events if event["event"] != "warning"],
    }
    text = json.dumps(recording, ensure_ascii=False, separators=(",", ":"))
    for path in {str(folder.path), str(folder.path.absolute())}:
        text = text.replace(json.dumps(path)[1:-1], RUN_DIR)
    return lzma.compress(text.replace(folder.run_id, RUN_ID).encode(), preset=9)


def _told(event: dict[str, Any]) -> dict[str, Any]:
    if event["event"] == FLEETING:
        return {**event, "spent": {name: event["spent"][name] for name in SPENT}}
    return {**event, "resumed": False} if event["event"] == "run_started" else event


if __name__ == "__main__":
    main(sys.argv[1] if sys.argv[1:] else None)
