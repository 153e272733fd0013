"""How the pages put what a run's files hold: states, moments, the step that is at work."""

from __future__ import annotations

import re
from datetime import datetime
from pathlib import PurePath

from autoprompt.report.numbers import duration
from autoprompt.web.live import LiveState

_DOING = {
    "predict": "measuring candidates",
    "analyze": "reading the errors",
    "rewrite": "writing candidates",
    "memory": "noting what was learned",
    "increment_iteration": "beginning the next round",
    "final_predict": "the winner meets the original, and the sealed test is opened",
}


def phase(state: LiveState, status: str) -> str:
    """What a run that has not ended does, in one sentence."""
    doing = _DOING.get(state.node, state.node)
    rounds = f"Round {state.iteration}" if state.iteration else ""
    if rounds and state.max_iterations:
        rounds += f" of at most {state.max_iterations}"
    if status == "interrupted":
        return f"Stopped in {rounds[:1].lower()}{rounds[1:]}, {doing}" if rounds else "Stopped at the start"
    if not rounds:
        return doing.capitalize() or "Starting"
    return f"{rounds}: {doing}"


def clock(time: str) -> str:
    """`07:20:54`, UTC as it was logged; "" for what is no time."""
    moment = _read(time)
    return "" if moment is None else f"{moment:%H:%M:%S}"


def moment(time: str) -> str:
    """`2026-11-22 07:20`, UTC."""
    found = _read(time)
    return "–" if found is None else f"{found:%Y-%m-%d %H:%M}"


def capitalized(text: str) -> str:
    return text[:1].upper() + text[1:]


def _read(time: str) -> datetime | None:
    try:
        return datetime.fromisoformat(time)
    except ValueError:
        return None


def seconds(value: float) -> str:
    """`12 ms`, `3.4 s`, `2:05`."""
    if value < 1:
        return f"{value * 1000:.0f} ms"
    return f"{value:.1f} s" if value < 60 else duration(value)


def file_name(path: str) -> str:
    """`rows.jsonl` of `/data/rows.jsonl`."""
    return PurePath(path).name


def slug(name: str) -> str:
    """`name` as a class in a page: letters, digits and `_` alone."""
    return re.sub(r"[^A-Za-z0-9_]", "", name)


FILTERS = {
    "phase": phase,
    "clock": clock,
    "moment": moment,
    "capitalized": capitalized,
    "file_name": file_name,
    "slug": slug,
    "seconds": seconds,
}
