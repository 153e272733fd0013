"""What a run keeps of its program, and a candidate's texts as a file: `runs export` writes it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from autoprompt.errors import Place, Problem, StoreError
from autoprompt.measure.task import ComponentKind
from autoprompt.programs.dialects import Role
from autoprompt.programs.placing import Placed
from autoprompt.records import Candidate, Demo, Origin
from autoprompt.runs import RunFolder
from autoprompt.runs.provenance import ExportedRun, exported_run
from autoprompt.settings.kinds import Label
from autoprompt.settings.yaml_file import load_yaml
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


class _Shown(BaseModel):
    model_config = ConfigDict(extra="forbid")
    component: str
    input: str
    output: str


class _Place(BaseModel):
    model_config = ConfigDict(extra="forbid")
    name: str
    kind: ComponentKind
    site: str
    role: Role
    original: str
    tool: str = ""
    order: int = 0


class ProgramFile(BaseModel):
    """An export of a program's candidate."""

    model_config = ConfigDict(extra="forbid")
    components: dict[str, str] = Field(min_length=1)
    demos: tuple[_Shown, ...] = ()
    placed: tuple[_Place, ...]
    labels: tuple[Label, ...] | None = None
    input_field: str | None = None
    target_field: str | None = None
    run: ExportedRun | None = None

    @classmethod
    def load(cls, path: Path) -> ProgramFile:
        """Read an export of `autoprompt runs export`. Raises ConfigError with the line."""
        protect(path, "exported program")
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
