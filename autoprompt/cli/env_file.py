"""`.env` of the working directory, what is wrong with it by name and line, and what in it is not for us."""

from __future__ import annotations

import io
from collections.abc import MutableMapping
from pathlib import Path
from typing import TYPE_CHECKING

from autoprompt.errors import ConfigError

if TYPE_CHECKING:
    from dotenv.parser import Binding

# By any of these LangChain and LangGraph send what their graphs hold, rows among it, to LangSmith.
_TRACING = ("LANGSMITH_TRACING", "LANGSMITH_TRACING_V2", "LANGCHAIN_TRACING", "LANGCHAIN_TRACING_V2")


def load_env_file(path: Path) -> list[str]:
    """Puts its variables into the environment where they are not set yet; warnings of lines that are none.

    Without the file, or where it is a folder (some call a virtual environment so), nothing happens. Raises
    ConfigError for what is no UTF-8: PowerShell's `>` writes UTF-16.
    """
    from dotenv import load_dotenv
    from dotenv.parser import parse_stream

    if not path.exists() or path.is_dir():
        return []
    found = list(parse_stream(io.StringIO(_text(path))))
    # Without those that the parser would tell of in its own words, which do not name the file.
    read = "".join(binding.original.string for binding in found if not binding.error)
    load_dotenv(stream=io.StringIO(read), override=False)
    return [
        f"{path} line {_line(binding)}: not NAME=VALUE, or a quote without its other half; passed over"
        for binding in found
        if binding.error
    ]


def stop_tracing(environ: MutableMapping[str, str]) -> None:
    """Rows stay here: a `.env` or shell that has another program traced has not asked for ours to be.

    For the command line alone. In Python the process is the user's, and so is its tracing.
    """
    for name in _TRACING:
        environ.pop(name, None)


def _line(binding: Binding) -> int:
    """The parser counts from the empty lines before it."""
    text = binding.original.string
    return binding.original.line + text[: len(text) - len(text.lstrip())].count("\n")


def _text(path: Path) -> str:
    """Raises ConfigError. UTF-16 without its mark passes for UTF-8, with a zero in every second place."""
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: not UTF-8 text. Save it as UTF-8.") from error
    if "\0" in text:
        raise ConfigError(f"{path}: not UTF-8 text, it holds zeros. Save it as UTF-8.")
    return text
