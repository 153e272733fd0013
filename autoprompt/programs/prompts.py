"""Prompts that a program declares: read at each call, so that a run can put other texts in their place."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from string import Formatter
from typing import Any

import yaml

from autoprompt.errors import ConfigError, Place, Problem
from autoprompt.programs.places import place_of_call
from autoprompt.programs.winner import winner
from autoprompt.settings.yaml_file import Composer, quoted
from autoprompt.text.files import read_plain

_active: ContextVar[Mapping[str, str] | None] = ContextVar("autoprompt_prompt_texts", default=None)
_used: ContextVar[list[tuple[str, str]] | None] = ContextVar("autoprompt_prompt_uses", default=None)
_declared: dict[str, Prompt] = {}


class Prompt:
    """A text of a program that may be optimized.

    Read it when you send it: `str(prompt)`, `prompt.text`, `prompt.format(topic=...)`. A text that is read
    once and kept never changes.

    Args:
        name: Of the component, unique in the program.
        original: The text as the program has it.

    Examples:
        >>> from autoprompt import Prompt
        >>> classify = Prompt("classify", "Answer billing or tech.")
        >>> str(classify)
        'Answer billing or tech.'
    """

    def __init__(self, name: str, original: str) -> None:
        if not isinstance(name, str) or not name.strip() or not isinstance(original, str):
            said = f"Prompt({name!r:.40}, {original!r:.40}): expected a name and a text"
            raise ConfigError(Problem("program.prompt", said))
        other = _declared.get(name)
        if other is not None and other.original != original:
            said = f"two prompts with different texts have the name {name!r}"
            raise ConfigError(Problem("program.prompt", said, fix="Give each its own name."))
        self.name: str = name
        self.original: str = original
        self.place: Place = place_of_call()
        self.file: Path | None = None  # that `load` has read it from
        self.read_at: Place | None = None  # by code that runs no row, as a module does when it is imported
        _declared[name] = self

    @classmethod
    def load(cls, path: str | Path) -> dict[str, Prompt]:
        """Declare the prompts of a YAML or JSON file.

        Args:
            path: The file; `autoprompt runs apply --write` puts better texts into it.

        Returns:
            The prompts by name; `router.system` is `system` below `router`.

        Raises:
            ConfigError: The file cannot be read or holds no text. The problem has the line.
        """
        file = Path(path).absolute()
        loaded: dict[str, Prompt] = {}
        for name, found in read_prompts(file).items():
            prompt = loaded[name] = cls(name, found.text)
            prompt.place, prompt.file = Place(file, found.line), file
        return loaded

    @property
    def text(self) -> str:
        """The text that holds now: a candidate's, or the original."""
        return self._noted(self._now())

    def format(self, *values: Any, **named: Any) -> str:
        """Return the text with its `{holes}` filled in, as `str.format` does.

        Args:
            values: For holes without a name.
            named: For holes with a name.
        """
        return self._noted(self._now().format(*values, **named))

    def _now(self) -> str:
        texts = _active.get()
        if texts is None and (chosen := winner()) is not None:
            texts = chosen.texts
        found = (texts or {}).get(self.name)
        return self.original if found is None else found

    def _noted(self, filled: str) -> str:
        uses = _used.get()
        if uses is None:
            self.read_at = place_of_call()
        elif (self.name, filled) not in uses:
            uses.append((self.name, filled))
        return filled

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return f"Prompt({self.name!r}, {self.original[:60]!r})"


def unformattable(original: str, text: str) -> str:
    """Return why `str.format` fails for a text and not for the original; "" if it does not.

    An original without holes may never be formatted.
    """
    try:
        known = {name for _, name, _, _ in Formatter().parse(original) if name is not None}
    except ValueError:
        return ""
    if not known:
        return ""
    try:
        names = [name for _, name, _, _ in Formatter().parse(text) if name is not None]
    except ValueError as error:
        return f"cannot be formatted: {error}"
    new = next((name for name in names if name not in known), None)
    return "" if new is None else f"adds {{{new}}}"


def declared() -> dict[str, Prompt]:
    """Return the prompts that were declared so far, by name."""
    return dict(_declared)


def prompt_files() -> list[Path]:
    """Return the files that declared prompts were read from."""
    return list(dict.fromkeys(prompt.file for prompt in _declared.values() if prompt.file is not None))


@contextmanager
def active(texts: Mapping[str, str]) -> Iterator[list[tuple[str, str]]]:
    """Put texts in the place of declared prompts in this context, and note which are read.

    Yields:
        (name, text as it was read) of each, in order; filled while the block runs.
    """
    uses: list[tuple[str, str]] = []
    first, second = _active.set({**(_active.get() or {}), **texts}), _used.set(uses)
    try:
        yield uses
    finally:
        _active.reset(first)
        _used.reset(second)


# --- prompts in a YAML or JSON file: read by key, written back with their layout ---

ENDINGS = (".yaml", ".yml", ".json")
_STR = "tag:yaml.org,2002:str"
_HEADER = re.compile(r"[|>][-+0-9]*([^\n]*)\n?")


@dataclass(frozen=True, slots=True)
class _FileText:
    """A text in a file of prompts.

    name: its key, those around it before it: "router.system". start, end: of what is written there, the
    quotes and the `|` included. style: "" for plain. column: of the key or dash that it belongs to; None
    inside of {} and [].
    """

    name: str
    text: str
    start: int
    end: int
    line: int
    style: str
    column: int | None


def read_prompts(path: Path) -> dict[str, _FileText]:
    """Return the texts of a file by name.

    Raises:
        ConfigError: It cannot be read, is no YAML or JSON, or has no texts.
    """
    place = Place(path)
    try:
        found = texts_in(read_plain(path))
    except (OSError, UnicodeDecodeError) as error:
        said, fix = f"the file of prompts cannot be read: {error}", "Give a YAML or JSON file."
        raise ConfigError(Problem("program.prompts-file", said, place, fix)) from error
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        place = Place(path, None if mark is None else mark.line + 1)
        said = f"the file of prompts is no YAML: {getattr(error, 'problem', None) or error}"
        raise ConfigError(Problem("program.prompts-file", said, place, "Fix it.")) from error
    if not found:
        said, fix = "the file of prompts holds no text", "Write each prompt as `name: text`."
        raise ConfigError(Problem("program.prompts-file", said, place, fix))
    return {text.name: text for text in found}


def texts_in(source: str) -> list[_FileText]:
    """Return the texts of YAML or JSON. Raises yaml.YAMLError."""
    root = Composer(source).get_single_node()
    return [] if root is None else list(_texts(root, "", None))


def _texts(node: yaml.Node, name: str, column: int | None) -> Iterator[_FileText]:
    if isinstance(node, yaml.ScalarNode):
        if node.tag == _STR and name:
            start, end = node.start_mark.index, node.end_mark.index
            yield _FileText(name, node.value, start, end, node.start_mark.line + 1, node.style or "", column)
        return
    inner = None if getattr(node, "flow_style", False) else node.start_mark.column
    pairs: Sequence[tuple[str, yaml.Node]] = ()
    if isinstance(node, yaml.MappingNode):
        pairs = [(str(key.value), value) for key, value in node.value]
    elif isinstance(node, yaml.SequenceNode):
        pairs = [(str(number), value) for number, value in enumerate(node.value)]
    for key, value in pairs:
        yield from _texts(value, f"{name}.{key}" if name else key, inner)


def with_text(source: str, at: _FileText, text: str) -> str | None:
    """Return a file with another text in this place; None if nothing else but this would change as well.

    Line ends must be "\\n".
    """
    for written in _ways(source, at, text):
        changed = source[: at.start] + written + source[at.end :]
        if _values(changed) == _replaced(source, at, text):
            return changed
    return None


def _values(source: str) -> Any:
    try:
        return yaml.load(source, Loader=Composer)
    except yaml.YAMLError:
        return None


def _replaced(source: str, at: _FileText, text: str) -> Any:
    """Return what the file should hold."""
    values = _values(source)
    inner: Any = values
    *path, last = _path(values, at.name)
    for key in path:
        inner = inner[key]
    inner[last] = text
    return values


def _path(values: Any, name: str) -> list[Any]:
    """Return the keys that lead to a text."""
    if isinstance(values, list):
        first, _, rest = name.partition(".")
        return [int(first), *(_path(values[int(first)], rest) if rest else ())]
    for key, value in values.items():
        if str(key) == name and isinstance(value, str):
            return [key]
        if name.startswith(f"{key}.") and isinstance(value, dict | list):
            return [key, *_path(value, name[len(str(key)) + 1 :])]
    raise KeyError(name)


def _ways(source: str, at: _FileText, text: str) -> Iterator[str]:
    """Yield the text as it may be written there, the best first."""
    raw = source[at.start : at.end]
    can_be_block = at.column is not None and all(c.isprintable() or c in "\n\t" for c in text)
    has_lines = "\n" in text.strip("\n")
    if at.style in ("|", ">") and can_be_block:
        yield _block(raw, at, text)
    elif can_be_block and has_lines and "\n" not in at.text:
        yield _block("", at, text)
    if at.style == "'" and text.isprintable():
        yield "'" + text.replace("'", "''") + "'"
    if at.style == "" and text.isprintable():
        yield text
    header = _HEADER.match(raw) if at.style in ("|", ">") else None
    yield quoted(text) + (f"{header[1]}{raw[len(raw.rstrip()) :]}" if header else "")


def _block(raw: str, at: _FileText, text: str) -> str:
    """Return a text as a block.

    A text that is a block keeps its indentation, and the comment and blank lines behind it.
    """
    header = _HEADER.match(raw)
    body = raw[header.end() :] if header else ""
    lines = [line for line in body.split("\n") if line.strip()]
    margin = (at.column or 0) + 2
    if lines:
        margin = min(len(line) - len(line.lstrip(" ")) for line in lines)
    style = ">" if at.style == ">" and "\n" not in text.rstrip("\n") else "|"
    own_end = len(text) - len(text.rstrip("\n"))
    chomp = "-" if own_end == 0 else "" if own_end == 1 else "+"
    first = text.lstrip("\n")[:1]
    indent = str(margin - (at.column or 0)) if first in (" ", "\t") else ""
    content = textwrap.indent(text.rstrip("\n"), " " * margin, lambda line: line != "\n")
    comment = header[1] if header else ""
    tail = body[len(body.rstrip("\n")) :] if own_end <= 1 else "\n" * own_end
    if not raw:
        tail = ""
    return f"{style}{indent}{chomp}{comment}\n{content}{tail}"
