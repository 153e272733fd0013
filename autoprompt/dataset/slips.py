"""Whether a label that was seen once is a slip of another one."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Mapping
from difflib import get_close_matches

from autoprompt.text.answers.label_words import label_key
from autoprompt.text.scripts import HANGUL, UNPARTED, signs

_FEWEST_LETTERS = 4  # of a label in which one wrong letter, or a swap, is a slip
_SYLLABIC = re.compile(f"[{UNPARTED}{HANGUL}]+")  # where two signs are a whole word


def keyed(labels: Iterable[str]) -> dict[str, str]:
    """Return label key -> label: what `meant` compares with."""
    return {label_key(label): label for label in labels}


def meant(label: str, others: Mapping[str, str]) -> str | None:
    """Return the label that this one may be a slip of.

    Not where a number or a word in front tells the two apart. others: see `keyed`.
    """
    key = label_key(label)
    # On few letters difflib's ratio is low where one is wrong: 0.75 of 4.
    slips = (other for other in others if _is_one_slip(key, other))
    for close in (*get_close_matches(key, others, n=1, cutoff=0.8), *slips):
        is_meant = re.findall(r"\d+", key) == re.findall(r"\d+", close)
        if is_meant and not (key.endswith(close) or close.endswith(key)):
            return others[close]
    return None


def _is_one_slip(a: str, b: str) -> bool:
    """Whether one sign differs, or two neighbours are swapped.

    Of two or three letters neither is a slip (en, es; bad, sad; no, on). Of Chinese, and its like, one sign
    of two is, but not the first, which is a word in front (好评, 差评); a swap is not (名人, 人名).
    """
    is_syllabic = _SYLLABIC.fullmatch(a) is not None
    one, other = (signs(a), signs(b)) if is_syllabic else (list(a), list(b))
    if len(one) != len(other):
        return False
    at = [n for n, (x, y) in enumerate(zip(one, other, strict=True)) if x != y]
    if len(at) == 1:
        return at[0] > 0 if is_syllabic else len(one) >= _FEWEST_LETTERS
    if len(at) != 2 or len(one) < _FEWEST_LETTERS:
        return False
    first, last = at
    is_swap = (one[first], one[last]) == (other[last], other[first])
    # A mark stays where it stood when the letters around it are swapped: प्रसंशा for प्रशंसा.
    return is_swap and all(unicodedata.category(sign).startswith("M") for sign in one[first + 1 : last])
