"""Dify's apps without a graph (modes chat, completion, agent-chat), read as a graph around a model's node.

Their prompts name variables as `{{name}}`. Inside of the workflow these are references, as everywhere else,
and they are written back as they were.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Literal

from autoprompt.workflow.engine.template import REFERENCE, as_text, render, replace_references

if TYPE_CHECKING:
    from autoprompt.workflow.engine.variables import VariablePool

CONFIG = "model_config"  # key of the export that holds all of it
COMPLETION = "completion"
MODES = ("chat", COMPLETION, "agent-chat")
SPECIAL = ("context", "query", "histories")  # what `{{#name#}}` may stand for besides variables
START, EXTERNAL, KNOWLEDGE = "start", "external", "knowledge"
MODEL, AGENT, ANSWER = "llm", "agent", "answer"

Prompt = Literal["pre_prompt", "chat_prompt_config", "completion_prompt_config"]

_QUESTION, _PASSAGES = "{{#query#}}", "{{#context#}}"
_ASKED = "{{#sys.query#}}"
_PLAIN = re.compile(r"\{\{([a-zA-Z_][a-zA-Z0-9_]{0,29})\}\}")
_NAMED = re.compile(rf"\{{\{{([a-zA-Z_][a-zA-Z0-9_]{{0,29}}|#(?:{'|'.join(SPECIAL)})#)\}}\}}")
_FORM = "user_input_form"
_NO_AGENT = ("", "router")  # strategies of Dify with which a chat that has tools is no agent
_BY_A_TOOL = ("external_data_tool", "api")  # kinds of fields that one of Dify's tools fills in


@dataclass(frozen=True)
class App:
    """One app. config: its `model_config`. mode: one of MODES."""

    config: Mapping[str, Any]
    mode: str

    @property
    def is_chat(self) -> bool:
        """Whether it is asked a question."""
        return self.mode != COMPLETION

    @cached_property
    def is_agent(self) -> bool:
        """Whether a model calls tools: older agents are chats with the agent switched on."""
        agent = self._agent_mode
        is_on = agent.get("enabled") is True and str(agent.get("strategy") or "") not in _NO_AGENT
        return self.mode == "agent-chat" or (self.mode == "chat" and is_on and bool(self.tools))

    @property
    def model_id(self) -> str:
        """The id of the node that has the prompt."""
        return AGENT if self.is_agent else MODEL

    @cached_property
    def prompt_key(self) -> Prompt:
        """The key under which Dify looks for the prompt: the others hold what an editor has left there."""
        if self.config.get("prompt_type") != "advanced" or self.is_agent:
            return "pre_prompt"
        is_text = _mapping(self.config.get("model")).get("mode") == COMPLETION
        wanted: tuple[Prompt, ...] = ("completion_prompt_config", "chat_prompt_config")
        for name in wanted if is_text else reversed(wanted):
            if messages_key(_mapping(self.config.get(name))):
                return name
        return "pre_prompt"

    @cached_property
    def prompts(self) -> tuple[Mapping[str, Any], ...]:
        """The messages of the prompt as they are written, each with role and text."""
        if self.prompt_key == "pre_prompt":
            role = "system" if self.is_chat else "user"
            return ({"role": role, "text": str(self.config.get("pre_prompt") or "")},)
        holder = self.config[self.prompt_key]
        prompt = holder[messages_key(holder)]
        if self.prompt_key == "completion_prompt_config":
            return ({"role": "user", "text": str(_mapping(prompt).get("text") or "")},)
        listed = prompt if isinstance(prompt, list) else ()
        return tuple({**m, "text": str(m.get("text") or "")} for m in listed if isinstance(m, Mapping))

    @property
    def has_unfilled_question(self) -> bool:
        """Whether a message names the question of a chat, which Dify fills into a text alone."""
        return self.prompt_key == "chat_prompt_config" and any(_QUESTION in m["text"] for m in self.prompts)

    @cached_property
    def dataset_ids(self) -> tuple[str, ...]:
        """The datasets of Dify that the app looks into."""
        listed = _mapping(_mapping(self.config.get("dataset_configs")).get("datasets")).get("datasets")
        entries = [*(listed if isinstance(listed, list) else ()), *self._agent_entries]
        found = [_mapping(_mapping(entry).get("dataset")) for entry in entries]
        return tuple(str(one.get("id") or "") for one in found if one and one.get("enabled") is not False)

    @cached_property
    def tools(self) -> tuple[dict[str, Any], ...]:
        """The tools that are switched on. The first versions wrote `{name: {enabled: true}}`."""
        found = []
        for entry in self._agent_entries:
            if not isinstance(entry, Mapping) or "dataset" in entry:
                continue
            if "tool_name" not in entry and len(entry) == 1:
                name, settings = next(iter(entry.items()))
                entry = {"tool_name": name, **_mapping(settings)}
            if entry.get("enabled") is not False:
                found.append(
                    {name: entry[name] for name in ("tool_name", "tool_parameters") if name in entry}
                )
        return tuple(found)

    @cached_property
    def variables(self) -> tuple[dict[str, Any], ...]:
        """The fields of the form that a user fills in: `{type: {variable, label, required, ...}}`."""
        return tuple({**field, "type": kind} for kind, field in self._form if kind not in _BY_A_TOOL)

    @cached_property
    def external(self) -> tuple[str, ...]:
        """The variables of the prompt that one of Dify's external data tools fills in."""
        listed = self.config.get("external_data_tools")
        entries = map(_mapping, listed if isinstance(listed, list) else ())
        named = [
            str(entry["variable"]) for entry in entries if entry.get("enabled") and entry.get("variable")
        ]
        named += [str(field["variable"]) for kind, field in self._form if kind in _BY_A_TOOL]
        texts = "\n".join(message["text"] for message in self.prompts)
        return tuple(name for name in dict.fromkeys(named) if f"{{{{{name}}}}}" in texts)

    @property
    def graph(self) -> dict[str, Any]:
        """The app as the graph of an export, its edges included."""
        nodes: list[dict[str, Any]] = [
            {"id": START, "data": {"type": "start", "title": "Start", "variables": list(self.variables)}}
        ]
        if self.external:
            data = {"type": "external-data-tool", "title": "External data", "variables": list(self.external)}
            nodes.append({"id": EXTERNAL, "data": data})
        if self._reads_passages:
            nodes.append({"id": KNOWLEDGE, "data": self._retrieval})
        nodes.append({"id": self.model_id, "data": self._agent if self.is_agent else self._llm})
        answer = {"type": "answer", "title": "Answer", "answer": f"{{{{#{self.model_id}.text#}}}}"}
        nodes.append({"id": ANSWER, "data": answer})
        edges = [{"source": a["id"], "target": b["id"]} for a, b in pairwise(nodes)]
        return {"nodes": nodes, "edges": edges}

    @property
    def places(self) -> dict[tuple[int | str, ...], tuple[int | str, ...]]:
        """Path of a value in `graph` -> its path in `config`, for faults to name its line."""
        names = [node["id"] for node in self.graph["nodes"]]
        model: tuple[int | str, ...] = ("nodes", names.index(self.model_id), "data")
        found: dict[tuple[int | str, ...], tuple[int | str, ...]] = {(*model, "model"): ("model",)}
        if self.is_agent:
            found |= {(*model, "instruction"): (self.prompt_key,), (*model, "tools"): ("agent_mode", "tools")}
        else:
            key: tuple[int | str, ...] = (self.prompt_key,)
            if self.prompt_key != "pre_prompt":
                key = (*key, messages_key(self.config[self.prompt_key]))
            is_list = self.prompt_key == "chat_prompt_config"
            for number in range(len(self.prompts)):
                found[*model, "prompt_template", number] = (*key, number) if is_list else key
        fields = [place for place, kind in self._form_places if kind not in _BY_A_TOOL]
        start = ("nodes", names.index(START), "data", "variables")
        found |= {(*start, number): place for number, place in enumerate(fields)}
        return found

    def to_references(self, text: str) -> str:
        """Return the app's text with `{{name}}` of a variable as the reference that it is in the workflow."""
        nodes = {str(field["variable"]): START for field in self.variables}
        nodes |= dict.fromkeys(self.external, EXTERNAL)

        def reference(match: re.Match[str]) -> str:
            if match[0] == _QUESTION and self.is_chat and self.prompt_key == "completion_prompt_config":
                return _ASKED
            return f"{{{{#{nodes[match[1]]}.{match[1]}#}}}}" if match[1] in nodes else match[0]

        return _NAMED.sub(reference, text)

    @property
    def _agent_mode(self) -> Mapping[str, Any]:
        return _mapping(self.config.get("agent_mode"))

    @property
    def _agent_entries(self) -> list[Any]:
        tools = self._agent_mode.get("tools")
        return tools if isinstance(tools, list) else []

    @property
    def _form(self) -> Iterator[tuple[str, Mapping[str, Any]]]:
        form = self.config.get(_FORM) or ()
        for (_, number, key), kind in self._form_places:
            yield kind, form[number][key]

    @property
    def _form_places(self) -> Iterator[tuple[tuple[str, int, str], str]]:
        """Path and kind of each field of the form."""
        form = self.config.get(_FORM)
        for number, entry in enumerate(form if isinstance(form, list) else ()):
            for kind, field in entry.items() if isinstance(entry, Mapping) else ():
                if isinstance(field, Mapping) and field.get("variable"):
                    yield (_FORM, number, kind), str(kind)

    @property
    def _reads_passages(self) -> bool:
        """Whether what the datasets hold is sent. To an agent Dify offers them as tools instead."""
        is_named = any(_PASSAGES in message["text"] for message in self.prompts)
        return bool(self.dataset_ids) and not self.is_agent and (self.prompt_key == "pre_prompt" or is_named)

    @property
    def _retrieval(self) -> dict[str, Any]:
        asked = str(self.config.get("dataset_query_variable") or "")
        is_field = asked in (field["variable"] for field in self.variables)
        return {
            "type": "knowledge-retrieval",
            "title": "Knowledge",
            "dataset_ids": list(self.dataset_ids),
            "query_variable_selector": [START, asked] if is_field and not self.is_chat else ["sys", "query"],
            "multiple_retrieval_config": {"top_k": _mapping(self.config.get("dataset_configs")).get("top_k")},
        }

    @property
    def _llm(self) -> dict[str, Any]:
        messages = [{**message, "text": self.to_references(message["text"])} for message in self.prompts]
        if self._reads_passages and self.prompt_key == "pre_prompt":
            messages[0]["before"] = f"<context>\n{_PASSAGES}\n</context>"
        if self.is_chat and self.prompt_key != "completion_prompt_config":
            messages.append({"role": "user", "text": _ASKED})
        context = {"enabled": True, "variable_selector": [KNOWLEDGE, "result"]}
        return {
            "type": "llm",
            "title": "Model",
            "is_app": True,
            "model": self.config.get("model"),
            "prompt_template": messages,
            **({"context": context} if self._reads_passages else {}),
        }

    @property
    def _agent(self) -> dict[str, Any]:
        rounds = self._agent_mode.get("max_iteration")
        return {
            "type": "agent",
            "title": "Agent",
            "is_app": True,
            "model": self.config.get("model"),
            "instruction": self.to_references(self.prompts[0]["text"]),
            "query": _ASKED,
            "tools": list(self.tools),
            "agent_strategy_name": str(self._agent_mode.get("strategy") or ""),
            **({"max_iterations": rounds} if rounds else {}),
        }


def messages_key(prompt: Mapping[str, Any]) -> str:
    """Return the key of a prompt's messages, which early versions called otherwise; "" if it has none."""
    return next((name for name in ("prompt", "messages") if prompt.get(name)), "")


def from_references(text: str) -> str:
    """Return a text of the workflow as the app writes it: the inverse of `App.to_references`."""

    def written(selector: tuple[str, ...]) -> str:
        name = ".".join(selector)
        if len(selector) == 2 and selector[0] in (START, EXTERNAL):
            return f"{{{{{selector[1]}}}}}"
        return _QUESTION if name == "sys.query" else f"{{{{#{name}#}}}}"

    return replace_references(text, written)


def is_name(name: str) -> bool:
    """Return whether Dify fills in a variable of this name."""
    return _PLAIN.fullmatch(f"{{{{{name}}}}}") is not None


def is_literal(text: str) -> bool:
    """Return whether an app that holds the text says just that: Dify reads `{{name}}` of any name."""
    return REFERENCE.search(text) is None and _NAMED.search(text) is None


def filled(text: str, pool: VariablePool, passages: str = "") -> str:
    """Return the app's text with its values as Dify sends it.

    `{{name}}` that is no variable, and any in a value, loses a pair of braces. So does the question in a
    message: Dify sends it as the last one. A conversation has no turns before it.

    Args:
        passages: What `{{#context#}}` stands for.
    """
    names = {"context": passages, "histories": "", "query": _unbraced(_QUESTION)}
    return render(_PLAIN.sub(r"{\1}", text), pool, names, write=lambda value: _unbraced(as_text(value)))


def _unbraced(text: str) -> str:
    return _NAMED.sub(r"{\1}", text)


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
