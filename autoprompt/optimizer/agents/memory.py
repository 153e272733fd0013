"""The memory agent: what a change did, from measured scores on the same rows alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from autoprompt.optimizer.agents.writer import describe_change
from autoprompt.stats import Groups, paired_test
from autoprompt.text.names import counted

Verdict = Literal["better", "worse", "no_difference"]
VERDICT_ALPHA = 0.2  # lenient: a lesson is a hint to a writer, not a claim to a reader


@dataclass(frozen=True, slots=True)
class Lesson:
    """A measured change: from `before` to `after` (mean scores in [0, 1]) on `rows` shared rows."""

    change: str
    before: float
    after: float
    rows: int
    verdict: Verdict

    @property
    def text(self) -> str:
        return (
            f"[{self.verdict} {self.after - self.before:+.2f} on {counted(self.rows, 'row')}] {self.change}"
        )


class MemoryAgent:
    """Distils a lesson from two prompts that were both evaluated, on the rows they share.

    It asks no model: what a change did is a number, and a number that a model retells may be wrong.
    """

    def learn(
        self,
        old_prompt: str,
        new_prompt: str,
        old_results: Sequence[float],
        new_results: Sequence[float],
        iteration: int,
        *,
        change: str = "",
        groups: Groups | None = None,
    ) -> Lesson | None:
        """The lesson, or None in round 1 or without shared rows.

        old_results, new_results: scores in [0, 1] of the same rows in the same order. change: what was
        changed, in a few words; found by comparing the texts where it is empty. groups: of the rows, where
        some belong together. Raises ValueError for unpaired results.
        """
        if len(old_results) != len(new_results):
            raise ValueError("a lesson needs scores of the same rows for both prompts")
        if iteration <= 1 or not old_results:
            return None
        n = len(old_results)
        before, after = sum(old_results) / n, sum(new_results) / n
        verdict: Verdict = "no_difference"
        lower, higher = (old_results, new_results) if after > before else (new_results, old_results)
        if after != before and paired_test(lower, higher, "greater", groups=groups) < VERDICT_ALPHA:
            verdict = "better" if after > before else "worse"
        return Lesson(change or describe_change(old_prompt, new_prompt), before, after, n, verdict)
