"""What it takes to resume a run that ended early: the command to type, and where its files are by now."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from autoprompt.errors import AutopromptError, Interrupted
from autoprompt.runs.folder import RunFolder, batch_of
from autoprompt.text.machine import machine_problem
from autoprompt.text.names import counted

NO_ERRORS = "no_errors"  # why a search ended that left nothing to find
NO_BUDGET = "no_budget"  # why a run returns the highest end: it could not test the cheaper one
_LIMITED = (
    "max_calls",
    "max_tokens",
    "max_cost",
    "max_seconds",
    "max_iterations",
    "patience",
    "writer_failed",
)


def stop_reason_of(state: Mapping[str, Any]) -> str:
    """Return why a search ended, by its last state."""
    natural = "max_iterations" if state["iteration"] >= state["max_iterations"] else NO_ERRORS
    return state.get("stop_reason") or natural


def searches_on(stop_reason: str) -> bool:
    """Return whether more budget and more rounds take a search further that ended for this reason."""
    return stop_reason in _LIMITED


def can_continue(stop_reason: str, ends_reason: str) -> bool:
    """Return whether more budget takes a finished run further: its search, or the test of its cheaper end."""
    return searches_on(stop_reason) or ends_reason == NO_BUDGET


def resume_command(folder: RunFolder) -> str:
    """Return the command that resumes a run; for a trial, its batch, which keeps the budget."""
    return f"autoprompt resume {(batch_of(folder) or folder).reference}"


def note_resume(error: Exception, folder: RunFolder) -> None:
    """Add the command that resumes a run to an error of the machine, such as a full disk, that ended it."""
    codes = [problem.code for problem in error.problems] if isinstance(error, AutopromptError) else []
    if machine_problem(error) is not None or any(code.startswith("machine.") for code in codes):
        error.add_note(f"What was running is kept. Then resume it with: {resume_command(folder)}")


def interrupted(folder: RunFolder) -> Interrupted:
    """Return the error for Ctrl-C once the run has a folder."""
    return Interrupted(f"interrupted; the state is saved. Resume with: {resume_command(folder)}")


def interrupted_asking(*, is_cached: bool) -> Interrupted:
    """Return the error for Ctrl-C if there is no run to resume."""
    kept = "the answers so far are cached, so the same command does not request them again"
    lost = "without the cache, the same command starts from the beginning"
    return Interrupted(f"interrupted; {kept if is_cached else lost}")


def interrupted_trial(calls: int, *, is_cached: bool) -> Interrupted:
    """Return the error for Ctrl-C while a program is tried. calls: that it has sent."""
    kept = "the answers so far are cached, so it does not pay for them again"
    lost = "without the cache, it sends them again"
    said = f"interrupted while the program was tried, after {counted(calls, 'call')}; no run has begun"
    return Interrupted(f"{said}. The same command starts again; {kept if is_cached else lost}")


def places(folder: RunFolder, path: Path, from_run: str | None) -> list[Path]:
    """Return where a file of a run may be now: where it was, as seen from the run, beside its runs folder."""
    here = folder.path.absolute()
    moved = [] if from_run is None else [Path(os.path.normpath(here / from_run))]
    return [path, *moved, here.parent.parent / path.name]


def seen_from(folder: RunFolder, path: Path) -> str:
    """So that runs that are moved with their data, rows that a program gave among them, find it again."""
    try:
        return os.path.relpath(path, folder.path)
    except ValueError:  # on another drive
        return str(path.absolute())
