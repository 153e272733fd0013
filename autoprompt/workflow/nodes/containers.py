"""What iteration and loop share: what a pass puts out, says, and assigns outside of itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from autoprompt.workflow.engine.context import NodeContext
from autoprompt.workflow.engine.definition import Definition
from autoprompt.workflow.engine.inner import InnerRun

_USUAL_OUTPUTS = ("text", "output", "result")


def inner_output(run: InnerRun, selector: Sequence[str] | None) -> Any:
    """The value that a pass puts out: the selected one, null where its node did not run.

    Without a selector: of the last node that ran, its `text`, `output` or `result`, else all of its outputs.
    """
    if selector is not None:
        return run.pool.find(selector)
    if not run.ran:
        return None
    outputs = run.pool.values.get(run.ran[-1], {})
    name = next((name for name in _USUAL_OUTPUTS if name in outputs), None)
    return dict(outputs) if name is None else outputs[name]


def inner_answer(run: InnerRun, inner: Definition) -> str:
    """What the answer nodes of a pass have said, joined."""
    speaking = {node.id for node in inner.nodes if node.type in ("answer", "iteration", "loop")}
    values = run.pool.values
    said = [values.get(node_id, {}).get("answer") for node_id in run.ran if node_id in speaking]
    return "".join(str(text) for text in said if text)


def apply_writes(context: NodeContext, writes: Mapping[str, Mapping[str, Any]]) -> None:
    """Make what a pass has assigned, to the conversation or a loop around, an assignment of the container.

    The container's own variables (item, index, loop variables) stay inside.
    """
    for scope, names in writes.items():
        if scope == context.node_id:
            continue
        for name, value in names.items():
            context.pool.set((scope, name), value)
