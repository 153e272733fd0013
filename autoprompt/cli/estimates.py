"""What a dry run shows: calls, tokens, cost and time, before anything is sent."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from rich.console import Group, RenderableType
from rich.text import Text

from autoprompt.cli.output import below_here, clean
from autoprompt.errors import Problem, Voice, tell
from autoprompt.llm.traits import traits_of
from autoprompt.report.numbers import duration, money
from autoprompt.settings.records import RunConfig
from autoprompt.text.names import counted, listed

if TYPE_CHECKING:
    from autoprompt.evaluation.estimate import EvaluationEstimate
    from autoprompt.optimizer.forecast import Estimate

_REASONED = 10  # an answer that is worked out first takes so many times as long


def of_run(found: Estimate, settings: RunConfig) -> RenderableType:
    """Return what `run --dry-run` shows."""
    sizes = ", ".join(f"{count} {part}" for part, count in found.sizes.items())
    model = _asked(settings)
    judged, writers, calls = found.judge_calls, found.optimizer_calls, found.calls
    if_at_once = (
        " if prompts ask for the answer only; calls of a prompt that reasons take ten times as long. The "
        "live panel shows the time left"
    )
    lines = [
        f"rows: {sizes}",
        *_prompts(found),
        _answers(found),
        f"at most {counted(calls, 'call')} ({clean(model)}), "
        f"{f'up to {writers:,}' if writers else 'none'} "
        f"of them the writer's{_judges(found) if judged else ''}"
        f"{'' if settings.max_calls else '; retries come on top'}",
        _tokens_and_cost(found),
        *_time(calls, settings, "the run then ends with its best so far", if_at_once),
    ]
    lines += _smallest_gain(found)
    lines += map(_warning, found.warnings)
    return Group(*(Text(line) for line in [*lines, _sent(found)]))


def _asked(settings: RunConfig) -> str:
    """What answers the rows."""
    return str(settings.program or settings.model or settings.base_url)


def _sent(found: Estimate | EvaluationEstimate) -> str:
    if not (sent := found.sent_calls):
        return "nothing was sent"
    return f"{counted(sent, 'call')} sent to try the program on a few rows; nothing else"


def _prompts(found: Estimate) -> Iterator[str]:
    """The texts of a program that the search may change."""
    if found.prompts:
        yield f"prompts of the program: {len(found.prompts)}"
    for prompt in found.prompts:
        place = below_here(prompt["place"])
        yield clean(f"  {prompt['name']} ({prompt['kind']}){f', sent from {place}' if place else ''}")


def _warning(problem: Problem) -> str:
    return f"warning: {clean(tell(problem, Voice.CLI))}"


def _smallest_gain(found: Estimate) -> Iterator[str]:
    """What the rows can confirm; of rows in groups, in how many of these there must be a gain."""
    least = found.smallest_gain
    at_best = found.smallest_gain_at_best
    if at_best is None:
        return
    reach, why = f"{at_best:+.2f}", ""
    if least is None or f"{at_best:.2f}" != f"{least:.2f}":
        reach = f"{at_best:+.2f} at best" if least is None else f"{at_best:+.2f} to {least:+.2f}"
        why = "; smaller if a winner is written from fewer train rows"
    groups = found.val_groups
    if groups in (0, found.sizes["val"]):
        yield f"smallest gain that these rows can confirm: about {reach}, if no row gets worse{why}"
        return
    yield (
        f"smallest gain that these can confirm: one in about {reach.replace('+', '')} of the "
        f"{counted(groups, 'group')} "
        f"of validation, however small in each, if none gets worse{why}"
    )


def of_evaluation(found: EvaluationEstimate, settings: RunConfig) -> RenderableType:
    """Return what `eval --dry-run` shows."""
    judged, model = found.judge_calls, _asked(settings)
    asked = found.calls - judged
    of_both = f", {asked // 2:,} with each of the two prompts" if found.prompts > 1 else ""
    to_judge = f", and {judged:,} to the judge ({clean(found.judge_model)})" if judged else ""
    beside = "retries come on top, up to two for an unreadable answer; answers in the cache are free"
    labels = listed(found.labels) if found.labels else "free text"
    slower = _REASONED if found.is_reasoned else 1
    if_short = "" if found.labels or found.is_reasoned else " if answers are as long as the targets"
    lines = [
        f"rows: {found.rows:,}",
        f"answers: {clean(labels)}",
        f"at most {counted(asked, 'call')} ({clean(model)}){of_both}{to_judge}; {beside}",
        f"about {counted(found.tokens, 'token')}{if_short}; cost: {money(found.cost_usd)}",
        *_time(asked * slower, settings, "every row must be answered by then"),
        *map(_warning, found.warnings),
    ]
    return Group(*(Text(line) for line in [*lines, _sent(found)]))


def _answers(found: Estimate) -> str:
    """What is asked for: a target field that was taken for another shows here."""
    if labels := found.labels:
        return f"answers: {clean(listed(labels))}"
    rows = sum(found.sizes.values())
    return f"answers: free text, {found.different_targets:,} different in {counted(rows, 'row')}"


def _time(calls: int, settings: RunConfig, at_the_end: str, beside: str = "") -> Iterator[str]:
    """What costs no money costs time. A server's time nobody knows.

    at_the_end: what holds when `--max-seconds` are over. beside: to be said of the time that is estimated.
    """
    if settings.max_seconds is not None:
        yield f"time: at most {duration(settings.max_seconds)} (--max-seconds); {at_the_end}"
    elif (call_s := traits_of(settings, "task").call_s) is not None:
        least, most = (f"{calls * seconds / 60:,.0f}" for seconds in call_s)
        about = (
            "under a minute" if most == "0" else f"about {least} to {most} minute{'' if most == '1' else 's'}"
        )
        yield f"time: {about} on one or two cores{beside}"


def _tokens_and_cost(found: Estimate) -> str:
    """At most, and what so many calls take while prompts stay as short as the original."""
    said = f"up to about {counted(found.tokens, 'token')}; cost: "
    cost, short, short_cost = found.cost_usd, found.short_tokens, found.short_cost_usd
    if not short or short >= found.tokens:
        return said + money(cost)
    priced = f" ({money(short_cost)})" if cost and short_cost is not None else ""
    upto = "up to " if priced else ""
    least = f"about {counted(short, 'token')}{priced} if no prompt gets longer than yours"
    return f"{said}{upto}{money(cost)}; {least}"


def _judges(found: Estimate) -> str:
    """The judge's part of the calls and of the cost."""
    cost = found.judge_cost_usd
    price = "price unknown" if cost is None else f"about {money(cost)}"
    return f", about {found.judge_calls:,} the judge's ({clean(found.judge_model)}, {price})"
