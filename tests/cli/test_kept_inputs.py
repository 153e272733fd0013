"""No command overwrites a file that it reads, whatever the option or the spelling of its path."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest
from called import call
from endpoint import KEY, Endpoint
from run_folders import real_run

from autoprompt.text.inputs import protect, protecting, role_of


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, endpoint: Endpoint) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    rows = "".join(json.dumps({"input": f"in {n}", "target": "ab"[n % 2]}) + "\n" for n in range(12))
    files = {
        "rows.jsonl": rows,
        "rows.task.yaml": "labels: [a, b]\n",
        "prompt.md": "a or b?",
        "other.md": "b or a?",
        "run.json": json.dumps({"dataset": "rows.jsonl", "prompt": "@prompt.md"}),
        "old.json": "{}",
        "mine.py": "def score(row, prediction):\n    return 1.0\n",
        "memory.md": "# Experiences\n",
    }
    for name, text in files.items():
        Path(name).write_text(text, encoding="utf-8")
    Path("link.jsonl").symlink_to("rows.jsonl")
    Path("sub").mkdir()
    return tmp_path


ENDPOINT = "--model m --base-url {url}"
EVAL = f"eval --dataset rows.jsonl --prompt @prompt.md {ENDPOINT}"
CHECK = f"check --dataset rows.jsonl --prompt @prompt.md {ENDPOINT}"


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        (f"{EVAL} -o rows.jsonl", "rows.jsonl"),
        (f"{EVAL} -o sub/../rows.jsonl", "rows.jsonl"),
        (f"{EVAL} -o link.jsonl", "rows.jsonl"),
        (f"{EVAL} -o prompt.md", "prompt.md"),
        (f"{EVAL} --against @other.md -o other.md", "other.md"),
        (f"eval --config run.json {ENDPOINT} -o run.json", "run.json"),
        (f"{CHECK} --baseline rows.jsonl --update-baseline", "rows.jsonl"),
        (f"{CHECK} --baseline old.json --update-baseline -o old.json", "old.json"),
        (f"{CHECK} --baseline new.json --update-baseline --junit rows.task.yaml", "rows.task.yaml"),
        (f"{CHECK} --baseline new.json --update-baseline --record prompt.md", "prompt.md"),
        (
            f"{CHECK} --baseline new.json --update-baseline --metric python:mine:score --junit mine.py",
            "mine.py",
        ),
        (
            f"run --dataset rows.jsonl --prompt @prompt.md {ENDPOINT} --set memory_file=rows.jsonl",
            "rows.jsonl",
        ),
        ("memory export --memory-file memory.md --to memory.md", "memory.md"),
        (f'science "How many?" --data sub/files/n.csv -o sub {ENDPOINT}', "sub/files/n.csv"),
    ],
)
def test_an_input_is_refused_as_an_output_before_anything_is_sent(
    arguments: str, name: str, endpoint: Endpoint
) -> None:
    Path("sub/files").mkdir()
    Path("sub/files/n.csv").write_text("n\n1\n")
    before = Path(name).read_bytes()
    result = call(*shlex.split(arguments.format(url=endpoint.base_url)), code=2)
    assert "would overwrite the" in result.stderr
    assert Path(name).read_bytes() == before
    assert not endpoint.requests


def test_a_runs_report_and_export_spare_its_files_and_its_rows(tmp_path: Path) -> None:
    folder = real_run(tmp_path)
    rows = Path(folder.read_config()["dataset"])
    given = rows.with_suffix(".json")
    for command in (("report", "-o"), ("runs", "export", "--to")):
        name, output = command[:-1], command[-1]
        for path in (folder.result_path, given):
            if path == given:
                given.unlink(missing_ok=True)
                given.hardlink_to(rows)
            before = path.read_bytes()
            result = call(*name, str(folder.path), output, str(path), code=2)
            assert "would overwrite the" in result.stderr
            assert path.read_bytes() == before
    for _ in range(2):  # its report may be written again
        call("report", str(folder.path), "-o", str(folder.path / "report.html"))


def test_a_file_may_be_written_in_its_own_role_alone(tmp_path: Path) -> None:
    path = tmp_path / "base.json"  # it need not be there
    with protecting():
        protect(path, "baseline")
        assert role_of(path, "baseline") is None
        assert role_of(tmp_path / "a" / ".." / "base.json") == "baseline"
        protect(path, "record")
        assert role_of(path, "baseline") == "record"
    assert role_of(path) is None
