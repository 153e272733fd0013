"""The options of the commands: few, in panels, and `--set` for every other setting."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import typer
from called import call
from typer.testing import CliRunner

from autoprompt.cli import COMMANDS, GROUPS, load_command, options
from autoprompt.errors import SET_ONLY, ConfigError, UsageError, Voice
from autoprompt.settings.kinds import Panel
from autoprompt.settings.records import RunConfig, ScienceConfig
from autoprompt.settings.resolve import resolve, resolve_models
from autoprompt.settings.sources import Placed, read_assignments

TAKERS = {
    "run": (options.RUN_FLAGS, options.RUN),
    "eval": (options.EVALUATION_FLAGS, options.EVALUATION),
    "check": (options.CHECK_FLAGS, options.CHECK),
    "science": (options.SCIENCE_FLAGS, options.SCIENCE),
    "flow": (options.FLOW_FLAGS, options.FLOW),
}

MOST = 40


def help_of(*command: str) -> dict[str, list[str]]:
    """Return the first words of each line of a panel, by panel, as `--help` shows them."""
    found: dict[str, list[str]] = {}
    panel = ""
    for line in call(*command, "--help").stdout.splitlines():
        if re.fullmatch(r"[A-Z][\w ]*:", line):
            panel = line[:-1]
        elif panel and re.match(r"  -", line):
            found.setdefault(panel, []).append(line.split()[0].rstrip(","))
    return found


def test_the_help_of_run_is_short_and_in_panels() -> None:
    panels = help_of("run")
    assert list(panels) == [*(panel for panel in Panel if panel not in (Panel.GATE, Panel.EXPERIMENTS))]
    assert {"--program", "--prompts-file", "--allow-effects"} < {*panels[Panel.PROGRAM]}
    assert sum(map(len, panels.values())) <= MOST
    assert panels["Budget"] == ["--max-calls", "--max-tokens", "--max-cost", "--max-seconds"]
    assert panels["Start here"][-2:] == ["--config", "--dry-run"]
    assert panels["Output"][-1] == "-h"


@pytest.mark.parametrize("command", ["eval", "check", "batch", "flow run", "science", "resume"])
def test_other_commands_have_panels_and_fewer_options_than_run_may(command: str) -> None:
    panels = help_of(*command.split())
    assert set(panels) <= set(Panel)
    assert 4 < sum(map(len, panels.values())) <= MOST


@pytest.mark.parametrize("name", TAKERS)
def test_what_a_command_takes_without_a_flag_is_told_with_set(name: str) -> None:
    flags, takes = TAKERS[name]
    assert takes.keys() - set(flags) <= SET_ONLY
    assert set(flags) <= takes.keys()


def test_every_command_is_in_one_group_of_the_help_page() -> None:
    names = [name for group in GROUPS.values() for name in group]
    assert sorted(names) == sorted(set(names)) == sorted(COMMANDS)
    page = call("--help").stdout
    assert re.findall(r"^([A-Z][\w ]+):$", page, re.MULTILINE)[1:] == list(GROUPS)


def test_help_texts_are_short_phrases() -> None:
    """At most eighteen words, no default in the prose, no `Of ...`."""
    for name in COMMANDS:
        command = load_command(name)
        for one in (command, *getattr(command, "commands", {}).values()):
            for parameter in one.params:
                text = getattr(parameter, "help", None) or ""
                plain = re.sub(r" \[default: .*\]$", "", text)
                assert "default" not in plain, (name, text)
                assert not plain.startswith(("Of ", "What ", "Where ", "Who ", "How ", "At most ")), text
                assert len(plain.split()) <= 18, (name, text)


def assigned(*texts: str, record: Any = RunConfig) -> dict[str, Any]:
    return read_assignments(texts, record.model_fields)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("max_val=100", 100),
        ("max-val=100", 100),
        ("price_input=0.15", 0.15),
        ("drop_leaks=true", True),
        ("task=a: b # c", "a: b # c"),
        ('task="a: b"', "a: b"),
        ("model=4", "4"),
        ("constrain=off", "off"),
        ("dataset=a, b.csv", "a, b.csv"),
        ("locked=[a, b c]", ["a", "b c"]),
        ("labels=[yes, no, 010]", ["yes", "no", "010"]),
        ("metric_options.x=2024-01-01", {"x": "2024-01-01"}),
        ("locked=one passage", "one passage"),
        ("labels=0,1", "0,1"),
        ("metric_options={pattern: x}", {"pattern": "x"}),
        ("metric_options.pattern=x=y", {"pattern": "x=y"}),
    ],
)
def test_a_value_is_read_as_in_yaml_and_a_text_as_it_is(text: str, value: object) -> None:
    assert list(assigned(text).values()) == [value]


def test_parts_of_a_setting_are_put_together() -> None:
    texts = ("traits.is_slow=true", "traits.optimizer.is_slow=false", "traits.window_tokens=9")
    assert assigned(*texts) == {
        "traits": {"is_slow": True, "optimizer": {"is_slow": False}, "window_tokens": 9}
    }


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("max_vall=1", "--set max_vall: unknown setting. Did you mean 'max_val'?"),
        ("max_val.x=1", "--set max_val.x: unknown setting."),
        ("experiment_seconds=1", "--set experiment_seconds: this command has no such setting. Take it out."),
        ("max_val", "--set: expected NAME=VALUE, found 'max_val'. Write it like max_val=100."),
        ("=1", "--set: expected NAME=VALUE, found '=1'. Write it like max_val=100."),
        ("max_val=", "--set max_val: the value is empty. Give a value, or leave the setting out."),
        ("max_val=[1", "--set max_val: expected a value as in YAML, found '[1'."),
    ],
)
def test_a_wrong_assignment_is_a_sentence(text: str, said: str) -> None:
    with pytest.raises(UsageError) as caught:
        assigned(text)
    assert caught.value.message(Voice.CLI).startswith(said)


def test_a_wrong_value_is_told_as_it_was_given() -> None:
    def told(name: str, value: object) -> str:
        with pytest.raises(UsageError) as caught:
            resolve_models({name: value}, config_file=None, environ={})
        return caught.value.message(Voice.CLI)

    found = "expected a number above 0, found 0."
    assert told("max_val", Placed.assigned("max_val", 0)) == f"--set max_val: {found}"
    assert told("max_calls", 0) == f"--max-calls: {found}"
    with pytest.raises(UsageError, match=r"^max_iterations: expected") as caught:
        resolve(ScienceConfig, {"task": "x", "max_iterations": 0}, config_file=None, environ={})
    assert caught.value.message(Voice.CLI).startswith("--max-iterations: expected")


ONE_RUN = ("run", "--model", "m", "--base-url", "http://x", "--dry-run")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("traits=5", "--set traits: expected keys with values below it, found 5."),
        ("traits=[1]", "--set traits: expected keys with values below it, found [1]."),
        ("metric_options=5", "--set metric_options: expected keys with values below it, found 5."),
        ("metric_options=[1]", "--set metric_options: expected keys with values below it, found [1]."),
        ("prompt=[1, 2]", "--set prompt: expected a text, found [1, 2]."),
        ("memory_file=false", "--set memory_file: expected a path, found False."),
        ("cache_dir=true", "--set cache_dir: expected a path, found True."),
        ("runs_dir=true", "--set runs_dir: expected a path, found True."),
        ("labels=','", "--set labels: the value is empty."),
    ],
)
def test_a_value_of_the_wrong_kind_is_told_as_in_a_config_file(
    text: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("rows.csv").write_text("input,target\n" + "".join(f"row {n},{n % 2}\n" for n in range(60)))
    prompt = () if text.startswith("prompt") else ("--prompt", "odd?")
    found = call(*ONE_RUN, *prompt, "--dataset", "rows.csv", "--set", text, code=2).stderr
    assert f"error: {said}" in found


def test_a_variable_for_a_path_is_no_truth_value(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError, match=r"^AUTOPROMPT_MEMORY_FILE: expected a path, found False"):
        resolve_models({}, config_file=None, environ={"AUTOPROMPT_MEMORY_FILE": "false"})
    for value in ("2024", "no", "~"):
        assert resolve_models({}, config_file=None, environ={"AUTOPROMPT_RUNS_DIR": value})
    assert assigned('memory_file="false"') == {"memory_file": "false"}
    assert resolve_models(
        {}, config_file=None, environ={"AUTOPROMPT_MEMORY_FILE": "a.txt"}
    ).memory_file == Path("a.txt")


def test_set_goes_before_the_config_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("rows.csv").write_text("input,target\n" + "".join(f"row {n},{n % 2}\n" for n in range(60)))
    Path("c.yaml").write_text("dataset: rows.csv\nprompt: odd?\nmax_val: 20\nmax_test: 11\nmodel: local\n")
    run = ("run", "--config", "c.yaml", "--dry-run", "--json")
    found = json.loads(call(*run, "--set", "max_test=12").stdout)
    assert (found["sizes"]["val"], found["sizes"]["test"]) == (20, 12)
    twice = call(*run, "--seed", "1", "--set", "seed=2", code=2)
    assert "--set seed: cannot be combined with --seed. Give one of them." in twice.stderr
    gone = call(*run, "--max-test", "12", code=2).stderr
    assert "No such option: --max-test" in gone
    assert "Use --set max_test=VALUE." in gone


def test_a_switch_of_the_config_file_is_turned_on_again() -> None:
    given: list[dict[str, Any]] = []

    @options.with_settings(("no_cache", "no_test"), options.RUN)
    def command(*, flags: dict[str, Any]) -> None:
        given.append(flags)

    app = typer.Typer()
    app.command()(command)
    for arguments in ([], ["--cache"], ["--no-cache", "--no-test"], ["--set", "no_memory=false"]):
        assert CliRunner().invoke(app, arguments).exit_code == 0
    assert given == [
        {},
        {"no_cache": False},
        {"no_cache": True, "no_test": True},
        {"no_memory": Placed.assigned("no_memory", False)},
    ]


def test_a_setting_of_science_is_known_by_its_own_record() -> None:
    assert assigned("context_tokens=9", record=ScienceConfig) == {"context_tokens": 9}


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("last", ("last", None)),
        ("last:best", ("last", None)),
        ("last:original", ("last", "original")),
        ("20261127-005244-clickbait-7e78:26169d", ("20261127-005244-clickbait-7e78", "26169d")),
        ("runs/a:b/x", ("runs/a:b/x", None)),
        ("last:zzz", ("last", "zzz")),
        ("best.yaml", Path("best.yaml")),
        ("p/best.json", Path("p/best.json")),
    ],
)
def test_from_names_a_run_a_candidate_or_a_file(text: str, found: object) -> None:
    assert options.made(text) == found


@pytest.mark.parametrize("text", ["Say 1 or 0.", "{headline}", "@p.txt", "p.txt", "@best.txt"])
def test_from_takes_no_text_for_a_run(text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("p.txt").write_text("Say 1 or 0.")
    with pytest.raises(UsageError, match=r"prompt=") as caught:
        options.made(text)
    assert caught.value.message(Voice.CLI).startswith("--from: ")


@pytest.mark.parametrize("text", ["last", "last:original", "20261127-005244-clickbait-7e78"])
def test_a_run_is_not_taken_for_the_text_of_a_prompt(text: str) -> None:
    said = call("eval", "--dataset", "clickbait.jsonl", "--prompt", text, code=3).stderr
    assert f"--prompt: {text} is the name of a run. Give its prompt by --from {text}. If" in said


def test_a_check_measures_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    said = call("check", "--dataset", "rows.csv", "--from", "last:ab", code=2).stderr
    assert "Export it first: autoprompt runs export last:ab --to prompt.yaml" in said


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ("run --context-tokens 5", "No such option: --context-tokens"),
        ("run --allow-conflicts", "Use --set allow_conflicts=true."),
        ("run --drop-leaks", "Use --set drop_leaks=true."),
        ("run --memory exp.txt", "--memory takes no value. Use --set memory_file=exp.txt."),
        ("eval --run last", "Use --from RUN."),
        ("eval --candidate ab", "Use --from RUN:CANDIDATE."),
        ("eval --exported b.yaml", "Use --from FILE.yaml."),
        ("check --exported b.yaml", "Use --from FILE.yaml."),
        ("runs export last --candidate ab", "Use autoprompt runs export RUN:CANDIDATE."),
        ("flow run f.yaml --resume last", "Use autoprompt resume RUN."),
        ("science resume last", "Use autoprompt resume last."),
        ("resume last --tools t.py", "Only a run of `flow run` takes it, as --set tools=VALUE; others"),
        ("resume last --no-cache", "Only a run of `flow run` takes it, as --set no_cache=true; others"),
        ("run --set json=true", "--set json: this is a flag, not a setting. Give it as --json."),
        ("run --set traits.is_slow=maybe --dataset r.csv --prompt x", "--set traits.is_slow: expected true"),
    ],
)
def test_a_form_that_is_not_there_leads_to_the_one_that_is(
    arguments: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("r.csv").write_text("input,target\na,1\n")
    found = call(*arguments.split(), code=2).stderr
    assert said in found
