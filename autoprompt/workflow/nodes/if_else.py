"""`if-else`: the way out of the first case that holds, else "false"."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from autoprompt.workflow.engine.context import NodeContext
from autoprompt.workflow.engine.definition import NodeResult, NodeTypeBase
from autoprompt.workflow.file.records import IfElseData
from autoprompt.workflow.nodes.branching import case_holds

_ELSE = "false"


class IfElse(NodeTypeBase):
    data_model = IfElseData

    def execute(self, data: IfElseData, context: NodeContext) -> NodeResult:
        tried: list[dict[str, Any]] = []
        taken = _ELSE
        for case in data.cases:
            holds = case_holds(case.conditions, case.logical_operator, case.expression, context.pool)
            tried.append({"case_id": case.case_id, "holds": holds})
            if holds:
                taken = case.case_id
                break
        outputs = {"result": bool(tried and tried[-1]["holds"]), "selected_case_id": taken}
        return NodeResult(outputs, process_data={"cases": tried}, edge_handle=taken)

    def mocked(self, data: IfElseData, context: NodeContext, outputs: Mapping[str, Any]) -> NodeResult:
        """`selected_case_id` chooses the way; else `result`: the first case, or "false"."""
        first = data.cases[0].case_id
        taken = outputs.get("selected_case_id", first if outputs.get("result") else _ELSE)
        return NodeResult({"result": taken != _ELSE, **outputs}, edge_handle=str(taken))


NODE_TYPE = IfElse()
