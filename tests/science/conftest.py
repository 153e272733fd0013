"""A small table of our own, and a sandbox or a skip."""

from __future__ import annotations

from pathlib import Path

import pytest

from autoprompt.sandbox import probe

FARES = ("7.25", "71.2833", "7.925", "53.1", "8.05", "")
ROWS = (
    "Ada,female,22,A1",
    "Bea,female,38,",
    "Cid,male,,B2",
    "Dan,male,35,",
    "Eve,female,4,C3",
    "Fay,female,,",
)


@pytest.fixture
def passengers(tmp_path: Path) -> Path:
    path = tmp_path / "data" / "passengers.csv"
    path.parent.mkdir()
    lines = [f"{row},{fare}" for row, fare in zip(ROWS, FARES, strict=True)]
    path.write_text("Name,Sex,Age,Cabin,Fare\n" + "\n".join(lines) + "\n", encoding="utf-8")
    return path


@pytest.fixture(autouse=True)
def _in_own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs are written below the working directory."""
    monkeypatch.chdir(tmp_path)


@pytest.fixture(autouse=True, scope="session")
def _confined() -> None:
    if not probe().confines:
        pytest.skip("nothing on this machine confines code")
