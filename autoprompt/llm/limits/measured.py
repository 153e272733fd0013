"""How many tokens requests and answers have, as the endpoint counts them.

Caps and rates go by this and not by the longest answer allowed: a generous limit must not hold a run up.
"""

from __future__ import annotations

import math
import threading
from dataclasses import dataclass, field

# Until the endpoint has counted one request: it may put a prompt of its own before the text, think beyond
# the limit, and cut text into many more tokens than expected.
_UNKNOWN_TIMES, _UNKNOWN_TOKENS = 10, 8192
_UNKNOWN_ANSWER = 256
# Rows differ; these hold for the largest of a few hundred when a few were seen.
_PROMPT_MARGIN, _ANSWER_MARGIN = 1.1, 8
# A proxy may put some pages before the prompts from one moment to the next. So many tokens more are set aside
# for each request on its way: near a cap fewer are, and what was sent by the old measure passes it by less.
_JUMP_TOKENS = 2048
_FEW_ANSWERS = 8  # fewer say nothing of how long the next one gets
_SHORTEST_LIMIT = 256


@dataclass(slots=True)
class _Sizes:
    """Requests of one size. times, extra: the largest count beside the estimate, as a factor and a sum.

    shortest, longest: by the estimate.
    """

    estimated: int = 0
    counted: int = 0
    times: float = 0.0
    extra: int = 0
    shortest: int = 1 << 40
    longest: int = 0

    def note(self, estimate: int, tokens: int) -> None:
        self.estimated += estimate
        self.counted += tokens
        self.times = max(self.times, tokens / max(1, estimate))
        self.extra = max(self.extra, tokens - estimate)
        self.shortest, self.longest = min(self.shortest, estimate), max(self.longest, estimate)

    def bounds(self, estimate: int) -> tuple[float, float]:
        """What a request may be counted as at most: by those so far, and in any case.

        An endpoint that multiplies is bounded by the factor, one that adds a prompt of its own by the sum.
        Between the shortest and the longest request so far each of the two holds for both kinds. A shorter
        one would pass the factor of an endpoint that adds, a longer one the sum of one that multiplies. Of
        one that is far longer nothing is known: a factor would forbid what fits.
        """
        parts = estimate * self.times, float(estimate + self.extra)
        is_far_longer = estimate.bit_length() > self.longest.bit_length()
        is_known = self.shortest <= estimate <= self.longest or is_far_longer
        return min(parts) if is_known else max(parts), max(parts)


@dataclass(slots=True)
class Answers:
    """Answers of one kind so far."""

    number: int = 0
    tokens: int = 0
    longest: int = 0

    @property
    def mean(self) -> float:
        return self.tokens / max(1, self.number)


@dataclass(slots=True)
class Measured:
    """What one model's requests and answers took. Thread-safe."""

    _sizes: dict[int, _Sizes] = field(default_factory=dict)
    _answers: dict[object, Answers] = field(default_factory=dict)
    _beyond: int = 0  # tokens by which an answer was longer than it was allowed to be
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def note(self, kind: object, estimate: int, prompt: int, answer: int, limit: int | None) -> None:
        """An answer came. kind: answers of one kind are about as long. estimate: of the prompt."""
        with self._lock:
            self._sizes.setdefault(estimate.bit_length(), _Sizes()).note(estimate, prompt)
            answers = self._answers.setdefault(kind, Answers())
            answers.number += 1
            answers.tokens += answer
            answers.longest = max(answers.longest, answer)
            if limit is not None:
                self._beyond = max(self._beyond, answer - limit)

    def prompt(self, estimate: int) -> tuple[int, int, int]:
        """Tokens of a prompt as the endpoint will count it: about, at most by those so far, and at most."""
        with self._lock:
            known = self._near(estimate)
            if known is None:
                return estimate, estimate, _UNKNOWN_TIMES * estimate + _UNKNOWN_TOKENS
            about = round(estimate * known.counted / max(1, known.estimated))
            seen, most = known.bounds(estimate)
            most = math.ceil(_PROMPT_MARGIN * most) + _JUMP_TOKENS
            return about, math.ceil(seen) + self._beyond, most + self._beyond

    @property
    def has_answers(self) -> bool:
        with self._lock:
            return bool(self._answers)

    def answers(self, kind: object) -> Answers:
        with self._lock:
            known = self._answers.get(kind)
            return Answers() if known is None else Answers(known.number, known.tokens, known.longest)

    def usual_answer(self, kind: object, limit: int | None) -> int:
        """About how many tokens the next answer has."""
        answers = self.answers(kind)
        about = answers.mean if answers.number else _UNKNOWN_ANSWER
        return round(about) if limit is None else min(limit, round(about))

    def enough(self, kind: object, limit: int) -> int:
        """A limit that cuts no answer like those so far, at most `limit`."""
        answers = self.answers(kind)
        if answers.number < _FEW_ANSWERS:
            return limit
        return min(limit, max(_SHORTEST_LIMIT, _ANSWER_MARGIN * answers.longest))

    def least(self, kind: object) -> int:
        """Tokens that have to be left for an answer, if it is to be asked for at all."""
        answers = self.answers(kind)
        return max(1, min(answers.longest, round(2 * answers.mean)))

    def _near(self, estimate: int) -> _Sizes | None:
        """Of requests about as long; of those that come nearest, if there were none."""
        if not self._sizes:
            return None
        size = estimate.bit_length()
        return self._sizes[min(self._sizes, key=lambda known: (abs(known - size), -known))]
