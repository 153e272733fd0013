"""Answers inside of `<answer>` and the like or of `\\boxed{}`: the rest of the text only leads there.

Passages whose tags say that they are no answer, as `<reasoning>`, are left out.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from autoprompt.text.patterns import lazy

_OF_ANSWER = lazy(
    r"(?:(?:final|my|the|correct|predicted)[_-]?)?(?:answers?|labels?|output|class|classification|category|categories"
    r"|result|response|prediction|verdict|choice|solution)",
    re.IGNORECASE,
)
# No answer, but what led to it, what it is about, or how sure it is.
_ASIDE = lazy(
    r"(?:\w+[_-])?(?:reason(?:ing|s)?|explanation|analysis|rationale|scratchpad|justification|evidence|reflection|notes?"
    r"|comments?|critique|feedback|steps?|working|work|plan|context|input|text|question|quotes?|options?|confidence"
    r"|certainty|probability)(?:[_-]\w+)?\d*",
    re.IGNORECASE,
)
_OF_HTML = lazy(
    r"a|abbr|b|big|blockquote|body|br|center|code|dd|del|div|dl|dt|em|font|h[1-6]|hr|html|i|img|ins|kbd|li|mark|ol|p"
    r"|pre|q|s|samp|small|span|strike|strong|sub|sup|table|tbody|td|th|thead|tr|tt|u|ul|var|details",
    re.IGNORECASE,
)
_TAG = lazy(r"<(/?)([A-Za-z][\w:-]{0,40})(?:\s[^<>]{0,100})?>|\[(/?)(ANSWER|Answer|answer|LABEL|OUTPUT)\]")
# The end of an answer that broke off, or has no closing tag.
_UNCLOSED = lazy(r"^[^\S\n]*(?:<(?:final_)?(?:answer|label)>|\[(?:ANSWER|LABEL)\])([^<>]*)\Z", re.I | re.M)
_BOX = lazy(r"\\f?boxed\s*\{|\\fbox\s*\{")
_BRACE = lazy(r"\\.|[{}]", re.DOTALL)
_BETWEEN = lazy(r"[\s,;&$.]*(?:(?:and|und|et|y|e|и|和)\b)?[\s,;&$]*", re.IGNORECASE)
_ONLY_MARKS = lazy(r"[\W_]*")
_LATEX_WORDS = lazy(r"\\(?:text\w*|math[a-z]+|mbox|operatorname)\s*\{([^{}]*)\}")
_LATEX_SIGN = lazy(r"\\([_%$&#])")
_LATEX_SPACE = lazy(r"\\[ ,;:!]|~")


class _Element(NamedTuple):
    name: str
    start: int
    content: str
    end: int


def wrapped(text: str) -> list[str]:
    """The answers that tags or boxes mark in `text`: the last, with those right before it; [] for none.

    A tag is one that is called an answer, whatever is behind it, or at the end of the text any other but
    those of HTML: `<sentiment>negative</sentiment>`. Of tags inside of tags the inner ones count.
    """
    found = tagged(text)
    return [said for content in found for said in _boxed(content) or [content]] or _boxed(text)


def tagged(text: str) -> list[str]:
    """Those of `wrapped` that tags mark, as they are written."""
    found = _last_run(text, _elements_of_answer(text))
    if not found and (unclosed := _UNCLOSED.search(text)) and unclosed[1].strip():
        return [unclosed[1]]
    return found


def unwrapped(text: str) -> str:
    """What tags or boxes mark as the answer, one a line; else `text` without what its tags call no answer."""
    if not ("<" in text or "\\" in text or "[" in text) or _is_data(text):
        return text
    return "\n".join(map(str.strip, wrapped(text))) or _without_asides(text)


def plain_latex(text: str) -> str:
    """Without the marks that LaTeX writes around words: `\\text{non\\_toxic}`."""
    text = _LATEX_SPACE.sub(" ", _LATEX_SIGN.sub(r"\1", text))
    return _LATEX_WORDS.sub(r"\1", _LATEX_WORDS.sub(r"\1", text)).strip("$ ")


def _is_data(text: str) -> bool:
    """Whether it is one object or list of JSON, whose texts may speak of tags."""
    shown = text.strip()
    return shown.startswith(("{", '["', "[{")) and shown.endswith(("}", "]"))


def _elements(text: str) -> list[_Element]:
    """What stands between an opening and a closing tag of one name, by their ends."""
    opened: dict[str, re.Match[str]] = {}
    found: list[_Element] = []
    for tag in _TAG.finditer(text):
        name = (tag[2] or tag[4]).lower()
        if not (tag[1] or tag[3]):
            opened[name] = tag
        elif begin := opened.pop(name, None):
            found.append(_Element(name, begin.start(), text[begin.end() : tag.start()], tag.end()))
    return found


def _elements_of_answer(text: str) -> list[_Element]:
    elements = _elements(text)
    found: list[_Element] = []
    for one in elements:
        is_filled = one.content.strip(" .…\n") and _OF_ANSWER.fullmatch(one.name)
        if is_filled and not (found and found[-1].start > one.start):
            found.append(one)
    if found:
        return found
    last = max(elements, key=lambda one: one.end, default=None)
    if last is None or not _ONLY_MARKS.fullmatch(text, last.end):
        return []
    is_other = _ASIDE.fullmatch(last.name) or _OF_HTML.fullmatch(last.name)
    return [] if is_other or "<" in last.content or not last.content.strip() else [last]


def _boxes(text: str) -> list[_Element]:
    """What stands in boxes, up to the brace that closes each."""
    found: list[_Element] = []
    at = 0
    while box := _BOX.search(text, at):
        depth, at = 1, box.end()
        while depth and (brace := _BRACE.search(text, at)):
            at = brace.end()
            depth += {"{": 1, "}": -1}.get(brace[0], 0)
        if depth:
            break
        if text[box.end() : at - 1].strip():
            found.append(_Element("", box.start(), text[box.end() : at - 1], at))
    return found


def _boxed(text: str) -> list[str]:
    return [plain_latex(box) for box in _last_run(text, _boxes(text))]


def _last_run(text: str, elements: Sequence[_Element]) -> list[str]:
    """The contents of the last element, and of those of its name that stand right before it."""
    run: list[_Element] = []
    for one in sorted(elements, key=lambda one: -one.start):
        if run and not (one.name == run[-1].name and _BETWEEN.fullmatch(text, one.end, run[-1].start)):
            break
        run.append(one)
    return [_without_asides(one.content).strip() for one in reversed(run)]


def _without_asides(text: str) -> str:
    """`text` without the passages that are no answer, if anything else is said."""
    at, parts = 0, []
    for one in sorted(_elements(text), key=lambda one: one.start):
        if one.start >= at and _ASIDE.fullmatch(one.name):
            parts.append(text[at : one.start])
            at = one.end
    rest = "\n".join([*parts, text[at:]]) if parts else text
    return rest if any(map(str.isalnum, _TAG.sub("", rest))) else text
