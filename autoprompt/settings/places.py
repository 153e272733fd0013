"""Where the settings of a record were given, for messages of what is found out later than the value is read.

The places stay with the record and its copies, beside its fields: equal settings are equal wherever they were
given. A Python program's have none.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace

from autoprompt.errors import AutopromptError, Place, Problem
from autoprompt.settings.kinds import Settings

_PLACES = "_places"


def places_of(record: Settings) -> Mapping[str, Place]:
    """Return the places that are known, by the name of a setting or of its part, such as `traits.is_slow`."""
    found: Mapping[str, Place] = record.__dict__.get(_PLACES, {})
    return found


def note_places(record: Settings, places: Mapping[str, Place]) -> None:
    """Keep the places of a record's settings with it."""
    record.__dict__[_PLACES] = places


def place_of(record: Settings, name: str) -> Place:
    """Return where a setting, or a part of one, was given; its name alone if that is not known."""
    return _found(places_of(record), name) or Place(setting=name)


def placed(problem: Problem, places: Mapping[str, Place]) -> Problem:
    """Return a problem that names settings by these places, as far as they are known."""

    def found(place: Place) -> Place:
        is_name_only = place.setting is not None and place == Place(setting=place.setting)
        return (_found(places, place.setting or "") if is_name_only else None) or place

    return replace(problem, place=found(problem.place), related=tuple(map(found, problem.related)))


def all_placed(problems: Iterable[Problem], *records: Settings) -> tuple[Problem, ...]:
    """Return problems that name settings of the records by their places; of two records, the first knows."""
    places = {name: place for record in reversed(records) for name, place in places_of(record).items()}
    return tuple(placed(problem, places) for problem in problems)


@contextmanager
def naming_places(*records: Settings) -> Iterator[None]:
    """In errors of the block, name the settings of the records with the places where they were given."""
    try:
        yield
    except AutopromptError as error:
        error.problems = all_placed(error.problems, *records)
        raise


def _found(places: Mapping[str, Place], name: str) -> Place | None:
    whole, _, part = name.partition(".")
    if name in places or whole not in places:
        return places.get(name)
    return replace(places[whole], setting=f"{places[whole].setting}.{part}")
