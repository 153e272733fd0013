"""`list-operator`."""

from __future__ import annotations

from typing import Any, Literal

from autoprompt.workflow.file.fields import Flag, NodeData, PathSelector, Record, Text


class ListFilter(Record):
    enabled: Flag = False
    conditions: tuple[Any, ...] = ()


class ListOrder(Record):
    enabled: Flag = False
    key: Text = ""
    value: Literal["asc", "desc"] = "asc"


class ListLimit(Record):
    enabled: Flag = False
    size: int = -1


class ListExtract(Record):
    enabled: Flag = False
    serial: Text = "1"


class ListOperatorData(NodeData):
    variable: PathSelector
    filter_by: ListFilter = ListFilter()
    order_by: ListOrder = ListOrder()
    limit: ListLimit = ListLimit()
    extract_by: ListExtract = ListExtract()
