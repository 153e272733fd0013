"""Where a run sends what: each address, the variable whose key goes there, and the models that are asked."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from autoprompt.llm.client import CallRole
from autoprompt.llm.endpoints import ModelChoice, choose_model
from autoprompt.llm.transport.address import shown_url
from autoprompt.records import Event
from autoprompt.settings.records import JUDGED, CallSettings, DataSettings, ScienceConfig

SENDS_TO = "sends_to"  # the event before the first request to an endpoint


def sends_to(config: CallSettings, roles: Iterable[CallRole]) -> Event | None:
    """Return the event that says where the models of these roles are asked, without secrets.

    None if only the embedded model is asked. The judge is left out unless it scores.
    """
    is_judged = isinstance(config, DataSettings) and config.metric == JUDGED
    asked = [role for role in roles if role != "judge" or is_judged]
    to = grouped([choose_model(config, role) for role in asked])
    return {"event": SENDS_TO, "to": to, "what": _what(config)} if to else None


def grouped(choices: Iterable[ModelChoice]) -> list[dict[str, Any]]:
    """Return address, key and models, one entry for each address and key."""
    asked = [choice for choice in choices if choice.base_url is not None]
    return _grouped(
        (shown_url(str(one.base_url)), one.key_variable or None, filter(None, [one.model])) for one in asked
    )


def _grouped(asked: Iterable[tuple[str, str | None, Iterable[str]]]) -> list[dict[str, Any]]:
    """Return the models of each address and key, each named once."""
    found: dict[tuple[str, str | None], dict[str, None]] = {}
    for address, key, models in asked:
        found.setdefault((address, key), {}).update(dict.fromkeys(models))
    return [{"address": url, "key": key, "models": list(models)} for (url, key), models in found.items()]


def all_of(events: Iterable[Event | None]) -> Event | None:
    """Return one event for several runs."""
    given = [event for event in events if event is not None]
    to = _grouped((to["address"], to["key"], to["models"]) for event in given for to in event["to"])
    what = " and ".join(dict.fromkeys(event["what"] for event in given))
    return {"event": SENDS_TO, "to": to, "what": what} if to else None


def sentences(event: Mapping[str, Any]) -> list[str]:
    """Return one sentence for each address."""
    return [_sentence(entry, event["what"]) for entry in event["to"]]


def _sentence(entry: Mapping[str, Any], what: str) -> str:
    models = ", ".join(entry["models"])
    named = f" (model{'s' if len(entry['models']) > 1 else ''} {models})" if models else ""
    if entry["key"] is None:
        return f"No key goes to {entry['address']}{named}; {what} are sent there"
    return f"{entry['key']} goes to {entry['address']}{named}; {what} are sent there"


def _what(config: CallSettings) -> str:
    if isinstance(config, ScienceConfig):
        names = ", ".join(path.name for path in config.data)
        return f"the task and outputs of experiments{f' on {names}' if names else ''}"
    if not isinstance(config, DataSettings):
        return "inputs"
    files = dict.fromkeys(
        path.name for path in (config.dataset, config.train, config.val, config.test) if path is not None
    )
    return f"rows of {', '.join(files)}"
