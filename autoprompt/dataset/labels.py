"""The answers that a task allows: given, or inferred from its rows, and checked against them."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Literal

from autoprompt.dataset.faults import Faults, file_place
from autoprompt.errors import ConfigError, DatasetError, Place, Problem
from autoprompt.records import Example
from autoprompt.settings.records import LABEL_SET, DataSettings
from autoprompt.text.answers.labels import label_key, whole_number
from autoprompt.text.names import counted, listed, named, quoted
from autoprompt.text.scripts import HANGUL, UNPARTED, signs

MAX_LABELS = 20
_ENFORCE = "Give {labels} to hold the model to them."
Sources = Mapping[str, tuple[Path, Sequence[Example]]]  # name -> file and rows
LABEL_METRICS = ("exact_match", "macro_f1")  # whose answer is one of the labels, where there are labels
_OTHER_SEPARATORS = re.compile("[，،、;；|｜]")
_MOST_CLASSES, _LARGEST_CLASS = 5, 10  # numbers that mark a class, most often: stars, digits, points of ten
_MOST_LIKE_LABELS, _LONGEST_LABEL = 60, 40  # beyond: answers in words, which nobody would list
_MOST_PLACES = 12  # of labels in one message
_MOST_UNKNOWN = 0.1  # of the rows: a label too rare to be in a run's rows; more are rows of another task
_FEWEST_LETTERS = 4  # of a label in which one wrong letter, or a swap, is a slip
_SYLLABIC = re.compile(f"[{UNPARTED}{HANGUL}]+")  # where two signs are a whole word


def task_labels(
    sources: Sources, settings: DataSettings, *, may_be_one: bool = False, labels_of: str = ""
) -> tuple[str, ...] | None:
    """Return the only answers of a label task, given or inferred from all rows; None for free answers.

    Labels that are given and empty mean free answers. A metric that is not in `LABEL_METRICS` compares
    freely: there the labels are None, whatever the targets are.

    Args:
        sources: The rows.
        settings: Metric and labels.
        may_be_one: Whether all rows may have the same target.
        labels_of: Where given labels come from, if not from the user. The rows there may have lacked a rare
            label, so a few other targets are let through (see `unknown_label_warnings`).

    Raises:
        DatasetError: For targets that are not among the given labels, and for a single target.
        ConfigError: For several labels given as one.
    """
    if settings.metric not in LABEL_METRICS:
        return None
    if settings.labels:
        _check_separated(settings.labels, sources)
        for path, examples in sources.values():
            if not labels_of or len(_unknown(examples, settings.labels)) > _MOST_UNKNOWN * len(examples):
                check_labels(examples, path, settings.labels, labels_of)
    if not may_be_one:
        _check_two_targets(sources)
    if settings.labels is not None:
        return settings.labels or None
    return infer_labels([example for _, examples in sources.values() for example in examples])


def infer_labels(examples: Sequence[Example]) -> tuple[str, ...] | None:
    """Return the distinct targets, sorted, if they look like labels: at most 20, each twice on average."""
    targets: set[str] = set()
    for example in examples:
        targets.add(example.target_text)
        if len(targets) > MAX_LABELS:
            return None
    if not targets or len(examples) < 2 * len(targets):
        return None
    return tuple(sorted(targets))


def check_labels(examples: Sequence[Example], path: Path, labels: Sequence[str], labels_of: str = "") -> None:
    """Raise DatasetError with the rows whose target is not among the labels.

    Args:
        examples: Rows of one file.
        path: The file.
        labels: The only answers.
        labels_of: Where the labels come from, if not from the user.
    """
    allowed = set(labels)
    faults = Faults(path)
    for example in examples:
        if example.target_text not in allowed:
            of = f" of {labels_of}" if labels_of else ""
            target, known = quoted(example.target_text), named(list(labels), 20)
            said = f"the target {target} is none of the labels{of}: {known}"
            fix = "Correct the row, or add the label to {labels}."
            faults.add_row(
                example, Problem("dataset.unknown-label", said, fix=fix, settings={"labels": None})
            )
    faults.raise_if_any()


def takes_objects(metric: str) -> bool:
    """Return whether a metric can compare with a target that is an object or a list."""
    return metric in ("json_match", LABEL_SET) or metric.startswith("python:")


def unknown_label_warnings(sources: Sources, labels: Sequence[str], labels_of: str) -> list[Problem]:
    """Return warnings of rows whose target is none of the labels that `labels_of` knows."""
    return [
        Problem(
            "dataset.unanswerable",
            f"{_wrong_rows(unknown, len(examples))} none of the labels of {labels_of}",
            file_place(path),
            "List all allowed answers as {labels}, or leave these rows out.",
            {"labels": "<A,B>"},
            related=tuple(row.place for row in unknown[:_MOST_PLACES]),
        )
        for path, examples in sources.values()
        if (unknown := _unknown(examples, labels))
    ]


def _wrong_rows(unknown: Sequence[Example], rows: int) -> str:
    targets = listed([repr(row.target_text) for row in unknown], _MOST_PLACES)
    if len(unknown) == 1:
        return f"1 of {counted(rows, 'row')} counts as wrong: its target {targets} is"
    return f"{len(unknown)} of {counted(rows, 'row')} count as wrong: their targets {targets} are"


def _unknown(examples: Sequence[Example], labels: Sequence[str]) -> list[Example]:
    allowed = set(labels)
    return [example for example in examples if example.target_text not in allowed]


def kind_warnings(sources: Sources, labels: Sequence[str] | None, settings: DataSettings) -> list[Problem]:
    """Return warnings of targets that may be meant otherwise than they are taken.

    Args:
        sources: The rows.
        labels: The task's; None for free text.
        settings: Metric and labels.
    """
    of_labels = [] if labels is None else _number_warnings(labels, settings)
    return [*of_labels, *_too_many_warnings(sources, settings), *_few_rows_warnings(sources, settings)]


def _too_many_warnings(sources: Sources, settings: DataSettings) -> list[Problem]:
    """Warn if labels are inferred, and the targets look like labels but are too many for that."""
    if settings.metric not in LABEL_METRICS or settings.labels is not None:
        return []
    counts = Counter(example.target_text for _, rows in sources.values() for example in rows)
    common = [target for target, count in counts.items() if count > 1]
    if not MAX_LABELS < len(counts) <= _MOST_LIKE_LABELS or 2 * len(common) <= len(counts):
        return []
    # Numbers are counts and sums more often than classes, long texts are answers in words.
    if all(map(_is_number, common)) or max(map(len, common)) > _LONGEST_LABEL:
        return []
    said = f"{counted(len(counts), 'different answer')}, more than {MAX_LABELS}, are taken as free text"
    rare = sorted(counts.keys() - set(common))
    if rare:
        said += f"; seen only once: {named(rare)}"
    return [
        Problem(
            "dataset.too-many-labels",
            said,
            fix=" ".join([_ENFORCE, *_slips(rare, common)]),
            settings={"labels": "<A,B>"},
            related=_places(rare, sources),
        )
    ]


def _few_rows_warnings(sources: Sources, settings: DataSettings) -> list[Problem]:
    """Warn if labels are inferred, and the rows are too few to tell labels from answers in words."""
    if settings.metric not in LABEL_METRICS or settings.labels is not None:
        return []
    examples = [example for _, rows in sources.values() for example in rows]
    targets = {example.target_text for example in examples}
    if len(targets) > MAX_LABELS or infer_labels(examples) is not None:
        return []
    if all(map(_is_number, targets)) or max(map(len, targets), default=0) > _LONGEST_LABEL:
        return []
    found = f"{counted(len(targets), 'different answer')} in {counted(len(examples), 'row')}"
    said = f"{found} are taken as free text, not as labels"
    return [Problem("dataset.too-few-of-each", said, fix=_ENFORCE, settings={"labels": "<A,B>"})]


def _number_warnings(labels: Sequence[str], settings: DataSettings) -> list[Problem]:
    """Warn if labels are inferred and look like numbers that are worked out, not like classes or marks."""
    if settings.labels is not None or len(labels) <= _MOST_CLASSES or not all(map(_is_number, labels)):
        return []
    if {*labels} <= {str(number) for number in range(_LARGEST_CLASS + 1)}:
        return []
    found = counted(len(labels), "different answer")
    said = f"the {found} are numbers and are taken as labels: no other can be given"
    fix = "If they are counts or results, use {metric}, which reads any number."
    return [Problem("dataset.numbers-as-labels", said, fix=fix, settings={"metric": "numeric"})]


def label_warnings(sources: Sources, labels: Sequence[str]) -> list[Problem]:
    """Return warnings of what the rows of these labels cannot show."""
    warnings = []
    examples = [example for _, rows in sources.values() for example in rows]
    counts = Counter(example.target_text for example in examples)
    rare = sorted(label for label, count in counts.items() if count == 1)
    if rare:
        once = set(rare)
        common = [label for label in labels if label not in once]
        said = f"labels seen only once, so no split can both show and check them: {named(rare)}"
        fix, related = " ".join(_slips(rare, common)), _places(rare, sources)
        warnings.append(Problem("dataset.rare-label", said, fix=fix, related=related))
    warnings += alike_warnings(labels)
    seen = {example.target_text for example in examples}
    unseen = [label for label in labels if label not in seen]
    if unseen:
        said, fix = f"no row has the label {named(unseen)}", "Check the spelling, or add rows."
        warnings.append(Problem("dataset.unseen-label", said, fix=fix))
    return warnings


def alike_warnings(labels: Sequence[str]) -> list[Problem]:
    """Warn of labels that read the same: an answer is held to one of them, and the other is wrong."""
    alike: dict[str, list[str]] = {}
    for label in labels:
        alike.setdefault(whole_number(label) or label_key(label), []).append(label)
    return [_alike(names) for names in alike.values() if len(names) > 1]


def _slips(rare: Sequence[str], common: Sequence[str]) -> list[str]:
    """Return a question for each label that may be a slip of a common one."""
    others = {label_key(label): label for label in common}
    found = ((label, _meant_label(label, others)) for label in rare[:_MOST_PLACES])
    return [f"Did you mean {close!r} for {label!r}?" for label, close in found if close is not None]


def _places(labels: Sequence[str], sources: Sources) -> tuple[Place, ...]:
    """Return the first row of each label, of the first labels."""
    first: dict[str, Place] = {}
    for _, examples in sources.values():
        for example in examples:
            first.setdefault(example.target_text, example.place)
    return tuple(first[label] for label in labels[:_MOST_PLACES])


def _is_number(text: str) -> bool:
    try:
        float(text.replace(",", ""))
    except ValueError:
        return False
    return True


def _alike(names: list[str]) -> Problem:
    """Return the warning of labels that read the same; if they look the same, with their Unicode form."""
    looks = Counter(unicodedata.normalize("NFC", name) for name in names)
    how = "in Unicode form" if len(looks) == 1 else "in case or marks"
    if any(map(whole_number, names)):
        how = "in how a number is written"
    shown = [
        f"{name!r} ({_unicode_form(name)})" if looks[unicodedata.normalize("NFC", name)] > 1 else repr(name)
        for name in names
    ]
    said = f"labels that differ only {how}: {listed(shown, limit=12)}"
    return Problem("dataset.alike-labels", said, fix="Merge them if they are one label.")


def _unicode_form(text: str) -> str:
    forms: tuple[Literal["NFC", "NFD"], ...] = ("NFC", "NFD")
    return next((form for form in forms if unicodedata.is_normalized(form, text)), "neither NFC nor NFD")


def _check_separated(labels: Sequence[str], sources: Sources) -> None:
    """Raise ConfigError for one label that holds several, separated by another sign than a comma."""
    parts = [part.strip() for part in _OTHER_SEPARATORS.split(labels[0]) if part.strip()]
    if len(labels) > 1 or len(parts) < 2:
        return
    seen = {example.target_text for _, rows in sources.values() for example in rows}
    if labels[0] not in seen and seen & set(parts):
        said = f"this is one label, {labels[0]!r}, but the rows have its parts as targets"
        fix = "Separate labels by commas: {labels}."
        place = Place(setting="labels")
        raise ConfigError(Problem("settings.one-label", said, place, fix, {"labels": tuple(parts)}))


def _check_two_targets(sources: Sources) -> None:
    seen = {example.target_text for _, examples in sources.values() for example in examples}
    if len(seen) == 1:
        _, examples = next(iter(sources.values()))
        said = f"every row from here on has the target {seen.pop()!r}, expected at least two labels"
        fix = "Add rows of another label, or check {target_field}."
        place, settings = examples[0].place, {"target_field": None}
        raise DatasetError(Problem("dataset.one-target", said, place, fix, settings))


def _meant_label(label: str, others: Mapping[str, str]) -> str | None:
    """Return the label that this one may be a slip of.

    It is none if a number or a word in front tells the two apart.

    Args:
        label: One that was seen once.
        others: Label key -> label.
    """
    key = label_key(label)
    # On few letters difflib's ratio is low where one is wrong: 0.75 of 4.
    slips = (other for other in others if _is_one_slip(key, other))
    for close in (*get_close_matches(key, others, n=1, cutoff=0.8), *slips):
        is_meant = re.findall(r"\d+", key) == re.findall(r"\d+", close)
        if is_meant and not (key.endswith(close) or close.endswith(key)):
            return others[close]
    return None


def _is_one_slip(a: str, b: str) -> bool:
    """Return whether one sign differs, or two neighbours are swapped.

    Of two or three letters neither is a slip (en, es; bad, sad; no, on). In Chinese and its like, one sign of
    two is a slip, but not the first, which is a word in front (好评, 差评); a swap is none (名人, 人名).
    """
    is_syllabic = _SYLLABIC.fullmatch(a) is not None
    one, other = (signs(a), signs(b)) if is_syllabic else (list(a), list(b))
    if len(one) != len(other):
        return False
    at = [n for n, (x, y) in enumerate(zip(one, other, strict=True)) if x != y]
    if len(at) == 1:
        return at[0] > 0 if is_syllabic else len(one) >= _FEWEST_LETTERS
    if len(at) != 2 or len(one) < _FEWEST_LETTERS:
        return False
    first, last = at
    is_swap = (one[first], one[last]) == (other[last], other[first])
    # A mark stays where it stood when the letters around it are swapped: प्रसंशा for प्रशंसा.
    return is_swap and all(unicodedata.category(sign).startswith("M") for sign in one[first + 1 : last])
