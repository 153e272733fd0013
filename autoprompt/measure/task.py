"""What is optimized, whatever kind it is: its texts, its cost per row, and where its winner goes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol, Self

from autoprompt.brief import brief
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
    tool: of a description the tool `find_queue` or the parameter `find_queue.topic`.
    locked: the search leaves it as it is.
    answers_rows: it is sent with the row itself, and what comes back is the row's answer. Only then can the
        text say how to answer, show rows as demonstrations and ask to reason first. False if that is not
        known, as of a step of several.
    """

    name: str
    kind: ComponentKind
    text: str
    locked: bool = False
    answers_rows: bool = False
    tool: str = ""

    __repr__ = brief


class SourceForm(Protocol):
    """The form that a task's source has, for the texts of a run's candidates: `runs export` writes it."""

    @property
    def name(self) -> str:
        """As `--format` names it."""
        ...

    @property
    def file_name(self) -> str:
        """Return a name for its file, for the commands that the run suggests next."""
        ...

    @property
    def endings(self) -> tuple[str, ...]:
        """Endings of its files; "" if it is what is shown without a file's name."""
        ...

    def write(self, folder: RunFolder, candidate: Candidate) -> str:
        """Return the source that the run began with, with the candidate's texts and demonstrations in it.

        Raises:
            StoreError: If the source cannot be read here, and so not be written right.
        """
        ...

    def notes(self, folder: RunFolder, candidate: Candidate) -> list[str]:
        """Return what the user has to know of what `write` returns, in sentences."""
        ...


class Task(Protocol):
    """What the settings name as the thing to optimize or to score. Sends nothing itself.

    A run, an evaluation and a check ask nothing else about it: a new kind implements this and is named in
    `evaluation.task`, by `open_task` and, if its source is more than one text, by `source_form`.
    """

    @property
    def components(self) -> tuple[Component, ...]:
        """The texts, in the order in which a row meets them."""
        ...

    @property
    def shown(self) -> tuple[str, ...]:
        """The inputs of the demonstrations that the source itself holds beside its texts."""
        ...

    @property
    def calls_per_row(self) -> float:
        """Requests to plan with for one row, retries and a judge's aside.

        Where rows differ, about their mean: the limit on calls holds whatever a row takes.
        """
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

        Raises:
            DatasetError: For a row that lacks what the task takes.
        """
        ...

    def warnings(self, rows: Mapping[Path, Sequence[Example]]) -> list[Problem]:
        """Return what a user should know before the first call. rows: those of each file.

        Raises:
            DatasetError, PromptError: For what cannot be filled in.
        """
        ...

    def check_search(self) -> list[Problem]:
        """Check that other texts can be put in place, and return what a search should warn of.

        Raises:
            InputError: For a source in which a text cannot be replaced.
        """
        ...

    def repeated_text(self, fields: Sequence[str]) -> str:
        """Return the text that each demonstration repeats beside its row. fields: those of the rows."""
        ...

    def program(
        self,
        client: Client,
        metric: Metric,
        *,
        labels: tuple[str, ...],
        rows: Sequence[Example],
        folder: RunFolder | None = None,
    ) -> Program:
        """Return what is run on each row.

        rows: those whose targets tell how long an answer can be that is right. folder: of the run, for what
            is kept of rows besides the models' answers.
        """
        ...

    def write_original(self, folder: RunFolder, rows: Sequence[Example]) -> None:
        """Keep what a run of `rows` begins with, unless the folder has it."""
        ...

    def check_unchanged(self, folder: RunFolder) -> None:
        """Raise StoreError if the source is not the one that the run began with."""
        ...

    def check_writable(self, candidate: Candidate) -> None:
        """Raise InputError where the source cannot hold a candidate as it is measured."""
        ...

    def write_best(self, folder: RunFolder, best: Candidate) -> None:
        """Write the winner in the form of the source, beside the texts that every run writes."""
        ...


TOOL_KINDS: tuple[ComponentKind, ...] = ("tool", "tool parameter")


def texts_of(task: Task) -> dict[str, str]:
    """Name -> text of all components."""
    return {component.name: component.text for component in task.components}


def model_of(task: Task, client: Client) -> str:
    """Return the name of the model that answers rows; of a program, of those that its trial met."""
    found: tuple[str, ...] = getattr(getattr(task, "view", None), "models", ())
    return ", ".join(found) or client.name


def locked_of(task: Task) -> frozenset[str]:
    """Names of the components that stay as they are."""
    return frozenset(component.name for component in task.components if component.locked)


def answering_of(task: Task) -> Component | None:
    """Return the one text that is sent with each row and answered with the row's answer, if it is all."""
    first, *others = task.components
    return first if first.answers_rows and not others else None


def shown_text(task: Task) -> str:
    """All texts as one: that of the component that answers rows, else each under its name."""
    if (only := answering_of(task)) is not None:
        return only.text
    return "\n\n".join(f"[{component.name}]\n{component.text}" for component in task.components)
