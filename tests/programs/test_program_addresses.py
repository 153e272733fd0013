"""What is said of an address of `--program` that does not lead to a program."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from autoprompt.errors import ConfigError
from autoprompt.programs.calling import caller_of, import_program


@pytest.mark.parametrize(
    ("address", "said"),
    [
        ("desk_a.py:desk", "desk_a.py is a file, expected the name of a module. Write `desk_a:desk`."),
        ("pkg/desk_a.py:make()", "Write `pkg.desk_a:make()`."),
        ("nowhere_at_all:desk", "No module named 'nowhere_at_all'. Run from"),
        ("desk_a:broken()", "desk_a:broken() failed: ValueError: no (FILE line 2)."),
        ("desk_a:broken(1)", "desk_a has no 'broken(1)'"),
    ],
)
def test_an_address_that_fails_names_what_the_user_wrote(
    address: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "desk_a", raising=False)
    file = tmp_path / "desk_a.py"
    file.write_text("def broken():\n    raise ValueError('no')\n", encoding="utf-8")
    with pytest.raises(ConfigError) as caught:
        import_program(address)
    assert said.replace("FILE", str(file)) in str(caught.value)
    assert "calling.py" not in str(caught.value)


def test_a_factory_without_its_brackets_is_told_so() -> None:
    def make_app() -> object:
        return object()

    with pytest.raises(ConfigError, match=r"make_app takes no argument.*: `make_app\(\)`"):
        caller_of(make_app, input_field="input", target_field="target")
