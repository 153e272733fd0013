"""How an answer is scored: a value in [0, 1], higher is better, and the reason in words for the analyst."""

from autoprompt.metrics import json_match, texts  # noqa: F401 they register themselves
from autoprompt.metrics.base import Metric, name_of_means, row_weights
from autoprompt.metrics.registry import (
    check_targets,
    get_metric,
    known_metrics,
    metric,
    needs_target,
    run_metric,
)

__all__ = [
    "Metric",
    "check_targets",
    "get_metric",
    "known_metrics",
    "metric",
    "name_of_means",
    "needs_target",
    "row_weights",
    "run_metric",
]
