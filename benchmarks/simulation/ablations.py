"""The search with one part of it switched off."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import Any
from unittest import mock

from autoprompt.optimizer import nodes, round_race
from autoprompt.optimizer.agents.writer import RewriteAgent
from autoprompt.optimizer.ending import choosing, finish
from autoprompt.optimizer.propose import additions, drafts
from autoprompt.optimizer.propose.brief import Turn
from autoprompt.optimizer.search import demos, gate
from autoprompt.optimizer.search.plan import DEPTHS, Plan
from autoprompt.optimizer.search.pool import Entry, Pool
from autoprompt.records import Example
from autoprompt.runs.result import Confirmation

WHOLE = "(everything on)"

# Each switches one part of the search off.
ABLATIONS: dict[str, Callable[[ExitStack], dict[str, Any]]] = {}


def ablation(name: str) -> Callable[[Callable[[ExitStack], dict[str, Any] | None]], None]:
    def add(function: Callable[[ExitStack], dict[str, Any] | None]) -> None:
        ABLATIONS[name] = lambda stack: function(stack) or {}

    return add


@ablation(WHOLE)
def _nothing(stack: ExitStack) -> None:
    """The search as it ships."""


@ablation("better mean: p < .2 against the parent instead")
def _gate(stack: ExitStack) -> None:
    def tested(comparison: gate.Comparison) -> bool:
        return comparison.score > comparison.other_score and comparison.p_value < 0.2

    stack.enter_context(mock.patch.object(round_race, "is_better", tested))


@ablation("racing: every candidate runs all rows")
def _race(stack: ExitStack) -> dict[str, Any]:
    return {"is_raced": False}


@ablation("demonstrations: none")
def _demos(stack: ExitStack) -> dict[str, Any]:
    return {"max_demos": 0}


@ablation("telling: neither descriptions nor typical words")
def _telling(stack: ExitStack) -> None:
    stack.enter_context(mock.patch.object(drafts, "FEWEST_TOLD", 10**9))


@ablation("reasoning: never tried")
def _reasoning(stack: ExitStack) -> dict[str, Any]:
    return {"can_reason": False}


@ablation("slow rounds: their first block is as long as the others' (with --embedded)")
def _slow_blocks(stack: ExitStack) -> None:
    stack.enter_context(mock.patch.object(Plan, "slow", property(lambda plan: plan)))


@ablation("labels' shares: never shifted")
def _shift(stack: ExitStack) -> None:
    stack.enter_context(mock.patch.object(drafts, "LEANS", 2.0))


@ablation("alike: every demonstration set of a round begins as it is drawn")
def _alike(stack: ExitStack) -> None:
    def drawn(turn: Turn, name: str, train: Sequence[Example], size: int) -> list[Example]:
        return demos.balanced(train, size, turn.rng)

    stack.enter_context(mock.patch.object(additions, "_balanced", drawn))


@ablation("memory: lessons of the run not shown to the writer")
def _memory(stack: ExitStack) -> None:
    real = RewriteAgent.rewrite

    def blind(self: RewriteAgent, a: str, b: str, c: Any, d: int, experiences: str, **options: Any) -> Any:
        return real(self, a, b, c, d, "", **options)

    stack.enter_context(mock.patch.object(RewriteAgent, "rewrite", blind))


@ablation("portfolio: operators drawn evenly")
def _portfolio(stack: ExitStack) -> None:
    real = drafts.choose_operators
    even = {"patch": [0, 0]}  # not empty: the first round's order is switched off too
    stack.enter_context(
        mock.patch.object(drafts, "choose_operators", lambda n, m, t, rng: real(n, m, even, rng))
    )


@ablation("rounds: standard has four of twelve candidates, six of them written")
def _rounds(stack: ExitStack) -> None:
    wide = dataclasses.replace(DEPTHS["standard"], max_iterations=4, candidates=12, writers=6)
    stack.enter_context(mock.patch.dict(DEPTHS, standard=wide))


@ablation("confirmation: the winner of the race is returned")
def _confirmation(stack: ExitStack) -> None:
    real = gate.confirm

    def believing(*args: Any, **options: Any) -> Confirmation:
        return dataclasses.replace(real(*args, **options), confirmed=True)

    stack.enter_context(mock.patch.object(finish, "confirm", believing))


@ablation("who is confirmed: always the best of the race")
def _choice(stack: ExitStack) -> None:
    stack.enter_context(mock.patch.object(nodes, "choose_winner", lambda context, state, best: best))


@ablation("highest score: the run returns it, however little cheaper ones are behind (pick highest)")
def _best(stack: ExitStack) -> dict[str, Any]:
    return {"pick": "highest"}


@ablation("held out: rows that the winner shows are never asked without themselves")
def _held_out(stack: ExitStack) -> None:
    stack.enter_context(mock.patch.object(choosing, "has_folds", return_value=False))


@ablation("shares of the race: each candidate counts as one, and once for each generation")
def _shares(stack: ExitStack) -> None:
    def all_alike(pool: Pool, winner: Entry, race_ids: Sequence[str]) -> float:
        raced = sum(any(i in e.scores for i in race_ids) for e in pool.entries if e is not pool.original)
        return max(1, raced) * max(1, gate.generation(pool, winner))

    stack.enter_context(mock.patch.object(gate, "_chances", all_alike))


@ablation("one original for all: corrected as if each candidate had met one of its own (Sidak)")
def _original(stack: ExitStack) -> None:
    stack.enter_context(mock.patch.object(gate, "TOGETHER", 0.0))


@ablation("mid-p and weights: exact tests, equal weights")
def _power(stack: ExitStack) -> None:
    real = gate.compare

    def exact(*args: Any, **_: Any) -> gate.Comparison:
        return real(*args)

    stack.enter_context(mock.patch.object(gate, "compare", exact))
    stack.enter_context(mock.patch.object(gate, "FRESH_WEIGHT", 1.0))


@ablation("generations: luck that is inherited is not counted")
def _generations(stack: ExitStack) -> None:
    stack.enter_context(mock.patch.object(gate, "generation", return_value=1))
