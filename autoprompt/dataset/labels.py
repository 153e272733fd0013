"""The answers that a task allows: given, or inferred from its rows, and checked against them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path

from autoprompt.answers import normalize
from autoprompt.config import DataSettings
from autoprompt.dataset.checks import check_labels, infer_labels, rare_labels
from autoprompt.dataset.faults import listed, named
from autoprompt.errors import DatasetError
from autoprompt.types import Example

LABEL_METRICS = ("exact_match", "macro_f1")  # whose answer is one of the labels, where there are labels


def task_labels(
    sources: Mapping[str, tuple[Path, Sequence[Example]]], settings: DataSettings, *, may_be_one: bool = False
) -> tuple[str, ...] | None:
    """The only answers of a label task, given or inferred from all rows; None for free answers.

    sources: name -> file and rows. may_be_one: allow rows that all have the same target.
    Other metrics than LABEL_METRICS compare freely: there the labels are None, whatever the targets are.
    Raises DatasetError for targets that are not among the given labels, and for a single target.
    """
    if settings.metric not in LABEL_METRICS:
        return None
    if settings.labels is not None:
        for path, examples in sources.values():
            check_labels(examples, path, settings.labels)
    if not may_be_one:
        _check_two_targets(sources)
    if settings.labels is not None:
        return settings.labels
    return infer_labels([example for _, examples in sources.values() for example in examples])


def label_warnings(examples: Sequence[Example], labels: Sequence[str]) -> list[str]:
    """What rows of these labels cannot show."""
    warnings = []
    rare = rare_labels(examples)
    if rare:
        shown = listed([_with_line(label, examples, labels) for label in rare])
        warnings.append(f"seen once only: label {shown}; no part can both show and check it.")
    alike: dict[str, list[str]] = {}
    for label in labels:
        alike.setdefault(normalize(label), []).append(label)
    for names in alike.values():
        if len(names) > 1:
            warnings.append(f"labels that differ in case or marks only: {named(names)}. Are they one?")
    seen = {example.target for example in examples}
    unseen = [label for label in labels if label not in seen]
    if unseen:
        warnings.append(f"never seen in the rows: label {named(unseen)}.")
    return warnings


def _with_line(label: str, examples: Sequence[Example], labels: Sequence[str]) -> str:
    line = next(example.line for example in examples if example.target == label)
    others = {normalize(other): other for other in labels if other != label}
    close = get_close_matches(normalize(label), others, n=1, cutoff=0.8)
    meant = f"; did you mean {others[close[0]]!r}?" if close else ""
    return f"{label!r} (line {line}{meant})"


def _check_two_targets(sources: Mapping[str, tuple[Path, Sequence[Example]]]) -> None:
    seen = {example.target for _, examples in sources.values() for example in examples}
    if len(seen) == 1:
        path, examples = next(iter(sources.values()))
        line = examples[0].line
        what = f"every row from line {line} on has the target {seen.pop()!r}, expected at least two labels"
        raise DatasetError(f"{path} line {line}: {what}. Add rows of another label, or check --target-field.")
