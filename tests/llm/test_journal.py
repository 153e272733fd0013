from __future__ import annotations

import asyncio
import hashlib
import json
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest

from autoprompt.errors import StoreError
from autoprompt.llm import portal
from autoprompt.llm.client import Completion, Options
from autoprompt.llm.kept.cache import from_record, request_key, to_record
from autoprompt.llm.kept.journal import Charge, Journal
from autoprompt.llm.limits.budget import BudgetMeter
from autoprompt.records import Message, Usage

Open = Callable[[Path], Journal]
KEYS = [request_key("http://x", "m", "off", [Message("user", str(i))], Options()) for i in range(5)]
ANSWER = Completion("标题党\n", Usage(7, 2, 0.25), {"1": 0.75, "0": 0.25}, "stop", "m", 0.5, attempts=3)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "run" / "journal.jsonl"


@pytest.fixture
def journal_at() -> Iterator[Open]:
    """Opens journals, and closes them after the test."""
    with ExitStack() as stack:

        def open_journal(path: Path) -> Journal:
            journal = Journal(path)
            stack.callback(journal.close)
            return journal

        yield open_journal


def test_an_answer_comes_back_as_it_was(path: Path, journal_at: Open) -> None:
    journal = journal_at(path)
    journal.append(KEYS[0], "task", ANSWER)
    journal.close()
    answer, _ = journal_at(path).recall(KEYS[0])
    assert answer == Completion(
        "标题党\n", Usage(7, 2, 0.25), {"1": 0.75, "0": 0.25}, "stop", "m", 0.5, 0, "journal"
    )
    assert journal_at(path).recall(KEYS[1]) == (None, [])


def test_any_tear_of_the_last_line_loses_that_line_alone(path: Path, journal_at: Open) -> None:
    journal = journal_at(path)
    journal.append(KEYS[0], "task", ANSWER)
    whole = path.stat().st_size
    journal.append(KEYS[1], "task", ANSWER)
    journal.close()
    data = path.read_bytes()
    for cut in range(whole, len(data)):
        path.write_bytes(data[:cut])
        torn = journal_at(path)
        assert torn.position == 1
        assert torn.recall(KEYS[1])[0] is None
        torn.append(KEYS[2], "task", ANSWER)
        torn.close()
        mended = journal_at(path)
        assert mended.position == 2
        assert mended.recall(KEYS[0])[0] is not None
        assert mended.recall(KEYS[2])[0] is not None
        mended.close()


def test_only_what_the_checkpoint_had_not_counted_is_charged_and_only_once(
    path: Path, journal_at: Open
) -> None:
    first = journal_at(path)
    first.append(KEYS[0], "task", ANSWER)
    position = first.position
    first.append(KEYS[1], "optimizer", ANSWER)
    assert first.recall(KEYS[1])[1] == []  # written by this run, so counted
    first.close()

    resumed = journal_at(path)
    resumed.mark_counted(position)
    assert resumed.recall(KEYS[0])[1] == []
    assert resumed.recall(KEYS[1])[1] == [Charge("optimizer", 3, Usage(7, 2, 0.25))]
    assert resumed.recall(KEYS[1])[1] == []


def test_an_answer_from_the_cache_is_replayed_for_nothing(path: Path, journal_at: Open) -> None:
    journal = journal_at(path)
    journal.append(KEYS[0], "task", Completion("1", Usage(7, 2), attempts=0, source="cache"))
    journal.close()
    assert journal_at(path).recall(KEYS[0])[1] == [Charge("task", 0, Usage())]


def test_the_time_of_the_last_answer_is_known_again(path: Path, journal_at: Open) -> None:
    journal = journal_at(path)
    assert journal.seconds == 0.0
    journal.append(KEYS[0], "task", Completion("1"), run_s=1.5)
    journal.append(KEYS[1], "task", Completion("1"), run_s=113.25)
    journal.append_failure(KEYS[2], "task", 8, "HTTP 500")  # says no time
    journal.close()
    assert journal_at(path).seconds == 113.25


def test_a_failed_request_is_counted_and_asked_again(path: Path, journal_at: Open) -> None:
    journal = journal_at(path)
    journal.append_failure(KEYS[0], "task", 8, "HTTP 500")
    assert journal.recall(KEYS[0]) == (None, [])
    journal.close()
    resumed = journal_at(path)
    assert resumed.recall(KEYS[0]) == (None, [Charge("task", 8, Usage(), has_failed=True)])
    assert resumed.recall(KEYS[0]) == (None, [])
    counted = journal_at(path)
    counted.mark_counted(1)
    assert counted.recall(KEYS[0]) == (None, [])


def test_answers_of_no_use_are_asked_anew_once_that_is_written(path: Path, journal_at: Open) -> None:
    journal = journal_at(path)
    for key in KEYS[:3]:
        journal.append(key, "judge", ANSWER)
    journal.note_useless(KEYS[0], "judge")
    journal.note_useless(KEYS[2], "judge")
    journal.close()
    again = journal_at(path)  # they were nothing that ended the run
    assert all(again.recall(key)[0] is not None for key in KEYS[:3])
    again.note_useless(KEYS[0], "judge")
    again.note_useless(KEYS[2], "judge")
    again.ask_anew("judge")
    again.close()

    resumed, budget = journal_at(path), BudgetMeter()
    resumed.mark_counted(1)
    assert resumed.position == 4
    resumed.charge_dropped(budget)
    assert (budget.spent.judge_calls, budget.spent.judge) == (3, Usage(7, 2, 0.25))
    assert [resumed.recall(key)[0] is not None for key in KEYS[:3]] == [False, True, False]
    resumed.append(KEYS[0], "judge", replace(ANSWER, text="5"))
    resumed.close()
    last, _ = journal_at(path).recall(KEYS[0])
    assert last is not None
    assert last.text == "5"


def test_where_all_answers_were_of_use_none_is_asked_anew(path: Path, journal_at: Open) -> None:
    journal = journal_at(path)
    journal.append(KEYS[0], "judge", ANSWER)
    journal.ask_anew("judge")
    assert journal.position == 1


@pytest.mark.parametrize("line", ['{"useless":[7]}', '{"useless":3}', '{"useless":', '{"useless":["x"]}'])
def test_a_broken_line_of_what_is_asked_anew_is_passed_over(
    line: str, path: Path, journal_at: Open, caplog: pytest.LogCaptureFixture
) -> None:
    journal = journal_at(path)
    journal.append(KEYS[0], "judge", ANSWER)
    journal.close()
    with path.open("a", encoding="utf-8") as file:
        file.write(line + "\n")
    assert journal_at(path).recall(KEYS[0])[0] is not None
    assert "line 2 cannot be read" in caplog.text


def test_the_same_request_is_written_once(path: Path, journal_at: Open) -> None:
    journal = journal_at(path)
    journal.append(KEYS[0], "task", ANSWER)
    journal.append(KEYS[0], "task", Completion("other"))
    assert journal.position == 1
    answer, _ = journal.recall(KEYS[0])
    assert answer is not None
    assert answer.text == ANSWER.text


def test_a_line_that_cannot_be_read_is_asked_again(path: Path, journal_at: Open) -> None:
    journal = journal_at(path)
    for key in KEYS[:3]:
        journal.append(key, "task", ANSWER)
    journal.close()
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"\0" * 40 + b"\n" + lines[1][:90] + b"\n" + lines[2])
    journal = journal_at(path)
    assert [journal.recall(key)[0] is not None for key in KEYS[:3]] == [False, False, True]
    journal.append(KEYS[1], "task", ANSWER)
    assert journal.recall(KEYS[1])[0] is not None


def test_a_journal_that_a_power_cut_made_shorter_goes_on(
    path: Path, journal_at: Open, caplog: pytest.LogCaptureFixture
) -> None:
    journal = journal_at(path)
    journal.append(KEYS[0], "task", ANSWER)
    journal.close()
    journal = journal_at(path)
    journal.mark_counted(4)
    assert "1 answers, the checkpoint has counted 4" in caplog.text
    assert journal.recall(KEYS[0])[1] == []
    assert journal.recall(KEYS[1]) == (None, [])
    journal.append(KEYS[1], "task", ANSWER)
    assert journal.position == 2


def test_many_answers_take_little_memory(path: Path, journal_at: Open) -> None:
    path.parent.mkdir()
    body = json.dumps({"attempts": 1, "role": "task", **to_record(ANSWER)})[1:]
    path.write_text("".join(f'{{"key":"{i:064x}",{body}\n' for i in range(10_000)))
    tracemalloc.start()
    journal = journal_at(path)
    size, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert journal.position == 10_000
    assert size < 3_000_000  # 300 bytes an answer


def test_the_key_of_a_request_with_labels_is_what_it_was() -> None:
    """Recorded answers are found by it."""
    labels = ("ham", 'sp\u00e4m "x"')
    options = Options(labels=labels, wants_label_probs=True, max_output_tokens=32)
    asked = ["u", "m", "off", [["user", "a"]], 0.0, 32, None, 0, [], labels, True]
    text = json.dumps(asked, ensure_ascii=True, separators=(",", ":"))
    found = request_key("u", "m", "off", [Message("user", "a")], options)
    assert found == hashlib.sha256(text.encode()).hexdigest()


def test_thousands_of_labels_tell_requests_apart_too() -> None:
    labels = tuple(f"label {number} of many" for number in range(10_000))
    keys = {
        request_key("u", "m", "off", [Message("user", "a")], Options(labels=some))
        for some in (labels, labels[:-1], labels[::-1])
    }
    assert len(keys) == 3


def test_a_key_is_the_same_in_every_version() -> None:
    ask = [Message("system", "Say é."), Message("user", "1")]
    options = Options(max_output_tokens=5, labels=("a", "b"))
    known = "9cff9663ff004f98f1b868f460a0f08353eeaf357dcb7477fb885a44d9865f40"
    assert request_key("http://x/v1", "m", "off", ask, options) == known


def test_the_key_tells_requests_apart_by_what_changes_the_answer() -> None:
    ask = [Message("user", "a")]
    plain = request_key("u", "m", "off", ask, Options())
    assert plain == request_key("u", "m", "off", ask, Options(role="judge"))
    others = [
        request_key("v", "m", "off", ask, Options()),
        request_key("u", "n", "off", ask, Options()),
        request_key("u", "m", "grammar", ask, Options()),
        request_key("u", "m", "off", [Message("system", "a")], Options()),
        *(
            request_key("u", "m", "off", ask, options)
            for options in (
                Options(temperature=1),
                Options(max_output_tokens=5),
                Options(seed=1),
                Options(sample=1),
                Options(stop=("x",)),
                Options(labels=("x",)),
                Options(wants_label_probs=True),
            )
        ),
    ]
    assert len({plain, *others}) == 12


def test_a_record_keeps_an_unknown_price_unknown() -> None:
    assert (
        from_record(json.loads(json.dumps(to_record(Completion("", Usage(1, 1, None)))))).usage.cost_usd
        is None
    )


def test_all_that_it_holds_is_counted_once_what_cannot_be_read_passed_over(
    path: Path, journal_at: Open
) -> None:
    written = journal_at(path)
    written.append(KEYS[0], "task", ANSWER)
    written.append_failure(KEYS[1], "task", 2, "refused")
    written.close()
    path.write_bytes(b'{"key":"\x00\x00garbled\n' + path.read_bytes())
    journal, budget = journal_at(path), BudgetMeter()
    journal.count_all(budget)
    journal.mark_counted(journal.position)
    assert (budget.spent.calls, budget.spent.tokens) == (5, 9)
    assert [journal.recall(key)[1] for key in KEYS[:2]] == [[], []]


def test_what_another_role_said_in_vain_stays(path: Path, journal_at: Open) -> None:
    journal = journal_at(path)
    for key, role in zip(KEYS[:2], ("task", "judge"), strict=True):
        journal.append(key, role, ANSWER)
        journal.note_useless(key, role)
    journal.ask_anew("judge")  # the run went on with the empty answer, and decided by it
    journal.close()
    assert [journal_at(path).recall(key)[0] is not None for key in KEYS[:2]] == [True, False]


def test_answers_of_one_turn_of_the_loop_are_one_write(
    path: Path, journal_at: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal = journal_at(path)
    written: list[int] = []
    write = journal._write
    monkeypatch.setattr(journal, "_write", lambda *records: written.append(len(records)) or write(*records))

    async def append_all() -> list[bool]:
        async def append(number: int) -> bool:
            await journal.append_soon(f"{number:064x}"[::-1], "task", Completion(f"said {number}"))
            return journal.recall(f"{number:064x}"[::-1])[0] is not None

        return list(await asyncio.gather(*(append(number) for number in (1, 2, 3, 2))))

    assert portal.run(append_all()) == [True] * 4
    assert written == [3]
    assert [answer.text for _, answer in journal.answers()] == ["said 1", "said 2", "said 3"]


def test_all_who_wait_for_a_write_hear_that_it_failed(path: Path, journal_at: Open) -> None:
    journal = journal_at(path)
    path.write_bytes(b"x" * 10)  # another program

    async def append_all() -> list[object]:
        appended = (
            journal.append_soon(f"{number:064x}"[::-1], "task", Completion("said")) for number in range(2)
        )
        return list(await asyncio.gather(*appended, return_exceptions=True))

    assert [type(found) for found in portal.run(append_all())] == [StoreError, StoreError]
    assert not journal.has_answers


def test_an_answer_is_written_though_who_waits_for_it_is_cancelled(path: Path, journal_at: Open) -> None:
    journal = journal_at(path)

    async def append_all() -> list[object]:
        appended = [
            asyncio.ensure_future(journal.append_soon(f"{number:064x}"[::-1], "task", Completion("said")))
            for number in (1, 2)
        ]
        await asyncio.sleep(0)
        appended[0].cancel()
        return list(await asyncio.gather(*appended, return_exceptions=True))

    assert [type(found) for found in portal.run(append_all())] == [asyncio.CancelledError, type(None)]
    assert len(list(journal.answers())) == 2
