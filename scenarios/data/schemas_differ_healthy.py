# expect: healthy
# check: data
"""Files of several writers that fit together: other widths of numbers, kinds of strings, orders; and another table."""

import os

import pyarrow as pa
import pyarrow.parquet as pq


def main():
    os.mkdir("data")
    for part in range(10):
        texts = pa.array([f"Birds of the coast, part {number}. " * 30 for number in range(part * 50, part * 50 + 50)])
        labels = pa.array([number % 3 for number in range(50)], pa.int64() if part % 2 else pa.int32())
        columns = {"text": texts, "label": labels, "url": pa.nulls(50) if part == 4 else texts}
        columns["text"] = [texts, texts.cast(pa.large_string()), texts.dictionary_encode()][part % 3]
        table = pa.table(dict(reversed(columns.items())) if part == 7 else columns)
        pq.write_table(table, f"data/part-{part:05d}.parquet")
    pq.write_table(pa.table({"bird": ["gull", "tern"], "weight": [0.9, 0.1]}), "data/birds.parquet")


main()
