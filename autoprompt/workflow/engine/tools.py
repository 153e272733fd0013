"""Tools: functions that a workflow or an agent may call by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, cast, overload

from autoprompt.workflow.engine.errors import UnknownToolError, WorkflowDefinitionError


class Tool(Protocol):
    @property
    def name(self) -> str: ...

    @property
    def description(self) -> str: ...

    def invoke(self, arguments: Mapping[str, Any]) -> Any:
        """What the tool returns. What it raises fails the node."""
        ...


@dataclass(frozen=True)
class FunctionTool:
    """A Python function as a tool. description: what a model is told of it; default: its docstring."""

    function: Callable[..., Any]
    name: str
    description: str = ""

    def invoke(self, arguments: Mapping[str, Any]) -> Any:
        return self.function(**arguments)


_registered: dict[str, Tool] = {}

AnyFunction = Callable[..., Any]


@overload
def tool(function: AnyFunction) -> AnyFunction: ...
@overload
def tool(function: str | None = None, *, description: str = "") -> Callable[[AnyFunction], AnyFunction]: ...
def tool(function: AnyFunction | str | None = None, *, description: str = "") -> Any:
    """Register a function as a tool: `@tool`, or `@tool("its_name")`. The function stays what it is."""

    def register(plain: AnyFunction) -> AnyFunction:
        name = function if isinstance(function, str) else plain.__name__
        register_tool(FunctionTool(plain, name, description or (plain.__doc__ or "").strip()))
        return plain

    return register(function) if callable(function) else register


def register_tool(new: Tool) -> None:
    """Add a tool under its name, or replace one."""
    _registered[new.name] = new


def get_tool(name: str) -> Tool:
    """Raises UnknownToolError, which lists the registered ones, for a name that is none."""
    if name not in _registered:
        raise UnknownToolError(name, _registered)
    return _registered[name]


def function_of_node(kind: str, node_id: str) -> Tool | None:
    """The registered tool that stands in for a node: one of the node's id, else one of its type's name."""
    names = (node_id, kind, kind.replace("-", "_"))
    return next((_registered[name] for name in names if name in _registered), None)


def registered_tools() -> tuple[str, ...]:
    """Names of the tools that are registered, in the order in which they came."""
    return tuple(_registered)


def as_tool(value: str | Tool | AnyFunction) -> Tool:
    """The tool that a name, a function, or an object of LangChain's stands for."""
    if isinstance(value, str):
        return get_tool(value)
    if hasattr(value, "invoke") and hasattr(value, "name"):
        return cast(Tool, value)
    if callable(value):
        return FunctionTool(value, getattr(value, "__name__", "tool"), (value.__doc__ or "").strip())
    raise WorkflowDefinitionError(f"{value!r} is no tool: give a function, or the name of a registered one")
