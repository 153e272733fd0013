"""Records of text files: JSONL (an object a line), JSON (one list of objects), CSV, TSV and their kin.

Every record has its line, also behind quoted line ends. Rows are of bounded size, so that a broken file does
not fill the memory.
"""

from __future__ import annotations

import codecs
import csv
import io
import json
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, BinaryIO, NoReturn

from autoprompt.dataset.faults import Faults, require_fields
from autoprompt.errors import Problem
from autoprompt.text.names import counted, named

MAX_ROW_BYTES = 1 << 20
HEAD_BYTES = 1 << 16
UTF8_BOM = b"\xef\xbb\xbf"

DELIMITERS = (",", ";", "\t", "|")
_PROBED_ROWS = 200
# The line by which spreadsheets and their exporters name the delimiter; it stands above the header.
_SEP_LINE = re.compile(rb'"?sep=([,;\t|])"?\r?\n', re.IGNORECASE)
_EXAMPLE = '{"input": "...", "target": "..."}'
_SPACE = re.compile(r"[ \t\r\n]*")
TOO_LONG = Problem(
    "dataset.row-too-long",
    "the row is longer than 1 MiB (1,048,576 bytes)",
    fix="Shorten it, or take it out.",
)


def bounded_lines(file: BinaryIO, faults: Faults) -> Iterator[tuple[int, bytes]]:
    """Yield the number (from 1) and the bytes of each line. A line over 1 MiB is a fault, and is skipped."""
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
    """Return the line as text; None, and a fault, if it is not UTF-8 or holds a NUL byte."""
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


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a JSON value")


class _DuplicateKeyError(ValueError):
    """A key that is twice in one object: JSON's readers silently take the last."""


def _each_key_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        raise _DuplicateKeyError(next(name for name in names if names.count(name) > 1))
    return found


_DECODER = json.JSONDecoder(parse_constant=_refuse_constant, object_pairs_hook=_each_key_once)
# The beginning of an object that holds a list of objects behind no more than plain values.
_PLAIN = r'(?:"(?:[^"\\]|\\.)*"|[\w.+-]+)'
_HOLDS_ROWS = re.compile(rf'\s*\{{\s*(?:"[^"\\]*"\s*:\s*{_PLAIN}\s*,\s*)*"([^"\\]+)"\s*:\s*\[\s*\{{')


def read_jsonl(
    file: BinaryIO, faults: Faults, head: bytes = b"", needed: Collection[str] = ()
) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the records of a JSONL file with their lines; skip blank ones. A broken line is a fault.

    Args:
        file: At its beginning.
        faults: Of the file.
        head: The first bytes of the file.
        needed: Fields of every row. A first object that has none of them but a list of objects under one name
            is not a row: it holds all rows.
    """
    wrapped = _name_of_rows(head, needed)
    is_alone = b"\n" not in head.strip()
    if wrapped and is_alone and _is_too_long_at(file):
        faults.fail(1, _rows_inside(wrapped))
    for number, raw in bounded_lines(file, faults):
        if raw.isspace():
            continue
        text = decode(raw, number, faults)
        if text is None:
            continue
        try:
            # Without the line end, or an error there would be column 1 of a next line.
            value = _DECODER.decode(text.rstrip())
        except json.JSONDecodeError as error:
            if wrapped and not head[: head.find(raw)].strip():
                faults.fail(number, _rows_inside(wrapped))
            said = f"not JSON: {error.msg} at column {error.colno}"
            fix = f"Write each row as one whole object on a line: {_EXAMPLE}."
            faults.add(number, Problem("dataset.not-json", said, fix=fix))
        except (ValueError, RecursionError) as error:
            faults.add(number, _bad_value(error))
        else:
            if wrapped and is_alone and not any(name in value for name in needed):
                faults.fail(number, _rows_inside(wrapped))
            if isinstance(value, dict):
                yield number, value
            else:
                faults.add(number, _not_an_object(value))


def _name_of_rows(head: bytes, needed: Collection[str]) -> str:
    """Return the name under which an object seems to hold all rows; "" if it is a row itself."""
    match = _HOLDS_ROWS.match(head.decode(errors="replace"))
    if match is None or any(f'"{name}"' in match[0] for name in needed):
        return ""
    return match[1]


def _is_too_long_at(file: BinaryIO) -> bool:
    """Return whether the line at the position is longer than a row may be; the position stays."""
    start = file.tell()
    line = file.readline(MAX_ROW_BYTES + 1)
    file.seek(start)
    return len(line) > MAX_ROW_BYTES


def _rows_inside(name: str) -> Problem:
    said = f"one object with the rows under {name!r}, expected a list of rows"
    fix = f"Take that list out: jq '.[{json.dumps(name, ensure_ascii=False)}]' OLD > NEW."
    return Problem("dataset.rows-inside", said, fix=fix)


def read_json_list(file: BinaryIO, faults: Faults) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the records of one JSON list with their lines, decoded from a window as long as a row may be."""
    window = _Window(file, faults)
    window.skip_space()
    window.take("[")
    window.skip_space()
    if window.peek() == "]":
        window.take("]")
    else:
        yield from _elements(window, faults)
    window.skip_space()
    faults.row = 0
    if window.peek():
        said, fix = "text after the end of the list", "Put all rows into one list."
        faults.fail(window.line, Problem("dataset.after-list", said, fix=fix))


def _elements(window: _Window, faults: Faults) -> Iterator[tuple[int, dict[str, Any]]]:
    while True:
        window.skip_space()
        line, faults.row = window.line, faults.row + 1
        value, is_too_long = window.value()
        if is_too_long:
            faults.add(line, TOO_LONG)
        elif isinstance(value, dict):
            yield line, value
        else:
            faults.add(line, _not_an_object(value))
        window.skip_space()
        if window.peek() == "]":
            window.take("]")
            return
        window.take(",")


class _Window:
    """A part of a JSON text that moves through the file.

    `line` is the line of its position.
    """

    def __init__(self, file: BinaryIO, faults: Faults) -> None:
        self.line = 1
        self._file = file
        self._faults = faults
        self._decoder = codecs.getincrementaldecoder("utf-8")()
        self._lines_read = 1
        self._text = ""
        self._at = 0
        self._is_at_end = False

    def peek(self) -> str:
        self._fill()
        return self._text[self._at : self._at + 1]

    def take(self, expected: str) -> None:
        """Move over the expected character; fail if another one is there."""
        found = self.peek()
        if found != expected:
            said = f"not JSON: {repr(found) if found else 'the file ends here'}, expected {expected!r}"
            self._faults.fail(self.line, Problem("dataset.not-json", said, fix="Fix the list."))
        self._move(self._at + 1)

    def skip_space(self) -> None:
        while True:
            self._fill()
            match = _SPACE.match(self._text, self._at)
            self._move(match.end() if match else self._at)
            if self._at < len(self._text) or self._is_at_end:
                return

    def value(self) -> tuple[Any, bool]:
        """Return the element at the position, and whether it is larger than a row may be."""
        self._fill()
        try:
            value, end = _DECODER.raw_decode(self._text, self._at)
        except json.JSONDecodeError as error:
            is_cut = error.msg.startswith("Unterminated string") or error.pos >= len(self._text) - 8
            if is_cut and not self._is_at_end:
                self._faults.fail(self.line, TOO_LONG)
            line = self.line + self._text.count("\n", self._at, error.pos)
            fix = f"Write a list of objects like {_EXAMPLE}."
            self._faults.fail(line, Problem("dataset.not-json", f"not JSON: {error.msg}", fix=fix))
        except (ValueError, RecursionError) as error:
            self._faults.fail(self.line, _bad_value(error))
        size = end - self._at
        is_too_long = size > MAX_ROW_BYTES or (
            size > MAX_ROW_BYTES // 4 and len(self._text[self._at : end].encode()) > MAX_ROW_BYTES
        )
        self._move(end)
        return value, is_too_long

    def _move(self, to: int) -> None:
        self.line += self._text.count("\n", self._at, to)
        self._at = to

    def _fill(self) -> None:
        """Hold more than a whole row from the position on, or all that is left."""
        while not self._is_at_end and len(self._text) - self._at <= MAX_ROW_BYTES + 64:
            raw = self._file.read(MAX_ROW_BYTES)
            self._is_at_end = not raw
            try:
                text = self._decoder.decode(raw, final=not raw)
            except UnicodeDecodeError as error:
                line = self._lines_read + error.object.count(b"\n", 0, error.start)
                start_of_line = error.object.rfind(b"\n", 0, error.start) + 1
                self._faults.fail(line, not_utf8(error.object[error.start], error.start - start_of_line + 1))
            self._lines_read += raw.count(b"\n")
            self._text = self._text[self._at :] + text
            self._at = 0


def _not_an_object(value: object) -> Problem:
    kinds: dict[type, str] = {list: "a list", str: "a text", bool: "true or false", type(None): "null"}
    found = kinds.get(type(value), "a number")
    said = f"the row is {found}, expected an object like {_EXAMPLE}"
    return Problem("dataset.not-an-object", said, fix="Give each row its field names.")


def _bad_value(error: Exception) -> Problem:
    if isinstance(error, _DuplicateKeyError):
        said = f"the object has the key {str(error)!r} twice"
        return Problem("dataset.duplicate-key", said, fix="Take one out.")
    if isinstance(error, RecursionError):
        return Problem("dataset.too-deep", "the row is nested too deeply to be read", fix="Flatten it.")
    said = f"not JSON: {str(error).split(';')[0]}"
    return Problem("dataset.not-json", said, fix="Write the value as a text, or leave the row out.")


def read_table(
    file: BinaryIO, head: bytes, faults: Faults, wanted: Mapping[str, str]
) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the records of a delimited table, whose first row names the columns, with their lines.

    A row with more or fewer fields than the header is a fault. Blank lines are skipped, and so are rows of
    empty cells, as spreadsheets write them under a table.

    Args:
        file: At its beginning.
        head: The first bytes of the file, which tell the delimiter.
        faults: Of the file.
        wanted: As `fields` in `require_fields`.
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
            faults.add(line, _uneven_row(cells, header))


def find_delimiter(head: bytes, wanted: Collection[str] = ()) -> str:
    """Return which of `, ; tab |` best explains the first rows.

    What counts first is how many wanted columns the header has, then how many rows have as many fields as the
    header, then the number of columns. `csv.Sniffer` is misled by punctuation in prose.
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


class _Lines:
    """Lines for `csv.reader`, with the line where the current row began and the length of that row."""

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
    feed = _Lines(file, faults)
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


def _uneven_row(cells: Sequence[str], header: Sequence[str]) -> Problem:
    said = f"{counted(len(cells), 'field')}, but the header has {len(header)}"
    if len(cells) < len(header):
        fix = f"Fill in {named(list(header[len(cells) :]))}."
    else:
        fix = "Put a field that holds the delimiter in quotes."
    return Problem("dataset.uneven-row", said, fix=fix)
