"""What the report says to do with the winner works as it stands."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

import pytest
from fake_endpoint import FakeEndpoint, answer, fake_endpoint

from autoprompt import Models, Run, RunConfig, optimize
from autoprompt.llm import ScriptedClient
from autoprompt.report import read_summary
from autoprompt.report.html import page, snippets
from autoprompt.report.wording import WORDS

ROWS = [{"text": f"item {n}", "target": "A" if n % 2 else "B"} for n in range(60)]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    folder = tmp_path_factory.mktemp("snippets")
    config = RunConfig(
        prompt="A or B?", input_field="text", max_calls=600, runs_dir=folder, no_memory=True, no_cache=True
    )
    found = optimize(config, rows=ROWS, models=Models(ScriptedClient(lambda messages: "A")))
    return Run.open(found.run_dir)


def test_the_python_of_the_report_sends_the_prompt(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    made = {snippet.title: snippet for snippet in snippets(read_summary(run.folder))}
    assert made["Write it to a file"].text == f"autoprompt runs export {run.folder.path} --to prompt.yaml"
    (tmp_path / "prompt.yaml").write_text(run.export("yaml"), encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    with fake_endpoint(lambda body: answer("B")) as endpoint:
        monkeypatch.setenv("OPENAI_BASE_URL", endpoint.base_url)
        for title in ("OpenAI", "LangChain"):
            exec(made[title].text, {})
            assert capsys.readouterr().out == "B\n"
            assert sent(endpoint) == ("A or B?", "...")
        names: dict[str, object] = {}
        exec(made["LangGraph"].text, names)
        assert names["answer"]({"text": "item 7"}) == {"answer": "B"}  # type: ignore[operator]
        assert sent(endpoint) == ("A or B?", "item 7")


def sent(endpoint: FakeEndpoint) -> tuple[str, str]:
    messages = endpoint.requests[-1]["messages"]
    return messages[0]["content"], messages[-1]["content"]


def test_names_and_the_address_are_those_of_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = RunConfig(prompt="A or B?", input_field='the "text"', max_calls=600, runs_dir=tmp_path)
    rows = [{'the "text"': row["text"], "target": row["target"]} for row in ROWS]
    named = optimize(config, rows=rows, models=Models(ScriptedClient(lambda messages: "A", name='a "b"')))
    found = Run.open(named.run_dir)
    (tmp_path / "prompt.yaml").write_text(found.export("yaml"), encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)  # an endpoint of one's own takes none
    summary = read_summary(found.folder)
    with fake_endpoint(lambda body: answer("B")) as endpoint:
        summary = dataclasses.replace(summary, settings={**summary.settings, "base_url": endpoint.base_url})
        for snippet in snippets(summary):
            if snippet.title in ("OpenAI", "LangChain"):
                exec(snippet.text, {})
                assert endpoint.requests[-1]["model"] == 'a "b"'
        assert len(endpoint.requests) == 2


def test_a_prompt_with_several_fields_is_sent_with_all_of_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    config = RunConfig(
        prompt="{text}\nsaid {who}. A or B?", input_field="text", max_calls=600, runs_dir=tmp_path
    )
    rows = [{**row, "who": "Ann"} for row in ROWS]
    named = optimize(config, rows=rows, models=Models(ScriptedClient(lambda messages: "A")))
    found = Run.open(named.run_dir)
    (tmp_path / "prompt.yaml").write_text(found.export("yaml"), encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    summary = read_summary(found.folder)
    with fake_endpoint(lambda body: answer("B")) as endpoint:
        summary = dataclasses.replace(summary, settings={**summary.settings, "base_url": endpoint.base_url})
        made = {snippet.title: snippet.text for snippet in snippets(summary)}
        exec(made["OpenAI"], {})
        names: dict[str, object] = {}
        exec(made["LangGraph"], names)
        assert names["answer"]({"text": "No", "who": "Bo"}) == {"answer": "B"}  # type: ignore[operator]
        assert sent(endpoint)[1] == "No\nsaid Bo. A or B?"
    local = dataclasses.replace(summary, settings={**summary.settings, "model": "local", "base_url": None})
    embedded = {snippet.title: snippet.text for snippet in snippets(local)}
    assert not {"OpenAI", "LangChain", "LangGraph"} & set(embedded)  # it has no address to send to
    capsys.readouterr()
    exec(embedded["Messages for your client"], {})
    assert "A or B?" in capsys.readouterr().out


def test_the_page_explains_its_words_and_links_lead_to_them(run: Run) -> None:
    text = page(read_summary(run.folder))
    ids, targets = set(re.findall(r' id="([^"]+)"', text)), re.findall(r'href="#([^"]+)"', text)
    assert {target for target in targets if target not in ids} == set()
    assert sum(target.startswith("word-") for target in targets) >= 4
    assert all(meaning in text.replace("&#39;", "'") for _, meaning in WORDS)
    assert '<p class="plain">No better prompt was found. Keep yours.</p>' in text


def test_an_unfinished_run_has_nothing_to_use(run: Run, tmp_path: Path) -> None:
    assert (
        snippets(dataclasses.replace(read_summary(run.folder), status="running", verdict="unfinished")) == []
    )
