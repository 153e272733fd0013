"""Watching an investigation: a live panel of its passes in a terminal, lines elsewhere."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.live import Live
from rich.panel import Panel
from rich.text import Text

from autoprompt.cli import clean
from autoprompt.llm.endpoints import SENDS_TO, sentences
from autoprompt.records import OnEvent
from autoprompt.report.numbers import duration, megabytes, money
from autoprompt.science.tags import read_answer
from autoprompt.text.names import counted

_STYLES = {"Observation": "cyan", "Conclusion": "bold green", "warning": "yellow"}
_LONGEST = 160  # characters of a part in one line
_LINES_SHOWN = 14  # of the newest parts, in the panel


@dataclass(slots=True)
class PassView:
    """What is known of a running investigation. Feed it events with `add`."""

    run_id: str = ""
    run_dir: str = ""
    model: str = ""
    max_iterations: int = 0
    budget: Mapping[str, Any] = field(default_factory=dict)
    doing: str = "looking at the data"
    spent: Mapping[str, Any] = field(default_factory=dict)
    lines: list[tuple[str, str]] = field(default_factory=list)
    sent_to: list[Mapping[str, Any]] = field(default_factory=list)
    started: float = field(default_factory=time.monotonic)

    def add(self, event: Mapping[str, Any]) -> list[tuple[str, str]]:
        """Take in one event; the (kind, line) pairs that tell of it."""
        self.spent = event.get("spent", self.spent)
        told = list(self._told(event))
        self.lines += told
        return told

    def _told(self, event: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
        match event["event"]:
            case kind if kind == SENDS_TO:
                self.sent_to = event["to"]
                for line in sentences(event):
                    yield SENDS_TO, line
            case "investigation_started":
                for name in ("run_id", "run_dir", "model", "max_iterations", "budget"):
                    setattr(self, name, event[name])
                verb = "resumed" if event["resumed"] else "started"
                yield "", f"run {self.run_id} {verb}: {self.model}; sandbox: {event['sandbox']}"
            case "pass_started":
                self.doing = f"pass {event['number']} of {event['of']}: the model writes"
                yield "", f"pass {event['number']} of {event['of']}"
            case "conclusion_started":
                self.doing = "the model concludes"
                yield "", "conclusion"
            case "pass_answered":
                for section in read_answer(event["text"]).sections:
                    yield section.tag, f"  {section.tag}: {_line(section.text)}"
                if event["has_own_observation"]:
                    yield "warning", "  the model wrote an Observation of its own: cut, with all behind it"
            case "experiment_started":
                self.doing = f"pass {event['number']} of {event['of']}: the experiment runs"
            case "observation":
                yield "Observation", f"  Observation: {_line(event['observation'])}"
                files = f"; new files: {', '.join(event['new_files'])}" if event["new_files"] else ""
                yield "", f"  exit code {event['exit_code']}, {event['duration_s']:.1f} s{files}"
            case "weights_progress":
                done, total = event["done_bytes"], event["total_bytes"]
                self.doing = f"{event['what']}: {megabytes(done)} of {megabytes(total)}"
            case "warning":
                yield "warning", f"warning: {event['message']}"

    @property
    def totals(self) -> str:
        calls = self.spent.get("calls", 0)
        cap = self.budget.get("max_calls")
        tokens = counted(self.spent.get("tokens", 0), "token")
        cost = money(self.spent.get("cost_usd", 0.0))
        sent = f"{calls:,} of {counted(cap, 'call')}" if cap else counted(calls, "call")
        return f"{sent}, {tokens}, cost {cost}, {duration(time.monotonic() - self.started)}"


@contextmanager
def watching_passes(console: Console, *, quiet: bool) -> Iterator[tuple[PassView, OnEvent]]:
    """What to give to `on_event`, and the view that it keeps."""
    view = PassView()

    def show(wanted: Callable[[str], bool]) -> OnEvent:
        def emit(event: dict[str, Any]) -> None:
            for kind, line in view.add(event):
                if wanted(kind):
                    console.print(Text(clean(line), _STYLES.get(kind, "")))

        return emit

    if quiet:
        yield view, show(lambda kind: kind in ("warning", SENDS_TO))
    elif console.is_terminal and not console.is_dumb_terminal:
        with Live(_Panel(view), console=console, refresh_per_second=4, transient=True):
            yield view, show(lambda kind: kind in ("warning", SENDS_TO))
    else:
        yield view, show(lambda _: True)


class _Panel:
    """Renders the view anew each time that it is asked."""

    def __init__(self, view: PassView) -> None:
        self._view = view

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield pass_panel(self._view, width=options.max_width - 3)


def pass_panel(view: PassView, *, width: int | None = None) -> RenderableType:
    """The live panel: what is being done, the newest parts, the totals."""
    parts: list[RenderableType] = [Text(clean(view.doing), "bold"), Text()]
    parts += [
        Text(clean(line), _STYLES.get(kind, "dim"), no_wrap=True, overflow="ellipsis")
        for kind, line in view.lines[-_LINES_SHOWN:]
    ]
    parts += [Text(), Text(view.totals)]
    title, subtitle = Text(clean(f"autoprompt science {view.run_id}".rstrip())), Text(clean(view.model))
    return Panel(
        Group(*parts), title=title, subtitle=subtitle, title_align="left", subtitle_align="right", width=width
    )


def _line(text: str) -> str:
    joined = " ".join(text.split())
    return joined if len(joined) <= _LONGEST else joined[: _LONGEST - 1] + "…"
