import json
from datetime import date
from pathlib import Path
from typing import Any

import pytest
import yaml

from autoprompt.errors import ConfigError, InputError, PromptError, StoreError, Voice, tell
from autoprompt.evaluation.exported import Exported, export, export_run
from autoprompt.measure.program import render
from autoprompt.records import EXPORT_FORMATS, Candidate, Demo, Example
from autoprompt.runs import RunStore

PLAIN = Candidate(
    {"prompt": 'Judge it. {x} {{y}} {"answer": 1} 标题党'}, demos=(Demo("in {x} {headline}", "1"),)
)
INLINE = Candidate({"prompt": "Judge it.\nHeadline {a}: {headline}"}, demos=(Demo("in {x}", "1"),))
SEVERAL = Candidate({"plan": "Plan.", "write": "Write."})


def row(text: str, **fields: str) -> Example:
    return Example("id", text, "", {"headline": text, **fields})


def sent(candidate: Candidate, example: Example) -> list[tuple[str, str]]:
    """What a run would send for this row."""
    messages = render(candidate.prompt, candidate.demos, example, input_field="headline")
    return [(message.role, message.content) for message in messages]


@pytest.mark.parametrize("candidate", [PLAIN, INLINE])
def test_openai_messages_are_those_of_a_run(candidate: Candidate) -> None:
    messages = json.loads(export(candidate, "openai", input_field="headline"))
    assert messages[-1]["role"] == "user"
    messages[-1]["content"] = messages[-1]["content"].replace("{headline}", "a {b} }")
    assert [(m["role"], m["content"]) for m in messages] == sent(candidate, row("a {b} }"))


@pytest.mark.filterwarnings("ignore:The function `load` is in beta")
@pytest.mark.parametrize("candidate", [PLAIN, INLINE])
def test_langchain_loads_it_and_sends_what_a_run_sends(candidate: Candidate) -> None:
    from langchain_core.load import load

    data = json.loads(export(candidate, "langchain", input_field="headline"))
    template: Any = load(data, allowed_objects="core")
    assert template.input_variables == ["headline"]
    roles = {"system": "system", "human": "user", "ai": "assistant"}
    messages = template.format_messages(headline="a {b} }")
    assert [(roles[m.type], m.content) for m in messages] == sent(candidate, row("a {b} }"))


@pytest.mark.filterwarnings("ignore:The function `load` is in beta")
def test_other_fields_of_the_row_stay_variables() -> None:
    from langchain_core.load import load

    candidate = Candidate({"prompt": "By {desk}: {headline} {other}"})
    text = export(candidate, "langchain", input_field="headline", fields=("desk",))
    template: Any = load(json.loads(text), allowed_objects="core")
    messages = template.format_messages(headline="h", desk="sport")
    assert [(m.type, m.content) for m in messages] == [("human", "By sport: h {other}")]


@pytest.mark.parametrize("candidate", [PLAIN, INLINE])
def test_an_exported_prompt_sends_what_a_run_sends(candidate: Candidate, tmp_path: Path) -> None:
    path = tmp_path / "prompt.yaml"
    path.write_text(export(candidate, "yaml", input_field="headline"), encoding="utf-8")
    found = Exported.load(str(path))
    example = Example("", "It burns", "", {"headline": "It burns"})
    wanted = render(candidate.prompt, candidate.demos, example, input_field="headline", target_field="")
    turns = [{"role": message.role, "content": message.content} for message in wanted]
    assert found.messages("It burns") == found.messages({"headline": "It burns", "year": 7}) == turns
    with pytest.raises(InputError, match="the row has no 'headline'; its fields are text"):
        found.messages({"text": "It burns"})


@pytest.mark.parametrize("form", ["openai", "langchain"])
def test_the_forms_that_have_lost_something_are_named(form: str, tmp_path: Path) -> None:
    path = tmp_path / "p.json"
    path.write_text(export(PLAIN, form, input_field="headline"), encoding="utf-8")
    with pytest.raises(ConfigError, match=f"p.json: this is an export in {form} format.*--to prompt.yaml"):
        Exported.load(path)


def test_what_cannot_be_read_as_an_export_is_said(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no such file"):
        Exported.load(tmp_path / "p.yaml")
    (tmp_path / "p.txt").write_text("Is this: clickbait?", encoding="utf-8")
    with pytest.raises(
        ConfigError, match=r"p.txt: expected an exported prompt.*give it as prompt='@.*p.txt'"
    ):
        Exported.load(tmp_path / "p.txt")


def test_the_texts_of_a_program_ask_for_their_program(tmp_path: Path) -> None:
    path = tmp_path / "program.yaml"
    path.write_text("components: {route: Route it.}\ndemos: []\nplaced: []\n", encoding="utf-8")
    with pytest.raises(ConfigError) as caught:
        Exported.load(path)
    (problem,) = caught.value.problems
    assert problem.code == "export.of-program"
    assert tell(problem, Voice.CLI) == (
        f"{path}: expected one prompt, found the texts of a program. To score them, use `autoprompt eval` "
        "and give the program with --program."
    )


def test_fields_of_a_row_become_text_in_the_messages_of_an_export(tmp_path: Path) -> None:
    path = tmp_path / "prompt.yaml"
    path.write_text(export(Candidate({"prompt": "{year}: {input}?"}), "yaml"), encoding="utf-8")
    found = Exported.load(path)
    assert found.messages({"input": "x", "year": 7})[-1]["content"].startswith("7: x?")
    given = {"input": "x", "year": {"a": [1.0, None, "é"]}}
    assert found.messages(given)[-1]["content"] == '{"a":[1.0,null,"é"]}: x?'
    assert found.messages({"input": "x", "year": date(2024, 5, 1)})[-1]["content"] == "2024-05-01: x?"
    assert found.messages({"input": True, "year": None})[-1]["content"] == ": true?"


def test_a_row_of_other_fields_needs_no_input_that_is_not_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "prompt.yaml"
    path.write_text(export(Candidate({"prompt": "{claim} by {source}?"}), "yaml"), encoding="utf-8")
    found = Exported.load(path)
    assert found.messages({"claim": "x", "source": "y"})[-1]["content"] == "x by y?"
    with pytest.raises(InputError, match="or fields by name, found NoneType"):
        Exported.load(path).messages(None)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="no 'input'"):
        found.messages({"other": "x"})
    assert found.messages({"claim": "x", "source": "y", "input": None})[-1]["content"] == "x by y?"


def test_a_row_whose_input_is_null_is_not_sent(tmp_path: Path) -> None:
    path = tmp_path / "prompt.yaml"
    path.write_text(export(Candidate({"prompt": "{year}: {input}?"}), "yaml"), encoding="utf-8")
    with pytest.raises(InputError, match="'input' of the row is null"):
        Exported.load(path).messages({"input": None, "year": 7})


def test_text_is_the_prompt_alone() -> None:
    assert export(PLAIN, "text") == PLAIN.prompt + "\n"
    assert export(SEVERAL, "text") == "[plan]\nPlan.\n\n[write]\nWrite.\n"


def test_yaml_holds_all_of_it_with_prompts_as_blocks() -> None:
    text = export(INLINE, "yaml", input_field="headline", labels=["0", "1"], model="local")
    assert yaml.safe_load(text) == {
        "components": {"prompt": "Judge it.\nHeadline {a}: {headline}"},
        "demos": [{"input": "in {x}", "output": "1"}],
        "labels": ["0", "1"],
        "model": "local",
        "input_field": "headline",
    }
    assert "prompt: |-\n    Judge it.\n" in text


@pytest.mark.parametrize("format", ["langchain", "openai"])
def test_several_components_are_not_one_prompt(format: str) -> None:
    with pytest.raises(InputError, match=r"2 \(plan, write\)\. Use 'text' or 'yaml'"):
        export(SEVERAL, format)


@pytest.mark.filterwarnings("ignore:The function `load` is in beta")
def test_demonstrations_with_several_fields_are_exported_with_them(tmp_path: Path) -> None:
    from langchain_core.load import load

    demo = Demo("a", "1", "r1", fields={"desk": "news {x}"})
    candidate = Candidate({"prompt": "Judge.\n{desk}: {headline}"}, demos=(demo,))
    asked: Any = {"input_field": "headline", "fields": ("desk",)}
    turns = [m["content"] for m in json.loads(export(candidate, "openai", **asked))]
    assert turns == ["Judge.", "news {x}: a", "1", "{desk}: {headline}"]
    template: Any = load(json.loads(export(candidate, "langchain", **asked)), allowed_objects="core")
    assert template.invoke({"desk": "d", "headline": "h"}).to_messages()[-1].content == "d: h"
    file = tmp_path / "prompt.yaml"
    file.write_text(export(candidate, "yaml", **asked), encoding="utf-8")
    sent = Exported.load(file).messages({"desk": "sport", "headline": "b"})
    assert [m["content"] for m in sent] == ["Judge.", "news {x}: a", "1", "sport: b"]
    for row in ({"headline": "b"}, "b", {}):
        with pytest.raises(InputError, match=r"the row has no .*the prompt asks for desk, headline"):
            Exported.load(file).messages(row)


def test_a_demonstration_that_lacks_a_field_of_the_prompt_is_refused() -> None:
    candidate = Candidate({"prompt": "{desk}: {headline}"}, demos=(Demo("a", "1"),))
    with pytest.raises(PromptError, match="desk"):
        export(candidate, "openai", input_field="headline", fields=("desk",))


def test_an_unknown_format_names_the_known_ones() -> None:
    with pytest.raises(InputError, match="known: text, yaml, langchain, openai"):
        export(PLAIN, "word")


def test_the_best_of_a_run_is_exported_with_its_settings(tmp_path: Path) -> None:
    run = RunStore(tmp_path).create({"input_field": "headline", "model": "local"})
    run.write_labels(["0", "1"])
    with pytest.raises(StoreError, match="no best prompt yet"):
        export_run(run, "text")
    run.write_result({"best": PLAIN.to_dict()})
    made_by = {"id": run.run_id, "dataset": [], "rows_seen": ""}
    for format in EXPORT_FORMATS:
        assert export_run(run, format) == export(
            PLAIN, format, input_field="headline", labels=["0", "1"], model="local", run=made_by
        )


@pytest.mark.parametrize(("kept", "exported"), [(["0", "1"], ["0", "1"]), ([], []), (None, None)])
def test_an_export_carries_the_labels_that_the_run_inferred(
    tmp_path: Path, kept: list[str] | None, exported: list[str] | None
) -> None:
    run = RunStore(tmp_path).create({})
    run.write_result({"best": PLAIN.to_dict()})
    if kept is not None:
        run.write_labels(kept)
    path = run.write_text("w.yaml", export_run(run, "yaml"))
    assert yaml.safe_load(path.read_text(encoding="utf-8"))["labels"] == exported
    assert Exported.load(path)[:2] == (PLAIN, None if exported is None else tuple(exported))
