"""Runs in the sandbox, in the interpreter of the experiments; the package never imports it.

`survey` needs no library; with pandas it tells the types that experiments will see. `recount` needs pandas.
Each prints one JSON object.
"""
# ruff: noqa: T201, PTH122, PTH123, BLE001

from __future__ import annotations

import codecs
import csv
import functools
import importlib.metadata
import itertools
import json
import os
import re
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
TABLES = (".csv", ".tsv", ".tab")  # endings of text tables
MOST_ROWS = 50_000  # read to determine types and values
MOST_COLUMNS = 60
MOST_VALUES = 12  # of a text column that are named
MOST_CODES = 8  # of a column of integers, which then are codes of something
LONGEST_CELL = 60
FIRST_ROWS = 3
LOOKED_AT = 1 << 20  # bytes read to determine the encoding
# Share of the characters beyond ASCII that speak for an encoding; for any other, at most the rest may.
_SURE = 0.9
_HIGH = re.compile(r"[^\x00-\x7f]+")


def survey(names: list[str]) -> None:
    """Print what the data files hold, and which libraries are here."""
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
    if ending in TABLES:
        return {**describe_separated(name), **doubt_of(name)}
    if ending in (".parquet", ".xlsx", ".xls", ".json", ".jsonl", ".ndjson"):
        return describe_with_pandas(name, ending)
    return {**describe_text(name), **doubt_of(name)}


def encoding_of(name: str) -> str:
    return guess(name)[0]


def doubt_of(name: str) -> dict[str, Any]:
    """`{"guess": encoding}` where the encoding is no more than that."""
    encoding, is_sure = guess(name)
    return {} if is_sure else {"guess": encoding}


@functools.cache
def guess(name: str) -> tuple[str, bool]:
    """Return the encoding of a file, and whether it is sure. It does not matter for what is no text."""
    with open(name, "rb") as file:
        start = file.read(LOOKED_AT)
    if start.startswith(codecs.BOM_UTF8):
        return "utf-8-sig", True
    if start.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):  # Excel's "Unicode text"
        return "utf-16", True
    if decoded(start, "utf-8") is not None:
        return "utf-8", True
    shares = {"gb18030": chinese_share(start), "cp1252": western_share(start)}
    possible = [encoding for encoding, share in shares.items() if share >= 0]
    encoding = max(possible, key=lambda encoding: shares[encoding], default="latin-1")  # which takes anything
    is_sure = max(shares.values()) >= _SURE and min(shares.values()) <= 1 - _SURE
    if b"\0" in start:  # no text; a table with it is one in another encoding, e.g. UTF-16 without its mark
        is_sure = not name.lower().endswith(TABLES)
    return encoding, is_sure


def decoded(start: bytes, encoding: str) -> str | None:
    """None where it is not in this encoding. A character may be cut in two at the end of what was read."""
    decoder = codecs.getincrementaldecoder(encoding)()
    try:
        return decoder.decode(start, final=len(start) < LOOKED_AT)
    except UnicodeDecodeError:
        return None


def western_share(start: bytes) -> float:
    """Return the share of non-ASCII characters in Windows-1252 that are placed as in a Western language.

    Such a character is alone, as in "Köln", "à" or "5°", or one of two letters beside an ASCII letter, as in
    "größer". Encodings with two bytes a character make longer runs, with as many signs as letters. -1 if the
    bytes are not Windows-1252.
    """
    text = decoded(start, "cp1252")
    if text is None:
        return -1
    fitting = total = 0
    for run in _HIGH.finditer(text):
        high, beside = run[0], text[max(0, run.start() - 1) : run.start()] + text[run.end() : run.end() + 1]
        total += len(high)
        if len(high) == 1 or (len(high) == 2 and high.isalpha() and any(map(str.isalpha, beside))):
            fitting += len(high)
    return fitting / max(1, total)


def chinese_share(start: bytes) -> float:
    """Of the characters beyond ASCII in GB18030, the usual ones; -1 where it is not in it.

    Usual are the 3,755 hanzi of GB 2312's first level, its punctuation and full-width signs. The others are
    nearly all there is, and what a Western letter makes with the letter behind it is among them.
    """
    text = decoded(start, "gb18030")
    if text is None:
        return -1
    codes = [sign.encode("gb18030") for sign in text if sign > "\x7f"]
    usual = [code for code in codes if len(code) == 2 and code[1] > 0xA0 and is_usual_row(code[0])]
    return len(usual) / max(1, len(codes))  # none where the one there is was cut in two


def is_usual_row(row: int) -> bool:
    return 0xB0 <= row <= 0xD7 or row in (0xA1, 0xA3)


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
    column: dict[str, Any] = {"name": name, "dtype": str(values.dtype), "missing": int(values.isna().sum())}
    column["type"] = {"i": "integer", "u": "integer", "f": "number", "b": "true/false", "M": "date"}.get(
        kind, "text"
    )
    if kind in "OTUb" or column["type"] == "text":
        try:
            distinct = known.value_counts()
        except TypeError:  # lists or objects in the cells
            return column
        column["distinct"] = len(distinct)
        if len(distinct) <= MOST_VALUES:
            column["values"] = [short(value) for value in distinct.index]
    elif column["type"] == "integer" and known.nunique() <= MOST_CODES:
        column["values"] = sorted(int(value) for value in known.unique())
    return column


def short(value: Any) -> Any:
    return (
        value if not isinstance(value, str) or len(value) <= LONGEST_CELL else value[: LONGEST_CELL - 1] + "…"
    )


def describe_text(name: str) -> dict[str, Any]:
    with open(name, encoding=encoding_of(name), errors="replace") as file:
        lines = [line.rstrip("\n")[:200] for line in itertools.islice(file, 5)]
    return {"head": "\n".join(lines), "how": f'open("{name}", encoding="{encoding_of(name)}")'}


def recount(table: str, conditions: list[str]) -> None:
    """Print for which rows of a table each condition holds; the caller counts what that means.

    A condition is an expression over the columns as pandas Series (`length > 80`), or over the whole frame
    (`df["length"] > 80`).
    """
    import pandas

    found = []
    for condition in conditions:
        frame = pandas.read_csv(table, keep_default_na=False)
        try:
            found.append(matching(condition, frame))
        except Exception as error:  # of an expression that a model wrote
            found.append({"error": f"{type(error).__name__}: {error}"[:200]})
    print()
    print(json.dumps({"found": found}))


def matching(condition: str, frame: Any) -> dict[str, Any]:
    import numpy
    import pandas

    known = {"pd": pandas, "np": numpy, "re": re, "len": len, "str": str, "df": frame}
    names = {str(column): frame[column] for column in frame.columns}
    held = eval(condition, {"__builtins__": {}, **known}, names)
    if not isinstance(held, pandas.Series) or len(held) != len(frame) or held.dtype != bool:
        raise TypeError("no truth value for each row")
    return {"rows": [int(number) for number in numpy.flatnonzero(held.to_numpy())]}
