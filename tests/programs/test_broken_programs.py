"""Programs that would make a run wrong stop after the trial of rows: exit 3, one message, file and line."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from desk_model import desk_model, reply_to, write_tickets
from fake_endpoint import FakeEndpoint, Reply, answer, fake_endpoint

import autoprompt
from autoprompt.programs import probe
from autoprompt.programs.dialects import Answered, Part
from autoprompt.programs.scope import Seen
from autoprompt.records import Example
from autoprompt.runs.resuming import interrupted_trial

START = """
import os
from openai import OpenAI

def ask(system, user):
    with OpenAI(base_url=os.environ["DESK_URL"], api_key="key") as client:
        turns = [{"role": "system", "content": system}, {"role": "user", "content": user}]
        return client.chat.completions.create(model="m", messages=turns).choices[0].message.content

ROUTE = "Route the ticket to billing, tech or sales."
"""

AGENT = """
from langchain.agents import create_agent
from langchain_openai import ChatOpenAI

def send_email(to: str) -> str:
    "Send an email to a queue."
    open(os.environ["SENT"], "a").write("sent")
    return "sent"

def app(text):
    llm = ChatOpenAI(model="m", base_url=os.environ["DESK_URL"], api_key="key")
    agent = create_agent(llm, [send_email], system_prompt=ROUTE)
    found = agent.invoke({"messages": [("user", f"Ticket: {text}")]})
    return str(found["messages"][-1].content)
"""

# source: (what the program says, the line that is named, what the message says)
BROKEN = {
    "frozen": (
        """
from autoprompt import Prompt
P = Prompt("route", ROUTE)
FROZEN = f"{P} Be brief."  # HERE
def app(text):
    return ask(FROZEN, f"Ticket: {text}")
""",
        "the prompt 'route' is read only once, here, so its requests cannot get another text. "
        "Read `prompt.text` where the prompt is sent.",
    ),
    "thread": (
        """
from typing import Annotated, TypedDict
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, StateGraph
class State(TypedDict):
    texts: Annotated[list, lambda had, new: had + new]
    queue: str
def route(state):
    return {"queue": ask(ROUTE, "\\n".join(f"Ticket: {text}" for text in state["texts"]))}
graph = StateGraph(State)
graph.add_node("route", route)
graph.add_edge(START, "route")
graph = graph.compile(checkpointer=InMemorySaver())
def app(text):  # HERE
    return graph.invoke({"texts": [text]}, {"configurable": {"thread_id": "1"}})["queue"]
""",
        "the request of route for one row holds the text of another: 'Ticket",
    ),
    "keys": (
        """
def app(text):  # HERE
    return {"team": ask(ROUTE, f"Ticket: {text}"), "text": text}
""",
        "the program returned an object with the keys team, text, and none is 'queue'. "
        "Return the answer under 'queue', or name its key as the `output` of an `autoprompt.Program`. Or "
        "score the whole object, as with --metric json_match.",
    ),
    "none": (
        """
def app(text):  # HERE
    ask(ROUTE, f"Ticket: {text}")
""",
        "the program returned None, which is no answer. Return the answer.",
    ),
    "names": (
        """
def app(text, tone):  # HERE
    return ask(ROUTE, f"{tone} Ticket: {text}")
""",
        "shop:app takes text, tone, and the rows have text. Rename the parameter 'tone' or the field.",
    ),
    "effects": (
        AGENT,
        "the tool 'send_email' seems to change something outside of the program. "
        "Allow it with --allow-effects, or put a function of this name into a file and pass --tools FILE.",
    ),
    "effects of an agent": (
        """
from langchain.agents import create_agent
from langchain_openai import ChatOpenAI

def send_email(to: str) -> str:  # HERE
    "Send an email to a queue."
    raise AssertionError

llm = ChatOpenAI(model="m", base_url=os.environ["DESK_URL"], api_key="key")
app = create_agent(llm, [send_email], system_prompt=ROUTE)
""",
        "the tool 'send_email' seems to change something outside of the program. "
        "Allow it with --allow-effects, or put a function of this name into a file and pass --tools FILE.",
    ),
    "silent": (
        """
def app(text):  # HERE
    return "billing"
""",
        "shop:app made no call to a model that can be seen. "
        "Ask models through an SDK on httpx or aiohttp, or through LangChain.",
    ),
    "unknown": (
        """
import httpx
def app(text):  # HERE
    turns = [{"role": "system", "content": ROUTE}, {"role": "user", "content": text}]
    httpx.post(os.environ["DESK_URL"] + "/own/ask", json={"model": "m", "messages": turns})
    return "billing"
""",
        "shop:app made no call to a model that can be seen; "
        "the form of its requests to 127.0.0.1/v1/own/ask is not known. "
        "Ask models through an SDK on httpx or aiohttp, or through LangChain.",
    ),
    "urllib": (
        """
import json, urllib.request
def app(text):
    turns = [{"role": "system", "content": ROUTE}, {"role": "user", "content": text}]
    body = json.dumps({"model": "m", "messages": turns}).encode()
    request = urllib.request.Request(os.environ["DESK_URL"] + "/chat/completions", body)
    with urllib.request.urlopen(request) as answer:  # HERE
        return json.load(answer)["choices"][0]["message"]["content"]
""",
        "the program calls a model through urllib here, which autoprompt does not see. "
        "Ask models through an SDK on httpx or aiohttp, or through LangChain.",
    ),
    "worker": (
        """
import queue, threading
jobs, done = queue.Queue(), queue.Queue()
def work():
    while True:
        done.put(ask(ROUTE, f"Ticket: {jobs.get()}"))
threading.Thread(target=work, daemon=True).start()
def app(text):
    jobs.put(text)
    return done.get()
""",
        "a call to a model belongs to no row",
    ),
    "subprocess": (
        """
import subprocess, sys
def app(text):
    code = "import shop; print(shop.ask(shop.ROUTE, 'Ticket'))"
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout  # HERE
""",
        "the program starts a subprocess here, and autoprompt sees no call to a model. "
        "Ask the model in this process: autoprompt does not see the requests of others.",
    ),
    "failing": (
        """
def app(text):
    return {}[ask(ROUTE, f"Ticket: {text}")]  # HERE
""",
        "Run the program on this row alone, and fix the error.",
    ),
}


@pytest.fixture
def endpoint(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeEndpoint]:
    with desk_model(monkeypatch) as found:
        yield found


def run(folder: Path, source: str, endpoint: FakeEndpoint, *flags: str) -> subprocess.CompletedProcess[str]:
    (folder / "shop.py").write_text(START + source)
    write_tickets(folder / "t.jsonl", 60)
    command = [sys.executable, "-m", "autoprompt", "run", "--program", "shop:app", "--dataset", "t.jsonl"]
    command += ["--input-field", "text", "--target-field", "queue", "--base-url", endpoint.base_url]
    command += ["--optimizer-model", "w", "--preset", "quick", "--no-memory", "--no-cache", *flags]
    root = str(Path(autoprompt.__file__).parents[1])
    variables = {
        **os.environ,
        "PYTHONPATH": root,
        "SENT": str(folder / "sent"),
        "NO_COLOR": "1",
        "COLUMNS": "400",
    }
    return subprocess.run(command, cwd=folder, env=variables, capture_output=True, text=True, timeout=120)


@pytest.mark.parametrize("name", BROKEN)
def test_it_stops_after_the_trial_with_file_line_and_what_to_do(
    name: str, tmp_path: Path, endpoint: FakeEndpoint
) -> None:
    source, said = BROKEN[name]
    ended = run(tmp_path, source, endpoint)
    assert ended.returncode == 3, ended.stderr
    assert said in ended.stderr
    lines = (START + source).splitlines()
    line = next((n for n, text in enumerate(lines, 1) if "# HERE" in text), None)
    assert f"{tmp_path / 'shop.py'} line {'' if line is None else f'{line}:'}" in ended.stderr
    assert "Traceback" not in ended.stderr
    assert len(endpoint.requests) <= 10  # of the trial
    assert not (tmp_path / "sent").exists()


@pytest.mark.skipif(os.name == "nt", reason="Windows has no SIGINT for another process")
def test_an_interrupted_trial_says_how_many_calls_it_sent(tmp_path: Path, endpoint: FakeEndpoint) -> None:
    source = """
import signal
asked = []
def app(text):
    asked.append(ask(ROUTE, f"Ticket: {text}"))
    if len(asked) == 3:
        os.kill(os.getpid(), signal.SIGINT)
    return asked[-1]
"""
    ended = run(tmp_path, source, endpoint)
    assert ended.returncode == 130, ended.stderr
    where, trial, *_, said = ended.stderr.splitlines()
    assert where.startswith(f"No key goes to {endpoint.base_url} (model w)")
    assert trial == "  trial: 0 of 8 rows; 0 calls"
    again = "The same command starts again; without the cache, it sends them again"
    assert f"interrupted while the program was tried, after 3 calls; no run has begun. {again}" in said
    assert "cached, so it does not pay" in str(interrupted_trial(3, is_cached=True))
    assert not (tmp_path / "runs").exists()


def test_branches_that_answer_in_another_order_do_not_change_by_themselves() -> None:
    def seen(*texts: str) -> probe._Seen:
        requests = tuple(
            Seen("vote", (Part("system", ("messages", 0), text),), Answered("a"), "m") for text in texts
        )
        return probe._Seen(Example("1", "t", "a", {}), requests, (), len(texts))

    assert not [*probe._differing(seen("Be kind.", "Be strict."), seen("Be strict.", "Be kind."))]
    ((own, other),) = probe._differing(seen("Be kind.", "At 10."), seen("At 11.", "Be kind."))
    assert (own.parts[0].text, other.parts[0].text) == ("At 10.", "At 11.")


def test_a_clock_in_the_prompt_is_a_warning_that_quotes_it_and_the_text_is_found(
    tmp_path: Path, endpoint: FakeEndpoint
) -> None:
    source = """
import time
def app(text):
    return ask(f"It is {time.time_ns()} now. {ROUTE}", f"Ticket: {text}")
"""
    ended = run(tmp_path, source, endpoint, "--json")
    assert ended.returncode == 0, ended.stderr
    result = json.loads(ended.stdout)
    (warning,) = [w for w in result["warnings"] if "another request for the same row" in w["message"]]
    assert re.search(
        r"ask sends another request for the same row: 'It is \d+ now\. .*', then 'It is \d+ now\.",
        warning["message"],
    )
    assert result["verdict"] == "confirmed"
    arrived = [body["messages"][0]["content"] for body in endpoint.requests if body["model"] == "m"]
    improved = [text for text in arrived if "closely" in text]
    assert len(improved) > 30
    assert all(re.match(r"It is \d+ now\. Read closely", text) for text in improved)


def test_a_demonstration_of_the_program_is_no_leak(tmp_path: Path, endpoint: FakeEndpoint) -> None:
    write_tickets(tmp_path / "t.jsonl", 60)
    shown = "\n".join(json.loads(line)["text"] for line in (tmp_path / "t.jsonl").read_text().splitlines())
    source = f"""
SHOWN = {shown!r}
def app(text):
    return ask(ROUTE + SHOWN, f"Ticket: {{text}}")
"""
    ended = run(tmp_path, source, endpoint, "--max-calls", "40", "--set=no_test=true", "--json")
    assert "holds the text of another" not in ended.stderr + ended.stdout


def calling_model(body: dict[str, Any]) -> Reply:
    """Calls the tool once, then routes."""
    turns = body["messages"]
    if body["model"] == "w" or turns[-1]["role"] == "tool":
        return reply_to({**body, "messages": [t for t in turns if t["role"] in ("system", "user")]})
    reply = answer(None)
    call = {"name": "send_email", "arguments": json.dumps({"to": turns[-1]["content"]})}
    reply.body["choices"][0]["message"]["tool_calls"] = [{"id": "c", "type": "function", "function": call}]
    return reply


def test_a_stub_stands_in_for_a_tool_that_writes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with fake_endpoint(calling_model) as endpoint:
        monkeypatch.setenv("DESK_URL", endpoint.base_url)
        (tmp_path / "stubs.py").write_text("def send_email(to):\n    return f'not sent to {to}'\n")
        ended = run(tmp_path, AGENT, endpoint, "--tools", "stubs.py", "--json")
        assert ended.returncode == 0, ended.stderr
        assert not (tmp_path / "sent").exists()
        told = [t["content"] for body in endpoint.requests for t in body["messages"] if t["role"] == "tool"]
        assert told
        assert all(text.startswith("not sent to Ticket: Ticket") for text in told)


OWN_LOOP = """
import os
from openai import OpenAI

def send_email(to):
    open("sent", "a").write(to)

def app(text):
    client = OpenAI(base_url=os.environ["DESK_URL"], api_key="key")
    schema = {"type": "object", "properties": {"to": {"type": "string"}}}
    function = {"name": "send_email", "description": "Send an email.", "parameters": schema}
    turns = [{"role": "system", "content": "Route the ticket."}, {"role": "user", "content": text}]
    tools = [{"type": "function", "function": function}]
    reply = client.chat.completions.create(model="m", messages=turns, tools=tools)
    for call in reply.choices[0].message.tool_calls or ():
        send_email(call.function.arguments)
    return "tech"
"""


def test_a_stub_is_no_help_for_a_program_that_runs_its_tools_by_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with fake_endpoint(calling_model) as endpoint:
        monkeypatch.setenv("DESK_URL", endpoint.base_url)
        (tmp_path / "stubs.py").write_text("def send_email(to):\n    return 'not sent'\n")
        ended = run(tmp_path, OWN_LOOP, endpoint, "--tools", "stubs.py")
        assert ended.returncode == 3
        assert "the tool 'send_email' seems to change something" in ended.stderr
        assert not (tmp_path / "sent").exists()


def test_a_tool_that_writes_runs_once_for_a_row_if_it_is_allowed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with fake_endpoint(calling_model) as endpoint:
        monkeypatch.setenv("DESK_URL", endpoint.base_url)
        ended = run(tmp_path, AGENT, endpoint, "--allow-effects", "--json")
        assert ended.returncode == 0, ended.stderr
        asked = {body["messages"][1]["content"] for body in endpoint.requests if body["model"] == "m"}
        tried = 10  # two rows twice, six more: before the run has a folder for the results
        assert len(asked) <= (tmp_path / "sent").read_text().count("sent") <= len(asked) + tried
