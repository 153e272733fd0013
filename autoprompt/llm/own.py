"""A client of one's own: what goes wrong inside it is the failure of one row, in our words."""

from __future__ import annotations

from collections.abc import Sequence

from autoprompt.errors import AutopromptError, ConfigError
from autoprompt.llm.client import Client, Completion, Options
from autoprompt.llm.failures import OwnClientError
from autoprompt.types import Message, Usage


class OwnClient:
    """The door between a user's client and ours.

    What it raises becomes an OwnClientError, but for errors of ours, which it may raise on purpose.
    The client stays its owner's: `close()` does not close it. Raises ConfigError for what is no client.
    """

    def __init__(self, inner: Client) -> None:
        if isinstance(inner, type):
            raise ConfigError(
                f"{inner.__name__} is a class, so it is no client: give an object, {inner.__name__}(...)"
            )
        if missing := [name for name in ("name", "complete") if not hasattr(inner, name)]:
            raise ConfigError(
                f"{inner!r:.80} has no {' and no '.join(missing)}, so it is no client: expected an attribute "
                "`name` and a method `complete(messages, options) -> autoprompt.Completion`"
            )
        self._inner = inner

    @property
    def name(self) -> str:
        return self._inner.name

    def complete(self, messages: Sequence[Message], options: Options = Options()) -> Completion:
        try:
            answer: object = self._inner.complete(messages, options)
        except AutopromptError:
            raise
        except Exception as error:
            raise OwnClientError(f"client {self.name} raised {type(error).__name__}: {error}") from error
        if not isinstance(answer, Completion) or not isinstance(answer.text, str):
            raise OwnClientError(
                f"client {self.name} returned {answer!r:.200}; expected an autoprompt.Completion with a text"
            )
        if not isinstance(answer.usage, Usage):
            raise OwnClientError(
                f"client {self.name} returned a usage of {answer.usage!r:.200}; expected an autoprompt.Usage"
            )
        return answer

    def close(self) -> None:
        """Nothing is held."""
