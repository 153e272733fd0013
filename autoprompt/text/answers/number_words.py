"""Numbers in words: forty-two, zweiundvierzig, quarante-deux, cuarenta y dos, quarantadue, 四十二, ★★★★☆.

A word for a number is often another word, too ("no one", "one of them", 一定), so a word counts only
if it is given as the answer: alone, or after a colon or a verb, with little but a unit behind it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from itertools import pairwise, takewhile
from typing import NamedTuple

from autoprompt.text.answers.menus import OUT_OF, UNIT
from autoprompt.text.scripts import lazy

_SMALL = {
    "en": "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen"
    " sixteen seventeen eighteen nineteen",
    "de": "null eins zwei drei vier fünf sechs sieben acht neun zehn elf zwölf dreizehn vierzehn fünfzehn"
    " sechzehn siebzehn achtzehn neunzehn",
    "fr": "zéro un deux trois quatre cinq six sept huit neuf dix onze douze treize quatorze quinze seize",
    "es": "cero uno dos tres cuatro cinco seis siete ocho nueve diez once doce trece catorce quince dieciséis"
    " diecisiete dieciocho diecinueve",
    "pt": "zero um dois três quatro cinco seis sete oito nove dez onze doze treze catorze quinze"
    " dezesseis dezessete dezoito dezenove",
    "it": "zero uno due tre quattro cinque sei sette otto nove dieci undici dodici tredici quattordici"
    " quindici sedici diciassette diciotto diciannove",
}
_TENS = {
    "en": "twenty thirty forty fifty sixty seventy eighty ninety",
    "de": "zwanzig dreißig vierzig fünfzig sechzig siebzig achtzig neunzig",
    "fr": "vingt trente quarante cinquante soixante",
    "es": "veinte treinta cuarenta cincuenta sesenta setenta ochenta noventa",
    "pt": "vinte trinta quarenta cinquenta sessenta setenta oitenta noventa",
    "it": "venti trenta quaranta cinquanta sessanta settanta ottanta novanta",
}
_OTHERS: Mapping[str, Mapping[str, int]] = {
    "en": {"dozen": 12, "fourty": 40},
    "de": {"dreissig": 30, "zwo": 2},
    "fr": {"quatre-vingts": 80, "quatre-vingt": 80, "septante": 70, "huitante": 80, "nonante": 90, "une": 1},
    "es": {
        "un": 1,
        "una": 1,
        "cien": 100,
        "ciento": 100,
        "quinientos": 500,
        "setecientos": 700,
        "novecientos": 900,
    },
    "pt": {
        "uma": 1,
        "duas": 2,
        "cem": 100,
        "cento": 100,
        "duzentos": 200,
        "trezentos": 300,
        "quinhentos": 500,
    },
    "it": {"un": 1, "una": 1},
}
_HUNDREDS = {
    "en": ["hundred"],
    "de": ["hundert"],
    "fr": ["cent", "cents"],
    "es": [],
    "pt": [],
    "it": ["cento"],
}
_SCALES: Mapping[str, Mapping[str, int]] = {
    "en": {"thousand": 10**3, "million": 10**6, "billion": 10**9, "trillion": 10**12},
    "de": {"tausend": 10**3, "million": 10**6, "millionen": 10**6, "milliarde": 10**9, "milliarden": 10**9},
    "fr": {"mille": 10**3, "million": 10**6, "millions": 10**6, "milliard": 10**9, "milliards": 10**9},
    "es": {"mil": 10**3, "millón": 10**6, "millones": 10**6},
    "pt": {"mil": 10**3, "milhão": 10**6, "milhões": 10**6},
    "it": {"mille": 10**3, "mila": 10**3, "milione": 10**6, "milioni": 10**6},
}
_AND = {"en": "and", "de": "und", "fr": "et", "es": "y", "pt": "e", "it": "e"}
_MINUS = {"minus": "-", "negative": "-", "moins": "-", "menos": "-", "meno": "-"}
_POINT = {"en": "point", "de": "komma", "fr": "virgule", "es": "coma", "pt": "vírgula", "it": "virgola"}
_NO_NUMBERS = ("null", "once", "cent", "cents")  # alone they are JSON, an adverb and coins
# Other words of the same or of another language: alone they are no number.
_OTHER_WORDS = frozenset(["due", "sei", "elf", "sept", "un", "une", "una", "um", "uma", "uno", "dozen"])
_FRACTIONS = {
    **{
        "half": 2,
        "halves": 2,
        "third": 3,
        "thirds": 3,
        "quarter": 4,
        "quarters": 4,
        "fourth": 4,
        "fourths": 4,
    },
    **{
        "fifth": 5,
        "fifths": 5,
        "sixth": 6,
        "sixths": 6,
        "eighth": 8,
        "eighths": 8,
        "tenth": 10,
        "tenths": 10,
    },
}
_HAN_DIGITS = {c: n for n, c in enumerate("零一二三四五六七八九")} | {"〇": 0, "两": 2, "兩": 2}
_HAN_UNITS = {"十": 10, "百": 100, "千": 1000}
_HAN_SCALES = {"万": 10**4, "萬": 10**4, "亿": 10**8, "億": 10**8}
_HAN = "零〇一二两兩三四五六七八九十百千万萬亿億"
_HAN_NUMBER = lazy(
    rf"(?P<share>百分之|(?P<below>[{_HAN}]+)分之)?(?P<above>[{_HAN}]+)(?:[点點](?P<decimals>[{_HAN[:11]}]+))?"
)
_WORD = lazy(r"quatre-vingts?(?![^\W\d_])|[^\W\d_]+", re.IGNORECASE)
_MOST_WORDS = 16  # of a number
_JOINT = lazy(r"[\s-]+")
_FILLED_STARS = lazy(r"(?<![★⭐🌟✮✭☆])((?:[★⭐🌟✮✭]\ufe0f?\s?)+)(☆\ufe0f?\s?)*")
# What may be in front of a number that is handed over, and behind it: a unit, or what it is out of.
_GIVEN = lazy(
    r"(?:\A|\n|[:：=≈>→]|boxed\s*\{|\b(?:is|are|was|were|equals?|has|had|makes?|leaves?|gives?|total(?:s"
    r"|ing)?(?:\s+of)?|(?:give|rate|rated|gave)"
    r"\s+(?:it|this|that)(?:\s+(?:one|film|movie|book|product|place))?(?:\s+an?)?|(?:score|rating|grade|total)\s+of|ist|sind|lautet|hat|ergibt|est|sont"
    r"|reste|es|son|quedan|è|sono|é"
    r"|são)\b|[是为為有共得于於はがを]|คือ)"
    r"[\s\"'`*_“‘«「(\[{\\$]*(?:text\w*\s*\{)?(?:(?:about|around|approximately|exactly|roughly|only|just"
    r"|etwa|rund|genau|environ|unos"
    r"|cerca\s+de|circa|大?约|約|共)\s*)?\Z",
    re.IGNORECASE,
)
# The same where digits are in the text, too: only an "answer:" says that a word is meant.
_MARKED = lazy(
    r"(?:\A|\n)[^\w\n]*(?:(?:the|my|so|final|correct)\s+)*(?:answer|result|Antwort|réponse|respuesta"
    r"|resposta|risposta|答案|回答"
    r"|答え|正解)[\s*_]*(?:[:：=]|is|ist|lautet|est|es|é|è|是|为|は)[\s\"'`*_“«「(]*\Z",
    re.IGNORECASE,
)
_REST = r"[\"'`*_”’」»)\]}]*\s*"
_ENDS = rf"{_REST}(?:[.!;:。！；|]|\(|\n|,\s*(?:because|since)\b|\Z)"
_OF = rf"{UNIT}?\s+{OUT_OF}\s+(?:\d|(?P<of>[^\W\d_]+))"
_UNIT_BEHIND = lazy(rf"{_OF}|(?:[\s-]+[^\W\d]+){{0,3}}(?:\s?%)?{_ENDS}", re.IGNORECASE)
_HAN_UNIT_BEHIND = lazy(
    rf"(?:[个個只隻条條张張本名位人家倍次年月日天岁歲元円块塊分点點级級度米枚冊匹台つ]|[颗顆]?星(?!半)|つ星|です|だ)*{_ENDS}|[颗顆]?星(?!半)|つ星",
    re.IGNORECASE,
)
# Behind a word that is an article or a pronoun, too: the end, or what makes it a grade.
_ALONE_BEHIND = lazy(rf"{_OF}|{_ENDS}|{UNIT}", re.IGNORECASE)
_MOST_BEFORE, _LONGEST = 48, 20_000


def with_digits(text: str, *, is_grade: bool = False) -> str:
    """Return `text` with digits for the words of each number that it hands over as an answer.

    is_grade: behind the number is nothing, a unit of grades or what it is out of: no "two thumbs up".
    A text of more than 20,000 characters stays as it is.
    """
    if len(text) > _LONGEST:
        return text
    given = _MARKED if any(map(str.isdecimal, text)) else _GIVEN
    text = _FILLED_STARS.sub(_stars, text)
    parts: list[str] = []
    at = 0
    for start, end, written in (*_han(text, given), *_spelled(text, given, is_grade)):
        if start >= at:
            parts += [text[at:start], written]
            at = end
    return "".join([*parts, text[at:]]) if parts else text


def _stars(found: re.Match[str]) -> str:
    """Return how many stars are filled, where that is the answer; those behind a number are its unit."""
    if not _is_behind(_GIVEN, found.string, found.start()):
        return found[0]
    return f"{sum(c in '★⭐🌟✮✭' for c in found[1])} stars "


def _is_behind(given: re.Pattern[str], text: str, start: int) -> bool:
    return given.search(text[max(0, start - _MOST_BEFORE) : start]) is not None


def _han(text: str, given: re.Pattern[str]) -> Iterator[tuple[int, int, str]]:
    for found in _HAN_NUMBER.finditer(text):
        whole = _han_value(found["above"])
        if (
            whole is None
            or not _is_behind(given, text, found.start())
            or not _HAN_UNIT_BEHIND.match(text, found.end())
        ):
            continue
        written = str(whole)
        if found["decimals"]:
            written += "." + "".join(str(_HAN_DIGITS[c]) for c in found["decimals"])
        if found["below"] and found["below"] != "百":
            below = _han_value(found["below"])
            written = f"{written}/{below}" if below else written
        elif found["share"]:
            written += "%"
        yield found.start(), found.end(), written


def _han_value(text: str) -> int | None:
    """四十二 as 42, 二〇二四 as 2024; None for what is no number, as 万一."""
    if len(text) > 1 and all(c in _HAN_DIGITS for c in text):
        return int("".join(str(_HAN_DIGITS[c]) for c in text))
    total = section = digit = 0
    has_digit = False
    for at, c in enumerate(text):
        if c in _HAN_DIGITS:
            if has_digit and text[at - 1] not in "零〇":
                return None
            digit, has_digit = _HAN_DIGITS[c], True
        elif c in _HAN_UNITS:
            section += (digit if has_digit else 1) * _HAN_UNITS[c]
            digit, has_digit = 0, False
        else:
            section += digit
            if not section:
                return None
            total += section * _HAN_SCALES[c]
            section, digit, has_digit = 0, 0, False
    last = text[-2:-1]
    if digit and last in ("百", "千", "万", "萬", "亿", "億"):  # 两千三, as it is spoken
        digit *= {**_HAN_UNITS, **_HAN_SCALES}[last] // 10
    return total + section + digit


class _Word(NamedTuple):
    start: int
    end: int
    name: str


def _spelled(text: str, given: re.Pattern[str], is_grade: bool) -> Iterator[tuple[int, int, str]]:
    words = [_Word(*one.span(), one[0].lower()) for one in _WORD.finditer(text)]
    past, of = 0, -1  # of: where the number begins that the last one is out of
    for at, word in enumerate(words):
        if at < past or not _may_begin(word.name):
            continue
        phrase = max((_phrase(text, words, at, language) for language in _SMALL), key=lambda one: one.length)
        if not phrase.length:
            continue
        past = at + phrase.length
        end = words[past - 1].end
        if word.start == of:
            yield word.start, end, phrase.written
            continue
        behind = (_ALONE_BEHIND if phrase.is_other or is_grade else _UNIT_BEHIND).match(text, end)
        if behind is None:
            continue
        following = _WORD.findall(behind[0].lower())
        is_one_number = (
            all(map(_may_begin, following[-1:])) if behind["of"] else not any(map(_may_begin, following))
        )
        if is_one_number and _is_behind(given, text, word.start):
            of = behind.start("of")
            yield word.start, end, phrase.written


@cache
def _may_begin(word: str) -> bool:
    return (
        word in _MINUS
        or word in ("a", "an")
        or any(_value(word, language) is not None for language in _SMALL)
    )


class _Phrase(NamedTuple):
    """A number in words. length: how many. is_other: it may be another word, as the "one" of "no one"."""

    length: int
    written: str = ""
    is_other: bool = False


def _phrase(text: str, words: Sequence[_Word], first: int, language: str) -> _Phrase:
    """Return the longest number of a language that begins with the word at `first`."""
    names = [word.name for word in words[first : first + _MOST_WORDS]]
    glued = (
        _JOINT.fullmatch(text, one.end, other.start)
        for one, other in pairwise(words[first : first + _MOST_WORDS])
    )
    names = names[: 1 + sum(1 for _ in takewhile(bool, glued))]
    at = 1 if names[0] in _MINUS else 0
    if at == len(names):
        return _Phrase(0)
    is_article = language == "en" and names[at] in ("a", "an") and names[at + 1 : at + 2] != []
    if is_article and names[at + 1] not in (*_SCALES["en"], "hundred", "dozen", *_FRACTIONS):
        return _Phrase(0)
    at += is_article
    begun, total, current, least = at, 0, int(is_article), 10**16
    while at < len(names):
        name = names[at]
        if name == _AND[language] and at > begun:
            value = _value(names[at + 1], language) if at + 1 < len(names) else None
            if value is None or not 0 < value < _room(current, language) or value >= 100:
                break
            at += 1
            continue
        value = _value(name, language)
        if value is None:
            break
        if name in _SCALES[language] and value < least:
            total, current, least = total + max(1, current) * value, 0, value
        elif name in _HUNDREDS[language] and current < 100:
            current = max(1, current) * 100
        elif name == "dozen" and current < 100:
            current = max(1, current) * 12
        elif value < _room(current, language) and (value or not (total or current or at > begun)):
            current += value
        else:
            break
        at += 1
    if at == begun and not is_article:
        return _Phrase(0)
    amount, sign = total + current, _MINUS.get(names[0], "")
    if language == "en" and 0 < amount < (below := _FRACTIONS.get("".join(names[at : at + 1]), 0)):
        return _Phrase(at + 1, f"{sign}{amount}/{below}", is_other=is_article)  # "a third party"
    if names[at : at + 3] == ["and", "a", "half"]:
        return _Phrase(at + 3, f"{sign}{amount}.5")
    if at == begun:
        return _Phrase(0)
    decimals = (
        [_value(name, language) for name in names[at + 1 :]]
        if names[at : at + 1] == [_POINT[language]]
        else []
    )
    digits = [str(value) for value in takewhile(lambda one: one is not None and one < 10, decimals)]
    if digits:
        return _Phrase(at + 1 + len(digits), f"{sign}{amount}.{''.join(digits)}")
    if at == 1 and names[0] in _NO_NUMBERS:
        return _Phrase(0)
    return _Phrase(at, f"{sign}{amount}", at == 1 and (amount == 1 or names[0] in _OTHER_WORDS))


def _room(current: int, language: str) -> int:
    """Return what a word that is added must be under: 10 behind twenty, 100 behind two hundred."""
    if not current:
        return 10**6
    if current % 100 == 0:
        return 100
    if language == "fr" and current % 100 in (60, 80):
        return 20
    return 10 if current % 10 == 0 and current % 100 >= 20 else 0


@cache
def _value(word: str, language: str) -> int | None:
    known = _table(language)
    if word in known or language not in ("de", "it"):
        return known.get(word)
    compound = _COMPOUNDS[language].fullmatch(word)
    if compound is None:
        return None
    value = 0
    for name, factor in (("thousands", 1000), ("hundreds", 100), ("rest", 1)):
        part = compound[name]
        if part is None or (factor == 1 and not part):
            continue
        count = 1 if not part else (_value(part, language) if factor == 1000 else known.get(part))
        if count is None or not 0 < count < 1000 or (factor == 1 and count >= 100):
            return None
        value += count * factor
    return value


@cache
def _table(language: str) -> Mapping[str, int]:
    """Return the words of a language with their numbers."""
    small = {word: n for n, word in enumerate(_SMALL[language].split())}
    tens = {word: 10 * n for n, word in enumerate(_TENS[language].split(), 2)}
    units = {word: n for word, n in small.items() if 0 < n < 10}
    table: dict[str, int] = small | tens | dict.fromkeys(_HUNDREDS[language], 100) | dict(_OTHERS[language])
    table |= _SCALES[language]
    if language == "de":
        table |= {
            f"{unit}und{ten}": n + m for ten, m in tens.items() for unit, n in (units | {"ein": 1}).items()
        }
        table["ein"] = 1
    elif language == "it":
        table |= {
            f"{ten}{unit}": m + n for ten, m in tens.items() for unit, n in units.items() if n not in (1, 8)
        }
        table |= {
            f"{ten[:-1]}{unit}": m + n for ten, m in tens.items() for unit, n in units.items() if n in (1, 8)
        }
        table |= {f"{ten}tré": m + 3 for ten, m in tens.items()}
    elif language == "es":
        accented = {"dós": 2, "trés": 3, "séis": 6, "ún": 1, "una": 1}
        table |= {f"veinti{unit}": 20 + n for unit, n in (units | accented).items()}
        table |= {f"{unit}cientos": 100 * n for unit, n in units.items() if n > 1}
    elif language == "pt":
        table |= {f"{unit}centos": 100 * n for unit, n in units.items() if n > 3}
    return table


_COMPOUNDS = {
    "de": lazy(r"(?:(?P<thousands>\w*?)tausend)?(?:(?P<hundreds>\w*?)hundert)?(?:und)?(?P<rest>\w*)"),
    "it": lazy(r"(?:(?P<thousands>\w*?)(?:mille|mila))?(?:(?P<hundreds>\w*?)cento)?(?P<rest>\w*)"),
}
