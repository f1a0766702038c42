# expect: file-truncated
# check: data
"""A parquet file whose writer was killed before its footer: the rows are there, and nobody can read them."""

import os

import pyarrow as pa
import pyarrow.parquet as pq


def main():
    os.mkdir("data")
    for part in range(4):
        texts = [f"Birds of the coast, part {number}. " * 40 for number in range(part * 300, part * 300 + 300)]
        pq.write_table(pa.table({"text": texts, "id": range(300)}), f"data/part-{part:05d}.parquet", row_group_size=100)
    os.truncate("data/part-00002.parquet", os.path.getsize("data/part-00002.parquet") - 700)


main()
