"""The writer: a new prompt from the current one, the analysis and what was learned before."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from autoprompt.llm.client import Client, Completion, Options, first_that_fits, shortened
from autoprompt.optimizer.agents.rows import NO_ROWS, ShownRows, layout, row_characters, rows_as_text
from autoprompt.records import Change, Message
from autoprompt.text.files import json_value
from autoprompt.text.scripts import estimate_tokens
from autoprompt.text.templates import Language, fill, language_of

Operator = Literal["patch", "rewrite"]
_TOOL_TOKENS = 85  # of a description; it is sent with each request, beside those of other tools

DRAFT_TOKENS = 800  # of a new prompt; one of a longer prompt may be half as long again
_TOKENS_OF_WORD = 1.4  # with its stop; in English texts for models
_WINDOW = 32_768  # tokens, of a model of which no more is known

_FENCE = re.compile(r"```[^\n`]*\n(.*?)```|```(.*?)```", re.DOTALL)
_EDIT = re.compile(r"^[\s*`\-\d.]*(ADD|REMOVE)[*`]*\s*[:：]\s*(.+?)\s*$", re.IGNORECASE)
_SIGN = re.compile(r"[\u3041-\u30ff\u3400-\u9fff\uf900-\ufaff]")  # of scripts that do not part their words
_STOPS = ".。!！?？;；"
_BULLET = re.compile(r"[ \t]*(?:[-*•]|\d+[.)、])[ \t]+")
_SENTENCE = re.compile(r"(?<=[.!?])\s+|(?<=[。！？；])|\n+")

WORDING: dict[Language, dict[str, str]] = {
    "en": {
        "experiences": "What was learned before on such tasks:\n",
        "keep": "Keep these passages exactly as they are: ",
        "original": "It was first written as:\n",
        "none": "(none)",
        "feedback": "What the scoring said of wrong answers:",
        "goal": "It is the prompt of one step of a program whose goal is: ",
        "goal_of_tools": "The goal of the program: ",
        "tool": "the description of the tool `{tool}`",
        "tool_purpose": "decide when to call it",
        "parameter": "the description of the parameter `{parameter}` of the tool `{tool}`",
        "parameter_purpose": "decide what to pass as its value",
        "refused": "Your last version was refused: {}. Write another one that is not.\n",
    },
    "zh": {
        "experiences": "以往在这类任务上的经验：\n",
        "keep": "以下内容必须原样保留：",
        "original": "它最初写作：\n",
        "none": "（无）",
        "feedback": "评分对错误回答的评语：",
        "goal": "它是一个多步骤程序中某一步的提示词，程序的目标是：",
        "goal_of_tools": "程序的目标：",
        "tool": "工具 `{tool}` 的描述",
        "tool_purpose": "决定何时调用它",
        "parameter": "工具 `{tool}` 的参数 `{parameter}` 的描述",
        "parameter_purpose": "决定传入什么值",
        "refused": "你上一版被拒绝：{}。请写一个没有这个问题的版本。\n",
    },
}


@dataclass(frozen=True, slots=True)
class Proposal:
    """A new text.

    is_cut: the answer ran into the limit of its length, so the end of the text is missing.
    """

    text: str
    is_cut: bool = False


@dataclass(frozen=True, slots=True)
class StepView:
    """What a writer learns about the step that its prompt belongs to.

    tool: as in `Component`, if the text describes a tool or a parameter to the step's model.
    """

    goal: str
    tool: str = ""


@dataclass(frozen=True, slots=True)
class Material:
    """What a writer gets besides the prompt."""

    analysis: str
    rows: str
    experiences: str
    step: StepView | None


class RewriteAgent:
    """Asks a model for a better prompt.

    Usable alone: `RewriteAgent(client).rewrite(original, parent, analysis, 1, "")`.
    """

    def __init__(
        self,
        client: Client,
        *,
        temperature: float = 0.8,
        draft_tokens: int = DRAFT_TOKENS,
        window_tokens: int = _WINDOW,
    ) -> None:
        self._client = client
        self._temperature = temperature
        self._draft_tokens = draft_tokens
        self._row_characters = row_characters(window_tokens)

    def rewrite(
        self,
        original_prompt: str,
        parent: str,
        analysis: dict[str, Any],
        iteration: int,
        experiences: str,
        *,
        operator: Operator = "rewrite",
        keep: Sequence[str] = (),
        filled: Sequence[str] = (),
        ahead_of: Sequence[str] = (),
        shown: ShownRows = NO_ROWS,
        step: StepView | None = None,
        refused: str = "",
        seed: int = 0,
    ) -> Proposal:
        """Return one proposal. An answer in another form than asked is read as a full rewrite.

        parent: the text to improve. experiences: lessons, in the language of the original.
        keep: passages that must survive (placeholders, locked parts); whether
        they did is the caller's to check. filled: the placeholders that a row is filled in at; none where it
        follows the prompt. ahead_of: as in `with_added`.
        shown: rows that this draft answers for; long ones are cut to what the writer's window has room for.
        step: where the prompt is one of several in a program. A description of a tool is always rewritten.
        refused: why the last proposal was, if it is tried once more.
        """
        longest = max(self._draft_tokens, estimate_tokens(parent), estimate_tokens(original_prompt)) * 2
        options = Options(
            role="optimizer", temperature=self._temperature, seed=seed, max_output_tokens=longest
        )

        def ask(share: float) -> Completion:
            language = language_of(original_prompt)
            material = Material(
                shortened(_gone_wrong(analysis, WORDING[language]), share),
                rows_as_text(shown.first(share), language, self._row_characters),
                experiences if share == 1 else "",
                step,
            )
            request = self._request(original_prompt, parent, material, iteration, operator, keep, filled)
            if refused:
                request += "\n\n" + WORDING[language]["refused"].format(refused).strip()
            return self._client.complete([Message("user", request)], options)

        # Shorten the analysis and the lessons, never the prompt itself.
        completion, _ = first_that_fits(ask, (1.0, 0.5, 0.25, 0.0))
        answer = completion.said
        edits_alone = is_patch(answer)
        text = read_patch(answer, parent, ahead_of) if operator == "patch" or edits_alone else None
        if text is None:
            # Edits of which none applies are no prompt, and must not become one word for word.
            text = "" if edits_alone else read_prompt(answer)
        return Proposal(text, is_cut=completion.is_cut)

    def _request(
        self,
        original_prompt: str,
        parent: str,
        material: Material,
        iteration: int,
        operator: Operator,
        keep: Sequence[str],
        filled: Sequence[str],
    ) -> str:
        language = language_of(original_prompt)
        words = WORDING[language]
        shared = {
            "current": parent,
            "analysis": material.analysis,
            "rows": material.rows,
            "experiences": words["experiences"] + material.experiences if material.experiences else "",
            "keep": words["keep"] + " ".join(keep) if keep else "",
            "step": _told(material.step, words) if material.step is not None else "",
        }
        first = f"{words['original']}<original>\n{original_prompt}\n</original>"
        original = first if original_prompt != parent else ""
        if material.step is not None and material.step.tool:
            what, purpose = _described(material.step.tool, words)
            limit = _limit(original_prompt, _TOOL_TOKENS)
            request = fill(
                "describe_tool",
                language,
                **shared,
                original=original,
                what=what,
                purpose=purpose,
                limit=limit,
            )
            return re.sub(r"\n{3,}", "\n\n", request)
        shared["layout"] = layout(operator, language, filled)
        if operator == "patch":
            # Few edits a step, fewer later, beat free rewriting (SkillOpt: 4 falling to 2).
            added = layout("add", language, filled)
            request = fill("patch", language, **shared, added=added, edits=str(4 if iteration <= 2 else 2))
        else:
            limit = _limit(original_prompt, self._draft_tokens)
            request = fill("rewrite", language, **shared, original=original, limit=limit)
        return re.sub(r"\n{3,}", "\n\n", request)


def _limit(original: str, tokens: int) -> str:
    """Return how long a rewrite may be: in words, or in characters where blanks do not part the words."""
    signs = len(_SIGN.findall(original))
    has_words = 5 * signs < sum(c.isalpha() for c in original) or not signs
    length = len(original.split()) if has_words else len("".join(original.split()))
    most = max(10 * round(tokens / (_TOKENS_OF_WORD if has_words else 1) / 10), -(-3 * length // 2))
    if language_of(original) == "zh":
        return f"{most} 字"
    return f"{most} {'words' if has_words else 'characters'}"


def _gone_wrong(analysis: Mapping[str, Any], words: Mapping[str, str]) -> str:
    """Return what the analyst suggests, and every remark of the scoring."""
    parts = [analysis["suggestions"]] if analysis.get("suggestions") else []
    if feedback := analysis.get("feedback"):
        parts.append("\n".join([words["feedback"], *(f"- {remark}" for remark in feedback)]))
    return "\n\n".join(parts) or words["none"]


def _told(step: StepView, words: Mapping[str, str]) -> str:
    return words["goal_of_tools" if step.tool else "goal"] + step.goal


def _described(tool: str, words: Mapping[str, str]) -> tuple[str, str]:
    """Return what a description is of, and what a model reads it for. tool: as in `Component`."""
    name, _, parameter = tool.partition(".")
    kind = "parameter" if parameter else "tool"
    return words[kind].format(tool=name, parameter=parameter), words[f"{kind}_purpose"]


def read_prompt(answer: str) -> str:
    """Return the new prompt in an answer: the last fenced block, else the whole text without tags."""
    blocks = [a or b for a, b in _FENCE.findall(answer)]
    filled = [b.strip() for b in blocks if b.strip()]
    text = filled[-1] if filled else answer.strip().removeprefix("```").removesuffix("```")
    text = _only_text(text) or text
    return re.sub(r"</?(?:prompt|current|original|new_prompt)>", "", text).strip()


def _only_text(text: str) -> str | None:
    found = json_value(text)
    values = list(found.values()) if isinstance(found, dict) else []
    return values[0] if len(values) == 1 and isinstance(values[0], str) else None


def is_patch(answer: str) -> bool:
    """Return whether the answer is edits and nothing else."""
    lines = [line for line in answer.splitlines() if line.strip(" \t`")]
    return bool(lines) and all(_EDIT.match(line) for line in lines)


def read_patch(answer: str, parent: str, ahead_of: Sequence[str] = ()) -> str | None:
    """`parent` with the answer's edits applied; None where the answer holds no edit that applies.

    `ADD: sentence` is added (see `with_added`), `REMOVE: sentence` taken out where the parent has it word for
    word as one or several whole sentences or lines; its last full stop may be missing.
    """
    edits = [m.groups() for line in answer.splitlines() if (m := _EDIT.match(line))]
    text, added = parent, []
    for kind, quoted in edits:
        sentence = quoted.strip('"“”')
        if kind.upper() == "ADD" and sentence not in text and sentence not in added:
            added.append(sentence)
        elif kind.upper() == "REMOVE":
            text = _without(text, sentence)
    if added:
        text = with_added(text, added, ahead_of)
    return text if text != parent else None


def with_added(text: str, sentences: Sequence[str], ahead_of: Sequence[str] = ()) -> str:
    """`text` with sentences, each on a line: before the line with the first of `ahead_of`, else at the end.

    ahead_of: what instructions stand before, as placeholders are. Behind "Item: {input}", "Label:" they would
    be no instruction to a model that continues the text, and be said again with each demonstration.
    """
    added = "\n".join(sentences)
    first = min((at for mark in ahead_of if (at := text.find(mark)) >= 0), default=None)
    if first is None:
        return f"{text.rstrip()}\n{added}"
    start = text.rfind("\n", 0, first) + 1
    head = text[:start].rstrip()
    if not head:
        return f"{added}\n{text[start:]}"
    return f"{head}\n{added}{text[len(head) :]}"


def _without(text: str, sentence: str) -> str:
    """`text` without the first place where `sentence` stands as whole sentences.

    `text` itself where there is no such place, or where nothing would be left.
    """
    mark = _BULLET.match(sentence)
    core = sentence[mark.end() if mark else 0 :].strip().rstrip(_STOPS)
    if not core:
        return text
    starts, ends = _bounds(text)
    for found in re.finditer(re.escape(core) + f"[{_STOPS}]*", text):
        if found.start() in starts and found.end() in ends:
            rest = _joined(text[: found.start()], text[found.end() :])
            return rest if rest.strip() else text
    return text


def _bounds(text: str) -> tuple[set[int], set[int]]:
    """Return where sentences begin (behind the mark of a list's item, too) and where they end."""
    starts, ends, start = set(), set(), 0
    for part in [*_SENTENCE.finditer(text), None]:
        end = part.start() if part else len(text)
        sentence = text[start:end]
        begin = start + len(sentence) - len(sentence.lstrip())
        starts.add(begin)
        if mark := _BULLET.match(text, begin):
            starts.add(mark.end())
        ends.add(start + len(sentence.rstrip()))
        start = part.end() if part else end
    return starts, ends


def _joined(left: str, right: str) -> str:
    """Return both sides of what was taken out; blanks and line ends are touched at the seam alone."""
    line = left[left.rfind("\n") + 1 :]
    right = right.lstrip(" \t")
    if right and not right.startswith("\n"):
        return left + right
    if line.strip() and not _BULLET.fullmatch(line):
        return left.rstrip(" \t") + right
    left = left[: len(left) - len(line)]  # the whole line is gone, and with it its indent or its list's mark
    above, below = left.rstrip("\n"), right.lstrip("\n")
    breaks = max(len(left) - len(above), len(right) - len(below))
    return above + "\n" * breaks + below if above and below else above or below


def text_change(old: str, new: str, component: str = "") -> Change:
    """Return what `new` says that `old` did not, and what it dropped, sentence by sentence."""
    before = [s.strip() for s in _SENTENCE.split(old) if s.strip()]
    after = [s.strip() for s in _SENTENCE.split(new) if s.strip()]
    added, removed = [], []
    for tag, i1, i2, j1, j2 in difflib.SequenceMatcher(a=before, b=after, autojunk=False).get_opcodes():
        if tag != "equal":
            removed += before[i1:i2]
            added += after[j1:j2]
    return Change(component, added=" ".join(added), removed=" ".join(removed))
