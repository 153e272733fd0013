"""The scientific analyst of an optimization: what the wrong rows share, found by tested hypotheses.

It stands above both engines, which do not know each other: the optimizer asks an `Analyst`, this one has the
scientific workflow test its hypotheses on the table of predictions.
"""

from __future__ import annotations

import contextvars
import csv
import hashlib
import io
import json
import statistics
import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import util
from pathlib import Path
from typing import Any

from autoprompt.errors import ConfigError, Place, Problem
from autoprompt.llm.client import Client
from autoprompt.llm.limits.budget import BudgetMeter
from autoprompt.optimizer.agents.analyst import AnalysisAgent, CountingAnalyst, count_errors, error_cases
from autoprompt.optimizer.search.plan import TRAIN_BATCH
from autoprompt.records import EvaluatedRow, OnEvent, warning_event
from autoprompt.runs.events import Experiment, Observed, read_event
from autoprompt.sandbox import Level, choose
from autoprompt.sandbox.folders import absolute
from autoprompt.science.findings import (
    Finding,
    best_cuts,
    causes,
    coded_conditions,
    confirmed_sentences,
    recount,
    stated_conditions,
    unique,
)
from autoprompt.science.records import Bench, PassLog, PassRecord, ScienceContext, markdown, messages
from autoprompt.settings.records import RunConfig
from autoprompt.text.files import to_json, write_text
from autoprompt.text.machine import install_extra
from autoprompt.text.templates import Language, fill, language_of

PASSES = 3  # two experiments and the conclusion
# Requests of one analysis at most; where nothing is found, the plain analyst is asked.
MOST_CALLS = {"plain": AnalysisAgent.most_calls, "scientific": PASSES + AnalysisAgent.most_calls}
# Rows of train that a round evaluates for it: of 16, hardly a difference is beyond luck.
TRAIN_ROWS = {"plain": TRAIN_BATCH, "scientific": 48}
_MAX_OUTPUT_TOKENS = 768
_TABLE = "predictions.csv"
_MEASURES = ("length", "words", "digits", "capitals", "punctuation")

_WORDS: dict[Language, dict[str, str]] = {
    "en": {
        "tested": "Tested by code on {total} rows, {wrong} of them answered wrong:",
        "finding": "- rows with {condition}: {wrong} of {total} wrong; others: {elsewhere} of {others} wrong",
        "concluded": "Concluded from it, with only the numbers confirmed:",
        "wrong": "wrong",
        "right": "right",
        "rate": "{column} = {value}: {wrong} of {total} wrong",
    },
    "zh": {
        "tested": "用代码在 {total} 行上检验，其中 {wrong} 行回答错误：",
        "finding": "- {condition}：{total} 行中 {wrong} 行错误；其余 {others} 行中 {elsewhere} 行错误",
        "concluded": "由此得出的结论（仅数字经过核实）：",
        "wrong": "错误行",
        "right": "正确行",
        "rate": "{column} = {value}：{total} 行中 {wrong} 行错误",
    },
}


def check_analyst(config: RunConfig) -> None:
    """Raise what would keep the scientific analyst from working, before anything is paid: SandboxError where
    nothing confines its code, ConfigError where pandas is missing."""
    if config.analyst != "scientific":
        return
    choose(config.sandbox)
    if util.find_spec("pandas") is None:
        said, fix = "scientific needs pandas", f"Install it: {install_extra('science')}"
        raise ConfigError(Problem("settings.no-pandas", said, Place(setting="analyst"), fix))


@dataclass(slots=True)
class ScientificAnalyst:
    """An `Analyst` whose suggestions are tested on the rows: every number in them is counted by us.

    plain: asked where no hypothesis holds. folder: gets a folder for each analysis, with table, passes,
    transcript and findings; an analysis that is done again, as after a crash, takes its experiments from
    there. context_tokens: the model's window.
    """

    client: Client
    plain: AnalysisAgent
    folder: Path
    level: Level
    budget: BudgetMeter
    emit: OnEvent
    context_tokens: int
    most_calls: int = MOST_CALLS["scientific"]

    def analyze(
        self, prompt: str, results: Sequence[EvaluatedRow], *, filled: Sequence[str] = (), seed: int = 0
    ) -> dict[str, Any]:
        """As `AnalysisAgent.analyze`, with `findings` beside: condition and counts of each."""
        analysis = count_errors(results)
        if not analysis["error_count"] or analysis["error_count"] == len(results):
            # Nothing to tell apart.
            return self.plain.analyze(prompt, results, filled=filled, seed=seed)
        table = self._table(prompt, results)
        language = language_of(prompt)
        passes, conclusion, bench = self._investigate(prompt, results, table, language, seed)
        findings = self._findings(results, table, passes, conclusion, bench)
        write_text(table.parent / "findings.json", to_json([_plain(f) for f in findings], indent=2) + "\n")
        if not findings:
            said = "the tests confirmed no hypothesis about the errors"
            self.emit(warning_event(Problem("science.no-hypothesis", said)))
            return self.plain.analyze(prompt, results, filled=filled, seed=seed)
        analysis["suggestions"] = suggestions(findings, conclusion, language)
        analysis["findings"] = [_plain(finding) for finding in findings]
        analysis["error_cases"] = error_cases(results)
        return analysis

    def analyze_steps(
        self, goal: str, components: Mapping[str, str], results: Sequence[EvaluatedRow], *, seed: int = 0
    ) -> dict[str, Any]:
        """Of several prompts, as the plain analyst does: the traces are no table."""
        return self.plain.analyze_steps(goal, components, results, seed=seed)

    def _table(self, prompt: str, results: Sequence[EvaluatedRow]) -> Path:
        """Return the predictions in a folder of their own, which has the same name when they come again."""
        text = predictions_csv(results)
        name = hashlib.sha256(f"{prompt}\0{text}".encode(errors="replace")).hexdigest()[:8]
        write_text(self.folder / name / _TABLE, text)
        return self.folder / name / _TABLE

    def _investigate(
        self, prompt: str, results: Sequence[EvaluatedRow], table: Path, language: Language, seed: int
    ) -> tuple[list[PassRecord], str, Bench]:
        # LangGraph takes a second to import.
        from langchain_core.runnables import RunnableConfig

        from autoprompt.science.graph import build_graph, recursion_limit

        wrong = sum(not row.is_correct for row in results)
        task = fill(
            "science_errors",
            language,
            total=str(len(results)),
            errors=str(wrong),
            prompt=prompt,
            differences="\n".join(differences(results, language)),
        )
        asked = fill("science_errors_io", language)
        log = PassLog(table.parent / "passes")
        bench = Bench(
            workdir=(table.parent / "work").resolve(),
            data=(table,),
            level=self.level,
            python=absolute(sys.executable),
        )
        context = ScienceContext(
            client=self.client,
            task=task,
            io=asked,
            bench=bench,
            log=log,
            budget=self.budget,
            max_iterations=PASSES,
            context_tokens=self.context_tokens,
            max_output_tokens=_MAX_OUTPUT_TOKENS,
            emit=self._told,
            role="optimizer",
            seed=seed,
            makes_files=False,
            owns_budget=False,
            language=language,
        )
        settings = RunnableConfig(recursion_limit=recursion_limit(PASSES))
        graph = build_graph()
        # In a context of its own: LangGraph hands a graph inside of a node the outer one's checkpointer.
        state: Any = contextvars.Context().run(lambda: graph.invoke({"number": 0}, settings, context=context))
        passes = log.first(state["number"])
        said = messages(task, asked, passes)
        write_text(table.parent / "transcript.json", to_json(said, indent=2) + "\n")
        write_text(table.parent / "transcript.md", markdown(task, asked, passes, {}))
        return passes, state.get("conclusion", ""), bench

    def _findings(
        self,
        results: Sequence[EvaluatedRow],
        table: Path,
        passes: Sequence[PassRecord],
        conclusion: str,
        bench: Bench,
    ) -> list[Finding]:
        columns = list(_row(results[0]))
        code = [
            condition
            for record in passes
            if record.code
            for condition in coded_conditions(record.code, columns)
        ]
        wrong = {number for number, row in enumerate(results) if not row.is_correct}
        stated = unique([*stated_conditions(conclusion, columns), *code])
        found = causes(recount(table, stated, wrong, len(results), bench))
        if found:
            return found
        # A small model overlooks what a count shows at once: where none of its hypotheses holds, our own.
        rows = [_row(row) for row in results]
        cuts = best_cuts({name: [row[name] for row in rows] for name in _MEASURES}, wrong)
        return causes(recount(table, cuts, wrong, len(results), bench))

    def _told(self, event: Mapping[str, Any]) -> None:
        """Of the passes, what a live view of the optimization shows."""
        match read_event(event):
            case Observed() as found:
                self.emit(Experiment(found.number, found.exit_code, found.observation or "").to_dict())
            case Problem() as problem:
                self.emit(warning_event(replace(problem, said=f"scientific analyst: {problem.said}")))


def suggestions(findings: Sequence[Finding], conclusion: str, language: Language) -> str:
    """Return what the writer reads: the counts of the recount, and of the conclusion what does not go beyond
    them, marked as the words of the model."""
    words, first = _WORDS[language], findings[0]
    wrong, total = first.wrong + first.wrong_elsewhere, first.total + first.total_elsewhere
    lines = [words["tested"].format(total=total, wrong=wrong)]
    for f in findings:
        lines.append(
            words["finding"].format(
                condition=f"`{f.condition}`",
                wrong=f.wrong,
                total=f.total,
                elsewhere=f.wrong_elsewhere,
                others=f.total_elsewhere,
            )
        )
    said = confirmed_sentences(conclusion, findings)
    return "\n".join([*lines, *([words["concluded"], *said] if said else [])])


def predictions_csv(results: Sequence[EvaluatedRow]) -> str:
    """Return the table of predictions, a line of a spreadsheet for each row."""
    text = io.StringIO()
    writer = csv.DictWriter(text, list(_row(results[0])), lineterminator="\n")
    writer.writeheader()
    writer.writerows(_row(row) for row in results)
    return text.getvalue()


def _row(row: EvaluatedRow) -> dict[str, Any]:
    """length: characters of the input. capitals, punctuation, digits: how many of them it has."""
    text = row.input.replace("\r", " ").replace("\0", " ")
    return {
        "input": text,
        "prediction": "" if row.is_unparsed else row.prediction.replace("\0", " "),
        "ground_truth": row.ground_truth,
        "correct": int(row.is_correct),
        "length": len(row.input),
        "words": len(row.input.split()),
        "digits": sum(c.isdigit() for c in text),
        "capitals": sum(c.isupper() for c in text),
        "punctuation": sum(not c.isalnum() and not c.isspace() for c in text),
        "first_word": next(iter(text.split()), ""),
    }


def differences(results: Sequence[EvaluatedRow], language: Language) -> list[str]:
    """Return a line for each measure with its range in wrong and right rows, and for each label's errors."""
    words = _WORDS[language]
    rows = [_row(row) for row in results]
    lines = []
    for column in _MEASURES:
        sides = ([r[column] for r in rows if not r["correct"]], [r[column] for r in rows if r["correct"]])
        ranges = [f"{min(s)}, {statistics.median_low(s)}, {max(s)}" for s in sides]
        lines.append(f"- {column}: {words['wrong']} {ranges[0]}; {words['right']} {ranges[1]}")
    for column in ("ground_truth", "prediction"):
        counted = Counter(r[column] for r in rows)
        if 1 < len(counted) <= 8:
            for value, total in counted.most_common():
                wrong = sum(1 for r in rows if r[column] == value and not r["correct"])
                told = words["rate"].format(
                    column=column, value=json.dumps(value, ensure_ascii=False), wrong=wrong, total=total
                )
                lines.append(f"- {told}")
    return lines


def _plain(finding: Finding) -> dict[str, Any]:
    return {
        "condition": finding.condition,
        "wrong": finding.wrong,
        "total": finding.total,
        "wrong_elsewhere": finding.wrong_elsewhere,
        "total_elsewhere": finding.total_elsewhere,
        "p_value": round(finding.p_value, 6),
    }


def make_analyst(
    config: RunConfig,
    client: Client,
    *,
    folder: Path,
    budget: BudgetMeter,
    emit: Callable[[dict[str, Any]], None],
    context_tokens: int,
    is_read: bool = True,
) -> AnalysisAgent | CountingAnalyst | ScientificAnalyst:
    """Return the analyst that the settings name.

    context_tokens: the window of its model. is_read: whether a prompt is written from what it says.
    """
    if not is_read:
        return CountingAnalyst()
    plain = AnalysisAgent(client)
    if config.analyst == "plain":
        return plain
    return ScientificAnalyst(
        client=client,
        plain=plain,
        folder=folder.absolute(),
        level=choose(config.sandbox),
        budget=budget,
        emit=emit,
        context_tokens=context_tokens,
    )
