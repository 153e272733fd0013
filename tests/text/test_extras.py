"""The command that installs what is missing is one that works here."""

from __future__ import annotations

import re
import shutil
import sys
from importlib import metadata
from pathlib import Path

import pytest

from autoprompt.text import extras
from autoprompt.text.extras import install, install_extra, requirements

EXTRAS = ("local", "parquet", "report", "ray", "ui", "science")


@pytest.mark.parametrize("extra", EXTRAS)
def test_the_packages_of_an_extra_are_named_and_not_another_projects_name(extra: str) -> None:
    command = install_extra(extra)
    assert re.search(r"(pip|-m pip) install '[a-z]", command)
    assert "autoprompt" not in command.partition("install")[2]


def test_no_message_names_the_package_of_the_public_index() -> None:
    package = Path(extras.__file__).parent
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
    root = Path(extras.__file__).parents[2]
    assert install_extra("ui").endswith(f"install -e '{root}[ui]'")
    assert requirements() == []


def test_what_is_needed_in_any_case_holds_no_extra() -> None:
    assert any(name.startswith("pydantic") for name in requirements())
    assert not any(name.startswith(("xllamacpp", "pyarrow", "pytest")) for name in requirements())
