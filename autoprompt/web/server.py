"""Serving the pages on this machine, until Ctrl-C."""

from __future__ import annotations

import socket
from collections.abc import Callable
from pathlib import Path
from types import FrameType

import uvicorn

from autoprompt.errors import InputError, Problem
from autoprompt.web.app import make_site
from autoprompt.web.hub import Hub

HOST = "127.0.0.1"
DEFAULT_PORT = 8642
# Where the port is not asked for by name, so many after it are tried.
_TRIED = 20


def bind(port: int | None) -> socket.socket:
    """A socket of this machine's own. port: None for the first free one from DEFAULT_PORT, 0 for any.

    Raises InputError where the port that was asked for is taken, or none is free.
    """
    ports = range(DEFAULT_PORT, DEFAULT_PORT + _TRIED) if port is None else (port,)
    for number in ports:
        found = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            found.bind((HOST, number))
            found.listen()  # only this tells that nobody else does
        except OSError as error:
            found.close()
            reason = error
            continue
        return found
    what = f"port {port}" if port is not None else f"each of the ports {ports[0]} to {ports[-1]}"
    said = f"{what} of {HOST} cannot be used ({reason.strerror})"
    fix = "Stop the program that uses it, or choose another with {port}."
    raise InputError(Problem("web.port", said, fix=fix, settings={"port": None})) from reason


class _Server(uvicorn.Server):
    """Ends the streams when asked to stop: it would wait for them, and they for news."""

    def __init__(self, config: uvicorn.Config, hub: Hub, on_start: Callable[[], None]) -> None:
        super().__init__(config)
        self._hub = hub
        self._on_start = on_start

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started:
            self._on_start()

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        super().handle_exit(sig, frame)
        self._hub.close()


def serve(runs_dir: Path, listening: socket.socket, *, on_start: Callable[[], None] = lambda: None) -> None:
    """Serve until SIGINT or SIGTERM. on_start: called when requests are answered."""
    site = make_site(runs_dir)
    config = uvicorn.Config(
        site.app,
        http="h11",
        loop="asyncio",
        ws="none",
        log_level="warning",
        access_log=False,
        server_header=False,
        date_header=False,
        proxy_headers=False,
        timeout_graceful_shutdown=2,
    )
    _Server(config, site.hub, on_start).run(sockets=[listening])
