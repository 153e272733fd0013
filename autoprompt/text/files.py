"""Writing files so that a kill at any moment leaves the old content or the new one, never half of it."""

from __future__ import annotations

import errno
import hashlib
import io
import json
import os
import re
import secrets
import stat
import tempfile
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import yaml

from autoprompt.errors import Place, Problem, StoreError, UsageError
from autoprompt.text.inputs import role_of

MAX_BYTES = 1_000_000_000  # of a file that is read as a whole: a sparse file has any size in no room
_MAX_LINE_BYTES = 200_000_000
_FLAGS = getattr(os, "O_NONBLOCK", 0)  # not to wait, should a file have become a pipe since
_NO_FOLLOW = getattr(os, "O_NOFOLLOW", 0)


def to_json(value: Any, *, indent: int | None = None, takes_all: bool = False) -> str:
    """Return JSON that a person can read: text stays as it is, escaped only if UTF-8 has no form for it.

    takes_all: also what JSON does not have, as `plain_json` writes it.
    """
    try:
        text = json.dumps(value, ensure_ascii=False, allow_nan=False, indent=indent)
    except (TypeError, ValueError):
        if not takes_all:
            raise
        value = plain_json(value)
        text = json.dumps(value, ensure_ascii=False, indent=indent)
    try:
        text.encode()
    except UnicodeEncodeError:
        return json.dumps(value, ensure_ascii=True, allow_nan=False, indent=indent)
    return text


def to_json_lines(value: Mapping[str, Any], name: str, *, takes_all: bool = False) -> str:
    """Return indented JSON in which each item of the field `name`, a list or an object, has one line.

    The field comes last. Thousands of rows can then be read and compared, and are written four times as fast.
    takes_all: as in `to_json`.
    """
    part = value[name]
    if not part:
        return to_json(value, indent=2, takes_all=takes_all)
    is_object = isinstance(part, Mapping)
    items = [to_json(item, takes_all=takes_all) for item in (part.values() if is_object else part)]
    if is_object:
        items = [f"{to_json(key)}: {item}" for key, item in zip(part, items, strict=True)]
    start, end = "{}" if is_object else "[]"
    others = {key: other for key, other in value.items() if key != name}
    head = to_json(others, indent=2, takes_all=takes_all).removesuffix("\n}")
    body = ",\n    ".join(items)
    return f"{head},\n  {to_json(name)}: {start}\n    {body}\n  {end}\n}}"


def json_value(text: str | bytes, default: Any = None) -> Any:
    """Return the value that a text has as JSON; `default` if it is no JSON, or is nested too deeply."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):  # also UnicodeDecodeError: a line cut inside a character
        return default


def plain_json(value: Any) -> Any:
    """Return `value` with texts for what JSON does not have: objects, NaN and infinity."""
    return json.loads(json.dumps(value, default=str), parse_constant=str)


class _Dumper(yaml.SafeDumper):
    """Writes texts of several lines as blocks, which is how a prompt is read."""


def _represent_text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    # Where a text has no block form (blanks at a line's end), PyYAML falls back to quotes by itself.
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


_Dumper.add_representer(str, _represent_text)


def to_yaml(value: Any) -> str:
    """Return YAML of plain data, keys in their order.

    Raises:
        yaml.YAMLError: For anything else.
    """
    text: str = yaml.dump(value, Dumper=_Dumper, allow_unicode=True, sort_keys=False, width=110)
    return text


@contextmanager
def _replacing(path: Path) -> Iterator[IO[bytes]]:
    """Yield a file that replaces `path` if the block ends well.

    It is removed if the block fails.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    # The same folder, because a rename is atomic only within one file system.
    beside = path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")
    # Not mkstemp, whose files only the owner can read: the umask, which cannot be read without setting it for
    # all threads, is the system's to apply.
    try:
        with beside.open("xb") as stream:
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
        if path.exists():  # it keeps its rights
            beside.chmod(path.stat().st_mode & 0o777)
        beside.replace(path)
    except BaseException:
        beside.unlink(missing_ok=True)
        raise
    _sync_folder(path.parent)


def is_unfinished(path: Path, *names: str) -> bool:
    """Return whether this is what a kill left of writing one of these files."""
    return any(re.fullmatch(rf"\.{re.escape(name)}\.[0-9a-f]{{8}}\.tmp", path.name) for name in names)


def _sync_folder(folder: Path) -> None:
    """Make a rename in `folder` survive a power cut. Windows cannot open folders and needs no such step."""
    if os.name == "nt":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def check_no_input(path: Path, role: str = "") -> None:
    """Raise UsageError for a file that the command reads, or a folder with one.

    role: In which it may be written, see `autoprompt.text.inputs`.
    """
    if (read_as := role_of(path, role)) is not None:
        said = f"would overwrite the {read_as.replace('_', ' ')}, which this command reads"
        raise UsageError(Problem("file.is-input", said, Place(path), "Give another path."))


def check_writable(
    path: Path,
    *,
    role: str = "",
    makes_folders: bool = False,
    fix: str = "Give another path.",
    settings: Mapping[str, object] | None = None,
) -> None:
    """Raise StoreError if nothing could be written there. Call it before something is paid for.

    role: What the file is to the command, see `protect`: in this role alone an input may be written.
    makes_folders: Whoever writes there makes the missing folders. fix, settings: How to name another path, as
    in a `Problem`.

    Raises:
        UsageError: For a file that the command reads.
    """
    if path.is_dir():
        said = "this is a folder, expected a file to write"
        raise StoreError(Problem("file.folder", said, Place(path), "Give the path of a file."))
    check_no_input(path, role)
    if _is_device(path):
        return
    folder = path.resolve().parent
    if not (folder.exists() or makes_folders):
        said, make = f"there is no folder {path.parent}", "Make it, or give another path."
        raise StoreError(Problem("file.no-folder", said, Place(path), make))
    folder = next(parent for parent in (folder, *folder.parents) if parent.exists())
    try:
        # The mode of a folder does not tell: root is allowed what a read-only file system refuses.
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        reason = "does not allow it" if folder.is_dir() else "is no folder"
        said = f"cannot be written: {folder} {reason}"
        raise StoreError(Problem("file.not-writable", said, Place(path), fix, settings or {})) from error


def _is_device(path: Path) -> bool:
    """Return whether it is a device or a pipe, e.g. /dev/stdout: written to, never replaced."""
    return path.exists() and not path.is_file()


def write_output(path: Path, content: str | bytes, *, role: str = "", is_named: bool = True) -> None:
    """Write a result. Makes no folder, unlike the others: a typo would become one.

    role: as for `check_writable`.
    is_named: the user named the path. Then a link stays a link; else it is replaced, since it may lead to any
        file of this machine.

    Raises:
        StoreError: If it cannot be written. It names the path as it was given.
        UsageError: As `check_writable`.
    """
    check_writable(path, role=role)
    data = content if isinstance(content, bytes) else content.encode(errors="replace")
    try:
        if _is_device(path) and is_named:
            path.write_bytes(data)
        else:
            write_bytes(path.resolve() if is_named else path, data)
    except OSError as error:
        said, fix = f"cannot be written ({error.strerror})", "Make room there, or give another path."
        raise StoreError(Problem("file.not-writable", said, Place(path), fix)) from error


def write_text(path: Path, text: str) -> None:
    """Replace the content of `path` by `text`, UTF-8, line ends untouched. Makes missing folders."""
    write_bytes(path, text.encode(errors="replace"))


UTF16, UTF16_FIX = "the file is UTF-16, expected UTF-8", "Convert it: iconv -f UTF-16 -t UTF-8 OLD > NEW."
BINARY = "binary data (a NUL byte), expected text"


def is_utf16(raw: bytes) -> bool:
    """Return whether bytes are UTF-16. Without its mark, zeros are at every second byte only.

    Even Chinese JSON has many.
    """
    even, odd = raw[0::2].count(0), raw[1::2].count(0)
    half = len(raw) // 2
    is_unmarked = half >= 2 and max(even, odd) > 0.1 * half and min(even, odd) == 0
    return is_unmarked or raw.startswith((b"\xff\xfe", b"\xfe\xff"))


def binary_line(raw: bytes) -> int | None:
    """Return the line of the first NUL byte, which no text has; None if there is none."""
    return raw.count(b"\n", 0, raw.index(0)) + 1 if b"\0" in raw else None


def read_text(path: Path) -> str:
    """Return UTF-8 text with its line ends and its byte order mark: what `write_text` writes back."""
    return read_bytes(path).decode()


def read_bytes(path: Path, max_bytes: int = MAX_BYTES) -> bytes:
    """Return the content of a file.

    Raises:
        OSError: Also for a pipe, a socket, a device or a huge file.
    """
    with open_file(path) as stream:
        data = stream.read(max_bytes + 1)
    if len(data) > max_bytes:
        raise OSError(
            errno.EINVAL, f"more than {max_bytes // 1_000_000:,} MB, expected a smaller file", str(path)
        )
    return data


def read_plain(path: Path, max_bytes: int = MAX_BYTES, *, encoding: str = "utf-8-sig") -> str:
    """Return a text that somebody typed, with "\n" for each of its line ends.

    Raises:
        OSError: As `read_bytes`.
        UnicodeDecodeError: If it is no text.
    """
    with io.TextIOWrapper(io.BytesIO(read_bytes(path, max_bytes)), encoding=encoding) as text:
        return text.read()


def open_file(path: Path) -> io.BufferedReader:
    """Open a file of a folder that may be somebody else's, to read it.

    Raises:
        OSError: For a pipe, a socket or a device: reading one could wait forever, or never end.
    """
    check_file(path)
    return io.BufferedReader(io.FileIO(os.open(path, os.O_RDONLY | _FLAGS)))


def check_file(path: Path) -> None:
    """Raise OSError if this is there and is a pipe, a socket or a device, before anything opens it."""
    try:
        mode = path.stat().st_mode
    except FileNotFoundError:
        return
    if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
        what = {stat.S_IFIFO: "a named pipe", stat.S_IFSOCK: "a socket"}.get(stat.S_IFMT(mode), "a device")
        raise OSError(errno.EINVAL, f"this is {what}, expected a file", str(path))


def open_to_append(path: Path) -> io.FileIO:
    """Open a file of ours to read it and to append to it, made if need be.

    Raises:
        OSError: For a pipe, a socket or a device, and for a link: who made the folder would choose which file
            of this machine is written.
    """
    if path.is_symlink():
        raise OSError(errno.EINVAL, "this is a link, expected a file", str(path))
    check_file(path)
    flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | _FLAGS | _NO_FOLLOW
    return io.FileIO(os.open(path, flags, 0o666), "a+")


def write_bytes(path: Path, data: bytes) -> None:
    """Replace the content of `path`. Makes missing folders."""
    with _replacing(path) as stream:
        stream.write(data)


def file_sha256(path: Path) -> str:
    """Return the sha256 of the content, as `sha256sum` shows it.

    Raises:
        OSError: If the file cannot be read.
    """
    with open_file(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def write_json(path: Path, value: Any) -> None:
    """Replace the content of `path` by `value`, indented."""
    write_text(path, to_json(value, indent=2) + "\n")


def write_jsonl(path: Path, rows: Iterable[Mapping[str, Any]]) -> None:
    """Replace the content of `path` by one line for each row. Rows are read once and not kept."""
    with _replacing(path) as stream:
        for row in rows:
            stream.write(to_json(row).encode() + b"\n")


def append_jsonl(path: Path, rows: Iterable[Mapping[str, Any]]) -> int:
    """Add one line for each row, handed to the operating system in one piece: a killed process loses none.

    What a kill left of an unfinished last line is cut off first. One writer at a time.

    Returns:
        The byte at which the first of the lines begins.
    """
    data = "".join(to_json(row) + "\n" for row in rows).encode()
    with open_to_append(path) as stream:
        _mend_end(stream)
        begin = stream.seek(0, os.SEEK_END)
        written = stream.write(data)
        if written != len(data):  # a disk that is full takes a part, without a word
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
    return begin


class JsonLines:
    """A file of lines that is held open while many come: a line costs one write, not an opening of the file.

    What a kill left of an unfinished last line is cut off on opening. Safe to use from several threads.
    """

    def __init__(self, path: Path) -> None:
        self._stream = open_to_append(path)
        _mend_end(self._stream)
        self._writing = threading.Lock()

    def append(self, row: Mapping[str, Any]) -> None:
        """Add a line, handed to the operating system in one piece: a killed process loses none.

        Raises:
            OSError: If the disk is full; then nothing of the line is there.
        """
        data = (to_json(row) + "\n").encode()
        with self._writing:
            end = self._stream.seek(0, os.SEEK_END)
            if self._stream.write(data) != len(data):  # a disk that is full takes a part, without a word
                self._stream.truncate(end)
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self._stream.name))

    def close(self) -> None:
        """Safe to call twice."""
        self._stream.close()


def _mend_end(stream: io.FileIO) -> None:
    """Make the file end at the end of a whole line."""
    size = stream.seek(0, os.SEEK_END)
    if size == 0:
        return
    stream.seek(size - 1)
    if stream.read(1) == b"\n":
        return
    start, tail = size, b""
    while start > 0 and b"\n" not in tail:
        step = min(start, 65536)
        start -= step
        stream.seek(start)
        tail = (stream.read(step) or b"") + tail
    last = tail[tail.rfind(b"\n") + 1 :]
    if _as_object(last) is not None:  # whole, only its line end is missing: an editor does that
        stream.write(b"\n")
    else:
        stream.truncate(size - len(last))


def _as_object(line: bytes) -> dict[str, Any] | None:
    """Return the object on this line; None for a torn line, in which the last brace is missing."""
    value = json_value(line)
    return value if isinstance(value, dict) else None


def read_jsonl(path: Path) -> Iterator[dict[str, Any]]:
    """Yield rows one by one; nothing for a missing file. A torn last line is dropped."""
    if not path.exists():
        return
    with open_file(path) as stream:
        for number, line in enumerate(bounded_lines(stream), start=1):
            row = _as_object(line)
            if row is not None:
                yield row
            elif line.strip() and line.endswith(b"\n"):
                said, fix = (
                    "this is not a JSON object",
                    "autoprompt writes no such line: repair or delete it.",
                )
                raise StoreError(Problem("file.not-json", said, Place(path, number), fix))


def bounded_lines(stream: io.BufferedReader) -> Iterator[bytes]:
    """Yield the lines of a file; one of over 200 MB, which none of ours is, in pieces."""
    while line := stream.readline(_MAX_LINE_BYTES):
        yield line


_OWN = "autoprompt writes no such file: restore it from a copy."


def read_json(path: Path) -> dict[str, Any]:
    """Return the object in `path`.

    Raises:
        StoreError: If it cannot be read or is no JSON object.
    """
    try:
        value = json.loads(read_bytes(path))
    except OSError as error:
        said, fix = f"cannot be read ({error.strerror})", "Check the path and its permissions."
        raise StoreError(Problem("file.unreadable", said, Place(path), fix)) from error
    except (ValueError, RecursionError) as error:
        raise StoreError(Problem("file.not-json", f"not JSON ({error})", Place(path), _OWN)) from error
    if not isinstance(value, dict):
        said = f"expected a JSON object, found {type(value).__name__}"
        raise StoreError(Problem("file.not-json", said, Place(path), _OWN))
    return value


def sha256_of(text: str) -> str:
    """Return the sha256 of a text, half surrogate pairs included."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
