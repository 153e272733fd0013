"""Sentences that decline to answer: "I can't classify this as spam", 我无法将其归类为垃圾邮件.

A label in one is neither said nor denied: who cannot judge says nothing of it. Words of the languages that
models answer in most; texts are read as `texts.plain` gives them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from autoprompt.text.answers.label_index import Found
from autoprompt.text.patterns import lazy

# Any character, up to where another clause begins or a word turns the sentence round ("anything but spam").
_GOES_ON = (
    r"(?:(?!,\s*(?:so|it|this|that|the|therefore|but|i|we|also|es|das|c['’]est|il|es|esto|è|это)\b"
    r"|,\s*\w+[.!]?\s*\Z"
    r"|\b(?:but|however|although|except|enough|other\s+than|else|aber|sondern|sino|mais|mas|ma|но|а|hence"
    r"|which|because|since)\b"
    r"|,\s*(?:making|meaning|leaving|hence|thus)\b|[-=]>|[→⇒]"
    r"|\s[-–—]\s|[.;:!?。；！？؛؟\n]|但|而是|所以|因此|แต่|بل|لكن).)"
)
# The author, or nobody in particular: that a customer cannot tell something is what a text is about.
_AUTHOR = (
    r"(?:\b(?:I|we|one)\s+(?:\w+\s+){0,2}?|\bI(?='m)|\bwe(?='re)"
    r"|(?:\A|[.;:!?\n,(\[\"“]|\b(?:but|and|therefore|so|sorry|it\s+is|it's)\b)[^\w\n]{0,8})"
)
# Who is unable or unwilling, and to do what. A passive ("it can't be called spam") denies instead.
_ENGLISH = (
    rf"(?:{_AUTHOR}(?:can(?:not|\s+not|'t)|could(?:\s+not|n't)|won't|will\s+not|(?:(?:am|are|be|'m|'re)\s+)?"
    r"(?:unable|unwilling|not\s+(?:able|willing|allowed|permitted|qualified|comfortable|in\s+a\s+position))"
    r"|declin(?:e|es|ing)|refus(?:e|es|ing)|impossible|not\s+possible)\b"
    r"|\b(?:(?:not|no|\w+n't)\s+(?:\w+\s+)?(?:enough|sufficient)|insufficient|too\s+little)"
    r"\s+(?:information|context|evidence|details?)\b)"
    rf"{_GOES_ON}{{0,60}}?\b(?:classify|categori[sz]e|label|tag|mark|flag|determine|decide|tell|say|state"
    rf"|judge|assess"
    r"|answer|identify|assign|rate|call|describe|assist|comply|conclude|evaluate|respond|confirm"
    r"|calculate|compute|solve|estimate|count|predict"
    r"|(?:provide|give)\s+(?:you\s+)?(?:an?|the|any|my)\b|help(?!\s+\w+ing\b))\b"
)
_EUROPEAN = (
    r"(?:\b(?:(?:kann|können|könnte|darf|dürfen|möchte|werde|will)\b[^.;:!?\n]{0,80}?\b(?:nicht|kein\w*)\b"
    r"|nicht\s+in\s+der\s+Lage\b|weigere\s+mich\b)(?=[^.;:!?\n]*(?:einstuf|einordn|klassifizier|bezeichn"
    r"|bewert|beurteil"
    r"|sagen|bestimm|kennzeichn|markier|zuordn|nennen|beantwort|antwort|helfen|entscheid|einschätz))"
    r"|\b(?:ne\s+)?(?:(?:peux|pouvons|suis|sommes|on\s+ne\s+peut)\s+(?:malheureusement\s+)?pas|saurais"
    r"|saurions|refuse)\b"
    rf"{_GOES_ON}{{0,60}}?"
    r"\b(?:class(?:er|ifier)|catégoriser|dire|déterminer|qualifier|étiqueter|répondre|juger|aider"
    r"|considérer|affirmer|évaluer)\b"
    r"|\bno\s+(?:puedo|podemos|podría|es\s+posible|soy\s+capaz|estoy\s+en\s+condiciones)\b"
    rf"{_GOES_ON}{{0,60}}?"
    r"\b(?:clasificar|categorizar|decir|determinar|etiquetar|calificar|responder|juzgar|ayudar|considerar"
    r"|afirmar|evaluar)(?:l[eo]s?|te|la)?\b"
    r"|\bnão\s+(?:posso|podemos|consigo|conseguimos|é\s+possível|sou\s+capaz)\b"
    rf"{_GOES_ON}{{0,60}}?"
    r"\b(?:classificar|categorizar|dizer|determinar|rotular|responder|julgar|ajudar|considerar|afirmar"
    r"|avaliar)\b"
    r"|\bnon\s+(?:posso|possiamo|riesco|è\s+possibile|sono\s+in\s+grado)\b"
    rf"{_GOES_ON}{{0,60}}?"
    r"\b(?:classificar|categorizzar|dire|dirti|determinar|etichettar|risponder|giudicar|aiutar|considerar"
    r"|definir|valutar)\w*"
    r"|\bне\s+(?:могу|можем|буду|способ\w+|в\s+состоянии|готов\w*)\b"
    rf"{_GOES_ON}{{0,60}}?"
    r"\b(?:классифициров|категориз|отнести|определ|назвать|сказать|отвеч|ответ|оцен|помо|суди|счита|призна"
    r"|помет)\w*)"
)
_ASIAN = (
    r"(?:(?<!用户)(?<!客户)(?<!顾客)(?<!作者)(?<![他她它])(?:无法|無法|不能(?!不)|没法|沒法|不便|难以|難以|无从|無從|拒绝|拒絕"
    r"|不敢)[^。；！？\n:]{0,24}?"
    r"(?:归类|歸類|分类|分類|判断|判斷|判定|确定|確定|认定|認定|标记|標記|标注|归为|歸為|归入|定性|看作|视为|視為|认为|認為|说|說|评|評"
    r"|回答|提供|协助|協助|帮|幫|给出|給出|称|稱|把[^。，\n]{0,12}(?:归|歸|划|劃|当|當))"
    r"|(?:ไม่สามารถ|ไม่อาจ)[^.\n]{0,40}?(?:จัด|ระบุ|บอก|ตัดสิน|ตอบ|กำหนด|สรุป|ให้คะแนน|ช่วย|พูด|เรียก"
    r"|ประเมิน)"
    r"|(?:لا|لن|لم)\s+(?:أستطيع|يمكنني|أقدر|يمكن|أتمكن|نستطيع)\s[^.؛:!؟\n]{0,40}?"
    r"(?:تصنيف|تحديد|القول|الحكم|وصف|مساعد|الإجابة|اعتبار|أقول|أصنف|أحكم)\w*"
    r"|(?:غير\s+قادر|يتعذر)\s[^.؛:!؟\n]{0,40}?(?:تصنيف|تحديد|القول|الحكم|وصف|مساعد|الإجابة|اعتبار)\w*)"
)
_DECLINES = lazy(rf"{_ENGLISH}|{_EUROPEAN}|{_ASIAN}", re.IGNORECASE)
_SCOPE = lazy(f"{_GOES_ON}{{0,160}}", re.IGNORECASE)
# Where the verb stands behind the label: Japanese, Korean, Hindi, Turkish.
_DECLINED_BEHIND = lazy(
    r"[\"'`*”’」』]*\s*(?:(?:だ|である)?(?:と|に)(?:は|も)?(?!しか)[^。、！？\n]{0,4}?(?:判断|分類|断定|判定|言|いえ|呼|回答|答|決め|み|見|評価"
    r"|特定)"
    r"[^。、！？\n]{0,10}?(?:でき(?:ません|ない|ず|かね)|え(?:ません|ない)|られ(?:ません|ない)|べません|べない|かね|難し|困難|不可能)"
    r"|(?:적\S{0,4}\s)?(?:으?로|이?라고)\s?(?:분류|판단|판정|단정|평가|간주|구분|말|답)[^.,\n]{0,8}?(?:수\s?(?:가\s?)?없|어렵|불가|못)"
    r"|\s?के\s+(?:रूप|तौर)\s+(?:में|पर)\s[^।\n]{0,30}?नहीं\s[^।\n]{0,10}?सक"
    r"|\s?olarak\s+\w+(?:[ae]m[ae]m|[ae]m[ıi]yorum|[ae]may[ıi]z|[ae]meyiz|[ıiuü]l[ae]m[ae]z)\b)"
)


_IS_QUOTED = lazy(r'\s*"[^"]*"\s*')  # the whole answer stands in quotes


def declining(text: str) -> list[tuple[int, int]]:
    """Where `text` says what it declines, in order. Who is quoted in it is not its author."""
    return [
        (one.end(), _scope_end(text, one.end()))
        for one in _DECLINES.finditer(text)
        if text.count('"', 0, one.start()) % 2 == 0 or _IS_QUOTED.fullmatch(text)
    ]


def declined(text: str, found: Sequence[Found]) -> set[int]:
    """The places in `found`, the labels of `text`, of those that it declines to say."""
    spans = declining(text)
    places: set[int] = set()
    for at, label in enumerate(found):
        while spans and spans[0][1] <= label.start:
            spans.pop(0)
        is_inside = bool(spans) and spans[0][0] <= label.start
        if is_inside or _DECLINED_BEHIND.match(text, label.end):
            places.add(at)
    return places


def _scope_end(text: str, start: int) -> int:
    scope = _SCOPE.match(text, start)
    return scope.end() if scope else start
