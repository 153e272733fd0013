"""What a command takes from `.env` of the working directory and from variables, and what it warns about."""

from __future__ import annotations

import io
import os
from collections.abc import Iterable, MutableMapping
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from autoprompt.cli.output import clean
from autoprompt.errors import VARIABLE_PREFIX, ConfigError, Place, Problem, Voice, tell
from autoprompt.llm.endpoints import PROVIDERS, address_variable, key_variable
from autoprompt.settings.records import ConfigFile, ScienceConfig
from autoprompt.settings.sources import held_by_variables, unknown_variables
from autoprompt.settings.trust import is_trusted, kind_of, leave_out, trust_everything
from autoprompt.text.display import ADDRESS_VARIABLES
from autoprompt.text.files import read_bytes
from autoprompt.text.inputs import protect

if TYPE_CHECKING:
    from dotenv.parser import Binding

# By any of these LangChain and LangGraph send what their graphs hold, rows among it, to LangSmith.
_TRACING = ("LANGSMITH_TRACING", "LANGSMITH_TRACING_V2", "LANGCHAIN_TRACING", "LANGCHAIN_TRACING_V2")
# Keys of ours: each is sent to an address that the user gave, or to that of its provider.
_KEYS = ("AUTOPROMPT_OPTIMIZER_API_KEY", "AUTOPROMPT_JUDGE_API_KEY", *map(key_variable, PROVIDERS))
_ADDRESSES = (*ADDRESS_VARIABLES, *map(address_variable, PROVIDERS))
_MOST_NAMED = 12
_AS_UTF8 = "Save it as UTF-8."
_MOST_BYTES = 1_000_000


def read_environment(*, is_trusted: bool = False) -> None:
    """Read `.env` of the working directory, which overrides nothing; warn of odd lines and names.

    is_trusted: `--trust`, for `.env` and all that the command reads.
    """
    if is_trusted:
        trust_everything()
    for warning in (*load_env_file(Path(".env")), *unknown_variables(os.environ)):
        typer.echo(f"warning: {clean(tell(warning, Voice.CLI))}", err=True)
    stop_tracing(os.environ)


def load_env_file(path: Path) -> list[Problem]:
    """Put its variables into the environment, if they are not set yet; return warnings.

    Of a folder that is not trusted only keys of ours are taken, and settings that name no code, no address
    and no file elsewhere. Without the file, or if it is a folder (some call a virtual environment so),
    nothing happens.

    Raises:
        ConfigError: It is no UTF-8: PowerShell's `>` writes UTF-16.
    """
    from dotenv import load_dotenv
    from dotenv.parser import parse_stream

    leave_out({})
    protect(path, "file of variables")
    if not path.exists() or path.is_dir():
        return []
    found = list(parse_stream(io.StringIO(_text(path))))
    # Without those that the parser would tell of in its own words, which do not name the file.
    bindings = [binding for binding in found if not binding.error]
    left_out = [] if is_trusted(path) else [one for one in bindings if not _is_taken(one, path.parent)]
    read = "".join(binding.original.string for binding in bindings if binding not in left_out)
    load_dotenv(stream=io.StringIO(read), override=False)
    unused = {binding.key: binding for binding in left_out if binding.key and binding.key not in os.environ}
    places = {name: Place(path, _line(one), setting=name, source="variable") for name, one in unused.items()}
    leave_out({name: place for name, place in places.items() if name in _ADDRESSES})
    broken = [
        Problem(
            "env.bad-line",
            "expected NAME=VALUE; this line is ignored",
            Place(path, _line(binding)),
            "Write NAME=VALUE, and close every quote.",
        )
        for binding in found
        if binding.error
    ]
    return [*broken, *_unused(path, unused)]


def _is_taken(binding: Binding, folder: Path) -> bool:
    """Return whether a variable of a file that is not trusted is used.

    A list of what is, not of what is not.
    """
    name, value = binding.key or "", binding.value or ""
    if "${" in value:  # another variable's value, maybe a secret of the shell
        return False
    if name in _KEYS:
        return True
    setting = name.removeprefix(VARIABLE_PREFIX).lower()
    is_setting = name.startswith(VARIABLE_PREFIX) and name.isupper() and setting in _settings()
    return is_setting and kind_of(setting, value, folder) is None


def _settings() -> set[str]:
    return {*held_by_variables(ConfigFile), *held_by_variables(ScienceConfig)}


def _unused(path: Path, names: Iterable[str]) -> list[Problem]:
    """Warn of variables that are not used. Values are not shown."""
    all_names = list(names)
    if not all_names:
        return []
    more = f" and {len(all_names) - _MOST_NAMED} more" if len(all_names) > _MOST_NAMED else ""
    said = f"ignored, because you have not trusted the folder: {', '.join(all_names[:_MOST_NAMED])}{more}"
    fix = "To use them, {trust}."
    settings = {"trust": path.absolute().parent}
    return [Problem("trust.variables", said, Place(path), fix, settings)]


def stop_tracing(environ: MutableMapping[str, str]) -> None:
    """Rows stay here: a `.env` or shell that has another program traced has not asked for ours to be.

    For the command line alone. In Python the process is the user's, and so is its tracing.
    """
    for name in _TRACING:
        environ.pop(name, None)


def _line(binding: Binding) -> int:
    """Return the line of a binding; the parser counts from the empty lines before it."""
    text = binding.original.string
    return binding.original.line + text[: len(text) - len(text.lstrip())].count("\n")


def _text(path: Path) -> str:
    """Read the file. UTF-16 without its mark passes for UTF-8, with a zero in every second place."""
    try:
        text = read_bytes(path, _MOST_BYTES).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ConfigError(Problem("env.not-utf8", "not UTF-8 text", Place(path), _AS_UTF8)) from error
    except OSError as error:
        said, fix = f"cannot be read ({error.strerror})", "Remove or rename it."
        raise ConfigError(Problem("env.unreadable", said, Place(path), fix)) from error
    if "\0" in text:
        said = "not UTF-8 text (it contains zero bytes)"
        raise ConfigError(Problem("env.not-utf8", said, Place(path), _AS_UTF8))
    return text
