"""What a release and other repositories take from this one: lock file, schemas, hook and action."""

from __future__ import annotations

import re
import tomllib
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import yaml
from packaging.markers import default_environment
from packaging.requirements import Requirement
from typer.testing import CliRunner

from autoprompt.cli import app

ROOT = Path(__file__).parents[1]


def test_the_lock_file_holds_a_version_that_does_for_each_requirement() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    lock = (ROOT / "requirements-dev.txt").read_text(encoding="utf-8")
    entries = re.findall(
        r"^([\w.-]+==[^\\\n]+?) \\\n((?:    --hash=sha256:[0-9a-f]{64}(?: \\)?\n)+)", lock, re.MULTILINE
    )
    assert len(entries) == len(re.findall(r"^\S", lock, re.MULTILINE))  # each has hashes
    pins = {}
    for line, _ in entries:
        pin = Requirement(line)
        if pin.marker is None or pin.marker.evaluate(dict(default_environment())):
            pins[pin.name.lower()] = next(iter(pin.specifier)).version
    extras = project["optional-dependencies"]
    wanted = [
        Requirement(line)
        for line in [*project["dependencies"], *extras["dev"], *extras["docs"], *extras["ui"]]
    ]
    lacking = [
        str(one)
        for one in wanted
        if one.name != project["name"]
        and not one.specifier.contains(pins.get(one.name.lower(), "0"), prereleases=True)
    ]
    assert not lacking, "run `make lock`"


@pytest.mark.parametrize("path", sorted((ROOT / "configs").glob("*.yaml")), ids=lambda path: path.stem)
def test_an_editor_finds_the_schema_of_a_config_file(path: Path) -> None:
    first, _, text = path.read_text(encoding="utf-8").partition("\n")
    name = first.removeprefix("# yaml-language-server: $schema=")
    schema: dict[str, Any] = yaml.safe_load((path.parent / name).read_text(encoding="utf-8"))
    jsonschema = pytest.importorskip("jsonschema")
    data = yaml.safe_load(text)
    jsonschema.validate(data, schema)
    with pytest.raises(jsonschema.ValidationError, match="'datset' was unexpected"):
        jsonschema.validate({**data, "datset": "x"}, schema)


def test_hook_and_action_use_options_of_check() -> None:
    (hook,) = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text(encoding="utf-8"))
    action = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))
    (script,) = (step["run"] for step in action["runs"]["steps"] if "autoprompt check" in step.get("run", ""))
    options = CliRunner().invoke(app, ["check", "--help"]).stdout
    assert hook["entry"] == "autoprompt check"
    assert [
        flag
        for flag in re.findall(r"(?<=\s)--?[a-z][\w-]*", script)
        if f"{flag} " not in options.replace(",", " ")
    ] == ["-r", "-a"]


def test_the_package_has_the_name_that_its_messages_install() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["name"] == import_module("autoprompt.text.machine").DISTRIBUTION
