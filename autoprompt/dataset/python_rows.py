"""Rows that a program gives instead of a file: made plain, kept in a file, named `rows[5]` in messages."""

from __future__ import annotations

import hashlib
import math
import tempfile
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import date, time, timedelta
from decimal import Decimal
from numbers import Integral, Real
from pathlib import Path
from typing import Any
from uuid import UUID

from autoprompt.errors import ConfigError, DatasetError, InputError, Place, Problem, StoreError, UsageError
from autoprompt.settings.records import RunConfig
from autoprompt.text.files import to_json, write_text

Rows = Iterable[Mapping[str, Any]]
_FOLDER = ".datasets"  # hidden, or it would be taken for a run; a file in it holds a program's rows


@contextmanager
def with_rows(config: RunConfig, rows: Rows | None, *, is_kept: bool = False) -> Iterator[RunConfig]:
    """Yield the settings with the rows as their dataset; without rows, as they are.

    Args:
        config: The settings.
        rows: Dicts, or None.
        is_kept: Keep the rows beside the runs, unless the block refuses them.
    """
    if rows is None:
        yield config
        return
    if named := [name for name in ("dataset", "train", "val", "test") if getattr(config, name) is not None]:
        said = "this names a file, and rows are given too"
        problem = Problem("dataset.rows-and-file", said, Place(setting=named[0]), "Give one of them.")
        raise ConfigError(problem)
    with rows_as_file(rows, config.runs_dir if is_kept else None) as path:
        yield config.model_copy(update={"dataset": path})


@contextmanager
def rows_as_file(rows: Iterable[Mapping[str, Any]], runs_dir: Path | None) -> Iterator[Path]:
    """Yield the path of a file with the rows, for which `is_given` holds.

    Args:
        rows: Dicts of plain values.
        runs_dir: Keep the file beside these runs, so that a resumed run has it. Its name is its content's;
            equal rows share one. It is deleted if the block refuses the rows. None: delete it in any case.

    Raises:
        DatasetError: No rows, or one that is no dict of plain values.
        StoreError: No file can be written.
    """
    text = "".join(_line(number, row) for number, row in enumerate(rows))
    if not text:
        fix = "Give dicts such as {'input': ..., 'target': ...}."
        raise DatasetError(Problem("dataset.no-rows", "rows is empty", fix=fix))
    if runs_dir is None:
        with tempfile.TemporaryDirectory(prefix="autoprompt-rows-") as folder:
            path = Path(folder) / _FOLDER / "rows.jsonl"
            _write(path, text)
            yield path
        return
    digest = hashlib.sha256(text.encode()).hexdigest()[:12]
    path = runs_dir / _FOLDER / f"rows-{digest}.jsonl"
    is_new = not path.exists()
    if is_new:
        _write(path, text)
    try:
        yield path
    except (InputError, UsageError):
        if is_new:
            path.unlink(missing_ok=True)
        raise


def is_given(dataset: str | Path | None) -> bool:
    """Return whether a dataset's file holds rows that a program gave."""
    return dataset is not None and Path(dataset).parent.name == _FOLDER


def forget_rows(runs_dir: Path, name: str, others: Iterable[Path]) -> None:
    """Delete the file of rows that a removed run had, unless another run has it too.

    others: Files with the settings of the runs that are left.
    """
    if any(name in _text_of(settings) for settings in others):
        return
    folder = runs_dir / _FOLDER
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


def _line(number: int, row: object) -> str:
    if not isinstance(row, Mapping):
        fix = "Give dicts such as {'input': ..., 'target': ...}."
        said = f"{row!r:.80} is no row"
        raise DatasetError(Problem("dataset.not-a-row", said, Place(row=number), fix))
    try:
        return to_json(dict(row)) + "\n"
    except (TypeError, ValueError) as error:
        fix = "Give plain values: texts, numbers, lists."
        raise DatasetError(Problem("dataset.not-plain", str(error), Place(row=number), fix)) from error


_WRITTEN = (date, time, timedelta, Decimal, UUID)  # what `str` writes as people do


def to_plain_rows(rows: Iterable[Any], wanted: Collection[str | None]) -> Iterator[Any]:
    """Yield the rows of a program with plain values, so that they can be kept in a file.

    Values without a plain form (a set, a picture) are left out, unless the field is wanted: a column that no
    prompt asks for must not block the others. What is no row is yielded as it is.

    Args:
        rows: Mappings of values as a program has them: NumPy's, dates, pydantic's records.
        wanted: Fields that every row is read for.

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
                raise DatasetError(Problem("dataset.not-plain", said, Place(row=number), fix)) from None
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
    if isinstance(value, Mapping):
        return any(map(holds_bytes, value.values()))
    return isinstance(value, bytes | bytearray) or (isinstance(value, list) and any(map(holds_bytes, value)))


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
