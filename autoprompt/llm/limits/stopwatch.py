"""The time of a run, over all its sessions."""

from __future__ import annotations

from collections.abc import Callable


class Stopwatch:
    """Runs from its making on. clock: seconds that never go back. Its owner keeps threads apart."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._begun = self._made = clock()
        self._first_call: float | None = None

    @property
    def seconds(self) -> float:
        """Of the run, with those of the sessions before."""
        return self._clock() - self._begun

    @property
    def seconds_here(self) -> float:
        """Of this session."""
        return self._clock() - self._made

    def restore(self, seconds: float, *, has_called: bool) -> None:
        """Go on from what an earlier session had taken."""
        self._begun = self._clock() - seconds
        self._first_call = self._begun if has_called else None

    def note_call(self) -> None:
        """A request is about to be sent."""
        if self._first_call is None:
            self._first_call = self._clock()

    def per_call(self, calls: int) -> float:
        """Since the first of so many calls, for each; 0.0 before the first."""
        return 0.0 if self._first_call is None else (self._clock() - self._first_call) / max(1, calls)
