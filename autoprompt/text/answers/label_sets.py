"""Which labels an answer names, if several may be right: a list in JSON, in lines or in a sentence."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

from autoprompt.text.answers import denials
from autoprompt.text.answers.checklists import read_checklist
from autoprompt.text.answers.denials import declined_labels, find_declined
from autoprompt.text.answers.labels import LabelWords, label_key
from autoprompt.text.answers.texts import plain, visible, without_marks, without_struck
from autoprompt.text.answers.wrapping import read_json, unfence, unwrap, without_confidence
from autoprompt.text.scripts import lazy

_SEPARATOR = lazy(r"\s*[,;|\n，；、،؛]\s*")
# These may also be a part of a label: "Rock and Roll", R&B.
_JOINT = lazy(
    r"\s+(?:and|und|et|y|e|ed|и|en|och|og|ve|dan|và|or|oder|ou|o)\s+|\s*[&+/]\s*|\s*(?:以及|和|与|與|及|跟|と)\s*"
    r"|\s+(?:그리고|및)\s+",
    re.IGNORECASE,
)
_AND_FIRST = lazy(r"\A(?:and|und|et|y|e|и|以及|和)\s+", re.IGNORECASE)
_UNCHECKED = lazy(r"\s*(?:[-*•]\s+)?\[\s?\]\s.*")
_BULLET = lazy(r"\s*(?:(?:[-*•]\s+)?\[[xX✓✔]\]\s*|[-*•·–‣▪●○]\s+|\(?\d{1,3}[.)、]\s*|[#](?=\w))")
_HEADING = lazy(
    r"\s*[*_#>`]*\s*((?:[^\s:：,;、，；(（]+\s+){0,6}[^\s:：,;、，；(（]+?)[*_`]*"
    r"(?:\s*[(（][^()（）]*[)）])?[*_`]*\s*[:：][*_`]*(?!//)\s*(.*)"
)
_NEW_HEADING = lazy(r"\n|(?<=[.!?。！？])\s+(?=[^\s:：]+(?:\s[^\s:：]+){0,3}[:：]\s)")
_OF_ANSWER = lazy(
    r"answer|label|tag|categor|class|result|output|final|prediction|答案|标签|类别|分类|结果|ラベル|라벨",
    re.IGNORECASE,
)
_MENU = r"possible|allowed|available|candidate|options?\b|choices?\b|\bfrom\Z|可选|候选|选项|可能"
_OF_MENU = lazy(_MENU, re.IGNORECASE)
# Lists beside the answer: what there was to choose from, what was not chosen, and why.
_OF_OTHERS = lazy(
    rf"{_MENU}|reject|exclud|ruled|discard|negative|absent|missing|\bnot|\bnon|wrong|evidence|reason|quote|keyword"
    r"|排除|证据|理由|根拠",
    re.IGNORECASE,
)
_BEGINNING = lazy(r"\A(?:(?:an?|the|it|they|is|are|only|just|both)\s+)+", re.IGNORECASE)
# What an item says of its label: "drama (sad)", "drama: 0.9", "drama – it is sad".
_EXPLAINED = lazy(r"\s*(?:[(（\[].*|[:=：].*|\s[-–—]\s.*|\s\d*\.?\d+\s?%?|[✓✔✅☑✗✘❌×])\Z", re.DOTALL)
_NO = lazy(
    r"\W*(?:no|false|0|0\.0+|absent|not\s+(?:present|applicable)|n/?a|✗|✘|❌|×|否|不是|いいえ)\W*",
    re.IGNORECASE,
)
_NONE = lazy(
    r"(?:none|no\s+(?:\w+\s+)?(?:labels?|tags?|categor(?:y|ies)|class(?:es)?|topics?|genres?|one)|nothing|n/?a|null|empty"
    r"|keine?s?|aucune?|ningun[oa]|nenhum[a]?|nessun[oa]?|нет|ни\s+одного|无|無|没有|なし|該当なし|없음|∅|-)"
    r"(?:\s+(?:of\s+(?:the\s+(?:above|labels)|them|these)|appl(?:y|ies)|fits?))*",
    re.IGNORECASE,
)
_PYTHON_LIST = lazy(r"[\[({](.*)[\])}]", re.DOTALL)
_NAMES = ("label", "name", "tag", "category", "class", "value", "topic", "genre")
_NUMBERS = "0123456789 "
_LONGEST_LABEL = 4  # words of a label that nobody knows; more are a sentence
_LONGEST_JOINED = 8  # parts that a known label may be made of


class _UnreadableError(Exception):
    """The answer says what no set can be made of."""


def read_labels(text: str, known: Sequence[str] = ()) -> tuple[str, ...] | None:
    """Return the labels that `text` names, each once, as `known` writes them; None if it names none.

    An answer that says "none" names the empty set. Labels that are not known are returned as written.
    A sentence is searched for known labels; a label that it denies ("not a comedy") is left out.

    Args:
        text: A JSON list or object, a list with bullets, commas, semicolons, lines or "and", or a sentence;
            fenced or behind a heading.
        known: The labels to expect. Those that hold a separator are found whole.

    Examples:
        >>> read_labels("- Drama\\n- Comedy", ("drama", "comedy", "war"))
        ('drama', 'comedy')
        >>> read_labels("None of them.", ("drama", "comedy"))
        ()
    """
    words = _words(tuple(known))
    shown = unfence(without_confidence(plain(unwrap(without_struck(visible(text)))))).strip()
    if not shown:
        return None
    named = words.exact(shown)
    if named is not None:
        return (named,)
    if find_declined(shown):
        found = _in_sentence(shown, words)
        return None if found is None else _once(found)
    try:
        return next((_once(found) for found in _candidates(shown, words) if found is not None), None)
    except _UnreadableError:
        return None


def split_labels(text: str) -> tuple[str, ...] | None:
    """Return the labels of a target: a JSON list's, else the parts between commas, semicolons or lines.

    None for JSON that is no list of labels, and for a text without any label.
    """
    data = read_json(text) if text.lstrip().startswith(("[", "{")) else None
    if isinstance(data, list | dict):
        items = _scalars(data) if isinstance(data, list) else None
        return None if items is None else _once(items)
    if _NONE.fullmatch(without_marks(text)):
        return ()
    return _once(part for part in map(without_marks, _SEPARATOR.split(plain(text).strip())) if part) or None


def _candidates(shown: str, words: LabelWords) -> Iterator[list[str] | None]:
    """Yield what each form that an answer may have makes of it, the likeliest form first."""
    held = {} if shown.startswith("{") else read_checklist(shown, words.exact)
    if held:
        yield [label for label, is_held in held.items() if is_held]
    yield _of_json(shown, words)
    if (listed := _PYTHON_LIST.fullmatch(shown)) is not None:
        found = _parts(listed[1], words)
        yield found if all(_may_be_label(part, words) for part in found) else None
    passages = _passages(shown, words)
    segments = [_parts(passage, words) for _, passage in passages]
    heads = [head for head, _ in passages]
    yield _under_headings(list(zip(heads, segments, strict=True)), words)
    if any(_NONE.fullmatch(without_marks(passage)) for _, passage in passages):
        yield []
    yield from (found for found in segments if found and all(_may_be_label(part, words) for part in found))
    yield _in_sentence(shown, words)


def _of_json(shown: str, words: LabelWords) -> list[str] | None:
    data = read_json(shown, (list, dict))
    is_whole = shown.startswith(("[", "{"))
    if isinstance(data, list):
        items = _scalars(data)
        if items is None or not (is_whole or (items and _are_known(items, words))):
            return None
        return _labels_of(items, words)
    if not isinstance(data, dict):
        return None
    lists = {
        str(name): items
        for name, value in data.items()
        if isinstance(value, list) and (items := _scalars(value)) is not None
    }
    if lists and (found := _list_of_answer(lists, words)) is not None:
        return _labels_of(found, words)
    if data and all(isinstance(value, bool) or value in (0, 1) for value in data.values()):
        return _labels_of([str(name) for name, value in data.items() if value], words)
    texts = [value for value in data.values() if isinstance(value, str)]
    if data and not texts and is_whole:
        raise _UnreadableError  # {"drama": 0.9, "comedy": 0.2}: nobody knows from which score a label counts
    for value in texts:
        if _is_none(value, words):
            return []
        found = _parts(value, words)
        if found and (_are_known(found, words) or len(data) == 1):
            return found
    return None


def _list_of_answer(lists: Mapping[str, list[str]], words: LabelWords) -> list[str] | None:
    """Return the list of an object that is the answer; None if all of them are something else.

    Raises:
        _UnreadableError: If several may be it.
    """
    meant = {name: items for name, items in lists.items() if not _OF_OTHERS.search(name)}
    named = [items for name, items in meant.items() if _OF_ANSWER.search(name)]
    known = [items for items in meant.values() if items and _are_known(items, words)]
    for found in (named, known, list(meant.values())):
        if len(found) == 1:
            return found[0]
    if meant:
        raise _UnreadableError
    return None


def _is_none(text: str, words: LabelWords) -> bool:
    """Return whether a text says that no label applies, and is no label itself."""
    return _NONE.fullmatch(without_marks(text)) is not None and words.exact(without_marks(text)) is None


def _scalars(items: Iterable[Any]) -> list[str] | None:
    """Return the labels of a JSON list; None if an item is none."""
    found: list[str] = []
    for item in items:
        value = item
        if isinstance(item, Mapping):
            texts = [value for value in item.values() if isinstance(value, str)]
            named = [item[name] for name in _NAMES if isinstance(item.get(name), str)]
            value = next(iter(named or (texts if len(texts) == 1 else [])), None)
        if isinstance(value, bool) or not isinstance(value, str | int | float):
            return None
        if text := str(value).strip():
            found.append(text)
    return found


def _passages(shown: str, words: LabelWords) -> list[tuple[str, str]]:
    """Return the passages of an answer that may be its list, each with its heading; "" for none."""
    passages: list[tuple[str, list[str]]] = [("", [])]
    for line in _NEW_HEADING.split(shown):
        heading = None if _BULLET.match(line) else _HEADING.fullmatch(line)
        if heading and words.exact(heading[1]) is None:
            passages.append((heading[1], [heading[2]]))
            if heading[2] and _OF_MENU.search(heading[1]):
                passages.append(("", []))
        elif not _UNCHECKED.fullmatch(line):
            passages[-1][1].append(line)
    return [(head, text) for head, lines in passages if (text := "\n".join(lines).strip())]


def _under_headings(passages: Sequence[tuple[str, list[str]]], words: LabelWords) -> list[str] | None:
    """Return the labels of the passages that hold nothing else: of all, or of the last answer."""
    lists = [
        (head.strip(_NUMBERS), found)
        for head, found in passages
        if found and _are_known(found, words) and not _OF_MENU.search(head)
    ]
    if not lists:
        return None
    last = lists[-1][0]
    if _OF_ANSWER.search(last) or not last:
        lists = [(head, found) for head, found in lists if head == last]
    return [label for _, found in lists for label in found]


def _parts(segment: str, words: LabelWords) -> list[str]:
    """Return the labels of a list in whatever marks, and what stands between these as it is written."""
    found: list[str] = []
    lines = [line for line in segment.splitlines() if line.strip()]
    if any(map(_BULLET.match, lines)):
        for line in lines:
            bullet = _BULLET.match(line)
            item = line[bullet.end() :] if bullet else line
            label = _label(item, words)
            if label is None:
                found += _split(item, words)
            elif not _is_denied(item):
                found.append(label)
        return found
    return _split(segment, words)


def _split(text: str, words: LabelWords) -> list[str]:
    """Return the parts of `text` between separators; a known label that holds one is a single part."""
    marks = sorted(
        (mark.span() for pattern in (_SEPARATOR, _JOINT) for mark in pattern.finditer(text)),
        key=lambda s: s[0],
    )
    starts, ends = [0], []
    for start, end in marks:
        if start >= starts[-1]:
            ends.append(start)
            starts.append(end)
    ends.append(len(text))
    found: list[str] = []
    at = 0
    while at < len(starts):
        for until in range(min(len(starts), at + _LONGEST_JOINED), at + 1, -1):
            joined = _trimmed(text[starts[at] : ends[until - 1]])
            if (label := words.exact(joined)) is not None:
                found.append(label)
                at = until
                break
        else:
            part = text[starts[at] : ends[at]]
            label = _label(part, words)
            if (named := label or _trimmed(part)) and not (label and _is_denied(part)):
                found.append(named)
            at += 1
    return found


def _label(text: str, words: LabelWords) -> str | None:
    """Return the known label that an item is, whatever it says of it."""
    trimmed = _trimmed(text)
    for form in (text, trimmed, _BEGINNING.sub("", trimmed, count=1)):
        for shortened in (form, _EXPLAINED.sub("", form)):
            if shortened.strip() and (label := words.exact(without_marks(shortened))) is not None:
                return label
    return None


def _is_denied(item: str) -> bool:
    """Return whether an item says that its label does not hold: "drama: no", "drama ✗"."""
    said = _EXPLAINED.search(item)
    return said is not None and _NO.fullmatch(said[0]) is not None


def _trimmed(text: str) -> str:
    return _AND_FIRST.sub("", without_marks(text.strip().lstrip("#")), count=1)


def _in_sentence(shown: str, words: LabelWords) -> list[str] | None:
    """Return the known labels that a text names as words and does not deny; None if it names none at all."""
    found: list[str] = []
    denied_end = -1
    words_found = words.find(shown)
    refused = declined_labels(shown, words_found)
    for at, (label, start, end) in enumerate(words_found):
        if at in refused:
            continue
        if denials.is_denied(shown, start, end, denied_end):
            denied_end = end
        elif not denials.is_weighed(shown, start):
            found.append(label)
    return found or (None if denied_end < 0 else [])


def _may_be_label(part: str, words: LabelWords) -> bool:
    """Return whether a part of a list is a known label, or may be one that nobody knows."""
    if words.exact(part) is not None:
        return True
    return len(part.split()) <= _LONGEST_LABEL and not words.find(part)


def _are_known(parts: Sequence[str], words: LabelWords) -> bool:
    return all(words.exact(part) is not None for part in parts)


def _labels_of(parts: Sequence[str], words: LabelWords) -> list[str]:
    if len(parts) == 1 and _is_none(parts[0], words):
        return []
    return [words.exact(part) or without_marks(plain(part)) for part in parts]


def _once(labels: Iterable[str]) -> tuple[str, ...]:
    return tuple({label_key(label): label for label in reversed(list(labels))}.values())[::-1]


@lru_cache(maxsize=16)
def _words(known: tuple[str, ...]) -> LabelWords:
    return LabelWords(known)
