"""Check a workflow's file: its form, its nodes, their order, what they read, their tools, mocks and keys.

Keys that nothing reads are faults only if they are likely meant for something: misspelt, or in a wrong place.
All others are ignored, since exports hold many.
"""

from __future__ import annotations

import contextlib
import difflib
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pydantic import AliasChoices, BaseModel, ValidationError

from autoprompt.errors import Problem
from autoprompt.workflow.engine.definition import Mock, NodeOutputs, node_type
from autoprompt.workflow.engine.errors import node_hint, suggestion
from autoprompt.workflow.engine.http_call import unset_names
from autoprompt.workflow.engine.mocks import (
    FUNCTIONS,
    MissingMockError,
    MocksOfFile,
    mock_said,
    output_faults,
)
from autoprompt.workflow.engine.models import COMPLETION_PARAMS, ModelSpec
from autoprompt.workflow.engine.tools import HttpTool, function_of_node, registered_tools
from autoprompt.workflow.file.checker import (
    CheckedGraph,
    CheckedNode,
    Checker,
    check_extractions,
    extraction_where,
)
from autoprompt.workflow.file.faults import Fault, Faults, Where
from autoprompt.workflow.file.fields import NodeData
from autoprompt.workflow.file.reading import NOT_OF_A_FILE, OF_THE_RUN, WorkflowFile, read_workflow
from autoprompt.workflow.file.selectors import SelectorChecker, all_nodes
from autoprompt.workflow.file.variables import dify_only_kind, mock_aliases, needed_outputs, outputs

MISSING_TOOL = (
    "Name the Python file that registers it (@tool) as {tools}, describe it under `tools:` here, or mock the "
    "node."
)
# Likeness of difflib. Of the keys that exports hold for their editor alone, the nearest to one of ours is
# `provider_type` (to `provider_name`, 0.77); with a letter too few, a key of five letters is at 0.89.
_NEAR = 0.85
_READ_OTHERWISE = ("type", "nodes", "instructions")  # by the reader of the file, and as older names
_OF_EDITOR = ("agent_strategy_label",)  # keys of Dify's editor that look like one of ours


def validate(
    source: Path | str | Mapping[str, Any],
    *,
    needs_model: bool = True,
    mocks: Mapping[str, Any] | None = None,
    given: Collection[str] = (),
) -> list[Fault]:
    """Return every fault of a workflow, in the order of its lines; warnings among them.

    Args:
        source: A file, or its content.
        needs_model: False if the run gives one model to all nodes.
        mocks: Mocks of the run, besides the file's own. A mocked node needs neither model nor tool.
        given: Ids of nodes that do not run, since the inputs give their outputs.

    Raises:
        ConfigError: The file is not YAML.
    """
    return check_workflow(source, needs_model=needs_model, mocks=mocks, given=given).faults.all


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
    """Read a workflow and find all of its faults. The arguments are those of `validate`."""
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
        """Warn of a node that runs in Dify alone, unless a function of the run's tools stands in for it."""
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
            titles = {one.id: "" if one.data is None else one.data.title for one in self._nodes.values()}
            said = f"mocks: no node {name!r}. {node_hint(name, titles)}"
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
            _ = variable.first_value
        except ValueError as error:
            faults.add(variable.where, str(error))


def read_tools(file: WorkflowFile) -> dict[str, HttpTool]:
    """Return the HTTP tools of a file, without those that `check_tools` reports as unreadable."""
    found = {}
    for name, entry in file.tools.items():
        with contextlib.suppress(ValidationError):
            found[str(name)] = _read_tool(name, entry)
    return found


def _read_tool(name: str, entry: Any) -> HttpTool:
    return HttpTool.model_validate({"name": str(name), **entry} if isinstance(entry, Mapping) else entry)


def check_tools(
    file: WorkflowFile, faults: Faults, nodes: Iterable[CheckedNode], mocked: Collection[str]
) -> None:
    """Report the file's tools that cannot be read, and warn of tools that nodes ask for and that would fail.

    Missing tools and variables are warnings: they may be there on the machine that runs the workflow.
    """
    described = {}
    for name, entry in file.tools.items():
        try:
            described[str(name)] = _read_tool(name, entry)
        except ValidationError as error:
            faults.add_invalid(("tools", str(name)), error, HttpTool, None)
    known = [*map(str, file.tools), *registered_tools()]
    for node in nodes:
        if node.id in mocked:
            continue
        for name in getattr(node.data, "tool_names", ()):
            if name not in known:
                hint = suggestion(name, known) or "None is known."
                said = f"tool {name!r} is not registered here. {hint} "
                said += MISSING_TOOL.format(tools="the run's setting `tools`")
            elif name in described and (unset := _unset(described[name])):
                said = f"tool {name!r} reads {', '.join(unset)} from the environment, but it is not set."
            else:
                continue
            faults.add(node.file.data_where, said, node.id, severity="warning")


def _unset(tool: HttpTool) -> list[str]:
    texts = (tool.url, *tool.headers.values())
    return list(dict.fromkeys(name for text in texts for name in unset_names(text)))


def check_keys(faults: Faults, nodes: Iterable[CheckedNode]) -> None:
    """Warn of keys that are likely misspelt or misplaced, and refuse a setting of the run."""
    for node in nodes:
        model = getattr(node.record, "model", None)
        if node.data is not None and node.file.data:
            takes_params = node.record is not None and "model" in type(node.record).model_fields
            _check_data(faults, node, takes_params)
        if isinstance(model, ModelSpec):
            place = "model" if "model" in node.file.data else "agent_parameters"
            _check_model(faults, model, (*node.file.data_where, place), node.id)
        for spec in node.extracted:
            if spec.model is not None:
                where = extraction_where(node.file, spec.input_name)
                _check_model(faults, spec.model, where, f"{node.id}.{spec.local_id}")


def _check_data(faults: Faults, node: CheckedNode, takes_params: bool) -> None:
    known = _known_keys(node_type(node.file.type, may_be_newer=True).data_model) | _known_keys(NodeData)
    if OF_THE_RUN in node.file.data:
        faults.add((*node.file.data_where, OF_THE_RUN), NOT_OF_A_FILE, node.id, is_key=True)
    for name in node.file.data:
        if name in known or name in (*_READ_OTHERWISE, *_OF_EDITOR):
            continue
        near = _nearest(str(name), known)
        if near is not None:
            said = f"{name} is not read. Did you mean {near}?"
        elif takes_params and (param := _nearest(str(name), COMPLETION_PARAMS)) is not None:
            said = _misplaced(str(name), param)
        else:
            continue
        _warn(faults, (*node.file.data_where, name), said, node.id)


def _check_model(faults: Faults, model: ModelSpec, where: Where, node_id: str) -> None:
    for name in model.model_extra or {}:
        param = _nearest(name, COMPLETION_PARAMS)
        if param is not None:
            _warn(faults, (*where, name), _misplaced(name, param), node_id)
        elif _nearest(name, ("completion_params",)) is not None:
            _warn(faults, (*where, name), f"{name} is not read. Did you mean completion_params?", node_id)
    unknown = [name for name in model.completion_params if name not in COMPLETION_PARAMS]
    if unknown:
        said = f"completion_params not sent: {', '.join(unknown)}. Known: {', '.join(COMPLETION_PARAMS)}."
        _warn(faults, (*where, "completion_params", unknown[0]), said, node_id)


def _misplaced(name: str, param: str) -> str:
    return (
        f"{name} is not read here. Write it as `model: {{name: ..., completion_params: {{{param}: ...}}}}`."
    )


def _warn(faults: Faults, where: Where, said: str, node_id: str) -> None:
    faults.add(where, said, node_id, severity="warning", is_key=True)


def _nearest(name: str, known: Collection[str]) -> str | None:
    return next(iter(difflib.get_close_matches(name, sorted(known), n=1, cutoff=_NEAR)), None)


def _known_keys(model: type[BaseModel]) -> set[str]:
    found: set[str] = set()
    for name, field in model.model_fields.items():
        alias: Any = field.validation_alias
        names = alias.choices if isinstance(alias, AliasChoices) else [alias]
        found |= {name, *(other for other in names if isinstance(other, str))}
    return found
