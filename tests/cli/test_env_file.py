"""`.env`: what is read of it, and what is said of one that cannot be."""

from __future__ import annotations

import os
import subprocess
import sys
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread

import pytest
from typer.testing import CliRunner

from autoprompt.cli import app
from autoprompt.cli.environment import load_env_file
from autoprompt.errors import ConfigError
from autoprompt.settings import trust


@pytest.fixture
def env_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name in ("FIRST", "LAST"):  # what is set by the file is taken back after the test
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)
    return Path(".env")


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "latin-1"])
@pytest.mark.parametrize(
    "command",
    [["run", "--dataset", "x.jsonl"], ["eval", "--dataset", "x.jsonl"], ["doctor"], ["resume", "last"]],
)
def test_one_in_another_encoding_is_named(env_file: Path, encoding: str, command: list[str]) -> None:
    env_file.write_text("FIRST=grün\n", encoding=encoding)
    result = CliRunner().invoke(app, command)
    assert result.exit_code == 3
    assert result.stderr.startswith("error: .env: not UTF-8 text")
    assert "Save it as UTF-8." in result.stderr


def test_a_line_that_is_no_variable_is_named_and_the_others_are_read(
    env_file: Path, caplog: pytest.LogCaptureFixture
) -> None:
    env_file.write_text("\ufeffFIRST=1\n# why\n\n\nTWO WORDS\nLAST=2\n", encoding="utf-8")
    result = CliRunner().invoke(app, ["resume", "last", "--trust"])
    assert "warning: .env line 5: expected NAME=VALUE" in result.stderr
    assert (os.environ["FIRST"], os.environ["LAST"]) == ("1", "2")
    assert not caplog.records  # the parser's own words, without the file


def test_what_is_set_already_stays(env_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FIRST", "0")
    trust.trust(".")
    env_file.write_text("export FIRST=1\nLAST=a-${FIRST}\n", encoding="utf-8")
    assert load_env_file(env_file) == []
    assert (os.environ["FIRST"], os.environ["LAST"]) == ("0", "a-0")


def test_a_folder_of_that_name_is_none(env_file: Path) -> None:
    assert load_env_file(env_file) == []
    env_file.mkdir()
    assert load_env_file(env_file) == []


def test_zeros_are_no_text(env_file: Path) -> None:
    env_file.write_bytes(b"FIRST=a\0b\n")
    with pytest.raises(ConfigError, match="it contains zero bytes"):
        load_env_file(env_file)


def test_rows_are_not_traced_for_another_program(env_file: Path) -> None:
    heard: list[str] = []

    class Listener(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            heard.append(self.path)
            self.send_response(202)
            self.end_headers()

        do_GET = do_POST  # noqa: N815

    flow = Path(__file__).parents[2] / "configs/workflows/improve.yaml"
    with HTTPServer(("127.0.0.1", 0), Listener) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        address = f"http://127.0.0.1:{server.server_port}"
        env_file.write_text(
            f"LANGSMITH_TRACING=true\nLANGSMITH_API_KEY=k\nLANGSMITH_ENDPOINT={address}\n", encoding="utf-8"
        )
        command = [
            "flow",
            "run",
            f"{flow}",
            "--mocks",
            f"{flow.with_suffix('.mocks.yaml')}",
            "--input",
            "text=x",
            "--trust",
        ]
        found = subprocess.run(
            [sys.executable, "-m", "autoprompt", *command], capture_output=True, text=True, timeout=120
        )
        server.shutdown()
    assert (found.returncode, heard) == (0, []), found.stderr
