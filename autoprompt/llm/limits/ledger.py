"""One budget, one rate and one queue of questions for many processes, in one SQLite file.

Every request is written down before it is sent, so the caps hold for all trials together and `kill -9` of any
process loses nothing: what a dead trial had set aside and not sent goes back, what it had on the wire counts.
"""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from autoprompt.errors import BudgetExhausted, Interrupted, Place, Problem, StoreError
from autoprompt.llm.client import AnswerCache
from autoprompt.llm.limits.amounts import Amount
from autoprompt.llm.limits.demand import Demand, Left
from autoprompt.text.files import check_file
from autoprompt.text.machine import explained

_BUSY_TIMEOUT_S = 60.0
_WINDOW_S = 60.0
_TINY_USD = 1e-9  # sums of prices that should be equal differ by less
_LOOK_AGAIN_S = 0.5


@dataclass(frozen=True, slots=True)
class Caps:
    """What all trials may use together; None: no cap."""

    max_calls: int | None = None
    max_tokens: int | None = None
    max_cost: float | None = None


@dataclass(frozen=True, slots=True)
class Ticket:
    """Who asks: one attempt at one trial. An attempt that another has followed is refused everything."""

    trial: str
    attempt: int


class Ledger(Protocol):
    """The books of a batch. Safe for several threads and processes.

    Tokens and cost are known only afterwards: a request is entered with an estimate, and set right then.
    """

    def admit(self, trial: str, least: Amount = Amount()) -> Ticket | None:
        """Begin a new attempt, with so much kept for all of the trial's; None where so much is not left.

        What an earlier attempt had on the wire is spent, what its blocks had set aside is free again.
        """
        ...

    def release(self, trial: str) -> None:
        """Free everything that the trial had set aside: it has ended."""
        ...

    def set_aside(self, ticket: Ticket, held: Amount, blocks: Amount) -> None:
        """Keep this for the holder, in place of what it had. Raises BudgetExhausted; then nothing changes."""
        ...

    def charge(self, ticket: Ticket, *, from_block: bool, demand: Demand) -> int | None:
        """Enter one request that is about to be sent; the most tokens that its answer may have.

        None: it has to wait until others have ended. Raises BudgetExhausted; then it must not be sent.
        """
        ...

    def settle(
        self, ticket: Ticket, *, likely: Amount, most: Amount, used: Amount, sent: bool, from_block: bool
    ) -> None:
        """Settle a request that has ended. sent: False if there was no connection; then it was free.

        likely, most: as it was entered.
        """
        ...

    def calls_left(self, ticket: Ticket) -> int | None:
        """Return the calls that the holder could still set aside. None: no limit."""
        ...

    def claim(self, ticket: Ticket, key: str) -> bool:
        """Return whether the holder may send this question.

        False while another trial waits for its answer.
        """
        ...

    def unclaim(self, ticket: Ticket, key: str) -> None: ...

    def enter(self, endpoint: str, tokens: int, rpm: int | None, tpm: int | None) -> tuple[float, int | None]:
        """Seconds to wait before asking again, or 0.0 and the number of this request in the last minute."""
        ...

    def answered(self, number: int, tokens: int) -> None:
        """Note how many tokens the request with this number took."""
        ...


@dataclass(frozen=True, slots=True)
class Account:
    """What a trial is given to spend from.

    seconds_left: of the batch's cap on time when the trial began; None: no cap.
    open_cache: the cache that all trials share; None for the one of this machine.

    A trial with an account counts an answer out of the shared cache as if it had sent the request: what it
    finds must not depend on which of its neighbours came first. What was sent in truth is in the ledger.
    """

    ledger: Ledger
    ticket: Ticket
    seconds_left: float | None = None
    open_cache: Callable[[], AnswerCache] | None = None


class Books(Ledger, Protocol):
    """A ledger as the driver of a batch sees it."""

    def spent(self) -> dict[str, Amount]:
        """Return what was sent for each trial, in all its attempts."""
        ...


_SCHEMA = (
    "CREATE TABLE IF NOT EXISTS accounts (trial TEXT PRIMARY KEY, attempt INTEGER NOT NULL DEFAULT 0,"
    " sent INTEGER NOT NULL DEFAULT 0, tokens INTEGER NOT NULL DEFAULT 0, cost REAL NOT NULL DEFAULT 0,"
    # What `admit` keeps, as counts of `sent`, `tokens` and `cost`: it shrinks as they grow.
    " floor INTEGER NOT NULL DEFAULT 0, floor_tokens INTEGER NOT NULL DEFAULT 0,"
    " floor_cost REAL NOT NULL DEFAULT 0,"
    " held_calls INTEGER NOT NULL DEFAULT 0, held_tokens INTEGER NOT NULL DEFAULT 0,"
    " held_cost REAL NOT NULL DEFAULT 0, block_calls INTEGER NOT NULL DEFAULT 0,"
    " block_tokens INTEGER NOT NULL DEFAULT 0, block_cost REAL NOT NULL DEFAULT 0,"
    # Requests on their way, and what they will take: about, and at most.
    " wire_calls INTEGER NOT NULL DEFAULT 0,"
    " wire_tokens INTEGER NOT NULL DEFAULT 0, wire_cost REAL NOT NULL DEFAULT 0,"
    " most_tokens INTEGER NOT NULL DEFAULT 0, most_cost REAL NOT NULL DEFAULT 0)",
    "CREATE TABLE IF NOT EXISTS claims (key TEXT PRIMARY KEY, trial TEXT NOT NULL) WITHOUT ROWID",
    "CREATE TABLE IF NOT EXISTS sends (number INTEGER PRIMARY KEY AUTOINCREMENT, endpoint TEXT NOT NULL,"
    " at REAL NOT NULL, tokens INTEGER NOT NULL, is_open INTEGER NOT NULL DEFAULT 1)",
    "CREATE INDEX IF NOT EXISTS by_time ON sends (endpoint, at)",
    "CREATE INDEX IF NOT EXISTS by_age ON sends (at)",
    # What `sends` adds up to: kept, as a sum for each request would take as long as a minute has requests.
    "CREATE TABLE IF NOT EXISTS sums (endpoint TEXT PRIMARY KEY, requests INTEGER NOT NULL,"
    " tokens INTEGER NOT NULL, open INTEGER NOT NULL) WITHOUT ROWID",
    "CREATE TRIGGER IF NOT EXISTS sent AFTER INSERT ON sends BEGIN"
    " INSERT INTO sums VALUES (new.endpoint, 1, new.tokens, new.is_open) ON CONFLICT (endpoint) DO UPDATE"
    " SET requests = requests + 1, tokens = tokens + new.tokens, open = open + new.is_open; END",
    "CREATE TRIGGER IF NOT EXISTS answered AFTER UPDATE OF tokens, is_open ON sends BEGIN"
    " UPDATE sums SET tokens = tokens + new.tokens - old.tokens, open = open + new.is_open - old.is_open"
    " WHERE endpoint = new.endpoint; END",
    "CREATE TRIGGER IF NOT EXISTS forgotten AFTER DELETE ON sends BEGIN"
    " UPDATE sums SET requests = requests - 1, tokens = tokens - old.tokens, open = open - old.is_open"
    " WHERE endpoint = old.endpoint; END",
)
_CALLS = "sent + max(held_calls + block_calls, floor - sent, 0)"
_TOKENS = "tokens + max(held_tokens + max(block_tokens, wire_tokens), floor_tokens - tokens, 0)"
_COST = "cost + max(held_cost + max(block_cost, wire_cost), floor_cost - cost, 0)"
# The same where those on their way take as much as they may.
_MOST_TOKENS = "tokens + max(held_tokens + max(block_tokens, most_tokens), floor_tokens - tokens, 0)"
_MOST_COST = "cost + max(held_cost + max(block_cost, most_cost), floor_cost - cost, 0)"
_BURY = (
    "UPDATE accounts SET tokens = tokens + wire_tokens, cost = cost + wire_cost, wire_calls = 0,"
    " wire_tokens = 0, wire_cost = 0, most_tokens = 0, most_cost = 0, block_calls = 0, block_tokens = 0,"
    " block_cost = 0, floor = 0, floor_tokens = 0, floor_cost = 0"
)


class FileLedger:
    """The `Ledger` in a file, for the processes of one machine. clock: wall time, which they share."""

    def __init__(self, path: Path, caps: Caps = Caps(), *, clock: Callable[[], float] = time.time) -> None:
        self.path, self.caps, self._clock = path, caps, clock
        self._lock = threading.Lock()
        path.parent.mkdir(parents=True, exist_ok=True)
        check_file(path)
        try:
            self._database = sqlite3.connect(
                path, timeout=_BUSY_TIMEOUT_S, isolation_level=None, check_same_thread=False
            )
            self._database.execute("PRAGMA journal_mode = WAL")
            # A killed process loses nothing with this; a power cut at most the last entries.
            self._database.execute("PRAGMA synchronous = NORMAL")
            with self._writing():
                for statement in _SCHEMA:
                    self._database.execute(statement)
        except sqlite3.DatabaseError as error:
            if (refused := explained(error, path)) is not None:
                raise refused from error
            said = f"this is not the ledger of a batch, or it is damaged ({error})"
            fix = "Move the file away. The batch then counts from zero again."
            raise StoreError(Problem("batch.broken-ledger", said, Place(path), fix)) from error

    def begin(self, waiting: set[str]) -> None:
        """Begin as the only driver at work. Trials that are not `waiting` hold nothing from then on."""
        with self._writing() as run:
            run(_BURY)
            run("DELETE FROM claims")
            run("DELETE FROM sends WHERE at < ?", (self._clock() - _WINDOW_S,))
            for (trial,) in run("SELECT trial FROM accounts").fetchall():
                if trial not in waiting:
                    run(
                        "UPDATE accounts SET held_calls = 0, held_tokens = 0, held_cost = 0 WHERE trial = ?",
                        (trial,),
                    )

    def admit(self, trial: str, least: Amount = Amount()) -> Ticket | None:
        with self._writing() as run:
            run("INSERT OR IGNORE INTO accounts (trial) VALUES (?)", (trial,))
            run(f"{_BURY} WHERE trial = ?", (trial,))
            run("DELETE FROM claims WHERE trial = ?", (trial,))
            run("UPDATE accounts SET attempt = attempt + 1 WHERE trial = ?", (trial,))
            (attempt,) = run("SELECT attempt FROM accounts WHERE trial = ?", (trial,)).fetchone()
            keep = "UPDATE accounts SET floor = ?, floor_tokens = ?, floor_cost = ? WHERE trial = ?"
            run(keep, (least.calls, least.tokens, least.cost_usd, trial))
            if self._passed() is None:
                return Ticket(trial, attempt)
            run(keep, (0, 0, 0.0, trial))
            return None

    def release(self, trial: str) -> None:
        with self._writing() as run:
            run(f"{_BURY}, held_calls = 0, held_tokens = 0, held_cost = 0 WHERE trial = ?", (trial,))
            run("DELETE FROM claims WHERE trial = ?", (trial,))
            run("UPDATE accounts SET attempt = attempt + 1 WHERE trial = ?", (trial,))

    def set_aside(self, ticket: Ticket, held: Amount, blocks: Amount) -> None:
        values = (held.calls, held.tokens, held.cost_usd, blocks.calls, blocks.tokens, blocks.cost_usd)
        with self._writing() as run:
            kept = "held_calls + block_calls, held_tokens + block_tokens, held_cost + block_cost"
            before = self._checked(ticket, kept)
            run(
                "UPDATE accounts SET held_calls = ?, held_tokens = ?, held_cost = ?, block_calls = ?,"
                " block_tokens = ?, block_cost = ? WHERE trial = ?",
                (*values, ticket.trial),
            )
            after = (values[0] + values[3], values[1] + values[4], values[2] + values[5])
            if any(new > old for new, old in zip(after, before, strict=True)):
                self._refuse_if_passed()

    def charge(self, ticket: Ticket, *, from_block: bool, demand: Demand) -> int | None:
        with self._writing() as run:
            limit = demand.within(*self._left_of_caps(ticket))
            if limit is None:
                return None
            most = demand.most(limit)
            run(
                "UPDATE accounts SET sent = sent + 1, block_calls = max(0, block_calls - ?),"
                " wire_calls = wire_calls + 1, wire_tokens = wire_tokens + ?, wire_cost = wire_cost + ?,"
                " most_tokens = most_tokens + ?, most_cost = most_cost + ? WHERE trial = ?",
                (
                    int(from_block),
                    demand.likely.tokens,
                    demand.likely.cost_usd,
                    most.tokens,
                    most.cost_usd,
                    ticket.trial,
                ),
            )
            self._refuse_if_passed({"max_tokens", "max_cost"})
            return limit

    def _left_of_caps(self, ticket: Ticket) -> tuple[Left | None, Left | None]:
        """Return what is left of the caps on tokens and cost for the holder; None: no cap.

        What its blocks have set aside is there for its requests.
        """
        own = self._checked(ticket, "tokens, held_tokens, most_tokens, cost, held_cost, most_cost")
        caps = (
            ("max_tokens", self.caps.max_tokens, _TOKENS, _MOST_TOKENS, own[:3]),
            ("max_cost", self.caps.max_cost, _COST, _MOST_COST, own[3:]),
        )
        tokens, cost = (
            None if limit is None else self._left_of(ticket, cap, limit, about, most, own_amounts)
            for cap, limit, about, most, own_amounts in caps
        )
        return tokens, cost

    def _left_of(
        self, ticket: Ticket, cap: str, limit: float, about: str, most: str, own: tuple[float, ...]
    ) -> Left:
        of_others, at_most, used = self._database.execute(
            f"SELECT coalesce(sum({about}), 0), coalesce(sum({most}), 0),"
            f" coalesce(sum({'tokens' if cap == 'max_tokens' else 'cost'}), 0)"
            " FROM accounts WHERE trial != ?",
            (ticket.trial,),
        ).fetchone()
        spent, held, on_wire = own
        taken, kept = used + spent, held + at_most - used
        return Left(cap, limit, taken, kept, on_wire, may_grow=at_most > of_others + _TINY_USD)

    def settle(
        self, ticket: Ticket, *, likely: Amount, most: Amount, used: Amount, sent: bool, from_block: bool
    ) -> None:
        with self._writing() as run:
            row = run("SELECT attempt FROM accounts WHERE trial = ?", (ticket.trial,)).fetchone()
            if row is None or row[0] != ticket.attempt:
                return  # buried: what was on the wire is counted already
            run(
                "UPDATE accounts SET sent = sent - ?, block_calls = block_calls + ?, tokens = tokens + ?,"
                " cost = cost + ?, wire_calls = wire_calls - 1, wire_tokens = max(0, wire_tokens - ?),"
                # What rounding leaves is nobody's request: who waits for its end would wait for ever.
                " wire_cost = CASE WHEN wire_calls > 1 THEN max(0, wire_cost - ?) ELSE 0 END,"
                " most_tokens = max(0, most_tokens - ?),"
                " most_cost = CASE WHEN wire_calls > 1 THEN max(0, most_cost - ?) ELSE 0 END,"
                " block_tokens = max(0, block_tokens - ?), block_cost = max(0, block_cost - ?)"
                " WHERE trial = ?",
                (
                    int(not sent),
                    int(from_block),
                    used.tokens,
                    used.cost_usd,
                    likely.tokens,
                    likely.cost_usd,
                    most.tokens,
                    most.cost_usd,
                    used.tokens,
                    used.cost_usd,
                    ticket.trial,
                ),
            )

    def calls_left(self, ticket: Ticket) -> int | None:
        if self.caps.max_calls is None:
            return None
        with self._lock:
            (taken,) = self._database.execute(f"SELECT coalesce(sum({_CALLS}), 0) FROM accounts").fetchone()
            (own,) = self._database.execute(
                "SELECT max(0, floor - sent - held_calls - block_calls) FROM accounts WHERE trial = ?",
                (ticket.trial,),
            ).fetchone() or (0,)
        return max(0, self.caps.max_calls - int(taken) + int(own))

    def claim(self, ticket: Ticket, key: str) -> bool:
        with self._writing() as run:
            self._checked(ticket, "1")
            run("INSERT OR IGNORE INTO claims VALUES (?, ?)", (key, ticket.trial))
            (holder,) = run("SELECT trial FROM claims WHERE key = ?", (key,)).fetchone()
            return bool(holder == ticket.trial)

    def unclaim(self, ticket: Ticket, key: str) -> None:
        with self._writing() as run:
            run("DELETE FROM claims WHERE key = ? AND trial = ?", (key, ticket.trial))

    def enter(self, endpoint: str, tokens: int, rpm: int | None, tpm: int | None) -> tuple[float, int | None]:
        with self._writing() as run:
            now = self._clock()
            run("DELETE FROM sends WHERE at <= ?", (now - _WINDOW_S,))
            # A clock that was set back: what lies ahead of it was sent just now, and not in an hour.
            run("UPDATE sends SET at = ? WHERE at > ?", (now, now))
            count, used, are_open = run(
                "SELECT requests, tokens, open FROM sums WHERE endpoint = ?", (endpoint,)
            ).fetchone() or (0, 0, 0)
            (first,) = run("SELECT min(at) FROM sends WHERE endpoint = ?", (endpoint,)).fetchone()
            wait_s = first + _WINDOW_S - now + 0.001 if count else 0.0
            if rpm is not None and count >= rpm:
                return wait_s, None
            # A single request above `tpm` goes alone.
            if tpm is not None and count > 0 and used + tokens > tpm:
                # One without an answer counts by an estimate, which may turn out to be too much.
                return min(wait_s, _LOOK_AGAIN_S) if are_open else wait_s, None
            cursor = run("INSERT INTO sends (endpoint, at, tokens) VALUES (?, ?, ?)", (endpoint, now, tokens))
            return 0.0, cursor.lastrowid

    def answered(self, number: int, tokens: int) -> None:
        with self._writing() as run:
            run("UPDATE sends SET tokens = ?, is_open = 0 WHERE number = ?", (tokens, number))

    def spent(self) -> dict[str, Amount]:
        """Return what was sent for each trial, in all its attempts."""
        with self._lock:
            rows = self._database.execute("SELECT trial, sent, tokens, cost FROM accounts").fetchall()
        return {trial: Amount(sent, tokens, cost) for trial, sent, tokens, cost in rows}

    def write_spent(self, spent: Mapping[str, Amount]) -> None:
        """Take over what another ledger has counted, in place of what stands here."""
        with self._writing() as run:
            for trial, amount in spent.items():
                run("INSERT OR IGNORE INTO accounts (trial) VALUES (?)", (trial,))
                values = (amount.calls, amount.tokens, amount.cost_usd, trial)
                run("UPDATE accounts SET sent = ?, tokens = ?, cost = ? WHERE trial = ?", values)

    def close(self) -> None:
        """Safe to call twice."""
        self._database.close()

    @contextmanager
    def _writing(self) -> Iterator[Callable[..., sqlite3.Cursor]]:
        """One transaction: whatever is raised inside, nothing of it stays."""
        with self._lock:
            self._database.execute("BEGIN IMMEDIATE")
            try:
                yield self._database.execute
                self._database.execute("COMMIT")
            except BaseException:
                if self._database.in_transaction:  # of a full disk SQLite has rolled back by itself
                    self._database.execute("ROLLBACK")
                raise

    def _checked(self, ticket: Ticket, columns: str) -> tuple[float, ...]:
        """Return these columns of the holder's account, if it is still the holder."""
        row = self._database.execute(
            f"SELECT attempt, {columns} FROM accounts WHERE trial = ?", (ticket.trial,)
        ).fetchone()
        if row is None or row[0] != ticket.attempt:
            raise Interrupted(f"trial {ticket.trial} was given up here; it goes on elsewhere, or has ended")
        return tuple(row[1:])

    def _passed(self, granted: Collection[str] = ()) -> BudgetExhausted | None:
        """Return the first cap that is passed, of those that nothing is `granted` of."""
        caps = self.caps
        if caps == Caps():
            return None
        calls, tokens, cost = self._database.execute(
            f"SELECT sum({_CALLS}), sum({_TOKENS}), sum({_COST}) FROM accounts"
        ).fetchone()
        for cap, limit, taken, tolerance in (
            ("max_calls", caps.max_calls, calls, 0.0),
            ("max_tokens", caps.max_tokens, tokens, 0.0),
            ("max_cost", caps.max_cost, cost, _TINY_USD),
        ):
            if limit is not None and cap not in granted and taken > limit + tolerance:
                return BudgetExhausted(cap, f"{cap}={limit:g} of the batch reached")
        return None

    def _refuse_if_passed(self, granted: Collection[str] = ()) -> None:
        error = self._passed(granted)
        if error is not None:
            raise error
