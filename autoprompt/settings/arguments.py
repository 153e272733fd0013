"""Check the arguments of the public functions, before anything is done."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from autoprompt.errors import ConfigError, Place, Problem
from autoprompt.records import OnEvent
from autoprompt.settings.records import Budget, CheckConfig, RunConfig, ScienceConfig

_EXAMPLES: dict[type[BaseModel], str] = {
    RunConfig: 'dataset="rows.jsonl", prompt="…"',
    CheckConfig: 'baseline="baseline.json"',
    ScienceConfig: 'task="…"',
    Budget: "max_cost=5",
}


def check_kind(config: object, kind: type[BaseModel], name: str = "config") -> None:
    """Raise ConfigError for settings that are no `kind`, such as the path of a dataset."""
    if not isinstance(config, kind):
        said, fix = (
            f"expected {kind.__name__}, found {config!r:.80}",
            f"Give {kind.__name__}({_EXAMPLES[kind]}).",
        )
        raise ConfigError(Problem("settings.wrong-record", said, Place(setting=name), fix))


def check_argument(name: str, value: object, kinds: Any, expected: str) -> None:
    """Raise ConfigError for an argument that is none of the kinds. expected: Such as "a path"."""
    if not isinstance(value, kinds):
        said = f"expected {expected}, found {value!r:.80}"
        raise ConfigError(Problem("settings.wrong-argument", said, Place(setting=name)))


def listener(on_event: OnEvent | None) -> OnEvent:
    """Return the function that gets the events: the given one, or one that does nothing.

    Raises:
        ConfigError: It cannot be called.
    """
    if on_event is None:
        return lambda _: None
    check_argument("on_event", on_event, Callable, "a function that takes an event, which is a dict")
    return on_event


def folder_of(runs_dir: str | Path) -> Path:
    """Return the folder of the runs as a path.

    Raises:
        ConfigError: It is no path.
    """
    check_argument("runs_dir", runs_dir, (str, os.PathLike), "a path")
    return Path(runs_dir)
