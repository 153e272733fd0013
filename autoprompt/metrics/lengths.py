"""How long an answer can be and still be of use, where the metric knows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol, runtime_checkable

from autoprompt.metrics.base import Metric
from autoprompt.records import Example
from autoprompt.text.tokens import estimate_tokens

_LEAST = 64
_LONGER = 4  # times the longest target: a tokenizer may make more of it than is estimated


@runtime_checkable
class BoundsAnswers(Protocol):
    """A metric by which an answer beyond some length is of no use, whatever it says."""

    def useful_tokens(self, targets: Sequence[str]) -> int:
        """Tokens up to which an answer may be right, the thoughts of a model that thinks first left out."""
        ...


def useful_tokens(metric: Metric, rows: Iterable[Example]) -> int | None:
    """See `Options.useful_tokens`; None where the metric knows no bound, or there are no rows."""
    targets = [row.target_text for row in rows]
    return metric.useful_tokens(targets) if targets and isinstance(metric, BoundsAnswers) else None


def tokens_of_whole(targets: Sequence[str]) -> int:
    """Tokens that no answer exceeds which is one of `targets` as a whole.

    It grows by doubling, so that other rows of the same kind are asked about in the same way.
    """
    longest, found = max(map(estimate_tokens, targets)), _LEAST
    while found < _LONGER * longest:
        found *= 2
    return found
