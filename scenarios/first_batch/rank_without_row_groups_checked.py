# expect: rank-without-row-groups
# check: data --ranks 4
"""Before a training: files with two row groups, for four ranks that will share out row groups."""

import os

import pyarrow as pa
import pyarrow.parquet as pq


def main():
    os.mkdir("data")
    for part in range(6):
        texts = [f"Birds of the coast, part {number}. " * 40 for number in range(200)]
        pq.write_table(pa.table({"text": texts}), f"data/shard_{part:05d}.parquet", row_group_size=100)


main()
