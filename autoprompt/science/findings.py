"""What holds of a conclusion about wrong rows: each condition counted again, each number checked."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

from autoprompt import sandbox
from autoprompt.science.context import Bench

_NUMBER = re.compile(r"\d+(?:[.,]\d+)*")
_PAIR = re.compile(r"(\d+)\s*(?:of the|out of|of|/|in)\s*(\d+)|(\d+)\s*(?:行|个|条)?\s*中\s*(?:有)?\s*(\d+)")
_SENTENCE = re.compile(r"(?<=[.!?])\s+|(?<=[。！？；])|\n+")
_NUMBER_WORD = re.compile(
    r"\b(?:zero|one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|thirteen|fourteen|fifteen|sixteen"
    r"|seventeen|eighteen|nineteen|twenty|thirty|forty|fifty|sixty|seventy|eighty|ninety|dozens?|hundreds?"
    r"|thousands?|millions?|half|halves|thirds|quarters|fifths|sixths|eighths|tenths"
    r"|a[ -](?:third|quarter|fifth|sixth|eighth|tenth)|most|majority|minority|all|none|once|twice|thrice"
    r"|double|triple)\b"
    r"|[零〇一二两三四五六七八九十百千万亿半]+(?:个|条|行|例|项|次|倍|成|分|半)"
    r"|全部|所有|多数|少数|大部分|小部分|半数|过半|大半|多半",
    re.IGNORECASE,
)
# "Never wrong" is a count, too, and "always name the product" a rule: of these only what says how rows went.
_ABSOLUTE = re.compile(
    r"\Ano\b|\b(?:never|always|every|each|any|nothing|only|both|entirely|invariably|without exception)\b"
    r"|从不|从未|从来|永远|绝不|总是|总会|始终|一律|每|任何|凡是|无一|只有|都|(?<!平)均",
    re.IGNORECASE,
)
_OUTCOME = re.compile(
    r"\b(?:wrong\w*|errors?|err(?:s|ed)?|mistakes?|mistaken|fail\w*|(?:in)?correct\w*|right|mis(?:class|label|read)\w*)\b"
    r"|出错|错误|答错|错答|失误|失败|误判|误分|正确|答对|无误",
    re.IGNORECASE,
)
FEWEST_ROWS = 3  # fewer that a condition holds for show nothing
MOST_LIKELY_CHANCE = 0.1  # a difference that luck makes more often is no finding
MOST_FINDINGS = 3


@dataclass(frozen=True, slots=True)
class Finding:
    """A condition with its true counts: of the rows that it holds for, and of all others.

    p_value: how often as many wrong rows or more would fall on them by luck (exact, one-sided).
    """

    condition: str
    wrong: int
    total: int
    wrong_elsewhere: int
    total_elsewhere: int

    @property
    def p_value(self) -> float:
        return hypergeometric_tail(
            self.wrong, self.total, self.wrong + self.wrong_elsewhere, self.total + self.total_elsewhere
        )

    @property
    def is_cause(self) -> bool:
        """Whether errors are more frequent where it holds than elsewhere, beyond luck."""
        if self.total < FEWEST_ROWS or not self.total_elsewhere:
            return False
        more = self.wrong * self.total_elsewhere > self.wrong_elsewhere * self.total
        return more and self.p_value <= MOST_LIKELY_CHANCE


def hypergeometric_tail(hits: int, drawn: int, marked: int, total: int) -> float:
    """Chance of at least `hits` marked among `drawn` of `total`, of which `marked` are. Fisher, one-sided."""
    ways = sum(
        math.comb(marked, k) * math.comb(total - marked, drawn - k)
        for k in range(hits, min(drawn, marked) + 1)
    )
    return ways / math.comb(total, drawn)


def recount(
    table: Path, conditions: Sequence[str], wrong: Collection[int], rows: int, bench: Bench
) -> list[Finding]:
    """The true counts of each condition that can be counted, in their order.

    table: the CSV as we wrote it, not as code may have left it. wrong: 0-based numbers of the wrong rows.
    """
    if not conditions:
        return []
    source = files("autoprompt.science.scripts").joinpath("recount.py").read_text(encoding="utf-8")
    code = f"{source}\n\nmain({table.name!r}, {list(conditions)!r})\n"
    folder = bench.workdir.with_name(f"{bench.workdir.name}-recount")  # nothing of the experiments is there
    result = sandbox.run(
        code, workdir=folder, data=[table], level=bench.level, limits=bench.limits, python=bench.python
    )
    try:
        found = json.loads(result.stdout.splitlines()[-1])["found"]
    except (ValueError, IndexError, KeyError, TypeError):
        return []
    findings = []
    for condition, answer in zip(conditions, found, strict=True):
        if "rows" in answer:
            held = set(answer["rows"])
            findings.append(
                Finding(
                    condition,
                    len(held & set(wrong)),
                    len(held),
                    len(set(wrong) - held),
                    rows - len(held),
                )
            )
    return findings


def causes(findings: Iterable[Finding]) -> list[Finding]:
    """The findings that hold, the surest first; of those that hold for the same counts, the shortest."""
    held = sorted((f for f in findings if f.is_cause), key=lambda f: (f.p_value, len(f.condition)))
    kept: list[Finding] = []
    for finding in held:
        counts = {(other.wrong, other.total) for other in kept}
        if (finding.wrong, finding.total) not in counts:
            kept.append(finding)
    return kept[:MOST_FINDINGS]


def confirmed_sentences(text: str, findings: Sequence[Finding]) -> list[str]:
    """The sentences of a conclusion whose every number the recount of `findings` confirms.

    Confirmed are the counts, their shares in percent, and the numbers of the conditions themselves; "a of b"
    must be one finding's a and b. Words for numbers confirm nothing, so a sentence with one is left out, and
    so is one that says of all rows or of none how they were answered. What is kept is still the model's word.
    """
    known, pairs = _confirmed(findings)
    kept = []
    for sentence in _SENTENCE.split(text):
        plain = " ".join(sentence.split()).strip("-*• ")
        if plain and _is_confirmed(plain, known, pairs):
            kept.append(plain)
    return kept


def _confirmed(findings: Sequence[Finding]) -> tuple[set[str], set[tuple[int, int]]]:
    known: set[str] = set()
    pairs: set[tuple[int, int]] = set()
    for f in findings:
        counted = ((f.wrong, f.total), (f.wrong_elsewhere, f.total_elsewhere))
        pairs |= {pair for pair in counted if pair[1]}
        pairs.add((f.wrong + f.wrong_elsewhere, f.total + f.total_elsewhere))
        known |= set(_NUMBER.findall(f.condition))
    for part, whole in pairs:
        known |= {str(part), str(whole), f"{100 * part / whole:.0f}", f"{100 * part / whole:.1f}"}
    return known, pairs


def _is_confirmed(sentence: str, known: set[str], pairs: set[tuple[int, int]]) -> bool:
    if _NUMBER_WORD.search(sentence) or (_ABSOLUTE.search(sentence) and _OUTCOME.search(sentence)):
        return False
    for match in _PAIR.finditer(sentence):
        said = (match[1], match[2]) if match[1] else (match[4], match[3])
        if (int(said[0]), int(said[1])) not in pairs:
            return False
    return all(number in known for number in _NUMBER.findall(sentence))
