"""How many tokens a text has, by its length: one estimate for caps, plans, rates and scripted models."""

from __future__ import annotations

import re
from collections.abc import Sequence

from autoprompt.types import Message

# Inside a character class: scripts that are written without spaces (CJK, kana, hangul).
UNSPACED = r"\u2e80-\u9fff\uac00-\ud7af\uf900-\ufaff"
_WIDE = re.compile(rf"[{UNSPACED}\uff00-\uffef]")


def estimate_tokens(content: str | Sequence[Message]) -> int:
    """About how many tokens a text or a request has: an estimate for caps and plans, never for billing.

    Four characters a token, one for each CJK sign, four more for each message; no tokenizer is asked. Against
    SmolLM2's on the inputs of 11 English sets: 20% too low (text messages) to 14% too high. Its vocabulary is
    English, and Chinese took it half as many again; other models' tokenizers were not measured.
    """
    if not isinstance(content, str):
        return sum(estimate_tokens(message.content) + 4 for message in content)
    wide = len(_WIDE.findall(content))
    return wide + -(-(len(content) - wide) // 4)
