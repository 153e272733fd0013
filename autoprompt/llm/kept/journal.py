"""Every answer of a run, written as it arrives: `kill -9` loses nothing that was answered.

One JSON line per request; those that are answered in one turn of the event loop go in one write. Nothing is
synced line by line: a killed process loses no write that the kernel has. `checkpoint()` syncs, for the
machine that loses power.

Counting after a resume. The run's state holds `BudgetMeter.spent` and `Journal.position` of one moment. After
`budget.restore(spent)` and `journal.mark_counted(position)`, an answer from before that moment costs nothing
more, and one from after it is charged when it is first asked for again, with the attempts that it took: so a
killed and resumed run sees the same budget at every decision as one that was not killed.

Answers of no use (a judge's without a grade, empty ones) are served again as they were, so that a run that
went on with them decides the same. Where they have ended it, `ask_anew` writes so: a line that names theirs.
"""

from __future__ import annotations

import asyncio
import errno
import json
import logging
import os
import threading
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from autoprompt.errors import Place, Problem, StoreError
from autoprompt.llm.client import CallRole, Completion
from autoprompt.llm.kept.cache import from_record, to_record
from autoprompt.records import Usage
from autoprompt.text.files import bounded_lines, open_file, open_to_append

if TYPE_CHECKING:
    from autoprompt.llm.limits.budget import BudgetMeter

_log = logging.getLogger(__name__)

# A line starts with its key at a fixed place, so that opening 100,000 lines parses none of them.
_KEY_AT = slice(len(b'{"key":"'), len(b'{"key":"') + 64)
_FAILURE = b'","failed":'
_USELESS = b'{"useless":'
_LATEST = 100  # records that are looked through for the time


@dataclass(frozen=True, slots=True)
class Charge:
    """What a record adds to the budget when it is replayed."""

    role: CallRole
    attempts: int
    usage: Usage
    has_failed: bool = False


class Journal:
    """The answers of one run, by request key. One process at a time (the run folder's lock), many threads.

    Memory is about 100 bytes an answer; texts stay on disk. A torn last line is cut off on opening.
    Raises StoreError if the file cannot be read or written.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._offsets = array("Q")  # where each line begins
        self._end = 0
        self._answers: dict[bytes, int] = {}  # first 16 bytes of the key -> line
        self._failures: dict[bytes, list[int]] = {}  # the same, for lines not counted yet
        self._counted: set[int] = set()  # lines replayed since the last `mark_counted`
        self._useless: dict[int, CallRole] = {}  # lines that were of no use to who asked, since it was opened
        # Answers to be written at the end of this turn of the loop, and who waits for each.
        self._batch: list[tuple[asyncio.Future[None], str, dict[str, Any]]] = []
        self._dropped: list[int] = []  # lines that are asked anew, as an earlier process wrote
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._append_to = open_to_append(path)  # O_APPEND, and one write is one system call
            self._read_from = path.open("rb", buffering=0)
            self._index()
        except OSError as error:
            raise _unusable("opened", path, error) from error
        self._found = len(self._offsets)
        self._counted_until = 0

    @property
    def position(self) -> int:
        """Number of records written, complete ones."""
        with self._lock:
            return len(self._offsets)

    @property
    def has_answers(self) -> bool:
        """Whether any request was answered; failed ones are no answers."""
        with self._lock:
            return bool(self._answers)

    def mark_counted(self, position: int) -> None:
        """Mark the first `position` records as counted: they are in the budget that was restored.

        If the file holds fewer, as after a power cut, all of them are marked. Lost answers are asked again.
        """
        with self._lock:
            found = len(self._offsets)
            if position > found:
                _log.warning(
                    "%s: %d answers, the checkpoint has counted %d; those that are lost are asked again",
                    self._path,
                    found,
                    position,
                )
            self._counted_until = min(position, found)

    def count_all(self, budget: BudgetMeter) -> None:
        """Charge all that it holds to a budget that has counted none of it.

        For runs whose steps do not all ask again, so that no replay would charge what those took. Replays of
        the others charge it once more unless it is marked as counted, see `mark_counted`.
        """
        for line in range(self.position):
            try:
                with self._lock:
                    charge = _charge(self._read(line))
            except (ValueError, KeyError):
                continue  # opening the journal reported it
            budget.charge_replay(charge.role, charge.attempts, charge.usage, has_failed=charge.has_failed)

    def answers(self) -> Iterator[tuple[CallRole, Completion]]:
        """Yield the answers that it holds, with the role that asked."""
        with self._lock:
            lines = sorted(self._answers.values())
        for line in lines:
            try:
                with self._lock:
                    record = self._read(line)
                    answer = from_record(record)
            except (ValueError, KeyError):
                continue  # opening the journal reported it
            yield record["role"], answer

    def charge_dropped(self, budget: BudgetMeter) -> None:
        """Charge the answers that are asked anew and were not counted. Once, after `mark_counted`.

        All at once: not each of their questions need come again, as one that asked a second time.
        """
        for line in self._dropped:
            if line >= self._counted_until:
                with self._lock:
                    charge = _charge(self._read(line))
                budget.charge_dropped(charge.role, charge.attempts, charge.usage)

    def recall(self, key: str) -> tuple[Completion | None, list[Charge]]:
        """Return the answer to a request, if there is one, and what the budget must be charged for it now.

        Records are charged once; failed requests have a charge and no answer.
        """
        short = bytes.fromhex(key[:32])
        with self._lock:
            lines = self._failures.pop(short, [])
            charges = [_charge(self._read(line)) for line in lines if line >= self._counted_until]
            line = self._answers.get(short)
            if line is None:
                return None, charges
            try:
                record = self._read(line)
                answer = replace(from_record(record), source="journal")
            except (ValueError, KeyError):
                _log.warning("%s line %d cannot be read; it is asked again", self._path, line + 1)
                del self._answers[short]
                return None, charges
            if self._counted_until <= line < self._found and line not in self._counted:
                self._counted.add(line)
                charges.append(_charge(record))
            return answer, charges

    @property
    def seconds(self) -> float:
        """Of the run when its last answer came, as far as records say; 0.0 where none does."""
        with self._lock:
            last = len(self._offsets) - 1
            for line in range(last, max(-1, last - _LATEST), -1):
                try:
                    return float(self._read(line)["run_s"])
                except (ValueError, KeyError):  # a failure
                    continue
            return 0.0

    def append(self, key: str, role: CallRole, completion: Completion, *, run_s: float | None = None) -> None:
        """Write an answer, counted already. A second answer to the same request is not written.

        run_s: seconds that the run has taken so far, so that one which goes on knows them.
        """
        self._append_all([(key, _answer_record(key, role, completion, run_s))])

    async def append_soon(
        self, key: str, role: CallRole, completion: Completion, *, run_s: float | None = None
    ) -> None:
        """Write an answer as `append` does, in one write with all that come in the same turn of the loop.

        It returns when the answer is in the file.
        """
        loop = asyncio.get_running_loop()
        written: asyncio.Future[None] = loop.create_future()
        if not self._batch:
            loop.call_soon(self._write_batch)
        self._batch.append((written, key, _answer_record(key, role, completion, run_s)))
        await written

    def _write_batch(self) -> None:
        batch, self._batch = self._batch, []
        error = None
        try:
            self._append_all([(key, record) for _, key, record in batch])
        except Exception as failure:  # noqa: BLE001 - raised again, to all who wait for it
            error = failure
        for written, _, _ in batch:
            if written.done():  # who waited was cancelled
                continue
            if error is None:
                written.set_result(None)
            else:
                written.set_exception(error)

    def _append_all(self, records: Sequence[tuple[str, dict[str, Any]]]) -> None:
        with self._lock:
            new: dict[bytes, dict[str, Any]] = {}
            for key, record in records:
                if (short := bytes.fromhex(key[:32])) not in self._answers:
                    new.setdefault(short, record)
            first = len(self._offsets)
            self._write(*new.values())
            self._answers.update((short, first + place) for place, short in enumerate(new))

    def append_failure(
        self, key: str, role: CallRole, attempts: int, error: str, usage: Usage = Usage()
    ) -> None:
        """Write that a request was sent `attempts` times without an answer, so that a resume counts them."""
        failure = {"key": key, "failed": error, "attempts": attempts, "role": role}
        with self._lock:
            # Only answers of no use have taken something.
            self._write(failure if usage == Usage() else {**failure, **usage.to_record()})

    def note_useless(self, key: str, role: CallRole) -> None:
        """Note that the answer to this request was empty, or of no use to the caller."""
        with self._lock:
            line = self._answers.get(bytes.fromhex(key[:32]))
            if line is not None:
                self._useless[line] = role

    def ask_anew(self, role: CallRole) -> None:
        """Write that those of this role have ended the run: who opens the journal next asks for them anew."""
        with self._lock:
            lines = sorted(line for line, asked_by in self._useless.items() if asked_by == role)
            if lines:
                self._write({"useless": lines})

    def checkpoint(self) -> None:
        """Force what is written to the disk. To be called before a state that names `position` is saved."""
        try:
            os.fsync(self._append_to.fileno())
        except OSError as error:
            raise _unusable("written", self._path, error) from error

    def close(self) -> None:
        """Safe to call twice."""
        self._append_to.close()
        self._read_from.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _index(self) -> None:
        with open_file(self._path) as stream:
            for line in bounded_lines(stream):
                if not line.endswith(b"\n"):
                    _log.info("%s: a torn last line is cut off", self._path)
                    os.truncate(self._path, self._end)
                    break
                self._index_line(line)
                self._offsets.append(self._end)
                self._end += len(line)

    def _index_line(self, line: bytes) -> None:
        number = len(self._offsets)
        try:
            if line.startswith(_USELESS):
                self._drop(json.loads(line)["useless"])
                return
            short = bytes.fromhex(line[_KEY_AT].decode("ascii"))[:16]
        except (ValueError, KeyError, IndexError, TypeError):
            _log.warning("%s line %d cannot be read; it is passed over", self._path, number + 1)
            return
        if line.startswith(_FAILURE, _KEY_AT.stop):
            self._failures.setdefault(short, []).append(number)
        else:
            self._answers.setdefault(short, number)

    def _drop(self, lines: Sequence[int]) -> None:
        for line in lines:
            short = bytes.fromhex(self._read(line)["key"])[:16]
            if self._answers.get(short) == line:
                del self._answers[short]
                self._dropped.append(line)

    def _read(self, line: int) -> dict[str, Any]:
        begin = self._offsets[line]
        end = self._offsets[line + 1] if line + 1 < len(self._offsets) else self._end
        self._read_from.seek(begin)
        record: dict[str, Any] = json.loads(self._read_from.read(end - begin))
        return record

    def _write(self, *records: dict[str, Any]) -> None:
        lines = [_line(record) for record in records]
        data = b"".join(lines)
        if not data:
            return
        try:
            written = self._append_to.write(data)
            if written != len(data):  # a disk that is full takes a part
                os.truncate(self._path, self._end)
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            size = os.fstat(self._append_to.fileno()).st_size
        except OSError as error:
            raise _unusable("written", self._path, error) from error
        if size != self._end + len(data):
            said, then = "another program has cut this file, or written to it", "Then resume the run."
            raise StoreError(Problem("run.file-lost", said, Place(self._path), f"End that program. {then}"))
        for line in lines:
            self._offsets.append(self._end)
            self._end += len(line)


def _answer_record(key: str, role: CallRole, completion: Completion, run_s: float | None) -> dict[str, Any]:
    known = {"key": key, "attempts": completion.attempts, "role": role, **to_record(completion)}
    return known if run_s is None else {**known, "run_s": round(run_s, 3)}


_to_json = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


def _line(record: dict[str, Any]) -> bytes:
    return _to_json(record).encode("utf-8", "surrogatepass") + b"\n"


def _unusable(what: str, path: Path, error: OSError) -> StoreError:
    said = f"the journal cannot be {what} ({error.strerror})"
    fix = "Check the disk and the permissions, then resume the run."
    return StoreError(Problem("run.journal", said, Place(path), fix))


def _charge(record: dict[str, Any]) -> Charge:
    """Return what a recorded answer is charged; one from the cache (attempts 0) is free."""
    attempts = record["attempts"]
    has_failed = "failed" in record
    took_nothing = not attempts or (has_failed and "prompt_tokens" not in record)
    usage = Usage() if took_nothing else Usage.from_record(record)
    return Charge(record["role"], attempts, usage, has_failed)
