"""Try a program on a few rows before anything is searched: its texts, and what would make a run wrong.

Two rows run twice: what differs between two runs of one row changes by itself. Further rows show more of the
program's branches. The answers are kept like all others, so the search does not ask for them again.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from autoprompt.errors import ConfigError, InputError, Place, Problem
from autoprompt.measure.task import Component
from autoprompt.programs import hooks
from autoprompt.programs.calling import Caller
from autoprompt.programs.finding import find_components
from autoprompt.programs.placing import Placed
from autoprompt.programs.prompts import active, declared
from autoprompt.programs.scope import RowEnded, RowScope, Seen, current_row
from autoprompt.programs.tools import writing_tools
from autoprompt.records import Example

TWICE = 2  # rows that run twice
MOST_ROWS = 8  # rows that are looked at
_SHOWN = 80  # characters of a text that differs


@dataclass(frozen=True, slots=True)
class ProgramView:
    """What a few rows show of a program.

    prompts: name -> text of those that it declares. most_calls, mean_calls: of a row, to models.
    """

    placed: tuple[Placed, ...]
    prompts: Mapping[str, str]
    mean_calls: float
    most_calls: int
    sites: tuple[str, ...]
    tools: tuple[str, ...]
    models: tuple[str, ...]
    warnings: tuple[Problem, ...] = ()

    @property
    def components(self) -> tuple[Component, ...]:
        """The declared prompts, then the texts that were found, in the order in which a row meets them."""
        own = [Component(name, "instruction", text) for name, text in self.prompts.items()]
        return (*own, *(Component(p.name, p.kind, p.original) for p in self.placed))

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON, as `program show --json` prints it and the run's folder keeps it."""
        return {
            **{name: getattr(self, name) for name in ("mean_calls", "most_calls")},
            **{name: list(getattr(self, name)) for name in ("sites", "tools", "models")},
            "prompts": dict(self.prompts),
            "placed": [asdict(placed) for placed in self.placed],
            "warnings": [warning.to_dict() for warning in self.warnings],
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> ProgramView:
        return cls(
            placed=tuple(Placed(**record) for record in data["placed"]),
            prompts=data["prompts"],
            mean_calls=data["mean_calls"],
            most_calls=data["most_calls"],
            sites=tuple(data["sites"]),
            tools=tuple(data["tools"]),
            models=tuple(data["models"]),
            warnings=tuple(Problem.from_dict(record) for record in data["warnings"]),
        )


@dataclass(frozen=True, slots=True)
class _Seen:
    """One run of a row."""

    example: Example
    requests: tuple[Seen, ...]
    uses: tuple[str, ...]
    calls: int


def probe(
    caller: Caller,
    scope: Callable[[Example], RowScope],
    rows: Sequence[Example],
    *,
    fields: Callable[[Example], Mapping[str, str]],
    place: str,
    allow_effects: bool = False,
    ignores: bool = False,
) -> ProgramView:
    """Run a few rows, and return what they show.

    Args:
        scope: Makes the scope of a row.
        rows: Of train; those with different targets are taken first.
        fields: What of a row may stand in a request, by name.
        place: The program's address, for messages.

    Raises:
        InputError: For what would make the run wrong: prompts that are in no request, calls that belong to no
            row, rows that see each other's texts, tools that write, no model call at all.
    """
    chosen = _different(rows)
    if not chosen:
        raise ConfigError(Problem("program.no-rows", f"{place}: no row to try the program with"))
    runs: list[_Seen] = []
    tools: set[str] = set()
    unattributed: list[str] = []
    with hooks.installed():
        before = len(hooks.unattributed)
        for example in [*chosen[:TWICE], *chosen[:TWICE], *chosen[TWICE:]]:
            one = scope(example)
            one.allow_effects = allow_effects
            runs.append(_run(caller, one, example, place))
            tools |= one.tools.names
        unattributed = hooks.unattributed[before:]
    if unattributed:
        said = f"{place}: a model call belongs to no row ({unattributed[0]})"
        fix = "Make calls in the row's own thread, task or thread pool."
        raise ConfigError(Problem("program.unattributed", said, fix=fix))
    if not any(run.calls for run in runs):
        fix = "It must ask a model through an SDK on httpx, or through LangChain."
        raise ConfigError(Problem("program.no-calls", f"{place}: no call to a model was seen", fix=fix))
    if not allow_effects and (writing := writing_tools(tools, scope(chosen[0]).tools.stubs)):
        said = f"{place}: the tool {writing[0]!r} seems to change something outside of the program"
        fix = "Allow it with {allow_effects}, or give a stub with {tools}."
        raise ConfigError(
            Problem("program.effects", said, fix=fix, settings={"allow_effects": True, "tools": "<FILE.py>"})
        )
    first, again = runs[:TWICE], runs[TWICE : 2 * TWICE]
    once = [*first, *runs[2 * TWICE :]]
    warnings = [] if ignores else _unstable(first[: len(again)], again, place)
    _check_leaks(once, fields, place)
    placed = find_components([(fields(run.example), run.requests) for run in once])
    prompts = {name: prompt.original for name, prompt in declared().items()}
    used = {name for run in runs for name in run.uses}
    if missing := [name for name in prompts if name not in used]:
        said = f"{place}: the prompt {missing[0]!r} is in no request"
        fix = (
            "Read it where it is sent, as `prompt.text`; a text that is read once, at import, never changes."
        )
        raise ConfigError(Problem("program.unused-prompt", said, fix=fix))
    own = [p for p in placed if not any(text in p.original for text in prompts.values() if text)]
    if not own and not prompts:
        said = f"{place}: no text is the same in the requests of several rows"
        shown = next((part.text for run in once for seen in run.requests for part in seen.parts), "")
        raise ConfigError(Problem("program.no-components", f"{said}; one request says {shown[:_SHOWN]!r}"))
    calls = [run.calls for run in once]
    return ProgramView(
        placed=tuple(own),
        prompts=prompts,
        mean_calls=sum(calls) / len(calls),
        most_calls=max(calls),
        sites=tuple(dict.fromkeys(seen.site for run in once for seen in run.requests)),
        tools=tuple(sorted(tools)),
        models=tuple(dict.fromkeys(seen.model for run in once for seen in run.requests if seen.model)),
        warnings=tuple(warnings),
    )


def _run(caller: Caller, scope: RowScope, example: Example, place: str) -> _Seen:
    token = current_row.set(scope)
    try:
        with active({}) as uses:
            scope.uses = uses
            value = caller.run(example)
        caller.output(value)
    except RowEnded:
        pass
    except InputError:
        raise
    except Exception as error:
        if scope.fatal is None and scope.lost is None:
            raise _failed(error, example, place) from error
    finally:
        scope.is_over = True
        current_row.reset(token)
    if scope.fatal is not None:
        raise scope.fatal
    if scope.lost is not None:
        raise scope.lost
    return _Seen(example, tuple(scope.seen), tuple(name for name, _ in uses), scope.calls)


def _failed(error: Exception, example: Example, place: str) -> ConfigError:
    import traceback

    frames = traceback.extract_tb(error.__traceback__)
    own = [
        frame
        for frame in frames
        if "site-packages" not in frame.filename and "autoprompt" not in frame.filename
    ]
    where = f" ({own[-1].filename} line {own[-1].lineno})" if own else ""
    said = f"{place} failed on {example.name}: {type(error).__name__}: {error}{where}"
    return ConfigError(Problem("program.failed", said, fix="Run it on this row by itself, and fix it."))


def _different(rows: Sequence[Example]) -> list[Example]:
    """Rows with different targets first, in their order."""
    seen: set[str] = set()
    firsts = [row for row in rows if not (row.target_text in seen or seen.add(row.target_text))]  # type: ignore[func-returns-value]
    others = [row for row in rows if row not in firsts[:MOST_ROWS]]
    return [*firsts[:MOST_ROWS], *others][:MOST_ROWS]


def _unstable(first: Sequence[_Seen], again: Sequence[_Seen], place: str) -> list[Problem]:
    """Warn of a text that differs between two runs of one row, unless an earlier answer explains it."""
    for one, other in zip(first, again, strict=True):
        for a, b in zip(one.requests, other.requests, strict=False):
            for mine, theirs in zip(a.parts, b.parts, strict=False):
                if mine.text != theirs.text:
                    how = _difference(mine.text, theirs.text)
                    said = f"{place}: a request of {a.site} changes by itself: {how}"
                    fix = "Take out what changes (a clock, a random id); else answers are never found again."
                    return [Problem("program.unstable", said, Place(), fix)]
    return []


def _difference(one: str, other: str) -> str:
    matcher = difflib.SequenceMatcher(None, one, other, autojunk=False)
    _, a, b, c, d = next(op for op in matcher.get_opcodes() if op[0] != "equal")
    return f"{one[max(0, a - 20) : b + 10]!r}, then {other[max(0, c - 20) : d + 10]!r}"[: 3 * _SHOWN]


def _check_leaks(runs: Sequence[_Seen], fields: Callable[[Example], Mapping[str, str]], place: str) -> None:
    """Raise InputError if a row's request holds the text of an earlier row."""
    texts = [max(fields(run.example).values(), key=len, default="") for run in runs]
    for n, run in enumerate(runs):
        for other in range(n):
            leaked = texts[other]
            if len(leaked) < 8 or leaked in texts[n]:
                continue
            for seen in run.requests:
                if any(leaked in part.text for part in seen.parts):
                    said = f"{place}: the request of {seen.site} for one row holds the text of another row"
                    fix = "Give each row a state of its own, such as a thread_id for its checkpointer."
                    raise ConfigError(Problem("program.state-leak", said, fix=fix))
