"""The command line. A command parses, calls the library, renders.

Nothing is imported here but typer: a command's own module is imported when the command is called, so that
`autoprompt --help` answers at once.
"""

from __future__ import annotations

import gc
import importlib
import io
import json
import os
import re
import signal
import sys
import traceback
from collections.abc import Mapping, Sequence
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

from autoprompt.cli.output import (
    check_width,
    clean,
    escaped,
    lenient,
    open_closed_streams,
    print_line,
    results_alone,
)
from autoprompt.errors import (
    AutopromptError,
    InputError,
    Interrupted,
    Place,
    Problem,
    UsageError,
    Voice,
    arguments,
    tell,
)
from autoprompt.text.inputs import protecting
from autoprompt.text.machine import machine_problem
from autoprompt.text.names import counted

# Group of the help page -> name -> (module, what it does). The command is the `app` of the module, or its
# `NAME_app` if several commands share the module.
GROUPS = {
    "Optimize": {
        "run": ("run", "Optimize a prompt on a dataset."),
        "resume": ("resume", "Resume an interrupted run of any kind."),
        "batch": ("batch", "Run many trials from YAML as one experiment."),
    },
    "Measure": {
        "eval": ("evaluate", "Score a prompt on a whole dataset."),
        "check": ("check", "Fail in CI if a prompt is worse than its baseline."),
    },
    "Look": {
        "runs": ("runs", "List, show, compare, export, apply and delete runs."),
        "report": ("report", "Write a run as a page, as Markdown, or its plot."),
        "ui": ("report", "Show the runs in the browser, read-only."),
    },
    "Programs and questions": {
        "flow": ("flow", "Run, check and draw workflows."),
        "program": ("program", "Show what a program of your own sends."),
        "science": ("science", "Answer a question by experiments in a sandbox."),
    },
    "This machine": {
        "demo": ("demo", "Play a recorded run without a model, and open its report."),
        "init": ("machine", "Make a starter folder."),
        "doctor": ("doctor", "Show what works on this machine, and how to fix the rest."),
        "config": ("machine", "Set models, prices and limits once, for all runs."),
        "models": ("machine", "List and download local models."),
        "cache": ("machine", "Show or clear the response cache."),
        "memory": ("memory", "Show, search, export and forget experiences."),
        "trust": ("machine", "List, add and remove trusted folders."),
    },
}
COMMANDS = {name: found for group in GROUPS.values() for name, found in group.items()}


# What people type who know the flags of a sibling command -> how it is written here.
_RENAMED = {
    ("eval", "--run"): "--from RUN",
    ("eval", "--candidate"): "--from RUN:CANDIDATE",
    ("eval", "--exported"): "--from FILE.yaml",
    ("check", "--exported"): "--from FILE.yaml",
    ("runs export", "--candidate"): "autoprompt runs export RUN:CANDIDATE",
    ("flow run", "--resume"): "autoprompt resume RUN",
}


def load_command(name: str) -> Any:
    """Return the command of this name, with its module imported."""
    module, help_text = COMMANDS[name]
    found = importlib.import_module(f"autoprompt.cli.{module}")
    command = typer.main.get_command(getattr(found, f"{name}_app", None) or found.app)
    command.name = name
    command.help = command.help or help_text
    return command


class LazyGroup(TyperGroup):
    """Knows its commands by name and one line each, and imports the one that is called."""

    def __init__(self, **attrs: Any) -> None:
        super().__init__(**attrs)
        for name, (_, help_text) in COMMANDS.items():
            self.commands[name] = TyperCommand(name, help=help_text, rich_markup_mode=None)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the commands in their groups."""
        del ctx  # they are the same everywhere
        widest = max(map(len, COMMANDS))
        for title, commands in GROUPS.items():
            with formatter.section(title):
                rows = [(name.ljust(widest), help_text) for name, (_, help_text) in commands.items()]
                formatter.write_dl(rows)

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """`--debug` is taken anywhere, since it is thought of after a command has failed."""
        ctx.meta["autoprompt.debug"] = "--debug" in args
        ctx.meta["autoprompt.json"] = "--json" in args
        ctx.meta["autoprompt.events"] = "--events" in args
        ctx.meta["autoprompt.args"] = args[:]
        rest = [arg for arg in args if arg != "--debug"]
        if misplaced := _before_command(rest):
            flag, command = misplaced
            said = f"{flag} belongs after the command: autoprompt {command} ... {flag}"
            raise _ended(ctx, said, UsageError.exit_code)
        return super().parse_args(ctx, rest)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        name, command, rest = super().resolve_command(ctx, args)
        return (name, load_command(name), rest) if name in COMMANDS else (name, command, rest)

    def invoke(self, ctx: Any) -> Any:
        is_on = ctx.meta["autoprompt.json"] or ctx.meta["autoprompt.events"]
        with protecting(), results_alone(is_on=is_on):
            return self._invoke(ctx)

    def _invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except Interrupted as error:
            said = error.message(Voice.CLI) or "interrupted"
            raise _ended(ctx, said, Interrupted.exit_code, prefix="") from error
        except KeyboardInterrupt as error:
            raise _ended(ctx, "interrupted", Interrupted.exit_code, prefix="") from error
        except AutopromptError as error:
            if ctx.meta["autoprompt.debug"]:
                traceback.print_exc()
            said = "\n".join([error.message(Voice.CLI), *_notes(error)])
            raise _ended(ctx, said, error.exit_code, problems=error.problems) from error
        except Exception as error:
            if _is_typers(error):
                if message := getattr(error, "message", ""):  # what pydantic puts before a ValueError's words
                    vars(error)["message"] = message.removeprefix("Value error, ")
                if hasattr(error, "format_message"):  # a usage error; Exit and Abort say nothing
                    vars(error)["message"] = getattr(error, "message", "") + _unnamed(error)
                    said, code = error.format_message(), getattr(error, "exit_code", 2)
                    _tell_program(ctx, said, code, _problems_of_a_value(error))
                raise
            if ctx.meta["autoprompt.debug"]:
                traceback.print_exc()
            if (problem := machine_problem(error)) is not None:
                said = "\n".join([tell(problem, Voice.CLI), *_notes(error)])
                raise _ended(ctx, said, InputError.exit_code, problems=[problem]) from error
            said = f"{type(error).__name__}: {error}\nthis is a bug; add --debug for the traceback"
            raise _ended(ctx, said, 70) from error


def _problems_of_a_value(error: Any) -> list[Problem]:
    """Return what the parser of a flag's value found wrong with it."""
    problem = getattr(error.__cause__, "problem", None)
    name = getattr(getattr(error, "param", None), "name", None)
    return [] if problem is None else [problem.at(Place(setting=name, source="flag"))]


def _unnamed(error: Any) -> str:
    """Return what a usage error lacks: the form of a setting without a flag, or the flag of a value."""
    option, command_name = getattr(error, "option_name", ""), _command_name(error)
    if (form := _RENAMED.get((command_name, option))) is not None:
        error.possibilities = None
        return f". Use {form}."
    setting, takes = option.removeprefix("--").replace("-", "_"), _settings_of(error)
    if setting in takes:
        error.possibilities = None
        is_switch = takes[setting].annotation is bool
        form = " ".join(arguments(setting, True if is_switch else None, has_flag=False))
        if command_name == "resume" and setting != "program_changed_ok":
            return f". Only a run of `flow run` takes it, as {form}; others keep their settings."
        return f". Use {form}."
    extra = re.fullmatch(
        r"Got unexpected extra argument\S* \((.*)\)", getattr(error, "message", ""), re.DOTALL
    )
    command = getattr(getattr(error, "ctx", None), "command", None)
    if extra is None or command is None:
        return ""
    if command_name == "science" and (words := error.ctx.params.get("task")) == "resume":
        return f". Use autoprompt {words} {extra[1]}."
    for switch in (f for param in command.params if param.secondary_opts for f in param.opts):
        name = switch.removeprefix("--").replace("-", "_") + "_file"  # memory_file beside --memory
        if name in takes and _follows(error, switch, extra[1]):
            return f". {switch} takes no value. Use {' '.join(arguments(name, extra[1]))}."
    flags = {flag for param in command.params for flag in param.opts}
    is_yaml = extra[1].endswith((".yaml", ".yml"))
    for flag, is_meant in (("--config", is_yaml), ("--dataset", not is_yaml)):
        if is_meant and flag in flags and Path(extra[1]).is_file():
            return f". Did you mean {flag} {extra[1]}?"
    return '. Quote values that contain spaces: --prompt "two words"' if "--prompt" in flags else ""


def _settings_of(error: Any) -> Mapping[str, Any]:
    """Return the settings that the command of a usage error takes by `--set`."""
    command = getattr(getattr(error, "ctx", None), "command", None)
    found: Mapping[str, Any] = getattr(getattr(command, "callback", None), "settings", {})
    return found


def _command_name(error: Any) -> str:
    """Return the command of a usage error, such as `runs export`."""
    context = getattr(error, "ctx", None)
    return "" if context is None else " ".join(context.command_path.split()[1:])


def _follows(error: Any, flag: str, value: str) -> bool:
    args = error.ctx.meta.get("autoprompt.args", [])
    return any(pair == (flag, value) for pair in pairwise(args))


def _before_command(args: list[str]) -> tuple[str, str] | None:
    """Return a flag of a command that stands before it, and that command."""
    first = next(iter(args), "")
    command = next((arg for arg in args if arg in COMMANDS), None)
    is_ours = not first.startswith("-") or first in ("-", "--", "-h", "--help", "--version")
    return None if is_ours or command is None else (first.partition("=")[0], command)


def _ended(
    ctx: Any, message: str, exit_code: int, *, prefix: str = "error: ", problems: Sequence[Problem] = ()
) -> typer.Exit:
    """End the program by an error: print it to stderr, and with --json to stdout too."""
    if prefix:
        typer.secho(prefix, fg="red", bold=True, err=True, nl=False)
    typer.echo(clean(message), err=True)
    _tell_program(ctx, message, exit_code, problems)
    return typer.Exit(exit_code)


def _tell_program(ctx: Any, message: str, exit_code: int, problems: Sequence[Problem] = ()) -> None:
    """Print one object to stdout with --json, whatever happens.

    The code and the place are those of the first problem; `problems` has all of them.
    """
    if not ctx.meta["autoprompt.json"]:
        return
    told = [problem.to_dict(Voice.CLI) for problem in problems or [Problem.plain(message)]]
    first = {name: told[0][name] for name in ("code", "file", "line", "row", "setting")}
    error = {"message": message, "exit_code": exit_code, **first, "problems": told}
    with suppress(OSError):  # a full disk or a closed pipe, perhaps the error itself: stderr has it
        print_line(json.dumps({"error": error}, ensure_ascii=False))


def _notes(error: BaseException) -> list[str]:
    """Return what we have added to an error on its way: how to go on, say.

    LangGraph names its own task in one.
    """
    return [note for note in getattr(error, "__notes__", []) if not note.startswith("During task with name")]


def _is_typers(error: Exception) -> bool:
    """Exit, Abort and usage errors: typer's own `main` knows what to do with them."""
    return type(error).__module__.partition(".")[0] in ("typer", "click")


app = typer.Typer(
    cls=LazyGroup,
    rich_markup_mode=None,  # plain help: importing rich for it would triple its time
    pretty_exceptions_enable=False,
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    help="Turn a labelled dataset and a naive prompt into a better prompt, with proof.",
    epilog="Start with: autoprompt init DIR",
)


def _show_version(wanted: bool) -> None:
    if wanted:
        from autoprompt import __version__

        typer.echo(f"autoprompt {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: bool = typer.Option(
        False, "--version", is_eager=True, callback=_show_version, help="Show the version and exit."
    ),
    debug: bool = typer.Option(False, "--debug", help="Show the traceback of an error; works anywhere."),
) -> None:
    del version, debug  # handled before this is called


# New objects until the garbage collector runs. With the 700 of CPython 3.11, it took 10 to 20% of a request's
# processor time (benchmarks/docs/machine.md).
_GC_THRESHOLD = 20_000


def main() -> None:
    """Run the command line: the console script."""
    gc.set_threshold(_GC_THRESHOLD, *gc.get_threshold()[1:])
    check_width(os.environ)
    open_closed_streams()
    out = None
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout, out = lenient(sys.stdout)
    if isinstance(sys.stderr, io.TextIOWrapper):
        sys.stderr, _ = lenient(sys.stderr)
    for name in ("SIGTERM", "SIGHUP"):
        number = getattr(signal, name, None)
        # As Ctrl-C, so that what is left says how to go on. What `nohup` has set to be ignored stays so.
        if number is not None and signal.getsignal(number) is signal.SIG_DFL:
            signal.signal(number, signal.default_int_handler)
    try:
        app(prog_name="autoprompt")
    except SystemExit as ended:
        sys.stdout.flush()
        for encoding, number in escaped().items():
            lacks = f"that {encoding} lacks"
            said = counted(number, f"character {lacks} is", f"characters {lacks} are") + " shown as escapes"
            typer.echo(f"warning: {said}. Set PYTHONIOENCODING=utf-8 to see them.", err=True)
        if out is not None and out.fault is not None and not ended.code:
            problem = machine_problem(out.fault, Path("stdout"))
            said = str(out.fault) if problem is None else tell(problem, Voice.CLI)
            typer.echo(f"error: the output is not complete: {said}", err=True)
            raise SystemExit(InputError.exit_code) from None
        raise
