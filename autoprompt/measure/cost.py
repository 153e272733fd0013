"""What a call takes in tokens and money, by the texts that it is made of."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from autoprompt.llm.client import Options
from autoprompt.llm.prices import Price
from autoprompt.measure.program import demo_turn, repeated_text
from autoprompt.records import Candidate, Demo
from autoprompt.settings.records import RunConfig
from autoprompt.text.answers.reasoning import USUAL_TOKENS, asks_to_reason
from autoprompt.text.scripts import estimate_tokens

LABEL_OUTPUT_TOKENS = 32  # of a task call whose answer is one of the labels
FREE_OUTPUT_TOKENS = 1024
FRAME_TOKENS = 8  # of a call: the marks between its messages
JUDGE_REPLY = 50  # tokens: a grade and its reason in one sentence


@dataclass(frozen=True, slots=True)
class Call:
    """Tokens of a call, about."""

    prompt: float
    completion: float

    @property
    def tokens(self) -> float:
        return self.prompt + self.completion

    def cost(self, price: Price | None) -> float | None:
        """USD of one such call; None where the price is not known."""
        if price is None:
            return None
        return (self.prompt * price.input_usd + self.completion * price.output_usd) / 1e6


def answer_tokens(labels: Sequence[str], targets: Sequence[str], options: Options) -> float:
    """Of an answer that says no more than it has to: the longest label, or a text as long as the targets."""
    if labels:
        return min(max(map(estimate_tokens, labels)) + 1, room_of(options))
    known = [target for target in targets if target]
    return min(mean_tokens(known) if known else USUAL_TOKENS, room_of(options))


def room_of(options: Options) -> int:
    """Tokens that an answer may have."""
    return options.max_output_tokens or FREE_OUTPUT_TOKENS


def judge_call(config: RunConfig, row: float, target: float) -> Call:
    """Rubric, a row and a target of so many tokens, an answer about as long, and instruction."""
    rubric = estimate_tokens(str(config.metric_options.get("rubric", "")))
    return Call(rubric + row + (2 * target or USUAL_TOKENS) + 100, JUDGE_REPLY)


def mean_tokens(texts: Sequence[str]) -> float:
    return sum(map(estimate_tokens, texts)) / max(1, len(texts))


def times(calls: int, cost: float | None) -> float | None:
    """Nothing costs nothing, whatever its price."""
    if not calls:
        return 0.0
    return None if cost is None else calls * cost


def prompt_tokens(candidate: Candidate, input_field: str) -> int:
    """Return about how many tokens the candidate adds to each row (estimated)."""
    return sum(_component_tokens(candidate, input_field))


def row_tokens(candidate: Candidate, input_field: str) -> int:
    """Return about how many tokens a row takes beside its input.

    These are texts, demonstrations, and reasoning that is asked for.
    """
    reasoning = USUAL_TOKENS if asks_to_reason(candidate.prompt) else 0
    return prompt_tokens(candidate, input_field) + reasoning


def longest_prompt(candidate: Candidate, input_field: str) -> int:
    """Return about how many tokens the longest component has, with its demonstrations (estimated)."""
    return max(_component_tokens(candidate, input_field))


def constant_tokens(candidate: Candidate, input_field: str, fields: Collection[str]) -> list[float]:
    """Return about how many tokens of each request of a row are equal in all rows, and so can be cached.

    fields: names that a prompt is filled in with; what begins with the first of them is not constant.
    """
    sizes = zip(candidate.components.values(), _component_tokens(candidate, input_field), strict=True)
    return [size - estimate_tokens(repeated_text(text, fields)) for text, size in sizes]


def demo_tokens(prompt: str, demo: Demo, input_field: str) -> int:
    """Return about how many tokens a demonstration takes: its question, filled in, and its answer."""
    asked = demo.input if demo.component else demo_turn(prompt, demo, input_field)
    turns = 1 + max(1, len(demo.turns))
    return estimate_tokens(asked) + estimate_tokens(demo.output) + 4 * turns  # 4: the markers of a turn


def _component_tokens(candidate: Candidate, input_field: str) -> Iterator[int]:
    for name, text in candidate.components.items():
        demos = (demo_tokens(text, demo, input_field) for demo in candidate.demos_of(name))
        yield estimate_tokens(text) + sum(demos)
