"""Rows of a dataset as inputs of a workflow, checked before anything is sent."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from autoprompt.dataset.conversations import no_conversation
from autoprompt.dataset.faults import Faults
from autoprompt.errors import InputError, Place, Problem
from autoprompt.records import Example
from autoprompt.settings.records import RunConfig
from autoprompt.workflow.engine.definition import SOURCE, Definition, Mock
from autoprompt.workflow.engine.mocks import (
    FUNCTIONS,
    faults_of_given,
    given_said,
    how_to_mock,
    outputs_in,
    stray_names,
)
from autoprompt.workflow.engine.tools import function_of_node
from autoprompt.workflow.file.fields import NodeData
from autoprompt.workflow.file.records import TEXT_TYPES, StartVariable
from autoprompt.workflow.file.variables import asks_for_query, dify_only_kind, needed_outputs


def start_variables(definition: Definition) -> Iterator[StartVariable]:
    """Yield the inputs of a workflow, in the order of the file."""
    for node in definition.nodes:
        if node.type == "start":
            yield from getattr(node.data, "variables", ())


def find_one_input(
    definition: Definition, rows: Sequence[Example], input_field: str, target_field: str
) -> StartVariable | None:
    """Return the one start variable that the row's input goes to; None if its name already says where.

    That is the only variable without a field of its name, if nothing else takes the input.
    """
    fields = {name for row in rows for name in row.fields} - {target_field}
    asked = {variable.variable: variable for variable in start_variables(definition)}
    missing = [name for name in asked if name not in fields]
    is_taken = input_field in asked or (reads_query(definition) and "query" not in fields)
    if (
        is_taken
        or len(missing) != 1
        or missing == ["query"]
        or not all(_has_input(row, input_field) for row in rows)
    ):
        return None
    return asked[missing[0]]


def reads_query(definition: Definition) -> bool:
    """Return whether a run needs a question: it is a chat, or a node reads `sys.query`."""
    return definition.is_chat or any(asks_for_query(node.data) for node in definition.all_nodes())


def _has_input(row: Example, input_field: str) -> bool:
    """Return whether a row's input is a field of its own; else it is made of fields that have their place."""
    return input_field in row.fields and row.fields[input_field] == row.input


def row_inputs(
    example: Example, one_input: StartVariable | None, input_field: str, target_field: str
) -> dict[str, Any]:
    """Return a row's fields but the target's, by name, with their types; its input's text is `sys.query` too.

    Of a conversation that is the user's last turn, and a variable for texts gets all turns as one text. An
    input that is made of several fields goes nowhere else: each field has its place.
    """
    fields = {name: value for name, value in example.fields.items() if name != target_field}
    if not _has_input(example, input_field):
        return fields
    fields[input_field] = example.input
    if one_input is not None:
        is_text = one_input.type in TEXT_TYPES
        fields[one_input.variable] = example.full_text if example.turns and is_text else example.input
    return {"query": example.input_text, **fields}


def check_rows(
    definition: Definition,
    rows: Sequence[Example],
    one_input: StartVariable | None,
    config: RunConfig,
    mocks: Mapping[str, Mock],
    path: Path,
) -> None:
    """Check that the workflow takes the inputs of every row.

    Args:
        one_input: See `find_one_input`.
        mocks: Of the file and of the run; a mocked node needs no input.
        path: The workflow's file.

    Raises:
        DatasetError: Rows lack an input, or have one of another type.
    """
    input_field, target_field = config.input_field, config.target_field
    is_variable = any(variable.variable == input_field for variable in start_variables(definition))
    takes_text = one_input.type in TEXT_TYPES if one_input is not None else not is_variable
    needs_query = reads_query(definition)
    faults = _faults(rows, path)
    for row in rows:
        fault = no_conversation(row, input_field) if takes_text else None
        if fault is None:
            inputs = row_inputs(row, one_input, input_field, target_field)
            mocked = {*mocks, *outputs_in(definition, inputs)}
            fault = _unfit(definition, row, inputs, mocked, path, target_field)
            if fault is None and needs_query and not {"query", "sys.query"} & inputs.keys():
                said = f"{path} reads sys.query, and the row has no field 'query'"
                fix = "Add it, or name the field with the question as {input_field}."
                fault = Problem("workflow.row-input", said, fix=fix, settings={"input_field": "<FIELD>"})
        if fault is not None:
            faults.add_row(row, fault)
    faults.raise_if_any()


def _unfit(
    definition: Definition,
    row: Example,
    inputs: Mapping[str, Any],
    mocked: Collection[str],
    path: Path,
    target_field: str,
) -> Problem | None:
    """Return why the start node does not take the inputs of a row; None if it does."""
    try:
        definition.start(inputs, mocked)
    except InputError as error:
        fields = ", ".join(name for name in row.fields if name != target_field)
        why = "; ".join(problem.said.removesuffix(".") for problem in error.problems)
        said = f"the row does not fit as input of {path}: {why}"
        return Problem("workflow.row-input", said, fix=f"The row has the fields {fields}.")
    return None


def check_given(
    definition: Definition,
    rows: Sequence[Example],
    mocks: Mapping[str, Mock],
    own_fields: Collection[str],
    path: Path,
) -> None:
    """Check the fields of rows that are named `NODE.OUTPUT`.

    Args:
        own_fields: Fields that the settings give another meaning.
        path: The workflow's file.

    Raises:
        DatasetError: Such a field names no node or no output, or holds a value of another type.
    """
    faults = _faults(rows, path)
    strays = {
        stray.name: stray
        for stray in stray_names(definition, dict.fromkeys(name for row in rows for name in row.fields))
        if stray.is_error and stray.name not in own_fields
    }
    for row in rows:
        for stray in (stray for name, stray in strays.items() if name in row.fields):
            said = f"the field {stray.name} {stray.said}"
            faults.add_row(row, Problem("workflow.bad-output", said, fix=stray.fix))
        fields = {name: value for name, value in row.fields.items() if name not in own_fields}
        for node_id, fault in faults_of_given(definition, mocks, outputs_in(definition, fields)):
            said = given_said(f"the field {node_id}.{fault.name}", fault)
            faults.add_row(row, Problem("workflow.bad-output", said, fix=fault.fix))
    faults.raise_if_any()


def missing_mocks(
    definition: Definition, rows: Sequence[Example], mocks: Mapping[str, Mock], path: Path
) -> list[Problem]:
    """Return a problem for each node of Dify that every row comes to and that no row gives outputs for.

    Raises:
        DatasetError: Some rows give such a node's outputs, and others do not.
    """
    certain = surely_run(definition)
    faults = _faults(rows, path)
    problems = []
    for node in definition.nodes:
        kind = dify_only_kind(node.data, node.type) if isinstance(node.data, NodeData) else None
        has_more = node.id in mocks or node.error_strategy is not None or node.id not in certain
        if kind is None or has_more or (kind in FUNCTIONS and function_of_node(kind, node.id) is not None):
            continue
        needed = needed_outputs(node.data, node.outputs.read)
        lacking = [row for row in rows if node.id not in outputs_in(definition, row.fields)]
        if len(lacking) == len(rows):
            said = f"node {node.id!r}: Dify's {kind} does not run here; mock it"
            fix = how_to_mock(kind, node.id, needed)
            problems.append(Problem("workflow.no-mock", said, Place(path), fix))
            continue
        for row in lacking:
            fields = ", ".join(f"{node.id}.{name}" for name in needed)
            said = f"the row has no field {fields}, which replaces Dify's {kind}"
            faults.add_row(row, Problem("workflow.row-output", said, fix="Fill it in."))
    faults.raise_if_any()
    return problems


def _faults(rows: Sequence[Example], path: Path) -> Faults:
    return Faults(next((row.path for row in rows if row.path is not None), path))


def surely_run(definition: Definition) -> set[str]:
    """Return the ids of the nodes that every row comes to: no branch is before them."""
    found = {definition.nodes[0].id}
    edges = [edge for edge in definition.edges or () if edge.handle == SOURCE]
    while more := {edge.target for edge in edges if edge.source in found} - found:
        found |= more
    return found
