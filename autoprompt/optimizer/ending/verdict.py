"""What a run found, as numbers: best against original, with intervals, the paired test and what it cost."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from autoprompt.errors import Problem
from autoprompt.llm.limits.amounts import Spent
from autoprompt.llm.prices import WARM
from autoprompt.measure.baselines import Baseline, baselines_dict, find_baselines, with_baselines
from autoprompt.measure.compare import ALPHA, ComparedRows, compare_rows
from autoprompt.measure.problems import first_error, refusal_warnings
from autoprompt.metrics import name_of_means
from autoprompt.optimizer.agents.analyst import spread
from autoprompt.optimizer.context import AutoPromptState, SearchContext
from autoprompt.optimizer.ending.choosing import trade_off
from autoprompt.optimizer.ending.finish import call_cost
from autoprompt.optimizer.result import RunResult, Verdict
from autoprompt.optimizer.search.plan import FEWEST_FRESH
from autoprompt.optimizer.search.pool import Entry
from autoprompt.records import EvaluatedRow
from autoprompt.runs import SCHEMA_VERSION
from autoprompt.runs.listing import FEWEST_NEW_ROWS
from autoprompt.runs.result import CallCost, Round, parts_of
from autoprompt.stats import in_groups, p_text, rows_to_show
from autoprompt.text.names import counted


@dataclass(frozen=True, slots=True)
class RunFacts:
    """What the result repeats of the run's settings.

    split_groups: of each part in which rows belong together, how many groups there are.
    test_opened: runs that have opened rows of this test, this one included. test_rows_opened_before: how many
        of the rows earlier ones had opened; None where that is not known.
    lost_answers: of the roles of which half of the answers were cut or empty, see `RoleTally.to_dict`.
    models: what was asked for and which models answered, by role, see `Answered.to_dict`.
    concurrency: see `RoleModels.settled_on`.
    """

    run_id: str
    run_dir: str
    metric: str
    model: str
    optimizer_model: str
    split_sizes: Mapping[str, int]
    split_groups: Mapping[str, int]
    split_seed: int
    sha256: Mapping[str, str]
    test_opened: int
    test_rows_opened_before: int | None
    lost_answers: Mapping[str, Mapping[str, Any]]
    models: Mapping[str, Mapping[str, Any]]
    concurrency: int | None
    warnings: Sequence[Problem]


def make_result(state: AutoPromptState, context: SearchContext, facts: RunFacts, spent: Spent) -> RunResult:
    original, best = context.pool.original, context.pool[state["incumbent"]]
    instead_of = state.get("instead_of", "")
    leader = context.pool[instead_of] if instead_of else None
    test = state.get("test") or {}
    names = ("best", "original", "other")
    sides = {name: context.read_results(test[name]) if name in test else [] for name in names}
    compared = compare_rows(sides["best"], sides["original"], context.metric)
    ends = ends_of(state, context, sides, compared)
    other = context.pool[ends["other"]["id"]] if ends["other"] else None
    data: dict[str, Any] = {
        "schema_version": SCHEMA_VERSION,
        "run_id": facts.run_id,
        "run_dir": facts.run_dir,
        "status": "finished",
        "stop_reason": state.get("stop_reason") or _natural_end(state),
        "cut_by": state.get("cut_by", []),
        "verdict": _verdict(
            compared,
            is_perfect=best is original and not state["tried"] and _has_no_errors(state),
            is_highest_better=ends["is_highest_better"],
        ),
        "message": "",
        "metric": facts.metric,
        "original": {
            **_side(sides["original"], compared, is_new=False),
            "cost": asdict(call_cost(context, original)),
            "components": dict(original.candidate.components),
        },
        "best": {
            **_side(sides["best"], compared, is_new=True),
            "cost": asdict(call_cost(context, best)),
            "id": best.candidate.id,
            "is_original": best is original,
            "instead_of": instead_of or None,
            "components": dict(best.candidate.components),
            "demos": [demo.to_dict() for demo in best.candidate.demos],
        },
        "ends": ends,
        "trade_off": trade_off(context, best, other, leader),
        **_proof(compared),
        "baselines": baselines_dict(_baselines(context, sides["best"])),
        "validation": _validation(state, context, original, best),
        **_use(spent),
        "calls_left": context.budget.calls_left(),
        "seconds": round(spent.seconds, 3),
        "concurrency": facts.concurrency,
        "splits": _splits(facts),
        "candidates": _tried(state, context),
        "iterations": state["iteration"],
        "history": [],
        "model": facts.model,
        "optimizer_model": facts.optimizer_model,
        "models": dict(facts.models),
        "lost_answers": dict(facts.lost_answers),
        "warnings": [],
    }
    data["warnings"] = [one.to_dict() for one in _warnings(data, facts, sides)]
    data["history"] = [one.to_dict() for one in read_rounds(state, context, data["best"]["score"])]
    data["message"] = with_baselines(
        _sentence(data), data["baselines"], data["best"]["score"], data["metric"]
    )
    data["ends"]["lines"] = [] if best is original else end_lines(data)
    return RunResult(data, best.candidate, original.candidate)


def ends_of(
    state: AutoPromptState,
    context: SearchContext,
    sides: Mapping[str, Sequence[EvaluatedRow]],
    compared: ComparedRows | None,
) -> dict[str, Any]:
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
        other = {
            **_side(rows, of_highest, is_new=True),
            "p_value": None if of_highest is None else of_highest.p_value,
            "gain": None if of_highest is None else of_highest.to_dict()["gain"],
            "id": entry.candidate.id,
            "cost": asdict(call_cost(context, entry)),
            "components": dict(entry.candidate.components),
            "demos": [demo.to_dict() for demo in entry.candidate.demos],
        }
    return {
        "pick": context.settings.pick,
        "traffic": context.settings.traffic.calls_per_hour if context.settings.traffic != WARM else None,
        "returned": "cheapest" if other else "highest",
        "reason": ends.get("reason", "none"),
        "level": ends.get("level") or None,
        "other": other,
        "difference": None
        if apart is None
        else {
            "value": apart.gain,
            "ci95": list(apart.gain_interval),
            "rows": len(rows) - apart.left_out,
        },
        "is_highest_better": None if of_highest is None else of_highest.is_better,
    }


_UNITS: dict[str, str] = {"usd": "cost", "seconds": "take", "tokens": "take"}


def end_lines(data: Mapping[str, Any]) -> list[str]:
    """Return the last lines of a run: what was passed over, and what each end costs."""
    ends, best = data["ends"], data["best"]
    other, level = ends["other"], ends["level"]
    costs = {"this prompt": best["cost"], "the original": data["original"]["cost"]}
    lines = []
    if other is not None:
        costs["the highest score"] = other["cost"]
        score = "" if other["score"] is None else f" with {other['score']:.2f}"
        lines.append(
            "This is the cheapest prompt that is about as good as the one with the highest score. Passed "
            f"over: {other['id'][:6]}{score}. Take it with `autoprompt runs export RUN:{other['id'][:6]}`."
        )
        if (apart := ends["difference"]) is not None:
            low, high = apart["ci95"]
            lines.append(
                f"This prompt minus the highest score: {apart['value']:+.2f} on "
                f"{counted(apart['rows'], 'unseen row')} (95% interval {low:+.2f} to {high:+.2f})."
            )
    elif ends["reason"] == "no_budget":
        said = "Passed over: a cheaper prompt that is about as good in the race."
        lines.append(f"{said} A larger budget tests it.")
    elif level:
        candidate = level["confirmation"]["candidate"][:6]
        why = (
            f"{level['score']:.2f} against {level['highest_score']:.2f} on "
            f"{counted(level['rows'], 'raced and fresh row')}"
        )
        if ends["reason"] == "not_confirmed":
            why = f"nothing shows that it is better than the original, {why}"
        lines.append(f"Passed over: a cheaper prompt, {candidate}: {why}.")
    unit = best["cost"]["unit"]
    parts = [f"{CallCost(**cost).both} with {name}" for name, cost in costs.items()]
    price = "" if unit != "tokens" else " For dollars, set price_input and price_output."
    lines.append(f"1,000 calls {_UNITS[unit]} {'; '.join(parts)}.{price}")
    return lines


def _baselines(context: SearchContext, rows: Sequence[EvaluatedRow]) -> tuple[Baseline, ...]:
    """Return what needs no model, on the rows of the sealed test that the winner answered."""
    examples = {row.id: row for row in context.splits.test}
    asked = [examples[row.example_id] for row in rows if row.example_id in examples]
    if len(asked) < len(rows):
        return ()
    return find_baselines(context.splits.train, asked, rows, context.metric)


def _warnings(
    data: Mapping[str, Any], facts: RunFacts, sides: Mapping[str, Sequence[EvaluatedRow]]
) -> list[Problem]:
    opened = _opened_before(data)
    # At the start a run can only guess how many new rows are needed.
    known = [one for one in facts.warnings if not (opened and one.code == "dataset.test-opened-often")]
    return [*known, *opened, *_failed(sides)]


def _opened_before(data: Mapping[str, Any]) -> list[Problem]:
    """Warn that earlier runs have opened rows of this test, and say how many new rows settle it."""
    splits = data["splits"]
    runs, rows = splits["test_opened"], splits["test_rows_opened_before"]
    total = splits["sizes"].get("test", 0)
    if runs < 2:
        return []
    some = "" if rows is None or rows == total else f" ({rows} of the {total} before this one)"
    said = (
        f"{counted(runs, 'run')} have opened these test rows so far{some}: each makes the score less reliable"
    )
    needed = max(FEWEST_NEW_ROWS, rows_to_show(data["fixed"], data["broken"], total) or total)
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
        yield Problem(
            "budget.test-rows-not-asked",
            f"the budget ended after {len(rows) - len(unasked)} of {counted(len(rows), 'test row')}, so the "
            "scores leave out the rest",
        )
    if lost:
        yield Problem(
            "model.rows-failed",
            f"{len(lost)} of {counted(len(rows), 'test row')} failed, so the scores leave them out; "
            f"{first_error(lost.values())}",
            fix="Calls that are left cannot help: the sealed test asks each row once, with retries.",
        )
    yield from refusal_warnings([*rows.values()], "test rows")


def _has_no_errors(state: AutoPromptState) -> bool:
    return (state.get("stop_reason") or _natural_end(state)) == "no_errors"


def _verdict(compared: ComparedRows | None, *, is_perfect: bool, is_highest_better: bool | None) -> Verdict:
    if is_perfect:
        return "nothing_to_improve"
    if compared is None:
        return "untested"
    return "confirmed" if compared.is_better and is_highest_better else "not_confirmed"


def _proof(compared: ComparedRows | None) -> dict[str, Any]:
    """Return what the sealed test says of the difference."""
    if compared is None:
        return {
            "gain": None,
            "p_value": None,
            "fixed": 0,
            "broken": 0,
            "left_out": 0,
            "is_lopsided": False,
        }
    return compared.to_dict()


def _use(spent: Spent) -> dict[str, Any]:
    """Return what the whole run took."""
    tokens = {"task": spent.task.total_tokens, "optimizer": spent.optimizer.total_tokens}
    if spent.judge_calls:
        tokens["judge"] = spent.judge.total_tokens
    return {
        "calls": spent.calls,
        "repeated_calls": spent.repeats,
        "tokens": tokens,
        "cost_usd": spent.cost_usd,
        "spending": spent.by_role(),
    }


def _splits(facts: RunFacts) -> dict[str, Any]:
    return {
        "sizes": dict(facts.split_sizes),
        "groups": dict(facts.split_groups),
        "split_seed": facts.split_seed,
        "sha256": dict(facts.sha256),
        "test_opened": facts.test_opened,
        "test_rows_opened_before": facts.test_rows_opened_before,
    }


def _tried(state: AutoPromptState, context: SearchContext) -> dict[str, Any]:
    """Return how many candidates there were, and of which operators."""
    others = (entry for entry in context.pool.entries if entry is not context.pool.original)
    race_ids = context.plan.race_ids
    return {
        "tried": state["tried"],
        "measured": sum(not entry.scores.keys().isdisjoint(race_ids) for entry in others),
        "accepted": max(0, len(context.pool.accepted()) - 1),
        "operators": {k: {"tried": v[0], "accepted": v[1]} for k, v in state["tally"].items()},
    }


def _natural_end(state: AutoPromptState) -> str:
    return "max_iterations" if state["iteration"] >= state["max_iterations"] else "no_errors"


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else 0.0


def _side(rows: Sequence[EvaluatedRow], compared: ComparedRows | None, *, is_new: bool) -> dict[str, Any]:
    """Return one side of the comparison on the sealed test; without one its score is None."""
    if not rows or compared is None:
        missing = {"unparsed": 0, "unscored": 0, "failed": 0}
        return {"score": None, "ci95": None, "n": 0, "groups": 0, "tokens_per_call": None, **missing}
    scored = compared.new if is_new else compared.old
    answered = [r for r in rows if r.error is None]
    return {
        "score": scored.score,
        "ci95": list(scored.interval),
        "n": len(rows) - compared.left_out,
        "groups": compared.groups,
        "tokens_per_call": round(_mean([r.usage.total_tokens for r in answered]), 1),
        "unparsed": sum(r.is_unread for r in rows),
        "unscored": sum(r.is_unscored for r in rows),
        "failed": sum(r.has_failed and not r.is_unasked for r in rows),
    }


def _validation(
    state: AutoPromptState, context: SearchContext, original: Entry, best: Entry
) -> dict[str, Any]:
    """Scores on validation: on the fresh rows if there are any, since the search did not choose by them."""
    confirmation = state.get("confirmation") or None
    ends = state.get("ends") or {}
    if ends.get("cheapest"):
        confirmation = ends["level"]["confirmation"]
    measure = name_of_means(context.metric)
    if confirmation and confirmation["confirmed"]:
        is_fresh = confirmation["fresh"]["rows"] > 0
        part = confirmation["fresh" if is_fresh else "raced"]
        return {
            "original": part["other_score"],
            "best": part["score"],
            "rows": part["rows"],
            "chose_the_winner": not is_fresh,
            "measure": measure,
            "confirmation": confirmation,
        }
    ids = context.plan.race_ids
    shared = [i for i in ids if i in original.scores and i in best.scores]
    score = original.mean(shared) if shared else None
    return {
        "original": score,
        "best": score,
        "rows": len(shared),
        "chose_the_winner": True,
        "measure": measure,
        "confirmation": confirmation,
    }


def _sentence(data: Mapping[str, Any]) -> str:
    """Return the verdict in one sentence, for people."""
    best, original, validation = data["best"], data["original"], data["validation"]
    if data["verdict"] == "nothing_to_improve":
        tested = f"; on the sealed test it scores {original['score']:.2f}" if original["n"] else ""
        rows = f"{counted(validation['rows'], 'validation row')}" if validation["rows"] else "train rows"
        return f"Your prompt already answers all {rows} correctly: nothing to improve{tested}."
    if best["is_original"]:
        tried = data["candidates"]["tried"]
        if not tried:
            return f"The run tried no other prompt ({_why_ended(data)}) and returns the original prompt."
        if not data["candidates"]["measured"]:
            return (
                f"The run could not measure any of {counted(tried, 'candidate')} ({_why_ended(data)}) and "
                "returns the original prompt."
            )
        return (
            f"None of {counted(tried, 'candidate')} was confirmed to be better than the original. The run "
            "returns the original prompt."
        )
    if data["verdict"] == "untested":
        has_test = data["splits"]["sizes"].get("test", 0) > 0
        why = "The budget ended before the sealed test" if has_test else "There is no sealed test"
        measure = f" ({validation['measure']})" if validation["measure"] else ""
        return (
            f"{validation['original']:.2f} -> {validation['best']:.2f}{measure} on "
            f"{_validation_rows(validation)}. "
            f"{why}, so nothing else is verified."
        )
    numbers = (
        f"{original['score']:.2f} -> {best['score']:.2f} on {counted(best['n'], 'unseen row')}"
        f"{in_groups(best['groups'], best['n'])}, {p_text(data['p_value'])}; "
        f"{data['fixed']} fixed, {data['broken']} broken"
    )
    if best["tokens_per_call"] and original["tokens_per_call"]:
        numbers += f"; {best['tokens_per_call'] / original['tokens_per_call']:.1f}x tokens per call"
    lead = "Confirmed" if data["verdict"] == "confirmed" else "Not confirmed by the sealed test"
    return f"{lead}: {numbers}.{'' if data['verdict'] == 'confirmed' else _why_returned(data)}"


def _why_ended(data: Mapping[str, Any]) -> str:
    why = str(data["stop_reason"])
    if why == "max_calls" and data["calls_left"]:
        return f"the remaining {counted(data['calls_left'], 'call')} are too few for a round"
    return why


def _validation_rows(validation: Mapping[str, Any]) -> str:
    """Return which rows the scores before the test are of, and what part these had in the search."""
    rows = validation["rows"]
    if validation["chose_the_winner"]:
        return f"{counted(rows, 'validation row')} that also selected it"
    confirmation = validation["confirmation"]
    not_used_for = "selecting it" if confirmation.get("held_out_rows") else "writing or selecting it"
    train, held_out = (confirmation.get(name) or 0 for name in ("train_rows", "held_out_rows"))
    parts = parts_of(confirmation["fresh"]["rows"], train, held_out)
    fresh = f"{counted(rows, 'row')}{parts} not used for {not_used_for}"
    raced = confirmation["raced"]
    if rows >= FEWEST_FRESH or not raced["rows"]:
        return fresh
    return (
        f"{fresh}, and {raced['other_score']:.2f} -> {raced['score']:.2f} on {raced['rows']} that selected it"
    )


def _why_returned(data: Mapping[str, Any]) -> str:
    """Return which prompt the run returns and why, if the sealed test does not confirm the gain."""
    returned = "The run returns the new prompt, which validation rows had confirmed."
    if data["is_lopsided"]:
        return (
            f" Far more rows failed for one prompt ({data['best']['failed']} for the new one, "
            f"{data['original']['failed']} for the original), so the other rows prove nothing. {returned}"
        )
    if data["p_value"] < ALPHA:
        if data["gain"]["value"] < 0:
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
