import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from autoprompt.errors import InputError
from autoprompt.memory import MAX_ENTRIES, Experience, ExperienceFile, Verdict, measurement, words
from autoprompt.memory.experience import read_change
from autoprompt.memory.file import Recorded
from autoprompt.records import Change

TASK = "Decide whether a news headline is clickbait. Answer 1 or 0."
LONG = Change(added="Mind the rule of the house. " * 15)


@pytest.fixture
def file(tmp_path: Path) -> ExperienceFile:
    return ExperienceFile(tmp_path / "memory" / "experiences.txt")


def lesson(
    change: str | Change, before: float = 0.5, after: float = 0.6, rows: int = 40, verdict: Verdict = "better"
) -> Experience:
    change = change if isinstance(change, Change) else read_change(change)
    return Experience(TASK, change, verdict, before=before, after=after, rows=rows)


def change_of(number: int) -> str:
    return f"Say it {number} times"


def test_a_missing_file_is_empty(file: ExperienceFile) -> None:
    assert (file.load(), file.problems(), file.select(TASK)) == ([], [], [])
    assert not file.path.parent.exists()


def test_an_entry_is_recorded_with_run_and_date(file: ExperienceFile) -> None:
    assert file.record([lesson("Say one digit only")], run_id="r1", iteration=2).new == 1
    (entry,) = file.load()
    assert (entry.task, entry.text, entry.before, entry.after, entry.rows) == (
        TASK,
        "Say one digit only",
        0.5,
        0.6,
        40,
    )
    assert (entry.run_id, entry.iteration, entry.priority, len(entry.date)) == ("r1", 2, 1.0, 10)
    assert file.path.read_text(encoding="utf-8").startswith("# What was changed")


def test_the_header_says_the_rules_itself(file: ExperienceFile) -> None:
    file.record([lesson("Say one digit only")], run_id="r1", iteration=2)
    text = file.path.read_text(encoding="utf-8")
    header = [line for line in text.splitlines() if line.startswith("#")]
    assert not any("README" in line for line in header)
    example = next(line.partition(": ")[2] for line in header if "[better]" in line)
    file.path.write_text(f"{text}\n{example}\n", encoding="utf-8")  # what it shows is an entry
    assert file.load()[-1].text == "What was changed"
    assert header[-1].endswith(": autoprompt memory")


def test_recording_the_same_iteration_again_changes_nothing(file: ExperienceFile) -> None:
    both = [lesson("Say one digit only"), lesson("Show hard cases first")]
    file.record(both, run_id="r1", iteration=2)
    before = file.path.read_bytes()
    assert file.record(both, run_id="r1", iteration=2).new == 0
    assert file.path.read_bytes() == before
    assert file.record(both[:1], run_id="r1", iteration=3).new == 1
    assert file.record([lesson("Say why")], run_id="r1", iteration=3).new == 1


def test_recording_again_counts_once_even_after_a_merge(file: ExperienceFile) -> None:
    file.record([lesson("Answer with one digit only")], run_id="r1", iteration=2)
    again = [lesson("answer with one digit, only.")]
    file.record(again, run_id="r2", iteration=2)
    file.record(again, run_id="r2", iteration=2)
    assert [entry.rows for entry in file.load()] == [80]


def test_the_same_comparison_counts_once_whatever_run_makes_it(file: ExperienceFile) -> None:
    def told(by: str) -> Experience:
        return replace(lesson("Say one digit"), sources=(measurement("old", "new", by=by),))

    assert file.record([told("small model")], run_id="r1", iteration=2).new == 1
    assert file.record([told("small model")], run_id="r2", iteration=5).new == 0
    (entry,) = file.load()
    assert entry.rows == 40
    assert file.record([told("large model")], run_id="r2", iteration=5).new == 1
    assert file.load()[0].rows == 80


def test_the_same_change_merges_by_rows(file: ExperienceFile) -> None:
    file.record([lesson("Answer with one digit only", 0.5, 0.6, 30)], run_id="r1", iteration=2)
    file.record([lesson("answer with ONE digit, only.", 0.7, 0.9, 10)], run_id="r2", iteration=5)
    (entry,) = file.load()
    assert (entry.text, entry.rows, entry.verdict) == ("Answer with one digit only", 40, "better")
    assert (entry.before, entry.after) == (pytest.approx(0.55), pytest.approx(0.675))
    assert (entry.priority, entry.run_id, entry.iteration) == (2.0, "r2", 5)


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ("Ask for step by step reasoning", "Do not ask for step by step reasoning"),
        ("Added 8 balanced demonstrations", "Added 16 balanced demonstrations"),
        ("要求模型先解释理由再回答", "要求模型不解释理由再回答"),
        ("Say one digit only", "Show hard cases first"),
        (
            "added: Decide by the numbers in it, and guess when unsure. | removed: " + "Is it true?" * 10,
            "added: Decide by the numbers in it, and mind the sources. | removed: " + "Is it true?" * 10,
        ),
        ("उत्तर के साथ कारण भी साफ़ शब्दों में लिखें", "उत्तर के साथ कारण भी साफ़ शब्दों में नहीं लिखें"),
        ("اذكر سبب الحكم في نهاية الجواب", "لا تذكر سبب الحكم في نهاية الجواب"),
        ("اكتب سبب الحكم في نهاية الجواب دائما", "لا اكتب سبب الحكم في نهاية الجواب دائما"),
        ("ให้อธิบายเหตุผลก่อนตอบคำถามทุกครั้ง", "ไม่ให้อธิบายเหตุผลก่อนตอบคำถามทุกครั้ง"),
        ("先写出理由再给出最后答案", "后写出理由再给出最后答案"),
        ("Say of each one whether the claim is clear", "Say of each one whether the claim is unclear"),
        ("Write the label as (+1) where it holds", "Write the label as (-1) where it holds"),
        ("Write the label as (1) where it holds", "Write the label as (-1) where it holds"),
        ("Answer 1 if x < 5", "Answer 1 if x > 5"),
        ("Say -1 for news and 1 for ads", "Say 1 for news and -1 for ads"),
        ("Round to 10", "Round to 10%"),
        ("Give the price in $", "Give the price in €"),
        ("Mark what holds with ✓", "Mark what holds with ✗"),
        ("If the ticket is unclear, answer billing.", "If the ticket is unclear, answer tech."),
        ("When both are there, the first counts", "When both are there, the last counts"),
        ("Say why before you answer the question", "Say why after you answer the question"),
        ("Show two examples of each answer", "Show five examples of each answer"),
        ("If unsure, answer a or b", "If unsure, answer b or a"),
        ("added: Mind the rule of the house.", "added: Mind the rule of the house. | removed: Be brief."),
        ("added: Mind the rule of the house.", "removed: Mind the rule of the house."),
        ("added: !", "added: ?"),
    ],
)
def test_different_changes_stay_apart(file: ExperienceFile, a: str, b: str) -> None:
    file.record([lesson(a), lesson(b)], run_id="r1", iteration=2)
    assert [entry.text for entry in file.load()] == [a, b]


def test_what_was_removed_does_not_part_what_was_added(file: ExperienceFile) -> None:
    changes = [
        "added: Decide by the numbers | removed: Be brief and kind.",
        "added: Decide by the numbers. | removed: Sort by age!",
    ]
    file.record([lesson(change) for change in changes], run_id="r1", iteration=2)
    assert [(entry.text, entry.rows) for entry in file.load()] == [(changes[0], 80)]


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ("Say ONE digit, only!", "say one digit only"),
        ("只回答数字，不要解释", "只回答 数字不要 解释"),
        ("Answer with `yes`", "Answer with yes"),
        ("回答１或０", "回答1或0"),
        ("removed: Be brief.", "removed: be brief"),
        ("added: !", "added:  !"),
    ],
)
def test_the_same_words_are_one_change(file: ExperienceFile, a: str, b: str) -> None:
    file.record([lesson(a), lesson(b)], run_id="r1", iteration=2)
    assert [entry.rows for entry in file.load()] == [80]


def test_a_cut_change_is_one_entry_whatever_its_scores(file: ExperienceFile) -> None:
    for number in range(30):
        file.record([lesson(LONG, 0.5, 0.6 + number / 500)], run_id=f"r{number}", iteration=2)
    (entry,) = file.load()
    assert (entry.rows, entry.after) == (1200, pytest.approx(0.629, abs=1e-3))


def test_changes_cut_to_one_beginning_are_two_entries_with_two_ids(file: ExperienceFile) -> None:
    for run_id in ("r1", "r2"):
        guess, ask = (Change(added=f"{LONG.added}{end}") for end in ("Guess.", "Ask."))
        both = [lesson(guess, 0.5, 0.62), lesson(ask, 0.5, 0.3, verdict="worse")]
        file.record(both, run_id=run_id, iteration=2)
    helped, harmed = file.load()
    assert (helped.text, helped.rows, harmed.rows) == (harmed.text, 80, 80)
    assert (helped.gain, harmed.gain) == (pytest.approx(0.12), pytest.approx(-0.2))
    assert file.forget([helped.id]) == [helped]
    assert file.load() == [harmed]


@pytest.mark.parametrize(
    ("old", "new", "count"),
    [
        ("Mind the rule of the house. Mind", "Mind the rule of the city. Mind", 2),
        ("added: Mind the rule of the house. Mind", "added: Mind the rule\n  of the house; mind", 1),
    ],
)
def test_of_a_cut_change_that_a_person_edits_the_words_count(
    file: ExperienceFile, old: str, new: str, count: int
) -> None:
    file.record([lesson(LONG)], run_id="r1", iteration=2)
    text = file.path.read_text(encoding="utf-8")
    assert old in text
    file.path.write_text(text.replace(old, new, 1), encoding="utf-8")
    file.record([lesson(LONG)], run_id="r2", iteration=2)
    assert len(file.load()) == count


def test_a_change_that_was_cut_by_hand_is_left_as_it_is(file: ExperienceFile) -> None:
    old = f"- [better +0.10 on 40 rows] {words(LONG)}\n  task: {TASK}\n  score: 0.5 -> 0.6\n"
    file.path.parent.mkdir()
    file.path.write_text(old + old, encoding="utf-8")
    file.record([lesson(LONG)], run_id="r2", iteration=2)
    assert [entry.rows for entry in file.load()] == [40, 40, 40]


def test_a_cut_in_what_was_removed_does_not_matter(file: ExperienceFile) -> None:
    for old, after in (("Be brief. ", 0.6), ("Sort by age. ", 0.7)):
        change = Change(added="Mind the rule.", removed=old * 40)
        file.record([lesson(change, 0.5, after)], run_id=f"r{after}", iteration=2)
    assert [(entry.rows, entry.cut) for entry in file.load()] == [(80, "")]


def test_the_same_change_to_another_task_stays_apart(file: ExperienceFile) -> None:
    file.record([lesson("Say one digit only")], run_id="r1", iteration=2)
    other = Experience(
        "Solve the grade school math problem", Change(note="Say one digit only"), "worse", rows=9
    )
    file.record([other], run_id="r2", iteration=2)
    assert len(file.load()) == 2


@pytest.mark.parametrize(
    ("after", "rows", "verdict"),
    [(0.2, 40, "no_difference"), (0.2, 400, "worse"), (0.79, 1, "better")],
)
def test_contradicting_measurements_are_weighed(
    file: ExperienceFile, after: float, rows: int, verdict: Verdict
) -> None:
    file.record([lesson("Say one digit only", 0.5, 0.8, 40)], run_id="r1", iteration=2)
    file.record([lesson("Say one digit only", 0.5, after, rows, "worse")], run_id="r2", iteration=2)
    assert [entry.verdict for entry in file.load()] == [verdict]


def test_priority_falls_with_other_entries_and_slower_for_warnings(file: ExperienceFile) -> None:
    first = [lesson("Say one digit only"), lesson("Show hard cases first", 0.5, 0.3, verdict="worse")]
    file.record(first, run_id="r1", iteration=2)
    for number in range(10):
        file.record([lesson(change_of(number))], run_id="r2", iteration=number)
    helped, harmed = file.load()[:2]
    assert helped.priority == pytest.approx(0.98**10, rel=1e-3)
    assert harmed.priority == pytest.approx(0.99**10, rel=1e-3)


def test_the_oldest_are_forgotten_and_warnings_and_confirmed_lessons_last(file: ExperienceFile) -> None:
    confirmed, warning = (
        lesson("Say one digit only"),
        lesson("Show hard cases first", 0.5, 0.3, verdict="worse"),
    )
    file.record([confirmed, warning], run_id="r0", iteration=2)
    for iteration in (3, 4):
        file.record([confirmed], run_id="r0", iteration=iteration)
    for start in range(0, 220, 20):
        file.record([lesson(change_of(n)) for n in range(start, start + 20)], run_id="r2", iteration=start)
    changes = [entry.text for entry in file.load()]
    assert len(changes) == MAX_ENTRIES
    assert {confirmed.text, warning.text, change_of(219)} <= set(changes)
    assert change_of(0) not in changes


def test_what_a_person_wrote_survives_a_write(file: ExperienceFile) -> None:
    file.path.parent.mkdir()
    file.path.write_text(
        "# mine\n\n- [better] My own advice\n  mood: good\n\n- [bettr] broken\n", encoding="utf-8"
    )
    file.record([lesson("Say one digit only")], run_id="r1", iteration=2)
    text = file.path.read_text(encoding="utf-8")
    assert all(line in text for line in ("# mine", "] My own advice", "  mood: good", "- [bettr] broken"))
    assert [str(problem)[:7] for problem in file.problems()] == ["line 7:"]
    assert [entry.text for entry in file.load()] == ["My own advice", "Say one digit only"]


def test_two_processes_that_write_at_once_lose_nothing(file: ExperienceFile) -> None:
    code = (
        "import sys; from pathlib import Path\n"
        "from autoprompt.memory import Experience, ExperienceFile\n"
        "from autoprompt.records import Change\n"
        "file, me = ExperienceFile(Path(sys.argv[1])), sys.argv[2]\n"
        "sys.stdin.readline()\n"
        "for n in range(50):\n"
        "    change = Change(note=f'{me * 9} {n:03}')\n"
        "    entry = Experience(f'subject{me}{n:03}{n:03}', change, 'better', rows=10)\n"
        "    file.record([entry], run_id=f'run-{me}', iteration=n)\n"
    )
    children = [
        subprocess.Popen([sys.executable, "-c", code, str(file.path), me], stdin=subprocess.PIPE)
        for me in "ab"
    ]
    for child in children:
        assert child.stdin is not None
        child.stdin.write(b"go\n")
        child.stdin.flush()
    for child in children:
        child.communicate(timeout=60)
        assert child.returncode == 0
    sources = {source for entry in file.load() for source in entry.sources}
    assert len(sources) == 100
    assert len(file.load()) == 100
    assert file.problems() == []


def test_search_finds_words_and_like_tasks(file: ExperienceFile) -> None:
    other = Experience("判断新闻标题是否为标题党", Change(note="给出悬念句式的示例"), "better", rows=9)
    file.record(
        [lesson("Say one digit only"), lesson("Show hard cases first"), other], run_id="r1", iteration=2
    )
    assert [entry.text for entry in file.search("DIGIT only")] == ["Say one digit only"]
    assert [entry.text for entry in file.search("标题党")] == ["给出悬念句式的示例"]
    assert len(file.search("clickbait headline")) == 2
    assert file.search("quantum") == []


def test_forget_by_id_and_by_condition(file: ExperienceFile) -> None:
    file.record([lesson(change_of(n), rows=n) for n in (1, 2, 3)], run_id="r1", iteration=2)
    first = file.load()[0]
    assert [entry.id for entry in file.forget([first.id[:6]])] == [first.id]
    assert [entry.rows for entry in file.forget(where=lambda entry: entry.rows == 2)] == [2]
    assert [entry.rows for entry in file.load()] == [3]
    with pytest.raises(InputError, match=f"no entry '{first.id}'"):
        file.forget([file.load()[0].id, first.id])
    assert len(file.load()) == 1


def test_an_id_that_two_entries_have_forgets_neither(file: ExperienceFile) -> None:
    file.path.parent.mkdir()
    file.path.write_text("- [better] Say one digit\n- [worse] Say one digit\n", encoding="utf-8")
    doomed = file.load()[0].id
    with pytest.raises(InputError, match=f"'{doomed}' matches {doomed}, {doomed}. Give more of the id"):
        file.forget([doomed])
    assert len(file.load()) == 2


def test_the_runs_are_those_whose_lessons_tell_of_the_task(file: ExperienceFile) -> None:
    assert file.run_ids(TASK) == set()
    file.record([lesson(change_of(1))], run_id="one", iteration=2)
    file.record([replace(lesson(change_of(2)), task="Translate the letter.")], run_id="two", iteration=2)
    file.record([lesson(change_of(3), 0.5, 0.5, verdict="no_difference")], run_id="three", iteration=2)
    assert file.run_ids(TASK) == {"one"}


def test_export(file: ExperienceFile) -> None:
    file.record([lesson("Say | one digit")], run_id="r1", iteration=2)
    (row,) = json.loads(file.export("json"))
    assert (row["change"], row["rows"], row["id"]) == ("Say | one digit", 40, file.load()[0].id)
    assert file.export("csv").splitlines()[1].startswith(f"{row['id']},better,0.5,0.6,40,")
    assert "| better | +0.10 | 40 | Say \\| one digit |" in file.export("md")
    with pytest.raises(InputError, match=r"Known: json, csv, md\.$"):
        file.export("xml")


def test_what_is_no_lesson_is_refused(file: ExperienceFile) -> None:
    for entry in (lesson(" "), Experience("", Change(note="x"), "better")):
        with pytest.raises(ValueError, match="needs a task and a change"):
            file.record([entry], run_id="r1", iteration=2)
    with pytest.raises(ValueError, match="not a run id"):
        file.record([lesson("x")], run_id="my run", iteration=2)


def test_a_file_in_another_encoding_is_not_touched(file: ExperienceFile) -> None:
    file.path.parent.mkdir()
    file.path.write_bytes("标题党".encode("gbk"))
    with pytest.raises(InputError, match="Save it as UTF-8"):
        file.record([lesson("x")], run_id="r1", iteration=2)
    assert file.path.read_bytes() == "标题党".encode("gbk")


def test_a_place_that_cannot_be_written_is_our_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="Name another file as memory_file="):
        ExperienceFile(tmp_path / "file" / "m.txt").record([lesson("x")], run_id="r1", iteration=2)


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "real.txt").write_text("# shared\n")
    (tmp_path / "link.txt").symlink_to(tmp_path / "real.txt")
    ExperienceFile(tmp_path / "link.txt").record([lesson("x")], run_id="r1", iteration=2)
    assert (tmp_path / "link.txt").is_symlink()
    assert "] x" in (tmp_path / "real.txt").read_text()


def test_lessons_that_the_file_has_no_room_for_are_kept_in_a_dated_file(tmp_path: Path) -> None:
    file = ExperienceFile(tmp_path / "lessons.txt")
    many = [lesson(change_of(n), rows=n + 1) for n in range(MAX_ENTRIES)]
    assert file.record(many, run_id="r1", iteration=2) == Recorded(MAX_ENTRIES)
    done = file.record([lesson("Be brief"), lesson("Name the unit")], run_id="r2", iteration=3)
    assert (done.new, done.dropped) == (2, 2)
    assert done.dropped_to is not None
    assert done.dropped_to.name.startswith("lessons.dropped-20")
    again = file.record([lesson("Count twice")], run_id="r3", iteration=3)
    assert again.dropped_to == done.dropped_to
    dropped = ExperienceFile(done.dropped_to)
    assert dropped.problems() == []
    kept, gone = {e.text for e in file.load()}, {e.text for e in dropped.load()}
    assert (len(kept), len(gone)) == (MAX_ENTRIES, 3)
    assert kept | gone == {e.text for e in many} | {"Be brief", "Name the unit", "Count twice"}


CHANGES = {change_of(n) for n in range(MAX_ENTRIES + 3)}
TODAY = f"{datetime.now(UTC):%Y-%m-%d}"


@pytest.fixture
def full(tmp_path: Path) -> ExperienceFile:
    """Three lessons more than the file has room for, as a person or an earlier version may leave it."""
    file = ExperienceFile(tmp_path / "lessons.txt")
    file.path.write_text("\n".join(f"- [better] {change}\n  task: {TASK}\n" for change in CHANGES), "utf-8")
    return file


def changes_in(folder: Path) -> set[str]:
    return {entry.text for path in folder.glob("*.txt") for entry in ExperienceFile(path).load()}


def as_link(file: ExperienceFile) -> None:
    (file.path.parent / "elsewhere").mkdir()
    file.path.rename(file.path.parent / "elsewhere" / "real.txt")
    file.path.symlink_to(file.path.parent / "elsewhere" / "real.txt")


CROWDED: dict[str, Callable[[ExperienceFile], object]] = {
    "lessons of a person": lambda file: None,
    "line ends of Windows": lambda file: file.path.write_bytes(
        file.path.read_bytes().replace(b"\n", b"\r\n")
    ),
    "an entry that cannot be read": lambda file: file.path.write_text(
        file.path.read_text("utf-8") + "\n- [bettr] broken\n", "utf-8"
    ),
    "a link": as_link,
    "a dated copy of a person": lambda file: file.path.with_name(f"lessons.dropped-{TODAY}.txt").write_text(
        "- [better] Mine\n\n# a note", "utf-8"
    ),
    "a dated copy that links to nothing": lambda file: file.path.with_name(
        f"lessons.dropped-{TODAY}.txt"
    ).symlink_to("later.txt"),
}


@pytest.mark.parametrize("way", CROWDED)
def test_a_crowded_file_loses_no_lesson(way: str, full: ExperienceFile) -> None:
    CROWDED[way](full)
    done = full.record([lesson("Be brief")], run_id="r1", iteration=2)
    assert (done.new, done.dropped, len(full.load())) == (1, 4, MAX_ENTRIES)
    assert changes_in(full.path.parent) >= CHANGES | {"Be brief"}
    if way == "an entry that cannot be read":
        assert "- [bettr] broken" in full.path.read_text(encoding="utf-8")
    if way == "a dated copy of a person":
        assert done.dropped_to is not None
        assert done.dropped_to.read_text(encoding="utf-8").startswith(
            "- [better] Mine\n\n# a note\n\n- [better] "
        )


def test_two_runs_that_crowd_a_file_at_once_lose_no_lesson(full: ExperienceFile) -> None:
    def record(run: int) -> None:
        full.record([lesson(f"{run} {change_of(n)}") for n in range(20)], run_id=f"r{run}", iteration=1)

    with ThreadPoolExecutor(4) as runs:
        list(runs.map(record, range(8)))
    own = {f"{run} {change_of(n)}" for run in range(8) for n in range(20)}
    assert changes_in(full.path.parent) == CHANGES | own


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda path: path.write_bytes("标题党".encode("gbk")), "not UTF-8 text"),
        (Path.mkdir, "cannot be read"),
        (os.mkfifo, "cannot be read"),
        (lambda path: path.symlink_to(path), "cannot be read"),
        (lambda path: path.symlink_to("/dev/zero"), "cannot be read"),
    ],
    ids=["another encoding", "a folder", "a pipe", "a link to itself", "a device"],
)
def test_lessons_that_cannot_be_kept_apart_stay(
    make: Callable[[Path], object], said: str, full: ExperienceFile
) -> None:
    apart = full.path.with_name(f"lessons.dropped-{TODAY}.txt")
    make(apart)
    before = full.path.read_bytes()
    with pytest.raises(InputError, match=f"{re.escape(str(apart))}: {said}"):
        full.record([lesson("Be brief")], run_id="r1", iteration=2)
    assert full.path.read_bytes() == before
