"""`kill -9` between and inside of passes: a resumed run pays and runs nothing again that was finished."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from three_passes import LAST
from waiting import wait_until

pytestmark = pytest.mark.skipif(os.name == "nt", reason="Windows has no SIGKILL")

# A script that answers by the number of passes in the request, notes each call, and dies where it is told to.
CHILD = """
import json, os, signal, sys
from pathlib import Path
from langgraph.checkpoint.sqlite import SqliteSaver
from autoprompt import Models, ScienceConfig
from autoprompt.llm import ScriptedClient
from autoprompt.optimizer import api

die_at, resumed = sys.argv[1], sys.argv[2] == "resume"
LAST = Path("last.txt").read_text(encoding="utf-8")

def note(what):
    with open("notes.txt", "a") as file:
        file.write(what + "\\n")
    if what == die_at:
        os.kill(os.getpid(), signal.SIGKILL)

def answer(messages):
    done = messages[1].content.count("<Observation>") if len(messages) > 1 else 0
    note(f"asked {done + 1}")
    if done == 3:
        return LAST
    code = f"with open('ran.txt', 'a') as f: f.write('{done + 1}')\\nprint('seen {done + 1}')"
    return f"<Inference>\\n{done}\\n</Inference>\\n\\n<Experiment>\\n{code}\\n</Experiment>"

put, puts = SqliteSaver.put, 0

def noting(self, *args):
    global puts
    puts += 1
    note(f"checkpoint {puts}")
    return put(self, *args)

SqliteSaver.put = noting

def on_event(event):
    if event["event"] in ("pass_answered", "experiment_started", "observation"):
        note(f"{event['event']} {event['number']}")

models = Models(ScriptedClient(answer))
if resumed:
    found = api.resume("last", models=models, on_event=on_event)
else:
    config = ScienceConfig(task="Look.", max_iterations=4, no_cache=True)
    found = api.investigate(config, models=models, on_event=on_event)
print(json.dumps(found.to_dict()))
"""


def child(folder: Path, die_at: str, how: str) -> subprocess.CompletedProcess[str]:
    (folder / "child.py").write_text(CHILD, encoding="utf-8")
    (folder / "last.txt").write_text(LAST, encoding="utf-8")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "child.py", die_at, how]
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=120, check=False
    )


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, object]:
    done = child(tmp_path_factory.mktemp("undisturbed"), "never", "start")
    assert done.returncode == 0, done.stderr
    return dict(json.loads(done.stdout))


@pytest.mark.parametrize(
    "die_at",
    [
        *(
            "asked 2",
            "pass_answered 2",
            "experiment_started 2",
            "observation 2",
            "asked 4",
            "pass_answered 4",
        ),
        *(f"checkpoint {n}" for n in range(2, 9)),  # a node has ended, and the state after it is not stored
    ],
)
def test_a_killed_run_goes_on_where_it_was(
    die_at: str, undisturbed: dict[str, object], tmp_path: Path
) -> None:
    killed = child(tmp_path, die_at, "start")
    assert killed.returncode == -signal.SIGKILL
    before = (tmp_path / "notes.txt").read_text(encoding="utf-8").splitlines()
    resumed = child(tmp_path, "never", "resume")
    assert resumed.returncode == 0, resumed.stderr
    notes = (tmp_path / "notes.txt").read_text(encoding="utf-8").splitlines()
    asked = [note for note in notes if note.startswith("asked")]
    # What was asked when it died had no answer; nothing else is asked twice.
    again = {die_at} if die_at.startswith("asked") else set()
    assert {note for note in asked if asked.count(note) > 1} == again
    started = [note for note in notes if note.startswith("experiment_started")]
    ran_before = {f"experiment_started {n.split()[1]}" for n in before if n.startswith("observation")}
    assert all(started.count(note) == 1 for note in ran_before)
    found = json.loads(resumed.stdout)
    same = ("messages", "conclusion", "stopped_early", "calls", "usage")
    assert {name: found[name] for name in same if name != "calls"} == {
        name: undisturbed[name] for name in same if name != "calls"
    }
    work = Path(found["workdir"])
    assert (work / "ran.txt").read_text(encoding="utf-8") == "123"


def test_a_kill_inside_of_an_experiment_leaves_nothing_running(tmp_path: Path) -> None:
    """The experiment writes that it lives, and sleeps; killed with its parent, it never wakes up."""
    code = "import time\nopen('alive.txt', 'w').write('yes')\ntime.sleep(30)\nopen('woke.txt', 'w')"
    program = CHILD.replace("print('seen {done + 1}')\"", "print('x')\"").replace(
        '    return f"<Inference>', f"    return '<Experiment>' + {code!r}\n    return f\"<Inference>"
    )
    (tmp_path / "child.py").write_text(program, encoding="utf-8")
    (tmp_path / "last.txt").write_text(LAST, encoding="utf-8")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen(
        [sys.executable, "child.py", "never", "start"],
        cwd=tmp_path,
        env=environment,
        stdout=subprocess.DEVNULL,
    ) as process:
        wait_until(lambda: any(tmp_path.glob("runs/*/work/alive.txt")))
        process.kill()
    (work,) = tmp_path.glob("runs/*/work")
    marker = str(work)
    wait_until(lambda: not any(marker in line for line in running()))
    assert not (work / "woke.txt").exists()


def running() -> list[str]:
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            found.append(path.read_bytes().replace(b"\0", b" ").decode(errors="replace"))
        except OSError:
            continue
    return found


def in_place_of_work(work: Path, target: str | Path) -> None:
    work.rename(work.with_name("before"))
    work.symlink_to(target)


LINKS = {
    "absolute": lambda work, secret: in_place_of_work(work, secret),
    "relative": lambda work, secret: in_place_of_work(work, os.path.relpath(secret, work.parent)),
    "by way of another link": lambda work, secret: (
        work.with_name("step").symlink_to(secret),
        in_place_of_work(work, "step"),
    ),
    "to nothing": lambda work, secret: in_place_of_work(work, secret / "made"),
    "to the run's own folder": lambda work, secret: in_place_of_work(work, "."),
}


@pytest.mark.parametrize("way", LINKS)
def test_a_work_folder_that_became_a_link_is_not_worked_in(way: str, tmp_path: Path) -> None:
    """What ran before may have put it there, with `--sandbox none`; so may whoever sent the folder."""
    assert child(tmp_path, "asked 2", "start").returncode == -signal.SIGKILL
    (work,) = tmp_path.glob("runs/*/work")
    (tmp_path / "secret").mkdir()
    LINKS[way](work, tmp_path / "secret")
    resumed = child(tmp_path, "never", "resume")
    assert "this is a link, expected a file of the run" in resumed.stderr
    assert list((tmp_path / "secret").iterdir()) == []
    assert "asked 3" not in (tmp_path / "notes.txt").read_text(encoding="utf-8")
