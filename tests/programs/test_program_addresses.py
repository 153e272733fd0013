"""What is said of an address of `--program` that does not lead to a program."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from autoprompt.errors import ConfigError, Place, Problem
from autoprompt.programs.calling import caller_of, import_program, key_advice


@pytest.mark.parametrize(
    ("address", "said"),
    [
        ("desk_a.py:desk", "desk_a.py is a file, expected the name of a module. Write `desk_a:desk`."),
        ("pkg/desk_a.py:make()", "Write `pkg.desk_a:make()`."),
        ("nowhere_at_all:desk", "No module named 'nowhere_at_all'. Run from"),
        ("desk_a:broken()", "FILE line 2: desk_a:broken() failed: ValueError: no."),
        ("desk_a:broken(1)", "desk_a has no 'broken(1)'"),
    ],
)
def test_an_address_that_fails_names_what_the_user_wrote(
    address: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "desk_a", raising=False)
    file = tmp_path / "desk_a.py"
    file.write_text("def broken():\n    raise ValueError('no')\n", encoding="utf-8")
    with pytest.raises(ConfigError) as caught:
        import_program(address)
    assert said.replace("FILE", str(file)) in str(caught.value)
    assert "calling.py" not in str(caught.value)


def test_a_factory_without_its_brackets_is_told_so() -> None:
    def make_app() -> object:
        return object()

    with pytest.raises(ConfigError, match=r"make_app takes no argument.*: `make_app\(\)`"):
        caller_of(make_app, input_field="input", target_field="target")


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], Path]]:
    """Writes the module `desk_b`."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)

    def write(source: str) -> Path:
        file = tmp_path / "desk_b.py"
        file.write_text(source, encoding="utf-8")
        return file

    yield write
    sys.modules.pop("desk_b", None)


def refusal(address: str = "desk_b:desk") -> Problem:
    with pytest.raises(ConfigError) as caught:
        caller_of(import_program(address), input_field="text", target_field="queue")
    (problem,) = caught.value.problems
    return problem


PARTS = """
from typing import TypedDict
from langchain_core.language_models import FakeListChatModel
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.runnables import RunnableLambda
from langgraph.graph import START, StateGraph

class Mail(TypedDict):
    text: str

llm = FakeListChatModel(responses=["billing"])
bound = llm.with_retry()
template = ChatPromptTemplate.from_messages([("user", "{text}")])
chain = template | llm

def route(state):
    return state

built = StateGraph(Mail)
built.add_node("route", route)
built.add_edge(START, "route")
routing = built.compile()
"""


def test_a_wrong_name_lists_what_can_be_a_program_the_closest_first(module: Callable[[str], Path]) -> None:
    module(PARTS)
    assert refusal("desk_b:routin").fix == "It has: routing, route, chain."


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("llm", "a model (FakeListChatModel)"),
        ("bound", "a model (RunnableRetry)"),
        ("template", "a prompt template (ChatPromptTemplate)"),
    ],
)
def test_a_part_of_a_program_is_no_program(name: str, said: str, module: Callable[[str], Path]) -> None:
    module(PARTS)
    assert refusal(f"desk_b:{name}").said == f"the program is {said} alone"


def test_a_syntax_error_names_file_and_line_and_advises_nothing_else(module: Callable[[str], Path]) -> None:
    file = module("X = 1\n\ndef desk(text)\n    return text\n")
    problem = refusal()
    assert problem.place == Place(file, 3)
    assert problem.said == "importing desk_b failed: SyntaxError: expected ':'"
    assert problem.fix == ""


@pytest.mark.parametrize(
    ("source", "line", "fix"),
    [
        (
            "import openai\nclient = openai.OpenAI()\n",
            2,
            "Set OPENAI_API_KEY: the program reads its own keys, and gets none from autoprompt's settings.",
        ),
        (
            "import os\n\nKEY = os.environ['DESK_API_KEY']\n",
            3,
            "Set DESK_API_KEY: the program reads its own keys, and gets none from autoprompt's settings.",
        ),
        (
            "raise RuntimeError('unable to locate credentials')\n",
            1,
            "Set the variable that its client reads: the program reads its own keys, and gets none from "
            "autoprompt's settings.",
        ),
        ("1 / 0\n", 1, ""),
        ("import nowhere\n", 1, "Run from the project's folder, and install what the program needs."),
    ],
)
def test_a_failing_import_names_the_users_own_line_and_what_helps(
    source: str, line: int, fix: str, module: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("OPENAI_API_KEY", "OPENAI_ADMIN_KEY"):
        monkeypatch.delenv(name, raising=False)
    file = module(source)
    problem = refusal()
    assert (problem.place, problem.fix) == (Place(file, line), fix)


def test_a_key_that_is_empty_is_a_key_that_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "")
    monkeypatch.delenv("OPENAI_ADMIN_KEY", raising=False)
    said = "Missing credentials: set the `OPENAI_API_KEY` or `OPENAI_ADMIN_KEY` environment variable."
    assert key_advice(RuntimeError(said)).startswith("Set OPENAI_API_KEY:")
