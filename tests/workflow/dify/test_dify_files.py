"""Files in the form in which Dify's editor exports them run as they are, with the outputs that they describe.

Long numbers as ids, handles of edges, positions, notes, inner start nodes, fields of the editor: of versions
0.1.0 to 0.3.1, chatflows and workflows.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from fake_endpoint import LOCAL, Reply, fake_endpoint
from flow_runs import FlowRun, outputs_of, run_flow

from autoprompt.errors import EndpointError, InputError
from autoprompt.llm import ScriptedClient
from autoprompt.workflow import Workflow, tool
from autoprompt.workflow.engine import tools
from autoprompt.workflow.file.validation import validate

HERE = Path(__file__).parent
FILES = sorted(HERE.glob("*.yml"))
WARNED_OF = ("one_answer.yml", "recap.yml", "handbook.yml", "contracts.yml", "approval.yml", "javascript.yml")


@pytest.fixture(autouse=True)
def look_up_order() -> Iterator[list[dict[str, Any]]]:
    asked: list[dict[str, Any]] = []

    @tool
    def look_up_order(number: str, urgent: bool = False) -> dict[str, Any]:
        """Where an order is."""
        asked.append({"number": number, "urgent": urgent})
        return {"place": "Lyon", "days": 2}

    yield asked
    tools._registered.pop("look_up_order", None)


def run(name: str, inputs: dict[str, Any], answers: Any = None, **settings: Any) -> FlowRun:
    return run_flow(HERE / name, inputs, answers or (lambda messages: "?"), **settings)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_no_faults(path: Path) -> None:
    faults = validate(path)
    assert [fault for fault in faults if fault.severity == "error"] == []
    assert bool(faults) == (path.name in WARNED_OF)


# --- support_desk.yml: question-classifier, parameter-extractor, tool, llm with memory, three answers ---


def test_an_order_is_looked_up(look_up_order: list[dict[str, Any]]) -> None:
    done = run(
        "support_desk.yml",
        {"query": "Where is 12345? Quick!"},
        ["order status", '```json\n{"order_id": 12345, "urgent": true}\n```'],
    )
    assert done.outputs == {"answer": 'Order 12345: {"place": "Lyon", "days": 2}'}
    assert look_up_order == [{"number": "#12345", "urgent": True}]
    extracted = done.node("1718000000003").outputs
    assert (extracted["order_id"], extracted["urgent"], extracted["__is_success"]) == ("12345", True, 1)
    classified = done.node("1718000000002").outputs
    assert classified["class_name"] == "order status"
    assert classified["context"] == [
        {"role": "user", "text": "Where is 12345? Quick!", "files": []},
        {"role": "assistant", "text": "order status", "files": []},
    ]


def test_with_a_memory_the_question_is_the_last_message() -> None:
    client = ScriptedClient(["general question", "At nine."])
    assert run("support_desk.yml", {"query": "When do you open?"}, client).outputs == {"answer": "At nine."}
    assert [(m.role, m.content) for m in client.calls[1]] == [
        ("system", "Answer in one sentence."),
        ("user", "When do you open?"),
    ]


@pytest.mark.parametrize(
    "said",
    [
        "complaint",
        "The class is: complaint.",
        '{"category_id": "1718000000099", "category_name": "complaint"}',
    ],
)
def test_a_class_is_read_out_of_an_answer(said: str) -> None:
    done = run("support_desk.yml", {"query": "It broke!"}, [said])
    assert done.outputs == {"answer": "We are sorry. A person will write to you."}


def test_an_answer_that_is_no_class_fails_the_node() -> None:
    done = run("support_desk.yml", {"query": "It broke!"}, ["no idea"])
    assert "the model answered 'no idea', none of the classes: order status, general question" in str(
        done.error
    )


def test_a_required_parameter_that_is_missing_is_told_in_the_outputs() -> None:
    done = run("support_desk.yml", {"query": "Where is it?"}, ["order status", '{"order_id": null}'])
    outputs = done.node("1718000000003").outputs
    assert (outputs["__is_success"], outputs["order_id"], outputs["urgent"]) == (0, "", False)
    assert outputs["__reason"] == "order_id is required, and the answer has none"


def test_mocks_run_it_without_model_and_tool() -> None:
    tools._registered.pop("look_up_order")
    mocks = {
        "1718000000002": {"outputs": {"class_name": "order status"}},
        "1718000000003": {"outputs": {"order_id": "7", "urgent": False}},
        "1718000000004": {"outputs": {"text": "on its way"}},
    }
    client = ScriptedClient([])
    done = run("support_desk.yml", {"query": "?"}, client, mocks=mocks)
    assert done.outputs == {"answer": "Order 7: on its way"}
    assert client.calls == []


def test_a_chat_needs_a_query() -> None:
    with pytest.raises(InputError, match=r"this workflow is a chat and needs a query"):
        Workflow.load(HERE / "support_desk.yml").run({})


# --- summaries.yml: code, parallel iteration, template ---


def test_lines_are_shortened_and_a_failed_one_is_null() -> None:
    def answer(messages: list[Any]) -> str:
        if messages[-1].content == "second line":
            raise EndpointError("down")
        assert messages[0].content == "Shorten the line. Tone: dry"
        return str(messages[-1].content).upper()

    outputs = outputs_of(HERE / "summaries.yml", {"text": "first line\n\n  second line\nthird"}, answer)
    assert outputs == {
        "summary": "3 lines:\n- FIRST LINE\n- (failed)\n- THIRD\n",
        "lines": ["FIRST LINE", None, "THIRD"],
    }


# --- improve.yml: loop with variables, assigner, code ---


def test_a_loop_improves_until_the_grade_is_good() -> None:
    def answer(messages: list[Any]) -> str:
        text = str(messages[-1].content)
        if text.startswith("Rewrite: "):
            return text.removeprefix("Rewrite: ") + "+"
        return {1: "5", 2: "7", 3: "9"}[text.count("+")]

    outputs = outputs_of(HERE / "improve.yml", {"draft": "text"}, answer)
    assert outputs == {"text": "text+++", "score": 9, "history": ["text+", "text++", "text+++"]}


# --- tutor.yml: conversation and environment variables, two answers on the way ---


def test_a_conversation_begins() -> None:
    client = ScriptedClient(["Hola."])
    done = run("tutor.yml", {"query": "Spanish", "level": "2"}, client)
    assert done.outputs == {"answer": "Welcome! Hola. (1, - Spanish)"}
    assert client.calls[0][0].content == "Teach Spanish at level 2."


def test_a_conversation_goes_on() -> None:
    done = run("tutor.yml", {"query": "?", "conversation.language": "Greek"})
    assert done.outputs == {"answer": "Going on with Greek."}


# --- price_band.yml: cases with ids of the editor, groups of an aggregator ---


@pytest.mark.parametrize(
    ("price", "country", "outputs"),
    [
        (5, "DE", {"band": "low 5", "high": None, "low": "low 5"}),
        (5, "UK", {"band": "high 5", "high": "high 5", "low": None}),
        (100, "DE", {"band": "high 100", "high": "high 100", "low": None}),
        (50, "DE", {"band": "middle", "high": None, "low": None}),
    ],
)
def test_branches_meet_in_groups(price: int, country: str, outputs: dict[str, Any]) -> None:
    assert outputs_of(HERE / "price_band.yml", {"price": price, "country": country}) == outputs


# --- old_notes.yml: the first versions of assigner and if-else, `sys.query` of the start node ---


def test_the_first_version_of_the_assigner() -> None:
    assert run("old_notes.yml", {"query": "a note"}).outputs == {"answer": "- first\n- a note / a note"}
    assert run("old_notes.yml", {"query": "hello"}).outputs == {"answer": ""}


def test_what_an_assigner_that_clears_was_given_before_is_not_read() -> None:
    """The editor leaves it there, when the node that it named is gone too."""
    data = yaml.safe_load((HERE / "old_notes.yml").read_text(encoding="utf-8"))
    (forget,) = (n for n in data["workflow"]["graph"]["nodes"] if n["data"].get("write_mode") == "clear")
    forget["data"]["input_variable_selector"] = ["1708000000099", "text"]
    assert outputs_of(data, {"query": "hello"}) == {"answer": ""}


# --- weather.yml: http-request with retry and fail-branch, default-value ---


def weather(reply: Reply) -> tuple[FlowRun, list[Any]]:
    with fake_endpoint(lambda body: reply) as endpoint:
        base = endpoint.base_url.removesuffix("/v1")
        inputs = {"city": 'Kyiv "UA"', "env.base": base, "env.key": "k1"}
        done = run_flow(HERE / "weather.yml", inputs, allow_private_hosts=LOCAL)
        return done, list(zip(endpoint.requests, endpoint.headers, strict=True))


def test_an_http_request() -> None:
    done, sent = weather(Reply(body={"degrees": 21.5}))
    assert done.outputs == {"degrees": 21.5, "status": 200}
    ((body, headers),) = sent
    assert body == {"city": 'Kyiv "UA"'}
    assert (headers["x-key"], headers["accept"]) == ("k1", "application/json")


def test_a_node_that_fails_has_its_default_value() -> None:
    done, _ = weather(Reply(body="no JSON"))
    assert done.outputs == {"degrees": -99, "status": 200}


def test_a_refused_request_is_tried_again_and_takes_the_fail_branch() -> None:
    done, sent = weather(Reply(500, {"error": "x"}))
    assert len(sent) == 2
    assert done.outputs is not None
    assert done.outputs["problem"] == "HttpError"
    assert "POST was answered 500" in done.outputs["message"]


# --- old_iteration.yml: an iteration of before there were inner start nodes; lists are flattened ---


def test_an_iteration_of_the_first_version() -> None:
    def answer(messages: list[Any]) -> str:
        return str(messages[-1].content).removeprefix("Upper: ").upper()

    outputs = outputs_of(HERE / "old_iteration.yml", {"text": "a b|c"}, answer)
    assert outputs == {"words": ["A", "B", "(0)", "C", "(1)"]}


# --- clerk.yml: agent ---


def test_an_agent_calls_its_tool(look_up_order: list[dict[str, Any]]) -> None:
    call = json.dumps({"tool": "look_up_order", "arguments": {"number": "9"}})
    done = run("clerk.yml", {"query": "Order 9?"}, [call, "In Lyon."])
    assert done.outputs == {"answer": "In Lyon."}
    assert look_up_order == [{"number": "9", "urgent": False}]
