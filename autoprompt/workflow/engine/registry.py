"""The types of nodes that a file may name, and the module of each."""

from __future__ import annotations

import importlib

from autoprompt.workflow.engine.definition import NodeType
from autoprompt.workflow.engine.errors import UnknownNodeTypeError

# Type -> the module of the package `nodes` that holds it, and its name there; default: `NODE_TYPE`. By name:
# each is imported when it is used.
_PACKAGE = "autoprompt.workflow.nodes"
_HOMES = {
    "start": "ends:START",
    "end": "ends:END",
    "answer": "ends:ANSWER",
    "llm": "llm",
    "tool": "tool",
    "code": "code",
    "template-transform": "values:TEMPLATE",
    "question-classifier": "question_classifier",
    "parameter-extractor": "parameter_extractor",
    "agent": "agent",
    "if-else": "if_else",
    "variable-aggregator": "values:AGGREGATOR",
    "assigner": "values:ASSIGNER",
    "iteration": "iteration",
    "loop": "loop:LOOP",
    "loop-end": "loop:LOOP_END",
    "http-request": "http_request",
    "list-operator": "values:LIST_OPERATOR",
    "knowledge-retrieval": "dify_only:RETRIEVAL",
    "document-extractor": "dify_only:EXTRACTOR",
    "human-input": "dify_only:HUMAN_INPUT",
    "external-data-tool": "dify_only:EXTERNAL_DATA",
    "datasource": "dify_only",
    "datasource-empty": "dify_only",
    "knowledge-index": "dify_only",
    "trigger-webhook": "dify_only",
    "trigger-schedule": "dify_only",
    "trigger-plugin": "dify_only",
}
_NEWER = "dify_only"  # what a type of an export that is newer than this program is taken for
_OLDER_NAMES = {"variable-assigner": "variable-aggregator", "http": "http-request"}
_own: dict[str, NodeType] = {}


def canonical_type(name: str) -> str:
    """The one name of a type: `If_Else` and `if-else` are one, and so are older names and today's."""
    plain = name.strip().lower().replace("_", "-")
    return _OLDER_NAMES.get(plain, plain)


def known_types() -> tuple[str, ...]:
    return tuple(dict.fromkeys((*_HOMES, *_own)))


def register_node_type(name: str, node_type: NodeType) -> None:
    """Add a node type of one's own, or replace one. See `NodeType` for what it must do."""
    _own[canonical_type(name)] = node_type


def node_type(name: str, *, may_be_newer: bool = False) -> NodeType:
    """Raises UnknownNodeTypeError, which lists the known ones.

    may_be_newer: of a file that Dify has written, in which an unknown name is that of a newer type.
    """
    name = canonical_type(name)
    if name in _own:
        return _own[name]
    if name not in _HOMES and not may_be_newer:
        raise UnknownNodeTypeError(name, known_types())
    module, _, own_name = _HOMES.get(name, _NEWER).partition(":")
    found: NodeType = getattr(importlib.import_module(f"{_PACKAGE}.{module}"), own_name or "NODE_TYPE")
    return found
