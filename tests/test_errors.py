"""Problems: how each voice tells them, what they carry as JSON, and docs/reference/errors.md."""

from __future__ import annotations

import ast
import pickle
import re
import subprocess
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from autoprompt.batch.trials import Trial, select
from autoprompt.errors import (
    AutopromptError,
    ConfigError,
    DatasetError,
    EndpointError,
    Place,
    Problem,
    Voice,
    tell,
)
from autoprompt.gate.measurement import read_baseline
from autoprompt.llm.kept.recording import read_recording
from autoprompt.llm.prices import check_prices
from autoprompt.llm.transport.failures import from_status
from autoprompt.measure.rows import EmptyAnswers
from autoprompt.sandbox import choose
from autoprompt.sandbox.records import Level
from autoprompt.settings.records import ModelSettings
from autoprompt.settings.resolve import CompleteConfig
from autoprompt.workflow import Workflow

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "reference" / "errors.md").read_text(encoding="utf-8")
PACKAGE = ROOT / "autoprompt"
FILE = Path("tickets.csv")
_YAML_OPTIONS = 'metric_options: {"k": 1}'


@pytest.mark.parametrize(
    ("place", "cli", "yaml", "python"),
    [
        (Place(), "", "", ""),
        (Place(FILE), "tickets.csv: ", "tickets.csv: ", "tickets.csv: "),
        (Place(FILE, 6), "tickets.csv line 6: ", "tickets.csv line 6: ", "tickets.csv line 6: "),
        (Place(FILE, 1, 6), *["tickets.csv line 1 row 7: "] * 3),
        (Place(FILE, row=6), *["tickets.csv row 7: "] * 3),
        (Place(row=5), "rows[5]: ", "rows[5]: ", "rows[5]: "),
        (Place(setting="max_val", source="flag"), "--max-val: ", "max_val: ", "max_val: "),
        (Place(setting="max_val"), "--set max_val: ", "max_val: ", "max_val: "),
        (Place(setting="seed", source="set"), "--set seed: ", "seed: ", "seed: "),
        (Place(setting="metric_options.k"), "--metric-option k: ", *["metric_options.k: "] * 2),
        (Place(setting="AUTOPROMPT_MAX_VAL", source="variable"), *["AUTOPROMPT_MAX_VAL: "] * 3),
        (Place(FILE, 3, setting="http_proxy", source="variable"), *["tickets.csv line 3: http_proxy: "] * 3),
        (Place(FILE, 3, setting="a.0.max_val", source="file"), *["tickets.csv line 3: a.0.max_val: "] * 3),
        (Place(FILE, 3, setting="labels", source="sidecar"), *["tickets.csv line 3: labels: "] * 3),
    ],
)  # fmt: skip
def test_a_place_in_each_voice(place: Place, cli: str, yaml: str, python: str) -> None:
    problem = Problem("x.y", "it is wrong", place)
    told = [tell(problem, voice) for voice in (Voice.CLI, Voice.YAML, Voice.PYTHON)]
    assert told == [f"{at}it is wrong." for at in (cli, yaml, python)]


@pytest.mark.parametrize(
    ("name", "value", "cli", "yaml", "python"),
    [
        ("max_calls", 578, "--max-calls 578", "max_calls: 578", "max_calls=578"),
        ("max_cost", 0.5, "--max-cost 0.5", "max_cost: 0.5", "max_cost=0.5"),
        ("max_cost", 1e-6, "--max-cost 1e-06", "max_cost: 1e-06", "max_cost=1e-06"),
        ("drop_leaks", True, "--set drop_leaks=true", "drop_leaks: true", "drop_leaks=True"),
        ("no_test", True, "--set no_test=true", "no_test: true", "no_test=True"),
        ("price_input", 0.15, "--set price_input=0.15", "price_input: 0.15", "price_input=0.15"),
        ("max_val", None, "--set max_val=VALUE", "max_val", "max_val"),
        ("mocks", "<FILE>", "--set mocks=FILE", "mocks: FILE", "mocks=…"),
        ("traits", {"a": 1}, "--set traits.a=1", 'traits: {"a": 1}', "traits={'a': 1}"),
        ("labels", None, "--labels", "labels", "labels"),
        ("dataset", "<FILE>", "--dataset FILE", "dataset: FILE", "dataset=…"),
        ("dataset", Path("a/b.csv"), "--dataset a/b.csv", 'dataset: "a/b.csv"', "dataset='a/b.csv'"),
        ("task", "sort it", '--set "task=sort it"', 'task: "sort it"', "task='sort it'"),
        ("input_field", "$(id)", "--input-field '$(id)'", 'input_field: "$(id)"', "input_field='$(id)'"),
        ("input_field", "true", "--input-field true", 'input_field: "true"', "input_field='true'"),
        ("labels", ("a", "b c"), '--labels "a,b c"', 'labels: [a, "b c"]', "labels=['a', 'b c']"),
        ("locked", ["a", "b c"], "--locked a --locked \"b c\"", 'locked: [a, "b c"]', "locked=['a', 'b c']"),
        ("metric_options", {"k": 1}, "--metric-option k=1", _YAML_OPTIONS, "metric_options={'k': 1}"),
    ],
)  # fmt: skip
def test_a_setting_in_each_voice(name: str, value: object, cli: str, yaml: str, python: str) -> None:
    problem = Problem("x.y", "it is wrong", fix=f"Give {{{name}}}.", settings={name: value})
    told = [tell(problem, voice) for voice in (Voice.CLI, Voice.YAML, Voice.PYTHON)]
    assert told == [f"it is wrong. Give {written}." for written in (cli, yaml, python)]


def test_what_is_wrong_in_yaml_is_told_in_yaml_to_everyone() -> None:
    place = Place(Path("run.yaml"), 3, setting="labels", source="file")
    problem = Problem("x.y", "it is no list", place, "Write {labels}.", {"labels": ["a", "b"]})
    for voice in Voice:
        assert tell(problem, voice) == "run.yaml line 3: labels: it is no list. Write labels: [a, b]."


def test_braces_that_are_no_setting_stay() -> None:
    problem = Problem(
        "x.y", "no field {labels}", fix="Write {premise}, or {labels}.", settings={"labels": None}
    )
    assert tell(problem, Voice.CLI) == "no field {labels}. Write {premise}, or --labels."


def test_other_places_are_told_after_it_and_a_file_once() -> None:
    related = (Place(FILE, 3), Place(FILE, 4), Place(Path("val.csv"), 5), Place(Path("val.csv"), 6))
    problem = Problem("x.y", "it is twice there", Place(FILE, 9), related=related)
    assert str(problem) == "tickets.csv line 9: it is twice there (line 3, line 4, val.csv line 5, line 6)."
    alike = Problem("x.y", "it is empty", Place(FILE, 9), "Fill it in.", also=(Place(FILE, 11),), more=4)
    assert str(alike) == "tickets.csv line 9: it is empty. Fill it in.\n  likewise line 11 and 4 more"
    rows = Problem("x.y", "it is empty", Place(row=5), also=(Place(row=8), Place(row=11)))
    assert str(rows) == "rows[5]: it is empty.\n  likewise rows[8], rows[11]"


def test_a_text_is_a_problem_too() -> None:
    error = DatasetError("lines 1-3 are odd: look at --them")
    assert str(error) == error.message(Voice.CLI) == "lines 1-3 are odd: look at --them"
    (plain,) = error.problems
    assert (plain.code, plain.to_dict()["code"]) == ("", None)
    assert str(AutopromptError()) == ""


def test_an_error_has_all_its_problems_and_survives_a_process() -> None:
    empty = Problem(
        "dataset.empty-target", "the target is empty", Place(row=5), "Use {labels}.", {"labels": None}
    )
    error = DatasetError(empty, Problem("x.y", "another"))
    assert str(error) == "rows[5]: the target is empty. Use labels.\nanother."
    assert error.message(Voice.CLI).splitlines()[0].endswith("Use --labels.")
    again = pickle.loads(pickle.dumps(error))
    assert (again.problems, str(again)) == (error.problems, str(error))
    gone = pickle.loads(pickle.dumps(EndpointError("gone", status=503)))
    assert (str(gone), gone.status, gone.problems) == ("gone", 503, (Problem.plain("gone"),))


@pytest.mark.parametrize(
    "problem",
    [
        Problem.plain("a text"),
        Problem("x.y", "it is wrong"),
        Problem("x.y", "wrong", Place(FILE, 3, setting="n", source="file"), "Write {n}.", {"n": 3}),
        Problem("x.y", "twice", Place(row=3), related=(Place(row=1),), also=(Place(row=5),), more=2),
        Problem("x.y", "it is wrong", fix="Give {labels}.", settings={"labels": ["a", "b"]}),
    ],
)  # fmt: skip
def test_a_problem_comes_back_from_json(problem: Problem) -> None:
    assert Problem.from_dict(problem.to_dict()) == problem
    assert problem.to_dict(Voice.CLI)["message"] == tell(problem, Voice.CLI)
    assert Problem.from_dict(problem.to_dict()["message"]) == Problem.plain(str(problem))


@cache
def codes() -> dict[str, list[Path]]:
    """Each code of the package, and the modules that have it."""
    found: dict[str, list[Path]] = defaultdict(list)
    for path in sorted(PACKAGE.rglob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        imported = {
            name.name
            for node in ast.walk(tree)
            if isinstance(node, ast.ImportFrom) and node.module == "autoprompt.errors"
            for name in node.names
        }
        for node in ast.walk(tree):
            if "Problem" in imported and isinstance(node, ast.Call) and _name(node.func) == "Problem":
                code = node.args[0]
                assert isinstance(code, ast.Constant), f"{path}:{node.lineno}: write the code out"
                assert isinstance(code.value, str)
                assert re.fullmatch(r"[a-z]+\.[a-z0-9]+(-[a-z0-9]+)*", code.value), code.value
                found[code.value].append(path)
    return found


def _name(node: ast.expr) -> str:
    return node.id if isinstance(node, ast.Name) else ""


def rows_of_the_page() -> dict[str, tuple[str, str]]:
    rows = re.findall(r"^\| `([a-z]+\.[a-z0-9-]+)` \| (.+?) \| (.+) \|$", PAGE, re.MULTILINE)
    return {code: (meaning, example) for code, meaning, example in rows}


def test_the_page_lists_every_code_once_and_no_other() -> None:
    listed = re.findall(r"^\| `([a-z]+\.[a-z0-9-]+)` \|", PAGE, re.MULTILINE)
    assert sorted(listed) == sorted(codes())


def test_each_example_of_the_page_has_words_of_the_code() -> None:
    for code, (_, example) in rows_of_the_page().items():
        folders = {PACKAGE / path.relative_to(PACKAGE).parts[0] for path in codes()[code]}
        beside = [
            module for folder in folders for module in (folder.rglob("*.py") if folder.is_dir() else [folder])
        ]
        parts = {part for path in beside for part in fragments(path)}
        assert any(part in example for part in parts), f"{code}: {example}"


@cache
def fragments(path: Path) -> frozenset[str]:
    """Pieces of the texts of a module, long enough to tell one message from another."""
    nodes = ast.walk(ast.parse(path.read_text(encoding="utf-8")))
    texts = [node.value for node in nodes if isinstance(node, ast.Constant)]
    parts = [part.strip() for text in texts if isinstance(text, str) for part in re.split(r"\{\w+\}", text)]
    return frozenset(part for part in parts if len(part) >= 8)


def test_no_text_outside_of_the_command_line_names_a_flag() -> None:
    """Arguments of other programs, which are a flag alone, may."""
    for path in sorted(PACKAGE.rglob("*.py")):
        if path.relative_to(PACKAGE).parts[0] in ("cli", "errors.py"):
            continue
        for line, text in texts_of(ast.parse(path.read_text(encoding="utf-8"))):
            is_option = re.fullmatch(r"--[\w=:-]+", text)
            assert is_option or not re.search(r"(?<![\w-])--[a-z]", text), f"{path}:{line}: {text}"


def texts_of(node: ast.AST) -> Iterator[tuple[int, str]]:
    """Line and text of what a module may say; docstrings are for readers of the code."""
    match node:
        case ast.JoinedStr(values=values):
            parts = [part.value if isinstance(part, ast.Constant) else "X" for part in values]
            yield node.lineno, "".join(map(str, parts))
        case ast.Constant(value=str(text)):
            yield node.lineno, text
        case ast.Expr(value=ast.Constant()):
            return
        case _:
            for child in ast.iter_child_nodes(node):
                yield from texts_of(child)


def raised_by_prices(folder: Path) -> None:
    check_prices(ModelSettings(price_input=1.0))


def raised_by_address(folder: Path) -> None:
    said = "The plain HTTP request was sent to HTTPS port"
    raise from_status(400, {}, said, url="http://h/v1/chat/completions", api_key="", sent={})


def raised_by_thoughts(folder: Path) -> None:
    answers = EmptyAnswers()
    answers.empty, answers.has_tokens = 3, True
    answers.check()


def raised_by_sandbox(folder: Path) -> None:
    choose("strict", Level)


def raised_by_batch(folder: Path) -> None:
    select([Trial("seed-0-1a2b3c4d", {"seed": 0}, CompleteConfig(), "")], ["seed=9"])


def raised_by_baseline(folder: Path) -> None:
    read_baseline(folder / "b.json")


def raised_by_recording(folder: Path) -> None:
    (folder / "a.jsonl").write_text("{}", encoding="utf-8")
    read_recording(folder / "a.jsonl")


def raised_by_chat(folder: Path) -> None:
    file = {"kind": "app", "app": {"mode": "advanced-chat", "name": "c"}, "workflow": {"graph": GRAPH}}
    Workflow.load(file).run({})


GRAPH = {
    "nodes": [
        {"id": "start", "data": {"type": "start", "variables": []}},
        {"id": "answer", "data": {"type": "answer", "answer": "{{#sys.query#}}"}},
    ],
    "edges": [{"source": "start", "target": "answer"}],
}


@pytest.mark.parametrize(
    ("fails", "code", "cli", "yaml", "python"),
    [
        (
            raised_by_prices, "settings.missing-price",
            "Give --set price_output=VALUE too", *["Give price_output t"] * 2,
        ),
        (
            raised_by_address, "endpoint.speaks-https",
            "set --base-url https://h/v1.", 'set base_url: "https://h/v1".', "set base_url='https://h/v1'.",
        ),
        (
            raised_by_thoughts, "model.only-thoughts",
            "with --max-output-tokens 2048,", "with max_output_tokens: 2048,", "with max_output_tokens=2048,",
        ),
        (
            raised_by_sandbox, "sandbox.not-strict",
            "or use --set sandbox=auto,", "or use sandbox: auto,", "or use sandbox='auto',",
        ),
        (raised_by_batch, "batch.no-such-trial", "--only: 'seed=9' matches", *["only: 'seed=9' matches"] * 2),
        (
            raised_by_baseline, "baseline.none",
            "with --update-baseline.", "with update_baseline.", "(is_update=True) and write_baseline.",
        ),
        (raised_by_recording, "recording.not-a-recording", "that --record wrote", *["that record wrote"] * 2),
        (
            raised_by_chat, "workflow.no-query",
            "--input query=...", 'inputs: {"query": "..."}', "inputs={'query': '...'}",
        ),
    ],
)  # fmt: skip
def test_errors_of_every_part_know_the_settings_of_who_reads_them(
    tmp_path: Path, fails: Callable[[Path], None], code: str, cli: str, yaml: str, python: str
) -> None:
    with pytest.raises(AutopromptError) as caught:
        fails(tmp_path)
    assert caught.value.problems[-1].code == code
    assert cli in caught.value.message(Voice.CLI)
    assert yaml in caught.value.message(Voice.YAML)
    assert python in str(caught.value)


def test_the_page_s_program_prints_a_row_in_two_voices(tmp_path: Path) -> None:
    (program,) = re.findall(r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    made = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    python, cli, data = made.stdout.splitlines()
    said = "rows[5]: the input 'My bill is wrong' has the target 'tech', but an earlier row has 'billing' "
    said += "(rows[2]). Correct one of them, or keep the first with "
    assert (python, cli) == (f"{said}allow_conflicts=True.", f"{said}--set allow_conflicts=true.")
    assert data == "dataset.conflict 5"


def test_one_error_of_a_dataset_in_three_voices(tmp_path: Path) -> None:
    from autoprompt.dataset.checks import load_rows

    path = tmp_path / "tickets.csv"
    path.write_text("text,target\na,x\na,y\n", encoding="utf-8")
    with pytest.raises(DatasetError) as caught:
        load_rows(path)
    at = f"{path} line 1: no field 'input'; the fields are 'text', 'target'. Name the right field with "
    assert caught.value.message(Voice.CLI) == f"{at}--input-field text."
    assert caught.value.message(Voice.YAML) == f"{at}input_field: text."
    assert str(caught.value) == f"{at}input_field='text'."


def test_one_error_of_a_setting_where_it_may_come_from(tmp_path: Path) -> None:
    from autoprompt.settings.records import RunConfig
    from autoprompt.settings.resolve import resolve

    config = tmp_path / "run.yaml"
    config.write_text("dataset: d.jsonl\nmax_val: 0\n", encoding="utf-8")
    said = "expected a number above 0, found 0"

    def error(
        flags: dict[str, Any], environ: dict[str, str], config_file: Path | None = None
    ) -> AutopromptError:
        with pytest.raises(AutopromptError) as caught:
            resolve(CompleteConfig, flags, config_file=config_file, environ=environ)
        return caught.value

    (tmp_path / "d.jsonl").touch()
    data = {"dataset": tmp_path / "d.jsonl"}
    assert error({**data, "max_val": 0}, {}).message(Voice.CLI) == f"--max-val: {said}."
    of_variable = error(data, {"AUTOPROMPT_MAX_VAL": "0"})
    assert of_variable.message(Voice.CLI) == "AUTOPROMPT_MAX_VAL: expected a number above 0, found '0'."
    assert error({}, {}, config).message(Voice.CLI) == f"{config} line 2: max_val: {said}."
    with pytest.raises(ConfigError) as caught:
        RunConfig(max_val=0)
    assert str(caught.value) == f"max_val: {said}."
    assert caught.value.problems == (Problem("settings.bad-value", said, Place(setting="max_val")),)


def test_one_warning_in_three_voices(tmp_path: Path) -> None:
    from autoprompt.dataset.splits import cut_rows
    from autoprompt.settings.records import DataSettings

    path = tmp_path / "t.jsonl"
    path.write_text(
        "".join(f'{{"input": "row {n}", "target": "{n % 2}"}}\n' for n in range(100)), encoding="utf-8"
    )
    (warning,) = cut_rows(DataSettings(dataset=path, max_val=10)).capped().warnings
    said = "30 rows are not used: val is limited to 10. To use them, give "
    told = [tell(warning, voice) for voice in (Voice.CLI, Voice.YAML, Voice.PYTHON)]
    assert told == [f"{said}--set max_val=40.", f"{said}max_val: 40.", f"{said}max_val=40."]
