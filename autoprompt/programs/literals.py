"""String literals of Python source: what they hold, and the same literals with another text.

A literal is one string or several side by side, plain, raw, triple-quoted or with `{holes}` of an f-string.
Another text keeps its quotes, its prefix, and the escapes of all that stays.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from autoprompt.text.python_source import parse_expression, read_literal

_HEAD = re.compile(r"([A-Za-z]*)('''|\"\"\"|'|\")")
_ESCAPE = re.compile(
    r"\\(?:\n|N\{[^}]*\}|x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|[0-7]{1,3}|.)", re.DOTALL
)
_NAMED = {"\n": "\\n", "\r": "\\r", "\t": "\\t", "\\": "\\\\"}
_FEWEST_WRAPPED = 60  # characters of a piece, where a text is written as several
_LONGEST_LINE = 100


class LiteralError(ValueError):
    """A text that a literal cannot hold as it is written. Its message says why."""


@dataclass(frozen=True, slots=True)
class Hole:
    """A place in a literal that code fills in. source: as it is written, braces included."""

    source: str


Atom = str | Hole  # one character, or a hole


@dataclass(frozen=True, slots=True)
class _Style:
    """How a string is written. prefix: its letters. quote: one or three characters."""

    prefix: str
    quote: str

    @property
    def is_raw(self) -> bool:
        return "r" in self.prefix.lower()

    @property
    def has_holes(self) -> bool:
        return "f" in self.prefix.lower()

    @property
    def is_block(self) -> bool:
        return len(self.quote) == 3

    def without(self, letter: str) -> _Style:
        kept = "".join(c for c in self.prefix if c.lower() != letter)
        return replace(self, prefix=kept)


@dataclass(frozen=True, slots=True)
class _String:
    """One string of a literal. units: pairs of source and what it stands for, none for a continued line.

    gap: source between it and the next string.
    """

    style: _Style
    units: tuple[tuple[str, Atom | None], ...]
    gap: str = ""

    @property
    def atoms(self) -> tuple[Atom, ...]:
        return tuple(atom for _, atom in self.units if atom is not None)

    @property
    def source(self) -> str:
        body = "".join(source for source, _ in self.units)
        return f"{self.style.prefix}{self.style.quote}{body}{self.style.quote}"


@dataclass(frozen=True, slots=True)
class Literal:
    """A literal in the source of a module. line, end_line: 1-based. column, end_column: in characters.

    node: its place in the tree. atoms: what it holds.
    """

    node: ast.Constant | ast.JoinedStr
    source: str
    line: int
    column: int
    end_line: int
    end_column: int
    parents: tuple[ast.AST, ...]

    @property
    def atoms(self) -> tuple[Atom, ...]:
        return tuple(atom for string in _strings(self.source) for atom in string.atoms)


def lines_of(source: str) -> list[str]:
    """Return the lines of a module with their ends, as Python counts them."""
    return re.findall(r"[^\n]*\n|[^\n]+", source)


def literals(source: str, tree: ast.Module) -> Iterator[Literal]:
    """Yield the string literals of a module, in the order of the tree. Line ends must be "\\n"."""
    lines = lines_of(source)
    for node, parents in string_nodes(tree):
        line, end_line = node.lineno, node.end_lineno or node.lineno
        column = _characters(lines[line - 1], node.col_offset)
        end_column = _characters(lines[end_line - 1], node.end_col_offset or 0)
        if line == end_line:
            text = lines[line - 1][column:end_column]
        else:
            between = lines[line : end_line - 1]
            text = "".join([lines[line - 1][column:], *between, lines[end_line - 1][:end_column]])
        yield Literal(node, text, line, column, end_line, end_column, parents)


def string_nodes(tree: ast.AST) -> Iterator[tuple[ast.Constant | ast.JoinedStr, tuple[ast.AST, ...]]]:
    """Yield the nodes of string literals with those above them, nearest first. None within an f-string."""
    waiting: list[tuple[ast.AST, tuple[ast.AST, ...]]] = [(tree, ())]
    while waiting:
        node, parents = waiting.pop()
        if isinstance(node, ast.JoinedStr) or (
            isinstance(node, ast.Constant) and isinstance(node.value, str)
        ):
            yield node, parents
            continue
        waiting += [(child, (node, *parents)) for child in reversed(list(ast.iter_child_nodes(node)))]


def _characters(line: str, column: int) -> int:
    return len(line.encode()[:column].decode())


# --- reading ---


def _strings(source: str) -> list[_String]:
    """Return the strings that a literal is made of."""
    text = f"({source})"
    starts = [0]
    for line in lines_of(text):
        starts.append(starts[-1] + len(line))
    spans: list[tuple[int, int]] = []
    depth, began = 0, 0
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        start = starts[token.start[0] - 1] + token.start[1]
        end = starts[token.end[0] - 1] + token.end[1]
        name = tokenize.tok_name[token.type]
        if name == "FSTRING_START":
            began, depth = (start, 1) if depth == 0 else (began, depth + 1)
        elif name == "FSTRING_END":
            depth -= 1
            if depth == 0:
                spans.append((began, end))
        elif name == "STRING" and depth == 0:
            spans.append((start, end))
    found = []
    for number, (start, end) in enumerate(spans):
        gap = text[end : spans[number + 1][0]] if number + 1 < len(spans) else ""
        found.append(_string(text[start:end], gap))
    return found


def _string(source: str, gap: str) -> _String:
    head = _HEAD.match(source)
    if head is None:
        raise LiteralError(f"{source[:20]!r} is no string")
    style = _Style(head[1], head[2])
    body = source[head.end() : -len(head[2])]
    return _String(style, tuple(_units(body, style)), gap)


def _units(body: str, style: _Style) -> Iterator[tuple[str, Atom | None]]:
    place = 0
    while place < len(body):
        escape = None if style.is_raw else _ESCAPE.match(body, place)
        if escape is not None:
            value = read_literal(f'"""{escape[0]}"""')
            yield escape[0], value[:1] or None
            if len(value) > 1:  # of an escape that is none, "\d": both characters
                for character in value[1:]:
                    yield "", character
            place = escape.end()
        elif style.has_holes and body[place] in "{}":
            if body[place : place + 2] in ("{{", "}}"):
                yield body[place : place + 2], body[place]
                place += 2
            else:
                end = _end_of_hole(body, place)
                yield body[place:end], Hole(body[place:end])
                place = end
        else:
            yield body[place], body[place]
            place += 1


def _end_of_hole(body: str, start: int) -> int:
    """Return where the hole ends that begins with the brace at `start`."""
    depth, place = 0, start
    while place < len(body):
        character = body[place]
        if character in "'\"":
            quote = body[place : place + 3] if body[place : place + 3] in ("'''", '"""') else character
            end = body.find(quote, place + len(quote))
            place = end + len(quote) if end >= 0 else len(body)
            continue
        depth += (character in "{[(") - (character in "}])")
        place += 1
        if depth == 0:
            return place
    raise LiteralError("a hole of the f-string has no end")


# --- writing ---


def rewritten(literal: Literal, atoms: Sequence[Atom], *, encoding: str = "utf-8") -> str:
    """Return the source of a literal that holds other atoms.

    Raises:
        LiteralError: No way of writing them keeps what the rest of the literal says.
    """
    strings = _strings(literal.source)
    tries = [_changed_alone(strings, atoms, encoding)] if len(strings) == 1 else []
    if len(strings) > 1:
        tries.append(_changed_pieces(strings, atoms, literal.column, encoding))
    if not any("#" in string.gap for string in strings):
        tries.append(_whole(strings[0], atoms, encoding))
    for source in tries:
        if source is not None and _holds(source, atoms):
            return source
    raise LiteralError("the text cannot be written with the quotes and holes of this literal")


def _holds(source: str, atoms: Sequence[Atom]) -> bool:
    """Return whether a source is a literal that holds these atoms, as Python reads it."""
    try:
        node = parse_expression(f"({source})")
        read = tuple(atom for string in _strings(source) for atom in string.atoms)
    except (SyntaxError, ValueError, tokenize.TokenError):
        return False
    return read == tuple(atoms) and text_of_node(node) == text_of(atoms)


MARK = "\ue000"  # for a hole, in a text


def text_of(atoms: Sequence[Atom]) -> str:
    """Return atoms as a text, with a mark for each hole."""
    return "".join(MARK if isinstance(atom, Hole) else atom for atom in atoms)


def text_of_node(node: ast.AST) -> str | None:
    """Return what a literal holds as Python reads it, with a mark for each hole; None for another node."""
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else None
    if isinstance(node, ast.JoinedStr):
        return "".join(str(part.value) if isinstance(part, ast.Constant) else MARK for part in node.values)
    return None


def _changed_alone(strings: Sequence[_String], atoms: Sequence[Atom], encoding: str) -> str | None:
    """Return one string with another text.

    What is the same at the beginning and at the end stays as written.
    """
    (string,) = strings
    old = string.atoms
    if not string.style.is_block and "\n" not in old and "\n" in atoms:
        return None  # lines are written as lines
    first, last = _same_ends(old, atoms)
    units = list(string.units)
    head, tail = _cut(units, first), _cut(units[::-1], last)[::-1]
    if string.style.is_block and units and units[0][1] is None and not head:
        head = [units[0]]  # the line end after the quotes does not count
    middle = _encoded(atoms, first, len(atoms) - last, string.style, string.units, encoding)
    if middle is None:
        return None
    body = "".join([*(s for s, _ in head), middle, *(s for s, _ in tail)])
    return f"{string.style.prefix}{string.style.quote}{body}{string.style.quote}"


def _same_ends(old: Sequence[Atom], new: Sequence[Atom]) -> tuple[int, int]:
    most = min(len(old), len(new))
    first = 0
    while first < most and old[first] == new[first]:
        first += 1
    last = 0
    while last < most - first and old[-1 - last] == new[-1 - last]:
        last += 1
    return first, last


def _cut(units: Sequence[tuple[str, Atom | None]], count: int) -> list[tuple[str, Atom | None]]:
    """Return the first units that hold so many atoms."""
    kept: list[tuple[str, Atom | None]] = []
    for unit in units:
        if count == 0:
            break
        kept.append(unit)
        count -= unit[1] is not None
    return kept


def _whole(string: _String, atoms: Sequence[Atom], encoding: str) -> str | None:
    """Return a text as one string: with three quotes if it has lines and the literal had none."""
    style = string.style
    if "\n" in atoms and "\n" not in string.atoms and not style.is_block:
        style = replace(style, quote=style.quote * 3)
    style = _with_holes(style, atoms)
    for one in (style, style.without("r")):
        body = _encoded(atoms, 0, len(atoms), one, string.units, encoding)
        if body is not None:
            return f"{one.prefix}{one.quote}{body}{one.quote}"
    return None


def _with_holes(style: _Style, atoms: Sequence[Atom]) -> _Style:
    has = any(isinstance(atom, Hole) for atom in atoms)
    if has and not style.has_holes:
        return replace(style.without("u"), prefix=f"f{style.without('u').prefix}")
    return style if has or not style.has_holes else style.without("f")


def _encoded(
    atoms: Sequence[Atom],
    start: int,
    end: int,
    style: _Style,
    units: Sequence[tuple[str, Atom | None]],
    encoding: str,
) -> str | None:
    """Return the source of some atoms of a string; None if a raw string cannot hold them."""
    has_tabs = any(source == "\t" for source, _ in units)
    quote, written = style.quote[0], []
    for place in range(start, end):
        atom = atoms[place]
        if isinstance(atom, Hole):
            if not style.has_holes:
                return None
            written.append(atom.source)
            continue
        ends_string = place == len(atoms) - 1
        beside = quote in (*atoms[place + 1 : place + 2], *atoms[max(0, place - 1) : place])
        must = atom == quote and (not style.is_block or ends_string or beside)
        is_plain = atom.isprintable() or (atom == "\t" and has_tabs) or (atom == "\n" and style.is_block)
        if style.is_raw:
            if must or not is_plain or not _fits(atom, encoding) or (atom == "\\" and ends_string):
                return None
            written.append(atom * 2 if style.has_holes and atom in "{}" else atom)
        elif atom == "\\" or not is_plain or not _fits(atom, encoding):
            written.append(_NAMED.get(atom) or _numbered(atom))
        elif must:
            written.append(f"\\{atom}")
        else:
            written.append(atom * 2 if style.has_holes and atom in "{}" else atom)
    return "".join(written)


def _fits(character: str, encoding: str) -> bool:
    try:
        character.encode(encoding)
    except UnicodeEncodeError:
        return False
    return True


def _numbered(character: str) -> str:
    code = ord(character)
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def _changed_pieces(
    strings: Sequence[_String], atoms: Sequence[Atom], column: int, encoding: str
) -> str | None:
    """Several strings with another text: those that begin and end it stay, the others are written anew."""
    first, done = 0, 0
    while (
        first < len(strings) and tuple(atoms[done : done + len(strings[first].atoms)]) == strings[first].atoms
    ):
        done += len(strings[first].atoms)
        first += 1
    last, left = len(strings), len(atoms)
    while last > first and left - len(strings[last - 1].atoms) >= done:
        had = strings[last - 1].atoms
        if tuple(atoms[left - len(had) : left]) != had:
            break
        left -= len(had)
        last -= 1
    if first == last:  # a text is put between two strings, or behind the last
        if first == len(strings):
            first -= 1
            done -= len(strings[first].atoms)
        else:
            last += 1
            left += len(strings[first].atoms)
    old, new = strings[first:last], list(atoms[done:left])
    if len(old) == 1:
        one = _changed_alone(old, new, encoding)
        if one is not None and column + len(one) <= _LONGEST_LINE and "\n" not in new[:-1]:
            gap = old[0].gap
            return "".join([*(s.source + s.gap for s in strings[:first]), one, gap, *_rest(strings[last:])])
    pieces = _pieces(old, new, strings, encoding)
    if pieces is None:
        return None
    plain = (string.gap[string.gap.find("#") :] if "#" in string.gap else string.gap for string in strings)
    usual = next((re.sub(r"^#.*", "", gap) for gap in plain if gap), " ")
    gaps = [string.gap for string in old[:-1]]
    comments = "".join(gap for gap in gaps[len(pieces) - 1 :] if "#" in gap)  # each ends with a line end
    more = [usual] * (len(pieces) - 1 - len(gaps))
    gaps = [*gaps[: len(pieces) - 1], *more, comments + old[-1].gap]
    joined = [piece + gap for piece, gap in zip(pieces, gaps, strict=True)]
    return "".join([*(s.source + s.gap for s in strings[:first]), *joined, *_rest(strings[last:])])


def _rest(strings: Sequence[_String]) -> list[str]:
    return [string.source + string.gap for string in strings]


def _pieces(
    old: Sequence[_String], new: Sequence[Atom], strings: Sequence[_String], encoding: str
) -> list[str] | None:
    """Return a text as strings that are as long as the literal's others, each line of it in its own."""
    width = max(_FEWEST_WRAPPED, *(len(string.source) - 2 for string in strings))
    spaces_first = sum(string.atoms[:1] == (" ",) for string in strings[1:]) * 2 > len(strings)
    style = old[0].style.without("r")
    written = []
    for piece in _wrapped(new, width, spaces_first=spaces_first):
        one = _with_holes(style, piece)
        body = _encoded(piece, 0, len(piece), one, old[0].units, encoding)
        if body is None:
            return None
        written.append(f"{one.prefix}{one.quote}{body}{one.quote}")
    return written


def _wrapped(atoms: Sequence[Atom], width: int, *, spaces_first: bool) -> list[list[Atom]]:
    pieces: list[list[Atom]] = [[]]
    words: list[list[Atom]] = [[]]
    for atom in atoms:
        if atom == " " and spaces_first:
            words.append([])
        words[-1].append(atom)
        if atom == "\n" or (atom == " " and not spaces_first):
            words.append([])
    for word in words:
        had = sum(len(a.source) if isinstance(a, Hole) else 1 for a in pieces[-1])
        more = sum(len(a.source) if isinstance(a, Hole) else 1 for a in word)
        if pieces[-1] and (pieces[-1][-1] == "\n" or had + more > width):
            pieces.append([])
        pieces[-1] += word
    return [piece for piece in pieces if piece] or [[]]
