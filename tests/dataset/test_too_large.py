"""Small files with much in them: refused, in bounded memory."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from autoprompt.dataset.checks import load_rows
from autoprompt.errors import DatasetError

# Reads the file and tells the most memory that it took, in MB.
READ = """
import sys
from pathlib import Path
from autoprompt.dataset.checks import load_rows
from autoprompt.errors import DatasetError
try:
    print(len(load_rows(Path(sys.argv[1]))))
except DatasetError as error:
    print(",".join(problem.code for problem in error.problems))
(peak,) = [line for line in open("/proc/self/status") if line.startswith("VmHWM")]
print(int(peak.split()[1]) // 1024)
"""


def shared(arrow: Any, rows: int, text: str) -> Any:
    numbers = arrow.array([0] * rows, arrow.int32())
    return arrow.DictionaryArray.from_arrays(numbers, arrow.array([text]))


def twenty_gigabytes(arrow: Any) -> list[Any]:
    rows = 100_000
    table = {"input": shared(arrow, rows, "x" * 1000), "target": shared(arrow, rows, "a")}
    return [arrow.table(table)] * 200


def long_texts(arrow: Any) -> list[Any]:
    return [arrow.table({"input": shared(arrow, 400, "x" * 20_000_000), "target": ["a", "b"] * 200})]


def one_text(arrow: Any) -> list[Any]:
    return [arrow.table({"input": ["x" * 500_000_000], "target": ["a"]})]


def lists(arrow: Any) -> list[Any]:
    numbers = arrow.ListArray.from_arrays([0, 20_000_000], arrow.nulls(20_000_000, arrow.int8()))
    return [arrow.table({"input": numbers, "target": ["a"]})]


def wide(arrow: Any) -> list[Any]:
    columns = {f"c{n}": ["y" * 1_000_000] for n in range(1100)}
    return [arrow.table({**columns, "input": ["a"], "target": ["b"]})]


def nothing_but_rows(arrow: Any) -> list[Any]:
    empty = arrow.nulls(10_000_000, arrow.string())
    return [arrow.table({"input": empty, "target": empty})]


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="measures with /proc")
@pytest.mark.parametrize("make", [twenty_gigabytes, long_texts, one_text, lists, wide, nothing_but_rows])
def test_a_parquet_file_that_unpacks_to_gigabytes_is_refused(
    make: Callable[[Any], list[Any]], tmp_path: Path
) -> None:
    arrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    path, tables = tmp_path / "t.parquet", make(arrow)
    with parquet.ParquetWriter(path, tables[0].schema, compression="zstd") as writer:
        for table in tables:
            writer.write_table(table)
    done = subprocess.run([sys.executable, "-c", READ, path], capture_output=True, text=True, timeout=120)
    said, peak_mb = done.stdout.split()
    assert said in ("dataset.too-large", "dataset.row-too-long")
    assert int(peak_mb) < 600


def test_texts_that_rows_share_come_back(tmp_path: Path) -> None:
    arrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    rows = {"input": [f"item {n}" for n in range(3000)], "target": ["ab"[n % 2] for n in range(3000)]}
    table = arrow.table({**rows, "tags": [["x", None, str(n)] for n in range(3000)], "n": list(range(3000))})
    parquet.write_table(table, tmp_path / "t.parquet", row_group_size=700)
    found = load_rows(tmp_path / "t.parquet")
    assert [row.input for row in found] == rows["input"]
    assert [row.target for row in found] == rows["target"]
    assert found[2999].fields["tags"] == ["x", None, "2999"]
    assert found[2999].fields["n"] == 2999


@pytest.mark.parametrize("name", ["t.jsonl", "t.json", "t.csv", "t.tsv", "t.parquet"])
def test_a_large_file_is_refused_before_it_is_read(name: str, tmp_path: Path) -> None:
    """A file of 2 GB that takes no room on the disk."""
    path = tmp_path / name
    path.write_text('[{"input": "a", "target": "b"}]\n' if name == "t.json" else "input,target\na,b\n")
    with path.open("r+b") as stream:
        stream.truncate(2_000_000_000)
    with pytest.raises(DatasetError, match="unpack to more than 1,000 MB"):
        load_rows(path)


def test_the_limit_is_a_setting(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    path.write_text('{"input": "a", "target": "b"}\n' * 100)
    assert len(load_rows(path, max_bytes=10_000)) == 100
    with pytest.raises(DatasetError, match="max_dataset_mb") as refused:
        load_rows(path, max_bytes=1000)
    assert refused.value.problems[0].code == "dataset.too-large"
