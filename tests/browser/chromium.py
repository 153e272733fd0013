"""The Chromium of this machine, and how it is started for a test."""

from __future__ import annotations

import os
import shutil

import pytest

_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
# What a container lacks (a user namespace for root, shared memory), and what calls home by itself.
FLAGS = (
    "--no-sandbox",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
)


def chromium_path() -> str:
    """Skips the test where there is none; where TESTS_NEED_BROWSER is set, fails it."""
    found = next((path for name in _NAMES if (path := shutil.which(name))), None)
    if found is None:
        told = "no Chromium on this machine: `make browser` installs it (Debian, as root)"
        if os.environ.get("TESTS_NEED_BROWSER"):  # .ci/run, once one is installed
            pytest.fail(told)
        pytest.skip(told)
    return found
