"""The process of `evaluator`: fills templates and searches patterns, one after the other, within limits.

It is started as a file, isolated, and imports nothing of the package. It reads requests from its input: a
length, then that many bytes of marshal, `(job, text, values)`. An answer is a status, a length and a text.
`+` is for a result, `-` for what is wrong with the request, `m` for too little memory.
"""

from __future__ import annotations

import marshal
import resource
import signal
import struct
import sys
from functools import lru_cache
from typing import Any

_LENGTH = struct.Struct("!Q")
_SHOWN = 500  # characters of an error, whose text may hold a value


def main(time_s: float, memory_bytes: int, max_length: int, other_packages: list[str]) -> None:
    # An ignored or a blocked signal is inherited, and then nothing would end an evaluation.
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGALRM])
    # At the end: nothing there goes before what Python itself brings.
    sys.path += other_packages
    source, sink = sys.stdin.buffer, sys.stdout.buffer
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if sys.platform == "linux":
        resource.setrlimit(resource.RLIMIT_AS, (memory_bytes, memory_bytes))
    while head := source.read(_LENGTH.size):
        request = source.read(_LENGTH.unpack(head)[0])
        try:
            status, text = _answer(request, time_s, max_length)
        except MemoryError:
            status, text = b"m", ""
        signal.setitimer(signal.ITIMER_REAL, 0)
        answer = text.encode("utf-8", "surrogatepass")
        sink.write(status + _LENGTH.pack(len(answer)) + answer)
        sink.flush()
        if status == b"m":
            return


def _answer(request: bytes, time_s: float, max_length: int) -> tuple[bytes, str]:
    job, text, values = marshal.loads(request)
    if job == "template":
        try:
            _environment()  # not counted: its first import may take long on a slow disk
        except ImportError as error:
            return b"-", f"Jinja2 cannot be imported: {error}"
    # Nothing catches this signal, so a loop in C ends as one in a template does.
    signal.setitimer(signal.ITIMER_REAL, time_s)
    if job == "template":
        return _filled(text, values, max_length)
    return b"+", "found" if _pattern(text).search(values) else ""


def _filled(template: str, values: dict[str, Any], max_length: int) -> tuple[bytes, str]:
    from jinja2 import TemplateSyntaxError

    pieces: list[str] = []
    length = 0
    try:
        for piece in _template(template).generate(values):
            length += len(piece)
            if length > max_length:
                return b"-", f"the template makes more than {max_length} characters"
            pieces.append(piece)
    except TemplateSyntaxError as error:
        return b"-", f"line {error.lineno} of the template: {error.message}"
    except RecursionError:
        return b"-", "the template is nested too deeply, or a macro in it calls itself without an end"
    except MemoryError:
        raise
    except Exception as error:  # noqa: BLE001  a template can raise whatever its values' methods do
        return b"-", f"the template cannot be filled: {_shortened(error)}"
    return b"+", "".join(pieces)


def _shortened(error: Exception) -> str:
    text = str(error)
    return text if len(text) <= _SHOWN else text[: _SHOWN - 1] + "…"


@lru_cache(maxsize=64)
def _template(text: str) -> Any:
    return _environment().from_string(text)


@lru_cache(maxsize=1)
def _environment() -> Any:
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    return ImmutableSandboxedEnvironment(autoescape=False)


@lru_cache(maxsize=64)
def _pattern(text: str) -> Any:
    import re

    return re.compile(text)


if __name__ == "__main__":
    main(float(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), sys.argv[4:])
