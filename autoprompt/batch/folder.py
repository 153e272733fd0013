"""The folder of a batch: which trials it has, what they may use, and its table.

runs/NAME/batch.json       the trials, with their settings
runs/NAME/table.csv .json  a row for each trial
runs/NAME/ledger.sqlite    what was sent, tokens, money, rate: for all trials together
runs/NAME/TRIAL/           the run folder of a trial
runs/NAME/memory/          the experience file of each trial, as it was when the batch began, and on
runs/NAME/logs/            what the processes of trials wrote to stderr
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from autoprompt.batch.spec import ExecutorSettings
from autoprompt.batch.table import BatchResult
from autoprompt.batch.trials import (
    Batch,
    Trial,
    from_record,
    input_paths,
    to_record,
    with_found,
    with_memory,
)
from autoprompt.errors import Place, Problem, StoreError
from autoprompt.llm.limits.ledger import Caps
from autoprompt.runs import RunFolder, RunStore
from autoprompt.runs.listing import BESIDE_TRIALS
from autoprompt.runs.resuming import places, seen_from
from autoprompt.settings.records import Budget
from autoprompt.text.files import is_unfinished, read_json, read_text, to_yaml, write_text

KIND = "batch"
_NAME = "Choose another {name}."


class BatchFolder:
    """A batch on disk. Write only inside `lock()` of `run`."""

    def __init__(self, run: RunFolder) -> None:
        self.run = run

    @classmethod
    def make(cls, runs_dir: Path, name: str) -> BatchFolder:
        """Return the folder of this name, made if need be.

        Raises:
            StoreError: If something else lies there.
        """
        path = runs_dir / name
        if (path / "run.json").is_file():
            return cls.open_own(RunFolder(path))
        if path.exists():
            _clear_beginning(path)
        return cls(RunStore(runs_dir).create({"name": name}, kind=KIND, run_id=name))

    @classmethod
    def open(cls, run: RunFolder) -> BatchFolder:
        """Open the batch in a run's folder.

        Raises:
            StoreError: If it is none.
        """
        kind = run.read_info().get("kind")
        if kind != KIND:
            said = f"this is a `{kind}` run, not a batch"
            raise StoreError(Problem("batch.not-a-batch", said, Place(run.path), _NAME, {"name": None}))
        return cls(run)

    @classmethod
    def open_own(cls, run: RunFolder) -> BatchFolder:
        """Open a batch to resume it.

        Raises:
            StoreError: The run is not a batch, or this user did not make it.
        """
        folder = cls.open(run)
        run.check_is_own()
        return folder

    @property
    def path(self) -> Path:
        return self.run.path

    @property
    def ledger_path(self) -> Path:
        return self.path / "ledger.sqlite"

    @property
    def table_path(self) -> Path:
        return self.path / "table.csv"

    def write_batch(self, batch: Batch) -> None:
        """Write what `resume` needs, without secrets."""
        spec = {
            "name": batch.name,
            "executor": batch.executor.model_dump(mode="json", exclude_unset=True),
            "caps": asdict(batch.caps),
            "max_seconds": batch.max_seconds,
            "fail_fast": batch.fail_fast,
            "budget": batch.budget.model_dump(exclude_none=True),
        }
        trials = [{**to_record(trial), "from_batch": self._seen_from(trial)} for trial in batch.trials]
        self.run.write_json("batch.json", {**spec, "trials": trials})

    def _seen_from(self, trial: Trial) -> dict[str, str]:
        return {name: seen_from(self.run, path) for name, path in input_paths(trial).items()}

    def _read_trial(self, record: Mapping[str, Any]) -> Trial:
        """With its files where they lie by now: the batch may have been moved together with them."""
        noted = record["from_batch"]
        return with_found(from_record(record), lambda name, path: places(self.run, path, noted[name]))

    def read_batch(self) -> Batch:
        """Return the batch, called as its folder is by now.

        Raises:
            StoreError: If it cannot be read.
        """
        data = read_json(self.path / "batch.json")
        return Batch(
            name=self.run.run_id,
            trials=tuple(map(self._read_trial, data["trials"])),
            executor=ExecutorSettings.model_validate(data["executor"]),
            caps=Caps(**data["caps"]),
            max_seconds=data["max_seconds"],
            fail_fast=data["fail_fast"],
            budget=_budget(data),
        )

    def read_budget(self) -> Budget:
        """Return the caps that were given beside the files at the last call; none if it never began."""
        path = self.path / "batch.json"
        return _budget(read_json(path)) if path.is_file() else Budget()

    def adopt(self, trials: Sequence[Trial]) -> list[Trial]:
        """Return the trials under the names that their folders have, each with an experience file of its own.

        A trial that is called otherwise by now, since its words in the file changed, is known by its number.
        """
        there = {path.name.rpartition("-")[2]: path.name for path in self._trial_dirs()}
        named = [replace(trial, id=there.get(trial.number, trial.id)) for trial in trials]
        return [with_memory(trial, self.path / "memory" / f"{trial.id}.txt") for trial in named]

    def keep_memory(self, trial: Trial, source: Path) -> None:
        """Copy the experiences as they are now, once: what a trial learns must not sway another."""
        target = trial.config.memory_file
        if trial.config.no_memory or target.exists():
            return
        text = read_text(source) if source.is_file() else ""
        write_text(target, text)

    def strangers(self, trials: Sequence[Trial]) -> list[str]:
        """Folders of trials that are no longer asked for."""
        known = {trial.id for trial in trials}
        return [path.name for path in self._trial_dirs() if path.name not in known]

    def trial(self, trial_id: str) -> RunFolder:
        return RunFolder(self.path / trial_id)

    def write_table(self, result: BatchResult) -> None:
        write_text(self.table_path, result.to_csv())
        self.run.write_json("table.json", result.to_dict())

    def read_table(self) -> dict[str, Any]:
        """`table.json` as it was last written, called as its folder is by now; {} where there is none."""
        path = self.path / "table.json"
        if not path.is_file():
            return {}
        return {**read_json(path), "name": self.run.run_id, "run_dir": str(self.path)}

    def _trial_dirs(self) -> list[Path]:
        return sorted(
            path
            for path in self.path.iterdir()
            if path.is_dir() and not path.name.startswith(".") and path.name not in BESIDE_TRIALS
        )


def _clear_beginning(path: Path) -> None:
    """Remove a folder that holds nothing but what a kill left of a beginning.

    Raises:
        StoreError: If it holds more.
    """
    left = list(path.iterdir()) if path.is_dir() else [path]
    if not all(_is_of_beginning(file) for file in left):
        said = "this is not a batch"
        raise StoreError(Problem("batch.not-a-batch", said, Place(path), _NAME, {"name": None}))
    for file in left:
        file.unlink()
    path.rmdir()


def _is_of_beginning(file: Path) -> bool:
    """Of `RunStore.create`: what was not written to its end, or settings with no run.json behind them."""
    if is_unfinished(file, "config.yaml", "run.json"):
        return True
    return (
        file.name == "config.yaml"
        and file.is_file()
        and read_text(file) == to_yaml({"name": file.parent.name})
    )


def _budget(data: Mapping[str, Any]) -> Budget:
    return Budget(**data["budget"])
