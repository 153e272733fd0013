"""What a sentence does with a label besides naming it: deny it, ask about it, list it, or decline it.

Words of the languages that models answer in most; texts are read as `texts.plain` gives them. A label counts
as named if the sentence does none of this.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from autoprompt.text.answers.checklists import NO
from autoprompt.text.answers.label_index import Found
from autoprompt.text.scripts import lazy

# What may stand between a negation and the label that it denies: "does not appear to be", "I don't think this
# text is", "no sign of". Nothing else may: "not just", "no doubt this is", "not clear, but" deny no label.
_THIS = (
    r"(?:it|this|that|the|these|its|such)(?:\s+(?!(?:not|and|but|or|so)\b)\w+)?"
    r"\s+(?:is|are|was|to\s+be|as|contains?|has)"
)
_DENIED = (
    rf"(?:{_THIS}|an?|the|be|being|to|as|really|typical|necessarily|likely|considered|classified|clearly"
    rf"|entirely"
    r"|purely|appear|seem|look|sound|like|contain|have|has|express|convey|show|exhibit|constitute|represent"
    r"|indicate|suggest|reflect|describe|qualify|count|fall|belong|fit|into|under|in|of|at|all|any|much|think"
    r"|believe|find|detect|see|notice|say|call|that|it|it['’]s|this|labell?ed|categori[sz]ed|regarded|seen"
    r"|described|deemed|called|send|route|assign|sent|routed|assigned"
    r"|marked|judged|actually|exactly|truly|explicitly|obviously|clear|strong|signs?|evidence|indication"
    r"|indicative|hint|case|example|form|kind|type|sort|category|class|label|even|very|so|too|way|remotely"
    r"|slightly"
    r"|particularly|especially|overly|meet|reach|cross|rise|line|level|criteri(?:a|on)|definition"
    r"|threshold|standards?|for)\b\s*"
)
_NOTHING_OF = (
    r"(?:(?:clear|obvious|real|strong|explicit|such)\s+)?(?:evidence|indications?|signs?|hints?|traces?|case)"
    rf"\s+(?:of|that\s+{_THIS})\s+(?:(?:an?|the|any|being)\s+)*"
)
# What denies in other words than "not", and what may be counted or missing: "lacks toxic language".
_ABSENT = (
    r"(?:zero|devoid\s+of|void\s+of|lack(?:s|ing)?(?:\s+of)?|absence\s+of|avoid(?:s|ed|ing)?|refrains?\s+from"
    r"|by\s+no\s+means|(?:in|under)\s+no\s+(?:way|sense|circumstances?)|fail(?:s|ed)?\s+to(?:\s+(?:be"
    r"|qualify|count))?"
    r"|(?:none|no\s+\w+)\s+of\s+(?:it|this|that|these|them)\s+(?:is|are|was)"
    r"|(?:nobody|no\s+one)\s+(?:would|could|will|should)\s+(?:call|consider|describe|label|find)\s+(?:it"
    r"|this|that)(?:\s+as)?"
    r"|frei\s+von|keinerlei|keineswegs|keinesfalls|mitnichten|nullement|aucunement|en\s+aucun\s+cas|aucune?"
    r"|(?:exempte?|dépourvue?|dénuée?)\s+de|(?:exent[oa]|libre|carece|carente|livre|isent[oa])\s+de"
    r"|en\s+absoluto"
    r"|de\s+ning(?:ún\s+modo|una\s+(?:manera|forma))|ning(?:ún|una)|(?:no|não|non)\s+(?:contiene|hay|tiene"
    r"|contém|há|tem|ha|c['’]è)"
    r"|de\s+(?:modo|forma|maneira)\s+(?:nenhum\w*|alguma)|nenhum\w*|nessun\w*|priv[oa]\s+di"
    r"|in\s+nessun\s+modo"
    r"|лиш[её]н\w*|не\s+содержит|отнюдь\s+не|geen|niet|nie(?:\s+jest)?|bukan|tidak"
    r"|không(?:\s+phải)?(?:\s+là)?|inte|ikke)"
)
_OF_CONTENT = (
    r"(?:(?:an?|any|anything|being|the|clear|explicit|obvious|content|language|words?|terms?|remarks?|elements?"
    r"|signs?|as|of|for|from|des?|du|di"
    r"|mots?|contenus?|langage|propos|signes?|éléments?|(?:ning(?:ún|una)|palabras?|contenido|lenguaje"
    r"|signos?|elementos?"
    r"|indicios?|palavras?|conteúdo|linguagem|sinais|parole|contenuto|linguaggio|segni)|Inhalte?n?|Wörter"
    r"|Sprache|Anzeichen"
    r"|признак\w*|слов\w*)\b\s*)*"
)
_DENIED_ZH = "能|应该?|会|太|认为|觉得|像|包含|含有?|构成|表达|可能|被|算|归类|视|为|这|该|它|文本|是|属于"
# English, German, French, Spanish, Portuguese, Italian, Russian, Arabic; Chinese, Thai.
_NEGATION = lazy(
    rf"(?:(?:\b(?:not|never|cannot|unlikely|hardly|far\s+from)|n['’]t)\b\s+(?:{_DENIED})*"
    r"|(?<!\bno )(?<!n't )(?<!\bnot )(?<!\bwithout )(?<!\bany )(?<!\bzero )(?<!\blittle )(?<!\bbeyond )"
    r"\bdoubt\s+(?:that\s+)?(?:it's|it\s+is|this\s+is)\s+(?:an?\s+)?"
    rf"|\bno\s+{_NOTHING_OF}|不(?:{_DENIED_ZH})+)"
    r"[\"'`*“‘「]*$|"
    r"(?:\b(?:not|non|no|never|cannot|neither|nor|rather than|instead of|nothing|without"
    r"|free\s+(?:of|from)|ohne|sans|sin|sem|senza|без|nicht|kein(?:e[mnrs]?)?|weder"
    r"|pas|aucune?|ni|não|nem|né|не|ни|нет|و?(?:ليس|ليست|غير))\b|n['’]t\b|\bnon"
    r"|(?:不是|并非|不属于|没有?|無|无|毫[无不無]|零|缺乏|缺少|未[见發发出包含現现見]*|不含有?|不存在)"
    r"(?:任何|明[显顯确確]的?|一点|半点|丝毫|什么|出现|含有?|包含|发现|存在|很|太|特别|特別|那么|那麼|非常|十分)*|非|不|ไม่(?:ใช่|ได้|เป็น|มี)*)[\s_\-]*"
    r"(?:(?:an?|any|the|be|to|as|really|typical|necessarily|likely|considered|classified|clearly|entirely"
    r"|purely"
    r"|wirklich|eindeutig|typische[mnrs]?|als|ein(?:e[mnrs]?)?|vraiment|des?|du|une?|es|una?|é|uma?|è"
    r"|является)\b\s*)*[\"'`*“‘「]*$"
    rf"|\b{_ABSENT}\b[\s_\-]*{_OF_CONTENT}[\"'`*“‘「]*$"
    # "cannot be anything but spam" says spam
    r"|\A(?!.*(?:\b(?:not|cannot|never|nothing|hardly|no)\b|n['’]t\b)).*\b(?:anything|everything)\s+(?:but"
    r"|except)\s+"
    r"(?:(?:an?|the)\s+)?[\"'`*“‘]*$",
    re.IGNORECASE,
)
# Japanese, Korean, Hindi, Turkish. "A というより B" is "B rather than A"; 아니면 is "or".
_NEGATION_BEHIND = lazy(
    r"[\"'`*”’」』]*(?:\s?(?:では|じゃ|で)(?:なく|ない|ありません)|\s?というより"
    r"|(?:的?な|の)?(?:要素|内容|表現|点|言葉|部分|感情|単語|発言)(?:は|が|も)(?:一切|全く|まったく|特に)?"
    r"(?:な(?:い|く|し)|ありません|含まれ(?:てい)?(?:ま?せん|ない|ず)|見られ(?:ません|ない|ず)|見当たりません)"
    r"|(?:이|가|은|는|도)?\s?(?:아니(?!면)|아닌|아닙|아님)|적?이지\s?않|\s?नहीं|\s?değil\b"
    r"|적?인?\s?(?:내용|요소|표현|단어|부분|언어|감정)(?:이|은|도|가)?\s?(?:전혀\s?)?(?:없|포함되어\s?있지\s?않)"
    r"|\s+içerm(?:iyor|ez)|\s(?:words?|terms?|content|elements?|signs?|remarks?|language)\s*[:=]\s*(?:0"
    r"|none|no|zero)\b(?![.,]\d))"
    # "spam: no", "Spam? No, it is fine"
    r"|(?<=[^\W\d])[\"'`*_”’」』)]*\s*(?:[:=|]|\s[-–—]\s|->|→|[?？؟])\s*[\"'`*_]*"
    rf"(?:{NO}|0(?:\.0)?|✗|✘|❌)(?=[\"'`*_)|!]*\s*(?:\Z|[\n;。，；]|[.,](?!\d)))"
    r"|[\"'`*_”’」』)]*\s*[?？؟]\s*(?:I\s+don't\s+think\s+so|not\s+(?:really|at\s+all)|definitely\s+not)\b",
    re.IGNORECASE,
)
# What joins a label to one before it that is negated.
_ALSO = lazy(
    r"[\"'`*”’」]*(?:\s+(?:or|nor|oder|noch|ou|или)\s+(?:(?:an?|the)\s+)?|或者?)[\"'`*“‘「]*", re.IGNORECASE
)
BEFORE_OPPOSITE = (
    *("non_", "non", "not_", "no_", "nicht_", "kein_", "keine_", "pas_", "não_", "не_", "غير_"),
    *("非", "不是", "不", "ไม่", "ไม่ใช่"),
)
BEHIND_OPPOSITE = ("ではない", "_아님", "_नहीं", "_değil")

# What joins labels of which none counts more. English, German, French, Spanish, Italian, Russian, Arabic,
# Hindi, Turkish; signs; Chinese, Japanese, Thai; Korean.
_OR = r"(?:and/or|or|vs\.?|versus|oder|ou|o|u|или|أو|या|veya|ya\s+da)"
_AND = r"(?:and|und|et|y|ed?|и|और|ve)"
_CLOSED, _OPENED = (
    r"[\"'`*”’」』)\]]*",
    r"(?:(?:an?|the|ein(?:e[mnrs]?)?|une?|des?|una?)\s+)*[\"'`*“‘「『(\[]*",
)
# Beside an "or": it leaves both as open as the "or" alone. A "but" or a "rather" does not.
_MAYBE = (
    r"(?:(?:maybe|perhaps|possibly|probably|potentially|even|also|alternatively|else|it\s+could\s+be"
    r"|vielleicht|möglicherweise|auch|peut-être|aussi|quizás?|tal\s+vez|también|talvez|também|forse|anche"
    r"|возможно|может\s+быть)[,\s]+)*"
)
_INSTEAD = r"(?:otherwise|else|alternatively|failing\s+that|as\s+well\s+as|slash|sonst|sinon|si\s+no|иначе)"
_BESIDE = lazy(
    rf"{_CLOSED}(?:(?:\s*(?:,|[-–—]|\.{{2,3}}|…)?\s*[(\[]?(?<![^\W_]){_OR},?|\s+{_AND})\s+{_MAYBE}"
    rf"|(?:[,;]?\s+){_INSTEAD},?\s+"
    r"|\s*(?:[/&|、和与與及跟とやか]|以及|或者?|还是|還是|または|もしくは|それとも|หรือ|และ)\s*"
    rf"|(?:와|과|이?나|하고|이?랑)\s+|\s*(?:또는|혹은|아니면|및)\s+){_OPENED}",
    re.IGNORECASE,
)
_OR_BEGINS = lazy(rf"\W*{_OR}\b(?!\s*$)", re.IGNORECASE)
_OR_ENDS = lazy(rf"\w\W*\s{_OR}\W*$", re.IGNORECASE)
# Between others of a list: a comma alone may begin what explains the first, as a clause after ", and" may.
_LISTED = lazy(rf"{_CLOSED}[,，]\s*{_OPENED}", re.IGNORECASE)
_LAST_LISTED = lazy(rf"{_CLOSED},\s+{_AND}\s+{_OPENED}", re.IGNORECASE)
# The same doubt or share in front of two labels: "maybe yes, maybe no", "50% yes, 50% no".
_HALF = lazy(
    r"(?:maybe|perhaps|possibly|probably|likely|(?:could|might|may|can)\s+be|half|partly|part|equally"
    r"|as\s+much"
    r"|\d+\s?%(?:\s+(?:of|chance\s+of))?|vielleicht|halb|teils|peut-être|quizás?|talvez|forse|возможно"
    r"|可能是?|也许是?)"
    rf"\s*{_OPENED}\Z",
    re.IGNORECASE,
)
# "yes if it is long, no otherwise".
_IF = lazy(
    rf"{_CLOSED}\s+(?:if|when|unless|wenn|falls|si|se|если)\b[^.;!?\n]*[,;]\s*{_OPENED}", re.IGNORECASE
)
_OTHERWISE = lazy(
    rf"{_CLOSED},?\s+(?:otherwise|else|if\s+not|sonst|sinon|si\s+no|altrimenti|иначе)\b", re.IGNORECASE
)
_FEWEST_LISTED, MOST_LISTED = 3, 20
_WIDEST_JOINT, _WIDEST_IF = 36, 60  # characters of it
_NO_WORD = lazy(r"(?:[^\w?？؟]|_)*")
# What is weighed and not said: "whether it is spam", 是否为正面.
_WEIGHED = lazy(
    rf"\b(?:whether\s+(?:or\s+not\s+)?|(?:sure|certain|know|determine|tell|decide|say|see|check|clear"
    rf"|unclear|asks?|asked"
    rf"|wonder|uncertain|unsure)\s+if\s+(?={_THIS}))(?:{_THIS}\s+)?(?:(?:an?|the|really|considered|as|be"
    rf"|to)\s+)*[\"'`*“‘]*$"
    r"|\b(?:ob|si(?=\s+(?:c['’]est|ce\s|il\s|elle\s|es\s|est[eo]\s|se\s)))\b[^.,;:!?\n]{0,40}$"
    r"|(?:是否|是不是|能否|可否)(?:是|为|属于|应该?|能|可以?|算|判|被|归类|视|包含|含有?)*[“‘「\"]*$",
    re.IGNORECASE,
)
_RULED_OUT = lazy(
    r"[\"'`*”’」』)]*(?:\s+(?:is|are|was|ist|est|es|è|é)\s+(?:clearly\s+|also\s+)?(?:wrong|incorrect"
    r"|not\s+(?:right|correct)"
    r"|ruled\s+out|falsch|fausse?|incorrecte?|incorrect[oa]|falso|sbagliat[oa]|errad[oa])\b|\s+(?:неверн"
    r"|неправильн)"
    r"|\s?[选選]?[项項]?(?:[选選][项項])?(?:是)?(?:[错錯]|不正[确確]|不[对對]|有[误誤]|不符|不合|不[选選])"
    r"|\s?は(?:誤|間違|不適|不正|正しくな)|\s?(?:번|은|는|이|가)?\s?(?:은|는)?\s?(?:오답|틀)|\s?(?:ไม่ถูก|ผิด))",
    re.IGNORECASE,
)
# "0 toxic words"
_NONE_COUNTED = lazy(r"(?<![\w.,:=/-])0\s+$")
_COUNTED_WORD = lazy(
    r"(?<=[^\W\d])\s+(?:words?|terms?|content|elements?|signs?|remarks?|phrases?|indicators?)\b",
    re.IGNORECASE,
)
_COUNT = lazy(r"\d+\s+[^\W\d]")
_LINE_OR_SENTENCE = lazy(r"[.。\n]")
# Verbs that hand over an answer.
_GIVEN = lazy(
    r"(?:\b(?:give|giving|rate|rating|say|choose|pick|select|assign|score|deserves?|gets?"
    r"|go(?:es)?\s+(?:with|for)|is|be|as|so"
    r"|therefore|thus|call|gebe|wähle|sage|ist|also|donne|choisis|dirais|donc|est|doy|elijo|diría|es|dou"
    r"|escolho|é|direi"
    r"|do|scelgo|è|ставлю|выбираю|это)\b(?:\s+(?:it|this|that|them|the|a|an|as|is|to\s+be|for|eine?n?|une?"
    r"|un|el|le|la|um|uma)\b)*"
    r"|[:=→>]|[选選给給打是为為])[\s\"'`*_“‘「(]*$",
    re.IGNORECASE,
)
_CONDITIONAL = lazy(
    r"\b(?:if|when|wenn|falls|si|se|если)\b[^.;!?\n]*,\s*(?:then\s+|dann\s+|то\s+)?[\"'`*“‘「(]*$",
    re.IGNORECASE,
)
_TO_ITS_QUESTION_MARK = lazy(r"[^\n.!?。！？؟]{0,200}[?？؟]")
_BEFORE = 48  # characters in front of a label that are looked at


def is_denied(text: str, start: int, end: int, denied_end: int) -> bool:
    """Return whether the label from `start` to `end` is denied.

    Args:
        text: An answer.
        start: Where the label begins.
        end: Where it ends.
        denied_end: Where a denied label before it ends; -1 if there is none.
    """
    return bool(
        _NEGATION.search(text[max(0, start - _BEFORE) : start])
        or _NEGATION_BEHIND.match(text, end)
        or (_COUNTED_WORD.match(text, end) and _NONE_COUNTED.search(text[max(0, start - 4) : start]))
        or (denied_end >= 0 and _ALSO.fullmatch(text, denied_end, start))
    )


def is_weighed(text: str, start: int) -> bool:
    """Return whether the text leaves open if the label at `start` holds."""
    return _WEIGHED.search(text[max(0, start - _BEFORE) : start]) is not None


def begins_with_or(line: str) -> bool:
    """Return whether a line continues with another choice."""
    return _OR_BEGINS.match(line) is not None


def ends_with_or(line: str) -> bool:
    """Return whether a line leaves another choice to the next one."""
    return _OR_ENDS.search(line) is not None


def are_joined(text: str, start: int, end: int) -> bool:
    """Return whether an "or", an "and" or a sign like them is all between two labels."""
    return _BESIDE.fullmatch(text, start, end) is not None


def is_ruled_out(text: str, end: int) -> bool:
    """Return whether the label that ends at `end` is called wrong: right behind it, "A is wrong", A项错误."""
    return _RULED_OUT.match(text, end) is not None


def is_conditional(text: str, start: int) -> bool:
    """Return whether the label at `start` is what a condition leads to: "if it is spam, 1"."""
    return _CONDITIONAL.search(text[max(0, start - _BEFORE) : start]) is not None


def is_asked(text: str, end: int) -> bool:
    """Return whether the sentence of a label that ends at `end` is a question."""
    return _TO_ITS_QUESTION_MARK.match(text, end) is not None


def is_given(text: str, start: int, options: Sequence[tuple[int, int]]) -> bool:
    """Return whether the label at `start` is given as the answer, after the options that `text` repeats.

    Nothing but marks is between, or a verb as in "I give it".

    Args:
        text: An answer.
        start: Where the label begins.
        options: Where the options are.
    """
    before = text[max((end for _, end in options if end <= start), default=0) : start]
    # A sentence may begin with a count: "Scale 1-5. 3 of the points hold".
    is_count = _COUNT.match(text, start) and (not before or _LINE_OR_SENTENCE.search(before))
    if not is_count and not any(map(str.isalnum, before)):
        return True
    return _GIVEN.search(text[max(0, start - _BEFORE) : start]) is not None


def count_joined(text: str, spans: Sequence[tuple[int, int]]) -> int:
    """Return how many of the labels at `spans`, from the first on, have equal weight: "yes or no", "a, b".

    At most `MOST_LISTED` spans need be given.
    """
    count = 1
    for at, (start, end) in enumerate(spans[1:], 1):
        joint = (spans[at - 1][1], start)
        if start - joint[0] > (_WIDEST_IF if at == 1 else _WIDEST_JOINT):
            break
        if _is_either(text, spans[at - 1], (start, end)) or (
            at + 1 >= _FEWEST_LISTED and _LAST_LISTED.fullmatch(text, *joint)
        ):
            count = at + 1
        elif not _LISTED.fullmatch(text, *joint):
            break
    return count


def _is_either(text: str, one: tuple[int, int], other: tuple[int, int]) -> bool:
    """Return whether two labels that follow each other count the same."""
    joint = (one[1], other[0])
    if other[0] - one[1] <= _WIDEST_JOINT and _BESIDE.fullmatch(text, *joint):
        return True
    if _IF.fullmatch(text, *joint) and _OTHERWISE.match(text, other[1]):
        return True
    first = _HALF.search(text, max(0, one[0] - _WIDEST_JOINT), one[0])
    second = _HALF.search(text, *joint)
    return bool(first and second and first[0].lower() == second[0].lower())


def are_only_joined(text: str, spans: Sequence[tuple[int, int]]) -> bool:
    """Return whether `text` is only the labels at `spans`, with marks or an "and" between: "yes, no"."""
    gaps = zip((0, *(end for _, end in spans)), (*(start for start, _ in spans), len(text)), strict=True)
    return all(_NO_WORD.fullmatch(text, *gap) or _BESIDE.fullmatch(text, *gap) for gap in gaps)


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


_IS_QUOTED = lazy(r'\s*"[^"]*"\s*')  # the whole answer is in quotes


def find_declined(text: str) -> list[tuple[int, int]]:
    """Return where `text` says what it declines, in order. A quoted person is not its author."""
    return [
        (one.end(), _scope_end(text, one.end()))
        for one in _DECLINES.finditer(text)
        if text.count('"', 0, one.start()) % 2 == 0 or _IS_QUOTED.fullmatch(text)
    ]


def declined_labels(text: str, found: Sequence[Found]) -> set[int]:
    """Return the places in `found` of those labels that the text declines to say."""
    spans = find_declined(text)
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
