"""The user's own file: settings of models, prices and limits for every run of the command line."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from autoprompt.errors import ConfigError, Place, Problem
from autoprompt.settings.kinds import problems_of
from autoprompt.settings.records import CallSettings, without_excluded
from autoprompt.settings.sources import Layer
from autoprompt.settings.trust import own_folder
from autoprompt.settings.yaml_file import load_yaml, top_keys
from autoprompt.text.files import to_yaml, write_text

_PRICES = ("price_input", "price_output", "price_cached_input")


def path() -> Path:
    """Return the path of the file, which need not exist.

    Raises:
        ConfigError: The user has no home folder.
    """
    folder = own_folder()
    if folder is None:
        fix = "Set XDG_CONFIG_HOME to a folder."
        raise ConfigError(Problem("settings.no-home", "this user has no home folder", fix=fix))
    return folder / "config.yaml"


def read() -> dict[str, Any]:
    """Return what the file sets.

    Raises:
        ConfigError: With the line of what is wrong in it.
    """
    folder = own_folder()
    if folder is None or not path().exists():
        return {}
    return load_yaml(path(), CallSettings).model_dump(mode="json", exclude_unset=True)


def write(values: Mapping[str, Any]) -> None:
    """Replace the file by these settings.

    Raises:
        ConfigError: One of them is wrong; the file is as it was.
    """
    file = path()
    try:
        record = CallSettings.model_validate(values)
    except ValidationError as error:
        problems = problems_of(error, CallSettings, lambda where, _: place(".".join(map(str, where))))
        raise ConfigError(*problems) from error
    file.parent.mkdir(parents=True, exist_ok=True)
    write_text(file, to_yaml(record.model_dump(mode="json", exclude_unset=True)))


def place(name: str) -> Place:
    """Return the place of a setting that is to be written to the file."""
    return Place(setting=name or None, source="file")


def layer(above: Mapping[str, Any]) -> Layer:
    """Return the settings of the file that no other source gives.

    Prices are those of the `model` in the file, if it names one: for another model they would be wrong.

    Args:
        above: What the other sources give.
    """
    found = read()
    asked, named = above.get("model"), found.get("model")
    if not found:
        return Layer()
    if (asked is not None and named not in (None, asked)) or any(name in above for name in _PRICES):
        found = {name: value for name, value in found.items() if name not in _PRICES}
    values = {name: value for name, value in without_excluded(found, above).items() if name not in above}
    lines = top_keys(path())
    places = {name: Place(path(), lines.get(name), setting=name, source="file") for name in values}
    return Layer(values, places)
