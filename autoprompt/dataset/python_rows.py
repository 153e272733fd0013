"""Rows that a program gives instead of files: made plain, kept in files, named `rows[5]` in messages.

They are dicts, a table of pandas, polars, PyArrow or Hugging Face, or one of these for each part. The tables
are known by what they can do: none of their libraries is imported.
"""

from __future__ import annotations

import hashlib
import math
import tempfile
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from datetime import date, time, timedelta
from decimal import Decimal
from numbers import Integral, Real
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol
from uuid import UUID

from autoprompt.errors import ConfigError, DatasetError, InputError, Place, Problem, StoreError, UsageError
from autoprompt.settings.records import RunConfig
from autoprompt.text.files import to_json, write_text
from autoprompt.text.machine import install
from autoprompt.text.names import named

if TYPE_CHECKING:
    import pandas


class Frame(Protocol):
    """A DataFrame of pandas or polars."""

    @property
    def columns(self) -> Any: ...


Table = Iterable[Mapping[str, Any]] | Frame
Rows = Table | Mapping[str, Table]  # of all parts, or of each by its name
Given = Mapping[str, Iterable[Any]]  # setting -> its rows with plain values
# What a part is called elsewhere -> its setting.
PARTS = {
    "train": "train",
    "val": "val",
    "validation": "val",
    "valid": "val",
    "dev": "val",
    "test": "test",
}
_ALL = "dataset"
_FOLDER = ".datasets"  # hidden, or it would be taken for a run; a file in it holds a program's rows


def parts_of(rows: object) -> dict[str, object] | None:
    """Return setting -> table of rows that come as parts, such as a DatasetDict; None for one table.

    Raises:
        DatasetError: A part has an unknown name, or two are the same part.
    """
    if not isinstance(rows, Mapping) or not rows or not all(map(_may_be_table, rows.values())):
        return None
    found: dict[str, object] = {}
    for name, table in rows.items():
        setting = PARTS.get(str(name))
        if setting is None or setting in found:
            kind = "no known part" if setting is None else "a second part for the same rows"
            said = f"{name!r} is {kind}; rows has {named([*map(str, rows)])}"
            fix = "Give rows={'train': ..., 'val': ..., 'test': ...}, or some of these parts."
            raise DatasetError(Problem("dataset.unknown-part", said, fix=fix))
        found[setting] = table
    return found


def _may_be_table(value: object) -> bool:
    is_value = isinstance(value, str | bytes | Mapping) or not isinstance(value, Iterable)
    return not is_value or hasattr(value, "collect_schema")  # polars' LazyFrame is no iterable


def rows_of(table: Any) -> Any:
    """Return the rows of a table as dicts, the text of a class in place of its number.

    What is no table, such as a list of dicts, is returned as it is.

    Raises:
        DatasetError: Two columns have the same name: pandas and PyArrow drop one of them.
    """
    if hasattr(table, "collect_schema") and hasattr(table, "collect"):  # polars' LazyFrame
        table = table.collect()
    columns = [str(name) for name in getattr(table, "column_names", getattr(table, "columns", ()))]
    if doubles := sorted({name for name in columns if columns.count(name) > 1}):
        said = f"rows has the column {named(doubles)} twice"
        raise DatasetError(Problem("dataset.duplicate-column", said, fix="Rename one of them."))
    for name in ("to_dicts", "to_pylist"):  # polars, PyArrow
        if hasattr(table, name):
            return getattr(table, name)()
    if hasattr(table, "iloc") and columns:  # pandas
        return [{str(name): value for name, value in row.items()} for row in table.to_dict("records")]
    features = getattr(table, "features", None)  # Hugging Face
    labels = {
        name: tuple(feature.names)
        for name, feature in (features.items() if isinstance(features, Mapping) else ())
        if hasattr(feature, "int2str")
    }
    return (_with_labels(row, labels) for row in table) if labels else table


def _with_labels(row: Mapping[str, Any], labels: Mapping[str, tuple[str, ...]]) -> dict[str, Any]:
    """Return the row with the texts of its classes; -1, which stands for no label, is None."""
    return {
        name: value if name not in labels or value is None else labels[name][value] if value >= 0 else None
        for name, value in row.items()
    }


@contextmanager
def with_rows(config: RunConfig, rows: Given | None, *, is_kept: bool = False) -> Iterator[RunConfig]:
    """Yield the settings with the rows as their files; without rows, as they are.

    Args:
        config: The settings.
        rows: Of the whole dataset, or of each part; or None.
        is_kept: Keep the rows beside the runs, unless the block refuses them.
    """
    if rows is None:
        yield config
        return
    if files := [name for name in (_ALL, "train", "val", "test") if getattr(config, name) is not None]:
        said = "a file and rows are both given"
        problem = Problem("dataset.rows-and-file", said, Place(setting=files[0]), "Give one of them.")
        raise ConfigError(problem)
    with ExitStack() as stack:
        paths = {
            name: stack.enter_context(rows_as_file(part, config.runs_dir if is_kept else None, name))
            for name, part in rows.items()
        }
        yield config.model_copy(update=paths)


@contextmanager
def rows_as_file(rows: Iterable[Any], runs_dir: Path | None, part: str = _ALL) -> Iterator[Path]:
    """Yield the path of a file with the rows, for which `is_given` holds.

    Args:
        rows: Dicts of plain values.
        runs_dir: Keep the file beside these runs, so that a resumed run has it. Its name is its content's;
            equal rows share one. It is deleted if the block refuses the rows. None: delete it in any case.
        part: The setting that they are for.

    Raises:
        DatasetError: No rows, or one that is no dict of plain values.
        StoreError: No file can be written.
    """
    name = "rows" if part == _ALL else part
    text = "".join(_line(Place(file=given_name(name), row=number), row) for number, row in enumerate(rows))
    if not text:
        fix = "Give dicts such as {'input': ..., 'target': ...}."
        said = f"{given_name(name) or name} is empty"
        raise DatasetError(Problem("dataset.no-rows", said, fix=fix))
    if runs_dir is None:
        with tempfile.TemporaryDirectory(prefix="autoprompt-rows-") as folder:
            path = Path(folder) / _FOLDER / f"{name}.jsonl"
            _write(path, text)
            yield path
        return
    digest = hashlib.sha256(text.encode()).hexdigest()[:12]
    path = runs_dir / _FOLDER / f"{name}-{digest}.jsonl"
    is_new = not path.exists()
    if is_new:
        _write(path, text)
    try:
        yield path
    except (InputError, UsageError):
        if is_new:
            path.unlink(missing_ok=True)
        raise


def given_name(file: str) -> Path | None:
    """Return what messages call the file of a part, such as `rows['val']`; None for that of all rows."""
    part = file.partition("-")[0]
    return Path(f"rows[{part!r}]") if part in PARTS else None


def is_given(dataset: str | Path | None) -> bool:
    """Return whether a dataset's file holds rows that a program gave."""
    return dataset is not None and Path(dataset).parent.name == _FOLDER


def forget_rows(runs_dir: Path, names: Iterable[str], others: Iterable[Path]) -> None:
    """Delete the files of rows that a removed run had, unless another run has them too.

    others: Files with the settings of the runs that are left.
    """
    settings, folder = [_text_of(path) for path in others], runs_dir / _FOLDER
    for name in names:
        if not any(name in text for text in settings):
            (folder / name).unlink(missing_ok=True)
    with suppress(OSError):  # others lie there
        folder.rmdir()


def _text_of(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:  # none of ours, or another user's
        return ""


def _write(path: Path, text: str) -> None:
    try:
        write_text(path, text)
    except OSError as error:
        problem = Problem(
            "dataset.rows-not-kept",
            f"the rows cannot be written ({error.strerror})",
            Place(path),
            "Choose another folder with {runs_dir}.",
            {"runs_dir": "<FOLDER>"},
        )
        raise StoreError(problem) from error


def _line(place: Place, row: object) -> str:
    if not isinstance(row, Mapping):
        fix = "Give dicts such as {'input': ..., 'target': ...}."
        said = f"{row!r:.80} is no row"
        raise DatasetError(Problem("dataset.not-a-row", said, place, fix))
    try:
        return to_json(dict(row)) + "\n"
    except (TypeError, ValueError) as error:
        fix = "Give plain values: texts, numbers, lists."
        raise DatasetError(Problem("dataset.not-plain", str(error), place, fix)) from error


_MISSING = ("NAType", "NaTType")  # pandas' own
_WRITTEN = (date, time, timedelta, Decimal, UUID)  # what `str` writes as people do


def to_plain_rows(rows: Iterable[Any], wanted: Collection[str | None], part: str = _ALL) -> Iterator[Any]:
    """Yield the rows of a program with plain values, so that they can be kept in a file.

    Values without a plain form (a set, a picture) are left out, unless the field is wanted: a column that no
    prompt asks for must not block the others. What is no row is yielded as it is.

    Args:
        rows: Mappings of values as a program has them: NumPy's, dates, pydantic's records.
        wanted: Fields that every row is read for.
        part: The setting that the rows are for.

    Raises:
        DatasetError: With row and field of a wanted value that has no plain form.
    """
    for number, row in enumerate(rows):
        if not isinstance(row, Mapping):
            yield row
            continue
        plain = {}
        for name, value in without_bytes(row, wanted).items():
            try:
                plain[name] = _plain(value)
            except TypeError as error:
                if name not in wanted:
                    continue
                said, fix = f"field {name!r} holds {error}", "Give plain values: texts, numbers, lists."
                place = Place(given_name(part), row=number)
                raise DatasetError(Problem("dataset.not-plain", said, place, fix)) from None
        yield plain


def without_bytes(record: Mapping[str, Any], wanted: Collection[str | None]) -> Mapping[str, Any]:
    """Return the record without fields that hold bytes, such as pictures, also inside an object or a list.

    A field of bytes that are UTF-8 text becomes that text. If a prompt asks for a field that was left out,
    the message says that the row has no such field.

    Args:
        record: A row.
        wanted: Fields that stay, to be refused.
    """
    if not any(map(holds_bytes, record.values())):
        return record
    read = {name: _text(value) for name, value in record.items()}
    return {name: value for name, value in read.items() if name in wanted or not holds_bytes(value)}


def holds_bytes(value: Any) -> bool:
    """Return whether a value is bytes, or an object or a list with bytes in it."""
    waiting = [value]  # not by recursion: rows may be nested as deeply as JSON can be read
    while waiting:
        part = waiting.pop()
        if isinstance(part, bytes | bytearray):
            return True
        if isinstance(part, Mapping):
            waiting += part.values()
        elif isinstance(part, list):
            waiting += part
    return False


def _text(value: Any) -> Any:
    if not isinstance(value, bytes) or b"\0" in value:
        return value
    try:
        return value.decode()
    except UnicodeDecodeError:
        return value


def _plain(value: Any) -> Any:
    """Return the value as JSON has it.

    Raises:
        TypeError: With the name of a type that has no plain form.
    """
    if type(value).__name__ in _MISSING:
        return None
    if value is None or isinstance(value, str | int):
        return value
    if isinstance(value, Integral):  # NumPy's
        return int(value)
    if isinstance(value, Real):
        number = float(value)
        return number if math.isfinite(number) else None if math.isnan(number) else str(number)
    if isinstance(value, _WRITTEN):
        return str(value)
    if isinstance(value, Mapping):
        return {name: _plain(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(part) for part in value]
    if hasattr(value, "model_dump"):  # pydantic's records, such as messages of LangChain and OpenAI
        return _plain(value.model_dump())
    if hasattr(value, "tolist"):  # NumPy's arrays, truth values and dates
        return _plain(value.tolist())
    raise TypeError(type(value).__name__)


def to_frame(rows: Iterable[Mapping[str, Any]]) -> pandas.DataFrame:
    """Return rows of plain values as a table of pandas.

    Raises:
        ConfigError: pandas is not installed.
    """
    try:
        import pandas
    except ImportError as error:
        fix = f"Install it: {install(['pandas'])}."
        raise ConfigError(Problem("python.no-pandas", "to_pandas() needs pandas", fix=fix)) from error
    return pandas.DataFrame(list(rows))
