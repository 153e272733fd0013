import errno
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from autoprompt.errors import StoreError
from autoprompt.text.files import (
    JsonLines,
    append_jsonl,
    check_writable,
    read_json,
    read_jsonl,
    to_json,
    to_json_lines,
    write_json,
    write_output,
    write_text,
)

ROWS = [{"n": 1, "text": "标题党"}, {"n": 2, "text": "{}"}]


def test_a_line_that_is_cut_at_any_byte_is_dropped_and_the_next_one_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    append_jsonl(path, ROWS)
    whole = path.read_bytes()
    first = whole.index(b"\n") + 1
    for size in range(first + 1, len(whole) - 1):  # the second line is there, but not all of it
        path.write_bytes(whole[:size])
        assert list(read_jsonl(path)) == ROWS[:1]
        append_jsonl(path, [{"n": 3}])
        assert list(read_jsonl(path)) == [ROWS[0], {"n": 3}]


def test_a_long_torn_line_is_cut_off(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    append_jsonl(path, ROWS)
    with path.open("ab") as stream:
        stream.write(b'{"text": "' + b"x" * 200_000)
    append_jsonl(path, [{"n": 3}])
    assert list(read_jsonl(path)) == [*ROWS, {"n": 3}]


def test_a_whole_last_line_without_its_end_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text('{"n": 1}')
    append_jsonl(path, [{"n": 2}])
    assert list(read_jsonl(path)) == [{"n": 1}, {"n": 2}]


def test_a_broken_line_in_the_middle_is_an_error_with_its_number(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text('{"n": 1}\n{"n": \n{"n": 3}\n')
    with pytest.raises(StoreError, match=r"rows\.jsonl line 2"):
        list(read_jsonl(path))


def test_a_missing_file_has_no_rows(tmp_path: Path) -> None:
    assert list(read_jsonl(tmp_path / "none.jsonl")) == []


def test_text_stays_readable_and_half_a_surrogate_pair_comes_back(tmp_path: Path) -> None:
    assert to_json({"a": "标题党"}) == '{"a": "标题党"}'

    append_jsonl(tmp_path / "rows.jsonl", [{"a": "\ud83d"}])
    assert list(read_jsonl(tmp_path / "rows.jsonl")) == [{"a": "\ud83d"}]


@pytest.mark.parametrize("rows", [[], [{"id": 1}], [{"id": n, "parts": [n, "标"]} for n in range(3)]])
def test_rows_have_a_line_each(rows: list[object]) -> None:
    value = {"rows": rows, "score": 1, "more": {"a": [1, 2]}}
    text = to_json_lines(value, "rows")
    assert json.loads(text) == value
    assert [line.strip().rstrip(",") for line in text.splitlines() if '"id"' in line] == [
        json.dumps(row, ensure_ascii=False) for row in rows
    ]


def test_parts_of_an_object_have_a_line_each() -> None:
    text = to_json_lines({"score": 1, "cases": {"a": {"scores": [1]}, "b": {"scores": [0]}}}, "cases")
    assert text.splitlines() == [
        "{",
        '  "score": 1,',
        '  "cases": {',
        '    "a": {"scores": [1]},',
        '    "b": {"scores": [0]}',
        "  }",
        "}",
    ]


def test_what_json_does_not_have_is_a_text_only_where_that_is_wished() -> None:
    rows = [{"score": float("nan"), "at": Path("x")}, {"score": 1.0}]
    for value in ({"n": float("inf"), "rows": rows}, {"n": 1, "rows": {"a": rows[0]}}):
        with pytest.raises((ValueError, TypeError)):
            to_json_lines(value, "rows")
    found = json.loads(to_json_lines({"n": float("inf"), "rows": rows}, "rows", takes_all=True))
    assert found == {"n": "Infinity", "rows": [{"score": "NaN", "at": "x"}, {"score": 1.0}]}
    found = json.loads(to_json_lines({"n": 1, "rows": {"a": rows[0]}}, "rows", takes_all=True))
    assert found == {"n": 1, "rows": {"a": {"score": "NaN", "at": "x"}}}
    assert to_json([float("nan")], takes_all=True) == '["NaN"]'


def test_half_a_surrogate_pair_in_a_row_is_escaped() -> None:
    text = to_json_lines({"n": 1, "rows": [{"a": "\ud83d"}]}, "rows")
    assert json.loads(text.encode()) == {"n": 1, "rows": [{"a": "\ud83d"}]}


def test_line_ends_of_a_prompt_are_kept(tmp_path: Path) -> None:
    write_text(tmp_path / "p.txt", "a\r\nb\n")
    assert (tmp_path / "p.txt").read_bytes() == b"a\r\nb\n"


def test_a_failed_write_leaves_the_old_content_and_no_rest(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    write_json(path, {"old": 1})
    with pytest.raises(ValueError, match="not JSON compliant"):
        write_json(path, {"new": float("nan")})
    assert read_json(path) == {"old": 1}
    assert list(tmp_path.iterdir()) == [path]


def test_rights_are_those_of_any_new_file_and_then_kept(tmp_path: Path) -> None:
    path, plain = tmp_path / "a.txt", tmp_path / "plain.txt"
    plain.touch()
    write_text(path, "a")
    assert path.stat().st_mode == plain.stat().st_mode
    path.chmod(0o640)
    write_text(path, "b")
    assert path.stat().st_mode & 0o777 == 0o640


def test_an_output_that_cannot_be_written_names_its_own_path_and_makes_no_folder(tmp_path: Path) -> None:
    missing = tmp_path / "typo" / "dir" / "a.txt"
    for write in (check_writable, lambda path: write_output(path, "a")):
        with pytest.raises(StoreError, match=f"^{missing}: there is no folder {missing.parent}. Make it"):
            write(missing)
    (tmp_path / "file").touch()
    with pytest.raises(StoreError, match=r"cannot be written: .*/file is no folder"):
        write_output(tmp_path / "file" / "a.txt", "a")
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
    check_writable(missing, makes_folders=True)
    with pytest.raises(StoreError, match="is no folder"):
        check_writable(tmp_path / "file" / "a" / "b.txt", makes_folders=True)


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="a folder that even root cannot write to")
def test_a_folder_that_its_mode_says_root_may_write_to_is_tried() -> None:
    for makes_folders in (False, True):
        with pytest.raises(StoreError, match=r"^/proc/x\.html: cannot be written: /proc does not allow it"):
            check_writable(Path("/proc/x.html"), makes_folders=makes_folders)


@pytest.mark.skipif(os.name == "nt", reason="links and pipes")
def test_an_output_goes_through_links_and_into_pipes(tmp_path: Path) -> None:
    link, pipe = tmp_path / "link", tmp_path / "pipe"
    link.symlink_to("aim")
    write_output(link, "a")
    assert (link.is_symlink(), (tmp_path / "aim").read_text()) == (True, "a")
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    write_output(pipe, "b")
    assert (os.read(reader, 9), pipe.is_fifo()) == (b"b", True)
    os.close(reader)
    if Path("/dev/full").exists():
        with pytest.raises(StoreError, match=r"^/dev/full: cannot be written \(No space left on device\)"):
            write_output(Path("/dev/full"), "a")


@pytest.mark.skipif(os.name == "nt", reason="SIGKILL")
def test_a_killed_writer_leaves_the_old_or_the_new_content(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    code = (
        "import sys; from pathlib import Path; from autoprompt.text.files import write_text\n"
        "path = Path(sys.argv[1])\n"
        "while True:\n"
        "    for letter in 'ab':\n"
        "        write_text(path, letter * 300_000); print(flush=True)\n"
    )
    for writes in (3, 6, 9):
        with subprocess.Popen([sys.executable, "-c", code, str(path)], stdout=subprocess.PIPE) as child:
            assert child.stdout is not None
            for _ in range(writes):
                child.stdout.readline()
            child.send_signal(signal.SIGKILL)
        assert path.read_text() in ("a" * 300_000, "b" * 300_000)


def test_lines_held_open_are_whole_and_begin_behind_a_torn_one(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    path.write_bytes(b'{"a": 1}\n{"a": 2')
    lines = JsonLines(path)
    lines.append({"b": "字"})
    assert list(read_jsonl(path)) == [{"a": 1}, {"b": "字"}]
    lines.append({"c": 3})
    lines.close()
    lines.close()
    assert list(read_jsonl(path))[-1] == {"c": 3}


@pytest.mark.skipif(os.name == "nt", reason="limits the size of files as Unix does")
def test_a_line_that_a_full_disk_took_half_of_is_not_there(tmp_path: Path) -> None:
    """The next one, when there is room again, would have stood behind the half, on the same line."""
    path = tmp_path / "x.jsonl"
    code = (
        "import resource, sys; from pathlib import Path; from autoprompt.text.files import JsonLines\n"
        "most, lines = resource.RLIM_INFINITY, JsonLines(Path(sys.argv[1]))\n"
        "lines.append({'a': 1})\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (20, most))\n"
        "try: lines.append({'b': 'x' * 40})\n"
        "except OSError as error: print(error.strerror)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))\n"
        "lines.append({'c': 3})"
    )
    run = subprocess.run([sys.executable, "-c", code, str(path)], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == os.strerror(errno.ENOSPC)
    assert list(read_jsonl(path)) == [{"a": 1}, {"c": 3}]


@pytest.mark.skipif(os.name == "nt", reason="rights as Unix has them")
def test_who_writes_leaves_the_umask_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is all threads': while one had set it to read it, files of the others were made for all to read."""
    set_to: list[int] = []
    monkeypatch.setattr(os, "umask", lambda mask: set_to.append(mask) or 0o022)
    write_text(tmp_path / "a.txt", "x")
    assert set_to == []
