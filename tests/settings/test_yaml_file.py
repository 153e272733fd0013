from __future__ import annotations

import re
import resource
import time
from pathlib import Path

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, ConfigDict

from autoprompt.batch.spec import BatchFile
from autoprompt.errors import ConfigError, Place
from autoprompt.settings.records import ConfigFile, RunConfig, ScienceConfig
from autoprompt.settings.yaml_file import line_at, load_yaml, open_mapping, safe_load, top_keys


class Part(BaseModel):
    model_config = ConfigDict(extra="forbid")
    name: str
    file: Path | None = None


class Whole(BaseModel):
    model_config = ConfigDict(extra="forbid")
    title: str = ""
    parts: tuple[Part, ...] = ()
    files: tuple[Path, ...] = ()


def write(folder: Path, content: str | bytes) -> Path:
    path = folder / "c.yaml"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def test_a_config_file_says_what_it_gave_with_paths_beside_it(tmp_path: Path) -> None:
    found = load_yaml(write(tmp_path, "dataset: data/d.jsonl\nmax_val: 50\nruns_dir: /abs\n"), RunConfig)
    assert found.model_fields_set == {"dataset", "max_val", "runs_dir"}
    assert found.dataset == tmp_path / "data/d.jsonl"
    assert found.runs_dir == Path("/abs")
    assert found.memory_file == Path("memory/memory_experiences.txt")


def test_lists_of_paths_are_beside_the_file(tmp_path: Path) -> None:
    assert load_yaml(write(tmp_path, "files: [a, /b]"), Whole).files == (tmp_path / "a", Path("/b"))


@pytest.mark.parametrize(
    ("content", "line", "said"),
    [
        ("", 1, "the file is empty"),
        ("# nothing\n", 1, "the file is empty"),
        ("- a\n- b\n", 1, "expected `key: value`"),
        ("title: a: b\n", 1, "not YAML"),
        ("title: a\nparts: [1, 2\n", 3, "not YAML"),
        ("title: a\ntitle: b\n", 2, "the key 'title' is given twice (line 1)"),
        ("parts:\n- {name: a, name: b}\n", 2, "the key 'name' is given twice (line 2)"),
        ("title: a\ntitel: b\n", 2, "titel: unknown key. Did you mean 'title'?"),
        ("title: a\nzzz: b\n", 2, "Known keys: title, parts, files."),
        ("parts:\n- name: a\n- name: b\n  flie: x\n", 4, "parts.1.flie: unknown key. Did you mean 'file'?"),
        ("parts:\n- name: a\n- file: x\n", 3, "parts.1.name: no value, expected one. Add it."),
        ("\n\ntitle: 1\n", 3, 'Put it in quotes: "1"'),
        ("title: [a]\n", 1, "title: expected a text, found ['a']."),
        ("1: a\n", 1, "key 1 is no text"),
        ("title: &a [*a]\n", 1, "*a is inside of &a"),
        ("title: !!python/object/apply:os.getcwd []\n", 1, "not YAML"),
        ("title: !!int x\n", 0, "not YAML"),
        ("title: \x01\n", 0, "not YAML"),
        ("a: b\ntitle: 标题\n".encode("gbk"), 2, "not UTF-8"),
        (b"a: b\n\x89PNG\xff\x00\x00", 2, "binary data (a NUL byte), expected text. Give a YAML file."),
        ("title: a\n".encode("utf-16-le"), 1, "the file is UTF-16, expected UTF-8. Convert it: iconv"),
    ],
)
def test_a_mistake_is_named_with_its_line(tmp_path: Path, content: str | bytes, line: int, said: str) -> None:
    path = write(tmp_path, content)
    with pytest.raises(ConfigError) as caught:
        load_yaml(path, Whole)
    assert str(caught.value).startswith(f"{path} line {line}: " if line else str(path))
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (
            'labels: "urgent, normal"',
            "labels: expected a list, found 'urgent, normal'. Write labels: [urgent, normal].",
        ),
        ("labels: urgent", "labels: expected a list, found 'urgent'. Write labels: [urgent]."),
        ("labels: 3", "labels: expected a list, found 3. Write labels: [3]."),
        (
            'locked: "Sort, well"',
            "locked: expected a list, found 'Sort, well'. Write locked: [\"Sort, well\"].",
        ),
        ("locked: {a: b}", "locked: expected a list, found {'a': 'b'}."),
        ("max_calls: true", "max_calls: expected a number, not true or false."),
        ("temperature: false", "temperature: expected a number, not true or false."),
        ("must_pass: T0005", "must_pass: expected a list, found 'T0005'. Write must_pass: [T0005]."),
        (f"must_pass: {'T' * 80}", "… Write must_pass: [...]."),
        (
            "metric_options: 5",
            "metric_options: expected keys with values below it, found 5. Write KEY: VALUE.",
        ),
    ],
)
def test_a_setting_of_another_kind_is_told_how_to_write_it(tmp_path: Path, content: str, said: str) -> None:
    path = write(tmp_path, f"{content}\n")
    with pytest.raises(ConfigError) as caught:
        load_yaml(path, ConfigFile)
    assert str(caught.value).startswith(f"{path} line 1: ")
    assert str(caught.value).endswith(said)


@pytest.mark.parametrize(
    ("content", "said"),
    [("agent: 5", "agent: {}search."), ("agent: {search: 5}", "agent.search: {}max_iterations.")],
)
def test_a_record_that_is_none_is_told_its_keys(tmp_path: Path, content: str, said: str) -> None:
    path = write(tmp_path, f"{content}\n")
    expected = said.format("expected keys with values below it, found 5. Known keys: ")
    with pytest.raises(ConfigError, match=f"line 1: {re.escape(expected)}$"):
        load_yaml(path, ScienceConfig)


def test_a_list_of_records_is_no_list_of_what_stands_there(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"parts: expected a list of entries with name, file, found 3\.$"):
        load_yaml(write(tmp_path, "parts: 3\n"), Whole)


def test_a_setting_left_empty_means_its_default(tmp_path: Path) -> None:
    text = "preset:\nmax_calls:\nlocked:\nmetric_options:\nmax_val: 50\n"
    found = load_yaml(write(tmp_path, text), RunConfig)
    assert (found.preset, found.max_calls, found.locked, found.metric_options) == ("standard", None, (), {})
    assert "preset" not in found.model_fields_set
    assert (
        load_yaml(write(tmp_path, f"defaults:\n  preset:\n{'matrix'}:\n"), BatchFile).defaults.preset
        == "standard"
    )


def test_mistakes_come_together(tmp_path: Path) -> None:
    path = write(tmp_path, "titel: x\ntitle: 2\n" + "".join(f"z{i}: 1\n" for i in range(12)))
    with pytest.raises(ConfigError) as caught:
        load_yaml(path, Whole)
    lines = str(caught.value).splitlines()
    assert len(lines) == 11
    assert [line.split(": ")[0] for line in lines[:3]] == [f"{path} line {n}" for n in (1, 2, 3)]
    assert lines[10] == f"{path}: 4 of 14 problems are not listed."
    problems = caught.value.problems
    assert [problem.code for problem in problems] == [
        "settings.unknown",
        "settings.bad-value",
        *["settings.unknown"] * 8,
        "settings.more-problems",
    ]
    assert problems[1].place == Place(path, 2, setting="title", source="file")


def test_a_missing_file_and_a_folder_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no such file") as caught:
        load_yaml(tmp_path / "none.yaml", Whole)
    assert caught.value.__suppress_context__  # a traceback shows it alone
    assert caught.value.__cause__ is None
    with pytest.raises(ConfigError, match="this is a folder"):
        load_yaml(tmp_path, Whole)


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    data=st.lists(
        st.sampled_from(
            ["a", "title", ": ", "- ", "\n", "  ", "[", "]", "{", "}", "&x ", "*x", "<<", "|", "!", "'"]
        )
    )
)
def test_any_punctuation_is_read_or_refused(tmp_path: Path, data: list[str]) -> None:
    path = write(tmp_path, "".join(data))
    refusal = str(path)
    try:
        load_yaml(path, Whole)
    except ConfigError as error:
        refusal = str(error)
    assert refusal.startswith(str(path))


def doubling(levels: int, width: int = 9) -> str:
    """Levels of lists, each of them `width` times the one before."""
    lines = ["a0: &a0 [x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * width)}]" for n in range(1, levels)]
    return "\n".join(lines) + "\n"


BOMBS = {
    "lists": doubling(12),
    "two at a time": doubling(60, 2),
    "mappings": "a0: &a0 {k: x}\n"
    + "".join(f"a{n}: &a{n} {{k: *a{n - 1}, l: *a{n - 1}}}\n" for n in range(1, 50)),
    "merged keys": "a0: &a0 {k0: x}\n"
    + "".join(f"a{n}: &a{n} {{<<: [*a{n - 1}, *a{n - 1}]}}\n" for n in range(1, 50)),
    "as keys": "? &a [x, x]\n: x\n" + "b: [" + ", ".join(["*a"] * 200_000) + "]\n",
    "one line": "title: [" + "x, " * 260_000 + "x]\n",
    "in itself": "title: &a {b: [*a]}\n",
    "in itself by another": "title: &a [&b [*a], *b]\n",
}


@pytest.mark.parametrize("name", BOMBS)
def test_a_file_that_aliases_blow_up_is_rejected_in_seconds(tmp_path: Path, name: str) -> None:
    path = write(tmp_path, BOMBS[name])
    begun, before = time.process_time(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for read in (
        lambda: load_yaml(path, Whole),
        lambda: open_mapping(path),
        lambda: top_keys(path),
        lambda: line_at(path, ("title",)),
    ):
        with pytest.raises(
            ConfigError, match=rf"^{path} line \d+: (more than 250,000 values|\*\w+ is inside of)"
        ):
            read()
    with pytest.raises(yaml.YAMLError):
        safe_load(BOMBS[name])
    assert time.process_time() - begun < 30
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 500_000


@pytest.mark.parametrize(
    "content",
    [
        "title: " + "[" * 100_000,
        "title: " + "[" * 101 + "]" * 101,
        "title: " + "{a: " * 100_000,
        "- " * 100_000 + "x",
        "? " * 100_000 + "x",
        "".join(f"{' ' * n}a:\n" for n in range(150)),
    ],
    ids=["lists", "closed lists", "mappings", "blocks", "keys", "lines"],
)
def test_deep_nesting_is_rejected_in_seconds(tmp_path: Path, content: str) -> None:
    path = write(tmp_path, content)
    begun = time.process_time()
    with pytest.raises(ConfigError, match=rf"^{path} line \d+: (nested more than 100 levels deep|not YAML)"):
        load_yaml(path, Whole)
    assert time.process_time() - begun < 20


def test_a_large_file_is_rejected_unread(tmp_path: Path) -> None:
    path = tmp_path / "c.yaml"
    with path.open("wb") as file:
        file.truncate(10_000_000_000)
    with pytest.raises(ConfigError, match="more than 50,000,000 bytes"):
        load_yaml(path, Whole)


def test_aliases_that_save_writing_are_read(tmp_path: Path) -> None:
    text = "files: &f [a, b]\nparts: [&p {name: x}, *p, {<<: *p, file: y}]\n"
    found = load_yaml(write(tmp_path, text), Whole)
    assert [part.name for part in found.parts] == ["x", "x", "x"]


def test_a_hundred_thousand_unknown_keys_are_told_in_seconds(tmp_path: Path) -> None:
    path = write(tmp_path, "".join(f"labe{n}: 1\n" for n in range(100_000)))
    begun = time.process_time()
    with pytest.raises(ConfigError, match="99,900 more problems"):
        load_yaml(path, ConfigFile)
    assert time.process_time() - begun < 40


@pytest.mark.parametrize(
    ("written", "read"),
    [
        (r'"\ud83d\ude00 yes"', "\U0001f600 yes"),
        (r'"\ud83d"', "\ud83d"),  # half of a pair stays half
        (r"'\ud83d\ude00'", r"\ud83d\ude00"),  # no escape in single quotes
        (r"\ud83d\ude00", r"\ud83d\ude00"),
        (r'["\ud83d\ude00", 7]', ["\U0001f600", 7]),
        (r'{"\ud83d\ude00": a}', {"\U0001f600": "a"}),
    ],
)
def test_an_emoji_as_json_escapes_it(written: str, read: object, tmp_path: Path) -> None:
    path = tmp_path / "a.yaml"
    path.write_text(f"a: {written}\n", encoding="utf-8")
    assert open_mapping(path).data == {"a": read}
    assert safe_load(f"a: {written}\n") == {"a": read}
