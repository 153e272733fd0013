"""`autoprompt science`: answer a question by experiments, watch the passes, show the conclusion."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import RenderableType
from rich.text import Text

from autoprompt.cli import options, render
from autoprompt.cli.environment import read_environment
from autoprompt.cli.live import Line, LiveView, time_text, warning_of, watching
from autoprompt.cli.output import clean, print_json
from autoprompt.errors import Interrupted, Place, Problem, UsageError, Voice, tell
from autoprompt.records import OnEvent
from autoprompt.report.numbers import NONE, duration, megabytes, money, tokens
from autoprompt.runs import RunFolder
from autoprompt.runs.events import (
    ConclusionStarted,
    ExperimentStarted,
    InvestigationStarted,
    Observed,
    PassAnswered,
    PassStarted,
    read_event,
)
from autoprompt.runs.resuming import interrupted
from autoprompt.science.tags import read_answer
from autoprompt.settings.records import ScienceConfig
from autoprompt.settings.resolve import resolve
from autoprompt.text.files import check_no_input, check_writable
from autoprompt.text.names import CAPS, counted

if TYPE_CHECKING:
    from autoprompt.science import Investigation

_SAY = 'Write the question in words: autoprompt science "How many rows are there?"'
_STOPS = {
    "concluded": "the model concluded before its last pass",
    "no_experiment": "a pass contained no experiment, so autoprompt asked for the conclusion",
}


app = typer.Typer(rich_markup_mode=None, add_completion=False)


@app.command(cls=options.Panelled)
@options.with_settings(options.SCIENCE_FLAGS, options.SCIENCE)
def science(
    task: Annotated[
        str | None, typer.Argument(metavar="TASK", help="Question to answer or thing to make, or @FILE.")
    ] = None,
    *,
    flags: dict[str, Any],
    config: options.ConfigFile = None,
    output: options.ResultsFolder = None,
    as_json: options.Json = False,
    quiet: options.Quiet = False,
    trust: options.Trust = False,
) -> None:
    """Answer a question by experiments: the model writes code that tests hypotheses in a sandbox.

    Every setting can also be in the --config file or in an AUTOPROMPT_... variable.
    """
    read_environment(is_trusted=trust)
    given = flags if task is None else {**flags, "task": _read_task(task)}
    settings = resolve(ScienceConfig, given, config_file=config, environ=os.environ)
    from autoprompt.optimizer import api

    watch(lambda emit: api.investigate(settings, on_event=emit), output=output, as_json=as_json, quiet=quiet)


def resume_run(folder: RunFolder, *, output: Path | None, as_json: bool, quiet: bool) -> None:
    from autoprompt.science.run import resume

    options.protect_run(folder)
    watch(lambda emit: resume(folder, on_event=emit), output=output, as_json=as_json, quiet=quiet)


def _read_task(text: str) -> str:
    """Return the task itself, or what the file after `@` holds."""
    if not text.strip():
        raise UsageError(Problem("science.empty-task", "TASK is empty", fix=_SAY))
    if not text.startswith("@"):
        return text
    path = Path(text[1:]).expanduser()
    try:
        task = path.read_text(encoding="utf-8-sig").rstrip("\r\n")
    except (OSError, UnicodeDecodeError) as error:
        said, fix = f"TASK cannot be read ({error})", "Give @ and the path of a text file."
        raise UsageError(Problem("science.bad-task", said, Place(path), fix)) from error
    if not task.strip():
        raise UsageError(Problem("science.empty-task", "TASK is empty", Place(path), _SAY))
    return task


def watch(
    begin: Callable[[OnEvent], Investigation], *, output: Path | None, as_json: bool, quiet: bool
) -> None:
    """Run `begin` under the live view and show what came out. Ctrl-C says how to go on."""
    from autoprompt.science.results import check_output, copy_results

    if output is not None:
        check_output(output)
        check_writable(output / "result.json" if output.is_dir() else output)
        for name in ("transcript.json", "transcript.md", "files", "passes"):
            check_no_input(output / name)
    with watching(render.console(stderr=True), ScienceView(), quiet=quiet) as (view, emit):
        try:
            found = begin(emit)
        except KeyboardInterrupt as error:  # before or after the part that saves by itself
            if not view.run_id:
                raise Interrupted("interrupted before the first request") from error
            raise interrupted(RunFolder(Path(view.run_dir))) from error
    refused = [] if output is None else copy_results(found, output)
    console = render.console(stderr=as_json)
    for part in result(found, output):
        console.print(part)
    for reason in refused:
        console.print(Text(f"warning: not copied: {clean(reason)}", "yellow"))
    if as_json:
        print_json({**found.to_dict(Voice.CLI), "sent_to": view.sent_to})


def result(found: Investigation, output: Path | None = None) -> Iterator[RenderableType]:
    """Yield what a person sees in the end: the conclusion first."""
    if found.conclusion:
        yield Text(clean(found.conclusion), "bold green")
    else:
        yield Text(f"No conclusion: {_why_none(found)}.", "yellow")
    yield Text()
    made = render.table("pass", "code", "exit code", "time", "new files", right=("pass", "exit code", "time"))
    for record in found.passes:
        cells = [NONE] * 4
        if record.code is not None:
            lines = record.code.count("\n") + 1
            cells = [
                f"{counted(lines, 'line')}",
                NONE if record.exit_code is None else str(record.exit_code),
                f"{record.duration_s:.1f} s",
                ", ".join(record.new_files) or NONE,
            ]
        made.add_row(str(record.number), *(Text(clean(cell)) for cell in cells))
    yield made
    yield Text()
    if found.stopped_early and (found.conclusion or found.was_asked):  # else the first line says it
        said = _STOPS.get(found.stop_reason, f"{_cap(found)} was reached")
        yield Text(f"stopped early: {said}")
    for warning in found.warnings:
        yield Text(f"warning: {clean(tell(warning, Voice.CLI))}", "yellow")
    yield Text(
        f"{counted(found.calls, 'call')}, {tokens(found.usage)}, cost {money(found.usage.cost_usd)}, "
        f"{duration(found.seconds)}; sandbox: {found.sandbox}"
    )
    yield Text(f"transcript: {clean(str((output or Path(found.run_dir)) / 'transcript.md'))}")
    yield Text(f"work folder: {clean(found.workdir)}")


def _cap(found: Investigation) -> str:
    return CAPS.get(found.stop_reason, found.stop_reason)


def _why_none(found: Investigation) -> str:
    if found.was_asked:
        if not any(record.answer.strip() for record in found.passes):
            return "every answer of the model was empty"
        return "the model gave none when asked"
    if found.stop_reason in _STOPS:
        return "a pass contained no experiment, and a limit ended the run before the conclusion"
    return f"the run reached {_cap(found)} first"


def show_run(folder: RunFolder, *, as_json: bool) -> None:
    """Show an investigation, finished or not, as `runs show` does."""
    data = folder.read_result()
    if as_json:
        print_json({"run_id": folder.run_id, "config": folder.read_config(), "result": data})
        return
    console = render.console()
    config = folder.read_config()
    console.print(Text(clean(str(config.get("task", ""))), "bold"))
    if config.get("io"):
        console.print(Text(clean(str(config["io"]))))
    console.print(Text())
    if data is None:
        console.print(Text(f"Not finished. Resume with: autoprompt resume {clean(folder.reference)}"))
        return
    from autoprompt.science import Investigation

    for part in result(Investigation.from_dict(data)):
        console.print(part)


_STYLES = {"Observation": "cyan", "Conclusion": "bold green"}
_LONGEST = 160  # characters of a part in one line


@dataclass
class ScienceView(LiveView):
    """What is known of a running investigation."""

    title = "autoprompt science"
    most_lines = 14

    doing: str = "looking at the data"

    def add(self, event: Mapping[str, Any]) -> list[Line]:
        self.spent = event.get("spent", self.spent)
        return super().add(event)

    def tell(self, event: Mapping[str, Any]) -> Iterable[Line]:
        match read_event(event):
            case InvestigationStarted() as found:
                self.run_id, self.run_dir, self.model = found.run_id, found.run_dir, found.model
                self.caps = found.budget
                verb = "resumed" if found.resumed else "started"
                yield Line(f"run {self.run_id} {verb}: {self.model}; sandbox: {found.sandbox}")
            case PassStarted() as found:
                self._begin(f"pass {found.number} of {found.of}: the model writes")
                yield Line(f"pass {found.number} of {found.of}")
            case ConclusionStarted():
                self._begin("the model concludes")
                yield Line("conclusion")
            case PassAnswered() as found:
                for section in read_answer(found.text).sections:
                    yield _part(section.tag, section.text)
                if found.has_own_observation:
                    said = "  the model wrote its own Observation; removed it and what followed"
                    yield Line(said, "always", "yellow")
            case ExperimentStarted() as found:
                self._begin(f"pass {found.number} of {found.of}: the experiment runs")
            case Observed() as found:
                yield _part("Observation", found.observation or "")
                files = f"; new files: {', '.join(found.new_files)}" if found.new_files else ""
                yield Line(f"  exit code {found.exit_code}, {found.duration_s:.1f} s{files}")
            case Problem() as problem:
                yield warning_of(problem)

    def _begin(self, doing: str) -> None:
        self.doing, self.download = doing, None

    def parts(self, height: int) -> Iterator[RenderableType]:
        del height  # it is always short
        doing = self.doing
        if self.download is not None:
            what, done, total = self.download
            doing = f"{what}: {megabytes(done)} of {megabytes(total)}"
        yield Text(clean(doing), "bold")
        yield Text(f"{self.spent_text}, {time_text(self.seconds)}")


def _part(tag: str, text: str) -> Line:
    line = " ".join(text.split())
    short = line if len(line) <= _LONGEST else line[: _LONGEST - 1] + "…"
    return Line(f"  {tag}: {short}", style=_STYLES.get(tag, ""))
