"""Where a text speaks of a scale of numbers, and not of a number on it: "1 to 5", "out of 5", 满分5分.

The same of what a model says about its own answer: "confidence: 0.9". The languages are those that models
answer in most; texts are read with plain marks, as `texts.plain` gives them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from autoprompt.text.answers.confidence import LEVEL, NOUN
from autoprompt.text.patterns import lazy

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


def scales(text: str) -> list[Span]:
    """Return where `text` names a scale: the numbers there are no answer."""
    return [span for scale in _SCALES.finditer(text) if (span := _span(scale)) is not None]


def surenesses(text: str) -> list[Span]:
    """Return where `text` tells how sure it is of what it says."""
    return [sure.span() for sure in _SURENESS.finditer(text)]


def is_end_explained(text: str, end: int) -> bool:
    """Return whether a number that ends at `end` is explained as one end of a scale."""
    return _END.match(text, end) is not None


def blanked(text: str, spans: Iterable[Span]) -> str:
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
