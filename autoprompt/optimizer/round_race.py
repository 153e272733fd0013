"""The race of a round's candidates: which are accepted, and which is the best so far."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from operator import itemgetter
from typing import Any

from autoprompt.errors import BudgetExhausted, Place, Problem
from autoprompt.measure.cost import longest_prompt
from autoprompt.memory import words
from autoprompt.memory.experience import BARE
from autoprompt.optimizer.agents.writer import text_change
from autoprompt.optimizer.context import SearchContext, is_slow_round, is_slower
from autoprompt.optimizer.propose.refusal import is_too_long, shortest_refused
from autoprompt.optimizer.search.demos import part
from autoprompt.optimizer.search.gate import compare, is_better
from autoprompt.optimizer.search.operators import record_outcome
from autoprompt.optimizer.search.pool import Entry
from autoprompt.optimizer.search.race import (
    CHEAPER,
    PROBE_ROWS,
    PROBE_STEP,
    Rung,
    is_behind,
    is_level,
    race,
    standing,
)
from autoprompt.records import Candidate, Change, warning_event
from autoprompt.runs.events import BestChanged, CandidateProposed, CandidateSettled, RungEnded
from autoprompt.runs.resuming import can_continue
from autoprompt.stats import difference
from autoprompt.text.answers.reasoning import asks_to_reason
from autoprompt.text.names import counted


@dataclass(slots=True)
class RaceOutcome:
    """What a race changed. stop_reason: the budget that ended it early, or "".

    is_better: whether the best has a higher score than before, and not only the same one for less.
    entrants: candidates that raced, with those that came in the place of one that was too long.
    """

    incumbent: str
    entrants: list[str] = field(default_factory=list)
    is_better: bool = False
    tally: dict[str, list[int]] = field(default_factory=dict)
    stop_reason: str = ""


def race_round(
    context: SearchContext,
    incumbent_id: str,
    pending: list[str],
    tally: dict[str, list[int]],
) -> RaceOutcome:
    """Race the pending candidates against the best and against their parents, on rows no author saw."""
    pool, plan = context.pool, context.plan
    if is_slow_round(context, pool[incumbent_id]):
        plan = plan.slow
    settled = RaceOutcome(incumbent_id, tally=tally)
    entrants = [pool[i] for i in pending]

    def smaller(entry: Entry) -> Entry | None:
        other = _smaller(context, entry)
        if other is not None:
            entrants.append(other)
        return other

    try:
        rungs = race(
            pool,
            pool[incumbent_id],
            entrants,
            plan.race,
            plan.blocks,
            lambda entries, rows: _evaluate(context, entries, rows),
            cost=context.costs.amount,
            is_slow=lambda entry: is_slower(entry, pool[incumbent_id]),
            probe_step=PROBE_STEP if context.traits.is_slow else PROBE_ROWS,
            smaller=smaller,
            on_rung=lambda rung: _tell_rung(context, pool[incumbent_id], rung),
        )
        finished = set(rungs[-1].kept) if rungs and rungs[-1].rows == len(plan.race) else set()
    except BudgetExhausted as error:
        settled.stop_reason = error.cap
        finished = _furthest(context, entrants)
    settled.entrants = [entry.candidate.id for entry in entrants]
    _tell_refusals(context, entrants)
    ids = plan.race_ids
    for entry in entrants:
        is_accepted = settle(context, entry, has_finished=entry.candidate.id in finished)
        settled.tally = record_outcome(settled.tally, entry.candidate.operator, is_accepted)
    accepted = (e for e in entrants if e.status == "accepted")
    best = min(accepted, key=lambda e: standing(e, ids, context.costs.amount), default=None)
    if best is not None and _is_ahead(context, best, pool[incumbent_id], bool(settled.stop_reason)):
        settled.incumbent = best.candidate.id
        settled.is_better = difference(best.mean(ids), pool[incumbent_id].mean(ids)) > 0
        context.emit(
            BestChanged(
                id=best.candidate.id,
                score=best.mean(ids),
                rows=sum(i in best.scores for i in ids),
                original_score=pool.original.mean(ids),
                cost=context.costs.of(best),
                calls=context.budget.spent.calls,
            ).to_dict()
        )
    return settled


def _evaluate(context: SearchContext, entries: Any, rows: Any) -> None:
    context.evaluate(entries, rows, f"race: {counted(len(entries), 'candidate')}")


def _tell_rung(context: SearchContext, incumbent: Entry, rung: Rung) -> None:
    """Who leads on the rows so far. No more than that: nothing is tested or confirmed yet."""
    ids = context.plan.race_ids[: rung.rows]
    first = context.pool[rung.ran[0]]
    leader = min(incumbent, first, key=lambda e: standing(e, ids, context.costs.amount))
    context.emit(
        RungEnded(
            rows=rung.rows,
            ran=len(rung.ran),
            kept=len(rung.kept),
            is_last=rung.rows == len(context.plan.race),
            leader=leader.candidate.id,
            is_ahead=leader is not incumbent,
            score=leader.mean(ids),
            best_score=incumbent.mean(ids),
            calls=context.budget.spent.calls,
        ).to_dict()
    )


def _smaller(context: SearchContext, entry: Entry) -> Entry | None:
    """Return the candidate with half of its demonstrations, if it is too long for the endpoint.

    None if it is not, if that is not new, or if no demonstration is left: the text alone is another one's.
    """
    candidate = entry.candidate
    if not candidate.demos or not is_too_long(context, entry):
        return None
    shown = [candidate.demos_of(name) for name in candidate.components]
    demos = tuple(demo for of_one in shown for demo in of_one[: len(of_one) // 2])
    if not demos:
        return None
    change = candidate.change
    if change.demos:
        change = replace(change, demos=len(demos))
    made = replace(candidate, demos=demos, change=change, id="")
    if made.id in context.pool:
        return None
    context.emit(CandidateProposed(made.id, made.operator, words(change), made.parents).to_dict())
    return context.add(made)


def _tell_refusals(context: SearchContext, entrants: list[Entry]) -> None:
    others = [entry for entry in context.pool.entries if entry not in entrants]
    shortest = shortest_refused(context, entrants)
    if shortest is None or shortest_refused(context, others) is not None:  # none, or told already
        return
    tokens = longest_prompt(shortest.candidate, context.settings.input_field)
    reason = next(iter(shortest.refusals.values()))
    said = (
        f"the endpoint rejects prompts of about {counted(tokens, 'token')}, so the run tries shorter ones: "
        f"{reason.rstrip('.')}"
    )
    fix, settings = "Use {max_prompt_tokens} to avoid them from the start.", {"max_prompt_tokens": tokens - 1}
    rejected = Problem("model.prompt-too-long", said, fix=fix, settings=settings)
    context.emit(warning_event(rejected, about="models"))


def _furthest(context: SearchContext, entrants: list[Entry]) -> set[str]:
    """Return those that came furthest before the budget ran out.

    They are judged on the rows that they have.
    """
    ids = context.plan.race_ids
    reached = {e.candidate.id: sum(i in e.scores for i in ids) for e in entrants}
    most = max(reached.values(), default=0)
    return {i for i, n in reached.items() if n == most and n > 0}


def settle(context: SearchContext, entry: Entry, *, has_finished: bool) -> bool:
    """Accept or reject a candidate, and return which.

    It is accepted if it has finished the race and is better than its first parent, or level and much cheaper.
    """
    candidate, ids, parent = entry.candidate, context.plan.race_ids, context.pool[entry.candidate.parents[0]]
    comparison = compare(context.pool, candidate.id, parent.candidate.id, ids)
    is_cheaper = context.costs.amount(entry) <= CHEAPER * context.costs.amount(parent)
    is_worth_it = is_better(comparison) or (is_cheaper and is_level(context.pool, entry, parent, ids))
    accepted = has_finished and is_worth_it
    entry.status = "accepted" if accepted else "rejected"
    context.changed.add(candidate.id)
    context.emit(
        CandidateSettled(
            id=candidate.id,
            accepted=accepted,
            score=comparison.score,
            rows=comparison.rows,
            parent_score=comparison.other_score,
            p_value=comparison.p_value,
            refused=len(entry.refusals),
            cost=context.costs.of(entry),
            calls=context.budget.spent.calls,
        ).to_dict()
    )
    return accepted


def _is_ahead(context: SearchContext, entry: Entry, incumbent: Entry, was_stopped: bool) -> bool:
    """On the rows that both have; a few may be lost to the endpoint.

    was_stopped: whether the budget ended the race. One that it stopped on its way needs more than a better
    mean.
    """
    ids = context.plan.race_ids
    shared = [i for i in ids if i in entry.scores and i in incumbent.scores]
    if was_stopped and len(shared) < len(ids):
        return is_behind(context.pool, entry, incumbent, shared)
    return standing(entry, shared, context.costs.amount) < standing(incumbent, shared, context.costs.amount)


# --- the best of the race made cheaper before its confirmation ---

_PARTS = (8, 4, 2)  # an eighth, a quarter and a half of the demonstrations
_FEWEST_SHOWN = 4  # demonstrations; a smaller part is not worth its race


def simplify(context: SearchContext, leader: Entry) -> tuple[list[str], str]:
    """Race simpler forms of `leader` over the raced rows, the cheapest first, until one is level with it.

    First without demonstrations, then with growing parts of them; then what is found with earlier texts of
    the leader's line. A form leaves at the first block after which it is clearly behind. One that is level
    may be what the run returns.

    Returns:
        Ids of the forms that are new and have raced; and the limit that let no form race to its end, or "".
    """
    found, raced, has_ended = leader, [], False
    try:
        for forms in (_with_fewer_demos, _with_earlier_texts):
            limit = CHEAPER * context.costs.amount(found)
            costs = [(context.costs.amount(Entry(form)), form) for form in forms(context, found.candidate)]
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
        return raced, "" if has_ended else error.cap
    return raced, ""


def not_simplified(cap: str, stop_reason: str, ends_reason: str) -> Problem:
    """Return the warning that a limit let no simpler form of the best race, with what a larger one does."""
    said = "the limit ended the run before simpler forms of the best prompt, so it may be too long"
    fix = f"A new run with a larger {{{cap}}} tries them; it takes known answers from the cache."
    if can_continue(stop_reason, ends_reason):
        fix = f"Resume the run with a larger {{{cap}}}."
    return Problem("budget.not-simplified", said, Place(setting=cap), fix, {cap: None})


def _with_fewer_demos(context: SearchContext, candidate: Candidate) -> Iterator[Candidate]:
    """Yield the candidate without its demonstrations, then with growing parts of them.

    Not the original: that comes to the confirmation in any case.
    """
    if not candidate.demos:
        return
    bare = replace(candidate, demos=(), operator="strip", change=Change(how=BARE), id="")
    if bare.id != context.pool.original.candidate.id:
        yield bare
    for divisor in _PARTS:
        shown = [part(candidate.demos_of(name), divisor) for name in candidate.components]
        demos = tuple(demo for of_one in shown for demo in of_one)
        if len(demos) >= _FEWEST_SHOWN:
            change = Change(demos=len(demos), how="part")
            yield replace(candidate, demos=demos, operator="prune", change=change, id="")


def _with_earlier_texts(context: SearchContext, candidate: Candidate) -> Iterator[Candidate]:
    """Yield the candidate with the texts that its line had before, the oldest first."""
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
        context.emit(CandidateProposed(form.id, form.operator, words(form.change), form.parents).to_dict())
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
