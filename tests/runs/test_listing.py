import errno
import os
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from autoprompt.errors import StoreError
from autoprompt.runs import RunFolder, RunStore
from autoprompt.runs.events import ProgressFile
from autoprompt.text.files import append_jsonl

RESULT = {
    "verdict": "confirmed",
    "model": "local",
    "calls": 12,
    "cost_usd": None,
    "original": {"score": 0.5},
    "best": {"score": 0.75, "components": {"prompt": "Say 0 or 1.\nBe strict."}, "demos": []},
}


@pytest.fixture
def store(tmp_path: Path) -> RunStore:
    return RunStore(tmp_path / "runs")


def finished(store: RunStore, **changes: Any) -> RunFolder:
    run = store.create({"dataset": Path("clickbait.jsonl")})
    run.write_result({**RESULT, **changes})
    return run


def test_an_id_tells_when_and_what(store: RunStore) -> None:
    assert store.create({"dataset": "data/My Clickbait_v2.jsonl"}).run_id[16:-5] == "my-clickbait-v2"
    assert store.create({}, kind="science").run_id[16:-5] == "science"
    assert store.create({}, name="标题 党/..").run_id[16:-5] == "标题-党"


def test_runs_that_start_at_once_get_ids_of_their_own(store: RunStore) -> None:
    with ThreadPoolExecutor(8) as pool:
        runs = list(pool.map(lambda _: store.create({}, name="same"), range(40)))
    assert len({run.run_id for run in runs}) == 40 == len(store.list())


def test_a_run_is_opened_by_id_prefix_and_path(store: RunStore) -> None:
    run = store.create({}, name="one")
    for name in (run.run_id, run.run_id[:-3], run.path, str(run.path)):
        assert store.open(name).path == run.path


def test_a_prefix_of_several_runs_is_an_error_that_lists_them(store: RunStore) -> None:
    ids = sorted(store.create({}, name=name).run_id for name in ("one", "two"))
    with pytest.raises(StoreError, match=f"matches 2 runs: {', '.join(ids)}"):
        store.open("20")


def test_an_unknown_run_is_an_error_that_lists_close_ones(store: RunStore) -> None:
    with pytest.raises(StoreError, match="There are none yet"):
        store.open("x")
    run = store.create({}, name="clickbait")
    with pytest.raises(StoreError, match=f"Did you mean {run.run_id}"):
        store.open(run.run_id[:-1] + "z")


def test_the_latest_run_of_an_error_is_the_last_one(store: RunStore) -> None:
    for name in ("three", "dup"):
        store.create({"name": name}, kind="batch", run_id=name)
    assert store.open("last").run_id == "dup"
    with pytest.raises(StoreError, match=r"The latest is dup\."):
        store.open("x")


def test_a_folder_that_is_no_run_is_not_opened(store: RunStore, tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="no run"):
        store.open(tmp_path)


def test_the_listing_shows_states_and_survives_broken_folders(store: RunStore) -> None:
    done, begun, held = finished(store), store.create({}, name="begun"), store.create({}, name="held")
    (store.runs_dir / "no-info").mkdir()
    for name in ("result.json", "config.yaml"):
        (finished(store).path / name).write_bytes(b"\xff{")
    (store.runs_dir / "a-file").write_text("")
    with held.lock():
        runs = {summary.run_id: summary for summary in store.list()}
    assert len(runs) == 6
    assert (runs[begun.run_id].status, runs[held.run_id].status) == ("interrupted", "running")
    broken = [summary for summary in runs.values() if summary.status == "broken"]
    assert len(broken) == 3
    assert all(summary.problem for summary in broken)
    summary = runs[done.run_id]
    assert (summary.status, summary.original, summary.best, summary.calls) == ("finished", 0.5, 0.75, 12)
    assert (summary.verdict, summary.model, summary.cost_usd) == ("confirmed", "local", None)


def test_what_a_batch_keeps_beside_its_trials_is_no_broken_run(store: RunStore) -> None:
    done = finished(store)
    for name in ("logs", "memory"):
        (store.runs_dir / name).mkdir()
    assert [line.run_id for line in store.list()] == [done.run_id]
    own = store.create({}, run_id="logs2")
    assert {line.run_id for line in store.list()} == {done.run_id, own.run_id}


def cut_off(store: RunStore, settings: dict[str, Any], calls: int) -> RunFolder:
    folder = store.create(settings)
    # Half a second behind, as a kill leaves it: nothing goes by it.
    ProgressFile(folder.progress_path).note({"done": 1, "total": 2, "spent": {"calls": 1, "cost_usd": 0.0}})
    roles = ["task"] * (calls - 1) + ["optimizer"] * bool(calls)
    took = {"attempts": 1, "prompt_tokens": 9, "completion_tokens": 1, "cost_usd": 0.5}
    append_jsonl(folder.journal_path, [{"role": role, **took} for role in roles])
    return folder


def test_an_interrupted_run_says_how_many_calls_it_made(store: RunStore) -> None:
    assert cut_off(store, {}, 7).run_id == store.list()[0].run_id
    assert (store.list()[0].calls, store.list()[0].cost_usd) == (7, 3.5)
    (store.list()[0].path / "journal.jsonl").unlink()
    assert store.list()[0].calls is None


def test_a_run_with_the_same_settings_that_was_cut_off_is_found(store: RunStore) -> None:
    settings = {"dataset": Path("x.jsonl"), "seed": 1}
    cut_off(store, settings, 3)
    twin = cut_off(store, settings, 5)
    cut_off(store, settings | {"seed": 2}, 9)
    cut_off(store, settings, 0)  # nothing to go on with
    new = store.create(settings)
    found = store.interrupted_twin(new)
    assert found is not None
    assert (found.run_id, found.calls) == (twin.run_id, 5)
    with twin.lock():  # it runs
        assert (other := store.interrupted_twin(new)) is not None
        assert other.calls == 3
    assert store.interrupted_twin(store.create({})) is None
    twin.write_result(RESULT)
    assert store.interrupted_twin(new) is None  # one has ended since


def test_no_folder_is_no_runs(store: RunStore) -> None:
    assert store.list() == []


def test_a_held_run_is_not_removed(store: RunStore) -> None:
    run = store.create({})
    with run.lock(), pytest.raises(StoreError, match="is held by"):
        store.remove(run.run_id)
    assert store.remove(run.run_id) == run.path
    assert list(store.runs_dir.iterdir()) == []


def test_a_broken_run_can_be_removed(store: RunStore) -> None:
    (store.runs_dir / "wreck").mkdir(parents=True)
    store.remove("wreck")
    assert store.list() == []


def test_runs_dir_that_cannot_be_made_is_our_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="Choose another runs_dir"):
        RunStore(tmp_path / "file" / "runs").create({})


def test_runs_of_one_second_keep_their_order(tmp_path: Path) -> None:
    store = RunStore(tmp_path / "runs")
    made = [store.create({"model": "m"}).run_id for _ in range(12)]
    assert [line.run_id for line in store.list()] == made[::-1]
    assert store.open("last").run_id == made[-1]


@pytest.mark.skipif(os.name == "nt", reason="rights as Unix has them")
@pytest.mark.parametrize("closed", [".", "journal.jsonl"])
def test_a_run_of_another_user_hides_no_other(store: RunStore, closed: str) -> None:
    """In a folder that several share: nothing could be listed or resumed there by its id any more."""
    theirs, mine = store.create({}, run_id="theirs"), finished(store)
    append_jsonl(theirs.journal_path, [{"role": "task", "attempts": 3}])
    (theirs.path / closed).chmod(0)
    for folder in store.runs_dir.parents:  # pytest's own, which are the user's alone
        if folder == Path(tempfile.gettempdir()):
            break
        folder.chmod(0o755)
    code = (
        "import os, sys; from pathlib import Path; from autoprompt.runs import RunStore\n"
        "if os.geteuid() == 0: os.seteuid(65534)\n"
        "store = RunStore(Path(sys.argv[1]))\n"
        "print({line.run_id: line.calls for line in store.list()}, store.open(sys.argv[2]).run_id)"
    )
    args = [sys.executable, "-c", code, str(store.runs_dir), mine.run_id]
    run = subprocess.run(args, capture_output=True, text=True, check=False)
    (theirs.path / closed).chmod(0o755)
    assert run.stderr == ""
    assert f"'{mine.run_id}': 12" in run.stdout
    assert "'theirs': None" in run.stdout


def test_a_run_is_found_by_the_name_that_only_it_has(tmp_path: Path) -> None:
    store = RunStore(tmp_path)
    first = store.create({"dataset": Path("x.jsonl"), "name": "first"})
    assert store.open("first").run_id == first.run_id
    store.create({"dataset": Path("x.jsonl"), "name": "first"})
    with pytest.raises(StoreError, match="'first' is the name of 2 runs"):
        store.open("first")


def test_a_run_that_the_disk_has_no_room_for_leaves_no_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = RunStore(tmp_path)
    before = store.create({"seed": 1})

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("autoprompt.runs.listing._fill", full)
    with pytest.raises(StoreError, match="cannot create a run here"):
        store.create({"seed": 2})
    assert store.open("last").path == before.path
