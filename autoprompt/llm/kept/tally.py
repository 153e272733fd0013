"""The answers of each role, counted: how many were cut off or empty, and which models they name."""

from __future__ import annotations

import re
import threading
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from autoprompt.errors import Place, Problem
from autoprompt.llm.client import CallRole, Completion, Options
from autoprompt.records import Usage
from autoprompt.text.answers.texts import split_thoughts
from autoprompt.text.names import counted

# What bounds the answers of a role, and what names its model.
_LIMITS: dict[CallRole, str] = {
    "task": "max_output_tokens",
    "optimizer": "optimizer_max_output_tokens",
    "judge": "judge_max_output_tokens",
}
_MODELS: dict[CallRole, str] = {"task": "model", "optimizer": "optimizer_model", "judge": "judge_model"}
# What names a version of the same model: a date (2024-07-18, 0613, 20241022), a number (002, v2), or a word.
# `32k`, `mini` and `8b` name another model.
_VERSION = re.compile(r"(?:[-@:_](?:\d{2,8}|v\d+(?:\.\d+)*|latest|preview|stable|beta|exp|free))*")


@dataclass(frozen=True, slots=True)
class RoleTally:
    """The answers of one role's model in a run, those of the response cache included.

    cut: ended at the limit of their length. empty: the others without a text. usage: of both.
    """

    model: str = ""
    answers: int = 0
    cut: int = 0
    empty: int = 0
    usage: Usage = Usage()

    @property
    def is_bad(self) -> bool:
        """Whether at least half of the answers were cut or empty."""
        lost = self.cut + self.empty
        return lost > 0 and 2 * lost >= self.answers

    def to_dict(self, role: CallRole) -> dict[str, Any]:
        """Plain JSON, as `result.json` has it."""
        return {
            "model": self.model,
            "answers": self.answers,
            "cut": self.cut,
            "empty": self.empty,
            "tokens": self.usage.total_tokens,
            "cost_usd": self.usage.cost_usd,
            "setting": _LIMITS[role] if self.cut else _MODELS[role],
        }

    def problem(self, role: CallRole, limit: int | None) -> Problem:
        """Return the warning about it. limit: of an answer, if the user has set one."""
        cost = f" (${self.usage.cost_usd:.4f})" if self.usage.cost_usd else ""
        lost = f"{self.cut + self.empty} of {counted(self.answers, 'answer')} of {self.model}"
        took = f"{counted(self.usage.total_tokens, 'token')}{cost}"
        said = f"{role}: {lost} were cut off or empty; they took {took}"
        model, room = _MODELS[role], _LIMITS[role]
        if not self.cut:
            return Problem(
                "model.answers-lost", said, fix=f"Use another {{{model}}}.", settings={model: None}
            )
        now = f" (now {limit})" if limit is not None else ""
        fix = f"Raise {{{room}}}{now}, lower {{reasoning_effort}}, or use another {{{model}}}."
        settings = dict.fromkeys((room, "reasoning_effort", model))
        return Problem("model.answers-lost", said, fix=fix, settings=settings)

    def plus(self, answer: Completion, labels: Collection[str] = ()) -> RoleTally:
        """Count one more answer. labels: one of which it was to be; a whole one was not cut."""
        visible = split_thoughts(answer.text)[0]  # a thought without an end leaves nothing
        is_cut = answer.is_cut and visible.rstrip(".").casefold() not in {name.casefold() for name in labels}
        is_empty = not visible and not answer.tool_calls and not is_cut and not answer.withheld
        is_lost = is_empty or is_cut
        return RoleTally(
            answer.model or self.model,
            self.answers + 1,
            self.cut + is_cut,
            self.empty + is_empty,
            self.usage + answer.usage if is_lost else self.usage,
        )


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
    may_differ: several models answer on purpose, as in a program of one's own.
    """

    role: CallRole
    asked: str | None
    endpoint: str
    names: Mapping[str, int]
    may_differ: bool = False

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON, as `result.json` has it."""
        return {"asked": self.asked, "endpoint": self.endpoint, "answered": dict(self.names)}

    def problems(self) -> list[Problem]:
        """Return a warning if another model answered, and one if the model changed on the way."""
        place, found = Place(setting=_MODELS[self.role]), []
        at = f" at {self.endpoint}" if self.endpoint else ""
        strangers = [name for name in self.names if self.asked and not is_same_model(self.asked, name)]
        if strangers:
            said = f"{self.asked!r} was asked for{at}, but answers name {', '.join(map(repr, strangers))}"
            found.append(Problem("model.other-name", said, place, "Check what that endpoint serves."))
        if len(self.names) > 1 and not self.may_differ:
            first, *others = map(repr, self.names)
            said = f"the model{at} changed during the run: answers name {first}, later {', '.join(others)}"
            fix = "The scores mix them. Ask for one by its dated name, and start a new run."
            found.append(Problem("model.changed", said, place, fix))
        return found


class Tally:
    """Counts the answers of a run by role. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._roles: dict[CallRole, RoleTally] = {}
        self._names: dict[CallRole, dict[str, int]] = {}

    def add(self, options: Options, answer: Completion) -> None:
        """Count an answer. options: that it was asked with."""
        with self._lock:
            known = self._roles.get(options.role, RoleTally())
            self._roles[options.role] = known.plus(answer, options.labels)
            if answer.model:
                names = self._names.setdefault(options.role, {})
                names[answer.model] = names.get(answer.model, 0) + 1

    def names(self) -> dict[CallRole, dict[str, int]]:
        """The models that the answers name: role -> name -> number of answers."""
        with self._lock:
            return {role: dict(names) for role, names in self._names.items()}

    def bad(self) -> dict[CallRole, RoleTally]:
        """The roles of which at least half of the answers were cut or empty."""
        with self._lock:
            return {role: tally for role, tally in self._roles.items() if tally.is_bad}
