"""Names of the prompt texts of a workflow: `node.role`, with a number behind a repeated role."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from autoprompt.workflow.definition import Definition


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


def components(definition: Definition) -> dict[str, str]:
    """Every prompt text of a workflow, virtual and inner nodes included, by name."""
    return {
        component_name(node.id, role): text
        for node in definition.all_nodes()
        for role, text in node.executor.component_texts(node.data).items()
    }


def locked_components(definition: Definition) -> tuple[str, ...]:
    """Names of the texts that must stay as they are, as their nodes say."""
    return tuple(
        component_name(node.id, role)
        for node in definition.all_nodes()
        for role in node.executor.component_texts(node.data)
        if node.locked
    )
