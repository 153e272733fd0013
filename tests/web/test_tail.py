"""A log that is written, cut, mended and replaced while it is read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autoprompt.text.files import append_jsonl, write_jsonl
from autoprompt.web.tail import Tail


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "events.jsonl"


def add(path: Path, data: bytes) -> None:
    with path.open("ab") as stream:
        stream.write(data)


def test_a_file_that_is_not_there_yet(path: Path) -> None:
    tail = Tail(path)
    assert tail.read() == []
    path.mkdir()  # no file, but nor is it a reason to stop looking
    assert tail.read() == []
    path.rmdir()
    append_jsonl(path, [{"n": 1}])
    assert tail.read() == [{"n": 1}]
    assert tail.read() == []


@given(cuts=st.lists(st.integers(1, 200), max_size=20), texts=st.lists(st.text(), min_size=1, max_size=8))
def test_every_line_comes_once_and_whole_however_it_is_written(
    tmp_path_factory: pytest.TempPathFactory, cuts: list[int], texts: list[str]
) -> None:
    path = tmp_path_factory.mktemp("tail") / "events.jsonl"
    rows: list[dict[str, Any]] = [{"text": text} for text in texts]
    data = b"".join(json.dumps(row, ensure_ascii=True).encode() + b"\n" for row in rows)
    tail, found = Tail(path), []
    for cut in [*cuts, len(data)]:
        add(path, data[:cut])
        data = data[cut:]
        found += tail.read()
    assert found == rows


def test_half_a_line_is_not_seen_and_what_mends_it_is(path: Path) -> None:
    """A killed run leaves half a line; the resumed one cuts it off and goes on."""
    append_jsonl(path, [{"n": 1}])
    add(path, b'{"n": 2, "text": "hal')
    tail = Tail(path)
    assert tail.read() == [{"n": 1}]
    append_jsonl(path, [{"n": 3}])
    assert tail.read() == [{"n": 3}]
    assert not tail.is_restarted


def test_a_file_that_was_replaced_is_read_from_its_start(path: Path) -> None:
    append_jsonl(path, [{"n": 1}, {"n": 2}])
    tail = Tail(path)
    tail.read()
    write_jsonl(path, [{"n": 1}, {"n": 2}, {"n": 3}])
    assert [row["n"] for row in tail.read()] == [1, 2, 3]
    assert tail.is_restarted


def test_a_file_that_was_cut_is_read_from_its_start(path: Path) -> None:
    append_jsonl(path, [{"n": 1}, {"n": 2}])
    tail = Tail(path)
    tail.read()
    path.write_bytes(b'{"n": 1}\n')
    assert tail.read() == [{"n": 1}]
    assert tail.is_restarted
    assert tail.read() == []
    assert not tail.is_restarted


@pytest.mark.parametrize(
    "line", [b"no json", b"[1]", b"null", b"\xff\xfe", b"[" * 100_000, b"", b'{"n": NaN']
)
def test_a_damaged_line_is_passed_over(path: Path, line: bytes) -> None:
    add(path, line + b'\n{"n": 1}\n')
    assert Tail(path).read() == [{"n": 1}]


def test_a_link_is_not_followed(path: Path, tmp_path: Path) -> None:
    secret = tmp_path / "secret.jsonl"
    append_jsonl(secret, [{"password": "hunter2"}])
    path.symlink_to(secret)
    assert Tail(path).read() == []
