"""Proposing a round's candidates: which operators, and which drafts are let through.

All start from the best so far. Parents that are best on some rows (Pareto, as in GEPA) gained less in
simulation: benchmarks/docs/search.md.
"""

from __future__ import annotations

import random
from collections import Counter, deque
from collections.abc import Collection, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field, replace

from autoprompt.errors import BudgetExhausted, EndpointError, Problem, RequestRefusedError
from autoprompt.measure.rows import in_threads
from autoprompt.memory import tell, words
from autoprompt.optimizer.agents.analyst import kinds_of_error, near_misses, spread
from autoprompt.optimizer.agents.rows import MOST_ROWS, ShownRows
from autoprompt.optimizer.agents.writer import text_change, with_added
from autoprompt.optimizer.context import SearchContext
from autoprompt.optimizer.propose.additions import (
    can_show,
    describe,
    described,
    labels_told,
    leaning,
    looked_at,
    show,
    with_lines,
)
from autoprompt.optimizer.propose.brief import (
    FEWEST_EXAMPLES,
    Brief,
    Place,
    Turn,
    analysis_for,
    answers_to_show,
    blamed_first,
    component_of,
    demonstrable,
    filled_in,
    has_targets,
    is_tool,
    named,
    shown_with,
    step_view,
)
from autoprompt.optimizer.propose.refusal import (
    Refused,
    RefusedOnce,
    check_candidate,
    check_text,
    check_writable,
    constant_until,
    kept_passages,
)
from autoprompt.optimizer.propose.steps import suspect_steps
from autoprompt.optimizer.search.demos import lean
from autoprompt.optimizer.search.operators import TELLERS, WRITERS, Means, OperatorName, choose_operators
from autoprompt.optimizer.search.plan import FEWEST_TOLD, race_cost
from autoprompt.optimizer.search.pool import Entry
from autoprompt.records import Candidate, Change, EvaluatedRow, Example, warning_event
from autoprompt.runs.events import CandidateProposed, CandidateRefused
from autoprompt.text.answers.reasoning import asks_to_reason, request
from autoprompt.text.templates import language_of

# From this share of answers that should be another label the demonstrations' labels are shifted, seen on so
# many rows at least: with fewer, chance leans as far.
LEANS, FEWEST_ANSWERS = 0.1, 20


def propose(context: SearchContext, brief: Brief) -> list[Candidate]:
    """Return up to `brief.number` new candidates, all different from each other and from those tried before.

    Raises the writer's error where nothing at all could be proposed because of it.
    """
    incumbent = context.pool[brief.incumbent]
    means = _means(context, incumbent, brief)
    chosen = choose_operators(brief.number, means, brief.tally, context.rng("propose", brief.iteration))
    operators = deque(chosen)
    writing = _Writing(context, brief)
    asked = [slot for slot, operator in enumerate(chosen) if operator in WRITERS]
    # The last one is asked in its turn: how many demonstrations it has depends on descriptions before it.
    at_once = asked[:-1] or asked
    turns = [_turn(context, brief, chosen[slot], Counter(chosen[:slot])) for slot in at_once]
    drafts = writing.drafts(turns, later=len(asked) - len(turns))
    proposals: list[Candidate] = []
    failure: EndpointError | RequestRefusedError | None = None
    drawn: Counter[str] = Counter()
    untold = 0  # descriptions and words that were refused leave their number of demonstrations to the next
    while operators:
        operator = operators.popleft()
        slot = drawn.total()
        if operator in WRITERS and slot not in drafts and writing.calls_left <= 0:
            operators.extend(_instead(operator, replace(means, writers=0)))
            continue
        turn = _turn(context, brief, operator, drawn, untold)
        drawn[operator] += 1
        try:
            if operator in WRITERS and slot not in drafts:
                drafts |= writing.drafts([turn])
            candidate = drafts[slot].result() if slot in drafts else draft(turn)
            check_candidate(context, candidate, proposals)
        except (Refused, EndpointError, RequestRefusedError) as error:
            if isinstance(error, Refused):
                context.emit(CandidateRefused(operator, str(error)).to_dict())
            else:
                if getattr(error, "is_fatal", False):
                    raise
                failure = error
                said = f"no proposal from the writer ({operator}): {str(error).rstrip('.')}"
                context.emit(warning_event(Problem("model.no-proposal", said)))
            untold += operator in TELLERS
            operators.extend(_instead(operator, replace(means, writers=writing.calls_left)))
            continue
        proposals.append(candidate)
        proposed = CandidateProposed(candidate.id, operator, words(candidate.change), candidate.parents)
        context.emit(proposed.to_dict())
    if failure is not None and not proposals:
        raise failure
    return proposals


def _turn(
    context: SearchContext, brief: Brief, operator: OperatorName, drawn: Counter[str], untold: int = 0
) -> Turn:
    """Return the turn that comes after those in `drawn`.

    Each draws by itself, so that a draft depends on no other one's.

    Args:
        untold: Tellings among `drawn` that were refused.
    """
    told = drawn["describe"] + drawn["cues"]
    sets = drawn["demos"] + drawn["demos_errors"] + told - untold
    written = sum(drawn[other] for other in WRITERS if other not in TELLERS)
    place = Place(drawn.total(), sets, drawn["recall"], told, written)
    rng = _rng(context, brief, place.slot)
    return Turn(context, brief, operator, context.pool[brief.incumbent], place, rng)


def _rng(context: SearchContext, brief: Brief, slot: int) -> random.Random:
    return context.rng("propose", brief.iteration, slot)


@dataclass
class _Writing:
    """The writer's calls of a round: its drafts, and a second try for each that is refused.

    Attributes:
        calls_left: How many it may still take beside descriptions that are refused.
    """

    context: SearchContext
    brief: Brief
    calls_left: int = field(init=False)

    def __post_init__(self) -> None:
        self.calls_left = self.context.settings.depth.writings

    def drafts(self, turns: Sequence[Turn], *, later: int = 0) -> dict[int, Future[Candidate]]:
        """Return the drafts by slot. Their `result()` raises refusals and lost answers.

        All are asked for at once, and then once more those that their writer can put right.

        Args:
            later: Drafts that are asked for afterwards, and must find a call.
        """
        context, brief = self.context, self.brief
        drafts = self._at_once(turns)
        refused = [
            (replace(turn, rng=_rng(context, brief, turn.place.slot)), error)
            for turn in turns
            if isinstance(error := drafts[turn.place.slot].exception(), RefusedOnce)
            and turn.operator not in TELLERS
        ]
        again = refused[: self._second_tries(later)]
        with suppress(BudgetExhausted):  # then the first refusals hold
            second = self._at_once([replace(turn, refused=str(error)) for turn, error in again])
            for turn, error in again:
                context.emit(CandidateRefused(turn.operator, str(error)).to_dict())
            drafts |= second
        return drafts

    def _second_tries(self, later: int) -> int:
        """Return how many drafts may be tried once more: the race must not lose more than one candidate."""
        left, free = self.calls_left - later, self.context.budget.calls_left()
        if free is not None:
            left = min(left, free - later - race_cost(max(1, self.brief.number - 1), self.context.plan))
        return max(0, left)

    def _at_once(self, turns: Sequence[Turn]) -> dict[int, Future[Candidate]]:
        def drafted(turn: Turn) -> Future[Candidate]:
            outcome: Future[Candidate] = Future()
            try:
                outcome.set_result(draft(turn))
            except (Refused, EndpointError, RequestRefusedError) as error:
                outcome.set_exception(error)
            return outcome

        made = in_threads(turns, drafted, self.context.concurrency)
        drafts = {turn.place.slot: outcome for turn, outcome in made}
        # A description that is refused leaves its call to the text in its place.
        told = (turn for turn in turns if turn.operator in TELLERS)
        self.calls_left -= len(turns) - sum(_is_refused(drafts[turn.place.slot]) for turn in told)
        return drafts


def _is_refused(draft: Future[Candidate]) -> bool:
    return isinstance(draft.exception(), Refused)


def _instead(operator: OperatorName, means: Means) -> list[OperatorName]:
    """Return what takes the place of a refused draft: the race is paid for.

    A text for a text that told nothing; else another draw of demonstrations, which costs no call.
    """
    if operator in TELLERS and means.writers > 0 and means.can_rewrite:
        return ["rewrite"]
    return ["demos"] if means.can_demo and operator != "demos" else []


def _means(context: SearchContext, incumbent: Entry, brief: Brief) -> Means:
    settings = context.settings
    name = blamed_first(context, brief)
    can_demo = can_show(context) and len(context.splits.train) > 0
    return Means(
        recalls=0 if name is None else len(recallable(brief, incumbent.candidate.components[name])),
        writers=settings.depth.writers,
        can_rewrite=settings.depth.rewrites,
        can_demo=can_demo and _has_examples(context, incumbent, brief),
        has_demos=bool(incumbent.candidate.demos),
        has_errors=bool(brief.wrong_ids),
        can_tell=sum(row.has_target for row in context.splits.train) >= FEWEST_TOLD,
        has_labels=len(context.settings.labels) > 1,
        is_leaning=context.settings.answers_rows and _is_leaning(context, incumbent),
        can_reason=_can_reason(context, incumbent, brief),
    )


def _has_examples(context: SearchContext, incumbent: Entry, brief: Brief) -> bool:
    if not context.settings.answers_rows:
        return bool(demonstrable(context, brief))
    prompt = incumbent.candidate.prompt
    if has_targets(context) and not asks_to_reason(prompt):
        return True
    return len(answers_to_show(context, brief, prompt) or {}) >= FEWEST_EXAMPLES


def _can_reason(context: SearchContext, incumbent: Entry, brief: Brief) -> bool:
    """Raced at most once in a run, and not where the model reasons anyway: its answers are dear."""
    prompt = incumbent.candidate.prompt
    is_new = "reason" not in brief.tally and not asks_to_reason(prompt)
    return context.settings.can_reason and is_new and answers_to_show(context, brief, prompt) is None


def _is_leaning(context: SearchContext, incumbent: Entry) -> bool:
    answered, expected = leaning(context, incumbent)
    return expected.total() >= FEWEST_ANSWERS and lean(answered, expected) >= LEANS


# Every third telling comes without demonstrations where texts are written: both add up, but are not always
# wanted. Where none is written `strip` tries the text alone.
TEXT_ALONE = 3
_HANDED_ON = (*WRITERS, "recall")  # whose changes say in words what their authors learned


def draft(turn: Turn) -> Candidate:
    """Return one candidate by one operator.

    Raises:
        Refused: If there is none; also what the writer raises.
    """
    if turn.operator in TELLERS:
        return _tell(turn)
    if turn.operator in WRITERS:
        return _write(turn)
    if turn.operator == "recall":
        return _recall(turn)
    if turn.operator == "reason":
        return _reason(turn)
    return show(turn)


def _write(turn: Turn) -> Candidate:
    context, brief = turn.context, turn.brief
    name = component_of(context, brief, turn.place, turn.rng)
    original, before = context.program.components[name], turn.parent.candidate.components[name]
    step = step_view(context, name)
    shown = deal(
        brief.looked, turn.place.written, context.settings.depth.writers, "" if step is None else name
    )
    proposal = context.rewriting.rewrite(
        original,
        before,
        analysis_for(brief, name),
        brief.iteration,
        tell(brief.experiences, language_of(original)),
        operator="patch" if turn.operator == "patch" and not is_tool(context, name) else "rewrite",
        keep=kept_passages(context, original, before),
        filled=filled_in(context, before),
        ahead_of=constant_until(context, before),
        shown=shown,
        step=step,
        refused=turn.refused,
        seed=context.seed("write", brief.iteration, turn.place.slot),
    )
    if proposal.is_cut:
        raise RefusedOnce("the answer was cut because it was too long")
    check_text(context, original, before, proposal.text)
    change = text_change(before, proposal.text, named(context, name))
    told = dict.fromkeys((*shown.ids, *_retold(turn, {words(lesson.change) for lesson in brief.experiences})))
    candidate = turn.child(change, texts={name: proposal.text}, told=tuple(told))
    check_writable(context, candidate)
    return candidate


def _tell(turn: Turn) -> Candidate:
    """Return the parent saying what the answers mean.

    If it has no demonstrations, it gets some, but for every third text where the writer writes.
    """
    context, parent = turn.context, turn.parent.candidate
    name, train = _told_from(turn)
    before = parent.components[name]
    lines, told = describe(
        context, turn.operator, name, train, turn.place, turn.rng, answers=turn.parent.answers
    )
    told = tuple(dict.fromkeys((*told, *looked_at(context, turn.brief, train))))
    text = _with(turn, name, before, lines, labels_told(context, train))
    change = described(turn.operator, before, text, lines, named(context, name))
    candidate = turn.child(change, texts={name: text}, told=told)
    is_alone = context.settings.depth.rewrites and turn.place.told % TEXT_ALONE == TEXT_ALONE - 1
    if is_alone or parent.demos_of(name) or not can_show(context):
        return candidate
    try:
        shown = show(replace(turn, parent=Entry(candidate)))
    except Refused:  # no demonstration to go with it is no reason to lose a text that was paid for
        return candidate
    told = tuple(dict.fromkeys((*told, *shown.told)))
    return replace(
        shown,
        parents=candidate.parents,
        told=told,
        change=replace(change, demos=shown.change.demos, how=shown.change.how),
    )


def _told_from(turn: Turn) -> tuple[str, Sequence[Example]]:
    """As `shown_with`, but of a single prompt always the targets: what is right, not how it is put."""
    if turn.context.settings.answers_rows:
        train = [row for row in turn.context.splits.train if row.has_target]
        return next(iter(turn.context.program.components)), train
    name, examples, _ = shown_with(turn.context, turn.brief, turn.place, turn.parent.candidate)
    return name, examples


def _reason(turn: Turn) -> Candidate:
    """Return the parent's text asking to reason first, without demonstrations of immediate answers."""
    context = turn.context
    name, before = next(iter(turn.parent.candidate.components.items()))
    line = request(context.program.components[name], context.settings.labels)
    text = _with(turn, name, before, [line])
    return turn.child(Change(reasons=True), texts={name: text}, demos=())


def _with(turn: Turn, name: str, before: str, lines: Sequence[str], labels: Collection[str] = ()) -> str:
    """Return the text of component `name` with these lines.

    Raises:
        Refused: If it must not have them.
    """
    context = turn.context
    text = with_lines(before, lines, context.asked(before), labels)
    check_text(context, context.program.components[name], before, text, is_addition=True)
    return text


def recallable(brief: Brief, text: str) -> list[str]:
    """Return what helped before and is not in `text` yet, whatever its line breaks there, the best first."""
    known = " ".join(text.split())
    return [s for s in dict.fromkeys(brief.helped) if " ".join(s.split()) not in known]


def _recall(turn: Turn) -> Candidate:
    """Return the parent with what helped before: all of it together, then one sentence at a time.

    It asks no model.
    """
    context = turn.context
    name = blamed_first(context, turn.brief)
    if name is None:
        raise Refused("only texts of tools may change")
    before = turn.parent.candidate.components[name]
    missing = recallable(turn.brief, before)
    choices = [missing, *([s] for s in missing)] if len(missing) > 1 else [missing]
    if not missing or turn.place.recall >= len(choices):
        raise Refused("nothing more to recall")
    chosen = choices[turn.place.recall]
    text = with_added(before, chosen, constant_until(context, before))
    check_text(context, context.program.components[name], before, text, is_addition=True)
    told = _retold(turn, {words(Change(added=sentence)) for sentence in chosen})
    return turn.child(Change(named(context, name), added=" ".join(chosen)), texts={name: text}, told=told)


def _retold(turn: Turn, changes: Collection[str]) -> tuple[str, ...]:
    """Rows of train that reached the authors of these changes, each in words.

    Who reads a description of rows, or hands it on, makes a prompt of these rows. (A list of counted words
    is not handed on: its change says how many there were.)
    """
    made = (entry.candidate for entry in turn.context.pool.entries)
    retold = (one for one in made if one.operator in _HANDED_ON and words(one.change) in changes)
    return tuple(dict.fromkeys(row for one in retold for row in one.told))


# --- which rows of a look at train each draft is shown ---
#
# The kinds of error are dealt out among the drafts, so that they differ by what they have seen and not by the
# temperature alone (as GEPA's proposals, each with a minibatch of its own; Agrawal et al. 2025).

_RIGHT_ROWS = 2  # which must stay right
_WRONG_ROWS = MOST_ROWS - _RIGHT_ROWS


def deal(rows: Sequence[EvaluatedRow], number: int, drafts: int, component: str = "") -> ShownRows:
    """Return what draft `number` of `drafts` is shown of a look's rows.

    Its own kinds of error come first. Other kinds fill the rest, another part of them for each draft.
    component: the text of a program that it rewrites; rows in which another step is to blame come last.
    """
    wrong = [row for row in rows if row.is_wrong]
    if component:
        blamed = [row for row in wrong if any(component in s.components for s in suspect_steps(row))]
        wrong = (
            blamed if len(blamed) >= _WRONG_ROWS // 2 else [*blamed, *(r for r in wrong if r not in blamed)]
        )
    kinds = kinds_of_error(wrong)
    own = [row for kind in kinds[number % drafts :: drafts] for row in kind]
    if kinds and not own:  # fewer kinds than drafts: a part of one
        kind, turn = kinds[number % len(kinds)], number // len(kinds)
        own = kind[turn % len(kind) :] + kind[: turn % len(kind)]
    own = spread(own, _WRONG_ROWS)
    others = [row for row in wrong if row not in own]
    start = number * len(others) // drafts
    shown = [*own, *spread(others[start:] + others[:start], _WRONG_ROWS - len(own))]
    return ShownRows(shown, _guards(rows, shown, number), component)


def _guards(rows: Sequence[EvaluatedRow], wrong: Sequence[EvaluatedRow], number: int) -> list[EvaluatedRow]:
    """Right rows of the answers that the wrong ones were given, the least sure first; another two in turn."""
    given = {row.prediction for row in wrong}
    right = near_misses([row for row in rows if row.is_correct], len(rows))
    right.sort(key=lambda row: row.ground_truth not in given)
    start = number * _RIGHT_ROWS % max(1, len(right))
    return (right[start:] + right[:start])[:_RIGHT_ROWS]
