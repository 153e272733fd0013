"""The graph of the optimization: the state it begins with, its nodes, edges and the one decision.

START -> predict -> analyze -> rewrite -> memory -> _should_continue(state)
                                                    |- "continue"      -> increment_iteration -> predict
                                                    |- "final_predict" -> final_predict -> END
                                                    `- "end"           -> END
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from langgraph.graph import END, START, StateGraph

from autoprompt.optimizer import nodes
from autoprompt.optimizer.context import AutoPromptState, SearchContext
from autoprompt.optimizer.lessons import earlier_lessons
from autoprompt.records import Candidate

if TYPE_CHECKING:
    from collections.abc import Hashable

    from langgraph.checkpoint.base import BaseCheckpointSaver
    from langgraph.graph.state import CompiledStateGraph

Route = Literal["continue", "final_predict", "end"]
_TARGETS: dict[Hashable, str] = {
    "continue": "increment_iteration",
    "final_predict": "final_predict",
    "end": END,
}

STEPS_PER_ITERATION = 5  # predict, analyze, rewrite, memory, increment_iteration


def first_state(context: SearchContext, dataset: dict[str, Any]) -> AutoPromptState:
    """Return the state that a run begins with; the original joins the pool."""
    original = context.add(Candidate(components=context.program.components))
    original.status = "accepted"
    prompt = original.candidate.prompt
    known, helped = earlier_lessons(context)
    return {
        "original_prompt": prompt,
        "current_prompt": prompt,
        "previous_prompt": prompt,
        "dataset": dataset,
        "results": {},
        "analysis": {},
        "iteration": 1,
        "max_iterations": context.settings.max_iterations,
        "history": [],
        "memory_experiences": known,
        "helped": helped,
        "has_memory": bool(known),
        "original": original.candidate.id,
        "incumbent": original.candidate.id,
        "pending": [],
        "settled": [],
        "tried": 0,
        "plateau": 0,
        "tally": {},
        "stop_reason": "",
        "confirmation": {},
        "test": {},
        "pool_step": 0,
        "journal_position": 0,
        "spent": context.budget.spent.to_dict(),  # on trying a program
    }


def build_graph(
    checkpointer: BaseCheckpointSaver[Any] | None = None,
) -> CompiledStateGraph[AutoPromptState, SearchContext, AutoPromptState, AutoPromptState]:
    """Return the compiled graph.

    Invoke it with `context=SearchContext(...)` and `recursion_limit` in its config.
    """
    graph = StateGraph(AutoPromptState, context_schema=SearchContext)
    graph.add_node("predict", nodes.predict)
    graph.add_node("analyze", nodes.analyze)
    graph.add_node("rewrite", nodes.rewrite)
    graph.add_node("memory", nodes.memory)
    graph.add_node("increment_iteration", nodes.increment_iteration)
    graph.add_node("final_predict", nodes.final_predict)
    graph.add_edge(START, "predict")
    graph.add_edge("predict", "analyze")
    graph.add_edge("analyze", "rewrite")
    graph.add_edge("rewrite", "memory")
    graph.add_conditional_edges(
        "memory",
        _should_continue,
        _TARGETS,
    )
    graph.add_edge("increment_iteration", "predict")
    graph.add_edge("final_predict", END)
    return graph.compile(checkpointer=checkpointer)


def _should_continue(state: AutoPromptState) -> Route:
    """Choose the way on; docs/state.md says when each is taken."""
    if state["iteration"] >= state["max_iterations"] or state.get("stop_reason"):
        return "final_predict"
    if not state.get("analysis", {}).get("has_errors", True):
        has_test = state.get("dataset", {}).get("sizes", {}).get("test", 0) > 0
        # A winner that nothing has confirmed yet still has the comparison with the original before it.
        has_winner = state.get("incumbent") != state.get("original")
        return "final_predict" if has_test or state.get("pending") or has_winner else "end"
    return "continue"


def recursion_limit(max_iterations: int) -> int:
    """Return the steps that the longest run takes, with room for the final node."""
    return STEPS_PER_ITERATION * max_iterations + 5
