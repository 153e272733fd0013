"""Which of several labels an answer comes to, and that none is read where it does not say."""

from __future__ import annotations

import pytest
from waiting import within

from autoprompt.text.answers.labels import read_label

TONES = ("positive", "negative", "neutral")
QUEUES = ("billing", "tech", "sales")
LETTERS = ("A", "B", "C", "D")
MAIL = ("spam", "ham")
YES_NO = ("yes", "no")
GERMAN, FRENCH, SPANISH = ("positiv", "negativ"), ("positif", "négatif"), ("positivo", "negativo")
RUSSIAN, CHINESE, JAPANESE = ("позитивный", "негативный"), ("正面", "负面"), ("肯定的", "否定的")
KOREAN = ("긍정적", "부정적")


@pytest.mark.parametrize(
    ("text", "labels", "label"),
    [
        # A line of its own: the last, and none of lines that differ in their number alone.
        ("Tone: positive\nSentiment: negative", TONES, "negative"),
        ("Pros: positive staff\nCons: negative smell\nOverall: neutral", TONES, "neutral"),
        ("Customer: billing team\n**Department:** sales", QUEUES, "sales"),
        ("理由：正面内容较少\n情感：负面", CHINESE, "负面"),
        ("Q1: yes\nQ2: no\nOverall: no", YES_NO, "no"),
        ("Q1: yes\nQ2: no", YES_NO, None),
        ("Sentiment: positive\nAlternative: negative", TONES, "positive"),
        # A word or a sign that concludes.
        ("It starts positive. Overall: negative", TONES, "negative"),
        ("It looks positive at first, but the overall sentiment is negative.", TONES, "negative"),
        ("The negative words are ironic, so it is positive", TONES, "positive"),
        ("The review is positive overall, but the ending is negative.", TONES, "positive"),
        ("The page for billing does not load -> tech", QUEUES, "tech"),
        ("The billing page is down. Route to: tech", QUEUES, "tech"),
        ("Plan B failed; so the answer's C", LETTERS, "C"),
        ("1 star for service, 5 stars for food. Overall 3 stars.", ("1", "2", "3", "4", "5"), "3"),
        ("Das ist ja klar: nein", ("ja", "nein"), "nein"),
        ("C'est positif au début mais globalement négatif.", FRENCH, "négatif"),
        ("Começa positivo, mas no geral é negativo", SPANISH, "negativo"),
        ("Все начинается как позитивный отзыв, однако в целом он негативный", RUSSIAN, "негативный"),
        ("虽然有正面的内容，但总体是负面", CHINESE, "负面"),
        ("肯定的な部分もあるが、全体としては否定的", JAPANESE, "否定的"),
        ("전반적으로 부정적이지만 긍정적인 부분도 있다", KOREAN, "부정적"),
        # What is granted does not count.
        ("Although partly positive, the review is negative.", TONES, "negative"),
        ("Despite being negative about the price, the reviewer is positive", TONES, "positive"),
        ("At first glance it looks like spam. However, it's ham.", MAIL, "ham"),
        ("No, although yes is tempting", YES_NO, "no"),
        ("Es ist zwar positiv formuliert, aber negativ gemeint.", GERMAN, "negativ"),
        ("Der Text ist insgesamt negativ, auch wenn er positiv beginnt.", GERMAN, "negativ"),
        ("Malgré un début positif, l'avis est négatif.", FRENCH, "négatif"),
        ("Aunque empieza positivo, es negativo.", SPANISH, "negativo"),
        ("El texto es negativo, aunque tiene algo positivo", SPANISH, "negativo"),
        ("Хотя есть позитивный момент, отзыв негативный", RUSSIAN, "негативный"),
        ("这条评论是正面的，尽管有负面的词", CHINESE, "正面"),
        ("This is more negative than positive.", TONES, "negative"),
        ("positive rather than negative", TONES, "positive"),
        # The only bold one, the only one that is handed over.
        ("It looks like spam but is **ham**", MAIL, "ham"),
        ("**ham** (spam would need links)", MAIL, "ham"),
        ("It mentions tech and billing. I'd pick sales.", QUEUES, "sales"),
        ("Vitamin C is in option D", LETTERS, "D"),
        # It corrects itself.
        ("Answer: A. Correction: the answer is B.", LETTERS, "B"),
        ("A seems right. Wait, no: C.", LETTERS, "C"),
        ("Antwort: A. Korrektur: B", LETTERS, "B"),
        ("答案：A。更正：B", LETTERS, "B"),
        ("It actually reads positive, with no negative word", TONES, "positive"),
        # Shares.
        ("spam 2%, ham 98%", MAIL, "ham"),
        ("P(spam)=0.02, P(ham)=0.98", MAIL, "ham"),
        ("60% ham, 40% spam", MAIL, "ham"),
        # The first, where nothing is set against it.
        ("It is positive, but has some negative parts.", TONES, "positive"),
        ("Positive: the negative words are ironic.", TONES, "positive"),
        ("The review is positive. There are a few negative remarks, however.", TONES, "positive"),
        ("Route to billing; tech cannot help here.", QUEUES, "billing"),
        ("tech (the customer mentions billing, but only in passing)", QUEUES, "tech"),
        ("The mail is ham. Spam would contain links.", MAIL, "ham"),
        ("C. Option D is close.", LETTERS, "C"),
        ("这条评论是正面的，因为负面的词很少", CHINESE, "正面"),
        ("全体として肯定的だが、否定的な部分もある", JAPANESE, "肯定的"),
        # Nothing tells.
        ("The tone is positive, but the message is negative.", TONES, None),
        ("L'avis est positif mais le ton est négatif", FRENCH, None),
        ("The author moves from positive to negative", TONES, None),
    ],
)
def test_the_label_that_is_concluded_counts(text: str, labels: tuple[str, ...], label: str | None) -> None:
    assert read_label(text, labels) == label
    assert read_label(text, labels[::-1]) == label


def test_long_answers_are_concluded_in_time() -> None:
    for part in (
        "positive and so negative ",
        "although positive, ",
        "Wait, ",
        "a: positive\n",
        "but negative. ",
    ):
        with within(4):
            read_label(part * 2_000, TONES)
