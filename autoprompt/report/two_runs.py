"""Prompts of two runs beside each other: scores, texts, and the rows that only one of them gets right."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

from autoprompt.errors import command
from autoprompt.measure.compare import ALPHA, ComparedRows, compare_rows
from autoprompt.metrics import get_metric
from autoprompt.records import Demo, EvaluatedRow, Message
from autoprompt.report.diff import Piece, diff_words
from autoprompt.report.numbers import p_value, score
from autoprompt.report.reading import read_sealed
from autoprompt.report.records import Answer, CandidateSummary, ComparedRow
from autoprompt.report.summary import RunSummary
from autoprompt.runs.folder import RunFolder
from autoprompt.stats import difference, in_groups
from autoprompt.text.names import counted


@dataclass(frozen=True, slots=True)
class ComparedAnswer:
    """A row of both sealed tests, as the prompt of each run answered it.

    group: of the rows that belong together, as the first run has it, else the second.
    """

    example_id: str
    input: str
    expected: str
    a: Answer
    b: Answer
    group: str | None = None
    turns: tuple[Message, ...] = ()

    @property
    def winner(self) -> str:
        """ "a", "b", or "" where both answers are worth the same."""
        gain = difference(self.b.score, self.a.score)
        if not gain:
            return ""
        return "b" if gain > 0 else "a"


@dataclass(frozen=True, slots=True)
class ComparedText:
    """One component of both prompts: the pieces of its text on either side, changed words marked."""

    name: str
    text_a: str
    text_b: str
    a: tuple[Piece, ...]
    b: tuple[Piece, ...]

    @property
    def is_equal(self) -> bool:
        return self.text_a == self.text_b

    def unified(self, a: str, b: str) -> list[str]:
        """Return the lines of a unified diff. a, b: names of the two sides."""
        lines = self.text_a.splitlines(), self.text_b.splitlines()
        return list(difflib.unified_diff(*lines, a, b, lineterm=""))


@dataclass(frozen=True, slots=True)
class Compared:
    """A candidate of a run, and what it answered in the sealed test: nothing if it was not tested.

    name: what `--from` takes. candidate: None in a run that was stopped before its first step was saved.
    tested_as: `best`, `original` or `other`, the highest score of a run that returns a cheaper prompt; None
        if it was not tested. answers: the rows of that test by id; `best` is the answer of this candidate.
    """

    run: RunSummary
    name: str
    candidate: CandidateSummary | None
    tested_as: str | None
    answers: Mapping[str, ComparedRow]

    @classmethod
    def of(cls, run: RunSummary, candidate: str | None = None) -> Compared:
        """Return a candidate of a run by its id; None is the best one."""
        found, name = run.best_candidate, RunFolder(run.path).reference
        if candidate is not None and candidate != run.best_id:
            found = run.candidate(candidate)
            name += f":{run.name_of(candidate)}"
        tested_as = None if found is None or not run.has_result else _tested_as(run, found)
        rows = () if tested_as is None else read_sealed(RunFolder(run.path), tested_as)
        return cls(run, name, found, tested_as, {row.example_id: row for row in rows})

    @property
    def score(self) -> float | None:
        """On the sealed test of its own run."""
        sides = {
            "best": self.run.result.best,
            "original": self.run.result.original,
            "other": self.run.result.ends.other,
        }
        side = sides.get(self.tested_as or "")
        return None if side is None else side.score


def _tested_as(run: RunSummary, candidate: CandidateSummary) -> str | None:
    if candidate.id == run.best_id:
        return "best"
    if candidate.is_original:
        return "original"
    other = run.result.ends.other
    return "other" if other is not None and candidate.id == other.id else None


@dataclass(frozen=True, slots=True)
class Comparison:
    """Prompts of two runs. rows: those that both have answered in a sealed test, and no endpoint lost.

    scores: b, as the new side, against a on these rows; None without any.
    """

    sides: tuple[Compared, Compared]
    texts: tuple[ComparedText, ...]
    demos: tuple[tuple[Demo | None, Demo | None], ...]
    rows: tuple[ComparedAnswer, ...]
    scores: ComparedRows | None = None

    @property
    def a(self) -> RunSummary:
        return self.sides[0].run

    @property
    def b(self) -> RunSummary:
        return self.sides[1].run

    @property
    def command(self) -> str | None:
        """Compares both on rows of the user's own; None for a prompt beside a program: nothing runs both."""
        texts = [None if side.candidate is None else side.candidate.components.keys() for side in self.sides]
        if None in texts or texts[0] != texts[1]:
            return None
        a, b = (side.name for side in self.sides)
        return command("eval", from_=b, against=a, dataset="FILE")

    @property
    def gain(self) -> float | None:
        """Score of b minus score of a; None if they cannot be compared."""
        return None if self.scores is None else self.scores.gain

    @property
    def differing(self) -> tuple[ComparedAnswer, ...]:
        return tuple(row for row in self.rows if row.winner)

    @property
    def is_clear(self) -> bool:
        return self.scores is not None and self.scores.p_value < ALPHA

    @property
    def mark(self) -> str:
        """What can be said, in a word or two."""
        if self.gain is None:
            return "Not comparable"
        return "Different" if self.is_clear else "No difference beyond chance"

    @property
    def headline(self) -> str:
        found = self.scores
        if found is None:
            return "These two cannot be compared by score"
        rows = f"{counted(len(self.rows), 'shared row')}{in_groups(found.groups, len(self.rows))}"
        sides = f"A {score(found.old.score, 2)}, B {score(found.new.score, 2)}"
        return f"{sides} on {rows}, {p_value(found.p_value)}"

    @property
    def meaning(self) -> str:
        """What the headline means."""
        if self.gain is None:
            return self.no_rows
        if not self.gain:
            return "Both scored the same here."
        if not self.is_clear:
            return "Between two prompts that are equally good, such a gap comes up often."
        return f"{'B' if self.gain > 0 else 'A'} has the better prompt for these rows."

    @property
    def no_rows(self) -> str:
        """Why no row can be compared."""
        waiting = [run.run_id for run in (self.a, self.b) if not run.has_result]
        if waiting:
            return f"{' and '.join(waiting)}: not finished, so the sealed test is closed."
        untested = [side.name for side in self.sides if side.tested_as is None]
        if untested:
            return f"{' and '.join(untested)} did not answer the sealed test."
        if self.a.dataset != self.b.dataset:
            return "The runs are of different datasets: their scores are of different rows."
        return "Their sealed tests share no row that both runs scored."

    def to_dict(self) -> dict[str, Any]:
        """Return both prompts on the rows that both sealed tests hold, as numbers."""
        found = self.scores
        return {
            "rows": len(self.rows),
            "scores": [None, None] if found is None else [found.old.score, found.new.score],
            "gain": {"value": self.gain, "ci95": None if found is None else list(found.gain_interval)},
            "p_value": None if found is None else found.p_value,
            "better": {"a": self.count("a"), "b": self.count("b")},
        }

    @property
    def shared_demos(self) -> int:
        return sum(ours == theirs for ours, theirs in self.demos)

    def count_demos(self, side: int) -> int:
        """side: 0 for a, 1 for b."""
        return sum(pair[side] is not None for pair in self.demos)

    def count(self, winner: str) -> int:
        return sum(row.winner == winner for row in self.rows)


def compare(a: Compared, b: Compared) -> Comparison:
    """Return how two prompts differ, on the rows that both sealed tests share.

    A run in progress has no such rows.
    """
    rows = _shared_rows(a, b)
    texts, demos = _texts(a.candidate, b.candidate), _demos(a.candidate, b.candidate)
    # The figures that `eval` and the runs themselves have: of macro F1 all rows together, else means.
    is_whole = a.run.metric == b.run.metric == _WHOLE
    metric = get_metric(_WHOLE if is_whole else "exact_match")
    new, old = [_evaluated(row, row.b) for row in rows], [_evaluated(row, row.a) for row in rows]
    return Comparison((a, b), texts, demos, rows, compare_rows(new, old, metric))


_WHOLE = "macro_f1"  # the metric of all rows together


def _evaluated(row: ComparedAnswer, answer: Answer) -> EvaluatedRow:
    return EvaluatedRow(
        row.example_id,
        row.input,
        answer.text,
        row.expected,
        answer.is_correct,
        answer.score,
        is_unparsed=answer.is_unparsed,
        group=row.group,
    )


def _shared_rows(a: Compared, b: Compared) -> tuple[ComparedAnswer, ...]:
    found = []
    for name, row in a.answers.items():
        other = b.answers.get(name)
        if other is None or row.best is None or other.best is None:
            continue
        if not (row.best.is_lost or other.best.is_lost):
            group = row.group or other.group
            sides = (row.best, other.best)
            found.append(ComparedAnswer(name, row.input, row.expected, *sides, group, row.turns))
    return tuple(found)


def _texts(a: CandidateSummary | None, b: CandidateSummary | None) -> tuple[ComparedText, ...]:
    ours, theirs = (dict(side.components) if side else {} for side in (a, b))
    made = []
    for name in {**ours, **theirs}:
        pieces = diff_words(ours.get(name, ""), theirs.get(name, ""))
        sides = _without(pieces, "added"), _without(pieces, "removed")
        made.append(ComparedText(name, ours.get(name, ""), theirs.get(name, ""), *sides))
    return tuple(made)


def _without(pieces: Sequence[Piece], kind: str) -> tuple[Piece, ...]:
    return tuple(piece for piece in pieces if piece.kind != kind)


def _demos(
    a: CandidateSummary | None, b: CandidateSummary | None
) -> tuple[tuple[Demo | None, Demo | None], ...]:
    """Demonstrations that both have stand beside each other and come first."""
    ours, theirs = (side.demos if side else () for side in (a, b))
    shared = [demo for demo in ours if demo in theirs]
    rest = ([d for d in ours if d not in shared], [d for d in theirs if d not in shared])
    return (*((demo, demo) for demo in shared), *zip_longest(*rest))
