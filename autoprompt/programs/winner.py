"""A program with the texts and demonstrations of a candidate in its requests, outside of any run."""

from __future__ import annotations

import difflib
import re
import threading
import warnings
from collections import Counter
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
from autoprompt.programs.scope import Seen
from autoprompt.records import Candidate, Demo
from autoprompt.text.names import listed

_SHOWN = 80  # characters of a text that differs
_ENOUGH_ROWS = 5  # in which a component's place has another text, and none that has its own


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
        """Return the winner of a candidate.

        Raises:
            ConfigError: For one that is no program's.
        """
        placed = places_of(candidate)
        if placed is None:
            said = "expected the texts of a program, found a prompt or a workflow"
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
        if (at := _part_at(one, parts)) is not None
        and not _is_in_place(one, texts.get(one.name, one.original), at)
    ]


class ChangedTexts:
    """Notes components whose place in requests has another text in this process than when they were found.

    Such as a text with the day on which the program was imported. A candidate's texts would not be sent then.
    """

    def __init__(self, placed: Sequence[Placed]) -> None:
        self._placed = placed
        self._open = {one.name for one in placed}  # that no request of this process has had
        self._rows: Counter[str] = Counter()
        self._lock = threading.Lock()

    def note(self, requests: Sequence[Seen]) -> bool:
        """Return whether a row's requests have another text at the place of a component not met so far.

        Raises:
            ConfigError: For the last of `_ENOUGH_ROWS` of such rows: one may be a branch that is new.
        """
        if not self._open:
            return False
        with self._lock:
            self._open -= {name for request in requests for name in request.names}
            changed = {
                one.name: (one, request)
                for request in requests
                for one in misplaced(self._placed, {}, request.site, request.parts, request.names)
                if one.name in self._open
            }
            self._rows.update(changed.keys())
        for name, (one, request) in changed.items():
            if self._rows[name] >= _ENOUGH_ROWS:
                now = _part_at(one, request.parts) or ""
                said = f"the text of {name} changed since the run began: {difference(one.original, now)}"
                fix = "Restore the text and resume, or start a new run. Keep changing parts out of the text."
                raise ConfigError(Problem("program.text-changed", said, request.place, fix))
        return bool(changed)


def _part_at(placed: Placed, parts: Sequence[Part]) -> str | None:
    """Return the text of a request at the place of a component, if it has one there."""
    alike = [part.text for part in parts if (part.role, part.name) == (placed.role, placed.tool)]
    order = 0 if placed.tool else placed.order
    return alike[order] if order < len(alike) else None


def other_text(name: str) -> str:
    """Return the words of a warning of such a component."""
    return f"the text of {name} is not the one that was optimized, so it is sent as it is"


def difference(one: str, other: str) -> str:
    """Quote the words of two texts from the first that differs to the last, with a few around them."""
    mine, theirs = one.split(), other.split()
    ops = difflib.SequenceMatcher(None, mine, theirs, autojunk=False).get_opcodes()
    differing = [op for op in ops if op[0] != "equal"]
    if not differing:
        return "only in its spaces"
    (_, a, _, c, _), (_, _, b, _, d) = differing[0], differing[-1]
    first, second = (" ".join(w[max(0, i - 3) : j + 2]) for w, i, j in ((mine, a, b), (theirs, c, d)))
    return f"{first[:_SHOWN]!r}, then {second[:_SHOWN]!r}"


def _is_in_place(placed: Placed, new: str, text: str) -> bool:
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
