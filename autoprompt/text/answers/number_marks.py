"""Which number of an answer is meant, where a mark says it: "Answer:", "The answer is", `####`, `\\boxed{}`.

Texts are read as `numbers` has them, with the marks of a keyboard: `boxed {14}`, `:` for the Chinese colon.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from autoprompt.text.scripts import lazy

_BEGIN = r"^[^\S\n]*[*_#>`\"'({\[-]*[^\S\n]*"
_NAMED = (
    r"(?:(?:so|thus|hence|therefore|the|my|our|correct|final|最终|最后|正确|所以|因此)[ ,_*]*)*"
    r"(?:answer|prediction|答案|回答|预测|答え|正解|解答|정답|답변?|คำตอบ|उत्तर|الجواب|الإجابة|Antwort|réponse|respuesta"
    r"|resposta|risposta|ответ|cevap|(?:final|最终|最后)[ _]?(?:result|output|结果|输出))"
)
# A result or an output that is not called final may be one of several steps'.
_HEADING = lazy(
    rf"{_BEGIN}{_NAMED}[^\S\n]*(?:\([^()\n]{{0,40}}\))?[*_`\"')\]]*[^\S\n]*[:=]"
    r"|^[^\S\n]*(?P<hashes>####)(?!#)|\bboxed\s*\{",
    re.IGNORECASE | re.MULTILINE,
)
_IN_A_SENTENCE = lazy(
    r"\banswer\s+is\b|答案(?:是|为)|(?:答え|正解|解答)は|(?:정답|답)[은는]|คำตอบ(?:คือ|เป็น)|الجواب\s+هو|الإجابة\s+هي"
    r"|\b(?:Antwort\s+(?:ist|lautet)|réponse\s+est|respuesta\s+es|resposta\s+é|risposta\s+è)(?!\w)",
    re.IGNORECASE,
)
# Between a mark and its number. Of any other word a sentence may be made that first says what is counted.
_LEAD = lazy(
    r"(?:[\W_]|\b(?:the|final|total|answer|result|value|number|sum|it|is|was|are|be|would|should|about|around"
    r"|approximately|approx|roughly|nearly|almost|exactly|only|just|equals?|equal|to|text|textbf|mathrm"
    r"|mathbf"
    r"|boxed|usd|us|eur|gbp|inr|rs|rmb|cny|jpy)\b|大?约|大概|一?共|总共|等于|[是为有])*",
    re.IGNORECASE,
)
_WIDEST_LEAD = 60
_STEP = lazy(r"[.)]\s")  # "1. First": a list begins
_EQUAL = lazy(r"(?<![<>!=])=(?![>=])|≈|\b(?:equals?|approx)\b|等于")
_BEHIND_EQUAL = lazy(rf"(?:{_EQUAL.pattern})[\W_]*$")
_OPERATOR = r"(?:[-+*/×÷^·:–—~]|\b(?:times|plus|minus|multiplied\s+by|divided\s+by|over|x|to|and)\b)"
_JOINED = lazy(
    rf"[^\S\n]*(?:{_OPERATOR}[^\S\n]*[(]?[$€£¥]?\d"
    r"|,[^\S\n]*[$€£¥]?\d[\d.]*[^\S\n]*(?:[,;]|and\b|$))",  # a list
    re.IGNORECASE | re.MULTILINE,
)
_EXPRESSION = lazy(rf"\d[^\S\n]*{_OPERATOR}[^\S\n]*[(]?[$€£¥]?\d", re.IGNORECASE)
# What a number's own part of a line ends with.
_CLAUSE = lazy(
    r"(?:(?!\n|[.;!?。](?:\s|$)|,\s|(?<![-+*/×÷=^·(])\s\(|\b(?:because|since|not|but)\b).){0,300}",
    re.IGNORECASE,
)
# The line goes on to another number: "9 eggs are left, so she makes $18".
_CONCLUSION = lazy(
    r"(?:\b(?:so|thus|therefore|hence|gives?|giving|makes?|making|yields?|total(?:s|ing)?|altogether"
    r"|which\s+is)\b"
    r"|=>|[→⇒]|所以|因此|一?共).{0,200}?\d",
    re.IGNORECASE,
)
_IS_BESIDE = lazy(
    # "42 out of 50", "42 of the 50", "7 instead of 8"
    r"(?:\d[ ]?\)?\s+(?:[^\W\d]+\s+)?(?:out\s+of|instead\s+of|rather\s+than|anstatt|statt|au\s+lieu\s+de"
    r"|en\s+(?:lugar|vez)\s+de|em\s+vez\s+de)"
    r"(?:\s+(?:the|a|an|total|maximum|possible|of)\b)*"
    r"|\d\s+(?:of|von|sur|de|di|из|van|av)(?:\s+(?:the|these|those|its|all|den|les|los|las|gli|i))?"
    r"|\d\s+(?:and\s+|but\s+)?not"
    r"|±|\+ ?/ ?-|\b(?:give\s+or\s+take|plus\s+or\s+minus|plus/minus)"
    r"|[,;(]\s*(?:and\s+|und\s+|et\s+|y\s+|и\s+)?(?:not|rather\s+than|instead\s+of|nicht|statt|non|pas|no"
    r"|não|не|而不是|不是))"
    r"\s*(?:about\s+)?[-+$€£¥]?\s*\Z",
    re.IGNORECASE,
)
_OF_WHICH = lazy(
    r"(?:\s[^\W\d]+)?\s+(?:of\s+(?:which|whom|them)|davon|dont|de\s+(?:los|las)\s+cuales)\b", re.IGNORECASE
)
# When it was so: "was 17 in 2024", "17 as of May 12, 2024".
_DATED = lazy(
    r"(?:\s?[^\W\d]+){0,2}[\s,(]+(?:in|as\s+of|by|since|im\s+Jahr|en|em|nel"
    r"|в)\s+(?:[^\W\d]{3,9}\.?\s+(?:\d{1,2},?\s+)?)?"
    r"(?:19|20)\d\d\)?[.!\s]*\Z",
    re.IGNORECASE,
)
_MOST_OF_DATE, _MOST_EXPLAINING = 2, 50  # numbers of a date; in a row that explain another
_STATES = lazy(
    r"(?:\A|\b(?:is|was|were|are|war|est|était|es|era|é|è|было?)|[:=])[\s*_]*[$€£¥]?\s*\Z", re.IGNORECASE
)
_BEGINS = lazy(
    r"\W*(?:(?:it['’]s|it\s+is|about|around|approximately|approx\.?|roughly|exactly)\W+)*", re.IGNORECASE
)
# Behind a number that begins an answer: its unit, and then nothing but what explains it.
_REST = lazy(
    r"[*_`\"']*(?:\s?[^\W\d]+){0,2}[*_`\"']*(?:\s*\((?P<aside>[^()]*)\)\W*\Z|\s*\|\s*(?:p|prob\w*"
    r"|score)\s*[=:][^\n]*\Z"
    r"|\.\s+(?:As\s+of|Note|Source|According|Rounded|Stand|Quelle|Fuente)\b(?!.*=)[^\n]*\Z"
    r"|\s*\n\W*(?:uncertainty|error|std|probability|likelihood|score|precision|tolerance|margin"
    r"|confidence\w*|note|source"
    r"|rounded|explanation|reason(?:ing)?|calculation)\b)",
    re.IGNORECASE,
)
_CONCLUDES = lazy(r"\b(?:so|thus|therefore|total|altogether|answer|makes|leaves)\b|共|所以", re.IGNORECASE)
_ASIDE = lazy(r"\([^()]*\)")


def find_marked(text: str, numbers: Sequence[tuple[int, int]], *, is_marked: bool = False) -> int | None:
    """Return the index of the number that a mark calls the answer; None if no mark does.

    Of several marks at the start of a line the last one is used, else the last "answer is". Its number
    follows at once ("Answer: about **14** (2 steps)"); of an equation it is the result, also if others
    follow. A sum without a result, a range and a list are not one number, and a line that continues to a
    conclusion has its number at the end: these return None.

    Args:
        text: An answer.
        numbers: Where they are in `text`, in order.
        is_marked: A mark stood in front of `text`.

    Measured on 6,581 worked solutions (the sample file of GSM8K) whose last number is right in 95.7 %: with
    "Answer:" before the solution, which a mark may precede too, as many are read right (95.7 %); with
    "Answer: N" and the solution as explanation 100 %, with "The answer is N." before it 98.6 %.
    """
    headings = list(_HEADING.finditer(text))
    marks = headings[-1:] or list(_IN_A_SENTENCE.finditer(text))[-1:]
    if not marks and not is_marked:
        return None
    begin = marks[0].end() if marks else 0
    at = next((at for at, (start, _) in enumerate(numbers) if start >= begin), None)
    if at is None:
        return None
    start, end = numbers[at]
    lead = text[begin:start]
    if len(lead) > _WIDEST_LEAD or not _LEAD.fullmatch(lead):
        return None
    may_be_step = "\n" in lead or bool(marks and marks[0].lastgroup)
    if may_be_step and _STEP.match(text, end):
        return None
    return _settled(text, numbers, at)


def find_main(text: str, numbers: Sequence[tuple[int, int]]) -> int:
    """Return the index of the number that counts if no mark says which: the last that explains no other.

    A number in "± 2" or ", not 43" explains the one before. So does a number in brackets or on later lines,
    if the answer begins with another: "42 (= 6 × 7)".
    """
    start, end = numbers[0]
    if _BEGINS.fullmatch(text, 0, start) and (rest := _REST.match(text, end)):
        aside = rest["aside"]
        if aside is None or not _CONCLUDES.search(aside):
            return 0
    least = max(0, len(numbers) - 1 - _MOST_EXPLAINING)
    last = next((at for at in range(len(numbers) - 1, least, -1) if not _explains(text, *numbers[at])), least)
    for at in range(max(0, last - _MOST_OF_DATE), last):
        start, end = numbers[at]
        if _DATED.match(text, end) and _STATES.search(text[max(0, start - 12) : start]):
            return at
    return last


def _explains(text: str, start: int, end: int) -> bool:
    """Return whether a number explains another: the 50 of "42 out of 50", the 2 of "7 apples, 2 of which"."""
    before = text[max(0, start - 40) : start]
    is_part = before.rstrip().endswith((",", ";", "(")) and _OF_WHICH.match(text, end) is not None
    return is_part or _IS_BESIDE.search(before) is not None


def _settled(text: str, numbers: Sequence[tuple[int, int]], at: int) -> int | None:
    """Return the number at `at`, or the result of the equation that begins with it."""
    end = numbers[at][1]
    clause = _CLAUSE.match(text, end)
    equal = _EQUAL.search(clause[0]) if clause else None
    if equal is None:
        line = _ASIDE.sub("", text[end:].partition("\n")[0])
        return None if _JOINED.match(text, end) or _CONCLUSION.search(line) else at
    left, right = equal.string[: equal.start()], equal.string[equal.end() :]
    if _EXPRESSION.search(right) and not any(map(str.isdigit, left)):  # 7 = 3 + 4
        return at
    behind = range(len(numbers) - 1, at, -1)
    result = next((n for n in behind if _is_result(text, numbers[n - 1][1], numbers[n][0])), None)
    return None if result is None or _JOINED.match(text, numbers[result][1]) else result


def _is_result(text: str, before: int, start: int) -> bool:
    """Return whether the number at `start` is right of an equals sign.

    Args:
        text: An answer.
        before: Where the number before it ends.
        start: Where it begins.
    """
    return _BEHIND_EQUAL.search(text[max(before, start - _WIDEST_LEAD) : start]) is not None
