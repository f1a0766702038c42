# expect: empty-file
# check: data
"""A job of five wrote nothing: its output was opened, and then it died."""

import os

import pyarrow as pa
import pyarrow.parquet as pq


def main():
    os.mkdir("data")
    for part in range(5):
        texts = [f"Birds of the coast, part {number}. " * 40 for number in range(300)]
        pq.write_table(pa.table({"text": texts}), f"data/part-{part:05d}.parquet")
    open("data/part-00003.parquet", "w").close()


main()
