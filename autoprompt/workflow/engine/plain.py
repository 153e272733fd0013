"""Values as a kept run holds them: what is written is what is read, in this process and in the next one.

Plain data: text, numbers, lists, dicts. A tuple is a list from the beginning, as LangGraph's checkpoints give
it back; keys that are numbers stay numbers, which JSON alone would make text.
"""

from __future__ import annotations

import json
from typing import Any

from autoprompt.errors import InputError

_PAIRS = "\0pairs"  # the one key of a dict that is written as its pairs, since its keys are not all text
_KEYS = (str, int, float, type(None))


def plain(value: Any, what: str, *, allow_nan: bool = True) -> Any:
    """`value` as the run goes on with it. Raises InputError for what is no plain data."""
    return read(written(value, what, allow_nan=allow_nan))


def written(value: Any, what: str, *, allow_nan: bool = True) -> str:
    """As a text, ASCII. Raises InputError for what is no plain data; what: names it there."""
    try:
        return json.dumps(_tagged(value), allow_nan=allow_nan)
    except (TypeError, ValueError, RecursionError) as error:
        raise InputError(
            f"{what} cannot be kept ({error}). A run that can be resumed holds plain data only (text, "
            "numbers, lists, dicts): put out something else, or run without runs_dir and run_id."
        ) from error


def read(text: str) -> Any:
    """What was `written`; any other JSON as it is."""
    return json.loads(text, object_hook=_untagged)


def _tagged(value: Any) -> Any:
    if isinstance(value, dict):
        if all(isinstance(key, str) for key in value) and _PAIRS not in value:
            return {key: _tagged(part) for key, part in value.items()}
        for key in value:
            if not isinstance(key, _KEYS):
                raise TypeError(f"a key of a dict is {type(key).__name__}, no text and no number")
        return {_PAIRS: [[key, _tagged(part)] for key, part in value.items()]}
    if isinstance(value, list | tuple):
        return [_tagged(part) for part in value]
    return value


def _untagged(value: dict[str, Any]) -> dict[Any, Any]:
    return dict(value[_PAIRS]) if _PAIRS in value else value
