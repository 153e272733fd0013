"""Claims about wrong rows: conditions that a model states or that a measure gives, each counted again."""

from __future__ import annotations

import ast
import json
import math
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from itertools import pairwise
from pathlib import Path

from autoprompt import sandbox
from autoprompt.science.records import Bench
from autoprompt.text import python_source

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
    """Return the true counts of each condition that can be counted, in their order.

    table: the CSV as we wrote it, not as code may have left it. wrong: 0-based numbers of the wrong rows.
    """
    if not conditions:
        return []
    source = files("autoprompt.science").joinpath("data_script.py").read_text(encoding="utf-8")
    code = f"{source}\n\nrecount({table.name!r}, {list(conditions)!r})\n"
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
    """Return the findings that hold, the surest first.

    Of findings that hold for the same counts, it returns the shortest.
    """
    held = sorted((f for f in findings if f.is_cause), key=lambda f: (f.p_value, len(f.condition)))
    kept: list[Finding] = []
    for finding in held:
        counts = {(other.wrong, other.total) for other in kept}
        if (finding.wrong, finding.total) not in counts:
            kept.append(finding)
    return kept[:MOST_FINDINGS]


def confirmed_sentences(text: str, findings: Sequence[Finding]) -> list[str]:
    """Return the sentences of a conclusion whose every number the recount of `findings` confirms.

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


MOST_CONDITIONS = 24  # that are recounted
_QUOTED = re.compile(r"`+([^`\n]+)`+")
_BULLET = re.compile(r"^\s*(?:[-*•]|\d+[.)])\s+")
_LABEL = re.compile(
    r"^\s*\**\s*(?:conditions?|cause|rows (?:where|with)|条件|原因)\**\s*[:：]?\s*", re.IGNORECASE
)
# Columns that are the outcome, alone or both together: a condition on them says nothing about its cause.
_OUTCOMES = (frozenset({"correct"}), frozenset({"prediction", "ground_truth"}))
_COMPARED = (ast.Compare, ast.BoolOp, ast.BinOp, ast.UnaryOp, ast.Call)


def stated_conditions(text: str, columns: Collection[str]) -> list[str]:
    """Conditions in a conclusion, in their order: in backticks, or at the beginning of a line.

    Only what parses as a condition on columns is one; each comes as an expression over columns and `df`.
    """
    found = []
    for line in text.splitlines():
        pieces = _QUOTED.findall(line) or list(_beginnings(_LABEL.sub("", _BULLET.sub("", line))))
        found += [condition for piece in pieces if (condition := as_condition(piece, columns))]
    return list(dict.fromkeys(found))


def _beginnings(line: str) -> Iterator[str]:
    """Yield the line up to each sign that may end an expression, the longest first."""
    ends = [match.start() for match in re.finditer(r"[:：|,，;]|->|=>|\bwrong\b|$", line)]
    yield from (line[:end] for end in reversed(ends) if line[:end].strip())


def coded_conditions(code: str, columns: Collection[str]) -> list[str]:
    """Conditions that code compares columns by, the whole before its parts."""
    try:
        tree = python_source.parse_code(code)
    except (SyntaxError, ValueError, RecursionError, MemoryError):  # MemoryError: nested too deeply
        return []
    nodes = (node for node in ast.walk(tree) if isinstance(node, (ast.Compare, ast.BinOp, ast.Call)))
    found = (_normal(node, columns) for node in nodes)
    return list(dict.fromkeys(filter(None, found)))


def as_condition(text: str, columns: Collection[str]) -> str | None:
    """`text` as an expression that can be counted, None where it is no condition on columns.

    `length > 80 and words < 3` is taken for `(length > 80) & (words < 3)`, a single `=` for `==`.
    """
    text = re.sub(r"(?<![=<>!])=(?!=)", "==", text.strip().strip(".,;，。；").strip())
    for said, meant in (("≥", ">="), ("≤", "<="), ("≠", "!=")):
        text = text.replace(said, meant)
    try:
        node = python_source.parse_expression(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):  # MemoryError: nested too deeply
        return None
    return _normal(node, columns)


def _normal(node: ast.expr, columns: Collection[str]) -> str | None:
    """Return the expression over columns and `df`; None where it is none, or speaks of the outcome."""
    if not isinstance(node, _COMPARED):
        return None
    try:
        rewritten = _Rewriter(columns).visit(python_source.parse_expression(ast.unparse(node)))
    except (_NoConditionError, RecursionError):
        return None
    names = {n.id for n in ast.walk(rewritten) if isinstance(n, ast.Name)}
    used = names & set(columns)
    if not used or any(outcome <= used for outcome in _OUTCOMES) or not _is_truth_value(rewritten):
        return None
    return ast.unparse(rewritten)


def _is_truth_value(node: ast.expr) -> bool:
    match node:
        case ast.Compare():
            return True
        case ast.BinOp(op=ast.BitAnd() | ast.BitOr(), left=left, right=right):
            return _is_truth_value(left) and _is_truth_value(right)
        case ast.UnaryOp(op=ast.Invert(), operand=operand):
            return _is_truth_value(operand)
        case ast.Call(func=ast.Attribute(attr=name)):
            return name in _TRUTHS
    return False


_METHODS = ("contains", "startswith", "endswith", "match", "fullmatch", "isin", "between")
_COMPARISONS = ("gt", "ge", "lt", "le", "eq", "ne")
_CHARACTERS = ("isdigit", "isupper", "islower", "istitle", "isnumeric", "isalpha")
_TRUTHS = frozenset(_METHODS + _COMPARISONS + _CHARACTERS)


class _NoConditionError(Exception):
    pass


class _Rewriter(ast.NodeTransformer):
    """Columns of whatever frame become names, `and`, `or`, `not` become those of Series."""

    def __init__(self, columns: Collection[str]) -> None:
        self._columns = columns

    def visit_Subscript(self, node: ast.Subscript) -> ast.expr:
        if isinstance(node.value, ast.Name) and isinstance(node.slice, ast.Constant):
            return self._column(node.slice.value) or self._generic(node)
        if (isinstance(node.value, ast.Attribute) and node.value.attr in ("loc", "iloc")) or isinstance(
            node.slice, ast.Compare | ast.BinOp | ast.UnaryOp
        ):
            raise _NoConditionError  # a part of the rows
        return self._generic(node)

    def visit_Attribute(self, node: ast.Attribute) -> ast.expr:
        if isinstance(node.value, ast.Name) and node.value.id not in self._columns:
            return self._column(node.attr) or self._generic(node)
        return self._generic(node)

    def visit_Name(self, node: ast.Name) -> ast.expr:
        if node.id in self._columns or node.id in ("len", "str", "True", "False"):
            return node
        raise _NoConditionError  # a variable of its code

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.expr:
        parts = [self.visit(value) for value in node.values]
        sign = ast.BitAnd() if isinstance(node.op, ast.And) else ast.BitOr()
        joined: ast.expr = parts[0]
        for part in parts[1:]:
            joined = ast.BinOp(joined, sign, part)
        return joined

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.expr:
        operand = self.visit(node.operand)
        return ast.UnaryOp(ast.Invert() if isinstance(node.op, ast.Not) else node.op, operand)

    def visit_Compare(self, node: ast.Compare) -> ast.expr:
        if len(node.ops) == 1 and isinstance(node.ops[0], ast.In | ast.NotIn):
            return self._membership(node)
        if len(node.ops) > 1:
            pairs = zip([node.left, *node.comparators], node.ops, node.comparators, strict=False)
            parts = [ast.Compare(left, [op], [right]) for left, op, right in pairs]
            return self.visit_BoolOp(ast.BoolOp(ast.And(), list(parts)))
        return self._generic(node)

    def visit_Call(self, node: ast.Call) -> ast.expr:
        if isinstance(node.func, ast.Name) and node.func.id == "len" and len(node.args) == 1:
            series = ast.Attribute(self.visit(node.args[0]), "str", ast.Load())
            return ast.Call(ast.Attribute(series, "len", ast.Load()), [], [])
        for method in ("startswith", "endswith"):
            match node.func:
                case ast.Attribute(value=ast.Name(id=name), attr=attr) if (
                    name in self._columns and attr == method
                ):
                    series = ast.Attribute(ast.Name(name, ast.Load()), "str", ast.Load())
                    return ast.Call(ast.Attribute(series, method, ast.Load()), node.args, [])
        return self._generic(node)

    def _membership(self, node: ast.Compare) -> ast.expr:
        """`"?" in input`, and `prediction in ["A", "B"]`."""
        container = self.visit(node.comparators[0])
        if isinstance(node.left, ast.Constant):
            series = ast.Attribute(container, "str", ast.Load())
            keywords = [ast.keyword("regex", ast.Constant(False))]
            held: ast.expr = ast.Call(ast.Attribute(series, "contains", ast.Load()), [node.left], keywords)
        else:
            held = ast.Call(ast.Attribute(self.visit(node.left), "isin", ast.Load()), [container], [])
        return ast.UnaryOp(ast.Invert(), held) if isinstance(node.ops[0], ast.NotIn) else held

    def _column(self, name: object) -> ast.expr | None:
        return ast.Name(str(name), ast.Load()) if name in self._columns else None

    def _generic(self, node: ast.expr) -> ast.expr:
        visited = self.generic_visit(node)
        if not isinstance(visited, ast.expr):
            raise _NoConditionError
        return visited


def unique(conditions: Sequence[str]) -> list[str]:
    """Each once, the first MOST_CONDITIONS."""
    return list(dict.fromkeys(conditions))[:MOST_CONDITIONS]


def best_cuts(measures: Mapping[str, Sequence[int]], wrong: Collection[int]) -> list[str]:
    """Conditions like "length > 80": the surest cut of each measure, where it is beyond luck; surest first.

    measures: name -> a number for each row. wrong: 0-based numbers of the wrong rows. Beyond luck: p of the
    cut, times all cuts that were tried (Bonferroni), is at most MOST_LIKELY_CHANCE. Of measures that part the
    rows alike the first is named.
    """
    tried = [
        (name, sign, cut, rows)
        for name, values in measures.items()
        for cut in _between(values)
        for sign, rows in _sides(values, cut)
        if len(rows) >= FEWEST_ROWS
    ]
    best: dict[str, tuple[float, str, frozenset[int]]] = {}
    for name, sign, cut, rows in tried:
        chance = hypergeometric_tail(len(rows & set(wrong)), len(rows), len(wrong), len(measures[name]))
        if chance * len(tried) <= MOST_LIKELY_CHANCE and (name not in best or chance < best[name][0]):
            best[name] = (chance, f"{name} {sign} {cut}", rows)
    found: dict[frozenset[int], str] = {}
    for _, condition, rows in sorted(best.values(), key=lambda cut: cut[0]):
        found.setdefault(rows, condition)
    return list(found.values())


def _between(values: Sequence[int]) -> list[int]:
    """Return the middle between each value and the next: rows that are not here will fall on either side."""
    return [(low + high) // 2 for low, high in pairwise(sorted(set(values)))]


def _sides(values: Sequence[int], cut: int) -> list[tuple[str, frozenset[int]]]:
    above = frozenset(n for n, v in enumerate(values) if v > cut)
    return [(">", above), ("<=", frozenset(range(len(values))) - above)]
