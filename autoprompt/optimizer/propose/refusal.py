"""What is refused before any call: proposals that lose, copy, repeat or bloat."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from autoprompt.errors import InputError
from autoprompt.llm.transport.failures import is_overflow
from autoprompt.measure.cost import longest_prompt
from autoprompt.measure.program import placeholders
from autoprompt.optimizer.agents.rows import layout_phrases
from autoprompt.optimizer.agents.writer import WORDING
from autoprompt.optimizer.context import SearchContext, is_slower
from autoprompt.optimizer.search.phrases import weight_of, word_runs, words
from autoprompt.optimizer.search.pool import Entry
from autoprompt.records import Candidate
from autoprompt.text.answers.reasoning import requests_in
from autoprompt.text.names import counted
from autoprompt.text.placeholders import broken_marks, kept_texts
from autoprompt.text.scripts import UNPARTED
from autoprompt.text.templates import phrases

MOST_TOO_LONG = 0.1  # of a candidate's requests: a few rows may be longer than any set leaves room for
ECHOED = 8  # the weight from which a whole sentence of ours counts
_SELECTOR = re.compile(r"\{\{#[^{}]+#\}\}")
_HALF_OF_PAIR = re.compile(r"[\ud800-\udfff]")  # a model may write one; no file and no export can hold it


class Refused(Exception):
    """A proposal that is not worth a call; the message says why."""


class RefusedOnce(Refused):
    """A draft that its writer can put right once it hears the reason."""


def check_candidate(context: SearchContext, candidate: Candidate, proposals: Sequence[Candidate]) -> None:
    settings = context.settings
    if candidate.id in context.pool or any(candidate.id == p.id for p in proposals):
        raise Refused("it was tried before")
    shown = (text for demo in candidate.demos for text in (demo.shown, demo.output))
    if any(map(_HALF_OF_PAIR.search, (*candidate.components.values(), *shown))):
        raise Refused("it contains half of a surrogate pair, which is not a character")
    tokens = longest_prompt(candidate, settings.input_field)
    if tokens > settings.max_prompt_tokens:
        raise Refused(
            f"it has about {counted(tokens, 'token')}, more than "
            f"max_prompt_tokens={settings.max_prompt_tokens}"
        )
    check_writable(context, candidate)
    refused = shortest_refused(context, context.pool.entries)
    if refused is not None and tokens >= longest_prompt(refused.candidate, settings.input_field):
        raise Refused(
            f"it has about {counted(tokens, 'token')}, and the endpoint rejected every request of "
            f"{refused.candidate.id[:6]}"
        )


def check_writable(context: SearchContext, candidate: Candidate) -> None:
    """Refuse a candidate that the program or the file of the original could not hold."""
    try:
        context.check_writable(candidate)
    except InputError as error:
        raise RefusedOnce(f"it cannot be written to the file: {error}") from error


def shortest_refused(context: SearchContext, entries: Iterable[Entry]) -> Entry | None:
    """Of the candidates that the endpoint took no request of, as far as that can be for their length."""
    field = context.settings.input_field
    refused = [entry for entry in entries if entry.is_refused and is_too_long(context, entry)]
    return min(refused, key=lambda entry: longest_prompt(entry.candidate, field), default=None)


def is_too_long(context: SearchContext, entry: Entry) -> bool:
    """Whether the endpoint takes too few of a candidate's requests, as far as that can be for their length.

    That is all of them, or a tenth if it says that they are too long.
    """
    if entry.is_refused:
        # One that reasons asks for longer answers, too.
        return context.grown(entry.candidate) > 0 and not is_slower(entry, context.pool.original)
    too_long = sum(map(is_overflow, entry.refusals.values()))
    return too_long > MOST_TOO_LONG * len(entry.scores)


def kept_passages(context: SearchContext, *texts: str) -> list[str]:
    """Return what every rewrite of `texts` must keep word for word: locked passages, placeholders, the
    words that have the model reason."""
    own = [mark for text in texts for mark in constant_until(context, text)]
    if not context.settings.answers_rows:  # a program fills its texts in by itself
        own += [mark for text in texts for mark in kept_texts(text)]
    return list(dict.fromkeys([*context.settings.locked, *own]))


def constant_until(context: SearchContext, text: str) -> list[str]:
    """Return the passages of `text` that instructions stand before.

    Placeholders, and what has the model reason.
    """
    return [*_braced(context, text), *requests_in(text)]


def check_text(
    context: SearchContext, original: str, before: str, text: str, *, is_addition: bool = False
) -> None:
    """Refuse a rewrite of `before` that is empty, loses what must be kept, asks for more, or copies rows.

    is_addition: `text` is `before` with lines added, which are no place for the row.
    """
    if not text:
        raise RefusedOnce("the answer contains no prompt")
    if "".join(text.split()) == "".join(before.split()):
        raise RefusedOnce("it says the same as the prompt")
    lost = [k for k in kept_passages(context, original, before) if k in before and k not in text]
    if lost:
        raise RefusedOnce(f"it loses {', '.join(lost)}")
    if not context.settings.answers_rows and (broken := broken_marks(before, text)):
        raise RefusedOnce(f"it {broken}")
    known = placeholders(original, context.fields)
    asked = [n for n in placeholders(text, context.fields) if n not in known]
    # Demonstrations hold what the original asks for, and the target is never filled in. Where it asks for
    # other fields, they may be the input, and rows to be answered have none of that name. A conversation
    # that follows the prompt must not become a text in it.
    may_ask = "" if known or context.turns else context.settings.input_field
    asked = ["{" + n + "}" for n in asked if n != may_ask or (is_addition and "{" + n + "}" not in before)]
    # A step of a workflow knows no variable that its author did not give it.
    asked += [mark for mark in _SELECTOR.findall(text) if mark not in original]
    if asked:
        raise RefusedOnce(f"it asks for {asked[0]}, which the original does not use")
    _refuse_repeats(context, original, before, text)
    _refuse_copies(context, original, before, text)


def _refuse_repeats(context: SearchContext, original: str, before: str, text: str) -> None:
    """Refuse a text that asks for something oftener than both texts that it was made from.

    Each row would be sent twice, and what stands before the first place is all that is the system's part.
    """
    for mark in _braced(context, text):
        times = text.count(mark)
        if times > max(1, original.count(mark), before.count(mark)):
            raise RefusedOnce(f"it asks for {mark} {'twice' if times == 2 else f'{times} times'}")


def _braced(context: SearchContext, text: str) -> list[str]:
    """Return the placeholders as a prompt writes them: `{field}`, and in workflows `{{#node.variable#}}`."""
    names = placeholders(text, context.fields)
    return [*("{" + name + "}" for name in names), *dict.fromkeys(_SELECTOR.findall(text))]


def _refuse_copies(context: SearchContext, original: str, before: str, text: str) -> None:
    """Refuse a text that repeats our own request, or copies a row of train whole.

    A prompt may have phrases of rows: rows that its author was shown never count as evidence for it.
    """
    said = words(text)
    known = {run for t in (before, original) for run in word_runs(words(t))}
    new = dict.fromkeys(run for run in word_runs(said) if run not in known)
    texts = [f" {' '.join(words(t))} " for t in (before, original)]
    whole = f" {' '.join(said)} "
    for phrase in (
        *phrases(),
        *layout_phrases(),
        *(p for wording in WORDING.values() for p in wording.values()),
    ):
        parts = words(phrase)
        joined = f" {' '.join(parts)} "
        is_echo = sum(map(weight_of, parts)) >= ECHOED and joined in whole
        if (is_echo and not any(joined in t for t in texts)) or any(run in new for run in word_runs(parts)):
            raise RefusedOnce("it repeats the instructions to the writer")
    copied = context.copies.first(said)
    if copied is not None and not any(f" {' '.join(copied)} " in t for t in texts):
        raise RefusedOnce("it copies a train row: " + _readable(copied))


def _readable(run: Sequence[str]) -> str:
    return re.sub(rf"(?<=[{UNPARTED}]) (?=[{UNPARTED}])", "", " ".join(run))
