"""Dify's apps without a graph (modes chat, completion, agent-chat), read as start, a model's node and answer.

Their prompts name variables as `{{name}}`. Inside of the workflow these are references to the start node, as
everywhere else, and they are written back as they were.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from itertools import pairwise
from typing import Any, Literal

from autoprompt.workflow.engine.template import replace_references

CONFIG = "model_config"  # key of the export that holds all of it
COMPLETION = "completion"
MODES = ("chat", COMPLETION, "agent-chat")
FILLED_BY_RUN = ("context", "histories")  # variables of `sys` that only such apps have, "" if not given
START, MODEL, AGENT, ANSWER = "start", "llm", "agent", "answer"

Prompt = Literal["pre_prompt", "chat_prompt_config", "completion_prompt_config"]

_NAMED = re.compile(r"\{\{([a-zA-Z_][a-zA-Z0-9_]{0,29}|#query#|#histories#)\}\}")
_SPECIAL = {"#query#": "sys.query", "#histories#": "sys.histories"}
_BACK = {name: f"{{{{{mark}}}}}" for mark, name in _SPECIAL.items()}
_NO_AGENT = ("", "router")  # strategies of Dify with which a chat that has tools is no agent


def is_agent(config: Mapping[str, Any], mode: str) -> bool:
    """Return whether a model calls tools: older agents are chats with the agent switched on."""
    agent = _mapping(config.get("agent_mode"))
    is_on = agent.get("enabled") is True and str(agent.get("strategy") or "") not in _NO_AGENT
    return mode == "agent-chat" or (mode == "chat" and is_on and bool(_tools(agent)))


def prompt_key(config: Mapping[str, Any], mode: str) -> Prompt:
    """Return the key under which Dify looks for the prompt: the others hold what an editor has left there."""
    if config.get("prompt_type") != "advanced" or is_agent(config, mode):
        return "pre_prompt"
    is_text = _mapping(config.get("model")).get("mode") == COMPLETION
    wanted: tuple[Prompt, ...] = ("completion_prompt_config", "chat_prompt_config")
    for name in wanted if is_text else reversed(wanted):
        if messages_key(_mapping(config.get(name))):
            return name
    return "pre_prompt"


def messages_key(prompt: Mapping[str, Any]) -> str:
    """Return the key of a prompt's messages, which early versions called otherwise; "" if it has none."""
    return next((name for name in ("prompt", "messages") if prompt.get(name)), "")


def app_graph(config: Mapping[str, Any], mode: str) -> dict[str, Any]:
    """Return the app as the graph of an export, its edges included."""
    variables = list(_variables(config))
    names = variable_names(config)
    if is_agent(config, mode):
        model = {"id": AGENT, "data": _agent(config, names)}
    else:
        model = {"id": MODEL, "data": _llm(config, mode, names)}
    answer = {"type": "answer", "title": "Answer", "answer": f"{{{{#{model['id']}.text#}}}}"}
    nodes = [
        {"id": START, "data": {"type": "start", "title": "Start", "variables": variables}},
        model,
        {"id": ANSWER, "data": answer},
    ]
    edges = [{"source": a["id"], "target": b["id"]} for a, b in pairwise(nodes)]
    return {"nodes": nodes, "edges": edges}


def variable_names(config: Mapping[str, Any]) -> frozenset[str]:
    """Return the names that the app's form asks for."""
    return frozenset(str(variable["variable"]) for variable in _variables(config))


def has_knowledge(config: Mapping[str, Any]) -> bool:
    """Return whether the app looks into datasets of Dify, which are not here."""
    datasets = _mapping(_mapping(config.get("dataset_configs")).get("datasets")).get("datasets")
    listed = [*(datasets if isinstance(datasets, list) else ()), *_agent_tools(config)]
    found = [_mapping(_mapping(entry).get("dataset")) for entry in listed]
    return any(dataset and dataset.get("enabled") is not False for dataset in found)


def to_references(text: str, names: Collection[str]) -> str:
    """Return the app's text with `{{name}}` of a variable as the reference that it is in the workflow."""

    def reference(match: re.Match[str]) -> str:
        name = match[1]
        if name in _SPECIAL:
            return f"{{{{#{_SPECIAL[name]}#}}}}"
        return f"{{{{#{START}.{name}#}}}}" if name in names else match[0]

    return _NAMED.sub(reference, text)


def from_references(text: str) -> str:
    """Return a text of the workflow as the app writes it: the inverse of `to_references`."""

    def written(selector: tuple[str, ...]) -> str:
        name = ".".join(selector)
        if len(selector) == 2 and selector[0] == START:
            return f"{{{{{selector[1]}}}}}"
        return _BACK.get(name, f"{{{{#{name}#}}}}")

    return replace_references(text, written)


def _llm(config: Mapping[str, Any], mode: str, names: Collection[str]) -> dict[str, Any]:
    key = prompt_key(config, mode)
    asked = {"role": "user", "text": "{{#sys.query#}}"}
    is_chat = mode != COMPLETION
    if key == "pre_prompt":
        text = to_references(str(config.get(key) or ""), names)
        passages = [{"role": "system", "text": "{{#context#}}"}] if has_knowledge(config) else []
        own = [{"role": "system", "text": text}, asked] if is_chat else [{"role": "user", "text": text}]
        messages = [*passages, *own]
    elif key == "chat_prompt_config":
        prompt = config[key][messages_key(config[key])]
        listed = [
            entry for entry in (prompt if isinstance(prompt, list) else ()) if isinstance(entry, Mapping)
        ]
        messages = [{**entry, "text": to_references(str(entry.get("text") or ""), names)} for entry in listed]
        messages += [asked] if is_chat else []
    else:
        prompt = config[key][messages_key(config[key])]
        text = to_references(str(_mapping(prompt).get("text") or ""), names)
        messages = [{"role": "user", "text": text}]
    return {
        "type": "llm",
        "title": "Model",
        "model": config.get("model"),
        "prompt_template": messages,
        "context": {"enabled": True, "variable_selector": ["sys", "context"]},
    }


def _agent(config: Mapping[str, Any], names: Collection[str]) -> dict[str, Any]:
    agent = _mapping(config.get("agent_mode"))
    rounds = agent.get("max_iteration")
    return {
        "type": "agent",
        "title": "Agent",
        "model": config.get("model"),
        "instruction": to_references(str(config.get("pre_prompt") or ""), names),
        "query": "{{#sys.query#}}",
        "tools": _tools(agent),
        **({"max_iterations": rounds} if rounds else {}),
    }


def _tools(agent: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The tools that are switched on. The first versions wrote `{name: {enabled: true}}`."""
    found = []
    tools = agent.get("tools")
    for entry in tools if isinstance(tools, list) else ():
        if not isinstance(entry, Mapping) or "dataset" in entry:
            continue
        if "tool_name" not in entry and len(entry) == 1:
            name, settings = next(iter(entry.items()))
            entry = {"tool_name": name, **_mapping(settings)}
        if entry.get("enabled") is not False:
            found.append({"tool_name": entry.get("tool_name"), "enabled": True})
    return found


def _agent_tools(config: Mapping[str, Any]) -> list[Any]:
    tools = _mapping(config.get("agent_mode")).get("tools")
    return tools if isinstance(tools, list) else []


def _variables(config: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """The fields of the form: `{type: {variable, label, required, ...}}`."""
    form = config.get("user_input_form")
    for entry in form if isinstance(form, list) else ():
        for kind, field in entry.items() if isinstance(entry, Mapping) else ():
            if isinstance(field, Mapping) and field.get("variable"):
                # A field that one of Dify's tools fills in is an input here.
                given = "paragraph" if kind in ("external_data_tool", "api") else str(kind)
                yield {**field, "type": given}


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
