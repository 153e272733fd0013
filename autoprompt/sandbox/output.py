"""Output of any length in bounded memory: the first and the last part of it."""

from __future__ import annotations

from autoprompt.text.names import counted


class HeadAndTail:
    """Takes bytes; keeps at most `limit` of them (and one read more while reading)."""

    def __init__(self, limit: int) -> None:
        self._half = max(1, limit // 2)
        self._head = bytearray()
        self._tail = bytearray()
        self._seen = 0

    def add(self, part: bytes) -> None:
        self._seen += len(part)
        room = self._half - len(self._head)
        self._head += part[:room]
        self._tail += part[room:]
        if len(self._tail) > self._half:
            del self._tail[: -self._half]

    def text(self) -> str:
        """A character cut in two at the gap becomes a replacement character."""
        dropped = self._seen - len(self._head) - len(self._tail)
        if not dropped:
            return (self._head + self._tail).decode("utf-8", "replace")
        head, tail = self._head.decode("utf-8", "replace"), self._tail.decode("utf-8", "replace")
        return f"{head}\n[... {counted(dropped, 'byte')} left out ...]\n{tail}"
