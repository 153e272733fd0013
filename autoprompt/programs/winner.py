"""A program with the texts and demonstrations of a candidate in its requests, outside of any run."""

from __future__ import annotations

import re
import threading
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import cached_property
from string import Formatter
from typing import Any

from autoprompt.errors import ConfigError, Problem
from autoprompt.programs.dialects import Dialect, Part
from autoprompt.programs.export import places_of
from autoprompt.programs.placing import Placed, substituted
from autoprompt.records import Candidate, Demo
from autoprompt.text.names import listed


@dataclass(frozen=True)
class Winner:
    """A candidate at work. texts, demos: by component. placed: those that are found in requests."""

    texts: Mapping[str, str]
    placed: Sequence[Placed]
    demos: Mapping[str, Sequence[Demo]]
    _warned: set[str] = field(default_factory=set, compare=False)
    _fitting: set[str] = field(default_factory=set, compare=False)  # components that a request was sent with

    @classmethod
    def of(cls, candidate: Candidate) -> Winner:
        """Return the winner of a candidate. Raises ConfigError for one that is no program's."""
        placed = places_of(candidate)
        if placed is None:
            said = "these are the texts of a prompt or a workflow, expected those of a program"
            fix = "Give an export of a run that was started with {program}."
            raise ConfigError(Problem("program.not-a-program", said, fix=fix, settings={"program": None}))
        demos: dict[str, list[Demo]] = {}
        for demo in candidate.demos:
            demos.setdefault(demo.component, []).append(demo)
        return cls(candidate.components, placed, demos)

    @cached_property
    def _declared(self) -> tuple[tuple[str, re.Pattern[str]], ...]:
        """Of the declared prompts with demonstrations the name, and what their text looks like when sent."""
        found = {placed.name for placed in self.placed}
        return tuple((name, _filled(self.texts[name])) for name in self.demos if name not in found)

    def put_into(self, dialect: Dialect, site: str, body: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return a request with the winner's texts and demonstrations; itself if none belong there."""
        uses = [
            (name, match[0])
            for name, pattern in self._declared
            for part in dialect.parts(body)
            if (match := pattern.search(part.text)) is not None
        ]
        found = substituted(
            dialect, site, body, placed=self.placed, texts=self.texts, demos=self.demos, uses=uses
        )
        self._warn_of_misfits(site, found.parts, found.names)
        return found.body

    def _warn_of_misfits(self, site: str, parts: Sequence[Part], names: Sequence[str]) -> None:
        """Warn once of a text that the source does not have any more, and of an export that fits no request.

        Only of places with one text for all rows: a user's message is another one each time.
        """
        self._fitting.update(names)
        sites = sorted({placed.site for placed in self.placed})
        if not self._fitting and site not in sites and self.texts.keys() <= {p.name for p in self.placed}:
            self._warn("", f"no text of the winner belongs to the requests of {site}, but to {listed(sites)}")
        for placed in misplaced(self.placed, self.texts, site, parts, names):
            new = self.texts.get(placed.name, placed.original)
            if placed.role != "user" and new != placed.original:
                self._warn(placed.name, other_text(placed.name))

    def _warn(self, name: str, said: str) -> None:
        if name not in self._warned:
            self._warned.add(name)
            warnings.warn(f"autoprompt: {said}", stacklevel=2)


def misplaced(
    placed: Sequence[Placed],
    texts: Mapping[str, str],
    site: str,
    parts: Sequence[Part],
    names: Sequence[str],
) -> list[Placed]:
    """Return the components whose place in a request has a text that is neither theirs nor another one's.

    Args:
        texts: The new ones: the source may hold them by now.
        names: Of the components that the request is sent with.
    """
    known = {(p.role, p.tool, p.order) for p in placed if p.name in names}
    here = [p for p in placed if p.site == site and (p.role, p.tool, p.order) not in known]
    return [
        one
        for one in here
        if (at := _part_at(one, parts)) is not None and not _is(one, texts.get(one.name, one.original), at)
    ]


def _part_at(placed: Placed, parts: Sequence[Part]) -> str | None:
    """Return the text of a request at the place of a component, if it has one there."""
    alike = [part.text for part in parts if (part.role, part.name) == (placed.role, placed.tool)]
    order = 0 if placed.tool else placed.order
    return alike[order] if order < len(alike) else None


def other_text(name: str) -> str:
    """Return the words of a warning of such a component."""
    return f"the text of {name} is not the one that was optimized, so it is sent as it is"


def _is(placed: Placed, new: str, text: str) -> bool:
    """Return whether a text is the winner's already: its source may hold it by now."""
    plain = Placed(placed.name, placed.kind, placed.site, placed.role, new, placed.tool, placed.order)
    return plain.values(text) is not None


def _filled(text: str) -> re.Pattern[str]:
    """Return what a prompt's text looks like as it is, or with its holes filled in."""
    try:
        parts = list(Formatter().parse(text))
    except ValueError:
        return re.compile(re.escape(text))
    filled = "".join(re.escape(plain) + (".*?" if hole is not None else "") for plain, hole, _, _ in parts)
    return re.compile(f"{re.escape(text)}|{filled}", re.DOTALL)


_here: ContextVar[Winner | None] = ContextVar("autoprompt_winner", default=None)
_lock = threading.Lock()
_everywhere: Winner | None = None  # in this process


def winner() -> Winner | None:
    """Return the winner that is at work here, if one is."""
    return _here.get() or _everywhere


def is_carried() -> bool:
    """Return whether threads that begin here have to be told of the winner."""
    return _here.get() is not None


def set_everywhere(chosen: Winner | None) -> Winner | None:
    """Set the winner of this process; return the one before."""
    global _everywhere
    with _lock:
        was, _everywhere = _everywhere, chosen
    return was


@contextmanager
def set_here(chosen: Winner) -> Iterator[None]:
    """Set the winner of this context while the block runs."""
    token = _here.set(chosen)
    try:
        yield
    finally:
        _here.reset(token)
