"""What is around an answer: tags as `<answer>`, `\\boxed{}`, code fences, JSON, and how sure its author is.

Passages whose tags say that they are no answer, as `<reasoning>`, are left out.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from autoprompt.text.answers.texts import visible
from autoprompt.text.scripts import MARKS, lazy

_OF_ANSWER = lazy(
    r"(?:(?:final|my|the|correct|predicted)[_-]?)?(?:answers?|labels?|output|class|classification|category|categories"
    r"|result|response|prediction|verdict|choice|solution)",
    re.IGNORECASE,
)
# No answer, but what led to it, what it is about, or how sure it is.
_ASIDE = lazy(
    r"(?:\w+[_-])?(?:reason(?:ing|s)?|explanation|analysis|rationale|scratchpad|justification|evidence|reflection|notes?"
    r"|comments?|critique|feedback|steps?|working|work|plan|context|input|text|question|quotes?|options?|confidence"
    r"|certainty|probability)(?:[_-]\w+)?\d*",
    re.IGNORECASE,
)
_OF_HTML = lazy(
    r"a|abbr|b|big|blockquote|body|br|center|code|dd|del|div|dl|dt|em|font|h[1-6]|hr|html|i|img|ins|kbd|li|mark|ol|p"
    r"|pre|q|s|samp|small|span|strike|strong|sub|sup|table|tbody|td|th|thead|tr|tt|u|ul|var|details",
    re.IGNORECASE,
)
_TAG = lazy(r"<(/?)([A-Za-z][\w:-]{0,40})(?:\s[^<>]{0,100})?>|\[(/?)(ANSWER|Answer|answer|LABEL|OUTPUT)\]")
# The end of an answer that broke off, or has no closing tag.
_UNCLOSED = lazy(r"^[^\S\n]*(?:<(?:final_)?(?:answer|label)>|\[(?:ANSWER|LABEL)\])([^<>]*)\Z", re.I | re.M)
_BOX = lazy(r"\\f?boxed\s*\{|\\fbox\s*\{")
_BRACE = lazy(r"\\.|[{}]", re.DOTALL)
_BETWEEN = lazy(r"[\s,;&$.]*(?:(?:and|und|et|y|e|и|和)\b)?[\s,;&$]*", re.IGNORECASE)
_ONLY_MARKS = lazy(r"[\W_]*")
_LATEX_WORDS = lazy(r"\\(?:text\w*|math[a-z]+|mbox|operatorname)\s*\{([^{}]*)\}")
_LATEX_SIGN = lazy(r"\\([_%$&#])")
_LATEX_SPACE = lazy(r"\\[ ,;:!]|~")


class _Element(NamedTuple):
    name: str
    start: int
    content: str
    end: int


def wrapped_answers(text: str) -> list[str]:
    """Return the answers that tags or boxes mark in `text`: the last, and those right before it.

    A tag counts if it is called an answer, wherever it is, or if it is the last thing in the text and no tag
    of HTML: `<sentiment>negative</sentiment>`. If tags are inside of tags, the inner ones count.
    """
    found = tagged_answers(text)
    return [said for content in found for said in _boxed(content) or [content]] or _boxed(text)


def tagged_answers(text: str) -> list[str]:
    """Return those of `wrapped_answers` that tags mark, as they are written."""
    found = _last_run(text, _elements_of_answer(text))
    if not found and (unclosed := _UNCLOSED.search(text)) and unclosed[1].strip():
        return [unclosed[1]]
    return found


def unwrap(text: str) -> str:
    """Return what tags or boxes mark as the answer, one a line.

    If they mark none, return `text` without what its tags call no answer.
    """
    if not ("<" in text or "\\" in text or "[" in text) or _is_data(text):
        return text
    return "\n".join(map(str.strip, wrapped_answers(text))) or _without_asides(text)


def plain_latex(text: str) -> str:
    """Return a text without the marks that LaTeX writes around words: `\\text{non\\_toxic}`."""
    text = _LATEX_SPACE.sub(" ", _LATEX_SIGN.sub(r"\1", text))
    return _LATEX_WORDS.sub(r"\1", _LATEX_WORDS.sub(r"\1", text)).strip("$ ")


def _is_data(text: str) -> bool:
    """Return whether it is one object or list of JSON, whose texts may speak of tags."""
    shown = text.strip()
    return shown.startswith(("{", '["', "[{")) and shown.endswith(("}", "]"))


def _elements(text: str) -> list[_Element]:
    """Return what stands between an opening and a closing tag of one name, by their ends."""
    opened: dict[str, re.Match[str]] = {}
    found: list[_Element] = []
    for tag in _TAG.finditer(text):
        name = (tag[2] or tag[4]).lower()
        if not (tag[1] or tag[3]):
            opened[name] = tag
        elif begin := opened.pop(name, None):
            found.append(_Element(name, begin.start(), text[begin.end() : tag.start()], tag.end()))
    return found


def _elements_of_answer(text: str) -> list[_Element]:
    elements = _elements(text)
    found: list[_Element] = []
    for one in elements:
        is_filled = one.content.strip(" .…\n") and _OF_ANSWER.fullmatch(one.name)
        if is_filled and not (found and found[-1].start > one.start):
            found.append(one)
    if found:
        return found
    last = max(elements, key=lambda one: one.end, default=None)
    if last is None or not _ONLY_MARKS.fullmatch(text, last.end):
        return []
    is_other = _ASIDE.fullmatch(last.name) or _OF_HTML.fullmatch(last.name)
    return [] if is_other or "<" in last.content or not last.content.strip() else [last]


def _boxes(text: str) -> list[_Element]:
    """Return the contents of boxes, each up to the brace that closes it."""
    found: list[_Element] = []
    at = 0
    while box := _BOX.search(text, at):
        depth, at = 1, box.end()
        while depth and (brace := _BRACE.search(text, at)):
            at = brace.end()
            depth += {"{": 1, "}": -1}.get(brace[0], 0)
        if depth:
            break
        if text[box.end() : at - 1].strip():
            found.append(_Element("", box.start(), text[box.end() : at - 1], at))
    return found


def _boxed(text: str) -> list[str]:
    return [plain_latex(box) for box in _last_run(text, _boxes(text))]


def _last_run(text: str, elements: Sequence[_Element]) -> list[str]:
    """Return the contents of the last element, and of those of its name that stand right before it."""
    run: list[_Element] = []
    for one in sorted(elements, key=lambda one: -one.start):
        if run and not (one.name == run[-1].name and _BETWEEN.fullmatch(text, one.end, run[-1].start)):
            break
        run.append(one)
    return [_without_asides(one.content).strip() for one in reversed(run)]


def _without_asides(text: str) -> str:
    """Return `text` without the passages that are no answer, if something else remains."""
    at, parts = 0, []
    for one in sorted(_elements(text), key=lambda one: one.start):
        if one.start >= at and _ASIDE.fullmatch(one.name):
            parts.append(text[at : one.start])
            at = one.end
    rest = "\n".join([*parts, text[at:]]) if parts else text
    return rest if any(map(str.isalnum, _TAG.sub("", rest))) else text


_FENCE = lazy(r"[ \t]{0,3}(`{3,}|~{3,})[ \t]*([^`\n]*)")
_HEADING = lazy(r"#{1,6}\s|(\*\*|__).*\1\Z")
_LONGEST_LEAD = 200  # characters of the line before the fence


def unfence(text: str) -> str:
    """Return the content of the one fenced block that an answer consists of; any other text as it is.

    One line may introduce the block ("Here is the query:", a heading). The block may be left open at the end.
    An answer with text after the block, or with several blocks, has no one content.
    """
    lines = text.strip().splitlines()
    fences = ((n, found) for n, line in enumerate(lines) if (found := _FENCE.fullmatch(line)))
    begin, opened = next(fences, (0, None))
    if opened is None or not _is_lead(lines[:begin]):
        return text
    mark = opened[1]
    body = lines[begin + 1 :]
    if body and body[-1].rstrip().endswith(mark) and not _FENCE.fullmatch(body[-1]):
        body[-1:] = [body[-1].rstrip().removesuffix(mark), mark]  # SELECT 1;```
    closed = _closed_at(body, mark)
    if closed is None:
        return "\n".join(body) if body else text
    return "\n".join(body[:-1]) if closed == len(body) - 1 else text


def _is_lead(lines: list[str]) -> bool:
    said = [line.strip() for line in lines if line.strip()]
    if not said:
        return True
    line = said[0].rstrip("*_ ")
    is_short = len(said) == 1 and len(line) <= _LONGEST_LEAD
    return is_short and (line.endswith((":", "：")) or _HEADING.match(said[0]) is not None)


def _closed_at(body: list[str], mark: str) -> int | None:
    """Return which line closes the block that `mark` opened; None if no line does.

    Blocks of a document, which models fence with the same mark, are parts of it.
    """
    depth = 1
    for at, line in enumerate(body):
        found = _FENCE.fullmatch(line)
        if found is None or not found[1].startswith(mark):
            continue
        depth += 1 if found[2].strip() else -1
        if depth == 0:
            return at
    return None


NOUN = (
    r"(?:(?:niveau|degré|indice|score|taux|nivel|grado|índice|nível|grau|livello|степень|уровень|рівень|tingkat"
    r"|mức\ độ|مستوى|درجة)\s(?:(?:de|di|da|của)\s)?)?"
    r"(?:confidence|certainty|confianza|certeza|confiance|certitude|confiança|confidenza|fiducia|certezza"
    r"|konfidenz|zuversicht|sicherheit|gewissheit|vertrauen|zekerheid|betrouwbaarheid|sikkerhed|säkerhet|pewność"
    r"|уверенност[ьи]|достоверност[ьи]|впевненіст[ьі]|güven|keyakinan|kepercayaan|độ\ tin\ cậy|tin\ cậy"
    r"|(?:ال)?ثقة|विश्वास|आत्मविश्वास|ความมั่นใจ"
    r"|置信(?:度|水平|值)?|信心(?:度|指数|水平|值)?|[确確]信度|可信度|把握度?|自信度?|信頼度|確度|확신도?|신뢰도|자신감)"
    r"(?:s?(?:wert|niveau|grad|level|score|rating|स्तर|\s(?:level|score|rating|value|estimate|स्तर)))?"
)
_CERTAIN = (
    r"(?:confident|confidence(?:\s(?:level|score))?|certain|certainty|sure|sicher|sûre?|segur[oa]|sicur[oa]|certo"
    r"|(?:的)?(?:置信度|把握|信心|确信|確信|自信)|확신|уверен[а-я]*)"
)
_INTERVAL = r"(?:confidence\s+interval|C\.?I\.?|KI|IC|置信区间|信頼区間)"
_SHARE = r"\d{1,3}(?:[.,]\d+)?"
LEVEL = (
    r"(?:(?:very|extremely|fairly|quite|relatively|sehr|très|muy|很|非常|较|比较|очень)\s?)?"
    r"(?:high|medium|moderate|low|hoch|mittel|niedrig|gering|élevée?|moyenne?|faible|alt[ao]|medi[ao]|baj[ao]|bass[ao]"
    r"|média|baixa|高|中等?|低|높음|보통|낮음|высок[а-я]+|средн[а-я]+|низк[а-я]+)"
)
_VALUE = rf"(?:{_SHARE}\s?(?:%|percent|per\s?cent)?(?:\s?(?:/|out\s+of)\s?{_SHARE})?|{LEVEL}(?![\w{MARKS}]))"
_OPEN, _CLOSE = r"[(\[{（【<\"'*_`#>\s-]*+", r"(?:</\w+>|[)\]}）】>\"'*_`.。!！\s])*+"
# Where such a statement may begin: a line, a sentence or a clause, in brackets, or right behind a number.
_BEGIN = r"(?:\A|\n|(?<=[.;!?。；！？,，、|(\[{（【*_`\"'}\])）】])|(?<=[\d%])(?=\s)|\s[-–—]\s)"
_SAID = lazy(
    rf"[,，;；]?{_BEGIN}{_OPEN}"
    rf"(?:(?:my|our|overall|answer|model|the|with|at|and|und|et|y|(?:a|an)\s(?:overall\s)?|我的|我对答案的)\s*+)*+"
    rf"(?:{NOUN}[\"'*_`）)]*(?:\s?\([^()\n]{{0,30}}\))?[\"'*_`]*+\s*+"
    rf"(?:[:=：]|is|of|ist|est|es|é|è|是|为|為|は|[-–—>])?\s*+[\"'*_`]*+(?:about|around|approximately|约)?\s*+"
    rf"{_VALUE}[^\n]{{0,120}}?"
    rf"|(?:I(?:'m|’m|\sam)|we\sare|ich\sbin|je\ssuis|我?有|我)?\s*+(?:about|around|approximately|roughly|约|大约)?\s*+"
    rf"(?:{_SHARE}\s?(?:%|percent|per\s?cent|prozent)?\s*{_CERTAIN}(?:\s(?:in|about|of|that)\s[^\n.]{{0,60}})?"
    rf"|{_SHARE}\s?%\s?{_INTERVAL}[^\n]{{0,60}}?"
    rf"|{LEVEL}\s(?:confidence|certainty)))"
    rf"{_CLOSE}\Z",
    re.IGNORECASE,
)
_JOINTS = " \t\n,，;；|-–—"
_LONGEST = 240  # characters at the end that are looked at


def without_confidence(text: str) -> str:
    """Return `text` without a statement at its end that says how sure its author is.

    A text that is nothing else stays as it is.
    """
    text = text.rstrip()
    begin = max(0, len(text) - _LONGEST)
    said = _SAID.search(text, begin)
    if said is None:
        return text
    rest = text[: said.start()].rstrip(_JOINTS)
    opened = re.search(r"[(\[（【]\s*\Z", rest)
    rest = rest[: opened.start()].rstrip(_JOINTS) if opened else rest
    return rest if any(map(str.isalnum, rest)) else text


_JSON_FENCE = re.compile(r"(```|~~~)[\w-]*\n?(.*?)\1", re.DOTALL)
# Of the braces of prose, of formulas and of code most begin no JSON: they cost nothing.
_JSON_BEGIN = re.compile(r"""\{[ \t\r\n]*["}]|\[[ \t\r\n]*[\]\[{"\d\-tfnNI]""")
# Characters that are read in vain at most: thousands of opening brackets must not cost a quadratic search.
# A reading that fails at once counts for a few. The error of endless nesting does not say where it was.
_MOST_WORK, _LEAST_COST, _ENDLESS_COST = 2_000_000, 200, 10_000
_NONE: Any = object()
# In front of a value that is not the answer, or right behind it.
_JSON_ASIDE = lazy(
    r"\b(?:unlike|another|other|different|examples?|e\.g\.|for\s+instance|would|instead\s+of|rather\s+than|not|compare|versus"
    r"|(?:an|ein)other|anders|ander\w+|beispiel\w*|statt|nicht|autre|exemple|au\s+lieu|otr[oa]|ejemplo|en\s+lugar|outr[oa]"
    r"|exemplo|altr[oa]|esempio|друг\w+|пример\w*|вместо)\b|例如|另一|其他|而不是|たとえば|例えば|別の|예를\s*들|다른",
    re.IGNORECASE,
)
_ASIDE_BEHIND = lazy(r"[`\s]*(?:would|wäre|serait|sería|seria|sarebbe|был[аои]?\s+бы)\b", re.IGNORECASE)
_BETTER = lazy(
    r"\b(?:final\w*|correct\w*|wait|actually|revis\w+|updat\w+|fix\w*|improv\w+|better|now|korrig\w+"
    r"|korrekt\w*|endg\w+|corrig\w+|corrég\w+|finale?|исправл\w+|итог\w*|окончательн\w+)\b|\b(?:answer|result|output|antwort|réponse|respuesta)\s*[:：]|最终|最終|更正|修正|正确|改为|최종|수정"
    r"|(?:\b(?:so|thus|hence|therefore|also|daher|somit|donc|alors|entonces|portanto|quindi|итак)\b|所以|因此|따라서)\W*\Z",
    re.IGNORECASE,
)


class _Value(NamedTuple):
    """A value, and where it is in the text."""

    start: int
    end: int
    value: Any


def read_json(
    text: str, kind: type[Any] | tuple[type[Any], ...] = object, *, default: Any | None = None
) -> Any | None:
    """Return the JSON value in `text`: all of it, else its last fenced block, else its last object or list.

    Values that only illustrate ("another input gives {…}") come last. So do those in the prose after a value
    that the text begins with, unless the prose calls them corrected.

    Args:
        text: An answer.
        kind: The type that is wanted, as of `json.loads`. The last value of it counts, and if there is none
            the last of any type, since an answer may quote an example or a `[1]`.
        default: For a text without JSON.

    Examples:
        >>> read_json('The result is {"label": "spam"}.')
        {'label': 'spam'}
    """
    other = _NONE
    for value in _values(visible(text)):
        if isinstance(value, kind):
            return value
        other = value if other is _NONE else other
    return default if other is _NONE else other


def _values(text: str) -> Iterator[Any]:
    """Yield all values, the one that counts first."""
    for body in reversed(tagged_answers(text)) if "<" in text and not text.startswith(("{", "[")) else ():
        yield from (value for value in _values(body) if isinstance(value, dict | list))
    try:
        yield json.loads(text)
    except (ValueError, RecursionError):
        embedded = list(_embedded(text))
        fenced = list(_fenced(text))
        if fenced and embedded and not any(map(str.isalnum, text[: embedded[0].start])):
            fenced[:0] = [embedded[0]] if embedded[0].end < fenced[0].start else []
        yield from _by_rank(text, fenced)
        yield from _by_rank(text, embedded)


def _by_rank(text: str, values: Sequence[_Value]) -> Iterator[Any]:
    """Yield the last value first, and values that only illustrate (examples, wrong answers) at the end."""
    is_first_meant = bool(values) and not any(map(str.isalnum, text[: values[0].start].replace("json", "")))
    asides: list[Any] = []
    main: list[Any] = []
    for at, value in enumerate(values):
        before = text[values[at - 1].end if at else 0 : value.start]
        is_prose = at > 0 and any(map(str.isalnum, before))
        is_aside = is_prose and (_JSON_ASIDE.search(before) or _ASIDE_BEHIND.match(text, value.end))
        is_later = is_prose and is_first_meant and not _BETTER.search(before)
        (asides if is_aside or is_later else main).append(value.value)
    yield from reversed(main)
    yield from reversed(asides)


def _fenced(text: str) -> Iterator[_Value]:
    for fence in _JSON_FENCE.finditer(text):
        try:
            yield _Value(fence.start(), fence.end(), json.loads(fence[2]))
        except (ValueError, RecursionError):
            continue


def _embedded(text: str) -> Iterator[_Value]:
    """Yield the JSON objects and lists inside a text, outermost only."""
    decoder = json.JSONDecoder()
    at, work = 0, _MOST_WORK
    while work > 0 and (begin := _JSON_BEGIN.search(text, at)) is not None:
        at = begin.start()
        try:
            value, at = decoder.raw_decode(text, at)
        except json.JSONDecodeError as error:
            work -= error.pos - at + _LEAST_COST
            at += 1
        except (ValueError, RecursionError):
            work -= _ENDLESS_COST
            at += 1
        else:
            yield _Value(begin.start(), at, value)
