"""Where an answer repeats what it could choose from: lists of labels, their meanings, scales of numbers.

"Sentiment (positive, negative, neutral): negative" names one label, and so do "Label (0 = ham, 1 = spam): 1",
"A) apples B) pears. B" and "Rating (1 to 5): 4". A run of labels counts as such a menu by its form alone: no
wording is listed. Texts are read with plain marks, as `texts.plain` gives them.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from operator import attrgetter
from typing import NamedTuple

from autoprompt.text.answers.conclusions import MARKER
from autoprompt.text.answers.denials import are_joined, is_denied
from autoprompt.text.answers.label_index import Found
from autoprompt.text.answers.wrapping import LEVEL, NOUN
from autoprompt.text.scripts import lazy

Span = tuple[int, int]

UNIT = (
    r"(?:[-\s]?(?:stars?|points?|Stern(?:e|en)?|Punkt(?:e|en)?|étoiles?|estrellas?|puntos?|estrelas?|pontos?"
    r"|stelle|punti|зв[её]зд\w*|балл\w*|yıldız|puan)(?!\w)|\s?(?:[颗顆]?星|[分点點점级級★☆⭐]|つ星|คะแนน|ดาว))"
)
OUT_OF = r"(?:/|out\s+of\b|of\b|von\b|sur\b|su\b|de\b|di\b|из\b|van\b|av\b|z\b|من\b)"

_N = r"[-+]?\d+(?:\.\d+)?(?![\d%]|[.,/]\d)"
_BEGIN = r"(?<![A-Za-z0-9_.,/])"
# What an end of a scale means: "1 (bad) to 5 (good)", "1=bad to 5=good".
_MEANING = r"(?:\s*(?:\([^()\n]{1,80}\)|=\s?[^\W\d][^\n,;:()=]{0,40}?))?"
_TO = (
    r"(?:\s*(?:\.{2,3}|[-–—~〜]|[到至]|から|에서|부터|ถึง)\s*|['’](?:den|dan|ten|tan)\s+"
    r"|\s+(?:to|through|thru|until|up\s+to|bis|à|au|a|al|até|hasta|ate|do|до|tot|till|til|ile|से|đến|sampai|hingga"
    r"|إلى|الى)\s+)"
)
_NO_RANGE = rf"(?!{_MEANING}{_TO}\d)"
_AND = r"(?:\s+(?:and|und|et|y|e|i|и|ve|و)\s+|\s*(?:和|与|と|과|와|และ)\s*)"
_SCALE = r"(?:scale|Skala|échelle|escala|scala|шкал\w*|skali|schaal|ölçek)"
_SCALES = lazy(
    "|".join(
        (
            rf"{_BEGIN}(?P<low>{_N}){UNIT}?{_MEANING}(?P<to>{_TO})(?P<high>{_N}){UNIT}?{_MEANING}",
            rf"\b(?:between|zwischen|entre|tra|fra|между|ระหว่าง)\s+{_N}{UNIT}?{_AND}{_N}{UNIT}?",
            rf"介于\s*{_N}{UNIT}?{_AND}{_N}{UNIT}?",
            rf"{_BEGIN}{_N}{UNIT}?{_AND}{_N}{UNIT}?\s*(?:の間|사이|之间|之間)",
            rf"\(\s*{_N}{UNIT}?\s[^\d()\n,;]{{1,40}}[,;]\s*(?:[^()\n]{{1,80}}[,;]\s*)?{_N}{UNIT}?\s[^\d()\n,;]{{1,40}}\)",
            # Of these the number before them is on the scale, if there is one.
            rf"(?P<mark>\d{UNIT}?\s*)?(?:\bout\s+of|\bvon|\bsur|\bsu|\bиз|\bمن|/)\s*{_N}{UNIT}?{_NO_RANGE}",
            rf"{_BEGIN}{_N}\s?में\s+से",
            rf"\b{_SCALE}\s+(?:of|de|di|von|en|a|из)\s+{_N}{UNIT}?{_NO_RANGE}",
            rf"{_BEGIN}{_N}[-\s]?(?:(?:point|star|step|level)s?|Punkte|Sterne|Stufen)?[-\s](?:rating\s+)?(?:scale|system|Skala|schaal)",
            rf"{_BEGIN}{_N}-(?:балл\w+|звезд\w+|puan\w*|yıldız\w*)",
            rf"(?:满分|滿分|总分|總分|最高分?)\s*[:是为為]?\s*{_N}分?",
            rf"{_BEGIN}{_N}\s?(?:分(?:制|满分|滿分|[为為][满滿]分)|[点點分]満点|[点點分]中|段階|[점분]\s?만점|[점분]\s?척도|점\s?중)"
            r"(?:の|中|評価|尺度|에서|에|중|で)*",
            rf"(?:คะแนน)?เต็ม\s*{_N}(?:\s?คะแนน)?|จาก\s*(?:คะแนน\s*)?(?:เต็ม\s*)?{_N}(?:\s?คะแนน)?",
            rf"\bmax(?:imum|\.)?\s*(?:of|is|=|:)?\s*{_N}{UNIT}?",
        )
    ),
    re.IGNORECASE,
)
_LOOSE_DASH = lazy(r"\s+[-–—]\s+")

# One end of a scale, explained: "5 being the best", "(5 = best)", 5分最好.
_END = lazy(
    rf"{UNIT}?\s*(?:=|:|\bbeing\b|\bis\b|\bas\b|\bmeans?\b|是|为|為|代表|表示|が|は|이|가|ist|bedeutet|est|étant|es|siendo|é|sendo|è)?"
    r"\s*(?:the\s+|d(?:er|ie|as)\s+|l[ea]\s+|el\s+|o\s+|il\s+)?"
    r"(?:(?:very\s+|most\s+|least\s+)?(?:best|worst|highest|lowest|max(?:imum)?|min(?:imum)?|top|bottom)\b"
    r"|beste?|schlechteste|höchste|niedrigste|meilleure?|pire|mejor|peor|melhor|pior|migliore|peggiore|лучш\w+|худш\w+"
    r"|最[好差高低]|最も|최고|최저|ดีที่สุด|แย่ที่สุด)(?!\s+(?!(?:and|und|et|y|e|i|и)\b)\w)",
    re.IGNORECASE,
)

_SURE = (
    rf"(?<![A-Za-z])(?:{NOUN}|probability|likelihood|Wahrscheinlichkeit|probabilité|probabilidad|probabilidade"
    r"|вероятность|概率|機率|確率|확률)"
)
_VALUE = r"[-+]?\d+(?:[.,]\d+)?\s?%?(?:\s?(?:/|out\s+of|von|sur|из)\s?\d+(?:\.\d+)?)?"
_SURENESS = lazy(
    rf"{_SURE}[\"'`*_)\]]*\s*(?:[:=]|\bis\b|\bof\b|\bat\b|是|为|為|は|は約)?"
    rf"(?:[\s\"'`*_(]*{_VALUE}|[\s\"'`*_]*{LEVEL}(?!\w))[分点점]?"
    rf"|(?<![\d.,])(?:{_VALUE}|\b{LEVEL}(?!\w))[^\S\n]+(?:confident|certain|sicher|(?:confidence|certainty)(?!\s*\w*\s*[:=]))\b",
    re.IGNORECASE,
)


def find_scales(text: str) -> list[Span]:
    """Return where `text` names a scale: the numbers there are no answer."""
    return [span for scale in _SCALES.finditer(text) if (span := _span(scale)) is not None]


def find_certainties(text: str) -> list[Span]:
    """Return where `text` tells how sure it is of what it says."""
    return [sure.span() for sure in _SURENESS.finditer(text)]


def is_end_explained(text: str, end: int) -> bool:
    """Return whether a number that ends at `end` is explained as one end of a scale."""
    return _END.match(text, end) is not None


def blank(text: str, spans: Iterable[Span]) -> str:
    """Return `text` with spaces in place of these spans, line ends apart: places stay what they are."""
    parts: list[str] = []
    at = 0
    for start, end in sorted(spans):
        if end > at:
            start = max(start, at)
            parts += [text[at:start], "".join("\n" if c == "\n" else " " for c in text[start:end])]
            at = end
    return "".join([*parts, text[at:]])


def _span(scale: re.Match[str]) -> Span | None:
    if scale["mark"]:
        return None
    if scale["to"] and _LOOSE_DASH.fullmatch(scale["to"]) and float(scale["low"]) >= float(scale["high"]):
        return None  # a dash parts clauses, too: "4 - 2 of the points are weak"
    return scale.span()


_CLOSED, _OPENED = r"[\"'`*_”’」』)\]]*", r"[\"'`*_“‘「『(\[]*"
# In front of a label: the number or letter by which it is chosen, or the mark of a line.
_CODE = rf"(?:{_OPENED}(?:\d{{1,5}}|[A-Za-z])\s?(?:[.):=]|->|→)|[-*•·‣](?=\s))"
_BETWEEN = rf"(?:[,;/|<>、،·•‖\\]|\n[^\S\n]*(?:\n[^\S\n]*(?={_CODE}))?)"
_LISTED = lazy(rf"{_CLOSED}{UNIT}?\s*{_BETWEEN}\s*(?:{_CODE}\s*)?{_OPENED}|{_CLOSED}\s+{_CODE}\s*{_OPENED}")
_SURELY_LISTED = lazy(rf"{_CLOSED}\s*(?:[/|‖\n]\s*(?:{_CODE}\s*)?|[,;]?\s*{_CODE}\s*){_OPENED}")
_SPACED = lazy(rf"{_CLOSED}[.)]?\s+{_OPENED}")  # 1 2 3 4 5
_WIDEST_JOINT = 24
_FEWEST = 3  # labels of a list with commas, of a larger set: "yes, no problem" lists none
# What begins a list that holds all labels there are, and what its end heads: "(yes, no)", "yes, no: no".
_ANNOUNCED = lazy(
    r"(?:[(\[{]|\b(?:options?|labels?|classes|categories|choices|values|one\s+of|either|between|among|from"
    r"|Optionen|opciones|opções|opzioni|варианты)\b[^\n]{0,20}[:=]?"
    r"|(?:选项|選項|类别|標籤|标签|選択肢|선택지|ตัวเลือก)\s*[:=]?)\s*[\"'`*“‘「(\[]*$",
    re.IGNORECASE,
)
_HEADS = lazy(rf"{_CLOSED}\s*(?:[:=]|->|→|⇒)")
_LINE_END = lazy(r"[^\w\n]*(?:\n|\Z)")
_LINE_BEGIN = lazy(r"\n[^\w\n]*\Z")
_WORD = lazy(r"\w+")
_MOST_BEFORE = 48  # characters in front of a label that are looked at
# The sign between a label and what it means.
_SIGN = lazy(
    rf"[\"'`*_”’」』]*{UNIT}?\s*(?:(?P<sign>[=:(]|\)|\.(?=\s|[^\W\d_])|\s[-–—]\s|->|→|⇒)"
    r"|(?P<word>\b(?:means?|stands?\s+for|denotes?|signif(?:ies|y)|represents?|indicates?|being|bedeutet|steht\s+für"
    r"|signifie|représente|significa|representa|означает|oznacza|betekent)\b|表示|代表|意味|指|を意味|は|은|는|คือ|หมายถึง))"
)
# Of numbers and letters alone: "1 is bad and 5 is good", "0 for ham and 1 for spam".
_SIGN_OF_ENDS = lazy(r"\s+(?:(?:is|ist|est|es|è|é)|(?P<word>for|für|pour|para|per|для))\s+")
# Behind the letter of an option: a sentence about it, and not what it says.
_JUDGED = lazy(
    r"[\s\"'`*_:,.)]*(?:(?:is|was|are|were|would|could|can|may|might|should|does|do|did|has|have|had|seems?|refers?|makes?"
    r"|contains?|expresses|uses|sounds?|says|fits?|isn't|doesn't|cannot|can't|ist|est|es|sind|correct|incorrect|right"
    r"|wrong|true|false|yes|no|not|rather|instead|over|than|and|or|nor|but|because|since|as|with|while|whereas)\b|[是为為不对對错錯正][确確误誤]?|が|이|가)",
    re.IGNORECASE,
)
# Between labels in brackets after their meaning: "ham (0), spam (1)".
_MEANT = lazy(
    r"\)(?:\s*[,;/|、]|\s*(?:-|–|->|→)|\s+(?:or|and|to|oder|und|bis|ou|et|o|y|или|и)\b|\s)\s*"
    r"(?!(?:because|since|as|but|not|so|rather|instead|than|over)\b)[^\W\d_][^()\n,;.:]{0,40}\(",
    re.IGNORECASE,
)
_LONGEST_MEANING = 400
_MEANING_END = lazy(
    r"[,.](?!\d)|[\n;。；)\]→⇒|]|->|=>|\s:\s|:(?=\s|$)|\b(?:so|thus|therefore|hence|also|donc|entonces|итак)\b"
)
_FROM = lazy(
    r"\b(?:from|between|von|zwischen|de|entre|da|tra|от|между)\s+[\"'`*_“‘「(]*$|[从從由(\[]$", re.IGNORECASE
)
_UP_TO = lazy(
    rf"{_CLOSED}(?:\s+(?:to|through|and|bis|und|à|et|a|y|e|до|и)\s+|\s*(?:-|–|—|~|〜|\.{{2,3}}|到|至|から|에서|ถึง)\s*)"
    rf"{_OPENED}"
)
_LETTERS = lazy(
    r"(?<![\w'’])([^\W\d_])(?:[-–~〜]|\s*(?:到|至|から|에서|ถึง|\.{2,3})\s*|\s+(?:to|through|thru|bis|à|до)\s+)([^\W\d_])(?![\w'’])"
)
_SHARE = lazy(r"[\s*_`\"']*(?:(?=\d{1,3}(?:\.\d+)?\s?%)|(?=[01]\.\d))(\d+(?:\.\d+)?)\s?(%)?[\s,;.)*_`\"'(-]*")
_BRACKETS = {"(": ")", "[": "]", "{": "}"}
_WIDEST_BRACKET = 200
_START = attrgetter("start")


class _Item(NamedTuple):
    """A label with a sign behind it, and where what the label means begins."""

    found: Found
    sign: str
    end: int


class Menus:
    """Finds where an answer repeats the options, for one set of labels.

    Args:
        places: Label to its place on their scale, if the labels are one: whole numbers or single letters.
        letters: Small letter to its place, if they are letters.
        count: How many labels there are.
    """

    def __init__(self, places: Mapping[str, int], letters: Mapping[str, int], count: int) -> None:
        self._places = places
        self._letters = letters
        self._count = count

    def find(self, text: str, found: Sequence[Found]) -> list[Span]:
        """Return the spans of `text` that repeat the options. found: the labels in it, in order."""
        if len(found) < 2:
            return []
        spans = [
            *self._lists(text, found),
            *self._ranges(text, found),
            *self._legends(text, found),
            *self._codes(text, found),
        ]
        return [_with_brackets(text, span, found) for span in spans]

    def _lists(self, text: str, found: Sequence[Found]) -> Iterator[Span]:
        for run in _runs(found, lambda one, other: self._is_listed(text, one, other)):
            begin, end = run[0].start, run[-1].end
            joints = [text[one.end : other.start] for one, other in pairwise(run)]
            is_sure = len(run) >= _FEWEST or any(map(_SURELY_LISTED.fullmatch, joints))
            is_sure |= _HEADS.match(text, end) is not None and not all(map(_SPACED.fullmatch, joints))
            is_all = len(run) == self._count and _ANNOUNCED.search(text[max(0, begin - _MOST_BEFORE) : begin])
            # Two lines may be an answer and what explains it, which begins with the other label.
            is_open = "\n" in joints[-1] and not _LINE_END.match(text, end)
            if (is_sure or is_all) and not is_open and not is_denied(text, begin, run[0].end, -1):
                yield begin, end

    def _is_listed(self, text: str, one: Found, other: Found) -> bool:
        if other.start - one.end > _WIDEST_JOINT:
            return False
        if _LISTED.fullmatch(text, one.end, other.start) or are_joined(text, one.end, other.start):
            return True
        is_next = self._places.get(other.label, -1) == self._places.get(one.label, -9) + 1
        return is_next and _SPACED.fullmatch(text, one.end, other.start) is not None

    def _ranges(self, text: str, found: Sequence[Found]) -> Iterator[Span]:
        """Yield where the text goes from one label to another; for numbers see `find_scales`."""
        for letters in _LETTERS.finditer(text) if self._letters else ():
            if -1 < self._letters.get(letters[1].lower(), -1) < self._letters.get(letters[2].lower(), -1):
                yield letters.span()
        for one, other in pairwise(found):
            if one.label == other.label or other.start - one.end > _WIDEST_JOINT:
                continue
            if _UP_TO.fullmatch(text, one.end, other.start) and (
                _FROM.search(text[max(0, one.start - _MOST_BEFORE) : one.start])
                or _HEADS.match(text, other.end)
            ):
                yield one.start, other.end

    def _legends(self, text: str, found: Sequence[Found]) -> Iterator[Span]:
        """Yield runs of labels that the same sign parts from what each of them means."""
        run: list[_Item] = []
        labels: set[str] = set()
        for label in (*found, None):
            item = self._item(text, label) if label else None
            # An answer stands behind "Answer:", and is no part of what was explained before.
            is_marked = label is None or _is_marked(text, label.start)
            if (
                item
                and run
                and not is_marked
                and item.found.label not in labels
                and self._goes_on(text, run, item)
            ):
                run.append(item)
            elif item or is_marked:
                yield from self._legend(text, run, found)
                run, labels = ([item] if item else []), set()
            if item:
                labels.add(item.found.label)

    def _codes(self, text: str, found: Sequence[Found]) -> Iterator[Span]:
        """Yield runs of numbers in brackets, each behind what it means, or of small letters.

        Capitals are left out: "it is (A), not (B)".
        """
        bracketed = [
            one
            for one in found
            if one.label in self._places
            and text[one.start - 1 : one.start] == "("
            and not text[one.start].isupper()
        ]
        for run in _runs(bracketed, lambda one, other: bool(_MEANT.fullmatch(text, one.end, other.start))):
            yield run[0].start, run[-1].end

    def _item(self, text: str, found: Found) -> _Item | None:
        is_placed = found.label in self._places
        sign = _SIGN.match(text, found.end)
        if sign is not None and (sign["sign"] not in (")", ".") or is_placed):
            kind = (sign["sign"] or "means").strip()
        elif is_placed and (sign := _SIGN_OF_ENDS.match(text, found.end)) is not None:
            kind = "for" if sign["word"] else "is"
        else:
            return None
        if self._letters and _JUDGED.match(text, sign.end()):
            return None
        return _Item(found, kind, sign.end())

    def _goes_on(self, text: str, run: Sequence[_Item], item: _Item) -> bool:
        """Return whether an item may continue the legend: with its sign, in the order of the scale."""
        meaning = text[run[-1].end : item.found.start]
        if item.sign != run[0].sign or len(meaning) > _LONGEST_MEANING:
            return False
        if not any(map(str.isalnum, meaning)) or ("\n\n" in meaning and not _LINE_BEGIN.search(meaning)):
            return False
        first, second, last, this = (
            self._places.get(one.found.label, 0) for one in (run[0], [*run, item][1], run[-1], item)
        )
        return not self._places or (last < this) == (first < second)

    def _legend(self, text: str, run: Sequence[_Item], found: Sequence[Found]) -> list[Span]:
        """Return the span from the first item to the end of what the last one means.

        If labels have shares ("yes: 0.2, no: 0.8"), the text names the one with the largest.
        """
        places = {self._places.get(item.found.label, 0) for item in run}
        # 4 and 5 explained, of 1 to 5, are two readings; "(A) applies, and (B)" of four letters is no menu.
        if len(run) < 2 or 0 not in places:
            return []
        has_ends = self._count - 1 in places and run[0].sign not in (")", ".")
        if self._letters and len(run) < min(_FEWEST, self._count) and not has_ends:
            return []
        last = run[-1]
        most = last.end + _LONGEST_MEANING
        ends = [min(most, len(text))]
        if last.sign == "(":
            ends += [at + 1 for at in [text.find(")", last.end, most)] if at >= 0]
        else:
            first = _WORD.search(text, last.end, most)
            signs = (
                _MEANING_END.search(text, first.end() if first else last.end, most),
                MARKER.search(text, last.end, most),
            )
            ends += [sign.start() for sign in signs if sign]
        following = bisect_left(found, last.end, key=_START)
        ends += [label.start for label in found[following : following + 1]]
        begin, end = run[0].found.start, min(ends)
        stops = [*(item.found.start for item in run[1:]), end]
        shares = [_share(text[item.end : stop]) for item, stop in zip(run, stops, strict=True)]
        if min(shares) < 0 or shares.count(max(shares)) > 1:
            return [(begin, end)]
        likeliest = run[shares.index(max(shares))].found
        return [(begin, likeliest.start), (likeliest.end, end)]


def _runs(found: Sequence[Found], is_joined: Callable[[Found, Found], bool]) -> Iterator[list[Found]]:
    """Yield runs of two and more labels that are joined, each of them once."""
    run: list[Found] = []
    labels: set[str] = set()
    for label in found:
        if run and (label.label in labels or not is_joined(run[-1], label)):
            if len(run) > 1:
                yield run
            run, labels = [], set()
        run.append(label)
        labels.add(label.label)
    if len(run) > 1:
        yield run


def _share(meaning: str) -> float:
    """Return the share that is all a label is given; -1 for any other meaning."""
    share = _SHARE.fullmatch(meaning)
    if share is None:
        return -1.0
    return float(share[1]) / 100 if share[2] else float(share[1])


def _is_marked(text: str, start: int) -> bool:
    """Return whether "Answer:" or the like is in front of the label at `start`."""
    before = text[max(0, start - _MOST_BEFORE) : start]
    return any(not any(map(str.isalnum, before[marker.end() :])) for marker in MARKER.finditer(before))


def _with_brackets(text: str, span: Span, found: Sequence[Found]) -> Span:
    """Return the span with the brackets around it, if they hold no other label: "(on a scale of A to E)"."""
    start, end = span
    for at in range(start - 1, max(-1, start - _WIDEST_BRACKET), -1):
        if text[at] in ")]}\n":
            break
        if text[at] not in _BRACKETS:
            continue
        close = text.find(_BRACKETS[text[at]], end, end + _WIDEST_BRACKET)
        inside = found[bisect_left(found, at, key=_START) : bisect_left(found, close, key=_START)]
        if close < 0 or "\n" in text[end:close] or any(not start <= one.start < end for one in inside):
            break
        return at, close + 1
    return span
