"""`autoprompt science` as a process over a loopback endpoint: output, exit codes, resume of any kind."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from endpoint import KEY, Endpoint, serving

from autoprompt.sandbox import probe, untrusted

pytestmark = pytest.mark.skipif(not probe().confines, reason="nothing on this machine confines code")

CODE = "open('out.txt', 'w').write('3')\nprint(3)"
EXPERIMENT = f"<Hypothesis>\ncount\n</Hypothesis>\n<Experiment>\n{CODE}\n</Experiment>"
CONCLUSION = "<Inference>\nit is 3\n</Inference>\n<Conclusion>\n3\n</Conclusion>"


class Scientist(Endpoint):
    def answer(self, body: dict[str, Any]) -> str:
        return CONCLUSION if len(body["messages"]) > 1 else EXPERIMENT


@pytest.fixture
def scientist(monkeypatch: pytest.MonkeyPatch) -> Iterator[Endpoint]:
    monkeypatch.setattr(Endpoint, "answer", Scientist.answer)
    with serving() as endpoint:
        yield endpoint


def cli(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", "from autoprompt.cli import main; main()", *arguments],
        cwd=folder,
        env={**os.environ, "OPENAI_API_KEY": KEY, "COLUMNS": "110"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def science(folder: Path, endpoint: Endpoint, *arguments: str) -> subprocess.CompletedProcess[str]:
    return cli(folder, "science", *arguments, "--model", "m", "--base-url", endpoint.base_url, "--no-cache")


def test_the_conclusion_is_shown_and_everything_kept(scientist: Endpoint, tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("a\n1\n2\n3\n", encoding="utf-8")
    done = science(
        tmp_path, scientist, "How many rows?", "--data", "t.csv", "--max-iterations", "2", "-o", "got"
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[0] == "3"
    assert "Observation: 3" in done.stderr
    names = {
        str(path.relative_to(tmp_path / "got")) for path in (tmp_path / "got").rglob("*") if path.is_file()
    }
    assert {"transcript.json", "transcript.md", "passes/pass-01.py", "files/out.txt"} <= names
    # Of a finished run `resume` shows the result and asks nobody.
    sent = len(scientist.requests)
    for _ in range(2):
        again = cli(tmp_path, "resume", "last")
        assert (again.returncode, again.stdout.splitlines()[0]) == (0, "3"), again.stderr
    assert len(scientist.requests) == sent


def test_an_output_folder_that_cannot_be_made_is_said_before_anything_is_sent(
    scientist: Endpoint, tmp_path: Path
) -> None:
    done = science(tmp_path, scientist, "How many?", "-o", "typo/got")
    assert (done.returncode, scientist.requests) == (3, [])
    assert done.stderr.startswith("error: typo/got: there is no folder typo. Make it")


def test_json_is_alone_on_stdout_and_quiet_is_quiet(scientist: Endpoint, tmp_path: Path) -> None:
    done = science(tmp_path, scientist, "How many?", "--max-iterations", "1", "--json", "--quiet")
    found = json.loads(done.stdout)
    assert (found["conclusion"], found["stopped_early"], len(found["messages"])) == ("3", False, 2)
    assert "pass 1" not in done.stderr


def test_the_number_of_passes_from_yaml_and_from_the_flag(scientist: Endpoint, tmp_path: Path) -> None:
    (tmp_path / "c.yaml").write_text("agent: {search: {max_iterations: 1}}\n", encoding="utf-8")
    for arguments, passes in (
        (("--config", "c.yaml"), 1),
        (("--config", "c.yaml", "--max-iterations", "2"), 2),
    ):
        done = science(tmp_path, scientist, "How many?", "--json", "--quiet", *arguments)
        run = Path(json.loads(done.stdout)["run_dir"])
        assert f"max_iterations: {passes}" in (tmp_path / run / "config.yaml").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("--max-iterations", "3"), 2, "no task"),
        (("What?", "--max-iterations", "0"), 2, "--max-iterations"),
        (("What?", "--data", "no.csv"), 3, "no.csv"),
        (("What?", "--data", "."), 3, "expected a data file. Name each file as --data FILE."),
        (("@no.txt",), 2, "no.txt"),
        (("@empty.txt",), 2, "empty.txt: TASK is empty. Write the question in words"),
        (("",), 2, "error: TASK is empty. Write the question in words: autoprompt science"),
    ],
)
def test_what_is_wrong_is_said(arguments: tuple[str, ...], code: int, said: str, tmp_path: Path) -> None:
    (tmp_path / "empty.txt").touch()
    done = cli(tmp_path, "science", *arguments)
    assert said in done.stdout + done.stderr
    assert done.returncode == code


def test_an_endpoint_that_fails_is_4_and_the_run_goes_on_later(scientist: Endpoint, tmp_path: Path) -> None:
    scientist.status = 401
    done = science(tmp_path, scientist, "How many?")
    assert done.returncode == 4
    assert "Traceback" not in done.stderr


def test_help_says_how_many_passes_to_take(tmp_path: Path) -> None:
    done = cli(tmp_path, "science", "--help")
    assert done.returncode == 0
    assert "7-10" in " ".join(done.stdout.split())


def test_past_investigations_are_shown(scientist: Endpoint, tmp_path: Path) -> None:
    science(tmp_path, scientist, "How many rows?", "--max-iterations", "1", "--quiet")
    shown = cli(tmp_path, "runs", "show", "last")
    assert shown.returncode == 0, shown.stderr
    assert shown.stdout.splitlines()[0] == "How many rows?"
    assert "work folder:" in shown.stdout
    assert json.loads(cli(tmp_path, "runs", "show", "last", "--json").stdout)["result"]["conclusion"] == "3"
    report = cli(tmp_path, "report", "last")
    assert (report.returncode, "transcript.md" in report.stderr) == (3, True)


SECRET = "root:$6$secret"


class Attacker(Endpoint):
    """A model whose passes are these scripts."""

    codes: tuple[str, ...] = ()

    def answer(self, body: dict[str, Any]) -> str:
        number = body["messages"][-1]["content"].count("</Observation>")
        if number == 0:
            number = sum(message["content"].count("</Observation>") for message in body["messages"])
        if number < len(self.codes):
            return f"<Hypothesis>\nh\n</Hypothesis>\n<Experiment>\n{self.codes[number]}\n</Experiment>"
        return CONCLUSION


def attacked(
    folder: Path, monkeypatch: pytest.MonkeyPatch, codes: tuple[str, ...], *arguments: str
) -> subprocess.CompletedProcess[str]:
    (folder / "w").mkdir(exist_ok=True)
    secret = folder / "secret"
    secret.mkdir()
    (secret / "shadow").write_text(SECRET, encoding="utf-8")
    monkeypatch.setattr(Attacker, "codes", codes, raising=False)
    monkeypatch.setattr(Endpoint, "codes", codes, raising=False)
    monkeypatch.setattr(Endpoint, "answer", Attacker.answer)
    with serving() as endpoint:
        return science(folder, endpoint, "How many?", "--max-iterations", "3", *arguments)


def text_below(folder: Path) -> str:
    return "".join(path.read_text(errors="replace") for path in folder.rglob("*") if path.is_file())


MAKES_SHADOW = "import os\nos.makedirs('d/e')\nfor d in ('d', 'd/e'): open(d + '/shadow', 'w').write('x')"
SHADOWS = {
    "a folder": "import os\nos.rename('d', 'was')\nos.symlink({secret!r}, 'd')",
    "a nested folder": "import os\nos.rename('d/e', 'was')\nos.symlink('../../../../secret', 'd/e')",
}


@pytest.mark.parametrize("way", SHADOWS)
def test_what_a_later_pass_links_is_not_copied(
    way: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    codes = (MAKES_SHADOW, SHADOWS[way].format(secret=str(tmp_path / "secret")))
    done = attacked(tmp_path, monkeypatch, codes, "-o", "got")
    assert done.returncode == 0, done.stderr
    assert SECRET not in text_below(tmp_path / "got")
    assert "warning: not copied: d/" in done.stdout
    # `resume` of the finished run copies with the same care.
    again = cli(tmp_path, "resume", "last", "-o", "again")
    assert again.returncode == 0, again.stderr
    assert SECRET not in text_below(tmp_path / "again")


@pytest.mark.parametrize("name", ["got", "got/files"])
def test_a_results_folder_in_the_work_folder_leads_nowhere_else(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    link = f"os.makedirs('./' + os.path.dirname({name!r}), exist_ok=True)\nos.symlink('../secret', {name!r})"
    codes = (MAKES_SHADOW, f"import os\n{link}")
    done = attacked(tmp_path, monkeypatch, codes, "--workdir", "w", "-o", "w/got")
    assert done.returncode in (2, 3), done.stderr
    assert "a link, expected a folder" in done.stderr
    assert [path.name for path in (tmp_path / "secret").rglob("*")] == ["shadow"]


def test_the_work_folder_does_not_hold_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    done = attacked(tmp_path, monkeypatch, ("print(1)",), "--workdir", ".")
    assert done.returncode == 3
    assert "contains runs, so the code could change the run's own files" in done.stderr


@pytest.mark.parametrize("name", ["t.csv", "below/t.csv"])
def test_a_data_file_is_not_in_the_work_folder(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A later pass could put a link there, whose target the next pass would find as its data."""
    data = tmp_path / "w" / name
    data.parent.mkdir(parents=True)
    data.write_text("a\n1\n", encoding="utf-8")
    done = attacked(tmp_path, monkeypatch, ("print(1)",), "--workdir", "w", "--data", str(data))
    assert done.returncode == 3
    assert "is in the work folder" in done.stderr


DEEP = """
import os
open("beside", "w").write("x")
for n in range(1100):
    os.mkdir("deep")
    os.chdir("deep")
open("bottom", "w").write("x" * 100_000)
print("made")
"""


@pytest.fixture
def cleared(tmp_path: Path) -> Iterator[Path]:
    """A folder that is emptied: pytest's own removal fails at a depth of a thousand folders."""
    yield tmp_path
    for path in tmp_path.iterdir():
        untrusted.remove_tree(path)


def test_a_very_deep_path_is_a_result_like_any_other(cleared: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    done = attacked(cleared, monkeypatch, (DEEP, "print('next')"), "-o", "got")
    assert done.returncode == 0, done.stderr
    run = next((cleared / "runs").iterdir())
    passes = [json.loads((run / "passes" / f"pass-0{n}.json").read_text(encoding="utf-8")) for n in (1, 2)]
    assert [p["stdout"] for p in passes] == ["made\n", "next\n"]
    assert [p["new_files"] for p in passes] == [["beside"], []]
    assert (cleared / "got" / "files" / "beside").exists()
    removed = cli(cleared, "runs", "rm", "--yes", run.name)
    assert removed.returncode == 0, removed.stderr
    assert not run.exists()
