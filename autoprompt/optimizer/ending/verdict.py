"""What a run found, as numbers: best against original, with intervals, the paired test and what it cost."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from autoprompt.errors import Problem
from autoprompt.llm.limits.amounts import Spent
from autoprompt.llm.prices import WARM
from autoprompt.measure.baselines import NO_BASELINES, find_baselines, with_baselines
from autoprompt.measure.compare import ALPHA, ComparedRows, compare_rows
from autoprompt.measure.problems import first_error, refusal_warnings
from autoprompt.metrics import name_of_means
from autoprompt.optimizer.agents.analyst import spread
from autoprompt.optimizer.context import AutoPromptState, SearchContext
from autoprompt.optimizer.ending.choosing import trade_off
from autoprompt.optimizer.ending.finish import call_cost
from autoprompt.optimizer.result import RunResult
from autoprompt.optimizer.search.plan import FEWEST_FRESH
from autoprompt.optimizer.search.pool import Entry
from autoprompt.records import EvaluatedRow, validated
from autoprompt.runs.listing import FEWEST_NEW_ROWS
from autoprompt.runs.result import (
    Baselines,
    Confirmation,
    Ends,
    EndsDifference,
    Gain,
    Level,
    OperatorCount,
    OtherEnd,
    PassedOver,
    Result,
    Returned,
    Round,
    Side,
    Splits,
    Tried,
    Validation,
    Verdict,
)
from autoprompt.runs.resuming import NO_ERRORS, stop_reason_of
from autoprompt.runs.spending import Spending
from autoprompt.stats import in_groups, p_text, rows_to_show
from autoprompt.text.names import counted

AnySide = TypeVar("AnySide", bound=Side)


@dataclass(frozen=True, slots=True)
class RunFacts:
    """What the result repeats of the run's settings.

    lost_answers: of the roles of which half of the answers were cut or empty, see `RoleTally.to_dict`.
    models: what was asked for and which models answered, by role, see `Answered.to_dict`.
    concurrency: see `RoleModels.settled_on`.
    """

    run_id: str
    run_dir: str
    metric: str
    model: str
    optimizer_model: str
    splits: Splits
    lost_answers: Mapping[str, Mapping[str, Any]]
    models: Mapping[str, Mapping[str, Any]]
    concurrency: int | None
    warnings: Sequence[Problem]


def make_result(state: AutoPromptState, context: SearchContext, facts: RunFacts, spent: Spent) -> RunResult:
    """Return what the run found, the last lines and the warnings included."""
    original, best = context.pool.original, context.pool[state["incumbent"]]
    instead_of = state.get("instead_of", "")
    leader = context.pool[instead_of] if instead_of else None
    test = state.get("test") or {}
    names = ("best", "original", "other")
    sides = {name: context.read_results(test[name]) if name in test else [] for name in names}
    compared = compare_rows(sides["best"], sides["original"], context.metric)
    ends = ends_of(state, context, sides, compared)
    other = None if ends.other is None else context.pool[ends.other.id]
    by_role = (
        ("task", spent.task_calls, spent.task),
        ("optimizer", spent.optimizer_calls, spent.optimizer),
        ("judge", spent.judge_calls, spent.judge),
    )
    result = Result(
        run_id=facts.run_id,
        run_dir=facts.run_dir,
        stop_reason=stop_reason_of(state),
        cut_by=tuple(state.get("cut_by", ())),
        verdict=_verdict(
            compared,
            is_perfect=best is original and not state["tried"] and stop_reason_of(state) == NO_ERRORS,
            is_highest_better=ends.is_highest_better,
        ),
        metric=facts.metric,
        original=_side(Side, context, original, sides["original"], compared, is_new=False),
        best=_side(
            Returned,
            context,
            best,
            sides["best"],
            compared,
            id=best.candidate.id,
            is_original=best is original,
            instead_of=instead_of or None,
            demos=best.candidate.demos,
        ),
        ends=ends,
        trade_off=trade_off(context, best, other, leader, is_test_opened=compared is not None),
        baselines=_baselines(context, sides["best"]),
        validation=_validation(state, context, original, best),
        calls=spent.calls,
        repeated_calls=spent.repeats,
        tokens={role: usage.total_tokens for role, calls, usage in by_role if calls or role != "judge"},
        cost_usd=spent.cost_usd,
        spending=tuple(Spending(role, calls, usage) for role, calls, usage in by_role if calls),
        calls_left=context.budget.calls_left(),
        seconds=round(spent.seconds, 3),
        concurrency=facts.concurrency,
        splits=facts.splits,
        candidates=_tried(state, context),
        iterations=state["iteration"],
        model=facts.model,
        optimizer_model=facts.optimizer_model,
        models=dict(facts.models),
        lost_answers=dict(facts.lost_answers),
    )
    result = _with_difference(result, compared)
    message = with_baselines(_sentence(result), result.baselines, result.best.score, result.metric)
    result = replace(
        result,
        message=message,
        ends=ends if best is original else replace(ends, lines=tuple(end_lines(result))),
        history=tuple(read_rounds(state, context, result.best.score)),
        warnings=tuple(_warnings(result, facts, sides)),
    )
    return RunResult(result, best.candidate, original.candidate)


def _with_difference(result: Result, compared: ComparedRows | None) -> Result:
    """Return the result with what the sealed test says of the best and the original."""
    if compared is None:
        return result
    return replace(
        result,
        gain=Gain(compared.gain, compared.gain_interval),
        p_value=compared.p_value,
        fixed=compared.fixed,
        broken=compared.broken,
        left_out=compared.left_out,
        is_lopsided=compared.is_lopsided,
    )


def ends_of(
    state: AutoPromptState,
    context: SearchContext,
    sides: Mapping[str, Sequence[EvaluatedRow]],
    compared: ComparedRows | None,
) -> Ends:
    """Return which of the two tested ends the run returns; `other`: the highest, if it returns the cheaper.

    compared: what the run returns against the original, on the sealed test.

    `is_highest_better`: whether the highest end is better than the original on the sealed test, without which
    the cheaper one is not confirmed; None if the test was not opened. `difference`: the cheapest minus the
    highest.
    """
    ends = state.get("ends") or {}
    rows = sides["other"]
    of_highest = compare_rows(rows, sides["original"], context.metric) if rows else compared
    apart = compare_rows(sides["best"], rows, context.metric) if rows else None
    other = None
    if ends.get("cheapest"):
        entry = context.pool[ends["highest"]]
        other = _side(
            OtherEnd, context, entry, rows, of_highest, id=entry.candidate.id, demos=entry.candidate.demos
        )
        if of_highest is not None:
            gain = Gain(of_highest.gain, of_highest.gain_interval)
            other = replace(other, p_value=of_highest.p_value, gain=gain)
    settings = context.settings
    return Ends(
        pick=settings.pick,
        traffic=settings.traffic.calls_per_hour if settings.traffic != WARM else None,
        returned="highest" if other is None else "cheapest",
        reason=ends.get("reason", "none"),
        level=validated(Level, ends["level"]) if ends.get("level") else None,
        passed_over=_passed_over(context, ends),
        other=other,
        difference=None
        if apart is None
        else EndsDifference(apart.gain, apart.gain_interval, len(rows) - apart.left_out),
        is_highest_better=None if of_highest is None else of_highest.is_better,
    )


def _passed_over(context: SearchContext, ends: Mapping[str, Any]) -> PassedOver | None:
    if not ends.get("passed_over"):
        return None
    entry, highest = context.pool[ends["passed_over"]], context.pool[ends["highest"]]
    ids = [i for i in context.plan.race_ids if i in entry.scores and i in highest.scores]
    score, highest_score = (one.mean(ids) for one in (entry, highest))
    return PassedOver(entry.candidate.id, score, highest_score, call_cost(context, entry))


_UNITS: dict[str, str] = {"usd": "cost", "seconds": "take", "tokens": "take"}


def end_lines(result: Result) -> list[str]:
    """Return the last lines of a run: what was passed over, and what each end costs."""
    ends = result.ends
    other, passed = ends.other, ends.passed_over
    costs = {"this prompt": result.best.cost, "the original": result.original.cost}
    lines = []
    if other is not None:
        costs["the highest score"] = other.cost
        score = "" if other.score is None else f" with {other.score:.2f}"
        lines.append(
            "This is the cheapest prompt that is about as good as the one with the highest score. Passed "
            f"over: {other.id[:6]}{score}. Take it with `autoprompt runs export RUN:{other.id[:6]}`."
        )
        if (apart := ends.difference) is not None:
            low, high = apart.ci95
            lines.append(
                f"This prompt minus the highest score: {apart.value:+.2f} on "
                f"{counted(apart.rows, 'unseen row')} (95% interval {low:+.2f} to {high:+.2f})."
            )
    elif passed is not None:
        costs[f"the cheaper {passed.id[:6]}"] = passed.cost
        lines.append(f"Passed over: a cheaper prompt, {passed.id[:6]}{_why_passed(ends, passed)}")
    known = {name: cost for name, cost in costs.items() if cost is not None}
    units = {cost.unit for cost in known.values()}
    said = "; ".join(f"{cost.both} with {name}" for name, cost in known.items())
    price = ""
    if units == {"tokens"}:  # of a free model, too: where all cost $0, tokens still tell them apart
        paid = next((part.usage.cost_usd for part in result.spending if part.role == "task"), result.cost_usd)
        unpriced, free = " For dollars, set price_input and price_output.", " The model is free."
        price = unpriced if paid is None else free if paid == 0 else ""
    return [*lines, *(f"1,000 calls {_UNITS[unit]} {said}.{price}" for unit in units)]


def _why_passed(ends: Ends, passed: PassedOver) -> str:
    level = ends.level
    if level is None:
        race = f"{passed.score:.2f} against {passed.highest_score:.2f}"
        return f", is about as good in the race ({race}). A larger budget tests it."
    why = f"{level.score:.2f} against {level.highest_score:.2f}"
    why = f"{why} on {counted(level.rows, 'raced and fresh row')}"
    if ends.reason == "not_confirmed":
        return f": nothing shows that it is better than the original, {why}."
    if ends.reason == "no_budget":
        return f", is about as good: {why}. A larger budget tests it."
    return f": {why}."


def _baselines(context: SearchContext, rows: Sequence[EvaluatedRow]) -> Baselines:
    """Return what needs no model, on the rows of the sealed test that the winner answered."""
    examples = {row.id: row for row in context.splits.test}
    asked = [examples[row.example_id] for row in rows if row.example_id in examples]
    if len(asked) < len(rows):
        return NO_BASELINES
    return find_baselines(context.splits.train, asked, rows, context.metric)


def _warnings(result: Result, facts: RunFacts, sides: Mapping[str, Sequence[EvaluatedRow]]) -> list[Problem]:
    opened = _opened_before(result)
    # At the start a run can only guess how many new rows are needed.
    known = [one for one in facts.warnings if not (opened and one.code == "dataset.test-opened-often")]
    return [*known, *opened, *_failed(sides)]


def _opened_before(result: Result) -> list[Problem]:
    """Warn that earlier runs have opened rows of this test, and say how many new rows settle it."""
    splits = result.splits
    runs, rows = splits.test_opened, splits.test_rows_opened_before
    total = splits.sizes.get("test", 0)
    if runs < 2:
        return []
    some = "" if rows is None or rows == total else f" ({rows} of the {total} before this one)"
    said = (
        f"{counted(runs, 'run')} have opened these test rows so far{some}: each makes the score less reliable"
    )
    needed = max(FEWEST_NEW_ROWS, rows_to_show(result.fixed, result.broken, total) or total)
    fix = f"Label about {counted(needed, 'new row')} and give them as {{test}} to the next run."
    return [Problem("dataset.test-opened-before", said, fix=fix, settings={"test": "<FILE>"})]


def _failed(sides: Mapping[str, Sequence[EvaluatedRow]]) -> Iterator[Problem]:
    """Rows of the sealed test that got no answer, which leaves them out, or were refused; and why."""
    every = sorted(
        (row for side in sides.values() for row in side), key=lambda row: row.is_refused or row.is_withheld
    )
    rows = {row.example_id: row for row in every}  # a row of both is refused if it is so on either side
    unasked = {row.example_id for row in every if row.is_unasked}
    lost = {row.example_id: row for row in every if row.is_lost and row.example_id not in unasked}
    if unasked:
        asked = f"{len(rows) - len(unasked)} of {counted(len(rows), 'test row')}"
        said = f"the budget ended after {asked}, so the scores leave out the rest"
        if sides["other"] and not any(row.is_unasked for row in sides["other"]):
            said = f"the budget had {asked} for this prompt beside the two others, so the rest is left out"
        yield Problem("budget.test-rows-not-asked", said)
    if lost:
        yield Problem(
            "model.rows-failed",
            f"{len(lost)} of {counted(len(rows), 'test row')} failed, so the scores leave them out; "
            f"{first_error(lost.values())}",
            fix="Calls that are left cannot help: the sealed test asks each row once, with retries.",
        )
    yield from refusal_warnings([*rows.values()], "test rows")


def _verdict(compared: ComparedRows | None, *, is_perfect: bool, is_highest_better: bool | None) -> Verdict:
    if is_perfect:
        return "nothing_to_improve"
    if compared is None:
        return "untested"
    return "confirmed" if compared.is_better and is_highest_better else "not_confirmed"


def _tried(state: AutoPromptState, context: SearchContext) -> Tried:
    """Return how many candidates there were, and of which operators."""
    others = (entry for entry in context.pool.entries if entry is not context.pool.original)
    race_ids = context.plan.race_ids
    return Tried(
        tried=state["tried"],
        measured=sum(not entry.scores.keys().isdisjoint(race_ids) for entry in others),
        accepted=max(0, len(context.pool.accepted()) - 1),
        operators={name: OperatorCount(*found) for name, found in state["tally"].items()},
    )


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else 0.0


def _side(
    kind: type[AnySide],
    context: SearchContext,
    entry: Entry,
    rows: Sequence[EvaluatedRow],
    compared: ComparedRows | None,
    *,
    is_new: bool = True,
    **more: Any,
) -> AnySide:
    """Return a prompt and what the sealed test says of it; its score is None if the test was not opened.

    Args:
        is_new: Whether it is the new side of `compared`.
        more: Further fields of `kind`.
    """
    side = kind(cost=call_cost(context, entry), components=dict(entry.candidate.components), **more)
    if not rows or compared is None:
        return side
    scored = compared.new if is_new else compared.old
    return replace(
        side,
        score=scored.score,
        ci95=scored.interval,
        n=len(rows) - compared.left_out,
        groups=compared.groups,
        tokens_per_call=round(_mean([row.usage.total_tokens for row in rows if row.error is None]), 1),
        unparsed=sum(row.is_unread for row in rows),
        unscored=sum(row.is_unscored for row in rows),
        failed=sum(row.has_failed and not row.is_unasked for row in rows),
    )


def _validation(state: AutoPromptState, context: SearchContext, original: Entry, best: Entry) -> Validation:
    """Scores on validation: on the fresh rows if there are any, since the search did not choose by them."""
    found = state.get("confirmation") or None
    ends = state.get("ends") or {}
    if ends.get("cheapest"):
        found = ends["level"]["confirmation"]
    confirmation = None if found is None else validated(Confirmation, found)
    measure = name_of_means(context.metric)
    if confirmation is not None and confirmation.confirmed:
        is_fresh = confirmation.fresh.rows > 0
        part = confirmation.fresh if is_fresh else confirmation.raced
        return Validation(part.other_score, part.score, part.rows, not is_fresh, confirmation, measure)
    ids = context.plan.race_ids
    shared = [i for i in ids if i in original.scores and i in best.scores]
    score = original.mean(shared) if shared else None
    return Validation(
        score, score, len(shared), chose_the_winner=True, confirmation=confirmation, measure=measure
    )


def _sentence(result: Result) -> str:
    """Return the verdict in one sentence, for people."""
    best, original, validation = result.best, result.original, result.validation
    if result.verdict == "nothing_to_improve":
        tested = f"; on the sealed test it scores {original.score:.2f}" if original.score is not None else ""
        rows = f"{counted(validation.rows, 'validation row')}" if validation.rows else "train rows"
        return f"Your prompt already answers all {rows} correctly: nothing to improve{tested}."
    if best.is_original:
        tried = result.candidates.tried
        if not tried:
            return f"The run tried no other prompt ({_why_ended(result)}) and returns the original prompt."
        if not result.candidates.measured:
            return (
                f"The run could not measure any of {counted(tried, 'candidate')} ({_why_ended(result)}) and "
                "returns the original prompt."
            )
        return (
            f"None of {counted(tried, 'candidate')} was confirmed to be better than the original. The run "
            "returns the original prompt."
        )
    if result.verdict == "untested":
        has_test = result.splits.sizes.get("test", 0) > 0
        why = "The budget ended before the sealed test" if has_test else "There is no sealed test"
        measure = f" ({validation.measure})" if validation.measure else ""
        return (
            f"{validation.original:.2f} -> {validation.best:.2f}{measure} on "
            f"{_validation_rows(validation)}. "
            f"{why}, so nothing else is verified."
        )
    numbers = (
        f"{original.score:.2f} -> {best.score:.2f} on {counted(best.n, 'unseen row')}"
        f"{in_groups(best.groups, best.n)}, {p_text(result.p_value or 0.0)}; "
        f"{result.fixed} fixed, {result.broken} broken"
    )
    if best.tokens_per_call and original.tokens_per_call:
        numbers += f"; {best.tokens_per_call / original.tokens_per_call:.1f}x tokens per call"
    if result.verdict == "confirmed":
        return f"Confirmed: {numbers}."
    return f"Not confirmed by the sealed test: {numbers}.{_why_returned(result)}"


def _why_ended(result: Result) -> str:
    why = result.stop_reason
    if why == "max_calls" and result.calls_left:
        return f"the remaining {counted(result.calls_left, 'call')} are too few for a round"
    return why


def _validation_rows(validation: Validation) -> str:
    """Return which rows the scores before the test are of, and what part these had in the search."""
    rows, confirmation = validation.rows, validation.confirmation
    if validation.chose_the_winner or confirmation is None:
        return f"{counted(rows, 'validation row')} that also selected it"
    not_used_for = "selecting it" if confirmation.held_out_rows else "writing or selecting it"
    fresh = f"{counted(rows, 'row')}{confirmation.fresh_parts} not used for {not_used_for}"
    raced = confirmation.raced
    if rows >= FEWEST_FRESH or not raced.rows:
        return fresh
    return f"{fresh}, and {raced.other_score:.2f} -> {raced.score:.2f} on {raced.rows} that selected it"


def _why_returned(result: Result) -> str:
    """Return which prompt the run returns and why, if the sealed test does not confirm the gain."""
    returned = "The run returns the new prompt, which validation rows had confirmed."
    if result.is_lopsided:
        return (
            f" Far more rows failed for one prompt ({result.best.failed} for the new one, "
            f"{result.original.failed} for the original), so the other rows prove nothing. {returned}"
        )
    if result.p_value is not None and result.p_value < ALPHA:
        if result.gain is not None and result.gain.value < 0:
            return f" {returned} Keep your original."
        highest = (
            "The prompt with the highest score, which is tested first, did not beat the original there, so "
            "this does not count."
        )
        return f" {highest} {returned}"
    return f" {returned}"


# A result of 15 rounds, the most of a preset, has every text of up to 4,000 characters whole; one of 1,000
# rounds stays under a megabyte.
_CHARACTERS = 200_000  # of all texts together
_TEXT_CHARACTERS = 4_000  # of a prompt, and of suggestions
_CASES = 3
_CASE_CHARACTERS = 200  # of each text of a wrong row


def read_rounds(state: AutoPromptState, context: SearchContext, test_score: float | None) -> list[Round]:
    """Return the rounds in their order, the sealed test last if it was opened.

    They come from files and the checkpoint, so a resumed run has the same rounds.
    """
    history = state.get("history", [])
    room = _CHARACTERS // max(1, len(history))
    return [_round(entry, context, room, test_score) for entry in history]


def _round(entry: Mapping[str, Any], context: SearchContext, room: int, test_score: float | None) -> Round:
    is_test = entry["split"] == "test"
    rows = [] if is_test else [row for row in context.read_results(entry["results"]) if not row.is_lost]
    of_case = min(_CASE_CHARACTERS, room // (9 * _CASES))
    cases = [
        {"input": row.input, "prediction": row.prediction, "ground_truth": row.ground_truth}
        for row in spread([row for row in rows if not row.is_correct], _CASES)
    ]
    most = min(_TEXT_CHARACTERS, room // 3)
    prompt, suggestions = entry["prompt"], entry["suggestions"]
    return Round(
        iteration=entry["iteration"],
        split=entry["split"],
        candidate=entry["candidate"],
        prompt=_cut(prompt, most),
        demos=entry["demos"],
        error_count=entry["error_count"],
        total_count=entry["total_count"],
        error_cases=tuple({name: _cut(text, of_case) for name, text in case.items()} for case in cases),
        suggestions=_cut(suggestions, most),
        score=test_score if is_test else round(sum(r.score for r in rows) / len(rows), 6) if rows else None,
        validation=_final_mean(context, entry["candidate"]),
        cost=context.costs.of(context.pool[entry["candidate"]]),
        is_cut=len(prompt) > most or len(suggestions) > most,
        calls=entry["calls"],
        predictions=entry["results"]["path"],
    )


def _final_mean(context: SearchContext, candidate: str) -> float | None:
    """Return the mean by the run's end: the first round begins before the original has raced."""
    entry, ids = context.pool[candidate], context.plan.race_ids
    return round(entry.mean(ids), 6) if any(i in entry.scores for i in ids) else None


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"
