"""Every kind of wrong data ends in one DatasetError that says where, what, and what to do."""

from __future__ import annotations

import gzip
import io
import json
import random
import re
import sys
import zipfile
from pathlib import Path

import pytest

from autoprompt.dataset.checks import load_rows
from autoprompt.dataset.faults import Faults
from autoprompt.dataset.splits import cut_rows
from autoprompt.errors import ConfigError, DatasetError, Place, Problem, Voice
from autoprompt.settings.records import DataSettings
from autoprompt.settings.sidecar import find_dataset

GOOD: list[dict[str, object]] = [{"input": f"row {i}", "target": "ab"[i % 2]} for i in range(40)]


def jsonl(rows: list[dict[str, object]]) -> str:
    return "".join(json.dumps(row) + "\n" for row in rows)


def write(folder: Path, name: str, content: str | bytes) -> Path:
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def refused(**settings: object) -> DatasetError:
    with pytest.raises(DatasetError) as caught:
        cut_rows(DataSettings(**settings)).capped()  # type: ignore[arg-type]
    return caught.value


def refusal(**settings: object) -> str:
    return refused(**settings).message(Voice.CLI)


def packed(members: dict[str, str]) -> bytes:
    """A zip file. Nothing in it is compressed, as OpenDocument wants it of its first member."""
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return made.getvalue()


CSV = "input,target\n" + "".join(f"row {i},{'ab'[i % 2]}\n" for i in range(40))

ODF = "application/vnd.oasis.opendocument"

BROKEN: dict[str, tuple[str, str | bytes, int, str, str]] = {
    # name: file, content, line, code, what to do
    "source code": (
        "make_rows.py",
        "import json\nprint(json.dumps({'input': 'a', 'target': 'b'}))\n",
        1,
        "dataset.other-kind",
        "Give a JSONL, JSON, CSV, TSV or Parquet file.",
    ),
    "bad JSON line": (
        "d.jsonl",
        jsonl(GOOD) + '{"input": "x", \n',
        41,
        "dataset.not-json",
        "one whole object",
    ),
    "torn JSON line": (
        "d.jsonl",
        jsonl(GOOD) + '{"input": "x", "tar',
        41,
        "dataset.not-json",
        "one whole object",
    ),
    "a key twice": (
        "d.jsonl",
        jsonl(GOOD) + '{"input": "x", "target": "a", "input": "y"}\n',
        41,
        "dataset.duplicate-key",
        "Take one out",
    ),
    "a key twice in a list": (
        "d.json",
        '[{"input": "x", "target": "a"},\n{"input": "x", "target": "a", "target": "b"}]',
        2,
        "dataset.duplicate-key",
        "Take one out",
    ),
    "rows in an object": (
        "d.json",
        json.dumps({"version": 1, "data": GOOD}),
        1,
        "dataset.rows-inside",
        "jq '.[\"data\"]' OLD > NEW",
    ),
    "many rows in an object": (
        "d.json",
        json.dumps({"my rows": [{**row, "input": row["input"] * 5000} for row in GOOD]}),
        1,
        "dataset.rows-inside",
        "jq",
    ),
    "rows in an object of several lines": (
        "d.json",
        json.dumps({"data": GOOD}, indent=1),
        1,
        "dataset.rows-inside",
        "jq",
    ),
    "no object": ("d.jsonl", jsonl(GOOD) + '["x", "a"]\n', 41, "dataset.not-an-object", "expected an object"),
    "wrong column": ("d.csv", CSV.replace("target", "label"), 1, "dataset.missing-field", "--target-field"),
    "field lost midway": (
        "d.jsonl",
        jsonl([*GOOD, {"input": "x"}]),
        41,
        "dataset.missing-field",
        "Fill it in",
    ),
    "empty target": ("d.csv", CSV + "x,  \n", 42, "dataset.empty-target", "Fill it in"),
    "null target": (
        "d.jsonl",
        jsonl([*GOOD, {"input": "x", "target": None}]),
        41,
        "dataset.empty-target",
        "Fill",
    ),
    "NaN target": (
        "d.jsonl",
        jsonl(GOOD) + '{"input": "x", "target": NaN}\n',
        41,
        "dataset.not-json",
        "leave the row out",
    ),
    "list target": (
        "d.jsonl",
        jsonl([*GOOD, {"input": "x", "target": ["a"]}]),
        41,
        "dataset.target-kind",
        "as a text",
    ),
    "dict target": (
        "d.jsonl",
        jsonl([*GOOD, {"input": "x", "target": {}}]),
        41,
        "dataset.target-kind",
        "as a text",
    ),
    "empty input": ("d.csv", CSV + ",a\n", 42, "dataset.empty-input", "leave the row out"),
    "one label": (
        "d.jsonl",
        jsonl([{**row, "target": "a"} for row in GOOD]),
        1,
        "dataset.one-target",
        "Add rows",
    ),
    "contradiction": ("d.csv", CSV + "row 0,b\n", 42, "dataset.conflict", "--set allow_conflicts=true"),
    "empty file": ("d.jsonl", "", 1, "dataset.empty", "Fill it"),
    "only a mark": ("d.jsonl", b"\xef\xbb\xbf\n", 1, "dataset.empty", "Fill it"),
    "only a header": ("d.csv", "input,target\n", 1, "dataset.empty", "Fill"),
    "empty list": ("d.json", "[]", 1, "dataset.empty", "Fill"),
    "binary": ("d.jsonl", b"\x7fELF\x02\n\x01\x00\x00\x01\x03", 2, "dataset.not-text", "Parquet"),
    "NUL far in": ("d.csv", CSV + "z" * 70_000 + ",a\nx\0y,a\n", 43, "dataset.nul", "Take it out"),
    "NUL escape": ("d.jsonl", jsonl([*GOOD, {"input": "x\0", "target": "a"}]), 41, "dataset.nul", "Take"),
    "half a pair": (
        "d.jsonl",
        jsonl([*GOOD, {"input": "x\ud83d", "target": "a"}]),
        41,
        "dataset.surrogate",
        "Write the whole",
    ),
    "UTF-16": ("d.csv", CSV.encode("utf-16"), 1, "dataset.not-utf8", "iconv"),
    "UTF-16 without mark": ("d.jsonl", jsonl(GOOD).encode("utf-16-le"), 1, "dataset.not-utf8", "iconv"),
    "UTF-16 in Chinese": (
        "d.jsonl",
        '{"input": "判断标题是否为标题党"}\n'.encode("utf-16-be"),
        1,
        "dataset.not-utf8",
        "iconv",
    ),
    "GBK": ("d.csv", CSV.encode() + "标题,a\n".encode("gbk"), 42, "dataset.not-utf8", "iconv"),
    "GBK in a list": ("d.json", '[\n{"input": "标题"}]'.encode("gbk"), 2, "dataset.not-utf8", "iconv"),
    "gzip": ("d.jsonl.gz", gzip.compress(jsonl(GOOD).encode()), 1, "dataset.not-text", "Unpack"),
    "zip": ("d.zip", packed({"rows.csv": CSV}), 1, "dataset.not-text", "Unpack"),
    "zip cut off": ("d.zip", packed({"rows.csv": CSV})[:60], 1, "dataset.not-text", "Unpack"),
    "Excel": (
        "d.xlsx",
        packed({"types.xml": "", "xl/workbook.xml": ""}),
        1,
        "dataset.not-text",
        "as CSV",
    ),
    "Excel as CSV": ("d.csv", packed({"xl/workbook.xml": ""}), 1, "dataset.not-text", "as CSV"),
    "old Excel": ("d.xls", b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(99), 1, "dataset.not-text", "as CSV"),
    "Word": ("d.docx", packed({"word/document.xml": ""}), 1, "dataset.not-text", "as CSV"),
    "Calc": (
        "d.ods",
        packed({"mimetype": f"{ODF}.spreadsheet", "content.xml": ""}),
        1,
        "dataset.not-text",
        "as CSV",
    ),
    "Writer": (
        "d.odt",
        packed({"mimetype": f"{ODF}.text", "content.xml": ""}),
        1,
        "dataset.not-text",
        "as CSV",
    ),
    "10 MB line": (
        "d.jsonl",
        jsonl(GOOD) + '{"input": "' + "x" * 10**7 + '"}\n',
        41,
        "dataset.row-too-long",
        "Shorten",
    ),
    "10 MB line in CSV": ("d.csv", CSV + "x" * 10**7 + ",a\n", 42, "dataset.row-too-long", "Shorten"),
    "10 MB row in a list": (
        "d.json",
        '[\n{"input": "' + "x" * 10**7 + '"}]',
        2,
        "dataset.row-too-long",
        "Shorten",
    ),
    "uneven row": ("d.csv", CSV + "x\n", 42, "dataset.uneven-row", "Fill"),
    "row with more": ("d.csv", CSV + "x,y,a\n", 42, "dataset.uneven-row", "in quotes"),
    "open quote": ("d.csv", CSV + '"x,a\ny,a\n', 42, "dataset.open-quote", "Close it"),
    "long open quote": (
        "d.csv",
        CSV + '"x,a\n' + "y,a\n" * 300_000,
        42,
        "dataset.row-too-long",
        "Close the quote",
    ),
    "text after a quote": ("d.csv", CSV + '"x"y,a\n', 42, "dataset.after-quote", 'as ""'),
    "column twice": ("d.csv", "input,target,input\nx,a,y\n", 1, "dataset.duplicate-column", "Rename"),
    "old Mac": ("d.csv", CSV.replace("\n", "\r"), 1, "dataset.line-ends", "LF"),
    "list cut off": ("d.json", '[{"input": "x", "target": "a"},\n', 2, "dataset.not-json", "Write a list"),
    "list and more": ("d.json", '[{"input": "x", "target": "a"}]\n{}', 2, "dataset.after-list", "one list"),
    "list of lists": ("d.json", '[\n["x", "a"]]', 2, "dataset.not-an-object", "field names"),
    "deep nesting": ("d.jsonl", jsonl(GOOD) + "[" * 100_000 + "\n", 41, "dataset.too-deep", ""),
    "three rows": ("d.jsonl", jsonl(GOOD[:3]), 0, "dataset.too-few-rows", "Add rows"),
}


@pytest.mark.parametrize("kind", BROKEN)
def test_a_broken_file_is_named_with_line_finding_and_remedy(kind: str, tmp_path: Path) -> None:
    name, content, line, code, todo = BROKEN[kind]
    path = write(tmp_path, name, content)
    error = refused(dataset=path)
    problem, first = error.problems[0], error.message(Voice.CLI).splitlines()[0]
    assert problem.code == code
    if line:
        assert (problem.place.file, problem.place.line) == (path, line)
        assert re.sub(r" row \d+:", ":", first).startswith(f"{path} line {line}: ")
    assert todo in first
    assert len(first) < 600


def test_all_faults_of_a_file_come_together_ten_in_words(tmp_path: Path) -> None:
    path = write(tmp_path, "d.csv", CSV + "".join(f"x{',' * (n + 2)}\n" for n in range(14)))
    lines = refusal(dataset=path).splitlines()
    assert [line.split(": ")[0] for line in lines[:10]] == [f"{path} line {n}" for n in range(42, 52)]
    assert lines[10:] == [f"{path}: 4 of 14 problems are not listed."]


def test_a_fault_of_many_rows_is_told_once_and_hides_no_other(tmp_path: Path) -> None:
    path = write(tmp_path, "d.csv", CSV + "x\n" * 20 + ",a\n" * 2)
    first, second = refused(dataset=path).problems
    assert [place.line for place in first.also] == [*range(43, 55)]
    assert (first.more, second.also, second.more) == (7, (Place(path, 63),), 0)
    lines = refusal(dataset=path).splitlines()
    assert [line.split(": ")[0] for line in lines[::2]] == [f"{path} line 42", f"{path} line 62"]
    assert lines[1] == "  likewise " + ", ".join(f"line {n}" for n in range(43, 55)) + " and 7 more"
    assert lines[3:] == ["  likewise line 63"]


def test_a_file_in_another_encoding_is_told_once(tmp_path: Path) -> None:
    path = write(tmp_path, "d.csv", (CSV + "schön,a\nMüll,b\n").encode("cp1252"))
    first, *rest = refusal(dataset=path).splitlines()
    assert first.startswith(f"{path} line 42: byte 0xf6 at byte 4 is not UTF-8 text. Convert the file: iconv")
    assert rest == ["  likewise line 43"]


def test_a_missing_file_is_refused_with_the_closest_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "datasets").mkdir()
    write(tmp_path / "datasets", "clickbait.jsonl", "")
    assert find_dataset(Path("clickbait.jsonl")) == Path("datasets/clickbait.jsonl")
    message = refusal(dataset="clickbate.jsonl")
    assert message.startswith("clickbate.jsonl: no such file")
    assert "'clickbait.jsonl'" in message


def test_standard_input_is_no_dataset() -> None:
    with pytest.raises(DatasetError, match=r"^-: rows are not read from standard input"):
        find_dataset(Path("-"))


def test_a_path_that_the_system_refuses_is_refused_by_name() -> None:
    assert "cannot be read: File name too long" in refusal(dataset="x" * 300)


def test_a_folder_is_refused_with_what_it_holds(tmp_path: Path) -> None:
    write(tmp_path, "inside.csv", CSV)
    message = refusal(dataset=tmp_path)
    assert message.startswith(f"{tmp_path}: this is a folder")
    assert "'inside.csv'" in message


def test_a_leak_between_files_names_both_places(tmp_path: Path) -> None:
    train = write(tmp_path, "train.jsonl", jsonl(GOOD[:20]))
    val = write(tmp_path, "val.jsonl", jsonl([*GOOD[20:], GOOD[4]]))
    first = refusal(train=train, val=val).splitlines()[0]
    assert first.startswith(f"{train} line 5: ")
    assert f"{val} line 21" in first
    assert "--set drop_leaks=true" in first


def test_a_target_outside_the_given_labels_is_named_with_them(tmp_path: Path) -> None:
    path = write(tmp_path, "d.jsonl", jsonl([*GOOD, {"input": "x", "target": "c"}]))
    message = refusal(dataset=path, labels=("a", "b"))
    assert message.startswith(f"{path} line 41: the target 'c' is none of the labels: 'a', 'b'")


def test_parquet_without_its_library_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    message = refusal(dataset=write(tmp_path, "d.parquet", b"PAR1...."))
    assert re.search(r"pip install \S+.* Or save the rows as JSONL", message)


def test_no_rows_to_learn_from_is_said(tmp_path: Path) -> None:
    val = write(tmp_path, "val.jsonl", jsonl(GOOD))
    assert "Give --dataset FILE or --train FILE." in refusal(val=val)
    assert "Give --dataset FILE or --train FILE." in refusal()
    with pytest.raises(ConfigError, match=r"^test: cannot be combined with no_test"):
        DataSettings(train=val, test=val, no_test=True)


def test_a_row_just_under_the_limit_is_read(tmp_path: Path) -> None:
    text = "x" * ((1 << 20) - 40)
    for name, content in {
        "d.jsonl": jsonl([{"input": text, "target": "a"}]),
        "d.json": json.dumps([{"input": text, "target": "a"}] * 3),
        "d.csv": f"input,target\n{text},a\n",
    }.items():
        assert load_rows(write(tmp_path, name, content))[0].input == text


def test_rows_of_a_json_list_on_one_line_are_told_apart(tmp_path: Path) -> None:
    bad = [*GOOD[:6], {"input": "x"}, {"input": "y", "target": " "}, 3, *GOOD[6:]]
    said = refusal(dataset=write(tmp_path, "one.json", json.dumps(bad))).splitlines()
    assert [line.partition("one.json ")[2][:13] for line in said] == [f"line 1 row {n}:" for n in (7, 8, 9)]
    twice = [*GOOD, {"input": "row 0", "target": "b"}]
    said = refusal(dataset=write(tmp_path, "twice.json", json.dumps(twice))).splitlines()
    assert "line 1 row 41: the input 'row 0' has the target 'b', but" in said[0]
    assert "an earlier row has 'a' (line 1 row 1)." in said[0]
    rows = [*GOOD, {"input": "more", "target": "c"}]
    (said,) = refusal(dataset=write(tmp_path, "c.json", json.dumps(rows)), labels=("a", "b")).splitlines()
    assert "line 1 row 41: the target 'c' is none of the labels" in said
    assert " row " not in refusal(dataset=write(tmp_path, "list.json", json.dumps(GOOD) + "x"))


def test_rows_that_come_shuffled_are_named_in_the_order_of_the_file(tmp_path: Path) -> None:
    lines = list(range(2, 60))
    random.Random(1).shuffle(lines)
    faults = Faults(tmp_path / "t.jsonl")
    for line in lines:
        faults.add(line, Problem("x.late" if line > 30 else "x.early", f"wrong in {line}"), "wrong")
    early, late = faults.problems
    assert (early.place.line, early.said, early.more) == (2, "wrong in 2", 16)
    assert [place.line for place in early.also] == list(range(3, 15))
    assert (late.place.line, late.said, late.more) == (31, "wrong in 31", 16)
