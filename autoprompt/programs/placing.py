"""Where a component's text is in a program's requests, and a request with other texts and demonstrations."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from autoprompt.brief import brief
from autoprompt.measure.task import ComponentKind
from autoprompt.programs.dialects import Dialect, Part, Path, Role, with_text
from autoprompt.records import Demo

HOLE = re.compile(r"\{([^\W\d][\w.]*)\}")


def hole_of(name: str) -> str:
    """Return the name of the hole for a field or a node: `route-ticket` -> `route_ticket`."""
    plain = re.sub(r"[^\w.]", "_", name)
    return plain if re.match(r"[^\W\d]", plain) else f"_{plain}"


@dataclass(frozen=True)
class Placed:
    """Where a text is in the program's requests."""

    name: str
    """Name of the component."""
    kind: ComponentKind
    """What the text is."""
    site: str
    """Call that sends it."""
    role: Role
    """Role of the message."""
    original: str
    """The text that the program sends."""
    tool: str = ""
    """Tool that a description belongs to."""
    order: int = 0
    """Place among the texts of this call and role, from 0."""
    file: str = field(default="", compare=False)
    """File of the call; empty if unknown."""
    line: int = field(default=0, compare=False)
    """Line of the call, from 1; 0 if unknown."""

    __repr__ = brief

    @cached_property
    def holes(self) -> tuple[str, ...]:
        return tuple(HOLE.findall(self.original)) if self.kind == "template" else ()

    @cached_property
    def _pattern(self) -> re.Pattern[str]:
        """The original with a group for each of its holes; where one comes again, the same text."""
        groups: dict[str, int] = {}
        written, last = "", 0
        for match in HOLE.finditer(self.original) if self.holes else ():
            written += re.escape(self.original[last : match.start()])
            written += f"(?:\\{groups[match[1]]})" if match[1] in groups else "(.*?)"
            groups.setdefault(match[1], len(groups) + 1)
            last = match.end()
        return re.compile(written + re.escape(self.original[last:]), re.DOTALL)

    def values(self, text: str) -> dict[str, str] | None:
        """Return what is in the holes of a text; None for another text."""
        match = self._pattern.fullmatch(text)
        return None if match is None else dict(zip(dict.fromkeys(self.holes), match.groups(), strict=True))

    def filled(self, text: str, values: Mapping[str, str]) -> str:
        """Return a candidate's text with the values of a request in its holes."""
        if not self.holes:
            return text
        return HOLE.sub(lambda m: values.get(m[1], m[0]), text)


def placed_texts(
    site: str,
    parts: Sequence[Part],
    placed: Sequence[Placed],
    texts: Mapping[str, str],
    uses: Sequence[tuple[str, str]],
) -> tuple[tuple[str, ...], dict[Path, str]]:
    """Return the components that a request is sent with, and the texts to put in their places.

    uses: declared prompts that were read, with the text that they had; they need no placing.
    """
    names: list[str] = []
    changed: dict[Path, str] = {}
    for part in parts:
        for name, text in uses:
            if text and text in part.text and name not in names:
                names.append(name)
    counts: dict[str, int] = {}
    for part in parts:
        order = counts.get(part.role, 0)
        counts[part.role] = order + 1
        for component in placed:
            if component.site != site or component.role != part.role or component.tool != part.name:
                continue
            if part.role in ("system", "user") and component.order != order:
                continue
            values = component.values(part.text)
            if values is not None:
                names.append(component.name)
                text = texts.get(component.name, component.original)
                if text != component.original:
                    changed[part.path] = component.filled(text, values)
                break
    return tuple(names), changed


# --- a request with other texts and with demonstrations ---


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
    """Return a body with demonstrations before its last message, in the words of its API."""
    said = [
        (role, text)
        for demo in demos
        for role, text in zip(dialect.speakers, (demo.asked, demo.output), strict=True)
    ]
    if dialect.name == "generateContent":
        turns = [{"role": role, "parts": [{"text": text}]} for role, text in said]
        return {**body, "contents": [*turns, *body["contents"]]}
    name = "input" if dialect.name == "responses" else "messages"
    had = body[name]
    listed = [{"role": "user", "content": had}] if isinstance(had, str) else list(had)
    shown = [{"role": role, "content": text} for role, text in said]
    return {**body, name: [*listed[:-1], *shown, listed[-1]]}
