"""What can go wrong, and the exit code that each kind leaves.

AutopromptError                70  internal error
├── UsageError                  2  the command line cannot be understood
├── InputError                  3  a file, a setting or a run folder that must be mended
│   ├── DatasetError               rows, files, splits
│   ├── ConfigError                settings and YAML
│   ├── PromptError                a prompt text or template
│   ├── BudgetTooSmallError        a cap under what the run needs
│   └── StoreError                 a run folder: locked, changed, unknown
├── ModelError                  4  an endpoint or a model failed
│   ├── EndpointError              no answer, or an answer that is not one (retried first)
│   ├── AuthenticationError        the key is missing or refused (not retried)
│   ├── EmptyAnswersError          the first rows were all answered with an empty text
│   ├── JudgeError                 most of a judge's replies hold no grade
│   ├── RequestRefusedError        the endpoint will not take this request (not retried)
│   └── RuntimeMissingError        the embedded runtime or its weights are not there
├── BudgetExhausted             0  control flow: a cap is reached, the run ends with its best
└── Interrupted               130  Ctrl-C; the state is saved

A failed row is data (a `Prediction` with its `error`), a failed system is one of these.
Messages say where, what was found, what was expected, and what to do.
"""

from __future__ import annotations

import errno
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

_SQLITE_IO_ERROR, _SQLITE_FULL = 10, 13


class AutopromptError(Exception):
    """Base of all errors raised on purpose. `exit_code` is what the CLI returns for it."""

    exit_code = 70


class UsageError(AutopromptError):
    exit_code = 2


class InputError(AutopromptError):
    exit_code = 3


class DatasetError(InputError):
    pass


class ConfigError(InputError):
    pass


class PromptError(InputError):
    pass


class BudgetTooSmallError(InputError):
    pass


class StoreError(InputError):
    pass


class ModelError(AutopromptError):
    """`attempts`: requests that were sent before it was raised, so that a resume can count them.

    `usage`: what they took, as `Usage.to_record` gives it; empty if no request was sent.
    """

    exit_code = 4
    attempts = 0
    usage: Mapping[str, Any] = MappingProxyType({})


class EndpointError(ModelError):
    """No usable answer. `status`: the HTTP status, None where none came.

    `retry_after_s`: what the endpoint asked for, None where it did not.
    `is_fatal`: the endpoint is gone, not one request; the run ends instead of counting failed rows.
    """

    def __init__(
        self,
        message: str,
        *,
        status: int | None = None,
        retry_after_s: float | None = None,
        is_fatal: bool = False,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.retry_after_s = retry_after_s
        self.is_fatal = is_fatal


class AuthenticationError(ModelError):
    pass


class EmptyAnswersError(ModelError):
    """A model that says nothing: its rows would score 0 whatever the prompt, at three requests each."""


class JudgeError(ModelError):
    """A judge that grades hardly anything: the scores would say nothing of the prompt."""


class RequestRefusedError(ModelError):
    """The endpoint understood the request and will not take it. `parameter`: the option it named, if any."""

    def __init__(self, message: str, *, status: int | None = None, parameter: str | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.parameter = parameter


class RuntimeMissingError(ModelError):
    pass


class BudgetExhausted(AutopromptError):
    """A cap is reached. Never shown as an error: the run goes to its final step with the best so far.

    `cap`: the name of the setting that was reached, e.g. "max_calls".
    """

    exit_code = 0

    def __init__(self, cap: str, message: str = "") -> None:
        super().__init__(message or f"{cap} reached")
        self.cap = cap


class Interrupted(AutopromptError):
    exit_code = 130


def disk_fault(error: BaseException) -> str | None:
    """What the disk refuses, by the word of the system or of SQLite; None where it is something else.

    A full disk is an input/output error to SQLite where it was to map its shared memory.
    """
    if isinstance(error, OSError):
        return "no space left on the disk" if error.errno in (errno.ENOSPC, errno.EDQUOT) else None
    code = getattr(error, "sqlite_errorcode", None)
    if code == _SQLITE_FULL:
        return "no space left on the disk"
    is_io_error = code is not None and code & 0xFF == _SQLITE_IO_ERROR  # above: which one
    return "the disk cannot be read or written, it may be full" if is_io_error else None
