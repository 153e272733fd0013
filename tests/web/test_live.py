"""What the live view knows of a run, from its log and counters alone."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from run_folders import real_run
from written_runs import begin, propose, settle, tell

from autoprompt.runs import RunFolder, RunStore
from autoprompt.text.files import append_jsonl, write_jsonl
from autoprompt.web.live import LiveRun, LiveState, Tail

A, B = "a" * 12, "b" * 12


@pytest.fixture
def run(runs: RunStore) -> RunFolder:
    return begin(runs)


def look(run: RunFolder) -> LiveState:
    live = LiveRun(run)
    live.look()
    return live.state


def progress(run: RunFolder, calls: int, done: int = 3, total: int = 16) -> None:
    spent = {"calls": calls, "tokens": 10 * calls, "cost_usd": None, "seconds": 1.0}
    event = {"event": "rows_evaluated", "what": "race", "done": done, "total": total, "spent": spent}
    run.progress_path.write_text(json.dumps(event), encoding="utf-8")


def test_the_time_that_is_left_comes_from_rows_and_their_times(runs: RunStore) -> None:
    run = runs.create({})
    plan = {"blocks": [16, 32], "fresh": 20, "candidates": 4, "writers": 2, "analyst_calls": 1}
    plan |= {"patience": 2, "train_batch": 16, "calls_per_row": 1}
    facts: dict[str, Any] = {"run_id": "r", "run_dir": "runs/r", "model": "m", "optimizer_model": "m"}
    facts |= {"concurrency": 1, "sizes": {"train": 80, "val": 52, "test": 50}, "max_iterations": 1}
    begun = {"event": "run_started", **facts, "budget": {"max_calls": 400}, "plan": plan}
    at = "2026-11-28T12:00:{}+00:00"
    node = {"event": "node_started", "node": "predict", "iteration": 1}
    for event in ({**begun, "time": at.format("00")}, {**node, "time": at.format("01")}):
        with run.events_path.open("a", encoding="utf-8") as stream:
            stream.write(json.dumps(event) + "\n")
    live = LiveRun(run)
    live.look()
    assert live.state.seconds_left is None
    start = live.state.now
    for done in (4, 8):
        progress(run, done, done)
        os.utime(run.progress_path, (start + done, start + done))  # a second a row
        assert live.look()
    left = live.state.seconds_left
    assert left is not None
    assert 100 < left < 400  # of 8 rows of train, a race, fresh rows and a test, at a row a second


@pytest.mark.parametrize("plan", [{}, {"blocks": "many"}, {"blocks": [16, "x"]}, {"blocks": [16], "more": 1}])
def test_a_plan_that_is_not_understood_tells_no_time(run: RunFolder, plan: dict[str, Any]) -> None:
    budget, model = {"max_calls": 400}, {"model": "m", "optimizer_model": "m"}
    sizes = {"train": 80}
    tell(run, "run_started", run_id="r", run_dir="r", sizes=sizes, budget=budget, plan=plan, **model)
    progress(run, 4, 4)
    assert look(run).seconds_left is None


def test_a_run_as_it_goes(run: RunFolder) -> None:
    live = LiveRun(run)
    assert live.look()
    assert not live.look()
    assert (live.state.node, live.state.iteration, live.state.max_iterations) == ("predict", 1, 3)
    propose(run, A)
    propose(run, B)
    assert live.look()
    assert [c.id for c in live.state.racing] == [A, B]
    tell(
        run,
        "rung_ended",
        rows=16,
        ran=2,
        kept=1,
        is_last=False,
        is_ahead=True,
        leader=A,
        score=0.75,
        best_score=0.5,
    )
    live.look()
    told = "after 16 rows 1 of 2 go on; aaaaaa (0.750) is ahead of the best so far (0.500)"
    assert live.state.log[0].text == told
    settle(run, A, 0.75)
    settle(run, B, 0.25, accepted=False)
    tell(run, "best_changed", id=A, score=0.75, rows=16, original_score=0.5)
    live.look()
    state = live.state
    assert state.racing == []
    assert (state.tried, state.accepted, state.settled) == (2, 1, 2)
    assert (state.best_id, state.best, state.original, state.rows) == (A, 0.75, 0.5, 16)
    assert [c.id for c in state.last_settled] == [B, A]
    assert state.brief == "round 1 of 3, best so far 0.750"
    assert state.log[0].text.startswith("best so far: aaaaaa, 0.750")


def test_what_is_refused_after_it_was_proposed_races_no_more(run: RunFolder) -> None:
    propose(run, A)
    tell(run, "candidate_refused", id=A, operator="cues", reason="too dear")
    state = look(run)
    assert (state.racing, state.refused) == ([], 1)
    assert state.log[0].text == "refused aaaaaa before any call (cues): too dear"


def test_counters_come_from_the_progress_file(run: RunFolder) -> None:
    live = LiveRun(run)
    live.look()
    progress(run, 40)
    assert live.look()
    assert (live.state.spent["calls"], live.state.done, live.state.total) == (40, 3, 16)
    assert not live.look()


@pytest.mark.parametrize("content", ["", "{", "[]", "null", '{"spent": 3, "done": "x", "what": null}'])
def test_a_progress_file_that_says_nothing_harms_nothing(run: RunFolder, content: str) -> None:
    run.progress_path.write_text(content, encoding="utf-8")
    state = look(run)
    assert (dict(state.spent), state.done) == ({}, 0)


def test_a_resumed_run_repeats_itself_and_is_counted_once(run: RunFolder) -> None:
    live = LiveRun(run)
    for _ in range(2):
        propose(run, A)
        settle(run, A, 0.75)
        tell(run, "run_started", resumed=True, model="m", max_iterations=3, budget={}, sizes={})
    live.look()
    assert (live.state.tried, live.state.resumes) == (1, 2)


def test_the_best_stays_in_sight_when_many_were_settled_after_it(run: RunFolder) -> None:
    for number in range(30):
        propose(run, f"{number:012}")
        settle(run, f"{number:012}", 0.5)
    tell(run, "best_changed", id="000000000003", score=0.9, rows=16, original_score=0.5)
    shown = [c.id for c in look(run).last_settled]
    assert shown[0] == "000000000029"
    assert shown[-1] == "000000000003"
    assert len(shown) < 12


@pytest.mark.parametrize(
    "event",
    [
        {"event": "candidate_settled"},
        {"event": "candidate_settled", "id": A, "accepted": True, "score": "high", "rows": 1},
        {"event": "node_started", "node": "x", "iteration": "one"},
        {"event": "best_changed", "id": A, "score": None, "rows": 1},
        {"no": "event"},
        {"message": "x"},
        {"event": "warning", "message": "x", "code": "c"},
        {"event": ["a", "list"]},
        {"event": "of a later version", "n": 1},
    ],
)
def test_an_event_that_is_not_understood_is_passed_over(run: RunFolder, event: dict[str, object]) -> None:
    run.append_event(event)
    propose(run, B)
    assert B in look(run).candidates


def test_a_replaced_log_is_a_new_run(run: RunFolder) -> None:
    propose(run, A)
    live = LiveRun(run)
    live.look()
    run.events_path.unlink()
    tell(run, "node_started", node="analyze", iteration=2)
    live.look()
    assert (live.state.node, dict(live.state.candidates)) == ("analyze", {})


def test_an_event_that_is_none_of_ours_is_passed_over(run: RunFolder) -> None:
    """It ended the news of all runs until the page's server was started again."""
    tell(run, "run_finished", result="all is well")
    tell(run, "run_started", sizes=[1], budget=3)
    tell(run, "node_started", node="analyze", iteration=2)
    assert look(run).node == "analyze"


def test_a_real_run_is_read_to_its_end(tmp_path: Path) -> None:
    run = real_run(tmp_path)
    result = run.read_result()
    assert result is not None
    state = look(run)
    assert state.is_finished
    assert state.tried == result["candidates"]["tried"]
    assert state.accepted == result["candidates"]["accepted"]
    assert state.log[0].text == result["message"]
    assert 0 < state.spent["calls"] <= result["calls"]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "events.jsonl"


def add(path: Path, data: bytes) -> None:
    with path.open("ab") as stream:
        stream.write(data)


def test_a_file_that_is_not_there_yet(path: Path) -> None:
    tail = Tail(path)
    assert tail.read() == []
    path.mkdir()  # no file, but nor is it a reason to stop looking
    assert tail.read() == []
    path.rmdir()
    append_jsonl(path, [{"n": 1}])
    assert tail.read() == [{"n": 1}]
    assert tail.read() == []


@given(cuts=st.lists(st.integers(1, 200), max_size=20), texts=st.lists(st.text(), min_size=1, max_size=8))
def test_every_line_comes_once_and_whole_however_it_is_written(
    tmp_path_factory: pytest.TempPathFactory, cuts: list[int], texts: list[str]
) -> None:
    path = tmp_path_factory.mktemp("tail") / "events.jsonl"
    rows: list[dict[str, Any]] = [{"text": text} for text in texts]
    data = b"".join(json.dumps(row, ensure_ascii=True).encode() + b"\n" for row in rows)
    tail, found = Tail(path), []
    for cut in [*cuts, len(data)]:
        add(path, data[:cut])
        data = data[cut:]
        found += tail.read()
    assert found == rows


def test_half_a_line_is_not_seen_and_what_mends_it_is(path: Path) -> None:
    """A killed run leaves half a line; the resumed one cuts it off and goes on."""
    append_jsonl(path, [{"n": 1}])
    add(path, b'{"n": 2, "text": "hal')
    tail = Tail(path)
    assert tail.read() == [{"n": 1}]
    append_jsonl(path, [{"n": 3}])
    assert tail.read() == [{"n": 3}]
    assert not tail.is_restarted


def test_a_file_that_was_replaced_is_read_from_its_start(path: Path) -> None:
    append_jsonl(path, [{"n": 1}, {"n": 2}])
    tail = Tail(path)
    tail.read()
    write_jsonl(path, [{"n": 1}, {"n": 2}, {"n": 3}])
    assert [row["n"] for row in tail.read()] == [1, 2, 3]
    assert tail.is_restarted


def test_a_file_that_was_cut_is_read_from_its_start(path: Path) -> None:
    append_jsonl(path, [{"n": 1}, {"n": 2}])
    tail = Tail(path)
    tail.read()
    path.write_bytes(b'{"n": 1}\n')
    assert tail.read() == [{"n": 1}]
    assert tail.is_restarted
    assert tail.read() == []
    assert not tail.is_restarted


@pytest.mark.parametrize(
    "line", [b"no json", b"[1]", b"null", b"\xff\xfe", b"[" * 100_000, b"", b'{"n": NaN']
)
def test_a_damaged_line_is_passed_over(path: Path, line: bytes) -> None:
    add(path, line + b'\n{"n": 1}\n')
    assert Tail(path).read() == [{"n": 1}]


def test_a_link_is_not_followed(path: Path, tmp_path: Path) -> None:
    secret = tmp_path / "secret.jsonl"
    append_jsonl(secret, [{"password": "hunter2"}])
    path.symlink_to(secret)
    assert Tail(path).read() == []
