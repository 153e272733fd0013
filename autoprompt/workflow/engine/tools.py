"""Tools that a workflow or an agent may call by name: Python functions, and requests that a file describes.

tools:
  weather:
    description: Weather of a city
    url: https://example.org/weather/{city}
    parameters: {city: {type: string, required: true}, days: integer}
    headers: {Authorization: "Bearer ${WEATHER_KEY}"}
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Protocol, cast, overload

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PrivateAttr,
    model_validator,
)

from autoprompt.text.files import json_value
from autoprompt.workflow.engine.errors import (
    AddressRefusedError,
    HttpError,
    UnknownToolError,
    WorkflowDefinitionError,
)
from autoprompt.workflow.engine.http_call import TIMEOUT_S, known_method, request_of_tool, send


class Tool(Protocol):
    @property
    def name(self) -> str: ...

    @property
    def description(self) -> str: ...

    def invoke(self, arguments: Mapping[str, Any]) -> Any:
        """Return what the tool returns. What it raises fails the node."""
        ...


@dataclass(frozen=True)
class FunctionTool:
    """A Python function as a tool. description: for the model; default: its docstring."""

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
    """Return the registered tool of this name.

    Raises:
        UnknownToolError: No tool of this name is registered.
    """
    if name not in _registered:
        raise UnknownToolError(name, _registered)
    return _registered[name]


def function_of_node(kind: str, node_id: str) -> Tool | None:
    """Return the registered tool that stands in for a node: one of its id, else one of its type's name."""
    names = (node_id, kind, kind.replace("-", "_"))
    return next((_registered[name] for name in names if name in _registered), None)


def registered_tools() -> tuple[str, ...]:
    """Return the names of the tools that are registered, in the order in which they came."""
    return tuple(_registered)


def as_tool(value: str | Tool | AnyFunction) -> Tool:
    """Return the tool that a name, a function, or an object of LangChain's stands for."""
    if isinstance(value, str):
        return get_tool(value)
    if hasattr(value, "invoke") and hasattr(value, "name"):
        return cast(Tool, value)
    if callable(value):
        return FunctionTool(value, getattr(value, "__name__", "tool"), (value.__doc__ or "").strip())
    raise WorkflowDefinitionError(f"{value!r} is not a tool. Give a function or the name of a tool.")


class HttpParameter(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    type: str = "string"
    description: str = ""
    required: bool = False

    @model_validator(mode="before")
    @classmethod
    def _of_type(cls, value: Any) -> Any:
        return {"type": value} if isinstance(value, str) else value


def _upper(value: Any) -> Any:
    return value.upper() if isinstance(value, str) else value


class HttpTool(BaseModel):
    """A tool that is a request. Arguments go into `{name}` of the address, else into its query or, with POST,
    PUT and PATCH, into a JSON body. `${NAME}` in address and headers is taken from the environment.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str
    url: str
    method: Annotated[str, BeforeValidator(_upper), AfterValidator(known_method)] = "GET"
    description: str = ""
    headers: dict[str, str] = Field(default_factory=dict)
    parameters: dict[str, HttpParameter] = Field(default_factory=dict)
    timeout_s: Annotated[float, Field(gt=0)] = TIMEOUT_S  # of the whole answer with its redirects
    _allow_private_hosts: tuple[str, ...] = PrivateAttr(default=())

    def allowing(self, hosts: Sequence[str]) -> HttpTool:
        """Return the tool as a run may use it.

        Args:
            hosts: The run's `allow_private_hosts`, which no file can set.
        """
        found = self.model_copy()
        found._allow_private_hosts = tuple(hosts)
        return found

    @property
    def schema_of_arguments(self) -> dict[str, Any]:
        """Return the JSON schema of the arguments, as requests describe tools."""
        described = {
            name: {"type": parameter.type, "description": parameter.description}
            for name, parameter in self.parameters.items()
        }
        required = [name for name, parameter in self.parameters.items() if parameter.required]
        return {"title": self.name, "type": "object", "properties": described, "required": required}

    def invoke(self, arguments: Mapping[str, Any]) -> Any:
        """Send the request and return the answer: as JSON if it is JSON, else as text.

        Raises:
            ValueError: A required argument is missing, or the request is not valid.
            HttpError: There was no answer, or its status is 400 or higher.
        """
        missing = [n for n, parameter in self.parameters.items() if parameter.required and n not in arguments]
        if missing:
            raise ValueError(f"tool {self.name}: no value for {', '.join(missing)}")
        request = request_of_tool(self.method, self.url, self.headers, arguments, self.timeout_s)
        try:
            response = send(request, self._allow_private_hosts)
        except AddressRefusedError:
            raise
        except HttpError as error:
            raise HttpError(f"tool {self.name}: {error}", error.status) from error
        if response.status >= 400:
            said = f"tool {self.name} was answered {response.status}{response.note}: {response.body[:200]}"
            raise HttpError(said, response.status)
        return json_value(response.body, response.body)


def tool_named(
    name: str, http_tools: Mapping[str, HttpTool], allow_private_hosts: Sequence[str] = ()
) -> Tool:
    """Return a tool of the file, else a registered one.

    Raises:
        UnknownToolError: The file describes no tool of this name, and none is registered.
    """
    return http_tools[name].allowing(allow_private_hosts) if name in http_tools else get_tool(name)


def accepted_arguments(tool: Tool) -> frozenset[str] | None:
    """Return the names of the arguments that a tool takes; None for one that takes any."""
    if isinstance(tool, HttpTool):
        return frozenset(tool.parameters) if tool.parameters else None
    if isinstance(tool, FunctionTool):
        try:
            parameters = inspect.signature(tool.function).parameters.values()
        except (TypeError, ValueError):
            return None
        if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters):
            return None
        return frozenset(parameter.name for parameter in parameters)
    described = getattr(tool, "args", None)  # of LangChain's tools
    return frozenset(described) if isinstance(described, Mapping) else None
