"""Columns that name a row and say nothing of its answer: ids, hashes, indexes, times, addresses."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from autoprompt.records import text_of

# A column whose values repeat more often than this may be a part of the input, as a rating or a source.
_DIFFERENT = 0.9
_WITHOUT_WORDS = 0.9  # of the values: an id made at random may spell a word

_NAMED = re.compile(
    r"(?:^|_)(?:id|ids|idx|index|uuid|guid|uid|pk|key|hash|sha\d*|md5|checksum|row|line|number|no|nr|serial"
    r"|ts|time|timestamp|datetime|date|created|updated|at|url|uri|link|href|path|file|filename)$"
)
_ADDRESS = re.compile(
    r"(?:[a-z][a-z0-9+.-]*://|www\.|mailto:)\S+|\S+@\S+\.\w+|\S*[/\\]\S+|\S+\.\w{2,4}", re.IGNORECASE
)
_TIME = re.compile(
    r"\b(?:mon|tues?|wed(?:nes)?|thu(?:rs)?|fri|sat(?:ur)?|sun)(?:day)?\b"
    r"|\b(?:jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sept?(?:ember)?"
    r"|oct(?:ober)?|nov(?:ember)?|dec(?:ember)?)\b"
    r"|\b(?:am|pm|utc|gmt|[a-z]{1,2}[ds]t)\b|(?<=\d)(?:st|nd|rd|th|t|z)(?![^\W\d_])|[年月日时時分秒]",
    re.IGNORECASE,
)
_TOKEN = re.compile(r"[^\W_]+")
_HEX = re.compile(r"[0-9a-f]{8,}", re.IGNORECASE)


def identifying(rows: Sequence[Mapping[str, Any]], names: Sequence[str]) -> set[str]:
    """Return which of the columns `names` tell rows apart without a word that a task could use.

    A column counts if nearly all of its values differ, and no value has a word of its own: uuids, hashes,
    numbers, times, links, paths. The `ticket` of `ticket-17` is no word of its own if most values have it.
    """
    return {name for name in names if _identifies(name, [row[name] for row in rows if name in row])}


def _identifies(name: str, values: Sequence[Any]) -> bool:
    texts = [text for value in values if (text := text_of(value).strip())]
    if not texts or len(set(texts)) < _DIFFERENT * len(texts):
        return False
    is_named = _NAMED.search(re.sub(r"(?<=[a-z])(?=[A-Z])|[\s-]+", "_", name).lower()) is not None
    words = [set(_words(text)) for text in texts]
    times = Counter(word for found in words for word in found)
    shared = {word for word, count in times.items() if 1 < len(texts) < 2 * count}
    without = 0
    for text, found in zip(texts, words, strict=True):
        is_one = not any(map(str.isspace, text))
        own = found - shared if is_one or is_named else found
        without += not own or (is_one and is_named)
    return without >= _WITHOUT_WORDS * len(texts)


def _words(text: str) -> list[str]:
    """Return the words of a value that may say something."""
    if _ADDRESS.fullmatch(text):
        return []
    tokens = _TOKEN.findall(_TIME.sub(" ", text))
    return [token.lower() for token in tokens if _is_word(token)]


def _is_word(token: str) -> bool:
    """Whether a run of letters and digits is a word: no number, no hash, no `aBxK` of a random id."""
    if any(map(str.isdigit, token)) or _HEX.fullmatch(token):
        return False
    is_mixed = any(a.islower() and b.isupper() for a, b in pairwise(token))
    return not is_mixed and (len(token) > 1 or not token.isascii())
