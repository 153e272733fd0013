"""A RAG export of Dify is optimized with the contexts that its dataset holds, or those of `mocks`."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from called import call
from fake_endpoint import FakeEndpoint, answer, fake_endpoint

DIFY = Path(__file__).parents[1] / "workflow" / "dify"
NODE = "1748055500002"


def reply(body: dict[str, Any]) -> Any:
    """The context says yes or no; only a prompt that asks to read it gets the right answer."""
    messages = body["messages"]
    if not messages[-1]["content"].startswith("May I do"):
        return answer("```\nAnswer from the passages: read them well.\n\n{{#context#}}\n```")
    context = messages[0]["content"]
    said = "yes" if "is allowed" in context else "no"
    return answer(said if "read them well" in context or "odd" in context else "perhaps")


@pytest.fixture
def endpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeEndpoint]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("AUTOPROMPT_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    shutil.copy(DIFY / "handbook.yml", tmp_path / "rag.yaml")
    with fake_endpoint(reply) as found:
        yield found


def rows(*, column: str = f"{NODE}.result", number: int = 60) -> None:
    lines = []
    for n in range(number):
        verb = "is" if n % 2 else "is not"
        found = [{"content": f"Rule {n}{' odd' if n % 5 == 0 else ''} {verb} allowed."}, {"content": "End."}]
        lines.append({"query": f"May I do {n}?", column: found, "target": "yes" if n % 2 else "no"})
    Path("rows.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")


def command(name: str, endpoint: FakeEndpoint, *more: str) -> tuple[str, ...]:
    task = ("--workflow", "rag.yaml", "--dataset", "rows.jsonl", "--labels", "yes,no")
    return (name, *task, "--model", "m", "--base-url", endpoint.base_url, *more)


def test_contexts_of_the_rows(endpoint: FakeEndpoint) -> None:
    rows()
    search = ("--preset", "quick", "--max-demos", "0", "--no-memory", "--json")
    call(*command("run", endpoint, *search))
    best = next(Path("runs").glob("*-rows-*")) / "best_workflow.yaml"
    assert "read them well" in best.read_text(encoding="utf-8")
    assert "mocks" not in best.read_text(encoding="utf-8")
    asked = [body["messages"] for body in endpoint.requests]
    row = next(messages for messages in asked if messages[-1]["content"] == "May I do 7?")
    assert row[0]["content"] == "Answer from the passages.\n\nRule 7 is allowed.\nEnd."


def test_contexts_of_mocks(endpoint: FakeEndpoint) -> None:
    rows(column="lost")
    Path("m.yaml").write_text(f'"{NODE}": {{outputs: {{result: It is allowed.}}}}\n', encoding="utf-8")
    found = json.loads(call(*command("eval", endpoint, "--set", "mocks=m.yaml", "--json")).stdout)
    assert len(found["rows"]) == 60
    assert {body["messages"][0]["content"] for body in endpoint.requests} == {
        "Answer from the passages.\n\nIt is allowed."
    }


def test_without_contexts_nothing_is_sent(endpoint: FakeEndpoint) -> None:
    rows(column="lost")
    failed = call(*command("run", endpoint, "--json"), code=3)
    error = json.loads(failed.stdout)["error"]
    assert error["code"] == "workflow.no-mock"
    assert f"node '{NODE}': Dify's knowledge-retrieval does not run here; mock it" in error["message"]
    assert f'`{NODE}: {{outputs: {{result: [{{content: "..."}}]}}}}`' in error["message"]
    assert endpoint.requests == []


def test_a_row_without_its_context_is_named(endpoint: FakeEndpoint) -> None:
    rows()
    lines = Path("rows.jsonl").read_text(encoding="utf-8").splitlines()
    record = json.loads(lines[3])
    del record[f"{NODE}.result"]
    lines[3] = json.dumps(record)
    Path("rows.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    failed = call(*command("eval", endpoint, "--json"), code=3)
    error = json.loads(failed.stdout)["error"]
    assert (error["code"], error["line"]) == ("workflow.row-output", 4)
    assert (
        f"the row has no field {NODE}.result, which replaces Dify's knowledge-retrieval" in error["message"]
    )


def test_mocks_that_changed_end_a_resume(endpoint: FakeEndpoint) -> None:
    rows(column="lost")
    mocks = Path("m.yaml")
    mocks.write_text(f'"{NODE}": {{outputs: {{result: It is allowed.}}}}\n', encoding="utf-8")
    run = command(
        "run", endpoint, "--set", "mocks=m.yaml", "--preset", "quick", "--max-demos", "0", "--no-memory"
    )
    call(*run, "--json")
    (folder,) = Path("runs").glob("*-rows-*")
    (folder / "result.json").unlink()
    mocks.write_text(f'"{NODE}": {{outputs: {{result: It is not allowed.}}}}\n', encoding="utf-8")
    failed = call("resume", folder.name, code=3)
    assert "the mocks changed since it began" in failed.stderr
