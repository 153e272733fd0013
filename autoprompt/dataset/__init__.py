"""Rows from files: reading, checking, stable ids, stratified disjoint splits, sidecars."""

from autoprompt.dataset.checks import check_fields, infer_labels, load_rows
from autoprompt.dataset.labels import LABEL_METRICS
from autoprompt.dataset.reading import find_dataset, first_fields
from autoprompt.dataset.splits import Splits, load_checked, load_splits
from autoprompt.settings.sidecar import Task, find_sidecar, load_task

__all__ = [
    "LABEL_METRICS",
    "Splits",
    "Task",
    "check_fields",
    "find_dataset",
    "find_sidecar",
    "first_fields",
    "infer_labels",
    "load_checked",
    "load_rows",
    "load_splits",
    "load_task",
]
