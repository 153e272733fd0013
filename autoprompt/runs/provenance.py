"""Which run a prompt comes from, and which rows that run has looked at: also of a file without the run."""

from __future__ import annotations

import base64
import binascii
import hashlib
import textwrap
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, field_validator

from autoprompt.dataset.python_rows import is_given
from autoprompt.errors import StoreError
from autoprompt.records import Origin
from autoprompt.runs.folder import RunFolder

# Four bytes tell rows well enough apart: of 1,000 new rows and 1,000 that were seen, two have the same mark
# in one of 4,000 exports. 500 rows take 2.7 kB.
_MARK_BYTES = 4
_LINE = 100


class ExportedRun(BaseModel):
    """The run that an exported prompt comes from."""

    model_config = ConfigDict(extra="forbid")
    id: str = Field(description="Name of the run's folder.")
    dataset: tuple[str, ...] = Field(default=(), description="Names of the files that its rows came from.")
    rows_seen: str = Field(
        default="",
        description="Rows that the search has looked at: 4 bytes of the SHA-256 of each row's id, in base64.",
    )

    @field_validator("rows_seen")
    @classmethod
    def _is_base64(cls, text: str) -> str:
        try:
            is_whole = len(base64.b64decode("".join(text.split()), validate=True)) % _MARK_BYTES == 0
        except binascii.Error:
            is_whole = False
        if not is_whole:
            raise ValueError("expected base64 as `autoprompt runs export` writes it")
        return text

    @property
    def marks(self) -> frozenset[bytes]:
        """What `mark_of` makes of the rows that the search has looked at."""
        data = base64.b64decode("".join(self.rows_seen.split()))
        return frozenset(data[at : at + _MARK_BYTES] for at in range(0, len(data), _MARK_BYTES))


def exported_run(folder: RunFolder, config: Mapping[str, Any]) -> dict[str, Any]:
    """Return what an export says of its run, as plain data that `ExportedRun` reads.

    Args:
        folder: The run, finished or not.
        config: Its settings.
    """
    given = (config.get(name) for name in ("dataset", "train", "val", "test"))
    files = [Path(str(path)).name for path in given if path and not is_given(path)]
    marks = b"".join(sorted(map(mark_of, folder.rows_searched())))
    text = "\n".join(textwrap.wrap(base64.b64encode(marks).decode(), _LINE))
    return {"id": folder.run_id, "dataset": files, "rows_seen": text}


def mark_of(row_id: str) -> bytes:
    """Return what an export keeps of a row: nothing of its text can be read from it."""
    return hashlib.sha256(row_id.encode()).digest()[:_MARK_BYTES]


def seen_test(origin: Origin) -> Callable[[str], bool] | None:
    """Return whether the run of a prompt has looked at a row, by its id; None if nothing tells that."""
    if origin.run_dir is None:
        marks = origin.marks
        return None if marks is None else lambda row_id: mark_of(row_id) in marks
    run = RunFolder(Path(origin.run_dir))
    try:
        return run.rows_searched().__contains__ if run.path.exists() else None
    except StoreError:
        return None
