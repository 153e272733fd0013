"""The user's own program as what is optimized: opened, tried on a few rows, and run with other texts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar

from autoprompt.errors import ConfigError, InputError, Place, Problem, PromptError, StoreError
from autoprompt.llm.client import Client
from autoprompt.llm.kept.recorded import RecordedClient
from autoprompt.llm.limits.amounts import Spent
from autoprompt.measure.program import failure_of
from autoprompt.measure.task import Component
from autoprompt.metrics import Metric
from autoprompt.programs import hooks
from autoprompt.programs.calling import Answer, Caller, caller_of, import_program
from autoprompt.programs.export import VIEW, ProgramForm
from autoprompt.programs.finding import named_by_file
from autoprompt.programs.kept import FinishedRows, ToolResults
from autoprompt.programs.places import place_of_program
from autoprompt.programs.placing import HOLE, Placed
from autoprompt.programs.probe import OnRow, ProgramView, probe
from autoprompt.programs.program import Program, as_program, changed_parts, own_modules, parts_of
from autoprompt.programs.prompts import active, prompt_files, read_prompts, unformattable
from autoprompt.programs.scope import MOST_TRIED_CALLS, RowEnded, RowScope
from autoprompt.programs.source import Sources, source_texts
from autoprompt.programs.winner import ChangedTexts, Winner
from autoprompt.records import Candidate, Demo, Example, Prediction
from autoprompt.runs import RunFolder
from autoprompt.runs.resuming import seen_from
from autoprompt.settings.records import RunConfig
from autoprompt.text.answers.labels import is_whole, read_answer
from autoprompt.text.files import file_sha256, read_json, sha256_of, to_json

# In a run's folder.
BEST, TOOLS, ROWS = "best_program.yaml", "tools.jsonl", "rows.jsonl"
_HERE = "python:"  # begins the address of a program that was given as an object
# Metrics that compare a text. Others score an object as a whole, if it does not have the target's key.
_OF_TEXTS = ("exact_match", "macro_f1", "contains", "regex", "numeric", "label_set")
_given: dict[str, Any] = {}


def named_program(program: object) -> str:
    """Return the address of a program, and keep an object under it for this process."""
    if isinstance(program, str):
        return program
    address = f"{_HERE}{as_program(program).name}"
    _given[address] = program
    return address


@dataclass(frozen=True)
class ProgramTask:
    """A program.

    parts: see `parts_of`. view: what a few rows have shown; None before it was tried. spent: on trying it.
    stubs: functions that stand in for its tools. tools: what they gave, in the trial too. winner: a candidate
    of a run that is scored. is_tried: whether it was in this process.
    """

    config: RunConfig
    address: str
    program_object: Program
    parts: Mapping[str, str]
    view: ProgramView | None = None
    spent: Spent = field(default_factory=Spent)
    stubs: Mapping[str, Callable[..., Any]] = field(default_factory=dict)
    tools: ToolResults = field(default_factory=ToolResults, compare=False)
    winner: Winner | None = None
    is_tried: bool = False

    input_fields: tuple[str, ...] = ()
    shown: tuple[str, ...] = ()  # demonstrations that are in its source are not known

    @property
    def digest(self) -> str:
        return sha256_of(to_json(sorted(self.parts.items())))

    @property
    def caller(self) -> Caller:
        config = self.config
        return caller_of(
            self.program_object,
            input_field=config.input_field,
            target_field=config.target_field,
            takes_objects=config.metric not in _OF_TEXTS,
        )

    @property
    def place(self) -> Place:
        """Where the program is defined."""
        return place_of_program(self.address, self.program_object.run)

    @property
    def components(self) -> tuple[Component, ...]:
        if self.view is None:
            return ()
        locked = self.config.locked
        return tuple(replace(c, locked=c.name in locked) for c in self.view.components)

    @property
    def calls_per_row(self) -> float:
        return 1 if self.view is None else max(1.0, self.view.planned_calls)

    def fitted(self, rows: Sequence[Example]) -> ProgramTask:
        names = self.caller.parameters
        if names is not None and rows:
            missing = [name for name in names if name not in self._fields(rows[0])]
            if missing:
                fields = ", ".join(self._fields(rows[0]))
                said = f"{self.address} takes {', '.join(names)}, and the rows have {fields}"
                fix = f"Rename the parameter {missing[0]!r} or the field."
                raise ConfigError(Problem("program.parameters", said, self.place, fix))
        return self

    def probed(self, client: Client, rows: Sequence[Example], on_row: OnRow = lambda *_: None) -> ProgramTask:
        """Return the task as a few rows show it, unless that is known. on_row: as in `probe`."""
        if self.view is not None:
            return self
        view = probe(
            self.caller,
            lambda example: self._scope(client, example),
            rows,
            fields=self._fields,
            source=Sources(self._source_files()),
            address=self.address,
            place=self.place,
            on_row=on_row,
            max_calls=self.config.max_calls,
            winner=self.winner,
        )
        found = replace(self, view=self._named_by_file(view), is_tried=True)
        _check_locks(found)
        return found

    def _named_by_file(self, view: ProgramView) -> ProgramView:
        """Return the view with the names of the file of prompts, and warnings of texts that are not sent."""
        path = self.config.prompts_file
        if path is None:
            return view
        entries = read_prompts(path)
        placed = named_by_file(view.placed, {name: entry.text for name, entry in entries.items()})
        sent = {one.name for one in placed} | set(view.prompts)
        unsent = tuple(
            Problem(
                "program.unsent-prompt",
                f"no tried row sends the text {name!r} as a text of its own, so the run will not change it",
                Place(path, entry.line),
                "Add rows that use the text, or declare it with `autoprompt.Prompt.load`.",
            )
            for name, entry in entries.items()
            if name not in sent
        )
        return replace(view, placed=tuple(placed), warnings=(*view.warnings, *unsent))

    def _fields(self, example: Example) -> dict[str, str]:
        named = {self.config.input_field: example.input_text, **example.fields}
        return {name: str(value) for name, value in named.items() if name != self.config.target_field}

    def _scope(self, client: Client, example: Example) -> RowScope:
        return RowScope(
            client,
            row_id=example.id,
            tools=self.tools,
            most_calls=self.program_object.max_calls_per_row or MOST_TRIED_CALLS,
            allow_effects=self.config.allow_effects,
            stubs=self.stubs,
            home=self.place,
        )

    def warnings(self, rows: Mapping[Path, Sequence[Example]]) -> list[Problem]:
        return list(self.view.warnings) if self.view is not None else []

    def check_search(self) -> list[Problem]:
        return []

    def repeated_text(self, fields: Sequence[str]) -> str:
        return ""

    def program(
        self,
        client: Client,
        metric: Metric,
        *,
        labels: tuple[str, ...],
        rows: Sequence[Example],
        folder: RunFolder | None = None,
    ) -> UserProgram:
        view = self.view
        if folder is not None:
            self.tools.keep_in(folder.path / TOOLS)
        finished = FinishedRows(None if folder is None else folder.path / ROWS, self.digest)
        texts = {component.name: component.text for component in self.components}
        return UserProgram(
            self.caller,
            client,
            texts,
            () if view is None else view.placed,
            labels,
            metric.read,
            self.tools,
            finished,
            self.program_object.max_calls_per_row or 10 * max(5, 1 if view is None else view.most_calls),
            self.config.allow_effects,
            self.stubs,
            ChangedTexts(() if view is None or self.is_tried else view.placed),
        )

    def write_original(self, folder: RunFolder, rows: Sequence[Example]) -> None:
        if self.view is not None and not (folder.path / VIEW).exists():
            files = self._source_files()
            sources = Sources(files)
            texts = source_texts(self.view.prompts, self.view.placed)
            held_by = {t.name: sorted({str(spot.file.path) for spot in sources.find(t)}) for t in texts}
            more = {
                "parts": dict(self.parts),
                "spent": self.spent.to_dict(),
                "sources": {
                    str(path): {"sha256": file_sha256(path), "from_run": seen_from(folder, path)}
                    for path in files
                },
                "held_by": held_by,
            }
            folder.write_text(VIEW, to_json({**self.view.to_dict(), **more}))

    def _source_files(self) -> list[Path]:
        """Return the program's modules, those that its calls come from too, and its files of prompts."""
        imported = own_modules(self.address, self.program_object)[0].values()
        sent_from = [Path(p.file) for p in (self.view.placed if self.view is not None else ()) if p.file]
        calling = [path for path in sent_from if path.is_file()]
        named = [self.config.prompts_file.absolute()] if self.config.prompts_file is not None else []
        return list(dict.fromkeys([*imported, *calling, *prompt_files(), *named]))

    def check_unchanged(self, folder: RunFolder) -> None:
        """Raise StoreError if the program's source is not what the run began with."""
        path = folder.path / VIEW
        changed = changed_parts(read_json(path)["parts"], self.parts) if path.exists() else []
        if changed and not self.config.program_changed_ok:
            said = f"run {folder.run_id} cannot be resumed: the source of {self.address} has changed"
            what = f"{changed[0]}{f' and {len(changed) - 1} more' * (len(changed) > 1)}"
            fix = "Put it back, or allow the change with {program_changed_ok}."
            raise StoreError(
                Problem("program.changed", f"{said} ({what})", Place(path), fix, {"program_changed_ok": True})
            )

    def check_writable(self, candidate: Candidate) -> None:
        """Raise InputError for a text that lost a hole, or that is empty."""
        for placed in self.view.placed if self.view is not None else ():
            text = candidate.components.get(placed.name, placed.original)
            lost = [hole for hole in placed.holes if f"{{{hole}}}" not in text]
            added = [hole for hole in HOLE.findall(text) if placed.holes and hole not in placed.holes]
            if lost or added or not text.strip():
                what = f"loses {{{lost[0]}}}" if lost else f"adds {{{added[0]}}}" if added else "is empty"
                raise InputError(f"the text of {placed.name} {what}")
        for name, original in (self.view.prompts if self.view is not None else {}).items():
            if what := unformattable(original, candidate.components.get(name, original)):
                raise InputError(f"the text of {name} {what}")

    def write_best(self, folder: RunFolder, best: Candidate) -> None:
        folder.write_text(BEST, ProgramForm().write(folder, best))


@dataclass(frozen=True)
class UserProgram:
    """Runs a program on a row with a candidate's texts in its requests."""

    caller: Caller
    client: Client
    components: Mapping[str, str]
    placed: Sequence[Placed]
    labels: tuple[str, ...]
    read: Callable[[str], str | None] | None
    tools: ToolResults
    finished: FinishedRows
    most_calls: int
    allow_effects: bool
    stubs: Mapping[str, Callable[..., Any]]
    changed: ChangedTexts
    names_model: ClassVar[bool] = True

    def run(self, example: Example, candidate: Candidate) -> Prediction:
        done = self.finished.find(candidate, example.id)
        if done is not None:
            if isinstance(self.client, RecordedClient):
                self.client.charge_kept(done.calls)
            return done.prediction
        scope, prediction = self._run(example, candidate)
        if not self.changed.note(scope.seen):
            self.finished.keep(candidate, example.id, prediction, scope.keys)
        return prediction

    def _run(self, example: Example, candidate: Candidate) -> tuple[RowScope, Prediction]:
        texts = {**self.components, **candidate.components}
        demos: dict[str, list[Demo]] = {}
        for demo in candidate.demos:
            demos.setdefault(demo.component, []).append(demo)
        scope = RowScope(
            self.client,
            example.id,
            self.tools,
            texts,
            self.placed,
            demos,
            most_calls=self.most_calls,
            allow_effects=self.allow_effects,
            stubs=self.stubs,
        )
        failed: Exception | None = None
        answer = Answer("")
        try:
            with scope.at_work(), hooks.installed(), active(texts) as uses:
                scope.uses = uses
                answer = self.caller.output(self.caller.run(example))
        except RowEnded:
            pass
        except Exception as error:  # noqa: BLE001 - whatever a program raises is its answer to a row
            failed = error
        if scope.fatal is not None:  # whatever the program made of it
            raise scope.fatal
        steps = tuple(scope.steps)
        if (hidden := scope.hidden()) is not None:
            return scope, Prediction("", None, error=str(ConfigError(hidden)), failure="failed")
        lost = scope.lost or (scope.refused if failed is not None else None)
        if lost is not None:
            kind = failure_of(lost)
            return scope, Prediction("", None, scope.usage, error=str(lost), failure=kind, trace=steps)
        if failed is not None:
            said, is_cut = f"(no answer: {type(failed).__name__}: {failed})", scope.is_cut
            return scope, Prediction(
                said, None, scope.usage, trace=steps, is_cut=is_cut, failure="step failed"
            )
        text = answer.text
        read = self.read(text) if self.read else read_answer(text, self.labels)
        is_cut = scope.is_cut and not is_whole(text, read, self.labels)
        return scope, Prediction(
            text,
            read,
            scope.usage,
            trace=steps,
            is_cut=is_cut,
            output=answer.output,
            returned=answer.returned,
        )


def open_program(
    config: RunConfig,
    address: str,
    folder: RunFolder | None = None,
    stubs: Mapping[str, Callable[..., Any]] | None = None,
) -> ProgramTask:
    """Open the program that the settings name.

    folder: of a run that is resumed, which knows its texts. stubs: stand in for its tools, by name.

    Raises:
        ConfigError: For an address that is none and for an import that fails.
    """
    found = _given.get(address) if address.startswith(_HERE) else import_program(address)
    if found is None:
        said = f"{address.removeprefix(_HERE)} was given as an object"
        raise ConfigError(Problem("program.import", said, Place(setting="program"), "Give `program=` again."))
    program = as_program(found.as_program(config) if hasattr(found, "as_program") else found)
    view, spent = None, Spent()
    if folder is not None and (path := folder.path / VIEW).exists():
        kept = read_json(path)
        view, spent = ProgramView.from_dict(kept), Spent.from_dict(kept["spent"])
    return ProgramTask(config, address, program, parts_of(address, program), view, spent, stubs or {})


def _check_locks(task: ProgramTask) -> None:
    names = [component.name for component in task.components]
    for mark in task.config.locked:
        if mark not in names and not any(mark in component.text for component in task.components):
            said = f"{mark!r} is no component of {task.address}"
            fix = f"Components: {', '.join(names)}"
            raise PromptError(Problem("program.lock", said, Place(setting="locked"), fix))
    if names and all(component.locked for component in task.components):
        raise PromptError(
            Problem("program.lock", f"every text of {task.address} is locked", Place(setting="locked"))
        )
