"""The list as its address asks for it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from autoprompt.runs import RunLine
from autoprompt.web.choosing import SORTS, Choice, gain
from autoprompt.web.library import Entry


def entry(run_id: str, **more: Any) -> Entry:
    values = {"status": "finished", "kind": "optimize", "created": f"2026-01-0{run_id[-1]}", **more}
    return Entry(run_id, RunLine(run_id, Path(run_id), **values))


ENTRIES = [
    entry("a-1", dataset="/data/tickets.csv", model="gpt", original=0.5, best=0.9, calls=10, cost_usd=0.2),
    entry("b-2", dataset="标题.jsonl", model="qwen", original=0.6, best=0.7, calls=300, cost_usd=None),
    entry("c-3", dataset="/data/tickets.csv", status="running"),
    entry("d-4", kind="science", status="interrupted"),
]


def shown(**query: str) -> list[str]:
    return [found.key for found in Choice.read(query).apply(ENTRIES)]


def test_the_newest_first_without_a_wish() -> None:
    assert shown() == ["d-4", "c-3", "b-2", "a-1"]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ({"q": "tickets"}, ["c-3", "a-1"]),
        ({"q": "TICKETS gpt"}, ["a-1"]),
        ({"q": "标题"}, ["b-2"]),
        ({"q": "no such"}, []),
        ({"kind": "science"}, ["d-4"]),
        ({"state": "running"}, ["c-3"]),
        ({"state": "running", "q": "gpt"}, []),
        ({"state": "nonsense", "sort": "nonsense", "order": "nonsense"}, ["d-4", "c-3", "b-2", "a-1"]),
    ],
)
def test_what_is_asked_for_is_shown(query: dict[str, str], expected: list[str]) -> None:
    assert shown(**query) == expected


@pytest.mark.parametrize("order", ["up", "down"])
def test_runs_without_a_value_come_last_either_way(order: str) -> None:
    found = shown(sort="best", order=order)
    assert found[:2] == (["b-2", "a-1"] if order == "up" else ["a-1", "b-2"])
    assert set(found[2:]) == {"c-3", "d-4"}


@pytest.mark.parametrize("sort", SORTS)
def test_every_order_holds_every_run(sort: str) -> None:
    assert sorted(shown(sort=sort)) == ["a-1", "b-2", "c-3", "d-4"]


def test_a_second_click_turns_the_order_round() -> None:
    first = Choice.read({"q": "a&b=c", "sort": "best"})
    assert not first.is_rising
    assert first.address("best") == "?q=a%26b%3Dc&sort=best&order=up"
    assert first.address("run") == "?q=a%26b%3Dc&sort=run&order=up"
    assert Choice.read({"sort": "best", "order": "up"}).address("best").endswith("order=down")


def test_gain_is_unknown_where_a_score_is() -> None:
    assert gain(ENTRIES[0]) == pytest.approx(0.4)
    assert gain(ENTRIES[2]) is None
