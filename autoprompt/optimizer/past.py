"""What a run left in its folder, finished or cut off, as objects."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from autoprompt.llm.kept.journal import Journal
from autoprompt.optimizer.ending.result import RunResult
from autoprompt.optimizer.search.pool import Pool
from autoprompt.records import Candidate, Origin
from autoprompt.runs import RunFolder
from autoprompt.runs.folder import ORIGINAL_PROMPT
from autoprompt.settings.records import RunConfig
from autoprompt.text.files import read_text


def read_result(folder: RunFolder) -> RunResult | None:
    """The result of a finished run, as it was written; None for an unfinished one."""
    data = folder.read_result()
    if data is None:
        return None
    candidates = folder.read_candidates()
    best, original = candidates[data["best"]["id"]], next(iter(candidates.values()))
    data = {**data, "run_dir": str(folder.path)}  # the folder may have been moved, or be seen from elsewhere
    result = RunResult(data, read_candidate(best), read_candidate(original))
    return with_origin(result, folder)


def with_origin(result: RunResult, folder: RunFolder) -> RunResult:
    """The result whose candidates know the run that they are of, to be scored as there elsewhere too."""
    origin = origin_of(folder)
    best, original = replace(result.best, origin=origin), replace(result.original, origin=origin)
    return replace(result, best=best, original=original)


def origin_of(folder: RunFolder) -> Origin:
    return Origin(f"run {folder.run_id}", folder.read_labels(), run_dir=str(folder.path.absolute()))


def read_candidate(record: Mapping[str, Any]) -> Candidate:
    """The candidate of a line of `candidates.jsonl`."""
    return next(iter(Pool.from_records([record]).entries)).candidate


def load_config(folder: RunFolder) -> RunConfig:
    """The settings that a run was started with."""
    config = folder.read_settings(RunConfig)
    # Its own file holds the text to the letter.
    path = folder.path / ORIGINAL_PROMPT
    if config.prompt is None or not path.exists():  # killed between the two files
        return config
    return config.model_copy(update={"prompt": read_text(path)})


def has_answers(folder: RunFolder) -> bool:
    """Whether a run got so far that a model answered."""
    with Journal(folder.journal_path) as journal:
        return journal.has_answers
