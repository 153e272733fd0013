"""The command that does a run again, and the settings worth showing."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from autoprompt.dataset.python_rows import is_given
from autoprompt.errors import arguments
from autoprompt.runs.folder import RunFolder, is_usual
from autoprompt.settings.records import RunConfig

# Another machine has others.
_PLACES = ("memory", "cache_dir")
_FIRST = ("dataset", "train", "val", "test", "prompt")
_LONGEST_PROMPT = 200


def command(config: Mapping[str, Any], folder: Path) -> str:
    """`autoprompt run` with every setting that is not the default, for a shell.

    A prompt of several lines, or a long one, is named by its file in the run's folder. What a program handed
    over, rows or models, no command has: then the page shows the Python call.
    """
    handed_over = ["rows=rows"] if is_given(config.get("dataset")) else []
    if RunFolder(folder).has_own_models():
        handed_over.append("models=models")
    if handed_over:
        return f"optimize(config, {', '.join(handed_over)}), in the program that began it"
    words = ["autoprompt", "run"]
    names = sorted(config, key=lambda name: _FIRST.index(name) if name in _FIRST else len(_FIRST))
    for name in names:
        if name not in _PLACES:
            words += _flag(name, config[name], folder)
    return " ".join(map(shlex.quote, words))


def _flag(name: str, value: Any, folder: Path) -> list[str]:
    if name == "prompt" and value is not None and _is_long(str(value)):
        return arguments(name, f"@{folder / 'original_prompt.txt'}")
    if not is_set(name, value) or (name == "runs_dir" and is_usual(Path(value))):
        return []
    return arguments(name, value)


def _is_long(prompt: str) -> bool:
    return "\n" in prompt or len(prompt) > _LONGEST_PROMPT or prompt.startswith("@")


def is_set(name: str, value: Any) -> bool:
    """Whether a setting says more than its default does."""
    if value is None or value is False or value in ("", [], {}, ()):
        return False
    field = RunConfig.model_fields.get(name)
    if field is None:
        return False
    default = field.get_default(call_default_factory=True)
    return bool(value != default and str(value) != str(default))
