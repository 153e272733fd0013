"""Words and signs that multiply the number before them: 3 million, 3 Mio., 3万, 2 lakh, 5k, $5m.

Texts are read as `numbers` has them, with the digits and marks of a keyboard.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from autoprompt.text.scripts import HAN, HANGUL, MARKS, UNPARTED, lazy

# Languages with a decimal point, or without a rule: English, Hindi, Bengali, Arabic, Persian, Hebrew.
_OF_POINT: Mapping[float, str] = {
    1e2: "hundred hundreds सौ",
    1e3: "thousand thousands हज़ार हजार হাজার ألف الف آلاف هزار אלף אלפים ہزار",
    1e5: "lakh lakhs lac lacs लाख লাখ لاکھ",
    1e6: "million millions mln मिलियन مليون ملايين میلیون מיליון",
    1e7: "crore crores करोड़ करोड कोटि কোটি کروڑ",
    1e9: "billion billions bn bln अरब مليار مليارات میلیارد מיליארד",
    1e12: "trillion trillions trn trln تريليون",
    1e15: "quadrillion quadrillions",
}
# Languages with a decimal comma. A Spanish billón and a German plural Billionen are English trillions.
_OF_COMMA: Mapping[float, str] = {
    1e3: "tsd tausend mille mil mila duizend tusen tusind tys tysiąc tysiące tysięcy tisíc tisíce ribu rb"
    " nghìn ngàn mii ezer tuhat tuhatta χιλιάδες тыс тысяча тысячи тысяч тис тисяча тисячі тисяч"
    " хиляда хиляди tisuća tisuće hiljada hiljade hiljadu tisoč tūkstantis"
    " tūkstančiai tūkstančių tūkstotis tūkstoši",
    1e6: "mio mill millionen millón millones milione milioni milhão milhões miljoen miljon miljoner millioner"
    " milion miliony milionów milionu miliónů milioane milyon juta jt triệu millió miljoona miljoonaa"
    " εκατομμύρια εκατομμύριο млн миллион миллиона миллионов мільйон мільйона мільйони мільйонів"
    " милион милиона милиони milijun milijuna milijuni milijon milijona milijone milijoni milijonas milijonai"
    " milijonų milión milióny miliónov miljons miljoni miljonu miljonit milions milljón milljónir",
    1e9: "mrd mrds mds milliard milliards milliarde milliarden miliardo miliardi bilhão bilhões miljard"
    " miljarder milliarder mld mdr miliard miliardy miliardów miliarde milyar miliar tỷ tỉ milliárd miljardi"
    " miljardia δισεκατομμύρια млрд миллиард миллиарда миллиардов мільярд мільярда мільярди мільярдів"
    " милиард милиарда милиарди milijarda milijarde milijardi milijardas milijardai milijardų miliarda"
    " miliardov miljards miljardit",
    1e12: "billionen billón billones bilião biliões bilion biliony bilionów biljoen biljon biljoner billioner"
    " trilhão trilhões trilyon triliun трлн триллион триллиона триллионов"
    " трильйон трильйона трильйони трильйонів"
    " bilión bilióny biliónov bilijun bilijuna bilijon",
    1e15: "billiarde billiarden",
    1e18: "trillionen trillón trillones",
}
_OF_UNPARTED: Mapping[str, float] = {
    **{"百": 1e2, "千": 1e3, "万": 1e4, "萬": 1e4, "亿": 1e8, "億": 1e8, "兆": 1e12},
    **{"십": 1e1, "백": 1e2, "천": 1e3, "만": 1e4, "억": 1e8},
    **{"พัน": 1e3, "หมื่น": 1e4, "แสน": 1e5, "ล้าน": 1e6},
}
_WORDS = {
    word: (factor, has_comma)
    for has_comma, table in ((False, _OF_POINT), (True, _OF_COMMA))
    for factor, words in table.items()
    for word in words.split()
}
# A sign may be a unit, too: m is a metre, K a kelvin, L a litre, b a bit, t a ton, mi a mile, mn a minute.
# bin (Turkish) and mia (Danish) are words of other languages, too.
_SIGNS = {
    **{
        "k": 1e3,
        "K": 1e3,
        "к": 1e3,
        "L": 1e5,
        "m": 1e6,
        "M": 1e6,
        "mm": 1e6,
        "MM": 1e6,
        "mn": 1e6,
        "Mn": 1e6,
        "mi": 1e6,
    },
    **{"cr": 1e7, "Cr": 1e7, "b": 1e9, "B": 1e9, "bi": 1e9, "t": 1e12, "T": 1e12, "tn": 1e12, "bio": 1e12},
    **{"Bio": 1e12, "조": 1e12, "bin": 1e3, "mia": 1e9},
}
_MARKS_BETWEEN = r"[*_`~}]{0,4}"
_LATEX = r"(?:(?:text|mathrm|textbf|textit|mbox)\s?\{\s?)?"
_LETTERS = rf"(?![{UNPARTED}{HANGUL}\d_])[\w{MARKS}]"
_WORD = lazy(rf"{_MARKS_BETWEEN}(?:[^\S\n]|-|,(?! ))?{_LATEX}-?{_MARKS_BETWEEN}((?:{_LETTERS})+)")
_NEXT_WORD = lazy(rf"[^\S\n]((?:{_LETTERS})+)")
_UNPARTED_WORDS = lazy(
    # 千克 is a kilogram, 千米 a kilometre, 百帕 a hectopascal, 兆赫 a megahertz.
    rf"{_MARKS_BETWEEN}[^\S\n]?((?:[百千](?![克米瓦卡帕赫焦伏牛安分]|字节|比特)|[万萬亿億]|兆(?![赫瓦帕焦伏比字])"
    rf"|(?<![^\S\n])(?:십(?=[만억])|[백천만억])|(?<=[^\S\n])[만억](?=\s|원|명|개|달러|\Z)|พัน|หมื่น|แสน|ล้าน)+)"
)
_UNPARTED_WORD = lazy("|".join(_OF_UNPARTED))
_CODE = r"(?:USD|EUR|GBP|INR|CHF|JPY|CNY|RMB|AUD|CAD|BRL|SEK|NOK|DKK|PLN|RUB|KRW|SGD|HKD|MXN|ZAR)"
_SYMBOL = r"(?:(?:US|AU?|CA?|NZ|HK|S|R)?[$€£¥₹₩₽₺฿₫₪₴₦₱])"
MONEY = rf"(?:{_SYMBOL}|{_CODE}|Rs\.?)"  # as it is written before a number
_END = rf"(?![\w{MARKS}^])|(?=[{UNPARTED}{HANGUL}])"
_SIGN = lazy(
    rf"{_MARKS_BETWEEN}([^\S\n]?)({'|'.join(sorted(_SIGNS, key=len, reverse=True))})"
    rf"(?=(?:{_CODE}|{_SYMBOL})|{_END})"
)
_BEFORE_MONEY = lazy(
    rf"(?:{_SYMBOL}|(?<![^\W\d_])(?:{_CODE}|Rs\.?|R|kr\.?))[^\S\n]?[-+]?[^\S\n]?[*_`]{{0,2}}$", re.IGNORECASE
)
_BEHIND_MONEY = lazy(
    rf"[^\S\n]?(?:{_SYMBOL}|(?:{_CODE}|euros?|dollars?|pounds?|rupees?|pesos?|yuan|yen|reais|kr|руб\w*)(?!\w)"
    r"|원|달러|元|円)",
    re.IGNORECASE,
)
_NAMED_SCALE = lazy(rf"[^\S\n]?\(?[^\S\n]?(?:(?:in|en|em)[^\S\n])?((?:{_LETTERS})+)[^\S\n]?\)", re.IGNORECASE)
_JOINT = lazy(r"(?:\.?,?[^\S\n](?:(?:and|und|et|y|e|и|i|ve|og|och|en)[^\S\n])?)?", re.IGNORECASE)
_IS_UNPARTED = lazy(rf"[{HAN}{HANGUL}]")


# What a number and a letter name: Room 5B, Vitamin 3K, Zimmer 5B, the company 3M.
_PLACES = (
    r"rooms?|gates?|seats?|flights?|exits?|vitamins?|questions?|classrooms?|wards?|halls?|zimmer|raum|aufgabe"
    r"|salle|chambre|sala|aula|habitación|quarto|stanza|комната|кабинет|аудитория"
)
_THINGS = (
    r"buildings?|flats?|apartments?|apt|suites?|platforms?|rows?|sections?|exercises?|types?|class(?:es)?|grades?"
    r"|bus(?:es)?|trams?|trains?|lines?|routes?|roads?|highways?|motorways?|interstates?|freeways?|chapters?|units?"
    r"|floors?|blocks?|figures?|fig|tables?|pages?|parts?|terminals?|tracks?|lanes?|zones?|forms?|appendix"
    r"|articles?|rules?|items?|lots?|piers?|docks?|bays?|decks?|doors?|lockers?|channels?|cabins?|studios?"
    r"|haus|gleis|linie|klasse|gebäude|wohnung|abschnitt|kapitel|bâtiment|quai|ligne|appartement|porte|étage"
    r"|edificio|puerta|andén|línea|asiento|piso|portão|prédio|apartamento|linha|binario|appartamento|дом|квартира"
    r"|company|firm|manufacturer|brand"
)
_NUMBERED = r"(?:\s+(?:number|no|nr|num|nummer|numéro|número|numero|номер))?\.?\s*[#№]?\s*"
_NAMES_A_THING = lazy(
    rf"(?:(?<![^\W_])(?:{_PLACES}|{_THINGS}){_NUMBERED}"
    # The price of a flat may be told so: only of what has none, and as the first word.
    rf"|\A\W*(?:the\s+)?(?:{_PLACES}){_NUMBERED}(?:[:=]|is|ist|est|es|é|è)\s*)[\"'`*_“‘(]*$",
    re.IGNORECASE,
)
_OF_A_NAME = lazy(r"[^\W\d_]-$")  # GPT-4K, F-16B
# Behind a number and a letter: what such a name is of.
_IS_A_NAME = lazy(
    r"[\"'`*_”’)]*[\s-]+(?:resolution|videos?|TVs?|televisions?|monitors?|displays?|screens?|cameras?|footage|UHD|HDR"
    r"|Auflösung|résolution|resolución|resolução|Blu-?ray|content|streaming|gaming"
    r"|Co\b|Company|Corp\b|Corporation|Inc\b|Post-?its?|tapes?|respirators?|stock"
    r"|(?:[A-Z][\w'’.-]*\s+){1,3}(?:Street|St|Avenue|Ave|Road|Rd|Lane|Ln|Drive|Dr|Boulevard|Blvd|Square|Sq|Way|Court|Ct"
    r"|Terrace|Place|Close)\b)",
)
_PENSION = lazy(
    r"[\s-]+(?:plans?|accounts?|savings|contributions?|retirement|match)\b", re.IGNORECASE
)  # 401k
_PLAIN_NUMBER = lazy(r"[1-9]\d{0,3}")
_RACE = lazy(
    r"[\s-]+(?:runs?|races?|marathons?|walks?|jogs?|treks?|Lauf|course|carrera|corrida)\b", re.IGNORECASE
)
_RAN = lazy(
    r"\b(?:ran|run|runs|running|jogged|raced|race)\s+(?:an?\s+|the\s+|her\s+|his\s+|my\s+)?$", re.IGNORECASE
)
# "5 mil" is 5 thousand in Spanish and Portuguese, and 5 million in English.
_OF_SPANISH = lazy(
    r"[ñãõáíóúçêâ¿¡]|\bR\$|\b(?:el|los|las|del|es|son|fue|fueron|era|y|con|por|para|cuesta|costó|cuestan|precio|unos"
    r"|unas|hay|tiene|una|más|casi|aproximadamente|alrededor|pesos?|personas?|habitantes|soles|respuesta|uma|uns|umas"
    r"|em|são|foi|custa|custou|preço|com|mais|quase|cerca|reais|pessoas?|resposta|dos|das|não|sí|de|que)\b",
    re.IGNORECASE,
)
_OF_ENGLISH = lazy(
    r"\b(?:the|it|its|is|was|were|are|of|about|and|to|at|cost|costs|paid|pays?|worth|budget|people|dollars?|bucks?|users?"
    r"|over|around|nearly|almost|roughly|answer|they|he|she|we|will|would|has|have|had|raised|sold|made|makes|with|price"
    r"|revenue|salary|a|an|in|on|by|from|year|months?|views?|followers|copies|company|than|more|less|approximately)\b",
    re.IGNORECASE,
)


class Multiplier(NamedTuple):
    """A word or sign after a number: its factor, where it ends, and if its language has a decimal comma."""

    factor: float
    end: int
    has_comma: bool = False


class Amount(NamedTuple):
    """A number with its multiplier. value: of the digits alone, without a sign."""

    start: int
    value: float
    multiplier: Multiplier | None
    end: int


def find_multiplier(text: str, start: int, end: int) -> Multiplier | None:
    """Return the multiplier of the number from `start` to `end` in `text`; None if it has none.

    Words are always one; "mil" depends on the language around it. A sign is one if money is counted ($5m, 5
    M€), or if it is written at the number as no unit is: 5k, 5K, 5M, 5B. It is none if both name a thing:
    Room 5B, a 4K TV, 401k, the company 3M.
    """
    if unparted := _UNPARTED_WORDS.match(text, end):
        factor = 1.0
        for word in _UNPARTED_WORD.findall(unparted[1]):
            factor *= _OF_UNPARTED[word]
        return Multiplier(factor, unparted.end())
    word = _WORD.match(text, end)
    if word and (known := _WORDS.get(word[1].casefold())):
        factor, has_comma, past = *known, word.end()
        is_mil = word[1].casefold() == "mil"
        while (more := _NEXT_WORD.match(text, past)) and (known := _WORDS.get(more[1].casefold())):
            factor, has_comma, past, is_mil = factor * known[0], has_comma or known[1], more.end(), False
        if is_mil:
            return _mil(text, start, past)
        return Multiplier(factor, past, has_comma)
    sign = _SIGN.match(text, end)
    if sign is None:
        return None
    before = text[max(0, start - 8) : start]
    is_money = _is_money(text, start, sign.end())
    if not is_money and (_names_a_thing(text, start, sign) or _is_distance(text, start, sign)):
        return None
    is_written_at = sign[2] in ("k", "к") or (sign[2] in ("K", "M", "B") and not sign[1])
    if is_money or (is_written_at and not before[-1:].isalpha() and before[-1:] not in ("^", "_")):
        return Multiplier(_SIGNS[sign[2]], sign.end())
    return None


def _mil(text: str, start: int, end: int) -> Multiplier | None:
    """Return what "mil" means by the words of the text; None if it says too little."""
    others = f"{text[:start]} {text[end:]}"
    spanish, english = (len(words.findall(others)) for words in (_OF_SPANISH, _OF_ENGLISH))
    if spanish == english and (spanish or _BEFORE_MONEY.search(text[max(0, start - 8) : start])):
        return None
    return Multiplier(1e6, end) if english > spanish else Multiplier(1e3, end, has_comma=True)


def _is_money(text: str, start: int, end: int) -> bool:
    before = text[max(0, start - 8) : start]
    return bool(_BEFORE_MONEY.search(before) or _BEHIND_MONEY.match(text, end))


def _names_a_thing(text: str, start: int, sign: re.Match[str]) -> bool:
    """Return whether a number and the sign behind it are a name, as 5B of "Room 5B"."""
    digits = text[start : sign.start()]
    if sign[1] or not _PLAIN_NUMBER.fullmatch(digits):  # as "room 5 K" and "flat 3.5M" are no names
        return False
    before = text[max(0, start - 48) : start]
    if _NAMES_A_THING.search(before) or _OF_A_NAME.search(before) or _IS_A_NAME.match(text, sign.end()):
        return True
    return digits == "401" and sign[2] in ("k", "K") and _PENSION.match(text, sign.end()) is not None


def _is_distance(text: str, start: int, sign: re.Match[str]) -> bool:
    """Return whether a run is so long: "a 5K run", "ran 10K"."""
    if sign[2] not in ("k", "K"):
        return False
    return bool(_RACE.match(text, sign.end()) or _RAN.search(text[max(0, start - 24) : start]))


def possible_factor(text: str, start: int, end: int) -> float:
    """Return what the number from `start` to `end` may have to be multiplied by; 1 if there is no doubt.

    5 m are metres or millions, 300 K kelvin or thousands; 5 (in millions) may be meant as 5.
    """
    if sign := _SIGN.match(text, end):
        if _names_a_thing(text, start, sign) and not _is_money(text, start, sign.end()):
            return 1.0
        return 1.0 if text.startswith("/", sign.end()) else _SIGNS[sign[2]]  # 5 m/s
    named = _NAMED_SCALE.match(text, end)
    return _WORDS.get(named[1].casefold(), (1.0,))[0] if named else 1.0


def written_factor(factor: float) -> str:
    """Return the sign that `possible_factor` reads as `factor`; "" for 1."""
    return next((f" {sign}" for sign, known in _SIGNS.items() if known == factor and sign != "k"), "")


def write_out(text: str, amounts: Iterable[Amount]) -> str:
    """Return `text` with each multiplied number written out: "$3 million" as "$3000000".

    Numbers that make up one are added: "1 million 200 thousand", 1億2000万.

    Args:
        text: An answer.
        amounts: Its numbers, in order.
    """
    parts: list[str] = []
    past = 0
    found = list(amounts)
    at = 0
    while at < len(found):
        first = found[at]
        at += 1
        if first.multiplier is None:
            continue
        total, last = first.value * first.multiplier.factor, first
        while at < len(found) and (more := _added(text, last, found[at])) is not None:
            total, last = total + more, found[at]
            at += 1
            if last.multiplier is None:
                break
        before = text[past : first.start]
        # 190 / 37.5k is no fraction, and none of whole numbers when written out.
        cut = "\0" if before.endswith(("/", "/ ")) else ""
        parts += [before, cut, repr(total).removesuffix(".0")]
        past = last.end
        if text[past : past + 1].isdigit():
            parts.append(" ")
    return "".join([*parts, text[past:]]) if parts else text


def _added(text: str, last: Amount, following: Amount) -> float | None:
    """Return what `following` adds to `last`, which it continues; None if it is another number."""
    assert last.multiplier is not None
    factor, between = last.multiplier.factor, text[last.end : following.start]
    is_unparted = _IS_UNPARTED.match(text[last.end - 1]) is not None
    if not _JOINT.fullmatch(between) or (not between and not is_unparted):
        return None
    if following.multiplier is not None:
        value = following.value * following.multiplier.factor
        is_smaller = following.multiplier.factor < factor
        return value if is_smaller and value < factor else None
    if between.strip() or not float(following.value).is_integer():
        return None
    if (
        is_unparted
        and following.value < 10
        and factor >= 1000
        and text[following.end : following.end + 1] != "円"
    ):
        return following.value * factor / 10  # 1万5, as it is spoken
    is_whole = following.value >= factor / 10 or is_unparted
    return following.value if is_whole and following.value < factor else None
