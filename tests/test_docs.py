"""Every code block of the README and of the site runs, without a key and without a network."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path

import pytest
from docs_model import PageModel
from docs_pages import DOCS, PAGES, SITE, blocks, name_of
from fake_endpoint import fake_endpoint

import autoprompt

sys.path.insert(0, str(DOCS))
from pictures import drawings

RUNNER = Path(__file__).with_name("docs_runner.py")
WITH_BLOCKS = [page for page in PAGES if any(not block.why_not for block in blocks(page))]


@pytest.mark.parametrize("page", WITH_BLOCKS, ids=name_of)
def test_the_code_of_a_page_runs(page: Path, tmp_path: Path) -> None:
    folder = tmp_path / "page"
    folder.mkdir()
    written = page.read_text(encoding="utf-8")
    for file in (DOCS / "data").iterdir():
        if file.name in written:
            (folder / "docs" / "data").mkdir(parents=True, exist_ok=True)
            shutil.copy(file, folder)
            shutil.copy(file, folder / "docs" / "data")
    run = [{"page": name_of(page), **asdict(block)} for block in blocks(page) if not block.why_not]
    (tmp_path / "blocks.json").write_text(json.dumps(run), encoding="utf-8")
    with fake_endpoint(PageModel(folder).reply) as endpoint:
        done = subprocess.run(
            [sys.executable, "-W", "error", RUNNER, tmp_path / "blocks.json"],
            cwd=folder,
            env={
                **os.environ,
                "OPENAI_BASE_URL": endpoint.base_url,
                "OPENAI_API_KEY": "none",
                "AUTOPROMPT_PRICE_INPUT": "0.15",
                "AUTOPROMPT_PRICE_OUTPUT": "0.6",
                "BROWSER": "true",
                "COLUMNS": "110",
            },
            capture_output=True,
            text=True,
            check=False,
        )
    assert done.returncode == 0, done.stderr[-6000:]


def test_the_api_page_has_every_public_name() -> None:
    page = (DOCS / "reference" / "api.md").read_text(encoding="utf-8")
    assert sorted(re.findall(r"^::: autoprompt\.(\w+)$", page, re.MULTILINE)) == sorted(
        {*autoprompt.__all__} - {"__version__"}
    )


def test_a_block_that_is_not_run_says_why() -> None:
    """Commands are in blocks of `sh`: in a block without a language, nothing would run them."""
    plain = [block for page in PAGES for block in blocks(page) if block.language == ""]
    assert not [block.text for block in plain if block.text.startswith(("autoprompt ", "pip ", "make "))]
    assert all(len(block.why_not.split()) > 2 for page in PAGES for block in blocks(page) if block.why_not)


def test_the_tutorials_and_the_start_run_whole() -> None:
    pages = [page for page in SITE if name_of(page).startswith(("docs/tutorials", "docs/start"))]
    left = {name_of(page): block.why_not for page in pages for block in blocks(page) if block.why_not}
    assert len(pages) >= 7
    assert left == {}


def test_the_drawings_are_up_to_date() -> None:
    assert {name: (DOCS / "assets" / name).read_text(encoding="utf-8") for name in drawings()} == drawings()


@pytest.mark.parametrize(
    ("shown", "is_right"),
    [
        ("score 0.75", True),
        ("score ...", True),
        ("...\nend", True),
        ("end\nscore 0.75", False),
        ("score 0", False),
    ],
)
def test_a_shown_output_is_compared(shown: str, is_right: bool, tmp_path: Path) -> None:
    run = [
        {"page": "p.md", "line": 1, "language": "python", "title": "", "text": 'print("score  0.75\\nend")'},
        {"page": "p.md", "line": 5, "language": "text", "title": "Output", "text": shown},
    ]
    (tmp_path / "b.json").write_text(json.dumps(run), encoding="utf-8")
    runner = [sys.executable, RUNNER, "b.json"]
    done = subprocess.run(runner, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode == 0) is is_right, done.stderr
