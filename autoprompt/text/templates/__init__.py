"""The prompts that we send ourselves, as files: `<language>/<name>.txt`, with `$name` to fill in."""

from __future__ import annotations

import re
from functools import cache
from importlib.resources import files
from string import Template
from typing import Literal, get_args

from autoprompt.text.scripts import HAN, HANGUL, KANA

Language = Literal["en", "zh"]

_HAN = re.compile(f"[{HAN}]")
_KANA_HANGUL = re.compile(f"[{KANA}{HANGUL}]")
_NAMES = ("analyze", "analyze_steps", "describe_tool", "patch", "rewrite")
_BREAK = re.compile(r"(?<=[.:?!])\s+|(?<=[。：？！])|\$\w+|</?\w+>|\n+")


def language_of(text: str) -> Language:
    """Return the template language for a prompt: Chinese if a fifth of its letters are, else English.

    Japanese and Korean have Chinese signs, too; their own letters give them away. The English templates ask
    the model to keep to the prompt's own language, whichever it is.
    """
    letters = [c for c in text if c.isalpha()]
    is_chinese = len(_HAN.findall(text)) >= len(letters) / 5 and not _KANA_HANGUL.search(text)
    return "zh" if letters and is_chinese else "en"


@cache
def _template(language: Language, name: str) -> Template:
    return Template(files(__name__).joinpath(language, f"{name}.txt").read_text(encoding="utf-8"))


def fill(name: str, language: Language, /, **values: str) -> str:
    """Return the template with its names filled in.

    Raises:
        KeyError: For a missing or a superfluous name.
    """
    template = _template(language, name)
    superfluous = set(values) - set(template.get_identifiers())
    if superfluous:
        raise KeyError(f"template {language}/{name}.txt has no {', '.join(sorted(superfluous))}")
    return template.substitute(values).strip()


@cache
def phrases() -> tuple[str, ...]:
    """Return the sentences of all our templates, without what is filled in."""
    texts = [_template(language, name).template for language in get_args(Language) for name in _NAMES]
    parts = [part.strip() for text in texts for part in _BREAK.split(text)]
    return tuple(dict.fromkeys(filter(None, parts)))
