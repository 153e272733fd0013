"""Python that others wrote is read in one place, and by several threads at once."""

from __future__ import annotations

import ast
import gc
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import autoprompt
from autoprompt.text.python_source import parse_code, parse_expression, read_literal

DEEP = "-(" * 40 + "1" + ")" * 40
PACKAGE = Path(autoprompt.__file__).parent


@pytest.fixture
def switches_in_between() -> Iterator[None]:
    """Has the collector run while a tree is built, and other threads while the collector runs."""
    before = gc.get_threshold()

    def give_way(_phase: str, _info: dict[str, int]) -> None:
        time.sleep(0.0001)

    gc.callbacks.append(give_way)
    gc.set_threshold(10)
    yield
    gc.set_threshold(*before)
    gc.callbacks.remove(give_way)


@pytest.mark.usefixtures("switches_in_between")
@pytest.mark.parametrize("read", [parse_code, parse_expression, read_literal])
def test_deep_code_is_read_in_sixteen_threads(read: Callable[[str], object]) -> None:
    """By `ast.parse` itself CPython 3.11 fails here: AST constructor recursion depth mismatch."""
    text = repr([[[[1]]]] * 20) if read is read_literal else DEEP
    errors: list[BaseException] = []

    def work() -> None:
        for _ in range(20):
            try:
                read(text)
            except SystemError as error:
                errors.append(error)

    threads = [threading.Thread(target=work) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert gc.isenabled()


def test_a_collector_that_was_off_stays_off() -> None:
    gc.disable()
    try:
        assert read_literal("[1, 2]") == [1, 2]
        assert not gc.isenabled()
    finally:
        gc.enable()


def test_an_escape_that_python_does_not_know_is_no_warning() -> None:
    (statement,) = parse_code(r"found = '\d'").body
    assert isinstance(statement, ast.Assign)
    assert ast.literal_eval(statement.value) == r"\d"


def test_no_other_module_of_the_package_reads_python() -> None:
    readers = {"parse", "literal_eval"}
    found = {
        path.relative_to(PACKAGE).as_posix()
        for path in PACKAGE.rglob("*.py")
        if "ast." in (text := path.read_text(encoding="utf-8"))
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Name)
        and node.value.id == "ast"
        and node.attr in readers
    }
    assert found == {"text/python_source.py"}
