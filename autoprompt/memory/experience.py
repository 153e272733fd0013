"""One measured lesson: what was changed in a prompt, and what that did."""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass, replace
from typing import Literal

from autoprompt.memory.change import cut_mark, digest
from autoprompt.memory.similarity import SAME_KIND, task_similarity

Verdict = Literal["better", "worse", "no_difference"]

LONGEST_TASK = 300
LONGEST_CHANGE = 300
_MOST_PRIORITY = 5.0
# Where two measurements of a change contradict each other, their mean counts if it is this many standard
# errors away from 0 (one-sided p < .10); else the change makes no difference.
_CLEAR = 1.28
# Of a change that was measured more often, the oldest measurements would be counted again: by then one more
# or less tells nothing new.
_MOST_SOURCES = 64


@dataclass(frozen=True, slots=True)
class Experience:
    """What one change to a prompt did, measured on rows that both prompts answered.

    task: what the prompt was about. change: what was changed. Each is one line; longer ones are cut.
    before, after: mean score in [0, 1] on the same `rows` rows; None where a person wrote no scores.
    told_gain: the gain that a person wrote without scores; not used where there are scores.
    priority: how much it counts, above 0; falls as other lessons come in, rises when it is seen again.
    run_id, iteration: the last measurement; "" and 0 for an entry written by hand.
    date: of the last measurement, as YYYY-MM-DD. language: of the prompt, e.g. "zh"; None where not told.
    sources: every measurement that went in, each one word, so that none is counted twice.
    cut: `cut_mark` of a change that its line tells a part of; void once a person has edited the line.
    notes: lines that a person added below the entry, as they stand.
    """

    task: str
    change: str
    verdict: Verdict
    operator: str = ""
    before: float | None = None
    after: float | None = None
    rows: int = 0
    told_gain: float | None = None
    run_id: str = ""
    iteration: int = 0
    date: str = ""
    priority: float = 1.0
    language: str | None = None
    sources: tuple[str, ...] = ()
    cut: str = ""
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "task", _one_line(self.task, LONGEST_TASK))
        change = _one_line(self.change, LONGEST_CHANGE)
        if change.split() != self.change.split():
            object.__setattr__(self, "cut", cut_mark(change, self.change))
        object.__setattr__(self, "change", change)
        object.__setattr__(self, "operator", _one_line(self.operator, LONGEST_CHANGE))
        if self.before is not None and self.after is not None:
            object.__setattr__(self, "told_gain", None)

    @property
    def id(self) -> str:
        """Eight hex digits from task and change; the same as long as nobody edits these."""
        text = f"{self.task}\n{self.change}{self.cut}"
        return hashlib.sha256(text.encode(errors="replace")).hexdigest()[:8]

    @property
    def digest(self) -> str:
        """Of the whole change; where a person has edited the line since it was cut, of the line."""
        line, _, whole = self.cut.partition(" of ")
        shown = digest(self.change)
        return whole if line == shown else shown

    @property
    def gain(self) -> float | None:
        """after - before, or what a person wrote instead; above 0 is better. None where nothing is told."""
        if self.before is None or self.after is None:
            return self.told_gain
        return self.after - self.before


def measurement(parent_id: str, candidate_id: str, *, by: str) -> str:
    """The name of a comparison of two candidates: the same in every run that makes it.

    by: whatever else has a say in it, such as the model, the metric and the rows to choose from. Not how many
    of these a race came to: the longer one holds most of the rows of the shorter.
    """
    return f"pair/{hashlib.sha256(f'{parent_id}/{candidate_id}/{by}'.encode()).hexdigest()[:12]}"


def is_same_lesson(a: Experience, b: Experience) -> bool:
    """Whether both tell of the same change on the same kind of task."""
    return a.digest == b.digest and task_similarity(a.task, b.task) >= SAME_KIND


def merge(old: Experience, new: Experience) -> Experience:
    """`old`, told again by `new`: rows add up, scores are averaged by rows, priority rises.

    Keeps the words of `old`, so that its id stays.
    """
    before, after = _mean(old, new, "before"), _mean(old, new, "after")
    merged = replace(
        old,
        before=before,
        after=after,
        rows=old.rows + new.rows,
        operator=new.operator or old.operator,
        run_id=new.run_id,
        iteration=new.iteration,
        date=new.date or old.date,
        priority=min(_MOST_PRIORITY, old.priority + new.priority),
        language=old.language or new.language,
        sources=(*old.sources, *new.sources)[-_MOST_SOURCES:],
    )
    return merged if old.verdict == new.verdict else replace(merged, verdict=_pooled_verdict(merged))


def _mean(a: Experience, b: Experience, name: Literal["before", "after"]) -> float | None:
    """Mean of a score, weighted by rows. A score without rows counts as one row."""
    known = [(score, max(e.rows, 1)) for e in (a, b) if (score := getattr(e, name)) is not None]
    if not known:
        return None
    return float(sum(score * rows for score, rows in known) / sum(rows for _, rows in known))


def _pooled_verdict(experience: Experience) -> Verdict:
    """What two contradicting measurements say together.

    Normal test of two proportions (Newcombe 1998, method 1's standard error). The pairs are not known any
    more, so it is on the careful side.
    """
    before, after, rows = experience.before, experience.after, experience.rows
    if before is None or after is None or rows == 0:
        return "no_difference"
    error = math.sqrt(max(before * (1 - before) + after * (1 - after), 0.0) / rows)
    if abs(after - before) <= _CLEAR * error or after == before:
        return "no_difference"
    return "better" if after > before else "worse"


def _one_line(text: str, longest: int) -> str:
    line = " ".join(text.split())
    return line if len(line) <= longest else line[: longest - 1].rstrip() + "…"
