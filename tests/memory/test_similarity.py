import itertools

import pytest

from autoprompt.memory import SAME_KIND, task_similarity

# Tasks in the words that different people might use. The boilerplate list and the threshold were chosen on
# these ...
SEEN = {
    "clickbait": [
        "Decide whether a news headline is clickbait. Answer 1 for clickbait, 0 for news.",
        "Clickbait detection in headlines of a news site",
        "Is the following headline clickbait? Reply with 0 or 1 only.",
        "clickbait headlines: 1 = clickbait, 0 = regular news",
        "You are a text classification expert. Predict from the headline whether the news item is clickbait. "
        "Input: a news headline. Output: 0 or 1 (only the number)",
    ],
    "clickbait_zh": [
        "你是一个文本分类专家。你的任务是根据新闻标题headline预测其类别是否为标题党。"
        "输入：一个新闻标题 输出：0 或 1（只返回数字，不要包含其他文字, 1 为标题党）",
        "判断新闻标题是否为标题党，是输出1，否输出0",
        "标题党识别",
        "下面的标题是标题党吗？只回答0或1",
    ],
    "spam": [
        "Classify the SMS message as spam or ham. Answer with spam or ham only.",
        "SMS spam filter",
        "Is this text message spam? Reply spam or ham.",
    ],
    "subj": [
        "Is the sentence subjective or objective? Answer subjective or objective.",
        "Classify each sentence of a movie review as subjective or objective",
        "subjectivity of sentences",
    ],
    "trec": [
        "Classify the question by the type of its answer: abbreviation, entity, person, location, number.",
        "Question type classification (TREC): what kind of answer does the question ask for",
    ],
    "banking": [
        "Classify the customer's question to a bank into one of ten intents.",
        "Intent detection for banking customer service questions",
        "Which banking intent does the customer message have?",
    ],
    "sentiment": [
        "Classify the sentiment of the tweet as positive, negative or neutral. Reply with the label only.",
        "Sentiment of tweets: positive, negative, neutral",
        "Decide whether a movie review is positive or negative. Answer 1 for positive, 0 for negative.",
    ],
    "sentiment_zh": [
        "判断以下商品评论的情感倾向，正面输出1，负面输出0",
        "商品评论情感分类",
        "你是一个文本分类专家。请判断评论的情感是正面还是负面。只返回数字0或1",
    ],
    "math": [
        "Solve the grade school math word problem. End with the final number.",
        "Math word problems: give the final numeric answer",
        "Answer the math problem step by step and give the number",
    ],
    "math_zh": ["解答小学数学应用题，只输出最后的数字", "小学数学应用题求解"],
    "extract": [
        "Extract all person names from the text as a JSON list.",
        "Find the names of persons in a text and return JSON",
    ],
    "navigate": [
        "If you follow these instructions, do you return to the starting point? Answer Yes or No.",
        "Navigation instructions: does one return to the starting point?",
    ],
    "snarks": [
        "Which of the two statements is sarcastic? Answer (A) or (B).",
        "Choose the sarcastic statement of two",
    ],
    "tableqa": ["Answer the question about the table.", "Table question answering: give the cell value only"],
    "toxic": [
        "Decide whether a comment is toxic. Answer 1 for toxic, 0 for not toxic.",
        "Toxic comment detection",
    ],
    "topic": [
        "Classify the news article into world, sports, business or technology. Reply with the label only.",
        "Topic of a news article: world, sports, business, sci/tech",
    ],
    "topic_zh": ["将新闻标题分类为财经、体育、娱乐、科技之一，只输出类别", "新闻标题主题分类"],
    "summ": ["Summarize the article in one sentence.", "One-sentence summaries of news articles"],
    "animal": ["Which of the two animals is larger? Answer with its name.", "larger animal of two"],
}
# ... and checked on these.
UNSEEN = {
    "emotion": [
        "What emotion does the author of this tweet feel: joy, anger, fear, sadness, love or surprise?",
        "Emotion of tweets (joy, anger, fear, sadness, love, surprise)",
        "Label each tweet with one of six emotions.",
    ],
    "hate": ["Does the post contain hate speech? yes/no", "Hate speech in social media posts"],
    "lid": [
        "Name the language of the sentence with its ISO code.",
        "language identification of sentences, ISO 639-1 code",
    ],
    "ner": [
        "List every company mentioned in the press release, one per line.",
        "Company names in press releases",
    ],
    "nli": [
        "Does the premise entail the hypothesis? entailment, neutral or contradiction",
        "Natural language inference: premise and hypothesis -> entailment / neutral / contradiction",
    ],
    "sqltext": ["Write the SQL query that answers the question for the given schema.", "text to SQL"],
    "urgent": [
        "Rate how urgent a support ticket is: low, medium, high.",
        "Urgency of support tickets (low, medium, high)",
        "You triage support tickets. Give the urgency.",
    ],
    "fake": ["Is the news story fake or real?", "Fake news detection"],
    "grammar": ["Correct the grammar of the sentence.", "Grammar correction"],
    "zh_fake": ["判断这条新闻是真新闻还是假新闻", "虚假新闻检测"],
    "zh_rude": ["判断评论是否包含辱骂内容，是回复1，否则回复0", "辱骂评论检测"],
    "zh_intent": ["识别用户对智能客服说的话的意图", "客服对话意图分类"],
    "zh_title": ["给这篇文章写一个标题", "为文章拟一个不超过20字的标题"],
    "ja": ["次のレビューが肯定的か否定的かを判定してください", "レビューの感情分析（肯定・否定）"],
    "resume": ["Does the CV match the job advert? Answer 1 or 0.", "Match CVs with job adverts"],
    "medical": [
        "From the patient's description, give the most likely department of the hospital.",
        "Hospital department for a patient's complaint",
    ],
}


def shares(tasks: dict[str, list[str]]) -> tuple[float, float]:
    """Share of pairs joined: of those that describe one task, of those that describe two."""
    pairs = list(itertools.combinations([(name, text) for name, texts in tasks.items() for text in texts], 2))
    # The clickbait task stands there in two languages: joining these would be right, and is not promised.
    pairs = [(a, b) for a, b in pairs if {a[0], b[0]} != {"clickbait", "clickbait_zh"}]
    joined = [(a[0] == b[0], task_similarity(a[1], b[1]) >= SAME_KIND) for a, b in pairs]
    one, two = (
        [is_joined for is_one, is_joined in joined if is_one],
        [j for is_one, j in joined if not is_one],
    )
    return sum(one) / len(one), sum(two) / len(two)


def test_descriptions_of_one_task_are_joined_and_others_are_not() -> None:
    recall, false = shares(SEEN)
    assert recall >= 0.95
    assert false <= 0.005


def test_the_same_on_tasks_that_it_was_not_tuned_on() -> None:
    recall, false = shares(UNSEEN)
    assert recall >= 0.79
    assert false == 0


@pytest.mark.parametrize("text", ["Classify the text.", "标题党", "", "a"])
def test_a_text_is_like_itself(text: str) -> None:
    assert task_similarity(text, f" {text.upper()} ") == 1.0


def test_prompts_that_share_nothing_but_boilerplate_are_unlike() -> None:
    assert (
        task_similarity("Answer the question with 1 or 0 only.", "Classify the text. Reply with yes or no.")
        == 0.0
    )


def test_it_is_symmetric_and_not_above_one() -> None:
    for a, b in itertools.combinations([text for texts in UNSEEN.values() for text in texts], 2):
        assert task_similarity(a, b) == pytest.approx(task_similarity(b, a))
        assert 0.0 <= task_similarity(a, b) <= 1.0
