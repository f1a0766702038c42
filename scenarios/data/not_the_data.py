# expect: not-the-data
# check: data
"""A repository was cloned without Git LFS: in place of two shards stand the pointers to them."""

import os

import pyarrow as pa
import pyarrow.parquet as pq

POINTER = "version https://git-lfs.github.com/spec/v1\noid sha256:{}\nsize 132871\n"


def main():
    os.mkdir("data")
    for part in range(5):
        texts = [f"Birds of the coast, part {number}. " * 40 for number in range(300)]
        pq.write_table(pa.table({"text": texts}), f"data/part-{part:05d}.parquet")
    for part in (3, 4):
        with open(f"data/part-{part:05d}.parquet", "w") as out:
            out.write(POINTER.format(f"{part}" * 64))


main()
