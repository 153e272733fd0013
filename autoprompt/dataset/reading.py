"""Records of any file of rows, read in bounded memory.

The format is found by content, with the ending as a hint, since files are often misnamed. All text is UTF-8.
Parquet says in a few kilobytes what unpacks to gigabytes, so it is measured before anything is kept.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO
from zipfile import BadZipFile, ZipFile

from autoprompt.dataset.faults import Faults, file_place
from autoprompt.dataset.text_formats import (
    HEAD_BYTES,
    MAX_ROW_BYTES,
    TOO_LONG,
    UTF8_BOM,
    read_json_list,
    read_jsonl,
    read_table,
)
from autoprompt.errors import DatasetError, Problem
from autoprompt.text.files import BINARY, UTF16, UTF16_FIX, binary_line, is_utf16
from autoprompt.text.machine import install_extra

MAX_BYTES = 10**9
_NO_ROWS = {".py", ".pyi", ".ipynb", ".js", ".ts", ".sh", ".yaml", ".yml", ".toml", ".html"}
_KINDS = "Give a JSONL, JSON, CSV, TSV or Parquet file."
Record = tuple[int, dict[str, Any]]


def read_records(
    path: Path, faults: Faults, wanted: Mapping[str, str], *, max_bytes: int = MAX_BYTES
) -> Iterator[Record]:
    """Yield each record with its 1-based line (Parquet: its row).

    Args:
        path: The file.
        faults: Of the file; what can be skipped is added to them.
        wanted: As `fields` in `require_fields`; the names help to tell the delimiter of a table.
        max_bytes: Limit of all rows, unpacked.

    Raises:
        DatasetError: As soon as nothing further can be read.

    Memory: one row, not the file; of Parquet what the file says it unpacks to, never more than `max_bytes`.
    """
    try:
        with path.open("rb") as file:
            head = file.read(HEAD_BYTES)
            if head.startswith(b"PAR1"):
                yield from read_parquet(path, faults, max_bytes)
                return
            if os.fstat(file.fileno()).st_size > max_bytes:
                raise DatasetError(too_large(path, max_bytes))
            if path.suffix.lower() in _NO_ROWS:  # it would pass for a table of one column
                said = f"a {path.suffix} file holds no rows"
                faults.fail(1, Problem("dataset.other-kind", said, fix=_KINDS))
            if packed := packed_problem(file, head):
                faults.fail(1, packed)
            _refuse_what_is_no_text(head, faults)
            file.seek(len(UTF8_BOM) if head.startswith(UTF8_BOM) else 0)
            yield from _read_text(file, head.removeprefix(UTF8_BOM), path.suffix.lower(), faults, wanted)
    except OSError as error:
        said = f"cannot be read: {error.strerror}"
        problem = Problem("dataset.unreadable", said, file_place(path), "Check the permissions of the file.")
        raise DatasetError(problem) from error


def first_fields(path: Path) -> list[str]:
    """Return the fields of the first row, in its order; none if the file cannot be read or is empty."""
    try:
        for _, record in read_records(path, Faults(path), {}):
            return [str(name) for name in record]
    except DatasetError:
        pass  # raised again when the rows are read; here something else is missing
    return []


def _read_text(
    file: BinaryIO, head: bytes, suffix: str, faults: Faults, wanted: Mapping[str, str]
) -> Iterator[Record]:
    start = head.lstrip()
    is_table_by_name = suffix in {".csv", ".tsv", ".tab", ".psv"}
    if not is_table_by_name and start.startswith(b"["):
        # A list in a file called .jsonl is still a list of rows, unless its elements are no objects.
        if suffix not in {".jsonl", ".ndjson"} or start[1:].lstrip().startswith(b"{"):
            return read_json_list(file, faults)
        return read_jsonl(file, faults)
    if not is_table_by_name and (start.startswith(b"{") or suffix in {".json", ".jsonl", ".ndjson"}):
        return read_jsonl(file, faults, head, [*wanted.values()])
    return read_table(file, head, faults, wanted)


def _refuse_what_is_no_text(head: bytes, faults: Faults) -> None:
    if not head.removeprefix(UTF8_BOM).strip():
        faults.fail(1, Problem("dataset.empty", "the file is empty", fix="Fill it, or give another file."))
    if is_utf16(head):
        faults.fail(1, Problem("dataset.not-utf8", UTF16, fix=UTF16_FIX))
    if (line := binary_line(head)) is not None:
        faults.fail(line, Problem("dataset.not-text", BINARY, fix=_KINDS))
    if b"\r" in head and b"\n" not in head:
        said, fix = "lines end in a lone CR, expected LF or CRLF", "Save the file with LF line ends."
        faults.fail(1, Problem("dataset.line-ends", said, fix=fix))


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
    """Return what is wrong with a file that is no text; None if it may be text. Moves in the file."""
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


# Of a row beside its texts: dict and keys. 30 million empty rows took 6 GB.
_ROW_BYTES = 200
_VALUE_BYTES = 64
# Rows that are unpacked at once. A list can repeat a long text in each row, so there are fewer of those.
_BATCH, _NESTED_BATCH = 1000, 20


def read_parquet(path: Path, faults: Faults, max_bytes: int) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield each row with its 1-based number.

    Memory: what the file itself says it unpacks to, never more than `max_bytes`, and a batch of rows.

    Raises:
        DatasetError: For a broken file, and for one that unpacks to more than `max_bytes`.
    """
    try:
        from pyarrow import ArrowException  # here, since it is an extra and slow to import
    except ImportError as error:
        said = "reading Parquet needs a library that is not installed"
        fix = f"Install it: {install_extra('parquet')}. Or save the rows as JSONL."
        raise DatasetError(Problem("dataset.no-parquet", said, file_place(path), fix)) from error
    faults.unit = "row"
    number = 0
    try:
        _refuse_a_bomb(path, faults, max_bytes)
        for batch in _batches(path):
            for row in range(batch.num_rows):
                number += 1
                values = zip(batch.schema.names, batch.columns, strict=True)
                yield number, {name: _json_value(column[row].as_py()) for name, column in values}
    except (ArrowException, ValueError) as error:
        said = f"broken Parquet: {str(error).splitlines()[0]}"
        faults.fail(number + 1, Problem("dataset.broken-parquet", said, fix="Write the file again."))


def too_large(path: Path, max_bytes: int) -> Problem:
    """Return the problem of a file with more than `max_bytes` of rows."""
    megabytes = max_bytes // 10**6
    said = f"the rows unpack to more than {megabytes:,} MB"
    fix = "Take a sample of the rows, or raise the limit with {max_dataset_mb}."
    return Problem("dataset.too-large", said, file_place(path), fix, {"max_dataset_mb": "<MB>"})


def _refuse_a_bomb(path: Path, faults: Faults, max_bytes: int) -> None:
    """Measure the file, first by what it says of itself, then by its rows, of which none is kept."""
    from pyarrow.parquet import ParquetFile

    with ParquetFile(path) as parquet:
        facts = parquet.metadata
        size, number = facts.num_rows * _ROW_BYTES, 0
        for group in range(facts.num_row_groups):
            for index in range(facts.num_columns):
                column = facts.row_group(group).column(index)
                size += column.total_uncompressed_size
                is_text = parquet.schema.column(index).logical_type.type in ("STRING", "JSON")
                if is_text and column.total_uncompressed_size > MAX_ROW_BYTES * (column.num_values + 1):
                    faults.fail(number + 1, TOO_LONG)
                if parquet.schema.column(index).max_repetition_level:
                    size += column.num_values * _VALUE_BYTES
            number += facts.row_group(group).num_rows
    if size > max_bytes:
        raise DatasetError(too_large(path, max_bytes))
    size = 0
    for batch in _batches(path):
        size += batch.num_rows * _ROW_BYTES + sum(map(_size, batch.columns))
        if size > max_bytes:
            raise DatasetError(too_large(path, max_bytes))


def _batches(path: Path) -> Iterator[Any]:
    """Yield batches of rows in which a text that many rows share is held once."""
    from pyarrow.parquet import ParquetFile

    with ParquetFile(path) as parquet:
        columns = [parquet.schema.column(index) for index in range(len(parquet.schema))]
        is_nested = any(column.max_repetition_level for column in columns)
    shared = [
        column.path
        for column in columns
        if column.physical_type == "BYTE_ARRAY"
        and "." not in column.path
        and column.logical_type.type in ("STRING", "NONE", "JSON")
    ]
    with ParquetFile(path, read_dictionary=shared) as parquet:
        yield from parquet.iter_batches(batch_size=_NESTED_BATCH if is_nested else _BATCH)


def _size(column: Any) -> int:
    """Return the bytes that the values of a column take once each row has its own."""
    from pyarrow import compute, types

    if not types.is_dictionary(column.type):
        return int(column.nbytes)
    lengths = compute.binary_length(column.dictionary)
    return int(compute.sum(lengths.take(column.indices)).as_py() or 0)


def _json_value(value: Any) -> Any:
    """Return a value of Parquet as JSON has it: dates, decimals and the like as text, NaN as null.

    Bytes stay, to be left out or refused.
    """
    if isinstance(value, Mapping):
        return {str(name): _json_value(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [_json_value(part) for part in value]
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return None
    return value if isinstance(value, str | bool | int | float | bytes) else str(value)
