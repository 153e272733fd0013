"""Three disjoint parts of the rows: train (may be looked at), val (decides), test (sealed).

Rows that the prompt shows as its examples are taken out: a model that is shown an answer proves nothing.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from autoprompt.dataset.checks import content_key, load_rows, without_duplicates, without_leaks
from autoprompt.dataset.faults import NeedsTarget, always, file_place
from autoprompt.dataset.labels import (
    alike_warnings,
    infer_labels,
    kind_warnings,
    label_warnings,
    takes_objects,
    task_labels,
    unknown_label_warnings,
)
from autoprompt.dataset.partition import (
    NO_CAPS,
    Cap,
    assign,
    cap_parts,
    caps_without_effect,
    chosen_caps,
    in_hash_order,
)
from autoprompt.dataset.twins import Twins, group_twins, twin_warnings
from autoprompt.errors import DatasetError, Place, Problem
from autoprompt.records import Example, Part
from autoprompt.settings.records import DataSettings
from autoprompt.settings.sidecar import find_dataset
from autoprompt.stats import count_groups
from autoprompt.text.files import sha256_of
from autoprompt.text.names import counted, named
from autoprompt.text.scripts import is_unparted, signs

# The most precious first: a row in two files is removed from the later one.
_SOURCES = ("test", "val", "train", "dataset")
_CUT_ORDER: tuple[Part, ...] = ("test", "val", "train")
_SHARES: Mapping[Part, int] = {"train": 40, "val": 30, "test": 30}
# Without a test, halves. Train is where demonstrations come from, and many help; but val decides and
# confirms: simulated at 400 calls and 150 rows, a gain of 0.118 with halves, 0.076 with 60/40.
_SHARES_WITHOUT_TEST: Mapping[Part, int] = {"train": 50, "val": 50, "test": 0}
# Few rows: val comes first, while train keeps as many as it takes to describe the answers and to show some.
# Simulated at 400 calls, 300 pairs each: 56 rows as 20/36 instead of 32/24 +0.037 [0.023, 0.051], 62 as 22/40
# instead of halves +0.023 [0.008, 0.039], 70 as 30/40 instead of 40/30 +0.003 [-0.013, 0.019].
# All with two labels; of more, train keeps three rows each.
_ENOUGH_VAL, _ENOUGH_TRAIN, _ENOUGH_OF_A_LABEL = 40, 20, 3
_MIN_ROWS = 4
_ADD_ROWS = "Add rows; 50 or more make a fair comparison."
_FEW_ROWS = 20
# An exact one-sided test needs five rows that all go one way to reach p < .05: 0.5**5 = .031.
_FEW_PART_ROWS = 5
# Letters; a sign of a script without spaces between words counts as two. A prompt may contain a shorter text,
# or a single word, by chance.
_LEAST_WIDTH = 8


@dataclass(frozen=True, slots=True)
class Splits:
    """The rows of a run. No input is in two parts; each part is in an order that its content decides.

    Args:
        labels: The only answers of a label task, given or inferred from all rows; None for free answers, and
            for metrics that compare freely.
        sha256: Of each part's sorted row ids: equal if the same rows are in the part.
        dataset_sha256: Of the bytes of the file or files that were read.
        warnings: What was dropped, and what is not being verified.
    """

    train: tuple[Example, ...]
    val: tuple[Example, ...]
    test: tuple[Example, ...]
    labels: tuple[str, ...] | None
    split_seed: int
    sha256: Mapping[str, str]
    dataset_sha256: str
    paths: Mapping[str, Path]
    warnings: tuple[Problem, ...] = ()

    @property
    def sizes(self) -> dict[str, int]:
        """Return how many rows each part has."""
        return {"train": len(self.train), "val": len(self.val), "test": len(self.test)}

    @property
    def groups(self) -> dict[str, str]:
        """Return the group of each row that has one, by the row's id."""
        rows = (*self.train, *self.val, *self.test)
        return {row.id: row.group for row in rows if row.group is not None}

    @property
    def group_counts(self) -> dict[str, int]:
        """Return how many groups each part has in which rows share a group; a row alone is a group."""
        parts = {"train": self.train, "val": self.val, "test": self.test}
        counts = {name: count_groups([row.group for row in rows]) for name, rows in parts.items()}
        return {name: count for name, count in counts.items() if count < len(parts[name])}


@dataclass(frozen=True, slots=True)
class Regions:
    """The three parts before any cap, each with all the rows that fall to it.

    Args:
        parts: The rows.
        cut: The parts that a cap can shorten: those without a file of their own.
    """

    parts: Mapping[Part, Sequence[Example]]
    cut: tuple[Part, ...]
    settings: DataSettings
    labels: tuple[str, ...] | None
    dataset_sha256: str
    paths: Mapping[str, Path]
    by_target: bool
    warnings: tuple[Problem, ...]

    def capped(self, caps: Mapping[Part, Cap] = NO_CAPS) -> Splits:
        """Return the rows of a run. caps: Of val and test, if the settings set none."""
        settings = self.settings
        parts = {part: list(rows) for part, rows in self.parts.items()}
        warnings = list(self.warnings)
        warnings += cap_parts(
            parts, self.cut, chosen_caps(settings, caps), settings.split_seed, by_target=self.by_target
        )
        warnings += caps_without_effect(parts, settings)
        warnings += _not_verified(parts, self.labels)
        return Splits(
            train=tuple(parts["train"]),
            val=tuple(parts["val"]),
            test=tuple(parts["test"]),
            labels=self.labels,
            split_seed=settings.split_seed,
            sha256={
                name: sha256_of("\n".join(sorted(row.id for row in rows))) for name, rows in parts.items()
            },
            dataset_sha256=self.dataset_sha256,
            paths=self.paths,
            warnings=tuple(warnings),
        )


def cut_rows(
    settings: DataSettings, *, input_of: Sequence[str] = (), needs_target: NeedsTarget = always
) -> Regions:
    """Read, check and split the rows that the settings name; no model is called.

    A part with a file of its own is that file. The others are cut from `dataset`, or from `train` if there is
    no dataset; train and val without both a test and a dataset mean that there is no test. Strata are the
    targets of a label task. Twins are in one group (see `group_twins`), also in given files, unless
    `group_field` says what belongs together. With `allow_conflicts`, of equal inputs the first row in the
    file is kept; with `drop_leaks`, a row in two files stays in test before val before train before dataset.

    Regions are cut first. `Regions.capped` then limits test and val, and the rows over a cap go unused: under
    any other cap no row of test or val has been in train, and none of test in val. Given files are not
    capped.

    Args:
        settings: Files, fields and metric.
        input_of, needs_target: As in `load_rows`.

    Raises:
        DatasetError: With file and line of what must be fixed.
    """
    paths = {name: find_dataset(path) for name, path in _given_files(settings).items()}
    wanted = _parts_to_cut(settings)
    warnings: list[Problem] = []
    if "dataset" in paths and not wanted:
        said = "not used, because every part has its own file"
        warnings.append(Problem("dataset.not-used", said, file_place(paths.pop("dataset"))))
    _check_different(paths)
    # Before the rows: a file that changes while it is read is then noticed at resume, not hidden.
    dataset_sha256 = _files_sha256(paths)
    rows: dict[str, tuple[Path, list[Example]]] = {}
    for name, path in paths.items():
        kept, found = _rows_of(path, settings, input_of, needs_target)
        rows[name] = (path, kept)
        warnings += found
    sources, found = without_leaks(rows, drop_leaks=settings.drop_leaks)
    warnings += [*found, *(twin_warnings(sources) if len(sources) > 1 else [])]
    every = [example for examples in sources.values() for example in examples]
    if len(every) < _MIN_ROWS:
        raise DatasetError(_too_few(len(every)))
    placed = {name: (paths[name], examples) for name, examples in sources.items()}
    labels = task_labels(placed, settings)
    if labels is not None:
        warnings += label_warnings(placed, labels)
    warnings += kind_warnings(placed, labels, settings)
    # Not by what the metric makes of the targets: another metric must not move a row.
    by_target = bool(settings.labels) or infer_labels(every) is not None
    parts = _cut(sources, wanted, settings, warnings, by_target=by_target)
    return Regions(parts, wanted, settings, labels, dataset_sha256, paths, by_target, tuple(warnings))


def load_checked(
    path: Path,
    settings: DataSettings,
    *,
    labels_of: str = "",
    input_of: Sequence[str] = (),
    needs_target: NeedsTarget = always,
) -> tuple[list[Example], tuple[str, ...] | None, tuple[Problem, ...]]:
    """Return all rows of one file, in its order, unsplit, with the labels of the task and warnings.

    The checks are those of `cut_rows`, except that few rows are enough, and rows of one target if labels are
    given. Twins are in one group, as there.

    Args:
        path: The file.
        settings: Fields and metric.
        labels_of: Where the labels come from, if not from the user; a few other targets are then only warned
            of.
        input_of, needs_target: As in `load_rows`.
    """
    path = find_dataset(path)
    found, warnings = _rows_of(path, settings, input_of, needs_target)
    rows = _grouped(found, settings)[0]
    is_given = settings.labels is not None
    placed = {"dataset": (path, rows)}
    labels = task_labels(placed, settings, may_be_one=is_given, labels_of=labels_of)
    if labels is not None:
        warnings += unknown_label_warnings(placed, labels, labels_of) if labels_of else []
        warnings += alike_warnings(labels)
    warnings += kind_warnings(placed, labels, settings)
    return rows, labels, tuple(warnings)


def _rows_of(
    path: Path, settings: DataSettings, input_of: Sequence[str], needs_target: NeedsTarget
) -> tuple[list[Example], list[Problem]]:
    """Return the rows of one file, each input once, and warnings."""
    found = load_rows(
        path,
        input_field=settings.input_field,
        target_field=settings.target_field,
        group_field=settings.group_field,
        takes_json=takes_objects(settings.metric),
        input_of=input_of,
        max_bytes=settings.max_dataset_mb * 10**6,
        needs_target=needs_target,
    )
    rows, warnings = without_duplicates(found, path, allow_conflicts=settings.allow_conflicts)
    return rows, [*warnings, *_targetless(rows, path, settings.target_field)]


def _targetless(rows: Sequence[Example], path: Path, target_field: str) -> list[Problem]:
    """Warn of rows without a target, which their metric does not need: the field may have another name.

    Without the name of a field there is nothing to warn of: the user says that rows have no target.
    """
    lacking = [row for row in rows if not row.has_target]
    if not lacking or not target_field:
        return []
    many = (
        "no row has" if len(lacking) == len(rows) else f"{len(lacking)} of {counted(len(rows), 'row')} lack"
    )
    said = f"{many} a target (field {target_field!r}), and the metric needs none"
    fix = "If they have one under another name, give {target_field}."
    settings = {"target_field": "<FIELD>"}
    return [Problem("dataset.no-targets", said, file_place(path), fix, settings)]


def _grouped(examples: list[Example], settings: DataSettings) -> tuple[list[Example], Twins | None]:
    """Return the rows with their groups: of the user's field, or twins; and the twins if they are many."""
    return (examples, None) if settings.group_field else group_twins(examples)


def _given_files(settings: DataSettings) -> dict[str, Path]:
    files = {name: getattr(settings, name) for name in _SOURCES}
    given: dict[str, Path] = {name: path for name, path in files.items() if path is not None}
    if "dataset" not in given and "train" not in given:
        also = f" besides {' and '.join(given)}" if given else ""
        fix, blanks = "Give {dataset} or {train}.", {"dataset": "<FILE>", "train": "<FILE>"}
        raise DatasetError(
            Problem("dataset.nothing-to-learn-from", f"no rows to learn from{also}", fix=fix, settings=blanks)
        )
    return given


def _check_different(paths: Mapping[str, Path]) -> None:
    """Raise DatasetError for one file under two names, links followed."""
    known: dict[Path, str] = {}
    for name, path in paths.items():
        other = known.setdefault(path.resolve(), name)
        if other != name:
            raise DatasetError(
                Problem(
                    "dataset.same-file",
                    "the file is given for two parts, which must not share rows",
                    file_place(path),
                    "Give two files, or {dataset} alone to have it split.",
                    {"dataset": path},
                    related=(Place(setting=other), Place(setting=name)),
                )
            )


def _parts_to_cut(settings: DataSettings) -> tuple[Part, ...]:
    """Return the parts without a file, which the one source with rows to spare is cut into."""
    parts: tuple[Part, ...] = ("train", "val") if settings.no_test else ("train", "val", "test")
    missing = tuple(part for part in parts if getattr(settings, part) is None)
    if settings.dataset is not None:
        return missing
    if settings.val is not None:
        return ()
    return ("train", *missing)


def _cut(
    sources: Mapping[str, list[Example]],
    wanted: tuple[Part, ...],
    settings: DataSettings,
    warnings: list[Problem],
    *,
    by_target: bool,
) -> dict[Part, list[Example]]:
    parts: dict[Part, list[Example]] = {"train": [], "val": [], "test": []}
    source = ("dataset" if "dataset" in sources else "train") if wanted else ""
    for part in parts:
        if part in sources and part != source:
            parts[part] = in_hash_order(_grouped(sources[part], settings)[0], settings.split_seed)
    if wanted:
        examples = sources[source]
        if len(examples) < _MIN_ROWS:
            raise DatasetError(_too_few(len(examples)))
        sizes = _sizes(examples, wanted, settings, by_target=by_target)
        rows, alike = _grouped(examples, settings)
        regions: Sequence[list[Example]] = assign(rows, sizes, settings.split_seed, by_target=by_target)
        is_torn = rows != examples and any(
            size and not part for size, part in zip(sizes, regions, strict=True)
        )
        if is_torn:  # of few rows: whole families leave a part without any
            torn = assign(examples, sizes, settings.split_seed, by_target=by_target)
            grouped = {row.id: row for row in rows}
            regions = tuple([grouped[row.id] for row in part] for part in torn)
        if alike is not None:
            warnings.append(alike.warning(is_torn=is_torn))
        for part, found in zip(_CUT_ORDER, regions, strict=True):
            if part in wanted:
                if not found:
                    raise DatasetError(_no_group_left(part, settings))
                parts[part] = found
    return parts


def _sizes(
    examples: Sequence[Example], wanted: tuple[Part, ...], settings: DataSettings, *, by_target: bool
) -> tuple[int, int, int]:
    """Return the rows of the regions of test, val and train.

    They depend on no cap: a changed cap must move no row. Groups that stay whole may shift them.
    """
    rows = len(examples)
    shares = _SHARES_WITHOUT_TEST if settings.no_test else _SHARES
    total = sum(shares[part] for part in wanted)
    test = max(1, rows * shares["test"] // total) if "test" in wanted else 0
    if "train" in wanted:
        val = max(1, rows * shares["val"] // total) if "val" in wanted else 0
        if val:
            targets = len({example.target_text for example in examples}) if by_target else 0
            train = max(_ENOUGH_TRAIN, _ENOUGH_OF_A_LABEL * targets)
            val = max(val, min(_ENOUGH_VAL, rows - test - train))
    elif "val" in wanted:
        val = rows - test
    else:
        val = 0
    return test, val, rows - test - val


def _too_few(rows: int) -> Problem:
    said = f"{counted(rows, 'different row')}, expected at least {_MIN_ROWS}"
    return Problem("dataset.too-few-rows", said, fix=_ADD_ROWS)


def _no_group_left(part: str, settings: DataSettings) -> Problem:
    return Problem(
        "dataset.too-few-groups",
        f"{settings.group_field!r} has too few groups: none is left for {part}",
        fix=f"Name a field with more groups as {{group_field}}, or give {{{part}}}.",
        settings={"group_field": "<FIELD>", part: "<FILE>"},
    )


def _not_verified(parts: Mapping[Part, Sequence[Example]], labels: tuple[str, ...] | None) -> list[Problem]:
    warnings = []
    total = sum(len(part) for part in parts.values())
    if not parts["test"]:
        said = "no test rows are kept, so only validation confirms the result"
        warnings.append(Problem("dataset.no-test", said))
    if total < _FEW_ROWS:
        said = f"only {counted(total, 'row')} in all: differences between prompts are mostly chance"
        warnings.append(Problem("dataset.few-rows", said, fix=_ADD_ROWS))
    for name, part in parts.items():
        if 0 < len(part) < _FEW_PART_ROWS:
            lost = "no difference on it can be significant"
            if name == "train":
                lost = "there are few errors to learn from"
            said = f"{name} has only {counted(len(part), 'row')}, so {lost}"
            warnings.append(Problem("dataset.few-part-rows", said, fix=_ADD_ROWS))
    seen = {example.target_text for part in parts.values() for example in part}
    for name, part in parts.items():
        missing = (
            sorted(seen - {example.target_text for example in part}) if labels is not None and part else []
        )
        if missing:
            lost = "it cannot be learned from there" if name == "train" else "it is not verified there"
            said = f"{name} has no row with the label {named(missing)}, so {lost}"
            warnings.append(Problem("dataset.label-not-in-part", said))
    return warnings


def _files_sha256(paths: Mapping[str, Path]) -> str:
    """Return the sha256 of one file, as `sha256sum` shows it; of several that of their names and sums."""
    sums = {}
    for name, path in paths.items():
        try:
            with path.open("rb") as file:
                sums[name] = hashlib.file_digest(file, "sha256").hexdigest()
        except OSError as error:
            said, fix = f"cannot be read: {error.strerror}", "Check the permissions of the file."
            raise DatasetError(Problem("dataset.unreadable", said, file_place(path), fix)) from error
    if len(sums) == 1:
        return next(iter(sums.values()))
    return hashlib.sha256("\n".join(f"{name} {value}" for name, value in sums.items()).encode()).hexdigest()


def find_shown(prompts: Sequence[str], rows: Sequence[Example], inputs: Sequence[str] = ()) -> list[Example]:
    """Return the rows whose input a prompt or a demonstration holds word for word; white space may differ.

    A row that is the whole text of a prompt is not shown by it: that text has no answer.

    Args:
        inputs: Of demonstrations.
    """
    flat_prompts, flat_inputs = list(map(_flat, prompts)), list(map(_flat, inputs))
    flat_rows = [(row, _flat(row.input_text)) for row in rows]
    return [
        row
        for row, flat in flat_rows
        if flat
        and (
            any(text != flat and _has_as_words(text, flat) for text in flat_prompts)
            or any(_has_as_words(text, flat) for text in flat_inputs)
        )
        and _is_telling(flat)
    ]


def without_shown(regions: Regions, texts: Sequence[str]) -> Regions:
    """Return the parts without the rows that the texts show.

    Rows are taken out after the cut, so a changed prompt moves no other row. A part with a file of its own
    stays as it is, with a warning.

    Raises:
        DatasetError: If a part would be empty.
    """
    shown = {part: {row.id for row in find_shown(texts, rows)} for part, rows in regions.parts.items()}
    parts: dict[Part, Sequence[Example]] = {**regions.parts}
    for part in regions.cut:
        parts[part] = [row for row in parts[part] if row.id not in shown[part]]
        if shown[part] and not parts[part]:
            said, fix = f"the prompt shows every row of {part} as an example", "Add rows, or remove examples."
            raise DatasetError(Problem("dataset.all-shown", said, fix=fix))
    return replace(regions, parts=parts, warnings=(*regions.warnings, *_shown_warnings(shown, regions.cut)))


def _shown_warnings(shown: Mapping[Part, set[str]], cut: Sequence[Part]) -> list[Problem]:
    left_out = sum(len(shown[part]) for part in cut)
    warnings = []
    if left_out:
        rows = "row" if left_out == 1 else "rows"
        said = f"{left_out} {rows} left out of train, val and test: the prompt shows them as examples"
        warnings.append(Problem("dataset.shown-rows-dropped", said))
    for part in ("val", "test"):
        if shown[part] and part not in cut:
            rows = "row" if len(shown[part]) == 1 else "rows"
            said = f"the prompt shows {len(shown[part])} {rows} of {part} as examples, so scores are too good"
            fix, place = "Take them out of the file or of the prompt.", Place(setting=part)
            warnings.append(Problem("dataset.shown-rows", said, place, fix))
    return warnings


def _flat(text: str) -> str:
    return " ".join(content_key(text).split())


def _is_telling(text: str) -> bool:
    parts = signs(text)
    return sum(1 + _is_unspaced(sign) for sign in parts) >= _LEAST_WIDTH and (
        " " in text or any(map(_is_unspaced, parts))
    )


def _is_unspaced(sign: str) -> bool:
    """Return whether a sign needs no space beside it: of a script that parts no words, or a picture."""
    return is_unparted(sign) or (not sign[0].isalnum() and unicodedata.east_asian_width(sign[0]) in "WF")


def _has_as_words(text: str, row: str) -> bool:
    """Return whether a text has a row as whole words: `is it so` is not in `this is it some`."""
    if row not in text:
        return False
    before = "" if _is_unspaced(row[0]) else r"(?<!\w)"
    after = "" if _is_unspaced(row[-1]) else r"(?!\w)"
    return re.search(before + re.escape(row) + after, text) is not None
