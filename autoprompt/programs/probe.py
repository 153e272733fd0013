"""Try a program on a few rows before anything is searched: its texts, and what would make a run wrong.

Two rows run twice: what differs between two runs of one row changes by itself. Further rows show more of the
program's branches. The answers are kept like all others, so the search does not ask for them again.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from autoprompt.errors import ConfigError, InputError, Place, Problem
from autoprompt.measure.task import Component
from autoprompt.programs import hooks
from autoprompt.programs.calling import Caller
from autoprompt.programs.finding import find_components
from autoprompt.programs.places import NOWHERE
from autoprompt.programs.placing import Placed
from autoprompt.programs.prompts import Prompt, active, declared
from autoprompt.programs.scope import RowEnded, RowScope, Seen, current_row
from autoprompt.records import Example

TWICE = 2  # rows that run twice
MOST_ROWS = 8  # rows that are looked at
_SHOWN = 80  # characters of a text that differs
_FEWEST_LEAKED = 8  # characters: a shorter text may be in a request by chance


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
    address: str,
    place: Place,
) -> ProgramView:
    """Run a few rows, and return what they show.

    Args:
        scope: Makes the scope of a row.
        rows: Of train; those with different targets are taken first.
        fields: What of a row may be in a request, by name.
        address: The program's, for messages.
        place: Where the program is defined.

    Raises:
        InputError: For what would make the run wrong: prompts that are in no request, calls that belong to no
            row, rows that see each other's texts, tools that write, no model call at all.
    """
    chosen = _different(rows)
    if not chosen:
        raise ConfigError(Problem("program.no-rows", f"{address}: no row to try the program with"))
    runs: list[_Seen] = []
    tools: set[str] = set()
    with hooks.installed():
        before = len(hooks.unattributed)
        for example in [*chosen[:TWICE], *chosen[:TWICE], *chosen[TWICE:]]:
            one = scope(example)
            try:
                runs.append(_run(caller, one, example, address, place))
            except ConfigError:
                if len(hooks.unattributed) == before:
                    raise
            if len(hooks.unattributed) > before:
                raise _unattributed(hooks.unattributed[before])
            tools |= one.tool_names
    first, again = runs[:TWICE], runs[TWICE : 2 * TWICE]
    once = [*first, *runs[2 * TWICE :]]
    used = {name for run in runs for name in run.uses}
    prompts = {name: prompt for name, prompt in declared().items() if name in used}
    unused = [prompt for name, prompt in declared().items() if name not in used]
    for prompt in unused:
        if prompt.read_at is not None:
            raise _frozen(prompt, prompt.read_at)
    if not any(run.calls for run in runs):
        said = f"{address} made no call to a model that can be seen"
        fix = "It must ask a model through an SDK on httpx, or through LangChain."
        raise ConfigError(Problem("program.no-calls", said, place, fix))
    _check_leaks(once, fields, place)
    placed = find_components([(fields(run.example), run.requests) for run in once])
    texts = {name: prompt.original for name, prompt in prompts.items()}
    own = [p for p in placed if not any(text in p.original for text in texts.values() if text)]
    if not own and not prompts:
        said = f"no text is the same in the requests of several rows of {address}"
        shown = next((part.text for run in once for seen in run.requests for part in seen.parts), "")
        fix = "Declare the prompt as `autoprompt.Prompt`."
        raise ConfigError(
            Problem("program.no-components", f"{said}; one request says {shown[:_SHOWN]!r}", place, fix)
        )
    calls = [run.calls for run in once]
    return ProgramView(
        placed=tuple(own),
        prompts=texts,
        mean_calls=sum(calls) / len(calls),
        most_calls=max(calls),
        sites=tuple(dict.fromkeys(seen.site for run in once for seen in run.requests)),
        tools=tuple(sorted(tools)),
        models=tuple(dict.fromkeys(seen.model for run in once for seen in run.requests if seen.model)),
        warnings=(*_unstable(first[: len(again)], again, place), *map(_unread, unused)),
    )


def _unattributed(place: Place) -> ConfigError:
    said = "a call to a model belongs to no row: it was made in a thread that began before the row did"
    fix = "Make calls in the row's own thread or task, or submit them to a ThreadPoolExecutor."
    return ConfigError(Problem("program.unattributed", said, place, fix))


def _frozen(prompt: Prompt, read_at: Place) -> ConfigError:
    said = f"the prompt {prompt.name!r} is read here once, and no request of a row reads it again"
    fix = "Read it where it is sent, as `prompt.text`."
    return ConfigError(Problem("program.unused-prompt", said, read_at, fix))


def _unread(prompt: Prompt) -> Problem:
    said = f"no row that was tried reads the prompt {prompt.name!r}, so it stays as it is"
    return Problem("program.unread-prompt", said, prompt.place, "Add rows that reach it, or remove it.")


def _run(caller: Caller, scope: RowScope, example: Example, address: str, place: Place) -> _Seen:
    token = current_row.set(scope)
    try:
        with active({}) as uses:
            scope.uses = uses
            value = caller.run(example)
        caller.output(value)
    except RowEnded:
        pass
    except InputError as error:
        # What no call has asked for is known by its place alone.
        if scope.fatal is None:
            raise type(error)(*(p if p.place != NOWHERE else p.at(place) for p in error.problems)) from error
    except Exception as error:
        if scope.fatal is None and scope.lost is None:
            raise _failed(error, example, address) from error
    finally:
        scope.is_over = True
        current_row.reset(token)
    if scope.fatal is not None:
        raise scope.fatal
    if scope.lost is not None:
        raise scope.lost
    return _Seen(example, tuple(scope.seen), tuple(name for name, _ in uses), scope.calls)


def _failed(error: Exception, example: Example, address: str) -> ConfigError:
    import traceback

    frames = traceback.extract_tb(error.__traceback__)
    own = [
        frame
        for frame in frames
        if "site-packages" not in frame.filename and "autoprompt" not in frame.filename
    ]
    place = Place(Path(own[-1].filename), own[-1].lineno) if own else Place()
    said = f"{address} failed on {example.name}: {type(error).__name__}: {error}"
    return ConfigError(Problem("program.failed", said, place, "Run it on this row by itself, and fix it."))


def _different(rows: Sequence[Example]) -> list[Example]:
    """Rows with different targets first, in their order."""
    seen: set[str] = set()
    firsts = [row for row in rows if not (row.target_text in seen or seen.add(row.target_text))]  # type: ignore[func-returns-value]
    others = [row for row in rows if row not in firsts[:MOST_ROWS]]
    return [*firsts[:MOST_ROWS], *others][:MOST_ROWS]


def _unstable(first: Sequence[_Seen], again: Sequence[_Seen], place: Place) -> list[Problem]:
    """Warn of a text that differs between two runs of one row."""
    for one, other in zip(first, again, strict=True):
        for a, b in zip(one.requests, other.requests, strict=False):
            for mine, theirs in zip(a.parts, b.parts, strict=False):
                if mine.text != theirs.text:
                    how = _difference(mine.text, theirs.text)
                    said = f"a request of {a.site} changes by itself: {how}"
                    fix = "Take out what changes (a clock, a random id); else answers are never found again."
                    where = place if a.place == NOWHERE else a.place
                    return [Problem("program.unstable", said, where, fix)]
    return []


def _difference(one: str, other: str) -> str:
    """Quote the words of two texts from the first that differs to the last, with a few around them."""
    mine, theirs = one.split(), other.split()
    ops = difflib.SequenceMatcher(None, mine, theirs, autojunk=False).get_opcodes()
    differing = [op for op in ops if op[0] != "equal"]
    if not differing:
        return "only in its spaces"
    (_, a, _, c, _), (_, _, b, _, d) = differing[0], differing[-1]
    first, second = (" ".join(w[max(0, i - 3) : j + 2]) for w, i, j in ((mine, a, b), (theirs, c, d)))
    return f"{first[:_SHOWN]!r}, then {second[:_SHOWN]!r}"


def _check_leaks(runs: Sequence[_Seen], fields: Callable[[Example], Mapping[str, str]], place: Place) -> None:
    """Raise InputError if a row's request holds the text of an earlier row.

    A text may also be in the program itself, as a demonstration. Then the earlier row's own request holds it
    once more than it holds any text of a row, and the same is no leak in a later one.
    """
    for n, run in enumerate(runs):
        own = " ".join(fields(run.example).values())
        for earlier in runs[:n]:
            text = max(fields(earlier.example).values(), key=len, default="")
            if len(text) < _FEWEST_LEAKED or text in own:
                continue
            for seen in run.requests:
                if _holds(seen, text) > max(0, _most_held(earlier, seen.site, text) - 1):
                    said = (
                        f"the request of {seen.site} for one row holds the text of another: {text[:_SHOWN]!r}"
                    )
                    fix = "Give each row a state of its own, such as a new thread_id for the checkpointer."
                    raise ConfigError(Problem("program.state-leak", said, place, fix))


def _holds(seen: Seen, text: str) -> int:
    return sum(part.text.count(text) for part in seen.parts)


def _most_held(run: _Seen, site: str, text: str) -> int:
    return max((_holds(seen, text) for seen in run.requests if seen.site == site), default=0)
