"""The pages that are written from the code say what the commands take."""

from __future__ import annotations

import re
import sys
from pathlib import Path

from autoprompt.errors import variable_name
from autoprompt.settings.sources import OTHER_VARIABLES

sys.path.insert(0, str(Path(__file__).parents[2] / "docs"))
from write_reference import main, pages


def test_every_flag_of_the_settings_page_is_one_of_a_command() -> None:
    flags = set(re.findall(r"`(--[\w-]+)`", pages()["reference/settings.md"]))
    assert flags <= set(re.findall(r"--[a-z][\w-]+", pages()["reference/cli.md"]))
    assert "--max-iterations" in flags


def test_a_setting_stands_where_it_means_something_else_too() -> None:
    rows = re.findall(r"^\| `timeout` \| .*$", pages()["reference/settings.md"], re.MULTILINE)
    assert [re.search(r"120|600", row) is not None for row in rows] == [True, True]
    assert "Settings(" not in pages()["reference/settings.md"]


def test_keys_and_other_variables_are_told_of() -> None:
    told = re.findall(r"`(AUTOPROMPT_\w+)`", pages()["reference/settings.md"].partition("## ")[0])
    assert sorted(told) == sorted(map(variable_name, OTHER_VARIABLES))


def test_the_pages_are_up_to_date() -> None:
    assert main(["--check"]) == 0
