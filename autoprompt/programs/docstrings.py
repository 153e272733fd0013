"""Parts of a docstring that libraries send as the descriptions of a tool and of its parameters."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from dataclasses import dataclass

from autoprompt.programs.literals import LiteralError

_SECTION = re.compile(
    r"^[ \t]*(?:Args|Arguments|Parameters|Params|Returns|Raises|Yields|Examples?|Notes?):[ \t]*$",
    re.MULTILINE,
)
_ARGUMENTS = re.compile(r"^[ \t]*(?:Args|Arguments|Parameters|Params):[ \t]*\n", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class DocPart:
    """A part of a docstring. text: as a library may send it. in_one_line: it joins the lines."""

    start: int
    end: int
    text: str
    in_one_line: bool

    def put(self, docstring: str, text: str) -> str:
        """Return the docstring with another text in this part.

        Raises:
            LiteralError: The library would not send it as it is.
        """
        if self.in_one_line and "\n" in text:
            raise LiteralError(
                "the library that reads this docstring joins its lines, and the new text has some"
            )
        if _SECTION.search(text):
            raise LiteralError("the new text holds a line that begins a section of a docstring")
        held = docstring[self.start : self.end]
        margin = re.match(r"[ \t]*", held.rpartition("\n")[2])[0] if "\n" in held else ""  # type: ignore[index]
        shown = text.replace("\n", f"\n{margin}")
        return docstring[: self.start] + shown + docstring[self.end :]


def parts_of(docstring: str, parameter: str) -> Iterator[DocPart]:
    """Yield the parts that may describe a parameter, or, without one, the whole function."""
    if not parameter:
        section = _SECTION.search(docstring)
        if section is None:
            return
        lead = len(docstring) - len(docstring.lstrip())
        end = len(docstring[: section.start()].rstrip())
        text = inspect.cleandoc(docstring[lead:end])
        yield DocPart(lead, end, text, in_one_line=False)
        yield DocPart(lead, end, text.replace("\n\n", " "), in_one_line="\n" in text)
        yield DocPart(lead, end, " ".join(text.split()), in_one_line=True)
        return
    arguments = _ARGUMENTS.search(docstring)
    if arguments is None:
        return
    entry = re.compile(
        rf"^([ \t]+){re.escape(parameter)}[ \t]*(?:\([^)\n]*\))?[ \t]*:[ \t]*(.*(?:\n\1[ \t]+.*)*)",
        re.MULTILINE,
    )
    found = entry.search(docstring, arguments.end())
    if found is not None:
        start = found.start(2)
        end = start + len(found[2].rstrip())
        lines = [line.strip() for line in found[2].rstrip().split("\n")]
        yield DocPart(start, end, " ".join(lines), in_one_line=True)
        yield DocPart(start, end, "\n".join(lines), in_one_line=False)
