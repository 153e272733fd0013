"""Which types of nodes there are, and the record of each."""

from __future__ import annotations

from pydantic import BaseModel

from autoprompt.workflow.nodes import known_types, node_type
from autoprompt.workflow.spec.fields import NodeData
from autoprompt.workflow.spec.records.asking import AgentData, ClassifierData, ExtractorData, LLMData
from autoprompt.workflow.spec.records.branching import AggregatorData, AssignerData, IfElseData
from autoprompt.workflow.spec.records.ends import AnswerData, EndData, StartData
from autoprompt.workflow.spec.records.http import HttpRequestData
from autoprompt.workflow.spec.records.lists import ListOperatorData
from autoprompt.workflow.spec.records.repeating import IterationData, LoopData
from autoprompt.workflow.spec.records.working import CodeData, TemplateData, ToolData

DATA_OF_TYPE: dict[str, type[NodeData]] = {
    "start": StartData,
    "end": EndData,
    "answer": AnswerData,
    "llm": LLMData,
    "tool": ToolData,
    "code": CodeData,
    "template-transform": TemplateData,
    "question-classifier": ClassifierData,
    "parameter-extractor": ExtractorData,
    "agent": AgentData,
    "if-else": IfElseData,
    "variable-aggregator": AggregatorData,
    "assigner": AssignerData,
    "iteration": IterationData,
    "loop": LoopData,
    "http-request": HttpRequestData,
    "list-operator": ListOperatorData,
    "iteration-start": NodeData,
    "loop-start": NodeData,
    "loop-end": NodeData,
}
"""Type of node -> what it says. `_` for `-` is accepted too."""

KNOWN_TYPES = tuple(name for name in DATA_OF_TYPE if not name.endswith(("-start", "-end")))
MODEL_TYPES = frozenset({"llm", "agent", "question-classifier", "parameter-extractor"})
CONTAINER_TYPES = frozenset({"iteration", "loop"})
_OLDER_NAMES = {"variable-assigner": "variable-aggregator", "http": "http-request"}


def canonical_type(name: str) -> str | None:
    """The name under which a type of node is known here, None for one that is not."""
    plain = name.strip().lower().replace("_", "-")
    plain = _OLDER_NAMES.get(plain, plain)
    return plain if plain in DATA_OF_TYPE or plain in registered_types() else None


def registered_types() -> list[str]:
    """Types of nodes that were added in Python."""
    return [name for name in known_types() if name not in DATA_OF_TYPE]


def data_model(kind: str) -> type[BaseModel]:
    """The record that the data of a type is read into."""
    return DATA_OF_TYPE[kind] if kind in DATA_OF_TYPE else node_type(kind).data_model
