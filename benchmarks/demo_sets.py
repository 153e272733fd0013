"""Sets of demonstrations on a real model: rows of a file, a prompt that shows some, what it answers."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from autoprompt import EvaluationReport, RunConfig, evaluate
from autoprompt.optimizer.search import demos
from autoprompt.records import Candidate, Example


def read_rows(path: Path) -> list[Example]:
    rows = map(json.loads, path.read_text(encoding="utf-8").splitlines())
    return [Example(str(i), row["input"], row["target"], {}) for i, row in enumerate(rows)]


def showing(prompt: str, shown: Iterable[Example]) -> Candidate:
    return Candidate(components={"prompt": prompt}, demos=tuple(map(demos.to_demo, shown)))


def ask(
    rows: Iterable[Example], labels: Sequence[str], asked: Candidate, cache_dir: Path | None
) -> EvaluationReport:
    """On the embedded model. cache_dir: where answers are kept; None: where they usually are."""
    where: dict[str, Any] = {"cache_dir": cache_dir} if cache_dir else {}
    given: list[dict[str, Any]] = [{"input": row.input, "target": row.target} for row in rows]
    return evaluate(RunConfig(model="local", labels=tuple(labels), **where), rows=given, candidate=asked)
