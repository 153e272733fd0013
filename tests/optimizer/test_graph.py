"""The graph's shape and its one decision."""

from __future__ import annotations

import re
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

PAGE = (Path(__file__).parents[2] / "docs" / "optimizer.md").read_text(encoding="utf-8")


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


NO_TEST = {"sizes": {"train": 4, "val": 4, "test": 0}}
NO_ERRORS = {"has_errors": False}


@pytest.mark.parametrize(
    ("changes", "route"),
    [
        ({}, "continue"),
        ({"iteration": 2}, "continue"),
        ({"dataset": NO_TEST}, "continue"),
        ({"iteration": 3}, "final_predict"),
        ({"iteration": 4}, "final_predict"),
        ({"iteration": 1, "max_iterations": 1}, "final_predict"),
        ({"stop_reason": "max_calls"}, "final_predict"),
        ({"stop_reason": "patience", "dataset": NO_TEST}, "final_predict"),
        ({"iteration": 3, "dataset": NO_TEST, "analysis": NO_ERRORS}, "final_predict"),
        ({"analysis": NO_ERRORS}, "final_predict"),
        ({"analysis": NO_ERRORS, "dataset": NO_TEST}, "end"),
        ({"analysis": NO_ERRORS, "dataset": NO_TEST, "pending": ["b"]}, "final_predict"),
        ({"analysis": NO_ERRORS, "dataset": NO_TEST, "incumbent": "b"}, "final_predict"),
    ],
)
def test_should_continue(changes: dict[str, Any], route: str) -> None:
    assert decide(**changes) == route


def test_the_shape_is_the_documented_one() -> None:
    graph = build_graph().get_graph()
    assert set(graph.nodes) == {
        "__start__",
        "predict",
        "analyze",
        "rewrite",
        "memory",
        "increment_iteration",
        "final_predict",
        "__end__",
    }
    assert {(e.source, e.target, e.data if e.conditional else None) for e in graph.edges} == {
        ("__start__", "predict", None),
        ("predict", "analyze", None),
        ("analyze", "rewrite", None),
        ("rewrite", "memory", None),
        ("memory", "increment_iteration", "continue"),
        ("memory", "final_predict", None),
        ("memory", "__end__", "end"),
        ("increment_iteration", "predict", None),
        ("final_predict", "__end__", None),
    }


def test_the_page_draws_the_graph_and_documents_each_way_out_of_the_decision() -> None:
    drawing = PAGE.partition("```\n")[2].partition("```")[0]
    assert set(build_graph().get_graph().nodes) - {"__start__", "__end__"} <= set(re.findall(r"\w+", drawing))
    for route in get_args(Route):
        assert route in drawing
        assert re.search(rf"^\| `{route}` \| .{{20,}} \|$", PAGE, re.MULTILINE)


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
    made = bench(World(base=0.5, rule_gain=0.0).student, lambda m, o: "no better prompt", max_iterations=20)
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
