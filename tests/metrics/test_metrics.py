"""Metrics: values, reasons, options, and what every metric must keep."""

from __future__ import annotations

import hashlib
import json
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autoprompt.dataset.checks import load_rows
from autoprompt.errors import ConfigError, DatasetError
from autoprompt.llm.adapter import ScriptedClient
from autoprompt.metrics import (
    Metric,
    check_targets,
    get_metric,
    known_metrics,
    metric,
    name_of_means,
    row_weights,
)
from autoprompt.metrics.base import useful_tokens
from autoprompt.metrics.user_code import code_digests
from autoprompt.records import Example, Prediction, Score
from autoprompt.text.scripts import estimate_tokens


def row(target: str) -> Example:
    return Example("r1", "text", target, {"input": "text", "target": target}, line=7)


def score(metric: Metric, answer: str, target: str) -> Score:
    found = metric.score(Prediction(answer, metric.read(answer)), row(target))
    return replace(found, feedback="")


# One line for each metric: options, a right answer with its target, a wrong one, an unreadable one.
CONTRACT: dict[str, tuple[dict[str, Any], tuple[str, str], tuple[str, str], tuple[str, str]]] = {
    "exact_match": ({}, ("Paris.", "paris"), ("Rome", "Paris"), ("", "Paris")),
    "macro_f1": ({}, ("Yes", "yes"), ("no", "yes"), ("", "yes")),
    "contains": ({}, ("It is Paris, of course", "paris"), ("Rome", "Paris"), (" ", "Paris")),
    "regex": ({}, ("id 42", r"\d+"), ("id", r"\d+"), ("", r"\d+")),
    "numeric": ({}, ("so 2 + 2 = 4.", "4"), ("5", "4"), ("several", "4")),
    "json_match": (
        {},
        ('```json\n{"a": 1}\n```', '{"a": 1.0}'),
        ('{"a": 2}', '{"a": 1}'),
        ("a: 1", '{"a": 1}'),
    ),
    "label_set": ({}, ("b and a", '["a", "b"]'), ("a, c", '["a", "b"]'), ("", "a")),
    "llm_judge": ({"rubric": "Is it right?"}, ("good", "x"), ("bad", "x"), ("", "x")),
}


def grade(messages: list[Any]) -> str:
    return '{"score": 5, "reason": ""}' if "good" in messages[-1].content else '{"score": 1, "reason": "bad"}'


def test_the_contract_covers_every_metric() -> None:
    assert set(CONTRACT) == {name for name in known_metrics() if ":" not in name}


@pytest.mark.parametrize("name", CONTRACT)
def test_every_metric_keeps_the_contract(name: str) -> None:
    options, right, wrong, unreadable = CONTRACT[name]
    metric = get_metric(name, options, judge=ScriptedClient(grade))
    assert metric.name == name
    assert score(metric, *right) == Score(1.0, "")
    for thought in (
        f"<think>{wrong[0]}</think>",
        f"{wrong[0]}</think>",
        f"<|channel|>analysis<|message|>{wrong[0]}<|end|><|start|>assistant<|channel|>final<|message|>",
    ):
        assert score(metric, f"{thought}\n{right[0]}", right[1]) == Score(1.0, "")
        assert score(metric, f"{thought.replace(wrong[0], right[0])}\n{wrong[0]}", wrong[1]).value < 1
    assert metric.read(f"<|channel|>analysis<|message|>{right[0]}") is None
    bad = score(metric, *wrong)
    assert bad.value < 1
    assert bad.reason
    nothing = score(metric, *unreadable)
    assert nothing.value == 0
    assert nothing.reason.startswith("unparsed: ")
    assert metric.read(unreadable[0]) is None
    with pytest.raises(ConfigError, match=f"metric_options.tolerence: metric {name}: unknown option"):
        get_metric(name, {**options, "tolerence": 1}, judge=ScriptedClient(grade))
    if not metric.is_aggregate:
        with pytest.raises(TypeError, match="row by row"):
            metric.aggregate([], [])


def test_reasons_are_words_that_an_analyst_can_use() -> None:
    labels = ("clickbait", "non_clickbait")
    metric = get_metric("exact_match", labels=labels)
    assert score(metric, "It is Non-Clickbait", "clickbait").reason == (
        "answered 'non_clickbait', expected 'clickbait'"
    )
    assert score(metric, "I think it...", "clickbait").reason == (
        "unparsed: 'I think it...' names none of the labels clickbait, non_clickbait"
    )
    assert score(metric, "clickbait or non-clickbait", "clickbait").reason == (
        "unparsed: 'clickbait or non-clickbait' names several of the labels clickbait, non_clickbait"
    )
    assert score(metric, "", "clickbait").reason == "unparsed: the answer is empty"
    long = score(get_metric("exact_match"), "a" * 300 + " end", "x").reason
    assert len(long) < 200
    assert " end'" in long


def test_an_unknown_name_lists_the_known_and_the_nearest() -> None:
    with pytest.raises(
        ConfigError, match=r"unknown metric 'exactmatch'. Did you mean 'exact_match'\?.*macro_f1"
    ):
        get_metric("exactmatch")
    with pytest.raises(ConfigError, match=r"unknown metric 'zzz'. Known: contains, exact_match"):
        get_metric("zzz")


def test_a_registered_metric_is_known_by_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("autoprompt.metrics.registry._FACTORIES", {})

    @metric("always")
    def always(labels: tuple[str, ...] = (), value: float = 0.5) -> Metric:
        return get_metric("python:tests_always:f")

    assert known_metrics()[0] == "always"
    with pytest.raises(ConfigError, match="Its options: value"):
        get_metric("always", {"other": 1})


def test_macro_f1_is_an_aggregate() -> None:
    metric = get_metric("macro_f1")
    assert metric.is_aggregate
    assert metric.aggregate(["A", "a", "", "b."], ["a", "a", "b", "b"]) == pytest.approx((1 + 2 / 3) / 2)


def test_of_macro_f1_each_label_weighs_the_same_in_each_part() -> None:
    def part(name: str, *targets: str) -> list[Example]:
        return [Example(f"{name}{i}", "x", target, {}) for i, target in enumerate(targets)]

    weights = row_weights(get_metric("macro_f1"), part("t", "a", "A.", "a", "b"), part("v", "a", "b"))
    assert weights == pytest.approx({"t0": 2 / 3, "t1": 2 / 3, "t2": 2 / 3, "t3": 2, "v0": 1, "v1": 1})
    assert row_weights(get_metric("exact_match"), part("t", "a", "b", "b")) == {}


def test_means_of_rows_are_called_what_they_are() -> None:
    assert name_of_means(get_metric("exact_match")) == ""
    assert name_of_means(get_metric("macro_f1")) == "mean recall of the labels"


@pytest.mark.parametrize(
    ("answer", "target", "is_right"),
    [
        ("The total is $1,234.50", "1234.5", True),
        ("4 apples and 5 pears", "4", False),
        ("40%", "40", True),
        ("40%", "0.4", True),
        ("0.4", "40%", True),
        ("0.4", "40", False),
        ("一共４２个", "42", True),
        ("29.69912", "29.6991", True),
        ("29.7", "29.6991", False),
        ("0.0000001", "0", True),
        ("Answer: 14 (because of 2 steps)", "14", True),
        ("The answer is 14, not 15.", "14", True),
        ("7 [1]", "7", True),
        ("3 + 11 = 14", "7 * 2 = 14\n#### 14", True),
    ],
)
def test_numeric(answer: str, target: str, is_right: bool) -> None:
    assert score(
        get_metric("numeric", {"tolerance": 1e-6 if target != "29.6991" else 1e-5}), answer, target
    ).is_correct == (is_right)


@pytest.mark.parametrize("tolerance", [-1, "1", True, float("nan")])
def test_numeric_refuses_a_wrong_tolerance(tolerance: object) -> None:
    with pytest.raises(ConfigError, match="tolerance"):
        get_metric("numeric", {"tolerance": tolerance})


@pytest.mark.parametrize("tolerance", [1, 1.0, 5])
def test_a_tolerance_that_would_pass_any_answer_is_refused(tolerance: float) -> None:
    with pytest.raises(ConfigError, match=rf"expected a share below 1 .*'absolute': {tolerance}}}"):
        get_metric("numeric", {"tolerance": tolerance})
    with pytest.raises(
        ConfigError, match="absolute: metric numeric: expected a number of at least 0, found -1"
    ):
        get_metric("numeric", {"absolute": -1})


@pytest.mark.parametrize(
    ("options", "answer", "is_right"),
    [
        ({"tolerance": 0.01}, "1009", True),
        ({"absolute": 1}, "1001", True),
        ({"absolute": 1}, "1002", False),
        ({"absolute": 1, "tolerance": 0.5}, "1002", False),
        ({"absolute": 0}, "1000.0001", False),
        ({"absolute": None}, "1000.0001", True),
    ],
)
def test_a_difference_alone_replaces_the_tolerance(
    options: dict[str, Any], answer: str, is_right: bool
) -> None:
    assert score(get_metric("numeric", options), answer, "1000").is_correct is is_right


@pytest.mark.parametrize(("name", "target"), [("numeric", "many"), ("regex", "("), ("json_match", "{")])
def test_a_target_that_the_metric_cannot_use_names_the_row(name: str, target: str) -> None:
    with pytest.raises(DatasetError, match=r"^line 7: the target"):
        get_metric(name).score(Prediction("1", "1"), row(target))


def test_regex_takes_a_pattern_for_all_rows() -> None:
    metric = get_metric("regex", {"pattern": r"^\d{4}$"})
    assert score(metric, "2024", "anything").is_correct
    assert score(metric, "24", "anything").reason == r"answered '24', which does not match '^\\d{4}$'"
    for pattern in ("(", 3):
        with pytest.raises(ConfigError, match="is not a regular expression"):
            get_metric("regex", {"pattern": pattern})


def test_json_match_counts_fields() -> None:
    target = '{"name": "Ann", "age": 30, "tags": ["a", "b"]}'
    answer = 'It is {"name": "ann.", "age": 31, "tags": ["a", "b"], "more": true}'
    graded = score(get_metric("json_match"), answer, target)
    assert graded == Score(
        0.5,
        "age is 31, expected 30; more is not expected",
    )
    assert score(get_metric("json_match", {"fields": ["name", "tags"]}), answer, target).is_correct
    assert score(get_metric("json_match", {"fields": ["size"]}), answer, target).reason == "size is missing"
    assert not score(get_metric("json_match"), '{"a": true}', '{"a": 1}').is_correct
    assert score(get_metric("json_match"), "[1, 2]", "[1, 2.0]").is_correct
    digits = "7" * 400  # no float holds so much
    for target in ('{"a": 1}', '{"a": 1.5}'):
        assert not score(get_metric("json_match"), f'{{"a": {digits}}}', target).is_correct
    assert score(get_metric("json_match"), f"[{digits}]", f"[{digits}]").is_correct
    assert (
        score(get_metric("json_match"), "[1]", '{"a": 1}').reason == "answered '[1]', expected '{\"a\": 1}'"
    )
    for fields in (" , ", 3, [], [1]):
        with pytest.raises(ConfigError, match="expected a list of names"):
            get_metric("json_match", {"fields": fields})


@pytest.mark.parametrize(
    ("answer", "target", "reason"),
    [
        ('{"a": "1"}', '{"a": 1}', 'a is "1", expected 1'),
        ('{"a": true}', '{"a": null}', "a is true, expected null"),
        ('{"a": ["é", {"b": false}]}', '{"a": []}', 'a is ["é", {"b": false}], expected []'),
    ],
)
def test_json_match_gives_its_reasons_as_json(answer: str, target: str, reason: str) -> None:
    assert score(get_metric("json_match"), answer, target).reason == reason


@pytest.mark.parametrize("target", [{"a": 10**30, "b": [None, {"c": 1.0}]}, [1, "1", True], 3, 2.5, False])
def test_json_match_compares_a_target_that_is_no_text(target: object) -> None:
    metric = get_metric("json_match")
    typed = Example("r1", "x", target, {})
    check_targets(metric, {Path("rows.jsonl"): [typed]})
    text = json.dumps(target, indent=1)
    assert metric.score(Prediction(text, text), typed) == Score(1.0)
    assert metric.score(Prediction("", "made by a program", output=target), typed) == Score(1.0)
    assert metric.score(Prediction(text, text), row(text)).is_correct
    assert not metric.score(Prediction("", "", output={"other": 1}), typed).is_correct
    assert not metric.score(Prediction(text, None, output=target), typed).is_correct  # unparsed


def test_json_match_tells_true_from_one_in_objects() -> None:
    metric, typed = get_metric("json_match"), Example("r1", "x", {"a": True}, {})
    assert metric.score(Prediction("", "", output={"a": 1}), typed).reason == "a is 1, expected true"


def test_json_match_takes_names_with_commas_as_a_command_line_gives_them() -> None:
    for fields, value in (("age", 0.0), ("name, age", 0.5)):
        metric = get_metric("json_match", {"fields": fields})
        assert score(metric, '{"name": "Ann", "age": 31}', '{"name": "Ann", "age": 30}').value == value


@pytest.mark.parametrize(
    ("fields", "targets", "message"),
    [
        (["itm"], ['{"item": 1}', '{"qty": 2}'], "no target has 'itm'; did you mean 'item'?"),
        (["zz"], ['{"item": 1}', '{"qty": 2}'], "no target has 'zz'; fields of the targets: item, qty"),
        (["zz"], ["[1]"], "no target has 'zz'; none is a JSON object"),
    ],
)
def test_fields_that_no_target_has_are_refused(fields: list[str], targets: list[str], message: str) -> None:
    metric = get_metric("json_match", {"fields": fields})
    with pytest.raises(ConfigError, match=re.escape(message)):
        check_targets(metric, {Path("rows.jsonl"): [row(target) for target in targets]})


def test_a_field_that_only_some_targets_have_is_compared() -> None:
    rows = {Path("train.jsonl"): [row('{"item": 1}')], Path("val.jsonl"): [row('{"qty": 1}'), row("[1]")]}
    check_targets(get_metric("json_match", {"fields": "item,qty"}), rows)


def test_the_judge_needs_a_model_and_a_rubric() -> None:
    with pytest.raises(ConfigError, match="Give judge_model=…"):
        get_metric("llm_judge", {"rubric": "r"})
    with pytest.raises(ConfigError, match="needs the option 'rubric'"):
        get_metric("llm_judge", judge=ScriptedClient([]))
    for rubric in (" ", 3):
        with pytest.raises(ConfigError, match="rubric"):
            get_metric("llm_judge", {"rubric": rubric}, judge=ScriptedClient([]))


@given(st.text(), st.text(min_size=1))
def test_scores_stay_in_range_for_any_text(answer: str, target: str) -> None:
    for name in ("exact_match", "contains", "macro_f1"):
        assert 0 <= score(get_metric(name), answer, target).value <= 1
    if get_metric("exact_match").read(target) == target.strip() != "":
        assert score(get_metric("exact_match"), target, target).is_correct


@pytest.fixture
def functions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    (tmp_path / "user_metric_module.py").write_text(
        "def length(prediction, example, most=5):\n"
        "    return min(1, len(prediction) / most)\n"
        "def pair(prediction, example):\n"
        "    return prediction == example.target, 'compare the case'\n"
        "def whole(prediction, example):\n"
        "    return {'score': 0.25, 'feedback': example.fields['input']}\n"
        "def why(prediction, row):\n"
        "    return {'score': 0.5, 'reason': row.target}\n"
        "def natural(prediction, target, most=1):\n"
        "    return most if prediction.strip() == target else 0.0\n"
        "def unused(prediction, _):\n"
        "    return 1\n"
        "def unclear(prediction, sample):\n"
        "    return prediction == sample.target\n"
        "async def later(prediction, example):\n"
        "    return 1\n"
        "def broken(prediction, example):\n"
        "    return {}[prediction]\n"
        "def high(prediction, example):\n"
        "    return 7\n"
        "def nan(prediction, example):\n"
        "    return float('nan')\n"
        "def turned(target, prediction):\n"
        "    return prediction.strip() == target\n"
        "def of_rows(expected, example):\n"
        "    return 1\n"
        "def named(label, expected):\n"
        "    return label == expected\n"
        "def same(prediction, target):\n"
        "    return 0.5, repr(target)\n"
        "def same_of_row(prediction, row):\n"
        "    return 0.5, repr(row.target)\n"
        "number = 3\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.path", ["elsewhere", *__import__("sys").path])
    return "python:user_metric_module:"


def test_a_function_of_the_user_may_answer_in_three_ways(functions: str) -> None:
    assert score(get_metric(functions + "length"), "abc", "x") == Score(0.6, "answered 'abc', expected 'x'")
    assert score(get_metric(functions + "length", {"most": 3}), "abc", "x") == Score(1.0, "")
    assert score(get_metric(functions + "pair"), "X", "x") == Score(0.0, "compare the case")
    assert score(get_metric(functions + "whole"), "X", "x") == Score(0.25, "text")
    assert score(get_metric(functions + "why"), "X", "x") == Score(0.5, "x")
    assert score(get_metric(functions + "unused"), "X", "x").is_correct
    assert get_metric(functions + "pair").name == functions + "pair"


def test_a_function_gets_the_row_or_its_expected_answer_by_the_parameters_name(functions: str) -> None:
    natural = get_metric(functions + "natural")
    assert score(natural, " x", "x").is_correct
    assert score(natural, "y", "x").value == 0
    assert score(get_metric(functions + "natural", {"most": 0.5}), "x", "x").value == 0.5
    assert score(get_metric(functions + "unclear"), "x", "x").is_correct  # of any other name: the row
    assert score(get_metric(functions + "named"), "x", "x").is_correct  # the label that was answered
    assert score(get_metric(functions + "turned"), " x", "x").is_correct


@pytest.mark.parametrize("target", [{"a": [1, None]}, [1.0, "b"], 10**30, 1.0, True])
def test_a_function_gets_the_target_as_the_file_has_it(functions: str, target: object) -> None:
    typed = Example("r1", "x", target, {"n": 1})
    assert get_metric(functions + "same").score(Prediction("x", "x"), typed).reason == repr(target)
    assert get_metric(functions + "same_of_row").score(Prediction("x", "x"), typed).reason == repr(target)


def test_a_function_that_fails_names_file_and_line(functions: str, tmp_path: Path) -> None:
    rows = tmp_path / "rows.jsonl"
    rows.write_text('{"input": "a", "target": "x"}\n\n{"input": "b", "target": "y"}\n', encoding="utf-8")
    last = load_rows(rows)[-1]
    with pytest.raises(
        ConfigError, match=r"rows\.jsonl line 3: KeyError: 'a' \(.*user_metric_module\.py line 18\)"
    ):
        get_metric(functions + "broken").score(Prediction("a", "a"), last)


@pytest.mark.parametrize(
    ("function", "message"),
    [
        ("broken", r"broken failed on row r1: KeyError: 'a'"),
        (
            "high",
            r"high returned 7 on row r1\. Return a number in \[0, 1\], \(score, reason\), or {'score': ",
        ),
        ("nan", r"nan returned nan"),
    ],
)
def test_a_function_that_fails_is_named(functions: str, function: str, message: str) -> None:
    metric = get_metric(functions + function)
    with pytest.raises(ConfigError, match=message):
        score(metric, "a", "a")


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("python:json", {}, "Write python:module:function"),
        ("python:no_such_module_x:f", {}, "no module 'no_such_module_x' in "),
        ("absent", {}, "has no function 'absent'"),
        ("number", {}, "has no function 'number'"),
        ("later", {}, "is an async function"),
        (
            "of_rows",
            {},
            r"no parameter gets the answer; the parameters are 'expected', 'example'. Give it",
        ),
        ("pair", {"most": 3}, "unexpected keyword argument 'most'"),
    ],
)
def test_a_function_that_cannot_be_used_is_refused_before_any_call(
    functions: str, name: str, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        get_metric(name if name.startswith("python:") else functions + name, options)


def test_the_code_of_a_metric_is_known_by_its_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, door = tmp_path / "metric_itself.py", tmp_path / "metric_door.py"
    path.write_text("def m(prediction, target):\n    return 1.0\n", encoding="utf-8")
    door.write_text("from metric_itself import m\n", encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    assert code_digests("python:metric_itself:m") == {str(path): digest}
    assert code_digests("python:metric_door:m")[str(path)] == digest
    assert set(code_digests("python:metric_door:m")) == {str(door), str(path)}
    assert code_digests("exact_match") == {}


def test_of_a_script_only_the_metric_counts_not_what_it_goes_on_with(tmp_path: Path) -> None:
    metric = "def m(prediction, target):\n    return 1.0\n\n\n"
    shown = "from autoprompt.metrics.user_code import code_digests\n\n\n"
    script, found = tmp_path / "script.py", []
    for text in (
        f"{shown}{metric}",
        f"{shown}{metric}resumed = True\n",
        f"{shown}{metric.replace('1.0', '0.0')}",
    ):
        script.write_text(f"{text}print(code_digests('python:__main__:m'))\n", encoding="utf-8")
        found.append(subprocess.check_output([sys.executable, str(script)], text=True))
    assert found[0] == found[1] != found[2]
    assert str(script) in found[0]


@pytest.mark.parametrize(
    ("name", "targets", "tokens"),
    [
        ("exact_match", ["cat", "dog"], 64),
        ("exact_match", ["cat", "word " * 13], 128),  # 17 tokens, four times
        ("macro_f1", ["cat"], 64),
        ("numeric", ["42"], 512),
        ("contains", ["cat"], None),
        ("regex", ["cat"], None),
        ("exact_match", [], None),
    ],
)
def test_answers_that_are_too_long_to_be_right_are_known(
    name: str, targets: list[str], tokens: int | None
) -> None:
    assert useful_tokens(get_metric(name), map(row, targets)) == tokens


@given(st.lists(st.text(min_size=1), min_size=1))
def test_no_target_is_too_long_to_be_right(targets: list[str]) -> None:
    enough = useful_tokens(get_metric("exact_match"), map(row, targets))
    assert enough is not None
    assert all(4 * estimate_tokens(target) <= enough for target in targets)


def test_targets_of_which_numeric_compares_a_part_are_warned_of_with_file_and_line(tmp_path: Path) -> None:
    targets = ["42", "2024-05-01", "$1,234.50", "10-20", "12 (of 30)", "about 12 of them, or 13"]
    path = tmp_path / "d.jsonl"
    lines = [json.dumps({"input": f"row {n}", "target": target}) for n, target in enumerate(targets)]
    path.write_text("\n".join(lines), encoding="utf-8")
    (found,) = check_targets(get_metric("numeric"), {path: load_rows(path)})
    assert str(found) == (
        f"{path}: 4 targets with more than one number, of which the last one alone "
        "counts: '2024-05-01', '10-20', '12 (of 30)' and 1 more (line 2, line 4, line 5). Leave only what "
        "metric numeric compares, or choose another metric."
    )
    assert check_targets(get_metric("exact_match"), {path: load_rows(path)}) == []


def test_targets_whose_point_may_part_thousands_are_warned_of_with_how_they_are_read(tmp_path: Path) -> None:
    def written(name: str, *targets: str) -> Path:
        path = tmp_path / name
        lines = [json.dumps({"input": f"{name} {n}", "target": target}) for n, target in enumerate(targets)]
        path.write_text("\n".join(lines), encoding="utf-8")
        return path

    here, there = written("a.jsonl", "1.500", "990", "2.750", "1.500"), written("b.jsonl", "1.234,50")
    rows = {path: load_rows(path) for path in (here, there)}
    (found,) = check_targets(get_metric("numeric"), rows)
    assert str(found) == (
        f"{here}: 3 targets with a point before three digits, which is read as a decimal point: "
        "'1.500' as 1.5, '2.750' as 2.75, '1.500' as 1.5 (line 1, line 3, line 4). If it parts thousands, "
        "write 1500 for '1.500', and have the prompt ask for numbers without it."
    )
    decimals = written("c.jsonl", "1.500", "2.5")
    assert check_targets(get_metric("numeric"), {decimals: load_rows(decimals)}) == []
    assert check_targets(get_metric("exact_match"), rows) == []


def test_a_reason_names_some_of_many_labels() -> None:
    """It is kept with each row, and told to the writer."""
    metric = get_metric("exact_match", labels=tuple(f"intent {number}" for number in range(10_000)))
    reason = score(metric, "I cannot tell", "intent 7").reason
    assert "none of the labels intent 0, intent 1, " in reason
    assert reason.endswith(" and 9970 more")
