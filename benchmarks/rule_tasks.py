"""Tasks whose right answers follow from a rule: made here, so that anybody can measure on them.

    python benchmarks/rule_tasks.py FOLDER
    python benchmarks/compare.py --data FOLDER --tasks dates boolean --tools autoprompt

Writes NAME.train.jsonl and NAME.val.jsonl, 150 rows each, no input twice, the same ones each time. The
naive prompts (benchmarks/peers/tasks.yaml) leave the rule of `dates` and `second_letters` unsaid: only the
rows show it. `boolean`, `object_counting` and `web_of_lies` are of the kinds of BIG-Bench Hard (Suzgun et al.
2022), written anew.
"""

from __future__ import annotations

import calendar
import json
import random
import re
import sys
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

Row = tuple[str, str]  # input, target

SEED = 7
ROWS = 150  # of each part

WORDS = re.findall(
    r"\w+",
    """apple banana cherry table window garden silver bottle candle dragon engine forest guitar hammer island
    jacket kitchen ladder magnet needle orange pencil rabbit saddle ticket umbrella violin walnut yellow zebra
    bridge castle desert eagle flower glove helmet insect jungle kettle lemon mirror napkin oyster pillow
    quilt ribbon shovel tunnel valley wagon""",
)
NAMES = re.findall(
    r"\w+",
    """Fidel Jerry Vina Kristian Willa Shenna Raymond Sherrie Conception Bernita Teressa Delfina Phoebe Millie
    Ka Rashida Alexis Leda Helene Delbert Inga Jaxon""",
)
# Kind -> its things, one and several.
THINGS: dict[str, dict[str, str]] = {
    "fruits": {
        "an apple": "apples",
        "a banana": "bananas",
        "a plum": "plums",
        "a peach": "peaches",
        "a grape": "grapes",
        "an orange": "oranges",
        "a strawberry": "strawberries",
        "a blackberry": "blackberries",
        "a raspberry": "raspberries",
        "a nectarine": "nectarines",
    },
    "vegetables": {
        "a carrot": "carrots",
        "an onion": "onions",
        "a potato": "potatoes",
        "a garlic": "garlics",
        "a yam": "yams",
        "a cauliflower": "cauliflowers",
        "a lettuce head": "lettuce heads",
        "a cabbage": "cabbages",
        "a head of broccoli": "heads of broccoli",
        "a stalk of celery": "stalks of celery",
    },
    "musical instruments": {
        "a trumpet": "trumpets",
        "a violin": "violins",
        "a piano": "pianos",
        "a flute": "flutes",
        "a drum": "drums",
        "an accordion": "accordions",
        "a clarinet": "clarinets",
        "a trombone": "trombones",
    },
    "animals": {
        "a cat": "cats",
        "a dog": "dogs",
        "a pig": "pigs",
        "a goat": "goats",
        "a cow": "cows",
        "a mouse": "mice",
        "a rabbit": "rabbits",
        "a snake": "snakes",
        "a frog": "frogs",
        "a donkey": "donkeys",
        "a duck": "ducks",
    },
}
NUMBERS = {2: "two", 3: "three"}


def main(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, make in TASKS.items():
        rows = drawn(make, random.Random(f"{name} {SEED}"))
        for part, chunk in (("train", rows[:ROWS]), ("val", rows[ROWS:])):
            lines = (json.dumps({"input": given, "target": target}) + "\n" for given, target in chunk)
            (folder / f"{name}.{part}.jsonl").write_text("".join(lines), encoding="utf-8")
    print(f"{folder}: {', '.join(TASKS)}")


def drawn(make: Callable[[random.Random], Row], rng: random.Random) -> list[Row]:
    """Rows for both parts; of two answers each about as often."""
    found: dict[str, str] = {}
    most = 2 * ROWS
    is_of_two = {make(rng)[1] for _ in range(50)} in ({"True", "False"}, {"Yes", "No"})
    for given, target in iter(lambda: make(rng), None):
        if not (is_of_two and list(found.values()).count(target) >= most // 2):
            found.setdefault(given, target)
        if len(found) == most:
            break
    rows = list(found.items())
    rng.shuffle(rows)
    return rows


def date(rng: random.Random) -> Row:
    year, month, day = rng.randint(1950, 2025), rng.randint(1, 12), rng.randint(1, 28)
    return f"{calendar.month_name[month]} {day}, {year}", f"{day:02d}.{month:02d}.{year % 100:02d}"


def second_letters(rng: random.Random) -> Row:
    first, second = rng.sample(WORDS, 2)
    return f"{first} {second}", first[1] + second[1]


def boolean(rng: random.Random) -> Row:
    while True:
        text = _expression(rng, rng.choice([2, 3]))
        if 4 <= len(text.split()) <= 14:
            return f"{text} is", str(eval(text))  # made above, of five words and brackets


def _expression(rng: random.Random, depth: int) -> str:
    if not depth:
        return rng.choice(["True", "False"])
    kind = rng.choice(["not", "brackets", "and", "or", "or"])
    left = _expression(rng, depth - 1)
    if kind in ("not", "brackets"):
        return f"not {left}" if kind == "not" else f"( {left} )"
    return f"{left} {kind} {_expression(rng, depth - 1)}"


def object_counting(rng: random.Random) -> Row:
    kind, other = rng.sample(list(THINGS), 2)
    asked = rng.sample(list(THINGS[kind]), rng.randint(2, 6))
    beside = rng.sample(list(THINGS[other]), rng.randint(0, 3))
    counts = {thing: rng.choice([1, 1, 1, 1, 2, 3]) for thing in (*asked, *beside)}
    several = THINGS[kind] | THINGS[other]
    parts = [f"{NUMBERS[n]} {several[thing]}" if n > 1 else thing for thing, n in counts.items()]
    rng.shuffle(parts)
    listed = f"{', '.join(parts[:-1])}, and {parts[-1]}"
    return f"I have {listed}. How many {kind} do I have?", str(sum(counts[thing] for thing in asked))


def web_of_lies(rng: random.Random) -> Row:
    people = rng.sample(NAMES, 5)
    is_true = rng.random() < 0.5
    said = [f"{people[0]} {_does(is_true)}."]
    for before, speaker in pairwise(people):
        claims = rng.random() < 0.5
        said.append(f"{speaker} says {before} {_does(claims)}.")
        is_true = claims == is_true
    return f"Question: {' '.join(said)} Does {people[-1]} tell the truth?", "Yes" if is_true else "No"


def _does(is_true: bool) -> str:
    return "tells the truth" if is_true else "lies"


TASKS: dict[str, Callable[[random.Random], Row]] = {
    "dates": date,
    "second_letters": second_letters,
    "boolean": boolean,
    "object_counting": object_counting,
    "web_of_lies": web_of_lies,
}

if __name__ == "__main__":
    if len(sys.argv) != 2 or sys.argv[1].startswith("-"):
        sys.exit(__doc__)
    main(Path(sys.argv[1]))
