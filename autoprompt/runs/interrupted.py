"""Messages for a run of any kind that ended early: it is kept, and how to resume it."""

from __future__ import annotations

from autoprompt.errors import Interrupted, StoreError
from autoprompt.runs.folder import RunFolder


def batch_of(folder: RunFolder) -> RunFolder | None:
    """Return the batch that a run is a trial of, from the folder that contains it; None if there is none."""
    above = RunFolder(folder.path.absolute().parent)
    try:
        is_trial = above.info_path.is_file() and above.read_info().get("kind") == "batch"
    except StoreError:  # somebody else's run.json
        return None
    return above if is_trial else None


def resume_command(folder: RunFolder) -> str:
    """Return the command that resumes a run; for a trial, its batch, which keeps the budget."""
    return f"autoprompt resume {(batch_of(folder) or folder).reference}"


def interrupted(folder: RunFolder) -> Interrupted:
    """Return the error for Ctrl-C once the run has a folder."""
    return Interrupted(f"interrupted; the state is saved. Resume with: {resume_command(folder)}")


def interrupted_asking(*, is_cached: bool) -> Interrupted:
    """Return the error for Ctrl-C if there is no run to resume."""
    kept = "the answers so far are cached, so the same command does not request them again"
    lost = "without the cache, the same command starts from the beginning"
    return Interrupted(f"interrupted; {kept if is_cached else lost}")
