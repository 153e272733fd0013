"""Runs in the sandbox, in the interpreter of the experiments: what the data files hold, which libraries are
here. Prints one JSON object. Needs no library; with pandas it tells the types that experiments will see.
"""
# ruff: noqa: T201, PTH122, PTH123, BLE001

from __future__ import annotations

import csv
import importlib.metadata
import itertools
import json
import os
import sys
from typing import Any

# Those that an experiment may want; a list of all that is installed would fill the request.
LIBRARIES = (
    "numpy",
    "pandas",
    "polars",
    "pyarrow",
    "scipy",
    "statsmodels",
    "scikit-learn",
    "sympy",
    "networkx",
)
MORE_LIBRARIES = ("matplotlib", "seaborn", "openpyxl", "lxml", "nltk", "torch", "xgboost", "lightgbm")
MOST_ROWS = 50_000  # that types and values are told from
MOST_COLUMNS = 60
MOST_VALUES = 12  # of a text column that are named
MOST_CODES = 8  # of a column of integers, which then are codes of something
LONGEST_CELL = 60
FIRST_ROWS = 3
ENCODINGS = ("utf-8", "utf-8-sig", "gb18030", "latin-1")  # the last takes anything


def main(names: list[str]) -> None:
    files = []
    for name in names:
        try:
            files.append({"name": name, **describe(name)})
        except Exception as error:  # a file that cannot be described can still be read by an experiment
            files.append({"name": name, "problem": f"{type(error).__name__}: {error}"[:300]})
    print(json.dumps({"files": files, "libraries": libraries(), "python": sys.version.split()[0]}))


def libraries() -> list[str]:
    found = []
    for name in LIBRARIES + MORE_LIBRARIES:
        try:
            found.append(f"{name} {importlib.metadata.version(name)}")
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def describe(name: str) -> dict[str, Any]:
    ending = os.path.splitext(name)[1].lower()
    if ending in (".csv", ".tsv", ".tab"):
        return describe_separated(name)
    if ending in (".parquet", ".xlsx", ".xls", ".json", ".jsonl", ".ndjson"):
        return describe_with_pandas(name, ending)
    return describe_text(name)


def encoding_of(name: str) -> str:
    with open(name, "rb") as file:
        start = file.read(1 << 20)
    if start.startswith(b"\xef\xbb\xbf"):
        return "utf-8-sig"
    for encoding in ENCODINGS:
        try:
            start.decode(encoding)
        except UnicodeDecodeError as error:
            if error.start > len(start) - 4:  # a character cut in two at the end of what was read
                return encoding
            continue
        return encoding
    return "latin-1"


def separator_of(name: str, encoding: str) -> str:
    with open(name, encoding=encoding, newline="") as file:
        header = file.readline()
        more = [file.readline() for _ in range(20)]
    counted = {sign: header.count(sign) for sign in (",", "\t", ";", "|")}
    best = max(counted, key=lambda sign: counted[sign])
    if not counted[best]:
        return ","
    try:
        return csv.Sniffer().sniff(header + "".join(more), delimiters="".join(counted)).delimiter
    except csv.Error:
        return best


def describe_separated(name: str) -> dict[str, Any]:
    encoding = encoding_of(name)
    separator = separator_of(name, encoding)
    extra = "" if separator == "," else f", sep={separator!r}"
    extra += "" if encoding in ("utf-8", "utf-8-sig") else f", encoding={encoding!r}"
    try:
        import pandas
    except ImportError:
        return without_pandas(name, separator, encoding)
    frame = pandas.read_csv(name, sep=separator, encoding=encoding, nrows=MOST_ROWS + 1)
    rows = len(frame)
    if rows > MOST_ROWS:
        with open(name, "rb") as file:
            rows = sum(block.count(b"\n") for block in iter(lambda: file.read(1 << 20), b"")) - 1
        frame = frame.head(MOST_ROWS)
        return {**of_frame(frame), "rows": rows, "is_about": True, "how": f'pd.read_csv("{name}"{extra})'}
    return {**of_frame(frame), "rows": rows, "how": f'pd.read_csv("{name}"{extra})'}


def without_pandas(name: str, separator: str, encoding: str) -> dict[str, Any]:
    with open(name, encoding=encoding, newline="") as file:
        reader = csv.reader(file, delimiter=separator)
        header = next(reader, [])
        first = list(itertools.islice(reader, FIRST_ROWS))
        rows = len(first) + sum(1 for _ in reader)
    head = "\n".join(separator.join(cell[:LONGEST_CELL] for cell in row) for row in [header, *first])
    how = f'csv.DictReader(open("{name}", encoding="{encoding}", newline=""), delimiter={separator!r})'
    return {
        "rows": rows,
        "columns": [{"name": column} for column in header[:MOST_COLUMNS]],
        "head": head,
        "how": how,
    }


def describe_with_pandas(name: str, ending: str) -> dict[str, Any]:
    try:
        import pandas
    except ImportError:
        return describe_text(name)
    is_lines = ending in (".jsonl", ".ndjson")
    if ending == ".json":
        with open(name, encoding=encoding_of(name)) as file:
            data = json.load(file)
        if not isinstance(data, list) or not all(isinstance(row, dict) for row in data):
            return {**describe_text(name), "how": f'json.load(open("{name}"))'}
        frame, how = pandas.DataFrame(data), f'pd.read_json("{name}")'
    elif is_lines:
        frame, how = pandas.read_json(name, lines=True), f'pd.read_json("{name}", lines=True)'
    elif ending == ".parquet":
        frame, how = pandas.read_parquet(name), f'pd.read_parquet("{name}")'
    else:
        frame, how = pandas.read_excel(name), f'pd.read_excel("{name}")'
    return {**of_frame(frame), "rows": len(frame), "how": how}


def of_frame(frame: Any) -> dict[str, Any]:
    columns = [
        of_column(str(label), frame.iloc[:, i]) for i, label in enumerate(frame.columns[:MOST_COLUMNS])
    ]
    head = frame.iloc[:FIRST_ROWS, :MOST_COLUMNS].map(short)
    return {
        "columns": columns,
        "more_columns": max(0, frame.shape[1] - MOST_COLUMNS),
        "head": head.to_csv(index=False, lineterminator="\n").rstrip(),
    }


def of_column(name: str, values: Any) -> dict[str, Any]:
    kind = values.dtype.kind
    known = values.dropna()
    told: dict[str, Any] = {"name": name, "dtype": str(values.dtype), "missing": int(values.isna().sum())}
    told["type"] = {"i": "integer", "u": "integer", "f": "number", "b": "true/false", "M": "date"}.get(
        kind, "text"
    )
    if kind in "OTUb" or told["type"] == "text":
        try:
            distinct = known.value_counts()
        except TypeError:  # lists or objects in the cells
            return told
        told["distinct"] = len(distinct)
        if len(distinct) <= MOST_VALUES:
            told["values"] = [short(value) for value in distinct.index]
    elif told["type"] == "integer" and known.nunique() <= MOST_CODES:
        told["values"] = sorted(int(value) for value in known.unique())
    return told


def short(value: Any) -> Any:
    return (
        value if not isinstance(value, str) or len(value) <= LONGEST_CELL else value[: LONGEST_CELL - 1] + "…"
    )


def describe_text(name: str) -> dict[str, Any]:
    with open(name, encoding=encoding_of(name), errors="replace") as file:
        lines = [line.rstrip("\n")[:200] for line in itertools.islice(file, 5)]
    return {"head": "\n".join(lines), "how": f'open("{name}", encoding="{encoding_of(name)}")'}
