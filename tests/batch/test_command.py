"""`autoprompt batch` and `resume` as a user calls them, with an endpoint on the loopback."""

from __future__ import annotations

import io
import json
import re
from dataclasses import replace
from typing import Any

import pytest
from batches import Home
from fake_endpoint import FakeEndpoint
from rich.console import Console
from typer.testing import CliRunner, Result

from autoprompt.batch.events import BatchSpent, BatchStarted, TrialEnded, TrialEvent, TrialStarted
from autoprompt.batch.table import BatchResult, Row, group_rows
from autoprompt.cli import app
from autoprompt.cli.batch import BatchView, print_parts, result_table
from autoprompt.cli.live import panel


def call(*arguments: object) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


@pytest.fixture(autouse=True)
def _wide(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "160")


def test_a_batch_ends_with_its_table(online: Home, endpoint: FakeEndpoint) -> None:
    path = online.write_batch(executor={"kind": "local", "jobs": 2})
    done = call("batch", path)
    assert done.exit_code == 0, done.output
    assert "batch b: 2 trials, 0 finished already, 2 to run" in done.stderr
    assert "2 trials: 2 finished" in done.stdout
    assert re.search(rf"{len(endpoint.requests)} calls sent", done.stdout)
    asked = len(endpoint.requests)
    again = call("resume", "b", "--json", "--quiet")
    data = json.loads(again.stdout)
    assert (again.exit_code, data["sent"], len(endpoint.requests)) == (0, asked, asked)
    assert [row["status"] for row in data["rows"]] == ["finished", "finished"]
    shown = call("runs", "show", "b")
    assert "2 trials: 2 finished" in shown.stdout
    assert "batch" in call("runs", "list").stdout or "b" in call("runs", "list").stdout


def test_a_dry_run_sends_and_writes_nothing(online: Home, endpoint: FakeEndpoint) -> None:
    path = online.write_batch(max_calls=5000)
    done = call("batch", path, "--dry-run", "--max-calls", "100")
    assert done.exit_code == 0
    assert "2 trials to run, 0 done; at most" in done.stdout
    assert "max_calls=100 of the batch is less than" in done.stdout
    data = json.loads(call("batch", path, "--dry-run", "--json").stdout)
    assert data["total"]["calls"] == sum(trial["calls"] for trial in data["trials"]) > 0
    assert not endpoint.requests
    assert not online.runs_dir.exists()


def test_a_cap_that_is_none_is_named_by_its_flag(online: Home) -> None:
    done = call("batch", online.write_batch(), "--dry-run", "--max-calls", "0")
    assert (done.exit_code, done.stdout) == (2, "")
    assert "--max-calls: expected a number above 0, found 0" in done.stderr


def test_a_dry_run_says_what_the_budget_has_no_room_for(online: Home, endpoint: FakeEndpoint) -> None:
    defaults = online.defaults(no_cache=True)
    first = online.write_batch(seeds=[0], defaults=defaults)
    assert "1 trial to run, 0 done; at most" in call("batch", first, "--dry-run").stdout
    assert call("batch", first).exit_code == 0
    more = online.write_batch(seeds=[0, 1], max_calls=len(endpoint.requests) + 50, defaults=defaults)
    told = call("batch", more, "--dry-run").stdout
    assert "0 trials to run, 1 done, 1 without room; at most 0 calls" in told
    assert re.search(r"seed-1-\S+ +1 +no room", told)
    assert re.search(r"1 trial would not run: the batch's budget \(max_calls=\d+\) is too small", told)
    data = json.loads(call("batch", more, "--dry-run", "--json").stdout)
    assert [(trial["is_done"], trial["has_room"]) for trial in data["trials"]] == [
        (True, True),
        (False, False),
    ]
    assert "2 trials: 1 finished, 1 not run" in call("batch", more).stdout
    enough = online.write_batch(seeds=[0, 1], max_calls=len(endpoint.requests) + 120, defaults=defaults)
    assert "1 trial to run, 1 done; at most" in call("batch", enough, "--dry-run").stdout


def test_one_trial_that_is_no_longer_asked_for_is_one(online: Home) -> None:
    call("batch", online.write_batch(seeds=[0, 1]))
    done = call("batch", online.write_batch(seeds=[1]))
    assert "1 trial in runs/b is not in this batch and stays there: seed-0-" in done.stderr
    assert "1 trial: 1 finished" in done.stdout


def test_a_dry_run_away_from_a_terminal_names_whole_ids_and_the_place(
    online: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    prompts = [f"Decide A or B, {'with great care' * n}." for n in (1, 2)]
    path = online.write(defaults=online.defaults(), matrix={"prompt": prompts, "seed": [0, 1]})
    told = call("batch", path, "--dry-run").stdout
    data = json.loads(call("batch", path, "--dry-run", "--json").stdout)
    assert [line.split()[0] for line in told.splitlines()[2:6]] == [row["trial"] for row in data["trials"]]
    assert max(len(row["trial"]) for row in data["trials"]) > 50
    assert "results would be in runs/b; nothing was sent" in told
    assert data["run_dir"] == "runs/b"


def test_a_dry_run_without_a_cache_shares_nothing(online: Home) -> None:
    sentence = "Requests that trials share are sent once"
    assert sentence in call("batch", online.write_batch(), "--dry-run").stdout
    alone = online.write_batch(defaults=online.defaults(no_cache=True))
    assert sentence not in call("batch", alone, "--dry-run").stdout


def test_away_from_a_terminal_no_number_of_the_table_is_broken(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    print_parts(result_table(result(rows(3))))
    text = capsys.readouterr().out
    assert text.count("+0.100..+0.400") == 3
    assert "0.750 ± 0.000" in text


def test_a_failed_trial_is_exit_code_1_and_a_row(online: Home) -> None:
    path = online.write(defaults=online.defaults(), include=[{"prompt": "refuse"}, {"seed": 1}])
    done = call("batch", path)
    assert done.exit_code == 1
    assert "this is refused" in done.stdout
    assert "2 trials: 1 finished, 1 failed" in done.stdout
    rows = (online.runs_dir / "b" / "table.csv").read_text(encoding="utf-8").splitlines()
    assert len(rows) == 3


def test_what_a_cap_had_no_room_for_wants_a_larger_one_and_no_resume(online: Home) -> None:
    done = call("batch", online.write_batch(max_calls=10))
    assert done.exit_code == 1
    assert "2 trials: 2 not run" in done.output
    assert "Resume: raise the limit where you gave it, and run the same command again" in done.output
    assert "autoprompt resume" not in done.output


def test_one_bad_file_among_ten_is_named_before_anything_is_sent(
    online: Home, endpoint: FakeEndpoint
) -> None:
    files = [online.write(f"c{n}.yaml", **online.defaults(seed=n)) for n in range(9)]
    bad = online.path / "bad.yaml"
    bad.write_text("dataset: rows.jsonl\nprompt: A or B?\nmax_val: none\n", encoding="utf-8")
    done = call("batch", *files, bad)
    assert done.exit_code == 3
    assert "bad.yaml line 3: max_val: expected a whole number, found 'none'" in done.stderr
    assert not endpoint.requests
    assert not online.runs_dir.exists()


def test_only_and_json(online: Home) -> None:
    done = call("batch", online.write_batch(), "--only", "seed=1", "--json", "--quiet")
    assert done.exit_code == 0
    assert json.loads(done.stdout)["trials"] == {
        "finished": 1, "failed": 0, "interrupted": 0, "running": 0, "waiting": 1, "not run": 0,
    }  # fmt: skip


def test_a_run_of_a_kind_that_is_not_known_cannot_go_on(home: Home) -> None:
    folder = home.runs_dir / "x"
    folder.mkdir(parents=True)
    info = {"schema_version": 3, "run_id": "x", "kind": "dream", "created": ""}
    (folder / "run.json").write_text(json.dumps(info), encoding="utf-8")
    done = call("resume", "x")
    assert done.exit_code == 3
    assert "unknown kind 'dream'" in done.stderr


def rows(count: int, **more: Any) -> tuple[Row, ...]:
    facts: dict[str, Any] = {"original": 0.5, "best": 0.75, "gain": 0.25, "gain_ci95": (0.1, 0.4),
                             "verdict": "confirmed", "calls": 1234, "tokens": 5, "cost_usd": 0.5,
                             "seconds": 62.0, "sent": 1000}  # fmt: skip
    return tuple(
        Row(
            f"quick-seed-{n}-0000{n}",
            {"preset": "quick", "seed": n},
            "finished",
            "started",
            1,
            **{**facts, **more},
        )
        for n in range(count)
    )


def printed(found: BatchResult, width: int = 110) -> str:
    console = Console(
        width=width, markup=False, emoji=False, highlight=False, record=True, file=io.StringIO()
    )
    for part in result_table(found):
        console.print(part)
    return console.export_text()


def result(found: tuple[Row, ...]) -> BatchResult:
    return BatchResult("b", "runs/b", found, 2000, 9, 1.0, 65.0, (), tuple(group_rows(found)))


def test_the_table_fits_its_width() -> None:
    text = printed(result(rows(3)))
    assert "quick" not in text.splitlines()[0]
    assert "3 trials: 3 finished" in text
    assert max(map(len, text.splitlines())) <= 110
    assert "0.750 ± 0.000" in text
    assert "+0.100..+0.400" in text


def test_what_was_paid_is_told_or_said_to_be_unknown() -> None:
    known = result(rows(1))
    assert "2,000 calls sent, 9 tokens, $1.00 paid, 1:05 in all" in printed(known)
    unknown = replace(known, paid_usd=None)
    assert "2,000 calls sent, 9 tokens, cost unknown, 1:05 in all" in printed(unknown)


def test_two_hundred_trials_stay_readable() -> None:
    found = (
        *rows(199),
        Row("broken-1", {"preset": "quick", "seed": 9}, "failed", error="no\x1b[31m such model"),
    )
    text = printed(result(found))
    assert len(text.splitlines()) < 30
    assert "199 of 200" in text
    assert "broken-1 failed: no[31m such model" in text
    assert len(result(found).to_csv().splitlines()) == 201


def test_the_live_view_shows_running_trials_and_keeps_its_height() -> None:
    progress = BatchView(lambda: 10.0)
    found = result(rows(2))
    started = BatchStarted("b", "runs/b", 60, 0, 60, "local", {"max_calls": 1000})
    progress.add(started.to_dict())
    for n in range(50):
        progress.add(TrialStarted(f"t{n}", 1).to_dict())
    event = {"event": "rows_evaluated", "what": "rows", "done": 7, "total": 9}
    progress.add(TrialEvent("t0", event).to_dict())
    progress.add(BatchSpent(321, 9, 0.0, 1.0).to_dict())
    progress.add(TrialEnded("t1", found.rows[0]).to_dict())
    console = Console(width=80, height=24, markup=False, record=True, file=io.StringIO())
    console.print(panel(progress, width=77, height=24))
    text = console.export_text()
    assert len(text.splitlines()) <= 24
    assert "7/9" in text
    assert "1 of 60 trials" in text
    assert "321 of 1,000 calls, 9 tokens, $0.00 sent" in text
    assert "more" in text


def test_what_a_call_costs_has_a_column_if_it_is_known_and_what_matters_less_makes_room() -> None:
    assert "1,000 calls" not in printed(result(rows(3)))
    known = result(rows(3, call_cost=0.0012, call_unit="usd"))
    wide, narrow = printed(known, width=160), printed(known, width=105)
    for text in (wide, narrow):
        assert text.count("1,000 calls") == 2  # of the groups and of the trials
        assert "$1.20" in text
        assert "0.750 ± 0.000" in text
    assert " sent " in wide
    assert " sent " not in narrow
