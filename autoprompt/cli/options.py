"""Flags that several commands share. Those of settings come from `RunConfig`, with its words."""

from __future__ import annotations

import inspect
import sys
import types
from collections.abc import Callable, Iterable
from functools import wraps
from pathlib import Path
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import typer
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from autoprompt.errors import AT_COMMAS, UsageError, Voice, flag_name, tell
from autoprompt.settings.faults import Refused
from autoprompt.settings.kinds import given
from autoprompt.settings.records import (
    Budget,
    CheckConfig,
    DataSettings,
    ModelSettings,
    RunConfig,
    ScienceConfig,
)

ALL = tuple(RunConfig.model_fields)
# What `eval` takes: no search, no splits.
EVALUATION = tuple(
    name
    for name in (
        "prompt",
        "workflow",
        "target_output",
        "mocks",
        "tools",
        "allow_private_hosts",
        *DataSettings.model_fields,
        *ModelSettings.model_fields,
        *Budget.model_fields,
    )
    if name not in {"train", "val", "test", "no_test", "drop_leaks", "split_seed", "max_val", "max_test"}
    and not name.startswith("optimizer_")
)
CHECK = tuple(CheckConfig.model_fields)
_FIELDS = {**CheckConfig.model_fields, **RunConfig.model_fields}
_LISTS = ("locked", "metric_options", "must_pass", "traits")  # flags that may be given several times

# What `science` takes as flags: one model, and not the nested name of the number of passes.
SCIENCE = tuple(
    name
    for name in ScienceConfig.model_fields
    if name not in {"task", "agent", "constrain"} and not name.startswith(("optimizer_", "judge_"))
)

# First what a first call needs; the rest in the order of the settings.
_FIRST = ("baseline", "dataset", "prompt", "workflow", "io", "data", "model", "base_url", "preset", *CHECK)
_METAVARS = {
    "prompt": "TEXT|@FILE",
    "labels": "A,B,...",
    "allow_private_hosts": "HOST,...",
    "metric_options": "NAME=VALUE",
    "traits": "NAME=VALUE",
    "reasoning_effort": "LEVEL",
    "metric": "NAME",
    "base_url": "URL",
    "optimizer_base_url": "URL",
    "judge_base_url": "URL",
    "model": "MODEL",
    "optimizer_model": "MODEL",
    "judge_model": "MODEL",
    "input_field": "FIELD",
    "target_field": "FIELD",
    "group_field": "FIELD",
    "data": "FILE",
    "io": "TEXT",
    "workdir": "FOLDER",
    "runs_dir": "FOLDER",
    "cache_dir": "FOLDER",
    "must_pass": "ID|INPUT",
}

ConfigFile = Annotated[
    Path | None,
    typer.Option("--config", metavar="FILE", help="YAML with settings, named as the flags with _ for -."),
]
Json = Annotated[
    bool, typer.Option("--json", help="One JSON object on stdout, of an error too; all else goes to stderr.")
]


def path(value: str) -> Path:
    """The parser of flags that take a path. What pathlib makes of an empty one is the working directory."""
    return Path(_given(value))


def address(value: str) -> str:
    """The parser of flags that take an address."""
    return _given(value).strip()


def _given(value: str) -> str:
    try:
        return str(given(str(value)))
    except Refused as error:
        raise typer.BadParameter(tell(error.problem, Voice.CLI)) from error


Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No live panel and no progress lines.")]
Trust = Annotated[
    bool,
    typer.Option(
        "--trust",
        help="Trust the files that this command reads: sidecar, `.env`, run folder. See SECURITY.md.",
    ),
]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]
RunsDir = Annotated[
    Path,
    typer.Option(
        "--runs-dir",
        metavar="FOLDER",
        envvar="AUTOPROMPT_RUNS_DIR",
        parser=path,
        help="Where run folders lie.",
    ),
]


CandidateId = Annotated[
    str | None,
    typer.Option(
        "--candidate",
        metavar="ID",
        help="Another candidate than the best: an id of `runs show`, or `original`.",
    ),
]


def confirm(question: str, *, yes: bool) -> None:
    """Ask before something is lost for good; a no ends with 1. Raises UsageError where nobody can answer."""
    if yes:
        return
    if not sys.stdin.isatty():
        raise UsageError(f"{question} Nobody can be asked here: add --yes to do it.")
    typer.confirm(question, abort=True, err=True)


def with_settings(
    names: Iterable[str], model: type[BaseModel] = RunConfig
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Gives a command the flags of these settings. It gets those that were given, as `flags`."""
    chosen = sorted(names, key=lambda name: _FIRST.index(name) if name in _FIRST else len(_FIRST))

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        own = inspect.signature(command, eval_str=True)
        parameters = [p for p in own.parameters.values() if p.name != "flags"]
        fields = _FIELDS if model is RunConfig else model.model_fields
        settings = [_parameter(name, fields[name]) for name in chosen]

        @wraps(command)
        def called(**values: Any) -> None:
            given = {name: values.pop(name) for name in chosen}
            # A switch that is off and an empty list are flags that were not given.
            flags = {
                name: value
                for name, value in given.items()
                if value is not None and value is not False and value != []
            }
            command(flags=flags, **values)

        arguments = [p for p in parameters if p.kind is not inspect.Parameter.KEYWORD_ONLY]
        rest = [p for p in parameters if p.kind is inspect.Parameter.KEYWORD_ONLY]
        called.__signature__ = own.replace(  # type: ignore[attr-defined]
            parameters=[*arguments, *settings, *rest]
        )
        called.__annotations__ = {}
        return called

    return decorate


def _parameter(name: str, field: FieldInfo) -> inspect.Parameter:
    kind, default = _kind(name, field)
    is_path = kind in (Path | None, list[Path] | None)
    option = typer.Option(
        flag_name(name),
        help=_help(name, field),
        metavar=_metavar(name, field),
        parser=path if is_path else None,
        show_default=False,
    )
    return inspect.Parameter(
        name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=Annotated[kind, option]
    )


def _metavar(name: str, field: FieldInfo) -> str | None:
    if name in _METAVARS:
        return _METAVARS[name]
    plain = _plain(field.annotation) if name not in _LISTS else str
    if get_origin(plain) is Literal:
        return "|".join(get_args(plain))
    return {bool: None, int: "N", float: "X", Path: "FILE", str: "TEXT"}[plain]


def _kind(name: str, field: FieldInfo) -> tuple[Any, Any]:
    """The type of the flag, and what it is where it was not given."""
    if name in _LISTS:
        return list[str] | None, None
    if name == "data":
        return list[Path] | None, None
    if name in AT_COMMAS:
        return str | None, None
    plain = _plain(field.annotation)
    return (bool, False) if plain is bool else (plain | None, None)


def _plain(annotation: Any) -> Any:
    """The type without None and without pydantic's bounds: those are checked with the other settings."""
    origin = get_origin(annotation)
    if origin is Annotated:
        return _plain(get_args(annotation)[0])
    if origin in (Union, types.UnionType):
        return _plain(next(part for part in get_args(annotation) if part is not type(None)))
    if origin is Literal or annotation in (bool, int, float, str, Path):
        return annotation
    raise TypeError(f"no flag can hold {annotation!r}")


def _help(name: str, field: FieldInfo) -> str:
    text = field.description or ""
    if name in _LISTS:
        text += " May be given several times."
    if field.default in (None, False, (), "") or field.default_factory is not None:
        return text
    return f"{text} [default: {field.default}]"
