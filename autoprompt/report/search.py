"""The search as its files tell it: candidates with the end of their races, the best so far, the lineage."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast

from autoprompt.records import Demo, Round
from autoprompt.report.records import CandidateStatus, CandidateSummary, Lesson, Progress, Step

Event = Mapping[str, Any]
Record = Mapping[str, Any]

_LESSON = re.compile(r"\[(better|worse|no_difference) ([+-][\d.]+) on (\d+) rows\] (.*)", re.DOTALL)


def read_candidates(records: Sequence[Record], events: Sequence[Event]) -> tuple[CandidateSummary, ...]:
    """Every candidate once, in the order of proposal; the original is the first.

    records: lines of `candidates.jsonl`, of which the last one of an id holds. A race that a resumed run
    repeated has told its end twice; both tell the same.
    """
    settled = {event["id"]: event for event in events if event.get("event") == "candidate_settled"}
    last: dict[str, Record] = {}
    for record in records:
        last[record["id"]] = record
    raced = _raced_rows(records, settled)
    return tuple(_candidate(record, settled.get(record["id"]), raced) for record in last.values())


def _raced_rows(records: Iterable[Record], settled: Mapping[str, Event]) -> set[str]:
    """The rows that candidates race on: those of each one's first scores.

    Those of the confirmation come after them, in the same record where the last round's winner went there.
    settled: how each candidate's race ended, which says over how many rows it was.
    """
    raced: set[str] = set()
    seen: set[str] = set()
    for record in records:
        scores, name = record.get("scores"), record["id"]
        if scores and record.get("operator") != "original" and name not in seen:
            seen.add(name)
            raced.update([*scores][: settled[name]["rows"]] if name in settled else scores)
    return raced


def _mean(scores: Mapping[str, float], rows: Sequence[str], weights: Mapping[str, float]) -> float | None:
    """As the search counted the rows: of macro F1, each label the same."""
    total = sum(weights.get(row, 1.0) for row in rows)
    return sum(scores[row] * weights.get(row, 1.0) for row in rows) / total if total else None


def _candidate(record: Record, settled: Event | None, raced: set[str]) -> CandidateSummary:
    is_original = record.get("operator") == "original"
    scores = record.get("scores") or {}
    shown = [row for row in scores if row in raced or not is_original] or [*scores]
    end = settled or {}
    status = record.get("status") or ("accepted" if is_original else "pending")
    return CandidateSummary(
        id=str(record["id"]),
        operator=str(record.get("operator", "")),
        iteration=int(record.get("iteration") or 0),
        parents=tuple(record.get("parents") or ()),
        status=cast("CandidateStatus", status),
        change=str(record.get("change", "")),
        components=dict(record.get("components") or {}),
        demos=tuple(map(Demo.from_dict, record.get("demos") or ())),
        score=end.get("score", _mean(scores, shown, record.get("weights") or {})),
        rows=end.get("rows", len(shown)),
        parent_score=end.get("parent_score"),
        p_value=end.get("p_value"),
        calls=0 if is_original else end.get("calls"),
    )


def lineage(candidates: Sequence[CandidateSummary], best_id: str) -> tuple[str, ...]:
    """The best candidate and all that it descends from, the oldest first."""
    known = {candidate.id: candidate for candidate in candidates}
    found: set[str] = set()
    waiting = [best_id]
    while waiting:
        current = known.get(waiting.pop())
        if current is not None and current.id not in found:
            found.add(current.id)
            waiting += current.parents
    return tuple(candidate.id for candidate in candidates if candidate.id in found)


def best_steps(original: CandidateSummary | None, events: Iterable[Event]) -> tuple[Step, ...]:
    """How the best so far rose, the original first. A log that does not tell the calls gives no steps."""
    steps = {}
    for event in events:
        if event.get("event") == "best_changed" and event.get("calls") is not None:
            steps[event["id"]] = Step(int(event["calls"]), float(event["score"]), str(event["id"]))
    if original is None or original.score is None:
        return tuple(steps.values())
    return (Step(0, original.score, original.id), *steps.values())


def progress(candidates: Sequence[CandidateSummary], events: Sequence[Event]) -> Progress:
    """Where the run stands by its log."""
    started = _last(events, "run_started") or {}
    node = _last(events, "node_started") or {}
    best = _last(events, "best_changed") or {}
    return Progress(
        iteration=int(node.get("iteration") or 0),
        max_iterations=int(started.get("max_iterations") or 0),
        node="" if _last(events, "run_finished") else str(node.get("node", "")),
        best_score=best.get("score"),
        original_score=best.get("original_score"),
        rows=int(best.get("rows") or 0),
        pending=tuple(c.id for c in candidates if c.status == "pending"),
        refused=sum(event.get("event") == "candidate_refused" for event in events),
    )


def rounds(
    result: Record | None, candidates: Sequence[CandidateSummary], events: Sequence[Event]
) -> tuple[Round, ...]:
    """What each round began with and found; of an unfinished run as its log tells it.

    A round that a resumed run repeated has told it twice; both tell the same.
    """
    if result is not None:
        return tuple(map(Round.from_dict, result.get("history") or ()))
    known = {candidate.id: candidate for candidate in candidates}
    told = {event["iteration"]: event for event in events if event.get("event") == "analysis"}
    return tuple(
        _round(event, known[event["candidate"]]) for event in told.values() if event["candidate"] in known
    )


def _round(event: Event, candidate: CandidateSummary) -> Round:
    errors, total = int(event["error_count"]), int(event["total_count"])
    return Round(
        iteration=int(event["iteration"]),
        split="train",
        candidate=candidate.id,
        prompt=candidate.prompt,
        demos=len(candidate.demos),
        error_count=errors,
        total_count=total,
        error_cases=(),
        suggestions=str(event["suggestions"]),
        score=None,
        validation=candidate.score,
        is_cut=False,
        calls=int(event["calls"]),
        predictions=str(event["predictions"]),
    )


def lessons(events: Iterable[Event]) -> tuple[Lesson, ...]:
    """What the run learned, in its order, each once: a resumed run may have noted one twice."""
    texts = dict.fromkeys(str(event["text"]) for event in events if event.get("event") == "lesson")
    return tuple(map(read_lesson, texts))


def read_lesson(text: str) -> Lesson:
    """`[better +0.12 on 30 rows] added: ...` in its parts; any other text as it stands."""
    match = _LESSON.fullmatch(text)
    if match is None:
        return Lesson(text)
    verdict, gain, rows, change = match.groups()
    return Lesson(change, verdict, float(gain), int(rows))


def _last(events: Sequence[Event], kind: str) -> Event | None:
    return next((event for event in reversed(events) if event.get("event") == kind), None)
