"""From files to trials: every combination with its settings, its name, and where it was asked for."""

from __future__ import annotations

import hashlib
import itertools
import json
import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from autoprompt.batch.spec import (
    LONGEST_NAME,
    BatchFile,
    ExecutorSettings,
    checked_name,
    is_batch,
    load_batch_file,
)
from autoprompt.errors import AutopromptError, ConfigError, Place, Problem, StoreError, UsageError
from autoprompt.llm.limits.ledger import Caps
from autoprompt.metrics.user_code import code_digests
from autoprompt.settings.arguments import check_argument
from autoprompt.settings.kinds import first_problems
from autoprompt.settings.places import note_places, places_of
from autoprompt.settings.records import Budget, RunConfig
from autoprompt.settings.resolve import CompleteConfig, resolve, resolve_layers
from autoprompt.settings.sources import Layer, from_environment, layer_of
from autoprompt.settings.yaml_file import line_at
from autoprompt.text.files import file_sha256
from autoprompt.text.names import cut_to

INPUT_FILES = ("dataset", "train", "val", "test", "workflow", "mocks", "tools", "prompts_file")
# What changes neither the questions nor the decisions: a trial stays the same trial without it.
_NOT_ITS_OWN = frozenset(
    {"runs_dir", "memory_file", "cache_dir", "no_cache", "concurrency", "rpm", "tpm", "timeout", *INPUT_FILES}
)
_LONGEST_WORDS = 48
_MOST_NAMED = 4  # files by whose names a batch is called
_MOST_FAULTS = 20


@dataclass(frozen=True, slots=True)
class Trial:
    """One run of a batch.

    id: the name of its folder: words for people, and eight digits of what it would do (settings, texts, the
        content of the files it reads, the code of a metric of one's own), so that it is the same wherever it
        is in the file.
    own: what distinguishes it, as it was written: setting -> value. where: file and line.
    sha256: of the files and the code that its id was made of: setting -> digest.
    """

    id: str
    own: Mapping[str, Any]
    config: CompleteConfig
    where: str
    sha256: Mapping[str, str] = field(default_factory=dict)

    @property
    def number(self) -> str:
        return self.id.rpartition("-")[2]

    @property
    def label(self) -> str:
        return ", ".join(f"{name}={shown(name, value)}" for name, value in self.own.items()) or self.id


@dataclass(frozen=True, slots=True)
class Batch:
    """Trials, who runs them, and what they may use together. warnings: sentences for the user.

    budget: caps that were given beside the files; they are among `caps` and `max_seconds`.
    """

    name: str
    trials: tuple[Trial, ...]
    executor: ExecutorSettings = field(default_factory=ExecutorSettings)
    caps: Caps = Caps()
    max_seconds: float | None = None
    fail_fast: bool = False
    warnings: tuple[str, ...] = ()
    budget: Budget = field(default_factory=Budget)

    def within(self, budget: Budget) -> Batch:
        """Return the batch with these limits; limits that are not given stay."""
        given = budget.model_dump(include=set(Budget.model_fields), exclude_none=True)
        caps = {**asdict(self.caps), "max_seconds": self.max_seconds, **given}
        max_seconds = caps.pop("max_seconds")
        return replace(self, caps=Caps(**caps), max_seconds=max_seconds, budget=Budget(**given))


def load_batch(files: Sequence[Path], *, environ: Mapping[str, str], name: str | None = None) -> Batch:
    """Return one batch out of a batch file, or out of the settings of several runs, or of both.

    Raises:
        ConfigError: With file and line for everything that is wrong in any of the files.
        UsageError: For no file or two batch files.
    """
    if not files:
        fix = "Give a batch file, or the YAML files of several runs."
        raise UsageError(Problem("batch.no-file", "no file", fix=fix))
    faults: list[Problem] = []
    head: BatchFile | None = None
    head_path: Path | None = None
    trials: list[Trial] = []
    files, repeated = _each_once(files)
    for path in files:
        try:
            if not is_batch(path):
                trials.append(_single(path, environ))
                continue
            if head_path is not None:
                said, fix = (
                    f"{head_path} and {path} are both batch files",
                    "Run them one after the other.",
                )
                raise UsageError(Problem("batch.two-files", said, fix=fix))
            head_path, head = path, load_batch_file(path)
            trials += _expand(path, head, environ, faults)
        except UsageError:
            raise
        except AutopromptError as error:
            faults += error.problems
    if faults:
        raise ConfigError(*first_problems(list(dict.fromkeys(faults)), Place(), _MOST_FAULTS))
    kept, warnings = _without_doubles(trials)
    head = head or BatchFile(defaults=RunConfig())
    return Batch(
        name=_name(name, head, head_path, files),
        trials=tuple(kept),
        executor=head.executor,
        caps=Caps(head.max_calls, head.max_tokens, head.max_cost),
        max_seconds=head.max_seconds,
        fail_fast=head.fail_fast,
        warnings=(*repeated, *warnings),
    )


def _each_once(files: Iterable[Path]) -> tuple[list[Path], list[str]]:
    """Return each file once, and a warning for each that was given again, perhaps by another name.

    What a file names is relative to its folder, so a link from another folder is another file.
    """
    first: dict[tuple[Path, Path], Path] = {}
    warnings = []
    for path in files:
        place = (path.parent.resolve(), path.resolve())
        if (known := first.get(place)) is None:
            first[place] = path
        else:
            said = "given twice" if known == path else f"the same file as {known}"
            warnings.append(f"{path}: {said}; it runs once")
    return list(first.values()), list(dict.fromkeys(warnings))


def select(trials: Sequence[Trial], patterns: Sequence[str]) -> list[Trial]:
    """Return the trials that fit a pattern: `SETTING=VALUE`, an id, its beginning, with `*` for anything.

    All of them for no pattern.

    Raises:
        UsageError: For a pattern that fits none.
    """
    check_argument("only", patterns, Sequence, "a list of patterns")
    patterns = [patterns] if isinstance(patterns, str) else patterns
    if not patterns:
        return list(trials)
    for pattern in patterns:
        if not any(_fits(trial, pattern) for trial in trials):
            known = ", ".join(trial.id for trial in trials[:8])
            more = f" and {len(trials) - 8} more" if len(trials) > 8 else ""
            said = f"{pattern!r} matches no trial; known: {known}{more}"
            raise UsageError(Problem("batch.no-such-trial", said, Place(setting="only"), "Give one of them."))
    return [trial for trial in trials if any(_fits(trial, pattern) for pattern in patterns)]


def shown(name: str, value: Any) -> str:
    """Return a value of a setting in few words; of a file that is read its name."""
    if name in INPUT_FILES:
        return Path(str(value)).name
    text = ",".join(map(str, value)) if isinstance(value, tuple | list) else str(value)
    return cut_to(40, " ".join(text.split()))


def _fits(trial: Trial, pattern: str) -> bool:
    name, equals, wanted = pattern.partition("=")
    if equals and name in RunConfig.model_fields:
        values = (trial.own[name],) if name in trial.own else (getattr(trial.config, name),)
        return any(fnmatchcase(str(value), wanted) for value in values)
    return fnmatchcase(trial.id, pattern) or trial.id.startswith(pattern)


def _single(path: Path, environ: Mapping[str, str]) -> Trial:
    """Return the one trial that a run's own config file is."""
    try:
        config = resolve(CompleteConfig, {}, config_file=path, environ=environ)
        return _make(config, {"config": path.stem}, f"{path} line 1")
    except AutopromptError as error:
        place = Place(path, 1, source="file")
        raise ConfigError(*(_in_file(problem, place) for problem in error.problems)) from error


def _expand(
    path: Path, spec: BatchFile, environ: Mapping[str, str], faults: list[Problem]
) -> Iterator[Trial]:
    for own, where in _combinations(spec):
        place = Place(path, line_at(path, where), source="file")
        try:
            layers = _layers(own, spec.defaults, place, path.parent, environ)
            config = resolve_layers(CompleteConfig, layers, environ)
            yield _make(config, _as_written(own, path.parent), str(place))
        except AutopromptError as error:
            faults += (_in_file(problem, place) for problem in error.problems)


def _layers(
    own: RunConfig, defaults: RunConfig, place: Place, folder: Path, environ: Mapping[str, str]
) -> list[Layer]:
    """Return the sources of a trial's settings, the nearest first.

    Args:
        own: What makes it this trial. Of this and of `defaults`, what is in `model_fields_set`.
        defaults: Of all trials, in the place of a config file.
        place: The trial in its file.
        folder: What a prompt that is `@FILE` is relative to.
    """
    of_own = {name: replace(place, setting=name, source="file") for name in own.model_fields_set}
    of_all = {
        name: replace(place, setting=f"defaults.{name}", source="file") for name in defaults.model_fields_set
    }
    below = layer_of(defaults, of_all, folder)
    return [layer_of(own, of_own, folder), from_environment(environ), below]


def _in_file(problem: Problem, place: Place) -> Problem:
    """Return the problem of a trial with the place of the trial in its file."""
    if not problem.code:
        return problem if str(place.file) in problem.said else Problem.plain(f"{place}: {problem.said}")
    if problem.place.source == "variable" or problem.place.file == place.file:
        return problem
    if problem.place.file is None:
        return problem.at(replace(place, setting=problem.place.setting))
    return replace(problem, related=(*problem.related, place))


def _combinations(spec: BatchFile) -> Iterator[tuple[RunConfig, tuple[str | int, ...]]]:
    """Yield what is a trial's own, and where it stands; the last key of the matrix changes fastest."""
    matrix: Mapping[str, Sequence[Any]] = {
        name: getattr(spec.matrix, name)
        for name in spec.matrix.__class__.model_fields
        if name in spec.matrix.model_fields_set
    }
    if matrix or not spec.include:
        place = ("matrix",) if matrix else ("defaults",)
        for values in itertools.product(*matrix.values()):
            given = dict(zip(matrix, values, strict=True))
            yield RunConfig.model_construct(set(given), **{**dict(RunConfig()), **given}), place
    for number, own in enumerate(spec.include):
        yield own, ("include", number)


def _as_written(own: RunConfig, folder: Path) -> dict[str, Any]:
    """In the order of the settings' own, which no order in the file changes."""
    values: dict[str, Any] = {}
    for name in RunConfig.model_fields:
        if name in own.model_fields_set:
            value = getattr(own, name)
            near = isinstance(value, Path) and value.is_relative_to(folder)
            value = value.relative_to(folder) if near else value
            values[name] = str(value) if isinstance(value, Path) else value
    return values


def _make(config: CompleteConfig, own: Mapping[str, Any], where: str) -> Trial:
    default = RunConfig().model_dump(mode="json")
    settings = {
        name: value
        for name, value in config.model_dump(mode="json", exclude_unset=True).items()
        if name not in _NOT_ITS_OWN and value != default[name]
    }
    data = {name: _digest(path) for name in INPUT_FILES if (path := getattr(config, name)) is not None}
    if code := _metric_code(config):
        data["metric"] = code
    number = _number(settings, data)
    words = "-".join(filter(None, (_word(name, value) for name, value in own.items())))
    words = words[:_LONGEST_WORDS].strip("-")
    name = f"{words}-{number}" if words else number
    return Trial(name, own, _absolute(config), where, data)


def _number(settings: Mapping[str, Any], data: Mapping[str, str]) -> str:
    text = json.dumps([settings, data], sort_keys=True, ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()[:8]


def _metric_code(config: RunConfig) -> str:
    """Return the digest of a user metric's code by content, in whatever folder it is; "" for our own."""
    return ", ".join(sorted(code_digests(config.metric).values()))


def _word(name: str, value: Any) -> str:
    text = _slug(Path(str(value)).stem if name in INPUT_FILES else shown(name, value))
    return f"{_slug(name)}-{text}" if isinstance(value, bool | int | float) else text


def _slug(text: str) -> str:
    """Safe in file names and shells; letters of other scripts stay."""
    return re.sub(r"[\W_]+", "-", unicodedata.normalize("NFKC", text).lower()).strip("-")


_digests: dict[tuple[Path, int, int], str] = {}


def _digest(path: Path) -> str:
    """Of the file's content, read once for all trials."""
    status = path.stat()
    key = (path.absolute(), status.st_mtime_ns, status.st_size)
    if key not in _digests:
        _digests[key] = file_sha256(path)
    return _digests[key]


def _absolute(config: CompleteConfig) -> CompleteConfig:
    """So that the batch can go on from another folder."""
    paths = {
        name: value.absolute()
        for name in RunConfig.model_fields
        if isinstance(value := getattr(config, name), Path)
    }
    given = config.model_fields_set
    changed = config.model_copy(update={name: path for name, path in paths.items() if name in given})
    memory = changed.memory_file.absolute()
    made = CompleteConfig.model_construct(given, **{**dict(changed), "memory_file": memory})
    note_places(made, places_of(config))
    return made


def _without_doubles(trials: Iterable[Trial]) -> tuple[list[Trial], list[str]]:
    """Each trial once; what it is called where it stands first. The warnings say which were merged."""
    kept: dict[str, Trial] = {}
    by_number: dict[str, str] = {}
    warnings = []
    for trial in trials:
        if trial.number in by_number:
            first = kept[by_number[trial.number]]
            warnings.append(f"{trial.where}: {trial.label} duplicates {first.label}; it runs once")
            continue
        by_number[trial.number] = trial.id
        kept[trial.id] = trial
    return list(kept.values()), warnings


def _name(given: str | None, head: BatchFile, path: Path | None, files: Sequence[Path]) -> str:
    """As given, else as the file says, else the files' names: "a_b", or "a_and_4_more"."""
    name = given or head.name
    if name is None and path is not None:
        name = path.stem
    if name is None:
        name = "_".join(file.stem for file in files)
        if len(files) > _MOST_NAMED or len(name) > LONGEST_NAME:
            name = f"{files[0].stem}_and_{len(files) - 1}_more"
    try:
        return checked_name(name)
    except ValueError as error:
        raise UsageError(Problem("batch.bad-name", str(error), Place(setting="name"))) from error


def to_record(trial: Trial) -> dict[str, Any]:
    """Plain data, for a worker in another process and for the batch's folder."""
    config = trial.config.model_dump(mode="json", exclude_unset=True)
    return {
        "id": trial.id,
        "own": dict(trial.own),
        "where": trial.where,
        "config": config,
        "sha256": dict(trial.sha256),
    }


def from_record(record: Mapping[str, Any]) -> Trial:
    """Return what `to_record` made; the settings are complete, whatever a sidecar says by now."""
    config = CompleteConfig.model_validate(record["config"])
    return Trial(record["id"], record["own"], config, record["where"], record["sha256"])


def input_paths(trial: Trial) -> dict[str, Path]:
    """Return the files that a trial reads, by setting."""
    given = {name: getattr(trial.config, name) for name in INPUT_FILES}
    return {name: path for name, path in given.items() if path is not None}


def with_found(trial: Trial, near: Callable[[str, Path], Iterable[Path]]) -> Trial:
    """Return the trial with its files where they are by now. A missing file stays as it is named.

    near: setting, path -> places to look at. Nothing but the content that its id was made of makes it that
    file, so one that is where it was is not looked for: whether it has changed `check_unchanged` says.
    """
    found = {}
    for name, path in input_paths(trial).items():
        known = trial.sha256.get(name)
        there = (place for place in near(name, path) if place.is_file() and _digest(place) == known)
        if not path.exists() and (place := next(there, None)) is not None:
            found[name] = place
    return replace(trial, config=trial.config.model_copy(update=found)) if found else trial


def check_unchanged(trial: Trial) -> None:
    """Check that a trial's files and code have not changed: a table must not mix two datasets in one trial.

    Raises:
        StoreError: One of them has changed.
    """
    for name, known in trial.sha256.items():
        what, found = _found(trial.config, name)
        if found and found != known:  # whoever reads a missing file reports it
            said = (
                f"{what} changed since the batch of trial {trial.id} began (sha256 was {known}, now {found})"
            )
            fix = "Put the old one back and resume, or run the batch file again to make a new trial."
            raise StoreError(Problem("batch.trial-changed", said, fix=fix))


def _found(config: RunConfig, name: str) -> tuple[str, str]:
    """Return what a setting names, and its digest now; "" for a file that is not there."""
    if name == "metric":
        return f"the code of {config.metric}", _metric_code(config)
    path: Path = getattr(config, name)
    return str(path), _digest(path) if path.is_file() else ""


def with_memory(trial: Trial, path: Path) -> Trial:
    """Return the same trial with an experience file of its own."""
    config = trial.config.model_copy(update={"memory_file": path})
    return replace(trial, config=config)
