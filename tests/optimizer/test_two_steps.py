"""A program of two prompts through the whole optimization: blame, demonstrations, locks."""

from __future__ import annotations

import random
import re
from typing import Any

from fakes import TwoSteps, bench, splits_of, two_steps_student, writer

from autoprompt.llm import ScriptedClient
from autoprompt.llm.client import Completion, Options
from autoprompt.measure.program import component_diffs, render_candidate
from autoprompt.optimizer.agents.analyst import AnalysisAgent, read_rules
from autoprompt.optimizer.graph import build_graph, first_state, recursion_limit
from autoprompt.optimizer.propose.brief import Brief, Place, Turn
from autoprompt.optimizer.propose.drafts import draft
from autoprompt.optimizer.propose.refusal import Refused
from autoprompt.optimizer.search.plan import make_plan
from autoprompt.records import Candidate, Demo, EvaluatedRow, Message, Step, Usage

FIND, JUDGE = "find.system", "judge.system"


def author(messages: list[Message], options: Options) -> Completion:
    """An analyst who sees that the finder errs; the writer of the other tests."""
    if "<current>" in messages[-1].content:
        return writer(messages, options)
    return Completion(f"[{FIND}] The mark follows a rule.\n- {JUDGE}: Say only the label.")


def made(**settings: Any) -> Any:
    splits = splits_of(48, 80, 30)
    settings.setdefault("max_iterations", 4)
    student = ScriptedClient(two_steps_student)
    return bench(
        two_steps_student,
        author,
        program=TwoSteps(student),
        splits=splits,
        plan=make_plan(splits.val, calls_per_row=2),
        **settings,
    )


def run(world: Any) -> dict[str, Any]:
    return states(world)[-1]


def states(world: Any) -> list[dict[str, Any]]:
    """The state after each node."""
    context = world.context
    state = first_state(context, {"sizes": context.splits.sizes})
    config: Any = {"recursion_limit": recursion_limit(context.settings.max_iterations)}
    return [dict(s) for s in build_graph().stream(state, config, context=context, stream_mode="values")]


def test_the_component_that_errs_is_mended() -> None:
    world = made()
    final = run(world)
    best = world.context.pool[final["incumbent"]].candidate
    assert FIND in best.changed_since(world.context.pool.original.candidate)
    assert final["test"]["best"]["correct"] > final["test"]["original"]["correct"] + 5


def test_every_candidate_changes_one_component() -> None:
    world = made()
    run(world)
    pool = world.context.pool
    changed = set()
    for entry in pool.entries[1:]:
        found = entry.candidate.changed_since(pool[entry.candidate.parents[0]].candidate)
        assert len(found) == 1
        assert entry.candidate.change.component == found[0]
        changed |= set(found)
    assert changed == {FIND, JUDGE}


def test_the_analyst_sees_what_each_step_got_and_gave() -> None:
    world = made()
    first = next(state for state in states(world) if state["analysis"])
    request = next(c[-1].content for c in world.author.calls if "Rows that ended wrong" in c[-1].content)
    assert "[find.system]\nFind the mark." in request
    assert re.search(r"\[find\.system\] got: item \d+ -> gave: (round|square)", request)
    assert re.search(r"\[judge\.system\] got: (round|square) -> gave: [AB]", request)
    entry = world.kinds("analysis")[0]
    assert entry["blame"][FIND] >= 0.25
    steps = first["analysis"]["error_cases"][0]["steps"]
    assert [step["node"] for step in steps] == ["find", "judge"]


def test_the_writer_sees_its_own_step_and_the_goal() -> None:
    world = made(max_demos=0)
    run(world)
    requests = [c[-1].content for c in world.author.calls if "<current>\nFind" in c[-1].content]
    assert requests
    assert "one step of a program whose goal is: Decide whether the item is A or B." in requests[0]
    block = r"Input: item \d+\nIts answer: [AB]\nRight answer: [AB]\n"
    assert re.search(rf"{block}(Probability.*\n)?Step find\.system: got item \d+ and gave \w+\n", requests[0])
    assert "The mark follows a rule." in requests[0]
    assert "Say only the label." not in requests[0]


def test_a_locked_component_is_never_changed() -> None:
    world = made(locked_components=frozenset({FIND}))
    run(world)
    for entry in world.context.pool.entries:
        assert entry.candidate.components[FIND] == "Find the mark."
        assert entry.candidate.demos_of(FIND) == ()


def test_demonstrations_belong_to_a_component_and_come_from_train() -> None:
    worlds = [made(seed=seed) for seed in (0, 1)]  # one alone may draw them for one component
    for world in worlds:
        run(world)
    train = {e.id for e in worlds[0].context.splits.train}
    shown = [e.candidate for world in worlds for e in world.context.pool.entries if e.candidate.demos]
    assert {d.component for c in shown for d in c.demos} == {FIND, JUDGE}
    for candidate in shown:
        for demo in candidate.demos:
            assert demo.example_id in train
            outputs = {"round", "square"} if demo.component == FIND else {"A", "B"}
            assert demo.output in outputs


def test_a_resumed_pool_has_the_same_ids() -> None:
    demos = (Demo("item 1", "round", "r1", FIND), Demo("round", "A", "r1", JUDGE))
    candidate = Candidate({FIND: "a", JUDGE: "b"}, demos)
    assert Candidate.from_dict(candidate.to_dict()) == candidate
    swapped = tuple(Demo(d.input, d.output, d.example_id, FIND) for d in demos)
    assert Candidate({FIND: "a", JUDGE: "b"}, swapped).id != candidate.id


def test_ids_of_single_prompts_stay_the_same() -> None:
    assert Candidate({"prompt": "Judge."}, (Demo("in", "out", "r1"),)).id == "23a5ff2cf36e"
    assert Candidate({"prompt": "Judge."}).id == "41ad04108e5b"


def test_rules_are_read_with_their_prompts_names() -> None:
    answer = "[a.user] One.\n2. a.user2: Two.\n- **a.user** - Three.\nNothing of note.\n[b.user] Four."
    assert read_rules(answer, ("a.user", "a.user2")) == {"a.user": ["One.", "Three."], "a.user2": ["Two."]}


def test_an_analyst_who_names_no_step_still_analyses() -> None:
    row = EvaluatedRow("r", "item", "B", "A", False, 0.0, trace=(Step("find", (FIND,), "item", "B"),))
    agent = AnalysisAgent(ScriptedClient(["It is all wrong."]))
    analysis = agent.analyze_steps("Sort.", {FIND: "Find.", JUDGE: "Judge."}, [row])
    assert (analysis["suggestions"], analysis["rules"]) == ("It is all wrong.", {})
    assert analysis["error_cases"][0]["steps"] == [{"node": "find", "input": "item", "output": "B"}]


def test_each_changed_component_is_a_diff_under_its_name() -> None:
    original = Candidate({FIND: "Find the mark.", JUDGE: "Judge it.", "end.user": "Say it."})
    best = Candidate(
        {**original.components, FIND: "Find the mark.\nMind the rule."}, (Demo("round", "A", "r1", JUDGE),)
    )
    diff = component_diffs(original, best)
    assert "--- find.system (original)\n+++ find.system (best)" in diff
    assert "+Mind the rule." in diff
    assert "+++ judge.system (best)" in diff
    assert "+User: round" in diff
    assert "end.user" not in diff
    text = render_candidate(best)
    assert text.startswith(
        "[find.system]\nFind the mark.\nMind the rule.\n\n[judge.system]\nJudge it.\n\n--- 1 dem"
    )


def test_who_tells_of_rows_that_ended_right_has_looked_at_the_others_too() -> None:
    """What is told of a step comes from rows that ended right: the others of that look are no fair sample."""
    said = "round: items that roll\nsquare: items that stand\nA: round\nB: square"
    made = bench(
        author=lambda m, o: Completion(said, Usage(9, 9)),
        splits=splits_of(60, 28, 0),
        program=TwoSteps(ScriptedClient(two_steps_student)),
    )
    first_state(made.context, {})
    original = made.context.pool.original
    looked = made.context.ask([(original.candidate, made.context.splits.train[:32])])[0].rows
    assert 4 < sum(row.is_correct for row in looked) < 28
    brief = Brief(1, original.candidate.id, 4, {}, (), {}, looked, seen=looked)
    found = 0
    for draw in range(12):
        turn = Turn(made.context, brief, "describe", original, Place(draw, 0, 0, 2), random.Random(draw))
        try:
            candidate = draft(turn)
        except Refused:
            continue
        if FIND in candidate.changed_since(original.candidate):
            found += 1
            assert {row.example_id for row in looked} <= set(candidate.told)
    assert found
