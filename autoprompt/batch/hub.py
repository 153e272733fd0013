"""What the trials of a cluster share, in one process that all of them can ask: budget, rate, answers."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from autoprompt.errors import BudgetExhausted, Interrupted
from autoprompt.llm.client import Completion
from autoprompt.llm.kept.cache import ResponseCache, from_record, to_record
from autoprompt.llm.limits.amounts import Amount
from autoprompt.llm.limits.demand import Demand
from autoprompt.llm.limits.ledger import Caps, FileLedger, Ticket

_MOST_EVENTS = 10_000  # of a driver that does not listen; older ones are for a view only


@dataclass(frozen=True, slots=True)
class SharedFolder:
    """Where the driver works. token: a file of the batch's folder, there exactly if the storage is shared."""

    token: Path
    cwd: Path

    def enter(self) -> bool:
        """Return whether this process sees the batch's folder.

        If so, it finds the trials' paths from here on.
        """
        if not self.token.exists():
            return False
        with suppress(OSError):
            os.chdir(self.cwd)
        return True


class Hub:
    """An actor. Errors come back as values: what is pickled of an exception is not what it was.

    ledger_path: the batch's, used where this machine sees it; else a file of its own, which
    begins with what was spent so far. spent: trial -> calls, tokens, USD.
    """

    def __init__(
        self,
        ledger_path: str,
        place: SharedFolder,
        caps: tuple[Any, ...],
        spent: Mapping[str, tuple[int, int, float]],
    ) -> None:
        self._sees_folder = place.enter()
        path = Path(ledger_path)
        self._own_folder = None if self._sees_folder else Path(tempfile.mkdtemp(prefix="autoprompt-hub-"))
        if self._own_folder is not None:
            path = self._own_folder / path.name
        self._ledger = FileLedger(path, Caps(*caps))
        if not self._sees_folder:
            self._ledger.write_spent({trial: Amount(*amounts) for trial, amounts in spent.items()})
        self._caches: dict[str | None, ResponseCache] = {}
        self._events: deque[tuple[str, dict[str, Any]]] = deque(maxlen=_MOST_EVENTS)

    def sees_folder(self) -> bool:
        return self._sees_folder

    def ask(self, method: str, arguments: tuple[Any, ...], named: Mapping[str, Any]) -> tuple[Any, ...]:
        """Call a method of the ledger.

        Returns:
            ("ok", value), ("exhausted", cap, message) or ("interrupted", message).
        """
        try:
            return "ok", getattr(self._ledger, method)(*arguments, **named)
        except BudgetExhausted as error:
            return "exhausted", error.cap, str(error)
        except Interrupted as error:
            return "interrupted", str(error)

    def spent(self) -> dict[str, tuple[int, int, float]]:
        return {trial: (a.calls, a.tokens, a.cost_usd) for trial, a in self._ledger.spent().items()}

    def close(self) -> None:
        """Take away the ledger of its own, if it has one: killing an actor runs no clean-up."""
        if self._own_folder is not None:
            self._ledger.close()
            shutil.rmtree(self._own_folder, ignore_errors=True)

    def get_answer(self, directory: str | None, key: str) -> str | None:
        found = self._cache(directory).get(key)
        return None if found is None else json.dumps(to_record(found))

    def put_answer(self, directory: str | None, key: str, record: str) -> None:
        self._cache(directory).put(key, from_record(json.loads(record)))

    def forget_answer(self, directory: str | None, key: str) -> None:
        self._cache(directory).forget(key)

    def add_event(self, trial: str, event: dict[str, Any]) -> None:
        self._events.append((trial, event))

    def take_events(self) -> list[tuple[str, dict[str, Any]]]:
        taken = list(self._events)
        self._events.clear()
        return taken

    def _cache(self, directory: str | None) -> ResponseCache:
        if directory not in self._caches:
            self._caches[directory] = ResponseCache(None if directory is None else Path(directory))
        return self._caches[directory]


class HubLedger:
    """The `Ledger` of the hub. get: waits for the answer of a call to the actor, `ray.get`."""

    def __init__(self, hub: Any, get: Callable[[Any], Any]) -> None:
        self._hub, self._get = hub, get

    def admit(self, trial: str, least: Amount = Amount()) -> Ticket | None:
        return self._ask("admit", trial, least)  # type: ignore[no-any-return]

    def release(self, trial: str) -> None:
        self._ask("release", trial)

    def begin(self, waiting: set[str]) -> None:
        self._ask("begin", waiting)

    def spent(self) -> dict[str, Amount]:
        return self._ask("spent")  # type: ignore[no-any-return]

    def set_aside(self, ticket: Ticket, held: Amount, blocks: Amount) -> None:
        self._ask("set_aside", ticket, held, blocks)

    def charge(self, ticket: Ticket, *, from_block: bool, demand: Demand) -> int | None:
        return self._ask("charge", ticket, from_block=from_block, demand=demand)  # type: ignore[no-any-return]

    def settle(
        self, ticket: Ticket, *, likely: Amount, most: Amount, used: Amount, sent: bool, from_block: bool
    ) -> None:
        named = {"likely": likely, "most": most, "used": used, "sent": sent, "from_block": from_block}
        self._ask("settle", ticket, **named)

    def calls_left(self, ticket: Ticket) -> int | None:
        return self._ask("calls_left", ticket)  # type: ignore[no-any-return]

    def claim(self, ticket: Ticket, key: str) -> bool:
        return self._ask("claim", ticket, key)  # type: ignore[no-any-return]

    def unclaim(self, ticket: Ticket, key: str) -> None:
        self._ask("unclaim", ticket, key)

    def enter(self, endpoint: str, tokens: int, rpm: int | None, tpm: int | None) -> tuple[float, int | None]:
        return self._ask("enter", endpoint, tokens, rpm, tpm)  # type: ignore[no-any-return]

    def answered(self, number: int, tokens: int) -> None:
        self._ask("answered", number, tokens)

    def _ask(self, method: str, *arguments: Any, **named: Any) -> Any:
        answer = self._get(self._hub.ask.remote(method, arguments, named))
        match answer:
            case ("ok", value):
                return value
            case ("exhausted", cap, message):
                raise BudgetExhausted(cap, message)
            case (_, message):
                raise Interrupted(message)


class HubCache:
    """The response cache behind the hub, for workers that have none in common. directory: the setting."""

    def __init__(self, hub: Any, get: Callable[[Any], Any], directory: str | None) -> None:
        self._hub, self._get, self._directory = hub, get, directory

    def get(self, key: str) -> Completion | None:
        record = self._get(self._hub.get_answer.remote(self._directory, key))
        if record is None:
            return None
        return replace(from_record(json.loads(record)), source="cache")

    def put(self, key: str, completion: Completion) -> None:
        """Wait: a claim on the question is given back only when the answer is there for others."""
        self._get(self._hub.put_answer.remote(self._directory, key, json.dumps(to_record(completion))))

    def forget(self, key: str) -> None:
        self._get(self._hub.forget_answer.remote(self._directory, key))

    def close(self) -> None:
        """Nothing is held."""
