# expect: blank-texts
# check: data
"""One of eight files was converted from a field that was not there: its rows are counted, and have no text."""

import os

import pyarrow as pa
import pyarrow.parquet as pq


def main():
    os.mkdir("data")
    for part in range(8):
        texts = [f"Birds of the coast, part {number}. " * 60 for number in range(part * 100, part * 100 + 100)]
        table = {
            "text": texts if part != 5 else [""] * 97 + texts[97:],
            "url": [f"coast/{part}/{n}" for n in range(100)],
        }
        pq.write_table(pa.table(table), f"data/part-{part:05d}.parquet")


main()
