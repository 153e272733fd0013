"""What `autoprompt eval` will take, in calls, tokens and money, before anything is sent."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from autoprompt.brief import brief, card
from autoprompt.dataset.python_rows import Rows
from autoprompt.errors import Place, Problem
from autoprompt.evaluation.exported import Exported
from autoprompt.evaluation.scoring import Prepared, prepared
from autoprompt.evaluation.task import CheckedRows, reasoning_tokens, row_calls, task_options
from autoprompt.llm.adapter import Models, check_own_models
from autoprompt.llm.client import CallRole
from autoprompt.llm.models import check_models, prices_of
from autoprompt.measure.cost import (
    FRAME_TOKENS,
    Call,
    answer_tokens,
    judge_call,
    mean_tokens,
    prompt_tokens,
    times,
)
from autoprompt.records import Candidate, Count, total
from autoprompt.settings.places import all_placed
from autoprompt.settings.records import JUDGED, RunConfig
from autoprompt.text.answers.reasoning import USUAL_TOKENS, asks_to_reason


@dataclass(frozen=True, slots=True)
class EvaluationEstimate:
    """What an evaluation would use.

    Tokens are estimated from the lengths of texts (see `estimate_tokens`). Free answers count as long as the
    targets, and a workflow's steps by those of their prompts that may change: both may take more.
    """

    rows: Count
    """Rows of the dataset."""
    prompts: Count
    """Prompts that are scored: 2 with `--against`."""
    calls: Count
    """Requests at most, without repeats after faults."""
    tokens: Count
    """Tokens, estimated from the lengths of texts."""
    cost_usd: float | None
    """US dollars; null if a price is not known."""
    labels: tuple[str, ...]
    """The only answers; empty for free answers."""
    is_reasoned: bool = False
    """Whether a prompt asks to reason before the answer."""
    judge_calls: Count = 0
    """Requests of the judge, which are among `calls`."""
    judge_model: str = ""
    """Name of the judge; empty without one."""
    unpriced: tuple[CallRole, ...] = ()
    """Roles whose price is not known."""
    warnings: tuple[Problem, ...] = ()
    """What has to be known before the evaluation."""
    sent_calls: Count = 0
    """Requests that the estimate itself sent, to try a program."""
    call_s: float | None = None
    """Seconds of such a request, on average; null if none was sent."""

    __repr__ = brief

    def _repr_html_(self) -> str:
        return card(self)

    def to_dict(self) -> dict[str, Any]:
        """Return plain data; `--json` prints it."""
        lists = {"labels": list(self.labels), "unpriced": list(self.unpriced)}
        return {**asdict(self), **lists, "warnings": [warning.to_dict() for warning in self.warnings]}


def estimate_evaluation(
    config: RunConfig,
    *,
    rows: Rows | None = None,
    candidate: Candidate | Exported | str | None = None,
    against: Candidate | Exported | str | None = None,
    models: Models | None = None,
) -> EvaluationEstimate:
    """Return what `evaluate` with the same arguments would use, without sending anything.

    models: none is asked. Their cost is known where the settings have prices. Raises what `evaluate` does
    before its first call; only that a cap is too small is a warning here.
    """
    check_own_models(models)
    with prepared(config, rows, candidate, against) as asked:
        return _estimate(asked, models)


def _estimate(asked: Prepared, models: Models | None) -> EvaluationEstimate:
    config, checked, candidates = asked.config, asked.checked, asked.candidates
    warnings = [*(check_models(config, ("task", "judge")) if models is None else ()), *checked.warnings]
    prices = prices_of(config, models)
    answers = len(checked.examples) * len(candidates)
    judge_calls = answers if config.metric == JUDGED else 0
    task_calls = math.ceil(answers * row_calls(config, checked.task)) - judge_calls
    of_each = task_calls // len(candidates)
    targets = [row.target_text for row in checked.examples]
    judging = judge_call(config, _row_tokens(checked), mean_tokens(targets))
    kinds = [(of_each, _task_call(config, checked, one), prices.task) for one in candidates]
    kinds.append((judge_calls, judging, prices.judge))
    tokens = round(sum(number * call.tokens for number, call, _ in kinds))
    cost = total(*(times(number, call.cost(price)) for number, call, price in kinds))
    warnings += _too_small(config, task_calls + judge_calls, tokens, cost)
    return EvaluationEstimate(
        rows=len(checked.examples),
        prompts=len(candidates),
        calls=task_calls + judge_calls,
        tokens=tokens,
        cost_usd=cost,
        labels=checked.labels,
        is_reasoned=any(asks_to_reason(one.prompt) for one in candidates),
        judge_calls=judge_calls,
        judge_model=prices.judge_model if judge_calls else "",
        unpriced=prices.missing(("task", "judge") if judge_calls else ("task",)),
        warnings=all_placed(warnings, config),
        sent_calls=checked.spent.calls,
        call_s=getattr(getattr(checked.task, "view", None), "call_s", None),
    )


def _too_small(config: RunConfig, calls: int, tokens: int, cost: float | None) -> Iterator[Problem]:
    """Caps under which the evaluation would end without a score."""
    if config.max_calls is not None and config.max_calls < calls:
        said = f"{config.max_calls:,} is too small: the evaluation needs {calls:,}"
        yield Problem("budget.too-few-calls", said, Place(setting="max_calls"))
    if config.max_tokens is not None and config.max_tokens < tokens:
        said = f"{config.max_tokens:,} may end the evaluation early: it needs about {tokens:,}"
        yield Problem("budget.may-end-early", said, Place(setting="max_tokens"))
    if config.max_cost is not None and cost is not None and config.max_cost < cost:
        said = f"${config.max_cost:g} may end the evaluation early: it needs about ${cost:.4g}"
        yield Problem("budget.may-end-early", said, Place(setting="max_cost"))


def _task_call(config: RunConfig, checked: CheckedRows, candidate: Candidate) -> Call:
    """Return a call of a row, about; of a workflow's prompts, the mean of them."""
    labels = checked.labels
    prompt = prompt_tokens(candidate, config.input_field) / max(1, len(candidate.components))
    answer = answer_tokens(
        labels, [row.target_text for row in checked.examples], task_options(config, labels)
    )
    if asks_to_reason(candidate.prompt):
        answer = min(USUAL_TOKENS, reasoning_tokens(config, labels))
    return Call(prompt + _row_tokens(checked) + FRAME_TOKENS, answer)


def _row_tokens(checked: CheckedRows) -> float:
    return mean_tokens([row.full_text for row in checked.examples])
