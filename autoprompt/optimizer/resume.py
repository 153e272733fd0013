"""A run goes on: its rows are those it began with; pool, budget and journal are as at its checkpoint."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from autoprompt.errors import BudgetExhausted, StoreError
from autoprompt.llm.kept.journal import Journal
from autoprompt.llm.limits.amounts import Spent
from autoprompt.metrics import row_weights
from autoprompt.metrics.judge import Grades
from autoprompt.optimizer.prepare import Preparation
from autoprompt.optimizer.search.pool import Pool
from autoprompt.records import Candidate
from autoprompt.runs import RunFolder

if TYPE_CHECKING:
    from autoprompt.optimizer.context import SearchContext


def dataset_facts(preparation: Preparation) -> dict[str, Any]:
    """The rows of a run, by which a resume knows them again."""
    splits = preparation.splits
    return {
        "path": ", ".join(str(path) for path in splits.paths.values()),
        "sha256": splits.dataset_sha256,
        "split_seed": splits.split_seed,
        "sizes": splits.sizes,
        "parts": dict(splits.sha256),
        "groups": splits.group_counts,
    }


def restore(
    folder: RunFolder,
    preparation: Preparation,
    context: SearchContext,
    state: Mapping[str, Any],
    journal: Journal,
) -> None:
    """Pool, budget and journal as they were at the checkpoint.

    Raises StoreError where the dataset has changed, or this version splits it otherwise.
    """
    known, found = state["dataset"]["sha256"], preparation.splits.dataset_sha256
    if known != found:
        raise StoreError(
            f"run {folder.run_id} cannot go on: {state['dataset']['path']} has changed since it began "
            f"(sha256 was {known}, is {found}). Put the old file back, or start a new run."
        )
    # A version of autoprompt that cuts them otherwise would let rows decide that the analyst has seen.
    began, now = state["dataset"], dataset_facts(preparation)
    if any(began[name] != now[name] for name in ("sizes", "parts", "groups")):
        raise StoreError(
            f"run {folder.run_id} cannot go on: this version of autoprompt splits {began['path']} otherwise "
            f"than the one that began it (rows were {began['sizes']}, are {now['sizes']}). Go on with that "
            "version, or start a new run."
        )
    drop_candidates_after(folder, state["pool_step"])
    records = list(folder.read_candidate_records())
    splits = preparation.splits
    weights = row_weights(context.prediction.metric, splits.train, splits.val)
    context.pool = Pool.from_records(records, context.settings.labels, splits.groups, weights)
    if state["original"] not in context.pool:
        original = context.add(Candidate(components=context.program.components))
        original.status = "accepted"
    if state["spent"]:
        spent = Spent.from_dict(state["spent"])
        context.budget.restore(replace(spent, seconds=max(spent.seconds, journal.seconds)))
    journal.mark_counted(state["journal_position"])
    if state.get("grades"):
        context.prediction.grades = Grades(**state["grades"])
    if state.get("held"):
        context.budget.restore_hold(state["held"])
        return
    with suppress(BudgetExhausted):  # as in `predict`, which then ended the search; or the end is behind us
        ids = [state["incumbent"], *state["pending"]]
        context.hold_final(*(context.pool[i].candidate for i in ids))


def drop_candidates_after(folder: RunFolder, step: int) -> None:
    """Take out what was written after the checkpoint: a later resume would load it with steps of its own."""
    records = list(folder.read_candidate_records())
    kept = [record for record in records if record["step"] <= step]
    if len(kept) < len(records):
        folder.rewrite_candidates(kept)
