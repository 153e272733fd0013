"""A round's candidates: all new, within their limits, and refused before any call where they are not."""

from __future__ import annotations

import itertools
import random
import re
import threading
from collections.abc import Callable
from dataclasses import replace
from itertools import combinations
from typing import Any

import pytest
from fakes import PROMPT, Bench, TwoPrompts, bench, number_of, splits_of

from autoprompt.errors import BudgetExhausted, EndpointError, InputError, RequestRefusedError
from autoprompt.llm.client import Completion, Options
from autoprompt.llm.traits import Traits
from autoprompt.memory import Lesson
from autoprompt.optimizer.agents.rows import layout_phrases
from autoprompt.optimizer.agents.writer import Proposal
from autoprompt.optimizer.context import SearchContext
from autoprompt.optimizer.graph import first_state
from autoprompt.optimizer.propose import drafts as proposing
from autoprompt.optimizer.propose.brief import Place, Turn
from autoprompt.optimizer.propose.drafts import draft, propose
from autoprompt.optimizer.propose.refusal import Refused, check_text
from autoprompt.optimizer.search.demos import SHARED
from autoprompt.optimizer.search.operators import OperatorName
from autoprompt.optimizer.search.plan import DEPTHS, Depth, race_cost
from autoprompt.records import Candidate, Change, Demo, EvaluatedRow, Example, Message
from autoprompt.text.scripts import estimate_tokens
from autoprompt.text.templates import phrases

WRITERS_ONLY = Depth(max_iterations=3, calls_per_row=10, candidates=4, writers=4, patience=3)


def brief(made: Bench, **changes: Any) -> Any:
    from autoprompt.optimizer.propose.drafts import Brief

    first_state(made.context, {})
    settings: dict[str, Any] = {
        "iteration": 1,
        "incumbent": made.context.pool.original.candidate.id,
        "number": 4,
        "analysis": {"suggestions": "State the rule.", "has_errors": True},
        "experiences": (),
        "helped": [],
        "tally": {},
        "looked": [EvaluatedRow(f"r{n}", f"item {n}", "B", "A", False, 0.0) for n in (1, 2, 3)],
    }
    return Brief(**{**settings, **changes})


def says(text: str | Callable[[str], str]) -> Callable[[list[Message], Options], Completion]:
    """A writer who answers this, or this function of the current prompt."""

    def author(messages: list[Message], options: Options) -> Completion:
        if isinstance(text, str):
            return Completion(text)
        current = re.search(r"<current>\n(.*?)\n</current>", messages[-1].content, re.DOTALL)
        assert current is not None
        return Completion(f"```\n{text(current[1])}\n```")

    return author


def refusals(text: str | Callable[[str], str], prompt: str = PROMPT, **settings: Any) -> list[str]:
    """Why a writer's proposal was refused, both times if it was tried once more.

    Nothing may have been asked of the task model.
    """
    made = bench(
        author=says(text),
        prompt=prompt,
        depth=WRITERS_ONLY,
        **{"max_demos": 0, **settings},
    )
    proposed = propose(made.context, brief(made, number=1))
    assert made.task.calls == []
    reasons = [event["reason"] for event in made.kinds("candidate_refused")]
    assert len(made.author.calls) == max(1, len(reasons)) <= 2
    assert bool(proposed) is not bool(reasons)
    return list(dict.fromkeys(reasons))


def test_a_good_proposal_is_not_refused() -> None:
    assert refusals("```\nDecide by the rule whether the item is A or B.\n```") == []


@pytest.mark.parametrize("prompt", ["Sort {input} into A or B.", "Item: {input}\n\nAnswer A or B: {input}"])
def test_a_lost_placeholder_is_refused(prompt: str) -> None:
    assert refusals("```\nSort the item into A or B by the rule.\n```", prompt) == ["it loses {input}"]


def test_a_placeholder_of_a_workflow_is_kept_too() -> None:
    prompt = "Answer with {{#start.query#}} in mind."
    assert refusals("```\nAnswer well.\n```", prompt) == ["it loses {{#start.query#}}"]
    assert refusals("```\nAnswer with {{#start.query#}} in mind, well.\n```", prompt) == []


def test_braces_that_are_no_field_are_free_text() -> None:
    assert refusals("```\nAnswer A or B.\n```", 'Answer {"label": "A"} or {other}.') == []


def test_a_placeholder_that_the_original_has_not_is_refused() -> None:
    """Demonstrations lack it, and the answer is never filled in."""
    noted = [replace(e, fields={**e.fields, "note": "n"}) for e in splits_of(32, 60, 20).train]
    splits = replace(splits_of(32, 60, 20), train=tuple(noted))
    for name in ("note", "target"):
        assert refusals(f"```\nSort it, see {{{name}}}.\n```", splits=splits) == [
            f"it asks for {{{name}}}, which the original does not use"
        ]
    # One that only some rows have would fail the others.
    some = replace(splits, train=(*splits.val[:1], *splits.train))
    assert refusals("```\nSort it, see {note}.\n```", splits=some) == [
        "it asks for {note}, which the original does not use"
    ]
    assert refusals("```\nSort this: {input}\n```", splits=splits) == []
    of_fields = refusals("```\nSort {note} or {input}\n```", "Sort {note}.", splits=splits)
    assert of_fields == ["it asks for {input}, which the original does not use"]


@pytest.mark.parametrize(
    ("prompt", "text", "reasons"),
    [
        ("Read.\nItem: {input}\nLabel:", "Of {input}, by the rule:", []),
        ("Read.\nItem: {input}\nLabel:", "Sort {input}.\nItem: {input}", ["it asks for {input} twice"]),
        ("Sort {input}. Again: {input}", "{input} {input}, by the rule.", []),
        ("Sort {input}. Again: {input}", "{input} {input} {input}", ["it asks for {input} 3 times"]),
        ("Sort it.", "Sort {input}: {input}", ["it asks for {input} twice"]),
        ("Of {{#a.b#}}.", "{{#a.b#}}: {{#a.b#}}", ["it asks for {{#a.b#}} twice"]),
    ],
)
def test_a_rewrite_may_move_a_placeholder_but_not_repeat_it(
    prompt: str, text: str, reasons: list[str]
) -> None:
    """Each row would be sent twice, at twice the price."""
    assert refusals(f"```\n{text}\n```", prompt) == reasons


@pytest.mark.parametrize("operator", ["describe", "cues", "recall"])
@pytest.mark.parametrize(
    ("prompt", "reason"),
    [
        ("Decide.\nItem: {input}\nLabel:", "it asks for {input} twice"),
        ("Decide.", "it asks for {input}, which the original does not use"),
    ],
)
def test_what_is_added_asks_for_no_row(operator: OperatorName, prompt: str, reason: str) -> None:
    """Seen of a describer: its answer was the whole prompt, placeholders and all."""
    said = ["A: whatever {input} says of even", "B: the item has an odd number"]
    base = splits_of(32, 60, 20)
    if operator == "cues":  # counted words hold no braces, but the answers that they are typical of may
        colours = (("red", "{input}"), ("blue", "B")) * 16
        pairs = zip(base.train, colours, strict=True)
        base = replace(base, train=tuple(replace(e, input=w, target=t) for e, (w, t) in pairs))
    made = bench(author=says("\n".join(said)), prompt=prompt, depth=WRITERS_ONLY, splits=base)
    asked = brief(made, helped=["Decide of {input}."])
    turn = Turn(
        made.context, asked, operator, made.context.pool.original, Place(0, 0, 0, 2), random.Random(0)
    )
    with pytest.raises(Refused, match=re.escape(reason)):
        draft(turn)


def test_words_are_counted_on_some_of_many_rows() -> None:
    """Each row that an author was told of is named in the run's files."""
    base = splits_of(4000, 60, 20)
    kinds = (("red apple", "A"), ("blue sky", "B")) * 2000
    train = tuple(replace(e, input=w, target=t) for e, (w, t) in zip(base.train, kinds, strict=True))
    made = bench(splits=replace(base, train=train))
    place = Place(0, 0, 0, told=2)
    turn = Turn(made.context, brief(made), "cues", made.context.pool.original, place, random.Random(0))
    proposed = draft(turn)
    assert "A: red apple" in proposed.prompt
    assert len(proposed.told) == 2000


def test_lines_may_be_added_to_a_text_that_a_writer_had_ask_for_the_row() -> None:
    made = bench()
    parent = made.context.add(Candidate({"prompt": "Sort this: {input}"}))
    turn = Turn(
        made.context, brief(made, helped=["Mind it."]), "recall", parent, Place(0, 0, 0), random.Random()
    )
    assert draft(turn).prompt == "Mind it.\nSort this: {input}"


def test_a_touched_locked_passage_is_refused() -> None:
    locked = ("whether the item is A or B",)
    assert refusals("```\nDecide if it is A or B.\n```", locked=locked) == [f"it loses {locked[0]}"]
    assert refusals("```\nSay whether the item is A or B.\n```", locked=locked) == []


def test_a_proposal_that_is_too_long_is_refused() -> None:
    (reason,) = refusals("```\n" + "long " * 200 + "\n```", max_prompt_tokens=100)
    assert reason == "it has about 250 tokens, more than max_prompt_tokens=100"


def test_a_proposal_that_quotes_train_is_refused() -> None:
    text = "the quick brown fox jumps over the lazy dog tonight"
    base = splits_of(32, 60, 20)
    quoted = replace(base, train=(Example("x", text, "A", {"input": text, "target": "A"}), *base.train))
    (reason,) = refusals(f"```\nFor example, {text.upper()} is A.\n```", splits=quoted)
    assert reason.startswith("it copies a train row: the quick brown fox")
    assert refusals("```\nThe quick brown fox is A.\n```", splits=quoted) == []
    # What the original says itself is no copy.
    assert refusals(f"```\n{text} is A, by the rule.\n```", prompt=f"{text} is A.", splits=quoted) == []


class Read(str):
    """An input that counts how often it is looked at."""

    __slots__ = ()
    times = 0

    def casefold(self) -> str:
        Read.times += 1
        return super().casefold()


def test_train_is_read_once_for_all_proposals() -> None:
    base = splits_of(32, 60, 20)
    made = bench(splits=replace(base, train=tuple(replace(row, input=Read(row.input)) for row in base.train)))
    Read.times = 0
    for rule in ("Mind the rule.", "Take care.", "Read twice."):
        check_text(made.context, PROMPT, PROMPT, f"{PROMPT} {rule}")
    assert Read.times == 32


@pytest.mark.parametrize(
    "row",
    [
        "昨天我在网上看到这条新闻标题感到非常惊讶",
        "मुझे कल से बिजली नहीं मिल रही है और कोई जवाब नहीं देता",
    ],
)
def test_a_row_in_another_script_may_be_quoted_in_part(row: str) -> None:
    base = splits_of(32, 60, 20)
    quoted = replace(base, train=(Example("x", row, "A", {"input": row, "target": "A"}), *base.train))
    assert refusals(f"```\n判断：{row[:18]}。\n```", splits=quoted) == []
    assert refusals(f"```\n判断：{row}: A\n```", splits=quoted) == [f"it copies a train row: {row}"]


def test_a_placeholder_of_the_parent_is_kept() -> None:
    made = bench(author=says("```\nSort it by the rule.\n```"), depth=WRITERS_ONLY, max_demos=0)
    parent = made.context.add(Candidate({"prompt": "Sort this by {input}: {{#a.b#}}"}))
    first = brief(made, number=1)
    parent.scores = dict.fromkeys(made.context.plan.race_ids, 1.0)
    parent.status = "accepted"
    assert propose(made.context, replace(first, incumbent=parent.candidate.id)) == []
    refused = made.kinds("candidate_refused")[0]["reason"]
    assert refused == "it loses {input}, {{#a.b#}}"
    assert "exactly as they are: {input} {{#a.b#}}" in made.author.calls[0][-1].content


def test_our_own_words_to_the_writer_are_refused() -> None:
    """A small model often hands back what it was told."""
    ours = [*phrases(), *layout_phrases()]
    told = [p for p in ours if "```" not in p and len(re.findall("[a-z]+|[\u4e00-\u9fff]{2}", p)) >= 5]
    assert len(told) > 20
    for phrase in told:
        assert refusals(f"```\nSay A or B.\n{phrase.upper()}\n```") == [
            "it repeats the instructions to the writer"
        ]


def test_what_the_prompt_says_itself_is_no_echo() -> None:
    phrase = max(phrases(), key=len)
    assert refusals(f"```\n{phrase} Mind the rule.\n```", prompt=phrase) == []


def test_an_answer_without_a_prompt_is_refused() -> None:
    assert refusals("```\n\n```") == ["the answer contains no prompt"]
    blanks = "```\n" + PROMPT.replace(" ", "\n", 1) + "\n```"
    assert refusals(blanks) == ["it says the same as the prompt"]


def test_a_cut_answer_is_refused() -> None:
    def author(messages: list[Message], options: Options) -> Completion:
        return Completion("```\nDecide by the rule whether the", finish_reason="length")

    made = bench(author=author, depth=WRITERS_ONLY, max_demos=0)
    assert propose(made.context, brief(made, number=1)) == []
    assert [e["reason"] for e in made.kinds("candidate_refused")] == [
        "the answer was cut because it was too long"
    ] * 2


def test_half_of_a_character_is_refused() -> None:
    """The half of an emoji that a model's tokens broke off has no form in a file."""
    assert refusals("```\nMind the rule. \ud83d\n```") == [
        "it contains half of a surrogate pair, which is not a character"
    ]


def test_a_writer_that_only_describes_leaves_prompts_as_they_are() -> None:
    """What is refused leaves its place, and its number of demonstrations, to a set."""
    depth = DEPTHS["standard"].describing(has_labels=False)
    made = bench(author=says("Nothing."), splits=splits_of(100, 60, 0), depth=depth)
    proposed = propose(made.context, brief(made, number=5))
    assert [event["operator"] for event in made.kinds("candidate_refused")] == ["cues", "cues", "describe"]
    assert len(made.author.calls) == 1
    shown = [(candidate.operator, len(candidate.demos)) for candidate in proposed]
    assert shown == [("demos", 16), ("demos", 64), ("demos", 32), ("demos", 90), ("demos", 16)]
    assert {candidate.prompt for candidate in proposed} == {PROMPT}


def test_words_that_are_counted_always_bring_demonstrations_along() -> None:
    """No text is written here, and in the end `strip` tries the words alone."""
    depth = replace(DEPTHS["standard"].describing(has_labels=True), candidates=8)
    rows = [replace(row, input=f"{row.input} {row.target} said") for row in splits_of(100, 60, 0).train]
    made = bench(splits=replace(splits_of(100, 60, 0), train=tuple(rows)), depth=depth)
    told = [c for c in propose(made.context, brief(made, number=8)) if c.operator == "cues"]
    assert [len(candidate.demos) for candidate in told] == [16, 32, 16]
    assert all("Words that are typical of each answer:" in candidate.prompt for candidate in told)


def test_a_set_that_is_refused_leaves_its_size_to_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """As where the endpoint takes no prompt so long: the next one is shorter."""

    def check(context: SearchContext, candidate: Candidate, others: list[Candidate]) -> None:
        if len(candidate.demos) == 64:
            raise Refused("too long")

    monkeypatch.setattr(proposing, "check_candidate", check)
    made = bench(splits=splits_of(100, 60, 0), depth=replace(WRITERS_ONLY, writers=0))
    proposed = propose(made.context, brief(made, number=4))
    assert [len(candidate.demos) for candidate in proposed] == [16, 32, 90]


def test_the_same_text_again_is_refused() -> None:
    assert refusals(lambda current: current) == ["it says the same as the prompt"]
    made = bench(author=says("```\nAlways this.\n```"), depth=WRITERS_ONLY, max_demos=0)
    assert len(propose(made.context, brief(made))) == 1
    again = [e["reason"] for e in made.kinds("candidate_refused") if e["operator"] in ("patch", "rewrite")]
    assert set(again) == {"it was tried before"}


def test_candidates_are_new_different_and_drawn_alike_again() -> None:
    def round_() -> list[Candidate]:
        made = bench(max_iterations=1)
        candidates = propose(made.context, brief(made, number=8))
        assert made.task.calls == []
        assert [e["id"] for e in made.kinds("candidate_proposed")] == [c.id for c in candidates]
        assert not any(c.id in made.context.pool for c in candidates)
        return candidates

    first = round_()
    assert len({c.id for c in first}) == len(first) > 4
    assert {"demos", "demos_errors"} < {c.operator for c in first}
    assert round_() == first


def test_demonstrations_are_of_train_and_fit_the_limits() -> None:
    made = bench(max_demos=20, max_prompt_tokens=150)
    candidates = propose(made.context, brief(made, number=8))
    train = {e.id for e in made.context.splits.train}
    shown = [c for c in candidates if c.demos]
    assert shown
    for candidate in shown:
        assert len(candidate.demos) <= 20
        assert {d.example_id for d in candidate.demos} <= train
        tokens = estimate_tokens(candidate.prompt)
        tokens += sum(estimate_tokens(d.input) + estimate_tokens(d.output) for d in candidate.demos)
        assert tokens <= 150
        assert candidate.change.demos == len(candidate.demos)


def sets_behind_the_naive_prompt(**settings: Any) -> list[tuple[Demo, ...]]:
    made = bench(**settings)
    candidates = propose(made.context, brief(made, number=12))
    naive = made.context.pool.original.candidate.prompt
    return [c.demos for c in candidates if c.operator == "demos" and c.prompt == naive]


def test_on_a_server_no_two_sets_begin_alike() -> None:
    sets = sets_behind_the_naive_prompt()
    assert len({demos[:2] for demos in sets}) == len(sets) > 3


def test_demonstrations_behind_one_text_begin_alike() -> None:
    """The embedded model reads the beginning once; what comes behind it keeps the sets different."""
    sets = sets_behind_the_naive_prompt(traits=Traits(is_slow=True, rereads_prefix=True))
    assert len(sets) > 3
    for a, b in combinations(sets, 2):
        shared = int(min(len(a), len(b)) * SHARED)
        assert a[:shared] == b[:shared]
        if len(a) == len(b):
            assert a[shared:] != b[shared:]
    assert len({len(demos) for demos in sets[1:]}) == 1  # so that there are some of one length


def test_without_demonstrations_only_texts_are_proposed() -> None:
    made = bench(max_demos=0)
    assert {c.operator for c in propose(made.context, brief(made))} <= {"patch", "rewrite"}


def test_what_helped_is_recalled_all_together_and_then_one_by_one() -> None:
    made = bench(max_demos=0, depth=replace(WRITERS_ONLY, writers=0))
    helped = ["Mind (+1).", "说了一半……", "What did harm: x.", "Decide whether\n the item is A or B."]
    candidates = propose(made.context, brief(made, helped=helped, number=8))
    assert [c.operator for c in candidates] == ["recall"] * 4
    texts = [c.prompt.removeprefix(PROMPT + "\n") for c in candidates]
    assert texts == ["\n".join(helped[:3]), *helped[:3]]
    assert candidates[1].change == Change(added="Mind (+1).")


@pytest.mark.parametrize("operator", ["recall", "patch"])
def test_what_is_added_stands_before_the_row(operator: OperatorName) -> None:
    """It is said once then, and not with each demonstration."""
    made = bench(author=says("ADD: Mind it."), prompt="Item: {input}\nLabel:", depth=WRITERS_ONLY)
    settings = brief(made, helped=["Mind it."])
    original, place = made.context.pool.original, Place(0, 0, 0)
    turn = Turn(made.context, settings, operator, original, place, random.Random())
    assert draft(turn).prompt == "Mind it.\nItem: {input}\nLabel:"


def test_rows_that_a_description_was_made_from_are_told_to_who_hands_it_on() -> None:
    """They are no fresh rows for a prompt that was made of their description."""
    change = Change(added="A: the item is even. B: it is odd.")
    texts: dict[OperatorName, dict[str, Any]] = {
        "recall": {"helped": [change.added]},
        "rewrite": {"experiences": [Lesson(change, "better", 0.2, 40)]},
    }
    for operator, known in texts.items():
        made = bench(author=says("```\nSay A or B, even or odd.\n```"), depth=WRITERS_ONLY, max_demos=0)
        settings = brief(made, **known)
        for number, (name, row) in enumerate({"describe": "r3", "cues": "r4", "patch": "r5"}.items()):
            said = change if name != "patch" else Change(added="Another.")
            made.context.add(Candidate({"prompt": f"{number}"}, operator=name, change=said, told=(row,)))
        original, place = made.context.pool.original, Place(0, 0, 0)
        turn = Turn(made.context, settings, operator, original, place, random.Random())
        assert draft(turn).told == (("r1", "r2", "r3") if operator == "rewrite" else ("r3",))


def test_what_the_writer_is_told_is_not_read_as_sentences_to_recall() -> None:
    made = bench(max_demos=0, depth=replace(WRITERS_ONLY, writers=0))
    told = [Lesson(Change(added="Mind the rule."), "better", 0.2, 40)]
    assert propose(made.context, brief(made, experiences=told)) == []


def test_a_second_description_is_told_in_place_of_the_first_before_the_row() -> None:
    first = "Which answer is right when:\nA: the item is even\nB: the item is odd"
    second = first.replace("the item is", "its number is")
    prompt = "Decide.\n{}\nItem: {{input}}\nLabel:"
    made = bench(author=lambda m, o: Completion(second.split("\n", 1)[1]), prompt=prompt.format(first))
    asked = brief(made)
    turn = Turn(
        made.context, asked, "describe", made.context.pool.original, Place(0, 0, 0, 2), random.Random(0)
    )
    assert draft(turn).components["prompt"] == prompt.format(second)


def test_only_one_of_two_components_is_rewritten_at_a_time() -> None:
    made = bench(program=TwoPrompts(), max_demos=0, depth=WRITERS_ONLY)
    original = dict(TwoPrompts.components)
    candidates = [c for n in range(1, 5) for c in propose(made.context, brief(made, iteration=n))]
    changed = [[n for n in original if c.components[n] != original[n]] for c in candidates]
    assert {tuple(names) for names in changed} == {("look",), ("answer",)}
    for call in made.author.calls:
        assert sum(f"<current>\n{text}\n" in call[-1].content for text in original.values()) == 1


def test_a_writer_that_fails_costs_its_proposal_and_only_that() -> None:
    def author(messages: list[Message], options: Options) -> Any:
        raise RequestRefusedError("no answer", status=400)

    made = bench(author=author)
    candidates = propose(made.context, brief(made, number=6))
    assert candidates
    assert all(c.demos for c in candidates)
    assert "no answer" in made.kinds("warning")[0]["message"]


def test_a_writer_that_fails_where_nothing_else_is_possible_is_raised() -> None:
    def author(messages: list[Message], options: Options) -> Any:
        raise RequestRefusedError("no answer", status=400)

    made = bench(author=author, max_demos=0)
    with pytest.raises(RequestRefusedError, match="no answer"):
        propose(made.context, brief(made))


def test_a_fatal_failure_is_raised_at_once() -> None:
    def author(messages: list[Message], options: Options) -> Any:
        raise EndpointError("gone", is_fatal=True)

    made = bench(author=author)
    with pytest.raises(EndpointError, match="gone"):
        propose(made.context, brief(made, number=8))


def test_what_the_fakes_call_a_row() -> None:
    assert number_of([Message("user", "item 12")]) == 12


def lost_and_found(first_tries: int) -> Bench:
    """A bench whose writer loses a locked passage in so many first tries, and never in a second one."""
    lock = threading.Lock()
    tries = itertools.count()

    def author(messages: list[Message], options: Options) -> Completion:
        with lock:
            number = next(tries)
        if number < first_tries:
            return Completion(f"```\nSort them by rule {number}.\n```")
        return Completion(f"```\nDecide whether the item is A or B, by rule {number}.\n```")

    few = splits_of(6, 60, 0)  # too few to say what the answers mean: all drafts are rewrites
    made = bench(author=author, depth=WRITERS_ONLY, max_demos=0, splits=few)
    made.context.settings = replace(made.context.settings, locked=("whether the item is A or B",))
    return made


def told_why(made: Bench) -> list[bool]:
    """Which calls of the writer said why the last version was refused."""
    said = "Your last version was refused: it loses whether the item is A or B."
    return [said in call[-1].content for call in made.author.calls]


@pytest.mark.parametrize("refused", [0, 1, 3])
def test_each_refused_draft_is_tried_once_more_with_the_reason(refused: int) -> None:
    """All drafts but the last are asked for at once, so their second tries come behind them."""
    made = lost_and_found(refused)
    proposed = propose(made.context, brief(made))
    assert len(proposed) == 4
    assert told_why(made) == [False] * 3 + [True] * refused + [False]
    assert len(made.kinds("candidate_refused")) == refused


def test_a_second_try_that_is_refused_is_the_last() -> None:
    made = lost_and_found(99)
    assert propose(made.context, brief(made)) == []
    assert told_why(made) == [False] * 3 + [True] * 3 + [False, True]
    assert len(made.kinds("candidate_refused")) == 8


@pytest.mark.parametrize(("room", "tried"), [(0, 0), (1, 1), (3, 3), (9, 3)])
def test_second_tries_cost_the_race_one_candidate_at_most(room: int, tried: int) -> None:
    made = lost_and_found(3)
    budget = made.context.budget
    budget.max_calls = budget.spent.calls + 4 + race_cost(3, made.context.plan) + room
    propose(made.context, brief(made))
    assert told_why(made) == [False] * 3 + [True] * tried + [False]


@pytest.mark.parametrize("writers", [2, 4])
def test_a_text_in_place_of_a_description_has_its_second_try_within_the_calls_of_a_round(
    writers: int,
) -> None:
    made = lost_and_found(99)
    depth = replace(WRITERS_ONLY, writers=writers)
    made.context.settings = replace(made.context.settings, depth=depth)
    made.context.splits = splits_of(100, 60, 0)
    assert propose(made.context, brief(made, number=8)) == []
    refused = [event["operator"] for event in made.kinds("candidate_refused")]
    assert {"describe", "rewrite"} <= set(refused)
    assert len(made.author.calls) <= depth.most_writings
    firsts, seconds = (told_why(made).count(again) for again in (False, True))
    assert seconds == firsts - refused.count("describe") == depth.writings // 2


def test_a_second_try_without_tokens_left_leaves_the_other_drafts() -> None:
    made = lost_and_found(1)
    written = made.context.rewriting.rewrite

    def rewrite(*values: Any, **named: Any) -> Proposal:
        if named["refused"]:
            raise BudgetExhausted("no tokens are left")
        return written(*values, **named)

    made.context.rewriting.rewrite = rewrite  # type: ignore[method-assign]
    assert len(propose(made.context, brief(made))) == 3
    assert len(made.kinds("candidate_refused")) == 1


def test_a_draft_that_the_file_cannot_hold_is_tried_once_more() -> None:
    made = bench(author=says("```\nDecide by {rule}.\n```"), depth=WRITERS_ONLY, max_demos=0)

    def check(candidate: Candidate) -> None:
        if "{rule}" in candidate.prompt:
            raise InputError("the text of program adds {rule}")

    made.context.check_writable = check
    propose(made.context, brief(made, number=1))
    said = "refused: it cannot be written to the file: the text of program adds {rule}."
    assert [said in call[-1].content for call in made.author.calls] == [False, True]
