"""JSON inside of more or less text."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from autoprompt.text.answers.texts import visible
from autoprompt.text.answers.wrapping import tagged_answers
from autoprompt.text.patterns import lazy

_FENCE = re.compile(r"(```|~~~)[\w-]*\n?(.*?)\1", re.DOTALL)
# Of the braces of prose, of formulas and of code most begin no JSON: they cost nothing.
_BEGIN = re.compile(r"""\{[ \t\r\n]*["}]|\[[ \t\r\n]*[\]\[{"\d\-tfnNI]""")
# Characters that are read in vain at most: thousands of opening brackets must not cost a quadratic search.
# What fails at once costs a few, too; of what nests without an end it is not told how far it was read.
_MOST_WORK, _LEAST_COST, _ENDLESS_COST = 2_000_000, 200, 10_000
_NONE: Any = object()
# In front of a value that is not the answer, or right behind it.
_ASIDE = lazy(
    r"\b(?:unlike|another|other|different|examples?|e\.g\.|for\s+instance|would|instead\s+of|rather\s+than|not|compare|versus"
    r"|(?:an|ein)other|anders|ander\w+|beispiel\w*|statt|nicht|autre|exemple|au\s+lieu|otr[oa]|ejemplo|en\s+lugar|outr[oa]"
    r"|exemplo|altr[oa]|esempio|друг\w+|пример\w*|вместо)\b|例如|另一|其他|而不是|たとえば|例えば|別の|예를\s*들|다른",
    re.IGNORECASE,
)
_ASIDE_BEHIND = lazy(r"[`\s]*(?:would|wäre|serait|sería|seria|sarebbe|был[аои]?\s+бы)\b", re.IGNORECASE)
_BETTER = lazy(
    r"\b(?:final\w*|correct\w*|wait|actually|revis\w+|updat\w+|fix\w*|improv\w+|better|now|korrig\w+"
    r"|korrekt\w*|endg\w+|corrig\w+|corrég\w+|finale?|исправл\w+|итог\w*|окончательн\w+)\b|\b(?:answer|result|output|antwort|réponse|respuesta)\s*[:：]|最终|最終|更正|修正|正确|改为|최종|수정"
    r"|(?:\b(?:so|thus|hence|therefore|also|daher|somit|donc|alors|entonces|portanto|quindi|итак)\b|所以|因此|따라서)\W*\Z",
    re.IGNORECASE,
)


class _Value(NamedTuple):
    """A value, and where it is in the text."""

    start: int
    end: int
    value: Any


def read_json(
    text: str, kind: type[Any] | tuple[type[Any], ...] = object, *, default: Any | None = None
) -> Any | None:
    """Return the JSON value in `text`: all of it, else its last fenced block, else its last object or list.

    Values that only illustrate ("another input gives {…}") come last. So do those in the prose after a value
    that the text begins with, unless the prose calls them corrected.

    Args:
        text: An answer.
        kind: The type that is wanted, as of `json.loads`. The last value of it counts, and if there is none
            the last of any type, since an answer may quote an example or a `[1]`.
        default: For a text without JSON.

    Example:
        >>> read_json('The result is {"label": "spam"}.')
        {'label': 'spam'}
    """
    other = _NONE
    for value in _values(visible(text)):
        if isinstance(value, kind):
            return value
        other = value if other is _NONE else other
    return default if other is _NONE else other


def _values(text: str) -> Iterator[Any]:
    """Yield all values, the one that counts first."""
    for body in reversed(tagged_answers(text)) if "<" in text and not text.startswith(("{", "[")) else ():
        yield from (value for value in _values(body) if isinstance(value, dict | list))
    try:
        yield json.loads(text)
    except (ValueError, RecursionError):
        embedded = list(_embedded(text))
        fenced = list(_fenced(text))
        if fenced and embedded and not any(map(str.isalnum, text[: embedded[0].start])):
            fenced[:0] = [embedded[0]] if embedded[0].end < fenced[0].start else []
        yield from _by_rank(text, fenced)
        yield from _by_rank(text, embedded)


def _by_rank(text: str, values: Sequence[_Value]) -> Iterator[Any]:
    """Yield the last value first, and values that only illustrate (examples, wrong answers) at the end."""
    is_first_meant = bool(values) and not any(map(str.isalnum, text[: values[0].start].replace("json", "")))
    asides: list[Any] = []
    main: list[Any] = []
    for at, value in enumerate(values):
        before = text[values[at - 1].end if at else 0 : value.start]
        is_prose = at > 0 and any(map(str.isalnum, before))
        is_aside = is_prose and (_ASIDE.search(before) or _ASIDE_BEHIND.match(text, value.end))
        is_later = is_prose and is_first_meant and not _BETTER.search(before)
        (asides if is_aside or is_later else main).append(value.value)
    yield from reversed(main)
    yield from reversed(asides)


def _fenced(text: str) -> Iterator[_Value]:
    for fence in _FENCE.finditer(text):
        try:
            yield _Value(fence.start(), fence.end(), json.loads(fence[2]))
        except (ValueError, RecursionError):
            continue


def _embedded(text: str) -> Iterator[_Value]:
    """Yield the JSON objects and lists inside a text, outermost only."""
    decoder = json.JSONDecoder()
    at, work = 0, _MOST_WORK
    while work > 0 and (begin := _BEGIN.search(text, at)) is not None:
        at = begin.start()
        try:
            value, at = decoder.raw_decode(text, at)
        except json.JSONDecodeError as error:
            work -= error.pos - at + _LEAST_COST
            at += 1
        except (ValueError, RecursionError):
            work -= _ENDLESS_COST
            at += 1
        else:
            yield _Value(begin.start(), at, value)
