"""Which texts of a program are prompts: what is the same in the requests of all rows, their values aside.

Texts of one place that differ in values of their rows, or in a few words that code puts in, are one prompt
with holes. A text that the source holds as it is stays apart from others that are like it. A date of today
that the source does not hold is another one tomorrow, so it is a hole as well.
"""

from __future__ import annotations

import difflib
import itertools
import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cached_property
from typing import Protocol

from autoprompt.errors import Place
from autoprompt.measure.task import ComponentKind
from autoprompt.programs.dialects import Role
from autoprompt.programs.places import NOWHERE
from autoprompt.programs.placing import HOLE, Placed, hole_of
from autoprompt.programs.scope import Seen
from autoprompt.programs.templates import fit
from autoprompt.text.scripts import UNPARTED

_FEWEST_LETTERS = 8  # of a text beside its holes; less is a separator. One of Chinese counts three times
_A_WORD = 20  # characters
_FEWEST_ROWS = 2  # with the same text: what one row alone was sent may be its own
_MOST_ALIGNED = 2000  # words: comparing takes the square of it
_GAP = "\0"  # in a form: where its texts have different words
_TOKEN = re.compile(rf"{HOLE.pattern}|{_GAP}|[{UNPARTED}]|[^\s{{{_GAP}{UNPARTED}]+\s*|\s+|\{{")
# How dates are written, as `strftime` has it, and what follows a date that has its time.
_DATES = (
    *("%Y-%m-%d", "%Y/%m/%d", "%d.%m.%Y", "%d/%m/%Y", "%m/%d/%Y", "%B %d, %Y", "%d %B %Y", "%b %d, %Y"),
    *("%d %b %Y", "%a %b %d %H:", "%Y年%m月%d日"),
)
_TIME = r"\d{1,2}:\d{2}(?::\d{2}(?:[.,]\d+)?)?(?: ?Z| ?UTC|[+-]\d{2}:?\d{2})?"
_KINDS: dict[str, ComponentKind] = {"tool": "tool", "parameter": "tool parameter"}


@dataclass(frozen=True, slots=True)
class _Text:
    """A text of one row's request. values: what may be in its holes, by name: fields, earlier answers.
    place: of the call. met: rank of the request in the row, and of the text in it.
    """

    row: int
    text: str
    values: Mapping[str, str]
    place: Place = NOWHERE
    met: tuple[int, int] = (0, 0)

    @property
    def long_values(self) -> tuple[str, ...]:
        """Names of the values that are not found in a text by chance, wherever they are in it."""
        return tuple(name for name, value in self.values.items() if len(value) > 1)


class Source(Protocol):
    """What the code of a program says of a text that its requests hold."""

    def holds(self, text: str) -> bool:
        """Return whether a literal is this text, with holes where code puts something in."""

    def is_one(self, text: str, tool: str = "") -> bool:
        """Return whether a single literal is the source of this text, whatever code puts into it."""


class NoSource:
    """The code of a program that cannot be read."""

    def holds(self, text: str) -> bool:
        return False

    def is_one(self, text: str, tool: str = "") -> bool:
        return False


def find_components(
    rows: Sequence[tuple[Mapping[str, str], Sequence[Seen]]], source: Source | None = None
) -> list[Placed]:
    """Return the texts that the requests of several rows share, in the order in which rows meet them.

    Args:
        rows: For each row its fields, and its requests with their answers. Rows differ in their fields.
        source: Tells two texts that the program has from one whose words code puts in, and one text that
            several sites send from several.
    """
    source = source or NoSource()
    places: dict[_Key, list[_Text]] = defaultdict(list)
    for row, (fields, seen) in enumerate(rows):
        for rank, request, values in _with_values(fields, seen):
            turns = _turns_shown(request, values.values())
            counts: dict[str, int] = {}
            for number, part in enumerate(request.parts):
                order = counts.get(part.role, 0)
                counts[part.role] = order + 1
                if part.role not in ("assistant", "result") and number not in turns:
                    key = (request.site, part.role, part.name, 0 if part.name else order)
                    places[key].append(_Text(row, part.text, values, request.place, (rank, number)))
    originals: list[_Original] = []
    for key, texts in places.items():
        _, _, tool, _ = key
        for constant, sent in _originals(texts, source, may_have_holes=not tool):
            original = constant if tool or source.holds(constant) else _without_today(constant)
            if _letters(HOLE.sub("", original)) >= _FEWEST_LETTERS:
                has_holes = not tool and any(HOLE.findall(original))
                has_holes = has_holes and original not in {text.text for text in texts}
                originals.append(_Original(key, original, has_holes, sent))
    found: list[Placed] = []
    names: Counter[str] = Counter()
    for one in _in_order(originals):
        site, role, tool, order = one.key
        kind = _KINDS.get(role, "template" if one.has_holes else "instruction")
        name = f"{site}.{'tool.' + tool if tool else role}"
        names[name] += 1
        numbered = name if names[name] == 1 else f"{name}{names[name]}"
        at = places[one.key][0].place
        file, line = str(at.file or ""), at.line or 0
        found.append(Placed(numbered, kind, site, role, one.text, tool, order, file, line))
    return _as_one(found, source)


_Key = tuple[str, Role, str, int]  # of a place: site, role, tool, order


@dataclass(frozen=True, slots=True)
class _Original:
    """A text that rows share at a place. sent: as they were sent."""

    key: _Key
    text: str
    has_holes: bool
    sent: Sequence[_Text]

    def met(self) -> dict[int, tuple[int, int]]:
        """Return where each row meets it first."""
        return {row: min(t.met for t in self.sent if t.row == row) for row in {t.row for t in self.sent}}


def _in_order(originals: Sequence[_Original]) -> list[_Original]:
    """Return texts as rows meet them: those of the first row first, each in the order of most rows.

    Requests that run side by side begin now in one order, now in another.
    """
    met = [original.met() for original in originals]

    def comes_first(one: int, other: int) -> bool:
        both = met[one].keys() & met[other].keys()
        return sum(1 if met[one][row] < met[other][row] else -1 for row in both) > 0

    def place(n: int) -> tuple[int, int]:
        first = min(met[n])
        return first, -sum(comes_first(n, other) for other in range(len(met)) if min(met[other]) == first)

    return [originals[n] for n in sorted(range(len(originals)), key=place)]


def _with_values(
    fields: Mapping[str, str], seen: Sequence[Seen]
) -> Iterator[tuple[int, Seen, dict[str, str]]]:
    """Yield a row's requests, each with its rank and what may be in its holes: fields, earlier answers."""
    named = {hole_of(name): value for name, value in fields.items() if value.strip()}
    begun = [n if request.begun is None else request.begun for n, request in enumerate(seen)]
    answers: dict[str, list[tuple[int, str]]] = defaultdict(list)  # by site
    for rank, request in zip(begun, seen, strict=True):
        values = dict(named)
        for site, given in answers.items():
            name = f"{hole_of(site)}.answer"
            *earlier, last = (answer for _, answer in sorted(given))
            values |= {f"{name}{n}": answer for n, answer in enumerate(earlier, 1)} | {name: last}
        yield rank, request, values
        if answer := request.answer.text.strip():
            answers[request.site].append((rank, answer))


def _turns_shown(request: Seen, answers: Collection[str]) -> set[int]:
    """Return which parts are the user's turns in demonstrations: a set answer follows, then another turn.

    Without a system message, the first turn may be the instructions.
    """
    users = [n for n, part in enumerate(request.parts) if part.role == "user"]
    shown = set()
    for n, following in itertools.pairwise(users):
        between = [part.text.strip() for part in request.parts[n + 1 : following] if part.role == "assistant"]
        if between and not any(text in answers for text in between):
            shown.add(n)
    has_system = any(part.role == "system" for part in request.parts)
    return shown if has_system else shown - set(users[:1])


def _as_one(found: Sequence[Placed], source: Source) -> list[Placed]:
    """Return the texts, with one name for what several sites send from a single literal.

    The literal can have but one new text.
    """
    known: dict[tuple[str, str, str], str] = {}
    named = []
    for one in found:
        name = known.setdefault((one.kind, one.tool, one.original), one.name)
        is_shared = name != one.name and source.is_one(one.original, one.tool)
        named.append(replace(one, name=name) if is_shared else one)
    return named


def _without_today(text: str) -> str:
    """Return a text with `{changing1}` in place of the date or time at which it was made."""
    dates = set()
    for now in (datetime.now(), datetime.now(UTC)):
        written = {now.strftime(form) for form in _DATES}
        dates |= written | {re.sub(r"(?<!\d)0(?=\d)", "", date) for date in written}
    known = "|".join(re.escape(date) for date in sorted(dates, key=len, reverse=True))
    moment = rf"(?<!\d)(?:{known})(?:\d{{2}}:\d{{2}} \d{{4}}|(?:T| at |, | )?{_TIME})?(?!\d)"
    numbers = itertools.count(1 + text.count("{changing"))
    return re.sub(moment, lambda _: f"{{changing{next(numbers)}}}", text)


def named_by_file(placed: Sequence[Placed], texts: Mapping[str, str]) -> list[Placed]:
    """Return the texts with the names that a file of prompts has for them.

    One that is sent from several places is one component, as it is one text of the file.

    Args:
        placed: As found in requests.
        texts: Of the file, by name.
    """
    named: list[Placed] = []
    originals: dict[str, str] = {}
    for one in placed:
        fitting = [
            name for name, text in texts.items() if fit(list(text), one.original, has_holes=bool(one.holes))
        ]
        if len(fitting) != 1:
            named.append(one)
            continue
        is_first = originals.setdefault(fitting[0], one.original) == one.original
        named.append(replace(one, name=fitting[0] if is_first else f"{fitting[0]}@{one.site}"))
    return named


def _letters(text: str) -> int:
    return len("".join(text.split())) + 2 * len(re.findall(f"[{UNPARTED}]", text))


def alike(placed: Sequence[Placed], source: Source) -> Iterator[tuple[Placed, Placed]]:
    """Yield pairs of texts that may be one: they share most of their words, and the source holds neither."""
    at: dict[tuple[str, str, int], list[Placed]] = defaultdict(list)
    for one in placed:
        if not one.tool and not source.holds(one.original):
            others = at[one.site, one.role, one.order]
            for other in others:
                forms = [_Form(text, (), ()) for text in (other.original, one.original)]
                if _share_most(*forms):
                    yield other, one
            others.append(one)


def _originals(
    texts: Sequence[_Text], source: Source, *, may_have_holes: bool
) -> list[tuple[str, Sequence[_Text]]]:
    """Return the texts that several rows share: as they are, else with holes where their values are.

    Each comes with those that it was sent as.
    """
    same: dict[str, list[_Text]] = defaultdict(list)
    for text in texts:
        same[text.text].append(text)
    shared = {text: group for text, group in same.items() if _rows(group) >= _FEWEST_ROWS}
    if not may_have_holes:
        return list(shared.items())
    cut: dict[str, list[_Text]] = defaultdict(list)
    for text in sorted(texts, key=_doubts):
        if text.text not in shared:
            fitting = (form for form in cut if _filled(form, text.values) == text.text)
            cut[next(fitting, None) or _cut(text, text.long_values)].append(text)
    forms = dict(shared)
    for group in cut.values():
        names = [name for name in group[0].long_values if len(group[0].values[name]) > _A_WORD]
        is_shared = _rows(group) >= _FEWEST_ROWS
        forms.setdefault(_fewest_holes(group) if is_shared else _cut(group[0], names), []).extend(group)
    words = {value for text in texts for value in text.values.values()}
    values = tuple(value for value in words if any(value in form for form in forms))
    joined: list[_Form] = []
    for form_text, group in forms.items():
        form = _Form(form_text, tuple(group), values)
        for n, other in enumerate(joined):
            if (both := _joined(other, form, source)) is not None:
                joined[n] = both
                break
        else:
            joined.append(form)
    return [(form.named, form.texts) for form in joined if _rows(form.texts) >= _FEWEST_ROWS]


def _rows(texts: Sequence[_Text]) -> int:
    return len({text.row for text in texts})


# --- texts that differ in a few words ---


@dataclass(frozen=True)
class _Form:
    """What texts of one place share, with a hole for each value and a gap for other words that differ.

    values: of all rows, those that are in one of the forms of this place.
    """

    text: str
    texts: tuple[_Text, ...]
    values: tuple[str, ...]

    @cached_property
    def tokens(self) -> list[str]:
        """Words with the white space behind them; a value of a row is one, whatever is around it."""
        if not self.values:
            return [match[0] for match in _TOKEN.finditer(self.text)]
        tokens: list[str] = []
        for piece in re.split(f"({_any_of(self.values)})", self.text):
            tokens += [piece] if piece in self.values else [match[0] for match in _TOKEN.finditer(piece)]
        return tokens

    @cached_property
    def words(self) -> Counter[str]:
        """The tokens that are its own: no values, no holes, no gaps."""
        own = (token for token in self.tokens if token not in self.values and not HOLE.fullmatch(token))
        return Counter(token for token in own if token != _GAP)

    @cached_property
    def named(self) -> str:
        """The text with `{changing1}` for its first gap."""
        first, *others = self.text.split(_GAP)
        return first + "".join(f"{{changing{n}}}{piece}" for n, piece in enumerate(others, 1))

    def name_of(self, segment: str) -> set[str]:
        """Return the names of the values that a segment is in each of the texts."""
        if match := HOLE.fullmatch(segment):
            return {match[1]}
        return set.intersection(*({n for n, v in t.values.items() if v == segment} for t in self.texts))


def _any_of(values: Sequence[str]) -> str:
    """Return a pattern for any of these values as whole words, the longest first."""
    patterns = []
    for value in sorted(values, key=lambda value: (-len(value), value)):
        before, after = (
            rf"(?<![^\W{UNPARTED}])" if re.match(rf"[^\W{UNPARTED}]", value[0]) else "",
            rf"(?![^\W{UNPARTED}])" if re.match(rf"[^\W{UNPARTED}]", value[-1]) else "",
        )
        patterns.append(before + re.escape(value) + after)
    return "|".join(patterns)


def _share_most(a: _Form, b: _Form) -> bool:
    """Return whether the words of two forms are mostly the same, whatever their order."""
    return 2 * _size(a.words & b.words) >= max(_size(a.words), _size(b.words)) > 0


def _size(words: Counter[str]) -> int:
    return sum(len(word) * count for word, count in words.items())


def _joined(a: _Form, b: _Form, source: Source) -> _Form | None:
    """Return the one form of two texts that differ in values alone, or in words that code puts in."""
    if max(len(a.tokens), len(b.tokens)) > _MOST_ALIGNED or not _share_most(a, b):
        return None
    matcher = difflib.SequenceMatcher(None, a.tokens, b.tokens, autojunk=False)
    written, kept, has_gaps = "", Counter[str](), False
    for tag, start, end, first, last in matcher.get_opcodes():
        mine, theirs = "".join(a.tokens[start:end]), "".join(b.tokens[first:last])
        if tag == "equal":
            written += mine
            kept.update(a.tokens[start:end])
        elif names := a.name_of(mine) & b.name_of(theirs):
            written += f"{{{next(name for name in (*b.texts[0].values, *names) if name in names)}}}"
        else:
            has_gaps = True
            before = _common_signs(mine, theirs)
            mine, theirs = mine.removeprefix(before), theirs.removeprefix(before)
            written += f"{before}{_GAP}{_common_signs(mine[::-1], theirs[::-1])[::-1]}"
    both = _Form(re.sub(f"{_GAP}+", _GAP, written), (*a.texts, *b.texts), a.values)
    if all(source.holds(form.named) for form in (a, b)):
        return None
    if has_gaps and both.named not in (a.named, b.named) and _are_two(a, b, both, source):
        return None
    if 2 * _size(kept & a.words) < max(_size(a.words), _size(b.words)):
        return None
    return both


def _common_signs(one: str, other: str) -> str:
    """Return the white space and signs that two pieces of text both begin with."""
    pairs = itertools.takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False))
    signs = itertools.takewhile(lambda c: not c.isalnum() and c not in f"_{{}}{_GAP}", (c for c, _ in pairs))
    return "".join(signs)


def _are_two(a: _Form, b: _Form, both: _Form, source: Source) -> bool:
    """Return whether two texts are two prompts though they are alike. both: they as one.

    The source holds one of them, or rows that send one send the other, and no literal is the source of both.
    """
    if source.holds(a.named) or source.holds(b.named):
        return True
    rows = [{text.row for text in form.texts} for form in (a, b)]
    are_sent_together = min(map(len, rows)) >= _FEWEST_ROWS and (rows[0] <= rows[1] or rows[1] <= rows[0])
    return are_sent_together and not source.is_one(both.named)


# --- texts that differ in values alone ---


def _fewest_holes(texts: Sequence[_Text]) -> str:
    """Return the one form of texts that differ in values alone, with no more holes than that takes.

    A short value, "tech" say, may also be a word of the prompt.
    """
    taken = [
        name
        for name in texts[0].long_values
        if all(name in t.values and t.values[name] in t.text for t in texts)
    ]
    short = [name for name in taken if max(len(text.values[name]) for text in texts) <= _A_WORD]
    for name in sorted(short, key=lambda name: len(texts[0].values[name])):
        fewer = tuple(other for other in taken if other != name)
        cut = {_cut(text, fewer) for text in texts}
        if len(cut) == 1 and _holes(*cut) < _holes(_cut(texts[0], taken)):
            taken.remove(name)
    return _cut(texts[0], tuple(taken))


def _holes(form: str) -> int:
    return len(HOLE.findall(form))


def _filled(form: str, values: Mapping[str, str]) -> str:
    return HOLE.sub(lambda hole: values.get(hole[1], hole[0]), form)


def _doubts(text: _Text) -> int:
    """Return how many values of a text are those of other names, too."""
    values = [text.values[name] for name in text.long_values if text.values[name] in text.text]
    return len(values) - len(set(values))


def _cut(text: _Text, names: Sequence[str]) -> str:
    """Return a text with holes where values are, the longest cut first.

    A value of several names is the first's where it comes first, and so on.
    """
    cut = text.text
    by_value: dict[str, list[str]] = defaultdict(list)
    for name in names:
        by_value[text.values[name]].append(name)
    for value in sorted(by_value, key=len, reverse=True):
        *firsts, last = by_value[value]
        for name in firsts:
            cut = cut.replace(value, f"{{{name}}}", 1)
        cut = cut.replace(value, f"{{{last}}}")
    return cut
