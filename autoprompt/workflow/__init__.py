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
    from autoprompt.workflow.engine.definition import RetryConfig, register_node_type
    from autoprompt.workflow.engine.errors import (
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
    from autoprompt.workflow.engine.runner import RunSettings
    from autoprompt.workflow.engine.tools import tool
    from autoprompt.workflow.engine.variables import VariablePool
    from autoprompt.workflow.python.base import BaseNode, EndNode, StartNode, WorkflowContext
    from autoprompt.workflow.python.iterative import IterativeWorkflowNode
    from autoprompt.workflow.python.steps import CodeNode, LLMNode, ToolNode
    from autoprompt.workflow.workflow import Workflow

_HOMES = {
    "BaseNode": "autoprompt.workflow.python.base",
    "CodeNode": "autoprompt.workflow.python.steps",
    "EndNode": "autoprompt.workflow.python.base",
    "IterativeWorkflowNode": "autoprompt.workflow.python.iterative",
    "LLMNode": "autoprompt.workflow.python.steps",
    "RetryConfig": "autoprompt.workflow.engine.definition",
    "RunSettings": "autoprompt.workflow.engine.runner",
    "StartNode": "autoprompt.workflow.python.base",
    "ToolNode": "autoprompt.workflow.python.steps",
    "VariablePool": "autoprompt.workflow.engine.variables",
    "Workflow": "autoprompt.workflow.workflow",
    "WorkflowContext": "autoprompt.workflow.python.base",
    "register_node_type": "autoprompt.workflow.engine.definition",
    "tool": "autoprompt.workflow.engine.tools",
}


def __getattr__(name: str) -> Any:
    """Names are imported when they are used, so that the command line starts at once."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import importlib

    return getattr(importlib.import_module(_HOMES.get(name, "autoprompt.workflow.engine.errors")), name)
