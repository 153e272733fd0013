"""Rows that stand in a prompt as its examples: a model that is shown an answer proves nothing with it."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import replace

from autoprompt.dataset.checks import content_key
from autoprompt.dataset.splits import Regions
from autoprompt.errors import DatasetError, Place, Problem
from autoprompt.records import Example, Part
from autoprompt.text.scripts import is_unparted, signs

# Letters; a sign of a script that parts no words is two. What is shorter, or a single word, may stand in a
# prompt by chance.
_LEAST_WIDTH = 8


def shown_in(texts: Sequence[str], rows: Sequence[Example]) -> list[Example]:
    """Return the rows whose input one of the texts holds word for word; white space may differ."""
    shown = [_flat(text) for text in texts]
    return [
        row for row in rows if (flat := _flat(row.input_text)) and any(_shows(text, flat) for text in shown)
    ]


def without_shown(regions: Regions, texts: Sequence[str]) -> Regions:
    """Return the parts without the rows that the texts show; a part with a file of its own is only warned of.

    Rows are taken out after the cut, so a changed prompt moves no other row.
    Raises DatasetError if a part would be empty.
    """
    shown = {part: {row.id for row in shown_in(texts, rows)} for part, rows in regions.parts.items()}
    parts: dict[Part, Sequence[Example]] = {**regions.parts}
    for part in regions.cut:
        parts[part] = [row for row in parts[part] if row.id not in shown[part]]
        if shown[part] and not parts[part]:
            said, fix = f"the prompt shows every row of {part} as an example", "Add rows, or remove examples."
            raise DatasetError(Problem("dataset.all-shown", said, fix=fix))
    return replace(regions, parts=parts, warnings=(*regions.warnings, *_warnings(shown, regions.cut)))


def _warnings(shown: Mapping[Part, set[str]], cut: Sequence[Part]) -> list[Problem]:
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


def _shows(text: str, row: str) -> bool:
    return row in text and _is_telling(row) and _stands_in(row, text)


def _is_telling(text: str) -> bool:
    parts = signs(text)
    return sum(1 + _is_unspaced(sign) for sign in parts) >= _LEAST_WIDTH and (
        " " in text or any(map(_is_unspaced, parts))
    )


def _is_unspaced(sign: str) -> bool:
    """Whether a sign needs no space beside it: it is of a script that parts no words, or a picture."""
    return is_unparted(sign) or (not sign[0].isalnum() and unicodedata.east_asian_width(sign[0]) in "WF")


def _stands_in(text: str, within: str) -> bool:
    """As whole words, where its script parts them: `is it so` does not stand in `this is it some`."""
    before = "" if _is_unspaced(text[0]) else r"(?<!\w)"
    after = "" if _is_unspaced(text[-1]) else r"(?!\w)"
    return re.search(before + re.escape(text) + after, within) is not None
