"""Reading the tagged parts out of what a model wrote, however untidy it is."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass

from autoprompt.text import python_source
from autoprompt.text.answers.texts import without_opening_thought

TAGS = ("Phenomenon", "Hypothesis", "Model", "Experiment", "Observation", "Inference", "Conclusion")
OBSERVATION = "Observation"

_NAMES = "|".join(TAGS)
_OPENING = re.compile(rf"<[ \t]*({_NAMES})\b[^<>]*>", re.IGNORECASE)
# No `>` is asked for: where a stop sequence or a limit cut the answer, it may be missing.
_OWN_OBSERVATION = re.compile(r"<[ \t]*observations?(?![a-z0-9_])", re.IGNORECASE)
_CLOSED_OBSERVATION = re.compile(r"<[ \t]*/[ \t]*observations?\b[^<>]*>", re.IGNORECASE)
_TAG_LIKE = re.compile(rf"<(?=[ \t]*(?:/[ \t]*)?({_NAMES})\b)", re.IGNORECASE)
_FENCE = re.compile(r"[ \t]*(`{3,}|~{3,})[ \t]*([\w.+#-]*)[ \t]*")
_MOST_CLOSINGS = 20  # of one Experiment that are tried; more are no code


@dataclass(frozen=True, slots=True)
class Section:
    """One tagged part. text: without the tags and the blank lines around it; of an Experiment, the code."""

    tag: str
    text: str

    def __str__(self) -> str:
        return f"<{self.tag}>\n{self.text}\n</{self.tag}>"


@dataclass(frozen=True, slots=True)
class Answer:
    """What a model wrote, read.

    sections: the tagged parts in their order. untagged: the text outside of them.
    has_own_observation: it wrote an Observation itself; that and all behind it is cut.
    """

    sections: tuple[Section, ...]
    untagged: str
    has_own_observation: bool

    def text_of(self, tag: str) -> str | None:
        """Return the first part with this tag that holds anything, None where there is none."""
        return next((s.text for s in self.sections if s.tag == tag and s.text), None)

    def until(self, *last: str) -> tuple[Section, ...]:
        """Return the parts that hold anything, up to the first one with a tag in `last`, itself included."""
        filled = tuple(section for section in self.sections if section.text)
        ends = (index for index, section in enumerate(filled) if section.tag in last)
        return filled[: next(ends, len(filled)) + 1]


def read_answer(text: str) -> Answer:
    """Return the tagged parts of `text`.

    Letter case, attributes, text around the tags, a missing closing tag and fences around the code are borne.
    Tags inside of code that is whole, as in a string, are code. An Observation is never the model's to write:
    it is cut with all that follows it, wherever it stands, as the stop sequence would have done. What a
    reasoning model has thought before it answered is left out: it tries experiments and conclusions there.
    """
    text = without_opening_thought(text)
    cut = _OWN_OBSERVATION.search(text)
    kept = text[: cut.start()] if cut else text
    kept = _CLOSED_OBSERVATION.sub(" ", kept)
    sections, outside, position = [], [], 0
    for start, end, section in _sections(kept):
        outside.append(kept[position:start])
        sections.append(section)
        position = end
    outside.append(kept[position:])
    return Answer(tuple(sections), _without_closings("".join(outside)), cut is not None)


def escape_tags(text: str) -> str:
    """`text` in which nothing reads as one of our tags: what code prints must not end its Observation."""
    return _TAG_LIKE.sub("&lt;", text)


def is_python(code: str) -> bool:
    """Return whether it parses, and holds anything."""
    try:
        return bool(python_source.parse_code(code).body)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False


def read_code(text: str) -> str:
    """Return the code in an Experiment, without fences and without prose around them.

    Of several ways to read it the first that is Python is taken; where none is, the plainest.
    """
    ways = list(_ways(text))
    return next((way for way in ways if is_python(way)), ways[0] if len(ways) == 1 else ways[1])


def _ways(text: str) -> Iterator[str]:
    """Yield ways to read a text: as it is, within its outer fences, all blocks joined, behind the first."""
    yield _tidy(text)
    lines = text.split("\n")
    fences = [i for i, line in enumerate(lines) if _FENCE.fullmatch(line)]
    if fences:
        first = fences[0]
        closing = [i for i in fences[1:] if _closes(lines[i], lines[first])]
        yield _tidy("\n".join(lines[first + 1 : closing[-1] if closing else None]))
        if closing:
            yield _tidy("\n".join(_blocks(lines, fences)))
        yield _tidy("\n".join(lines[first + 1 :]))
    stripped = re.sub(r"^\s*(`{3,}|~{3,})(python3?|py)?[ \t]*\n?|(`{3,}|~{3,})\s*$", "", text)
    if stripped != text:
        yield _tidy(stripped)


def _closes(line: str, opening: str) -> bool:
    """Return whether this fence can end that one: the same sign, at least as long, and no language."""
    found, opened = _FENCE.fullmatch(line), _FENCE.fullmatch(opening)
    if found is None or opened is None:
        return False
    fence, begun = found[1], opened[1]
    return not found[2] and fence[0] == begun[0] and len(fence) >= len(begun)


def _blocks(lines: list[str], fences: list[int]) -> Iterator[str]:
    """Yield the lines inside of each block."""
    opening: int | None = None
    for index in fences:
        if opening is None:
            opening = index
        elif _closes(lines[index], lines[opening]):
            yield from lines[opening + 1 : index]
            opening = None


def _tidy(code: str) -> str:
    lines = code.split("\n")
    while lines and not lines[0].strip():
        lines.pop(0)
    text = "\n".join(lines).rstrip()
    return textwrap.dedent(text) if text[:1] in (" ", "\t") else text


def _sections(text: str) -> Iterator[tuple[int, int, Section]]:
    """(start, end, part) of each part, tags included."""
    position = 0
    while (opening := _OPENING.search(text, position)) is not None:
        tag = next(name for name in TAGS if name.lower() == opening[1].lower())
        if tag == "Experiment":
            body, position = _code(text, opening.end())
        else:
            body, position = _prose(text, tag, opening.end())
        yield opening.start(), position, Section(tag, body)


def _prose(text: str, tag: str, start: int) -> tuple[str, int]:
    """Return what stands between this opening and its end, and where the next part may begin.

    The end is the tag's own closing; without one, or with another whole part before it, the next opening.
    """
    closing = _closing_of(tag).search(text, start)
    for opening in _OPENING.finditer(text, start, closing.start() if closing else len(text)):
        inner = _closing_of(opening[1]).search(text, opening.end(), closing.start() if closing else len(text))
        if closing is None or inner is not None or opening[1].lower() == tag.lower():
            return _without_closings(text[start : opening.start()]), opening.start()
    if closing is None:
        return _without_closings(text[start:]), len(text)
    return _without_closings(text[start : closing.start()]), closing.end()


def _code(text: str, start: int) -> tuple[str, int]:
    """Return the code behind an opening.

    It ends at the first closing tag that leaves Python, so not at one in a string.
    """
    ends = [(m.start(), m.end()) for m in _closing_of("Experiment").finditer(text, start)][:_MOST_CLOSINGS]
    openings = (m for m in _OPENING.finditer(text, start) if _begins_line(text, m.start()))
    ends += [(m.start(), m.start()) for m, _ in zip(openings, range(_MOST_CLOSINGS), strict=False)]
    ends.append((len(text), len(text)))
    read = ((read_code(text[start:stop]), after) for stop, after in ends)
    plain = read_code(text[start : ends[0][0]]), ends[0][1]
    return next(((code, after) for code, after in read if is_python(code)), plain)


def _begins_line(text: str, position: int) -> bool:
    return not text[text.rfind("\n", 0, position) + 1 : position].strip()


def _closing_of(tag: str) -> re.Pattern[str]:
    return re.compile(rf"<[ \t]*/[ \t]*{tag}\b[^<>]*>", re.IGNORECASE)


def _without_closings(text: str) -> str:
    """Prose without the closing tags that lost their opening, and without fences that wrapped tags."""
    text = re.sub(rf"<[ \t]*/[ \t]*({_NAMES})\b[^<>]*>", " ", text, flags=re.IGNORECASE)
    lines = text.strip().split("\n")
    if len(lines) > 2 and [bool(_FENCE.fullmatch(line)) for line in lines].count(True) == 2:
        lines = lines[1:-1] if _closes(lines[-1], lines[0]) else lines
    while lines and _FENCE.fullmatch(lines[0]) and not any(_FENCE.fullmatch(line) for line in lines[1:]):
        lines.pop(0)
    while lines and _FENCE.fullmatch(lines[-1]) and not any(_FENCE.fullmatch(line) for line in lines[:-1]):
        lines.pop()
    return "\n".join(lines).strip()
