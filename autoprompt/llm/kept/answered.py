"""Which model answered: the name in the answers, beside the name that was asked for."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from autoprompt.errors import Place, Problem
from autoprompt.llm.client import CallRole

# What names a version of the same model: a date (2024-07-18, 0613, 20241022), a number (002, v2), or a word.
# `32k`, `mini` and `8b` name another model.
_VERSION = re.compile(r"(?:[-@:_](?:\d{2,8}|v\d+(?:\.\d+)*|latest|preview|stable|beta|exp|free))*")
_SETTINGS: dict[CallRole, str] = {"task": "model", "optimizer": "optimizer_model", "judge": "judge_model"}


def is_same_model(asked: str, answered: str) -> bool:
    """Whether an answer's name is the one that was asked for, or a version of it.

    Capitals do not count, nor does what comes before the last slash: providers and folders are written there.
    An endpoint that leaves the version out may well have answered with it.

    Example:
        >>> is_same_model("openai/gpt-4o-mini", "gpt-4o-mini-2024-07-18")
        True
        >>> is_same_model("gpt-4o", "gpt-4o-mini")
        False
    """
    wanted, found = (name.strip().rstrip("/").rpartition("/")[2].casefold() for name in (asked, answered))
    wanted = re.sub(r"[-@:_]latest$", "", wanted)
    longer, shorter = (found, wanted) if len(found) > len(wanted) else (wanted, found)
    return longer.startswith(shorter) and _VERSION.fullmatch(longer[len(shorter) :]) is not None


@dataclass(frozen=True, slots=True)
class Answered:
    """The names in the answers of one role.

    asked: the name in the requests; None if the endpoint chose, or for a client of one's own. endpoint: host
    and port, without a password. names: name -> number of answers, in the order in which they came first.
    """

    role: CallRole
    asked: str | None
    endpoint: str
    names: Mapping[str, int]

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON, as `result.json` has it."""
        return {"asked": self.asked, "endpoint": self.endpoint, "answered": dict(self.names)}

    def problems(self) -> list[Problem]:
        """Return a warning if another model answered, and one if the model changed on the way."""
        place, found = Place(setting=_SETTINGS[self.role]), []
        at = f" at {self.endpoint}" if self.endpoint else ""
        strangers = [name for name in self.names if self.asked and not is_same_model(self.asked, name)]
        if strangers:
            said = f"{self.asked!r} was asked for{at}, but answers name {', '.join(map(repr, strangers))}"
            found.append(Problem("model.other-name", said, place, "Check what that endpoint serves."))
        if len(self.names) > 1:
            first, *others = map(repr, self.names)
            said = f"the model{at} changed during the run: answers name {first}, later {', '.join(others)}"
            fix = "The scores mix them. Ask for one by its dated name, and start a new run."
            found.append(Problem("model.changed", said, place, fix))
        return found
