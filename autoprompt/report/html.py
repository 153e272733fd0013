"""The page of a run: one file that needs nothing else, opened from the disk.

Jinja2 fills the templates and escapes every value. Style and script are ours and stand in the page under the
hash that its content security policy names, so that nothing else in it can style or run; the rows of the
table are inert JSON.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from autoprompt import __version__
from autoprompt.report import numbers, texts, wording
from autoprompt.report.diff import Kind, Piece, diff_words, is_rewritten
from autoprompt.report.plot import Line, describe, make_intervals, make_plot
from autoprompt.report.reproduce import is_set
from autoprompt.report.summary import RunSummary
from autoprompt.report.table import rows_data
from autoprompt.report.trials import TrialsSummary, shared_settings
from autoprompt.text.names import counted

if TYPE_CHECKING:
    from jinja2 import Environment

_HERE = Path(__file__).parent
NARROW = 350.0  # drawing for a phone: letters are as large as in the wide one
_STATIC_ROWS = 40  # rows that stand in the page for a reader without script, and for the first sight
_LONGEST_PROMPT = 60_000
_SIGNS: dict[Kind, str] = {"added": "added: ", "removed": "removed: "}


def environment(extra_folder: Path | None = None) -> Environment:
    """Templates, those of `extra_folder` before the report's. Values are escaped; no name may be unknown."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    folders = [folder for folder in (extra_folder, _HERE / "templates") if folder is not None]
    made = Environment(
        loader=FileSystemLoader(folders),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters.update(
        score=numbers.score,
        signed=numbers.signed,
        interval=numbers.interval,
        p_value=lambda value: numbers.p_value(value).replace(" ", "\N{NO-BREAK SPACE}"),
        wrong_rows=wording.wrong_rows,
        p_number=numbers.p_number,
        times=numbers.times,
        count=numbers.count,
        counted=counted,
        money=numbers.money,
        duration=numbers.duration,
        shown=texts.shown,
        one_line=texts.one_line,
        ended=wording.ended,
        lang=texts.language,
        words=lambda name: str(name).replace("_", " "),
        describe=describe,
        changes=_changes,
        pairs=lambda turns: [(turn.role, turn.shown) for turn in turns],
    )
    made.globals["version"] = __version__
    return made


def _changes(change: str, longest: int | None = None) -> list[Piece]:
    """The parts of a candidate's `change`, such as `added: ... | removed: ...`; another text is one part."""
    return [_change(part) for part in texts.shown(change, longest).split(" | ")]


def _change(part: str) -> Piece:
    for kind, sign in _SIGNS.items():
        if part.startswith(sign):
            return Piece(kind, part.removeprefix(sign))
    return Piece("same", part)


@cache
def _templates() -> Environment:
    return environment()


def page(run: RunSummary) -> str:
    """The whole page as HTML, UTF-8."""
    return _render("page.html.j2", parts(run))


def trials_page(trials: TrialsSummary) -> str:
    """The page that compares many runs."""
    return _render("trials_page.html.j2", trials_parts(trials))


def trials_parts(trials: TrialsSummary) -> dict[str, Any]:
    """What `trials.html.j2` needs."""
    lines = [_trial_line(trial.label, trial.run) for trial in trials.trials if trial.run is not None]
    return {
        "trials": trials,
        "title": f"{texts.one_line(trials.name, 60)}: {trials.headline}",
        "intervals": [made for made in (make_intervals(lines, 820.0), make_intervals(lines, NARROW)) if made],
        "shared": shared_settings(trials),
    }


def _render(template: str, context: Mapping[str, Any]) -> str:
    from markupsafe import Markup

    style, code = css(), script()
    policy = (
        f"default-src 'none'; style-src '{_hash(style)}'; script-src '{_hash(code)}'; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )
    made = _templates().get_template(template)
    return made.render({**context, "policy": policy, "css": Markup(style), "script": Markup(code)})


def css() -> str:
    """The style of all pages."""
    return (_HERE / "assets" / "report.css").read_text(encoding="utf-8")


def script() -> str:
    """The script of all pages: table of rows, keys on the plot. Nothing is lost without it but comfort."""
    return (_HERE / "assets" / "report.js").read_text(encoding="utf-8")


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def parts(run: RunSummary) -> dict[str, Any]:
    """What the parts of the page need: `verdict.html.j2`, `scores.html.j2` and so on."""
    from markupsafe import Markup

    sides = [Line("original", "original", run.original), Line("best", "best", run.best)]
    data = rows_data(run)
    return {
        "run": run,
        "title": f"{_dataset(run)}: {run.headline}",
        "dataset": _dataset(run),
        "plots": [plot for plot in (make_plot(run), make_plot(run, NARROW, 300.0)) if plot],
        "intervals": [made for made in (make_intervals(sides), make_intervals(sides, NARROW)) if made],
        "diffs": _diffs(run),
        "is_set": is_set,
        "table": {**data, "rows": data["rows"][:_STATIC_ROWS], "kept": len(data["rows"])},
        "rows_json": Markup(texts.inert_json(data)) if data["rows"] else "",
        "counts": _counts(run),
        "family": [c for c in (run.candidate(i) for i in run.lineage) if c is not None],
    }


def _trial_line(label: str, run: RunSummary) -> Line:
    if run.is_unchanged:
        return Line(label, "original", run.original)
    return Line(label, "best", run.best, run.original.score)


def _dataset(run: RunSummary) -> str:
    return texts.one_line(Path(run.dataset).name, 60) if run.dataset else run.run_id


def _diffs(run: RunSummary) -> list[dict[str, Any]]:
    """One for each component of the prompt: name, pieces, and whether it was written anew."""
    original, best = run.original_candidate, run.best_candidate
    if original is None or best is None:
        return []
    names = dict.fromkeys((*original.components, *best.components))
    return [
        _component(name, original.components.get(name, ""), best.components.get(name, "")) for name in names
    ]


def _component(name: str, old: str, new: str) -> dict[str, Any]:
    pieces = diff_words(old[:_LONGEST_PROMPT], new[:_LONGEST_PROMPT])
    return {
        "name": name,
        "pieces": pieces,
        "is_changed": old != new,
        "is_rewritten": is_rewritten(pieces),
        "is_new": all(piece.kind != "same" for piece in pieces),
        "old": old,
        "new": new,
        "before": [piece for piece in pieces if piece.kind != "added"],
        "after": [piece for piece in pieces if piece.kind != "removed"],
    }


def _counts(run: RunSummary) -> dict[str, int]:
    """Rows by what the table filters for."""
    answers = [row.best for row in run.rows if row.best is not None]
    return {
        "all": len(run.rows),
        "fixed": run.count("fixed"),
        "broken": run.count("broken"),
        "wrong": sum(not answer.is_correct for answer in answers),
        "unparsed": sum(answer.is_unparsed or answer.error is not None for answer in answers),
    }
