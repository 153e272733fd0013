"""From flags, environment, files and defaults to one `RunConfig`, with the source of every value known.

Precedence: flag, AUTOPROMPT_<NAME>, config file, sidecar of the dataset, the user's own file, OPENAI_...
variables, default.
A `RunConfig` made in Python takes the place of the flags (`complete`); no variable is read for it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from autoprompt.errors import AutopromptError, ConfigError, Place, Problem, PromptError, UsageError
from autoprompt.settings import user_file
from autoprompt.settings.kinds import Loc, Settings, problems_of
from autoprompt.settings.places import naming_places, note_places, place_of, placed, places_of
from autoprompt.settings.records import (
    LOCAL,
    STARTS,
    CallSettings,
    ConfigFile,
    ExportedSettings,
    RunConfig,
    ScienceConfig,
    exclusive,
    is_embedded,
    openai_address,
)
from autoprompt.settings.sidecar import not_locked
from autoprompt.settings.sources import (
    DATA_FILES,
    OF_CHECK,
    Layer,
    flag_places,
    from_config_file,
    from_environment,
    from_flags,
    merged,
    with_sidecar,
)
from autoprompt.text.inputs import protect

_Record = TypeVar("_Record", bound=Settings)
_Own = TypeVar("_Own", bound=ExportedSettings)
_ANSWERS = ("record", "replay")
_STARTER = "autoprompt.yaml"  # as `autoprompt init` names it


class CompleteConfig(RunConfig):
    """Settings that sidecar and `@FILE` have gone into; only what some source gave is in `model_fields_set`.

    A type of its own, so that a text from a file that begins with `@` is not taken for a file again.
    """


def complete(config: RunConfig) -> CompleteConfig:
    """Return the settings, completed from the sidecar, with the text of a prompt that is `@FILE`.

    A setting is given if it is in `model_fields_set`. Paths, that in `@FILE` too, are relative to the working
    directory; a missing data file is looked for in `datasets/`. Complete settings come back as they are.

    Raises:
        ConfigError, PromptError: For settings or a prompt that cannot be used.
        DatasetError: For a missing data file.
    """
    if isinstance(config, CompleteConfig):
        return config
    values = {name: getattr(config, name) for name in config.model_fields_set}
    values, places = with_sidecar([Layer.of(values, {name: Place(setting=name) for name in values})])
    return _validated(CompleteConfig, values, places)


def as_complete(config: RunConfig) -> CompleteConfig:
    """Return settings as a run has stored them: neither a changed sidecar nor an `@` changes the run."""
    return CompleteConfig.model_construct(config.model_fields_set, **dict(config))


@contextmanager
def completed(config: RunConfig) -> Iterator[CompleteConfig]:
    """Yield the settings as `complete` returns them; errors of the block name the places of settings."""
    found = complete(config)
    with naming_places(found):
        yield found


def with_known_labels(
    config: CompleteConfig, labels: tuple[str, ...] | None, source: str
) -> tuple[CompleteConfig, str]:
    """Return the settings with a run's or an export's labels, if the user names none, and their source.

    labels: None where it does not know, () for free answers. source: the run or the export; the labels of
    the user (by flag, environment, config file or the dataset's sidecar) have the source "".
    """
    if labels is None or config.labels is not None:
        return config, ""
    return config.model_copy(update={"labels": labels}), source


def with_known_fields(
    config: CompleteConfig, input_field: str | None, target_field: str | None
) -> CompleteConfig:
    """Return the settings with the fields of a row that an export knows, where no source names them."""
    known = {"input_field": input_field, "target_field": target_field}
    taken = {
        name: field
        for name, field in known.items()
        if field is not None and name not in config.model_fields_set
    }
    found = config.model_copy(update=taken)
    return config if found.input_field == found.target_field else found


def _error_of(problems: Sequence[Problem]) -> AutopromptError:
    """Return a UsageError if a flag is wrong, else a ConfigError."""
    named = [place for problem in problems for place in (problem.place, *problem.related)]
    is_flag = any(place.source in ("flag", "set") for place in named)
    return (UsageError if is_flag else ConfigError)(*problems)


def resolve(
    record: type[_Record],
    flags: Mapping[str, Any],
    *,
    config_file: Path | None = None,
    environ: Mapping[str, str] | None = None,
    beside: type[BaseModel] | None = None,
) -> _Record:
    """Return the effective settings of a command.

    Args:
        record: What the command takes: `CompleteConfig` for a run, `ScienceConfig`, `Budget` and others.
        flags: Names of the record -> value; None for a flag that was not given. Paths are relative to the
            working directory, those in YAML to their file. `prompt` may be `@FILE`.
        config_file: The user's config file.
        environ: Variables; without them only flags and the config file count.
        beside: What else the command takes out of the config file. Settings of other commands are ignored
            there, except those that say that no model is asked, or which prompt is measured if none is
            nearer.

    Raises:
        UsageError: For a bad flag, or if data or task are missing.
        ConfigError, PromptError: For a bad variable or file, with its line.
        DatasetError: For a missing data file.
    """
    layers = _layers(record, flags, None, environ or {})
    if config_file is not None:
        refused: list[str] = []
        if issubclass(record, RunConfig):
            has_prompt = any(layer.values.keys() & set(STARTS) for layer in layers)
            taken = {*(beside.model_fields if beside else ()), *(["exported"] if has_prompt else [])}
            refused = [name for name in OF_CHECK if name not in taken]
        layers.append(_from_file(record, config_file, refused))
    return resolve_layers(record, layers, environ or {})


def resolve_layers(record: type[_Record], layers: Sequence[Layer], environ: Mapping[str, str]) -> _Record:
    """Return the settings that these sources give, the nearest first; raises as `resolve`.

    A run also gets the sidecar of its dataset. What asks models gets the user's own file, and the embedded
    model if none is named.
    """
    if issubclass(record, ScienceConfig):
        layers = _with_one_number(layers)
    values, places = with_sidecar(layers) if issubclass(record, RunConfig) else merged(layers)
    if issubclass(record, CallSettings):
        _add_user_file(values, places)
        _check_subject(record, values)
        _fill_models(values, places, environ)
    return _validated(record, values, places)


def resolve_measured(
    own: type[_Own], flags: Mapping[str, Any], *, config_file: Path | None, environ: Mapping[str, str]
) -> tuple[CompleteConfig, _Own]:
    """Return the effective settings of a command that measures a prompt, which may be an exported one.

    A prompt on the command line replaces an `exported` of a file, and a `record` a `replay` below it.

    Args:
        own: The settings beside model and data: `ExportedSettings` for `eval`, `CheckConfig` for `check`.
        flags: Names of either kind. Sources and errors as in `resolve`.
    """
    given = {name: value for name, value in flags.items() if name in own.model_fields}
    layers = _layers(own, given, config_file, environ)
    others = {name: value for name, value in flags.items() if name not in given}
    if others.get("prompt") is not None:
        if given.get("exported") is not None:
            raise UsageError(placed(exclusive("prompt", "exported").problem, flag_places(flags)))
        layers = [layer.without(("exported",)) for layer in layers]
    layers = _below_nearest(layers, _ANSWERS)
    chosen = resolve_layers(own, layers, environ)
    return resolve(CompleteConfig, others, config_file=config_file, environ=environ, beside=own), chosen


def resolve_models(
    flags: Mapping[str, Any], *, config_file: Path | None, environ: Mapping[str, str]
) -> CompleteConfig:
    """Return the settings of a command that needs no data, such as running a workflow; raises as `resolve`.

    If no model is named none is filled in: the workflow's own models are asked then.
    """
    layers = _layers(CompleteConfig, flags, None, environ)
    if config_file is not None:
        layers.append(_from_file(CompleteConfig, config_file, ["replay"]))
    values, places = merged(layers)
    _fill_addresses(values, places, environ)
    return _validated(CompleteConfig, values, places)


def _layers(
    record: type[BaseModel],
    flags: Mapping[str, Any],
    config_file: Path | None,
    environ: Mapping[str, str],
) -> list[Layer]:
    """Return what flags, variables and a config file give a record, the nearest first."""
    layers = [from_flags(flags, record), from_environment(environ, record)]
    return layers if config_file is None else [*layers, _from_file(record, config_file)]


def _from_file(record: type[BaseModel], config_file: Path, refused: Sequence[str] = ()) -> Layer:
    held = ScienceConfig if issubclass(record, ScienceConfig) else ConfigFile
    return from_config_file(config_file, held, record, refused)


def _below_nearest(layers: Sequence[Layer], names: Sequence[str]) -> list[Layer]:
    """Return the layers, these names only in the nearest one that has any of them."""
    has = [bool(layer.values.keys() & set(names)) for layer in layers]
    first = has.index(True) if True in has else 0
    return [layer if n == first else layer.without(names) for n, layer in enumerate(layers)]


def _with_one_number(layers: Sequence[Layer]) -> list[Layer]:
    """Return the layers with the nearest number of passes alone, whichever of its names it has."""
    return _below_nearest(layers, ("max_iterations", "agent"))


def _check_subject(record: type[BaseModel], values: Mapping[str, Any]) -> None:
    """Raise UsageError if a run has no data, or an investigation no task."""
    if issubclass(record, ScienceConfig) and "task" not in values:
        fix = "Write the question in words: autoprompt science TASK."
        raise UsageError(Problem("settings.no-task", "no task", fix=fix))
    if issubclass(record, RunConfig) and not values.keys() & set(DATA_FILES):
        fix = (
            "Give {dataset} (JSONL, JSON, CSV, TSV or Parquet) or {config}. "
            "`autoprompt init` makes a folder to start from."
        )
        settings = {"dataset": "<FILE>", "config": "<FILE>"}
        if Path(_STARTER).is_file():
            fix, settings = "Give {config}, or {dataset}.", {**settings, "config": _STARTER}
        raise UsageError(Problem("settings.no-data", "no data", fix=fix, settings=settings))


def _add_user_file(values: dict[str, Any], places: dict[str, Place]) -> None:
    """Add what the user has set for all runs, below every other source."""
    own = user_file.layer(values)
    values |= own.values
    places |= own.places


def _fill_models(values: dict[str, Any], places: dict[str, Place], environ: Mapping[str, str]) -> None:
    """Add the embedded model if none is named; OPENAI_BASE_URL only if a model is asked for by name.

    A key in the environment alone never sends a request: nobody is billed by surprise.
    """
    if values.get("model") is None and values.get("base_url") is None:
        values["model"] = LOCAL
    _fill_addresses(values, places, environ)


def _fill_addresses(values: dict[str, Any], places: dict[str, Place], environ: Mapping[str, str]) -> None:
    url = openai_address(environ)
    if not url:
        return
    for model, address in (
        ("model", "base_url"),
        ("optimizer_model", "optimizer_base_url"),
        ("judge_model", "judge_base_url"),
    ):
        # Beside an endpoint of its own for the task, other models are looked for there first.
        has_endpoint = values.get(address) is not None or values.get("base_url") is not None
        named = values.get(model)
        if isinstance(named, str) and not is_embedded(named) and not has_endpoint:
            values[address] = url
            places[address] = Place(setting="OPENAI_BASE_URL", source="variable")


def _validated(model: type[_Record], values: Mapping[str, Any], places: Mapping[str, Place]) -> _Record:
    def place_at(where: Loc, _: bool) -> Place:
        name = str(where[0]) if where else None
        place = places.get(name or "", Place(setting=name))
        is_part = place.source == "set" and all(isinstance(step, str) for step in where)
        return replace(place, setting=".".join(map(str, where))) if is_part and where else place

    try:
        record = model.model_validate(values)
    except ValidationError as error:
        raise _error_of(problems_of(error, model, place_at)) from error
    note_places(record, places)
    protect_files(dict(record))
    if isinstance(record, RunConfig):
        _check_fields(record)
        _check_locked(record)
    return record


def protect_files(settings: Mapping[str, Any]) -> None:
    """Protect the files that settings name, and the modules of the user, from what the command writes."""
    for name, value in settings.items():
        for path in value if isinstance(value, tuple) else (value,):
            if isinstance(path, Path):
                protect(path, name)
    for name, address in (("program", settings.get("program")), ("metric", settings.get("metric"))):
        module = str(address or "").removeprefix("python:").partition(":")[0]
        if module:
            protect(Path(*module.split(".")).with_suffix(".py"), name)


def _check_fields(config: RunConfig) -> None:
    if config.input_field != config.target_field:
        return
    given = [place_of(config, name) for name in ("input_field", "target_field") if name in places_of(config)]
    said = f"input and target are the same field, {config.input_field!r}"
    fix = "Name the field with the input as {input_field}, and the one with the answer as {target_field}."
    settings = {"input_field": "<FIELD>", "target_field": "<FIELD>"}
    place = given[0] if given else Place()
    raise _error_of([Problem("settings.same-field", said, place, fix, settings, tuple(given[1:]))])


def _check_locked(config: RunConfig) -> None:
    for passage in config.locked:
        if config.prompt is not None and passage not in config.prompt:
            raise PromptError(not_locked(passage).at(place_of(config, "locked")))
