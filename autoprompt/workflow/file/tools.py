"""The tools of a workflow: those that its file describes, and whether each that a node asks for is there."""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from pydantic import ValidationError

from autoprompt.workflow.engine.errors import suggestion
from autoprompt.workflow.engine.http_call import unset_names
from autoprompt.workflow.engine.tools import HttpTool, registered_tools
from autoprompt.workflow.file.checks import CheckedNode
from autoprompt.workflow.file.faults import Faults
from autoprompt.workflow.file.reading import WorkflowFile

MISSING_TOOL = (
    "Name the Python file that registers it (@tool) as {tools}, describe it under `tools:` here, or mock the "
    "node."
)


def read_tools(file: WorkflowFile) -> dict[str, HttpTool]:
    """The HTTP tools of a file; one that cannot be read is left out, its faults are told by `check_tools`."""
    found = {}
    for name, entry in file.tools.items():
        with contextlib.suppress(ValidationError):
            found[str(name)] = _read_tool(name, entry)
    return found


def _read_tool(name: str, entry: Any) -> HttpTool:
    return HttpTool.model_validate({"name": str(name), **entry} if isinstance(entry, Mapping) else entry)


def check_tools(
    file: WorkflowFile, faults: Faults, nodes: Iterable[CheckedNode], mocked: Collection[str]
) -> None:
    """Tools of the file that cannot be read; of those that nodes ask for, the ones that would fail.

    These are warnings: what is missing here may be registered, or set, where the workflow runs.
    """
    described = {}
    for name, entry in file.tools.items():
        try:
            described[str(name)] = _read_tool(name, entry)
        except ValidationError as error:
            faults.add_invalid(("tools", str(name)), error, HttpTool, None)
    known = [*map(str, file.tools), *registered_tools()]
    for node in nodes:
        if node.id in mocked:
            continue
        for name in getattr(node.data, "tool_names", ()):
            if name not in known:
                hint = suggestion(name, known) or "None is known."
                said = f"tool {name!r} is not registered here. {hint} "
                said += MISSING_TOOL.format(tools="the run's setting `tools`")
            elif name in described and (unset := _unset(described[name])):
                said = f"tool {name!r} takes {', '.join(unset)} from the environment, where it is not set."
            else:
                continue
            faults.add(node.file.data_where, said, node.id, severity="warning")


def _unset(tool: HttpTool) -> list[str]:
    texts = (tool.url, *tool.headers.values())
    return list(dict.fromkeys(name for text in texts for name in unset_names(text)))
