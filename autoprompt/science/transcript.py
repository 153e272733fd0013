"""The conversation as it is kept: one growing assistant text, as JSON messages and as a page to read."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from autoprompt.science.records import PassRecord
from autoprompt.science.tags import OBSERVATION, Section, read_answer

_LONGEST_FENCE = re.compile(r"`{3,}")


def question(task: str, io: str | None) -> str:
    """The user's message."""
    return f"{task}\n\nI/O Requirements:\n{io}" if io else task


def turn(record: PassRecord) -> str:
    """What one pass adds to the assistant's text."""
    parts = [record.text] if record.text else []
    if record.observation is not None:
        parts.append(str(Section(OBSERVATION, record.observation)))
    return "\n\n".join(parts)


def messages(task: str, io: str | None, passes: Sequence[PassRecord]) -> list[dict[str, str]]:
    text = "\n\n".join(filter(None, map(turn, passes)))
    return [{"role": "user", "content": question(task, io)}, {"role": "assistant", "content": text}]


def markdown(task: str, io: str | None, passes: Sequence[PassRecord], facts: dict[str, str]) -> str:
    """The transcript as a page: a heading for each pass and part, code and observations as blocks.

    facts: what stands under the title, name -> value.
    """
    lines = ["# Investigation", "", *_quoted(question(task, io)), ""]
    lines += [f"- {name}: {value}" for name, value in facts.items() if value]
    for record in passes:
        lines += ["", f"## Pass {record.number}", *_pass(record)]
    return "\n".join(lines).rstrip() + "\n"


def _pass(record: PassRecord) -> Iterator[str]:
    sections = read_answer(record.text).sections
    if not sections:
        yield from ("", record.text or "(nothing)")
    for section in sections:
        yield from ("", f"### {section.tag}", "")
        if section.tag == "Experiment":
            yield from _block(section.text, "python")
        else:
            yield section.text
    if record.observation is not None:
        yield from ("", "### Observation", "", *_block(record.observation, ""), "", _told(record))
    if record.is_cut:
        yield from ("", "_The answer broke off, being too long._")
    if record.has_own_observation:
        yield from ("", "_The model wrote an Observation of its own; it was cut with all behind it._")


def _told(record: PassRecord) -> str:
    parts = [f"exit code {record.exit_code}", f"{record.duration_s:.1f} s"]
    if record.killed_by:
        parts.append(f"ended by its limit of {record.killed_by}")
    if record.new_files:
        parts.append(f"new files: {', '.join(record.new_files)}")
    return f"_{'; '.join(parts)}_"


def _quoted(text: str) -> Iterator[str]:
    yield from (f"> {line}".rstrip() for line in text.split("\n"))


def _block(text: str, language: str) -> Iterator[str]:
    longest = max((len(found) for found in _LONGEST_FENCE.findall(text)), default=2)
    fence = "`" * (longest + 1)
    yield from (f"{fence}{language}", text, fence)
