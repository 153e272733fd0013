"""The graph of the scientific workflow: nodes, edges and the two decisions. Nothing else.

START -> survey -> ask -> _after_answer(state)
                          |- "experiment" -> experiment -> _after_experiment(state)
                          |                                |- "ask"      -> ask
                          |                                `- "conclude" -> conclude -> END
                          |- "conclude"   -> conclude -> END
                          `- "end"        -> END
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from langgraph.graph import END, START, StateGraph

from autoprompt.science import nodes
from autoprompt.science.context import ScienceContext
from autoprompt.science.state import ScienceState

if TYPE_CHECKING:
    from langgraph.checkpoint.base import BaseCheckpointSaver
    from langgraph.graph.state import CompiledStateGraph


def build_graph(
    checkpointer: BaseCheckpointSaver[Any] | None = None,
) -> CompiledStateGraph[ScienceState, ScienceContext, ScienceState, ScienceState]:
    """The compiled graph: invoke it with `context=ScienceContext(...)` and a `recursion_limit`."""
    graph = StateGraph(ScienceState, context_schema=ScienceContext)
    graph.add_node("survey", nodes.survey)
    graph.add_node("ask", nodes.ask)
    graph.add_node("experiment", nodes.experiment)
    graph.add_node("conclude", nodes.conclude)
    graph.add_edge(START, "survey")
    graph.add_edge("survey", "ask")
    graph.add_conditional_edges(
        "ask", _after_answer, {"experiment": "experiment", "conclude": "conclude", "end": END}
    )
    graph.add_conditional_edges("experiment", _after_experiment, {"ask": "ask", "conclude": "conclude"})
    graph.add_edge("conclude", END)
    return graph.compile(checkpointer=checkpointer)


def _after_answer(state: ScienceState) -> Literal["experiment", "conclude", "end"]:
    if state.get("is_concluded"):
        return "end"
    return "experiment" if state["has_code"] else "conclude"


def _after_experiment(state: ScienceState) -> Literal["ask", "conclude"]:
    return "ask" if state["number"] < state["experiments"] else "conclude"


def recursion_limit(max_iterations: int) -> int:
    """Steps that the longest investigation takes, with room."""
    return 2 * max_iterations + 5
