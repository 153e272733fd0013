"""`parameter-extractor`: values of the wrong type are told."""

from __future__ import annotations

import pytest
from flow_runs import outputs_of

FLOW = """
    nodes:
      - {id: start, type: start, data: {variables: [q]}}
      - id: x
        type: parameter-extractor
        data: {model: m, query: [start, q], parameters: [{name: fare, type: number}]}
"""


@pytest.mark.parametrize("said", ['"nan"', "NaN", "1e999", '"Infinity"'])
def test_what_is_not_a_number_is_none(said: str) -> None:
    found = outputs_of(FLOW, {"q": "?"}, answers=[f'{{"fare": {said}}}'])
    assert (found["fare"], found["__is_success"]) == (0, 0)
    assert "is no number" in found["__reason"]
