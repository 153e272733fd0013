"""Keeping keys out of what is written: a run folder is made to be shown to others.

What a run is about stays as it is, to the letter: a prompt that speaks of passwords is the product, and a
run goes on from the texts, names and paths that it finds here.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

HIDDEN = "***"

# `max_tokens` and its like are no secrets: only whole words at the end of a name are.
_SECRET_NAME = re.compile(
    r"(^|_)((api|access|secret|private)_?key|secret|passw(or)?d|passwd|authorization|credentials?"
    r"|(api|auth|access|bearer|hf|refresh|id)_?token|token)$"
)
_SECRET_TEXT = re.compile(r"\b(?:sk|pk|gsk|hf|xai|ghp)[-_][A-Za-z0-9_-]{16,}|\bAIza[A-Za-z0-9_-]{30,}")
_BEARER = re.compile(r"(?i)\b(bearer\s+)[A-Za-z0-9._~+/=-]{8,}")
_USER_IN_URL = re.compile(r"(?<=://)[^/@\s]+@")
_KEY_IN_QUERY = re.compile(r"(?i)([?&](?:[a-z_-]*key|token|sig|signature|password)=)[^&#\s]+")
_SHORTEST_SECRET = 8  # a variable set to "test" must not black out every "test" of a config

# Entries of settings and results that are what the user or the run wrote, or where it lies.
EXACT = frozenset(
    {"prompt", "components", "demos", "task", "labels", "locked", "rubric", "pattern", "fields"}
    | {"input_field", "target_field", "group_field"}
    | {"dataset", "train", "val", "test", "memory", "runs_dir", "cache_dir", "run_id", "run_dir"}
)


def redact(value: Any, *, exact: Collection[str] = (), environ: Mapping[str, str] | None = None) -> Any:
    """Plain data like `value`, its texts without secrets. Paths become text, tuples lists.

    In texts, key-like words, `user:password@` and keys in the query of URLs, and values of environment
    variables with a secret's name, become `***`. exact: names of entries that stay as they are, at any depth.
    """
    known = _known_secrets(os.environ if environ is None else environ)
    return _mapped(value, lambda text: _redact_text(text, known), exact)


def redactor(environ: Mapping[str, str] | None = None) -> Callable[[Any], Any]:
    """`redact` for many values: the environment is read once."""
    known = _known_secrets(os.environ if environ is None else environ)
    return lambda value: _mapped(value, lambda text: _redact_text(text, known), ())


def without_secrets(
    settings: Mapping[str, Any], *, environ: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """`redact` for settings, all but EXACT: entries with a secret's name are left out too, at any depth."""
    cleaned: dict[str, Any] = redact(_without_names(settings), exact=EXACT, environ=environ)
    return cleaned


def _known_secrets(variables: Mapping[str, str]) -> list[str]:
    """Values that must not be written, the longest first, because one may contain another."""
    values = (value for name, value in variables.items() if _is_secret(name))
    return sorted((value for value in values if len(value) >= _SHORTEST_SECRET), key=len, reverse=True)


@lru_cache(maxsize=4096)  # the same variables are asked for with each event that is written
def _is_secret(name: str) -> bool:
    snake = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).replace("-", "_").lower()
    return _SECRET_NAME.search(snake) is not None


def _without_names(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _without_names(item) for name, item in value.items() if not _is_secret(str(name))}
    if isinstance(value, list | tuple):
        return [_without_names(item) for item in value]
    return value


def _mapped(value: Any, text: Callable[[str], str], exact: Collection[str]) -> Any:
    # Texts first: an event is mostly texts, and to ask what is a Mapping takes longer than to clean one.
    if isinstance(value, str | Path):
        return text(str(value))
    if value is None or isinstance(value, int | float):
        return value
    if isinstance(value, list | tuple):
        return [_mapped(item, text, exact) for item in value]
    if isinstance(value, Mapping):
        return {
            str(name): _mapped(item, str if name in exact else text, exact) for name, item in value.items()
        }
    return value


def _redact_text(text: str, known: list[str]) -> str:
    if len(text) >= _SHORTEST_SECRET:  # most texts of a log are names and numbers
        for secret in known:
            text = text.replace(secret, HIDDEN)
        text = _SECRET_TEXT.sub(HIDDEN, text)
        text = _BEARER.sub(rf"\g<1>{HIDDEN}", text)
    if "@" in text:
        text = _USER_IN_URL.sub(f"{HIDDEN}@", text)
    if "=" in text:
        text = _KEY_IN_QUERY.sub(rf"\g<1>{HIDDEN}", text)
    return text
