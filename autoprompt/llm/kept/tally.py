"""The answers of each role, counted: how many were cut off or empty, and which models gave them."""

from __future__ import annotations

import threading
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from autoprompt.llm.client import CallRole, Completion, Options
from autoprompt.records import Usage
from autoprompt.text.answers.thoughts import parted
from autoprompt.text.names import counted

# What bounds the answers of a role, and what names its model.
_LIMITS: dict[CallRole, str] = {
    "task": "max_output_tokens",
    "optimizer": "optimizer_max_output_tokens",
    "judge": "judge_max_output_tokens",
}
_MODELS: dict[CallRole, str] = {"task": "model", "optimizer": "optimizer_model", "judge": "judge_model"}


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

    def warning(self, role: CallRole, limit: int | None) -> str:
        """What to say of it and do about it. limit: of an answer, if the user has set one."""
        cost = f" (${self.usage.cost_usd:.4f})" if self.usage.cost_usd else ""
        lost = f"{self.cut + self.empty} of {counted(self.answers, 'answer')} of {self.model}"
        took = f"{counted(self.usage.total_tokens, 'token')}{cost}"
        said = f"{role}: {lost} were cut off or empty; they took {took}"
        if not self.cut:
            return f"{said}. Choose another {_MODELS[role]}"
        now = f" (now {limit})" if limit is not None else ""
        return (
            f"{said}. Raise {_LIMITS[role]}{now}, lower reasoning_effort, or choose another {_MODELS[role]}"
        )

    def plus(self, answer: Completion, labels: Collection[str] = ()) -> RoleTally:
        """Count one more answer. labels: one of which it was to be; a whole one was not cut."""
        visible = parted(answer.text)[0]  # a thought without an end leaves nothing
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
