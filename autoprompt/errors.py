"""What can go wrong, and the exit code that each kind leaves.

AutopromptError                70  internal error
├── UsageError                  2  invalid command line
├── InputError                  3  a file, a setting or a run folder that the user has to fix
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
│   │   ├── ContextOverflowError      it is longer than the model's window
│   │   └── WithheldError             its content filter will not
│   └── RuntimeMissingError        the embedded runtime or its weights are not there
├── BudgetExhausted             0  control flow: a cap is reached, the run ends with its best
└── Interrupted               130  Ctrl-C; the state is saved

A failed row is data (a `Prediction` with its `error`), a failed system is one of these.

What is wrong is data too: an error carries `Problem`s, and a warning is one. A problem has a code, a place
and a fix. Only `tell` turns it into a sentence, for the command line, a YAML file or a Python program.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal

from autoprompt.brief import brief

Source = Literal["flag", "set", "variable", "file", "sidecar", "python"]


class Voice(Enum):
    """Who reads a message: someone at the command line, in a YAML file, or in a Python program."""

    CLI = "cli"
    YAML = "yaml"
    PYTHON = "python"


@dataclass(frozen=True, slots=True)
class Place:
    """Where a problem is. Every part may be missing.

    Args:
        file: None for rows and settings that a Python program gives.
        line: 1-based.
        row: 0-based index of the record, if lines do not tell records apart (Python, Parquet, a JSON list).
        setting: Its name, such as `max_val`; dotted for a part: `executor.jobs`. If a variable gave it, the
            name of the variable.
        source: What gave the setting; "set" is `--set NAME=VALUE`.
    """

    file: Path | None = None
    line: int | None = None
    row: int | None = None
    setting: str | None = None
    source: Source = "python"

    __repr__ = brief

    def __str__(self) -> str:
        return _place(self, Voice.PYTHON)

    @property
    def is_yaml(self) -> bool:
        """Whether a YAML file gave the setting."""
        return self.source in ("file", "sidecar")


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong, as an error, or that a user should know, as a warning.

    Args:
        code: A stable dotted name, such as `dataset.empty-target`. docs/reference/errors.md lists them all.
        said: What is wrong, without the place, the names of flags and the full stop.
        place: Where it is.
        fix: What to do, in whole sentences. `{max_val}` stands for the setting of that name in `settings`.
        settings: Settings that `fix` names, with the value to give them. None only names the setting;
            `<FILE>` is a value that the user has to choose.
        related: Other places that explain this one, such as the row that a duplicate repeats. They take the
            place of `{related}` at the end of `said`; else they stand behind it in parentheses.
        also: Places with the same problem, the first ones.
        more: How many further places have it.

    Examples:
        >>> empty = Problem("dataset.empty-target", "the target is empty", Place(row=5), "Fill it in.")
        >>> print(empty)
        rows[5]: the target is empty. Fill it in.
        >>> few = Problem("x.few", "the limit is low", fix="Set {max_calls}.", settings={"max_calls": 9})
        >>> tell(few, Voice.CLI)
        'the limit is low. Set --max-calls 9.'
    """

    code: str
    said: str
    place: Place = Place()
    fix: str = ""
    settings: Mapping[str, object] = field(default_factory=dict, hash=False)
    related: tuple[Place, ...] = ()
    also: tuple[Place, ...] = ()
    more: int = 0

    __repr__ = brief

    @classmethod
    def plain(cls, text: str) -> Problem:
        """Return a problem that is nothing but its text, in every voice. It has no code."""
        return cls("", text)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any] | str) -> Problem:
        """Return the problem that `to_dict` wrote; a plain one if there is only a text or a message."""
        if isinstance(data, str) or not data.get("code"):
            return cls.plain(data if isinstance(data, str) else str(data["message"]))
        return cls(
            data["code"],
            data["said"],
            _read_place(data),
            data.get("fix", ""),
            data.get("settings", {}),
            tuple(map(_read_place, data.get("related", ()))),
            tuple(map(_read_place, data.get("also", ()))),
            data.get("more", 0),
        )

    def at(self, place: Place) -> Problem:
        """Return the same problem at another place."""
        return replace(self, place=place)

    def to_dict(self, voice: Voice = Voice.PYTHON) -> dict[str, Any]:
        """Return plain JSON: code, message and place, then the parts of the message that there are.

        `fix` keeps its blanks for Python, so that it can be told in another voice later.
        """
        place = self.place
        fix = self.fix if voice is Voice.PYTHON else _fix(self, voice)
        more = {
            "said": self.said,
            "fix": fix,
            "settings": {name: _plain(value) for name, value in self.settings.items()},
            "related": [_write_place(other) for other in self.related],
            "also": [_write_place(other) for other in self.also],
            "more": self.more,
        }
        parts = {name: value for name, value in more.items() if value} if self.code else {}
        return {"code": self.code or None, "message": tell(self, voice), **_write_place(place), **parts}

    def __str__(self) -> str:
        return tell(self, Voice.PYTHON)


def tell(problems: Problem | Iterable[Problem], voice: Voice) -> str:
    """Return the message of one problem, or the lines of several, in words that `voice` knows.

    A setting is `--max-calls 578` for the CLI, `max_calls: 578` in YAML and `max_calls=578` in Python. One
    that has no flag of its own is `--set max_val=40` for the CLI.
    A problem of a YAML file has the words of YAML for everyone.
    """
    if isinstance(problems, Problem):
        return _tell(problems, voice)
    return "\n".join(_tell(problem, voice) for problem in problems)


def flag_name(setting: str) -> str:
    """Return the flag of a setting: `max_calls` -> `--max-calls`."""
    return _FLAGS.get(setting, "--" + setting.replace("_", "-"))


def arguments(setting: str, value: object, *, has_flag: bool | None = None) -> list[str]:
    """Return the words that give a setting on the command line.

    Args:
        setting: Its name.
        value: None only names the setting; `<FILE>` is a value that the user has to choose.
        has_flag: Whether the command has a flag for it. None: as `run` has.

    Examples:
        >>> arguments("max_calls", 578), arguments("max_val", 40), arguments("no_cache", True)
        (['--max-calls', '578'], ['--set', 'max_val=40'], ['--no-cache'])
    """
    if not (setting not in SET_ONLY if has_flag is None else has_flag):
        return _assigned(setting, value)
    flag, blank = flag_name(setting), _blank(value)
    if value is None or value is True:
        return [flag]
    if isinstance(value, Mapping):
        return [word for key, part in value.items() for word in (flag, f"{key}={part}")]
    if isinstance(value, list | tuple) and setting not in AT_COMMAS:
        return [word for part in value for word in (flag, str(part))]
    return [flag, blank or _joined(value)]


def _assigned(setting: str, value: object) -> list[str]:
    """Return `--set NAME=VALUE`, with a value as YAML has it."""
    if isinstance(value, Mapping):
        pairs = ((f"{setting}.{key}", part) for key, part in value.items())
        return [word for name, part in pairs for word in _assigned(name, part)]
    if value is None:
        return ["--set", f"{setting}=VALUE"]
    is_plain = isinstance(value, str) and value[:1] not in ("'", '"')
    is_list = isinstance(value, list | tuple) and setting not in AT_COMMAS
    text = _yaml(value) if isinstance(value, bool) or is_list or not is_plain else _joined(value)
    return ["--set", f"{setting}={_blank(value) or text}"]


def command(*words: str, **options: object) -> str:
    """Return a command of autoprompt as a message names it, in whatever voice.

    Args:
        words: The command and its arguments.
        options: Flags with their values; `from_` is `--from`, which is a word of Python.

    Examples:
        >>> command("runs export", "RUN", to="prompt.yaml")
        'autoprompt runs export RUN --to prompt.yaml'
    """
    given = [word for name, value in options.items() for word in (flag_name(name.rstrip("_")), str(value))]
    return " ".join(["autoprompt", *words, *given])


def variable_name(setting: str) -> str:
    """Return the environment variable of a setting: `max_calls` -> `AUTOPROMPT_MAX_CALLS`."""
    return f"{VARIABLE_PREFIX}{setting.upper()}"


VARIABLE_PREFIX = "AUTOPROMPT_"
_FLAGS = {"metric_options": "--metric-option", "inputs": "--input", "exported": "--from"}
# Settings without a flag in `run`: `--set NAME=VALUE` gives them. Another command may have a flag for one, as
# `science` has --max-iterations: a message repeats what the user typed.
SET_ONLY = frozenset(
    (
        *(
            "program_changed_ok",
            "optimizer_base_url",
            "judge_model",
            "judge_base_url",
            "optimizer_max_output_tokens",
            "judge_max_output_tokens",
        ),
        *("timeout", "rpm", "tpm", "constrain", "transport", "reasoning_effort", "traits", "context_tokens"),
        *("price_input", "price_output", "price_cached_input", "traffic", "cache_dir"),
        *("allow_conflicts", "max_dataset_mb", "drop_leaks", "split_seed", "max_val", "max_test"),
        *("no_test", "target_output", "mocks", "allow_private_hosts", "group_field", "name"),
        *("temperature", "no_reasoning", "max_iterations", "max_prompt_tokens", "task", "memory_file"),
        *("analyst", "sandbox", "tags", "notes"),
    )
)
TRUST = "trust"  # in a fix: the line that trusts the folder which is its value
UPDATE_BASELINE = "update_baseline"  # in a fix: a flag, which is two calls in Python
AT_COMMAS = ("labels", "allow_private_hosts", "tags")  # one text is a whole list; other flags are repeated
_BLANK = re.compile(r"<([A-Z@|_,.=\[\]]+)>")
_BARE_WORD = re.compile(r"[\w./:@%+=-]+")
_ENDS = (".", "?", "!", "…", ":")
_RELATED = "{related}"


def _tell(problem: Problem, voice: Voice) -> str:
    if not problem.code:
        return problem.said
    said = problem.said
    if problem.related:
        related = _places(problem.related, problem.place, voice)
        said = f"{said.removesuffix(_RELATED)}{related}" if said.endswith(_RELATED) else f"{said} ({related})"
    if place := _place(problem.place, voice):
        said = f"{place}: {said}"
    text = said if said.endswith(_ENDS) else f"{said}."
    if problem.fix:
        text += f" {_fix(problem, voice)}"
    if problem.also:
        more = f" and {problem.more} more" if problem.more else ""
        text += f"\n  likewise {_places(problem.also, problem.place, voice)}{more}"
    return text


def _fix(problem: Problem, voice: Voice) -> str:
    """Return the fix with its settings. A file is fixed in its own words, except a baseline or for trust."""
    is_outside = problem.code.startswith("trust.") or UPDATE_BASELINE in problem.settings
    is_inside = problem.place.is_yaml and not is_outside
    return _filled(problem, Voice.YAML if is_inside else voice)


def _place(place: Place, voice: Voice) -> str:
    if place.file is None and place.row is not None:
        at = f"rows[{place.row}]"
    else:
        file = "" if place.file is None else str(place.file)
        line = "" if place.line is None else f"line {place.line}"
        row = "" if place.row is None else f"row {place.row + 1}"
        at = " ".join(filter(None, [file, line, row]))
    return ": ".join(filter(None, [at, _setting_at(place, voice)]))


def _setting_at(place: Place, voice: Voice) -> str:
    if place.setting is None:
        return ""
    name, _, part = place.setting.partition(".")
    if place.source == "variable":
        return f"{name} {part}".rstrip()
    if voice is not Voice.CLI or place.is_yaml:
        return place.setting
    if place.source == "set" or (place.source == "python" and name in SET_ONLY):
        return f"--set {place.setting}"
    return f"{flag_name(name)} {part}".rstrip()


def _places(places: Sequence[Place], beside: Place, voice: Voice) -> str:
    """Return a list of places; a file is not named again by the next one."""
    parts, file = [], beside.file
    for place in places:
        is_same = place.file == file and (place.line is not None or place.row is not None)
        parts.append(_place(place, voice).removeprefix(f"{place.file} " if is_same else ""))
        file = place.file
    return ", ".join(parts)


def _filled(problem: Problem, voice: Voice) -> str:
    """Replace `{max_val}`, of the settings alone: other braces are a prompt's."""
    settings, place = problem.settings, problem.place

    def fill(found: re.Match[str]) -> str:
        name = found[1]
        return _setting(name, settings[name], voice, place) if name in settings else found[0]

    return re.sub(r"\{(\w+)\}", fill, problem.fix)


def _setting(name: str, value: object, voice: Voice, place: Place) -> str:
    """Return a setting as a fix names it: one that was given, in the form in which it was given."""
    if name == TRUST:
        return _trust(str(value), voice)
    given = (place.setting or "").partition(".")[0]
    if place.source == "variable" and (given == variable_name(name) or name in SET_ONLY):
        return _variable(name, value)
    has_flag = place.source == "flag" if given == name and place.source in ("flag", "set") else None
    blank = _blank(value)
    match voice:
        case Voice.PYTHON if name == UPDATE_BASELINE:
            return "check(is_update=True) and write_baseline"
        case Voice.CLI:
            flag, *words = arguments(name, value, has_flag=has_flag)
            # A choice such as TEXT|@FILE is for the reader: the shell does not see it.
            return " ".join([flag, *(word if blank else _shell_word(word) for word in words)])
        case _ if value is None:
            return name
        case Voice.YAML:
            return f"{name}: {blank or _yaml(value)}"
        case Voice.PYTHON if name == "from":
            run, _, candidate = str(value).partition(":")
            opened = f"Run.open({'…' if blank else repr(run)})"
            return f"{opened}.candidate({candidate!r})" if candidate else f"{opened}.best"
        case Voice.PYTHON:
            return f"{name}={'…' if blank else _python(value)}"


def _variable(setting: str, value: object) -> str:
    """Return the variable of a setting with its value; None only names it."""
    if value is None:
        return variable_name(setting)
    if isinstance(value, Mapping):
        value = [f"{name}={part}" for name, part in value.items()]
    text = str(value).lower() if isinstance(value, bool) else _joined(value)
    return f"{variable_name(setting)}={_blank(value) or _shell_word(text)}"


def _blank(value: object) -> str:
    """Return the name of a value that the user has to choose; "" for a value."""
    found = _BLANK.fullmatch(value) if isinstance(value, str) else None
    return found[1] if found else ""


def _trust(folder: str, voice: Voice) -> str:
    """Return the line that trusts a folder."""
    if voice is Voice.PYTHON:
        return f"call autoprompt.trust({folder!r})"
    return f"run `autoprompt trust {_shell_word(folder)}`, or add --trust to this command"


def _joined(value: object) -> str:
    if isinstance(value, list | tuple):
        return ",".join(map(str, value))
    return f"{value:.10g}" if isinstance(value, float) else str(value)


def _shell_word(text: str) -> str:
    if _BARE_WORD.fullmatch(text):
        return text
    # Double quotes, which every shell knows, if nothing in the text means something between them.
    return shlex.quote(text) if set(text) & set('"\\$`!') else f'"{text}"'


def _yaml(value: object) -> str:
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_yaml, value))}]"
    if isinstance(value, str) and re.fullmatch(r"[^\W\d][\w-]*", value):
        return json.dumps(value) if value.lower() in ("true", "false", "null") else value
    return json.dumps(_plain(value), ensure_ascii=False)


def _python(value: object) -> str:
    value = _plain(value)
    return f"{value:.10g}" if isinstance(value, float) else repr(value)


def _plain(value: object) -> Any:
    """Return a value as JSON has it."""
    if isinstance(value, list | tuple):
        return [_plain(part) for part in value]
    if isinstance(value, Mapping):
        return {str(name): _plain(part) for name, part in value.items()}
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)


def _write_place(place: Place) -> dict[str, Any]:
    file = None if place.file is None else str(place.file)
    data = {"file": file, "line": place.line, "row": place.row, "setting": place.setting}
    return data if place.source == "python" else {**data, "source": place.source}


def _read_place(data: Mapping[str, Any]) -> Place:
    file = None if data["file"] is None else Path(data["file"])
    return Place(file, data["line"], data["row"], data["setting"], data.get("source", "python"))


class AutopromptError(Exception):
    """Base of all errors raised on purpose: `DatasetError(Problem(...), ...)`, or `DatasetError("text")`.

    Attributes:
        problems: What is wrong, one entry for each message; a text is a plain one. `str` of the error tells
            them to a Python program.
        exit_code: What the command line returns for it.

    Examples:
        >>> from autoprompt import AutopromptError, RunConfig, evaluate
        >>> try:
        ...     report = evaluate(RunConfig(prompt="A or B?"), rows=[])
        ... except AutopromptError as error:
        ...     code, exit_code = error.problems[0].code, error.exit_code
        >>> code, exit_code
        ('dataset.no-rows', 3)
    """

    exit_code = 70

    def __init__(self, *problems: Problem | str) -> None:
        super().__init__(*problems)
        self.problems: tuple[Problem, ...] = tuple(
            one if isinstance(one, Problem) else Problem.plain(str(one)) for one in problems
        )

    def message(self, voice: Voice) -> str:
        """Return what is wrong, one line for each problem.

        Args:
            voice: How settings are named: as the command line, Python or YAML names them.
        """
        return tell(self.problems, voice)

    def __str__(self) -> str:
        return self.message(Voice.PYTHON)


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
    `key`: that the journal has the failure under.
    """

    exit_code = 4
    attempts = 0
    key = ""
    usage: Mapping[str, Any] = MappingProxyType({})


class EndpointError(ModelError):
    """No usable answer. `status`: the HTTP status, None where none came.

    `retry_after_s`: what the endpoint asked for, None where it did not.
    `is_fatal`: the endpoint is gone, not one request; the run ends instead of counting failed rows.
    """

    def __init__(
        self,
        message: Problem | str,
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
    """The endpoint understood the request and will not take it.

    `parameter`: the option it named, if any. `most_tokens`, `window_tokens`: how long the answer to this
    request may be, and the window of the model, if the endpoint refused the limit of the answer's length.
    """

    def __init__(
        self,
        message: Problem | str,
        *,
        status: int | None = None,
        parameter: str | None = None,
        most_tokens: int | None = None,
        window_tokens: int | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.parameter = parameter
        self.most_tokens, self.window_tokens = most_tokens, window_tokens


class ContextOverflowError(RequestRefusedError):
    """The request is longer than the model's window: a shorter one may be taken."""


class WithheldError(RequestRefusedError):
    """A content filter refused what the request says: another request may be taken."""


class RuntimeMissingError(ModelError):
    pass


class BudgetExhausted(AutopromptError):
    """A cap is reached. Never shown as an error: the run goes to its final step with the best so far.

    `cap`: the name of the setting that was reached, e.g. "max_calls". `needed`: what was kept back for later,
    and what was asked for on top of what was used; None where the cap is not the run's own. `calls`: requests
    that were sent before, where the raiser knows it.
    """

    exit_code = 0
    calls = 0

    def __init__(self, cap: str, message: str = "", needed: tuple[float, float] | None = None) -> None:
        super().__init__(message or f"{cap} reached")
        self.cap = cap
        self.needed = needed


class Interrupted(AutopromptError):
    exit_code = 130
