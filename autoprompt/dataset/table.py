"""CSV, TSV and their kin: the delimiter found by content, line numbers right across quoted line ends."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, BinaryIO

from autoprompt.dataset.faults import Faults, require_fields
from autoprompt.dataset.lines import HEAD_BYTES, MAX_ROW_BYTES, TOO_LONG, bounded_lines, decode
from autoprompt.errors import Problem
from autoprompt.text.names import counted, named

DELIMITERS = (",", ";", "\t", "|")
_PROBED_ROWS = 200
# The line by which spreadsheets and their exporters name the delimiter; it stands above the header.
_SEP_LINE = re.compile(rb'"?sep=([,;\t|])"?\r?\n', re.IGNORECASE)


def read_table(
    file: BinaryIO, head: bytes, faults: Faults, wanted: Mapping[str, str]
) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield records of a delimited table whose first row names the columns.

    head: The first bytes of the file, for the delimiter. wanted: As `fields` in `require_fields`.
    A row with more or fewer fields than the header is a fault. Blank lines are skipped, and so are rows of
    empty cells, as spreadsheets write them under a table.
    """
    # The limit is the process's, 128 KiB by default, and is only ever widened here.
    csv.field_size_limit(max(csv.field_size_limit(), MAX_ROW_BYTES))
    named_by_file = _SEP_LINE.match(head)
    delimiter = named_by_file[1].decode() if named_by_file else find_delimiter(head, wanted.values())
    rows = _rows(file, delimiter, faults)
    if named_by_file:
        next(rows)
    first = next(rows, None)
    if first is None:
        return
    line, names = first
    header = [name.strip() for name in names]
    doubles = sorted({name for name in header if name and header.count(name) > 1})
    if doubles:
        said = f"the header has the column {named(doubles)} twice"
        faults.fail(line, Problem("dataset.duplicate-column", said, fix="Rename one of them."))
    require_fields(header, line, wanted, faults)
    for line, cells in rows:
        if len(cells) == len(header):
            yield line, dict(zip(header, cells, strict=True))
        else:
            faults.add(line, _uneven(cells, header))


def find_delimiter(head: bytes, wanted: Collection[str] = ()) -> str:
    """The one of `, ; tab |` that best explains the first rows.

    First counts how many wanted columns the header then has, then how many rows have as many fields as the
    header, then the number of columns; `csv.Sniffer` is misled by punctuation in prose.
    """
    text = head.decode(errors="replace")
    if len(head) >= HEAD_BYTES and "\n" in text:
        text = text[: text.rindex("\n") + 1]

    def fit(delimiter: str) -> tuple[int, float, int]:
        try:
            probe = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter)
            rows = [row for row, _ in zip(probe, range(_PROBED_ROWS), strict=False) if row]
        except csv.Error:
            return (0, 0.0, 0)
        if not rows or len(rows[0]) < 2:
            return (0, 0.0, 0)
        header = {name.strip() for name in rows[0]}
        even = sum(len(row) == len(rows[0]) for row in rows) / len(rows)
        return (sum(name in header for name in wanted), even, len(rows[0]))

    return max(DELIMITERS, key=fit)


class _Feed:
    """Hands lines to `csv.reader` and knows where the present row began and how long it has become."""

    def __init__(self, file: BinaryIO, faults: Faults) -> None:
        self.row_line = 1
        self.is_broken = False
        self._faults = faults
        self._lines = bounded_lines(file, faults)
        self._row_bytes = 0

    def begin_row(self) -> None:
        self._row_bytes = 0
        self.is_broken = False

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        number, raw = next(self._lines)
        if not self._row_bytes:
            self.row_line = number
        self._row_bytes += len(raw)
        if self._row_bytes > MAX_ROW_BYTES + 2:
            fix = "Close the quote that opens here, if one does. Otherwise shorten the row."
            self._faults.fail(self.row_line, replace(TOO_LONG, fix=fix))
        text = decode(raw, number, self._faults)
        if text is None:
            self.is_broken = True
            return raw.replace(b"\0", b"").decode(errors="replace")
        return text


def _rows(file: BinaryIO, delimiter: str, faults: Faults) -> Iterator[tuple[int, list[str]]]:
    feed = _Feed(file, faults)
    reader = csv.reader(feed, delimiter=delimiter, strict=True)
    while True:
        feed.begin_row()
        try:
            cells = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            faults.add(feed.row_line, _broken_quotes(error, delimiter))
            continue
        has_text = any(cell.strip() for cell in cells)
        if has_text and not feed.is_broken:
            yield feed.row_line, cells


def _broken_quotes(error: csv.Error, delimiter: str) -> Problem:
    reason = str(error)
    if "unexpected end" in reason:
        said = "a quote that opens in this row is never closed"
        return Problem("dataset.open-quote", said, fix='Close it, or write a literal " as "".')
    if "new-line character" in reason:
        said = "a lone CR inside a field without quotes"
        return Problem("dataset.line-ends", said, fix="Put the field in quotes, or take the CR out.")
    said = f"text after a closing quote, expected {delimiter!r}"
    return Problem("dataset.after-quote", said, fix='Write a literal " inside quotes as "".')


def _uneven(cells: Sequence[str], header: Sequence[str]) -> Problem:
    said = f"{counted(len(cells), 'field')}, but the header has {len(header)}"
    if len(cells) < len(header):
        fix = f"Fill in {named(list(header[len(cells) :]))}."
    else:
        fix = "Put a field that holds the delimiter in quotes."
    return Problem("dataset.uneven-row", said, fix=fix)
