"""Answers that stand in for nodes, so that a workflow runs without models, tools and network."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from autoprompt.errors import Problem
from autoprompt.settings.yaml_file import YamlFile
from autoprompt.workflow.engine.errors import NodeError

_PLAIN_KEY = re.compile(r"[^\W\d][\w.-]*|[1-9][0-9]*")  # ids that need no quotes as keys of YAML


class Mock(BaseModel):
    """outputs: what the node puts out. errors: raised first, one an attempt. delay_s: before each attempt."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    outputs: dict[str, Any] = Field(default_factory=dict)
    errors: tuple[str, ...] = ()
    delay_s: Annotated[float, Field(ge=0)] = 0.0


class MocksOfFile(dict[str, Any]):
    """Mocks by node id that were read from a file of their own, under `where` in it."""

    def __init__(self, mocks: Mapping[str, Any], file: YamlFile, where: tuple[str, ...] = ()) -> None:
        super().__init__({str(node_id): mock for node_id, mock in mocks.items()})
        self.file, self.where = file, where


class MockError(RuntimeError):
    """What a mocked node fails with; on a node that asks a model, the model's failure."""


class MissingMockError(NodeError):
    """A node runs in Dify alone, and nothing stands in for it. needed: its outputs, each with an example."""

    def __init__(self, kind: str, node_id: str, needed: Mapping[str, str]) -> None:
        self._said = f"Dify's {kind} does not run here; mock it"
        super().__init__(Problem("workflow.no-mock", self._said, fix=how_to_mock(kind, node_id, needed)))

    @property
    def reason(self) -> str:
        """Without the lines to write, which the run's error shows."""
        return self._said


def how_to_mock(kind: str, node_id: str, needed: Mapping[str, str]) -> str:
    """What to write so that a node which does not run here has outputs."""
    key = node_id if _PLAIN_KEY.fullmatch(node_id) else json.dumps(node_id, ensure_ascii=False)
    outputs = ", ".join(f"{name}: {value}" for name, value in needed.items())
    said = f"Write into the mocks file: `{key}: {{outputs: {{{outputs}}}}}`. "
    columns = " and ".join(f"{node_id}.{name}" for name in needed)
    said += f"Or give it with each row, or as an input: {columns}."
    if kind in FUNCTIONS:
        name, argument = kind.replace("-", "_"), FUNCTIONS[kind]
        said += f" Or write the function `@tool def {name}({argument})` into the tools file."
    return said


FUNCTIONS = {"knowledge-retrieval": "query", "document-extractor": "file"}
"""Types that a Python function can stand in for, with what it is given."""
