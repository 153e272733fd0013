"""How many requests a run has out at once, as its settings say."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest

from tests.flow_runs import run_flow

# In a process of its own, so that a run that hangs ends the test and not the whole suite.
_MEASURE = """
import json, sys, threading
from tests.flow_runs import flow, run_flow

class Counting:
    def __init__(self, bound):
        self.bound, self.out, self.most, self.changed = bound, 0, 0, threading.Condition()
    def __call__(self, messages):
        with self.changed:
            self.out += 1
            self.most = max(self.most, self.out)
            self.changed.notify_all()
            # Time for one more than may be there to come in.
            self.changed.wait_for(lambda: self.out > self.bound, timeout=0.1)
            self.out -= 1
        return "ok"

bound, content = int(sys.argv[1]), json.loads(sys.argv[2])
counting = Counting(bound)
done = run_flow(content, {"items": list("abcd")}, counting, max_concurrency=bound)
assert done.outputs is not None, done.error
print(json.dumps([counting.most, len(done.client.calls)]))
"""


def _ask(node_id: str) -> dict[str, Any]:
    return {"id": node_id, "type": "llm", "data": {"prompt_template": node_id}}


_ITEMS_VARIABLE = {"variable": "items", "type": "array"}
_START: dict[str, Any] = {
    "id": "start",
    "type": "start",
    "data": {"variables": [_ITEMS_VARIABLE]},
}
_BRANCHES = {
    "nodes": [_START, *[_ask(name) for name in "abcd"]],
    "edges": [{"source": "start", "target": name} for name in "abcd"],
}


def _each(node_id: str, **more: Any) -> dict[str, Any]:
    data = {"iterator_selector": ["start", "items"], "is_parallel": True, "parallel_nums": 4, **more}
    return {"id": node_id, "type": "iteration", "data": data}


_ITEMS = {
    "nodes": [
        _START,
        _each("one", nodes=[_ask("p"), _ask("q")], edges=[]),
        _each("two", nodes=[_ask("r")]),
    ],
    "edges": [{"source": "start", "target": "one"}, {"source": "start", "target": "two"}],
}


@pytest.mark.parametrize("bound", [1, 2])
@pytest.mark.parametrize(("content", "calls"), [(_BRANCHES, 4), (_ITEMS, 12)])
def test_as_many_requests_are_out_as_the_settings_say(
    content: dict[str, Any], calls: int, bound: int
) -> None:
    command = [sys.executable, "-c", _MEASURE, str(bound), json.dumps(content)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == [bound, calls]


def test_a_bound_below_one_is_refused() -> None:
    assert run_flow(_BRANCHES, {"items": []}, max_concurrency=0).error == (
        "max_concurrency is 0, expected 1 or more, or None for no bound"
    )
