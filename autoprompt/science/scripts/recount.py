"""Runs in the sandbox: for which rows of a table each of some conditions holds. Prints one JSON object.

A condition is an expression over the columns as pandas Series (`length > 80`), or over the whole frame
(`df["length"] > 80`). It reports only which rows the condition holds for; the caller counts what they mean.
"""
# ruff: noqa: T201, BLE001

from __future__ import annotations

import json
from typing import Any


def main(table: str, conditions: list[str]) -> None:
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
    import re

    import numpy
    import pandas

    known = {"pd": pandas, "np": numpy, "re": re, "len": len, "str": str, "df": frame}
    names = {str(column): frame[column] for column in frame.columns}
    held = eval(condition, {"__builtins__": {}, **known}, names)
    if not isinstance(held, pandas.Series) or len(held) != len(frame) or held.dtype != bool:
        raise TypeError("no truth value for each row")
    return {"rows": [int(number) for number in numpy.flatnonzero(held.to_numpy())]}
