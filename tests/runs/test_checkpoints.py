import operator
import sqlite3
import threading
from contextlib import closing
from pathlib import Path
from typing import Annotated, Any, TypedDict

import pytest
from fakes import disk_full_error
from langgraph.checkpoint.sqlite import SqliteSaver

from autoprompt.errors import StoreError
from autoprompt.runs.session import open_checkpointer
from autoprompt.text.machine import machine_problem

CONFIG: Any = {"configurable": {"thread_id": "run"}, "recursion_limit": 1000}


class State(TypedDict, total=False):
    step: int
    text: str
    last: int


class Sum(TypedDict):
    total: Annotated[int, operator.add]


def loop(fail_at: int | None = None) -> Any:
    """A graph that counts to `last`, with 20 kB of state."""
    from langgraph.graph import END, START, StateGraph

    def count(state: State) -> State:
        step = state.get("step", 0) + 1
        if step == fail_at:
            raise ZeroDivisionError
        return {"step": step, "text": str(step % 10) * 20_000}

    graph = StateGraph(State)
    graph.add_node("count", count)
    graph.add_edge(START, "count")
    graph.add_conditional_edges("count", lambda state: END if state["step"] >= state["last"] else "count")
    return graph


def size_after(path: Path, steps: int) -> int:
    """Bytes of all files while the checkpointer is open: write-ahead log included."""
    with open_checkpointer(path) as saver:
        loop().compile(checkpointer=saver).invoke({"last": steps}, CONFIG)
        return sum(file.stat().st_size for file in path.parent.iterdir())


def test_the_files_do_not_grow_with_the_steps(tmp_path: Path) -> None:
    few, many = size_after(tmp_path / "a" / "c.sqlite", 10), size_after(tmp_path / "b" / "c.sqlite", 120)
    assert many < few * 1.5
    assert many < 120 * 20_000 / 2  # one copy of the state a step would be more


def test_an_interrupted_graph_goes_on_where_it_was(tmp_path: Path) -> None:
    path = tmp_path / "c.sqlite"
    with open_checkpointer(path) as saver, pytest.raises(ZeroDivisionError):
        loop(fail_at=30).compile(checkpointer=saver).invoke({"last": 40}, CONFIG)
    with open_checkpointer(path) as saver:
        graph = loop().compile(checkpointer=saver)
        assert graph.get_state(CONFIG).values["step"] == 29
        assert graph.invoke(None, CONFIG)["step"] == 40


def test_what_a_parallel_node_has_done_is_not_done_again(tmp_path: Path) -> None:
    from langgraph.graph import START, StateGraph

    calls: list[str] = []
    is_broken, other_is_done = True, threading.Event()

    def good(state: Sum) -> Sum:
        calls.append("good")
        other_is_done.set()
        return {"total": 1}

    def bad(state: Sum) -> Sum:
        calls.append("bad")
        if is_broken:
            assert other_is_done.wait(10)
            raise ZeroDivisionError
        return {"total": 10}

    graph = StateGraph(Sum)
    for name, node in (("good", good), ("bad", bad)):
        graph.add_node(name, node)
        graph.add_edge(START, name)
    with open_checkpointer(tmp_path / "c.sqlite") as saver, pytest.raises(ZeroDivisionError):
        graph.compile(checkpointer=saver).invoke({"total": 0}, CONFIG, durability="sync")
    is_broken = False
    with open_checkpointer(tmp_path / "c.sqlite") as saver:
        assert graph.compile(checkpointer=saver).invoke(None, CONFIG)["total"] == 11
    assert calls.count("bad") == 2


def test_two_threads_are_pruned_each_for_itself(tmp_path: Path) -> None:
    path = tmp_path / "c.sqlite"
    other: Any = {"configurable": {"thread_id": "other"}}
    with open_checkpointer(path) as saver:
        graph = loop().compile(checkpointer=saver)
        graph.invoke({"last": 3}, other)
        graph.invoke({"last": 20}, CONFIG)
        assert graph.get_state(other).values["step"] == 3
        assert graph.get_state(CONFIG).values["step"] == 20
    with closing(sqlite3.connect(path)) as connection:
        rows = connection.execute("SELECT thread_id, count(*) FROM checkpoints GROUP BY 1").fetchall()
    assert dict(rows) == {"run": 2, "other": 2}


def test_no_warning_and_no_log_line_for_plain_state(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    size_after(tmp_path / "c.sqlite", 3)
    with open_checkpointer(tmp_path / "c.sqlite") as saver:
        assert loop().compile(checkpointer=saver).get_state(CONFIG).values["step"] == 3
    assert caplog.text == ""


def test_another_file_is_not_taken_for_checkpoints(tmp_path: Path) -> None:
    path = tmp_path / "c.sqlite"
    path.write_text("not a database at all " * 100)
    with pytest.raises(StoreError, match=r"c\.sqlite: not a checkpoint file"), open_checkpointer(path):
        pass


def test_a_full_disk_does_not_invite_to_delete_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(saver: SqliteSaver) -> None:
        raise disk_full_error()

    monkeypatch.setattr(SqliteSaver, "setup", full)
    with (
        pytest.raises(StoreError, match="no space is left on the disk"),
        open_checkpointer(tmp_path / "c.sqlite"),
    ):
        pass


def test_an_error_of_input_and_output_may_be_a_full_disk() -> None:
    """So SQLite says where there is no room for its shared memory: `SQLITE_IOERR_SHMSIZE`."""
    error = sqlite3.OperationalError("disk I/O error")
    assert machine_problem(error) is None
    error.sqlite_errorname = "SQLITE_IOERR_SHMSIZE"
    assert "or is full" in str(machine_problem(error))
