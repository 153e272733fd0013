"""An evaluation that asks nobody says so."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from called import call
from endpoint import KEY, Endpoint, write_messages

CACHED = "every answer came from the response cache, so today's model was not asked"


def test_an_evaluation_out_of_the_cache_is_announced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, endpoint: Endpoint
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    write_messages(tmp_path, endpoint.base_url, range(12))
    asked = ("eval", "--config", "c.yaml", "--json")
    assert CACHED not in call(*asked).stderr
    again = call(*asked)
    assert CACHED in again.stderr
    found = json.loads(again.stdout)
    assert found["calls"] == 0
    assert [warning["message"].startswith(CACHED) for warning in found["warnings"]].count(True) == 1
    assert CACHED not in call(*asked, "--no-cache").stderr
    # One answer of today is enough for the whole not to be of yesterday.
    assert CACHED not in call(*asked, "--against", "Sort otherwise.").stderr


@pytest.mark.parametrize(("cap", "words"), [("--max-calls", "cached ones included"), ("--max-tokens", None)])
def test_a_cap_that_is_too_small_says_what_was_sent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, endpoint: Endpoint, cap: str, words: str | None
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    write_messages(tmp_path, endpoint.base_url, range(12))
    result = call("eval", "--config", "c.yaml", cap, "9" if words else "150", code=3)
    sent = len(endpoint.requests)
    assert (sent == 0) is bool(words)
    assert (
        words or f"The run reached it after {sent} requests; the cache keeps the answers."
    ) in result.stderr
