"""Names of the prompt texts of a workflow: `node.role`, with a number behind a repeated role."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable


def role_names(roles: Iterable[str]) -> list[str]:
    """One name for each: ["system", "user", "user"] -> ["system", "user", "user2"]."""
    seen: Counter[str] = Counter()
    names = []
    for role in roles:
        seen[role] += 1
        names.append(role if seen[role] == 1 else f"{role}{seen[role]}")
    return names


def component_name(node_id: str, role: str) -> str:
    return f"{node_id}.{role}"
