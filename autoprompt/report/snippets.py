"""How to use the winner of a run: the commands that write it, and the lines of Python that send it."""

from __future__ import annotations

from dataclasses import dataclass

from autoprompt.errors import command
from autoprompt.evaluation.task import source_form
from autoprompt.report.summary import RunSummary
from autoprompt.runs.folder import RunFolder
from autoprompt.text.files import to_json

_LOAD = 'from autoprompt import Exported\n\nprompt = Exported.load("prompt.yaml")\n'


@dataclass(frozen=True, slots=True)
class Snippet:
    """Something to copy: commands or Python."""

    title: str
    text: str


def snippets(run: RunSummary) -> list[Snippet]:
    """Return what uses the best prompt of a finished run; nothing of another."""
    if not run.is_finished:
        return []
    name, form = RunFolder(run.path).reference, source_form(run.settings)
    measured = Snippet("Score it on other rows", command("eval", from_=name, dataset="FILE"))
    if form is not None:
        applied = [Snippet("See it in your source", command("runs apply", name))]
        return [
            *(applied if form.name == "program" else []),
            Snippet("Write it to a file", command("runs export", name, to=form.file_name)),
            measured,
        ]
    field = to_json(run.settings.get("input_field") or "input")
    address = run.settings.get("base_url")
    at = f"base_url={to_json(address)}" if address else ""
    model = f"model={to_json(run.model or 'MODEL')}"
    made = f"model = ChatOpenAI({', '.join(filter(None, (model, at)))})"
    chat = f"from langchain_openai import ChatOpenAI\n{_LOAD}{made}\n"
    messages = f'prompt.messages({{{field}: "..."}})'
    return [
        Snippet("Write it to a file", command("runs export", name, to="prompt.yaml")),
        Snippet(
            "OpenAI",
            f"from openai import OpenAI\n{_LOAD}reply = OpenAI({at}).chat.completions.create(\n"
            f"    {model}, messages={messages}\n)\n"
            "print(reply.choices[0].message.content)",
        ),
        Snippet("LangChain", f"{chat}print(model.invoke({messages}).content)"),
        Snippet(
            "LangGraph",
            f"{chat}\ndef answer(state):\n"
            f"    row = {{{field}: state[{field}]}}\n"
            '    return {"answer": model.invoke(prompt.messages(row)).content}',
        ),
        measured,
    ]
