"""The analyst: what the wrong rows share, and what the prompt fails to say."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from autoprompt.llm.client import Client, Options, first_that_fits, halves
from autoprompt.metrics.base import unread_words
from autoprompt.optimizer.agents.rows import layout
from autoprompt.records import EvaluatedRow, Message, Step
from autoprompt.text.names import cut_to
from autoprompt.text.templates import Language, fill, language_of

# More rows in one reflection hurt (Combee: 87.0 with 3, 72.5 with 100), none at all teaches nothing.
WRONG_ROWS, RIGHT_ROWS = 8, 4
STEP_CHARACTERS = 200  # of what one of several steps got, and of what it gave
REASONING_CHARACTERS = 200  # of what a model wrote before its answer, the end
FEEDBACK_CHARACTERS = 300  # of what the scoring said of one row
ALL_FEEDBACK_CHARACTERS = 4000  # of all of it: that of some 16 rows
ROW_CHARACTERS = 600  # of a row's input; long documents would push the rest out of a small model's window

_WORDS: dict[Language, dict[str, str]] = {
    "en": {
        "kind": "- expected {!r}, answered {!r}: {}",
        "row": "- {} -> answered: {}; right: {}",
        "without": "- {} -> answered: {}",
        "unreadable": "(no readable answer)",
        "reason": " ({})",
        "others": "Said of the other wrong answers:",
        "wrote": " (it wrote: …{})",
        "step": "[{}] got: {} -> gave: {}",
        "failed": "failed: {}",
        "nothing": "(nothing)",
    },
    "zh": {
        "kind": "- 应为 {!r}，却答 {!r}：{}",
        "row": "- {} -> 回答：{}；正确：{}",
        "without": "- {} -> 回答：{}",
        "unreadable": "（无法读出答案）",
        "reason": "（{}）",
        "others": "对其他错误回答的评语：",
        "wrote": "（它写道：…{}）",
        "step": "[{}] 得到：{} -> 给出：{}",
        "failed": "失败：{}",
        "nothing": "（无）",
    },
}
_ITEM = re.compile(r"^\s*(?:[-*•]|\d+[.)])?\s*")


class Analyst(Protocol):
    """Who reads the errors of a round. most_calls: optimizer calls that one analysis may take.

    filled: the prompt's placeholders of the row's fields, as `{premise}`.
    """

    @property
    def most_calls(self) -> int: ...

    def analyze(
        self, prompt: str, results: Sequence[EvaluatedRow], *, filled: Sequence[str] = (), seed: int = 0
    ) -> dict[str, Any]: ...

    def analyze_steps(
        self, goal: str, components: Mapping[str, str], results: Sequence[EvaluatedRow], *, seed: int = 0
    ) -> dict[str, Any]: ...


class CountingAnalyst:
    """Counts the errors of one prompt by their kind and asks nobody: where no writer would read more."""

    most_calls = 0

    def analyze(self, prompt: str, results: Sequence[EvaluatedRow], **_: Any) -> dict[str, Any]:
        """As `AnalysisAgent.analyze`; suggestions: the frequent kinds of error."""
        wrong = [row for row in results if not row.is_correct]
        return {
            **count_errors(results),
            "suggestions": confusions(wrong, language_of(prompt)),
            "error_cases": error_cases(wrong),
        }

    def analyze_steps(
        self, goal: str, components: Mapping[str, str], results: Sequence[EvaluatedRow], **_: Any
    ) -> dict[str, Any]:
        """Return the same of several prompts, without `rules` for any."""
        return {**self.analyze("\n".join((goal, *components.values())), results), "rules": {}}


class AnalysisAgent:
    """Sorts the errors of an evaluation and asks a model what they have in common.

    Usable alone: `AnalysisAgent(client).analyze(prompt, rows)`.
    """

    most_calls = 1

    def __init__(self, client: Client, *, max_output_tokens: int = 300) -> None:
        self._client = client
        self._max_output_tokens = max_output_tokens

    def analyze_steps(
        self, goal: str, components: Mapping[str, str], results: Sequence[EvaluatedRow], *, seed: int = 0
    ) -> dict[str, Any]:
        """As `analyze`, of a program of several prompts, by the rows' traces: what each step got and gave.

        components: name -> text of each prompt. Besides: `rules`, component -> the rules that the analyst
        wants in it; none for lines that name no prompt. error_cases have `steps`.
        """
        wrong = [r for r in results if not r.is_correct]
        analysis = {**count_errors(results), "rules": {}}
        if not wrong:
            return analysis
        language = language_of(" ".join(components.values()))

        def request(most: int) -> str:
            shown, others = _shown(wrong, most, WRONG_ROWS // 2)
            right = near_misses([r for r in results if r.is_correct], most * RIGHT_ROWS // WRONG_ROWS)
            return fill(
                "analyze_steps",
                language,
                goal=goal,
                prompts="\n\n".join(f"[{name}]\n{text}" for name, text in components.items()),
                total=str(len(results)),
                errors=str(len(wrong)),
                confusions=confusions(wrong, language),
                wrong=_wrong_rows([_lines_with_steps(r, language) for r in shown], others, language),
                right="\n".join(_lines_with_steps(r, language) for r in right) or "-",
                example=next(iter(components)),
            )

        # A row with its steps is several times as long.
        said, most = self._ask(request, WRONG_ROWS // 2, seed)
        shown = spread(wrong, most)
        analysis["suggestions"] = said
        analysis["rules"] = read_rules(said, tuple(components))
        analysis["error_cases"] = [
            {**_case(r), "steps": [{f: _cut(v) for f, v in _shown_step(s).items()} for s in r.trace]}
            for r in shown
        ]
        return analysis

    def analyze(
        self, prompt: str, results: Sequence[EvaluatedRow], *, filled: Sequence[str] = (), seed: int = 0
    ) -> dict[str, Any]:
        """{has_errors, error_count, total_count, suggestions, error_cases}; plain data.

        results: rows of train (the analyst may see these). suggestions: the model's text, "" without errors,
        in which case no call is sent. error_cases: the wrong rows that were shown, at most WRONG_ROWS.
        """
        wrong = [r for r in results if not r.is_correct]
        analysis = count_errors(results)
        if not wrong:
            return analysis
        language = language_of(prompt)

        def request(most: int) -> str:
            shown, others = _shown(wrong, most, WRONG_ROWS)
            right = near_misses([r for r in results if r.is_correct], most * RIGHT_ROWS // WRONG_ROWS)
            return fill(
                "analyze",
                language,
                layout=layout("analyze", language, filled),
                prompt=prompt,
                total=str(len(results)),
                errors=str(len(wrong)),
                confusions=confusions(wrong, language),
                wrong=_wrong_rows([_line(r, language) for r in shown], others, language),
                right="\n".join(_line(r, language) for r in right) or "-",
            )

        analysis["suggestions"], most = self._ask(request, WRONG_ROWS, seed)
        analysis["error_cases"] = [_case(r) for r in spread(wrong, most)]
        return analysis

    def _ask(self, request: Callable[[int], str], most: int, seed: int) -> tuple[str, int]:
        """Return what the model says of up to `most` wrong rows, and of how many.

        There are fewer if its window holds no more.
        """
        options = Options(role="optimizer", seed=seed, max_output_tokens=self._max_output_tokens)
        answer, shown = first_that_fits(
            lambda rows: self._client.complete([Message("user", request(rows))], options), halves(most)
        )
        return answer.said, shown


def error_cases(results: Sequence[EvaluatedRow]) -> list[dict[str, Any]]:
    """Return the wrong rows that an analysis shows, at most WRONG_ROWS, over all kinds of error."""
    return [_case(row) for row in spread([r for r in results if not r.is_correct], WRONG_ROWS)]


def read_rules(answer: str, names: Sequence[str]) -> dict[str, list[str]]:
    """Component -> rules, from lines like `[name] rule`; brackets may be missing or of another kind.

    A line that names no component is left out.
    """
    rules: dict[str, list[str]] = {}
    for line in answer.splitlines():
        text = _ITEM.sub("", line)
        # The longest first: `a.user2` begins with `a.user`.
        for name in sorted(names, key=len, reverse=True):
            found = re.match(rf"[\[(`*\"]*{re.escape(name)}(?![\w.])[\])`*\"]*\s*[:：\-]?\s*(.+)", text)
            if found:
                rules.setdefault(name, []).append(found[1].strip())
                break
    return rules


def count_errors(results: Sequence[EvaluatedRow]) -> dict[str, Any]:
    """Return an analysis that has asked nobody: the counts and the feedback, without suggestions."""
    wrong = [row for row in results if not row.is_correct]
    return {
        "has_errors": bool(wrong),
        "error_count": len(wrong),
        "total_count": len(results),
        "suggestions": "",
        "error_cases": [],
        "feedback": feedback_lines(wrong),
    }


def feedback_lines(wrong: Sequence[EvaluatedRow]) -> list[str]:
    """Return what the scoring said of wrong and partly right answers.

    Each remark once, the frequent ones first.
    """
    said = Counter(_cut(row.feedback, FEEDBACK_CHARACTERS) for row in wrong if row.feedback.strip())
    lines, left = [], ALL_FEEDBACK_CHARACTERS
    for remark, count in said.most_common():
        lines.append(f"{remark} (×{count})" if count > 1 else remark)
        left -= len(lines[-1])
        if left <= 0:
            break
    return lines


def _shown(
    wrong: Sequence[EvaluatedRow], most: int, usual: int
) -> tuple[list[EvaluatedRow], list[EvaluatedRow]]:
    """Return the wrong rows to show, and those whose remarks are shown: none if the request was too long."""
    shown = spread(wrong, most)
    return shown, [row for row in wrong if row not in shown] if most == usual else []


def _wrong_rows(lines: Sequence[str], unshown: Sequence[EvaluatedRow], language: Language) -> str:
    """Return the wrong rows that are shown, and what the scoring said of the others."""
    others = feedback_lines(unshown)
    if not others:
        return "\n".join(lines)
    return "\n".join([*lines, "", _WORDS[language]["others"], *(f"- {remark}" for remark in others)])


def spread(rows: Sequence[EvaluatedRow], most: int) -> list[EvaluatedRow]:
    """Return up to `most` rows, taking turns over the kinds of error, frequent kinds first."""
    queues = kinds_of_error(rows)
    chosen: list[EvaluatedRow] = []
    depth = 0
    while len(chosen) < min(most, len(rows)):
        chosen += [q[depth] for q in queues if depth < len(q)][: most - len(chosen)]
        depth += 1
    return chosen


def kinds_of_error(rows: Sequence[EvaluatedRow]) -> list[list[EvaluatedRow]]:
    """Return the rows by what was expected and what was answered, the frequent kinds first.

    Errors of free text are a kind each.
    """
    kinds: dict[tuple[str, str], list[EvaluatedRow]] = {}
    for row in rows:
        kinds.setdefault((row.ground_truth, "" if row.is_unparsed else row.prediction), []).append(row)
    if len(kinds) > len(rows) / 2:
        return [[row] for row in rows]
    return sorted(kinds.values(), key=len, reverse=True)


def near_misses(rows: Sequence[EvaluatedRow], most: int) -> list[EvaluatedRow]:
    """Rows that are right but hardly (lowest confidence first); in the given order where none is known."""
    return sorted(rows, key=lambda r: 1.0 if r.confidence is None else r.confidence)[:most]


def confusions(wrong: Sequence[EvaluatedRow], language: Language = "en") -> str:
    """Return the frequent kinds of error with their counts, a line each."""
    words = _WORDS[language]
    kinds = Counter(
        (_cut(r.ground_truth, 60), words["unreadable"] if r.is_unparsed else _cut(r.prediction, 60))
        for r in wrong
        if r.ground_truth
    )
    return "\n".join(words["kind"].format(*kind, count) for kind, count in kinds.most_common(6))


def _case(row: EvaluatedRow) -> dict[str, Any]:
    return {
        "input": _asked(row),
        "prediction": _cut(row.prediction),
        "ground_truth": _cut(row.ground_truth),
        "reason": _cut(row.reason),
    }


def _lines_with_steps(row: EvaluatedRow, language: Language) -> str:
    return "\n".join([_line(row, language), *(f"  {step_line(step, language)}" for step in row.trace)])


def step_line(step: Step, language: Language = "en") -> str:
    """Return what a step got and gave, in one line, under its prompts' names, or its own without one."""
    shown = _shown_step(step, language)
    got = _cut(shown["input"], STEP_CHARACTERS)
    gave = _cut(shown["output"], STEP_CHARACTERS)
    return _WORDS[language]["step"].format(", ".join(step.components) or step.node, got or "-", gave)


def _shown_step(step: Step, language: Language = "en") -> dict[str, str]:
    words = _WORDS[language]
    output = words["failed"].format(step.error) if step.error else step.output
    return {"node": step.node, "input": step.input, "output": output or words["nothing"]}


def _line(row: EvaluatedRow, language: Language) -> str:
    words = _WORDS[language]
    answer = words["unreadable"] if row.is_unparsed else _cut(row.prediction, 200)
    detail = ""
    if row.reason and not row.is_correct and row.is_unparsed:
        detail = words["reason"].format(
            _cut(unread_words(row.unread, language) if row.unread else row.reason, 200)
        )
    elif row.feedback and not row.is_correct:
        detail = words["reason"].format(_cut(row.feedback, FEEDBACK_CHARACTERS))
    if row.output:  # how it got there: the end, where a reasoned answer goes wrong
        detail += words["wrote"].format(" ".join(row.output.split())[-REASONING_CHARACTERS:])
    line = words["row" if row.ground_truth else "without"]
    return line.format(_asked(row), answer, _cut(row.ground_truth, 200)) + detail


def _asked(row: EvaluatedRow) -> str:
    """Return the row's input in one line; of a long conversation the end, where the question is."""
    text = " ".join(row.full_text.split())
    if row.turns and len(text) > ROW_CHARACTERS:
        return "…" + text[1 - ROW_CHARACTERS :]
    return _cut(text)


def _cut(text: str, most: int = ROW_CHARACTERS) -> str:
    return cut_to(most, " ".join(text.split()))
