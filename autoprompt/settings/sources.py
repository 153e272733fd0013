"""The sources of settings (flags, environment, config file, sidecar), and which of them goes first."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, get_args, get_origin

import yaml
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from autoprompt.errors import (
    AT_COMMAS,
    VARIABLE_PREFIX,
    AutopromptError,
    ConfigError,
    Place,
    Problem,
    UsageError,
    variable_name,
)
from autoprompt.settings.kinds import EMPTY, closest, known_keys, model_in
from autoprompt.settings.prompt_file import prompt_text
from autoprompt.settings.records import STARTS, ConfigFile, RunConfig, ScienceConfig
from autoprompt.settings.sidecar import Task, find_dataset, find_sidecar, load_task
from autoprompt.settings.trust import check_file
from autoprompt.settings.yaml_file import load_yaml, read_value, switch_or_text, top_keys
from autoprompt.text.inputs import protect

DATA_FILES = ("dataset", "train", "val", "test")
BATCH_KEYS = ("matrix", "include", "defaults")  # of a file for `autoprompt batch`, and of no other
# Keys of the gate whose loss would be noticed too late, by what was paid or by the prompt that was asked:
# whose they are, and what to do.
OF_CHECK = {
    "exported": (
        "only `autoprompt eval` and `check` can measure an exported prompt",
        "Give the text of the prompt as `prompt` instead.",
    ),
    "replay": (
        "only `autoprompt check` can replay answers, this command asks a model",
        "Take it out, and give it as a flag of `autoprompt check`.",
    ),
}
_MARKS = ("'", '"', "[")  # what begins a quoted text, or a list, in YAML
# Variables beside the settings: where the weights lie, and the other roles' keys.
OTHER_VARIABLES = ("WEIGHTS_DIR", "OPTIMIZER_API_KEY", "JUDGE_API_KEY")


@dataclass(frozen=True, slots=True)
class Placed:
    """The value of a setting that something else on the command line gave than its own flag."""

    value: Any
    place: Place

    @classmethod
    def assigned(cls, name: str, value: Any) -> Placed:
        """Return what `--set NAME=VALUE` gave."""
        return cls(value, Place(setting=name, source="set"))

    @classmethod
    def taken_from(cls, value: Any) -> Placed:
        """Return what the run or export of `--from` gave."""
        return cls(value, Place(setting="from", source="flag"))


def plain(flags: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of flags alone, whatever gave them."""
    return {name: value.value if isinstance(value, Placed) else value for name, value in flags.items()}


@dataclass(frozen=True, slots=True)
class Layer:
    """Values of one source, and the place of each, for messages."""

    values: Mapping[str, Any] = field(default_factory=dict)
    places: Mapping[str, Place] = field(default_factory=dict)

    @classmethod
    def of(cls, values: Mapping[str, Any], places: Mapping[str, Place], folder: Path = Path()) -> Layer:
        """Return a layer whose prompt is a text: what `@FILE` holds. folder: What its path is relative to.

        Raises:
            PromptError: If the file cannot be read.
        """
        if isinstance(values.get("prompt"), str):  # what is no text is reported with the other settings
            values = {**values, "prompt": prompt_text(values["prompt"], folder, places["prompt"])}
        return cls(values, {name: places[name] for name in values})

    def without(self, names: Sequence[str]) -> Layer:
        return Layer({n: v for n, v in self.values.items() if n not in names}, self.places)


def held_by_variables(model: type[BaseModel]) -> list[str]:
    """Names of the settings that a variable can hold: all but records."""
    fields = model.model_fields.items()
    return [name for name, field in fields if not isinstance(field.default, BaseModel)]


def unknown_variables(environ: Mapping[str, str]) -> list[Problem]:
    """Warn of variables that begin with AUTOPROMPT_ and that nothing reads. Values are not shown."""
    models = (ConfigFile, ScienceConfig)
    settings = {name: model.model_fields[name] for model in models for name in held_by_variables(model)}
    known = {**settings, **dict.fromkeys(map(str.lower, OTHER_VARIABLES), FieldInfo(annotation=str))}
    read = set(map(variable_name, known))
    warnings = []
    for variable in sorted(environ):
        if not variable.startswith(VARIABLE_PREFIX) or variable in read:
            continue
        name = variable.removeprefix(VARIABLE_PREFIX).lower()
        close = closest(name, known, switch_or_text(environ[variable]))
        fix = f"Did you mean {variable_name(close)}?" if close else ""
        place = Place(setting=variable, source="variable")
        warnings.append(Problem("settings.unknown-variable", "no such setting, so it is ignored", place, fix))
    return warnings


def flag_places(flags: Mapping[str, Any]) -> dict[str, Place]:
    """Return what gave each flag's value."""
    return {
        name: value.place if isinstance(value, Placed) else Place(setting=name, source="flag")
        for name, value in flags.items()
    }


def from_flags(flags: Mapping[str, Any], model: type[BaseModel] = RunConfig) -> Layer:
    """Return those that were given.

    Raises:
        UsageError: For a name that `model` does not have.
    """
    given = {name: value for name, value in flags.items() if value is not None}
    unknown = sorted(given.keys() - model.model_fields.keys())
    if unknown:
        place = Place(setting=unknown[0], source="flag")
        fix = known_keys(model, "setting")
        raise UsageError(Problem("settings.unknown", "unknown setting", place, fix))
    places = flag_places(given)
    values = {name: _parsed(name, value, places[name], UsageError) for name, value in plain(given).items()}
    return Layer.of(values, places)


def read_assignments(
    texts: Sequence[str],
    fields: Mapping[str, FieldInfo],
    switches: Mapping[str, str] = MappingProxyType({}),
) -> dict[str, Any]:
    """Return the settings that `--set NAME=VALUE` gives, with values as YAML has them.

    Args:
        texts: `NAME=VALUE`; NAME may name a part: `traits.is_slow`.
        fields: The settings that the command takes.
        switches: Its flags that are no settings, by name.

    Raises:
        UsageError: A text is no assignment, its name or YAML is wrong, or a name is given twice.
    """
    found, given = dict[str, Any](), set[str]()
    for text in texts:
        name, equals, value = text.partition("=")
        name = setting_name(name)
        if not equals or not name:
            said, fix = f"expected NAME=VALUE, found {text!r}", "Write it like max_val=100."
            raise UsageError(Problem("settings.bad-option", said, Place(setting="set", source="flag"), fix))
        place = Place(setting=name, source="set")
        if name in given:
            raise UsageError(Problem("settings.exclusive", "given twice", place, "Give it once."))
        given.add(name)
        if name not in fields and name in switches:
            said, fix = "this is a flag, not a setting", f"Give it as {switches[name]}."
            raise UsageError(Problem("settings.unknown", said, place, fix))
        assign(found, name, value, fields, place)
    return found


def setting_name(text: str) -> str:
    """Return the name of a setting that a user wrote, maybe as that of a flag."""
    return text.strip().replace("-", "_")


def assign(
    settings: dict[str, Any], name: str, value: str, fields: Mapping[str, FieldInfo], place: Place
) -> None:
    """Put a value, as YAML has it, at a name, beside the other parts of a setting.

    Raises:
        UsageError: There is no such name in `fields`, or the value is no YAML.
    """
    first, *parts = name.split(".")
    field = fields.get(first)
    if field is None or (parts and not _has_parts(field)):
        raise UsageError(_unknown(name, value, fields, place))
    if not value.strip():
        raise UsageError(EMPTY.at(place))
    _put(settings, [first, *parts], _yaml_value(value, None if parts else field, place))


def _unknown(name: str, value: str, fields: Mapping[str, FieldInfo], place: Place) -> Problem:
    settings = {**ConfigFile.model_fields, **ScienceConfig.model_fields}
    if name in settings:
        said, fix = "this command has no such setting", "Take it out."
        if place.source == "file":  # the user's own
            said = "only models, prices and limits can be set for all runs"
            fix = "Give it to each run, or in its config file."
        return Problem("settings.unknown", said, place, fix)
    given = switch_or_text(value)
    close = closest(name, fields, given) or closest(name, settings, given)
    fix = f"Did you mean {close!r}?" if close else f"Known settings: {', '.join(fields)}."
    return Problem("settings.unknown", "unknown setting", place, fix)


def _put(found: dict[str, Any], path: Sequence[str], value: Any) -> None:
    """Put a value at a path of names, beside the other parts that are there."""
    for step in path[:-1]:
        inner = found.get(step)
        found[step] = found = dict(inner) if isinstance(inner, Mapping) else {}
    found[path[-1]] = value


def _yaml_value(text: str, field: FieldInfo | None, place: Place) -> Any:
    """Return the value that a text is in YAML. A text setting takes it as it is, unless it is in quotes.

    field: None for a part of a setting, which may be anything.
    """
    kinds = () if field is None else _kinds(field.annotation)
    is_text = (
        field is not None and kinds and all(kind in (str, Path) or isinstance(kind, str) for kind in kinds)
    )
    if is_text and text.lstrip()[:1] not in _MARKS:
        return switch_or_text(text) if kinds == (Path,) else text
    try:
        value = read_value(text)
    except (yaml.YAMLError, ValueError) as error:
        if is_text:
            return text
        said, fix = (
            f"expected a value as in YAML, found {text!r}",
            "Put text with special characters in quotes.",
        )
        raise UsageError(Problem("settings.bad-value", said, place, fix)) from error
    return text if is_text and not isinstance(value, str | list) else value


def _has_parts(field: FieldInfo) -> bool:
    return model_in(field.annotation) is not None or get_origin(field.annotation) is dict


def _kinds(annotation: Any) -> tuple[Any, ...]:
    """Return the plain types of a setting, and the choices of a literal; nothing for None."""
    if get_origin(annotation) is Annotated:
        return _kinds(get_args(annotation)[0])
    if parts := get_args(annotation):
        return tuple(kind for part in parts if part is not ... for kind in _kinds(part))
    return () if annotation is type(None) else (annotation,)


def from_environment(environ: Mapping[str, str], model: type[BaseModel] = RunConfig) -> Layer:
    """Return the variables AUTOPROMPT_...; an empty one says nothing."""
    values: dict[str, Any] = {}
    places: dict[str, Place] = {}
    for name in held_by_variables(model):
        variable = variable_name(name)
        if environ.get(variable, "") != "":
            places[name] = Place(setting=variable, source="variable")
            is_path = _kinds(model.model_fields[name].annotation) == (Path,)
            value = switch_or_text(environ[variable]) if is_path else environ[variable]
            values[name] = _parsed(name, value, places[name], ConfigError)
    return Layer.of(values, places)


def from_config_file(
    path: Path, model: type[BaseModel], wanted: type[BaseModel], refused: Sequence[str] = ()
) -> Layer:
    """Return the values of `wanted` in a file that may hold all of `model`; ignore the others.

    refused: Names of `OF_CHECK` that the command does not take.

    Raises:
        ConfigError: As `load_yaml`, and for a file of many runs.
    """
    protect(path, "config file")
    keys = top_keys(path)
    places = {name: Place(path, line, setting=name, source="file") for name, line in keys.items()}
    for name in (name for name in BATCH_KEYS if name in keys and name not in model.model_fields):
        said = "this is the file of a batch, expected the settings of one run"
        fix = f"Run the batch: autoprompt batch {path}"
        raise ConfigError(Problem("settings.batch-file", said, places[name], fix))
    record = load_yaml(path, model)
    for name in (name for name in refused if getattr(record, name) is not None):
        said, fix = OF_CHECK[name]
        raise ConfigError(Problem("settings.other-command", said, places[name], fix))
    names = record.model_fields_set & wanted.model_fields.keys()
    return layer_of(record, {name: places[name] for name in names}, path.parent)


def layer_of(record: BaseModel, places: Mapping[str, Place], folder: Path) -> Layer:
    """Return the values that a record has at these places. folder: What `@FILE` in it is relative to."""
    values = {name: getattr(record, name) for name in places}
    values = {name: value for name, value in values.items() if value is not None}
    return Layer.of(values, places, folder)


def _from_sidecar(path: Path, above: Sequence[Layer]) -> Layer:
    """Return what the sidecar says and nobody above it, without what belongs to something that was replaced.

    Raises:
        ConfigError: For what only the user may say; see `autoprompt.settings.trust`.
    """
    protect(path, "file of settings beside the dataset")
    task: Task = load_task(path)
    places = {
        name: Place(path, line, setting=name, source="sidecar") for name, line in top_keys(path).items()
    }
    given = {name for layer in above for name in layer.values}
    own = [name for name in places if name == "metric_options" or name not in given]
    values = {name: value for name in own if (value := getattr(task, name)) is not None}
    if any(layer.values.get("metric", task.metric) != task.metric for layer in above):
        values.pop("metric_options", None)
    if options := values.get("metric_options"):
        replaced = {name for layer in above for name in _options(layer.values)}
        values["metric_options"] = {name: options[name] for name in options if name not in replaced}
    if given & set(STARTS):
        for name in ("prompt", "locked"):
            values.pop(name, None)
    check_file(values, places, path)
    return Layer.of(values, places, path.parent)


def _parsed(name: str, value: Any, place: Place, error: type[AutopromptError]) -> Any:
    """Texts of flags and variables in the form that the setting has. What is no text stays as it is."""
    texts = value if isinstance(value, list | tuple) else (value,)
    if not all(isinstance(text, str | Path) for text in texts):
        return value
    if name in AT_COMMAS and isinstance(value, str):
        parts = tuple(part.strip() for part in value.split(",") if part.strip())
        if not parts:
            raise error(EMPTY.at(place))
        return parts
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
        options = (_option(pair, place, error, "tolerance=0.01") for pair in pairs)
        return {key: _whole(found, place, error) for key, found in options}
    if name == "traits" and not isinstance(value, Mapping | BaseModel):
        pairs = value.split(",") if isinstance(value, str) else value
        return _nested(dict(_option(pair, place, error, "is_slow=true") for pair in pairs))
    return value


def _nested(values: Mapping[str, Any]) -> dict[str, Any]:
    """`optimizer.is_slow` as the `is_slow` of a record `optimizer`."""
    found: dict[str, Any] = {}
    for name, value in values.items():
        role, dot, trait = name.partition(".")
        if dot:
            found.setdefault(role, {})[trait] = value
        else:
            found[name] = value
    return found


def _option(pair: str, place: Place, error: type[AutopromptError], example: str) -> tuple[str, Any]:
    name, equals, text = pair.partition("=")
    if not equals or not name.strip():
        said, fix = f"expected NAME=VALUE, found {pair!r}", f"Write it like {example}."
        raise error(Problem("settings.bad-option", said, place, fix))
    try:
        return name.strip().replace("-", "_"), json.loads(text)
    except (ValueError, RecursionError):  # plain text needs no quotes
        return name.strip().replace("-", "_"), text


def _whole(value: Any, place: Place, error: type[AutopromptError]) -> Any:
    """Return what the file after `@` holds, as of a prompt; any other value as it is."""
    if not isinstance(value, str) or not value.startswith("@"):
        return value
    path = Path(value[1:]).expanduser()
    try:
        return path.read_text(encoding="utf-8").rstrip("\n")
    except (OSError, UnicodeDecodeError) as failure:
        why = getattr(failure, "strerror", None) or "not UTF-8 text"
        fix = "Give `@` and the path of a text file, or the text itself."
        raise error(Problem("settings.bad-option", f"{value}: {why}", place, fix)) from failure


def with_sidecar(layers: Sequence[Layer]) -> tuple[dict[str, Any], dict[str, Place]]:
    """Return values and places, with those of the first sidecar beside a data file; find data files."""
    values, _ = merged(layers)
    files = {name: find_dataset(Path(values[name])) for name in DATA_FILES if values.get(name) is not None}
    sidecar = next((found for path in files.values() if (found := find_sidecar(path)) is not None), None)
    if sidecar is not None:
        layers = [*layers, _from_sidecar(sidecar, layers)]
    values, places = merged(layers)
    return values | files, places


def merged(layers: Sequence[Layer]) -> tuple[dict[str, Any], dict[str, Place]]:
    """Return values and their places, the first layer above the others; options of the metric one by one."""
    values: dict[str, Any] = {}
    places: dict[str, Place] = {}
    for layer in reversed(layers):
        options = {**_options(values), **_options(layer.values)}
        values |= layer.values
        places |= layer.places
        if at := layer.places.get("metric_options"):
            for part in _options(layer.values):
                places[f"metric_options.{part}"] = replace(at, setting=f"{at.setting}.{part}")
        if options and isinstance(values["metric_options"], Mapping):
            values["metric_options"] = options
    return values, places


def _options(values: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the options of the metric; none if they are no mapping, which is reported later."""
    options = values.get("metric_options")
    return options if isinstance(options, Mapping) else {}
