"""Runs on disk: one folder each, written so that `kill -9` at any moment leaves one that can be resumed."""

from autoprompt.store.checkpoints import open_checkpointer
from autoprompt.store.export import EXPORT_FORMATS, export, export_run
from autoprompt.store.folder import SCHEMA_VERSION, RunFolder
from autoprompt.store.listing import ComponentDiff, RunDiff, RunLine, RunStore, diff
from autoprompt.store.progress import ProgressFile

__all__ = [
    "EXPORT_FORMATS",
    "SCHEMA_VERSION",
    "ComponentDiff",
    "ProgressFile",
    "RunDiff",
    "RunFolder",
    "RunStore",
    "RunLine",
    "diff",
    "export",
    "export_run",
    "open_checkpointer",
]
