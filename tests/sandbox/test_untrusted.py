"""A folder that code filled: walked, read, handed over, removed, whatever is in it and changes meanwhile."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from autoprompt.sandbox import untrusted
from autoprompt.sandbox.child import untrusted as handed

DEEP = 1100  # folders in each other: more than Python calls in each other, and a path of 5,500 characters


@pytest.fixture
def root(tmp_path: Path) -> Iterator[int]:
    opened = untrusted.open_folder(str(tmp_path.resolve()))
    yield opened
    for name in os.listdir(opened):  # noqa: PTH208 - pytest's own removal fails at such a depth
        untrusted.remove(opened, name)
    os.close(opened)


def make_deep(folder: Path, levels: int = DEEP, name: str = "deep") -> None:
    """Folders in each other, and a file in the last."""
    at = os.open(folder, os.O_RDONLY)
    for _ in range(levels):
        os.mkdir(name, dir_fd=at)
        below = os.open(name, os.O_RDONLY, dir_fd=at)
        os.close(at)
        at = below
    os.close(os.open("bottom", os.O_CREAT | os.O_WRONLY, dir_fd=at))
    os.close(at)


def paths(root: int) -> list[str | None]:
    return sorted(entry.path or "" for entry in untrusted.walk(root))


def test_everything_is_met_once_and_links_are_not_entered(root: int, tmp_path: Path) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / "b" / "c").touch()
    (tmp_path / "a" / "up").symlink_to("..")
    (tmp_path / "etc").symlink_to("/etc")
    os.mkfifo(tmp_path / "pipe")
    assert paths(root) == ["a", "a/b", "a/b/c", "a/up", "etc", "pipe"]


def test_a_folder_comes_before_or_after_what_is_in_it(root: int, tmp_path: Path) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / "b" / "c").touch()
    assert [e.path for e in untrusted.walk(root)] == ["a", "a/b", "a/b/c"]
    assert [e.path for e in untrusted.walk(root, inner_first=True)] == ["a/b/c", "a/b", "a"]


@pytest.mark.parametrize("name", ["deep", "long" * 60])
def test_any_depth_is_walked_and_removed_with_few_open_files(name: str, root: int, tmp_path: Path) -> None:
    (tmp_path / "w").mkdir()
    make_deep(tmp_path / "w", name=name)
    before = most = len(list(Path("/proc/self/fd").iterdir()))  # what other tests have left open
    for count, entry in enumerate(untrusted.walk(root), start=1):
        if count % 100 == 0:
            most = max(most, len(list(Path("/proc/self/fd").iterdir())))
        last = entry
    assert (count, last.name, last.path) == (DEEP + 2, "bottom", None)
    assert most - before < 100
    untrusted.remove_tree(tmp_path / "w")
    assert list(tmp_path.iterdir()) == []


def test_a_path_that_is_too_long_is_not_named(root: int, tmp_path: Path) -> None:
    make_deep(tmp_path)
    longest = max(len(path or "") for path in paths(root))
    assert untrusted.LONGEST_PATH - 5 < longest <= untrusted.LONGEST_PATH


def swap_for(seconds: float, one: Path, other: Path) -> threading.Thread:
    """Exchange two paths as fast as it goes, in the background."""
    aside = one.with_name("aside")
    end = threading.Event()
    threading.Timer(seconds, end.set).start()

    def swap() -> None:
        while not end.is_set():
            one.rename(aside)
            other.rename(one)
            one.rename(other)
            aside.rename(one)

    thread = threading.Thread(target=swap)
    thread.start()
    return thread


def test_a_walk_never_leaves_by_a_link_that_comes_and_goes(root: int, tmp_path: Path) -> None:
    inside, secret = tmp_path / "w" / "d", tmp_path / "secret"
    inside.mkdir(parents=True)
    secret.mkdir()
    (secret / "shadow").touch()
    (tmp_path / "w" / "link").symlink_to(secret)
    work = untrusted.open_folder(str((tmp_path / "w").resolve()))
    thread = swap_for(1, inside, tmp_path / "w" / "link")
    while thread.is_alive():
        assert "shadow" not in {entry.name for entry in untrusted.walk(work)}
    os.close(work)


def test_a_walk_that_is_moved_away_says_so_or_ends(root: int, tmp_path: Path) -> None:
    """Above, 32 folders are held open; further up it finds its way by `..`, which may lead elsewhere now."""
    make_deep(tmp_path, 100)
    (tmp_path / "z").mkdir()
    for strict in (True, False):
        walk = untrusted.walk(root, strict=strict)
        for entry in walk:
            if entry.name == "bottom":
                break
        middle = tmp_path.joinpath(*["deep"] * 50)
        middle.rename(tmp_path / "z" / "deep")
        if strict:
            with pytest.raises(untrusted.MovedError):
                list(walk)
        else:
            assert len(list(walk)) < 100
        (tmp_path / "z" / "deep").rename(middle)


@pytest.mark.skipif(
    os.geteuid() == 0, reason="root lists every folder; benchmarks/sandbox_limits.py checks an ordinary user"
)
def test_a_folder_that_is_closed_to_its_owner_is_opened(root: int, tmp_path: Path) -> None:
    (tmp_path / "closed").mkdir()
    (tmp_path / "closed" / "file").touch()
    (tmp_path / "closed").chmod(0o300)
    assert paths(root) == ["closed", "closed/file"]


def test_no_part_of_a_path_is_a_link(tmp_path: Path) -> None:
    (tmp_path / "real" / "below").mkdir(parents=True)
    (tmp_path / "link").symlink_to("real")
    os.close(untrusted.open_folder(str(tmp_path.resolve() / "real" / "below")))
    with pytest.raises(untrusted.RefusedError, match=r"link.*: a link, expected a folder"):
        untrusted.open_folder(str(tmp_path.resolve() / "link" / "below"))


def test_a_file_is_read_up_to_a_size(root: int, tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "f").write_bytes(b"12345")
    assert untrusted.read_file(root, "a/f", 5) == b"12345"
    with pytest.raises(untrusted.RefusedError, match="more than 4 bytes"):
        untrusted.read_file(root, "a/f", 4)


@pytest.mark.parametrize("other", ["link", "pipe", "folder"])
def test_a_file_that_comes_and_goes_is_read_or_refused(other: str, root: int, tmp_path: Path) -> None:
    file, there = tmp_path / "file", tmp_path / "other"
    file.write_text("own", encoding="utf-8")
    make: dict[str, Callable[[], None]] = {
        "link": lambda: there.symlink_to("/etc/passwd"),
        "pipe": lambda: os.mkfifo(there),
        "folder": there.mkdir,
    }
    make[other]()
    thread = swap_for(1, file, there)
    reads = 0
    while thread.is_alive():
        try:
            assert untrusted.read_file(root, "file", 100) == b"own"
            reads += 1
        except (untrusted.RefusedError, FileNotFoundError):
            continue
    assert reads


def test_what_is_removed_is_never_what_a_link_leads_to(root: int, tmp_path: Path) -> None:
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept" / "file").touch()
    (tmp_path / "w" / "d").mkdir(parents=True)
    (tmp_path / "w" / "d" / "link").symlink_to(tmp_path / "kept")
    untrusted.remove(root, "w")
    (tmp_path / "link").symlink_to(tmp_path / "kept")
    untrusted.remove(root, "link")
    untrusted.remove(root, "not-there")
    assert paths(root) == ["kept", "kept/file"]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_a_folder_is_given_and_taken_back_as_it_was(tmp_path: Path) -> None:
    work, elsewhere = tmp_path.resolve() / "w", tmp_path / "elsewhere"
    (work / "d").mkdir(parents=True)
    elsewhere.write_text("mine", encoding="utf-8")
    own, theirs = work / "own", work / "d" / "theirs"
    own.touch()
    theirs.touch()
    os.chown(theirs, 1234, 1235)
    os.link(own, work / "d" / "again")
    os.link(elsewhere, work / "foreign")
    (work / "link").symlink_to(elsewhere)
    make_deep(work / "d", 100)
    owners = handed.give(str(work), 77777)
    opened = untrusted.open_folder(str(work))
    kept = {e.name for e in untrusted.walk(opened) if e.status.st_uid != 77777}
    assert kept == {"foreign"}  # it has a name outside of the folder
    assert elsewhere.stat().st_uid == 0
    theirs.rename(work / "moved")  # the code may
    handed.take_back(str(work), 77777, owners)
    assert {e.status.st_uid for e in untrusted.walk(opened)} == {0, 1234}
    assert ((work / "moved").stat().st_uid, (work / "moved").stat().st_gid) == (1234, 1235)
    os.close(opened)
