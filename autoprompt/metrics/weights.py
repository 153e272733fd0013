"""What a row counts in means of row scores, where the metric is not one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol, runtime_checkable

from autoprompt.metrics.base import Metric
from autoprompt.records import Example


@runtime_checkable
class WeighsRows(Protocol):
    """A metric over all rows together that comes near a weighted mean of row scores.

    A search compares row by row. Where each row counts the same, a prompt that gives up a rare label is
    better by that, and worse by the metric.
    """

    @property
    def weighted_mean(self) -> str:
        """What such a mean is, in words."""
        ...

    def row_weights(self, targets: Sequence[str]) -> Sequence[float]:
        """The weight of each row, of mean 1."""
        ...


def row_weights(metric: Metric, *parts: Iterable[Example]) -> Mapping[str, float]:
    """The weights of the rows by their ids, each part balanced in itself; empty where all count the same."""
    if not isinstance(metric, WeighsRows):
        return {}
    weights: dict[str, float] = {}
    for part in parts:
        rows = list(part)
        found = metric.row_weights([row.target_text for row in rows])
        weights |= {row.id: weight for row, weight in zip(rows, found, strict=True)}
    return weights


def name_of_means(metric: Metric) -> str:
    """What means of row scores are, where they are not the metric; else ""."""
    if isinstance(metric, WeighsRows):
        return metric.weighted_mean
    return f"mean of rows, not {metric.name}" if metric.is_aggregate else ""
