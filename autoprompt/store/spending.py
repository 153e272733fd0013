"""What a run used, by role: from its result, or from its journal while it has none."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROLES = ("task", "optimizer", "judge")


@dataclass(frozen=True, slots=True)
class Spending:
    """What one role used. calls: requests sent, retries included. cost_usd: None where a price is unknown."""

    role: str
    calls: int
    prompt_tokens: int
    completion_tokens: int
    cost_usd: float | None


def read_spending(result: Mapping[str, Any] | None, journal: Path) -> tuple[Spending, ...]:
    """Roles that were called, the task's first."""
    told = (result or {}).get("spending")
    if isinstance(told, Mapping):
        return tuple(Spending(role, **told[role]) for role in ROLES if role in told)
    return from_journal(journal)


def from_journal(path: Path) -> tuple[Spending, ...]:
    """What the answers of a journal took. Those out of the cache took nothing. Unreadable lines are passed
    over: the last one of a run at work may be half written."""
    calls = dict.fromkeys(ROLES, 0)
    prompt, completion = dict.fromkeys(ROLES, 0), dict.fromkeys(ROLES, 0)
    cost: dict[str, float | None] = dict.fromkeys(ROLES, 0.0)
    for record in _records(path):
        role, attempts = record.get("role"), record.get("attempts") or 0
        if role not in calls or not attempts:
            continue
        calls[role] += attempts
        if "failed" in record:
            continue
        prompt[role] += record.get("prompt_tokens") or 0
        completion[role] += record.get("completion_tokens") or 0
        known, paid = cost[role], record.get("cost_usd")
        cost[role] = None if known is None or paid is None else known + paid
    return tuple(
        Spending(role, calls[role], prompt[role], completion[role], cost[role])
        for role in ROLES
        if calls[role]
    )


def _records(path: Path) -> Iterator[dict[str, Any]]:
    if not path.exists():
        return
    with path.open("rb") as lines:
        for line in lines:
            try:
                record = json.loads(line.decode("utf-8", "surrogatepass"))
            except ValueError:
                continue
            if isinstance(record, dict):
                yield record


def total_cost(spending: tuple[Spending, ...]) -> float | None:
    """USD; None as soon as one role's price is unknown."""
    total = 0.0
    for part in spending:
        if part.cost_usd is None:
            return None
        total += part.cost_usd
    return total
