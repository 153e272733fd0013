"""What a model answers in the example of three passes, over the table of the science tests."""

from __future__ import annotations

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
