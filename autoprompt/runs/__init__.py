"""Runs on disk: one folder each, written so that `kill -9` at any moment leaves one that can be resumed."""

from autoprompt.runs.events import ProgressFile
from autoprompt.runs.folder import SCHEMA_VERSION, RunFolder
from autoprompt.runs.listing import RunLine, RunStore

__all__ = [
    "SCHEMA_VERSION",
    "ProgressFile",
    "RunFolder",
    "RunLine",
    "RunStore",
]
