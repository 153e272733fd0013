"""Where a setting comes from, and what is said about a bad one."""

from __future__ import annotations

import re
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from autoprompt.errors import (
    AutopromptError,
    ConfigError,
    DatasetError,
    Place,
    PromptError,
    UsageError,
    Voice,
    variable_name,
)
from autoprompt.evaluation.exported import export
from autoprompt.evaluation.prompt import starting_prompt
from autoprompt.evaluation.scoring import other_prompt
from autoprompt.records import Candidate, Demo
from autoprompt.settings.records import CheckConfig, ExportedSettings, RunConfig, ScienceConfig
from autoprompt.settings.resolve import (
    CompleteConfig,
    complete,
    resolve_measured,
    resolve_models,
)
from autoprompt.settings.resolve import resolve as resolve_record
from autoprompt.settings.sources import read_assignments, unknown_variables


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "rows.jsonl").write_text('{"text": "a", "label": "1"}\n', encoding="utf-8")
    return tmp_path


def resolve(
    *, config_file: Path | None = None, environ: dict[str, str] | None = None, **flags: Any
) -> RunConfig:
    return resolve_record(CompleteConfig, flags, config_file=config_file, environ=environ or {})


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def sidecar(folder: Path, text: str = "prompt: from the sidecar\n") -> Path:
    return write(folder / "rows.task.yaml", text)


@pytest.mark.parametrize(
    ("starts", "said"),
    [
        (
            {"prompt": "p", "workflow": "w.yaml"},
            "workflow: cannot be combined with prompt. Give one of them.",
        ),
        ({"prompt": "p", "program": "a:b"}, "program: cannot be combined with prompt. Give one of them."),
        ({"workflow": "w.yaml", "program": "a:b"}, "program: cannot be combined with workflow. Give one"),
    ],
)
def test_settings_name_one_start(folder: Path, starts: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=f"^{said}"):
        RunConfig(dataset=Path("rows.jsonl"), **starts)
    config = write(
        folder / "c.yaml", "dataset: rows.jsonl\n" + "".join(f"{k}: {v}\n" for k, v in starts.items())
    )
    with pytest.raises(ConfigError, match=r"c\.yaml line 3: .*: cannot be combined with line 2: "):
        resolve(config_file=config)


@pytest.mark.parametrize("key", ["matrix", "include", "defaults"])
def test_a_batch_given_as_the_settings_of_one_run_is_called_one(folder: Path, key: str) -> None:
    config = write(folder / "b.yaml", f"name: presets\n{key}: {{}}\nexecutor: {{jobs: 2}}\n")
    with pytest.raises(ConfigError) as caught:
        resolve(config_file=config)
    assert str(caught.value) == (
        f"{config} line 2: {key}: this is the file of a batch, expected the settings of one run. "
        f"Run the batch: autoprompt batch {config}"
    )


def test_each_source_wins_over_the_next(folder: Path) -> None:
    sidecar(folder, "prompt: p\nmetric: contains\nmax_output_tokens: 1\n")
    config = write(folder / "c.yaml", "metric: regex\nmax_output_tokens: 2\nseed: 2\n")
    environ = {"AUTOPROMPT_MAX_OUTPUT_TOKENS": "3", "AUTOPROMPT_SEED": "3"}
    found = resolve(config_file=config, environ=environ, dataset=Path("rows.jsonl"), seed=4)
    assert (found.seed, found.max_output_tokens, found.metric, found.prompt) == (4, 3, "regex", "p")
    assert found.temperature == 0.0


def test_only_what_was_given_is_set(folder: Path) -> None:
    sidecar(folder)
    found = resolve(dataset=Path("rows.jsonl"), max_calls=None)
    assert found.model_fields_set == {"dataset", "prompt", "model"}


def test_zero_is_a_value(folder: Path) -> None:
    sidecar(folder)
    assert resolve(dataset=Path("rows.jsonl"), max_demos=0).max_demos == 0


def test_dataset_is_found_in_datasets(folder: Path) -> None:
    write(folder / "datasets" / "d.jsonl", "{}\n")
    write(folder / "datasets" / "d.task.yaml", "prompt: found\n")
    found = resolve(dataset=Path("d.jsonl"))
    assert (found.dataset, found.prompt) == (Path("datasets/d.jsonl"), "found")


def test_split_files_use_the_sidecar_of_the_whole(folder: Path) -> None:
    for part in ("train", "val"):
        write(folder / f"rows.{part}.jsonl", "{}\n")
    sidecar(folder)
    assert resolve(train=Path("rows.train.jsonl"), val=Path("rows.val.jsonl")).prompt == "from the sidecar"


def test_paths_in_yaml_are_relative_to_it(folder: Path) -> None:
    write(folder / "sub" / "data.jsonl", "{}\n")
    write(folder / "sub" / "prompts" / "zh.txt", "\ufeff判断标题\n\n")
    config = write(folder / "sub" / "c.yaml", 'dataset: data.jsonl\nprompt: "@prompts/zh.txt"\n')
    found = resolve(config_file=config)
    assert found.dataset is not None
    assert found.dataset.samefile(folder / "sub" / "data.jsonl")
    assert found.prompt == "判断标题"


def test_prompt_file_of_a_flag_is_relative_to_here(folder: Path) -> None:
    write(folder / "p.txt", "Say 1\nor 0.\n")
    assert resolve(dataset=Path("rows.jsonl"), prompt="@p.txt").prompt == "Say 1\nor 0."


@pytest.mark.parametrize("format", ["yaml", "langchain", "openai"])
def test_an_exported_prompt_is_not_taken_for_a_text(folder: Path, format: str) -> None:
    found = Candidate({"prompt": "Say 1 or 0."}, (Demo("a", "1"),))
    write(folder / "p.txt", export(found, format))
    with pytest.raises(
        PromptError, match=r"p\.txt is an exported prompt.* or score this file as exported='p\.txt'"
    ):
        resolve(dataset=Path("rows.jsonl"), prompt="@p.txt")


@pytest.mark.parametrize("text", ['{"a": 1}', "[1, 2]", "Name the components: of a car.", "[]"])
def test_a_prompt_that_looks_like_data_is_one(folder: Path, text: str) -> None:
    write(folder / "p.txt", text)
    assert resolve(dataset=Path("rows.jsonl"), prompt="@p.txt").prompt == text


@pytest.mark.parametrize("content", [None, b"\xff\xfe\x00", b"  \n"])
def test_a_bad_prompt_file_is_named(folder: Path, content: bytes | None) -> None:
    if content is not None:
        (folder / "p.txt").write_bytes(content)
    with pytest.raises(PromptError, match=r"^prompt: p\.txt "):
        resolve(dataset=Path("rows.jsonl"), prompt="@p.txt")


def test_the_name_of_a_file_is_not_taken_for_the_text_of_a_prompt(folder: Path) -> None:
    write(folder / "sub" / "p.txt", "Say 1 or 0.")
    with pytest.raises(PromptError, match=r"^prompt: sub/p\.txt is the name of a file.*@sub/p\.txt"):
        resolve(dataset=Path("rows.jsonl"), prompt="sub/p.txt")
    for text in ("sub/p.txt ", "Say sub/p.txt", "1/0?", "x" * 5000 + ".txt"):
        assert resolve(dataset=Path("rows.jsonl"), prompt=text).prompt == text


@pytest.mark.parametrize(
    "text",
    [
        "prompts/classify.txt",
        "classify.md",
        "Classify.PROMPT",
        "prompts/classify.tmpl",
        "prompts/classify.v2",
        "prompts\\classify.txt",
        "C:\\prompts\\classify",
        "~/classify",
        "../classify",
        "/nowhere/classify",
        "sub/classify",  # beside others, its ending forgotten
        "https://example.com/classify.txt",
        "提示/分类.txt",
    ],
)
def test_the_name_of_a_file_that_is_not_there_is_no_text_either(folder: Path, text: str) -> None:
    write(folder / "sub" / "p.txt", "Say 1 or 0.")
    asked = f"{re.escape(text)} looks like the path of a file, but there is no such file"
    with pytest.raises(
        PromptError, match=f"^prompt: {asked}.*Give `@` and the path of a text file"
    ) as caught:
        resolve(dataset=Path("rows.jsonl"), prompt=text)
    assert caught.value.message(Voice.CLI).startswith("--prompt: ")
    with pytest.raises(PromptError, match=f"prompt: {asked}"):
        complete(RunConfig(dataset=Path("rows.jsonl"), prompt=text))
    config = write(folder / "c.yaml", f"dataset: rows.jsonl\nprompt: '{text}'\n")
    with pytest.raises(PromptError, match=rf"c\.yaml line 2: prompt: {asked}"):
        resolve(config_file=config)
    with pytest.raises(PromptError, match=f"against: {asked}"):
        other_prompt(text, Place(setting="against"))


@pytest.mark.parametrize(
    "text",
    [
        "yes/no",
        "positive/negative/neutral",
        "/no_think",
        "{Text}/{Lang}.txt",
        "判断正面/负面",
        "判断正面/负面。回答写入a.txt",
        "Sort.",
        "e.g.",
        "Label:1/0.",
    ],
)
def test_one_word_may_be_a_prompt(folder: Path, text: str) -> None:
    assert resolve(dataset=Path("rows.jsonl"), prompt=text).prompt == text


def test_the_file_that_may_be_meant_is_named(folder: Path) -> None:
    write(folder / "prompts" / "classify.txt", "Say 1 or 0.")
    for slip in ("prompts/clasify.txt", "prompts/classify"):
        with pytest.raises(PromptError, match=r"Did you mean @prompts/classify\.txt\? If it is the text"):
            resolve(dataset=Path("rows.jsonl"), prompt=slip)


GATE = "dataset: rows.jsonl\nprompt: p\nbaseline: b.json\nmax_drop: 0.02\nmin_score: 0.7\nmust_pass: [a]\n"


def test_the_settings_of_the_gate_are_passed_over_by_other_commands(folder: Path) -> None:
    config = write(folder / "ci.yaml", GATE)
    scored, chosen = resolve_measured(ExportedSettings, {}, config_file=config, environ={})
    asked = resolve_models({}, config_file=config, environ={})
    for found in (resolve(config_file=config), scored, asked):
        assert (found.prompt, found.model_fields_set - {"model"}) == ("p", {"dataset", "prompt"})
    assert chosen.exported is None


@pytest.mark.parametrize(
    ("key", "said"),
    [
        ("max_drip: 1", "Did you mean 'max_drop'"),
        ("sede: 1", "'seed'"),
        ("max_drop: 2", "expected 1.0 or less, found 2"),
    ],
)
def test_a_slip_among_them_is_told(folder: Path, key: str, said: str) -> None:
    config = write(folder / "ci.yaml", f"dataset: rows.jsonl\nprompt: p\n{key}\n")
    for resolved in (
        partial(resolve_record, CompleteConfig),
        partial(resolve_measured, ExportedSettings),
        resolve_models,
    ):
        with pytest.raises(ConfigError, match=f"ci.yaml line 3: .*{said}"):
            resolved({}, config_file=config, environ={})


def test_what_says_that_no_model_is_asked_is_not_passed_over(folder: Path) -> None:
    config = write(folder / "ci.yaml", "dataset: rows.jsonl\nprompt: p\nreplay: a.jsonl\n")
    for resolved in (
        partial(resolve_record, CompleteConfig),
        partial(resolve_measured, ExportedSettings),
        resolve_models,
    ):
        with pytest.raises(
            ConfigError, match=r"ci\.yaml line 3: replay: only `autoprompt check` can replay answers"
        ):
            resolved({}, config_file=config, environ={})
    assert resolve_measured(CheckConfig, {}, config_file=config, environ={})[1].replay == folder / "a.jsonl"


def test_a_search_does_not_begin_with_another_prompt_than_the_exported_one(folder: Path) -> None:
    sidecar(folder)
    config = write(folder / "ci.yaml", "dataset: rows.jsonl\nexported: best.yaml\n")
    with pytest.raises(ConfigError, match=r"ci\.yaml line 2: exported: only .*eval` and `check`"):
        resolve(config_file=config)
    assert resolve(config_file=config, prompt="another").prompt == "another"
    assert (
        resolve_measured(ExportedSettings, {}, config_file=config, environ={})[1].exported
        == folder / "best.yaml"
    )


def test_without_prompt_it_is_said_what_to_add(folder: Path) -> None:
    with pytest.raises(PromptError, match=r"Give prompt=….*rows\.task\.yaml") as caught:
        starting_prompt(resolve(dataset=Path("rows.jsonl")))
    assert "Give --prompt TEXT|@FILE, or" in caught.value.message(Voice.CLI)
    assert caught.value.exit_code == 3


@pytest.mark.parametrize(
    ("name", "content", "flags", "said"),
    [
        (
            "t.csv",
            "ticket_id,text,queue\n1,a b,tech\n",
            {},
            ["input_field: FIELD ", "target_field: FIELD ", "\nThe fields are 'ticket_id', 'text', 'queue'."],
        ),
        (
            "t.csv",
            "ticket_id;text;queue\n1;a, b;tech\n",
            {"input_field": "text", "target_field": "queue"},
            ["input_field: text ", "target_field: queue "],
        ),
        ("t.jsonl", '{"input": "x", "target": "y"}\n', {}, ["input_field: input ", "target_field: target "]),
        ("t.json", '[{"a: b": 1}]', {}, ["The fields are 'a: b'."]),
        ("t.csv", "", {}, ["input_field: input ", "target_field: target "]),
        ("t.csv", b"\xff\xfe", {"input_field": "a: b"}, ['input_field: "a: b" ']),
    ],
)
def test_without_prompt_the_fields_are_those_of_the_file(
    folder: Path, name: str, content: str | bytes, flags: dict[str, str], said: list[str]
) -> None:
    (folder / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(PromptError) as caught:
        starting_prompt(resolve(dataset=Path(name), **flags))
    message = str(caught.value)
    assert all(part in message for part in said), message
    assert ("The fields are" in message) == ("The fields are" in said[-1])
    assert "clickbait" not in message


def test_without_data_it_is_a_usage_error(folder: Path) -> None:
    with pytest.raises(UsageError) as caught:
        resolve(prompt="p")
    assert "Give --dataset FILE (" in caught.value.message(Voice.CLI)
    assert "Give dataset=… (" in str(caught.value)


def test_a_missing_dataset_is_said(folder: Path) -> None:
    with pytest.raises(DatasetError, match=r"row\.jsonl.*rows\.jsonl"):
        resolve(dataset=Path("row.jsonl"), prompt="p")


@pytest.mark.parametrize(
    ("flags", "environ", "error", "said"),
    [
        ({"max_calls": 0}, {}, UsageError, "^--max-calls: expected a number above 0, found 0"),
        ({"temperature": 3.0}, {}, UsageError, "^--temperature: expected 2.0 or less, found 3.0"),
        (
            {"metric_options": ["tolerance"]},
            {},
            UsageError,
            "^--metric-option: expected NAME=VALUE, found 'tolerance'",
        ),
        (
            {"locked": ["not there"]},
            {},
            PromptError,
            "^--locked: the prompt does not hold the locked passage 'not there'",
        ),
        ({"prompt": " "}, {}, UsageError, "^--prompt: the prompt is empty. Give its text"),
        (
            {"base_url": ""},
            {},
            UsageError,
            "^--base-url: the value is empty. Give a value, or leave the setting out.$",
        ),
        ({"judge_base_url": " "}, {}, UsageError, "^--judge-base-url: the value is empty"),
        ({"model": ""}, {}, UsageError, "^--model: the value is empty"),
        ({"runs_dir": ""}, {}, UsageError, "^--runs-dir: the value is empty"),
        ({}, {"AUTOPROMPT_BASE_URL": " "}, ConfigError, "^AUTOPROMPT_BASE_URL: the value is empty"),
        (
            {"no_test": True, "test": Path("rows.jsonl")},
            {},
            UsageError,
            r"^--test: cannot be combined with --no-test. Give one of them.$",
        ),
        (
            {"no_test": True},
            {"AUTOPROMPT_TEST": "rows.jsonl"},
            UsageError,
            r"^AUTOPROMPT_TEST: cannot be combined with --no-test",
        ),
        (
            {},
            {"AUTOPROMPT_TEST": "rows.jsonl", "AUTOPROMPT_NO_TEST": "1"},
            ConfigError,
            r"^AUTOPROMPT_TEST: cannot be combined with AUTOPROMPT_NO_TEST",
        ),
        (
            {"input_field": "x", "target_field": "x"},
            {},
            UsageError,
            r"^--input-field: input and target are the same field, 'x' \(--target-field\)",
        ),
        ({}, {"AUTOPROMPT_INPUT_FIELD": "target"}, ConfigError, "^AUTOPROMPT_INPUT_FIELD: input and target"),
        ({}, {"AUTOPROMPT_SEED": "x"}, ConfigError, "^AUTOPROMPT_SEED: expected a whole number, found 'x'"),
        (
            {},
            {"AUTOPROMPT_PRESET": "huge"},
            ConfigError,
            "^AUTOPROMPT_PRESET: expected 'quick', .* or 'thorough', found 'huge'",
        ),
        ({"prompt": "@-"}, {}, PromptError, "^--prompt: a prompt is not read from standard input"),
        ({"prompt": "@"}, {}, PromptError, "^--prompt: there is no path after @"),
        ({"sede": 1}, {}, UsageError, "^--sede: unknown setting. Known settings: .*seed"),
    ],
)
def test_a_bad_value_names_its_source(
    folder: Path, flags: dict[str, Any], environ: dict[str, str], error: type[AutopromptError], said: str
) -> None:
    with pytest.raises(error) as caught:
        resolve(environ=environ, **{"dataset": Path("rows.jsonl"), "prompt": "p", **flags})
    assert re.search(said, caught.value.message(Voice.CLI)), caught.value.message(Voice.CLI)


def test_a_bad_value_in_a_file_names_file_and_line(folder: Path) -> None:
    config = write(folder / "c.yaml", "dataset: rows.jsonl\nprompt: p\nmax_calls: -1\n")
    with pytest.raises(ConfigError, match=r"c\.yaml line 3"):
        resolve(config_file=config)


@pytest.mark.parametrize(
    "name", ["base_url", "optimizer_base_url", "model", "runs_dir", "cache_dir", "memory_file", "dataset"]
)
def test_an_empty_place_in_a_file_is_no_default(folder: Path, name: str) -> None:
    config = write(folder / "c.yaml", f"prompt: p\n{name}: ''\n")
    with pytest.raises(ConfigError, match=rf"c\.yaml line 2: {name}: the value is empty. Give a value"):
        resolve(config_file=config)
    with pytest.raises(ConfigError, match=f"^{name}: the value is empty"):
        RunConfig(**{name: ""})  # type: ignore[arg-type]


def test_an_empty_variable_says_nothing(folder: Path) -> None:
    environ = {"AUTOPROMPT_BASE_URL": "", "AUTOPROMPT_RUNS_DIR": "", "OPENAI_BASE_URL": ""}
    found = resolve(environ=environ, dataset=Path("rows.jsonl"), prompt="p")
    assert (found.base_url, found.model, found.runs_dir) == (None, "local", Path("runs"))


def test_spaces_around_an_address_are_no_part_of_it(folder: Path) -> None:
    found = resolve(dataset=Path("rows.jsonl"), prompt="p", base_url=" http://a/v1\n")
    assert found.base_url == "http://a/v1"


def test_texts_become_lists_and_options(folder: Path) -> None:
    found = resolve(
        dataset=Path("rows.jsonl"),
        prompt="Keep A and B.",
        labels="yes, no",
        locked=["Keep A", "B."],
        metric="numeric",
        metric_options=["tolerance=0.5", "mode=relative", "tolerance=0.25"],
    )
    assert (found.labels, found.locked) == (("yes", "no"), ("Keep A", "B."))
    assert found.metric_options == {"tolerance": 0.25, "mode": "relative"}


def test_variables_hold_lists_and_switches(folder: Path) -> None:
    environ = {
        "AUTOPROMPT_LABELS": "a,b",
        "AUTOPROMPT_NO_CACHE": "1",
        "AUTOPROMPT_METRIC_OPTIONS": "tolerance=1,b=x",
        "AUTOPROMPT_PROMPT": "p",
        "AUTOPROMPT_DATASET": "rows.jsonl",
        "AUTOPROMPT_MODEL": "",
    }
    found = resolve(environ=environ)
    assert (found.labels, found.no_cache, found.model) == (("a", "b"), True, "local")
    assert found.metric_options == {"tolerance": 1, "b": "x"}


def test_metric_options_add_up_for_the_same_metric(folder: Path) -> None:
    sidecar(folder, "prompt: p\nmetric: numeric\nmetric_options: {tolerance: 1, unit: kg}\n")
    found = resolve(dataset=Path("rows.jsonl"), metric_options=["tolerance=2"])
    assert found.metric_options == {"tolerance": 2, "unit": "kg"}


def test_another_metric_or_prompt_leaves_the_sidecars_details_behind(folder: Path) -> None:
    sidecar(
        folder,
        "prompt: Keep this.\nlocked: [Keep]\nmetric: numeric\n"
        "metric_options: {tolerance: 1}\nlabels: [0, 1]\n",
    )
    found = resolve(dataset=Path("rows.jsonl"), metric="contains", prompt="Another.")
    assert (found.metric_options, found.locked, found.labels) == ({}, (), ("0", "1"))


@pytest.mark.parametrize(
    ("flags", "model", "base_url", "optimizer_base_url"),
    [
        ({}, "local", None, None),
        ({"model": "local:smollm2-135m"}, "local:smollm2-135m", None, None),
        ({"model": "gpt-4o-mini"}, "gpt-4o-mini", "http://openai", None),
        ({"model": "m", "base_url": "http://mine"}, "m", "http://mine", None),
        ({"base_url": "http://mine"}, None, "http://mine", None),
        ({"optimizer_model": "gpt-4o"}, "local", None, "http://openai"),
        ({"optimizer_model": "big", "base_url": "http://mine"}, None, "http://mine", None),
    ],
)
def test_a_key_alone_never_sends_a_request(
    folder: Path,
    flags: dict[str, Any],
    model: str | None,
    base_url: str | None,
    optimizer_base_url: str | None,
) -> None:
    environ = {"OPENAI_API_KEY": "sk-x", "OPENAI_BASE_URL": "http://openai"}
    found = resolve(dataset=Path("rows.jsonl"), prompt="p", environ=environ, **flags)
    assert (found.model, found.base_url, found.optimizer_base_url) == (model, base_url, optimizer_base_url)


def test_complete_settings_are_not_completed_again(folder: Path) -> None:
    sidecar(folder, "prompt: '@p.txt'\nmetric: contains\n")
    write(folder / "p.txt", "@everyone: 1 or 0?\n")
    resolved = resolve(dataset=Path("rows.jsonl"))
    assert complete(resolved) is resolved
    found = complete(RunConfig(dataset=Path("rows.jsonl")))
    assert (
        (found.prompt, found.metric)
        == (resolved.prompt, resolved.metric)
        == ("@everyone: 1 or 0?", "contains")
    )
    assert found.model is None
    assert complete(found) is found
    assert complete(RunConfig(prompt="p")).dataset is None


def test_a_variable_that_nothing_reads_is_warned_of() -> None:
    known = [variable_name(name) for name in RunConfig.model_fields]
    known += ["AUTOPROMPT_WEIGHTS_DIR", "AUTOPROMPT_OPTIMIZER_API_KEY", "AUTOPROMPT_JUDGE_API_KEY"]
    assert unknown_variables(dict.fromkeys([*known, "HOME", "MAX_CALL"], "1")) == []
    (said,) = unknown_variables({"AUTOPROMPT_AGENT": "{}"})  # a record, which YAML alone can hold
    assert str(said).startswith("AUTOPROMPT_AGENT: no such setting, so it is ignored.")
    found = unknown_variables({"AUTOPROMPT_MAXCALLS": "5", "AUTOPROMPT_XYZ": "hidden"})
    assert [warning.code for warning in found] == ["settings.unknown-variable"] * 2
    assert list(map(str, found)) == [
        "AUTOPROMPT_MAXCALLS: no such setting, so it is ignored. Did you mean AUTOPROMPT_MAX_CALLS?",
        "AUTOPROMPT_XYZ: no such setting, so it is ignored.",
    ]


@pytest.mark.parametrize(("value", "meant"), [("false", "no_memory"), ("notes.txt", "memory_file")])
def test_the_value_tells_which_of_two_settings_was_meant(folder: Path, value: str, meant: str) -> None:
    config = write(folder / "run.yaml", f"memory: {value}\n")
    said = rf"memory: unknown (key|setting)\. Did you mean '{meant}'\?"
    with pytest.raises(ConfigError, match=said):
        resolve(config_file=config)
    with pytest.raises(UsageError, match=said):
        read_assignments([f"memory={value}"], RunConfig.model_fields)
    (warning,) = unknown_variables({"AUTOPROMPT_MEMORY": value})
    assert warning.fix == f"Did you mean {variable_name(meant)}?"


def test_a_setting_that_is_given_twice_is_refused() -> None:
    fields = RunConfig.model_fields
    assert read_assignments(["seed=1", "max_val=2"], fields) == {"seed": 1, "max_val": 2}
    with pytest.raises(UsageError, match=r"^seed: given twice\. Give it once\.$"):
        read_assignments(["seed=1", "max_val=2", "seed=3"], fields)


def test_a_key_in_a_file_is_told_its_place(folder: Path) -> None:
    config = folder / "run.yaml"
    config.write_text("dataset: rows.jsonl\napi_key: sk-secret\n", encoding="utf-8")
    with pytest.raises(ConfigError) as caught:
        resolve(config_file=config)
    assert str(caught.value).endswith(
        "api_key: unknown key. Take it out. A key comes from a variable, such as OPENAI_API_KEY."
    )
    assert "sk-secret" not in str(caught.value)


def test_a_misspelt_setting_in_python_is_told_the_nearest_beside_all_other_faults() -> None:
    with pytest.raises(ConfigError) as caught:
        RunConfig(max_call=3, seed="x", nothing=1)  # type: ignore[call-arg, arg-type]
    wrong, misspelt, unknown = str(caught.value).splitlines()
    assert misspelt == "max_call: unknown setting. Did you mean 'max_calls'?"
    assert unknown.startswith("nothing: unknown setting. Known settings: ")
    assert wrong == "seed: expected a whole number, found 'x'."


def test_a_misspelt_setting_within_another_is_told_its_own_nearest() -> None:
    with pytest.raises(ConfigError, match=r"^agent\.search\.max_iteration: .* mean 'max_iterations'\?$"):
        ScienceConfig(task="x", agent={"search": {"max_iteration": 3}})  # type: ignore[arg-type]


def test_a_misspelt_trait_is_named_with_the_right_ones() -> None:
    said = r"unknown setting 'thinks'\. Did you mean 'thinks_first'\? Known settings: thinks_first, "
    with pytest.raises(UsageError, match=said):
        resolve(dataset=Path("datasets/triage.jsonl"), traits=["thinks=1"])


def test_rows_instead_of_a_file_are_told_where_they_go() -> None:
    with pytest.raises(
        ConfigError, match=r"^dataset: expected a path.* optimize\(config, rows=\[\.\.\.\]\)\.$"
    ):
        RunConfig(dataset=[{"input": "a", "target": "b"}])  # type: ignore[arg-type]


def test_an_option_of_the_metric_may_be_in_a_file(tmp_path: Path) -> None:
    (tmp_path / "rubric.txt").write_text("5: polite, helpful\n1: rude\n", encoding="utf-8")
    (tmp_path / "rows.jsonl").write_text('{"input": "a", "target": "b"}\n', encoding="utf-8")
    given: dict[str, Any] = {"dataset": tmp_path / "rows.jsonl", "prompt": "Reply.", "metric": "llm_judge"}
    options = (f"rubric=@{tmp_path / 'rubric.txt'}", "scale=5")
    found = resolve_record(CompleteConfig, {**given, "metric_options": options}, config_file=None, environ={})
    assert found.metric_options == {"rubric": "5: polite, helpful\n1: rude", "scale": 5}
    with pytest.raises(UsageError, match=r"@none\.txt: No such file or directory"):
        resolve_record(
            CompleteConfig, {**given, "metric_options": ("rubric=@none.txt",)}, config_file=None, environ={}
        )
