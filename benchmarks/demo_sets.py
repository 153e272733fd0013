"""Sets of demonstrations on a real model: rows of a file, a prompt that shows some, what it answers."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from autoprompt import EvaluationReport, RunConfig, evaluate
from autoprompt.optimizer.search import demos
from autoprompt.records import Candidate, Example


def set_arguments(about: str | None, *, files: str, draws: str) -> argparse.ArgumentParser:
    """Return the options of a script that draws sets. files: in the folder of rows. draws: what is drawn."""
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help=f"folder with {files}")
    parser.add_argument("--task", action="append", required=True, metavar="NAME=PROMPT")
    parser.add_argument("--draws", type=int, default=2, help=draws)
    parser.add_argument("--cache-dir", type=Path, help="answers are kept here")
    return parser


def with_labels(prompt: str, rows: Iterable[Example]) -> tuple[str, tuple[str, ...]]:
    """Return the prompt with the answers of `rows` in place of `{labels}`, and those answers."""
    labels = tuple(sorted({row.target_text for row in rows}))
    return prompt.replace("{labels}", ", ".join(labels)), labels


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
