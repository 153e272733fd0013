"""From a file to records: finding the file, seeing what it is, and going through it in bounded memory.

The format is found by content, with the ending as a hint, since files are often misnamed. All text is UTF-8.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO

from autoprompt.dataset.faults import Faults, file_place
from autoprompt.dataset.json_rows import read_json_list, read_jsonl
from autoprompt.dataset.lines import HEAD_BYTES, UTF8_BOM
from autoprompt.dataset.packed import packed_problem
from autoprompt.dataset.parquet import read_parquet, too_large
from autoprompt.dataset.table import read_table
from autoprompt.errors import DatasetError, Problem

MAX_BYTES = 10**9
Record = tuple[int, dict[str, Any]]


def read_records(
    path: Path, faults: Faults, wanted: Mapping[str, str], *, max_bytes: int = MAX_BYTES
) -> Iterator[Record]:
    """Yield each record with its 1-based first line (Parquet: its row). Adds to `faults` what can be skipped.

    wanted: As `fields` in `require_fields`; the names help to tell the delimiter of a table.
    max_bytes: of all rows, unpacked.
    Raises DatasetError at once if nothing further can be read. Memory: one row, not the file.
    """
    try:
        with path.open("rb") as file:
            head = file.read(HEAD_BYTES)
            if head.startswith(b"PAR1"):
                yield from read_parquet(path, faults, max_bytes)
                return
            if os.fstat(file.fileno()).st_size > max_bytes:
                raise DatasetError(too_large(path, max_bytes))
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
    if head.startswith((b"\xff\xfe", b"\xfe\xff")) or _has_zeros_like_utf16(head):
        fix = "Convert it: iconv -f UTF-16 -t UTF-8 OLD > NEW."
        faults.fail(1, Problem("dataset.not-utf8", "the file is UTF-16, expected UTF-8", fix=fix))
    if b"\0" in head:
        line = head[: head.index(b"\0")].count(b"\n") + 1
        said, fix = "binary data (a NUL byte), expected text", "Give a JSONL, JSON, CSV, TSV or Parquet file."
        faults.fail(line, Problem("dataset.not-text", said, fix=fix))
    if b"\r" in head and b"\n" not in head:
        said, fix = "lines end in a lone CR, expected LF or CRLF", "Save the file with LF line ends."
        faults.fail(1, Problem("dataset.line-ends", said, fix=fix))


def _has_zeros_like_utf16(head: bytes) -> bool:
    """UTF-16 without its mark: zeros stand at every second byte only, and even Chinese JSON has many."""
    even, odd = head[0::2].count(0), head[1::2].count(0)
    half = len(head) // 2
    return half >= 2 and max(even, odd) > 0.1 * half and min(even, odd) == 0
