"""What was made once is not made again while what it was made from stays: 50 open tabs cost one making."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from pathlib import Path
from typing import Generic, TypeVar

# A report of 5,000 rows is some megabytes.
_MOST = 8
# What the parts of a page are made from; `progress.json` changes all the time and is no part of them.
_FILES = ("run.json", "config.yaml", "events.jsonl", "candidates.jsonl", "result.json", "predictions")

T = TypeVar("T")


class Kept(Generic[T]):
    """The last few values by name. For several threads: of those that ask for the same, one makes it."""

    def __init__(self, most: int = _MOST) -> None:
        self._most = most
        self._values: OrderedDict[str, tuple[Hashable, T]] = OrderedDict()
        self._making: dict[str, threading.Lock] = {}
        self._lock = threading.Lock()

    def get(self, name: str, mark: Hashable, make: Callable[[], T]) -> T:
        """The value of this name if it was made under this mark; else it is made."""
        with self._lock:
            making = self._making.setdefault(name, threading.Lock())
        with making:
            known = self._values.get(name)
            if known is not None and known[0] == mark:
                return known[1]
            value = make()
            with self._lock:
                self._values[name] = (mark, value)
                self._values.move_to_end(name)
                while len(self._values) > self._most:
                    self._making.pop(self._values.popitem(last=False)[0], None)
            return value


def mark_of(folder: Path, names: Sequence[str] = _FILES) -> Hashable:
    """What changes when one of these files of a run does. Cheap: nothing is read."""
    found: list[object] = []
    for name in names:
        try:
            status = (folder / name).lstat()
        except OSError:
            found.append(None)
        else:
            found.append((status.st_mtime_ns, status.st_size, status.st_ino))
    return tuple(found)
