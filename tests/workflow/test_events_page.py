"""The pages name every field of every event and of every error of an extraction."""

from __future__ import annotations

import inspect
import re
from dataclasses import fields
from pathlib import Path

from autoprompt import workflow
from autoprompt.workflow import ExtractionError
from autoprompt.workflow.engine import events
from autoprompt.workflow.engine.events import Event, NodeEvent

DOCS = Path(__file__).parents[2] / "docs"


def table(page: str, heading: str) -> dict[str, set[str]]:
    """Name in the first cell -> names of the last cell of its line."""
    section = (DOCS / page).read_text(encoding="utf-8").partition(heading)[2].partition("\n## ")[0]
    told: dict[str, set[str]] = {}
    for line in re.findall(r"^\| (`.*) \|$", section, re.MULTILINE):
        cells = line.split(" | ")
        for name in re.findall(r"`(\w+)`", cells[0]):
            told[name] = set(re.findall(r"`(\w+)`", cells[-1]))
    return told


def test_every_event_is_told_of_with_its_fields() -> None:
    told = table("reference/workflow-python.md", "## Events")
    kinds = [kind for _, kind in inspect.getmembers(events, inspect.isclass) if issubclass(kind, Event)]
    shared = {field.name for field in fields(NodeEvent)}
    assert shared <= set(told)
    base = {field.name for field in fields(events.NodeRunFailed)}
    for kind in kinds:
        if kind in (Event, NodeEvent):
            continue
        own = {field.name for field in fields(kind)} - (shared if issubclass(kind, NodeEvent) else set())
        own -= base if kind is events.NodeRunException else set()
        assert own <= told[kind.__name__], kind


def test_every_error_of_an_extraction_is_told_of_with_its_fields() -> None:
    told = table("reference/workflow-files.md", "### Errors of extractions")
    public = [getattr(workflow, name) for name in workflow.__all__]
    kinds = [k for k in public if inspect.isclass(k) and issubclass(k, ExtractionError)]
    assert sorted(k.__name__ for k in kinds) == sorted(told)
    for kind in kinds:
        if kind is not ExtractionError:
            names = set(
                re.findall(r"self\.(\w+)(?:, self\.(\w+))* =|, self\.(\w+)", inspect.getsource(kind.__init__))
            )
            written = {name for found in names for name in found if name} - {"problems"}
            assert written <= told[kind.__name__], kind
