"""Texts as they may be shown: no key in them, and nothing that steers a page or terminal or hides there.

A run folder is made to be shown to others. What a run is about stays as it is, to the letter: a prompt that
speaks of passwords is the product, and a run continues from the texts, names and paths that it finds here. An
address loses the password or key that it holds; `whole_address` finds it again in a variable.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from autoprompt.text.names import counted
from autoprompt.text.scripts import HAN, HANGUL, KANA, lazy

HIDDEN = "***"

# `max_tokens` and its like are no secrets: only whole words at the end of a name are.
_SECRET_NAME = re.compile(
    r"(^|_)((api|access|secret|private)_?key|secret|passw(or)?d|passwd|authorization|credentials?"
    r"|(api|auth|access|bearer|hf|refresh|id)_?token|token)$"
)
_SECRET_TEXT = re.compile(r"\b(?:sk|pk|gsk|hf|xai|ghp)[-_][A-Za-z0-9_-]{16,}|\bAIza[A-Za-z0-9_-]{30,}")
_BEARER = re.compile(r"(?i)\b(bearer\s+)[A-Za-z0-9._~+/=-]{8,}")
_USER_IN_URL = re.compile(r"(?<=://)[^/@\s]+@")
_KEY_IN_QUERY = re.compile(r"(?i)([?&](?:[a-z_-]*key|[a-z_-]*token|sig|signature|password)=)[^&#\s]+")
_SHORTEST_SECRET = 8  # a variable set to "test" must not black out every "test" of a config

# Entries of settings and results that are what the user or the run wrote, a name, or where something lies.
EXACT = frozenset(
    {"prompt", "components", "demos", "task", "io", "labels", "locked", "rubric", "pattern", "fields"}
    | {"input_field", "target_field", "group_field", "target_output"}
    | {"model", "optimizer_model", "judge_model", "metric", "name", "id", "trial"}
    | {"dataset", "train", "val", "test", "data", "workflow", "workflow_file", "program", "tools"}
    | {"where", "memory_file", "runs_dir", "cache_dir", "workdir", "python", "run_id", "run_dir"}
    | {"allow_private_hosts", "reasoning_effort", "traffic", "prompts_file", "tags", "notes"}
)
# Below these names are the user's own, and say nothing; of a metric's options these do.
_FREE = {"inputs": (), "outputs": (), "metric_options": ("rubric", "pattern", "fields")}
ADDRESSES = frozenset({"base_url", "optimizer_base_url", "judge_base_url"})
# Variables that may hold an address with its password.
ADDRESS_VARIABLES = (
    "AUTOPROMPT_BASE_URL",
    "AUTOPROMPT_OPTIMIZER_BASE_URL",
    "AUTOPROMPT_JUDGE_BASE_URL",
    "OPENAI_BASE_URL",
    "OPENAI_API_BASE",
)

_Clean = Callable[[str], str]


def redact(value: Any, *, environ: Mapping[str, str] | None = None) -> Any:
    """Return plain data like `value`, with `***` in place of the secrets in its texts. Paths become text.

    Secrets are key-like words, `user:password@` and keys in the query of URLs, and values of environment
    variables with a secret's name. Tuples become lists.
    """
    return redactor(environ)(value)


def redactor(environ: Mapping[str, str] | None = None) -> Callable[[Any], Any]:
    """Return `redact` for many values: it reads the environment only once."""
    known = _known_secrets(os.environ if environ is None else environ)
    return lambda value: _mapped(value, lambda text: _redact_text(text, known), {})


def redact_entries(value: Any, *, environ: Mapping[str, str] | None = None) -> Any:
    """Do what `redact` does, for data that is read again.

    Entries in EXACT stay as they are, and those in ADDRESSES lose only the secret.
    """
    known = _known_secrets(os.environ if environ is None else environ)
    by_name: dict[str, _Clean] = dict.fromkeys(EXACT, str)
    by_name |= dict.fromkeys(ADDRESSES, lambda text: _redact_address(text, known))
    return _mapped(value, lambda text: _redact_text(text, known), by_name)


def without_secrets(
    settings: Mapping[str, Any], *, environ: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """Do what `redact_entries` does for settings, and leave out entries with a secret's name at any depth."""
    cleaned: dict[str, Any] = redact_entries(without_secret_names(settings), environ=environ)
    return cleaned


def whole_address(address: str, environ: Mapping[str, str], first: Sequence[str] = ()) -> str:
    """Return the address with what was hidden in it, if one of ADDRESS_VARIABLES has it.

    Else return it as it is.

    Args:
        address: With `***` for what was hidden.
        environ: The environment.
        first: The variables of the role whose address it is. Two roles may ask one host by different
            passwords.
    """
    if HIDDEN not in address:
        return address
    known = _known_secrets(environ)
    given = filter(None, (environ.get(name, "").strip() for name in (*first, *ADDRESS_VARIABLES)))
    return next((url for url in given if _redact_address(url, known) == address), address)


def address_without_secrets(address: str) -> str:
    """Return an endpoint's address without user, password and keys, the same whoever asks it."""
    bare = re.sub(r"(?<=://)[^/?#\s]*@", "", address)
    path, _, query = bare.partition("?")
    pairs = query.split("&")
    kept = [pair for pair in pairs if not _KEY_IN_QUERY.match(f"?{pair}")]
    if kept == pairs:
        return bare
    return f"{path}?{'&'.join(kept)}" if kept else path


def _known_secrets(variables: Mapping[str, str]) -> list[str]:
    """Return values that must not be written, the longest first, because one may contain another."""
    values = (value for name, value in variables.items() if _is_secret(name))
    return sorted((value for value in values if len(value) >= _SHORTEST_SECRET), key=len, reverse=True)


@lru_cache(maxsize=4096)  # the same variables are asked for with each event that is written
def _is_secret(name: str) -> bool:
    snake = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).replace("-", "_").lower()
    return _SECRET_NAME.search(snake) is not None


def without_secret_names(value: Any) -> Any:
    """Return plain data without the entries that have a secret's name, at any depth."""
    if isinstance(value, Mapping):
        return {name: without_secret_names(item) for name, item in value.items() if not _is_secret(str(name))}
    if isinstance(value, list | tuple):
        return [without_secret_names(item) for item in value]
    return value


def _mapped(value: Any, text: _Clean, by_name: Mapping[str, _Clean]) -> Any:
    """Return plain data with cleaned texts. by_name: What cleans the texts of an entry, at any depth."""
    # Texts first: an event is mostly texts, and to ask what is a Mapping takes longer than to clean one.
    if isinstance(value, str | Path):
        return text(str(value))
    if value is None or isinstance(value, int | float):
        return value
    if isinstance(value, list | tuple):
        return [_mapped(item, text, by_name) for item in value]
    if isinstance(value, Mapping):
        return {
            str(name): _mapped(item, by_name.get(name, text), _below(name, by_name))
            for name, item in value.items()
        }
    return value


def _below(name: Any, by_name: Mapping[str, _Clean]) -> Mapping[str, _Clean]:
    if name not in _FREE:
        return by_name
    return {kept: by_name[kept] for kept in _FREE[name] if kept in by_name}


def _redact_address(address: str, known: list[str]) -> str:
    """Return an address without its secrets; its host stays, as a server's name may begin as a key does."""
    try:
        scheme, netloc = urlsplit(address)[:2]
    except ValueError:  # no address, as will be said
        return _redact_text(address, known)
    head = f"{scheme}://{netloc}"
    if not netloc or not address.startswith(head):
        return _redact_text(address, known)
    _, at, host = netloc.rpartition("@")
    return f"{scheme}://{HIDDEN + at if at else ''}{host}{_redact_text(address[len(head) :], known)}"


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


_SHOWN_CONTROLS: dict[int, int | str] = {
    **{code: 0x2400 + code for code in range(32) if chr(code) not in "\n\t"},
    0x7F: 0x2421,
    **{code: f"[U+{code:04X}]" for code in range(0x80, 0xA0)},
    # What turns text around, and could make a page say what is not in the data.
    **{
        code: f"[U+{code:04X}]"
        for code in (0x061C, 0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A))
    },
    0x2028: "\n",
    0x2029: "\n",
    **{code: f"[U+{code:04X}]" for code in (0xFFFE, 0xFFFF)},  # XML 1.0 has no form for them
    **dict.fromkeys(range(0xD800, 0xE000), 0xFFFD),
}
_STEERING = lazy(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]"
)

_KANA, _HANGUL, _HAN = lazy(f"[{KANA}]"), lazy(f"[{HANGUL}]"), lazy(f"[{HAN}]")
_ENOUGH = 2000  # characters that tell the language of a text


def shown(text: str, longest: int | None = None) -> str:
    """Return `text` with control characters and marks of direction as visible signs; line ends and tabs stay.

    longest: characters after which it is cut; a note says how many are missing.
    """
    missing = 0 if longest is None else len(text) - longest
    if missing > 0:
        text = text[:longest]
    if _STEERING.search(text):
        text = text.replace("\r\n", "\n").translate(_SHOWN_CONTROLS)
    return f"{text} … ({counted(missing, 'more character')})" if missing > 0 else text


def without_steering(text: str) -> str:
    """Return `text` without the characters that `shown` makes visible, for terminals."""
    return _STEERING.sub("", text)


def one_line(text: str, longest: int | None = None) -> str:
    """Return `text` as one line, at most `longest` characters of it."""
    if longest is None:
        return " ".join(shown(text).split())
    line = " ".join(shown(text[: 4 * longest]).split())  # a row may be a megabyte
    return line if len(line) <= longest else line[: longest - 1].rstrip() + "…"


def language(text: str) -> str:
    """Return `zh`, `ja` or `ko` where most letters say so, for the right fonts and line breaks; else "".

    Han characters are shared: without a language a browser draws Chinese with the forms of its own locale.
    """
    head = text[:_ENOUGH]
    han, kana, hangul = (len(part.findall(head)) for part in (_HAN, _KANA, _HANGUL))
    letters = sum(character.isalpha() for character in head)
    if not letters or han + kana + hangul < 0.3 * letters:
        return ""
    if kana > 0.05 * (han + kana):
        return "ja"
    return "ko" if hangul > han else "zh"


def inert_json(value: Any) -> str:
    """JSON that may stand inside `<script type="application/json">`: no text in it can end the element."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text.encode("utf-8", "replace").decode()
