"""What was added to a file of JSON lines since the last look: whole lines alone."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any

_BLOCK = 1 << 20
# Nothing here writes such a line; a file that does must not fill the memory.
_LONGEST_LINE = 32 << 20


class Tail:
    """Reads on from where it was. Only the end of a line makes it count, so half a line is never seen.

    A file that was replaced, or cut shorter than what was read, is read from its start again; `is_restarted`
    then tells the reader to forget what it knew. (A resumed run cuts off an unfinished last line, which does
    not count here anyway.)
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: tuple[int, int] | None = None
        self._position = 0
        self.is_restarted = False

    @property
    def position(self) -> int:
        """Bytes of whole lines that were read."""
        return self._position

    def read(self) -> list[dict[str, Any]]:
        """The objects that were added, in their order; lines that are none are passed over."""
        self.is_restarted = False
        try:
            with open(self._path, "rb", opener=_open_no_link) as stream:
                return self._read_on(stream)
        except OSError:  # not written yet, just removed, another user's: no reason to end the others' news
            return []

    def _read_on(self, stream: IO[bytes]) -> list[dict[str, Any]]:
        status = os.fstat(stream.fileno())
        file = (status.st_dev, status.st_ino)
        if self._file is not None and (file != self._file or status.st_size < self._position):
            self.is_restarted = True
            self._position = 0
        self._file = file
        stream.seek(self._position)
        return list(self._lines(stream.read))

    def _lines(self, read: Callable[[int], bytes]) -> Iterator[dict[str, Any]]:
        rest = b""
        while block := read(_BLOCK):
            *lines, rest = (rest + block).split(b"\n")
            for line in lines:
                self._position += len(line) + 1
                if (row := _as_object(line)) is not None:
                    yield row
            if len(rest) > _LONGEST_LINE:
                return


def _open_no_link(path: str, flags: int) -> int:
    return os.open(path, flags | getattr(os, "O_NOFOLLOW", 0))


def _as_object(line: bytes) -> dict[str, Any] | None:
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):  # damaged, or made to hurt
        return None
    return value if isinstance(value, dict) else None
