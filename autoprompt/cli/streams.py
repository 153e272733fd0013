"""stdout and stderr of a command: what they cannot take changes neither its work nor its files."""

from __future__ import annotations

import codecs
import functools
import io
from collections.abc import MutableMapping

NARROWEST = 40  # columns under which nothing can be read; COLUMNS=0 made every table empty

_escaped: dict[str, int] = {}  # encoding -> characters that it has no form for, written as escapes


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

    A character that the encoding lacks is written as an escape, and counted: see `escaped`.
    """
    stream.flush()
    raw = _Pipe(stream.fileno(), "wb", closefd=False)
    # As Python makes its own: with `python -u` there is no buffer.
    is_unbuffered = isinstance(stream.buffer, io.RawIOBase)
    handler = f"autoprompt-escaped-{stream.encoding}"
    codecs.register_error(handler, functools.partial(_escape, stream.encoding))
    made = io.TextIOWrapper(
        raw if is_unbuffered else io.BufferedWriter(raw),
        encoding=stream.encoding,
        errors=handler,
        line_buffering=stream.line_buffering,
        write_through=stream.write_through,
    )
    return made, raw


def escaped() -> dict[str, int]:
    """How many characters were written as escapes, by encoding, since the program started."""
    return dict(_escaped)


def _escape(encoding: str, error: UnicodeError) -> tuple[str | bytes, int]:
    """encoding: the stream's; the error of cp1252 and its like names `charmap`."""
    if isinstance(error, UnicodeEncodeError):
        _escaped[encoding] = _escaped.get(encoding, 0) + error.end - error.start
    return codecs.backslashreplace_errors(error)


def check_width(environ: MutableMapping[str, str]) -> None:
    """Forget a COLUMNS that no table fits into, so that the width of the terminal counts."""
    columns = environ.get("COLUMNS", "")
    if columns and not (columns.isascii() and columns.isdigit() and int(columns[:9]) >= NARROWEST):
        del environ["COLUMNS"]
