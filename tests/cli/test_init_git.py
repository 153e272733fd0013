"""What `init` says of git: nothing of it is left out, and nothing secret goes in."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
import yaml
from called import call

needs_git = pytest.mark.skipif(shutil.which("git") is None, reason="git itself is asked")


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def git(*arguments: str) -> str:
    return subprocess.run(["git", *arguments], capture_output=True, text=True, check=True).stdout


def last_line(said: str) -> str:
    return said.splitlines()[-1].strip()


@needs_git
def test_what_init_made_is_added_and_what_a_check_leaves_is_not() -> None:
    git("init", "-q")
    said = call("init", "--ci").stdout
    Path("baselines/tickets.json").write_text("{}", encoding="utf-8")
    for name in (".env", "prompt-check.md", "prompt-check.xml", "runs/a/run.json"):
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Path(name).write_text("x", encoding="utf-8")
    assert last_line(said).startswith("git add ")
    git(*last_line(said).split()[1:])
    assert git("status", "--porcelain", "--untracked-files=all").splitlines() == [
        "A  .github/workflows/prompt-check.yml",
        "A  .gitignore",
        "A  README.md",
        "A  autoprompt.yaml",
        "A  baselines/tickets.json",
        "A  ci.yaml",
        "A  datasets/tickets.jsonl",
        "A  datasets/tickets.task.yaml",
    ]


@pytest.mark.parametrize("flags", [(), ("--ci",)])
def test_a_gitignore_that_was_there_is_told_what_it_lacks(flags: tuple[str, ...]) -> None:
    Path(".gitignore").write_text("*.pyc\n/runs\n", encoding="utf-8")
    said = call("init", *flags).stdout
    assert ".gitignore lacks: memory/, .env" in said
    assert ".gitignore" not in last_line(said)


def test_a_started_folder_is_told_so_too_and_adds_what_is_there() -> None:
    Path("autoprompt.yaml").write_text("dataset: mine.jsonl\n", encoding="utf-8")
    said = call("init", "--ci").stdout
    assert ".gitignore lacks: runs/, memory/, .env, prompt-check.md, prompt-check.xml" in said
    assert last_line(said) == "git add ci.yaml .github baselines"


def test_nothing_is_said_where_nothing_is_lacking() -> None:
    assert "lacks" not in call("init", "--ci").stdout
    assert "lacks" not in call("init", "--ci").stdout


def test_a_check_of_ones_own_is_kept_and_its_files_are_watched() -> None:
    """The tutorial's own layout: nothing of the starter comes beside it."""
    for name in ("tickets.csv", "tickets.task.yaml", "prompts/a.txt", "text/p.txt", "pkg/app.py"):
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Path(name).write_text("input_field: a\n", encoding="utf-8")
    Path("ci.yaml").write_text(
        "dataset: tickets.csv\nprompt: '@text/p.txt'\nbaseline: baselines/t.json\n"
        "metric: python:pkg.app:score\ntools: ../outside.py\n",
        encoding="utf-8",
    )
    said = call("init", "--ci").stdout
    workflow = Path(".github/workflows/prompt-check.yml").read_text(encoding="utf-8")
    assert yaml.safe_load(workflow)[True]["pull_request"]["paths"] == [
        *("prompts/**", "datasets/**", "baselines/**"),
        *("pkg/app.py", "text/p.txt", "tickets.csv", "tickets.task.yaml"),
        *("ci.yaml", ".github/workflows/prompt-check.yml"),
    ]
    assert not Path("autoprompt.yaml").exists()
    assert not Path("datasets").exists()
    assert {"tickets.csv", "tickets.task.yaml", "ci.yaml", ".github", "prompts"} <= {*last_line(said).split()}


def test_the_check_watches_the_modules_that_a_program_imports(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    files = {
        "app.py": "import os\nfrom ... import above\nfrom shop.texts import ASK\n",
        "shop/__init__.py": "",
        "shop/texts.py": "from . import more\nfrom .. import app\nASK = 'Which?'\n",
        "shop/more.py": "",
        "shop/other.py": "",
        "ci.yaml": "program: app:answer\ndataset: rows.jsonl\n",
        "rows.jsonl": '{"input": "a", "target": "b"}\n',
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    call("init", "--ci")
    workflow = (tmp_path / ".github/workflows/prompt-check.yml").read_text(encoding="utf-8")
    for name in ("app.py", "shop/__init__.py", "shop/texts.py", "shop/more.py"):
        assert f'"{name}"' in workflow
    assert "other.py" not in workflow
