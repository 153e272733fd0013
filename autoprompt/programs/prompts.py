"""Prompts that a program declares: read at each call, so that a run can put other texts in their place."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from string import Formatter
from typing import Any

from autoprompt.errors import ConfigError, Place, Problem
from autoprompt.programs.places import place_of_call
from autoprompt.programs.prompt_files import read_prompts
from autoprompt.programs.winner import winner

_active: ContextVar[Mapping[str, str] | None] = ContextVar("autoprompt_prompt_texts", default=None)
_used: ContextVar[list[tuple[str, str]] | None] = ContextVar("autoprompt_prompt_uses", default=None)
_declared: dict[str, Prompt] = {}


class Prompt:
    """A text of a program that may be optimized.

    Read it when you send it: `str(prompt)`, `prompt.text`, `prompt.format(topic=...)`. A text that is read
    once and kept never changes.

    Args:
        name: Of the component, unique in the program.
        original: The text as the program has it.

    Examples:
        >>> from autoprompt import Prompt
        >>> classify = Prompt("classify", "Answer billing or tech.")
        >>> str(classify)
        'Answer billing or tech.'
    """

    def __init__(self, name: str, original: str) -> None:
        if not isinstance(name, str) or not name.strip() or not isinstance(original, str):
            said = f"Prompt({name!r:.40}, {original!r:.40}): expected a name and a text"
            raise ConfigError(Problem("program.prompt", said))
        other = _declared.get(name)
        if other is not None and other.original != original:
            said = f"two prompts with different texts have the name {name!r}"
            raise ConfigError(Problem("program.prompt", said, fix="Give each its own name."))
        self.name: str = name
        self.original: str = original
        self.place: Place = place_of_call()
        self.file: Path | None = None  # that `load` has read it from
        self.read_at: Place | None = None  # by code that runs no row, as a module does when it is imported
        _declared[name] = self

    @classmethod
    def load(cls, path: str | Path) -> dict[str, Prompt]:
        """Declare the prompts of a YAML or JSON file, by name; `router.system` is `system` below `router`.

        Args:
            path: Of the file; `autoprompt runs apply --write` puts better texts into it.

        Raises:
            ConfigError: The file cannot be read or holds no text. The problem has the line.
        """
        file = Path(path).absolute()
        loaded: dict[str, Prompt] = {}
        for name, found in read_prompts(file).items():
            prompt = loaded[name] = cls(name, found.text)
            prompt.place, prompt.file = Place(file, found.line), file
        return loaded

    @property
    def text(self) -> str:
        """The text that holds now: a candidate's, or the original."""
        return self._noted(self._now())

    def format(self, *values: Any, **named: Any) -> str:
        """Return the text with its `{holes}` filled in, as `str.format` does."""
        return self._noted(self._now().format(*values, **named))

    def _now(self) -> str:
        texts = _active.get()
        if texts is None and (chosen := winner()) is not None:
            texts = chosen.texts
        found = (texts or {}).get(self.name)
        return self.original if found is None else found

    def _noted(self, filled: str) -> str:
        uses = _used.get()
        if uses is None:
            self.read_at = place_of_call()
        elif (self.name, filled) not in uses:
            uses.append((self.name, filled))
        return filled

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return f"Prompt({self.name!r}, {self.original[:60]!r})"


def unformattable(original: str, text: str) -> str:
    """Return why `str.format` fails for a text and not for the original; "" if it does not.

    An original without holes may never be formatted.
    """
    try:
        known = {name for _, name, _, _ in Formatter().parse(original) if name is not None}
    except ValueError:
        return ""
    if not known:
        return ""
    try:
        names = [name for _, name, _, _ in Formatter().parse(text) if name is not None]
    except ValueError as error:
        return f"cannot be formatted: {error}"
    new = next((name for name in names if name not in known), None)
    return "" if new is None else f"adds {{{new}}}"


def declared() -> dict[str, Prompt]:
    """Return the prompts that were declared so far, by name."""
    return dict(_declared)


def prompt_files() -> list[Path]:
    """Return the files that declared prompts were read from."""
    return list(dict.fromkeys(prompt.file for prompt in _declared.values() if prompt.file is not None))


@contextmanager
def active(texts: Mapping[str, str]) -> Iterator[list[tuple[str, str]]]:
    """Put texts in the place of declared prompts in this context, and note which are read.

    Yields:
        (name, text as it was read) of each, in order; filled while the block runs.
    """
    uses: list[tuple[str, str]] = []
    first, second = _active.set({**(_active.get() or {}), **texts}), _used.set(uses)
    try:
        yield uses
    finally:
        _active.reset(first)
        _used.reset(second)
