"""A check in GitHub Actions: annotations as workflow commands, and the step's summary.

Format: https://docs.github.com/actions/reference/workflow-commands-for-github-actions. Of one step ten errors
are shown, and a summary may hold 1 MiB.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator, Mapping
from pathlib import Path

from autoprompt.gate.markdown import to_markdown
from autoprompt.gate.report import CheckReport
from autoprompt.gate.text import one_line

MOST_ANNOTATIONS = 10  # of each kind; GitHub shows no more of a step
_MOST_BYTES = 1_000_000
_LONGEST = 300


def annotate(report: CheckReport, environ: Mapping[str, str] | None = None) -> Iterator[str]:
    """One workflow command a line: the verdict first, then the rows that failed."""
    file = _file(report.dataset_path, os.environ if environ is None else environ)
    title = "Prompt check"
    if report.is_passed:
        yield command("notice", report.message, title=title)
        return
    yield command("error", report.message, title=title)
    failed = [view for view in report.changed() if view.is_failure]
    for view in failed[: MOST_ANNOTATIONS - 1]:
        example = view.case.example
        was = "" if view.before is None else f" (was {view.before:g}, is {view.now:g})"
        said = (
            f"expected {one_line(example.target_text, _LONGEST)}, "
            f"got {one_line(view.case.prediction, _LONGEST)}{was}: {one_line(example.input_text, _LONGEST)}"
        )
        what = "must pass" if view.must_pass else "broke"
        yield command(
            "error", said, file=file, line=example.line, title=f"{title}: row {view.case.name} {what}"
        )


def command(kind: str, message: str, **properties: object) -> str:
    """`::error file=a,line=1::message`, escaped as the documentation asks."""
    given = ",".join(f"{name}={_property(str(value))}" for name, value in properties.items())
    return f"::{kind} {given}::{_data(message)}" if given else f"::{kind}::{_data(message)}"


def silenced() -> tuple[str, str]:
    """Two lines between which the runner obeys nothing: a row may hold `::add-mask::` and the like."""
    token = secrets.token_hex(16)
    return f"::stop-commands::{token}", f"::{token}::"


def write_summary(report: CheckReport, environ: Mapping[str, str] | None = None) -> bool:
    """Add the Markdown to the step's summary. False where no step has one. Raises OSError."""
    path = (os.environ if environ is None else environ).get("GITHUB_STEP_SUMMARY")
    if not path:
        return False
    file = Path(path)
    free = _MOST_BYTES - (file.stat().st_size if file.exists() else 0)
    text = _fitting(report, free)
    with file.open("a", encoding="utf-8", errors="replace") as stream:
        stream.write(text)
    return True


def _fitting(report: CheckReport, most_bytes: int) -> str:
    rows = 200
    while True:
        text = to_markdown(report, most_rows=rows) + "\n"
        if rows == 0 or len(text.encode(errors="replace")) <= most_bytes:
            return text
        rows //= 2


def _file(path: str, environ: Mapping[str, str]) -> str:
    """From the repository's root, as GitHub looks for it; a file outside of it keeps its path.

    Both by their names and not resolved: a dataset may be a link to what lies outside of the repository.
    """
    absolute = Path(os.path.abspath(path))  # noqa: PTH100 - takes `..` out, as Path.absolute does not
    given = environ.get("GITHUB_WORKSPACE")
    root = Path(os.path.abspath(given)) if given else _repository(Path.cwd())  # noqa: PTH100
    near = absolute.relative_to(root) if absolute.is_relative_to(root) else Path(os.path.normpath(path))
    return near.as_posix()


def _repository(folder: Path) -> Path:
    """The nearest folder around `folder` with a checkout of git; without one, `folder` itself."""
    return next((near for near in (folder, *folder.parents) if (near / ".git").exists()), folder)


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
