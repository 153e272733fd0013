"""Lessons from a round, for the experience file and for the writers of later rounds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from autoprompt.errors import InputError, Place, Problem
from autoprompt.memory import (
    Experience,
    ExperienceFile,
    Lesson,
    Verdict,
    addition,
    measurement,
    shortened,
    tell_own,
    words,
)
from autoprompt.memory.file import MAX_ENTRIES
from autoprompt.optimizer.context import SearchContext
from autoprompt.records import Change, warning_event
from autoprompt.runs import events
from autoprompt.stats import Groups, paired_test
from autoprompt.text.names import counted

Plain = list[dict[str, Any]]  # lessons as the state holds them: `Lesson.to_dict`
_TOO_SMALL_FOR_LESSONS = Problem(
    "memory.too-few-rows",
    "lessons of earlier runs are not used, because every validation row is needed for the race",
    fix="Add validation rows to use them.",
)
VERDICT_ALPHA = 0.2  # lenient: a lesson is a hint to a writer, not a claim to a reader


def measure(
    task: str,
    change: Change,
    old_scores: Sequence[float],
    new_scores: Sequence[float],
    groups: Groups | None = None,
) -> Experience | None:
    """Return what a change did, from the scores of the prompts before and after it.

    No model is asked: what a change did is a number, and a number that a model retells may be wrong.

    Args:
        task: What the prompts are about.
        old_scores, new_scores: In [0, 1], of the same rows in the same order.
        groups: Of the rows, if some belong together.

    Returns:
        The lesson; None if the prompts share no row, and for a change that no words tell, such as two
            sentences in another order.

    Raises:
        ValueError: If the scores are not of the same rows.
    """
    if len(old_scores) != len(new_scores):
        raise ValueError("a lesson needs scores of the same rows for both prompts")
    if not old_scores or not words(change):
        return None
    n = len(old_scores)
    before, after = sum(old_scores) / n, sum(new_scores) / n
    verdict: Verdict = "no_difference"
    lower, higher = (old_scores, new_scores) if after > before else (new_scores, old_scores)
    if after != before and paired_test(lower, higher, "greater", groups=groups) < VERDICT_ALPHA:
        verdict = "better" if after > before else "worse"
    return Experience(task, change, verdict, before=before, after=after, rows=n)


def learn(
    context: SearchContext, settled: Sequence[str], iteration: int, known: Plain, helped: Sequence[str]
) -> tuple[Plain, list[str]]:
    """Write a round's lessons to the experience file.

    Args:
        settled: Ids of the candidates that raced. The first round has no lessons.
        known, helped: The state's `memory_experiences` and `helped`.

    Returns:
        `known` and `helped` with this round's lessons behind them.
    """
    known, all_helped, entries = list(known), dict.fromkeys(helped), []
    for candidate_id in settled if iteration > 1 else ():
        if context.pool[candidate_id].refusals:  # that says something of this endpoint, not of the change
            continue
        candidate = context.pool[candidate_id].candidate
        parent = context.pool[candidate.parents[0]].candidate
        new, old, groups = context.pool.shared(candidate.id, parent.id, context.plan.race_ids)
        entry = measure(context.settings.task, candidate.change, old, new, groups)
        if entry is None:
            continue
        source = measurement(parent.id, candidate.id, by=context.settings.measured_by)
        entries.append(replace(entry, operator=candidate.operator, sources=(source,)))
        lesson = Lesson(shortened(candidate.change), entry.verdict, entry.gain, entry.rows, is_own=True)
        if lesson.verdict != "no_difference":
            known.append(lesson.to_dict())
        if lesson.verdict == "better" and (sentence := addition(candidate.change)):
            all_helped[sentence] = None
        change = words(candidate.change)
        noted = events.Lesson(tell_own(lesson), change, lesson.verdict, lesson.gain, lesson.rows)
        context.emit(noted.to_dict())
    if entries and context.experiences is not None:
        _keep(entries, context.experiences, context, iteration)
    return known, list(all_helped)


def _keep(entries: list[Experience], file: ExperienceFile, context: SearchContext, iteration: int) -> None:
    """Write the lessons; if the file has become unreadable, warn instead of ending the run."""
    try:
        done = file.record(entries, run_id=context.settings.run_id, iteration=iteration)
        if done.dropped:
            said = (
                f"{counted(done.dropped, 'lesson')} moved to {done.dropped_to}, since the file keeps "
                f"{MAX_ENTRIES} of them"
            )
            moved = Problem("memory.moved", said, Place(file.path))
            context.emit(warning_event(moved, about="memory"))
    except InputError as error:
        problem = Problem("memory.not-kept", f"cannot save the lessons of this run: {error}")
        context.emit(warning_event(problem, about="memory"))


def earlier_lessons(context: SearchContext) -> tuple[Plain, list[str]]:
    """Return the lessons of earlier runs for the writers, and sentences that helped before.

    Both are empty if validation is too small to keep fresh rows: the lessons may have been measured on the
    rows that race, and no other rows could confirm a prompt made with them. Both are empty too if the file
    has become unreadable since the run began.
    """
    file, task = context.experiences, context.settings.task
    if file is None:
        return [], []
    try:
        # Without its own: a run whose checkpoint was lost begins again, and must decide as it did before.
        own = context.settings.run_id
        problems, known = file.problems(), file.select(task, without_run=own)
        helpful = file.helpful_additions(task, without_run=own)
    except InputError as error:
        unused = Problem("memory.not-used", f"lessons of earlier runs are not used: {error}")
        context.emit(warning_event(unused, about="memory"))
        return [], []
    for problem in problems:
        place, fix = Place(file.path, problem.line), "This entry is ignored. Fix it or remove it."
        context.emit(warning_event(Problem("memory.bad-entry", problem.text, place, fix)))
    if not known:
        return [], []
    if not context.plan.fresh:
        context.emit(warning_event(_TOO_SMALL_FOR_LESSONS))
        return [], []
    return [lesson.to_dict() for lesson in known], helpful
