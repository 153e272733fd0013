"""What stands in for nodes in a run: mocks, and inputs named `NODE.OUTPUT`, checked before anything is sent.

An input goes over a mock of the run, and that over a mock of the file.
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from pydantic import ValidationError

from autoprompt.errors import InputError, Place, Problem
from autoprompt.settings.kinds import Loc, problems_of
from autoprompt.settings.yaml_file import YamlFile
from autoprompt.workflow.engine.definition import Definition, GraphNode, Mock, NodeOutputs, NodeType
from autoprompt.workflow.engine.errors import NodeError, WorkflowDefinitionError, node_hint, suggestion
from autoprompt.workflow.engine.variables import SCOPES

_PLAIN_KEY = re.compile(r"[^\W\d][\w.-]*|[1-9][0-9]*")  # ids that need no quotes as keys of YAML


class MocksOfFile(dict[str, Any]):
    """Mocks by node id that were read from a file of their own, under `where` in it."""

    def __init__(self, mocks: Mapping[str, Any], file: YamlFile, where: tuple[str, ...] = ()) -> None:
        super().__init__({str(node_id): mock for node_id, mock in mocks.items()})
        self.file, self.where = file, where


class MockError(RuntimeError):
    """What a mocked node fails with; on a node that asks a model, the model's failure."""


class MissingMockError(NodeError):
    """A node runs in Dify alone, and nothing stands in for it. needed: its outputs, each with an example."""

    def __init__(self, kind: str, node_id: str, needed: Mapping[str, str]) -> None:
        self._said = f"Dify's {kind} does not run here; mock it"
        super().__init__(Problem("workflow.no-mock", self._said, fix=how_to_mock(kind, node_id, needed)))

    @property
    def reason(self) -> str:
        """Without the lines to write, which the run's error shows."""
        return self._said


def how_to_mock(kind: str, node_id: str, needed: Mapping[str, str]) -> str:
    """Return what to write so that a node which does not run here has outputs."""
    key = node_id if _PLAIN_KEY.fullmatch(node_id) else json.dumps(node_id, ensure_ascii=False)
    outputs = ", ".join(f"{name}: {value}" for name, value in needed.items())
    said = f"Write into the mocks file: `{key}: {{outputs: {{{outputs}}}}}`. "
    columns = " and ".join(f"{node_id}.{name}" for name in needed)
    said += f"Or give it with each row, or as an input: {columns}."
    if kind in FUNCTIONS:
        name, argument = kind.replace("-", "_"), FUNCTIONS[kind]
        said += f" Or write the function `@tool def {name}({argument})` into the tools file."
    return said


FUNCTIONS = {"knowledge-retrieval": "query", "document-extractor": "file"}
"""Types that a Python function can stand in for, with what it is given."""


Given = Mapping[str, Mapping[str, Any]]  # node id -> outputs that inputs or a row's fields give

_SHORTEST_NUMBER = 6  # digits of a number that is taken for the id of a node


@dataclass(frozen=True)
class OutputFault:
    """One thing that is wrong with the outputs that stand in for a node.

    name: the output that is given; None if one is missing. is_error: whether another node gets no value, or
    the node cannot put this value out.
    """

    said: str
    fix: str
    name: str | None = None
    is_error: bool = True


def output_faults(
    node_id: str,
    given: Mapping[str, Any],
    outputs: NodeOutputs,
    node_type: NodeType,
    data: Any,
    *,
    mocked: Collection[str] = (),
    is_complete: bool = False,
) -> Iterator[OutputFault]:
    """Yield what is wrong with outputs that are given instead of made.

    Args:
        given: The outputs by name.
        outputs: What the node may put out, and what other nodes read of it.
        data: What the file says of the node, as its type reads it.
        mocked: Ids of nodes that do not run, and so read nothing.
        is_complete: Whether these are all outputs that the node will get.
    """
    try:
        made = {**given, **node_type.read_given(data, given)}
    except ValueError as error:
        name = _refused(given, node_type, data)
        yield OutputFault(str(error).removesuffix(".").removeprefix(f"{name} "), "", name)
        return
    lacking = outputs.lacking(made, mocked)
    unknown = [name for name in given if outputs.is_unknown(name)]
    for name in unknown:
        hint = suggestion(name, sorted(outputs.known or ()))
        if lacking:
            yield OutputFault(f"is unknown, so {_without_value(node_id, lacking)}", hint, name)
        else:
            yield OutputFault("is unknown", hint, name, is_error=False)
    is_other = outputs.known is None and any(name not in outputs.read for name in given)
    if lacking and not unknown and (is_other or (is_complete and node_type.takes_outputs)):
        hint = f"Given: {', '.join(given)}." if given else ""
        yield OutputFault(_without_value(node_id, lacking), hint)


def _refused(given: Mapping[str, Any], node_type: NodeType, data: Any) -> str | None:
    """Return the one output whose value is refused; None if it takes several."""
    refused = []
    for name, value in given.items():
        try:
            node_type.read_given(data, {name: value})
        except ValueError:
            refused.append(name)
    return refused[0] if len(refused) == 1 else None


def _without_value(node_id: str, lacking: Mapping[str, str]) -> str:
    names = ", ".join(f"{node_id}.{name}" for name in lacking)
    has = "has no value, which" if len(lacking) == 1 else "have no value, which"
    return f"{names} {has} node {next(iter(lacking.values()))!r} reads"


def read_mocks(mocks: Mapping[str, Any], nodes: Mapping[str, GraphNode] | None = None) -> dict[str, Mock]:
    """Return the mocks by node id.

    Args:
        mocks: As they are written, or `Mock` objects.
        nodes: All nodes by id, to check the mocks against. None if the file's own check has done that.

    Raises:
        WorkflowDefinitionError: Mocks name no node, have fields that mocks do not have, or give outputs that
            their node cannot put out. The error lists all of them.
    """
    read: dict[str, Mock] = {}
    problems: list[Problem] = []
    named = {str(node_id): mock for node_id, mock in mocks.items()}
    for node_id, mock in named.items():
        if nodes is not None and node_id not in nodes:
            said = f"mocks: no node {node_id!r}"
            problems.append(
                Problem("workflow.bad-mock", said, _place(mocks, node_id), node_hint(node_id, _titles(nodes)))
            )
            continue
        try:
            read[node_id] = mock if isinstance(mock, Mock) else Mock.model_validate(mock)
        except ValidationError as error:
            problems += _problems_of_mock(mocks, node_id, error)
            continue
        # One that was read before is right: rows run with the same ones.
        if nodes is not None and read[node_id].outputs and not isinstance(mock, Mock):
            problems += _problems_of_outputs(mocks, nodes[node_id], read[node_id], named)
    if problems:
        raise WorkflowDefinitionError(*problems)
    return read


def _problems_of_mock(mocks: Mapping[str, Any], node_id: str, error: ValidationError) -> list[Problem]:
    def place_of(inner: Loc, is_key: bool) -> Place:
        setting = ".".join(map(str, ("mocks", node_id, *inner)))
        return replace(_place(mocks, node_id, *inner, is_key=is_key), setting=setting, source="file")

    return problems_of(error, Mock, place_of, word="key")


def _problems_of_outputs(
    mocks: Mapping[str, Any], node: GraphNode, mock: Mock, mocked: Collection[str]
) -> list[Problem]:
    found = output_faults(node.id, mock.outputs, node.outputs, node.executor, node.data, mocked=mocked)
    problems = []
    for fault in found:
        if fault.is_error:
            place = _place(mocks, node.id, "outputs", str(fault.name))
            said = f"node {node.id!r}: {mock_said(fault)}"
            problems.append(Problem("workflow.bad-mock", said, place, fault.fix))
    return problems


def mock_said(fault: OutputFault) -> str:
    """Return what is wrong with a mock's output, without the node."""
    if fault.name is None:
        return fault.said
    return f"the mock's output {fault.name!r}{_joined(fault.said)}"


def _joined(said: str) -> str:
    return f" {said}" if said.startswith("is ") else f": {said}"


def _place(mocks: Mapping[str, Any], *where: str | int, is_key: bool = True) -> Place:
    """Return where a mock is written, if that is a file of its own."""
    if not isinstance(mocks, MocksOfFile):
        return Place()
    return Place(mocks.file.path, mocks.file.line((*mocks.where, *where), is_key=is_key))


def _titles(nodes: Mapping[str, GraphNode]) -> dict[str, str]:
    return {node.id: node.title for node in nodes.values()}


def outputs_in(definition: Definition, inputs: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Return node id -> the outputs that inputs named `NODE.OUTPUT` give it; see `NodeType.takes_outputs`."""
    takers = {node.id for node in definition.all_nodes() if node.executor.takes_outputs}
    found: dict[str, dict[str, Any]] = {}
    for name, value in inputs.items():
        node_id, _, output = name.rpartition(".")
        if node_id in takers:
            found.setdefault(node_id, {})[output] = value
    return found


@dataclass(frozen=True)
class StrayName:
    """An input, or a field of rows, that looks like `NODE.OUTPUT` and stands in for no node.

    said: without the name. is_error: whether it likely means a node that there is not.
    """

    name: str
    said: str
    fix: str
    is_error: bool


def stray_names(definition: Definition, names: Iterable[str]) -> Iterator[StrayName]:
    """Yield names of outputs that no node takes: it is not there, has no such output, or makes its own."""
    nodes = {node.id: node for node in definition.all_nodes()}
    if all(node.outputs.known is None for node in nodes.values()):
        return  # of Python's, whose inputs may have any name
    outputs = {
        name
        for node in nodes.values()
        if node.executor.takes_outputs
        for name in node.outputs.known or node.outputs.read
    }
    for name in names:
        node_id, _, output = name.rpartition(".")
        if not node_id or not output or node_id.partition(".")[0] in SCOPES:
            continue
        node = nodes.get(node_id)
        if node is None:
            is_number = node_id.isdecimal() and len(node_id) >= _SHORTEST_NUMBER
            # A column `state.code` is no misspelt `start`, which takes no outputs.
            meant = [one for one in nodes.values() if one.executor.takes_outputs and output in outputs]
            names_meant = [name.casefold() for one in meant for name in (one.id, one.title)]
            is_close = bool(difflib.get_close_matches(node_id.casefold(), names_meant, n=1))
            if is_number or is_close or output in outputs:
                said = f"names the node {node_id!r}, which is not in the workflow"
                yield StrayName(name, said, node_hint(node_id, _titles(nodes)), is_number or is_close)
        elif not node.executor.takes_outputs:
            said = f"is ignored: node {node_id!r} ({node.type}) runs and makes its outputs itself"
            yield StrayName(name, said, "To give its outputs, mock it.", False)
        elif node.outputs.is_unknown(output):
            hint = suggestion(output, sorted(node.outputs.known or ()))
            yield StrayName(name, f"is ignored: node {node_id!r} has no such output", hint, False)


def stand_ins(definition: Definition, mocks: Mapping[str, Any], inputs: Mapping[str, Any]) -> dict[str, Mock]:
    """Return what stands in for nodes in a run, by node id.

    Raises:
        WorkflowDefinitionError: Mocks are wrong; the error lists all of them.
        InputError: Inputs named `NODE.OUTPUT` are wrong; the error lists all of them.
    """
    nodes = {node.id: node for node in definition.all_nodes()}
    found = {**definition.mocks, **read_mocks(mocks, nodes)}
    given = outputs_in(definition, inputs)
    wrong = []
    for node_id, fault in faults_of_given(definition, found, given):
        said = given_said(f"{node_id}.{fault.name}", fault)
        wrong.append(Problem("workflow.bad-output", said, Place(setting="inputs"), fault.fix))
    if wrong:
        raise InputError(*wrong)
    for node_id, outputs in given.items():
        mock = found.get(node_id, Mock())
        found[node_id] = mock.model_copy(update={"outputs": {**mock.outputs, **outputs}})
    return found


def given_said(name: str, fault: OutputFault) -> str:
    """Return what is wrong with the input or field `name`, which gives an output."""
    return fault.said if fault.name is None else f"{name}{_joined(fault.said)}"


def faults_of_given(
    definition: Definition, mocks: Mapping[str, Mock], given: Given
) -> Iterator[tuple[str, OutputFault]]:
    """Yield (node id, fault) of the outputs that inputs or a row give, with those of the mocks under them."""
    if not given:
        return
    nodes = {node.id: node for node in definition.all_nodes()}
    mocked = {*mocks, *given}
    for node_id, own in given.items():
        node = nodes[node_id]
        both = {**(mocks[node_id].outputs if node_id in mocks else {}), **own}
        for fault in output_faults(
            node_id, both, node.outputs, node.executor, node.data, mocked=mocked, is_complete=True
        ):
            if fault.is_error:
                yield node_id, fault
