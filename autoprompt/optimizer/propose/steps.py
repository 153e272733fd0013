"""What the steps of a program did: which component to change next, and what its demonstrations may show.

The next component follows from the traces of wrong rows, the analyst, and what helped. The measure of a
trace is a guess, so it only weighs: what edits of a component brought counts too, and every component gets
its turn.

Nobody has labelled what a step in the middle should give. Rows that ended correctly show it, and so does the
target where the step's output is the answer or a part of it.
"""

from __future__ import annotations

import math
import random
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from autoprompt.optimizer.search.pool import Pool
from autoprompt.records import EvaluatedRow, Example, Step
from autoprompt.text.answers.reasoning import has_answer_line
from autoprompt.text.answers.texts import visible
from autoprompt.text.files import json_value

if TYPE_CHECKING:
    from autoprompt.optimizer.context import SearchContext


FLOOR = 0.2  # share of the weight that is spread evenly: a trace may point at the wrong step in every row
# A component is due that had less than this share of an even number of tries.
DUE = 1 / 3
ANALYST = 0.5  # weight of the analyst's word beside the traces'
# An answer is worked out if it has so many times the target's length, and so many characters more, such as
# "The answer is ...".
WORKED_OUT, SHORT_ANSWER = 3, 20


def open_components(context: SearchContext) -> list[str]:
    """Names of the components that may be changed, in alphabetical order."""
    return sorted(set(context.program.components) - context.settings.locked_components)


def next_component(
    pool: Pool, blame: Mapping[str, float], names: Sequence[str], slot: int, rng: random.Random
) -> str:
    """Return the component for the proposal at place `slot` of a round.

    blame: component -> its share in what went wrong, summing to 1 or less. names: those to choose among.
    rng: one of the round's own, made anew for every slot: the places before it are drawn again.
    Drawn by blame times Beta(1 + accepted, 1 + lost); one that had far fewer tries than others comes first.

    Raises:
        ValueError: Without a name to choose.
    """
    if not names:
        raise ValueError("no component may be changed")
    outcomes = credit(pool)
    tried = Counter({name: sum(outcomes.get(name, (0, 0))) for name in names})
    for place in range(slot + 1):
        name = min(names, key=lambda n: tried[n])
        # The first tries go where the blame lies.
        if tried[name] >= DUE * tried.total() / len(names):
            name = rng.choices(names, [_weight(blame, outcomes, n, len(names), rng) for n in names])[0]
        if place < slot:
            tried[name] += 1
    return name


def _weight(
    blame: Mapping[str, float], outcomes: Mapping[str, tuple[int, int]], name: str, n: int, rng: random.Random
) -> float:
    accepted, lost = outcomes.get(name, (0, 0))
    return (FLOOR / n + (1 - FLOOR) * blame.get(name, 0.0)) * rng.betavariate(1 + accepted, 1 + lost)


def credit(pool: Pool) -> dict[str, tuple[int, int]]:
    """Component -> how many candidates that changed it and nothing else were (accepted, rejected)."""
    found: dict[str, tuple[int, int]] = {}
    for entry in pool.entries:
        parents = [pool[i].candidate for i in entry.candidate.parents[:1] if i in pool]
        changed = entry.candidate.changed_since(parents[0]) if parents else ()
        if len(changed) == 1 and entry.status != "pending":
            accepted, lost = found.get(changed[0], (0, 0))
            is_accepted = entry.status == "accepted"
            found[changed[0]] = (accepted + is_accepted, lost + (not is_accepted))
    return found


def blame_of(
    rows: Sequence[EvaluatedRow],
    names: Sequence[str],
    votes: Mapping[str, int] | None = None,
    tools: Mapping[str, str] | None = None,
) -> dict[str, float]:
    """Component -> its share in the wrong ones of `rows`; sums to 1, or is empty where nothing tells.

    votes: how many rules the analyst wants in each component's text.
    tools: of the components that describe a tool or a parameter, its name (see `Component.tool`). They are
        blamed for how rows used tools (see `tool_blame`).
    """
    tools = tools or {}
    prompts = _normalized(_suspicion(rows, [name for name in names if name not in tools]))
    blamed = tool_blame(rows, {name: tool for name, tool in tools.items() if name in names})
    of_tools = max(blamed.values(), default=0.0) ** 0.5 if prompts else 1.0
    traced = {name: share * (1 - of_tools) for name, share in prompts.items()}
    traced |= {name: share * of_tools for name, share in _normalized(blamed).items()}
    voted = _normalized({n: float(v) for n, v in (votes or {}).items() if n in names})
    if not traced or not voted:
        return traced or voted
    return {n: (1 - ANALYST) * traced.get(n, 0.0) + ANALYST * voted.get(n, 0.0) for n in names}


def _suspicion(rows: Sequence[EvaluatedRow], names: Sequence[str]) -> dict[str, float]:
    shares: dict[str, float] = {}
    for row in rows:
        suspects = [] if row.is_correct else suspect_steps(row)
        components = dict.fromkeys(n for step in suspects for n in step.components if n in names)
        for name in components:
            shares[name] = shares.get(name, 0.0) + 1 / len(components)
    return shares


def _normalized(shares: Mapping[str, float]) -> dict[str, float]:
    total = sum(shares.values())
    return {name: share / total for name, share in shares.items()} if total else {}


def suspect_steps(row: EvaluatedRow) -> list[Step]:
    """Return the steps at which a wrong row may have gone wrong, those with components.

    The first that failed; else the first whose output is in the answer and not in the right one; else all but
    those whose output is in both.
    """
    steps = [step for step in row.trace if step.components]
    failed = [step for step in steps if step.error]
    if failed:
        return failed[:1]
    guilty = [s for s in steps if is_in(s.output, row.prediction) and not is_in(s.output, row.ground_truth)]
    return guilty[:1] or [s for s in steps if not is_right_part(s, row)] or steps


def is_right_part(step: Step, row: EvaluatedRow) -> bool:
    """Return whether the step's output is a part of the answer that the right one has too."""
    return is_in(step.output, row.prediction) and is_in(step.output, row.ground_truth)


def is_in(part: str, text: str) -> bool:
    """Return whether `part` is in `text` as whole words, whatever the case."""
    words = part.casefold().split()
    if not words:
        return False
    pattern = r"(?<!\w)" + r"\s+".join(map(re.escape, words)) + r"(?!\w)"
    return re.search(pattern, text.casefold()) is not None


def step_examples(
    name: str, names: Sequence[str], seen: Sequence[EvaluatedRow], train: Sequence[Example]
) -> list[Example]:
    """Examples for demonstrations of component `name`: `input` and `target` are the step's, `id` the row's.

    names: the components that may be changed; a step's demonstrations go with the first of its own among
    them. seen: rows of train with their traces, the newest last. A step that gets the row's input and gives
    the answer has every row of `train`; of others only rows that were seen are known. Of a step that ran
    several times in a row (iterations) the first run counts.
    """
    met = [(row, step) for row in seen if (step := _step_of(row, name, names)) is not None]
    if not met:
        return []
    is_last = all(_same(step.output, row.prediction) for row, step in met)
    known = [row for row in train if row.has_target]
    if known and is_last and all(_same(step.input, row.input) for row, step in met):
        return known
    found: dict[str, Example] = {}
    for row, step in met:
        output = _right_output(row, step, is_last)
        if output is not None:
            found[row.example_id] = Example(row.example_id, step.input, output, {})
    order = {example.id: place for place, example in enumerate(train)}
    return sorted((e for e in found.values() if e.id in order), key=lambda e: order[e.id])


def own_answers(
    seen: Sequence[EvaluatedRow], train: Sequence[Example], *, is_reasoned: bool = False
) -> dict[str, str] | None:
    """Return what demonstrations of a prompt show: row id -> the model's own answer, where it was right.

    None: the targets do. Where the model works its answers out (it was asked to, or they are several times as
    long as the targets), the bare target would teach it to answer without working. If no row has a target,
    there is nothing else to show.
    """
    known = {example.id for example in train}
    answered = [row for row in seen if row.example_id in known and not row.is_lost and _written(row)]
    longer = sum(len(_written(r)) > WORKED_OUT * len(r.ground_truth) + SHORT_ANSWER for r in answered)
    has_targets = any(example.has_target for example in train)
    if has_targets and not is_reasoned and 2 * longer <= len(answered):
        return None
    right = {row.example_id: _written(row) for row in answered if row.is_correct}
    # One that lacks the line that was asked for would teach to leave it out.
    return {i: text for i, text in right.items() if not is_reasoned or has_answer_line(text)}


def _written(row: EvaluatedRow) -> str:
    return visible(row.output or row.prediction)


def _step_of(row: EvaluatedRow, name: str, names: Sequence[str]) -> Step | None:
    for step in row.trace:
        if step.can_demo and not step.error and demo_component(step, names) == name:
            return step
    return None


def demo_component(step: Step, names: Sequence[str]) -> str | None:
    """Return the component that a step's demonstrations are shown with: its first that may be changed."""
    return next((n for n in step.components if n in names), None)


def _right_output(row: EvaluatedRow, step: Step, is_last: bool) -> str | None:
    if row.is_correct or is_right_part(step, row):
        return step.output or None
    return row.ground_truth or None if is_last else None


def _same(a: str, b: str) -> bool:
    return a.split() == b.split()


# --- tools: which of their texts the traces blame ---
#
# Rows that went wrong used tools otherwise than rows that went right. A tool may be called where it should
# not be, or not be called where it should; its description is to blame. Or it is called with arguments of
# another shape; then the parameter's is. What wrong and right rows do alike is not to blame.

# Standard errors that a difference must exceed: a tenth of the tools that are not to blame are taken for it.
_ERRORS = 1.64
_FEW_WORDS = 3  # of an argument


def tool_blame(rows: Sequence[EvaluatedRow], tools: Mapping[str, str]) -> dict[str, float]:
    """Return component -> how much rows that went wrong differ by it, in (0, 1]; those without are left out.

    tools: component -> the tool, or `tool.parameter`. rows: of those that were offered tools.
    """
    offered = [row for row in rows if any(name in tools for step in row.trace for name in step.components)]
    wrong, right = [row for row in offered if row.is_wrong], [row for row in offered if row.is_correct]
    if not wrong:
        return {}
    called = {tool: _gap(wrong, right, _calls(tool)) for tool in tools.values()}
    idle = _gap(wrong, right, lambda row: not _called(row))
    misled = max(0.0, idle, *called.values())  # how far wrong rows call another tool, or none
    ever = {tool for row in offered for tool in _called(row)}
    blamed: dict[str, float] = {}
    for name, tool in tools.items():
        owner, _, parameter = tool.partition(".")
        if parameter:
            found = _argument_gap(wrong, right, owner, parameter)
        elif tool not in ever:
            found = misled
        else:  # that right rows call it oftener may only say that it does its work
            found = called[tool] if called[tool] > 0 else -called[tool] / 2
        if found > 0:
            blamed[name] = found
    return blamed


def _gap(
    wrong: Sequence[EvaluatedRow], right: Sequence[EvaluatedRow], has: Callable[[EvaluatedRow], bool]
) -> float:
    """Return how much oftener wrong rows have something than right ones, less what chance explains.

    Negative for less often. Without right rows, the share of the wrong ones.
    """
    if not wrong:
        return 0.0
    if not right:
        return sum(map(has, wrong)) / len(wrong)
    shares = [(sum(map(has, rows)) + 0.5) / (len(rows) + 1) for rows in (wrong, right)]
    error = math.sqrt(sum(p * (1 - p) / n for p, n in zip(shares, map(len, (wrong, right)), strict=True)))
    difference = shares[0] - shares[1]
    return max(0.0, abs(difference) - _ERRORS * error) * (1 if difference > 0 else -1)


def _argument_gap(
    wrong: Sequence[EvaluatedRow], right: Sequence[EvaluatedRow], tool: str, parameter: str
) -> float:
    """Return how much the shape of an argument differs between wrong and right rows that call the tool."""
    failed, ended = ([row for row in rows if tool in _called(row)] for rows in (wrong, right))
    if not failed:
        return 0.0
    if not ended:  # no call of it ends right
        return len(failed) / len(wrong)
    shapes = {shape for row in (*failed, *ended) for shape in _shapes(row, tool, parameter)}
    return max((abs(_gap(failed, ended, _has(tool, parameter, shape))) for shape in shapes), default=0.0)


def _has(tool: str, parameter: str, shape: str) -> Callable[[EvaluatedRow], bool]:
    return lambda row: shape in _shapes(row, tool, parameter)


def _calls(tool: str) -> Callable[[EvaluatedRow], bool]:
    return lambda row: tool in _called(row)


def _called(row: EvaluatedRow) -> set[str]:
    return {call.name for step in row.trace for call in step.tool_calls}


def _shapes(row: EvaluatedRow, tool: str, parameter: str) -> set[str]:
    """Return what the arguments look like, whatever they say.

    Type, length, digits, and whether the row has them.
    """
    found = set()
    for call in (call for step in row.trace for call in step.tool_calls if call.name == tool):
        value = _at(call.arguments, parameter)
        if not isinstance(value, str):
            found.add("nothing" if value is None else type(value).__name__)
            continue
        words = len(value.split())
        size = "none" if not words else "one" if words == 1 else "few" if words <= _FEW_WORDS else "many"
        digits = "digits" if any(map(str.isdigit, value)) else "letters"
        found.add(f"{size} {digits} {'quoted' if value.casefold() in row.full_text.casefold() else 'new'}")
    return found


def _at(arguments: str, parameter: str) -> Any:
    value = json_value(arguments)
    for name in parameter.split("."):
        value = value.get(name) if isinstance(value, dict) else None
    return value
