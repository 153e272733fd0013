"""What settings from elsewhere may say, and the folder in which this user keeps what is trusted."""

from __future__ import annotations

import os
import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, get_args

from autoprompt.errors import ConfigError, Place, Problem
from autoprompt.settings.records import ConfigFile, ScienceConfig

_SECRET = "secret"
_FEWEST_BYTES = 32


def own_folder() -> Path | None:
    """Return `$XDG_CONFIG_HOME/autoprompt`, else `~/.config/autoprompt`; None for a user without a home.

    A relative XDG_CONFIG_HOME is ignored, as its specification demands: it would be the working directory.
    """
    chosen = os.environ.get("XDG_CONFIG_HOME", "")
    if chosen and Path(chosen).is_absolute():
        return Path(chosen) / "autoprompt"
    try:
        return Path.home() / ".config" / "autoprompt"
    except RuntimeError:
        return None


def write_private(name: str, text: str) -> Path:
    """Replace a file of the folder at once; only this user can read it.

    Raises:
        OSError: If it cannot be written.
    """
    folder = _made()
    beside = folder / f".{name}.{secrets.token_hex(4)}.tmp"
    try:
        _write_file(beside, text)
        beside.replace(folder / name)
    finally:
        beside.unlink(missing_ok=True)
    return folder / name


def read_secret() -> bytes | None:
    """Return the secret of this user; None if there is none yet.

    Raises:
        OSError: If it cannot be read.
    """
    folder = own_folder()
    path = None if folder is None else folder / _SECRET
    if path is None or not path.is_file():
        return None
    secret = path.read_bytes().strip()
    return secret if len(secret) >= _FEWEST_BYTES else None


def make_secret() -> bytes:
    """Return the secret of this user, made if need be.

    Raises:
        OSError: If the folder cannot be written.
    """
    if (known := read_secret()) is not None:
        return known
    folder = _made()
    beside = folder / f".{_SECRET}.{secrets.token_hex(4)}.tmp"
    try:
        _write_file(beside, secrets.token_hex(_FEWEST_BYTES) + "\n")
        try:
            os.link(beside, folder / _SECRET)  # of two processes that begin at once, one is first
        except FileExistsError:
            pass
        except OSError:  # a file system without hard links
            beside.replace(folder / _SECRET)
    finally:
        beside.unlink(missing_ok=True)
    made = read_secret()
    if made is None:
        raise OSError(f"{folder / _SECRET} holds no secret: delete the file")
    return made


def _made() -> Path:
    folder = own_folder()
    if folder is None:
        raise OSError("this user has no home folder")
    folder.parent.mkdir(parents=True, exist_ok=True)
    folder.mkdir(mode=0o700, exist_ok=True)
    return folder


def _write_file(path: Path, text: str) -> None:
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(handle, "w", encoding="utf-8", errors="surrogateescape") as stream:
        stream.write(text)
        stream.flush()
        os.fsync(stream.fileno())


Kind = Literal["code", "file", "address"]
_FILE = "trusted"
_ADDRESSES = ("base_url", "optimizer_base_url", "judge_base_url", "allow_private_hosts")
# What they name is executed, or asks other hosts: a workflow's nodes send requests with what they like.
# `runs apply` writes the file of prompts.
_PROGRAMS = ("program", "prompts_file", "tools", "workflow", "mocks", "python")
# `local:FILE.gguf`: weights are parsed by C code that trusts them, and their chat template is executed.
_MODELS = ("model", "optimizer_model", "judge_model")
_FUNCTION = re.compile(r"""\s*["']?python:[\w.]+:\w+["']?\s*""", re.IGNORECASE)


@dataclass(slots=True)
class _Decided:
    """What this process trusts beside the stored folders, and which addresses of `.env` it left out."""

    folders: set[Path] = field(default_factory=set)
    is_everything: bool = False
    left_out: dict[str, Place] = field(default_factory=dict)


_decided = _Decided()


def trust(folder: str | Path) -> None:
    """Trust a folder and everything below it, in this process.

    Sidecars and run folders there may then name code, files elsewhere and addresses. `autoprompt trust
    FOLDER` does the same for every process of this user.

    Args:
        folder: A folder that exists.

    Raises:
        ConfigError: There is no such folder.

    Examples:
        >>> import tempfile, autoprompt
        >>> autoprompt.trust(tempfile.gettempdir())
    """
    _decided.folders.add(_existing(Path(folder)))


def trust_everything() -> None:
    """Trust all that this process reads."""
    _decided.is_everything = True


def stored_folders() -> list[Path]:
    """Return the folders that this user trusts for good, sorted.

    Raises:
        ConfigError: If the list cannot be read.
    """
    folder = own_folder()
    path = None if folder is None else folder / _FILE
    if path is None or not path.is_file():
        return []
    try:
        text = path.read_text(encoding="utf-8", errors="surrogateescape")
    except OSError as error:
        raise _unusable(path, error) from error
    return sorted({Path(line) for line in text.splitlines() if Path(line).is_absolute()})


def store(folder: Path) -> Path:
    """Trust a folder for good; return it without links.

    Raises:
        ConfigError: If the list cannot be read or written.
    """
    resolved = _existing(folder)
    if "\n" in str(resolved) or "\r" in str(resolved):
        raise ConfigError(
            Problem("trust.folder-name", "its name has a line break", Place(resolved), "Rename it.")
        )
    _write_list({*stored_folders(), resolved})
    return resolved


def remove(folder: Path) -> Path:
    """Trust a folder no longer; return it without links.

    Raises:
        ConfigError: If it was not trusted itself.
    """
    resolved, known = folder.absolute().resolve(), stored_folders()
    if resolved not in known:
        above = [path for path in known if resolved.is_relative_to(path)]
        fix = f"Remove {above[0]}, which is above it." if above else "`autoprompt trust` lists them."
        raise ConfigError(
            Problem("trust.not-trusted", "this folder is not in the list", Place(resolved), fix)
        )
    _write_list(set(known) - {resolved})
    return resolved


def is_trusted(path: Path) -> bool:
    """Return whether a file or a folder is in a trusted folder.

    For a link, both its own folder and its target must be trusted.
    """
    if _decided.is_everything:
        return True
    try:
        places = {path.absolute().parent.resolve(), path.resolve()}
    except (OSError, RuntimeError, ValueError):  # links in a circle, or no path at all
        return False
    if path.is_dir():
        places = {path.resolve()}
    trusted = {*_decided.folders, *stored_folders()}
    return all(any(place.is_relative_to(folder) for folder in trusted) for place in places)


def kind_of(name: str, value: Any, folder: Path) -> Kind | None:
    """Return what a setting asks for that only the user may ask for; None if it asks for nothing of it.

    Args:
        name: Of the setting, as in `RunConfig`.
        value: As it was written: a text out of a variable, or what YAML says.
        folder: Of the file that names it; paths are relative to it.
    """
    if name in _ADDRESSES:
        return "address"
    if name in _MODELS and Path(str(value).strip().partition(":")[2]).suffix == ".gguf":
        return "code"
    if name in _PROGRAMS or (name == "sandbox" and str(value).strip() == "none"):
        return "code"
    if name == "metric" and str(value).strip().lower().startswith("python:"):
        return "code"
    if name == "metric_options" and _names_function(value):
        return "code"
    if any(not is_inside(path, folder) for path in _paths(name, value)):
        return "file"
    return None


def is_inside(path: str, folder: Path) -> bool:
    """Return whether a path that a file of `folder` names stays in that folder, whichever links are in it."""
    try:
        return (folder / Path(path).expanduser()).resolve().is_relative_to(folder.resolve())
    except (OSError, RuntimeError, ValueError):  # of nobody's home, links in a circle, or no path at all
        return False


def check_file(values: Mapping[str, Any], places: Mapping[str, Place], file: Path) -> None:
    """Refuse what a file from elsewhere may not name, all of it at once.

    Raises:
        ConfigError: One problem for each setting, if the folder of the file is not trusted.
    """
    found = {name: kind for name, value in values.items() if (kind := kind_of(name, value, file.parent))}
    if found and not is_trusted(file):
        raise ConfigError(*(_refused(kind, name, values[name], places[name]) for name, kind in found.items()))


def check_default(path: Path, name: str) -> None:
    """Refuse a file in the working folder that nobody has named, if a link there leads to another place.

    Raises:
        ConfigError: The folder is not trusted.
    """
    if not is_inside(str(path), Path()) and not is_trusted(path):
        said = f"this leads to {path.resolve()}, outside of the working folder, which you have not trusted"
        fix = f"If you trust the folder, {{trust}}. Or give {{{name}}} yourself."
        settings = {"trust": Path.cwd(), name: path}
        raise ConfigError(Problem("trust.link", said, Place(path), fix, settings))


def leave_out(addresses: Mapping[str, Place]) -> None:
    """Keep in mind which addresses of `.env` are not used. Places: of their lines."""
    _decided.left_out = dict(addresses)


def check_not_left_out(*variables: str) -> None:
    """Refuse to ask the default address if a `.env` names another one, which was not used.

    Its rows and its key would go to an endpoint that its user does not expect.

    Raises:
        ConfigError: One of these variables was left out.
    """
    place = next((place for name in variables if (place := _decided.left_out.get(name))), None)
    if place is None:
        return
    said = (
        "this address is not used, as you have not trusted the folder, and without it rows and key would go "
        "elsewhere"
    )
    folder = (place.file or Path()).absolute().parent
    fix = "If you trust the folder, {trust}. Or set the variable yourself, or give {base_url}."
    settings = {"trust": folder, "base_url": "<URL>"}
    raise ConfigError(Problem("trust.unused-address", said, place, fix, settings))


def _refused(kind: Kind, name: str, value: Any, place: Place) -> Problem:
    shown = f"{str(value).strip():.200}"
    fix = f"If you trust the folder, {{trust}}. Or give {{{name}}} yourself."
    file = place.file or Path()
    if name == "prompt" and not value.startswith("@~"):  # the user's own is relative to where he is
        value = f"@{file.parent / value[1:]}"
    settings = {"trust": file.absolute().parent, name: value}
    if kind == "code":
        does = "is written by `runs apply`" if name == "prompts_file" else "runs code"
        said = f"{shown} {does}, and you have not trusted the folder of this file"
        return Problem("trust.code", said, place, fix, settings)
    if kind == "file":
        said = f"{shown} is not inside the folder of this file, which you have not trusted"
        return Problem("trust.file", said, place, fix, settings)
    said = f"{shown} is an address, and you have not trusted the folder of this file"
    return Problem("trust.address", said, place, fix, settings)


def _names_function(value: Any) -> bool:
    if isinstance(value, Mapping):
        return any(map(_names_function, value.values()))
    if isinstance(value, list | tuple):
        return any(map(_names_function, value))
    if not isinstance(value, str):
        return False
    # A variable has all options in one text.
    return any(_FUNCTION.fullmatch(part.rpartition("=")[2]) for part in value.split(","))


def _paths(name: str, value: Any) -> list[str]:
    """Return the paths that a setting names, as they were written."""
    if name == "prompt":
        return [value[1:]] if isinstance(value, str) and value.startswith("@") else []
    if name not in path_settings():
        return []
    values = value.split(os.pathsep) if isinstance(value, str) and name == "data" else [value]
    return [str(path) for path in values]


def path_settings() -> set[str]:
    """Return the names of the settings that name files or folders."""
    fields = {**ConfigFile.model_fields, **ScienceConfig.model_fields}
    return {name for name, field in fields.items() if _holds_path(field.annotation)}


def _holds_path(annotation: Any) -> bool:
    return annotation is Path or any(map(_holds_path, get_args(annotation)))


def _existing(folder: Path) -> Path:
    if not folder.is_dir():
        said = "there is no such folder" if not folder.exists() else "this is a file, expected a folder"
        raise ConfigError(Problem("trust.no-folder", said, Place(folder), "Give the path of a folder."))
    return folder.resolve()


def _write_list(folders: set[Path]) -> None:
    try:
        write_private(_FILE, "".join(f"{folder}\n" for folder in sorted(folders)))
    except OSError as error:
        raise _unusable(error.filename or _FILE, error) from error


def _unusable(path: Any, error: OSError) -> ConfigError:
    said = f"the list of trusted folders cannot be used ({error.strerror or error})"
    return ConfigError(Problem("trust.no-list", said, Place(Path(path)), "Make its folder writable."))
