"""What a run used, by role: from its result, or from its journal while it has none."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from autoprompt.brief import brief
from autoprompt.records import Usage
from autoprompt.text.files import bounded_lines, open_file, read_bytes, write_json

ROLES = ("task", "optimizer", "judge")
_NOTE = "spending.json"


@dataclass(slots=True)
class Spending:
    """What one role used. calls: requests sent, retries included."""

    role: str
    calls: int = 0
    usage: Usage = Usage()

    __repr__ = brief

    def add(self, record: Mapping[str, Any]) -> None:
        """Count a line of the journal. Answers out of the cache took nothing, most failures no tokens."""
        attempts = record.get("attempts") or 0
        self.calls += attempts
        with suppress(KeyError, TypeError):
            if attempts:
                self.usage += Usage.from_record(record)

    def to_dict(self) -> dict[str, Any]:
        return {"role": self.role, "calls": self.calls, **asdict(self.usage)}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Spending:
        """Return what `to_dict` gave. TypeError or KeyError for another record."""
        return cls(data["role"], data["calls"], Usage.from_record(data))


def from_journal(path: Path) -> tuple[Spending, ...]:
    """Return what the answers of a journal took.

    Unreadable lines are passed over, and a last one that is not whole yet, as of a run at work.
    """
    found, _ = _sum_up(path)
    return tuple(part for part in found if part.calls)


def note_spending(journal: Path) -> None:
    """Sum up a journal in a file beside it, so that a listing of many runs reads what came after it alone.

    To be called when the journal is on the disk: a power cut must not leave a sum of lines that it lost.
    """
    found, end = _sum_up(journal)
    write_json(
        journal.with_name(_NOTE), {"journal_bytes": end, "spending": [part.to_dict() for part in found]}
    )


def _sum_up(journal: Path) -> tuple[list[Spending], int]:
    """Return what each role has used, and where the last whole line ends."""
    found, end = _noted(journal)
    if not journal.exists():
        return found, end
    by_role = {part.role: part for part in found}
    with open_file(journal) as stream:
        stream.seek(end)
        for line in bounded_lines(stream):
            if not line.endswith(b"\n"):
                break
            end += len(line)
            record = _record(line)
            if (part := by_role.get(record.get("role", ""))) is not None:
                part.add(record)
    return found, end


def _noted(journal: Path) -> tuple[list[Spending], int]:
    """Return the last note; nothing counted yet where there is none that fits."""
    try:
        note = json.loads(read_bytes(journal.with_name(_NOTE)))
        if note["journal_bytes"] <= journal.stat().st_size:
            return [Spending.from_dict(part) for part in note["spending"]], note["journal_bytes"]
    except (OSError, ValueError, KeyError, TypeError):
        pass
    return [Spending(role) for role in ROLES], 0


def _record(line: bytes) -> dict[str, Any]:
    try:
        record = json.loads(line.decode("utf-8", "surrogatepass"))
    except ValueError:
        return {}
    return record if isinstance(record, dict) else {}


def total_cost(spending: tuple[Spending, ...]) -> float | None:
    """USD; None as soon as one role's price is unknown."""
    return sum((part.usage for part in spending), Usage()).cost_usd
