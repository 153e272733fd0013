"""What a round taught: lessons for the experience file, and for the writers of the rounds to come."""

from __future__ import annotations

import sys

from autoprompt.errors import InputError
from autoprompt.memory import Experience, ExperienceFile, additive_sentence, cut_mark, measurement
from autoprompt.memory.file import MAX_ENTRIES
from autoprompt.optimizer.agents.writer import describe_change
from autoprompt.optimizer.context import SearchContext
from autoprompt.optimizer.state import AutoPromptState
from autoprompt.records import Candidate, warning_event
from autoprompt.text.names import counted


def learn(
    context: SearchContext, state: AutoPromptState, settled: list[str], iteration: int
) -> tuple[str, list[str]]:
    """Write this round's lessons to the file; the state's experiences and what helped, with them behind."""
    known = state.get("memory_experiences", "")
    lessons, entries = [], []
    for candidate_id in settled:
        if context.pool[candidate_id].refusals:  # that says something of this endpoint, not of the change
            continue
        candidate = context.pool[candidate_id].candidate
        parent = context.pool[candidate.parents[0]].candidate
        new, old, groups = context.pool.shared(candidate.id, parent.id, context.plan.race_ids)
        lesson = context.memory.learn(
            parent.prompt, candidate.prompt, old, new, iteration, change=candidate.change, groups=groups
        )
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
    helped = dict.fromkeys([*state.get("helped", []), *filter(None, added)])
    return "\n".join(filter(None, [known, *own])), list(helped)


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
