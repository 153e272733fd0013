"""`code`: what is said of code that fails, and how much it may return."""

from __future__ import annotations

from typing import Any

import pytest

from autoprompt.workflow import NodeError, Workflow

ERROR = """the code failed: Traceback (most recent call last):
  File "workflow_code.py", line 2, in main
    return {'fare': 1 / len(text)}
                    ~~^~~~~~~~~~~
ZeroDivisionError: division by zero"""


def returned(source: str, text: str = "") -> dict[str, Any]:
    start = {"id": "start", "type": "start", "data": {"variables": [{"variable": "text"}]}}
    variables = [{"variable": "text", "value_selector": ["start", "text"]}]
    node = {"id": "c", "type": "code", "data": {"code": source, "variables": variables}}
    return Workflow.load({"nodes": [start, node]}).run({"text": text})


def failure(source: str) -> str:
    with pytest.raises(NodeError) as error:
        returned(source)
    return error.value.reason


def test_equal_failures_read_equal_with_the_frames_of_the_code_alone() -> None:
    source = "def main(text):\n    return {'fare': 1 / len(text)}"
    assert failure(source) == failure(source) == ERROR


def test_arguments_that_do_not_fit() -> None:
    expected = "the code failed: TypeError: main() got an unexpected keyword argument 'text'"
    assert failure("def main(headline): return {}") == expected


def test_what_is_no_json_is_named() -> None:
    said = failure("def main(text): return {'words': {text}}")
    expected = "main returned a value that is not JSON: Object of type set is not JSON serializable"
    assert said == f"the code failed: {expected}"


@pytest.mark.parametrize(
    ("ends", "how"), [("os.abort()", "ended by SIGABRT"), ("os._exit(3)", "exit code 3")]
)
def test_code_that_ends_without_a_word(ends: str, how: str) -> None:
    assert failure(f"import os\ndef main(text):\n    {ends}") == f"the code failed: {how}"


def test_more_than_is_read() -> None:
    expected = "what main returned cannot be read: workflow_outputs.json: more than 50,000,000 bytes"
    assert failure("def main(text): return {'a': 'x' * 50_000_000}") == expected
