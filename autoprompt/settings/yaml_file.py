"""YAML files read into checked records, with the file and line of everything that is wrong in them.

Words mean what they look like, as in YAML 1.2: `yes`, `no`, `on`, `off`, `007`, `1:30` and `2024-01-01` are
text here, since labels are often called so; only `true` and `false` are truth values.
"""

from __future__ import annotations

import json
import re
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, TypeVar, get_args, get_origin

import yaml
from pydantic import BaseModel, ValidationError

from autoprompt.errors import ConfigError, Place, Problem
from autoprompt.settings.kinds import Loc, first_problems, known_keys, model_in, problems_of
from autoprompt.text.files import BINARY, UTF16, UTF16_FIX, binary_line, is_utf16, open_file

Model = TypeVar("Model", bound=BaseModel)


MAX_BYTES = 50_000_000
MAX_VALUES = 250_000  # keys count, too: read in 3 s, with 150 MB
MAX_DEPTH = 100
# libyaml, where PyYAML has it: five times as fast, and seventy times as fast in long texts.
_Reading: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_MERGE = "tag:yaml.org,2002:merge"
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")  # half of a pair, as JSON escapes it: libyaml refuses it


class _SizeError(yaml.YAMLError):
    """A text that would take too much time or memory to read.

    Args:
        line: From 1.
        said: What is too large.
        fix: What to do, as a sentence.
    """

    def __init__(self, line: int, said: str, fix: str) -> None:
        super().__init__(f"line {line}: {said}. {fix}")
        self.line, self.said, self.fix = line, said, fix


class _Pairing(yaml.SafeLoader):
    """SafeLoader, all of it in Python, that joins the two halves of an escaped surrogate pair."""

    def construct_scalar(self, node: yaml.ScalarNode | yaml.MappingNode) -> Any:
        value = super().construct_scalar(node)
        if isinstance(value, str) and any("\ud800" <= sign <= "\udfff" for sign in value):
            return value.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")
        return value


class Composer(_Pairing):
    """SafeLoader with the scalars of YAML 1.2, all of it in Python."""


class Loader(_Reading):  # type: ignore[misc]
    """The same, as fast as this installation of PyYAML can."""


_SCALARS = {
    "bool": (r"true|True|TRUE|false|False|FALSE", "tTfF"),
    "int": (r"[-+]?(?:0|[1-9][0-9]*)", "-+0123456789"),
    "float": (
        r"[-+]?(?:[0-9]+\.[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]+)?|[-+]?[0-9]+[eE][-+]?[0-9]+|[-+]?\.inf|\.nan",
        "-+.0123456789",
    ),
    "null": (r"~|null|Null|NULL|", ["~", "n", "N", ""]),
    "merge": (r"<<", "<"),
}
for _loader in (Composer, Loader):
    _loader.yaml_implicit_resolvers = {}
    for _name, (_pattern, _first) in _SCALARS.items():
        _loader.add_implicit_resolver(
            f"tag:yaml.org,2002:{_name}", re.compile(f"^(?:{_pattern})$"), list(_first)
        )


def _loader_for(text: str) -> Any:
    return Composer if _SURROGATE.search(text) else Loader


def _check_size(text: str) -> None:
    """Read through a text before anything is made of it.

    Raises:
        _SizeError: For too many values, each alias counted with all that it stands for; for too deep nesting;
            and for an alias inside of what it stands for. yaml.YAMLError: For what is no YAML.
    """
    sizes: dict[str | None, int] = {}  # of what has an anchor; 0 while that is not complete
    opened: list[tuple[str | None, int]] = []  # anchor, and how many values came before
    total = 0
    events: Iterator[Any] = yaml.parse(text, Loader=_loader_for(text))
    for event in events:
        line = event.start_mark.line + 1
        if isinstance(event, yaml.AliasEvent):
            size = sizes.get(event.anchor, 1)
            if size == 0:
                raise _SizeError(line, f"*{event.anchor} is inside of &{event.anchor}", "Remove one of them.")
            total += size
        elif isinstance(event, yaml.ScalarEvent):
            total += 1
            if event.anchor is not None:
                sizes[event.anchor] = 1
        elif isinstance(event, yaml.CollectionStartEvent):
            opened.append((event.anchor, total))
            total += 1
            if event.anchor is not None:
                sizes[event.anchor] = 0
            if len(opened) > MAX_DEPTH:
                raise _SizeError(line, f"nested more than {MAX_DEPTH} levels deep", "Make it flatter.")
        elif isinstance(event, yaml.CollectionEndEvent):
            anchor, before = opened.pop()
            if anchor is not None:
                sizes[anchor] = total - before
        if total > MAX_VALUES:
            said = f"more than {MAX_VALUES:,} values, with those that aliases repeat"
            raise _SizeError(line, said, "Make the file smaller.")


def safe_load(text: str) -> Any:
    """Return what a text holds, with YAML 1.1's scalars, as `to_yaml` writes it.

    Raises:
        yaml.YAMLError: For what is no YAML, and for too much of it.
    """
    _check_size(text)
    return yaml.load(text, Loader=_Pairing if _SURROGATE.search(text) else _Reading)


def read_value(text: str) -> Any:
    """Return what a text is as a value of a config file.

    Raises:
        yaml.YAMLError: For what is no YAML, and for too much of it.
    """
    _check_size(text)
    return yaml.load(text, Loader=Loader)


def quoted(text: str) -> str:
    """Return a text in YAML's double quotes: as JSON, with what YAML takes for line ends escaped too."""

    def escaped(sign: str) -> str:
        return f"\\u{ord(sign):04x}" if ord(sign) < 0x10000 else f"\\U{ord(sign):08x}"

    signs = json.dumps(text, ensure_ascii=False)
    return "".join(sign if sign.isprintable() else escaped(sign) for sign in signs)


def switch_or_text(text: str) -> bool | str:
    """Return true or false for a word that is one in a config file: nobody means a file of that name."""
    word = text.strip().lower()
    return word == "true" if word in ("true", "false") else text


def load_yaml(path: Path, model: type[Model], source: Literal["file", "sidecar"] = "file") -> Model:
    """Return the record that the file holds. `model_fields_set` of it has the fields that the file gave.

    Relative paths in it are relative to the file, and are returned joined to its folder. A key without a
    value is ignored.

    Args:
        path: The file.
        model: Kind of the record.
        source: Which kind of file it is, for messages.

    Raises:
        ConfigError: With file and line: no such file, no YAML, a key twice, an unknown key (with the closest
            known one), a value of the wrong kind; all of them together, the first ten in full.
    """
    file = open_yaml(path, known_keys(model))
    try:
        return _rebased(model.model_validate(_without_empty(file.data, model)), path.parent)
    except ValidationError as error:
        found = [
            replace(problem, place=replace(problem.place, source=source))
            for problem in file.problems(error, model)
        ]
        found.sort(key=lambda problem: problem.place.line or 0)
        raise ConfigError(*first_problems(found, Place(path))) from None  # it says all of the cause


@dataclass(frozen=True)
class YamlFile:
    """A file's keys and values, and the lines that they are on."""

    path: Path
    data: dict[str, Any]
    _root: yaml.Node

    def line(self, where: Sequence[Hashable], *, is_key: bool = False) -> int:
        """Return the line of a value or its key; of the nearest thing around it if it is not in the file.

        Args:
            where: Keys and indices on the way to the value.
            is_key: Return the line of its key.
        """
        return _line_of(self._root, where, is_key=is_key)

    def problems(
        self, error: ValidationError, model: type[BaseModel], where: Sequence[int | str] = ()
    ) -> list[Problem]:
        """Return everything that is wrong with the value at `where`; settings are named from there."""

        def place_of(inner: Loc, is_key: bool) -> Place:
            line = self.line((*where, *inner), is_key=is_key)
            return Place(self.path, line, setting=".".join(map(str, inner)) or None, source="file")

        return problems_of(error, model, place_of, word="key")


def open_yaml(path: Path, expected: str = "") -> YamlFile:
    """Return the mapping that a file holds, unchecked.

    Args:
        path: The file.
        expected: A sentence for a file that holds no mapping.

    Raises:
        ConfigError: With file and line: no such file, no YAML, no mapping, a key twice or one that is no
            text.
    """
    return parse_yaml(_text(path), path, expected)


def parse_yaml(text: str, path: Path, expected: str = "") -> YamlFile:
    """Do what `open_yaml` does with a text that is to be the content of the file `path`."""
    data, node = _mapping(text, path, expected)
    odd = [key for key in data if not isinstance(key, str)]
    if odd:
        line = _line_of(node, (odd[0],), is_key=True)
        said = f"the key {odd[0]!r} is no text"
        raise ConfigError(Problem("settings.key-not-text", said, Place(path, line, source="file"), expected))
    return YamlFile(path, data, node)


def open_mapping(path: Path, expected: str = "") -> YamlFile:
    """Do what `open_yaml` does with a file whose keys are names: a number among them is its text."""
    data, node = _mapping(_text(path), path, expected)
    return YamlFile(path, {str(name): value for name, value in data.items()}, node)


def _mapping(text: str, path: Path, expected: str) -> tuple[dict[Any, Any], yaml.MappingNode]:
    try:
        _check_size(text)
        loader = _loader_for(text)(text)
        node = loader.get_single_node()
        doubles = list(_double_keys(node, set())) if node else []
        data = loader.construct_document(node) if isinstance(node, yaml.MappingNode) else None
    except (yaml.YAMLError, ValueError) as error:
        raise ConfigError(_broken_yaml(path, error)) from None
    if not isinstance(node, yaml.MappingNode) or data is None:
        said = f"{'the file is empty' if node is None else 'no keys'}, expected `key: value`"
        raise ConfigError(Problem("settings.no-keys", said, Place(path, 1, source="file"), expected))
    if doubles:
        found = sorted(
            (_double_key(path, *double) for double in doubles), key=lambda problem: problem.place.line or 0
        )
        raise ConfigError(*first_problems(found, Place(path)))
    return data, node


def _double_key(path: Path, name: str, line: int, first: int) -> Problem:
    place, related = Place(path, line, source="file"), (Place(path, first, source="file"),)
    said = f"the key {name!r} is given twice"
    return Problem("settings.duplicate-key", said, place, "Take one out.", related=related)


def top_keys(path: Path) -> dict[str, int]:
    """Return the keys at the top of a YAML file, with their lines: they tell what kind of file it is.

    Empty for a file that holds no mapping; `load_yaml` says what is wrong with it.

    Raises:
        ConfigError: For a file that cannot be read or is no YAML.
    """
    return _keys(_node(path))


def _keys(node: yaml.Node | None) -> dict[str, int]:
    """Return the keys of a mapping with their lines; those of a merge (`<<: *defaults`) are its own, too."""
    if not isinstance(node, yaml.MappingNode):
        return {}
    own: dict[str, int] = {}
    merged: dict[str, int] = {}
    for key, value in node.value:
        if key.tag != _MERGE:
            own[str(key.value)] = key.start_mark.line + 1
            continue
        for part in value.value if isinstance(value, yaml.SequenceNode) else [value]:
            merged |= _keys(part)  # of several the last wins, as PyYAML has it
    return {**merged, **own}


def line_at(path: Path, where: Sequence[Hashable]) -> int:
    """Return the line (from 1) of what is at `where`, e.g. `("include", 0)`, in a file that was loaded."""
    node = _node(path)
    return 1 if node is None else _line_of(node, where)


def _node(path: Path) -> yaml.Node | None:
    text = _text(path)
    try:
        _check_size(text)
        node: yaml.Node | None = _loader_for(text)(text).get_single_node()
        return node
    except (yaml.YAMLError, ValueError) as error:
        raise ConfigError(_broken_yaml(path, error)) from None


def _text(path: Path) -> str:
    try:
        with open_file(path) as file:
            raw = file.read(MAX_BYTES + 1)
    except FileNotFoundError:
        problem = Problem("settings.file-not-found", "no such file", Place(path), "Check the path.")
        raise ConfigError(problem) from None
    except IsADirectoryError:
        said, fix = "this is a folder, expected a YAML file", "Give the path of one file."
        raise ConfigError(Problem("settings.folder", said, Place(path), fix)) from None
    except OSError as error:
        said, fix = f"cannot be read: {error.strerror}", "Check the permissions of the file."
        raise ConfigError(Problem("settings.unreadable", said, Place(path), fix)) from None
    if len(raw) > MAX_BYTES:
        said = f"more than {MAX_BYTES:,} bytes"
        raise ConfigError(Problem("settings.too-large", said, Place(path), "Make it smaller."))
    if is_utf16(raw):
        raise ConfigError(Problem("settings.not-utf8", UTF16, Place(path, 1), UTF16_FIX))
    if (binary := binary_line(raw)) is not None:
        raise ConfigError(Problem("settings.not-text", BINARY, Place(path, binary), "Give a YAML file."))
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        problem = Problem("settings.not-utf8", "not UTF-8 text", Place(path, line), "Save the file as UTF-8.")
        raise ConfigError(problem) from None


def _broken_yaml(path: Path, error: Exception) -> Problem:
    if isinstance(error, _SizeError):
        return Problem("settings.too-large", error.said, Place(path, error.line), error.fix)
    if isinstance(error, yaml.MarkedYAMLError) and (mark := error.problem_mark or error.context_mark):
        said = ", ".join(part for part in (error.context, error.problem) if part)
        fix = "Check the indentation, and put text with `: ` or `#` in quotes."
        said = f"not YAML: {said} (column {mark.column + 1})"
        return Problem("settings.not-yaml", said, Place(path, mark.line + 1), fix)
    if isinstance(error, yaml.reader.ReaderError):
        said = f"not YAML: character {error.position + 1} ({error.reason})"
        return Problem("settings.not-yaml", said, Place(path), "Take it out.")
    return Problem("settings.not-yaml", f"not YAML: {error}", Place(path))


def _double_keys(node: yaml.Node, seen: set[int]) -> Iterator[tuple[str, int, int]]:
    """Yield each key that is twice in a mapping, with its line and that of the first.

    YAML lets the second silently replace the first.
    """
    if id(node) in seen:
        return
    seen.add(id(node))
    if isinstance(node, yaml.MappingNode):
        lines: dict[str, int] = {}
        for key, value in node.value:
            line = key.start_mark.line + 1
            if isinstance(key, yaml.ScalarNode) and key.value in lines and key.value != "<<":
                yield key.value, line, lines[key.value]
            elif isinstance(key, yaml.ScalarNode):
                lines[key.value] = line
            yield from _double_keys(value, seen)
    elif isinstance(node, yaml.SequenceNode):
        for value in node.value:
            yield from _double_keys(value, seen)


def _without_empty(data: Any, model: type[BaseModel]) -> Any:
    """Return a mapping without the keys that need a value and have none, which then have their defaults."""
    if not isinstance(data, dict):
        return data
    kept: dict[Any, Any] = {}
    for name, value in data.items():
        field = model.model_fields.get(name) if isinstance(name, str) else None
        if (
            value is None
            and field is not None
            and not field.is_required()
            and not _may_be_none(field.annotation)
        ):
            continue
        inner = None if field is None else model_in(field.annotation)
        kept[name] = value if inner is None else _without_empty(value, inner)
    return kept


def _may_be_none(annotation: Any) -> bool:
    if get_origin(annotation) in (dict, list, tuple):
        return False
    return annotation in (type(None), Any) or any(map(_may_be_none, get_args(annotation)))


def _line_of(node: yaml.Node, where: Sequence[Hashable], *, is_key: bool = False) -> int:
    """Line of the value at `where`, or of its key; of the nearest thing around it that is in the file."""
    line = node.start_mark.line + 1
    for index, step in enumerate(where):
        if isinstance(node, yaml.MappingNode):
            found = next(((key, value) for key, value in node.value if key.value == str(step)), None)
            if found is None:
                break
            node = found[1]
            wants_key = is_key and index == len(where) - 1
            line = (found[0] if wants_key else node).start_mark.line + 1
        elif isinstance(node, yaml.SequenceNode) and isinstance(step, int) and step < len(node.value):
            node = node.value[step]
            line = node.start_mark.line + 1
        else:
            break
    return line


def _rebased(record: Model, folder: Path) -> Model:
    changed: dict[str, Any] = {}
    for name in record.model_fields_set:
        value = getattr(record, name)
        if isinstance(value, Path):
            changed[name] = folder / value
        elif isinstance(value, tuple | list) and any(isinstance(part, Path) for part in value):
            changed[name] = type(value)(folder / part if isinstance(part, Path) else part for part in value)
        elif isinstance(value, tuple | list) and any(isinstance(part, BaseModel) for part in value):
            changed[name] = type(value)(_rebased(part, folder) for part in value)
        elif isinstance(value, BaseModel):
            changed[name] = _rebased(value, folder)
    return record.model_copy(update=changed) if changed else record
