"""Which texts of a program are prompts: what is the same in the requests of all rows, their values aside."""

from __future__ import annotations

import difflib
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from autoprompt.errors import Place
from autoprompt.measure.task import ComponentKind
from autoprompt.programs.places import NOWHERE
from autoprompt.programs.placing import HOLE, Placed, hole_of
from autoprompt.programs.scope import Seen
from autoprompt.text.scripts import UNPARTED

_FEWEST_LETTERS = 8  # of a text beside its holes; less is a separator. One of Chinese counts three times
_A_WORD = 20  # characters
_FEWEST_ROWS = 2  # with the same text: what one row alone was sent may be its own
_MOST_ALIGNED = 2000  # words: comparing takes the square of it
_TOKEN = re.compile(rf"\{{[^\W\d][\w.]*\}}|[{UNPARTED}]|[^\s{{{UNPARTED}]+\s*|\s+|\{{")  # holes stay whole
_GAP = "\0"  # between two tokens of which some text has others
_KINDS: dict[str, ComponentKind] = {"tool": "tool", "parameter": "tool parameter"}


@dataclass(frozen=True, slots=True)
class _Text:
    """A text of one row's request. values: what may be in its holes, by name: fields, earlier answers.
    place: of the call.
    """

    row: int
    text: str
    values: Mapping[str, str]
    place: Place = NOWHERE


def find_components(rows: Sequence[tuple[Mapping[str, str], Sequence[Seen]]]) -> list[Placed]:
    """Return the texts that the requests of several rows share, in the order in which rows meet them.

    Args:
        rows: For each row its fields, and its requests with their answers. Rows differ in their fields.
    """
    places: dict[tuple[str, str, str, int], list[_Text]] = defaultdict(list)
    for row, (fields, seen) in enumerate(rows):
        values = {hole_of(name): value for name, value in fields.items() if len(value) > 1}
        for request in seen:
            counts: dict[str, int] = {}
            for part in request.parts:
                order = counts.get(part.role, 0)
                counts[part.role] = order + 1
                if part.role not in ("assistant", "result"):
                    key = (request.site, part.role, part.name, 0 if part.name else order)
                    places[key].append(_Text(row, part.text, dict(values), request.place))
            if len(request.answer.text.strip()) > 1:
                values[f"{hole_of(request.site)}.answer"] = request.answer.text.strip()
    found: list[Placed] = []
    names: dict[str, int] = {}
    for (site, role, tool, order), texts in places.items():
        for original in _originals(texts, may_have_holes=not tool):
            if _letters(HOLE.sub("", original)) < _FEWEST_LETTERS:
                continue
            has_holes = not tool and any(HOLE.findall(original)) and original not in {t.text for t in texts}
            kind = _KINDS.get(role, "template" if has_holes else "instruction")
            name = f"{site}.{'tool.' + tool if tool else role}"
            names[name] = names.get(name, 0) + 1
            numbered = name if names[name] == 1 else f"{name}{names[name]}"
            at = texts[0].place
            file, line = str(at.file or ""), at.line or 0
            found.append(Placed(numbered, kind, site, role, original, tool, order, file, line))  # type: ignore[arg-type]
    return found


def _letters(text: str) -> int:
    return len("".join(text.split())) + 2 * len(re.findall(f"[{UNPARTED}]", text))


def _originals(texts: Sequence[_Text], *, may_have_holes: bool) -> list[str]:
    """The texts that several rows share: as they are, else with holes where their values are."""
    rows: dict[str, set[int]] = defaultdict(set)
    for text in texts:
        rows[text.text].add(text.row)
    shared = [text for text, having in rows.items() if len(having) >= _FEWEST_ROWS]
    if not may_have_holes:
        return shared
    alike: dict[str, list[_Text]] = defaultdict(list)
    for text in texts:
        if text.text not in shared:
            alike[_cut(text, tuple(text.values))].append(text)
    groups = [group for group in alike.values() if len({text.row for text in group}) >= _FEWEST_ROWS]
    others = {cut: group for cut, group in alike.items() if group not in groups}
    changing = ""
    if len({text.row for group in others.values() for text in group}) >= _FEWEST_ROWS:
        changing = _aligned(list(others))
    return [*shared, *map(_fewest_holes, groups), *filter(None, [changing])]


def _aligned(texts: Sequence[str]) -> str:
    """The one form of texts that differ by what changes in each request, such as a clock: `{changing1}`.

    "" if they share less than most of their letters: then they are no form of one text.
    """
    if max(len(_tokens(text)) for text in texts) > _MOST_ALIGNED:
        return ""
    common = _tokens(texts[0])
    for text in texts[1:]:
        blocks = difflib.SequenceMatcher(None, common, _tokens(text), autojunk=False).get_matching_blocks()
        merged: list[str] = []
        last = (0, 0)
        for block in blocks:
            if (block.a, block.b) != last:
                merged.append(_GAP)
            merged += common[block.a : block.a + block.size]
            last = (block.a + block.size, block.b + block.size)
        common = merged
    pieces = re.split(f"{_GAP}+", "".join(common))
    if 2 * len("".join(pieces)) < max(map(len, texts)) or len(pieces) == 1:
        return ""
    return pieces[0] + "".join(f"{{changing{n}}}{piece}" for n, piece in enumerate(pieces[1:], 1))


def _tokens(text: str) -> list[str]:
    return _TOKEN.findall(text)


def _fewest_holes(texts: Sequence[_Text]) -> str:
    """The one form of texts that differ in values alone, with no more holes than that takes.

    A short value, "tech" say, may also be a word of the prompt.
    """
    taken = [
        name for name in texts[0].values if all(name in t.values and t.values[name] in t.text for t in texts)
    ]
    short = [name for name in taken if max(len(text.values[name]) for text in texts) <= _A_WORD]
    for name in sorted(short, key=lambda name: len(texts[0].values[name])):
        fewer = tuple(other for other in taken if other != name)
        if len({_cut(text, fewer) for text in texts}) == 1:
            taken.remove(name)
    return _cut(texts[0], tuple(taken))


def _cut(text: _Text, names: Sequence[str]) -> str:
    """A text with holes where values are, the longest cut first."""
    cut = text.text
    for name in sorted(names, key=lambda name: -len(text.values[name])):
        cut = cut.replace(text.values[name], f"{{{name}}}")
    return cut
