"""A name in an address finds a run that lies there, and never anything else."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from threading import Barrier, Thread
from typing import Any

import pytest
from written_runs import begin

from autoprompt.runs import RunFolder, RunLine, RunStore
from autoprompt.web.library import SORTS, Entry, ListQuery, PartCache, RunLibrary, gain, mark_of


@pytest.fixture
def library(runs: RunStore) -> RunLibrary:
    return RunLibrary(runs.runs_dir)


def test_no_folder_yet(library: RunLibrary) -> None:
    assert library.runs() == []
    assert library.find("x") is None


def test_the_newest_run_comes_first_and_is_found_by_its_id(runs: RunStore, library: RunLibrary) -> None:
    made = [begin(runs, name).run_id for name in ("a", "b")]
    assert [entry.key for entry in library.runs()] == sorted(made, reverse=True)
    found = library.find(made[0])
    assert found is not None
    assert found.line.run_id == made[0]


@pytest.mark.parametrize(
    "key",
    [
        "",
        ".",
        "..",
        "../secret",
        "../runs/{run}",
        "{run}/",
        "{run}/..",
        "{run}/../{run}",
        "./{run}",
        "{run}/.",
    ],
)
def test_no_text_but_a_name_finds_a_run(runs: RunStore, library: RunLibrary, key: str) -> None:
    run = begin(runs)
    (runs.runs_dir.parent / "secret").mkdir()
    assert library.find(key.replace("{run}", run.run_id)) is None
    assert library.find(str(run.path)) is None


def test_links_and_hidden_folders_are_no_runs(runs: RunStore, library: RunLibrary, tmp_path: Path) -> None:
    elsewhere = begin(RunStore(tmp_path / "elsewhere"))
    run = begin(runs)
    (runs.runs_dir / "link").symlink_to(elsewhere.path)
    (runs.runs_dir / ".removed").mkdir()
    assert [entry.key for entry in library.runs()] == [run.run_id]
    assert library.find("link") is None


@pytest.mark.parametrize(
    "name", ["result.json", "events.jsonl", "predictions/test-best.jsonl", "predictions"]
)
def test_a_run_that_holds_a_link_is_not_opened(
    runs: RunStore, library: RunLibrary, tmp_path: Path, name: str
) -> None:
    secret = tmp_path / "secret.json"
    secret.write_text('{"password": "hunter2"}', encoding="utf-8")
    run = begin(runs)
    assert library.runs()[0].line.status == "interrupted"
    path = run.path / name
    path.parent.mkdir(exist_ok=True)
    path.unlink(missing_ok=True)
    path.symlink_to(secret)
    line = library.runs()[0].line
    assert line.status == "broken"
    assert f"{path}: this is a link" in line.problem


def test_a_run_that_is_taken_and_left_changes_its_state(runs: RunStore, library: RunLibrary) -> None:
    run = begin(runs)
    assert library.runs()[0].line.status == "interrupted"
    with run.lock():
        assert library.runs()[0].line.status == "running"
    assert library.runs()[0].line.status == "interrupted"


def test_looking_writes_nothing(runs: RunStore, library: RunLibrary) -> None:
    run = begin(runs)
    before = {path: path.stat().st_mtime_ns for path in run.path.rglob("*")}
    library.runs()
    assert {path: path.stat().st_mtime_ns for path in run.path.rglob("*")} == before


def test_a_result_is_seen_when_it_comes_and_the_files_are_read_once(
    runs: RunStore, library: RunLibrary, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = begin(runs)
    library.runs()
    run.write_result({"verdict": "confirmed", "best": {"score": 0.9}, "original": {"score": 0.5}})
    assert library.runs()[0].line.best == 0.9
    monkeypatch.setattr(RunFolder, "read_config", lambda self: pytest.fail("read again"))
    assert library.runs()[0].line.best == 0.9


def test_a_damaged_folder_is_listed_with_its_reason(runs: RunStore, library: RunLibrary) -> None:
    run = begin(runs)
    run.info_path.write_text("{", encoding="utf-8")
    line = library.runs()[0].line
    assert line.status == "broken"
    assert "run.json" in line.problem


def test_trials_lie_under_their_batch(
    runs: RunStore, library: RunLibrary, held: Callable[[RunFolder], None]
) -> None:
    batch = runs.create({}, kind="batch", name="matrix")
    trials = [begin(RunStore(batch.path), name) for name in ("a", "b")]
    held(trials[1])
    entry = library.find(batch.run_id)
    assert entry is not None
    found = library.trials(entry)
    assert {e.key: e.line.status for e in found} == {
        f"{batch.run_id}/{trials[0].run_id}": "interrupted",
        f"{batch.run_id}/{trials[1].run_id}": "running",
    }
    assert library.find(f"{batch.run_id}/{trials[0].run_id}") is not None
    assert [e.key for e in library.runs()] == [batch.run_id]


def test_many_that_ask_at_once_get_one_making() -> None:
    kept = PartCache()
    made: list[int] = []
    barrier = Barrier(8)

    def ask() -> None:
        barrier.wait()
        kept.get("page", 1, lambda: made.append(1) or "page")

    threads = [Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert made == [1]


def test_another_mark_is_another_making() -> None:
    kept = PartCache()
    assert kept.get("page", 1, lambda: "old") == "old"
    assert kept.get("page", 1, lambda: "new") == "old"
    assert kept.get("page", 2, lambda: "new") == "new"


def test_only_the_last_few_are_kept() -> None:
    kept = PartCache(most=2)
    for number in range(3):
        kept.get(str(number), 0, lambda: "first")
    assert kept.get("2", 0, lambda: "second") == "first"
    assert kept.get("0", 0, lambda: "second") == "second"


def test_a_mark_follows_the_files_that_pages_are_made_from(tmp_path: Path) -> None:
    first = mark_of(tmp_path)
    (tmp_path / "progress.json").write_text("{}", encoding="utf-8")
    assert mark_of(tmp_path) == first
    (tmp_path / "events.jsonl").write_text("{}\n", encoding="utf-8")
    assert mark_of(tmp_path) != first


def entry(run_id: str, **more: Any) -> Entry:
    values = {"status": "finished", "kind": "optimize", "created": f"2026-01-0{run_id[-1]}", **more}
    return Entry(run_id, RunLine(run_id, Path(run_id), **values))


ENTRIES = [
    entry("a-1", dataset="/data/tickets.csv", model="gpt", original=0.5, best=0.9, calls=10, cost_usd=0.2),
    entry("b-2", dataset="标题.jsonl", model="qwen", original=0.6, best=0.7, calls=300, cost_usd=None),
    entry("c-3", dataset="/data/tickets.csv", status="running"),
    entry("d-4", kind="science", status="interrupted"),
]


def shown(**query: str) -> list[str]:
    return [found.key for found in ListQuery.read(query).apply(ENTRIES)]


def test_the_newest_first_without_a_wish() -> None:
    assert shown() == ["d-4", "c-3", "b-2", "a-1"]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ({"q": "tickets"}, ["c-3", "a-1"]),
        ({"q": "TICKETS gpt"}, ["a-1"]),
        ({"q": "标题"}, ["b-2"]),
        ({"q": "no such"}, []),
        ({"kind": "science"}, ["d-4"]),
        ({"state": "running"}, ["c-3"]),
        ({"state": "running", "q": "gpt"}, []),
        ({"state": "nonsense", "sort": "nonsense", "order": "nonsense"}, ["d-4", "c-3", "b-2", "a-1"]),
    ],
)
def test_what_is_asked_for_is_shown(query: dict[str, str], expected: list[str]) -> None:
    assert shown(**query) == expected


@pytest.mark.parametrize("order", ["up", "down"])
def test_runs_without_a_value_come_last_either_way(order: str) -> None:
    found = shown(sort="best", order=order)
    assert found[:2] == (["b-2", "a-1"] if order == "up" else ["a-1", "b-2"])
    assert set(found[2:]) == {"c-3", "d-4"}


@pytest.mark.parametrize("sort", SORTS)
def test_every_order_holds_every_run(sort: str) -> None:
    assert sorted(shown(sort=sort)) == ["a-1", "b-2", "c-3", "d-4"]


def test_a_second_click_turns_the_order_round() -> None:
    first = ListQuery.read({"q": "a&b=c", "sort": "best"})
    assert not first.is_rising
    assert first.address("best") == "?q=a%26b%3Dc&sort=best&order=up"
    assert first.address("run") == "?q=a%26b%3Dc&sort=run&order=up"
    assert ListQuery.read({"sort": "best", "order": "up"}).address("best").endswith("order=down")


def test_gain_is_unknown_where_a_score_is() -> None:
    assert gain(ENTRIES[0]) == pytest.approx(0.4)
    assert gain(ENTRIES[2]) is None


def test_a_list_is_narrowed_by_tag_and_searched_by_name_and_notes() -> None:
    def entry(run_id: str, **more: Any) -> Entry:
        return Entry(run_id, RunLine(run_id, Path(run_id), "finished", created=run_id, **more))

    entries = [
        entry("r1", name="support v2", tags=("desk",)),
        entry("r2", tags=("desk", "old"), notes="Before the change."),
        entry("r3"),
    ]
    for query, found in (
        ({"tag": "desk"}, ["r2", "r1"]),
        ({"tag": "old", "q": "change"}, ["r2"]),
        ({"q": "support v2"}, ["r1"]),
        ({"tag": "none"}, []),
    ):
        choice = ListQuery.read(query)
        assert [one.key for one in choice.apply(entries)] == found
        assert choice.is_narrowed
    assert (
        ListQuery.read({"tag": "desk", "page": "3"}).page_address(4)
        == "?tag=desk&sort=created&order=down&page=4"
    )
    assert [ListQuery.read({"page": page}).page for page in ("", "x", "0", "7")] == [1, 1, 1, 7]
