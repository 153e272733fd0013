"""A run in its folder, finished or not: its result, its candidates, and its prompts for other programs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from autoprompt.errors import Problem, StoreError
from autoprompt.evaluation.exported import export_run
from autoprompt.optimizer.ending.result import RunResult
from autoprompt.optimizer.search.pool import Pool
from autoprompt.records import Candidate, Origin
from autoprompt.runs import RunFolder, RunStore
from autoprompt.runs.resuming import resume_command


@dataclass(frozen=True, slots=True)
class Run:
    """An optimization in its folder, finished or not. Nothing in the folder is changed or executed.

    Example:
        >>> from autoprompt import Run
        >>> run = Run.open("last")
        >>> prompt = run.best.prompt
        >>> demos = len(run.candidates[run.best.id].demos)
        >>> yaml = run.export("yaml")
    """

    folder: RunFolder

    @classmethod
    def open(cls, run: str | Path, *, runs_dir: Path = Path("runs")) -> Run:
        """Find a run.

        Args:
            run: Its id, the beginning of its id, its folder, or "last".
            runs_dir: The folder that ids are looked up in.

        Raises:
            StoreError: There is no such run, several fit, or it is no optimization.
        """
        folder = RunStore(runs_dir).open(run)
        folder.check_has_prompts()
        return cls(folder)

    @property
    def result(self) -> RunResult:
        """The result. Raises StoreError for a run that is not finished."""
        found = read_result(self.folder)
        if found is None:
            fix = f"Finish it: `{resume_command(self.folder)}`."
            raise StoreError(Problem("run.no-result", f"run {self.folder.run_id} has no result yet", fix=fix))
        return found

    @property
    def best(self) -> Candidate:
        """The best prompt, with its demonstrations. Raises StoreError for a run that is not finished."""
        return self.result.best

    @property
    def candidates(self) -> dict[str, Candidate]:
        """All candidates by id, in the order in which they were proposed; the original is the first.

        A score from the search alone does not prove a gain: use `evaluate` or `check` on new rows.
        """
        origin = origin_of(self.folder)
        records = self.folder.read_candidates()
        return {name: replace(read_candidate(record), origin=origin) for name, record in records.items()}

    def candidate(self, name: str) -> Candidate:
        """Return one candidate.

        Args:
            name: Its id, the beginning of its id, "best" or "original".

        Raises:
            StoreError: None or several fit.
        """
        return self.candidates[self.folder.find_candidate(name)["id"]]

    def export(self, format: str = "yaml", *, candidate: str = "best") -> str:
        """Return a prompt in a form that other programs read.

        Args:
            format: "text", "yaml", "openai" or "langchain"; "workflow" for the file of a workflow.
            candidate: As in `candidate`.

        Raises:
            StoreError: No candidate fits, or the run is not finished and the best one is asked for.
            InputError: The run cannot be written in this format.
        """
        return export_run(self.folder, format, candidate=None if candidate == "best" else candidate)


def read_result(folder: RunFolder) -> RunResult | None:
    """Return the result of a finished run, as it was written; None for an unfinished one."""
    data = folder.read_result()
    if data is None:
        return None
    candidates = folder.read_candidates()
    best, original = candidates[data["best"]["id"]], next(iter(candidates.values()))
    data = {**data, "run_dir": str(folder.path)}  # the folder may have been moved, or be seen from elsewhere
    result = RunResult(data, read_candidate(best), read_candidate(original))
    return with_origin(result, folder)


def with_origin(result: RunResult, folder: RunFolder) -> RunResult:
    """Return the result with candidates that know their run, so that they are scored with its labels."""
    origin = origin_of(folder)
    best, original = replace(result.best, origin=origin), replace(result.original, origin=origin)
    return replace(result, best=best, original=original)


def origin_of(folder: RunFolder) -> Origin:
    return Origin(f"run {folder.run_id}", folder.read_labels(), run_dir=str(folder.path.absolute()))


def read_candidate(record: Mapping[str, Any]) -> Candidate:
    """Return the candidate of a line of `candidates.jsonl`."""
    return next(iter(Pool.from_records([record]).entries)).candidate
