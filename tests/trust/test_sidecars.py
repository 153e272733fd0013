"""A sidecar that came with data names no code and no file elsewhere, whichever command reads it."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from attacked import SECRET, attacked, sent_texts
from called import call
from fake_endpoint import fake_endpoint

import autoprompt
from autoprompt.errors import ConfigError

PROMPT = 'prompt: "Say 1 or 0."\n'
CODE = [
    PROMPT + "metric: python:evil:f\n",
    PROMPT + "metric: python:os:system\n",
    PROMPT + 'metric: "python:evil:__dict__"\n',
    PROMPT + "metric: python:cProfile:run\nlabels: ['print(1)', '0']\n",
    PROMPT + "metric: llm_judge\nmetric_options: {rubric: 'python:evil:f'}\n",
    PROMPT + "metric: llm_judge\nmetric_options: {rubric: [{a: 'python:evil:f'}]}\n",
]
NO_METRIC = [PROMPT + "metric: PYTHON:evil:f\n", PROMPT + 'metric: " python:evil:f"\n']
COMMANDS = [
    ["run", "--dry-run"],
    ["run", "--max-calls", "60"],
    ["eval"],
    ["eval", "--dry-run"],
    ["check", "--baseline", "b.json", "--update-baseline"],
]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "downloaded"
    folder.mkdir()
    monkeypatch.chdir(folder)
    monkeypatch.delitem(sys.modules, "evil", raising=False)
    return folder


def refused(command: list[str], folder: Path, code: str, *flags: str) -> str:
    """Call a command that must be refused before anything is imported, sent or written; return its words."""
    before = {path for path in folder.rglob("*") if "__pycache__" not in path.parts}
    with fake_endpoint() as endpoint:
        where = ["--model", "m", "--base-url", endpoint.base_url]
        result = call(*command, *where, *flags, "--json", code=3)
        assert not endpoint.requests
        assert not endpoint.listed
    assert f'"code": "{code}"' in result.stdout
    assert {path for path in folder.rglob("*") if "__pycache__" not in path.parts} == before
    return result.stderr


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
@pytest.mark.parametrize("sidecar", CODE)
def test_it_names_no_code(folder: Path, sidecar: str, command: list[str]) -> None:
    attacked(folder, sidecar)
    said = refused(command, folder, "trust.code", "--dataset", "rows.jsonl")
    line, setting = (3, "metric_options") if "llm_judge" in sidecar else (2, "metric")
    assert f"rows.task.yaml line {line}: {setting}: " in said
    assert f"autoprompt trust {folder}" in said
    assert "--trust" in said
    assert {"metric": "--metric python:", "metric_options": "--metric-option "}[setting] in said


@pytest.mark.parametrize("sidecar", NO_METRIC)
def test_what_is_no_metric_is_not_executed_either(folder: Path, sidecar: str) -> None:
    attacked(folder, sidecar)
    call("run", "--dataset", "rows.jsonl", "--dry-run", code=3)
    assert not (folder / "executed").exists()


@pytest.mark.parametrize(
    ("data", "flag"),
    [
        ("rows.train.jsonl", "--train"),
        ("rows.val.jsonl", "--val"),
        ("rows.test.jsonl", "--test"),
        ("datasets/rows.jsonl", "--dataset"),
        ("deep/er/rows.jsonl", "--dataset"),
    ],
)
def test_wherever_it_is_found(folder: Path, data: str, flag: str) -> None:
    path = attacked(folder, CODE[0], data=data)
    given = path.name if data.startswith("datasets/") else data
    more = [] if flag in ("--dataset", "--train") else ["--train", "others.jsonl"]
    if more:
        (folder / "others.jsonl").write_text('{"input": "x", "target": "1"}\n' * 2, encoding="utf-8")
    refused(["run", "--dry-run"], folder, "trust.code", flag, given, *more)


def test_a_batch_and_its_plan_refuse_it_too(folder: Path) -> None:
    attacked(folder, CODE[0])
    (folder / "batch.yaml").write_text("defaults: {dataset: rows.jsonl, model: local}\nmatrix: {seed: [0]}\n")
    for flags in ([], ["--dry-run"]):
        result = call("batch", "batch.yaml", *flags, code=3)
        assert "python:evil:f runs code" in result.stderr
    assert not (folder / "executed").exists()


FILES = ["../secret.txt", "{outside}", "~/secret.txt", "link.txt", "linked/secret.txt", "a/../../secret.txt"]


@pytest.mark.parametrize("command", COMMANDS[:3], ids=" ".join)
@pytest.mark.parametrize("named", FILES)
def test_it_names_no_file_elsewhere(folder: Path, named: str, command: list[str]) -> None:
    home = Path("~").expanduser()
    home.mkdir(parents=True, exist_ok=True)
    (home / "secret.txt").write_text(SECRET, encoding="utf-8")
    (folder / "link.txt").symlink_to(folder.parent / "secret.txt")
    (folder / "linked").symlink_to(folder.parent)
    (folder / "a").mkdir()
    named = named.format(outside=folder.parent / "secret.txt")
    attacked(folder, f'prompt: "@{named}"\n')
    said = refused(command, folder, "trust.file", "--dataset", "rows.jsonl")
    assert f"rows.task.yaml line 1: prompt: @{named} is not inside the folder" in said
    assert SECRET not in said


def test_a_file_of_its_own_folder_is_read(folder: Path) -> None:
    attacked(folder, 'prompt: "@texts/prompt.txt"\n')
    (folder / "texts").mkdir()
    (folder / "texts" / "prompt.txt").write_text("Say 1 or 0.", encoding="utf-8")
    with fake_endpoint() as endpoint:
        call("eval", "--dataset", "rows.jsonl", "--model", "m", "--base-url", endpoint.base_url)
        assert "Say 1 or 0." in sent_texts(endpoint.requests)


@pytest.mark.parametrize("how", ["--trust", "stored", "above", "python", "flag"])
def test_what_allows_it(folder: Path, how: str) -> None:
    attacked(folder, CODE[0])
    if how in ("stored", "above"):
        call("trust", str(folder if how == "stored" else folder.parent))
    if how == "python":
        autoprompt.trust(folder)
    flags = {"--trust": ["--trust"], "flag": ["--metric", "python:evil:f"]}.get(how, [])
    call("run", "--dataset", "rows.jsonl", "--dry-run", *flags)
    assert (folder / "executed").exists()


def test_what_the_user_replaces_is_not_read(folder: Path) -> None:
    attacked(folder, 'prompt: "@../secret.txt"\nmetric: python:evil:f\n')
    with fake_endpoint() as endpoint:
        own = ["--prompt", "Mine: {input}", "--metric", "exact_match"]
        call("eval", "--dataset", "rows.jsonl", *own, "--model", "m", "--base-url", endpoint.base_url)
        assert SECRET not in sent_texts(endpoint.requests)
    assert not (folder / "executed").exists()


def test_trust_once_is_gone_with_the_command(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from autoprompt.settings import trust

    attacked(folder, CODE[0])
    call("run", "--dataset", "rows.jsonl", "--dry-run", "--trust")
    monkeypatch.setattr(trust, "_decided", trust._Decided())  # another process
    call("run", "--dataset", "rows.jsonl", "--dry-run", code=3)


def test_in_python_the_error_names_the_call(folder: Path) -> None:
    attacked(folder, CODE[0])
    with pytest.raises(ConfigError) as caught:
        autoprompt.estimate(autoprompt.RunConfig(dataset="rows.jsonl"))
    assert f"call autoprompt.trust({str(folder)!r}). Or give metric='python:evil:f'" in str(caught.value)
    assert not (folder / "executed").exists()
    autoprompt.trust(folder)
    assert autoprompt.estimate(autoprompt.RunConfig(dataset="rows.jsonl")).calls
