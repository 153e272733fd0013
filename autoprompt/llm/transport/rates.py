"""What an endpoint says that is left of its rates: `x-ratelimit-*` of OpenAI and others, Anthropic's own."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime

from autoprompt.records import record

# Requests, then tokens: what is left, and when it is full again.
_HEADERS = tuple(
    (kind, left, reset)
    for kind in ("requests", "tokens")
    for left, reset in (
        (f"x-ratelimit-remaining-{kind}", f"x-ratelimit-reset-{kind}"),
        (f"anthropic-ratelimit-{kind}-remaining", f"anthropic-ratelimit-{kind}-reset"),
    )
)
_UNITS_S = {"d": 86_400.0, "h": 3600.0, "m": 60.0, "s": 1.0, "ms": 0.001}
_PARTS = re.compile(r"(\d+(?:\.\d+)?)(ms|[dhms])")


@record
class RatesLeft:
    """What may be sent before a limit of the endpoint is reached.

    requests: None if the endpoint does not say. pause_s: until something is left again, if nothing is left.
    """

    requests: int | None
    pause_s: float = 0.0


def rates_left(headers: Mapping[str, str]) -> RatesLeft | None:
    """Return what the headers of an answer say; None if they say nothing.

    >>> rates_left({"x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": "1m6s"})
    RatesLeft(requests=0, pause_s=66.0)
    """
    requests = None
    pauses = [0.0]
    is_known = False
    for kind, left_name, reset_name in _HEADERS:
        left = headers.get(left_name, "")
        if not left.isdecimal():
            continue
        is_known = True
        if kind == "requests":
            requests = int(left)
        if int(left) == 0:
            pauses.append(_seconds(headers.get(reset_name, "")))
    return RatesLeft(requests, max(pauses)) if is_known else None


def _seconds(reset: str) -> float:
    """Of `1s`, `6m0s`, `20ms`, `12.5` or a time such as `2026-01-27T12:00:05Z`; 0 for anything else."""
    reset = reset.strip()
    if "".join(number + unit for number, unit in _PARTS.findall(reset)) == reset and reset:
        return sum(float(number) * _UNITS_S[unit] for number, unit in _PARTS.findall(reset))
    try:
        return max(0.0, float(reset))
    except ValueError:
        pass
    try:
        until = datetime.fromisoformat(reset)
    except ValueError:
        return 0.0
    return max(0.0, (until - datetime.now(UTC)).total_seconds()) if until.tzinfo else 0.0
