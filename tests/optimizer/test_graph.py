"""The graph's shape and its one decision."""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path
from typing import Any, get_args

import pytest
from fakes import PROMPT, Bench, World, bench, splits_of

from autoprompt.llm.client import Completion
from autoprompt.optimizer.context import AutoPromptState
from autoprompt.optimizer.graph import (
    Route,
    _should_continue,
    build_graph,
    first_state,
    recursion_limit,
)

PAGE = (Path(__file__).parents[2] / "docs" / "state.md").read_text(encoding="utf-8")


def decide(**changes: Any) -> str:
    state: dict[str, Any] = {
        "iteration": 1,
        "max_iterations": 3,
        "stop_reason": "",
        "analysis": {"has_errors": True},
        "dataset": {"sizes": {"train": 4, "val": 4, "test": 4}},
        "pending": [],
        "original": "a",
        "incumbent": "a",
    }
    return _should_continue({**state, **changes})  # type: ignore[typeddict-item]


def drawn() -> set[tuple[str, str, str]]:
    """Edges of the page's drawing: from, to, and the way that the decision takes."""
    ends = {"START": "__start__", "END": "__end__"}
    edges: set[tuple[str, str, str]] = set()
    before = ""
    for line in PAGE.partition("```\n")[2].partition("```")[0].splitlines():
        first, *names = [name.strip("│├└ ") for name in line.split("→")]
        names = [ends.get(name, name) for name in names]
        if first == "START":
            assert names.pop() == "_should_continue"
            chain, before = [ends[first], *names], names[-1]
        else:
            chain = names
            edges.add((before, names[0], first))
        edges |= {(a, b, "") for a, b in pairwise(chain)}
    return edges


def test_the_page_draws_the_graph() -> None:
    edges = build_graph().get_graph().edges
    assert drawn() == {(e.source, e.target, str(e.data or e.target) if e.conditional else "") for e in edges}


def documented(*facts: bool) -> str:
    """The way in the page's table. facts: in the order of its columns."""
    table = re.findall(r"^\| (yes|no) \|(.*)\|(.*)\| `(\w+)` \|$", PAGE, re.MULTILINE)
    assert {way for *_, way in table} == set(get_args(Route))
    words = ["yes" if fact else "no" for fact in facts]
    found = {
        way
        for *cells, way in table
        if all(cell.strip() in ("", word) for cell, word in zip(cells, words, strict=True))
    }
    (way,) = found  # one row is about each case
    return way


@pytest.mark.parametrize("iteration", [1, 2, 3])
@pytest.mark.parametrize("stop_reason", ["", "max_calls", "patience"])
@pytest.mark.parametrize("has_errors", [True, False])
@pytest.mark.parametrize("tests", [4, 0])
@pytest.mark.parametrize("pending", [[], ["b"]])
@pytest.mark.parametrize("incumbent", ["a", "b"])
def test_the_way_is_the_one_in_the_pages_table(
    iteration: int, stop_reason: str, has_errors: bool, tests: int, pending: list[str], incumbent: str
) -> None:
    way = decide(
        iteration=iteration,
        stop_reason=stop_reason,
        analysis={"has_errors": has_errors},
        dataset={"sizes": {"train": 4, "val": 4, "test": tests}},
        pending=pending,
        incumbent=incumbent,
    )
    goes_on = iteration < 3 and not stop_reason
    assert way == documented(goes_on, has_errors, tests > 0 or bool(pending) or incumbent != "a")


def test_every_field_of_the_state_is_documented() -> None:
    section = PAGE.partition("## The state")[2].partition("\n## ")[0]
    told = re.findall(r"^\| `(\w+)` \| (.+) \|$", section, re.MULTILINE)
    assert [name for name, _ in told] == list(AutoPromptState.__annotations__)


def run(made: Bench) -> AutoPromptState:
    sizes = made.context.splits.sizes
    state = first_state(made.context, {"path": "", "sha256": "", "split_seed": 0, "sizes": sizes})
    settings: Any = {"recursion_limit": recursion_limit(made.context.settings.max_iterations)}
    final: Any = build_graph().invoke(state, settings, context=made.context)
    return final


def nodes_of(made: Bench) -> list[str]:
    return [event["node"] for event in made.kinds("node_started")]


def test_one_iteration_proposes_and_settles_one_round_of_candidates() -> None:
    made = bench(World(base=0.2, demo_gain=0.7).student, max_iterations=1)
    final = run(made)
    assert nodes_of(made) == ["predict", "analyze", "rewrite", "memory", "final_predict"]
    proposed = {event["id"] for event in made.kinds("candidate_proposed")}
    assert proposed == {event["id"] for event in made.kinds("candidate_settled")} != set()
    assert final["tried"] == len(proposed)
    assert final["pending"] == []
    assert final["incumbent"] != final["original"]
    assert final["memory_experiences"]  # its lessons were drawn, too


@pytest.mark.parametrize("iterations", [1, 2, 5, 9])
def test_the_recursion_limit_is_enough_for_the_longest_run(iterations: int) -> None:
    made = bench(World(base=0.4).student, max_iterations=iterations, splits=splits_of(20, 20, 5))
    run(made)
    assert recursion_limit(iterations) >= 5 * iterations


def test_an_all_correct_prompt_ends_early_and_asks_no_optimizer() -> None:
    made = bench(World(base=1.0).student)
    final = run(made)
    assert nodes_of(made) == ["predict", "analyze", "rewrite", "memory", "final_predict"]
    assert made.author.calls == []
    assert final["tried"] == 0
    assert final["test"]["best"] == final["test"]["original"]
    assert final["test"]["best"]["correct"] == 20


def test_an_all_correct_prompt_without_a_test_ends_before_final_predict() -> None:
    made = bench(World(base=1.0).student, splits=splits_of(32, 60, 0))
    final = run(made)
    assert nodes_of(made) == ["predict", "analyze", "rewrite", "memory"]
    assert final["test"] == {}


def test_a_prompt_that_is_right_on_train_and_wrong_on_val_is_not_called_perfect() -> None:
    def student(messages: Any, options: Any) -> Any:
        number = int(messages[-1].content.split()[-1])
        return World(base=1.0 if number < 32 else 0.5).student(messages, options)

    made = bench(student)
    final = run(made)
    assert final["tried"] > 0


def test_patience_ends_a_search_that_finds_nothing() -> None:
    made = bench(
        lambda m, o: Completion("A"), lambda m, o: "this is no better prompt " * 3, max_iterations=20
    )
    final = run(made)
    assert final["stop_reason"] == "patience"
    assert final["incumbent"] == final["original"]
    assert final["iteration"] == 1 + made.context.settings.depth.patience


def test_rounds_without_a_proposal_are_rounds_that_find_nothing() -> None:
    """A writer that only repeats the prompt: the rounds end by patience, not at the last of twenty."""
    made = bench(author=lambda m, o: Completion(f"```\n{PROMPT}\n```"), max_iterations=20, max_demos=0)
    final = run(made)
    assert made.kinds("candidate_proposed") == []
    assert final["stop_reason"] == "patience"
    assert final["iteration"] == 1 + made.context.settings.depth.patience
