"""A run's result, as `result.json` has it, and a run in its folder read again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

from autoprompt.brief import brief_of, card
from autoprompt.dataset.python_rows import to_frame
from autoprompt.errors import ConfigError, Place, Problem, StoreError
from autoprompt.evaluation.exported import export_run
from autoprompt.optimizer.search.pool import Pool
from autoprompt.records import Candidate, Origin
from autoprompt.runs import RunFolder, RunStore
from autoprompt.runs.folder import SEALED
from autoprompt.runs.result import Pair, Result, Round, Verdict
from autoprompt.runs.resuming import resume_command
from autoprompt.settings.arguments import folder_of
from autoprompt.settings.records import Pick
from autoprompt.stats import Interval

if TYPE_CHECKING:
    import pandas

    from autoprompt.programs.apply import Applied


@dataclass(frozen=True, slots=True)
class RunResult:
    """The result of a run. `to_dict()` is `result.json`.

    Scores, gain, their 95% intervals and the p-value are of the sealed test, in [0, 1]; None if it was not
    opened (`verdict` is "untested").

    Attributes:
        record: Everything that `result.json` holds, as fields.
        best: What the run returns: the cheapest prompt that is about as good as the one with the highest
            score, or that one itself (`Run.end("highest")` is always that one). Equal to `original` if the
            search could confirm nothing.
        original: Your prompt.

    Examples:
        >>> from autoprompt import Run
        >>> result = Run.open("last").result
        >>> result.verdict, result.score, result.best_prompt
        ('not_confirmed', 0.5, 'A or B?')
    """

    record: Result
    best: Candidate
    original: Candidate

    def __repr__(self) -> str:
        names = ("run_id", "verdict", "score", "original_score", "gain", "p_value", "calls", "cost_usd")
        return brief_of(self, ((name, getattr(self, name)) for name in names))

    def _repr_html_(self) -> str:
        return card(self)

    @property
    def verdict(self) -> Verdict:
        """What the sealed test says.

        "confirmed": the best prompt is better, p < .05. "nothing_to_improve": the original was right on every
        row that it was asked before the test. "untested": there is no sealed test, or no budget was left.
        """
        return self.record.verdict

    @property
    def is_confirmed(self) -> bool:
        """Whether the sealed test shows that the best prompt is better."""
        return self.verdict == "confirmed"

    @property
    def score(self) -> float | None:
        """Score of the best prompt."""
        return self.record.best.score

    @property
    def score_interval(self) -> Interval | None:
        """95% interval of `score`."""
        return _interval(self.record.best.ci95)

    @property
    def original_score(self) -> float | None:
        """Score of the original prompt."""
        return self.record.original.score

    @property
    def original_interval(self) -> Interval | None:
        """95% interval of `original_score`."""
        return _interval(self.record.original.ci95)

    @property
    def gain(self) -> float | None:
        """Best minus original, on the rows that both answered."""
        return None if self.record.gain is None else self.record.gain.value

    @property
    def gain_interval(self) -> Interval | None:
        """95% interval of `gain`."""
        return _interval(None if self.record.gain is None else self.record.gain.ci95)

    @property
    def p_value(self) -> float | None:
        """Two-sided and paired: of so large a gap where there is no difference."""
        return self.record.p_value

    @property
    def fixed(self) -> int:
        """Test rows that the best prompt scores higher than the original."""
        return self.record.fixed

    @property
    def broken(self) -> int:
        """Test rows that the best prompt scores lower than the original."""
        return self.record.broken

    @property
    def calls(self) -> int:
        """Requests of the whole run."""
        return self.record.calls or 0

    @property
    def cost_usd(self) -> float | None:
        """Of the whole run; None where a price was not known."""
        return self.record.cost_usd

    @property
    def run_id(self) -> str:
        """Name of the run's folder."""
        return self.record.run_id

    @property
    def run_dir(self) -> Path:
        """The run's folder, with everything that it has kept."""
        return Path(self.record.run_dir)

    @property
    def history(self) -> tuple[Round, ...]:
        """What each round began with and found, in their order; the sealed test last, if it was opened."""
        return self.record.history

    @property
    def message(self) -> str:
        """The verdict in a sentence."""
        return self.record.message

    @property
    def warnings(self) -> tuple[Problem, ...]:
        """What has to be known beside the verdict."""
        return self.record.warnings

    def apply(self, *, dry_run: bool = False) -> Applied:
        """Write the best texts into the source of your own program; see `Run.apply`.

        Args:
            dry_run: Whether only to make the `diff`.

        Returns:
            As `Run.apply`.
        """
        from autoprompt.programs.apply import apply_candidate  # reads Python: not for other runs

        return apply_candidate(self.run_dir, self.best, write=not dry_run)

    @property
    def best_prompt(self) -> str:
        """Text of the best prompt; of several components, each under its name."""
        return self.best.prompt

    @property
    def original_prompt(self) -> str:
        """Text of the original prompt; of several components, each under its name."""
        return self.original.prompt

    def to_dict(self) -> dict[str, Any]:
        """Return what `result.json` holds and `run --json` prints."""
        return self.record.to_dict()

    def to_pandas(self) -> pandas.DataFrame:
        """Return the rows of the sealed test under both prompts, a row for each; none if it was not opened.

        Columns: id, input, expected, original_answer, original_score, best_answer, best_score.

        Raises:
            ConfigError: pandas is not installed.
            StoreError: The run's folder is gone or damaged.
        """
        folder = RunFolder(self.run_dir)
        folder.read_info()
        sides = {name: _sealed(folder, name) for name in ("original", "best")}
        best = sides["best"]
        before = sides["original"] or best  # a run that returns the original has asked it once
        return to_frame(
            {
                "id": name,
                "input": row["input"],
                "expected": row["ground_truth"],
                "original_answer": before.get(name, {}).get("prediction"),
                "original_score": before.get(name, {}).get("score"),
                "best_answer": row["prediction"],
                "best_score": row["score"],
            }
            for name, row in best.items()
        )


def _sealed(folder: RunFolder, side: str) -> dict[str, Mapping[str, Any]]:
    """Return the rows of the sealed test under one prompt, by id."""
    try:
        return {row["example_id"]: row for row in folder.read_predictions(f"{SEALED}{side}")}
    except FileNotFoundError:
        return {}


def _interval(found: Pair | None) -> Interval | None:
    return None if found is None else Interval(*found)


@dataclass(frozen=True, slots=True)
class Run:
    """An optimization in its folder, finished or not. Nothing in the folder is changed or executed.

    Examples:
        >>> from autoprompt import Run
        >>> run = Run.open("last")
        >>> prompt = run.best.prompt
        >>> demos = len(run.candidates[run.best.id].demos)
        >>> yaml = run.export("yaml")
    """

    folder: RunFolder

    def __repr__(self) -> str:
        return f"Run({str(self.folder.path)!r})"

    @classmethod
    def open(cls, run: str | Path, *, runs_dir: str | Path = Path("runs")) -> Run:
        """Return a run.

        Args:
            run: Its id, the beginning of its id, its folder, or "last".
            runs_dir: The folder that ids are looked up in.

        Raises:
            StoreError: There is no such run, several fit, or it is no optimization.
        """
        folder = RunStore(folder_of(runs_dir)).open(run)
        folder.check_has_prompts()
        return cls(folder)

    @property
    def result(self) -> RunResult:
        """The result.

        Raises:
            StoreError: For a run that is not finished.
        """
        found = read_run_result(self.folder)
        if found is None:
            fix = f"Finish it: `{resume_command(self.folder)}`."
            raise StoreError(Problem("run.no-result", f"run {self.folder.run_id} has no result yet", fix=fix))
        return found

    @property
    def best(self) -> Candidate:
        """What the run returns, with its demonstrations.

        Raises:
            StoreError: For a run that is not finished.
        """
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

    def end(self, pick: Pick) -> Candidate:
        """Return one of the tested prompts, whichever the run returns.

        They are the same prompt if no cheaper one was about as good.

        Args:
            pick: "highest" for the highest score, "cheapest" for the cheapest that is about as good.

        Raises:
            ConfigError: For any other `pick`.
            StoreError: The run is not finished, or has not tested its cheaper prompts.
        """
        if pick not in get_args(Pick):
            said = f"expected {' or '.join(map(repr, get_args(Pick)))}, found {pick!r}"
            raise ConfigError(Problem("settings.bad-value", said, Place(setting="pick")))
        return self.candidate(self.folder.end_id(pick))

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

    def apply(self, *, candidate: str = "best", dry_run: bool = False) -> Applied:
        """Write a candidate's texts into the source of your own program, as `autoprompt runs apply` does.

        Only the string literals and the files of prompts that hold the original texts change. If one text has
        no place, or two, nothing is written; `unplaced` says why.

        Args:
            candidate: As in `candidate`.
            dry_run: Whether only to make the `diff`.

        Returns:
            The diff, the files that were written, and texts that could not be placed.

        Raises:
            StoreError: As in `candidate`; or the run has optimized no program, or its source is not here.
        """
        from autoprompt.programs.apply import apply_candidate  # reads Python: not to list runs

        chosen = self.best if candidate == "best" else self.candidate(candidate)
        return apply_candidate(self.folder.path, chosen, write=not dry_run)


def read_run_result(folder: RunFolder) -> RunResult | None:
    """Return the result of a run, as it was written; None for a run that never ended."""
    data = folder.read_result()
    if data is None:
        return None
    best, original = folder.find_candidate("best"), folder.find_candidate("original")
    data = {**data, "run_dir": str(folder.path)}  # the folder may have been moved, or be seen from elsewhere
    record = Result.from_dict(data, folder.result_path)
    result = RunResult(record, read_candidate(best), read_candidate(original))
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
