"""A run in Markdown, for a pull request: verdict, numbers, changes, the rows that changed."""

from __future__ import annotations

import re
from collections.abc import Iterator

from autoprompt.report import numbers, wording
from autoprompt.report.diff import diff_words, is_rewritten
from autoprompt.report.records import Answer, ComparedRow
from autoprompt.report.summary import RunSummary
from autoprompt.report.trials import TrialsSummary
from autoprompt.runs.result import Round
from autoprompt.text.display import one_line, shown
from autoprompt.text.names import counted

_ROWS_SHOWN = 10
_DEMOS_SHOWN = 5
_LONGEST_CELL = 160
_LONGEST_PROMPT = 6000
_ROUNDS_SHOWN = 15
_LONGEST_SUGGESTIONS = 600
# What Markdown, HTML in it, or GitHub (mentions, issue numbers, links) would make of a text.
_SPECIAL = re.compile(r"([\\`*_{}\[\]#|<>~@&$])")
_LINE_START = re.compile(r"^\s*(?=[-+=])|(?<=^\d)(?=[.)])")
_LINK = re.compile(r"(?i)\b(https?|ftp|www)([:.])")


def markdown(run: RunSummary) -> str:
    """Return the whole page, ending with a line end. Texts of models and datasets are literal in it."""
    return "\n".join(_lines(run)).rstrip() + "\n"


def _lines(run: RunSummary) -> Iterator[str]:
    yield f"### {literal(run.name, 60)}{': ' if run.name else ''}{literal(run.title, 400)}"
    yield ""
    if run.notes:
        yield literal(run.notes, 600)
        yield ""
    yield literal(run.explanation, 600)
    yield ""
    yield from _scores(run)
    for line in run.end_lines:
        yield literal(line, 600)
        yield ""
    if run.confirmation:
        yield literal(run.confirmation, 600)
        yield ""
    yield from _trade_off(run)
    yield from _prompt(run)
    yield from _rounds(run)
    yield from _rows(run)
    yield from _facts(run)


def _scores(run: RunSummary) -> Iterator[str]:
    if run.result.best.score is None:
        return
    columns = "score | 95% interval | rows | tokens per call | 1,000 calls"
    yield f"| {literal(run.metric, 60)} on the sealed test | {columns} |"
    yield "| --- | ---: | ---: | ---: | ---: | ---: |"
    for name, side in run.tested_sides:
        yield (
            f"| {name} | {numbers.score(side.score)} | {numbers.interval(side.ci95)} | {side.n} | "
            f"{numbers.count(side.tokens_per_call)} | {side.cost.both if side.cost else ''} |"
        )
    if run.gain is not None:
        grown = numbers.times(
            numbers.ratio(run.result.best.tokens_per_call, run.result.original.tokens_per_call)
        )
        yield f"| difference | {numbers.signed(run.gain)} | {numbers.interval(run.gain_ci95)} | | {grown} | |"
    yield ""


def _trade_off(run: RunSummary) -> Iterator[str]:
    if run.result.trade_off is None:
        return
    yield f"{run.trade_off_title}:"
    yield ""
    yield "| candidate | score in the race | 1,000 calls | tokens per call | demonstrations |"
    yield "| --- | ---: | ---: | ---: | ---: |"
    for found in run.result.trade_off.candidates:
        sizes = (numbers.count(found.tokens), str(found.demos))
        cells = (numbers.score(found.score), found.shown_cost, *sizes)
        yield f"| {literal(found.name, 40)} | {' | '.join(cells)} |"
    yield ""


def _prompt(run: RunSummary) -> Iterator[str]:
    original, best = run.original_candidate, run.best_candidate
    if original is None or best is None:
        return
    if run.is_unchanged:
        yield "The prompt is unchanged."
        yield ""
        return
    for name in dict.fromkeys((*original.components, *best.components)):
        old, new = original.components.get(name, ""), best.components.get(name, "")
        if old != new:
            title = (
                "What changed in the prompt"
                if len(best.components) == 1
                else f"What changed in {literal(name, 60)}"
            )
            yield f"**{title}**"
            yield ""
            yield from _diff(old, new)
    if best.demos:
        yield f"**{counted(len(best.demos), 'demonstration')}** are shown before each row, e.g."
        yield ""
        for demo in best.demos[:_DEMOS_SHOWN]:
            yield f"- {literal(demo.asked, _LONGEST_CELL)} → {literal(demo.output, _LONGEST_CELL)}"
        yield ""


def _rounds(run: RunSummary) -> Iterator[str]:
    if not run.rounds:
        return
    number = sum(one.split == "train" for one in run.rounds)
    yield f"<details><summary>{counted(number, 'round')}: prompt, errors, suggestions, scores</summary>"
    yield ""
    yield "| round | prompt | errors | score | validation | 1,000 calls |"
    yield "| --- | --- | ---: | ---: | ---: | ---: |"
    for one in run.rounds:
        name = literal(run.name_of(one.candidate), 40)
        wrong = wording.wrong_rows(one)
        scores = f"{numbers.score(one.score)} | {numbers.score(one.validation)}"
        cost = "" if one.cost is None else one.cost.shown(1000)
        yield f"| {_round_name(one)} | {name} | {wrong} | {scores} | {cost} |"
    yield ""
    for one in run.rounds[:_ROUNDS_SHOWN]:
        if one.suggestions:
            yield f"- **{_round_name(one)}**, suggestions: {literal(one.suggestions, _LONGEST_SUGGESTIONS)}"
        for case in one.error_cases:
            cells = [literal(case[name], _LONGEST_CELL) for name in ("ground_truth", "prediction", "input")]
            expected = f"expected {cells[0]}, " if case["ground_truth"] else ""
            yield f"- **{_round_name(one)}**, wrong: {expected}answered {cells[1]}: {cells[2]}"
    if len(run.rounds) > _ROUNDS_SHOWN:
        yield f"- ... the first {_ROUNDS_SHOWN} rounds; the others are in result.json"
    yield ""
    prompts = {one.candidate: one for one in run.rounds}
    for one in [*prompts.values()][:_ROUNDS_SHOWN]:
        demos = f", with {counted(one.demos, 'demonstration')}" if one.demos else ""
        yield f"Prompt {literal(run.name_of(one.candidate), 40)}{demos}:"
        yield ""
        yield "> " + _LINE_START.sub("\\\\", _literal_lines(shown(one.prompt, _LONGEST_SUGGESTIONS)))
        yield ""
    yield "</details>"
    yield ""


def _round_name(one: Round) -> str:
    return "test" if one.split == "test" else f"round {one.iteration}"


def trials_markdown(trials: TrialsSummary) -> str:
    """Many runs as one table."""
    names = trials.differing or ("trial",)
    heads = [*(literal(name.replace("_", " "), 40) for name in names), "verdict"]
    lines = [f"### {literal(trials.headline, 300)}", "", literal(trials.explanation, 600), ""]
    numbers_of = ("original", "best", "difference", "1,000 calls", "calls", "cost")
    lines += ["| " + " | ".join((*heads, *numbers_of)) + " |"]
    lines += ["| " + "--- | " * len(heads) + "---: | " * len(numbers_of)]
    for trial in trials.trials:
        cells = [trial.own.get(name, trial.name if name == "trial" else "–") for name in names]
        run = trial.run
        if run is None:
            cells += [
                f"{trial.status}: {trial.problem}" if trial.problem else trial.status,
                *["–"] * len(numbers_of),
            ]
        else:
            scores = (
                numbers.score(run.result.original.score),
                numbers.score(run.result.best.score),
                numbers.signed(run.gain),
            )
            best = run.result.best.cost
            costs = (
                "–" if best is None else best.shown,
                numbers.count(run.calls),
                numbers.money(run.cost_usd),
            )
            cells += [run.mark.lower(), *scores, *costs]
        lines.append("| " + " | ".join(literal(cell, _LONGEST_CELL) for cell in cells) + " |")
    return "\n".join(lines) + "\n"


def _diff(old: str, new: str) -> Iterator[str]:
    """By words where the texts are alike; else as a block of removed and added lines."""
    pieces = diff_words(old[:_LONGEST_PROMPT], new[:_LONGEST_PROMPT])
    if not is_rewritten(pieces):
        marks = {"same": ("", ""), "removed": ("<del>", "</del>"), "added": ("<ins>", "</ins>")}
        text = "".join(
            f"{marks[piece.kind][0]}{_literal_lines(piece.text)}{marks[piece.kind][1]}" for piece in pieces
        )
        # One line: a list, a heading or a rule can begin at the start of one only.
        yield "> " + _LINE_START.sub("\\\\", text)
        yield ""
        return
    lines = [f"- {line}" for line in shown(old, _LONGEST_PROMPT).splitlines()]
    lines += [f"+ {line}" for line in shown(new, _LONGEST_PROMPT).splitlines()]
    # A fence longer than any in the text, so that none of it ends the block.
    fence = "`" * max(3, 1 + max((len(ticks) for ticks in re.findall("`+", "\n".join(lines))), default=0))
    yield f"{fence}diff"
    yield from lines
    yield fence
    yield ""


def _literal_lines(text: str) -> str:
    return "<br>".join(_escaped(line) for line in shown(text).split("\n"))


def _rows(run: RunSummary) -> Iterator[str]:
    for state, title in (("fixed", "Fixed"), ("broken", "Broken")):
        rows = [row for row in run.rows if row.state == state]
        if not rows:
            continue
        cut = f", the first {_ROWS_SHOWN}" if len(rows) > _ROWS_SHOWN else ""
        yield f"<details><summary>{title}: {counted(len(rows), 'row')}{cut}</summary>"
        yield ""
        yield "| expected | original | best | input |"
        yield "| --- | --- | --- | --- |"
        yield from map(_row, rows[:_ROWS_SHOWN])
        yield ""
        yield "</details>"
        yield ""


def _row(row: ComparedRow) -> str:
    cells = (row.expected, _answer(row.original), _answer(row.best), row.input)
    return "| " + " | ".join(literal(cell, _LONGEST_CELL) for cell in cells) + " |"


def _answer(answer: Answer | None) -> str:
    if answer is None:
        return "–"
    return answer.error if answer.error is not None else answer.text


def _facts(run: RunSummary) -> Iterator[str]:
    took = f", {numbers.duration(run.result.seconds)}" if run.result.seconds is not None else ""
    tried = sum(not c.is_original for c in run.candidates)
    cost = literal(numbers.money(run.cost_usd), 20)
    yield (
        f"{literal(run.model, 80)} · {counted(run.calls, 'call')}, {numbers.tokens(run.usage)}, "
        f"cost {cost}{took} · {counted(tried, 'candidate')} tried · run {_code(run.run_id)}"
    )
    for warning in run.warnings:
        yield f"- warning: {literal(warning, 300)}"
    yield ""
    yield "Again: " + _code(shown(run.command))


def _code(text: str) -> str:
    """`text` as code in a line."""
    line = " ".join(text.split())
    fence = "`" * (1 + max((len(ticks) for ticks in re.findall("`+", line)), default=0))
    pad = " " if line.startswith("`") or line.endswith("`") else ""
    return f"{fence}{pad}{line}{pad}{fence}"


def literal(text: str, longest: int) -> str:
    """`text` in one line, every sign of it a sign and no markup, no link, no mention."""
    return _escaped(one_line(text, longest))


def _escaped(text: str) -> str:
    # A zero-width joiner inside would be copied along; an entity for the colon is not.
    return _LINK.sub(r"\1<!---->\2", _SPECIAL.sub(_entity, text))


def _entity(match: re.Match[str]) -> str:
    sign = match.group(1)
    return {
        "<": "&lt;",
        ">": "&gt;",
        "&": "&amp;",
        "|": "&#124;",
        "@": "&#64;",
        "#": "&#35;",
        "$": "&#36;",
    }.get(sign, f"\\{sign}")
