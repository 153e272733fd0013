"""The passes of an investigation, as they stand on the disk."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import httpx
import pytest

from autoprompt.records import Usage
from autoprompt.runs import RunFolder, RunStore
from autoprompt.science.records import PassLog, PassRecord
from autoprompt.web.pages import read_science

Ask = Callable[..., httpx.Response]
TEXT = "<Hypothesis>\n组 b is larger <script>.\n</Hypothesis>\n\n<Experiment>\nprint(1 < 2)\n</Experiment>"


@pytest.fixture
def run(runs: RunStore) -> RunFolder:
    folder = runs.create({"task": "Which is larger?", "model": "m", "max_iterations": 3}, kind="science")
    (folder.path / "passes").mkdir()
    log = PassLog(folder.path / "passes")
    usage = Usage(10, 5, None)
    log.write(
        PassRecord(1, TEXT, TEXT, "print(1 < 2)", "True", 0, "True\n", new_files=("a.csv",), usage=usage)
    )
    log.write(PassRecord(2, TEXT, TEXT, "print(1 < 2)", None, usage=usage))
    return folder


def test_passes_are_read_with_what_their_code_did(run: RunFolder) -> None:
    found = read_science(run)
    assert [record.number for record in found.passes] == [1, 2]
    first, second = found.passes
    assert first.sections == (("Hypothesis", "组 b is larger <script>."), ("Experiment", "print(1 < 2)"))
    assert (first.observation, first.exit_code, first.new_files) == ("True", 0, ("a.csv",))
    assert (second.observation, second.exit_code) == (None, None)
    assert (found.task, found.most_passes, found.tokens) == ("Which is larger?", 3, 30)


def test_the_page_shows_them_escaped(ask: Ask, run: RunFolder) -> None:
    answer = ask(f"/runs/{run.run_id}")
    assert answer.status_code == 200
    assert "组 b is larger &lt;script&gt;" in answer.text
    assert "2 of at most 3 passes" in answer.text
    run.write_result({"conclusion": "b is larger", "passes": [], "calls": 2, "seconds": 1.0})
    assert "b is larger" in ask(f"/runs/{run.run_id}").text


def test_a_link_among_the_passes_is_not_followed(ask: Ask, run: RunFolder, tmp_path: Path) -> None:
    secret = tmp_path / "secret.json"
    secret.write_text('{"text": "hunter2"}', encoding="utf-8")
    (run.path / "passes" / "pass-03.json").symlink_to(secret)
    answer = ask(f"/runs/{run.run_id}")
    assert answer.status_code == 409
    assert "hunter2" not in answer.text
