"""Rows of files, checked one by one, against each other and between files.

A row keeps its id in every file and on every machine. Columns that only name a row (ids, hashes, times) do
not tell two rows with the same input apart.
"""

from __future__ import annotations

import hashlib
import re
import sys
import unicodedata
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

from autoprompt.dataset.conversations import (
    NoConversationError,
    as_conversation,
    broken_conversation,
    conversation_fields,
    looks_like_turns,
    open_conversation,
)
from autoprompt.dataset.faults import Faults, NeedsTarget, always, file_place, require_fields
from autoprompt.dataset.python_rows import holds_bytes, without_bytes
from autoprompt.dataset.reading import MAX_BYTES, first_fields, read_records
from autoprompt.errors import DatasetError, Place, Problem
from autoprompt.records import Example, content_of, text_of
from autoprompt.text.names import counted, named, quoted
from autoprompt.text.placeholders import as_placeholder, is_placeholder_name

_WHOLE_INPUT = "leave out {input_field}, and name all fields of the input in the prompt"
# A column whose values repeat more often than this may be a part of the input, as a rating or a source.
_DIFFERENT = 0.9
_WITHOUT_WORDS = 0.9  # of the values: an id made at random may spell a word

_NAMED = re.compile(
    r"(?:^|_)(?:id|ids|idx|index|uuid|guid|uid|pk|key|hash|sha\d*|md5|checksum|row|line|number|no|nr|serial"
    r"|ts|time|timestamp|datetime|date|created|updated|at|url|uri|link|href|path|file|filename)$"
)
_ADDRESS = re.compile(
    r"(?:[a-z][a-z0-9+.-]*://|www\.|mailto:)\S+|\S+@\S+\.\w+|\S*[/\\]\S+|\S+\.\w{2,4}", re.IGNORECASE
)
_TIME = re.compile(
    r"\b(?:mon|tues?|wed(?:nes)?|thu(?:rs)?|fri|sat(?:ur)?|sun)(?:day)?\b"
    r"|\b(?:jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sept?(?:ember)?"
    r"|oct(?:ober)?|nov(?:ember)?|dec(?:ember)?)\b"
    r"|\b(?:am|pm|utc|gmt|[a-z]{1,2}[ds]t)\b|(?<=\d)(?:st|nd|rd|th|t|z)(?![^\W\d_])|[年月日时時分秒]",
    re.IGNORECASE,
)
_TOKEN = re.compile(r"[^\W_]+")
_HEX = re.compile(r"[0-9a-f]{8,}", re.IGNORECASE)


def load_rows(
    path: Path,
    *,
    input_field: str = "input",
    target_field: str = "target",
    group_field: str | None = None,
    takes_json: bool = False,
    input_of: Sequence[str] = (),
    max_bytes: int = MAX_BYTES,
    needs_target: NeedsTarget = always,
) -> list[Example]:
    """Return the rows of one file, in its order, each checked for itself.

    Values keep their JSON types; those of CSV and its like are text. White space around a target that is text
    is dropped. A row without a group value is a group of its own. A field of bytes that are no text, as
    Parquet may have it, is left out. An input that is a conversation has its turns (see `open_conversation`).

    Args:
        path: The file.
        input_field: Field of the input.
        target_field: Field of the right answer.
        group_field: Field of the group that a row belongs to.
        takes_json: Whether a target may be an object or a list.
        input_of: Fields that may make up the input, as far as the first row has them: several as lines of
            `name: value`; a single one as it is, if there is no field of the input's name.
        max_bytes: Limit of all rows, unpacked.
        needs_target: Whether each row needs a target; asked if one has none.

    Raises:
        DatasetError: With the faults of all rows, the first ten in full.
    """
    needs_target = cache(needs_target)
    mapped = {"input_field": input_field, "target_field": target_field}
    if group_field:
        mapped["group_field"] = group_field
    if target_field not in (first := first_fields(path)) and first and not needs_target():
        del mapped["target_field"]
    faults = Faults(path)
    input_of = () if target_field in input_of else tuple(input_of)
    asked = {setting: name for setting, name in mapped.items() if not (input_of and setting == "input_field")}
    made = _Rows(faults, mapped, target_field, input_of, takes_json=takes_json, needs_target=needs_target)
    found = (
        made.row(line, record) for line, record in read_records(path, faults, asked, max_bytes=max_bytes)
    )
    examples = [example for example in found if example is not None]
    if not examples and not faults.count:
        faults.add(1, Problem("dataset.empty", "the file has no rows", fix="Fill it, or give another file."))
    faults.raise_if_any()
    return examples


class _Rows:
    """Makes rows of a file's records; `faults` gets what is wrong with the others."""

    def __init__(
        self,
        faults: Faults,
        mapped: Mapping[str, str],
        target_field: str,
        input_of: Sequence[str],
        *,
        takes_json: bool,
        needs_target: NeedsTarget,
    ) -> None:
        self._faults, self._mapped, self._input_of = faults, mapped, input_of
        self._target_field, self._needs_target = target_field, needs_target
        self._takes_json = takes_json
        self._made_of: list[str] = []  # fields of the input, by the first row
        self._targets: dict[str, str] = {}  # labels repeat in every row: one string for each is enough

    def row(self, line: int, found: Mapping[str, Any]) -> Example | None:
        """Return the row of a record; None if it is none."""
        mapped, faults = self._mapped, self._faults
        input_field, target_field = mapped["input_field"], self._target_field
        kept = without_bytes(found, mapped.values())
        try:
            record, chat = open_conversation(kept, input_field, target_field, needs_target=self._needs_target)
        except NoConversationError as error:
            faults.add(line, _no_answer(found, input_field, target_field, str(error)))
            return None
        if not self._made_of:
            is_chat = chat is not None
            self._made_of = _made_of(record, line, mapped, self._input_of, faults, is_chat=is_chat)
        made_of = self._made_of
        wanted = (*made_of, *(name for setting, name in mapped.items() if setting != "input_field"))
        lacks_target = not text_of(record.get(target_field)).strip() and not self._needs_target()
        if lacks_target:
            record = {**record, target_field: None}
        if problem := _row_problem(record, wanted, target_field, takes_json=self._takes_json):
            faults.add(line, problem)
            return None
        target = record[target_field]
        fields = {sys.intern(str(name)): value for name, value in record.items()}
        if isinstance(target, str):
            target = target.strip()
            target = fields[target_field] = self._targets.setdefault(target, target)
        given = record[made_of[0]] if len(made_of) == 1 else joined_input(record, made_of)
        target_text = text_of(target)
        if lacks_target:
            del fields[target_field]
        if problem := _text_problem(target_text, fields, made_of, "" if lacks_target else target_field):
            faults.add(line, problem)
            return None
        content = content_of(given) if chat is None else chat.content
        place, group_field = faults.place(line), mapped.get("group_field")
        return Example(
            id=example_id(content, target_text),
            input=given,
            target=target,
            fields=fields,
            group=text_of(fields[group_field]) or None if group_field else None,
            line=place.line or 0,
            path=place.file,
            row=0 if place.row is None else place.row + 1,
            turns=() if chat is None else chat.turns,
            content=content,
        )


def _made_of(
    record: Mapping[str, Any],
    line: int,
    mapped: Mapping[str, str],
    input_of: Sequence[str],
    faults: Faults,
    *,
    is_chat: bool,
) -> list[str]:
    """Return the fields that the input is made of, by the first row: at least one.

    Args:
        record: The first row.
        line: Its line.
        mapped: As `fields` in `require_fields`.
        input_of: See `load_rows`.
        faults: Of the file. Fails if a field is missing or misspelt.
        is_chat: Whether the input field holds a conversation, which is the input by itself.
    """
    input_field = mapped["input_field"]
    there = [name for name in input_of if name in record]
    if not there or is_chat or (len(there) == 1 and input_field in record):
        if input_field not in record and len(chats := conversation_fields(record)) == 1:
            said = f"no field {input_field!r}, but {chats[0]!r} holds conversations"
            fix, settings = "Name it as {input_field}.", {"input_field": chats[0]}
            faults.fail(line, Problem("dataset.conversation-field", said, fix=fix, settings=settings))
        also = f" Or add the fields that the prompt asks for: {named([*input_of])}." if input_of else ""
        require_fields(record, line, mapped, faults, used=there, also=also)
        return [input_field]
    others = [str(name) for name in record if name not in there]
    for name in input_of:
        if name not in record and (meant := get_close_matches(name, others, n=1)):
            said = f"no field {name!r}, but the prompt asks for {{{name}}}; the fields are {named([*record])}"
            fix = f"Did you mean {{{meant[0]}}}?"
            if not is_placeholder_name(meant[0]):
                fix = f"If you mean {meant[0]!r}, {as_placeholder(meant[0])}."
            faults.fail(line, Problem("dataset.missing-field", said, fix=fix))
    needed = {setting: name for setting, name in mapped.items() if setting != "input_field"}
    require_fields(record, line, needed, faults, used=there)
    return there


def _no_answer(record: Mapping[str, Any], input_field: str, target_field: str, fault: str) -> Problem:
    value = record[input_field]
    if looks_like_turns(value) and as_conversation(value) is None:
        return broken_conversation(input_field, fault)
    said = (
        f"no field {target_field!r}, and {input_field!r} is not a conversation with the answer at its end: "
        f"{fault}; the fields are {named([*record])}"
    )
    fix = (
        "Name the field of the right answers as {target_field}, or end each conversation with the right "
        "answer, as a turn of the assistant."
    )
    return Problem("dataset.no-answer", said, fix=fix, settings={"target_field": "<FIELD>"})


def joined_input(record: Mapping[str, Any], names: Sequence[str]) -> str:
    """Return the input that several fields make up: lines of `name: value`, in alphabetical order.

    So a row stays the same row for a prompt that asks for the fields in another order.
    """
    return "\n".join(f"{name}: {content_of(record[name])}" for name in sorted(names))


def content_key(text: str) -> str:
    """Return what makes two texts the same: Unicode NFC, without the white space around it."""
    return unicodedata.normalize("NFC", text.strip())


def example_id(text: str, target: str) -> str:
    """Return 16 hex digits from input and target alone, the same in every file and on every machine."""
    content = f"{content_key(text)}\x00{content_key(target)}"
    return hashlib.sha256(content.encode()).hexdigest()[:16]


def input_id(text: str) -> str:
    """Return 16 hex digits from the input alone: a row keeps it when its target is corrected."""
    return hashlib.sha256(content_key(text).encode()).hexdigest()[:16]


def without_duplicates(
    examples: Iterable[Example], path: Path, *, allow_conflicts: bool
) -> tuple[list[Example], list[Problem]]:
    """Return the rows with every input once, and warnings of what was dropped.

    Duplicates (same input and target) are kept once. If such rows differ in other fields that a prompt could
    use, the message names those.

    Args:
        examples: Rows of one file.
        path: The file.
        allow_conflicts: Of equal inputs with different targets, keep the first in the file.

    Raises:
        DatasetError: For equal inputs with different targets, with both lines, unless `allow_conflicts`.
    """
    examples = list(examples)
    first: dict[str, Example] = {}
    identifiers: dict[str, bool] = {}  # by column
    others: dict[str, None] = {}
    duplicates = conflicts = 0
    faults = Faults(path)
    for example in examples:
        kept = first.setdefault(content_key(example.content), example)
        if kept is example:
            continue
        differing = _differing_fields(example, kept)
        new = [name for name in differing if name not in identifiers]
        found = find_identifiers([row.fields for row in examples], new)
        identifiers |= {name: name in found for name in new}
        differing = [name for name in differing if not identifiers[name]]
        if kept.id == example.id:
            duplicates += 1
            others |= dict.fromkeys(differing)
            continue
        conflicts += 1
        if not allow_conflicts:
            faults.add_row(example, _conflict(example, kept, differing))
    faults.raise_if_any()
    warnings = []
    if duplicates:
        said = f"{counted(duplicates, 'duplicate row')} dropped: same input and target as an earlier row"
        fix, place = _larger_input([*others]), file_place(path)
        settings = {"input_field": None} if fix else {}
        warnings.append(Problem("dataset.duplicates", said, place, fix, settings))
    if conflicts:
        said = f"{counted(conflicts, 'row')} dropped: same input as an earlier row, but another target"
        warnings.append(Problem("dataset.conflicts-dropped", said, file_place(path)))
    return list(first.values()), warnings


def _conflict(example: Example, kept: Example, differing: Sequence[str]) -> Problem:
    said = (
        f"the input {quoted(example.input_text)} has the target {quoted(example.target_text)}, "
        f"but an earlier row has {quoted(kept.target_text)}"
    )
    fix = "Correct one of them, or keep the first with {allow_conflicts}."
    settings: dict[str, object] = {"allow_conflicts": True}
    if differing:
        fix, settings = f"{_larger_input(differing)} {fix}", settings | {"input_field": None}
    return Problem("dataset.conflict", said, fix=fix, settings=settings, related=(kept.place,))


def _larger_input(differing: Sequence[str]) -> str:
    """Return what to do if fields that differ belong to the input; "" if there are none."""
    return f"The rows differ in {named(differing, 4)}: {_WHOLE_INPUT}." if differing else ""


def _differing_fields(one: Example, other: Example) -> list[str]:
    """Return the names of fields beside the target in which two rows with the same input differ.

    The fields of input, target and group are known here by what they hold alone.
    """
    known = (text_of(one.input_text), one.target_text, one.group)
    texts = {name: text_of(value) for name, value in one.fields.items()}
    return [
        name for name, text in texts.items() if text not in known and text != text_of(other.fields.get(name))
    ]


def check_fields(examples: Sequence[Example], path: Path, asked: Sequence[str]) -> None:
    """Raise DatasetError with the rows that lack a field that the prompt asks for."""
    faults = Faults(path)
    for example in examples:
        missing = [name for name in asked if name not in example.fields]
        if missing:
            has = named(list(example.fields))
            said = f"no field {named(missing)}, but the prompt asks for it; the fields are {has}"
            fix = "Fill it in, or take the placeholder out of the prompt."
            faults.add_row(example, Problem("dataset.missing-field", said, fix=fix))
    faults.raise_if_any()


def without_leaks(
    sources: Mapping[str, tuple[Path, list[Example]]], *, drop_leaks: bool
) -> tuple[dict[str, list[Example]], list[Problem]]:
    """Return the rows of each source without those whose input is in a more precious one, and warnings.

    Args:
        sources: Name -> file and rows, the most precious first (test, val, train, dataset).
        drop_leaks: Drop such rows instead of refusing them.

    Raises:
        DatasetError: With both places of each such row, unless `drop_leaks`.
    """
    places: dict[str, Place] = {}
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
                said = f"another file has the same input: {quoted(example.input_text)}"
                fix, settings = "Take it out of one file, or use {drop_leaks}.", {"drop_leaks": True}
                leak = Problem("dataset.leak", said, fix=fix, settings=settings, related=(places[key],))
                faults.add_row(example, leak, "leak")
            else:
                kept[name].append(example)
                if example.group is not None and groups.get(example.group, name) != name:
                    shared_groups.add(example.group)
        if faults.count and not drop_leaks:
            faults.raise_if_any()
        if faults.count:
            said = f"{counted(faults.count, 'row')} dropped that another file has too"
            warnings.append(Problem("dataset.leaks-dropped", said, file_place(path)))
        if shared_groups:
            said = f"another file has rows of {len(shared_groups)} of its groups"
            warnings.append(Problem("dataset.shared-groups", said, file_place(path)))
        if not kept[name]:
            said, fix = "another file has every one of its rows", "Give files that do not overlap."
            raise DatasetError(Problem("dataset.leak", said, file_place(path), fix))
        for key, example in zip(keys, examples, strict=True):
            places.setdefault(key, example.place)
            if example.group is not None:
                groups.setdefault(example.group, name)
    return kept, warnings


def _row_problem(
    record: Mapping[str, Any], wanted: Iterable[str], target_field: str, *, takes_json: bool
) -> Problem | None:
    for name in wanted:
        if name not in record:
            said = f"no field {name!r}; the fields are {named([str(n) for n in record])}"
            return Problem("dataset.missing-field", said, fix="Fill it in.")
    target = record[target_field]
    if isinstance(target, (dict, list)) and not takes_json:
        kind = "an object" if isinstance(target, dict) else "a list"
        said = f"the target {target_field!r} is {kind}, expected a text, a number, true or false"
        fix = (
            "Use {metric} for JSON answers, or the metric label_set for several labels, or write the target "
            "as a text in quotes."
        )
        return Problem("dataset.target-kind", said, fix=fix, settings={"metric": "json_match"})
    for name in wanted:
        if holds_bytes(record[name]):
            said = f"the field {name!r} holds bytes, expected text"
            return Problem("dataset.bytes", said, fix="Decode it when you write the file.")
    return None


def _text_problem(
    target: str, fields: Mapping[str, object], made_of: Sequence[str], target_field: str
) -> Problem | None:
    """Return what is wrong with the texts of a row. target_field: "" if it needs no target."""
    fill = "Fill it in, or leave the row out."
    if target_field and not target:
        return Problem("dataset.empty-target", f"the target {target_field!r} is empty", fix=fill)
    if not any(text_of(fields[name]).strip() for name in made_of):
        return Problem("dataset.empty-input", f"the input {named([*made_of])} is empty", fix=fill)
    for name, value in fields.items():
        if not isinstance(value, str | list | dict):
            continue
        text = content_of(value)
        if "\0" in text:
            said = f"the field {name!r} holds a NUL character, expected text"
            return Problem("dataset.nul", said, fix="Take it out.")
        if not text.isascii() and any("\ud800" <= char <= "\udfff" for char in text):
            said = (
                f"the field {name!r} holds half of a surrogate pair (\\ud800-\\udfff), which is no character"
            )
            return Problem("dataset.surrogate", said, fix="Write the whole character, or take it out.")
    return None


def find_identifiers(rows: Sequence[Mapping[str, Any]], names: Sequence[str]) -> set[str]:
    """Return which of the columns `names` tell rows apart without a word that a task could use.

    A column counts if nearly all of its values differ, and no value has a word of its own: uuids, hashes,
    numbers, times, links, paths. The `ticket` of `ticket-17` is no word of its own if most values have it.
    """
    return {name for name in names if _identifies(name, [row[name] for row in rows if name in row])}


def _identifies(name: str, values: Sequence[Any]) -> bool:
    texts = [text for value in values if (text := text_of(value).strip())]
    if not texts or len(set(texts)) < _DIFFERENT * len(texts):
        return False
    is_named = _NAMED.search(re.sub(r"(?<=[a-z])(?=[A-Z])|[\s-]+", "_", name).lower()) is not None
    words = [set(_words(text)) for text in texts]
    times = Counter(word for found in words for word in found)
    shared = {word for word, count in times.items() if 1 < len(texts) < 2 * count}
    without = 0
    for text, found in zip(texts, words, strict=True):
        is_one = not any(map(str.isspace, text))
        own = found - shared if is_one or is_named else found
        without += not own or (is_one and is_named)
    return without >= _WITHOUT_WORDS * len(texts)


def _words(text: str) -> list[str]:
    """Return the words of a value that may say something."""
    if _ADDRESS.fullmatch(text):
        return []
    tokens = _TOKEN.findall(_TIME.sub(" ", text))
    return [token.lower() for token in tokens if _is_word(token)]


def _is_word(token: str) -> bool:
    """Return whether a run of letters and digits is a word: no number, no hash, no `aBxK` of a random id."""
    if any(map(str.isdigit, token)) or _HEX.fullmatch(token):
        return False
    is_mixed = any(a.islower() and b.isupper() for a, b in pairwise(token))
    return not is_mixed and (len(token) > 1 or not token.isascii())
