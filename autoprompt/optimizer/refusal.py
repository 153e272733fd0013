"""What is refused before any call: proposals that lose, copy, repeat or bloat."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from autoprompt.optimizer.context import SearchContext, prompt_tokens
from autoprompt.program import placeholders
from autoprompt.types import Candidate

COPIED_WORDS = 8  # a run of so many words taken from a train row: the writer copied instead of describing


class Refused(Exception):
    """A proposal that is not worth a call; the message says why."""


def check_candidate(context: SearchContext, candidate: Candidate, proposals: Sequence[Candidate]) -> None:
    settings = context.settings
    if candidate.id in context.pool or any(candidate.id == p.id for p in proposals):
        raise Refused("it was tried before")
    tokens = prompt_tokens(candidate)
    if tokens > settings.max_prompt_tokens:
        raise Refused(
            f"about {tokens} tokens, {settings.max_prompt_tokens} are allowed (--max-prompt-tokens)"
        )


def kept_passages(context: SearchContext, original: str) -> list[str]:
    """What every rewrite must keep word for word: locked passages and placeholders."""
    return [*context.settings.locked, *_braced(context, original)]


def check_text(context: SearchContext, original: str, before: str, text: str) -> None:
    """Refuse a rewrite of `before` that is empty, loses what must be kept, asks for more, or copies rows."""
    if not text:
        raise Refused("the writer's answer holds no prompt")
    lost = [k for k in kept_passages(context, original) if k in before and k not in text]
    if lost:
        raise Refused(f"it loses {', '.join(lost)}")
    known = placeholders(original, tuple(_fields(context)))
    asked = [n for n in placeholders(text, tuple(_fields(context))) if n not in known]
    # Demonstrations hold the input alone, and the target is never filled in.
    asked = [n for n in asked if n != context.settings.input_field]
    if asked:
        raise Refused(f"it asks for {{{asked[0]}}}, which the original does not")
    _refuse_copies(context, before, text)


def _braced(context: SearchContext, text: str) -> list[str]:
    """The placeholders as they stand in a prompt: `{field}` of rows, `{{#node.variable#}}` of workflows."""
    names = placeholders(text, tuple(_fields(context)))
    return ["{" + name + "}" for name in names] + re.findall(r"\{\{#[^{}]+#\}\}", text)


def _fields(context: SearchContext) -> Mapping[str, str]:
    return (context.splits.train or context.splits.val)[0].fields


def _refuse_copies(context: SearchContext, before: str, text: str) -> None:
    """Refuse a text that quotes train rows: what it gains on their like it does not gain on others."""
    words = _words(text)
    runs = {tuple(words[i : i + COPIED_WORDS]) for i in range(len(words) - COPIED_WORDS + 1)}
    known = _words(before)
    runs -= {tuple(known[i : i + COPIED_WORDS]) for i in range(len(known) - COPIED_WORDS + 1)}
    if not runs:
        return
    for row in context.splits.train:
        row_words = _words(row.input)
        for i in range(len(row_words) - COPIED_WORDS + 1):
            if tuple(row_words[i : i + COPIED_WORDS]) in runs:
                raise Refused("it copies a row of train: " + " ".join(row_words[i : i + COPIED_WORDS]))


def _words(text: str) -> list[str]:
    """Words, and single characters of scripts that do not part them."""
    return re.findall(r"[\u3040-\u30ff\u3400-\u9fff]|[^\W\u3040-\u30ff\u3400-\u9fff]+", text.casefold())
