"""The prompts that we send ourselves, as files: `<language>/<name>.txt`, with `$name` to fill in."""

from __future__ import annotations

import re
from functools import cache
from importlib.resources import files
from string import Template
from typing import Literal

Language = Literal["en", "zh"]

_CJK = re.compile(r"[\u3400-\u9fff\uf900-\ufaff]")


def language_of(text: str) -> Language:
    """The template language for a prompt: Chinese where a fifth of its letters are, else English.

    The English templates ask the model to keep to the prompt's own language, whichever it is.
    """
    letters = [c for c in text if c.isalpha()]
    return "zh" if letters and len(_CJK.findall(text)) >= len(letters) / 5 else "en"


@cache
def _template(language: Language, name: str) -> Template:
    return Template(files(__name__).joinpath(language, f"{name}.txt").read_text(encoding="utf-8"))


def fill(name: str, language: Language, /, **values: str) -> str:
    """The template with its names filled in. Raises KeyError for a missing or a superfluous name."""
    template = _template(language, name)
    superfluous = set(values) - set(template.get_identifiers())
    if superfluous:
        raise KeyError(f"template {language}/{name}.txt has no {', '.join(sorted(superfluous))}")
    return template.substitute(values).strip()
