"""A request of a program with a candidate's texts and demonstrations in it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from autoprompt.programs.dialects import Dialect, Part, with_text
from autoprompt.programs.placing import Placed, placed_texts
from autoprompt.records import Demo


@dataclass(frozen=True, slots=True)
class Substituted:
    """A request as it is sent.

    parts: its texts as the program meant them. names: the components that it is sent with. can_demo: whether
    demonstrations can be shown in it.
    """

    body: Mapping[str, Any]
    parts: tuple[Part, ...]
    names: tuple[str, ...]
    can_demo: bool


def substituted(
    dialect: Dialect,
    site: str,
    body: Mapping[str, Any],
    *,
    placed: Sequence[Placed],
    texts: Mapping[str, str],
    demos: Mapping[str, Sequence[Demo]],
    uses: Sequence[tuple[str, str]],
) -> Substituted:
    """Return a request with other texts in the places of its own.

    uses: as in `placed_texts`.
    """
    parts = tuple(dialect.parts(body))
    names, changed = placed_texts(site, parts, placed, texts, uses)
    new = with_text(body, changed) if changed else body
    shown = [demo for name in names for demo in demos.get(name, ())]
    can_demo = [part.role for part in parts] == ["system", "user"]  # one of each, and no tools
    if shown and can_demo:
        new = _with_turns(dialect, new, shown)
    return Substituted(new, parts, names, can_demo)


def _with_turns(dialect: Dialect, body: Mapping[str, Any], demos: Sequence[Demo]) -> dict[str, Any]:
    """A body with demonstrations before its last message, in the words of its API."""
    changed = dict(body)
    if dialect.name == "generateContent":
        turns = [
            {"role": role, "parts": [{"text": text}]}
            for demo in demos
            for role, text in (("user", demo.asked), ("model", demo.output))
        ]
        changed["contents"] = [*turns, *body["contents"]]
        return changed
    name = "input" if dialect.name == "responses" else "messages"
    shown = [
        {"role": role, "content": text}
        for demo in demos
        for role, text in (("user", demo.asked), ("assistant", demo.output))
    ]
    had = body[name]
    listed = [{"role": "user", "content": had}] if isinstance(had, str) else list(had)
    changed[name] = [*listed[:-1], *shown, listed[-1]]
    return changed
