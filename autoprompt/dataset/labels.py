"""The answers that a task allows: given, or inferred from its rows, and checked against them."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

from autoprompt.dataset.checks import MAX_LABELS, check_labels, infer_labels, rare_labels
from autoprompt.dataset.slips import meant
from autoprompt.errors import ConfigError, DatasetError
from autoprompt.records import Example
from autoprompt.settings.records import DataSettings
from autoprompt.text.answers.label_words import label_key, whole_number
from autoprompt.text.names import listed, named

Sources = Mapping[str, tuple[Path, Sequence[Example]]]  # name -> file and rows
LABEL_METRICS = ("exact_match", "macro_f1")  # whose answer is one of the labels, where there are labels
_OTHER_SEPARATORS = re.compile("[，،、;；|｜]")
_MOST_CLASSES, _LARGEST_CLASS = 5, 10  # numbers that mark a class, most often: stars, digits, points of ten
_MOST_LIKE_LABELS, _LONGEST_LABEL = 60, 40  # beyond: answers in words, which nobody would list
_MOST_STRANGE = 0.1  # of the rows: a label too rare to be in a run's rows; more are rows of another task


def task_labels(
    sources: Sources, settings: DataSettings, *, may_be_one: bool = False, labels_of: str = ""
) -> tuple[str, ...] | None:
    """The only answers of a label task, given or inferred from all rows; None for free answers.

    Labels that are given and empty mean free answers. may_be_one: allow rows that all have the same target.
    labels_of: where the given ones come from, if not from the user; their rows may have lacked a rare one,
    so a few targets beside them are let through (see `strange_warnings`).
    Other metrics than LABEL_METRICS compare freely: there the labels are None, whatever the targets are.
    Raises DatasetError for targets that are not among the given labels, and for a single target; ConfigError
    for several labels given as one.
    """
    if settings.metric not in LABEL_METRICS:
        return None
    if settings.labels:
        _check_separated(settings.labels, sources)
        for path, examples in sources.values():
            if not labels_of or len(_strange(examples, settings.labels)) > _MOST_STRANGE * len(examples):
                check_labels(examples, path, settings.labels, labels_of)
    if not may_be_one:
        _check_two_targets(sources)
    if settings.labels is not None:
        return settings.labels or None
    return infer_labels([example for _, examples in sources.values() for example in examples])


def takes_objects(metric: str) -> bool:
    """Return whether a metric can compare with a target that is an object or a list."""
    return metric == "json_match" or metric.startswith("python:")


def strange_warnings(sources: Sources, labels: Sequence[str], labels_of: str) -> list[str]:
    """Said of rows whose target is none of the labels that `labels_of` knows: it cannot be answered."""
    return [
        f"{path}: {_count_as_wrong(strange, len(examples))} not among the labels of {labels_of}. "
        "Give --labels to have them answered"
        for path, examples in sources.values()
        if (strange := _strange(examples, labels))
    ]


def _count_as_wrong(strange: Sequence[Example], rows: int) -> str:
    targets = listed([f"{row.target_text!r} ({row.at})" for row in strange])
    if len(strange) == 1:
        return f"1 of {rows} rows counts as wrong: its target {targets} is"
    return f"{len(strange)} of {rows} rows count as wrong: their targets {targets} are"


def _strange(examples: Sequence[Example], labels: Sequence[str]) -> list[Example]:
    allowed = set(labels)
    return [example for example in examples if example.target_text not in allowed]


def kind_warnings(sources: Sources, labels: Sequence[str] | None, settings: DataSettings) -> list[str]:
    """What is said where labels are inferred, or not, and the targets look as if they were meant otherwise.

    labels: the task's; None of free text.
    """
    of_labels = [] if labels is None else _number_warnings(labels, settings)
    return [*of_labels, *_too_many_warnings(sources, settings), *_few_rows_warnings(sources, settings)]


def _too_many_warnings(sources: Sources, settings: DataSettings) -> list[str]:
    """Said where labels are inferred, and the targets look like labels but are too many for that."""
    if settings.metric not in LABEL_METRICS or settings.labels is not None:
        return []
    counts = Counter(example.target_text for _, rows in sources.values() for example in rows)
    common = [target for target, count in counts.items() if count > 1]
    if not MAX_LABELS < len(counts) <= _MOST_LIKE_LABELS or 2 * len(common) <= len(counts):
        return []
    # Numbers are counts and sums more often than classes, long texts are answers in words.
    if all(map(_is_number, common)) or max(map(len, common)) > _LONGEST_LABEL:
        return []
    said = f"{len(counts)} different answers, over {MAX_LABELS}: taken as free text"
    rare = sorted(counts.keys() - set(common))
    seen_once = f". Seen once: {_listed_with_places(rare, common, sources)}" if rare else ""
    return [f"{said}; give --labels to have them enforced{seen_once}"]


def _few_rows_warnings(sources: Sources, settings: DataSettings) -> list[str]:
    """Said where labels are inferred, and the rows are too few to tell labels from answers in words."""
    if settings.metric not in LABEL_METRICS or settings.labels is not None:
        return []
    examples = [example for _, rows in sources.values() for example in rows]
    targets = {example.target_text for example in examples}
    if len(targets) > MAX_LABELS or infer_labels(examples) is not None:
        return []
    if all(map(_is_number, targets)) or max(map(len, targets), default=0) > _LONGEST_LABEL:
        return []
    return [
        f"{len(targets)} different answers in {len(examples)} rows, under two rows each: taken as free text; "
        "give --labels to have them enforced"
    ]


def _number_warnings(labels: Sequence[str], settings: DataSettings) -> list[str]:
    """Said where labels are inferred and look like numbers that are worked out, not like classes or marks."""
    if settings.labels is not None or len(labels) <= _MOST_CLASSES or not all(map(_is_number, labels)):
        return []
    if {*labels} <= {str(number) for number in range(_LARGEST_CLASS + 1)}:
        return []
    return [
        f"the {len(labels)} different answers are numbers, and taken as labels: no other can be given. Where "
        "they are counts or results, --metric numeric reads any number"
    ]


def label_warnings(sources: Sources, labels: Sequence[str]) -> list[str]:
    """What the rows of these labels cannot show."""
    warnings = []
    examples = [example for _, rows in sources.values() for example in rows]
    rare = rare_labels(examples)
    if rare:
        common = [label for label in labels if label not in rare]
        shown = _listed_with_places(rare, common, sources)
        warnings.append(f"seen once only: label {shown}; no part can both show and check it.")
    warnings += alike_warnings(labels)
    seen = {example.target_text for example in examples}
    unseen = [label for label in labels if label not in seen]
    if unseen:
        warnings.append(f"never seen in the rows: label {named(unseen)}.")
    return warnings


def alike_warnings(labels: Sequence[str]) -> list[str]:
    """Said of labels that read the same: an answer is held to one of them, and the other is wrong."""
    alike: dict[str, list[str]] = {}
    for label in labels:
        alike.setdefault(whole_number(label) or label_key(label), []).append(label)
    return [_alike(names) for names in alike.values() if len(names) > 1]


def _listed_with_places(rare: Sequence[str], common: Sequence[str], sources: Sources) -> str:
    """Labels with the line of each, and with the common one that it may be a slip of."""
    return listed([f"{label!r} ({_place(label, sources)}{_shown(meant(label, common))})" for label in rare])


def _shown(close: str | None) -> str:
    return "" if close is None else f"; did you mean {close!r}?"


def _is_number(text: str) -> bool:
    try:
        float(text.replace(",", ""))
    except ValueError:
        return False
    return True


def _place(label: str, sources: Sources) -> str:
    """Where the label stands first: its line, with the file where there are several."""
    path, line = next((p, e.line) for p, rows in sources.values() for e in rows if e.target_text == label)
    return f"line {line}" if len(sources) == 1 else f"{path.name} line {line}"


def _alike(names: list[str]) -> str:
    """What is said of labels that read the same; those that look the same are told by their Unicode form."""
    looks = Counter(unicodedata.normalize("NFC", name) for name in names)
    how = "in Unicode form" if len(looks) == 1 else "in case or marks"
    if any(map(whole_number, names)):
        how = "in how a number is written"
    shown = [
        f"{name!r} ({_form(name)})" if looks[unicodedata.normalize("NFC", name)] > 1 else repr(name)
        for name in names
    ]
    return f"labels that differ {how} only: {listed(shown, limit=12)}. Are they one?"


def _form(text: str) -> str:
    forms: tuple[Literal["NFC", "NFD"], ...] = ("NFC", "NFD")
    return next((form for form in forms if unicodedata.is_normalized(form, text)), "neither NFC nor NFD")


def _check_separated(labels: Sequence[str], sources: Sources) -> None:
    """Raises ConfigError for one label that holds several, separated by another sign than a comma."""
    parts = [part.strip() for part in _OTHER_SEPARATORS.split(labels[0]) if part.strip()]
    if len(labels) > 1 or len(parts) < 2:
        return
    seen = {example.target_text for _, rows in sources.values() for example in rows}
    if labels[0] not in seen and seen & set(parts):
        raise ConfigError(
            f"labels: one label found, {labels[0]!r}, and the targets are its parts: separate labels by `,`: "
            f'--labels "{",".join(parts)}".'
        )


def _check_two_targets(sources: Sources) -> None:
    seen = {example.target_text for _, examples in sources.values() for example in examples}
    if len(seen) == 1:
        path, examples = next(iter(sources.values()))
        line = examples[0].line
        what = f"every row from line {line} on has the target {seen.pop()!r}, expected at least two labels"
        raise DatasetError(f"{path} line {line}: {what}. Add rows of another label, or check --target-field.")
