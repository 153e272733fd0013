"""The best of the race made cheaper before its confirmation: what it carries for nothing is taken off."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from operator import itemgetter

from autoprompt.errors import BudgetExhausted, Place, Problem
from autoprompt.memory import words
from autoprompt.memory.experience import BARE
from autoprompt.optimizer.agents.writer import text_change
from autoprompt.optimizer.context import SearchContext
from autoprompt.optimizer.round_race import settle
from autoprompt.optimizer.search.demos import part
from autoprompt.optimizer.search.pool import Entry
from autoprompt.optimizer.search.race import CHEAPER, is_behind, is_level
from autoprompt.records import Candidate, Change, warning_event
from autoprompt.text.answers.reasoning import asks_to_reason

PARTS = (8, 4, 2)  # an eighth, a quarter and a half of the demonstrations
FEWEST_SHOWN = 4  # demonstrations; a smaller part is not worth its race


def simplify(context: SearchContext, leader: Entry) -> list[str]:
    """Race simpler forms of `leader` over the raced rows, the cheapest first, until one is level with it.

    First without demonstrations, then with growing parts of them; then what is found with earlier texts of
    the leader's line. A form leaves at the first block after which it is clearly behind. One that is level
    may be what the run returns. If the budget ends before a form has raced to its end, a warning says so.

    Returns:
        Ids of the forms that are new and have raced.
    """
    found, raced, has_ended = leader, [], False
    try:
        for forms in (_with_fewer_demos, _with_earlier_texts):
            limit = CHEAPER * context.cost_amount(found)
            costs = [(context.cost_amount(Entry(form)), form) for form in forms(context, found.candidate)]
            for cost, form in sorted(costs, key=itemgetter(0)):
                if cost > limit:
                    break
                if form.id not in context.pool:
                    raced.append(form.id)
                is_found = _race(context, leader, replace(form, parents=(leader.candidate.id,), told=()))
                has_ended = True
                if is_found:
                    found = context.pool[form.id]
                    break
    except BudgetExhausted as error:
        if not has_ended:
            said = "nothing was left to try simpler forms of the best prompt, so it may be too long"
            problem = Problem("budget.not-simplified", said, Place(setting=error.cap), "Raise the limit.")
            context.emit(warning_event(problem))
    return raced


def _with_fewer_demos(context: SearchContext, candidate: Candidate) -> Iterator[Candidate]:
    """The candidate without its demonstrations, then with growing parts of them.

    Not the original: that comes to the confirmation in any case.
    """
    if not candidate.demos:
        return
    bare = replace(candidate, demos=(), operator="strip", change=Change(how=BARE), id="")
    if bare.id != context.pool.original.candidate.id:
        yield bare
    for divisor in PARTS:
        shown = [part(candidate.demos_of(name), divisor) for name in candidate.components]
        demos = tuple(demo for of_one in shown for demo in of_one)
        if len(demos) >= FEWEST_SHOWN:
            change = Change(demos=len(demos), how="part")
            yield replace(candidate, demos=demos, operator="prune", change=change, id="")


def _with_earlier_texts(context: SearchContext, candidate: Candidate) -> Iterator[Candidate]:
    """The candidate with the texts that its line had before, the oldest first."""
    line = [candidate]
    while line[-1].parents:
        line.append(context.pool[line[-1].parents[0]].candidate)
    for earlier in reversed(line):
        changed = [name for name, text in candidate.components.items() if earlier.components[name] != text]
        form = replace(candidate, components=earlier.components, operator="strip", id="")
        is_alike = asks_to_reason(earlier.prompt) == asks_to_reason(candidate.prompt)
        if changed and is_alike and form.id != context.pool.original.candidate.id:
            name = changed[0] if len(candidate.components) > 1 else ""
            change = text_change(candidate.components[changed[0]], earlier.components[changed[0]], name)
            yield replace(
                form, change=replace(change, demos=candidate.change.demos, how=candidate.change.how)
            )


def _race(context: SearchContext, leader: Entry, form: Candidate) -> bool:
    """Race a form until it is clearly behind `leader`, and return whether it is level in the end."""
    pool, ids = context.pool, context.plan.race_ids
    is_new = form.id not in pool
    entry = context.add(form)
    if is_new:
        told = {"id": form.id, "operator": form.operator, "parents": list(form.parents)}
        context.emit({"event": "candidate_proposed", **told, "change": words(form.change)})
    is_found = False
    try:
        for edge in context.plan.blocks:
            context.evaluate([entry], context.plan.race[:edge], "race: a simpler form of the best")
            if is_behind(pool, leader, entry, ids[:edge]):
                break
        else:
            is_found = is_level(pool, entry, leader, ids)
    finally:
        if is_new:
            settle(context, entry, has_finished=is_found)
    return is_found
