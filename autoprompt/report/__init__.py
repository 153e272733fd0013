"""A run as people look at it: in a page, in Markdown, in the terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

__all__ = ["RunSummary", "read_summary"]

if TYPE_CHECKING:
    from autoprompt.report.summary import RunSummary, read_summary


def __getattr__(name: str) -> Any:
    """Import when used: whoever wants a diff alone need not read settings and datasets."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from autoprompt.report import summary

    return getattr(summary, name)
