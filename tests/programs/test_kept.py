"""A resumed run runs no finished row again, and knows whether its program is still the same."""

from __future__ import annotations

import sys
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import ticket_desk
from desk_model import desk_config, desk_model
from fake_endpoint import FakeEndpoint

import autoprompt
from autoprompt.programs import scope
from autoprompt.programs.kept import FinishedRows, Result, ToolResults
from autoprompt.programs.program import changed_parts, parts_of
from autoprompt.records import Candidate, Demo, Prediction, Step, Usage


class Killed(BaseException):
    """As if the process had been killed."""


@pytest.fixture
def endpoint(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeEndpoint]:
    with desk_model(monkeypatch) as found:
        yield found


def test_a_resumed_run_neither_runs_finished_rows_nor_tries_the_program_again(
    tmp_path: Path, endpoint: FakeEndpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran: Counter[str] = Counter()

    def desk(text: str) -> str:
        ran[text] += 1
        return ticket_desk.desk(text)

    for name in ("whole", "killed"):
        (tmp_path / name).mkdir()
    whole = autoprompt.optimize(desk_config(tmp_path / "whole", concurrency=1), program=desk)
    sent, ran_whole = len(endpoint.requests), ran.copy()
    ran.clear()
    asked, calls = scope.RowScope.ask, 0

    def ask(row: scope.RowScope, call: scope.Call) -> Any:
        nonlocal calls
        calls += 1
        if calls in (24, 60, 200):  # soon after the trial, in a race, later
            raise Killed
        return asked(row, call)

    monkeypatch.setattr(scope.RowScope, "ask", ask)
    runs = tmp_path / "killed" / "runs"
    with pytest.raises(Killed):
        autoprompt.optimize(desk_config(tmp_path / "killed", concurrency=1), program=desk)
    for _ in range(2):
        with pytest.raises(Killed):
            autoprompt.resume("last", runs_dir=runs, program=desk)
    result = autoprompt.resume("last", runs_dir=runs, program=desk)
    assert result.best == whole.best
    assert result.to_dict()["calls"] == whole.to_dict()["calls"]  # type: ignore[union-attr]
    assert len(endpoint.requests) == 2 * sent
    assert sum(ran.values()) == sum(ran_whole.values()) + 3  # the rows that a kill cut off


def prediction(text: str) -> Prediction:
    step = Step("route", ("a",), "in", text, can_demo=True)
    return Prediction(
        text, text, Usage(3, 2, None), trace=(step,), output={"queue": [text]}, failure="step failed"
    )


def test_rows_are_known_by_texts_demonstrations_and_source(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    demo = Demo("in", "out", component="a")
    candidates = [Candidate({"a": "A"}), Candidate({"a": "B"}), Candidate({"a": "A"}, (demo,))]
    rows = FinishedRows(path, "one")
    for number, candidate in enumerate(candidates):
        rows.keep(candidate, "row", prediction(f"said {number}"), [f"key {number}"])
    rows.keep(candidates[0], "failed", Prediction("", None, error="no"), [])
    rows.keep(candidates[0], "odd", Prediction("x", "x", output=object()), [])
    with path.open("a") as stream:
        stream.write('{"key": "torn')
    again = FinishedRows(path, "one")
    for number, candidate in enumerate(candidates):
        found = again.find(candidate, "row")
        assert found is not None
        assert found.prediction == prediction(f"said {number}")
        assert found.calls == (f"key {number}",)
    assert [again.find(candidates[0], row) for row in ("failed", "odd", "other")] == [None] * 3
    assert FinishedRows(path, "another").find(candidates[0], "row") is None
    again.keep(candidates[0], "next", prediction("after the torn line"), [])
    last = FinishedRows(path, "one").find(candidates[0], "next")
    assert last is not None
    assert last.prediction.text == "after the torn line"


def test_equal_tool_calls_of_two_candidates_run_once(tmp_path: Path) -> None:
    results, ran, given = ToolResults(), [], []
    is_running, may_end = threading.Event(), threading.Event()

    def call() -> None:
        while not isinstance(found := results.begin("key", None), Result):
            if found is not None:
                found.result(5)
                continue
            ran.append(1)
            is_running.set()
            may_end.wait(5)
            results.keep("key", 7)
            results.end("key")
            return
        given.append(found.value)

    threads = [threading.Thread(target=call) for _ in range(3)]
    threads[0].start()
    assert is_running.wait(5)
    for thread in threads[1:]:
        thread.start()
    may_end.set()
    for thread in threads:
        thread.join(5)
    assert (ran, given) == ([1], [7, 7])


def test_the_source_is_what_is_imported_installed_packages_by_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "shop_a").mkdir()
    (tmp_path / "shop_a" / "__init__.py").write_text("")
    (tmp_path / "shop_a" / "graph.py").write_text(
        "import json\nimport httpx\nfrom .texts import SYSTEM\n"
        "def app(text):\n    from shop_a import late\n    return SYSTEM\n"
    )
    (tmp_path / "shop_a" / "texts.py").write_text("SYSTEM = 'a'\n")
    (tmp_path / "shop_a" / "late.py").write_text("import numpy.random\n")
    (tmp_path / "shop_a" / "other.py").write_text("")  # nobody imports it
    monkeypatch.syspath_prepend(tmp_path)
    import shop_a.graph  # type: ignore[import-not-found]

    before = parts_of("shop_a.graph:app", shop_a.graph.app)
    assert {"shop_a.graph", "shop_a.texts", "shop_a.late", "httpx"} <= before.keys()
    assert not {"json", "shop_a.other", "pytest"} & before.keys()
    assert before["httpx"].count(".") == 2
    (tmp_path / "shop_a" / "late.py").write_text("import numpy.linalg\n")
    now = parts_of("shop_a.graph:app", shop_a.graph.app)
    assert changed_parts(before, now) == ["shop_a.late"]
    for name in [name for name in sys.modules if name.partition(".")[0] == "shop_a"]:
        del sys.modules[name]
