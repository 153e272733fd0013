"""What becomes of a row whose calls fail, are refused, or never end; and of a program that was edited."""

from __future__ import annotations

import platform
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import ticket_desk
from desk_model import TOPICS, desk_config, desk_model
from fake_endpoint import GARBAGE, FakeEndpoint, Reply, answer, error
from openai import BadRequestError, OpenAI

import autoprompt
from autoprompt.cli.evaluate import _lines as eval_lines
from autoprompt.errors import EmptyAnswersError, ModelError, RequestRefusedError, Voice
from autoprompt.programs.kept import Result, ToolResults

LONG = "day 7"  # of the tickets, one


@pytest.fixture
def endpoint(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeEndpoint]:
    with desk_model(monkeypatch) as found:
        yield found


def ask(text: str) -> str:
    with OpenAI(**ticket_desk._settings()) as client:
        turns = ticket_desk._turns(ticket_desk.ROUTE, f"Ticket: {text}")
        return client.chat.completions.create(model="m", messages=turns).choices[0].message.content or ""


def refusing(endpoint: FakeEndpoint, key: str = "") -> None:
    """Let the endpoint refuse what holds the long ticket."""
    otherwise = endpoint._otherwise

    def reply(body: dict[str, Any]) -> Any:
        if body["messages"][-1]["content"].endswith(LONG):
            return error(400, f"maximum context length is 100 tokens {key}", code="context_length_exceeded")
        return otherwise(body)

    endpoint._otherwise = reply


def test_a_refused_request_fails_its_row_and_not_the_run(tmp_path: Path, endpoint: FakeEndpoint) -> None:
    refusing(endpoint)
    report = autoprompt.evaluate(desk_config(tmp_path), program=ask)
    failed = [row for row in report.evaluation.rows if row.error is not None]
    assert [row.input.endswith(LONG) for row in failed] == [True]
    assert failed[0].is_refused


def test_rows_in_which_the_program_raises_count_as_failed(tmp_path: Path, endpoint: FakeEndpoint) -> None:
    rows = [
        {"text": f"{topic}, day {n}", "queue": queue}
        for n, (queue, topic) in enumerate([*TOPICS.items()] * 7)
    ]

    def raising(text: str) -> str:
        if text.endswith(("18", "19", "20")):
            raise ValueError("no such ticket")
        return ask(text)

    config = desk_config(tmp_path, dataset=None)
    report = autoprompt.evaluate(config, rows=rows, program=raising)
    why = "the first (3 times): ValueError: no such ticket"
    assert (report.failed, report.unparsed) == (3, 0)
    assert f"3 of 21 rows failed, which counts as a wrong answer; {why}" in [
        warning.said for warning in report.warnings
    ]
    assert f"0 rows with an unreadable answer, 3 that failed ({why})" in eval_lines(report)
    assert [row.error for row in report.evaluation.rows] == [None] * 21  # they count


def test_a_program_that_copes_with_a_refusal_has_answered(tmp_path: Path, endpoint: FakeEndpoint) -> None:
    def copes(text: str) -> str:
        try:
            return ask(text)
        except BadRequestError:
            return ask(text.removesuffix(LONG))

    refusing(endpoint)
    report = autoprompt.evaluate(desk_config(tmp_path), program=copes)
    assert report.failed == 0
    (row,) = [row for row in report.evaluation.rows if row.input.endswith(LONG)]
    assert row.prediction in ("billing", "tech", "sales")


def test_a_model_that_says_nothing_stops_a_program_whatever_that_makes_of_it(
    tmp_path: Path, endpoint: FakeEndpoint
) -> None:
    endpoint._otherwise = lambda body: answer("")
    with pytest.raises(EmptyAnswersError, match=r"answers are all empty.* where the program's code asks"):
        autoprompt.evaluate(desk_config(tmp_path), program=lambda text: ask(text) or "unknown")
    sent = len(endpoint.requests)
    with pytest.raises(EmptyAnswersError):
        autoprompt.optimize(desk_config(tmp_path), program=ticket_desk.make_graph())
    assert max(sent, len(endpoint.requests) - sent) < 300


@pytest.mark.parametrize(
    ("reply", "said"),
    [
        (
            GARBAGE,
            r"the answer is not JSON: '<html>bad gateway</html>'\. .* Does this client get the base URL",
        ),
        (Reply(body=[1, 2]), r"the answer has an unknown form: '\[1, 2\]'\. .* Does this client get"),
        (error(404, "no such model"), r"no such model\. Check this client's address and model\."),
        (error(401, "wrong key"), r"wrong key\. Check the key that the program gives its client"),
    ],
)
def test_what_helps_with_a_programs_own_endpoint_is_no_setting(
    reply: Reply, said: str, tmp_path: Path, endpoint: FakeEndpoint
) -> None:
    endpoint._otherwise = lambda body: reply
    with pytest.raises(ModelError, match=said) as stopped:
        autoprompt.evaluate(desk_config(tmp_path), program=ask)
    told = stopped.value.message(Voice.CLI)
    assert not any(word in told for word in ("--base-url", "--model", "OPENAI_API_KEY"))
    if reply.status != 401:
        place = stopped.value.problems[0].place
        assert (place.file, place.line) == (Path(__file__), ask.__code__.co_firstlineno + 3)


def test_a_program_whose_rows_are_all_refused_is_not_sent_to_settings(
    tmp_path: Path, endpoint: FakeEndpoint
) -> None:
    endpoint._otherwise = lambda body: error(400, "too hard")
    with pytest.raises(RequestRefusedError) as stopped:
        autoprompt.evaluate(desk_config(tmp_path), program=ask)
    assert "--" not in stopped.value.message(Voice.CLI)


def test_a_program_that_answers_with_nothing_by_design_is_not_stopped(
    tmp_path: Path, endpoint: FakeEndpoint
) -> None:
    report = autoprompt.evaluate(desk_config(tmp_path), program=lambda text: ask(text)[:0])
    assert report.score == 0


def test_a_row_that_calls_without_end_fails_alone(tmp_path: Path, endpoint: FakeEndpoint) -> None:
    def endless(text: str) -> str:
        answer = ask(text)
        while text.endswith(LONG):
            answer = ask(f"{answer} {text}")
        return answer

    report = autoprompt.evaluate(desk_config(tmp_path), program=endless)
    (failed,) = [row for row in report.evaluation.rows if row.error is not None]
    assert "calls to models" in str(failed.error)
    assert len(endpoint.requests) < 300


def test_a_subprocess_is_a_warning_and_a_row_that_leaves_its_calls_to_one_fails(
    tmp_path: Path, endpoint: FakeEndpoint
) -> None:
    def sometimes(text: str) -> str:
        subprocess.run([sys.executable, "-c", ""], check=True)
        return "billing" if text.endswith("day 57") else ask(text)

    report = autoprompt.evaluate(desk_config(tmp_path), program=sometimes)
    (warning,) = [problem for problem in report.warnings if problem.code == "program.subprocess"]
    assert warning.place.file == Path(__file__)
    assert warning.place.line == sometimes.__code__.co_firstlineno + 1
    (failed,) = [row for row in report.evaluation.rows if row.error is not None]
    assert failed.input.endswith("day 57")
    assert "autoprompt sees no call to a model" in str(failed.error)


def test_a_processor_that_a_package_asks_for_is_no_subprocess_of_the_program(
    tmp_path: Path, endpoint: FakeEndpoint
) -> None:
    def asks(text: str) -> str:
        platform._Processor.get()  # type: ignore[attr-defined]  # runs `uname -p`
        return ask(text)

    report = autoprompt.evaluate(desk_config(tmp_path), program=asks)
    assert [problem.code for problem in report.warnings if "subprocess" in str(problem.code)] == []


def test_an_output_without_the_target_fails_its_row(tmp_path: Path, endpoint: FakeEndpoint) -> None:
    def sometimes(text: str) -> dict[str, str]:
        answer = ask(text)
        return {"other": answer} if text.endswith(LONG) else {"queue": answer}

    report = autoprompt.evaluate(desk_config(tmp_path), program=sometimes)
    (row,) = [row for row in report.evaluation.rows if row.input.endswith(LONG)]
    assert row.is_unparsed
    assert "the keys other" in row.prediction


def test_no_message_shows_the_programs_key(
    tmp_path: Path, endpoint: FakeEndpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret = "sk-very-secret-0123456789"
    monkeypatch.setattr(ticket_desk, "_settings", lambda: {"base_url": endpoint.base_url, "api_key": secret})
    refusing(endpoint, secret)
    report = autoprompt.evaluate(desk_config(tmp_path), program=ask)
    (failed,) = [row for row in report.evaluation.rows if row.error is not None]
    assert "maximum context length" in str(failed.error)
    assert secret not in str(report.to_dict())


@pytest.mark.parametrize("form", ["app", "graph"])
def test_an_edit_of_the_source_is_seen(form: str, tmp_path: Path) -> None:
    """Of a graph, too, whose own module is LangGraph's."""
    (tmp_path / "texts.py").write_text("SYSTEM = 'Be brief.'\n")
    (tmp_path / "shop.py").write_text(
        "from langgraph.graph import END, START, StateGraph\nfrom texts import SYSTEM\n"
        "def app(text): return SYSTEM\n"
        "g = StateGraph(dict)\ng.add_node('a', lambda state: state)\ng.add_edge(START, 'a')\n"
        "g.add_edge('a', END)\ngraph = g.compile()\n"
    )
    code = (
        "import sys; sys.path.insert(0, '.')\nimport shop\n"
        "from autoprompt.programs.program import parts_of\n"
        f"print(*map(repr, (parts_of('shop:{form}', shop.{form}), parts_of('x', shop.{form}))), sep='\\n')"
    )

    def digests() -> list[str]:
        command = [sys.executable, "-B", "-c", code]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
        return done.stdout.splitlines()

    before = digests()
    assert before == digests()
    (tmp_path / "texts.py").write_text("SYSTEM = 'Be very brief.'\n")
    assert not set(before) & set(digests())


def test_results_of_tools_are_kept_in_the_runs_folder_and_read_again(tmp_path: Path) -> None:
    first, again = ToolResults(), ToolResults()
    first.keep("a", 1)
    first.keep_in(tmp_path / "tools.jsonl")
    first.keep("b", [2])
    again.keep_in(tmp_path / "tools.jsonl")
    assert [again.begin(key, None) for key in ("a", "b", "c")] == [Result(1), Result([2]), None]
