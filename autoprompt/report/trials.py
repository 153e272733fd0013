"""Many runs side by side: the trials of a batch, or all runs in a folder."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from autoprompt.errors import StoreError
from autoprompt.report import numbers
from autoprompt.report.summary import RunSummary, is_set, read_summary
from autoprompt.runs import RunFolder
from autoprompt.runs.folder import member_folders
from autoprompt.text.files import read_json
from autoprompt.text.names import counted

# Where runs write says nothing about them.
_PLACES = ("runs_dir", "memory_file", "cache_dir")
_SEEDS = ("seed", "split_seed")
OPTIMIZATION = "optimize"  # the kind of run that has a verdict; workflows and batches have none
_FILES = ("dataset", "train", "val", "test")
# What comes with a dataset or a model, as in its sidecar: where those differ, they say it all.
_FOLLOWERS = ("prompt", "task", "labels", "input_field", "target_field", "metric", "base_url")


@dataclass(frozen=True, slots=True)
class TrialSummary:
    """One run among others. own: the settings that not all of them share, as text.

    run: None where there is none to read; then `problem` says why, or the status of the trial.
    """

    name: str
    own: Mapping[str, str]
    run: RunSummary | None
    status: str
    problem: str = ""

    @property
    def label(self) -> str:
        """What distinguishes it, in a few words."""
        return ", ".join(f"{name} {value}" for name, value in self.own.items()) or self.name


@dataclass(frozen=True, slots=True)
class GroupSummary:
    """Trials that differ only in their seeds: means over those that were tested, of `trials` in all."""

    own: Mapping[str, str]
    trials: int
    tested: int
    confirmed: int
    original: float | None
    best: float | None
    lowest: float | None
    highest: float | None
    calls: float | None


@dataclass(frozen=True, slots=True)
class TrialsSummary:
    """The runs of a folder, compared. differing: names of the settings that tell them apart."""

    name: str
    path: Path
    trials: tuple[TrialSummary, ...]
    differing: tuple[str, ...]
    groups: tuple[GroupSummary, ...]

    @property
    def headline(self) -> str:
        """How they ended, in one sentence."""
        ends = Counter(_end(trial) for trial in self.trials)
        counts = ", ".join(f"{count} {end}" for end, count in ends.most_common())
        return f"{counted(len(self.trials), 'trial')}: {counts}"

    @property
    def best(self) -> TrialSummary | None:
        """The trial with the highest score on its sealed test."""
        tested = [trial for trial in self.trials if trial.run and trial.run.result.best.score is not None]
        return max(tested, key=lambda trial: (trial.run and trial.run.result.best.score) or 0.0, default=None)

    @property
    def explanation(self) -> str:
        best = self.best
        if best is None or best.run is None:
            return "No trial has opened its sealed test yet."
        if all(trial.run.is_unchanged for trial in self.trials if trial.run):
            return "None of them confirmed a prompt that is better than the original."
        known = [
            trial.run.result.splits.sha256
            for trial in self.trials
            if trial.run and trial.run.result.splits.sha256
        ]
        shares_test = len({tuple(found.items()) for found in known}) == 1
        luck = (
            "The highest of many scores is partly chance, which its own interval does not include."
            if shares_test
            else "Their test rows differ: compare gains, not scores."
        )
        original, score = best.run.result.original.score, best.run.result.best.score
        return (
            f"Highest score: {best.label}, {numbers.score(original, 2)} → {numbers.score(score, 2)} on "
            f"{numbers.count(best.run.result.best.n)} unseen rows. {luck}"
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON."""
        trials = [
            {**asdict(trial), "run": None if trial.run is None else trial.run.to_dict()}
            for trial in self.trials
        ]
        return {**asdict(self), "path": str(self.path), "headline": self.headline, "trials": trials}


def _end(trial: TrialSummary) -> str:
    if trial.run is None:
        return trial.status
    if trial.run.has_result and trial.run.is_unchanged:
        return "without a better prompt"
    return trial.run.mark.lower()


def read_trials(folder: Path) -> TrialsSummary:
    """All runs inside `folder`. One that cannot be read is a trial with a problem, not an error.

    `table.json` of a batch names trials that have no folder, since they failed before or were not run.
    """
    table = _table(folder)
    known = {str(row["trial"]): row for row in table.get("rows", ()) if "trial" in row}
    found = ((path.name, _read(path)) for path in member_folders(folder))
    runs = {name: run for name, run in found if run is not None}
    differing = _named(known) or _differing([r.settings for r in runs.values() if isinstance(r, RunSummary)])
    trials = tuple(
        _trial(name, runs.get(name), known.get(name, {}), differing)
        for name in dict.fromkeys([*known, *runs])
    )
    return TrialsSummary(folder.absolute().name, folder, trials, differing, _groups(trials, differing))


def _table(folder: Path) -> dict[str, Any]:
    try:
        return read_json(folder / "table.json")
    except StoreError:  # a folder of runs that is no batch, or one that has just begun
        return {}


def _read(path: Path) -> RunSummary | str | None:
    """None for what is no optimization: its result, as that of a batch beside runs, holds no verdict."""
    folder = RunFolder(path)
    try:
        if folder.read_info().get("kind") != OPTIMIZATION:
            return None
        return read_summary(folder, with_rows=False)
    except StoreError as error:
        return str(error)


def _named(rows: Mapping[str, Mapping[str, Any]]) -> tuple[str, ...]:
    """Return what distinguishes the trials of a batch, as the batch itself says."""
    return tuple(dict.fromkeys(str(name) for row in rows.values() for name in row.get("own") or ()))


def _differing(settings: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
    names = dict.fromkeys(name for config in settings for name in config if name not in _PLACES)
    found = [name for name in names if len({_text(name, config.get(name)) for config in settings}) > 1]
    leaders = [name for name in found if name in (*_FILES, "model")]
    return tuple(name for name in found if not (name in _FOLLOWERS and _follows(name, leaders, settings)))


def _follows(name: str, leaders: Sequence[str], settings: Sequence[Mapping[str, Any]]) -> bool:
    """Return whether one of `leaders` tells this setting: equal there, equal here."""
    return any(
        len({(str(c.get(leader)), str(c.get(name))) for c in settings})
        == len({str(c.get(leader)) for c in settings})
        for leader in leaders
    )


def _text(name: str, value: Any) -> str:
    if isinstance(value, list | tuple):
        return ", ".join(map(str, value))
    if value is None:
        return ""
    return Path(str(value)).name if name in _FILES else str(value)


def _trial(
    name: str, found: RunSummary | str | None, row: Mapping[str, Any], differing: tuple[str, ...]
) -> TrialSummary:
    error = str(row.get("error") or "")
    if isinstance(found, RunSummary):
        settings = row.get("own") or found.settings
        own = {key: _text(key, settings.get(key)) or "–" for key in differing}
        return TrialSummary(name, own, found, str(row.get("status") or found.status), error)
    own = {str(key): _text(str(key), value) for key, value in (row.get("own") or {}).items()}
    return TrialSummary(name, own, None, str(row.get("status") or "broken"), found or error)


def _groups(trials: Sequence[TrialSummary], differing: tuple[str, ...]) -> tuple[GroupSummary, ...]:
    """In the order of their settings; empty where no two trials differ in nothing but their seeds."""
    names = [name for name in differing if name not in _SEEDS]
    members: dict[tuple[str, ...], list[RunSummary]] = {}
    for trial in trials:
        if trial.run is not None:
            members.setdefault(tuple(trial.own[name] for name in names), []).append(trial.run)
    if all(len(runs) == 1 for runs in members.values()):
        return ()
    ordered = sorted(members.items(), key=lambda member: [_natural(value) for value in member[0]])
    return tuple(_group(dict(zip(names, key, strict=True)), runs) for key, runs in ordered)


def _natural(value: str) -> tuple[bool, float, str]:
    """Numbers by their size, before words."""
    try:
        return False, float(value), value
    except ValueError:
        return True, 0.0, value


def _group(own: Mapping[str, str], runs: Sequence[RunSummary]) -> GroupSummary:
    tested = [run for run in runs if run.result.best.score is not None]
    best = [run.result.best.score for run in tested if run.result.best.score is not None]
    return GroupSummary(
        own=own,
        trials=len(runs),
        tested=len(tested),
        confirmed=sum(run.verdict == "confirmed" for run in runs),
        original=_mean(run.result.original.score for run in tested),
        best=_mean(best),
        lowest=min(best, default=None),
        highest=max(best, default=None),
        calls=_mean(run.calls for run in runs),
    )


def _mean(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None


def shared_settings(trials: TrialsSummary) -> dict[str, str]:
    """Return what all runs have in common, as text."""
    first = next((trial.run for trial in trials.trials if trial.run), None)
    if first is None:
        return {}
    return {
        name: _text(name, value)
        for name, value in first.settings.items()
        if name not in (*trials.differing, *_PLACES) and is_set(name, value)
    }
