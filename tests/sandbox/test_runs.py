"""What a run gives back, and what its code finds."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import pytest

from autoprompt.sandbox import Level, SandboxError, run, untrusted

pytestmark = pytest.mark.usefixtures("_leaves_nothing")


def test_output_files_and_level(level: Level, tmp_path: Path) -> None:
    code = """
import sys
print("ä", 1 + 1)
print("bad", file=sys.stderr)
open("out.txt", "w").write("x")
sys.exit(3)
"""
    result = run(code, workdir=tmp_path / "work", level=level)
    assert (result.stdout, result.stderr, result.exit_code) == ("ä 2\n", "bad\n", 3)
    assert (result.timed_out, result.killed_by, result.level) == (False, None, level)
    assert result.new_files == (Path("out.txt"),)
    assert (tmp_path / "work" / "out.txt").read_text(encoding="utf-8") == "x"


def test_an_exception_names_the_line(strongest: Level, tmp_path: Path) -> None:
    result = run("x = 1\nraise ValueError('no')", workdir=tmp_path, level=strongest)
    assert result.exit_code == 1
    assert "line 2, in <module>\n    raise ValueError('no')" in result.stderr


def test_a_syntax_error_is_a_result(strongest: Level, tmp_path: Path) -> None:
    result = run("x = = 1", workdir=tmp_path, level=strongest)
    assert result.exit_code == 1
    assert "SyntaxError" in result.stderr


def test_a_crash_shows_its_signal(offered: Level, tmp_path: Path) -> None:
    code = "import ctypes\nctypes.string_at(0)"
    assert run(code, workdir=tmp_path, level=offered).exit_code == -11


def test_runs_share_the_folder(strongest: Level, tmp_path: Path) -> None:
    first = run(
        "open('kept.py', 'w').write('value = 7')\nopen('old', 'w')", workdir=tmp_path, level=strongest
    )
    second = run("import kept\nprint(kept.value)\nopen('new', 'w')", workdir=tmp_path, level=strongest)
    assert first.new_files == (Path("kept.py"), Path("old"))
    assert (second.stdout, second.new_files) == ("7\n", (Path("new"),))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["kept.py", "new", "old"]


def test_data_is_copied_in_and_restored(offered: Level, tmp_path: Path) -> None:
    data = tmp_path / "table.csv"
    data.write_text("a,b\n1,2\n", encoding="utf-8")
    data.chmod(0o600)
    work = tmp_path / "work"
    code = """
import os
print(open("table.csv").read())
os.remove("table.csv")
open("table.csv", "w").write("z")
"""
    first = run(code, workdir=work, data=[data], level=offered)
    assert (first.stdout, first.exit_code, first.new_files) == ("a,b\n1,2\n\n", 0, ()), first.stderr
    again = run("print(open('table.csv').read())", workdir=work, data=[data], level=offered)
    assert again.stdout == "a,b\n1,2\n\n"
    assert data.read_text(encoding="utf-8") == "a,b\n1,2\n"


def test_links_of_the_code_are_not_followed(strongest: Level, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.write_text("kept", encoding="utf-8")
    work = tmp_path / "work"
    code = f"""
import os
for name in ("link", ".experiment.py", "table.csv"):
    if os.path.lexists(name):
        os.remove(name)
    os.symlink({str(outside)!r}, name)
"""
    data = tmp_path / "table.csv"
    data.write_text("1", encoding="utf-8")
    assert run(code, workdir=work, data=[data], level=strongest).new_files == ()
    run("open('table.csv').read()", workdir=work, data=[data], level=strongest)
    assert outside.read_text(encoding="utf-8") == "kept"


def test_a_missing_data_file_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(SandboxError, match=r"none\.csv: no such data file"):
        run("", workdir=tmp_path, data=[tmp_path / "none.csv"], level="none")


def test_two_data_files_of_one_name_are_an_error(tmp_path: Path) -> None:
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "t.csv").touch()
    with pytest.raises(SandboxError, match="another data file is called"):
        run("", workdir=tmp_path / "work", data=[tmp_path / "a/t.csv", tmp_path / "b/t.csv"], level="none")


def test_an_interpreter_that_is_none_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(SandboxError, match="no such Python"):
        run("", workdir=tmp_path, python=str(tmp_path / "python"), level="none")


def test_a_command_that_is_not_there_is_an_error(offered: Level, tmp_path: Path) -> None:
    with pytest.raises(SandboxError, match="no-such-command"):
        run(["no-such-command"], workdir=tmp_path, level=offered)


def test_libraries_can_be_imported(level: Level, tmp_path: Path) -> None:
    """Standard library with its shared objects, and an installed package."""
    code = "import ctypes, multiprocessing, pytest, sqlite3, ssl, sys\nprint(sys.prefix)"
    result = run(code, workdir=tmp_path, level=level)
    assert result.stdout == f"{sys.prefix}\n", result.stderr


def test_processes_of_the_code_may_talk(strongest: Level, tmp_path: Path) -> None:
    code = """
from concurrent.futures import ProcessPoolExecutor
if __name__ == "__main__":
    with ProcessPoolExecutor(2) as pool:
        print(sum(pool.map(abs, range(-9, 0))))
"""
    assert run(code, workdir=tmp_path, level=strongest).stdout == "45\n"


def test_temporary_files_have_a_place(offered: Level, tmp_path: Path) -> None:
    code = """
import pathlib, tempfile
with tempfile.TemporaryFile() as file:
    file.write(b"x")
(pathlib.Path.home() / "c").touch()
print(1)
"""
    result = run(code, workdir=tmp_path, level=offered)
    assert (result.stdout, result.new_files) == ("1\n", ()), result.stderr
    assert not (Path(tempfile.gettempdir()) / "c").exists()


def test_a_name_of_a_folder_with_spaces_and_a_link(strongest: Level, tmp_path: Path) -> None:
    (tmp_path / "a folder").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "a folder")
    result = run("import os; print(os.getcwd())", workdir=tmp_path / "link", level=strongest)
    assert result.stdout == f"{tmp_path / 'a folder'}\n"


def test_a_relative_folder(strongest: Level, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert run("print(1)", workdir="work", level=strongest).stdout == "1\n"
    assert [path.name for path in tmp_path.iterdir()] == ["work"]


def test_an_interpreter_behind_links(level: Level, tmp_path: Path) -> None:
    """As tools that install interpreters leave them: links in folders that the code must not see."""
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "private").write_text("private", encoding="utf-8")
    (tmp_path / "second" / "python").symlink_to(sys.executable)
    link = tmp_path / "first" / "python"
    link.symlink_to("../second/python")
    code = """
import pathlib, sys
print(sys.executable)
for name in ("first", "second"):
    try:
        print(pathlib.Path("..", name, "private").read_text())
    except OSError:
        print("hidden")
"""
    result = run(code, workdir=tmp_path / "work", level=level, python=str(link))
    assert result.stdout == f"{link}\nhidden\nhidden\n", result.stderr


@pytest.mark.parametrize("folder", ["/", "/usr", sys.prefix, "~", tempfile.gettempdir()])
def test_a_folder_that_holds_more_than_the_work_is_an_error(folder: str, strongest: Level) -> None:
    folder = str(Path(folder).expanduser())  # home as it is now: the tests have one of their own
    with pytest.raises(SandboxError, match="Choose an empty folder of its own"):
        run("", workdir=folder, level=strongest)


MAKES_DEEP = """
import os
for n in range(1100):
    os.mkdir("deep")
    os.chdir("deep")
open("bottom", "w").write("x" * 100_000)
print("made")
"""
DEEP = {
    "folders": MAKES_DEEP,
    "long names": MAKES_DEEP.replace('"deep"', '"deep" * 60'),
    "links at the end": MAKES_DEEP + "os.symlink('..', 'up')\nos.symlink('/etc', 'etc')",
    "a pipe at the end": MAKES_DEEP + "os.mkfifo('pipe')",
    "folders that cannot be listed": MAKES_DEEP.replace('os.mkdir("deep")', 'os.mkdir("deep", 0o300)'),
    "in the folder for temporary files": "import os\nos.chdir(os.environ['TMPDIR'])\n" + MAKES_DEEP,
}


@pytest.mark.parametrize("way", DEEP)
def test_a_very_deep_path_is_a_result_like_any_other(way: str, offered: Level, tmp_path: Path) -> None:
    work = tmp_path / "work"
    try:
        first = run(DEEP[way], workdir=work, level=offered)
        assert (first.stdout, first.exit_code, first.killed_by, first.new_files) == ("made\n", 0, None, ())
        second = run("print(1)\nopen('new', 'w')", workdir=work, level=offered)
        assert (second.stdout, second.new_files) == ("1\n", (Path("new"),))
    finally:
        untrusted.remove_tree(work)  # pytest's own removal fails at such a depth


def test_a_work_folder_that_the_code_closes_is_there_for_the_next(offered: Level, tmp_path: Path) -> None:
    code = "import os\nopen('kept', 'w').write('x')\ntry: os.chmod('.', 0)\nexcept PermissionError: pass"
    first = run(code, workdir=tmp_path / "work", level=offered)
    assert first.new_files == (Path("kept"),)
    assert run("print(open('kept').read())", workdir=tmp_path / "work", level=offered).stdout == "x\n"


def test_a_data_file_that_the_code_could_replace_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "work" / "below").mkdir(parents=True)
    (tmp_path / "work" / "below" / "t.csv").touch()
    with pytest.raises(SandboxError, match="is in the work folder, where the code can change it"):
        run("", workdir=tmp_path / "work", data=[tmp_path / "work" / "below" / "t.csv"], level="none")
