"""How to use the winner of a run: the commands that write it, and the lines of Python that send it."""

from __future__ import annotations

from dataclasses import dataclass

from autoprompt.errors import command
from autoprompt.evaluation.task import source_form
from autoprompt.report.summary import RunSummary
from autoprompt.runs.folder import RunFolder

_LOAD = 'from autoprompt import Exported\n\nprompt = Exported.load("prompt.yaml")\n'


@dataclass(frozen=True, slots=True)
class Snippet:
    """Something to copy. language: "sh" or "python"."""

    title: str
    text: str
    language: str = "python"


def snippets(run: RunSummary) -> list[Snippet]:
    """Return what uses the best prompt of a finished run; nothing of another."""
    if not run.is_finished:
        return []
    name, form = RunFolder(run.path).reference, source_form(run.settings)
    measured = Snippet("Score it on other rows", command("eval", from_=name, dataset="FILE"), "sh")
    if form is not None:
        target = command("runs export", name, to=form.file_name)
        applied = [Snippet("See it in your source", command("runs apply", name), "sh")]
        return [
            *(applied if form.name == "program" else []),
            Snippet("Write it to a file", target, "sh"),
            measured,
        ]
    field, model = str(run.settings.get("input_field") or "input"), run.model or "MODEL"
    row = f'{{"{field}": "..."}}'
    return [
        Snippet("Write it to a file", command("runs export", name, to="prompt.yaml"), "sh"),
        Snippet(
            "OpenAI",
            f"from openai import OpenAI\n{_LOAD}reply = OpenAI().chat.completions.create(\n"
            f'    model="{model}", messages=prompt.messages({row})\n)\n'
            "print(reply.choices[0].message.content)",
        ),
        Snippet(
            "LangChain",
            f"from langchain_openai import ChatOpenAI\n{_LOAD}"
            f'model = ChatOpenAI(model="{model}")\nprint(model.invoke(prompt.messages({row})).content)',
        ),
        Snippet(
            "LangGraph",
            f"from langchain_openai import ChatOpenAI\n{_LOAD}"
            f'model = ChatOpenAI(model="{model}")\n\ndef answer(state):\n'
            f'    row = {{"{field}": state["{field}"]}}\n'
            '    return {"answer": model.invoke(prompt.messages(row)).content}',
        ),
        measured,
    ]
