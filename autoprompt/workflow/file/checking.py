"""One look at a workflow's file: its form, its nodes, their order, what they read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from autoprompt.workflow.engine.errors import suggestion
from autoprompt.workflow.engine.mocks import Mock, MocksOfFile
from autoprompt.workflow.file import records
from autoprompt.workflow.file.checks import CheckedGraph, CheckedNode, Checker, check_extractions
from autoprompt.workflow.file.faults import Faults, Where
from autoprompt.workflow.file.inputs import declared
from autoprompt.workflow.file.keys import check_keys
from autoprompt.workflow.file.outputs import outputs
from autoprompt.workflow.file.reading import WorkflowFile, read_workflow
from autoprompt.workflow.file.selectors import SelectorChecker, all_nodes
from autoprompt.workflow.file.tools import check_tools


def check_workflow(
    source: Path | str | Mapping[str, Any],
    *,
    needs_model: bool = True,
    mocks: Mapping[str, Any] | None = None,
) -> tuple[WorkflowFile, Faults, CheckedGraph]:
    """The file with its faults, and its nodes as records."""
    path = Path(source) if isinstance(source, str) else source
    file, faults = read_workflow(path)
    named = {str(name): mock for name, mock in {**file.mocks, **(mocks or {})}.items()}  # ids may be numbers
    file = replace(file, mocks=named)
    checker = Checker(file, faults, needs_model=needs_model)
    graph = checker.graph(file.graph)
    nodes = list(all_nodes(graph))
    check_extractions(checker, nodes)
    check_tools(file, faults, nodes)
    check_keys(faults, nodes)
    SelectorChecker(checker, graph).check()
    _check_mocks(file, faults, graph, mocks or {})
    _check_variables(file, faults)
    faults.soften(checker.unused, "nothing leads to this node, so it does not run")
    return file, faults, graph


def _check_mocks(
    file: WorkflowFile, of_workflow: Faults, graph: CheckedGraph, given: Mapping[str, Any]
) -> None:
    """given: mocks of the run, which may be from a file of their own."""
    known = {node.id: node for node in all_nodes(graph)}
    for name, mock in file.mocks.items():
        faults, where = of_workflow, (*file.mocks_where, name)
        if name in given:
            own = given if isinstance(given, MocksOfFile) else None
            faults = of_workflow.in_file(None if own is None else own.file)
            where = (*(() if own is None else own.where), name)
        if str(name) in known:
            _check_mocked_outputs(faults, where, known[str(name)], mock)
        else:
            faults.add(where, f"mocks: no node {name!r}. {suggestion(str(name), known)}")
        try:
            Mock.model_validate(mock)
        except ValidationError as error:
            faults.add_invalid(where, error, Mock, None)


def _check_mocked_outputs(faults: Faults, where: Where, node: CheckedNode, mock: Any) -> None:
    """Outputs that the node has in no run: whoever reads the one that was meant gets an empty one."""
    given = mock.get("outputs") if isinstance(mock, Mapping) else getattr(mock, "outputs", None)
    known = None if node.data is None else outputs(node.data)
    if known is None or not isinstance(given, Mapping):
        return
    if isinstance(node.data, records.ClassifierData):
        known |= {"text"}  # a mock may name the class as the model does
    for name in given:
        if str(name) not in known:
            said = f"the mock's output {name!r} is none of this node. {suggestion(str(name), sorted(known))}"
            faults.add((*where, "outputs", name), said, node.id, severity="warning", is_key=True)


def _check_variables(file: WorkflowFile, faults: Faults) -> None:
    for variable in (*file.environment, *file.conversation):
        try:
            declared(variable)
        except ValueError as error:
            faults.add(variable.where, str(error))
