"""Try a program on a few rows before anything is searched: its texts, and what would make a run wrong.

Two rows run twice: what differs between two runs of one row changes by itself. Further rows show more of the
program's branches. The answers are kept like all others, so the search does not ask for them again.
"""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from autoprompt.brief import brief
from autoprompt.errors import AutopromptError, ConfigError, InputError, Place, Problem
from autoprompt.measure.task import Component
from autoprompt.programs import hooks
from autoprompt.programs.calling import Caller, key_advice
from autoprompt.programs.finding import Source, alike, find_components
from autoprompt.programs.places import NOWHERE, place_of_error
from autoprompt.programs.placing import Placed, placed_texts
from autoprompt.programs.prompts import Prompt, active, declared
from autoprompt.programs.scope import SEEN_CALLS, RowEnded, RowScope, Seen
from autoprompt.programs.winner import Winner, difference, misplaced, other_text
from autoprompt.records import Example, Step, Usage
from autoprompt.text.names import listed

TWICE = 2  # rows that run twice
MOST_ROWS = 8  # rows that are looked at
_FEWEST_SPREAD = 3  # rows that show how much rows differ
_SHARE = 10  # a trial takes at most about the tenth part of a limit on calls, once two rows have run twice
_SHOWN = 80  # characters of a text that differs
OnRow = Callable[[int, int], None]
_FEWEST_LEAKED = 8  # characters: a shorter text may be in a request by chance


@dataclass(frozen=True, slots=True)
class Site:
    """Where a program calls a model."""

    name: str
    """Node of the graph, or function."""
    file: str = ""
    """File of the call; empty if unknown."""
    line: int | None = None
    """Line of the call, from 1; null if unknown."""
    models: tuple[str, ...] = ()
    """Models that were asked there."""

    __repr__ = brief

    @property
    def place(self) -> str:
        return f"{self.file}:{self.line}" if self.line is not None else self.file


@dataclass(frozen=True, slots=True)
class ProgramView:
    """What a few rows show of a program.

    prompts: name -> text of those that it declares. calls: to models, of each row that was looked at.
    usage: of these rows, each once. call_s: seconds of a call, on average. tools: those that a model is
    offered, or that ran. trace: of the first row.
    """

    placed: tuple[Placed, ...]
    prompts: Mapping[str, str]
    calls: tuple[int, ...]
    sites: tuple[Site, ...]
    tools: tuple[str, ...]
    usage: Usage = Usage()
    call_s: float = 0.0
    trace: tuple[Step, ...] = ()
    warnings: tuple[Problem, ...] = ()

    __repr__ = brief

    @property
    def rows(self) -> int:
        return len(self.calls)

    @property
    def mean_calls(self) -> float:
        return statistics.fmean(self.calls)

    @property
    def most_calls(self) -> int:
        return max(self.calls)

    @property
    def planned_calls(self) -> float:
        """Calls to plan with for a row: a standard error above the mean, as few rows were looked at."""
        if self.rows < _FEWEST_SPREAD:
            return self.most_calls
        return round(self.mean_calls + statistics.stdev(self.calls) / math.sqrt(self.rows), 2)

    @property
    def models(self) -> tuple[str, ...]:
        """The models that answered."""
        return tuple(dict.fromkeys(model for site in self.sites for model in site.models))

    @property
    def components(self) -> tuple[Component, ...]:
        """The declared prompts, then the texts that were found, in the order in which a row meets them."""
        own = [Component(name, "instruction", text) for name, text in self.prompts.items()]
        found = {p.name: Component(p.name, p.kind, p.original, tool=p.tool) for p in self.placed}
        return (*own, *found.values())

    def place_of(self, name: str) -> str:
        """Return `file:line` of the call that sends a component; of a declared prompt, of its declaration."""
        if name in self.prompts:
            found = declared().get(name)
            place = NOWHERE if found is None else found.place
            return f"{place.file}:{place.line}" if place.file is not None else ""
        site = next((placed.site for placed in self.placed if placed.name == name), "")
        return next((one.place for one in self.sites if one.name == site), "")

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON, as the run's folder keeps it."""
        return {
            **{name: getattr(self, name) for name in ("mean_calls", "most_calls", "calls")},
            "components": [{**asdict(c), "place": self.place_of(c.name)} for c in self.components],
            "sites": [asdict(site) for site in self.sites],
            "tools": list(self.tools),
            "models": list(self.models),
            "rows": self.rows,
            "usage": self.usage.to_record(),
            "call_s": round(self.call_s, 4),
            "trace": [asdict(step) for step in self.trace],
            "prompts": dict(self.prompts),
            "placed": [asdict(placed) for placed in self.placed],
            "warnings": [warning.to_dict() for warning in self.warnings],
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> ProgramView:
        return cls(
            placed=tuple(Placed(**record) for record in data["placed"]),
            prompts=data["prompts"],
            calls=tuple(data["calls"]),
            sites=tuple(Site(**{**site, "models": tuple(site["models"])}) for site in data["sites"]),
            tools=tuple(data["tools"]),
            usage=Usage.from_record(data["usage"]),
            call_s=data["call_s"],
            trace=tuple(map(Step.from_dict, data["trace"])),
            warnings=tuple(Problem.from_dict(record) for record in data["warnings"]),
        )


@dataclass(frozen=True, slots=True)
class _Seen:
    """One run of a row."""

    example: Example
    requests: tuple[Seen, ...]
    uses: tuple[tuple[str, str], ...]
    calls: int
    usage: Usage = Usage()
    waited_s: float = 0.0
    steps: tuple[Step, ...] = ()
    subprocesses: tuple[Place, ...] = ()
    unseen: tuple[tuple[Place, str], ...] = ()
    unknown: tuple[str, ...] = ()


def probe(
    caller: Caller,
    scope: Callable[[Example], RowScope],
    rows: Sequence[Example],
    *,
    fields: Callable[[Example], Mapping[str, str]],
    source: Source,
    address: str,
    place: Place,
    on_row: OnRow,
    max_calls: int | None = None,
    winner: Winner | None = None,
) -> ProgramView:
    """Run a few rows, and return what they show.

    Args:
        scope: Makes the scope of a row.
        rows: Of train; those with different targets are taken first.
        fields: What of a row may be in a request, by name.
        source: See `find_components`.
        address: The program's, for messages.
        place: Where the program is defined.
        on_row: Called before the first row and after each: how many are done, and of how many.
        max_calls: The limit of the run. A trial leaves most of it to the search, and looks at fewer rows.
        winner: That is scored. Then its texts are the program's, each where a request has the one that was
            optimized: what is measured is what `autoprompt.use` sends.

    Raises:
        InputError: For what would make the run wrong: prompts that are in no request, calls that belong to no
            row, rows that see each other's texts, tools that write, no model call at all.
    """
    chosen = _different(rows)
    if not chosen:
        raise ConfigError(Problem("program.no-rows", f"{address}: no row to try the program with"))
    enough = math.inf if max_calls is None else max_calls / _SHARE
    tried = _try(caller, scope, chosen, address, place, on_row, enough)
    once = [runs[0] for runs in tried.runs]
    pairs = [(runs[0], runs[1]) for runs in tried.runs if len(runs) > 1]
    sent = [part.text for run in once for seen in run.requests for part in seen.parts]
    prompts, unused = _declared_prompts(once, sent)
    if not any(run.calls for run in once):
        said = f"{address} made no call to a model that can be seen"
        if unknown := next((url for run in once for url in run.unknown), ""):
            said += f"; the form of its requests to {unknown} is not known"
        raise ConfigError(Problem("program.no-calls", said, place, SEEN_CALLS))
    _check_leaks(once, fields, place)
    placed = find_components([(fields(run.example), run.requests) for run in once], source)
    texts = {name: prompt.original for name, prompt in prompts.items()}
    own = [p for p in placed if not any(_is_declared(p, run) for run in once)]
    if not own and not prompts:
        said = f"no text of a sentence is the same in the requests of several rows of {address}"
        shown = next(iter(sent), "")
        fix = "Declare the prompt as `autoprompt.Prompt`."
        raise ConfigError(
            Problem("program.no-components", f"{said}; one request says {shown[:_SHOWN]!r}", place, fix)
        )
    misfits = [] if winner is None else _misfits(winner, once, prompts, address, place)
    return ProgramView(
        placed=tuple(own if winner is None else winner.placed),
        prompts=texts,
        calls=tuple(run.calls for run in once),
        sites=_sites(once),
        tools=tuple(sorted(tried.tools | {p.tool.partition(".")[0] for p in placed if p.tool})),
        usage=sum((run.usage for run in once), Usage()),
        call_s=sum(run.waited_s for run in once) / sum(run.calls for run in once),
        trace=once[0].steps,
        warnings=(
            *(problem for error in tried.failures[:1] for problem in error.problems),
            *_unstable(pairs, place),
            *misfits,
            *(_alike(one, other) for one, other in alike(own if winner is None else [], source)),
            *map(_unread, unused),
            *(_unseen(place) for run in once[:1] for place in run.subprocesses[:1]),
            *itertools.islice((_asked_elsewhere(*unseen) for run in once for unseen in run.unseen), 1),
        ),
    )


def _declared_prompts(runs: Sequence[_Seen], sent: Sequence[str]) -> tuple[dict[str, Prompt], list[Prompt]]:
    """Return the declared prompts that rows read, by name, and the others.

    Raises:
        ConfigError: For one of the others whose text is sent: it is read once, at import.
    """
    used = {name for run in runs for name, _ in run.uses}
    unused = [prompt for name, prompt in declared().items() if name not in used]
    for prompt in unused:
        if prompt.read_at is not None and any(prompt.original in text for text in sent):
            raise _frozen(prompt, prompt.read_at)
    return {name: prompt for name, prompt in declared().items() if name in used}, unused


def _is_declared(placed: Placed, run: _Seen) -> bool:
    """Return whether a found text holds what a declared prompt gave to this row, holes filled in."""
    filled = [text for _, text in run.uses if text]
    sent = (part.text for seen in run.requests if seen.site == placed.site for part in seen.parts)
    return any(any(f in text for f in filled) and placed.values(text) is not None for text in sent)


def _sites(runs: Sequence[_Seen]) -> tuple[Site, ...]:
    """Return the call sites of these rows, in the order in which rows meet them."""
    sites: dict[str, list[Seen]] = {}
    for run in runs:
        for seen in run.requests:
            sites.setdefault(seen.site, []).append(seen)
    return tuple(
        Site(
            name,
            str(seen[0].place.file or ""),
            seen[0].place.line,
            tuple(dict.fromkeys(one.model for one in seen if one.model)),
        )
        for name, seen in sites.items()
    )


@dataclass(frozen=True, slots=True)
class _Tried:
    """Rows that were run. runs: of each row that did not fail, in order. tools: names of those that ran."""

    runs: tuple[tuple[_Seen, ...], ...]
    failures: tuple[AutopromptError, ...]
    tools: frozenset[str]


def _try(
    caller: Caller,
    scope: Callable[[Example], RowScope],
    rows: Sequence[Example],
    address: str,
    place: Place,
    on_row: OnRow,
    enough: float,
) -> _Tried:
    """Run the rows, the first `TWICE` of them twice. Raises the first failure if all rows fail.

    enough: calls after which no further row is run, if two rows have shown what they do.
    """
    runs: dict[str, list[_Seen]] = {}
    calls = 0
    failures: list[AutopromptError] = []
    tools: set[str] = set()
    twice = [*rows[:TWICE], *rows]
    repeats = len(twice) - len(rows)
    on_row(0, len(rows))
    with hooks.installed():
        before = len(hooks.unattributed)
        for done, example in enumerate(twice, 1):
            if len(runs) >= TWICE and done > 2 * TWICE and calls >= enough:
                on_row(done - 1 - repeats, done - 1 - repeats)
                break
            one = scope(example)
            try:
                outcome = _run(caller, one, example, address, place)
            except ConfigError:
                if len(hooks.unattributed) == before:
                    raise
            if len(hooks.unattributed) > before:
                raise _unattributed(hooks.unattributed[before])
            if isinstance(outcome, _Seen):
                runs.setdefault(example.id, []).append(outcome)
            else:
                failures.append(outcome)
            tools |= one.tool_names
            calls += one.calls
            on_row(max(0, done - repeats), len(rows))
    if not runs:
        raise failures[0]
    return _Tried(tuple(map(tuple, runs.values())), tuple(failures), frozenset(tools))


def _unattributed(place: Place) -> ConfigError:
    said = "a call to a model belongs to no row: it was made in a thread that began before the row did"
    fix = "Make calls in the row's own thread or task, or submit them to a ThreadPoolExecutor."
    return ConfigError(Problem("program.unattributed", said, place, fix))


def _frozen(prompt: Prompt, read_at: Place) -> ConfigError:
    said = f"the prompt {prompt.name!r} is read only once, here, so its requests cannot get another text"
    fix = "Read `prompt.text` where the prompt is sent."
    return ConfigError(Problem("program.unused-prompt", said, read_at, fix))


def _unread(prompt: Prompt) -> Problem:
    said = f"no tried row reads the prompt {prompt.name!r}, so the run will not change the prompt"
    return Problem("program.unread-prompt", said, prompt.place, "Add rows that use the prompt, or remove it.")


def _misfits(
    winner: Winner, runs: Sequence[_Seen], prompts: Mapping[str, Prompt], address: str, place: Place
) -> list[Problem]:
    """Warn of the winner's texts whose place has another one by now.

    Raises:
        ConfigError: If it has no text of this program.
    """
    fitting: set[str] = set()
    others: dict[str, Place] = {}
    has_place = any(name in prompts for name in winner.texts)
    for seen in (seen for run in runs for seen in run.requests):
        names, _ = placed_texts(seen.site, seen.parts, winner.placed, winner.texts, ())
        fitting.update(names)
        for one in misplaced(winner.placed, winner.texts, seen.site, seen.parts, names):
            others.setdefault(one.name, seen.place)
        has_place = has_place or any(one.site == seen.site for one in winner.placed)
    if not has_place:
        sites = listed(sorted({one.site for one in winner.placed}))
        said = f"no text of the candidate belongs to {address}; its texts belong to {sites}"
        raise ConfigError(Problem("program.other-program", said, place, "Give the export of this program."))
    fix = "Put the text back, or optimize the program again."
    return [
        Problem("program.other-text", other_text(name), where, fix)
        for name, where in others.items()
        if name not in fitting
    ]


def _alike(one: Placed, other: Placed) -> Problem:
    where = Place(Path(one.file), one.line or None) if one.file else Place()
    said = f"{one.name} and {other.name} differ little, but count as two prompts: "
    said += difference(one.original, other.original)
    fix = "If code fills in the difference, declare one prompt as `autoprompt.Prompt`."
    return Problem("program.alike-texts", said, where, fix)


def _unseen(place: Place) -> Problem:
    said = "the program starts a subprocess here, whose calls to models are neither counted nor optimized"
    return Problem("program.subprocess", said, place, "Call models in the program's own process.")


def _asked_elsewhere(place: Place, library: str) -> Problem:
    said = f"the program calls a model through {library} here; these calls are neither counted nor optimized"
    return Problem("program.unseen", said, place, SEEN_CALLS)


def _run(
    caller: Caller, scope: RowScope, example: Example, address: str, place: Place
) -> _Seen | AutopromptError:
    """Run a row, and return what it shows, or why it failed: other rows may not.

    Raises what no row would survive.
    """
    failed: AutopromptError | None = None
    try:
        with scope.at_work(), active({}) as uses:
            scope.uses = uses
            caller.output(caller.run(example))
    except RowEnded:
        pass
    except InputError as error:  # of what the program takes or returns, which has no place of its own
        failed = type(error)(*_placed(error, place))
    except Exception as error:  # noqa: BLE001 - a program may raise anything
        failed = scope.refused or _failed(error, example, address)
    if isinstance(scope.fatal, InputError):
        raise type(scope.fatal)(*_placed(scope.fatal, place))
    if scope.fatal is not None:
        raise scope.fatal
    if (lost := scope.lost or failed) is not None:
        return lost
    if (hidden := scope.hidden()) is not None:
        raise ConfigError(hidden)
    places = tuple(place for place, is_direct in scope.subprocesses if is_direct)
    return _Seen(
        example,
        tuple(scope.seen),
        tuple(uses),
        scope.calls,
        scope.usage,
        scope.waited_s,
        tuple(scope.steps),
        places,
        tuple(scope.unseen),
        tuple(scope.unknown),
    )


def _placed(error: InputError, place: Place) -> Iterator[Problem]:
    """Return the problems of an error, those without a place with that of the program."""
    return (problem if problem.place != NOWHERE else problem.at(place) for problem in error.problems)


def _failed(error: Exception, example: Example, address: str) -> ConfigError:
    said = f"{address} failed on {example.name}: {type(error).__name__}: {error}"
    fix = key_advice(error) or "Run the program on this row alone, and fix the error."
    return ConfigError(Problem("program.failed", said, place_of_error(error), fix))


def _different(rows: Sequence[Example]) -> list[Example]:
    """Rows with different targets first, in their order."""
    seen: set[str] = set()
    firsts = [row for row in rows if not (row.target_text in seen or seen.add(row.target_text))]  # type: ignore[func-returns-value]
    others = [row for row in rows if row not in firsts[:MOST_ROWS]]
    return [*firsts[:MOST_ROWS], *others][:MOST_ROWS]


def _unstable(pairs: Sequence[tuple[_Seen, _Seen]], place: Place) -> list[Problem]:
    """Warn of the first text that differs between two runs of one row."""
    for a, b in (both for one, other in pairs for both in _differing(one, other)):
        for mine, theirs in zip(a.parts, b.parts, strict=False):
            if mine.text != theirs.text:
                differs = difference(mine.text, theirs.text)
                said = f"{a.site} sends another request for the same row: {differs}"
                fix = "Remove what changes, such as a clock or a random id, so that answers can be reused."
                where = place if a.place == NOWHERE else a.place
                return [Problem("program.unstable", said, where, fix)]
    return []


def _differing(one: _Seen, other: _Seen) -> Iterable[tuple[Seen, Seen]]:
    """Pair the requests that two runs of a row do not share; branches may send theirs in any order."""
    own, others = [], [*other.requests]
    for seen in one.requests:
        texts = [part.text for part in seen.parts]
        same = (o for o in others if o.site == seen.site and [part.text for part in o.parts] == texts)
        if (match := next(same, None)) is None:
            own.append(seen)
        else:
            others.remove(match)
    return zip(own, others, strict=False)


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
