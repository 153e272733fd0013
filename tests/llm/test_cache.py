from __future__ import annotations

import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest
from waiting import wait_until

from autoprompt.llm import portal
from autoprompt.llm.client import Completion
from autoprompt.llm.kept.cache import ResponseCache, default_dir
from autoprompt.records import Usage

ANSWER = Completion("标题党", Usage(7, 2, None), {"1": 0.75, "0": 0.25}, "stop", "m", 0.5)


@pytest.fixture
def cache(tmp_path: Path) -> Iterator[ResponseCache]:
    cache = ResponseCache(tmp_path)
    yield cache
    cache.close()


def test_an_answer_comes_back_from_another_run(cache: ResponseCache, tmp_path: Path) -> None:
    assert cache.get("k") is None
    cache.put("k", ANSWER)
    cache.close()
    assert cache.get("k") == replace(ANSWER, attempts=0, source="cache")


def test_the_first_answer_stays(cache: ResponseCache) -> None:
    cache.put("k", ANSWER)
    cache.put("k", Completion("other"))
    answer = cache.get("k")
    assert answer is not None
    assert answer.text == ANSWER.text
    assert cache.stats().answers == 1


def test_one_that_is_forgotten_makes_room_for_another(cache: ResponseCache) -> None:
    cache.put("k", ANSWER)
    cache.forget("k")
    cache.forget("unknown")
    assert cache.get("k") is None
    cache.put("k", Completion("other"))
    assert cache.get("k") == Completion("other", attempts=0, source="cache")


def test_the_oldest_go_when_it_is_full(tmp_path: Path) -> None:
    cache = ResponseCache(tmp_path, max_bytes=10_000)
    for i in range(200):
        cache.put(f"{i:03}", ANSWER)
    stats = cache.stats()
    assert 8_000 < stats.size_bytes <= 10_000
    assert cache.get("000") is None
    assert cache.get("199") is not None
    cache.close()


def test_clearing_gives_the_disk_back(cache: ResponseCache) -> None:
    for i in range(500):
        cache.put(str(i), replace(ANSWER, text="x" * 1000))
    cache.clear()
    cache.close()
    stats = cache.stats()
    assert (stats.answers, stats.size_bytes) == (0, 0)
    cache.close()
    assert stats.path.stat().st_size < 50_000


@pytest.mark.parametrize(
    "content", [b"not a database at all, but long enough to have a header " * 20, b"\0" * 8192]
)
def test_a_broken_file_is_set_aside(tmp_path: Path, content: bytes, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "responses.sqlite"
    path.write_bytes(content)
    cache = ResponseCache(tmp_path)
    assert cache.get("k") is None
    cache.put("k", ANSWER)
    assert cache.get("k") is not None
    cache.close()
    assert (tmp_path / "responses.sqlite.broken").read_bytes() == content
    assert "set aside" in caplog.text


def test_a_file_that_breaks_while_in_use_is_set_aside(tmp_path: Path) -> None:
    cache = ResponseCache(tmp_path)
    for i in range(300):
        cache.put(str(i), replace(ANSWER, text="x" * 500))
    cache.close()
    path = tmp_path / "responses.sqlite"
    data = bytearray(path.read_bytes())
    data[5000:-1] = b"\xff" * (len(data) - 5001)
    path.write_bytes(bytes(data))
    for i in range(300):
        cache.get(str(i))
    cache.put("new", ANSWER)
    assert cache.get("new") is not None
    cache.close()
    assert (tmp_path / "responses.sqlite.broken").exists()


def test_no_place_to_write_is_a_miss_with_one_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").write_text("")
    cache = ResponseCache(tmp_path / "file" / "cache")
    cache.put("k", ANSWER)
    cache.flush()
    assert cache.get("k") is None
    assert cache.stats().answers == 0
    assert len(caplog.records) == 1


def test_threads_share_it(cache: ResponseCache) -> None:
    def work(i: int) -> str:
        cache.put(str(i % 20), replace(ANSWER, text=str(i % 20)))
        answer = cache.get(str(i % 20))
        return answer.text if answer is not None else "lost"

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(work, range(200))) == [str(i % 20) for i in range(200)]


def test_processes_share_it(cache: ResponseCache, tmp_path: Path) -> None:
    program = (
        "import sys; from pathlib import Path; from autoprompt.llm.kept.cache import ResponseCache;"
        "from autoprompt.llm.client import Completion\n"
        "cache = ResponseCache(Path(sys.argv[1]))\n"
        "for i in range(100): cache.put(f'{sys.argv[2]}-{i}', Completion('1'))\n"
        "cache.close()"
    )
    workers = [subprocess.Popen([sys.executable, "-c", program, str(tmp_path), name]) for name in "ab"]
    for i in range(100):
        cache.put(f"c-{i}", ANSWER)
    assert [worker.wait(30) for worker in workers] == [0, 0]
    assert cache.stats().answers == 300


def test_it_lies_in_the_users_cache_directory() -> None:
    assert default_dir().name == "autoprompt"


def test_the_file_holds_no_more_than_key_and_answer(cache: ResponseCache) -> None:
    cache.put("k", ANSWER)
    path = cache.stats().path
    cache.close()
    database = sqlite3.connect(path)
    (row,) = database.execute("SELECT key, record FROM answers").fetchall()
    database.close()
    assert row[0] == "k"
    assert "标题党" in row[1].encode().decode("unicode_escape")


@pytest.mark.parametrize("record", ["", "{", "[]", "null", '{"text": "x"}'])
def test_a_record_of_another_kind_is_a_miss_and_makes_room(record: str, cache: ResponseCache) -> None:
    cache.put("k", ANSWER)
    database = sqlite3.connect(cache.stats().path)
    with database:
        database.execute("UPDATE answers SET record = ?", (record,))
    database.close()
    assert cache.get("k") is None
    cache.put("k", ANSWER)
    assert cache.get("k") == replace(ANSWER, attempts=0, source="cache")


def test_answers_are_written_many_at_once_and_soon(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("autoprompt.llm.kept.cache._WRITTEN_EVERY_S", 0.05)
    cache, other = ResponseCache(tmp_path), ResponseCache(tmp_path)

    async def put() -> int:
        cache.put("a", ANSWER)
        cache.put("b", ANSWER)
        assert cache.get("a") is not None
        return other.stats().answers

    assert portal.run(put()) == 0
    wait_until(lambda: other.stats().answers == 2)


def test_as_many_as_may_wait_are_written_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("autoprompt.llm.kept.cache._MOST_WAITING", 2)
    cache, other = ResponseCache(tmp_path), ResponseCache(tmp_path)

    async def put() -> int:
        cache.put("a", ANSWER)
        cache.put("b", ANSWER)
        return other.stats().answers

    assert portal.run(put()) == 2


def test_without_a_loop_an_answer_is_written_at_once(tmp_path: Path) -> None:
    cache, other = ResponseCache(tmp_path), ResponseCache(tmp_path)
    cache.put("a", ANSWER)
    assert other.get("a") is not None


def test_close_writes_what_waits(tmp_path: Path) -> None:
    with_closing = ResponseCache(tmp_path)

    async def put() -> None:
        with_closing.put("a", ANSWER)

    portal.run(put())
    with_closing.close()
    assert ResponseCache(tmp_path).get("a") is not None
