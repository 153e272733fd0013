"""The command that installs what is missing is one that works here."""

from __future__ import annotations

import json
import re
import shutil
import sys
import tomllib
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest

from autoprompt.text import machine
from autoprompt.text.machine import install, install_extra, install_line, requirements

PROJECT = tomllib.loads((Path(machine.__file__).parents[2] / "pyproject.toml").read_text("utf-8"))["project"]
EXTRAS = ("local", "parquet", "report", "ray", "ui", "science")
# As an installed distribution has them.
REQUIRES = [
    *PROJECT["dependencies"],
    *(f'{line}; extra == "{extra}"' for extra in EXTRAS for line in PROJECT["optional-dependencies"][extra]),
]


@dataclass
class Distribution:
    """This program as installed from somewhere. origin: as pip notes it (PEP 610)."""

    origin: dict[str, Any] | None

    def read_text(self, name: str) -> str | None:
        assert name == "direct_url.json"
        return None if self.origin is None else json.dumps(self.origin)


def set_up(monkeypatch: pytest.MonkeyPatch, origin: dict[str, Any] | None) -> None:
    monkeypatch.setattr(metadata, "distribution", lambda _: Distribution(origin))
    monkeypatch.setattr(metadata, "requires", lambda _: REQUIRES)
    monkeypatch.setattr(metadata, "version", lambda _: "0.2.0")


def installed(monkeypatch: pytest.MonkeyPatch, origin: dict[str, Any] | None, extra: str = "science") -> str:
    set_up(monkeypatch, origin)
    return install_extra(extra).partition(" install ")[2]


def test_an_extra_is_installed_from_where_the_program_came(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "a folder"
    folder.mkdir()
    url = folder.as_uri()
    assert installed(monkeypatch, {"url": url, "dir_info": {"editable": True}}) == f"-e '{folder}[science]'"
    assert installed(monkeypatch, {"url": url, "dir_info": {}}) == f"'{folder}[science]'"
    assert installed(monkeypatch, None) == "'autoprompt-optimizer[science]'"
    git = {"url": "https://h/r.git", "vcs_info": {"vcs": "git", "commit_id": "abc"}}
    assert installed(monkeypatch, git) == "'autoprompt-optimizer[science] @ git+https://h/r.git@abc'"
    wheel = {"url": "file:///w/a.whl", "archive_info": {}}
    assert installed(monkeypatch, wheel) == "'autoprompt-optimizer[science] @ file:///w/a.whl'"


@pytest.mark.parametrize(
    ("origin", "line"),
    [
        (None, "autoprompt-optimizer==0.2.0"),
        (
            {"url": "https://h/r.git", "vcs_info": {"vcs": "git", "commit_id": "abc"}},
            "autoprompt-optimizer @ git+https://h/r.git@abc",
        ),
        ({"url": "https://h/a.whl", "archive_info": {}}, "autoprompt-optimizer @ https://h/a.whl"),
        (
            {
                "url": "https://h/r.git",
                "vcs_info": {"vcs": "git", "commit_id": "abc"},
                "subdirectory": "tools/prompt",
            },
            "autoprompt-optimizer @ git+https://h/r.git@abc#subdirectory=tools/prompt",
        ),
        ({"url": "file:///w/a.whl", "archive_info": {}}, None),
        ({"url": "file:///w/r", "vcs_info": {"vcs": "git", "commit_id": "abc"}}, None),
        ({"url": "file:///w", "dir_info": {}}, None),
    ],
)
def test_another_machine_installs_the_same_version(
    origin: dict[str, Any] | None, line: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_up(monkeypatch, origin)
    assert install_line() == line


@pytest.mark.parametrize("extra", EXTRAS)
def test_the_packages_of_an_extra_are_named_if_the_checkout_is_gone(
    extra: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = {"url": (tmp_path / "gone").as_uri(), "dir_info": {"editable": True}}
    command = installed(monkeypatch, gone, extra)
    assert re.match(r"'[a-z]", command)
    assert "autoprompt" not in command


def test_no_message_names_the_package_of_the_public_index() -> None:
    package = Path(machine.__file__).parent
    for path in package.rglob("*.py"):
        assert not re.search(r"pip install '?autoprompt\b", path.read_text(encoding="utf-8")), path


def test_pip_is_that_of_the_python_that_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other = tmp_path / "a folder"
    other.mkdir()
    (other / "pip").write_text("#!/bin/sh\n", encoding="utf-8")
    (other / "pip").chmod(0o755)
    monkeypatch.setattr(shutil, "which", lambda name: str(other / name))
    assert install(["x>=1"]) == f"{sys.executable} -m pip install 'x>=1'"
    monkeypatch.setattr(sys, "executable", str(other / "python"))
    assert install(["x>=1", "y"]) == "pip install 'x>=1' y"


def test_a_checkout_that_was_not_installed_is_itself_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> list[str]:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "requires", missing)
    monkeypatch.setattr(metadata, "distribution", missing)
    root = Path(machine.__file__).parents[2]
    assert install_extra("ui").endswith(f"install -e '{root}[ui]'")
    assert requirements() == []


def test_what_is_needed_in_any_case_holds_no_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    set_up(monkeypatch, None)
    assert any(name.startswith("pydantic") for name in requirements())
    assert not any(name.startswith(("xllamacpp", "pyarrow", "pytest")) for name in requirements())
