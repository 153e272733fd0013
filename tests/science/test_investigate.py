"""The passes as the source document tells them, with a scripted model and real experiments."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from three_passes import FIRST, LAST, MEAN, SECOND

from autoprompt import Models, ScienceConfig
from autoprompt.cli.science import result
from autoprompt.errors import BudgetTooSmallError, ConfigError, EndpointError, StoreError
from autoprompt.llm import ScriptedClient
from autoprompt.llm.client import Completion, Options
from autoprompt.optimizer import api
from autoprompt.records import Message, Usage
from autoprompt.runs import RunFolder
from autoprompt.sandbox import SandboxError
from autoprompt.science import Investigation, investigate
from autoprompt.settings.records import AgentSettings, PassSettings
from autoprompt.settings.resolve import resolve

TASK, IO = "计算乘客数据集的平均票价", "保存到 output.txt"


def experiment(code: str, *, tag: str = "Inference") -> str:
    return f"<{tag}>\nseen\n</{tag}>\n\n<Experiment>\n{code}\n</Experiment>"


def config(**settings: Any) -> ScienceConfig:
    return ScienceConfig.model_validate({"task": "Count.", "no_cache": True, **settings})


def run(answers: list[Any], *, on_event: Any = None, **settings: Any) -> tuple[Investigation, ScriptedClient]:
    client = ScriptedClient(answers)
    return api.investigate(config(**settings), models=Models(client), on_event=on_event), client


def test_three_passes_are_the_example_of_the_source(passengers: Path, tmp_path: Path) -> None:
    client = ScriptedClient([FIRST, SECOND, LAST])
    work = tmp_path / "work"
    found = investigate(TASK, io=IO, data=[passengers], client=client, max_iterations=3, workdir=work)
    said = (
        f"{FIRST}\n\n<Observation>\nMean fare: {MEAN}\n</Observation>\n\n"
        f"{SECOND}\n\n<Observation>\nSaved\n</Observation>\n\n{LAST}"
    )
    wanted = [
        {"role": "user", "content": f"{TASK}\n\nI/O Requirements:\n{IO}"},
        {"role": "assistant", "content": said},
    ]
    assert list(found.messages) == wanted
    assert json.loads((Path(found.run_dir) / "transcript.json").read_text(encoding="utf-8")) == wanted
    assert (work / "output.txt").read_text(encoding="utf-8") == "29.52"
    assert found.conclusion == "平均票价为 29.52，已保存到 output.txt"
    assert [(p.exit_code, p.observation) for p in found.passes] == [
        (0, f"Mean fare: {MEAN}"),
        (0, "Saved"),
        (None, None),
    ]
    assert (found.stopped_early, found.new_files, found.calls) == (False, ("output.txt",), 3)
    assert found.usage.total_tokens == sum(p.usage.total_tokens for p in found.passes) > 0
    script = Path(found.run_dir) / "passes" / "pass-01.py"
    assert "Mean fare" in script.read_text(encoding="utf-8")
    page = (Path(found.run_dir) / "transcript.md").read_text(encoding="utf-8")
    assert "## Pass 2" in page
    assert "new files: output.txt" in page


@pytest.mark.parametrize(("passes", "experiments"), [(1, 1), (2, 1), (3, 2), (5, 4)])
def test_the_last_pass_runs_nothing(passes: int, experiments: int) -> None:
    answers = [experiment(f"print({n})") for n in range(experiments)] + [
        "<Inference>x</Inference><Experiment>print('never')</Experiment><Conclusion>done</Conclusion>"
    ]
    found, client = run(answers, max_iterations=passes)
    assert (found.conclusion, found.stopped_early) == ("done", False)
    assert [p.observation for p in found.passes] == [*map(str, range(experiments)), None]
    assert len(client.calls) == experiments + 1
    assert "never" not in found.messages[1]["content"]


def test_the_default_is_five_passes() -> None:
    _, client = run([experiment("print(1)")] * 4 + [LAST])
    assert len(client.calls) == 5
    assert ScienceConfig(task="t").agent.search.max_iterations == 5


def passes_of(config: ScienceConfig) -> list[int]:
    """What the record says, what the run says, and how many passes there were."""
    said: list[int] = []

    def hear(event: dict[str, Any]) -> None:
        if event["event"] == "investigation_started":
            said.append(event["max_iterations"])

    client = ScriptedClient([experiment("print(1)")] * (config.agent.search.max_iterations - 1) + [LAST])
    found = api.investigate(config, models=Models(client), on_event=hear)
    kept = RunFolder(Path(found.run_dir)).read_config()["agent"]["search"]["max_iterations"]
    return [config.agent.search.max_iterations, *said, kept, len(found.passes)]


def test_the_number_of_passes_is_one_number_however_it_was_given(tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    file.write_text("agent:\n  search:\n    max_iterations: 2\n", encoding="utf-8")
    given = {"task": "t", "no_cache": True}
    assert passes_of(resolve(ScienceConfig, given, config_file=file, environ={})) == [2] * 4
    assert (
        passes_of(resolve(ScienceConfig, {**given, "max_iterations": 3}, config_file=file, environ={}))
        == [3] * 4
    )
    environ = {"AUTOPROMPT_MAX_ITERATIONS": "4"}
    assert passes_of(resolve(ScienceConfig, given, config_file=file, environ=environ)) == [4] * 4
    assigned = config()
    assigned.agent.search.max_iterations = 2
    assert passes_of(assigned) == [2] * 4
    assert passes_of(config(max_iterations=3)) == [3] * 4
    assert passes_of(config(max_iterations=3).model_copy(update={"max_iterations": 2})) == [2] * 4


def test_an_assigned_number_is_that_of_one_record_alone() -> None:
    search = PassSettings(max_iterations=3)
    first, second = (config(agent=AgentSettings(search=search)) for _ in range(2))
    copied = first.model_copy()
    first.agent.search.max_iterations = 7
    numbers = [one.agent.search.max_iterations for one in (first, second, copied, config(), ScienceConfig())]
    assert numbers == [7, 3, 3, 5, 5]
    assert search.max_iterations == 3


def test_a_record_made_of_another_s_fields_has_its_number() -> None:
    for made in (config(), config(max_iterations=3), config(agent=AgentSettings())):
        assert ScienceConfig(**made.model_dump()).agent.search.max_iterations in (3, 5)
        made.agent.search.max_iterations = 7
        again = ScienceConfig(**made.model_dump())
        assert again.agent.search.max_iterations == 7
        assert again.max_iterations in (None, 7)


def test_a_number_that_is_none_cannot_be_assigned() -> None:
    made = config()
    with pytest.raises(ConfigError, match=r"^max_iterations: expected a number above 0, found 0\."):
        made.agent.search.max_iterations = 0
    assert made.agent.search.max_iterations == 5


def test_a_number_that_changes_during_a_run_is_not_the_runs(tmp_path: Path) -> None:
    made = config(max_iterations=3)

    def change(event: dict[str, Any]) -> None:
        made.agent.search.max_iterations = 9

    client = ScriptedClient([experiment("print(1)"), experiment("print(2)"), LAST])
    assert len(api.investigate(made, models=Models(client), on_event=change).passes) == 3


def test_a_middle_pass_without_an_experiment_stops_early() -> None:
    found, client = run([experiment("print(1)"), "<Inference>enough</Inference>", LAST], max_iterations=5)
    assert (found.stopped_early, found.stop_reason) == (True, "no_experiment")
    assert found.conclusion == "平均票价为 29.52，已保存到 output.txt"
    assert len(client.calls) == 3
    assert "<Inference>\nenough\n</Inference>" in found.messages[1]["content"]


def test_an_early_conclusion_ends_the_run() -> None:
    found, client = run([experiment("print(1)"), LAST], max_iterations=5)
    assert (found.stopped_early, found.stop_reason, len(client.calls)) == (True, "concluded", 2)


def test_what_follows_an_experiment_is_not_yet_observed() -> None:
    """A conclusion behind the code of the same answer has seen nothing, so it is no conclusion."""
    found, _ = run([experiment("print(7)") + "\n<Conclusion>8</Conclusion>", LAST], max_iterations=2)
    assert found.passes[0].observation == "7"
    assert "8" not in found.messages[1]["content"]


def test_an_observation_that_the_model_makes_up_is_cut_and_recorded() -> None:
    made_up = experiment("print(7)") + "\n<Observation>\n99\n</Observation>\n<Conclusion>99</Conclusion>"
    found, _ = run([made_up, LAST], max_iterations=2)
    text = found.messages[1]["content"]
    assert "99" not in text
    assert text.count("<Observation>") == 1
    assert [p.has_own_observation for p in found.passes] == [True, False]
    assert "99" in found.passes[0].answer


def test_an_observation_is_a_stop_sequence() -> None:
    stops = []

    def answer(messages: list[Message], options: Options) -> str:
        stops.append(options.stop)
        return LAST if len(stops) == 2 else experiment("print(1)")

    api.investigate(config(max_iterations=2), models=Models(ScriptedClient(answer)))
    assert len(stops) == 2
    assert all("<Observation>" in stop for stop in stops)


@pytest.mark.parametrize(
    ("code", "seen"),
    [
        ("1 / 0", "ZeroDivisionError"),
        ("print(1", "SyntaxError"),
        ("import sys; print('a'); print('b', file=sys.stderr)", "exit code: 0\nstdout:\na\nstderr:\nb"),
        ("open('x.txt', 'w').close()", "(no output)\nnew files: x.txt"),
        ("raise SystemExit(3)", "exit code: 3"),
    ],
)
def test_code_that_fails_is_an_observation(code: str, seen: str) -> None:
    found, client = run([experiment(code), LAST], max_iterations=2)
    assert seen in (found.passes[0].observation or "")
    assert found.conclusion
    assert seen in client.calls[1][1].content
    # Nothing of the machine reaches the model, so that the same run asks the same.
    assert str(Path.cwd()) not in client.calls[1][1].content


def test_passes_share_the_folder_and_not_the_interpreter(passengers: Path) -> None:
    first = experiment("x = 1\nopen('kept.txt', 'w').write('here')\nprint('ok')")
    second = experiment(
        "import os\nprint('x' in globals(), open('kept.txt').read(), os.path.exists('passengers.csv'))"
    )
    found, client = run([first, second, LAST], max_iterations=3, data=(passengers,))
    assert found.passes[1].observation == "False here True"
    assert "variables do not" in client.calls[0][0].content
    assert passengers.read_text(encoding="utf-8").startswith("Name,Sex")


def test_the_first_request_tells_what_the_data_holds(passengers: Path) -> None:
    _, client = run([experiment("print(1)"), LAST], max_iterations=2, data=(passengers,), task="Mean fare?")
    asked = client.calls[0][0].content
    assert "passengers.csv" in asked
    assert "Ada,female,22" in asked
    assert "Mean fare?" in asked


def test_a_second_run_takes_its_answers_from_the_cache(tmp_path: Path) -> None:
    """No time, no path and no id of the run is in a request."""
    sent = []
    for _ in range(2):
        client = ScriptedClient([experiment("1 / 0"), LAST], identity="test")
        found = api.investigate(
            config(max_iterations=2, no_cache=False, cache_dir=tmp_path / "cache"), models=Models(client)
        )
        sent.append(len(client.calls))
    assert sent == [2, 0]
    assert found.conclusion
    assert found.calls == 0


def test_a_cap_on_calls_keeps_the_one_for_the_conclusion() -> None:
    found, client = run([experiment("print(1)"), experiment("print(2)"), LAST], max_iterations=9, max_calls=3)
    assert (len(client.calls), found.stop_reason, found.stopped_early) == (3, "max_calls", True)
    assert found.conclusion
    with pytest.raises(BudgetTooSmallError, match="Give max_calls=2 or more"):
        run([LAST], max_calls=1)


def test_a_cap_on_tokens_may_end_the_run_without_a_conclusion() -> None:
    answer = Completion(experiment("print(1)"), Usage(900, 200))
    found, _ = run([answer], max_iterations=4, max_tokens=1000)
    assert (found.conclusion, found.stop_reason) == ("", "max_tokens")
    assert found.passes[0].observation == "1"


def test_nothing_is_left_of_a_run_that_nothing_answered(tmp_path: Path) -> None:
    dead = ScriptedClient([EndpointError("gone", is_fatal=True)])
    with pytest.raises(EndpointError):
        api.investigate(config(), models=Models(dead))
    assert not [p for p in (tmp_path / "runs").iterdir() if p.is_dir()]


def test_strict_refuses_before_anything_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    from autoprompt.sandbox import Level, choose

    weaker = Level(landlock=4, seccomp=True)
    monkeypatch.setattr("autoprompt.science.run.choose", lambda level: choose(level, lambda: weaker))
    client = ScriptedClient([])
    with pytest.raises(SandboxError, match="strict needs namespaces"):
        api.investigate(config(sandbox="strict"), models=Models(client))
    assert not client.calls
    assert not (Path.cwd() / "runs").exists()


def test_a_missing_data_file_is_named() -> None:
    with pytest.raises(SandboxError, match=r"nowhere\.csv"):
        run([], data=(Path("nowhere.csv"),))


def test_a_conclusion_without_tags_is_a_conclusion() -> None:
    found, _ = run([experiment("print(1)"), "It is 1."], max_iterations=2)
    assert found.conclusion == "It is 1."
    assert found.messages[1]["content"].endswith("<Conclusion>\nIt is 1.\n</Conclusion>")


@pytest.mark.parametrize(
    ("last", "conclusion", "told"),
    [
        ("<Inference>3</Inference><Observation>so it is</Observation>", "3", "its Inference is shown"),
        ("<Inference>3</Inference>", "3", "wrote no conclusion; its Inference is shown instead"),
        (
            "<Observation><Conclusion>3</Conclusion></Observation>",
            "",
            "made up an Observation instead of its conclusion",
        ),
        ("Three.<Observation>x</Observation>", "Three.", "the text before it is shown as the conclusion"),
    ],
)
def test_an_answer_without_a_conclusion_is_told_as_one(last: str, conclusion: str, told: str) -> None:
    found, _ = run([experiment("print(3)"), last], max_iterations=2)
    assert found.conclusion == conclusion
    assert [told in str(warning) for warning in found.warnings] == [True]


CUT = Completion("<Inference>\nseen\n</Inference>\n\n<Experiment>\nprint((1 +", finish_reason="length")


def test_a_cut_answer_is_told_to_the_model_and_once_to_the_user() -> None:
    events: list[dict[str, Any]] = []
    found, client = run(
        [CUT, CUT, experiment("print(2)"), LAST],
        max_iterations=4,
        max_output_tokens=700,
        on_event=lambda event: events.append(dict(event)),
    )
    asked = [messages[-1].content for messages in client.calls]
    told = "Your last answer was too long and broke off"
    assert [told in text for text in asked] == [False, True, True, False]
    assert not any("The last experiment failed" in text for text in asked)
    warning, lost = found.warnings
    assert str(lost).startswith("task: 2 of 4 answers of scripted were cut off or empty")
    assert str(warning) == "the answer of pass 1 was cut at its limit of 700 tokens. Raise max_output_tokens."
    assert [event["message"] for event in events if event["event"] == "warning"] == [str(warning)]
    assert [record.is_cut for record in found.passes] == [True, True, False, False]
    page = (Path(found.run_dir) / "transcript.md").read_text(encoding="utf-8")
    assert page.count("_The answer was cut at its limit._") == 2


def test_a_cut_conclusion_is_warned_of() -> None:
    cut = Completion("<Inference>seen</Inference><Conclusion>It is twen", finish_reason="length")
    found, _ = run([experiment("print(1)"), cut], max_iterations=2)
    assert found.conclusion == "It is twen"
    assert [str(warning)[:41] for warning in found.warnings] == [
        "the answer of pass 2 was cut at its limit",
        "task: 1 of 2 answers of scripted were cut",
    ]


NOTHING = [""] * 3  # an empty answer is asked for again, twice
LARGE = Usage(900, 200)


@pytest.mark.parametrize(
    ("answers", "settings", "told"),
    [
        ([*NOTHING, *NOTHING], {}, "every answer of the model was empty"),
        ([experiment("print(3)"), *NOTHING, *NOTHING], {}, "the model gave none when asked"),
        ([experiment("print(3)"), *NOTHING], {"max_iterations": 2}, "the model gave none when asked"),
        ([experiment("print(3)"), ""], {"max_calls": 2}, "the model gave none when asked"),
        (
            [Completion("", LARGE)],
            {"max_tokens": 1000},
            "a pass contained no experiment, and a limit",
        ),
        (
            [Completion(experiment("print(3)"), LARGE)],
            {"max_tokens": 1000},
            "the run reached the cap on tokens first",
        ),
    ],
)
def test_why_there_is_no_conclusion_is_told(answers: list[Any], settings: Any, told: str) -> None:
    found, _ = run(answers, **{"max_iterations": 5, **settings})
    (line, *_) = result(found)
    assert str(line).startswith(f"No conclusion: {told}")


def test_a_finished_run_is_not_resumed_but_shown(passengers: Path) -> None:
    found, _ = run([experiment("print(1)"), LAST], max_iterations=2)
    again = api.resume(found.run_id, models=Models(ScriptedClient([])))
    assert again == found


def test_a_run_whose_data_has_changed_does_not_go_on(passengers: Path) -> None:
    client = ScriptedClient([experiment("print(1)"), EndpointError("gone", is_fatal=True)])
    with pytest.raises(EndpointError):
        api.investigate(config(data=(passengers,)), models=Models(client))
    passengers.write_text("Name\nZoe\n", encoding="utf-8")
    with pytest.raises(StoreError, match=r"passengers\.csv: run .* this file has changed"):
        api.resume("last", models=Models(client))


def test_an_investigation_with_its_own_client_goes_on_with_no_other(passengers: Path) -> None:
    client = ScriptedClient([experiment("print(1)"), EndpointError("gone", is_fatal=True)])
    with pytest.raises(EndpointError):
        api.investigate(config(data=(passengers,)), models=Models(client))
    with pytest.raises(StoreError, match="began with models given in Python"):
        api.resume("last")


def test_two_numbers_of_passes_are_refused() -> None:
    with pytest.raises(ValueError, match="Give one"):
        ScienceConfig.model_validate(
            {"task": "t", "max_iterations": 3, "agent": {"search": {"max_iterations": 4}}}
        )
