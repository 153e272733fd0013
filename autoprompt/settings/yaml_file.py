"""YAML files read into checked records, with the file and line of everything that is wrong in them.

Words mean what they look like, as in YAML 1.2: `yes`, `no`, `on`, `off`, `007`, `1:30` and `2024-01-01` are
text here, since labels are often called so; only `true` and `false` are truth values.
"""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar, get_args, get_origin

import yaml
from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from autoprompt.errors import ConfigError

Model = TypeVar("Model", bound=BaseModel)
_MAX_SHOWN = 10
_LONGEST_LIST = 60
_AT_COMMAS = ("labels",)  # parted as by --labels; in other lists a comma may be part of a text


class Loader(yaml.SafeLoader):
    """SafeLoader with the scalars of YAML 1.2."""


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
Loader.yaml_implicit_resolvers = {}
for _name, (_pattern, _first) in _SCALARS.items():
    Loader.add_implicit_resolver(f"tag:yaml.org,2002:{_name}", re.compile(f"^(?:{_pattern})$"), list(_first))


def load_yaml(path: Path, model: type[Model]) -> Model:
    """The record that the file holds. Which fields the file gave: `model_fields_set`.

    Relative paths in it are relative to the file, and come back joined to its folder. A key without a value
    says nothing, as if it were not there.
    Raises ConfigError with file and line: no such file, no YAML, a key twice, an unknown key (with the
    closest known one), a value of the wrong kind; all of them together, the first ten in words.
    """
    file = open_yaml(path, _known(model))
    try:
        return _rebased(model.model_validate(_without_empty(file.data, model)), path.parent)
    except ValidationError as error:
        raise ConfigError(_joined(path, file.faults(error, model))) from error


@dataclass(frozen=True)
class YamlFile:
    """A file's keys and values, and the lines that they stand on."""

    path: Path
    data: dict[str, Any]
    _root: yaml.Node

    def line(self, where: Sequence[Hashable], *, is_key: bool = False) -> int:
        """Line of the value at a path of keys and places, or of its key; of the nearest thing around it."""
        return _line_of(self._root, where, is_key=is_key)

    def faults(
        self, error: ValidationError, model: type[BaseModel], where: Sequence[int | str] = ()
    ) -> list[tuple[int, str]]:
        """Line and sentence of everything that was wrong with the value at `where`."""
        told = [_fault(details, self._root, model, tuple(where)) for details in _causes(error)]
        return list(dict.fromkeys(told))


def open_yaml(path: Path, expected: str = "") -> YamlFile:
    """The mapping that a file holds, unchecked. expected: a sentence for a file that holds none.

    Raises ConfigError with file and line: no such file, no YAML, no mapping, a key twice or one that is no
    text.
    """
    return parse_yaml(_text(path), path, expected)


def parse_yaml(text: str, path: Path, expected: str = "") -> YamlFile:
    """`open_yaml` of a text that is to be the content of the file `path`."""
    data, node = _mapping(text, path, expected)
    odd = [key for key in data if not isinstance(key, str)]
    if odd:
        line = _line_of(node, (odd[0],), is_key=True)
        raise ConfigError(f"{path} line {line}: key {odd[0]!r} is no text. {expected}".rstrip())
    return YamlFile(path, data, node)


def read_mapping(path: Path, expected: str = "") -> dict[str, Any]:
    """The mapping that a file holds, whose keys are names: a number among them is its text.

    Raises what `open_yaml` raises otherwise.
    """
    return {str(name): value for name, value in _mapping(_text(path), path, expected)[0].items()}


def _mapping(text: str, path: Path, expected: str) -> tuple[dict[Any, Any], yaml.MappingNode]:
    try:
        loader = Loader(text)
        node = loader.get_single_node()
        doubles = list(_double_keys(node, set())) if node else []
        data = loader.construct_document(node) if isinstance(node, yaml.MappingNode) else None
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise ConfigError(_broken_yaml(path, error)) from error
    if not isinstance(node, yaml.MappingNode) or data is None:
        what = "the file is empty" if node is None else "no keys"
        raise ConfigError(f"{path} line 1: {what}, expected `key: value`. {expected}".rstrip())
    if doubles:
        raise ConfigError(_joined(path, doubles))
    return data, node


def top_keys(path: Path) -> dict[str, int]:
    """The keys at the top of a YAML file, with their lines: enough to tell what kind of file it is.

    Empty for a file that holds no mapping; `load_yaml` says what is wrong with it. Raises ConfigError for one
    that cannot be read or is no YAML.
    """
    node = _node(path)
    if not isinstance(node, yaml.MappingNode):
        return {}
    return {str(key.value): key.start_mark.line + 1 for key, _ in node.value}


def line_at(path: Path, where: Sequence[Hashable]) -> int:
    """The line (from 1) of what stands at `where`, e.g. `("include", 0)`, in a file that `load_yaml` took."""
    node = _node(path)
    return 1 if node is None else _line_of(node, where)


def _node(path: Path) -> yaml.Node | None:
    text = _text(path)
    try:
        return Loader(text).get_single_node()
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise ConfigError(_broken_yaml(path, error)) from error


def _text(path: Path) -> str:
    try:
        raw = path.read_bytes()
    except FileNotFoundError as error:
        raise ConfigError(f"{path}: no such file. Check the path.") from error
    except IsADirectoryError as error:
        raise ConfigError(f"{path}: is a folder, expected a YAML file. Give the path of one file.") from error
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}. Check its permissions.") from error
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise ConfigError(f"{path} line {line}: not UTF-8 text. Save the file as UTF-8.") from error


def _broken_yaml(path: Path, error: Exception) -> str:
    if isinstance(error, yaml.MarkedYAMLError) and (mark := error.problem_mark or error.context_mark):
        said = ", ".join(part for part in (error.context, error.problem) if part)
        hint = "Check the indentation, and put text with `: ` or `#` in quotes."
        return f"{path} line {mark.line + 1}: not YAML: {said} (column {mark.column + 1}). {hint}"
    if isinstance(error, yaml.reader.ReaderError):
        return f"{path}: not YAML: character {error.position + 1} ({error.reason}). Take it out."
    return f"{path}: not YAML: {error}"


def _double_keys(node: yaml.Node, seen: set[int]) -> Iterator[tuple[int, str]]:
    """YAML lets a second `key:` silently replace the first; here it is a fault."""
    if id(node) in seen:
        return
    seen.add(id(node))
    if isinstance(node, yaml.MappingNode):
        lines: dict[str, int] = {}
        for key, value in node.value:
            line = key.start_mark.line + 1
            if isinstance(key, yaml.ScalarNode) and key.value in lines and key.value != "<<":
                yield line, f"key {key.value!r} stands on line {lines[key.value]} already. Take one out."
            elif isinstance(key, yaml.ScalarNode):
                lines[key.value] = line
            yield from _double_keys(value, seen)
    elif isinstance(node, yaml.SequenceNode):
        for value in node.value:
            yield from _double_keys(value, seen)


def _causes(error: ValidationError) -> Iterator[ErrorDetails]:
    """What was wrong, without a list's being too short because its entries were wrong."""
    for details in error.errors():
        if details["type"] != "too_short" or not details["input"]:
            yield details


def _fault(
    details: ErrorDetails, node: yaml.Node, model: type[BaseModel], base: tuple[int | str, ...]
) -> tuple[int, str]:
    inner = details["loc"]
    where = base + inner
    kind = details["type"]
    dotted = ".".join(str(step) for step in inner)
    if kind == "extra_forbidden":
        at = _model_at(model, inner[:-1])
        known = list(at.model_fields) if at else []
        close = difflib.get_close_matches(str(inner[-1]), known, n=1)
        hint = f"Did you mean {close[0]!r}?" if close else (_known(at) if at else "Take it out.")
        return _line_of(node, where, is_key=True), f"unknown key {dotted!r}. {hint}"
    line = _line_of(node, where)
    if kind == "missing":
        return line, f"no value for {dotted!r}, expected one. Add it."
    said = details["msg"].removeprefix("Value error, ")
    said = said[:1].lower() + said[1:]
    if not inner:
        return line, f"{said}."
    found = details["input"]
    shown = repr(found) if len(repr(found)) <= 60 else repr(found)[:59] + "…"
    if kind in ("tuple_type", "list_type"):
        said = f"expected a list{_as_list(inner, found, model)}"
    elif kind in ("dict_type", "model_type"):
        at = _model_at(model, inner)
        said = f"expected keys with values below it. {_known(at) if at else 'Write KEY: VALUE.'}"
        said = said.removesuffix(".")
    elif kind == "string_type" and isinstance(found, (bool, int, float)):
        said += f'. Put it in quotes: "{str(found).lower()}"'
    return line, f"{dotted} is {shown}: {said}."


def _as_list(where: Sequence[int | str], found: Any, model: type[BaseModel]) -> str:
    """How to write what stands in the place of a list as one; of a list of records, which keys they have."""
    if (record := _model_at(model, where)) is not None:
        return f", each of {', '.join(record.model_fields)}"
    if not isinstance(found, str | int | float):
        return ""
    name = str(where[-1])
    values = (
        [part.strip() for part in found.split(",")]
        if name in _AT_COMMAS and isinstance(found, str)
        else [found]
    )
    text = yaml.safe_dump(values, default_flow_style=True, allow_unicode=True, width=math.inf).strip()
    return f": {name}: {text if len(text) <= _LONGEST_LIST else '[...]'}"


def _without_empty(data: Any, model: type[BaseModel]) -> Any:
    """A mapping without the keys that have no value and need one: those are left to their defaults."""
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
        inner = None if field is None else _model_in(field.annotation)
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


def _model_at(model: type[BaseModel], where: Sequence[int | str]) -> type[BaseModel] | None:
    at: type[BaseModel] | None = model
    for step in where:
        if isinstance(step, int):
            continue
        if at is None or step not in at.model_fields:
            return None
        at = _model_in(at.model_fields[step].annotation)
    return at


def _model_in(annotation: Any) -> type[BaseModel] | None:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next((found for part in get_args(annotation) if (found := _model_in(part))), None)


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


def _known(model: type[BaseModel]) -> str:
    return f"Known keys: {', '.join(model.model_fields)}."


def _joined(path: Path, faults: Sequence[tuple[int, str]]) -> str:
    shown = [f"{path} line {line}: {what}" for line, what in sorted(faults)[:_MAX_SHOWN]]
    rest = len(faults) - len(shown)
    return "\n".join(shown + ([f"... and {rest} more of {len(faults)} faults in this file"] if rest else []))
