"""Makes the baseline and the recorded answers of configs/clickbait_ci.yaml anew, with a scripted model.

    python baselines/make.py [FOLDER]

No language model is behind the answers: a rule by words gives them, so that they are small, free of licences
and the same on every machine. They show how a check works, and nothing about any model.
"""

from __future__ import annotations

import sys
from pathlib import Path

from autoprompt import CheckReport, Models, check
from autoprompt.gate import write_baseline
from autoprompt.llm import Message, ScriptedClient
from autoprompt.settings.records import CheckConfig
from autoprompt.settings.resolve import resolve_measured

HERE = Path(__file__).parent
CONFIG = HERE.parent / "configs" / "clickbait_ci.yaml"
BASELINE, ANSWERS = "clickbait.json", "clickbait.answers.jsonl"

# Of these words, headlines that withhold something hold more than others do.
WORDS = {
    *("you", "your", "this", "these", "that", "what", "why", "how", "who", "here's", "one", "it", "its"),
    *("things", "ways", "secret", "nobody", "everyone", "never", "will", "just", "only", "really", "i", "my"),
}


def answer(messages: list[Message]) -> str:
    """1 for a headline with one of the words, or one that begins with a number."""
    words = [word.strip(".,:;!?\"'").lower() for word in messages[-1].content.replace("\u2019", "'").split()]
    return "1" if WORDS & set(words) or words[0].isdigit() else "0"


def make(folder: Path) -> CheckReport:
    """Write both files into `folder`."""
    config, limits = resolve_measured(
        CheckConfig, {"record": folder / ANSWERS, "no_cache": True}, config_file=CONFIG, environ={}
    )
    limits = limits.model_copy(update={"baseline": folder / BASELINE})
    model = ScriptedClient(answer, name="a rule by words (scripted)")
    report = check(config, limits, is_update=True, models=Models(model))
    write_baseline(folder / BASELINE, report.measurement.as_baseline())
    return report


if __name__ == "__main__":
    found = make(Path(sys.argv[1]) if sys.argv[1:] else HERE)
    sys.stdout.write(f"{found.score:.3f} on {len(found.measurement.cases)} rows\n")
