"""A workflow's file: read, checked with all its faults at once, and made ready to run."""

from autoprompt.workflow.file.building import load_definition
from autoprompt.workflow.file.faults import Fault

__all__ = ["Fault", "load_definition"]
