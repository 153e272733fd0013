"""Where the labels of a set occur in a text as words: in time that grows with the text, not with the set."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import NamedTuple

from autoprompt.text.answers.borders import Border, borders_of, borders_of_number
from autoprompt.text.scripts import MARKS

JOINT = re.compile(rf"(?<=(?!_)[\w{MARKS}])[\s_\-]+(?=(?!_)[\w{MARKS}])")  # between the words of a label
_GAP = re.compile(r"[\s_\-]*")  # what a text may have there: "non clickbait", "NonClickbait"
_PARTED = "\n"  # a joint in the index: the forms of labels hold spaces alone


class Found(NamedTuple):
    """A label in a text."""

    label: str
    start: int
    end: int

    @property
    def span(self) -> tuple[int, int]:
        return self.start, self.end


@dataclass(frozen=True, slots=True)
class _Word:
    """A way to write a label. rank: that of its label, the longest first."""

    label: str
    form: str
    rank: int
    borders: tuple[Border, ...]


@dataclass(slots=True)
class _Node:
    """The words that begin alike. They are parted by their next character when a text first comes here."""

    words: list[_Word]
    depth: int
    ended: list[_Word] = field(default_factory=list)
    children: dict[str, _Node] | None = None

    def parted(self) -> dict[str, _Node]:
        if self.children is None:
            children: dict[str, _Node] = {}
            ended: list[_Word] = []
            for word in self.words:
                if len(word.form) == self.depth:
                    ended.append(word)
                else:
                    children.setdefault(word.form[self.depth], _Node([], self.depth + 1)).words.append(word)
            # In this order: another thread may be here, and reads `ended` after `children`.
            self.ended, self.children = ended, children
        return self.children


class LabelIndex:
    """The labels of a set by their characters.

    Args:
        forms: Label to how it is written, without marks around it; the longest first.
        numbers: Label to its number, of labels that are whole numbers.
        tail: Pattern of what belongs to a number, see `borders_of_number`.
    """

    def __init__(self, forms: Mapping[str, str], numbers: Mapping[str, str], tail: str) -> None:
        has_signs = any(number.startswith("-") for number in numbers.values())
        words: list[_Word] = []
        for rank, (label, form) in enumerate(forms.items()):
            if (number := numbers.get(label)) is None:
                words.append(_Word(label, folded(JOINT.sub(_PARTED, form)), rank, borders_of(form)))
                continue
            borders = borders_of_number(tail, is_negative=number.startswith("-"))
            words.append(_Word(label, number, rank, borders))
            if has_signs and not number.startswith("-"):
                words.append(_Word(label, f"+{number}", rank, borders))
        self._root = _Node(words, 0)
        self._starts = _starts(self._root.parted())

    def find(self, text: str) -> list[Found]:
        """Return the labels of `text`, the first first; of those that begin at one place the longest."""
        found: list[Found] = []
        if self._starts is None:
            return found
        lowered, at = folded(text), 0
        while (start := self._starts.search(lowered, at)) is not None:
            at = start.start()
            if (here := self._at(text, lowered, at)) is None:
                at += 1
            else:
                found.append(here)
                at = here.end
        return found

    def _at(self, text: str, lowered: str, start: int) -> Found | None:
        """The longest label that begins there."""
        ends: list[tuple[int, int, _Word]] = []
        ways = [(self._root, start)]
        while ways:
            node, at = ways.pop()
            if len(node.words) == 1 and node.depth:
                word = node.words[0]
                if (end := _end(word.form, node.depth, lowered, at)) >= 0:
                    ends.append((word.rank, end, word))
                continue
            children = node.parted()
            ends += [(word.rank, at, word) for word in node.ended]
            if (joint := children.get(_PARTED)) is not None:
                ways.append((joint, _gap_end(lowered, at)))
            if (child := children.get(lowered[at : at + 1])) is not None:
                ways.append((child, at + 1))
        for _, end, word in sorted(ends, key=lambda way: way[:2]):
            for border in word.borders:
                if (whole := border.end(text, start, end)) >= 0:
                    return Found(word.label, start, whole)
        return None


def folded(text: str) -> str:
    """`text` without case, of the same length: places in it are places in `text`."""
    whole = text.casefold()
    return whole if len(whole) == len(text) else "".join(map(_fold, text))


@cache
def _fold(character: str) -> str:
    whole = character.casefold()
    return whole if len(whole) == 1 else character.lower()[0]


def _gap_end(text: str, at: int) -> int:
    gap = _GAP.match(text, at)
    return gap.end() if gap else at


def _end(form: str, depth: int, text: str, at: int) -> int:
    """Where a word ends whose first `depth` characters were read up to `at`; -1 where it is another."""
    first, *others = form[depth:].split(_PARTED)
    for number, part in enumerate((first, *others)):
        at = _gap_end(text, at) if number else at
        if not text.startswith(part, at):
            return -1
        at += len(part)
    return at


def _starts(children: Mapping[str, object]) -> re.Pattern[str] | None:
    if not children:
        return None
    # Inside a word of ASCII no label begins: `borders` says so too, and here it costs nothing.
    inner = "".join(re.escape(c) for c in children if c.isascii() and c.isalnum())
    other = "".join(re.escape(c) for c in children if not (c.isascii() and c.isalnum()))
    parts = [rf"(?<![A-Za-z0-9])[{inner}]"] if inner else []
    return re.compile("|".join([*parts, *([f"[{other}]"] if other else [])]))
