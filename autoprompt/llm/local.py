"""The embedded model: llama.cpp in this process, behind an OpenAI-compatible endpoint on the loopback.

So a local model goes the same way as any other endpoint (`llm.transport.http`) and dies with the process.
The only module that knows `xllamacpp`.
"""

from __future__ import annotations

import atexit
import os
import re
import secrets
import socket
import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx

from autoprompt.errors import Place, Problem, RuntimeMissingError
from autoprompt.llm import weights
from autoprompt.text.machine import install_extra
from autoprompt.text.names import counted

_READY_TIMEOUT_S = 60.0
_CPU_INFO = Path("/proc/cpuinfo")  # Linux alone


@dataclass(slots=True)
class LocalServer:
    """A running embedded model, shared by all of the process that asked for the same one.

    base_url: of the endpoint, with `/v1`. api_key: drawn for this process; without it nothing is answered.
    identity: what the answers depend on besides the request, for cache keys: the sha256 of the weights, or
        size and time of a file of the user's own.
    """

    base_url: str
    api_key: str = field(repr=False)
    identity: str
    model: str
    _key: _Key = field(repr=False)
    _is_open: bool = field(default=True, repr=False)

    def close(self) -> None:
        """Give the model back. The last user ends it: requests still in flight fail. Safe to call twice."""
        with _lock:
            if not self._is_open:
                return
            self._is_open = False
            running = _running.get(self._key)
            if running is None:  # the process is ending
                return
            running.users -= 1
            if not running.users:
                _stop(_running.pop(self._key))


@dataclass(slots=True)
class _Running:
    server: Any  # xllamacpp.Server; None once stopped
    address: str
    api_key: str
    users: int = 0


_Key = tuple[Path, int, int]
_running: dict[_Key, _Running] = {}
_lock = threading.Lock()


def start(
    name: str = weights.DEFAULT,
    *,
    context_tokens: int = 8192,
    threads: int | None = None,
    on_progress: weights.Progress | None = None,
) -> LocalServer:
    """Start the embedded model, or join the one that runs. Fetch its weights if they are missing.

    Args:
        name: One of `weights.table()`, or the path of a GGUF file.
        context_tokens: The longest prompt with its answer; costs about 28 kB of memory a token (1.5B model).
        threads: Of the computation; by default one for each physical core that this process may use.
        on_progress: Hears how far the weights have come.

    Returns:
        One user's hold on it; the model ends with its last user.

    Raises:
        RuntimeMissingError: The runtime or the weights are missing, or do not work.
        ConfigError: The name is unknown.
    """
    try:
        import xllamacpp
    except ImportError as error:
        fix = f"Install it: {install_extra('local')}; or set {{model}} and {{base_url}}."
        settings = {"model": None, "base_url": None}
        problem = Problem(
            "model.no-runtime", "the embedded runtime is not installed", fix=fix, settings=settings
        )
        raise RuntimeMissingError(problem) from error
    path = weights.pull(name, on_progress)
    key = (path.resolve(), context_tokens, threads or usable_cores())
    with _lock:
        running = _running.get(key)
        if running is None:
            running = _running[key] = _launch(xllamacpp, *key)
        running.users += 1
    return LocalServer(
        base_url=f"{running.address}/v1",
        api_key=running.api_key,
        identity=_identity(name, path),
        model=name,
        _key=key,
    )


def _launch(xllamacpp: Any, path: Path, context_tokens: int, threads: int) -> _Running:
    api_key = secrets.token_urlsafe(24)
    settings = xllamacpp.CommonParams()
    settings.model.path = str(path)
    settings.hostnames = ["127.0.0.1"]
    settings.port = 0
    settings.api_keys = [api_key]
    settings.n_ctx = context_tokens
    # One slot: each would compute an equal prefix for itself (20 rows behind a new prefix on 2 cores: 23.5 s
    # with one slot, 39 s with four).
    settings.n_parallel = 1
    settings.cpuparams.n_threads = threads
    settings.cpuparams_batch.n_threads = threads
    settings.n_batch = 512  # what cannot be interrupted: an end waits for it
    # An answer must not depend on what was asked before. As llama.cpp comes, a label's probability moved
    # by up to 0.03 with the share of the prompt that was cached, so near ties could flip; with these two
    # it was equal in 12 of 12 repeats (default: 6 of 12). Only the very same request twice running still
    # differs (one token is computed again, by another kernel): the response cache answers that one. On 2
    # busy cores, 16 and 24 demonstrations, medians beside the default's: a new prefix 7.6 s (9.1), a row
    # behind it 0.9 s (0.8), memory 1.5 GB (2.1).
    settings.no_extra_bufts = True
    settings.flash_attn_type = xllamacpp.llama_flash_attn_type.LLAMA_FLASH_ATTN_TYPE_DISABLED
    # Prefixes that were left are kept: coming back to one takes 2.4 s instead of 7.6 s. 14 MB for 500 tokens.
    settings.cache_ram_mib = 1024
    settings.warmup = False
    settings.ui = False
    settings.verbosity = -1  # llama.cpp writes past Python to the terminal, across the panel
    try:
        server = xllamacpp.Server(settings)
    except RuntimeError as error:
        said = (
            "llama.cpp cannot load this file (not a GGUF model, or too little memory for "
            f"{counted(context_tokens, 'token')} of context)"
        )
        fix = "Close other programs, or use another file."
        raise RuntimeMissingError(Problem("model.not-loaded", said, Place(path), fix)) from error
    address: str = server.listening_address
    _await_loop(address, api_key)
    return _Running(server, address, api_key)


def _await_loop(address: str, api_key: str) -> None:
    """Wait until the server works on its queue.

    A server that is let go between its construction and the first turn of its loop never ends, and the
    process with it (seen with xllamacpp 2026.10). `/slots` is answered by that loop.
    """
    try:
        httpx.get(
            f"{address}/slots",
            headers={"Authorization": f"Bearer {api_key}"},
            timeout=_READY_TIMEOUT_S,
            trust_env=False,  # no proxy between us and ourselves
        ).raise_for_status()
    except httpx.HTTPError as error:
        said, fix = (
            f"the embedded model does not answer ({error})",
            "Start it again: `autoprompt doctor` tests it.",
        )
        raise RuntimeMissingError(Problem("model.no-start", said, fix=fix)) from error


def _stop(running: _Running) -> None:
    """Frees the model. llama.cpp first finishes the batch of tokens that it is at."""
    _hang_up(urlsplit(running.address).port)
    running.server = None  # its destructor joins its threads


def _hang_up(port: int | None) -> None:
    """Cuts this process's own connections to the server.

    The server cannot end while a request waits for it: its destructor then hangs with the interpreter's lock
    held, and a process that ends without it crashes in llama.cpp's threads (seen with xllamacpp 2026.10).
    A request ends early only by its connection, and the connections belong to clients that we do not know.
    """
    descriptors = Path("/dev/fd")
    for descriptor in list(descriptors.iterdir()) if descriptors.is_dir() else ():
        try:
            connection = socket.socket(fileno=int(descriptor.name))
        except OSError:  # not a socket, or closed by now
            continue
        try:
            if connection.getpeername()[:2] == ("127.0.0.1", port):
                connection.shutdown(socket.SHUT_RDWR)
        except OSError:  # not connected
            continue
        finally:
            connection.detach()  # it stays its owner's


def _identity(name: str, path: Path) -> str:
    known = weights.KNOWN.get(name)
    if known:
        return known.sha256
    found = path.stat()
    return f"{path.name}:{found.st_size}:{found.st_mtime_ns}"


def unused_instructions() -> str:
    """Return "AVX-512" if this processor has it and the installed runtime was built without it; else "".

    The wheels of the registry are: one that is built for this machine reads a prompt about twice as fast
    (benchmarks/docs/embedded_model.md).

    Raises:
        ImportError: There is no runtime.
    """
    import xllamacpp

    flags = _CPU_INFO.read_text(encoding="ascii", errors="replace") if _CPU_INFO.exists() else ""
    has_it = re.search(r"^flags\s*:.*\bavx512f\b", flags, re.MULTILINE)
    return "AVX-512" if has_it and "AVX512 = 1" not in xllamacpp.get_system_info() else ""


def usable_cores() -> int:
    """Return how many physical cores this process may use, at least 1: hyper-threads slow llama.cpp down."""
    try:
        allowed = os.sched_getaffinity(0)
    except AttributeError:  # macOS
        return os.cpu_count() or 1
    topology = Path("/sys/devices/system/cpu")
    siblings = (topology / f"cpu{cpu}/topology/thread_siblings_list" for cpu in allowed)
    cores = {file.read_text(encoding="ascii") for file in siblings if file.exists()}
    return max(1, min(len(cores) or len(allowed), _container_limit()))


def _container_limit() -> int:
    """Cores that the container's quota is worth; a large number where there is none."""
    quota = Path("/sys/fs/cgroup/cpu.max")
    limit, _, period = quota.read_text(encoding="ascii").partition(" ") if quota.exists() else ("max", "", "")
    return max(1, int(limit) // int(period)) if limit.isdigit() else 1 << 16


@atexit.register
def _close_all() -> None:
    with _lock:
        while _running:
            _stop(_running.popitem()[1])
