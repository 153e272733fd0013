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
    from autoprompt.workflow.registry import register_node_type
    from autoprompt.workflow.runner import RunSettings
    from autoprompt.workflow.tools import tool
    from autoprompt.workflow.variables import VariablePool
    from autoprompt.workflow.workflow import Workflow

_HOMES = {
    "BaseNode": "autoprompt.workflow.classes.base",
    "CodeNode": "autoprompt.workflow.classes.tool",
    "EndNode": "autoprompt.workflow.classes.start",
    "IterativeWorkflowNode": "autoprompt.workflow.classes.iterative",
    "LLMNode": "autoprompt.workflow.classes.llm",
    "RetryConfig": "autoprompt.workflow.definition",
    "RunSettings": "autoprompt.workflow.runner",
    "StartNode": "autoprompt.workflow.classes.start",
    "ToolNode": "autoprompt.workflow.classes.tool",
    "VariablePool": "autoprompt.workflow.variables",
    "Workflow": "autoprompt.workflow.workflow",
    "WorkflowContext": "autoprompt.workflow.classes.base",
    "register_node_type": "autoprompt.workflow.registry",
    "tool": "autoprompt.workflow.tools",
}


def __getattr__(name: str) -> Any:
    """Names are imported when they are used, so that the command line starts at once."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import importlib

    return getattr(importlib.import_module(_HOMES.get(name, "autoprompt.workflow.errors")), name)
