"""The candidates tried so far and what each row said of each of them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from autoprompt.records import Candidate, EvaluatedRow, Usage

Status = Literal["pending", "accepted", "rejected"]
NO_GROUPS: Mapping[str, str] = {}
ALL_ALIKE: Mapping[str, float] = {}

# How much the probability of the right label counts beside a right answer when candidates are ranked.
# Measured on the embedded model (7 demonstration sets, clickbait, 2,000 draws): choosing the best of 7 by 8
# rows gives a true accuracy of 0.905 with 0, 0.918 with 0.25; by 16 rows and more it changes nothing, and 1
# and above cost up to 0.01.
CONFIDENCE_WEIGHT = 0.25


@dataclass(frozen=True, slots=True)
class MeasuredUsage:
    """What a candidate took on the rows that it answered, all calls of a row together.

    hits: of the rows, those of which the provider had read a part from its cache.
    late_rows: those sent when others had been answered, so that the provider could have the prompt's
    beginning in its cache.
    """

    rows: int = 0
    hits: int = 0
    late_rows: int = 0
    usage: Usage = Usage()

    @classmethod
    def of(cls, rows: Iterable[Usage], *, is_late: bool = False) -> MeasuredUsage:
        found = tuple(rows)
        hits = sum(row.cached_tokens > 0 for row in found)
        return cls(len(found), hits, len(found) if is_late else 0, sum(found, Usage()))

    def __add__(self, other: MeasuredUsage) -> MeasuredUsage:
        return MeasuredUsage(
            self.rows + other.rows,
            self.hits + other.hits,
            self.late_rows + other.late_rows,
            self.usage + other.usage,
        )

    def to_record(self) -> dict[str, Any]:
        """Return it as JSON, which `from_record` reads; without late rows if there are none."""
        late = {"late_rows": self.late_rows} if self.late_rows else {}
        return {"rows": self.rows, "hits": self.hits, **late, **self.usage.to_record()}

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> MeasuredUsage:
        late_rows = record.get("late_rows", 0)
        return cls(record["rows"], record["hits"], late_rows, Usage.from_record(record))


@dataclass(slots=True)
class Entry:
    """A candidate and its row scores. Scores in [0, 1]; `confidence` only where the endpoint tells.

    weights: what each row counts in a mean, by its id; 1 where it has none.
    answers: what it answered the rows, where answers are labels. refusals: what the endpoint said of the rows
    whose request it would not take, most often as too long; they score 0. held_out: rows of train that were
    asked without some of its demonstrations, among them the row itself. measured: what it took on the rows
    that it answered with all of them.
    """

    candidate: Candidate
    status: Status = "pending"
    scores: dict[str, float] = field(default_factory=dict)
    confidence: dict[str, float] = field(default_factory=dict)
    answers: dict[str, str] = field(default_factory=dict)
    refusals: dict[str, str] = field(default_factory=dict)
    held_out: set[str] = field(default_factory=set)
    measured: MeasuredUsage = field(default_factory=MeasuredUsage)
    weights: Mapping[str, float] = field(default_factory=dict)

    @property
    def is_refused(self) -> bool:
        """Whether the endpoint took no request of it: then it was never tried."""
        return len(self.refusals) == len(self.scores) > 0

    def merit(self, row_id: str) -> float:
        """Return what the race ranks by: the score, with the confidence as a tie-break.

        Where there is none (a reasoned answer, beside answers given at once) the score stands for it: so sure
        is, on average, a model that knows what it knows.
        """
        confidence = self.confidence.get(row_id, self.scores[row_id])
        return self.scores[row_id] + CONFIDENCE_WEIGHT * confidence

    def mean(self, row_ids: Iterable[str]) -> float:
        """Mean score over those of `row_ids` that were evaluated; 0.0 for none."""
        return self._mean(self.scores.__getitem__, row_ids)

    def mean_merit(self, row_ids: Iterable[str]) -> float:
        return self._mean(self.merit, row_ids)

    def _mean(self, value: Callable[[str], float], row_ids: Iterable[str]) -> float:
        ids = [i for i in row_ids if i in self.scores]
        weights = [self.weights.get(i, 1.0) for i in ids]
        total = sum(weights)
        return sum(value(i) * w for i, w in zip(ids, weights, strict=True)) / total if total else 0.0


class Shared(NamedTuple):
    """Scores of two candidates on the same rows, and the group of each row; None for a row alone.

    Each score times the weight of its row, which are of mean 1: the mean of these is the weighted one.
    """

    first: list[float]
    second: list[float]
    groups: list[str | None]


class Pool:
    """All candidates of a run by id, in the order in which they were added. The first is the original.

    groups: of the rows that belong together, by their ids: comparisons count them as such.
    weights: what each row counts, by its id; 1 where it has none.
    """

    def __init__(
        self,
        labels: Collection[str] = (),
        groups: Mapping[str, str] = NO_GROUPS,
        weights: Mapping[str, float] = ALL_ALIKE,
    ) -> None:
        self._labels = frozenset(labels)
        self._groups = groups
        self._weights = weights
        self._entries: dict[str, Entry] = {}

    def __contains__(self, candidate_id: str) -> bool:
        return candidate_id in self._entries

    def __len__(self) -> int:
        return len(self._entries)

    def __getitem__(self, candidate_id: str) -> Entry:
        return self._entries[candidate_id]

    @property
    def entries(self) -> Sequence[Entry]:
        return tuple(self._entries.values())

    @property
    def original(self) -> Entry:
        return next(iter(self._entries.values()))

    def add(self, candidate: Candidate) -> Entry:
        """Add a candidate; the one already there under its id (equal texts and demonstrations) is kept."""
        return self._entries.setdefault(candidate.id, Entry(candidate, weights=self._weights))

    def record(self, candidate_id: str, rows: Iterable[EvaluatedRow], *, is_held_out: bool = False) -> None:
        """Keep the rows' scores. A row that the endpoint lost is not a wrong answer: it is asked again
        later. is_held_out: as in `Entry`.

        One whose workflow lacked a tool or a service scores 0: which rows come to it is for the prompts to
        say, and one that sends there what it gets wrong would gain.
        """
        entry = self._entries[candidate_id]
        is_late = entry.measured.rows > 0
        for row in rows:
            if row.is_lost and row.failure != "not reached":
                continue
            entry.scores[row.example_id] = row.score
            if is_held_out:
                entry.held_out.add(row.example_id)
            elif row.error is None:
                entry.measured += MeasuredUsage.of([row.usage], is_late=is_late)
            if row.error is not None and row.is_refused:
                entry.refusals[row.example_id] = row.error
            if row.confidence is not None:
                # As rounded as it is written: a resumed run must rank by the same numbers.
                entry.confidence[row.example_id] = round(row.confidence, 6)
            if row.prediction in self._labels:
                entry.answers[row.example_id] = row.prediction

    def accepted(self) -> list[Entry]:
        """Return the original and every candidate that beat its parent."""
        return [e for e in self._entries.values() if e.status == "accepted"]

    def shared(self, a: str, b: str, row_ids: Iterable[str]) -> Shared:
        """Return the scores of `a` and of `b` on those of `row_ids` that both were evaluated on, paired."""
        first, second = self._entries[a].scores, self._entries[b].scores
        ids = self._shared_ids(a, b, row_ids)
        groups = [self._groups.get(i) for i in ids]
        if not self._weights:
            return Shared([first[i] for i in ids], [second[i] for i in ids], groups)
        weights = [self._weights.get(i, 1.0) for i in ids]
        mean = sum(weights) / max(1, len(weights))
        return Shared(
            [first[i] * w / mean for i, w in zip(ids, weights, strict=True)],
            [second[i] * w / mean for i, w in zip(ids, weights, strict=True)],
            groups,
        )

    def _shared_ids(self, a: str, b: str, row_ids: Iterable[str]) -> list[str]:
        """Return those of `row_ids` that both were evaluated on."""
        first, second = self._entries[a].scores, self._entries[b].scores
        return [i for i in row_ids if i in first and i in second]

    def to_records(self, candidate_ids: Iterable[str]) -> list[dict[str, Any]]:
        """Return one plain record per candidate, as `candidates.jsonl` keeps it."""
        return [
            {
                **entry.candidate.to_dict(),
                "status": entry.status,
                "scores": dict(entry.scores),
                "confidence": dict(entry.confidence),
                "answers": dict(entry.answers),
                "refusals": dict(entry.refusals),
                "held_out": sorted(entry.held_out),
                "measured": entry.measured.to_record(),
                "weights": {i: self._weights[i] for i in entry.scores if i in self._weights},
            }
            for entry in (self._entries[i] for i in candidate_ids)
        ]

    @classmethod
    def from_records(
        cls,
        records: Iterable[Mapping[str, Any]],
        labels: Collection[str] = (),
        groups: Mapping[str, str] = NO_GROUPS,
        weights: Mapping[str, float] = ALL_ALIKE,
    ) -> Pool:
        """Return a pool as it was written; see `restore`."""
        pool = cls(labels, groups, weights)
        pool.restore(records)
        return pool

    def restore(self, records: Iterable[Mapping[str, Any]]) -> None:
        """Hold what was written, and nothing else; of several records with one id the last one holds."""
        self._entries.clear()
        for record in records:
            data = {name: value for name, value in record.items() if name not in ("step", "weights", "cost")}
            kept = {n: dict(data.pop(n, {})) for n in ("scores", "confidence", "answers", "refusals")}
            held_out = set(data.pop("held_out", ()))
            taken = data.pop("measured", None)
            measured = MeasuredUsage.from_record(taken) if taken else MeasuredUsage()
            status: Status = data.pop("status")
            candidate = Candidate.from_dict(data)
            self._entries[candidate.id] = Entry(
                candidate, status, **kept, held_out=held_out, measured=measured, weights=self._weights
            )
