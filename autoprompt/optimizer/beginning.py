"""What a run begins with: the original in the pool, and what earlier runs have learned."""

from __future__ import annotations

from typing import Any

from autoprompt.errors import InputError
from autoprompt.optimizer.context import SearchContext
from autoprompt.optimizer.state import AutoPromptState
from autoprompt.records import Candidate, warning_event

_TOO_SMALL_FOR_LESSONS = (
    "lessons of earlier runs are not used: validation is so small that all of it races, and a prompt made "
    "with them would need other rows to be confirmed"
)


def first_state(context: SearchContext, dataset: dict[str, Any]) -> AutoPromptState:
    """The state that a run begins with; the original joins the pool."""
    original = context.add(Candidate(components=context.program.components))
    original.status = "accepted"
    prompt = original.candidate.prompt
    known, helped = _earlier_lessons(context)
    return {
        "original_prompt": prompt,
        "current_prompt": prompt,
        "previous_prompt": prompt,
        "dataset": dataset,
        "results": {},
        "analysis": {},
        "iteration": 1,
        "max_iterations": context.settings.max_iterations,
        "history": [],
        "memory_experiences": known,
        "helped": helped,
        "has_memory": bool(known),
        "original": original.candidate.id,
        "incumbent": original.candidate.id,
        "pending": [],
        "settled": [],
        "tried": 0,
        "plateau": 0,
        "tally": {},
        "stop_reason": "",
        "confirmation": {},
        "test": {},
        "pool_step": 0,
        "journal_position": 0,
        "spent": {},
    }


def _earlier_lessons(context: SearchContext) -> tuple[str, list[str]]:
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
