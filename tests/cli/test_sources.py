"""An error about a setting names what gave its value, and advises what fits there: whatever gave it."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

import pytest
from called import call
from pydantic.fields import FieldInfo

from autoprompt import CheckConfig, Models, RunConfig, check, estimate, evaluate
from autoprompt.cli import options
from autoprompt.errors import AutopromptError, Place, Problem, Voice, flag_name, tell, variable_name
from autoprompt.llm import ScriptedClient
from autoprompt.settings import user_file
from autoprompt.settings.places import placed, places_of
from autoprompt.settings.records import CallSettings
from autoprompt.settings.resolve import CompleteConfig, complete, resolve
from autoprompt.settings.sources import Placed, held_by_variables

SOURCES = ("flag", "set", "variable", "file", "user", "python")
ASKED = ("--dataset", "rows.jsonl", "--prompt", "A or B?", "--model", "m", "--base-url", "http://x/v1")
# Of settings whose type does not tell what would do.
VALUES: dict[str, Any] = {
    "dataset": "rows.jsonl",
    "train": "rows.jsonl",
    "val": "rows.jsonl",
    "test": "rows.jsonl",
    "metric": "contains",
    "metric_options": {"tolerance": 1},
    "traits": {"is_slow": True},
    "labels": ["yes", "no"],
    "traffic": "warm",
    "concurrency": 2,
    "model": "m",
}


@pytest.fixture(autouse=True)
def _in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    rows = [{"input": f"item {n}", "target": "AB"[n % 2]} for n in range(60)]
    Path("rows.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")


def value_of(name: str, field: FieldInfo) -> Any:
    """Return a value that a setting may have."""
    if name in VALUES:
        return VALUES[name]
    kinds = [field.annotation, *get_args(field.annotation)]
    if bool in kinds:
        return True
    if literal := next((kind for kind in kinds if get_origin(kind) is Literal), None):
        return get_args(literal)[0]
    if get_origin(field.annotation) is tuple:
        return ["word"]
    is_number = any(kind in (int, float) or "int" in str(kind) or "float" in str(kind) for kind in kinds)
    return 1 if is_number else "word"


def written(value: Any) -> str:
    """Return a value as a variable has it."""
    if isinstance(value, dict):
        return ",".join(f"{key}={json.dumps(part)}" for key, part in value.items())
    return ",".join(value) if isinstance(value, list) else str(value)


def given(source: str, name: str, value: Any) -> tuple[CompleteConfig, str]:
    """Return settings with one that a source gives, and what a message calls it."""
    base: dict[str, Any] = {} if name == "dataset" else {"dataset": "rows.jsonl"}
    flags = dict(base)
    environ: dict[str, str] = {}
    config_file, place = None, ""
    match source:
        case "flag":
            flags[name], place = value, flag_name(name)
        case "set":
            flags[name], place = Placed.assigned(name, value), f"--set {name}"
        case "variable":
            place = variable_name(name)
            environ[place] = written(value)
        case "file":
            config_file, place = Path("c.yaml"), f"c.yaml line 2: {name}"
            config_file.write_text(f"# settings\n{json.dumps(name)}: {json.dumps(value)}\n", encoding="utf-8")
        case "user":
            place = f"{user_file.path()} line 1: {name}"
            user_file.write({name: value})
        case "python":
            return complete(RunConfig(**base, **{name: value})), name
    return resolve(CompleteConfig, flags, config_file=config_file, environ=environ), place


def gives(source: str, name: str) -> bool:
    """Return whether a source can give a setting."""
    takers = {
        "flag": options.RUN_FLAGS,
        "variable": held_by_variables(RunConfig),
        "user": tuple(CallSettings.model_fields),
    }
    return name in takers.get(source, RunConfig.model_fields)


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("name", RunConfig.model_fields)
def test_what_is_found_wrong_later_is_told_of_the_source(name: str, source: str) -> None:
    """Whoever raises knows the name alone: the mechanism adds the place, also for a new setting."""
    if not gives(source, name):
        return
    settings, place = given(source, name, value_of(name, RunConfig.model_fields[name]))
    problem = placed(Problem("x.wrong", "it is wrong", Place(setting=name)), places_of(settings))
    voice = Voice.PYTHON if source == "python" else Voice.CLI
    assert tell(problem, voice) == f"{place}: it is wrong."
    copied = settings.model_copy(update={"seed": 3})
    assert places_of(copied) == places_of(settings)


CODES = {"AUTOPROMPT_BASE_URL": 2, "OPENAI_BASE_URL": 2, "AUTOPROMPT_MODEL": 3}
WRONG = {"seed": "many", "max_calls": 0, "preset": "quik", "price_input": "free", "no_cache": "maybe"}


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("name", WRONG)
def test_a_value_that_is_wrong_is_told_of_the_source(name: str, source: str) -> None:
    if not gives(source, name):
        return
    if source == "user":  # it is refused when it is set
        said = call("config", "set", name, str(WRONG[name]), code=3).stderr
        assert f"{name}: expected" in said
        return
    with pytest.raises(AutopromptError) as caught:
        given(source, name, WRONG[name])
    place = {
        "flag": flag_name(name),
        "set": f"--set {name}",
        "variable": variable_name(name),
        "file": f"c.yaml line 2: {name}",
        "python": name,
    }[source]
    voice = Voice.PYTHON if source == "python" else Voice.CLI
    assert caught.value.message(voice).startswith(f"{place}: expected ")


def told(
    command: str, source: str, name: str, value: str, monkeypatch: pytest.MonkeyPatch, code: int = 3
) -> str:
    """Return what a command says of a setting, with `(place)` for its source's place."""
    words: list[str] = [command, *ASKED]
    if command == "science":
        words = [command, "Why?", *ASKED[4:]]
    if command == "check":
        words += ["--baseline", "b.json", "--update-baseline"]
    place = flag_name(name)
    match source:
        case "flag":
            words += [flag_name(name), value]
        case "set":
            words += ["--set", f"{name}={value}"]
            place = f"--set {name}"
        case "variable":
            place = variable_name(name)
            monkeypatch.setenv(place, value)
        case "file":
            Path("c.yaml").write_text(f"{name}: {value}\n", encoding="utf-8")
            words += ["--config", "c.yaml"]
            place = f"c.yaml line 1: {name}"
        case "user":
            call("config", "set", name, value)
            place = f"{user_file.path()} line 1: {name}"
    said: str = call(*words, code=code).stderr
    assert f"error: {place}: " in said
    return said


@pytest.mark.parametrize(
    ("source", "fix"),
    [
        ("set", "Give --set price_output=VALUE too"),
        ("variable", "Give AUTOPROMPT_PRICE_OUTPUT too"),
        ("file", "Give price_output too"),
        ("user", "Give price_output too"),
    ],
)
@pytest.mark.parametrize("command", ["run", "eval", "check", "science"])
def test_a_price_alone_is_told_of_its_source_by_every_command(
    command: str, source: str, fix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert fix in told(command, source, "price_input", "1", monkeypatch)


@pytest.mark.parametrize(
    ("source", "fix"),
    [
        ("flag", "Give --max-calls 140 or more, or use fewer rows with --set max_test=VALUE"),
        ("set", "Give --set max_calls=140 or more, or use fewer rows with --set max_test=VALUE"),
        ("variable", "Give AUTOPROMPT_MAX_CALLS=140 or more, or use fewer rows with AUTOPROMPT_MAX_TEST"),
        ("file", "Give max_calls: 140 or more, or use fewer rows with max_test"),
        ("user", "Give max_calls: 140 or more, or use fewer rows with max_test"),
    ],
)
def test_advice_is_what_fits_the_source(source: str, fix: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert fix in told("run", source, "max_calls", "3", monkeypatch)


@pytest.mark.parametrize(
    ("command", "text", "said"),
    [
        ("eval", "max_calls: 3", "max_calls: 3 is too small: the evaluation needs 60."),
        ("run", "max_prompt_tokens: 1", "max_prompt_tokens: your prompt has about "),
    ],
)
def test_a_dry_run_warns_of_the_source(command: str, text: str, said: str) -> None:
    Path("c.yaml").write_text(f"{text}\n", encoding="utf-8")
    shown = call(command, *ASKED, "--config", "c.yaml", "--dry-run").stdout
    assert f"warning: c.yaml line 1: {said}" in shown


@pytest.mark.parametrize(
    ("variable", "value", "said"),
    [
        ("AUTOPROMPT_BASE_URL", "ftp://x", "base URL 'ftp://x' is not an http(s) address."),
        ("OPENAI_BASE_URL", "ftp://x", "base URL 'ftp://x' is not an http(s) address."),
        ("AUTOPROMPT_MODEL", "local:none", "there is no embedded model 'none'."),
    ],
)
def test_a_model_or_an_address_that_will_not_do_is_told_of_the_source(
    variable: str, value: str, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable, value)
    model = () if variable == "AUTOPROMPT_MODEL" else ("--model", "m")
    for command in (("run", "--dry-run"), ("eval", "--dry-run")):
        assert f"error: {variable}: {said}" in call(*command, *ASKED[:4], *model, code=CODES[variable]).stderr


def test_a_check_warns_of_the_source(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AUTOPROMPT_TEMPERATURE", "1")
    settings = resolve(
        CompleteConfig, {"dataset": "rows.jsonl", "prompt": "A or B?"}, environ=dict(os.environ)
    )
    models, limits = Models(ScriptedClient(lambda _: "A")), CheckConfig(baseline=Path("b.json"))
    warnings = check(settings, limits, is_update=True, models=models).warnings
    assert [problem.place for problem in warnings if problem.code == "check.noise"] == [
        Place(setting="AUTOPROMPT_TEMPERATURE", source="variable")
    ]


@pytest.mark.parametrize(
    ("source", "place"),
    [
        ("own", "b.yaml line 2: seed=0: max_calls"),
        ("defaults", "b.yaml line 2: seed=0: defaults.max_calls"),
        ("variable", "b.yaml line 2: seed=0: AUTOPROMPT_MAX_CALLS"),
    ],
)
def test_a_batch_tells_of_the_source_of_a_trials_setting(
    source: str, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    base: dict[str, Any] = {
        "dataset": "rows.jsonl",
        "prompt": "A or B?",
        "model": "m",
        "base_url": "http://x",
    }
    own: dict[str, Any] = {"seed": 0}
    if source == "variable":
        monkeypatch.setenv("AUTOPROMPT_MAX_CALLS", "3")
    else:
        (own if source == "own" else base)["max_calls"] = 3
    text = f"defaults: {json.dumps(base)}\ninclude: [{json.dumps(own)}]\n"
    Path("b.yaml").write_text(text, encoding="utf-8")
    said = call("batch", "b.yaml", code=3).stderr
    assert place.partition("seed")[0] in said
    assert f"{place.rpartition(' ')[2]}: 3 calls are too few" in said


def test_a_variable_that_is_wrong_is_told_once_for_all_trials(monkeypatch: pytest.MonkeyPatch) -> None:
    Path("b.yaml").write_text("defaults: {dataset: rows.jsonl, prompt: x}\nmatrix: {seed: [0, 1]}\n")
    monkeypatch.setenv("AUTOPROMPT_TEMPERATURE", "3")
    said = call("batch", "b.yaml", code=3).stderr
    assert said.endswith("\nerror: AUTOPROMPT_TEMPERATURE: expected 2.0 or less, found '3'.\n")


def test_each_option_of_a_metric_is_told_of_its_own_source(monkeypatch: pytest.MonkeyPatch) -> None:
    Path("c.yaml").write_text("metric: numeric\nmetric_options:\n  tolerance: wide\n")
    run = ("run", *ASKED, "--config", "c.yaml", "--metric-option", "absolute=0.1")
    said = call(*run, code=3).stderr
    assert "error: c.yaml line 2: metric_options.tolerance: metric numeric: expected a number" in said
    monkeypatch.setenv("AUTOPROMPT_METRIC_OPTIONS", "tolerance=x")
    assert "error: AUTOPROMPT_METRIC_OPTIONS tolerance: metric numeric" in call(*run, code=3).stderr


def test_python_and_the_file_beside_the_data_are_told_apart() -> None:
    config = RunConfig(
        dataset=Path("rows.jsonl"), prompt="A or B?", model="m", base_url="http://x", price_input=1
    )
    for ask in (estimate, evaluate):
        with pytest.raises(AutopromptError, match=r"^price_input: .* Give price_output too"):
            ask(config)
    Path("rows.task.yaml").write_text("prompt: A or B?\nmetric: numberic\n")
    with pytest.raises(AutopromptError, match=r"^rows\.task\.yaml line 2: metric: unknown metric"):
        estimate(RunConfig(dataset=Path("rows.jsonl"), model="m", base_url="http://x"))


CONFIG_SET: Mapping[str, str] = {
    "preset": "error: preset: only models, prices and limits can be set for all runs. "
    "Give it to each run, or in its config file.",
    "max_call": "error: max_call: unknown setting. Did you mean 'max_calls'?",
}


@pytest.mark.parametrize("name", CONFIG_SET)
def test_what_is_not_for_all_runs_is_refused_in_plain_words(name: str) -> None:
    assert call("config", "set", name, "quick", code=2).stderr.endswith(f"\n{CONFIG_SET[name]}\n")


def test_a_switch_that_is_given_twice_is_named_as_it_was_typed() -> None:
    for flag in ("--memory", "--no-memory"):
        said = call("run", *ASKED, "--set", "no_memory=true", flag, code=2).stderr
        assert f"error: --set no_memory: cannot be combined with {flag}. Give one of them." in said
