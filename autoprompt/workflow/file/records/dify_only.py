"""Nodes of Dify that need what only Dify has: a knowledge base, a reader of documents, a person."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, model_validator

from autoprompt.workflow.file.fields import (
    Flag,
    Identifier,
    Mapped,
    MaybeSelector,
    NodeData,
    PathSelector,
    Text,
)

TIMEOUT = "__timeout"  # the way out of a form that nobody answers


class DifyOnlyData(NodeData):
    """A node that runs in Dify alone. Other fields are not read: newer types may give them any form."""

    @model_validator(mode="before")
    @classmethod
    def _without_inputs(cls, value: Any) -> Any:
        return {**value, "inputs": []} if isinstance(value, Mapping) else value


class RetrievalData(DifyOnlyData):
    query_variable_selector: MaybeSelector = None
    dataset_ids: Annotated[tuple[str, ...], BeforeValidator(lambda value: value or ())] = ()
    multiple_retrieval_config: Mapped = Field(default_factory=dict)

    @property
    def top_k(self) -> int | None:
        """How many passages are asked for."""
        found = self.multiple_retrieval_config.get("top_k")
        return found if isinstance(found, int) else None


class ExternalDataData(DifyOnlyData):
    """What Dify's external data tools fill into an app without a graph. variables: the names of it."""

    variables: tuple[Text, ...] = ()


class DocumentExtractorData(DifyOnlyData):
    variable_selector: PathSelector
    is_array_file: Flag = False


class HumanInputData(DifyOnlyData):
    """A form for a person. form: names of its fields. actions: ids of its buttons, each a way out."""

    form: tuple[Text, ...] = ()
    actions: tuple[Identifier, ...] = ()

    @model_validator(mode="before")
    @classmethod
    def _of_form(cls, value: Any) -> Any:
        if not isinstance(value, Mapping):
            return value
        fields = _names(value.get("inputs"), "output_variable_name")
        return {**value, "form": fields, "actions": _names(value.get("user_actions"), "id")}


def _names(entries: Any, key: str) -> list[Any]:
    listed = entries if isinstance(entries, list) else []
    return [entry[key] for entry in listed if isinstance(entry, Mapping) and entry.get(key)]
