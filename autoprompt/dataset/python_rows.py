"""Rows that a program hands over instead of a file: written to one, named by their place in messages."""

from __future__ import annotations

import hashlib
import re
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

from autoprompt.errors import ConfigError, DatasetError, InputError, PromptError, StoreError, UsageError
from autoprompt.settings.records import RunConfig
from autoprompt.settings.sources import flag_name
from autoprompt.text.files import to_json, write_text

Rows = Iterable[Mapping[str, Any]]
Told = Callable[[str], str]
_FOLDER = ".datasets"  # hidden, or it would be taken for a run

_SETTINGS = {flag_name(name): name for name in RunConfig.model_fields}
# What is quoted is the user's own text and stays. After it: a row's place, the file, a flag and its value.
# A line of another file (a workflow, the experience file) comes after that file's name, and stays.
_WORDS = (
    r"(?<!\w)'(?:[^'\\\n]|\\.)*'"
    r'|(?<!\w)"(?:[^"\\\n]|\\.)*"'
    r"|row [0-9a-f]{{16}} \(line (?P<row>\d+)\)"
    r"|(?:{path} |^|(?<=\()|(?<=\bbut )|(?<=\bfrom ))line (?P<line>\d+)\b"
    r"|^  likewise (?P<also>line \d+(?:, line \d+)*)"
    r"|(?P<path>{path})"
    r'|(?P<flag>--[a-z][a-z-]*)(?: (?P<value>[\d,]*\d(?:\.\d+)?\b|[A-Z]+\b|json_match\b|"[^"]*"))?'
)


@contextmanager
def with_rows(
    config: RunConfig, rows: Rows | None, *, is_kept: bool = False, has_prompt: bool = False
) -> Iterator[tuple[RunConfig, Told]]:
    """The settings with the rows as their dataset, and what says a message in words of the rows.

    is_kept: the rows stay beside the runs, unless the block refuses them. has_prompt: whatever the settings
    say.
    """
    if rows is None:
        yield config, str
        return
    if named := [name for name in ("dataset", "train", "val", "test") if getattr(config, name) is not None]:
        raise ConfigError(f"rows are given, and {named[0]} names a file: give one of them.")
    if not has_prompt and config.prompt is None and config.workflow is None:
        raise PromptError("no prompt to start from. Give prompt=..., a text or @FILE, to RunConfig.")
    with rows_as_file(rows, config.runs_dir if is_kept else None) as (path, told):
        yield config.model_copy(update={"dataset": path}), told


@contextmanager
def rows_as_file(rows: Iterable[Mapping[str, Any]], runs_dir: Path | None) -> Iterator[tuple[Path, Told]]:
    """A file with the rows, and what says a message about the file and its lines in words of the rows.

    runs_dir: beside these runs the file stays, so that a resumed run has it, under a name that is its
        content's; equal rows share one. It is taken away again where the block refuses the rows. None: it is
        there for the block alone.
    Errors that leave the block name `rows[5]` and `input_field=…` for a line of the file and a flag.
    Raises DatasetError for no rows and for what is no row of plain values, StoreError where no file can be
    written.
    """
    text = "".join(_line(number, row) for number, row in enumerate(rows))
    if not text:
        raise DatasetError("rows is empty, expected dicts such as {'input': ..., 'target': ...}.")
    if runs_dir is not None:
        with _in_words_of_rows(*_kept(text, runs_dir)) as path_and_words:
            yield path_and_words
        return
    with tempfile.TemporaryDirectory(prefix="autoprompt-rows-") as folder:
        path = Path(folder) / "rows.jsonl"
        _write(path, text)
        with _in_words_of_rows(path, is_new=False) as path_and_words:
            yield path_and_words


def is_given(dataset: str | Path | None) -> bool:
    """Whether a run's dataset are rows that a program had handed over."""
    return dataset is not None and Path(dataset).parent.name == _FOLDER


@contextmanager
def in_words_of_kept_rows(config: RunConfig) -> Iterator[Told]:
    """Of a run that goes on: messages in words of the rows, where a program had handed them over."""
    path = config.dataset
    if path is None or not is_given(path):
        yield str
        return
    with _in_words_of_rows(path, is_new=False) as (_, told):
        yield told


def forget_rows(runs_dir: Path, name: str, others: Iterable[Path]) -> None:
    """Delete the file of rows that a removed run had, unless another run has it too.

    others: the settings of the runs that are left.
    """
    if any(name in _text_of(settings) for settings in others):
        return
    folder = runs_dir / _FOLDER
    (folder / name).unlink(missing_ok=True)
    with suppress(OSError):  # others lie there
        folder.rmdir()


def _text_of(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:  # none of ours, or another user's
        return ""


def _kept(text: str, runs_dir: Path) -> tuple[Path, bool]:
    """The file, and whether it is of this call."""
    digest = hashlib.sha256(text.encode()).hexdigest()[:12]
    path = runs_dir / _FOLDER / f"rows-{digest}.jsonl"
    if path.exists():
        return path, False
    _write(path, text)
    return path, True


def _write(path: Path, text: str) -> None:
    try:
        write_text(path, text)
    except OSError as error:
        raise StoreError(
            f"{path}: the rows cannot be kept here ({error.strerror}). Choose another runs_dir."
        ) from error


@contextmanager
def _in_words_of_rows(path: Path, is_new: bool) -> Iterator[tuple[Path, Told]]:
    told = partial(_in_python, path)
    try:
        yield path, told
    except (InputError, UsageError) as error:
        if is_new:
            path.unlink(missing_ok=True)
        error.args = (told(str(error)),)
        raise


def _in_python(path: Path, message: str) -> str:
    """`.../rows-d2.jsonl line 6: ... --input-field` as `rows[5]: ... input_field=…`."""
    words = re.compile(_WORDS.format(path=re.escape(str(path))), re.MULTILINE)
    return words.sub(_word, message)


def _word(found: re.Match[str]) -> str:
    if line := found["row"] or found["line"]:
        return f"rows[{int(line) - 1}]"
    if found["also"]:
        return "  likewise " + ", ".join(f"rows[{int(n) - 1}]" for n in re.findall(r"\d+", found["also"]))
    if found["path"]:
        return "rows"
    if found["flag"] in _SETTINGS:
        return _argument(_SETTINGS[found["flag"]], found["value"])
    return found[0]


def _argument(name: str, value: str | None) -> str:
    """A setting as an argument of `RunConfig`. value: as it stands on a command line."""
    if RunConfig.model_fields[name].annotation is bool:
        return f"{name}=True" + (f" {value}" if value else "")
    if value is None or (value[0] != '"' and value.isupper()):
        return f"{name}=…"
    if value[0].isdigit():
        return f"{name}={value.replace(',', '')}"
    text = value.strip('"')
    return f"{name}={text.split(',')!r}" if name == "labels" else f"{name}={text!r}"


def _line(number: int, row: object) -> str:
    if not isinstance(row, Mapping):
        raise DatasetError(
            f"rows[{number}] is {row!r:.80}, expected a dict such as {{'input': ..., 'target': ...}}."
        )
    try:
        return to_json(dict(row)) + "\n"
    except (TypeError, ValueError) as error:
        raise DatasetError(f"rows[{number}]: {error}. Give plain values: texts, numbers, lists.") from error
