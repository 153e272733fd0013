"""A batch from start to end in one process, with scripted models: what runs, is skipped, and is spent."""

from __future__ import annotations

import errno
import json
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from batches import Home, mortal, scripted, solve
from fakes import write_rows
from waiting import wait_until

from autoprompt import Models, RunConfig, optimize, resume
from autoprompt.batch import BatchResult, plan_batch, resume_batch, run_batch
from autoprompt.batch.folder import BatchFolder
from autoprompt.batch.run import stand
from autoprompt.errors import ConfigError, EndpointError, Interrupted, StoreError
from autoprompt.llm import Message, ScriptedClient
from autoprompt.llm.client import Completion
from autoprompt.llm.limits.ledger import Caps
from autoprompt.records import Usage
from autoprompt.runs import RunStore
from autoprompt.settings.records import Budget


def run(home: Home, path: Path, *, models: Models | None = None, **more: Any) -> BatchResult:
    chosen = models or scripted()
    return run_batch(
        [path], runs_dir=home.runs_dir, models=chosen, on_event=home.events.append, environ={}, **more
    )


def asked(models: Models) -> int:
    assert isinstance(models.task, ScriptedClient)
    return len(models.task.calls)


def facts(result: BatchResult) -> list[tuple[Any, ...]]:
    return [(r.trial, r.status, r.original, r.best, r.gain_ci95, r.calls, r.tokens) for r in result.rows]


def test_every_trial_is_a_run_and_a_row(home: Home) -> None:
    result = run(home, home.write_batch(seeds=(0, 1, 2), name="b.yaml"))
    assert [row.status for row in result.rows] == ["finished"] * 3
    assert result.is_complete
    folder = home.runs_dir / "b"
    assert len((folder / "table.csv").read_text(encoding="utf-8").splitlines()) == 4
    assert json.loads((folder / "table.json").read_text(encoding="utf-8"))["trials"]["finished"] == 3
    assert RunStore(folder).open(result.rows[0].trial).read_result() is not None
    (line,) = RunStore(home.runs_dir).list()
    assert (line.kind, line.status, line.run_id, line.calls) == ("batch", "finished", "b", result.sent)


def test_what_trials_share_is_sent_once_and_counts_for_each(home: Home) -> None:
    models = scripted()
    result = run(home, home.write_batch(), models=models)
    assert result.sent == asked(models)
    one, other = result.rows
    assert one.calls is not None
    assert other.calls is not None
    assert one.sent == one.calls
    assert other.sent < other.calls


def test_what_an_unpriced_model_was_paid_is_not_known(home: Home) -> None:
    def speak(messages: list[Message]) -> Completion:
        return Completion(solve(messages[0].content, messages[-1].content), Usage(10, 1, None))

    result = run(home, home.write_batch(), models=Models(ScriptedClient(speak, identity="world")))
    assert [row.paid_usd for row in result.rows] == [None, None]
    assert result.paid_usd is None
    assert [event["row"]["paid_usd"] for event in home.told("trial_ended")] == [None, None]
    copied = run(home, home.write_batch("again.yaml"), models=Models(ScriptedClient([], identity="world")))
    assert (copied.sent, copied.paid_usd) == (0, 0.0)


def test_what_an_unpriced_model_was_paid_is_not_known_of_a_trial_that_failed(home: Home) -> None:
    number = 0

    def speak(messages: list[Message]) -> Completion:
        nonlocal number
        number += 1
        if number > 30:
            raise EndpointError("it is gone", is_fatal=True)
        return Completion(solve(messages[0].content, messages[-1].content), Usage(10, 1, None))

    models = Models(ScriptedClient(speak, identity="world"))
    path = home.write_batch()
    first = run(home, path, models=models, fail_fast=True).rows[0]
    assert (first.status, first.paid_usd) == ("failed", None)
    again = run(home, path, only=["seed=1"]).rows[0]
    assert (again.status, again.paid_usd) == ("failed", None)


def test_a_trial_finds_the_same_alone_and_after_others(home: Home) -> None:
    """Neither the answers nor the lessons of its neighbours sway it."""
    both = run(home, home.write_batch())
    alone = run(home, home.write_batch("alone.yaml", seeds=(1,)))
    assert facts(alone)[0][1:] == facts(both)[1][1:]


def test_finished_trials_are_skipped(home: Home) -> None:
    path = home.write_batch()
    first = run(home, path)
    models = scripted()
    again = run(home, path, models=models)
    assert asked(models) == 0
    assert facts(again) == facts(first)
    more = run(home, home.write_batch(seeds=(2, 1, 0)), models=models)
    assert {row.trial: row.attempts for row in more.rows} == {row.trial: 1 for row in more.rows}
    assert sorted(facts(more))[:2] == sorted(facts(first))


def test_only_some(home: Home) -> None:
    result = run(home, home.write_batch(), only=["seed=1"])
    assert [row.status for row in result.rows] == ["waiting", "finished"]
    assert not result.is_complete


class Stop(BaseException):
    """As if the process had been killed here."""


def test_a_killed_batch_goes_on_and_asks_nothing_twice(home: Home) -> None:
    path = home.write_batch(seeds=(0, 1, 2))
    undisturbed = scripted()
    wanted = run(home, path, models=undisturbed, name="whole")
    for cache in (home.path / "cache").iterdir():
        cache.unlink()
    answered: list[str] = []

    def mortal(budget: int) -> Models:
        model = scripted().task

        def speak(messages: list[Message]) -> str:
            if len(answered) >= budget:
                raise Stop
            answered.append(json.dumps([m.content for m in messages]))
            return model.complete(messages).text

        return Models(ScriptedClient(speak, identity="world"))

    for budget in (30, 80, 120):
        with pytest.raises(Stop):
            run(home, path, models=mortal(budget))
    result = run(home, path, models=mortal(10_000))
    assert facts(result) == facts(wanted)
    assert len(answered) == asked(undisturbed)
    # Up to four were on the wire at each of the three kills.
    assert len(answered) + 3 <= result.sent <= len(answered) + 12
    assert any(row.how == "resumed" for row in result.rows)


def test_a_failing_trial_is_a_row_and_the_others_finish(home: Home) -> None:
    model = scripted().task

    def speak(messages: list[Message]) -> str:
        if "broken" in messages[0].content:
            raise EndpointError("the endpoint is gone; sk-abcdefghijklmnopqrstuvwx", is_fatal=True)
        return model.complete(messages).text

    path = home.write(
        defaults=home.defaults(),
        include=[{"seed": 0}, {"prompt": "broken"}, {"seed": 2}],
    )
    models = Models(ScriptedClient(speak, identity="world"))
    result = run(home, path, models=models)
    assert [row.status for row in result.rows] == ["finished", "failed", "finished"]
    assert "the endpoint is gone" in result.rows[1].error
    assert "abcdefghijkl" not in (home.runs_dir / "b" / "table.csv").read_text(encoding="utf-8")
    mended = run(home, path)
    assert [row.status for row in mended.rows] == ["finished"] * 3
    assert [row.attempts for row in mended.rows] == [1, 2, 1]


def test_a_trial_whose_model_said_nothing_is_asked_anew(home: Home) -> None:
    path = home.write_batch(seeds=(0,))
    mute = Models(ScriptedClient(lambda _: "", identity="world"))
    for _ in range(2):
        assert "the model has said nothing" in run(home, path, models=mute).rows[0].error
    models = scripted()
    (row,) = run(home, path, models=models).rows
    assert (row.status, row.how) == ("finished", "resumed")
    assert row.calls is not None
    assert asked(models) < row.calls  # the empty answers stay counted


def test_fail_fast_starts_no_more(home: Home) -> None:
    path = home.write(
        defaults=home.defaults(), fail_fast=True, include=[{"prompt": "broken"}, {"seed": 1}, {"seed": 2}]
    )
    failing = Models(ScriptedClient(lambda _: EndpointError("gone", is_fatal=True)))
    result = run(home, path, models=failing)
    assert [row.status for row in result.rows] == ["failed", "waiting", "waiting"]


def test_fail_fast_is_about_the_failures_of_this_go(home: Home) -> None:
    path = home.write_batch(seeds=(0, 1, 2))
    failing = Models(ScriptedClient(lambda _: EndpointError("gone", is_fatal=True)))
    assert len(run(home, path, models=failing).failed) == 3
    chosen = run(home, path, fail_fast=True, only=["seed=1", "seed=2"])
    assert [row.status for row in chosen.rows] == ["failed", "finished", "finished"]
    assert run(home, path, fail_fast=True).is_complete


def test_the_budget_of_the_batch_is_that_of_all_trials(home: Home) -> None:
    models = scripted()
    path = home.write_batch(seeds=range(6), max_calls=170)
    result = run(home, path, models=models)
    assert asked(models) == result.sent <= 170
    assert result.not_run
    assert all(row.best is not None for row in result.rows if row.status == "finished")
    assert "max_calls=170" in result.not_run[0].error
    done = [row for row in result.rows if row.status == "finished"]
    more = run(home, home.write_batch(seeds=range(6), max_calls=5000), models=models)
    assert more.is_complete
    assert facts(more)[: len(done)] == facts(result)[: len(done)]


def test_a_budget_that_is_given_goes_before_the_files_and_is_kept_for_resume(home: Home) -> None:
    models = scripted()
    path = home.write_batch(seeds=range(6), max_calls=5000, max_tokens=10**7)
    result = run(home, path, models=models, budget=Budget(max_calls=170))
    assert asked(models) == result.sent <= 170
    assert "max_calls=170" in result.not_run[0].error
    folder = BatchFolder.open(RunStore(home.runs_dir).open(result.name))
    assert folder.read_batch().caps == Caps(170, 10**7)
    resumed = resume_batch(result.name, runs_dir=home.runs_dir, models=models)
    assert "max_calls=170" in resumed.not_run[0].error
    again = run(home, path, models=models)
    assert asked(models) <= 170
    assert next(w for w in again.warnings if "max_calls" in w) == (
        "max_calls=170 of the earlier call still applies. To change it, give --max-calls"
    )
    assert "max_calls=170" in again.not_run[0].error
    beside = plan_batch(path, runs_dir=home.runs_dir, environ={}, budget=Budget(max_tokens=10**6))
    assert beside[0].caps == Caps(170, 10**6)
    batch, planned = plan_batch(path, runs_dir=home.runs_dir, environ={})
    assert batch.caps.max_calls == 170
    assert [p.has_room for p in planned] == [row.status == "finished" for row in result.rows]


def test_a_budget_that_is_none_is_refused(home: Home) -> None:
    with pytest.raises(ConfigError, match=r"budget: expected Budget, .*Give Budget\(max_cost=5\)"):
        run(home, home.write_batch(), budget={"max_cost": 5})
    with pytest.raises(ConfigError, match="finite"):
        Budget(max_cost=float("inf"))


def test_a_trial_that_the_batch_left_fewer_calls_than_its_own_cap_is_named(home: Home) -> None:
    defaults = home.defaults(max_calls=350, no_cache=True)
    cut = run(home, home.write_batch(seeds=[0], max_calls=100, name="cut.yaml", defaults=defaults))
    whole = run(home, home.write_batch(seeds=[0], max_calls=300, name="whole.yaml", defaults=defaults))
    (short,), (full,) = cut.rows, whole.rows
    assert short.calls is not None
    assert full.calls is not None
    assert short.calls < full.calls < 300
    assert full.stop_reason == "max_iterations"
    assert (short.cut_by, full.cut_by) == (("max_calls",), ())
    said = "max_calls of the batch cut the search short in seed=0. A larger limit may find more."
    assert (cut.warnings, whole.warnings) == ((said,), ())
    table = BatchFolder.open(RunStore(home.runs_dir).open("cut")).read_table()
    assert BatchResult.from_dict(table).rows[0].cut_by == short.cut_by
    assert table["warnings"] == [said]


def test_a_trials_own_cap_is_not_the_batchs(home: Home) -> None:
    path = home.write_batch(seeds=[0], max_calls=5000, defaults=home.defaults(max_calls=100, no_cache=True))
    (row,) = run(home, path).rows
    assert (row.calls, row.cut_by) == (81, ())


def test_a_trial_that_tokens_have_no_room_for_waits_for_a_larger_cap(home: Home) -> None:
    models = scripted()
    result = run(home, home.write_batch(seeds=range(3), max_tokens=3000), models=models)
    assert [row.status for row in result.rows] == ["not run"] * 3
    assert asked(models) == 0
    assert "(max_tokens=3000) is too small for it" in result.not_run[0].error
    assert "needs at least" in result.not_run[0].error
    more = run(home, home.write_batch(seeds=range(3), max_tokens=10**7), models=models)
    assert more.is_complete


def test_a_cap_on_money_without_a_price_is_refused(home: Home) -> None:
    path = home.write_batch(max_cost=1)
    with pytest.raises(
        ConfigError,
        match="the limit of the batch has no effect, because the price of",
    ):
        run_batch(str(path), runs_dir=home.runs_dir, environ={})
    with pytest.raises(ConfigError, match="the limit of the batch has no effect"):
        plan_batch(path, runs_dir=home.runs_dir, environ={})
    assert not home.runs_dir.exists()


def test_where_a_batch_stands_whose_driver_was_killed(home: Home) -> None:
    result = run(home, home.write_batch())
    folder = BatchFolder.open(RunStore(home.runs_dir).open("b"))
    running = replace(result.rows[1], status="running", sent=0)
    folder.write_table(replace(result, rows=(result.rows[0], running), sent=0))
    (folder.path / running.trial / "result.json").unlink()
    found = stand(folder)
    assert [row.status for row in found.rows] == ["finished", "interrupted"]
    assert found.sent == result.sent


def test_how_a_trial_came_to_its_result_outlives_a_driver_that_was_killed(home: Home) -> None:
    path = home.write_batch()
    result = run(home, path)
    folder = BatchFolder.open(RunStore(home.runs_dir).open("b"))
    # As it was written while both were at work.
    rows = tuple(replace(row, status="running", how="", attempts=0) for row in result.rows)
    folder.write_table(replace(result, rows=rows))
    folder.trial(rows[1].trial).append_event({"event": "run_started", "resumed": True})
    again = run(home, path)
    assert [(row.status, row.how, row.attempts) for row in again.rows] == [
        ("finished", "started", 1),
        ("finished", "resumed", 2),
    ]


def test_time_that_is_up_starts_no_more(home: Home) -> None:
    result = run(home, home.write_batch(max_seconds=1e-9))
    assert [row.status for row in result.rows] == ["not run", "not run"]
    assert result.rows[0].error == "the batch reached max_seconds=1e-09 before this trial began"


def test_a_trial_that_the_batchs_time_ended_is_named(home: Home) -> None:
    import autoprompt.optimizer.graph  # noqa: F401 - its second is not to be of the batch's two

    model, begun = scripted().task, 0.0
    calls = 0

    def speak(messages: list[Message]) -> str:
        nonlocal begun, calls
        calls += 1
        begun = begun or time.monotonic()
        if calls == 30:
            wait_until(lambda: time.monotonic() > begun + 2)
        return model.complete(messages).text

    models = Models(ScriptedClient(speak, identity="world"))
    defaults = home.defaults(concurrency=1)
    cut = run(home, home.write_batch(seeds=[0, 1], max_seconds=2, defaults=defaults), models=models)
    assert [(row.status, row.cut_by) for row in cut.rows] == [("finished", ("max_seconds",)), ("not run", ())]
    said = "max_seconds of the batch cut the search short in seed=0. A larger limit may find more."
    assert cut.warnings == (said,)


def test_ctrl_c_names_how_to_go_on(home: Home) -> None:
    interrupting = Models(ScriptedClient(_interrupt))
    with pytest.raises(Interrupted, match="autoprompt resume b"):
        run(home, home.write_batch(), models=interrupting)
    result = run(home, home.write_batch())
    assert result.is_complete


def _interrupt(_: list[Message]) -> str:
    raise KeyboardInterrupt


def test_every_trial_is_checked_before_anything_is_sent(home: Home) -> None:
    path = home.write(defaults=home.defaults(), include=[{"seed": 0}, {"max_calls": 3}, {"metric": "none"}])
    models = scripted()
    with pytest.raises(ConfigError) as caught:
        run(home, path, models=models)
    assert asked(models) == 0
    assert not home.runs_dir.exists()
    assert "max_calls=3: max_calls: 3 calls are too few" in str(caught.value)
    assert all("b.yaml line" in line for line in str(caught.value).splitlines())


def test_the_lessons_of_trials_stay_with_them(home: Home) -> None:
    (home.path / "memory.txt").write_text("# mine\n", encoding="utf-8")
    run(home, home.write_batch())
    assert (home.path / "memory.txt").read_text(encoding="utf-8") == "# mine\n"
    kept = sorted((home.runs_dir / "b" / "memory").glob("*.txt"))
    assert len(kept) == 2
    assert all(path.read_text(encoding="utf-8").startswith("# mine") for path in kept)


def test_lessons_that_were_measured_on_test_rows_are_warned_of(home: Home) -> None:
    write_rows(home.path / "rows.jsonl", range(150))  # of fewer all of validation races, and none are read
    defaults = home.defaults(max_val=None, max_test=None)
    optimize(RunConfig(**defaults, no_test=True, runs_dir=home.runs_dir), models=scripted())
    (row,) = run(home, home.write_batch(seeds=(0,), defaults=defaults)).rows
    trial = RunStore(home.runs_dir / "b").open(row.trial).read_result()
    assert trial is not None
    assert "memory.test-rows-seen" in [warning["code"] for warning in trial["warnings"]]


def test_experiences_that_cannot_be_read_are_said_before_anything_is_sent(home: Home) -> None:
    (home.path / "memory.txt").write_bytes(b"\xff")
    models = scripted()
    with pytest.raises(ConfigError, match=r"memory\.txt: not UTF-8 text"):
        run(home, home.write_batch(), models=models)
    assert (asked(models), home.runs_dir.exists()) == (0, False)


def test_trials_no_longer_asked_for_are_named(home: Home) -> None:
    run(home, home.write_batch())
    write_rows(home.path / "rows.jsonl", range(1, 41))
    result = run(home, home.write_batch())
    assert result.is_complete
    assert "2 trials in" in result.warnings[-1]


def test_a_resumed_batch_mixes_no_rows_of_a_changed_file_into_its_table(home: Home) -> None:
    path = home.path / "rows.jsonl"
    before = path.read_text(encoding="utf-8")
    undisturbed = run(home, home.write_batch(seeds=(0, 1, 2)), name="whole")
    with pytest.raises(Interrupted):
        run(home, home.write_batch(seeds=(0, 1, 2)), models=Models(ScriptedClient(_interrupt)))
    path.write_text(before.replace('item 3"', 'item 3003"'), encoding="utf-8")
    models = scripted()
    refused = resume_batch("b", runs_dir=home.runs_dir, models=models)
    # The first had begun, the others had not.
    assert [row.status for row in refused.rows] == ["failed"] * 3
    assert all("rows.jsonl changed since the batch of trial" in row.error for row in refused.rows)
    assert asked(models) == 0
    path.write_text(before, encoding="utf-8")
    assert facts(resume_batch("b", runs_dir=home.runs_dir, models=models)) == facts(undisturbed)


def test_a_batch_whose_folder_was_renamed_goes_on_there(home: Home) -> None:
    first = run(home, home.write_batch(), only=["seed=0"])
    (home.runs_dir / "b").rename(home.runs_dir / "b-first")
    result = resume_batch("b-first", runs_dir=home.runs_dir, models=scripted())
    assert (result.name, result.is_complete) == ("b-first", True)
    assert facts(result)[0] == facts(first)[0]
    assert [path.name for path in home.runs_dir.iterdir() if path.is_dir()] == ["b-first"]
    assert stand(BatchFolder.open(RunStore(home.runs_dir).open("b-first"))).name == "b-first"


def test_a_trial_goes_on_with_its_batch_alone(home: Home) -> None:
    path = home.write_batch(seeds=(0,))
    (row,) = run(home, path, models=mortal("world")).rows
    folder = RunStore(home.runs_dir / "b").open(row.trial)
    said = [event["message"] for event in folder.read_events() if event["event"] == "warning"]
    assert said[-1].endswith("Resume with: autoprompt resume b")
    models = scripted()
    with pytest.raises(
        StoreError, match=r"trial of the batch b, and resumes with it\. Resume it with `autoprompt resume b`"
    ):
        resume(folder.path, models=models)
    assert asked(models) == 0
    done = run(home, path, models=models)
    assert resume(folder.path).run_id == done.rows[0].trial  # the result of a finished one is shown


def test_a_batch_with_its_own_clients_goes_on_with_no_others(home: Home) -> None:
    with pytest.raises(Interrupted):
        run(home, home.write_batch(), models=Models(ScriptedClient(_interrupt)))
    with pytest.raises(StoreError, match="run b began with models given in Python"):
        resume_batch("b", runs_dir=home.runs_dir)


def test_a_name_that_another_run_has_is_refused(home: Home) -> None:
    RunStore(home.runs_dir).create({}, kind="optimize", run_id="b")
    with pytest.raises(StoreError, match="not a batch"):
        run(home, home.write_batch())
    (home.runs_dir / "c").mkdir()
    (home.runs_dir / "c" / "mine.txt").touch()
    with pytest.raises(StoreError, match="this is not a batch"):
        run(home, home.write_batch(), name="c")


def test_a_folder_of_hidden_files_is_not_taken_for_a_beginning(home: Home) -> None:
    head = home.runs_dir / "b" / ".git" / "HEAD"
    head.parent.mkdir(parents=True)
    head.touch()
    with pytest.raises(StoreError, match="this is not a batch"):
        run(home, home.write_batch())
    assert head.exists()


def test_what_a_kill_left_of_a_beginning_gives_way(home: Home) -> None:
    (home.runs_dir / "b").mkdir(parents=True)
    (home.runs_dir / "b" / ".config.yaml.0123abcd.tmp").touch()
    assert run(home, home.write_batch()).is_complete


def test_a_batch_of_models_whose_names_look_like_keys_goes_on(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "lm-studio")
    names = ["hf-internal-testing/tiny-random", "lm-studio-qwen"]
    path = home.write(defaults=home.defaults(), matrix={"model": names})
    with pytest.raises(Interrupted):
        run(home, path, models=Models(ScriptedClient(_interrupt)))
    trials = BatchFolder.open(RunStore(home.runs_dir).open("b")).read_batch().trials
    assert [trial.config.model for trial in trials] == names
    result = resume_batch("b", runs_dir=home.runs_dir, models=scripted())
    assert [row.status for row in result.rows] == ["finished"] * 2
    assert [row.trial for row in run(home, path).rows] == [trial.id for trial in trials]


def test_no_key_is_written(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    key = "sk-batch-0123456789abcdefgh"
    monkeypatch.setenv("OPENAI_API_KEY", key)
    run(home, home.write_batch(seeds=(0,)))
    files = [path for path in home.runs_dir.rglob("*") if path.is_file()]
    assert len(files) > 10
    assert not [path for path in files if key.encode() in path.read_bytes()]


def test_settings_without_a_run_behind_them_are_a_beginning(home: Home) -> None:
    (home.runs_dir / "b").mkdir(parents=True)
    (home.runs_dir / "b" / "config.yaml").write_text("name: b\n", encoding="utf-8")
    assert run(home, home.write_batch()).is_complete


def test_a_trial_whose_metric_had_an_option_that_is_not_kept_does_not_begin(
    home: Home, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    code = "def m(prediction, target, *, voice):\n    return float(prediction == target)\n"
    (tmp_path / "metric_with_a_voice.py").write_text(code, encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    metric = {
        "metric": "python:metric_with_a_voice:m",
        "metric_options": {"voice": "sk-0123456789abcdefghij"},
    }
    path = home.write(defaults=home.defaults() | metric)
    with pytest.raises(Interrupted):
        run(home, path, models=Models(ScriptedClient(_interrupt)))
    (row,) = resume_batch("b", runs_dir=home.runs_dir, models=scripted()).rows
    assert "(voice), because it looked like a key. Run the batch file again." in row.error


def test_a_full_disk_says_how_to_resume_the_batch(home: Home) -> None:
    def fail(event: dict[str, Any]) -> None:
        if event["event"] == "trial_ended":
            raise OSError(errno.ENOSPC, "No space left on device")

    path = home.write_batch()
    with pytest.raises(OSError, match="No space left") as caught:
        run_batch([path], runs_dir=home.runs_dir, models=scripted(), on_event=fail, environ={})
    command = "autoprompt resume b"
    assert caught.value.__notes__ == [f"What was running is kept. Then resume it with: {command}"]
