"""Regular expressions that are compiled when they are first used.

The readings of answers have a hundred long ones; compiling them all takes an eighth of a command's start.
"""

from __future__ import annotations

import re
from typing import Any, cast


class _Lazy:
    def __init__(self, source: str, flags: int) -> None:
        self._source, self._flags = source, flags

    def __getattr__(self, name: str) -> Any:
        value = getattr(re.compile(self._source, self._flags), name)
        setattr(self, name, value)  # found without this method from now on
        return value


def lazy(source: str, flags: int = 0) -> re.Pattern[str]:
    """Return what `re.compile` returns; `source` is looked at when it is first used."""
    return cast(re.Pattern[str], _Lazy(source, flags))
