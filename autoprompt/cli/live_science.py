"""The live view of an investigation: its passes as they come."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from rich.console import RenderableType
from rich.text import Text

from autoprompt.cli import clean
from autoprompt.cli.live import Line, LiveView, time_text, warning_of
from autoprompt.report.numbers import megabytes
from autoprompt.science.tags import read_answer

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
        match event["event"]:
            case "investigation_started":
                self.run_id, self.run_dir, self.model = event["run_id"], event["run_dir"], event["model"]
                self.caps = event["budget"]
                verb = "resumed" if event["resumed"] else "started"
                yield Line(f"run {self.run_id} {verb}: {self.model}; sandbox: {event['sandbox']}")
            case "pass_started":
                self._begin(f"pass {event['number']} of {event['of']}: the model writes")
                yield Line(f"pass {event['number']} of {event['of']}")
            case "conclusion_started":
                self._begin("the model concludes")
                yield Line("conclusion")
            case "pass_answered":
                for section in read_answer(event["text"]).sections:
                    yield _part(section.tag, section.text)
                if event["has_own_observation"]:
                    said = "  the model wrote its own Observation; removed it and what followed"
                    yield Line(said, "always", "yellow")
            case "experiment_started":
                self._begin(f"pass {event['number']} of {event['of']}: the experiment runs")
            case "observation":
                yield _part("Observation", event["observation"])
                files = f"; new files: {', '.join(event['new_files'])}" if event["new_files"] else ""
                yield Line(f"  exit code {event['exit_code']}, {event['duration_s']:.1f} s{files}")
            case "warning":
                yield warning_of(event)

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
