"""Lines of a text file as bytes, each of bounded size, and their decoding."""

from __future__ import annotations

from collections.abc import Iterator
from typing import BinaryIO

from autoprompt.dataset.faults import Faults
from autoprompt.errors import Problem

MAX_ROW_BYTES = 1 << 20
HEAD_BYTES = 1 << 16
UTF8_BOM = b"\xef\xbb\xbf"

TOO_LONG = Problem(
    "dataset.row-too-long",
    "the row is longer than 1 MiB (1,048,576 bytes)",
    fix="Shorten it, or take it out.",
)


def bounded_lines(file: BinaryIO, faults: Faults) -> Iterator[tuple[int, bytes]]:
    """Yield number (1-based) and bytes of each line. One over 1 MiB is a fault and is skipped, not held."""
    number = 0
    while raw := file.readline(MAX_ROW_BYTES + 2):
        number += 1
        if len(raw.rstrip(b"\r\n")) > MAX_ROW_BYTES:
            while not raw.endswith(b"\n"):
                raw = file.readline(HEAD_BYTES)
                if not raw:
                    break
            faults.add(number, TOO_LONG)
            continue
        yield number, raw


def decode(raw: bytes, number: int, faults: Faults) -> str | None:
    """Return the line as text; None, with a fault, if it is not UTF-8 or holds a NUL byte."""
    if b"\0" in raw:
        said = f"byte {raw.index(0) + 1} is a NUL byte, expected text"
        faults.add(number, Problem("dataset.nul", said, fix="Take it out."))
        return None
    try:
        return raw.decode()
    except UnicodeDecodeError as error:
        faults.add(number, not_utf8(raw[error.start], error.start + 1), kind="not UTF-8")
        return None


def not_utf8(byte: int, position: int) -> Problem:
    """Return the problem of a byte (1-based position in its line) that is no UTF-8."""
    fix = (
        "Convert the file: iconv -f ENCODING -t UTF-8 OLD > NEW (e.g. WINDOWS-1252, SHIFT_JIS or GB18030). "
        "Or save it in the spreadsheet as CSV UTF-8."
    )
    return Problem("dataset.not-utf8", f"byte 0x{byte:02x} at byte {position} is not UTF-8 text", fix=fix)
