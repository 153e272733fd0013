"""What a run keeps of its program, and a candidate's texts as a file: `runs export` writes it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from autoprompt.errors import ConfigError, Place, Problem, StoreError
from autoprompt.measure.task import ComponentKind
from autoprompt.programs.dialects import Role
from autoprompt.programs.placing import Placed
from autoprompt.records import Candidate, Demo, Origin
from autoprompt.runs import RunFolder
from autoprompt.runs.provenance import ExportedRun, exported_run
from autoprompt.settings.kinds import Label
from autoprompt.settings.yaml_file import load_yaml, top_keys
from autoprompt.text.files import read_json, to_yaml
from autoprompt.text.inputs import protect

VIEW = "program.json"  # in a run's folder
_PLACE = ("name", "kind", "site", "role", "original", "tool", "order")


class ProgramForm:
    """The texts of a program's candidate with their places in its requests, as YAML."""

    name, file_name = "program", "program.yaml"
    endings = ("", ".yaml", ".yml")

    def write(self, folder: RunFolder, candidate: Candidate) -> str:
        config, labels = folder.read_config(), folder.read_labels()
        found = (_short(record) for record in read_view(folder.path)["placed"])
        return to_yaml(
            {
                "components": dict(candidate.components),
                "demos": [demo.to_dict() for demo in candidate.demos],
                "placed": list(found),
                "labels": None if labels is None else list(labels),
                **{name: config[name] for name in ("input_field", "target_field") if config.get(name)},
                "run": exported_run(folder, config),
            }
        )

    def notes(self, folder: RunFolder, candidate: Candidate) -> list[str]:
        return []


def _short(record: Mapping[str, Any]) -> dict[str, Any]:
    return {name: record[name] for name in _PLACE if record[name] or name not in ("tool", "order")}


def read_view(run_dir: Path) -> dict[str, Any]:
    """Return what a run keeps of its program.

    Raises:
        StoreError: It has optimized no program, or was killed before it was tried.
    """
    path = run_dir / VIEW
    if not path.exists():
        said = f"run {run_dir.name} has not optimized a program"
        fix = "Name a run that was started with {program}."
        raise StoreError(Problem("program.no-view", said, fix=fix, settings={"program": None}))
    view: dict[str, Any] = read_json(path)
    return view


class ProgramDemo(BaseModel):
    """An input that a call of the program had, with the output to give."""

    model_config = ConfigDict(extra="forbid")
    component: str = Field(description="Component that it is shown with.")
    input: str = Field(description="What the call had beside its prompts.")
    output: str = Field(description="The output to give.")


class PlacedText(BaseModel):
    """Where a text is in the program's requests."""

    model_config = ConfigDict(extra="forbid")
    name: str = Field(description="Name of the component.")
    kind: ComponentKind = Field(description="What the text is.")
    site: str = Field(description="Call that sends it.")
    role: Role = Field(description="Role of the message.")
    original: str = Field(description="The text that the program sends.")
    tool: str = Field(default="", description="Tool that a description belongs to.")
    order: int = Field(default=0, description="Place among the texts of this call and role, from 0.")


class ProgramFile(BaseModel):
    """Texts of a program and their places: what `runs export RUN --to program.yaml` writes."""

    model_config = ConfigDict(extra="forbid")
    components: dict[str, str] = Field(min_length=1, description="Text of each component.")
    demos: tuple[ProgramDemo, ...] = Field(
        default=(), description="Demonstrations, in the order they are shown."
    )
    placed: tuple[PlacedText, ...] = Field(description="Where the texts are in requests.")
    labels: tuple[Label, ...] | None = Field(
        default=None, description="The only answers; empty for free answers, null if unknown."
    )
    input_field: str | None = Field(default=None, description="Field of a row that holds its input.")
    target_field: str | None = Field(default=None, description="Field of a row that holds the right answer.")
    run: ExportedRun | None = Field(default=None, description="Run that it comes from.")

    @classmethod
    def load(cls, path: Path) -> ProgramFile:
        """Read an export of `autoprompt runs export`. Raises ConfigError with the line."""
        protect(path, "exported program")
        keys = top_keys(path) if path.is_file() else ()
        if "components" in keys and "placed" not in keys:
            said = "expected the texts of a program, found an exported prompt"
            fix = "Load it with `Exported.load(FILE)`, whose `messages(row)` are the request."
            raise ConfigError(Problem("export.of-prompt", said, Place(path), fix))
        return load_yaml(path, cls)

    def candidate(self, path: Path) -> Candidate:
        """Return its candidate, with the file as its origin."""
        origin = Origin(
            str(path),
            self.labels,
            self.input_field,
            self.target_field,
            marks=None if self.run is None else self.run.marks,
            places=tuple(place.model_dump() for place in self.placed),
        )
        demos = tuple(Demo.from_dict(shown.model_dump()) for shown in self.demos)
        return Candidate(components=self.components, demos=demos, origin=origin)


def places_of(candidate: Candidate) -> Sequence[Placed] | None:
    """Return where a candidate's texts are in requests; None for one of a prompt or a workflow.

    Raises:
        StoreError: The folder of its run is gone.
    """
    origin = candidate.origin
    if origin is None:
        return None
    if origin.places is not None:
        return tuple(Placed(**record) for record in origin.places)
    if origin.run_dir is None:
        return None
    folder = Path(origin.run_dir)
    if not folder.is_dir():
        said, fix = f"the folder of {origin.name} is gone", "Give an export of the run."
        raise StoreError(Problem("program.no-view", said, Place(folder), fix))
    return tuple(Placed(**r) for r in read_view(folder)["placed"]) if (folder / VIEW).exists() else None
