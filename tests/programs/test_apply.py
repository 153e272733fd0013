"""The winner of a run goes into the program's source, or runs without touching it."""

from __future__ import annotations

import asyncio
import importlib
import json
import re
import shlex
import shutil
import sys
import threading
import warnings
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from called import call
from desk_model import desk_config, desk_model
from fake_endpoint import FakeEndpoint

import autoprompt
from autoprompt import Run, RunResult
from autoprompt.programs.export import VIEW
from autoprompt.records import Candidate, Demo

SHOP = """
import os
from typing import TypedDict

import shop_helper
from langchain_openai import ChatOpenAI
from langgraph.graph import END, START, StateGraph

SUMMARIZE = "Say in a line what the ticket is about."


class Ticket(TypedDict, total=False):
    text: str
    summary: str
    queue: str


def ask(system: str, user: str) -> str:
    llm = ChatOpenAI(model="m", base_url=os.environ["DESK_URL"], api_key="key")
    return str(llm.invoke([("system", system), ("user", user)]).content)


def summarize(state: Ticket) -> Ticket:
    return {"summary": ask(SUMMARIZE, state["text"])}


def route(state: Ticket) -> Ticket:
    queue = ask(
        "Route the ticket to billing, "  # three queues
        "tech or sales.",
        f"About: {state['summary']}\\nTicket: {state['text']}",
    )
    return {"queue": queue}


def thank(state: Ticket) -> Ticket:
    ask("Thank the customer in one short sentence.", f"Queue: {state['queue']}\\nTicket: {state['text']}")
    return {}


inner = StateGraph(Ticket)
inner.add_node("route", route)
inner.add_edge(START, "route")
inner.add_edge("route", END)
graph = StateGraph(Ticket)
graph.add_node("summarize", summarize)
graph.add_node("desk", inner.compile())
graph.add_node("thank", thank)
graph.add_edge(START, "summarize")
graph.add_edge("summarize", "desk")
graph.add_conditional_edges("desk", lambda state: "thank" if state["queue"] == "sales" else END)
graph.add_edge("thank", END)
app = graph.compile()
"""
OLD = '        "Route the ticket to billing, "  # three queues\n'
NEW = '        "Read closely, then route the ticket to billing, "  # three queues\n'
HELPER = 'OTHER = "Route the ticket to billing, tech or sales."\n'
TICKETS = [f"Ticket {n * 7919 % 1000}: the app crashes, day {n}" for n in range(12)]


@pytest.fixture(scope="module")
def monkeypatched() -> Iterator[pytest.MonkeyPatch]:
    with pytest.MonkeyPatch.context() as patch:
        yield patch


@pytest.fixture(scope="module")
def endpoint(monkeypatched: pytest.MonkeyPatch) -> Iterator[FakeEndpoint]:
    with desk_model(monkeypatched) as found:
        yield found


@pytest.fixture(scope="module")
def folder(
    tmp_path_factory: pytest.TempPathFactory, monkeypatched: pytest.MonkeyPatch, endpoint: FakeEndpoint
) -> Path:
    """A folder with a program, and a run of it that has found a better text for one of its nodes."""
    folder = tmp_path_factory.mktemp("shop")
    (folder / "shop_graph.py").write_text(SHOP, encoding="utf-8")
    for name in ("shop_helper.py", "never_imported.py"):
        (folder / name).write_text(HELPER, encoding="utf-8")
    monkeypatched.chdir(folder)
    monkeypatched.syspath_prepend(folder)
    result = autoprompt.optimize(desk_config(folder, program="shop_graph:app"))
    assert result.verdict == "confirmed"
    assert endpoint.requests
    return folder


@pytest.fixture
def result(folder: Path) -> Iterator[RunResult]:
    """The run's, with the program as it was before and afterwards."""
    yield Run.open("last", runs_dir=folder / "runs").result
    (folder / "shop_graph.py").write_text(SHOP, encoding="utf-8")


def answers(app: Any) -> set[str]:
    return {app.invoke({"text": text})["queue"] for text in TICKETS}


@pytest.fixture
def app(folder: Path) -> Any:
    return importlib.import_module("shop_graph").app


def test_a_diff_changes_the_literals_alone_and_is_written_if_asked(folder: Path, result: RunResult) -> None:
    shown = call("runs", "apply", "last", "--trust")
    lines = shown.stdout.splitlines()
    assert lines[:2] == ["--- a/shop_graph.py", "+++ b/shop_graph.py"]
    assert [line for line in lines[2:] if line[0] in "+-"] == [f"-{OLD}"[:-1], f"+{NEW}"[:-1]]
    assert (folder / "shop_graph.py").read_text("utf-8") == SHOP
    assert "Add --write" in shown.stderr

    written = call("runs", "apply", "last", "--trust", "--write", "--json")
    assert json.loads(written.stdout)["is_written"] is True
    assert (folder / "shop_graph.py").read_text("utf-8") == SHOP.replace(OLD, NEW)
    assert "has these texts already" in call("runs", "apply", "last", "--trust", "--write").stderr


def test_a_copied_run_changes_the_copy_of_the_project(
    tmp_path: Path, folder: Path, result: RunResult, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(folder, copy)
    before = (folder / "shop_graph.py").read_bytes()
    monkeypatch.chdir(tmp_path)
    run = Run.open(copy / Path(result.run_dir).relative_to(folder))
    assert run.apply().files == (copy / "shop_graph.py",)
    assert (folder / "shop_graph.py").read_bytes() == before
    assert (copy / "shop_graph.py").read_bytes() != before


def test_an_edited_file_is_changed_where_the_text_is_now(folder: Path, result: RunResult) -> None:
    (folder / "shop_graph.py").write_text(f"# a line more\n{SHOP}", encoding="utf-8")
    applied = result.apply()
    assert [problem.code for problem in applied.warnings] == ["program.source-changed"]
    assert (folder / "shop_graph.py").read_text("utf-8") == f"# a line more\n{SHOP.replace(OLD, NEW)}"


@pytest.mark.parametrize(
    ("source", "why"),
    [
        (
            SHOP.replace('"tech or sales."', '"tech " + "or sales."'),
            "the original text was in {folder}/shop_graph.py in the run, and is not there any more",
        ),
        (
            f'{SHOP}\nAGAIN = "Route the ticket to billing, tech or sales."\n',
            "2 places hold the original text",
        ),
    ],
)
def test_a_text_without_one_place_is_printed_and_nothing_is_written(
    folder: Path, result: RunResult, source: str, why: str
) -> None:
    (folder / "shop_graph.py").write_text(source, encoding="utf-8")
    said = call("runs", "apply", "last", "--trust", "--write", code=1).stderr
    line = SHOP[: SHOP.index("llm.invoke")].count("\n") + 1
    assert (
        f"desk.route.system (sent from {folder / 'shop_graph.py'} line {line}): {why.format(folder=folder)}"
        in said
    )
    assert "\nRead closely, then route the ticket to billing, tech or sales.\n" in said
    assert (folder / "shop_graph.py").read_text("utf-8") == source


def test_other_files_with_the_same_sentence_are_never_written(folder: Path, result: RunResult) -> None:
    source = folder / "shop_graph.py"
    source.write_text(SHOP.replace('"tech or sales."', '"sales or tech."'), encoding="utf-8")
    (refused,) = result.apply().unplaced
    assert refused.why == f"the original text was in {source} in the run, and is not there any more"

    source.write_text(SHOP, encoding="utf-8")
    assert result.apply().files == (source,)
    assert result.apply().files == ()  # it has the texts already
    for name in ("shop_helper.py", "never_imported.py"):
        assert (folder / name).read_text("utf-8") == HELPER


def with_texts(result: RunResult, texts: dict[str, str], demos: tuple[Demo, ...] = ()) -> Candidate:
    components = {**result.original.components, **texts}
    return Candidate(components=components, demos=demos, origin=result.best.origin)


def test_all_files_are_written_or_none(
    folder: Path, result: RunResult, monkeypatch: pytest.MonkeyPatch
) -> None:
    from autoprompt.programs import apply

    (folder / "other.py").write_text('B = "b"\n', encoding="utf-8")
    files = {
        folder / "shop_graph.py": (SHOP.encode(), b"A = 1\n"),
        folder / "other.py": (b"it was another", b"B = 2\n"),
    }
    with pytest.raises(autoprompt.AutopromptError, match="changed meanwhile"):
        apply._write(files)
    assert (folder / "shop_graph.py").read_text("utf-8") == SHOP


def test_texts_that_share_a_literal_change_together_or_not_at_all(tmp_path: Path, result: RunResult) -> None:
    view = json.loads((result.run_dir / VIEW).read_text("utf-8"))
    text = "Say in a line what the ticket is about."
    other = {**view["placed"][0], "name": "again.system", "site": "again", "original": text}
    view["placed"].append(other)
    view["held_by"]["again.system"] = view["held_by"]["summarize.system"]
    (tmp_path / VIEW).write_text(json.dumps(view), encoding="utf-8")
    from autoprompt.programs.apply import apply_candidate

    one = with_texts(result, {"summarize.system": "Say it.", "again.system": text})
    refused = apply_candidate(tmp_path, one, write=False)
    assert [(u.name, "holds the text of 'again.system'" in u.why) for u in refused.unplaced] == [
        ("summarize.system", True)
    ]
    both = with_texts(result, {"summarize.system": "Say it.", "again.system": "Say it."})
    assert '+SUMMARIZE = "Say it."\n' in apply_candidate(tmp_path, both, write=False).diff


def test_demonstrations_have_no_place_in_a_source(result: RunResult) -> None:
    shown = (Demo("About: x\nTicket: y", "tech", component="desk.route.system"),)
    from autoprompt.programs.apply import apply_candidate

    applied = apply_candidate(result.run_dir, with_texts(result, {}, shown), write=False)
    (problem,) = applied.warnings
    assert (problem.code, "autoprompt.use(FILE)" in problem.fix) == ("program.demos-not-applied", True)


def test_the_file_that_a_program_needs_for_demonstrations_is_written_as_the_warning_says(
    result: RunResult,
) -> None:
    shown = (Demo("About: x\nTicket: y", "tech", component="desk.route.system"),)
    candidate = replace(with_texts(result, {}, shown), operator="demos", iteration=1, id="")
    folder = Run.open(result.run_dir).folder
    folder.append_candidates([{**candidate.to_dict(), "status": "rejected", "scores": {}, "step": 1}])
    said = call("runs", "apply", f"{folder.path}:{candidate.id[:8]}", "--trust").stderr
    (command,) = re.findall("`autoprompt (runs export [^`]*)`", said)
    call(*shlex.split(command))
    assert "Ticket: y" in Path("program.yaml").read_text(encoding="utf-8")


def test_the_winner_runs_without_a_changed_line(app: Any, result: RunResult) -> None:
    assert len(answers(app)) > 1
    seen: list[set[str]] = []
    with result.best.active():
        seen.append(answers(app))
        thread = threading.Thread(target=lambda: seen.append(answers(app)))
        thread.start()
        thread.join()
        outside = threading.Thread(target=lambda: None)
        outside.start()
        outside.join()

        async def all_at_once() -> set[str]:
            found = await asyncio.gather(*(app.ainvoke({"text": text}) for text in TICKETS))
            return {one["queue"] for one in found}

        seen.append(asyncio.run(all_at_once()))
    assert seen == [{"tech"}] * 3
    assert len(answers(app)) > 1


def test_an_export_is_used_by_a_whole_process(tmp_path: Path, app: Any, result: RunResult) -> None:
    call("runs", "export", result.run_id, "--to", str(tmp_path / "winner.yaml"))
    autoprompt.use(tmp_path / "winner.yaml")
    try:
        assert answers(app) == {"tech"}
    finally:
        autoprompt.use(None)
    assert len(answers(app)) > 1


def test_a_process_that_uses_an_export_pays_for_nothing_else(
    app: Any, result: RunResult, endpoint: FakeEndpoint
) -> None:
    autoprompt.use(result.best)
    try:
        before = len(endpoint.requests)
        app.invoke({"text": TICKETS[0]})
        sent = endpoint.requests[before:]
    finally:
        autoprompt.use(None)
    assert [body["messages"][0]["content"] for body in sent] == [
        "Say in a line what the ticket is about.",
        "Read closely, then route the ticket to billing, tech or sales.",
    ]


def test_demonstrations_are_shown_too(app: Any, result: RunResult, endpoint: FakeEndpoint) -> None:
    shown = (Demo("About: x\nTicket: y", "tech", component="desk.route.system"),)
    before = len(endpoint.requests)
    with with_texts(result, {}, shown).active():
        app.invoke({"text": TICKETS[0]})
    summary, routed = endpoint.requests[before:]
    assert [turn["role"] for turn in summary["messages"]] == ["system", "user"]
    assert [(turn["role"], turn["content"]) for turn in routed["messages"]][1:3] == [
        ("user", "About: x\nTicket: y"),
        ("assistant", "tech"),
    ]


def test_a_source_that_has_changed_is_told_once(app: Any, result: RunResult) -> None:
    origin = result.best.origin
    assert origin is not None
    view = json.loads((result.run_dir / VIEW).read_text("utf-8"))
    places = tuple({**p, "original": p["original"].replace("Route", "Direct")} for p in view["placed"])
    stale = Candidate(
        components=result.best.components,
        origin=type(origin)(origin.name, places=places),
    )
    with warnings.catch_warnings(record=True) as said, stale.active():
        warnings.simplefilter("always")
        app.invoke({"text": TICKETS[0]})
        app.invoke({"text": TICKETS[1]})
    assert [str(one.message) for one in said] == [
        "autoprompt: the text of desk.route.system is not the one that was optimized, so it is sent as it is"
    ]


def test_only_candidates_of_programs_are_used(tmp_path: Path) -> None:
    with pytest.raises(autoprompt.AutopromptError, match="expected the texts of a program"):
        Candidate(components={"prompt": "Hi."}).active().__enter__()
    with pytest.raises(autoprompt.AutopromptError, match="expected the file of an export"):
        autoprompt.use(3)  # type: ignore[arg-type]
    of_prompt = tmp_path / "prompt.yaml"
    of_prompt.write_text("components:\n  prompt: Hi.\nlabels: []\nmodel: m\n", encoding="utf-8")
    with pytest.raises(autoprompt.AutopromptError, match="found an exported prompt"):
        autoprompt.use(of_prompt)
    assert "autoprompt.programs.hooks" in sys.modules


def test_an_export_is_scored_and_checked_with_the_program(
    tmp_path: Path, folder: Path, result: RunResult
) -> None:
    winner, original = tmp_path / "winner.yaml", tmp_path / "original.yaml"
    call("runs", "export", result.run_id, "--to", str(winner))
    call("runs", "export", f"{result.run_id}:original", "--to", str(original))
    rows = ["--program", "shop_graph:app", "--dataset", str(folder / "tickets.jsonl"), "--no-cache"]
    scored = json.loads(call("eval", "--from", str(winner), *rows, "--json").stdout)
    assert scored["score"] == 1.0
    baseline = ["--baseline", str(tmp_path / "baseline.json")]
    call("check", "--from", str(winner), *rows, *baseline, "--update-baseline")
    assert "Passed" in call("check", "--from", str(winner), *rows, *baseline).output
    call("check", "--from", str(original), *rows, *baseline, code=1)


def test_another_texts_scores_are_no_baseline_of_the_winner(
    tmp_path: Path, folder: Path, result: RunResult
) -> None:
    winner, baseline = tmp_path / "winner.yaml", tmp_path / "baseline.json"
    call("runs", "export", result.run_id, "--to", str(winner))
    data = yaml.safe_load(winner.read_text("utf-8"))
    for place in data["placed"]:
        place["original"] = "It was another text."
    winner.write_text(yaml.safe_dump(data), encoding="utf-8")
    rows = ["--program", "shop_graph:app", "--dataset", str(folder / "tickets.jsonl")]
    said = call(
        "check", "--from", str(winner), *rows, "--baseline", str(baseline), "--update-baseline", code=3
    ).output
    assert "is not the one that was optimized" in said
    assert not baseline.exists()


def changed_places(result: RunResult, **changes: str) -> Candidate:
    """The winner, as an export of a program whose places are other ones."""
    view = json.loads((result.run_dir / VIEW).read_text("utf-8"))
    places = tuple({**place, **changes} for place in view["placed"])
    origin = result.best.origin
    assert origin is not None
    return Candidate(components=result.best.components, origin=type(origin)(origin.name, places=places))


def test_a_text_that_was_edited_since_the_export_is_scored_as_it_is(
    folder: Path, result: RunResult, endpoint: FakeEndpoint
) -> None:
    config = desk_config(folder, program="shop_graph:app")
    edited = changed_places(result, original="It was another text.")
    before = len(endpoint.requests)
    scored = autoprompt.evaluate(config, candidate=edited)
    assert not any("closely" in str(body) for body in endpoint.requests[before:])
    assert scored.score == autoprompt.evaluate(config).score < 0.7
    said = [warning.said for warning in scored.warnings if warning.code == "program.other-text"]
    (about,) = (one for one in said if "desk.route.system" in one)
    assert about == "the text of desk.route.system is not the one that was optimized, so it is sent as it is"


def test_the_export_of_another_program_is_refused(folder: Path, app: Any, result: RunResult) -> None:
    other = changed_places(result, site="somewhere")
    with pytest.raises(autoprompt.AutopromptError, match="its texts belong to somewhere") as failed:
        autoprompt.evaluate(desk_config(folder, program="shop_graph:app"), candidate=other)
    assert [problem.code for problem in failed.value.problems] == ["program.other-program"]
    with warnings.catch_warnings(record=True) as said, other.active():
        warnings.simplefilter("always")
        app.invoke({"text": TICKETS[0]})
    assert [str(one.message) for one in said] == [
        "autoprompt: no text of the winner belongs to the requests of summarize, but to somewhere"
    ]


def test_texts_on_branches_that_the_rows_do_not_take_are_known(
    tmp_path: Path, folder: Path, result: RunResult
) -> None:
    lines = (folder / "tickets.jsonl").read_text("utf-8").splitlines(keepends=True)
    some = tmp_path / "some.jsonl"
    some.write_text("".join(line for line in lines if '"sales"' not in line), encoding="utf-8")
    config = desk_config(
        tmp_path, dataset=some, program="shop_graph:app", labels=("billing", "tech", "sales")
    )
    assert "thank.system" in result.best.components
    assert autoprompt.evaluate(config, candidate=result.best).score == 1.0


PROMPTS = """# of the desk
summary: Say in a line what the ticket is about.
route:
  system: Route the ticket to billing, tech or sales.   # three queues
  user: |-
    About: {summary}
    Ticket: {text}
unused: Nobody sends this text.
"""
FILE_DESK = """
import os
from pathlib import Path

import yaml
from openai import OpenAI

PROMPTS = yaml.safe_load(Path("prompts.yaml").read_text("utf-8"))


def desk(text: str) -> str:
    with OpenAI(base_url=os.environ["DESK_URL"], api_key="key") as client:

        def ask(system: str, user: str) -> str:
            turns = [{"role": "system", "content": system}, {"role": "user", "content": user}]
            reply = client.chat.completions.create(model="m", messages=turns)
            return reply.choices[0].message.content

        summary = ask(PROMPTS["summary"], text)
        return ask(PROMPTS["route"]["system"], PROMPTS["route"]["user"].format(summary=summary, text=text))
"""


def test_a_file_of_prompts_names_the_components_and_gets_the_winner(
    tmp_path: Path, endpoint: FakeEndpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert endpoint.base_url
    (tmp_path / "prompts.yaml").write_text(PROMPTS, encoding="utf-8")
    (tmp_path / "file_desk.py").write_text(FILE_DESK, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    config = desk_config(tmp_path, program="file_desk:desk", prompts_file=Path("prompts.yaml"))
    found = autoprompt.optimize(config)
    assert [*found.original.components] == ["summary", "route.system", "route.user"]
    assert "prompts.yaml line 8: no tried row sends the text 'unused'" in "".join(map(str, found.warnings))
    assert found.apply().is_written
    better = "  system: Read closely, then route the ticket to billing, tech or sales.   # three queues"
    lines = PROMPTS.splitlines()
    assert (tmp_path / "prompts.yaml").read_text("utf-8").splitlines() == [*lines[:3], better, *lines[4:]]
    assert (tmp_path / "file_desk.py").read_text("utf-8") == FILE_DESK
