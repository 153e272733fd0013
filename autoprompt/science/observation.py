"""What the model gets to see of an experiment: the same text for the same outcome, whatever the machine."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import groupby
from pathlib import Path

from autoprompt.sandbox import SandboxResult
from autoprompt.science.tags import escape_tags
from autoprompt.text.names import counted

MOST_CHARACTERS = 16_000
SCRIPT = "experiment.py"  # what tracebacks call the code
_FEWEST_FOLDED = 3
_MOST_NAMED = 50
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_REASONS = {
    "time": "it ran longer than allowed and was ended",
    "cpu": "it used more processor time than allowed and was ended",
    "memory": "it used more memory than allowed and was ended",
    "processes": "it started more processes than allowed and was ended",
    "disk": "it wrote more to the disk than allowed and was ended",
}


def observe(result: SandboxResult, workdir: Path) -> str:
    """The text of an Observation.

    stdout alone where the code ended well and wrote nothing to stderr; otherwise exit code, stdout, stderr
    and new files. Nothing of the machine is in it: no time, no path of the work folder.
    """
    stdout, stderr = (_plain(text, workdir) for text in (result.stdout, result.stderr))
    files = _named(result.new_files)
    if result.exit_code == 0 and not stderr and result.killed_by is None:
        return cut(stdout) or (f"(no output)\n{files}".rstrip())
    reason = f" ({_REASONS[result.killed_by]})" if result.killed_by else ""
    parts = [f"exit code: {result.exit_code}{reason}"]
    # Each its own half, so that a flood on one side does not push the other out.
    parts += [
        f"{name}:\n{cut(text, MOST_CHARACTERS // 2)}"
        for name, text in (("stdout", stdout), ("stderr", stderr))
        if text
    ]
    return cut("\n".join(filter(None, [*parts, files])))


def _plain(text: str, workdir: Path) -> str:
    for folder in dict.fromkeys((str(workdir), str(workdir.resolve()))):
        text = text.replace(f"{folder}/.experiment.py", SCRIPT).replace(f"{folder}/", "")
    text = text.replace("\r\n", "\n")
    text = "\n".join(map(_overwritten, text.split("\n")))
    return escape_tags(fold(_CONTROL.sub("", text)).strip("\n").rstrip())


def _overwritten(line: str) -> str:
    """What a terminal would show of a line in the end, as of a progress bar.

    No pattern: a line may be all that the sandbox keeps, a megabyte.
    """
    return line.rstrip("\r").rpartition("\r")[2]


def _named(files: Sequence[Path]) -> str:
    if not files:
        return ""
    names = ", ".join(str(path) for path in files[:_MOST_NAMED])
    more = f" and {len(files) - _MOST_NAMED} more" if len(files) > _MOST_NAMED else ""
    return escape_tags(_CONTROL.sub("", f"new files: {names}{more}"))


def fold(text: str) -> str:
    """Three and more equal lines in a row become one, with their number."""
    folded: list[str] = []
    for line, group in groupby(text.split("\n")):
        count = sum(1 for _ in group)
        if count < _FEWEST_FOLDED:
            folded += [line] * count
        elif line.strip():
            folded += [line, f"[the line above {count} times]"]
        else:
            folded.append(line)
    return "\n".join(folded)


def cut(text: str, most: int = MOST_CHARACTERS) -> str:
    """The beginning and the end of a text that is longer than `most`, with a notice between them."""
    if len(text) <= most:
        return text
    notice = f"\n[... {counted(len(text) - most, 'character')} left out ...]\n"
    half = max(0, most - len(notice)) // 2
    return f"{text[:half]}{notice}{text[len(text) - half :]}"
