"""Where the labels of a set occur in a text as words, in time that grows with the text, not with the set.

What must be on both sides of a label depends on its script: see `Border`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import NamedTuple

from autoprompt.text.scripts import MARKS, PARTED_LETTER, lazy

JOINT = re.compile(rf"(?<=(?!_)[\w{MARKS}])[\s_\-]+(?=(?!_)[\w{MARKS}])")  # between the words of a label
_GAP = re.compile(r"[\s_\-]*")  # what a text may have there: "non clickbait", "NonClickbait"
_PARTED = "\n"  # a joint in the index: the forms of labels hold spaces alone


class Found(NamedTuple):
    """A label in a text."""

    label: str
    start: int
    end: int

    @property
    def span(self) -> tuple[int, int]:
        """Return where the label begins and ends."""
        return self.start, self.end


@dataclass(frozen=True, slots=True)
class _Word:
    """A way to write a label. rank: that of its label, the longest first."""

    label: str
    form: str
    rank: int
    borders: tuple[Border, ...]


@dataclass(slots=True)
class _Node:
    """The words that begin alike. They are parted by their next character when a text first comes here."""

    words: list[_Word]
    depth: int
    ended: list[_Word] = field(default_factory=list)
    children: dict[str, _Node] | None = None

    def parted(self) -> dict[str, _Node]:
        """Return the nodes of the words by their next character."""
        if self.children is None:
            children: dict[str, _Node] = {}
            ended: list[_Word] = []
            for word in self.words:
                if len(word.form) == self.depth:
                    ended.append(word)
                else:
                    children.setdefault(word.form[self.depth], _Node([], self.depth + 1)).words.append(word)
            # In this order: another thread may be here, and reads `ended` after `children`.
            self.ended, self.children = ended, children
        return self.children


class LabelIndex:
    """The labels of a set by their characters.

    Args:
        forms: Label to how it is written, without marks around it; the longest first.
        numbers: Label to its number, of labels that are whole numbers.
        tail: Pattern of what belongs to a number, see `borders_of_number`.
    """

    def __init__(self, forms: Mapping[str, str], numbers: Mapping[str, str], tail: str) -> None:
        has_signs = any(number.startswith("-") for number in numbers.values())
        words: list[_Word] = []
        for rank, (label, form) in enumerate(forms.items()):
            if (number := numbers.get(label)) is None:
                words.append(_Word(label, folded(JOINT.sub(_PARTED, form)), rank, borders_of(form)))
                continue
            borders = borders_of_number(tail, is_negative=number.startswith("-"))
            words.append(_Word(label, number, rank, borders))
            if has_signs and not number.startswith("-"):
                words.append(_Word(label, f"+{number}", rank, borders))
        self._root = _Node(words, 0)
        self._starts = _starts(self._root.parted())

    def find(self, text: str) -> list[Found]:
        """Return the labels of `text`, the first first; of those that begin at one place the longest."""
        found: list[Found] = []
        if self._starts is None:
            return found
        lowered, at = folded(text), 0
        while (start := self._starts.search(lowered, at)) is not None:
            at = start.start()
            if (here := self._at(text, lowered, at)) is None:
                at += 1
            else:
                found.append(here)
                at = here.end
        return found

    def _at(self, text: str, lowered: str, start: int) -> Found | None:
        """Return the longest label that begins there."""
        ends: list[tuple[int, int, _Word]] = []
        ways = [(self._root, start)]
        while ways:
            node, at = ways.pop()
            if len(node.words) == 1 and node.depth:
                word = node.words[0]
                if (end := _end(word.form, node.depth, lowered, at)) >= 0:
                    ends.append((word.rank, end, word))
                continue
            children = node.parted()
            ends += [(word.rank, at, word) for word in node.ended]
            if (joint := children.get(_PARTED)) is not None:
                ways.append((joint, _gap_end(lowered, at)))
            if (child := children.get(lowered[at : at + 1])) is not None:
                ways.append((child, at + 1))
        for _, end, word in sorted(ends, key=lambda way: way[:2]):
            for border in word.borders:
                if (whole := border.end(text, start, end)) >= 0:
                    return Found(word.label, start, whole)
        return None


def folded(text: str) -> str:
    """Return `text` without case, of the same length: places in it are places in `text`."""
    whole = text.casefold()
    return whole if len(whole) == len(text) else "".join(map(_fold, text))


@cache
def _fold(character: str) -> str:
    whole = character.casefold()
    return whole if len(whole) == 1 else character.lower()[0]


def _gap_end(text: str, at: int) -> int:
    gap = _GAP.match(text, at)
    return gap.end() if gap else at


def _end(form: str, depth: int, text: str, at: int) -> int:
    """Return where a word ends whose first `depth` characters end at `at`; -1 if it is another word."""
    first, *others = form[depth:].split(_PARTED)
    for number, part in enumerate((first, *others)):
        at = _gap_end(text, at) if number else at
        if not text.startswith(part, at):
            return -1
        at += len(part)
    return at


def _starts(children: Mapping[str, object]) -> re.Pattern[str] | None:
    if not children:
        return None
    # Inside a word of ASCII no label begins: `borders` says so too, and here it costs nothing.
    inner = "".join(re.escape(c) for c in children if c.isascii() and c.isalnum())
    other = "".join(re.escape(c) for c in children if not (c.isascii() and c.isalnum()))
    parts = [rf"(?<![A-Za-z0-9])[{inner}]"] if inner else []
    return re.compile("|".join([*parts, *([f"[{other}]"] if other else [])]))


# Behind a "no" that answers nothing: "I have no idea", "no way to tell", the Spanish "no sé". Before another
# noun ("there is no sarcasm") it may well be the answer.
_NO_ANSWER = (
    r"(?!\.\s?\d|\s+(?:(?:problem|worries|comment|doubt|question|wonder|idea|clue|opinion|preference|matter)\b"
    r"|(?:(?:clear|definite|definitive|simple|single|right|correct|certain)\s+){0,2}answer\b"
    r"|(?:way|means)\s+(?:to|of)\s+(?:tell|know|say|see|decid|determin|judg|be\b|find)"
    r"|(?:one|body)\s+(?:knows|(?:can|could)\s+(?:know|say|tell|judge|answer|decide))\b"
    r"|(?:lo\s+)?(?:sé|sabría)\b|estoy\s+segur|puedo\s+(?:decir|decidir|determinar|saber)"
    r"|tengo\s+(?:ni\s+)?idea))"
)
_SPECIAL = ("no", "是", "否")
_LETTER = lazy(PARTED_LETTER)
_BEFORE_LETTER = rf"(?<!{PARTED_LETTER})"
_BEHIND_LETTER = rf"(?!{PARTED_LETTER})"
_BEFORE_DIGIT = r"(?<!\d[.,/])(?<![-+])(?<![^\W为是])"  # 有1个 is a count, 是1 an answer
_COUNTED = (  # 3个 and 3分钟 are counts, 3分 a grade
    r"(?!つ(?!星)|[个個人次年月日天岁歲元块塊只隻条條张張本名位家倍秒回개명년월일원]|分[钟鐘]|小?[时時]|[번番第]?[째目]|번째|番目|시간)"
)
_BEHIND_DIGIT = rf"(?![.,/]\d)(?!%){_COUNTED}{_BEHIND_LETTER}"
# One letter is also a word or a part of one: only the capital counts, and "A headline" is not A.
_ARTICLE = r"(?!\s+(?!(?:is|was|because|since|as|and|or)\b)[a-z])"
_ALONE_BEFORE, _ALONE_BEHIND = r"(?<![\w'’])", r"(?![\w'’])"

# Chinese, Japanese, Korean and Thai part no words, so a letter or a digit may be glued to what gives it as
# the answer (故选B, 正解はBです, คำตอบคือB) or to what it is a part of (B超, Aさん, 维生素C, 第1题).
_GIVING = lazy(
    r"(?:是|为|為|即|选|選|[选選][择擇了项項为為]|[选選]的是|答案?|填|给|給|打|评|評|[评評][分为為级級]|得分?|[属屬]于|[归歸]于|等[级級]"
    r"|[类類]别?|[类類]別|[标標][签籤]|[编編]?[号號]|[结結]果|分数|[和与與或及跟]"
    r"|は|が|なく|答え?|肢|番号|評価|スコア|[とかや]"
    r"|은|는|답|지|번호|점수|등급|[와과]"
    r"|คือ|ข้อ|ตอบ|เลือก|เป็น|ได้|ให้|ระดับ|คะแนน|หรือ|และ)[\"'`*“‘「『(]*$"
)
_MOST_GIVING = 12  # characters in front that are looked at
_RIGHT = r"(?:最|更|才)?(?:正[确確]|[对對]|合[适適]|符合|恰[当當]|[准準][确確]|答案)"
_GIVEN = (
    rf"(?:[选選]?[项項]|[选選][项項]|是?{_RIGHT}|是?[错錯]|有[误誤]|不|[吧呢啊和与與或及跟均都、]"
    r"|です|だ(?![けが])|で(?:す|ある|した)|が(?:正|適|最|妥当|答|該当|当ては|ふさわし|一番)|を(?:選|解答|回答)"
    r"|に(?:な|該当|決|し)|[とや]|か(?!ら)|また|もしく|それとも|あるい|は(?:誤|間違|不|正し|適)"
    r"|입니다|이[다에며]|예요|임|[이가]\s?(?:정답|맞|옳|적절|답|가장|더)|[을를]\s?(?:선택|고르|골|택)"
    r"|으?로\s?(?:판단|분류|선택|생각|답)|이?라고|[은는]\s?(?:정답|오답|틀|아니|잘못|맞|옳)|[와과]|하고|이?나(?!라)"
    r"|ครับ|ค่ะ|ถูก|เป็นคำตอบ|คือคำตอบ|หรือ|และ|ไม่)"
)
_UNIT = r"(?:分(?![钟鐘数之])|[颗顆]?星|[点點점类類号號级級档檔]|[つ]星|番(?!目)|번(?!째)|คะแนน|ดาว)"
_GIVEN_LETTER = rf"(?=\Z|[^\w'’]|{_GIVEN}|[类類级級](?!\w)|番(?!目)|번(?!째))"
_GIVEN_DIGIT = rf"(?=\Z|\W|{_GIVEN}|{_UNIT})"

# A small letter is a word of its own if it is given as the answer and ends the sentence: "I choose b."
_SAYING = lazy(
    r"(?:^|\n|\b(?:is|be|choose|chose|pick(?:ed)?|select(?:ed)?|choice|option|answer|letter|label|class|category"
    r"|say|with|ist|est|es|è|é|это)\b\s*[:=]?|[:=>→,;.])\s*[\"'`*“‘(\[]*$|[\"`*“‘]$",
    re.IGNORECASE,
)
_MOST_SAYING = 24
_SMALL_BEHIND = (
    r"(?![\w'’])(?!\s*(?:[,/|]|or\b|and\b)\s*[\"'`*“‘(]?\w(?!\w))"
    r"(?=[\"'`*”’)\]]*\s*(?:\Z|[.,;:!?)\n—-]|because\b|since\b|as\b))(?!\.\w)"
)


class Border(NamedTuple):
    """What a label needs on both sides.

    before: matches at its beginning, and behind: at its end, to where it ends with what belongs to it, as
    the /5 of 4/5. leading: found in the characters in front of it, if it needs that.
    """

    before: re.Pattern[str]
    behind: re.Pattern[str]
    leading: re.Pattern[str] | None = None
    width: int = 0

    def end(self, text: str, start: int, end: int) -> int:
        """Return where the label from `start` to `end` ends; -1 if it is no word of its own."""
        if not self.before.match(text, start):
            return -1
        if self.leading and not self.leading.search(text[max(0, start - self.width) : start]):
            return -1
        whole = self.behind.match(text, end)
        return whole.end() if whole else -1


def borders_of(form: str) -> tuple[Border, ...]:
    """Return the borders that a label may have: one of them is enough."""
    if re.fullmatch(r"[A-Za-z]", form):
        return _of_letter(is_article=form in "AaIi", is_small=form.islower())
    return _of_word(_kind(form[0]), _kind(form[-1]), form.casefold() if form.casefold() in _SPECIAL else "")


@cache
def borders_of_number(tail: str, *, is_negative: bool) -> tuple[Border, ...]:
    """Return the borders of a whole number. tail: Pattern of what belongs to it, as the /5 of 4/5."""
    behind = tail + _BEHIND_DIGIT
    if is_negative:
        return (_border("", behind),)
    return _border(_BEFORE_DIGIT, behind), _border("", f"{behind}{_GIVEN_DIGIT}", _GIVING, _MOST_GIVING)


@cache
def _of_letter(*, is_article: bool, is_small: bool) -> tuple[Border, ...]:
    article = _ARTICLE if is_article else ""
    option = (
        (_border(r"(?<=\()(?=[a-z])", r"(?=\))"),) if is_small else ()
    )  # (b); elsewhere it heads a remark
    return (
        *option,
        _border(f"{_ALONE_BEFORE}(?=[A-Z])", _ALONE_BEHIND + article),
        _border(f"{_ALONE_BEFORE}(?=[A-Z])", f"(?=\\w){_GIVEN_LETTER}"),
        _border("", _GIVEN_LETTER + article, _GIVING, _MOST_GIVING),
        _border(f"{_ALONE_BEFORE}(?=[a-z])", _SMALL_BEHIND, _SAYING, _MOST_SAYING),
    )


@cache
def _of_word(first: str, last: str, special: str) -> tuple[Border, ...]:
    before = {"digit": _BEFORE_DIGIT, "letter": _BEFORE_LETTER}.get(first, "")
    behind = {"digit": _BEHIND_DIGIT, "letter": _BEHIND_LETTER}.get(last, "")
    if special == "no":
        return (_border(before, _NO_ANSWER + behind),)
    if special:
        return (_border("(?<!是)", "(?!否)"),)  # 是否 asks
    plain = _border(before, behind)
    if first == last == "digit":
        return plain, _border("", f"{behind}{_GIVEN_DIGIT}", _GIVING, _MOST_GIVING)
    return (plain,)


@cache
def _border(before: str, behind: str, leading: re.Pattern[str] | None = None, width: int = 0) -> Border:
    return Border(re.compile(before), re.compile(behind), leading, width)


def _kind(character: str) -> str:
    if character.isdigit():
        return "digit"
    return "letter" if _LETTER.match(character) else "other"
