"""All that is wrong with a workflow's file, found without running it."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from autoprompt.workflow.file.checking import check_workflow
from autoprompt.workflow.file.faults import Fault

__all__ = ["Fault", "validate"]


def validate(
    source: Path | str | Mapping[str, Any],
    *,
    needs_model: bool = True,
    mocks: Mapping[str, Any] | None = None,
    given: Collection[str] = (),
) -> list[Fault]:
    """Every fault of a workflow, in the order of its lines; warnings among them.

    source: a file, or its content. needs_model: False where one model is given for all nodes.
    mocks: those of a run, besides the file's own; a mocked node needs neither model nor tool.
    given: ids of nodes whose outputs come with the inputs, so that they do not run either.
    Raises ConfigError for a file that is no YAML.
    """
    return check_workflow(source, needs_model=needs_model, mocks=mocks, given=given).faults.all
