"""What a batch file may say: trials as a matrix and a list, who runs them, and what they may use together."""

from __future__ import annotations

from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Field, create_model, field_validator, model_validator

from autoprompt.settings.kinds import Positive, Settings
from autoprompt.settings.records import Budget, ConfigFile, RunConfig
from autoprompt.settings.yaml_file import load_yaml, top_keys

SEEDS = ("seed", "split_seed")  # settings that repeat a trial rather than change it
_RAY_ONLY = ("address", "num_cpus", "num_gpus", "resources", "env")
LONGEST_NAME = 80


class ExecutorSettings(Settings):
    """Who runs the trials."""

    kind: Literal["local", "ray"] = Field(default="local", description="Processes here, or Ray.")
    jobs: Positive | None = Field(
        default=None, description="Trials at once; default: 2, or as many as fit on the Ray cluster."
    )
    retries: Annotated[int, Field(ge=0)] = Field(
        default=2, description="How often a trial is resumed after its process or node was lost."
    )
    address: str = Field(
        default="auto", description="Ray: `auto` (the cluster of this machine), `ray://HOST:PORT` or `local`."
    )
    num_cpus: Annotated[float, Field(ge=0)] = Field(default=1.0, description="Ray: CPUs of a trial.")
    num_gpus: Annotated[float, Field(ge=0)] = Field(default=0.0, description="Ray: GPUs of a trial.")
    resources: dict[str, float] = Field(
        default_factory=dict, description="Ray: custom resources of a trial, by name."
    )
    env: tuple[str, ...] = Field(
        default=(), description="Ray: more variables of this environment that trials need, by name."
    )

    @model_validator(mode="after")
    def _ray_has_rays_settings(self) -> Self:
        given = [name for name in _RAY_ONLY if name in self.model_fields_set]
        if self.kind == "local" and given:
            raise ValueError(f"{', '.join(given)} needs kind: ray; add it, or remove {given[0]}")
        return self

    @field_validator("address")
    @classmethod
    def _address_is_one(cls, value: str) -> str:
        host, colon, port = value.removeprefix("ray://").rpartition(":")
        if value in ("auto", "local") or (colon and host and port.isdigit()):
            return value
        raise ValueError("expected auto, local, HOST:PORT or ray://HOST:PORT")


def _values(value: Any) -> Any:
    if not isinstance(value, list | tuple) or not value:
        raise ValueError(f"expected a list of values, e.g. [{value if value else 0}]")
    return value


def _matrix_fields() -> dict[str, Any]:
    """Each setting of a run as a list of its values."""
    fields: dict[str, Any] = {}
    for name, field in RunConfig.model_fields.items():
        kind: Any = field.annotation
        for bound in field.metadata:
            kind = Annotated[kind, bound]
        fields[name] = (Annotated[tuple[kind, ...], BeforeValidator(_values)], Field(default=()))
    return fields


Matrix: Any = create_model("Matrix", __base__=Settings, **_matrix_fields())


class BatchFile(Budget):
    """The keys of a batch file. The caps at its top are those of all trials together."""

    name: str | None = Field(default=None, description="Folder under runs/; default: the names of the files.")
    defaults: RunConfig = Field(default_factory=RunConfig, description="Settings of all trials.")
    matrix: Matrix = Field(default_factory=Matrix, description="Every combination of these is a trial.")
    include: tuple[RunConfig, ...] = Field(default=(), description="Trials in addition to the matrix.")
    executor: ExecutorSettings = Field(default_factory=ExecutorSettings, description="Who runs the trials.")
    fail_fast: bool = Field(default=False, description="Stop at the first trial that fails.")

    @field_validator("name")
    @classmethod
    def _name_is_a_folder(cls, value: str | None) -> str | None:
        return None if value is None else checked_name(value)

    @model_validator(mode="after")
    def _has_trials(self) -> Self:
        if not self.matrix.model_fields_set and not self.include and "defaults" not in self.model_fields_set:
            raise ValueError("no trials: add `matrix`, `include` or `defaults`")
        return self


def checked_name(name: str) -> str:
    """Return a batch's name, which is its folder's.

    Raises:
        ValueError: For one that would lie elsewhere.
    """
    is_plain = (
        name.strip() == name and name not in ("", ".", "..", "last") and not name.startswith((".", "-"))
    )
    if not is_plain or len(name) > LONGEST_NAME or any(c in '/\\:*?"<>|' or ord(c) < 32 for c in name):
        raise ValueError(
            f"{name!r} is no name for a folder: at most {LONGEST_NAME} characters, no slash, not beginning "
            "with a dot or a dash"
        )
    return name


def is_batch(path: Path) -> bool:
    """Return whether the file is a batch, and not the settings of one run.

    A key that is nearly one of a batch counts as one, so that its message names the keys of a batch.

    Raises:
        ConfigError: If it is no YAML.
    """
    own = BatchFile.model_fields.keys() - RunConfig.model_fields.keys()
    unknown = top_keys(path).keys() - ConfigFile.model_fields.keys()
    return any(get_close_matches(key, own, n=1, cutoff=0.75) for key in unknown)


def load_batch_file(path: Path) -> BatchFile:
    """Read a batch file.

    Raises:
        ConfigError: With file and line, as `load_yaml`.
    """
    return load_yaml(path, BatchFile)
