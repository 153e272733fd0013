"""What an answer says of itself at its end: "Confidence: 0.9", "(95% confident)", 置信度：0.9."""

from __future__ import annotations

import re

from autoprompt.text.patterns import lazy
from autoprompt.text.scripts import MARKS

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
    """`text` without the statement at its end that says how sure its author is.

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
