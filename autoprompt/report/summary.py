"""A run as people look at it: every number and text, read once, for console, page, Markdown and JSON."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from autoprompt.dataset.python_rows import is_given
from autoprompt.errors import Problem, StoreError, Voice, arguments, tell
from autoprompt.records import Usage, plain
from autoprompt.report import reading, wording
from autoprompt.report.records import CandidateSummary, ComparedRow, Confusion, Lesson, Progress, Step
from autoprompt.runs.folder import RunFolder, is_usual
from autoprompt.runs.listing import Stage, stage_of
from autoprompt.runs.result import Result, Round, Side, Validation
from autoprompt.runs.resuming import resume_command
from autoprompt.runs.spending import Spending, from_journal, total_cost
from autoprompt.settings.records import RunConfig

Verdict = Literal["confirmed", "not_confirmed", "nothing_to_improve", "untested", "unfinished"]


# What a summary says of a result under its own names, in its JSON as well.
_OF_RESULT = ("original", "best", "p_value", "fixed", "broken", "left_out", "trade_off", "seconds",
              "stop_reason")  # fmt: skip


@dataclass(frozen=True, slots=True)
class RunSummary:
    """One run. What it has not found out yet is None, 0 or empty. Scores in [0, 1], intervals of 95%.

    result: what came out; of an unfinished run an empty one.
    headline: the verdict in one sentence; explanation: what that means.
    candidates: the original first, then in order of proposal. lineage: ids, from the original to the best.
    steps: the best so far over the calls of the run. rounds: what each round began with and found.
    rows: the sealed test under both prompts; rows_of: what these rows are, in words.
    confusion: under the original and under the best prompt; empty where answers are no labels.
    lessons_read: of earlier runs, as this one was given them; lessons: what this run noted.
    settings: `config.yaml`; command: does the run again. budget: the caps that the run began with.
    calls_per_row: requests that a row takes, on average.
    """

    run_id: str
    path: Path
    kind: str
    status: Stage
    created: str
    dataset: str
    model: str
    optimizer_model: str
    metric: str
    verdict: Verdict
    headline: str
    explanation: str
    result: Result
    candidates: tuple[CandidateSummary, ...]
    best_id: str
    lineage: tuple[str, ...]
    steps: tuple[Step, ...]
    rounds: tuple[Round, ...]
    progress: Progress
    rows: tuple[ComparedRow, ...]
    rows_of: str
    confusion: tuple[Confusion, ...]
    spending: tuple[Spending, ...]
    calls: int
    tokens: int
    cost_usd: float | None
    lessons_read: tuple[str, ...]
    lessons: tuple[Lesson, ...]
    settings: Mapping[str, Any]
    command: str
    split_sizes: Mapping[str, int]
    budget: Mapping[str, Any]
    warnings: tuple[str, ...]
    calls_per_row: float = 1.0

    @property
    def name(self) -> str:
        """What the user calls the run; "" without a name."""
        return str(self.settings.get("name") or "")

    @property
    def tags(self) -> tuple[str, ...]:
        return tuple(map(str, self.settings.get("tags") or ()))

    @property
    def notes(self) -> str:
        """What the user says of the run."""
        return str(self.settings.get("notes") or "")

    @property
    def gain(self) -> float | None:
        """Best minus original on the sealed test."""
        return None if self.result.gain is None else self.result.gain.value

    @property
    def gain_ci95(self) -> tuple[float, float] | None:
        return None if self.result.gain is None else self.result.gain.ci95

    @property
    def validation(self) -> Validation | None:
        """None if nothing was compared before the test."""
        return None if self.result.validation.best is None else self.result.validation

    @property
    def confirmation(self) -> str:
        """How the winner was confirmed before the test, or why it was not; "" if there was no winner."""
        found = self.validation and self.validation.confirmation
        if not found or self.validation is None:
            return ""
        before = " before the test" if self.result.best.n else ""
        measured = f" ({self.validation.measure})" if self.validation.measure else ""
        if found.confirmed:
            who = wording.whose(self.result)
            return f"Confirmed{before}{who}{measured}: {wording.confirmation(found)}."
        return f"Not confirmed{before}{measured}: {wording.not_confirmed(found, self.validation.measure)}."

    @property
    def tested_sides(self) -> list[tuple[str, Side]]:
        """What met the sealed test, by name."""
        return wording.tested_sides(self.result)

    @property
    def unpriced(self) -> tuple[str, str]:
        """The model whose price is missing if the cost is not known, and what it did ("" for the task's)."""
        roles = [
            part.role for part in self.spending if part.usage.total_tokens and part.usage.cost_usd is None
        ]
        writer = self.settings.get("optimizer_model")
        others = {
            "optimizer": (writer, "wrote the candidates"),
            "judge": (self.settings.get("judge_model") or writer, "graded the answers"),
        }
        # A role without a model of its own has that of the task, and its price.
        known = [(str(model), did) for role, (model, did) in others.items() if role in roles and model]
        return (self.model, "") if "task" in roles or not known else known[0]

    @property
    def end_lines(self) -> tuple[str, ...]:
        """What was passed over, and what each of the tested ends costs; commands name this run."""
        lines, reference = self.result.ends.lines, RunFolder(self.path).reference
        return (*(line.replace(" RUN:", f" {reference}:") for line in lines), *self._cost_notes())

    def _cost_notes(self) -> Iterator[str]:
        """Yield what a call is if a row takes several, and the traffic that a cost is for if it matters."""
        ends = self.result.ends
        if not ends.lines:
            return
        if self.calls_per_row != 1:
            shown = f"{self.calls_per_row:.3g}"
            about = "" if self.calls_per_row == int(self.calls_per_row) else "about "
            yield f"A call in these figures is one row, which takes {about}{shown} requests."
        costs = [side.cost for _, side in self.tested_sides if side.cost is not None]
        if ends.traffic != 0 and any(cost.cold != cost.warm for cost in costs):
            unit = "call" if ends.traffic == 1 else "calls"
            traffic = "a warm cache" if ends.traffic is None else f"{ends.traffic:g} {unit} per hour"
            yield f"A single cost is for {traffic}, the run's traffic."

    @property
    def preset_cap(self) -> int | None:
        """The cap on calls that the preset set; None if the user set it."""
        return None if self.settings.get("max_calls") is not None else self.budget.get("max_calls")

    @property
    def usage(self) -> Usage:
        """Of all roles."""
        return sum((part.usage for part in self.spending), Usage())

    @property
    def original_candidate(self) -> CandidateSummary | None:
        """None in a run that was stopped before its first step was saved."""
        return next((c for c in self.candidates if c.is_original), None)

    @property
    def best_candidate(self) -> CandidateSummary | None:
        """The best so far, or in the end; the original where nothing was better."""
        return self.candidate(self.best_id) or self.original_candidate

    @property
    def is_unchanged(self) -> bool:
        """Whether the original is the best there is, or the best so far."""
        return all(c.id != self.best_id or c.is_original for c in self.candidates)

    @property
    def trade_off_title(self) -> str:
        """What stands over the table of it."""
        found = self.result.trade_off
        return "" if found is None else wording.trade_off(found, self.is_unchanged)

    @property
    def mark(self) -> str:
        """The verdict in a word or three."""
        return wording.mark(
            self.verdict,
            is_unchanged=self.is_unchanged,
            is_running=self.status == "running" and not self.has_result,
        )

    @property
    def title(self) -> str:
        """The verdict in a word or three and the headline, in one line."""
        return (
            wording.headline(self.result, self.mark) if self.has_result else f"{self.mark}: {self.headline}"
        )

    @property
    def is_finished(self) -> bool:
        return self.status == "finished"

    @property
    def has_result(self) -> bool:
        """Whether the run has ended at least once; it may be continued by now."""
        return self.verdict != "unfinished"

    def candidate(self, candidate_id: str) -> CandidateSummary | None:
        return next((c for c in self.candidates if c.id == candidate_id), None)

    def name_of(self, candidate_id: str) -> str:
        """Return how a table names a candidate."""
        found = self.candidate(candidate_id)
        return "original" if found is not None and found.is_original else candidate_id[:6]

    def count(self, state: str) -> int:
        """Rows in this state."""
        return sum(row.state == state for row in self.rows)

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON."""
        rows = [
            {**asdict(row), "turns": [turn.to_dict() for turn in row.turns], "state": row.state}
            for row in self.rows
        ]
        data = {**asdict(self), "path": str(self.path), "rows": rows}
        del data["result"]
        more = {
            "gain": self.gain,
            "gain_ci95": self.gain_ci95,
            "validation": None if self.validation is None else plain(self.validation),
            "sha256": dict(self.result.splits.sha256),
            "test_opened": self.result.splits.test_opened,
        }
        result = plain(self.result)
        return {**data, **{name: result[name] for name in _OF_RESULT}, **more}


def read_summary(folder: RunFolder, *, with_rows: bool = True) -> RunSummary:
    """Return the run in this folder, finished, running or interrupted. Needs no lock and writes nothing.

    Safe while the run writes: its small files are replaced whole, and a half-written last line of a log is
    passed over. with_rows: False leaves `rows` and `confusion` empty, for a list of many runs.

    Raises:
        StoreError: For a folder that is no run, is damaged, or is of a newer layout.
    """
    info = folder.read_info()
    if info.get("kind") == "science":
        page = folder.path / "transcript.md"
        said = f"run {folder.run_id} is a `science` run and has no report"
        raise StoreError(Problem("report.other-kind", said, fix=f"Read {page}."))
    if info.get("kind") == "batch":
        said = f"run {folder.run_id} is a batch"
        raise StoreError(Problem("report.other-kind", said, fix=folder.name_a_trial()))
    result = Result.read(folder)  # first: what is read after it is at least as new
    config = folder.read_config()
    events = list(folder.read_events())
    records = list(folder.read_candidate_records())
    known = {record["id"] for record in records}
    records += [record for record in folder.read_dropped_ends() if record["id"] not in known]
    candidates = reading.read_candidates(records, events)
    rows, rows_of = reading.read_rows(folder) if with_rows else ((), "")
    return _make(_Files(folder, info, config, result, events, candidates, rows, rows_of))


@dataclass(frozen=True, slots=True)
class _Files:
    """What was read."""

    folder: RunFolder
    info: Mapping[str, Any]
    config: Mapping[str, Any]
    result: Result | None
    events: Sequence[Mapping[str, Any]]
    candidates: tuple[CandidateSummary, ...]
    rows: tuple[ComparedRow, ...]
    rows_of: str


def _make(files: _Files) -> RunSummary:
    result, config = files.result or Result(), files.config
    started = _started(files.events)
    status = stage_of(files.folder)
    ended = (
        result if status == "finished" else Result()
    )  # a continued run has spent more than its result says
    spending = ended.spending or from_journal(files.folder.journal_path)
    progress = reading.progress(files.candidates, files.events)
    first = next((c for c in files.candidates if c.is_original), None)
    steps = reading.best_steps(first, files.events)
    # Before the end the best so far, "" before the first step.
    best_id = result.best.id or (steps[-1].id if steps else first.id if first else "")
    calls = sum(part.calls for part in spending) if ended.calls is None else ended.calls
    verdict, headline, explanation = _verdict(files, status, progress, calls)
    return RunSummary(
        run_id=files.folder.run_id,
        path=files.folder.path,
        kind=str(files.info.get("kind", "")),
        status=status,
        created=str(files.info.get("created", "")),
        dataset=str(config.get("dataset") or config.get("train") or ""),
        model=result.model or str(started.get("model") or config.get("model") or ""),
        optimizer_model=result.optimizer_model or str(started.get("optimizer_model") or ""),
        metric=result.metric or str(config.get("metric") or ""),
        verdict=verdict,
        headline=headline,
        explanation=explanation,
        result=result,
        candidates=files.candidates,
        best_id=best_id,
        lineage=reading.lineage(files.candidates, best_id),
        steps=steps,
        rounds=reading.rounds(files.result, files.candidates, files.events),
        progress=progress,
        rows=files.rows,
        rows_of=files.rows_of,
        confusion=reading.confusion(files.rows, tuple(map(str, config.get("labels") or ()))),
        spending=spending,
        calls=calls,
        tokens=sum(ended.tokens.values()) or sum(part.usage.total_tokens for part in spending),
        cost_usd=result.cost_usd if status == "finished" else total_cost(spending),
        lessons_read=tuple(map(str, started.get("lessons_read") or ())),
        lessons=reading.lessons(files.events),
        settings=dict(config),
        command=rerun_command(config, files.folder.path),
        split_sizes=dict(result.splits.sizes or started.get("sizes") or {}),
        budget=dict(started.get("budget") or {}),
        warnings=_warnings(result, started, files),
        calls_per_row=_calls_per_row(started),
    )


def _started(events: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return what the run said when it began and when it was resumed, together.

    Only the first knows its lessons.
    """
    merged: dict[str, Any] = {}
    for event in events:
        if event.get("event") == "run_started":
            merged.update(event)
    return merged


def _calls_per_row(started: Mapping[str, Any]) -> float:
    plan = started.get("plan")
    found = plan.get("calls_per_row") if isinstance(plan, Mapping) else None
    return float(found) if isinstance(found, int | float) else 1.0


def _verdict(files: _Files, status: Stage, progress: Progress, calls: int) -> tuple[Verdict, str, str]:
    """Verdict, headline and explanation."""
    result, how = files.result, resume_command(files.folder)
    if result is None:
        said = wording.unfinished(how, progress, calls, is_running=status == "running")
        return "unfinished", *said
    meaning = (wording.explanation(result), wording.baselines(result.baselines))
    continued = () if status == "finished" else (wording.continued(how, is_running=status == "running"),)
    return result.verdict, wording.headline(result), " ".join(filter(None, (*meaning, *continued)))


def _warnings(result: Result, started: Mapping[str, Any], files: _Files) -> tuple[str, ...]:
    """Each warning once, in the words of whoever started the run: a program with its rows, or a command."""
    noted = [Problem.from_dict(event) for event in files.events if event.get("event") == "warning"]
    known = result.warnings or tuple(map(Problem.from_dict, started.get("warnings") or ()))
    voice = Voice.PYTHON if _has_given_rows(files.config) else Voice.CLI
    return tuple(dict.fromkeys(tell(one, voice) for one in (*known, *noted)))


# Another machine has others.
_PLACES = ("memory_file", "cache_dir")
_FIRST = ("dataset", "train", "val", "test", "prompt")
_LONGEST_PROMPT = 200


def rerun_command(config: Mapping[str, Any], folder: Path) -> str:
    """`autoprompt run` with every setting that is not the default, for a shell.

    A prompt of several lines, or a long one, is named by its file in the run's folder. What a program handed
    over, rows or models, no command has: then the page shows the Python call.
    """
    handed_over = ["rows=rows"] if _has_given_rows(config) else []
    if RunFolder(folder).has_own_models():
        handed_over.append("models=models")
    if handed_over:
        return f"optimize(config, {', '.join(handed_over)}), in the program that began it"
    words = ["autoprompt", "run"]
    names = sorted(config, key=lambda name: _FIRST.index(name) if name in _FIRST else len(_FIRST))
    for name in names:
        if name not in _PLACES:
            words += _flag(name, config[name], folder)
    return " ".join(map(shlex.quote, words))


def _has_given_rows(config: Mapping[str, Any]) -> bool:
    """Return whether a program handed over the rows."""
    return any(is_given(config.get(name)) for name in ("dataset", "train", "val", "test"))


def _flag(name: str, value: Any, folder: Path) -> list[str]:
    if name == "prompt" and value is not None and _is_long(str(value)):
        return arguments(name, f"@{folder / 'original_prompt.txt'}")
    if not is_set(name, value) or (name == "runs_dir" and is_usual(Path(value))):
        return []
    return arguments(name, value)


def _is_long(prompt: str) -> bool:
    return "\n" in prompt or len(prompt) > _LONGEST_PROMPT or prompt.startswith("@")


def is_set(name: str, value: Any) -> bool:
    """Return whether a setting says more than its default does."""
    if value is None or value is False or value in ("", [], {}, ()):
        return False
    field = RunConfig.model_fields.get(name)
    if field is None:
        return False
    default = field.get_default(call_default_factory=True)
    return bool(value != default and str(value) != str(default))
