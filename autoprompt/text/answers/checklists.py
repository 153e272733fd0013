"""Labels with a mark each that says whether the label holds: check boxes, rows of a table, JSON of truths."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import Any

from autoprompt.text.answers.texts import plain, without_marks
from autoprompt.text.scripts import lazy

# Words that are all a row says of its label.
YES = (
    r"(?:yes|true|y|applies|correct|ja|wahr|oui|vrai|sí|si|sim|verdadero|verdadeiro|vero"
    r"|да|是|对|はい|예|네|نعم|हाँ|evet)"
)
NO = (
    r"(?:no|nope|false|n|none|absent|does(?:\s+not|n't)\s+apply|not\s+(?:applicable|present)|incorrect|nein|falsch|non|faux"
    r"|falso|não|нет|否|不是|いいえ|아니요|아니오|لا|नहीं|hayır)"
)
_TRUE_SIGN, _FALSE_SIGN = r"(?:\[[xX✓✔]\]|[☑☒✅✓✔])", r"(?:\[\s?\]|[☐⬜□❌✗✘❎✖])"
_BULLET = r"[\s|>]*(?:[-*•·–]\s+|\(?\d{1,3}[.)]\s+)?"
_BOX_FIRST = lazy(rf"{_BULLET}(?:(?P<yes>{_TRUE_SIGN})|(?P<no>{_FALSE_SIGN}))\ufe0f?\s*(?P<label>.+)")
_MARK_LAST = lazy(
    rf"{_BULLET}(?P<label>.+?)[\s*_`\"']*(?:[:=|?？]|\s[-–—]\s|->|→|\s)[\s*_`\"'|]*"
    rf"(?:(?P<yes>{_TRUE_SIGN}|{YES}|1(?:\.0)?)|(?P<no>{_FALSE_SIGN}|{NO}|0(?:\.0)?))\ufe0f?[\s*_`\"'|.,;!]*",
    re.IGNORECASE,
)
_SIGN_NEEDED = lazy(rf"[:=|?？]|\s[-–—]\s|->|→|{_TRUE_SIGN}|{_FALSE_SIGN}")
_BOX = lazy(rf"{_TRUE_SIGN}|{_FALSE_SIGN}")
_EXPLAINED = lazy(r"(?:\s+[-–—(]|\s*:\s).*", re.DOTALL)
_PART = lazy(r"[,;，；、]\s*|(?<=[.!])\s+")
_YES_ALONE, _NO_ALONE = lazy(rf"{YES}|1", re.IGNORECASE), lazy(rf"{NO}|0", re.IGNORECASE)
_TRUTH_OF = lazy(r"\A(?:is|has|contains)(?:[_\s-]+|(?=[A-Z]))")  # {"is_spam": true}
_MOST_ROWS, _LONGEST_ROW = 2_000, 200


def read_checklist(text: str, exact: Callable[[str], str | None]) -> dict[str, bool]:
    """Return whether each label holds, if `text` is a list that says so; {} if it is no such list.

    A row is a line, or a part of the only line. A single row is no list: it may be a sentence.

    Args:
        text: An answer.
        exact: Returns the label that a text is as a whole.
    """
    lines = [line for line in text.splitlines() if line.strip()][:_MOST_ROWS]
    if len(lines) == 1:
        boxes = [box.start() for box in _BOX.finditer(lines[0])]
        # ☐ a ☑ b, or a ☐ b ☑
        ends = boxes[1:] if boxes[:1] == [0] else [box.end() for box in _BOX.finditer(lines[0])]
        cuts = [0, *ends, len(lines[0])]
        lines = [lines[0][a:b] for a, b in pairwise(cuts)] if boxes else _PART.split(lines[0])
    found: dict[str, bool] = {}
    for line in lines:
        row = _row(line.strip(), exact) if len(line) <= _LONGEST_ROW else None
        if row is not None:
            if found.get(row[0], row[1]) != row[1]:
                return {}
            found[row[0]] = row[1]
    return found if len(found) > 1 else {}


def _row(line: str, exact: Callable[[str], str | None]) -> tuple[str, bool] | None:
    if box := _BOX_FIRST.fullmatch(line):
        label = exact(without_marks(box["label"])) or exact(
            without_marks(_EXPLAINED.sub("", box["label"], count=1))
        )
        return (label, box["yes"] is not None) if label is not None else None
    mark = _MARK_LAST.fullmatch(line)
    if mark is None or exact(without_marks(line)) is not None or not _SIGN_NEEDED.search(line):
        return None
    label = exact(without_marks(mark["label"]))
    said = mark["yes"] or mark["no"]
    return (label, mark["yes"] is not None) if label is not None and exact(said) is None else None


def read_truths(data: Any, exact: Callable[[str], str | None]) -> dict[str, float]:
    """Return the labels that are keys of a JSON object, with 1 for true, 0 for false, or their numbers."""
    found: dict[str, float] = {}
    for key, value in data.items() if isinstance(data, Mapping) else ():
        label = exact(str(key)) or exact(_TRUTH_OF.sub("", str(key)))
        worth = _worth(value)
        if label is not None and worth is not None:
            found[label] = worth
    return found


def _worth(value: Any) -> float | None:
    if isinstance(value, bool | int | float):
        return float(value)
    if not isinstance(value, str):
        return None
    said = plain(value).strip()
    if _YES_ALONE.fullmatch(said):
        return 1.0
    return 0.0 if _NO_ALONE.fullmatch(said) else None
