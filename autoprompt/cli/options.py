"""Flags that several commands share. Those of settings come from `RunConfig`, with its words."""

from __future__ import annotations

import inspect
import re
import sys
import types
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import wraps
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any, Literal, Union, get_args, get_origin

import typer
from pydantic.fields import FieldInfo
from typer.core import TyperCommand

from autoprompt.errors import AT_COMMAS, SET_ONLY, Place, Problem, UsageError, Voice, flag_name, tell
from autoprompt.settings.kinds import Panel, Refused, not_empty, panel_of, shown_default
from autoprompt.settings.prompt_file import is_run_name
from autoprompt.settings.records import (
    STARTS,
    Budget,
    CallSettings,
    CheckConfig,
    DataSettings,
    ModelSettings,
    RunConfig,
    ScienceConfig,
)
from autoprompt.settings.sources import Placed, flag_places, read_assignments

if TYPE_CHECKING:
    from autoprompt.runs import RunFolder

_START = (
    "baseline",
    "exported",
    "dataset",
    "prompt",
    "workflow",
    "program",
    "prompts_file",
    "allow_effects",
    "model",
    "base_url",
)


def _with_flags(takes: Iterable[str], *more: str) -> tuple[str, ...]:
    """Return the settings that get a flag, those to start with first: all but SET_ONLY, and `more`."""
    names = [name for name in takes if name not in SET_ONLY or name in more]
    return (*(name for name in _START if name in names), *(name for name in names if name not in _START))


# The settings that a command takes, and those of them that have a flag, in the order of `--help`.
RUN = RunConfig.model_fields
RUN_FLAGS = _with_flags(RUN)
# `eval` neither searches nor splits.
EVALUATION = {
    name: RunConfig.model_fields[name]
    for name in (
        *(
            "prompt",
            "workflow",
            "program",
            "prompts_file",
            "allow_effects",
            "target_output",
            "mocks",
            "tools",
            "allow_private_hosts",
        ),
        *(*DataSettings.model_fields, *ModelSettings.model_fields, *Budget.model_fields),
    )
    if name not in {"train", "val", "test", "no_test", "drop_leaks", "split_seed", "max_val", "max_test"}
    and not name.startswith("optimizer_")
}
EVALUATION_FLAGS = _with_flags(EVALUATION, "judge_model")
CHECK = {**CheckConfig.model_fields, **EVALUATION}
CHECK_FLAGS = _with_flags(CHECK, "judge_model")
# `science` has one model, and its task is an argument.
SCIENCE = {
    name: field
    for name, field in ScienceConfig.model_fields.items()
    if name not in {"task", "agent", "constrain"} and not name.startswith(("optimizer_", "judge_"))
}
SCIENCE_FLAGS = _with_flags(SCIENCE, "max_iterations", "sandbox")
FLOW = {
    name: field
    for name, field in RunConfig.model_fields.items()
    if name in (*CallSettings.model_fields, "allow_private_hosts")
    and name != "temperature"
    and not name.startswith(("optimizer_", "judge_"))
}
# What a resumed run may be given anew: that of a workflow, and the last one that of a program.
RESUME = {
    **FLOW,
    **{name: RunConfig.model_fields[name] for name in ("workflow", "mocks", "tools", "program_changed_ok")},
}
FLOW_FLAGS = _with_flags(FLOW)

_EXPORTS = (".yaml", ".yml", ".json")
_LISTS = ("locked", "metric_options", "must_pass")  # flags that may be given several times
# Switches that are on unless a source turns them off: the flags of `no_cache` are --cache and --no-cache.
_PAIRS = {
    "no_cache": "Reuse answers of other runs. [default: on]",
    "no_memory": "Read and write experiences. [default: on]",
}
_METAVARS = {
    "prompt": "TEXT|@FILE",
    "labels": "A,B,...",
    "metric_options": "NAME=VALUE",
    "metric": "NAME",
    "base_url": "URL",
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
    "must_pass": "ID|INPUT",
    "concurrency": "auto|N",
}


class Panelled(TyperCommand):
    """A command whose help has its options in panels. Typer does that with rich, which takes too long."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the arguments, then the options of each panel; `--help` is in the last one."""
        for name, parameters in panels(self.get_params(ctx)).items():
            with formatter.section(name):
                formatter.write_dl([param.get_help_record(ctx) for param in parameters])


def panels(parameters: Iterable[Any]) -> dict[str, list[Any]]:
    """Return the parameters of a command by panel, in the order of `--help`. Hidden ones are left out."""
    found: dict[str, list[Any]] = {name: [] for name in ("Arguments", *map(str, Panel), "Options")}
    for parameter in parameters:
        if parameter.param_type_name == "argument":
            found["Arguments"].append(parameter)
        elif not parameter.hidden:
            found[getattr(parameter, "rich_help_panel", None) or "Options"].append(parameter)
    if found[Panel.OUTPUT]:  # `--help` has no panel of its own
        found[Panel.OUTPUT] += found.pop("Options")
    return {name: one for name, one in found.items() if one}


ConfigFile = Annotated[
    Path | None,
    typer.Option(
        "--config",
        metavar="FILE",
        help="File (YAML) with settings, named as the flags with _ for -.",
        rich_help_panel=Panel.START,
    ),
]
DryRun = Annotated[
    bool,
    typer.Option(
        "--dry-run",
        help="Show the calls, tokens and cost to expect; only a program is tried.",
        rich_help_panel=Panel.START,
    ),
]
Json = Annotated[
    bool,
    typer.Option(
        "--json",
        help="Print the result or error as JSON on stdout, all else on stderr.",
        rich_help_panel=Panel.OUTPUT,
    ),
]


def path(value: str) -> Path:
    """Return the parser of flags that take a path.

    What pathlib makes of an empty one is the working directory.
    """
    return Path(_not_empty(value))


def address(value: str) -> str:
    """Return the parser of flags that take an address."""
    return _not_empty(value).strip()


def _not_empty(value: str) -> str:
    try:
        return str(not_empty(str(value)))
    except Refused as error:
        raise typer.BadParameter(tell(error.problem, Voice.CLI)) from error


ResultsFolder = Annotated[
    Path | None,
    typer.Option(
        "-o",
        "--output",
        metavar="FOLDER",
        help="Folder to copy transcript, scripts and results of `science` to.",
        rich_help_panel=Panel.OUTPUT,
    ),
]
Events = Annotated[
    bool,
    typer.Option(
        "--events", help="Print each event of a workflow as a JSON line.", rich_help_panel=Panel.OUTPUT
    ),
]
Quiet = Annotated[
    bool,
    typer.Option(
        "--quiet", "-q", help="Hide the live panel and progress lines.", rich_help_panel=Panel.OUTPUT
    ),
]
Source = Annotated[
    str | None,
    typer.Option(
        "--from",
        metavar="last|RUN[:CANDIDATE]|FILE.yaml",
        help="Prompt of a run, or of an export.",
        rich_help_panel=Panel.START,
    ),
]
Trust = Annotated[
    bool,
    typer.Option(
        "--trust",
        help="Trust the files that this command reads (see SECURITY.md).",
        rich_help_panel=Panel.OUTPUT,
    ),
]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")]
RunsDir = Annotated[
    Path,
    typer.Option(
        "--runs-dir",
        metavar="FOLDER",
        envvar="AUTOPROMPT_RUNS_DIR",
        parser=path,
        help="Folder of the runs.",
        rich_help_panel=Panel.OUTPUT,
    ),
]


FROM = Place(setting="from", source="flag")
_CANDIDATE = re.compile(r"[^\s/\\.:]+")


def run_and_candidate(text: str) -> tuple[str, str | None]:
    """Return the run and the candidate of RUN[:CANDIDATE]; None for the best one.

    RUN may be a path with a colon: what follows the last one is a candidate if there is no such folder.
    """
    run, colon, candidate = text.rpartition(":")
    if colon and _CANDIDATE.fullmatch(candidate) and not Path(text).is_dir():
        return run, None if candidate == "best" else candidate
    return text, None


def names_made(text: str) -> bool:
    """Return whether a word that may be a prompt names an export, or a run and maybe its candidate."""
    if len(text.split()) != 1 or "{" in text or text.startswith("@"):
        return False
    run = run_and_candidate(text)[0]
    is_export = Path(text).suffix.lower() in _EXPORTS
    return is_export or is_run_name(run) or (Path(run).expanduser() / "run.json").is_file()


def made(text: str, place: Place = FROM) -> Path | tuple[str, str | None]:
    """Return what `--from` names: the file of an export, or a run and its candidate.

    Raises:
        UsageError: For what can be neither, such as the text of a prompt.
    """
    text = _not_empty(text)
    path_ = Path(text).expanduser()
    if path_.suffix.lower() in _EXPORTS:
        return path_
    found = run_and_candidate(text)
    if Path(found[0]).is_dir():
        return found
    if len(text.split()) > 1 or "{" in text:
        said, fix = f"no run or file {text!r:.60}", "If it is the text of a prompt, use {prompt}."
    elif text.startswith("@") or path_.is_file():
        file = text.removeprefix("@")
        said = f"{file} is not an export (.yaml)"
        fix = "If it is a text file, use {prompt}."
        raise UsageError(Problem("prompt.not-made", said, place, fix, {"prompt": f"@{file}"}))
    else:
        return found
    raise UsageError(Problem("prompt.not-made", said, place, fix, {"prompt": "<TEXT>"}))


def own_run(run: str, runs_dir: Path) -> RunFolder:
    """Open the run that a prompt is taken from, to be sent.

    Raises:
        StoreError: There is no such run, or somebody else may have made it.
    """
    from autoprompt.runs import RunStore  # 80 ms, and most commands take no run

    folder = RunStore(runs_dir).open(run)
    folder.check_is_own()
    return folder


def protect_run(folder: RunFolder) -> None:
    """Protect the files of a run, and those that its settings name, from what the command writes.

    A report may be written again.
    """
    from autoprompt.settings.resolve import protect_files
    from autoprompt.text.inputs import protect

    for path in folder.path.iterdir():
        if path.stem != "report":
            protect(path, "run's own file")
    kinds: dict[object, type[RunConfig | ScienceConfig]] = {"optimize": RunConfig, "science": ScienceConfig}
    if (kind := kinds.get(folder.read_info().get("kind"))) is not None:
        protect_files(dict(folder.read_settings(kind)))


def check_only_source(flags: Mapping[str, Any]) -> None:
    """Raise UsageError for another prompt, workflow or program beside `--from`."""
    if given := [place for name, place in flag_places(flags).items() if name in STARTS]:
        raise UsageError(
            Problem(
                "settings.exclusive",
                "cannot be combined with {related}",
                FROM,
                "Give one of them.",
                related=(given[0],),
            )
        )


def confirm(question: str, *, yes: bool) -> None:
    """Ask before something is deleted; "no" exits with 1.

    Raises:
        UsageError: Nobody can answer, as stdin is not a terminal.
    """
    if yes:
        return
    if not sys.stdin.isatty():
        fix = "This is not a terminal: add --yes to confirm."
        raise UsageError(Problem("usage.not-confirmed", question, fix=fix))
    typer.confirm(question, abort=True, err=True)


def with_settings(
    flags: Sequence[str],
    takes: Mapping[str, FieldInfo],
    refuses: Mapping[str, FieldInfo] = MappingProxyType({}),
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command flags for settings, and `--set` for the others that it takes.

    The command gets those that were given, as `flags`.

    Args:
        flags: Settings with a flag.
        takes: All settings that the command takes.
        refuses: Settings that it gets as well, to refuse them in its own words.
    """

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        own = inspect.signature(command, eval_str=True)
        parameters = [p for p in own.parameters.values() if p.name != "flags"]
        settings = [_parameter(name, takes[name]) for name in flags]
        switches = {flag.lstrip("-").replace("-", "_"): flag for flag in _own_flags(parameters)}
        if takes.keys() - set(flags):
            settings.append(_SET)

        @wraps(command)
        def called(**values: Any) -> None:
            texts = values.pop(_SET.name, None) or ()
            given = {name: values.pop(name) for name in flags}
            # A switch that is off and an empty list are flags that were not given.
            given = {
                name: not value if name in _PAIRS else value
                for name, value in given.items()
                if value is not None and (value is not False or name in _PAIRS) and value != []
            }
            assigned = read_assignments(texts, {**refuses, **takes}, switches)
            command(flags=_with_assigned(given, assigned), **values)

        arguments = [p for p in parameters if p.kind is not inspect.Parameter.KEYWORD_ONLY]
        rest = [p for p in parameters if p.kind is inspect.Parameter.KEYWORD_ONLY]
        called.__signature__ = own.replace(  # type: ignore[attr-defined]
            parameters=[*arguments, *settings, *rest]
        )
        called.__annotations__ = {}
        called.settings = takes if takes.keys() - set(flags) else {}  # type: ignore[attr-defined]
        return called

    return decorate


def _own_flags(parameters: Iterable[inspect.Parameter]) -> Iterator[str]:
    """Yield the flags of a command that are no settings, such as `--json`."""
    for parameter in parameters:
        for option in getattr(parameter.annotation, "__metadata__", ()):
            # typer takes the first name for the default
            names = (getattr(option, "default", None), *(getattr(option, "param_decls", None) or ()))
            yield from (name for name in names if isinstance(name, str) and name.startswith("--"))


_SET = inspect.Parameter(
    "assigned",
    inspect.Parameter.KEYWORD_ONLY,
    default=None,
    annotation=Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="NAME=VALUE",
            help="Any setting of the config file, value as in YAML; repeatable.",
            rich_help_panel=Panel.START,
        ),
    ],
)


def _with_assigned(given: dict[str, Any], assigned: Mapping[str, Any]) -> dict[str, Any]:
    """Return the flags with what `--set` gave.

    Raises:
        UsageError: For a setting that both gave.
    """
    for name, value in assigned.items():
        if name in given:
            is_on = name in _PAIRS and given[name] is False  # of --cache and --no-cache, the first
            flag = flag_name(name).replace("--no-", "--") if is_on else flag_name(name)
            said, fix = f"cannot be combined with {flag}", "Give one of them."
            raise UsageError(Problem("settings.exclusive", said, Place(setting=name, source="set"), fix))
        given[name] = Placed.assigned(name, value)
    return given


def _parameter(name: str, field: FieldInfo) -> inspect.Parameter:
    kind, default = _kind(name, field)
    is_path = kind in (Path | None, list[Path] | None)
    flag = flag_name(name)
    option = typer.Option(
        f"--{flag.removeprefix('--no-')}/{flag}" if name in _PAIRS else flag,
        help=_help(name, field),
        metavar=_metavar(name, field),
        parser=path if is_path else None,
        show_default=False,
        rich_help_panel=panel_of(field),
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
    """Return the type of the flag, and what it is where it was not given."""
    if name in _LISTS:
        return list[str] | None, None
    if name == "data":
        return list[Path] | None, None
    if name in AT_COMMAS or name == "concurrency":
        return str | None, None
    if name in _PAIRS:
        return bool | None, None
    plain = _plain(field.annotation)
    return (bool, False) if plain is bool else (plain | None, None)


def _plain(annotation: Any) -> Any:
    """Return the type without None and pydantic's bounds, which are checked with the other settings."""
    origin = get_origin(annotation)
    if origin is Annotated:
        return _plain(get_args(annotation)[0])
    if origin in (Union, types.UnionType):
        return _plain(next(part for part in get_args(annotation) if part is not type(None)))
    if origin is Literal or annotation in (bool, int, float, str, Path):
        return annotation
    raise TypeError(f"no flag can hold {annotation!r}")


def _help(name: str, field: FieldInfo) -> str:
    if name in _PAIRS:
        return _PAIRS[name]
    text = field.description or ""
    if name in (*_LISTS, "data"):
        text = f"{text.removesuffix('.')}; repeatable."
    default = shown_default(field)
    return f"{text} [default: {default}]" if default else text
