"""Where this autoprompt came from, as another machine's pip takes it."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

from autoprompt.cli.origin import address_of


@pytest.mark.parametrize(
    ("url", "more", "expected"),
    [
        (
            "https://example.org/a/autoprompt.git",
            {"vcs_info": {"vcs": "git", "commit_id": "0f3"}},
            "git+https://example.org/a/autoprompt.git@0f3",
        ),
        (
            "https://me:secret@example.org/a/autoprompt.git",
            {"vcs_info": {"vcs": "git"}},
            "git+https://example.org/a/autoprompt.git",
        ),
        (
            "ssh://git@example.org:22/a/autoprompt.git",
            {"vcs_info": {"vcs": "git", "commit_id": "0f3"}},
            "git+https://example.org/a/autoprompt.git@0f3",
        ),
        ("file:///home/me/autoprompt", {"vcs_info": {"vcs": "git", "commit_id": "0f3"}}, ""),
        (
            "https://example.org/autoprompt.whl?token=x",
            {"archive_info": {}},
            "https://example.org/autoprompt.whl",
        ),
        ("file:///home/me/autoprompt.whl", {"archive_info": {}}, ""),
        ("file:///not/there", {"dir_info": {"editable": True}}, ""),
    ],
)
def test_an_address_is_one_that_others_reach_without_a_password(
    url: str, more: dict[str, Any], expected: str
) -> None:
    assert address_of({"url": url, **more}) == expected


@pytest.mark.parametrize(
    ("remote", "expected"),
    [
        ("git@example.org:a/autoprompt.git", "git+https://example.org/a/autoprompt.git"),
        ("https://token@example.org/a/autoprompt", "git+https://example.org/a/autoprompt"),
        ("/srv/autoprompt", ""),
        (None, ""),
    ],
)
def test_a_checkout_is_named_by_its_remote(tmp_path: Path, remote: str | None, expected: str) -> None:
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    if remote is not None:
        subprocess.run(["git", "-C", str(tmp_path), "remote", "add", "origin", remote], check=True)
    (tmp_path / "part").mkdir()
    assert address_of({"url": tmp_path.as_uri(), "dir_info": {}}) == expected
    assert address_of({"url": (tmp_path / "part").as_uri(), "dir_info": {}}) == ""
