"""The results folder of `science -o`: what is copied, and every way to make it hold or hit another file."""

from __future__ import annotations

import json
import os
import socket
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from autoprompt.cli.science import watch
from autoprompt.errors import UsageError
from autoprompt.records import OnEvent, Usage
from autoprompt.science import Investigation
from autoprompt.science.records import PassRecord
from autoprompt.science.results import copy_results

SECRET = "the secret"


def finished(run: Path, passes: int, files: tuple[str, ...]) -> Investigation:
    """An investigation whose folder is `run`, and each file that it made holds the folder's name."""
    records = tuple(PassRecord(n + 1, "", "", code="1", new_files=(file,)) for n, file in enumerate(files))
    work = run / "work"
    (run / "passes").mkdir(parents=True)
    work.mkdir()
    for number in range(1, passes + 1):
        (run / "passes" / f"pass-{number:02}.json").write_text(run.name, encoding="utf-8")
    for file in files:
        (work / file).parent.mkdir(exist_ok=True)
        (work / file).write_text(run.name, encoding="utf-8")
    found = Investigation("t", (), records, "", False, Usage(), workdir=str(work), run_dir=str(run))
    for file in ("run.json", "transcript.json", "transcript.md", "result.json"):
        (run / file).write_text(json.dumps(found.to_dict()), encoding="utf-8")
    return found


def files_in(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def test_an_output_folder_holds_one_run_and_what_was_there_of_ones_own(tmp_path: Path) -> None:
    got = tmp_path / "got"
    copy_results(finished(tmp_path / "long", 5, ("a.txt", "b.txt")), got)
    (got / "passes" / "notes.md").touch()
    (got / "files" / "own.txt").touch()
    copy_results(finished(tmp_path / "short", 2, ("b.txt",)), got)
    assert [name for name in files_in(got) if "/" in name] == [
        "files/b.txt",
        "files/own.txt",
        "passes/notes.md",
        "passes/pass-01.json",
        "passes/pass-02.json",
    ]
    assert (got / "files" / "b.txt").read_text(encoding="utf-8") == "short"


def test_a_file_of_an_earlier_run_makes_room_for_a_folder(tmp_path: Path) -> None:
    got = tmp_path / "got"
    copy_results(finished(tmp_path / "one", 1, ("a",)), got)
    copy_results(finished(tmp_path / "two", 1, ("a/b",)), got)
    assert "files/a/b" in files_in(got)


def test_copies_that_fail_take_nothing_out(tmp_path: Path) -> None:
    got = tmp_path / "got"
    copy_results(finished(tmp_path / "long", 5, ("a.txt", "b.txt")), got)
    before = files_in(got)
    found = finished(tmp_path / "short", 2, ("b.txt",))
    (tmp_path / "short" / "transcript.md").unlink()
    with pytest.raises(FileNotFoundError):
        copy_results(found, got)
    assert files_in(got) == before
    assert "a.txt" in (got / "result.json").read_text(encoding="utf-8")


def test_what_a_result_names_outside_of_the_output_folder_stays(tmp_path: Path) -> None:
    got, outside = tmp_path / "got", tmp_path / "outside.txt"
    (got / "files").mkdir(parents=True)
    outside.touch()
    named = {"new_files": ["../../outside.txt", str(outside)]}
    (got / "result.json").write_text(json.dumps(named), encoding="utf-8")
    copy_results(finished(tmp_path / "run", 1, ()), got)
    assert outside.exists()


@pytest.mark.parametrize("name", ["one", "two"])
def test_the_folder_of_a_run_is_no_output_folder(name: str, tmp_path: Path) -> None:
    found = finished(tmp_path / "runs" / "one", 2, ("a.txt",))
    finished(tmp_path / "runs" / "two", 3, ("b.txt",))
    before = files_in(tmp_path)
    folder = tmp_path / "runs" / name

    def begin(emit: OnEvent) -> Investigation:
        raise AssertionError("the run began")

    with pytest.raises(UsageError, match="this is the folder of a run, expected a folder for copies"):
        watch(begin, output=folder, as_json=False, quiet=True)
    with pytest.raises(UsageError, match="is the folder of a run"):
        copy_results(found, folder)
    assert files_in(tmp_path) == before


class Attack:
    """A run that made `d/e/shadow` and `out.txt`, beside a folder `secret` with a file of the same name."""

    def __init__(self, root: Path) -> None:
        self.secret = root / "secret"
        self.secret.mkdir()
        for name in ("shadow", "out.txt", "transcript.md"):
            (self.secret / name).write_text(SECRET, encoding="utf-8")
        files = ("d/shadow", "out.txt")
        self.found = finished(root / "run", 1, files)
        self.work = root / "run" / "work"
        self.got = root / "got"

    def replace(self, name: str, target: str | Path) -> None:
        """Put a link in place of a file or folder of the work folder, as a later pass can."""
        path = self.work / name
        path.rename(path.with_name(f"{path.name}-before"))
        path.symlink_to(target)

    def copied(self) -> dict[str, str]:
        return {name: (self.got / name).read_text(encoding="utf-8") for name in files_in(self.got)}


@pytest.fixture
def attack(tmp_path: Path) -> Attack:
    return Attack(tmp_path)


LINKS: dict[str, Callable[[Attack], None]] = {
    "folder, absolute": lambda a: a.replace("d", a.secret),
    "folder, relative": lambda a: a.replace("d", "../../secret"),
    "folder, by way of another link": lambda a: (
        (a.work / "step").symlink_to(a.secret),
        a.replace("d", "step"),
    )[-1],
    "folder, by /proc": lambda a: a.replace("d", f"/proc/self/root{a.secret}"),
    "folder, by the folder that the parent is in": lambda a: a.replace(
        "d", f"/proc/self/cwd/{os.path.relpath(a.secret)}"
    ),
    "file, absolute": lambda a: a.replace("out.txt", a.secret / "out.txt"),
    "file, relative": lambda a: a.replace("out.txt", "../../secret/out.txt"),
    "the work folder": lambda a: (
        a.work.rename(a.work.with_name("before")),
        a.work.symlink_to(a.secret),
    )[-1],
    "the folder of the run's work folder, in between": lambda a: (
        (a.secret / "d").mkdir(),
        (a.secret / "d" / "shadow").write_text(SECRET),
        a.work.rename(a.work.with_name("before")),
        a.work.symlink_to(a.secret),
    )[-1],
}


@pytest.mark.parametrize("way", LINKS)
def test_no_link_in_the_work_folder_is_followed(way: str, attack: Attack) -> None:
    LINKS[way](attack)
    refused = copy_results(attack.found, attack.got)
    assert SECRET not in attack.copied().values()
    assert len(refused) == 1
    assert "link" in refused[0] or "work folder" in refused[0]
    assert "transcript.md" in attack.copied()  # the rest is there


def test_a_hard_link_to_a_file_elsewhere_is_refused_and_one_inside_is_copied(attack: Attack) -> None:
    (attack.work / "out.txt").unlink()
    os.link(attack.secret / "out.txt", attack.work / "out.txt")
    os.link(attack.work / "d" / "shadow", attack.work / "again")
    refused = copy_results(attack.found, attack.got)
    assert refused == ["out.txt: a hard link to a file outside of the folder"]
    assert attack.copied()["files/d/shadow"] == "run"


def make_socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(os.path.relpath(path))


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (os.mkfifo, "a pipe"),
        (make_socket, "a socket"),
        (Path.mkdir, "a folder"),
        (lambda path: path.symlink_to("out.txt"), "a link"),
        (lambda path: path.symlink_to("/dev/zero"), "a link"),
    ],
)
def test_only_regular_files_are_opened(make: Callable[[Path], None], said: str, attack: Attack) -> None:
    (attack.work / "out.txt").unlink()
    make(attack.work / "out.txt")
    done = []
    thread = threading.Thread(target=lambda: done.append(copy_results(attack.found, attack.got)), daemon=True)
    thread.start()
    thread.join(10)  # opening a pipe would wait for ever
    assert done == [[f"out.txt: {said}, expected a file"]]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root makes devices")
def test_a_device_is_not_opened(attack: Attack) -> None:
    (attack.work / "out.txt").unlink()
    os.mknod(attack.work / "out.txt", 0o20666, os.makedev(1, 5))
    assert copy_results(attack.found, attack.got) == ["out.txt: a device, expected a file"]


@pytest.mark.parametrize(
    "name", ["/etc/passwd", "../secret/out.txt", "d/../../secret/out.txt", "", ".", "d//shadow"]
)
def test_a_name_that_leads_out_is_refused(name: str, attack: Attack) -> None:
    record = PassRecord(1, "", "", code="1", new_files=(name,))
    found = Investigation(
        "t", (), (record,), "", False, Usage(), workdir=str(attack.work / "d"), run_dir=attack.found.run_dir
    )
    assert len(copy_results(found, attack.got)) == 1
    assert SECRET not in attack.copied().values()


TARGETS: dict[str, Callable[[Attack, Path], None]] = {
    "the folder": lambda a, got: got.symlink_to(a.secret),
    "the folder, relative": lambda a, got: got.symlink_to(os.path.relpath(a.secret, got.parent)),
    "files": lambda a, got: (got.mkdir(), (got / "files").symlink_to(a.secret))[-1],
    "passes": lambda a, got: (got.mkdir(), (got / "passes").symlink_to(a.secret))[-1],
    "a folder below files": lambda a, got: (
        (got / "files").mkdir(parents=True),
        (got / "files" / "d").symlink_to(a.secret),
    )[-1],
    "a dangling one": lambda a, got: got.symlink_to(a.secret / "made"),
}


@pytest.mark.parametrize("way", TARGETS)
@pytest.mark.parametrize("where", ["beside", "in the work folder"])
def test_no_link_in_the_results_folder_is_followed(way: str, where: str, attack: Attack) -> None:
    got = attack.got if where == "beside" else attack.work / "got"
    before = {path.name: path.read_text(encoding="utf-8") for path in attack.secret.iterdir()}
    TARGETS[way](attack, got)
    with pytest.raises((UsageError, OSError), match="link"):
        copy_results(attack.found, got)
    assert {path.name: path.read_text(encoding="utf-8") for path in attack.secret.iterdir()} == before


def test_a_link_above_the_results_folder_is_the_user_s_unless_the_code_can_make_it(attack: Attack) -> None:
    attack.got.mkdir()
    (attack.got.parent / "by-link").symlink_to(attack.got)
    assert copy_results(attack.found, attack.got.parent / "by-link" / "results") == []
    assert (attack.got / "results" / "files" / "out.txt").is_file()
    (attack.work / "made").symlink_to(attack.secret)
    with pytest.raises(UsageError, match=r"made.*a link, expected a folder"):
        copy_results(attack.found, attack.work / "made" / "results")
    (attack.got.parent / "to-work").symlink_to(attack.work)
    with pytest.raises(UsageError, match=r"made.*a link, expected a folder"):
        copy_results(attack.found, attack.got.parent / "to-work" / "made" / "results")
    assert not (attack.secret / "results").exists()


def test_links_in_place_of_copies_are_replaced(attack: Attack) -> None:
    """Nothing is written through them, and an earlier run's are not read."""
    (attack.got / "files").mkdir(parents=True)
    for name in ("files/out.txt", "transcript.md", "result.json"):
        (attack.got / name).symlink_to(attack.secret / "out.txt")
    assert copy_results(attack.found, attack.got) == []
    assert not any((attack.got / name).is_symlink() for name in ("files/out.txt", "transcript.md"))
    assert (attack.secret / "out.txt").read_text(encoding="utf-8") == SECRET


def test_a_name_that_is_swapped_all_the_time_is_never_followed(attack: Attack) -> None:
    stop = threading.Event()
    folder, aside, link = attack.work / "d", attack.work / "aside", attack.work / "link"
    link.symlink_to(attack.secret)

    def swap() -> None:
        while not stop.is_set():
            folder.rename(aside)
            link.rename(folder)
            folder.rename(link)
            aside.rename(folder)

    thread = threading.Thread(target=swap)
    thread.start()
    try:
        for _ in range(200):
            copy_results(attack.found, attack.got)
            assert SECRET not in attack.copied().values()
    finally:
        stop.set()
        thread.join()


def test_a_file_of_holes_stays_one(attack: Attack) -> None:
    with (attack.work / "out.txt").open("r+b") as file:
        file.seek(5 << 20)
        file.write(b"middle")
        file.truncate(10 << 30)
    assert copy_results(attack.found, attack.got) == []
    copy = (attack.got / "files" / "out.txt").stat()
    assert copy.st_size == 10 << 30
    assert copy.st_blocks * 512 < 1 << 20
    with (attack.got / "files" / "out.txt").open("rb") as file:
        assert file.read(3) == b"run"
        file.seek(5 << 20)
        assert file.read(7) == b"middle\0"
