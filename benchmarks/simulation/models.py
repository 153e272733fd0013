"""The two models of a simulated task: a student that answers rows, a writer that proposes edits."""

from __future__ import annotations

import hashlib
import random
import re
from collections.abc import Callable, Sequence

from autoprompt.llm.client import Completion, Options
from autoprompt.records import Message, Usage
from autoprompt.text.answers.reasoning import asks_to_reason
from simulation.world import FILLERS, HARMS, World, number_of


def student(world: World) -> Callable[[list[Message]], Completion]:
    def answer(messages: list[Message]) -> Completion:
        row = number_of(messages[-1].content)
        demos = tuple(m.content for m in messages[1:-1] if m.role == "user")
        is_right = world.is_right(row, messages[0].content, demos)
        text = world.target(row) if is_right else world.mistake(row)
        tokens = 20 + 10 * len(demos)
        if asks_to_reason(messages[0].content):
            return Completion(f"It is number {row}.\nAnswer: {text}", Usage(tokens, 60))
        return Completion(text, Usage(tokens, 1))

    return answer


def writer(world: World, seed: int) -> Callable[[list[Message], Options], Completion]:
    """Proposes one more sentence. It heeds what the request says has helped, and avoids what it says did
    harm. See `reader` for the worlds in which authors know what they read."""
    if world.insight is not None:
        return reader(world, world.insight, seed)

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


ATTENTIVE = 10  # rows that are read as well as one; of more, each is read less
_LINES = 4  # of an analysis, as it is asked for
_WORDS = 40  # of the limit of a text that one line takes


def reader(world: World, insight: float, seed: int) -> Callable[[list[Message], Options], Completion]:
    """An author that knows what it reads: rules that the request names, and of rows that it understands.

    It analyzes, describes, rewrites and edits. A misunderstood row gives a myth.
    """

    def answer(messages: list[Message], options: Options) -> Completion:
        request = messages[-1].content
        rng = random.Random(f"{seed}/{options.seed}/{hashlib.sha256(request.encode()).hexdigest()}")
        current = re.search(r"<(current|prompt)>\n(.*?)\n</\1>", request, re.DOTALL)
        text = current.group(2).strip() if current else ""
        lessons = _lessons(world, insight, request.replace(text, ""), rng)
        if "at most four short lines" in request:
            said = [f"mind {lesson}" for lesson in lessons[:_LINES]]
            return Completion("\n".join(said) or "The rows need a rule.", Usage(300, 20 * len(said)))
        if "one line for each answer" in request:
            lines = _described(world, lessons, rng)
            return Completion("\n".join(lines), Usage(400, 30 * len(lines)))
        new = [lesson for lesson in lessons if lesson not in text] or [rng.choice(FILLERS)]
        limit = re.search(r"at most (\d+) (words|edits)", request, re.IGNORECASE)
        most = int(limit[1]) // (_WORDS if limit[2] == "words" else 1) if limit else _LINES
        lines = [f"Mind {lesson}." for lesson in new[:most]]
        return Completion("```\n" + "\n".join([text, *lines]) + "\n```", Usage(400, 20 * len(lines)))

    return answer


def _lessons(world: World, insight: float, request: str, rng: random.Random) -> list[str]:
    """What an author makes of a request, each once: first what it names, then what its rows teach."""
    _, blamed = _told(request)
    named = [word for word in re.findall(r"(?:rule|myth|lean)\d", request.lower()) if word not in blamed]
    rows = list(dict.fromkeys(map(int, re.findall(r"item (\d+)", request))))
    attention = min(1.0, ATTENTIVE / max(1, len(rows)))
    learned = []
    for row in rows:
        if rng.random() < insight * attention:
            is_wrong = rng.random() < world.harmful
            learned.append(rng.choice(HARMS) if is_wrong else world.lesson(row, rows))
    return list(dict.fromkeys([*named, *(lesson for lesson in learned if lesson not in blamed)]))


def _described(world: World, lessons: Sequence[str], rng: random.Random) -> list[str]:
    """A line for each label, with one of the lessons in it."""
    words = [*rng.sample(lessons, len(lessons)), *rng.sample(FILLERS, len(FILLERS)), *FILLERS]
    return [
        f"{label}: the rows that go with {word}" for label, word in zip(world.labels, words, strict=False)
    ]


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
        words = set(re.findall(r"(?:rule|myth|lean)\d", line))
        {"good": praised, "bad": blamed}.get(section, set()).update(words)
    return praised - blamed, blamed
