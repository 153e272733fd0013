"""JSON out of a model's answer, as a node needs it: there, and of the form that is asked for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from autoprompt.text.answers.objects import read_json
from autoprompt.text.answers.texts import visible

_TYPES: Mapping[str, type[Any] | tuple[type[Any], ...]] = {
    "object": dict,
    "array": list,
    "string": str,
    "boolean": bool,
    "integer": int,
    "number": (int, float),
    "null": type(None),
}
_NONE = object()


def read_json_answer(text: str, kind: type[Any] | tuple[type[Any], ...] = object) -> Any:
    """The value that `read_json` reads. Raises ValueError, with the beginning of the answer, for none."""
    found = read_json(text, kind, default=_NONE)
    if found is _NONE:
        raise ValueError(f"the answer holds no JSON: {_shown(text)}")
    return found


def read_structured(text: str, schema: Mapping[str, Any]) -> Any:
    """The value for a JSON schema. Of the schema its type and `required` are held to: enough to see that the
    answer is another value than the one that is asked for. Raises ValueError where it is, or is none.
    """
    types = _types(schema)
    containers = tuple(kind for name, kind in (("object", dict), ("array", list)) if name in types)
    value = read_json_answer(text, containers or object)
    if types and not any(_fits(value, name) for name in types):
        found = next(name for name in _TYPES if _fits(value, name))
        raise ValueError(
            f"the answer does not fit its schema: expected {' or '.join(types)}, found {found}: "
            f"{_shown(text)}"
        )
    required = schema.get("required") or ()
    missing = [str(name) for name in required if name not in value] if isinstance(value, dict) else []
    if missing:
        raise ValueError(f"the answer has no {', '.join(missing)}: {_shown(text)}")
    return value


def _types(schema: Mapping[str, Any]) -> list[str]:
    """The types that a schema allows, () for any: one that names properties means an object."""
    named = schema.get("type", "object" if "properties" in schema else [])
    return [named] if isinstance(named, str) else [str(name) for name in named or ()]


def _fits(value: Any, name: str) -> bool:
    """Whether a value is of a type of JSON schema. A type that is none fits all."""
    if isinstance(value, bool):
        return _TYPES.get(name, bool) is bool
    if name == "integer" and isinstance(value, float):
        return value.is_integer()
    return isinstance(value, _TYPES.get(name, object))


def _shown(text: str) -> str:
    return repr(visible(text)[:200])
