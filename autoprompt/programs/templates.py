"""Texts of a program as its source has them: templates of several languages, stripped, or indented."""

from __future__ import annotations

import inspect
import re
import textwrap
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from autoprompt.programs.literals import MARK, Atom, Hole, LiteralError, text_of
from autoprompt.programs.placing import HOLE

_PERCENT = re.compile(r"%(?:\([^)]*\))?[-#0 +]*(?:\d+|\*)?(?:\.\d+)?[diouxXeEfFgGcrsa]")
_DOLLAR = re.compile(r"\$(?:[A-Za-z_]\w*|\{[A-Za-z_]\w*\})")
_BY_ORDER = re.compile(r"%[^(]|\{[!:}]")  # holes without a name
_JINJA = re.compile(r"\{\{.*?\}\}", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Language:
    """A language of templates. specials: characters that mean something in it."""

    name: str
    specials: str
    read: Callable[[str], list[Atom] | None]
    write: Callable[[str], str | None]


def _read_format(text: str) -> list[Atom] | None:
    atoms: list[Atom] = []
    place = 0
    while place < len(text):
        character = text[place]
        if character in "{}" and text[place : place + 2] == character * 2:
            atoms.append(character)
            place += 2
        elif character == "{":
            depth, end = 0, place
            while end < len(text):
                depth += (text[end] == "{") - (text[end] == "}")
                end += 1
                if depth == 0:
                    break
            if depth or "\n" in text[place:end]:
                return None
            atoms.append(Hole(text[place:end]))
            place = end
        elif character == "}":
            return None
        else:
            atoms.append(character)
            place += 1
    return atoms


def _read_with(pattern: re.Pattern[str], escaped: str) -> Callable[[str], list[Atom] | None]:
    def read(text: str) -> list[Atom] | None:
        atoms: list[Atom] = []
        place = 0
        while place < len(text):
            if escaped and text.startswith(escaped, place):
                atoms.append(escaped[0])
                place += len(escaped)
            elif (match := pattern.match(text, place)) is not None:
                atoms.append(Hole(match[0]))
                place = match.end()
            elif escaped and text[place] == escaped[0]:
                return None
            else:
                atoms.append(text[place])
                place += 1
        return atoms

    return read


def _read_jinja(text: str) -> list[Atom] | None:
    return None if "{%" in text or "{#" in text else _read_with(_JINJA, "")(text)


def _write_jinja(text: str) -> str | None:
    return None if re.search(r"\{[{%#]", text) else text


FORMAT = Language("format", "{}", _read_format, lambda text: text.replace("{", "{{").replace("}", "}}"))
JINJA = Language("jinja", "{", _read_jinja, _write_jinja)
PERCENT = Language("percent", "%", _read_with(_PERCENT, "%%"), lambda text: text.replace("%", "%%"))
DOLLAR = Language("dollar", "$", _read_with(_DOLLAR, "$$"), lambda text: text.replace("$", "$$"))
PLAIN = Language("plain", "", lambda text: list(text), lambda text: text)
_TEMPLATES = (FORMAT, JINJA, PERCENT, DOLLAR)


@dataclass(frozen=True, slots=True)
class Trim:
    """How a program makes the text that it sends of the one that it holds.

    undo: of the text that it holds and another one to send, what it would have to hold. May be wrong: what
    `do` makes of it tells.
    """

    do: Callable[[str], str]
    undo: Callable[[str, str], str]


def _around(old: str, new: str) -> str:
    """Return a text with the white space around another one."""
    return f"{old[: len(old) - len(old.lstrip())]}{new}{old[len(old.rstrip()) :]}"


def _indented(old: str, new: str) -> str:
    """Return a text whose lines are indented as those of another one, with the same around it."""
    lines = [line for line in old.split("\n")[1:] if line.strip()]
    margin = min((re.match(r"[ \t]*", line)[0] for line in lines), key=len, default="")  # type: ignore[index]
    if not lines and old.strip() != old:
        margin = re.match(r"[ \t]*", old)[0]  # type: ignore[index]
    first, *rest = new.split("\n")
    shown = [first, *(margin + line if line.strip() else line for line in rest)]
    lead = old[: len(old) - len(old.lstrip())]
    return f"{lead}{chr(10).join(shown)}{old[len(old.rstrip()) :]}"


TRIMS = (
    Trim(lambda text: text, lambda _, new: new),
    Trim(lambda text: text.strip(), _around),
    Trim(lambda text: text.rstrip("\n"), _around),
    Trim(textwrap.dedent, _indented),
    Trim(lambda text: textwrap.dedent(text).strip(), _indented),
    Trim(inspect.cleandoc, _indented),
)


@dataclass(frozen=True, slots=True)
class Reading:
    """What is held somewhere, read in one language. atoms: with its escapes undone."""

    language: Language
    atoms: tuple[Atom, ...]


def readings(atoms: Sequence[Atom]) -> Iterator[Reading]:
    """Yield what a literal or a scalar may mean, as it stands first."""
    yield Reading(PLAIN, tuple(atoms))
    if any(isinstance(atom, Hole) for atom in atoms):
        return  # of an f-string, whose holes are filled in already
    text = text_of(atoms)
    for language in _TEMPLATES:
        if any(special in text for special in language.specials):
            found = language.read(text)
            if found is not None and found != list(text):
                yield Reading(language, tuple(found))


@dataclass(frozen=True, slots=True)
class Fit:
    """How a text of a program's requests is written in its source.

    values: the holes by what each is in the text, such as "{text}". is_whole: whether nothing else is in
    them; else they hold more of the text, as a constant that is put in.
    """

    reading: Reading
    trim: Trim
    values: tuple[tuple[str, Hole], ...]
    is_whole: bool = True

    def written(self, new: str, language: Language | None = None) -> tuple[Atom, ...]:
        """Return the atoms for another text.

        language: that in which the source is read, if its text alone does not tell.

        Raises:
            LiteralError: The text lacks what code puts in, or the source would not give it.
        """
        language = language or self.reading.language
        marked, holes = self._marked(new)
        held = self.trim.undo(text_of(self.reading.atoms), marked)
        if self.trim.do(held) != marked:
            raise LiteralError("the program strips or indents the text, which the new one would not survive")
        atoms: list[Atom] = []
        for number, piece in enumerate(held.split(MARK)):
            if number:
                atoms.append(holes[number - 1])
            text = language.write(piece)
            if text is None:
                raise LiteralError(f"the text cannot be written as a template of {language.name}")
            atoms += list(text)
        if language is PLAIN:
            return tuple(atoms)
        written = "".join(atom.source if isinstance(atom, Hole) else atom for atom in atoms)
        if language.read(written) != [*_escapes_undone(held, holes)]:
            raise LiteralError(f"the text cannot be written as a template of {language.name}")
        return tuple(written)

    def _marked(self, new: str) -> tuple[str, list[Hole]]:
        """Return a text with marks for its holes, and the holes in their order."""
        if not self.values:
            return new, []
        by_value: dict[str, list[Hole]] = {}
        for value, hole in self.values:
            by_value.setdefault(value, []).append(hole)
        pattern = re.compile("|".join(re.escape(value) for value in sorted(by_value, key=len, reverse=True)))
        found = pattern.findall(new)
        for value, holes in by_value.items():
            count = found.count(value)
            is_alike = len(set(holes)) == 1
            if not count or (count != len(holes) and not (self.is_whole and is_alike)):
                raise LiteralError(f"code puts {value!r:.60} into this text, and the new one changes that")
        seen: dict[str, int] = {}
        order = []
        for value in found:
            holes = by_value[value]
            order.append(holes[min(seen.get(value, 0), len(holes) - 1)])
            seen[value] = seen.get(value, 0) + 1
        if any(_BY_ORDER.match(hole.source) for hole in order) and order != [hole for _, hole in self.values]:
            raise LiteralError("code fills the holes of this text in their order, and the new one changes it")
        return pattern.sub(MARK, new), order


def _escapes_undone(held: str, holes: Sequence[Hole]) -> Iterator[Atom]:
    number = 0
    for character in held:
        if character == MARK:
            yield holes[number]
            number += 1
        else:
            yield character


def fit(atoms: Sequence[Atom], text: str, *, has_holes: bool) -> Fit | None:
    """Return how these atoms are the source of a text; None if they are not.

    has_holes: whether `{names}` in the text are holes; else they are braces.
    """
    names = HOLE.findall(text) if has_holes else []
    marked = HOLE.sub(MARK, text) if has_holes else text
    for reading in readings(atoms):
        held = text_of(reading.atoms)
        if held.count(MARK) != len(names):
            continue
        for trim in TRIMS:
            if trim.do(held) == marked:
                holes = [atom for atom in reading.atoms if isinstance(atom, Hole)]
                return Fit(reading, trim, tuple((f"{{{n}}}", h) for n, h in zip(names, holes, strict=True)))
    return None


def fit_around(atoms: Sequence[Atom], text: str) -> Fit | None:
    """Return how these atoms are the source of a text if code puts more than values into their holes.

    As in `f"Choose from {QUEUES}."`. At least half of the text's letters must be the atoms' own.
    """
    for reading in readings(atoms):
        holes = [atom for atom in reading.atoms if isinstance(atom, Hole)]
        if not holes:
            continue
        for trim in TRIMS:
            pieces = trim.do(text_of(reading.atoms)).split(MARK)
            letters = len("".join("".join(pieces).split()))
            if len(pieces) != len(holes) + 1 or 2 * letters < len("".join(HOLE.sub("", text).split())):
                continue
            escaped = [re.escape(piece) for piece in pieces]
            short, long = (re.fullmatch(f"({some})".join(escaped), text, re.DOTALL) for some in (".*?", ".*"))
            if short is None or long is None or short.groups() != long.groups() or "" in short.groups():
                continue
            values = tuple(zip(short.groups(), holes, strict=True))
            return Fit(reading, trim, values, is_whole=False)
    return None


# --- docstrings: parts that libraries send as descriptions of a tool and its parameters ---

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
