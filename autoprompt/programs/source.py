"""Put a candidate's texts into the source of a program: the literals and files that hold the original ones.

Nothing else in a file changes, and a changed file is read again to see that. A text that no place or two
places hold is not written.
"""

from __future__ import annotations

import ast
import copy
import difflib
import io
import re
import tokenize
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain
from pathlib import Path

import yaml

from autoprompt.measure.task import ComponentKind
from autoprompt.programs.literals import (
    MARK,
    Hole,
    Literal,
    LiteralError,
    lines_of,
    literals,
    rewritten,
    string_nodes,
    text_of_node,
)
from autoprompt.programs.placing import Placed
from autoprompt.programs.prompts import ENDINGS, texts_in, with_text
from autoprompt.programs.templates import (
    DOLLAR,
    FORMAT,
    JINJA,
    PERCENT,
    DocPart,
    Fit,
    Language,
    fit,
    fit_around,
    parts_of,
)
from autoprompt.text.python_source import parse_code

_CALLS = {
    **dict.fromkeys(("from_template", "from_messages", "ChatPromptTemplate", "PromptTemplate"), FORMAT),
    **dict.fromkeys(
        ("SystemMessagePromptTemplate", "HumanMessagePromptTemplate", "AIMessagePromptTemplate"), FORMAT
    ),
}


@dataclass(frozen=True, slots=True)
class SourceText:
    """A text of a program to find in its source. tool: of a tool, or of a parameter "search.query".

    has_holes: whether `{names}` in it are holes. is_declared: it is that of a `Prompt` of this name.
    sent_from: the file of the call, "" if it is not known.
    """

    name: str
    kind: ComponentKind
    original: str
    tool: str = ""
    has_holes: bool = False
    is_declared: bool = False
    sent_from: str = ""


def source_texts(prompts: Mapping[str, str], placed: Sequence[Placed]) -> list[SourceText]:
    """Return the texts of a program to find in its source: the declared prompts, then those of requests."""
    declared = [SourceText(name, "instruction", text, is_declared=True) for name, text in prompts.items()]
    found = [
        SourceText(p.name, p.kind, p.original, p.tool, has_holes=bool(p.holes), sent_from=p.file)
        for p in placed
    ]
    return [*declared, *found]


@dataclass
class SourceFile:
    """A file as text with "\\n" for its line ends, and how it was written."""

    path: Path
    data: bytes = field(repr=False)

    def __post_init__(self) -> None:
        self.encoding = "utf-8"
        if self.path.suffix == ".py":
            self.encoding = tokenize.detect_encoding(io.BytesIO(self.data).readline)[0]
        encoding = "utf-8" if self.encoding == "utf-8-sig" else self.encoding
        text = self.data.decode(encoding)
        self.encoding = encoding
        self.mark = "\ufeff" if text.startswith("\ufeff") else ""
        self._written = re.findall(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+", text.removeprefix("\ufeff"))
        self.text = "".join(_plain_line(line) for line in self._written)

    def changed(self, text: str) -> bytes:
        """Return the bytes of the file with another text; lines keep their ends."""
        ends = [line[len(line.rstrip("\r\n")) :] for line in self._written]
        usual = max(filter(None, ends), key=ends.count, default="\n")
        old, new = lines_of(self.text), lines_of(text)
        written: list[str] = []
        for _, start, end, first, last in difflib.SequenceMatcher(
            None, old, new, autojunk=False
        ).get_opcodes():
            for number in range(first, last):
                had = ends[start + number - first] if start + number - first < end else usual
                line = new[number]
                written.append(line.removesuffix("\n") + ((had or usual) if line.endswith("\n") else ""))
        return (self.mark + "".join(written)).encode(self.encoding)


def _plain_line(line: str) -> str:
    body = line.rstrip("\r\n")
    return body + "\n" if len(body) < len(line) else body


@dataclass(frozen=True, slots=True)
class Spot:
    """Where a text is: a literal of a module, a part of a docstring, or an entry of a file of prompts.

    number: of the literal in its file, or of the entry. language: of templates, in which code uses it though
    its text does not show it. is_mixed: whether other code uses it as it is.
    """

    file: SourceFile
    number: int
    line: int
    fit: Fit
    language: Language | None = None
    is_mixed: bool = False
    part: DocPart | None = None

    @property
    def key(self) -> tuple[Path, int, DocPart | None]:
        return self.file.path, self.number, self.part


class Module:
    """A Python file and its literals."""

    def __init__(self, file: SourceFile) -> None:
        self.file = file
        self.tree = parse_code(file.text)

    @cached_property
    def literals(self) -> list[Literal]:
        return list(literals(self.file.text, self.tree))

    @cached_property
    def parents(self) -> dict[ast.AST, ast.AST]:
        return {child: node for node in ast.walk(self.tree) for child in ast.iter_child_nodes(node)}


class Sources:
    """The files of a program: modules that it imports, and files of prompts."""

    def __init__(self, files: Iterable[Path]) -> None:
        self.modules: dict[Path, Module] = {}
        self.prompt_files: dict[Path, SourceFile] = {}
        self.unread: dict[Path, str] = {}
        self._held: dict[str, bool] = {}
        for path in files:
            self._read(path)

    def _read(self, path: Path) -> None:
        try:
            file = SourceFile(path, path.read_bytes())
            if path.suffix in ENDINGS:
                self.prompt_files[path] = file
            else:
                self.modules[path] = Module(file)
        except (OSError, SyntaxError, ValueError, RecursionError) as error:
            self.unread[path] = f"{type(error).__name__}: {error}"

    def find(self, text: SourceText, within: Collection[Path] | None = None) -> list[Spot]:
        """Return where a text is; several places if it is not clear which is meant.

        If the module that sends it holds it, other modules do not count. within: files to look in; default:
        all.
        """
        files = [*self.prompt_files, *self.modules] if within is None else within
        modules = {path: module for path, module in self.modules.items() if path in files}
        spots = [*self._in_prompt_files(text, files), *self._in_modules(text, modules)]
        return [spot for spot in spots if str(spot.file.path) == text.sent_from] or spots

    def holds(self, text: str) -> bool:
        """Return whether a literal or an entry is this text, with its `{holes}` or as it is."""
        if text not in self._held:
            self._held[text] = any(
                self._in_prompt_files(one, self.prompt_files)
                or any(next(_whole(module, one), None) for module in self.modules.values())
                for one in _as_source(text)
            )
        return self._held[text]

    def is_one(self, text: str, tool: str = "") -> bool:
        """Return whether a single literal or entry is the source of this text, whatever code puts into it.

        tool: as in `SourceText`.
        """
        return any(len(self.find(one)) == 1 for one in _as_source(text, tool))

    def _in_prompt_files(self, text: SourceText, within: Collection[Path]) -> list[Spot]:
        found, named = [], []
        for file in (file for path, file in self.prompt_files.items() if path in within):
            try:
                entries = texts_in(file.text)
            except yaml.YAMLError as error:
                self.unread[file.path] = str(error)
                continue
            for number, entry in enumerate(entries):
                fitting = fit(list(entry.text), text.original, has_holes=text.has_holes)
                if fitting is not None:
                    spot = Spot(file, number, entry.line, fitting)
                    found.append(spot)
                    if entry.name == text.name:
                        named.append(spot)
        return named or found

    def _in_modules(self, text: SourceText, modules: Mapping[Path, Module]) -> list[Spot]:
        ways: list[Callable[[Module], Iterator[Spot]]] = []
        if text.is_declared:
            ways.append(lambda module: _declared(module, text))
        if text.kind in ("tool", "tool parameter"):
            ways.append(lambda module: chain(_whole(module, text), _parts(module, text)))
        else:
            ways += [lambda module: _whole(module, text), lambda module: _around(module, text)]
        for way in ways:
            found = [spot for module in modules.values() for spot in way(module)]
            if found:
                return (
                    _of_the_tool(found, text, modules)
                    if len(found) > 1
                    else self._in_language(found, modules)
                )
        return []

    def _in_language(self, spots: list[Spot], modules: Mapping[Path, Module]) -> list[Spot]:
        """Return the one spot with the language of templates that its use shows."""
        (spot,) = spots
        if spot.fit.reading.language.name != "plain" or spot.fit.values or spot.part is not None:
            return spots
        module = modules[spot.file.path]
        used = _used_as(module, module.literals[spot.number].node, self.modules)
        languages = [language for language in used if language is not None]
        return [replace(spot, language=languages[0], is_mixed=None in used)] if languages else spots


def _as_source(text: str, tool: str = "") -> Iterator[SourceText]:
    """Yield a text without holes and, if it may have some, with them."""
    kind: ComponentKind = "tool parameter" if "." in tool else "tool" if tool else "template"
    for has_holes in (False, True)[: 1 + ("{" in text)]:
        yield SourceText("", kind, text, tool, has_holes=has_holes)


def _spot(module: Module, number: int, fitting: Fit | None) -> Iterator[Spot]:
    if fitting is not None:
        yield Spot(module.file, number, module.literals[number].line, fitting)


def _whole(module: Module, text: SourceText) -> Iterator[Spot]:
    for number, literal in enumerate(module.literals):
        if _may_hold(literal, text):
            yield from _spot(module, number, fit(literal.atoms, text.original, has_holes=text.has_holes))


def _around(module: Module, text: SourceText) -> Iterator[Spot]:
    for number, literal in enumerate(module.literals):
        if MARK in (text_of_node(literal.node) or "") or "{" in literal.source or "%" in literal.source:
            yield from _spot(module, number, fit_around(literal.atoms, text.original))


def _may_hold(literal: Literal, text: SourceText) -> bool:
    """Return whether it is worth reading the literal in all ways: it has a word of the text."""
    words = re.findall(r"\w{3,}", text.original)
    held = text_of_node(literal.node) or ""
    return not words or any(word in held for word in words[:3])


def _declared(module: Module, text: SourceText) -> Iterator[Spot]:
    """Yield the second argument of `Prompt("name", "text")`."""
    nodes = {literal.node: number for number, literal in enumerate(module.literals)}
    for call in ast.walk(module.tree):
        if not isinstance(call, ast.Call) or _name_of(call.func) != "Prompt":
            continue
        given = {keyword.arg: keyword.value for keyword in call.keywords}
        names = [*call.args[:1], *filter(None, [given.get("name")])]
        texts = [*call.args[1:2], *filter(None, [given.get("original")])]
        if names and texts and isinstance(names[0], ast.Constant) and names[0].value == text.name:
            number = nodes.get(texts[0])  # type: ignore[call-overload]
            if number is not None:
                atoms = module.literals[number].atoms
                yield from _spot(module, number, fit(atoms, text.original, has_holes=False))


def _parts(module: Module, text: SourceText) -> Iterator[Spot]:
    """Parts of the docstring of the tool's function: what is before its arguments, or the line of one."""
    tool, _, parameter = text.tool.partition(".")
    for number, literal in enumerate(module.literals):
        owner = literal.parents[1] if len(literal.parents) > 1 else None
        is_doc = isinstance(literal.parents[0], ast.Expr) and getattr(owner, "name", None) == tool
        if not is_doc or not isinstance(literal.node, ast.Constant):
            continue
        for part in parts_of(str(literal.node.value), parameter):
            fitting = fit(list(part.text), text.original, has_holes=False)
            if fitting is not None:
                yield Spot(module.file, number, literal.line, fitting, part=part)
                break


def _of_the_tool(spots: list[Spot], text: SourceText, modules: Mapping[Path, Module]) -> list[Spot]:
    """Of several spots the one that belongs to the tool by its names, if it is one alone."""
    if not text.tool:
        return spots
    scores = [_closeness(modules[spot.file.path].literals[spot.number], text.tool) for spot in spots]
    best = max(scores)
    chosen = [spot for spot, score in zip(spots, scores, strict=True) if score == best]
    return chosen if best > 0 and len(chosen) == 1 else spots


def _closeness(literal: Literal, tool: str) -> int:
    name, _, parameter = tool.partition(".")
    parameter = parameter.rpartition(".")[2]
    score = 0
    for parent in literal.parents:
        if getattr(parent, "name", None) == name:
            score += 4
        if isinstance(parent, ast.Call) and any(
            isinstance(value, ast.Constant) and value.value == name
            for value in [*parent.args, *(keyword.value for keyword in parent.keywords)]
        ):
            score += 4
        if isinstance(parent, ast.ClassDef) and any(
            isinstance(node, ast.Constant) and node.value == name for node in ast.walk(parent)
        ):
            score += 2
        if isinstance(parent, ast.Dict) and any(
            isinstance(value, ast.Constant) and value.value == name for value in parent.values
        ):
            score += 2
        if parameter and parameter in (
            getattr(parent, "arg", None),
            _name_of(getattr(parent, "target", None)),
        ):
            score += 1
        if (
            parameter
            and isinstance(parent, ast.Dict)
            and any(
                isinstance(key, ast.Constant) and key.value == parameter and literal.node in ast.walk(value)
                for key, value in zip(parent.keys, parent.values, strict=True)
            )
        ):
            score += 1
    return score


def _name_of(node: ast.AST | None) -> str:
    return getattr(node, "attr", None) or getattr(node, "id", None) or ""


# --- which language of templates a literal is read in ---


def _used_as(module: Module, node: ast.AST, modules: Mapping[Path, Module]) -> list[Language | None]:
    """Return the languages of templates in which code uses a literal, itself or by its name."""
    if (found := _used_here(module, node)) is not None:
        return [found]
    parent = module.parents.get(node)
    targets = parent.targets if isinstance(parent, ast.Assign) else [getattr(parent, "target", None)]
    names = {_name_of(target) for target in targets} - {""}
    if not names or not isinstance(parent, ast.Assign | ast.AnnAssign):
        return []
    return [
        _used_here(other, use)
        for other in modules.values()
        for use in ast.walk(other.tree)
        if isinstance(use, ast.Name | ast.Attribute)
        and isinstance(use.ctx, ast.Load)
        and _name_of(use) in names
    ]


def _used_here(module: Module, node: ast.AST) -> Language | None:
    parent = module.parents.get(node)
    if isinstance(parent, ast.Attribute) and parent.attr in ("format", "format_map"):
        return FORMAT
    if isinstance(parent, ast.BinOp) and isinstance(parent.op, ast.Mod) and parent.left is node:
        return PERCENT
    while isinstance(parent, ast.Tuple | ast.List | ast.keyword | ast.IfExp):
        parent = module.parents.get(parent)
    if not isinstance(parent, ast.Call):
        return None
    name = _name_of(parent.func)
    if name == "Template":
        return JINJA if "jinja2" in module.file.text else DOLLAR
    owner = _name_of(getattr(parent.func, "value", None))
    if name not in _CALLS and owner not in _CALLS:
        return None
    ways = [k.value for k in parent.keywords if k.arg == "template_format"]
    is_jinja = any(isinstance(way, ast.Constant) and way.value in ("jinja2", "mustache") for way in ways)
    return JINJA if is_jinja else FORMAT


# --- writing ---


def with_new_text(spot: Spot, text: str, current: str) -> str:
    """Return the text of a spot's file with another text there.

    Args:
        spot: Of the file as it was read.
        text: What the program should get.
        current: The file's text by now, with other places changed already.

    Raises:
        LiteralError: It cannot be written there so that the program gets just this text.
    """
    atoms = spot.fit.written(text, spot.language)
    if spot.is_mixed and atoms != spot.fit.written(text):
        raise LiteralError("code uses this literal as a template and as it is, and the new text has braces")
    if spot.file.path.suffix in ENDINGS:
        held = "".join(atom.source if isinstance(atom, Hole) else atom for atom in atoms)
        changed = with_text(current, texts_in(current)[spot.number], held)
        if changed is None:
            raise LiteralError("the text cannot be written there without changing others")
        return changed
    tree = parse_code(current)
    literal = list(literals(current, tree))[spot.number]
    if spot.part is not None:
        value = str(literal.node.value) if isinstance(literal.node, ast.Constant) else ""
        atoms = tuple(spot.part.put(value, "".join(map(str, atoms))))
    source = rewritten(literal, atoms, encoding=spot.file.encoding)
    lines = lines_of(current)
    before = "".join(lines[: literal.line - 1]) + lines[literal.line - 1][: literal.column]
    after = lines[literal.end_line - 1][literal.end_column :] + "".join(lines[literal.end_line :])
    changed = f"{before}{source}{after}"
    _check_nothing_else(tree, changed, spot.number, atoms)
    return changed


def _check_nothing_else(old: ast.Module, changed: str, number: int, atoms: Sequence[str | Hole]) -> None:
    """Raise LiteralError if anything but this literal differs, or if it does not hold the atoms."""
    try:
        new = parse_code(changed)
    except (SyntaxError, ValueError) as error:
        raise LiteralError(f"the module would not be Python any more ({error})") from error
    before, after = list(string_nodes(old)), list(string_nodes(new))
    texts = [text_of_node(node) for node, _ in before]
    expected = "".join(MARK if isinstance(atom, Hole) else atom for atom in atoms)
    if number < len(texts):
        texts[number] = expected
    if texts != [text_of_node(node) for node, _ in after] or _shape(old) != _shape(new):
        raise LiteralError("more of the module than this literal would change")


def _shape(tree: ast.Module) -> str:
    """Return a module without the texts of its literals."""

    class Blank(ast.NodeTransformer):
        def visit_Constant(self, node: ast.Constant) -> ast.AST:
            return ast.Constant("") if isinstance(node.value, str) else node

        def visit_JoinedStr(self, node: ast.JoinedStr) -> ast.AST:
            return ast.Constant("")

    return ast.dump(Blank().visit(copy.deepcopy(tree)))
