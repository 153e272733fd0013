"""Rows of train that a candidate shows can speak for it too, each asked without itself (cross-validation)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from autoprompt.records import Candidate, Example

# Into how many parts its demonstrations fall, of which one is left out at a time. Leaving out single ones
# would be nearer to the whole, but has a model read nearly all of them anew for each row.
FOLDS = 4


def has_folds(candidate: Candidate, train: Iterable[Example]) -> bool:
    """Whether enough is left of it without a fold: of three demonstrations one is too many."""
    return len({row.unit for row in _shown(candidate, train)}) >= FOLDS


def held_out(
    candidate: Candidate, rows: Iterable[Example], train: Iterable[Example]
) -> list[tuple[Candidate, list[Example]]]:
    """`rows` of train, and for each what to ask it with: `candidate` less the demonstrations of its fold.

    Rows that do not belong to a demonstration are asked with all of them. Rows of one group are in one fold,
    as they would give each other away; each fold has about the same share of every target.
    """
    by_target = sorted(_shown(candidate, train), key=lambda row: row.target_text)
    units = dict.fromkeys(row.unit for row in by_target)
    folds = {unit: number % FOLDS for number, unit in enumerate(units)}
    fold_of = {row.id: folds[row.unit] for row in by_target}
    asked: dict[int | None, list[Example]] = {}
    for row in rows:
        asked.setdefault(folds.get(row.unit), []).append(row)
    return [
        (candidate if fold is None else _without(candidate, fold, fold_of), of_fold)
        for fold, of_fold in asked.items()
    ]


def _shown(candidate: Candidate, train: Iterable[Example]) -> list[Example]:
    ids = {demo.example_id for demo in candidate.demos}
    return [row for row in train if row.id in ids]


def _without(candidate: Candidate, fold: int, fold_of: Mapping[str, int]) -> Candidate:
    left = tuple(demo for demo in candidate.demos if fold_of.get(demo.example_id) != fold)
    return replace(candidate, demos=left, id="")
