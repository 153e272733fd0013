"""The result of a run, as `result.json` has it and as a program reads it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from autoprompt.errors import Problem
from autoprompt.records import Candidate, Round
from autoprompt.stats import Interval

Verdict = Literal["confirmed", "not_confirmed", "nothing_to_improve", "untested"]


@dataclass(frozen=True, slots=True)
class RunResult:
    """The result of a run. `to_dict()` is `result.json`.

    verdict: "confirmed" (better on the sealed test, p < .05), "not_confirmed", "nothing_to_improve" if the
        original was right on every row that it was asked before the test, or "untested" where there is no
        sealed test or no budget was left for it.
    best, original: the candidates. Equal where the search found nothing that it could confirm.
    Scores, gain, their 95% intervals and the p-value are of the sealed test, in [0, 1]; None where it was not
    opened (`verdict` is "untested").
    """

    data: Mapping[str, Any]
    best: Candidate
    original: Candidate

    @property
    def verdict(self) -> Verdict:
        verdict: Verdict = self.data["verdict"]
        return verdict

    @property
    def is_confirmed(self) -> bool:
        """Whether the sealed test shows that the best prompt is better."""
        return self.verdict == "confirmed"

    @property
    def score(self) -> float | None:
        """The best prompt's."""
        return _number(self.data["best"]["score"])

    @property
    def score_interval(self) -> Interval | None:
        return _pair(self.data["best"]["ci95"])

    @property
    def original_score(self) -> float | None:
        return _number(self.data["original"]["score"])

    @property
    def original_interval(self) -> Interval | None:
        return _pair(self.data["original"]["ci95"])

    @property
    def gain(self) -> float | None:
        """Best minus original, on the rows that both answered."""
        return _number((self.data["gain"] or {}).get("value"))

    @property
    def gain_interval(self) -> Interval | None:
        return _pair((self.data["gain"] or {}).get("ci95"))

    @property
    def p_value(self) -> float | None:
        """Two-sided and paired: of so large a gap where there is no difference."""
        return _number(self.data["p_value"])

    @property
    def fixed(self) -> int:
        """Test rows that the best prompt scores higher than the original."""
        return int(self.data["fixed"])

    @property
    def broken(self) -> int:
        """Test rows that the best prompt scores lower than the original."""
        return int(self.data["broken"])

    @property
    def calls(self) -> int:
        """Requests of the whole run."""
        return int(self.data["calls"])

    @property
    def cost_usd(self) -> float | None:
        """Of the whole run; None where a price was not known."""
        return _number(self.data["cost_usd"])

    @property
    def run_id(self) -> str:
        return str(self.data["run_id"])

    @property
    def run_dir(self) -> Path:
        """The run's folder, with everything that it has kept."""
        return Path(self.data["run_dir"])

    @property
    def history(self) -> tuple[Round, ...]:
        """What each round began with and found, in their order; the sealed test last, if it was opened."""
        return tuple(map(Round.from_dict, self.data["history"]))

    @property
    def message(self) -> str:
        return str(self.data["message"])

    @property
    def warnings(self) -> tuple[Problem, ...]:
        """What has to be known beside the verdict."""
        return tuple(map(Problem.from_dict, self.data["warnings"]))

    @property
    def best_prompt(self) -> str:
        return self.best.prompt

    @property
    def original_prompt(self) -> str:
        return self.original.prompt

    def to_dict(self) -> dict[str, Any]:
        """What `result.json` holds and `run --json` prints."""
        return dict(self.data)


def _number(found: Any) -> float | None:
    return None if found is None else float(found)


def _pair(found: Any) -> Interval | None:
    return None if found is None else Interval(*found)


_SEVERAL = "its own demonstrations, left out when they were"


def parts_of(confirmation: Mapping[str, Any]) -> str:
    """` (16 of validation, 22 of train, 9 of them its own demonstrations, left out when they were asked)`.

    "" where all are of validation. confirmation: as `result.json` has it.
    """
    train, shown = confirmation.get("train_rows") or 0, confirmation.get("held_out_rows") or 0
    if not train:
        return ""
    kind = "its own demonstration, left out when it was" if shown == 1 else _SEVERAL
    held_out = f", {shown} of them {kind} asked" if shown else ""
    return f" ({confirmation['fresh']['rows'] - train} of validation, {train} of train{held_out})"
