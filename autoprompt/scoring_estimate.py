"""What `autoprompt eval` will take, in calls, tokens and money, before anything is sent."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from typing import Any

from autoprompt.checking import CheckedRows, given_rows
from autoprompt.clients import Clients, check_clients, check_models
from autoprompt.config import RunConfig
from autoprompt.metrics import JUDGED
from autoprompt.optimizer.context import prompt_tokens
from autoprompt.reasoning import USUAL_TOKENS, asks_to_reason
from autoprompt.run.forecast import FRAME_TOKENS, Call, judge_call
from autoprompt.run.pricing import prices_of, prices_with
from autoprompt.scoring import Prepared, as_candidate, prepare_evaluation
from autoprompt.store.given import Rows, with_rows
from autoprompt.task import FREE_OUTPUT_TOKENS, calls_per_row, reasoning_tokens, task_options
from autoprompt.tokens import estimate_tokens
from autoprompt.types import Candidate


@dataclass(frozen=True, slots=True)
class EvaluationEstimate:
    """What an evaluation is expected to use; tokens estimated from text lengths (see `estimate_tokens`).

    Free answers are taken to be as long as the targets, and of a workflow's steps only what may be changed of
    their prompts is known: both may take more.

    rows: of the dataset. prompts: 2 where another one is compared. calls: of all of them, those to the judge
        included, at most; repeats after faults and of unreadable answers come on top.
    cost_usd: None where a price that is needed is not known. Answers that the cache has cost nothing.
    is_reasoned: a prompt asks to reason before the answer. judge_model: "" where no model judges.
    """

    rows: int
    prompts: int
    calls: int
    tokens: int
    cost_usd: float | None
    labels: tuple[str, ...]
    is_reasoned: bool = False
    judge_calls: int = 0
    judge_model: str = ""
    warnings: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """What `eval --dry-run --json` prints."""
        return {**asdict(self), "labels": list(self.labels), "warnings": list(self.warnings)}


def estimate_evaluation(
    config: RunConfig,
    *,
    rows: Rows | None = None,
    candidate: Candidate | str | None = None,
    against: Candidate | str | None = None,
    known_labels: tuple[str, ...] | None = None,
    labels_of: str = "",
    clients: Clients | None = None,
) -> EvaluationEstimate:
    """What `evaluate` with the same arguments would use: `eval --dry-run`.

    clients: none is asked. Their cost is known where the settings have prices. Raises what `evaluate` does
    before its first call; only that a cap is too small is a warning here.
    """
    check_clients(clients)
    asked, other = as_candidate(candidate, "candidate"), as_candidate(against, "against")
    plain = given_rows(config, rows)
    with with_rows(config, plain, has_prompt=asked is not None) as (config, told):
        prepared = prepare_evaluation(config, asked, other, known_labels, labels_of)
        found = _estimate(prepared, clients)
    return replace(found, warnings=tuple(map(told, found.warnings)))


def _estimate(prepared: Prepared, clients: Clients | None) -> EvaluationEstimate:
    config, checked, candidates = prepared.config, prepared.checked, prepared.candidates
    warnings = list(checked.warnings)
    if clients is None:
        warnings += check_models(config)
    prices = prices_of(config) if clients is None else prices_with(clients, config)
    rows = len(checked.examples)
    is_judged = config.metric == JUDGED
    per_row = calls_per_row(config, checked.workflow) - is_judged
    asked = [(rows * per_row, _task_call(config, checked, one, per_row), prices.task) for one in candidates]
    if is_judged:
        asked.append((rows * len(candidates), _judge_call(config, checked), prices.judge))
    calls = sum(number for number, _, _ in asked)
    costs = [None if (cost := call.cost(price)) is None else number * cost for number, call, price in asked]
    tokens = round(sum(number * call.tokens for number, call, _ in asked))
    cost = None if None in costs else sum(filter(None, costs))
    return EvaluationEstimate(
        rows=rows,
        prompts=len(candidates),
        calls=calls,
        tokens=tokens,
        cost_usd=cost,
        labels=checked.labels,
        is_reasoned=any(asks_to_reason(one.prompt) for one in candidates),
        judge_calls=rows * len(candidates) * is_judged,
        judge_model=prices.judge_model if is_judged else "",
        warnings=(*warnings, *_too_small(config, calls, tokens, cost)),
    )


def _too_small(config: RunConfig, calls: int, tokens: int, cost: float | None) -> Iterator[str]:
    """Caps under which the evaluation would end without a score."""
    if config.max_calls is not None and config.max_calls < calls:
        yield f"--max-calls {config.max_calls:,} is too small: all {calls:,} must fit before the first"
    if config.max_tokens is not None and config.max_tokens < tokens:
        yield f"--max-tokens {config.max_tokens:,} may end it before the last row: it takes about {tokens:,}"
    if config.max_cost is not None and cost is not None and config.max_cost < cost:
        yield f"--max-cost {config.max_cost:g} may end it before the last row: it takes about ${cost:.4g}"


def _task_call(config: RunConfig, checked: CheckedRows, candidate: Candidate, per_row: int) -> Call:
    """One of the `per_row` calls of a row, about; of a workflow's steps, the mean of them."""
    prompt = prompt_tokens(candidate, config.input_field) / max(1, per_row)
    return Call(prompt + _mean(checked, "input") + FRAME_TOKENS, _answer_tokens(config, checked, candidate))


def _answer_tokens(config: RunConfig, checked: CheckedRows, candidate: Candidate) -> float:
    if asks_to_reason(candidate.prompt):
        return min(USUAL_TOKENS, reasoning_tokens(config, checked.labels))
    labels = [estimate_tokens(label) + 1 for label in checked.labels]
    room = task_options(config, checked.labels).max_output_tokens or FREE_OUTPUT_TOKENS
    return min(max(labels) if labels else _mean(checked, "target"), room)


def _judge_call(config: RunConfig, checked: CheckedRows) -> Call:
    return judge_call(config, _mean(checked, "input"), _mean(checked, "target"))


def _mean(checked: CheckedRows, field: str) -> float:
    rows = checked.examples
    return sum(estimate_tokens(getattr(row, field)) for row in rows) / max(1, len(rows))
