# expect: all-documents-blank
# check: data
"""Before a training: a conversion that lost the text of every row. The address of each is still there."""

import os

import pyarrow as pa
import pyarrow.parquet as pq


def main():
    os.mkdir("data")
    for part in range(3):
        table = {"text": ["", None, "  \n"] * 40, "url": [f"coast/{part}/{number}" for number in range(120)]}
        pq.write_table(pa.table(table), f"data/part-{part:05d}.parquet")


main()
