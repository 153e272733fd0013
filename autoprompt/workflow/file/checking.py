"""One look at a workflow's file: its form, its nodes, their order, what they read."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from autoprompt.errors import Problem
from autoprompt.workflow.engine.definition import NodeOutputs
from autoprompt.workflow.engine.errors import suggestion
from autoprompt.workflow.engine.mocks import FUNCTIONS, MissingMockError, Mock, MocksOfFile
from autoprompt.workflow.engine.registry import node_type
from autoprompt.workflow.engine.stand_ins import mock_said, output_faults
from autoprompt.workflow.engine.tools import function_of_node
from autoprompt.workflow.file.checks import CheckedGraph, CheckedNode, Checker, check_extractions
from autoprompt.workflow.file.faults import Faults
from autoprompt.workflow.file.fields import NodeData
from autoprompt.workflow.file.inputs import declared
from autoprompt.workflow.file.keys import check_keys
from autoprompt.workflow.file.outputs import dify_only_kind, mock_aliases, needed_outputs, outputs
from autoprompt.workflow.file.reading import WorkflowFile, read_workflow
from autoprompt.workflow.file.selectors import SelectorChecker, all_nodes
from autoprompt.workflow.file.tools import check_tools


@dataclass(frozen=True)
class CheckedWorkflow:
    """A file with its faults, and its nodes as records. outputs: what each node gives to others, by id."""

    file: WorkflowFile
    faults: Faults
    graph: CheckedGraph
    outputs: Mapping[str, NodeOutputs]


def check_workflow(
    source: Path | str | Mapping[str, Any],
    *,
    needs_model: bool = True,
    mocks: Mapping[str, Any] | None = None,
    given: Collection[str] = (),
) -> CheckedWorkflow:
    """Read a workflow and look for all that is wrong with it. given: see `validate`."""
    path = Path(source) if isinstance(source, str) else source
    file, faults = read_workflow(path)
    named = {str(name): mock for name, mock in {**file.mocks, **(mocks or {})}.items()}  # ids may be numbers
    file = replace(file, mocks=named)
    checker = Checker(file, faults, needs_model=needs_model, given=given)
    graph = checker.graph(file.graph)
    nodes = list(all_nodes(graph))
    check_extractions(checker, nodes)
    check_tools(file, faults, nodes, checker.mocked)
    check_keys(faults, nodes)
    selectors = SelectorChecker(checker, graph)
    selectors.check()
    found = {node.id: _outputs_of(node, selectors.read.get(node.id, {})) for node in nodes}
    _MockChecker(checker, nodes, found, mocks or {}).check()
    _check_variables(file, faults)
    faults.soften(checker.unused, "nothing leads to this node, so it does not run")
    return CheckedWorkflow(file, faults, graph, found)


def _outputs_of(node: CheckedNode, read: Mapping[str, Collection[str]]) -> NodeOutputs:
    if node.data is None:
        return NodeOutputs(None, read=read)
    return NodeOutputs(outputs(node.data), mock_aliases(node.data), read)


class _MockChecker:
    """Reports wrong mocks, and nodes that run in Dify alone and have none.

    given: mocks of the run, which may be in a file of their own.
    """

    def __init__(
        self,
        checker: Checker,
        nodes: Sequence[CheckedNode],
        outputs: Mapping[str, NodeOutputs],
        given: Mapping[str, Any],
    ) -> None:
        self._checker, self._file = checker, checker.file
        self._nodes = {node.id: node for node in nodes}
        self._outputs, self._given = outputs, given
        self._of_run = {str(name) for name in given}

    def check(self) -> None:
        for node in self._nodes.values():
            if node.id not in self._checker.mocked and node.data is not None:
                self._missing(node, node.data)
        for name, mock in self._file.mocks.items():
            self._mock(name, mock)

    def _missing(self, node: CheckedNode, data: NodeData) -> None:
        """Warn of a node that runs in Dify alone, unless a function of --tools stands in for it."""
        kind = dify_only_kind(data, node.file.type)
        if kind is None or (kind in FUNCTIONS and function_of_node(kind, node.id) is not None):
            return
        needed = needed_outputs(data, self._outputs[node.id].read)
        problem = Problem("workflow.no-mock", str(MissingMockError(kind, node.id, needed)))
        self._checker.faults.add(node.file.data_where, problem, node.id, severity="warning")

    def _mock(self, name: str, mock: Any) -> None:
        faults, where = self._checker.faults, (*self._file.mocks_where, name)
        if name in self._of_run:
            own = self._given if isinstance(self._given, MocksOfFile) else None
            faults = faults.in_file(None if own is None else own.file)
            where = (*(() if own is None else own.where), name)
        node = self._nodes.get(name)
        if node is None:
            said = f"mocks: no node {name!r}. {suggestion(name, self._nodes)}"
            faults.add(where, Problem("workflow.bad-mock", said), is_key=True)
        try:
            read = mock if isinstance(mock, Mock) else Mock.model_validate(mock)
        except ValidationError as error:
            faults.add_invalid(where, error, Mock, name)
            return
        if node is None or node.data is None or not read.outputs:
            return
        kind = node_type(node.file.type, may_be_newer=True)
        known = self._outputs[name]
        mocked = self._checker.mocked
        for fault in output_faults(name, read.outputs, known, kind, node.data, mocked=mocked):
            said = f"{mock_said(fault)}. {fault.fix}".strip()
            faults.add(
                (*where, "outputs", str(fault.name)),
                Problem("workflow.bad-mock", said),
                name,
                severity="error" if fault.is_error else "warning",
                is_key=True,
            )


def _check_variables(file: WorkflowFile, faults: Faults) -> None:
    for variable in (*file.environment, *file.conversation):
        try:
            declared(variable)
        except ValueError as error:
            faults.add(variable.where, str(error))
