"""What a round's authors are given: the state's part in it and, for several prompts, their steps."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from autoprompt.measure.task import TOOL_KINDS
from autoprompt.memory import Lesson
from autoprompt.optimizer.agents.writer import StepView
from autoprompt.optimizer.context import SearchContext
from autoprompt.optimizer.propose.refusal import Refused
from autoprompt.optimizer.propose.steps import (
    next_component,
    open_components,
    own_answers,
    step_examples,
)
from autoprompt.optimizer.search.operators import OperatorName
from autoprompt.optimizer.search.pool import Entry
from autoprompt.records import Candidate, Change, Demo, EvaluatedRow, Example
from autoprompt.text.answers.reasoning import asks_to_reason

FEWEST_EXAMPLES = 2  # of a step, to show any as demonstrations
FEWEST_OWN = 4  # right answers of a model that was not asked to reason, to show them and not the targets


@dataclass(frozen=True, slots=True)
class Brief:
    """What the rewrite node hands over: the state's part in a round of proposals.

    experiences: lessons for the writer. helped: sentences that helped where they were added, in this run
    or in earlier ones on such tasks, the best first. looked: rows of train under the incumbent, which the
    analyst and the writers are shown. seen: the rows of train that were run so far, the newest last, with the
    traces of a program of several prompts; of one prompt those that were answered as the best answers (at
    once, or after reasoning), and none where its answers say no more than the targets.
    """

    iteration: int
    incumbent: str
    number: int
    analysis: Mapping[str, Any]
    experiences: Sequence[Lesson]
    tally: Mapping[str, Sequence[int]]
    looked: Sequence[EvaluatedRow]
    helped: Sequence[str] = ()
    seen: Sequence[EvaluatedRow] = ()

    @property
    def wrong_ids(self) -> frozenset[str]:
        return frozenset(row.example_id for row in self.looked if row.is_wrong)

    @property
    def blame(self) -> Mapping[str, float]:
        blame: Mapping[str, float] = self.analysis.get("blame") or {}
        return blame


@dataclass(frozen=True, slots=True)
class Place:
    """Which proposal of the round this is: of all, of those that draw demonstrations, of those that recall,
    of those that say what the answers mean, of those that a writer is asked for."""

    slot: int
    draw: int
    recall: int
    told: int = 0
    written: int = 0


class Shown(NamedTuple):
    """Where demonstrations come from: the component that they are shown with, rows to choose from, and what
    is shown as the answer to a row instead of its target."""

    name: str
    examples: Sequence[Example]
    answers: Mapping[str, str]


def filled_in(context: SearchContext, prompt: str) -> tuple[str, ...]:
    """Return the placeholders of `prompt` that take the row's fields, as they are there, in order.

    None of a program of several steps, as what these are sent is not the row, and none if rows are
    conversations that follow the prompt.
    """
    if not context.settings.answers_rows or context.sends_turns(prompt):
        return ()
    return tuple("{" + name + "}" for name in context.asked(prompt))


def named(context: SearchContext, name: str) -> str:
    """Return the component's name for a `Change`; "" if there is one alone."""
    return "" if context.settings.answers_rows else name


def is_tool(context: SearchContext, name: str) -> bool:
    """Return whether a text describes a tool or a parameter. It is no prompt: it only ever is rewritten."""
    component = context.settings.components.get(name)
    return component is not None and component.kind in TOOL_KINDS


def changeable(context: SearchContext, brief: Brief) -> list[str]:
    """Return the components that a proposal may rewrite: of tools' texts those alone that are to blame."""
    names = open_components(context)
    return [name for name in names if brief.blame.get(name, 0.0) > 0 or not is_tool(context, name)]


def component_of(context: SearchContext, brief: Brief, place: Place, rng: random.Random) -> str:
    """Return the component that the proposal at this place rewrites."""
    names = changeable(context, brief)
    if not names:
        raise Refused("no row that went wrong blames the text of a tool")
    if context.settings.answers_rows:
        return rng.choice(names)
    return _next(context, brief, place, names)


def blamed_first(context: SearchContext, brief: Brief) -> str | None:
    """Return the prompt that is most to blame; None if only texts of tools may change."""
    names = [name for name in open_components(context) if not is_tool(context, name)]
    return max(names, key=lambda name: brief.blame.get(name, 0.0), default=None)


def analysis_for(brief: Brief, name: str) -> dict[str, Any]:
    """Return the analysis with the rules for this component alone, where the analyst gave any."""
    analysis = dict(brief.analysis)
    rules = (analysis.get("rules") or {}).get(name)
    return {**analysis, "suggestions": "\n".join(rules)} if rules else analysis


def step_view(context: SearchContext, name: str) -> StepView | None:
    """Return what the writer learns about the step; None for a program of a single prompt."""
    if context.settings.answers_rows:
        return None
    tool = context.settings.components[name].tool if is_tool(context, name) else ""
    return StepView(" ".join(context.settings.task.split()), tool)


def shown_with(context: SearchContext, brief: Brief, place: Place, parent: Candidate) -> Shown:
    """Return what the demonstrations at this place are drawn from, for a child of `parent`.

    Raises:
        Refused: If there is nothing to show.
    """
    if context.settings.answers_rows:
        name, prompt = next(iter(parent.components.items()))
        answers = answers_to_show(context, brief, prompt)
        shows_own = asks_to_reason(prompt) or not has_targets(context)
        if answers is None or not (shows_own or _shows_own(parent, answers, place)):
            return Shown(name, [row for row in context.splits.train if row.has_target], {})
        examples = [row for row in context.splits.train if row.id in answers]
        if len(examples) < FEWEST_EXAMPLES:
            raise Refused("too few rows were answered correctly to show their answers")
        return Shown(name, examples, answers)
    known = demonstrable(context, brief)
    if not known:
        raise Refused("no step has a known correct output")
    name = _next(context, brief, place, sorted(known))
    return Shown(name, known[name], {})


def has_targets(context: SearchContext) -> bool:
    """Return whether there is a row of train whose target can be shown.

    A judge may grade rows without one.
    """
    return any(row.has_target for row in context.splits.train)


def _shows_own(parent: Candidate, answers: Mapping[str, str], place: Place) -> bool:
    """Whether the model's own long answers are shown, or the targets: as the parent does, else in turn.

    An answer may be long because it is worked out, or only chatty, and no count of characters tells which.
    """
    if parent.demos:
        return any(demo.output == answers.get(demo.example_id) for demo in parent.demos)
    return len(answers) >= FEWEST_OWN and place.draw % 2 == 0


def answers_to_show(context: SearchContext, brief: Brief, prompt: str) -> dict[str, str] | None:
    """`own_answers` of a single prompt: to reasoned answers no others are shown, to labels the targets."""
    is_reasoned = asks_to_reason(prompt)
    if context.settings.labels and not is_reasoned:
        return None
    return own_answers(brief.seen, context.splits.train, is_reasoned=is_reasoned)


def demonstrable(context: SearchContext, brief: Brief) -> dict[str, list[Example]]:
    """Return the components that can be shown demonstrations, with examples, for a program of several."""
    names = open_components(context)
    found = {name: step_examples(name, names, brief.seen, context.splits.train) for name in names}
    return {name: examples for name, examples in found.items() if len(examples) >= FEWEST_EXAMPLES}


def _next(context: SearchContext, brief: Brief, place: Place, names: Sequence[str]) -> str:
    rng = context.rng("component", brief.iteration)
    return next_component(context.pool, brief.blame, names, place.slot, rng)


@dataclass(frozen=True, slots=True)
class Turn:
    """An operator's turn in a round, upon `parent`.

    refused: why its first draft was, if this is its second.
    """

    context: SearchContext
    brief: Brief
    operator: OperatorName
    parent: Entry
    place: Place
    rng: random.Random = field(repr=False)
    refused: str = ""

    def child(
        self,
        change: Change,
        *,
        texts: Mapping[str, str] | None = None,
        demos: tuple[Demo, ...] | None = None,
        told: tuple[str, ...] = (),
    ) -> Candidate:
        """Return the parent with other texts (by component) or other demonstrations.

        The rest is as it was.
        """
        candidate = self.parent.candidate
        return Candidate(
            components={**candidate.components, **(texts or {})},
            demos=candidate.demos if demos is None else demos,
            parents=(candidate.id,),
            operator=self.operator,
            iteration=self.brief.iteration,
            change=change,
            told=told,
        )
