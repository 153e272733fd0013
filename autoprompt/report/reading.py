"""The search and its rows as a run's files tell them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, cast

from autoprompt.llm.prices import Cost
from autoprompt.memory import words
from autoprompt.records import Change, Demo, Message, shown_error
from autoprompt.report.records import (
    Answer,
    CandidateStatus,
    CandidateSummary,
    ComparedRow,
    Confusion,
    Lesson,
    Progress,
    Step,
)
from autoprompt.runs import RunFolder
from autoprompt.runs.folder import SEALED
from autoprompt.runs.result import Result, Round

Event = Mapping[str, Any]

# More labels make a table that nobody reads.
MOST_LABELS = 24

Record = Mapping[str, Any]


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
    """Return the rows that candidates race on: those of each one's first scores.

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
        change=words(Change.from_dict(record.get("change") or {})),
        components=dict(record.get("components") or {}),
        demos=tuple(map(Demo.from_dict, record.get("demos") or ())),
        score=end.get("score", _mean(scores, shown, record.get("weights") or {})),
        rows=end.get("rows", len(shown)),
        parent_score=end.get("parent_score"),
        p_value=end.get("p_value"),
        calls=0 if is_original else end.get("calls"),
        cost=Cost(**record["cost"]) if record.get("cost") else None,
    )


def lineage(candidates: Sequence[CandidateSummary], best_id: str) -> tuple[str, ...]:
    """Return the best candidate and all that it descends from, the oldest first."""
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
    """Return how the best so far rose, the original first.

    A log that does not tell the calls gives no steps.
    """
    steps = {}
    for event in events:
        if event.get("event") == "best_changed" and event.get("calls") is not None:
            steps[event["id"]] = Step(int(event["calls"]), float(event["score"]), str(event["id"]))
    if original is None or original.score is None:
        return tuple(steps.values())
    return (Step(0, original.score, original.id), *steps.values())


def progress(candidates: Sequence[CandidateSummary], events: Sequence[Event]) -> Progress:
    """Return where the run stands by its log."""
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
    result: Result | None, candidates: Sequence[CandidateSummary], events: Sequence[Event]
) -> tuple[Round, ...]:
    """Return what each round began with and found; of an unfinished run as its log tells it.

    A round that a resumed run repeated has told it twice; both tell the same.
    """
    if result is not None:
        return result.history
    known = {candidate.id: candidate for candidate in candidates}
    by_round = {event["iteration"]: event for event in events if event.get("event") == "analysis"}
    return tuple(
        _round(event, known[event["candidate"]]) for event in by_round.values() if event["candidate"] in known
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
        cost=candidate.cost,
        is_cut=False,
        calls=int(event["calls"]),
        predictions=str(event["predictions"]),
    )


def lessons(events: Iterable[Event]) -> tuple[Lesson, ...]:
    """Return what the run learned, in its order, each once: a resumed run may have noted one twice."""
    found = (event for event in events if event.get("event") == "lesson")
    return tuple(
        dict.fromkeys(
            Lesson(str(e["change"]), str(e["verdict"]), float(e["gain"]), int(e["rows"])) for e in found
        )
    )


def _last(events: Sequence[Event], kind: str) -> Event | None:
    return next((event for event in reversed(events) if event.get("event") == kind), None)


def read_rows(folder: RunFolder) -> tuple[tuple[ComparedRow, ...], str]:
    """Return the rows of the sealed test under both prompts, and what they are called in words.

    Where the test has not been opened: the rows of train that the best prompt was last run on. A run whose
    best is its original has run it once, and both sides are the same.
    """
    best = _read(folder, f"{SEALED}best")
    if best:
        return joined(_read(folder, f"{SEALED}original") or best, best), "the sealed test"
    for path in sorted(folder.predictions_dir.glob("*-train.jsonl"), reverse=True):
        rows = _read(folder, path.stem)
        if rows:
            number = path.stem.partition("-")[0].lstrip("0")
            return tuple(_row(row, None, row) for row in rows), f"train, round {number}"
    return (), ""


def read_sealed(folder: RunFolder, side: str) -> tuple[ComparedRow, ...]:
    """Return what one prompt answered in the sealed test, as `best`. side: best, original or other."""
    return joined((), _read(folder, f"{SEALED}{side}"))


def _read(folder: RunFolder, name: str) -> list[Record]:
    try:
        return list(folder.read_predictions(name))
    except FileNotFoundError:  # replaced between the look and the opening
        return []


def joined(original: Sequence[Record], best: Sequence[Record]) -> tuple[ComparedRow, ...]:
    """Return the rows of two evaluations as one: what each prompt answered. Rows are plain data."""
    before = {row["example_id"]: row for row in original}
    return tuple(_row(row, before.get(row["example_id"]), row) for row in best)


def _row(row: Record, original: Record | None, best: Record) -> ComparedRow:
    return ComparedRow(
        example_id=str(row["example_id"]),
        input=str(row["input"]),
        expected=str(row["ground_truth"]),
        original=None if original is None else _answer(original),
        best=_answer(best),
        group=row.get("group"),
        turns=tuple(map(Message.from_dict, row.get("turns", ()))),
    )


def _answer(row: Record) -> Answer:
    error = row.get("error")
    return Answer(
        text=str(row.get("prediction") or ""),
        score=float(row["score"]),
        is_correct=bool(row["is_correct"]),
        is_unparsed=bool(row.get("is_unparsed")),
        is_lost=error is not None and row.get("failure") not in ("refused", "withheld"),
        error=shown_error(error, row.get("failure")),
        reason=str(row.get("reason") or ""),
    )


def confusion(rows: Sequence[ComparedRow], labels: Sequence[str]) -> tuple[Confusion, ...]:
    """Return what was taken for what, under the original and the best prompt; () without labels.

    labels: those of the task; without them the expected answers, if they are few and come again and again.
    Rows that the endpoint lost on either side are left out, as in the verdict.
    """
    known = tuple(labels) or _found_labels(rows)
    kept = [row for row in rows if row.state != "lost"]
    if not 2 <= len(known) <= MOST_LABELS or any(row.expected not in known for row in kept):
        return ()
    sides: tuple[Literal["original", "best"], ...] = ("original", "best")
    found = []
    for name in sides:
        pairs = [(row.expected, side) for row in kept if (side := getattr(row, name)) is not None]
        if pairs:
            found.append(Confusion(name, known, _counts(pairs, known)))
    return tuple(found)


def _found_labels(rows: Sequence[ComparedRow]) -> tuple[str, ...]:
    expected = sorted({row.expected for row in rows})
    return tuple(expected) if len(expected) * 4 <= len(rows) else ()


def _counts(pairs: Iterable[tuple[str, Answer]], labels: tuple[str, ...]) -> tuple[tuple[int, ...], ...]:
    place = {label: number for number, label in enumerate(labels)}
    table = [[0] * (len(labels) + 1) for _ in labels]
    for expected, answer in pairs:
        is_read = not answer.is_unparsed and answer.error is None
        column = place.get(answer.text, len(labels)) if is_read else len(labels)
        table[place[expected]][column] += 1
    return tuple(map(tuple, table))
