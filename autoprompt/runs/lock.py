"""Whether a lock file is held, without writing: a run may lie on a disk that cannot be written."""

from __future__ import annotations

import os
import sys
from pathlib import Path

if sys.platform == "win32":
    from filelock import FileLock, Timeout

    def is_held(path: Path) -> bool:
        """Whether a process holds the FileLock of this path."""
        if not path.exists():
            return False
        lock = FileLock(path)
        try:
            lock.acquire(timeout=0)
        except Timeout:
            return True
        lock.release()
        return False

else:
    import fcntl

    def is_held(path: Path) -> bool:
        """Whether a process holds the FileLock of this path.

        filelock takes an exclusive `flock`. A share of it is asked for here, since shares do not hinder each
        other: two processes that only look never take each other for the holder.
        """
        try:
            handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
        except OSError:  # never locked, or a link, which filelock does not follow either
            return False
        try:
            fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        finally:
            os.close(handle)
        return False
