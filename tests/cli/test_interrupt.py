"""Ctrl-C with requests on the wire: the process ends soon, the run can go on, nothing more is sent."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from endpoint import KEY, Endpoint, serving
from waiting import wait_until

pytestmark = pytest.mark.skipif(os.name == "nt", reason="Windows has no SIGINT for another process")

ROWS_AT_ONCE = 6
# The signals as they are at first: under `nohup` a hangup is ignored, and so the program leaves it.
CHILD = """
import signal
for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
    signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)
from autoprompt import evaluation
from autoprompt.cli import main
evaluation.GRACE_S = {grace}
main()
"""


@pytest.fixture
def silent() -> Iterator[Endpoint]:
    """It lists its model, takes questions, and answers none of them until the test is over."""
    with serving() as endpoint:
        endpoint.is_silent.set()
        yield endpoint
        endpoint.is_silent.clear()


@pytest.mark.parametrize(
    ("command", "number", "times"),
    [("run", 2, 1), ("run", 2, 2), ("eval", 2, 2), ("run", 15, 1), ("run", 1, 1)],
    ids=["run INT", "run INT INT", "eval INT INT", "run TERM", "run HUP"],
)
def test_an_interrupt_ends_soon_and_a_second_one_at_once(
    command: str, number: int, times: int, silent: Endpoint, tmp_path: Path
) -> None:
    """Ctrl-C, a request to end, and a terminal that is closed, while the endpoint says nothing."""
    rows = [{"input": f"item {n}", "target": "AB"[n % 2]} for n in range(60)]
    (tmp_path / "t.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    (tmp_path / "c.yaml").write_text(
        f"dataset: t.jsonl\nprompt: A or B?\nmodel: m\nbase_url: {silent.base_url}\n"
        f"concurrency: {ROWS_AT_ONCE}\ntimeout: 45\ntraits: {{thinks_first: false}}\n"
        + ("preset: quick\n" if command == "run" else ""),
        encoding="utf-8",
    )
    with subprocess.Popen(
        [sys.executable, "-c", CHILD.format(grace=5 if times == 1 else 40), command, "--config", "c.yaml"],
        cwd=tmp_path,
        env={**os.environ, "OPENAI_API_KEY": KEY},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            wait_until(lambda: len(silent.requests) == ROWS_AT_ONCE)
            begun = time.monotonic()
            process.send_signal(number)
            if times > 1:
                time.sleep(1.0)
                process.send_signal(number)
            _, told = process.communicate(timeout=30)
            took_s = time.monotonic() - begun
        finally:
            process.kill()
    assert (process.returncode, len(silent.requests)) == (130, ROWS_AT_ONCE), told
    assert took_s < 20.0  # the endpoint has 45 s, and one that is interrupted twice 40 s of grace
    assert "interrupted" in told
    assert "Traceback" not in told
    if command == "run":
        (run,) = (path for path in (tmp_path / "runs").iterdir() if path.is_dir())
        assert f"the state is saved. Resume with: autoprompt resume {run.name}" in " ".join(told.split())
        assert (run / "checkpoints.sqlite").exists()
