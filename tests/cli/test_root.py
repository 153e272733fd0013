"""What holds for every command: help at once, errors as sentences, exit codes."""

from __future__ import annotations

import errno
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import typer
from fakes import disk_full_error
from typer.testing import CliRunner

from autoprompt import __version__
from autoprompt.cli import COMMANDS, LazyGroup, app, load_command
from autoprompt.errors import AuthenticationError, ConfigError, Interrupted, UsageError

ROOM = ". Make room.\n"
RAISED: dict[str, BaseException] = {
    "usage": UsageError("say it otherwise"),
    "input": ConfigError("c.yaml line 3: [bold]wrong\x1b[31m"),
    "model": AuthenticationError("no key"),
    "interrupted": Interrupted("state saved. Resume with: autoprompt resume r1"),
    "ctrl-c": KeyboardInterrupt(),
    "bug": ZeroDivisionError("division by zero"),
    "file": OSError(errno.EACCES, "Permission denied", "runs/x"),
    "disk": OSError(errno.ENOSPC, "No space left on device", "runs/x"),
    "database": disk_full_error(),
}


def failing_app() -> typer.Typer:
    made = typer.Typer(cls=LazyGroup, rich_markup_mode=None, pretty_exceptions_enable=False)

    @made.callback()
    def root() -> None:
        pass

    @made.command()
    def fail(what: str) -> None:
        raise RAISED[what]

    return made


@pytest.mark.parametrize(
    ("what", "code", "said"),
    [
        ("usage", 2, "error: say it otherwise\n"),
        ("input", 3, "error: c.yaml line 3: [bold]wrong[31m\n"),
        ("model", 4, "error: no key\n"),
        ("interrupted", 130, "state saved. Resume with: autoprompt resume r1\n"),
        ("ctrl-c", 130, "interrupted\n"),
        (
            "bug",
            70,
            "error: ZeroDivisionError: division by zero\nthis is a bug; add --debug for the traceback\n",
        ),
        (
            "file",
            3,
            "error: runs/x: the system does not permit it. Check who owns the path and its permissions, or "
            "give another path.\n",
        ),
        ("disk", 3, f"error: runs/x: no space is left on the disk{ROOM}"),
        ("database", 3, f"error: no space is left on the disk{ROOM}"),
    ],
)
def test_an_error_is_a_sentence_and_a_code(what: str, code: int, said: str) -> None:
    result = CliRunner().invoke(failing_app(), ["fail", what])
    assert (result.exit_code, result.stderr, result.stdout) == (code, said, "")


@pytest.mark.parametrize("arguments", [["--debug", "fail", "bug"], ["fail", "bug", "--debug"]])
def test_debug_shows_the_traceback(arguments: list[str]) -> None:
    result = CliRunner().invoke(failing_app(), arguments)
    assert result.exit_code == 70
    assert "Traceback" in result.stderr
    assert "raise RAISED[what]" in result.stderr


def test_wrong_command_and_wrong_flag_are_usage_errors() -> None:
    for arguments, said in ((["rnu"], "Did you mean 'run'"), (["run", "--max-cals", "3"], "--max-cals")):
        result = CliRunner().invoke(app, arguments)
        assert result.exit_code == 2
        assert said in result.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        ["run", "--dataset"],
        ["run", "--runs-dir"],
        ["run", "--base-url"],
        ["science", "a task", "--data"],
        ["runs", "list", "--runs-dir"],
        ["memory", "show", "--memory-file"],
        ["cache", "show", "--cache-dir"],
        ["doctor", "--base-url"],
    ],
)
def test_an_empty_place_on_the_command_line_is_no_default(arguments: list[str], tmp_path: Path) -> None:
    rows = tmp_path / "rows.jsonl"
    rows.write_text('{"input": "a", "target": "b"}\n', encoding="utf-8")
    data = ["--dataset", str(rows), "--prompt", "p"] if arguments[0] == "run" else []
    result = CliRunner().invoke(app, [arguments[0], *data, *arguments[1:], "", "--json"])
    assert result.exit_code == 2
    error = json.loads(result.stdout)["error"]
    name = arguments[-1].removeprefix("--").replace("-", "_")
    assert (error["code"], error["setting"]) == ("settings.empty-value", name)
    assert arguments[-1] in result.stderr
    assert "the value is empty. Give a value, or leave the setting out." in result.stderr


def test_a_choice_that_is_none_names_those_that_are() -> None:
    result = CliRunner().invoke(app, ["run", "--preset", "fast"])
    assert result.exit_code == 2
    assert "'--preset': 'fast' is not one of 'quick', 'standard', 'thorough'." in result.stderr


def test_a_flag_before_the_command_is_told_where_it_goes() -> None:
    said = "error: --json belongs after the command: autoprompt run ... --json\n"
    result = CliRunner().invoke(app, ["--json", "run", "--dataset", "x.jsonl"])
    assert (result.exit_code, result.stderr) == (2, said)
    assert json.loads(result.stdout)["error"]["exit_code"] == 2
    result = CliRunner().invoke(app, ["--runs-dir=r", "runs", "list"])
    assert (result.exit_code, result.stdout) == (2, "")
    assert "--runs-dir belongs after the command: autoprompt runs ... --run" in result.stderr
    for arguments in (["--help"], ["--version", "run"], ["--debug", "trust", "--help"], ["-h", "run"]):
        assert CliRunner().invoke(app, arguments).exit_code == 0
    assert "No such option" in CliRunner().invoke(app, ["--jsn"]).stderr


def test_a_file_without_its_flag_is_told_which(tmp_path: Path) -> None:
    rows, config = tmp_path / "rows.csv", tmp_path / "run.yaml"
    for path in (rows, config):
        path.touch()
    for arguments, said in (
        (["run", str(rows)], f"Did you mean --dataset {rows}?"),
        (["eval", str(rows)], f"Did you mean --dataset {rows}?"),
        (["check", str(config)], f"Did you mean --config {config}?"),
        (["run", "--prompt", "Which", "queue?"], "Quote values that contain spaces: --prompt"),
    ):
        result = CliRunner().invoke(app, [*arguments, "--json"])
        assert result.exit_code == 2
        assert said in result.stderr
        assert said in json.loads(result.stdout)["error"]["message"]
    assert "mean" not in CliRunner().invoke(app, ["run", "nowhere.csv"]).stderr


def test_version() -> None:
    result = CliRunner().invoke(app, ["--version"])
    assert (result.exit_code, result.stdout) == (0, f"autoprompt {__version__}\n")


def test_help_lists_every_command_and_its_first_line() -> None:
    result = CliRunner().invoke(app, ["--help"])
    assert result.exit_code == 0
    assert "Start with: autoprompt init DIR" in result.stdout
    for name, (_, help_text) in COMMANDS.items():
        assert re.search(rf"^  {name} +{re.escape(help_text)}$", result.stdout, re.MULTILINE)


def test_every_command_has_help() -> None:
    for name in COMMANDS:
        result = CliRunner().invoke(app, [name, "--help"])
        assert (result.exit_code, result.stderr) == (0, "")
        assert load_command(name).help


@pytest.mark.parametrize("arguments", [["runs", "list"], ["runs", "show", "x"]])
def test_looking_at_runs_imports_neither_reader_nor_client(arguments: list[str], tmp_path: Path) -> None:
    code = f"import sys; sys.argv = ['autoprompt', *{arguments!r}]\nfrom autoprompt.cli import main\n"
    code += "try:\n    main()\nexcept SystemExit:\n    print(*sorted(sys.modules), file=sys.stderr)"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=tmp_path
    )
    loaded = set(done.stderr.split())
    assert "autoprompt.runs.listing" in loaded
    assert not loaded & {"httpx", "langgraph", "autoprompt.dataset.reading", "autoprompt.llm.endpoints"}


def test_help_imports_nothing_heavy() -> None:
    # What makes it answer in under 0.3 s; the time itself is measured by hand, a loaded machine would lie.
    code = "import sys; sys.argv = ['autoprompt', '--help']\nfrom autoprompt.cli import main\n"
    code += "try:\n    main()\nexcept SystemExit:\n    print(*sorted(sys.modules), file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "Usage: autoprompt" in done.stdout
    loaded = {name.partition(".")[0] for name in done.stderr.split()}
    assert not loaded & {
        "pydantic",
        "rich",
        "yaml",
        "httpx",
        "langgraph",
        "langchain_core",
        "openai",
        "dotenv",
    }


def test_a_reader_that_leaves_early_is_no_error(tmp_path: Path) -> None:
    command = f"{sys.executable} -c 'from autoprompt.cli import main; main()' run --help | head -n 1"
    done = subprocess.run(command, shell=True, capture_output=True, text=True, cwd=tmp_path, check=True)
    assert done.stdout.startswith("Usage:")
    assert "error" not in done.stderr.lower()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="a disk that is always full")
@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize("arguments", [["runs", "list"], ["runs", "list", "--json"]])
def test_a_full_disk_behind_stdout_is_a_sentence(
    tmp_path: Path, arguments: list[str], unbuffered: str
) -> None:
    code = "from autoprompt.cli import main; main()"
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-c", code, *arguments],
            cwd=tmp_path,
            env={**os.environ, "PYTHONUNBUFFERED": unbuffered},
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert done.returncode == 3
    said = "error: the output is not complete: stdout: no space is left on the disk. Make room.\n"
    assert done.stderr == said


def test_the_package_runs_as_a_module_where_the_command_is_not_on_the_path() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "autoprompt", "--version"], capture_output=True, text=True, check=True
    )
    assert __version__ in done.stdout
