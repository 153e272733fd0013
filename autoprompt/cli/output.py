"""What a command writes: results for people or programs, and streams that take what they can.

What stdout and stderr cannot take changes neither the work of a command nor its files.
"""

from __future__ import annotations

import codecs
import functools
import io
import json
import os
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, MutableMapping
from contextlib import contextmanager, redirect_stdout
from contextvars import ContextVar
from pathlib import Path
from typing import Any, TextIO

import typer

from autoprompt.errors import Place, Problem, UsageError, Voice, tell

NARROWEST = 40  # columns under which nothing can be read; COLUMNS=0 made every table empty

# Where results for programs go while stdout is kept for them; None: stdout.
_RESULTS: ContextVar[TextIO | None] = ContextVar("results", default=None)
_escaped: dict[str, int] = {}  # encoding -> characters that it has no form for, written as escapes
# What we write ourselves -> its form where an encoding lacks it. All else, as in texts of users, is escaped.
_PLAIN = dict(
    zip(
        "–—−·•…→×±≥≤≠“”‘’─│",
        ["-", "-", "-", "-", "*", "...", "->", "x", "+/-", ">=", "<=", "!=", '"', '"', "'", "'", "-", "|"],
        strict=True,
    )
)


class _Pipe(io.FileIO):
    """A file that takes what cannot be written any more, and drops it.

    A reader may have left, `autoprompt check | head -1`: that is no fault. Any other one, such as a full
    disk, is kept for the end: a run that is paid for does not end because nobody can read its progress.
    """

    fault: OSError | None = None

    def write(self, data: object, /) -> int:
        size = memoryview(data).nbytes  # type: ignore[arg-type]  # whatever FileIO takes
        if self.fault is not None:
            return size
        try:
            done = super().write(data)  # type: ignore[arg-type]
        except BrokenPipeError:
            return size
        except OSError as error:
            self.fault = error
            return size
        return size if done is None else done


def lenient(stream: io.TextIOWrapper) -> tuple[io.TextIOWrapper, _Pipe]:
    """Return `stream` without errors, and what is under it, which knows the fault of the disk.

    A character that the encoding lacks is written in ASCII if it is one of ours, as a dash is; else as an
    escape, and counted: see `escaped`.
    """
    stream.flush()
    raw = _Pipe(stream.fileno(), "wb", closefd=False)
    # As Python makes its own: with `python -u` there is no buffer.
    is_unbuffered = isinstance(stream.buffer, io.RawIOBase)
    handler = f"autoprompt-plain-{stream.encoding}"
    codecs.register_error(handler, functools.partial(_without_lacking, stream.encoding))
    made = io.TextIOWrapper(
        raw if is_unbuffered else io.BufferedWriter(raw),
        encoding=stream.encoding,
        errors=handler,
        line_buffering=stream.line_buffering,
        write_through=stream.write_through,
    )
    return made, raw


def open_closed_streams() -> None:
    """Open the null device for each standard stream that a daemon or `>&-` has closed.

    Python has None there. In this order each gets its own number, so no later file takes the place of stdout.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            opened = Path(os.devnull).open(mode, encoding="utf-8")  # noqa: SIM115 - stays open to the end
            setattr(sys, name, opened)
            setattr(sys, f"__{name}__", opened)  # keeps it open when `lenient` replaces the stream


def escaped() -> dict[str, int]:
    """Return how many characters were written as escapes, by encoding, since the program started."""
    return dict(_escaped)


def _without_lacking(encoding: str, error: UnicodeError) -> tuple[str, int]:
    """Write what a stream lacks. encoding: the stream's; the error of cp1252 names it `charmap`."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    lacking = error.object[error.start : error.end]
    return "".join(_PLAIN.get(c) or _escape(c, encoding) for c in lacking), error.end


def _escape(character: str, encoding: str) -> str:
    """Return the escape of a character, and count it."""
    _escaped[encoding] = _escaped.get(encoding, 0) + 1
    return character.encode("ascii", "backslashreplace").decode()


def check_width(environ: MutableMapping[str, str]) -> None:
    """Forget a COLUMNS that no table fits into, so that the width of the terminal counts."""
    columns = environ.get("COLUMNS")
    if columns is not None and not (
        columns.isascii() and columns.isdigit() and int(columns[:9]) >= NARROWEST
    ):
        del environ["COLUMNS"]


def clean(text: str) -> str:
    """Return `text` without what would steer a terminal: control characters, and marks that turn text around.

    Half a surrogate pair, which no terminal has a form for, is a question mark.
    """
    from autoprompt.text.display import without_steering

    return without_steering(text.encode(errors="replace").decode().replace("\t", "    "))


@contextmanager
def results_alone(*, is_on: bool) -> Iterator[None]:
    """Send what code of users prints (metrics, tools, clients) to stderr, so that stdout can be parsed."""
    if not is_on:
        yield
        return
    token = _RESULTS.set(sys.stdout)
    try:
        with redirect_stdout(sys.stderr):
            yield
    finally:
        _RESULTS.reset(token)


def below_here(place: str) -> str:
    """Return `file:line` as it is below the working directory."""
    return place.removeprefix(f"{Path.cwd()}{os.sep}")


def unknown_ending(path: Path, known: Iterable[str], *, flag: str = "output") -> UsageError:
    """Return the error for a file to write whose ending names no format."""
    place = Place(path, setting=flag, source="flag")
    rest = ", or add --format FORMAT" if flag == "to" else ""
    fix = f"Use one of {', '.join(known)}{rest}."
    return UsageError(Problem("usage.file-type", "unknown file type", place, fix))


def warning_text(problem: Problem) -> str:
    """Return a warning as people see it.

    Files of the working folder are named from there, as they were given: a resumed run knows their whole
    paths only.
    """
    message, here = tell(problem, Voice.CLI), Path.cwd()
    if here != Path(here.anchor):
        message = re.sub(rf"(?<![\w./-]){re.escape(str(here / '_')[:-1])}", "", message)
    return f"warning: {message}"


def print_text(text: str) -> None:
    """Print a text of the user's on stdout as it is. What its encoding lacks is an escape, and counted."""
    encoding = sys.stdout.encoding or "utf-8"
    try:
        text.encode(encoding)
    except UnicodeEncodeError as error:
        fits = set(text.encode(encoding, "ignore").decode(encoding))
        text = "".join(c if c in fits else _escape(c, encoding) for c in error.object)
    typer.echo(text, nl=False)


def print_line(text: str) -> None:
    """Print a result for a program, which is JSON, on stdout. What its encoding lacks is escaped."""
    stream = _RESULTS.get() or sys.stdout
    try:
        text.encode(stream.encoding or "utf-8")
    except UnicodeEncodeError:
        text = "".join(c if c.isascii() else json.dumps(c)[1:-1] for c in text)
    typer.echo(text, file=stream)


def print_json(data: dict[str, Any], *, lines: str = "") -> None:
    """Print a result for a program. Its warnings name flags, as everything at the command line does.

    lines: a list whose items have one line each.
    """
    from autoprompt.text.files import to_json_lines  # not for `--help`

    if warnings := data.get("warnings"):
        data = {**data, "warnings": [_in_words_of_flags(warning) for warning in warnings]}
    print_line(to_json_lines(data, lines, takes_all=True) if lines else json_text(data, indent=2))


def _in_words_of_flags(warning: Any) -> Any:
    if not isinstance(warning, Mapping):
        return warning
    return Problem.from_dict(warning).to_dict(Voice.CLI)


def json_text(data: Any, *, indent: int | None = None) -> str:
    """Return JSON that every reader takes: NaN and infinity are texts in it."""
    from autoprompt.text.files import to_json  # not for `--help`

    return to_json(data, indent=indent, takes_all=True)
