"""The describer: what each answer means, or by which rule it follows, told from rows and their right answers.

Other than the writer it is shown no wrong answers and no analysis: it names what the naive prompt left
unsaid (instruction induction; Honovich et al. 2023, and APE, Zhou et al. 2023).
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from autoprompt.llm.client import Client, Options, first_that_fits, halves
from autoprompt.optimizer.agents.rows import layout
from autoprompt.records import Example, Message
from autoprompt.text.names import cut_to
from autoprompt.text.scripts import PARTED_LETTER, columns
from autoprompt.text.templates import fill, language_of

ROW_CHARACTERS = 240  # of a row's input and target each: the kind of row matters, not all of it
LINE_TOKENS = 60  # of one answer's description
LONGEST_LINE = 300  # characters; a longer one is a list of rows, or has lost its way
SHORTEST_LINE = 12  # columns: a Chinese sign takes two, and says as much as two letters
FEWEST_OWN = 6  # columns of letters besides the labels that it names: "- No - Yes" says nothing of No
# "rows 1, 2 and 5": places in what it was shown, which say nothing of other rows.
_PLACES = re.compile(
    r"\b(?:rows?|examples?)\s*#?\d+(?:[\s,;&/~–-]+(?:(?:and|or|to|through)\s+)?#?\d+)*"
    r"|(?:第\s*[\d一二三四五六七八九十百]+\s*[行条个例]?(?:数据)?[\s、，,和及或至到~～-]*)+"
    r"|(?:行|示例|样本)\s*\d+(?:[\s、，,和及或至到~～-]+\d+)*",
    re.IGNORECASE,
)
_LIST_MARK = re.compile(r"(?:[-*•]|\d+(?:[.)](?!\d)|、))\s*")


class DescribingAgent:
    """Usable alone: `DescribingAgent(client).describe(prompt, rows, labels)`."""

    def __init__(self, client: Client, *, temperature: float = 0.7) -> None:
        self._client = client
        self._temperature = temperature

    def describe(
        self,
        prompt: str,
        rows: Sequence[Example],
        labels: Sequence[str] = (),
        *,
        filled: Sequence[str] = (),
        seed: int = 0,
    ) -> list[str]:
        """Lines to add to `prompt`: "LABEL: which rows" for at least two labels; without labels, a rule.

        filled: the prompt's placeholders of the row's fields, as `{premise}`.
        Each is on one line, its label too, whatever line breaks are in it.
        Empty where the answer cannot be used: another form, or the same words for different labels.
        """
        language = language_of(prompt)
        shared = {"prompt": prompt, "layout": layout("describe", language, filled)}

        def request(most: int) -> str:
            if labels:
                form = "\n".join(f"{label}: …" for label in _in_lines(labels))
                return fill("describe", language, **shared, rows=_by_label(rows, labels, most), form=form)
            shown = "\n".join(f"- {_cut(r.input_text)} -> {_cut(r.target_text)}" for r in rows[:most])
            return fill("induce", language, **shared, rows=shown)

        options = Options(
            role="optimizer",
            temperature=self._temperature,
            seed=seed,
            max_output_tokens=LINE_TOKENS * max(2, len(labels)),
        )
        # Of each label where there are some: any of them may have all the rows.
        completion, _ = first_that_fits(
            lambda most: self._client.complete([Message("user", request(most))], options),
            halves(max(1, len(rows))),
        )
        answer = completion.said
        return read_descriptions(answer, labels) if labels else read_rule(answer)


def read_descriptions(answer: str, labels: Sequence[str]) -> list[str]:
    """Return the lines "LABEL: description" of an answer, in the order of `labels`.

    [] where they do not differ.
    """
    labels = _in_lines(labels)
    found: dict[str, str] = {}
    longest_first = sorted(labels, key=len, reverse=True)
    for line in answer.splitlines():
        label, text = _described(line, longest_first)
        if label and label not in found:
            found[label] = text
    own = {label: _own_words(text, longest_first) for label, text in found.items()}
    kept = {
        label: text
        for label, text in found.items()
        if columns(text) >= SHORTEST_LINE
        and len(text) <= LONGEST_LINE
        and columns("".join(filter(str.isalnum, own[label]))) >= FEWEST_OWN
    }
    if len({own[label] for label in kept}) < max(2, len(kept)):
        return []
    return [f"{label}: {kept[label]}" for label in labels if label in kept]


def _own_words(text: str, labels: Sequence[str]) -> str:
    """Return a description without the labels and the places of rows in it."""
    names = "|".join(map(re.escape, labels))
    whole = rf"(?<!{PARTED_LETTER})(?:{names})(?!{PARTED_LETTER})"
    return re.sub(whole, "", _PLACES.sub("", text), flags=re.IGNORECASE).casefold()


def read_rule(answer: str) -> list[str]:
    """Return the rule in an answer, as one line; [] where there is none."""
    text = " ".join(answer.replace("```", " ").split()).strip("\"'“” ")
    return [text] if columns(text) >= SHORTEST_LINE and len(text) <= 2 * LONGEST_LINE else []


def _described(line: str, labels: Sequence[str]) -> tuple[str, str]:
    """Return the label that a line describes, and as what; "" where it describes none.

    List marks are taken off one by one, as long as the line begins with no label: `1` and `5 stars` look like
    the number of a line themselves, and `-1` like its dash.
    """
    bare = line.replace("**", "").replace("`", "").strip()
    while True:
        for label in labels:
            if said := re.match(rf"{re.escape(label)}\s*[:：]\s*(.+)", bare, re.IGNORECASE):
                return label, said[1].strip()
        mark = _LIST_MARK.match(bare)
        if mark is None:
            return "", ""
        bare = bare[mark.end() :]


def _by_label(rows: Sequence[Example], labels: Sequence[str], most: int) -> str:
    """Return the first `most` rows of each label, under it."""
    parts = []
    for label in _in_lines(labels):
        of_label = [row for row in rows if " ".join(row.target_text.split()) == label][:most]
        lines = [f"- {_cut(row.input_text)}" for row in of_label]
        if lines:
            parts.append("\n".join([f"{label}:", *lines]))
    return "\n\n".join(parts)


def _in_lines(labels: Sequence[str]) -> list[str]:
    """Return the labels, each in one line: the request is read by lines."""
    return list(dict.fromkeys(" ".join(label.split()) for label in labels))


def _cut(text: str) -> str:
    return cut_to(ROW_CHARACTERS, " ".join(text.split()))
