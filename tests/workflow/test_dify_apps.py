"""Dify's apps without a graph, as Dify 0.6 to 1.9 export them: read, run, optimized, written back."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from called import call
from fake_endpoint import Reply, answer, fake_endpoint
from flow_runs import run_flow

from autoprompt.errors import DatasetError, InputError
from autoprompt.llm import ScriptedClient
from autoprompt.optimizer.api import optimize
from autoprompt.records import Candidate, Demo, Example
from autoprompt.runs import RunStore
from autoprompt.settings.prompt_file import is_workflow
from autoprompt.settings.records import RunConfig
from autoprompt.workflow import Workflow, tool
from autoprompt.workflow.demonstrations import forms, with_examples
from autoprompt.workflow.engine import tools
from autoprompt.workflow.engine.errors import WorkflowDefinitionError
from autoprompt.workflow.file.apps import from_references, to_references
from autoprompt.workflow.file.rewrite import rewritten
from autoprompt.workflow.file.validation import validate
from autoprompt.workflow.program import WorkflowProgram
from autoprompt.workflow.task import WorkflowTask, open_workflow

APPS = Path(__file__).parent / "dify" / "apps"
FILES = sorted(APPS.glob("*.yml"))
# Component -> where in the file its text is.
TEXTS: dict[str, dict[str, tuple[Any, ...]]] = {
    "debate": {"llm.system": ("chat_prompt_config", "prompt", 0, "text")},
    "handbook": {"llm.system": ("pre_prompt",)},
    "headline": {"llm.user": ("pre_prompt",)},
    "parcels": {"agent.instruction": ("pre_prompt",)},
    "parcels_old": {"agent.instruction": ("pre_prompt",)},
    "reviewer": {"llm.user": ("completion_prompt_config", "prompt", "text")},
    "translator": {"llm.system": ("pre_prompt",)},
}


@pytest.fixture(autouse=True)
def look_up_order() -> Iterator[list[str]]:
    asked: list[str] = []

    @tool
    def look_up_order(number: str) -> str:
        """Where an order is."""
        asked.append(number)
        return "in Lyon"

    yield asked
    tools._registered.pop("look_up_order", None)


def task(name: str) -> WorkflowTask:
    return open_workflow(RunConfig(), APPS / f"{name}.yml")


def sent(name: str, inputs: dict[str, Any], answers: Any = None) -> list[tuple[str, str]]:
    """The messages of the first request."""
    client = ScriptedClient(answers or (lambda messages: "?"))
    done = run_flow(APPS / f"{name}.yml", inputs, client)
    assert done.outputs is not None, done.error
    return [(message.role, message.content) for message in client.calls[0]]


# --- reading ---


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_every_kind_of_app_loads(path: Path) -> None:
    assert [str(fault) for fault in validate(path) if fault.severity == "error"] == []
    assert list(Workflow.load(path).components) == list(TEXTS[path.stem])


def test_a_chat_asks_with_its_prompt_and_the_question() -> None:
    assert sent("translator", {"query": "Where is the station?", "language": "Greek"}) == [
        (
            "system",
            "You translate for a traveller. Answer in Greek, in a polite tone.\n"
            "Keep names as they are, and {{ braces }} or {{unknown}} too.",
        ),
        ("user", "Where is the station?"),
    ]


def test_a_chat_needs_its_question_and_its_variables() -> None:
    with pytest.raises(InputError, match="no query"):
        Workflow.load(APPS / "translator.yml").run({"language": "Greek"})
    with pytest.raises(InputError, match="expected one of: Spanish, Greek"):
        Workflow.load(APPS / "translator.yml").run({"language": "Latin", "query": "?"})


def test_knowledge_is_an_input() -> None:
    prompt = ("system", "Answer questions about the staff handbook. Say yes or no first.")
    assert sent("handbook", {"query": "Tea?"}) == [prompt, ("user", "Tea?")]
    with_context = sent("handbook", {"query": "Tea?", "context": "Tea is free."})
    assert with_context == [("system", "Tea is free."), prompt, ("user", "Tea?")]
    off = yaml.safe_load((APPS / "handbook.yml").read_text(encoding="utf-8"))
    off["model_config"]["dataset_configs"]["datasets"]["datasets"][0]["dataset"]["enabled"] = False
    assert [fault for fault in validate(off) if "knowledge" in fault.message] == []
    (warning, _) = validate(APPS / "handbook.yml")
    assert (warning.severity, warning.line) == ("warning", 9)
    assert "Give what it finds as the input 'context'" in warning.message


def test_no_input_of_an_app_is_unknown(tmp_path: Path) -> None:
    given = ["--input", "query=Tea?", "--input", "context=Tea is free.", "--runs-dir", str(tmp_path)]
    with fake_endpoint(lambda body: answer("Yes.")) as endpoint:
        model = ["--base-url", endpoint.base_url, "--model", "fake"]
        done = call("flow", "run", str(APPS / "handbook.yml"), *given, *model)
    assert done.stdout.strip() == "answer: Yes."
    assert "knows no input" not in done.stderr


def test_an_app_is_no_prompt() -> None:
    text = (APPS / "translator.yml").read_text(encoding="utf-8")
    assert is_workflow(text)
    assert not is_workflow("model_config: is a text\nkind: app")


def test_a_completion_is_asked_with_its_variables_alone() -> None:
    text = "Write a headline for the text below.\n\nText: It rained.\nHeadline:"
    assert sent("headline", {"query": "It rained."}) == [("user", text)]


def test_messages_of_a_chat_go_before_its_question() -> None:
    assert sent("debate", {"query": "Cats!", "side": "for"}) == [
        ("system", "You argue for the motion."),
        ("user", "Keep to two sentences."),
        ("assistant", "I will."),
        ("user", "Cats!"),
    ]


def test_a_text_of_a_completion_model_holds_the_question() -> None:
    text = "Say whether a review is good or bad.\n\n\n\nHuman: Fine.\n\nAssistant: "
    assert sent("reviewer", {"query": "Fine."}) == [("user", text)]


@pytest.mark.parametrize(
    ("name", "instruction"), [("parcels", "You help Ann to find parcels."), ("parcels_old", "")]
)
def test_an_agent_calls_the_tools_that_are_on(name: str, instruction: str, look_up_order: list[str]) -> None:
    call = json.dumps({"tool": "look_up_order", "arguments": {"number": "9"}})
    (system, asked) = sent(name, {"query": "Order 9?", "name": "Ann"}, [call, "In Lyon."])
    assert system[1].startswith(f"{instruction}\n\nYou may call tools.".lstrip())
    assert "current_" not in system[1]
    assert asked == ("user", "Order 9?")
    assert look_up_order == ["9"]


def test_an_app_without_its_settings_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "app.yml"
    path.write_text("kind: app\napp: {mode: chat, name: x}\n", encoding="utf-8")
    with pytest.raises(
        WorkflowDefinitionError, match=r"app.yml line 2: an app of mode 'chat' without model_config"
    ):
        Workflow.load(path)


@pytest.mark.parametrize(
    ("text", "inside"),
    [
        ("{{a}} {{b}} {{#query#}}", "{{#start.a#}} {{b}} {{#sys.query#}}"),
        ("{{#context#}} {{ a }} {a} {{#histories#}}", "{{#context#}} {{ a }} {a} {{#sys.histories#}}"),
    ],
)
def test_variables_become_references_and_come_back(text: str, inside: str) -> None:
    assert to_references(text, {"a"}) == inside
    assert from_references(inside) == text


# --- writing ---


def at(data: Any, where: tuple[Any, ...]) -> Any:
    for step in where:
        data = data[step]
    return data


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
@pytest.mark.parametrize("added", [" Be brief.", "\nMind:\n\n- {{ a }}\n- \"b\": 'c' # d"])
def test_only_the_text_that_changed_differs(path: Path, added: str) -> None:
    opened = task(path.stem)
    texts = opened.texts
    assert opened.file_with(Candidate(texts)) == opened.source
    written = opened.file_with(Candidate({name: text + added for name, text in texts.items()}))
    expected = copy.deepcopy(yaml.safe_load(opened.source))
    ((_, where),) = TEXTS[path.stem].items()
    at(expected["model_config"], where[:-1])[where[-1]] += added
    assert yaml.safe_load(written) == expected
    kept = [line for line in opened.source.splitlines() if line in written.splitlines()]
    lines = len(at(yaml.safe_load(opened.source)["model_config"], where).splitlines())
    assert len(kept) >= len(opened.source.splitlines()) - lines - 2


def test_a_text_that_says_a_variable_where_it_means_words_is_refused_before_it_is_measured() -> None:
    opened = task("translator")
    (name,) = opened.texts
    with pytest.raises(InputError, match="read otherwise"):
        opened.check_writable(Candidate({name: "Literally {{language}}"}))
    opened.check_writable(Candidate({name: "Be brief."}))


def test_a_prompt_that_is_null_is_filled(tmp_path: Path) -> None:
    source = (APPS / "parcels_old.yml").read_text(encoding="utf-8").replace("pre_prompt: ''", "pre_prompt:")
    text = rewritten(source, {"agent.instruction": ""}, {"agent.instruction": "Find it."})
    assert yaml.safe_load(text)["model_config"]["pre_prompt"] == "Find it."


# --- demonstrations, and a whole search ---


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_demonstrations_are_in_the_text_of_the_run_and_of_the_file(path: Path) -> None:
    opened = task(path.stem)
    ((name, text),) = opened.texts.items()
    assert set(forms(opened.workflow.definition).values()) >= {"text"}
    candidate = Candidate({name: text}, (Demo("a: b", "c", component=name),))
    read = Workflow.load(yaml.safe_load(opened.file_with(candidate)))
    assert read.components == {name: with_examples(text, [("a: b", "c")])}


def test_examples_come_before_the_first_variable() -> None:
    shown = [("x", "y")]
    assert with_examples("Do it.", shown) == "Do it.\n\nExamples:\n\nInput: x\nAnswer: y"
    assert with_examples("Do it.\nText: {{#a.b#}}", shown) == (
        "Do it.\n\nExamples:\n\nInput: x\nAnswer: y\n\nText: {{#a.b#}}"
    )
    assert with_examples("回答问题：{{#a.b#}}", shown) == "示例：\n\n输入：x\n回答：y\n\n回答问题：{{#a.b#}}"


ROWS = [
    {"input": f"item {n} {word}", "target": label}
    for n in range(40)
    for word, label in (("red", "warm"), ("blue", "cold"))
]


def warm_if_shown(body: dict[str, Any]) -> Reply:
    """Right where the request shows examples or asks for colours, else always "warm"; writes one prompt."""
    messages = body["messages"]
    text = "\n".join(str(message["content"]) for message in messages)
    last = str(messages[-1]["content"])
    if "item" not in last or len(last) > 2_000:
        return answer("```\nName the colour's kind, warm or cold, and nothing else.\n```")
    knows = "Examples:" in text or "kind" in text or len(messages) > 4
    return answer("cold" if knows and "blue" in last.rsplit("item", 1)[1] else "warm")


def test_so_are_those_of_nodes_without_messages_in_an_export() -> None:
    path = APPS.parent / "support_desk.yml"
    opened = open_workflow(RunConfig(target_output="answer"), path)
    (said,) = opened.check_search()
    assert said.code == "workflow.demos-in-text"
    assert "demonstrations of 1718000000003 go into the text" in str(said)
    assert "For turns" not in str(said)
    (said,) = open_workflow(RunConfig(), APPS.parent / "llm_one_message.yml").check_search()
    assert "For turns, give 1750000000002 the input as the user's message" in str(said)
    (name,) = (name for name in opened.texts if name.startswith("1718000000003"))
    candidate = Candidate(opened.texts, (Demo("Where is 12345?", '{"order_id": 12345}', component=name),))
    read = Workflow.load(yaml.safe_load(opened.file_with(candidate)))
    assert read.components[name] == (
        'The number has five digits.\n\nExamples:\n\nInput: Where is 12345?\nAnswer: {"order_id": 12345}'
    )
    assert {**read.components, name: opened.texts[name]} == opened.texts


def test_a_question_is_no_value_of_a_variable_that_the_rows_lack() -> None:
    row = Example("1", "Where?", "", {"input": "Where?"})
    with pytest.raises(DatasetError, match="no value for the input language"):
        task("translator").fitted([row])
    given = Example("1", "Where?", "", {"input": "Where?", "language": "Greek"})
    fitted = task("translator").fitted([given])
    client = ScriptedClient(["?"])
    WorkflowProgram(fitted.workflow, client, "answer", fitted.one_input).run(given, Candidate(fitted.texts))
    assert client.calls[0][0].content.startswith(
        "You translate for a traveller. Answer in Greek, in a polite"
    )
    assert client.calls[0][1].content == "Where?"


def test_a_step_shows_the_values_that_its_text_names() -> None:
    """Of one variable its value, of several each after its name; nothing that would read as a variable."""
    steps = {}
    for query in ("Where?", "{{#start.tone#}}"):
        fields = {"input": query, "language": "Greek", "tone": "dry"}
        client = ScriptedClient(["Pou?"])
        opened = task("translator")
        program = WorkflowProgram(opened.workflow, client, "answer")
        (steps[query],) = program.run(Example("1", query, "", fields), Candidate(opened.texts)).trace
    assert steps["Where?"].input == "language: Greek\ntone: dry\nquery: Where?"
    assert (steps["Where?"].output, steps["Where?"].can_demo) == ("Pou?", True)
    assert not steps["{{#start.tone#}}"].can_demo


PRE_PROMPT = ("model_config", "pre_prompt")
MESSAGE = ("workflow", "graph", "nodes", 1, "data", "prompt_template", 0, "text")


@pytest.mark.parametrize(
    ("name", "where"),
    [
        ("apps/handbook", PRE_PROMPT),
        ("apps/parcels_old", PRE_PROMPT),  # an agent without a prompt
        ("apps/headline", PRE_PROMPT),
        ("llm_no_text", MESSAGE),
        ("llm_one_message", MESSAGE),
    ],
)
def test_an_export_is_optimized_and_written_back(name: str, where: tuple[Any, ...], tmp_path: Path) -> None:
    dataset = tmp_path / "rows.jsonl"
    dataset.write_text("".join(json.dumps(row) + "\n" for row in ROWS), encoding="utf-8")
    with fake_endpoint(warm_if_shown) as endpoint:
        settings = {
            "workflow": APPS.parent / f"{name}.yml",
            "dataset": dataset,
            "base_url": endpoint.base_url,
            "model": "fake",
            "preset": "quick",
            "no_memory": True,
            "runs_dir": tmp_path / "runs",
        }
        result = optimize(RunConfig(**settings))
    folder = RunStore(tmp_path / "runs").open("last")
    assert result.verdict == "confirmed"
    drawn = [entry for entry in folder.read_candidates().values() if entry["demos"]]
    exported = tmp_path / "flow.yaml"
    done = call("runs", "export", str(folder.path), "--candidate", drawn[0]["id"], "--to", str(exported))
    node = next(iter(result.best.components)).partition(".")[0]
    told = f"note: {len(drawn[0]['demos'])} demonstrations of {node} are in its text, as measured"
    assert (told in done.stderr) == (name != "llm_no_text")
    assert ("Examples:" in exported.read_text(encoding="utf-8")) == (name != "llm_no_text")
    written = yaml.safe_load((folder.path / "best_workflow.yaml").read_text(encoding="utf-8"))
    original = yaml.safe_load((APPS.parent / f"{name}.yml").read_text(encoding="utf-8"))
    if name == "llm_no_text" and result.best.demos:  # as turns, behind the text
        messages = at(written, where[:-2])
        assert len(messages) == 2 + 2 * len(result.best.demos)
        del messages[1:-1]
    else:
        assert at(written, where) != at(original, where)
    at(original, where[:-1])[where[-1]] = at(written, where)
    assert written == original
