"""What `doctor` concludes, against a server on the loopback."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from endpoint import KEY, serving
from fake_endpoint import Reply, fake_endpoint
from typer.testing import CliRunner, Result

from autoprompt.cli import app, doctor
from autoprompt.sandbox import overruns, probe
from autoprompt.sandbox.overruns import OVERRUNS


def test_the_command_that_is_ready_carries_the_flags() -> None:
    assert doctor._ready(None, None) == "Ready: autoprompt run --dataset FILE"
    assert doctor._ready("a b", "http://me:secret@h/v1?key=secret") == (
        "Ready: autoprompt run --dataset FILE --model 'a b' --base-url http://h/v1"
    )


def test_a_missing_key_is_a_note(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with serving() as endpoint:
        result = CliRunner().invoke(app, ["doctor", "--model", "m", "--base-url", endpoint.base_url])
    lines = result.stdout.splitlines()
    assert "note  endpoint key      OPENAI_API_KEY is not set" in lines
    # This server wants one: that, and not the missing variable, is what stops a run.
    assert any(line.startswith("no    endpoint ") for line in lines)
    assert result.exit_code == 4


@pytest.fixture
def asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Result]]:
    """`doctor` for the model at an endpoint that lists `fake` and `fake-large`."""
    monkeypatch.chdir(tmp_path)
    with fake_endpoint() as endpoint:
        names = ("fake", "fake-large")
        endpoint.models = Reply(body={"object": "list", "data": [{"id": name} for name in names]})

        def call(model: str, end: str = "", *flags: str) -> Result:
            url = f" {endpoint.base_url}{end}"
            return CliRunner().invoke(app, ["doctor", "--model", model, "--base-url", url, *flags])

        yield call


def test_a_model_that_is_listed_is_said_to_be(asked: Callable[..., Result]) -> None:
    result = asked("fake", "/?api-version=1")
    assert "ok    endpoint model    fake is listed" in result.stdout.splitlines()
    assert result.exit_code == 0


@pytest.mark.parametrize(
    ("model", "advice"),
    [
        ("fake-larg", "Did you mean fake-large, fake?"),
        ("LARGE", "Did you mean fake-large?"),
        ("gpt", "Listed: fake, fake-large"),
    ],
)
def test_a_model_that_is_not_listed_is_a_note_with_those_that_are(
    asked: Callable[..., Result], model: str, advice: str
) -> None:
    result = asked(model)
    lines = [line.strip() for line in result.stdout.splitlines()]
    at = lines.index(f"note  endpoint model    {model} is not among the 2 listed")
    assert lines[at + 1] == advice
    assert result.exit_code == 0  # some endpoints take other names, too


def test_an_address_beside_the_endpoint_is_told_the_right_one(asked: Callable[..., Result]) -> None:
    result = asked("fake", "/v2")
    assert "no    endpoint          http://127.0.0.1" in result.stdout
    assert re.search(r"An endpoint answers at http://127.0.0.1:\d+/v1: set --base-url", result.stdout)
    assert result.exit_code == 4


def test_an_address_that_lists_no_models_is_a_note(asked: Callable[..., Result]) -> None:
    with fake_endpoint() as endpoint:
        endpoint.models = Reply(404, {})
        flags = ["doctor", "--model", "fake", "--base-url", endpoint.base_url]
        result = CliRunner().invoke(app, flags)
    assert "note  endpoint          http://127.0.0.1" in result.stdout
    assert "It lists no models. Check the base URL, which usually ends in /v1" in result.stdout
    assert "endpoint model" not in result.stdout
    assert result.exit_code == 0


def test_an_address_that_is_none_is_said_as_a_run_says_it(asked: Callable[..., Result]) -> None:
    result = asked("fake", "/chat/completions")
    assert "autoprompt adds /chat/completions itself" in result.stdout
    assert result.exit_code == 4


def test_the_line_end_behind_a_key_is_no_part_of_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OPENAI_API_KEY", f"{KEY}\n")
    with serving() as endpoint:
        result = CliRunner().invoke(app, ["doctor", "--model", "m", "--base-url", endpoint.base_url])
    assert "ok    endpoint key      OPENAI_API_KEY is set" in result.stdout.splitlines()
    assert result.exit_code == 0


def test_a_refused_password_is_what_is_to_be_checked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with serving() as endpoint:
        address = endpoint.base_url.replace("://", "://me:not-the-password@")
        result = CliRunner().invoke(app, ["doctor", "--model", "m", "--base-url", address])
    assert "Missing or refused: check user and password in the base URL" in result.stdout
    assert "not-the-password" not in result.output
    assert result.exit_code == 4


def test_a_key_that_no_header_can_carry_is_said_and_not_repeated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OPENAI_API_KEY", f"“{KEY}”")
    result = CliRunner().invoke(app, ["doctor", "--model", "m", "--base-url", "http://127.0.0.1:9/v1"])
    assert "no    endpoint key      OPENAI_API_KEY: character 1 of the key is U+201C" in result.stdout
    assert KEY not in result.output
    assert result.exit_code == 4


@pytest.mark.parametrize(
    "command", [["doctor", "--model", "m", "--base-url", "http://127.0.0.1:9"], ["resume", "last"]]
)
def test_a_misspelt_variable_is_warned_of(
    command: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("AUTOPROMPT_MAX_CALL", "5")
    assert "Did you mean AUTOPROMPT_MAX_CALLS?" in CliRunner().invoke(app, command).stderr


@pytest.mark.parametrize("unused", ["AVX-512", ""])
def test_a_runtime_that_leaves_the_processor_unused_is_a_note(
    unused: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("xllamacpp")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(doctor.local, "unused_instructions", lambda: unused)
    said = CliRunner().invoke(app, ["doctor"]).stdout
    assert ("note  runtime build     built without AVX-512" in said) == bool(unused)
    assert ("pip install --force-reinstall --no-deps --no-binary xllamacpp xllamacpp" in said) == bool(unused)
    elsewhere = CliRunner().invoke(app, ["doctor", "--model", "m", "--base-url", "http://127.0.0.1:9"])
    assert "runtime build" not in elsewhere.stdout  # that model is not the embedded one


def test_a_folder_where_no_run_can_be_kept_is_not_ready(asked: Callable[..., Result], tmp_path: Path) -> None:
    (tmp_path / "runs").touch()
    result = asked("fake")
    (line,) = (line for line in result.stdout.splitlines() if line[6:].startswith("disk "))
    assert line.startswith("no ")
    assert line.endswith("runs is no folder.")
    assert "--runs-dir" in result.stdout
    assert "A run cannot start yet" in result.stdout
    assert result.exit_code == 4


def test_the_makefile_builds_the_runtime_as_doctor_says() -> None:
    makefile = (Path(__file__).parents[2] / "Makefile").read_text()
    assert doctor.NATIVE_FLAGS in makefile
    assert "--force-reinstall --no-deps --no-binary xllamacpp xllamacpp" in makefile


def test_the_limits_of_the_sandbox_are_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    level = probe()
    _, held = doctor._sandbox()
    assert (held.name, held.is_ok) == ("sandbox limits", level.confines)
    missed = next(overrun for overrun in OVERRUNS if overrun.way == "files in /dev/shm")
    monkeypatch.setattr(overruns, "unnoticed", lambda level: (missed,))
    _, held = doctor._sandbox()
    assert (held.is_ok, held.is_needed, held.found) == (False, False, "time, cpu, processes, disk hold")
    assert held.advice.startswith(
        "These limits do not hold: memory (files in /dev/shm). Run such code in a container"
    )


@pytest.fixture
def no_runtime(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine without the embedded runtime."""
    found = doctor.util.find_spec
    monkeypatch.setattr(doctor.util, "find_spec", lambda name: None if name == "xllamacpp" else found(name))
    for name in ("OPENAI_BASE_URL", "OPENAI_API_BASE", "OPENAI_API_KEY"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.usefixtures("no_runtime")
def test_a_run_on_an_endpoint_starts_without_the_embedded_model(
    asked: Callable[..., Result], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert asked("fake").exit_code == 0
    with fake_endpoint() as endpoint:
        monkeypatch.setenv("OPENAI_BASE_URL", endpoint.base_url)
        result = CliRunner().invoke(app, ["doctor"])
    assert "note  embedded runtime  not installed" in result.stdout
    assert "Ready on the endpoint: autoprompt run --dataset FILE --model MODEL." in result.stdout
    assert result.exit_code == 0


@pytest.mark.usefixtures("no_runtime")
def test_without_either_it_says_what_an_endpoint_needs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(app, ["doctor"])
    assert "A run cannot start" not in result.stdout
    assert "autoprompt run --dataset FILE --model MODEL --base-url URL" in result.stdout
    assert result.exit_code == 4
    assert "A run cannot start yet" in CliRunner().invoke(app, ["doctor", "--model", "local"]).stdout
