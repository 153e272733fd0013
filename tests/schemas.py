"""Whether data fit a published JSON schema, every field of theirs named in it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest

REFERENCE = Path(__file__).parents[1] / "docs" / "reference"


def schema(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((REFERENCE / f"{name}.schema.json").read_text(encoding="utf-8"))
    return found


def fits(name: str, data: Any, part: str = "") -> None:
    """Fail if `data`, as JSON, are no `name`, or no part of it with this name."""
    known = _closed(schema(name))
    if part:
        known = {"$ref": f"#/$defs/{part}", "$defs": known["$defs"]}
    validator = jsonschema.Draft202012Validator(known)
    faults = validator.iter_errors(json.loads(json.dumps(data)))
    if found := [f"{name}: {list(fault.path)}: {fault.message[:200]}" for fault in faults]:
        pytest.fail("\n".join(found))


def _closed(part: Any) -> Any:
    """Return the schema in which a field that it does not name is a fault."""
    if isinstance(part, list):
        return [_closed(item) for item in part]
    if not isinstance(part, dict):
        return part
    own = {name: _closed(value) for name, value in part.items()}
    if part.get("type") == "object" and isinstance(part.get("properties"), dict):
        own["additionalProperties"] = False
    return own
