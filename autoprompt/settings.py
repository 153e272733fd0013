"""From flags, environment, files and defaults to one `RunConfig`, with the source of every value known.

Precedence: flag, AUTOPROMPT_<NAME>, config file, sidecar of the dataset, OPENAI_... variables, default.
A `RunConfig` made in Python stands in the place of the flags (`complete`); no variable is read for it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from autoprompt.config import CheckFile, CheckSettings, RunConfig, ScienceConfig
from autoprompt.dataset import Task, find_dataset, find_sidecar, load_task
from autoprompt.errors import AutopromptError, ConfigError, PromptError, UsageError
from autoprompt.prompt_file import prompt_text
from autoprompt.yaml_file import load_yaml

LOCAL = "local"
_DATA_FILES = ("dataset", "train", "val", "test")
_Record = TypeVar("_Record", bound=BaseModel)
_FLAG_NAMES = {"metric_options": "--metric-option"}
_ANSWERS = ("record", "replay")
_EXCLUSIVE = ("test", "no_test", *_ANSWERS)  # the pairs that a validator names without a place
_PREFIX = "AUTOPROMPT_"
# Variables beside the settings: where the weights lie, and the other roles' keys.
_OTHER_VARIABLES = ("WEIGHTS_DIR", "OPTIMIZER_API_KEY", "JUDGE_API_KEY")


@dataclass(frozen=True, slots=True)
class _Layer:
    """Values of one source. source: of each value, as a message names it, e.g. `--seed`."""

    values: Mapping[str, Any] = field(default_factory=dict)
    source: Mapping[str, str] = field(default_factory=dict)


class CompleteConfig(RunConfig):
    """Settings that sidecar and `@FILE` have gone into; only what some source gave is in `model_fields_set`.

    A type of its own, so that a text from a file that begins with `@` is not taken for a file again.
    """


def complete(config: RunConfig) -> CompleteConfig:
    """The settings with the sidecar's where they say nothing, and the text of a prompt that is `@FILE`.

    Said is what is in `model_fields_set`. Paths, that in `@FILE` too, are relative to the working directory;
    a data file that is not there is looked for in `datasets/`. Complete settings come back as they are.
    Raises ConfigError and PromptError, DatasetError for a data file that is not there.
    """
    if isinstance(config, CompleteConfig):
        return config
    values = {name: getattr(config, name) for name in config.model_fields_set}
    if values.get("prompt") is not None:
        values["prompt"] = prompt_text(values["prompt"], Path(), "prompt")
    values, sources = _with_sidecar([_Layer(values, {name: name for name in values})])
    return _validated(values, sources)


def as_complete(config: RunConfig) -> CompleteConfig:
    """Settings as a run has stored them: neither a sidecar that changed since nor an `@` changes the run."""
    return CompleteConfig.model_construct(config.model_fields_set, **dict(config))


def with_known_labels(
    config: CompleteConfig, labels: tuple[str, ...] | None, source: str
) -> tuple[CompleteConfig, str]:
    """The settings with the labels that a run or an export knows, where the user names none; their source.

    labels: None where it does not know, () for free answers. source: the run or the export; the labels of
    the user (by flag, environment, config file or the dataset's sidecar) have the source "".
    """
    if labels is None or config.labels is not None:
        return config, ""
    return config.model_copy(update={"labels": labels}), source


def starting_prompt(config: RunConfig) -> str:
    """The prompt that the settings name. Raises PromptError if there is none, with what to add."""
    if config.prompt is None:
        raise PromptError(_no_prompt(config))
    return config.prompt


def _check_start(config: RunConfig, sources: Mapping[str, str]) -> None:
    """There is something to start from, and one thing only."""
    if config.workflow is None:
        starting_prompt(config)
    elif config.prompt is not None:
        raise UsageError(
            f"{sources['workflow']} and {sources['prompt']} exclude each other: give one of them"
        )


def resolve_settings(
    flags: Mapping[str, Any],
    *,
    config_file: Path | None,
    environ: Mapping[str, str],
    record: type[RunConfig] = RunConfig,
    needs_prompt: bool = True,
) -> CompleteConfig:
    """The effective settings of a run.

    flags: RunConfig's names -> value; None for a flag that was not given. Paths are relative to the working
        directory, those in YAML to their file. `prompt` may be `@FILE`.
    record: what the config file may hold, where that is more than a run's settings; the rest is left out.
    needs_prompt: whether it is an error if no source gives one.
    Raises UsageError for a bad flag or no data at all; ConfigError and PromptError for a bad variable or
    file, with its line; DatasetError for a data file that is not there.
    """
    layers = [_from_flags(flags), _from_environment(environ)]
    if config_file is not None:
        layers.append(_from_config_file(config_file, record, RunConfig))
    return _resolved(layers, environ, needs_prompt=needs_prompt)


def resolve_trial(
    own: RunConfig, defaults: RunConfig, *, source: str, folder: Path, environ: Mapping[str, str]
) -> CompleteConfig:
    """The effective settings of one trial of a batch.

    own: what makes it this trial, above everything else; defaults: of all trials, in the place of a config
        file. Of both, what is in `model_fields_set`; a prompt that is `@FILE` is relative to `folder`.
    source: what messages begin with, e.g. `batch.yaml line 3`. Raises what `resolve_settings` raises.
    """
    layers = [_from_record(own, own.model_fields_set, folder, source), _from_environment(environ)]
    below = _from_record(defaults, defaults.model_fields_set, folder, f"{source}: defaults")
    return _resolved([*layers, below], environ)


def _resolved(
    layers: Sequence[_Layer], environ: Mapping[str, str], *, needs_prompt: bool = True
) -> CompleteConfig:
    values, sources = _with_sidecar(layers)
    if not values.keys() & set(_DATA_FILES):
        raise UsageError(
            "no data. Give --dataset FILE (JSONL, JSON, CSV, TSV or Parquet), or --config FILE that names "
            "one; `autoprompt init` makes a folder to start from."
        )
    _fill_models(values, sources, environ)
    config = _validated(values, sources)
    if needs_prompt:
        _check_start(config, sources)
    return config


def resolve_check(
    flags: Mapping[str, Any], *, config_file: Path | None, environ: Mapping[str, str]
) -> tuple[CompleteConfig, CheckSettings]:
    """The effective settings of a check: those of its model and data, and those of its gate.

    flags: names of either kind. Sources and errors as in `resolve_settings`.
    """
    own = {name: value for name, value in flags.items() if name in CheckSettings.model_fields}
    layers = [_from_flags(own, CheckSettings), _from_environment(environ, CheckSettings)]
    if config_file is not None:
        layers.append(_from_config_file(config_file, CheckFile, CheckSettings))
    # `--record` on the command line outdoes a `replay` of the file.
    first = next((n for n, layer in enumerate(layers, 1) if layer.values.keys() & set(_ANSWERS)), 0)
    layers[first:] = [_without(layer, _ANSWERS) for layer in layers[first:]]
    others = {name: value for name, value in flags.items() if name not in own}
    if others.get("prompt") is not None:
        if own.get("exported") is not None:
            raise UsageError("--prompt and --exported exclude each other")
        layers = [_without(layer, ("exported",)) for layer in layers]
    limits = _validated_as(CheckSettings, *_merged(layers))
    config = resolve_settings(
        others,
        config_file=config_file,
        environ=environ,
        record=CheckFile,
        needs_prompt=limits.exported is None,
    )
    return config, limits


def resolve_models(
    flags: Mapping[str, Any], *, config_file: Path | None, environ: Mapping[str, str]
) -> CompleteConfig:
    """As `resolve_settings`, for a command that needs no data, such as running a workflow.

    Where no model is named none is filled in: the workflow's own are asked then.
    """
    layers = [_from_flags(flags), _from_environment(environ)]
    if config_file is not None:
        layers.append(_from_config_file(config_file, RunConfig, RunConfig))
    values, sources = _merged(layers)
    _fill_addresses(values, sources, environ)
    return _validated(values, sources)


def resolve_science(
    flags: Mapping[str, Any], *, config_file: Path | None, environ: Mapping[str, str]
) -> ScienceConfig:
    """The effective settings of a scientific workflow: flag, AUTOPROMPT_..., config file, default.

    A number of passes in a nearer place replaces one in a farther place, whichever of its names it has.
    Raises UsageError, ConfigError.
    """
    layers = [_from_flags(flags, ScienceConfig), _from_environment(environ, ScienceConfig)]
    if config_file is not None:
        layers.append(_from_config_file(config_file, ScienceConfig, ScienceConfig))
    values, sources = _merged(layers)
    names = ("max_iterations", "agent")
    nearest = next((layer.values for layer in layers if layer.values.keys() & set(names)), {})
    values = {name: value for name, value in values.items() if name not in names or name in nearest}
    if "task" not in values:
        raise UsageError("no task. Say in words what is to be found out: autoprompt science TASK")
    _fill_models(values, sources, environ)
    return _validated_as(ScienceConfig, values, sources)


def flag_name(name: str) -> str:
    """The flag of a setting: `max_calls` -> `--max-calls`."""
    return _FLAG_NAMES.get(name, "--" + name.replace("_", "-"))


def variable_name(name: str) -> str:
    """The environment variable of a setting: `max_calls` -> `AUTOPROMPT_MAX_CALLS`."""
    return f"{_PREFIX}{name.upper()}"


def unknown_variables(environ: Mapping[str, str]) -> list[str]:
    """Warnings of variables that begin with AUTOPROMPT_ and that nothing reads. Values are not shown."""
    settings = dict.fromkeys((*CheckFile.model_fields, *ScienceConfig.model_fields))
    known = [*(name.upper() for name in settings), *_OTHER_VARIABLES]
    warnings = []
    for variable in sorted(environ):
        name = variable.removeprefix(_PREFIX)
        if name in (variable, *known):
            continue
        close = get_close_matches(name, known, n=1)
        hint = f"; did you mean {_PREFIX}{close[0]}?" if close else ""
        warnings.append(f"{variable} is no setting and is ignored{hint}")
    return warnings


def _without(layer: _Layer, names: Sequence[str]) -> _Layer:
    return _Layer({n: v for n, v in layer.values.items() if n not in names}, layer.source)


def _from_flags(flags: Mapping[str, Any], model: type[BaseModel] = RunConfig) -> _Layer:
    given = {name: value for name, value in flags.items() if value is not None}
    unknown = sorted(given.keys() - model.model_fields.keys())
    if unknown:
        raise UsageError(f"unknown setting {unknown[0]!r}; known: {', '.join(model.model_fields)}")
    values = {name: _parsed(name, value, flag_name(name), UsageError) for name, value in given.items()}
    if "prompt" in values:
        values["prompt"] = prompt_text(values["prompt"], Path(), flag_name("prompt"))
    return _Layer(values, {name: flag_name(name) for name in values})


def _from_environment(environ: Mapping[str, str], model: type[BaseModel] = RunConfig) -> _Layer:
    values: dict[str, Any] = {}
    for name in model.model_fields:
        variable = variable_name(name)
        if environ.get(variable, "") != "":
            values[name] = _parsed(name, environ[variable], variable, ConfigError)
    if "prompt" in values:
        values["prompt"] = prompt_text(values["prompt"], Path(), variable_name("prompt"))
    return _Layer(values, {name: variable_name(name) for name in values})


def _from_config_file(path: Path, model: type[BaseModel], wanted: type[BaseModel]) -> _Layer:
    """The values of `wanted` in a file that may hold all of `model`."""
    record = load_yaml(path, model)
    return _from_record(record, record.model_fields_set & wanted.model_fields.keys(), path.parent, str(path))


def _from_record(record: BaseModel, names: Set[str], folder: Path, source: str) -> _Layer:
    values = {name: getattr(record, name) for name in names}
    values = {name: value for name, value in values.items() if value is not None}
    if "prompt" in values:
        values["prompt"] = prompt_text(values["prompt"], folder, f"{source}: prompt")
    return _Layer(values, {name: f"{source}: {name}" for name in values})


def _from_sidecar(path: Path, above: Sequence[_Layer]) -> _Layer:
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
    return _Layer(values, {name: f"{path}: {name}" for name in values})


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


def _with_sidecar(layers: Sequence[_Layer]) -> tuple[dict[str, Any], dict[str, str]]:
    """Values and their sources, with those of the first sidecar beside a data file, whose paths are found."""
    values, _ = _merged(layers)
    files = {name: find_dataset(Path(values[name])) for name in _DATA_FILES if values.get(name) is not None}
    sidecar = next((found for path in files.values() if (found := find_sidecar(path)) is not None), None)
    if sidecar is not None:
        layers = [*layers, _from_sidecar(sidecar, layers)]
    values, sources = _merged(layers)
    return values | files, sources


def _merged(layers: Sequence[_Layer]) -> tuple[dict[str, Any], dict[str, str]]:
    values: dict[str, Any] = {}
    sources: dict[str, str] = {}
    for layer in reversed(layers):
        options = {**values.get("metric_options", {}), **layer.values.get("metric_options", {})}
        values |= layer.values
        sources |= layer.source
        if options:
            values["metric_options"] = options
    return values, sources


def _fill_models(values: dict[str, Any], sources: dict[str, str], environ: Mapping[str, str]) -> None:
    """The embedded model where none is named; OPENAI_BASE_URL only for a model that was asked for by name.

    A key in the environment alone never sends a request: nobody is billed by surprise.
    """
    if values.get("model") is None and values.get("base_url") is None:
        values["model"] = LOCAL
    _fill_addresses(values, sources, environ)


def _fill_addresses(values: dict[str, Any], sources: dict[str, str], environ: Mapping[str, str]) -> None:
    url = environ.get("OPENAI_BASE_URL") or environ.get("OPENAI_API_BASE")
    if not url:
        return
    for model, address in (
        ("model", "base_url"),
        ("optimizer_model", "optimizer_base_url"),
        ("judge_model", "judge_base_url"),
    ):
        # Beside an endpoint of its own for the task, other models are looked for there first.
        has_endpoint = values.get(address) is not None or values.get("base_url") is not None
        if _is_remote(values.get(model)) and not has_endpoint:
            values[address] = url
            sources[address] = "OPENAI_BASE_URL"


def _is_remote(model: Any) -> bool:
    return isinstance(model, str) and model != LOCAL and not model.startswith(f"{LOCAL}:")


def _no_prompt(config: RunConfig) -> str:
    data = next((path for name in _DATA_FILES if (path := getattr(config, name)) is not None), None)
    if data is None:
        return "no prompt to start from. Add --prompt TEXT or --prompt @FILE."
    name = data.name.partition(".")[0] or data.stem
    return (
        f"{data}: no prompt to start from. Add --prompt TEXT or --prompt @FILE, or write it beside the data, "
        f"into {data.with_name(f'{name}.task.yaml')}:\n"
        "  prompt: Is this headline clickbait? Answer 1 or 0.\n"
        f"  input_field: {config.input_field}      # the field of the rows that holds the input\n"
        f"  target_field: {config.target_field}    # ... and the one that holds the expected answer"
    )


def _validated(values: Mapping[str, Any], sources: Mapping[str, str]) -> CompleteConfig:
    config = _validated_as(CompleteConfig, values, sources)
    _check_fields(config, sources)
    _check_locked(config, sources)
    return config


def _validated_as(model: type[_Record], values: Mapping[str, Any], sources: Mapping[str, str]) -> _Record:
    try:
        return model.model_validate(values)
    except ValidationError as error:
        found = [dict(details) for details in error.errors()]
        faults = dict.fromkeys(_fault(details, sources) for details in found)
        is_flag = any(source.startswith("--") for details in found for source in _named(details, sources))
        raise (UsageError if is_flag else ConfigError)("\n".join(faults)) from error


def _fault(details: Mapping[str, Any], sources: Mapping[str, str]) -> str:
    said = str(details["msg"]).removeprefix("Value error, ")
    said, named = said[:1].lower() + said[1:], _named(details, sources)
    if details["loc"]:
        return f"{named[0]}: {details['input']!r} found; {said}"
    return f"{' and '.join(named)} exclude each other: give one of them" if len(named) == 2 else said


def _named(details: Mapping[str, Any], sources: Mapping[str, str]) -> list[str]:
    """The sources that a fault is about: of one value, or of two that exclude each other."""
    if where := details["loc"]:
        return [sources.get(where[0], str(where[0]))]
    words = str(details["msg"]).split()
    return [sources[name] for name in _EXCLUSIVE if name in words and name in sources]


def _check_fields(config: RunConfig, sources: Mapping[str, str]) -> None:
    if config.input_field != config.target_field:
        return
    given = [sources[name] for name in ("input_field", "target_field") if name in sources]
    said = f"{', '.join(given)}: input and target are the same field, {config.input_field!r}. Name the other"
    raise (UsageError if any(source.startswith("--") for source in given) else ConfigError)(said)


def _check_locked(config: RunConfig, sources: Mapping[str, str]) -> None:
    for passage in config.locked:
        if config.prompt is not None and passage not in config.prompt:
            raise PromptError(
                f"{sources['locked']}: the prompt does not hold {passage!r}. Copy it from the prompt."
            )
