"""What an answer comes to: behind "Answer:", or of several labels the one behind "Overall:" or an arrow.

Words of the languages that models answer in most. If none of them is there, no label is concluded.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from autoprompt.text.answers.denials import is_given
from autoprompt.text.answers.label_index import Found
from autoprompt.text.scripts import lazy

MARKER = re.compile(
    r"(?:(?:answer|label|category|class|classification|output|result|prediction|verdict|conclusion|choice|pick"
    r"|Antwort|Ergebnis|réponse|résultat|respuesta|resultado|resposta|risposta|risultato|ответ|результат|cevap|sonuç"
    r"|उत्तर|الجواب|الإجابة"
    r"|答案|类别|类型|分类|标签|结果|结论|输出|预测|回答|判断|正解|答え|解答|ラベル|정답|답변?|라벨|คำตอบ)"
    r"[\"'`*\])]*\s*(?:[:=]|(?:\b(?:is|ist|lautet|est|es|é|è|है)\b"
    r"|是(?!否[^\W定的])|为|為|は|은|는|คือ)(?:\s*[:=])?)"  # 判断是否为 asks
    r"|(?:故|应|應|因此|所以|我)[选選](?:[择擇]|的是)?(?![项項择擇]))",
    re.IGNORECASE,
)
# Results and outputs head passages that hold no answer, too.
_OF_A_PASSAGE = lazy(r"output|result|conclusion|结果|结论|输出", re.IGNORECASE)
_BEFORE_HEADING = 30  # characters of its line or sentence: "The final classification label:"
_NO_HEADING = lazy(r"[,;:=、]|(?:\S+\s+){4}")
_LINE_OR_SENTENCE = lazy(r"[\n.!?。]")
_ONLY_MARKS = lazy(r"[\s*_`\"'#>-]*|\s*```\w*")
# An answer that says "Answer:" a thousand times must not cost a quadratic search.
_MARKERS, _MARKED = 20, 500  # markers looked at, characters behind each


def last_markers(text: str) -> list[re.Match[str]]:
    """Return where `text` says "the answer is", "label:" or the like, in order."""
    return list(MARKER.finditer(text))[-_MARKERS:]


def last_headings(text: str) -> list[re.Match[str]]:
    """Return those of the markers that a line or a sentence begins with, in order."""
    return [marker for marker in MARKER.finditer(text) if _is_heading(marker)][-_MARKERS:]


def _is_heading(marker: re.Match[str]) -> bool:
    """Return whether a line or a sentence begins with it, as "Final answer:", and not in "the answer is"."""
    if marker[0][-1] not in ":=":
        return False
    before = marker.string[max(0, marker.start() - _BEFORE_HEADING) : marker.start()]
    parts = _LINE_OR_SENTENCE.split(before)
    is_begun = len(parts) > 1 or marker.start() <= _BEFORE_HEADING
    return is_begun and not _NO_HEADING.search(parts[-1])


def is_of_passage(heading: re.Match[str]) -> bool:
    """Return whether a heading is one of a passage ("Result:"), which may hold no answer."""
    return _OF_A_PASSAGE.match(heading[0]) is not None


def lines_behind(marker: re.Match[str]) -> list[str]:
    """Return the lines after a marker."""
    return marker.string[marker.end() : marker.end() + _MARKED].strip().split("\n")


def line_behind(marker: re.Match[str]) -> str:
    """Return the first line after a marker that says something.

    `**Answer:**` may be on a line of its own.
    """
    lines = lines_behind(marker)
    return next((line for line in lines if not _ONLY_MARKS.fullmatch(line)), lines[0])


_SENTENCE_END = lazy(r"[.!?…](?=\s)|[。！？\n;；]")
_OPENED, _CLOSED = r"[\s\"'`*_“‘「『(\[]*", r"[\"'`*_”’」』)\]]*"
# What is concluded stands right behind a sign, or in the same sentence behind one of these words.
_SIGN = lazy(rf"(?:->|→|⇒|=>|>>>|⟹){_OPENED}\Z")
_COLON = lazy(rf"[:=：]{_OPENED}\Z")
_ENDS = lazy(rf"{_CLOSED}\s*(?:[.!。！]*{_CLOSED}\s*(?:\n|\Z)|[(（])")
_CONCLUDES = (
    r"(?:\b(?:overall|therefore|thus|hence|consequently|ultimately|altogether|accordingly"
    r"|in\s+(?:the\s+end|conclusion"
    r"|summary|total|short|sum)|on\s+(?:the\s+whole|balance)|all\s+in\s+all|as\s+a\s+whole"
    r"|insgesamt|daher|deshalb|somit|folglich|letztlich|letztendlich|unterm\s+strich|im\s+ganzen"
    r"|globalement|donc|finalement|au\s+total|par\s+conséquent|dans\s+l['’]ensemble|en\s+(?:somme|conclusion)"
    r"|en\s+(?:general|conjunto|resumen|definitiva)|por\s+(?:lo\s+)?tanto|por\s+eso|así\s+que|en\s+conclusión"
    r"|no\s+(?:geral|conjunto|todo)|portanto|por\s+isso|em\s+(?:suma|resumo|geral)"
    r"|nel\s+complesso|quindi|dunque|perciò|pertanto|in\s+(?:definitiva|generale)"
    r"|в\s+целом|поэтому|следовательно|итак|таким\s+образом|значит"
    r"|ogólnie|dlatego|genel\s+olarak|sonuç\s+olarak|bu\s+yüzden|dolayısıyla|bu\s+nedenle"
    r"|al\s+met\s+al|dus|over\s+het\s+geheel)\b|(?:\A|[,;.–—-])\s*(?:and\s+)?so\b(?!\s+far)"
    r"|总体|總體|整体|整體|总的来说|總的來說|综上|綜上|因此|所以|最终|最終|全体として|総合|したがって|よって|ゆえに"
    r"|전반적|전체적|따라서|그러므로|결론적|بشكل\s+عام|لذلك|إجمال|कुल\s+मिलाकर|इसलिए|โดยรวม|ดังนั้น)"
)
_CONCLUDED = lazy(_CONCLUDES, re.IGNORECASE)
_CONCLUDED_BEHIND = lazy(
    rf"{_CLOSED},?\s+(?:overall|on\s+(?:the\s+whole|balance)|in\s+the\s+end|all\s+in\s+all|as\s+a\s+whole"
    rf"|insgesamt"
    r"|globalement|dans\s+l['’]ensemble|en\s+general|no\s+geral|nel\s+complesso|в\s+целом)\b",
    re.IGNORECASE,
)
_CONTRASTS = (
    r"(?:\b(?:but|however|yet|still|nevertheless|nonetheless|aber|jedoch|sondern|dennoch|trotzdem|mais"
    r"|cependant|toutefois"
    r"|pourtant|pero|sino|sin\s+embargo|mas|porém|contudo|todavia|ma|però|tuttavia|но|однако|ale|jednak"
    r"|ama|fakat|ancak|maar)\b"
    r"|但|然而|不过|不過|しかし|だが|けれど|が、|하지만|그러나|지만|لكن|ولكن|लेकिन|परन्तु|แต่)"
)
_CONTRAST = lazy(_CONTRASTS, re.IGNORECASE)
# What is granted: up to the next comma, or to the word that sets the other thing against it.
_CONCEDES = (
    r"(?:\b(?:although|though|even\s+if|while|whilst|whereas|despite|in\s+spite\s+of|notwithstanding"
    r"|considering|at\s+first"
    r"|initially|obwohl|obgleich|zwar|trotz|während|anfangs|zunächst|bien\s+que|quoique|malgré|certes"
    r"|au\s+début"
    r"|d['’]abord|si\s+bien|aunque|a\s+pesar|pese\s+a|si\s+bien|al\s+principio|embora|apesar|ainda\s+que"
    r"|no\s+início"
    r"|sebbene|benché|anche\s+se|nonostante|all['’]inizio|хотя|несмотря|сначала|chociaż|mimo|hoewel"
    r"|ondanks)\b"
    r"|最初|原以为|本以为|虽然|雖然|尽管|儘管|虽说|起初|一开始|비록|رغم|على\s+الرغم|यद्यपि|हालाँकि|हालांकि|แม้)"
)
_CONCEDED = lazy(rf"{_CONCEDES}[^,，、:：.。;；\n]*\Z", re.IGNORECASE)
# "more negative than positive"
_COMPARED = lazy(
    r"\b(?:(?:more|rather|closer|over)\b.*\bthan|(?:mehr|eher)\b.*\bals|(?:plus|plutôt)\b.*\bque|más\b.*\bque"
    rf"|mais\b.*\bdo\s+que|più\b.*\bche|скорее\b.*,\s*чем)\s+(?:an?\s+|the\s+)?{_OPENED}\Z",
    re.IGNORECASE,
)
# The same said behind a label, or of a part only.
_CONCEDED_BEHIND = lazy(
    r"[^,，.。;；:\n]{0,40}?(?:\b(?:at\s+first|initially|on\s+the\s+surface|at\s+the\s+beginning|am\s+anfang"
    r"|au\s+début"
    r"|al\s+principio|no\s+início|all['’]inizio|сначала)\b|(?:面|部分|内容|内容)?もあるが|지만)",
    re.IGNORECASE,
)
_PARTLY = lazy(
    r"\b(?:at\s+first\s+glance|first|starts?|started|begins?|began|beginnt|empieza|commence|começa|inizia"
    r"|mistaken\s+for"
    r"|mentions?|mentioned|partly|partially|seems?|looks?|appears?|may\s+(?:seem|look)|anfangs|teilweise"
    r"|teils|beginnt"
    r"|en\s+partie|parcialmente|in\s+parte|частично|начинается)\b[^,.;:\n]{0,30}\Z"
    r"|(?:有些|有一些|部分|乍看|看似|开头|开始)[^，。；\n]{0,12}\Z",
    re.IGNORECASE,
)
_MAYBE = lazy(
    r"\b(?:could|might|may|would|can|also|some|someone|others?|few|bits?|parts?|slightly|little"
    r"|occasional\w*|könnte|würde"
    r"|auch|einige|etwas|manche|pourrait|aussi|quelques|certains|podría|también|algun[oa]s|poderia|também"
    r"|alguns|algumas"
    r"|potrebbe|anche|alcun[ei]|может|также|некоторые|except|only)\b|也|可能|一些|有点|も|かもしれ",
    re.IGNORECASE,
)
_NAMED = lazy(
    r"\b(?:(?:mostly|mainly|largely|predominantly|primarily|überwiegend|hauptsächlich|principalement"
    r"|surtout|principalmente)"
    r"|lean(?:s|ing)?(?:\s+towards?)?|(?:routed?|go(?:es)?|send|sent|assign(?:ed)?|forward(?:ed)?"
    r"|belongs?)\s+(?:\w+\s+)?to"
    r"|answer|option|choice|label|class|category|letter|verdict|choose|pick|select|gives?|rat(?:e|ed|ing|es)"
    rf"|Antwort|Option|réponse|respuesta|opción|resposta|risposta|ответ|вариант)(?:['’]s)?{_OPENED}\Z"
    rf"|(?:[选選]项?|答案){_OPENED}\Z",
    re.IGNORECASE,
)
_BOLD = lazy(r"(\*\*|__)([^*_\n]{1,80})\1")
# "Sentiment: negative", alone on its line.
_LINE = lazy(r"^[\s>#*_`•-]*((?:[^\s:：=]+\s+){0,4}[^\s:：=]+?)[*_`\"']*\s*[:：=]\s*(.+?)\s*$", re.MULTILINE)
_BESIDE = lazy(
    r"alternativ|opposite|runner|second|other|\bnot\b|reject|previous|input|text|title|example|evidence"
    r"|reason|quote|前|反",
    re.IGNORECASE,
)
_CORRECTS = lazy(
    r"(?:(?:\A|[.!?…\n—–-])\s*(?:(?:no|oh|hmm+),?\s*)?(?:but\s+)?(?:wait|correction|actually,"
    r"|scratch\s+that|on\s+second\s+thoughts?"
    r"|let\s+me\s+(?:correct|reconsider|rethink|revise)|I\s+(?:made\s+a\s+mistake|was\s+wrong|misread)"
    r"|my\s+mistake|oops|sorry,"
    r"|Korrektur|Moment|Halt|doch\s+nicht|je\s+me\s+(?:corrige|trompe)|pardon|corrección|me\s+corrijo"
    r"|perdón|correção|correzione"
    r"|исправл\w+|поправк\w+|стоп)\b"
    # "ham, no wait, spam", and "A. No, B": what follows is all of an answer
    r"|,\s*(?:no,?\s+)?(?:wait|scratch\s+that)\b"
    r"|(?:[.!?…,\n—–-]\s*)(?:(?:hmm+|oh|uh|er)[,.…]*\s*)?(?:no|sorry|actually)[,.:]\s*(?=(?:(?:it['’]?s"
    r"|it\s+is|that['’]?s)\s+)?"
    r"(?:[^\s.,;!?]+\s){0,3}[^\s.,;!?]+\W*\Z)"
    r"|更正|等等|等一下|不对，|訂正|待って|정정|잠깐|تصحيح)",
    re.IGNORECASE,
)
_SHARE = r"(?:(?=\d{1,3}(?:\.\d+)?\s?%)|(?=[01]?\.\d))(\d*\.?\d+)\s?%?"
_SHARE_BEHIND = lazy(rf"{_CLOSED}\s*(?:[:=(|–—-]|->|→)?\s*[*`]*{_SHARE}")
_SHARE_BEFORE = lazy(rf"(?<![\d.]){_SHARE}\s*{_OPENED}\Z")
_MOST_SHARES = 200
_DIGITS = lazy(r"\d+")
_MOST_BEFORE = 160  # characters of a sentence in front of a label that are looked at
_MOST_LINES = 50


def text_after_correction(text: str) -> str | None:
    """Return the text after the last word by which `text` corrects itself; None if it does not."""
    words = list(_CORRECTS.finditer(text))
    return text[words[-1].end() :] if words and words[-1].start() else None


def label_of_lines(text: str, exact: Callable[[str], str | None]) -> str | None:
    """Return the label of the last line that is nothing but a short heading and a whole label.

    If lines have headings that are the same but for a number ("Q1: yes", "Q2: no"), none of them counts more.
    """
    heads: dict[str, str] = {}
    last = None
    for line in list(_LINE.finditer(text))[-_MOST_LINES:]:
        label = exact(line[2])
        if label is None or _BESIDE.search(line[1]):
            continue
        last = _DIGITS.sub("", line[1]).strip().lower()
        if last != line[1].strip().lower() and heads.get(last, label) != label:
            return None
        heads[last] = label
    return heads[last] if last is not None else None


def conclude(text: str, said: Sequence[Found]) -> str | None:
    """Return the label that `text` concludes with, of several that it names and does not deny.

    Labels that it concedes ("although partly positive") are passed over. Then the first of these that is
    there counts: the only label that is concluded, by a word or a sign; the only bold one; the first, if it
    is given as the answer and no other is set against it; the only one that is given as the answer.
    """
    if (likeliest := _likeliest(text, said)) is not None:
        return likeliest
    left = [word for word in said if not _is_granted(text, word)] or list(said)
    for is_it in (_is_concluded, _is_pointed_at):
        found = [word for at, word in enumerate(left) if is_it(text, left, at)]
        if found:
            last = found[-1]
            is_sure = is_it is _is_concluded or len({word.label for word in found}) == 1
            return last.label if is_sure else None
    if len({word.label for word in left}) == 1:
        return left[0].label
    bold = [mark.span(2) for mark in _BOLD.finditer(text)]
    marked = {word.label for word in left if any(a <= word.start and word.end <= b for a, b in bold)}
    if len(marked) == 1:
        return marked.pop()
    given = [word for word in left if _is_handed_over(text, word)]
    if given[:1] != left[:1]:
        return given[0].label if len({word.label for word in given}) == 1 else None
    is_against = any(_is_set_against(text, left, at) for at in range(1, len(left)))
    return None if is_against else left[0].label


def _likeliest(text: str, said: Sequence[Found]) -> str | None:
    """Return the label with the largest share, if each has one on the same side: "60% drama, 40% comedy"."""
    if len(said) > _MOST_SHARES or any(map(str.isdigit, "".join(word.label for word in said))):
        return None
    for shares in (
        [_SHARE_BEHIND.match(text, word.end) for word in said],
        [_SHARE_BEFORE.search(text[max(0, word.start - 12) : word.start]) for word in said],
    ):
        values = [float(share[1]) for share in shares if share]
        if len(values) == len(said) and values.count(max(values)) == 1:
            return said[values.index(max(values))].label
    return None


def _before(text: str, start: int, begin: int) -> str:
    """Return what is in front of a label in its sentence, from `begin` on."""
    before = text[max(begin, start - _MOST_BEFORE) : start]
    ends = list(_SENTENCE_END.finditer(before))
    return before[ends[-1].end() :] if ends else before


def _is_granted(text: str, word: Found) -> bool:
    before = _before(text, word.start, 0)
    if _COMPARED.search(before):
        return True
    if (conceded := _CONCEDED.search(before)) is not None:
        return _CONTRAST.search(conceded[0]) is None
    return not _CONCLUDED.search(before) and _CONCEDED_BEHIND.match(text, word.end) is not None


def _is_concluded(text: str, words: Sequence[Found], at: int) -> bool:
    """Return whether a word that concludes is in front of it, or right behind."""
    word = words[at]
    begin = words[at - 1].end if at else 0
    behind_other = _CONCLUDED_BEHIND.match(text, begin) if at else None
    before = _before(text, word.start, behind_other.end() if behind_other else begin)
    concludes = list(_CONCLUDED.finditer(before))
    if concludes:
        return _MAYBE.search(before, concludes[-1].end()) is None
    return _CONCLUDED_BEHIND.match(text, word.end) is not None


def _is_pointed_at(text: str, words: Sequence[Found], at: int) -> bool:
    """Return whether an arrow is right in front of it, or a colon, and the line or the text ends there."""
    word = words[at]
    before = text[max(0, word.start - 12) : word.start]
    return bool(_SIGN.search(before) or (_COLON.search(before) and _ENDS.match(text, word.end)))


def _is_handed_over(text: str, word: Found) -> bool:
    if _PARTLY.search(_before(text, word.start, 0)):
        return False
    before = text[max(0, word.start - 24) : word.start]
    if not any(map(str.isalnum, text[: word.start])):
        return True
    return is_given(text, word.start, ()) or _NAMED.search(before) is not None


def _is_set_against(text: str, words: Sequence[Found], at: int) -> bool:
    """Return whether a "but" is between a label and the one before it, and the label is handed over."""
    word, before = words[at], text[words[at - 1].end : words[at].start][-_MOST_BEFORE:]
    contrast = _CONTRAST.search(before)
    is_sure = contrast is not None and not _MAYBE.search(before, contrast.end())
    return word.label != words[0].label and is_sure and _is_handed_over(text, word)
