"""Files that hold no text but are handed over as datasets: what each is, and how to make rows of it."""

from __future__ import annotations

from typing import BinaryIO
from zipfile import BadZipFile, ZipFile

from autoprompt.errors import Problem

_AS_CSV = "Save the sheet with the rows as CSV (UTF-8) and give that file."
_INTO_CSV = "Put the rows into a table and save it as CSV (UTF-8)."
_UNPACK = "Unpack it first."

# Only what people are likely to hand over by mistake; anything else is caught by its NUL or non-UTF-8 bytes.
_MAGIC = {
    b"\x1f\x8b": ("gzip data", _UNPACK),
    b"BZh": ("bzip2 data", _UNPACK),
    b"\xfd7zXZ\x00": ("xz data", _UNPACK),
    b"\x28\xb5\x2f\xfd": ("zstd data", _UNPACK),
    b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1": ("an old Office file (.xls, .doc)", _AS_CSV),
}
_ZIP = b"PK\x03\x04"
# The member that tells what a zip file is: of Office, and the line in OpenDocument's file `mimetype`.
_OFFICE = {
    "xl/workbook.xml": ("an Excel workbook", _AS_CSV),
    "xl/workbook.bin": ("an Excel workbook", _AS_CSV),
    "word/document.xml": ("a Word document", _INTO_CSV),
}
_OPEN_DOCUMENT = {
    b"mimetypeapplication/vnd.oasis.opendocument.spreadsheet": ("an OpenDocument spreadsheet", _AS_CSV),
    b"mimetypeapplication/vnd.oasis.opendocument.text": ("an OpenDocument text", _INTO_CSV),
}


def packed_problem(file: BinaryIO, head: bytes) -> Problem | None:
    """Return what is wrong with a file that is packed; None for one that may be text. Moves in the file."""
    if head.startswith(_ZIP):
        found = _zip_kind(file, head)
    else:
        found = next((kind for magic, kind in _MAGIC.items() if head.startswith(magic)), ("", ""))
    kind, fix = found
    return Problem("dataset.not-text", f"this is {kind}, expected plain text", fix=fix) if kind else None


def _zip_kind(file: BinaryIO, head: bytes) -> tuple[str, str]:
    for line, kind in _OPEN_DOCUMENT.items():
        if line in head[:200]:  # it must come first and unpacked (OpenDocument 1.3, part 2, 3.3)
            return kind
    try:
        with ZipFile(file) as archive:
            names = set(archive.namelist())
    except (BadZipFile, NotImplementedError, ValueError):  # cut off, or of a kind that zipfile does not know
        names = set()
    return next((kind for name, kind in _OFFICE.items() if name in names), ("zip data", _UNPACK))
