"""`autoprompt demo`: a recorded run, played again in half a minute without a model, and its report.

The recording is a run of the embedded model on the bundled headlines, made by benchmarks/record_demo.py:
the files of the run's folder and every event, those of single rows included.
"""

from __future__ import annotations

import json
import lzma
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Annotated, Any

import typer

from autoprompt.cli import options, render
from autoprompt.cli.live import RunView, watching
from autoprompt.cli.report import show_report
from autoprompt.cli.run import show_result
from autoprompt.errors import Interrupted
from autoprompt.records import Event, OnEvent
from autoprompt.runs import RunFolder, RunStore
from autoprompt.text.names import counted

app = typer.Typer(rich_markup_mode=None, add_completion=False)

RECORDING = Path(__file__).with_name("recorded_run.json.xz")
RUN_ID, RUN_DIR = "@RUN_ID@", "@RUN_DIR@"  # in the recording, for those of the folder that is written
RESULT = "result.json"
FLEETING = "rows_evaluated"
_WEIGHTS = {FLEETING: 1, "run_started": 8, "node_started": 3, "candidate_proposed": 5, "confirmation": 15}
_RECORDED_S = 460  # of the same run on two idle cores


@dataclass(frozen=True, slots=True)
class Recording:
    """A finished run. settings: its `config.yaml`. files: name -> text. events: in their order."""

    settings: Mapping[str, Any]
    files: Mapping[str, str]
    events: Sequence[Event]

    @classmethod
    def read(cls, folder: RunFolder) -> Recording:
        """Return the bundled recording as a run in this folder."""

        def as_own(text: str) -> str:
            for mark, own in ((RUN_ID, folder.run_id), (RUN_DIR, str(folder.path))):
                text = text.replace(mark, json.dumps(own)[1:-1])  # only JSON has marks
            return text

        made = _recorded()
        files = {name: as_own(text) for name, text in made["files"].items()}
        return cls(made["settings"], files, json.loads(as_own(json.dumps(made["events"]))))


@cache
def _recorded() -> Mapping[str, Any]:
    found: dict[str, Any] = json.loads(lzma.decompress(RECORDING.read_bytes()))
    return found


@app.command()
def demo(
    *,
    seconds: Annotated[float, typer.Option(metavar="X", min=0, help="Length of the replay.")] = 25.0,
    open_it: Annotated[bool, typer.Option("--open/--no-open", help="Open the report in the browser.")] = True,
    runs_dir: options.RunsDir = Path("runs"),
    quiet: options.Quiet = False,
) -> None:
    """Play a recorded run again, without a model, and open its report.

    The run is written to the folder of the runs like any other: `runs show` and `runs export` read it.
    """
    store = RunStore(runs_dir)
    folder = store.create(_recorded()["settings"], kind="optimize", name="demo")
    recording = Recording.read(folder)
    calls = counted(json.loads(recording.files[RESULT])["calls"], "call")
    speed = max(1.0, _RECORDED_S / seconds) if seconds else _RECORDED_S
    typer.echo(
        f"This is a recorded run of {calls} to a local model, {speed:.0f} times as fast. No model is asked.",
        err=True,
    )
    console, began = render.console(stderr=True), time.monotonic()
    view = RunView(clock=lambda: (time.monotonic() - began) * speed)
    try:
        with folder.work(), watching(console, view, quiet=quiet) as (_, emit):
            play(recording, folder, emit, seconds)
    except KeyboardInterrupt as error:
        store.remove(folder.run_id)
        raise Interrupted("interrupted; the demo leaves no run") from error
    from autoprompt.optimizer.result import Run

    show_result(Run(folder).result, render.console())
    show_report(folder, open_it=open_it)
    typer.echo("Next, a prompt of your own: autoprompt init FOLDER", err=True)


def play(
    recording: Recording,
    folder: RunFolder,
    emit: OnEvent,
    seconds: float,
    wait: Callable[[float], object] = time.sleep,
) -> None:
    """Write the run's files and tell its events, spread over so many seconds."""
    for name in recording.files.keys() - {RESULT}:
        folder.write_text(name, recording.files[name])
    weights = [_WEIGHTS.get(event["event"], 2) for event in recording.events]
    for event, weight in zip(recording.events, weights, strict=True):
        if event["event"] != FLEETING:
            folder.append_event(event)
        emit(event)
        wait(seconds * weight / sum(weights))
    folder.write_text(RESULT, recording.files[RESULT])  # last: with it the run is finished
