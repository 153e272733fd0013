"""One measured lesson: what was changed in a prompt, in the words of each language, and what that did."""

from __future__ import annotations

import hashlib
import math
import re
import unicodedata
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from itertools import groupby
from typing import Any, Literal

from autoprompt.records import Change
from autoprompt.text.names import counted
from autoprompt.text.scripts import is_unparted, runs, signs
from autoprompt.text.templates import Language

Verdict = Literal["better", "worse", "no_difference"]

LONGEST_TASK = 300
LONGEST_CHANGE = 300
LONGEST_TEXT = 240  # characters of what a text says anew and no longer, together
_MOST_PRIORITY = 5.0
# Where two measurements of a change contradict each other, their mean counts if it is this many standard
# errors away from 0 (one-sided p < .10); else the change makes no difference.
_CLEAR = 1.28
# Of a change that was measured more often, the oldest measurements would be counted again: by then one more
# or less tells nothing new.
_MOST_SOURCES = 64
# What counts although no word holds it: +1 or -1, < or >, 10 or 10%, $ or €, ✓ or ✗.
_SYMBOL_KINDS = ("Sm", "Sc", "So")

# How demonstrations were chosen, by the keys of `Change.how`.
HOW: Mapping[str, Mapping[Language, str]] = {
    "balanced": {"en": "balanced over the answers", "zh": "各答案数量均衡"},
    "errors": {"en": "among them rows that it got wrong", "zh": "其中有它答错的数据"},
    "exchanged": {"en": "a quarter of them exchanged", "zh": "换掉了其中四分之一"},
    "part": {"en": "a part of those before", "zh": "只保留了其中一部分"},
    "rebalanced": {"en": "more of the answers that came too seldom", "zh": "增加了给出过少的答案"},
}
BARE = "bare"  # `Change.how` of a candidate that no longer shows any
_WORDS: Mapping[Language, Mapping[str, str]] = {
    "en": {
        "added": "added: ",
        "removed": "removed: ",
        "and": "; and ",
        "demos": "{demos}, {how}",
        "bare": "without the demonstrations",
        "cues": "typical words of {answers} named",
        "reasons": "reasons before it answers",
    },
    "zh": {
        "added": "增加：",
        "removed": "删除：",
        "and": "；并有 ",
        "demos": "{count} 个示例，{how}",
        "bare": "去掉全部示例",
        "cues": "写明了 {cues} 个答案的典型用词",
        "reasons": "先推理再回答",
    },
}
_BETWEEN = " | "
_CHOSEN = "|".join(re.escape(of["en"]) for of in HOW.values())
_PARTS = re.compile(
    r"(?:(?P<component>\S+): )??"
    r"(?:added: (?P<added>.*?)(?: \| removed: (?P<removed>.*?))?|removed: (?P<only_removed>.*?)"
    r"|typical words of (?P<cues>\d+) answers? named|(?P<reasons>reasons before it answers))?"
    r"(?:(?:; and |^|(?<=: ))"
    rf"(?:(?P<demos>\d+) demonstrations?, (?P<how>{_CHOSEN})|(?P<bare>without the demonstrations)))?"
)


def words(change: Change, language: Language = "en") -> str:
    """Return what was changed as one line; "" if nothing is known of it. Long texts are cut."""
    if change.note:
        return " ".join(change.note.split())
    said = _WORDS[language]
    shown = {"count": change.demos, "demos": counted(change.demos, "demonstration"), "cues": change.cues}
    short = shortened(change)
    texts = [said[name] + text for name, text in (("added", short.added), ("removed", short.removed)) if text]
    parts = [_BETWEEN.join(texts)] if texts else []
    if change.cues:
        parts.append(said["cues"].format(answers=counted(change.cues, "answer"), **shown))
    if change.reasons:
        parts.append(said["reasons"])
    if change.demos:
        parts.append(said["demos"].format(how=HOW[change.how][language], **shown))
    elif change.how == BARE:
        parts.append(said["bare"])
    of = f"{change.component}: " if change.component else ""
    return of + said["and"].join(parts)


def shortened(change: Change) -> Change:
    """Return the change with as much of its texts as its words hold, each in one line."""
    added, removed = " ".join(change.added.split()), " ".join(change.removed.split())
    said = _WORDS["en"]
    lead = len(said["added"]) + len(added) if added else 0
    if lead > LONGEST_TEXT:
        added, removed = added[: LONGEST_TEXT - 1 - len(said["added"])] + "…", ""
    elif removed:
        lead += len(said["removed"]) + (len(_BETWEEN) if added else 0)
        if lead + len(removed) > LONGEST_TEXT:
            removed = removed[: max(0, LONGEST_TEXT - 1 - lead)] + "…"
    return replace(change, added=added, removed=removed)


def read_change(line: str) -> Change:
    """Return the change of a line as `words` writes it in English; any other line is a note."""
    line = " ".join(line.split())
    found = _PARTS.fullmatch(line)
    if found is None:
        return Change(note=line)
    values: dict[str, Any] = {name: value for name, value in found.groupdict().items() if value}
    if removed := values.pop("only_removed", ""):
        values["removed"] = removed
    values |= {name: int(values[name]) for name in ("demos", "cues") if name in values}
    values |= {name: bool(values[name]) for name in ("reasons",) if name in values}
    if values.pop("bare", None):
        values["how"] = BARE
    elif "demos" in values:
        values["how"] = next(key for key, of in HOW.items() if of["en"] == values["how"])
    change = Change(**values)
    return change if words(change) == line else Change(note=line)


def addition(change: Change) -> str | None:
    """Return what a change added, word for word; None if it did anything else, or if the text is cut."""
    added = " ".join(change.added.split())
    if not added or replace(change, added="") != Change() or shortened(change).added != added:
        return None
    return None if added.endswith("…") and len(words(change)) >= LONGEST_TEXT else added


def digest(change: Change) -> str:
    """Return twelve hex digits, the same for changes that differ in case, spacing and punctuation alone.

    Of what was added, and where nothing was, of what was removed. What a rewrite removed is mostly the old
    prompt, the same in all its rewrites. But whether anything was removed counts: of a change that only adds,
    the sentence is used again on its own.
    Another word is another change, as "first" for "last" is: a lesson that is there twice costs a line, two
    that are joined under the words of one say of the other what was never measured.
    """
    text = change.added or change.removed or change.note
    rest = [change.component, bool(change.added), bool(change.removed), change.demos, change.how]
    rest += [change.cues, change.reasons]
    body = [*map(str, rest), *(_units(text) or text.split())]
    return hashlib.sha256("\n".join(body).encode(errors="replace")).hexdigest()[:12]


def _units(text: str) -> list[str]:
    """Words, single signs of scripts that do not part them, and the symbols that count, in folded case."""
    units: list[str] = []
    for is_symbol, part in _parts(unicodedata.normalize("NFKC", text).casefold()):
        for run in [part] if is_symbol else runs(part):
            units += signs(run) if is_unparted(run) else [run]
    return units


def _parts(text: str) -> Iterator[tuple[bool, str]]:
    """Symbols and what is between them, in turn. A file has thousands of lines, mostly of ASCII."""
    if text.isascii():
        return ((number % 2 == 1, part) for number, part in enumerate(_ASCII_SYMBOLS.split(text)) if part)
    return ((is_symbol, "".join(group)) for is_symbol, group in groupby(text, _is_symbol))


def _is_symbol(sign: str) -> bool:
    return sign in "-%" or unicodedata.category(sign) in _SYMBOL_KINDS


_ASCII_SYMBOLS = re.compile(f"([{re.escape(''.join(filter(_is_symbol, map(chr, range(128)))))}]+)")


@dataclass(frozen=True, slots=True)
class Experience:
    """What one change to a prompt did, measured on rows that both prompts answered.

    task: what the prompt was about, in one line. change: what was changed, as its line in the file tells it.
        Longer ones are cut.
    before, after: mean score in [0, 1] on the same `rows` rows; None where a person wrote no scores.
    told_gain: the gain that a person wrote without scores; not used where there are scores.
    priority: how much it counts, above 0; falls as other lessons come in, rises when it is seen again.
    run_id, iteration: the last measurement; "" and 0 for an entry written by hand.
    date: of the last measurement, as YYYY-MM-DD. language: of the prompt, e.g. "zh"; None where not told.
    sources: every measurement that went in, each one word, so that none is counted twice.
    cut: digests of the line and of the whole change, if the line tells a part of it; void once a person has
        edited the line.
    notes: lines that a person added below the entry, as they stand.
    """

    task: str
    change: Change
    verdict: Verdict
    operator: str = ""
    before: float | None = None
    after: float | None = None
    rows: int = 0
    told_gain: float | None = None
    run_id: str = ""
    iteration: int = 0
    date: str = ""
    priority: float = 1.0
    language: str | None = None
    sources: tuple[str, ...] = ()
    cut: str = ""
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "task", _one_line(self.task, LONGEST_TASK))
        change = read_change(_one_line(words(self.change), LONGEST_CHANGE))
        if change != self.change and (line := digest(change)) != (whole := digest(self.change)):
            object.__setattr__(self, "cut", f"{line} of {whole}")
        object.__setattr__(self, "change", change)
        object.__setattr__(self, "operator", _one_line(self.operator, LONGEST_CHANGE))
        if self.before is not None and self.after is not None:
            object.__setattr__(self, "told_gain", None)

    @property
    def text(self) -> str:
        """What was changed, in English, as the file has it."""
        return words(self.change)

    @property
    def id(self) -> str:
        """Eight hex digits from task and change; the same as long as nobody edits these."""
        text = f"{self.task}\n{self.text}{self.cut}"
        return hashlib.sha256(text.encode(errors="replace")).hexdigest()[:8]

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON, with the change as its line in the file tells it."""
        return {"id": self.id, **asdict(self), "change": self.text}

    @property
    def digest(self) -> str:
        """Of the whole change; where a person has edited the line since it was cut, of the line."""
        line, _, whole = self.cut.partition(" of ")
        shown = digest(self.change)
        return whole if line == shown else shown

    @property
    def gain(self) -> float | None:
        """after - before, or what a person wrote instead; above 0 is better. None if neither is known."""
        if self.before is None or self.after is None:
            return self.told_gain
        return self.after - self.before


def measurement(parent_id: str, candidate_id: str, *, by: str) -> str:
    """Return the name of a comparison of two candidates: the same in every run that makes it.

    by: whatever else has a say in it, such as the model, the metric and the rows to choose from. Not how many
    of these a race came to: the longer one holds most of the rows of the shorter.
    """
    return f"pair/{hashlib.sha256(f'{parent_id}/{candidate_id}/{by}'.encode()).hexdigest()[:12]}"


def merge(old: Experience, new: Experience) -> Experience:
    """`old`, told again by `new`: rows add up, scores are averaged by rows, priority rises.

    Keeps the words of `old`, so that its id stays.
    """
    before, after = _mean(old, new, "before"), _mean(old, new, "after")
    merged = replace(
        old,
        before=before,
        after=after,
        rows=old.rows + new.rows,
        operator=new.operator or old.operator,
        run_id=new.run_id,
        iteration=new.iteration,
        date=new.date or old.date,
        priority=min(_MOST_PRIORITY, old.priority + new.priority),
        language=old.language or new.language,
        sources=(*old.sources, *new.sources)[-_MOST_SOURCES:],
    )
    return merged if old.verdict == new.verdict else replace(merged, verdict=_pooled_verdict(merged))


def _mean(a: Experience, b: Experience, name: Literal["before", "after"]) -> float | None:
    """Mean of a score, weighted by rows. A score without rows counts as one row."""
    known = [(score, max(e.rows, 1)) for e in (a, b) if (score := getattr(e, name)) is not None]
    if not known:
        return None
    return float(sum(score * rows for score, rows in known) / sum(rows for _, rows in known))


def _pooled_verdict(experience: Experience) -> Verdict:
    """Return what two contradicting measurements say together.

    Normal test of two proportions (Newcombe 1998, method 1's standard error). The pairs are not known any
    more, so it is on the careful side.
    """
    before, after, rows = experience.before, experience.after, experience.rows
    if before is None or after is None or rows == 0:
        return "no_difference"
    error = math.sqrt(max(before * (1 - before) + after * (1 - after), 0.0) / rows)
    if abs(after - before) <= _CLEAR * error or after == before:
        return "no_difference"
    return "better" if after > before else "worse"


def _one_line(text: str, longest: int) -> str:
    line = " ".join(text.split())
    return line if len(line) <= longest else line[: longest - 1].rstrip() + "…"
