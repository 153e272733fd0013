"""The page of a run: one file that needs nothing else, opened from the disk; and its plot as a file.

Jinja2 fills the templates and escapes every value. Style and script are ours and are in the page under the
hash that its content security policy names, so that nothing else in it can style or run; the rows of the
table are inert JSON.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from autoprompt import __version__
from autoprompt.errors import ConfigError, InputError, Problem, command
from autoprompt.evaluation.task import source_form
from autoprompt.report import numbers, wording
from autoprompt.report.diff import Kind, Piece, diff_words, is_rewritten
from autoprompt.report.plot import Line, describe, make_front, make_intervals, make_plot
from autoprompt.report.records import Answer, ComparedRow
from autoprompt.report.summary import RunSummary, is_set
from autoprompt.report.trials import TrialsSummary, shared_settings
from autoprompt.runs.folder import RunFolder
from autoprompt.settings.records import has_address
from autoprompt.text import display
from autoprompt.text.files import to_json
from autoprompt.text.machine import install_extra
from autoprompt.text.names import counted

if TYPE_CHECKING:
    from jinja2 import Environment
    from markupsafe import Markup


# Of a page of 8 MB. Longer texts are cut, and the page says so; the run's folder has them whole.
MOST_CHARACTERS = 4_000_000
LONGEST_TEXT = 4_000
SHORTEST_CUT = 120
# More rows than that are not read by anybody; those that say something come first.
MOST_ROWS = 20_000
_RANK = {"broken": 0, "fixed": 1, "lost": 2, "wrong": 3, "right": 4}
_LABELS_IN_FILTER = 100
_SHORT = 12  # characters of a label that fit a narrow column

# How an answer is marked: right, wrong, unread, lost.
RIGHT, WRONG, UNREAD, LOST = range(4)
_HERE = Path(__file__).parent
NARROW = 350.0  # drawing for a phone: letters are as large as in the wide one
_STATIC_ROWS = 40  # rows in the page itself, for readers without script and for the first view
_LONGEST_PROMPT = 60_000
_SIGNS: dict[Kind, str] = {"added": "added: ", "removed": "removed: "}
_ZOOM = 2.0  # pixels for each unit of the drawing: sharp on today's screens
_SVG = {"output": "plot.svg"}
_AS_SVG = "An SVG needs nothing: give {output}."
_PROBE = '<svg xmlns="http://www.w3.org/2000/svg" width="40" height="20"><style>{}</style>{}</svg>'


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
        shown=display.shown,
        one_line=display.one_line,
        explained=_explained,
        flags=_flags,
        ended=wording.ended,
        lang=display.language,
        words=lambda name: str(name).replace("_", " "),
        describe=describe,
        changes=_changes,
        pairs=lambda turns: [(turn.role, turn.shown) for turn in turns],
    )
    made.globals["version"] = __version__
    return made


def _explained(text: str) -> Markup:
    """Return a sentence of ours as HTML: explained words lead to their explanation, commands are code."""
    from markupsafe import Markup, escape

    linked: set[str] = set()

    def link(found: re.Match[str]) -> str:
        if found["code"]:
            return f"<code>{found['code']}</code>"
        name = next(name for name in _EXPLAINED if found[_group(name)])
        if name in linked:
            return found[0]
        linked.add(name)
        return f'<a href="#word-{name.replace(" ", "-").replace("%", "")}">{found[0]}</a>'

    return Markup(_WORDS.sub(link, str(escape(text))))


def _flags(text: str) -> Markup:
    """Return a command as HTML in which no line breaks within a flag."""
    from markupsafe import Markup, escape

    return Markup(re.sub(r"(?<=\s)(--[a-z-]+)", r'<span class="flag">\1</span>', str(escape(text))))


def _group(name: str) -> str:
    return "word_" + re.sub(r"\W", "_", name)


_EXPLAINED = {name: re.escape(name) + "s?" for name, _ in wording.WORDS} | {
    "p": r"p(?= [=<&]|\N{NO-BREAK SPACE}[=<&])",
    "race": r"races?|raced",
    "score": r"score",
    "fresh rows": r"fresh rows?|unseen rows?",
}
_WORDS = re.compile(
    r"`(?P<code>[^`]+)`|"
    + "|".join(rf"(?P<{_group(name)}>\b(?:{pattern})\b)" for name, pattern in _EXPLAINED.items()),
)


def _changes(change: str, longest: int | None = None) -> list[Piece]:
    """Return the parts of a candidate's `change`, such as `added: ... | removed: ...`.

    Another text is one part.
    """
    return [_change(part) for part in display.shown(change, longest).split(" | ")]


def _change(part: str) -> Piece:
    for kind, sign in _SIGNS.items():
        if part.startswith(sign):
            return Piece(kind, part.removeprefix(sign))
    return Piece("same", part)


@cache
def _templates() -> Environment:
    return environment()


def page(run: RunSummary) -> str:
    """Return the whole page as HTML, UTF-8."""
    return _render("page.html.j2", parts(run))


def trials_page(trials: TrialsSummary) -> str:
    """Return the page that compares many runs."""
    return _render("trials_page.html.j2", trials_parts(trials))


def trials_parts(trials: TrialsSummary) -> dict[str, Any]:
    """Return what `trials.html.j2` needs."""
    lines = [_trial_line(trial.label, trial.run) for trial in trials.trials if trial.run is not None]
    return {
        "trials": trials,
        "title": f"{display.one_line(trials.name, 60)}: {trials.headline}",
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
    """Return the style of all pages."""
    return (_HERE / "assets" / "report.css").read_text(encoding="utf-8")


def script() -> str:
    """Return the script of all pages: table of rows, keys on the plot.

    Nothing is lost without it but comfort.
    """
    return (_HERE / "assets" / "report.js").read_text(encoding="utf-8")


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def parts(run: RunSummary) -> dict[str, Any]:
    """Return what the parts of the page need: `verdict.html.j2`, `scores.html.j2` and so on."""
    from markupsafe import Markup

    kinds = ("original", "best", "other")
    sides = [Line(name, kind, side) for (name, side), kind in zip(run.tested_sides, kinds, strict=False)]
    data = rows_data(run)
    return {
        "run": run,
        "title": f"{display.one_line(run.name, 60) or _dataset(run)}: {run.headline}",
        "dataset": _dataset(run),
        "plots": [plot for plot in (make_plot(run), make_plot(run, NARROW, 300.0)) if plot],
        "fronts": [made for made in (make_front(run), make_front(run, NARROW)) if made],
        "intervals": [made for made in (make_intervals(sides), make_intervals(sides, NARROW)) if made],
        "diffs": _diffs(run),
        "is_set": is_set,
        "plain": wording.plain(run.result),
        **_headline(run),
        "words": wording.WORDS,
        "snippets": snippets(run),
        "table": {**data, "rows": data["rows"][:_STATIC_ROWS], "kept": len(data["rows"])},
        "rows_json": Markup(display.inert_json(data)) if data["rows"] else "",
        "counts": _counts(run),
        "family": [c for c in (run.candidate(i) for i in run.lineage) if c is not None],
    }


def _headline(run: RunSummary) -> dict[str, Any]:
    """Return the headline of the page, and apart from it what scores as much without a model.

    level_first: whether that comes first, as in the sentence for the terminal.
    """
    level = wording.level(run.result)
    said = run.headline
    if not level or level.removesuffix(".") not in said:
        return {"headline": said, "level": "", "level_first": False}
    alone = said.replace(level, "").replace(level.removesuffix("."), "").strip().removesuffix(".")
    return {"headline": alone, "level": level, "level_first": said.startswith(level)}


def _trial_line(label: str, run: RunSummary) -> Line:
    if run.is_unchanged:
        return Line(label, "original", run.result.original)
    return Line(label, "best", run.result.best, run.result.original.score)


def _dataset(run: RunSummary) -> str:
    return display.one_line(Path(run.dataset).name, 60) if run.dataset else run.run_id


def _diffs(run: RunSummary) -> list[dict[str, Any]]:
    """Return one for each component of the prompt: name, pieces, and whether it was written anew."""
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


def rows_data(run: RunSummary) -> dict[str, Any]:
    """Return what the script of the page makes its table of, as plain JSON.

    rows: [state, expected, answer before, its mark, answer after, its mark, input, reason, turns]; a mark is
        None where the row was not run under that prompt. turns: [role, text] of each turn of a conversation,
        whose last question the input is; missing for other inputs.
    """
    kept = _most_telling(run.rows)
    longest = _longest(kept)
    labels = Counter(row.expected for row in run.rows)
    return {
        # Of a label, the reason would only say expected and given again.
        "rows": [_cells(row, longest, has_reason=not run.confusion) for row in kept],
        "total": len(run.rows),
        "labels": [display.shown(label, 80) for label, _ in labels.most_common()]
        if _are_labels(labels, run)
        else [],
        "lang": display.language(" ".join(row.input[:200] for row in kept[:50])),
        "areShort": max(map(len, labels), default=99) <= _SHORT and bool(run.confusion),
        "hasBefore": any(row.original is not None for row in kept),
    }


def _are_labels(labels: Counter[str], run: RunSummary) -> bool:
    return len(labels) <= _LABELS_IN_FILTER and (bool(run.confusion) or 2 * len(labels) <= len(run.rows))


def _most_telling(rows: Sequence[ComparedRow]) -> list[ComparedRow]:
    if len(rows) <= MOST_ROWS:
        return list(rows)
    order = sorted(range(len(rows)), key=lambda number: _RANK[rows[number].state])[:MOST_ROWS]
    return [rows[number] for number in sorted(order)]


def _longest(rows: Sequence[ComparedRow]) -> int:
    """Return the cut at which all rows together are small enough."""
    longest = LONGEST_TEXT
    lengths = [len(text) for row in rows for text in _texts(row)]
    while longest > SHORTEST_CUT and sum(min(n, longest) for n in lengths) > MOST_CHARACTERS:
        longest //= 2
    return longest


def _texts(row: ComparedRow) -> list[str]:
    answers = [side for side in (row.original, row.best) if side is not None]
    turns = (turn.shown for turn in row.turns)
    return [row.input, *turns, row.expected, *(_answer_text(side) for side in answers)]


def _cells(row: ComparedRow, longest: int, *, has_reason: bool) -> list[Any]:
    before, after = row.original, row.best
    reason = after.reason if after is not None and has_reason else ""
    return [
        row.state,
        display.shown(row.expected, longest),
        *_answer_cells(before, longest),
        *_answer_cells(after, longest),
        display.shown(row.input, longest),
        display.shown(reason, 300),
        *([[[turn.role, display.shown(turn.shown, longest)] for turn in row.turns]] if row.turns else []),
    ]


def _answer_cells(answer: Answer | None, longest: int) -> tuple[str, int | None]:
    if answer is None:
        return "", None
    return display.shown(_answer_text(answer), longest), _mark(answer)


def _answer_text(answer: Answer) -> str:
    return answer.error if answer.error is not None else answer.text


def _mark(answer: Answer) -> int:
    if answer.error is not None:
        return LOST
    if answer.is_unparsed:
        return UNREAD
    return RIGHT if answer.is_correct else WRONG


def svg(run: RunSummary, *, follows_theme: bool = True) -> str:
    """Return the plot as an SVG file. follows_theme: dark if the reader's system is, as in GitHub."""
    from markupsafe import Markup

    drawing = make_plot(run)
    if drawing is None:
        said = f"run {run.run_id} has no scored candidate to plot yet"
        raise InputError(Problem("report.nothing-to-plot", said, fix="Wait for its first round."))
    style = Markup(_style(follows_theme=follows_theme))
    context = {"run": run, "drawing": drawing, "style": style}
    return environment().get_template("plot_file.svg.j2").render(context) + "\n"


def _style(*, follows_theme: bool = False) -> str:
    style = (_HERE / "assets" / "plot.css").read_text(encoding="utf-8")
    return style if follows_theme else style.partition("@media")[0]


def png(run: RunSummary) -> bytes:
    """Return the plot as PNG, light, 1440 pixels wide.

    Drawn by resvg out of the same SVG: 1.4 MB without dependencies, where matplotlib takes 30 MB, and a
    second chart that would differ from the first. Raises ConfigError without it, and where there is no font.
    """
    try:
        import resvg_py
    except ImportError as error:
        fix = f"Install it: {install_extra('report')}. {_AS_SVG}"
        raise ConfigError(Problem("report.no-resvg", "a PNG needs resvg", fix=fix, settings=_SVG)) from error
    drawn = svg(run, follows_theme=False)
    probes = (_PROBE.format(_style(), text) for text in ("", '<text y="15">Ag</text>'))
    if len({bytes(resvg_py.svg_to_bytes(svg_string=probe)) for probe in probes}) == 1:
        said = "no font on this machine, so a PNG would lack its numbers"
        fix = f"Install one: apt-get install fonts-dejavu-core. {_AS_SVG}"
        raise ConfigError(Problem("report.no-font", said, fix=fix, settings=_SVG))
    return bytes(resvg_py.svg_to_bytes(svg_string=drawn, zoom=_ZOOM, background="#ffffff"))


# --- how to use the winner: commands that write it, lines of Python that send it ---

_IMPORT = "from autoprompt import Exported"
_LOAD = 'prompt = Exported.load("prompt.yaml")'


@dataclass(frozen=True, slots=True)
class _Snippet:
    """Something to copy: commands or Python."""

    title: str
    text: str


def snippets(run: RunSummary) -> list[_Snippet]:
    """Return what uses the best prompt of a finished run; nothing of another."""
    if not run.has_result:
        return []
    name, form = RunFolder(run.path).reference, source_form(run.settings)
    measured = _Snippet("Score it on other rows", command("eval", from_=name, dataset="FILE"))
    if form is not None:
        applied = [_Snippet("See it in your source", command("runs apply", name))]
        return [
            *(applied if form.name == "program" else []),
            _Snippet("Write it to a file", command("runs export", name, to=form.file_name)),
            measured,
        ]
    written = _Snippet("Write it to a file", command("runs export", name, to="prompt.yaml"))
    return [written, *_python(run), measured]


def _python(run: RunSummary) -> list[_Snippet]:
    """Return Python that sends the exported prompt, for each client."""
    fields = [to_json(field) for field in _fields(run)]
    row = "{" + ", ".join(f'{field}: "..."' for field in fields) + "}"
    if not _has_address(run):
        text = f"{_IMPORT}\n\n{_LOAD}\nmessages = prompt.messages({row})\nprint(messages)"
        return [_Snippet("Messages for your client", text)]
    address = run.settings.get("base_url")
    key = 'os.environ.get("OPENAI_API_KEY", "none")'  # an endpoint may need none, the clients do
    at = f"base_url={to_json(address)}, api_key={key}" if address else ""
    head = "import os\n\n" if address else ""
    model = f"model={to_json(run.model or 'MODEL')}"
    chat = (
        f"{head}from langchain_openai import ChatOpenAI\n{_IMPORT}\n\n{_LOAD}\n"
        f"model = ChatOpenAI({', '.join(filter(None, (model, at)))})\n"
    )
    state = ", ".join(f"{field}: state[{field}]" for field in fields)
    return [
        _Snippet(
            "OpenAI",
            f"{head}from openai import OpenAI\n{_IMPORT}\n\n{_LOAD}\nclient = OpenAI({at})\n"
            f"reply = client.chat.completions.create(\n    {model}, messages=prompt.messages({row})\n)\n"
            "print(reply.choices[0].message.content)",
        ),
        _Snippet("LangChain", f"{chat}print(model.invoke(prompt.messages({row})).content)"),
        _Snippet(
            "LangGraph",
            f"{chat}\n\ndef answer(state):\n    row = {{{state}}}\n"
            '    return {"answer": model.invoke(prompt.messages(row)).content}',
        ),
    ]


def _fields(run: RunSummary) -> tuple[str, ...]:
    """Return the fields of a row that the best prompt is filled in with, or else the input's."""
    from autoprompt.measure.program import placeholders  # reads answers: not to list runs

    field = str(run.settings.get("input_field") or "input")
    best = run.best_candidate
    known = (field, *RunFolder(run.path).read_fields())
    return (placeholders(best.prompt, known) if best is not None else ()) or (field,)


def _has_address(run: RunSummary) -> bool:
    """Return whether the run's model can be asked by other programs: the embedded one cannot."""
    model, address = run.settings.get("model"), run.settings.get("base_url")
    return has_address(model, address) or (model is None and RunFolder(run.path).has_own_models())
