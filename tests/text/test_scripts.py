"""What a word is, in scripts with marks and in scripts without spaces; one estimate of tokens."""

from __future__ import annotations

import re
import unicodedata

import pytest

from autoprompt.llm.adapter import ScriptedClient
from autoprompt.llm.client import Options
from autoprompt.llm.transport.wire import read_answer
from autoprompt.records import Message
from autoprompt.text.scripts import MARKS, NAME, estimate_tokens, is_unparted, runs, signs


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("don't stop_it, C3PO!", ["don't", "stop", "it", "C3PO"]),
        ("हिन्दी में यह सही है।", ["हिन्दी", "में", "यह", "सही", "है"]),
        ("தமிழ் மொழி", ["தமிழ்", "மொழி"]),
        ("مُحَمَّد می\u200cشود", ["مُحَمَّد", "می\u200cشود"]),
        ("cafe\u0301 noir", ["cafe\u0301", "noir"]),
        ("他说：你好3个", ["他说", "你好", "3", "个"]),
        ("ภาษาไทยดี 12", ["ภาษาไทยดี", "12"]),
        ("", []),
    ],
)
def test_words_stay_whole(text: str, expected: list[str]) -> None:
    assert list(runs(text)) == expected


def test_a_sign_has_its_marks() -> None:
    assert signs("ไทยดี") == ["ไท", "ย", "ดี"]
    assert signs("ตั๋วราคาไม่ได้") == ["ตั๋", "ว", "รา", "คา", "ไม่", "ได้"]
    assert signs("ນ້ຳແລະ") == ["ນ້ຳ", "ແລະ"]
    assert signs("เ") == ["เ"]
    assert signs("标题党") == ["标", "题", "党"]
    assert is_unparted("ดี")
    assert not is_unparted("है")


def test_marks_hold_the_living_scripts_and_no_punctuation() -> None:
    is_mark = re.compile(f"[{MARKS}]")
    blocks = [range(0x300, 0x370), range(0x591, 0x700), range(0x900, 0xE00), range(0xE00, 0xF00)]
    for code in (code for block in blocks for code in block):
        category = unicodedata.category(chr(code))
        if category[0] == "M":
            assert is_mark.match(chr(code)), hex(code)
        if category[0] in "PZ":
            assert not is_mark.match(chr(code)), hex(code)


@pytest.mark.parametrize("name", ["headline", "शीर्षक", "标题", "_x1"])
def test_a_name_is_whole(name: str) -> None:
    assert re.fullmatch(NAME, name)
    assert name.isidentifier()


ASK = [Message("system", "标题党?"), Message("user", "abcd")]


def test_four_letters_or_one_sign_are_a_token() -> None:
    assert estimate_tokens("") == 0
    assert estimate_tokens("abcde") == 2
    assert estimate_tokens("标题党, ok") == 3 + 1
    assert estimate_tokens([Message("user", "abcd"), Message("user", "")]) == 9


def test_who_has_no_count_estimates_alike() -> None:
    data = {"choices": [{"message": {"content": "标题党"}}]}
    uncounted = read_answer(data, ASK, Options(), 0.0).usage
    scripted = ScriptedClient(["标题党"]).complete(ASK).usage
    assert uncounted == scripted
    assert (uncounted.prompt_tokens, uncounted.completion_tokens) == (estimate_tokens(ASK), 3)
