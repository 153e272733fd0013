"""The line that tells what was changed in a prompt: its parts, and which two lines tell the same."""

from __future__ import annotations

import re
import unicodedata
from enum import Enum

from autoprompt.scripts import is_unparted, runs, signs

ADDED = "added: "
REMOVED = " | removed: "
_ONLY_REMOVED = "removed: "
_SURELY_WHOLE = 200  # characters; a longer line that ends in an ellipsis may have been cut

# Words that turn a change into another one: 8 examples or 16, with reasons or without.
_TURN = re.compile(
    r"\d+|not|no|never|none|with(?:out)?|less|fewer|more|avoid|keep|remove[ds]?|drop(?:ped)?|delete[ds]?"
    r"|always|only|.*n['’]t"
)
_ARTICLES = {"a", "an", "the"}  # "a single digit" is "one digit"
# What counts although no word holds it: +1 or -1, < or >, 10 or 10%.
_SYMBOL = re.compile(r"(?<!\w)[-−](?=\d)|[^\w\s]")
_SYMBOL_KINDS = ("Sm", "Sc", "So")
_FEWEST_WORDS = 5  # of a text in which another word for one of them leaves the sense


class Likeness(Enum):
    """How two changes compare: the same words but for case and punctuation, one word exchanged, or unlike."""

    SAME = "same"
    NEAR = "near"
    UNLIKE = "unlike"


def is_cut(change: str) -> bool:
    """Whether the end of the line may be missing."""
    return change.endswith("…") and len(change) >= _SURELY_WHOLE


def is_content_cut(change: str) -> bool:
    """Whether a part of what `likeness` compares may be missing."""
    return is_cut(change) and not (change.startswith(ADDED) and REMOVED in change)


def likeness(a: str, b: str) -> Likeness:
    """Compares what was added, and where nothing was, what was removed.

    What a rewrite removed is mostly the old prompt, the same in the lines of all its rewrites. But whether
    anything was removed counts: of a line that only adds, the sentence is used again on its own.
    Rather too strict: a lesson that stands there twice costs a line, two that are joined under the words of
    one say of the other what was never measured.
    """
    (left_kind, left), (right_kind, right) = _content(a), _content(b)
    if left_kind != right_kind:
        return Likeness.UNLIKE
    one, other = _units(left), _units(right)
    if one == other:
        is_same = bool(one) or left.split() == right.split()
        return Likeness.SAME if is_same else Likeness.UNLIKE
    # A word that one of both has more than the other has no counterpart: in many languages that is a "not".
    if len(one) != len(other) or len(one) < _FEWEST_WORDS:
        return Likeness.UNLIKE
    exchanged = [pair for pair in zip(one, other, strict=True) if pair[0] != pair[1]]
    return Likeness.NEAR if len(exchanged) == 1 and _is_exchange(*exchanged[0]) else Likeness.UNLIKE


def _content(change: str) -> tuple[str, str]:
    """What kind of change it is, and the text to compare."""
    if not change.startswith(ADDED):
        is_removal = change.startswith(_ONLY_REMOVED)
        return ("removed", change.removeprefix(_ONLY_REMOVED)) if is_removal else ("added", change)
    text, mark, _ = change.removeprefix(ADDED).partition(REMOVED)
    return ("both" if mark else "added"), text


def _units(text: str) -> list[str]:
    """Words, single signs of scripts that do not part them, and the symbols that count, in folded case."""
    text = unicodedata.normalize("NFKC", text)
    words = [
        part
        for run in runs(text)
        if run not in _ARTICLES  # in lower case alone: A may be an answer
        for part in (signs(run) if is_unparted(run) else [run])
    ]
    symbols = [
        symbol
        for symbol in _SYMBOL.findall(text)
        if symbol in "-−%" or unicodedata.category(symbol) in _SYMBOL_KINDS
    ]
    return [unit.casefold() for unit in (*words, *symbols)]


def _is_exchange(one: str, other: str) -> bool:
    """Whether one word may stand for the other.

    Not a sign of a script that does not part its words: it is half a word, and 前 for 后 turns the sense. Not
    a word that is a part of the other: many languages write the "not" on, as in unclear.
    """
    pair = (one, other)
    return (
        all(word[0].isalpha() and not is_unparted(word) and not _TURN.fullmatch(word) for word in pair)
        and one not in other
        and other not in one
    )
