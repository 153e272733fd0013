"""The line that tells what was changed in a prompt: its parts, and a digest to tell two changes apart."""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Iterator
from itertools import groupby

from autoprompt.text.scripts import is_unparted, runs, signs

ADDED = "added: "
REMOVED = " | removed: "
JOINT = "; and "  # between what a text says anew and the demonstrations that came with it
_SURELY_WHOLE = 200  # characters; a longer line that ends in an ellipsis may have been cut

# What counts although no word holds it: +1 or -1, < or >, 10 or 10%, $ or €, ✓ or ✗.
_SYMBOL_KINDS = ("Sm", "Sc", "So")
_WITH_DEMOS = re.compile(rf"{re.escape(JOINT)}\d+ demonstrations?\b[^;]*$")


def is_cut(change: str) -> bool:
    """Whether the end of the line may be missing."""
    return change.endswith("…") and len(change) >= _SURELY_WHOLE


def has_demos(change: str) -> bool:
    """Whether demonstrations came with the text that the line tells of: what these did is not told apart."""
    return _WITH_DEMOS.search(change) is not None


def digest(change: str) -> str:
    """Twelve hex digits, the same for two changes that are the same but for case, spacing and punctuation.

    Of what was added, and where nothing was, of what was removed. What a rewrite removed is mostly the old
    prompt, the same in the lines of all its rewrites. But whether anything was removed counts: of a line that
    only adds, the sentence is used again on its own.
    Another word is another change, as "first" for "last" is: a lesson that stands there twice costs a line,
    two that are joined under the words of one say of the other what was never measured.
    """
    text, removal, _ = change.removeprefix(ADDED).partition(REMOVED)
    units = _units(text) or text.split()
    return hashlib.sha256("\n".join([removal, *units]).encode(errors="replace")).hexdigest()[:12]


def cut_mark(line: str, whole: str) -> str:
    """The digests of a line and of the change that it tells a part of; "" where it tells the whole."""
    shown, meant = digest(line), digest(whole)
    return "" if shown == meant else f"{shown} of {meant}"


def _units(text: str) -> list[str]:
    """Words, single signs of scripts that do not part them, and the symbols that count, in folded case."""
    units: list[str] = []
    for is_symbol, part in _parts(unicodedata.normalize("NFKC", text).casefold()):
        for run in [part] if is_symbol else runs(part):
            units += signs(run) if is_unparted(run) else [run]
    return units


def _parts(text: str) -> Iterator[tuple[bool, str]]:
    """Symbols and what stands between them, in turn. A file has thousands of lines, mostly of ASCII."""
    if text.isascii():
        return ((number % 2 == 1, part) for number, part in enumerate(_ASCII_SYMBOLS.split(text)) if part)
    return ((is_symbol, "".join(group)) for is_symbol, group in groupby(text, _is_symbol))


def _is_symbol(sign: str) -> bool:
    return sign in "-%" or unicodedata.category(sign) in _SYMBOL_KINDS


_ASCII_SYMBOLS = re.compile(f"([{re.escape(''.join(filter(_is_symbol, map(chr, range(128)))))}]+)")
