import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

import pytest
from pydantic import BaseModel

from autoprompt.errors import StoreError
from autoprompt.evaluation.exported import export_run
from autoprompt.records import EvaluatedRow
from autoprompt.runs import SCHEMA_VERSION, RunFolder, RunStore
from autoprompt.runs import folder as folder_module
from autoprompt.settings.records import RunConfig, ScienceConfig
from autoprompt.text.display import ADDRESSES, EXACT, redact_entries, whole_address

HOLD = (
    "import sys; from pathlib import Path; from autoprompt.runs import RunFolder\n"
    "with RunFolder(Path(sys.argv[1])).lock():\n"
    "    print('held', flush=True); sys.stdin.read()\n"
)
KEYS = [
    "sk-abcdefghijklmnopqrstuv",
    "tok-1234567890",
    "s3cret-in-the-environment",
    "hunter2-in-url",
    "query-key-1",
]


@pytest.fixture
def run(tmp_path: Path) -> RunFolder:
    return RunStore(tmp_path / "runs").create(
        {"dataset": Path("datasets/a.jsonl"), "prompt": "one\ntwo 标题"}
    )


def test_settings_come_back_with_absolute_paths_and_readable(run: RunFolder) -> None:
    assert run.read_config() == {
        "dataset": str(Path("datasets/a.jsonl").absolute()),
        "prompt": "one\ntwo 标题",
    }
    assert "  two 标题\n" in run.config_path.read_text(encoding="utf-8")


def test_no_key_is_found_anywhere_in_the_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEYS[2])
    config = {
        "api_key": KEYS[1],
        "base_url": f"https://me:{KEYS[3]}@host/v1?api_key={KEYS[4]}&x=1",
        "metric_options": {"headers": {"Authorization": f"Bearer {KEYS[1]}"}, "hint": f"use {KEYS[0]}"},
        "note": KEYS[2],
        "max_tokens": 5,
        "max_prompt_tokens": 7,
    }
    run = RunStore(tmp_path).create(config)
    failed = {"event": "error", "text": f"401 for Bearer {KEYS[1]} at https://me:{KEYS[3]}@host {KEYS[2]}"}
    run.append_event(failed)
    with run.event_log() as append:
        append(failed)
    run.write_result({"status": "done", "note": f"key {KEYS[2]}"})
    content = b"".join(path.read_bytes() for path in run.path.rglob("*") if path.is_file())
    assert not [key for key in KEYS if key.encode() in content]
    kept = run.read_config()
    assert (kept["max_tokens"], kept["max_prompt_tokens"]) == (5, 7)
    assert kept["base_url"].endswith("@host/v1?api_key=***&x=1")


def test_what_the_run_is_about_stays_to_the_letter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DB_PASSWORD", "password")
    text = "Is this a password reset mail? See https://me:you@host/x?token=abc and sk-abcdefghijklmnopqrstuv."
    config = {
        "prompt": text,
        "task": text,
        "locked": (text,),
        "labels": ("password", "other"),
        "input_field": "password text",
        "dataset": tmp_path / "password.jsonl",
        "metric_options": {"rubric": text},
    }
    run = RunStore(tmp_path).create(config, name="password")
    assert run.read_config() == {
        **config,
        "locked": [text],
        "labels": ["password", "other"],
        "dataset": str(tmp_path / "password.jsonl"),
    }
    best = {"components": {"prompt": text}, "demos": [{"input": text, "output": "password"}]}
    run.write_result({"best": best, "message": "the password is password", "run_dir": str(run.path)})
    found = run.read_result()
    assert found is not None
    assert found["best"] == best
    assert (found["run_id"], found["run_dir"]) == (run.run_id, str(run.path))
    assert found["message"] == "the *** is ***"
    assert export_run(run, "text") == text + "\n"
    run.append_event({"event": "error", "message": "bad password"})
    assert [event["message"] for event in run.read_events()] == ["bad ***"]


def test_names_paths_and_addresses_that_look_like_keys_come_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "lm-studio")  # a dummy, as local servers ask for
    config = RunConfig(
        workflow=tmp_path / "hf-sentiment-experiments" / "flow.yaml",
        tools=tmp_path / "sk_learn_experiments_2024" / "tools.py",
        target_output="sk_learning_to_classify",
        metric="python:sk_ticket_routing_metric:score",
        model="hf-internal-testing/tiny-random-gpt2",
        base_url="https://hf-sentiment-classification.example/v1?api-version=2024",
        optimizer_model="lm-studio-qwen",
        optimizer_base_url="http://lm-studio:1234/v1",
    )
    run = RunStore(tmp_path).create(config.model_dump(exclude_unset=True))
    assert run.read_settings(RunConfig) == config


@pytest.mark.parametrize("kind", [RunConfig, ScienceConfig])
def test_every_setting_that_is_read_again_is_known_to_be_a_name_a_path_or_an_address(
    kind: type[BaseModel],
) -> None:
    """But for the options of a metric, and for mocks, which the settings of a flow hold themselves."""
    texts = {name for name, field in kind.model_fields.items() if _holds_text(field.annotation)}
    assert texts - EXACT - ADDRESSES == {"metric_options", "mocks"} & texts


def _holds_text(annotation: object) -> bool:
    parts = get_args(annotation)
    if get_origin(annotation) is Literal:
        return False
    return annotation in (str, Path, Any) or any(map(_holds_text, parts))


def test_a_password_in_an_address_is_not_kept_and_found_again_in_a_variable(tmp_path: Path) -> None:
    address = "https://team:p@ss@gw.example/v1?api-key=abcd1234&v=2"
    run = RunStore(tmp_path).create({"base_url": address})
    kept = run.read_config()["base_url"]
    assert kept == "https://***@gw.example/v1?api-key=***&v=2"
    assert whole_address(kept, {"OPENAI_BASE_URL": "https://a:b@other.example/v1"}) == kept
    assert whole_address(kept, {"AUTOPROMPT_BASE_URL": address}) == address
    assert whole_address("https://gw.example/v1", {"AUTOPROMPT_BASE_URL": address}) == "https://gw.example/v1"


def test_events_get_a_time_and_keep_their_order(run: RunFolder) -> None:
    run.append_event({"event": "a"})
    run.append_event({"event": "b", "time": "noon"})
    first, second = run.read_events()
    assert (first["event"], second) == ("a", {"event": "b", "time": "noon"})
    assert first["time"].endswith("+00:00")
    with run.event_log() as append:
        append({"event": "c"})
        append({"event": "d"})
    assert [event["event"] for event in run.read_events()] == ["a", "b", "c", "d"]


def test_a_candidate_that_is_written_again_replaces_the_first(run: RunFolder) -> None:
    run.append_candidates([{"id": "x", "scores": {}}, {"id": "y", "scores": {}}])
    run.append_candidates([{"id": "x", "scores": {"r1": 1.0}}])
    assert run.read_candidates() == {"x": {"id": "x", "scores": {"r1": 1.0}}, "y": {"id": "y", "scores": {}}}
    assert list(run.read_candidates()) == ["x", "y"]


def test_rows_of_the_search_are_those_scored_shown_or_told_and_not_the_sealed_ones(run: RunFolder) -> None:
    assert run.rows_searched() == set()
    demo = {"input": "in", "output": "1"}
    run.append_candidates(
        [
            {
                "id": "x",
                "scores": {"raced": 1.0},
                "told": ["told"],
                "demos": [{**demo, "example_id": "shown"}],
            },
            {"id": "y", "demos": [demo]},  # of a text that a person wrote
        ]
    )
    row = EvaluatedRow("train", "in", "p", "t", True, 1.0)
    run.write_predictions("train-1", [row])
    run.write_predictions("test-best", [replace(row, example_id="sealed")])
    assert run.rows_searched() == {"raced", "told", "shown", "train"}


def test_predictions_are_rows_in_order_and_a_second_writing_replaces_them(run: RunFolder) -> None:
    row = EvaluatedRow("r1", "in", "p", "t", True, 1.0)
    run.write_predictions("race-1", [row, row])
    path = run.write_predictions("race-1", [row])
    assert path == run.predictions_dir / "race-1.jsonl"
    assert [(r["example_id"], r["is_correct"]) for r in run.read_predictions("race-1")] == [("r1", True)]
    with pytest.raises(ValueError, match="expected only letters"):
        run.write_predictions("../best", [])


def test_an_unfinished_run_has_no_result(run: RunFolder) -> None:
    assert run.read_result() is None
    run.write_result({"verdict": "confirmed"})
    head = {"schema_version": SCHEMA_VERSION, "run_id": run.run_id}
    assert run.read_result() == {**head, "verdict": "confirmed"}


@pytest.mark.parametrize("name", ["run.json", "result.json"])
@pytest.mark.parametrize(
    ("version", "code", "said"),
    [
        (1, "run.other-format", "another version of autoprompt wrote this run (format 1; this one reads 3)"),
        (9, "run.other-format", "another version of autoprompt wrote this run (format 9; this one reads 3)"),
        (None, "run.not-a-run", "this is not a run of autoprompt: its schema_version is None"),
        ("2", "run.not-a-run", "this is not a run of autoprompt: its schema_version is '2'"),
    ],
)
def test_another_format_says_which_and_what_to_do(
    run: RunFolder, name: str, version: object, code: str, said: str
) -> None:
    path = run.path / name
    path.write_text(json.dumps({"schema_version": version}))
    with pytest.raises(StoreError) as caught:
        (run.read_info if name == "run.json" else run.read_result)()
    (problem,) = caught.value.problems
    assert (problem.code, problem.said, problem.place.file) == (code, said, path)
    assert problem.fix in ("Use that version, or start a new run.", "Give the folder of a run.")


def test_a_second_lock_names_the_holder(run: RunFolder) -> None:
    with (
        run.lock(),
        pytest.raises(StoreError, match=rf"{run.run_id} is held by process {os.getpid()} on "),
        RunFolder(run.path).lock(),
    ):
        pass
    assert not run.is_locked()
    with run.lock():
        assert run.is_locked()


@pytest.mark.skipif(os.name == "nt", reason="SIGKILL")
def test_a_lock_is_gone_with_its_killed_process(run: RunFolder) -> None:
    arguments = [sys.executable, "-c", HOLD, str(run.path)]
    with subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == b"held\n"
        with pytest.raises(StoreError, match=f"process {child.pid} on "), run.lock():
            pass
        child.send_signal(signal.SIGKILL)
    with run.lock():
        pass


def test_what_users_call_their_own_entries_decides_nothing() -> None:
    key = "sk-0123456789abcdefghij"
    kept = redact_entries(
        {
            "model": "hf-internal-testing/tiny",
            "inputs": {"data": key},
            "metric_options": {"id": key, "rubric": key},
        }
    )
    assert kept == {
        "model": "hf-internal-testing/tiny",
        "inputs": {"data": "***"},
        "metric_options": {"id": "***", "rubric": key},
    }


@pytest.mark.parametrize("name", ["predictions", "candidates"])
def test_a_file_that_the_run_replaces_is_never_taken_for_one_that_others_replaced(
    name: str, run: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """LangGraph looks from a thread of its own at each checkpoint, so also in the middle of this."""
    write = {
        "predictions": lambda: run.write_predictions("01-train", [{"id": "a"}]),
        "candidates": lambda: run.rewrite_candidates([{"id": "a"}]),
    }[name]
    write()
    real = folder_module.write_jsonl
    looks: list[threading.Thread] = []

    def slow(path: Path, records: Iterable[Mapping[str, Any]]) -> None:
        looks.append(threading.Thread(target=run.check_files))
        looks[0].start()
        looks[0].join(timeout=0.3)
        real(path, records)

    monkeypatch.setattr(folder_module, "write_jsonl", slow)
    with run.work():
        run.check_files()
        write()
        looks[0].join()
        run.check_files()
