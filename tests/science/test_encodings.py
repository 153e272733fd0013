"""What a data file is read as where it is not UTF-8."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from autoprompt.sandbox import Limits, probe
from autoprompt.science.survey import take_survey


@pytest.mark.parametrize(
    ("content", "encoding", "is_guess"),
    [
        ("kunde;ort;umsatz\nMüller;Köln;3,5\nGrün;München;4\n", "cp1252", False),
        ("nom;ville\nHélène;Genève\ncréée;à Besançon\n", "cp1252", False),
        ("name\n„Größe“ – 5 €\n", "cp1252", False),
        ("name\nJosé", "cp1252", False),
        ("城市,人口\n北京,21\n上海,24\n", "gb18030", False),
        ("姓名,部门\n王芳,T恤销售\n李娜,A股\n张伟,IT部\n", "gb18030", False),
        ("姓名\n张喆,陈祎\n赵珺,孙芃\n", "gb18030", True),
        ("name\nÄÖL\n", "gb18030", True),  # 轮L in GB18030
    ],
)
def test_the_encoding_is_told_by_what_stands_in_the_languages(
    content: str, encoding: str, is_guess: bool, tmp_path: Path
) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes(content.encode("gb18030" if "姓" in content or "城" in content else "cp1252"))
    found = take_survey(
        [path], tmp_path / "work", "en", level=probe(), limits=Limits(), python=sys.executable
    )
    assert re.search(rf"encoding=['\"]{encoding}", found.files)  # with pandas, and without it
    assert is_guess or content.splitlines()[1].split(";")[0].split(",")[0] in found.files
    warning = f"is a guess: t.csv as {encoding.upper()}. Where letters come out wrong, convert the file"
    assert (warning in found.warning) is is_guess
    assert bool(found.warning) is is_guess
