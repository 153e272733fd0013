"""What changed in a text, word by word, so that a person sees it at a glance."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

Kind = Literal["same", "removed", "added"]
_Opcode = tuple[str, int, int, int, int]

# Chinese and Japanese have no blanks between words: there each character is one.
_IDEOGRAPH = "\u3005-\u3007\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
_WORD = re.compile(rf"(\s*)([{_IDEOGRAPH}]|(?:(?![{_IDEOGRAPH}])\w)+|[^\w\s])")
# Where less than this share of the shorter text stayed, a diff by words is harder to read than both texts.
_ALIKE = 0.6
# Pairs of words beyond which a diff by words takes seconds: 2,000 against 2,000 took 0.3 s.
_MOST_PAIRS = 4_000_000


@dataclass(frozen=True, slots=True)
class Piece:
    """A stretch of text that stayed, went or came."""

    kind: Kind
    text: str


def diff_words(old: str, new: str) -> tuple[Piece, ...]:
    """Pieces that give `new` without the removed ones, and but for blanks `old` without the added ones.

    A change of blanks alone is none. Texts with little in common, and very long ones, are compared line by
    line, in which what belongs together stays together.
    """
    if old == new:
        return (Piece("same", old),) if old else ()
    words = [_WORD.findall(text) for text in (old, new)]
    if len(words[0]) * len(words[1]) > _MOST_PAIRS:
        return _by_lines(old, new)
    opcodes = _opcodes([word for _, word in words[0]], [word for _, word in words[1]])
    kept = sum(end - start for kind, start, end, _, _ in opcodes if kind == "equal")
    if kept < _ALIKE * min(map(len, words)):
        return _by_lines(old, new)
    opcodes = _without_crumbs(opcodes)
    tail = new[len(new.rstrip()) :]
    return _merged(
        [*_pieces(opcodes, *(["".join(pair) for pair in text] for text in words)), Piece("same", tail)]
    )


def is_rewritten(pieces: Sequence[Piece]) -> bool:
    """Return whether so little stayed that both texts are better read as wholes."""
    kept = sum(len(piece.text.strip()) for piece in pieces if piece.kind == "same")
    return kept * 2 < sum(len(piece.text.strip()) for piece in pieces if piece.kind == "added")


def is_linewise(pieces: Sequence[Piece]) -> bool:
    """Return whether each piece is whole lines, so that they can be written under each other."""
    for number, piece in enumerate(pieces):
        goes_on = any(
            later.kind == "same" or piece.kind in (later.kind, "same") for later in pieces[number + 1 :]
        )
        if goes_on and not piece.text.endswith("\n"):
            return False
    return True


def _by_lines(old: str, new: str) -> tuple[Piece, ...]:
    lines = [text.splitlines(keepends=True) for text in (old, new)]
    if len(lines[0]) * len(lines[1]) > _MOST_PAIRS:
        return _merged([Piece("removed", old), Piece("added", new)])
    # A last line without its end would differ from the same line in the middle.
    return _merged(_pieces(_opcodes(*([line.rstrip() for line in text] for text in lines)), *lines))


def _opcodes(old: Sequence[str], new: Sequence[str]) -> list[_Opcode]:
    """Return those of difflib, in linear time for what both texts begin and end with."""
    shorter = min(len(old), len(new))
    head = next((n for n in range(shorter) if old[n] != new[n]), shorter)
    left = shorter - head
    tail = next((n for n in range(left) if old[-1 - n] != new[-1 - n]), left)
    middle = difflib.SequenceMatcher(
        None, old[head : len(old) - tail], new[head : len(new) - tail], autojunk=False
    )
    found: list[_Opcode] = [("equal", 0, head, 0, head)] if head else []
    found += [(kind, a + head, b + head, c + head, d + head) for kind, a, b, c, d in middle.get_opcodes()]
    if tail:
        found.append(("equal", len(old) - tail, len(old), len(new) - tail, len(new)))
    return found


def _without_crumbs(opcodes: Sequence[_Opcode]) -> list[_Opcode]:
    """One or two words that stayed between two larger changes are part of the change to a reader."""
    found: list[_Opcode] = []
    for number, (kind, a, b, c, d) in enumerate(opcodes):
        is_between = 0 < number < len(opcodes) - 1
        if kind == "equal" and is_between and b - a <= 2:
            before, after = opcodes[number - 1], opcodes[number + 1]
            if all(max(op[2] - op[1], op[4] - op[3]) > 2 for op in (before, after)):
                kind = "replace"
        if kind != "equal" and found and found[-1][0] != "equal":
            _, first_a, _, first_c, _ = found.pop()
            a, c = first_a, first_c
        found.append((kind, a, b, c, d))
    return found


def _pieces(opcodes: Sequence[_Opcode], old: Sequence[str], new: Sequence[str]) -> Iterator[Piece]:
    for kind, a, b, c, d in opcodes:
        if kind == "equal":
            yield Piece("same", "".join(new[c:d]))
            continue
        yield Piece("removed", "".join(old[a:b]))
        yield Piece("added", "".join(new[c:d]))


def _merged(pieces: Sequence[Piece] | Iterator[Piece]) -> tuple[Piece, ...]:
    """Neighbours of one kind as one piece, empty ones left out."""
    found: list[Piece] = []
    for piece in pieces:
        if not piece.text:
            continue
        if found and found[-1].kind == piece.kind:
            piece = Piece(piece.kind, found.pop().text + piece.text)
        found.append(piece)
    return tuple(found)
