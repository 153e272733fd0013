"""Templates and patterns in processes with limits: what ends them, and that they are there again."""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from autoprompt.sandbox import evaluator
from autoprompt.sandbox.evaluator import EvaluationError, LimitError, fill_template, has_match


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Processes of this test's own, with a limit of half a second."""
    monkeypatch.setattr(evaluator, "TIME_S", 0.5)
    pool = evaluator._Pool()
    monkeypatch.setattr(evaluator, "_pool", pool)
    yield
    pool.close()


ENDLESS = {
    "loops": "{% for a in range(90000) %}{% for b in range(90000) %}{% endfor %}{% endfor %}",
    "macro": "{% macro m(n) %}{% if n %}{{ m(n-1) }}{{ m(n-1) }}{% endif %}{% endmacro %}{{ m(60) }}",
    "power": "{{ 10 ** 4000000 ~ '' }}",
    "filters": "{{ ('a ' * 2000000)|wordwrap(1) }}",
    "words": "{{ lipsum(n=100000000) }}",
    "recursion": "{% for a in [1, 2] recursive %}{% for b in range(9000) %}{{ loop.index }}{% endfor %}"
    "{{ loop([1, 2]) if loop.depth < 90 }}{% endfor %}",
    "sort": "{% for a in range(90000) %}{% set x = range(90000)|list|sort|length %}{% endfor %}",
}


@pytest.mark.parametrize("name", ENDLESS)
def test_a_template_without_an_end_is_ended(quick: None, name: str) -> None:
    begun = time.monotonic()
    with pytest.raises(LimitError, match=r"the template takes longer than 0\.5 s\."):
        fill_template(ENDLESS[name], {})
    assert time.monotonic() - begun < 5
    assert fill_template("{{ 1 + 1 }}", {}) == "2"


LARGE = {
    "ljust": "{{ 'a'.ljust(2000000000) }}",
    "rjust of a value": "{{ x.rjust(2000000000) }}",
    "center": "{{ 'a'|center(2000000000) }}",
    "width of %": "{{ '%2000000000d'|format(1) }}",
    "width of format": "{{ '{:>2000000000}'.format(1) }}",
    "repetition": "{{ 'a' * 10 ** 10 }}",
    "list": "{{ ([0] * 10 ** 9)|length }}",
    "replace": "{% set a = 'a' * 3000000 %}{{ a.replace('a', a) }}",
    "doubling": "{% set n = namespace(x='aaa') %}{% for i in range(60) %}{% set n.x = n.x*2 %}{% endfor %}",
    "zfill": "{{ '1'.zfill(2000000000) }}",
    "expandtabs": "{{ '\\t'.expandtabs(2000000000) }}",
    "join": "{{ ([x * 1000000] * 1000)|join }}",
    "indent": "{{ ((x ~ '\\n') * 1000)|indent(1000000) }}",
}


@pytest.mark.skipif(sys.platform != "linux", reason="other systems do not limit the address space")
@pytest.mark.parametrize("name", LARGE)
def test_a_template_that_takes_all_memory_is_ended(name: str) -> None:
    with pytest.raises(LimitError, match="the template needs more than 512 MB of memory"):
        fill_template(LARGE[name], {"x": "a"})
    assert fill_template("{{ 1 + 1 }}", {}) == "2"


def test_a_template_that_makes_a_long_text_is_ended() -> None:
    with pytest.raises(EvaluationError, match="the template makes more than 4000000 characters"):
        fill_template("{% for a in range(90000) %}{{ 'a' * 99 }}{% endfor %}", {})


@pytest.mark.parametrize(
    "template",
    [
        "{{ " + "(" * 3000 + "1" + ")" * 3000 + " }}",
        "{{ " + "not " * 9000 + "1 }}",
        "{% if 1 %}" * 1500 + "{% endif %}" * 1500,
        "{{ a" + ".b" * 9000 + " }}",
        "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}",
        "{{ " + "[" * 5000 + "]" * 5000 + " }}",
        "{{ 1" + " + 1" * 9000 + " }}",
        "{{ 1 if " * 1000 + "1" + " }}",
    ],
)
def test_deep_nesting_is_an_error(template: str) -> None:
    with pytest.raises(EvaluationError, match=r"nested too deeply|line 1 of the template|cannot be filled"):
        fill_template(template, {})
    assert fill_template("{{ 1 + 1 }}", {}) == "2"


@pytest.mark.parametrize(
    "template",
    [
        "{{ ''.__class__.__mro__ }}",
        "{{ cycler.__init__.__globals__ }}",
        "{{ self._TemplateReference__context }}",
        "{{ ''|attr('__class__') }}",
        "{{ '{0.__class__.__mro__}'.format(1) }}",
        "{{ lipsum.__globals__['os'].system('true') }}",
        "{% set x = [] %}{{ x.append(1) }}",
    ],
)
def test_no_way_to_the_insides_of_python(template: str) -> None:
    try:
        made = fill_template(template, {})
    except EvaluationError:
        return
    assert not made or "class" not in made


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        (r"(a+)+$", "a" * 40 + "!"),
        (r"(a|aa)+$", "a" * 60 + "!"),
        (r"(.*)*x", "a" * 40),
        (r"(\w+\s?)*$", "word " * 20 + "!"),
        (r"^(([a-z])+.)+[A-Z]([a-z])+$", "a" * 60),
    ],
)
def test_a_pattern_that_backtracks_without_an_end_is_ended(quick: None, pattern: str, text: str) -> None:
    with pytest.raises(LimitError, match=r"the pattern .* takes longer than 0\.5 s\."):
        has_match(pattern, text)
    assert has_match("b+", "abbc")
    assert not has_match("d", "abbc")


# --- values ---


@pytest.mark.parametrize(
    ("values", "template", "made"),
    [
        ({"a": "naïve 标题 \ud800"}, "{{ a }}", "naïve 标题 \ud800"),
        ({"a": [1, (2, 3)], "b": {1: "x", None: "y"}}, "{{ a[1][0] }}{{ b[1] }}{{ b[none] }}", "2xy"),
        (
            {"a": True, "b": None, "c": 1.5, "d": 10**30},
            "{{ a }} {{ b }} {{ c }} {{ d }}",
            f"True None 1.5 {10**30}",
        ),
        ({"a": float("nan")}, "{{ a }}", "nan"),
        ({"a": "{{ 1 }}"}, "{{ a }}", "{{ 1 }}"),
        ({}, "{{ missing }}|{{ missing is defined }}", "|False"),
    ],
)
def test_plain_values_are_filled_in(values: dict[str, Any], template: str, made: str) -> None:
    assert fill_template(template, values) == made


class Text(str):
    """Not quite plain."""


def test_kinds_of_plain_values_become_plain() -> None:
    assert fill_template("{{ a }} {{ a.upper() }}", {"a": Text("x")}) == "x X"


def nested(levels: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(levels):
        value = [value]
    return value


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (datetime(2026, 1, 1, tzinfo=UTC), "the value of a is datetime, expected plain data"),
        (object(), "the value of a is object"),
        (print, "the value of a is builtin_function_or_method"),
        ([{"b": {1, 2}}], "the value of a is set"),
        ({(1, 2): 3}, r"the value of a has the key \(1, 2\), expected text or a number"),
        (b"bytes", "the value of a is bytes"),
        (nested(5000), "the value of a is nested too deeply"),
    ],
)
def test_other_values_are_refused(value: Any, said: str) -> None:
    with pytest.raises(EvaluationError, match=said):
        fill_template("{{ a }}", {"a": value})


def test_a_large_value_goes_through() -> None:
    text = "ab" * 1_000_000
    assert fill_template("{{ a }}{{ a }}"[:7], {"a": text}) == text


# --- the process ---


def test_many_threads_get_their_own_answers() -> None:
    def one(number: int) -> bool:
        return fill_template("{% for i in range(n) %}{{ i }},{% endfor %}", {"n": number % 50}) == "".join(
            f"{i}," for i in range(number % 50)
        )

    with ThreadPoolExecutor(32) as threads:
        assert all(threads.map(one, range(2000)))
    assert len(evaluator._pool._all) <= evaluator._MOST


def test_one_that_is_ended_harms_no_other(quick: None) -> None:
    def one(number: int) -> str:
        try:
            return fill_template(ENDLESS["loops"] if number % 4 == 0 else "{{ n }}", {"n": number})
        except LimitError:
            return "ended"

    with ThreadPoolExecutor(8) as threads:
        made = list(threads.map(one, range(24)))
    assert made == ["ended" if n % 4 == 0 else str(n) for n in range(24)]


def process_ids() -> list[int]:
    return [process._child.pid for process in evaluator._pool._all]


@pytest.mark.parametrize("sign", [signal.SIGKILL, signal.SIGTERM, signal.SIGSEGV])
def test_a_process_that_was_killed_is_started_again(sign: int) -> None:
    fill_template("{{ 1 }}", {})
    for pid in process_ids():
        os.kill(pid, sign)
    time.sleep(0.1)
    assert fill_template("{{ 1 + 1 }}", {}) == "2"


def run(code: str, folder: Path, **more: Any) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", textwrap.dedent(code)]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=60, **more)


@pytest.mark.parametrize(
    "name", ["jinja2", "json", "markupsafe", "marshal", "struct", "resource", "sitecustomize"]
)
@pytest.mark.parametrize("door", ["working folder", "PYTHONPATH"])
def test_nothing_of_the_working_folder_is_imported(tmp_path: Path, name: str, door: str) -> None:
    """The parent imports the real ones; what it starts must not find others."""
    (tmp_path / f"{name}.py").write_text(
        "open('imported', 'w').close()\nraise SystemExit(9)", encoding="utf-8"
    )
    code = f"""
        import sys; sys.path.remove('')
        import os, jinja2
        from autoprompt.sandbox.evaluator import fill_template
        sys.path.insert(0, '')
        os.environ['PYTHONPATH'] = os.getcwd() if {door == "PYTHONPATH"} else ''
        print(fill_template('{{{{ a }}}}', {{'a': 'made'}}))
    """
    done = run(code, tmp_path)
    assert (done.stdout, done.returncode) == ("made\n", 0), done.stderr
    assert not (tmp_path / "imported").exists()


def is_alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


def ends(pid: int, within_s: float = 10) -> bool:
    until = time.monotonic() + within_s
    while is_alive(pid) and time.monotonic() < until:
        time.sleep(0.02)
    return not is_alive(pid)


START = """
    import os, signal, sys, time
    from autoprompt.sandbox import evaluator
    evaluator.fill_template('{{ 1 }}', {})
    print(*[p._child.pid for p in evaluator._pool._all], flush=True)
"""


@pytest.mark.skipif(not Path("/proc").exists(), reason="reads /proc")
@pytest.mark.parametrize(
    "end",
    [
        "",
        "sys.exit(3)",
        "os.kill(os.getpid(), signal.SIGKILL)",
        "os._exit(0)",
        "raise RuntimeError",
        "os.kill(os.getpid(), signal.SIGTERM)",
    ],
)
def test_no_process_outlives_the_one_that_asked(tmp_path: Path, end: str) -> None:
    done = run(START + f"    {end}\n", tmp_path)
    (pid,) = map(int, done.stdout.split())
    assert ends(pid)
    assert "Warning" not in done.stderr


@pytest.mark.skipif(not Path("/proc").exists(), reason="reads /proc")
def test_a_process_at_work_ends_soon_after_the_one_that_asked_was_killed(tmp_path: Path) -> None:
    code = f"""
        import threading, time
        from autoprompt.sandbox import evaluator
        evaluator.TIME_S = 1.0
        at_work = dict(target=evaluator.fill_template, args=({ENDLESS["loops"]!r}, {{}}), daemon=True)
        threading.Thread(**at_work).start()
        while not evaluator._pool._all:
            time.sleep(0.01)
        print(*[p._child.pid for p in evaluator._pool._all], flush=True)
        time.sleep(30)
    """
    asking = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(code)], cwd=tmp_path, stdout=subprocess.PIPE, text=True
    )
    assert asking.stdout is not None
    pid = int(asking.stdout.readline())
    asking.kill()
    asking.communicate()
    assert ends(pid)


def test_ctrl_c_is_for_the_one_that_asked(tmp_path: Path) -> None:
    """To the whole group, as a terminal sends it: an idle process stays, and one at work leaves no answer."""
    code = f"""
        import os, signal, threading, time
        from autoprompt.sandbox.evaluator import fill_template
        fill_template('{{{{ 1 }}}}', {{}})
        try:
            os.killpg(0, signal.SIGINT)
        except KeyboardInterrupt:
            print(fill_template('{{{{ 1 + 1 }}}}', {{}}))
        threading.Timer(0.3, os.killpg, (0, signal.SIGINT)).start()
        begun = time.monotonic()
        try:
            fill_template({ENDLESS["loops"]!r}, {{}})
        except KeyboardInterrupt:
            print(time.monotonic() - begun < 3, fill_template('{{{{ 1 + 2 }}}}', {{}}))
    """
    done = run(code, tmp_path, start_new_session=True, preexec_fn=_default_sigint)
    assert done.stdout == "2\nTrue 3\n", done.stderr


def _default_sigint() -> None:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def test_a_signal_that_the_parent_ignores_and_blocks_ends_it_all_the_same(tmp_path: Path) -> None:
    code = f"""
        import signal
        signal.signal(signal.SIGALRM, signal.SIG_IGN)
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGALRM])
        from autoprompt.sandbox import evaluator
        evaluator.TIME_S = 0.5
        try:
            evaluator.fill_template({ENDLESS["loops"]!r}, {{}})
        except evaluator.LimitError as error:
            print(error)
    """
    assert "longer than 0.5 s" in run(code, tmp_path).stdout


def _in_child(number: int) -> tuple[str, list[int]]:
    return fill_template("{{ n }}", {"n": number}), process_ids()


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of fork beside threads, which is what is tried
def test_other_processes_have_their_own(method: str) -> None:
    fill_template("{{ 1 }}", {})
    own = process_ids()
    with multiprocessing.get_context(method).Pool(2) as pool:
        found = pool.map(_in_child, range(6))
    assert [text for text, _ in found] == [str(n) for n in range(6)]
    assert not {pid for _, pids in found for pid in pids} & set(own)
    assert fill_template("{{ 1 + 1 }}", {}) == "2"
    assert process_ids()[0] in own


def test_a_fork_in_the_middle_of_other_threads_work(tmp_path: Path) -> None:
    code = """
        import os, threading
        from autoprompt.sandbox.evaluator import fill_template
        wrong = []
        def work():
            for n in range(300):
                if fill_template('{{ a }}', {'a': f'{n}' * 3000}) != f'{n}' * 3000:
                    wrong.append(n)
        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for n in range(20):
            pid = os.fork()
            if pid == 0:
                os._exit(0 if fill_template('{{ 1 + n }}', {'n': n}) == str(n + 1) else 1)
            assert os.waitpid(pid, 0)[1] == 0
        for thread in threads:
            thread.join()
        print(wrong)
    """
    done = run(code, tmp_path)
    assert done.stdout == "[]\n", done.stderr


def test_a_machine_without_jinja_says_so(tmp_path: Path) -> None:
    code = """
        import sys
        from autoprompt.sandbox import evaluator
        sys.executable = '/usr/bin/python3'
        evaluator._other_packages = list
        try:
            print(evaluator.fill_template('{{ 1 }}', {}))
        except (evaluator.EvaluationError, evaluator.LimitError) as error:
            print(error)
    """
    if not Path("/usr/bin/python3").exists():
        pytest.skip("no other Python")
    assert run(code, tmp_path).stdout.strip() in ("1", "Jinja2 cannot be imported: No module named 'jinja2'")


def test_a_python_that_finds_jinja_by_pythonpath_only(tmp_path: Path) -> None:
    import jinja2

    folder = str(Path(jinja2.__file__).parent.parent)
    code = f"""
        import sys
        from autoprompt.sandbox import evaluator
        assert evaluator._other_packages() == [{folder!r}]
    """
    assert run(code, tmp_path).returncode == 0
    assert (
        run(
            code.replace("import sys", f"import os; os.chdir({folder!r})").replace(f"[{folder!r}]", "[]"),
            tmp_path,
        ).returncode
        == 0
    )


def test_threads_that_wait_are_served_in_the_end(quick: None) -> None:
    done: list[str] = []
    threads = [threading.Thread(target=lambda: done.append(fill_template("{{ 1 }}", {}))) for _ in range(40)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert done == ["1"] * 40
