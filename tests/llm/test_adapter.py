"""What a client of one's own returns, in numbers and texts that can be kept."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import numpy as np
import pytest

from autoprompt.llm.adapter import OwnClient
from autoprompt.llm.client import Completion, Options
from autoprompt.llm.kept.cache import to_record
from autoprompt.llm.transport.failures import OwnClientError
from autoprompt.records import Message, Usage


class Saying:
    """A client that gives this completion."""

    name = "mine"

    def __init__(self, completion: Completion) -> None:
        self._completion = completion

    def complete(self, messages: Sequence[Message], options: Options = Options()) -> Completion:
        return self._completion

    def close(self) -> None:
        """Nothing is held."""


def asked(**parts: Any) -> Completion:
    return OwnClient(Saying(Completion("1", **parts))).complete([Message("user", "?")])


@pytest.mark.parametrize(
    "parts",
    [
        {"usage": Usage(np.int64(3), np.int64(4), Decimal("0.5"))},  # type: ignore[arg-type]
        {"usage": Usage(3, 4, np.float64(0.5)), "label_probs": {"1": np.float32(1.0)}},
        {"usage": Usage(3, 4, 0.5), "finish_reason": None, "model": None, "latency_s": None},
    ],
)
def test_numbers_and_gaps_of_other_packages_are_plain(parts: dict[str, Any]) -> None:
    completion = asked(**parts)
    assert completion.usage == Usage(3, 4, 0.5)
    assert json.loads(json.dumps(to_record(completion), allow_nan=False))["cost_usd"] == 0.5


@pytest.mark.parametrize(
    "parts",
    [
        {"usage": Usage(None, None)},  # type: ignore[arg-type]
        {"usage": Usage(1, 2, math.nan)},
        {"label_probs": [0.5, 0.5]},
        {"label_probs": {"1": None}},
    ],
)
def test_what_is_no_number_is_said(parts: dict[str, Any]) -> None:
    with pytest.raises(OwnClientError, match=r"client mine returned .* expected numbers, and a cost of None"):
        asked(**parts)
