import json
from pathlib import Path
from typing import Any

import pytest

from autoprompt.llm import Completion
from autoprompt.llm.client import CallRole
from autoprompt.llm.kept.journal import Journal
from autoprompt.records import Usage
from autoprompt.runs.spending import Spending, from_journal, note_spending, total_cost


def write(path: Path, *answers: tuple[CallRole, int, float | None]) -> None:
    with Journal(path) as journal:
        for role, tokens, cost in answers:
            key = f"{journal.position:032x}" * 2
            journal.append(key, role, Completion("so", Usage(tokens, 1, cost), attempts=2))


def test_roles_are_summed_up(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    assert from_journal(path) == ()
    write(path, ("task", 10, 0.5), ("optimizer", 7, None), ("task", 20, 0.25))
    with Journal(path) as journal:
        journal.append_failure("a" * 64, "task", 3, "gone")
        journal.append("b" * 64, "task", Completion("from the cache", Usage(9, 9, 9.0), attempts=0))
    found = from_journal(path)
    assert found == (Spending("task", 7, Usage(30, 2, 0.75)), Spending("optimizer", 2, Usage(7, 1, None)))
    assert total_cost(found) is None


def test_what_was_noted_is_not_read_again(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    note_spending(path)
    write(path, ("task", 10, 0.5), ("optimizer", 7, None))
    note_spending(path)
    path.write_bytes(b"#" * (path.stat().st_size - 1) + b"\n")
    write(path, ("task", 20, 0.25), ("optimizer", 1, 0.1))
    whole = (Spending("task", 4, Usage(30, 2, 0.75)), Spending("optimizer", 4, Usage(8, 2, None)))
    assert from_journal(path) == whole
    note_spending(path)
    with path.open("ab") as half:
        half.write(b'{"key":"' + b"c" * 64 + b'","attempts":1,"role":"ta')
    assert from_journal(path) == whole


@pytest.mark.parametrize(
    "note", [None, "", "[]", {"journal_bytes": 10**9}, {"journal_bytes": 0, "spending": 3}]
)
def test_a_note_that_does_not_fit_is_none(tmp_path: Path, note: Any) -> None:
    path = tmp_path / "journal.jsonl"
    write(path, ("task", 10, 0.5))
    note_spending(path)
    (beside,) = (other for other in tmp_path.iterdir() if other != path)
    beside.write_text(note if isinstance(note, str) else json.dumps(note))
    assert from_journal(path) == (Spending("task", 2, Usage(10, 1, 0.5)),)
