"""What a run will take at most, in calls, tokens and money, and whether the caps leave room for it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from autoprompt.brief import brief, card
from autoprompt.errors import BudgetTooSmallError, Place, Problem
from autoprompt.llm.client import ROLES, CallRole
from autoprompt.llm.prices import Prices
from autoprompt.measure.cost import FRAME_TOKENS, Call, answer_tokens, judge_call, mean_tokens, room_of, times
from autoprompt.optimizer.prepare import Preparation, smallest_gain_at_best, smallest_gain_of
from autoprompt.optimizer.search.plan import fewest_calls, fewest_optimizer_calls, final_cost
from autoprompt.records import Count, total
from autoprompt.settings.records import JUDGED
from autoprompt.text.answers.reasoning import USUAL_TOKENS
from autoprompt.text.names import counted
from autoprompt.text.scripts import estimate_tokens

USUAL_DEMOS = 48  # of a long candidate; see optimizer/search/demos.py
WRITER_REPLY = 300  # tokens, besides a prompt as long as the original


@dataclass(frozen=True, slots=True)
class Estimate:
    """What a run would use. Calls, tokens and costs are upper bounds.

    Tokens are estimated from the lengths of texts (see `estimate_tokens`), and no more than the limits allow.
    An unreadable grade is asked for again, so the calls of the judge are about one for each row.
    """

    sizes: Mapping[str, int]
    """Rows of `train`, `val` and `test`."""
    task_calls: Count
    """Requests of the task model."""
    optimizer_calls: Count
    """Requests of analyst and writer."""
    tokens: Count
    """Tokens, estimated from the lengths of texts."""
    cost_usd: float | None
    """US dollars; null if a price is not known."""
    max_iterations: Count
    """Rounds of the search."""
    warnings: tuple[Problem, ...]
    """What has to be known before the run."""
    fewest_calls: Count = 0
    """Least limit on calls with which the run would mean something."""
    calls_per_row: float = 1
    """Calls to models that a row takes."""
    smallest_gain: float | None = None
    """Least gain that the validation rows can confirm."""
    val_groups: Count = 0
    """In how many groups the validation rows are."""
    judge_calls: Count = 0
    """Requests of the judge."""
    judge_model: str = ""
    """Name of the judge; empty without one."""
    judge_cost_usd: float | None = 0.0
    """US dollars for the judge; null if its price is not known."""
    smallest_gain_at_best: float | None = None
    """Least gain that can be confirmed with the train rows that may stay unseen."""
    short_tokens: Count = 0
    """Tokens if all prompts stay as short as the original."""
    short_cost_usd: float | None = None
    """US dollars if all prompts stay as short as the original."""
    fewest_tokens: Count = 0
    """Tokens of one round and the final comparison, with short prompts."""
    fewest_cost_usd: float | None = None
    """US dollars of one round and the final comparison, with short prompts."""
    unpriced: tuple[CallRole, ...] = ()
    """Roles whose price is not known."""
    labels: tuple[str, ...] = ()
    """The only answers; empty for free answers."""
    different_targets: Count = 0
    """Different right answers of all rows."""
    sent_calls: Count = 0
    """Requests that the estimate itself sent, to try a program."""
    call_s: float | None = None
    """Seconds of such a request, on average; null if none was sent."""
    prompts: tuple[Mapping[str, str], ...] = ()
    """Texts of a program that a run would optimize."""

    __repr__ = brief

    def _repr_html_(self) -> str:
        return card(self)

    @property
    def calls(self) -> int:
        """Of all roles."""
        return self.task_calls + self.optimizer_calls + self.judge_calls

    def to_dict(self) -> dict[str, Any]:
        """Return what `run --dry-run --json` prints."""
        lists = {
            "warnings": [warning.to_dict() for warning in self.warnings],
            "labels": list(self.labels),
            "unpriced": list(self.unpriced),
            "prompts": [dict(prompt) for prompt in self.prompts],
        }
        return {"calls": self.calls, **asdict(self), "sizes": dict(self.sizes), **lists}


def estimate_run(preparation: Preparation, prices: Prices) -> Estimate:
    """Return an upper bound in calls, and what so many calls of rows like these take in tokens and money.

    Each task call is taken to be as long as those of a winner with demonstrations, or to reason, whichever
    is more, so that a run usually takes much less; its caps hold in any case.
    """
    p = preparation
    first_drafts, optimizer_calls = (
        min(p.max_calls, p.max_iterations * (p.analyst_calls + writings))
        for writings in (p.depth.writers, p.depth.most_writings)
    )
    row_calls = p.max_calls - optimizer_calls
    judge_calls = _judge_calls(p, row_calls)
    task_calls = row_calls - judge_calls
    writing, judging = _writer_call(p), _judge_call(p)
    judged = times(judge_calls, judging.cost(prices.judge))

    def taken(kinds: Sequence[Call], written: int) -> tuple[int, float | None]:
        """Tokens and cost, where each task call is the longest, and the dearest, of these."""
        more_rows = optimizer_calls - written
        tokens = (task_calls + more_rows) * max(call.tokens for call in kinds)
        others = written * writing.tokens + judge_calls * judging.tokens
        costs = [call.cost(prices.task) for call in kinds]
        cost = total(
            times(task_calls + more_rows, None if None in costs else max(filter(None, costs), default=0.0)),
            times(written, writing.cost(prices.optimizer)),
            judged,
        )
        return round(tokens + others), cost

    def most_taken(kinds: Sequence[Call]) -> tuple[int, float | None]:
        """Return the larger amounts, of drafts that are refused and of rows asked for their calls."""
        amounts = [taken(kinds, written) for written in (first_drafts, optimizer_calls)]
        costs = [cost for _, cost in amounts if cost is not None]
        return max(tokens for tokens, _ in amounts), max(costs, default=None)

    tokens, cost = most_taken(_winners_calls(p))
    short_tokens, short_cost = most_taken([_original_call(p)])
    warnings = list(p.splits.warnings)
    tokens, cost = _capped(p, tokens, cost, warnings)
    if tokens < short_tokens:
        short_tokens, short_cost = tokens, cost
    fewest = fewest_calls(p.plan, len(p.splits.test), fewest_optimizer_calls(p.depth, p.analyst_calls))
    least = _least(p, prices)
    return Estimate(
        sizes=p.splits.sizes,
        task_calls=task_calls,
        optimizer_calls=optimizer_calls,
        tokens=tokens,
        cost_usd=cost,
        max_iterations=p.max_iterations,
        warnings=tuple(warnings),
        fewest_calls=fewest,
        calls_per_row=p.plan.calls_per_row,
        smallest_gain=smallest_gain_of(p.plan, p.depth),
        val_groups=sum(p.plan.groups),
        judge_calls=judge_calls,
        judge_model=prices.judge_model if judge_calls else "",
        judge_cost_usd=judged,
        smallest_gain_at_best=smallest_gain_at_best(p.plan, p.depth, p.splits.train),
        short_tokens=short_tokens,
        short_cost_usd=short_cost,
        fewest_tokens=math.ceil(least.tokens),
        fewest_cost_usd=least.cost_usd,
        unpriced=prices.missing(
            role
            for role, calls in zip(ROLES, (task_calls, optimizer_calls, judge_calls), strict=True)
            if calls
        ),
        labels=p.labels,
        different_targets=len({row.target_text for row in p.rows if row.has_target}),
        sent_calls=p.spent.calls,
        call_s=getattr(getattr(p.task, "view", None), "call_s", None),
        prompts=_prompts(p),
    )


def _prompts(p: Preparation) -> tuple[Mapping[str, str], ...]:
    """Return the texts that the trial of a program has found."""
    if p.config.program is None:
        return ()
    view = getattr(p.task, "view", None)
    if view is None:
        return ()
    return tuple({"name": c.name, "kind": c.kind, "place": view.place_of(c.name)} for c in view.components)


def _capped(
    p: Preparation, tokens: int, cost: float | None, warnings: list[Problem]
) -> tuple[int, float | None]:
    """Return tokens and cost as far as the caps on them let the run get; add to `warnings` if they end it."""
    most_tokens, most_cost = p.config.max_tokens, p.config.max_cost
    shares = [1.0]
    if most_tokens is not None and tokens > most_tokens:
        warnings.append(_ends("max_tokens", counted(most_tokens, "token"), counted(tokens, "token")))
        shares.append(most_tokens / tokens)
    if most_cost is not None and cost is not None and cost > most_cost:
        warnings.append(_ends("max_cost", f"${most_cost:g}", f"${cost:.4g}"))
        shares.append(most_cost / cost)
    share = min(shares)
    return round(tokens * share), None if cost is None else cost * share


def _ends(setting: str, cap: str, needed: str) -> Problem:
    said = f"{cap} may end the search early: all rounds can take up to about {needed}"
    return Problem("budget.may-end-early", said, Place(setting=setting))


def check_spending(preparation: Preparation, prices: Prices) -> None:
    """Refuse a cap on tokens or cost that is too small for one round and the final comparison.

    By an estimate, since nothing has been counted yet: calls with the original prompt, whose length a winner
    may pass. The cap on cost is not checked where a price that is needed is not known.

    Raises:
        BudgetTooSmallError: With the smallest cap that passes.
    """
    p = preparation
    final, found = final_cost(p.plan, len(p.splits.test)), _least(p, prices)
    for setting, cap, least, digits in (
        ("max_tokens", p.config.max_tokens, found.tokens, 0),
        ("max_cost", p.config.max_cost, found.cost_usd, 6),
    ):
        if cap is None or least is None:
            continue
        needed = math.ceil(least * 10**digits) / 10**digits
        if cap < needed:
            shown = f"{needed:.{digits}f}"
            said = (
                f"{cap:g} is too small: one round and the final comparison ({final} of "
                f"{counted(found.calls, 'call')}) "
                f"take about {shown} with prompts no longer than the original"
            )
            fix = f"Give {{{setting}}} or more, or use fewer rows with {{max_test}} and {{max_val}}."
            settings = {setting: needed if digits else int(needed), "max_test": None, "max_val": None}
            raise BudgetTooSmallError(
                Problem("budget.too-small", said, Place(setting=setting), fix, settings)
            )


@dataclass(frozen=True, slots=True)
class _Least:
    """What one round and the final comparison take; cost_usd: None where a price is not known."""

    calls: int
    tokens: float
    cost_usd: float | None


def _least(p: Preparation, prices: Prices) -> _Least:
    calls = fewest_calls(p.plan, len(p.splits.test), 0)
    judged = _judge_calls(p, calls)
    own, writing, judging = _original_call(p), _writer_call(p), _judge_call(p)
    optimizer_calls = p.analyst_calls + p.depth.writers  # a second analysis is room, and no need
    tokens = (calls - judged) * own.tokens + optimizer_calls * writing.tokens + judged * judging.tokens
    cost = total(
        times(calls - judged, own.cost(prices.task)),
        times(optimizer_calls, writing.cost(prices.optimizer)),
        times(judged, judging.cost(prices.judge)),
    )
    return _Least(calls + optimizer_calls, tokens, cost)


def judge_tokens(preparation: Preparation) -> float:
    """Return about how many tokens a call to the judge takes; 0 where no model judges."""
    return _judge_call(preparation).tokens


def _original_call(p: Preparation) -> Call:
    """Return a task call with the prompt that the user gave.

    Of several prompts each is about one call of a row.
    """
    return Call(
        estimate_tokens(p.text) // len(p.task.components) + _row_tokens(p) + FRAME_TOKENS,
        answer_tokens(p.labels, [row.target_text for row in _rows(p)], p.task_options),
    )


def _winners_calls(p: Preparation) -> list[Call]:
    """Return a task call of a long winner: one with demonstrations, and one that reasons if that is tried."""
    original = _original_call(p)
    prompt, answer = estimate_tokens(p.text) // len(p.task.components), original.completion
    demos = min(p.config.max_demos, USUAL_DEMOS, len(p.splits.train))
    repeated = estimate_tokens(p.task.repeated_text(p.fields))
    shown = _row_tokens(p) + repeated + answer + FRAME_TOKENS
    longer = min(p.config.max_prompt_tokens, prompt + demos * shown)
    # A free answer may be worked out, however short it ends.
    written = answer if p.labels else min(max(answer, USUAL_TOKENS), room_of(p.task_options))
    found = [Call(original.prompt - prompt + longer, written)]
    if p.can_reason:
        found.append(Call(original.prompt, USUAL_TOKENS))
    return found


def _judge_calls(p: Preparation, row_calls: int) -> int:
    """Return those of the calls for rows that are the judge's."""
    return int(row_calls / p.plan.calls_per_row) if p.config.metric == JUDGED else 0


def _judge_call(p: Preparation) -> Call:
    """All 0 where no model judges."""
    if p.config.metric != JUDGED:
        return Call(0.0, 0.0)
    return judge_call(p.config, _row_tokens(p), mean_tokens([row.target_text for row in _rows(p)]))


def _writer_call(p: Preparation) -> Call:
    """Return a call to analyst or writer: the rows that it is shown, both prompts, template and answer."""
    prompt = estimate_tokens(p.text)
    return Call(12 * (_row_tokens(p) + 20) + prompt + 900 - WRITER_REPLY, prompt + WRITER_REPLY)


def _row_tokens(p: Preparation) -> float:
    return mean_tokens([row.full_text for row in _rows(p)])


def _rows(p: Preparation) -> Sequence[Any]:
    return [*p.splits.val, *p.splits.test][:200]
