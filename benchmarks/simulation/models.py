"""The two models of a simulated task: a student that answers rows, a writer that proposes edits."""

from __future__ import annotations

import hashlib
import random
import re
from collections.abc import Callable

from autoprompt.llm.client import Completion, Options
from autoprompt.records import Message, Usage
from autoprompt.text.answers.reasoning import asks_to_reason
from simulation.world import FILLERS, HARMS, LABELS, World


def student(world: World) -> Callable[[list[Message]], Completion]:
    def answer(messages: list[Message]) -> Completion:
        row = int(messages[-1].content.rsplit(" ", 1)[1])
        demos = tuple(m.content for m in messages[1:-1] if m.role == "user")
        target = LABELS[row % 7 % 2]
        text = target if world.is_right(row, messages[0].content, demos) else LABELS[1 - LABELS.index(target)]
        tokens = 20 + 10 * len(demos)
        if asks_to_reason(messages[0].content):
            return Completion(f"It is number {row}.\nAnswer: {text}", Usage(tokens, 60))
        return Completion(text, Usage(tokens, 1))

    return answer


def writer(world: World, seed: int) -> Callable[[list[Message], Options], Completion]:
    """Proposes one more sentence. It heeds what the request says has helped, and avoids what it says did
    harm."""

    def answer(messages: list[Message], options: Options) -> Completion:
        request = messages[-1].content
        rng = random.Random(f"{seed}/{options.seed}/{hashlib.sha256(request.encode()).hexdigest()}")
        current = re.search(r"<current>\n(.*?)\n</current>", request, re.DOTALL)
        if "right answers" in request:
            kind = rng.random()
            known = [r for r in world.rules if r not in request]
            said = rng.choice(FILLERS)
            if kind < world.good and known:
                said = rng.choice(known)
            elif kind < world.good + world.harmful:
                said = rng.choice(HARMS)
            return Completion(f"A: the rows that go with {said}\nB: all of the other rows", Usage(400, 30))
        if current is None:
            return Completion("The rows need a rule.", Usage(300, 20))
        text = current.group(1)
        praised, blamed = _told(request.replace(current.group(0), ""))
        left = [r for r in world.rules if r not in text] or list(world.rules)
        kind = rng.random()
        wanted = [r for r in left if r in praised]
        if wanted and rng.random() < 0.7:
            extra = f"mind {rng.choice(wanted)}"
        elif kind < world.good:
            extra = f"mind {rng.choice(left)}"
        elif kind < world.good + world.harmful:
            myths = [h for h in HARMS if h not in blamed] or [""]
            extra = f"believe {rng.choice(myths)}"
        else:
            extra = rng.choice(FILLERS)
        return Completion(f"```\n{text.strip()} Also {extra}.\n```", Usage(400, 40))

    return answer


def _told(request: str) -> tuple[set[str], set[str]]:
    """Words that the request praises and that it warns of, by the line they stand in."""
    praised: set[str] = set()
    blamed: set[str] = set()
    section = ""
    for line in request.lower().splitlines():
        if re.search(r"helped|better", line):
            section = "good"
        elif re.search(r"harm|worse|avoid", line):
            section = "bad"
        words = set(re.findall(r"(?:rule|myth)\d", line))
        (praised if section == "good" else blamed).update(words)
    return praised - blamed, blamed
