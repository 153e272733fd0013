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
from autoprompt.metrics import get_metric
from autoprompt.optimizer.api import optimize
from autoprompt.records import Candidate, Demo, Example
from autoprompt.runs import RunStore
from autoprompt.settings.prompt_file import is_workflow
from autoprompt.settings.records import RunConfig
from autoprompt.workflow import RunSettings, Workflow, tool
from autoprompt.workflow.engine import tools
from autoprompt.workflow.engine.errors import WorkflowDefinitionError
from autoprompt.workflow.file.apps import App, from_references
from autoprompt.workflow.file.rewrite import rewritten
from autoprompt.workflow.file.validation import validate
from autoprompt.workflow.program import WorkflowProgram, forms, with_examples
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
            "Keep names as they are, and {{ braces }} or {unknown} too.",  # as Dify sends it
        ),
        ("user", "Where is the station?"),
    ]


def test_a_chat_needs_its_question_and_its_variables() -> None:
    with pytest.raises(InputError, match="needs a query"):
        Workflow.load(APPS / "translator.yml").run({"language": "Greek"})
    with pytest.raises(InputError, match="expected one of: Spanish, Greek"):
        Workflow.load(APPS / "translator.yml").run({"language": "Latin", "query": "?"})


HANDBOOK = "Answer questions about the staff handbook. Say yes or no first."
FOUND = [{"content": "Tea is free."}, {"content": "So is coffee."}]


def changed(name: str, **settings: Any) -> dict[str, Any]:
    """The app with other settings."""
    data: dict[str, Any] = yaml.safe_load((APPS / f"{name}.yml").read_text(encoding="utf-8"))
    data["model_config"] |= settings
    return data


def test_knowledge_goes_before_the_prompt_in_one_message() -> None:
    context = "<context>\nTea is free.\nSo is coffee.\n</context>"
    with_passages = sent("handbook", {"query": "Tea?", "knowledge.result": FOUND})
    assert with_passages == [("system", f"{context}\n\n{HANDBOOK}"), ("user", "Tea?")]
    mocked = {"mocks": {"knowledge": {"outputs": {"result": FOUND}}}}
    client = ScriptedClient(["?"])
    Workflow.load(changed("handbook") | mocked).run({"query": "Tea?"}, settings=RunSettings(client=client))
    assert [(message.role, message.content) for message in client.calls[0]] == with_passages


def test_knowledge_of_a_completion_goes_into_its_message_and_is_asked_with_its_field() -> None:
    datasets = yaml.safe_load((APPS / "handbook.yml").read_text(encoding="utf-8"))["model_config"]
    own = {"dataset_configs": datasets["dataset_configs"] | {"top_k": 3}, "dataset_query_variable": "query"}
    asked: list[Any] = []

    @tool
    def knowledge_retrieval(query: str, top_k: int, dataset_ids: list[str]) -> list[str]:
        """Passages."""
        asked.extend([query, top_k, dataset_ids])
        return ["It rains in May."]

    client = ScriptedClient(["?"])
    try:
        workflow = Workflow.load(changed("headline", **own))
        workflow.run({"query": "It rained."}, settings=RunSettings(client=client))
    finally:
        tools._registered.pop("knowledge_retrieval", None)
    ((message,),) = client.calls
    assert message.role == "user"
    assert message.content.startswith("<context>\nIt rains in May.\n</context>\n\nWrite a headline")
    assert asked == ["It rained.", 3, ["6f0c3f7e-8f0e-4b41-9d8b-0d5a3f1f2a10"]]


def test_knowledge_that_is_off_or_that_no_message_names_is_not_asked_for() -> None:
    off = changed("handbook")
    off["model_config"]["dataset_configs"]["datasets"]["datasets"][0]["dataset"]["enabled"] = False
    datasets = changed("handbook")["model_config"]["dataset_configs"]
    unnamed = changed("debate", dataset_configs=datasets)
    for app in (off, unnamed):
        assert [fault for fault in validate(app, needs_model=False) if "mock" in fault.message] == []
    unnamed["model_config"]["chat_prompt_config"]["prompt"][0]["text"] = "Use {{#context#}} for {{side}}."
    client = ScriptedClient(["?"])
    inputs = {"query": "Cats!", "side": "both", "knowledge.result": FOUND}
    Workflow.load(unnamed).run(inputs, settings=RunSettings(client=client))
    assert client.calls[0][0].content == "Use Tea is free.\nSo is coffee. for both."


def test_what_stays_in_dify_is_told_with_the_lines_to_write() -> None:
    (warning, _) = validate(APPS / "handbook.yml")
    assert (warning.severity, warning.node_id) == ("warning", "knowledge")
    assert "Dify's knowledge-retrieval does not run here; mock it" in warning.message
    assert "knowledge.result" in warning.message
    given = {"knowledge": {"outputs": {"result": FOUND}}}
    assert [fault.node_id for fault in validate(APPS / "handbook.yml", mocks=given)] == ["llm"]


EXTERNAL = [
    {"enabled": True, "type": "api", "variable": "weather", "config": {"api_based_extension_id": "1"}}
]
WEATHER = "Say whether to take a coat. The weather: {{weather}}"


@pytest.mark.parametrize(
    "settings",
    [
        {"external_data_tools": EXTERNAL},
        {"user_input_form": [{"external_data_tool": {**EXTERNAL[0], "label": "Weather"}}]},
    ],
    ids=["list", "form"],
)
def test_an_external_data_tool_needs_a_recorded_value(settings: dict[str, Any], tmp_path: Path) -> None:
    app = changed("debate", pre_prompt=WEATHER, prompt_type="simple", **{"user_input_form": [], **settings})
    (warning,) = validate(app, needs_model=False)
    assert "Dify's external-data-tool does not run here; mock it" in warning.message
    assert 'external: {outputs: {weather: "..."}}' in warning.message
    client = ScriptedClient(["?"])
    settings_ = RunSettings(client=client)
    Workflow.load(app).run({"query": "Now?", "external.weather": "{{rain}}"}, settings=settings_)
    assert client.calls[0][0].content == "Say whether to take a coat. The weather: {rain}"  # as Dify does
    path = tmp_path / "app.yml"
    path.write_text(yaml.safe_dump(app), encoding="utf-8")
    opened = open_workflow(RunConfig(), path)
    with pytest.raises(WorkflowDefinitionError, match="external-data-tool does not run here"):
        opened.fitted([Example("1", "Now?", "yes", {"input": "Now?"})])
    opened.fitted([Example("1", "Now?", "yes", {"input": "Now?", "external.weather": "rain"})])
    written = opened.file_with(Candidate({"llm.system": "Coat? {{#external.weather#}}"}))
    assert yaml.safe_load(written)["model_config"]["pre_prompt"] == "Coat? {{weather}}"


def test_an_external_data_tool_that_is_off_is_no_variable() -> None:
    tools_ = [EXTERNAL[0] | {"enabled": False}]
    app = changed("debate", pre_prompt=WEATHER, prompt_type="simple", external_data_tools=tools_)
    assert validate(app, needs_model=False) == []
    client = ScriptedClient(["?"])
    Workflow.load(app).run({"query": "Now?", "side": "for"}, settings=RunSettings(client=client))
    assert client.calls[0][0].content.endswith("The weather: {weather}")


def test_the_question_of_a_chat_is_sent_once() -> None:
    app = changed("debate")
    app["model_config"]["chat_prompt_config"]["prompt"][1]["text"] = "Answer: {{#query#}}"
    (warning,) = validate(app, needs_model=False)
    assert "{{#query#}} in a message is text for Dify" in warning.message
    client = ScriptedClient(["?"])
    Workflow.load(app).run({"query": "Cats!", "side": "for"}, settings=RunSettings(client=client))
    assert [message.content for message in client.calls[0]] == [
        "You argue for the motion.",
        "Answer: {#query#}",
        "I will.",
        "Cats!",
    ]


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
    ("name", "instruction"),
    [("parcels", "You help Ann to find parcels."), ("parcels_old", "You may call tools. The tools are:\n")],
)
def test_an_agent_calls_the_tools_that_are_on(name: str, instruction: str, look_up_order: list[str]) -> None:
    call = json.dumps({"tool": "look_up_order", "arguments": {"number": "9"}})
    (system, asked) = sent(name, {"query": "Order 9?", "name": "Ann"}, [call, "In Lyon."])
    assert system[1].startswith(instruction)
    assert ("You may call tools" in system[1]) == (name == "parcels_old")  # its strategy is ReAct
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
    ("prompt", "text", "inside"),
    [
        ("pre_prompt", "{{a}} {{b}} {{#query#}}", "{{#start.a#}} {{b}} {{#query#}}"),
        ("pre_prompt", "{{#context#}} {{ a }} {a}", "{{#context#}} {{ a }} {a}"),
        (
            "completion_prompt_config",
            "{{#histories#}} {{w}} {{#query#}}",
            "{{#histories#}} {{#external.w#}} {{#sys.query#}}",
        ),
    ],
)
def test_variables_become_references_and_come_back(prompt: str, text: str, inside: str) -> None:
    holder = text if prompt == "pre_prompt" else {"prompt": {"text": text}}
    config = {
        prompt: holder,
        "prompt_type": "simple" if prompt == "pre_prompt" else "advanced",
        "user_input_form": [{"text-input": {"variable": "a", "label": "A"}}],
        "external_data_tools": [{"enabled": True, "variable": "w"}],
    }
    assert App(config, "chat").to_references(text) == inside
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
    with pytest.raises(InputError, match="read back differently"):
        opened.check_writable(Candidate({name: "Literally {{language}}"}))
    opened.check_writable(Candidate({name: "Be brief."}))


@pytest.mark.parametrize("written", ["  pre_prompt:\n", ""], ids=["null", "missing"])
def test_a_prompt_that_is_not_there_is_filled(written: str, tmp_path: Path) -> None:
    source = (APPS / "parcels_old.yml").read_text(encoding="utf-8").replace("  pre_prompt: ''\n", written)
    path = tmp_path / "app.yml"
    path.write_text(source, encoding="utf-8")
    opened = open_workflow(RunConfig(), path)
    assert opened.texts == {"agent.instruction": ""}
    text = opened.file_with(Candidate({"agent.instruction": 'Find\n"it".'}))
    assert yaml.safe_load(text)["model_config"]["pre_prompt"] == 'Find\n"it".'
    assert set(source.splitlines()) - set(text.splitlines()) <= {"  pre_prompt:"}


def test_a_prompt_that_an_app_in_one_line_lacks_is_filled() -> None:
    source = "app: {mode: chat}\nmodel_config: {prompt_type: simple, model: {name: m}}\n"
    text = rewritten(source, {"llm.system": ""}, {"llm.system": "Be brief."})
    assert yaml.safe_load(text)["model_config"]["pre_prompt"] == "Be brief."


# --- demonstrations, and a whole search ---


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_demonstrations_are_in_the_text_of_the_run_and_of_the_file(path: Path) -> None:
    opened = task(path.stem)
    ((name, text),) = opened.texts.items()
    assert "app" in forms(opened.workflow.definition).values()
    candidate = Candidate({name: text}, (Demo("a: b", "c", component=name),))
    read = Workflow.load(yaml.safe_load(opened.file_with(candidate)))
    assert read.components == {name: with_examples(text, [("a: b", "c")])}


def test_examples_come_before_the_first_variable() -> None:
    shown = [("x", "y")]
    assert with_examples("Do it.", shown) == "Do it.\n\nExamples:\n\nInput: x\nAnswer: y"
    assert with_examples("Do it.\nText: {{#a.b#}}", shown) == (
        "Do it.\n\nExamples:\n\nInput: x\nAnswer: y\n\nText: {{#a.b#}}"
    )
    rag = "Use what is inside <context></context>.\n<context>\n{{#context#}}\n</context>"
    assert with_examples(rag, shown) == (
        "Use what is inside <context></context>.\n\nExamples:\n\nInput: x\nAnswer: y\n\n"
        "<context>\n{{#context#}}\n</context>"
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
    assert "demonstrations of 1718000000003 go into the prompt's text" in str(said)
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
    for query in ("Where?", "{{#start.tone#}}", "{{tone}}", "{{any}}"):
        fields = {"input": query, "language": "Greek", "tone": "dry"}
        client = ScriptedClient(["Pou?"])
        opened = task("translator")
        program = WorkflowProgram(opened.workflow, client, "answer")
        (steps[query],) = program.run(Example("1", query, "", fields), Candidate(opened.texts)).trace
    assert steps["Where?"].input == "language: Greek\ntone: dry\nquery: Where?"
    assert (steps["Where?"].output, steps["Where?"].can_demo) == ("Pou?", True)
    assert [step.can_demo for step in steps.values()] == [True, False, False, False]


def test_a_demonstration_leaves_out_the_fields_that_are_alike_in_all_rows() -> None:
    """What the prompt says once need not be said with each; what differs tells why answers do."""
    opened, shown = task("translator"), {}
    for tones in (("dry", "dry"), ("dry", "warm")):
        rows = [
            Example(str(n), f"Where {n}?", "", {"input": f"Where {n}?", "language": "Greek", "tone": tone})
            for n, tone in enumerate(tones)
        ]
        program = opened.fitted(rows).program(
            ScriptedClient(["Pou?"]), get_metric("exact_match"), labels=(), rows=rows
        )
        (step,) = program.run(rows[0], Candidate(opened.texts)).trace
        shown[tones] = step.input
    assert list(shown.values()) == ["Where 0?", "tone: dry\nquery: Where 0?"]


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
    recorded = {"knowledge.result": FOUND} if name == "apps/handbook" else {}
    dataset.write_text("".join(json.dumps(row | recorded) + "\n" for row in ROWS), encoding="utf-8")
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
    done = call("runs", "export", f"{folder.path}:{drawn[0]['id']}", "--to", str(exported))
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


FORM = """
app: {mode: %(mode)s, name: tones}
kind: app
model_config:
  model: {provider: openai, name: gpt-4o-mini, mode: chat, completion_params: {top_q: 1}}
  user_input_form:
    - external_data_tool: {variable: weather, label: Weather}
    - text-input: {variable: tone, label: Tone, required: true}
    - paragraph: {variable: "тон", label: Tone, required: false}
    - select: {variable: size, label: Size, options: 3}
  %(prompt)s
"""
SAID = "is sent as it is."


@pytest.mark.parametrize(
    ("mode", "prompt", "line"),
    [
        ("chat", "pre_prompt: PROMPT", 10),
        ("completion", "pre_prompt: PROMPT", 10),
        ("agent-chat", "pre_prompt: PROMPT", 10),
        (
            "chat",
            "prompt_type: advanced\n  chat_prompt_config:\n    prompt:\n      - {role: system, text: Hi.}\n"
            "      - {role: system, text: PROMPT}",
            14,
        ),
    ],
)
def test_faults_of_an_app_name_the_line_and_the_form_of_dify(
    mode: str, prompt: str, line: int, tmp_path: Path
) -> None:
    path = tmp_path / "app.yml"
    text = FORM % {"mode": mode, "prompt": prompt.replace("PROMPT", '"In a {{ tone }} or {{тон}} tone."')}
    path.write_text(text.lstrip().replace("options: 3", "options: [a]"), encoding="utf-8")
    faults = validate(path)
    told = [(fault.line, fault.message) for fault in faults if SAID in fault.message]
    assert told == [
        (line, f"{{{{ tone }}}} {SAID} For the variable, write {{{{tone}}}}."),
        (
            line,
            f"{{{{тон}}}} {SAID} Dify fills in only names of at most 30 ASCII letters, digits and "
            "underscores. Rename the variable.",
        ),
    ]
    assert [fault.line for fault in faults if "completion_params" in fault.message] == [4]
    path.write_text(text.lstrip(), encoding="utf-8")
    assert [fault.line for fault in validate(path) if "options" in fault.message] == [9]


def test_a_knowledge_pipeline_is_named() -> None:
    app = {"mode": "rag-pipeline", "name": "p"}
    with pytest.raises(WorkflowDefinitionError, match=r"a knowledge pipeline \(mode 'rag-pipeline'\) fills"):
        Workflow.load({"kind": "app", "app": app, "workflow": {"graph": {"nodes": []}}})
