"""`autoprompt doctor`: what works on this machine, and what to do about the rest."""

from __future__ import annotations

import hashlib
import os
import platform
import re
import shlex
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from difflib import get_close_matches
from importlib import metadata, util
from pathlib import Path
from typing import Annotated

import httpx
import typer
from rich.text import Text

from autoprompt.cli import options, render
from autoprompt.cli.environment import read_environment
from autoprompt.cli.output import clean, print_json
from autoprompt.errors import ConfigError, ModelError, StoreError, UsageError, Voice
from autoprompt.llm import local, weights
from autoprompt.llm.endpoints import OPENAI_URL, read_key
from autoprompt.llm.transport.address import checked_url, request_url
from autoprompt.llm.transport.failures import has_login
from autoprompt.llm.transport.http import from_httpx, http_client, listed, meant_address
from autoprompt.report.numbers import megabytes
from autoprompt.settings.records import LOCAL, is_embedded, openai_address
from autoprompt.settings.trust import check_not_left_out
from autoprompt.text.files import check_writable
from autoprompt.text.machine import install, install_extra, requirements

app = typer.Typer(rich_markup_mode=None, add_completion=False)

_ENDPOINT_TIMEOUT_S = 5.0
# Without two parts that the build would fetch from elsewhere than the registry, and that nothing here uses.
# `make native` says the same.
NATIVE_FLAGS = 'CMAKE_ARGS="-DLLAMA_LLGUIDANCE=OFF -DLLAMA_BUILD_BORINGSSL=OFF"'
_RUN_BYTES = 200_000_000  # a run with its cache, on the generous side


@dataclass(frozen=True, slots=True)
class Check:
    """One line. is_needed: whether what fails here stops a run with the present settings."""

    name: str
    is_ok: bool
    found: str
    advice: str = ""
    is_needed: bool = True


@app.command()
def doctor(
    *,
    model: Annotated[
        str | None,
        typer.Option(metavar="MODEL", envvar="AUTOPROMPT_MODEL", help="Model to ask, as in `run`."),
    ] = None,
    base_url: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            envvar="AUTOPROMPT_BASE_URL",
            parser=options.address,
            help="Endpoint to ask, as in `run`.",
        ),
    ] = None,
    as_json: options.Json = False,
    trust: options.Trust = False,
) -> None:
    """Show what works on this machine. Exit code 0 if a run with these settings can start."""
    read_environment(is_trusted=trust)
    checks, conclusion = _examined(model, base_url, os.environ)
    works = all(check.is_ok for check in checks if check.is_needed)
    if as_json:
        print_json({"works": works, "checks": [asdict(check) for check in checks]})
    else:
        _print(checks, conclusion)
    if not works:
        raise typer.Exit(ModelError.exit_code)


def _ready(model: str | None, base_url: str | None) -> str:
    """Return the command that these checks speak for."""
    flags = f" --model {shlex.quote(model)}" if model else ""
    flags += f" --base-url {shlex.quote(str(_public(base_url)))}" if base_url else ""
    return f"Ready: autoprompt run --dataset FILE{flags}"


def _print(checks: list[Check], conclusion: str) -> None:
    console = render.console()
    for check in checks:
        mark, style = ("no", "red") if check.is_needed else ("note", "yellow")
        if check.is_ok:
            mark, style = "ok", "green"
        line = Text.assemble((f"{mark:6}", style), f"{check.name:18}{clean(check.found)}")
        console.print(line)
        if check.advice and not check.is_ok:
            console.print(Text(f"{'':24}{clean(check.advice)}"))
    console.print(Text())
    console.print(Text(clean(conclusion)))


def _examined(model: str | None, base_url: str | None, environ: Mapping[str, str]) -> tuple[list[Check], str]:
    """All checks, and what follows from them. If no model is named, either kind will do."""
    name = model or ("" if base_url else LOCAL)
    is_local, is_open = is_embedded(name), model is None and base_url is None
    embedded = [*_runtime(is_needed=is_local), _weights(name.partition(":")[2] or weights.DEFAULT)]
    url, has_key = base_url or openai_address(environ), bool(environ.get("OPENAI_API_KEY", "").strip())
    has_endpoint = not is_local or bool(url) or has_key
    endpoint = list(_endpoint(url or OPENAI_URL, "" if is_local else name, environ)) if has_endpoint else []
    is_remote = not is_local or (is_open and has_endpoint and _works(endpoint) and not _works(embedded))
    embedded = [replace(check, is_needed=check.is_needed and not is_remote) for check in embedded]
    endpoint = [replace(check, is_needed=check.is_needed and is_remote) for check in endpoint]
    others = [_disk(environ), _cache(), *_sandbox()]
    python = Check("python", sys.version_info >= (3, 11), platform.python_version(), "Python 3.11 or newer")
    first = [python, _packages()]
    checks = [*first, *embedded, *endpoint, *others]
    command = "autoprompt run --dataset FILE --model MODEL"
    if _works(checks):
        if is_open and is_remote:
            return checks, f"Ready on the endpoint: {command}. The embedded model is not ready; see above."
        return checks, _ready(model, base_url)
    if is_open and _works([*first, *others]):
        said = "The embedded model is not ready; see above. To use an endpoint instead"
        return checks, f"{said}: {command} --base-url URL"
    return checks, "A run cannot start yet; see above."


def _works(checks: Sequence[Check]) -> bool:
    return all(check.is_ok for check in checks if check.is_needed)


def _packages() -> Check:
    required = requirements()
    missing = []
    for requirement in required:
        try:
            metadata.version(re.split(r"[^A-Za-z0-9._-]", requirement)[0])
        except metadata.PackageNotFoundError:
            missing.append(requirement)
    found = f"missing: {', '.join(missing)}" if missing else f"all {len(required)} are here"
    return Check("packages", not missing, found, install(missing))


def _runtime(*, is_needed: bool) -> Iterator[Check]:
    name, advice = "embedded runtime", f"{install_extra('local')}; or set --model and --base-url"
    if util.find_spec("xllamacpp") is None:
        yield Check(name, False, "not installed", advice, is_needed)
        return
    try:
        unused = local.unused_instructions()
    except (ImportError, OSError) as error:
        yield Check(name, False, f"does not load: {error}", advice, is_needed)
        return
    yield Check(name, True, f"xllamacpp {metadata.version('xllamacpp')}", "", is_needed)
    if unused and is_needed:
        found = f"built without {unused}, which this processor has"
        native = install(["--force-reinstall", "--no-deps", "--no-binary", "xllamacpp", "xllamacpp"])
        advice = f"Up to twice as fast with it. Takes minutes, a C++ compiler, CMake: {NATIVE_FLAGS} {native}"
        yield Check("runtime build", False, found, advice, is_needed=False)


def _weights(name: str) -> Check:
    known = {status.weights.name: status for status in weights.table()}
    if name not in known:
        path = weights.weights_path(name)
        return Check("weights", True, f"{path} (your own file; no checksum)")
    status = known[name]
    size = status.weights.size_bytes
    if status.is_present:
        with status.path.open("rb") as file:
            is_right = hashlib.file_digest(file, "sha256").hexdigest() == status.weights.sha256
        found = f"{name}, {megabytes(size)}, sha256 {'is right' if is_right else 'is WRONG'}"
        return Check("weights", is_right, found, f"autoprompt models pull {name}")
    free = shutil.disk_usage(_existing(status.path.parent)).free
    found = f"{name}: not here yet, a first run fetches {megabytes(size)} to {status.path.parent}"
    if free > size * 1.1:
        return Check("weights", True, found)
    advice = (
        f"{megabytes(free)} free there: free some disk space, or set AUTOPROMPT_WEIGHTS_DIR to another folder"
    )
    return Check("weights", False, found, advice)


def _endpoint(url: str, model: str, environ: Mapping[str, str]) -> Iterator[Check]:
    """model: "" where none is named at the endpoint."""
    try:
        key = read_key(environ, "OPENAI_API_KEY")
    except ConfigError as error:
        yield Check("endpoint key", False, str(error))
        return
    yield Check(
        "endpoint key",
        bool(key),
        "OPENAI_API_KEY is set" if key else "OPENAI_API_KEY is not set",
        "Many endpoints need a key: set it in the environment or in .env",
        is_needed=False,
    )
    try:
        if url == OPENAI_URL:
            check_not_left_out("AUTOPROMPT_BASE_URL", "OPENAI_BASE_URL", "OPENAI_API_BASE")
        url = checked_url(url)
        with http_client(key, timeout_s=_ENDPOINT_TIMEOUT_S) as client:
            answer = client.get(request_url(url, "/models"))
    except (ConfigError, UsageError) as error:
        yield Check("endpoint", False, str(error))
        return
    except httpx.HTTPError as error:
        failure = from_httpx(error, url, key)
        advice = "" if failure.is_fatal else _hint(url, key) or "Check --base-url and the network"
        yield Check("endpoint", False, failure.message(Voice.CLI), advice)
        return
    found = f"{_public(url)}: HTTP {answer.status_code}"
    asked_by = "user and password in the base URL" if has_login(url) else "OPENAI_API_KEY"
    if answer.status_code == 403 and model:
        # A key may be let in to the model and not to the list. 401 knows no key at all, and refuses both.
        advice = f"It does not list models for you; a run may still work. If not, check {asked_by}"
        yield Check("endpoint", False, found, advice, is_needed=False)
        return
    if answer.status_code in (401, 403):
        advice = f"Missing or refused: check {asked_by}"
        yield Check("endpoint", False, found, advice)
        return
    entries = listed(answer.content) if answer.status_code == 200 else None
    if answer.status_code in (200, 404, 405) and entries is None:
        # An endpoint need not list its models to serve them.
        advice = "It lists no models. Check the base URL, which usually ends in /v1"
        hint = _hint(url, key)
        yield Check("endpoint", False, found, hint or advice, is_needed=bool(hint))
        return
    if answer.status_code == 400 and (hint := _hint(url, key)):
        yield Check("endpoint", False, found, hint)
        return
    yield Check("endpoint", answer.status_code < 500, found)
    names = [str(entry["id"]) for entry in entries or () if "id" in entry]
    if model and names:
        yield _listed(model, names)


def _listed(model: str, names: Sequence[str]) -> Check:
    """Return a note: some endpoints take other names than those that they list."""
    if model in names:
        return Check("endpoint model", True, f"{model} is listed", is_needed=False)
    near = (
        get_close_matches(model, names, n=3) or [name for name in names if model.lower() in name.lower()][:3]
    )
    advice = f"Did you mean {', '.join(near)}?" if near else f"Listed: {', '.join(sorted(names)[:10])}"
    advice += f", and {len(names) - 10} more" if not near and len(names) > 10 else ""
    return Check("endpoint model", False, f"{model} is not among the {len(names)} listed", advice, False)


def _public(url: str) -> httpx.URL:
    """`url` without what may hold a secret."""
    return httpx.URL(url).copy_with(userinfo=b"", query=None)


def _disk(environ: Mapping[str, str]) -> Check:
    free = shutil.disk_usage(Path()).free
    runs_dir = Path(environ.get("AUTOPROMPT_RUNS_DIR") or "runs")
    try:
        check_writable(runs_dir / "RUN", makes_folders=True, fix="")
    except StoreError as error:
        advice = "Run in a folder of your own, or choose another one with --runs-dir"
        return Check("disk", False, str(error).strip(), advice)
    return Check(
        "disk", free > _RUN_BYTES, f"{megabytes(free)} free here, for run folders", "Free some disk space"
    )


def _cache() -> Check:
    from autoprompt.llm.kept.cache import default_dir

    chosen = os.environ.get("AUTOPROMPT_CACHE_DIR")
    folder = Path(chosen) if chosen else default_dir()
    is_writable = os.access(_existing(folder), os.W_OK)
    advice = "Not writable. Add --set cache_dir=FOLDER or --no-cache to a run"
    return Check("cache", is_writable, str(folder), advice, is_needed=False)


def _sandbox() -> Iterator[Check]:
    from autoprompt import sandbox
    from autoprompt.sandbox import overruns

    level = sandbox.probe()
    advice = "Needed only for code that models write. On Linux, install bubblewrap"
    yield Check("sandbox", level.confines, str(level), advice, is_needed=False)
    unnoticed = overruns.unnoticed(level)
    limits = [limit for limit in overruns.LIMITED if limit not in {overrun.limit for overrun in unnoticed}]
    ways = "; ".join(f"{overrun.limit} ({overrun.way})" for overrun in unnoticed)
    advice = f"These limits do not hold: {ways}. Run such code in a container with limits"
    yield Check(
        "sandbox limits", not unnoticed, f"{', '.join(limits) or 'none'} hold", advice, is_needed=False
    )


def _existing(folder: Path) -> Path:
    """Return the folder, or the nearest one above it that is there."""
    folder = folder.absolute()
    return next(path for path in (folder, *folder.parents) if path.exists())


def _hint(url: str, key: str) -> str:
    """Return where an endpoint answers, near an address at which none does; "" if none is found."""
    meant = meant_address(url, key)
    return f"An endpoint answers at {meant}: set --base-url to that" if meant else ""
