"""JSON out of a model's answer, which seldom is JSON alone."""

from __future__ import annotations

import json
import re
from typing import Any

from autoprompt.reading.texts import visible

_FENCE = re.compile(r"```[\w-]*[ \t]*\n(.*?)```", re.DOTALL)
_BEGIN = re.compile(r"[\[{]")


def read_json_answer(text: str) -> Any:
    """The value that the answer holds: the whole of it, what is in a fence, or the first that stands in it.

    What a reasoning model has thought is no part of the answer: it tries values out there.
    Raises ValueError, with the beginning of the answer, where there is none.
    """
    text = visible(text)
    for part in (text, *_FENCE.findall(text)):
        try:
            return json.loads(part.strip())
        except (ValueError, RecursionError):
            continue
    for match in _BEGIN.finditer(text):
        try:
            return json.JSONDecoder().raw_decode(text, match.start())[0]
        except ValueError:
            continue
        except RecursionError:  # brackets without an end: the next of them is no better
            break
    raise ValueError(f"the answer holds no JSON: {text[:200]!r}")
