"""Files of an active run that somebody takes away: the run says so, and a resume pays nothing twice."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from fakes import World, run_config, writer

from autoprompt import Models, RunResult, optimize, resume
from autoprompt.errors import StoreError
from autoprompt.llm import ScriptedClient
from autoprompt.llm.client import Completion, Options
from autoprompt.records import Message
from autoprompt.runs import RunFolder

WORLD = World(base=0.2, rule_gain=0.5, demo_gain=0.3)
LATE = 200  # a call in the second round: checkpoints, candidates and rows of evaluations are there
Attack = Callable[[Path], object]


@dataclass
class FakeModels:
    """Student and writer that count what they were asked; before call `at` the run folder is attacked."""

    runs: Path
    attack: Attack | None = None
    at: int = LATE
    sent: int = 0
    answered: Counter[tuple[Any, ...]] = field(default_factory=Counter)

    @property
    def given(self) -> Models:
        return Models(ScriptedClient(self._counted(WORLD.student)), ScriptedClient(self._counted(writer)))

    def _counted(self, answer: Callable[[list[Message], Options], Completion]) -> Callable[..., Completion]:
        def counted(messages: list[Message], options: Options) -> Completion:
            self.sent += 1
            if self.sent == self.at and self.attack is not None:
                self.attack(run_of(self.runs).path)
            self.answered[(tuple(messages), replace(options, max_output_tokens=None))] += 1
            return answer(messages, options)

        return counted


def run_of(runs: Path) -> RunFolder:
    (path,) = [
        path for path in runs.iterdir() if (path / "run.lock").exists() or (path / "run.json").exists()
    ]
    return RunFolder(path)


def started(
    folder: Path, attack: Attack | None, *, at: int = LATE
) -> tuple[FakeModels, Callable[[], RunResult]]:
    models = FakeModels(folder / "runs", attack, at)
    config = run_config(folder, rows=110, no_cache=True, max_calls=600, max_iterations=3)
    return models, lambda: optimize(config, models=models.given)


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return plain(started(tmp_path_factory.mktemp("undisturbed"), None)[1]())


def plain(result: RunResult) -> dict[str, Any]:
    return {
        k: v for k, v in result.to_dict().items() if k not in ("run_id", "run_dir", "seconds", "warnings")
    }


def replaced(path: Path) -> None:
    """By a file of another inode with the same content, as editors and syncing programs do."""
    other = path.with_name("other")
    shutil.copy(path, other)
    other.replace(path)


def linked(path: Path) -> None:
    path.unlink()
    path.symlink_to("/etc/passwd")


def emptied(path: Path) -> None:
    path.write_bytes(b"")


def halved(path: Path) -> None:
    data = path.read_bytes()
    with path.open("r+b") as stream:
        stream.truncate(len(data) // 2)


def in_its_place(path: Path) -> None:
    path.unlink()
    path.mkdir()


FREE = {  # name of the file, what is done to it, what is said; a resume asks for nothing that was answered
    "journal deleted": ("journal.jsonl", Path.unlink, "this file was deleted"),
    "journal replaced": ("journal.jsonl", replaced, "this file was replaced by another file"),
    "journal a link": ("journal.jsonl", linked, "this file was replaced by a link"),
    "journal a folder": ("journal.jsonl", in_its_place, "this file was replaced by another file"),
    "checkpoints deleted": ("checkpoints.sqlite", Path.unlink, "this file was deleted"),
    "checkpoints replaced": (
        "checkpoints.sqlite",
        replaced,
        "this file was replaced by another file",
    ),
    "candidates deleted": ("candidates.jsonl", Path.unlink, "was deleted|was replaced by another file"),
    "candidates cut": ("candidates.jsonl", halved, "this file was cut from"),
    "events a link": ("events.jsonl", linked, "this file was replaced by a link"),
    "lock deleted": ("run.lock", Path.unlink, "this file was deleted"),
    "lock replaced": ("run.lock", replaced, "this file was replaced by another file"),
    "rows deleted": ("predictions/01-train.jsonl", Path.unlink, "this file was deleted"),
    "rows replaced": ("predictions/01-train.jsonl", emptied, "this file was changed or replaced"),
    "rows a link": ("predictions/01-train.jsonl", linked, "this file was replaced by a link"),
}


@pytest.mark.parametrize("case", FREE)
def test_a_file_that_is_taken_away_ends_the_run_and_a_resume_pays_nothing(
    case: str, tmp_path: Path, expected: dict[str, Any]
) -> None:
    name, attack, said = FREE[case]
    models, start = started(tmp_path, lambda folder: attack(folder / name))
    with pytest.raises(StoreError, match=said) as ended:
        start()
    problem = ended.value.problems[-1]
    assert (problem.code, ended.value.exit_code) == ("run.file-lost", 3)
    assert problem.fix.endswith(f"autoprompt resume {run_of(models.runs).reference}")
    assert models.sent < expected["calls"]  # it did not go on to the end
    result = resume(run_of(models.runs).path, models=models.given)
    assert plain(result) == expected
    assert max(models.answered.values()) == 1


@pytest.mark.parametrize("attack", [emptied, halved], ids=["emptied", "halved"])
def test_a_cut_journal_ends_the_run_at_once(attack: Attack, tmp_path: Path, expected: dict[str, Any]) -> None:
    """What was in it is gone; the run does not go on to pay for more that would be lost."""
    models, start = started(tmp_path, lambda folder: attack(folder / "journal.jsonl"))
    with pytest.raises(StoreError, match=r"journal\.jsonl: (another program has cut|this file was cut)"):
        start()
    assert models.sent == LATE
    found = plain(resume(run_of(models.runs).path, models=models.given))
    assert found["best"] == expected["best"]


def test_emptied_checkpoints_are_set_aside(tmp_path: Path, expected: dict[str, Any]) -> None:
    models, start = started(tmp_path, lambda folder: emptied(folder / "checkpoints.sqlite"))
    with pytest.raises(Exception, match=r"checkpoints\.sqlite|malformed|disk I/O"):
        start()
    assert plain(resume(run_of(models.runs).path, models=models.given)) == expected
    assert max(models.answered.values()) == 1


def moved(folder: Path) -> None:
    folder.rename(folder.with_name("elsewhere"))


def swapped(folder: Path) -> None:
    folder.rename(folder.with_name("elsewhere"))
    folder.mkdir()


@pytest.mark.parametrize("attack", [moved, swapped], ids=["moved", "another folder in its place"])
def test_a_run_folder_that_was_moved_is_named(
    attack: Attack, tmp_path: Path, expected: dict[str, Any]
) -> None:
    models, start = started(tmp_path, attack)
    with pytest.raises(StoreError, match=r"run folder") as ended:
        start()
    there = models.runs / "elsewhere"
    (run,) = [path for path in models.runs.iterdir() if path != there] or [
        Path(ended.value.problems[0].place.file)
    ]
    assert f"Move {there} back to {run}." in str(ended.value)
    shutil.rmtree(run, ignore_errors=True)
    there.rename(run)
    assert plain(resume(run, models=models.given)) == expected
    assert max(models.answered.values()) == 1


@pytest.mark.parametrize("with_link", [False, True], ids=["deleted", "a link in its place"])
def test_what_a_deleted_run_folder_held_is_saved(
    with_link: bool, tmp_path: Path, expected: dict[str, Any]
) -> None:
    def delete(folder: Path) -> None:
        shutil.rmtree(folder)
        if with_link:
            folder.symlink_to(tmp_path)

    models, start = started(tmp_path, delete)
    with pytest.raises(StoreError, match="the run folder was deleted while the run was active") as ended:
        start()
    saved = next(path for path in models.runs.iterdir() if path.is_dir() and not path.is_symlink())
    assert f"The answers that were paid for are in {saved}" in str(ended.value)
    run = saved.with_name(saved.name.removesuffix(".restored"))
    if with_link:
        assert f" Move that folder to {run}." in str(ended.value)
        run.unlink()
        saved.rename(run)
    assert plain(resume(run, models=models.given)) == expected
    assert max(models.answered.values()) == 1


@pytest.mark.parametrize("name", ["config.yaml", "run.json", "original_prompt.txt"])
@pytest.mark.parametrize(
    ("attack", "said"),
    [
        (Path.unlink, "this file was deleted while the run is active. autoprompt put it back."),
        (linked, "this file was replaced by a link while the run is active."),
        (emptied, "this file was edited while the run is active."),
    ],
    ids=["deleted", "a link", "emptied"],
)
def test_a_file_that_only_a_resume_reads_is_a_warning(
    name: str, attack: Attack, said: str, tmp_path: Path, expected: dict[str, Any]
) -> None:
    models, start = started(tmp_path, lambda folder: attack(folder / name), at=100)
    result = start()
    assert plain(result) == expected
    (warning,) = [one for one in result.warnings if one.code == "run.file-changed"]
    assert said in str(warning)
    assert (run_of(models.runs).path / name).exists()


def test_an_undisturbed_run_and_its_resume_report_nothing(tmp_path: Path) -> None:
    _, start = started(tmp_path, None)
    assert not [one for one in start().warnings if one.code.startswith("run.")]
