"""What the pages load beside themselves: a fixed list, under names that change with the content."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from autoprompt.report import html

_FOLDER = Path(__file__).with_name("assets")
_TYPES = {
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}


@dataclass(frozen=True, slots=True)
class Asset:
    """One file. address: under which it is served, with a part of its hash: browsers keep it for good."""

    address: str
    content: bytes
    media_type: str


def load_assets() -> Mapping[str, Asset]:
    """Name in a template -> asset."""
    contents = {"report.css": html.css().encode(), "report.js": html.script().encode()}
    contents |= {path.name: path.read_bytes() for path in sorted(_FOLDER.iterdir()) if path.suffix in _TYPES}
    return {name: _asset(name, content) for name, content in contents.items()}


def _asset(name: str, content: bytes) -> Asset:
    mark = hashlib.sha256(content).hexdigest()[:10]
    stem, dot, ending = name.rpartition(".")
    return Asset(f"/assets/{stem}.{mark}.{ending}", content, _TYPES[dot + ending])
