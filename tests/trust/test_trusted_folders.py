"""The list of trusted folders: what the command does with it, and how the file lies on the disk."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path

import pytest
from called import call

from autoprompt.errors import ConfigError
from autoprompt.settings import trust
from autoprompt.settings.trust import make_secret, own_folder


def config() -> Path:
    folder = own_folder()
    assert folder is not None
    return folder


def test_a_folder_is_added_listed_and_removed(tmp_path: Path) -> None:
    inner = tmp_path / "a folder"
    inner.mkdir()
    assert "No folder is trusted" in call("trust").stderr
    assert call("trust", str(inner)).stdout == f"trusted: {inner}\n"
    call("trust", str(inner))
    assert call("trust").stdout == f"{inner}\n"
    assert json.loads(call("trust", "--json").stdout) == {"folders": [str(inner)]}
    assert trust.is_trusted(inner / "x.task.yaml")
    assert not trust.is_trusted(tmp_path / "x.task.yaml")
    assert not trust.is_trusted(tmp_path / "a folder 2")
    assert call("trust", str(inner), "--remove").stdout == f"no longer trusted: {inner}\n"
    assert not trust.is_trusted(inner / "x.task.yaml")
    assert "is not in the list" in call("trust", str(inner), "--remove", code=3).stderr


def test_only_this_user_can_read_it(tmp_path: Path) -> None:
    call("trust", str(tmp_path))
    make_secret()
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in (config(), *config().iterdir())}
    assert modes == {"autoprompt": 0o700, "trusted": 0o600, "secret": 0o600}


def test_what_is_below_a_trusted_folder_is_trusted_and_links_out_of_it_are_not(tmp_path: Path) -> None:
    inside, outside = tmp_path / "in", tmp_path / "out"
    for folder in (inside / "deep", outside):
        folder.mkdir(parents=True)
        (folder / "f").touch()
    (inside / "link").symlink_to(outside)
    (inside / "file").symlink_to(outside / "f")
    (outside / "back").symlink_to(inside / "deep")
    (outside / "file").symlink_to(inside / "deep" / "f")
    (inside / "circle").symlink_to(inside / "circle")
    trust.trust(inside)
    assert trust.is_trusted(inside)
    assert trust.is_trusted(inside / "deep" / "f")
    assert trust.is_trusted(outside / "back" / "f")  # the same file
    for path in ("link", "link/f", "file", "circle"):
        assert not trust.is_trusted(inside / path), path
    assert not trust.is_trusted(outside / "file")  # what it names beside it is not


def test_a_link_is_stored_as_what_it_leads_to(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    assert trust.store(tmp_path / "link") == tmp_path / "real"
    assert trust.remove(tmp_path / "link") == tmp_path / "real"


@pytest.mark.parametrize("name", ["missing", "file"])
def test_what_is_no_folder_is_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / "file").touch()
    assert f"{tmp_path / name}: " in call("trust", str(tmp_path / name), code=3).stderr
    with pytest.raises(ConfigError, match=r"expected a folder|no such folder"):
        trust.trust(tmp_path / name)


def test_a_relative_config_home_is_ignored(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", "here")
    (tmp_path / "here" / "autoprompt").mkdir(parents=True)
    (tmp_path / "here" / "autoprompt" / "trusted").write_text(f"{tmp_path}\n")
    assert own_folder() == Path.home() / ".config" / "autoprompt"
    assert not trust.is_trusted(tmp_path)


def test_lines_that_are_no_path_trust_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    config().mkdir(parents=True)
    (config() / "trusted").write_text("\n.\n..\n~\n*\n", encoding="utf-8")
    assert trust.stored_folders() == []
    assert not trust.is_trusted(tmp_path)


@pytest.mark.skipif(os.geteuid() == 0 and not Path("/proc/self").exists(), reason="needs a read-only path")
def test_a_list_that_cannot_be_written_is_explained(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "config").touch()  # a file where the folder should be, which stops root too
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    said = call("trust", str(tmp_path), code=3).stderr
    assert "the list of trusted folders cannot be used" in said
