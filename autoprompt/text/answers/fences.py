"""Code fences: what a model writes around code, and sometimes around its whole answer."""

from __future__ import annotations

from autoprompt.text.patterns import lazy

_FENCE = lazy(r"[ \t]{0,3}(`{3,}|~{3,})[ \t]*([^`\n]*)")
_HEADING = lazy(r"#{1,6}\s|(\*\*|__).*\1\Z")
_LONGEST_LEAD = 200  # characters of the line before the fence


def unfenced(text: str) -> str:
    """The content of the one fenced block that an answer consists of; any other text as it is.

    Before the block, one line may introduce it ("Here is the query:", a heading). The block may be left open
    at the end. An answer with text behind the block, or with several blocks, has no one content.
    """
    lines = text.strip().splitlines()
    begin = next((at for at, line in enumerate(lines) if _FENCE.fullmatch(line)), None)
    if begin is None or not _is_lead(lines[:begin]):
        return text
    mark = _mark(lines[begin])
    body = lines[begin + 1 :]
    if body and body[-1].rstrip().endswith(mark) and not _FENCE.fullmatch(body[-1]):
        body[-1:] = [body[-1].rstrip().removesuffix(mark), mark]  # SELECT 1;```
    closed = _closed_at(body, mark)
    if closed is None:
        return "\n".join(body) if body else text
    return "\n".join(body[:-1]) if closed == len(body) - 1 else text


def _is_lead(lines: list[str]) -> bool:
    said = [line.strip() for line in lines if line.strip()]
    if not said:
        return True
    line = said[0].rstrip("*_ ")
    is_short = len(said) == 1 and len(line) <= _LONGEST_LEAD
    return is_short and (line.endswith((":", "：")) or _HEADING.match(said[0]) is not None)


def _mark(line: str) -> str:
    found = _FENCE.match(line)
    return found[1] if found else ""


def _closed_at(body: list[str], mark: str) -> int | None:
    """Which line closes the block that `mark` opened; None if no line does.

    Blocks of a document, which models fence with the same mark, are parts of it.
    """
    depth = 1
    for at, line in enumerate(body):
        found = _FENCE.fullmatch(line)
        if found is None or not found[1].startswith(mark):
            continue
        depth += 1 if found[2].strip() else -1
        if depth == 0:
            return at
    return None
