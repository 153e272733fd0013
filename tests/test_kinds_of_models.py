"""Models that think first and models without a system role, behind a real endpoint, in every role."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from itertools import pairwise
from operator import itemgetter
from pathlib import Path
from typing import Any

import pytest
from fake_endpoint import FakeEndpoint, Reply, answer, error, fake_endpoint
from typer.testing import CliRunner

from autoprompt import CheckConfig, RunConfig, ScienceConfig, check, evaluate, optimize, resume
from autoprompt.cli import app
from autoprompt.llm.client import CallRole, Client
from autoprompt.llm.models import connect
from autoprompt.metrics.judge import LLMJudge
from autoprompt.optimizer.agents.analyst import AnalysisAgent
from autoprompt.optimizer.agents.describer import DescribingAgent
from autoprompt.optimizer.agents.writer import RewriteAgent
from autoprompt.optimizer.api import investigate
from autoprompt.records import EvaluatedRow, Example, Prediction
from autoprompt.sandbox import probe
from autoprompt.settings.records import ModelSettings

THOUGHTS = 10_000  # more than a first request has room for
QUEUES = {"invoice": "billing", "crash": "tech", "price": "sales"}
PROMPT = "Which queue: billing, tech or sales?"
VAGUE = "Sort it: billing, tech or sales."  # what is sorted wrong by it
BETTER = "```\nDecide the queue: billing (invoice), tech (crash) or sales (price).\n```"
DESCRIBED = "\n".join(
    f"{queue}: the customer writes of {word} and the like" for word, queue in QUEUES.items()
)
FLOW = """
version: 1
nodes:
  - {id: start, type: start, data: {variables: [{variable: q, type: paragraph}]}}
  - id: sort
    type: question-classifier
    data:
      model: m
      query_variable_selector: [start, q]
      classes: [{id: b, name: billing}, {id: t, name: tech}, {id: s, name: sales}]
  - id: take
    type: parameter-extractor
    data: {model: m, query: [start, q], parameters: [{name: word, type: string, required: true}]}
  - id: end
    type: end
    data:
      outputs:
        - {variable: word, value_selector: [take, word]}
        - {variable: class, value_selector: [sort, class_name]}
edges:
  - {source: start, target: sort}
  - {source: sort, source_handle: b, target: take}
  - {source: sort, source_handle: t, target: take}
  - {source: sort, source_handle: s, target: take}
  - {source: take, target: end}
"""


def answer_to(body: dict[str, Any]) -> str:
    """What a good model says: it tells by the request which role it has."""
    text = "\n".join(str(message["content"]) for message in body["messages"])
    last = str(body["messages"][-1]["content"]).rpartition("\n\n")[2]
    word = next((word for word in QUEUES if word in last), "price")
    if "You grade an answer" in text:
        return '{"reason": "as expected", "score": 5}'
    if "JSON" in text and "word" in text:
        return json.dumps({"word": word})
    if "<Hypothesis>" in text or "<Conclusion>" in text:
        return "<Inference>\nseen\n</Inference>\n<Conclusion>\nIt is so.\n</Conclusion>"
    if "billing:" in text and "tech:" in text:
        return DESCRIBED
    if "<current>" in text:
        return BETTER
    if "Ticket" in last and len(last) < 200:
        return "sales" if VAGUE in text and "(invoice)" not in text else QUEUES[word]
    return "Billing is taken for sales: name the words."


class Thinker:
    """An endpoint whose model thinks before it answers. shows: how the thoughts are seen."""

    def __init__(self, shows: str = "hidden", *, thoughts: int = THOUGHTS) -> None:
        self._shows, self._thoughts = shows, thoughts
        self.cut = 0

    def __call__(self, body: dict[str, Any]) -> Reply:
        limit = body.get("max_completion_tokens", body.get("max_tokens"))
        is_cut = limit is not None and limit < self._thoughts + 100
        self.cut += is_cut
        message: dict[str, Any] = {"role": "assistant", "content": "" if is_cut else answer_to(body)}
        written = limit if is_cut else self._thoughts + len(str(message["content"])) // 4
        if self._shows == "reasoning_content":
            message["reasoning_content"] = "hm, let me see"
        if self._shows == "tags":
            message["content"] = "<think>hm, " + ("let me" if is_cut else f"so</think>{message['content']}")
        usage = {"prompt_tokens": 30, "completion_tokens": written, "total_tokens": 30 + written}
        if self._shows == "hidden":
            usage["completion_tokens_details"] = {"reasoning_tokens": min(written, self._thoughts)}
        choice = {"index": 0, "message": message, "finish_reason": "length" if is_cut else "stop"}
        return Reply(body={"model": body["model"], "choices": [choice], "usage": usage})


def no_system(body: dict[str, Any]) -> Reply:
    """An endpoint whose template knows user and assistant alone, by turns."""
    roles = [message["role"] for message in body["messages"]]
    if "system" in roles or any(one == other for one, other in pairwise(roles)):
        return error(400, "System role not supported")
    choice = {"message": {"role": "assistant", "content": answer_to(body)}, "finish_reason": "stop"}
    return Reply(body={"model": body["model"], "choices": [choice]})


def given(endpoint: FakeEndpoint, **more: Any) -> dict[str, Any]:
    return {"model": "m", "base_url": endpoint.base_url, "no_cache": True, **more}


@contextmanager
def client_of(endpoint: FakeEndpoint, role: CallRole) -> Iterator[Client]:
    with closing(connect(ModelSettings.model_validate(given(endpoint)), role)) as client:
        yield client


def tickets(folder: Path, count: int = 40) -> Path:
    words = list(QUEUES)
    path = folder / "tickets.jsonl"
    rows = [(f"Ticket {n}: my {words[n % 3]} question", QUEUES[words[n % 3]]) for n in range(count)]
    lines = (json.dumps({"input": text, "target": queue}) for text, queue in rows)
    path.write_text("\n".join(lines), encoding="utf-8")
    return path


def config_of(endpoint: FakeEndpoint, folder: Path, rows: int = 40, **more: Any) -> RunConfig:
    return RunConfig.model_validate(
        given(endpoint, **{"dataset": tickets(folder, rows), "prompt": PROMPT, **more})
    )


def task(endpoint: FakeEndpoint, folder: Path) -> None:
    report = evaluate(config_of(endpoint, folder))
    assert (report.score, report.unparsed, report.failed) == (1.0, 0, 0)


def judged(endpoint: FakeEndpoint, folder: Path) -> None:
    with client_of(endpoint, "judge") as client:
        judge = LLMJudge(client, "Is it polite?")
        score = judge.score(Prediction("Yes", "Yes"), Example("r", "Ticket 1", "Yes", {}))
    assert (score.value, score.is_unscored) == (1.0, False)


def analyst(endpoint: FakeEndpoint, folder: Path) -> None:
    wrong = EvaluatedRow("r1", "Ticket 1: my invoice", "sales", "billing", False, 0.0)
    with client_of(endpoint, "optimizer") as client:
        found = AnalysisAgent(client).analyze(PROMPT, [wrong])
    assert "Billing" in found["suggestions"]


def writer(endpoint: FakeEndpoint, folder: Path) -> None:
    with client_of(endpoint, "optimizer") as client:
        proposal = RewriteAgent(client).rewrite(PROMPT, PROMPT, {"suggestions": "x"}, 1, "")
    assert (proposal.text, proposal.is_cut) == (BETTER.strip("`\n"), False)


def describer(endpoint: FakeEndpoint, folder: Path) -> None:
    queues = tuple(QUEUES.values())
    rows = [Example(f"r{n}", f"Ticket {n}", queues[n % 3], {}) for n in range(9)]
    with client_of(endpoint, "optimizer") as client:
        lines = DescribingAgent(client).describe(PROMPT, rows, queues)
    assert lines == DESCRIBED.splitlines()


def science(endpoint: FakeEndpoint, folder: Path) -> None:
    if not probe().confines:
        pytest.skip("nothing on this machine confines code")
    named = given(endpoint, task="Is it so?", max_iterations=1, runs_dir=folder / "runs")
    assert investigate(ScienceConfig.model_validate(named)).conclusion == "It is so."


def nodes(endpoint: FakeEndpoint, folder: Path) -> None:
    (folder / "flow.yaml").write_text(FLOW, encoding="utf-8")
    asked = ["--input", "q=Ticket 1: my crash", "--model", "m", "--base-url", endpoint.base_url]
    command = ["flow", "run", str(folder / "flow.yaml"), "--json", "--no-cache", *asked]
    result = CliRunner().invoke(app, command)
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    assert (found["word"], found["class"]) == ("crash", "tech")


ROLES = [task, judged, analyst, writer, describer, science, nodes]
Role = Callable[[FakeEndpoint, Path], None]


@pytest.mark.parametrize("shows", ["hidden", "reasoning_content", "tags", "count"])
@pytest.mark.parametrize("role", ROLES)
def test_a_model_that_thinks_first_answers_in_every_role(role: Role, shows: str, tmp_path: Path) -> None:
    thinker = Thinker(shows)
    with fake_endpoint(thinker) as endpoint:
        role(endpoint, tmp_path)
        limits = [body["max_tokens"] for body in endpoint.requests]
    assert thinker.cut == 1  # however many were asked at once
    assert min(limits[1:]) > limits[0]


@pytest.mark.parametrize("role", ROLES)
def test_a_model_without_a_system_role_answers_in_every_role(role: Role, tmp_path: Path) -> None:
    with fake_endpoint(no_system) as endpoint:
        role(endpoint, tmp_path)
        refused = [body for body in endpoint.requests if body["messages"][0]["role"] == "system"]
    assert len(refused) <= 1


def search(endpoint: FakeEndpoint, folder: Path, **more: Any) -> RunConfig:
    chosen = {"preset": "quick", "max_demos": 4, "no_reasoning": True, "no_memory": True, **more}
    return config_of(endpoint, folder, runs_dir=folder / "runs", prompt=VAGUE, **chosen)


def test_a_whole_run_and_its_resume_know_the_model(tmp_path: Path) -> None:
    thinker = Thinker()
    with fake_endpoint(thinker) as endpoint:
        result = optimize(search(endpoint, tmp_path))
        folder = Path(result.to_dict()["run_dir"])
        kept = json.loads((folder / "traits.json").read_text())["traits"]
        assert all(entry["thinks_first"] for entry in kept)
        assert result.to_dict()["lost_answers"] == {}
        (folder / "result.json").unlink()
        sent, cut = len(endpoint.requests), thinker.cut
        assert resume(folder).to_dict()["best"] == result.to_dict()["best"]
        assert (len(endpoint.requests), thinker.cut) == (sent, cut)


def test_a_server_that_says_how_long_it_took_is_known_as_slow(tmp_path: Path) -> None:
    """As llama.cpp does: 10 tokens read in 0.1 s, the others of the prompt kept."""

    def timed(body: dict[str, Any]) -> Reply:
        timings = {"prompt_n": 10, "prompt_ms": 100.0, "predicted_n": 3, "predicted_ms": 300.0}
        return answer(answer_to(body), timings=timings)

    with fake_endpoint(timed) as endpoint:
        result = optimize(search(endpoint, tmp_path))
        folder = Path(result.to_dict()["run_dir"])
        kept = {entry["role"]: entry for entry in json.loads((folder / "traits.json").read_text())["traits"]}
        assert (kept["task"]["is_slow"], kept["task"]["rereads_prefix"]) == (True, True)
        (folder / "result.json").unlink()
        sent = len(endpoint.requests)
        assert resume(folder).to_dict()["best"] == result.to_dict()["best"]
        assert len(endpoint.requests) == sent


def test_a_role_that_is_cut_by_the_users_limit_is_named_with_it(tmp_path: Path) -> None:
    with fake_endpoint(Thinker(thoughts=1000)) as endpoint:
        limits = {"optimizer_max_output_tokens": 300, "max_output_tokens": 5000}
        config = search(endpoint, tmp_path, **limits, price_input=1.0, price_output=2.0)
        result = optimize(config).to_dict()
        count = sum(body["max_tokens"] == 300 for body in endpoint.requests)
        assert {body["max_tokens"] for body in endpoint.requests} == {300, 5000}
    lost = result["lost_answers"]["optimizer"]
    assert (lost["answers"], lost["cut"], lost["empty"]) == (count, count, 0)
    assert lost["tokens"] == 330 * count
    assert lost["cost_usd"] == pytest.approx(count * (30 + 600) / 1e6)
    assert lost["setting"] == "optimizer_max_output_tokens"
    (said,) = (
        text for text in map(itemgetter("message"), result["warnings"]) if text.startswith("optimizer:")
    )
    assert f"{count} of {count} answers of m were cut off or empty" in said
    assert "Raise optimizer_max_output_tokens (now 300)" in said
    for command in (["runs", "show"], ["report"]):
        CliRunner().invoke(app, [*command, result["run_dir"]])
    assert (
        "--set optimizer_max_output_tokens=VALUE (now 300)"
        in (Path(result["run_dir"]) / "report.html").read_text()
    )


def test_eval_and_check_name_the_role_too(tmp_path: Path) -> None:
    limits = {"judge_max_output_tokens": 20, "max_output_tokens": 2000}
    judge = {"metric": "llm_judge", "metric_options": {"rubric": "Is it right?"}}
    with fake_endpoint(Thinker(thoughts=1000)) as endpoint:
        config = config_of(endpoint, tmp_path, 6, **limits, **judge)
        (said,) = (text for text in map(str, evaluate(config).warnings) if text.startswith("judge:"))
        assert "6 of 6 answers of m were cut off or empty" in said
        assert "Raise judge_max_output_tokens (now 20)" in said
        assert sum(body["max_tokens"] == 20 for body in endpoint.requests) == 6  # none is asked twice
        gate = CheckConfig(baseline=tmp_path / "baseline.json")
        report = check(config, gate, is_update=True)
    assert any("judge_max_output_tokens" in str(text) for text in report.warnings)


def test_an_effort_is_sent_and_makes_another_request(tmp_path: Path) -> None:
    with fake_endpoint(Thinker(thoughts=0)) as endpoint:
        for effort in (None, "low", "low", "high"):
            named = {**given(endpoint), "no_cache": False, "reasoning_effort": effort}
            evaluate(RunConfig.model_validate({**named, "dataset": tickets(tmp_path, 2), "prompt": PROMPT}))
        asked = [body.get("reasoning_effort") for body in endpoint.requests]
    assert asked == [None, None, "low", "low", "high", "high"]  # equal requests come from the cache


def test_what_a_filter_takes_is_a_failed_row_that_says_so(tmp_path: Path) -> None:
    def filtered(body: dict[str, Any]) -> Reply:
        number = int(str(body["messages"][-1]["content"]).split()[1].rstrip(":"))
        if number % 4 == 0:
            return error(400, "The response was filtered", code="content_filter")
        message: dict[str, Any] = {"role": "assistant", "content": answer_to(body)}
        ending = "stop"
        if number % 4 == 1:
            message["content"], ending = "", "content_filter"
        if number % 4 == 2:
            message |= {"content": None, "refusal": "I can't help with that."}
        return Reply(body={"choices": [{"message": message, "finish_reason": ending}]})

    with fake_endpoint(filtered) as endpoint:
        report = evaluate(config_of(endpoint, tmp_path, 12))
        assert len(endpoint.requests) == 12  # nothing is asked twice
    errors = [row.shown_error or "" for row in report.evaluation.rows[:4]]
    assert errors[0].startswith("withheld: the endpoint's content filter refused it;")
    assert errors[1] == "withheld: the endpoint's content filter withheld the answer"
    assert errors[2] == "withheld: the model declined to answer: I can't help with that."
    assert (errors[3], report.failed, report.unparsed) == ("", 9, 0)
    assert report.score == 0.25
    (said,) = (text for text in map(str, report.warnings) if "content filter" in text)
    assert said.startswith("9 of 12 answers were declined or taken by a content filter")


def test_a_stream_that_nobody_asked_for_is_read(tmp_path: Path) -> None:
    def stream(body: dict[str, Any]) -> Reply:
        text = answer_to(body)
        pieces: list[dict[str, Any]] = [
            {"choices": [{"index": 0, "delta": {"content": part}}]} for part in (text[:2], text[2:])
        ]
        pieces.append({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})
        pieces.append({"choices": [], "usage": {"prompt_tokens": 7, "completion_tokens": 3}})
        lines = "".join(f"data: {json.dumps(piece)}\n\n" for piece in pieces)
        head = {"Content-Type": "text/event-stream"}
        return Reply(body=f": hello\n\n{lines}data: [DONE]\n\n", headers=head)

    with fake_endpoint(stream) as endpoint:
        report = evaluate(config_of(endpoint, tmp_path))
    assert report.score == 1.0
    assert (report.usage.prompt_tokens, report.usage.completion_tokens) == (7 * 40, 3 * 40)
