"""What a data file is read as where it is not UTF-8."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from autoprompt.sandbox import Limits, probe
from autoprompt.science.requests import Survey, take_survey


def surveyed(path: Path, content: bytes) -> Survey:
    path.write_bytes(content)
    work = path.parent / "work"
    return take_survey([path], work, "en", level=probe(), limits=Limits(), python=sys.executable)


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
    written = content.encode("gb18030" if "姓" in content or "城" in content else "cp1252")
    found = surveyed(tmp_path / "t.csv", written)
    assert re.search(rf"encoding=['\"]{encoding}", found.files)  # with pandas, and without it
    assert is_guess or content.splitlines()[1].split(";")[0].split(",")[0] in found.files
    said = f"t.csv: not UTF-8; read as {encoding.upper()}, which is a guess. If letters are wrong, convert"
    assert [said in str(warning) for warning in found.warnings] == [True] * is_guess


@pytest.mark.parametrize("order", ["le", "be"])
@pytest.mark.parametrize("name", ["t.csv", "t.txt"])
def test_a_byte_order_mark_of_utf_16_tells_the_encoding(name: str, order: str, tmp_path: Path) -> None:
    found = surveyed(tmp_path / name, "\ufeffStadt\tZahl\nKöln\t3\n北京\t4\n".encode(f"utf-16-{order}"))
    assert re.search(r"encoding=['\"]utf-16['\"]", found.files)
    assert "北京" in found.files
    assert found.warnings == ()


@pytest.mark.parametrize(("name", "is_told"), [("t.csv", True), ("t.bin", False)])
def test_a_nul_is_no_doubt_only_in_what_is_no_table(name: str, is_told: bool, tmp_path: Path) -> None:
    found = surveyed(tmp_path / name, "Stadt,Zahl\nKöln,3\nÄÖL,4\n".encode("utf-16-le"))
    told = [warning.place.file for warning in found.warnings]
    assert told == [Path(name)] * is_told
