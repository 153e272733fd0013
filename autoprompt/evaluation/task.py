"""What is asked about each row: a prompt or a workflow, made from the settings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from autoprompt.llm.client import Client, Options
from autoprompt.measure.cost import FREE_OUTPUT_TOKENS, LABEL_OUTPUT_TOKENS
from autoprompt.measure.program import Program, PromptProgram, unknown_placeholders
from autoprompt.metrics import Metric
from autoprompt.metrics.base import TextMetric
from autoprompt.metrics.lengths import useful_tokens
from autoprompt.records import Example
from autoprompt.settings.records import JUDGED, RunConfig
from autoprompt.text.answers.reasoning import OUTPUT_TOKENS

if TYPE_CHECKING:
    from autoprompt.workflow.task import WorkflowTask


def input_of(config: RunConfig, prompt: str) -> tuple[str, ...]:
    """The fields that make up a row's input where none is named: the inputs of the workflow, in its order, or
    those that the prompt asks for, where it asks for several.

    Rows are known by their input: by one of its fields alone, many rows would be taken for one.
    """
    if config.input_field != RunConfig.model_fields["input_field"].default:
        return ()
    if config.workflow is None:
        asked = tuple(name for name in unknown_placeholders(prompt, ()) if name != config.target_field)
        return asked if len(asked) > 1 else ()
    from autoprompt.workflow.task import start_variables

    return start_variables(config.workflow)


def open_workflow(config: RunConfig, rows: Sequence[Example]) -> WorkflowTask | None:
    """The workflow that the settings name, checked against the rows; None for a single prompt."""
    if config.workflow is None:
        return None
    from autoprompt.workflow.flow_run import load_tools
    from autoprompt.workflow.task import open_task

    load_tools(config.tools)
    return open_task(
        config.workflow,
        rows,
        target_output=config.target_output,
        locked=config.locked,
        input_field=config.input_field,
        target_field=config.target_field,
    )


def task_options(config: RunConfig, labels: tuple[str, ...]) -> Options:
    limit = config.max_output_tokens or (LABEL_OUTPUT_TOKENS if labels else FREE_OUTPUT_TOKENS)
    return Options(
        role="task",
        temperature=config.temperature,
        max_output_tokens=limit,
        seed=0,
        labels=labels,
        wants_label_probs=bool(labels),
    )


def reasoning_tokens(config: RunConfig, labels: tuple[str, ...]) -> int:
    return config.max_output_tokens or (OUTPUT_TOKENS if labels else FREE_OUTPUT_TOKENS)


def calls_per_row(config: RunConfig, workflow: WorkflowTask | None) -> int:
    """Requests that one row takes, the judge's included."""
    judged = 1 if config.metric == JUDGED else 0
    return judged + (1 if workflow is None else workflow.calls_per_row)


def make_program(
    config: RunConfig,
    prompt: str,
    workflow: WorkflowTask | None,
    labels: tuple[str, ...],
    client: Client,
    metric: Metric,
    rows: Sequence[Example],
) -> Program:
    """A prompt or a workflow, asking `client`, its answers read by `metric`.

    rows: those whose targets say how long an answer can be that is right.
    """
    fields = {"input_field": config.input_field, "target_field": config.target_field}
    if workflow is not None:
        return workflow.program(client, labels=labels, read=metric.read, **fields)
    options = task_options(config, labels)
    if not labels and config.max_output_tokens is None:
        options = replace(options, useful_tokens=useful_tokens(metric, rows))
    return PromptProgram(
        client,
        prompt,
        labels=labels,
        options=options,
        read=metric.read,
        reasoning_tokens=reasoning_tokens(config, labels),
        read_marked=metric.read_marked if isinstance(metric, TextMetric) else None,
        **fields,
    )
