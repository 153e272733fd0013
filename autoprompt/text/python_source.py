"""Python that others wrote, read as a syntax tree. It is read here and nowhere else in the package.

CPython 3.11 counts the depth of a tree for all threads together. If the garbage collector runs while a tree
is built, another thread may build one in between, and the first one ends with `SystemError: AST constructor
recursion depth mismatch`. So one thread builds at a time, and the collector waits: other libraries parse too.
"""

from __future__ import annotations

import ast
import gc
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

_building = threading.RLock()


def parse_code(code: str | bytes) -> ast.Module:
    """Return the tree of statements.

    Raises:
        SyntaxError: For text that is no Python.
        ValueError: For a NUL character.
        RecursionError, MemoryError: For code that is nested too deeply.
    """
    with _alone():
        return ast.parse(code)


def parse_expression(text: str) -> ast.expr:
    """Return the tree of one expression.

    Raises:
        SyntaxError, ValueError, RecursionError, MemoryError: As `parse_code`.
    """
    with _alone():
        return ast.parse(text, mode="eval").body


def read_literal(text: str) -> Any:
    """Return the value that numbers, texts, lists and the like are.

    Raises:
        SyntaxError, ValueError, RecursionError, MemoryError: As `parse_code`.
    """
    with _alone():
        return ast.literal_eval(text)


@contextmanager
def _alone() -> Iterator[None]:
    """Keep other threads out. A warning is about an escape like `\\d`: its author meant it, and it works."""
    with _building:
        was_enabled = gc.isenabled()
        try:
            gc.disable()  # inside: Ctrl-C after it must not leave the collector off
            with warnings.catch_warnings(action="ignore"):
                yield
        finally:
            if was_enabled:
                gc.enable()
