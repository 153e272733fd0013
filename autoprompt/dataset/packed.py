"""Files that hold no text but are handed over as datasets: what each is, and how to make rows of it."""

from __future__ import annotations

from typing import BinaryIO
from zipfile import BadZipFile, ZipFile

_AS_CSV = "expected plain text. Save the sheet with the rows as CSV (UTF-8) and give that file."
_INTO_CSV = "expected plain text. Put the rows into a table and save it as CSV (UTF-8)."
_UNPACK = "expected plain text; packed files are not read. Unpack it first."

# Only what people are likely to hand over by mistake; anything else is caught by its NUL or non-UTF-8 bytes.
_MAGIC = {
    b"\x1f\x8b": f"gzip data, {_UNPACK}",
    b"BZh": f"bzip2 data, {_UNPACK}",
    b"\xfd7zXZ\x00": f"xz data, {_UNPACK}",
    b"\x28\xb5\x2f\xfd": f"zstd data, {_UNPACK}",
    b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1": f"an old Office file (.xls, .doc), {_AS_CSV}",
}
_ZIP = b"PK\x03\x04"
# The member that tells what a zip file is: of Office, and the line in OpenDocument's file `mimetype`.
_OFFICE = {
    "xl/workbook.xml": f"an Excel workbook, {_AS_CSV}",
    "xl/workbook.bin": f"an Excel workbook, {_AS_CSV}",
    "word/document.xml": f"a Word document, {_INTO_CSV}",
}
_OPEN_DOCUMENT = {
    b"mimetypeapplication/vnd.oasis.opendocument.spreadsheet": f"an OpenDocument spreadsheet, {_AS_CSV}",
    b"mimetypeapplication/vnd.oasis.opendocument.text": f"an OpenDocument text, {_INTO_CSV}",
}


def packed_fault(file: BinaryIO, head: bytes) -> str | None:
    """What a file is that is packed, and what to do; None for one that may be text. Moves in the file."""
    if head.startswith(_ZIP):
        return _zip_fault(file, head)
    return next((fault for magic, fault in _MAGIC.items() if head.startswith(magic)), None)


def _zip_fault(file: BinaryIO, head: bytes) -> str:
    for (
        line,
        fault,
    ) in _OPEN_DOCUMENT.items():  # it must come first and unpacked (OpenDocument 1.3, part 2, 3.3)
        if line in head[:200]:
            return fault
    try:
        with ZipFile(file) as archive:
            names = set(archive.namelist())
    except (BadZipFile, NotImplementedError, ValueError):  # cut off, or of a kind that zipfile does not know
        names = set()
    return next((fault for name, fault in _OFFICE.items() if name in names), f"zip data, {_UNPACK}")
