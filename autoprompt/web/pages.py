"""The pages: what is shown at an address, found, put together and written as HTML."""

from __future__ import annotations

import hashlib
import re
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from http import HTTPStatus
from pathlib import Path, PurePath
from typing import Any, TypeVar
from urllib.parse import quote

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from autoprompt.errors import Problem, StoreError
from autoprompt.report import html, read_summary
from autoprompt.report.numbers import duration
from autoprompt.report.trials import read_trials
from autoprompt.report.two_runs import Compared, compare
from autoprompt.report.wording import PHASES
from autoprompt.runs import RunFolder
from autoprompt.runs.marks import first_link
from autoprompt.text.files import read_json
from autoprompt.web.hub import Watcher
from autoprompt.web.library import (
    PAGE,
    SORTS,
    STATES,
    Entry,
    ListQuery,
    PartCache,
    RunLibrary,
    gain,
    mark_of,
)
from autoprompt.web.live import LiveState
from autoprompt.web.workflow import draw, read_workflow

_ASSETS = Path(__file__).with_name("assets")
_TYPES = {
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
_TEMPLATES = Path(__file__).with_name("templates")
# The parts of a report that say something while the run is still at work.
_PARTS = (
    "verdict",
    "scores",
    "plot",
    "lineage",
    "diff",
    "use",
    "rounds",
    "confusion",
    "rows",
    "cost",
    "lessons",
    "settings",
    "words",
)
_LIVE_PARTS = ("plot", "lineage", "diff", "rounds", "cost", "lessons", "settings", "words")
# Of these the whole page is asked for again when something has changed.
_WHOLE_KINDS = ("batch", "workflow", "science")
_EXECUTIONS_SHOWN = 12
_FLOW_FILES = ("run.json", "config.yaml", "events.jsonl", "result.json")
_SCIENCE_FILES = (*_FLOW_FILES, "task.json", "passes")
T = TypeVar("T")


def phase(state: LiveState, status: str) -> str:
    """Return what a run that has not ended does, in one sentence."""
    doing = PHASES.get(state.node, state.node)
    rounds = f"Round {state.iteration}" if state.iteration else ""
    if rounds and state.max_iterations:
        rounds += f" of at most {state.max_iterations}"
    if status == "interrupted":
        return f"Stopped in {rounds[:1].lower()}{rounds[1:]}, {doing}" if rounds else "Stopped at the start"
    if not rounds:
        return doing.capitalize() or "Starting"
    return f"{rounds}: {doing}"


def clock(time: str) -> str:
    """`07:20:54`, UTC as it was logged; "" for what is no time."""
    moment = _parsed(time)
    return "" if moment is None else f"{moment:%H:%M:%S}"


def moment(time: str) -> str:
    """`2026-11-22 07:20`, UTC."""
    found = _parsed(time)
    return "–" if found is None else f"{found:%Y-%m-%d %H:%M}"


def capitalized(text: str) -> str:
    return text[:1].upper() + text[1:]


def _parsed(time: str) -> datetime | None:
    try:
        return datetime.fromisoformat(time)
    except ValueError:
        return None


def seconds(value: float) -> str:
    """`12 ms`, `3.4 s`, `2:05`."""
    if value < 1:
        return f"{value * 1000:.0f} ms"
    return f"{value:.1f} s" if value < 60 else duration(value)


def file_name(path: str) -> str:
    """`rows.jsonl` of `/data/rows.jsonl`."""
    return PurePath(path).name


def slug(name: str) -> str:
    """`name` as a class in a page: letters, digits and `_` alone."""
    return re.sub(r"[^A-Za-z0-9_]", "", name)


FILTERS = {
    "phase": phase,
    "clock": clock,
    "moment": moment,
    "capitalized": capitalized,
    "file_name": file_name,
    "slug": slug,
    "seconds": seconds,
}


def _read(read: Callable[[RunFolder], T], entry: Entry) -> T:
    """Return what `read` finds in a run.

    Raises HTTPException for one that is damaged, or was removed just now.
    """
    try:
        return read(entry.folder)
    except StoreError as error:
        raise HTTPException(HTTPStatus.CONFLICT, str(error)) from error


@dataclass(frozen=True, slots=True)
class Asset:
    """One file. address: under which it is served, with a part of its hash: browsers keep it for good."""

    address: str
    content: bytes
    media_type: str


def load_assets() -> Mapping[str, Asset]:
    """Name in a template -> asset."""
    contents = {"report.css": html.css().encode(), "report.js": html.script().encode()}
    contents |= {path.name: path.read_bytes() for path in sorted(_ASSETS.iterdir()) if path.suffix in _TYPES}
    return {name: _asset(name, content) for name, content in contents.items()}


def _asset(name: str, content: bytes) -> Asset:
    mark = hashlib.sha256(content).hexdigest()[:10]
    stem, dot, ending = name.rpartition(".")
    return Asset(f"/assets/{stem}.{mark}.{ending}", content, _TYPES[dot + ending])


class Pages:
    """Makes pages from the runs of a library. For several threads; `connect` comes first."""

    def __init__(self, library: RunLibrary, assets: Mapping[str, Asset]) -> None:
        self.library = library
        self.assets = assets
        self._environment = html.environment(extra_folder=_TEMPLATES)
        self._environment.filters.update(FILTERS)
        self._environment.globals["asset"] = lambda name: assets[name].address
        self._environment.globals["resume_command"] = self.resume_command
        self._parts: PartCache = PartCache()
        self._watcher: Watcher
        self._position: Callable[[], str]

    def connect(self, watcher: Watcher, position: Callable[[], str]) -> None:
        """watcher: what is known of runs at work. position: of the stream, where a page joins it."""
        self._watcher, self._position = watcher, position

    def render(self, template: str, **context: Any) -> str:
        return self._environment.get_template(template).render(**context)

    # --- what an address shows ---

    def runs(self, request: Request) -> str:
        after = self._position()  # before the runs are read: a change in between is reported again
        entries = self.library.runs()
        choice = ListQuery.read(request.query_params)
        chosen = choice.apply(entries)
        pages = max(1, -(-len(chosen) // PAGE))
        first = PAGE * (min(choice.page, pages) - 1)
        costs = [e.line.cost_usd for e in chosen if e.line.calls is not None]
        return self.render(
            "list.html.j2",
            after=after,
            choice=choice,
            found=len(chosen),
            shown=chosen[first : first + PAGE],
            pages=pages,
            page=min(choice.page, pages),
            calls=sum(e.line.calls or 0 for e in chosen),
            cost=sum(cost for cost in costs if cost is not None),
            unpriced=sum(cost is None for cost in costs),
            tags=sorted({tag for e in entries for tag in e.line.tags}),
            entries=entries,
            gain=gain,
            kinds=sorted({e.line.kind for e in entries if e.line.kind}),
            states=[state for state in STATES if any(e.line.status == state for e in entries)],
            sorts=SORTS,
            briefs=self._watcher.briefs(),
            runs_dir=self.library.runs_dir.absolute(),
        )

    def run(self, request: Request) -> str:
        after = self._position()
        entry = self.find("/".join(request.path_params.values()))
        if entry.line.problem:
            raise HTTPException(HTTPStatus.CONFLICT, entry.line.problem)
        make = {"batch": self.batch_parts, "workflow": self.workflow_parts, "science": self.science_parts}
        if entry.line.kind in make:
            parts = make[entry.line.kind](entry)
            return self.render("parts_page.html.j2", after=after, entry=entry, parts=parts)
        is_over = entry.line.status == "finished"
        return self.render(
            "run.html.j2",
            after=after,
            entry=entry,
            is_over=is_over,
            live="" if is_over else self._watcher.html(entry),
            parts=self.parts(entry, _PARTS if is_over or entry.line.verdict else _LIVE_PARTS),
        )

    def comparison(self, request: Request) -> str:
        """`/compare?run=A&run=B`."""
        keys = request.query_params.getlist("run")
        if len(keys) != 2:
            raise HTTPException(
                HTTPStatus.BAD_REQUEST, "Select exactly two runs in the list to compare them."
            )
        entries = [self.find(key) for key in keys]
        for entry in entries:
            if entry.line.problem:
                raise HTTPException(HTTPStatus.CONFLICT, entry.line.problem)
        found = compare(*(Compared.of(_read(read_summary, entry)) for entry in entries))
        return self.render("compare.html.j2", found=found, entries=entries)

    def find(self, key: str) -> Entry:
        """Find a run. Raises HTTPException, 404, if there is none."""
        entry = self.library.find(key)
        if entry is None:
            raise HTTPException(HTTPStatus.NOT_FOUND, "No such run. It may have been removed.")
        return entry

    # --- parts of pages ---

    def parts(self, entry: Entry, names: tuple[str, ...]) -> str:
        """Return the parts of a report, as HTML; kept while the run's files stay as they are."""

        def make() -> str:
            run = _read(read_summary, entry)
            return self.render("parts.html.j2", names=names, **html.parts(run))

        return self._parts.get(entry.key, (names, mark_of(entry.line.path)), make)

    def batch_parts(self, entry: Entry) -> str:
        """Return the trials of a batch, compared; kept while none of them changes."""
        trials = self.library.trials(entry)
        for trial in trials:
            if (link := first_link(trial.line.path)) is not None:
                raise HTTPException(
                    HTTPStatus.CONFLICT, f"{trial.key}: {link} is a link; it is not followed."
                )
        at_work = [trial for trial in trials if trial.line.status in ("running", "interrupted")]

        def make() -> str:
            context = html.trials_parts(read_trials(entry.line.path))
            addresses = {trial.line.run_id: f"/runs/{quote(trial.key)}" for trial in trials}
            return self.render(
                "batch_parts.html.j2",
                entry=entry,
                addresses=addresses,
                at_work=at_work,
                briefs=self._watcher.briefs(),
                **context,
            )

        states = tuple((trial.key, trial.line.status, mark_of(trial.line.path)) for trial in trials)
        table = mark_of(entry.line.path, ("run.json", "result.json", "table.json"))
        return self._parts.get(entry.key, (entry.line.status, table, states), make)

    def workflow_parts(self, entry: Entry) -> str:
        """Return the graph of a workflow, and what each node was asked and put out."""

        def make() -> str:
            flow = _read(read_workflow, entry)
            return self.render(
                "workflow_parts.html.j2",
                entry=entry,
                flow=flow,
                drawing=draw(flow),
                numbers={node.id: number for number, node in enumerate(flow.nodes, start=1)},
                calls=sum(node.calls for node in flow.nodes),
                tokens=sum(node.tokens or 0 for node in flow.nodes),
                shown_executions=_EXECUTIONS_SHOWN,
            )

        files = (*_FLOW_FILES, entry.folder.checkpoints_path.name)
        return self._parts.get(entry.key, (entry.line.status, mark_of(entry.line.path, files)), make)

    def science_parts(self, entry: Entry) -> str:
        """Return the passes of an investigation."""
        if (link := first_link(entry.line.path)) is not None:
            raise HTTPException(HTTPStatus.CONFLICT, f"{link} is a link; it is not followed.")

        def make() -> str:
            return self.render("science_parts.html.j2", entry=entry, run=_read(read_science, entry))

        mark = mark_of(entry.line.path, _SCIENCE_FILES)
        return self._parts.get(entry.key, (entry.line.status, mark), make)

    def resume_command(self, entry: Entry) -> str:
        """Return the command that resumes a run or, for a trial, its batch, from the working folder."""
        path = entry.line.path.absolute()
        key, path = (entry.parent, path.parent) if entry.parent else (entry.key, path)
        is_usual = self.library.runs_dir == Path("runs")
        return f"autoprompt resume {key if is_usual else shlex.quote(str(path))}"

    def draw_live(self, entry: Entry, state: LiveState) -> str:
        if entry.line.kind in _WHOLE_KINDS:
            return ""
        return self.render("live.html.j2", entry=entry, state=state)

    def problem(self, _: Request, error: Exception) -> Response:
        """Return the page for an address that shows nothing."""
        status = error.status_code if isinstance(error, HTTPException) else 500
        words = error.detail if isinstance(error, HTTPException) else ""
        text = self.render("problem.html.j2", title=HTTPStatus(status).phrase, words=words)
        return Response(text, status, media_type="text/html; charset=utf-8")


# --- the passes of a scientific run: whole ones, and the one at work ---

_FILE = re.compile(r"pass-(\d{1,6})\.json")
_SECTION = re.compile(r"<(\w+)>(.*?)(?:</\1>|\Z)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class _Pass:
    """One turn of the model. sections: tag and text, in their order; observation: of its code, None before.

    exit_code: of its code, None where none ran, negative for a signal.
    """

    number: int
    sections: tuple[tuple[str, str], ...]
    observation: str | None
    exit_code: int | None
    duration_s: float
    killed_by: str
    new_files: tuple[str, ...]
    tokens: int


@dataclass(frozen=True, slots=True)
class _ScienceRun:
    """task: what was asked. conclusion: "" while there is none. stop_reason: why it ended early, or ""."""

    task: str
    io: str
    model: str
    passes: tuple[_Pass, ...]
    most_passes: int | None
    conclusion: str
    stop_reason: str
    sandbox: str
    calls: int | None
    tokens: int
    seconds: float | None
    warnings: tuple[str, ...]


def read_science(folder: RunFolder) -> _ScienceRun:
    """Return a scientific run as it stands.

    Raises:
        StoreError: For one that cannot be read.
    """
    config, result = folder.read_config(), folder.read_result() or {}
    task = folder.path / "task.json"
    said = read_json(task) if task.exists() else {}
    passes = tuple(_passes(folder))
    most = config.get("max_iterations")
    return _ScienceRun(
        task=str(said.get("task") or config.get("task") or ""),
        io=str(said.get("io") or config.get("io") or ""),
        model=str(result.get("model") or config.get("model") or ""),
        passes=passes,
        most_passes=most if isinstance(most, int) else None,
        conclusion=str(result.get("conclusion") or ""),
        stop_reason=str(result.get("stop_reason") or ""),
        sandbox=str(result.get("sandbox") or ""),
        calls=result.get("calls"),
        tokens=sum(record.tokens for record in passes),
        seconds=result.get("seconds"),
        warnings=tuple(str(Problem.from_dict(warning)) for warning in result.get("warnings") or ()),
    )


def _passes(folder: RunFolder) -> list[_Pass]:
    parent = folder.path / "passes"
    if not parent.is_dir() or parent.is_symlink():
        return []
    found = [(int(match[1]), path) for path in parent.iterdir() if (match := _FILE.fullmatch(path.name))]
    plain = [(number, path) for number, path in sorted(found) if path.is_file() and not path.is_symlink()]
    return [_pass(number, read_json(path)) for number, path in plain]


def _pass(number: int, data: Mapping[str, Any]) -> _Pass:
    text = str(data.get("text") or "")
    sections = tuple((m[1], m[2].strip()) for m in _SECTION.finditer(text)) or (
        (("Answer", text),) if text else ()
    )
    usage = data.get("usage") or {}
    if not isinstance(usage, dict):
        raise StoreError(Problem("web.bad-pass", f"pass {number}: its usage is not an object"))
    exit_code = data.get("exit_code")
    return _Pass(
        number=number,
        sections=tuple((tag, body) for tag, body in sections if tag != "Observation"),
        observation=None if data.get("observation") is None else str(data["observation"]),
        exit_code=exit_code if isinstance(exit_code, int) else None,
        duration_s=float(data.get("duration_s") or 0.0),
        killed_by=str(data.get("killed_by") or ""),
        new_files=tuple(map(str, data.get("new_files") or ())),
        tokens=sum(int(usage.get(name) or 0) for name in ("prompt_tokens", "completion_tokens")),
    )
