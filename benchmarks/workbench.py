"""What the benchmarks of robustness share: rows, a server, the command line in its own folder, a report.

--server PROGRAM: the simulated endpoint to start, any program with the flags of endpoint.py, the default.
--base-url URL --data FILE: instead, a running server that knows the rows of FILE (JSONL: input, target).
--json: the report as JSON on stdout.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import resource
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

PROMPT = "Choose the label, 0 or 1."
CLI = str(Path(sys.executable).with_name("autoprompt"))
ENDPOINT = Path(__file__).with_name("endpoint.py")
START_TIMEOUT_S = 30.0
RUN_TIMEOUT_S = 900.0

_SUBJECTS = ("mayor", "court", "bank", "school", "union", "harbour", "clinic", "museum", "airline", "team")
_VERBS = ("opens", "closes", "sells", "studies", "repairs", "audits", "bans", "praises", "delays", "funds")
_OBJECTS = ("bridge", "archive", "budget", "harvest", "railway", "theatre", "vaccine", "tunnel", "market")


def write_rows(path: Path, count: int, *, seed: int = 0) -> Path:
    """`count` different headlines with a random label each: `{"input": ..., "target": "0" | "1"}`."""
    rng = random.Random(seed)
    with path.open("w", encoding="utf-8") as lines:
        for number in range(count):
            words = rng.choice(_SUBJECTS), rng.choice(_VERBS), rng.choice(_OBJECTS)
            text = f"{number:06d}: {' '.join(words)} after {rng.randrange(2, 99)} weeks"
            lines.write(json.dumps({"input": text, "target": str(rng.randrange(2))}) + "\n")
    return path


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--server", type=Path, default=ENDPOINT, help="program that simulates the endpoint")
    parser.add_argument("--base-url", help="a server that is running already; needs --data")
    parser.add_argument("--data", type=Path, help="rows that the running server knows")
    parser.add_argument("--json", action="store_true", help="the report as JSON on stdout")


def say(text: str) -> None:
    """Progress, for a person who watches."""
    print(text, file=sys.stderr, flush=True)


# --- the endpoint ---


@dataclass
class Server:
    """A simulated endpoint. process: None for one that others have started."""

    base_url: str
    process: subprocess.Popen[bytes] | None = None

    @property
    def root(self) -> str:
        return self.base_url.rstrip("/").removesuffix("/v1")

    @property
    def port(self) -> int:
        return int(self.root.rpartition(":")[2])

    def stats(self) -> dict[str, Any]:
        with urllib.request.urlopen(f"{self.root}/stats", timeout=10) as answer:
            stats: dict[str, Any] = json.load(answer)
        return stats

    def idle_stats(self) -> dict[str, Any]:
        """The counters once nothing is being answered any more."""
        while (stats := self.stats())["in_flight"]:
            time.sleep(0.02)
        return stats

    def reset(self) -> None:
        self.idle_stats()
        request = urllib.request.Request(f"{self.root}/reset", method="POST")
        urllib.request.urlopen(request, timeout=10).close()

    def stop(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    return port


@contextmanager
def serve(
    options: argparse.Namespace, data: Path, *, port: int | None = None, **flags: object
) -> Iterator[Server]:
    """The server that the options name. flags: of the program that is started, e.g. `p429=0.2`."""
    if options.base_url:
        yield Server(options.base_url)
        return
    port = port or free_port()
    given = {"port": port, "data": data, "latency": 0.02, **flags}
    command = [sys.executable, str(options.server)]
    for name, value in given.items():
        command += [f"--{name.replace('_', '-')}", *([str(value)] if value != "" else [])]  # "": a switch
    server = Server(f"http://127.0.0.1:{port}/v1", subprocess.Popen(command))
    try:
        _wait_until_up(server)
        yield server
    finally:
        server.stop()


def _wait_until_up(server: Server) -> None:
    deadline = time.monotonic() + START_TIMEOUT_S
    while True:
        try:
            urllib.request.urlopen(f"{server.base_url}/models", timeout=2).close()
            return
        except (urllib.error.URLError, ConnectionError, TimeoutError):
            if server.process is not None and server.process.poll() is not None:
                raise SystemExit(f"the server ended at once: {server.process.args!r}") from None
            if time.monotonic() > deadline:
                raise SystemExit(f"{server.base_url}: no server within {START_TIMEOUT_S:.0f} s") from None
            time.sleep(0.05)


# --- the command line ---


@dataclass(frozen=True)
class Finished:
    """How a command ended. exit_code: negative for a signal. peak_mb: most memory that it held."""

    exit_code: int
    seconds: float
    stdout: str
    stderr: str
    peak_mb: float

    @property
    def result(self) -> dict[str, Any]:
        """The object that `--json` printed; {} where there is none."""
        try:
            data: dict[str, Any] = json.loads(self.stdout)
        except ValueError:
            return {}
        return data

    @property
    def last_words(self) -> str:
        return " ".join(self.stderr.strip().splitlines()[-2:])


@dataclass
class Folder:
    """A working folder with its own runs, cache, memory and HOME; nothing of the user's is touched."""

    path: Path
    environment: dict[str, str] = field(init=False)

    def __post_init__(self) -> None:
        self.path.mkdir(parents=True, exist_ok=True)
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("OPENAI_", "AUTOPROMPT_"))}
        self.environment = {**kept, "HOME": str(self.path), "XDG_CACHE_HOME": str(self.path / "cache")}

    @property
    def memory(self) -> Path:
        return self.path / "memory.txt"

    def run_command(self, dataset: Path, base_url: str, *flags: object) -> list[str]:
        command = [
            CLI,
            "run",
            "--dataset",
            dataset,
            "--base-url",
            base_url,
            "--prompt",
            PROMPT,
            "--json",
            "--quiet",
        ]
        own = ["--runs-dir", "runs", "--set", "cache_dir=cache", "--set", f"memory_file={self.memory}"]
        return [str(part) for part in (*command, *own, *flags)]

    def resume_command(self, run_id: str) -> list[str]:
        return [CLI, "resume", run_id, "--runs-dir", "runs", "--json", "--quiet"]

    def start(self, command: list[str]) -> Running:
        return Running(self, command)

    def finish(self, command: list[str], *, timeout_s: float = RUN_TIMEOUT_S) -> Finished:
        return self.start(command).wait(timeout_s)

    def run_dirs(self) -> list[Path]:
        """Folders of runs that are whole (those that `runs list` can read)."""
        return sorted(path.parent for path in (self.path / "runs").glob("*/run.json"))


class Running:
    """A command at work; what it prints goes to two files in its folder."""

    def __init__(self, folder: Folder, command: list[str]) -> None:
        self._out, self._err = folder.path / "stdout.txt", folder.path / "stderr.txt"
        self._begun = time.monotonic()
        with self._out.open("wb") as out, self._err.open("wb") as err:
            self._process = subprocess.Popen(
                command, cwd=folder.path, env=folder.environment, stdout=out, stderr=err
            )

    def wait(self, timeout_s: float = RUN_TIMEOUT_S) -> Finished:
        """Until it has ended; after `timeout_s` it is killed."""
        deadline = self._begun + timeout_s
        usage: resource.struct_rusage | None = None
        while usage is None:
            # wait4 and not Popen.wait: it tells the memory of this child alone.
            pid, status, found = os.wait4(self._process.pid, os.WNOHANG)
            if pid:
                usage, self._process.returncode = found, os.waitstatus_to_exitcode(status)
            elif time.monotonic() > deadline:
                self.kill()
                deadline = float("inf")
            else:
                time.sleep(0.002)
        seconds = time.monotonic() - self._begun
        texts = [path.read_text(encoding="utf-8", errors="replace") for path in (self._out, self._err)]
        return Finished(self._process.returncode, seconds, texts[0], texts[1], usage.ru_maxrss / 1024)

    def kill(self) -> None:
        # Not Popen.kill, which would take the exit status, and with it the memory, from `wait`.
        os.kill(self._process.pid, signal.SIGKILL)


# `sent_to` is empty for a process that finds all answers in the journal.
_OF_A_PROCESS = ("run_id", "run_dir", "seconds", "concurrency", "sent_to")


def outcome(result: dict[str, Any]) -> dict[str, Any]:
    """A result without what two equal runs may differ in: when, where and how long."""
    return {k: v for k, v in result.items() if k not in _OF_A_PROCESS}


def differences(one: dict[str, Any], other: dict[str, Any]) -> list[str]:
    """Names of the values that differ between two outcomes, with both."""
    a, b = flat(outcome(one)), flat(outcome(other))
    return [f"{k}: {a.get(k)!r} / {b.get(k)!r}" for k in sorted({*a, *b}) if a.get(k) != b.get(k)]


def flat(data: dict[str, Any], before: str = "") -> dict[str, Any]:
    """The values under dotted names."""
    found: dict[str, Any] = {}
    for name, value in data.items():
        found |= flat(value, f"{before}{name}.") if isinstance(value, dict) else {before + name: value}
    return found


# --- the report ---


@dataclass
class Report:
    """Lines of (what, measured, bound, kept or not), in the order in which they were measured."""

    title: str
    lines: list[dict[str, Any]] = field(default_factory=list)

    def add(self, what: str, measured: object, bound: str, is_kept: bool) -> None:
        self.lines.append({"what": what, "measured": measured, "bound": bound, "ok": is_kept})
        say(f"  {'ok  ' if is_kept else 'FAIL'} {what}: {measured} (bound: {bound})")

    def finish(self, *, as_json: bool) -> int:
        """Print everything; 0 if every bound is kept, else 1."""
        is_kept = all(line["ok"] for line in self.lines)
        if as_json:
            print(json.dumps({"benchmark": self.title, "ok": is_kept, "lines": self.lines}, indent=2))
            return 0 if is_kept else 1
        print(f"\n{self.title}")
        for line in self.lines:
            print(
                f"{'ok  ' if line['ok'] else 'FAIL'}  {line['what']}: {line['measured']}  [{line['bound']}]"
            )
        return 0 if is_kept else 1
