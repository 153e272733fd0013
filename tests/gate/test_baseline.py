"""The file in git: what it holds, how it differs, and what is said of one that is broken."""

from __future__ import annotations

import difflib
import json
import random
from pathlib import Path
from typing import Any

import pytest
from measured import case, measurement, numbered

from autoprompt.errors import ConfigError, Voice
from autoprompt.gate.measurement import Baseline, read_baseline, to_text, write_baseline


def made(**scores: tuple[float, ...]) -> Baseline:
    found = scores or {"r0": (1.0, 0.0), "r1": (1.0, 1.0)}
    return measurement(found, repeats=max(map(len, found.values()))).as_baseline()


def write(path: Path, data: Any) -> Path:
    path.write_text(data if isinstance(data, str) else json.dumps(data), encoding="utf-8")
    return path


def test_what_is_written_is_read(tmp_path: Path) -> None:
    baseline = measurement(
        [case("r0", (1.0, 0.333333), answers=("是", 'a "quoted"\nline')), case("r1", (0.5,), answers=("",))],
        repeats=2,
        metric_options={"tolerance": 0.1},
    ).as_baseline()
    path = tmp_path / "b.json"
    assert write_baseline(path, baseline)
    assert read_baseline(path) == baseline
    assert json.loads(path.read_text(encoding="utf-8"))["cases"]["r1"] == {"scores": [0.5], "answers": [""]}
    assert "是" in path.read_text(encoding="utf-8")


def test_the_order_of_the_rows_does_not_show() -> None:
    names = [f"r{n}" for n in range(50)]
    texts = set()
    for seed in range(3):
        random.Random(seed).shuffle(names)
        found = measurement({name: (float(int(name[1:]) % 2),) for name in names}).as_baseline()
        texts.add(to_text(found.model_copy(update={"created": "then"})))
    (text,) = texts
    ids = [line.split('"')[1] for line in text.splitlines() if '"scores"' in line]
    assert ids == sorted(ids)
    assert len(ids) == 50


def test_one_changed_case_is_one_changed_line(tmp_path: Path) -> None:
    before = made(**{f"r{n}": (1.0,) for n in range(30)})
    after = made(**{f"r{n}": (float(n != 17),) for n in range(30)}).model_copy(
        update={"created": before.created, "score": before.score}
    )
    lines = difflib.ndiff(to_text(before).splitlines(), to_text(after).splitlines())
    assert [line for line in lines if line[0] in "+-"] == [
        '-     "r17": {"scores": [1]},',
        '+     "r17": {"scores": [0]},',
    ]


def test_the_same_scores_on_another_day_leave_the_file_alone(tmp_path: Path) -> None:
    path = tmp_path / "b.json"
    write_baseline(path, made().model_copy(update={"created": "2020-01-01T00:00:00Z"}))
    before = path.read_bytes()
    assert not write_baseline(path, made())
    assert path.read_bytes() == before
    assert write_baseline(path, made(r0=(1.0,), r1=(1.0,)))


def test_a_byte_order_mark_and_windows_line_ends_do_no_harm(tmp_path: Path) -> None:
    path = tmp_path / "b.json"
    path.write_bytes(b"\xef\xbb\xbf" + to_text(made()).replace("\n", "\r\n").encode())
    assert read_baseline(path).cases == made().cases


def broken(**changes: Any) -> dict[str, Any]:
    return {**json.loads(to_text(made())), **changes}


@pytest.mark.parametrize(
    ("data", "said"),
    [
        ("", "line 1: not JSON at column 1"),
        ('{"schema_version": 1,\n "cases": {', "line 2: not JSON at column 12"),
        ("[1]", "expected a JSON object, found a list"),
        ({}, "expected schema_version 1, found None"),
        (
            {"schema_version": 2, "surprise": True},
            "another version of autoprompt wrote this baseline (format 2; this one reads 1)",
        ),
        (broken(cases={}), "cases: "),
        (broken(cases={"r0": {"scores": [1.5]}}), "cases.r0.scores.0: "),
        (broken(cases={"r0": {"scores": []}}), "cases.r0.scores: "),
        (broken(cases={"r0": {"scores": [1, 1, 1]}}), "case r0 has 3 scores, but repeats is 2"),
        (broken(cases={"r0": {"scores": [1], "answers": ["a", "b"]}}), "case r0 has 2 answers and 1 score"),
        (broken(repeats=0), "repeats: "),
        (broken(typo=1), "typo: "),
        (to_text(made()).replace('"r1"', '"r0"'), "the key 'r0' is there twice"),
        (to_text(made()).replace('"score": 0.75', '"score": NaN'), "not a baseline: NaN"),
        ("[" * 100_000, "not a baseline"),
    ],
)
def test_a_broken_baseline_is_named_with_what_to_do(tmp_path: Path, data: Any, said: str) -> None:
    path = write(tmp_path / "b.json", data)
    with pytest.raises(ConfigError) as caught:
        read_baseline(path)
    message = str(caught.value)
    assert message.startswith(str(path))
    assert said in message
    assert "check(is_update=True) and write_baseline" in message
    assert "--update-baseline" in caught.value.message(Voice.CLI)
    assert len(message) < 700


def test_conflict_markers_are_named_by_their_line(tmp_path: Path) -> None:
    lines = to_text(made()).splitlines()
    place = next(n for n, line in enumerate(lines) if '"r0"' in line)
    lines[place : place + 1] = ["<<<<<<< HEAD", lines[place], "=======", lines[place], ">>>>>>> feature"]
    path = write(tmp_path / "b.json", "\n".join(lines))
    with pytest.raises(ConfigError, match=rf"line {place + 1}: '<<<<<<<' is a conflict marker of git"):
        read_baseline(path)


def test_files_that_are_none(tmp_path: Path) -> None:
    with pytest.raises(
        ConfigError, match=r"no such baseline\. Create it with check\(is_update=True\) and write_baseline\."
    ):
        read_baseline(tmp_path / "none.json")
    with pytest.raises(ConfigError, match="is a folder"):
        read_baseline(tmp_path)
    path = tmp_path / "latin.json"
    path.write_bytes(b'{"model": "caf\xe9"}')
    with pytest.raises(ConfigError, match="not UTF-8"):
        read_baseline(path)


def test_a_lost_case_is_left_out() -> None:
    found = measurement([case("r0", (1.0,)), case("r1", ())]).as_baseline()
    assert list(found.cases) == ["r0"]
    assert found.score == 1.0


def test_a_hundred_thousand_cases_are_read_and_written(tmp_path: Path) -> None:
    path = tmp_path / "big.json"
    write_baseline(path, measurement(numbered(*(n % 2 for n in range(100_000)))).as_baseline())
    assert len(read_baseline(path).cases) == 100_000
    assert path.stat().st_size < 4_000_000
