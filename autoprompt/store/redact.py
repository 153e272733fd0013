"""Keeping keys out of what is written: a run folder is made to be shown to others."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
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


def redact(value: Any, *, environ: Mapping[str, str] | None = None) -> Any:
    """Plain data like `value`, its texts without secrets. Paths become text, tuples lists.

    In texts, key-like words, `user:password@` and keys in the query of URLs, and values of environment
    variables with a secret's name, become `***`.
    """
    known = _known_secrets(os.environ if environ is None else environ)
    return _mapped(value, lambda text: _redact_text(text, known))


def without_secrets(
    settings: Mapping[str, Any], *, environ: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """`redact` for settings: entries whose name is that of a secret are left out as well, at any depth."""
    cleaned: dict[str, Any] = redact(_without_names(settings), environ=environ)
    return cleaned


def _known_secrets(variables: Mapping[str, str]) -> list[str]:
    """Values that must not be written, the longest first, because one may contain another."""
    values = (value for name, value in variables.items() if _is_secret(name))
    return sorted((value for value in values if len(value) >= _SHORTEST_SECRET), key=len, reverse=True)


def _is_secret(name: str) -> bool:
    snake = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).replace("-", "_").lower()
    return _SECRET_NAME.search(snake) is not None


def _without_names(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _without_names(item) for name, item in value.items() if not _is_secret(str(name))}
    if isinstance(value, list | tuple):
        return [_without_names(item) for item in value]
    return value


def _mapped(value: Any, text: Callable[[str], str]) -> Any:
    match value:
        case Mapping():
            return {str(name): _mapped(item, text) for name, item in value.items()}
        case list() | tuple():
            return [_mapped(item, text) for item in value]
        case str() | Path():
            return text(str(value))
        case _:
            return value


def _redact_text(text: str, known: list[str]) -> str:
    for secret in known:
        text = text.replace(secret, HIDDEN)
    text = _SECRET_TEXT.sub(HIDDEN, text)
    text = _BEARER.sub(rf"\g<1>{HIDDEN}", text)
    text = _USER_IN_URL.sub(f"{HIDDEN}@", text)
    return _KEY_IN_QUERY.sub(rf"\g<1>{HIDDEN}", text)
