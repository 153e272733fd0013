"""What is kept is made once, and again when its files change."""

from __future__ import annotations

from pathlib import Path
from threading import Barrier, Thread

from autoprompt.web.kept import Kept, mark_of


def test_many_that_ask_at_once_get_one_making() -> None:
    kept: Kept[int] = Kept()
    made: list[int] = []
    barrier = Barrier(8)

    def ask() -> None:
        barrier.wait()
        kept.get("page", 1, lambda: made.append(1) or len(made))

    threads = [Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert made == [1]


def test_another_mark_is_another_making() -> None:
    kept: Kept[str] = Kept()
    assert kept.get("page", 1, lambda: "old") == "old"
    assert kept.get("page", 1, lambda: "new") == "old"
    assert kept.get("page", 2, lambda: "new") == "new"


def test_only_the_last_few_are_kept() -> None:
    kept: Kept[int] = Kept(most=2)
    for number in range(3):
        kept.get(str(number), 0, lambda: 1)
    assert kept.get("2", 0, lambda: 2) == 1
    assert kept.get("0", 0, lambda: 2) == 2


def test_a_mark_follows_the_files_that_pages_are_made_from(tmp_path: Path) -> None:
    first = mark_of(tmp_path)
    (tmp_path / "progress.json").write_text("{}", encoding="utf-8")
    assert mark_of(tmp_path) == first
    (tmp_path / "events.jsonl").write_text("{}\n", encoding="utf-8")
    assert mark_of(tmp_path) != first
