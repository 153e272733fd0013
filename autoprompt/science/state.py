"""The state that the nodes share: numbers and short texts only. The passes lie in files, see `PassLog`."""

from __future__ import annotations

from typing import Any, TypedDict


class ScienceState(TypedDict, total=False):
    number: int  # turns of the model so far
    experiments: int  # how many there may be
    known: dict[str, Any]  # what the model is told of data and libraries: {files, libraries}
    has_code: bool  # whether the last turn has an experiment that is to be run
    conclusion: str
    is_concluded: bool
    stopped_early: bool
    stop_reason: str
    warnings: list[str]

    journal_position: int  # answers in the journal at this checkpoint
    spent: dict[str, Any]  # the budget's counters at this checkpoint
