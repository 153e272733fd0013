"""What a metric knows about rows as a whole: how long answers may be, and what each row counts in a mean."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol, runtime_checkable

from autoprompt.metrics.base import Metric
from autoprompt.records import Example
from autoprompt.text.scripts import estimate_tokens

_LEAST = 64
_LONGER = 4  # times the longest target: a tokenizer may make more of it than is estimated


@runtime_checkable
class BoundsAnswers(Protocol):
    """A metric by which an answer beyond some length is of no use, whatever it says."""

    def useful_tokens(self, targets: Sequence[str]) -> int:
        """Tokens up to which an answer may be right, the thoughts of a model that thinks first left out."""
        ...


def useful_tokens(metric: Metric, rows: Iterable[Example]) -> int | None:
    """Return `Options.useful_tokens`; None if the metric knows no bound, or there are no rows."""
    targets = [row.target_text for row in rows]
    return metric.useful_tokens(targets) if targets and isinstance(metric, BoundsAnswers) else None


def tokens_of_whole(targets: Sequence[str]) -> int:
    """Return the tokens that no answer exceeds which is one of `targets` as a whole.

    It grows by doubling, so that other rows of the same kind are asked about in the same way.
    """
    longest, found = max(map(estimate_tokens, targets)), _LEAST
    while found < _LONGER * longest:
        found *= 2
    return found


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
    """Return the weights of the rows by id, each part balanced in itself; empty if all count the same."""
    if not isinstance(metric, WeighsRows):
        return {}
    weights: dict[str, float] = {}
    for part in parts:
        rows = list(part)
        found = metric.row_weights([row.target_text for row in rows])
        weights |= {row.id: weight for row, weight in zip(rows, found, strict=True)}
    return weights


def name_of_means(metric: Metric) -> str:
    """Return what means of row scores are if they are not the metric; else ""."""
    if isinstance(metric, WeighsRows):
        return metric.weighted_mean
    return f"mean of rows, not {metric.name}" if metric.is_aggregate else ""
