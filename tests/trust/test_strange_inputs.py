"""Files that come with data may be anything: pipes, files of any size, YAML and JSON of any shape."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from attacked import attacked, sent_texts
from called import call
from fake_endpoint import FakeEndpoint

EVAL = ("eval", "--dataset", "rows.jsonl", "--model", "m", "--no-cache", "-q")
HUGE = 60_000_000  # bytes, more than any of these files may have


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    folder = tmp_path / "mine"
    attacked(folder)
    monkeypatch.chdir(folder)
    signal.alarm(60)  # who waits for a pipe waits forever
    yield folder
    signal.alarm(0)


NAMED: dict[str, tuple[str, ...]] = {
    ".env": ("--prompt", "x"),
    "p.txt": (),  # named by the sidecar
    "rows.yaml": ("--prompt", "x", "--config", "rows.yaml"),
    "exported.yaml": ("--from", "exported.yaml"),
    "memory/memory_experiences.txt": ("--prompt", "x"),
    "b.json": ("--prompt", "x", "--baseline", "b.json"),
}


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such files")
@pytest.mark.parametrize("name", NAMED)
def test_no_command_waits_for_a_pipe(folder: Path, endpoint: FakeEndpoint, name: str) -> None:
    path = Path(name)
    path.parent.mkdir(exist_ok=True)
    os.mkfifo(path)
    said = call(*_command(name), "--base-url", endpoint.base_url, code=3).stderr
    assert "this is a named pipe, expected a file" in said or "neither a file" in said
    assert not endpoint.requests


@pytest.mark.parametrize("name", [".env", "p.txt", "rows.yaml"])
def test_a_huge_file_is_not_read_as_a_whole(folder: Path, endpoint: FakeEndpoint, name: str) -> None:
    with Path(name).open("wb") as file:
        file.truncate(HUGE)
    said = call(*_command(name), "--base-url", endpoint.base_url, code=3).stderr
    assert "more than 50" in said or "more than 1 MB" in said
    assert not endpoint.requests


def _command(name: str) -> list[str]:
    if name == "p.txt":
        Path("rows.task.yaml").write_text('prompt: "@p.txt"\n', encoding="utf-8")
    more = list(NAMED[name])
    if "--baseline" in more:
        return ["check", *EVAL[1:], *more]
    if name.startswith("memory"):
        return ["run", *EVAL[1:], *more, "--max-calls", "120", "--set=no_test=true"]
    return [*EVAL, *more]


@pytest.mark.parametrize(
    "sidecar",
    [
        "<<: {prompt: 'From a merge: {input}'}\n",
        "<<: [{labels: ['0', '1']}, {prompt: 'From a merge: {input}'}]\n",
        "<<: {<<: {prompt: 'From a merge: {input}'}}\nlabels: ['0', '1']\n",
        "<<: {prompt: other}\nprompt: 'From a merge: {input}'\n",
    ],
)
@pytest.mark.parametrize("file", ["rows.task.yaml", "settings.yaml"])
def test_a_merge_gives_settings(folder: Path, endpoint: FakeEndpoint, sidecar: str, file: str) -> None:
    Path(file).write_text(sidecar, encoding="utf-8")
    more = ("--config", file) if file == "settings.yaml" else ()
    call(*EVAL, "--base-url", endpoint.base_url, *more)
    assert "From a merge: row 1" in sent_texts(endpoint.requests)


@pytest.mark.parametrize(
    "sidecar",
    [
        "<<: {metric: python:evil:f}\nprompt: x\n",
        "<<: [{prompt: x}, {metric: python:evil:f}]\n",
        "? metric\n: python:evil:f\n",
        "<<: {prompt: '@../secret.txt'}\n",
        "prompt: &p '@../secret.txt'\ntask: *p\n",
    ],
)
def test_what_a_merge_names_needs_trust(folder: Path, endpoint: FakeEndpoint, sidecar: str) -> None:
    Path("rows.task.yaml").write_text(sidecar, encoding="utf-8")
    said = call(*EVAL, "--base-url", endpoint.base_url, code=3).stderr
    assert "rows.task.yaml line 1" in said
    assert "you have not trusted" in said
    assert not endpoint.requests
    assert not Path("executed").exists()


@pytest.mark.parametrize("value", ["[" * 100_000, '{"a":' * 100_000])
def test_a_variable_with_deep_json_is_a_plain_error(
    folder: Path, endpoint: FakeEndpoint, monkeypatch: pytest.MonkeyPatch, value: str
) -> None:
    monkeypatch.setenv("AUTOPROMPT_METRIC_OPTIONS", f"tolerance={value}")
    said = call(*EVAL, "--prompt", "x", "--base-url", endpoint.base_url, code=3).stderr
    assert "AUTOPROMPT_METRIC_OPTIONS tolerance: metric exact_match: unknown option" in said


@pytest.mark.parametrize("text", ["[" * 100_000, '{"schema_version":' * 100_000, "", "{", "5", "\0"])
@pytest.mark.parametrize("name", ["run.json", "result.json"])
def test_runs_lists_the_others_beside_a_damaged_one(
    folder: Path, endpoint: FakeEndpoint, name: str, text: str
) -> None:
    flags = ("--prompt", "x", "--max-calls", "120", "--set=no_test=true", "--no-memory")
    call("run", *EVAL[1:], *flags, "--base-url", endpoint.base_url)
    (run,) = (path for path in Path("runs").iterdir() if (path / "run.json").is_file())
    (run / name).write_text(text, encoding="utf-8")
    assert "broken" in call("runs", "list").output
