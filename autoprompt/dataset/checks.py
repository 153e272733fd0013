"""From records to examples: the checks of each row, and those between rows and between files."""

from __future__ import annotations

import hashlib
import sys
import unicodedata
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from autoprompt.dataset.faults import Faults, require_fields
from autoprompt.dataset.plain import holds_bytes, without_bytes
from autoprompt.dataset.reading import read_records
from autoprompt.errors import DatasetError
from autoprompt.records import Example, content_of, text_of
from autoprompt.text.braces import as_placeholder, is_placeholder_name
from autoprompt.text.names import named

MAX_LABELS = 20
_WHOLE_INPUT = "leave out --input-field, and ask for all that belong to the input in the prompt"


def load_rows(
    path: Path,
    *,
    input_field: str = "input",
    target_field: str = "target",
    group_field: str | None = None,
    takes_json: bool = False,
    input_of: Sequence[str] = (),
) -> list[Example]:
    """The rows of one file, in its order, each checked for itself.

    input_of: what may be fields that make up the input, as far as the first row has them: several as lines
    of `name: value`; a single one as it is, where there is no field of the input's name.

    Values keep their JSON types; of CSV and its like they are text. A target may be an object or a list with
    takes_json only. White space around a target that is text is dropped. A row without a group value is a
    group of its own. Of Parquet, a field of bytes that are no text is left out.
    Raises DatasetError with every fault's file and line, the first ten in words.
    """
    flags = {"--input-field": input_field, "--target-field": target_field}
    if group_field:
        flags["--group-field"] = group_field
    faults = Faults(path)
    examples: list[Example] = []
    known: dict[str, str] = {}
    made_of: list[str] = []
    input_of = () if target_field in input_of else tuple(input_of)
    asked = {flag: name for flag, name in flags.items() if not (input_of and flag == "--input-field")}
    for line, found in read_records(path, faults, asked):
        record = without_bytes(found, flags.values())
        made_of = made_of or _made_of(record, line, flags, input_of, faults)
        wanted = (*made_of, *(name for flag, name in flags.items() if flag != "--input-field"))
        what = _row_fault(record, wanted, target_field, takes_json=takes_json)
        if what:
            faults.add(line, what)
            continue
        fields = {sys.intern(str(name)): value for name, value in record.items()}
        target = record[target_field]
        if isinstance(target, str):
            target = target.strip()
            # Labels repeat in every row: one string for each is enough.
            target = fields[target_field] = known.setdefault(target, target)
        given = record[made_of[0]] if len(made_of) == 1 else joined_input(record, made_of)
        target_text = text_of(target)
        what = _text_fault(target_text, fields, made_of, target_field)
        if what:
            faults.add(line, what)
            continue
        group = text_of(fields[group_field]) or None if group_field else None
        row_id = example_id(content_of(given), target_text)
        examples.append(Example(row_id, given, target, fields, group, line, path, faults.row))
    if not examples and not faults.count:
        faults.add(1, "no rows, expected at least 4. Fill the file, or give another one.")
    faults.raise_if_any()
    return examples


def _made_of(
    record: Mapping[str, Any],
    line: int,
    flags: Mapping[str, str],
    input_of: Sequence[str],
    faults: Faults,
) -> list[str]:
    """The fields that the input is made of, by the first row: at least one.

    flags: see `require_fields`. Fails where a field is missing or misspelt.
    """
    input_field = flags["--input-field"]
    there = [name for name in input_of if name in record]
    if not there or (len(there) == 1 and input_field in record):
        also = f" Or have a field for each of those that are asked for: {named([*input_of])}."
        require_fields(record, line, flags, faults, used=there, also=also if input_of else "")
        return [input_field]
    others = [str(name) for name in record if name not in there]
    for name in input_of:
        if name not in record and (meant := get_close_matches(name, others, n=1)):
            found = f"no field {name!r}, and {{{name}}} is asked for; the fields are {named([*record])}"
            hint = f"Did you mean {{{meant[0]}}}?"
            if not is_placeholder_name(meant[0]):
                hint = f"If {meant[0]!r} is meant, {as_placeholder(meant[0])}."
            faults.fail(line, f"{found}. {hint}")
    needed = {flag: name for flag, name in flags.items() if flag != "--input-field"}
    require_fields(record, line, needed, faults, used=there)
    return there


def joined_input(record: Mapping[str, Any], names: Sequence[str]) -> str:
    """The input that several fields make up: lines of `name: value`.

    In the alphabet's order: a row stays the same row for a prompt that asks for them in another one.
    """
    return "\n".join(f"{name}: {content_of(record[name])}" for name in sorted(names))


def content_key(text: str) -> str:
    """What makes two texts the same: Unicode NFC, without the white space around it."""
    return unicodedata.normalize("NFC", text.strip())


def example_id(text: str, target: str) -> str:
    """16 hex digits from input and target alone, the same in every file and on every machine."""
    content = f"{content_key(text)}\x00{content_key(target)}"
    return hashlib.sha256(content.encode()).hexdigest()[:16]


def input_id(text: str) -> str:
    """16 hex digits from the input alone: a row keeps it when its target is corrected."""
    return hashlib.sha256(content_key(text).encode()).hexdigest()[:16]


def infer_labels(examples: Sequence[Example]) -> tuple[str, ...] | None:
    """The distinct targets, sorted, where they look like labels: at most 20, each seen twice on average."""
    targets: set[str] = set()
    for example in examples:
        targets.add(example.target_text)
        if len(targets) > MAX_LABELS:
            return None
    if not targets or len(examples) < 2 * len(targets):
        return None
    return tuple(sorted(targets))


def without_doubles(
    examples: Iterable[Example], path: Path, *, allow_conflicts: bool
) -> tuple[list[Example], list[str]]:
    """The rows with every input once, and warnings that say what was dropped.

    Duplicates (same input and target) are kept once. Equal inputs with different targets are a DatasetError
    naming both lines; with allow_conflicts the row that comes first in the file is kept. Where other fields
    tell such rows apart, as where a prompt asks for several, it is said which.
    """
    first: dict[str, Example] = {}
    others: dict[str, None] = {}
    doubles = conflicts = 0
    faults = Faults(path)
    for example in examples:
        kept = first.setdefault(content_key(example.content), example)
        if kept is example:
            continue
        differing = _told_apart_by(example, kept)
        if kept.id == example.id:
            doubles += 1
            others |= dict.fromkeys(differing)
            continue
        conflicts += 1
        if not allow_conflicts:
            found = f"target {_short(example.target_text)}, but {kept.at} has {_short(kept.target_text)}"
            todo = "Correct one, or keep the first with --allow-conflicts."
            if differing:
                todo = f"They differ in {named(differing, 4)}: {_WHOLE_INPUT}. {todo}"
            faults.add_row(example, f"{found} for the same input {_short(example.input_text)}. {todo}")
    faults.raise_if_any()
    warnings = []
    if doubles and others:
        what = f"{doubles} row{_s(doubles)} dropped, as input and target are those of an earlier row"
        warnings.append(f"{path}: {what}; they differ in {named([*others], 4)}: {_WHOLE_INPUT}.")
    elif doubles:
        warnings.append(f"{path}: {doubles} exact duplicate{_s(doubles)} dropped; each row is kept once.")
    if conflicts:
        what = f"{conflicts} row{_s(conflicts)} dropped that contradict{'s' if conflicts == 1 else ''}"
        warnings.append(f"{path}: {what} an earlier row with the same input; the first in the file is kept.")
    return list(first.values()), warnings


def _told_apart_by(one: Example, other: Example) -> list[str]:
    """Names of fields beside the target in which two rows with the same input differ.

    An `id` is no content. The fields of input and target are known here by what they hold alone.
    """
    known = (text_of(one.input), one.target_text)
    texts = {name: text_of(value) for name, value in one.fields.items() if name != "id"}
    return [
        name for name, text in texts.items() if text not in known and text != text_of(other.fields.get(name))
    ]


def check_labels(examples: Sequence[Example], path: Path, labels: Sequence[str], labels_of: str = "") -> None:
    """Raises DatasetError naming the lines whose target is not among the labels.

    labels_of: where the labels come from, if not from the user.
    """
    allowed = set(labels)
    faults = Faults(path)
    for example in examples:
        if example.target_text not in allowed:
            what = f"target {_short(example.target_text)} is not among the labels {named(list(labels), 20)}"
            of = f" of {labels_of}" if labels_of else ""
            faults.add_row(example, f"{what}{of}. Correct the row, or add it with --labels.")
    faults.raise_if_any()


def check_fields(examples: Sequence[Example], path: Path, asked: Sequence[str]) -> None:
    """Raises DatasetError naming the lines without a field that the prompt asks for."""
    faults = Faults(path)
    for example in examples:
        missing = [name for name in asked if name not in example.fields]
        if missing:
            what = f"no field {named(missing)}, and the prompt asks for it; the fields are"
            todo = "Fill it in, or take the placeholder out of the prompt."
            faults.add_row(example, f"{what} {named(list(example.fields))}. {todo}")
    faults.raise_if_any()


def without_leaks(
    sources: Mapping[str, tuple[Path, list[Example]]], *, drop_leaks: bool
) -> tuple[dict[str, list[Example]], list[str]]:
    """The rows of each source without those whose input stands in a more precious one, and warnings.

    sources: name -> file and rows, the most precious first (test, val, train, dataset).
    Raises DatasetError naming both places, unless drop_leaks.
    """
    places: dict[str, tuple[Path, str]] = {}
    groups: dict[str, str] = {}
    kept: dict[str, list[Example]] = {}
    warnings = []
    for name, (path, examples) in sources.items():
        faults = Faults(path)
        keys = [content_key(example.content) for example in examples]
        kept[name] = []
        shared_groups = set()
        for key, example in zip(keys, examples, strict=True):
            if key in places:
                other, at = places[key]
                where = f"the same input as {other} {at}: {_short(example.input_text)}"
                faults.add_row(example, f"{where}. Take it out of one file, or give --drop-leaks.")
            else:
                kept[name].append(example)
                if example.group is not None and groups.get(example.group, name) != name:
                    shared_groups.add(example.group)
        if faults.count and not drop_leaks:
            faults.raise_if_any()
        if faults.count:
            warnings.append(
                f"{path}: {faults.count} row{_s(faults.count)} dropped that stand in another file."
            )
        if shared_groups:
            warnings.append(
                f"{path}: {len(shared_groups)} group{_s(len(shared_groups))} also in another file."
            )
        if not kept[name]:
            raise DatasetError(
                f"{path}: every row stands in another file too. Give files that do not overlap."
            )
        for key, example in zip(keys, examples, strict=True):
            places.setdefault(key, (path, example.at))
            if example.group is not None:
                groups.setdefault(example.group, name)
    return kept, warnings


def rare_labels(examples: Iterable[Example]) -> list[str]:
    """Labels that are seen once, sorted."""
    return sorted(label for label, count in Counter(e.target_text for e in examples).items() if count == 1)


def _row_fault(
    record: Mapping[str, Any], wanted: Iterable[str], target_field: str, *, takes_json: bool
) -> str | None:
    for name in wanted:
        if name not in record:
            return f"no field {name!r}; the fields are {named([str(n) for n in record])}. Fill it in."
    target = record[target_field]
    if isinstance(target, (dict, list)) and not takes_json:
        kind = "an object" if isinstance(target, dict) else "a list"
        what = f"target {target_field!r} is {kind}, expected a text, a number, true or false"
        return f"{what}. For JSON answers give --metric json_match, or write it as a text in quotes."
    for name in wanted:
        if holds_bytes(record[name]):
            return f"field {name!r} holds bytes, expected text. Decode it when you write the file."
    return None


def _text_fault(
    target: str, fields: Mapping[str, object], made_of: Sequence[str], target_field: str
) -> str | None:
    if not target:
        return f"empty target {target_field!r}, expected the right answer. Fill it in, or leave the row out."
    if not any(text_of(fields[name]).strip() for name in made_of):
        return f"empty input {named([*made_of])}, expected a text. Fill it in, or leave the row out."
    for name, value in fields.items():
        if not isinstance(value, str | list | dict):
            continue
        text = content_of(value)
        if "\0" in text:
            return f"field {name!r} holds a NUL character, expected text. Take it out."
        if not text.isascii() and any("\ud800" <= char <= "\udfff" for char in text):
            return f"field {name!r} holds half of a surrogate pair (\\ud800-\\udfff), no character. Mend it."
    return None


def _short(text: str, limit: int = 60) -> str:
    return repr(text if len(text) <= limit else text[: limit - 1] + "…")


def _s(count: int) -> str:
    return "" if count == 1 else "s"
