"""What is read from well-formed files, in every format, and that a format changes nothing about the rows."""

from __future__ import annotations

import csv
import io
import json
from datetime import date
from decimal import Decimal
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from autoprompt.dataset.checks import load_rows
from autoprompt.dataset.labels import infer_labels
from autoprompt.dataset.splits import load_checked
from autoprompt.dataset.text_formats import DELIMITERS, find_delimiter
from autoprompt.errors import DatasetError, Voice
from autoprompt.records import Example, text_of
from autoprompt.settings.records import DataSettings

quick = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
# Any text but NUL and halves of surrogate pairs, which files may not hold.
texts = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=30)
filled = texts.filter(lambda text: text.strip())
rows = st.lists(
    st.fixed_dictionaries({"input": filled, "target": filled, "note": texts}), min_size=1, max_size=8
)


def write(folder: Path, name: str, content: str | bytes) -> Path:
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def refusal(path: Path) -> str:
    try:
        load_rows(path)
    except DatasetError as error:
        return str(error)
    return ""


def content_of(examples: list[Example]) -> list[tuple[str, str, str]]:
    return [(row.id, row.input_text, row.target_text) for row in examples]


@quick
@given(
    rows=rows,
    ensure_ascii=st.booleans(),
    mark=st.sampled_from(["", "\ufeff"]),
    end=st.sampled_from(["\n", "\r\n"]),
)
def test_jsonl_and_json_give_the_rows_that_were_written(
    tmp_path: Path, rows: list[dict[str, str]], ensure_ascii: bool, mark: str, end: str
) -> None:
    lines = end.join(json.dumps(row, ensure_ascii=ensure_ascii) for row in rows)
    by_line = load_rows(write(tmp_path, "d.jsonl", mark + lines + end))
    whole = json.dumps(rows, ensure_ascii=ensure_ascii, indent=1).replace("\n", end)
    as_list = load_rows(write(tmp_path, "d.json", mark + whole))
    assert [row.input for row in by_line] == [row["input"] for row in rows]
    assert [row.target for row in by_line] == [row["target"].strip() for row in rows]
    assert [row.fields["note"] for row in by_line] == [row["note"] for row in rows]
    assert content_of(by_line) == content_of(as_list)
    assert [row.line for row in by_line] == list(range(1, len(rows) + 1))
    assert [row.line for row in as_list] == [2 + 5 * i for i in range(len(rows))]


@quick
@given(rows=rows, delimiter=st.sampled_from(DELIMITERS), end=st.sampled_from(["\n", "\r\n"]))
def test_tables_give_the_rows_that_were_written(
    tmp_path: Path, rows: list[dict[str, str]], delimiter: str, end: str
) -> None:
    out = io.StringIO(newline="")
    writer = csv.DictWriter(
        out, ["note", "input", "target"], delimiter=delimiter, lineterminator=end, quoting=csv.QUOTE_ALL
    )
    writer.writeheader()
    line, lines = 1 + out.getvalue().count("\n") - 1, []
    for row in rows:
        lines.append(line + 1)
        writer.writerow(row)
        line = out.getvalue().count("\n")
    found = load_rows(write(tmp_path, "d.txt", "\ufeff" + out.getvalue()))
    assert [dict(row.fields) for row in found] == [{**row, "target": row["target"].strip()} for row in rows]
    assert [row.line for row in found] == lines


@quick
@given(data=st.binary(max_size=300), name=st.sampled_from(["d.jsonl", "d.json", "d.csv", "d"]))
def test_any_bytes_are_read_or_refused_with_the_file_named(tmp_path: Path, data: bytes, name: str) -> None:
    path = write(tmp_path, name, data)
    assert (refusal(path) or str(path)).startswith(str(path))


@quick
@given(
    data=st.lists(
        st.sampled_from(['"', ",", "\n", "\r", "a", "{", "[", "]", "}", ":", "\\", "input", "target"])
    )
)
def test_any_punctuation_is_read_or_refused(tmp_path: Path, data: list[str]) -> None:
    for name in ("d.jsonl", "d.json", "d.csv"):
        path = write(tmp_path, name, "input,target\n" * name.endswith("csv") + "".join(data))
        assert (refusal(path) or str(path)).startswith(str(path))


@pytest.mark.parametrize("rows", [1, 3])
def test_a_row_may_hold_a_list_of_objects(tmp_path: Path, rows: int) -> None:
    row = {"turns": [{"role": "user"}], "input": "x", "target": "a"}
    lines = "".join(json.dumps({**row, "input": f"x {n}"}) + "\n" for n in range(rows))
    assert len(load_rows(write(tmp_path, "d.jsonl", lines))) == rows


VALUES = {
    "a": (1, "1"),
    "b": (True, "true"),
    "c": (1.0, "1.0"),
    "d": (None, ""),
    "e": ({"k": ["标", None, {"z": 1, "a": 2.0}]}, '{"k":["标",null,{"z":1,"a":2.0}]}'),
    "f": ("1", "1"),
    "g": (0.1, "0.1"),
    "h": (10**30, "1" + 30 * "0"),
    "i": ([], "[]"),
    "j": (1e22, "1e+22"),
    "k": (-0.0, "-0.0"),
    "l": (" é\n", " é\n"),
}


@pytest.mark.parametrize("name", ["d.jsonl", "d.json"])
def test_values_keep_their_types(tmp_path: Path, name: str) -> None:
    row = {"input": "x", "target": 1.0, **{name: value for name, (value, _) in VALUES.items()}}
    path = write(tmp_path, name, json.dumps(row if name == "d.jsonl" else [row]))
    (found,) = load_rows(path)
    assert (found.target, found.target_text) == (1.0, "1.0")
    assert repr(dict(found.fields)) == repr(row)  # 1, 1.0 and True are equal, and the order of keys is not
    assert {name: text_of(found.fields[name]) for name in VALUES} == {
        n: text for n, (_, text) in VALUES.items()
    }


def test_values_of_a_table_are_text(tmp_path: Path) -> None:
    (row,) = load_rows(write(tmp_path, "d.csv", "input,target,n,list\n1,true,2.50,[1]\n"))
    assert (row.input, row.target, dict(row.fields)) == (
        "1", "true", {"input": "1", "target": "true", "n": "2.50", "list": "[1]"},
    )  # fmt: skip


@pytest.mark.parametrize(
    ("as_json", "as_text"), [("1", '"1"'), ("1.0", '"1.0"'), ("true", '"true"'), ("10e2", '"1000.0"')]
)
def test_a_row_is_the_same_row_whether_its_values_are_text_or_not(
    tmp_path: Path, as_json: str, as_text: str
) -> None:
    line = '{{"input": {0}, "target": {0}}}'
    (typed,) = load_rows(write(tmp_path, "a.jsonl", line.format(as_json)))
    (text,) = load_rows(write(tmp_path, "b.jsonl", line.format(as_text)))
    assert (typed.id, typed.content, typed.input_text, typed.target_text) == (
        text.id, text.content, text.input_text, text.target_text,
    )  # fmt: skip
    assert typed.target != text.target


def test_fields_that_make_up_an_input_are_its_lines(tmp_path: Path) -> None:
    row = {"n": 10**30, "docs": [{"a": 1}, None], "ok": True, "target": "t"}
    (found,) = load_rows(write(tmp_path, "d.jsonl", json.dumps(row)), input_of=("ok", "n", "docs"))
    assert (
        found.input
        == found.input_text
        == 'docs: [{"a": 1}, null]\nn: 1000000000000000000000000000000\nok: true'
    )
    assert found.fields["docs"] == [{"a": 1}, None]


@pytest.mark.parametrize("target", [{"name": "标 题", "tags": [1, True]}, ["a", {"b": None}], {}])
def test_a_target_for_json_match_may_be_an_object_or_a_list(tmp_path: Path, target: object) -> None:
    rows = [{"mail": f"mail {n}", "out": target} for n in range(2)]
    path = write(tmp_path, "d.jsonl", "".join(json.dumps(row) + "\n" for row in rows))
    settings = DataSettings(dataset=path, input_field="mail", target_field="out", metric="json_match")
    found, labels, _ = load_checked(path, settings)
    assert labels is None
    assert all(row.target == target == row.fields["out"] for row in found)
    assert {row.target_text for row in found} == {
        json.dumps(target, ensure_ascii=False, separators=(",", ":"))
    }
    assert load_checked(path, settings.model_copy(update={"metric": "python:mine:score"}))[0] == found
    with pytest.raises(DatasetError, match=r"target 'out' is an? (object|list)") as caught:
        load_checked(path, settings.model_copy(update={"metric": "exact_match"}))
    assert "Use --metric json_match for JSON answers" in caught.value.message(Voice.CLI)


@pytest.mark.parametrize(
    ("value", "target", "text"),
    [("1", 1, "1"), ("true", True, "true"), ("1.0", 1.0, "1.0"), ('" yes\\n"', "yes", "yes")],
)
def test_a_target_has_its_type_and_a_text(tmp_path: Path, value: str, target: object, text: str) -> None:
    (row,) = load_rows(write(tmp_path, "d.jsonl", f'{{"input": "x", "target": {value}}}'))
    assert repr(row.target) == repr(row.fields["target"]) == repr(target)
    assert row.target_text == text


def test_an_id_is_the_contents_alone(tmp_path: Path) -> None:
    composed = write(tmp_path, "a.csv", "note,headline,label\n1,caf\u00e9,a\n")
    decomposed = write(tmp_path, "b.jsonl", '\n{"input": "cafe\u0301 ", "target": "a"}\n')
    other = write(tmp_path, "c.jsonl", '{"input": "caf\u00e9", "target": "b"}\n')
    (first,) = load_rows(composed, input_field="headline", target_field="label")
    (second,) = load_rows(decomposed)
    (third,) = load_rows(other)
    assert first.id == second.id != third.id
    assert (first.line, second.line) == (2, 2)


@pytest.mark.parametrize("name", ["rows", "rows.txt", "rows.data"])
@pytest.mark.parametrize(
    "content",
    [
        '{"input": "x", "target": "a"}\n',
        ' [\n {"input": "x", "target": "a"}]',
        "input\ttarget\nx\ta\n",
        'input;target\n"x";a\n\n',
    ],
)
def test_an_unknown_ending_is_read_by_content(tmp_path: Path, name: str, content: str) -> None:
    (row,) = load_rows(write(tmp_path, name, content))
    assert (row.input, row.target) == ("x", "a")


def test_a_list_in_a_file_called_jsonl_is_read(tmp_path: Path) -> None:
    (row,) = load_rows(write(tmp_path, "d.jsonl", '[{"input": "x", "target": "a"}]'))
    assert row.input == "x"


@pytest.mark.parametrize(
    ("text", "delimiter"),
    [
        ("text;label\nFirst, second, third;a\nOne, two;b\n", ";"),
        ('text,label\n"a; b; c",x\n"d; e",y\n', ","),
        ("text\tlabel\nYes, it is; no | it is not\tx\nNo\ty\n", "\t"),
        ("text|label\na, b|x\nc, d|y\n", "|"),
        ("only\none\n", ","),
    ],
)
def test_the_delimiter_is_found_by_content(text: str, delimiter: str) -> None:
    assert find_delimiter(text.encode(), ("text", "label")) == delimiter
    assert find_delimiter(text.encode()) == delimiter


def test_lines_are_right_after_quoted_line_ends_blank_lines_and_crlf(tmp_path: Path) -> None:
    content = 'input,target\r\n\r\n"one\r\ntwo\r\nthree",a\r\n   \r\nfour,b\r\n"fi""ve",c'
    found = load_rows(write(tmp_path, "d.csv", content))
    assert [(row.input, row.line) for row in found] == [("one\r\ntwo\r\nthree", 3), ("four", 7), ('fi"ve', 8)]


def test_rows_of_empty_cells_as_spreadsheets_leave_them_are_passed_over(tmp_path: Path) -> None:
    content = ";;\r\nid;input;target\r\n1;one;a\r\n;;\r\n2;two;b\r\n;;\r\n; ;\r\n;;;;\r\n"
    found = load_rows(write(tmp_path, "d.csv", content))
    assert [(row.input, row.line) for row in found] == [("one", 3), ("two", 5)]


@pytest.mark.parametrize("first", ["sep=;", '"sep=;"', "SEP=;"])
def test_the_line_by_which_spreadsheets_name_the_delimiter_is_no_header(first: str, tmp_path: Path) -> None:
    content = f'\ufeff{first}\r\nnote;input;target\r\n"a,b";one, two, three;a\r\nc;four;b\r\n'
    found = load_rows(write(tmp_path, "d.csv", content))
    assert [(row.input, row.line) for row in found] == [("one, two, three", 3), ("four", 4)]


def test_a_field_longer_than_the_csv_modules_own_limit_is_read(tmp_path: Path) -> None:
    (row,) = load_rows(write(tmp_path, "d.csv", f"input,target\n{'x' * 200_000},a\n"))
    assert len(row.input) == 200_000


def test_a_list_longer_than_its_window_is_read_whole(tmp_path: Path) -> None:
    content = json.dumps(
        [{"input": f"{i} " + "标" * 1000, "target": "a"} for i in range(1200)], ensure_ascii=False
    )
    path = write(tmp_path, "d.json", content.replace("}, {", "},\n{"))
    assert path.stat().st_size > 3 << 20
    found = load_rows(path)
    assert [row.line for row in found] == list(range(1, 1201))
    assert [row.input.split()[0] for row in found] == [str(i) for i in range(1200)]


def test_groups_are_read_and_no_value_is_no_group(tmp_path: Path) -> None:
    path = write(tmp_path, "d.csv", "input,target,from\nx,a,7\ny,b,\n")
    assert [row.group for row in load_rows(path, group_field="from")] == ["7", None]


def test_parquet_gives_the_rows_that_were_written(tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    path = tmp_path / "d.parquet"
    parquet.write_table(pyarrow.table({"input": ["标题", "y"], "target": [1, 0]}), path)
    assert [(row.input, row.target, row.row) for row in load_rows(path)] == [("标题", 1, 1), ("y", 0, 2)]
    parquet.write_table(pyarrow.table({"input": ["x", "y"], "target": ["a", None]}), path)
    with pytest.raises(DatasetError, match=r"d.parquet row 2: the target 'target' is empty"):
        load_rows(path)
    day = date(2024, 5, 1)
    others = {"picture": [b"\x89\xff", b"as text"], "day": [day, day]}
    parquet.write_table(pyarrow.table({"input": [b"x", b"y"], "target": ["a", "b"], **others}), path)
    one, two = load_rows(path)
    assert one.fields == {"input": "x", "target": "a", "day": "2024-05-01"}
    assert (two.input, two.fields["picture"]) == ("y", "as text")
    with pytest.raises(
        DatasetError, match=r"d.parquet row 1: the field 'picture' holds bytes, expected text"
    ):
        load_rows(path, input_field="picture")
    parquet.write_table(pyarrow.table({"input": [{"a": b"\xff"}], "target": ["a"]}), path)
    with pytest.raises(DatasetError, match=r"d.parquet row 1: the field 'input' holds bytes, expected text"):
        load_rows(path)
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(DatasetError, match=r"d.parquet row 1: broken Parquet"):
        load_rows(path)


def test_parquet_gives_values_that_json_has(tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    day = date(2024, 5, 1)
    columns = {
        "input": ["x", "y"],
        "target": [1.5, 2.0],
        "price": [Decimal("1.50"), None],
        "score": [float("nan"), 1e300],
        "tags": [[1, None], []],
        "meta": [{"day": day, "share": float("nan")}, {"day": None, "share": 0.5}],
        "pairs": pyarrow.array([[("k", 1)], []], pyarrow.map_(pyarrow.string(), pyarrow.int64())),
    }
    path = tmp_path / "d.parquet"
    parquet.write_table(pyarrow.table(columns), path)
    one, two = load_rows(path)
    assert one.fields == {
        "input": "x", "target": 1.5, "price": "1.50", "score": None, "tags": [1, None],
        "meta": {"day": "2024-05-01", "share": None}, "pairs": [["k", 1]],
    }  # fmt: skip
    assert two.fields == {
        "input": "y", "target": 2.0, "price": None, "score": 1e300, "tags": [],
        "meta": {"day": None, "share": 0.5}, "pairs": [],
    }  # fmt: skip


def _examples(targets: list[str]) -> list[Example]:
    return [Example(str(i), f"row {i}", target, {}) for i, target in enumerate(targets)]


def test_labels_are_inferred_where_targets_repeat() -> None:
    assert infer_labels(_examples(["b", "a", "b", "a"])) == ("a", "b")
    assert infer_labels(_examples(["a", "b", "c", "a", "b"])) is None
    assert infer_labels(_examples([str(i) for i in range(20)] * 2)) == tuple(
        sorted(str(i) for i in range(20))
    )
    assert infer_labels(_examples([str(i) for i in range(21)] * 9)) is None
    assert infer_labels([]) is None


def test_the_input_is_made_of_fields_where_it_has_none_of_its_own(tmp_path: Path) -> None:
    table = "question,target,passage\nWho?,A,It was she\n"
    (row,) = load_rows(write(tmp_path, "d.csv", table), input_of=("passage", "question"))
    assert row.input == "passage: It was she\nquestion: Who?"
    (swapped,) = load_rows(tmp_path / "d.csv", input_of=("question", "passage", "verdict"))
    assert swapped.id == row.id  # a prompt may name them in another order, and have other words in braces
    (one,) = load_rows(write(tmp_path, "one.csv", table), input_of=("question",))
    assert one.input == "Who?"
    (own,) = load_rows(
        write(tmp_path, "own.csv", "input,question,target\nx,Who?,A\n"), input_of=("question",)
    )
    assert own.input == "x"
    (both,) = load_rows(tmp_path / "own.csv", input_of=("question", "input"))
    assert both.input == "input: x\nquestion: Who?"
    assert both.fields["input"] == "x"


@pytest.mark.parametrize("input_of", [("passage", "source"), ("question", "target")])
def test_fields_that_make_no_input(input_of: tuple[str, ...], tmp_path: Path) -> None:
    path = write(tmp_path, "d.jsonl", '{"question": "Who?", "target": "A"}')
    with pytest.raises(DatasetError, match="no field 'input'") as caught:
        load_rows(path, input_of=input_of)
    also = "Or add the fields that the prompt asks for: 'passage', 'source'."
    assert (also in str(caught.value)) == ("passage" in input_of)


@pytest.mark.parametrize(
    ("fields", "input_of", "written_out"),
    [
        (("headline", "label"), (), "--input-field headline and --target-field label"),
        (("Label", "text"), (), "--input-field text and --target-field Label"),
        (("id", "text", "class"), (), "--input-field text and --target-field class"),
        (("my text", "label"), (), '--input-field "my text" and --target-field label'),
        (("$(id)", "label"), (), "--input-field '$(id)' and --target-field label"),
        (("input", "mood"), (), "--target-field mood"),
        (("text", "mood"), ("text",), "--target-field mood"),
        (("text", "target"), (), "--input-field text"),
        (("headline", "is_clickbait"), (), "--input-field FIELD and --target-field FIELD"),
        (("label", "answer"), (), "--input-field FIELD and --target-field FIELD"),
        (("text", "source", "label"), (), "--input-field FIELD and --target-field FIELD"),
        (("id", "input"), (), "--target-field FIELD"),
        (("text",), ("text",), "--target-field FIELD"),
        (("", "label"), (), "--input-field FIELD and --target-field FIELD"),
    ],
)
def test_flags_are_written_out_where_names_tell_which_fields_are_meant(
    fields: tuple[str, ...], input_of: tuple[str, ...], written_out: str, tmp_path: Path
) -> None:
    path = write(tmp_path, "d.jsonl", json.dumps(dict.fromkeys(fields, "x")))
    with pytest.raises(DatasetError) as caught:
        load_rows(path, input_of=input_of)
    assert caught.value.message(Voice.CLI).endswith(f". Name the right field with {written_out}.")


def test_what_is_wrong_with_one_of_several_fields_is_said_of_it(tmp_path: Path) -> None:
    rows = [
        '{"question": "Who?", "passage": "x", "target": "A"}',
        '{"question": "Who?", "target": "A"}',
        '{"question": " ", "passage": "", "target": "A"}',
    ]
    path = write(tmp_path, "d.jsonl", "\n".join(rows))
    with pytest.raises(DatasetError, match="line 2: no field 'passage'") as told:
        load_rows(path, input_of=("question", "passage"))
    assert "line 3: the input 'question', 'passage' is empty" in str(told.value)
    with pytest.raises(DatasetError, match=r"no field 'pasage'.*Did you mean \{passage\}"):
        load_rows(path, input_of=("question", "pasage"))
    spaced = write(tmp_path, "e.jsonl", '{"question": "Who?", "the passage": "x", "target": "A"}')
    with pytest.raises(DatasetError, match=r"If you mean 'the passage', rename the field .* to the_passage"):
        load_rows(spaced, input_of=("question", "the_passage"))
