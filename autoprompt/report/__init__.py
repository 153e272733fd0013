"""A run as people look at it: in a page, in Markdown, in the terminal."""

from autoprompt.report.summary import RunSummary, read_summary

__all__ = ["RunSummary", "read_summary"]
