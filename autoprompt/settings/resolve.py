"""From flags, environment, files and defaults to one `RunConfig`, with the source of every value known.

Precedence: flag, AUTOPROMPT_<NAME>, config file, sidecar of the dataset, OPENAI_... variables, default.
A `RunConfig` made in Python stands in the place of the flags (`complete`); no variable is read for it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from autoprompt.errors import ConfigError, PromptError, UsageError
from autoprompt.settings.prompt_file import prompt_text
from autoprompt.settings.records import (
    LOCAL,
    BudgetSettings,
    CheckFile,
    CheckSettings,
    ExportedSettings,
    RunConfig,
    ScienceConfig,
    is_embedded,
    openai_address,
)
from autoprompt.settings.sources import (
    DATA_FILES,
    OF_CHECK,
    Layer,
    from_config_file,
    from_environment,
    from_flags,
    from_record,
    merged,
    with_sidecar,
)

_Record = TypeVar("_Record", bound=BaseModel)
_Own = TypeVar("_Own", bound=ExportedSettings)
_EXAMPLES: dict[type[BaseModel], str] = {
    RunConfig: 'dataset="rows.jsonl", prompt="…"',
    CheckSettings: 'baseline="baseline.json"',
    ScienceConfig: 'task="…"',
    BudgetSettings: "max_cost=5",
}
_ANSWERS = ("record", "replay")
_EXCLUSIVE = ("test", "no_test", *_ANSWERS)  # the pairs that a validator names without a place


class CompleteConfig(RunConfig):
    """Settings that sidecar and `@FILE` have gone into; only what some source gave is in `model_fields_set`.

    A type of its own, so that a text from a file that begins with `@` is not taken for a file again.
    """


def check_kind(config: object, kind: type[BaseModel], name: str = "config") -> None:
    """Raises ConfigError for settings in Python that are no `kind`, such as the path of a dataset."""
    if not isinstance(config, kind):
        raise ConfigError(
            f"{name} is {config!r:.80}, expected {kind.__name__}: give {kind.__name__}({_EXAMPLES[kind]})."
        )


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
    values, sources = with_sidecar([Layer(values, {name: name for name in values})])
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


def with_known_fields(
    config: CompleteConfig, input_field: str | None, target_field: str | None
) -> CompleteConfig:
    """The settings with the fields of a row that an export knows, where no source names them."""
    known = {"input_field": input_field, "target_field": target_field}
    taken = {
        name: field
        for name, field in known.items()
        if field is not None and name not in config.model_fields_set
    }
    found = config.model_copy(update=taken)
    return config if found.input_field == found.target_field else found


def _check_start(config: RunConfig, sources: Mapping[str, str]) -> None:
    """Raise UsageError for two things to start from."""
    if config.workflow is not None and config.prompt is not None:
        raise UsageError(
            f"{sources['workflow']} and {sources['prompt']} exclude each other: give one of them"
        )


def resolve_settings(
    flags: Mapping[str, Any],
    *,
    config_file: Path | None,
    environ: Mapping[str, str],
    beside: type[BaseModel] = RunConfig,
) -> CompleteConfig:
    """The effective settings of a run.

    flags: RunConfig's names -> value; None for a flag that was not given. Paths are relative to the working
        directory, those in YAML to their file. `prompt` may be `@FILE`.
    beside: what else the command takes out of the config file. What is there for other commands is passed
        over, but for what says that no model is asked, or which prompt is measured where none is nearer.
    Raises UsageError for a bad flag or no data at all; ConfigError and PromptError for a bad variable or
    file, with its line; DatasetError for a data file that is not there.
    """
    layers = [from_flags(flags), from_environment(environ)]
    if config_file is not None:
        has_prompt = any(layer.values.keys() & {"prompt", "workflow"} for layer in layers)
        taken = {*beside.model_fields, *(["exported"] if has_prompt else [])}
        refused = [name for name in OF_CHECK if name not in taken]
        layers.append(from_config_file(config_file, CheckFile, RunConfig, refused))
    return _resolved(layers, environ)


def resolve_trial(
    own: RunConfig, defaults: RunConfig, *, source: str, folder: Path, environ: Mapping[str, str]
) -> CompleteConfig:
    """The effective settings of one trial of a batch.

    own: what makes it this trial, above everything else; defaults: of all trials, in the place of a config
        file. Of both, what is in `model_fields_set`; a prompt that is `@FILE` is relative to `folder`.
    source: what messages begin with, e.g. `batch.yaml line 3`. Raises what `resolve_settings` raises.
    """
    layers = [from_record(own, own.model_fields_set, folder, source), from_environment(environ)]
    below = from_record(defaults, defaults.model_fields_set, folder, f"{source}: defaults")
    return _resolved([*layers, below], environ)


def _resolved(layers: Sequence[Layer], environ: Mapping[str, str]) -> CompleteConfig:
    values, sources = with_sidecar(layers)
    if not values.keys() & set(DATA_FILES):
        raise UsageError(
            "no data. Give --dataset FILE (JSONL, JSON, CSV, TSV or Parquet), or --config FILE that names "
            "one; `autoprompt init` makes a folder to start from."
        )
    _fill_models(values, sources, environ)
    config = _validated(values, sources)
    _check_start(config, sources)
    return config


def resolve_check(
    flags: Mapping[str, Any], *, config_file: Path | None, environ: Mapping[str, str]
) -> tuple[CompleteConfig, CheckSettings]:
    """The effective settings of a check: those of its model and data, and those of its gate.

    flags: names of either kind. Sources and errors as in `resolve_settings`.
    """
    layers, others = _own_layers(flags, CheckSettings, config_file, environ)
    # `--record` on the command line outdoes a `replay` of the file.
    first = next((n for n, layer in enumerate(layers, 1) if layer.values.keys() & set(_ANSWERS)), 0)
    layers[first:] = [layer.without(_ANSWERS) for layer in layers[first:]]
    return _resolved_beside(CheckSettings, layers, others, config_file, environ)


def resolve_evaluation(
    flags: Mapping[str, Any], *, config_file: Path | None, environ: Mapping[str, str]
) -> tuple[CompleteConfig, ExportedSettings]:
    """The effective settings of an evaluation, and which exported prompt it scores.

    flags: names of either kind. Sources and errors as in `resolve_settings`.
    """
    layers, others = _own_layers(flags, ExportedSettings, config_file, environ)
    return _resolved_beside(ExportedSettings, layers, others, config_file, environ)


def _own_layers(
    flags: Mapping[str, Any],
    own: type[BaseModel],
    config_file: Path | None,
    environ: Mapping[str, str],
) -> tuple[list[Layer], dict[str, Any]]:
    """Of a command that takes an exported prompt: the sources of its own settings, and the other flags.

    A prompt on the command line outdoes an `exported` of the file.
    """
    given = {name: value for name, value in flags.items() if name in own.model_fields}
    layers = [from_flags(given, own), from_environment(environ, own)]
    if config_file is not None:
        layers.append(from_config_file(config_file, CheckFile, own))
    others = {name: value for name, value in flags.items() if name not in given}
    if others.get("prompt") is not None:
        if given.get("exported") is not None:
            raise UsageError("--prompt and --exported exclude each other")
        layers = [layer.without(("exported",)) for layer in layers]
    return layers, others


def _resolved_beside(
    own: type[_Own],
    layers: Sequence[Layer],
    others: Mapping[str, Any],
    config_file: Path | None,
    environ: Mapping[str, str],
) -> tuple[CompleteConfig, _Own]:
    """Both records, from what `_own_layers` gives: a prompt is needed where none is exported."""
    chosen = _validated_as(own, *merged(layers))
    config = resolve_settings(
        others,
        config_file=config_file,
        environ=environ,
        beside=own,
    )
    return config, chosen


def resolve_models(
    flags: Mapping[str, Any], *, config_file: Path | None, environ: Mapping[str, str]
) -> CompleteConfig:
    """As `resolve_settings`, for a command that needs no data, such as running a workflow.

    Where no model is named none is filled in: the workflow's own are asked then.
    """
    layers = [from_flags(flags), from_environment(environ)]
    if config_file is not None:
        layers.append(from_config_file(config_file, CheckFile, RunConfig, ["replay"]))
    values, sources = merged(layers)
    _fill_addresses(values, sources, environ)
    return _validated(values, sources)


def resolve_science(
    flags: Mapping[str, Any], *, config_file: Path | None, environ: Mapping[str, str]
) -> ScienceConfig:
    """The effective settings of a scientific workflow: flag, AUTOPROMPT_..., config file, default.

    A number of passes in a nearer place replaces one in a farther place, whichever of its names it has.
    Raises UsageError, ConfigError.
    """
    layers = [from_flags(flags, ScienceConfig), from_environment(environ, ScienceConfig)]
    if config_file is not None:
        layers.append(from_config_file(config_file, ScienceConfig, ScienceConfig))
    values, sources = merged(layers)
    names = ("max_iterations", "agent")
    nearest = next((layer.values for layer in layers if layer.values.keys() & set(names)), {})
    values = {name: value for name, value in values.items() if name not in names or name in nearest}
    if "task" not in values:
        raise UsageError("no task. Say in words what is to be found out: autoprompt science TASK")
    _fill_models(values, sources, environ)
    return _validated_as(ScienceConfig, values, sources)


def resolve_budget(flags: Mapping[str, Any]) -> BudgetSettings:
    """The caps of a batch that stand on the command line. AUTOPROMPT_MAX_... are each trial's own.

    Raises UsageError.
    """
    return _validated_as(BudgetSettings, *merged([from_flags(flags, BudgetSettings)]))


def _fill_models(values: dict[str, Any], sources: dict[str, str], environ: Mapping[str, str]) -> None:
    """The embedded model where none is named; OPENAI_BASE_URL only for a model that was asked for by name.

    A key in the environment alone never sends a request: nobody is billed by surprise.
    """
    if values.get("model") is None and values.get("base_url") is None:
        values["model"] = LOCAL
    _fill_addresses(values, sources, environ)


def _fill_addresses(values: dict[str, Any], sources: dict[str, str], environ: Mapping[str, str]) -> None:
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
            sources[address] = "OPENAI_BASE_URL"


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
