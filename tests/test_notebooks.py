"""The example notebooks run from top to bottom, and their cells show progress, warnings and cards."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fake_endpoint import Reply, answer, fake_endpoint

nbformat = pytest.importorskip("nbformat")
nbclient = pytest.importorskip("nbclient")
pytest.importorskip("ipykernel")

EXAMPLES = Path(__file__).parents[1] / "examples"
TEAMS = {
    row["text"]: row["team"]
    for row in map(json.loads, (EXAMPLES / "tickets.jsonl").read_text(encoding="utf-8").splitlines())
}


def reply(body: dict[str, Any]) -> Reply:
    """Knows the team of a ticket if the prompt has a rule, and proposes one."""
    asked = body["messages"][-1]["content"]
    if asked not in TEAMS:
        return answer("```\nSort the ticket: billing, shipping or support? RULE: by topic.\n```")
    has_rule = any("RULE" in str(message["content"]) for message in body["messages"])
    return answer(TEAMS[asked] if has_rule else "support")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    shutil.copy(EXAMPLES / "tickets.jsonl", tmp_path)
    with fake_endpoint(reply) as endpoint:
        monkeypatch.setenv("OPENAI_BASE_URL", endpoint.base_url)
        monkeypatch.setenv("OPENAI_API_KEY", "none")
        monkeypatch.setenv("JUPYTER_PLATFORM_DIRS", "1")
        yield tmp_path


def executed(name: str, folder: Path) -> list[list[dict[str, Any]]]:
    """The outputs of each code cell."""
    notebook = nbformat.read(EXAMPLES / name, as_version=4)
    resources = {"metadata": {"path": str(folder)}}
    nbclient.NotebookClient(notebook, timeout=60, resources=resources).execute()
    return [cell.outputs for cell in notebook.cells if cell.cell_type == "code"]


def plain(outputs: list[dict[str, Any]]) -> str:
    texts = [out["text"] if "text" in out else out["data"].get("text/plain", "") for out in outputs]
    return re.sub(r"\x1b\[[\d;]*m", "", "\n".join(texts))


def html(outputs: list[dict[str, Any]]) -> str:
    return "".join(out["data"].get("text/html", "") for out in outputs if "data" in out)


def test_a_run_in_a_notebook(folder: Path) -> None:
    _, estimated, ran, used = executed("optimize.ipynb", folder)
    assert "Estimate" in html(estimated)
    assert "At most 600 calls" in html(estimated)
    said = plain(ran)
    assert re.search(
        r"autoprompt \S+-tickets-first-try-\S+: [\d,]+ of 600 calls", said
    )  # where the panel was
    assert "warning: " in said  # of the few rows
    assert "Confirmed" in html(ran)
    assert "RULE: by topic." in html(ran)
    assert "Fixed: " in html(ran)
    assert plain(used).startswith("{'role': 'user', 'content': 'My parcel is two weeks late.'")


def test_two_prompts_in_a_notebook(folder: Path) -> None:
    _, scored, wrong, checked = executed("compare.ipynb", folder)
    assert "Better" in html(scored)
    assert "60 fixed, 0 broken" in html(scored)
    assert re.search(r"autoprompt: 180 calls", plain(scored))
    assert plain(wrong) == "[]"
    assert "Passed" in html(checked)


def test_tables_in_a_notebook(folder: Path) -> None:
    pytest.importorskip("pandas")
    _, scored, ran, rows = executed("tables.ipynb", folder)
    assert re.search(r"billing +0.0\nshipping +0.0\nsupport +1.0", plain(scored))
    assert "30 sealed rows" in html(ran)
    assert "Empty DataFrame" in plain(rows)
