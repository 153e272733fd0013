"""Runs in their folder: making, finding, listing and removing them; how often their tests were opened."""

from __future__ import annotations

import difflib
import re
import secrets
import shutil
import unicodedata
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Literal

import yaml
from filelock import FileLock

from autoprompt.dataset.python_rows import forget_rows, is_given
from autoprompt.errors import Place, Problem, StoreError
from autoprompt.records import Share, validated
from autoprompt.runs.folder import SCHEMA_VERSION, RunFolder
from autoprompt.runs.marks import mark
from autoprompt.runs.result import CallCost
from autoprompt.runs.resuming import resume_command
from autoprompt.runs.spending import from_journal, total_cost
from autoprompt.runs.watch import now
from autoprompt.text.display import without_secrets
from autoprompt.text.files import read_bytes, read_jsonl, to_json, to_yaml, write_jsonl, write_text
from autoprompt.text.names import counted

BESIDE_TRIALS = ("memory", "logs")  # folders of a batch that are no runs
LAST = "last"  # a name for the newest run; `remove` does not know it, since a run may have begun meanwhile
_DATED = re.compile(r"\d{8}-\d{6}-")
Stage = Literal["finished", "running", "interrupted"]
Status = Stage | Literal["broken"]


@dataclass(frozen=True, slots=True)
class RunLine:
    """One line of the list of runs. A value is null if the run does not tell it yet."""

    run_id: str
    """Name of the run's folder."""
    path: Path
    """Path of the run's folder."""
    status: Status
    """Whether it has ended."""
    kind: str = ""
    """`optimize`, `science`, `workflow` or `batch`; empty for a broken folder."""
    created: str = ""
    """Time in UTC, as ISO 8601."""
    dataset: str | None = None
    """Path of the dataset."""
    model: str | None = None
    """Name of the task model."""
    original: Share | None = None
    """Score of the original on the sealed test."""
    best: Share | None = None
    """Score of the best on the sealed test."""
    highest: Share | None = None
    """Score of the tested prompt with the highest score, if the best is the cheaper one."""
    original_call: CallCost | None = None
    """Cost of a call with the original."""
    best_call: CallCost | None = None
    """Cost of a call with the best."""
    highest_call: CallCost | None = None
    """Cost of a call with the one that has the highest score, if the best is the cheaper one."""
    validation_original: Share | None = None
    """Score of the original on validation, if no sealed test was scored."""
    validation_best: Share | None = None
    """Score of the best on validation, if no sealed test was scored. It may be too high."""
    verdict: str | None = None
    """What the sealed test says."""
    calls: int | None = None
    """Requests of the run."""
    cost_usd: float | None = None
    """US dollars; null if a price is not known."""
    problem: str = ""
    """Why a broken folder cannot be read."""
    name: str = ""
    """What you call the run."""
    tags: tuple[str, ...] = ()
    """Your tags."""
    notes: str = ""
    """Your notes."""


class RunStore:
    """The folder of runs. It need not exist before the first run."""

    def __init__(self, runs_dir: Path) -> None:
        self.runs_dir = runs_dir

    def create(
        self,
        config: Mapping[str, Any],
        *,
        kind: str = "optimize",
        name: str | None = None,
        run_id: str | None = None,
    ) -> RunFolder:
        """Return a new run with its settings in `config.yaml`, secrets left out.

        config: plain data and paths; relative paths are made absolute, so that it can be used from anywhere.
        name: a word for the id; default: the dataset's, else the kind.
        run_id: the whole id instead.
        The id (date-time-name-number) is unique, also among processes that start at the same moment.

        Raises:
            StoreError: If there is a run of this id.
        """
        dataset = config.get("dataset") or config.get("train")
        word = _slug(name or (Path(str(dataset)).stem if dataset else "")) or _slug(kind) or "run"
        path = None
        try:
            self.runs_dir.mkdir(parents=True, exist_ok=True)
            path = self._new_folder(word) if run_id is None else self._named_folder(run_id)
            _fill(path, config, kind)
        except OSError as error:
            if path is not None:
                shutil.rmtree(path, ignore_errors=True)  # `last` is the run before it
            said, fix = f"cannot create a run here ({error.strerror})", "Choose another {runs_dir}."
            raise StoreError(
                Problem("run.no-place", said, Place(self.runs_dir), fix, {"runs_dir": None})
            ) from error
        return RunFolder(path)

    def _new_folder(self, word: str) -> Path:
        while True:
            run_id = f"{datetime.now():%Y%m%d-%H%M%S}-{word}-{secrets.token_hex(2)}"
            try:
                (self.runs_dir / run_id).mkdir()  # fails if it is there: two processes never get the same
            except FileExistsError:
                continue
            return self.runs_dir / run_id

    def _named_folder(self, run_id: str) -> Path:
        try:
            (self.runs_dir / run_id).mkdir()
        except FileExistsError:
            said, fix = f"run {run_id} already exists", "Resume it, or choose another id."
            raise StoreError(Problem("run.exists", said, Place(self.runs_dir), fix)) from None
        return self.runs_dir / run_id

    def open(self, run: str | Path) -> RunFolder:
        """Return the run with this id, beginning of one or name, in this folder, or the `last` one."""
        newest = self._folders()[:1] if run == LAST else []
        folder = RunFolder(newest[0] if newest else self._find(str(run)))
        folder.read_info()
        return folder

    def _find(self, run: str) -> Path:
        ids = [path.name for path in self._folders()]
        run = run.rstrip("/") or run  # as a shell completes the name of a folder
        if run in ids:
            return self.runs_dir / run
        fitting = [run_id for run_id in ids if run and run_id.startswith(run)]
        if len(fitting) == 1:
            return self.runs_dir / fitting[0]
        if fitting:
            said = f"{run!r} matches {counted(len(fitting), 'run')}: {', '.join(sorted(fitting))}"
            raise StoreError(Problem("run.several", said, fix="Give more of the id."))
        path = Path(run)
        if run and (path / "run.json").is_file():
            return path if path.name.strip(".") else path.absolute()  # `.` names no run
        if named := [line.run_id for line in self.list() if run and line.name == run]:
            if len(named) == 1:
                return self.runs_dir / named[0]
            said = f"{run!r} is the name of {counted(len(named), 'run')}: {', '.join(sorted(named))}"
            raise StoreError(Problem("run.several", said, fix="Give the id."))
        close = difflib.get_close_matches(run, ids, n=3, cutoff=0.6)
        latest = f"The latest is {ids[0]}." if ids else "There are none yet."
        hint = f"Did you mean {' or '.join(close)}?" if close else latest
        raise StoreError(Problem("run.unknown", f"no run {run!r} in {self.runs_dir}", fix=hint))

    def _folders(self) -> list[Path]:
        """Newest first. A hidden folder is one that is being removed."""
        if not self.runs_dir.is_dir():
            return []
        found = (
            path
            for path in self.runs_dir.iterdir()
            if path.is_dir()
            and not path.name.startswith(".")
            and (path.name not in BESIDE_TRIALS or (path / "run.json").exists())
        )
        return sorted(found, key=_begun, reverse=True)

    @property
    def openings_path(self) -> Path:
        """How often rows of sealed tests were opened by runs of this store; see `record_opening`."""
        return self.runs_dir / "test_openings.jsonl"

    def list(self) -> list[RunLine]:
        """All runs, newest first. A folder that cannot be read is listed as broken, with the reason."""
        return [summarize(RunFolder(path)) for path in self._folders()]

    def interrupted_twin(self, folder: RunFolder) -> RunLine | None:
        """Return the newest other run with the settings of `folder` that was cut off after its first answers.

        None where a run with these settings has ended since.
        """
        settings = read_bytes(folder.config_path)
        for other in map(RunFolder, self._folders()):
            try:
                is_twin = other.run_id != folder.run_id and read_bytes(other.config_path) == settings
            except OSError:  # none of ours, not for us, or being removed
                continue
            line = summarize(other) if is_twin else None
            if line is not None and line.status == "finished":
                return None
            if line is not None and line.status == "interrupted" and line.calls:
                return line
        return None

    def check_known(self, run: str | Path) -> None:
        """Check that there is such a run, broken or not.

        Raises:
            StoreError: If there is none, or several begin so.
        """
        self._to_remove(str(run))

    def remove(self, run: str | Path) -> Path:
        """Delete a run for good and return where it lay.

        A broken folder can be removed as well, by its full id. Rows that a program had handed over go with
        the last run that has them.

        Raises:
            StoreError: For one that a process holds.
        """
        path = self._to_remove(str(run))
        data = [file for file in _data_of(RunFolder(path)) if is_given(file)]
        with RunFolder(path).lock():
            # Renamed first, so that a deletion that is cut short leaves no half run in the listing.
            doomed = path.with_name(f".{path.name}.removed")
            path.rename(doomed)
        from autoprompt.sandbox import untrusted  # not to list runs

        untrusted.remove_tree(doomed)
        if data:
            others = (RunFolder(other).config_path for other in self._folders())
            forget_rows(self.runs_dir, [file.name for file in data], others)
        return path

    def _to_remove(self, run: str) -> Path:
        if run == LAST and not (self.runs_dir / LAST).exists():
            said, fix = "`last` may be another run by now", "Give the id of the run to remove."
            raise StoreError(Problem("run.last", said, fix=fix))
        return self._find(run)


def _data_of(folder: RunFolder) -> list[Path]:
    try:
        config = folder.read_config()
    except StoreError:  # a broken run
        return []
    return [Path(str(config[name])) for name in ("dataset", "train", "val", "test") if config.get(name)]


def _begun(path: Path) -> tuple[str, int]:
    """When a run began, to sort by: the second that most names say, and within it the time of its first file.

    A name that a person chose says no second.
    """
    ns = _changed_ns(path / "run.json") or _changed_ns(path)
    dated = _DATED.match(path.name)
    return dated[0] if dated else f"{datetime.fromtimestamp(ns / 1e9):%Y%m%d-%H%M%S-}", ns


def _changed_ns(path: Path) -> int:
    """0 for what is not there, is being removed, or is another user's."""
    try:
        return path.stat().st_mtime_ns
    except OSError:
        return 0


def stage_of(folder: RunFolder) -> Stage:
    """Return how far a run is. A finished one that is continued is running or interrupted again."""
    if folder.is_finished:
        return "finished"
    return "running" if folder.is_locked() else "interrupted"


def summarize(folder: RunFolder) -> RunLine:
    """Return what `runs list` shows of a run.

    Raises nothing: what is wrong, or another user's, is a `problem`.
    """
    try:
        info, config, result = folder.read_info(), folder.read_config(), folder.read_result() or {}
    except StoreError as error:
        return RunLine(folder.run_id, folder.path, "broken", problem=str(error))
    except OSError as error:
        problem = f"{folder.path}: cannot be read ({error.strerror})"
        return RunLine(folder.run_id, folder.path, "broken", problem=problem)
    status = stage_of(folder)
    best = _score(result, "best")
    found = result.get("validation") if best is None else None
    validation = found if isinstance(found, Mapping) else {}
    ends = result.get("ends")
    ends = ends if isinstance(ends, Mapping) else {}
    spent = result if status == "finished" and "calls" in result else {**result, **_spent_so_far(folder)}
    return RunLine(
        run_id=folder.run_id,
        path=folder.path,
        status=status,
        kind=str(info.get("kind", "")),
        created=str(info.get("created", "")),
        dataset=_text(config.get("dataset") or config.get("train")),
        model=_text(config.get("program") or result.get("model") or config.get("model")),
        original=_score(result, "original"),
        best=best,
        highest=_score(ends, "other"),
        original_call=_call_cost(result, "original"),
        best_call=_call_cost(result, "best"),
        highest_call=_call_cost(ends, "other"),
        validation_original=_number(validation.get("original")),
        validation_best=_number(validation.get("best")),
        verdict=_text(result.get("verdict")),
        calls=spent.get("calls"),
        cost_usd=spent.get("cost_usd"),
        name=str(config.get("name") or ""),
        tags=tuple(map(str, config.get("tags") or ())),
        notes=str(config.get("notes") or ""),
    )


def _spent_so_far(folder: RunFolder) -> Mapping[str, Any]:
    """Of a run without a result: what its journal tells, as for `runs show` and the report."""
    try:
        if not folder.journal_path.exists():
            return {}
        spending = from_journal(folder.journal_path)
    except OSError:  # another user's
        return {}
    return {"calls": sum(part.calls for part in spending), "cost_usd": total_cost(spending)}


def best_of(run: RunFolder) -> dict[str, Any]:
    """Return the `best` part of a run's result.

    Raises:
        StoreError: If there is none.
    """
    run.check_has_prompts()
    best = (run.read_result() or {}).get("best")
    if not isinstance(best, dict) or "components" not in best:
        said = f"run {run.run_id} has no best prompt yet"
        fix = (
            f"Finish it with `{resume_command(run)}`, or name a candidate such as {run.reference}:original. "
            f"List them with `autoprompt runs show {run.reference}`."
        )
        raise StoreError(Problem("run.no-best", said, fix=fix))
    return best


def _score(result: Mapping[str, Any], part: str) -> float | None:
    value = result.get(part)
    return _number(value.get("score")) if isinstance(value, Mapping) else None


def _call_cost(result: Mapping[str, Any], part: str) -> CallCost | None:
    value = result.get(part)
    found = value.get("cost") if isinstance(value, Mapping) else None
    try:
        return validated(CallCost, found) if found else None
    except ValueError:  # an edited file, which `runs show` tells about
        return None


def _number(value: Any) -> float | None:
    return float(value) if isinstance(value, int | float) else None


def _text(value: Any) -> str | None:
    return None if value is None else str(value)


def _slug(text: str) -> str:
    """Return a short word that is safe in file names and shells; letters of other scripts stay."""
    plain = unicodedata.normalize("NFKC", text).lower()
    return re.sub(r"[\W_]+", "-", plain).strip("-")[:24].strip("-")


MANY_OPENINGS = 5  # runs; by luck one of them is as good as one in twenty is
FEWEST_NEW_ROWS = 30  # of a new test: fewer can only show a very large gain


@dataclass(frozen=True, slots=True)
class Opening:
    """runs: by how many the most opened row of the test was opened, this one included.

    rows_before: how many of the rows an earlier run had opened.
    """

    runs: int
    rows_before: int


def times_opened(path: Path, rows: Collection[str]) -> int:
    """Return how many runs have opened the most opened of these rows. rows: keys as in `record_opening`."""
    wanted = set(rows)
    return max((line["runs"] for line in _lines(path) if line["row"] in wanted), default=0)


def record_opening(path: Path, rows: Collection[str], *, run_id: str) -> Opening:
    """Note that a run opens a test with these rows. A run that was killed on the way may do so once more.

    rows: a key of each row, by its input alone, so that a corrected label or an added row forgets nothing.
    The file has one line for each row that was ever opened, with the number of runs and the last of them,
    which is not counted twice.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(path.with_suffix(".lock")):
        counts: dict[str, int] = {}
        last: dict[str, str] = {}
        for line in _lines(path):
            counts[line["row"]], last[line["row"]] = line["runs"], line["last_run"]
        before = {row: counts.get(row, 0) - (last.get(row) == run_id) for row in rows}
        counts |= {row: runs + 1 for row, runs in before.items()}
        last |= dict.fromkeys(rows, run_id)
        write_jsonl(path, ({"row": row, "runs": runs, "last_run": last[row]} for row, runs in counts.items()))
    return Opening(1 + max(before.values(), default=0), sum(runs > 0 for runs in before.values()))


def _lines(path: Path) -> Iterator[dict[str, Any]]:
    for number, line in enumerate(read_jsonl(path), start=1):
        if not line.keys() >= {"row", "runs", "last_run"}:
            said = "this line does not say which test row was opened and how often"
            fix = "Move the file away to count openings from 0."
            raise StoreError(Problem("run.bad-openings", said, Place(path, number), fix))
        yield line


def _fill(path: Path, config: Mapping[str, Any], kind: str) -> None:
    """Write what a new run begins with. Relative paths in `config` become absolute, secrets are left out."""
    whole = {name: value.absolute() if isinstance(value, Path) else value for name, value in config.items()}
    settings = without_secrets(whole)
    text = to_yaml(settings)
    write_text(path / "config.yaml", text)
    info = {"schema_version": SCHEMA_VERSION, "run_id": path.name, "kind": kind, "created": now()}
    info["settings"] = yaml.safe_load(text)
    mark(path, "run.json", begun := to_json(info, indent=2) + "\n")
    write_text(path / "run.json", begun)  # last: a folder that has it is whole
