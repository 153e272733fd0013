"""Keys that nothing reads, where they are likely meant for something: misspelt, or in another place."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterable
from typing import Any

from pydantic import AliasChoices, BaseModel

from autoprompt.workflow.engine.models import COMPLETION_PARAMS, ModelSpec
from autoprompt.workflow.engine.registry import node_type
from autoprompt.workflow.file.checks import CheckedNode, extraction_where
from autoprompt.workflow.file.faults import Faults, Where
from autoprompt.workflow.file.fields import NodeData
from autoprompt.workflow.file.reading import NOT_OF_A_FILE, OF_THE_RUN

# Likeness of difflib. Of the keys that exports hold for their editor alone, the nearest to one of ours is
# `provider_type` (to `provider_name`, 0.77); with a letter too few, a key of five letters is at 0.89.
_NEAR = 0.85
_READ_OTHERWISE = ("type", "nodes", "instructions")  # by the reader of the file, and as older names
_OF_EDITOR = ("agent_strategy_label",)  # keys of Dify's editor that look like one of ours


def check_keys(faults: Faults, nodes: Iterable[CheckedNode]) -> None:
    """Warn of them, and refuse a setting of the run. All other keys are ignored: exports hold many."""
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
