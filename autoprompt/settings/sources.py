"""What each source says of the settings (flags, environment, config file, sidecar), and which goes first."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from autoprompt.errors import AutopromptError, ConfigError, UsageError
from autoprompt.settings.prompt_file import prompt_text
from autoprompt.settings.records import CheckFile, RunConfig, ScienceConfig
from autoprompt.settings.sidecar import Task, find_dataset, find_sidecar, load_task
from autoprompt.settings.yaml_file import load_yaml, top_keys

DATA_FILES = ("dataset", "train", "val", "test")
BATCH_KEYS = ("matrix", "include", "defaults")  # of a file for `autoprompt batch`, and of no other
# Keys of the gate whose loss would be noticed too late, by what was paid or by the prompt that was asked.
OF_CHECK = {
    "exported": "`autoprompt eval` and `check`, which measure that prompt; a search begins with a text. Take "
    "it out, and give the text as `prompt`.",
    "replay": "`autoprompt check`, which sends nothing then; here a model would be asked. Take it out, and "
    "give it there as a flag: --replay FILE.",
}
_FLAG_NAMES = {"metric_options": "--metric-option"}
_PREFIX = "AUTOPROMPT_"
# Variables beside the settings: where the weights lie, and the other roles' keys.
OTHER_VARIABLES = ("WEIGHTS_DIR", "OPTIMIZER_API_KEY", "JUDGE_API_KEY")


@dataclass(frozen=True, slots=True)
class Layer:
    """Values of one source. source: of each value, as a message names it, e.g. `--seed`."""

    values: Mapping[str, Any] = field(default_factory=dict)
    source: Mapping[str, str] = field(default_factory=dict)

    def without(self, names: Sequence[str]) -> Layer:
        return Layer({n: v for n, v in self.values.items() if n not in names}, self.source)


def flag_name(name: str) -> str:
    """The flag of a setting: `max_calls` -> `--max-calls`."""
    return _FLAG_NAMES.get(name, "--" + name.replace("_", "-"))


def variable_name(name: str) -> str:
    """The environment variable of a setting: `max_calls` -> `AUTOPROMPT_MAX_CALLS`."""
    return f"{_PREFIX}{name.upper()}"


def held_by_variables(model: type[BaseModel]) -> list[str]:
    """Names of the settings that a variable can hold: all but records."""
    fields = model.model_fields.items()
    return [name for name, field in fields if not isinstance(field.default, BaseModel)]


def unknown_variables(environ: Mapping[str, str]) -> list[str]:
    """Warnings of variables that begin with AUTOPROMPT_ and that nothing reads. Values are not shown."""
    settings = dict.fromkeys((*held_by_variables(CheckFile), *held_by_variables(ScienceConfig)))
    known = [*(name.upper() for name in settings), *OTHER_VARIABLES]
    warnings = []
    for variable in sorted(environ):
        name = variable.removeprefix(_PREFIX)
        if name in (variable, *known):
            continue
        close = get_close_matches(name, known, n=1)
        hint = f"; did you mean {_PREFIX}{close[0]}?" if close else ""
        warnings.append(f"{variable} is no setting and is ignored{hint}")
    return warnings


def from_flags(flags: Mapping[str, Any], model: type[BaseModel] = RunConfig) -> Layer:
    """Those that were given. Raises UsageError for a name that `model` does not have."""
    given = {name: value for name, value in flags.items() if value is not None}
    unknown = sorted(given.keys() - model.model_fields.keys())
    if unknown:
        raise UsageError(f"unknown setting {unknown[0]!r}; known: {', '.join(model.model_fields)}")
    values = {name: _parsed(name, value, flag_name(name), UsageError) for name, value in given.items()}
    if "prompt" in values:
        values["prompt"] = prompt_text(values["prompt"], Path(), flag_name("prompt"))
    return Layer(values, {name: flag_name(name) for name in values})


def from_environment(environ: Mapping[str, str], model: type[BaseModel] = RunConfig) -> Layer:
    """The variables AUTOPROMPT_...; an empty one says nothing."""
    values: dict[str, Any] = {}
    for name in held_by_variables(model):
        variable = variable_name(name)
        if environ.get(variable, "") != "":
            values[name] = _parsed(name, environ[variable], variable, ConfigError)
    if "prompt" in values:
        values["prompt"] = prompt_text(values["prompt"], Path(), variable_name("prompt"))
    return Layer(values, {name: variable_name(name) for name in values})


def from_config_file(
    path: Path, model: type[BaseModel], wanted: type[BaseModel], refused: Sequence[str] = ()
) -> Layer:
    """The values of `wanted` in a file that may hold all of `model`; the others are passed over.

    refused: names of `OF_CHECK` that the command does not take.
    Raises ConfigError as `load_yaml` does, and for a file of many runs.
    """
    keys = top_keys(path)
    for name in (name for name in BATCH_KEYS if name in keys and name not in model.model_fields):
        raise ConfigError(
            f"{path} line {keys[name]}: {name!r} belongs to a batch of runs, --config takes the settings of "
            f"one. Run the batch: autoprompt batch {path}"
        )
    record = load_yaml(path, model)
    for name in (name for name in refused if getattr(record, name) is not None):
        raise ConfigError(f"{path} line {keys[name]}: {name!r} belongs to {OF_CHECK[name]}")
    return from_record(record, record.model_fields_set & wanted.model_fields.keys(), path.parent, str(path))


def from_record(record: BaseModel, names: Set[str], folder: Path, source: str) -> Layer:
    """What a record that was read from a file says. folder: what `@FILE` in it is relative to."""
    values = {name: getattr(record, name) for name in names}
    values = {name: value for name, value in values.items() if value is not None}
    if "prompt" in values:
        values["prompt"] = prompt_text(values["prompt"], folder, f"{source}: prompt")
    return Layer(values, {name: f"{source}: {name}" for name in values})


def _from_sidecar(path: Path, above: Sequence[Layer]) -> Layer:
    """What the sidecar says, but for what belongs to a prompt or a metric that was replaced above it."""
    task: Task = load_task(path)
    values = {name: getattr(task, name) for name in task.model_fields_set}
    values = {name: value for name, value in values.items() if value is not None}
    if "prompt" in values:
        values["prompt"] = prompt_text(values["prompt"], path.parent, f"{path}: prompt")
    if any(layer.values.get("metric", task.metric) != task.metric for layer in above):
        values.pop("metric_options", None)
    has_workflow = any("workflow" in layer.values for layer in above)
    if has_workflow:
        values.pop("prompt", None)
    if has_workflow or any("prompt" in layer.values for layer in above):
        values.pop("locked", None)
    return Layer(values, {name: f"{path}: {name}" for name in values})


def _parsed(name: str, value: Any, source: str, error: type[AutopromptError]) -> Any:
    """Texts of flags and variables in the form that the setting has."""
    if name == "labels" and isinstance(value, str):
        return tuple(label.strip() for label in value.split(",") if label.strip())
    if name in ("locked", "must_pass"):
        return (
            tuple(line for line in value.splitlines() if line.strip())
            if isinstance(value, str)
            else tuple(value)
        )
    if name == "data":
        return tuple(Path(path) for path in (value.split(os.pathsep) if isinstance(value, str) else value))
    if name == "metric_options" and not isinstance(value, Mapping):
        pairs = value.split(",") if isinstance(value, str) else value
        return dict(_option(pair, source, error) for pair in pairs)
    return value


def _option(pair: str, source: str, error: type[AutopromptError]) -> tuple[str, Any]:
    name, equals, text = pair.partition("=")
    if not equals or not name.strip():
        raise error(f"{source}: {pair!r} found, expected NAME=VALUE, e.g. tolerance=0.01")
    try:
        return name.strip().replace("-", "_"), json.loads(text)
    except ValueError:  # plain text needs no quotes
        return name.strip().replace("-", "_"), text


def with_sidecar(layers: Sequence[Layer]) -> tuple[dict[str, Any], dict[str, str]]:
    """Values and their sources, with those of the first sidecar beside a data file, whose paths are found."""
    values, _ = merged(layers)
    files = {name: find_dataset(Path(values[name])) for name in DATA_FILES if values.get(name) is not None}
    sidecar = next((found for path in files.values() if (found := find_sidecar(path)) is not None), None)
    if sidecar is not None:
        layers = [*layers, _from_sidecar(sidecar, layers)]
    values, sources = merged(layers)
    return values | files, sources


def merged(layers: Sequence[Layer]) -> tuple[dict[str, Any], dict[str, str]]:
    """Values and their sources, the first layer above the others; options of the metric one by one."""
    values: dict[str, Any] = {}
    sources: dict[str, str] = {}
    for layer in reversed(layers):
        options = {**values.get("metric_options", {}), **layer.values.get("metric_options", {})}
        values |= layer.values
        sources |= layer.source
        if options:
            values["metric_options"] = options
    return values, sources
