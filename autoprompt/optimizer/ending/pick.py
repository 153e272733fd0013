"""The two ends of a run: the highest score, and the cheapest candidate that is about as good.

Only these two meet fresh rows and the sealed test, in a fixed sequence: the cheaper one is compared with the
original only if the highest one was better than it (Maurer, Hothorn & Lehmacher 1995), so that both together
err as often as the highest alone. The one that is returned is the best prompt of the run.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any, Literal

from autoprompt.errors import BudgetExhausted
from autoprompt.llm.prices import COLD, WARM
from autoprompt.optimizer.context import AutoPromptState, SearchContext
from autoprompt.optimizer.ending.choosing import finishers, fresh_of_train, is_remembered
from autoprompt.optimizer.search.gate import confirm
from autoprompt.optimizer.search.plan import FEWEST_FRESH
from autoprompt.optimizer.search.pool import Entry
from autoprompt.optimizer.search.race import is_level
from autoprompt.runs.result import CallCost
from autoprompt.stats import difference, paired_error

# What costs hardly less is no choice: answers alone differ by a token from one candidate to the next.
_LESS = 0.95

Reason = Literal["", "setting", "none", "no_budget", "not_level", "not_confirmed"]
"""Why the highest is returned: asked for, nothing cheaper is level, no calls, or behind on fresh rows.

"": it is not."""


def find_cheaper(context: SearchContext, highest: Entry) -> tuple[Entry | None, Reason]:
    """Return the cheapest candidate that is level with the highest on the raced rows, if there is one.

    Of all that finished the race, accepted or not.
    """
    if context.settings.pick == "highest":
        return None, "setting"
    pool, ids = context.pool, context.plan.race_ids
    most = _LESS * context.cost_amount(highest)
    level = [
        entry
        for entry in finishers(context, highest)
        if context.cost_amount(entry) <= most and is_level(pool, entry, highest, ids)
    ]
    if not level:
        return None, "none"
    return min(level, key=lambda entry: (context.cost_amount(entry), -entry.mean(ids))), ""


def calls_for_cheaper(context: SearchContext) -> int:
    """Return the calls to keep back for the cheaper end when highest and original have their fresh rows.

    Those of the plan, and half of what else is left. 0 if they do not reach for its fresh rows and a part of
    the test: then rows of train, which can confirm the highest, get them.
    """
    plan, fresh, test = context.plan, len(context.plan.fresh), len(context.splits.test)
    wanted, left = plan.calls(fresh + test), context.budget.calls_left()
    if left is not None:
        kept = min(plan.pick_calls, left)
        wanted = min(wanted, kept + (left - kept) // 2)
    return wanted if wanted >= plan.calls(fresh + fewest_tested(test)) else 0


def rows_for_cheaper(context: SearchContext, highest: Entry, cheaper: Entry) -> int:
    """Return how many test rows the budget has for the cheaper end beside the two others and their retries.

    0 if they are too few to say anything.
    """
    if not context.hold_test(highest.candidate):
        return 0
    rows, plan = len(context.splits.test), context.plan

    def is_too_much(wanted: int) -> bool:
        try:
            context.check_calls(plan.calls(wanted), [cheaper.candidate])
        except BudgetExhausted:
            return True
        return False

    found = bisect_left(range(rows + 1), True, key=is_too_much) - 1
    return found if found >= fewest_tested(rows) else 0


def fewest_tested(rows: int) -> int:
    """Return how many rows of a sealed test say something of a candidate, where the budget is short."""
    return math.ceil(min(FEWEST_FRESH, rows / 2))


def confirm_cheaper(
    context: SearchContext, state: AutoPromptState, highest: Entry, cheaper: Entry
) -> tuple[dict[str, Any], Reason]:
    """Return how the cheaper end does on raced and fresh rows, and why it is out; "" if it is not.

    It must be level with the highest and better than the original beyond luck, as the highest was.
    """
    plan, pool = context.plan, context.pool
    if not context.hold_test(highest.candidate, plan.calls(fewest_tested(len(context.splits.test)))):
        return {}, "no_budget"
    asked = list(plan.fresh)
    if not asked:  # rows of train that the two others have answered, if they are fresh for this one as well
        unseen = fresh_of_train(context, cheaper, state["history"], state["has_memory"]).unseen
        asked = [row for row in unseen if row.id in highest.scores and row.id not in highest.held_out]
    try:
        context.evaluate([cheaper], asked, "fresh rows: the cheaper prompt", keeps_rest=True)
    except BudgetExhausted:
        if plan.fresh:
            return {}, "no_budget"
    fresh = [row.id for row in asked if row.id in cheaper.scores]
    both = [*plan.race_ids, *fresh]
    ours, theirs, groups = pool.shared(cheaper.candidate.id, highest.candidate.id, both)
    known = is_remembered(context, cheaper, state["has_memory"])
    confirmation = confirm(pool, cheaper, plan.race_ids, fresh, is_remembered=known)
    rows = max(1, len(ours))
    found = {
        "rows": len(ours),
        "score": sum(ours) / rows,
        "highest_score": sum(theirs) / rows,
        "behind": difference(sum(theirs), sum(ours)) / rows,
        "standard_error": paired_error(ours, theirs, groups),
        "confirmation": {
            **confirmation.to_dict(),
            "candidate": cheaper.candidate.id,
            "train_rows": len(set(fresh).difference(plan.fresh_ids)),
            "held_out_rows": 0,
        },
    }
    if not is_level(pool, cheaper, highest, both):
        return found, "not_level"
    return found, "" if confirmation.is_confirmed else "not_confirmed"


def ends_event(context: SearchContext, ends: Mapping[str, Any]) -> dict[str, Any]:
    """Return the event that says which of the two ends the run returns, and what a call costs with each."""
    named = {name: context.pool[ends[name]] for name in ("highest", "cheapest") if ends[name]}
    costs = {f"cost_of_{name}": cost_record(context, entry) for name, entry in named.items()}
    return {"event": "pick_chosen", **ends, "returned": ends["cheapest"] or ends["highest"], **costs}


def cost_record(context: SearchContext, entry: Entry) -> dict[str, Any]:
    """Return what a call costs: under the run's traffic, and if every call is cold or warm."""
    cost = context.cost(entry)
    cold, warm = (context.cost(entry, traffic).amount for traffic in (COLD, WARM))
    return asdict(CallCost(cost.unit, cost.amount, cold, warm))
