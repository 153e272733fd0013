"""Rows that a program hands over instead of a file, in a file that stays, so that a resumed run has them."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from autoprompt.errors import DatasetError, StoreError
from autoprompt.store.files import to_json, write_text

_FOLDER = ".datasets"  # hidden, or it would be taken for a run


def keep_rows(rows: Iterable[Mapping[str, Any]], runs_dir: Path) -> Path:
    """Write the rows as JSONL beside the runs, under a name that is their content's; equal rows share a file.

    Raises DatasetError for what is no row of plain values, StoreError where no file can be written.
    """
    text = "".join(_line(number, row) for number, row in enumerate(rows))
    digest = hashlib.sha256(text.encode()).hexdigest()[:12]
    path = runs_dir / _FOLDER / f"rows-{digest}.jsonl"
    try:
        if not path.exists():
            write_text(path, text)
    except OSError as error:
        raise StoreError(
            f"{path}: the rows cannot be kept here ({error.strerror}). Choose another runs_dir."
        ) from error
    return path


def _line(number: int, row: object) -> str:
    if not isinstance(row, Mapping):
        raise DatasetError(
            f"rows[{number}] is {row!r:.80}, expected a dict such as {{'input': ..., 'target': ...}}."
        )
    try:
        return to_json(dict(row)) + "\n"
    except (TypeError, ValueError) as error:
        raise DatasetError(f"rows[{number}]: {error}. Give plain values: texts, numbers, lists.") from error
