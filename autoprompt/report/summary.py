"""A run as people look at it: every number and text, read once, for console, page, Markdown and JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from autoprompt.dataset.python_rows import is_given
from autoprompt.errors import Problem, StoreError, Voice, tell
from autoprompt.records import Round, Usage
from autoprompt.report import reading, wording
from autoprompt.report.records import (
    CandidateSummary,
    Choice,
    ComparedRow,
    Confusion,
    Lesson,
    Progress,
    Side,
    Step,
    TradeOff,
    Validation,
)
from autoprompt.report.reproduce import command
from autoprompt.runs import RunFolder
from autoprompt.runs.interrupted import resume_command
from autoprompt.runs.spending import Spending, read_spending, total_cost

Status = Literal["finished", "running", "interrupted"]
Verdict = Literal["confirmed", "not_confirmed", "nothing_to_improve", "untested", "unfinished"]


@dataclass(frozen=True, slots=True)
class RunSummary:
    """One run. What it has not found out yet is None, 0 or empty. Scores in [0, 1], intervals of 95%.

    headline: the verdict in one sentence; explanation: what that means.
    original, best: on the sealed test. gain, p_value (two-sided, paired), fixed, broken: best against
        original there; left_out: rows that the endpoint failed on either side.
    trade_off: score against length; None where there is no choice.
    candidates: the original first, then in order of proposal. lineage: ids, from the original to the best.
    steps: the best so far over the calls of the run. rounds: what each round began with and found.
    rows: the sealed test under both prompts; rows_of: what these rows are, in words.
    confusion: under the original and under the best prompt; empty where answers are no labels.
    lessons_read: of earlier runs, as this one was given them; lessons: what this run noted.
    settings: `config.yaml`; command: does the run again.
    test_opened: runs that have looked at rows of this test so far, this one included; opened_before says it
        in a sentence, "" where it is the first.
    """

    run_id: str
    path: Path
    kind: str
    status: Status
    created: str
    dataset: str
    model: str
    optimizer_model: str
    metric: str
    verdict: Verdict
    headline: str
    explanation: str
    original: Side
    best: Side
    gain: float | None
    gain_ci95: tuple[float, float] | None
    p_value: float | None
    fixed: int
    broken: int
    left_out: int
    validation: Validation | None
    trade_off: TradeOff | None
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
    seconds: float | None
    stop_reason: str
    lessons_read: tuple[str, ...]
    lessons: tuple[Lesson, ...]
    settings: Mapping[str, Any]
    command: str
    split_sizes: Mapping[str, int]
    sha256: Mapping[str, str]
    test_opened: int
    opened_before: str
    budget: Mapping[str, Any]
    warnings: tuple[str, ...]

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
        return "" if self.trade_off is None else wording.trade_off(self.trade_off, self.is_unchanged)

    @property
    def mark(self) -> str:
        """The verdict in a word or three."""
        return wording.mark(self.verdict, is_unchanged=self.is_unchanged, is_running=self.status == "running")

    @property
    def is_finished(self) -> bool:
        return self.status == "finished"

    def candidate(self, candidate_id: str) -> CandidateSummary | None:
        return next((c for c in self.candidates if c.id == candidate_id), None)

    def name_of(self, candidate_id: str) -> str:
        """How a table names a candidate."""
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
        return {**asdict(self), "path": str(self.path), "rows": rows}


def read_summary(folder: RunFolder, *, with_rows: bool = True) -> RunSummary:
    """The run in this folder, finished, running or interrupted. Needs no lock and writes nothing.

    Safe while the run writes: its small files are replaced whole, and a half-written last line of a log is
    passed over. with_rows: False leaves `rows` and `confusion` empty, for a list of many runs.
    Raises StoreError for a folder that is no run, is damaged, or is of a newer layout.
    """
    # The result first: what is read after it is at least as new.
    info, result = folder.read_info(), folder.read_result()
    if info.get("kind") == "science":
        page = folder.path / "transcript.md"
        raise StoreError(f"run {folder.run_id} is an investigation and no optimization: read {page}")
    if info.get("kind") == "batch":
        raise StoreError(
            f"run {folder.run_id} is a batch and no optimization: its trials lie in {folder.path}"
        )
    config = folder.read_config()
    events = list(folder.read_events())
    candidates = reading.read_candidates(list(folder.read_candidate_records()), events)
    rows, rows_of = reading.read_rows(folder) if with_rows else ((), "")
    return _make(_Files(folder, info, config, result, events, candidates, rows, rows_of))


@dataclass(frozen=True, slots=True)
class _Files:
    """What was read."""

    folder: RunFolder
    info: Mapping[str, Any]
    config: Mapping[str, Any]
    result: Mapping[str, Any] | None
    events: Sequence[Mapping[str, Any]]
    candidates: tuple[CandidateSummary, ...]
    rows: tuple[ComparedRow, ...]
    rows_of: str


def _make(files: _Files) -> RunSummary:
    result, config = files.result or {}, files.config
    started = _started(files.events)
    original, best = _side(result.get("original")), _side(result.get("best"))
    spending = read_spending(files.result, files.folder.journal_path)
    tokens = result.get("tokens") or {}
    progress = reading.progress(files.candidates, files.events)
    first = next((c for c in files.candidates if c.is_original), None)
    steps = reading.best_steps(first, files.events)
    best_id = _best_id(result, steps, first)
    calls = int(result.get("calls") or sum(part.calls for part in spending))
    status = _status(files)
    verdict, sentence, meaning = _verdict(files, status, original, best, progress, calls)
    splits, gain = result.get("splits") or {}, result.get("gain") or {}
    return RunSummary(
        run_id=files.folder.run_id,
        path=files.folder.path,
        kind=str(files.info.get("kind", "")),
        status=status,
        created=str(files.info.get("created", "")),
        dataset=str(config.get("dataset") or config.get("train") or ""),
        model=str(result.get("model") or started.get("model") or config.get("model") or ""),
        optimizer_model=str(result.get("optimizer_model") or started.get("optimizer_model") or ""),
        metric=str(result.get("metric") or config.get("metric") or ""),
        verdict=verdict,
        headline=sentence,
        explanation=meaning,
        original=original,
        best=best,
        gain=gain.get("value"),
        gain_ci95=_pair(gain.get("ci95")),
        p_value=result.get("p_value"),
        fixed=int(result.get("fixed") or 0),
        broken=int(result.get("broken") or 0),
        left_out=int(result.get("left_out") or 0),
        validation=_validation(result.get("validation")),
        trade_off=read_trade_off(result),
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
        tokens=sum(tokens.values()) or sum(part.usage.total_tokens for part in spending),
        cost_usd=result["cost_usd"] if "cost_usd" in result else total_cost(spending),
        seconds=result.get("seconds"),
        stop_reason=str(result.get("stop_reason") or ""),
        lessons_read=tuple(map(str, started.get("lessons_read") or ())),
        lessons=reading.lessons(files.events),
        settings=dict(config),
        command=command(config, files.folder.path),
        split_sizes=dict(splits.get("sizes") or started.get("sizes") or {}),
        sha256=dict(splits.get("sha256") or {}),
        test_opened=int(splits.get("test_opened") or 0),
        opened_before=wording.opened_before(result),
        budget=dict(started.get("budget") or {}),
        warnings=_warnings(result, started, files),
    )


def read_trade_off(result: Mapping[str, Any]) -> TradeOff | None:
    """Of a run's `result.json`; None where it has none."""
    found = result.get("trade_off")
    if not found:
        return None
    return TradeOff(int(found["rows"]), tuple(Choice(**choice) for choice in found["candidates"]))


def _started(events: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """What the run said when it began and when it was resumed, together: only the first knows its lessons."""
    merged: dict[str, Any] = {}
    for event in events:
        if event.get("event") == "run_started":
            merged.update(event)
    return merged


def _best_id(result: Mapping[str, Any], steps: Sequence[Step], first: CandidateSummary | None) -> str:
    """The winner's; before the end that of the best so far, "" before the first step."""
    if found := (result.get("best") or {}).get("id"):
        return str(found)
    return steps[-1].id if steps else first.id if first else ""


def _status(files: _Files) -> Status:
    if files.result is not None:
        return "finished"
    return "running" if files.folder.is_locked() else "interrupted"


def _verdict(
    files: _Files, status: Status, original: Side, best: Side, progress: Progress, calls: int
) -> tuple[Verdict, str, str]:
    """Verdict, headline and explanation."""
    result = files.result
    if result is None:
        said = wording.unfinished(
            resume_command(files.folder), progress, calls, is_running=status == "running"
        )
        return "unfinished", *said
    meaning = " ".join(
        filter(None, (wording.explanation(result), wording.baselines(result.get("baselines"))))
    )
    known: dict[str, Verdict] = {
        "confirmed": "confirmed",
        "not_confirmed": "not_confirmed",
        "nothing_to_improve": "nothing_to_improve",
    }
    verdict = known.get(str(result.get("verdict")), "untested")
    return verdict, wording.headline(result, original, best), meaning


def _side(data: Mapping[str, Any] | None) -> Side:
    if not data:
        return Side()
    return Side(
        score=data.get("score"),
        ci95=_pair(data.get("ci95")),
        rows=int(data.get("n") or 0),
        tokens_per_call=data.get("tokens_per_call"),
        unparsed=int(data.get("unparsed") or 0),
        failed=int(data.get("failed") or 0),
    )


def _validation(data: Mapping[str, Any] | None) -> Validation | None:
    if not data or data.get("best") is None:
        return None
    confirmation = data.get("confirmation") or {}
    return Validation(
        original=data.get("original"),
        best=data.get("best"),
        rows=int(data.get("rows") or 0),
        is_fresh=not data.get("chose_the_winner", True),
        tried=int(confirmation.get("tried") or 0),
        p_value=confirmation.get("p_value"),
        confirmation=wording.confirmation(confirmation) if confirmation.get("confirmed") else "",
        not_confirmed=wording.not_confirmed(data) if confirmation.get("confirmed") is False else "",
        measure=str(data.get("measure", "")),
    )


def _warnings(result: Mapping[str, Any], started: Mapping[str, Any], files: _Files) -> tuple[str, ...]:
    """Each warning once, in the words of whoever started the run: a program with its rows, or a command."""
    noted = (event for event in files.events if event.get("event") == "warning")
    known = (*(result.get("warnings") or started.get("warnings") or ()), *noted)
    voice = Voice.PYTHON if is_given(files.config.get("dataset")) else Voice.CLI
    return tuple(dict.fromkeys(tell(Problem.from_dict(one), voice) for one in known))


def _pair(values: Sequence[float] | None) -> tuple[float, float] | None:
    return None if values is None else (float(values[0]), float(values[1]))
