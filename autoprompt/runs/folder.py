"""One run's folder: what lies where, who may write, and how it is written."""

from __future__ import annotations

import itertools
import re
import shlex
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import BaseModel, ValidationError

from autoprompt.errors import Place, Problem, StoreError
from autoprompt.records import EvaluatedRow, warning_event
from autoprompt.runs.marks import MARKS, check_is_own, first_link, mark
from autoprompt.runs.watch import LOCK, FolderWatch, Lost, holding, is_held, now
from autoprompt.settings.kinds import label_text
from autoprompt.settings.records import Budget, RunConfig
from autoprompt.settings.yaml_file import safe_load
from autoprompt.text.display import HIDDEN, redact, redact_entries, redactor
from autoprompt.text.files import (
    JsonLines,
    append_jsonl,
    read_json,
    read_jsonl,
    read_text,
    to_json,
    to_yaml,
    write_jsonl,
    write_text,
)
from autoprompt.text.names import counted

Settings = TypeVar("Settings", bound=BaseModel)

MAY_CHANGE = frozenset(
    (
        *("max_calls", "max_tokens", "max_cost", "max_seconds", "concurrency", "rpm", "tpm", "timeout"),
        *("no_cache", "cache_dir", "dataset", "train", "val", "test", "workflow", "tools", "mocks"),
        *("prompts_file", "memory_file"),
    )
)
"""Settings that may be edited between start and resume: budgets, pace, and where files lie.

Data files are known by their content; another path for other files needs trust, see `marks`."""
ORIGINAL_PROMPT = "original_prompt.txt"
SCHEMA_VERSION = 3  # of a run's folder; another one is refused, see `_checked`
SEALED = "test-"  # begins the names of the evaluations that the sealed test was opened for
# Why a run knows no cheaper prompt that is about as good, and what to do; see `ending.finish.Reason`.
_UNTESTED = {
    "setting": ("was to return the highest score, and tested no cheaper prompt", "Run again without that."),
    "no_budget": ("had no budget left to test its cheaper prompt", "Test it: {} with a larger {}."),
}
_NAMED = 3  # trials of a batch in a message
_CONFIG_FIX = "Put the old file back, or start a new run."
_EVALUATION_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


def is_usual(runs_dir: Path) -> bool:
    """Return whether commands look for runs there without being told."""
    usual: Path = RunConfig.model_fields["runs_dir"].default
    return runs_dir.absolute() == usual.absolute()


class RunFolder:
    """A run on disk. Made by `RunStore.create`, found by `RunStore.open`.

    Reading needs no lock. Write only inside `lock()`; threads of one process may share a folder.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._writing = threading.Lock()
        self._watch: FolderWatch | None = None

    def __repr__(self) -> str:
        return f"RunFolder({str(self.path)!r})"

    @property
    def run_id(self) -> str:
        return self.path.name

    @property
    def reference(self) -> str:
        """What a command calls this run, for a shell: its id where runs usually lie, else its path."""
        return self.run_id if is_usual(self.path.parent) else shlex.quote(str(self.path))

    @property
    def info_path(self) -> Path:
        """What kind of run this is, when it began, and the version of this folder's layout."""
        return self.path / "run.json"

    @property
    def config_path(self) -> Path:
        return self.path / "config.yaml"

    @property
    def checkpoints_path(self) -> Path:
        return self.path / "checkpoints.sqlite"

    @property
    def journal_path(self) -> Path:
        return self.path / "journal.jsonl"

    @property
    def traits_path(self) -> Path:
        """What the run has found out about its models; see `autoprompt.llm.traits`."""
        return self.path / "traits.json"

    @property
    def events_path(self) -> Path:
        return self.path / "events.jsonl"

    @property
    def progress_path(self) -> Path:
        """Counters of a run at work, for those who watch; see `ProgressFile`."""
        return self.path / "progress.json"

    @property
    def candidates_path(self) -> Path:
        return self.path / "candidates.jsonl"

    @property
    def predictions_dir(self) -> Path:
        return self.path / "predictions"

    @property
    def best_prompt_path(self) -> Path:
        return self.path / "best_prompt.txt"

    @property
    def result_path(self) -> Path:
        return self.path / "result.json"

    # --- who may write ---

    def lock(self) -> AbstractContextManager[None]:
        """Hold the run for this process; not reentrant. The lock ends with the process, `kill -9` included.

        Raises:
            StoreError: If another process, or another `lock()` of this one, has it. It names the holder.
        """
        return holding(self.path)

    @contextmanager
    def work(self) -> Iterator[None]:
        """Hold the run and watch its files, as long as the run is active.

        What can be put back is put back first, so that a resume loses nothing.

        Raises:
            StoreError: If a file that the run needs was deleted, replaced or cut meanwhile.
        """
        with self.lock(), closing(FolderWatch(self.path)) as watch:
            self._watch = watch
            try:
                yield
            except BaseException as error:
                if isinstance(error, GeneratorExit) or not (lost := watch.look()):
                    raise
                raise self._lost(watch, lost) from error
            finally:
                self._watch = None
            if lost := watch.look():
                raise self._lost(watch, lost)

    def check_files(self, emit: Callable[[dict[str, Any]], None] | None = None) -> None:
        """Raise StoreError if an active run has lost a file that it needs. Call it at every checkpoint.

        emit: gets a warning about a file that only a resume reads; by default it is written to the log.
        """
        if self._watch is None:
            return
        with self._writing:  # LangGraph asks from threads of its own
            lost = self._watch.look()
            changed = [] if lost else self._watch.changed()
        if lost:
            raise StoreError(*(Problem("run.file-lost", part.said, Place(part.path)) for part in lost))
        for problem in changed:
            (emit or self.append_event)(warning_event(problem, about="files"))

    def _lost(self, watch: FolderWatch, lost: list[Lost]) -> StoreError:
        """Put back what can be put back, and say what happened and what to do."""
        then = f"Then resume the run: autoprompt resume {self.reference}"
        fix = " ".join([*watch.restore(lost), then])
        problems = [
            Problem("run.file-lost", f"{part.said} while the run was active", Place(part.path))
            for part in lost
        ]
        return StoreError(*problems[:-1], replace(problems[-1], fix=fix))

    def is_locked(self) -> bool:
        """Return whether a process holds the run now. Makes no file; several may ask at the same moment."""
        return is_held(self.path / LOCK)

    # --- writing ---

    def write_text(self, name: str, text: str) -> Path:
        """Replace the file `name` of this folder, e.g. `best_prompt.txt`."""
        path = self.path / name
        with self._rewriting(self.path / MARKS):
            mark(self.path, name, text)
            write_text(path, text)
        return path

    def write_json(self, name: str, value: Mapping[str, Any]) -> Path:
        """Replace the file `name` of this folder by `value`, without secrets; see `redact_entries`."""
        return self.write_text(name, to_json(redact_entries(value), indent=2) + "\n")

    def write_labels(self, labels: Sequence[str]) -> Path:
        """Keep the only answers that the run allows, given or inferred; none of them for free answers."""
        return self.write_json("labels.json", {"labels": list(labels)})

    def write_fields(self, names: Sequence[str], *, has_conversations: bool = False) -> Path:
        """Keep the names of the fields that every row has, but the answer's: what a prompt can ask for.

        has_conversations: whether the input is a conversation.
        """
        more = {"has_conversations": True} if has_conversations else {}
        return self.write_json("fields.json", {"fields": list(names), **more})

    def write_result(self, result: Mapping[str, Any]) -> Path:
        """Write `result.json`; the run counts as finished from then on."""
        return self.write_json(
            "result.json", {"schema_version": SCHEMA_VERSION, "run_id": self.run_id, **result}
        )

    def change_settings(self, changes: Mapping[str, Any]) -> None:
        """Write other values of settings that MAY_CHANGE to `config.yaml`."""
        with self._rewriting(self.config_path):
            write_text(self.config_path, to_yaml({**self.read_config(), **changes}))

    def set_result_aside(self) -> None:
        """Rename the result of a run that goes on: `result-1.json` is that of its first ending."""
        self.result_path.rename(self._result_aside(len(self._results_aside()) + 1))

    def _result_aside(self, number: int) -> Path:
        return self.path / f"result-{number}.json"

    def _results_aside(self) -> list[Path]:
        """Return the results of the run's earlier endings, the oldest first."""
        numbered = map(self._result_aside, itertools.count(1))
        return list(itertools.takewhile(Path.exists, numbered))

    @property
    def is_finished(self) -> bool:
        """Whether the run has ended, its continuation too if there is one."""
        return self.result_path.exists()

    def append_event(self, event: Mapping[str, Any]) -> None:
        """Add a line to `events.jsonl`, without secrets. `time` (UTC) is added where the event has none."""
        with self._writing:
            append_jsonl(self.events_path, [{"time": now(), **redact(event)}])

    @contextmanager
    def event_log(self) -> Iterator[Callable[[Mapping[str, Any]], None]]:
        """`append_event` for many events: the log stays open inside the block."""
        clean = redactor()
        with closing(JsonLines(self.events_path)) as lines:
            yield lambda event: lines.append({"time": now(), **clean(event)})

    def append_candidates(self, candidates: Iterable[Mapping[str, Any]]) -> None:
        """Add records of candidates (`Candidate.to_dict()` and what else is known, e.g. `scores`).

        A record with the `id` of an earlier one replaces it when read, so a resumed run may write again.
        """
        with self._writing:
            append_jsonl(self.candidates_path, candidates)

    def rewrite_candidates(self, candidates: Iterable[Mapping[str, Any]]) -> None:
        """Replace all records of candidates."""
        with self._rewriting(self.candidates_path):
            write_jsonl(self.candidates_path, candidates)

    @contextmanager
    def _rewriting(self, path: Path) -> Iterator[None]:
        """Let the block replace a watched file: nobody looks meanwhile, who would watch the old one again."""
        with self._writing:
            if self._watch is not None:
                self._watch.forget(path)
            yield

    def write_predictions(self, name: str, rows: Iterable[EvaluatedRow | Mapping[str, Any]]) -> Path:
        """Write one evaluation to `predictions/NAME.jsonl`; writing the same name again replaces it."""
        if not _EVALUATION_NAME.fullmatch(name):
            raise ValueError(f"evaluation name {name!r}: expected only letters, digits, '.', '_' and '-'")
        path = self.predictions_dir / f"{name}.jsonl"
        with self._rewriting(path):
            write_jsonl(path, (row.to_dict() if isinstance(row, EvaluatedRow) else row for row in rows))
        return path

    # --- reading ---

    def read_info(self) -> dict[str, Any]:
        """Return `run_id`, `kind`, `created` (UTC), `schema_version`. Read this before all else.

        Raises:
            StoreError: Also for another format, and for a folder with a link among its files.
        """
        if (link := first_link(self.path)) is not None:
            said = "this is a link, expected a file of the run"
            fix = "Replace it with a copy of the file it points to."
            raise StoreError(Problem("run.link", said, Place(self.path / link), fix))
        return _checked(self.info_path, read_json(self.info_path))

    def read_config(self) -> dict[str, Any]:
        """Return the settings that the run was started with.

        Raises:
            StoreError: If they cannot be read.
        """
        try:
            config = safe_load(read_text(self.config_path))
        except OSError as error:
            raise self._bad_config(f"cannot be read ({error.strerror})") from error
        except (yaml.YAMLError, ValueError) as error:
            raise self._bad_config(f"not YAML ({error})") from error
        if not isinstance(config, dict):
            raise self._bad_config(f"expected settings, found {type(config).__name__}")
        return config

    def _bad_config(self, said: str) -> StoreError:
        return StoreError(Problem("run.bad-config", said, Place(self.config_path), _CONFIG_FIX))

    def settings_changed(self) -> dict[str, list[Any]]:
        """Return the settings in `config.yaml` that were edited since the run began: name -> [old, new].

        Only `MAY_CHANGE` are allowed, and what was left out of the file as a secret.

        Raises:
            StoreError: For others: what was measured under one metric or model does not go on under another.
        """
        began, now = self.read_info()["settings"], self.read_config()
        names = [name for name in {**began, **now} if began.get(name) != now.get(name)]
        wrong = [name for name in names if name not in MAY_CHANGE and HIDDEN not in str(began.get(name))]
        if wrong:
            listed = "; ".join(f"{name}: {began.get(name)!r:.60} -> {now.get(name)!r:.60}" for name in wrong)
            may = ", ".join(sorted(MAY_CHANGE))
            fix = f"Put the old values back, or start a new run. Only these may change: {may}."
            said = f"edited since the run began ({listed})"
            raise StoreError(Problem("run.edited", said, Place(self.config_path), fix))
        return {name: [began.get(name), now.get(name)] for name in names}

    def check_is_own(self) -> None:
        """Refuse to do anything on behalf of a run that somebody else may have made.

        Call it before anything of the folder is executed, sent or asked. Reading needs no trust.

        Raises:
            StoreError: It has no valid mark of this user and its folder is not trusted, or settings of its
                `config.yaml` were edited that may not change.
        """
        changed = self.settings_changed()
        check_is_own(self.path, changed)

    def read_settings(self, kind: type[Settings]) -> Settings:
        """Return the settings that the run was started with, as the record `kind`.

        Raises:
            StoreError: If they are not of this kind.
        """
        try:
            return kind.model_validate(self.read_config())
        except ValidationError as error:
            fault = error.errors()[0]
            where = ".".join(map(str, fault["loc"]))
            place = Place(self.config_path, setting=where or None, source="file")
            raise StoreError(Problem("run.bad-config", fault["msg"], place, _CONFIG_FIX)) from error

    def read_result(self) -> dict[str, Any] | None:
        """Return the result of the run, None if it never ended.

        A continued run has the result of its earlier ending until it ends again; see `is_finished`.

        Raises:
            StoreError: If it cannot be read, or has another format.
        """
        found = [*self._results_aside(), *([self.result_path] if self.is_finished else [])]
        if not found:
            return None
        path = found[-1]
        try:
            data = read_json(path)
        except StoreError as error:
            # A file that the system does not let us read may be whole.
            if isinstance(error.__cause__, OSError) or self.read_info().get("kind") != "optimize":
                raise
            again = f"`autoprompt resume {self.reference}`"
            fix = f"Delete it, then run {again} to write it again from the saved answers."
            damaged = (replace(problem, fix=fix) for problem in error.problems)
            raise StoreError(*damaged) from error
        return _checked(path, data)

    def read_labels(self) -> tuple[str, ...] | None:
        """Return the only answers that the run allowed, given or inferred; () for free answers.

        None for a metric that compares freely.
        """
        path = self.path / "labels.json"
        return tuple(map(label_text, read_json(path)["labels"])) if path.exists() else None

    def has_conversations(self) -> bool:
        """Return whether the input of the run's rows is a conversation."""
        path = self.path / "fields.json"
        return path.exists() and bool(read_json(path).get("has_conversations"))

    def read_fields(self) -> tuple[str, ...]:
        """Return the fields that a prompt of the run can ask for; () for a workflow."""
        path = self.path / "fields.json"
        return tuple(read_json(path).get("fields") or ()) if path.exists() else ()

    def read_events(self) -> Iterator[dict[str, Any]]:
        return read_jsonl(self.events_path)

    def read_candidate_records(self) -> Iterator[dict[str, Any]]:
        """Yield every record as it was written, earlier ones of a candidate included."""
        return read_jsonl(self.candidates_path)

    def read_candidates(self) -> dict[str, dict[str, Any]]:
        """Return candidate id -> its last record, in the order in which the ids first came."""
        found = {row["id"]: row for row in read_jsonl(self.candidates_path)}
        return found | {row["id"]: row for row in self.read_dropped_ends() if row["id"] not in found}

    def read_dropped_ends(self) -> list[dict[str, Any]]:
        """Return records of the prompts that a continued run's earlier result returned or passed over.

        The ending may have proposed them. The continuation began before it, and has dropped their records.
        """
        if self.is_finished or (result := self.read_result()) is None:
            return []
        ends = (result.get("best"), (result.get("ends") or {}).get("other"))
        return [
            {"operator": "", "status": "accepted"}
            | {name: end[name] for name in ("id", "components", "demos")}
            for end in ends
            if end
        ]

    def has_own_models(self) -> bool:
        """Return whether its models were objects of the program that began it."""
        mark = self.path / "models"
        return mark.exists() and read_text(mark) == "own"

    def note_models(self, *, are_own: bool) -> None:
        """Note whose models the run has: objects of the program that began it, or those of its settings.

        Raises:
            StoreError: The run began with the other ones, and would mix answers of two models.
        """
        mark, whose = self.path / "models", "own" if are_own else "settings"
        if not mark.exists():
            self.write_text(mark.name, whose)
            return
        if read_text(mark) == whose:
            return
        if are_own:
            said = f"run {self.run_id} began with the models from its settings"
            fix = "Resume it without `models=`, or start a new run."
        else:
            said = f"run {self.run_id} began with models given in Python, and its settings name none"
            fix = "Resume it in Python with the same `models=`, or start a new run."
        raise StoreError(Problem("run.other-models", said, fix=fix))

    def check_has_prompts(self) -> None:
        """Check that the run is an optimization.

        Raises:
            StoreError: If it is a run of another kind.
        """
        kind = self.read_info().get("kind", "optimize")
        if kind == "batch":
            said = f"{self.run_id} is a batch and has no prompt"
            raise StoreError(Problem("run.no-prompt", said, fix=self.name_a_trial()))
        if kind != "optimize":
            said = f"run {self.run_id} is a `{kind}` run and has no prompt"
            raise StoreError(Problem("run.no-prompt", said, fix="Name an `optimize` run."))

    def name_a_trial(self) -> str:
        """Return the advice for whoever named this batch where a run is expected: the trials that it has."""
        trials = [RunFolder(path).reference for path in member_folders(self.path)]
        if not trials:
            return f"None of its trials has begun. Start them: autoprompt resume {self.reference}."
        more = f", or {len(trials) - _NAMED} more" if len(trials) > _NAMED else ""
        return f"Name one of its trials: {', '.join(trials[:_NAMED])}{more}."

    def find_candidate(self, beginning: str) -> dict[str, Any]:
        """Return the last record of the candidate whose id begins so, or of `original` or `best`.

        Raises:
            StoreError: For none and for several, and for the best of an unfinished run.
        """
        self.check_has_prompts()
        known = self.read_candidates()
        if beginning == "original" and known:
            return next(iter(known.values()))
        best = ((self.read_result() or {}).get("best") or {}).get("id")
        if beginning == "best" and best is not None:
            beginning = best
        found = [record for name, record in known.items() if beginning and name.startswith(beginning)]
        if len(found) == 1:
            return found[0]
        if found:
            fitting = ", ".join(record["id"] for record in found)
            said = f"{beginning!r} matches {counted(len(found), 'candidate')}: {fitting}"
            raise StoreError(Problem("run.several-candidates", said, fix="Give more of the id."))
        if beginning == best:
            said = f"the candidate {best}, which the run returns, is missing"
            fix = f"Restore the file, or take the prompt from {self.best_prompt_path.name} beside it."
            raise StoreError(Problem("run.lost-candidate", said, Place(self.candidates_path), fix))
        said = f"run {self.run_id} has no candidate {beginning!r}"
        fix = (
            f"It has {', '.join(['original', 'best', *known][:10])}. List all {len(known)} with `autoprompt "
            f"runs show {self.reference}`."
        )
        raise StoreError(Problem("run.no-candidate", said, fix=fix))

    def end_id(self, pick: str) -> str:
        """Return the id of a tested end, "highest" or "cheapest".

        They are the same if no cheaper prompt was about as good.

        Raises:
            StoreError: If the run is not finished, or has not tested its cheaper prompts.
        """
        self.check_has_prompts()
        result = self.read_result()
        if result is None:
            said = f"run {self.run_id} is not finished, so it has no prompt to pick"
            fix = f"Resume it, or name a candidate: `autoprompt runs show {self.reference}` lists them."
            raise StoreError(Problem("run.no-pick", said, fix=fix))
        ends: Mapping[str, Any] = result.get("ends") or {}
        if pick == "highest" and ends.get("other"):
            return str(ends["other"]["id"])
        if pick == "highest" or ends.get("reason") not in _UNTESTED:
            return str(result["best"]["id"])
        said, fix = _UNTESTED[ends["reason"]]
        config = self.read_config()
        limits = [name for name in Budget.model_fields if config.get(name) is not None] or ["max_calls"]
        again = f"`autoprompt resume {self.reference}`" if batch_of(self) is None else "run it again"
        fix = fix.format(again, " or ".join(f"{{{name}}}" for name in limits))
        fix = f"{fix} Or take the prompt with the highest score: {{pick}}."
        named = {**dict.fromkeys(limits), "pick": "highest"}
        raise StoreError(Problem("run.no-pick", f"run {self.run_id} {said}", fix=fix, settings=named))

    def rows_searched(self) -> set[str]:
        """Return the ids of rows that the search has scored, or shown to a writer or as a demonstration."""
        seen: set[Any] = set()
        for record in self.read_candidates().values():
            seen.update(record.get("scores") or (), record.get("told") or ())
            seen.update(demo.get("example_id") for demo in record.get("demos") or ())
        for path in self.predictions_dir.glob("*.jsonl"):
            if not path.stem.startswith(SEALED):
                seen.update(row.get("example_id") for row in read_jsonl(path))
        return seen - {"", None}

    def read_predictions(self, name: str) -> Iterator[dict[str, Any]]:
        """Yield the rows of one evaluation, one at a time, in the order of its examples."""
        return read_jsonl(self.predictions_dir / f"{name}.jsonl")


def member_folders(folder: Path) -> list[Path]:
    """Return the run folders right inside `folder`, by name."""
    if not folder.is_dir():
        return []
    found = (
        path for path in folder.iterdir() if not path.name.startswith(".") and (path / "run.json").is_file()
    )
    return sorted(found)


def batch_of(folder: RunFolder) -> RunFolder | None:
    """Return the batch that a run is a trial of, from the folder that contains it; None if there is none."""
    above = RunFolder(folder.path.absolute().parent)
    try:
        is_trial = above.info_path.is_file() and above.read_info().get("kind") == "batch"
    except StoreError:  # somebody else's run.json
        return None
    return above if is_trial else None


def _checked(path: Path, data: dict[str, Any]) -> dict[str, Any]:
    """Refuse a file of another format. The only place that looks at it: what is read after this is whole."""
    version = data.get("schema_version")
    if version == SCHEMA_VERSION and not isinstance(version, bool):
        return data
    if isinstance(version, int):
        formats = f"format {version}; this one reads {SCHEMA_VERSION}"
        said = f"another version of autoprompt wrote this run ({formats})"
        fix = "Use that version, or start a new run."
        raise StoreError(Problem("run.other-format", said, Place(path), fix))
    said = f"this is not a run of autoprompt: its schema_version is {version!r}"
    raise StoreError(Problem("run.not-a-run", said, Place(path), "Give the folder of a run."))
