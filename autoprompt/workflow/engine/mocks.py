"""Answers that stand in for nodes, so that a workflow runs without models, tools and network."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from autoprompt.settings.yaml_file import YamlFile
from autoprompt.workflow.engine.errors import NodeError, WorkflowDefinitionError, suggestion


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
        self.own = frozenset(self)

    def beside(self, others: Mapping[str, Any]) -> MocksOfFile:
        """Return these with mocks that are in no file; where both mock a node, these are taken."""
        both = MocksOfFile({**others, **self}, self.file, self.where)
        both.own = self.own
        return both


class MockError(RuntimeError):
    """What a mocked node fails with; on a node that asks a model, the model's failure."""


class MissingMockError(NodeError):
    """A node runs in Dify alone, and nothing stands in for it. needed: its outputs, each with an example."""

    def __init__(self, kind: str, node_id: str, needed: Mapping[str, str]) -> None:
        super().__init__(f"Dify's {kind} does not run here; mock it. {how_to_mock(kind, node_id, needed)}")


def how_to_mock(kind: str, node_id: str, needed: Mapping[str, str]) -> str:
    """What to write so that a node which does not run here has outputs."""
    key = f'"{node_id}"' if node_id.isdecimal() else node_id
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


def with_outputs(mocks: Mapping[str, Mock], others: Mapping[str, Mock]) -> dict[str, Mock]:
    """The mocks, and over them the outputs of the others; errors and delays stay."""
    found = dict(mocks)
    for node_id, mock in others.items():
        known = found.get(node_id, Mock())
        found[node_id] = known.model_copy(update={"outputs": {**known.outputs, **mock.outputs}})
    return found


def read_mocks(mocks: Mapping[str, Any], known: Mapping[str, Any] | None = None) -> dict[str, Mock]:
    """Node id -> mock. known: the nodes that there are; None: not checked.

    Raises WorkflowDefinitionError for a mock of no node, or one that holds something else than these fields.
    """
    read = {}
    for node_id, mock in mocks.items():
        node_id = str(node_id)
        place = ""
        if isinstance(mocks, MocksOfFile) and node_id in mocks.own:
            place = f"{mocks.file.path} line {mocks.file.line((*mocks.where, node_id), is_key=True)}: "
        if known is not None and node_id not in known:
            raise WorkflowDefinitionError(f"{place}mocks: no node {node_id!r}. {suggestion(node_id, known)}")
        try:
            read[node_id] = mock if isinstance(mock, Mock) else Mock.model_validate(mock)
        except ValidationError as error:
            fault = error.errors()[0]
            where = ".".join(map(str, fault["loc"]))
            raise WorkflowDefinitionError(
                f"{place}mocks: {node_id}: {where}: {fault['msg']}. A mock has outputs, errors, delay_s."
            ) from error
    return read
