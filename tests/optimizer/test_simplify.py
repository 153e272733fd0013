"""The best of the race without what it carries for nothing."""

from __future__ import annotations

import pytest
from fakes import LABELS, PROMPT, Bench, bench, number_of, splits_of, target_of, unit

from autoprompt.errors import Voice, tell
from autoprompt.llm.client import Completion, Options
from autoprompt.optimizer.graph import first_state
from autoprompt.optimizer.round_race import not_simplified, simplify
from autoprompt.optimizer.search.pool import Entry
from autoprompt.records import Candidate, Demo, Message, Usage

BETTER = f"{PROMPT} Mind the rule."


def leading(made: Bench, texts: tuple[str, ...], demos: int) -> Entry:
    """The last of a line of texts, which shows demonstrations. All have raced."""
    context = made.context
    first_state(context, {})
    shown = tuple(Demo(f"item {1000 + n}", LABELS[n % 2], f"t{n}") for n in range(demos))
    entry = context.pool.original
    for number, text in enumerate(texts):
        is_last = number == len(texts) - 1
        parents = (entry.candidate.id,)
        entry = context.add(
            Candidate({"prompt": text}, demos=shown if is_last else (), parents=parents, operator="cues")
        )
        entry.status = "accepted"
    context.evaluate([context.pool.original, entry], context.plan.race, "race")
    return entry


def needing(demos: int, text: str = "rule") -> Bench:
    """A student who is right in nine of ten rows if the text is said and as many demonstrations are shown."""

    def student(messages: list[Message], options: Options) -> Completion:
        number, shown = number_of(messages), sum(m.role == "user" for m in messages) - 1
        chance = 0.9 if text in messages[0].content and shown >= demos else 0.3
        right = unit("row", number) < chance
        answer = target_of(number) if right else LABELS[1 - LABELS.index(target_of(number))]
        return Completion(answer, Usage(len(messages[0].content) // 4 + 10 * shown, 1))

    return bench(student, splits=splits_of(64, 60, 0))


def forms(made: Bench) -> list[tuple[str, int, str]]:
    """Operator, demonstrations and status of each form that raced, in order."""
    entries = [e for e in made.context.pool.entries if e.candidate.operator in ("strip", "prune")]
    return [(e.candidate.operator, len(e.candidate.demos), e.status) for e in entries]


@pytest.mark.parametrize(
    ("needed", "expected"),
    [
        (0, [("strip", 0, "accepted")]),
        (4, [("strip", 0, "rejected"), ("prune", 4, "accepted")]),
        (10, [("strip", 0, "rejected"), ("prune", 4, "rejected"), ("prune", 8, "rejected")]),
    ],
)
def test_the_smallest_part_of_the_demonstrations_that_is_level_is_found(
    needed: int, expected: list[tuple[str, int, str]]
) -> None:
    made = needing(needed)
    leader = leading(made, (BETTER,), 32)
    made.task.calls.clear()
    simplify(made.context, leader)
    assert forms(made)[: len(expected)] == expected
    assert [status for *_, status in forms(made)].count("accepted") == 1
    # One that is clearly behind answers the first block alone.
    rejected = [e for e in made.context.pool.entries if e.status == "rejected"]
    assert {len(e.scores) for e in rejected} <= {made.context.plan.blocks[0]}
    simplest = made.context.pool[made.kinds("candidate_settled")[-1]["id"]].candidate
    # The last demonstrations, both labels alike.
    assert [d.example_id for d in simplest.demos] == [f"t{n}" for n in range(32 - len(simplest.demos), 32)]
    assert simplest.parents == (leader.candidate.id,)


def test_an_added_text_that_does_nothing_is_taken_off() -> None:
    """The demonstrations help and the long text beside them does not."""
    made = needing(2, text="")
    useless = f"{PROMPT} " + "Take care of every word in it. " * 10
    leader = leading(made, (useless,), 4)
    simplify(made.context, leader)
    accepted = [e for e in made.context.pool.entries if e.status == "accepted"][2:]
    assert [(e.candidate.prompt, len(e.candidate.demos)) for e in accepted] == [(PROMPT, 4)]
    assert "Take care" in accepted[0].candidate.change.removed


def test_the_original_is_no_simpler_form() -> None:
    """Whether the best beats it is for the confirmation to say."""
    made = needing(0, text="")
    leader = leading(made, (PROMPT,), 4)
    made.task.calls.clear()
    assert simplify(made.context, leader) == ([], "")
    assert made.task.calls == []


@pytest.mark.parametrize(
    ("stop_reason", "ends_reason", "fix"),
    [
        ("max_tokens", "none", "Resume the run with a larger --max-calls."),
        ("patience", "none", "Resume the run with a larger --max-calls."),
        ("no_errors", "no_budget", "Resume the run with a larger --max-calls."),
        ("no_errors", "none", "A new run with a larger --max-calls tries them; it takes known answers from"),
    ],
)
def test_a_larger_limit_is_advised_for_the_command_that_takes_it(
    stop_reason: str, ends_reason: str, fix: str
) -> None:
    said = tell(not_simplified("max_calls", stop_reason, ends_reason), Voice.CLI)
    assert said.startswith("--max-calls: the limit ended the run before simpler forms of the best prompt")
    assert fix in said


def test_a_budget_that_has_nothing_left_says_so() -> None:
    made = needing(0)
    leader = leading(made, (BETTER,), 16)
    made.context.budget.max_calls = made.context.budget.spent.calls
    (raced,), too_small = simplify(made.context, leader)
    assert (made.context.pool[raced].candidate.operator, too_small) == ("strip", "max_calls")
    assert forms(made) == [("strip", 0, "rejected")]
    assert leader.status == "accepted"
