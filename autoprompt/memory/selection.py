"""Which experiences a prompt's writer is shown, and in what words."""

from __future__ import annotations

from collections.abc import Sequence

from autoprompt.memory.change import ADDED, REMOVED, has_demos, is_cut
from autoprompt.memory.experience import LONGEST_TASK, Experience
from autoprompt.memory.similarity import SAME_KIND, task_similarity
from autoprompt.text.names import counted
from autoprompt.text.tokens import estimate_tokens

_HELPED = "What helped before:"
_HARMED = "What did harm (avoid):"
# A gain on n rows counts n / (n + _DOUBT) of itself: 3 lucky rows must not outrank 40 solid ones.
_DOUBT = 20
_TYPICAL_GAIN = 0.05  # of an entry that a person wrote without a number


def select(experiences: Sequence[Experience], task: str, max_tokens: int) -> str:
    """Experiences of the same kind of task as text for a request, "" where there are none.

    What helped comes first, then what did harm; changes without effect are left out, they only cost tokens,
    and of entries with one text (a cut one, or one of two tasks) all but the first in rank.
    At most about `max_tokens` tokens, chosen by likeness of task, gain and priority. Without ids, runs and
    dates, so the text is the same as long as the lessons are. Depends on nothing but its arguments.
    An entry without a task is a person's advice for every task.
    """
    left = max_tokens - estimate_tokens(_HELPED) - estimate_tokens(_HARMED)
    helped: list[str] = []
    harmed: list[str] = []
    shown: set[str] = set()
    for entry in ranked(experiences, task):
        line = _line(entry)
        part = helped if entry.verdict == "better" else harmed
        cost = estimate_tokens(line) + 1  # its line end
        if cost <= left and entry.change not in shown:
            shown.add(entry.change)
            part.append(line)
            left -= cost
    sections = [[title, *lines] for title, lines in ((_HELPED, helped), (_HARMED, harmed)) if lines]
    return "\n\n".join("\n".join(section) for section in sections)


def helpful_additions(experiences: Sequence[Experience], task: str, max_tokens: int) -> list[str]:
    """Sentences that helped where they were added to a prompt of the same kind of task, the best first.

    At most about `max_tokens` tokens. Of changes that also removed something, that came with demonstrations,
    and of cut ones, nothing is known of the sentence alone, so they are left out.
    """
    sentences: list[str] = []
    for entry in ranked(experiences, task):
        sentence = additive_sentence(entry.change) if entry.verdict == "better" else None
        if sentence is None or sentence in sentences:
            continue
        max_tokens -= estimate_tokens(sentence)
        if max_tokens < 0:
            break
        sentences.append(sentence)
    return sentences


def additive_sentence(change: str) -> str | None:
    """What a change added, word for word; None for one that did anything else, or that was cut."""
    sentence = change.removeprefix(ADDED).strip()
    if not change.startswith(ADDED) or REMOVED in change or "\n" in change:
        return None
    if is_cut(change) or has_demos(change):
        return None
    return sentence or None


def ranked(experiences: Sequence[Experience], task: str) -> list[Experience]:
    """Those that tell of tasks like this one, by likeness, gain and priority."""
    found = sorted(
        ((_rank(entry, likeness), entry) for entry in experiences if (likeness := _likeness(entry, task))),
        key=lambda pair: (-pair[0], pair[1].change, pair[1].task, pair[1].verdict == "better"),
    )
    return [entry for _, entry in found]


def _likeness(entry: Experience, task: str) -> float:
    """How well the entry fits the task; 0 for one that is left out."""
    if entry.verdict == "no_difference":
        return 0.0
    if not entry.task:
        return 1.0
    likeness = task_similarity(entry.task, " ".join(task.split())[:LONGEST_TASK])
    return likeness if likeness >= SAME_KIND else 0.0


def _rank(entry: Experience, likeness: float) -> float:
    if entry.gain is None:
        return likeness * entry.priority * _TYPICAL_GAIN
    trust = entry.rows / (entry.rows + _DOUBT) if entry.rows else 0.5
    return likeness * entry.priority * abs(entry.gain) * trust


def _line(entry: Experience) -> str:
    if entry.gain is None:
        return f"- {entry.change}"
    rows = f" on {counted(entry.rows, 'row')}" if entry.rows else ""
    return f"- {entry.change} ({entry.gain:+.2f}{rows})"
