"""A small table of our own, the answers of the three-pass example over it, and a sandbox or a skip."""

from __future__ import annotations

from pathlib import Path

import pytest

from autoprompt.sandbox import probe

FARES = ("7.25", "71.2833", "7.925", "53.1", "8.05", "")
ROWS = (
    "Ada,female,22,A1",
    "Bea,female,38,",
    "Cid,male,,B2",
    "Dan,male,35,",
    "Eve,female,4,C3",
    "Fay,female,,",
)
MEAN = "29.521660"

FIRST = """<Phenomenon>
数据集包含乘客信息和票价
</Phenomenon>

<Hypothesis>
平均票价可以直接计算
</Hypothesis>

<Model>
mean_fare = sum(fares) / len(fares)
</Model>

<Experiment>
import csv
with open('passengers.csv', encoding='utf-8') as file:
    fares = [float(row['Fare']) for row in csv.DictReader(file) if row['Fare']]
print(f'Mean fare: {sum(fares) / len(fares):.6f}')
</Experiment>"""
SECOND = """<Inference>
平均票价为 29.52，需要保存到文件
</Inference>

<Hypothesis>
保存结果到 output.txt
</Hypothesis>

<Model>
使用 Python 文件写入
</Model>

<Experiment>
with open('output.txt', 'w') as f:
    f.write('29.52')
print('Saved')
</Experiment>"""
LAST = """<Inference>
成功保存结果
</Inference>

<Conclusion>
平均票价为 29.52，已保存到 output.txt
</Conclusion>"""


@pytest.fixture
def passengers(tmp_path: Path) -> Path:
    path = tmp_path / "data" / "passengers.csv"
    path.parent.mkdir()
    lines = [f"{row},{fare}" for row, fare in zip(ROWS, FARES, strict=True)]
    path.write_text("Name,Sex,Age,Cabin,Fare\n" + "\n".join(lines) + "\n", encoding="utf-8")
    return path


@pytest.fixture(autouse=True)
def _in_own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs are written below the working directory."""
    monkeypatch.chdir(tmp_path)


@pytest.fixture(autouse=True, scope="session")
def _confined() -> None:
    if not probe().confines:
        pytest.skip("nothing on this machine confines code")
