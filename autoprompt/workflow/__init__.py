"""Programs of several steps over models and tools, in Python or in YAML, run as LangGraph graphs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

__all__ = [
    "BaseNode",
    "CodeNode",
    "EndNode",
    "ExtractionError",
    "InvalidVariableTypeError",
    "IterationError",
    "IterativeWorkflowNode",
    "LLMInvocationError",
    "LLMNode",
    "ModelConfigNotFoundError",
    "NodeError",
    "RetryConfig",
    "RunSettings",
    "SourceNodeNotFoundError",
    "StartNode",
    "ToolNode",
    "UnknownNodeTypeError",
    "VariableNotFoundError",
    "VariablePool",
    "Workflow",
    "WorkflowContext",
    "WorkflowDefinitionError",
    "register_node_type",
    "tool",
]

if TYPE_CHECKING:
    from autoprompt.workflow.classes.base import BaseNode, WorkflowContext
    from autoprompt.workflow.classes.iterative import IterativeWorkflowNode
    from autoprompt.workflow.classes.llm import LLMNode
    from autoprompt.workflow.classes.start import EndNode, StartNode
    from autoprompt.workflow.classes.tool import CodeNode, ToolNode
    from autoprompt.workflow.definition import RetryConfig
    from autoprompt.workflow.errors import (
        ExtractionError,
        InvalidVariableTypeError,
        IterationError,
        LLMInvocationError,
        ModelConfigNotFoundError,
        NodeError,
        SourceNodeNotFoundError,
        UnknownNodeTypeError,
        VariableNotFoundError,
        WorkflowDefinitionError,
    )
    from autoprompt.workflow.nodes import register_node_type
    from autoprompt.workflow.runner import RunSettings
    from autoprompt.workflow.tools import tool
    from autoprompt.workflow.variables import VariablePool
    from autoprompt.workflow.workflow import Workflow

_HOMES = {
    "BaseNode": "classes.base",
    "CodeNode": "classes.tool",
    "EndNode": "classes.start",
    "IterativeWorkflowNode": "classes.iterative",
    "LLMNode": "classes.llm",
    "RetryConfig": "definition",
    "RunSettings": "runner",
    "StartNode": "classes.start",
    "ToolNode": "classes.tool",
    "VariablePool": "variables",
    "Workflow": "workflow",
    "WorkflowContext": "classes.base",
    "register_node_type": "nodes",
    "tool": "tools",
}


def __getattr__(name: str) -> Any:
    """Names are imported when they are used, so that the command line starts at once."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import importlib

    home = _HOMES.get(name, "errors")
    return getattr(importlib.import_module(f"{__name__}.{home}"), name)
