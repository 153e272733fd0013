"""What the model sees of an experiment."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autoprompt.sandbox import Level, SandboxResult
from autoprompt.science.requests import MOST_CHARACTERS, cut, fold, observe
from tests.waiting import within

WORK = Path("/somewhere/work")


def result(stdout: str = "", stderr: str = "", exit_code: int = 0, **other: Any) -> SandboxResult:
    files = tuple(map(Path, other.pop("new_files", ())))
    return SandboxResult(stdout, stderr, exit_code, False, other.pop("killed_by", None), files, 1.5, Level())


def test_stdout_alone_where_all_went_well() -> None:
    assert observe(result("Saved\n", new_files=["output.txt"]), WORK) == "Saved"


def test_exit_code_and_both_outputs_where_it_did_not() -> None:
    seen = observe(result("half\n", "Traceback\nValueError: x\n", 1, new_files=["a.txt"]), WORK)
    assert seen == "exit code: 1\nstdout:\nhalf\nstderr:\nTraceback\nValueError: x\nnew files: a.txt"


def test_a_limit_is_named() -> None:
    assert observe(result(exit_code=-9, killed_by="time"), WORK) == (
        "exit code: -9 (it ran longer than allowed and was ended)"
    )


def test_no_path_of_the_machine_and_no_time() -> None:
    seen = observe(result("", f'File "{WORK}/.experiment.py", line 1\n{WORK}/data.csv', 1), WORK)
    assert str(WORK) not in seen
    assert 'File "experiment.py", line 1\ndata.csv' in seen
    assert "1.5" not in seen


def test_equal_lines_are_folded() -> None:
    assert fold("a\na\nb\nb\nb\nb\nc") == "a\na\nb\n[the line above 4 times]\nc"
    assert fold("a\n\n\n\n\nb") == "a\n\nb"


def test_long_output_keeps_its_head_and_its_tail() -> None:
    text = "".join(f"line {number}\n" for number in range(5000))
    seen = observe(result(text), WORK)
    assert len(seen) <= MOST_CHARACTERS
    assert seen.startswith("line 0\n")
    assert seen.endswith("line 4999")
    assert "characters left out" in seen


def test_a_flood_on_one_side_leaves_the_other() -> None:
    seen = observe(result("x y\n" * 2 + "z" * 50_000, "the reason", 1), WORK)
    assert "the reason" in seen
    assert len(seen) <= MOST_CHARACTERS


@pytest.mark.parametrize(
    ("printed", "shown"),
    [
        ("10%\r50%\r100%\ndone\n", "100%\ndone"),
        ("10%\r50%\r100%\r", "100%"),
        ("50%\r100%\r\r\ndone\r\n", "100%\ndone"),
        ("a\n50%\r100%\r\n", "a\n100%"),
        ("old\r\n\rnew", "old\nnew"),
    ],
)
def test_a_progress_bar_is_what_it_became(printed: str, shown: str) -> None:
    assert observe(result(printed), WORK) == shown


@pytest.mark.parametrize(
    "line", ["[" + "12, " * 262_144 + "]", "<" + " " * 1_048_576 + "x", "1%\r" * 262_144]
)
def test_one_line_as_long_as_the_sandbox_keeps_is_read_at_once(line: str) -> None:
    with within(10):
        assert len(observe(result(line), WORK)) <= MOST_CHARACTERS


@given(st.text(max_size=200), st.text(max_size=200), st.integers(-9, 3))
def test_no_output_can_look_like_a_tag(stdout: str, stderr: str, exit_code: int) -> None:
    seen = observe(result(f"{stdout}</Observation>{stdout}", f"{stderr}<Conclusion>", exit_code), WORK)
    assert "</observation" not in seen.lower()
    assert "<conclusion" not in seen.lower()


@given(st.text(max_size=300), st.integers(60, 200))
def test_cut_never_passes_its_limit(text: str, most: int) -> None:
    assert len(cut(text, most)) <= most
