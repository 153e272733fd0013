"""Parquet files, which say in a few kilobytes what unpacks to gigabytes: measured before anything is kept."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from autoprompt.dataset.faults import Faults, file_place
from autoprompt.dataset.lines import MAX_ROW_BYTES, TOO_LONG
from autoprompt.dataset.plain import json_value
from autoprompt.errors import DatasetError, Problem
from autoprompt.text.extras import install_extra

# Of a row beside its texts: dict and keys. 30 million empty rows took 6 GB.
_ROW_BYTES = 200
_VALUE_BYTES = 64
# Rows that are unpacked at once. A list can repeat a long text in each row, so there are fewer of those.
_BATCH, _NESTED_BATCH = 1000, 20


def read_parquet(path: Path, faults: Faults, max_bytes: int) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield each row with its 1-based number. Refuses a file that unpacks to more than `max_bytes`.

    Memory: what the file itself says it unpacks to, never more than `max_bytes`, and a batch of rows.
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
                yield number, {name: json_value(column[row].as_py()) for name, column in values}
    except (ArrowException, ValueError) as error:
        said = f"broken Parquet: {str(error).splitlines()[0]}"
        faults.fail(number + 1, Problem("dataset.broken-parquet", said, fix="Write the file again."))


def too_large(path: Path, max_bytes: int) -> Problem:
    """Return what to say of a file with more than `max_bytes` of rows."""
    megabytes = max_bytes // 10**6
    said = f"the rows unpack to more than {megabytes:,} MB"
    fix = "Take a sample of the rows, or raise the limit with {max_dataset_mb}."
    return Problem("dataset.too-large", said, file_place(path), fix, {"max_dataset_mb": "<MB>"})


def _refuse_a_bomb(path: Path, faults: Faults, max_bytes: int) -> None:
    """First by what the file says of itself, then by its rows, of which none is kept."""
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
    """Batches in which a text that many rows share is held once."""
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
    """Bytes that the values of a column take once each row has its own."""
    from pyarrow import compute, types

    if not types.is_dictionary(column.type):
        return int(column.nbytes)
    lengths = compute.binary_length(column.dictionary)
    return int(compute.sum(lengths.take(column.indices)).as_py() or 0)
