"""What is optimized, whatever kind it is: its texts, its cost per row, and where its winner goes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol, Self

from autoprompt.errors import Problem
from autoprompt.llm.client import Client
from autoprompt.measure.program import Program
from autoprompt.metrics import Metric
from autoprompt.records import Candidate, Example
from autoprompt.runs import RunFolder

ComponentKind = Literal["instruction", "template", "tool", "tool parameter"]


@dataclass(frozen=True, slots=True)
class Component:
    """One text of a task.

    kind: "instruction" for a text that is sent as it is, "template" for one that a row's values are filled
        into, "tool" and "tool parameter" for descriptions that a model chooses by.
    locked: the search leaves it as it is.
    """

    name: str
    kind: ComponentKind
    text: str
    locked: bool = False


class Task(Protocol):
    """What the settings name as the thing to optimize or to score. Sends nothing itself.

    A run, an evaluation and a check ask nothing else about it: a new kind implements this and is named in
    `evaluation.task.open_task`.
    """

    @property
    def components(self) -> tuple[Component, ...]:
        """The texts, in the order in which a row meets them."""
        ...

    @property
    def calls_per_row(self) -> int:
        """Requests that one row takes at most, retries and a judge's aside."""
        ...

    @property
    def has_steps(self) -> bool:
        """Whether a row passes through steps, so that a component is not simply given the row."""
        ...

    @property
    def input_fields(self) -> tuple[str, ...]:
        """The fields that make up a row's input where the settings name none; () for one field."""
        ...

    @property
    def digest(self) -> str:
        """A sha256 that changes with anything that is measured, candidates' texts aside."""
        ...

    def fitted(self, rows: Sequence[Example]) -> Self:
        """Return the task as it is run on these rows.

        Raises DatasetError for a row that lacks what the task takes.
        """
        ...

    def warnings(self, rows: Mapping[Path, Sequence[Example]]) -> list[Problem]:
        """Return what a user should know before the first call. rows: those of each file.

        Raises DatasetError and PromptError for what cannot be filled in.
        """
        ...

    def check_search(self) -> list[Problem]:
        """Check that other texts can be put in place, and return what a search should warn of.

        Raises InputError for a source in which a text cannot be replaced.
        """
        ...

    def repeated_text(self, fields: Sequence[str]) -> str:
        """Return the text that each demonstration repeats beside its row. fields: those of the rows."""
        ...

    def program(
        self, client: Client, metric: Metric, *, labels: tuple[str, ...], rows: Sequence[Example]
    ) -> Program:
        """Return what is run on each row.

        rows: those whose targets tell how long an answer can be that is right.
        """
        ...

    def write_original(self, folder: RunFolder, rows: Sequence[Example]) -> None:
        """Keep what a run of `rows` begins with, unless the folder has it."""
        ...

    def check_unchanged(self, folder: RunFolder) -> None:
        """Raises StoreError if the source is not the one that the run began with."""
        ...

    def write_best(self, folder: RunFolder, best: Candidate) -> None:
        """Write the winner in the form of the source, beside the texts that every run writes."""
        ...


def texts_of(task: Task) -> dict[str, str]:
    """Name -> text of all components."""
    return {component.name: component.text for component in task.components}


def locked_of(task: Task) -> frozenset[str]:
    """Names of the components that stay as they are."""
    return frozenset(component.name for component in task.components if component.locked)


def shown_text(task: Task) -> str:
    """All texts as one: that of a single component, else each under its name."""
    components = task.components
    if len(components) == 1 and not task.has_steps:
        return components[0].text
    return "\n\n".join(f"[{component.name}]\n{component.text}" for component in components)
