"""The verdict of a run in one sentence, what that sentence means, and the sentences of a search's events."""

from __future__ import annotations

from autoprompt.errors import Problem, Voice, tell
from autoprompt.llm.prices import Cost
from autoprompt.optimizer.search.gate import CONFIRM_ALPHA, smallest_gain
from autoprompt.report.numbers import count, p_value, ratio, score, times
from autoprompt.report.records import Progress
from autoprompt.runs.events import (
    Analysis,
    AnyEvent,
    BestChanged,
    CandidateProposed,
    CandidateRefused,
    CandidateSettled,
    Experiment,
    Lesson,
    PickChosen,
    RunFinished,
    RungEnded,
    RunStarted,
    WinnerChosen,
)
from autoprompt.runs.result import Baselines, Comparison, Confirmation, Result, Round, Side, TradeOff
from autoprompt.stats import difference, in_groups, p_text
from autoprompt.text.names import CAPS, counted

PHASES = {
    "predict": "measuring candidates",
    "analyze": "reading the errors",
    "rewrite": "writing candidates",
    "memory": "noting what was learned",
    "increment_iteration": "next round",
    "final_predict": "last race, confirmation, sealed test",
}

_ENDS = {
    "no_errors": "because the best prompt has no wrong training row left",
    "patience": "because its last rounds found nothing better",
    "max_iterations": "with its last planned round",
    "writer_failed": "because the writer failed",
}


def ended(reason: str) -> str:
    """Return why the search ended, for its `stop_reason`: "ended at the cap on tokens"."""
    return f"ended {_ENDS.get(reason) or f'at {CAPS.get(reason, reason)}'}"


def headline(result: Result, mark: str = "") -> str:
    """`0.57 → 0.87 on 60 unseen rows, p = 0.00004; 19 fixed, 1 broken; 2.1× tokens per call`.

    Without a sealed test, or where the original stays the best, the result's own sentence.

    mark: The verdict in a word, to stand before the numbers.
    """
    from autoprompt.measure.baselines import baselines_sentence, with_baselines  # not to list runs

    original, best = result.original, result.best
    found = result.baselines
    lead = f"{mark}: " if mark else ""
    if result.verdict == "untested" or result.best.is_original or best.score is None:
        level = baselines_sentence(found, best.score, result.metric)
        said = result.message.removeprefix(level).removesuffix(level).strip().replace("->", "→")
        return with_baselines(f"{lead}{said}", found, best.score, result.metric)
    parts = [
        f"{score(original.score, 2)} → {score(best.score, 2)} on {count(best.n)} unseen rows"
        f"{in_groups(best.groups, best.n)}, {p_value(result.p_value)}",
        f"{count(result.fixed)} fixed, {count(result.broken)} broken",
    ]
    grown = ratio(best.tokens_per_call, original.tokens_per_call)
    if grown is not None:
        parts.append(f"{times(grown)} tokens per call")
    said = with_baselines(f"{lead}{'; '.join(parts)}.", found, best.score, result.metric)
    return said.removesuffix(".")


def level(result: Result) -> str:
    """Say what needs no model and scores about as much as the best prompt; "" if nothing does."""
    from autoprompt.measure.baselines import baselines_sentence  # not to list runs

    return baselines_sentence(result.baselines, result.best.score, result.metric)


WORDS = (
    (
        "confirmed",
        "Better than the original on the sealed test, by more than luck explains: p is below 0.05.",
    ),
    ("sealed test", "Rows that only the winner and the original answer, once, at the end of the run."),
    ("score", "How good the answers are, from 0 to 1. For right or wrong answers: the share that is right."),
    (
        "95% interval",
        "The range in which the score on other rows of this kind would be, 95 times out of 100.",
    ),
    (
        "p",
        "How often two equally good prompts would differ this clearly by luck. Below 0.05 counts as proof.",
    ),
    ("paired", "Both prompts answer the same rows, and the test looks at the rows on which they differ."),
    (
        "fixed",
        "Rows that the new prompt scores higher than the original. Broken rows are those it scores lower.",
    ),
    ("fresh rows", "Rows that did not help to write or select the prompt."),
    ("validation", "Rows that decide between candidates during the search."),
    ("candidate", "A prompt that the search tries, with its demonstrations."),
    ("demonstration", "A row shown in the prompt with its answer, also called a few-shot example."),
    (
        "race",
        "All candidates answer the same validation rows, in blocks; weak ones drop out after each block.",
    ),
)
"""Words of a report that need an explanation, each with one."""


def plain(result: Result) -> str:
    """Say what came out to somebody who knows no statistics; "" for an unfinished run."""
    if not result.best.id:
        return ""
    if result.verdict == "nothing_to_improve":
        return "Your prompt made no error, so there was nothing to improve."
    if result.best.is_original:
        return "No better prompt was found. Keep yours."
    if result.best.score is None or result.original.score is None:
        found = result.validation.confirmation
        if found is not None and found.confirmed and found.fresh.rows:
            rows = counted(found.fresh.rows, "fresh row")
            return f"The new prompt is better on {rows}, but no sealed test has checked it."
        return "Nobody has tested the new prompt on rows that it has not seen. Do not rely on its gain yet."
    rows = f"On {counted(result.best.n, 'row')} that it had never seen, it"
    numbers = (
        f"{rows} scored {score(result.best.score, 2)}; your prompt scored {score(result.original.score, 2)}."
    )
    if result.verdict == "confirmed":
        return f"The new prompt is better. {numbers}"
    return f"The new prompt may be better, but this test cannot tell. {numbers}"


_MARKS = {
    "confirmed": "Confirmed",
    "not_confirmed": "Not confirmed",
    "nothing_to_improve": "Nothing to improve",
    "untested": "Untested",
    "unfinished": "Unfinished",
}


def mark(verdict: str, *, is_unchanged: bool, is_running: bool) -> str:
    """Return the verdict in a word or three, to stand over the sentence."""
    if is_running:
        return "Running"
    has_own = verdict in ("unfinished", "nothing_to_improve")
    return "No better prompt found" if is_unchanged and not has_own else _MARKS[verdict]


def explanation(result: Result) -> str:
    """Return what the verdict means, for somebody who sees one for the first time."""
    if result.verdict == "nothing_to_improve":
        return "Your prompt made no error on the rows that a search learns from, so the run did not search."
    if result.best.is_original:
        return "The search could not confirm a better prompt, so nothing was changed."
    if result.verdict == "confirmed":
        return f"Measured on rows that the search never saw. {_chance(result.p_value)}"
    if result.verdict == "not_confirmed":
        return f"On rows that the search never saw, the difference may be chance. {_chance(result.p_value)}"
    if result.validation.chose_the_winner:
        return "No sealed test has checked this. The same rows selected the prompt, so the score is too high."
    confirmation = result.validation.confirmation
    shows_some = confirmation is not None and confirmation.held_out_rows
    selected = "select" if shows_some else "write or select"
    return (
        f"No sealed test has checked this. These rows did not help {selected} the prompt, but decided that "
        "it is returned, so the gain may be somewhat smaller than it looks."
    )


def _chance(p: float | None) -> str:
    if p is None:
        return ""
    if p < 0.00001:
        return (
            "If both prompts were equally good, this gap would appear in fewer than 1 of 100,000 such tests."
        )
    return f"If both prompts were equally good, this gap would appear in about {_one_in(p)} such tests."


def _one_in(p: float) -> str:
    """Return the same figure as `p_text`, with as many digits: 0.0024 is 24 of 10,000."""
    shown = p_text(p).removeprefix("p = ")
    return f"{int(shown.replace('.', '')):,} of {10 ** len(shown.partition('.')[2]):,}"


def unfinished(command: str, progress: Progress, calls: int, *, is_running: bool) -> tuple[str, str]:
    """Return the headline and explanation of an unfinished run. command: The one that resumes it."""
    if progress.best_score is None or progress.original_score is None:
        found = "no race has ended yet"
    elif not difference(progress.best_score, progress.original_score):
        found = "nothing better than the original so far"
    else:
        found = (
            f"best so far {score(progress.best_score, 2)} against {score(progress.original_score, 2)} "
            f"on {counted(progress.rows, 'validation row')}"
        )
    rounds = f"Round {progress.iteration} of {progress.max_iterations}: " if progress.iteration else ""
    sentence = f"{rounds}{found}; {counted(calls, 'call')}"
    if is_running:
        doing = PHASES.get(progress.node, progress.node)
        return sentence, f"Running{f': {doing}' if doing else ''}. The sealed test is still closed."
    return sentence, f"Interrupted; nothing is lost. Resume with: {command}"


def continued(command: str, *, is_running: bool) -> str:
    """Say that a run with a result has been continued. command: The one that resumes it."""
    if is_running:
        return "The run is being continued; this is its result so far."
    return f"The run was continued and interrupted; this is its result so far. Resume with: {command}"


def trade_off(found: TradeOff, is_unchanged: bool) -> str:
    """Return the heading of the table of score against cost."""
    kind = "ahead of the original, not confirmed" if is_unchanged else "the cheapest first"
    return f"Score against cost, {kind}; means of the {counted(found.rows, 'row')} that raced, no proof"


def tested_sides(result: Result) -> list[tuple[str, Side]]:
    """Return what met the sealed test, by name: the original, what the run returns, and the other end."""
    ends = result.ends
    if ends.other is None:
        return [("original", result.original), ("best", result.best)]
    return [("original", result.original), ("best", result.best), ("highest score", ends.other)]


def paired_test(result: Result) -> str:
    """`24 rows fixed, 7 broken; p = 0.0033 (paired, two-sided)`: what the sealed test says of the difference.

    Only for a result whose test was opened.
    """
    return (
        f"{counted(result.fixed, 'row')} fixed, {count(result.broken)} broken; {p_value(result.p_value)} "
        "(paired, two-sided)"
    )


def whose(result: Result) -> str:
    """Return ` (candidate 57c9b8)`: whose confirmation a result shows, if two went there; else ""."""
    found = result.validation.confirmation
    return (
        f" (candidate {found.candidate[:6]})" if found is not None and result.ends.other is not None else ""
    )


def confirmation(found: Confirmation) -> str:
    """`0.879 against 0.515 on 33 fresh rows (20 of validation, 13 of train); with the race p = 0.02, ...`."""
    part = found.fresh if found.fresh.rows else found.raced
    rows = f"{_rows(part)} that selected it"
    if found.fresh.rows:
        rows = f"{_rows(part, 'fresh ')}{found.fresh_parts}"
    candidates = counted(found.tried, "candidate")
    chance = p_value(found.p_value)
    if found.basis == "both":
        chance = f"with the race {chance}, after {candidates}"
    elif found.basis == "raced":
        chance += f", after {candidates}"
    elif found.remembered:
        chance += ", from these rows only, because the run used earlier lessons"
    return f"{score(part.score)} against {score(part.other_score)} on {rows}; {chance}"


def not_confirmed(found: Confirmation, measure: str = "") -> str:
    """Say why the original is returned although a candidate was ahead of it on the rows of the race.

    measure: what the scores are if they are not the metric: then the rows have unequal weights.
    """
    raced, fresh = found.raced, found.fresh
    chance = f", {p_value(found.p_value)}"
    basis = _basis(found)
    who = f"candidate {found.candidate[:6]}"
    if not fresh.rows:
        said = (
            f"{who}, {score(raced.score)} against {score(raced.other_score)} on the "
            f"{counted(raced.rows, 'row')} that selected it{in_groups(raced.groups, raced.rows)}, "
        )
        if found.remembered:
            return f"{said}is not confirmed: no fresh rows were left; {basis}"
        units = "rows" if raced.groups == raced.rows else "groups"
        if measure:
            return f"{said}is not better beyond chance{chance}; more {units} may settle it"
        least = smallest_gain(raced.groups, 0, found.chances)
        no_gain = "any gain" if least is None else f"a gain under {least:+.2f}"
        return f"{said}is not better beyond chance{chance}; so few {units} cannot confirm {no_gain}"
    said = f"{score(fresh.score)} against {score(fresh.other_score)} on {_rows(fresh)}{found.fresh_parts}"
    ours, theirs = fresh.score, fresh.other_score
    if ours < theirs or ours == theirs < 1:
        before = f"{score(raced.score)} on the rows that selected it"
        return f"{who}, {before}, did not hold on fresh rows: {said}{chance}"
    ahead = "is ahead on fresh rows too"
    if ours == theirs:
        ahead = "is level on fresh rows, as both answer all correctly"
    needed = f"needed: under {CONFIRM_ALPHA:g}{f', {basis}' if basis else ''}"
    return f"{who} {ahead}, {said}, but not beyond chance{chance}; {needed}"


def _rows(part: Comparison, kind: str = "") -> str:
    """`33 fresh rows (in 9 groups)`."""
    return f"{part.rows} {kind}{'row' if part.rows == 1 else 'rows'}{in_groups(part.groups, part.rows)}"


def _basis(found: Confirmation) -> str:
    """Say what the p-value rests on; "" if it rests on the rows of the race alone."""
    if found.remembered:
        return "only fresh rows count, because the run used earlier lessons"
    if found.basis == "fresh":
        return "only fresh rows count after so many rounds"
    if found.basis == "both":
        tried = counted(found.tried, "candidate")
        return f"from race and fresh rows together, {tried}; more rows may settle it"
    return ""


def sentence(event: AnyEvent) -> str:
    """Say what happened in one line; "" for an event that needs none."""
    match event:
        case RunStarted():
            sizes = ", ".join(f"{count} {part}" for part, count in event.sizes.items())
            rows = f"; rows: {sizes}" if sizes else ""
            return f"run {event.run_id} {'resumed' if event.resumed else 'started'}: {event.model}{rows}"
        case CandidateProposed():
            return f"try {event.id[:6]} ({event.operator}): {event.change}"
        case CandidateRefused():
            name = f" {event.id[:6]}" if event.id else ""
            return f"refused{name} before any call ({event.operator}): {event.reason}"
        case RungEnded():
            return _rung(event)
        case CandidateSettled():
            return _settled(event)
        case BestChanged():
            original = "" if event.original_score is None else f" (original {score(event.original_score)})"
            rows = counted(event.rows, "validation row")
            cost = per_thousand(event.cost)
            return f"best so far: {event.id[:6]}, {score(event.score)} on {rows}{original}{cost}"
        case WinnerChosen():
            return _chosen(event)
        case PickChosen():
            return _picked(event)
        case Confirmation():
            better = (
                "better than the original"
                if event.confirmed
                else "not better than the original beyond chance"
            )
            return f"winner {event.candidate[:6]} is {better}: {confirmation(event)}"
        case Analysis() if event.total_count:
            return f"{event.error_count} of {counted(event.total_count, 'train row')} wrong"
        case Experiment():
            first = " ".join(event.observation.split())[:120]
            return f"analyst's experiment {event.number}, exit code {event.exit_code}: {first}"
        case Lesson():
            return f"lesson: {event.text}"
        case Problem():
            return f"warning: {tell(event, Voice.CLI)}"
        case RunFinished():
            return str(event.result.get("message") or "finished")
        case _:
            return ""


def _settled(event: CandidateSettled) -> str:
    if not event.rows:
        return f"dropped {event.id[:6]}: the budget ended before it was measured"
    chance = "" if event.p_value is None else f", {p_value(event.p_value)}"
    refused = f"; {counted(event.refused, 'request')} refused by the endpoint" if event.refused else ""
    return (
        f"{'accepted' if event.accepted else 'dropped'} {event.id[:6]}: {score(event.score)} against "
        f"{score(event.parent_score)} on {counted(event.rows, 'row')}{chance}{refused}"
        f"{per_thousand(event.cost)}"
    )


def per_thousand(cost: Cost | None) -> str:
    """Return `, $0.20 for 1,000 calls`; "" if it is not known."""
    return "" if cost is None else f", {cost.shown(1000)} for 1,000 calls"


def _chosen(event: WinnerChosen) -> str:
    """Say why it is not the best of the race that goes to the confirmation."""
    said = f"{event.id[:6]} goes to the confirmation instead of {event.instead_of[:6]}"
    if event.reason == "memory":
        return f"{said}: earlier runs may know the raced rows, so they prove nothing of that one's text"
    if event.fresh_rows > event.fresh_rows_of_best:
        fresh = counted(event.fresh_rows, "fresh row")
        return f"{said}: {fresh} can speak for it, {event.fresh_rows_of_best} for that one"
    return f"{said}: its gain has the better chance to be shown"


def _picked(event: PickChosen) -> str:
    """Say which of the tested ends is returned, and what a call costs with each."""
    highest = f"{event.highest[:6]} ({event.cost_of_highest.both} for 1,000 calls)"
    if event.cost_of_cheapest is None:
        return f"the highest score is returned: {highest}"
    cheapest = f"{event.cheapest[:6]} ({event.cost_of_cheapest.both})"
    return f"the cheapest that is about as good is returned: {cheapest} instead of {highest}"


def _rung(event: RungEnded) -> str:
    """`after 16 rows 4 of 8 go on; abcdef (0.812) is ahead of the best so far (0.500)`."""
    stage = "the race is over" if event.is_last else f"{event.kept} of {event.ran} go on"
    best = f"the best so far ({event.best_score:.3f})"
    leader = f"{event.leader[:6]} ({event.score:.3f})"
    if not event.is_ahead:
        said = f"none is ahead of {best}"
    elif event.score > event.best_score:
        said = f"{leader} is ahead of {best}"
    else:  # ranked by how sure the model is of the right answers as well
        said = f"{leader} leads {best} by its confidence"
    return f"after {counted(event.rows, 'row')} {stage}; {said}"


def baselines(found: Baselines) -> str:
    """Return in a sentence what needs no model and scores on the same rows; "" if it was not scored."""
    known = {name: one for name, one in found.items() if one}
    if not known:
        return ""
    whose = {
        "most_frequent": "the most frequent label of train",
        "nearest": "a vote of the nearest train rows",
    }
    said = ", ".join(f"{whose[name]} {score(one.score, 3)}" for name, one in known.items())
    return f"Scores without a model: {said}."


def wrong_rows(found: Round) -> str:
    """Return how many rows of a round were wrong."""
    if not found.total_count:
        return "no row asked: the search had ended"
    return f"{count(found.error_count)} of {counted(found.total_count, f'{found.split} row')} wrong"
