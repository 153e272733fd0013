"""A prompt that is given as `@FILE`."""

from __future__ import annotations

import json
import re
from contextlib import suppress
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import yaml

from autoprompt.errors import Place, Problem, PromptError
from autoprompt.settings.yaml_file import safe_load
from autoprompt.text.files import read_plain
from autoprompt.text.inputs import protect

_MOST_BYTES = 50_000_000  # as of a YAML file
_LONGEST_PATH = 255  # characters: longer is a text, in languages without spaces too
_NOT_IN_PATHS = re.compile(r'[{}<>"|?*，。？！；：、]')
_RUN_NAME = re.compile(r"(?:last|\d{8}-\d{6}-[\w-]+)(?::\w+)?")
_BEGINNING = re.compile(r"(?:~|\.{1,2}|[A-Za-z]:)[/\\]|/[^/]+/")
_ENDING = re.compile(r"\.[a-z][a-z0-9]{0,5}$")
_ENDING_OF_TEXT = re.compile(
    r"\.(?:txt|text|md|markdown|rst|prompt|ya?ml|json|toml|jinja2?|j2|tmpl|tpl|template|mustache|xml|html?)$",
    re.IGNORECASE,
)


_A_TEXT_FILE = "Give `@` and the path of a text file."
_OR_A_SPACE = "If it is the text of the prompt, add a space behind it."


def is_run_name(text: str) -> bool:
    """Return whether a text is `last` or has the form of a run's id, maybe with a candidate."""
    return _RUN_NAME.fullmatch(text) is not None


def prompt_text(prompt: str, folder: Path, place: Place) -> str:
    """Return the prompt itself, or what the file after `@` holds, without the line end at its end.

    Args:
        prompt: A text, or `@` and a path.
        folder: What the path is relative to.
        place: What the prompt came from.

    Raises:
        PromptError: The file cannot be read, is empty, or is no text but an exported prompt or a workflow; or
            the text is the name of a file without the `@`.
    """
    if not prompt.startswith("@"):
        if is_run_name(prompt):
            said, fix = f"{prompt} is the name of a run", f"Give its prompt by {{from}}. {_OR_A_SPACE}"
            raise PromptError(Problem("prompt.run-name", said, place, fix, {"from": prompt}))
        if _names_a_file(prompt, folder):
            fix = f"Write @{prompt} to use the content of the file. {_OR_A_SPACE}"
            raise PromptError(Problem("prompt.file-name", f"{prompt} is the name of a file", place, fix))
        if _looks_like_a_path(prompt, folder):
            said = f"{prompt} looks like the path of a file, but there is no such file"
            fix = f"{_instead(prompt, folder)} {_OR_A_SPACE}"
            raise PromptError(Problem("prompt.file-name", said, place, fix))
        return prompt
    if not prompt[1:].strip():
        raise PromptError(Problem("prompt.unreadable", "there is no path after @", place, _A_TEXT_FILE))
    if prompt == "@-":
        fix = "Save the prompt to a file and give `@` and its path."
        said = "a prompt is not read from standard input"
        raise PromptError(Problem("prompt.standard-input", said, place, fix))
    try:
        path = folder / Path(prompt[1:]).expanduser()
    except RuntimeError as error:  # "~" and the name of nobody
        raise PromptError(Problem("prompt.unreadable", f"{prompt}: {error}", place, _A_TEXT_FILE)) from error
    protect(path, "prompt")
    try:
        text = _read(path, may_be_pipe=place.source == "flag")
    except UnicodeDecodeError as error:
        said, fix = f"{path} is not UTF-8 text", "Save the file as UTF-8."
        raise PromptError(Problem("prompt.not-utf8", said, place, fix)) from error
    except OSError as error:
        said = f"{path} cannot be read ({error.strerror})"
        raise PromptError(Problem("prompt.unreadable", said, place, _A_TEXT_FILE)) from error
    if not text.strip():
        said, fix = f"{path} is empty, expected a prompt", "Write the prompt into it."
        raise PromptError(Problem("prompt.empty", said, place, fix))
    if export_form(text):
        said = f"{path} is an exported prompt with its markup, expected the text alone"
        fix = "Export the text with `autoprompt runs export`, or score this file as {exported}."
        raise PromptError(Problem("prompt.exported", said, place, fix, {"exported": path}))
    if is_workflow(text):
        said, fix = f"{path} is a workflow, expected a prompt", "Give it as {workflow}."
        raise PromptError(Problem("prompt.workflow", said, place, fix, {"workflow": path}))
    return text.rstrip("\r\n")


def _read(path: Path, *, may_be_pipe: bool = False) -> str:
    """Read a file. may_be_pipe: as `@<(command)` on the command line.

    Raises:
        OSError, UnicodeDecodeError: If it cannot be read, or is no text.
    """
    if may_be_pipe and path.is_fifo():
        return path.read_text(encoding="utf-8-sig")
    return read_plain(path, _MOST_BYTES)


def _names_a_file(prompt: str, folder: Path) -> bool:
    """Return whether a prompt is the path of a file that is there: one word with an ending or a folder."""
    path = Path(prompt)
    if prompt.split() != [prompt] or not (path.suffix or len(path.parts) > 1):
        return False
    with suppress(OSError, ValueError, RuntimeError):  # too long for a path, not one, or of nobody's home
        return (folder / path.expanduser()).is_file()
    return False


def _looks_like_a_path(prompt: str, folder: Path) -> bool:
    """Return whether a prompt of one word can hardly be anything but a path.

    A slash alone makes none: `yes/no`, and languages without spaces. It takes an ending as well, a beginning
    that only paths have, or a folder that is there.
    """
    if prompt.split() != [prompt] or len(prompt) > _LONGEST_PATH or _NOT_IN_PATHS.search(prompt):
        return False
    if _ENDING_OF_TEXT.search(prompt) or _BEGINNING.match(prompt):
        return True
    if re.search(r"[/\\]", prompt) is None:
        return False
    with suppress(OSError, ValueError):
        parent = Path(prompt).parent
        return _ENDING.search(prompt) is not None or (parent.name != "" and (folder / parent).is_dir())
    return False


def _instead(prompt: str, folder: Path) -> str:
    """Return what to write for the file that is meant, if one beside it has nearly its name."""
    path = Path(prompt)
    with suppress(OSError, ValueError, RuntimeError):
        beside = (folder / path.expanduser()).parent
        names = sorted(found.name for found in beside.iterdir() if found.is_file())
        if close := get_close_matches(path.name, names, n=1):
            return f"Did you mean @{path.with_name(close[0])}?"
    return _A_TEXT_FILE


def _parsed(text: str) -> Any:
    """Return what a text says as JSON or, where it may be one of ours, as YAML; None where it is neither."""
    with suppress(ValueError, RecursionError):
        return json.loads(text)
    if re.search(r"^components:\s*$", text, re.MULTILINE):
        with suppress(yaml.YAMLError, ValueError):
            return safe_load(text)
    return None


def export_form(text: str) -> str | None:
    """Return the form of `runs export` that a text has, "yaml", "langchain" or "openai"; else None."""
    data = _parsed(text)
    if isinstance(data, dict):
        if data.get("type") == "constructor" and "lc" in data:
            return "langchain"
        return "yaml" if isinstance(data.get("components"), dict) else None
    is_turns = isinstance(data, list) and data and all(_is_turn(entry) for entry in data)
    return "openai" if is_turns else None


def is_workflow(text: str) -> bool:
    """Return whether a text is the YAML of a workflow: nodes at its top, or an export of Dify."""
    if not re.search(r"^(\s*nodes|model_config):", text, re.MULTILINE):
        return False
    data = None
    with suppress(yaml.YAMLError, ValueError):
        data = safe_load(text)
    if not isinstance(data, dict):
        return False
    if data.get("kind") == "app" and isinstance(data.get("model_config"), dict):
        return True
    graph = data["workflow"].get("graph") if isinstance(data.get("workflow"), dict) else data
    nodes = graph.get("nodes") if isinstance(graph, dict) else None
    return isinstance(nodes, list) and all(isinstance(node, dict) and "id" in node for node in nodes)


def is_export(path: Path) -> bool:
    """Return whether a file holds an exported prompt; False where it cannot be read."""
    try:
        return export_form(_read(path)) is not None
    except (OSError, UnicodeDecodeError):
        return False


def _is_turn(entry: Any) -> bool:
    return isinstance(entry, dict) and set(entry) == {"role", "content"}
