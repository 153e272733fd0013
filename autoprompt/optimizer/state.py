"""The state that the nodes of the graph share: plain dicts, lists, strings and numbers only.

Rows, texts of candidates and their scores live in the files of the run folder, so that a checkpoint does not
grow with the dataset: 1,000 rows in the state over 50 steps were 12.2 MB of checkpoints, by reference 0.4 MB.
"""

from __future__ import annotations

from typing import Any, TypedDict

from autoprompt.optimizer.context import SearchContext
from autoprompt.optimizer.lessons import earlier_lessons
from autoprompt.records import Candidate


class AutoPromptState(TypedDict, total=False):
    original_prompt: str
    current_prompt: str  # the best so far
    previous_prompt: str  # the best of the round before
    dataset: dict[str, Any]  # {path, sha256, split_seed, sizes}
    results: dict[str, Any]  # {path, correct, total}: rows of train, under the best so far
    analysis: dict[str, Any]  # {has_errors, error_count, total_count, suggestions, error_cases, feedback}
    iteration: int  # from 1
    max_iterations: int
    history: list[dict[str, Any]]  # {iteration, prompt, error_count, total_count, suggestions, ...}
    memory_experiences: list[dict[str, Any]]  # lessons, read once at the start, with this run's behind them
    helped: list[str]  # sentences that helped where they were added; read once, with this run's behind them

    has_memory: bool  # whether the run began with experiences of earlier runs
    original: str  # id of the original candidate
    incumbent: str  # id of the best so far
    pending: list[str]  # ids proposed by the last rewrite and not settled yet
    settled: list[str]  # ids settled in this round, for the lessons
    tried: int  # candidates raced so far
    plateau: int  # rounds in a row without a gain
    tally: dict[str, list[int]]  # operator -> [tried, accepted]
    stop_reason: str  # "" while the search goes on
    instead_of: str  # id of the best of the race, where another went to the confirmation; else ""
    confirmation: dict[str, Any]  # the winner against the original on fresh rows
    test: dict[str, Any]  # the winner against the original on the sealed rows

    pool_step: int  # records of candidates.jsonl with a later step are not part of this checkpoint
    journal_position: int  # answers in the journal at this checkpoint
    cut_by: list[str]  # caps of the batch that ended a round or raced fewer candidates in it, up to here
    held: dict[str, Any]  # what the budget keeps back for the end
    grades: dict[str, Any]  # of a judge up to this checkpoint: {judge, asked, unscored, reason}
    spent: dict[str, Any]  # the budget's counters at this checkpoint


def first_state(context: SearchContext, dataset: dict[str, Any]) -> AutoPromptState:
    """The state that a run begins with; the original joins the pool."""
    original = context.add(Candidate(components=context.program.components))
    original.status = "accepted"
    prompt = original.candidate.prompt
    known, helped = earlier_lessons(context)
    return {
        "original_prompt": prompt,
        "current_prompt": prompt,
        "previous_prompt": prompt,
        "dataset": dataset,
        "results": {},
        "analysis": {},
        "iteration": 1,
        "max_iterations": context.settings.max_iterations,
        "history": [],
        "memory_experiences": known,
        "helped": helped,
        "has_memory": bool(known),
        "original": original.candidate.id,
        "incumbent": original.candidate.id,
        "pending": [],
        "settled": [],
        "tried": 0,
        "plateau": 0,
        "tally": {},
        "stop_reason": "",
        "confirmation": {},
        "test": {},
        "pool_step": 0,
        "journal_position": 0,
        "spent": {},
    }
