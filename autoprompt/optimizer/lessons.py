"""What a round taught: lessons for the experience file, and for the writers of the rounds to come."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from autoprompt.errors import InputError
from autoprompt.memory import Experience, ExperienceFile, additive_sentence, cut_mark, measurement
from autoprompt.memory.file import MAX_ENTRIES
from autoprompt.optimizer.agents.writer import describe_change
from autoprompt.optimizer.context import SearchContext
from autoprompt.records import Candidate, warning_event
from autoprompt.stats import Groups, paired_test
from autoprompt.text.names import counted

Verdict = Literal["better", "worse", "no_difference"]
_TOO_SMALL_FOR_LESSONS = (
    "lessons of earlier runs are not used: validation is so small that all of it races, and a prompt made "
    "with them would need other rows to be confirmed"
)
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


def measure(
    change: str, old_scores: Sequence[float], new_scores: Sequence[float], groups: Groups | None = None
) -> Lesson | None:
    """Return what a change did, from the scores of the prompts before and after it.

    No model is asked: what a change did is a number, and a number that a model retells may be wrong.

    Args:
        change: What was changed, in a few words.
        old_scores, new_scores: In [0, 1], of the same rows in the same order.
        groups: Of the rows, if some belong together.

    Returns:
        The lesson; None if the prompts share no row.

    Raises:
        ValueError: If the scores are not of the same rows.
    """
    if len(old_scores) != len(new_scores):
        raise ValueError("a lesson needs scores of the same rows for both prompts")
    if not old_scores:
        return None
    n = len(old_scores)
    before, after = sum(old_scores) / n, sum(new_scores) / n
    verdict: Verdict = "no_difference"
    lower, higher = (old_scores, new_scores) if after > before else (new_scores, old_scores)
    if after != before and paired_test(lower, higher, "greater", groups=groups) < VERDICT_ALPHA:
        verdict = "better" if after > before else "worse"
    return Lesson(change, before, after, n, verdict)


def learn(
    context: SearchContext, settled: Sequence[str], iteration: int, known: str, helped: Sequence[str]
) -> tuple[str, list[str]]:
    """Write a round's lessons to the experience file.

    Args:
        settled: Ids of the candidates that raced. The first round has no lessons.
        known, helped: The state's `memory_experiences` and `helped`.

    Returns:
        `known` and `helped` with this round's lessons behind them.
    """
    lessons, entries = [], []
    for candidate_id in settled if iteration > 1 else ():
        if context.pool[candidate_id].refusals:  # that says something of this endpoint, not of the change
            continue
        candidate = context.pool[candidate_id].candidate
        parent = context.pool[candidate.parents[0]].candidate
        new, old, groups = context.pool.shared(candidate.id, parent.id, context.plan.race_ids)
        lesson = measure(candidate.change, old, new, groups)
        if lesson is None:
            continue
        lessons.append(lesson)
        entries.append(
            Experience(
                task=context.settings.task,
                change=lesson.change,
                cut=cut_mark(lesson.change, whole_change(parent, candidate, lesson.change)),
                operator=candidate.operator,
                before=lesson.before,
                after=lesson.after,
                rows=lesson.rows,
                verdict=lesson.verdict,
                sources=(measurement(parent.id, candidate.id, by=context.settings.measured_by),),
            )
        )
        context.emit({"event": "lesson", "text": lesson.text})
    if entries and context.experiences is not None:
        _keep(entries, context.experiences, context, iteration)
    own = [lesson.text for lesson in lessons if lesson.verdict != "no_difference"]
    added = (additive_sentence(lesson.change) for lesson in lessons if lesson.verdict == "better")
    all_helped = dict.fromkeys([*helped, *filter(None, added)])
    return "\n".join(filter(None, [known, *own])), list(all_helped)


def whole_change(parent: Candidate, candidate: Candidate, change: str) -> str:
    """`change` with what was cut of it, as two rewrites may differ there alone.

    What a text says anew comes last, behind demonstrations: what follows its `removed` counts for nothing.
    """
    for name, text in candidate.components.items():
        before = parent.components[name]
        short = describe_change(before, text)
        if short in change:
            change = change.replace(short, "") + describe_change(before, text, sys.maxsize)
    return change


def _keep(entries: list[Experience], file: ExperienceFile, context: SearchContext, iteration: int) -> None:
    """A file that broke since the run began costs its lessons, and not the run that is paid for."""
    try:
        done = file.record(entries, run_id=context.settings.run_id, iteration=iteration)
        if done.dropped:
            said = (
                f"{counted(done.dropped, 'lesson')} left {file.path}, which keeps {MAX_ENTRIES}. They are in "
                f"{done.dropped_to}."
            )
            context.emit(warning_event(said, about="memory"))
    except InputError as error:
        said = f"lessons of this run are not kept for later ones: {error}"
        context.emit(warning_event(said, about="memory"))


def earlier_lessons(context: SearchContext) -> tuple[str, list[str]]:
    """What the writers are told of earlier runs, and sentences that helped before.

    Nothing where validation is too small to keep rows fresh: those lessons may have been measured on the rows
    that race, which then could not confirm what comes of them, and no other rows could. And nothing from a
    file that broke since the run began: one that is resumed in its first round reads it again.
    """
    file, task = context.experiences, context.settings.task
    if file is None:
        return "", []
    try:
        # Without its own: a run whose checkpoint was lost begins again, and must decide as it did before.
        own = context.settings.run_id
        problems, known = file.problems(), file.select(task, without_run=own)
        helpful = file.helpful_additions(task, without_run=own)
    except InputError as error:
        said = f"lessons of earlier runs are not used: {error}"
        context.emit(warning_event(said, about="memory"))
        return "", []
    for problem in problems:
        message = f"{file.path} {problem}. This entry is not used; mend it or take it out."
        context.emit(warning_event(message))
    if not known:
        return "", []
    if not context.plan.fresh:
        context.emit(warning_event(_TOO_SMALL_FOR_LESSONS))
        return "", []
    return known, helpful
