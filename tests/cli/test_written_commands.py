"""Commands that README, docs and configs show are there, with the flags that are shown."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from docs_pages import blocks

from autoprompt.cli import COMMANDS, load_command

ROOT = Path(__file__).parents[2]
PAGES = [
    ROOT / "README.md",
    *sorted((ROOT / "docs").rglob("*.md")),
    *sorted((ROOT / "configs").rglob("*.yaml")),
]


@pytest.mark.parametrize("page", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_commands_on_a_page_can_be_given(page: Path) -> None:
    for line, words in commands(_code(page)):
        known = _flags(words)
        flags = {word.partition("=")[0] for word in words if re.match(r"--?[a-z]", word)}
        assert flags <= known, f"{line}: unknown {flags - known}"


def test_the_readme_shows_commands() -> None:
    assert len(list(commands(_code(ROOT / "README.md")))) > 8


def _code(page: Path) -> str:
    """What a page shows as code: prose may begin a line with the name."""
    text = page.read_text(encoding="utf-8")
    if page.suffix != ".md":
        return text
    prose = re.sub(r"^ *```.*?^ *```$", "", text, flags=re.MULTILINE | re.DOTALL)
    return "\n".join([*(block.text for block in blocks(page)), *re.findall(r"`autoprompt [^`\n]*`", prose)])


def commands(text: str) -> Iterator[tuple[str, list[str]]]:
    """Those at the beginning of a line, in a code block, a comment or between backticks; and their words."""
    for line in re.findall(
        r"(?:^|`|#.*?  +)autoprompt ([a-z][^`\n]*)", text.replace("\\\n", " "), re.MULTILINE
    ):
        yield line, shlex.split(re.sub(r"\[(--\S+)\]", r"\1", line), comments=True)


def _flags(words: list[str]) -> set[str]:
    command: Any = load_command(words[0])
    for word in words[1:]:
        command = getattr(command, "commands", {}).get(word, command)
    if hasattr(command, "commands"):  # `autoprompt science TASK`
        command = command.commands.get("start", command)
    return {flag for param in command.params for flag in (*param.opts, *param.secondary_opts)} | {"--help"}


def _all_flags(command: Any) -> set[str]:
    own = {flag for param in command.params for flag in (*param.opts, *param.secondary_opts)}
    return own.union(*map(_all_flags, getattr(command, "commands", {}).values()))


@pytest.mark.parametrize(
    "page", [page for page in PAGES if page.suffix == ".md"], ids=lambda path: str(path.relative_to(ROOT))
)
def test_flags_on_a_page_are_flags_of_a_command(page: Path) -> None:
    known = {"--help", "--debug", "--version"}.union(*(_all_flags(load_command(name)) for name in COMMANDS))
    written = set(re.findall(r"(?<![\w-])--[a-z][a-z0-9-]+", page.read_text(encoding="utf-8")))
    assert written - {"--ours", "--schemafile"} <= known  # git's, and check-jsonschema's
