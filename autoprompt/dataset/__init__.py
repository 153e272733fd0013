"""Rows from files: reading, checking, stable ids, stratified disjoint splits."""

from autoprompt.dataset.checks import check_fields, infer_labels, load_rows
from autoprompt.dataset.labels import LABEL_METRICS
from autoprompt.dataset.reading import first_fields
from autoprompt.dataset.splits import Splits, load_checked, load_splits

__all__ = [
    "LABEL_METRICS",
    "Splits",
    "check_fields",
    "first_fields",
    "infer_labels",
    "load_checked",
    "load_rows",
    "load_splits",
]
