"""What can go wrong in a workflow. A definition that must be fixed is one thing, a node that failed another.

WorkflowDefinitionError         3  a file, or a list of nodes, that must be fixed
├── UnknownNodeTypeError
└── UnknownToolError
NodeError                          a node failed; the exit code is that of its cause
├── IterationError                 a pass of an IterativeWorkflowNode
└── ExtractionError             3  a value could not be taken out of a conversation
    ├── VariableNotFoundError
    ├── InvalidVariableTypeError   no list of messages
    ├── SourceNodeNotFoundError    also a WorkflowDefinitionError: found when a file is loaded
    ├── ModelConfigNotFoundError
    └── LLMInvocationError      4  the model gave no answer; the only one that is tried again

A failure of something outside, an `outage`, says nothing of the prompts: nobody was there to be asked.
"""

from __future__ import annotations

import difflib
import errno
import socket
import ssl
import urllib.error
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from autoprompt.errors import (
    AuthenticationError,
    AutopromptError,
    BudgetExhausted,
    ConfigError,
    EndpointError,
    Interrupted,
    Problem,
    RequestRefusedError,
    RuntimeMissingError,
    StoreError,
    Voice,
)
from autoprompt.measure.program import failure_of
from autoprompt.records import Failure

# No strategy of a node helps against these, and no other node would fare better.
FATAL = (AuthenticationError, BudgetExhausted, Interrupted, RuntimeMissingError, StoreError)


class WorkflowDefinitionError(ConfigError, ValueError):
    """Also a ValueError, as workflows are made in Python too."""


class UnknownNodeTypeError(WorkflowDefinitionError):
    """known: the types that there are, for the nearest of them to be named."""

    def __init__(self, node_type: str, known: Iterable[str]) -> None:
        self.node_type = node_type
        super().__init__(f"unknown node type {node_type!r}. {suggestion(node_type, known)}")


class ToolOutputError(ValueError):
    """A function that stands in for a node returned what the node cannot put out."""


class UnknownToolError(WorkflowDefinitionError):
    """known: the tools that there are, for the nearest of them to be named."""

    def __init__(self, tool_name: str, known: Iterable[str]) -> None:
        self.tool_name = tool_name
        super().__init__(f"no tool {tool_name!r} is registered. {suggestion(tool_name, known)}".rstrip())


class NodeError(AutopromptError, RuntimeError):
    """A node failed. `node_id`: which; set by the engine where the raiser does not know it."""

    exit_code = 3

    def __init__(self, *problems: Problem | str, node_id: str | None = None) -> None:
        super().__init__(*problems)
        self.node_id = node_id

    def message(self, voice: Voice) -> str:
        said = super().message(voice)
        return said if self.failed_node_id is None else f"node '{self.failed_node_id}': {said}"

    @property
    def failed_node_id(self) -> str | None:
        """The node that failed, if it is known."""
        return self.node_id

    def happened_in(self, node_id: str) -> None:
        """Note the node that failed, where the raiser did not know it."""
        self.node_id = self.node_id or node_id

    @property
    def reason(self) -> str:
        """The message without the node."""
        return super().message(Voice.PYTHON)


class IterationError(NodeError):
    """A pass failed. What was finished before is not lost.

    iteration: the pass, from 1. results: what the finished passes contributed, in order.
    """

    def __init__(
        self, message: str, *, node_id: str, iteration: int, results: Sequence[Any], completed: int
    ) -> None:
        super().__init__(message, node_id=node_id)
        self.iteration = iteration
        self.results = list(results)
        self.completed = completed

    def message(self, voice: Voice) -> str:  # which names the node itself
        return AutopromptError.message(self, voice)


class ExtractionError(NodeError):
    """Base of what can go wrong when a node takes a value out of another node's conversation."""


class VariableNotFoundError(ExtractionError):
    """known: what could have been meant, node ids or names of variables.

    absent: a node without outputs: it did not run, or has failed.
    """

    def __init__(
        self,
        selector: Sequence[str],
        known: Iterable[str] = (),
        *,
        absent: str | None = None,
        has_failed: bool = False,
    ) -> None:
        self.selector = list(selector)
        dotted = ".".join(map(str, selector))
        names = list(known)
        is_node_known = any(name.startswith(f"{selector[0]}.") for name in names)
        hint = suggestion(dotted if is_node_known else str(selector[0]), names)
        if absent is not None:
            why = (
                "failed, and left by its fail-branch"
                if has_failed
                else "did not run: its branch was not taken"
            )
            hint = (
                f"Node {absent!r} {why}. Join the branches with a variable-aggregator, and read its output."
            )
        super().__init__(f"variable {dotted} has no value" + (f". {hint}" if hint else ""))


class InvalidVariableTypeError(ExtractionError):
    """The variable is there and holds no conversation. actual_type: what it holds."""

    def __init__(self, selector: Sequence[str], actual_type: type) -> None:
        self.selector = list(selector)
        self.actual_type = actual_type
        super().__init__(
            f"variable {'.'.join(map(str, selector))} is not a list of messages, it is "
            f"{actual_type.__name__}. "
            "Take the `context` of an llm, agent, question-classifier or parameter-extractor node."
        )


class SourceNodeNotFoundError(ExtractionError, WorkflowDefinitionError):
    """The node that an extraction names is not there: a fault of the workflow, found when its file is loaded.

    node_id: the missing node. reader_node_id: the node that wants the value, None if that is not known.
    known: those that could have been meant. problems: what to tell instead, all faults of the file.
    """

    def __init__(
        self,
        node_id: str,
        known: Iterable[str] = (),
        *,
        reader_node_id: str | None = None,
        problems: Sequence[Problem] = (),
    ) -> None:
        hint = suggestion(node_id, known)
        said = f"source node {node_id} is not in the workflow"
        super().__init__(f"{said}. {hint}" if hint else said)
        self.node_id, self.reader_node_id = node_id, reader_node_id
        self.problems = tuple(problems) or self.problems

    @property
    def failed_node_id(self) -> str | None:
        return None if any(problem.code for problem in self.problems) else self.reader_node_id

    def happened_in(self, node_id: str) -> None:
        self.reader_node_id = self.reader_node_id or node_id


class ModelConfigNotFoundError(ExtractionError):
    """Neither the extraction nor the node that it takes from says which model is to be asked."""

    def __init__(self, source_node_id: str, source_variable: str) -> None:
        self.source_node_id = source_node_id
        self.source_variable = source_variable
        super().__init__(
            f"no model for the extraction from {source_node_id}.{source_variable}: it names none, and node "
            f"{source_node_id} has none. Give the extraction a `model`."
        )


class LLMInvocationError(ExtractionError):
    """The model that was to extract failed. original_error: how."""

    exit_code = 4

    def __init__(self, original_error: Exception) -> None:
        self.original_error = original_error
        super().__init__(f"LLM invocation failed: {original_error}")


class HttpError(RuntimeError):
    """A request that was not answered, or with something too large, or with a `status` that is a failure."""

    def __init__(self, message: str, status: int | None = None) -> None:
        super().__init__(message)
        self.status = status


class AddressRefusedError(HttpError):
    """A request is not sent, since its host is not public. address: None if it cannot be resolved here."""

    def __init__(self, host: str, address: str | None) -> None:
        self.host = host
        if address is None:
            why = "cannot be resolved here, so its address cannot be checked before a proxy gets the request"
        else:
            why = f"is a local or private address{'' if host == address else f' ({address})'}"
        super().__init__(f"{host} {why}. To allow it, set allow_private_hosts: [{host}]")


def as_node_error(error: Exception, node_id: str) -> NodeError:
    """Return `error` as a NodeError of this node, with the same exit code and with `error` as its cause."""
    if isinstance(error, NodeError):
        error.happened_in(node_id)
        return error
    if isinstance(error, AutopromptError):
        wrapped = NodeError(*error.problems, node_id=node_id)
        wrapped.exit_code = error.exit_code
    else:
        wrapped = NodeError(f"{type(error).__name__}: {error}", node_id=node_id)
    wrapped.__cause__ = error
    return wrapped


def suggestion(name: str, known: Iterable[str]) -> str:
    """Return a sentence with the closest known name, or with all of them; "" where none is known."""
    names = list(dict.fromkeys(known))
    if not names:
        return ""
    close = difflib.get_close_matches(name, names, n=1)
    return (
        f"Did you mean {close[0]!r}? Known: {', '.join(names)}." if close else f"Known: {', '.join(names)}."
    )


def node_hint(name: str, titles: Mapping[str, str]) -> str:
    """Return a sentence that names the node that `name` likely means, and one that lists all nodes.

    Args:
        name: What was written where the id of a node is expected.
        titles: Id -> title of each node. Titles are shown beside ids that are numbers, as ids of exports are.
    """
    by_name = {title.casefold(): node_id for node_id, title in titles.items() if title}
    by_name |= {node_id: node_id for node_id in titles if not (name.isdecimal() and node_id.isdecimal())}
    shown = {
        node_id: f"{node_id} ({title})" if node_id.isdecimal() and title not in ("", node_id) else node_id
        for node_id, title in titles.items()
    }
    close = difflib.get_close_matches(name, by_name, n=1)
    close = close or difflib.get_close_matches(name.casefold(), by_name, n=1)
    meant = ""
    if close:
        node_id = by_name[close[0]]
        of_title = "" if close[0] == node_id else f", the id of {titles[node_id]!r}"
        meant = f"Did you mean {node_id!r}{of_title}? "
    return f"{meant}Known: {', '.join(shown.values())}."


# A key that is wrong, too many requests, and a service behind which nobody answers. Other statuses may well
# be the answer to what a model asked for.
_STATUSES = frozenset({401, 403, 407, 408, 429, 502, 503, 504})
_OF_NETWORK = (ConnectionError, TimeoutError, socket.gaierror, ssl.SSLError)
_UNREACHABLE = frozenset({errno.ENETDOWN, errno.ENETUNREACH, errno.EHOSTUNREACH})
# By name, as `requests` need not be there: its other errors are of addresses that a model may have written.
_OF_REQUESTS = frozenset({"requests.exceptions.ConnectionError", "requests.exceptions.Timeout"})


def causes(error: BaseException) -> Iterator[BaseException]:
    """Yield the error, and what it was raised from, one after the other."""
    seen: set[int] = set()
    cause: object = error
    while isinstance(cause, BaseException) and id(cause) not in seen:
        seen.add(id(cause))
        yield cause
        cause = getattr(cause, "original_error", None) or cause.__cause__


def outage(error: NodeError) -> Failure | None:
    """Return the kind of failure if a model, tool or service was not there; None if an answer is to blame.

    Raises:
        EndpointError: The endpoint failed in a way that every further row would meet, too.
    """
    for cause in causes(error):
        if isinstance(cause, RequestRefusedError):
            return failure_of(cause)
        if isinstance(cause, EndpointError):
            if cause.is_fatal:
                raise cause
            return "failed"
        if isinstance(cause, ToolOutputError):
            return "failed"
        if isinstance(cause, UnknownToolError | AddressRefusedError) or _is_unreachable(cause):
            return "not reached"
    return None


def is_out_of_reach(error: BaseException) -> bool:
    """Return whether a tool or a service was not there: the same may work at another time."""
    return any(_is_unreachable(cause) for cause in causes(error))


def _is_unreachable(error: BaseException) -> bool:
    """By the status of the answer where there was one, as httpx, requests and urllib keep it; else by the
    kind of the error."""
    status = _status(error)
    if status is not None:
        return status in _STATUSES
    if isinstance(error, urllib.error.URLError):
        return isinstance(error.reason, BaseException) and _is_of_network(error.reason)
    return _is_of_network(error)


def _is_of_network(error: BaseException) -> bool:
    import httpx

    if isinstance(error, httpx.TransportError):
        return not isinstance(error, httpx.UnsupportedProtocol | httpx.LocalProtocolError)
    names = {f"{kind.__module__}.{kind.__qualname__}" for kind in type(error).__mro__}
    is_unreachable = isinstance(error, OSError) and error.errno in _UNREACHABLE
    return isinstance(error, _OF_NETWORK) or is_unreachable or not names.isdisjoint(_OF_REQUESTS)


def _status(error: BaseException) -> int | None:
    response = _attribute(error, "response")
    for holder in (error, response):
        for name in ("status", "status_code", "code"):
            value = _attribute(holder, name)
            if isinstance(value, int) and value >= 100:
                return value
    return None


def _attribute(holder: object, name: str) -> object:
    """None where there is none, or where it raises: these are other people's errors."""
    try:
        return getattr(holder, name, None)
    except Exception:  # noqa: BLE001
        return None
