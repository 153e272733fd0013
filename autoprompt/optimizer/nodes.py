"""The six nodes: each reads the state, has the work done and returns its update. The graph orders them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, cast

from langgraph.runtime import Runtime

from autoprompt.errors import BudgetExhausted, EndpointError, Problem, RequestRefusedError
from autoprompt.measure.problems import answer_warnings
from autoprompt.measure.rows import EmptyAnswers
from autoprompt.measure.task import TOOL_KINDS
from autoprompt.memory import Lesson
from autoprompt.optimizer.agents.analyst import count_errors
from autoprompt.optimizer.context import FEWEST_TO_FAIL, AutoPromptState, SearchContext, is_slow_round
from autoprompt.optimizer.ending.choosing import choose_winner
from autoprompt.optimizer.ending.finish import finish
from autoprompt.optimizer.lessons import learn
from autoprompt.optimizer.propose.brief import Brief, filled_in
from autoprompt.optimizer.propose.drafts import propose
from autoprompt.optimizer.propose.steps import blame_of, open_components
from autoprompt.optimizer.round_race import not_simplified, race_round, simplify
from autoprompt.optimizer.search.plan import Depth, candidates_for, interleave
from autoprompt.optimizer.search.pool import Entry
from autoprompt.records import Candidate, EvaluatedRow, Evaluation, Example, warning_event
from autoprompt.runs.events import Analysis, CandidateRefused, NodeStarted
from autoprompt.runs.resuming import NO_ERRORS, stop_reason_of
from autoprompt.text.answers.reasoning import asks_to_reason

Update = AutoPromptState


def predict(state: AutoPromptState, runtime: Runtime[SearchContext]) -> Update:
    """Settle the last round's candidates (round 1: the original), then see where the best errs on train."""
    context, iteration = runtime.context, state["iteration"]
    _announce(context, "predict", iteration)
    update = _settle_pending(context, state)
    incumbent = context.pool[update["incumbent"]]
    plateau = update.get("plateau", state["plateau"])
    if not update.get("stop_reason") and _is_perfect(context, state, incumbent):
        update["stop_reason"] = NO_ERRORS
    if not update.get("stop_reason") and _has_searched_enough(context, state, incumbent, plateau):
        update["stop_reason"] = "patience"
    if (
        not update.get("stop_reason")
        and update["tried"]
        and not _candidates(context, state, is_before_look=True)
    ):
        update["stop_reason"] = "max_calls"  # without a race to come the look at train would be for nothing
    evaluation = Evaluation(incumbent.candidate.id, ())
    try:
        if not update.get("stop_reason"):
            evaluation = look_for_errors(context, incumbent, iteration)
    except BudgetExhausted as error:
        update["stop_reason"] = error.cap
    update["results"] = context.save_results(f"{iteration:02d}-train", evaluation)
    try:
        context.hold_final(incumbent.candidate)
    except BudgetExhausted as error:  # the best has grown too long for what is left: no further round
        update["stop_reason"] = update.get("stop_reason") or error.cap
    return _checkpoint(context, state, update)


def analyze(state: AutoPromptState, runtime: Runtime[SearchContext]) -> Update:
    """Ask what the errors share. The rows come from the file that `results` names."""
    context, iteration = runtime.context, state["iteration"]
    _announce(context, "analyze", iteration)
    incumbent = context.pool[state["incumbent"]]
    rows = [row for row in context.read_results(state["results"]) if not row.is_lost]
    update: Update = {}
    analysis = count_errors(rows)
    if not rows:  # nothing could be looked at, so nothing says that it is perfect
        analysis["has_errors"] = True
    try:
        if not state.get("stop_reason"):  # after it, a call would be paid out of the final test's
            with context.budget.block(context.analysis.most_calls):
                analysis = _analysis(context, incumbent, rows, iteration)
    except BudgetExhausted as error:
        update["stop_reason"] = error.cap
    except (EndpointError, RequestRefusedError) as error:
        if getattr(error, "is_fatal", False):
            raise
        # The writer can do without; a search by demonstrations needs no analyst at all.
        said = f"no analysis in round {iteration}: {str(error).rstrip('.')}"
        context.emit(warning_event(Problem("model.no-analysis", said)))
    if not context.settings.answers_rows:
        votes = {name: len(rules) for name, rules in analysis.get("rules", {}).items()}
        tools = {c.name: c.tool for c in context.settings.components.values() if c.kind in TOOL_KINDS}
        analysis["blame"] = blame_of(rows, open_components(context), votes, tools)
    errs_in_race = any(incumbent.scores.get(i, 1.0) < 1.0 for i in context.plan.race_ids)
    analysis["has_errors"] = analysis["has_errors"] or errs_in_race
    update["analysis"] = analysis
    entry = _history_entry(context, state["iteration"], incumbent, analysis, state["results"])
    update["history"] = [*state.get("history", []), entry]
    context.emit(
        Analysis(
            **{name: analysis[name] for name in ("error_count", "total_count", "suggestions")},
            **{name: entry[name] for name in ("iteration", "candidate", "calls")},
            blame=analysis.get("blame"),
            predictions=entry["results"]["path"],
        ).to_dict()
    )
    return _checkpoint(context, state, update)


def rewrite(state: AutoPromptState, runtime: Runtime[SearchContext]) -> Update:
    """Propose the next round's candidates from the best so far, the analysis and the experiences."""
    context, iteration = runtime.context, state["iteration"]
    _announce(context, "rewrite", iteration)
    if state.get("stop_reason") or not state["analysis"]["has_errors"]:
        return _checkpoint(context, state, {"pending": []})
    number = _candidates(context, state)
    if number == 0:
        return _checkpoint(context, state, {"pending": [], "stop_reason": "max_calls"})
    brief = Brief(
        iteration=iteration,
        incumbent=state["incumbent"],
        number=number,
        analysis=state["analysis"],
        experiences=tuple(map(Lesson.from_dict, state.get("memory_experiences", ()))),
        tally=state["tally"],
        looked=context.read_results(state["results"]),
        helped=state.get("helped", []),
        seen=_seen(context, state),
    )
    try:
        candidates = propose(context, brief)
    except BudgetExhausted as error:
        return _checkpoint(context, state, {"pending": [], "stop_reason": error.cap})
    except (EndpointError, RequestRefusedError) as error:
        if getattr(error, "is_fatal", False) or not state["tried"]:
            raise  # a run that never had a candidate has found nothing out
        said = f"no proposals in round {iteration}, so the search ends: {str(error).rstrip('.')}"
        context.emit(warning_event(Problem("model.no-proposals", said)))
        return _checkpoint(context, state, {"pending": [], "stop_reason": "writer_failed"})
    update: Update = {}
    candidates, cap = _affordable(context, context.pool[state["incumbent"]], candidates)
    if cap and not candidates:
        update["stop_reason"] = cap
    for candidate in candidates:
        context.add(candidate)
    update["pending"] = [c.id for c in candidates]
    if not candidates:
        update["plateau"] = state["plateau"] + 1
    return _checkpoint(context, state, update)


def memory(state: AutoPromptState, runtime: Runtime[SearchContext]) -> Update:
    """Distil lessons from the candidates that were settled in this round. Round 1 has none."""
    context, iteration = runtime.context, state["iteration"]
    _announce(context, "memory", iteration)
    update: Update = {"previous_prompt": context.pool[state["incumbent"]].candidate.prompt}
    update["memory_experiences"], update["helped"] = learn(
        context,
        state.get("settled", []),
        iteration,
        state.get("memory_experiences", []),
        state.get("helped", []),
    )
    return _checkpoint(context, state, update)


def increment_iteration(state: AutoPromptState) -> Update:
    return {"iteration": state["iteration"] + 1}


def final_predict(state: AutoPromptState, runtime: Runtime[SearchContext]) -> Update:
    """Settle the last candidates, confirm the winner on fresh rows, then open the sealed test once."""
    context = runtime.context
    _announce(context, "final_predict", state["iteration"])
    update = _settle_pending(context, state)
    update["memory_experiences"], update["helped"] = learn(
        context,
        update["settled"],
        state["iteration"] + 1,
        state.get("memory_experiences", []),
        state.get("helped", []),
    )
    original, best = context.pool.original, context.pool[update["incumbent"]]
    is_confirmed = bool(state.get("confirmation"))  # the run continues to test its cheaper end
    too_small = ""
    if best is not original and not is_confirmed:
        with suppress(BudgetExhausted):
            context.hold_confirmation(best.candidate)
        raced, too_small = simplify(context, best)
        update["tried"] += len(raced)
    with suppress(BudgetExhausted):
        context.hold_final(best.candidate, is_simplified=True)
    winner = best
    if not is_confirmed:
        winner = best if best is original else choose_winner(context, state, best)
        update["instead_of"] = "" if winner is best else best.candidate.id
    returned = finish(context, state, winner, update)
    if too_small:
        stop_reason = stop_reason_of({**state, **update})
        context.emit(warning_event(not_simplified(too_small, stop_reason, update["ends"]["reason"])))
    update["incumbent"] = returned.candidate.id
    update["current_prompt"] = returned.candidate.prompt
    if "best" in update["test"]:
        _note_test(context, state, returned, update)
    # Each answer says more of what calls cost: at the end all candidates are written with the same rates.
    context.changed.update(entry.candidate.id for entry in context.pool.entries)
    return _checkpoint(context, state, update)


def _analysis(
    context: SearchContext, incumbent: Entry, rows: list[EvaluatedRow], iteration: int
) -> dict[str, Any]:
    seed = context.seed("analyze", iteration)
    if context.settings.answers_rows:
        prompt = incumbent.candidate.prompt
        return context.analysis.analyze(prompt, rows, filled=filled_in(context, prompt), seed=seed)
    return context.analysis.analyze_steps(
        " ".join(context.settings.task.split()), incumbent.candidate.components, rows, seed=seed
    )


def _seen(context: SearchContext, state: AutoPromptState) -> list[EvaluatedRow]:
    """See `Brief.seen`."""
    history = state["history"]
    if context.settings.answers_rows:
        is_reasoned = asks_to_reason(context.pool[state["incumbent"]].candidate.prompt)
        if context.settings.labels and not is_reasoned:
            return []
        history = [entry for entry in history if asks_to_reason(entry["prompt"]) == is_reasoned]
    rounds = [context.read_results(entry["results"]) for entry in history]
    return [row for rows in rounds for row in rows if not row.is_lost]


def _has_searched_enough(
    context: SearchContext, state: AutoPromptState, incumbent: Entry, plateau: int
) -> bool:
    """By the rounds in a row without a gain; of slow ones, by all that began with a prompt that reasons."""
    if is_slow_round(context, incumbent):
        plateau = sum(asks_to_reason(entry["prompt"]) for entry in state.get("history", []))
    return plateau >= _depth(context, incumbent).patience


def _is_perfect(context: SearchContext, state: AutoPromptState, incumbent: Entry) -> bool:
    """Return whether nothing is left to win.

    No candidate can beat one that is right on every row of the race. And a round that began without a wrong
    row of train had nothing to go by: it was the last one.
    """
    ids = context.plan.race_ids
    has_won = bool(ids) and all(incumbent.scores.get(i, 0.0) >= 1.0 for i in ids)
    return has_won or any(
        entry["total_count"] and not entry["error_count"] for entry in state.get("history", [])
    )


def _depth(context: SearchContext, incumbent: Entry) -> Depth:
    depth = context.settings.depth
    return depth.slow if is_slow_round(context, incumbent) else depth


def _candidates(context: SearchContext, state: AutoPromptState, *, is_before_look: bool = False) -> int:
    """Return how many candidates the round can race; 0 where not even two fit into what is left.

    is_before_look: what is left must pay for the round's look at train, too.
    """
    budget = context.budget
    number = _candidates_for(context, state, budget.calls_left(), is_before_look)
    if number < _candidates_for(context, state, budget.own_calls_left(), is_before_look):
        budget.note_cut("max_calls")
    return number


def candidates_left(context: SearchContext, state: Mapping[str, Any]) -> int:
    """Return how many candidates a further round of a finished search could race."""
    ahead = cast("AutoPromptState", {**state, "iteration": state["iteration"] + 1})
    return _candidates_for(context, ahead, context.budget.calls_left(), is_before_look=True)


def _candidates_for(
    context: SearchContext, state: AutoPromptState, calls_left: int | None, is_before_look: bool
) -> int:
    plan, look = context.plan, context.plan.calls(context.plan.train_batch)
    look += context.analysis.most_calls
    remaining = math.inf if calls_left is None else calls_left
    return candidates_for(
        remaining - look if is_before_look else remaining,
        context.settings.max_iterations - state["iteration"] + 1,
        _depth(context, context.pool[state["incumbent"]]).candidates,
        plan,
        look=look,
        writers=context.settings.depth.writers,
    )


def _affordable(
    context: SearchContext, incumbent: Entry, candidates: list[Candidate]
) -> tuple[list[Candidate], str]:
    """Return the candidates that can be paid for with race and final test, and the cap that others exceed."""
    kept, cap = list(candidates), ""
    while True:
        try:
            context.hold_final(incumbent.candidate, *kept)
            context.check_race([incumbent.candidate, *kept])
        except BudgetExhausted as error:
            cap = error.cap
            if not kept:
                return kept, cap
            longest = max(kept, key=context.grown)
            kept.remove(longest)
            reason = f"the rest of {cap} is too small for its race and its final test"
            context.emit(CandidateRefused(longest.operator, reason, longest.id).to_dict())
        else:
            return kept, cap


def _settle_pending(context: SearchContext, state: AutoPromptState) -> Update:
    pending = list(state.get("pending", []))
    update: Update = {
        "pending": [],
        "settled": pending,
        "incumbent": state["incumbent"],
        "tried": state["tried"] + len(pending),
    }
    if not pending:
        return update
    settled = race_round(context, state["incumbent"], pending, state["tally"])
    update["settled"] = settled.entrants
    update["incumbent"] = settled.incumbent
    update["current_prompt"] = context.pool[settled.incumbent].candidate.prompt
    update["tally"] = settled.tally
    update["plateau"] = 0 if settled.is_better else state["plateau"] + 1
    if settled.stop_reason:
        update["stop_reason"] = settled.stop_reason
    return update


def _note_test(context: SearchContext, state: AutoPromptState, winner: Entry, update: Update) -> None:
    """Note the sealed test in the analysis and history, in numbers alone: its rows are for no writer."""
    results = update["test"]["best"]
    rows = [row for row in context.read_results(results) if not row.is_lost]
    analysis = update["analysis"] = {**count_errors(rows), "feedback": []}
    entry = _history_entry(context, state["iteration"], winner, analysis, results, split="test")
    update["history"] = [*state.get("history", []), entry]


def _history_entry(
    context: SearchContext,
    iteration: int,
    incumbent: Entry,
    analysis: dict[str, Any],
    results: dict[str, Any],
    split: str = "train",
) -> dict[str, Any]:
    ids = context.plan.race_ids
    return {
        "iteration": iteration,
        "split": split,
        "prompt": incumbent.candidate.prompt,
        "candidate": incumbent.candidate.id,
        "demos": len(incumbent.candidate.demos),
        "error_count": analysis["error_count"],
        "total_count": analysis["total_count"],
        "suggestions": analysis["suggestions"],
        "validation": round(incumbent.mean(ids), 6) if any(i in incumbent.scores for i in ids) else None,
        "results": results,
        "calls": context.budget.spent.calls,
    }


def _announce(context: SearchContext, node: str, iteration: int) -> None:
    context.emit(NodeStarted(node, iteration).to_dict())


def _checkpoint(context: SearchContext, state: AutoPromptState, update: Update) -> Update:
    """Return the update with the marks that a resumed run needs.

    How far pool, journal and budget had come.
    """
    step = state["pool_step"] + 1
    # In the pool's own order: a set has another order in every process.
    changed = [e.candidate.id for e in context.pool.entries if e.candidate.id in context.changed]
    context.changed.clear()
    costs = {i: context.costs.of(context.pool[i]).to_dict() for i in changed}
    records = [{**r, "cost": costs[r["id"]], "step": step} for r in context.pool.to_records(changed)]
    context.files.append_candidates(records)
    update["pool_step"] = step
    update["journal_position"] = context.journal_position()
    grades = context.grades
    if (warning := grades.warning) is not None and not state.get("grades", {}).get("unscored"):
        context.emit(warning_event(warning))
    update["grades"] = grades.to_dict()
    update["spent"] = context.budget.spent.to_dict()
    update["held"] = context.budget.held
    update["cut_by"] = sorted({*state.get("cut_by", []), *context.budget.cut_by})
    return update


MOST_BATCHES = 4  # of train that a round looks through for an error before it calls the prompt perfect


def look_for_errors(context: SearchContext, incumbent: Entry, iteration: int) -> Evaluation:
    """Evaluate the best so far on a batch of train that is new to the last rounds; more if none is wrong."""
    shown = {demo.example_id for demo in incumbent.candidate.demos}  # it would only repeat their answers
    train = interleave([row for row in context.splits.train if row.id not in shown])
    size = context.plan.train_batch
    rows: list[Example] = []
    evaluation = Evaluation(incumbent.candidate.id, ())
    for number in range(MOST_BATCHES):
        start = ((iteration - 1) + number * context.settings.max_iterations) * size
        batch = [train[(start + i) % len(train)] for i in range(min(size, len(train)))] if train else []
        batch = [row for row in batch if row not in rows] or [row for row in train if row not in rows][:size]
        if not batch:
            break
        rows += batch
        with context.budget.block(context.plan.calls(len(batch))):
            is_first = number == 0 and iteration == 1
            answers = EmptyAnswers() if is_first else None
            tally = context.tally("train rows of the best", len(batch), answers)
            (found,) = context.ask([(incumbent.candidate, batch)], on_row=tally.add)
            if answers is not None:
                answers.check(FEWEST_TO_FAIL)
                _warn_of_answers(context, found)
                if context.settings.answers_rows:  # a program may ask several models
                    context.learned.learn_speed("task", (row.usage for row in found.rows))
        evaluation = Evaluation(evaluation.candidate_id, evaluation.rows + found.rows)
        if _has_errors(evaluation):
            break
    if not _has_errors(evaluation):
        # Nothing wrong on train: whether it is perfect is for the rows that decide to say.
        context.evaluate([incumbent], context.plan.race, "race rows of the best")
    return evaluation


def _has_errors(evaluation: Evaluation) -> bool:
    return any(row.is_wrong for row in evaluation.rows)


def _warn_of_answers(context: SearchContext, found: Evaluation) -> None:
    """Emit warnings of the original's answers, which are the first of the run."""
    settings = context.settings
    labels = settings.labels if settings.answers_rows else ()
    for warning in answer_warnings(found.rows, context.metric, labels, settings.constrain):
        context.emit(warning_event(warning, about="answers"))
