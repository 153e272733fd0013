"""Runs on disk: one folder each, written so that `kill -9` at any moment leaves one that can be resumed."""

from autoprompt.runs.checkpoints import open_checkpointer
from autoprompt.runs.events import ProgressFile
from autoprompt.runs.folder import SCHEMA_VERSION, RunFolder
from autoprompt.runs.listing import ComponentDiff, RunDiff, RunLine, RunStore, diff

__all__ = [
    "SCHEMA_VERSION",
    "ComponentDiff",
    "ProgressFile",
    "RunDiff",
    "RunFolder",
    "RunStore",
    "RunLine",
    "diff",
    "open_checkpointer",
]
