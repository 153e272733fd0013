"""Find a dataset and its sidecar: `NAME.task.yaml` beside it says what the task is."""

from __future__ import annotations

import difflib
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from autoprompt.errors import DatasetError, Place, Problem
from autoprompt.settings.kinds import Label, PromptText, Refused
from autoprompt.settings.yaml_file import load_yaml
from autoprompt.text.names import named

DATASETS_DIR = Path("datasets")
_SPLIT_ENDINGS = {".train", ".val", ".test"}


class Task(BaseModel):
    """What a sidecar may say. All of it is optional; None (or empty) where it says nothing."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    prompt: PromptText | None = Field(None, description="The naive prompt.")
    task: str | None = Field(None, description="What the task is about, for the memory.")
    input_field: str | None = Field(None, description="Field that holds the input.")
    target_field: str | None = Field(None, description="Field that holds the expected answer.")
    group_field: str | None = Field(
        None, description="Rows equal in this field stay in one split, and count together in tests."
    )
    labels: tuple[Label, ...] | None = Field(None, description="The only answers allowed.")
    metric: str | None = Field(None, description="How an answer is scored.")
    metric_options: dict[str, Any] = Field(default_factory=dict, description="Options of the metric.")
    max_output_tokens: Annotated[int, Field(gt=0)] | None = Field(None, description="Longest answer.")
    locked: tuple[str, ...] = Field((), description="Passages of the prompt that must stay as they are.")

    @field_validator("labels")
    @classmethod
    def _labels_differ(cls, value: tuple[str, ...] | None) -> tuple[str, ...] | None:
        if value is not None and (len(set(value)) < 2 or len(set(value)) < len(value) or "" in value):
            raise Refused(
                Problem("settings.bad-labels", "expected at least two labels, none empty, none twice")
            )
        return value

    @model_validator(mode="after")
    def _locked_is_in_the_prompt(self) -> Self:
        if self.prompt is None or self.prompt.startswith("@"):  # checked with the text of the file
            return self
        lost = [passage for passage in self.locked if passage not in self.prompt]
        if lost:
            raise Refused(not_locked(lost[0]).at(Place(setting="locked")))
        return self


def not_locked(passage: str) -> Problem:
    """Return the problem of a locked passage that the prompt does not hold."""
    said = f"the prompt does not hold the locked passage {passage!r}"
    return Problem("prompt.no-such-passage", said, fix="Copy it from the prompt.")


def find_sidecar(dataset: Path) -> Path | None:
    """`NAME.task.yaml` beside `NAME.jsonl`; None where there is none.

    The files of a split (`NAME.train.jsonl`, `.val`, `.test`) may share the one sidecar of NAME.
    """
    names = [dataset.stem]
    if Path(dataset.stem).suffix in _SPLIT_ENDINGS:
        names.append(Path(dataset.stem).stem)
    paths = [dataset.with_name(f"{name}.task.yaml") for name in names]
    return next((path for path in paths if path.is_file()), None)


def load_task(sidecar: Path) -> Task:
    """Return what the sidecar says.

    Raises:
        ConfigError: With file and line.
    """
    return load_yaml(sidecar, Task, source="sidecar")


def find_dataset(path: Path) -> Path:
    """Return the file that is meant: the path as given, else the same path under `datasets/`.

    Raises:
        DatasetError: If neither is there or if it is a folder, with the closest names.
    """
    try:
        return _found(path)
    except OSError as error:
        said, fix = f"cannot be read: {error.strerror}", "Check the path and its permissions."
        raise DatasetError(Problem("dataset.unreadable", said, Place(path), fix)) from error


def _found(path: Path) -> Path:
    for candidate in (path, DATASETS_DIR / path):
        if candidate.is_file():
            return candidate
    if str(path) == "-":
        said, fix = "rows are not read from standard input", "Save them to a file and give its path."
        raise DatasetError(Problem("dataset.standard-input", said, Place(path), fix))
    if path.is_dir():
        inside = sorted(entry.name for entry in path.iterdir() if entry.is_file())
        said = "this is a folder, expected a file with rows" + (
            f"; it holds {named(inside)}" if inside else ""
        )
        raise DatasetError(Problem("dataset.folder", said, Place(path), "Give the path of one file."))
    if path.exists():
        said, fix = "this is neither a file nor a folder", "Save the rows to a file and give its path."
        raise DatasetError(Problem("dataset.no-file", said, Place(path), fix))
    folders = [folder for folder in (path.parent, DATASETS_DIR) if folder.is_dir()]
    there = sorted({entry.name for folder in folders for entry in folder.iterdir() if entry.is_file()})
    close = difflib.get_close_matches(path.name, there, n=3)
    fix = f"Did you mean {named(close)}?" if close else "Check the path."
    said = "no such file" + ("" if path.is_absolute() else f", neither there nor at {DATASETS_DIR / path}")
    raise DatasetError(Problem("dataset.not-found", said, Place(path), fix))
