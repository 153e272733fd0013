"""What a person sees while a run goes on: plain lines at intervals, and the panel."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from autoprompt.cli.live import RunView, panel, watching
from autoprompt.cli.render import warning_line
from autoprompt.report.numbers import duration, megabytes, money

STARTED = {
    "event": "run_started",
    "run_id": "r1",
    "run_dir": "runs/r1",
    "resumed": False,
    "model": "local",
    "optimizer_model": "local",
    "sizes": {"train": 4, "val": 3, "test": 3},
    "max_iterations": 2,
    "plan": {
        "blocks": [3],
        "fresh": 0,
        "candidates": 4,
        "writers": 1,
        "analyst_calls": 1,
        "patience": 2,
        "train_batch": 4,
        "calls_per_row": 1,
    },
    "budget": {"max_calls": 100, "max_tokens": None, "max_cost": 0.5, "max_seconds": None},
    "warnings": [],
}


CONFIRMATION = {
    "event": "confirmation",
    "candidate": "abcdef012345",
    "confirmed": True,
    "p_value": 0.003,
    "tried": 7,
    "basis": "both",
    "chances": 3.5,
    "raced": {"rows": 10, "groups": 10, "score": 1.0, "other_score": 0.5},
    "fresh": {"rows": 20, "groups": 20, "score": 0.9, "other_score": 0.5},
}


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def rows(done: int, total: int = 30, **spent: Any) -> dict[str, Any]:
    spent = {"calls": done, "tokens": 10 * done, "cost_usd": 0.0, "seconds": 1.0, **spent}
    return {
        "event": "rows_evaluated",
        "what": "race",
        "candidate": "c",
        "done": done,
        "total": total,
        "spent": spent,
    }


def settled(*, accepted: bool) -> dict[str, Any]:
    return {
        "event": "candidate_settled",
        "id": "abcdef012345",
        "accepted": accepted,
        "score": 0.71,
        "rows": 30,
        "parent_score": 0.6,
        "p_value": 0.012,
    }


RUNG = {
    "event": "rung_ended",
    "rows": 16,
    "ran": 8,
    "kept": 4,
    "is_last": False,
    "is_ahead": True,
    "leader": "abcdef012345",
    "score": 0.8125,
    "best_score": 0.5,
}


def plain(width: int = 200) -> tuple[Console, io.StringIO]:
    out = io.StringIO()
    return Console(file=out, width=width, markup=False, highlight=False, emoji=False, color_system=None), out


def test_rows_are_told_at_intervals() -> None:
    console, out = plain()
    clock = Clock()
    with watching(console, RunView(clock), quiet=False) as (_, emit):
        for done in range(1, 31):
            clock.now += 1.0
            emit(rows(done))
    told = out.getvalue().splitlines()
    assert [line.split(";")[0] for line in told] == ["  race: 20 of 30 rows", "  race: 30 of 30 rows"]


def test_each_step_is_a_line() -> None:
    console, out = plain()
    with watching(console, RunView(), quiet=False) as (_, emit):
        emit(STARTED)
        emit({"event": "node_started", "node": "predict", "iteration": 1})
        emit({"event": "node_started", "node": "analyze", "iteration": 1})
        emit({"event": "analysis", "error_count": 2, "total_count": 4, "suggestions": ""})
        emit(
            {
                "event": "candidate_proposed",
                "id": "abcdef012345",
                "operator": "patch",
                "parents": [],
                "change": "x",
            }
        )
        emit({"event": "candidate_refused", "operator": "rewrite", "reason": "too long"})
        emit({"event": "candidate_refused", "id": "0123456789ab", "operator": "cues", "reason": "too dear"})
        emit(RUNG)
        emit({**RUNG, "best_score": 0.875})
        emit({**RUNG, "rows": 30, "is_last": True, "is_ahead": False})
        emit(settled(accepted=True))
        emit(
            {"event": "best_changed", "id": "abcdef012345", "score": 0.71, "rows": 30, "original_score": 0.6}
        )
        emit({"event": "lesson", "text": "numbers help"})
        emit(CONFIRMATION)
        emit({"event": "run_finished", "result": {}})
        emit({"event": "of a later version"})
    assert out.getvalue().splitlines() == [
        "run r1 started: local; rows: 4 train, 3 val, 3 test",
        "round 1: measuring candidates",
        "2 of 4 train rows wrong",
        "try abcdef (patch): x",
        "refused before any call (rewrite): too long",
        "refused 012345 before any call (cues): too dear",
        "after 16 rows 4 of 8 go on; abcdef (0.812) is ahead of the best so far (0.500)",
        "after 16 rows 4 of 8 go on; abcdef (0.812) leads the best so far (0.875) by its confidence",
        "after 30 rows the race is over; none is ahead of the best so far (0.500)",
        "accepted abcdef: 0.710 against 0.600 on 30 rows, p = 0.012",
        "best so far: abcdef, 0.710 on 30 validation rows (original 0.600)",
        "lesson: numbers help",
        "winner abcdef is better than the original: 0.900 against 0.500 on 20 fresh rows; "
        "with the race p = 0.0030, after 7 candidates",
    ]


def test_quiet_keeps_warnings_and_texts_cannot_steer_the_terminal() -> None:
    console, out = plain()
    with watching(console, RunView(), quiet=True) as (progress, emit):
        emit(STARTED)
        emit({"event": "warning", "message": "[bold]a\x1b[31m\x07\u202eb\u0085"})
    assert out.getvalue() == "warning: [bold]a[31mb\n"
    assert progress.run_id == "r1"


@pytest.mark.parametrize("quiet", [True, False])
@pytest.mark.parametrize("is_terminal", [True, False])
def test_warnings_about_the_data_are_said_at_the_start(quiet: bool, is_terminal: bool) -> None:
    out = io.StringIO()
    console = Console(
        file=out, width=200, force_terminal=is_terminal, color_system=None, _environ={"TERM": "xterm"}
    )
    with watching(console, RunView(), quiet=quiet) as (progress, emit):
        emit({**STARTED, "warnings": [{"message": "few \x1brows"}]})
        emit({"event": "warning", "message": "a slow model"})
    assert "warning: few rows\n" in out.getvalue()
    assert "warning: a slow model\n" in out.getvalue()
    assert progress.shown == {"few \x1brows", "a slow model"}


def test_a_file_of_the_working_folder_has_one_name_before_and_after_a_resume(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    said = "data/t.csv: 3 rows dropped"
    assert warning_line(said).plain == warning_line(f"{tmp_path}/{said}").plain == f"warning: {said}"
    assert warning_line(f"other{tmp_path}/t.csv: x").plain == f"warning: other{tmp_path}/t.csv: x"
    assert warning_line(f"{tmp_path}2/t.csv: x").plain == f"warning: {tmp_path}2/t.csv: x"
    monkeypatch.chdir("/")
    assert warning_line("/data/t.csv: x").plain == "warning: /data/t.csv: x"


def test_an_analysis_of_no_rows_is_not_told() -> None:
    assert RunView().add({"event": "analysis", "error_count": 0, "total_count": 0}) == []


def test_a_download_is_told_at_its_end_and_in_between() -> None:
    console, out = plain()
    clock = Clock()
    event = {"event": "weights_progress", "total_bytes": 10**9, "what": "w"}
    with watching(console, RunView(clock), quiet=False) as (_, emit):
        for done in range(1, 11):
            clock.now += 5
            emit({**event, "done_bytes": done * 10**8})
    assert out.getvalue().splitlines() == [
        "  w: 400 MB of 1.00 GB (40%)",
        "  w: 800 MB of 1.00 GB (80%)",
        "  w: 1.00 GB of 1.00 GB (100%)",
    ]


def test_the_panel() -> None:
    clock = Clock()
    progress = RunView(clock)
    progress.add(STARTED)
    progress.add({"event": "node_started", "node": "predict", "iteration": 1})
    for done in range(1, 16):
        clock.now += 0.5
        progress.add({**rows(done, cost_usd=0.012), "what": "train rows of the best"})
    progress.add(settled(accepted=False))
    progress.add(
        {"event": "best_changed", "id": "abcdef012345", "score": 0.7, "rows": 30, "original_score": 0.6}
    )
    console, out = plain(90)
    console.print(panel(progress))
    assert out.getvalue() == PANEL


def test_the_panel_while_weights_come() -> None:
    progress = RunView(Clock())
    event = {
        "event": "weights_progress",
        "done_bytes": 5 * 10**8,
        "total_bytes": 10**9,
        "what": "qwen: from the hub",
    }
    progress.add(event)
    console, out = plain(70)
    console.print(panel(progress))
    assert "qwen: from the hub" in out.getvalue()
    assert "500 MB of 1.00 GB" in out.getvalue()


def test_a_candidate_without_rows_has_no_score() -> None:
    (line,) = RunView().add(
        {**settled(accepted=False), "rows": 0, "score": 0.0, "parent_score": 0.0, "p_value": 1.0}
    )
    assert line.text == "dropped abcdef: the budget ended before it was measured"


def test_words_for_numbers() -> None:
    assert [duration(s) for s in (7.4, 750, 3723)] == ["0:07", "12:30", "1:02:03"]
    assert [megabytes(b) for b in (358_000, 5 * 10**6, 1_117_320_768)] == ["358 kB", "5 MB", "1.12 GB"]
    assert [money(c) for c in (None, 0.0, 0.0123, 1.5)] == ["unknown", "$0.00", "$0.0123", "$1.50"]


PANEL = """\
╭─ autoprompt r1 ────────────────────────────────────────────────────────────────────────╮
│ step        round 1 of at most 2: measuring candidates                                 │
│             ━━━━━━━━━━━━━━━                15/30 rows, 2.0/s  train rows of the best   │
│ validation  0.700 best, 0.600 original (+0.100)                                        │
│ candidates  1 measured, 0 accepted                                                     │
│ spent       15 of 100 calls, 150 tokens, $0.0120 of $0.50                              │
│ time        0:08; 0:08 left in this step, about 0:31 to the end                        │
│                                                                                        │
│ run r1 started: local; rows: 4 train, 3 val, 3 test                                    │
│ dropped abcdef: 0.710 against 0.600 on 30 rows, p = 0.012                              │
│ best so far: abcdef, 0.700 on 30 validation rows (original 0.600)                      │
╰──────────────────────────────────────────────────────────────────────────────── local ─╯
"""
