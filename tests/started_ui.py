"""`autoprompt ui` as a user starts it, for tests that ask it over the loopback."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

_COMMAND = [sys.executable, "-c", "from autoprompt.cli import main; main()", "ui"]


def start_ui(runs_dir: Path, port: int = 0) -> tuple[subprocess.Popen[str], int]:
    """The process and its port, once it answers. To be killed by who started it."""
    process = subprocess.Popen(
        [*_COMMAND, "--port", str(port), "--runs-dir", str(runs_dir)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    address = process.stdout.readline()
    assert address.startswith("http://127.0.0.1:"), process.communicate()
    return process, int(address.strip().strip("/").rpartition(":")[2])
