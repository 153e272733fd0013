"""Workflows of a test: written in YAML, run on a scripted model, looked at by their events."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from autoprompt.llm import ScriptedClient
from autoprompt.workflow import RunSettings, Workflow
from autoprompt.workflow.engine.events import (
    Event,
    GraphRunFailed,
    GraphRunPartialSucceeded,
    GraphRunSucceeded,
    NodeRunSucceeded,
    WorkflowWarning,
)

Client = ScriptedClient


@dataclass
class FlowRun:
    """outputs: None for a run that failed, with its `error`."""

    events: list[Event]
    client: ScriptedClient

    @property
    def outputs(self) -> dict[str, Any] | None:
        last = self.events[-1]
        return dict(last.outputs) if isinstance(last, GraphRunSucceeded | GraphRunPartialSucceeded) else None

    @property
    def error(self) -> str | None:
        last = self.events[-1]
        return last.error if isinstance(last, GraphRunFailed) else None

    @property
    def ran(self) -> list[str]:
        return [event.node_id for event in self.events if isinstance(event, NodeRunSucceeded)]

    @property
    def warnings(self) -> list[str]:
        return [event.message for event in self.events if isinstance(event, WorkflowWarning)]

    def node(self, node_id: str) -> NodeRunSucceeded:
        """The last success of a node."""
        found = [e for e in self.events if isinstance(e, NodeRunSucceeded) and e.node_id == node_id]
        return found[-1]

    def of(self, kind: type[Any]) -> list[Any]:
        return [event for event in self.events if isinstance(event, kind)]


def flow(text: str) -> dict[str, Any]:
    """A workflow's content out of indented YAML."""
    content: dict[str, Any] = yaml.safe_load(textwrap.dedent(text))
    return content


def over_items(nodes: str, reads: str, **data: Any) -> dict[str, Any]:
    """A workflow whose node `each` repeats nodes for each of the input's `items`.

    Args:
        nodes: What is repeated, a YAML list.
        reads: The variable inside that an item puts out, `node.variable`.
        data: More of the iteration's own settings.
    """
    content = flow("""
        nodes:
          - {id: start, type: start, data: {variables: [{variable: items, type: array}]}}
          - {id: each, type: iteration, data: {iterator_selector: [start, items]}}
          - {id: end, type: end, data: {outputs: {out: [each, output]}}}
    """)
    repeated = yaml.safe_load(textwrap.dedent(nodes))
    content["nodes"][1]["data"] |= {"nodes": repeated, "output_selector": reads.split("."), **data}
    return content


def echo(messages: list[Any]) -> str:
    return f"<{messages[-1].content}>"


def run_flow(
    source: str | Path | Mapping[str, Any],
    inputs: Mapping[str, Any] | None = None,
    answers: Any = echo,
    **settings: Any,
) -> FlowRun:
    """Run YAML, a file or content to its end. answers: of a `ScriptedClient`, which echoes by default."""
    workflow = Workflow.load(flow(source) if isinstance(source, str) else source)
    client = answers if isinstance(answers, ScriptedClient) else ScriptedClient(answers)
    events = list(workflow.stream(inputs or {}, settings=RunSettings(client=client, **settings)))
    return FlowRun(events, client)


def outputs_of(
    source: str | Path | Mapping[str, Any],
    inputs: Mapping[str, Any] | None = None,
    answers: Any = echo,
    **settings: Any,
) -> dict[str, Any]:
    """The result of a run that has to succeed."""
    done = run_flow(source, inputs, answers, **settings)
    assert done.outputs is not None, done.error
    return done.outputs
