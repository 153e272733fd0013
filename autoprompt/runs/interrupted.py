"""What is said of a run of any kind that ended before its time: that it is kept, and how it goes on."""

from __future__ import annotations

from autoprompt.errors import Interrupted, StoreError
from autoprompt.runs.folder import RunFolder


def batch_of(folder: RunFolder) -> RunFolder | None:
    """The batch that a run is a trial of, known by the folder that it lies in."""
    above = RunFolder(folder.path.absolute().parent)
    try:
        is_trial = above.info_path.is_file() and above.read_info().get("kind") == "batch"
    except StoreError:  # somebody else's run.json
        return None
    return above if is_trial else None


def resume_command(folder: RunFolder) -> str:
    """What goes on with a run: of a trial its batch, in whose books its spending is."""
    return f"autoprompt resume {(batch_of(folder) or folder).reference}"


def interrupted(folder: RunFolder) -> Interrupted:
    """What Ctrl-C ends with, once the run has a folder."""
    return Interrupted(f"interrupted; the state is saved. Go on with: {resume_command(folder)}")


def interrupted_asking(*, is_cached: bool) -> Interrupted:
    """Ctrl-C where there is no run to go on with: what the same command finds again."""
    kept = "the answers so far are in the cache, and the same command does not ask for them again"
    lost = "without the cache the same command begins anew"
    return Interrupted(f"interrupted; {kept if is_cached else lost}")
