"""The library's front door, from a dataset to a prompt."""

from __future__ import annotations

import ast
import importlib
import json
import pydoc
import re
import shutil
from collections.abc import Callable
from datetime import date
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fakes import JUDGED, LABELS, PROMPT, World, grader, run_config, target_of, write_rows, writer

import autoprompt
from autoprompt import CheckConfig, Models, Run, RunConfig, check, estimate, evaluate, investigate, optimize
from autoprompt.cli.evaluate import _lines as eval_lines
from autoprompt.cli.evaluate import comparison
from autoprompt.errors import (
    BudgetExhausted,
    BudgetTooSmallError,
    ConfigError,
    DatasetError,
    EmptyAnswersError,
    EndpointError,
    InputError,
    Interrupted,
    JudgeError,
    ModelError,
    Place,
    PromptError,
    RequestRefusedError,
    StoreError,
    UsageError,
    Voice,
    tell,
)
from autoprompt.evaluation import scoring
from autoprompt.evaluation.exported import Exported, export
from autoprompt.llm import ScriptedClient
from autoprompt.llm import models as llm_models
from autoprompt.llm.client import Completion, Options
from autoprompt.optimizer import api
from autoprompt.records import Candidate, Demo, Message, Origin, Usage
from autoprompt.runs import RunStore

GAIN = World(base=0.2, rule_gain=0.5, demo_gain=0.4)
GOOD = [{"input": f"item {n}", "target": target_of(n)} for n in range(150)]

KEYS = {
    "schema_version",
    "run_id",
    "status",
    "stop_reason",
    "verdict",
    "metric",
    "original",
    "best",
    "p_value",
    "fixed",
    "broken",
    "validation",
    "calls",
    "tokens",
    "cost_usd",
    "seconds",
    "splits",
    "candidates",
    "model",
    "optimizer_model",
}
PARTS = {
    "original": {"score", "ci95", "n", "tokens_per_call", "cost"},
    "best": {"score", "ci95", "n", "tokens_per_call", "cost", "components", "demos"},
    "ends": {"pick", "returned", "reason", "level", "other", "difference", "lines"},
    "validation": {"original", "best"},
    "tokens": {"task", "optimizer"},
    "splits": {"sizes", "groups", "split_seed", "sha256", "test_opened"},
    "candidates": {"tried", "accepted"},
}
EVENTS = {
    "run_started",
    "node_started",
    "rows_evaluated",
    "analysis",
    "candidate_proposed",
    "candidate_refused",
    "rung_ended",
    "candidate_settled",
    "best_changed",
    "lesson",
    "confirmation",
    "pick_chosen",
    "test_opened",
    "run_finished",
}


def models(world: World = GAIN, *, shares_cache: bool = False) -> Models:
    names = ("student", "writer") if shares_cache else (None, None)
    return Models(
        ScriptedClient(world.student, name="student", identity=names[0]),
        ScriptedClient(writer, name="writer", identity=names[1]),
    )


def test_every_public_name_is_there_for_programs_and_type_checkers() -> None:
    homes = {name: autoprompt._HOMES[name] for name in autoprompt.__all__ if name != "__version__"}
    for name, home in homes.items():
        assert getattr(autoprompt, name) is getattr(importlib.import_module(home), name)
    tree = ast.parse(Path(autoprompt.__file__).read_text(encoding="utf-8"))
    imports = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    assert {a.asname: node.module for node in imports for a in node.names if a.asname} == homes
    folders = {path.stem for path in Path(autoprompt.__file__).parent.iterdir()}
    assert not folders & homes.keys()  # a submodule hides the function of its name as soon as it is imported
    assert set(autoprompt.__all__) <= set(dir(autoprompt))
    with pytest.raises(AttributeError, match="'nothing'"):
        _ = autoprompt.nothing


def test_no_signature_shows_the_environment() -> None:
    """A default is printed with the signature, by help() and in notebooks: with every key in it."""
    assert "environ: 'Mapping[str, str] | None' = None" in pydoc.render_doc(autoprompt.run_batch)
    folder = Path(autoprompt.__file__).parent
    for path in folder.rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        for node in ast.walk(ast.parse(text)) if "environ" in text else ():
            if isinstance(node, ast.arguments):
                defaults = [ast.unparse(d) for d in (*node.defaults, *node.kw_defaults) if d is not None]
                assert not [default for default in defaults if "environ" in default], path


def test_a_run_finds_a_better_prompt_proves_it_and_leaves_a_folder(tmp_path: Path) -> None:
    events: list[dict[str, Any]] = []
    config = run_config(tmp_path, max_calls=900, max_iterations=4)
    result = optimize(config, models=models(), on_event=events.append)
    assert result.verdict == "confirmed"
    assert result.best != result.original
    assert result.original_prompt == PROMPT
    data = result.to_dict()
    assert set(data) >= KEYS
    for part, keys in PARTS.items():
        assert set(data[part]) >= keys
    assert data["status"] == "finished"
    assert (data["model"], data["optimizer_model"]) == ("student", "writer")
    assert data["calls"] <= 900

    folder = RunStore(tmp_path / "runs").open(result.run_id)
    assert json.loads(folder.result_path.read_text(encoding="utf-8")) == data
    assert folder.best_prompt_path.read_text(encoding="utf-8").startswith(result.best_prompt)
    names = {path.name for path in folder.path.iterdir()}
    assert names >= {
        "config.yaml",
        "checkpoints.sqlite",
        "journal.jsonl",
        "events.jsonl",
        "candidates.jsonl",
        "predictions",
        "best_prompt.txt",
        "result.json",
    }
    kinds = {event["event"] for event in events}
    assert kinds >= EVENTS - {"candidate_refused"}
    assert kinds <= EVENTS | {"warning"}
    logged = [event["event"] for event in folder.read_events()]
    assert logged == [e["event"] for e in events if e["event"] != "rows_evaluated"]
    assert (
        json.loads(folder.progress_path.read_bytes())
        == [e for e in events if e["event"] == "rows_evaluated"][-1]
    )
    assert json.loads(json.dumps(events)) == events
    assert (events[0]["event"], events[-1]["event"]) == ("run_started", "run_finished")
    assert events[-1]["result"] == data


def test_a_refused_candidate_and_a_failing_writer_are_events(tmp_path: Path) -> None:
    events: list[dict[str, Any]] = []
    config = run_config(tmp_path, max_calls=900, locked=("whether the item",))
    author = ScriptedClient(lambda messages: "```\nSay A or B.\n```")
    optimize(config, models=Models(ScriptedClient(GAIN.student), author), on_event=events.append)
    refused = [e for e in events if e["event"] == "candidate_refused"]
    assert refused
    assert refused[0]["reason"] == "it loses whether the item"

    def fails(messages: Any) -> Completion:
        raise EndpointError("the writer is gone", is_fatal=True)

    with pytest.raises(ModelError, match="the writer is gone"):
        optimize(
            run_config(tmp_path, no_cache=True),
            models=Models(ScriptedClient(GAIN.student), ScriptedClient(fails)),
            on_event=events.append,
        )
    assert events[-1]["event"] == "warning"
    assert events[-1]["message"].startswith("stopped")


def test_a_coin_flipping_model_gets_its_own_prompt_back(tmp_path: Path) -> None:
    # One seed, so one of the 95 in 100: of 40 other coins 3 were given another prompt.
    result = optimize(run_config(tmp_path, seed=2), models=models(World(is_coin=True)))
    assert result.best == result.original
    assert result.verdict == "not_confirmed"
    assert "returns the original prompt" in result.message
    folder = RunStore(tmp_path / "runs").open(result.run_id)
    assert folder.best_prompt_path.read_text(encoding="utf-8") == PROMPT + "\n"


def test_a_perfect_prompt_costs_a_look_and_the_test(tmp_path: Path) -> None:
    result = optimize(run_config(tmp_path), models=models(World(base=1.0))).to_dict()
    assert result["stop_reason"] == "no_errors"
    assert result["candidates"]["tried"] == 0
    assert result["tokens"]["optimizer"] == 0
    assert result["original"]["score"] == 1.0


def test_without_a_test_the_verdict_is_untested(tmp_path: Path) -> None:
    result = optimize(run_config(tmp_path, no_test=True, max_calls=900), models=models())
    assert result.verdict == "untested"
    assert not result.to_dict()["best"]["is_original"]
    assert "no sealed test" in result.message


def test_a_second_run_is_answered_from_the_cache_and_the_test_is_counted(tmp_path: Path) -> None:
    # No cap ends the first run: with free answers the second would go further.
    config = run_config(tmp_path, no_memory=True, max_calls=5000)
    first = optimize(config, models=models(shares_cache=True)).to_dict()
    again = models(shares_cache=True)
    second = optimize(config, models=again).to_dict()
    assert first["calls"] > 0
    assert second["calls"] == 0
    assert isinstance(again.task, ScriptedClient)
    assert again.task.calls == []
    assert second["best"] == first["best"]
    assert (first["splits"]["test_opened"], second["splits"]["test_opened"]) == (1, 2)


def test_openings_of_the_test_are_known_by_the_inputs_of_its_rows(tmp_path: Path) -> None:
    """A corrected label or a few more rows make no unseen test of a seen one."""
    config = run_config(tmp_path, no_memory=True, max_calls=900)
    optimize(config, models=models(shares_cache=True))
    rows = [json.loads(line) for line in (tmp_path / "items.jsonl").read_text().splitlines()]
    for row in rows:
        row["target"] = f"is {row['target']}"
    rows += [{"input": f"item {n}", "target": rows[0]["target"]} for n in range(150, 156)]
    (tmp_path / "items.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    splits = optimize(config, models=models(shares_cache=True)).to_dict()["splits"]
    assert splits["test_opened"] == 2
    assert splits["sizes"]["test"] - 10 < splits["test_rows_opened_before"] <= splits["sizes"]["test"]


def test_an_experience_file_that_cannot_be_written_names_the_flags(tmp_path: Path) -> None:
    (tmp_path / "memory").touch()
    with pytest.raises(StoreError, match=r"is no folder\.") as caught:
        optimize(run_config(tmp_path, memory_file=tmp_path / "memory" / "m.txt"), models=models())
    said = caught.value.message(Voice.CLI)
    assert said.endswith("Name another file as --set memory_file=VALUE, or use --no-memory.")


def test_lessons_of_a_run_reach_the_next_one_and_no_memory_leaves_no_file(tmp_path: Path) -> None:
    optimize(run_config(tmp_path, no_memory=True), models=models())
    assert not (tmp_path / "memory.txt").exists()
    optimize(run_config(tmp_path, max_calls=900), models=models())
    assert (tmp_path / "memory.txt").exists()


def test_lessons_that_were_measured_on_test_rows_are_warned_of(tmp_path: Path) -> None:
    def warnings(**changes: Any) -> list[str]:
        result = optimize(run_config(tmp_path, max_calls=900, **changes), models=models())
        found = [warning for warning in result.warnings if warning.code == "memory.test-rows-seen"]
        return [tell(warning, Voice.CLI) for warning in found]

    assert warnings(no_test=True) == []
    assert warnings(no_memory=True) == []
    (said,) = warnings()
    assert "saw 45 of the 45 test rows" in said
    assert "--no-memory" in said
    shutil.rmtree(tmp_path / "runs")  # nothing is known of the rows of runs that were removed
    assert warnings() == []
    assert warnings(seed=1) == []  # the same parts as before


def test_another_seed_is_another_search_on_the_same_rows(tmp_path: Path) -> None:
    runs = [optimize(run_config(tmp_path, seed=seed, no_memory=True), models=models()) for seed in (0, 1)]
    first, second = (r.to_dict() for r in runs)
    assert first["splits"]["sha256"] == second["splits"]["sha256"]
    ids = [set(RunStore(tmp_path / "runs").open(r.run_id).read_candidates()) for r in runs]
    assert ids[0] != ids[1]


def test_nothing_is_written_or_sent_for_a_config_that_is_refused(tmp_path: Path) -> None:
    with pytest.raises(PromptError):
        optimize(run_config(tmp_path, prompt=None), models=models())
    assert not (tmp_path / "runs").exists()
    with pytest.raises(StoreError):
        RunStore(tmp_path / "runs").open("nothing")


def test_an_experience_file_that_will_not_do_is_said_before_anything_is_sent(tmp_path: Path) -> None:
    (tmp_path / "latin.txt").write_bytes(b"\xe9t\xe9")
    student = ScriptedClient(GAIN.student)
    for name, said in (("latin.txt", "not UTF-8 text"), ("latin.txt/m.txt", "is no folder")):
        config = run_config(tmp_path, memory_file=tmp_path / name, model="local")
        with pytest.raises(InputError, match=f"{name}: .*{said}"):
            estimate(config)
        with pytest.raises(InputError, match=f"{name}: .*{said}"):
            optimize(config, models=Models(student))
        estimate(config.model_copy(update={"no_memory": True}))
    assert (student.calls, (tmp_path / "runs").exists()) == ([], False)


def test_a_run_whose_experience_file_breaks_ends_with_its_result(tmp_path: Path) -> None:
    folder = tmp_path / "lessons"

    def student(messages: list[Message], options: Options) -> Completion:
        folder.touch()  # a file is now where the folder was to be made
        return GAIN.student(messages, options)

    events: list[dict[str, Any]] = []
    config = run_config(tmp_path, max_calls=900, max_iterations=4, memory_file=folder / "m.txt")
    models = Models(ScriptedClient(student), ScriptedClient(writer))
    result = optimize(config, models=models, on_event=events.append)
    assert result.verdict == "confirmed"
    (said,) = (str(warning) for warning in result.warnings if "lessons" in str(warning))
    assert "cannot save the lessons of this run" in said
    assert f"{folder / 'm.txt'}: cannot be written" in said
    assert said in (event.get("message") for event in events)


def test_a_run_that_nothing_answered_leaves_no_folder_and_no_advice(tmp_path: Path) -> None:
    def refuses(messages: Any) -> Completion:
        raise EndpointError("no such model", is_fatal=True)

    events: list[dict[str, Any]] = []
    with pytest.raises(ModelError, match="no such model"):
        optimize(run_config(tmp_path), models=Models(ScriptedClient(refuses)), on_event=events.append)
    assert RunStore(tmp_path / "runs").list() == []
    assert not any("autoprompt resume" in event.get("message", "") for event in events)


@pytest.mark.parametrize("tokens", [0, 32])
def test_a_model_that_says_nothing_ends_run_and_evaluation_early(tmp_path: Path, tokens: int) -> None:
    silent = ScriptedClient(lambda messages: Completion("", Usage(50, tokens)))
    said = "the first 10 answers are all empty, although tokens were spent.* max_output_tokens"
    said = said if tokens else r"the first 10 answers are all empty\. "
    events: list[dict[str, Any]] = []
    config = run_config(tmp_path, concurrency=1)
    with pytest.raises(EmptyAnswersError, match=said) as info:
        optimize(config, models=Models(silent), on_event=events.append)
    assert info.value.exit_code == 4
    assert len(silent.calls) == 30
    assert not any("autoprompt resume" in e.get("message", "") for e in events)
    assert list((tmp_path / "runs").glob("*/")) == []
    with pytest.raises(EmptyAnswersError, match=said):
        evaluate(config.model_copy(update={"dataset": tmp_path / "items.jsonl"}), models=Models(silent))
    few = write_rows(tmp_path / "few.jsonl", range(3))
    with pytest.raises(EmptyAnswersError, match="the first 3 answers"):
        evaluate(config.model_copy(update={"dataset": few}), models=Models(silent))


def test_a_first_answer_that_cannot_be_read_is_an_answer(tmp_path: Path) -> None:
    few = write_rows(tmp_path / "few.jsonl", range(20))
    answers = ScriptedClient(lambda messages: "hm" if messages[-1].content == "item 7" else "")
    report = evaluate(run_config(tmp_path, dataset=few, concurrency=1), models=Models(answers))
    assert (report.unparsed, report.score) == (20, 0.0)


class Broken:
    """A client of one's own that raises on the rows of `fails`, and gives None on those of `forgets`."""

    name = "mine"

    def __init__(
        self, fails: Callable[[int], bool], forgets: Callable[[int], bool] = lambda n: False
    ) -> None:
        self.fails, self.forgets, self.asked = fails, forgets, 0

    def complete(self, messages: Any, options: Any = None) -> Any:
        self.asked += 1
        number = int(messages[-1].content.split()[-1])
        if self.fails(number):
            raise ValueError("my program broke")
        return None if self.forgets(number) else Completion(target_of(number))

    def close(self) -> None:
        raise AssertionError("closed by another than its owner")


def test_the_other_prompt_may_stand_in_a_file(tmp_path: Path) -> None:
    config = run_config(tmp_path)
    (tmp_path / "p.txt").write_text("From a file.\n", encoding="utf-8")
    client = ScriptedClient(lambda messages: "A")
    evaluate(config, against=f"@{tmp_path / 'p.txt'}", models=Models(client))
    assert {messages[0].content for messages in client.calls} == {PROMPT, "From a file."}
    with pytest.raises(PromptError, match=r"against: .*missing.txt cannot be read"):
        evaluate(config, against=f"@{tmp_path / 'missing.txt'}", models=Models(client))


def test_a_text_is_scored_as_it_stands_and_what_is_no_prompt_is_refused(tmp_path: Path) -> None:
    config = run_config(tmp_path)
    client = ScriptedClient(lambda messages: "A")
    evaluate(config, candidate="Another one.", models=Models(client))
    assert {messages[0].content for messages in client.calls} == {"Another one."}
    with pytest.raises(
        ConfigError, match="candidate: expected a prompt, @FILE, a Candidate or an Exported, found 3"
    ):
        evaluate(config, candidate=3, models=Models(client))  # type: ignore[arg-type]


def test_settings_that_are_none_are_told_so() -> None:
    path: Any = "rows.jsonl"
    for start in (evaluate, optimize, estimate):
        with pytest.raises(ConfigError, match=r"expected RunConfig, found 'rows.jsonl'. Give RunConfig\("):
            start(path)
    with pytest.raises(ConfigError, match="expected CheckConfig"):
        check(RunConfig(), path)
    with pytest.raises(ConfigError, match="expected ScienceConfig"):
        investigate(path)


def test_many_failed_rows_are_a_warning_and_both_scores_stand_on_the_same_rows(tmp_path: Path) -> None:
    few = write_rows(tmp_path / "few.jsonl", range(20))
    config = run_config(tmp_path, dataset=few)
    report = evaluate(config, against="Other.", models=Models(Broken(lambda n: n < 4)))
    (found,) = (warning for warning in report.warnings if warning.code == "model.rows-failed")
    assert found.said == (
        "8 of 40 rows failed and count as wrong; the first (8 times): client "
        "mine raised ValueError: my program broke"
    )
    assert report.compared is not None
    said = "\n".join(comparison(report))
    assert f"{report.compared.new.score:.3f} here, on the rows that both answered" in said
    assert "4 rows that failed are left out" in said


def test_refused_rows_are_a_warning_that_says_why(tmp_path: Path) -> None:
    few = write_rows(tmp_path / "few.jsonl", range(20))

    def refusing(messages: list[Message]) -> Completion:
        number = int(messages[-1].content.split()[-1])
        if number % 20 >= 15:
            raise RequestRefusedError(
                f"HTTP 400: {'too long' if number % 20 < 18 else 'filtered'}.", status=400
            )
        return Completion(target_of(number))

    report = evaluate(run_config(tmp_path, dataset=few), models=Models(ScriptedClient(refusing)))
    why = "the first (3 times): HTTP 400: too long"
    assert report.warnings[-1].said == (
        f"the endpoint rejected 5 of 20 requests, which counts as wrong answers; {why}"
    )
    assert f"0 rows with an unreadable answer, 5 that failed ({why})" in eval_lines(report)
    models = Models(ScriptedClient(refusing), ScriptedClient(writer))
    warnings = optimize(run_config(tmp_path), models=models).warnings
    (found,) = (warning for warning in warnings if warning.code == "model.requests-rejected")
    assert re.fullmatch(r"the endpoint rejected \d+ of [0-9]+ test rows, .*HTTP 400: .*", found.said)


def test_a_run_shows_what_the_model_says_where_most_of_its_first_answers_are_unread(tmp_path: Path) -> None:
    sorry = ScriptedClient(lambda messages: Completion("I'm sorry, but I can't help with that."))
    events: list[dict[str, Any]] = []
    config = run_config(tmp_path, max_iterations=2)
    result = optimize(config, models=Models(sorry, ScriptedClient(writer)), on_event=events.append)
    (found,) = (warning for warning in result.warnings if warning.code == "model.answers-unread")
    said = str(found)
    assert tell(found, Voice.CLI) == (
        "16 of 16 answers could not be read, which counts as wrong; the first (16 times): I'm sorry, "
        "but I can't help with that. Name the allowed answers in the prompt."
    )
    kinds = [(event["event"], event.get("message")) for event in events]
    assert kinds.count(("warning", said)) == 1
    assert kinds.index(("warning", said)) < next(n for n, (kind, _) in enumerate(kinds) if kind == "analysis")


def test_a_result_that_was_cut_short_is_written_anew(tmp_path: Path) -> None:
    def models() -> Models:
        return Models(ScriptedClient(World().student), ScriptedClient(writer))

    found = optimize(run_config(tmp_path), models=models())
    path = tmp_path / "runs" / found.run_id / "result.json"
    whole = path.read_text(encoding="utf-8")
    path.write_text(whole[:100], encoding="utf-8")
    again = models()
    with pytest.raises(
        StoreError, match=r"result\.json: not JSON .* Delete it, then run `autoprompt resume .*` to write"
    ):
        api.resume(found.run_id, runs_dir=tmp_path / "runs", models=again)
    path.unlink()
    api.resume(found.run_id, runs_dir=tmp_path / "runs", models=again)
    assert isinstance(again.task, ScriptedClient)
    assert not again.task.calls
    written = json.loads(path.read_text(encoding="utf-8"))
    assert {**written, "seconds": 0} == {**json.loads(whole), "seconds": 0}


def test_a_demonstration_with_an_answer_that_is_no_label_is_warned_of(tmp_path: Path) -> None:
    demos = (Demo("item x", "A"), Demo("item y", "It has the rule. Answer: B"), Demo("item z", "C"))
    candidate = Candidate(components={"prompt": PROMPT}, demos=demos)
    config = run_config(tmp_path, dataset=write_rows(tmp_path / "few.jsonl", range(20)))
    said = "1 of the prompt's demonstrations shows an answer that is not a label (A, B): 'C'"
    for chosen in ({"candidate": candidate}, {"against": candidate}):
        models = Models(ScriptedClient(lambda messages: "A"))
        report = evaluate(config.model_copy(update={"labels": LABELS}), **chosen, models=models)
        assert [warning for warning in report.warnings if warning.said == said]
    free = evaluate(
        config.model_copy(update={"labels": ()}),
        candidate=candidate,
        models=Models(ScriptedClient(lambda _: "A")),
    )
    assert "prompt.strange-demo" not in [warning.code for warning in free.warnings]


def test_a_batch_has_no_best_prompt(tmp_path: Path) -> None:
    store = RunStore(tmp_path / "runs")
    batch = store.create({"name": "b"}, kind="batch", run_id="b")
    batch.write_result({"status": "finished", "trials": 1})
    with pytest.raises(StoreError, match=r"b is a batch and has no prompt\. None of its trials has begun"):
        Run.open("b", runs_dir=store.runs_dir)


def test_what_ones_own_client_raises_fails_its_row_alone(tmp_path: Path) -> None:
    few = write_rows(tmp_path / "few.jsonl", range(20))
    config = run_config(tmp_path, dataset=few)
    client = Broken(lambda n: n == 3, lambda n: n == 4)
    report = evaluate(config, models=Models(client))
    assert (report.failed, report.evaluation.correct, client.asked) == (2, 18, 20)
    errors = [row.error for row in report.evaluation.rows if row.error]
    assert errors[0] == "client mine raised ValueError: my program broke"
    assert errors[1] == "client mine returned None; expected an autoprompt.Completion with a text"
    with pytest.raises(EndpointError, match="all 20 rows failed; the first: client mine raised ValueError"):
        evaluate(config, models=Models(Broken(lambda n: True)))

    def stops(messages: Any) -> Completion:
        raise Interrupted("enough")

    with pytest.raises(Interrupted, match="enough"):
        evaluate(config, models=Models(ScriptedClient(stops)))
    writes = ScriptedClient(writer)
    result = optimize(run_config(tmp_path), models=Models(Broken(lambda n: n % 10 == 3), writes)).to_dict()
    assert result["original"]["failed"] > 0


def test_an_evaluation_says_that_a_cap_on_cost_has_not_seen_every_answer(tmp_path: Path) -> None:
    events: list[dict[str, Any]] = []
    client = ScriptedClient(lambda messages: Completion("A", Usage(9, 1, None)))
    report = evaluate(run_config(tmp_path, max_cost=1.0), models=Models(client), on_event=events.append)
    said = ["max_cost: some answers came without a cost, so the limit counts only the others."]
    assert list(map(str, report.warnings)) == said
    assert [e["message"] for e in events if e["event"] == "warning"] == said


class Nameless:
    def complete(self, messages: Any, options: Any = None) -> Completion:
        return Completion("A")


@pytest.mark.parametrize(("client", "missing"), [(Nameless(), "name"), (len, "name and no complete")])
def test_what_is_no_client_is_told_so(tmp_path: Path, client: Any, missing: str) -> None:
    for start in (evaluate, optimize):
        with pytest.raises(ConfigError, match=f"is not a client: it has no {missing}"):
            start(run_config(tmp_path), models=Models(client))
    assert RunStore(tmp_path / "runs").list() == []


def test_a_usage_that_is_none_is_the_clients_fault(tmp_path: Path) -> None:
    client = ScriptedClient(lambda messages: Completion("A", usage=None))  # type: ignore[arg-type]
    with pytest.raises(EndpointError, match=r"returned a usage of None; expected an autoprompt\.Usage"):
        evaluate(run_config(tmp_path), models=Models(client))


def test_a_run_that_begins_anew_names_the_one_that_was_cut_off(tmp_path: Path) -> None:
    cut_off = []

    def stop(event: dict[str, Any]) -> None:
        if event["event"] == "rows_evaluated" and event["spent"]["calls"] > 20:
            raise KeyboardInterrupt
        if event["event"] == "run_started":
            cut_off.append(event["run_id"])

    with pytest.raises(Interrupted):
        optimize(run_config(tmp_path), models=models(), on_event=stop)
    events: list[dict[str, Any]] = []
    optimize(run_config(tmp_path), models=models(), on_event=events.append)
    assert f"autoprompt resume {tmp_path / 'runs' / cut_off[0]}" in events[0]["message"]


def test_an_estimate_sends_nothing(tmp_path: Path) -> None:
    found = estimate(run_config(tmp_path, model="local"))
    assert found.cost_usd == 0.0
    assert found.task_calls > 0
    assert (found.judge_calls, found.judge_model, found.judge_cost_usd) == (0, "", 0.0)
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize(
    ("changes", "model", "is_priced"),
    [
        ({"judge_model": "gpt-4o", "judge_base_url": "https://api.openai.com/v1"}, "gpt-4o", True),
        ({"judge_model": "mine"}, "mine", False),
        ({"judge_base_url": "http://127.0.0.1:8/v1"}, "http://127.0.0.1:8/v1", False),
        ({}, "m", True),
    ],
)
def test_an_estimate_tells_the_judges_part(
    tmp_path: Path, changes: dict[str, Any], model: str, is_priced: bool
) -> None:
    own = {"model": "m", "base_url": "http://127.0.0.1:9/v1", "price_input": 1.0, "price_output": 1.0}
    judged = {"metric": "llm_judge", "metric_options": {"rubric": "Be brief."}}
    found = estimate(run_config(tmp_path, max_calls=500, **own, **judged, **changes))
    assert found.calls == 500
    assert found.task_calls <= found.judge_calls + 1 <= found.task_calls + 1
    assert found.judge_model == model
    assert (found.judge_cost_usd is not None, found.cost_usd is not None) == (is_priced, is_priced)
    if found.judge_cost_usd is not None and found.cost_usd is not None:
        assert 0 < found.judge_cost_usd < found.cost_usd


def test_an_estimate_for_clients_of_ones_own_counts_what_their_writer_writes(tmp_path: Path) -> None:
    models = Models(ScriptedClient([]))
    assert estimate(run_config(tmp_path), models=models).optimizer_calls > 0
    assert estimate(run_config(tmp_path)).optimizer_calls == 0  # the embedded model's, where there are labels


@pytest.mark.parametrize(
    ("changes", "error", "said"),
    [
        ({"base_url": "localhost:8080", "model": "m"}, UsageError, "base_url: base URL 'localhost:8080'"),
        (
            {"model": "local", "optimizer_base_url": "ftp://x/v1"},
            UsageError,
            "optimizer_base_url: base URL 'ftp",
        ),
        ({"model": "local:nothing"}, ConfigError, "nothing"),
        (
            {"base_url": "http://127.0.0.1:9/v1", "model": "m", "max_cost": 1.0},
            ConfigError,
            "the price of m is unknown",
        ),
        (
            {"base_url": "http://127.0.0.1:9/v1", "model": "m", "price_input": 1.0},
            ConfigError,
            "Give price_out",
        ),
    ],
)
def test_an_estimate_refuses_what_a_run_refuses(
    tmp_path: Path, changes: dict[str, Any], error: type[Exception], said: str
) -> None:
    for start in (estimate, optimize):
        with pytest.raises(error, match=said):
            start(run_config(tmp_path, **changes))
    assert not (tmp_path / "runs").exists()


def test_a_judge_that_the_sidecar_names_is_priced_before_anything_is_sent(tmp_path: Path) -> None:
    sidecar = tmp_path / "items.task.yaml"
    sidecar.write_text(json.dumps({"metric": "llm_judge", "metric_options": {"rubric": "Is it kind?"}}))
    where = {"base_url": "http://127.0.0.1:9/v1", "model": "m", "price_input": 1.0, "price_output": 1.0}
    for start in (estimate, optimize):
        with pytest.raises(
            BudgetTooSmallError, match=r"^max_cost: 0\.001 is too small: .* Give max_cost=[\d.]+ or more"
        ):
            start(run_config(tmp_path, **where, max_cost=0.001))


@pytest.mark.parametrize(
    ("runtime", "told"),
    [
        (object(), "the embedded model's weights (1.12 GB) are fetched first"),
        (None, "the embedded model has no runtime here, so a run cannot start. Install it: "),
    ],
)
def test_an_estimate_asks_no_endpoint_for_its_model_and_says_what_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, runtime: object, told: str
) -> None:
    assert estimate(run_config(tmp_path, base_url="http://127.0.0.1:9/v1", max_cost=1.0)).cost_usd is None
    monkeypatch.setattr(llm_models.util, "find_spec", lambda _: runtime)
    warnings = estimate(run_config(tmp_path, model="local")).warnings
    assert any(str(warning).startswith(told) for warning in warnings)


def test_an_estimate_for_clients_of_ones_own_speaks_of_no_other_model(tmp_path: Path) -> None:
    made = models()
    found = estimate(run_config(tmp_path), models=made)
    assert not [warning for warning in found.warnings if "fetched" in str(warning)]
    assert (found.calls, found.cost_usd) == (estimate(run_config(tmp_path, model="local")).calls, None)
    assert isinstance(made.task, ScriptedClient)
    assert made.task.calls == []
    priced = run_config(tmp_path, price_input=1.0, price_output=1.0, **JUDGED)
    one = Models(ScriptedClient(GAIN.student, name="student"))
    cost = estimate(priced, models=one).cost_usd
    assert cost is not None
    assert cost > 0
    assert estimate(priced, models=one).judge_model == "student"
    assert estimate(priced, models=made).cost_usd is None  # of the writer's the price is not known
    with pytest.raises(ConfigError, match="expected Models"):
        estimate(run_config(tmp_path), models=made.task)  # type: ignore[arg-type]


def test_rows_of_a_program_are_the_dataset_and_stay_for_a_resume(tmp_path: Path) -> None:
    rows = GOOD
    config = run_config(tmp_path, dataset=None, max_calls=900)
    assert estimate(config, rows=rows).fewest_calls <= 900
    result = optimize(config, rows=rows, models=models())
    assert result.verdict == "confirmed"
    (kept,) = (tmp_path / "runs" / ".datasets").iterdir()
    assert [json.loads(line) for line in kept.read_text(encoding="utf-8").splitlines()] == rows
    (line,) = RunStore(tmp_path / "runs").list()
    assert (line.run_id, line.status) == (result.run_id, "finished")
    (tmp_path / "runs" / result.run_id / "result.json").unlink()
    resumed = autoprompt.resume(result.run_id, runs_dir=tmp_path / "runs", models=models())
    assert resumed.best == result.best
    assert evaluate(config, rows=iter(rows[:20]), models=models()).n == 20


def same_kind(prediction: str, target: object) -> tuple[float, str]:
    return float(prediction != ""), repr(target)


def test_rows_of_a_program_keep_their_types(tmp_path: Path) -> None:
    day, deep = date(2024, 5, 1), {"b": [None, 1.0, 10**30, True], "a": {"é": Decimal("1.50")}}
    rows = [
        {"input": n, "target": {"n": n, "deep": deep, "day": day}, "tags": ("a", np.int64(2))} for n in (1, 2)
    ]
    config = run_config(tmp_path, dataset=None, prompt="{input} {tags}", metric=same_kind, labels=None)
    client = ScriptedClient(["x", "x"])
    assert estimate(config, of="evaluate", rows=rows, models=Models(client)).calls == 2
    report = evaluate(config, rows=rows, models=Models(client))
    assert sorted(messages[-1].content for messages in client.calls) == ['1 ["a",2]', '2 ["a",2]']
    kept = {"b": [None, 1.0, 10**30, True], "a": {"é": "1.50"}}
    assert [row.reason for row in report.evaluation.rows] == [
        repr({"n": n, "deep": kept, "day": "2024-05-01"}) for n in (1, 2)
    ]


def is_first_sign(prediction: str, target: str) -> float:
    return float(prediction[:1] == target[:1])


class Always:
    def __call__(self, prediction: str, target: str) -> float:
        return 1.0


def test_a_function_is_a_metric_by_its_name_so_that_a_run_goes_on(tmp_path: Path) -> None:
    config = run_config(tmp_path, max_calls=900, metric=is_first_sign)
    assert config.metric == f"python:{__name__}:is_first_sign"
    result = optimize(config, models=models())
    assert (result.verdict, result.record.metric) == ("confirmed", config.metric)
    (tmp_path / "runs" / result.run_id / "result.json").unlink()
    resumed = autoprompt.resume(result.run_id, runs_dir=tmp_path / "runs", models=models())
    assert resumed.best == result.best


@pytest.mark.parametrize("metric", [lambda prediction, target: 1.0, Always(), partial(is_first_sign)])
def test_a_function_that_no_resumed_run_could_find_is_refused(tmp_path: Path, metric: Any) -> None:
    with pytest.raises(ConfigError, match=r"no name in a module.*Write a def at the top of a module"):
        run_config(tmp_path, metric=metric)


def test_a_function_of_a_program_is_missed_elsewhere(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"has no function .*Resume from the program that started"):
        evaluate(run_config(tmp_path, metric="python:__main__:is_of_a_notebook"), models=models())


@pytest.mark.parametrize(
    ("rows", "dataset", "error", "said"),
    [
        (
            [{"input": "a", "target": "b"}],
            "items.jsonl",
            ConfigError,
            "^dataset: a file and rows are both given",
        ),
        ([{"input": "a", "target": "b"}, "c"], None, DatasetError, r"^rows\[1\]: 'c' is no row\. Give dicts"),
        (
            [{"input": {1}, "target": "b"}],
            None,
            DatasetError,
            r"rows\[0\]: field 'input' holds set.* plain values",
        ),
        ([{"input": b"\xff", "target": "b"}], None, DatasetError, r"rows\[0\]: field 'input' holds bytes"),
        ([{"input": float("nan"), "target": "b"}], None, DatasetError, r"rows\[0\]: "),
        ([], None, DatasetError, r"^rows is empty\. Give dicts"),
        (
            "my.csv",
            None,
            DatasetError,
            r"^rows is 'my\.csv', .*\. Give a file as RunConfig\(dataset='my\.csv'\)\.$",
        ),
        (
            {"input": "a", "target": "b"},
            None,
            DatasetError,
            r"^rows is \{'input': .*\. Give a list of them\.$",
        ),
        (5, None, DatasetError, r"^rows is 5, expected dicts"),
        (
            [*GOOD, {"input": "x", "target": None}],
            None,
            DatasetError,
            r"^rows\[150\]: the target 'target' is empty",
        ),
        (
            [{"text": "a", "target": "b"}],
            None,
            DatasetError,
            r"^rows\[0\]: no field 'input'.*with input_field='text'\.$",
        ),
        (
            [{"TEXT": 1, "LABEL": 2}],
            None,
            DatasetError,
            r"with input_field='TEXT' and target_field='LABEL'\.$",
        ),
        (
            [*GOOD, {"input": "item 4", "target": "B"}],
            None,
            DatasetError,
            r"^rows\[150\]: .* 'B', but .* has 'A' \(rows\[4\]\)\..* first with allow_conflicts=True\.$",
        ),
        (
            [{"input": "a", "target": {"b": 1}}],
            None,
            DatasetError,
            r"^rows\[0\]: .* Use metric='json_match' ",
        ),
    ],
)
@pytest.mark.parametrize("call", [evaluate, estimate, optimize])
def test_rows_that_will_not_do_are_refused_in_their_own_words_and_leave_nothing(
    tmp_path: Path,
    rows: list[Any],
    dataset: str | None,
    error: type[Exception],
    said: str,
    call: Callable[..., Any],
) -> None:
    config = run_config(tmp_path, dataset=dataset)
    with pytest.raises(error, match=said):
        call(config, rows=rows, models=models())
    assert not list((tmp_path / "runs").rglob("*.jsonl"))


def test_what_a_row_says_is_quoted_as_it_is(tmp_path: Path) -> None:
    rows = [{"input": f"see line 7, --labels and item {n}", "target": "AB"[n % 2]} for n in range(8)]
    config = run_config(tmp_path, dataset=None)
    with pytest.raises(
        DatasetError, match=r"rows\[8\]: the input 'see line 7, --labels .* has 'A' \(rows\[0\]\)"
    ):
        evaluate(config, rows=[*rows, {**rows[0], "target": "B"}], models=models())


def test_a_line_of_another_file_stays_one(tmp_path: Path) -> None:
    workflow = tmp_path / "w.yaml"
    workflow.write_text("nodes:\n- id: a\n  type: nothing\n", encoding="utf-8")
    config = run_config(tmp_path, dataset=None, prompt=None, workflow=workflow)
    with pytest.raises(InputError, match=r"w\.yaml line \d"):
        estimate(config, rows=GOOD)


def test_one_label_and_a_rare_one_are_told_by_their_rows(tmp_path: Path) -> None:
    config = run_config(tmp_path, dataset=None, labels=("A", "B"))
    with pytest.raises(DatasetError, match=r"^rows\[0\]: every row from here on has the target 'A'"):
        evaluate(config.model_copy(update={"labels": None}), rows=[{**row, "target": "A"} for row in GOOD])
    many = [{"input": f"item {n}", "target": f"kind {n % 25}"} for n in range(150)]
    report = estimate(
        config.model_copy(update={"labels": None}), rows=[*many, {"input": "x", "target": "kimd 3"}]
    )
    (found,) = (warning for warning in report.warnings if warning.code == "dataset.too-many-labels")
    assert "; seen only once: 'kimd 3' (rows[150]). Give labels=… to hold the model to them." in str(found)


def test_warnings_name_rows_by_their_own_names_too(tmp_path: Path) -> None:
    events: list[dict[str, Any]] = []
    config = run_config(tmp_path, dataset=None, max_calls=900)
    report = evaluate(config, rows=[*GOOD, GOOD[0]], models=models(), on_event=events.append)
    (found,) = report.warnings
    assert str(found) == "1 duplicate row dropped: same input and target as an earlier row."
    assert events[0] == {"event": "warning", **found.to_dict()}
    assert found in estimate(config, rows=[*GOOD, GOOD[0]]).warnings
    assert not (tmp_path / "runs").exists()
    result = optimize(config, rows=[*GOOD, GOOD[0]], models=models(), on_event=events.append)
    assert found in result.warnings
    assert found in result.warnings


def test_a_run_on_rows_that_goes_on_warns_in_their_words_too(tmp_path: Path) -> None:
    config = run_config(tmp_path, dataset=None, max_calls=900)
    result = optimize(config, rows=[*GOOD, GOOD[0]], models=models())
    (tmp_path / "runs" / result.run_id / "result.json").unlink()
    resumed = autoprompt.resume(result.run_id, runs_dir=tmp_path / "runs", models=models())
    assert resumed.warnings == result.warnings


def test_all_rows_with_the_same_fault_are_named_alike(tmp_path: Path) -> None:
    rows = [{**row, "target": ""} if n in (5, 9, 12) else row for n, row in enumerate(GOOD)]
    with pytest.raises(DatasetError, match=r"^rows\[5\]: .* is empty.*\n  likewise rows\[9\], rows\[12\]$"):
        estimate(run_config(tmp_path, dataset=None), rows=rows)


def test_rows_of_a_program_go_with_the_last_run_that_has_them(tmp_path: Path) -> None:
    config = run_config(tmp_path, dataset=None, max_calls=900)
    runs = RunStore(tmp_path / "runs")
    first, second = (optimize(config, rows=GOOD, models=models()).run_id for _ in range(2))
    runs.remove(first)
    assert len(list((tmp_path / "runs" / ".datasets").iterdir())) == 1
    runs.remove(second)
    assert not (tmp_path / "runs" / ".datasets").exists()


def test_a_file_of_ones_own_stays_when_its_run_is_removed(tmp_path: Path) -> None:
    dataset = write_rows(tmp_path / "few.jsonl", range(150))
    result = optimize(run_config(tmp_path, dataset=dataset, max_calls=900), models=models())
    RunStore(tmp_path / "runs").remove(result.run_id)
    assert dataset.exists()


def test_rows_without_a_prompt_are_told_where_it_goes(tmp_path: Path) -> None:
    with pytest.raises(PromptError, match=r"^no prompt to start from\. Give prompt=…"):
        optimize(run_config(tmp_path, dataset=None, prompt=None), rows=GOOD, models=models())


def test_rows_that_another_run_has_stay_when_a_later_call_refuses_them(tmp_path: Path) -> None:
    optimize(run_config(tmp_path, dataset=None, max_calls=900), rows=GOOD, models=models())
    with pytest.raises(
        InputError, match=r"Give max_calls=\d+ or more, or use fewer rows with max_test and max_val\."
    ):
        optimize(run_config(tmp_path, dataset=None, max_calls=9), rows=GOOD, models=models())
    assert len(list((tmp_path / "runs" / ".datasets").iterdir())) == 1


def test_evaluate_scores_every_row(tmp_path: Path) -> None:
    dataset = write_rows(tmp_path / "few.jsonl", range(40))
    events: list[dict[str, Any]] = []
    report = evaluate(run_config(tmp_path, dataset=dataset), models=models(), on_event=events.append)
    right = [GAIN.is_right(n, PROMPT, 0) for n in range(40)]
    assert report.n == report.calls == 40
    assert report.score == sum(right) / 40
    assert report.interval.low < report.score < report.interval.high
    assert [row.is_correct for row in report.evaluation.rows] == right
    assert (events[-1]["done"], events[-1]["spent"]["calls"]) == (40, 40)
    assert json.loads(json.dumps(report.to_dict()))["rows"][3]["input"] == report.evaluation.rows[3].input
    assert (report.unparsed, report.failed, report.model) == (0, 0, "student")


def test_the_interval_of_an_evaluation_is_that_of_its_metric(tmp_path: Path) -> None:
    dataset = write_rows(tmp_path / "few.jsonl", range(40))
    always = Models(ScriptedClient(lambda messages: "A"))
    report = evaluate(run_config(tmp_path, dataset=dataset, metric="macro_f1"), models=always)
    assert report.score < 0.4  # the share of right answers is above 0.5
    assert report.interval.low < report.score < report.interval.high < 0.5


def test_targets_that_the_metric_cannot_compare_with_are_refused_before_a_call(tmp_path: Path) -> None:
    dataset = write_rows(tmp_path / "few.jsonl", range(40))
    made = models()
    with pytest.raises(DatasetError, match=r"few\.jsonl line 1: the target 'A' is no number"):
        evaluate(run_config(tmp_path, dataset=dataset, metric="numeric"), models=made)
    assert isinstance(made.task, ScriptedClient)
    assert made.task.calls == []


def test_of_candidates_that_know_other_labels_the_first_s_are_taken_and_it_is_said(
    tmp_path: Path,
) -> None:
    dataset = write_rows(tmp_path / "few.jsonl", range(40))
    config = run_config(tmp_path, dataset=dataset)
    one, other = (
        Candidate({"prompt": text}, origin=Origin(name, labels))
        for text, name, labels in (("Sort.", "p.yaml", ("A", "B")), ("Sort well.", "run r", ("A", "B", "C")))
    )
    (said,) = evaluate(config, candidate=one, against=other, models=models()).warnings
    assert said.code == "prompt.other-labels"
    assert "scored with the labels of p.yaml: A, B; run r has A, B, C" in str(said)
    named = config.model_copy(update={"labels": ("A", "B")})
    assert evaluate(named, candidate=one, against=other, models=models()).warnings == ()


def test_two_exports_with_other_input_fields_are_compared_only_where_the_settings_name_one(
    tmp_path: Path,
) -> None:
    one, other = (
        Candidate({"prompt": "Sort."}, origin=Origin(f"{name}.yaml", LABELS, name))
        for name in ("body", "text")
    )
    rows = [{"body": f"item {n}", "text": f"item {n + 1}", "target": target_of(n)} for n in range(20)]
    config = run_config(tmp_path, dataset=None)
    with pytest.raises(
        ConfigError, match=r"the input field is 'body' in body\.yaml and 'text' in .* as input_field"
    ):
        evaluate(config, rows=rows, candidate=one, against=other, models=models())
    assert evaluate(config, rows=rows, candidate="Sort.", against=other, models=models()).n == 20
    named = config.model_copy(update={"input_field": "body"})
    named.model_fields_set.add("input_field")
    assert evaluate(named, rows=rows, candidate=one, against=other, models=models()).n == 20


def test_targets_that_are_compared_in_part_are_said_before_a_call(tmp_path: Path) -> None:
    rows = [{"input": f"item {n}", "target": f"2024-05-{n:02}" if n == 7 else f"{n} km"} for n in range(40)]
    config = run_config(tmp_path, dataset=None, metric="numeric")
    for report in (evaluate(config, rows=rows, models=models()), estimate(config, rows=rows)):
        (found,) = (warning for warning in report.warnings if warning.code == "metric.target-in-part")
        assert found.said.startswith("1 target with more than one number")
        assert "'2024-05-07' (rows[7])" in str(found)


def test_evaluate_takes_a_candidate_with_demonstrations(tmp_path: Path) -> None:
    dataset = write_rows(tmp_path / "few.jsonl", range(40))
    demos = tuple(Demo(f"item {n}", target_of(n), f"r{n}") for n in range(100, 116))
    candidate = Candidate({"prompt": "Mind the rule."}, demos)
    made = models()
    report = evaluate(run_config(tmp_path, dataset=dataset), candidate=candidate, models=made)
    assert isinstance(made.task, ScriptedClient)
    assert {len(call) for call in made.task.calls} == {1 + 32 + 1}
    assert report.score == 1.0
    assert report.evaluation.candidate_id == candidate.id


def test_a_candidate_of_a_run_is_scored_with_the_labels_of_the_run(tmp_path: Path) -> None:
    """Fresh rows may hold one label, or too few rows to tell labels at all."""
    result = optimize(run_config(tmp_path, max_calls=900), models=models())
    assert result.best.labels == result.original.labels == LABELS
    again = api.resume(result.run_id, runs_dir=tmp_path / "runs", models=models())
    assert again.best.labels == LABELS
    run = Run.open(result.run_id, runs_dir=tmp_path / "runs")
    assert run.best.labels == LABELS
    known = run.candidates[result.best.id]
    assert known == run.candidate(result.best.id[:6]) == run.candidate("best")
    assert run.candidate("original") == result.original
    assert (run.result, next(iter(run.candidates))) == (again, result.original.id)
    assert run.export("text") == result.best_prompt.rstrip() + "\n"
    with pytest.raises(StoreError, match="has no candidate 'ffff'"):
        run.candidate("ffff")
    assert (known.labels, known) == (LABELS, result.best)
    returned = result.to_dict()["ends"]["returned"]
    assert run.end(returned) == result.best
    with pytest.raises(ConfigError, match="pick: expected 'cheapest' or 'highest', found 'best'"):
        run.end("best")  # type: ignore[arg-type]
    kept = run.folder.candidates_path.read_text().splitlines(keepends=True)
    run.folder.candidates_path.write_text(kept[0])  # the rest got lost, in a copy say
    for ask in (lambda: run.best, lambda: run.end(returned), lambda: run.candidate("best")):
        with pytest.raises(StoreError, match=rf"candidates\.jsonl: .*{result.best.id}.* Restore the file"):
            ask()
    run.folder.candidates_path.write_text("".join(kept))

    fresh = [{"input": f"item {n}", "target": "A"} for n in range(200, 260) if target_of(n) == "A"]
    config = run_config(tmp_path, dataset=None)
    told = Models(ScriptedClient(lambda _, options: "B" if options.labels == LABELS else "hm"))
    report = evaluate(config, rows=fresh, candidate=result.best, models=told)
    assert (report.unparsed, report.warnings) == (0, ())
    two = [{"input": "item 201", "target": "A"}, {"input": "item 202", "target": "C"}]
    with pytest.raises(
        DatasetError, match=rf"rows\[1\]: .* 'C' is none of the labels of run {result.run_id}"
    ):
        evaluate(config, rows=two, candidate=result.best, models=models())
    own = config.model_copy(update={"labels": ("A", "C")})
    assert evaluate(own, rows=two, candidate=result.best, models=models()).n == 2


def test_rows_that_the_run_of_a_candidate_has_looked_at_are_warned_of(tmp_path: Path) -> None:
    result = optimize(run_config(tmp_path, max_calls=900), models=models())
    config = run_config(tmp_path)
    searched = RunStore(tmp_path / "runs").open(result.run_id).rows_searched()
    said = (
        f"run {result.run_id} has already seen {len(searched)} of the 150 rows, so the score on them proves"
    )
    for given in ({"candidate": result.best}, {"candidate": "Mind the rule.", "against": result.best}):
        warnings = evaluate(config, **given, models=models()).warnings
        assert f"{said} nothing" in [warning.said for warning in warnings]
    warnings = estimate(config, of="evaluate", candidate=result.best).warnings
    assert f"{said} nothing" in [warning.said for warning in warnings]
    shutil.rmtree(tmp_path / "runs")
    warnings = evaluate(config, candidate=result.best, models=models()).warnings
    (gone,) = (warning for warning in warnings if warning.code == "run.rows-unknown")
    assert gone.place == Place(tmp_path / "runs" / result.run_id)
    assert f"which of these rows run {result.run_id} has already seen" in str(gone)


def test_rows_that_the_run_of_an_export_has_looked_at_are_warned_of_without_the_run(tmp_path: Path) -> None:
    result = optimize(run_config(tmp_path, max_calls=900), models=models())
    run = Run.open(result.run_id, runs_dir=tmp_path / "runs")
    searched = run.folder.rows_searched()
    path = tmp_path / "prompt.yaml"
    path.write_text(run.export(), encoding="utf-8")
    shutil.rmtree(tmp_path / "runs")
    exported = Exported.load(path)
    assert exported.run_id == result.run_id
    said = f"the run that made {path} has already seen {len(searched)} of the 150 rows, so the score on them"
    config = run_config(tmp_path)
    warnings = evaluate(config, candidate=exported, models=models()).warnings
    assert f"{said} proves nothing" in [warning.said for warning in warnings]
    limits = CheckConfig(baseline=tmp_path / "b.json", exported=path)
    checked = check(config.model_copy(update={"prompt": None}), limits, is_update=True, models=models())
    assert f"{said} proves nothing" in [warning.said for warning in checked.warnings]
    fresh = [{"input": f"item {n}", "target": "B" if n % 2 else "A"} for n in range(200, 240)]
    config = config.model_copy(update={"dataset": None})
    codes = {one.code for one in evaluate(config, rows=fresh, candidate=exported, models=models()).warnings}
    assert not {"run.rows-seen", "run.rows-unknown"} & codes


def test_the_candidate_of_an_export_brings_the_inputs_field_and_the_labels(tmp_path: Path) -> None:
    path = tmp_path / "p.yaml"
    best = Candidate({"prompt": "Mind the rule."})
    path.write_text(export(best, "yaml", input_field="body", labels=LABELS), encoding="utf-8")
    rows = [{"body": f"item {n}", "target": target_of(n)} for n in range(20)]
    config = run_config(tmp_path, dataset=None)
    for given in (f"@{path}", Exported.load(path).candidate, Exported.load(path)):
        assert evaluate(config, rows=rows, candidate=given, models=models()).n == 20
    other = config.model_copy(update={"input_field": "text"})
    with pytest.raises(DatasetError, match="text"):
        evaluate(other, rows=rows, candidate=f"@{path}", models=models())


def test_the_name_of_a_candidate_is_no_prompt(tmp_path: Path) -> None:
    for name in ("best", "original", "b50670a9c1d2", "b506"):
        said = rf"against: .* name of a candidate: '{name}'\. .*Run.open\(RUN\).candidate\('{name}'\)"
        with pytest.raises(ConfigError, match=said):
            evaluate(run_config(tmp_path), against=name, models=models())
    assert not any(map(scoring.names_candidate, ("face", "Sort.")))


@pytest.mark.parametrize(
    ("name", "fix"),
    [("last", "Run.open('last').best"), ("last:ab12", "Run.open('last').candidate('ab12')")],
)
def test_a_run_that_is_given_as_a_prompt_is_opened(name: str, fix: str) -> None:
    rows = [{"input": "a", "target": "b"}] * 4
    for candidates in ({"candidate": name}, {"against": name}):
        with pytest.raises(PromptError, match=re.escape(f"Give its prompt by {fix}. If it is the text")):
            evaluate(RunConfig(prompt="A or B?"), rows=rows, **candidates)


def test_a_workflow_is_no_prompt_and_no_export(tmp_path: Path) -> None:
    for text in (
        "nodes:\n  - {id: a, type: start}\n",
        "workflow:\n  graph:\n    nodes: [{id: a, data: {}}]\n",
    ):
        path = tmp_path / "flow.yaml"
        path.write_text(text, encoding="utf-8")
        with pytest.raises(PromptError, match=r"flow\.yaml is a workflow, .* as workflow='.*flow\.yaml'"):
            evaluate(run_config(tmp_path, prompt=f"@{path}"), models=models())
        with pytest.raises(
            ConfigError, match=r"flow\.yaml: expected an exported prompt .* as workflow='.*flow\.yaml"
        ):
            Exported.load(path)
    path.write_text("nodes: are what the text is about\n", encoding="utf-8")
    assert evaluate(run_config(tmp_path, prompt=f"@{path}"), models=models()).n == 150


def test_rows_too_few_to_tell_labels_are_said_to_be_taken_as_free_text(tmp_path: Path) -> None:
    rows = [{"input": f"item {n}", "target": "ABC"[n % 3]} for n in range(5)]
    config = run_config(tmp_path, dataset=None)
    (said,) = evaluate(config, rows=rows, models=models()).warnings
    assert str(said) == (
        "3 different answers in 5 rows are taken as free text, not as labels. Give labels=… to hold the "
        "model to them."
    )
    for quiet in ({"labels": tuple("ABC")}, {"labels": ()}, {"metric": "contains"}):
        assert evaluate(config.model_copy(update=quiet), rows=rows, models=models()).warnings == ()


def test_evaluate_counts_what_cannot_be_read_and_what_failed(tmp_path: Path) -> None:
    dataset = write_rows(tmp_path / "few.jsonl", range(20))

    def student(messages: Any, options: Any) -> Any:
        number = int(messages[-1].content.split()[-1])
        return Completion("hm") if number < 5 else Completion(LABELS[0])

    report = evaluate(run_config(tmp_path, dataset=dataset), models=Models(ScriptedClient(student)))
    assert report.unparsed == 5
    assert all(row.score == 0.0 for row in report.evaluation.rows[:5])


def test_evaluate_counts_what_its_judge_gave_no_grade_and_refuses_one_that_grades_hardly_anything(
    tmp_path: Path,
) -> None:
    dataset = write_rows(tmp_path / "few.jsonl", range(20))
    config = run_config(tmp_path, dataset=dataset, **JUDGED)

    def judged(mute: Callable[[int], bool]) -> Models:
        judge = ScriptedClient(grader(mute), name="grader", identity="grader")
        return Models(ScriptedClient(GAIN.student, name="student", identity="student"), judge=judge)

    for _ in ("asked", "from the cache"):
        events: list[dict[str, Any]] = []
        report = evaluate(config, models=judged(lambda n: n < 3), on_event=events.append)
        said = "judge grader: 3 of 20 answers have no grade; the judge replied 'I would rather not say.'"
        assert report.unscored == report.to_dict()["unscored"] == 3
        assert report.warnings[-1].said.startswith(said)
        assert {"event": "warning", **report.warnings[-1].to_dict()} in events
    other = config.model_copy(update={"no_cache": True})
    with pytest.raises(JudgeError, match=r"judge grader: 11 of 20 .*'I would rather not say\.'"):
        evaluate(other, models=judged(lambda n: 2 <= n < 13))
    nothing = judged(lambda n: True)
    with pytest.raises(JudgeError, match="judge grader: 10 of 10"):
        evaluate(other, models=nothing)
    assert isinstance(nothing.judge, ScriptedClient)
    assert len(nothing.judge.calls) == 2 * 10  # the other rows are not paid for


def test_a_judge_that_was_not_ready_grades_what_it_is_asked_again(tmp_path: Path) -> None:
    config = run_config(tmp_path, dataset=write_rows(tmp_path / "few.jsonl", range(20)), **JUDGED)

    def judged(reply: Any) -> Models:
        judge = ScriptedClient(reply, name="grader", identity="grader")
        return Models(ScriptedClient(GAIN.student, name="student", identity="student"), judge=judge)

    with pytest.raises(JudgeError, match=r"'service warming up'.* judged again"):
        evaluate(config, models=judged(lambda messages: "service warming up"))
    models = judged(grader(lambda _: False))
    assert evaluate(config, models=models).unscored == 0
    assert isinstance(models.judge, ScriptedClient)
    assert len(models.judge.calls) == 20


def test_evaluate_checks_its_rows_as_a_run_does(tmp_path: Path) -> None:
    dataset = write_rows(tmp_path / "twice.jsonl", [*range(20), 3])
    events: list[dict[str, Any]] = []
    report = evaluate(run_config(tmp_path, dataset=dataset), models=models(), on_event=events.append)
    assert report.n == 20
    assert [e["message"] for e in events if e["event"] == "warning"] == list(map(str, report.warnings))
    assert report.to_dict()["warnings"][0]["code"] == "dataset.duplicates"
    with dataset.open("a", encoding="utf-8") as file:
        file.write(json.dumps({"input": "item 5", "target": "B" if target_of(5) == "A" else "A"}) + "\n")
    made = models()
    with pytest.raises(DatasetError, match=r"line 22: .* but an earlier row has '.' \(line 6\)"):
        evaluate(run_config(tmp_path, dataset=dataset), models=made)
    with pytest.raises(DatasetError, match="none of the labels"):
        evaluate(run_config(tmp_path, dataset=dataset, labels=("A", "C"), allow_conflicts=True), models=made)
    assert isinstance(made.task, ScriptedClient)
    assert made.task.calls == []


def test_evaluate_does_not_begin_what_a_cap_forbids(tmp_path: Path) -> None:
    dataset = write_rows(tmp_path / "few.jsonl", range(40))
    made = models()
    with pytest.raises(BudgetExhausted):
        evaluate(run_config(tmp_path, dataset=dataset, max_calls=39), models=made)
    with pytest.raises(BudgetExhausted, match="80 more needed"):
        evaluate(run_config(tmp_path, dataset=dataset, max_calls=79, **JUDGED), models=made)
    assert isinstance(made.task, ScriptedClient)
    assert made.task.calls == []


def test_a_judge_that_no_call_is_left_to_ask_again_costs_its_row_and_no_other(tmp_path: Path) -> None:
    config = run_config(tmp_path, dataset=write_rows(tmp_path / "few.jsonl", range(20)), **JUDGED)
    judged = Models(ScriptedClient(GAIN.student), judge=ScriptedClient(grader(lambda n: n == 7)))
    report = evaluate(config.model_copy(update={"max_calls": 40}), models=judged)
    assert (report.calls, report.n, report.unscored, report.failed) == (40, 20, 1, 0)


def test_the_librarys_runs_read_sidecar_and_prompt_file_as_the_command_does(tmp_path: Path) -> None:
    config = run_config(tmp_path, max_calls=400)
    (tmp_path / "items.task.yaml").write_text("prompt: '@p.txt'\nlabels: [A, B, C]\n", encoding="utf-8")
    (tmp_path / "p.txt").write_text(PROMPT + "\n", encoding="utf-8")
    given = config.model_dump(include=config.model_fields_set - {"prompt"})
    assert evaluate(RunConfig(**given), models=models()).n == 150
    result = optimize(RunConfig(**given), models=models())
    assert result.original_prompt == PROMPT
    stored = RunStore(tmp_path / "runs").open(result.run_id).read_config()
    assert (stored["prompt"], stored["labels"]) == (PROMPT, ["A", "B", "C"])


def test_evaluate_needs_the_fields_of_its_prompt(tmp_path: Path) -> None:
    lines = [{"input": f"item {n}", "note": "n", "target": target_of(n)} for n in range(20)]
    del lines[4]["note"]
    dataset = tmp_path / "notes.jsonl"
    dataset.write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")
    with pytest.raises(DatasetError, match="line 5: no field 'note'"):
        evaluate(run_config(tmp_path, dataset=dataset, prompt="Sort {input} by {note}."), models=models())


def test_evaluate_warns_of_a_placeholder_that_is_no_field(tmp_path: Path) -> None:
    report = evaluate(run_config(tmp_path, prompt="Sort {ticket}."), models=models())
    assert "{ticket} is not a field of the rows" in str(report.warnings[-1])
    report = evaluate(run_config(tmp_path, prompt="Sort {input}: {target}"), models=models())
    assert "{target} is the target, which is never filled in" in str(report.warnings[-1])
    report = evaluate(run_config(tmp_path), against="Sort {{ input }}.", models=models())
    (found,) = report.warnings
    assert str(found) == "{{ input }} is not a placeholder, so it is sent unchanged. Write {input}."


def test_columns_that_are_not_used_may_hold_anything_that_can_be_written(tmp_path: Path) -> None:
    others = {
        "day": date(2024, 5, 1),
        "price": Decimal("1.50"),
        "gap": float("nan"),
        "most": float("inf"),
        "picture": b"\x89PNG\xff",
        "note": "é".encode(),
        "parts": [date(2024, 5, 1), {"at": float("nan")}, np.int64(3)],
    }
    rows = [{**row, **others} for row in GOOD]
    config = run_config(tmp_path, dataset=None, prompt="{day} {price} {gap} {most} {note} {parts}\n{input}")
    made = models()
    assert evaluate(config, rows=rows, models=made).n == len(GOOD)
    assert isinstance(made.task, ScriptedClient)
    assert made.task.calls[0][0].content.startswith('2024-05-01 1.50  inf é ["2024-05-01",{"at":null},3]\n')
    asked = config.model_copy(update={"prompt": "{picture} {input}"})
    assert "{picture} is not a field" in str(evaluate(asked, rows=rows, models=models()).warnings)


def test_rows_of_two_fields_that_the_prompt_asks_for_are_told_apart_by_both(tmp_path: Path) -> None:
    """One claim about many sources, and many claims about each: neither field alone is the row."""
    rows = [
        {"claim": f"claim {n % 4}", "source": f"item {n}", "target": target_of(n)} for n in range(len(GOOD))
    ]
    config = run_config(tmp_path, dataset=None, prompt="{claim}, by {source}?")
    report = evaluate(config, rows=rows, models=models())
    assert (report.n, report.warnings) == (len(GOOD), ())
    assert report.evaluation.rows[5].input == "claim: claim 1\nsource: item 5"
    named = config.model_copy(update={"input_field": "claim"})
    with pytest.raises(DatasetError, match="The rows differ in 'source': leave out input_field"):
        evaluate(named, rows=rows, models=models())


def test_an_input_that_the_prompt_never_sends_is_said(tmp_path: Path) -> None:
    rows = [{**row, "subject": f"item {n}"} for n, row in enumerate(GOOD)]
    config = run_config(tmp_path, dataset=None, prompt="Route {subject}")
    for report in (evaluate(config, rows=rows, models=models()), estimate(config, rows=rows)):
        (found,) = (warning for warning in report.warnings if warning.code == "prompt.input-not-sent")
        assert str(found) == (
            "the input {input} is never sent, because the prompt asks only for {subject}. "
            "Add {input} to the prompt, or name another field as input_field=…."
        )
    for prompt in ("Route {subject}: {input}", "Route.", "Route {input}"):
        asked = config.model_copy(update={"prompt": prompt})
        assert "never sent" not in str(evaluate(asked, rows=rows, models=models()).warnings)


def test_evaluate_needs_rows_and_a_prompt(tmp_path: Path) -> None:
    with pytest.raises(PromptError, match="no prompt to start from"):
        evaluate(run_config(tmp_path, prompt=None), models=models())
    with pytest.raises(ConfigError, match=r"^no dataset\. Give dataset=…, or `rows` in Python\.$"):
        evaluate(run_config(tmp_path, dataset=None, train=tmp_path / "items.jsonl"), models=models())
