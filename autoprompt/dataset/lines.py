"""Lines of a text file as bytes, each of bounded size, and their decoding."""

from __future__ import annotations

from collections.abc import Iterator
from typing import BinaryIO

from autoprompt.dataset.faults import Faults

MAX_ROW_BYTES = 1 << 20
HEAD_BYTES = 1 << 16
UTF8_BOM = b"\xef\xbb\xbf"

TOO_LONG = "a row over 1 MiB, expected at most 1,048,576 bytes. Shorten it or take it out."


def bounded_lines(file: BinaryIO, faults: Faults) -> Iterator[tuple[int, bytes]]:
    """Number (1-based) and bytes of each line. One over 1 MiB is a fault and is passed over, not held."""
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
    """The line as text; None, with a fault, where it is not UTF-8 or holds a NUL byte."""
    if b"\0" in raw:
        faults.add(number, f"a NUL byte at byte {raw.index(0) + 1}, expected text. Take it out.")
        return None
    try:
        return raw.decode()
    except UnicodeDecodeError as error:
        faults.add(number, not_utf8(raw[error.start], error.start + 1), kind="not UTF-8")
        return None


def not_utf8(byte: int, position: int) -> str:
    convert = (
        "Convert the file: iconv -f ENCODING -t UTF-8 OLD > NEW (e.g. WINDOWS-1252, SHIFT_JIS or GB18030), "
        "or save it in the spreadsheet as CSV UTF-8."
    )
    return f"byte 0x{byte:02x} at byte {position} is not UTF-8 text. {convert}"
